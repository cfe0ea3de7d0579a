//! Finds the sections `## step: ID` of a Markdown body, which hold the instructions of steps. Other headings are
//! collected too, so that the check can report those that almost name a step.

use std::cell::LazyCell;

use midex_domain::{
    draft::{MarkdownHeading, StepSection},
    finding::LineTable,
    node::LocatedValue,
};

/// An open code fence: its character, and how many of them opened it.
type SectionFence = (char, usize);

/// The sections and other headings of the body that begins at byte `body` of `text`. A section ends at the next heading
/// of its level or above. Lines inside code fences are never headings.
pub(super) fn parse_sections(text: &str, body: usize) -> (Vec<StepSection>, Vec<MarkdownHeading>) {
    // Build the line table only if needed, since most bodies have no sections.
    let lines = LazyCell::new(|| LineTable::new(text));
    let mut sections: Vec<(LocatedValue<String>, usize, usize)> = Vec::new();
    let mut headings = Vec::new();
    let mut fence: Option<SectionFence> = None;
    let mut is_in_section = false;
    let mut offset = body;
    for line in text[body..].split_inclusive('\n') {
        let (start, end) = (offset, offset + line.len());
        offset = end;
        let make_heading = |title: &str, is_inside| MarkdownHeading {
            title: title.to_owned(),
            source: LocatedValue {
                value: line.trim_end().to_owned(),
                path: line.trim().to_owned(),
                place: lines.place_of_bytes(start, end),
            },
            is_inside,
        };
        if let Some(fence_open) = fence {
            if is_closing_fence(line, fence_open) {
                fence = None;
            }
        } else if let Some(open) = parse_opening_fence(line) {
            fence = Some(open);
        } else if let Some((level, title)) = parse_heading(line)
            && level <= 2
        {
            let step = parse_step_heading(level, title)
                .map(|id| locate_step_id(&lines, start + compute_offset(line, id), id));
            is_in_section = step.is_some();
            headings.extend(step.is_none().then(|| make_heading(title, false)));
            sections.extend(step.map(|step| (step, end, end)));
            continue;
        } else if let Some(title) = parse_loose_heading(line) {
            headings.push(make_heading(title, is_in_section));
        }
        if is_in_section && let Some((_, _, section_end)) = sections.last_mut() {
            *section_end = end;
        }
    }
    let make_section = |(step, from, until): (LocatedValue<String>, usize, usize)| StepSection {
        text: extract_section_text(&lines, from, until, &step),
        step,
    };
    (sections.into_iter().map(make_section).collect(), headings)
}

/// The title of a deeper heading, or of one without a space after its `#` characters.
fn parse_loose_heading(line: &str) -> Option<&str> {
    let hash_prefix = || strip_indentation(line).filter(|line| line.starts_with('#'));
    let loose_title = || Some(hash_prefix()?.trim().trim_matches('#').trim());
    parse_heading(line).map(|(_, title)| title).or_else(loose_title)
}

/// The text between two byte offsets, without empty lines around it.
fn extract_section_text(
    lines: &LineTable<'_>,
    from: usize,
    until: usize,
    step: &LocatedValue<String>,
) -> LocatedValue<String> {
    let full_text = &lines.text()[from..until];
    let trimmed = full_text.trim_start_matches(['\r', '\n']);
    let start = until - trimmed.len();
    LocatedValue {
        value: trimmed.trim_end().replace("\r\n", "\n"),
        path: step.path.clone(),
        place: lines.place_of_bytes(start, until),
    }
}

fn locate_step_id(lines: &LineTable<'_>, start: usize, id: &str) -> LocatedValue<String> {
    LocatedValue {
        value: id.to_owned(),
        path: format!("## step: {id}"),
        place: lines.place_of_bytes(start, start + id.len()),
    }
}

/// The byte offset of `part` within `line`.
fn compute_offset(line: &str, part: &str) -> usize {
    part.as_ptr().addr() - line.as_ptr().addr()
}

/// A line without its indentation. `None` if it is indented deep enough to be a code block.
fn strip_indentation(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ');
    (line.len() - rest.len() < 4).then_some(rest)
}

/// The level and the title of a heading.
fn parse_heading(line: &str) -> Option<(usize, &str)> {
    let line = strip_indentation(line)?;
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let has_space = title.is_empty() || title.starts_with([' ', '\t', '\r', '\n']);
    if !(1..=6).contains(&level) || !has_space {
        return None;
    }
    let title = title.trim();
    // Closing `#` characters must be separated from the title by a space.
    let without_hashes = title.trim_end_matches('#');
    let title = if without_hashes.ends_with([' ', '\t']) || without_hashes.is_empty() {
        without_hashes
    } else {
        title
    };
    Some((level, title.trim()))
}

/// The id in a heading of the form `## step: ID`.
fn parse_step_heading(level: usize, title: &str) -> Option<&str> {
    let id = title.strip_prefix("step:").filter(|_| level == 2)?;
    Some(id.trim())
}

fn parse_opening_fence(line: &str) -> Option<SectionFence> {
    let line = strip_indentation(line)?;
    let sign = line.chars().next().filter(|sign| ['`', '~'].contains(sign))?;
    let rest = line.trim_start_matches(sign);
    let length = line.len() - rest.len();
    // Inline code may also start with three backticks, but then backticks occur again in the same line.
    (length >= 3 && !(sign == '`' && rest.contains('`'))).then_some((sign, length))
}

fn is_closing_fence(line: &str, (sign, length): SectionFence) -> bool {
    let Some(line) = strip_indentation(line) else {
        return false;
    };
    let rest = line.trim_start_matches(sign);
    line.len() - rest.len() >= length && rest.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_sections(text: &str) -> Vec<(String, String)> {
        let sections = parse_sections(text, 0).0.into_iter();
        sections.map(|section| (section.step.value, section.text.value)).collect()
    }

    fn owned_pair(id: &str, text: &str) -> (String, String) {
        (id.to_owned(), text.to_owned())
    }

    #[test]
    fn a_section_ends_at_the_next_heading_of_its_level() {
        let text = "intro\n## step: a\n\nfirst\n\n### part\nmore\n## Notes\nnot this\n   ## step:  b ##\r\nx\r\n\r\n# End\ny\n";
        assert_eq!(
            read_sections(text),
            [owned_pair("a", "first\n\n### part\nmore"), owned_pair("b", "x")]
        );
        assert_eq!(
            read_sections("## step: a\n## step: b"),
            [owned_pair("a", ""), owned_pair("b", "")]
        );
    }

    #[test]
    fn code_is_no_heading() {
        let fenced = "## step: a\n```md\n## step: b\n~~~\n````\n## step: c\n";
        assert_eq!(
            read_sections(fenced),
            [owned_pair("a", "```md\n## step: b\n~~~\n````"), owned_pair("c", "")]
        );
        let code = "## step: a\n    ## step: b\n~~~~\n## step: c\n~~~\n## step: d";
        assert_eq!(read_sections(code).len(), 1, "{:?}", read_sections(code));
        let inline = "## step: a\n```x``` y\n## step: b\n";
        assert_eq!(read_sections(inline).len(), 2);
    }

    #[test]
    fn only_step_headings_begin_steps() {
        for text in
            ["# step: a", "### step: a", "##step: a", "## steps: a", "## Step a", "text ## step: a"]
        {
            assert_eq!(read_sections(text), [], "{text}");
        }
    }

    #[test]
    fn the_place_is_that_of_the_id_in_the_file() {
        let text = "---\nx: 1\n---\n\n## step:  réview\ntext\n";
        let place = parse_sections(text, 12).0[0].step.place;
        assert_eq!((place.line, place.column), (5, 11));
        assert_eq!(&text[place.start..place.end], "réview");
    }
}
