//! Checks the providers of inputs against the catalogs, and their arguments against the other inputs.
//!
//! An argument implies the inputs that it depends on, so `depends_on` may be omitted. If an argument is under both
//! keys, both must name the same inputs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::{
    answer::{ResponsePathResult, SchemaWalker},
    commands::{self, OperationLookup, OperationLookupResult, OperationSignature},
};
use crate::{
    definition::CatalogRequirement,
    draft::WorkflowDraft,
    expression::{Expression, Reference},
    finding::{Finding, Rule},
    input::find_argument_inputs,
    nearest::find_nearest,
    node::{DocumentNode, MappingEntry, join_path},
};

/// The keys that hold the arguments of a provider; for an argument under both, the first key takes precedence.
const ARGUMENT_KEYS: [&str; 2] = ["provider_args", "depends_on"];

/// A declared input with its position in the file.
struct InputSite<'a> {
    name: &'a str,
    node: &'a DocumentNode,
    path: String,
}

/// An argument of a provider.
struct ProviderArgument<'a> {
    entry: &'a MappingEntry,
    path: String,
}

/// Checks the providers of all inputs.
pub(in super::super) fn check_providers(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    lookup: Option<&dyn OperationLookup>,
) {
    let inputs = draft.field("inputs").and_then(|field| Some((field, field.value.entries()?)));
    let Some((field, entries)) = inputs else {
        return;
    };
    let sites = entries.iter().map(|entry| InputSite {
        name: &entry.key,
        node: &entry.value,
        path: join_path(&field.path, &entry.key),
    });
    let sites: Vec<_> = sites.collect();
    let required = commands::parse_required_catalogs(draft);
    for site in &sites {
        site.warn_keys_without_provider(findings);
        site.check_bindings(findings, &sites);
        site.check_conflicting_arguments(findings);
        if let Some(lookup) = lookup {
            site.check_provider(findings, &required, lookup);
        }
    }
    check_choice_cycles(findings, &sites);
}

/// The names of the inputs that provider arguments are bound to. Inputs in expressions are collected with the other
/// expressions.
pub(in super::super) fn bound_input_names(draft: &WorkflowDraft) -> impl Iterator<Item = &str> {
    let entries = draft.field("inputs").and_then(|field| field.value.entries());
    let bindings = entries.unwrap_or_default().iter().flat_map(|entry| {
        let both = ARGUMENT_KEYS.iter().filter_map(|key| entry.value.get(key)?.entries());
        both.flatten()
    });
    bindings.filter_map(|entry| entry.value.get("from_input")?.as_text())
}

impl<'a> InputSite<'a> {
    fn arguments_under_key(&self, key: &str) -> Vec<ProviderArgument<'a>> {
        let entries = self.node.get(key).and_then(DocumentNode::entries);
        let path = join_path(&self.path, key);
        let arguments = entries
            .unwrap_or_default()
            .iter()
            .map(|entry| ProviderArgument { entry, path: join_path(&path, &entry.key) });
        arguments.collect()
    }

    /// The arguments of its provider.
    fn provider_arguments(&self) -> Vec<ProviderArgument<'a>> {
        let [mut arguments, others] = ARGUMENT_KEYS.map(|key| self.arguments_under_key(key));
        let known: BTreeSet<_> = arguments.iter().map(|one| one.entry.key.as_str()).collect();
        let others = others.into_iter().filter(|one| !known.contains(one.entry.key.as_str()));
        let others: Vec<_> = others.collect();
        arguments.extend(others);
        arguments
    }

    fn input_dependencies(&self) -> BTreeSet<String> {
        let arguments = self.provider_arguments().into_iter();
        let names = arguments.filter_map(|one| find_argument_inputs(&one.entry.value.to_json()));
        names.flatten().collect()
    }

    /// Adds a finding for each key that has no effect without a provider.
    fn warn_keys_without_provider(&self, findings: &mut Vec<Finding>) {
        if self.node.get("provider").is_some() {
            return;
        }
        for entry in self.node.entries().unwrap_or_default() {
            if ["select", "cache_ttl_sec"].iter().chain(&ARGUMENT_KEYS).any(|key| *key == entry.key)
            {
                let message = format!("`{}` has no effect without `provider`", entry.key);
                let path = join_path(&self.path, &entry.key);
                let finding = Finding::new(Rule::NoEffect, path, entry.place, message);
                let hint =
                    "name the operation that lists the choices under `provider`, or leave it out";
                findings.push(finding.suggest(hint.to_owned()));
            }
        }
    }

    /// Adds a finding for each binding to an unknown input, and for each path that does not parse.
    fn check_bindings(&self, findings: &mut Vec<Finding>, sites: &[Self]) {
        for one in ARGUMENT_KEYS.into_iter().flat_map(|key| self.arguments_under_key(key)) {
            let Some(node) = one.entry.value.get("from_input") else {
                continue;
            };
            let name = node.as_text().unwrap_or_default();
            if sites.iter().all(|other| other.name != name) {
                let message = format!("no input is called `{name}`");
                let path = format!("{}.from_input", one.path);
                let finding = node.new_finding(Rule::UnknownReference, &path, message);
                let others = sites.iter().map(|other| other.name);
                findings.push(finding.did_you_mean(node.place, name, others));
            } else if find_argument_inputs(&one.entry.value.to_json()).is_none()
                && let Some(node) = one.entry.value.get("path")
            {
                let message = "`path` is names with dots between them, and indexes: `owner.ids[0]`";
                let path = format!("{}.path", one.path);
                findings.push(node.new_finding(Rule::IllFormedExpression, &path, message));
            }
        }
    }

    /// Adds a finding for each argument that reads other inputs under `provider_args` than under `depends_on`.
    fn check_conflicting_arguments(&self, findings: &mut Vec<Finding>) {
        let [provider_args, depends_on] = ARGUMENT_KEYS.map(|key| self.arguments_under_key(key));
        for one in depends_on {
            let key = &one.entry.key;
            let twin = provider_args.iter().find(|twin| twin.entry.key == *key);
            let both = twin.and_then(|twin| {
                let names = |argument: &ProviderArgument<'_>| {
                    find_argument_inputs(&argument.entry.value.to_json())
                };
                Some((names(twin)?, names(&one)?))
            });
            if let Some((read_names, declared_names)) = both.filter(|(reads, says)| reads != says) {
                let message = format!(
                    "`depends_on` says that `{key}` depends on {}, and `provider_args` reads {}",
                    join_names(&declared_names),
                    join_names(&read_names)
                );
                let finding =
                    Finding::new(Rule::Contradiction, &one.path, one.entry.place, message);
                let hint = "leave it out: what `provider_args` reads is what it depends on";
                findings.push(finding.suggest(hint.to_owned()));
            }
        }
    }

    fn check_provider(
        &self,
        findings: &mut Vec<Finding>,
        required: &[CatalogRequirement],
        lookup: &dyn OperationLookup,
    ) {
        let Some(node) = self.node.get("provider") else {
            return;
        };
        let path = join_path(&self.path, "provider");
        let Some((catalog, operation)) = node.as_text().and_then(commands::split_operation_name)
        else {
            return;
        };
        let callable = match lookup.find_operation(catalog, &operation) {
            OperationLookupResult::NoCatalog(_) | OperationLookupResult::Disabled
                if required.iter().any(|requirement| requirement.matches_catalog(catalog)) =>
            {
                return;
            }
            OperationLookupResult::Operation(callable) => Some(callable),
            OperationLookupResult::NoOperation(_) => None,
            failed => {
                findings.push(commands::unknown_operation_finding(
                    (node, &path),
                    catalog,
                    &operation,
                    failed,
                ));
                return;
            }
        };
        if let Some(callable) = callable.filter(|callable| callable.items_path.is_some()) {
            self.check_arguments(findings, (node, &path), &callable);
            self.check_select_fields(findings, &callable);
            return;
        }
        let nearest = lookup.find_similar_provider(catalog, &operation);
        let message = format!("catalog `{catalog}` has no provider `{operation}`");
        let hint = "a provider is an operation that answers a list of objects: look for it with `provider.list`";
        let finding = node.new_finding(Rule::UnknownProvider, &path, message);
        let finding = finding.suggest(hint.to_owned());
        findings.push(finding.did_you_mean(node.place, &operation, nearest.as_deref()));
    }

    /// Checks the arguments against the parameters of the provider.
    fn check_arguments(
        &self,
        findings: &mut Vec<Finding>,
        (node, path): (&DocumentNode, &str),
        callable: &OperationSignature,
    ) {
        let names = callable.arguments.iter().map(|argument| argument.name.as_str());
        let names: Vec<_> = names.collect();
        let arguments = self.provider_arguments();
        for one in arguments.iter().filter(|one| !names.contains(&one.entry.key.as_str())) {
            findings.push(commands::unknown_argument_finding(&one.path, one.entry, &names));
        }
        let has_argument = |name: &str| arguments.iter().any(|one| one.entry.key == name);
        let required = callable.arguments.iter().filter(|argument| argument.is_required);
        let missing = required.filter(|argument| !has_argument(&argument.name));
        let missing: Vec<_> = missing.map(|argument| format!("`{}`", argument.name)).collect();
        if !missing.is_empty() {
            let message = format!("the provider needs {}", missing.join(", "));
            let finding = node.new_finding(Rule::MissingArgument, path, message);
            findings.push(
                finding.suggest(format!("give {} under `provider_args`", missing.join(", "))),
            );
        }
    }

    /// Checks that the listed objects have the selected fields.
    fn check_select_fields(&self, findings: &mut Vec<Finding>, callable: &OperationSignature) {
        let (Some(output), Some(select)) = (&callable.output, self.node.get("select")) else {
            return;
        };
        let mut walker = SchemaWalker::new(output);
        let Some(item) = walker.list_item_schema(callable) else {
            return;
        };
        for key in ["value_field", "display_field", "id_field"] {
            let Some(node) = select.get(key) else {
                continue;
            };
            let path = format!("{}.select.{key}", self.path);
            findings.extend(selected_field_finding(
                &mut walker,
                item,
                (node, &path),
                key == "value_field",
            ));
        }
    }
}

/// The finding for a selected field that the objects lack, or whose value is not a scalar.
fn selected_field_finding<'a>(
    walker: &mut SchemaWalker<'a>,
    item: &'a Value,
    (node, path): (&DocumentNode, &str),
    is_value: bool,
) -> Option<Finding> {
    let text = node.as_text()?;
    let expression = Expression::parse(&format!("inputs.item.{text}"));
    let references = expression.as_ref().map(Expression::references);
    let path_of = |references: &[Reference]| Some(references.first()?.path.get(1..)?.to_vec());
    let answer = match references.ok().and_then(path_of) {
        Some(segments) => walker.follow_path(vec![item], &segments, 0),
        None => ResponsePathResult::Missing(0, Vec::new()),
    };
    let problem = match answer {
        ResponsePathResult::Resolved(schemas) if is_value => {
            let mut kinds = schemas.into_iter().map(|schema| walker.non_null_types(schema));
            let is_composed = |kinds: Vec<&str>| {
                !kinds.is_empty() && kinds.iter().all(|kind| ["object", "array"].contains(kind))
            };
            kinds.all(is_composed).then_some("is no single value")?
        }
        ResponsePathResult::NoIndex(_) if is_value => {
            "leads through a list, so it is no single value"
        }
        ResponsePathResult::Missing(..) => {
            return Some(missing_field_finding(walker, item, (node, path), text));
        }
        _ => return None,
    };
    let message =
        format!("`{text}` {problem}: an input is given a text, a number or a truth value");
    let rule = Rule::ProviderSelectValueFieldNonScalar;
    let nested_names = nested_field_names(walker, item).into_iter();
    let nested_names: Vec<_> =
        nested_names.filter(|name| name.starts_with(&format!("{text}."))).collect();
    let hint = (!nested_names.is_empty())
        .then(|| format!("name a field in it: {}", nested_names.join(", ")));
    Some(node.new_finding(rule, path, message).suggest(hint))
}

/// The finding for a field that the objects lack, with a suggestion: a similar field, or a field of that name in a
/// nested object.
fn missing_field_finding<'a>(
    walker: &mut SchemaWalker<'a>,
    item: &'a Value,
    (node, path): (&DocumentNode, &str),
    text: &str,
) -> Finding {
    let names = nested_field_names(walker, item);
    let top_level_names: Vec<_> =
        names.iter().filter(|name| !name.contains('.')).cloned().collect();
    let message = format!("what the provider lists has no field `{text}`");
    let rule = Rule::ProviderSelectValueFieldMissing;
    let finding = node.new_finding(rule, path, message);
    let finding = finding.suggest(format!("there are {}", top_level_names.join(", ")));
    let nested_name = names.iter().find(|name| name.ends_with(&format!(".{text}")));
    match nested_name
        .filter(|_| find_nearest(text, top_level_names.iter().map(String::as_str)).is_none())
    {
        Some(inside) => finding.suggest_replacement(node.place, text, inside),
        None => finding.did_you_mean(node.place, text, names.iter().map(String::as_str)),
    }
}

/// The field names of an object and of the objects directly in it: `owner`, `owner.id`.
fn nested_field_names<'a>(walker: &mut SchemaWalker<'a>, item: &'a Value) -> Vec<String> {
    let mut names = Vec::new();
    for (name, value) in walker.declared_properties(item) {
        names.push(name.to_owned());
        let inner = walker.declared_properties(value).into_iter();
        names.extend(inner.map(|(inner, _)| format!("{name}.{inner}")));
    }
    names
}

fn join_names(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "no input".to_owned(),
        names => names.join(", "),
    }
}

/// Adds one finding for each cycle of inputs whose choices depend on each other.
fn check_choice_cycles(findings: &mut Vec<Finding>, sites: &[InputSite<'_>]) {
    let dependencies = sites.iter().map(|one| (one.name, one.input_dependencies()));
    let dependencies: BTreeMap<_, _> = dependencies.collect();
    let mut reported = BTreeSet::new();
    for site in sites {
        let cycle = transitive_dependencies(site.name, &dependencies).into_iter();
        let cycle =
            cycle.filter(|name| transitive_dependencies(name, &dependencies).contains(site.name));
        let cycle: Vec<_> = cycle.collect();
        let message = match cycle.as_slice() {
            _ if reported.contains(site.name) => continue,
            [] => continue,
            [_] => format!("the choices of `{}` wait for its own value", site.name),
            cycle => {
                format!("the choices of these inputs wait for each other: {}", cycle.join(", "))
            }
        };
        reported.extend(cycle);
        let finding = site.node.new_finding(Rule::CyclicDependency, &site.path, message);
        findings.push(
            finding.suggest("let one of them be given by hand, without a provider".to_owned()),
        );
    }
}

/// The inputs that an input depends on, directly or indirectly.
fn transitive_dependencies(
    name: &str,
    dependencies: &BTreeMap<&str, BTreeSet<String>>,
) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![name];
    while let Some(current) = pending.pop() {
        for dependency in dependencies.get(current).into_iter().flatten() {
            if reached.insert(dependency.clone()) {
                pending.push(dependency);
            }
        }
    }
    reached
}
