//! The second example of `docs/release.md`: a release that the server publishes and takes back itself, in a service that
//! counts what is done to it.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::{
    release::blocks,
    shipped::{
        led::Led,
        release::{agree, asked_of, ended, ran, retract},
    },
};
use midex_test::{
    Client,
    project::{Project, list, text},
    service::{self, Seen, Service},
};

/// A service that keeps versions of packages.
fn document(host: &str) -> String {
    let version = json!({ "name": "version", "in": "path", "required": true, "schema": { "type": "string" } });
    let text = json!({ "type": "string" });
    let body = json!({ "type": "object", "properties": { "tag": text, "channel": text } });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "packages", "version": "1" },
        "servers": [{ "url": format!("http://{host}") }],
        "paths": {
            "/versions/{version}": {
                "parameters": [version],
                "post": {
                    "summary": "Create a version",
                    "requestBody": { "content": { "application/json": { "schema": body } } },
                    "responses": { "201": { "description": "" } }
                },
                "delete": { "summary": "Delete a version", "responses": { "204": { "description": "" } } }
            }
        }
    })
    .to_string()
}

/// Leads the example to a verification that fails; what was asked of the service, which deletes or refuses to.
async fn released(deletes: u16) -> (Vec<String>, Value) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let service = Service::new(move |seen: &Seen| {
        noted.lock().unwrap().push(seen.line.clone());
        if seen.line.starts_with("DELETE") {
            service::answer(deletes, &[], b"")
        } else {
            service::json(201, &json!({ "id": "v-1" }))
        }
    })
    .await;
    let project = Project::new(&[
        ("packages.json", &document(&service.host)),
        ("workflows/release-package.yaml", blocks("yaml")[1]),
    ]);
    let import = json!({ "source": "packages.json", "catalog_title": "packages" });
    project.serve().done("catalog.import_openapi", import);
    let path = project.path("home/.config/midex/catalogs/packages/catalog.toml");
    let settings = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("allow = [\"{}\"]\n{settings}", service.host)).unwrap();

    let mut led = Led::start_in(project, "release-package", &json!({ "version": "1.4.0" }));
    let entry = led.server.available("release-package");
    assert_eq!(entry["findings"], Value::Null, "{entry}");
    led = asked_of(led);
    agree(&mut led);
    led.current = midex_test::project::eventually("verify", || {
        let current = led.server.current("e");
        (current["current_step"] == "verify").then_some(current)
    });
    led.hand("verify", ran("get it", false));
    retract(&mut led, true);
    let status = ended(&mut led, "failed");
    let asked = asked.lock().unwrap().clone();
    (asked, status)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_publishes_a_version_and_deletes_it_again() {
    let (asked, status) = released(204).await;
    let lines: Vec<_> = asked.iter().filter_map(|line| line.split(" HTTP").next()).collect();
    assert_eq!(lines, ["POST /versions/1.4.0", "DELETE /versions/1.4.0"]);
    assert_eq!(status["not_compensated"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_the_service_does_not_delete_is_named() {
    let (_, status) = released(403).await;
    let left = list(&status["not_compensated"]);
    assert_eq!(left.len(), 1, "{status}");
    assert_eq!(text(&left[0]["step"]), "publish");
}
