//! The commands in groups, and the options that stand on a page of their own.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::screen::{Screen, wrapped};

/// The groups of commands in `midex help`. A test checks that each visible command is in exactly one.
const GROUPS: &[(&str, &str)] = &[
    ("Run workflows", "run show list tail pause resume abandon"),
    ("Answer what waits", "approve signal resolve trust"),
    (
        "Write workflows and agents",
        "new validate graph cat schema",
    ),
    ("Call services", "catalog call"),
    (
        "Set up and look after",
        "serve install config doctor demo bench hook completions help",
    ),
];

/// The widest help, as the pages of single commands have it.
pub(super) const COLUMNS_MAX: usize = 80;

/// The command line whose own help lists the commands in groups.
pub(super) fn grouped(command: Command) -> Command {
    let columns = Screen::stdout().columns().min(COLUMNS_MAX);
    let names = command.get_subcommands().map(|it| it.get_name().len());
    let indent = names.max().unwrap_or(0) + 4;
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in names.split(' ') {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            for (at, line) in wrapped(&about, columns.saturating_sub(indent))
                .iter()
                .enumerate()
            {
                let name = if at == 0 { name } else { "" };
                let _ = writeln!(text, "  {name:<width$}{line}", width = indent - 2);
            }
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{text}Options (midex help options has those of all commands):\n{{options}}{{after-help}}"
    ))
}

/// An argument that stands on the page of `options` alone where every command takes it. All but `--json` are for few.
pub(super) fn listed_apart(arg: Arg) -> Arg {
    let is_apart = arg.is_global_set() && arg.get_id() != "json";
    if is_apart { arg.hide(true) } else { arg }
}
