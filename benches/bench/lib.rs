//! `midex bench` (internal: no semver promise): measures midex on this machine and disk, side by side with baselines,
//! in turns within one run. Compare only ratios within one run. A run in which anything fails prints no figure.
//!
//! It measures through `App`, through the store (whose hook counts and delays), and through servers in processes of
//! their own. Each thing that is measured is a `Contender`, which takes turns with the other contenders of its group.

mod beside;
mod calls;
mod client;
mod figures;
mod load;
mod machine;
mod processes;
mod servers;

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::{Args, ValueEnum};
use comfy_table::Table;
use serde_json::{Value, json};

use self::{
    calls::{CallKind, Midex, Setting},
    figures::Figure,
    load::Contender,
    machine::Machine,
    processes::{Look, Processes},
    servers::{Servers, Transport},
};
use midex_domain::{
    Row,
    error::{Code, Error, Result, describe_io_error},
    limits,
};
use midex_server::{app::App, config::Config};

/// The number of steps of the measured workflow: enough that starts are rare among the calls.
const STEPS: usize = 20;

/// How many executions one client can wake in a millisecond of a turn, at most.
const WOKEN_PER_MS: u128 = 8;

/// What is measured, how long, and on what disk.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Total seconds per measurement, in turns that alternate with the others; from 2 on, each turn takes a second or more
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// Run only these benchmarks, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Benchmark>,
    /// Delay each sync by this time, to simulate a slower disk
    #[arg(long, value_name = "TIME")]
    slow_disk: Option<SlowDisk>,
    /// Number of executions in the file that `stored` compares with a new one
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::BENCH_STORED_MAX)))]
    stored: u32,
}

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// Durable transitions, 1 to 4,096 in flight, compared with one sync and with a commit per transition
    Engine,
    /// Starts of executions
    Start,
    /// Steps of executions that are not in memory
    Wake,
    /// Reading the current step of an execution
    #[value(name = "current_step")]
    CurrentStep,
    /// Steps finished over standard input and output, through a relay and over HTTP, compared with the engine in this process
    #[value(name = "next_step")]
    NextStep,
    /// Time from the start of a server to its reply to `tools/list`, after a clean shutdown and after a kill
    #[value(name = "cold_start")]
    ColdStart,
    /// Memory of an idle server, and per execution that is awake
    Memory,
    /// Memory per execution that is asleep; takes two minutes, and runs only if it is named
    Asleep,
    /// Transitions in a file with many executions, compared with those in a new one
    Stored,
}

/// The kinds of calls that are measured in a group of their own, and their names.
const CALLS: [(Benchmark, &str, CallKind); 3] = [
    (Benchmark::Start, "start", CallKind::Start),
    (Benchmark::Wake, "wake", CallKind::Wake),
    (Benchmark::CurrentStep, "current_step", CallKind::CurrentStep),
];

/// By how much a disk is slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SlowDisk {
    #[value(name = "0.5ms")]
    Half,
    #[value(name = "2ms")]
    Two,
    #[value(name = "5ms")]
    Five,
}

impl SlowDisk {
    fn delay(self) -> Duration {
        match self {
            Self::Half => Duration::from_micros(500),
            Self::Two => Duration::from_millis(2),
            Self::Five => Duration::from_millis(5),
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let most = limits::BENCH_SECONDS_MAX;
    let parsed = text.parse().ok().map(Duration::try_from_secs_f64);
    match parsed {
        Some(Ok(length)) if !length.is_zero() && length <= most => Ok(length),
        _ => Err(format!(
            "expected seconds, more than 0 and at most {}, such as 2 or 0.1",
            most.as_secs()
        )),
    }
}

/// The report of a run.
#[derive(Debug)]
pub struct Report {
    args: BenchArgs,
    machine: Machine,
    figures: Vec<Figure>,
    notes: Vec<String>,
    /// Why the figures do not count, if the machine was too busy.
    too_loaded: Option<String>,
}

impl Report {
    /// The whole report as JSON.
    pub fn json(&self) -> Value {
        json!({
            "machine": self.machine.json(), "seconds": self.args.seconds.as_secs_f64(), "stored": self.args.stored,
            "slow_disk_ms": self.args.slow_disk.map(|slow| slow.delay().as_secs_f64() * 1e3),
            "too_loaded": self.too_loaded, "notes": self.notes, "figures": figures::as_json(&self.figures)
        })
    }

    /// The report for a terminal: one table per group, with `title` and `table` supplying the styled title and an empty
    /// table.
    pub fn text(&self, title: impl Fn(&str) -> String, table: impl Fn(&[&str]) -> Table) -> String {
        let mark = self.too_loaded.as_ref().map_or("", |_| "  (too loaded to count)");
        let notes: Vec<_> = self.notes.iter().chain(&self.too_loaded).map(String::as_str).collect();
        let figures = figures::as_text(&self.figures, mark, title, table);
        format!("{}\n{figures}\n{}\n", self.machine.text(), notes.join("\n"))
    }
}

/// Measures on the disk of the data directory of `config`, in a directory that is removed at the end. Returns `None` if
/// `interrupted` completes first.
///
/// # Errors
/// Those of the measured store and servers. After any failure there is no report.
pub async fn bench(
    args: BenchArgs,
    config: &Config,
    interrupted: impl Future<Output = ()>,
) -> Result<Option<Report>> {
    let place = BenchDirectory::beside(&config.data_dir, args.slow_disk)?;
    let machine = Machine::now();
    let mut run = Run { args, place: &place, figures: Vec::new(), notes: Vec::new() };
    let measured = tokio::select! {
        measured = run.measure() => Some(measured),
        () = interrupted => None,
    };
    let Run { args, figures, notes, .. } = run;
    place.remove().await?;
    let Some(measured) = measured else {
        return Ok(None);
    };
    measured.map_err(no_figure)?;
    let too_loaded = machine.loaded(&figures);
    Ok(Some(Report { args, machine, figures, notes, too_loaded }))
}

/// Adds to an error that no figure is shown because of it.
fn no_figure(error: Error) -> Error {
    let message =
        format!("no figure is shown, for this failed while it was measured: {}", error.message());
    error
        .with_message(message)
        .with_action("Look at the disk beside the data directory, or name another with --data-dir, and run `midex bench` again")
}

/// A running measurement.
struct Run<'a> {
    args: BenchArgs,
    place: &'a BenchDirectory,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

/// A contender and its name.
type Named = (&'static str, Box<dyn Contender>);

impl Run<'_> {
    async fn measure(&mut self) -> Result<()> {
        self.note();
        let needs_rows = self.wants(Benchmark::Engine) || self.wants(Benchmark::Stored);
        let rows = if needs_rows { beside::records(self.place).await? } else { Arc::default() };
        if self.wants(Benchmark::Engine) {
            for in_flight in [1, 16, 256, 4096] {
                if self.holds(in_flight) {
                    let contenders = self.transitions(in_flight, &rows).await?;
                    self.turns("transitions", in_flight, contenders).await?;
                }
            }
        }
        for in_flight in [1, 256] {
            if self.wants(Benchmark::NextStep)
                && self.args.slow_disk.is_none()
                && self.holds(in_flight)
            {
                let contenders = self.servers(in_flight).await?;
                self.turns("workflow.next_step", in_flight, contenders).await?;
            }
        }
        for in_flight in [1, 256] {
            if CALLS.iter().any(|(part, ..)| self.wants(*part)) && self.holds(in_flight) {
                let contenders = self.calls(in_flight).await?;
                self.turns("calls", in_flight, contenders).await?;
            }
        }
        if self.wants(Benchmark::Stored) {
            self.stored(&rows).await?;
        }
        if self.args.slow_disk.is_none() {
            let contenders = self.processes()?;
            self.turns("servers", 1, contenders).await?;
        }
        Ok(())
    }

    /// Compares transitions in a new file with those in a file that holds many executions.
    async fn stored(&mut self, rows: &Arc<[Row]>) -> Result<()> {
        let old = beside::filled(self.place, rows, self.args.stored as usize).await?;
        for in_flight in [1, 256] {
            if self.holds(in_flight) {
                let setting = Setting::steps(in_flight);
                let contenders: Vec<Named> = vec![
                    (Figure::PROBE, Box::new(beside::Probe::new(self.place)?)),
                    ("new file", Box::new(Midex::new(self.place, setting, 0).await?)),
                    ("many stored", Box::new(Midex::over(old.clone(), self.place, setting).await?)),
                ];
                self.turns("stored", in_flight, contenders).await?;
            }
        }
        Ok(())
    }

    /// The contenders that measure a server process as a whole.
    fn processes(&mut self) -> Result<Vec<Named>> {
        const LOOKS: [(Benchmark, &str, Look); 4] = [
            (Benchmark::ColdStart, "cold start", Look::ColdStart),
            (Benchmark::ColdStart, "start after a kill", Look::Recovery),
            (Benchmark::Memory, "memory", Look::Memory),
            (Benchmark::Asleep, "memory, then asleep", Look::Asleep),
        ];
        let mut contenders: Vec<Named> = Vec::new();
        for (part, name, look) in LOOKS {
            if part != Benchmark::ColdStart && !cfg!(target_os = "linux") {
                self.notes.push(format!("`{name}` is not measured: only Linux says it"));
            } else if self.wants(part) {
                contenders.push((name, Box::new(Processes::new(self.place, look)?)));
            }
        }
        Ok(contenders)
    }

    /// Notes what is not measured in this run, and conditions that distort its figures.
    fn note(&mut self) {
        let lacks_servers = self.args.slow_disk.is_some();
        let mut note = |text: &str| self.notes.push(text.to_owned());
        if cfg!(debug_assertions) {
            note("this build is for debugging: build with `--release` to measure");
        }
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1) {
            note("there is one core: clients, engine and disk take turns on it");
        }
        if lacks_servers {
            note("servers are not measured: their syncs cannot be made slower from outside");
        }
        if !cfg!(feature = "sqlite") {
            note(
                "SQLite is not measured: build with `--features bench-sqlite` to have it beside midex",
            );
        } else if self.args.slow_disk.is_some() {
            note("SQLite is not measured: its syncs cannot be made slower from outside");
        }
    }

    fn wants(&self, part: Benchmark) -> bool {
        let only = &self.args.only;
        only.contains(&part) || (only.is_empty() && part != Benchmark::Asleep)
    }

    /// The number of turns, and the length of each.
    fn lengths(&self) -> (u32, Duration) {
        let turns = u32::try_from(self.args.seconds.as_secs()).unwrap_or(u32::MAX).max(2);
        (turns, self.args.seconds / turns)
    }

    /// Whether a turn is long enough for `in_flight` concurrent calls. Adds a note if not.
    fn holds(&mut self, in_flight: usize) -> bool {
        let (_, length) = self.lengths();
        let holds = length.as_micros() / 200 >= in_flight as u128;
        if !holds {
            let note = format!(
                "turns of {length:?} are too short for {in_flight} in flight: longer `--seconds` have them"
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        holds
    }

    async fn transitions(&self, in_flight: usize, rows: &Arc<[Row]>) -> Result<Vec<Named>> {
        let place = self.place;
        let midex = async |snapshot_every| {
            let setting = Setting { snapshot_every, ..Setting::steps(in_flight) };
            Midex::new(place, setting, 0).await.map(Box::new)
        };
        let mut contenders: Vec<Named> = vec![
            (Figure::PROBE, Box::new(beside::Probe::new(place)?)),
            ("midex", midex(1).await?),
            ("midex, snapshot_every 16", midex(16).await?),
        ];
        // Without group commit, more clients only wait longer.
        if in_flight <= limits::BENCH_SINGLE_IN_FLIGHT_MAX {
            let single = beside::Single::new(place, rows, in_flight).await?;
            contenders.push(("redb, a commit each", Box::new(single)));
        }
        #[cfg(feature = "sqlite")]
        if self.args.slow_disk.is_none() {
            contenders
                .push(("SQLite WAL FULL", Box::new(beside::Sqlite::new(place, rows, "FULL")?)));
            contenders
                .push(("SQLite WAL NORMAL", Box::new(beside::Sqlite::new(place, rows, "NORMAL")?)));
        }
        Ok(contenders)
    }

    async fn calls(&self, in_flight: usize) -> Result<Vec<Named>> {
        let (_, length) = self.lengths();
        let asleep = usize::try_from(length.as_millis() * WOKEN_PER_MS).unwrap_or(usize::MAX);
        let probe = beside::Probe::new(self.place)?;
        let mut contenders: Vec<Named> = vec![(Figure::PROBE, Box::new(probe))];
        for (_, name, kind) in CALLS.into_iter().filter(|(part, ..)| self.wants(*part)) {
            let setting = Setting { kind, ..Setting::steps(in_flight) };
            contenders.push((name, Box::new(Midex::new(self.place, setting, asleep).await?)));
        }
        Ok(contenders)
    }

    /// Servers in processes of their own and, for comparison, the engine alone in this process.
    async fn servers(&self, in_flight: usize) -> Result<Vec<Named>> {
        let setting = Setting::steps(in_flight);
        let mut contenders: Vec<Named> = vec![
            (Figure::PROBE, Box::new(beside::Probe::new(self.place)?)),
            ("engine, in this process", Box::new(Midex::new(self.place, setting, 0).await?)),
        ];
        for (name, way) in Transport::ALL {
            contenders.push((name, Box::new(Servers::start(self.place, way, in_flight).await?)));
        }
        Ok(contenders)
    }

    /// Lets the contenders work in turns, so that all see the same state of the machine.
    async fn turns(
        &mut self,
        group: &'static str,
        in_flight: usize,
        contenders: Vec<Named>,
    ) -> Result<()> {
        let (turns, length) = self.lengths();
        let figure = |(name, contender)| {
            let figure = Figure { group, name, in_flight, turns: Vec::new() };
            (figure, contender)
        };
        let mut measured: Vec<(Figure, Box<dyn Contender>)> =
            contenders.into_iter().map(figure).collect();
        for _ in 0..turns {
            for (figure, contender) in &mut measured {
                figure.turns.push(contender.turn(length).await?);
            }
        }
        for (figure, contender) in measured {
            contender.end().await?;
            self.figures.push(figure);
        }
        Ok(())
    }
}

/// A temporary directory on the disk of the data directory. It is removed at the end.
struct BenchDirectory {
    directory: tempfile::TempDir,
    made: Cell<u32>,
    /// By how much each sync is slowed down.
    delay: Option<Duration>,
    /// Every app that was opened in this directory.
    apps: Arc<Mutex<Vec<App>>>,
}

impl BenchDirectory {
    /// Creates the directory next to the data directory, and writes the measured workflow into it. If the parent of the
    /// data directory does not exist yet, uses the nearest ancestor that does, which is on the same disk.
    fn beside(data_dir: &Path, slow_disk: Option<SlowDisk>) -> Result<Self> {
        let data_dir = std::path::absolute(data_dir).map_err(|error| unusable(data_dir, error))?;
        let above = data_dir.ancestors().skip(1).find(|path| path.is_dir());
        let above = above.unwrap_or(Path::new("/"));
        let made = tempfile::Builder::new().prefix(".midex-bench-").tempdir_in(above);
        let place = Self {
            directory: made.map_err(|error| unusable(above, error))?,
            made: Cell::new(0),
            delay: slow_disk.map(SlowDisk::delay),
            apps: Arc::default(),
        };
        place.write("workflows/bench.yaml", &workflow())?;
        place
            .write("agents/worker.md", "---\nname: worker\ndescription: Works\n---\n# Worker\n")?;
        Ok(place)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.directory.path().join(name);
        let above = path.parent().unwrap_or(&path);
        let written = fs::create_dir_all(above).and_then(|()| fs::write(&path, text));
        written.map_err(|error| unusable(&path, error))
    }

    /// Creates a new subdirectory.
    fn fresh(&self) -> Result<PathBuf> {
        self.made.set(self.made.get() + 1);
        let path = self.directory.path().join(format!("{}", self.made.get()));
        fs::create_dir(&path).map_err(|error| unusable(&path, error))?;
        Ok(path)
    }

    /// A configuration with a new data directory in it, and the measured workflow as the only one.
    fn config(&self) -> Result<Config> {
        let root = self.directory.path();
        Ok(Config {
            workflows_dir: Some(root.join("workflows")),
            agents_dir: Some(root.join("agents")),
            project_dir: root.to_path_buf(),
            allow_env: Vec::new(),
            secret_env: Vec::new(),
            ..Config::new(Some(self.fresh()?))?
        })
    }

    /// Stops every app and removes the directory. Retries, because a killed server may still create a file meanwhile.
    async fn remove(self) -> Result<()> {
        let apps = std::mem::take(&mut *self.apps.lock().unwrap_or_else(PoisonError::into_inner));
        for app in apps {
            // The app may have been interrupted, or have failed already.
            let _ = app.stop().await;
        }
        let path = self.directory.keep();
        let mut removed = fs::remove_dir_all(&path);
        for _ in 0..limits::BENCH_REMOVALS_MAX {
            if removed.is_ok() || !path.exists() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            removed = fs::remove_dir_all(&path);
        }
        removed.map_err(|error| unusable(&path, error))
    }
}

/// The measured workflow: a chain of steps.
fn workflow() -> String {
    let step = |at: usize| {
        let before = at.checked_sub(1).map(|before| format!("    depends_on: [step-{before}]\n"));
        let before = before.unwrap_or_default();
        format!("  - id: step-{at}\n    agent: worker\n    description: One of many\n{before}")
    };
    let steps: String = (0..STEPS).map(step).collect();
    format!("workflow: {}\ndescription: Measured\nsteps:\n{steps}", calls::WORKFLOW)
}

/// Runs a blocking operation on a blocking thread.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(act).await;
    done.map_err(|error| Error::internal("a part of the measurement panicked").with_source(error))
}

fn unusable(path: &Path, error: std::io::Error) -> Error {
    let shown = path.display().to_string();
    let message = format!("`{shown}` cannot be measured on: {}", describe_io_error(&error));
    Error::new(Code::FileUnusable, message).with_context("path", shown).with_source(error)
}
