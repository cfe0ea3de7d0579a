//! The tools that the server offers for one workflow (`expose`).

use serde::{Deserialize, Serialize};

use super::Workflow;

/// The tools through which a client sees executions as sessions (`expose.tools`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExposedTools {
    /// What their names begin with.
    pub prefix: String,
    /// Whether a call answers after each step of the server.
    #[serde(default)]
    pub is_paced: bool,
}

/// The tool that leads a model through the workflow (`expose.orchestrator`), with its utility tools (`expose.utilities`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orchestrator {
    /// The name of the tool.
    pub tool_id: String,
    /// The title for people; that of the workflow without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for models; that of the workflow without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The utility tools that report to it, if it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilities: Option<UtilityTools>,
}

/// The tools that ask for properties and extract them from a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UtilityTools {
    /// What their names begin with, before a `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// What an exposed tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExposedAction {
    /// Starts a session.
    Start,
    /// Continues a session.
    Continue,
    /// Reads where a session stands.
    Status,
    /// Starts or continues a thread, and answers with a prompt.
    Orchestrate,
    /// Answers with the prompt to ask the user for properties.
    GetInput,
    /// Answers with the prompt to extract properties from a text.
    ExtractInput,
}

impl ExposedAction {
    /// The actions on sessions.
    pub const SESSION: [Self; 3] = [Self::Start, Self::Continue, Self::Status];
    const UTILITIES: [Self; 2] = [Self::GetInput, Self::ExtractInput];

    /// The key of `expose` that offers the tool, and the key below it that changes its name.
    pub const fn manifest_keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Start | Self::Continue | Self::Status => ("tools", "prefix"),
            Self::Orchestrate => ("orchestrator", "tool_id"),
            Self::GetInput | Self::ExtractInput => ("utilities", "prefix"),
        }
    }

    /// What the name of the tool ends with; for an orchestrator, nothing.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Start => "_start",
            Self::Continue => "_continue",
            Self::Status => "_status",
            Self::Orchestrate => "",
            Self::GetInput => "magen-get-input",
            Self::ExtractInput => "magen-input-extraction",
        }
    }
}

impl ExposedTools {
    /// The name of the tool for an action on sessions.
    pub fn tool_name(&self, action: ExposedAction) -> String {
        format!("{}{}", self.prefix, action.suffix())
    }
}

impl UtilityTools {
    /// The name of the tool for an action of a utility.
    pub fn tool_name(&self, action: ExposedAction) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}-{}", action.suffix()),
            None => action.suffix().to_owned(),
        }
    }
}

/// The names of the session tools and of the orchestrator with its utility tools, each with its action.
pub(crate) fn list_tool_names(
    session_tools: Option<&ExposedTools>,
    orchestrator: Option<&Orchestrator>,
) -> Vec<(String, ExposedAction)> {
    let mut listed = Vec::new();
    if let Some(tools) = session_tools {
        listed.extend(ExposedAction::SESSION.map(|action| (tools.tool_name(action), action)));
    }
    if let Some(orchestrator) = orchestrator {
        listed.push((orchestrator.tool_id.clone(), ExposedAction::Orchestrate));
        let utilities = orchestrator.utilities.iter();
        listed.extend(utilities.flat_map(|tools| {
            ExposedAction::UTILITIES.map(|action| (tools.tool_name(action), action))
        }));
    }
    listed
}

impl Workflow {
    /// The tools that the server offers for it: the name and the action of each.
    pub fn list_exposed_tools(&self) -> Vec<(String, ExposedAction)> {
        list_tool_names(self.exposed_tools.as_ref(), self.orchestrator.as_ref())
    }

    /// The action of the tool of this name; `None` if the workflow has no such tool.
    pub fn find_exposed_action(&self, tool: &str) -> Option<ExposedAction> {
        let mut tools = self.list_exposed_tools().into_iter();
        tools.find_map(|(name, action)| (name == tool).then_some(action))
    }
}
