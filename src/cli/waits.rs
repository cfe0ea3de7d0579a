//! Describes the waits of an execution for a person: in words, and with the command that answers each.

use serde::Deserialize as _;
use serde_json::Value;

use super::{
    command::{operand, quoted},
    value::{field, list},
    when::{local, until},
};
use midex_domain::{clock::Timestamp, event::PauseReason, id::StepId};

/// The step of a wait, with its hook and its item: `nap`, `build #2`, `on_enter of nap`.
pub(super) fn brief(wait: &Value) -> String {
    let step = match wait["step_name"].as_str() {
        Some(name) if name == StepId::of_workflow().as_str() => "a hook of the workflow".to_owned(),
        _ => field(wait, "step_name"),
    };
    let body = match wait["body"].as_str() {
        Some(_) => format!("{} of ", field(wait, "body")),
        None => String::new(),
    };
    let item = wait["item"].as_u64();
    let item = item.map_or_else(String::new, |item| format!(" #{}", item + 1));
    format!("{body}{step}{item}")
}

/// The gate of a wait as it is named in a command: the step, or `STEP[N]` for item N, from 1.
pub(super) fn gate_word(wait: &Value) -> String {
    let step = wait["step_name"].as_str().unwrap_or_default();
    let item = wait["item"].as_u64();
    item.map_or_else(|| step.to_owned(), |item| format!("{step}[{}]", item + 1))
}

/// The message for work that is due while no server is running.
const NOBODY_WORKS: &str = "nobody works on it now, for no server runs";

fn is_past(time: &str, now: Timestamp) -> bool {
    time.parse::<Timestamp>().is_ok_and(|time| time <= now)
}

/// A wait in words: `nap waits until 2026-01-01 10:00:00 +00 (42 s left)`. `is_served` tells whether a server is
/// running, which performs the work that needs no model.
pub(super) fn words(wait: &Value, now: Timestamp, is_served: bool) -> String {
    let step = brief(wait);
    let due = field(wait, "due");
    let left = until(&due, now);
    match wait["waits_for"].as_str().unwrap_or_default() {
        "operation" if is_served => format!("{step}: the server works on it"),
        "operation" => format!("{step}: {NOBODY_WORKS}"),
        "retry" if !is_served && is_past(&due, now) => format!("{step}: {NOBODY_WORKS}"),
        "timer" => {
            let left = left.map_or_else(String::new, |left| format!(" ({left} left)"));
            format!("{step} waits until {}{left}", local(&due))
        }
        "retry" => {
            let left = left.map_or_else(String::new, |left| format!(" in {left}"));
            format!("{step} is tried again{left}")
        }
        "signal" => format!("{step} waits for the signal '{}'", field(wait, "signal")),
        "gate" => format!(
            "{step} waits for an approval: {}",
            field(&wait["gate"], "ask")
        ),
        "catalog" => format!("{step} waits for the catalog `{}`", field(wait, "catalog")),
        "unknown" => {
            format!(
                "{step} was cut off, and nobody knows what came of it: find out, then resolve it with --output JSON, --failed WHY or --retry"
            )
        }
        "child" => format!("{step} waits for its child"),
        "output_invalid" => format!("{step}: too many of its outputs broke its schema"),
        _ => format!("{step} has come to its end, and waits for the resume"),
    }
}

/// A command with which a person can act on a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitAction {
    /// The command, without the flags for the data directory and definitions.
    pub(super) command: String,
    /// Its effect, in words.
    pub(super) does: &'static str,
}

/// Whether the execution as a whole waits to be resumed, in addition to any waits of its steps.
pub(super) fn is_for_resume(status: &Value) -> bool {
    let reasons = list(&status["pause_reasons"]).iter();
    let mut reasons = reasons.filter_map(|reason| PauseReason::deserialize(reason).ok());
    reasons.any(PauseReason::is_lifted_by_resume)
}

/// The commands for the waits of the execution with this status, without duplicates.
pub(super) fn ways(status: &Value) -> Vec<WaitAction> {
    let mut found = Vec::new();
    if is_for_resume(status) {
        found.extend(status["execution_id"].as_str().map(resume));
    }
    let waits = list(&status["waits"]).iter();
    for way in waits.filter_map(|wait| way(wait, status)) {
        if !found.contains(&way) {
            found.push(way);
        }
    }
    found
}

fn resume(id: &str) -> WaitAction {
    WaitAction {
        command: format!("midex resume {}", operand(id)),
        does: "lets it go on",
    }
}

/// The command for a wait of the execution with this status; `None` if the wait ends without a person.
pub(super) fn way(wait: &Value, status: &Value) -> Option<WaitAction> {
    let id = operand(status["execution_id"].as_str()?);
    let named = |name: &str| quoted(wait[name].as_str().unwrap_or_default());
    let (command, does) = match wait["waits_for"].as_str()? {
        "signal" => (
            format!("midex signal {id} {}", named("signal")),
            "brings the signal",
        ),
        "gate" => (
            format!("midex approve {id} {}", quoted(&gate_word(wait))),
            "answers the gate",
        ),
        "catalog" => (
            "midex catalog list".to_owned(),
            "shows which catalogs there are",
        ),
        "unknown" => {
            let item = wait["item"].as_u64();
            let item = item.map_or_else(String::new, |item| format!(" --item {item}"));
            let step = named("step_name");
            // Flags are not recognized after `--`, so they come before the operands.
            let command = format!("midex resolve{item} {id} {step}");
            (command, "asks whether it took effect")
        }
        "child" => (
            format!("midex show {}", operand(&child_of(status, wait)?)),
            "shows the child",
        ),
        "output_invalid" | "held" => return Some(resume(status["execution_id"].as_str()?)),
        _ => return None,
    };
    Some(WaitAction { command, does })
}

/// The child execution that an open visit waits for: the last one that it started.
pub(super) fn child_of(status: &Value, wait: &Value) -> Option<String> {
    let is_of = |child: &&Value| {
        child["step"] == wait["step_name"]
            && ["body", "visit", "item"]
                .iter()
                .all(|key| child[key] == wait[key])
    };
    let child = list(&status["children"]).iter().rev().find(is_of)?;
    Some(field(child, "execution_id"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wait_is_told_in_words_and_by_the_command_that_answers_it() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().expect("a time");
        let status = json!({
            "execution_id": "a b",
            "children": [
                { "step": "sub", "visit": 1, "execution_id": "one" },
                { "step": "sub", "visit": 2, "execution_id": "two" },
                { "step": "other", "visit": 2, "execution_id": "three" }
            ]
        });
        let wait = |more: Value| {
            let mut wait = json!({ "step_name": "x", "visit": 2 });
            let more = more.as_object().cloned().unwrap_or_default();
            wait.as_object_mut().expect("an object").extend(more);
            wait
        };
        for (more, said, typed) in [
            (
                json!({ "waits_for": "timer", "due": "2026-01-01T10:01:05Z" }),
                "(1 m left)",
                None,
            ),
            (
                json!({ "waits_for": "retry", "due": "2026-01-01T10:00:05Z" }),
                "x is tried again in 5 s",
                None,
            ),
            (
                json!({ "waits_for": "signal", "signal": "go" }),
                "x waits for the signal 'go'",
                Some("midex signal 'a b' go"),
            ),
            (
                json!({ "waits_for": "gate", "gate": { "ask": "So?" } }),
                "x waits for an approval: So?",
                Some("midex approve 'a b' x"),
            ),
            (
                json!({ "waits_for": "unknown", "item": 1 }),
                "x #2 was cut off",
                Some("midex resolve --item 1 'a b' x"),
            ),
            (
                json!({ "waits_for": "child", "step_name": "sub" }),
                "sub waits for its child",
                Some("midex show two"),
            ),
            (
                json!({ "waits_for": "held" }),
                "waits for the resume",
                Some("midex resume 'a b'"),
            ),
        ] {
            let wait = wait(more);
            let told = words(&wait, now, true);
            assert!(told.contains(said), "{told}");
            let way = way(&wait, &status).map(|way| way.command);
            assert_eq!(way.as_deref(), typed, "{wait}");
        }
        let undated = wait(json!({ "waits_for": "retry" }));
        assert_eq!(words(&undated, now, true), "x is tried again");
        let operation = wait(json!({ "waits_for": "operation" }));
        assert_eq!(words(&operation, now, true), "x: the server works on it");
        assert!(words(&operation, now, false).starts_with("x: nobody works on it now"));
    }
}
