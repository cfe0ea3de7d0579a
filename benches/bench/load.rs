//! A closed loop of calls, and its costs in a turn: time, processor time, writes and syncs.
#![expect(
    clippy::disallowed_methods,
    reason = "a bench measures real time, and a slow disk blocks whoever waits for it"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use super::figures::{Measure, Turn};
use midex_domain::error::{Error, Result};
use midex_engine::store::{BoxFuture, FileHook, FileOperation};

/// A system that is measured in turns with others.
pub(super) trait Contender: Send {
    /// Works for this long, and returns its figures.
    ///
    /// # Errors
    /// Any failure: then no figure of the run counts.
    fn turn(&mut self, length: Duration) -> BoxFuture<'_, Result<Turn>>;

    /// Releases resources at the end; most contenders hold none.
    fn end(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// A client that makes one call after another.
pub(super) trait Lane: Send + 'static {
    /// Makes one call; false if there is nothing left to call.
    fn call(&mut self) -> impl Future<Output = Result<bool>> + Send;
}

/// A client that stops after `left` calls.
pub(super) struct Limited<L> {
    pub(super) lane: L,
    pub(super) left: usize,
}

impl<L: Lane> Lane for Limited<L> {
    async fn call(&mut self) -> Result<bool> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(false);
        };
        self.left = left;
        self.lane.call().await
    }
}

/// The present moment.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Measures a turn: its time, and the processor time of this process.
#[derive(Debug)]
pub(super) struct Stopwatch {
    began: Instant,
    cpu: Duration,
    length: Duration,
}

impl Stopwatch {
    /// Begins a turn of this length.
    pub(super) fn start(length: Duration) -> Self {
        Self { began: now(), cpu: own_cpu(), length }
    }

    /// Whether the turn is still running.
    pub(super) fn runs(&self) -> bool {
        self.began.elapsed() < self.length
    }

    /// Ends the turn: its figures from the latencies of its calls and the processor time of this process.
    pub(super) fn stop(&self, latencies: Vec<Duration>) -> Turn {
        let cpu = own_cpu().saturating_sub(self.cpu);
        self.stop_with(latencies, Some(cpu))
    }

    /// As [`Self::stop`], with the processor time of other processes; `None` if it is not known.
    pub(super) fn stop_with(&self, mut latencies: Vec<Duration>, cpu: Option<Duration>) -> Turn {
        let took = self.began.elapsed();
        latencies.sort_unstable();
        let calls = latencies.len();
        let mut turn = Turn::default();
        if calls > 0 {
            turn.add(Measure::RATE, fraction(calls) / took.as_secs_f64());
            turn.add(Measure::P50, micros(latencies[calls / 2]));
            turn.add(Measure::P99, micros(latencies[calls * 99 / 100]));
            if let Some(cpu) = cpu {
                turn.add(Measure::CPU, micros(cpu) / fraction(calls));
            }
        }
        turn
    }
}

/// The processor time of all threads of this process.
fn own_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(super) fn fraction(count: usize) -> f64 {
    count as f64
}

/// Lets all lanes call concurrently until the turn ends, and returns the latency of each call.
pub(super) async fn drive<L: Lane>(
    lanes: &mut Vec<L>,
    watch: &Arc<Stopwatch>,
) -> Result<Vec<Duration>> {
    let mut driven = JoinSet::new();
    for lane in lanes.drain(..) {
        driven.spawn(to_the_end(lane, Arc::clone(watch)));
    }
    let mut latencies = Vec::new();
    while let Some(ended) = driven.join_next().await {
        let ended = ended.map_err(|error| Error::internal("a client panicked").with_source(error));
        let (lane, took) = ended??;
        lanes.push(lane);
        latencies.extend(took);
    }
    Ok(latencies)
}

async fn to_the_end<L: Lane>(mut lane: L, watch: Arc<Stopwatch>) -> Result<(L, Vec<Duration>)> {
    let mut took = Vec::new();
    // Make at least one call: on a busy machine the turn may be over before this client runs.
    loop {
        let asked = now();
        if !lane.call().await? {
            break;
        }
        took.push(asked.elapsed());
        if !watch.runs() {
            break;
        }
    }
    Ok((lane, took))
}

/// Counts the writes and syncs of a store, and delays each sync.
#[derive(Debug, Default)]
pub(super) struct Disk {
    writes: AtomicU64,
    syncs: AtomicU64,
    delay: Option<Duration>,
}

impl Disk {
    /// A disk whose syncs are slowed down by `delay`.
    pub(super) fn new(delay: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { delay, ..Self::default() })
    }

    /// The hook to install in a store.
    pub(super) fn hook(self: &Arc<Self>) -> FileHook {
        let disk = Arc::clone(self);
        FileHook::new(move |operation| {
            match operation {
                FileOperation::Write { .. } | FileOperation::WriteLog { .. } => {
                    disk.writes.fetch_add(1, Ordering::Relaxed);
                }
                FileOperation::Sync | FileOperation::SyncLog => disk.sync(),
                _ => {}
            }
            Ok(())
        })
    }

    /// Counts a sync, and blocks the thread for the delay.
    pub(super) fn sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        if let Some(delay) = self.delay {
            std::thread::sleep(delay);
        }
    }

    /// Runs a turn of these clients, and adds the writes and syncs per call.
    pub(super) async fn turn<L: Lane>(&self, lanes: &mut Vec<L>, length: Duration) -> Result<Turn> {
        // Discard the counts of earlier writes.
        self.taken();
        let watch = Arc::new(Stopwatch::start(length));
        let latencies = drive(lanes, &watch).await?;
        let calls = fraction(latencies.len());
        let mut turn = watch.stop(latencies);
        let [writes, syncs] = self.taken();
        if calls > 0.0 {
            turn.add(Measure::WRITES, writes / calls);
            turn.add(Measure::SYNCS, syncs / calls);
        }
        Ok(turn)
    }

    /// The writes and syncs since the previous call of this function.
    fn taken(&self) -> [f64; 2] {
        [&self.writes, &self.syncs].map(|count| {
            let count = u32::try_from(count.swap(0, Ordering::Relaxed));
            f64::from(count.unwrap_or(u32::MAX))
        })
    }
}
