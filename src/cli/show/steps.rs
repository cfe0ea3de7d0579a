//! The steps of an execution in order, each with its state and its result.

use serde_json::Value;

use super::{How, failure};
use crate::{
    picture::{Notes, picture},
    value::{duration, field, gist, list},
    waits,
    when::since,
};
use midex_domain::{
    clock::Timestamp,
    view::{GraphNode, GraphView},
};

/// The steps of `shown` with their states, and what each waits for at time `now`. `None` if the graph cannot be parsed.
pub(super) fn steps(shown: &Value, how: &How<'_>, now: Timestamp) -> Option<String> {
    let graph: GraphView = serde_json::from_value(shown["graph"].clone()).ok()?;
    let notes = |node: &GraphNode| notes(node, shown, now, how.is_served);
    Some(picture(&graph, how.screen, notes))
}

fn notes(node: &GraphNode, shown: &Value, now: Timestamp, is_served: bool) -> Notes {
    let is_of = |row: &&Value| row["step_name"] == *node.id && row["body"].is_null();
    let rows = list(&shown["history"]).iter().filter(is_of);
    let latest = rows.clone().rev().find(|row| row["item"].is_null());
    let own = list(&shown["status"]["waits"]).iter().filter(is_of);
    let answers = rows
        .clone()
        .filter(|row| row["answered"].is_object())
        .map(answer);
    let tried = rows.filter(|row| latest.is_some_and(|latest| is_tried_again(row, latest)));
    // Each page of a paginated list is an attempt without a result; those are not shown.
    let tried = tried.map(|row| (&row["attempt"], result(row)));
    let tried = tried.filter(|(_, result)| !result.is_empty());
    let tried: Vec<_> = tried
        .map(|(attempt, result)| format!("attempt {attempt}: {result}"))
        .collect();
    Notes {
        beside: latest.map_or_else(String::new, |row| told(row, now, tried.len())),
        below: own
            .map(|wait| waits::words(wait, now, is_served))
            .chain(answers)
            .chain(tried)
            .collect(),
    }
}

/// Whether the row is an earlier attempt of the same visit as `latest`.
fn is_tried_again(row: &Value, latest: &Value) -> bool {
    row["item"].is_null() && row["visit"] == latest["visit"] && row["attempt"] != latest["attempt"]
}

/// The duration of a visit and its result.
fn told(row: &Value, now: Timestamp, failures: usize) -> String {
    let took = row["duration_ms"].as_u64().map(duration);
    let open = || {
        let since = since(&field(row, "started_at"), now);
        since.map_or_else(String::new, |since| format!("for {since}"))
    };
    let attempt = match row["attempt"].as_u64() {
        Some(2..) if failures > 0 => format!("attempt {}", failures + 1),
        _ => String::new(),
    };
    let result = result(row);
    let late = if row["late"] == true { "late" } else { "" };
    let is_open = row["status"] == "running";
    let time = if is_open {
        open()
    } else {
        took.unwrap_or_default()
    };
    let parts = [time.as_str(), &attempt, late, &result];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// The result of a visit in one line.
fn result(row: &Value) -> String {
    match row.get("error").filter(|error| !error.is_null()) {
        Some(error) => failure(error),
        None => gist(&row["output"]),
    }
}

/// Whether a gate was approved or rejected, and by whom.
fn answer(row: &Value) -> String {
    let answered = &row["answered"];
    let what = if answered["approved"] == true {
        "approved"
    } else {
        "rejected"
    };
    format!("{what} by {}", field(answered, "by"))
}
