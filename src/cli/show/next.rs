//! The commands with which a person can continue an execution, each with its effect.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::{DisplayOptions, SECTION_INDENT, section_title};
use crate::{
    command::{execution_id_flag, insert_flags, quote_operand},
    link::{is_final_state, offers_retry},
    screen::TextStyle,
    visible::replace_hidden_chars,
    waits::{self, WaitAction},
};
use midex_domain::{State, view::ExecutionView};

/// The section of the commands; empty if the execution has ended and has no retry.
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

/// The retry with the highest number among the forks of an execution. Named forks are not retries.
fn find_latest_retry<'a>(id: &str, forks: &'a [String]) -> Option<&'a str> {
    let split = |id: &str| {
        let (base, number) = id.rsplit_once('~')?;
        Some((base.to_owned(), number.parse::<u32>().ok()?))
    };
    let base = split(id).map_or_else(|| id.to_owned(), |(base, _)| base);
    let numbered = forks.iter().filter_map(|fork| {
        let (of, number) = split(fork)?;
        (of == base).then_some((number, fork.as_str()))
    });
    numbered.max().map(|(_, fork)| fork)
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
    if is_final_state(&status.state) {
        let retry = make_action(format!("midex retry {id}"), "continues it in a new execution");
        let is_offered = offers_retry(&status.state, status.parent.as_deref());
        if let Some(retry) = find_latest_retry(execution_id, &status.forks) {
            let command = format!("midex show {}", quote_operand(retry));
            return vec![make_action(command, "its latest retry, which continues it")];
        }
        return Vec::from_iter(is_offered.then_some(retry));
    }
    let mut actions = waits::list_wait_actions(status);
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
