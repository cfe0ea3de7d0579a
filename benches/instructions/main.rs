//! How many instructions a call takes on each hot path, counted by callgrind and held against a committed table.
//!
//! ```sh
//! cargo bench -p midex-bench --bench instructions               # fails where a count is more than 5 % away from the table
//! cargo bench -p midex-bench --bench instructions -- --write    # renews the table
//! cargo bench -p midex-bench --bench instructions -- snapshot   # counts those paths alone, whose names have the word
//! ```
//!
//! Each path is taken so many times and twice as often, in processes of their own: the difference is free of what a
//! process does at its start. Counts depend on the compiler and on the C library, so a build is held only against a table
//! of the same ones. Needs `valgrind`.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says what is wrong")]

#[path = "../support/manifest.rs"]
mod manifest;
mod paths;
mod serving;
mod standing;
mod table;

use std::{
    env,
    process::{Command, ExitCode, Output},
    thread,
};

use self::{
    paths::{HotPath, PATHS},
    table::Table,
};

/// What a run goes wrong with, in words.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    // Cargo adds a flag of its own.
    let arguments: Vec<_> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["take", name, rounds] => take(name, rounds),
        ["--write"] => count("").and_then(|counted| counted.write()),
        [] => count("").and_then(|counted| counted.hold_against_the_committed()),
        [part] if !part.starts_with('-') => count(part).map(|counted| print!("{counted}")),
        _ => Err("expected nothing, `--write` or a part of a path's name".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Takes a path so often: what is counted.
fn take(name: &str, rounds: &str) -> Result<()> {
    let path = PATHS.iter().find(|path| path.name == name);
    let path = path.ok_or_else(|| format!("there is no path `{name}`"))?;
    let rounds: u32 = rounds.parse().map_err(|_| "expected a number of rounds")?;
    let mut round = (path.prepare)();
    for _ in 0..rounds {
        round();
    }
    Ok(())
}

/// Counts the paths with this part in their names.
fn count(part: &str) -> Result<Table> {
    let mut table = Table::new(toolchain()?);
    for path in PATHS.iter().filter(|path| path.name.contains(part)) {
        table.add(path.name, of_one_call(path)?);
    }
    Ok(table)
}

fn of_one_call(path: &HotPath) -> Result<u64> {
    let (once, twice) = thread::scope(|scope| {
        let once = scope.spawn(|| counted(path, path.rounds));
        let twice = counted(path, 2 * path.rounds);
        (once.join(), twice)
    });
    let once = once.map_err(|_| "a thread panicked")??;
    Ok(twice?.saturating_sub(once) / u64::from(path.rounds * path.calls))
}

/// Keeps the C library from copying and filling with `rep movsb` and `rep stosb`: callgrind counts those as an instruction for
/// each byte, thirty times what other copies count. The task of a call is a future of 17 KB, and how often it is moved
/// depends on what the compiler puts inline: the count of the path over lines used to jump by 13 % for that alone.
const COPIES: &str = "glibc.cpu.x86_rep_movsb_threshold=1073741824:\
                      glibc.cpu.x86_rep_stosb_threshold=1073741824";

/// The instructions of a whole process.
fn counted(path: &HotPath, rounds: u32) -> Result<u64> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.env("GLIBC_TUNABLES", COPIES);
    command.arg(program).args(["take", path.name, &rounds.to_string()]);
    let output = run(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("Collected : "));
    let count = count.and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| format!("`{}` was not counted; valgrind said:\n{said}", path.name))
}

/// What counts depend on besides the code.
fn toolchain() -> Result<String> {
    let says = |program: &str, arguments: &[&str]| {
        let output = run(Command::new(program).args(arguments))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    Ok(format!(
        "{}, {}, {}, {}",
        says(&compiler, &["--version"])?,
        env::consts::ARCH,
        says("getconf", &["GNU_LIBC_VERSION"])?,
        says("valgrind", &["--version"])?
    ))
}

fn run(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output = output.map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{program}` failed; it said:\n{said}"))
}
