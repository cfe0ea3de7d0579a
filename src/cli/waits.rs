//! Describes the waits of an execution for a person: in words, and with the command that answers each.

use super::{
    command::{execution_id_flag, quote_operand, quoted},
    screen::one_line,
    value::optional_text_line,
    when::{format_local_time, time_until},
};
use midex_domain::{
    clock::Timestamp,
    id::StepId,
    view::{ChildView, ProgressView, StatusView, WaitView},
};

/// The step of a wait, with its hook and its item: `nap`, `build #2`, `on_enter of nap`.
pub(super) fn wait_name(wait: &WaitView) -> String {
    let step = if wait.step_name == StepId::workflow_pseudo_step().as_str() {
        "a hook of the workflow".to_owned()
    } else {
        one_line(&wait.step_name)
    };
    let body = wait.body.as_deref();
    let body = body.map_or_else(String::new, |body| format!("{} of ", one_line(body)));
    format!("{body}{step}{}{}", item_number(wait.item), title_suffix(wait.title.as_deref()))
}

/// The title of a visit after its name: ` (ask north)`; empty for a visit without a title.
pub(super) fn title_suffix(title: Option<&str>) -> String {
    title.map_or_else(String::new, |title| format!(" ({})", one_line(title)))
}

/// The number of an item, from 1: ` #2`; empty for a step without items.
pub(super) fn item_number(item: Option<u32>) -> String {
    item.map_or_else(String::new, |item| format!(" #{}", item + 1))
}

/// A step as it is named in a command: its id, or `STEP[N]` for item N, from 1.
pub(super) fn step_argument(step: &str, item: Option<u32>) -> String {
    item.map_or_else(|| step.to_owned(), |item| format!("{step}[{}]", item + 1))
}

/// The message for work that is due while no server is running.
const NO_SERVER_MESSAGE: &str = "nobody works on it now, for no server runs";

fn is_past_time(time: &str, now: Timestamp) -> bool {
    time.parse::<Timestamp>().is_ok_and(|time| time <= now)
}

/// A wait in words: `nap waits until 2026-01-01 10:00:00 +00 (42 s left)`. `is_served` tells whether a server is
/// running, which performs the work that needs no model.
pub(super) fn describe_wait(wait: &WaitView, now: Timestamp, is_served: bool) -> String {
    let step = wait_name(wait);
    let due = optional_text_line(wait.due.as_deref());
    let time_left = time_until(&due, now);
    match wait.waits_for.as_str() {
        "operation" if is_served => {
            let progress = wait.progress.as_ref().map(format_progress).unwrap_or_default();
            format!("{step}: the server works on it{progress}")
        }
        "operation" => format!("{step}: {NO_SERVER_MESSAGE}"),
        "retry" if !is_served && is_past_time(&due, now) => format!("{step}: {NO_SERVER_MESSAGE}"),
        "timer" => {
            let time_left = time_left.map_or_else(String::new, |left| format!(" ({left} left)"));
            format!("{step} waits until {}{time_left}", format_local_time(&due))
        }
        "retry" => {
            let time_left = time_left.map_or_else(String::new, |left| format!(" in {left}"));
            format!("{step} is tried again{time_left}")
        }
        "signal" => {
            let signal = optional_text_line(wait.signal.as_deref());
            let alive = match time_left {
                _ if due.is_empty() => String::new(),
                Some(left) => format!(", and for a sign of life ({left} left)"),
                None => ", and for a sign of life".to_owned(),
            };
            format!("{step} waits for the signal '{signal}'{alive}")
        }
        "gate" => {
            let ask = optional_text_line(wait.gate.as_ref().map(|gate| gate.ask.as_str()));
            let expiry = match time_left {
                _ if due.is_empty() => String::new(),
                Some(left) if !is_past_time(&due, now) => format!(" ({left} left)"),
                _ => " (expired)".to_owned(),
            };
            format!("{step} waits for an approval{expiry}: {ask}")
        }
        "catalog" => {
            let catalog = optional_text_line(wait.catalog.as_deref());
            format!("{step} waits for the catalog `{catalog}`")
        }
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

/// The progress of an activity in words: ` (3 of 8: photos)`.
fn format_progress(ProgressView { done, total, text }: &ProgressView) -> String {
    let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
    let separator = if text.is_empty() { "" } else { ": " };
    format!(" ({done}{total}{separator}{text})")
}

/// A command with which a person can act on a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitAction {
    /// The command, without the flags for the data directory and definitions.
    pub(super) command: String,
    /// Its effect, in words.
    pub(super) effect: &'static str,
}

/// The commands for the waits of the execution with this status, without duplicates.
pub(super) fn list_wait_actions(status: &StatusView, now: Timestamp) -> Vec<WaitAction> {
    let (id, children) = (&status.execution_id, &status.children);
    let mut actions = Vec::new();
    if status.needs_resume() {
        actions.push(resume_action(id));
    }
    let waits = status.waits.iter();
    for action in waits.filter_map(|wait| find_wait_action(wait, (id, children), now)) {
        if !actions.contains(&action) {
            actions.push(action);
        }
    }
    actions
}

fn resume_action(id: &str) -> WaitAction {
    WaitAction { command: format!("midex resume {}", quote_operand(id)), effect: "lets it go on" }
}

/// The command for a wait of an execution with these children; `None` if the wait ends without a person.
pub(super) fn find_wait_action(
    wait: &WaitView,
    (execution_id, children): (&str, &[ChildView]),
    now: Timestamp,
) -> Option<WaitAction> {
    let id = quote_operand(execution_id);
    let (command, effect) = match wait.waits_for.as_str() {
        "signal" => {
            let signal = quoted(wait.signal.as_deref().unwrap_or_default());
            (format!("midex signal {id} {signal}"), "brings the signal")
        }
        "gate" if wait.due.as_ref().is_some_and(|due| is_past_time(due, now)) => {
            let command = format!("midex run {}", execution_id_flag(execution_id));
            (command, "goes on without the answer")
        }
        "gate" => {
            let gate = quoted(&step_argument(&wait.step_name, wait.item));
            (format!("midex approve {id} {gate}"), "answers the gate")
        }
        "catalog" => ("midex catalog list".to_owned(), "shows which catalogs there are"),
        "unknown" => {
            let step = quoted(&step_argument(&wait.step_name, wait.item));
            (format!("midex resolve {id} {step}"), "asks whether it took effect")
        }
        "child" => (
            format!("midex show {}", quote_operand(find_awaited_child(children, wait)?)),
            "shows the child",
        ),
        "output_invalid" | "held" => return Some(resume_action(execution_id)),
        _ => return None,
    };
    Some(WaitAction { command, effect })
}

/// The child execution that an open visit waits for: the last one that it started.
pub(super) fn find_awaited_child<'a>(
    children: &'a [ChildView],
    wait: &WaitView,
) -> Option<&'a str> {
    let key = (&wait.step_name, &wait.body, wait.visit, wait.item);
    let is_awaited =
        |child: &&ChildView| (&child.step, &child.body, child.visit, child.item) == key;
    let child = children.iter().rev().find(is_awaited)?;
    Some(&child.execution_id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn wait_names_its_command() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().expect("a time");
        let children = json!([
            { "step": "sub", "visit": 1, "execution_id": "one" },
            { "step": "sub", "visit": 2, "execution_id": "two" },
            { "step": "other", "visit": 2, "execution_id": "three" }
        ]);
        let children: Vec<ChildView> = serde_json::from_value(children).expect("children");
        let wait = |fields: Value| -> WaitView {
            let mut wait = json!({ "step_name": "x", "visit": 2, "attempt": 1 });
            let fields = fields.as_object().cloned().unwrap_or_default();
            wait.as_object_mut().expect("an object").extend(fields);
            serde_json::from_value(wait).expect("a wait")
        };
        for (fields, expected_text, expected_command) in [
            (json!({ "waits_for": "timer", "due": "2026-01-01T10:01:05Z" }), "(1 m left)", None),
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
                json!({ "waits_for": "gate", "gate": { "ask": "So?", "shown": "", "approvers": [] } }),
                "x waits for an approval: So?",
                Some("midex approve 'a b' x"),
            ),
            (
                json!({ "waits_for": "gate", "due": "2026-01-01T09:00:00Z" }),
                "x waits for an approval (expired)",
                Some("midex run --id 'a b'"),
            ),
            (
                json!({ "waits_for": "unknown", "item": 1 }),
                "x #2 was cut off",
                Some("midex resolve 'a b' 'x[2]'"),
            ),
            (
                json!({ "waits_for": "child", "step_name": "sub" }),
                "sub waits for its child",
                Some("midex show two"),
            ),
            (json!({ "waits_for": "held" }), "waits for the resume", Some("midex resume 'a b'")),
        ] {
            let wait = wait(fields);
            let description = describe_wait(&wait, now, true);
            assert!(description.contains(expected_text), "{description}");
            let command = find_wait_action(&wait, ("a b", &children), now).map(|way| way.command);
            assert_eq!(command.as_deref(), expected_command, "{wait:?}");
        }
        let undated = wait(json!({ "waits_for": "retry" }));
        assert_eq!(describe_wait(&undated, now, true), "x is tried again");
        let operation = wait(json!({ "waits_for": "operation" }));
        assert_eq!(describe_wait(&operation, now, true), "x: the server works on it");
        assert!(describe_wait(&operation, now, false).starts_with("x: nobody works on it now"));
    }
}
