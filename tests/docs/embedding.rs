//! A program that embeds midex and brings activities: what its definitions may name, and who runs it.

#[allow(dead_code, reason = "a test calls what `main` calls")]
#[path = "../../examples/embed.rs"]
mod example;

use std::{
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use midex_domain::{
    ExecutionId,
    clock::{SeededIds, SystemClock},
    error::Code,
    execution::{OperationFailure, Report, SignalRequest},
    view::StatusView,
};
use midex_engine::activity::{Activities, Context, function};
use midex_server::{
    app::{App, Options},
    config::{Config, TrustedProjects},
};
use midex_test::{assert_has, list_of, play::Calls};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How often an execution may move before it is where a test waits for.
const MOVES_MAX: usize = 100;

fn id() -> ExecutionId {
    ExecutionId::parse("e").unwrap()
}

fn config(home: &Path) -> Config {
    let mut config = Config::new(Some(home.join("data"))).unwrap();
    home.clone_into(&mut config.project_dir);
    config.trust = TrustedProjects::Everything;
    config
}

fn app(config: Config, activities: Activities) -> App {
    let options = Options::new(config, Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
    App::with_options(Options { activities, ..options })
}

async fn start(app: &App, workflow: &str, inputs: Value) -> midex_domain::error::Result<()> {
    let started = app.start(workflow, Some(id()), Some(inputs), None);
    started.await.map(drop)
}

/// The status as soon as it satisfies `wanted`.
async fn until(app: &App, wanted: impl Fn(&StatusView) -> bool) -> StatusView {
    let engine = app.engine().await.unwrap();
    let mut status = engine.status_now("e").await;
    for _ in 0..MOVES_MAX {
        if wanted(&status) {
            return status;
        }
        let longest = Duration::from_secs(20);
        status = engine.wait(&id(), Some(status.revision), longest).await.unwrap();
    }
    panic!("it never came to that: {status:?}");
}

/// What was begun: the step, and which attempt of it.
type Begun = Arc<Mutex<Vec<(String, u32)>>>;

/// Stand-ins for the activities of `examples/activities`, with its names.
fn of_the_example(begun: &Begun) -> Activities {
    let note = |context: &Context, begun: &Begun| {
        let line = (context.step.to_string(), context.attempt);
        begun.lock().unwrap().push(line);
    };
    let (uploads, looks) = (begun.clone(), begun.clone());
    let upload = function("upload", move |context| {
        note(&context, &uploads);
        async move {
            match context.attempt {
                1 => Err(OperationFailure::new("network", "cut").as_retryable()),
                _ => Ok(json!({ "url": context.input["version"] })),
            }
        }
    });
    let health = function("health", move |context| {
        note(&context, &looks);
        async move { Ok(json!({ "ready": context.attempt == 3 })) }
    });
    let activities = Activities::default().with_activity(upload).unwrap();
    activities.with_activity(health.as_idempotent()).unwrap()
}

#[tokio::test]
async fn the_workflow_of_the_example_goes_from_its_file_to_its_end() {
    let home = TempDir::new().unwrap();
    let mut config = config(home.path());
    config.workflows_dir = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/activities").into());
    let begun = Begun::default();
    let app = app(config, of_the_example(&begun));
    start(&app, "release", json!({ "version": "v7" })).await.unwrap();
    until(&app, |status| status.current_step.as_deref() == Some("tell")).await;
    let engine = app.engine().await.unwrap();
    let current = engine.current_now("e").await;
    let current = serde_json::to_value(current).unwrap();
    let told = current["instructions"].as_str().unwrap();
    assert!(told.contains("version v7 is out, at v7"), "{told}");
    let token = current["continuation_token"].as_str().unwrap();
    let report = Report::Output(json!({ "told": true }));
    let last = app.next_step(token, report).await.unwrap();
    assert_eq!(last.final_output, Some(json!({ "url": "v7", "told": true })));
    let expected = [("upload", 1), ("upload", 2), ("health", 1), ("health", 2), ("health", 3)];
    let begun = begun.lock().unwrap().clone();
    let begun = list_of(&begun, |(step, at)| (step.as_str(), *at));
    assert_eq!(begun, expected);
    app.stop().await.unwrap();
}

fn write(home: &Path, activity: &str) {
    let text = format!(
        "workflow: w\ndescription: d\nsteps:\n  - id: a\n    activity: {activity}\nfinal_output: ${{{{ steps.a }}}}\n"
    );
    std::fs::create_dir_all(home.join("workflows")).unwrap();
    std::fs::write(home.join("workflows/w.yaml"), text).unwrap();
}

fn answering(name: &str) -> Activities {
    let answer = name.to_owned();
    let one = function(name, move |_| {
        let answer = answer.clone();
        async move { Ok(json!(answer)) }
    });
    Activities::default().with_activity(one).unwrap()
}

async fn reloaded(app: &App) -> bool {
    let app = app.clone();
    let reloaded = tokio::task::spawn_blocking(move || app.definitions().reload());
    reloaded.await.unwrap()
}

#[tokio::test]
async fn every_definition_is_held_to_what_the_program_brings() {
    let [home, other] = [(); 2].map(|()| TempDir::new().unwrap());
    write(home.path(), "sned");
    write(other.path(), "send");
    let app = app(config(home.path()), answering("send"));
    let refused = start(&app, "w", json!({})).await.unwrap_err();
    assert_eq!(refused.code(), Code::WorkflowValidationFailed);
    let payload = refused.to_payload("correlation");
    let payload = serde_json::to_string(&payload).unwrap();
    for word in ["unknown_activity", "no activity is called `sned`"] {
        assert!(payload.contains(word), "{payload}");
    }
    // A caller with another project has the same server.
    let caller = app.for_caller(&config(other.path()), [].into());
    assert!(caller.registry().await.unwrap().definition("w").is_ok());
    write(home.path(), "send");
    assert!(reloaded(&app).await);
    start(&app, "w", json!({})).await.unwrap();
    let ended = until(&app, |status| status.state == "completed").await;
    assert_eq!(ended.final_output, Some(json!("send")));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn what_steps_may_name_is_replaced_while_the_server_runs() {
    let home = TempDir::new().unwrap();
    write(home.path(), "send");
    let app = app(config(home.path()), answering("send"));
    app.open().await.unwrap();
    let is_good = async || {
        let registry = app.registry().await.unwrap();
        !registry.workflow("w").unwrap().is_broken()
    };
    let replace = async |names: &[&str]| {
        let (app, names) = (app.clone(), names.iter().map(|name| (*name).to_owned()).collect());
        let replaced = move || {
            app.definitions().change_abilities(|of| of.activities = names);
        };
        tokio::task::spawn_blocking(replaced).await.unwrap();
    };
    assert!(is_good().await);
    replace(&["other"]).await;
    assert!(!is_good().await);
    // It stays so when files are read anew.
    assert!(!reloaded(&app).await && !is_good().await);
    replace(&["other", "send"]).await;
    assert!(is_good().await);
    start(&app, "w", json!({})).await.unwrap();
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_execution_outlives_the_program_that_had_its_activity() {
    let home = TempDir::new().unwrap();
    let text = "workflow: w\ndescription: d\nsteps:\n  - id: word\n    wait: {signal: go}\n  - id: a\n    activity: send\n";
    std::fs::create_dir_all(home.path().join("workflows")).unwrap();
    std::fs::write(home.path().join("workflows/w.yaml"), text).unwrap();
    let first = app(config(home.path()), answering("send"));
    start(&first, "w", json!({})).await.unwrap();
    first.stop().await.unwrap();
    let second = app(config(home.path()), Activities::default());
    let refused = second.registry().await.unwrap().definition("w").unwrap_err();
    assert_eq!(refused.code(), Code::WorkflowValidationFailed);
    // A command beside, say, moves it on, but what it cannot do is left to who can.
    second.command(&id(), SignalRequest::new("go", json!(1))).await.unwrap();
    let waits =
        until(&second, |status| status.waits.iter().any(|wait| wait.waits_for == "retry")).await;
    assert_eq!((waits.state.as_str(), waits.error), ("running", None));
    second.stop().await.unwrap();
    let doctor = Command::new(midex_test::binary())
        .args(["doctor", "--data-dir"])
        .arg(home.path().join("data"))
        .output();
    assert_has(
        &String::from_utf8(doctor.unwrap().stdout).unwrap(),
        &["warn  executions", "e waits for the activity `send`", "midex abandon"],
    );
    // Neither a look at it nor time changes that.
    let third = app(config(home.path()), Activities::default());
    let seen = third.engine().await.unwrap().status_now("e").await;
    assert_eq!(seen.revision, waits.revision);
    third.stop().await.unwrap();
    let fourth = app(config(home.path()), answering("send"));
    let ended = until(&fourth, |status| status.state == "completed").await;
    assert_eq!(ended.final_output, Some(json!("send")));
    fourth.stop().await.unwrap();
}

#[tokio::test]
async fn a_step_is_given_the_secrets_that_the_configuration_names_and_no_others() {
    // Cargo sets it for every test.
    const NAME: &str = "CARGO_PKG_DESCRIPTION";
    let home = TempDir::new().unwrap();
    let text = format!(
        "workflow: w\ndescription: d\nsteps:\n  - {{ id: a, activity: look, with: {{ key: '${{{{ secrets.{NAME} }}}}' }} }}\n"
    );
    std::fs::create_dir_all(home.path().join("workflows")).unwrap();
    std::fs::write(home.path().join("workflows/w.yaml"), text).unwrap();
    let look = || {
        let look = function("look", |context| async move {
            let is_right = context.input["key"] == env!("CARGO_PKG_DESCRIPTION");
            Ok(json!({ "right": is_right, "sent": context.input }))
        });
        Activities::default().with_activity(look).unwrap()
    };
    let mut named = config(home.path());
    named.secret_env = vec![NAME.into()];
    let first = app(named, look());
    start(&first, "w", json!({})).await.unwrap();
    let ended = until(&first, |status| status.state == "completed").await;
    let shown = format!("${{secret:{NAME}}}");
    assert_eq!(ended.final_output, Some(json!({ "right": true, "sent": { "key": shown } })));
    first.stop().await.unwrap();

    let other = TempDir::new().unwrap();
    let mut unnamed = config(home.path());
    unnamed.data_dir = other.path().into();
    let second = app(unnamed, look());
    start(&second, "w", json!({})).await.unwrap();
    let failed = until(&second, |status| status.state == "failed").await;
    assert!(failed.error.unwrap().message.contains(NAME));
    second.stop().await.unwrap();
}

#[tokio::test]
async fn the_example_in_process_leads_an_execution_to_its_end() {
    let home = TempDir::new().unwrap();
    let mut out = Vec::new();
    example::run(home.path(), &mut out).await.unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_has(&out, &["1 workflow_created the workflow", "step_completed publish"]);
    assert_has(&out, &["completed: \"publish is done\""]);
    let revisions = out.lines().filter_map(|line| line[..2].trim().parse::<u64>().ok());
    assert!(revisions.is_sorted(), "{out}");
}
