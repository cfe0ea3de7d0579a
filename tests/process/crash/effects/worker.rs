//! The process that is killed: midex with activities that write down what they do.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use midex_domain::{
    clock::{SteadyClock, SystemIds},
    execution::OperationFailure,
};
use midex_engine::activity::{Activities, Context, Function, Outcome, function};
use midex_mcp::{self as mcp, Server};
use midex_server::{
    app::{App, Options},
    config::{Config, TrustedProjects},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The environment variable that names the directory of the worker.
pub(super) const HOME: &str = "MIDEX_TEST_EFFECTS_HOME";
/// The one that says which process it is, from 1.
pub(super) const PROCESS: &str = "MIDEX_TEST_EFFECTS_PROCESS";
/// The longest time that an activity takes.
const TAKES_MILLISECONDS_MAX: u64 = 30;

/// Where activities write down what they do.
pub(super) fn log_of(home: &Path) -> PathBuf {
    home.join("effects.log")
}

/// Serves standard input and output until the client goes, or until the end of the process.
pub(super) fn work(home: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(serve(home)).unwrap();
}

async fn serve(home: &Path) -> midex_domain::error::Result<()> {
    let mut config = Config::new(Some(home.join("data")))?;
    home.clone_into(&mut config.project_dir);
    config.trust = TrustedProjects::Everything;
    let options = Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds));
    let log = log_of(home);
    let activities = Activities::default()
        .with_activity(noting("once", log.clone(), |_| Ok(json!("done"))))?
        .with_activity(noting("again", log.clone(), |_| Ok(json!("done"))).as_idempotent())?
        .with_activity(noting("flaky", log.clone(), flaky).as_idempotent())?
        .with_activity(
            noting("broken", log.clone(), |_| Err(OperationFailure::new("broken", "it broke")))
                .as_idempotent(),
        )?
        .with_activity(noting("undo", log.clone(), |_| Ok(json!("done"))))?
        .with_activity(noting("undo_again", log.clone(), |_| Ok(json!("done"))).as_idempotent())?
        .with_activity(noting("mark", log, |_| Ok(json!("done"))))?;
    let app = Arc::new(App::with_options(Options { activities, ..options }));
    app.engine().await?;
    mcp::serve_stdio(Server::new(app.clone()), CancellationToken::new()).await?;
    app.stop().await
}

/// The first attempt fails.
fn flaky(context: &Context) -> Outcome {
    match context.attempt {
        1 => Err(OperationFailure::new("network", "cut").as_retryable()),
        _ => Ok(json!("done")),
    }
}

type Running = midex_engine::activity::BoxFuture<'static, Outcome>;
type Work = Box<dyn Fn(Context) -> Running + Send + Sync>;

/// An activity that writes down when it begins and when it ends, and takes a while between.
fn noting(name: &str, log: PathBuf, outcome: fn(&Context) -> Outcome) -> Function<Work> {
    // What stands beside the work of a step is not that.
    let beside = match name {
        "undo" | "undo_again" => "/undo",
        "mark" => "/mark",
        _ => "",
    };
    let work = move |context: Context| -> Running {
        let log = log.clone();
        Box::pin(async move {
            note(&log, &context, beside, "begun").await;
            // The key is as random as the ids of executions, and the same in every run of a seed.
            let spread = u64::from_str_radix(&context.idempotency_key[..4], 16).unwrap();
            let takes = Duration::from_millis(1 + spread % TAKES_MILLISECONDS_MAX);
            tokio::time::sleep(takes).await;
            let outcome = outcome(&context);
            let word = if outcome.is_ok() { "done" } else { "failed" };
            note(&log, &context, beside, word).await;
            outcome
        })
    };
    function(name, Box::new(work) as Work)
}

/// One line, on the disk before anything else happens. It begins with its line break: a kill may leave half a line, and
/// that one must not run into the next.
async fn note(log: &Path, context: &Context, beside: &str, word: &str) {
    let process = std::env::var(PROCESS).unwrap();
    let item = context.item.map_or_else(|| "-".to_owned(), |item| item.to_string());
    let Context { execution_id, step, visit, attempt, idempotency_key, .. } = context;
    let line = format!(
        "\n{process} {execution_id} {step}{beside} {visit} {item} {attempt} {idempotency_key} {word}"
    );
    let log = log.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let mut log = OpenOptions::new().create(true).append(true).open(log)?;
        log.write_all(line.as_bytes())?;
        log.sync_data()
    });
    written.await.unwrap().unwrap();
}
