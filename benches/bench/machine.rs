//! The machine that runs the measurement, and whether other work disturbed it.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use super::figures::Figure;

/// The properties of the machine that the figures depend on.
#[derive(Debug)]
pub(super) struct Machine {
    cores: usize,
    kernel: Option<String>,
    load_before: Option<f64>,
}

impl Machine {
    /// This machine, before anything is measured.
    pub(super) fn now() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.ok().map(|kernel| kernel.trim().to_owned()),
            load_before: load(),
        }
    }

    /// Why the figures do not count; `None` if the machine was idle enough.
    pub(super) fn loaded(&self, figures: &[Figure]) -> Option<String> {
        let cores = self.cores;
        let busy = self.load_before.filter(|load| *load > super::load::fraction(cores));
        if let Some(load) = busy {
            return Some(format!(
                "too loaded to count: the load was {load} on {cores} cores before it began"
            ));
        }
        let uneven = figures.iter().find(|figure| figure.is_uneven())?;
        let (probe, group) = (uneven.name, uneven.group);
        Some(format!(
            "too loaded to count: beside `{group}` {probe} was more than twice as quick in one turn as in another"
        ))
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "cores": self.cores, "kernel": self.kernel, "os": std::env::consts::OS, "arch": std::env::consts::ARCH,
            "load_before": self.load_before, "load_after": load(), "midex": env!("CARGO_PKG_VERSION"),
            "build": if cfg!(debug_assertions) { "debug" } else { "release" }
        })
    }

    pub(super) fn text(&self) -> String {
        let kernel = self.kernel.as_deref().unwrap_or("unknown kernel");
        let shown = |load: Option<f64>| {
            load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"))
        };
        format!(
            "midex {} on {} cores, {} {kernel}; load {} before, {} after",
            env!("CARGO_PKG_VERSION"),
            self.cores,
            std::env::consts::OS,
            shown(self.load_before),
            shown(load())
        )
    }
}

/// The load average of the last minute, if the system reports it.
fn load() -> Option<f64> {
    let said = fs::read_to_string("/proc/loadavg").ok()?;
    said.split(' ').next()?.parse().ok()
}

/// The processor time that a process has used, if the system reports it. Its resolution is a clock tick.
pub(super) fn cpu_of(process: u32) -> Option<Duration> {
    /// The positions of `utime` and `stime` after the program name, which may contain any character: see
    /// `proc_pid_stat(5)`.
    const TIMES: std::ops::Range<usize> = 11..13;
    let said = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<_> = said.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(TIMES)?.iter().map(|ticks| ticks.parse::<u64>().ok());
    let ticks: u64 = ticks.sum::<Option<u64>>()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis(ticks * 1000 / per_second.max(1)))
}
