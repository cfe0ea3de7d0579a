//! `docs/commands.md` is the command line, written out.

use std::{fmt::Write as _, fs, path::Path};

use clap::{Arg, Command};
use midex_cli::command_line;
use midex_test::list_of;

const HEAD: &str = "\
# Commands

<!-- Written from src/cli: `MIDEX_WRITE_DOCS=1 cargo test --test docs commands` writes it anew. -->

Data goes to standard output, everything else to standard error. Exit codes are 0 (done), 1 (the answer is no), 2 (wrong usage, or a fault of midex) and
75 (try again). Every command takes the [flags of all commands](#flags-of-all-commands); what a flag says can stand in a
[`midex.toml`](configuration.md), though a project's may not make a server reachable or read the environment. `midex COMMAND --help` prints what stands here.

";

/// Text in lines of a list item.
fn within(text: &str, indent: &str) -> String {
    let lines = text.trim().lines().map(str::trim_end);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(&format!("\n{indent}"))
}

fn named(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values: Vec<_> = values.iter().map(|name| format!("<{name}>")).collect();
    let values = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let flags = [
        arg.get_short().map(|short| format!("-{short}")),
        arg.get_long().map(|long| format!("--{long}")),
    ];
    let flags: Vec<_> = flags.into_iter().flatten().collect();
    format!("{} {values}", flags.join(", ")).trim().to_owned()
}

/// A line for an argument, and one for each value that it may have where those are explained.
fn told(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut line = format!("- `{}`: {}", named(arg), within(&help, "  "));
    if !arg.get_action().takes_values() {
        return line + "\n";
    }
    let defaults = list_of(arg.get_default_values(), |value| value.to_string_lossy());
    if !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let _ = write!(line, " (default: `{}`)", defaults.join(","));
    }
    line.push('\n');
    if arg.is_hide_possible_values_set() {
        return line;
    }
    for value in arg.get_possible_values() {
        let help = value.get_help().map(ToString::to_string);
        let help = help.map_or_else(String::new, |help| format!(": {}", within(&help, "    ")));
        let _ = writeln!(line, "  - `{}`{help}", value.get_name());
    }
    line
}

fn is_own(arg: &Arg) -> bool {
    !arg.is_global_set()
        && !arg.is_hide_set()
        && !["help", "version"].contains(&arg.get_id().as_str())
}

/// What its help ends with.
fn examples(command: &Command, page: &mut String) {
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    if let Some(after) = after.map(ToString::to_string) {
        let _ = write!(page, "```text\n{}\n```\n\n", after.trim());
    }
}

/// The sections of a command and of those below it.
fn section(command: &Command, name: &str, depth: usize, page: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let _ = write!(
        page,
        "{} {name}\n\n{}\n\n```text\n{usage}\n```\n\n",
        "#".repeat(depth),
        about.trim()
    );
    let arguments: String = command.get_arguments().filter(|arg| is_own(arg)).map(told).collect();
    if !arguments.is_empty() {
        let _ = writeln!(page, "{arguments}");
    }
    examples(command, page);
    for below in visible(command) {
        section(below, &format!("{name} {}", below.get_name()), depth + 1, page);
    }
}

/// The commands below one that its help lists; each but the first has a `help` of its own, which says the same.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let is_first = command.get_name() == "midex";
    let shown = command.get_subcommands();
    shown.filter(move |below| !below.is_hide_set() && (is_first || below.get_name() != "help"))
}

fn page() -> String {
    let (line, mut page) = (command_line(), HEAD.to_owned());
    page.push_str("| command | what it does |\n|---|---|\n");
    for command in visible(&line) {
        let about = command.get_about().map(ToString::to_string);
        let (name, about) = (command.get_name(), about.unwrap_or_default());
        let about = within(&about, " ").replace('|', "\\|");
        let _ = writeln!(page, "| [`midex {name}`](#midex-{name}) | {about} |");
    }
    page.push('\n');
    examples(&line, &mut page);
    for command in visible(&line) {
        section(command, &format!("midex {}", command.get_name()), 2, &mut page);
    }
    page.push_str("## Flags of all commands\n\n");
    let of_all = line.get_arguments();
    let of_all = of_all.filter(|arg| arg.is_global_set());
    page.extend(of_all.map(told));
    page
}

#[test]
fn the_page_of_commands_is_that_of_the_command_line() {
    super::hold("docs/commands.md", &page());
}

/// A page of the dashboard that tells of a command tells of one that is there, with flags that it has.
#[test]
fn the_pages_of_the_dashboard_name_commands_that_are_there() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard");
    let mut named = 0;
    for below in ["", "pages"] {
        for entry in fs::read_dir(directory.join(below)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for command in text.split("code { \"midex ").skip(1) {
                let words = command.split_once('"').unwrap().0;
                let line = command_line();
                let mut subcommand = &line;
                for word in words.split(' ') {
                    let place = format!("{}: midex {words}", path.display());
                    if let Some(flag) = word.strip_prefix("--") {
                        let mut arguments = subcommand.get_arguments();
                        assert!(arguments.any(|arg| arg.get_long() == Some(flag)), "{place}");
                    } else {
                        subcommand = subcommand.find_subcommand(word).expect(&place);
                    }
                }
                named += 1;
            }
        }
    }
    assert!(named >= 5, "{named} commands");
}
