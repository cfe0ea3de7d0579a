//! What `workflow.start` and `workflow.next_step` answer. A reply is built from the journal row of its
//! transition, so the same call gets the same answer whenever it is repeated.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    Previous, Subject, definition_step, needed_at_end, needed_before,
    previous::{final_output, previous},
    progress,
    task::{Task, Turn, given, task},
    token,
    waits::{asked_of_people, signals_awaited, wait_call},
};
use crate::{
    clock::Timestamp,
    domain::{
        definition::{Definition, Step},
        event::{Event, Failure, OutputFault, Row},
        execution::{Execution, State, Visit},
        id::AgentName,
    },
    limits,
};

/// The answer of `workflow.start` and `workflow.next_step` (S0). The singular fields show the first
/// step that this call made ready.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advanced {
    /// True: the call did what it says.
    pub success: bool,
    /// The execution.
    pub execution_id: String,
    /// Its workflow.
    pub workflow_name: String,
    /// Its state after the call: idle, running, paused, completed, failed, abandoned or diverged.
    pub workflow_state: String,
    /// The number of its last transition.
    pub revision: u64,
    /// The step to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_name: Option<String>,
    /// Whose persona to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The persona.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_content: Option<String>,
    /// What the step is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What to do with it and how to come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Its kind: agent, guidance or tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it works on, where the step says so in `with`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// An output that would be accepted, where the step gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// JSON Schema of the output, where the step declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The step's place among all, as `1/3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The token that finishes the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_token: Option<String>,
    /// When that token expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// What the steps that it depends on decided, in short.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Previous>,
    /// Every step that this call made ready, each with its own token.
    pub new_tokens: Vec<Offer>,
    /// The steps that are open, where this call made none ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_steps: Vec<Offer>,
    /// What a completed execution came to: the output of its last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// Whether the final output is shortened; `step_history` has it whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub final_output_truncated: bool,
    /// What of the final output could not be computed: null stands there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub final_output_error: Vec<OutputFault>,
    /// Why the execution failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// What happened, in a sentence.
    pub message: String,
    /// True where this call was answered before and this is that answer again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// A step that is ready, and the right to finish it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Offer {
    /// The step.
    pub step_name: String,
    /// Its kind: agent, guidance or tool.
    pub kind: String,
    /// Whose persona to take.
    pub agent_name: Option<String>,
    /// What the step is for.
    pub description: String,
    /// The token that finishes it.
    pub continuation_token: String,
    /// When that token expires.
    pub expires_at: String,
    /// The persona; left out where this reply shows it already, for a step before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_content: Option<String>,
    /// What to do with it and how to come back; left out where this reply shows it already.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// What it works on, where the step says so in `with`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// JSON Schema of the output, where the step declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// An output that would be accepted, where the step gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// What the steps that it depends on decided, in short; left out where this reply shows it already.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Previous>,
    /// Which visit of the step this is, from 1.
    pub visit: u32,
    /// Which attempt of the visit this is, from 1.
    pub attempt: u32,
    /// Which item of a fan-out it is, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailureView {
    /// A stable name.
    pub code: String,
    /// What happened.
    pub message: String,
    /// The step it began in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_name: Option<String>,
    /// Which item of that step, from 0, where it is a `foreach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code.clone(),
            message: failure.message.clone(),
            step_name: failure.step.as_ref().map(ToString::to_string),
            item: failure.item,
        }
    }
}

/// The steps whose outputs the reply to the transition of `row` shows.
pub fn needed_for_reply(definition: &Definition, row: &Row) -> BTreeSet<usize> {
    let offered = row.events.iter().filter_map(Event::offered);
    let positions = offered.filter_map(|(site, _)| definition.graph().position(&site.step));
    let mut needed = needed_before(definition, positions);
    needed.extend(needed_at_end(definition, ending(row).0));
    needed
}

/// What the transition of `row` answers. The execution of `subject` is the one that the transition led to.
pub fn advanced(subject: &Subject<'_>, row: &Row, replayed: bool) -> Advanced {
    let Subject {
        definition,
        execution,
        ..
    } = *subject;
    let ready = ready(subject, row);
    let (state, failure) = (execution.state(), execution.failure());
    let open_steps = if ready.is_empty() && state == State::Running {
        open_turns(subject)
    } else {
        Vec::new()
    };
    let (final_output, truncated) = final_output(subject, state).unzip();
    let first = ready.first();
    let step = first.and_then(|(position, _)| definition_step(definition, *position));
    Advanced {
        success: true,
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        workflow_state: state.as_str().into(),
        revision: row.revision,
        step_name: first.map(|(_, offer)| offer.step_name.clone()),
        agent_name: first.and_then(|(_, offer)| offer.agent_name.clone()),
        agent_content: step.and_then(|step| persona(definition, step)),
        description: first.map(|(_, offer)| offer.description.clone()),
        instructions: first.map(|(_, offer)| offer.instructions.clone()),
        kind: first.map(|(_, offer)| offer.kind.clone()),
        input: first.and_then(|(_, offer)| offer.input.clone()),
        example: first.and_then(|(_, offer)| offer.example.clone()),
        output_schema: first.and_then(|(_, offer)| offer.output_schema.clone()),
        progress: first.map(|(position, _)| progress(*position, execution)),
        new_token: first.map(|(_, offer)| offer.continuation_token.clone()),
        expires_at: first.map(|(_, offer)| offer.expires_at.clone()),
        previous: first.map_or_else(Vec::new, |(position, _)| before(subject, *position)),
        message: message(subject, row, state, failure, &ready, &open_steps),
        new_tokens: without_first_instructions(ready),
        open_steps,
        final_output,
        final_output_truncated: truncated.unwrap_or(false),
        final_output_error: execution.final_output_faults().to_vec(),
        failure: failure.map(Into::into),
        replayed,
    }
}

/// The offers; what the first one is told to do stands in the singular fields.
fn without_first_instructions(mut ready: Vec<(usize, Offer)>) -> Vec<Offer> {
    if let Some((_, first)) = ready.first_mut() {
        first.instructions.clear();
    }
    ready.into_iter().map(|(_, offer)| offer).collect()
}

fn before(subject: &Subject<'_>, position: usize) -> Vec<Previous> {
    previous(subject, position, limits::PREVIOUS_BYTES_MAX)
}

/// What a reply shows already: each persona is copied into it once, and so is what the same steps decided.
#[derive(Default)]
pub(super) struct Shown<'a> {
    agents: HashSet<Option<&'a AgentName>>,
    dependencies: HashSet<&'a [usize]>,
}

impl<'a> Shown<'a> {
    /// Notes that the step is shown: whether its persona, and what it depends on, were not shown yet.
    pub(super) fn note(&mut self, definition: &'a Definition, position: usize) -> (bool, bool) {
        let agent = definition_step(definition, position).and_then(Step::agent);
        let dependencies = definition.graph().dependencies(position);
        (
            self.agents.insert(agent),
            self.dependencies.insert(dependencies),
        )
    }
}

/// The state after `row`: a call that answers with a row finds the execution running, and may end it.
fn ending(row: &Row) -> (State, Option<&Failure>) {
    let change = row.events.iter().rev().find_map(|event| match event {
        Event::StateChanged { to, failure, .. } => Some((*to, failure.as_ref())),
        _ => None,
    });
    change.unwrap_or((State::Running, None))
}

fn ready(subject: &Subject<'_>, row: &Row) -> Vec<(usize, Offer)> {
    let mut shown = Shown::default();
    let mut offers: Vec<_> = Vec::new();
    // A step further down may have been passed before, and so have let one above it begin.
    let mut turns = given(subject.definition, subject.execution, row);
    turns.sort_by_key(|turn| turn.position);
    for turn in turns {
        // What belongs to the first one stands in the singular fields.
        if offers.is_empty() {
            shown.note(subject.definition, turn.position);
        }
        let offer = offer(subject, &turn, &mut shown);
        offers.extend(offer.map(|offer| (turn.position, offer)));
    }
    offers
}

/// The open steps with their live tokens. What was decided before them was shown when they became ready.
fn open_turns(subject: &Subject<'_>) -> Vec<Offer> {
    let mut shown = Shown::default();
    let open = subject.execution.open();
    let turns =
        open.filter_map(|(position, _, visit)| Some(Turn::of(position, visit, visit.grant()?)));
    let mut open: Vec<_> = turns
        .filter_map(|turn| {
            let dependencies = subject.definition.graph().dependencies(turn.position);
            shown.dependencies.insert(dependencies);
            offer(subject, &turn, &mut shown)
        })
        .collect();
    // The next one to be done comes with its persona; those of the others were in the reply that offered them,
    // and are in `current_step`.
    for offer in open.iter_mut().skip(1) {
        offer.agent_content = None;
    }
    open
}

fn offer<'a>(subject: &Subject<'a>, turn: &Turn, shown: &mut Shown<'a>) -> Option<Offer> {
    let step = definition_step(subject.definition, turn.position)?;
    let (new_agent, new_dependencies) = shown.note(subject.definition, turn.position);
    let previous = if new_dependencies {
        before(subject, turn.position)
    } else {
        Vec::new()
    };
    let Task {
        instructions,
        input,
        example,
        output_schema,
    } = task(subject, turn)?;
    Some(Offer {
        agent_content: persona(subject.definition, step).filter(|_| new_agent),
        instructions,
        input,
        example,
        output_schema,
        previous,
        ..bare(subject, step, turn)
    })
}

/// Who the model is in a step; `None` where it is nobody in particular.
pub(super) fn persona(definition: &Definition, step: &Step) -> Option<String> {
    step.agent().map(|_| definition.persona(step).to_owned())
}

/// An open step with what it takes to finish it, and no more.
pub(super) fn offer_brief(subject: &Subject<'_>, position: usize, visit: &Visit) -> Option<Offer> {
    let step = definition_step(subject.definition, position)?;
    let mut offer = bare(subject, step, &Turn::of(position, visit, visit.grant()?));
    offer.description = brief_text(&offer.description, 200);
    Some(offer)
}

/// At most `chars` characters, and a mark where some were left out.
pub(super) fn brief_text(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn bare(subject: &Subject<'_>, step: &Step, turn: &Turn) -> Offer {
    Offer {
        step_name: step.id.to_string(),
        kind: step.acting().kind.as_str().into(),
        agent_name: step.agent().map(ToString::to_string),
        description: step.description.clone(),
        continuation_token: token(subject.execution, step, turn.grant),
        expires_at: expiry(turn.grant.issued_at, subject.ttl),
        agent_content: None,
        instructions: String::new(),
        input: None,
        output_schema: None,
        example: None,
        previous: Vec::new(),
        visit: turn.visit,
        attempt: turn.attempt,
        item: turn.item,
    }
}

pub(super) fn expiry(issued_at: Timestamp, ttl: Duration) -> String {
    issued_at.after(ttl).to_string()
}

fn message(
    subject: &Subject<'_>,
    row: &Row,
    state: State,
    failure: Option<&Failure>,
    ready: &[(usize, Offer)],
    open: &[Offer],
) -> String {
    let started = row.events.iter().find_map(|event| match event {
        Event::Created(created) => Some(&created.workflow),
        _ => None,
    });
    let first = ready.first().map(|(_, offer)| offer);
    match (started, first, state) {
        (Some(workflow), Some(_), _) => {
            format!("Workflow '{workflow}' started. {}", now_ready(ready, ""))
        }
        (None, Some(_), _) => now_ready(ready, " Review agent_content and continue."),
        (_, None, State::Completed) => completed(subject.execution),
        (_, None, State::Failed) => {
            let why = failure.map_or("", |failure| failure.message.as_str());
            match failure.and_then(|failure| failure.step.as_ref()) {
                Some(step) => format!("Step '{step}' failed: {why}. The workflow has failed."),
                None => format!("The workflow has failed: {why}."),
            }
        }
        (_, None, State::Paused) => asked_of_people(subject),
        (_, None, _) if open.is_empty() => nothing_to_do(subject.execution),
        (_, None, _) => {
            let names: Vec<_> = open
                .iter()
                .map(|offer| format!("'{}'", offer.step_name))
                .collect();
            format!(
                "Step '{}' recorded. Still open: {}.",
                closed(row),
                names.join(", ")
            )
        }
    }
}

/// Where no step is a model's: what is waited for, and the call that leads on.
fn nothing_to_do(execution: &Execution) -> String {
    let (id, revision) = (execution.id(), execution.revision());
    let wait = wait_call(id, revision);
    let signals = signals_awaited(execution);
    let Some(first) = signals.first() else {
        return format!(
            "Nothing is to be done for a model now: the execution goes on by itself. {wait}: it answers when that is done"
        );
    };
    let names: Vec<_> = signals.iter().map(|name| format!("'{name}'")).collect();
    format!(
        "Nothing is to be done for a model now: the execution waits for the signal {}. Whoever knows that it happened calls \
         execution.signal with execution_id '{id}' and signal '{first}'. {wait}: it answers when that is done",
        names.join(", ")
    )
}

fn completed(execution: &Execution) -> String {
    let mut text = "Workflow completed successfully".to_owned();
    for fault in execution.final_output_faults() {
        let part = fault.part.as_deref().unwrap_or("final_output");
        text.extend([". `", part, "` could not be computed: ", &fault.message]);
    }
    text
}

fn now_ready(ready: &[(usize, Offer)], then: &str) -> String {
    let names: Vec<_> = ready
        .iter()
        .map(|(_, offer)| format!("'{}'", offer.step_name))
        .collect();
    match names.as_slice() {
        [only] => format!("Step {only} ready.{then}"),
        _ => format!(
            "Steps {} ready, each with its own token in new_tokens.",
            names.join(", ")
        ),
    }
}

fn closed(row: &Row) -> String {
    let by_call = |event: &Event| match event {
        Event::VisitClosed(closed) if closed.spent.is_some() => Some(closed.site.step.to_string()),
        _ => None,
    };
    row.events.iter().find_map(by_call).unwrap_or_default()
}
