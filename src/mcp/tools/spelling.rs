//! Spellings of tool names. The documentation uses `workflow.start`, which the protocol allows. Some hosts refuse a
//! list that contains a dot, and get `workflow_start`. Calls may use either spelling.

use rmcp::model::Implementation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a server spells the names of its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolNames {
    /// Dotted, except for clients that are known to refuse dots.
    #[default]
    Auto,
    /// Dotted for every client.
    Dotted,
    /// With underscores for every client.
    Underscored,
}

/// How one client sees tool names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Dotted,
    Underscored,
}

/// Clients that refuse dots, by the lowercase name that they report. Hosts that rename tools for the model and map the
/// names back (Claude Code, VS Code, Gemini CLI, opencode) are not listed.
const CLIENTS_REFUSING_DOTS: &[&str] = &[
    // Claude Desktop and claude.ai withhold every tool: `^[a-zA-Z0-9_-]{1,64}$`.
    // github.com/l22-io/orchard-mcp/issues/14, github.com/hostinger/api-mcp-server/issues/49;
    // the name: a handshake's log in github.com/0x4m4/hexstrike-ai/issues/11.
    "claude-ai",
    // Codex sent the names to its API as they were, which refused all: github.com/openai/codex/issues/8174;
    // the names: github.com/apify/mcp-client-capabilities, mcp-clients.json.
    "codex-mcp-client",
    "codex",
    // Copilot CLI does so still: github.com/github/copilot-cli/issues/2581 and 1879;
    // the name: github.com/github/copilot-cli/issues/432.
    "github-copilot-developer",
    // Later versions of it: github.com/howashoji/Looptrack, internal/server/setup.go, met it in 1.0.86.
    "copilot-cli",
    // Cursor leaves such tools out, or calls them with an underscore:
    // github.com/webstudio-is/webstudio/issues/5960, github.com/gemini-cli-extensions/workspace/issues/168;
    // the names: github.com/TianqiZhang/mcp-client-registry, clients.json.
    "cursor-vscode",
    "cursor",
    // mcporter takes `midex.workflow.start` apart at the wrong dot (tried with 0.12.3);
    // the name: github.com/steipete/mcporter, src/runtime.ts.
    "mcporter",
];

/// The suffix that the bridge `mcp-remote` adds to the name of its client (github.com/geelen/mcp-remote,
/// src/lib/utils.ts).
const BRIDGE_NAME_SUFFIX: &str = " (via mcp-remote";

impl Spelling {
    /// The spelling for this client.
    pub(crate) fn for_client(names: ToolNames, client: Option<&Implementation>) -> Self {
        let is_underscored = match names {
            ToolNames::Auto => client.is_some_and(|client| refuses_dots(&client.name)),
            ToolNames::Dotted => false,
            ToolNames::Underscored => true,
        };
        if is_underscored { Self::Underscored } else { Self::Dotted }
    }

    /// The spelled name of a tool.
    pub(crate) fn spell_name(self, dotted: &str) -> String {
        match self {
            Self::Dotted => dotted.to_owned(),
            Self::Underscored => dotted.replace('.', "_"),
        }
    }

    /// Spells the names of `tools` in a text.
    pub(crate) fn spell_text(self, text: &str, tools: &[&str]) -> String {
        let replace_name = |text: String, tool: &&str| text.replace(tool, &self.spell_name(tool));
        tools.iter().fold(text.to_owned(), replace_name)
    }

    /// Spells the names of `tools` in the descriptions of a schema.
    pub(super) fn spell_schema(self, schema: &mut Value, tools: &[&str]) {
        match schema {
            Value::Array(items) => items.iter_mut().for_each(|item| self.spell_schema(item, tools)),
            Value::Object(fields) => {
                for (key, field) in fields {
                    match field {
                        // A property may be named `description`. Its value is a schema, not a string.
                        Value::String(text) if key == "description" => {
                            *text = self.spell_text(text, tools);
                        }
                        field => self.spell_schema(field, tools),
                    }
                }
            }
            _ => {}
        }
    }
}

fn refuses_dots(client: &str) -> bool {
    let name = client.to_lowercase();
    let name = name.split(BRIDGE_NAME_SUFFIX).next().unwrap_or_default().trim();
    CLIENTS_REFUSING_DOTS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_its_whole_name_in_any_case_and_behind_the_bridge() {
        for name in [
            "claude-ai",
            "Claude-AI",
            "claude-ai (via mcp-remote 0.1.37)",
            "cursor-vscode",
            "Cursor",
            "mcporter",
        ] {
            assert!(refuses_dots(name), "{name}");
        }
        for name in ["", "claude-code", "claude-ai-2", "not claude-ai", "rmcp", "mcp-remote"] {
            assert!(!refuses_dots(name), "{name}");
        }
    }

    #[test]
    fn configured_spelling_wins() {
        let desktop = Implementation::new("claude-ai", "1");
        let other = Implementation::new("other", "1");
        for (names, client, spelling) in [
            (ToolNames::Auto, None, Spelling::Dotted),
            (ToolNames::Auto, Some(&other), Spelling::Dotted),
            (ToolNames::Auto, Some(&desktop), Spelling::Underscored),
            (ToolNames::Dotted, Some(&desktop), Spelling::Dotted),
            (ToolNames::Underscored, Some(&other), Spelling::Underscored),
            (ToolNames::Underscored, None, Spelling::Underscored),
        ] {
            assert_eq!(Spelling::for_client(names, client), spelling, "{names:?} {client:?}");
        }
    }
}
