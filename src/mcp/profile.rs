//! The tools and instructions that a server offers its clients.

use rmcp::model::{Implementation, Tool};

use super::tools::{self, Spelling, ToolNames, ToolSpec, Toolset, Toolsets};
use midex_domain::error::Result;

/// Which tools a server offers, and how it spells their names. By default all tools, in the spelling that each client
/// accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolProfile {
    /// The toolsets that are offered. Tools of other toolsets are neither listed nor callable.
    pub toolsets: Toolsets,
    /// How tool names are spelled.
    pub tool_names: ToolNames,
}

/// The instructions for clients of a server that offers the toolset `run`.
const RUN_INSTRUCTIONS: &str = "midex leads you through workflows step by step and keeps your place through restarts.\n\
    1. Call workflow.list {brief: true} and choose a workflow; midex://workflow/workflow_details/{workflow_name} says more of \
    one. (Call workflow.read {uri} for any midex:// address.)\n\
    2. Call workflow.start {workflow_name}. Act as agent_content says and do the step.\n\
    3. Call workflow.next_step {token, output} with new_token, and go on with the step it returns, until workflow_state is \
    completed.\n\
    Where new_tokens lists several steps, they are independent: finish each with its own continuation_token, in any order; \
    agent_uri is where its persona is read. What is null in the first stands beside the list.\n\
    If you lost your place, call execution.resume without arguments: it tells what was going on, with live tokens.\n\
    If a reply was lost, send the same call again: it is answered as the first time. A start, run, fork, signal or command is \
    done twice then, except a start or fork with an id of your own: look with execution.list first.\n\
    A persona you still have need not be sent again: name its agent in known_agents.\n";

/// The instructions for clients of any other server.
const READ_ONLY_INSTRUCTIONS: &str = "midex keeps executions of workflows, which other clients work through: this server does not \
    offer the tools for it.\n\
    midex://workflow/executions lists them, midex://workflow/workflow_status/{execution_id} says where one stands.\n";

/// Additional instructions for clients with the catalog tools.
const CATALOG_INSTRUCTIONS: &str = "Commands of other services come from catalogs: look with command.list before you call one, by the tool of its class.\n\
    To import one: catalog.validate_openapi, catalog.preview_import, catalog.import_openapi. Prefer local paths; a URL only where \
    the user names it. Tell the user every warning and violation. catalog.remove only where the user asks for it.\n";

/// Additional instructions for every client.
const COMMON_INSTRUCTIONS: &str = "Subscribe to midex://workflow/workflow_status/{execution_id} to be told when an execution moves.\n\
    Every error names the one right next call in suggested_action.";

/// Additional instructions for clients that see underscores, since error texts spell tool names with dots.
const UNDERSCORE_NAMES_NOTE: &str = "\nWhere a text writes a tool's name with a dot, call the one with an underscore: it is the same tool.";

impl ToolProfile {
    /// Every tool under its dotted name, for midex's own commands.
    pub(super) const ALL_TOOLS_DOTTED: Self =
        Self { toolsets: Toolsets::ALL.union(Toolsets::PEOPLE), tool_names: ToolNames::Dotted };

    /// The tools, as this client sees them.
    pub(super) fn list_offered_tools(
        self,
        client: Option<&Implementation>,
        supports_tasks: bool,
    ) -> Vec<Tool> {
        tools::list_tools(self.toolsets, self.choose_spelling(client), supports_tasks)
    }

    /// The tool of this name, in either spelling.
    pub(super) fn find_tool(self, name: &str) -> Result<&'static ToolSpec> {
        tools::find_tool(self.toolsets, name)
    }

    /// The names of the tools, as an unknown client sees them.
    pub(crate) fn tool_names(self) -> Vec<String> {
        let spelling = self.choose_spelling(None);
        let names = tools::tool_names(self.toolsets).into_iter();
        names.map(|name| spelling.spell_name(name)).collect()
    }

    /// The instructions that this client gets in the handshake.
    pub(super) fn build_instructions(self, client: Option<&Implementation>) -> String {
        let toolset_instructions = if self.toolsets.contains(Toolset::Run) {
            RUN_INSTRUCTIONS
        } else {
            READ_ONLY_INSTRUCTIONS
        };
        let catalogs =
            if self.toolsets.contains(Toolset::Catalog) { CATALOG_INSTRUCTIONS } else { "" };
        let text = format!("{toolset_instructions}{catalogs}{COMMON_INSTRUCTIONS}");
        match self.choose_spelling(client) {
            Spelling::Dotted => text,
            spelling @ Spelling::Underscored => {
                spelling.spell_text(&text, &tools::tool_names(Toolsets::ALL))
                    + UNDERSCORE_NAMES_NOTE
            }
        }
    }

    pub(super) fn choose_spelling(self, client: Option<&Implementation>) -> Spelling {
        Spelling::for_client(self.tool_names, client)
    }
}
