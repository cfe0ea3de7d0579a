//! The shipped runbook of an incident, led against a service that counts what is done to it, while its server is killed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    door::Door,
    long,
    project::Project,
    service::{Reply, Seen, Service},
};

/// A platform with services and their instances.
fn document(host: &str) -> String {
    let named = |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "ops", "version": "1" },
        "servers": [{ "url": format!("http://{host}") }],
        "paths": {
            "/services": { "get": { "summary": "List services", "responses": { "200": { "description": "" } } } },
            "/services/{service}": {
                "parameters": [named("service")],
                "get": { "summary": "Show a service", "responses": { "200": { "description": "" } } }
            },
            "/services/{service}/instances": {
                "parameters": [named("service")],
                "get": { "summary": "List instances", "responses": { "200": { "description": "" } } }
            },
            "/services/{service}/instances/{instance}": {
                "parameters": [named("service"), named("instance")],
                "delete": { "summary": "Remove an instance", "responses": { "204": { "description": "" } } }
            }
        }
    })
    .to_string()
}

/// What was removed, with the keys of the calls that did it.
type Removed = Arc<Mutex<BTreeMap<String, u32>>>;

fn reply(seen: &Seen, removed: &Removed) -> Reply {
    let (method, target) = (seen.line.split(' ').next().unwrap_or_default(), seen.target());
    match (method, target.split('/').count()) {
        ("DELETE", _) => {
            *removed.lock().unwrap().entry(target.to_owned()).or_default() += 1;
            midex_test::service::answer(204, &[], b"")
        }
        ("GET", 4) => midex_test::service::json(200, &json!([{ "id": "i-1" }, { "id": "i-2" }])),
        _ => {
            let service = target.rsplit('/').next().unwrap_or_default();
            let is_well = removed.lock().unwrap().keys().any(|key| key.contains(service));
            let state = if is_well { "healthy" } else { "failing" };
            midex_test::service::json(200, &json!({ "id": service, "state": state }))
        }
    }
}

/// A midex whose server may be killed at any time.
struct Desk {
    project: Project,
    server: Option<Server>,
    kills: u64,
}

impl Desk {
    /// Calls a tool until a server has answered: one that was killed is followed by another.
    fn ask(&mut self, tool: &str, arguments: &Value) -> Value {
        for _ in 0..50 {
            let server = self.server.get_or_insert_with(|| self.project.serve());
            let params = json!({ "name": tool, "arguments": arguments });
            match server.try_request("tools/call", params) {
                Some(answer) => return answer["result"]["structuredContent"].clone(),
                None => self.server = None,
            }
        }
        panic!("no server answers {tool}");
    }

    /// A resource of an execution.
    fn read(&mut self, resource: &str, id: &str) -> Value {
        let uri = format!("midex://workflow/{resource}/{id}");
        self.ask("workflow.read", &json!({ "uri": uri }))["content"].take()
    }

    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
            self.kills += 1;
        }
    }

    fn approve(&mut self, id: &str, status: &Value) {
        self.server.get_or_insert_with(|| self.project.serve());
        let mut door = Door::enter(&self.project.data_dir(), self.project.root());
        let wait = &status["waits"][0];
        let answer = json!({
            "execution_id": id, "step_name": "approve", "visit": wait["visit"], "shown": wait["gate"]["shown"],
            "approved": true, "by": "ada"
        });
        door.done("execution.approve", answer);
    }

    /// Leads one incident to its end, with a kill after each of `kills` steps.
    fn lead(&mut self, id: &str, dice: &mut long::Dice) {
        let inputs = json!({ "service": id, "symptom": "Payments fail" });
        let start =
            json!({ "workflow_name": "incident-runbook", "execution_id": id, "inputs": inputs });
        self.ask("workflow.start", &start);
        for _ in 0..200 {
            if dice.roll(3) == 0 {
                self.kill();
            }
            let now = self.read("current_step", id);
            let status = self.read("workflow_status", id);
            match (status["state"].as_str(), now["current_step"].as_str()) {
                (Some("completed"), _) => return,
                (_, Some("diagnose")) => {
                    let output = json!({ "summary": "i-1 fails", "cause": "Its disk is full", "remove": true, "instance": "i-1" });
                    self.ask(
                        "workflow.next_step",
                        &json!({ "token": now["continuation_token"], "output": output }),
                    );
                }
                (_, Some("report")) => {
                    let output = json!({ "summary": "It was the disk of i-1" });
                    self.ask(
                        "workflow.next_step",
                        &json!({ "token": now["continuation_token"], "output": output }),
                    );
                }
                (Some("paused"), _) if status["pause_reasons"] == json!(["gate"]) => {
                    self.approve(id, &status);
                    if dice.roll(2) == 0 {
                        self.kill();
                    }
                }
                (Some("running"), _) => {
                    let wait = json!({ "execution_id": id, "since_revision": status["revision"], "timeout_s": 1 });
                    self.ask("execution.wait", &wait);
                }
                _ => panic!("{id} is stuck: {status} {now}"),
            }
        }
        panic!("{id} does not end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_is_led_to_its_end_however_often_the_server_is_killed() {
    let removed = Removed::default();
    let counted = removed.clone();
    let service = Service::new(move |seen: &Seen| reply(seen, &counted)).await;
    let project = Project::new(&[("ops.json", &document(&service.host))]);
    let mut server = project.serve();
    let missing = server.refused("workflow.start", json!({ "workflow_name": "incident-runbook" }));
    assert_eq!(missing["error_code"], "CATALOG_MISSING");
    let import = json!({ "source": "ops.json", "catalog_title": "ops" });
    server.done("catalog.import_openapi", import);
    let path = project.path("home/.config/midex/catalogs/ops/catalog.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("allow = [\"{}\"]\n{text}", service.host)).unwrap();
    let seed = long::seed(16);
    let mut dice = long::Dice(seed);
    let mut desk = Desk { project, server: Some(server), kills: 0 };
    let (wanted, mut incidents) = (long::rounds(4, 100), 0);
    while desk.kills < wanted {
        incidents += 1;
        desk.lead(&format!("svc-{incidents}"), &mut dice);
    }
    let removed = removed.lock().unwrap();
    assert_eq!(removed.len(), incidents, "nothing is lost: {removed:?}");
    // Removing is done again only where nobody knew whether it was done: at most once for each kill.
    let again: u64 = removed.values().map(|count| u64::from(*count) - 1).sum();
    assert!(again <= desk.kills, "{removed:?}");
}
