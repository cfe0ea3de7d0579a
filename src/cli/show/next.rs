//! The commands with which a person can continue an execution, each with its effect.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{DisplayOptions, SECTION_INDENT, section_title};
use crate::{
    command::{execution_id_flag, insert_flags, quote_operand},
    link::is_final_state,
    screen::TextStyle,
    visible::replace_hidden_chars,
    waits::{self, WaitAction},
};
use midex_domain::{State, view::ExecutionView};

/// The section of the commands; empty if the execution has ended.
pub(super) fn next_commands_section(shown: &ExecutionView, how: &DisplayOptions<'_>) -> String {
    let commands = next_commands(shown, how);
    if commands.is_empty() {
        return String::new();
    }
    let screen = how.screen;
    let mut text = section_title("next", screen);
    for WaitAction { command, does } in commands {
        let command = replace_hidden_chars(&insert_flags(&command, how.flags));
        let what = format!("  ({does})");
        let room = screen.columns().saturating_sub(SECTION_INDENT.width());
        let is_room = command.width() + what.width() <= room;
        let what = if is_room { screen.paint(TextStyle::Dim, &what) } else { String::new() };
        // The command is never truncated: it has to be complete to be typed.
        let _ = writeln!(text, "{SECTION_INDENT}{command}{what}");
    }
    text
}

/// The commands, each with its effect.
fn next_commands(shown: &ExecutionView, how: &DisplayOptions<'_>) -> Vec<WaitAction> {
    let status = &shown.status;
    let named = &status.execution_id;
    let id = quote_operand(named);
    if is_final_state(&status.state) {
        return Vec::new();
    }
    let way = |command: String, does| WaitAction { command, does };
    let mut found = waits::wait_actions(status);
    let is_paused = status.state == State::Paused.as_str();
    let is_open = !shown.current_step.ready_steps.is_empty();
    if !is_paused && (is_open || !how.is_served) {
        let command = format!("midex run {}", execution_id_flag(named));
        found.push(way(command, "goes on with it here"));
    } else if !is_paused && found.is_empty() {
        found.push(way(format!("midex show --watch {id}"), "follows it"));
    }
    found
}
