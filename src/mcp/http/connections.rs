//! The connections of all HTTP clients, and which of them keep the server waiting: one that sends nothing, sends
//! a body bit by bit, or takes no reply. Where there is no room for another, the one that has waited longest goes.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

use crate::limits;

/// Every connection, by number.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    /// Orders what happens; also the next number.
    moments: Arc<AtomicU64>,
    /// How often [`Connections::sweep`] has looked.
    sweeps: Arc<AtomicU64>,
    left: Notify,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    number: u64,
    /// Cancelled to end it at once.
    cut: CancellationToken,
    state: Mutex<State>,
    moments: Arc<AtomicU64>,
    sweeps: Arc<AtomicU64>,
}

#[derive(Debug)]
struct State {
    /// Requests that were read to the end and whose replies were not written to the end.
    working: usize,
    /// Requests whose bodies are being read.
    sending: usize,
    /// Since when it has had none of those.
    idle_since: u64,
    /// Since when it takes nothing of what is to be written, and the sweeps until then.
    stalled: Option<(u64, u64)>,
}

/// What room is to be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Any connection makes room for another one.
    Connections,
    /// Only one that sends or is sent something.
    Bytes,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets another connection in; `None` where there is no room and none that could be made.
    pub(super) fn enter(&self) -> Option<Arc<Connection>> {
        if self.open().len() >= limits::HTTP_CONNECTIONS_MAX && !self.make_room(Of::Connections) {
            return None;
        }
        let number = self.moments.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            number,
            cut: CancellationToken::new(),
            state: Mutex::new(State {
                working: 0,
                sending: 0,
                idle_since: number,
                stalled: None,
            }),
            moments: self.moments.clone(),
            sweeps: self.sweeps.clone(),
        });
        self.open().insert(number, connection.clone());
        Some(connection)
    }

    /// The connection has ended.
    pub(super) fn leave(&self, connection: &Connection) {
        self.open().remove(&connection.number);
        self.left.notify_waiters();
    }

    /// Cuts the connection that has kept the server waiting longest; false where none does.
    pub(super) fn make_room(&self, of: Of) -> bool {
        let mut open = self.open();
        let waiting = open
            .values()
            .filter_map(|connection| Some((connection.waits_since(of)?, connection.number)));
        let Some(longest) = waiting.min() else {
            return false;
        };
        if let Some(connection) = open.remove(&longest.1) {
            connection.cut.cancel();
        }
        true
    }

    /// Cuts whoever takes nothing for too long. To be called once a second.
    pub(super) fn sweep(&self) {
        let now = self.sweeps.fetch_add(1, Ordering::Relaxed);
        self.open().retain(|_, connection| {
            let keep = connection
                .stalled_sweeps(now)
                .is_none_or(|sweeps| sweeps < limits::HTTP_STALL_MAX.as_secs());
            if !keep {
                connection.cut.cancel();
            }
            keep
        });
    }

    /// Ends all of them at once.
    pub(super) fn cut_all(&self) {
        self.open()
            .values()
            .for_each(|connection| connection.cut.cancel());
    }

    /// Waits until none is left.
    pub(super) async fn empty(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.open().is_empty() {
                return;
            }
            left.await;
        }
    }
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when the server waits for the client; `None` where the client waits for the server.
    fn waits_since(&self, of: Of) -> Option<u64> {
        let state = self.state();
        match state.stalled {
            Some((since, _)) => Some(since),
            None if of == Of::Bytes && state.sending == 0 => None,
            None => (state.working == 0).then_some(state.idle_since),
        }
    }

    fn stalled_sweeps(&self, now: u64) -> Option<u64> {
        let (_, since) = self.state().stalled?;
        Some(now.saturating_sub(since))
    }

    /// Cancelled once it must end.
    pub(super) fn cut(&self) -> &CancellationToken {
        &self.cut
    }

    /// The body of a request is being read, until the guard is dropped.
    pub(super) fn sending(self: &Arc<Self>) -> Sending {
        self.state().sending += 1;
        Sending(self.clone())
    }

    /// A request has been read to its end. Until the guard is dropped, the client waits for the server.
    pub(super) fn work(self: &Arc<Self>) -> Work {
        self.state().working += 1;
        Work(self.clone())
    }

    fn wrote(&self, stalls: bool) {
        let mut state = self.state();
        if !stalls {
            state.stalled = None;
        } else if state.stalled.is_none() {
            let now = self.moments.fetch_add(1, Ordering::Relaxed);
            state.stalled = Some((now, self.sweeps.load(Ordering::Relaxed)));
        }
    }
}

/// A request that is being read.
#[derive(Debug)]
pub(super) struct Sending(Arc<Connection>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.state().sending -= 1;
    }
}

/// A request in work.
#[derive(Debug)]
pub(super) struct Work(Arc<Connection>);

impl Drop for Work {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.working -= 1;
        if state.working == 0 {
            state.idle_since = self.0.moments.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A stream that notes whether its client takes what is written.
#[derive(Debug)]
pub(super) struct Watched<S> {
    pub(super) stream: S,
    pub(super) connection: Arc<Connection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.connection.wrote(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.connection.wrote(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn the_one_that_keeps_the_server_waiting_longest_makes_room() {
        let connections = Connections::default();
        let first = connections.enter().expect("room");
        let second = connections.enter().expect("room");
        let third = connections.enter().expect("room");
        // The first has worked since, so it has been idle for a shorter time.
        drop(first.work());
        let busy = third.work();
        assert!(connections.make_room(Of::Connections));
        assert!(second.cut().is_cancelled() && !first.cut().is_cancelled());
        assert!(connections.make_room(Of::Connections));
        assert!(first.cut().is_cancelled());
        assert!(
            !connections.make_room(Of::Connections),
            "a client that waits is not cut"
        );
        drop(busy);
        assert!(connections.make_room(Of::Connections));
        assert!(third.cut().is_cancelled());
    }

    #[test]
    fn only_who_sends_or_is_sent_something_can_give_bytes_back() {
        let connections = Connections::default();
        let idle = connections.enter().expect("room");
        let sending = connections.enter().expect("room");
        let stalled = connections.enter().expect("room");
        let (_working, body) = (stalled.work(), sending.sending());
        stalled.wrote(true);
        assert!(connections.make_room(Of::Bytes));
        assert!(sending.cut().is_cancelled() && !stalled.cut().is_cancelled());
        assert!(connections.make_room(Of::Bytes));
        assert!(stalled.cut().is_cancelled());
        assert!(!connections.make_room(Of::Bytes) && !idle.cut().is_cancelled());
        drop(body);
    }

    #[test]
    fn past_the_limit_the_idle_go_and_the_busy_stay() {
        let connections = Connections::default();
        let busy: Vec<_> = (0..limits::HTTP_CONNECTIONS_MAX - 1)
            .map(|_| connections.enter().expect("room").work())
            .collect();
        let idle = connections.enter().expect("the last place");
        let last = connections.enter().expect("the idle one's place");
        assert!(idle.cut().is_cancelled());
        let working = last.work();
        assert!(connections.enter().is_none(), "all are busy");
        drop((busy, working));
        assert!(connections.enter().is_some());
    }

    #[tokio::test]
    async fn whoever_takes_nothing_is_cut_after_a_while() {
        let connections = Connections::default();
        let connection = connections.enter().expect("room");
        let working = connection.work();
        let (near, mut far) = tokio::io::duplex(8);
        let mut watched = Watched {
            stream: near,
            connection: connection.clone(),
        };
        let writing = tokio::spawn(async move { watched.write_all(&[0; 20]).await });
        while connection.waits_since(Of::Bytes).is_none() {
            tokio::task::yield_now().await;
        }
        for _ in 0..limits::HTTP_STALL_MAX.as_secs() {
            connections.sweep();
        }
        assert!(!connection.cut().is_cancelled());
        let mut taken = [0; 20];
        far.read_exact(&mut taken).await.expect("all of it");
        writing.await.expect("no panic").expect("written");
        assert_eq!(
            connection.waits_since(Of::Bytes),
            None,
            "it has taken everything"
        );
        connection.wrote(true);
        for _ in 0..=limits::HTTP_STALL_MAX.as_secs() {
            assert!(!connection.cut().is_cancelled());
            connections.sweep();
        }
        assert!(connection.cut().is_cancelled());
        drop(working);
    }
}
