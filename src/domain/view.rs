//! What callers are shown: the replies and resources of S0, as pure functions of an execution, its
//! definition and its journal. Field names and nulls are S0's.

mod artifacts;
mod graph;
mod history;
mod listing;
mod previous;
mod reply;
mod status;

pub use self::{
    artifacts::{ArtifactContent, ArtifactView, artifacts, content},
    graph::{GraphEdge, GraphNode, GraphView},
    history::{HistoryRow, TelemetryEvent, history, told},
    listing::{ExecutionRow, Listing, OpenExecution, Resumed, row},
    previous::{Outputs, Previous, Shortened, decided, done_lately, needed_at_end, needed_before},
    reply::{Advanced, FailureView, Offer, advanced, needed_for_reply},
    status::{CurrentStep, ReadyStep, StatusView, StepCounts, current_step, status},
};
use std::time::Duration;

use super::{
    definition::{Definition, Step},
    event::Awaiting,
    execution::{Execution, Visit},
    token::{Grant, Token},
};
use crate::uri;

/// What a view is made of.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The definition that the execution keeps.
    pub definition: &'a Definition,
    /// The execution.
    pub execution: &'a Execution,
    /// The outputs that the view shows.
    pub outputs: &'a Outputs,
    /// How long a token lives.
    pub ttl: Duration,
}

/// What a model is told to do with a step.
fn instructions(subject: &Subject<'_>, step: &Step) -> String {
    let Subject {
        definition,
        execution,
        ..
    } = *subject;
    let workflow = &definition.workflow;
    let mut text = format!(
        "1. Read agent_content carefully: it is who you are for this step.\n2. Do step '{}' of workflow '{}'",
        step.id, workflow.name
    );
    // A step without words of its own is part of what the workflow is for.
    let what = match (step.description.as_str(), step.instructions()) {
        ("", None) => format!(" ({})", workflow.description),
        ("", Some(_)) => String::new(),
        (description, _) => format!(": {description}"),
    };
    text.push_str(&what);
    text.push('\n');
    if let Some(own) = step.instructions() {
        text.push_str(own.trim_end());
        text.push('\n');
    }
    if !definition.workflow.content.is_empty() {
        text.push_str("   The workflow's own text on it: midex://workflow/workflow_details/");
        text.push_str(&uri::encode(execution.workflow().as_str()));
        text.push('\n');
    }
    if !step.depends_on.is_empty() {
        let id = uri::encode(execution.id().as_str());
        text.push_str("   What the steps before decided stands in previous, in short; whole in midex://workflow/step_history/");
        text.push_str(&id);
        text.push_str(", artifacts in midex://workflow/artifact/");
        text.push_str(&id);
        text.push_str("/{id of the artifact}\n");
    }
    text.push_str(
        "3. When the work is done, call workflow.next_step with\n   - token: this step's token\n",
    );
    text.push_str(match step.result {
        None => "   - output: { summary, artifacts?, findings?, next_step_recommendation? }; an artifact is an id or path as text, or \
          { type: file|data|report|finding, name, content, content_type?, metadata? }\n",
        Some(_) => {
            "   - output: a value that satisfies output_schema, which replaces any other output contract\n"
        }
    });
    text.push_str("   If it cannot be done, send error: { message } instead of output.");
    text
}

/// A step's place among all: `1/3` for the first of three.
fn progress(position: usize, execution: &Execution) -> String {
    format!("{}/{}", position + 1, execution.steps().len())
}

fn token(execution: &Execution, step: &Step, grant: Grant) -> String {
    Token::new(execution.id().clone(), step.id.clone(), grant).encode()
}

fn grant(visit: &Visit) -> Option<Grant> {
    match visit.awaiting.as_ref()? {
        Awaiting::Model(grant) => Some(*grant),
    }
}

fn definition_step(definition: &Definition, position: usize) -> Option<&Step> {
    definition.workflow.steps.get(position)
}
