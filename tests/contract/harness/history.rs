//! The history of an execution and of its children, a line for each attempt.
//!
//! A line is `s 2 failed CODE`: the step, its visit and item where they are not the first and only ones (`s#2`, `s[1]`),
//! the attempt, and what became of it. A skipped step has no attempt. Rows of a child follow those of its parent, after
//! the step that began it: `kid: s 1 completed`. An expected line may say more, in this order: `at 3s` (the second in
//! which the attempt began), `until 5s` (in which it ended), `titled "T"`, `= JSON` (its output).

use std::time::Duration;

use midex_domain::{ExecutionId, clock::Timestamp, view::HistoryRow};
use midex_engine::Engine;
use midex_test::{EPOCH, play::id as named};
use serde_json::Value;

use super::script::{parse_duration, parse_value};

/// A row, and the steps that lead to its execution.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    prefix: String,
    row: HistoryRow,
}

/// The rows of an execution and of those below it.
pub(super) async fn entries(engine: &Engine, id: &ExecutionId) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut left = vec![(String::new(), id.clone())];
    while let Some((prefix, id)) = left.pop() {
        // A child that was announced and never began has no history.
        let Ok(rows) = engine.history(&id).await else {
            continue;
        };
        entries.extend(rows.into_iter().map(|row| Entry { prefix: prefix.clone(), row }));
        let status = engine.status(&id).await.expect("a status");
        let children = status.children.iter().rev();
        left.extend(children.map(|child| {
            let name = name_visit(&child.step, child.visit, child.item);
            (format!("{prefix}{name}: "), named(&child.execution_id))
        }));
    }
    entries
}

fn name_visit(step: &str, visit: u32, item: Option<u32>) -> String {
    let visit = if visit > 1 { format!("#{visit}") } else { String::new() };
    let item = item.map(|item| format!("[{}]", item + 1)).unwrap_or_default();
    format!("{step}{visit}{item}")
}

/// What an expected line says, and where it says no more.
struct Expected<'a> {
    subject: &'a str,
    at: Option<Duration>,
    until: Option<Duration>,
    title: Option<&'a str>,
    output: Option<Value>,
}

impl<'a> Expected<'a> {
    fn parse(line: &'a str) -> Self {
        let (line, output) = split_off(line, " = ");
        let (line, title) = split_off(line, " titled ");
        let (line, until) = split_off(line, " until ");
        let (subject, at) = split_off(line, " at ");
        let output = output.map(parse_value);
        Self {
            subject,
            at: at.map(parse_duration),
            until: until.map(parse_duration),
            title,
            output,
        }
    }
}

fn split_off<'a>(line: &'a str, word: &str) -> (&'a str, Option<&'a str>) {
    line.split_once(word).map_or((line, None), |(line, rest)| (line, Some(rest)))
}

/// The second of an instant, counted from the beginning of the scenario.
fn second_of(instant: &str) -> u64 {
    let instant: Timestamp = instant.parse().expect("an instant");
    instant.since(EPOCH).as_secs()
}

impl Entry {
    /// The line without what an expected one may leave out.
    fn subject(&self) -> String {
        let row = &self.row;
        let body = row.body.as_ref().map(|body| format!("/{body}")).unwrap_or_default();
        let name = name_visit(&row.step_name, row.visit, row.item);
        let attempt = if row.attempt > 0 { format!(" {}", row.attempt) } else { String::new() };
        let code = row.error.as_ref().map(|error| format!(" {}", error.code)).unwrap_or_default();
        let late = if row.late { " late" } else { "" };
        format!("{}{name}{body}{attempt} {}{code}{late}", self.prefix, row.status)
    }

    fn title(&self) -> Option<String> {
        let row = serde_json::to_value(&self.row).expect("JSON");
        row.get("title").filter(|title| !title.is_null()).map(Value::to_string)
    }

    /// The line with what the expected one says besides, in its words where they are true.
    fn line(&self, expected: Option<&str>) -> String {
        let expected = expected.map(Expected::parse);
        let mut line = self.subject();
        let Some(expected) = expected else {
            return line;
        };
        if expected.at.is_some() {
            line += &format!(" at {}s", second_of(&self.row.started_at));
        }
        if expected.until.is_some() {
            let ended = self.row.completed_at.as_deref().map(second_of);
            line +=
                &ended.map_or(" until the end".to_owned(), |second| format!(" until {second}s"));
        }
        if expected.title.is_some() {
            line += &format!(" titled {}", self.title().unwrap_or_else(|| "none".to_owned()));
        }
        if let Some(said) = &expected.output {
            let output = self.row.output.clone().unwrap_or_default();
            line += &format!(" = {}", if output == *said { said } else { &output });
        }
        line
    }

    /// All that must be the same however often the server was killed: everything but the times.
    pub(super) fn without_times(&self) -> Value {
        let mut row = serde_json::to_value(&self.row).expect("JSON");
        for time in ["started_at", "completed_at", "duration_ms"] {
            row.as_object_mut().expect("an object").remove(time);
        }
        row["execution"] = Value::from(self.prefix.as_str());
        row
    }
}

/// The expected lines in the form in which lines are compared.
pub(super) fn expected_lines(lines: &[&str]) -> Vec<String> {
    let line = |line: &&str| {
        let expected = Expected::parse(line);
        let mut line = expected.subject.to_owned();
        if let Some(at) = expected.at {
            line += &format!(" at {}s", at.as_secs());
        }
        if let Some(until) = expected.until {
            line += &format!(" until {}s", until.as_secs());
        }
        if let Some(title) = expected.title {
            line += &format!(" titled {title}");
        }
        if let Some(output) = expected.output {
            line += &format!(" = {output}");
        }
        line
    };
    lines.iter().map(line).collect()
}

/// The lines of a history, each with what the expected line of its place says.
pub(super) fn lines(entries: &[Entry], expected: &[&str]) -> Vec<String> {
    let entries = entries.iter().enumerate();
    entries.map(|(at, entry)| entry.line(expected.get(at).copied())).collect()
}
