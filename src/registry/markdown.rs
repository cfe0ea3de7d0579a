//! Markdown with front matter: YAML between two lines of `---`, then the body.

use midex_domain::{
    draft::{MarkdownHeading, StepSection},
    finding::{Finding, Place, Rule, first_line_end},
    node::{DocumentNode, LocatedValue},
};

use super::{lenient, sections, yaml};

/// A parsed Markdown file.
#[derive(Debug)]
pub(super) struct Markdown {
    /// The front matter.
    pub(super) front: DocumentNode,
    /// The body, with `
    /// ` line ends and without empty lines around it.
    pub(super) body: LocatedValue<String>,
    /// The sections of the body that belong to steps.
    pub(super) sections: Vec<StepSection>,
    /// The other headings of the body.
    pub(super) headings: Vec<MarkdownHeading>,
}

/// Whether the text begins with front matter.
pub(super) fn has_front_matter(text: &str) -> bool {
    text.lines().next().is_some_and(is_fence)
}

/// Whether the text begins with front matter that is closed, which distinguishes it from plain YAML.
pub(super) fn has_closed_front_matter(text: &str) -> bool {
    has_front_matter(text) && find_closing_fence(text).is_some()
}

/// Splits a Markdown file and parses its front matter.
pub(super) fn parse(text: &str) -> Result<Markdown, Box<Finding>> {
    let (front, body_start) = split_front_matter(text)?;
    Ok(Markdown::from_parts(text, yaml::parse(front)?, body_start))
}

/// Like [`parse`], for an agent's file. Front matter that is not valid YAML is accepted with a warning.
pub(super) fn parse_persona(text: &str) -> Result<(Markdown, Option<Finding>), Box<Finding>> {
    let (front, body_start) = split_front_matter(text)?;
    let (front, warning) = match yaml::parse(front) {
        Ok(front) => (front, None),
        Err(refusal) => {
            let (front, warning) = lenient::read_front_matter(front).ok_or(refusal)?;
            (front, Some(warning))
        }
    };
    Ok((Markdown::from_parts(text, front, body_start), warning))
}

/// The front matter including its opening fence, and the offset of the body.
fn split_front_matter(text: &str) -> Result<(&str, usize), Box<Finding>> {
    if !has_front_matter(text) {
        let place = Place::from_bytes(text, 0, text.len());
        return Err(Finding::new(
            Rule::MissingFrontMatter,
            "",
            place,
            "the file does not begin with front matter",
        )
        .suggest("begin it with a line `---`, the keys, and another line `---`".to_owned())
        .into());
    }
    let Some((front_end, body_start)) = find_closing_fence(text) else {
        let place = Place::from_bytes(text, 0, first_line_end(text, 0, text.len()));
        return Err(Finding::new(
            Rule::UnclosedFrontMatter,
            "",
            place,
            "the front matter that begins here has no end",
        )
        .suggest("close it with a line `---`".to_owned())
        .into());
    };
    // Keep the opening fence: YAML reads it as the start of a document, and all offsets stay correct.
    Ok((&text[..front_end], body_start))
}

impl Markdown {
    fn from_parts(text: &str, front: DocumentNode, body_start: usize) -> Self {
        let body = text[body_start..].trim_matches(['\r', '\n']).trim_end();
        let (sections, headings) = sections::parse_sections(text, body_start);
        Self {
            front,
            body: LocatedValue {
                value: body.replace("\r\n", "\n"),
                path: String::new(),
                place: Place::from_bytes(text, body_start, body_start),
            },
            sections,
            headings,
        }
    }
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// The offsets where the front matter ends and where the body begins.
fn find_closing_fence(text: &str) -> Option<(usize, usize)> {
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number > 0 && is_fence(line) {
            return Some((offset, offset + line.len()));
        }
        offset += line.len();
    }
    None
}
