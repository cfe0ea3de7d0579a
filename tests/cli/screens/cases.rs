//! The commands that are shown, one or several of each.

/// A command, and what is typed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else of a command")]
pub(super) struct Case {
    pub(super) args: &'static str,
    /// On a terminal: what is waited for, and what is typed then.
    pub(super) keys: &'static [(&'static str, &'static str)],
    /// In a pipe: what stands on standard input.
    pub(super) input: &'static str,
    /// Whether it writes into the project, so that it is shown in one of its own.
    pub(super) is_elsewhere: bool,
    /// Whether it prints what others wrote or machines read, which has lines of any width.
    pub(super) is_verbatim: bool,
    /// Whether only the first lines are kept.
    pub(super) is_long: bool,
    /// Whether it is shown on a simple terminal too.
    pub(super) is_usual: bool,
}

const fn case(args: &'static str) -> Case {
    Case {
        args,
        keys: &[],
        input: "",
        is_elsewhere: false,
        is_verbatim: false,
        is_long: false,
        is_usual: false,
    }
}

/// What a person looks at every day.
const fn usual(args: &'static str) -> Case {
    Case { is_usual: true, ..case(args) }
}

/// A command that asks.
const fn asking(args: &'static str, keys: &'static [(&'static str, &'static str)]) -> Case {
    Case { keys, ..case(args) }
}

/// A command whose output is a file, or for a machine.
const fn file(args: &'static str) -> Case {
    Case { is_verbatim: true, is_long: true, ..case(args) }
}

/// A command that writes into the project.
const fn writing(args: &'static str) -> Case {
    Case { is_elsewhere: true, ..case(args) }
}

/// The event that a host tells a hook.
const EVENT: &str = "{\"session_id\":\"s\"}\n";

pub(super) static CASES: &[Case] = &[
    usual("list"),
    usual("list agents"),
    usual("list executions"),
    case("list executions --state open --limit 2"),
    Case { is_verbatim: true, ..case("list executions --wide") },
    case("list executions --workflow bugfix"),
    case("list --state open"),
    usual("show running"),
    usual("show gate"),
    usual("show waiting"),
    usual("show paused"),
    usual("show failed"),
    usual("show completed"),
    usual("show abandoned"),
    usual("show items"),
    usual("show loop"),
    case("show loop --visits"),
    case("show nobody"),
    writing("export completed -o completed.midex"),
    writing("import missing.midex"),
    usual("show workflow letter"),
    Case { is_long: true, ..case("show workflow app-scaffold") },
    usual("tail loop --no-follow"),
    usual("tail --no-follow -n 12"),
    usual("graph letter --format text"),
    usual("graph loop --format text"),
    file("graph letter --format mermaid"),
    asking("run bug-fix --id mine", &[("task> ", "it hangs\r"), ("diagnose> ", "later\r")]),
    asking("run letter --id gate", &[("leaves it open: ", "\r")]),
    case("run bugfix"),
    usual("validate"),
    case("validate broken.yaml"),
    asking("pause", &[("empty: none) ", "\n")]),
    case("pause running --reason lunch"),
    asking("resume", &[("empty: none) ", "\n")]),
    case("resume paused"),
    asking("abandon", &[("empty: none) ", "\n")]),
    case("abandon abandoned"),
    case("signal waiting paid"),
    asking("approve", &[("empty: none) ", "\n")]),
    asking("approve gate", &[("leaves it open: ", "y\r")]),
    case("resolve running fix --retry"),
    case("retry running"),
    case("rewind completed draft"),
    case("fork failed --dry-run"),
    case("diff failed completed"),
    file("cat letter"),
    writing("new workflow notes"),
    writing("new agent editor"),
    case("catalog list"),
    case("catalog add pantry.yaml --title Larder"),
    case("catalog preview pantry.yaml --title Larder"),
    usual("catalog show pantry"),
    case("catalog show pantry jars:list"),
    case("catalog enable pantry"),
    case("catalog disable pantry"),
    asking("catalog remove pantry", &[("does nothing: ", "n\n")]),
    asking("catalog refresh pantry", &[("does nothing: ", "n\n")]),
    case("catalog headers pantry"),
    case("catalog credential pantry key ${env:KEY}"),
    case("catalog class pantry jars:list safe"),
    case("catalog allow pantry 127.0.0.1:8"),
    case("catalog base-url pantry http://127.0.0.1:9/v1"),
    usual("call"),
    case("call pantry jars:nothing"),
    file("schema output"),
    usual("doctor"),
    case("delete running completed"),
    case("delete completed failed"),
    case("prune"),
    case("prune --state failed --all-projects --dry-run"),
    asking("prune --workflow bug-fix", &[("does nothing: ", "y\n")]),
    case("list executions --label pr=123 --since 2d lock"),
    case("list executions lock"),
    case("stats --help"),
    case("dashboard --help"),
    case("export nobody -o last.midex"),
    case("import last.midex"),
    writing("backup ."),
    writing("restore monday.redb"),
    case("compact --help"),
    case("publish --help"),
    case("publish --to postgres://midex@127.0.0.1/midex"),
    case("cluster --help"),
    case("cluster status --help"),
    case("migrate-store --help"),
    Case { is_long: true, ..case("bench --help") },
    Case {
        input: EVENT,
        is_verbatim: true,
        keys: &[("", EVENT), ("", "\u{4}")],
        ..case("hook session-start")
    },
    Case {
        input: EVENT,
        is_verbatim: true,
        keys: &[("", EVENT), ("", "\u{4}")],
        ..case("hook stop")
    },
    Case { is_verbatim: true, ..case("config") },
    file("install --client cursor --print"),
    writing("install --client cursor --scope project"),
    case("trust --list"),
    file("completions fish"),
    usual("help"),
    usual("help run"),
    usual("help errors STORE_BUSY"),
    case("list nothing"),
    case("frobnicate"),
    asking("serve", &[("", "\u{4}")]),
    Case { is_elsewhere: true, ..case("demo") },
    case("retry failed"),
];
