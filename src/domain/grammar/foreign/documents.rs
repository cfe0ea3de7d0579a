//! Whole documents of other systems, by the keys that they have at the top.

use crate::{finding::Place, node::Node};

/// The systems, each with the keys that its documents have, and what the value of the first key begins with.
const SYSTEMS: &str = "\
Arazzo: arazzo; OpenAPI: openapi; OpenAPI: swagger; AsyncAPI: asyncapi; Argo: apiVersion=argoproj.io; \
Tekton: apiVersion=tekton.dev; Kubernetes: apiVersion kind; Serverless Workflow: document do; \
Serverless Workflow: specVersion states; Step Functions: StartAt States; n8n: nodes connections; \
LangFlow: nodes edges viewport; Kestra: namespace tasks; Conductor: schemaVersion tasks; Dify: app kind; \
Logic Apps: definition triggers; Google Workflows: main; CWL: cwlVersion; CrewAI: agents tasks; \
GitHub Actions: on jobs; CircleCI: jobs workflows; Azure Pipelines: trigger pool; Compose: services; \
Bitbucket Pipelines: pipelines; Ansible: hosts tasks; Airflow: dag_id";

/// The keys of ours that no other system has: a document with one of them is a manifest, whatever else stands in it.
const OURS: [&str; 4] = ["workflow", "phases", "extends", "final_output"];

/// The system whose document this is, with the place of the key that tells.
pub fn document(document: &Node) -> Option<(&'static str, Place)> {
    // A playbook is a list.
    let first = document.items().and_then(<[Node]>::first);
    let entries = first.unwrap_or(document).entries()?;
    let entry = |key: &str| entries.iter().find(|entry| entry.key == key);
    if OURS.iter().any(|key| entry(key).is_some()) {
        return None;
    }
    let mut rows = SYSTEMS.split("; ").filter_map(|row| row.split_once(": "));
    rows.find_map(|(system, keys)| {
        let mut found = keys.split(' ').map(|key| {
            let (key, begins) = key.split_once('=').unwrap_or((key, ""));
            let said = |text: &str| text.starts_with(begins);
            entry(key).filter(|one| begins.is_empty() || one.value.text().is_some_and(said))
        });
        let first = found.next()??;
        found
            .all(|one| one.is_some())
            .then_some((system, first.place))
    })
}
