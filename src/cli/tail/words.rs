//! The text for an event: a sentence if it tells a person something new, none if it merely follows from another event.

use serde_json::Value;

use crate::{
    screen::{TextStyle, one_line},
    value::{format_duration, text_field},
};
use midex_domain::{state::State, telemetry::EventType};

/// The text and style for an event; `None` if another event of the same transition covers it, such as for tokens.
pub(super) fn event_text(event: &Value) -> Option<(String, Option<TextStyle>)> {
    let kind = EventType::parse(&text_field(event, "event_type"))?;
    let metadata = &event["metadata"];
    let words = match kind {
        EventType::WorkflowCreated => format!("{} begins", text_field(metadata, "workflow_name")),
        EventType::WorkflowStateTransition => new_state_text(metadata)?,
        EventType::WorkflowCompleted => completed_text(metadata),
        EventType::WorkflowFailed => {
            format!("the execution failed: {}", failure_reason_text(metadata))
        }
        EventType::StepStarted => step_began_text(event),
        EventType::StepCompleted => {
            format!("{}done{}", item_and_hook_prefix(metadata), duration_suffix(metadata))
        }
        EventType::StepFailed => step_failed_text(metadata),
        EventType::StepRetried if metadata["code"].is_null() => {
            format!("{}is repeated", item_and_hook_prefix(metadata))
        }
        EventType::StepRetried => format!(
            "{}is tried again: {}",
            item_and_hook_prefix(metadata),
            failure_reason_text(metadata)
        ),
        EventType::TokenGenerated if metadata["renewed"] == true => "has a new token".to_owned(),
        EventType::TokenExpired => {
            format!("a token had expired: {}", failure_reason_text(metadata))
        }
        EventType::ArtifactStored => artifact_stored_text(metadata),
        EventType::ExecutionForked => {
            format!("continues '{}'", one_line(&text_field(metadata, "forked_from")))
        }
        EventType::ExecutionRewound => "is done again: the execution was rewound to it".to_owned(),
        EventType::Error => refusal_text(metadata),
        EventType::WorkflowStarted | EventType::TokenGenerated | EventType::TokenValidated => {
            return None;
        }
    };
    Some((words, event_style(kind)))
}

fn event_style(kind: EventType) -> Option<TextStyle> {
    match kind {
        EventType::WorkflowCompleted | EventType::StepCompleted => Some(TextStyle::Good),
        EventType::WorkflowFailed
        | EventType::StepFailed
        | EventType::TokenExpired
        | EventType::Error => Some(TextStyle::Bad),
        _ => None,
    }
}

/// The new state of the execution; `None` if a dedicated event reports it.
fn new_state_text(metadata: &Value) -> Option<String> {
    let state = |name| State::parse(&text_field(metadata, name));
    let (old_state, new_state) = (state("old_state")?, state("new_state")?);
    match (old_state, new_state) {
        (State::Idle, State::Running) | (_, State::Completed | State::Failed) => None,
        (State::Paused, State::Running) => Some("goes on".to_owned()),
        _ => Some(format!("is {}", new_state.as_str())),
    }
}

fn completed_text(metadata: &Value) -> String {
    match metadata["total_steps"].as_u64() {
        Some(1) => "completed: 1 step".to_owned(),
        Some(steps) => format!("completed: {steps} steps"),
        None => "completed".to_owned(),
    }
}

fn step_began_text(event: &Value) -> String {
    let prefix = item_and_hook_prefix(&event["metadata"]);
    match text_field(event, "agent_name").as_str() {
        "" => format!("{prefix}begins"),
        agent => format!("{prefix}begins, for {agent}"),
    }
}

fn step_failed_text(metadata: &Value) -> String {
    let (prefix, duration) = (item_and_hook_prefix(metadata), duration_suffix(metadata));
    format!("{prefix}failed{duration}: {}", failure_reason_text(metadata))
}

fn artifact_stored_text(metadata: &Value) -> String {
    let size = match metadata["size_bytes"].as_u64() {
        Some(1) => "1 byte".to_owned(),
        bytes => format!("{} bytes", bytes.unwrap_or_default()),
    };
    let (name, kind) = (text_field(metadata, "name"), text_field(metadata, "artifact_type"));
    format!("kept {name} ({kind}, {size})")
}

fn refusal_text(metadata: &Value) -> String {
    match text_field(metadata, "type").as_str() {
        "step_output_invalid" => "the output did not fit and was refused".to_owned(),
        code => format!("refused: {} ({code})", failure_reason_text(metadata)),
    }
}

/// The item of an event, and its hook or compensation: `#2 `, `on_enter `.
fn item_and_hook_prefix(metadata: &Value) -> String {
    let item = metadata["item"].as_u64();
    let item = item.map_or_else(String::new, |item| format!("#{} ", item + 1));
    match text_field(metadata, "body").as_str() {
        "" => item,
        body => format!("{item}{body} "),
    }
}

/// ` after 3.2 s`; empty without a duration.
fn duration_suffix(metadata: &Value) -> String {
    match metadata["duration_ms"].as_u64() {
        None | Some(0) => String::new(),
        Some(duration) => format!(" after {}", format_duration(duration)),
    }
}

fn failure_reason_text(metadata: &Value) -> String {
    match text_field(metadata, "error").as_str() {
        "" => "for no reason that was given".to_owned(),
        error => one_line(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text_of_event(kind: &str, metadata: &Value) -> Option<String> {
        let event = json!({ "event_type": kind, "agent_name": "fixer", "metadata": metadata });
        event_text(&event).map(|(words, _)| words)
    }

    #[test]
    fn each_event_type_has_a_text() {
        for (kind, metadata, expected) in [
            ("workflow_created", json!({ "workflow_name": "bug-fix" }), "bug-fix begins"),
            (
                "workflow_state_transition",
                json!({ "old_state": "running", "new_state": "paused" }),
                "is paused",
            ),
            (
                "workflow_state_transition",
                json!({ "old_state": "paused", "new_state": "running" }),
                "goes on",
            ),
            ("workflow_completed", json!({ "total_steps": 1 }), "completed: 1 step"),
            (
                "workflow_failed",
                json!({ "error": "no room\nleft" }),
                "the execution failed: no room left",
            ),
            ("step_started", Value::Null, "begins, for fixer"),
            ("step_started", json!({ "body": "on_success" }), "on_success begins, for fixer"),
            ("step_completed", json!({ "duration_ms": 1250 }), "done after 1.2 s"),
            ("step_completed", json!({ "duration_ms": 0 }), "done"),
            ("step_failed", json!({ "duration_ms": 5, "error": "x" }), "failed after 5 ms: x"),
            ("token_generated", json!({ "renewed": true }), "has a new token"),
            ("token_expired", json!({ "error": "x" }), "a token had expired: x"),
            (
                "artifact_stored",
                json!({ "name": "a.md", "artifact_type": "report", "size_bytes": 3 }),
                "kept a.md (report, 3 bytes)",
            ),
            (
                "error",
                json!({ "type": "TOKEN_UNKNOWN", "error": "x" }),
                "refused: x (TOKEN_UNKNOWN)",
            ),
            (
                "error",
                json!({ "type": "step_output_invalid" }),
                "the output did not fit and was refused",
            ),
        ] {
            assert_eq!(text_of_event(kind, &metadata).as_deref(), Some(expected), "{kind}");
        }
        for (old, new) in [("idle", "running"), ("running", "completed"), ("paused", "failed")] {
            let change = json!({ "old_state": old, "new_state": new });
            assert_eq!(text_of_event("workflow_state_transition", &change), None);
        }
        for kind in ["workflow_started", "token_generated", "token_validated"] {
            assert_eq!(text_of_event(kind, &json!({})), None);
        }
        let kinds = ["step_failed", "workflow_failed", "error"];
        assert!(kinds.iter().all(|kind| text_of_event(kind, &Value::Null).is_some()));
    }
}
