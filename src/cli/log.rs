//! Logs, on stderr. `RUST_LOG` chooses what is seen; it cannot lift the caps below, because what is
//! under them prints whole messages.

use std::io;

use tracing::{Level, Metadata};
use tracing_subscriber::{
    EnvFilter, Layer, filter::filter_fn, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Starts logging. A second start is ignored. Commands that end tell their user themselves what was refused, and
/// that a server went away; a server tells its log.
pub(super) fn init(serves: bool) {
    let usual = if serves {
        "warn,midex=info"
    } else {
        "warn,rmcp=off"
    };
    let chosen = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_filter(chosen);
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(filter_fn(capped)))
        .try_init();
}

/// rmcp prints requests and replies from WARN down; ractor a span for every message.
fn capped(metadata: &Metadata<'_>) -> bool {
    let cap = match metadata.target().split("::").next() {
        Some("rmcp") => Level::ERROR,
        Some("ractor") => Level::WARN,
        _ => Level::TRACE,
    };
    *metadata.level() <= cap
}
