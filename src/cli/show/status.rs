//! Formats the fields of an execution: its state, times, project, labels, and related executions.

use std::fmt::Write as _;

use super::{DisplayOptions, SECTION_INDENT};
use crate::{
    screen::{TextStyle, one_line},
    value::{format_duration, optional_text_line as in_line},
    when::{format_local_time, format_time_ago},
};
use midex_domain::view::{StatusView, StepCounts};

/// The width of the field names.
const FIELD_NAME_COLUMNS: usize = 8;

/// The fields of the execution as a whole, one a line.
pub(super) fn status_fields(status: &StatusView, options: &DisplayOptions<'_>) -> String {
    let screen = options.screen;
    let title = screen.paint(TextStyle::Bold, &one_line(&status.execution_id));
    let mut text = format!("{title}  {}\n", one_line(&status.workflow_name));
    let pauses = status.pause_reasons.iter().map(|reason| reason.as_str());
    let pauses: Vec<_> = pauses.collect();
    let mut state = screen.paint_state(&status.state);
    if !pauses.is_empty() {
        let _ = write!(state, " ({})", pauses.join(", "));
    }
    let end_text = match status.duration_ms {
        Some(duration) => {
            let end_time = format_local_time(&in_line(status.completed_at.as_deref()));
            format!("{end_time}, took {}", format_duration(duration))
        }
        None => String::new(),
    };
    let updated = if end_text.is_empty() && options.latest_revision.is_none() {
        format_time_ago(&one_line(&status.updated_at), options.now)
    } else {
        String::new()
    };
    let name = screen.paint(TextStyle::Dim, &format!("{:<FIELD_NAME_COLUMNS$}", "state"));
    if let Some(latest) = options.latest_revision {
        let time = format_local_time(&one_line(&status.updated_at));
        let past = format!(
            "a past state: revision {}, of {time}; the execution is at revision {latest} now",
            status.revision
        );
        text += &screen.named_value("as of", FIELD_NAME_COLUMNS, &past);
    }
    // The state is colored already, and `named` would strip its escape sequences.
    let _ = writeln!(text, "{SECTION_INDENT}{name} {state}");
    for (name, value) in [
        ("ending", in_line(status.ending.as_deref())),
        ("reason", in_line(status.reason.as_deref())),
        ("steps", step_counts_text(&status.steps)),
        ("started", format_local_time(&one_line(&status.started_at))),
        ("updated", updated),
        ("ended", end_text),
        ("project", in_line(status.project.as_deref())),
        ("labels", labels_line(status)),
        ("parent", parent_line(status)),
        ("from", origin_line(status)),
        ("forks", one_line(&status.forks.join(", "))),
        ("file", newer_definition_line(status)),
        ("purged", one_line(&status.purged.join(", "))),
    ] {
        if !value.is_empty() {
            text += &screen.named_value(name, FIELD_NAME_COLUMNS, &value);
        }
    }
    text
}

/// The labels as `--label` takes them.
fn labels_line(status: &StatusView) -> String {
    let labels = status.labels.iter().map(|(name, value)| format!("{name}={value}"));
    one_line(&labels.collect::<Vec<_>>().join(", "))
}

/// The execution that this one continues; empty unless it is a fork.
fn origin_line(status: &StatusView) -> String {
    let origin = status.forked_from.as_ref();
    origin.map_or_else(String::new, |origin| {
        format!("{}, as it was at revision {}", one_line(&origin.execution_id), origin.revision)
    })
}

/// A note that the workflow's file has changed since the start; empty if it has not.
fn newer_definition_line(status: &StatusView) -> String {
    let Some(newer) = &status.definition.newer else {
        return String::new();
    };
    let version =
        newer.version.as_deref().map(|version| format!(" (version {})", one_line(version)));
    format!("has changed since the start{}", version.unwrap_or_default())
}

/// The parent execution, and the root of the tree if that is another one.
fn parent_line(status: &StatusView) -> String {
    let [parent, root] = [&status.parent, &status.root].map(|id| in_line(id.as_deref()));
    if root == parent || root.is_empty() {
        return parent;
    }
    format!("{parent}, below {root}")
}

/// `1 of 3 done, 2 open`.
fn step_counts_text(steps: &StepCounts) -> String {
    let mut text = format!("{} of {} done", steps.completed, steps.total);
    for (count, word) in
        [(steps.running, "open"), (steps.failed, "failed"), (steps.skipped, "skipped")]
    {
        if count > 0 {
            let _ = write!(text, ", {count} {word}");
        }
    }
    text
}
