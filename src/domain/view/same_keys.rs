//! Serialises lists of steps so that all entries of a list have the same keys, and reads such lists back.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, json};

/// The fields of a list's first step that the reply shows at its top level.
const TASK_FIELDS: &str = "description instructions input example output_schema previous";

/// Serialises a list of steps.
pub(super) fn serialize_steps<T: Serialize, S: Serializer>(
    steps: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(steps_with_same_keys(steps))
}

/// Serialises a list whose first step is also shown at the top level of the reply. In the list, the task fields of that
/// step are null.
pub(super) fn serialize_later_steps<T: Serialize, S: Serializer>(
    steps: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut values = steps_with_same_keys(steps);
    if let Some(first) = values.first_mut().and_then(Value::as_object_mut) {
        let task_fields =
            first.iter_mut().filter(|(key, _)| TASK_FIELDS.split(' ').any(|task| task == *key));
        task_fields.for_each(|(_, task)| *task = Value::Null);
    }
    serializer.collect_seq(values)
}

/// The steps as JSON objects. A key that another step has is added as null, or as 1 if it is a count.
fn steps_with_same_keys<T: Serialize>(steps: &[T]) -> Vec<Value> {
    let values = steps.iter().filter_map(|step| serde_json::to_value(step).ok());
    let mut values: Vec<_> = values.collect();
    if values.len() < 2 {
        return values;
    }
    let mut defaults = json!({});
    let present = values.iter().filter_map(Value::as_object).flatten();
    for (key, _) in present {
        let is_count = ["visit", "attempt"].contains(&key.as_str());
        defaults[key] = if is_count { 1.into() } else { Value::Null };
    }
    for step in values.iter_mut().filter_map(Value::as_object_mut) {
        for (key, default) in defaults.as_object().into_iter().flatten() {
            step.entry(key).or_insert_with(|| default.clone());
        }
    }
    values
}

/// Deserializes null as the default. Entries of a list have the same keys, so null means that this entry lacks the key.
pub(super) fn null_as_default<'a, T: Default + Deserialize<'a>, D: Deserializer<'a>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a list without the entries that this version does not know: a newer server may have sent them.
pub(super) fn deserialize_known_entries<'a, T: DeserializeOwned, D: Deserializer<'a>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let entries = Vec::<Value>::deserialize(deserializer)?.into_iter();
    Ok(entries.filter_map(|entry| T::deserialize(entry).ok()).collect())
}

/// Reads a value; `None` if this version does not know it.
pub(super) fn deserialize_if_known<'a, T: DeserializeOwned, D: Deserializer<'a>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}
