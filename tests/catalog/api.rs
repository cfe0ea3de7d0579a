//! A service with a document, which is imported and whose address is allowed, as an agent calls it.

use std::fs;

use serde_json::{Value, json};

use midex_test::{
    Client as _, Server,
    project::Project,
    service::{Reply, Seen, Service},
};

pub(super) struct Api {
    pub(super) service: Service,
    pub(super) project: Project,
    pub(super) server: Server,
}

impl Api {
    pub(super) fn done(&mut self, tool: &str, arguments: Value) -> Value {
        self.server.done(tool, arguments)
    }

    pub(super) fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        self.server.refused(tool, arguments)
    }

    /// One with these paths.
    pub(super) async fn open(
        paths: Value,
        reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::with(json!({ "paths": paths }), reply).await
    }

    /// One whose document has these keys.
    pub(super) async fn with(
        keys: Value,
        reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let service = Service::new(reply).await;
        let mut document = json!({
            "openapi": "3.0.3", "info": { "title": "Api", "version": "1" }, "servers": [{ "url": service.url() }]
        });
        for (key, value) in keys.as_object().unwrap() {
            document[key] = value.clone();
        }
        let project = Project::new(&[]);
        project.write("api.json", &document.to_string());
        let mut server = project.serve();
        let import = json!({ "source": "api.json", "catalog_title": "Api" });
        server.done("catalog.import_openapi", import);
        let path = project.path("home/.config/midex/catalogs/api/catalog.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("allow = [\"{}\"]\n{text}", service.host)).unwrap();
        Self { service, project, server }
    }

    /// Everything about an operation.
    pub(super) fn command(&mut self, operation: &str) -> Value {
        let id = json!({ "id": format!("api {operation}") });
        self.server.done("command.list", id)["command"].clone()
    }

    /// The executions that calls have left.
    pub(super) fn executions(&mut self) -> usize {
        let all = json!({ "project": "*" });
        let listed = self.server.done("execution.list", all);
        listed["executions"].as_array().unwrap().len()
    }

    pub(super) fn targets(&self) -> Vec<String> {
        let seen = self.service.seen();
        seen.iter().map(|seen| seen.target().to_owned()).collect()
    }
}

/// The schema of an object with these properties, as an operation's only answer.
pub(super) fn answering(properties: Value) -> Value {
    json!({ "200": { "description": "", "content": { "application/json": { "schema": {
        "type": "object", "properties": properties } } } } })
}

/// A required JSON body of this schema.
pub(super) fn json_body(schema: Value) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}
