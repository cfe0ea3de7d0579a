//! What an execution waits for that is not a model: time, signals, people, and work of the server.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Subject, definition_step};
use crate::domain::{
    definition::StepKind,
    document::plain,
    event::Awaiting,
    execution::{Execution, StepState, Visit},
    id::{ExecutionId, StepId},
};

/// One thing that an execution waits for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WaitView {
    /// The step.
    pub step_name: String,
    /// Which visit of the step, from 1.
    pub visit: u32,
    /// Which item of a fan-out, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Which attempt of the visit, from 1.
    pub attempt: u32,
    /// What for: operation (the server works on it), timer, retry, signal, gate (a person's approval), unknown (nobody
    /// knows what came of it: `execution.resolve`), held (it has come to its end and waits for the resume).
    pub waits_for: String,
    /// When it is over, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The signal, where one is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// What a person is asked, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateView>,
}

/// What a person is asked to approve.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateView {
    /// The question.
    pub ask: String,
    /// The digest of the question: an answer names it, and counts for nothing else.
    pub shown: String,
    /// Who may answer: names, for the record.
    pub approvers: Vec<String>,
}

/// What the execution waits for that is not a model, in authoring order.
pub(super) fn waiting(subject: &Subject<'_>) -> Vec<WaitView> {
    let open = subject.execution.open();
    open.filter_map(|(position, step, visit)| wait(subject, position, step, visit))
        .collect()
}

fn wait(
    subject: &Subject<'_>,
    position: usize,
    step: &StepState,
    visit: &Visit,
) -> Option<WaitView> {
    let awaiting = visit.awaiting.as_ref()?;
    let (waits_for, due, signal) = match awaiting {
        Awaiting::Model(_) | Awaiting::Items { .. } => return None,
        Awaiting::Operation => ("operation", None, None),
        Awaiting::Timer { due } => ("timer", Some(*due), None),
        Awaiting::Retry { due } => ("retry", Some(*due), None),
        Awaiting::Signal { name } => ("signal", None, Some(name.clone())),
        Awaiting::Gate { due, .. } => ("gate", *due, None),
        Awaiting::Unknown => ("unknown", None, None),
        Awaiting::Held(_) => ("held", None, None),
    };
    Some(WaitView {
        step_name: step.id.to_string(),
        visit: visit.number,
        item: visit.item,
        // One that was never begun will be the first.
        attempt: visit.attempt.max(1),
        waits_for: waits_for.to_owned(),
        due: due.map(|due| due.to_string()),
        signal,
        gate: gate(subject, position, awaiting),
    })
}

fn gate(subject: &Subject<'_>, position: usize, awaiting: &Awaiting) -> Option<GateView> {
    let Awaiting::Gate { shown, .. } = awaiting else {
        return None;
    };
    let step = definition_step(subject.definition, position)?;
    let StepKind::Gate { approvers, .. } = &step.kind else {
        return None;
    };
    let ask = subject.values.get(shown)?.get("ask")?;
    Some(GateView {
        ask: plain(ask),
        shown: shown.to_string(),
        approvers: approvers.clone(),
    })
}

/// What an open visit waits for, in words, where that is not a model.
pub(super) fn told(step: &StepState, visit: &Visit) -> Option<String> {
    let id = &step.id;
    Some(match visit.awaiting.as_ref()? {
        Awaiting::Model(_) | Awaiting::Items { .. } => return None,
        Awaiting::Operation => format!("the server works on step '{id}'"),
        Awaiting::Timer { due } => format!("step '{id}' waits until {due}"),
        Awaiting::Retry { due } => format!("step '{id}' is tried again at {due}"),
        Awaiting::Signal { name } => format!("step '{id}' waits for the signal '{name}'"),
        Awaiting::Gate { .. } => format!("step '{id}' waits for a person's approval"),
        Awaiting::Unknown => format!("nobody knows whether step '{id}' took effect"),
        Awaiting::Held(_) => format!("step '{id}' has come to its end and waits for the resume"),
    })
}

/// What people are asked for, and how they answer.
pub(super) fn asked_of_people(execution: &Execution) -> String {
    let open = execution.open().filter_map(|(_, step, visit)| {
        let awaiting = visit.awaiting.as_ref()?;
        Some((&step.id, awaiting))
    });
    let (mut gates, mut unknown) = (Vec::new(), Vec::new());
    for (step, awaiting) in open {
        match awaiting {
            Awaiting::Gate { .. } => gates.push(step),
            Awaiting::Unknown => unknown.push(step),
            _ => {}
        }
    }
    let mut text = Vec::new();
    if !gates.is_empty() {
        text.push(to_approve(&gates, execution.id(), execution.revision()));
    }
    if !unknown.is_empty() {
        text.push(format!(
            "The server was cut off in the midst of {}, and nobody knows what came of it. Find out, with your user, and call execution.resolve",
            quoted(&unknown)
        ));
    }
    text.join(". ")
}

/// The same of the gates that were open right after `revision`.
pub(super) fn asked_at(subject: &Subject<'_>, revision: u64) -> String {
    let execution = subject.execution;
    let is_gate = |position: usize| {
        let step = definition_step(subject.definition, position);
        step.is_some_and(|step| matches!(step.kind, StepKind::Gate { .. }))
    };
    let steps = execution.steps().iter().enumerate();
    let gates = steps.filter(|(position, step)| {
        is_gate(*position) && step.visits.iter().any(|visit| visit.was_open(revision))
    });
    let gates: Vec<_> = gates.map(|(_, step)| &step.id).collect();
    if gates.is_empty() {
        return "The execution waits for a person. Nothing is to be done until then".into();
    }
    to_approve(&gates, execution.id(), revision)
}

fn to_approve(gates: &[&StepId], id: &ExecutionId, revision: u64) -> String {
    format!(
        "A person's approval is waited for ({}). Ask your user to run `midex approve {id}` in a terminal, then call execution.wait with execution_id '{id}' and \
         since_revision {revision} to be told of the answer",
        quoted(gates)
    )
}

fn quoted(steps: &[&StepId]) -> String {
    let quoted: Vec<_> = steps.iter().map(|step| format!("'{step}'")).collect();
    quoted.join(", ")
}
