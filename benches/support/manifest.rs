//! Definitions from manifests.

use std::sync::Arc;

use midex_domain::{Definition, check::ServerCapabilities, finding::filter_errors};
use midex_registry::{self as registry, Registry, Sources};
use serde_json::json;

/// The activity of the benches: it answers at once with what it was given.
pub(crate) const ACTIVITY: &str = "echo";

/// The definition that a manifest with these lines after its head gives.
pub(crate) fn manifest(lines: &str) -> Arc<Definition> {
    let text = format!("workflow: bench\ndescription: Measured\n{lines}");
    let abilities = ServerCapabilities {
        activities: [ACTIVITY.to_owned()].into_iter().collect(),
        ..ServerCapabilities::default()
    };
    let registry = Registry::load_with_abilities(&Sources::default(), &abilities);
    let (workflow, findings) = registry::check_text("bench.yaml", &text, &registry);
    let errors: Vec<_> = filter_errors(&findings).collect();
    assert!(errors.is_empty(), "{text}: {errors:?}");
    let whole = json!({ "workflow": workflow, "personas": {} });
    Arc::new(Definition::decode(whole.to_string().as_bytes()).expect("a definition"))
}
