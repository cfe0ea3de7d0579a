//! The grammar of the one right next call, read as an agent reads it that knows nothing else.

use std::collections::{BTreeMap, BTreeSet};

use midex::error::{Code, Error, Next};
use serde_json::{Value, json};

use super::host::{Host, World};

/// A call that a sentence names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// What the user is to be asked for before.
    pub(super) person: Option<String>,
    pub(super) tool: String,
    /// Whether the other arguments of the refused call stay.
    pub(super) is_again: bool,
    pub(super) arguments: Vec<(String, String)>,
    /// What is said of it behind the colon.
    words: String,
}

/// Reads a `suggested_action`; `None` where it is not of the grammar.
pub(super) fn parse(action: &str) -> Option<Said> {
    const ASK: &str = "Ask your user to ";
    let (person, rest) = match action.strip_prefix(ASK) {
        Some(asked) => {
            let (person, _) = asked.split_once(". Call ")?;
            (Some(person.to_owned()), &asked[person.len() + 2..])
        }
        None => (None, action),
    };
    let rest = rest.strip_prefix("Call ")?;
    let (tool, rest) = word(rest, |c| {
        c.is_ascii_lowercase() || matches!(c, '.' | '_' | '/')
    })?;
    let (is_again, rest) = match rest.strip_prefix(" again") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (arguments, rest) = arguments(rest)?;
    let said = Said {
        person,
        tool: tool.to_owned(),
        is_again,
        arguments,
        words: rest.trim_start_matches(": ").to_owned(),
    };
    (rest.is_empty() || rest.starts_with(": ")).then_some(said)
}

/// The first call that a message names.
pub(super) fn find(message: &str) -> Option<Said> {
    let sentences = message.match_indices(". ").map(|(at, _)| at + 2);
    let mut sentences = std::iter::once(0).chain(sentences);
    sentences.find_map(|at| parse(&message[at..]))
}

fn arguments(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut joint = " with ";
    while let Some(begun) = rest.strip_prefix(joint) {
        let (name, begun) = word(begun, |c| c.is_ascii_lowercase() || c == '_')?;
        let (value, after) = quoted(begun.strip_prefix(" '")?)?;
        found.push((name.to_owned(), value));
        (rest, joint) = (after, " and ");
    }
    Some((found, rest))
}

fn word(text: &str, belongs: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// What stands before the closing quote, and what after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('\'')?;
        value.push_str(before);
        match after.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None => return Some((value, after)),
        }
    }
}

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
    let all = tools
        .values()
        .filter_map(|schema| schema["properties"].as_object());
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
const WORDS: [Code; 11] = [
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
];

#[tokio::test]
async fn every_code_that_a_tool_answers_with_names_a_call_that_can_be_made() {
    let world = World::new(1);
    let host = Host::in_memory(world.app("grammar")).await;
    let reasons = [
        "person",
        "gate",
        "outcome_unknown",
        "output_invalid",
        "engine_fault",
        "budget",
    ];
    let states = ["running", "paused", "completed"];
    for code in Code::ALL {
        if WORDS.contains(code) {
            continue;
        }
        assert!(
            !matches!(code.next(), Next::Words(_)),
            "{code} has words alone"
        );
        for (reason, state) in reasons
            .iter()
            .flat_map(|reason| states.map(|state| (reason, state)))
        {
            let error = Error::new(*code, "x")
                .with("execution_id", "it's e")
                .with("workflow_state", state)
                .with("pause_reasons", json!([reason]))
                .with("workflow", "bug-fix")
                .with("path", "/p")
                .with("data_dir", "/d")
                .with("address", "executions")
                .with("limit", "9 bytes")
                .during("workflow.next_step");
            let action = error.suggested_action();
            assert_eq!(
                fault(&action, &host.tools),
                None,
                "{code} {reason} {state}: {action}"
            );
        }
        // Where less is known, it is another call and no hole.
        let action = Error::new(*code, "x")
            .during("workflow.next_step")
            .suggested_action();
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
    assert_eq!(
        (said.tool.as_str(), said.is_again),
        ("execution.wait", true)
    );
    let expected = [("execution_id", "it's"), ("since_revision", "5")];
    assert_eq!(
        said.arguments,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
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
