//! Determines which changes affect a resource.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::{
    address::{ResourceAddress, SkillName},
    definitions, shorten_address, skills,
};
use crate::tools::{describe_manifest, describe_workflow_command};
use midex_domain::{
    check::OperationLookup,
    error::{Error, Result},
};
use midex_registry::Registry;
use midex_server::app::Topic;

/// The source of changes of a resource that a client subscribes to.
#[derive(Debug)]
pub(crate) enum WatchedAddress {
    /// The resource shows executions. Without a topic, it shows a part of one that never changes.
    Executions(Option<Topic>),
    /// The resource shows definitions.
    Definitions(DefinitionTopic),
    /// The resource never changes.
    Nothing,
}

/// The definitions that a resource shows.
#[derive(Debug)]
pub(crate) enum DefinitionTopic {
    Workflows,
    Workflow(String),
    Agent(String),
    Manifests,
    Manifest(String),
    Commands,
    Skill(SkillName),
}

/// Whether the resource can be read without a store. True for invalid addresses, since their error needs none either.
pub(crate) fn needs_no_store(uri: &str) -> bool {
    !matches!(WatchedAddress::parse(uri), Ok(WatchedAddress::Executions(_)))
}

impl WatchedAddress {
    /// Parses a URI. The execution or definition need not exist yet.
    ///
    /// # Errors
    /// As [`ResourceAddress::parse`].
    pub(crate) fn parse(uri: &str) -> Result<Self> {
        let add_uri = |error: Error| error.with_context("uri", shorten_address(uri));
        Ok(match ResourceAddress::parse(uri).map_err(add_uri)? {
            // A page depends on all workflows, since one may move into it from another page.
            ResourceAddress::AvailableWorkflows(_) => Self::Definitions(DefinitionTopic::Workflows),
            ResourceAddress::WorkflowDetails(name) => {
                Self::Definitions(DefinitionTopic::Workflow(name))
            }
            ResourceAddress::Agent(name, None) => Self::Definitions(DefinitionTopic::Agent(name)),
            ResourceAddress::Manifests(_) => Self::Definitions(DefinitionTopic::Manifests),
            ResourceAddress::Manifest(id) => Self::Definitions(DefinitionTopic::Manifest(id)),
            ResourceAddress::CommandCatalog(_) => Self::Definitions(DefinitionTopic::Commands),
            ResourceAddress::Skill(skill) => Self::Definitions(DefinitionTopic::Skill(skill)),
            ResourceAddress::CurrentStep(id, _)
            | ResourceAddress::PastStep(id, _)
            | ResourceAddress::PastStatus(id, _)
            | ResourceAddress::WorkflowStatus(id)
            | ResourceAddress::Graph(id)
            | ResourceAddress::FinalOutput(id)
            | ResourceAddress::StepHistory(id, _)
            | ResourceAddress::WorkflowArtifacts(id, _)
            | ResourceAddress::Telemetry(Some(id), ..) => {
                Self::Executions(Some(Topic::Execution(id)))
            }
            ResourceAddress::Executions(_) | ResourceAddress::Telemetry(None, ..) => {
                Self::Executions(Some(Topic::Executions))
            }
            ResourceAddress::Agent(_, Some(_)) | ResourceAddress::Artifact(..) => {
                Self::Executions(None)
            }
            ResourceAddress::Limits
            | ResourceAddress::Spec
            | ResourceAddress::Schema
            | ResourceAddress::Errors
            | ResourceAddress::ProviderCatalog => Self::Nothing,
        })
    }
}

impl DefinitionTopic {
    /// A digest of the content that the resource shows. It changes when the content changes.
    pub(crate) fn compute_content_digest(&self, registry: &Registry) -> u64 {
        let value = match self {
            Self::Workflows => definitions::list_all_workflows(registry),
            // A missing definition is digested as an empty value, so that a later definition counts as a change.
            Self::Workflow(name) => {
                definitions::describe_workflow(registry, name).unwrap_or_default()
            }
            Self::Agent(name) => definitions::describe_agent(registry, name).unwrap_or_default(),
            Self::Manifests => registry.workflows().map(describe_manifest).collect(),
            Self::Manifest(id) => {
                let version = registry.workflow(id).map(|entry| entry.version.to_string());
                json!(version)
            }
            Self::Commands => {
                let operations =
                    registry.abilities().operation_lookup().map(OperationLookup::catalogs_version);
                let workflows: Value = registry
                    .workflows()
                    .filter_map(|entry| describe_workflow_command(registry, entry))
                    .collect();
                json!([operations, workflows])
            }
            Self::Skill(skill) => json!(skills::read_skill_text(registry, skill)),
        };
        let mut hasher = DefaultHasher::new();
        Value::to_string(&value).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use midex_domain::{ExecutionId, error::Code};

    fn topic(address: &str) -> Option<Topic> {
        match WatchedAddress::parse(&format!("{}{address}", super::super::WORKFLOW_URI_PREFIX))
            .expect("an address")
        {
            WatchedAddress::Executions(topic) => topic,
            WatchedAddress::Definitions(_) | WatchedAddress::Nothing => None,
        }
    }

    #[test]
    fn every_address_has_a_topic() {
        let id = ExecutionId::parse("a b").expect("an id");
        for address in [
            "current_step/a%20b",
            "workflow_status/a%20b",
            "step_history/a%20b",
            "step_history/a%20b/design",
            "workflow_artifacts/a%20b",
            "workflow_artifacts/a%20b/design",
            "telemetry/a%20b?limit=5",
        ] {
            assert_eq!(topic(address), Some(Topic::Execution(id.clone())), "{address}");
        }
        for address in ["executions", "executions?state=open", "telemetry?limit=1"] {
            assert_eq!(topic(address), Some(Topic::Executions), "{address}");
        }
        for address in ["available_workflows", "agent/x", "artifact/a/1"] {
            assert_eq!(topic(address), None, "{address}");
        }
        for (address, is_of_definitions) in [
            ("midex://authoring/manifests?limit=5", true),
            ("midex://authoring/manifest/w", true),
            ("midex://authoring/command-catalog", true),
            ("skill://workflow/w/SKILL.md", true),
            ("midex://authoring/spec", false),
            ("midex://authoring/provider-catalog", false),
        ] {
            let watched = WatchedAddress::parse(address).expect("an address");
            let found = matches!(watched, WatchedAddress::Definitions(_));
            assert_eq!(found, is_of_definitions, "{address}");
            assert!(needs_no_store(address), "{address}");
        }
        let error = WatchedAddress::parse("midex://workflow/nothing").expect_err("no address");
        assert_eq!(error.code(), Code::ResourceNotFound);
        assert!(error.context("uri").is_some());
    }
}
