//! # midex: a durable workflow server for LLM agents
//!
//! A workflow is a file; starting it makes an *execution*; each execution is owned by one actor. A model gets one step at a
//! time (a persona, instructions, a single-use continuation token) and sends back its output. Every transition is on disk
//! before its reply leaves.
//!
//! Without features the crate is the engine in process: [`App`] opens a data directory and has a method for each use case;
//! [`engine::Engine`] is the same without files of definitions. `catalog` adds operations of HTTP services, `mcp` the server
//! over MCP, and `cli` (on by default) the binary; `testing` adds the suite of tests for stores. The other crates of the
//! workspace are internal, without a semver promise; `ARCHITECTURE.md` tells what each of them holds, and `docs/embedding.md`
//! is the guide.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use midex::{
//!     App, Code, Config, ExecutionId, ExecutionTurn, LifecycleAction, LifecycleChange, ListRequest,
//!     Options, Report, SignalRequest, State, StepStatus, SteadyClock, SystemIds, Turn,
//!     store::MemoryStore,
//!     workflow::{Step, Workflow},
//! };
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> midex::Result<()> {
//! let review = Workflow::new("review")
//!     .description("Review a text as soon as it is there")
//!     .step(Step::wait(json!({ "signal": "text" })).id("text"))
//!     .step(Step::guidance("Review: ${{ steps.text.output }}").id("review").result(true));
//! let config = Config::new(Some("unused".into()))?;
//! let app = App::with_options(Options {
//!     definitions: vec![review],
//!     store: Some(Arc::new(MemoryStore::new())),
//!     ..Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds))
//! });
//! let id = ExecutionId::parse("review-1")?;
//! app.start("review", Some(id.clone()), None, None).await?;
//! app.command(&id, SignalRequest::new("text", json!("Once upon a time"))).await?;
//!
//! // The step of a model has a single-use token. Sent again with the same result, it gets the same answer.
//! let ExecutionTurn { turn: Turn::Model(step), .. } = app.turn(&id, Duration::from_secs(5)).await?
//! else {
//!     panic!("a model has to act");
//! };
//! let token = step.continuation_token.expect("an open step has a token");
//! app.next_step(&token, Report::Output(json!("It is short."))).await?;
//! assert_eq!(app.status(&id).await?.state, State::Completed.as_str());
//! let history = app.history(&id).await?;
//! assert_eq!(history[1].status, StepStatus::Completed.as_str());
//!
//! let pause = LifecycleChange { action: LifecycleAction::Pause, reason: None };
//! let refused = app.command(&id, pause).await.expect_err("it has ended");
//! assert_eq!(refused.code(), Code::StateTransitionRefused);
//! assert_eq!(app.list(ListRequest::default()).await?.executions.len(), 1);
//! assert_eq!(app.delete(&id).await?, [id]);
//! app.stop().await
//! # }
//! ```
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
//! 9. *No tool depends on which process, connection or client session calls it.* Which tools of workflows are listed depends
//!    on the project alone.
//! 10. *A panic anywhere becomes an answer, not silence.* An execution that cannot be woken counts as paused,
//!     with `engine_fault`, until a resume forgives it.

pub use midex_domain::{
    Definition, ExecutionId, StepId, Token, WorkflowName,
    clock::{Clock, IdSource, SteadyClock, SystemClock, SystemIds, Timestamp},
    error::{Code, Error, FailureCode, Result, Violation},
    event::PauseReason,
    execution::{LifecycleAction, LifecycleChange, Report, Resolution, SignalRequest, Submission},
    finding::Finding,
    state::{State, StepStatus},
};
pub use midex_domain::{limits, offer::StepOption, span::HumanDuration};
pub use midex_registry::{Registry, Sources, WorkflowEntry};
pub use midex_server::{
    app::{App, Environment, ExecutionTurn, ListRequest, OpenWork, Options, Turn},
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
        Activities, Activity, Context, Function, Middleware, NextRun, Node, NodeActivity, Outcome,
        RetryPolicy, TypedActivity, activity, function, node,
    };
}

/// The engine alone: definitions in memory, a store of your choice.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use midex::{
///     ExecutionId, Registry, Report, Sources, SystemClock, SystemIds,
///     engine::{Cleanup, Engine, Options, Retention, StartRequest},
///     store::MemoryStore,
///     workflow::{Step, Workflow},
/// };
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> midex::Result<()> {
/// let answer = Workflow::new("answer").description("d").step(Step::guidance("Answer.").id("a"));
/// let sources = Sources { program: vec![answer].into(), ..Sources::default() };
/// let definition = Registry::load(&sources).definition("answer")?;
///
/// let store = Arc::new(MemoryStore::new());
/// let hour = Some(Duration::from_secs(3_600));
/// let engine = Engine::new(Options {
///     retention: Some(Retention { ttl: hour, ..Retention::default() }),
///     ..Options::new(store, Arc::new(SystemClock), Arc::new(SystemIds))
/// })
/// .await?;
/// let started = engine.start(StartRequest::new(definition)).await?;
/// let id = ExecutionId::parse(&started.execution_id)?;
/// let mut events = engine.events(&id).await?;
/// let token = started.new_token.expect("an open step has a token");
/// let ended = engine.advance(&token, Report::Output(json!({ "summary": "42" }))).await?;
/// assert_eq!(ended.workflow_state, "completed");
/// let mut types = Vec::new();
/// while let Some(event) = events.next().await? {
///     types.push(event.event_type.as_str());
/// }
/// assert_eq!(types.first().zip(types.last()), Some((&"workflow_created", &"workflow_completed")));
/// assert_eq!(engine.clean_up(Cleanup { keep: Some(0), older_than: None }).await?, 1);
/// engine.stop().await
/// # }
/// ```
pub mod engine {
    pub use midex_engine::{
        Cleanup, DurableExecution, Engine, ExecutionEvents, Options, PrunePlan, PruneReport,
        PruneRule, Retention, StartRequest, StoreStats,
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

/// Orchestrator tools: one tool leads a model through a workflow, with a prompt for each turn (`expose.orchestrator` of a
/// workflow). Here are the names that they share with tools of your own, and the directory of mcp-workflow.
///
/// ```
/// use midex::{
///     App, Config, Environment, Options, SteadyClock, SystemIds,
///     activity::{Activities, Node, Outcome, node},
///     orchestrator::{USER_INPUT, WORKFLOW_STATE_DATA},
///     workflow::{Step, Workflow},
/// };
/// use serde_json::json;
///
/// #[derive(schemars::JsonSchema, serde::Deserialize)]
/// struct State {
///     name: String,
/// }
///
/// struct Greet;
///
/// impl Node for Greet {
///     type State = State;
///
///     fn name(&self) -> &str {
///         "Greet"
///     }
///
///     fn execute(&self, state: &State) -> Outcome {
///         Ok(json!({ "greeting": format!("Hello {}", state.name) }))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> midex::Result<()> {
/// let greet = Workflow::new("greet")
///     .description("Greets somebody")
///     .input("name", json!({ "type": "string" }))
///     .step(Step::activity("Greet"))
///     .set("memory", json!({ "greeting": null }))
///     .final_output("${{ memory.greeting }}")
///     .set("expose", json!({ "orchestrator": { "tool_id": "greeter" } }));
/// let config = Config::new(Some("unused".into()))?;
/// let app = App::with_options(Options {
///     activities: Activities::default().with_activity(node(Greet))?,
///     definitions: vec![greet],
///     environment: Environment::Test,
///     ..Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds))
/// });
/// app.check_definitions().await?;
/// # use std::sync::Arc;
/// // A client of `midex::mcp::Server` calls the tool `greeter` with these two arguments.
/// assert_eq!((USER_INPUT, WORKFLOW_STATE_DATA), ("userInput", "workflowStateData"));
/// app.stop().await
/// # }
/// ```
pub mod orchestrator {
    pub use midex_domain::orchestrator::{
        EXTRACTED_PROPERTIES, USER_INPUT, USER_UTTERANCE, WORKFLOW_STATE_DATA, WorkflowStateData,
    };
    #[cfg(feature = "mcp")]
    pub use midex_mcp::WorkflowTool;
    pub use midex_server::well_known::{
        WELL_KNOWN_DIR_NAME, well_known_directory_path, workflow_logs_path,
        workflow_state_store_path,
    };
}

/// Operations of your own program in the place of the user's catalogs: [`Options::operations`].
///
/// ```
/// use midex::{
///     activity::OperationFailure,
///     activity::BoxFuture,
///     operation::{EffectOutput, OperationCall, Operations, Outcome},
/// };
/// use serde_json::json;
///
/// /// `run: 'shop price'` of a workflow.
/// #[derive(Debug)]
/// struct Shop;
///
/// impl Operations for Shop {
///     fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
///         Box::pin(async move {
///             match &*call.operation {
///                 "price" => Ok(EffectOutput::Output(json!({ "price": 12 }))),
///                 other => Err(OperationFailure::new("not_found", format!("no operation {other}"))),
///             }
///         })
///     }
///
///     fn is_safe(&self, _catalog: &str, operation: &str) -> bool {
///         operation == "price"
///     }
///
///     fn has_catalog(&self, catalog: &str) -> bool {
///         catalog == "shop"
///     }
/// }
/// ```
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
        ExaminationProgress, ExaminedPortion, Import, ListPage, ListQuery, LoadedExecution,
        MemoryStore, Options, PastChange, PlacedEntry, Position, RedbStore, RefusedCall, Store,
        StoreSizes, TelemetryEntry, TelemetryQuery, find_named_contents, find_row_contents,
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

/// What the use cases answer. Each type is the answer of a method of [`App`] or a part of one, and serialises to the JSON that
/// the tools of midex answer with.
///
/// ```
/// use midex::view::{HistoryRow, StatusView};
///
/// fn count_failed_attempts(status: &StatusView, history: &[HistoryRow]) -> (String, usize) {
///     let failed = history.iter().filter(|row| row.status == "failed").count();
///     (format!("{} is {}", status.execution_id, status.state), failed)
/// }
/// ```
pub mod view {
    pub use midex_domain::view::{
        AdvanceReply, ArtifactContent, ArtifactView, CurrentStep, ExecutionPage, FailureView,
        GateView, GraphView, HistoryRow, ProgressView, ReadyStep, SignalView, StatusView,
        StepCounts, StepView, TelemetryEvent, WaitView,
    };
}

/// The server over MCP: on the process's own streams with [`relay_stdio`](mcp::relay_stdio) or
/// [`serve_stdio`](mcp::serve_stdio), or over any pair of streams.
///
/// ```
/// use std::sync::Arc;
///
/// use midex::{
///     App, Config, Options, SteadyClock, SystemIds,
///     mcp::{LineTransport, Server, ToolNames, ToolProfile, Toolset, Toolsets, serve},
///     store::MemoryStore,
/// };
/// use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::new(Some("unused".into()))?;
/// let app = App::with_options(Options {
///     store: Some(Arc::new(MemoryStore::new())),
///     ..Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds))
/// });
/// let profile = ToolProfile {
///     toolsets: Toolsets::from_toolset(Toolset::Run),
///     tool_names: ToolNames::Dotted,
/// };
/// let server = Server::new(Arc::new(app)).with_profile(profile);
/// let (client, streams) = tokio::io::duplex(1 << 16);
/// let (input, output) = tokio::io::split(streams);
/// let stop = CancellationToken::new();
/// let served = tokio::spawn(serve(server, LineTransport::new(input, output), stop.clone()));
///
/// let (lines, mut requests) = tokio::io::split(client);
/// requests.write_all(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await?;
/// requests.write_all(b"\n").await?;
/// let mut answer = String::new();
/// BufReader::new(lines).read_line(&mut answer).await?;
/// assert!(answer.contains(r#""id":1"#), "{answer}");
/// stop.cancel();
/// served.await??;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "mcp")]
pub mod mcp {
    pub use midex_mcp::{
        Beside, LineTransport, Process, Server, ToolNames, ToolProfile, Toolset, Toolsets,
        relay_stdio, serve, serve_stdio,
    };
}
