//! Validates nodes against the shapes of the grammar.

mod branches;
mod template;
mod text;

use std::collections::HashSet;

pub(super) use self::text::suggest_word;
use self::text::{TextNode, last_path_key};
use super::super::{
    finding::{Finding, Place, Rule, has_room_for_suggestions},
    grammar::{self, MappingKey, MappingShape, ValueShape, has_template},
    nearest::{did_you_mean, find_nearest},
    node::{DocumentNode, MappingEntry, NodeContent, join_path},
};
use crate::{
    error::{FAILED_HTTP_STATUSES, normalize_failure_name},
    limits,
};

/// The finding for a key that is reserved and not implemented yet. A file must not promise more than midex does.
fn unsupported_key_finding(key: &MappingKey, path: &str, place: Place) -> Option<Finding> {
    let message = format!("`{}` is not supported yet", key.name);
    let finding = Finding::new(Rule::NotSupportedYet, path, place, message);
    Some(finding.suggest(key.unbuilt?.to_owned()))
}

/// The most keys that a finding lists.
const KEYS_LISTED_MAX: usize = 8;

/// The finding for a value of another type than `expected`.
pub fn wrong_type_finding(node: &DocumentNode, path: &str, expected: &str) -> Finding {
    let what = match last_path_key(path) {
        "" => "the document".to_owned(),
        key => format!("`{key}`"),
    };
    let message = format!("{what} must be {expected}, this is {}", node.type_name());
    let finding = node.finding(Rule::WrongType, path, message);
    let finding = finding.with_expected(expected, node.type_name());
    match suggest_correction(node, expected) {
        Some((old, new)) => {
            finding.suggest(format!("write {new}")).edit_rewrite_unquoted(node.place, &old, &new)
        }
        None => finding,
    }
}

/// The value as written and as it should be written, if the correction is certain.
fn suggest_correction(node: &DocumentNode, expected: &str) -> Option<(String, String)> {
    let wants = |what| expected.starts_with(what);
    let quoted = |text: &dyn std::fmt::Display| format!("\"{text}\"");
    Some(match &node.content {
        NodeContent::Number(_, written) if wants("a text") => (written.clone(), quoted(written)),
        NodeContent::Bool(value) if wants("a text") => (value.to_string(), quoted(value)),
        NodeContent::Number(_, written) if wants("a duration") => {
            (written.clone(), format!("{written}s"))
        }
        NodeContent::Text(text)
            if wants("a list") && !text.contains(['\n', ':', '#', '{', '[']) =>
        {
            (text.clone(), format!("[{text}]"))
        }
        NodeContent::Text(text)
            if wants("a whole number") && text.parse::<u32>().is_ok()
                || wants("`true`") && text.parse::<bool>().is_ok() =>
        {
            (quoted(text), text.clone())
        }
        _ => return None,
    })
}

/// Adds a finding for everything in `node` that does not conform to `shape`.
fn check_shape(found: &mut Vec<Finding>, node: &DocumentNode, path: &str, shape: &ValueShape) {
    template::check_unevaluated_expressions(found, node, path, shape);
    match shape {
        // Schemas are checked together in `check::schema`, because their cost is limited in total.
        ValueShape::Value | ValueShape::Data | ValueShape::Schema | ValueShape::Planned => {}
        ValueShape::Count(min, max) => found.extend(count_finding(node, path, *min, *max)),
        ValueShape::NotNull
        | ValueShape::Flag
        | ValueShape::Values
        | ValueShape::Whole
        | ValueShape::Number => {
            found.extend(type_finding(node, path, shape));
        }
        ValueShape::FreeText(max) => check_free_text(found, node, path, (*max, false)),
        ValueShape::Version => {
            check_free_text(found, node, path, (limits::VERSION_BYTES_MAX, true));
        }
        ValueShape::Memory(min) => check_memory_entries(found, node, path, *min),
        ValueShape::Bindings(binding) => check_bindings(found, node, path, binding),
        ValueShape::Branches(branch) => branches::check_branch_patterns(found, node, path, branch),
        ValueShape::Scalars(max) => check_scalars(found, node, path, *max),
        ValueShape::Items => check_foreach_items(found, node, path),
        ValueShape::Failure => check_failure_name(found, node, path),
        ValueShape::List(of, min, max) => check_list(found, node, path, (of, *min, *max)),
        ValueShape::Ids => check_step_ids(found, node, path),
        ValueShape::Inputs(_) => check_input_count(found, node, path),
        ValueShape::Steps(step) => check_step_list(found, node, path, step),
        // The body of a `foreach` has no id of its own.
        ValueShape::Each => check_keys(found, node, path, &grammar::STEP_SHAPE, &["id"]),
        ValueShape::Record(keys) => check_record(found, node, path, keys),
        ValueShape::TextOr(keys) => match (&node.content, keys.keys.first()) {
            (NodeContent::Text(_), Some(first)) => check_shape(found, node, path, &first.shape),
            (NodeContent::Map(_), _) => check_record(found, node, path, keys),
            _ => found.push(wrong_type_finding(node, path, "a text or a mapping")),
        },
        _ => check_text(found, node, path, shape),
    }
}

/// Whether a value conforms to `shape`.
pub(super) fn has_shape(node: &DocumentNode, shape: &ValueShape) -> bool {
    let mut found = Vec::new();
    check_shape(&mut found, node, "", shape);
    found.is_empty()
}

/// The finding for a value of the wrong type, for shapes that accept one type.
fn type_finding(node: &DocumentNode, path: &str, shape: &ValueShape) -> Option<Finding> {
    let (is_right, expected) = match (shape, &node.content) {
        (ValueShape::Flag, content) => {
            (matches!(content, NodeContent::Bool(_)), "`true` or `false`")
        }
        (ValueShape::Values, content) => (matches!(content, NodeContent::Map(_)), "a mapping"),
        (ValueShape::Number, content) => (matches!(content, NodeContent::Number(..)), "a number"),
        (ValueShape::Whole, NodeContent::Number(number, _)) => {
            (number.as_u64().is_some(), "a whole number, 0 or more")
        }
        (ValueShape::Whole, _) => (false, "a whole number, 0 or more"),
        (_, content) => (*content != NodeContent::Null, "a value"),
    };
    (!is_right).then(|| wrong_type_finding(node, path, expected))
}

/// Checks a text that may be empty. With `or_number`, a number is accepted and read as it is written.
fn check_free_text(
    found: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    (max, or_number): (usize, bool),
) {
    let written = match &node.content {
        NodeContent::Text(text) => text,
        NodeContent::Number(_, written) if or_number => written,
        _ => return found.push(wrong_type_finding(node, path, "a text")),
    };
    found.extend(TextNode::new(written, node, path).check_length(max));
}

/// The kind of text that a shape expects, as a message names it.
fn expected_text_kind(shape: &ValueShape) -> &'static str {
    match shape {
        ValueShape::Span | ValueShape::SpanOrTemplate => "a duration such as 10s",
        ValueShape::InstantOrTemplate => "a text such as \"2030-01-31T09:00:00Z\"",
        ValueShape::Operation => "a text: a catalog and an operation",
        _ => "a text",
    }
}

fn check_text(found: &mut Vec<Finding>, node: &DocumentNode, path: &str, shape: &ValueShape) {
    let Some(text) = node.as_text() else {
        return found.push(wrong_type_finding(node, path, expected_text_kind(shape)));
    };
    let at = TextNode::new(text, node, path);
    if text.trim().is_empty() {
        let message = format!("{} is empty", at.last_key());
        return found.push(at.finding(Rule::EmptyValue, message));
    }
    found.extend(match shape {
        ValueShape::Text(max) | ValueShape::Template(max) => at.check_length(*max),
        ValueShape::Condition => at.check_length(limits::EXPRESSION_BYTES_MAX),
        ValueShape::Name(max) => at.check_name().or_else(|| at.check_length(*max)),
        ValueShape::Id(id) => at.check_id(*id),
        ValueShape::Word => at.check_word().or_else(|| at.check_length(limits::WORD_BYTES_MAX)),
        ValueShape::Operation => {
            at.check_operation().or_else(|| at.check_length(limits::WORD_BYTES_MAX))
        }
        ValueShape::SpanOrTemplate | ValueShape::InstantOrTemplate if has_template(text) => {
            at.check_length(limits::EXPRESSION_BYTES_MAX)
        }
        ValueShape::Span | ValueShape::SpanOrTemplate => at.check_duration(),
        ValueShape::InstantOrTemplate => at.check_timestamp(),
        ValueShape::Choice(words) => at.check_choice(words),
        ValueShape::Join => at.check_join(),
        ValueShape::Target(words) => at.check_jump_target(words),
        _ => None,
    });
}

fn count_finding(node: &DocumentNode, path: &str, min: u32, max: u32) -> Option<Finding> {
    let expected = format!("a whole number from {min} to {max}");
    let NodeContent::Number(number, written) = &node.content else {
        return Some(wrong_type_finding(node, path, &expected));
    };
    let is_negative = number.as_f64().is_some_and(|number| number < 0.0);
    let (rule, message) = match node.as_count() {
        Some(number) if (u64::from(min)..=u64::from(max)).contains(&number) => return None,
        None if !is_negative => {
            let message = format!("`{written}` is not a whole number");
            (Rule::WrongType, message)
        }
        _ => {
            let key = last_path_key(path);
            let message = format!("`{key}` must be {expected}, this is {written}");
            (Rule::OutOfRange, message)
        }
    };
    let finding = node.finding(rule, path, message);
    Some(finding.with_expected(expected, written.as_str()))
}

/// Checks the number of entries of a list or a mapping.
fn check_entry_count(
    found: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    (count, min, max): (usize, usize, usize),
) {
    let key = last_path_key(path);
    if count < min {
        let message = format!("`{key}` is empty");
        found.push(node.finding(Rule::EmptyValue, path, message));
    } else if count > max {
        let message = format!("there are {count} `{key}`, the limit is {max}");
        let finding = node.finding(Rule::LimitExceeded, path, message);
        found.push(finding.with_expected(format!("at most {max}"), count.to_string()));
    }
}

fn check_memory_entries(found: &mut Vec<Finding>, node: &DocumentNode, path: &str, min: usize) {
    let Some(entries) = node.entries() else {
        return found.push(wrong_type_finding(node, path, "a mapping"));
    };
    let count = (entries.len(), min, limits::MEMORY_ENTRIES_MAX);
    check_entry_count(found, node, path, count);
    for entry in entries {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let sound =
            entry.key.chars().all(letter) && !entry.key.starts_with('-') && !entry.key.is_empty();
        if !sound || entry.key.len() > limits::MEMORY_NAME_BYTES_MAX {
            let message = format!(
                "`{}` cannot be a name in memory: letters, digits, `_` and `-`, at most {}",
                entry.key,
                limits::MEMORY_NAME_BYTES_MAX
            );
            let path = format!("{path}.{}", entry.key);
            let rule = Rule::IllFormedName;
            found.push(Finding::new(rule, path, entry.place, message));
        }
    }
}

/// Whether an argument is a binding to another value, as opposed to a literal.
pub(super) fn is_binding(node: &DocumentNode) -> bool {
    ["from_input", "from_step"].iter().any(|key| node.get(key).is_some())
}

fn check_bindings(
    found: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    binding: &MappingShape,
) {
    let Some(entries) = node.entries() else {
        return found.push(wrong_type_finding(node, path, "a mapping"));
    };
    let count = (entries.len(), 0, limits::OPERATION_PARAMETERS_MAX);
    check_entry_count(found, node, path, count);
    for entry in entries.iter().filter(|entry| is_binding(&entry.value)) {
        check_record(found, &entry.value, &join_path(path, &entry.key), binding);
    }
}

fn check_scalars(found: &mut Vec<Finding>, node: &DocumentNode, path: &str, max: usize) {
    let Some(entries) = node.entries() else {
        return found.push(wrong_type_finding(node, path, "a mapping"));
    };
    check_entry_count(found, node, path, (entries.len(), 0, max));
    for entry in entries {
        let path = join_path(path, &entry.key);
        let key = TextNode { text: &entry.key, path: &path, place: entry.place };
        found.extend(key.check_length(limits::METADATA_TEXT_BYTES_MAX));
        match &entry.value.content {
            NodeContent::Text(text) => {
                let text = TextNode::new(text, &entry.value, &path);
                found.extend(text.check_length(limits::METADATA_TEXT_BYTES_MAX));
            }
            NodeContent::List(_) | NodeContent::Map(_) => {
                let expected = "a text, a number, `true` or `false`";
                found.push(wrong_type_finding(&entry.value, &path, expected));
            }
            NodeContent::Null | NodeContent::Bool(_) | NodeContent::Number(..) => {}
        }
    }
}

/// Checks a failure code or class. `check::step` checks whether the step can fail with it.
fn check_failure_name(found: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    let is_number = |written: &String| written.bytes().all(|byte| byte.is_ascii_digit());
    let Some(written) = node.text_or_number().filter(is_number) else {
        return check_text(found, node, path, &ValueShape::Name(limits::WORD_BYTES_MAX));
    };
    if normalize_failure_name(&written).is_none() {
        let (least, most) = FAILED_HTTP_STATUSES.into_inner();
        let message = format!("a call fails with statuses from {least} to {most}, not `{written}`");
        found.push(node.finding(Rule::OutOfRange, path, message));
    }
}

fn check_foreach_items(found: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    match &node.content {
        NodeContent::List(_) => {}
        NodeContent::Text(text) if has_template(text) => {
            found
                .extend(TextNode::new(text, node, path).check_length(limits::EXPRESSION_BYTES_MAX));
        }
        NodeContent::Text(text) => {
            let message = "`in` must be a list, or an expression that gives one";
            let template = format!("${{{{ {text} }}}}");
            let finding = node.finding(Rule::WrongType, path, message);
            let finding = finding.with_expected("a list or ${{ … }}", "a text");
            let finding = finding.suggest(format!("write {template}"));
            found.push(finding.edit_rewrite_unquoted(node.place, text, &format!("\"{template}\"")));
        }
        _ => found.push(wrong_type_finding(node, path, "a list or ${{ … }}")),
    }
}

fn check_list(
    found: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    (of, min, max): (&ValueShape, usize, usize),
) {
    let Some(items) = node.items() else {
        let expected = match of {
            ValueShape::Name(_) | ValueShape::Id(_) | ValueShape::Text(_) => "a list of texts",
            ValueShape::NotNull => "a list of values",
            _ => "a list",
        };
        return found.push(wrong_type_finding(node, path, expected));
    };
    check_entry_count(found, node, path, (items.len(), min, max));
    let mut names = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = item.as_text().filter(|_| {
            matches!(of, ValueShape::Name(_) | ValueShape::Id(_) | ValueShape::Failure)
        });
        if name.is_some_and(|name| !names.insert(name)) {
            let message = format!("`{}` is named twice", name.unwrap_or_default());
            found.push(item.finding(Rule::DuplicateValue, &path, message));
        }
        check_shape(found, item, &path, of);
    }
}

/// Checks a list of step ids. `check::order` checks that the steps exist.
fn check_step_ids(found: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    let items = match &node.content {
        NodeContent::Text(_) => return,
        NodeContent::List(items) => items,
        _ => return found.push(wrong_type_finding(node, path, "a list of texts")),
    };
    let count = (items.len(), 0, limits::DEPENDENCIES_MAX);
    check_entry_count(found, node, path, count);
    for (at, item) in items.iter().enumerate() {
        if item.as_text().is_none() {
            found.push(wrong_type_finding(item, &format!("{path}[{at}]"), "a text"));
        }
    }
}

/// Checks the number of inputs. `check::input` checks each input and the rules between its keys.
fn check_input_count(found: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    let Some(entries) = node.entries() else {
        return found.push(wrong_type_finding(node, path, "a mapping"));
    };
    let count = (entries.len(), 0, limits::INPUTS_DECLARED_MAX);
    check_entry_count(found, node, path, count);
}

fn check_step_list(found: &mut Vec<Finding>, node: &DocumentNode, path: &str, step: &MappingShape) {
    let Some(items) = node.items() else {
        return found.push(wrong_type_finding(node, path, "a list"));
    };
    if items.is_empty() {
        let message = format!("`{path}` is empty: a workflow needs at least one");
        found.push(node.finding(Rule::NoSteps, path, message));
    }
    check_entry_count(found, node, path, (items.len(), 0, limits::STEPS_MAX));
    for (at, item) in items.iter().enumerate() {
        check_record(found, item, &format!("{path}[{at}]"), step);
    }
}

/// Adds a finding for everything in the mapping `node` that does not conform to `record`.
pub(super) fn check_record(
    found: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    record: &MappingShape,
) {
    check_keys(found, node, path, record, &[]);
}

/// Checks a mapping against the keys of `record`. The `excused` keys may be missing even if they are required.
fn check_keys(
    found: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    record: &MappingShape,
    excused: &[&str],
) {
    let Some(entries) = node.entries() else {
        return found.push(wrong_type_finding(node, path, "a mapping"));
    };
    let mut there: HashSet<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let mut seen = HashSet::new();
    // A repeated key has a finding already.
    for entry in entries.iter().filter(|entry| seen.insert(entry.key.as_str())) {
        let path = join_path(path, &entry.key);
        match record.find_key(&entry.key) {
            None if record.is_open => {}
            None if has_room_for_suggestions(found) => {
                found.push(unknown_record_key_finding(entry, path, record, &there));
            }
            None => found.push(unknown_key_finding(record.what, entry, path)),
            Some(key) if key.is_planned() => {
                found.extend(unsupported_key_finding(key, &path, entry.place));
            }
            Some(key) => check_shape(found, &entry.value, &path, &key.shape),
        }
    }
    for entry in entries {
        let needed = record.find_key(&entry.key).and_then(|key| key.beside);
        if let Some(needed) = needed.filter(|needed| !there.contains(needed)) {
            let message = format!("`{}` has no effect without `{needed}`", entry.key);
            let path = join_path(path, &entry.key);
            found.push(Finding::new(Rule::NoEffect, path, entry.place, message));
        }
    }
    there.extend(excused);
    check_missing_keys(found, node, path, record, &there);
}

/// The finding for a key that the mapping called `what` does not have.
pub fn unknown_key_finding(what: &str, entry: &MappingEntry, path: impl Into<String>) -> Finding {
    let message = format!("{what} has no key `{}`", entry.key);
    Finding::new(Rule::UnknownKey, path, entry.place, message)
}

fn unknown_record_key_finding(
    entry: &MappingEntry,
    path: String,
    record: &MappingShape,
    there: &HashSet<&str>,
) -> Finding {
    let known = || record.keys.iter().map(|key| key.name);
    let finding = unknown_key_finding(record.what, entry, path);
    match find_nearest(&entry.key, known()) {
        Some(near) if there.contains(near) => finding.suggest(did_you_mean(&entry.key, known())),
        Some(_) => finding.did_you_mean(entry.place, &entry.key, known()),
        None if is_manifest_only_key(record, &entry.key) => {
            finding.suggest("only manifests (`.yaml`, `.json`) have it".to_owned())
        }
        None if record.keys.iter().any(MappingKey::is_step_kind)
            && grammar::is_step_kind(&entry.key) =>
        {
            let kinds = record.keys.iter().filter(|key| key.is_step_kind());
            let kinds: Vec<_> = kinds.map(|key| key.name).collect();
            finding.suggest(format!("nobody is asked here: its kinds are {}", kinds.join(", ")))
        }
        None if record.keys.len() > KEYS_LISTED_MAX => finding,
        None => {
            let all: Vec<_> = known().collect();
            finding.suggest(format!("its keys are {}", all.join(", ")))
        }
    }
}

/// Whether front matter does not have `key`, but manifests do.
fn is_manifest_only_key(record: &MappingShape, key: &str) -> bool {
    let fronts = [grammar::FRONT_MATTER_SHAPE.what, grammar::PHASE_SHAPE.what];
    let manifests = [&grammar::MANIFEST_SHAPE, &grammar::STEP_SHAPE];
    fronts.contains(&record.what) && manifests.iter().any(|record| record.find_key(key).is_some())
}

fn check_missing_keys(
    found: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    record: &MappingShape,
    there: &HashSet<&str>,
) {
    let excused = |key: &MappingKey| key.unless.is_some_and(|other| there.contains(other));
    let missing = |key: &&MappingKey| key.required && !there.contains(key.name) && !excused(key);
    for (at, key) in record.keys.iter().filter(missing).enumerate() {
        let message = if path.is_empty() && there.is_empty() && at == 0 {
            format!("there is nothing in it, and {} needs `{}`", record.what, key.name)
        } else {
            format!("{} has no `{}`", record.what, key.name)
        };
        let path = join_path(path, key.name);
        found.push(node.finding(Rule::MissingKey, &path, message));
    }
    let known = record.keys.iter().filter(|key| there.contains(key.name));
    let rule = match known.count() {
        _ if !record.exactly_one => return,
        1 => return,
        0 => Rule::MissingKey,
        _ => Rule::ConflictingKeys,
    };
    let all = record.keys.iter().map(|key| format!("`{}`", key.name));
    let all: Vec<_> = all.collect();
    let message = format!("{} has one of {}", record.what, all.join(", "));
    found.push(node.finding(rule, path, message));
}
