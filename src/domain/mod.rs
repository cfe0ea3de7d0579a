//! The domain: pure. No IO, no async, no clock, no randomness; what comes from outside is an argument.

pub mod check;
pub mod definition;
pub mod document;
pub mod draft;
pub mod event;
pub mod execution;
pub mod finding;
pub mod graph;
pub mod id;
pub mod nearest;
pub mod node;
pub mod schema;
pub mod telemetry;
pub mod token;
pub mod view;

pub use self::{
    definition::{Complexity, Definition, Persona, Step, StepKind, Workflow},
    document::{Digest, Document},
    event::{Awaiting, Event, Failure, JournalKey, Outcome, Payload, Row},
    execution::{Command, Decision, Execution, Facts, State, StepStatus, Transition},
    id::{AgentName, ExecutionId, StepId, WorkflowName},
    token::{Grant, Nonce, Token},
};
