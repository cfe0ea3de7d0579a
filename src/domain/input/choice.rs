//! The choices of an input: what the fields under `select` are in the objects that its provider lists.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Input, InputType, parse_typed_text};
use crate::{
    document::to_plain_text,
    expression::{EvaluationContext, Expression},
    limits,
    schema::Schema,
    truncate::truncate_to_chars,
};

/// The fields of the listed objects that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedFields {
    /// The field that becomes the value of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_field: Option<String>,
    /// The field that is displayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_field: Option<String>,
    /// The field that identifies an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_field: Option<String>,
}

/// A value that an input may be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The value.
    pub value: Value,
    /// What a person reads, at most [`limits::CHOICE_LABEL_CHARS_MAX`] characters.
    pub label: String,
}

/// The choices of an input, in the order of its provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// Each value once.
    pub choices: Vec<Choice>,
    /// Whether the provider has more objects than were listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more: bool,
}

impl Input {
    /// The choices among the listed objects. An object without a single value, or with one that the input refuses, is
    /// no choice. For an input of type `array`, a choice is one item. If several choices have the same label, the field
    /// that identifies the object is added to it.
    pub fn build_choices(&self, objects: &[Value], select: &SelectedFields) -> Vec<Choice> {
        let fields = [&select.value_field, &select.display_field, &select.id_field];
        let fields =
            fields.map(|field| Expression::parse(&format!("inputs.item.{}", field.as_ref()?)).ok());
        let kind = self.effective_type().filter(|kind| *kind != InputType::Array);
        let schema = (kind == self.effective_type()).then(|| Value::Object(self.constraints()));
        let schema = schema.and_then(|schema| Schema::compile(&schema).ok());
        let mut found: Vec<(Choice, Option<String>)> = Vec::new();
        for object in objects {
            let inputs = Map::from_iter([("item".to_owned(), object.clone())]);
            let context = EvaluationContext { inputs, ..EvaluationContext::default() };
            let [value, label, id] = fields.each_ref().map(|field| {
                let value = field.as_ref()?.evaluate(&context).ok()?;
                (!value.is_null() && !value.is_array() && !value.is_object()).then_some(value)
            });
            let Some(value) = value else { continue };
            let text = to_plain_text(&value);
            let value = if kind.is_some() { parse_typed_text(kind, &[], &text) } else { value };
            let is_valid = schema.as_ref().is_none_or(|one| one.find_violations(&value).is_empty());
            if !is_valid || found.iter().any(|(choice, _)| choice.value == value) {
                continue;
            }
            let label = label.map_or(text, |label| to_plain_text(&label));
            let label = truncate_to_chars(&label, limits::CHOICE_LABEL_CHARS_MAX).into_owned();
            found.push((Choice { value, label }, id.map(|id| to_plain_text(&id))));
        }
        let labels: Vec<_> = found.iter().map(|(choice, _)| choice.label.clone()).collect();
        for (choice, id) in &mut found {
            if let Some(id) = id
                && labels.iter().filter(|label| **label == choice.label).count() > 1
            {
                choice.label = format!("{} ({id})", choice.label);
            }
        }
        found.into_iter().map(|(choice, _)| choice).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn choices(input: Value, select: Value, objects: &Value) -> Value {
        let input: Input = serde_json::from_value(input).expect("an input");
        let select = serde_json::from_value(select).expect("fields");
        json!(input.build_choices(objects.as_array().expect("objects"), &select))
    }

    #[test]
    fn a_choice_is_a_value_that_the_input_takes_with_what_a_person_reads() {
        let objects = json!([
            { "owner": { "id": 1, "tags": ["a"] }, "name": "One", "key": "k1" },
            { "owner": { "id": 1 }, "name": "again" },
            { "owner": { "id": 12 }, "name": "Two", "key": "k2" },
            { "owner": { "id": 13 }, "name": "Two", "key": 3 },
            { "owner": { "id": 14 }, "name": { "en": "Four" } },
            { "owner": { "id": null } }, { "owner": {} }, 7
        ]);
        let select =
            json!({ "value_field": "owner.id", "display_field": "name", "id_field": "key" });
        let text = json!({ "key": "a", "type": "string", "validate": { "max_length": 1 } });
        assert_eq!(
            choices(text, select.clone(), &objects),
            json!([{ "value": "1", "label": "One" }])
        );
        for input in [json!({ "key": "a" }), json!({ "key": "a", "type": "array" })] {
            assert_eq!(
                choices(input, select.clone(), &objects),
                json!([
                    { "value": 1, "label": "One" },
                    { "value": 12, "label": "Two (k2)" },
                    { "value": 13, "label": "Two (3)" },
                    { "value": 14, "label": "14" }
                ])
            );
        }
        let number = json!({ "key": "a", "type": "integer", "enum": [7] });
        let select = json!({ "value_field": "n" });
        let spelled = json!([{ "n": "7" }, { "n": "x" }, { "n": "8" }, { "n": 7 }]);
        assert_eq!(choices(number, select, &spelled), json!([{ "value": 7, "label": "7" }]));
        let listed = json!({ "value_field": "owner.tags[0]" });
        assert_eq!(
            choices(json!({ "key": "a" }), listed, &objects),
            json!([{ "value": "a", "label": "a" }])
        );
        assert_eq!(choices(json!({ "key": "a" }), json!({}), &spelled), json!([]));
    }
}
