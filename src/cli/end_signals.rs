//! The signals that end a command.

use midex_domain::error::{Error, Result};

/// The exit code after SIGINT or SIGTERM.
pub(super) const EXIT_INTERRUPTED: u8 = 130;

/// The signals that end a process: SIGTERM and SIGINT.
pub(super) type EndSignals = [tokio::signal::unix::Signal; 2];

/// Subscribes to the signals. From now on they do not terminate the process by default.
pub(super) fn subscribe_to_signals() -> Result<EndSignals> {
    use tokio::signal::unix::{SignalKind, signal};
    let subscribe = |kind| {
        signal(kind)
            .map_err(|error| Error::internal("signals cannot be received").with_source(error))
    };
    Ok([subscribe(SignalKind::terminate())?, subscribe(SignalKind::interrupt())?])
}

/// Waits for the first of the signals.
pub(super) async fn wait_for_signal([mut terminate, mut interrupt]: EndSignals) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
