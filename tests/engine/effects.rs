//! What the server does itself, and what time brings: activities, retries, crashes, timers and signals. Under paused
//! time: not one real second is slept, and every instant is exact.

mod absent;
mod activities;
mod attachments;
mod bundles;
mod children;
mod compensation;
mod control;
mod corners;
mod crash;
mod diff;
mod fence;
mod forks;
mod hooks;
mod known_faults;
mod offered;
mod operations;
mod pace;
mod pages;
mod purge;
mod resolve;
mod retries;
mod timers;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use midex_domain::{
    Definition, ExecutionId, LifecycleAction,
    clock::{Clock, SeededIds},
    execution::{OperationFailure, SignalRequest},
    operation::Operations,
    view::{AdvanceReply, HistoryRow, StatusView},
};
use midex_engine::{
    Engine, Options, Secrets, StartRequest,
    activity::{Activities, Activity, Context, Function, Outcome, function},
    store::{Store, contract::FailingStore},
};
use midex_test::{
    EPOCH, TokioClock,
    play::{self, Calls, id as named},
};
use serde_json::{Value, json};

/// The one execution of most tests.
fn id() -> ExecutionId {
    named("e")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A definition of these steps and whatever else its workflow says.
fn defined(steps: Value, more: Value) -> Arc<Definition> {
    let mut workflow = json!({ "name": "effects", "description": "A test", "steps": steps });
    for (key, value) in more.as_object().into_iter().flatten() {
        workflow[key] = value.clone();
    }
    let persona = json!({ "name": "worker", "content": "You work." });
    let text = json!({ "workflow": workflow, "personas": { "worker": persona } });
    Arc::new(Definition::decode(text.to_string().as_bytes()).expect("a definition"))
}

/// A step that does an activity of the same name, after the step that is named, and whatever else it says.
fn activity(name: &str, after: Option<&str>, more: Value) -> Value {
    step(name, after, json!({ "activity": { "name": name } }), more)
}

fn step(id: &str, after: Option<&str>, kind: Value, more: Value) -> Value {
    let mut step =
        json!({ "id": id, "kind": kind, "depends_on": after.into_iter().collect::<Vec<_>>() });
    for (key, value) in more.as_object().into_iter().flatten() {
        step[key] = value.clone();
    }
    step
}

/// One step, `each`, which does this activity with every item.
fn each(name: &str, items: &[usize], parallel: usize, more: Value) -> Value {
    let body = step("each", None, json!({ "activity": { "name": name } }), more);
    let each = json!({ "items": items, "alias": "item", "parallel": parallel, "body": body });
    json!([step("each", None, json!({ "foreach": each }), json!({}))])
}

/// What activities did, and when.
#[derive(Clone)]
struct Log {
    clock: TokioClock,
    lines: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Log {
    fn new() -> Self {
        Self { clock: TokioClock::starting_at(EPOCH), lines: Arc::default() }
    }

    fn note(&self, line: impl Into<String>) {
        let at = self.clock.now().since(EPOCH);
        self.lines.lock().expect("a log").push((line.into(), at));
    }

    fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().expect("a log");
        lines.iter().map(|(line, _)| line.clone()).collect()
    }

    /// When each line was noted, in seconds since the test began.
    fn at(&self) -> Vec<f64> {
        let lines = self.lines.lock().expect("a log");
        lines.iter().map(|(_, at)| at.as_secs_f64()).collect()
    }

    /// How much time has passed.
    fn passed(&self) -> Duration {
        self.clock.now().since(EPOCH)
    }

    /// An activity that notes each attempt, takes `takes` and answers what `answers` says of the attempt.
    fn activity(
        &self,
        name: &str,
        takes: Duration,
        answers: impl Fn(&Context) -> Outcome + Clone + Send + Sync + 'static,
    ) -> Function<Work> {
        let (log, name) = (self.clone(), name.to_owned());
        let title = name.clone();
        let work = move |context: Context| -> Running {
            let (log, name, answers) = (log.clone(), name.clone(), answers.clone());
            Box::pin(async move {
                log.note(format!("{name} {}", context.attempt));
                let broken_off = BrokenOff(log.clone(), name.clone());
                tokio::time::sleep(takes).await;
                std::mem::forget(broken_off);
                answers(&context)
            })
        };
        function(title, Box::new(work) as Work)
    }
}

type Running = midex_engine::activity::BoxFuture<'static, Outcome>;
type Work = Box<dyn Fn(Context) -> Running + Send + Sync>;

/// Notes that an activity was dropped before its end.
struct BrokenOff(Log, String);

impl Drop for BrokenOff {
    fn drop(&mut self) {
        self.0.note(format!("{} broken off", self.1));
    }
}

fn fails(class: &str) -> Outcome {
    Err(OperationFailure::new(class, "it failed").as_retryable())
}

/// An engine on a store of its own.
async fn engine(log: &Log, activities: Activities) -> Engine {
    engine_on(Arc::new(FailingStore::default()), log.clock, activities).await
}

async fn engine_on(store: Arc<dyn Store>, clock: TokioClock, activities: Activities) -> Engine {
    let options = Options { activities, ..options(store, clock) };
    Engine::new(options).await.expect("an engine")
}

/// What an engine needs at least.
fn options(store: Arc<dyn Store>, clock: TokioClock) -> Options {
    Options::new(store, Arc::new(clock), Arc::new(SeededIds::new(1)))
}

/// An engine that has these operations and a secret, `KEY`.
async fn operating(
    store: Arc<dyn Store>,
    clock: TokioClock,
    operations: impl Operations + 'static,
) -> Engine {
    let options = Options {
        operations: Arc::new(operations),
        secrets: Secrets::from_iter([("KEY".to_owned(), "hunter2-hunter2".to_owned())]),
        ..options(store, clock)
    };
    Engine::new(options).await.expect("an engine")
}

/// These activities and no others.
fn only<A: Activity + 'static, const N: usize>(activities: [A; N]) -> Activities {
    let all = Activities::default();
    let with = |all: Activities, one| all.with_activity(one).expect("a name of its own");
    activities.into_iter().fold(all, with)
}

/// An engine with these activities, on which these steps have begun.
async fn started<const N: usize>(
    log: &Log,
    activities: [Function<Work>; N],
    steps: Value,
) -> Engine {
    let engine = engine(log, only(activities)).await;
    begin(&engine, defined(steps, json!({})), json!({})).await;
    engine
}

/// An engine with these activities, on which what these lines of a manifest say has begun.
async fn told<const N: usize>(log: &Log, activities: [&str; N], lines: &str) -> Engine {
    told_of(log, activities, lines, |_, context| Ok(json!({ "did": context.input }))).await
}

/// The same, where `answers` says what the activity of this name brings.
async fn told_of<const N: usize>(
    log: &Log,
    activities: [&str; N],
    lines: &str,
    answers: impl Fn(&str, &Context) -> Outcome + Clone + Send + Sync + 'static,
) -> Engine {
    let all = activities.map(|name| {
        let (named, answers) = (name.to_owned(), answers.clone());
        log.activity(name, seconds(1), move |context| answers(&named, context))
    });
    let engine = engine(log, only(all)).await;
    let definition = play::defined_with(lines, &activities);
    begin(&engine, definition, json!({})).await;
    engine
}

/// The same, where the activity `broken` fails.
async fn broken_at<const N: usize>(
    broken: &'static str,
    log: &Log,
    activities: [&str; N],
    lines: &str,
) -> Engine {
    told_of(log, activities, lines, move |name, context| {
        if name == broken {
            return Err(OperationFailure::new("broken", "it broke"));
        }
        Ok(json!({ "did": context.input }))
    })
    .await
}

/// What was done beside the work of steps: the hook or `compensate`, the step, where it came to, and what it had for input.
async fn beside(engine: &Engine) -> Vec<String> {
    let rows = history(engine).await.into_iter();
    let beside = rows.filter_map(|row| {
        let body = row.body?;
        let item = row.item.map(|item| format!("[{item}]")).unwrap_or_default();
        let visit = row.visit;
        Some(format!("{body} of {}{item} {visit}: {}", row.step_name, row.status))
    });
    beside.collect()
}

/// Sends a signal, which is kept or taken.
async fn signalled(engine: &Engine, name: &str, payload: Value) -> StatusView {
    let signal = SignalRequest::new(name, payload);
    engine.commanded(signal).await
}

async fn begin(engine: &Engine, definition: Arc<Definition>, inputs: Value) -> AdvanceReply {
    begin_as(engine, "e", definition, inputs).await
}

async fn begin_as(
    engine: &Engine,
    name: &str,
    definition: Arc<Definition>,
    inputs: Value,
) -> AdvanceReply {
    let request = StartRequest { inputs: Some(inputs), ..play::request(definition, name) };
    engine.start(request).await.expect("a start")
}

async fn change(engine: &Engine, lifecycle: LifecycleAction) -> StatusView {
    engine.changed("e", lifecycle).await
}

async fn advance(engine: &Engine, token: &str) -> AdvanceReply {
    engine.finish(token, "done").await
}

/// The status as soon as it satisfies `wanted`.
async fn until(engine: &Engine, wanted: impl Fn(&StatusView) -> bool) -> StatusView {
    let mut status = engine.status_now("e").await;
    for _ in 0..1000 {
        if wanted(&status) {
            return status;
        }
        status = engine.wait(&id(), Some(status.revision), seconds(20)).await.expect("a status");
    }
    panic!("it never came to that: {status:?}");
}

async fn until_state(engine: &Engine, state: &str) -> StatusView {
    until(engine, |status| status.state == state).await
}

/// The status as soon as this step is open.
async fn until_step(engine: &Engine, step: &str) -> StatusView {
    until(engine, |status| status.current_step.as_deref() == Some(step)).await
}

async fn history(engine: &Engine) -> Vec<HistoryRow> {
    engine.history_now("e").await
}

/// The output of a step's last visit.
async fn output_of(engine: &Engine, step: &str) -> Value {
    let rows = history(engine).await;
    let row = rows.into_iter().rev().find(|row| row.step_name == step && row.item.is_none());
    row.and_then(|row| row.output).unwrap_or_default()
}

/// Holds the output of a step's last visit to this one.
async fn brought(engine: &Engine, step: &str, output: Value) {
    assert_eq!(output_of(engine, step).await, output, "{step}");
}

/// What the execution failed with.
fn failure(status: &StatusView) -> String {
    let error = status.error.as_ref().expect("a failure");
    serde_json::to_value(error).expect("JSON")["code"].as_str().expect("a code").to_owned()
}
