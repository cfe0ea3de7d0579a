//! Markdown with front matter: YAML between two lines of `---`, then the body.

use midex_domain::{
    draft::{Heading, Section},
    finding::{Finding, Place, Rule, first_line_end},
    node::{At, Node},
};

use super::{lenient, sections, yaml};

/// The two parts of a file.
#[derive(Debug)]
pub(super) struct Markdown {
    /// The front matter.
    pub(super) front: Node,
    /// What follows it, with `\n` line ends, without the empty lines around it.
    pub(super) body: At<String>,
    /// The sections of it that belong to steps.
    pub(super) sections: Vec<Section>,
    /// The other headings of it.
    pub(super) headings: Vec<Heading>,
}

/// Whether the text begins with front matter.
pub(super) fn has_front_matter(text: &str) -> bool {
    text.lines().next().is_some_and(is_fence)
}

/// Whether the text begins with front matter that has an end, as no YAML alone does.
pub(super) fn is_closed(text: &str) -> bool {
    has_front_matter(text) && closing_fence(text).is_some()
}

/// Splits a file and reads its front matter.
pub(super) fn parse(text: &str) -> Result<Markdown, Box<Finding>> {
    let (front, body_start) = split(text)?;
    Ok(Markdown::of(text, yaml::parse(front)?, body_start))
}

/// The same of an agent's file, whose front matter need be no YAML: with a warning, where it is none.
pub(super) fn parse_persona(text: &str) -> Result<(Markdown, Option<Finding>), Box<Finding>> {
    let (front, body_start) = split(text)?;
    let (front, warning) = match yaml::parse(front) {
        Ok(front) => (front, None),
        Err(refusal) => {
            let (front, warning) = lenient::read(front).ok_or(refusal)?;
            (front, Some(warning))
        }
    };
    Ok((Markdown::of(text, front, body_start), warning))
}

/// The front matter with its opening fence, and where the body begins.
fn split(text: &str) -> Result<(&str, usize), Box<Finding>> {
    if !has_front_matter(text) {
        let place = Place::of(text, 0, text.len());
        return Err(Finding::new(
            Rule::MissingFrontMatter,
            "",
            place,
            "the file does not begin with front matter",
        )
        .suggest("begin it with a line `---`, the keys, and another line `---`".to_owned())
        .into());
    }
    let Some((front_end, body_start)) = closing_fence(text) else {
        let place = Place::of(text, 0, first_line_end(text, 0, text.len()));
        return Err(Finding::new(
            Rule::UnclosedFrontMatter,
            "",
            place,
            "the front matter that begins here has no end",
        )
        .suggest("close it with a line `---`".to_owned())
        .into());
    };
    // The opening fence stays: to YAML it is the start of a document, and every place is right.
    Ok((&text[..front_end], body_start))
}

impl Markdown {
    fn of(text: &str, front: Node, body_start: usize) -> Self {
        let body = text[body_start..].trim_matches(['\r', '\n']).trim_end();
        let (sections, headings) = sections::sections(text, body_start);
        Self {
            front,
            body: At {
                value: body.replace("\r\n", "\n"),
                path: String::new(),
                place: Place::of(text, body_start, body_start),
            },
            sections,
            headings,
        }
    }
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Where the front matter ends and where the body begins.
fn closing_fence(text: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number > 0 && is_fence(line) {
            return Some((at, at + line.len()));
        }
        at += line.len();
    }
    None
}
