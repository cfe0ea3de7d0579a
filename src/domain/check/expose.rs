//! Checks the tools that a workflow exposes.

use crate::{
    definition::{ExposedAction, ExposedTools},
    draft::WorkflowDraft,
    finding::{Finding, Rule},
    grammar::{EXPOSE_KEY, PACE_WORDS},
    limits,
    node::{DocumentNode, NodeContent},
};

/// What the names of midex's own tools begin with.
pub const RESERVED_PREFIXES: [&str; 7] =
    ["workflow", "execution", "command", "catalog", "store", "schemas", "personas"];

/// The tools of a draft, if it has any.
pub(super) fn check_exposed_tools(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
) -> Option<ExposedTools> {
    let tools = draft.document.get(EXPOSE_KEY)?.get("tools")?;
    if tools.content == NodeContent::Bool(false) {
        return None;
    }
    let name = draft.document.get(draft.form.name_key())?.as_text()?;
    let declared = tools.get("prefix").and_then(DocumentNode::as_text);
    let exposed = ExposedTools {
        prefix: declared.map_or_else(|| name.replace('.', "_"), str::to_owned),
        is_paced: tools.get("pace").and_then(DocumentNode::as_text) == Some(PACE_WORDS[1]),
    };
    let longest = exposed.tool_name(ExposedAction::Continue);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let problem = if RESERVED_PREFIXES.contains(&&*exposed.prefix) {
        format!("tools that begin with `{}_` are midex's own", exposed.prefix)
    } else if !longest.chars().all(is_allowed) {
        // The check of its shape reports an invalid `prefix`.
        if declared.is_some() {
            return None;
        }
        format!(
            "hosts refuse `{longest}` as the name of a tool: it may have letters, digits, `_` and `-`"
        )
    } else if longest.len() > limits::TOOL_NAME_BYTES_MAX {
        let limit = limits::TOOL_NAME_BYTES_MAX;
        format!(
            "hosts refuse `{longest}` as the name of a tool: it is longer than {limit} characters"
        )
    } else {
        return Some(exposed);
    };
    let place = tools.get("prefix").unwrap_or(tools).place;
    let path = format!("{EXPOSE_KEY}.tools{}", if declared.is_some() { ".prefix" } else { "" });
    let finding = Finding::new(Rule::ToolNameRefused, path, place, problem);
    findings.push(finding.suggest("set another `prefix`".to_owned()));
    None
}
