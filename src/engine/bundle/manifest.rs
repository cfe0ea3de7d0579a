//! The manifest of a bundle: its first entry, which lists all others with their sizes and digests.

use serde::{Deserialize, Serialize};

use midex_domain::{Digest, Execution, ExecutionId, State, WorkflowName, clock::Timestamp};

/// The format of the bundles that this version writes, and the latest one that it reads.
pub(super) const FORMAT: u32 = 1;
/// The name of the entry with the manifest.
pub(super) const MANIFEST_NAME: &str = "manifest.json";

/// The manifest of a bundle.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BundleManifest {
    pub(super) format: u32,
    /// The version of midex that wrote the bundle.
    pub(super) midex: String,
    pub(super) created_at: Timestamp,
    /// The executions, each after its children. Their journals are the next entries, in this order.
    pub(super) executions: Vec<ManifestExecution>,
    /// The contents, in the order of their digests: the last entries.
    pub(super) contents: Vec<ManifestEntry>,
    /// What was redacted.
    pub(super) redacted: Vec<String>,
}

/// The format alone, which is read before all else: a later format may have other fields.
#[derive(Deserialize)]
pub(super) struct ManifestFormat {
    pub(super) format: u32,
}

/// An execution of a bundle.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestExecution {
    pub(super) execution_id: ExecutionId,
    workflow: WorkflowName,
    state: State,
    revision: u64,
    started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ExecutionId>,
    pub(super) journal: ManifestEntry,
    definition: Digest,
}

impl ManifestExecution {
    /// The entry of the execution whose journal has this position and content.
    pub(super) fn new(execution: &Execution, journal: ManifestEntry) -> Self {
        Self {
            execution_id: execution.id().clone(),
            workflow: execution.workflow().clone(),
            state: execution.state(),
            revision: execution.revision(),
            started_at: execution.started_at(),
            completed_at: execution.completed_at(),
            parent: execution.parent().map(|parent| parent.execution_id.clone()),
            journal,
            definition: execution.definition(),
        }
    }
}

/// An entry of a bundle, as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestEntry {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) sha256: Digest,
    /// What a content is, for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<ContentRole>,
}

impl ManifestEntry {
    /// The entry of the journal at this position.
    pub(super) fn journal(position: usize, bytes: u64, sha256: Digest) -> Self {
        Self { path: format!("journal/{}.jsonl", position + 1), bytes, sha256, role: None }
    }

    /// The entry of a content.
    pub(super) fn content(bytes: u64, sha256: Digest, role: Option<ContentRole>) -> Self {
        Self { path: format!("contents/{sha256}"), bytes, sha256, role }
    }
}

/// What a content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ContentRole {
    /// A workflow with the personas of its agents.
    Definition,
    /// The content of an artifact.
    Artifact,
    /// What a step returned, memory, the final output.
    Output,
    /// The inputs of an execution.
    Inputs,
    /// What is computed of inputs and outputs, or was sent: the input of a step, a list, a signal, options.
    Derived,
}
