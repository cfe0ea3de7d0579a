//! Control flow as a manifest declares it, from the file to the end of the execution. Under paused time.

mod asked;
mod asking;
mod branches;
mod crossings;
mod ends;
mod failures;
mod gates;
mod items;
mod memory;
mod outputs;
mod people;
mod rounds;
mod served;
mod told;

use std::sync::Arc;

use midex::{
    clock::TokioClock,
    domain::{
        Change, Definition, ExecutionId, Lifecycle,
        check::Built,
        execution::Report,
        view::{Advanced, HistoryRow, Offer, StatusView},
    },
    engine::{Engine, StartRequest},
    error::Error,
    registry::{self, Registry, Sources},
    store::{MemoryStore, Store},
};
use serde_json::{Value, json};

use crate::support::{EPOCH, engine};

/// The definition that a manifest with these lines after its head gives.
fn defined(lines: &str) -> Arc<Definition> {
    let text = format!("workflow: w\ndescription: d\n{lines}");
    let (workflow, findings) = registry::check_text(
        "w.yaml",
        &text,
        &Registry::load(&Sources::default()),
        Built::Now,
    );
    assert_eq!(findings, [], "{text}");
    let whole = json!({ "workflow": workflow.unwrap(), "personas": {} });
    Arc::new(Definition::decode(whole.to_string().as_bytes()).unwrap())
}

/// An execution under way, and what it last answered.
struct Play {
    engine: Engine,
    store: Arc<dyn Store>,
    last: Advanced,
}

impl Play {
    async fn begin(lines: &str, inputs: Value) -> Self {
        Self::begin_with(lines, Some(inputs)).await
    }

    async fn begin_with(lines: &str, inputs: Option<Value>) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = engine(store.clone(), TokioClock::starting_at(EPOCH), 1).await;
        let request = StartRequest {
            definition: defined(lines),
            execution_id: Some(id()),
            project: None,
            inputs,
        };
        let last = engine.start(request).await.unwrap();
        Self {
            engine,
            store,
            last,
        }
    }

    /// Every call from now on wakes the execution from the store.
    async fn restart(&mut self) {
        self.engine = engine(self.store.clone(), TokioClock::starting_at(EPOCH), 2).await;
    }

    /// The offers that the last call made.
    fn offers(&self) -> Vec<&Offer> {
        self.last.new_tokens.iter().collect()
    }

    fn open(&self) -> Vec<&str> {
        self.offers()
            .iter()
            .map(|offer| offer.step_name.as_str())
            .collect()
    }

    /// What the model is told to do first.
    fn words(&self) -> &str {
        self.last.instructions.as_deref().unwrap()
    }

    async fn report(&mut self, token: &str, report: Report) -> &Advanced {
        self.last = self.engine.advance(token, report).await.unwrap();
        &self.last
    }

    /// Ends the step, which the last call opened, with this output.
    async fn done(&mut self, step: &str, output: Value) -> &Advanced {
        let token = self.token(step);
        self.report(&token, Report::Output(output)).await
    }

    /// Says that the step could not be done.
    async fn fails(&mut self, step: &str, code: &str) -> &Advanced {
        let token = self.token(step);
        let (message, code) = ("it could not be done".to_owned(), Some(code.to_owned()));
        let report = Report::Error {
            message,
            code,
            retryable: None,
        };
        self.report(&token, report).await
    }

    fn token(&self, step: &str) -> String {
        let mut offers = self.last.new_tokens.iter().chain(&self.last.open_steps);
        let offer = offers.find(|offer| offer.step_name == step);
        let offer = offer.unwrap_or_else(|| panic!("{step} is not open: {:?}", self.last));
        offer.continuation_token.clone()
    }

    async fn change(&self, lifecycle: Lifecycle) -> StatusView {
        let change = Change {
            lifecycle,
            reason: None,
        };
        self.engine.command(&id(), change).await.unwrap()
    }

    /// The refusal of an output for the step.
    async fn refused(&self, token: &str, output: Value) -> Error {
        let refused = self.engine.advance(token, Report::Output(output)).await;
        refused.unwrap_err()
    }

    async fn status(&self) -> StatusView {
        self.engine.status(&id()).await.unwrap()
    }

    async fn history(&self) -> Vec<HistoryRow> {
        self.engine.history(&id()).await.unwrap()
    }

    /// Every entry of the history as `step status`.
    async fn path(&self) -> Vec<String> {
        let told = |row: &HistoryRow| format!("{} {}", row.step_name, row.status);
        self.history().await.iter().map(told).collect()
    }

    fn state(&self) -> &str {
        &self.last.workflow_state
    }
}

fn id() -> ExecutionId {
    ExecutionId::parse("e").unwrap()
}

/// A step that a model does, with anything as its output.
const ANY: &str = "result: {}";
