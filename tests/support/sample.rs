//! A value that a simple JSON Schema takes.

use serde_json::{Map, Value, json};

use crate::long::Dice;

/// A value that satisfies `schema`, as far as it says so in plain words.
pub fn sample(schema: &Value, dice: &mut Dice) -> Value {
    if let Some(options) = schema["enum"].as_array() {
        return options[pick(options.len(), dice)].clone();
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("object") => object(schema, dice),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(1);
            (0..least).map(|_| sample(&schema["items"], dice)).collect()
        }
        Some("integer" | "number") => json!(schema["minimum"].as_i64().unwrap_or(0)),
        Some("boolean") => json!(dice.roll(2) == 0),
        Some("null") => Value::Null,
        _ => json!("done"),
    }
}

fn object(schema: &Value, dice: &mut Dice) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields: Map<_, _> =
        properties.map(|(name, schema)| (name.clone(), sample(schema, dice))).collect();
    Value::Object(fields)
}

/// One of so many.
pub fn pick(count: usize, dice: &mut Dice) -> usize {
    usize::try_from(dice.roll(count as u64)).unwrap()
}
