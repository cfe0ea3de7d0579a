//! Tests of the library as an embedding program uses it: typed activities, lifecycle methods, middleware and stores.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use midex::{
    App, Config, ExecutionId, Options, Report,
    activity::{
        Activities, Activity, BoxFuture, Context, Middleware, NextRun, OperationFailure, Outcome,
        RetryPolicy, activity, function,
    },
    store::{MemoryStore, Store},
    workflow::{Step, Workflow},
};
use midex_domain::clock::{SeededIds, SystemClock};
use midex_server::config::TrustedProjects;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::line_client::LineClient;

/// A program with a workflow `w` of these steps, and a store in memory.
struct Program {
    home: TempDir,
    options: Options,
}

impl Program {
    fn new(steps: &str) -> Self {
        let home = TempDir::new().unwrap();
        let text = format!("workflow: w\ndescription: d\nsteps:\n{steps}");
        std::fs::create_dir_all(home.path().join("workflows")).unwrap();
        std::fs::write(home.path().join("workflows/w.yaml"), text).unwrap();
        let mut config = Config::new(Some(home.path().join("data"))).unwrap();
        home.path().clone_into(&mut config.project_dir);
        config.trust = TrustedProjects::Everything;
        let options = Options::new(config, Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Self { home, options: Options { store: Some(store), ..options } }
    }

    fn with_activity(mut self, activity: impl Activity + 'static) -> Self {
        self.options.activities = self.options.activities.with_activity(activity).unwrap();
        self
    }

    fn with_middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        self.options.middleware.push(Arc::new(middleware));
        self
    }

    fn app(&self) -> App {
        App::with_options(self.options.clone())
    }

    /// The state of an execution of `w` at its end, and its failure: the class or code, and the message.
    async fn run(&self) -> (String, Option<Value>, Option<String>) {
        let app = self.app();
        let id = ExecutionId::parse("e").unwrap();
        app.start("w", Some(id.clone()), None, None).await.unwrap();
        let turn = app.turn(&id, Duration::from_secs(20)).await.unwrap();
        let status = turn.status;
        (status.state, status.final_output, status.error.map(|error| error.message))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Sum {
    one: i64,
    other: i64,
}

#[derive(Serialize, JsonSchema)]
struct Total {
    total: i64,
}

fn add() -> impl Activity {
    activity("add", async |_, sum: Sum| Ok(Total { total: sum.one + sum.other }))
}

#[tokio::test]
async fn a_typed_activity_gets_and_returns_its_types() {
    let steps = "  - { id: a, activity: add, with: { one: 3, other: 4 } }\nfinal_output: '${{ steps.a }}'\n";
    let (state, output, error) = Program::new(steps).with_activity(add()).run().await;
    assert_eq!((&*state, output), ("completed", Some(json!({ "total": 7 }))), "{error:?}");
}

#[tokio::test]
async fn what_a_file_passes_is_checked_against_the_type() {
    let steps = "  - { id: a, activity: add, with: { one: three } }\n  - { id: b, activity: add, with: { one: '${{ steps.a.total }}', other: 1 } }\n";
    let program = Program::new(steps).with_activity(add());
    let refused = program.app().start("w", None, None, None).await.unwrap_err();
    let payload = serde_json::to_value(refused.to_payload("correlation")).unwrap();
    let violations = payload["violations"].as_array().unwrap();
    let paths: Vec<_> = violations.iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["steps[0].with", "steps[0].with.one"], "{payload}");
    assert!(payload.to_string().contains("other"), "{payload}");
}

#[tokio::test]
async fn values_that_come_only_at_run_time_are_checked_then() {
    let steps = "  - { id: a, activity: word }\n  - { id: b, activity: add, with: { one: '${{ steps.a }}', other: 1 } }\n";
    let word = function("word", |_| async { Ok(json!("seven")) });
    let program = Program::new(steps).with_activity(word).with_activity(add());
    let (state, _, error) = program.run().await;
    let error = error.unwrap();
    assert_eq!(state, "failed");
    assert!(error.contains("the input of activity 'add' breaks its schema in 1 place"), "{error}");
    assert!(error.contains("/one"), "{error}");
}

/// An activity with these schemas that answers with its input.
struct Echo {
    input: Option<Value>,
    output: Option<Value>,
}

impl Activity for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn input_schema(&self) -> Option<Value> {
        self.input.clone()
    }

    fn output_schema(&self) -> Option<Value> {
        self.output.clone()
    }

    fn run(&self, context: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { Ok(context.input) })
    }
}

#[tokio::test]
async fn an_output_that_breaks_its_schema_is_a_failure() {
    let steps = "  - { id: a, activity: echo, with: { n: 1 } }\n";
    let echo = Echo { input: None, output: Some(json!({ "type": "string" })) };
    let (state, _, error) = Program::new(steps).with_activity(echo).run().await;
    let error = error.unwrap();
    assert_eq!(state, "failed");
    assert!(error.contains("the output of activity 'echo' breaks its schema"), "{error}");
}

#[test]
fn a_schema_that_is_none_is_refused_with_its_activity() {
    let echo = Echo { input: Some(json!({ "type": "nothing" })), output: None };
    let refused = Activities::default().with_activity(echo).unwrap_err();
    let message = refused.message();
    assert!(message.contains("the schema of the input of activity 'echo'"), "{message}");
}

/// Notes what passes, and does what its name says.
#[derive(Debug)]
struct Note {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Middleware for Note {
    fn run<'a>(&'a self, mut context: Context, next: NextRun<'a>) -> BoxFuture<'a, Outcome> {
        let note = |line: String| self.lines.lock().unwrap().push(line);
        Box::pin(async move {
            note(format!("{} before {}", self.name, next.activity_name()));
            match self.name {
                "refuses" => return Err(OperationFailure::new("refused", "not today")),
                "panics" => panic!("it is broken"),
                "changes" => context.input = json!({ "changed": true }),
                _ => {}
            }
            let outcome = next.run(context).await;
            note(format!("{} after {}", self.name, outcome.as_ref().unwrap()));
            outcome
        })
    }
}

async fn run_with(names: &[&'static str]) -> (String, Option<Value>, Option<String>, Vec<String>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let steps = "  - { id: a, activity: echo, with: { n: 1 } }\nfinal_output: '${{ steps.a }}'\n";
    let mut program = Program::new(steps).with_activity(Echo { input: None, output: None });
    for name in names {
        program = program.with_middleware(Note { name, lines: lines.clone() });
    }
    let (state, output, error) = program.run().await;
    let lines = lines.lock().unwrap().clone();
    (state, output, error, lines)
}

#[tokio::test]
async fn middleware_runs_around_each_attempt_in_its_order() {
    let (state, output, _, lines) = run_with(&["outer", "changes", "inner"]).await;
    assert_eq!((&*state, output), ("completed", Some(json!({ "changed": true }))));
    let changed = r#"{"changed":true}"#;
    let expected = [
        "outer before echo".to_owned(),
        "changes before echo".to_owned(),
        "inner before echo".to_owned(),
        format!("inner after {changed}"),
        format!("changes after {changed}"),
        format!("outer after {changed}"),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn middleware_that_refuses_or_panics_fails_the_attempt_alone() {
    let (state, _, error, lines) = run_with(&["refuses", "inner"]).await;
    assert_eq!((&*state, error.as_deref()), ("failed", Some("not today")));
    assert_eq!(lines, ["refuses before echo"]);
    let (state, _, error, _) = run_with(&["panics"]).await;
    assert_eq!((&*state, error.as_deref()), ("failed", Some("it panicked: it is broken")));
}

#[tokio::test]
async fn a_server_over_a_store_in_memory_reads_and_writes_no_directory() {
    let program = Program::new("  - { id: ask, guidance: Say yes., result: {} }\n");
    let app = program.app();
    let client = LineClient::new(&app);
    let started = client.done("workflow.start", json!({ "workflow_name": "w" })).await;
    let next = json!({ "token": started["new_token"], "output": "yes" });
    let ended = client.done("workflow.next_step", next).await;
    assert_eq!(ended["workflow_state"], "completed", "{ended}");
    assert!(!program.home.path().join("data").exists());

    // The program reaches the same executions without the server.
    let id = ExecutionId::parse(started["execution_id"].as_str().unwrap()).unwrap();
    assert_eq!(app.status(&id).await.unwrap().state, "completed");
    let token = started["new_token"].as_str().unwrap();
    let again = app.next_step(token, Report::Output(json!("yes"))).await.unwrap();
    assert!(again.replayed);
    app.stop().await.unwrap();
}

type Notes = tokio::sync::mpsc::UnboundedReceiver<String>;

/// Notes what its lifecycle methods are told, and does what the input says.
struct Observed {
    notes: tokio::sync::mpsc::UnboundedSender<String>,
}

impl Observed {
    fn new() -> (Self, Notes) {
        let (notes, received) = tokio::sync::mpsc::unbounded_channel();
        (Self { notes }, received)
    }

    fn note(&self, line: String) -> BoxFuture<'_, ()> {
        self.notes.send(line).unwrap();
        Box::pin(std::future::ready(()))
    }
}

impl Activity for Observed {
    fn name(&self) -> &'static str {
        "observed"
    }

    fn run(&self, context: Context) -> BoxFuture<'_, Outcome> {
        let Context { workflow, step, step_number, step_count, attempt, timeout, .. } = &context;
        let place = format!("{workflow} {step} {step_number}/{step_count} {attempt} {timeout:?}");
        let outcome = match (context.input["fails"].as_u64(), u64::from(context.attempt)) {
            (Some(times), attempt) if attempt <= times => {
                Err(OperationFailure::new("odd", "no luck").as_retryable())
            }
            _ => Ok(json!(place)),
        };
        Box::pin(std::future::ready(outcome))
    }

    fn on_success<'a>(&'a self, context: &'a Context, output: &'a Value) -> BoxFuture<'a, ()> {
        assert!(context.input.is_null());
        let note = self.note(format!("success {} {output}", context.attempt));
        if context.timeout.is_some() { note } else { Box::pin(std::future::pending()) }
    }

    fn on_failure<'a>(
        &'a self,
        context: &'a Context,
        failure: &'a OperationFailure,
    ) -> BoxFuture<'a, ()> {
        let note = self.note(format!("failure {} {}", context.attempt, failure.message));
        Box::pin(async {
            note.await;
            panic!("nobody is harmed by this");
        })
    }

    fn on_complete<'a>(&'a self, context: &'a Context) -> BoxFuture<'a, ()> {
        self.note(format!("complete {}", context.attempt))
    }
}

#[tokio::test]
async fn lifecycle_methods_are_told_of_each_recorded_attempt_and_change_nothing() {
    let steps = "  - { id: before, set: { n: 1 } }\n  - { id: a, activity: observed, with: { fails: 1 }, timeout: 20s, retry: { max_attempts: 3, backoff: 1ms } }\nfinal_output: '${{ steps.a }}'\n";
    let (observed, mut notes) = Observed::new();
    let program = Program::new(steps).with_activity(observed);
    let (state, output, error) = program.run().await;
    assert_eq!((&*state, error), ("completed", None));
    assert_eq!(output, Some(json!("w a 2/2 2 Some(20s)")));
    for expected in
        ["failure 1 no luck", "complete 1", "success 2 \"w a 2/2 2 Some(20s)\"", "complete 2"]
    {
        assert_eq!(notes.recv().await.as_deref(), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lifecycle_method_that_never_ends_is_dropped() {
    let (observed, mut notes) = Observed::new();
    let program =
        Program::new("  - { id: a, activity: observed, with: {} }\n").with_activity(observed);
    let (state, ..) = program.run().await;
    assert_eq!(state, "completed");
    assert!(notes.recv().await.unwrap().starts_with("success 1"));
    let limit = midex_domain::limits::ACTIVITY_HOOK_MAX;
    let early = tokio::time::timeout(limit / 2, notes.recv()).await;
    assert!(early.is_err(), "{early:?}");
    let dropped = tokio::time::timeout(limit, notes.recv()).await.unwrap();
    assert_eq!(dropped.as_deref(), Some("complete 1"));
}

/// An activity that counts its runs in the memory of the execution.
fn count() -> impl Activity {
    function("count", async |context: Context| {
        let last = context.read_memory("runs").await?.and_then(|value| value.as_u64());
        let (runs, before) = (last.unwrap_or(0) + 1, context.read_memory("first").await?);
        context.write_memory("runs", runs)?;
        assert_eq!(
            context.read_memory("runs").await?,
            Some(json!(runs)),
            "a run reads what it wrote"
        );
        context.add_metadata("runs", runs)?;
        if context.input["fails"] == true && context.attempt == 1 {
            return Err(OperationFailure::new("network", "the line was cut").as_retryable());
        }
        Ok(
            json!({ "runs": runs, "before": before, "inputs": context.read_memory("__workflow_input__").await? }),
        )
    })
}

#[tokio::test]
async fn an_activity_reads_and_writes_memory_with_its_output() {
    let program = Program::new(
        "  - { id: first, activity: count }
  - { id: second, activity: count, with: { fails: true }, retry: { max_attempts: 2, backoff: 1ms } }
  - { id: last, set: { runs: '${{ memory.runs }}' } }
final_output: { first: '${{ steps.first.output }}', second: '${{ steps.second.output }}', last: '${{ steps.last.output }}' }
memory: { runs: 0 }
inputs: { name: { default: { from: literal, value: ann } } }
",
    );
    let program = program.with_activity(count());
    let (state, output, failure) = program.run().await;
    assert_eq!((&*state, failure), ("completed", None));
    let output = output.unwrap();
    assert_eq!(output["first"], json!({ "runs": 1, "before": null, "inputs": { "name": "ann" } }));
    let before = json!({ "runs": 1, "before": null, "inputs": { "name": "ann" } });
    // The failed attempt of the second step wrote a value that was dropped.
    assert_eq!(output["second"]["runs"], 2);
    assert_eq!(
        output["second"]["before"], before,
        "the output of a step is in memory under its id"
    );
    assert_eq!(output["last"], json!({ "runs": 2 }));
}

#[tokio::test]
async fn metadata_of_every_attempt_stands_in_the_history() {
    let steps = "  - { id: a, activity: count, with: { fails: true }, retry: { max_attempts: 2, backoff: 1ms } }\nmemory: { runs: 0 }\n";
    let program = Program::new(steps).with_activity(count());
    let app = program.app();
    let id = ExecutionId::parse("e").unwrap();
    app.start("w", Some(id.clone()), None, None).await.unwrap();
    app.turn(&id, Duration::from_secs(20)).await.unwrap();
    let history = app.history(&id).await.unwrap();
    let metadata: Vec<_> = history.iter().map(|row| row.metadata.clone().unwrap()).collect();
    assert_eq!(metadata.len(), 2);
    for metadata in metadata {
        assert_eq!(metadata["runs"], 1);
        assert!(metadata["executionTimeMs"].is_u64(), "{metadata}");
    }
}

#[tokio::test]
async fn what_memory_and_history_do_not_take_fails_the_attempt() {
    async fn message_of(write: fn(&Context) -> Result<(), OperationFailure>) -> String {
        let activity = function("a", move |context: Context| async move {
            write(&context)?;
            Ok(Value::Null)
        });
        let (_, _, failure) =
            Program::new("  - { id: a, activity: a }\n").with_activity(activity).run().await;
        failure.unwrap()
    }
    let long = message_of(|context| context.write_memory("a", "x".repeat(1 << 20))).await;
    assert!(long.contains("`memory.a` may have 1048576 bytes"), "{long}");
    let name = message_of(|context| context.write_memory("a b", 1)).await;
    assert!(name.contains("`a b` cannot be a name in memory"), "{name}");
    let many = message_of(|context| {
        (0..=100).try_for_each(|number| context.write_memory(&format!("n{number}"), number))
    });
    assert!(many.await.contains("100 names"));
    let metadata = message_of(|context| context.add_metadata("a", "x".repeat(4096))).await;
    assert!(metadata.contains("4096 bytes"), "{metadata}");
}

#[tokio::test]
async fn the_defaults_of_an_activity_hold_where_the_step_is_silent() {
    let flaky = || {
        activity("flaky", async |context: Context, _: serde_json::Map<String, Value>| match context
            .attempt
        {
            1 => Err(OperationFailure::new("network", "the line was cut").as_retryable()),
            _ => Ok(context.timeout.map(|timeout| timeout.as_secs())),
        })
        .with_timeout(Duration::from_secs(7))
        .with_retry(RetryPolicy::new(2).with_backoff(Duration::from_millis(1)))
    };
    let run = async |step: &str| Program::new(step).with_activity(flaky()).run().await;
    let (state, output, _) = run("  - { id: a, activity: flaky, with: {} }\n").await;
    assert_eq!((&*state, output), ("completed", Some(json!(7))));
    let (_, output, _) = run("  - { id: a, activity: flaky, with: {}, timeout: 9s }\n").await;
    assert_eq!(output, Some(json!(9)), "the step goes before the activity");
    let once = "  - { id: a, activity: flaky, with: {}, retry: { max_attempts: 1 } }\n";
    assert_eq!(run(once).await.0, "failed");
}

#[tokio::test]
async fn progress_is_shown_while_the_attempt_runs() {
    let (told, wait) = (Arc::new(tokio::sync::Notify::new()), CancellationToken::new());
    let (activity_told, activity_wait) = (told.clone(), wait.clone());
    let activity = function("slow", move |context: Context| {
        let (told, wait) = (activity_told.clone(), activity_wait.clone());
        async move {
            context.report_progress(3, Some(8), "photos");
            told.notify_one();
            wait.cancelled().await;
            Ok(json!(context.time_left().is_none()))
        }
    });
    let program = Program::new("  - { id: a, activity: slow }\n").with_activity(activity);
    let app = program.app();
    let id = ExecutionId::parse("e").unwrap();
    app.start("w", Some(id.clone()), None, None).await.unwrap();
    told.notified().await;
    let status = app.status(&id).await.unwrap();
    let progress = serde_json::to_value(&status.waits[0].progress).unwrap();
    assert_eq!(progress, json!({ "done": 3, "total": 8, "text": "photos" }));
    wait.cancel();
    let turn = app.turn(&id, Duration::from_secs(20)).await.unwrap();
    assert_eq!(turn.status.final_output, Some(json!(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_limit_holds_although_an_activity_never_awaits() {
    let stop = Arc::new(AtomicBool::new(false));
    let (seen, stopped) = (stop.clone(), stop);
    let busy = function("busy", move |_| {
        let seen = seen.clone();
        async move {
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok(Value::Null)
        }
    });
    let program =
        Program::new("  - { id: a, activity: busy, timeout: 50ms }\n").with_activity(busy);
    let (state, _, message) = program.run().await;
    stopped.store(true, Ordering::Relaxed);
    assert_eq!(
        (&*state, message.as_deref()),
        ("failed", Some("timed out: no outcome within 50ms"))
    );
}

#[tokio::test]
async fn an_activity_that_panics_while_it_is_dropped_fails_its_attempt_alone() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "a panic in a destructor");
        }
    }
    let waits = function("waits", |_| async {
        let _guard = PanicsInDrop;
        std::future::pending().await
    });
    let program =
        Program::new("  - { id: a, activity: waits, timeout: 50ms }\n").with_activity(waits);
    let (state, _, message) = program.run().await;
    assert_eq!(
        (&*state, message.as_deref()),
        ("failed", Some("timed out: no outcome within 50ms"))
    );
}

#[tokio::test]
async fn an_output_of_a_hundred_megabytes_is_refused() {
    let long = function("long", |_| async { Ok(Value::from("x".repeat(100 << 20))) });
    let (state, _, message) =
        Program::new("  - { id: a, activity: long }\n").with_activity(long).run().await;
    assert_eq!(state, "failed");
    let message = message.unwrap();
    assert!(message.contains("output"), "{message}");
}

#[test]
fn a_schema_that_is_none_is_refused() {
    struct Odd;
    impl Activity for Odd {
        fn name(&self) -> &'static str {
            "odd"
        }

        fn output_schema(&self) -> Option<Value> {
            Some(json!({ "type": 7 }))
        }

        fn run(&self, _: Context) -> BoxFuture<'_, Outcome> {
            Box::pin(std::future::ready(Ok(Value::Null)))
        }
    }
    let error = Activities::default().with_activity(Odd).expect_err("no schema");
    assert!(error.message().starts_with("the schema of the output of activity 'odd': "), "{error}");
}

#[tokio::test]
async fn memory_and_broken_definitions_are_seen_by_the_program() {
    let mut program = Program::new("  - { id: a, activity: count }\nmemory: { runs: 0 }\n")
        .with_activity(count());
    program.options.definitions = vec![
        Workflow::new("broken").description("d").step(Step::activity("nobody").with(json!({}))),
    ];
    let app = program.app();
    let id = ExecutionId::parse("e").unwrap();
    app.start("w", Some(id.clone()), None, None).await.unwrap();
    app.turn(&id, Duration::from_secs(20)).await.unwrap();
    assert_eq!(Value::from(app.memory(&id).await.unwrap()), json!({ "runs": 1 }));
    let broken = app.check_definitions().await.expect_err("one is broken");
    assert!(
        broken.message().starts_with("Workflow 'broken' has 1 finding: steps[0].activity: "),
        "{broken}"
    );
}
