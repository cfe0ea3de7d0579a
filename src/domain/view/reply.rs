//! The replies of `workflow.start` and `workflow.next_step`. A reply is a function of the journal row of its
//! transition, so a repeated call gets the same reply.

mod message;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    FailureView, InputsView, PreviousOutput, ViewContext, continuation_token, definition_step,
    format_progress,
    options::NextSteps,
    persona_of,
    previous::{deciding_predecessors, final_output, final_output_uri, previous_decisions},
    same_keys::{
        deserialize_known_entries, null_as_default, serialize_later_steps, serialize_steps,
    },
    task::{
        ModelTurn, ResultCall, TaskText, build_task, omit_persona, open_turns, remove_sources,
        step_description, turns_opened_by_row,
    },
    waits::{
        actions_for_people, format_child_call, format_parent_call, format_retry_call,
        format_wait_call, join_quoted_names, signals_awaited,
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
pub struct AdvanceReply {
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
    pub previous: Vec<PreviousOutput>,
    /// What the execution works on, where a step is to be done.
    #[serde(flatten)]
    pub inputs: Option<InputsView>,
    /// Every step that this call made ready, each with its own token. What the first one is to do stands in the fields above,
    /// and is null in the list.
    #[serde(serialize_with = "serialize_later_steps")]
    pub new_tokens: Vec<ReadyStep>,
    /// The steps that are open, where this call made none ready.
    #[serde(serialize_with = "serialize_steps", default, skip_serializing_if = "Vec::is_empty")]
    pub open_steps: Vec<ReadyStep>,
    /// What may be done next: what steps offer, and going on; the highest priority first.
    #[serde(
        rename = "nextStepOptions",
        default,
        deserialize_with = "deserialize_known_entries",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub next_step_options: Vec<StepOption>,
    /// What was to be offered and could not be, and why.
    #[serde(rename = "optionsLeftOut", default, skip_serializing_if = "Vec::is_empty")]
    pub options_left_out: Vec<String>,
    /// What a completed execution came to: the output of its last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// Whether the final output is shortened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub final_output_truncated: bool,
    /// Where the final output is read whole, where it is shortened. `tools/list` leaves it out of output schemas, whose size
    /// has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub final_output_uri: Option<String>,
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
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
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
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub instructions: String,
    /// What it is, and which turn of it.
    #[serde(flatten)]
    pub step: StepView,
    /// JSON Schema of the output, where the step declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the steps that it depends on decided, in short; left out where this reply shows it already.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<PreviousOutput>,
}

/// A step as every reply that offers it shows it: its kind, what it works on, and which turn of it this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Its kind: agent, guidance or tool.
    pub kind: String,
    /// Its title, where the step has one. `tools/list` leaves it out of output schemas, whose size has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub title: Option<String>,
    /// JSON Schema of `input`, where the step declares one. `tools/list` leaves it out of output schemas, whose size has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub input_schema: Option<Value>,
    /// What it works on, where the step says so in `with`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// An output that would be accepted, where the step gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// Which visit of the step this is, where it is not the first.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub visit: u32,
    /// Which attempt of the visit this is, where it is not the first.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub attempt: u32,
    /// Which item of a fan-out it is, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// How many different outputs were refused in this visit.
    #[serde(skip)]
    #[schemars(skip)]
    pub refused_count: usize,
    /// The text of its task, from which the instructions are made.
    #[serde(skip)]
    #[schemars(skip)]
    pub text: Option<Arc<TaskText>>,
    /// How many items the fan-out has; said to people alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub items: Option<usize>,
    /// Whether the execution goes on without it; said to people alone.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    #[schemars(skip)]
    pub optional: bool,
    /// Whether an error of it ends the execution as failed; said to people alone.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    #[schemars(skip)]
    pub ends_on_error: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

const fn one() -> u32 {
    1
}

/// The reply to the call that made the transition `row`. The execution of `context` is the state after that transition.
pub fn build_advance_reply(context: &ViewContext<'_>, row: &Row, replayed: bool) -> AdvanceReply {
    let turns = turns_opened_by_row(context, row);
    let resent = turns.iter().filter(|turn| was_item_sent(context, turn));
    let resent: BTreeSet<_> = resent.map(|turn| turn.position).collect();
    let is_first_resent = turns.first().is_some_and(|turn| resent.contains(&turn.position));
    let inputs_max =
        if is_first_resent { limits::SENT_ONCE_BYTES_MIN } else { limits::INPUTS_SHOWN_BYTES_MAX };
    let ready = build_ready_steps(context, &turns, shown_by_first_turn(context, &turns, resent));
    build_reply(context, row, ready, replayed, inputs_max)
}

/// Whether an item of the same `foreach` was handed out before the last transition. The client then has the text that
/// all items share, and the reply leaves it out.
fn was_item_sent(context: &ViewContext<'_>, turn: &ModelTurn<'_>) -> bool {
    let execution = context.execution;
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
pub fn build_current_reply(context: &ViewContext<'_>, row: &Row) -> AdvanceReply {
    let mut turns = turns_opened_by_row(context, row);
    if !turns.is_empty() && context.execution.state() == State::Running {
        let is_new = |turn: &ModelTurn<'_>| !turns.iter().any(|ready| ready.grant == turn.grant);
        let other_turns: Vec<_> = open_turns(context).filter(is_new).collect();
        turns.extend(other_turns);
    }
    let ready = steps_after_the_first(context, &turns);
    build_reply(context, row, ready, false, limits::INPUTS_SHOWN_BYTES_MAX)
}

fn build_reply(
    context: &ViewContext<'_>,
    row: &Row,
    ready: Vec<ReadyStep>,
    replayed: bool,
    inputs_max: usize,
) -> AdvanceReply {
    let ViewContext { definition, execution, .. } = *context;
    let state = execution.state();
    let open_steps = if ready.is_empty() && state == State::Running {
        list_open_steps(context)
    } else {
        Vec::new()
    };
    let (final_output, truncated) = final_output(context, state).unzip();
    let failure = execution.failure.as_ref().map(FailureView::from);
    let first = ready.first();
    let next_step = first.or(open_steps.first());
    let next_steps = NextSteps::collect_options(
        context,
        next_step.map(|step| (step.step_name.as_str(), step.continuation_token.as_str())),
    );
    let first_field = |field: fn(&ReadyStep) -> &String| first.map(|step| field(step).clone());
    AdvanceReply {
        success: true,
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        workflow_state: state.as_str().into(),
        revision: row.revision,
        step_name: first_field(|step| &step.step_name),
        agent_name: first.and_then(|step| step.agent_name.clone()),
        agent_content: first.and_then(|step| persona_of(definition, &step.step_name)),
        description: first_field(|step| &step.description).filter(|text| !text.is_empty()),
        instructions: first_field(|step| &step.instructions),
        step: first.map(|first| first.step.clone()),
        output_schema: first.and_then(|step| step.output_schema.clone()),
        progress: first_field(|step| &step.progress),
        new_token: first_field(|step| &step.continuation_token),
        expires_at: first_field(|step| &step.expires_at),
        previous: first.map_or_else(Vec::new, |step| step.previous.clone()),
        inputs: next_step.and_then(|_| InputsView::from_execution(context, inputs_max)),
        message: message::build_reply_message(context, row, &ready, &open_steps)
            + message::next_options_hint(&next_steps.options),
        new_tokens: ready,
        open_steps,
        next_step_options: next_steps.options,
        options_left_out: next_steps.omitted,
        final_output,
        final_output_truncated: truncated == Some(true),
        final_output_uri: truncated
            .filter(|is_cut| *is_cut)
            .map(|_| final_output_uri(execution.id())),
        final_output_error: execution.final_output_faults.clone(),
        failure: failure.map(|failure| failure.with_command(definition)),
        warnings: Vec::new(),
        replayed,
    }
}

/// The last sentence of a message in a reply that contains a persona.
const REVIEW_PERSONA_HINT: &str = " Review agent_content and continue.";

impl AdvanceReply {
    /// Omits the persona if `known_agents` contains its agent.
    pub fn omit_known_persona(&mut self, known_agents: &[String]) {
        let is_known = |agent: &String| known_agents.contains(agent);
        if self.agent_name.as_ref().is_some_and(is_known) {
            self.agent_content = None;
            self.message = self.message.replace(REVIEW_PERSONA_HINT, "");
            omit_persona(&mut self.instructions);
        }
    }
}

/// The open steps with their live tokens. The outputs before them are left out: the client got them when the steps
/// became ready.
fn list_open_steps(context: &ViewContext<'_>) -> Vec<ReadyStep> {
    let turns: Vec<_> = open_turns(context).collect();
    let mut shown = ShownContext::default();
    for turn in &turns {
        shown.mark_predecessors_shown(context.definition, turn.position);
        shown.listed_resources.insert(turn.position);
    }
    build_ready_steps(context, &turns, shown)
}

/// Parts that the reply contains already, and that later entries therefore omit.
#[derive(Default)]
struct ShownContext<'a> {
    agents: BTreeSet<&'a AgentName>,
    predecessors: BTreeSet<usize>,
    /// Steps of which an earlier item's instructions already list the resources to read.
    listed_resources: BTreeSet<usize>,
}

impl ShownContext<'_> {
    /// Marks the outputs that precede this step as shown, and returns those that were not shown before.
    fn mark_predecessors_shown(
        &mut self,
        definition: &Definition,
        position: usize,
    ) -> BTreeSet<usize> {
        let mut predecessors = deciding_predecessors(definition, position);
        predecessors.retain(|at| self.predecessors.insert(*at));
        predecessors
    }
}

/// The entries for these turns, for a reply whose singular fields show the first turn with its persona.
pub(super) fn steps_after_the_first(
    context: &ViewContext<'_>,
    turns: &[ModelTurn<'_>],
) -> Vec<ReadyStep> {
    let shown = shown_by_first_turn(context, turns, BTreeSet::new());
    build_ready_steps(context, turns, shown)
}

/// The state after the singular fields. `listed_resources` are the steps whose resources the client got with an earlier item.
fn shown_by_first_turn<'a>(
    context: &ViewContext<'a>,
    turns: &[ModelTurn<'_>],
    listed_resources: BTreeSet<usize>,
) -> ShownContext<'a> {
    let first = turns.first().map(|turn| turn.position);
    let first = first.and_then(|position| definition_step(context.definition, position));
    ShownContext {
        agents: first.and_then(Step::agent_name).into_iter().collect(),
        listed_resources,
        ..ShownContext::default()
    }
}

fn build_ready_steps<'a>(
    context: &ViewContext<'a>,
    turns: &[ModelTurn<'_>],
    mut shown: ShownContext<'a>,
) -> Vec<ReadyStep> {
    let offered = turns.iter().filter_map(|turn| build_ready_step(context, turn, &mut shown));
    offered.collect()
}

fn build_ready_step<'a>(
    context: &ViewContext<'a>,
    turn: &ModelTurn<'_>,
    shown: &mut ShownContext<'a>,
) -> Option<ReadyStep> {
    let step = definition_step(context.definition, turn.position)?;
    let task = build_task(context, turn)?;
    let agent = step.agent_name().filter(|agent| shown.agents.insert(agent));
    let predecessors = shown.mark_predecessors_shown(context.definition, turn.position);
    let mut previous = previous_decisions(context, predecessors, limits::PREVIOUS_BYTES_MAX);
    let mut instructions = task.text.format_instructions(&ResultCall::next_step());
    if !shown.listed_resources.insert(turn.position) && turn.visit.item.is_some() {
        instructions = remove_sources(context, turn, &instructions);
        let linked = previous.into_iter();
        let linked = linked.map(|one| one.with_output_address(context.execution));
        previous = linked.collect();
    }
    let brief = step_without_task(context, step, turn);
    Some(ReadyStep {
        step: StepView {
            input_schema: task.input_schema,
            input: task.input,
            example: task.example,
            text: Some(task.text),
            ..brief.step
        },
        agent_uri: agent.map(|agent| agent_uri(context.execution, agent)),
        instructions,
        output_schema: task.output_schema,
        previous,
        ..brief
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
    context: &ViewContext<'_>,
    position: usize,
    visit: &Visit,
) -> Option<ReadyStep> {
    let step = definition_step(context.definition, position)?;
    let mut step = step_without_task(context, step, &ModelTurn::from_visit(position, visit)?);
    step.description = truncate_to_chars(&step.description, 200).into_owned();
    Some(step)
}

fn step_without_task(context: &ViewContext<'_>, step: &Step, turn: &ModelTurn<'_>) -> ReadyStep {
    ReadyStep {
        step_name: step.id.to_string(),
        step: StepView {
            kind: step.acting_step().kind.as_str().into(),
            title: context.execution.title(&turn.visit.visit_id(&step.id)).map(str::to_owned),
            input_schema: None,
            input: None,
            example: None,
            visit: turn.visit.number,
            attempt: turn.visit.attempt,
            item: turn.visit.item,
            refused_count: turn.visit.refused.len(),
            text: None,
            items: None,
            optional: false,
            ends_on_error: false,
        },
        agent_name: step.agent_name().map(ToString::to_string),
        description: step_description(context, step, turn),
        progress: format_progress(turn.position, context.execution),
        continuation_token: continuation_token(context.execution, step, turn.grant),
        expires_at: format_expiry(turn.grant.issued_at, context.ttl),
        agent_uri: None,
        instructions: String::new(),
        output_schema: None,
        previous: Vec::new(),
    }
}

pub(super) fn format_expiry(issued_at: Timestamp, ttl: Duration) -> String {
    issued_at.plus(ttl).to_string()
}
