//! # midex: a durable workflow server for LLM agents
//!
//! A workflow is a file; starting it makes an *execution*; each execution is owned by one actor. A model gets one step at a
//! time (a persona, instructions, a single-use continuation token) and sends back its output. Every transition is on disk
//! before its reply leaves.
//!
//! Without features the crate is the engine in process: [`App`] opens a data directory and has a method for each use case;
//! [`engine::Engine`] is the same without files of definitions. `catalog` adds operations of HTTP services, `mcp` the server
//! over MCP, and `cli` (on by default) the binary; `testing` adds the suite of tests for stores. The other crates of the workspace are internal, without a semver promise;
//! `ARCHITECTURE.md` tells what each of them holds.
//!
//! ## Invariants
//!
//! 1. *The domain cannot fail for outside reasons.* Deciding changes nothing; state is rebuilt by events. The actor decides,
//!    persists, becomes, then replies.
//! 2. *A reply leaves only after what it says is durable.* Memory is never ahead of the disk.
//! 3. *The store accepts a transition only if its revision follows the stored one*, inside the write
//!    transaction. The actor gives order and speed; the store gives truth.
//! 4. *After a failed commit the actor stops*; the next call wakes a new one from the store.
//! 5. *A token names one step visit of one execution*; it is compared with the stored nonce in constant
//!    time and consumed once; a repeat of the same call gets the same answer.
//! 6. *An execution keeps the definition and personas it started with*, stored once by digest.
//! 7. *Every queue, batch, file, output, loop and connection has a limit.*
//! 8. *stdout belongs to the protocol* (`serve`) *or to data* (every other command). Logs go to stderr.
//! 9. *No tool depends on which process, connection or client session calls it.*
//! 10. *A panic anywhere becomes an answer, not silence.* An execution that cannot be woken counts as paused,
//!     with `engine_fault`, until a resume forgives it.

pub use midex_domain::{
    Definition, ExecutionId, StepId, Token, WorkflowName,
    clock::{Clock, IdSource, SteadyClock, SystemClock, SystemIds, Timestamp},
    error::{Code, Error, FailureCode, Result, Violation},
    event::PauseReason,
    execution::{LifecycleAction, Report, Resolution, SignalRequest, Submission},
    finding::Finding,
    state::{State, StepStatus},
};
pub use midex_domain::{limits, offer::StepOption, span::HumanDuration};
pub use midex_registry::{Registry, Sources, WorkflowEntry};
pub use midex_server::{
    app::{App, ExecutionTurn, ListRequest, OpenWork, Options, Turn},
    config::Config,
};

/// Work of your own program that a step may ask for by name.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use midex::{
///     App, Config, ExecutionId, Options, SteadyClock, SystemIds,
///     activity::{Activities, BoxFuture, Context, Middleware, NextRun, Outcome, activity},
///     store::MemoryStore,
///     workflow::{Step, Workflow},
/// };
/// use serde_json::json;
///
/// #[derive(schemars::JsonSchema, serde::Deserialize)]
/// struct Numbers {
///     one: i64,
///     other: i64,
/// }
///
/// /// Refuses to add large numbers.
/// #[derive(Debug)]
/// struct Bounded;
///
/// impl Middleware for Bounded {
///     fn run<'a>(&'a self, context: Context, next: NextRun<'a>) -> BoxFuture<'a, Outcome> {
///         assert!(context.input["one"].as_i64() < Some(1_000));
///         next.run(context)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> midex::Result<()> {
/// let add = activity("add", async |_, numbers: Numbers| Ok(numbers.one + numbers.other));
/// let sum = Workflow::new("sum")
///     .description("Add two numbers")
///     .step(Step::activity("add").with(json!({ "one": 1, "other": 2 })));
/// let config = Config::new(Some("unused".into()))?;
/// let app = App::with_options(Options {
///     activities: Activities::default().with_activity(add)?,
///     middleware: vec![Arc::new(Bounded)],
///     definitions: vec![sum],
///     store: Some(Arc::new(MemoryStore::new())),
///     ..Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds))
/// });
/// app.check_definitions().await?;
/// let started = app.start("sum", None, None, None).await?;
/// let id = ExecutionId::parse(&started.execution_id)?;
/// let ended = app.turn(&id, Duration::from_secs(5)).await?.status;
/// assert_eq!(ended.final_output, Some(json!(3)));
/// app.stop().await
/// # }
/// ```
pub mod activity {
    pub use midex_domain::{execution::OperationFailure, operation::BoxFuture};
    pub use midex_engine::activity::{
        Activities, Activity, Context, Function, Middleware, NextRun, Outcome, RetryPolicy,
        TypedActivity, activity, function,
    };
}

/// The engine alone: definitions in memory, a store of your choice.
pub mod engine {
    pub use midex_engine::{
        Cleanup, DurableExecution, Engine, ExecutionEvents, Options, Retention, StartRequest,
    };
}

/// Workflows that your own program defines in code, for [`Options::definitions`]. They are checked as files are.
///
/// ```
/// use midex::workflow::{Step, Workflow};
/// use serde_json::json;
///
/// let release = Workflow::new("release")
///     .description("Build a version, and publish it once somebody agrees")
///     .input("version", json!({ "type": "string" }))
///     .step(Step::activity("build").with(json!({ "version": "${{ inputs.version }}" })))
///     .step(Step::gate("Publish it?").id("agree"))
///     .step(Step::activity("publish").retry(json!({ "max_attempts": 3 })).timeout("10m"))
///     .final_output("${{ steps.publish }}");
/// assert_eq!(release.to_json()["steps"][2]["activity"], "publish");
/// ```
pub mod workflow {
    pub use midex_registry::{StepBuilder as Step, WorkflowBuilder as Workflow};
}

/// Operations of your own program in the place of the user's catalogs.
pub mod operation {
    pub use midex_domain::{
        execution::EffectOutput,
        operation::{OperationCall, Operations, Outcome, PageCursor},
    };
}

/// The stores of executions, and the types that an implementation of [`Store`](store::Store) needs.
pub mod store {
    pub use midex_domain::{
        Digest, Execution, Row, Sequence, event::OwnerEpoch, operation::BoxFuture,
        telemetry::EventType,
    };
    pub use midex_engine::store::{
        Commit, CommitReceipt, ContentHolders, ContentSweep, Deletion, DueExecution,
        ExaminationProgress, ExaminedPortion, ListPage, ListQuery, LoadedExecution, MemoryStore,
        Options, PastChange, PlacedEntry, Position, RedbStore, RefusedCall, Store, StoreStats,
        TelemetryEntry, TelemetryQuery, find_named_contents, find_row_contents,
    };

    /// The suite of tests for implementers of [`Store`], and a store that fails on request.
    ///
    /// ```
    /// # use std::{path::Path, sync::Arc};
    /// # use midex::store::{MemoryStore, Store};
    /// async fn open_store(_directory: &Path) -> Arc<dyn Store> {
    ///     Arc::new(MemoryStore::new())
    /// }
    ///
    /// midex::store::contract::suite!(open_store);
    /// ```
    #[cfg(feature = "testing")]
    pub use midex_engine::store::contract;
}

/// What the use cases answer.
pub mod view {
    pub use midex_domain::view::{
        AdvanceReply, ArtifactContent, ArtifactView, CurrentStep, ExecutionPage, FailureView,
        GateView, GraphView, HistoryRow, ProgressView, ReadyStep, SignalView, StatusView,
        StepCounts, StepView, TelemetryEvent, WaitView,
    };
}

/// The server over MCP.
#[cfg(feature = "mcp")]
pub mod mcp {
    pub use midex_mcp::{
        Beside, LineTransport, Process, Server, ToolNames, ToolProfile, Toolset, Toolsets,
        relay_stdio, serve, serve_stdio,
    };
}
