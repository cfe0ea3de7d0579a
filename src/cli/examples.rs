//! The examples that `--help` shows below each command.

use clap::{Command, builder::StyledStr};

/// Examples of each command. A test checks that every command has one, and that each can be parsed.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("", &["midex list", "midex run bug-fix --input task='it hangs'", "midex show @last"]),
    ("serve", &["midex serve", "midex serve --http 127.0.0.1:8123"]),
    ("demo", &["midex demo", "midex demo --json"]),
    (
        "run",
        &[
            "midex run bug-fix --input task='it hangs'",
            "midex run bug-fix --id tuesday",
            "midex run bug-fix --input task='it hangs' --agent 'claude -p'",
        ],
    ),
    (
        "show",
        &[
            "midex show exec_01k --watch",
            "midex show @last-failed --json",
            "midex show workflow bug-fix",
        ],
    ),
    ("cat", &["midex cat bug-fix", "midex cat release"]),
    ("tail", &["midex tail", "midex tail @last -n 50 --no-follow"]),
    ("validate", &["midex validate", "midex validate workflows/release.yaml --strict"]),
    (
        "list",
        &[
            "midex list",
            "midex list executions --state open",
            "midex list executions --workflow bug-fix --json",
            "midex list executions --label pr=123 --state failed --since 2d timeout",
        ],
    ),
    ("pause", &["midex pause", "midex pause @last --reason 'waits for the review'"]),
    ("resume", &["midex resume", "midex resume @last"]),
    ("abandon", &["midex abandon", "midex abandon exec_01k --reason 'begun twice'"]),
    ("retry", &["midex retry @last-failed", "midex retry exec_01k --from build"]),
    ("rewind", &["midex rewind @last build --reason 'the wrong branch'"]),
    (
        "fork",
        &[
            "midex fork exec_01k --from build --dry-run",
            "midex fork exec_01k --from build --inputs @inputs.json",
        ],
    ),
    ("diff", &["midex diff exec_01k exec_01k~2"]),
    ("delete", &["midex delete exec_01k", "midex delete exec_01k exec_02m"]),
    (
        "prune",
        &[
            "midex prune --older-than 30d --dry-run",
            "midex prune --state failed --older-than 7d --keep-last 10",
        ],
    ),
    ("publish", &["midex publish --to postgres://midex@db.internal/midex --catalog shop"]),
    ("cluster", &["midex cluster status"]),
    ("cluster status", &["midex cluster status", "midex cluster status --json"]),
    (
        "migrate-store",
        &["midex migrate-store --from redb:/var/lib/midex --to postgres://midex@db.internal/midex"],
    ),
    ("stats", &["midex stats", "midex stats --older-than 30d"]),
    (
        "export",
        &[
            "midex export @last -o last.midex",
            "midex export --all --since 30d -o month.midex --redact inputs,password",
        ],
    ),
    ("import", &["midex import last.midex"]),
    (
        "signal",
        &["midex signal @last deployed", "midex signal exec_01k deployed --payload @result.json"],
    ),
    ("approve", &["midex approve", "midex approve @last"]),
    (
        "resolve",
        &[
            "midex resolve @last upload --retry",
            "midex resolve @last upload --failed 'the disk was full'",
        ],
    ),
    ("new", &["midex new workflow release-notes", "midex new agent editor"]),
    (
        "new workflow",
        &["midex new workflow release-notes.md", "midex new workflow our-release --from release"],
    ),
    ("new agent", &["midex new agent editor --description 'Edits texts'"]),
    (
        "graph",
        &[
            "midex graph bug-fix",
            "midex graph workflows/release.yaml --format svg",
            "midex graph @last",
        ],
    ),
    ("catalog", &["midex catalog list", "midex catalog add shop.yaml --title Shop"]),
    ("catalog list", &["midex catalog list", "midex catalog list --json"]),
    ("catalog add", &["midex catalog add shop.yaml --title Shop"]),
    ("catalog preview", &["midex catalog preview shop.yaml --title Shop"]),
    ("catalog show", &["midex catalog show shop", "midex catalog show shop orders:list"]),
    ("catalog refresh", &["midex catalog refresh shop --apply"]),
    ("catalog enable", &["midex catalog enable shop"]),
    ("catalog disable", &["midex catalog disable shop"]),
    ("catalog headers", &["midex catalog headers shop 'Authorization=Bearer ${env:SHOP}'"]),
    ("catalog credential", &["midex catalog credential shop api_key '${env:SHOP_KEY}'"]),
    ("catalog base-url", &["midex catalog base-url shop https://shop.example/v1"]),
    ("catalog class", &["midex catalog class shop orders:purge destructive"]),
    ("catalog allow", &["midex catalog allow shop 127.0.0.1:8080"]),
    ("catalog remove", &["midex catalog remove shop --with-document"]),
    ("call", &["midex call --search orders", "midex call shop orders:list --with status=open"]),
    ("schema", &["midex schema", "midex schema agent --draft 7"]),
    ("doctor", &["midex doctor", "midex doctor --json"]),
    ("backup", &["midex backup monday.redb"]),
    ("dashboard", &["midex dashboard", "midex dashboard --no-open"]),
    ("restore", &["midex restore monday.redb", "midex restore monday.redb --replace"]),
    ("compact", &["midex compact"]),
    ("bench", &["midex bench", "midex bench --seconds 1"]),
    ("hook", &["midex hook session-start", "midex hook stop"]),
    ("hook session-start", &["midex hook session-start"]),
    ("hook stop", &["midex hook stop"]),
    ("config", &["midex config", "midex config --json"]),
    (
        "install",
        &["midex install --client cursor", "midex install --client claude-code --scope user"],
    ),
    ("trust", &["midex trust", "midex trust --list", "midex trust --remove"]),
    (
        "completions",
        &[
            "midex completions bash > ~/.local/share/bash-completion/completions/midex",
            "midex completions fish > ~/.config/fish/completions/midex.fish",
        ],
    ),
    (
        "help",
        &[
            "midex help run",
            "midex help options",
            "midex help errors",
            "midex help errors STORE_BUSY",
        ],
    ),
];

/// The command line with examples in its help.
pub(super) fn with_examples(command: Command) -> Command {
    add_examples(command, "")
}

fn add_examples(command: Command, path: &str) -> Command {
    let entry = EXAMPLES.iter().find(|(name, _)| *name == path);
    let command = match entry {
        Some((_, examples)) => {
            let previous_help = command.get_after_help().map(StyledStr::to_string);
            let previous_help =
                previous_help.map_or_else(String::new, |text| format!("{text}\n\n"));
            let lines = examples.join("\n  ");
            command.after_help(format!("{previous_help}Examples:\n  {lines}"))
        }
        None => command,
    };
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        let path = format!("{path} {name}");
        add_examples(sub, path.trim())
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// Every command with its path.
    fn collect_commands(command: &Command, path: &str, commands: &mut Vec<(String, Command)>) {
        commands.push((path.to_owned(), command.clone()));
        for sub in command.get_subcommands() {
            // Skip the `help` that clap adds to commands with subcommands, and hidden commands.
            if (sub.get_name() != "help" || path.is_empty()) && !sub.is_hide_set() {
                collect_commands(sub, format!("{path} {}", sub.get_name()).trim(), commands);
            }
        }
    }

    fn all_commands() -> Vec<(String, Command)> {
        let mut command = with_examples(Cli::command());
        command.build();
        let mut commands = Vec::new();
        collect_commands(&command, "", &mut commands);
        commands
    }

    #[test]
    fn help_has_examples_and_a_heading_for_global_flags_and_fits_80_columns() {
        let commands = all_commands();
        assert!(commands.len() > 30);
        for (path, command) in commands {
            let mut command = command.term_width(80);
            for help in [command.render_long_help(), command.render_help()] {
                let help = help.to_string();
                assert!(help.contains("\nExamples:\n  midex"), "`{path}` has no examples:\n{help}");
                assert!(
                    help.contains("\nGlobal options (the others: midex help options):\n"),
                    "{path}: {help}"
                );
                let wide_line = help.lines().find(|line| line.chars().count() > 80);
                assert_eq!(wide_line, None, "`midex {path} --help`");
            }
        }
    }

    /// Splits a line into words; single quotes keep spaces.
    fn split_words(line: &str) -> Vec<String> {
        let line = line.split(" > ").next().unwrap_or_default();
        let mut words = vec![String::new()];
        for (index, part) in line.split('\'').enumerate() {
            for (n, piece) in part.split(' ').enumerate() {
                if index % 2 == 0 && n > 0 {
                    words.push(String::new());
                } else if n > 0 {
                    words.last_mut().unwrap().push(' ');
                }
                words.last_mut().unwrap().push_str(piece);
            }
        }
        words
    }

    #[test]
    fn every_example_parses() {
        for (path, examples) in EXAMPLES {
            assert!((1..=4).contains(&examples.len()), "{path}");
            for line in *examples {
                let words = split_words(line);
                assert!(words.join(" ").starts_with(format!("midex {path}").trim()), "{line}");
                let parsed = Cli::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err().map(|it| it.to_string()));
            }
        }
    }
}
