//! Validates nodes against the shapes of the grammar.

mod branches;
mod template;
mod text;

use std::collections::HashSet;

pub(super) use self::text::suggest_word;
use self::text::{TextNode, last_path_key};
use super::super::{
    definition::parse_share,
    finding::{Finding, Place, Rule, has_room_for_suggestions},
    grammar::{self, MappingKey, MappingShape, ValueShape, has_template},
    nearest::{find_nearest, suggest_nearest},
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
    Some(finding.suggest(key.unbuilt_advice?.to_owned()))
}

/// The most keys that a finding lists.
const KEYS_LISTED_MAX: usize = 8;

/// The finding for a value of another type than `expected`.
pub fn wrong_type_finding(node: &DocumentNode, path: &str, expected: &str) -> Finding {
    let subject = match last_path_key(path) {
        "" => "the document".to_owned(),
        key => format!("`{key}`"),
    };
    let message = format!("{subject} must be {expected}, this is {}", node.type_name());
    let finding = node.new_finding(Rule::WrongType, path, message);
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
    let is_expected = |what| expected.starts_with(what);
    let quote = |text: &dyn std::fmt::Display| format!("\"{text}\"");
    Some(match &node.content {
        NodeContent::Number(_, written) if is_expected("a text") => {
            (written.clone(), quote(written))
        }
        NodeContent::Bool(value) if is_expected("a text") => (value.to_string(), quote(value)),
        NodeContent::Number(_, written) if is_expected("a duration") => {
            (written.clone(), format!("{written}s"))
        }
        NodeContent::Text(text)
            if is_expected("a list") && !text.contains(['\n', ':', '#', '{', '[']) =>
        {
            (text.clone(), format!("[{text}]"))
        }
        NodeContent::Text(text)
            if is_expected("a whole number") && text.parse::<u32>().is_ok()
                || is_expected("`true`") && text.parse::<bool>().is_ok() =>
        {
            (quote(text), text.clone())
        }
        _ => return None,
    })
}

/// Adds a finding for everything in `node` that does not conform to `shape`.
fn check_shape(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str, shape: &ValueShape) {
    template::check_unevaluated_expressions(findings, node, path, shape);
    match shape {
        // Schemas are checked together in `check::schema`, because their cost is limited in total.
        ValueShape::Value | ValueShape::Data | ValueShape::Schema | ValueShape::Planned => {}
        ValueShape::Count(min, max) => findings.extend(count_finding(node, path, *min, *max)),
        ValueShape::CountOrTemplate(..) | ValueShape::Tolerance(_)
            if node.as_text().is_some_and(has_template) => {}
        ValueShape::CountOrTemplate(min, max) => {
            findings.extend(count_finding(node, path, *min, *max));
        }
        ValueShape::Tolerance(_)
            if node.as_text().is_some_and(|text| parse_share(text).is_some()) => {}
        ValueShape::Tolerance(_) if node.as_text().is_some() => {
            findings.push(wrong_type_finding(node, path, "a whole number, or a share such as 20%"));
        }
        ValueShape::Tolerance(max) => findings.extend(count_finding(node, path, 0, *max)),
        ValueShape::NotNull
        | ValueShape::Flag
        | ValueShape::Values
        | ValueShape::ValuesOrTemplate
        | ValueShape::NonNegativeInteger
        | ValueShape::Number => {
            findings.extend(type_finding(node, path, shape));
        }
        ValueShape::FreeText(max) => check_free_text(findings, node, path, (*max, false)),
        ValueShape::Version => {
            check_free_text(findings, node, path, (limits::VERSION_BYTES_MAX, true));
        }
        ValueShape::Memory(min) => check_memory_entries(findings, node, path, *min),
        ValueShape::Bindings(binding) => check_bindings(findings, node, path, binding),
        ValueShape::Branches(branch) => {
            branches::check_branch_patterns(findings, node, path, branch);
        }
        ValueShape::Scalars(max) => check_scalars(findings, node, path, *max),
        ValueShape::Items => check_foreach_items(findings, node, path),
        ValueShape::Failure => check_failure_name(findings, node, path),
        ValueShape::List(item_shape, min, max) => {
            check_list(findings, node, path, (item_shape, *min, *max));
        }
        ValueShape::Ids => check_step_ids(findings, node, path),
        ValueShape::Inputs(_) => check_input_count(findings, node, path),
        ValueShape::Steps(step) => check_step_list(findings, node, path, step),
        // The body of a `foreach` has no id of its own.
        ValueShape::ForeachBody => check_keys(findings, node, path, &grammar::STEP_SHAPE, &["id"]),
        ValueShape::Record(keys) => check_record(findings, node, path, keys),
        ValueShape::FlagOr(keys) => match &node.content {
            NodeContent::Bool(_) => {}
            NodeContent::Map(_) => check_record(findings, node, path, keys),
            _ => findings.push(wrong_type_finding(node, path, "`true` or a mapping")),
        },
        ValueShape::TextOr(keys) => match (&node.content, keys.keys.first()) {
            (NodeContent::Text(_), Some(first)) => check_shape(findings, node, path, &first.shape),
            (NodeContent::Map(_), _) => check_record(findings, node, path, keys),
            _ => findings.push(wrong_type_finding(node, path, "a text or a mapping")),
        },
        _ => check_text(findings, node, path, shape),
    }
}

/// Whether a value conforms to `shape`.
pub(super) fn has_shape(node: &DocumentNode, shape: &ValueShape) -> bool {
    let mut findings = Vec::new();
    check_shape(&mut findings, node, "", shape);
    findings.is_empty()
}

/// The finding for a value of the wrong type, for shapes that accept one type.
fn type_finding(node: &DocumentNode, path: &str, shape: &ValueShape) -> Option<Finding> {
    let (is_valid, expected) = match (shape, &node.content) {
        (ValueShape::Flag, content) => {
            (matches!(content, NodeContent::Bool(_)), "`true` or `false`")
        }
        (ValueShape::ValuesOrTemplate, NodeContent::Text(text)) => {
            (has_template(text), "a mapping, or `${{ … }}` that yields one")
        }
        (ValueShape::Values | ValueShape::ValuesOrTemplate, content) => {
            (matches!(content, NodeContent::Map(_)), "a mapping")
        }
        (ValueShape::Number, content) => (matches!(content, NodeContent::Number(..)), "a number"),
        (ValueShape::NonNegativeInteger, NodeContent::Number(number, _)) => {
            (number.as_u64().is_some(), "a whole number, 0 or more")
        }
        (ValueShape::NonNegativeInteger, _) => (false, "a whole number, 0 or more"),
        (_, content) => (*content != NodeContent::Null, "a value"),
    };
    (!is_valid).then(|| wrong_type_finding(node, path, expected))
}

/// Checks a text that may be empty. With `or_number`, a number is accepted and read as it is written.
fn check_free_text(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    (max, is_number_allowed): (usize, bool),
) {
    let text = match &node.content {
        NodeContent::Text(text) => text,
        NodeContent::Number(_, written) if is_number_allowed => written,
        _ => return findings.push(wrong_type_finding(node, path, "a text")),
    };
    findings.extend(TextNode::new(text, node, path).check_length(max));
}

/// The kind of text that a shape expects, as a message names it.
fn expected_text_kind(shape: &ValueShape) -> &'static str {
    match shape {
        ValueShape::Duration | ValueShape::DurationOrTemplate => "a duration such as 10s",
        ValueShape::InstantOrTemplate => "a text such as \"2030-01-31T09:00:00Z\"",
        ValueShape::Operation => "a text: a catalog and an operation",
        _ => "a text",
    }
}

fn check_text(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str, shape: &ValueShape) {
    let Some(text) = node.as_text() else {
        return findings.push(wrong_type_finding(node, path, expected_text_kind(shape)));
    };
    let text_node = TextNode::new(text, node, path);
    if text.trim().is_empty() {
        let message = format!("{} is empty", text_node.last_key());
        return findings.push(text_node.finding(Rule::EmptyValue, message));
    }
    findings.extend(match shape {
        ValueShape::Text(max) | ValueShape::Template(max) => text_node.check_length(*max),
        ValueShape::Condition => text_node.check_length(limits::EXPRESSION_BYTES_MAX),
        ValueShape::Name(max) => text_node.check_name().or_else(|| text_node.check_length(*max)),
        ValueShape::Word => {
            text_node.check_word().or_else(|| text_node.check_length(limits::WORD_BYTES_MAX))
        }
        ValueShape::Operation => {
            text_node.check_operation().or_else(|| text_node.check_length(limits::WORD_BYTES_MAX))
        }
        ValueShape::DurationOrTemplate
        | ValueShape::InstantOrTemplate
        | ValueShape::IdOrTemplate(_)
            if has_template(text) =>
        {
            text_node.check_length(limits::EXPRESSION_BYTES_MAX)
        }
        ValueShape::Id(id) | ValueShape::IdOrTemplate(id) => text_node.check_id(*id),
        ValueShape::Duration | ValueShape::DurationOrTemplate => text_node.check_duration(),
        ValueShape::InstantOrTemplate => text_node.check_timestamp(),
        ValueShape::Choice(words) => text_node.check_choice(words),
        ValueShape::Join => text_node.check_join(),
        ValueShape::Target(words) => text_node.check_jump_target(words),
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
    let finding = node.new_finding(rule, path, message);
    Some(finding.with_expected(expected, written.as_str()))
}

/// Checks the number of entries of a list or a mapping.
fn check_entry_count(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    (count, min, max): (usize, usize, usize),
) {
    let key = last_path_key(path);
    if count < min {
        let message = format!("`{key}` is empty");
        findings.push(node.new_finding(Rule::EmptyValue, path, message));
    } else if count > max {
        let message = format!("there are {count} `{key}`, the limit is {max}");
        let finding = node.new_finding(Rule::LimitExceeded, path, message);
        findings.push(finding.with_expected(format!("at most {max}"), count.to_string()));
    }
}

fn check_memory_entries(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str, min: usize) {
    let Some(entries) = node.entries() else {
        return findings.push(wrong_type_finding(node, path, "a mapping"));
    };
    let count = (entries.len(), min, limits::MEMORY_ENTRIES_MAX);
    check_entry_count(findings, node, path, count);
    for entry in entries {
        if let Err(message) = check_memory_name(&entry.key) {
            let path = format!("{path}.{}", entry.key);
            let rule = Rule::IllFormedName;
            findings.push(Finding::new(rule, path, entry.place, message));
        }
    }
}

/// Refuses a name that no entry of memory can have.
///
/// # Errors
/// The message says which names are allowed.
pub fn check_memory_name(name: &str) -> Result<(), String> {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_valid = name.chars().all(is_name_char) && !name.starts_with('-') && !name.is_empty();
    if is_valid && name.len() <= limits::MEMORY_NAME_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "`{name}` cannot be a name in memory: letters, digits, `_` and `-`, at most {}",
        limits::MEMORY_NAME_BYTES_MAX
    ))
}

/// Whether an argument is a binding to another value, as opposed to a literal.
pub(super) fn is_binding(node: &DocumentNode) -> bool {
    ["from_input", "from_step"].iter().any(|key| node.get(key).is_some())
}

fn check_bindings(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    binding: &MappingShape,
) {
    let Some(entries) = node.entries() else {
        return findings.push(wrong_type_finding(node, path, "a mapping"));
    };
    let count = (entries.len(), 0, limits::OPERATION_PARAMETERS_MAX);
    check_entry_count(findings, node, path, count);
    for entry in entries.iter().filter(|entry| is_binding(&entry.value)) {
        check_record(findings, &entry.value, &join_path(path, &entry.key), binding);
    }
}

fn check_scalars(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str, max: usize) {
    let Some(entries) = node.entries() else {
        return findings.push(wrong_type_finding(node, path, "a mapping"));
    };
    check_entry_count(findings, node, path, (entries.len(), 0, max));
    for entry in entries {
        let path = join_path(path, &entry.key);
        let key = TextNode { text: &entry.key, path: &path, place: entry.place };
        findings.extend(key.check_length(limits::METADATA_TEXT_BYTES_MAX));
        match &entry.value.content {
            NodeContent::Text(text) => {
                let text = TextNode::new(text, &entry.value, &path);
                findings.extend(text.check_length(limits::METADATA_TEXT_BYTES_MAX));
            }
            NodeContent::List(_) | NodeContent::Map(_) => {
                let expected = "a text, a number, `true` or `false`";
                findings.push(wrong_type_finding(&entry.value, &path, expected));
            }
            NodeContent::Null | NodeContent::Bool(_) | NodeContent::Number(..) => {}
        }
    }
}

/// Checks a failure code or class. `check::step` checks whether the step can fail with it.
fn check_failure_name(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    let is_number = |written: &String| written.bytes().all(|byte| byte.is_ascii_digit());
    let Some(written) = node.text_or_number().filter(is_number) else {
        return check_text(findings, node, path, &ValueShape::Name(limits::WORD_BYTES_MAX));
    };
    if normalize_failure_name(&written).is_none() {
        let (min, max) = FAILED_HTTP_STATUSES.into_inner();
        let message = format!("a call fails with statuses from {min} to {max}, not `{written}`");
        findings.push(node.new_finding(Rule::OutOfRange, path, message));
    }
}

fn check_foreach_items(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    match &node.content {
        NodeContent::List(_) => {}
        NodeContent::Text(text) if has_template(text) => {
            findings
                .extend(TextNode::new(text, node, path).check_length(limits::EXPRESSION_BYTES_MAX));
        }
        NodeContent::Text(text) => {
            let message = "`in` must be a list, or an expression that gives one";
            let template = format!("${{{{ {text} }}}}");
            let finding = node.new_finding(Rule::WrongType, path, message);
            let finding = finding.with_expected("a list or ${{ … }}", "a text");
            let finding = finding.suggest(format!("write {template}"));
            findings.push(finding.edit_rewrite_unquoted(
                node.place,
                text,
                &format!("\"{template}\""),
            ));
        }
        _ => findings.push(wrong_type_finding(node, path, "a list or ${{ … }}")),
    }
}

fn check_list(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    (item_shape, min, max): (&ValueShape, usize, usize),
) {
    let Some(items) = node.items() else {
        let expected = match item_shape {
            ValueShape::Name(_) | ValueShape::Id(_) | ValueShape::Text(_) => "a list of texts",
            ValueShape::NotNull => "a list of values",
            _ => "a list",
        };
        return findings.push(wrong_type_finding(node, path, expected));
    };
    check_entry_count(findings, node, path, (items.len(), min, max));
    let mut names = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = item.as_text().filter(|_| {
            matches!(item_shape, ValueShape::Name(_) | ValueShape::Id(_) | ValueShape::Failure)
        });
        if name.is_some_and(|name| !names.insert(name)) {
            let message = format!("`{}` is named twice", name.unwrap_or_default());
            findings.push(item.new_finding(Rule::DuplicateValue, &path, message));
        }
        check_shape(findings, item, &path, item_shape);
    }
}

/// Checks a list of step ids. `check::order` checks that the steps exist.
fn check_step_ids(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    let items = match &node.content {
        NodeContent::Text(_) => return,
        NodeContent::List(items) => items,
        _ => return findings.push(wrong_type_finding(node, path, "a list of texts")),
    };
    let count = (items.len(), 0, limits::DEPENDENCIES_MAX);
    check_entry_count(findings, node, path, count);
    for (at, item) in items.iter().enumerate() {
        if item.as_text().is_none() {
            findings.push(wrong_type_finding(item, &format!("{path}[{at}]"), "a text"));
        }
    }
}

/// Checks the number of inputs. `check::input` checks each input and the rules between its keys.
fn check_input_count(findings: &mut Vec<Finding>, node: &DocumentNode, path: &str) {
    let Some(entries) = node.entries() else {
        return findings.push(wrong_type_finding(node, path, "a mapping"));
    };
    let count = (entries.len(), 0, limits::INPUTS_DECLARED_MAX);
    check_entry_count(findings, node, path, count);
}

fn check_step_list(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    step: &MappingShape,
) {
    let Some(items) = node.items() else {
        return findings.push(wrong_type_finding(node, path, "a list"));
    };
    if items.is_empty() {
        let message = format!("`{path}` is empty: a workflow needs at least one");
        findings.push(node.new_finding(Rule::NoSteps, path, message));
    }
    check_entry_count(findings, node, path, (items.len(), 0, limits::STEPS_MAX));
    for (at, item) in items.iter().enumerate() {
        check_record(findings, item, &format!("{path}[{at}]"), step);
    }
}

/// Adds a finding for everything in the mapping `node` that does not conform to `record`.
pub(super) fn check_record(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    record: &MappingShape,
) {
    check_keys(findings, node, path, record, &[]);
}

/// Checks a mapping against the keys of `record`. The `exempt_keys` keys may be missing even if they are required.
fn check_keys(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    record: &MappingShape,
    exempt_keys: &[&str],
) {
    let Some(entries) = node.entries() else {
        return findings.push(wrong_type_finding(node, path, "a mapping"));
    };
    let mut present_keys: HashSet<_> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let mut checked_keys = HashSet::new();
    // A repeated key has a finding already.
    for entry in entries.iter().filter(|entry| checked_keys.insert(entry.key.as_str())) {
        let path = join_path(path, &entry.key);
        match record.find_key(&entry.key) {
            None if record.is_open => {}
            None if has_room_for_suggestions(findings) => {
                findings.push(unknown_record_key_finding(entry, path, record, &present_keys));
            }
            None => findings.push(unknown_key_finding(record.label, entry, path)),
            Some(key) if key.is_planned() => {
                findings.extend(unsupported_key_finding(key, &path, entry.place));
            }
            Some(key) => check_shape(findings, &entry.value, &path, &key.shape),
        }
    }
    for entry in entries {
        let required_key = record.find_key(&entry.key).and_then(|key| key.required_key);
        if let Some(required_key) = required_key.filter(|needed| !present_keys.contains(needed)) {
            let message = format!("`{}` has no effect without `{required_key}`", entry.key);
            let path = join_path(path, &entry.key);
            findings.push(Finding::new(Rule::NoEffect, path, entry.place, message));
        }
    }
    present_keys.extend(exempt_keys);
    check_missing_keys(findings, node, path, record, &present_keys);
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
    present_keys: &HashSet<&str>,
) -> Finding {
    let known = || record.keys.iter().map(|key| key.name);
    let finding = unknown_key_finding(record.label, entry, path);
    match find_nearest(&entry.key, known()) {
        Some(near) if present_keys.contains(near) => {
            finding.suggest(suggest_nearest(&entry.key, known()))
        }
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
            let key_names: Vec<_> = known().collect();
            finding.suggest(format!("its keys are {}", key_names.join(", ")))
        }
    }
}

/// Whether front matter does not have `key`, but manifests do.
fn is_manifest_only_key(record: &MappingShape, key: &str) -> bool {
    let markdown_shapes = [grammar::FRONT_MATTER_SHAPE.label, grammar::PHASE_SHAPE.label];
    let manifest_shapes = [&grammar::MANIFEST_SHAPE, &grammar::STEP_SHAPE];
    markdown_shapes.contains(&record.label)
        && manifest_shapes.iter().any(|record| record.find_key(key).is_some())
}

fn check_missing_keys(
    findings: &mut Vec<Finding>,
    node: &DocumentNode,
    path: &str,
    record: &MappingShape,
    present_keys: &HashSet<&str>,
) {
    let is_exempt =
        |key: &MappingKey| key.alternative_key.is_some_and(|other| present_keys.contains(other));
    let is_missing =
        |key: &&MappingKey| key.required && !present_keys.contains(key.name) && !is_exempt(key);
    for (at, key) in record.keys.iter().filter(is_missing).enumerate() {
        let message = if path.is_empty() && present_keys.is_empty() && at == 0 {
            format!("there is nothing in it, and {} needs `{}`", record.label, key.name)
        } else {
            format!("{} has no `{}`", record.label, key.name)
        };
        let path = join_path(path, key.name);
        findings.push(node.new_finding(Rule::MissingKey, &path, message));
    }
    // A key that needs another one stands beside it.
    let alternatives = || record.keys.iter().filter(|key| key.required_key.is_none());
    let known = alternatives().filter(|key| present_keys.contains(key.name));
    let rule = match known.count() {
        _ if !record.exactly_one => return,
        1 => return,
        0 => Rule::MissingKey,
        _ => Rule::ConflictingKeys,
    };
    let key_names: Vec<_> = alternatives().map(|key| format!("`{}`", key.name)).collect();
    let message = format!("{} has one of {}", record.label, key_names.join(", "));
    findings.push(node.new_finding(rule, path, message));
}
