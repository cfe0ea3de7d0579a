//! Fills a store with executions that end in their first transition.

use std::{
    fmt::Write as _,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use midex_domain::Definition;
use midex_engine::{Engine, StartRequest};
use serde_json::json;
use tokio::task::JoinSet;

use super::manifest::manifest;

/// `long` with `MIDEX_LONG`, and otherwise the share.
pub(crate) fn share(share: u64, long: u64) -> u64 {
    if std::env::var_os("MIDEX_LONG").is_some() { long } else { share }
}

/// A workflow that ends as it begins.
pub(crate) fn ends_at_once() -> Arc<Definition> {
    manifest(
        "inputs: { text: { type: string } }\nsteps:\n  - { id: keep, set: { at: '${{ inputs.text != \"\" }}' } }\n",
    )
}

/// A text with this number, which is not the text of another number, and compresses as a plain text does.
fn text(number: u64, bytes: usize) -> String {
    let mut text = format!("number {number:08}");
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // 4,096 words of eleven letters each.
        let _ = write!(text, " {:010x}", (state % 4096).wrapping_mul(0x51_7cc1_b727));
    }
    text
}

/// The start with a number, of a workflow that ends at once.
pub(crate) fn start(
    definition: Arc<Definition>,
    bytes: usize,
) -> impl Fn(u64) -> StartRequest + Clone + Send + 'static {
    move |number| StartRequest {
        inputs: Some(json!({ "text": text(number, bytes) })),
        ..StartRequest::new(definition.clone())
    }
}

/// Starts the executions with these numbers, so many at once.
pub(crate) async fn fill(
    engine: &Engine,
    numbers: Range<u64>,
    at_once: usize,
    request: impl Fn(u64) -> StartRequest + Clone + Send + 'static,
) -> Duration {
    let (next, begin) = (Arc::new(AtomicU64::new(numbers.start)), Instant::now());
    let mut lanes = JoinSet::new();
    for _ in 0..at_once {
        let (engine, next, request) = (engine.clone(), next.clone(), request.clone());
        lanes.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= numbers.end {
                    return;
                }
                let started = engine.start(request(number)).await.expect("a start");
                assert_eq!(started.workflow_state, "completed", "{:?}", started.failure);
            }
        });
    }
    lanes.join_all().await;
    begin.elapsed()
}

/// The value below which so many of a hundred values lie.
pub(crate) fn quantile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}
