//! What callers are shown: the replies and resources of S0, as pure functions of an execution, its
//! definition and its journal. Field names and nulls are S0's.

mod artifacts;
mod graph;
mod history;
mod inputs;
mod listing;
mod previous;
mod question;
mod reply;
mod status;
mod task;
mod waits;

pub use self::{
    artifacts::{ArtifactContent, ArtifactView, artifacts, content},
    graph::{EdgeKind, GraphEdge, GraphNode, GraphView},
    history::{AnsweredView, HistoryRow, TelemetryEvent, history, told},
    inputs::{DefaultView, InputView, inputs},
    listing::{ExecutionRow, Listing, OpenExecution, Resumed, row},
    previous::{Outputs, Previous, Shortened, decided, done_lately, needed_at_end, needed_before},
    reply::{Advanced, FailureView, Offer, advanced, needed_for_reply},
    status::{CurrentStep, StatusView, StepCounts, current_step, status},
    task::{needed_for_status, needed_values},
    waits::{GateView, SignalView, WaitView},
};
use std::time::Duration;

use super::{
    definition::{Definition, Step},
    execution::{Execution, Values},
    token::{Grant, Token},
};

/// What a view is made of.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The definition that the execution keeps.
    pub definition: &'a Definition,
    /// The execution.
    pub execution: &'a Execution,
    /// The outputs that the view shows.
    pub outputs: &'a Outputs,
    /// What else lies elsewhere: [`needed_values`].
    pub values: &'a Values,
    /// How long a token lives.
    pub ttl: Duration,
    /// What a person adds to a command that is to reach this execution, with a blank before it.
    pub command_flags: &'a str,
}

/// A step's place among all: `1/3` for the first of three.
fn progress(position: usize, execution: &Execution) -> String {
    format!("{}/{}", position + 1, execution.steps().len())
}

fn token(execution: &Execution, step: &Step, grant: Grant) -> String {
    Token::new(execution.id().clone(), step.id.clone(), grant).encode()
}

fn definition_step(definition: &Definition, position: usize) -> Option<&Step> {
    definition.workflow.steps.get(position)
}
