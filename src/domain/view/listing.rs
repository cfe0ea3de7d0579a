//! Lists of executions, and the summary of open executions for a client that has lost its context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    PreviousOutput, ReadyStep, ViewContext,
    previous::latest_decisions,
    reply::ready_step_brief,
    status::{first_open_step_id, gate_questions_text},
    waits::{join_quoted_names, retry_call_sentence},
};
use crate::{
    error::double_quotes,
    execution::Execution,
    label::Labels,
    limits,
    state::State,
    truncate::{json_length, truncate_to_chars, truncate_value},
};

/// One execution in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionRow {
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
    /// The project it was started for.
    pub project: Option<String>,
    /// The execution that it is a child of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Whether it was imported: it is then read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub imported: bool,
}

/// A page of executions, the one that moved last first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionPage {
    /// The executions.
    pub executions: Vec<ExecutionRow>,
    /// What to pass as `cursor` for the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The list entry of an execution.
pub fn execution_row(execution: &Execution) -> ExecutionRow {
    ExecutionRow {
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        state: execution.state().as_str().into(),
        current_step: first_open_step_id(execution),
        started_at: execution.started_at.to_string(),
        updated_at: execution.updated_at.to_string(),
        project: execution.project().map(str::to_owned),
        parent: execution.parent().map(|above| above.execution_id.to_string()),
        labels: execution.labels().clone(),
        imported: execution.is_imported(),
    }
}

/// What was going on: the open executions of a project, the one that moved last first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeReply {
    /// The executions.
    pub open_executions: Vec<OpenExecution>,
    /// How many more are open and did not fit, at least.
    pub more: usize,
    /// What to do now, in a sentence.
    pub message: String,
}

/// An open execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenExecution {
    /// The execution.
    pub execution_id: String,
    /// Its workflow.
    pub workflow_name: String,
    /// Its state.
    pub state: String,
    /// Why it is paused, where somebody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it was started with, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// How many steps are done, of how many: `1/3`.
    pub done: String,
    /// When it last moved.
    pub updated_at: String,
    /// The open steps, each with a live token.
    pub current_steps: Vec<ReadyStep>,
    /// How many more steps are open and did not fit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_steps: usize,
    /// What the steps decided that were done last, the latest first, in short.
    pub decided: Vec<PreviousOutput>,
    /// What a person is asked, and the command with which they answer, where an approval is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ResumeReply {
    /// The first of `executions` that fit into [`limits::RESUME_BYTES_MAX`] bytes of JSON. The first one is always
    /// included, with as many of its steps as fit. `open_count` is the number of all open executions.
    pub fn from_open_executions(executions: Vec<OpenExecution>, open_count: usize) -> Self {
        let mut bytes_left = limits::RESUME_BYTES_MAX;
        let mut entries = Vec::new();
        for mut execution in executions {
            execution.keep_steps_that_fit(bytes_left);
            let bytes = json_length(&execution) + 1;
            if bytes > bytes_left && !entries.is_empty() {
                break;
            }
            bytes_left = bytes_left.saturating_sub(bytes);
            entries.push(execution);
        }
        let mut resumed = Self::with_message(entries, open_count);
        // The message and the counters take room too, so entries are removed until the whole fits.
        while json_length(&resumed) > limits::RESUME_BYTES_MAX && resumed.remove_last_entry() {
            resumed = Self::with_message(resumed.open_executions, open_count);
        }
        resumed
    }

    fn with_message(entries: Vec<OpenExecution>, open_count: usize) -> Self {
        let more = open_count.saturating_sub(entries.len());
        Self { message: resume_message(&entries, more), open_executions: entries, more }
    }

    /// Names in the message the retry of `latest`, the execution of the project that moved last, if nothing is open and
    /// it has failed.
    pub fn name_retry(&mut self, latest: Option<&ExecutionRow>) {
        let failed = latest.filter(|latest| latest.state == State::Failed.as_str());
        if let Some(failed) = failed.filter(|_| self.open_executions.is_empty() && self.more == 0) {
            let (id, call) = (&failed.execution_id, retry_call_sentence(&failed.execution_id));
            self.message =
                format!("{NOTHING_OPEN}. Execution '{id}' has failed. {call}. {START_CALL}");
        }
    }

    /// Removes the last execution, or the last step of the only one; false if a single step is left.
    fn remove_last_entry(&mut self) -> bool {
        if self.open_executions.len() > 1 {
            return self.open_executions.pop().is_some();
        }
        match self.open_executions.first_mut() {
            Some(only) if only.current_steps.len() > 1 => {
                only.more_steps += 1;
                only.current_steps.pop().is_some()
            }
            _ => false,
        }
    }
}

/// The summary of an open execution.
pub fn build_open_execution(context: &ViewContext<'_>) -> OpenExecution {
    let execution = context.execution;
    let inputs = execution.inputs().and_then(|inputs| context.value(inputs));
    // Gates, timers and the visit of a whole `foreach` are open too, but have no token.
    let steps =
        execution.open_visits().filter_map(|(at, _, visit)| ready_step_brief(context, at, visit));
    OpenExecution {
        execution_id: execution.id().to_string(),
        workflow_name: execution.workflow().to_string(),
        state: execution.state().as_str().into(),
        reason: execution
            .reason
            .as_deref()
            .map(|reason| truncate_to_chars(reason, 200).into_owned()),
        inputs: inputs.map(|inputs| truncate_value(&inputs, limits::RESUME_INPUTS_BYTES_MAX).0),
        done: format!("{}/{}", count_done_steps(execution), execution.steps().len()),
        updated_at: execution.updated_at.to_string(),
        current_steps: steps.collect(),
        more_steps: 0,
        decided: latest_decisions(context, limits::RESUME_PREVIOUS_BYTES_MAX),
        asked: gate_questions_text(context),
    }
}

impl OpenExecution {
    /// Keeps the first step, and those after it that fit into `bytes_max` bytes of JSON.
    fn keep_steps_that_fit(&mut self, bytes_max: usize) {
        let steps = std::mem::take(&mut self.current_steps);
        let mut bytes_left = bytes_max.saturating_sub(json_length(self));
        self.more_steps = steps.len();
        for step in steps {
            let bytes = json_length(&step) + 1;
            if bytes > bytes_left && !self.current_steps.is_empty() {
                break;
            }
            bytes_left = bytes_left.saturating_sub(bytes);
            self.current_steps.push(step);
        }
        self.more_steps -= self.current_steps.len();
    }
}

fn count_done_steps(execution: &Execution) -> usize {
    use crate::StepStatus::{Completed, Skipped};
    let steps = execution.steps().iter();
    steps.filter(|step| matches!(step.status, Completed | Skipped)).count()
}

const NOTHING_OPEN: &str = "Nothing is open in this project";
const START_CALL: &str = "Call workflow.list with brief 'true': workflow.start begins one of them";

fn resume_message(entries: &[OpenExecution], more_count: usize) -> String {
    let Some(first) = entries.first() else {
        return format!("{NOTHING_OPEN}. {START_CALL}");
    };
    let more_hint = match more_count {
        0 => String::new(),
        more => format!("; execution.list shows at least {more} more"),
    };
    let id = double_quotes(&first.execution_id);
    let call = format!("Call execution.resume with execution_id '{id}'");
    if first.state == State::Paused.as_str() {
        return format!(
            "Execution '{}' is paused. {call}: once it may go on{more_hint}",
            first.execution_id
        );
    }
    let steps = first.current_steps.iter().map(|step| &step.step_name);
    let action = match join_quoted_names(steps) {
        steps if steps.is_empty() => format!("'{}' waits", first.execution_id),
        steps => format!("Go on with {steps} of '{}'", first.execution_id),
    };
    format!(
        "{action}, or with another. {call}: it has the task, the persona and the tokens{more_hint}"
    )
}
