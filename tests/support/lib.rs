//! What tests share (internal: no semver promise): definitions, an engine under paused time; and with the
//! feature `process` the real binary, raw clients of it, and services on loopback.
#![allow(
    missing_docs,
    missing_debug_implementations,
    async_fn_in_trait,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "a test may fail, and its names say enough"
)]

pub mod certificates;
mod checks;
pub mod clock;
pub mod long;
pub mod play;
pub mod sample;
pub mod shop;
mod text;

#[cfg(feature = "process")]
pub mod advice;
#[cfg(feature = "process")]
pub mod client;
#[cfg(feature = "process")]
pub mod door;
#[cfg(feature = "process")]
pub mod http;
#[cfg(feature = "process")]
pub mod project;
#[cfg(feature = "process")]
pub mod reader;
#[cfg(feature = "process")]
mod server;
#[cfg(feature = "process")]
pub mod service;
#[cfg(feature = "process")]
pub mod terminal;
#[cfg(feature = "process")]
pub mod witness;

use std::sync::Arc;

use midex_domain::{
    Definition,
    clock::{SeededIds, Timestamp},
};
use midex_engine::{Engine, Options, store::Store};
use serde_json::{Value, json};

pub use self::{
    checks::{assert_has, has_code, has_fields, list_of, rows, says},
    clock::TokioClock,
    text::{Parts, Shows, Words, table},
};
#[cfg(feature = "process")]
pub use self::{
    client::{Client, Fields, fails_with},
    server::{
        NOBODY, OF_EXECUTION, PATIENCE, Server, address, binary, serve_alone, terminate, wait,
        without_rights,
    },
};

/// The shipped workflows that are manifests with control flow of their own: what is said of the others does not hold for
/// them.
pub const MANIFESTS: [&str; 6] =
    ["announce", "app-scaffold", "incident-runbook", "release", "retract", "review-until-approved"];

/// The tools that only clients with tasks are shown.
pub const TASK_TOOLS: [&str; 3] =
    ["workflow.execute", "workflow.author_and_run", "workflow.repair_and_rerun"];

/// Every other tool by the name that the documents have.
pub const TOOLS: [&str; 45] = [
    "workflow.start",
    "workflow.next_step",
    "workflow.read",
    "execution.list",
    "execution.resume",
    "execution.wait",
    "execution.signal",
    "execution.resolve",
    "execution.retry",
    "execution.rewind",
    "execution.fork",
    "execution.diff",
    "execution.pause",
    "execution.abandon",
    "execution.delete",
    "execution.diverge",
    "execution.fail",
    "workflow.list",
    "workflow.get",
    "workflow.validate",
    "workflow.preview_inputs",
    "workflow.resolve_inputs",
    "workflow.step_plan",
    "workflow.preview_rendered",
    "workflow.run",
    "workflow.cancel",
    "workflow.save",
    "workflow.rename",
    "workflow.delete",
    "workflow.purge_history",
    "command.list",
    "command.run_safe",
    "command.run",
    "command.run_destructive",
    "provider.list",
    "catalog.list",
    "catalog.validate_openapi",
    "catalog.preview_import",
    "catalog.import_openapi",
    "catalog.refresh",
    "catalog.set_enabled",
    "catalog.set_base_url",
    "catalog.set_headers",
    "catalog.set_class",
    "catalog.remove",
];

/// The instant at which every test begins.
pub const EPOCH: Timestamp = Timestamp::from_milliseconds(1_736_935_200_000);

/// A definition of agent steps, each `(id, dependencies)`, all done by `worker`.
pub fn definition(name: &str, steps: &[(&str, &[&str])]) -> Arc<Definition> {
    let steps: Vec<_> = steps
        .iter()
        .map(|(id, depends_on)| {
            json!({
                "id": id, "description": format!("Do {id}"), "depends_on": depends_on,
                "kind": { "agent": { "agent": "worker" } }
            })
        })
        .collect();
    let persona = json!({ "name": "worker", "content": "# Worker\n\nYou work." });
    let text = json!({
        "workflow": { "name": name, "description": "A test", "steps": steps },
        "personas": { "worker": persona }
    });
    Arc::new(Definition::decode(text.to_string().as_bytes()).expect("a definition"))
}

/// The three steps of a typical workflow, one after another.
pub fn sequence() -> Arc<Definition> {
    definition(
        "sequence",
        &[("design", &[]), ("implement", &["design"]), ("review", &["implement"])],
    )
}

/// An engine on `store` whose clock is tokio's and whose ids depend on `seed`.
pub async fn engine(store: Arc<dyn Store>, clock: TokioClock, seed: u64) -> Engine {
    let options = Options::new(store, Arc::new(clock), Arc::new(SeededIds::new(seed)));
    Engine::new(options).await.expect("an engine")
}

/// The default output with this summary.
pub fn output(summary: &str) -> Value {
    json!({ "summary": summary })
}

/// The steps in this list of a reply or of `current_step`, whole: of the first one all but its names stands in fields of the
/// whole, unless it has a token of its own.
pub fn steps(shown: &Value, list: &str) -> Vec<Value> {
    let mut steps = shown[list].as_array().cloned().unwrap_or_default();
    // The task of the first one stands beside the list.
    if let Some(first) = steps.first_mut()
        && first["instructions"].is_null()
    {
        let (names, shown) = (first.clone(), shown.as_object().expect("an object"));
        *first = json!(shown);
        let token = shown.get("new_token").or(shown.get("continuation_token"));
        first["continuation_token"] = token.cloned().unwrap_or_default();
        for name in ["step_name", "agent_name"] {
            first[name] = names[name].clone();
        }
    }
    steps
}
