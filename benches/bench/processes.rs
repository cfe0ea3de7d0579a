//! Server processes as a whole: how soon they answer, also after a kill, and how much memory they use.

use std::{fs, sync::Arc, time::Duration};

use tokio::process::{Child, Command};

use super::{
    BenchDirectory,
    client::Calls,
    figures::{Measure, Turn},
    load::{Contender, Stopwatch, fraction, now},
    servers::{command, kill, not_run, over_lines},
};
use midex_domain::{
    error::{Error, Result},
    limits,
};
use midex_engine::store::BoxFuture;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// Clients that start the executions whose memory is measured.
const CLIENTS: usize = 64;

/// The property that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// From the start of the process to its answer to `tools/list`; one server after another in the same directory.
    ColdStart,
    /// As `ColdStart`, but the previous process was killed right after it had answered a `workflow.start`.
    Recovery,
    /// Memory of an idle server, and per awake execution.
    Memory,
    /// As `Memory`, and then per execution once all are asleep, which takes a minute.
    Asleep,
}

/// One server process after another, in one data directory.
pub(super) struct Processes {
    look: Look,
    command: Command,
}

impl Processes {
    /// Prepares the command; starts no server yet.
    pub(super) fn new(place: &BenchDirectory, look: Look) -> Result<Self> {
        let command = command(place)?;
        Ok(Self { look, command })
    }

    async fn answers(&mut self, length: Duration) -> Result<Turn> {
        let watch = Stopwatch::start(length);
        let mut latencies = Vec::new();
        loop {
            let began = now();
            let (mut child, mut lines) = over_lines(&mut self.command).await?;
            lines.ask(LIST).await?;
            latencies.push(began.elapsed());
            if self.look == Look::Recovery {
                lines.drive(&mut [Calls::starts(0)], &Stopwatch::start(Duration::ZERO)).await?;
                kill(&mut child).await?;
            }
            drop(lines);
            child.wait().await.map_err(|error| not_run("ended", error))?;
            if !watch.runs() {
                break;
            }
        }
        // The processor time of servers that have ended is not known.
        Ok(watch.stop_with(latencies, None))
    }

    async fn memory(&mut self, length: Duration) -> Result<Turn> {
        let (mut child, mut lines) = over_lines(&mut self.command).await?;
        lines.ask(LIST).await?;
        let idle = memory_of(&child)?;
        let mut turn = Turn::default();
        turn.add(Measure::RSS, idle.rss);
        turn.add(Measure::PRIVATE, idle.private);
        let mut clients: Vec<_> = (0..CLIENTS).map(Calls::starts).collect();
        let started = lines.drive(&mut clients, &Arc::new(Stopwatch::start(length))).await?.len();
        let each = |memory: Memory| (memory.private - idle.private).max(0.0) / fraction(started);
        turn.add(Measure::LIVE, each(memory_of(&child)?));
        if self.look == Look::Asleep {
            tokio::time::sleep(limits::IDLE_MAX + 2 * limits::IDLE_SWEEP_EVERY).await;
            turn.add(Measure::ASLEEP, each(memory_of(&child)?));
        }
        kill(&mut child).await?;
        Ok(turn)
    }
}

impl Contender for Processes {
    fn turn(&mut self, length: Duration) -> BoxFuture<'_, Result<Turn>> {
        Box::pin(async move {
            match self.look {
                Look::ColdStart | Look::Recovery => self.answers(length).await,
                Look::Memory | Look::Asleep => self.memory(length).await,
            }
        })
    }
}

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug)]
struct Memory {
    rss: f64,
    private: f64,
}

/// Reads `smaps_rollup` of Linux: see `proc_pid_smaps(5)`.
fn memory_of(child: &Child) -> Result<Memory> {
    let path = format!("/proc/{}/smaps_rollup", child.id().unwrap_or_default());
    let said = fs::read_to_string(&path);
    let said = said
        .map_err(|error| Error::internal(format!("`{path}` cannot be read")).with_source(error))?;
    let of = |name: &str| -> f64 {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or_default()
    };
    Ok(Memory { rss: of("Rss:"), private: of("Private_Clean:") + of("Private_Dirty:") })
}
