//! The values that a manifest itself gives for an input: they must be ones that a caller could give.

use serde_json::{Map, Value};

use super::{
    DefaultFrom, Field, Finding, Input, InputDefault, InputDraft, Rule, required, too_long,
    too_many, word,
};
use crate::{
    domain::{
        check::schema::rule as rule_of,
        input::OutputOf,
        node::{At, Content, Node},
        schema::{Quota, Schema},
    },
    limits,
};

/// What begins a template.
const TEMPLATE: &str = "${{";

/// The two lists of values, together.
pub(super) fn one_of(found: &mut Vec<Finding>, draft: &InputDraft) -> Vec<Value> {
    let mut union: Vec<Value> = Vec::new();
    for list in lists(draft) {
        if let Some(finding) = too_many(list, "values", limits::INPUT_ENUM_MAX) {
            found.push(finding);
            continue;
        }
        for value in list.value.iter().map(|at| at.value.to_json()) {
            if !union.contains(&value) {
                union.push(value);
            }
        }
    }
    union
}

fn lists(draft: &InputDraft) -> impl Iterator<Item = &At<Vec<At<Node>>>> {
    let rules = draft.validate.given();
    let second = rules.and_then(|rules| rules.value.one_of.given());
    draft.one_of.given().into_iter().chain(second)
}

/// A pattern must be a regular expression.
pub(super) fn pattern(found: &mut Vec<Finding>, field: &Field<String>, quota: &mut Quota) {
    let Some(at) = field.given() else { return };
    if at.value.len() > limits::INPUT_PATTERN_BYTES_MAX {
        found.push(too_long(at, "pattern", limits::INPUT_PATTERN_BYTES_MAX));
        return;
    }
    if let Some(fault) = Schema::pattern_fault(&at.value, quota) {
        let rule = rule_of(fault.kind);
        found.push(Finding::new(rule, &at.path, at.place, fault.message));
    }
}

/// The default, where it is one that can be used.
pub(super) fn default(found: &mut Vec<Finding>, draft: &InputDraft) -> Option<InputDefault> {
    let at = draft.default.given()?;
    let path = |key: &str| format!("{}.{key}", at.path);
    required(found, &at.value.from, at.value.place, &path("from"))?;
    at.value.from.given()?;
    let from = word(
        found,
        &at.value.from,
        "source of defaults",
        DefaultFrom::NAMES,
        parse,
    )?;
    if from != DefaultFrom::History && at.value.value == Field::Absent {
        let what = match from {
            DefaultFrom::Env => "the name of an environment variable",
            DefaultFrom::WorkflowOutput => "the workflow whose output it is",
            _ => "the default itself",
        };
        let message = format!("`value` is missing: {what}");
        let finding = Finding::new(Rule::MissingKey, path("value"), at.value.place, message);
        found.push(finding);
    }
    let value = at.value.value.given();
    match from {
        DefaultFrom::Env => variable(found, value),
        DefaultFrom::WorkflowOutput => output(found, value),
        DefaultFrom::Literal | DefaultFrom::History => {}
    }
    Some(InputDefault {
        from,
        value: value.map(|at| at.value.to_json()),
    })
}

fn parse(text: &str) -> Option<DefaultFrom> {
    match text {
        "literal" => Some(DefaultFrom::Literal),
        "env" => Some(DefaultFrom::Env),
        "history" => Some(DefaultFrom::History),
        "workflow_output" => Some(DefaultFrom::WorkflowOutput),
        _ => None,
    }
}

/// The output of a workflow.
fn output(found: &mut Vec<Finding>, value: Option<&At<Node>>) {
    let Some(at) = value else { return };
    let fault = match &at.value.content {
        Content::Text(text) => OutputOf::parse(text).err(),
        _ => Some("a text"),
    };
    found.extend(fault.map(|expected| {
        let message = format!("`value` must be {expected}");
        Finding::new(Rule::WrongType, &at.path, at.place, message)
    }));
}

/// The name of an environment variable.
fn variable(found: &mut Vec<Finding>, value: Option<&At<Node>>) {
    let Some(at) = value else { return };
    let (rule, message) = match &at.value.content {
        Content::Text(name) if name.trim().is_empty() => (
            Rule::EmptyValue,
            "`value` is empty: it names an environment variable",
        ),
        Content::Text(_) => return,
        _ => (
            Rule::WrongType,
            "`value` must be a text: the name of an environment variable",
        ),
    };
    found.push(Finding::new(rule, &at.path, at.place, message));
}

/// Holds the values of the manifest to the rules of the input.
pub(super) fn check(found: &mut Vec<Finding>, draft: &InputDraft, input: &Input) {
    let all = input.constraints();
    let mut others = all.clone();
    others.shift_remove("enum");
    for at in lists(draft).flat_map(|list| &list.value) {
        hold(found, at, &others, Rule::InvalidEnum, "the value");
    }
    let default = draft.default.given().map(|at| &at.value);
    let literal = default.filter(|_| {
        let default = input.default.as_ref();
        default.is_some_and(|default| default.from == DefaultFrom::Literal)
    });
    let Some(at) = literal.and_then(|literal| literal.value.given()) else {
        return;
    };
    if let Some(at) = template(&at.value, &at.path) {
        let message = "templates in defaults are not supported yet";
        let finding = Finding::new(Rule::NotSupportedYet, at.path, at.place, message);
        found.push(finding);
    } else {
        hold(found, at, &all, Rule::InvalidDefault, "the default");
    }
}

fn hold(
    found: &mut Vec<Finding>,
    at: &At<Node>,
    constraints: &Map<String, Value>,
    rule: Rule,
    what: &str,
) {
    // What is wrong with the rules themselves has its own finding.
    let Ok(schema) = Schema::compile(&Value::Object(constraints.clone())) else {
        return;
    };
    let violations = schema.violations_named(&at.value.to_json(), what);
    for violation in violations {
        let meant = violation.suggestion.map(|meant| meant.text);
        let finding = Finding::new(rule, &at.path, at.place, violation.message).suggest(meant);
        found.push(match violation.expected.zip(violation.actual) {
            Some((expected, actual)) => finding.expected(expected, actual),
            None => finding,
        });
    }
}

/// The first text that holds a template.
fn template(node: &Node, path: &str) -> Option<At<()>> {
    match &node.content {
        Content::Text(text) if text.contains(TEMPLATE) => Some(At {
            value: (),
            path: path.to_owned(),
            place: node.place,
        }),
        Content::List(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, item)| template(item, &format!("{path}[{at}]"))),
        Content::Map(entries) => entries
            .iter()
            .find_map(|entry| template(&entry.value, &format!("{path}.{}", entry.key))),
        _ => None,
    }
}
