//! Catalogs: OpenAPI documents and what becomes of them; calls of their operations, as a service sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

mod addresses;
mod alternatives;
mod answers;
mod api;
mod artifacts;
mod bodies;
mod called;
mod changes;
mod choices;
mod classes;
mod documents;
mod faults;
mod gathered;
mod names;
mod odd;
mod pages;
mod providers;
mod public;
mod reach;
mod refused;
mod requests;
mod runbook;
mod said;
mod secrets;
mod tools;

use midex_catalog::{
    call::{
        AddressPolicy, Answer, CallOptions, CallTarget, Caller, PreparedOperation, SecretSources,
    },
    operation::Operation,
};
use midex_domain::execution::OperationFailure;
use serde_json::{Value, json};

use midex_test::service::Service;

/// An operation with no more than a method and a path, and what `more` says.
fn operation(method: &str, path: &str, more: Value) -> Operation {
    let mut operation = json!({
        "name": "things:get", "aliases": [], "summary": "", "description": "", "method": method, "path": path,
        "servers": [], "parameters": [], "body": null, "output": null, "security": [], "pagination": null,
        "idempotency_header": null, "is_deprecated": false, "class": "safe", "extensions": {}, "uncallable": null
    });
    for (key, value) in more.as_object().expect("an object") {
        operation[key] = value.clone();
    }
    serde_json::from_value(operation).expect("an operation")
}

/// A parameter in the usual style of its location.
fn parameter(name: &str, location: &str, is_required: bool, schema: Value) -> Value {
    let style = match location {
        "query" | "cookie" => "form",
        _ => "simple",
    };
    let written = json!({ "styled": { "style": style, "explode": style == "form", "allow_reserved": false } });
    json!({
        "argument": name, "name": name, "location": location, "is_required": is_required, "description": "",
        "schema": schema, "written": written
    })
}

/// A body of one media type.
fn body(media_type: &str, schema: Value, encoding: Value) -> Value {
    json!({
        "is_required": true, "description": "",
        "contents": [{ "media_type": media_type, "schema": schema, "encoding": encoding }]
    })
}

fn prepared(operation: Operation) -> PreparedOperation {
    PreparedOperation::new(operation)
}

/// A catalog of the service, which its user allowed.
fn target(service: &Service) -> CallTarget {
    CallTarget {
        address_policy: AddressPolicy::new("shop", [service.host.as_str()]).expect("a reach"),
        base_url: service.url(),
        origins: [service.url()].into(),
        ..CallTarget::default()
    }
}

fn caller() -> Caller {
    Caller::new(SecretSources::default())
}

/// What a call without arguments that these options are for comes to.
async fn call_with(
    service: &Service,
    operation: Operation,
    options: &CallOptions,
) -> Result<Answer, OperationFailure> {
    let (prepared, target) = (prepared(operation), target(service));
    caller().call_operation(&prepared, &target, &json!({}), None, options).await
}

/// The failure of a call without arguments.
async fn fails_at(service: &Service, operation: Operation) -> OperationFailure {
    let answer = call_with(service, operation, &CallOptions::default()).await;
    answer.unwrap_err()
}

async fn call(
    operation: Operation,
    target: &CallTarget,
    with: Value,
    body: Option<Value>,
) -> Result<Answer, OperationFailure> {
    let prepared = prepared(operation);
    caller().call_operation(&prepared, target, &with, body.as_ref(), &CallOptions::default()).await
}

/// The schemas that a call is held to, and its answer.
fn schemas(operation: &Operation) -> impl Iterator<Item = &Value> {
    let bodies = operation.body.iter().flat_map(|body| &body.contents);
    let parameters = operation.parameters.iter().map(|parameter| &parameter.schema);
    let bodies = bodies.map(|content| &content.schema);
    parameters.chain(bodies).chain(&operation.output)
}
