//! Recognises documents of other systems by their top-level keys.

use crate::{finding::Place, node::DocumentNode};

/// The systems with the keys that their documents have. `key=text` requires the value of the key to begin with the
/// text.
const FOREIGN_SYSTEMS: &str = "\
Arazzo: arazzo; OpenAPI: openapi; OpenAPI: swagger; AsyncAPI: asyncapi; Argo: apiVersion=argoproj.io; \
Tekton: apiVersion=tekton.dev; Kubernetes: apiVersion kind; Serverless Workflow: document do; \
Serverless Workflow: specVersion states; Step Functions: StartAt States; n8n: nodes connections; \
LangFlow: nodes edges viewport; Kestra: namespace tasks; Conductor: schemaVersion tasks; Dify: app kind; \
Logic Apps: definition triggers; Google Workflows: main; CWL: cwlVersion; CrewAI: agents tasks; \
GitHub Actions: on jobs; CircleCI: jobs workflows; Azure Pipelines: trigger pool; Compose: services; \
Bitbucket Pipelines: pipelines; Ansible: hosts tasks; Airflow: dag_id";

/// Keys that only midex has. A document with one of them is a manifest, regardless of its other keys.
const MIDEX_ONLY_KEYS: [&str; 4] = ["workflow", "phases", "extends", "final_output"];

/// The system that the document belongs to, with the place of the key that identifies it.
pub fn detect_foreign_document(document: &DocumentNode) -> Option<(&'static str, Place)> {
    // An Ansible playbook is a list of mappings.
    let first = document.items().and_then(<[DocumentNode]>::first);
    let entries = first.unwrap_or(document).entries()?;
    let find_entry = |key: &str| entries.iter().find(|entry| entry.key == key);
    if MIDEX_ONLY_KEYS.iter().any(|key| find_entry(key).is_some()) {
        return None;
    }
    let mut rows = FOREIGN_SYSTEMS.split("; ").filter_map(|row| row.split_once(": "));
    rows.find_map(|(system, keys)| {
        let mut matches = keys.split(' ').map(|key| {
            let (key, prefix) = key.split_once('=').unwrap_or((key, ""));
            let has_prefix = |text: &str| text.starts_with(prefix);
            find_entry(key)
                .filter(|one| prefix.is_empty() || one.value.as_text().is_some_and(has_prefix))
        });
        let first_entry = matches.next()??;
        matches.all(|one| one.is_some()).then_some((system, first_entry.place))
    })
}
