//! The grammar of the one right next call, read as an agent reads it that knows nothing else.

use std::collections::{BTreeMap, BTreeSet};

use midex_domain::error::{Code, Error, Next};
use serde_json::{Value, json};

use super::host::{Host, World};
pub(super) use midex_test::advice::{Said, find, parse};

/// What keeps a sentence from being a call that these tools take.
pub(super) fn fault(action: &str, tools: &BTreeMap<String, Value>) -> Option<String> {
    let Some(said) = parse(action) else {
        return Some("it is not of the grammar".into());
    };
    if action.contains('{') && !action.contains("{}") {
        return Some("a variable was not filled in".into());
    }
    let Some(schema) = tools.get(&said.tool) else {
        return Some(format!("there is no tool {}", said.tool));
    };
    let given = |name: &str| said.arguments.iter().any(|(given, _)| given == name);
    let known = |name: &str| schema["properties"].get(name).is_some();
    if let Some((name, _)) = said.arguments.iter().find(|(name, _)| !known(name)) {
        return Some(format!("{} has no argument {name}", said.tool));
    }
    // Whoever reads the grammar alone takes no argument from behind the colon.
    let all = tools.values().filter_map(|schema| schema["properties"].as_object());
    let names: BTreeSet<_> = all.flat_map(|properties| properties.keys()).collect();
    let hidden = names.into_iter().find(|name| {
        said.words.contains(&format!("{name} '"))
            || **name == "confirm" && action.contains("confirm '")
    });
    if let Some(name) = hidden {
        return Some(format!("{name} stands behind the colon"));
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    let missing = required.find(|name| !said.is_again && !given(name));
    missing.map(|name| format!("{} lacks {name}", said.tool))
}

/// Codes of the command line, and of faults of the protocol below the tools.
const WORDS: [Code; 12] = [
    Code::PromptNotFound,
    Code::RequestInvalid,
    Code::ParamsInvalid,
    Code::MethodNotFound,
    Code::Unauthorized,
    Code::Forbidden,
    Code::SessionNotFound,
    Code::AddressUnusable,
    Code::FileExists,
    Code::HostFileInvalid,
    Code::UsageInvalid,
    // The client has to be another one.
    Code::TaskCapabilityRequired,
];

#[tokio::test]
async fn every_code_that_a_tool_answers_with_names_a_call_that_can_be_made() {
    let world = World::new(1);
    let host = Host::in_memory(world.app("grammar")).await;
    let reasons = ["person", "gate", "outcome_unknown", "output_invalid", "engine_fault", "budget"];
    let states = ["running", "paused", "completed"];
    for code in Code::ALL {
        if WORDS.contains(code) {
            continue;
        }
        assert!(!matches!(code.next(), Next::Words(_)), "{code} has words alone");
        for (reason, state) in reasons.iter().flat_map(|reason| states.map(|state| (reason, state)))
        {
            let error = Error::new(*code, "x")
                .with_context("execution_id", "it's e")
                .with_context("workflow_state", state)
                .with_context("pause_reasons", json!([reason]))
                .with_context("workflow", "bug-fix")
                .with_context("path", "/p")
                .with_context("data_dir", "/d")
                .with_context("address", "executions")
                .with_context("limit", "9 bytes")
                .with_tool("workflow.next_step");
            let action = error.suggested_action();
            assert_eq!(fault(&action, &host.tools), None, "{code} {reason} {state}: {action}");
        }
        // Where less is known, it is another call and no hole.
        let action = Error::new(*code, "x").with_tool("workflow.next_step").suggested_action();
        assert_eq!(fault(&action, &host.tools), None, "{code}: {action}");
    }
}

#[test]
fn a_sentence_is_read_as_it_was_printed() {
    let said = parse(
        "Ask your user to run `midex approve e`. Call execution.wait again with execution_id 'it''s' and since_revision '5': it answers and 'x'",
    );
    let said = said.expect("of the grammar");
    assert_eq!(said.person.as_deref(), Some("run `midex approve e`"));
    assert_eq!((said.tool.as_str(), said.is_again), ("execution.wait", true));
    let expected = [("execution_id", "it's"), ("since_revision", "5")];
    assert_eq!(said.arguments, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for bad in [
        "Read midex://workflow/limits",
        "Call workflow.read with uri x",
        "Call workflow.start, then go on",
        "Ask your user to go away",
    ] {
        assert_eq!(parse(bad), None, "{bad}");
    }
    let found = find("It waits. Call execution.wait with execution_id 'e': so").expect("a call");
    assert_eq!(found.tool, "execution.wait");
    assert_eq!(find("Workflow completed successfully"), None);
}
