//! Purges: what an execution that has ended no longer holds, and what stays as it was.

use super::*;
use midex_domain::{
    Execution, StepId,
    error::Code,
    execution::Report,
    view::{PastPoint, Reader},
};
use midex_engine::{ForkRequest, PurgeReport, PurgeRequest, store::ExaminationProgress};
use midex_test::{assert_has, play::failed};

const PROJECT: &str = "/p";

const DEPLOY: &str = "inputs:
  token: { type: string }
  region: { type: string, optional: true }
steps:
  - { id: build, guidance: Build., result: {} }
  - { id: ask, input: { properties: [region] } }
  - { id: ship, guidance: 'Ship it to ${{ inputs.region }}.', result: {} }
";

/// Another definition of the same inputs, which takes them from the last execution.
const AGAIN: &str = "inputs:
  token: { type: string, default: { from: history } }
  region: { type: string, optional: true, default: { from: history } }
steps:
  - { id: look, guidance: Look., result: {} }
";

fn keys(keys: &[&str]) -> PurgeRequest {
    let keys = keys.iter().map(ToString::to_string).collect();
    PurgeRequest { keys: Some(keys), projects: vec![PROJECT.to_owned()], ..PurgeRequest::default() }
}

fn removed(removed_entries: usize, executions: usize) -> PurgeReport {
    PurgeReport { removed_entries, executions }
}

async fn start(engine: &Engine, lines: &str, name: &str, inputs: Value) -> AdvanceReply {
    let request = StartRequest {
        inputs: Some(inputs),
        project: Some(PROJECT.to_owned()),
        ..play::request(play::defined(lines), name)
    };
    engine.start(request).await.expect("a start")
}

async fn purge(engine: &Engine, request: &PurgeRequest) -> PurgeReport {
    let planned = engine.plan_purge(request).await.expect("a plan");
    let purged = engine.purge_inputs(request).await.expect("a purge");
    assert_eq!(planned, purged);
    purged
}

/// An execution of [`DEPLOY`] that was answered a region and failed at its last step.
async fn failed_deploy(engine: &Engine, name: &str, token: &str) {
    let inputs = json!({ "token": token });
    let begun = start(engine, DEPLOY, name, inputs).await;
    let asked = engine.report(&play::token(&begun), Report::Output(json!({}))).await;
    let region = json!({ "region": "secret-eu" });
    let open = engine.report(&play::token(&asked), Report::Output(region)).await;
    let ended = engine.report(&play::token(&open), failed("no", None)).await;
    assert_eq!(ended.workflow_state, "failed");
}

/// Everything that the store has of the execution agrees with itself, and nothing of it is `absent`.
async fn holds_together(store: &dyn Store, name: &str, absent: &str) {
    let rows = store.load_history(&named(name)).await.unwrap();
    let stored = store.load(&named(name)).await.unwrap().unwrap().execution;
    assert_eq!(Execution::replay(&rows).as_ref(), Some(&stored), "{name}");
    assert!(!format!("{rows:?}").contains(absent), "{rows:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_reads_a_purged_value_any_more() {
    let store: Arc<dyn Store> = Arc::new(FailingStore::default());
    let log = Log::new();
    let engine = engine_on(store.clone(), log.clock, Activities::default()).await;
    failed_deploy(&engine, "e", "secret-token").await;
    let digest = store.load(&id()).await.unwrap().unwrap().execution.inputs().unwrap();
    let first = engine.past_step(&id(), PastPoint::Revision(1)).await.unwrap();
    assert_eq!(first.inputs.unwrap()["token"], "secret-token");
    let revision = engine.status_now("e").await.revision;
    assert_eq!(purge(&engine, &keys(&["token"])).await, removed(1, 1));
    let engine = engine_on(store.clone(), log.clock, Activities::default()).await;
    holds_together(&*store, "e", "secret-token").await;
    assert!(store.load_content(digest).await.unwrap().is_none());
    let status = engine.status_now("e").await;
    assert_eq!((status.state.as_str(), status.revision), ("failed", revision + 1));
    assert_eq!(status.purged, ["token"]);
    let views = [
        engine.current_now("e").await,
        engine.past_step(&id(), PastPoint::Revision(1)).await.unwrap(),
        engine.past_step(&id(), PastPoint::Revision(revision)).await.unwrap(),
        engine.execution_view(&id(), None).await.unwrap().current_step,
    ];
    for view in views {
        let shown = json!(view);
        assert_eq!(shown["purged"], json!(["token"]), "{shown}");
        assert!(!shown.to_string().contains("secret-token"), "{shown}");
        assert!(shown["inputs"].get("token").is_none(), "{shown}");
    }
    // What was not named stays, and the history of steps too.
    let last = engine.past_step(&id(), PastPoint::Revision(revision)).await.unwrap();
    assert_eq!(last.inputs.unwrap(), json!({ "region": "secret-eu" }));
    let history = engine.history_now("e").await;
    assert_eq!(history.len(), 3);
    assert_eq!(history[1].output, Some(json!({ "region": "secret-eu" })));
    assert_eq!(purge(&engine, &keys(&["token"])).await, removed(0, 0));
    assert_eq!(engine.status_now("e").await.revision, revision + 1);
    // An answer of a person became an input.
    assert_eq!(purge(&engine, &keys(&["region", "token", "other"])).await, removed(1, 1));
    holds_together(&*store, "e", "secret").await;
    let status = json!(engine.status_now("e").await);
    assert_eq!(status["purged"], json!(["region", "token"]));
    assert_eq!(engine.history_now("e").await[1].output, Some(json!({})));
}

#[tokio::test(start_paused = true)]
async fn the_actor_in_memory_forgets_with_the_store() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    failed_deploy(&engine, "e", "secret-token").await;
    assert!(engine.awake_count() > 0);
    assert_eq!(purge(&engine, &keys(&["token"])).await, removed(1, 1));
    let shown = json!(engine.current_step(&id()).await.unwrap());
    assert_eq!(shown["purged"], json!(["token"]));
    assert!(!shown.to_string().contains("secret-token"), "{shown}");
}

/// A value that a running execution has too, or a step of the purged one, stays where it is needed.
#[tokio::test(start_paused = true)]
async fn what_others_need_stays() {
    const ECHO: &str =
        "steps: [{ id: echo, activity: echo }, { id: end, guidance: End., result: {} }]\n";
    // As an output too it is stored by its digest.
    let inputs = |name: &str| {
        let word = if name == "lone" { "lone" } else { "shared" };
        json!({ "token": word.repeat(1100) })
    };
    let log = Log::new();
    let store: Arc<dyn Store> = Arc::new(FailingStore::default());
    let echo = log.activity("echo", seconds(0), |context| Ok(context.input.clone()));
    let engine = engine_on(store.clone(), log.clock, only([echo])).await;
    let definition = play::defined_with(ECHO, &["echo"]);
    for name in ["e", "other", "third", "lone"] {
        let request = StartRequest {
            inputs: Some(inputs(name)),
            project: Some(PROJECT.to_owned()),
            ..play::request(definition.clone(), name)
        };
        engine.start(request).await.unwrap();
        tokio::time::sleep(seconds(1)).await;
    }
    for name in ["e", "third", "lone"] {
        engine.changed(name, LifecycleAction::Abandon).await;
    }
    assert_eq!(purge(&engine, &keys(&["token"])).await, removed(3, 3));
    for name in ["e", "third", "lone"] {
        let view = json!(engine.current_now(name).await);
        assert!(view["inputs"].get("token").is_none(), "{view}");
        // The input of the step and its output are no inputs of the workflow.
        assert!(engine.history_now(name).await[0].output == Some(inputs(name)), "{name}");
    }
    let other = engine.current_now("other").await;
    let whole = engine.current_step_for(&named("other"), Reader::Person).await.unwrap();
    assert!(whole.inputs == Some(inputs("other")));
    assert!(other.purged.is_empty());
    engine.finish(&other.continuation_token.unwrap(), "done").await;
    assert_eq!(purge(&engine, &keys(&["token"])).await, removed(1, 1));
    assert!(engine.current_now("other").await.inputs.unwrap().get("token").is_none());
    let mut progress = Some(ExaminationProgress::default());
    while let Some(from) = progress {
        progress = engine.examine(from).await.unwrap().next;
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_executions_that_are_meant_are_purged() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    failed_deploy(&engine, "one", "a").await;
    failed_deploy(&engine, "two", "b").await;
    start(&engine, AGAIN, "open", json!({ "token": "c" })).await;
    let of = |workflow: &str, project: &str| PurgeRequest {
        workflow: Some(midex_domain::WorkflowName::parse(workflow).unwrap()),
        keys: None,
        projects: vec![project.to_owned()],
    };
    assert_eq!(purge(&engine, &of("w", "/other")).await, removed(0, 0));
    assert_eq!(purge(&engine, &of("gone", PROJECT)).await, removed(0, 0));
    assert_eq!(purge(&engine, &keys(&["nothing"])).await, removed(0, 0));
    assert_eq!(purge(&engine, &of("w", PROJECT)).await, removed(4, 2));
    assert_eq!(engine.current_now("one").await.inputs, Some(json!({})));
    let open = engine.current_now("open").await;
    assert_eq!(open.inputs.unwrap()["token"], "c");
}

#[tokio::test(start_paused = true)]
async fn a_default_from_the_history_finds_no_purged_value() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    failed_deploy(&engine, "e", "secret-token").await;
    let inherited = start(&engine, AGAIN, "before", json!({})).await;
    assert_eq!(
        engine.current_now("before").await.inputs,
        Some(json!({ "token": "secret-token", "region": "secret-eu" }))
    );
    engine.finish(&play::token(&inherited), "done").await;
    assert_eq!(purge(&engine, &keys(&["token"])).await, removed(2, 2));
    let request = StartRequest {
        inputs: Some(json!({})),
        project: Some(PROJECT.to_owned()),
        ..play::request(play::defined(AGAIN), "after")
    };
    let refused = engine.start(request).await.expect_err("a refusal");
    assert_eq!(refused.code(), Code::InputsInvalid, "{refused:?}");
    start(&engine, AGAIN, "after", json!({ "token": "new" })).await;
    let inputs = engine.current_now("after").await.inputs;
    assert_eq!(inputs, Some(json!({ "token": "new", "region": "secret-eu" })));
}

#[tokio::test(start_paused = true)]
async fn a_fork_needs_a_purged_input_anew() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    failed_deploy(&engine, "e", "secret-token").await;
    purge(&engine, &keys(&["token", "region"])).await;
    let given = |inputs: Value| ForkRequest {
        inputs: inputs.as_object().unwrap().clone(),
        ..ForkRequest::new(id())
    };
    let requests = [
        ForkRequest { is_retry: true, ..ForkRequest::new(id()) },
        ForkRequest { from_step: Some(StepId::parse("ship").unwrap()), ..ForkRequest::new(id()) },
        ForkRequest { revision: Some(1), ..given(json!({ "region": "us" })) },
    ];
    for request in requests {
        let error = engine.fork(request).await.map(drop).expect_err("a refusal");
        assert_eq!(error.code(), Code::InputsInvalid);
        assert!(error.message().contains("`token` of execution 'e' was purged"), "{error:?}");
        let action = error.suggested_action();
        let call = "Call execution.fork with execution_id 'e': with `token` in `inputs`";
        assert!(action.starts_with(call), "{action}");
    }
    let (_, fork) = engine.fork(given(json!({ "token": "new", "region": "us" }))).await.unwrap();
    assert_has(&fork.instructions.unwrap(), "Ship it to us.");
    let fork = engine.current_now(&fork.execution_id).await;
    assert_eq!(fork.inputs, Some(json!({ "token": "new", "region": "us" })));
    assert!(fork.purged.is_empty());
    // An input that may be left out has no value then.
    let early = ForkRequest { revision: Some(1), ..given(json!({ "token": "new" })) };
    let (_, fork) = engine.fork(early).await.unwrap();
    let inputs = engine.current_now(&fork.execution_id).await.inputs;
    assert_eq!(inputs, Some(json!({ "token": "new", "region": null })));
}

/// A workflow that declares no inputs needs all that it was given.
#[tokio::test(start_paused = true)]
async fn an_undeclared_input_is_needed_anew() {
    const PLAIN: &str = "steps: [{ id: one, guidance: 'Use ${{ inputs.key }}.', result: {} }]\n";
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    let begun = start(&engine, PLAIN, "e", json!({ "key": "k", "null": null })).await;
    engine.report(&play::token(&begun), failed("no", None)).await;
    let all = PurgeRequest { keys: None, ..keys(&[]) };
    assert_eq!(purge(&engine, &all).await, removed(1, 1));
    let error = engine.fork(ForkRequest::new(id())).await.map(drop).expect_err("a refusal");
    assert!(error.message().contains("`key`"), "{error:?}");
}

/// The store fails in the middle: what was purged stays so, and the same call does the rest.
#[tokio::test(start_paused = true)]
async fn the_same_call_finishes_what_was_interrupted() {
    let log = Log::new();
    let store = Arc::new(FailingStore::default());
    let engine = engine_on(store.clone(), log.clock, Activities::default()).await;
    for name in ["one", "two", "three"] {
        failed_deploy(&engine, name, "the same").await;
    }
    let digest = store.load(&named("one")).await.unwrap().unwrap().execution.inputs().unwrap();
    *store.refused_execution.lock().unwrap() = Some(named("two"));
    let error = engine.purge_inputs(&keys(&["token"])).await.expect_err("a fault");
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(store.load_content(digest).await.unwrap().is_some(), "two executions need it");
    *store.refused_execution.lock().unwrap() = None;
    assert_eq!(purge(&engine, &keys(&["token"])).await, removed(2, 2));
    assert!(store.load_content(digest).await.unwrap().is_none());
    for name in ["one", "two", "three"] {
        holds_together(&*store, name, "the same").await;
    }
}
