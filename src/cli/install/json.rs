//! Edits single values of a JSON text that people edit too. Every byte outside these values is kept: comments, order,
//! indentation, line ends. The parser supplies the positions, and the text is spliced there.
//!
//! A path is a list of names; for an array, the name is an index.

use std::ops::Range;

use jsonc_parser::{ParseOptions, ast::Value as Node, common::Ranged, parse_to_ast};
use serde::Serialize;
use serde_json::{Value, json, ser::PrettyFormatter};

use super::Fault;

/// The indentation per level if the text shows none.
const INDENT: &str = "  ";

/// The characters that indent a line.
const BLANKS: [char; 2] = [' ', '\t'];

/// The value of the text; an empty object if the text holds no value.
pub(super) fn read(text: &str) -> Result<Value, Fault> {
    Ok(parse(text)?.map_or_else(|| json!({}), Value::from))
}

/// The text with this value at `path`; missing objects on the path are created.
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, Fault> {
    let text = &with_root(text)?;
    match find(text, path)? {
        Found::Value(node) if Value::from(node.clone()) == *value => Ok(text.clone()),
        Found::Value(node) => {
            let (start, end) = (node.range().start, node.range().end);
            let lines = text[start..end].contains('\n');
            let layout = lines.then(|| indent_at(text, start));
            Ok(spliced(text, start..end, &written(text, value, layout)))
        }
        Found::Missing(container, rest) => {
            let (name, below) = rest.split_first().unwrap_or((&"", &[]));
            let around = |value: Value, name: &&str| json!({ *name: value });
            let value = below.iter().rev().fold(value.clone(), around);
            Ok(inserted(text, &container, Some(name), &value))
        }
    }
}

/// The text with this value appended to the array at `path`, which is created if missing.
pub(super) fn push(text: &str, path: &[&str], value: &Value) -> Result<String, Fault> {
    let text = &with_root(text)?;
    match find(text, path)? {
        Found::Value(node @ Node::Array(_)) => {
            Ok(inserted(text, &Container::of(&node, path)?, None, value))
        }
        Found::Value(node) => Err(not_a(&node, path, "an array")),
        Found::Missing(..) => set(text, path, &json!([value])),
    }
}

/// The text without the value at `path`; unchanged if there is none.
pub(super) fn unset(text: &str, path: &[&str]) -> Result<String, Fault> {
    let (Some((name, above)), true) = (path.split_last(), parse(text)?.is_some()) else {
        return Ok(text.to_owned());
    };
    let Found::Value(parent) = find(text, above)? else {
        return Ok(text.to_owned());
    };
    let container = Container::of(&parent, above)?;
    let without = child(&parent, name).map(|(index, _)| removed(text, &container, index));
    Ok(without.unwrap_or_else(|| text.to_owned()))
}

fn parse(text: &str) -> Result<Option<Node<'_>>, Fault> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &jsonc_parser::CollectOptions::default(), &options);
    let parsed = parsed.map_err(|error| Fault {
        at: error.range().start,
        says: error.kind().to_string().to_lowercase(),
    })?;
    match parsed.value {
        Some(root) if root.as_object().is_none() => Err(not_a(&root, &[], "an object")),
        root => Ok(root),
    }
}

/// The text with an empty object appended if it holds no value.
fn with_root(text: &str) -> Result<String, Fault> {
    if parse(text)?.is_some() {
        return Ok(text.to_owned());
    }
    let newline = newline(text);
    let is_apart = text.is_empty() || text.ends_with('\n');
    let apart = if is_apart { "" } else { newline };
    Ok(format!("{text}{apart}{{}}{newline}"))
}

/// The result of following a path.
enum Found<'a, 'p> {
    Value(Node<'a>),
    /// The path ends early: this container lacks the first name of the rest.
    Missing(Container, &'p [&'p str]),
}

/// Follows a path as far as it exists.
fn find<'a, 'p>(text: &'a str, path: &'p [&'p str]) -> Result<Found<'a, 'p>, Fault> {
    let Some(mut node) = parse(text)? else {
        return Err(Fault {
            at: 0,
            says: "it says nothing".to_owned(),
        });
    };
    for (depth, name) in path.iter().enumerate() {
        let container = Container::of(&node, &path[..depth])?;
        match child(&node, name) {
            Some((_, below)) => node = below,
            None if node.as_array().is_some() => {
                return Err(not_a(&node, &path[..depth], "an object"));
            }
            None => return Ok(Found::Missing(container, &path[depth..])),
        }
    }
    Ok(Found::Value(node))
}

/// The child with this name, and its index. If a name occurs several times the last one counts, as it does for the host
/// that reads the file.
fn child<'a>(node: &Node<'a>, name: &str) -> Option<(usize, Node<'a>)> {
    match node {
        Node::Object(object) => {
            let index = object
                .properties
                .iter()
                .rposition(|it| it.name.as_str() == name)?;
            Some((index, object.properties[index].value.clone()))
        }
        Node::Array(array) => {
            let index = name.parse().ok()?;
            Some((index, array.elements.get(index)?.clone()))
        }
        _ => None,
    }
}

/// The positions of an object or array in the text: its brackets, and its children including their names.
struct Container {
    open: usize,
    close: usize,
    children: Vec<Range<usize>>,
}

impl Container {
    fn of(node: &Node<'_>, path: &[&str]) -> Result<Self, Fault> {
        let span = |it: &dyn Ranged| it.range().start..it.range().end;
        let children = match node {
            Node::Object(object) => object.properties.iter().map(|it| span(it)).collect(),
            Node::Array(array) => array.elements.iter().map(|it| span(it)).collect(),
            _ => return Err(not_a(node, path, "an object")),
        };
        let (open, close) = (node.range().start, node.range().end - 1);
        Ok(Self {
            open,
            close,
            children,
        })
    }

    /// Whether its children are on lines of their own.
    fn has_lines(&self, text: &str) -> bool {
        let first = self
            .children
            .first()
            .map_or(self.close, |first| first.start);
        text[self.open..first].contains('\n')
    }
}

fn not_a(node: &Node<'_>, path: &[&str], wanted: &str) -> Fault {
    let place = if path.is_empty() {
        "the whole".to_owned()
    } else {
        format!("`{}`", path.join("."))
    };
    Fault {
        at: node.range().start,
        says: format!("{place} is not {wanted}"),
    }
}

/// The text with one more child at the end of a container, formatted like the last one.
fn inserted(text: &str, container: &Container, name: Option<&str>, value: &Value) -> String {
    let newline = newline(text);
    let entry = |indent: Option<&str>| {
        let value = written(text, value, indent);
        name.map_or(value.clone(), |name| {
            format!("{}: {value}", Value::from(name))
        })
    };
    let Some(last) = container.children.last() else {
        let inner = &text[container.open + 1..container.close];
        let from = container.open + 1 + inner.trim_end().len();
        let outside = indent_at(text, container.open);
        let inside = format!("{outside}{}", unit(text));
        let entry = entry(Some(&inside));
        return spliced(
            text,
            from..container.close,
            &format!("{newline}{inside}{entry}{newline}{outside}"),
        );
    };
    if !container.has_lines(text) {
        return spliced(text, last.end..last.end, &format!(", {}", entry(None)));
    }
    let inside = indent_at(text, container.children[0].start);
    let entry = entry(Some(inside));
    if let Some(comma) = comma(text, last.end..container.close) {
        let end = after_comments(text, comma + 1);
        return spliced(text, end..end, &format!("{newline}{inside}{entry},"));
    }
    let end = after_comments(text, last.end);
    let text = spliced(text, end..end, &format!("{newline}{inside}{entry}"));
    spliced(&text, last.end..last.end, ",")
}

/// The text without one child of a container, and without the comma that separated it.
fn removed(text: &str, container: &Container, index: usize) -> String {
    let mut cut = container.children[index].clone();
    let behind = comma(text, cut.end..container.close);
    let above = index
        .checked_sub(1)
        .map(|above| container.children[above].end);
    let before = above.and_then(|end| comma(text, end..cut.start));
    let is_last = index + 1 == container.children.len();
    // On a shared line, removing the last child removes the comma before it, so that a trailing comma stays.
    let before = before.filter(|_| is_last && (behind.is_none() || !container.has_lines(text)));
    let mut other = before.or(behind).map(|at| at..at + 1);
    let is_next = |at: &Range<usize>| at.end > cut.end && text[cut.end..at.start].trim().is_empty();
    if let Some(comma) = other.take_if(|at| is_next(at)) {
        cut.end = comma.end;
    }
    let inner = container.open + 1..container.close;
    let rest = [&text[inner.start..cut.start], &text[cut.end..inner.end]];
    if rest.iter().all(|rest| rest.trim().is_empty()) {
        return spliced(text, inner, "");
    }
    let mut cuts = vec![widened(text, cut, before.is_some())];
    cuts.extend(other);
    cuts.sort_by_key(|cut| cut.start);
    let without = |text: String, cut: &Range<usize>| spliced(&text, cut.clone(), "");
    cuts.iter().rev().fold(text.to_owned(), without)
}

/// Extends a cut to the whole line if nothing else is on it, else by the blanks before or after it.
fn widened(text: &str, cut: Range<usize>, before: bool) -> Range<usize> {
    let line = line_start(text, cut.start);
    let (head, tail) = (&text[line..cut.start], &text[cut.end..]);
    let end = tail.find('\n').filter(|end| tail[..*end].trim().is_empty());
    match end.filter(|_| head.trim().is_empty()) {
        Some(end) => line..cut.end + end + 1,
        None if before => line + head.trim_end_matches(BLANKS).len()..cut.end,
        None => cut.start..text.len() - tail.trim_start_matches(BLANKS).len(),
    }
}

/// The position of the comma in a range that begins after a value.
fn comma(text: &str, stretch: Range<usize>) -> Option<usize> {
    let mut rest = text[stretch.clone()].trim_start();
    while let Some(length) = comment(rest) {
        rest = rest[length..].trim_start();
    }
    rest.starts_with(',').then(|| stretch.end - rest.len())
}

/// The end of the comments that follow on the same line.
fn after_comments(text: &str, at: usize) -> usize {
    let mut end = at;
    loop {
        let rest = text[end..].trim_start_matches(BLANKS);
        let Some(length) = comment(rest) else {
            return end;
        };
        end = text.len() - rest.len() + length;
    }
}

/// The length of the comment at the beginning of the text.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("/*") {
        return text.find("*/").map(|end| end + 2);
    }
    let line = text.lines().next().filter(|line| line.starts_with("//"));
    line.map(str::len)
}

/// Formats a value: indented if an indentation is given, else in one line.
fn written(text: &str, value: &Value, indent: Option<&str>) -> String {
    let Some(indent) = indent else {
        return value.to_string();
    };
    let mut bytes = Vec::new();
    let unit = unit(text);
    let formatter = PrettyFormatter::with_indent(unit.as_bytes());
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    let is_written = value.serialize(&mut writer).is_ok();
    let lines = String::from_utf8(bytes).ok().filter(|_| is_written);
    lines.map_or_else(
        || value.to_string(),
        |lines| lines.replace('\n', &format!("{}{indent}", newline(text))),
    )
}

/// The indentation per level: that of the first child of the root.
fn unit(text: &str) -> String {
    let root = parse(text).ok().flatten();
    let root = root.and_then(|root| Container::of(&root, &[]).ok());
    let first = root
        .filter(|root| root.has_lines(text))
        .and_then(|root| root.children.first().cloned());
    let indent = first
        .map(|first| indent_at(text, first.start))
        .filter(|indent| !indent.is_empty());
    indent.unwrap_or(INDENT).to_owned()
}

/// The line end that the text uses.
pub(super) fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The indentation of the line that contains this position.
fn indent_at(text: &str, at: usize) -> &str {
    let rest = &text[line_start(text, at)..at];
    &rest[..rest.len() - rest.trim_start_matches(BLANKS).len()]
}

/// The start of the line that contains this position.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The text with a range replaced.
pub(super) fn spliced(text: &str, stretch: Range<usize>, with: &str) -> String {
    [&text[..stretch.start], with, &text[stretch.end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with an object `servers`, in many formatting styles.
    fn texts() -> Vec<String> {
        let mut texts = Vec::new();
        for newline in ["\n", "\r\n", " "] {
            for indent in ["  ", "\t", ""] {
                for (comma, comment) in [("", ""), (",", ""), ("", " /* , */"), (",", " /* } */")] {
                    for servers in 0..3 {
                        let servers =
                            (0..servers).map(|n| format!("{indent}{indent}\"{n}\": [{n}]"));
                        let mut servers = servers.collect::<Vec<_>>().join(&format!(",{newline}"));
                        if !servers.is_empty() {
                            servers =
                                format!("{newline}{servers}{comma}{comment}{newline}{indent}");
                        }
                        texts.push(format!(
                            "{{{newline}{indent}\"a\": 1,{newline}{indent}\"servers\": {{{servers}}}{comma}{comment}{newline}}}{newline}"
                        ));
                    }
                }
            }
        }
        texts.extend(
            texts
                .clone()
                .iter()
                .filter(|text| text.contains('\n'))
                .map(|text| text.replace(" /* } */", " // }\t")),
        );
        texts
    }

    #[test]
    fn what_was_put_in_is_all_that_changes_and_taking_it_out_gives_every_byte_back() {
        for text in texts() {
            let value = json!({ "command": "/x", "args": ["a\"\n"] });
            let with = set(&text, &["servers", "midex"], &value).expect("JSON");
            let mut expected = read(&text).expect("JSON");
            expected["servers"]["midex"] = value.clone();
            assert_eq!(
                read(&with).expect("JSON"),
                expected,
                "{text:?} became {with:?}"
            );
            assert_eq!(
                set(&with, &["servers", "midex"], &value).expect("JSON"),
                with
            );
            let without = unset(&with, &["servers", "midex"]).expect("JSON");
            assert_eq!(without, text, "by way of {with:?}");
        }
    }

    #[test]
    fn any_child_can_be_taken_out_and_the_others_stay() {
        for text in texts() {
            for path in [
                &["a"][..],
                &["servers"],
                &["servers", "0"],
                &["servers", "1"],
            ] {
                let without = unset(&text, path).expect("JSON");
                let mut expected = read(&text).expect("JSON");
                let (name, above) = path.split_last().expect("a name");
                let above = above
                    .iter()
                    .try_fold(&mut expected, |at, name| at.get_mut(*name));
                above
                    .and_then(Value::as_object_mut)
                    .map(|above| above.shift_remove(*name));
                assert_eq!(
                    read(&without).expect("JSON"),
                    expected,
                    "{text:?} became {without:?}"
                );
                let comments = |text: &str| text.matches("/*").count() + text.matches("//").count();
                if path.len() == 2 {
                    assert_eq!(
                        comments(&without),
                        comments(&text),
                        "{text:?} became {without:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn any_number_of_comments_may_follow() {
        let comments = "/**/".repeat(200_000);
        let text = format!("{{\n\"a\": 1{comments}\n}}");
        let with = set(&text, &["b"], &json!(2)).expect("JSON");
        assert_eq!(with, format!("{{\n\"a\": 1,{comments}\n\"b\": 2\n}}"));
        assert_eq!(unset(&with, &["b"]).expect("JSON"), text);
    }

    #[test]
    fn of_two_fields_of_one_name_the_last_one_counts() {
        let text = r#"{"a": 1, "a": {"b": 2}}"#;
        assert_eq!(
            set(text, &["a", "b"], &json!(3)).expect("JSON"),
            r#"{"a": 1, "a": {"b": 3}}"#
        );
    }

    #[test]
    fn a_text_that_says_nothing_begins_with_an_object() {
        for (text, expected) in [
            ("", "{\n  \"a\": 1\n}\n"),
            ("// c", "// c\n{\n  \"a\": 1\n}\n"),
            ("/* c */\r\n", "/* c */\r\n{\r\n  \"a\": 1\r\n}\r\n"),
        ] {
            assert_eq!(set(text, &["a"], &json!(1)).expect("JSON"), expected);
            assert_eq!(unset(text, &["a"]).expect("JSON"), text);
        }
    }
}
