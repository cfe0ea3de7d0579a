//! The commands with which a person can continue an execution, each with its effect.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{DisplayOptions, SECTION_INDENT, section_title};
use crate::{
    command::{execution_id_flag, insert_flags, quote_operand},
    continuation::find_continuation,
    link::is_final_state,
    screen::{Screen, TextStyle, one_line},
    visible::replace_hidden_chars,
    waits::{self, WaitAction},
    when::format_local_time,
};
use midex_domain::{State, view::ExecutionView};

/// The section of the commands; empty for a past state, and if the execution has ended and cannot be retried.
pub(super) fn next_commands_section(
    execution: &ExecutionView,
    options: &DisplayOptions<'_>,
) -> String {
    let commands = next_commands(execution, options);
    if commands.is_empty() {
        return String::new();
    }
    let screen = options.screen;
    let mut text = section_title("next", screen);
    for WaitAction { command, effect } in commands {
        let command = replace_hidden_chars(&insert_flags(&command, options.flags));
        let note = format!("  ({effect})");
        let columns = screen.columns().saturating_sub(SECTION_INDENT.width());
        let has_room = command.width() + note.width() <= columns;
        let note = if has_room { screen.paint(TextStyle::Dim, &note) } else { String::new() };
        // The command is never truncated: it has to be complete to be typed.
        let _ = writeln!(text, "{SECTION_INDENT}{command}{note}");
    }
    text
}

/// When the execution was imported, and what a fork of it would do outside of midex; empty if it was not imported.
pub(super) fn imported_section(execution: &ExecutionView, screen: &Screen) -> String {
    let Some(at) = &execution.status.imported_at else {
        return String::new();
    };
    let mut text = section_title("imported", screen);
    let line = format!("{}; it is read-only", format_local_time(&one_line(at)));
    text += &screen.indent_block(None, SECTION_INDENT, &line);
    for effect in &execution.effects {
        let line = format!("a fork of it {}", one_line(effect));
        text += &screen.indent_block(None, SECTION_INDENT, &line);
    }
    text
}

/// The commands, each with its effect.
fn next_commands(execution: &ExecutionView, options: &DisplayOptions<'_>) -> Vec<WaitAction> {
    let status = &execution.status;
    let execution_id = &status.execution_id;
    let id = quote_operand(execution_id);
    let make_action = |command: String, effect| WaitAction { command, effect };
    if options.latest_revision.is_some() {
        // Nothing can be done in the past.
        return Vec::new();
    }
    if status.imported {
        let effect = "goes on in a new execution: an imported one is read-only";
        return vec![make_action(format!("midex fork {id}"), effect)];
    }
    if is_final_state(&status.state) {
        return Vec::from_iter(find_continuation(status));
    }
    let mut actions = waits::list_wait_actions(status, options.now);
    let is_paused = status.state == State::Paused.as_str();
    let is_open = !execution.current_step.ready_steps.is_empty();
    if !is_paused && (is_open || !options.is_served) {
        let command = format!("midex run {}", execution_id_flag(execution_id));
        actions.push(make_action(command, "goes on with it here"));
    } else if !is_paused && actions.is_empty() {
        actions.push(make_action(format!("midex show --watch {id}"), "follows it"));
    }
    actions
}
