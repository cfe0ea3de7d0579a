//! Infers the providers of a document: operations that list objects, from which arguments of other operations can be
//! chosen. No operation is called for this.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    name::{ends_with_parameter, list_name_segments, to_kebab_case},
    shape::{
        SharedSchemas, collect_all_properties, find_items_schema, find_schema_type, resolve_schema,
    },
};
use crate::operation::{Method, Operation, Parameter, ParameterLocation};
use midex_domain::limits;

/// All providers of a document, and their uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Providers {
    /// The operations that provide values, ordered by name.
    pub providers: Vec<Provider>,
    /// The arguments that take these values.
    pub uses: Vec<ProviderUse>,
}

/// An operation that lists objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// The name of the operation.
    pub id: String,
    /// The arguments of the operation itself.
    pub arguments: Vec<ProviderParameter>,
    /// The path of the list in the answer: names joined by dots, and empty if the answer itself is the list.
    pub items_path: String,
    /// The fields of each object.
    pub fields: Vec<ProviderField>,
    /// The fields that are used to choose an object.
    pub select: SelectFields,
}

/// An argument of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderParameter {
    /// Its name.
    pub name: String,
    /// Whether a call needs it.
    pub required: bool,
    /// The tags of the fields whose values it accepts.
    pub accepts: Vec<String>,
}

/// A field of the listed objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderField {
    /// Its name.
    pub name: String,
    /// Its type in JSON Schema; empty if the document does not declare it.
    pub r#type: String,
    /// Tags of its value, by which arguments refer to it: `app_id`.
    pub tags: Vec<String>,
}

/// The fields that are used to choose an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectFields {
    /// The field whose value becomes the argument.
    pub value_field: String,
    /// The field that is shown to the person who chooses.
    pub display_field: String,
    /// The field that identifies an object.
    pub id_field: Option<String>,
}

/// An argument whose values a provider lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderUse {
    /// The operation with the argument.
    pub operation: String,
    /// The argument.
    pub argument: String,
    /// The provider.
    pub provider: String,
}

/// Names of fields that identify an object, in order of preference.
const ID_FIELDS: &[&str] =
    &["id", "uuid", "gid", "uid", "sid", "slug", "key", "number", "name", "login", "code"];
/// Names of fields that are shown to a person, in order of preference.
const DISPLAY_FIELDS: &[&str] = &[
    "name",
    "title",
    "display_name",
    "displayName",
    "full_name",
    "label",
    "login",
    "slug",
    "email",
    "key",
    "description",
];
/// Names of fields that contain a list, in order of preference.
const LIST_FIELDS: &[&str] =
    &["items", "results", "data", "values", "entries", "list", "value", "records", "objects"];

/// Infers the providers and their uses. The operations must be ordered by name.
pub(super) fn infer_providers(operations: &[Operation], shared: &SharedSchemas) -> Providers {
    let list_operations = operations
        .iter()
        .filter(|operation| operation.uncallable.is_none() && is_list_operation(operation));
    let providers: Vec<_> = list_operations
        .filter_map(|operation| Some((operation, infer_provider(operation, shared)?)))
        .collect();
    let uses = ProviderIndex::from_providers(&providers);
    let uses = operations.iter().flat_map(|operation| uses.find_uses(operation)).collect();
    Providers { providers: providers.into_iter().map(|(_, provider)| provider).collect(), uses }
}

fn is_list_operation(operation: &Operation) -> bool {
    operation.method == Method::Get && !ends_with_parameter(&operation.path)
}

/// Whether the answer of an operation is a single object and not a list.
pub(super) fn has_single_object_answer(operation: &Operation, shared: &SharedSchemas) -> bool {
    let Some(output) = operation.output.as_ref() else {
        return false;
    };
    let fields = collect_all_properties(output, shared);
    let is_list = |value: &Value| {
        find_schema_type(value, shared) == Some("array")
            || find_items_schema(value, shared).is_some()
    };
    let has_id = fields.iter().any(|(name, _)| ["id", "uuid", "gid", "sid"].contains(name));
    let has_list = fields.iter().any(|(_, value)| is_list(value));
    !fields.is_empty()
        && !is_list(output)
        && find_object_list(output, &derive_object_noun(&operation.path), shared).is_none()
        && (has_id || !has_list)
}

fn infer_provider(operation: &Operation, shared: &SharedSchemas) -> Option<Provider> {
    let output = operation.output.as_ref()?;
    let noun = derive_object_noun(&operation.path);
    let (items_path, item) = find_object_list(output, &noun, shared)?;
    let fields: Vec<_> = collect_all_properties(item, shared)
        .into_iter()
        .take(limits::PROVIDER_FIELDS_MAX)
        .map(|(name, value)| ProviderField {
            name: name.to_owned(),
            r#type: find_schema_type(value, shared).unwrap_or_default().to_owned(),
            tags: derive_field_tags(name, &noun),
        })
        .collect();
    Some(Provider {
        id: operation.name.clone(),
        arguments: operation
            .parameters
            .iter()
            .map(|parameter| build_provider_parameter(parameter, &operation.path))
            .collect(),
        items_path,
        select: choose_select_fields(&fields)?,
        fields,
    })
}

/// The path of the list of objects in an answer, and the schema of an object.
fn find_object_list<'a>(
    output: &'a Value,
    noun: &str,
    shared: &'a SharedSchemas,
) -> Option<(String, &'a Value)> {
    let resolve_object = |value: &'a Value| {
        find_items_schema(value, shared)
            .filter(|item| !collect_all_properties(item, shared).is_empty())
    };
    if let Some(item) = resolve_object(output) {
        return Some((String::new(), item));
    }
    let lists: Vec<_> = collect_all_properties(resolve_schema(output, shared), shared)
        .into_iter()
        .filter_map(|(name, value)| Some((name, resolve_object(value)?)))
        .collect();
    let preferred = LIST_FIELDS.iter().find_map(|list| lists.iter().find(|(name, _)| name == list));
    let list_of_noun = lists.iter().find(|(name, _)| to_singular(&to_snake_case(name)) == noun);
    let (name, item) =
        list_of_noun.or(preferred).or_else(|| lists.first().filter(|_| lists.len() == 1))?;
    Some(((*name).to_owned(), *item))
}

fn choose_select_fields(fields: &[ProviderField]) -> Option<SelectFields> {
    let find_scalar = |name: &str| {
        let field = fields.iter().find(|field| field.name == name)?;
        (!matches!(field.r#type.as_str(), "object" | "array")).then(|| name.to_owned())
    };
    let id = ID_FIELDS.iter().find_map(|name| find_scalar(name)).or_else(|| {
        let mut others = fields.iter().filter(|field| field.name.ends_with("_id"));
        others.find_map(|field| find_scalar(&field.name))
    });
    let display = DISPLAY_FIELDS.iter().find_map(|name| find_scalar(name));
    let value_field = id.clone().or_else(|| display.clone())?;
    Some(SelectFields {
        display_field: display.unwrap_or_else(|| value_field.clone()),
        value_field,
        id_field: id,
    })
}

fn derive_field_tags(field: &str, noun: &str) -> Vec<String> {
    let name = to_snake_case(field);
    if name.starts_with(noun) || noun.is_empty() || !ID_FIELDS.contains(&name.as_str()) {
        vec![name]
    } else {
        vec![format!("{noun}_{name}"), name]
    }
}

fn build_provider_parameter(parameter: &Parameter, path: &str) -> ProviderParameter {
    let name = to_snake_case(&parameter.name);
    let mut accepts = vec![name.clone()];
    if parameter.location == ParameterLocation::Path {
        let resource_path = cut_before_parameter(path, &parameter.name)
            .map(derive_object_noun)
            .filter(|noun| !name.starts_with(noun.as_str()));
        accepts.extend(resource_path.map(|noun| format!("{noun}_{name}")));
    }
    ProviderParameter { name: parameter.argument.clone(), required: parameter.is_required, accepts }
}

/// The part of a path before a path parameter.
fn cut_before_parameter<'a>(path: &'a str, parameter: &str) -> Option<&'a str> {
    let at = path.find(&format!("{{{parameter}}}"))?;
    Some(path[..at].trim_end_matches('/'))
}

/// The noun for the objects at a path, in the singular: `dyno` for `/apps/{id}/dynos`.
fn derive_object_noun(path: &str) -> String {
    to_singular(&to_snake_case(&list_name_segments(path).pop().unwrap_or_default()))
}

fn to_snake_case(name: &str) -> String {
    to_kebab_case(name).replace('-', "_")
}

/// The singular of a noun: `policy` for `policies`.
pub(super) fn to_singular(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        return format!("{stem}y");
    }
    let sibilant_endings = ["sses", "xes", "ches", "shes", "zes"];
    if sibilant_endings.iter().any(|end| word.ends_with(end)) {
        return word[..word.len() - 2].to_owned();
    }
    let is_plural =
        word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    word[..word.len() - usize::from(is_plural)].to_owned()
}

/// Finds providers by their path, or by the noun for the objects that they list.
struct ProviderIndex<'a> {
    paths: HashMap<&'a str, &'a Provider>,
    nouns: HashMap<String, Vec<&'a Provider>>,
}

impl<'a> ProviderIndex<'a> {
    fn from_providers(providers: &'a [(&'a Operation, Provider)]) -> Self {
        let mut nouns: HashMap<String, Vec<&Provider>> = HashMap::new();
        for (operation, provider) in providers {
            nouns.entry(derive_object_noun(&operation.path)).or_default().push(provider);
        }
        let required =
            |provider: &&Provider| provider.arguments.iter().filter(|need| need.required).count();
        for providers in nouns.values_mut() {
            providers.sort_by_key(|provider| (required(provider), provider.id.len()));
        }
        Self {
            paths: providers
                .iter()
                .map(|(operation, provider)| (operation.path.trim_end_matches('/'), provider))
                .collect(),
            nouns,
        }
    }

    fn find_uses(&self, operation: &Operation) -> Vec<ProviderUse> {
        let find_use = |parameter: &Parameter| {
            let provider = self
                .find_provider(operation, parameter)
                .filter(|provider| provider.id != operation.name)?;
            Some(ProviderUse {
                operation: operation.name.clone(),
                argument: parameter.argument.clone(),
                provider: provider.id.clone(),
            })
        };
        operation.parameters.iter().filter_map(find_use).collect()
    }

    fn find_provider(&self, operation: &Operation, parameter: &Parameter) -> Option<&'a Provider> {
        if parameter.location == ParameterLocation::Path {
            let parent_provider = cut_before_parameter(&operation.path, &parameter.name)
                .and_then(|path| self.paths.get(path));
            if let Some(provider) = parent_provider {
                return Some(provider);
            }
        }
        let name = to_snake_case(&parameter.name);
        let noun = name.strip_suffix("_id").or_else(|| name.strip_suffix("_ids"))?;
        let can_fill = |need: &ProviderParameter| {
            !need.required
                || operation
                    .parameters
                    .iter()
                    .any(|own| own.argument == need.name && own.argument != parameter.argument)
        };
        let mut candidates = self.nouns.get(&to_singular(noun))?.iter();
        candidates.find(|provider| provider.arguments.iter().all(can_fill)).copied()
    }
}
