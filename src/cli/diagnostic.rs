//! Draws findings like a compiler: the rule, the place, the line of the text, and a suggestion.

use annotate_snippets::{AnnotationKind, Level, Message, Renderer, Snippet};

use super::visible::{mark_hidden_chars, replace_hidden_chars};
use midex_domain::{
    error::Violation,
    finding::{Finding, Severity, first_line_end},
};

/// Draws the findings of one file, each with its line of the text.
pub fn render(path: &str, text: &str, findings: &[Finding], color: bool) -> String {
    let renderer = make_renderer(color);
    let mut output = String::new();
    for finding in findings {
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let place = (finding.line, finding.start, finding.end);
        output += &render_violation(&renderer, (path, text), level, &finding.to_violation(), place);
        output.push_str("\n\n");
    }
    output
}

fn make_renderer(color: bool) -> Renderer {
    if color { Renderer::styled() } else { Renderer::plain() }
}

/// Draws why a document is refused: each violation with its line, if the line is known.
pub(super) fn render_violations(
    path: &str,
    text: &str,
    violations: &[Violation],
    color: bool,
) -> String {
    let renderer = make_renderer(color);
    let rendered = violations.iter().map(|violation| {
        let (line, start) = locate_violation(text, violation);
        let place = (line, start, first_line_end(text, start, text.len()));
        render_violation(&renderer, (path, text), Level::ERROR, violation, place) + "\n\n"
    });
    rendered.collect()
}

/// The line number of a violation, and the byte offset of the line. A violation with only a JSON pointer is located at
/// the pointer's first key, which most documents have at the beginning of a line.
fn locate_violation(text: &str, violation: &Violation) -> (usize, usize) {
    let lines = || {
        text.split_inclusive('\n').zip(1..).scan(0, |offset, (line, number)| {
            let start = *offset;
            *offset += line.len();
            Some((line, number, start))
        })
    };
    let key = violation.path.split('/').nth(1);
    let line_at = match (violation.line, key) {
        (Some(line_number), _) => lines().find(|(_, number, _)| *number == line_number),
        (None, Some(key)) => lines().find(|(line, ..)| begins_with_key(line, key)),
        (None, None) => None,
    };
    let Some((line, number, start)) = line_at else {
        return (1, 0);
    };
    let indent = line.len() - line.trim_start().len();
    let column = violation.column.map(|column| line.char_indices().nth(column.saturating_sub(1)));
    let column_offset =
        column.map_or(indent, |position| position.map_or(line.len(), |(offset, _)| offset));
    (number, start + column_offset)
}

fn begins_with_key(line: &str, key: &str) -> bool {
    let line = line.trim_start_matches([' ', '{', '"', '\'']);
    let rest = line.strip_prefix(key);
    rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'']).starts_with(':'))
}

/// Draws a violation at a line, given by its number, and the range of bytes from `start` to `end`.
fn render_violation(
    renderer: &Renderer,
    (path, text): (&str, &str),
    level: Level<'static>,
    violation: &Violation,
    (number, start, end): (usize, usize, usize),
) -> String {
    let title = level.primary_title(replace_hidden_chars(&violation.message));
    let title = title.id(&violation.rule);
    // The renderer gets only this line: with the whole file it would search the file again for each violation.
    let (line, offset) = find_line(text, start);
    let start = (start.min(text.len()) - offset).min(line.len());
    let end = end.saturating_sub(offset).clamp(start, line.len());
    let visible_len =
        |byte_offset| replace_invisible(&line[..line.floor_char_boundary(byte_offset)]).len();
    let (start, end) = (visible_len(start), visible_len(end));
    let snippet = Snippet::source(replace_invisible(line))
        .line_start(number)
        .path(replace_hidden_chars(path))
        .annotation(AnnotationKind::Primary.span(start..end));
    let group = title.element(snippet).elements(help_messages(violation));
    renderer.render(&[group])
}

/// Tool names that occur in suggestions, and the commands that replace them for a person.
const TOOL_TO_COMMAND: [(&str, &str); 4] = [
    ("`workflow.start` or `midex run`", "`midex run`"),
    ("catalog.import_openapi", "midex catalog add"),
    ("catalog.set_enabled", "midex catalog enable"),
    ("command.list", "midex call --search"),
];

/// A suggestion for a person: tool names are replaced by commands.
pub(super) fn replace_tools_by_commands(advice: &str) -> String {
    let replace_tool =
        |advice: String, (tool, command): &(&str, &str)| advice.replace(tool, command);
    TOOL_TO_COMMAND.iter().fold(advice.to_owned(), replace_tool)
}

fn help_messages(violation: &Violation) -> Vec<Message<'static>> {
    let expected = violation.expected.as_ref();
    let expected = expected.filter(|expected| !violation.message.contains(expected.as_str()));
    let expected = expected.map(|expected| {
        Level::NOTE.message(format!("expected {}", replace_hidden_chars(expected)))
    });
    let suggestion = violation.suggestion.as_ref();
    let suggestion = suggestion.map(|suggestion| {
        Level::HELP.message(replace_hidden_chars(&replace_tools_by_commands(&suggestion.text)))
    });
    expected.into_iter().chain(suggestion).collect()
}

/// Replaces invisible characters with U+FFFD. Control characters are left to the renderer, which escapes them.
fn replace_invisible(line: &str) -> String {
    let replace = |(c, is_hidden): (char, bool)| {
        let is_invisible = is_hidden && !c.is_control();
        if is_invisible { '\u{fffd}' } else { c }
    };
    mark_hidden_chars(line).map(replace).collect()
}

/// The line that contains the byte offset `offset`, without its line break, and the offset at which the line begins.
fn find_line(text: &str, offset: usize) -> (&str, usize) {
    let offset = text.floor_char_boundary(offset.min(text.len()));
    let start = text[..offset].rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].split('\n').next().unwrap_or_default();
    (line.trim_end_matches('\r'), start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use midex_domain::finding::{Place, Rule};
    use midex_registry::{Registry, Sources};

    /// The output of `midex validate` for a workflow file with this text.
    fn validate_output(name: &str, text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        let registry = Registry::load(&Sources::default());
        let reports = midex_registry::validate_paths(&[path], &registry).unwrap();
        render(name, &reports[0].text, &reports[0].findings, false)
    }

    #[test]
    fn findings_are_shown_in_their_lines() {
        let text = "---\r\nname: w\r\ntags: review\r\ncomplexity: moderat\r\nphases:\r\n  - phase: désign\r\n    agent: architct\r\n    dependsOn: [biuld]\r\n  - phase: build\r\n    agent: implementer\r\n---\r\n";
        insta::assert_snapshot!(validate_output("w.md", text), @r#"
    error[missing_key]: the front matter of a workflow has no `description`
     --> w.md:2:1
      |
    2 | name: w
      | ^

    error[wrong_type]: `tags` must be a list of texts, this is a text
     --> w.md:3:7
      |
    3 | tags: review
      |       ^^^^^^
      |
      = help: write [review]

    error[unknown_value]: `moderat` is not one of simple, moderate, high
     --> w.md:4:13
      |
    4 | complexity: moderat
      |             ^^^^^^^
      |
      = help: did you mean `moderate`?

    error[ill_formed_name]: step id "désign" may hold only letters, digits, `_` and `-`, and may not start with `-`
     --> w.md:6:12
      |
    6 |   - phase: désign
      |            ^^^^^^

    error[missing_persona]: no agent is called `architct`
     --> w.md:7:12
      |
    7 |     agent: architct
      |            ^^^^^^^^
      |
      = help: did you mean `architect`?

    error[unknown_dependency]: no step has the id `biuld`
     --> w.md:8:17
      |
    8 |     dependsOn: [biuld]
      |                 ^^^^^
      |
      = help: did you mean `build`?
    "#);
    }

    #[test]
    fn a_manifest_is_shown_like_front_matter() {
        let text = "workflow: w\ndescription: d\nsteps:\n  - id: a\n    agent: reviewer\n    depends_on: [b]\n  - id: b\n    gate: {ask: Go?}\n    depends-on: [a]\n";
        insta::assert_snapshot!(validate_output("w.yaml", text), @r#"
    error[unknown_key]: a step has no key `depends-on`
     --> w.yaml:9:5
      |
    9 |     depends-on: [a]
      |     ^^^^^^^^^^
      |
      = help: did you mean `depends_on`?

    error[cyclic_dependency]: these steps wait for each other: a → b → a
     --> w.yaml:9:18
      |
    9 |     depends-on: [a]
      |                  ^
    "#);
    }

    #[test]
    fn a_broken_document_is_shown_where_it_breaks() {
        insta::assert_snapshot!(validate_output("w.yaml", "workflow: w\nsteps: [a, b\ndescription: d\n"), @r#"
    error[syntax]: illegal placement of ':' indicator
     --> w.yaml:3:12
      |
    3 | description: d
      |            ^
    "#);
        insta::assert_snapshot!(validate_output("w.json", "{\"workflow\": \"w\",}"), @r#"
    error[syntax]: a comma stands before the end
     --> w.json:1:17
      |
    1 | {"workflow": "w",}
      |                 ^
      |
      = help: remove the comma
    "#);
        insta::assert_snapshot!(validate_output("w.md", ""), @r#"
    error[missing_front_matter]: the file does not begin with front matter
     --> w.md:1:1
      |
    1 |
      | ^
      |
      = help: begin it with a line `---`, the keys, and another line `---`
    "#);
    }

    #[test]
    fn text_cannot_control_terminal() {
        let finding = Finding::new(Rule::UnknownKey, "", Place::START, "\u{1b}[31mred\nline");
        let rendering = render("w.md", "\u{1b}[2Jx", &[finding], false);
        assert!(!rendering.contains('\u{1b}'), "{rendering:?}");
    }
}
