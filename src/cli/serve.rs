//! `midex serve`.

use std::{io::Write, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::EXIT_OK;
use crate::{
    app::App,
    clock::{SystemClock, SystemIds},
    config::Config,
    error::{Error, Result},
    limits, mcp,
};

/// Serves standard input and output until the client goes or a signal comes.
pub(super) async fn serve(config: Config, offer: mcp::Offer) -> Result<u8> {
    let app = Arc::new(App::new(config, Arc::new(SystemClock), Arc::new(SystemIds)));
    app.definitions().watch();
    let stop = CancellationToken::new();
    let signals = tokio::spawn(cancel_on_signal(signals()?, app.clone(), stop.clone()));
    greet(offer);
    // Opened now rather than by the first call, so that what is wrong with the store is in the log early;
    // the handshake does not wait for it, and where it is busy every call tries again.
    let opening = tokio::spawn(open_store(app.clone()));
    let shut = stop.child_token();
    let door = tokio::spawn(mcp::control::listen((*app).clone(), shut.clone()));
    let handler = mcp::Server::new(app.clone()).offering(offer);
    let served = mcp::serve_stdio(handler, stop.child_token()).await;
    signals.abort();
    opening.abort();
    shut.cancel();
    let (door_max, close_max) = if stop.is_cancelled() {
        (limits::DRAIN_MAX, limits::DRAIN_MAX)
    } else {
        (limits::EOF_DOOR_MAX, limits::EOF_CLOSE_MAX)
    };
    // The socket is removed before the store is let go.
    let _ = tokio::time::timeout(door_max, door).await;
    let stopped = tokio::time::timeout(close_max, app.stop())
        .await
        .unwrap_or_else(|_| {
            tracing::warn!("the store was not closed in time; nothing acknowledged is lost");
            Ok(())
        });
    served.and(stopped).map(|()| EXIT_OK)
}

async fn open_store(app: Arc<App>) {
    if let Err(error) = app.engine().await {
        tracing::warn!(
            code = error.code().as_str(),
            "{error}; help: {}",
            error.suggested_action()
        );
    }
}

fn greet(offer: mcp::Offer) {
    let mut stderr = anstream::stderr().lock();
    for line in mcp::start_up_lines(offer) {
        // A host that closed stderr still wants its server.
        let _ = writeln!(stderr, "{line}");
    }
}

/// The signals that ask a process to end: SIGTERM and SIGINT.
pub(super) type Signals = [tokio::signal::unix::Signal; 2];

/// Listens for the signals; from now on they no longer end the process by themselves.
pub(super) fn signals() -> Result<Signals> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| {
        signal(kind).map_err(|error| Error::internal("signals cannot be received").because(error))
    };
    Ok([
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
    ])
}

/// Whoever waits is answered first.
async fn cancel_on_signal(signals: Signals, app: Arc<App>, stop: CancellationToken) {
    signalled(signals).await;
    app.begin_stop();
    tokio::time::sleep(limits::SIGNAL_GRACE).await;
    stop.cancel();
}

/// Answers with the first of the signals.
pub(super) async fn signalled([mut terminate, mut interrupt]: Signals) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
