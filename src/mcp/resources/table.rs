//! The table of resources: one row per resource or resource template, in listing order.

use super::{
    AUTHORING_URI_PREFIX, JSON_MEDIA_TYPE, MARKDOWN_MEDIA_TYPE, SCHEMA_MEDIA_TYPE,
    SKILL_URI_PREFIX, WORKFLOW_URI_PREFIX,
    address::{ResourceAddress as A, SkillName, Variables},
    unknown_resource_error,
};
use crate::tools::Toolset;
use midex_domain::error::Result;

/// The URI prefixes, each with the toolset that its resources belong to, if they belong to a single one.
pub(super) const ROOTS: [(&str, Option<Toolset>); 3] = [
    (WORKFLOW_URI_PREFIX, None),
    (AUTHORING_URI_PREFIX, Some(Toolset::Author)),
    (SKILL_URI_PREFIX, Some(Toolset::Run)),
];

/// A resource, or a resource template.
pub(super) struct ResourceSpec {
    pub(super) root: &'static str,
    /// The URI after the prefix, with its variables.
    pub(super) path: &'static str,
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// `None` if it differs between the resources of a template.
    pub(super) media_type: Option<&'static str>,
    /// The priority from 0 to 1. The values in use are exact in binary.
    pub(super) priority: f32,
    /// Makes the address of the values of the variables.
    pub(super) make_address: fn(&mut Variables<'_>) -> Result<A>,
}

impl ResourceSpec {
    pub(super) fn uri(&self) -> String {
        format!("{}{}", self.root, self.path)
    }

    /// Whether it has variables.
    pub(super) fn is_template(&self) -> bool {
        self.path.contains('{')
    }

    /// The values of the variables in the path, still encoded, if this URI without its query fits. The last variable
    /// takes all that is left.
    pub(super) fn match_uri<'a>(&self, uri: &'a str) -> Option<Vec<&'a str>> {
        let path = self.path.split("{?").next()?;
        // Literals and names of variables take turns.
        let mut literals = path.split(['{', '}']).step_by(2).peekable();
        let mut rest = uri.strip_prefix(self.root)?;
        rest = rest.strip_prefix(literals.next()?)?;
        let mut values = Vec::new();
        while let Some(literal) = literals.next() {
            let (value, remaining) = match literals.peek() {
                Some(_) => rest.split_once(literal)?,
                None => (rest.strip_suffix(literal)?, ""),
            };
            values.push(value);
            rest = remaining;
        }
        rest.is_empty().then_some(values)
    }
}

impl A {
    /// Parses a URI.
    ///
    /// # Errors
    /// As [`A::parse_kind`].
    pub(super) fn parse(address: &str) -> Result<Self> {
        let uri = address.split('?').next().unwrap_or_default();
        // Of the rows that fit, the last one has the most variables.
        let mut rows = TABLE.iter().rev();
        let row = rows.find_map(|row| Some((row, row.match_uri(uri)?)));
        let (row, values) = row.ok_or_else(|| unknown_resource_error(address))?;
        Self::parse_kind(address, values, row.make_address)
    }
}

/// The priority of resources that an agent needs.
const PRIORITY_NEEDED: f32 = 1.0;
/// The priority of resources that help an agent.
pub(super) const PRIORITY_USEFUL: f32 = 0.5;
/// The priority of background information.
pub(super) const PRIORITY_BACKGROUND: f32 = 0.25;

/// A row: `root "path" "name" "title" "description", media type, priority, address`.
macro_rules! resource {
    ($root:ident $path:literal $name:literal $title:literal $description:literal, $media_type:expr, $priority:ident, $address:expr) => {
        ResourceSpec {
            root: $root,
            path: $path,
            name: $name,
            title: $title,
            description: $description,
            media_type: $media_type,
            priority: $priority,
            make_address: $address,
        }
    };
}

/// All resources. A row with more variables stands below the others that fit its addresses.
pub(super) const TABLE: [ResourceSpec; 30] = [
    resource! { WORKFLOW_URI_PREFIX "available_workflows" "available_workflows" "Available workflows"
    "Every workflow that can be started, with its phases; broken ones with their findings",
    Some(JSON_MEDIA_TYPE), PRIORITY_NEEDED, |it| it.take_page().map(A::AvailableWorkflows) },
    resource! { WORKFLOW_URI_PREFIX "executions" "executions" "Executions"
    "The executions of this project, last changed first",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| it.take_list().map(A::Executions) },
    resource! { WORKFLOW_URI_PREFIX "telemetry" "telemetry" "Telemetry"
    "The latest events of all executions, oldest first",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_telemetry(None) },
    resource! { WORKFLOW_URI_PREFIX "limits" "limits" "Limits"
    "Every limit of this server with its value, its unit and what it limits",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |_| Ok(A::Limits) },
    resource! { WORKFLOW_URI_PREFIX "available_workflows{?limit,after,query}" "available_workflows" "Available workflows"
    "The workflows that contain all words of query, at most 200 at once, those that follow the one named \
     after; _meta.next is the address of the next page",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| it.take_page().map(A::AvailableWorkflows) },
    resource! { WORKFLOW_URI_PREFIX "workflow_details/{workflow_name}" "workflow_details" "Workflow details"
    "One workflow: its text, its phases and who acts in them",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| it.take_text().map(A::WorkflowDetails) },
    resource! { WORKFLOW_URI_PREFIX "agent/{name}" "agent" "Agent"
    "One agent: its persona as it is in the files",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_agent() },
    resource! { WORKFLOW_URI_PREFIX "agent/{name}{?execution_id}" "agent" "Agent of an execution"
    "One agent: its persona as an execution keeps it",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_agent() },
    resource! { WORKFLOW_URI_PREFIX "current_step/{execution_id}" "current_step" "Current step"
    "What to do now in an execution, as whom, what was decided before, and the token to come back with. Read \
     this to go on after a restart or a lost context; an expired token is renewed by reading it",
    Some(JSON_MEDIA_TYPE), PRIORITY_NEEDED, |it| it.take_current_step() },
    resource! { WORKFLOW_URI_PREFIX "workflow_status/{execution_id}" "workflow_status" "Workflow status"
    "Where an execution stands: its state, times, step counts, and its result",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| it.take_status() },
    resource! { WORKFLOW_URI_PREFIX "final_output/{execution_id}" "final_output" "Final output"
    "What a completed execution came to, whole; null for others",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_execution().map(A::FinalOutput) },
    resource! { WORKFLOW_URI_PREFIX "step_history/{execution_id}" "step_history" "Step history"
    "Every visit of every step of an execution, with its output",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| Ok(A::StepHistory(it.take_execution()?, None)) },
    resource! { WORKFLOW_URI_PREFIX "step_history/{execution_id}/{step_name}" "step_history" "History of a step"
    "Every visit of one step of an execution, with its output",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| Ok(A::StepHistory(it.take_execution()?, Some(it.take_step()?))) },
    resource! { WORKFLOW_URI_PREFIX "workflow_artifacts/{execution_id}" "workflow_artifacts" "Artifacts"
    "The artifacts of an execution, without their content",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| Ok(A::WorkflowArtifacts(it.take_execution()?, None)) },
    resource! { WORKFLOW_URI_PREFIX "workflow_artifacts/{execution_id}/{step_name}" "step_artifacts" "Artifacts of a step"
    "The artifacts that one step handed over, without their content",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| Ok(A::WorkflowArtifacts(it.take_execution()?, Some(it.take_step()?))) },
    resource! { WORKFLOW_URI_PREFIX "artifact/{execution_id}/{artifact}{?offset,limit}" "artifact" "Artifact"
    "The content of an artifact, named by its id or its name; offset and limit are bytes, next_offset says \
     where to read on; binary content comes as base64",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| it.take_artifact() },
    resource! { WORKFLOW_URI_PREFIX "executions{?state,workflow,limit,cursor,project}" "executions" "Executions"
    "The executions of this project (project=* for all), last changed first; state=open for those \
     that have not ended",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| it.take_list().map(A::Executions) },
    resource! { WORKFLOW_URI_PREFIX "telemetry{?event_type,limit}" "telemetry" "Telemetry"
    "The latest events of all executions, oldest first",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_telemetry(None) },
    resource! { WORKFLOW_URI_PREFIX "telemetry/{execution_id}{?event_type,limit}" "execution_telemetry" "Telemetry of an execution"
    "The events of an execution, oldest first",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| { let id = it.take_execution()?; it.take_telemetry(Some(id)) } },
    resource! { AUTHORING_URI_PREFIX "spec" "workflow.spec" "How to write a manifest"
    "The manual: every kind of step and every key, each with an example that runs",
    Some(MARKDOWN_MEDIA_TYPE), PRIORITY_USEFUL, |_| Ok(A::Spec) },
    resource! { AUTHORING_URI_PREFIX "schema" "workflow.schema" "Schema of manifests"
    "The JSON Schema of a manifest in YAML or JSON",
    Some(SCHEMA_MEDIA_TYPE), PRIORITY_USEFUL, |_| Ok(A::Schema) },
    resource! { AUTHORING_URI_PREFIX "manifests" "workflow.manifests" "Manifests"
    "Every workflow's file: id, title, description, path, format and version",
    Some(JSON_MEDIA_TYPE), PRIORITY_USEFUL, |it| it.take_page().map(A::Manifests) },
    resource! { AUTHORING_URI_PREFIX "command-catalog" "command.catalog" "Commands"
    "What can be called as a command, with its arguments: the operations of catalogs, and each workflow",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_page().map(A::CommandCatalog) },
    resource! { AUTHORING_URI_PREFIX "provider-catalog" "provider.catalog" "Providers"
    "What can provide the values of inputs: the operations of catalogs whose answers are choices",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |_| Ok(A::ProviderCatalog) },
    resource! { AUTHORING_URI_PREFIX "errors" "workflow.errors" "Errors"
    "Every error code with its category, whether it is retryable, and the next call",
    Some(MARKDOWN_MEDIA_TYPE), PRIORITY_BACKGROUND, |_| Ok(A::Errors) },
    resource! { AUTHORING_URI_PREFIX "manifest/{workflow_id}" "workflow.manifest" "Manifest"
    "The text of a workflow's file: YAML, JSON or Markdown",
    None, PRIORITY_USEFUL, |it| it.take_text().map(A::Manifest) },
    resource! { AUTHORING_URI_PREFIX "manifests{?limit,after,query}" "workflow.manifests" "Manifests"
    "The files of the workflows that contain all words of query, in pages as available_workflows has them",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_page().map(A::Manifests) },
    resource! { AUTHORING_URI_PREFIX "command-catalog{?limit,after,query}" "command.catalog" "Commands"
    "The commands that contain all words of query, in pages as available_workflows has them",
    Some(JSON_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| it.take_page().map(A::CommandCatalog) },
    resource! { SKILL_URI_PREFIX "workflow/{workflow_name}/SKILL.md" "workflow_skill" "Workflow as a skill"
    "What a workflow is for, its inputs and how to start it",
    Some(MARKDOWN_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| Ok(A::Skill(SkillName::Workflow(it.take_name()?))) },
    resource! { SKILL_URI_PREFIX "agent/{name}/SKILL.md" "agent_skill" "Agent as a skill"
    "An agent: its persona",
    Some(MARKDOWN_MEDIA_TYPE), PRIORITY_BACKGROUND, |it| Ok(A::Skill(SkillName::Agent(it.take_name()?))) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_takes_its_own_addresses() {
        for row in &TABLE {
            let path = row.path.split("{?").next().unwrap_or_default();
            let address = format!("{}{}", row.root, path.replace(['{', '}'], ""));
            let values = row.match_uri(&address).expect("the row fits");
            let own = A::parse_kind(&address, values, row.make_address).expect("an address");
            let parsed = A::parse(&format!("{address}?part=1")).expect("an address");
            assert_eq!(format!("{parsed:?}"), format!("{own:?}"), "{address}");
        }
    }
}
