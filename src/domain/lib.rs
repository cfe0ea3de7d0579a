#![doc = include_str!("README.md")]

pub mod artifact;
pub mod body;
pub mod check;
pub mod class;
pub mod clock;
pub mod complexity;
pub mod cursor;
pub mod definition;
pub mod document;
pub mod draft;
pub mod error;
pub mod event;
pub mod execution;
pub mod expression;
pub mod failure;
pub mod finding;
pub mod format;
pub mod grammar;
pub mod id;
pub mod inherit;
pub mod input;
pub mod label;
pub mod limits;
pub mod lookup;
pub mod mask;
pub mod nearest;
pub mod node;
pub mod offer;
pub mod operation;
pub mod orchestrator;
pub mod schema;
pub mod span;
pub mod state;
pub mod telemetry;
pub mod token;
pub mod truncate;
pub mod uri;
pub mod view;
pub mod visible;
mod words;

pub use self::{
    artifact::{Artifact, ArtifactKind, ArtifactReference},
    class::OperationClass,
    complexity::Complexity,
    definition::{Definition, Persona, Step, StepKind, Workflow},
    document::{Digest, JsonText},
    event::{Event, Failure, Outcome, PauseReason, Payload, Row, Sequence, WaitCondition},
    execution::{
        Command, Decision, DecisionContext, Execution, LifecycleAction, LifecycleChange,
        StepStatus, Transition,
    },
    expression::{Expression, Template},
    failure::FailureCode,
    id::{AgentName, ExecutionId, InputName, StepId, WorkflowName},
    input::{DefaultSources, Input, Inputs},
    lookup::{DefinitionDirectories, ProjectDirectories, WorkflowLookup},
    mask::SecretMask,
    state::State,
    token::{Nonce, Token, TokenGrant},
};
