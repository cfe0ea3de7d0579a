//! Three real servers on one database, of which one is killed and one is stopped.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use midex_test::{
    Shows as _,
    http::{HttpClient as _, HttpServer},
};
use serde_json::{Value, json};

use crate::{
    home::{Home, THREE_STEPS},
    place::Place,
};

/// As many as a page of a list holds.
const EXECUTIONS: usize = 50;

/// What the servers share.
struct Cluster {
    place: Place,
    home: Home,
}

impl Cluster {
    fn new(name: &str) -> Self {
        Self { place: Place::new(name), home: Home::new(THREE_STEPS) }
    }

    /// Starts a server on free ports.
    fn start(&self, name: &str) -> HttpServer {
        HttpServer::run(self.home.cluster_server(name, &self.place.url_with_schema()))
    }
}

#[expect(clippy::disallowed_methods, reason = "real servers are timed")]
fn now() -> Instant {
    Instant::now()
}

/// Calls a tool until its answer is not an error that may pass. Returns the answer, and how long it took.
fn call(server: &HttpServer, tool: &str, arguments: &Value) -> (Value, Duration) {
    let begin = now();
    loop {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = server.stateless().exchange("tools/call", params).json();
        let result = &answer["result"];
        let content = &result["structuredContent"];
        if result["isError"] == false {
            return (content.clone(), begin.elapsed());
        }
        assert_eq!(content["retryable"], true, "{answer}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{answer}");
    }
}

/// Finishes a step of each execution, which `servers` are asked for in turns. Returns the longest time, and the next tokens.
fn finish_all(servers: &[&HttpServer], tokens: &[String]) -> (Duration, Vec<String>) {
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls = tokens.iter().zip(servers.iter().cycle()).map(|(token, server)| {
            scope.spawn(move || {
                let output = json!({ "token": token, "output": { "said": "done" } });
                call(server, "workflow.next_step", &output)
            })
        });
        let calls: Vec<_> = calls.collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let longest = answers.iter().map(|(_, took)| *took).max().unwrap();
    (longest, answers.iter().map(|(answer, _)| next_token(answer)).collect())
}

fn next_token(answer: &Value) -> String {
    answer["new_token"].as_str().unwrap_or_default().to_owned()
}

/// Checks what commands on a machine of the cluster say of it.
fn check_status(cluster: &Cluster) {
    let run = |command: &[&str]| {
        let mut midex = Command::new(Home::binary());
        let midex = midex.args(command).arg("--data-dir").arg(cluster.home.file("one"));
        let output = midex.env("HOME", cluster.home.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let status: Value = serde_json::from_str(&run(&["cluster", "status", "--json"])).unwrap();
    let servers = status["servers"].as_array().unwrap();
    let count = |name: &str| servers.iter().filter_map(|one| one[name].as_u64()).sum::<u64>();
    assert_eq!((servers.len(), count("shards")), (3, 256), "{status}");
    assert_eq!(status["free_shards"], 0);
    let is_this = servers.iter().filter(|server| server["is_this"] == true).count();
    assert_eq!(is_this, 1);
    assert!(status["clock_ahead_ms"].as_i64().unwrap().abs() < 1_000, "{status}");
    let text = run(&["cluster", "status"]);
    text.shows("3 servers and 256 shards; the database answers in ");
    text.shows("http://127.0.0.1:…(this one)…ends in ");
    run(&["doctor"]).shows("cluster…3 servers and 256 shards");
}

#[tokio::test]
async fn executions_go_on_elsewhere_when_a_server_is_killed_or_stopped() {
    let cluster = Cluster::new("processes");
    // Creates the schema.
    drop(cluster.place.connect().await);
    tokio::task::spawn_blocking(move || check_takeovers(&cluster)).await.unwrap();
}

/// A command must not open a store in the data directory of a server of a cluster that is down.
fn check_directory_without_server(cluster: &Cluster, name: &str) {
    let directory = cluster.home.file(name);
    // The first may succeed later.
    let backup = directory.join("cluster-member").display().to_string();
    for (arguments, code) in [
        (["list", "executions"].as_slice(), 75),
        (&["compact"], 75),
        (&["restore", &backup], 75),
        (&["doctor"], 1),
    ] {
        let mut midex = Command::new(Home::binary());
        midex.env("HOME", cluster.home.path()).arg("--data-dir").arg(&directory);
        let output = midex.args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(
            text.contains("are in a database, and no server of that cluster runs here"),
            "{text}"
        );
        assert_eq!(output.status.code(), Some(code), "{text}");
    }
    assert!(!directory.join("executions.redb").exists());
}

fn check_takeovers(cluster: &Cluster) {
    let [first, mut second, third] = ["one", "two", "three"].map(|name| cluster.start(name));
    let tokens: Vec<_> = (0..EXECUTIONS)
        .map(|number| {
            let start =
                json!({ "workflow_name": "three-steps", "execution_id": format!("e{number}") });
            next_token(&call(&first, "workflow.start", &start).0)
        })
        .collect();
    let (_, tokens) = finish_all(&[&first, &second, &third], &tokens);
    check_status(cluster);
    second.kill();
    let (killed, tokens) = finish_all(&[&first, &third], &tokens);
    assert!(killed <= Duration::from_secs(12), "{killed:?} after a kill");
    third.terminate();
    let mut third = third;
    assert!(third.wait().success());
    let (stopped, _) = finish_all(&[&first], &tokens);
    assert!(stopped <= Duration::from_secs(1), "{stopped:?} after an orderly stop");
    check_directory_without_server(cluster, "three");
    let (list, _) = call(&first, "execution.list", &json!({ "limit": 100 }));
    let states = list["executions"].as_array().unwrap().iter().map(|row| row["state"].clone());
    let states: Vec<_> = states.collect();
    assert_eq!(states.len(), EXECUTIONS);
    assert!(states.iter().all(|state| state == "completed"), "{states:?}");
}

/// The error of a start at this server.
fn refused_start(server: &HttpServer) -> Value {
    let params =
        json!({ "name": "workflow.start", "arguments": { "workflow_name": "three-steps" } });
    let answer = server.stateless().exchange("tools/call", params).json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["structuredContent"].clone()
}

#[test]
fn no_store_is_opened_beside_a_server_whose_database_does_not_answer() {
    let cluster = Cluster::new("unreachable");
    let url = "postgres://midex@127.0.0.1:1/none";
    let server = HttpServer::run(cluster.home.cluster_server("data", url));
    assert_eq!(refused_start(&server)["error_code"], "STORE_UNAVAILABLE");
    check_directory_without_server(&cluster, "data");
}

#[test]
fn a_data_directory_with_executions_is_migrated_before_it_is_used_with_a_database() {
    let cluster = Cluster::new("own_store");
    let mut alone = Command::new(Home::binary());
    cluster.home.add_serve_alone_flags(&mut alone, "data");
    let mut server = HttpServer::run(alone);
    call(&server, "workflow.start", &json!({ "workflow_name": "three-steps" }));
    server.terminate();
    assert!(server.wait().success());
    let server = cluster.start("data");
    let refused = refused_start(&server);
    assert_eq!(refused["error_code"], "STORE_UNAVAILABLE");
    refused["suggested_action"].as_str().unwrap().shows("midex migrate-store --from redb:");
    assert!(!cluster.home.file("data/cluster-member").exists());
}
