//! The JSON Schemas of inputs, for validation and for display.

use serde_json::{Map, Value, json};

use super::{DefaultFrom, Input, Inputs};
use crate::schema::Schema;

impl Input {
    /// The constraints of the value as JSON Schema keywords, without title and description.
    pub fn constraints(&self) -> Map<String, Value> {
        let rules = &self.validate;
        let one_of = Some(&self.one_of).filter(|one_of| !one_of.is_empty());
        let all = [
            ("type", self.effective_type().map(|kind| json!(kind))),
            ("enum", one_of.map(|one_of| json!(one_of))),
            ("pattern", rules.pattern.as_ref().map(|value| json!(value))),
            ("minLength", rules.min_length.map(|value| json!(value))),
            ("maxLength", rules.max_length.map(|value| json!(value))),
            ("minimum", rules.min.as_ref().map(|value| json!(value))),
            ("maximum", rules.max.as_ref().map(|value| json!(value))),
        ];
        let present = all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        present.chain(self.schema.clone()).collect()
    }

    /// The JSON Schema of the input for display: the constraints with title, description, default and example.
    pub fn schema(&self) -> Value {
        let annotations =
            [("title", self.label.as_ref()), ("description", self.description.as_ref())];
        let annotations =
            annotations.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text?))));
        let mut schema: Map<_, _> = annotations.collect();
        schema.extend(self.constraints());
        if let Some(default) = &self.default
            && default.from == DefaultFrom::Literal
            && let Some(value) = &default.value
        {
            schema.insert("default".into(), value.clone());
        }
        if let Some(example) = &self.example {
            schema.insert("examples".into(), json!([example]));
        }
        Value::Object(schema)
    }
}

impl Inputs {
    /// The JSON Schema of all inputs: an object without additional properties.
    pub fn schema(&self) -> Value {
        let property = |input: &Input| (input.key.as_str().to_owned(), input.schema());
        let properties: Map<_, _> = self.iter().map(property).collect();
        let required = self.iter().filter(|input| input.is_required());
        let required: Vec<_> = required.map(|input| &input.key).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false
        })
    }

    /// The compiled constraints of the input at `position`.
    pub(super) fn compiled_constraints(&self, position: usize) -> Option<&Schema> {
        self.all_compiled_constraints().get(position)?.as_ref()
    }

    /// The compiled constraints of all inputs, by position.
    pub(crate) fn all_compiled_constraints(&self) -> &[Option<Schema>] {
        let compile = |input: &Input| Schema::compile(&Value::Object(input.constraints())).ok();
        self.compiled.get_or_init(|| self.list.iter().map(compile).collect())
    }
}
