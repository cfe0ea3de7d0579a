//! Every command as a person sees it: on a terminal of 60 and of 100 columns, and in a pipe. The pictures are kept in
//! `screens/`, and written anew with `MIDEX_WRITE_DOCS=1 cargo test --test cli screens`; look at them then.

mod cases;
mod scrub;
pub(crate) mod seed;
pub(crate) mod shown;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
};

use midex_cli::command_line;

use self::{
    cases::{CASES, Case},
    scrub::scrubbed,
    seed::Seed,
    shown::{Shown, is_known, too_wide},
};
use super::Running;
use midex_test::terminal::Terminal;

/// Commands that run at once: the room is there for others too.
const AT_ONCE: usize = 2;

/// Where a command is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Terminal(u16),
    /// A terminal that can do no more than print.
    Simple(u16),
    Pipe,
}

impl Place {
    /// The numbers of the directories of its commands begin here.
    fn first(self) -> usize {
        match self {
            Self::Terminal(60) => 0,
            Self::Terminal(_) => 200,
            Self::Pipe => 400,
            Self::Simple(_) => 600,
        }
    }

    fn file(self) -> String {
        match self {
            Self::Terminal(columns) | Self::Simple(columns) => format!("{columns}.txt"),
            Self::Pipe => "pipe.txt".to_owned(),
        }
    }
}

/// What a command showed, and the code that it ended with.
struct Seen {
    code: Option<i32>,
    /// As it came.
    bytes: String,
    /// What it said beside its output, in a pipe.
    said: String,
}

fn see(seeded: &Seed, case: &Case, number: usize, place: Place) -> Seen {
    let number = place.first() + number;
    let mut command = if case.is_elsewhere {
        seeded.elsewhere(case.args, number)
    } else {
        seeded.copied(case.args, number)
    };
    let mut terminal = match place {
        Place::Pipe => return piped(command, case),
        Place::Terminal(columns) => {
            if columns == 100 {
                command.env("NO_COLOR", "1");
            }
            Terminal::sized(command, columns)
        }
        Place::Simple(columns) => Terminal::simple(command, columns),
    };
    let mut bytes = String::new();
    for (expected, keys) in case.keys {
        bytes += &terminal.expect(expected);
        terminal.type_keys(keys);
    }
    let (code, rest) = terminal.end();
    Seen { code, bytes: bytes + &rest, said: String::new() }
}

fn piped(mut command: std::process::Command, case: &Case) -> Seen {
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    if let Some(stdin) = &mut running.child.stdin {
        // It may have ended already.
        let _ = stdin.write_all(case.input.as_bytes());
    }
    let ran = running.end();
    Seen { code: ran.code, bytes: ran.out, said: ran.err }
}

/// What all commands show in a place, in the order of the cases.
fn all(seeded: &Seed, place: Place, cases: &[&Case]) -> Vec<Seen> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut seen = Vec::new();
        while let Some((at, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)).map(|case| {
            let at = CASES.iter().position(|one| std::ptr::eq(one, *case));
            (at.expect("one of the cases"), case)
        }) {
            seen.push((at, see(seeded, case, at, place)));
        }
        seen
    };
    let mut seen = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let seen = workers.into_iter().map(|worker| worker.join().unwrap());
        seen.flatten().collect::<Vec<_>>()
    });
    seen.sort_by_key(|(at, _)| *at);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

/// The section of a command in the file of a place.
fn section(case: &Case, seen: &Seen, seeded: &Seed) -> String {
    let code = seen.code.map_or("a signal".to_owned(), |code| code.to_string());
    let shown = Shown::of(&seen.bytes).text();
    let said = seen.said.lines().map(|line| format!("stderr| {line}\n"));
    let text = scrubbed(&format!("{shown}{}", said.collect::<String>()), seeded.root());
    let text = if case.is_long { begun(&text) } else { text };
    format!("=== midex {}\n{text}=== exit {code}\n\n", case.args)
}

/// The first lines of what stands elsewhere as a whole: in the schema, in the workflow, in the pages of docs.
fn begun(text: &str) -> String {
    const LINES: usize = 12;
    let count = text.lines().count();
    if count <= LINES {
        return text.to_owned();
    }
    let first = text.lines().take(LINES).map(|line| format!("{line}\n"));
    first.collect::<String>() + "(and so on)\n"
}

/// Holds what was seen against the file of the place.
fn hold(place: Place, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/screens").join(place.file());
    if std::env::var_os("MIDEX_WRITE_DOCS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(
        kept == text,
        "{} is not what midex shows; `MIDEX_WRITE_DOCS=1 cargo test --test cli screens` writes it anew: {differs:?}",
        path.display()
    );
}

fn every() -> Vec<&'static Case> {
    CASES.iter().collect()
}

#[test]
fn every_command_is_shown_on_terminals_and_in_a_pipe() {
    let seeded = Seed::new();
    let mut faults = Vec::new();
    for place in [Place::Terminal(60), Place::Terminal(100), Place::Pipe] {
        let seen = all(&seeded, place, &every());
        let cases = CASES.iter().zip(&seen);
        let text: String = cases.clone().map(|(case, seen)| section(case, seen, &seeded)).collect();
        for (case, seen) in cases {
            faults.extend(faults_of(case, seen, place));
        }
        hold(place, &text);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What no command may show.
fn faults_of(case: &Case, seen: &Seen, place: Place) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |what: &str, line: &str| {
        faults.push(format!("midex {} in {place:?}: {what}: {line:?}", case.args));
    };
    for line in seen.bytes.lines().chain(seen.said.lines()) {
        // The log begins its lines with the time and a level.
        if [" WARN ", " ERROR ", " INFO ", " DEBUG "].iter().any(|level| line.contains(level)) {
            fault("a line of the log", line);
        }
        if line.contains("panicked") {
            fault("a panic", line);
        }
        if place == Place::Terminal(100) && has_style(line) {
            fault("a style in spite of NO_COLOR", line);
        }
        if matches!(place, Place::Pipe | Place::Simple(_)) && line.contains('\u{1b}') {
            fault("an escape sequence", line);
        }
    }
    if let (Place::Terminal(columns) | Place::Simple(columns), false) = (place, case.is_verbatim) {
        for line in Shown::of(&seen.bytes).lines() {
            if too_wide(&line, usize::from(columns)) && !is_known(case.args, &line) {
                fault("a line that is too wide", &line);
            }
        }
    }
    faults
}

/// Whether a line has a sequence that paints.
fn has_style(line: &str) -> bool {
    line.split("\u{1b}[").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';');
        end.is_some_and(|at| rest[at..].starts_with('m'))
    })
}

#[test]
fn a_simple_terminal_is_given_no_escape_sequence() {
    let seeded = Seed::new();
    let cases: Vec<_> = every().into_iter().filter(|case| case.is_usual).collect();
    assert!(cases.len() > 10, "{} cases", cases.len());
    let place = Place::Simple(60);
    let seen = all(&seeded, place, &cases);
    let faults = cases.iter().zip(&seen);
    let faults: Vec<_> = faults.flat_map(|(case, seen)| faults_of(case, seen, place)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The commands of the command line, each as it is typed.
fn commands(command: &clap::Command, above: &str, all: &mut BTreeSet<String>) {
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = format!("{above} {}", below.get_name()).trim().to_owned();
        if !above.is_empty() && below.get_name() == "help" {
            continue;
        }
        commands(below, &name, all);
        if !below.is_subcommand_required_set() {
            all.insert(name);
        }
    }
}

#[test]
fn no_command_is_without_a_picture() {
    let mut all = BTreeSet::new();
    commands(&command_line(), "", &mut all);
    assert!(all.len() > 30, "{all:?}");
    let shown: Vec<_> = CASES.iter().map(|case| case.args).collect();
    let is_missing = |name: &&String| {
        !shown.iter().any(|args| *args == *name || args.starts_with(&format!("{name} ")))
    };
    let missing: Vec<_> = all.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no case in screens/cases.rs for {missing:?}");
}
