//! Bundles: executions leave one store and come into another, where they are read-only and go on as forks.

mod damaged;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use midex_domain::{
    Digest, Execution, Row, StepId, Token, WorkflowLookup,
    error::{Code, Error, Result},
    execution::{Command, GateAnswer, PastValues, Report, Resolution, RewindRequest, Verdict},
    operation::BoxFuture,
};
use midex_engine::{
    ExportRequest, ForkRequest, ImportedExecution, Redaction, Workflows,
    store::{ListQuery, MemoryStore},
};
use midex_test::assert_has;

use super::*;

const CHILD: &str = "inputs: { text: { type: string } }
steps:
  - { id: say, guidance: 'Say ${{ inputs.text }}', result: {} }
final_output: { said: '${{ steps.say }}' }
";

/// A parent whose child is open, with an input that is too long for a row.
const PARENT: &str = "inputs: { text: { type: string }, password: { type: string } }
memory: { seen: '${{ inputs.text }}' }
steps:
  - { id: first, title: 'About ${{ inputs.text }}', guidance: 'Do ${{ inputs.text }}', result: {} }
  - { id: tell, workflow: announce, with: { text: '${{ steps.first.word }}' }, depends_on: [first] }
  - { id: after, guidance: 'It said ${{ steps.tell.said }}', result: {}, depends_on: [tell] }
final_output: { all: '${{ steps.after }}' }
";

/// Finds one workflow.
#[derive(Debug)]
struct OneWorkflow(Arc<Definition>);

impl Workflows for OneWorkflow {
    fn find<'a>(
        &'a self,
        _: Option<&'a WorkflowLookup>,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// An engine on a store of its own, and a directory for bundles.
struct Machine {
    engine: Engine,
    store: Arc<dyn Store>,
    directory: tempfile::TempDir,
}

impl Machine {
    async fn new() -> Self {
        Self::with_activities(&Log::new(), Activities::default()).await
    }

    async fn with_activities(log: &Log, activities: Activities) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let workflows = Arc::new(OneWorkflow(play::defined(CHILD)));
        let options = Options { activities, workflows, ..options(store.clone(), log.clock) };
        let engine = Engine::new(options).await.expect("an engine");
        Self { engine, store, directory: tempfile::tempdir().expect("a directory") }
    }

    /// A machine with a parent that has done its first step and waits for its child.
    async fn with_family() -> Self {
        let machine = Self::new().await;
        let inputs =
            json!({ "text": format!("in-secret {}", "x".repeat(5000)), "password": "key-secret" });
        let request = StartRequest {
            inputs: Some(inputs),
            project: Some("/home/somebody/project".to_owned()),
            lookup: Some(WorkflowLookup {
                account: "somebody".to_owned(),
                ..WorkflowLookup::default()
            }),
            ..play::request(play::defined(PARENT), "e")
        };
        let begun = machine.engine.start(request).await.expect("a start");
        let output = json!({
            "word": "out-secret",
            "password": "key-secret",
            "artifacts": [{ "type": "data", "name": "a", "content": "{\"text\":\"art-secret\",\"password\":\"key-secret\"}" }],
        });
        machine.engine.report(&play::token(&begun), Report::Output(output)).await;
        signalled(
            &machine.engine,
            "news",
            json!({ "text": "in-secret", "password": "key-secret" }),
        )
        .await;
        machine.settled().await;
        machine
    }

    /// What is on its way has come.
    async fn settled(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn export(&self, redact: &[&str]) -> PathBuf {
        let path = self.path(&format!("bundle{}.midex", redact.join("-")));
        let redact: Vec<_> = redact.iter().map(|name| (*name).to_owned()).collect();
        let request = ExportRequest {
            ids: Some(vec![id()]),
            since: None,
            redaction: Redaction::new(&redact).expect("few keys"),
            path: path.clone(),
            replaces_file: false,
        };
        self.engine.export(request).await.expect("an export");
        path
    }

    async fn import(&self, path: &Path) -> Vec<ImportedExecution> {
        self.engine.import(path.to_owned(), "/home/b".to_owned()).await.expect("an import")
    }

    async fn not_imported(&self, path: &Path) -> Error {
        self.engine.import(path.to_owned(), "/home/b".to_owned()).await.expect_err("a refusal")
    }

    async fn rows(&self, id: &ExecutionId) -> Vec<Row> {
        self.store.load_history(id).await.expect("rows")
    }

    async fn executions(&self) -> Vec<ExecutionId> {
        let query = ListQuery { limit: 50, ..ListQuery::default() };
        let page = self.store.list(query).await.expect("a list");
        page.executions.iter().map(|(_, execution)| execution.id().clone()).collect()
    }
}

/// The entries of a bundle by name, read without midex.
fn unpack(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let tar = zstd::decode_all(fs::File::open(path).expect("a file")).expect("a frame");
    let (mut entries, mut rest) = (BTreeMap::new(), &tar[..]);
    while rest[0] != 0 {
        let text = |range: std::ops::Range<usize>| {
            let field = rest[range].split(|byte| *byte == 0).next().expect("a field");
            String::from_utf8(field.to_vec()).expect("a text")
        };
        let bytes = usize::from_str_radix(&text(124..136), 8).expect("a size");
        entries.insert(text(0..100), rest[512..512 + bytes].to_vec());
        rest = &rest[512 + bytes.next_multiple_of(512)..];
    }
    assert_eq!(rest, [0; 1024]);
    entries
}

fn all_text(path: &Path) -> String {
    let entries = unpack(path).into_values();
    entries.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

/// A row as another machine has it: without nonces and directories.
fn portable(row: &Row) -> Value {
    let mut json = serde_json::to_value(row).expect("JSON");
    if let Some(created) = json.pointer_mut("/events/0/Created") {
        (created["project"], created["lookup"]) = (Value::Null, Value::Null);
    }
    json
}

#[tokio::test(start_paused = true)]
async fn a_family_comes_as_it_was_and_goes_on_as_a_fork() {
    let here = Machine::with_family().await;
    let path = here.export(&[]).await;
    let there = Machine::new().await;
    let imported = there.import(&path).await;
    let names: Vec<_> = imported.iter().map(|one| (one.parent.as_deref(), &*one.state)).collect();
    assert_eq!(names, [(Some("e"), "running"), (None, "running")]);
    for one in &imported {
        let one = named(&one.execution_id);
        let (before, mut after) = (here.rows(&one).await, there.rows(&one).await);
        let import = after.pop().expect("the row of the import");
        assert_eq!(import.events.len(), 1);
        let before_json: Vec<_> = before.iter().map(portable).collect();
        assert_eq!(before_json, after.iter().map(portable).collect::<Vec<_>>());
        let (before, after) = (
            Execution::replay(&before).expect("a state"),
            Execution::replay(&after).expect("a state"),
        );
        assert_eq!((before.state(), before.memory()), (after.state(), after.memory()));
        assert_eq!((before.inputs(), before.signals()), (after.inputs(), after.signals()));
    }
    let status = there.engine.status_now("e").await;
    assert!(status.imported && status.imported_at.is_some());
    assert_eq!((status.state.as_str(), status.project.as_deref()), ("running", Some("/home/b")));
    assert_eq!(status.children[0].execution_id, imported[0].execution_id);
    assert_eq!(here.engine.history_now("e").await.len(), there.engine.history_now("e").await.len());
    let artifact = there.engine.artifact(&id(), "a", 0, 1000).await.expect("an artifact");
    assert!(format!("{artifact:?}").contains("art-secret"));
    // It goes on to the end as a fork, with a child of its own.
    let request = ForkRequest { new_execution_id: Some(named("fork")), ..ForkRequest::new(id()) };
    there.engine.fork(request).await.expect("a fork");
    there.settled().await;
    let children = there.engine.status_now("fork").await.children;
    let child = named(&children[0].execution_id);
    assert!(!imported.iter().any(|one| one.execution_id == child.as_str()));
    for execution in [child, named("fork")] {
        let current = there.engine.current_step(&execution).await.expect("a step");
        let words = current.instructions.expect("instructions");
        assert!(words.contains("out-secret") || words.contains("It said done"), "{words}");
        let token = current.continuation_token.expect("a token");
        there.engine.report(&token, Report::Output(json!("done"))).await;
        there.settled().await;
    }
    let status = there.engine.status_now("fork").await;
    assert_eq!((status.state.as_str(), status.imported), ("completed", false));
    assert_eq!(there.engine.status_now("e").await.forks, ["fork"]);
}

#[tokio::test(start_paused = true)]
async fn an_imported_execution_is_read_only() {
    let here = Machine::with_family().await;
    let path = here.export(&[]).await;
    let there = Machine::new().await;
    let imported = there.import(&path).await;
    let before = there.rows(&id()).await;
    // The child has an open step of a model.
    let child = there.engine.current_now(&imported[0].execution_id).await;
    assert_eq!((child.current_step.as_deref(), child.continuation_token), (Some("say"), None));
    let current = there.engine.current_now("e").await;
    assert_has(&current.message.expect("a message"), &["imported", "read-only", "execution.fork"]);
    let rewind = RewindRequest {
        to_step: StepId::parse("first").expect("a step"),
        reason: None,
        compensates: false,
        past: PastValues::default(),
    };
    let commands: [Command; 5] = [
        play::change_to(LifecycleAction::Pause).into(),
        play::change_to(LifecycleAction::Resume).into(),
        play::change_to(LifecycleAction::Abandon).into(),
        SignalRequest::new("news", json!(1)).into(),
        rewind.into(),
    ];
    for command in commands {
        let error = there.engine.not_commanded(command).await;
        assert_eq!(error.code(), Code::StateTransitionRefused);
        assert_has(error.message(), &["execution 'e' was imported and is read-only"]);
        assert_has(&error.suggested_action(), &["execution.fork", "e"]);
    }
    assert!(there.engine.refuse_imported(&id()).await.is_err());
    // Nothing moves it as time passes, and nothing lists it as open.
    tokio::time::sleep(Duration::from_secs(40 * 86_400)).await;
    there.engine.current_now("e").await;
    assert_eq!(there.rows(&id()).await, before);
    let query = ListQuery { open_only: true, limit: 9, ..ListQuery::default() };
    assert!(there.engine.list(query).await.expect("a list").executions.is_empty());
    assert!(there.engine.only_open_execution(None).await.expect("a list").is_none());
    // The same import again stores nothing. Another execution with one of the ids is never replaced.
    assert!(imported.iter().all(|one| !one.already_imported));
    assert!(there.import(&path).await.iter().all(|one| one.already_imported));
    assert_eq!(there.rows(&id()).await, before);
    let redacted = here.export(&["inputs"]).await;
    for error in [there.not_imported(&redacted).await, here.not_imported(&path).await] {
        assert_eq!(error.code(), Code::ExecutionIdTaken);
        assert_has(error.message(), &["2 of the 2 executions", "nothing was imported"]);
    }
    // It can be deleted with its child.
    assert_eq!(there.engine.delete(&id()).await.expect("a deletion").len(), 2);
    assert!(there.executions().await.is_empty());
    assert_eq!(there.not_imported(&path).await.code(), Code::ExecutionIdTaken, "a tombstone");
}

#[tokio::test(start_paused = true)]
async fn tokens_and_directories_stay_here() {
    let here = Machine::with_family().await;
    let path = here.export(&[]).await;
    let text = all_text(&path);
    let child = here.executions().await.into_iter().find(|one| *one != id()).expect("a child");
    let token = here.engine.current_step(&child).await.expect("a step").continuation_token;
    let token = token.expect("a token");
    let parsed = serde_json::to_value(Token::parse(&token).expect("a token")).expect("JSON");
    let nonce = parsed["nonce"].as_str().expect("a nonce");
    for secret in [nonce, &token, "/home/somebody", "somebody"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert!(text.contains("in-secret") && text.contains("out-secret"));
    // The token of the source does nothing where the execution was imported.
    let there = Machine::new().await;
    there.import(&path).await;
    let error = there.engine.refuse(&token, play::good("late")).await;
    assert_eq!(error.code(), Code::StateTransitionRefused);
}

#[tokio::test(start_paused = true)]
async fn what_is_redacted_is_nowhere_in_the_bundle() {
    let here = Machine::with_family().await;
    let secrets = ["in-secret", "out-secret", "art-secret", "key-secret"];
    let found = |path: &Path| {
        let text = all_text(path);
        secrets.map(|secret| text.contains(secret))
    };
    for (redact, expected) in [
        (&[][..], [true; 4]),
        // The outputs are there, and what the steps were given of them is not.
        (&["inputs"], [true, true, true, true]),
        (&["outputs"], [true, false, true, true]),
        (&["artifacts"], [true, true, false, true]),
        (&["password"], [true, true, true, false]),
        (&["inputs", "outputs", "artifacts"], [false; 4]),
    ] {
        let path = here.export(redact).await;
        assert_eq!(found(&path), expected, "{redact:?}");
        let manifest: Value =
            serde_json::from_slice(&unpack(&path)["manifest.json"]).expect("JSON");
        assert_eq!(manifest["redacted"].as_array().expect("a list").len(), redact.len());
        let there = Machine::new().await;
        there.import(&path).await;
        let status = there.engine.status_now("e").await;
        assert_eq!(status.steps, here.engine.status_now("e").await.steps);
        there.engine.history_now("e").await;
        there.engine.current_now("e").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_is_not_exported_without_its_root() {
    let here = Machine::with_family().await;
    let child = here.executions().await.into_iter().find(|one| *one != id()).expect("a child");
    let request = |ids: Option<ExecutionId>| ExportRequest {
        ids: ids.map(|id| vec![id]),
        since: None,
        redaction: Redaction::default(),
        path: here.path("other.midex"),
        replaces_file: false,
    };
    let refused = here.engine.export(request(Some(child))).await;
    let refused = refused.expect_err("a refusal");
    assert_eq!(refused.code(), Code::StateTransitionRefused);
    assert_has(&refused.suggested_action(), &["midex export e"]);
    let unknown = request(Some(named("nobody")));
    let unknown = here.engine.export(unknown).await.expect_err("a refusal");
    assert_eq!(unknown.code(), Code::ExecutionNotFound);
    assert_eq!(fs::read_dir(here.directory.path()).expect("a directory").count(), 0);
    let report = here.engine.export(request(None)).await.expect("an export");
    assert_eq!(report.executions, 2);
    assert_eq!(report.bytes, fs::metadata(here.path("other.midex")).expect("a file").len());
    let exists = here.engine.export(request(None)).await.expect_err("a refusal");
    assert_eq!(exists.code(), Code::FileExists);
    let replacing = ExportRequest { replaces_file: true, ..request(None) };
    here.engine.export(replacing).await.expect("an export");
    let since = Some(EPOCH.plus(seconds(3600)));
    let none = ExportRequest { since, replaces_file: true, ..request(None) };
    assert_eq!(
        here.engine.export(none).await.expect_err("nothing").code(),
        Code::ExecutionNotFound
    );
    assert_eq!(fs::read_dir(here.directory.path()).expect("a directory").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_ran_in_the_source_is_unknown_here() {
    let log = Log::new();
    let work = |log: &Log| only([log.activity("work", seconds(900), |_| Ok(json!(1)))]);
    let here = Machine::with_activities(&log, work(&log)).await;
    begin(&here.engine, defined(json!([activity("work", None, json!({}))]), json!({})), json!({}))
        .await;
    here.settled().await;
    let path = here.export(&[]).await;
    let there_log = Log::new();
    let there = Machine::with_activities(&there_log, work(&there_log)).await;
    there.import(&path).await;
    let refused = there.engine.fork(ForkRequest::new(id())).await.expect_err("a refusal");
    assert_eq!(refused.code(), Code::StateTransitionRefused);
    assert_eq!(refused.context("cut_off_step"), Some(&json!("work")));
    let resolution = Resolution {
        step: StepId::parse("work").expect("a step"),
        item: None,
        verdict: Verdict::Retry,
        attempt: None,
    };
    let error = there.engine.not_commanded(resolution).await;
    assert_has(error.message(), &["read-only"]);
    assert_eq!(there_log.lines(), [""; 0], "nothing was begun");
    let again = ForkRequest { repeats_unknown: true, ..ForkRequest::new(id()) };
    there.engine.fork(again).await.expect("a fork");
    there.settled().await;
    assert_eq!(there_log.lines(), ["work 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_execution_is_retried_and_its_approvals_are_asked_for_again() {
    let here = Machine::new().await;
    let lines = "steps:
  - { id: ask, gate: { ask: 'Go?' } }
  - { id: say, guidance: 'Say it', result: {}, depends_on: [ask] }
";
    here.engine.begin(play::defined(lines), "e").await;
    let answer: GateAnswer = play::gate_answer(&here.engine.status_now("e").await, true, None);
    here.engine.commanded(answer).await;
    let token = here.engine.current_now("e").await.continuation_token.expect("a token");
    here.engine.report(&token, play::failed("no ink", None)).await;
    assert_eq!(here.engine.status_now("e").await.state, "failed");
    let path = here.export(&[]).await;
    let there = Machine::new().await;
    there.import(&path).await;
    let retry = ForkRequest { is_retry: true, ..ForkRequest::new(id()) };
    let (_, reply) = there.engine.fork(retry).await.expect("a retry");
    assert_eq!(reply.execution_id, "e~2");
    let status = there.engine.status_now("e~2").await;
    assert_eq!(status.waits[0].waits_for.as_str(), "gate", "an approval does not travel");
}

#[tokio::test(start_paused = true)]
async fn contents_are_those_of_their_names() {
    let here = Machine::with_family().await;
    let entries = unpack(&here.export(&[]).await);
    let mut kinds = (0, 0);
    for (name, bytes) in &entries {
        if let Some(digest) = name.strip_prefix("contents/") {
            assert_eq!(Digest::compute(bytes).to_string(), digest);
            kinds.0 += 1;
        } else if name.starts_with("journal/") {
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                serde_json::from_slice::<Row>(line).expect("a row");
            }
            kinds.1 += 1;
        }
    }
    assert_eq!((kinds.1, entries.len()), (2, kinds.0 + 3));
    let manifest: Value = serde_json::from_slice(&entries["manifest.json"]).expect("JSON");
    assert_eq!((&manifest["format"], &manifest["redacted"]), (&json!(1), &json!([])));
    let roles = manifest["contents"].as_array().expect("a list").iter();
    let roles: Vec<_> = roles.map(|content| content["role"].as_str().expect("a role")).collect();
    assert_eq!(roles.iter().filter(|role| **role == "definition").count(), 2);
}
