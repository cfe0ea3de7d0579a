//! Builds the task that a command reads for a step, and extracts the JSON value from its answer.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{steps::OpenStep, value::has_content};
use midex_domain::{definition::output_schema_json, limits, truncate::truncate_value};

/// Fields of a step that a command does not receive: it submits nothing itself.
const WITHHELD_STEP_FIELDS: &[&str] = &["continuation_token", "expires_at", "agent_uri"];

/// The task of a step as text that ends with the schema of the answer.
pub(super) fn task_text(step: &OpenStep, complaint: Option<&str>) -> String {
    let ready = &step.ready;
    let mut task = String::new();
    let mut add_section = |title: &str, words: &str| {
        if !words.trim().is_empty() {
            let _ = write!(task, "# {title}\n\n{}\n\n", words.trim());
        }
    };
    add_section("Who you are", step.agent_content.as_deref().unwrap_or_default());
    add_section(
        &format!("Step {} ({})", step.name(), ready.progress),
        &[ready.description.as_str(), &ready.instructions].join("\n\n"),
    );
    let input = step.input().filter(|input| has_content(input));
    if let Some(input) = input {
        add_section("Input", &format!("{input:#}"));
    }
    if let Some(inputs) = step.inputs.as_ref().filter(|inputs| has_content(inputs)) {
        // If the step has an input of its own, the workflow's inputs are only context and are truncated. Otherwise they
        // are the only input, and shown whole.
        let max_bytes = match input {
            Some(_) => limits::INPUTS_SHOWN_BYTES_MAX,
            None => usize::MAX,
        };
        let (inputs, _) = truncate_value(inputs, max_bytes);
        add_section("Inputs of the workflow", &format!("{inputs:#}"));
    }
    let previous = ready.previous.iter();
    let previous =
        previous.map(|decision| format!("{}: {}\n", decision.step_name, decision.output));
    add_section("Decided before", &previous.collect::<String>());
    add_section("Your last answer could not be taken", complaint.unwrap_or_default());
    let answer = format!(
        "You have no tools of midex here: what you print is handed in for you. Do the step, then answer with one JSON value \
         that satisfies this JSON Schema, and print nothing after it:\n\n{}",
        answer_schema(step)
    );
    add_section("Answer with one JSON value", &answer);
    task
}

/// The task as one JSON object.
pub(super) fn task_json(step: &OpenStep, complaint: Option<&str>) -> Value {
    let mut task = step.json.clone();
    if let Value::Object(task) = &mut task {
        task.retain(|key, _| !WITHHELD_STEP_FIELDS.contains(&key.as_str()));
    }
    task["output_schema"] = answer_schema(step);
    task["refused"] = json!(complaint);
    task
}

fn answer_schema(step: &OpenStep) -> Value {
    let schema = step.ready.output_schema.clone();
    schema.unwrap_or_else(output_schema_json)
}

/// The JSON value of an answer: all of it, else its last fenced block, else the last value in it.
pub(super) fn parse_answer(output: &[u8]) -> Option<Value> {
    if output.len() > limits::AGENT_COMMAND_OUTPUT_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(output).ok()?.trim();
    let value = serde_json::from_str(text).ok();
    value.or_else(|| last_fenced_json(text)).or_else(|| last_json_in_text(text))
}

/// The last fenced block that is JSON.
fn last_fenced_json(text: &str) -> Option<Value> {
    let blocks: Vec<_> = text.split("```").skip(1).step_by(2).collect();
    blocks.into_iter().rev().find_map(|block| {
        let (info, body) = block.split_once('\n')?;
        let is_json = info.trim().is_empty() || info.trim().eq_ignore_ascii_case("json");
        is_json.then(|| serde_json::from_str(body.trim()).ok())?
    })
}

/// The last object or list in a text that holds other words too.
fn last_json_in_text(text: &str) -> Option<Value> {
    let (mut last_value, mut offset, mut budget) = (None, 0, limits::AGENT_COMMAND_SCAN_BYTES_MAX);
    while let Some(distance) = text[offset..].find(['{', '[']) {
        offset += distance;
        let mut values = serde_json::Deserializer::from_str(&text[offset..]).into_iter::<Value>();
        let consumed = match values.next() {
            Some(Ok(value)) => {
                last_value = Some(value);
                values.byte_offset()
            }
            // Skip one byte and search on; the bytes that the parser read are charged against the scan limit.
            Some(Err(error)) => {
                budget = budget.checked_sub(bytes_before_error(&text[offset..], &error))?;
                1
            }
            None => 1,
        };
        offset += consumed;
    }
    last_value
}

/// How many bytes were read before an error.
fn bytes_before_error(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_the_last_json_in_text() {
        for (output, expected) in [
            ("{\"a\": 1}\n", Some(json!({ "a": 1 }))),
            ("42", Some(json!(42))),
            ("Done.\n```json\n{\"a\": 2}\n```\nBye", Some(json!({ "a": 2 }))),
            ("```\n[1]\n```\n```sh\nls\n```", Some(json!([1]))),
            ("I saw {x} and made {\"a\": {\"b\": [3]}}.", Some(json!({ "a": { "b": [3] } }))),
            ("{\"a\": 1} then {\"a\": 2}", Some(json!({ "a": 2 }))),
            ("{\"a\": 1} then {\"a\": ", Some(json!({ "a": 1 }))),
            ("nothing", None),
            ("", None),
        ] {
            assert_eq!(parse_answer(output.as_bytes()), expected, "{output}");
        }
        assert_eq!(parse_answer(&[0xff]), None);
    }

    #[test]
    fn invalid_json_search_is_bounded() {
        let junk = "{\"".repeat(2 << 20);
        assert_eq!(parse_answer(junk.as_bytes()), None);
        let too_long = vec![b'1'; limits::AGENT_COMMAND_OUTPUT_BYTES_MAX + 1];
        assert_eq!(parse_answer(&too_long), None);
    }

    #[test]
    fn a_task_says_what_to_do_and_ends_with_the_schema() {
        let step = json!({
            "step_name": "a", "progress": "1/2", "agent_content": "# Worker", "description": "Do it",
            "instructions": "Well", "previous": [{ "step_name": "z", "output": 1 }],
            "continuation_token": "secret", "output_schema": { "type": "integer" }
        });
        let step = OpenStep::from_fields(&step);
        let task = task_text(&step, Some("no number"));
        for words in ["# Worker", "# Step a (1/2)\n\nDo it\n\nWell", "z: 1", "no number"] {
            assert!(task.contains(words), "{words}: {task}");
        }
        assert!(task.trim_end().ends_with("{\"type\":\"integer\"}") && !task.contains("secret"));
        let task = task_json(&step, None);
        assert!(task["continuation_token"].is_null() && task["output_schema"]["type"] == "integer");
    }
}
