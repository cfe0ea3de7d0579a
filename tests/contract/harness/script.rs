//! The script of a scenario: what the outside does, one line for each act.
//!
//! | line | act |
//! |---|---|
//! | `s brings JSON` | the model ends the step `s` with this output; `s[2]` is its second item |
//! | `s fails CODE`, `s fails for good CODE` | the model reports that the step could not be done |
//! | `s reads TEXT` | the instructions of the open step `s` contain this text |
//! | `s is given JSON` | the open step `s` works on this |
//! | `s is titled TEXT` | the open step `s` has this title |
//! | `signal NAME JSON` | a signal comes with this payload |
//! | `signal NAME fails CODE: MESSAGE` | a signal comes with this error |
//! | `signal NAME alive` | a sign of life comes |
//! | `approve s`, `reject s` | a person answers the gate `s` |
//! | `resolve s JSON`, `resolve s retry`, `resolve s failed` | a caller gives the outcome of an attempt |
//! | `pause`, `resume`, `abandon`, `fail` | a caller changes the state |
//! | `shows TEXT`, `hides TEXT` | the status contains this text, or does not |
//! | `passes 10s` | time passes |
//! | `killed` | the server is killed while an attempt is under way, and started again |
//! | `down for 1h` | the same at any time, and so much time passes before the start |
//!
//! `kid: …` is an act on the child that the step `kid` began last. An act on a step waits until it is possible.

use std::{sync::Arc, time::Duration};

use midex_domain::{
    ExecutionId, LifecycleAction, StepId,
    execution::{Report, Resolution, SignalRequest, Verdict},
    view::{ReadyStep, WaitView},
};
use midex_engine::Engine;
use midex_test::play::{change_to, gate_answer};
use serde_json::Value;

use super::engine::root;

/// One line of a script.
#[derive(Debug)]
pub(super) enum Act<'a> {
    Passes(Duration),
    Killed,
    DownFor(Duration),
    On { path: Vec<StepRef<'a>>, deed: Deed<'a> },
}

/// An act on one execution.
#[derive(Debug)]
pub(super) enum Deed<'a> {
    Report(StepRef<'a>, Report),
    Reads(StepRef<'a>, &'a str),
    IsGiven(StepRef<'a>, Value),
    IsTitled(StepRef<'a>, &'a str),
    Signal(SignalRequest),
    Answer(StepRef<'a>, bool),
    Resolve(StepRef<'a>, Verdict),
    Change(LifecycleAction),
    Shows(&'a str, bool),
}

/// A step, or an item of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepRef<'a> {
    pub(super) step: &'a str,
    /// From 0; written from 1.
    pub(super) item: Option<u32>,
}

impl<'a> StepRef<'a> {
    fn parse(text: &'a str) -> Self {
        let Some((step, item)) = text.split_once('[') else {
            return Self { step: text, item: None };
        };
        let item = item.trim_end_matches(']').parse::<u32>().expect("the number of an item");
        Self { step, item: Some(item - 1) }
    }

    fn is(&self, step: &str, item: Option<u32>) -> bool {
        self.step == step && self.item == item
    }

    fn is_waiting(&self, wait: &WaitView, waits_for: &str) -> bool {
        wait.waits_for == waits_for && self.is(&wait.step_name, wait.item)
    }
}

/// A number of seconds, minutes, hours or milliseconds.
pub(super) fn parse_duration(text: &str) -> Duration {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).expect("a unit");
    let number: u64 = text[..end].parse().expect("a number");
    Duration::from_millis(match &text[end..] {
        "ms" => number,
        "s" => number * 1000,
        "m" => number * 60_000,
        "h" => number * 3_600_000,
        unit => panic!("`{unit}` is no unit"),
    })
}

/// JSON, or a text of so many letters: `100 letters`.
pub(super) fn parse_value(text: &str) -> Value {
    if let Some(count) = text.strip_suffix(" letters") {
        return Value::from("x".repeat(count.parse().expect("a number")));
    }
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl<'a> Act<'a> {
    pub(super) fn parse(line: &'a str) -> Self {
        let mut path = Vec::new();
        let mut rest = line;
        while let Some((head, tail)) = rest.split_once(": ").filter(|(head, _)| !head.contains(' '))
        {
            path.push(StepRef::parse(head));
            rest = tail;
        }
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match first {
            "passes" => Self::Passes(parse_duration(more)),
            "killed" => Self::Killed,
            "down" => Self::DownFor(parse_duration(more.strip_prefix("for ").expect("`for`"))),
            _ => Self::On { path, deed: Deed::parse(first, more) },
        }
    }
}

impl<'a> Deed<'a> {
    fn parse(first: &'a str, more: &'a str) -> Self {
        match first {
            "signal" => {
                let (name, payload) = more.split_once(' ').expect("a name and a payload");
                Self::Signal(parse_signal(name, payload))
            }
            "approve" => Self::Answer(StepRef::parse(more), true),
            "reject" => Self::Answer(StepRef::parse(more), false),
            "resolve" => {
                let (step, verdict) = more.split_once(' ').expect("a step and a verdict");
                let verdict = match verdict {
                    "retry" => Verdict::Retry,
                    "failed" => Verdict::Failed("it failed".into()),
                    output => Verdict::Output(Arc::new(parse_value(output))),
                };
                Self::Resolve(StepRef::parse(step), verdict)
            }
            "pause" => Self::Change(LifecycleAction::Pause),
            "resume" => Self::Change(LifecycleAction::Resume),
            "abandon" => Self::Change(LifecycleAction::Abandon),
            "fail" => Self::Change(LifecycleAction::Fail),
            "shows" => Self::Shows(more, true),
            "hides" => Self::Shows(more, false),
            step => Self::parse_report(StepRef::parse(step), more),
        }
    }

    fn parse_report(step: StepRef<'a>, text: &'a str) -> Self {
        if let Some(words) = text.strip_prefix("reads ") {
            return Self::Reads(step, words);
        }
        if let Some(input) = text.strip_prefix("is given ") {
            return Self::IsGiven(step, parse_value(input));
        }
        if let Some(title) = text.strip_prefix("is titled ") {
            return Self::IsTitled(step, title);
        }
        if let Some(output) = text.strip_prefix("brings ") {
            return Self::Report(step, Report::Output(parse_value(output)));
        }
        let code = text.strip_prefix("fails ").expect("`brings`, `fails` or `is …`");
        let (code, retryable) = match code.strip_prefix("for good ") {
            Some(code) => (code, Some(false)),
            None => (code, None),
        };
        let message = "it could not be done".to_owned();
        Self::Report(step, Report::Error { message, code: Some(code.to_owned()), retryable })
    }

    /// Does it if it is possible now, and returns whether it was.
    pub(super) async fn is_done(&self, engine: &Engine, id: &ExecutionId) -> bool {
        match self {
            Self::Report(step, report) => {
                let Some(open) = find_open_step(engine, id, *step).await else {
                    return false;
                };
                let token = &open.continuation_token;
                engine.advance(token, report.clone()).await.expect("an advance");
            }
            Self::Reads(step, _) | Self::IsGiven(step, _) | Self::IsTitled(step, _) => {
                let Some(open) = find_open_step(engine, id, *step).await else {
                    return false;
                };
                self.assert_offer(&open);
            }
            Self::Signal(signal) => {
                engine.apply_command(id, signal.clone()).await.expect("a signal");
            }
            Self::Answer(step, is_approved) => {
                let mut status = engine.status(id).await.expect("a status");
                status.waits.retain(|wait| step.is_waiting(wait, "gate"));
                if status.waits.is_empty() {
                    return false;
                }
                let answer = gate_answer(&status, *is_approved, None);
                engine.apply_command(id, answer).await.expect("an answer");
            }
            Self::Resolve(step, verdict) => {
                let status = engine.status(id).await.expect("a status");
                if !status.waits.iter().any(|wait| step.is_waiting(wait, "unknown")) {
                    return false;
                }
                let resolution = Resolution {
                    step: StepId::parse(step.step).expect("an id"),
                    item: step.item,
                    attempt: None,
                    verdict: verdict.clone(),
                };
                engine.apply_command(id, resolution).await.expect("a resolution");
            }
            Self::Change(action) => {
                engine.apply_command(id, change_to(*action)).await.expect("a change");
            }
            Self::Shows(text, is_shown) => {
                let status = engine.status(id).await.expect("a status");
                let status = serde_json::to_string(&status).expect("JSON");
                assert_eq!(status.contains(text), *is_shown, "`{text}`: {status}");
            }
        }
        true
    }
}

impl Deed<'_> {
    /// Asserts what this line says of an open step.
    fn assert_offer(&self, open: &ReadyStep) {
        match self {
            Self::Reads(_, words) => {
                assert!(open.instructions.contains(words), "{words}: {}", open.instructions);
            }
            Self::IsGiven(_, input) => assert_eq!(open.step.input.as_ref(), Some(input)),
            Self::IsTitled(_, title) => assert_eq!(open.step.title.as_deref(), Some(*title)),
            _ => {}
        }
    }
}

fn parse_signal(name: &str, text: &str) -> SignalRequest {
    if text == "alive" {
        return SignalRequest::alive(name);
    }
    let Some(error) = text.strip_prefix("fails ") else {
        return SignalRequest::new(name, parse_value(text));
    };
    let (code, message) = error.split_once(": ").expect("a code and a message");
    SignalRequest::failure(name, Some(code.to_owned()), message)
}

async fn find_open_step(engine: &Engine, id: &ExecutionId, step: StepRef<'_>) -> Option<ReadyStep> {
    let current = engine.current_step(id).await.expect("a step");
    let mut open = current.open_steps().into_iter();
    open.find(|open| step.is(&open.step_name, open.step.item))
}

/// The execution below the root that a path leads to; `None` if it does not exist yet.
pub(super) async fn find_execution(engine: &Engine, path: &[StepRef<'_>]) -> Option<ExecutionId> {
    let mut id = root();
    for step in path {
        let status = engine.status(&id).await.expect("a status");
        let mut children = status.children.iter().rev();
        let child = children.find(|child| step.is(&child.step, child.item))?;
        let child = midex_test::play::id(&child.execution_id);
        // A child that is announced may not have begun.
        engine.status(&child).await.ok()?;
        id = child;
    }
    Some(id)
}
