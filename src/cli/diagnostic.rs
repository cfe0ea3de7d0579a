//! Findings as a compiler shows them: the rule, the place, the line itself and what to write instead.

use annotate_snippets::{AnnotationKind, Level, Message, Renderer, Snippet};

use crate::domain::finding::Finding;

/// The findings of one file, drawn into its text.
pub fn render(path: &str, text: &str, findings: &[Finding], color: bool) -> String {
    let renderer = if color {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut drawn = String::new();
    for finding in findings {
        drawn.push_str(&one(&renderer, path, text, finding));
        drawn.push_str("\n\n");
    }
    drawn
}

fn one(renderer: &Renderer, path: &str, text: &str, finding: &Finding) -> String {
    let message = visible(&finding.message);
    let title = Level::ERROR
        .primary_title(message)
        .id(finding.rule.as_str());
    // Only the line itself is handed over: where it stands in the file is known already, and a long
    // file with many findings would be searched for each of them.
    let (line, offset) = line_of(text, finding.start);
    let start = (finding.start.min(text.len()) - offset).min(line.len());
    let end = finding.end.saturating_sub(offset).clamp(start, line.len());
    let snippet = Snippet::source(line)
        .line_start(finding.line)
        .path(path)
        .annotation(AnnotationKind::Primary.span(start..end));
    let group = title.element(snippet).elements(help(finding));
    renderer.render(&[group])
}

fn help(finding: &Finding) -> Vec<Message<'static>> {
    let expected = finding
        .expected
        .as_ref()
        .filter(|expected| !finding.message.contains(expected.as_str()))
        .map(|expected| Level::NOTE.message(format!("expected {}", visible(expected))));
    let suggestion = finding
        .suggestion
        .as_ref()
        .map(|suggestion| Level::HELP.message(visible(suggestion)));
    expected.into_iter().chain(suggestion).collect()
}

/// What a file says must not steer the terminal it is shown on.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// The line that holds the byte at `at`, without its end, and where it begins.
fn line_of(text: &str, at: usize) -> (&str, usize) {
    let at = text.floor_char_boundary(at.min(text.len()));
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].split('\n').next().unwrap_or_default();
    (line.trim_end_matches('\r'), start)
}
