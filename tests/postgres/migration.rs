//! Moves of a data directory into the database, with the real binary.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use midex_domain::{
    PauseReason,
    clock::{SystemClock, SystemIds},
    execution::OperationFailure,
};
use midex_engine::{
    Engine, Options,
    activity::{Activities, Context, function},
    store::{self, FILE_NAME, RedbStore, Store, contract::script::Script},
};
use midex_test::{
    Shows as _,
    http::{HttpClient as _, HttpServer},
    play,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_postgres::Client;

use crate::{
    home::{Home, THREE_STEPS},
    place::Place,
};

const TIMER: &str = "workflow: timer
description: Waits
steps:
  - { id: pause, wait: { for: 2s } }
  - { id: after, guidance: Do it, result: {} }
";
const PARENT: &str = "workflow: parent
description: Has a child
steps:
  - { id: child, workflow: three-steps }
";
/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A data directory, and the database that it is moved into.
struct Migration {
    place: Place,
    home: Home,
}

impl Migration {
    /// Makes the schema of the database too. There are no tables yet.
    async fn new(name: &str) -> (Self, Client) {
        let migration = Self { place: Place::new(name), home: Home::new(THREE_STEPS) };
        for (name, text) in [("timer", TIMER), ("parent", PARENT)] {
            fs::write(migration.home.file(&format!("workflows/{name}.yaml")), text).unwrap();
        }
        let client = migration.place.connect().await;
        (migration, client)
    }

    /// Stores two executions in a data directory of this name.
    async fn fill(&self, data: &str) {
        let store = RedbStore::open(&self.home.file(data), store::Options::default()).unwrap();
        for name in ["one", "two"] {
            Script::new(name, 9).commit_steps(&store, 3).await;
        }
        store.close().await.unwrap();
    }

    /// Makes the tables of the database, as a server that was there before.
    async fn make_tables(&self) {
        self.place.open().await.close().await.unwrap();
    }

    /// A server on the data directory.
    fn serve_directory(&self) -> HttpServer {
        let mut command = Command::new(Home::binary());
        self.home.add_serve_alone_flags(&mut command, "data");
        HttpServer::run(command)
    }

    /// The command that serves the database.
    fn database_server(&self) -> Command {
        self.home.cluster_server("other", &self.place.url_with_schema())
    }

    /// The command that moves a data directory of this name into the database.
    fn command(&self, data: &str) -> Command {
        let mut command = Command::new(Home::binary());
        command
            .args(["migrate-store", "--to", &self.place.url_with_schema(), "--from"])
            .arg(format!("redb:{}", self.home.file(data).display()))
            .env("HOME", self.home.path())
            .current_dir(self.home.path());
        command
    }

    /// Moves the data directory. Returns the JSON that the command prints.
    fn migrate(&self) -> Value {
        let output = self.command("data").arg("--json").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Fails to move the data directory, which stays as it was, and so does the database. Returns the report.
    async fn fail(&self, client: &Client) -> String {
        let before = count_rows(client).await;
        let report = says_failure(&self.command("data").output().unwrap());
        assert_eq!(count_rows(client).await, before);
        assert_eq!(self.names(".replaced-"), [] as [PathBuf; 0]);
        assert!(self.home.file("data").join(FILE_NAME).exists());
        report
    }

    /// The files of the data directory whose names contain this.
    fn names(&self, part: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.home.file("data")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_str().unwrap().contains(part)).collect()
    }
}

/// What a command that failed says.
fn says_failure(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"", "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

async fn count_rows(client: &Client) -> i64 {
    let count = "SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM contents) \
                 + (SELECT count(*) FROM executions)";
    client.query_one(count, &[]).await.map_or(0, |row| row.get(0))
}

fn try_call(server: &HttpServer, tool: &str, arguments: &Value) -> Result<Value, Value> {
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = server.stateless().exchange("tools/call", params).json();
    let content = answer["result"]["structuredContent"].clone();
    if answer["result"]["isError"] == false { Ok(content) } else { Err(content) }
}

fn call(server: &HttpServer, tool: &str, arguments: &Value) -> Value {
    try_call(server, tool, arguments).unwrap_or_else(|refused| panic!("{tool}: {refused}"))
}

fn finish(server: &HttpServer, token: &Value, said: &str) -> Value {
    call(server, "workflow.next_step", &json!({ "token": token, "output": { "said": said } }))
}

fn start(server: &HttpServer, workflow: &str, id: &str) -> Value {
    call(server, "workflow.start", &json!({ "workflow_name": workflow, "execution_id": id }))
}

fn read(server: &HttpServer, uri: &str) -> Value {
    let params = json!({ "uri": format!("midex://workflow/{uri}") });
    let answer = server.stateless().exchange("resources/read", params).json();
    let text =
        answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap()
}

/// Asks until the answer satisfies the condition.
fn until(server: &HttpServer, uri: &str, holds: impl Fn(&Value) -> bool) -> Value {
    midex_test::door::until(uri, || Some(read(server, uri)).filter(&holds))
}

/// All executions, in the order of lists.
fn list(server: &HttpServer) -> Vec<Value> {
    let answer =
        call(server, "execution.list", &json!({ "limit": 50, "children": true, "project": "*" }));
    answer["executions"].as_array().unwrap().clone()
}

const IDS: [&str; 5] = ["open", "failing", "failing~2", "parent", "done"];

/// The list and the histories of the executions that only calls move.
fn look(server: &HttpServer) -> Vec<Value> {
    let rows = list(server).into_iter().filter(|row| row["execution_id"] != "timer");
    let histories = IDS.map(|id| read(server, &format!("step_history/{id}")));
    let telemetry = IDS.map(|id| read(server, &format!("telemetry/{id}")));
    rows.chain(histories).chain(telemetry).collect()
}

/// What a client of the data directory knows.
struct Known {
    /// A step that it finished with a large output, and the answer.
    first: (Value, Value),
    child: Value,
    looked: Vec<Value>,
    /// The events of all executions, and refused calls.
    telemetry: Value,
}

/// The size of an output that is kept apart from its row.
const LARGE: usize = 20_000;

fn work(migration: &Migration) -> Known {
    let mut server = migration.serve_directory();
    let labelled = json!({ "workflow_name": "three-steps", "execution_id": "open", "labels": { "pr": "123" } });
    let token = call(&server, "workflow.start", &labelled)["new_token"].clone();
    let answer = finish(&server, &token, &"x".repeat(LARGE));
    let failing = start(&server, "three-steps", "failing");
    let error = json!({ "token": failing["new_token"], "error": { "message": "no" } });
    assert_eq!(call(&server, "workflow.next_step", &error)["workflow_state"], "failed");
    call(&server, "execution.retry", &json!({ "execution_id": "failing" }));
    for id in ["done", "gone"] {
        let mut reply = start(&server, "three-steps", id);
        while reply["workflow_state"] != "completed" {
            reply = finish(&server, &reply["new_token"], "done");
        }
    }
    call(&server, "execution.delete", &json!({ "execution_id": "gone", "confirm": true }));
    start(&server, "parent", "parent");
    let is_child = |row: &Value| row["parent"] == "parent";
    let child = midex_test::door::until("a child", || list(&server).into_iter().find(is_child));
    let address = format!("current_step/{}", child["execution_id"].as_str().unwrap());
    let offer = until(&server, &address, |step| step["continuation_token"].is_string());
    let forged = json!({ "token": "forged", "output": {} });
    try_call(&server, "workflow.next_step", &forged).unwrap_err();
    let (looked, telemetry) = (look(&server), read(&server, "telemetry?limit=500"));
    start(&server, "timer", "timer");
    server.terminate();
    assert!(server.wait().success());
    let child = offer["continuation_token"].clone();
    Known { first: (token, answer), child, looked, telemetry }
}

#[tokio::test]
async fn what_a_data_directory_has_goes_on_in_the_database() {
    let (migration, _) = Migration::new("moved").await;
    tokio::task::spawn_blocking(move || check_moved(&migration)).await.unwrap();
}

fn check_moved(migration: &Migration) {
    let known = work(migration);
    let moved = migration.migrate();
    // With the timer and the child.
    assert_eq!(moved["records"]["executions"], IDS.len() + 2, "{moved}");
    for (table, count) in [("forks", 1), ("tombstones", 1), ("refusals", 1)] {
        assert_eq!(moved["records"][table], count, "{moved}");
    }
    assert!(moved["bytes"].as_u64().unwrap() > LARGE as u64, "{moved}");
    let kept = moved["kept"].as_str().unwrap();
    assert_eq!(migration.names(".redb"), [PathBuf::from(kept)]);

    let server = HttpServer::run(migration.database_server());
    assert_eq!(look(&server), known.looked);
    let all = read(&server, "telemetry?limit=500");
    let [all, before] = [&all, &known.telemetry].map(|events| events.as_array().unwrap());
    assert_eq!(all[..before.len()], before[..]);
    let labelled = call(&server, "execution.list", &json!({ "labels": { "pr": "123" } }));
    assert_eq!(labelled["executions"][0]["execution_id"], "open", "{labelled}");

    let (token, answer) = known.first;
    let mut repeated = finish(&server, &token, &"x".repeat(LARGE));
    assert_eq!(repeated["replayed"].take(), true);
    assert_eq!(repeated["previous"], answer["previous"]);
    assert_eq!(repeated["new_token"], answer["new_token"]);
    assert_eq!(finish(&server, &answer["new_token"], "done")["step_name"], "third");
    let mut reply = finish(&server, &known.child, "done");
    while reply["workflow_state"] != "completed" {
        reply = finish(&server, &reply["new_token"], "done");
    }
    until(&server, "workflow_status/parent", |status| status["state"] == "completed");
    until(&server, "workflow_status/timer", |status| status["current_step"] == "after");
    let again = json!({ "workflow_name": "three-steps", "execution_id": "gone" });
    let refused = try_call(&server, "workflow.start", &again).unwrap_err();
    assert_eq!(refused["error_code"], "EXECUTION_DELETED");
}

/// Names an activity that never ends, and says when it begins.
fn endless(name: &'static str, begun: mpsc::UnboundedSender<()>) -> Activities {
    let run = move |_: Context| {
        begun.send(()).unwrap();
        std::future::pending::<Result<Value, OperationFailure>>()
    };
    Activities::default().with_activity(function(name, run)).unwrap()
}

async fn start_engine(store: Arc<dyn Store>, activities: Activities) -> Engine {
    let options = Options::new(store, Arc::new(SystemClock), Arc::new(SystemIds));
    Engine::new(Options { activities, ..options }).await.unwrap()
}

#[test]
fn an_attempt_that_was_in_flight_counts_as_cut_off() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let migration = runtime().block_on(Migration::new("attempts")).0;
    let first = runtime();
    first.block_on(async {
        // An owner that opens the file later has a larger epoch than the first one of the database would have.
        migration.fill("data").await;
        let data = migration.home.file("data");
        let store = RedbStore::open(&data, store::Options::default()).unwrap();
        let (begun, mut begins) = mpsc::unbounded_channel();
        let engine = start_engine(Arc::new(store), endless("work", begun)).await;
        let steps = "steps:\n  - { id: only, activity: work }\n";
        let definition = play::defined_with(steps, &["work"]);
        engine.start(play::request(definition, "e")).await.unwrap();
        begins.recv().await.unwrap();
    });
    // As if the process had been killed: nothing of the attempt is stored.
    drop(first);
    migration.migrate();
    runtime().block_on(async {
        let (begun, _begins) = mpsc::unbounded_channel();
        let store = Arc::new(migration.place.open().await);
        let engine = start_engine(store, endless("work", begun)).await;
        let paused = async {
            loop {
                let status = engine.status(&play::id("e")).await.unwrap();
                if status.state == "paused" {
                    break status;
                }
                engine.wait(&play::id("e"), None, Duration::from_secs(1)).await.unwrap();
            }
        };
        let status = tokio::time::timeout(PATIENCE, paused).await.expect("it pauses");
        assert_eq!(status.pause_reasons, [PauseReason::OutcomeUnknown]);
        engine.stop().await.unwrap();
    });
}

/// Lets the insertion of executions wait as long as the table `held` has a row.
const HOLD: &str = "CREATE TABLE held (); INSERT INTO held DEFAULT VALUES;
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        WHILE EXISTS (SELECT FROM held) LOOP PERFORM pg_sleep(0.02); END LOOP;
        RETURN NEW;
    END $$;
    CREATE TRIGGER hold BEFORE INSERT ON executions FOR EACH ROW EXECUTE FUNCTION hold()";

/// Starts a migration, and waits until the trigger holds it.
async fn start_held(migration: &Migration, client: &Client) -> Child {
    let mut command = migration.command("data");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let waiting = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) \
                   WHERE relation = 'executions'::regclass AND mode = 'RowExclusiveLock' AND wait_event = 'PgSleep'";
    let held = async {
        while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, held).await.expect("the trigger holds it");
    child
}

#[tokio::test]
async fn a_migration_that_is_killed_leaves_nothing_and_completes_when_it_is_run_again() {
    let (migration, client) = Migration::new("killed").await;
    migration.fill("data").await;
    migration.fill("others").await;
    migration.make_tables().await;
    client.batch_execute(HOLD).await.unwrap();
    let mut child = start_held(&migration, &client).await;
    // The migration holds the locks of all shards, so no server can take one.
    let mut command = migration.database_server();
    command.args(["--cluster-lease", "400ms"]);
    let server = HttpServer::run(command);
    let refused = try_call(&server, "execution.list", &json!({})).unwrap_err();
    assert_eq!(refused["error_code"], "STORE_UNAVAILABLE", "{refused}");
    drop(server);
    let other = says_failure(&migration.command("others").output().unwrap());
    other.shows("STORE_UNAVAILABLE…such as that of a `midex migrate-store`");
    assert!(says_failure(&migration.command("data").output().unwrap()).contains("STORE_BUSY"));
    child.kill().unwrap();
    child.wait().unwrap();
    client.batch_execute("DELETE FROM held").await.unwrap();
    assert_eq!(count_rows(&client).await, 0);
    assert!(migration.home.file("data").join(FILE_NAME).exists());
    let moved = migration.migrate();
    assert_eq!(moved["records"]["executions"], 2, "{moved}");
    assert!(count_rows(&client).await > 0);
    let server = HttpServer::run(migration.database_server());
    assert_eq!(list(&server).len(), 2);
}

#[tokio::test]
async fn what_the_database_does_not_give_back_is_found() {
    const PLANTS: [(&str, &str, &str); 4] = [
        (
            "BEFORE INSERT ON journal",
            "IF NEW.seq = 2 THEN NEW.record = ''; END IF;",
            "`journal`…key `2`",
        ),
        ("BEFORE INSERT ON executions", "NEW.due = 5;", "`executions`…key `one`"),
        ("BEFORE INSERT ON executions", "NEW = NULL;", "`executions`…key `one`"),
        (
            "AFTER INSERT ON executions",
            "INSERT INTO candidates VALUES ('\\x07') ON CONFLICT DO NOTHING;",
            "`candidates`…key `07`",
        ),
    ];
    let (migration, client) = Migration::new("differs").await;
    migration.fill("data").await;
    migration.make_tables().await;
    for (when, change, named) in PLANTS {
        let plant = format!(
            "CREATE OR REPLACE FUNCTION plant() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN {change} RETURN NEW; END $$; \
             CREATE TRIGGER plant {when} FOR EACH ROW EXECUTE FUNCTION plant()"
        );
        client.batch_execute(&plant).await.unwrap();
        let report = migration.fail(&client).await;
        report.shows(&format!("does not give back what was stored…{named}"));
        report.shows("Remove what changes the tables…nothing was stored");
        let table = when.rsplit(' ').next().unwrap();
        client.batch_execute(&format!("DROP TRIGGER plant ON {table}")).await.unwrap();
    }
    migration.migrate();
}

#[tokio::test]
async fn a_migration_that_would_lose_something_is_refused() {
    let (migration, client) = Migration::new("refused").await;
    migration.fill("data").await;
    let store = migration.place.open().await;
    migration.fail(&client).await.shows("STORE_BUSY…a server uses the database…Stop all servers");
    Script::new("own", 9).commit_steps(&store, 1).await;
    store.close().await.unwrap();
    migration.fail(&client).await.shows("FILE_EXISTS…records already…Name another database");
    client.batch_execute("UPDATE meta SET value = value + 1").await.unwrap();
    migration.fail(&client).await.shows("STORE_TOO_NEW…Install the midex");
    let server = HttpServer::run(migration.database_server());
    let refused = try_call(&server, "execution.list", &json!({})).unwrap_err();
    assert_eq!(refused["error_code"], "STORE_TOO_NEW", "{refused}");
    let server = migration.serve_directory();
    migration.fail(&client).await.shows("STORE_BUSY…Stop the midex that uses the data directory");
    drop(server);
    let output = migration.command("nowhere").output().unwrap();
    says_failure(&output).shows("FILE_UNUSABLE…nowhere/executions.redb");
    assert!(!migration.home.file("nowhere").exists());
}
