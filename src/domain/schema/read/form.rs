//! Checks the form of each keyword's value, and finds its subschemas.

use serde_json::{Map, Value};

use super::{
    super::{
        keyword::{self, DraftFamily, KeywordValueForm, TYPE_NAMES},
        node::NodeId,
    },
    SchemaReader, Subschema,
    build::parse_count,
    join_pointer,
};
use crate::{document::type_name, finding::Rule};

impl<'a> SchemaReader<'a> {
    /// Checks the keywords of a subschema, and adds its subschemas and its anchors.
    pub(super) fn check_form(&mut self, id: NodeId) {
        let Subschema { value, pointer, resource } = self.subschemas[id].clone();
        let map = match value {
            Value::Object(map) => map,
            Value::Bool(_) => return,
            other => return self.add_no_schema_fault(other, &pointer),
        };
        if are_bare_properties(map) {
            let hint = "write {type: object, properties: {…}} around them";
            let message = "these are properties, not a schema";
            let fault = self.add_fault(Rule::BareProperties, &pointer, message);
            fault.hint = Some(hint.into());
            return;
        }
        // Up to draft 7 all keywords next to a `$ref` are ignored, including `$id` and anchors.
        let resource = if self.draft == DraftFamily::Draft7 && map.contains_key("$ref") {
            resource
        } else {
            self.resources.enter_subschema(value, map, &pointer, resource)
        };
        self.subschemas[id].resource = resource;
        for (word, value) in map {
            let at = join_pointer(&pointer, word);
            match keyword::find_keyword_form(word) {
                Some(form) => self.check_keyword_value(word, form, value, &at, resource),
                None if word.starts_with("x-") => {}
                None => self.check_unknown_keyword(word, value, &pointer),
            }
        }
    }

    fn add_no_schema_fault(&mut self, value: &Value, pointer: &str) {
        let name = value.as_str().filter(|name| TYPE_NAMES.contains(name));
        let message = format!("a schema is a mapping, this is {}", type_name(value));
        let fault = self.add_invalid_fault(pointer, message);
        if let Some(name) = name {
            fault.hint = Some(format!("write {{type: {name}}}"));
            fault.replacement = Some((name.to_owned(), format!("{{type: {name}}}")));
        }
    }

    fn check_unknown_keyword(&mut self, word: &str, value: &Value, pointer: &str) {
        let message = format!("JSON Schema has no keyword `{word}`");
        let fault = self.add_fault(Rule::UnknownKeyword, pointer, message);
        fault.key = Some(word.to_owned());
        let hint = match (word, keyword::suggest_keyword(word)) {
            ("nullable", _) => "write `type: [string, \"null\"]`, with its own type",
            ("optional", _) => "leave it out of `required` of the object that it belongs to",
            (_, Some(meant)) => return fault.suggest_replacement(word, meant),
            _ if value.is_null() => {
                "in braces a comma begins a new key: write a text that has one in quotes"
            }
            _ => "a property stands under `properties`, a note of your own begins with `x-`",
        };
        fault.hint = Some(hint.into());
    }

    fn check_keyword_value(
        &mut self,
        word: &str,
        form: KeywordValueForm,
        value: &'a Value,
        pointer: &str,
        resource: usize,
    ) {
        let expected_form = match form {
            KeywordValueForm::Any => None,
            KeywordValueForm::Schema => {
                self.add_subschema(value, pointer.to_owned(), resource);
                None
            }
            KeywordValueForm::Items if value.is_array() && self.draft == DraftFamily::Year2020 => {
                let hint = "write `prefixItems` for a list of schemas, one for each place";
                let message = "`items` is one schema for all items";
                self.add_invalid_fault(pointer, message).hint = Some(hint.into());
                None
            }
            KeywordValueForm::Items if !value.is_array() => {
                self.add_subschema(value, pointer.to_owned(), resource);
                None
            }
            KeywordValueForm::Items | KeywordValueForm::Schemas => match value.as_array() {
                Some(list) if !list.is_empty() => {
                    for (index, value) in list.iter().enumerate() {
                        self.add_subschema(
                            value,
                            join_pointer(pointer, &index.to_string()),
                            resource,
                        );
                    }
                    None
                }
                _ => Some("a list of schemas"),
            },
            KeywordValueForm::NamedSchemas
            | KeywordValueForm::PatternSchemas
            | KeywordValueForm::Dependencies => match value.as_object() {
                Some(map) => {
                    let allows_lists = form == KeywordValueForm::Dependencies;
                    for (name, value) in
                        map.iter().filter(|(_, value)| !allows_lists || !value.is_array())
                    {
                        self.add_subschema(value, join_pointer(pointer, name), resource);
                    }
                    None
                }
                None => Some("a mapping of schemas by name"),
            },
            KeywordValueForm::Types => return self.check_types(value, pointer),
            KeywordValueForm::NameLists => {
                let are_all_texts =
                    value.as_object().is_some_and(|map| map.values().all(are_texts));
                (!are_all_texts).then_some("a mapping of lists of names")
            }
            KeywordValueForm::Texts => (!are_texts(value)).then_some("a list of texts that differ"),
            KeywordValueForm::Number => (!value.is_number()).then_some("a number"),
            KeywordValueForm::Positive => {
                (!value.as_f64().is_some_and(|number| number > 0.0)).then_some("a number above 0")
            }
            KeywordValueForm::Count => {
                parse_count(value).is_none().then_some("a whole number from 0 on")
            }
            KeywordValueForm::Flag => (!value.is_boolean()).then_some("`true` or `false`"),
            KeywordValueForm::Text | KeywordValueForm::Pattern => {
                (!value.is_string()).then_some("a text")
            }
            KeywordValueForm::Values => (!value.is_array()).then_some("a list"),
        };
        if let Some(expected) = expected_form {
            let actual = type_name(value);
            let message = format!("`{word}` must be {expected}, this is {actual}");
            self.add_invalid_fault(pointer, message);
        }
    }

    fn check_types(&mut self, value: &Value, pointer: &str) {
        let names: Vec<(String, &Value)> = match value {
            Value::Array(list) => list
                .iter()
                .enumerate()
                .map(|(place, name)| (join_pointer(pointer, &place.to_string()), name))
                .collect(),
            name => vec![(pointer.to_owned(), name)],
        };
        if names.is_empty() {
            self.add_invalid_fault(pointer, "`type` names no type");
        }
        for (at, name) in names {
            match name.as_str() {
                Some(name) if TYPE_NAMES.contains(&name) => {}
                Some(name) => {
                    let message = format!("`{name}` is no type of JSON Schema");
                    let fault = self.add_invalid_fault(&at, message);
                    match keyword::suggest_type(name) {
                        Some(meant) => fault.suggest_replacement(name, meant),
                        None => {
                            fault.hint = Some(format!("its types are {}", TYPE_NAMES.join(", ")));
                        }
                    }
                }
                None if name.is_null() => {
                    let hint = "write \"null\" in quotes";
                    let fault = self.add_invalid_fault(&at, "`type` names types as texts");
                    fault.hint = Some(hint.into());
                }
                None => {
                    let actual = type_name(name);
                    let message = format!("`type` is a text or a list of texts, this is {actual}");
                    self.add_invalid_fault(&at, message);
                }
            }
        }
    }
}

fn are_texts(value: &Value) -> bool {
    let Some(list) = value.as_array() else {
        return false;
    };
    let mut texts: Vec<_> = list.iter().filter_map(Value::as_str).collect();
    let count = texts.len();
    texts.sort_unstable();
    texts.dedup();
    count == list.len() && texts.len() == count
}

/// Whether a mapping has properties by name where a schema is expected.
fn are_bare_properties(map: &Map<String, Value>) -> bool {
    let is_type_name = |value: &Value| {
        let name = value.as_str();
        name.is_some_and(|name| TYPE_NAMES.contains(&name) || keyword::suggest_type(name).is_some())
    };
    let is_schema = |value: &Value| {
        let map = value.as_object();
        map.is_some_and(|map| map.contains_key("type") || are_bare_properties(map))
    };
    let mut unknown = map
        .iter()
        .filter(|(word, _)| keyword::find_keyword_form(word).is_none() && !word.starts_with("x-"))
        .peekable();
    let is_keyword = |word: &str| keyword::find_keyword_form(word).is_some();
    unknown.peek().is_some()
        && unknown.all(|(_, value)| is_type_name(value) || is_schema(value))
        && map
            .iter()
            .all(|(word, value)| !is_keyword(word) || (word != "type" && is_type_name(value)))
}
