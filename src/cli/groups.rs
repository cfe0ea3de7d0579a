//! Groups the commands in the help, and moves global options to a page of their own.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::screen::{Screen, wrap_line};

/// The groups of commands in `midex help`. A test checks that each visible command is in exactly one.
const COMMAND_GROUPS: &[(&str, &str)] = &[
    ("Run workflows", "run show dashboard list tail pause resume abandon retry rewind fork diff"),
    ("Unblock workflows", "approve signal resolve trust"),
    ("Keep records", "delete prune stats export import backup restore compact"),
    ("Write workflows and agents", "new validate graph cat schema publish"),
    ("Call services", "catalog call"),
    (
        "Set up and maintain",
        "serve cluster migrate-store install config doctor demo bench hook completions help",
    ),
];

/// The maximum width of the help, as on the help pages of single commands.
pub(super) const HELP_COLUMNS_MAX: usize = 80;

/// The command line with a help text that lists the commands in groups.
pub(super) fn with_grouped_help(command: Command) -> Command {
    let columns = Screen::stdout().columns().min(HELP_COLUMNS_MAX);
    let names = command.get_subcommands().map(|it| it.get_name().len());
    let indent = names.max().unwrap_or(0) + 4;
    let mut text = String::new();
    for (title, names) in COMMAND_GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in names.split(' ') {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            for (index, line) in
                wrap_line(&about, columns.saturating_sub(indent)).iter().enumerate()
            {
                let name = if index == 0 { name } else { "" };
                let _ = writeln!(text, "  {name:<width$}{line}", width = indent - 2);
            }
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{text}Options (midex help options lists those of all commands):\n{{options}}{{after-help}}"
    ))
}

/// Hides a global argument from the pages of commands: the page `options` lists it. Only `--json` is shown on every
/// page.
pub(super) fn hide_global_argument(arg: Arg) -> Arg {
    let is_hidden = arg.is_global_set() && arg.get_id() != "json";
    if is_hidden { arg.hide(true) } else { arg }
}
