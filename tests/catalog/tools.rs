//! Catalogs as an agent has them: imported, found, called, changed and removed over MCP.

use std::fs;

use serde_json::{Value, json};

use midex_test::{
    Client, Server, has_fields,
    project::{Project, list},
    says,
    service::{Seen, Service},
};

/// A shop: orders are listed, shown, made and deleted.
pub(super) fn document(host: &str) -> String {
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Shop", "version": "1", "description": "Orders of a shop" },
        "servers": [{ "url": format!("http://{host}/api") }],
        "paths": {
            "/orders": {
                "get": {
                    "operationId": "listOrders", "summary": "List the orders",
                    "parameters": [{ "name": "limit", "in": "query", "schema": { "type": "integer" } }],
                    "responses": { "200": { "description": "", "content": { "application/json": { "schema": {
                        "type": "array", "items": { "type": "object", "properties": { "id": { "type": "string" } } } } } } } }
                },
                "post": {
                    "operationId": "createOrder", "summary": "Make an order",
                    "requestBody": { "required": true, "content": { "application/json": { "schema": {
                        "type": "object", "required": ["item"], "properties": { "item": { "type": "string" }, "count": { "type": "integer" } } } } } },
                    "responses": { "201": { "description": "" } }
                }
            },
            "/orders/{order}": {
                "parameters": [{ "name": "order", "in": "path", "required": true, "schema": { "type": "string" } }],
                "get": { "summary": "Show an order", "responses": { "200": { "description": "" } } },
                "delete": { "summary": "Delete an order", "responses": { "204": { "description": "" } } }
            }
        }
    })
    .to_string()
}

pub(super) fn reply(seen: &Seen) -> midex_test::service::Reply {
    let method = seen.line.split(' ').next().unwrap_or_default();
    match (method, seen.target().split('?').next().unwrap_or_default()) {
        ("GET", "/api/orders") => {
            midex_test::service::json(200, &json!([{ "id": "o-1" }, { "id": "o-2" }]))
        }
        (_, "/api/orders/cut") => midex_test::service::Reply::Broken(Vec::new()),
        ("POST", "/api/orders") if seen.text().contains("cut") => {
            midex_test::service::Reply::Broken(Vec::new())
        }
        ("POST", "/api/orders") => midex_test::service::json(201, &json!({ "id": "o-3" })),
        ("DELETE", "/api/orders/slow") => {
            let head = midex_test::service::head(200, &[], Some(280));
            midex_test::service::Reply::Slow(head.into_bytes())
        }
        ("GET", "/api/orders/none") => {
            midex_test::service::json(404, &json!({ "message": "no such order" }))
        }
        ("GET", path) => match path.trim_start_matches("/api/orders/").parse() {
            Ok(status) => {
                midex_test::service::json(status, &json!({ "message": "as it was asked" }))
            }
            Err(_) => midex_test::service::json(200, &json!({ "id": "o-1", "state": "sent" })),
        },
        _ => midex_test::service::answer(204, &[], b""),
    }
}

/// A project with the document, a service behind it, and a server.
struct Shop {
    service: Service,
    project: Project,
    server: Server,
}

impl Shop {
    fn done(&mut self, tool: &str, arguments: Value) -> Value {
        self.server.done(tool, arguments)
    }

    fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        self.server.refused(tool, arguments)
    }

    async fn open() -> Self {
        Self::with(&[], Project::serve).await
    }

    async fn with(files: &[(&str, &str)], serve: impl FnOnce(&Project) -> Server) -> Self {
        let service = Service::new(reply).await;
        let project = Project::new(files);
        project.write("shop.json", &document(&service.host));
        let server = serve(&project);
        Self { service, project, server }
    }

    /// Imports the catalog, and has its user allow the service's address.
    fn import(&mut self) -> Value {
        let import = json!({ "source": "shop.json", "catalog_title": "Shop" });
        let imported = self.server.done("catalog.import_openapi", import);
        self.say(&format!("allow = [\"{}\"]\n", self.service.host));
        imported
    }

    /// Adds to what the user says of the catalog.
    fn say(&self, more: &str) {
        let path = self.settings();
        let text = fs::read_to_string(&path).unwrap();
        // What stands before the first table is of the file itself.
        fs::write(path, format!("{more}{text}")).unwrap();
    }

    fn settings(&self) -> std::path::PathBuf {
        self.project.path("home/.config/midex/catalogs/shop/catalog.toml")
    }

    fn lines(&self) -> Vec<String> {
        self.service.seen().iter().map(|seen| seen.line.clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_becomes_commands_that_are_found_and_called_by_the_tool_of_their_class() {
    let mut shop = Shop::open().await;
    let source = json!({ "source": "shop.json" });
    let valid = shop.done("catalog.validate_openapi", source);
    has_fields(
        &valid,
        json!({ "valid": true, "document_kind": "openapi_3", "operation_count": 4 }),
    );
    let preview =
        json!({ "source": "shop.json", "catalog_title": "Shop", "include_command_preview": true });
    let planned = shop.done("catalog.preview_import", preview);
    has_fields(
        &planned,
        json!({ "projected_command_count": 4, "command_preview_truncated": false }),
    );
    assert_eq!(list(&planned["command_preview"]).len(), 4);
    assert!(!shop.settings().exists(), "nothing is written");

    let imported = shop.import();
    has_fields(&imported, json!({ "catalog_id": "shop", "command_count": 4, "enabled": true }));
    let catalogs = shop.done("catalog.list", json!({}));
    has_fields(
        &catalogs["catalogs"][0],
        json!({ "catalog_id": "shop", "vendor": "shop", "operations": 4 }),
    );
    let again = json!({ "source": "shop.json", "catalog_title": "shop" });
    let refused = shop.refused("catalog.import_openapi", again);
    assert_eq!(refused["error_code"], "CATALOG_CONFLICT");

    let found = shop.done("command.list", json!({ "query": "delete an order" }));
    has_fields(
        &found["commands"][0],
        json!({ "id": "shop orders:delete", "class": "destructive", "http_method": "DELETE" }),
    );
    let one = shop.done("command.list", json!({ "id": "shop orders:list" }));
    has_fields(
        &one["command"],
        json!({ "class": "safe", "path": "/orders", "aliases": ["listOrders"] }),
    );
    assert_eq!(one["command"]["input_schema"]["properties"]["limit"]["type"], "integer");
    let unknown = shop.refused("command.list", json!({ "id": "shop order:list" }));
    assert_eq!(unknown["error_code"], "COMMAND_NOT_FOUND");
    says(&unknown["suggested_action"], "shop orders:list");

    let ran =
        shop.done("command.run_safe", json!({ "id": "shop orders:list", "with": { "limit": 2 } }));
    has_fields(
        &ran,
        json!({ "status_code": 200, "attempts": 1, "payload": [{ "id": "o-1" }, { "id": "o-2" }] }),
    );
    let by_alias = shop.done("command.run_safe", json!({ "id": "shop listOrders" }));
    assert_eq!(by_alias["status_code"], 200);
    let made =
        shop.done("command.run", json!({ "id": "shop orders:create", "with": { "item": "tea" } }));
    has_fields(&made, json!({ "status_code": 201, "payload": { "id": "o-3" } }));
    let unconfirmed = json!({ "id": "shop orders:delete", "with": { "order": "o-1" } });
    for (tool, code) in [
        ("command.run_safe", "COMMAND_CLASS_REFUSED"),
        ("command.run", "COMMAND_CLASS_REFUSED"),
        ("command.run_destructive", "CONFIRMATION_REQUIRED"),
    ] {
        let refused = shop.refused(tool, unconfirmed.clone());
        assert_eq!(refused["error_code"], code, "{tool}");
    }
    let confirmed =
        json!({ "id": "shop orders:delete", "with": { "order": "o-1" }, "confirm": true });
    assert_eq!(shop.done("command.run_destructive", confirmed)["status_code"], 204);
    assert_eq!(
        shop.lines(),
        [
            "GET /api/orders?limit=2 HTTP/1.1",
            "GET /api/orders HTTP/1.1",
            "POST /api/orders HTTP/1.1",
            "DELETE /api/orders/o-1 HTTP/1.1"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_told_with_the_words_of_the_service_and_nothing_is_sent_that_may_not() {
    let mut shop = Shop::open().await;
    let import = json!({ "source": "shop.json", "catalog_title": "Shop" });
    shop.done("catalog.import_openapi", import);
    let call = json!({ "id": "shop orders:info", "with": { "order": "none" } });
    let refused = shop.refused("command.run_safe", call.clone());
    assert_eq!(refused["error_code"], "ADDRESS_REFUSED");
    says(&refused["message"], format!("midex catalog allow shop {}", shop.service.host));
    assert!(shop.lines().is_empty(), "only the user allows an address");

    shop.say(&format!("allow = [\"{}\"]\n", shop.service.host));
    let failed = shop.refused("command.run_safe", call);
    assert_eq!(failed["error_code"], "COMMAND_FAILED");
    says(&failed["message"], "404");
    says(&failed["message"], "no such order");
    let of_s2 = json!({ "command": "shop orders:info", "response_payload": { "message": "no such order" } });
    has_fields(&failed, of_s2);
    assert_eq!(failed["context"]["status_code"], 404);
    for (arguments, word) in [
        (json!({ "id": "shop orders:info" }), "order"),
        (json!({ "id": "shop orders:info", "with": { "order": ".." } }), "order"),
        (json!({ "id": "shop orders:info", "with": { "order": "a", "odrer": 1 } }), "odrer"),
        (json!({ "id": "shop orders:list", "with": { "limit": "many" } }), "limit"),
    ] {
        let refused = shop.refused("command.run_safe", arguments.clone());
        says(&refused["message"], word);
        assert_eq!(shop.lines().len(), 1, "{arguments}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_whether_the_same_call_may_succeed_later() {
    let mut shop = Shop::open().await;
    shop.import();
    for (order, is_retryable) in [
        ("400", false),
        ("404", false),
        ("408", true),
        ("422", false),
        ("425", true),
        ("429", true),
        ("500", true),
        ("503", true),
        ("cut", true),
    ] {
        let call = json!({ "id": "shop orders:info", "with": { "order": order } });
        let failed = shop.refused("command.run_safe", call);
        assert_eq!(failed["error_code"], "COMMAND_FAILED", "{failed}");
        assert_eq!(failed["retryable"], is_retryable, "{failed}");
        let next = failed["suggested_action"].as_str().unwrap();
        assert_eq!(next.contains("command.run_safe again: a little later"), is_retryable, "{next}");
    }
    // It may have been done, and doing it twice is not doing it once.
    let call = json!({ "id": "shop orders:create", "with": { "item": "cut" } });
    let failed = shop.refused("command.run", call);
    assert_eq!(failed["retryable"], false, "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_gives_is_data_and_no_expression() {
    let mut shop = Shop::open().await;
    shop.import();
    let item = "${{ inputs.with }} {{ 7 * 7 }}";
    let made = json!({ "id": "shop orders:create", "with": { "item": item } });
    shop.done("command.run", made);
    let sent: Value = serde_json::from_str(&shop.service.seen()[0].text()).unwrap();
    assert_eq!(sent, json!({ "item": item }));
}

const WORKFLOW: &str = "workflow: order
description: Make an order and wait until it is sent
requires: { catalogs: [{ vendor: shop, source: shop.json }] }
inputs: { item: { type: string } }
steps:
  - id: make
    run: shop orders:create
    with: { item: '${{ inputs.item }}' }
  - id: sent
    run: shop orders:info
    with: { order: '${{ steps.make.id }}' }
    repeat: { until: steps.sent.state == 'sent', every: 1s }
final_output: '${{ steps.sent.state }}'
";

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_a_workflow_call_operations_and_wait_for_their_catalog() {
    let mut shop = Shop::with(&[("workflows/order.yaml", WORKFLOW)], Project::serve).await;
    let run = json!({ "workflow_id": "order", "inputs": { "item": "tea" } });
    let missing = shop.refused("workflow.run", run.clone());
    assert_eq!(missing["error_code"], "CATALOG_MISSING");
    says(&missing["suggested_action"], "catalog.import_openapi with source 'shop.json'");
    let listed = shop.done("workflow.list", json!({ "query": "order" }));
    assert_eq!(listed["workflows"][0]["needs"], json!(["catalog:shop"]), "{listed}");

    shop.import();
    let listed = shop.done("workflow.list", json!({ "query": "order" }));
    assert_eq!(listed["workflows"][0]["needs"], Value::Null, "{listed}");
    let ran = shop.done("workflow.run", run.clone());
    has_fields(&ran, json!({ "state": "completed", "final_output": "sent" }));
    assert_eq!(shop.lines(), ["POST /api/orders HTTP/1.1", "GET /api/orders/o-3 HTTP/1.1"]);

    let disabled = json!({ "catalog_id": "shop", "enabled": false });
    let disabled = shop.done("catalog.set_enabled", disabled);
    assert_eq!(disabled["command_count_after_toggle"], 0);
    let refused = shop.refused("workflow.run", run);
    assert_eq!(refused["error_code"], "CATALOG_MISSING");
    let enable = "Call catalog.set_enabled with catalog_id 'shop' and enabled 'true'";
    says(&refused["suggested_action"], enable);
    let checked = shop.done("workflow.validate", json!({ "manifest": WORKFLOW }));
    assert!(!checked.to_string().contains("import_openapi"), "{checked}");
    let lent =
        WORKFLOW.replace("requires: { catalogs: [{ vendor: shop, source: shop.json }] }\n", "");
    let checked = shop.done("workflow.validate", json!({ "manifest": lent }));
    assert_eq!(checked["violations"][0]["rule"], "unknown_catalog", "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_goes_on_when_its_catalog_is_back() {
    let workflow = "workflow: later
description: Ask first
requires: { catalogs: [{ vendor: shop }] }
steps:
  - id: ask
    guidance: Say yes.
  - id: list
    run: shop orders:list
";
    let mut shop = Shop::with(&[("workflows/later.yaml", workflow)], Project::serve).await;
    shop.import();
    let started =
        shop.done("workflow.start", json!({ "workflow_name": "later", "execution_id": "e" }));
    shop.done("catalog.set_enabled", json!({ "catalog_id": "shop", "enabled": false }));
    let token = started["new_token"].clone();
    let next = json!({ "token": token, "output": { "summary": "yes" } });
    shop.done("workflow.next_step", next);
    let status = shop.server.read("midex://workflow/workflow_status/e");
    has_fields(&status, json!({ "state": "paused", "pause_reasons": ["catalog_missing"] }));
    says(
        &status["waits"][0]["next_call"],
        "catalog.set_enabled with catalog_id 'shop' and enabled 'true'",
    );
    assert!(shop.lines().is_empty());

    let enabled = json!({ "catalog_id": "shop", "enabled": true });
    shop.done("catalog.set_enabled", enabled);
    let wait = json!({ "execution_id": "e", "since_revision": status["revision"] });
    let mut status = shop.done("execution.wait", wait);
    while status["state"] != "completed" {
        let wait = json!({ "execution_id": "e", "since_revision": status["revision"] });
        status = shop.done("execution.wait", wait);
    }
    assert_eq!(shop.lines(), ["GET /api/orders HTTP/1.1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_catalog_is_named_to_every_kind_of_client() {
    let workflow = "workflow: later
description: Wait first
requires: { catalogs: [{ vendor: shop }] }
steps:
  - { id: rest, wait: { signal: go } }
  - { id: list, run: shop orders:list }
";
    let mut shop = Shop::with(&[("workflows/later.yaml", workflow)], Project::serve).await;
    shop.import();
    let started = json!({ "workflow_name": "later", "execution_id": "e" });
    shop.done("workflow.start", started);
    shop.done("catalog.set_enabled", json!({ "catalog_id": "shop", "enabled": false }));
    shop.done("execution.signal", json!({ "execution_id": "e", "signal": "go" }));
    let call = "catalog.set_enabled";
    let waited = shop.done("execution.wait", json!({ "execution_id": "e", "timeout_s": 0 }));
    says(&waited["waits"][0]["next_call"], call);

    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    for capabilities in [
        json!({ "extensions": extensions }),
        json!({ "extensions": extensions, "elicitation": { "form": {} }, "sampling": {} }),
    ] {
        let meta = midex_test::reader::stateless_with(capabilities);
        let task = shop.server.request("tasks/get", json!({ "taskId": "e", "_meta": meta }));
        assert_eq!(task["result"]["status"], "working", "{task}");
        says(&task["result"]["statusMessage"], call);
    }
    let mut session = Server::run(shop.project.command(&["serve"]));
    let client = json!({ "name": "test", "version": "0" });
    let greeting =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    session.request("initialize", greeting);
    session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let task = session.request("tasks/get", json!({ "taskId": "e" }));
    assert_eq!(task["result"]["status"], "working", "{task}");
    says(&task["result"]["statusMessage"], call);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cancel_during_a_compensation_changes_nothing() {
    let workflow = "workflow: undone
description: Order, then wait
requires: { catalogs: [{ vendor: shop }] }
compensate_when: [failed, abandoned]
steps:
  - id: order
    run: shop orders:create
    body: { item: tea }
    compensate: { run: 'shop orders:delete', with: { order: slow } }
  - { id: rest, wait: { for: 1h } }
";
    let mut shop = Shop::with(&[("workflows/undone.yaml", workflow)], Project::serve).await;
    shop.import();
    let started = shop.done("workflow.run", json!({ "workflow_id": "undone", "wait_s": 1 }));
    let cancel = json!({ "operation_id": started["run_id"] });
    // The first call stops waiting before the service has answered.
    let first = shop.done("workflow.cancel", cancel.clone());
    assert_eq!((&first["status"], &first["ending"]), (&json!("running"), &json!("abandoned")));
    let second = shop.done("workflow.cancel", cancel.clone());
    assert_eq!(second["status"], "canceled", "{second}");
    let third = shop.refused("workflow.cancel", cancel);
    assert_eq!(third["category"], "conflict", "{third}");
    let deletes = shop.lines().into_iter().filter(|line| line.starts_with("DELETE"));
    assert_eq!(deletes.count(), 1, "{:?}", shop.lines());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_go_where_the_user_sent_them_and_are_seen_nowhere() {
    const CANARY: &str = "canary-9f2c7be1d0";
    let mut shop = Shop::with(&[], |project| {
        let mut command = project.command(&["serve", "--secret-env", "SHOP_KEY"]);
        command.env("SHOP_KEY", CANARY);
        let mut server = Server::run(command);
        server.shake_hands();
        server
    })
    .await;
    shop.import();
    let headers = json!({ "catalog_id": "shop", "headers": { "X-Key": "${env:SHOP_KEY}" } });
    let refused = shop.refused("catalog.set_headers", headers);
    assert_eq!(refused["error_code"], "SECRET_NOT_ALLOWED");
    says(&refused["message"], &shop.service.host);

    let origin = format!("http://{}", shop.service.host);
    let text = fs::read_to_string(shop.settings()).unwrap();
    let more =
        format!("origins = [\"{origin}\"]\n{text}\n[headers]\nX-Key = \"Key ${{env:SHOP_KEY}}\"\n");
    fs::write(shop.settings(), more).unwrap();
    let call = json!({ "id": "shop orders:list" });
    let ran = shop.done("command.run_safe", call.clone());
    assert_eq!(ran["status_code"], 200, "{ran}");
    let seen = shop.service.seen();
    assert_eq!(seen[0].header("x-key"), Some(&*format!("Key {CANARY}")));
    let listed = shop.done("catalog.list", json!({}));
    has_fields(
        &listed["catalogs"][0]["headers"][0],
        json!({ "name": "X-Key", "source": "env:SHOP_KEY", "set": true }),
    );
    assert!(!listed.to_string().contains(CANARY));

    // Another address has none of it, and nobody but the user changes that.
    let other = Service::new(reply).await;
    let url = format!("http://{}/api", other.host);
    let moved = json!({ "catalog_id": "shop", "base_url": url });
    let moved = shop.done("catalog.set_base_url", moved);
    assert_eq!(moved["secrets_go_there"], false);
    let literal = json!({ "catalog_id": "shop", "headers": { "X-Other": "1" } });
    let set = shop.done("catalog.set_headers", literal);
    assert_eq!(set["origins"], json!([origin]), "{set}");
    fs::write(
        shop.settings(),
        fs::read_to_string(shop.settings())
            .unwrap()
            .replace(&shop.service.host, &other.host)
            .replace(
                &format!("origins = [\"http://{}\"]", other.host),
                &format!("origins = [\"{origin}\"]"),
            ),
    )
    .unwrap();
    let _ = shop.server.call("command.run_safe", call);
    for seen in other.seen() {
        assert_eq!(seen.header("x-key"), None, "{seen:?}");
    }
    drop(shop.server.close());
    no_file_holds(&shop.project, CANARY);
}

/// Looks through all that midex has written.
pub(super) fn no_file_holds(project: &Project, canary: &str) {
    let mut files = vec![project.path("home")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            files.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let mut parts = bytes.windows(canary.len());
            let holds = parts.any(|part| part == canary.as_bytes());
            assert!(!holds, "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_makes_a_class_stricter_and_never_looser() {
    let mut shop = Shop::open().await;
    shop.import();
    let class =
        |class: &str| json!({ "catalog_id": "shop", "id": "orders:create", "class": class });
    let refused = shop.refused("catalog.set_class", class("safe"));
    assert_eq!(refused["error_code"], "COMMAND_CLASS_REFUSED");
    shop.done("catalog.set_class", class("destructive"));
    let call = json!({ "id": "shop orders:create", "with": { "item": "tea" } });
    let refused = shop.refused("command.run", call);
    says(&refused["suggested_action"], "command.run_destructive");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_shows_the_difference_first_and_keeps_what_was_set() {
    let mut shop = Shop::with(&[("workflows/order.yaml", WORKFLOW)], Project::serve).await;
    shop.import();
    let class = json!({ "catalog_id": "shop", "id": "orders:list", "class": "standard" });
    shop.done("catalog.set_class", class);
    let mut next: Value = serde_json::from_str(&document(&shop.service.host)).unwrap();
    next["paths"]["/orders"].as_object_mut().unwrap().remove("post");
    next["paths"]["/returns"] = json!({ "get": { "summary": "List returns", "responses": {} } });
    shop.project.write("shop.json", &next.to_string());
    let difference =
        json!({ "added": ["returns:list"], "removed": ["orders:create"], "applied": false });
    let shown = shop.done("catalog.refresh", json!({ "catalog_id": "shop" }));
    has_fields(&shown, difference);
    has_fields(&shown["breaks"][0], json!({ "workflow_id": "order", "step_id": "make" }));
    let still = shop.done("command.list", json!({ "catalog": "shop" }));
    assert_eq!(list(&still["commands"]).len(), 4);
    shop.done("catalog.refresh", json!({ "catalog_id": "shop", "apply": true }));
    let after = shop.done("command.list", json!({ "id": "shop orders:list" }));
    assert_eq!(after["command"]["class"], "standard", "what was set stays");
    let after = shop.done("command.list", json!({ "catalog": "shop" }));
    assert_eq!(list(&after["commands"]).len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_lie_where_tools_may_read() {
    let mut shop = Shop::open().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("shop.json");
    fs::write(&path, document(&shop.service.host)).unwrap();
    let refused = shop.refused("catalog.validate_openapi", json!({ "source": path }));
    assert_eq!(refused["error_code"], "SOURCE_REFUSED");
    let link = shop.project.path("link.json");
    std::os::unix::fs::symlink(&path, link).unwrap();
    let refused = shop.refused("catalog.validate_openapi", json!({ "source": "link.json" }));
    assert_eq!(refused["error_code"], "SOURCE_REFUSED", "a link leads there too");
    let url = format!("http://{}/shop.json", shop.service.host);
    let refused = shop.refused("catalog.validate_openapi", json!({ "source": url }));
    assert_eq!(refused["error_code"], "ADDRESS_REFUSED");
    assert!(shop.lines().is_empty());
    for (text, kind) in [
        ("<html><body>x</body></html>", "unknown"),
        (
            "swagger: '2.0'\ninfo: {title: x, version: '1'}\npaths: {/a: {get: {responses: {}}}}\n",
            "openapi_2",
        ),
        ("openapi: 3.0.0\ninfo: {title: x, version: '1'}\npaths: {}\n", "openapi_3"),
    ] {
        shop.project.write("odd.yaml", text);
        let odd = shop.done("catalog.validate_openapi", json!({ "source": "odd.yaml" }));
        has_fields(&odd, json!({ "valid": false, "document_kind": kind }));
        let import = json!({ "source": "odd.yaml", "catalog_title": "Odd" });
        let refused = shop.refused("catalog.import_openapi", import);
        assert_eq!(refused["error_code"], "OPENAPI_INVALID");
        assert_eq!(refused["violations"], odd["violations"]);
    }
    assert!(!shop.project.path("home/.config/midex/catalogs/odd").exists());
    let none = json!({ "catalog_id": "odd", "enabled": true });
    let none = shop.refused("catalog.set_enabled", none);
    assert_eq!(none["error_code"], "CATALOG_NOT_FOUND");
}

/// The arguments of a call are inputs of its execution, also where the step of the call repeats them.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_commands_are_purged_by_their_names() {
    let mut shop = Shop::open().await;
    shop.import();
    let make =
        |item: &str| json!({ "id": "shop orders:create", "with": { "item": item, "count": 2 } });
    let body = json!({ "id": "shop orders:create", "body": { "item": "hunter2-body" } });
    let shown = json!({ "id": "shop orders:info", "with": { "order": "hunter2-order" } });
    let mut ids = Vec::new();
    for (tool, call) in
        [("command.run", make("hunter2-item")), ("command.run", body), ("command.run_safe", shown)]
    {
        ids.push(shop.done(tool, call)["execution_id"].as_str().unwrap().to_owned());
    }
    let mut purged = |arguments: Value| {
        let purged = shop.server.done("workflow.purge_history", arguments);
        json!([purged["removed_entries"], purged["executions"]])
    };
    assert_eq!(purged(json!({ "input_keys": ["with"], "confirm": true })), json!([0, 0]));
    assert_eq!(purged(json!({ "input_keys": ["item", "body"], "confirm": true })), json!([2, 2]));
    assert_eq!(purged(json!({ "input_keys": ["item", "body"], "confirm": true })), json!([0, 0]));
    let of_show = shop.server.status(&ids[2])["workflow_name"].take();
    let purged = shop
        .server
        .done("workflow.purge_history", json!({ "workflow_id": of_show, "confirm": true }));
    assert_eq!((&purged["removed_entries"], &purged["executions"]), (&json!(1), &json!(1)));
    for (id, name) in ids.iter().zip(["item", "body", "order"]) {
        let current = shop.server.current(id);
        assert_eq!(current["purged"], json!([name]), "{current}");
        assert!(!current.to_string().contains("hunter2"), "{current}");
        let refused =
            shop.refused("execution.fork", json!({ "execution_id": id, "from_step": "call" }));
        assert_eq!(refused["error_code"], "INPUTS_INVALID", "{refused}");
        let input = if name == "body" { "body" } else { "with" };
        says(&refused["suggested_action"], format!("`{input}` in `inputs`"));
    }
    assert_eq!(shop.server.current(&ids[0])["inputs"]["with"], json!([null, 2]));
    // No content that the database reads holds them either.
    shop.server.terminate();
    shop.server.wait();
    let database = redb::Database::open(shop.project.data_file()).unwrap();
    let read = redb::ReadableDatabase::begin_read(&database).unwrap();
    let table = redb::TableDefinition::<&[u8; 32], &[u8]>::new("content.v1");
    let contents = read.open_table(table).unwrap();
    for entry in redb::ReadableTable::iter(&contents).unwrap() {
        let (_, bytes) = entry.unwrap();
        let text = String::from_utf8_lossy(bytes.value());
        assert!(!text.contains("hunter2"), "{text}");
    }
}
