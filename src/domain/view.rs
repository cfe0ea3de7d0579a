//! What callers are shown: replies and resources, as pure functions of an execution, its
//! definition and its journal. Clients rely on their field names, and on which fields are null.

mod artifacts;
mod diff;
mod execution;
mod failure;
mod fork;
mod graph;
mod history;
mod inputs;
mod listing;
mod options;
mod origin;
mod past;
mod previous;
mod prompt;
mod question;
mod reply;
mod same_keys;
mod status;
mod subject;
mod task;
mod waits;

pub use self::{
    artifacts::{ArtifactContent, ArtifactView, artifact_views, slice_artifact_content},
    diff::{
        ChangeList, ComparedExecution, DiffSide, DiffView, StepDiff, StepTimes, ValueChange,
        VisitPair, VisitSummary,
    },
    execution::ExecutionView,
    failure::FailureView,
    fork::{ForkView, RewindView},
    graph::{
        EdgeKind, GraphBody, GraphEdge, GraphNode, GraphView, NodeProgress, ON_FAILURE_TITLE,
        status_symbol,
    },
    history::{GateAnswerView, HistoryRow, TelemetryEvent, build_history, telemetry_event},
    inputs::{InputView, InputsView, input_views},
    listing::{
        ExecutionPage, ExecutionRow, OpenExecution, ResumeReply, build_open_execution,
        execution_row,
    },
    origin::ForkOriginView,
    past::PastPoint,
    previous::{PreviousOutput, full_output},
    prompt::{
        StepPrompt, build_utility_prompt, collect_previous, format_concluded_prompt,
        format_waiting_prompt,
    },
    reply::{AdvanceReply, ReadyStep, StepView, build_advance_reply, build_current_reply},
    status::{
        ChildView, CurrentStep, DefinitionView, Reader, StatusView, StepCounts, build_status,
        current_step, current_step_for_people,
    },
    subject::{LoadedValues, TruncatedValue, ValueRequest, ViewContext},
    task::{ResultCall, TaskText, format_tool_prompt},
    waits::{GateView, ProgressView, SignalView, WaitView},
};
use super::{
    definition::{Definition, Step},
    execution::Execution,
    token::{Token, TokenGrant},
};

/// A step's place among all: `1/3` for the first of three.
fn format_progress(position: usize, execution: &Execution) -> String {
    format!("{}/{}", position + 1, execution.steps().len())
}

fn continuation_token(execution: &Execution, step: &Step, grant: TokenGrant) -> String {
    Token::new(execution.id().clone(), step.id.clone(), grant).encode()
}

/// The persona of the step of this name; `None` if the step names no agent.
pub fn persona_of(definition: &Definition, step: &str) -> Option<String> {
    let mut steps = definition.workflow.steps.iter();
    let step = steps.find(|known| known.id.as_str() == step)?;
    step.agent_name().map(|_| definition.persona(step).to_owned())
}

fn definition_step(definition: &Definition, position: usize) -> Option<&Step> {
    definition.workflow.steps.get(position)
}
