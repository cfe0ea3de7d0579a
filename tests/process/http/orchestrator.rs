//! Threads of an orchestrator tool over HTTP, while the server is killed: many at once, and a model that knows nothing of midex
//! and does what the prompts say.

use serde_json::{Map, Value, json};

use super::callers::{Caller, lead_while_killed};
use midex_test::long::{self, Dice};

const NOTES: &str = "workflow: notes
description: Takes two notes
inputs: { topic: { type: string, example: rain } }
expose: { orchestrator: { tool_id: notes-orchestrator } }
steps:
  - { id: one, guidance: 'Note on ${{ inputs.topic }}.', result: { type: string } }
  - { id: two, guidance: 'Another one beside ${{ steps.one.output }}.', result: { type: string } }
final_output: '${{ inputs.topic }}: ${{ steps.one.output }} ${{ steps.two.output }}'
";

fn prompt(answer: &Value) -> &str {
    answer["orchestrationInstructionsPrompt"].as_str().unwrap()
}

/// Leads a thread to its end. A repeated call gets the prompt of the first one, so each step is done once.
fn lead_thread(caller: &Caller, number: usize) {
    const TOOL: &str = "notes-orchestrator";
    let topic = format!("topic {number};");
    let mut last = caller.call(TOOL, &json!({ "userInput": { "topic": topic } }));
    let thread = last["execution_id"].clone();
    for step in ["one", "two"] {
        assert_eq!((&last["step"], &last["execution_id"]), (&json!(step), &thread), "{last}");
        assert!(prompt(&last).contains(&topic), "{last}");
        let arguments = json!({
            "userInput": format!("{topic}/{step}"), "workflowStateData": last["workflowStateData"]
        });
        last = caller.call(TOOL, &arguments);
        // The reply was lost.
        assert_eq!(caller.call(TOOL, &arguments), last);
    }
    assert_eq!(last["status"], "completed");
    let result = format!("{topic}: {topic}/one {topic}/two");
    assert!(prompt(&last).contains(&result), "{last}");
    let read = json!({ "workflowStateData": last["workflowStateData"] });
    assert_eq!(caller.call(TOOL, &read), last);
}

#[test]
fn no_thread_is_lost_or_mixed_up_while_the_server_is_killed_twice() {
    let clients = usize::try_from(long::rounds(8, 50)).unwrap();
    let threads = usize::try_from(long::rounds(96, 1_000)).unwrap();
    lead_while_killed(NOTES, (threads, clients, 2), lead_thread);
}

const SCAFFOLD: &str = "workflow: scaffold
extends: app-scaffold
expose: { orchestrator: { tool_id: build-an-app } }
";

/// What a prompt asks for, as a reader without other knowledge finds it.
struct Reading {
    tool: String,
    state: Value,
    /// The schema of the result (`Ok`), or an example of a result (`Err`). `None` if the prompt asks for no result.
    result: Option<Result<Value, Value>>,
}

impl Reading {
    /// `None` if the prompt asks for no further call.
    fn of(prompt: &str) -> Option<Self> {
        let (_, call) = prompt.split_once("# Required next call\n")?;
        let tool = call.split('`').nth(1)?.to_owned();
        let (_, state) = call.split_once("workflowStateData is ")?;
        let state = serde_json::Deserializer::from_str(state).into_iter().next()?.ok()?;
        let block = |name: &str| {
            let (_, block) = prompt.rsplit_once(&format!("\n{name}:\n```json\n"))?;
            serde_json::from_str::<Value>(block.split("\n```").next()?).ok()
        };
        let result = block("output_schema").map(Ok).or_else(|| block("example").map(Err));
        Some(Self { tool, state, result })
    }

    fn value(&self) -> Option<Value> {
        Some(match self.result.as_ref()? {
            Ok(schema) => sample(schema),
            Err(example) => example.clone(),
        })
    }
}

/// A value that satisfies a JSON Schema of the usual keywords.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0).or(schema["anyOf"].get(0).map(|_| &Value::Null)) {
        return if first.is_null() { sample(&schema["anyOf"][0]) } else { first.clone() };
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let fields = required.map(|name| {
                let name = name.as_str().unwrap();
                (name.to_owned(), sample(&schema["properties"][name]))
            });
            fields.collect::<Map<_, _>>().into()
        }
        Some("array") => json!([sample(&schema["items"])]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}

/// Does what the prompts of one tool say until one says that there is nothing more to do. Now and then it answers wrongly,
/// writes words around its answer, or loses a reply.
fn follow_prompts(caller: &Caller, number: usize) {
    let mut dice = Dice(long::seed(38) + number as u64);
    let start = json!({ "userInput": { "request": "A small command-line tool" } });
    let mut last = caller.call("build-an-app", &start);
    for _ in 0..60 {
        let Some(reading) = Reading::of(prompt(&last)) else {
            assert!(prompt(&last).contains("The workflow has concluded."), "{last}");
            assert_eq!(last["status"], "completed", "{last}");
            return;
        };
        let mut arguments = json!({ "workflowStateData": reading.state });
        if let Some(value) = reading.value() {
            let was_refused = prompt(&last).contains("was refused");
            arguments["userInput"] = match dice.roll(6) {
                0 if !was_refused => json!({ "nonsense": dice.roll(1 << 30) }),
                1 => format!("Here it is:\n```json\n{value}\n```\nDone.").into(),
                _ => value,
            };
        }
        if dice.roll(4) == 0 {
            // The reply is lost.
            caller.call(&reading.tool, &arguments);
        }
        last = caller.call(&reading.tool, &arguments);
    }
    panic!("no end in sight: {last}");
}

#[test]
fn a_model_that_only_follows_the_prompts_finishes_every_run() {
    let runs = usize::try_from(long::rounds(12, 100)).unwrap();
    lead_while_killed(SCAFFOLD, (runs, 4, 1), follow_prompts);
}
