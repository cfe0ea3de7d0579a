//! What callers are shown: replies and resources, as pure functions of an execution, its
//! definition and its journal. Clients rely on their field names, and on which fields are null.

mod alike;
mod artifacts;
mod execution;
mod failure;
mod graph;
mod history;
mod inputs;
mod listing;
mod options;
mod previous;
mod question;
mod reply;
mod status;
mod subject;
mod task;
mod waits;

pub use self::{
    artifacts::{ArtifactContent, ArtifactView, artifact_content, artifacts},
    execution::ExecutionView,
    failure::FailureView,
    graph::{EdgeKind, GraphBeside, GraphEdge, GraphNode, GraphView, ON_FAILURE_TITLE, Standing},
    history::{AnsweredView, HistoryRow, TelemetryEvent, history, telemetry_event},
    inputs::{InputView, InputsView, input_views},
    listing::{ExecutionRow, Listing, OpenExecution, Resumed, execution_row, open_execution},
    previous::{Previous, whole_output},
    reply::{Advanced, ReadyStep, StepView, advanced_reply, current_state_reply},
    status::{
        ChildView, CurrentStep, Reader, StatusView, StepCounts, current_step,
        current_step_for_people, status,
    },
    subject::{FoundValues, Shortened, Subject, ValueRequest},
    waits::{GateView, SignalView, WaitView},
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
fn persona_of(definition: &Definition, step: &str) -> Option<String> {
    let mut steps = definition.workflow.steps.iter();
    let step = steps.find(|known| known.id.as_str() == step)?;
    step.agent_name().map(|_| definition.persona(step).to_owned())
}

fn definition_step(definition: &Definition, position: usize) -> Option<&Step> {
    definition.workflow.steps.get(position)
}
