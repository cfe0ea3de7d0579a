//! A project with executions in every state, made by this process with a clock that stands: the same ids and times always.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use midex_domain::{
    ExecutionId, LifecycleAction, LifecycleChange,
    clock::{Clock, SeededIds, Timestamp},
    execution::Report,
};
use midex_server::{
    app::{App, Options},
    config::{Config, TrustedProjects},
};
use serde_json::{Value, json};

use midex_test::{EPOCH, Words};

/// The files of the project: of each `===` with its name, and its text.
const FILES: &str = "=== project/workflows/letter.yaml
workflow: letter
description: Write a letter, and send it once a person agrees
steps:
  - { id: write, guidance: Write the letter. }
  - { id: agree, gate: \"Shall this letter go out to everybody who asked for it last year?\" }
  - { id: send, guidance: Send it. }
=== project/workflows/rest.yaml
workflow: rest
description: Wait for a day and for a word
steps:
  - { id: day, wait: { until: \"2099-01-01T00:00:00Z\" } }
  - { id: word, depends_on: [], wait: { signal: paid } }
  - { id: ship, depends_on: [day, word], guidance: Ship it. }
=== project/workflows/rooms.yaml
workflow: rooms
description: Look at each room
steps:
  - id: look
    foreach: { in: [cellar, kitchen, attic], do: { guidance: 'Look at the ${{ item }}.' } }
  - { id: tell, guidance: Tell what was seen. }
=== project/workflows/draft.yaml
workflow: draft
description: Write until the reviewer is content
memory: { wishes: none yet }
steps:
  - { id: write, max_visits: 3, guidance: 'Write it. Wishes: ${{ memory.wishes }}' }
  - { id: review, guidance: 'Review ${{ steps.write.summary }}' }
  - id: decide
    branch:
      - { if: steps.review.summary == 'fine', next: $end }
      - { next: keep }
  - { id: keep, set: { wishes: '${{ steps.review.summary }}' }, next: write }
=== project/broken.yaml
workflow: broken
description: d
steps: [{ id: a, agent: nobody }, { id: a, guidance: x }]
=== project/pantry.yaml
openapi: 3.0.3
info: {title: Pantry, version: \"2\"}
servers: [{url: \"http://127.0.0.1:9\"}]
paths:
  /jars:
    get:
      summary: List the jars that stand on the shelf, with what is in each of them
      parameters:
        - {name: room, in: query, description: Where to look, schema: {type: string}}
      responses: {\"200\": {description: Jars}}
  /jars/{jar}:
    parameters: [{name: jar, in: path, required: true, schema: {type: integer}}]
    delete:
      summary: Throw a jar away
      responses: {\"204\": {description: It is gone}}
";

/// A clock that stands until it is told.
#[derive(Debug)]
struct Told(AtomicI64);

impl Clock for Told {
    fn now(&self) -> Timestamp {
        Timestamp::from_milliseconds(self.0.load(Ordering::Relaxed))
    }
}

/// The project, the home and the data that every command begins with.
pub(crate) struct Seed {
    root: tempfile::TempDir,
}

impl Seed {
    /// Makes it.
    pub(crate) fn new() -> Self {
        // Of one length on every machine: lines are broken by it.
        let root =
            tempfile::Builder::new().prefix("midex-").rand_bytes(6).tempdir_in("/tmp").unwrap();
        for file in FILES.split("=== ").skip(1) {
            let (name, text) = file.split_once('\n').expect("a name");
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir(root.path().join("home")).unwrap();
        let seed = Self { root };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(played(seed.root()));
        seed.catalog();
        seed
    }

    /// The directory that everything lies in.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The catalog that `midex call` finds.
    fn catalog(&self) {
        let home = self.root().join("home");
        let args = "catalog add pantry.yaml --title Pantry --allow 127.0.0.1:9";
        let mut command = self.command(args, &self.root().join("data"), &home);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    /// A command in the project, with a copy of the data and the home of its own.
    pub(crate) fn copied(&self, args: impl Words, number: usize) -> Command {
        let copy = |name: &str| {
            let to = self.root().join(format!("{name}-{number:03}"));
            copy(&self.root().join(name), &to);
            to
        };
        self.command(args, &copy("data"), &copy("home"))
    }

    /// The same in a new project without any executions, which it may write into.
    pub(crate) fn elsewhere(&self, args: impl Words, number: usize) -> Command {
        let place = self.root().join(format!("other-{number:03}"));
        fs::create_dir(&place).unwrap();
        let mut command = self.copied(args, number);
        command.current_dir(place);
        command
    }

    /// A command that shares data and home with others: it must change nothing.
    pub(crate) fn reading(&self, args: impl Words) -> Command {
        let [data, home] = ["data", "home"].map(|name| self.root().join(name));
        self.command(args, &data, &home)
    }

    fn command(&self, args: impl Words, data: &Path, home: &Path) -> Command {
        let mut command = Command::new(midex_test::binary());
        command
            .args(args.words())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("MIDEX_DATA_DIR", data)
            .env("HOME", home)
            .env("TZ", "UTC")
            .env("USER", "ann")
            .current_dir(self.root().join("project"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, kind) = entry.map(|it| (it.path(), it.file_type().unwrap())).unwrap();
        let to = to.join(path.file_name().unwrap());
        if kind.is_dir() {
            copy(&path, &to);
        } else if kind.is_file() {
            fs::copy(&path, to).unwrap();
        }
    }
}

/// What plays the executions.
struct Player {
    app: App,
    clock: Arc<Told>,
}

impl Player {
    /// Time passes.
    fn later(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    async fn start(&self, workflow: &str, id: &str) {
        self.later(60);
        let id = ExecutionId::parse(id).unwrap();
        self.app.start(workflow, Some(id), None, None).await.unwrap();
    }

    /// Ends the open step with this output.
    async fn report(&self, id: &str, report: Report) {
        self.later(7);
        let current = self.app.current_step(&ExecutionId::parse(id).unwrap()).await;
        let token = current.unwrap().continuation_token.unwrap();
        self.app.next_step(&token, report).await.unwrap();
    }

    async fn done(&self, id: &str, summaries: &[&str]) {
        for summary in summaries {
            let output: Value = json!({ "summary": summary });
            self.report(id, Report::Output(output)).await;
        }
    }

    async fn change(&self, id: &str, lifecycle: LifecycleAction, reason: &str) {
        self.later(5);
        let change = LifecycleChange { action: lifecycle, reason: Some(reason.to_owned()) };
        let id = ExecutionId::parse(id).unwrap();
        self.app.command(&id, change).await.unwrap();
    }
}

async fn played(root: &Path) {
    let mut config = Config::new(Some(root.join("data"))).unwrap();
    config.project_dir = project(root);
    config.trust = TrustedProjects::Everything;
    (config.catalogs, config.registry_dir) = (None, None);
    let clock = Arc::new(Told(AtomicI64::new(EPOCH.milliseconds())));
    let options = Options::new(config, clock.clone(), Arc::new(SeededIds::new(7)));
    let player = Player { app: App::with_options(options), clock };
    player.start("bug-fix", "completed").await;
    let three = ["the cause is a lock", "the lock is released", "it is gone"];
    player.done("completed", &three).await;
    player.start("bug-fix", "failed").await;
    player.done("failed", &three[..1]).await;
    let failure = Report::Error {
        message: "the lock belongs to another program".to_owned(),
        code: None,
        retryable: None,
    };
    player.report("failed", failure).await;
    player.start("bug-fix", "abandoned").await;
    let reason = "begun twice";
    player.change("abandoned", LifecycleAction::Abandon, reason).await;
    player.start("bug-fix", "paused").await;
    let reason = "waits for the review of the whole team, which meets on Thursday";
    player.change("paused", LifecycleAction::Pause, reason).await;
    player.start("letter", "gate").await;
    player.done("gate", &["a letter of two pages"]).await;
    player.start("rest", "waiting").await;
    player.start("rooms", "items").await;
    player.done("items", &["dry"]).await;
    player.start("draft", "loop").await;
    player.done("loop", &["first", "shorter", "second"]).await;
    player.start("bug-fix", "running").await;
    player.done("running", &three[..1]).await;
    player.app.stop().await.unwrap();
}

/// The project as a process sees its working directory.
fn project(root: &Path) -> PathBuf {
    root.join("project").canonicalize().unwrap()
}
