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
        let Some(expected) = expected.map(Expected::parse) else {
            return self.subject();
        };
        let row = &self.row;
        let at = expected.at.map(|_| second_of(&row.started_at).to_string());
        let until = expected.until.map(|_| match &row.completed_at {
            Some(instant) => second_of(instant).to_string(),
            None => "the end".to_owned(),
        });
        let title = expected.title.map(|_| self.title().unwrap_or_else(|| "none".to_owned()));
        let output = expected.output.map(|said| match &row.output {
            Some(output) if *output == said => said.to_string(),
            Some(output) => output.to_string(),
            None => "nothing".to_owned(),
        });
        write_line(&self.subject(), [at, until, title, output])
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

/// A line with the seconds, the title and the output that belong to it.
fn write_line(subject: &str, details: [Option<String>; 4]) -> String {
    let words = [" at ", " until ", " titled ", " = "].into_iter().zip(details);
    let details = words.filter_map(|(word, detail)| detail.map(|detail| format!("{word}{detail}")));
    format!("{subject}{}", details.collect::<String>())
}

/// The expected lines in the form in which lines are compared.
pub(super) fn expected_lines(lines: &[&str]) -> Vec<String> {
    let line = |line: &&str| {
        let expected = Expected::parse(line);
        let second = |duration: Duration| duration.as_secs().to_string();
        let details = [
            expected.at.map(second),
            expected.until.map(second),
            expected.title.map(str::to_owned),
            expected.output.map(|output| output.to_string()),
        ];
        write_line(expected.subject, details)
    };
    lines.iter().map(line).collect()
}

/// The lines of a history, each with what the expected line of its place says.
pub(super) fn lines(entries: &[Entry], expected: &[&str]) -> Vec<String> {
    let entries = entries.iter().enumerate();
    entries.map(|(at, entry)| entry.line(expected.get(at).copied())).collect()
}
