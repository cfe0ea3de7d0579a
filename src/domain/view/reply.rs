//! What `workflow.start` and `workflow.next_step` answer. A reply is built from the journal row of its
//! transition, so the same call gets the same answer whenever it is repeated.

use std::{collections::HashSet, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{definition_step, instructions, progress, token};
use crate::{
    clock::Timestamp,
    domain::{
        definition::{Definition, Step},
        event::{Awaiting, Event, Failure, Outcome, Row},
        execution::{Execution, State},
        id::AgentName,
        token::Grant,
    },
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
    /// Every step that this call made ready, each with its own token.
    pub new_tokens: Vec<Offer>,
    /// The steps that are open, where this call made none ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_steps: Vec<Offer>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Offer {
    /// The step.
    pub step_name: String,
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
    /// What to do with it and how to come back.
    pub instructions: String,
    /// JSON Schema of the output, where the step declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
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
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code.clone(),
            message: failure.message.clone(),
            step_name: failure.step.as_ref().map(ToString::to_string),
        }
    }
}

/// What the transition of `row` answers. `execution` may have moved on since.
pub fn advanced(
    definition: &Definition,
    execution: &Execution,
    row: &Row,
    ttl: Duration,
    replayed: bool,
) -> Advanced {
    let ready = ready(definition, execution, row, ttl);
    let (state, failure) = ending(row);
    let open_steps = if ready.is_empty() && state == State::Running {
        open_at(definition, execution, row.revision, ttl)
    } else {
        Vec::new()
    };
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
        agent_content: step.map(|step| definition.persona(step).to_owned()),
        description: first.map(|(_, offer)| offer.description.clone()),
        instructions: first.map(|(_, offer)| offer.instructions.clone()),
        output_schema: first.and_then(|(_, offer)| offer.output_schema.clone()),
        progress: first.map(|(position, _)| progress(*position, execution)),
        new_token: first.map(|(_, offer)| offer.continuation_token.clone()),
        expires_at: first.map(|(_, offer)| offer.expires_at.clone()),
        message: message(
            row,
            state,
            failure,
            first.map(|(_, offer)| offer),
            &open_steps,
        ),
        new_tokens: ready.into_iter().map(|(_, offer)| offer).collect(),
        open_steps,
        failure: failure.map(Into::into),
        replayed,
    }
}

/// Agents whose personas a reply shows already: each is copied into it once.
type Shown<'a> = HashSet<Option<&'a AgentName>>;

/// The state after `row`: a call that answers with a row finds the execution running, and may end it.
fn ending(row: &Row) -> (State, Option<&Failure>) {
    let change = row.events.iter().rev().find_map(|event| match event {
        Event::StateChanged { to, failure, .. } => Some((*to, failure.as_ref())),
        _ => None,
    });
    change.unwrap_or((State::Running, None))
}

fn ready(
    definition: &Definition,
    execution: &Execution,
    row: &Row,
    ttl: Duration,
) -> Vec<(usize, Offer)> {
    let opened = row.events.iter().filter_map(|event| match event {
        Event::VisitOpened {
            step,
            awaiting: Awaiting::Model(grant),
            ..
        } => Some((definition.graph().position(step)?, *grant)),
        _ => None,
    });
    let mut shown = Shown::new();
    let mut offers: Vec<_> = Vec::new();
    for (position, grant) in opened {
        // The first one's persona stands in the singular fields.
        if offers.is_empty() {
            shown.insert(definition_step(definition, position).and_then(Step::agent));
        }
        let offer = offer(definition, execution, position, grant, ttl, &mut shown);
        offers.extend(offer.map(|offer| (position, offer)));
    }
    offers
}

/// The steps that were open right after `revision`, with the tokens that were live then.
fn open_at(
    definition: &Definition,
    execution: &Execution,
    revision: u64,
    ttl: Duration,
) -> Vec<Offer> {
    let mut shown = Shown::new();
    let steps = execution.steps().iter().enumerate();
    steps
        .filter_map(|(position, step)| {
            let grant = step
                .visits
                .iter()
                .rev()
                .find_map(|visit| visit.token_at(revision))?;
            offer(definition, execution, position, grant, ttl, &mut shown)
        })
        .collect()
}

fn offer<'a>(
    definition: &'a Definition,
    execution: &Execution,
    position: usize,
    grant: Grant,
    ttl: Duration,
    shown: &mut Shown<'a>,
) -> Option<Offer> {
    let step = definition_step(definition, position)?;
    let fresh = shown.insert(step.agent());
    Some(Offer {
        step_name: step.id.to_string(),
        agent_name: step.agent().map(ToString::to_string),
        description: step.description.clone(),
        continuation_token: token(execution, step, grant),
        expires_at: expiry(grant.issued_at, ttl),
        agent_content: fresh.then(|| definition.persona(step).to_owned()),
        instructions: instructions(execution, step),
        output_schema: step.result.clone(),
    })
}

pub(super) fn expiry(issued_at: Timestamp, ttl: Duration) -> String {
    issued_at.after(ttl).to_string()
}

fn message(
    row: &Row,
    state: State,
    failure: Option<&Failure>,
    first: Option<&Offer>,
    open: &[Offer],
) -> String {
    let started = row.events.iter().find_map(|event| match event {
        Event::Created(created) => Some(&created.workflow),
        _ => None,
    });
    match (started, first, state) {
        (Some(workflow), Some(step), _) => {
            format!(
                "Workflow '{workflow}' started. Step '{}' ready.",
                step.step_name
            )
        }
        (None, Some(step), _) => {
            format!(
                "Step '{}' ready. Review agent_content and continue.",
                step.step_name
            )
        }
        (_, None, State::Completed) => "Workflow completed successfully".into(),
        (_, None, State::Failed) => {
            let why = failure.map_or("", |failure| failure.message.as_str());
            let step = failure
                .and_then(|failure| failure.step.as_ref())
                .map(ToString::to_string);
            format!(
                "Step '{}' failed: {why}. The workflow has failed.",
                step.unwrap_or_default()
            )
        }
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

fn closed(row: &Row) -> String {
    let closed = row.events.iter().find_map(|event| match event {
        Event::VisitClosed {
            step,
            outcome: Outcome::Completed(_),
            ..
        } => Some(step.to_string()),
        _ => None,
    });
    closed.unwrap_or_default()
}
