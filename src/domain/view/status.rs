//! The views `current_step` and `workflow_status`, which show the current state of an execution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    FailureView, InputsView, Previous, ReadyStep, Subject, WaitView,
    alike::{after_the_first, known},
    definition_step,
    options::NextSteps,
    persona_of,
    previous::{decisions_before_step, final_output},
    reply::{StepView, steps_after_the_first},
    task::{self, open_turns},
    waits::{
        SignalView, actions_for_people, describe_wait, kept_signal_views, read_child_call,
        read_parent_call, wait_call, wait_views,
    },
};
use crate::{
    error::double_quotes,
    event::{BodyKind, OutputFailure, PauseReason, VisitId},
    execution::{Execution, StepStatus, UncompensatedVisit},
    id::ExecutionId,
    limits,
    offer::StepOption,
    truncate::{truncate_to_chars, truncate_value},
};

/// The resource `current_step`: what to do now, as whom, and the token to come back with.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CurrentStep {
    /// The execution.
    pub execution_id: String,
    /// Its workflow.
    pub workflow_name: String,
    /// Its state.
    pub workflow_state: String,
    /// The first open step; null where none is.
    pub current_step: Option<String>,
    /// Where that step stands.
    pub step_status: Option<String>,
    /// Whose persona to take.
    pub agent_name: Option<String>,
    /// The step's place among all, as `1/3`.
    pub progress: Option<String>,
    /// What it is, and which turn of it.
    #[serde(flatten)]
    pub step: Option<StepView>,
    /// The token that finishes the step.
    pub continuation_token: Option<String>,
    /// When that token expires.
    pub expires_at: Option<String>,
    /// The persona.
    pub agent_content: Option<String>,
    /// What the step is for.
    pub description: Option<String>,
    /// What to do with it and how to come back.
    pub instructions: Option<String>,
    /// JSON Schema of the output, where the step declares one.
    pub output_schema: Option<Value>,
    /// What the steps that it depends on decided, in short.
    pub previous: Vec<Previous>,
    /// What it was started with, where its inputs have changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs_at_start: Option<Value>,
    /// What is waited for that is not a model: time, signals, people, work of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitView>,
    /// Its inputs, as they stand.
    pub inputs: Option<Value>,
    /// Where they are read whole, where they are shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs_uri: Option<String>,
    /// Every open step, each with its own token. What the first one is to do stands in the fields above, and is null in the
    /// list.
    #[serde(serialize_with = "after_the_first")]
    pub ready_steps: Vec<ReadyStep>,
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
    /// The number of the execution's last transition.
    pub revision: u64,
    /// What a person is asked, and the command with which they answer, where an approval is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Where the execution stands, in a sentence, where no step is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl CurrentStep {
    /// The open steps with all that the reply says of each: in the list, the task of the first one is null.
    pub fn open_steps(&self) -> Vec<ReadyStep> {
        let mut steps = self.ready_steps.clone();
        if let Some(first) = steps.first_mut() {
            first.description = self.description.clone().unwrap_or_default();
            first.instructions = self.instructions.clone().unwrap_or_default();
            first.output_schema.clone_from(&self.output_schema);
            first.previous.clone_from(&self.previous);
            if let Some(step) = &self.step {
                first.step = step.clone();
            }
        }
        steps
    }

    /// Omits the persona if `known_agents` contains its agent.
    pub fn leave_out_known(&mut self, known_agents: &[String]) {
        let knows = |agent: &String| known_agents.contains(agent);
        if self.agent_name.as_ref().is_some_and(knows) {
            self.agent_content = None;
            task::leave_out_persona(&mut self.instructions);
        }
    }
}

/// The reader of a `current_step` view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// A model. It gets instructions with the calls to make, and its expired tokens are renewed.
    #[default]
    Model,
    /// A person who only looks. The view has the author's text without calls, and renews no expired token.
    Person,
    /// A person who does the step in a terminal. The view has the same text as for [`Reader::Person`], with renewed
    /// tokens.
    Worker,
}

/// The `current_step` view for a person.
pub fn current_step_for_people(subject: &Subject<'_>) -> CurrentStep {
    let mut current = current_step(subject);
    for (turn, step) in open_turns(subject).zip(&mut current.ready_steps) {
        step.instructions = task::task_text_for_people(subject, &turn).unwrap_or_default();
        let defined = definition_step(subject.definition, turn.position);
        step.step.optional = defined.is_some_and(|step| step.optional);
        step.description = defined.map_or_else(String::new, |step| step.description.clone());
        let fan_out = || subject.execution.steps().get(turn.position)?.visits.last();
        step.step.items = turn.visit.item.and_then(|_| fan_out()?.items_total());
        step.previous = decisions_before_step(subject, turn.position, limits::PREVIOUS_BYTES_MAX);
    }
    let first = current.ready_steps.first();
    current.instructions = first.map(|step| step.instructions.clone());
    current.description = first.map(|step| step.description.clone());
    current.previous = first.map_or_else(Vec::new, |step| step.previous.clone());
    current.step = first.map(|step| step.step.clone());
    let whole = InputsView::of_execution(subject, usize::MAX);
    (current.inputs, current.inputs_uri) = (whole.map(|view| view.inputs), None);
    current
}

/// The `current_step` view for a model.
pub fn current_step(subject: &Subject<'_>) -> CurrentStep {
    let execution = subject.execution;
    let turns: Vec<_> = open_turns(subject).collect();
    let ready_steps = steps_after_the_first(subject, &turns);
    let first = ready_steps.first();
    let next = NextSteps::collect_options(
        subject,
        first.map(|step| (step.step_name.as_str(), step.continuation_token.as_str())),
    );
    let message = describe_waiting_state(subject);
    let inputs = InputsView::of_execution(subject, limits::INPUTS_SHOWN_BYTES_MAX);
    let (inputs, inputs_uri) = inputs.map(|view| (view.inputs, view.inputs_uri)).unzip();
    let shown = |digest| {
        let value = subject.value(digest)?;
        Some(truncate_value(&value, limits::INPUTS_SHOWN_BYTES_MAX).0)
    };
    let of_first = |field: fn(&ReadyStep) -> &String| first.map(|step| field(step).clone());
    CurrentStep {
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        workflow_state: execution.state().as_str().into(),
        current_step: of_first(|step| &step.step_name),
        step_status: first.map(|_| StepStatus::Running.as_str().into()),
        agent_name: first.and_then(|step| step.agent_name.clone()),
        step: first.map(|first| first.step.clone()),
        progress: of_first(|step| &step.progress),
        continuation_token: of_first(|step| &step.continuation_token),
        expires_at: of_first(|step| &step.expires_at),
        agent_content: first.and_then(|step| persona_of(subject.definition, &step.step_name)),
        description: of_first(|step| &step.description),
        instructions: of_first(|step| &step.instructions),
        output_schema: first.and_then(|step| step.output_schema.clone()),
        previous: first.map_or_else(Vec::new, |step| step.previous.clone()),
        inputs,
        inputs_uri: inputs_uri.flatten(),
        inputs_at_start: execution
            .given
            .filter(|given| Some(*given) != execution.inputs())
            .and_then(shown),
        waits: wait_views(subject),
        next_step_options: next.options,
        options_left_out: next.left_out,
        revision: execution.revision(),
        asked: message.is_none().then(|| gate_questions_text(subject)).flatten(),
        message,
        ready_steps,
    }
}

/// The question of the open gates, with the command that answers them; `None` if no approval is pending.
pub(super) fn gate_questions_text(subject: &Subject<'_>) -> Option<String> {
    let waits = wait_views(subject);
    let asks: Vec<_> = waits.iter().filter_map(|wait| wait.gate.as_ref()).collect();
    if asks.is_empty() {
        return None;
    }
    let asks: Vec<_> = asks.iter().map(|gate| truncate_to_chars(&gate.ask, 200)).collect();
    let how = actions_for_people(subject);
    Some(format!("{how}. It asks: {}", asks.join(" ")))
}

/// A sentence on the state of the execution if it is paused, waits for something else than a model, or has ended.
/// `None` if it is running and a model holds a token.
fn describe_waiting_state(subject: &Subject<'_>) -> Option<String> {
    let execution = subject.execution;
    let why = execution.reason_suffix();
    if execution.pauses().iter().any(|reason| reason.is_lifted_by_resume()) {
        let id = double_quotes(execution.id().as_str());
        return Some(format!(
            "The execution is paused{why}. Call execution.resume with execution_id '{id}': once it may go on; its tokens stay valid"
        ));
    }
    if !execution.pauses().is_empty() {
        let names = execution.pause_names();
        let asked = actions_for_people(subject);
        return Some(format!("The execution is paused ({names}){why}. {asked}"));
    }
    let mut open = execution.open_visits();
    if open.any(|(_, _, visit)| visit.live_token().is_some()) {
        return None;
    }
    let waits: Vec<_> =
        execution.open_visits().filter_map(|(_, step, visit)| describe_wait(step, visit)).collect();
    if waits.is_empty() {
        let state = execution.state();
        let parent = read_parent_call(execution).filter(|_| state.is_final());
        let parent = parent.map_or_else(String::new, |look| format!(". {look}"));
        return Some(format!("No active step: the execution is {state}{why}{parent}"));
    }
    let call = read_child_call(execution).unwrap_or_else(|| {
        let wait = wait_call(execution.id(), execution.revision());
        format!("{wait}: it answers when that changes")
    });
    Some(format!("No step is a model's now: {}. {call}", waits.join("; ")))
}

/// The resource `workflow_status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusView {
    /// The execution.
    pub execution_id: String,
    /// Its workflow.
    pub workflow_name: String,
    /// Its state.
    pub state: String,
    /// The first open step; null where none is.
    pub current_step: Option<String>,
    /// When it was started.
    pub started_at: String,
    /// When it last moved.
    pub updated_at: String,
    /// When it ended.
    pub completed_at: Option<String>,
    /// How long it took, once it has ended.
    pub duration_ms: Option<u64>,
    /// How many steps stand where.
    pub steps: StepCounts,
    /// The number of its last transition.
    pub revision: u64,
    /// What it came to, once it is completed: the output of its last step, or those of all steps that nothing
    /// follows, by step.
    pub final_output: Option<Value>,
    /// Whether the final output is shortened; `step_history` has it whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub final_output_truncated: bool,
    /// What of the final output could not be computed: null stands there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub final_output_error: Vec<OutputFailure>,
    /// What is waited for that is not a model: time, signals, people, work of the server.
    pub waits: Vec<WaitView>,
    /// Signals that nothing has waited for yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals_kept: Vec<SignalView>,
    /// Why it failed; while it is still running, why it will fail once what is to run nevertheless is done.
    pub error: Option<FailureView>,
    /// The execution that it is a child of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The execution above it that is a child of none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The first children that its steps began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildView>,
    /// The state to come, while something is left to do before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// What should have been taken back and was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_compensated: Vec<NotCompensatedView>,
    /// The hooks that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hook_failures: Vec<HookFailureView>,
    /// What keeps it from going on, where it is paused: person, `engine_fault`, gate, `outcome_unknown`, `output_invalid`.
    #[serde(deserialize_with = "known")]
    pub pause_reasons: Vec<PauseReason>,
    /// Why its state was last changed, in the words of whoever asked for it.
    pub reason: Option<String>,
    /// The project it was started for.
    pub project: Option<String>,
    /// How many artifacts it has.
    pub artifacts: u32,
}

/// An execution that a step waits for, or did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChildView {
    /// The child.
    pub execution_id: String,
    /// The step.
    pub step: String,
    /// The hook of the step that began it, or `compensate`; absent where the step itself did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Which visit, from 1.
    pub visit: u32,
    /// Which item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

fn children(subject: &Subject<'_>) -> Vec<ChildView> {
    let children = subject.execution.children(subject.definition);
    let shown = children.take(limits::CHILDREN_SHOWN_MAX);
    let view = |(child, visit_id): (ExecutionId, VisitId)| ChildView {
        execution_id: child.to_string(),
        step: visit_id.step().to_string(),
        body: visit_id.body.name_unless_work().map(str::to_owned),
        visit: visit_id.visit,
        item: visit_id.item,
    };
    shown.map(view).collect()
}

/// A visit whose effect was not taken back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotCompensatedView {
    /// The step.
    pub step: String,
    /// Which visit, from 1.
    pub visit: u32,
    /// Which item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// Why.
    pub why: String,
}

/// A hook that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookFailureView {
    /// The step; null for the workflow.
    pub step: Option<String>,
    /// Which visit, from 1.
    pub visit: u32,
    /// Which hook.
    pub hook: String,
    /// Why.
    pub error: FailureView,
}

/// The effects that were not compensated, restricted to steps that declare a compensation.
fn not_compensated(subject: &Subject<'_>) -> Vec<NotCompensatedView> {
    let can_be = |one: &&UncompensatedVisit| {
        let VisitId { step, item, .. } = &one.visit_id;
        let body = BodyKind::Compensation;
        let definition = subject.definition;
        definition.find_body(step.as_ref(), body, item.is_some()).is_some()
    };
    let view = |one: &UncompensatedVisit| NotCompensatedView {
        step: one.visit_id.step().to_string(),
        visit: one.visit_id.visit,
        item: one.visit_id.item,
        why: one.why.clone(),
    };
    let left = subject.execution.uncompensated_visits().iter();
    left.filter(can_be).map(view).collect()
}

fn hook_failures(execution: &Execution) -> Vec<HookFailureView> {
    let steps = execution.steps.iter().chain(&execution.whole);
    let hooks = steps.flat_map(|step| step.beside.iter().map(move |visit| (step, visit)));
    let failed = hooks.filter_map(|(step, visit)| {
        let failure = visit.closed.as_ref()?.failure.as_ref()?;
        (visit.body != BodyKind::Compensation).then(|| HookFailureView {
            step: (visit.visit_id(&step.id).step).map(|step| step.to_string()),
            visit: visit.number,
            hook: visit.body.as_str().to_owned(),
            error: failure.into(),
        })
    });
    failed.collect()
}

/// How many steps stand where; `total` counts all of the workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepCounts {
    /// All steps of the workflow.
    pub total: usize,
    /// Done.
    pub completed: usize,
    /// Ended without an output.
    pub failed: usize,
    /// Open.
    pub running: usize,
    /// Not entered yet.
    pub pending: usize,
    /// Passed by, or open when the execution ended.
    pub skipped: usize,
}

/// The id of the first open step; hooks and compensations do not count.
pub(super) fn first_open_step_id(execution: &Execution) -> Option<String> {
    let mut open = execution.open_visits();
    let first = open.find(|(_, _, visit)| visit.body == BodyKind::Work);
    first.map(|(_, step, _)| step.id.to_string())
}

/// The `workflow_status` view.
pub fn status(subject: &Subject<'_>) -> StatusView {
    let execution = subject.execution;
    let (final_output, truncated) = final_output(subject, execution.state()).unzip();
    let duration = execution.completed_at().map(|end| end.since(execution.started_at));
    StatusView {
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        state: execution.state().as_str().into(),
        current_step: first_open_step_id(execution),
        started_at: execution.started_at.to_string(),
        updated_at: execution.updated_at.to_string(),
        completed_at: execution.completed_at().map(|at| at.to_string()),
        duration_ms: duration.and_then(|duration| u64::try_from(duration.as_millis()).ok()),
        steps: counts(execution),
        revision: execution.revision(),
        final_output,
        final_output_truncated: truncated.unwrap_or(false),
        final_output_error: execution.final_output_faults.clone(),
        waits: wait_views(subject),
        signals_kept: kept_signal_views(subject),
        error: execution.failure.as_ref().or(execution.failing.as_ref()).map(Into::into),
        parent: execution.parent().map(|above| above.execution_id.to_string()),
        root: execution.parent().map(|above| above.root.to_string()),
        children: children(subject),
        ending: execution.ending_state().map(|to| to.as_str().to_owned()),
        not_compensated: not_compensated(subject),
        hook_failures: hook_failures(execution),
        pause_reasons: execution.pauses().to_vec(),
        reason: execution.reason.clone(),
        project: execution.project().map(str::to_owned),
        artifacts: execution.artifacts,
    }
}

fn counts(execution: &Execution) -> StepCounts {
    let mut counts = StepCounts { total: execution.steps().len(), ..StepCounts::default() };
    for step in execution.steps() {
        *match step.status {
            StepStatus::Pending => &mut counts.pending,
            StepStatus::Running => &mut counts.running,
            StepStatus::Completed => &mut counts.completed,
            StepStatus::Failed => &mut counts.failed,
            StepStatus::Skipped => &mut counts.skipped,
        } += 1;
    }
    counts
}
