//! Parses YAML and JSON into a tree with source places. The only module that uses the YAML library. Booleans are strict
//! (`off` and `no` are texts), budgets are small, and a syntax error becomes a finding.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{
    Error, Options, Spanned,
    options::{DuplicateKeyPolicy, MergeKeyPolicy},
};

use super::yaml_fixes;
use midex_domain::{
    finding::{Finding, Place, Rule, first_line_end},
    limits,
    node::{DocumentNode, MappingEntry, NodeContent},
};

/// Parses a YAML document. Empty text is an empty mapping.
pub(super) fn parse(text: &str) -> Result<DocumentNode, Box<Finding>> {
    let parse_text = |text: &str| {
        let value = read_yaml(text).map_err(|error| Box::new(syntax_finding(text, &error)))?;
        build_document(text, value)
    };
    parse_text(text).map_err(|finding| {
        let check_text = |text: &str| parse_text(text).map(|_| ());
        Box::new(yaml_fixes::suggest_syntax_fix(text, *finding, check_text))
    })
}

fn read_yaml(text: &str) -> Result<Spanned<LooseValue>, Error> {
    serde_saphyr::from_str_with_options(text, yaml_options())
}

fn build_document(text: &str, value: Spanned<LooseValue>) -> Result<DocumentNode, Box<Finding>> {
    let mut node = build_node(text, value)?;
    if node.content == NodeContent::Null {
        node = DocumentNode { content: NodeContent::Map(Vec::new()), place: Place::START };
    }
    Ok(node)
}

/// Parses a JSON document. `serde_json` runs first, since it refuses what JSON forbids but YAML allows.
pub(super) fn parse_json(text: &str) -> Result<DocumentNode, Box<Finding>> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line().max(1), error.column().max(1));
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        let place = locate_line_column(text, line, column);
        Box::new(
            lenient_json_finding(text, place)
                .unwrap_or_else(|| Finding::new(Rule::Syntax, "", place, words)),
        )
    })?;
    match read_yaml(text) {
        Ok(value) => build_document(text, value),
        // JSON writes some characters as surrogate escapes that the YAML reader cannot parse. Such a text is accepted,
        // but has no places.
        Err(_) if has_surrogate_escape(text) && is_within_limits(&value) => {
            Ok(build_json_node(value))
        }
        Err(error) => Err(Box::new(syntax_finding(text, &error))),
    }
}

/// The finding for syntax that only lenient JSON readers accept: a comment, or a trailing comma.
fn lenient_json_finding(text: &str, at: Place) -> Option<Finding> {
    let (before, rest) = text.split_at_checked(at.start)?;
    let (at, message, hint) = if rest.starts_with("//") || rest.starts_with("/*") {
        let hint = "remove the comment, or name the file `.yaml` and write `#` for it";
        (at, "JSON has no comments", hint)
    } else {
        let comma = before.trim_end().strip_suffix(',')?.len();
        let place =
            rest.starts_with(['}', ']']).then(|| Place::from_bytes(text, comma, comma + 1))?;
        (place, "a comma stands before the end", "remove the comma")
    };
    Some(Finding::new(Rule::Syntax, "", at, message).suggest(hint.to_owned()))
}

/// Whether `text` contains a surrogate escape, which JSON uses for characters beyond U+FFFF.
fn has_surrogate_escape(text: &str) -> bool {
    text.match_indices("\\u").any(|(at, _)| {
        let digits = text.get(at + 2..at + 4).map(str::to_ascii_lowercase);
        digits.is_some_and(|digits| ("d8"..="df").contains(&digits.as_str()))
    })
}

/// Whether `value` is within the budgets of the YAML reader.
fn is_within_limits(value: &serde_json::Value) -> bool {
    let mut stack = vec![(value, 0)];
    let mut value_count = 0;
    while let Some((value, depth)) = stack.pop() {
        value_count += 1;
        if value_count > limits::YAML_EVENTS_MAX || depth > limits::YAML_DEPTH_MAX {
            return false;
        }
        match value {
            serde_json::Value::Array(items) => {
                stack.extend(items.iter().map(|item| (item, depth + 1)));
            }
            serde_json::Value::Object(map) => {
                stack.extend(map.values().map(|value| (value, depth + 1)));
            }
            _ => {}
        }
    }
    true
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: limits::YAML_EVENTS_MAX,
            max_nodes: limits::YAML_EVENTS_MAX,
            max_aliases: limits::YAML_ALIASES_MAX,
            max_anchors: limits::YAML_ALIASES_MAX,
            max_recorded_anchor_events: limits::YAML_EVENTS_MAX,
            max_depth: limits::YAML_DEPTH_MAX,
            flow_nesting_limit: limits::YAML_DEPTH_MAX,
            max_documents: 2,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: limits::YAML_ALIAS_EVENTS_MAX,
            max_replay_stack_depth: 16,
        },
        // Pass duplicates through: the draft reader reports all of them with their places.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Merge,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// A value as the YAML library returns it, with the library's locations.
enum LooseValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<LooseValue>>),
    Map(Vec<(Spanned<LooseValue>, Spanned<LooseValue>)>),
}

impl<'de> Deserialize<'de> for LooseValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = LooseValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<LooseValue, E> {
        Ok(LooseValue::Null)
    }

    fn visit_none<E>(self) -> Result<LooseValue, E> {
        Ok(LooseValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<LooseValue, D::Error> {
        LooseValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<LooseValue, E> {
        Ok(LooseValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<LooseValue, E> {
        Ok(LooseValue::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<LooseValue, E> {
        Ok(LooseValue::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<LooseValue, E> {
        let number = Number::from_f64(value);
        number.map(LooseValue::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<LooseValue, E> {
        Ok(LooseValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<LooseValue, E> {
        Ok(LooseValue::Text(value))
    }

    fn visit_bytes<E: serde::de::Error>(self, value: &[u8]) -> Result<LooseValue, E> {
        String::from_utf8(value.to_vec())
            .map(LooseValue::Text)
            .map_err(|_| E::custom("binary values are not read"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<LooseValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(LooseValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<LooseValue, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
            if entries.len() > limits::YAML_EVENTS_MAX {
                return Err(A::Error::custom("the mapping is too large"));
            }
        }
        Ok(LooseValue::Map(entries))
    }
}

fn build_node(text: &str, spanned: Spanned<LooseValue>) -> Result<DocumentNode, Box<Finding>> {
    let place = convert_location(text, &spanned.referenced);
    let content = match spanned.value {
        LooseValue::Null => NodeContent::Null,
        LooseValue::Bool(value) => NodeContent::Bool(value),
        LooseValue::Number(number) => {
            let source =
                find_source_text(text, &spanned.defined).unwrap_or_else(|| number.to_string());
            parse_number(number, source, place)?
        }
        LooseValue::Text(value) => NodeContent::Text(value),
        LooseValue::List(items) => {
            let items = items.into_iter().map(|item| build_node(text, item));
            NodeContent::List(items.collect::<Result<_, _>>()?)
        }
        LooseValue::Map(entries) => {
            let entries = entries.into_iter().map(|(key, value)| build_entry(text, key, value));
            NodeContent::Map(entries.collect::<Result<_, _>>()?)
        }
    };
    Ok(DocumentNode { content, place })
}

/// Interprets a number by YAML's core schema. The library accepts more notations as numbers than that schema does.
fn parse_number(number: Number, source: String, place: Place) -> Result<NodeContent, Box<Finding>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_+-.:".contains(c);
    if !source.chars().all(is_plain) {
        return Ok(NodeContent::Number(number, source));
    }
    let digits = source.trim_start_matches(['+', '-']);
    let radix = match digits.get(..2) {
        Some("0x") => Some(16),
        Some("0o") => Some(8),
        _ if digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(10),
        _ => None,
    };
    let Some(radix) = radix else {
        let is_float = digits.bytes().all(|c| c.is_ascii_digit() || b"+-.eE".contains(&c));
        return Ok(if is_float {
            NodeContent::Number(number, source)
        } else {
            NodeContent::Text(source)
        });
    };
    let digits = if radix == 10 { digits } else { &digits[2..] };
    let integer = if source.starts_with('-') {
        i64::from_str_radix(&format!("-{digits}"), radix).ok().map(Number::from)
    } else {
        u64::from_str_radix(digits, radix).ok().map(Number::from)
    };
    match integer {
        Some(whole) => Ok(NodeContent::Number(whole, source)),
        None => Err(Box::new(large_integer_finding(&source, place))),
    }
}

/// The finding for an integer that is too large to be stored exactly.
fn large_integer_finding(source: &str, place: Place) -> Finding {
    let message =
        format!("the whole number `{source}` is too large: it could not be kept as it is");
    Finding::new(Rule::OutOfRange, "", place, message)
        .with_expected("a whole number from -2^63 to 2^64 - 1", source)
        .suggest("write it as a text, in quotes".to_owned())
        .edit_rewrite_unquoted(place, source, &format!("\"{source}\""))
}

fn build_entry(
    text: &str,
    key: Spanned<LooseValue>,
    value: Spanned<LooseValue>,
) -> Result<MappingEntry, Box<Finding>> {
    let place = convert_location(text, &key.referenced);
    let key = match key.value {
        LooseValue::Text(key) => key,
        LooseValue::Null => "null".to_owned(),
        LooseValue::Bool(value) => value.to_string(),
        LooseValue::Number(number) => {
            find_source_text(text, &key.defined).unwrap_or_else(|| number.to_string())
        }
        LooseValue::List(_) | LooseValue::Map(_) => {
            let message = "a key must be a text";
            return Err(Finding::new(Rule::Syntax, "", place, message).into());
        }
    };
    if let Some(finding) = tag_finding(text, &key, place) {
        return Err(Box::new(finding));
    }
    let mut value = build_node(text, value)?;
    // A key without a value has no place for the value, so use the place of the key.
    if value.content == NodeContent::Null && value.place.end <= value.place.start {
        value.place = place;
    }
    Ok(MappingEntry { key, place, value })
}

/// The finding for a value that begins with `!`: YAML reads it as a tag, and drops the word from the text.
fn tag_finding(text: &str, key: &str, place: Place) -> Option<Finding> {
    let rest = text.get(place.end..)?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    // Check the first character before scanning the line, since lines may be long.
    let value = value.strip_prefix('!').map(|_| value)?.lines().next()?.trim_end();
    let word = value.trim_start_matches('!');
    // The standard tags of YAML begin with `!!`.
    let is_known = value.starts_with("!!")
        && word.split(' ').next().is_some_and(|tag| CORE_SCHEMA_TAGS.contains(&tag));
    if is_known {
        return None;
    }
    let message = "`!` begins a tag of YAML, and is no part of the value";
    let start = place.end + rest.find('!')?;
    let finding =
        Finding::new(Rule::Syntax, "", Place::from_bytes(text, start, start + 1), message);
    if !["if", "when", "until"].contains(&key) {
        return Some(finding.suggest("put the text in quotes".to_owned()));
    }
    // In a flow mapping, the value ends at the next comma or brace.
    let condition = word.split([',', '}']).next().unwrap_or_default().trim();
    let finding = finding.suggest(format!("write `not {condition}`"));
    Some(finding.edit_replace_bytes(
        Some(start),
        format!("!{condition}"),
        format!("not {condition}"),
    ))
}

const CORE_SCHEMA_TAGS: [&str; 7] = ["str", "int", "float", "bool", "null", "seq", "map"];

fn find_source_text(text: &str, location: &serde_saphyr::Location) -> Option<String> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let len = usize::try_from(location.span().byte_len()?).ok()?;
    let source = text.get(start..start + len)?.trim();
    (!source.is_empty()).then(|| source.to_owned())
}

fn convert_location(text: &str, location: &serde_saphyr::Location) -> Place {
    let line = usize::try_from(location.line()).unwrap_or(1).max(1);
    let column = usize::try_from(location.column()).unwrap_or(1).max(1);
    let start = location.span().byte_offset().map(usize::try_from);
    let Some(Ok(start)) = start else {
        return locate_line_column(text, line, column);
    };
    let len = location.span().byte_len().map_or(0, |len| usize::try_from(len).unwrap_or(0));
    let start = text.floor_char_boundary(start.min(text.len()));
    Place {
        line,
        column,
        start,
        end: first_line_end(text, start, start.saturating_add(len)),
        origin: 0,
    }
}

fn locate_line_column(text: &str, line: usize, column: usize) -> Place {
    let line_start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = &text[line_start..];
    let offset = rest.char_indices().nth(column - 1).map_or(rest.trim_end().len(), |(at, _)| at);
    Place::from_bytes(text, line_start + offset, line_start + offset)
}

fn syntax_finding(text: &str, error: &Error) -> Finding {
    let place = error.location().map_or(Place::START, |location| convert_location(text, &location));
    let words = error.without_snippet().to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    Finding::new(Rule::Syntax, "", place, words.trim_end_matches('.'))
}

fn build_json_node(value: serde_json::Value) -> DocumentNode {
    use serde_json::Value;
    let content = match value {
        Value::Null => NodeContent::Null,
        Value::Bool(value) => NodeContent::Bool(value),
        Value::Number(number) => {
            let number_text = number.to_string();
            NodeContent::Number(number, number_text)
        }
        Value::String(text) => NodeContent::Text(text),
        Value::Array(items) => NodeContent::List(items.into_iter().map(build_json_node).collect()),
        Value::Object(map) => {
            let entry = |(key, value)| MappingEntry {
                key,
                place: Place::START,
                value: build_json_node(value),
            };
            NodeContent::Map(map.into_iter().map(entry).collect())
        }
    };
    DocumentNode { content, place: Place::START }
}
