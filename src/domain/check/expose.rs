//! Checks the tools that a workflow exposes.

use std::collections::BTreeSet;

use crate::{
    definition::{ExposedTools, Orchestrator, UtilityTools, list_tool_names},
    draft::WorkflowDraft,
    finding::{Finding, Rule},
    grammar::{EXPOSE_KEY, PACE_WORDS},
    limits,
    node::{DocumentNode, NodeContent},
};

/// What the names of midex's own tools begin with.
pub const RESERVED_PREFIXES: [&str; 7] =
    ["workflow", "execution", "command", "catalog", "store", "schemas", "personas"];

/// The session tools and the orchestrator of a draft, if it has them. Checks that hosts accept the names of the tools, and
/// that no two of them are the same.
pub(super) fn check_exposed_tools(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
) -> (Option<ExposedTools>, Option<Orchestrator>) {
    let Some(expose) = draft.document.get(EXPOSE_KEY) else {
        return (None, None);
    };
    let exposed = |key| expose.get(key).filter(|node| node.content != NodeContent::Bool(false));
    let utilities = exposed("utilities");
    let tools = exposed("tools").and_then(|tools| read_session_tools(draft, tools));
    let orchestrator = exposed("orchestrator").and_then(|node| {
        Some(Orchestrator {
            tool_id: node.deserialize_key("tool_id")?,
            title: node.deserialize_key("title"),
            description: node.deserialize_key("description"),
            utilities: utilities
                .map(|node| UtilityTools { prefix: node.deserialize_key("prefix") }),
        })
    });
    if let Some(utilities) = utilities.filter(|_| exposed("orchestrator").is_none()) {
        let message = "the utility tools report to an orchestrator, and the workflow exposes none";
        let finding = utilities.new_finding(Rule::NoEffect, "expose.utilities", message);
        findings.push(finding.suggest("add `expose.orchestrator`".to_owned()));
    }
    let (mut names, mut faulty_keys) = (BTreeSet::new(), BTreeSet::new());
    for (name, action) in list_tool_names(tools.as_ref(), orchestrator.as_ref()) {
        let (key, name_key) = action.manifest_keys();
        let problem = find_name_problem(&name).or_else(|| {
            (!names.insert(name.clone())).then(|| format!("two tools have the name `{name}`"))
        });
        let Some(problem) = problem.filter(|_| faulty_keys.insert(key)) else {
            continue;
        };
        let tools = expose.get(key).unwrap_or(expose);
        let (place, path) = match tools.get(name_key) {
            Some(node) => (node.place, format!("{EXPOSE_KEY}.{key}.{name_key}")),
            None => (tools.place, format!("{EXPOSE_KEY}.{key}")),
        };
        // The check of its shape reports an invalid value.
        if !findings.iter().any(|finding| finding.path == path) {
            let finding = Finding::new(Rule::ToolNameRefused, path, place, problem);
            findings.push(finding.suggest(format!("set another `{name_key}`")));
        }
    }
    (tools, orchestrator)
}

fn read_session_tools(draft: &WorkflowDraft, tools: &DocumentNode) -> Option<ExposedTools> {
    let name = draft.document.get(draft.form.name_key())?.as_text()?;
    let prefix: Option<String> = tools.deserialize_key("prefix");
    Some(ExposedTools {
        prefix: prefix.unwrap_or_else(|| name.replace('.', "_")),
        is_paced: tools.get("pace").and_then(DocumentNode::as_text) == Some(PACE_WORDS[1]),
    })
}

/// Why the name of a tool cannot be used, if it cannot.
fn find_name_problem(name: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let group = name.split('_').next().filter(|group| group.len() < name.len());
    let limit = limits::TOOL_NAME_BYTES_MAX;
    if let Some(group) = group.filter(|group| RESERVED_PREFIXES.contains(group)) {
        Some(format!("tools that begin with `{group}_` are midex's own"))
    } else if !name.chars().all(is_allowed) {
        Some(format!(
            "hosts refuse `{name}` as the name of a tool: it may have letters, digits, `_` and `-`"
        ))
    } else if name.len() > limit {
        Some(format!(
            "hosts refuse `{name}` as the name of a tool: it is longer than {limit} characters"
        ))
    } else {
        None
    }
}
