//! Tables and pictures at every width that a terminal has: columns go by importance, and no word is broken.

use super::screens::{
    seed::Seed,
    shown::{Shown, is_known, too_wide},
};
use midex_test::terminal::Terminal;

/// What is shown of many things at once.
const LISTS: &[&str] = &[
    "list",
    "list agents",
    "list executions",
    "list executions --limit 3",
    "show loop",
    "show items",
    "show gate",
    "show waiting",
    "show failed",
    "show workflow app-scaffold",
    "graph app-scaffold --format text",
    "graph parallel-code-review --format text",
    "graph loop --format text",
    "tail loop --no-follow",
    "tail --no-follow -n 30",
    "catalog list",
    "catalog show pantry",
];

/// The lines of a command on a terminal of so many columns.
fn lines(seed: &Seed, args: &str, columns: u16) -> Vec<String> {
    let mut command = seed.reading(args);
    command.env("NO_COLOR", "1");
    let (code, shown) = Terminal::sized(command, columns).end();
    assert!(matches!(code, Some(0 | 1)), "{args:?} at {columns}: {shown}");
    assert!(!shown.contains("panicked"), "{args:?} at {columns}: {shown}");
    Shown::of(&shown).lines()
}

#[test]
fn tables_and_pictures_fit_every_width() {
    let seed = Seed::new();
    let mut faults = Vec::new();
    for columns in [40, 60, 80, 120, 200] {
        for args in LISTS {
            let lines = lines(&seed, args, columns);
            let wide = lines
                .into_iter()
                .filter(|line| too_wide(line, columns.into()) && !is_known(args, line));
            faults.extend(wide.map(|line| format!("{args:?} at {columns}: {line:?}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn on_twenty_columns_everything_is_legible() {
    let seed = Seed::new();
    let mut faults = Vec::new();
    for args in LISTS {
        let lines = lines(&seed, args, 20);
        assert!(lines.iter().any(|line| !line.is_empty()), "{args:?}");
        // A line that the terminal breaks is still read; one that takes five rows is not.
        let wide = lines.into_iter().filter(|line| too_wide(line, 44) && !is_known(args, line));
        faults.extend(wide.map(|line| format!("{args:?}: {line:?}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The words of the names, whole.
const NAMES: &[(&str, &[&str])] = &[
    ("list", &["component-performance-review", "parallel-documentation-review", "letter"]),
    ("list agents", &["documentation-specialist", "performance-engineer"]),
    ("list executions", &["completed", "abandoned", "waiting", "loop"]),
];

#[test]
fn names_are_whole_at_every_width_and_columns_go_by_importance() {
    let seed = Seed::new();
    for columns in [20, 40, 60, 80, 120, 200] {
        for (args, names) in NAMES {
            let text = lines(&seed, args, columns).join("\n");
            for name in *names {
                assert!(text.contains(name), "{name} at {columns}: {text}");
            }
        }
        let header = &lines(&seed, "list executions", columns)[0];
        for (column, from) in
            [("execution", 0), ("updated", 58), ("workflow", 80), ("current step", 100)]
        {
            let is_there = header.contains(column);
            assert_eq!(is_there, columns >= from, "{column} at {columns}: {header}");
        }
        let header = &lines(&seed, "list", columns)[0];
        for (column, from) in [("name", 0), ("source", 70), ("steps", 120)] {
            assert_eq!(header.contains(column), columns >= from, "{column} at {columns}: {header}");
        }
    }
}

#[test]
fn what_is_listed_belongs_to_what_is_asked_and_says_how_much_is_left() {
    let seed = Seed::new();
    let run = |args: &str| super::Running::start(seed.reading(args)).end();
    for args in [
        "list --state open",
        "list --workflow 'a b'",
        "list --limit 3",
        "list agents --children",
        "list agents --all-projects",
    ] {
        let (_, flags) = args.split_once(" --").unwrap();
        let said = format!("midex list executions --{flags}");
        run(args).ends(2).says(&["USAGE_INVALID", &said]);
    }
    let ran = run("list executions --state open --limit 2").ends_quietly(0);
    ran.shows("4 more: midex list executions --state open --limit 6\n");
    let ran = run("list executions --state open --limit 6").ends_quietly(0);
    assert!(!ran.out.contains("more"), "{}", ran.out);
    // A line for each of them, and nothing else.
    let ran = run("list executions --limit 2 --json").ends_quietly(0);
    assert_eq!(super::lines(&ran.out).len(), 2);
}
