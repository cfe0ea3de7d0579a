//! What the benches share: a long workflow, the disk alone, and figures from many turns.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use midex_domain::Definition;
use serde_json::json;

/// Steps of the measured workflow: long enough that starts are few.
pub(crate) const STEPS: usize = 20;

/// A chain of steps, all with one persona.
pub(crate) fn definition(persona: &str) -> Arc<Definition> {
    let step = |at: usize| {
        let before: Vec<_> =
            at.checked_sub(1).map(|before| format!("step-{before}")).into_iter().collect();
        json!({
            "id": format!("step-{at}"), "description": "One of many", "depends_on": before,
            "kind": { "agent": { "agent": "worker" } }
        })
    };
    let text = json!({
        "workflow": { "name": "bench", "description": "Measured", "steps": (0..STEPS).map(step).collect::<Vec<_>>() },
        "personas": { "worker": { "name": "worker", "content": persona } }
    });
    Arc::new(Definition::decode(text.to_string().as_bytes()).expect("a definition"))
}

/// Overwrites 4 KiB and syncs them, so many times: what no durable transition can beat alone.
pub(crate) fn fdatasync(dir: &Path, count: u64) -> Duration {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join("probe"))
        .expect("a file");
    file.write_all_at(&[1; 4096], 0).and_then(|()| file.sync_all()).expect("a write");
    let start = Instant::now();
    for _ in 0..count {
        file.write_all_at(&[2; 4096], 0).and_then(|()| file.sync_data()).expect("a write");
    }
    start.elapsed()
}

/// So many in one second.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// The one in the middle.
pub(crate) fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
