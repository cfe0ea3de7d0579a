//! Checks the operations that `run` steps call against the imported catalogs.

pub(super) mod values;

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

use super::super::{
    class::OperationClass,
    definition::CatalogRequirement,
    draft::{RawField, StepDraft, WorkflowDraft},
    finding::{Finding, Rule},
    node::{DocumentNode, MappingEntry},
};
use crate::error::{Violation, double_quotes};

/// Lookup of operations in the catalogs, as of one moment.
pub trait OperationLookup: fmt::Debug + Send + Sync {
    /// Resolves the catalog and operation names of a step.
    fn find_operation(&self, catalog: &str, operation: &str) -> OperationLookupResult;

    /// The name of a provider of the catalog that is similar to `operation`.
    fn find_similar_provider(&self, catalog: &str, operation: &str) -> Option<String>;

    /// Validates the arguments and the body of a call against the schemas of the operation. The paths of the violations
    /// begin with `/with` or `/body`. Expressions are passed as written, so violations of values that contain one are
    /// meaningless.
    fn validate_call(
        &self,
        operation_name: (&str, &str),
        with: &Value,
        body: Option<&Value>,
    ) -> Vec<Violation>;

    /// Whether an enabled catalog satisfies the requirement.
    fn is_requirement_met(&self, requirement: &CatalogRequirement) -> bool;

    /// The id of a disabled catalog that would satisfy the requirement.
    fn find_disabled_catalog(&self, requirement: &CatalogRequirement) -> Option<String>;

    /// A version number that changes whenever the catalogs change.
    fn catalogs_version(&self) -> u64;
}

/// Whether `argument` is required by the operation; false if the operation is unknown.
pub fn is_argument_required(lookup: &dyn OperationLookup, operation: &str, argument: &str) -> bool {
    let Some((catalog, operation)) = split_operation_name(operation) else {
        return false;
    };
    let OperationLookupResult::Operation(callable) = lookup.find_operation(catalog, &operation)
    else {
        return false;
    };
    let mut arguments = callable.arguments.iter();
    arguments.any(|one| one.is_required && one.name == argument)
}

/// The result of looking up an operation.
#[derive(Clone, Debug)]
pub enum OperationLookupResult {
    /// No catalog has this name; the name of a similar one.
    NoCatalog(Option<String>),
    /// The catalog is disabled.
    Disabled,
    /// No operation has this name; the name of a similar one.
    NoOperation(Option<String>),
    /// Several catalogs of the vendor have such an operation; the ids of the catalogs.
    Ambiguous(Vec<String>),
    /// The operation.
    Operation(Arc<OperationSignature>),
}

/// The properties of an operation that the check of a step needs.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationSignature {
    /// The class of the operation: how much it may change.
    pub class: OperationClass,
    /// The parameters, without the body.
    pub arguments: Vec<Argument>,
    /// The request body, if the operation takes one.
    pub body: Option<BodyFields>,
    /// The response schema, if the document has one.
    pub output: Option<Value>,
    /// For a provider, the dotted path of the list of choices in the response; empty if the response itself is the
    /// list. `None` if the operation is no provider.
    pub items_path: Option<String>,
    /// Whether the document describes how to request further pages.
    pub has_pages: bool,
    /// The reason why the operation cannot be called.
    pub uncallable_reason: Option<String>,
}

/// An argument, or a field of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Whether a call needs it.
    pub is_required: bool,
    /// Whether it is sent as a header or a cookie.
    pub is_header: bool,
}

/// The fields of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyFields {
    /// Whether a call needs a body.
    pub is_required: bool,
    /// The known fields; empty if the body is no object.
    pub fields: Vec<Argument>,
    /// Whether further fields are allowed; false if the body is no object.
    pub is_extensible: bool,
}

impl BodyFields {
    /// Whether its schema has a field of this name.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }
}

/// Warns of each required catalog that is missing or disabled.
pub(super) fn check_requirements(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    lookup: Option<&dyn OperationLookup>,
) {
    let Some(lookup) = lookup else { return };
    for (at, node) in required_catalog_nodes(draft).iter().enumerate() {
        let Some(requirement) = parse_requirement(node) else {
            continue;
        };
        if !lookup.is_requirement_met(&requirement) {
            let (problem, needed_state, hint) = match lookup.find_disabled_catalog(&requirement) {
                Some(id) => {
                    (format!("the catalog `{id}` is disabled"), "enabled", enable_catalog_call(&id))
                }
                None => (
                    format!("there is no catalog of {requirement} here"),
                    "imported",
                    requirement.import_catalog_call(),
                ),
            };
            let message = format!(
                "{problem}: what steps call of it is not judged, and no start is taken until it is {needed_state}"
            );
            let path = format!("requires.catalogs[{at}]");
            let finding = node.new_finding(Rule::CatalogRequirement, &path, message);
            findings.push(finding.suggest(hint));
        }
    }
}

/// The tool call that enables a disabled catalog.
pub fn enable_catalog_call(id: &str) -> String {
    format!("catalog.set_enabled with catalog_id '{}' and enabled 'true'", double_quotes(id))
}

/// The catalogs that a workflow requires.
pub(super) fn parse_required_catalogs(draft: &WorkflowDraft) -> Vec<CatalogRequirement> {
    required_catalog_nodes(draft).iter().filter_map(parse_requirement).collect()
}

fn parse_requirement(node: &DocumentNode) -> Option<CatalogRequirement> {
    Some(CatalogRequirement {
        vendor: node.deserialize_key("vendor")?,
        title: node.deserialize_key("title"),
        source: node.deserialize_key("source"),
        source_type: node.deserialize_key("source_type"),
        version: node.get("version").and_then(DocumentNode::text_or_number),
    })
}

fn required_catalog_nodes(draft: &WorkflowDraft) -> &[DocumentNode] {
    let requires = draft.document.get("requires");
    let catalogs = requires.and_then(|requires| requires.get("catalogs")?.items());
    catalogs.unwrap_or_default()
}

/// The operations that `run` steps call, by the paths of the steps. Unknown operations are left out.
#[derive(Debug, Default)]
pub(super) struct OperationCalls(BTreeMap<String, Arc<OperationSignature>>);

impl OperationCalls {
    /// The operation that a step calls.
    pub(super) fn operation_of_step(&self, step: &StepDraft) -> Option<&OperationSignature> {
        self.0.get(&step.path).map(|callable| &**callable)
    }
}

/// Checks that the operation of each `run` step exists and that the step passes the arguments that it takes.
pub(super) fn check_run_steps(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
    lookup: Option<&dyn OperationLookup>,
) -> OperationCalls {
    let mut calls = OperationCalls::default();
    let Some(lookup) = lookup else {
        return calls;
    };
    let required = parse_required_catalogs(draft);
    let hooks = draft.hooks.iter().map(|(_, hook)| hook);
    let bodies = steps.iter().flat_map(StepDraft::all_bodies_and_hooks);
    for step in bodies.chain(hooks) {
        let Some((field, catalog, operation)) = parse_run_field(step) else {
            continue;
        };
        match lookup.find_operation(catalog, &operation) {
            OperationLookupResult::Operation(callable) => {
                let count_before = findings.len();
                check_arguments(findings, step, field, &callable);
                if let Some(paginate) = step.find_field("paginate").filter(|_| !callable.has_pages)
                {
                    let message = "the document of the operation shows no way to a further page: the first one alone may come";
                    let finding = paginate.key_finding(Rule::NoEffect, message).as_warning();
                    let hint = "leave it out, and ask for the next page with the operation's own arguments";
                    findings.push(finding.suggest(hint.to_owned()));
                }
                if findings.len() == count_before {
                    values::check_constant_values(findings, step, lookup, (catalog, &operation));
                }
                calls.0.insert(step.path.clone(), callable);
            }
            OperationLookupResult::NoCatalog(_) | OperationLookupResult::Disabled
                if required.iter().any(|requirement| requirement.matches_catalog(catalog)) => {}
            failed => {
                let at = (&field.value, field.path.as_str());
                findings.push(unknown_operation_finding(at, catalog, &operation, failed));
            }
        }
    }
    calls
}

/// The `run` field of a step with its catalog and operation.
fn parse_run_field(step: &StepDraft) -> Option<(&RawField, &str, String)> {
    let field = step.find_field("run")?;
    let (catalog, operation) = split_operation_name(field.value.as_text()?)?;
    Some((field, catalog, operation))
}

/// Splits a text into the names of a catalog and an operation.
pub(super) fn split_operation_name(text: &str) -> Option<(&str, String)> {
    let (catalog, operation) = text.trim().split_once(char::is_whitespace)?;
    let words: Vec<_> = operation.split_whitespace().collect();
    Some((catalog, words.join(" ")))
}

/// The finding for a name that resolves to no operation.
pub(super) fn unknown_operation_finding(
    (node, path): (&DocumentNode, &str),
    catalog: &str,
    operation: &str,
    failed: OperationLookupResult,
) -> Finding {
    let (rule, message, hint, similar) = match failed {
        OperationLookupResult::NoCatalog(near) => (
            Rule::UnknownCatalog,
            format!("there is no catalog `{catalog}` here"),
            "import it with `catalog.import_openapi`, or name it under `requires.catalogs`; a command on the user's machine is `guidance: Run …`"
                .to_owned(),
            near.map(|near| (catalog.to_owned(), near)),
        ),
        OperationLookupResult::Disabled => (
            Rule::UnknownCatalog,
            format!("the catalog `{catalog}` is disabled"),
            format!("enable it: {}", enable_catalog_call(catalog)),
            None,
        ),
        OperationLookupResult::Ambiguous(catalogs) => (
            Rule::UnknownOperation,
            format!(
                "several catalogs of `{catalog}` have an operation `{operation}`: {}",
                catalogs.join(", ")
            ),
            "name the one that is meant by its id".to_owned(),
            None,
        ),
        OperationLookupResult::NoOperation(near) => (
            Rule::UnknownOperation,
            format!("catalog `{catalog}` has no operation `{operation}`"),
            format!("look for it: `command.list` with catalog '{catalog}' and a query"),
            near.map(|near| (operation.to_owned(), near)),
        ),
        OperationLookupResult::Operation(_) => unreachable!("that one is there"),
    };
    let finding = node.new_finding(rule, path, message).suggest(hint);
    match similar {
        Some((wrong, near)) => finding.did_you_mean(node.place, &wrong, [near.as_str()]),
        None => finding,
    }
}

/// Checks the arguments and the body of a step against the parameters of its operation.
fn check_arguments(
    findings: &mut Vec<Finding>,
    step: &StepDraft,
    run: &RawField,
    callable: &OperationSignature,
) {
    if let Some(reason) = &callable.uncallable_reason {
        let message = format!("it cannot be called: {reason}");
        findings.push(run.value_finding(Rule::UnknownOperation, message));
        return;
    }
    let with = step.find_field("with");
    let arguments = with.and_then(|field| field.value.entries()).unwrap_or_default();
    let has_body = step.find_field("body").is_some();
    if let Some(body) = step.find_field("body").filter(|_| callable.body.is_none()) {
        let message = "the operation takes no body";
        findings.push(body.key_finding(Rule::NoEffect, message).suggest("leave it out".to_owned()));
    }
    // Without `body`, arguments that are no parameters become fields of the body.
    let fields = callable.body.as_ref().filter(|_| !has_body);
    let names = callable.arguments.iter().chain(fields.iter().flat_map(|body| &body.fields));
    let names: Vec<_> = names.map(|argument| argument.name.as_str()).collect();
    if !fields.is_some_and(|body| body.is_extensible) {
        let unknown = arguments.iter().filter(|entry| !names.contains(&entry.key.as_str()));
        let path = with.map_or("with", |field| &field.path);
        let unknown = unknown
            .map(|entry| unknown_argument_finding(&format!("{path}.{}", entry.key), entry, &names));
        findings.extend(unknown);
    }
    let has_argument = |name: &str| arguments.iter().any(|entry| entry.key == name);
    let body_fields = fields.filter(|body| {
        body.is_required || body.fields.iter().any(|field| has_argument(&field.name))
    });
    let candidates =
        callable.arguments.iter().chain(body_fields.iter().flat_map(|body| &body.fields));
    let missing =
        candidates.filter(|argument| argument.is_required && !has_argument(&argument.name));
    let missing: Vec<_> = missing.map(|argument| format!("`{}`", argument.name)).collect();
    if !missing.is_empty() {
        let message = format!("the operation needs {}", missing.join(", "));
        let finding = run.value_finding(Rule::MissingArgument, message);
        findings.push(finding.suggest(format!("give {} under `with`", missing.join(", "))));
    } else if body_fields.is_some_and(|body| body.fields.is_empty() && !body.is_extensible) {
        let finding = run.value_finding(Rule::MissingArgument, "the operation needs a body");
        findings.push(finding.suggest("give it under `body`".to_owned()));
    }
}

/// The finding for an argument that the operation does not take.
pub(super) fn unknown_argument_finding(
    path: &str,
    entry: &MappingEntry,
    names: &[&str],
) -> Finding {
    let message = match names {
        [] => format!("the operation takes no argument, so no `{}`", entry.key),
        _ => format!("the operation takes no argument `{}`", entry.key),
    };
    let finding = Finding::new(Rule::UnknownArgument, path, entry.place, message);
    let finding = finding.suggest(format!("it takes {}", join_first_names(names)));
    finding.did_you_mean(entry.place, &entry.key, names.iter().copied())
}

/// Joins at most [`NAMES_LISTED_MAX`] names for a finding.
pub(super) fn join_first_names(names: &[&str]) -> String {
    names[..names.len().min(NAMES_LISTED_MAX)].join(", ")
}

const NAMES_LISTED_MAX: usize = 12;
