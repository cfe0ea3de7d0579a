//! Errors for calls of unknown tools, with suggestions.

use super::{
    Spelling, Toolsets,
    table::{OPERATE, RUN},
    tool_names,
};
use midex_domain::{
    error::{Code, Error, NextCall, call_tool, repeat_call},
    limits,
    nearest::find_nearest,
};

/// Names that other systems use for our tools, compared with the part after the dot.
const TOOL_NAME_ALIASES: &[(&str, &[&str])] = &[
    ("workflow.start", &["begin", "create", "execute", "launch", "start_workflow"]),
    (
        "workflow.next_step",
        &[
            "next",
            "continue",
            "advance",
            "complete",
            "complete_step",
            "finish",
            "finish_step",
            "submit",
            "step",
            "done",
        ],
    ),
    ("workflow.list", &["available_workflows", "list_workflows", "workflows"]),
    (
        "workflow.read",
        &[
            "fetch",
            "resource",
            "read_resource",
            "current_step",
            "get_current_step",
            "status",
            "workflow_status",
            "step_history",
            "history",
            "details",
            "artifacts",
        ],
    ),
    ("workflow.purge_history", &["purge", "clear_history", "forget", "forget_inputs"]),
    ("execution.resume", &["restore", "recover", "reopen", "unpause"]),
    ("execution.list", &["list_executions", "runs", "executions"]),
    ("execution.abandon", &["cancel", "stop", "abort", "kill"]),
    ("execution.wait", &["poll", "watch", "await"]),
    ("execution.signal", &["send_signal", "notify", "event"]),
];

/// Suggests the same call with the intended tool.
const NEAREST_TOOL_CALL: NextCall =
    repeat_call("if that is the tool that was meant").with_tool("{nearest}");
/// The suggestion if the server offers the toolset `run` or `operate`.
const SHOW_OPEN_WORK_CALL: NextCall =
    call_tool("execution.resume", &[], "it lists what is open; the tools here are {tools}");

pub(crate) fn unknown_tool_error(name: &str, sets: Toolsets) -> Error {
    let short_name: String = name.chars().take(limits::NAME_SHOWN_CHARS).collect();
    match find_nearest_tool(name, sets) {
        Some(near) => {
            let message = format!("Unknown tool: {short_name}; did you mean `{near}`?");
            Error::new(Code::ToolNotFound, message)
                .with_context("nearest", near)
                .with_next(NEAREST_TOOL_CALL)
        }
        None => add_offered_tools(
            Error::new(Code::ToolNotFound, format!("Unknown tool: {short_name}")),
            sets,
        ),
    }
}

/// The offered tool that `name` probably means.
fn find_nearest_tool(name: &str, sets: Toolsets) -> Option<&'static str> {
    let offered_tools = tool_names(sets);
    // Some hosts prefix the server's name: `mcp__midex__workflow_start`.
    let name = name.rsplit("__").next().unwrap_or(name).to_lowercase();
    let last_segment = name.rsplit(['.', '/', ':']).next().unwrap_or(&name);
    let has_same_ending = |tool: &&&str| {
        let tool_ending = tool.rsplit('.').next().unwrap_or(tool);
        tool_ending == last_segment || Spelling::Underscored.spell_name(tool) == last_segment
    };
    let is_alias = |tool: &&&str| {
        let mut table = TOOL_NAME_ALIASES.iter().filter(|(ours, _)| ours == *tool);
        table.any(|(_, theirs)| theirs.contains(&last_segment))
    };
    let all_names = tool_names(Toolsets::ALL);
    let all = || all_names.iter();
    // `execution.cancel` means `execution.abandon` rather than `workflow.cancel`, which takes other arguments.
    let family = name.rsplit_once('.').map(|(family, _)| format!("{family}."));
    let is_in_family = |tool: &&&str| {
        let is_of_family = family.as_ref().is_some_and(|family| tool.starts_with(family.as_str()));
        is_of_family && (has_same_ending(tool) || is_alias(tool))
    };
    let meant = all().find(is_in_family).or_else(|| all().find(has_same_ending));
    match meant.or_else(|| all().find(is_alias)) {
        // The name means a known tool that is not offered, so do not suggest a similar one.
        Some(tool) => offered_tools.contains(tool).then_some(*tool),
        None => find_nearest(&name, offered_tools.iter().copied()),
    }
}

pub(super) fn people_only_tool_error(tool: &str) -> Error {
    let message = format!("{tool} is not offered to agents: it hands in what a person answers");
    let next = call_tool("execution.resume", &[], "it says what waits for a person");
    Error::new(Code::ToolNotFound, message)
        .with_context("tool", tool)
        .with_next(next.after_person_does("run `midex approve` in a terminal"))
}

pub(super) fn toolset_not_offered_error(tool: &str, tool_sets: Toolsets, sets: Toolsets) -> Error {
    let message = format!(
        "{tool} is a tool of the toolset `{tool_sets}`, which this server does not offer: it was started with --toolsets {sets}"
    );
    add_offered_tools(Error::new(Code::ToolNotFound, message).with_context("tool", tool), sets)
}

/// Adds the names of the offered tools.
fn add_offered_tools(error: Error, sets: Toolsets) -> Error {
    let error = error.with_context("tools", tool_names(sets).join(", "));
    if sets.intersects(RUN.union(OPERATE)) {
        error.with_next(SHOW_OPEN_WORK_CALL)
    } else {
        error.with_action("Use one of the tools that tools/list shows")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_tool_is_suggested() {
        for (name, ours) in [
            ("workflow.begin", Some("workflow.start")),
            ("mcp__midex__workflow_next_step", Some("workflow.next_step")),
            ("next_step", Some("workflow.next_step")),
            ("workflow.Start", Some("workflow.start")),
            ("workflow.nextstep", Some("workflow.next_step")),
            ("midex.execution.resume", Some("execution.resume")),
            ("execution.cancel", Some("execution.abandon")),
            ("bash", None),
            ("", None),
        ] {
            assert_eq!(find_nearest_tool(name, Toolsets::ALL), ours, "{name}");
        }
        assert_eq!(find_nearest_tool("workflow.begin", OPERATE), None);
    }

    #[test]
    fn tools_are_listed_without_a_match() {
        let action = unknown_tool_error("bash", RUN).suggested_action();
        assert!(
            action.starts_with("Call execution.resume: ") && action.contains("workflow.start"),
            "{action}"
        );
        let none =
            unknown_tool_error("bash", Toolsets::from_toolset(super::super::Toolset::Author))
                .suggested_action();
        assert!(none.starts_with("Use one of the tools"), "{none}");
    }
}
