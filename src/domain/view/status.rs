//! The views `current_step` and `workflow_status`, which show the current state of an execution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    FailureView, ForkOriginView, InputsView, PreviousOutput, ReadyStep, ViewContext, WaitView,
    definition_step,
    options::NextSteps,
    persona_of,
    previous::{decisions_before_step, final_output, final_output_uri},
    reply::{StepView, steps_after_the_first},
    same_keys::{deserialize_known_entries, serialize_later_steps},
    task::{self, open_turns},
    waits::{
        SignalView, actions_for_people, describe_wait, format_child_call, format_imported_call,
        format_parent_call, format_retry_call, format_wait_call, kept_signal_views, wait_views,
    },
};
use crate::{
    definition::Definition,
    error::double_quotes,
    event::{BodyKind, OutputFailure, PauseReason, VisitId},
    execution::{Execution, StepStatus, UncompensatedVisit},
    id::ExecutionId,
    label::Labels,
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
    pub previous: Vec<PreviousOutput>,
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
    /// The inputs whose values were purged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purged: Vec<String>,
    /// Every open step, each with its own token. What the first one is to do stands in the fields above, and is null in the
    /// list.
    #[serde(serialize_with = "serialize_later_steps")]
    pub ready_steps: Vec<ReadyStep>,
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

    /// Removes the tokens: those of a past state may be valid still, and are not for who looks back.
    pub fn remove_tokens(&mut self) {
        (self.continuation_token, self.expires_at) = (None, None);
        self.next_step_options.clear();
        for step in &mut self.ready_steps {
            step.continuation_token.clear();
            step.expires_at.clear();
        }
    }

    /// Omits the persona if `known_agents` contains its agent.
    pub fn omit_known_persona(&mut self, known_agents: &[String]) {
        let is_known = |agent: &String| known_agents.contains(agent);
        if self.agent_name.as_ref().is_some_and(is_known) {
            self.agent_content = None;
            task::omit_persona(&mut self.instructions);
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
pub fn current_step_for_people(context: &ViewContext<'_>) -> CurrentStep {
    let mut current = current_step(context);
    for (turn, step) in open_turns(context).zip(&mut current.ready_steps) {
        step.instructions = task::task_text_for_people(context, &turn).unwrap_or_default();
        let defined = definition_step(context.definition, turn.position);
        step.step.optional = defined.is_some_and(|step| step.optional);
        step.step.ends_on_error = task::ends_execution_on_error(context, &turn);
        step.description = defined.map_or_else(String::new, |step| step.description.clone());
        let fan_out = || context.execution.steps().get(turn.position)?.visits.last();
        step.step.items = turn.visit.item.and_then(|_| fan_out()?.items_total());
        step.previous = decisions_before_step(context, turn.position, limits::PREVIOUS_BYTES_MAX);
    }
    let first = current.ready_steps.first();
    current.instructions = first.map(|step| step.instructions.clone());
    current.description = first.map(|step| step.description.clone());
    current.previous = first.map_or_else(Vec::new, |step| step.previous.clone());
    current.step = first.map(|step| step.step.clone());
    let full_inputs = InputsView::from_execution(context, usize::MAX);
    (current.inputs, current.inputs_uri) = (full_inputs.map(|view| view.inputs), None);
    current
}

/// The `current_step` view for a model.
pub fn current_step(context: &ViewContext<'_>) -> CurrentStep {
    let execution = context.execution;
    let turns: Vec<_> = open_turns(context).collect();
    let ready_steps = steps_after_the_first(context, &turns);
    let first = ready_steps.first();
    let next_steps = NextSteps::collect_options(
        context,
        first.map(|step| (step.step_name.as_str(), step.continuation_token.as_str())),
    );
    let message = describe_waiting_state(context);
    let inputs = InputsView::from_execution(context, limits::INPUTS_SHOWN_BYTES_MAX);
    let (inputs, inputs_uri) = inputs.map(|view| (view.inputs, view.inputs_uri)).unzip();
    let truncated_value = |digest| {
        let value = context.value(digest)?;
        Some(truncate_value(&value, limits::INPUTS_SHOWN_BYTES_MAX).0)
    };
    let first_field = |field: fn(&ReadyStep) -> &String| first.map(|step| field(step).clone());
    CurrentStep {
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        workflow_state: execution.state().as_str().into(),
        current_step: first_field(|step| &step.step_name),
        step_status: first.map(|_| StepStatus::Running.as_str().into()),
        agent_name: first.and_then(|step| step.agent_name.clone()),
        step: first.map(|first| first.step.clone()),
        progress: first_field(|step| &step.progress),
        continuation_token: first_field(|step| &step.continuation_token),
        expires_at: first_field(|step| &step.expires_at),
        agent_content: first.and_then(|step| persona_of(context.definition, &step.step_name)),
        description: first_field(|step| &step.description),
        instructions: first_field(|step| &step.instructions),
        output_schema: first.and_then(|step| step.output_schema.clone()),
        previous: first.map_or_else(Vec::new, |step| step.previous.clone()),
        inputs,
        inputs_uri: inputs_uri.flatten(),
        purged: execution.purged_inputs().iter().cloned().collect(),
        inputs_at_start: execution
            .given
            .filter(|given| Some(*given) != execution.inputs())
            .and_then(truncated_value),
        waits: wait_views(context),
        next_step_options: next_steps.options,
        options_left_out: next_steps.omitted,
        revision: execution.revision(),
        asked: message.is_none().then(|| gate_questions_text(context)).flatten(),
        message,
        ready_steps,
    }
}

/// The question of the open gates, with the command that answers them; `None` if no approval is pending.
pub(super) fn gate_questions_text(context: &ViewContext<'_>) -> Option<String> {
    let waits = wait_views(context);
    let gates: Vec<_> = waits.iter().filter_map(|wait| wait.gate.as_ref()).collect();
    if gates.is_empty() {
        return None;
    }
    let questions: Vec<_> = gates.iter().map(|gate| truncate_to_chars(&gate.ask, 200)).collect();
    let actions = actions_for_people(context);
    Some(format!("{actions}. It asks: {}", questions.join(" ")))
}

/// A sentence on the state of the execution if it is paused, waits for something else than a model, or has ended.
/// `None` if it is running and a model holds a token.
fn describe_waiting_state(context: &ViewContext<'_>) -> Option<String> {
    let execution = context.execution;
    if let Some(call) = format_imported_call(execution) {
        return Some(call);
    }
    let reason_suffix = execution.reason_suffix();
    if execution.pauses().iter().any(|reason| reason.is_lifted_by_resume()) {
        let id = double_quotes(execution.id().as_str());
        return Some(format!(
            "The execution is paused{reason_suffix}. Call execution.resume with execution_id '{id}': once it may go on; its tokens stay valid"
        ));
    }
    if !execution.pauses().is_empty() {
        let names = execution.pause_names();
        let actions = actions_for_people(context);
        return Some(format!("The execution is paused ({names}){reason_suffix}. {actions}"));
    }
    let mut open_visits = execution.open_visits();
    if open_visits.any(|(_, _, visit)| visit.live_token().is_some()) {
        return None;
    }
    let waits: Vec<_> =
        execution.open_visits().filter_map(|(_, step, visit)| describe_wait(step, visit)).collect();
    if waits.is_empty() {
        let state = execution.state();
        let parent = format_parent_call(execution).filter(|_| state.is_final());
        let parent = parent.map_or_else(String::new, |look| format!(". {look}"));
        let retry = format_retry_call(execution);
        let retry = retry.map_or_else(String::new, |call| format!(". {call}"));
        return Some(format!(
            "No active step: the execution is {state}{reason_suffix}{parent}{retry}"
        ));
    }
    let call = format_child_call(execution).unwrap_or_else(|| {
        let wait = format_wait_call(execution.id(), execution.revision());
        format!("{wait}: it answers when that changes")
    });
    Some(format!("No step is a model's now: {}. {call}", waits.join("; ")))
}

/// The definition that an execution keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionView {
    /// Its digest.
    pub digest: String,
    /// The version that its file declares.
    pub version: Option<String>,
    /// The definition that a new execution would follow, if the file has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<Box<DefinitionView>>,
}

impl DefinitionView {
    /// The view of a definition.
    pub fn new(definition: &Definition) -> Self {
        let (digest, version) = (definition.digest().to_string(), &definition.workflow.version);
        Self { digest, version: version.clone(), newer: None }
    }
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
    /// The title of that step, where it has one. `tools/list` leaves it out of output schemas, whose size has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub current_title: Option<String>,
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
    /// The definition that it keeps.
    pub definition: DefinitionView,
    /// Its labels. `tools/list` leaves these, and what an import adds, out of output schemas, whose size has a limit.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    #[schemars(skip)]
    pub labels: Labels,
    /// The execution that it continues, if it is a fork or a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOriginView>,
    /// The forks and retries of it, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<String>,
    /// Whether it was imported: it is then read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub imported: bool,
    /// When it was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub imported_at: Option<String>,
    /// The step that a rewind enters once the compensations have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewinding_to: Option<String>,
    /// What it came to, once it is completed: the output of its last step, or those of all steps that nothing
    /// follows, by step.
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
    #[serde(deserialize_with = "deserialize_known_entries")]
    pub pause_reasons: Vec<PauseReason>,
    /// Why its state was last changed, in the words of whoever asked for it.
    pub reason: Option<String>,
    /// The project it was started for.
    pub project: Option<String>,
    /// The inputs whose values were purged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purged: Vec<String>,
    /// How many artifacts it has.
    pub artifacts: u32,
}

impl StatusView {
    /// Whether the execution as a whole waits to be resumed, in addition to any waits of its steps.
    pub fn needs_resume(&self) -> bool {
        self.pause_reasons.iter().copied().any(PauseReason::is_lifted_by_resume)
    }
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

fn child_views(context: &ViewContext<'_>) -> Vec<ChildView> {
    let children = context.execution.children(context.definition);
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
fn uncompensated_views(context: &ViewContext<'_>) -> Vec<NotCompensatedView> {
    let has_compensation = |one: &&UncompensatedVisit| {
        let VisitId { step, item, .. } = &one.visit_id;
        let body = BodyKind::Compensation;
        let definition = context.definition;
        definition.find_body(step.as_ref(), body, item.is_some()).is_some()
    };
    let view = |one: &UncompensatedVisit| NotCompensatedView {
        step: one.visit_id.step().to_string(),
        visit: one.visit_id.visit,
        item: one.visit_id.item,
        why: one.why.clone(),
    };
    let uncompensated = context.execution.uncompensated_visits().iter();
    uncompensated.filter(has_compensation).map(view).collect()
}

fn hook_failure_views(execution: &Execution) -> Vec<HookFailureView> {
    let steps = execution.steps.iter().chain(&execution.whole);
    let hooks = steps.flat_map(|step| step.hook_visits.iter().map(move |visit| (step, visit)));
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
    let mut open_visits = execution.open_visits();
    let first = open_visits.find(|(_, _, visit)| visit.body == BodyKind::Work);
    first.map(|(_, step, _)| step.id.to_string())
}

/// The title of the first open visit that has one, among those of the first open step.
fn first_open_title(execution: &Execution) -> Option<String> {
    let open = || execution.open_visits().filter(|(.., visit)| visit.body == BodyKind::Work);
    let (first, ..) = open().next()?;
    let mut visits = open().filter(|(position, ..)| *position == first);
    visits
        .find_map(|(_, step, visit)| execution.title(&visit.visit_id(&step.id)).map(str::to_owned))
}

/// The `workflow_status` view.
pub fn build_status(context: &ViewContext<'_>) -> StatusView {
    let execution = context.execution;
    let (final_output, truncated) = final_output(context, execution.state()).unzip();
    let duration = execution.completed_at().map(|end| end.since(execution.started_at));
    let failure = execution.failure.as_ref().or(execution.failing.as_ref());
    StatusView {
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        state: execution.state().as_str().into(),
        current_step: first_open_step_id(execution),
        current_title: first_open_title(execution),
        started_at: execution.started_at.to_string(),
        updated_at: execution.updated_at.to_string(),
        completed_at: execution.completed_at().map(|at| at.to_string()),
        duration_ms: duration.and_then(|duration| u64::try_from(duration.as_millis()).ok()),
        steps: count_steps(execution),
        revision: execution.revision(),
        definition: DefinitionView::new(context.definition),
        labels: execution.labels().clone(),
        forked_from: ForkOriginView::from_execution(execution),
        forks: Vec::new(),
        imported: execution.is_imported(),
        imported_at: execution.imported_at().map(|at| at.to_string()),
        rewinding_to: execution.rewinding_to().map(ToString::to_string),
        final_output,
        final_output_truncated: truncated == Some(true),
        final_output_uri: truncated
            .filter(|is_cut| *is_cut)
            .map(|_| final_output_uri(execution.id())),
        final_output_error: execution.final_output_faults.clone(),
        waits: wait_views(context),
        signals_kept: kept_signal_views(context),
        error: failure.map(|failure| FailureView::from(failure).with_command(context.definition)),
        parent: execution.parent().map(|above| above.execution_id.to_string()),
        root: execution.parent().map(|above| above.root.to_string()),
        children: child_views(context),
        ending: execution.ending_state().map(|to| to.as_str().to_owned()),
        not_compensated: uncompensated_views(context),
        hook_failures: hook_failure_views(execution),
        pause_reasons: execution.pauses().to_vec(),
        reason: execution.reason.clone(),
        project: execution.project().map(str::to_owned),
        purged: execution.purged_inputs().iter().cloned().collect(),
        artifacts: execution.artifacts,
    }
}

fn count_steps(execution: &Execution) -> StepCounts {
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
