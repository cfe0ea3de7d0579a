//! Nothing that is long stands twice in what a model is sent.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server;
use midex_test::{Client, Server, project::Project};

/// The longest text that may stand twice, in bytes.
const SHORT: usize = 100;

/// Every text in `value`, with its place.
fn texts<'a>(value: &'a Value, place: &str, found: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => found.push((place.to_owned(), text)),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                texts(item, &format!("{place}/{at}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                // Every entry of a list of steps has its own token, the first one too.
                if name != "continuation_token" {
                    texts(field, &format!("{place}/{name}"), found);
                }
            }
        }
        _ => {}
    }
}

/// Everything in `value` that is no plain text and long, as JSON, with its place.
fn structures(value: &Value, place: &str, found: &mut BTreeMap<String, Vec<String>>) {
    let inside: Vec<(String, &Value)> = match value {
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()
        }
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), field)).collect(),
        _ => return,
    };
    let text = value.to_string();
    if text.len() > SHORT {
        found.entry(text).or_default().push(place.to_owned());
    }
    for (name, field) in inside {
        structures(field, &format!("{place}/{name}"), found);
    }
}

/// Asserts that no text of more than [`SHORT`] bytes stands twice, neither alone nor within another, and no list or object either.
pub(crate) fn once(value: &Value) {
    let mut found = Vec::new();
    texts(value, "", &mut found);
    for (at, (place, text)) in found.iter().enumerate().filter(|(_, (_, text))| text.len() > SHORT)
    {
        let again = found
            .iter()
            .enumerate()
            .find(|(other, (_, whole))| *other != at && whole.contains(text));
        let again = again.map(|(_, (place, _))| place);
        assert_eq!(again, None, "what stands at {place} stands there too: {text}\n{value:#}");
    }
    let mut found = BTreeMap::new();
    structures(value, "", &mut found);
    for (text, places) in found {
        assert_eq!(places.len(), 1, "{places:?}: {text}\n{value:#}");
    }
}

/// Hands in for whatever is open, the last one first, until nothing is; every reply and every `current_step` on the way says
/// nothing twice. Answers with the number of replies.
fn walk(
    server: &mut Server,
    workflow: &str,
    id: &str,
    output: impl Fn(&str, usize) -> Value,
) -> usize {
    let mut reply = server.begin(workflow, id);
    for count in 1.. {
        once(&reply);
        let current = server.current(id);
        once(&current);
        let steps = current["ready_steps"].as_array().unwrap();
        let Some(last) = steps.last() else {
            return count;
        };
        let token = last.get("continuation_token").unwrap_or(&current["continuation_token"]);
        let output = output(last["step_name"].as_str().unwrap(), count);
        reply = server.hand_in(token, &output);
    }
    0
}

#[test]
fn nothing_stands_twice_in_the_replies_of_the_shipped_workflows() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(dir.path(), &[]);
    let output = |step: &str, _| json!({ "summary": format!("{step}: {}", "what came of it. ".repeat(20)), "artifacts": ["report.md"] });
    for (workflow, steps) in [
        ("feature-development", 3),
        ("parallel-code-review", 6),
        ("component-performance-review", 5),
        ("security-threat-assessment", 6),
    ] {
        assert_eq!(walk(&mut server, workflow, workflow, output), steps + 1, "{workflow}");
    }
}

const LONG: &str = "Say what the text means to whoever reads it first, in words of your own, without the words of the text itself, please.";

#[test]
fn nothing_stands_twice_in_the_replies_of_a_workflow_with_every_kind_of_step() {
    let manifest = format!(
        "workflow: kinds
description: {LONG}
inputs: {{ text: {{ type: string, description: '{LONG} (text)', optional: true }}, place: {{ type: string, description: '{LONG} (place)', optional: true }} }}
steps:
  - {{ id: take, extract: {{ properties: [text, place], from: '{LONG} {LONG}' }} }}
  - {{ id: think, guidance: '{LONG} (think)', description: '{LONG} (why)', with: {{ text: '{LONG} (with)' }}, example: {{ meaning: '{LONG} (example)' }}, result: {{ type: object, required: [meaning], properties: {{ meaning: {{ type: string, description: '{LONG} (result)' }} }} }} }}
  - {{ id: call, tool: lookup, with: {{ text: '{LONG} (call)' }}, result: {{ type: object, description: '{LONG} (answer)' }} }}
  - {{ id: act, agent: worker, description: '{LONG} (act)', instructions: '{LONG} (own)', with: {{ text: '{LONG} (work)' }}, result: {{ type: object, description: '{LONG} (deed)' }} }}
  - {{ id: each, foreach: {{ in: [1, 2, 3], as: n, do: {{ agent: worker, description: '{LONG} (each)', instructions: 'Number ${{{{ n }}}}' }} }} }}
"
    );
    let worker = format!("---\nname: worker\ndescription: d\n---\n{LONG} (persona)\n");
    let project =
        Project::new(&[("workflows/kinds.yaml", &manifest), ("agents/worker.md", &worker)]);
    let mut server = project.serve();
    let output = |step: &str, count| match step {
        // What is taken out becomes an input: who puts one value in two places sees it in both.
        "take" => json!({ "text": "said" }),
        "think" => json!({ "meaning": format!("{LONG} (thought)") }),
        _ => json!({ "summary": format!("{LONG} (done {step} {count})") }),
    };
    assert_eq!(walk(&mut server, "kinds", "e", output), 8);
}
