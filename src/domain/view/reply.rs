//! The replies of `workflow.start` and `workflow.next_step`. A reply is a function of the journal row of its
//! transition, so a repeated call gets the same reply.

mod message;

use std::{collections::BTreeSet, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    FailureView, InputsView, Previous, Subject,
    alike::{after_the_first, alike, known, or_default},
    continuation_token, definition_step, format_progress,
    options::NextSteps,
    persona_of,
    previous::{deciding_predecessors, final_output, previous_decisions},
    task::{
        Turn, build_task, leave_out_persona, open_turns, step_description, turns_opened_by_row,
        without_sources,
    },
    waits::{
        actions_for_people, join_quoted_names, read_child_call, read_parent_call, signals_awaited,
        wait_call,
    },
};
use crate::{
    clock::Timestamp,
    definition::{Definition, Step},
    event::{Event, OutputFailure, Row},
    execution::{Execution, Visit},
    id::AgentName,
    limits,
    offer::{CONTINUE_OPTION_ID, StepOption},
    state::State,
    truncate::truncate_to_chars,
    uri,
};

/// The answer of `workflow.start` and `workflow.next_step`. The singular fields show the first
/// step that this call made ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// What it is, and which turn of it.
    #[serde(flatten)]
    pub step: Option<StepView>,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Previous>,
    /// What the execution works on, where a step is to be done.
    #[serde(flatten)]
    pub inputs: Option<InputsView>,
    /// Every step that this call made ready, each with its own token. What the first one is to do stands in the fields above,
    /// and is null in the list.
    #[serde(serialize_with = "after_the_first")]
    pub new_tokens: Vec<ReadyStep>,
    /// The steps that are open, where this call made none ready.
    #[serde(serialize_with = "alike", default, skip_serializing_if = "Vec::is_empty")]
    pub open_steps: Vec<ReadyStep>,
    /// What may be done next: what steps offer, and going on; the highest priority first.
    #[serde(
        rename = "nextStepOptions",
        default,
        deserialize_with = "known",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub next_step_options: Vec<StepOption>,
    /// What was to be offered and could not be, and why.
    #[serde(rename = "optionsLeftOut", default, skip_serializing_if = "Vec::is_empty")]
    pub options_left_out: Vec<String>,
    /// What a completed execution came to: the output of its last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// Whether the final output is shortened; `step_history` has it whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub final_output_truncated: bool,
    /// What of the final output could not be computed: null stands there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub final_output_error: Vec<OutputFailure>,
    /// Why the execution failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// What happened, in a sentence.
    pub message: String,
    /// What the caller should tell their user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// True where this call was answered before and this is that answer again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// A step that is ready, and the right to finish it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadyStep {
    /// The step.
    pub step_name: String,
    /// Whose persona to take.
    pub agent_name: Option<String>,
    /// What the step is for.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The step's place among all, as `1/3`.
    pub progress: String,
    /// The token that finishes it.
    pub continuation_token: String,
    /// When that token expires.
    pub expires_at: String,
    /// Where its persona is read; left out where this reply has the persona, or the address, already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_uri: Option<String>,
    /// What to do with it and how to come back.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// What it is, and which turn of it.
    #[serde(flatten)]
    pub step: StepView,
    /// JSON Schema of the output, where the step declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the steps that it depends on decided, in short; left out where this reply shows it already.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Previous>,
}

/// A step as every reply that offers it shows it: its kind, what it works on, and which turn of it this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Its kind: agent, guidance or tool.
    pub kind: String,
    /// What it works on, where the step says so in `with`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// An output that would be accepted, where the step gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// Which visit of the step this is, where it is not the first.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub visit: u32,
    /// Which attempt of the visit this is, where it is not the first.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// Which item of a fan-out it is, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// How many items the fan-out has; said to people alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub items: Option<usize>,
    /// Whether the execution goes on without it; said to people alone.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub optional: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(count: &u32) -> bool {
    *count == 1
}

const fn first() -> u32 {
    1
}

/// The reply to the call that made the transition `row`. The execution of `subject` is the state after that transition.
pub fn advanced_reply(subject: &Subject<'_>, row: &Row, replayed: bool) -> Advanced {
    let turns = turns_opened_by_row(subject, row);
    let later = turns.iter().filter(|turn| was_item_sent(subject, turn));
    let later: BTreeSet<_> = later.map(|turn| turn.position).collect();
    let is_first_later = turns.first().is_some_and(|turn| later.contains(&turn.position));
    let inputs_max =
        if is_first_later { limits::SENT_ONCE_BYTES_MIN } else { limits::INPUTS_SHOWN_BYTES_MAX };
    let ready = ready_steps(subject, &turns, shown_by_first_turn(subject, &turns, later));
    build_reply(subject, row, ready, replayed, inputs_max)
}

/// Whether an item of the same `foreach` was handed out before the last transition. The client then has the text that
/// all items share, and the reply leaves it out.
fn was_item_sent(subject: &Subject<'_>, turn: &Turn<'_>) -> bool {
    let execution = subject.execution;
    let step = execution.steps().get(turn.position);
    let Some(step) = step.filter(|_| turn.visit.item.is_some()) else {
        return false;
    };
    // An item that was skipped closes in the transition that opened it, so it was never handed out.
    let was_handed_out = |item: &Visit| {
        let closed = item.closed.as_ref();
        item.opened_revision < execution.revision()
            && closed.is_none_or(|closed| closed.revision > item.opened_revision)
    };
    step.items.iter().any(was_handed_out)
}

/// The state of an execution after its last `row`: the steps that the row made ready come first, then all other open
/// steps.
pub fn current_state_reply(subject: &Subject<'_>, row: &Row) -> Advanced {
    let mut turns = turns_opened_by_row(subject, row);
    if !turns.is_empty() && subject.execution.state() == State::Running {
        let is_new = |turn: &Turn<'_>| !turns.iter().any(|ready| ready.grant == turn.grant);
        let others: Vec<_> = open_turns(subject).filter(is_new).collect();
        turns.extend(others);
    }
    let ready = steps_after_the_first(subject, &turns);
    build_reply(subject, row, ready, false, limits::INPUTS_SHOWN_BYTES_MAX)
}

fn build_reply(
    subject: &Subject<'_>,
    row: &Row,
    ready: Vec<ReadyStep>,
    replayed: bool,
    inputs_max: usize,
) -> Advanced {
    let Subject { definition, execution, .. } = *subject;
    let state = execution.state();
    let open_steps = if ready.is_empty() && state == State::Running {
        list_open_steps(subject)
    } else {
        Vec::new()
    };
    let (final_output, truncated) = final_output(subject, state).unzip();
    let first = ready.first();
    let onward = first.or(open_steps.first());
    let next = NextSteps::collect_options(
        subject,
        onward.map(|step| (step.step_name.as_str(), step.continuation_token.as_str())),
    );
    let of_first = |field: fn(&ReadyStep) -> &String| first.map(|step| field(step).clone());
    Advanced {
        success: true,
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        workflow_state: state.as_str().into(),
        revision: row.revision,
        step_name: of_first(|step| &step.step_name),
        agent_name: first.and_then(|step| step.agent_name.clone()),
        agent_content: first.and_then(|step| persona_of(definition, &step.step_name)),
        description: of_first(|step| &step.description).filter(|text| !text.is_empty()),
        instructions: of_first(|step| &step.instructions),
        step: first.map(|first| first.step.clone()),
        output_schema: first.and_then(|step| step.output_schema.clone()),
        progress: of_first(|step| &step.progress),
        new_token: of_first(|step| &step.continuation_token),
        expires_at: of_first(|step| &step.expires_at),
        previous: first.map_or_else(Vec::new, |step| step.previous.clone()),
        inputs: onward.and_then(|_| InputsView::of_execution(subject, inputs_max)),
        message: message::reply_message(subject, row, &ready, &open_steps)
            + message::next_options_hint(&next.options),
        new_tokens: ready,
        open_steps,
        next_step_options: next.options,
        options_left_out: next.left_out,
        final_output,
        final_output_truncated: truncated.unwrap_or(false),
        final_output_error: execution.final_output_faults.clone(),
        failure: execution.failure.as_ref().map(Into::into),
        warnings: Vec::new(),
        replayed,
    }
}

/// The last sentence of a message in a reply that contains a persona.
const REVIEW_PERSONA_HINT: &str = " Review agent_content and continue.";

impl Advanced {
    /// Omits the persona if `known_agents` contains its agent.
    pub fn leave_out_known(&mut self, known_agents: &[String]) {
        let knows = |agent: &String| known_agents.contains(agent);
        if self.agent_name.as_ref().is_some_and(knows) {
            self.agent_content = None;
            self.message = self.message.replace(REVIEW_PERSONA_HINT, "");
            leave_out_persona(&mut self.instructions);
        }
    }
}

/// The open steps with their live tokens. The outputs before them are left out: the client got them when the steps
/// became ready.
fn list_open_steps(subject: &Subject<'_>) -> Vec<ReadyStep> {
    let turns: Vec<_> = open_turns(subject).collect();
    let mut shown = AlreadyShown::default();
    for turn in &turns {
        shown.mark_predecessors_shown(subject.definition, turn.position);
        shown.read.insert(turn.position);
    }
    ready_steps(subject, &turns, shown)
}

/// Parts that the reply contains already, and that later entries therefore omit.
#[derive(Default)]
struct AlreadyShown<'a> {
    agents: BTreeSet<&'a AgentName>,
    decided: BTreeSet<usize>,
    /// Steps of which an earlier item's instructions already list the resources to read.
    read: BTreeSet<usize>,
}

impl AlreadyShown<'_> {
    /// Marks the outputs that precede this step as shown, and returns those that were not shown before.
    fn mark_predecessors_shown(
        &mut self,
        definition: &Definition,
        position: usize,
    ) -> BTreeSet<usize> {
        let mut before = deciding_predecessors(definition, position);
        before.retain(|at| self.decided.insert(*at));
        before
    }
}

/// The entries for these turns, for a reply whose singular fields show the first turn with its persona.
pub(super) fn steps_after_the_first(subject: &Subject<'_>, turns: &[Turn<'_>]) -> Vec<ReadyStep> {
    let shown = shown_by_first_turn(subject, turns, BTreeSet::new());
    ready_steps(subject, turns, shown)
}

/// The state after the singular fields. `read` are the steps whose resources the client got with an earlier item.
fn shown_by_first_turn<'a>(
    subject: &Subject<'a>,
    turns: &[Turn<'_>],
    read: BTreeSet<usize>,
) -> AlreadyShown<'a> {
    let first = turns.first().map(|turn| turn.position);
    let first = first.and_then(|position| definition_step(subject.definition, position));
    AlreadyShown {
        agents: first.and_then(Step::agent_name).into_iter().collect(),
        read,
        ..AlreadyShown::default()
    }
}

fn ready_steps<'a>(
    subject: &Subject<'a>,
    turns: &[Turn<'_>],
    mut shown: AlreadyShown<'a>,
) -> Vec<ReadyStep> {
    let offered = turns.iter().filter_map(|turn| ready_step(subject, turn, &mut shown));
    offered.collect()
}

fn ready_step<'a>(
    subject: &Subject<'a>,
    turn: &Turn<'_>,
    shown: &mut AlreadyShown<'a>,
) -> Option<ReadyStep> {
    let step = definition_step(subject.definition, turn.position)?;
    let task = build_task(subject, turn)?;
    let agent = step.agent_name().filter(|agent| shown.agents.insert(agent));
    let before = shown.mark_predecessors_shown(subject.definition, turn.position);
    let mut previous = previous_decisions(subject, before, limits::PREVIOUS_BYTES_MAX);
    let mut instructions = task.instructions;
    if !shown.read.insert(turn.position) && turn.visit.item.is_some() {
        instructions = without_sources(subject, turn, &instructions);
        let named = previous.into_iter();
        let named = named.map(|one| one.with_output_address(subject.execution));
        previous = named.collect();
    }
    let bare = step_without_task(subject, step, turn);
    Some(ReadyStep {
        step: StepView { input: task.input, example: task.example, ..bare.step },
        agent_uri: agent.map(|agent| agent_uri(subject.execution, agent)),
        instructions,
        output_schema: task.output_schema,
        previous,
        ..bare
    })
}

/// The address of the persona as this execution keeps it. The persona's file may have changed since.
fn agent_uri(execution: &Execution, agent: &AgentName) -> String {
    format!(
        "midex://workflow/agent/{}?execution_id={}",
        uri::encode_segment(agent.as_str()),
        uri::encode_segment(execution.id().as_str())
    )
}

/// An open step with its token and description, without instructions and input.
pub(super) fn ready_step_brief(
    subject: &Subject<'_>,
    position: usize,
    visit: &Visit,
) -> Option<ReadyStep> {
    let step = definition_step(subject.definition, position)?;
    let mut step = step_without_task(subject, step, &Turn::from_visit(position, visit)?);
    step.description = truncate_to_chars(&step.description, 200).into_owned();
    Some(step)
}

fn step_without_task(subject: &Subject<'_>, step: &Step, turn: &Turn<'_>) -> ReadyStep {
    ReadyStep {
        step_name: step.id.to_string(),
        step: StepView {
            kind: step.acting().kind.as_str().into(),
            input: None,
            example: None,
            visit: turn.visit.number,
            attempt: turn.visit.attempt,
            item: turn.visit.item,
            items: None,
            optional: false,
        },
        agent_name: step.agent_name().map(ToString::to_string),
        description: step_description(subject, step, turn),
        progress: format_progress(turn.position, subject.execution),
        continuation_token: continuation_token(subject.execution, step, turn.grant),
        expires_at: expiry(turn.grant.issued_at, subject.ttl),
        agent_uri: None,
        instructions: String::new(),
        output_schema: None,
        previous: Vec::new(),
    }
}

pub(super) fn expiry(issued_at: Timestamp, ttl: Duration) -> String {
    issued_at.after(ttl).to_string()
}
