//! The definitions of a project that `midex publish` shares with real servers on one database.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use midex_domain::Digest;
use midex_test::{
    Shows as _, door,
    http::{HttpClient as _, HttpServer},
    service::{self, Service},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    home::Home,
    place::Place,
    proxy::{Proxy, Slowness},
};

const OWN: &str = "workflow: own
description: A workflow of the servers' own
steps:
  - { id: only, guidance: Do it, result: {} }
";
const BASE: &str = "workflow: base
description: Two steps
steps:
  - { id: first, agent: critic, instructions: Read it }
  - { id: second, guidance: Judge it in the old way, result: {} }
";
const REVIEW: &str = "workflow: review
extends: base
description: The old review
";
const STOCK: &str = "workflow: stock
description: Calls the shop
steps:
  - { id: ready, guidance: Say when, result: {} }
  - { id: orders, run: shop orders:list }
final_output: ${{ steps.orders }}
";
const CRITIC: &str = "---
name: critic
description: Finds faults
---
Find every fault.
";
const SETTINGS: &str = "title = \"Shop\"\nvendor = \"shop\"\n";

/// A person with a project and a catalog, and servers on other machines.
struct Team {
    place: Place,
    servers: Home,
    person: TempDir,
}

impl Team {
    async fn new(name: &str, shop: &str) -> Self {
        let team = Self {
            place: Place::new(name),
            servers: Home::new(OWN),
            person: tempfile::tempdir().unwrap(),
        };
        // Creates the schema.
        drop(team.place.connect().await);
        team.write("workflows/base.yaml", BASE);
        team.write("workflows/deep/review.yaml", REVIEW);
        team.write("workflows/stock.yaml", STOCK);
        team.write("workflows/README.md", "Not a workflow");
        team.write("agents/critic.md", CRITIC);
        let settings = format!("{SETTINGS}base_url = \"http://{shop}\"\nallow = [\"{shop}\"]\n");
        team.write(".config/midex/catalogs/shop/catalog.toml", &settings);
        let document = json!({
            "openapi": "3.1.0",
            "info": { "title": "Shop", "version": "1" },
            "servers": [{ "url": format!("http://{shop}") }],
            "paths": { "/orders": { "get": { "responses": { "200": { "description": "" } } } } }
        });
        team.write(".config/midex/catalogs/shop/document.yaml", &document.to_string());
        team
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.person.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `midex publish` in the project, which must end with this exit code. Returns the output.
    #[track_caller]
    fn publish(&self, flags: &[&str], code: i32) -> String {
        self.publish_in(self.person.path(), flags, code)
    }

    #[track_caller]
    fn publish_in(&self, directory: &Path, flags: &[&str], code: i32) -> String {
        let mut command = Command::new(Home::binary());
        command.args(["publish", "--to", &self.place.url_with_schema()]).args(flags);
        command.env("HOME", self.person.path()).current_dir(directory);
        let output = command.output().unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{printed}");
        printed
    }

    fn start(&self, data: &str) -> HttpServer {
        self.start_at(data, &self.place.url_with_schema())
    }

    /// Starts a server with this data directory, to which the database has this address.
    fn start_at(&self, data: &str, url: &str) -> HttpServer {
        HttpServer::run(self.servers.cluster_server(data, url))
    }

    fn status(&self, data: &str) -> String {
        let mut command = Command::new(Home::binary());
        command.args(["cluster", "status", "--data-dir"]).arg(self.servers.file(data));
        let output = command.env("HOME", self.servers.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

fn ask(server: &HttpServer, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = server.stateless().exchange("tools/call", params).json();
    answer["result"]["structuredContent"].clone()
}

/// Asks again while the answer is an error that may pass.
fn call(server: &HttpServer, tool: &str, arguments: &Value) -> Value {
    door::until(tool, || {
        let answer = ask(server, tool, arguments);
        (answer["retryable"] != true).then_some(answer)
    })
}

fn start(server: &HttpServer, workflow: &str, id: &str) -> Value {
    call(server, "workflow.start", &json!({ "workflow_name": workflow, "execution_id": id }))
}

/// The published workflows that a server lists, with their descriptions.
fn published(server: &HttpServer) -> Vec<(String, String)> {
    let list = ask(server, "workflow.list", &json!({ "source": "cluster", "brief": true }));
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let entries = list["workflows"].as_array().unwrap().iter();
    entries.map(|entry| (text(entry, "workflow_id"), text(entry, "description"))).collect()
}

fn until_published(server: &HttpServer, expected: &[(&str, &str)]) {
    door::until("the new version", || {
        let listed = published(server);
        let pairs: Vec<_> = listed.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        (pairs == expected).then_some(())
    });
}

const FIRST: &[(&str, &str)] =
    &[("base", "Two steps"), ("review", "The old review"), ("stock", "Calls the shop")];

/// Runs a test on a thread that may block, beside the services of its runtime.
async fn run(test: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(test).await.unwrap();
}

#[tokio::test]
async fn every_server_has_what_is_published() {
    let shop = Service::new(|_| service::json(200, &json!(["one order"]))).await;
    let team = Team::new("publishing", &shop.host).await;
    run(move || check_following(&team)).await;
}

fn check_following(team: &Team) {
    let with_shop = &["--catalog", "shop"];
    // A catalog that is not published is not there for the servers.
    let text = team.publish(&[], 1);
    text.shows(&["stock.yaml", "there is no catalog `shop`"]);
    let text = team.publish(with_shop, 0);
    text.shows("Published version 1: 6 files\n");
    for path in [
        "added    agents/critic.md",
        "added    catalogs/shop/catalog.toml",
        "added    catalogs/shop/document.yaml",
        "added    workflows/base.yaml",
        "added    workflows/deep/review.yaml",
        "added    workflows/stock.yaml",
    ] {
        text.shows(path);
    }

    let (mut reviews, mut stocks) = (Vec::new(), Vec::new());
    let servers = ["one", "two"].map(|name| team.start(name));
    for (at, server) in servers.iter().enumerate() {
        reviews.push(start(server, "review", &format!("review-{at}")));
        reviews[at].to_string().shows(&["Find every fault", "Read it"]);
        stocks.push(start(server, "stock", &format!("stock-{at}")));
        until_published(server, FIRST);
    }
    // No tool changes a published catalog.
    let settings = json!({ "catalog_id": "shop", "base_url": "https://shop.example" });
    let refused = ask(&servers[0], "catalog.set_base_url", &settings);
    refused.to_string().shows("`shop` is published to all servers");

    let text = team.publish(with_shop, 0);
    assert_eq!(text, "Nothing has changed since version 1: 6 files\n");
    team.write("workflows/base.yaml", "workflow: base\nsteps: 1\n");
    let text = team.publish(with_shop, 1);
    text.shows("workflows/base.yaml");

    team.write("workflows/base.yaml", &BASE.replace("the old way", "the new way"));
    team.write("workflows/deep/review.yaml", &REVIEW.replace("old", "new"));
    fs::remove_file(team.path("workflows/stock.yaml")).unwrap();
    let text = team.publish(&["--catalog", "shop", "--json"], 0);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let changes = json!({
        "workflows/base.yaml": "changed",
        "workflows/deep/review.yaml": "changed",
        "workflows/stock.yaml": "removed",
    });
    assert_eq!((&answer["version"], &answer["changes"]), (&json!(2), &changes));
    for (at, server) in servers.iter().enumerate() {
        until_published(server, &[("base", "Two steps"), ("review", "The new review")]);
        let gone = ask(server, "workflow.start", &json!({ "workflow_name": "stock" }));
        assert_eq!(gone["error_code"], "WORKFLOW_NOT_FOUND");
        // An execution keeps the definition that it started with, also if that was removed.
        let next = |task: &Value| {
            let output = json!({ "token": task["new_token"], "output": { "summary": "read" } });
            call(server, "workflow.next_step", &output).to_string()
        };
        next(&reviews[at]).shows("the old way");
        next(&start(server, "review", &format!("new-{at}"))).shows("the new way");
        next(&stocks[at]);
        let id = format!("stock-{at}");
        door::until("the orders", || {
            let show = json!({ "execution_id": id, "timeout_s": 1 });
            call(server, "execution.wait", &show).to_string().contains("one order").then_some(())
        });
    }
    team.status("one")
        .shows("version 2 of the definitions is published; this server uses version 2");

    let text = team.publish(&[], 0);
    text.shows(&["removed  catalogs/shop/catalog.toml", "removed  catalogs/shop/document.yaml"]);
    for server in &servers {
        door::until("no catalog", || {
            let catalogs = ask(server, "catalog.list", &json!({}));
            (catalogs["catalogs"] == json!([])).then_some(())
        });
    }
}

/// Puts a version into the database, past `midex publish`.
async fn insert_version(team: &Team, version: i64, files: &[u8]) {
    let client = team.place.connect().await;
    let digest = Digest::compute(files);
    let statement = "INSERT INTO publications (version, digest, files) VALUES ($1, $2, $3)";
    let digest = digest.as_bytes().as_slice();
    client.execute(statement, &[&version, &digest, &files]).await.unwrap();
}

#[tokio::test]
async fn what_no_project_publishes_is_refused() {
    let team = Team::new("hostile", "127.0.0.1:9").await;
    let handle = tokio::runtime::Handle::current();
    run(move || check_refusals(&team, &handle)).await;
}

fn check_refusals(team: &Team, handle: &tokio::runtime::Handle) {
    let empty = tempfile::tempdir().unwrap();
    let text = team.publish_in(empty.path(), &[], 2);
    text.shows(&["the project has no workflows and no agents", "--project"]);
    team.write(
        ".config/midex/catalogs/shop/catalog.toml",
        &format!("{SETTINGS}[headers]\nAuthorization = \"Bearer abc123\"\n"),
    );
    let text = team.publish(&["--catalog", "shop"], 2);
    text.shows(&["has the value of `Authorization`", "${env:NAME}"]);
    text.lacks("abc123");
    let text = team.publish(&["--catalog", "nobody"], 1);
    text.shows("there is no catalog `nobody`");

    // An agent of Claude Code is not published, so no workflow can have it.
    fs::create_dir_all(team.path(".claude/agents")).unwrap();
    fs::rename(team.path("agents/critic.md"), team.path(".claude/agents/critic.md")).unwrap();
    let text = team.publish(&[], 1);
    text.shows(&["base.yaml", "critic"]);
    team.write("agents/critic.md", CRITIC);

    fs::remove_file(team.path("workflows/stock.yaml")).unwrap();
    let project = team.person.path().to_str().unwrap();
    team.publish_in(empty.path(), &["--project", project], 0);
    let server = team.start("one");
    let first = &[("base", "Two steps"), ("review", "The old review")];
    until_published(&server, first);

    let evil =
        "workflow: evil\ndescription: Evil\nsteps: [{ id: a, guidance: Do it, result: {} }]\n";
    for (version, path) in [
        (2, "workflows/../../evil.yaml"),
        (3, "/tmp/evil.yaml"),
        (4, "workflows/.x/evil.yaml"),
        (5, "evil.sh"),
    ] {
        let files = json!({ "workflows/good.yaml": evil, path: evil });
        handle.block_on(insert_version(team, version, files.to_string().as_bytes()));
        let refusal = format!("`{path}` is no path of a definition");
        door::until("the refusal", || server.stderr().contains(&refusal).then_some(()));
        assert!(
            !team.servers.file("evil.yaml").exists()
                && !team.servers.file("one/evil.yaml").exists()
        );
        assert!(!team.servers.file("one/published/workflows/good.yaml").exists());
    }
    handle.block_on(insert_version(team, 6, b"no JSON"));
    door::until("the refusal", || server.stderr().contains("damaged or too large").then_some(()));
    until_published(&server, first);
    assert_eq!(start(&server, "review", "r")["workflow_state"], "running");
    team.status("one")
        .shows("version 6 of the definitions is published; this server uses version 1");

    team.write("workflows/deep/review.yaml", &REVIEW.replace("old", "mended"));
    let text = team.publish(&[], 0);
    text.shows("Published version 7");
    until_published(&server, &[("base", "Two steps"), ("review", "The mended review")]);
    // The database keeps ten versions.
    for number in 0..10 {
        team.write("workflows/base.yaml", &BASE.replace("Two steps", &format!("Version {number}")));
        team.publish(&[], 0);
    }
    let versions = handle.block_on(async {
        let client = team.place.connect().await;
        let row = client.query_one("SELECT min(version), max(version) FROM publications", &[]);
        let row = row.await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    });
    assert_eq!(versions, (8, 17));
}

#[tokio::test]
async fn a_server_keeps_what_was_published_while_the_database_is_away() {
    let team = Team::new("away", "127.0.0.1:9").await;
    let handle = tokio::runtime::Handle::current();
    run(move || check_absence(&team, &handle)).await;
}

fn check_absence(team: &Team, handle: &tokio::runtime::Handle) {
    team.publish(&["--catalog", "shop"], 0);
    let slowness = Slowness { delay_max: std::time::Duration::ZERO, piece_max: 16_384 };
    let start_proxy = |listen: SocketAddr| {
        handle.block_on(Proxy::start_at(listen, Place::database(), slowness, 1))
    };
    let proxy = start_proxy(([127, 0, 0, 1], 0).into());
    let address = proxy.address;
    let url = team.place.url_with_schema();
    let url = url.replace(&Place::database().to_string(), &address.to_string());
    let mut server = team.start_at("one", &url);
    until_published(&server, FIRST);
    server.terminate();
    assert!(server.wait().success());
    drop(proxy);

    let server = team.start_at("one", &url);
    until_published(&server, FIRST);
    let refused = ask(&server, "workflow.start", &json!({ "workflow_name": "review" }));
    assert_eq!(
        (&refused["error_code"], &refused["retryable"]),
        (&json!("STORE_UNAVAILABLE"), &json!(true))
    );
    team.write("workflows/deep/review.yaml", &REVIEW.replace("old", "new"));
    team.publish(&["--catalog", "shop"], 0);
    let _proxy = start_proxy(address);
    let started = start(&server, "review", "later");
    assert_eq!(started["workflow_state"], "running", "{started}");
    until_published(&server, &[FIRST[0], ("review", "The new review"), FIRST[2]]);
}
