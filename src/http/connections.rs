//! The registry of HTTP connections. It tracks which clients keep the server waiting: they send nothing, send a body
//! slowly, or do not read a reply. If there is no room for a new connection, the one that has kept the server waiting
//! longest is cut.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

use super::budget::BudgetShare;
use midex_domain::limits;

/// All open connections, by number.
#[derive(Debug)]
pub struct Connections {
    by_number: Mutex<HashMap<u64, Arc<Connection>>>,
    /// The maximum number of open connections.
    max: usize,
    /// How many connections were refused since the last sweep.
    refused_count: AtomicU64,
    /// A logical clock that orders events. Connections also take their numbers from it.
    logical_clock: Arc<AtomicU64>,
    /// How many times [`Connections::cut_stalled`] was called.
    sweep_count: Arc<AtomicU64>,
    connection_closed: Notify,
    /// How many connections still have their files open, those that were cut included.
    present_count: AtomicUsize,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    /// Cancelled to close the connection at once.
    cut_token: CancellationToken,
    state: Mutex<ConnectionState>,
    logical_clock: Arc<AtomicU64>,
    sweep_count: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ConnectionState {
    /// Requests that were read completely and whose replies are not completely written.
    active_requests: usize,
    /// When `working` last became 0, on the logical clock.
    idle_since: u64,
    /// The request body that is being received.
    receiving: Option<IncomingBody>,
    /// When the client stopped reading what the server writes: on the logical clock, and as a number of sweeps.
    stalled: Option<(u64, u64)>,
    /// Replies, and frames of replies, that hyper has but has not completely written.
    reply_guards: Vec<ReplyGuards>,
}

/// A request body that is being received.
#[derive(Clone, Copy, Debug)]
struct IncomingBody {
    since: u64,
    /// Bytes received so far.
    bytes: usize,
    /// Whether reading is paused until the byte budget has room, so that the client waits for the server.
    is_held_up: bool,
}

/// The guards that a reply, or a frame of one, holds until it is written. The body cannot hold them, because hyper
/// takes all of it long before.
pub(crate) type ReplyGuards = (Option<RequestGuard>, BudgetShare);

/// Which connections may be cut to make room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Evictable {
    /// All that keep the server waiting, idle ones included.
    AnyWaiting,
    /// Those that hold bytes of the budget while the server waits: of a body that they send slowly, or of a reply
    /// that they do not read. The connection with this number is exempt, because it needs the room.
    HoldingBytes(u64),
}

impl Connections {
    /// A registry of at most `max` connections.
    pub fn new(max: usize) -> Self {
        Self {
            by_number: Mutex::default(),
            max,
            refused_count: AtomicU64::default(),
            logical_clock: Arc::default(),
            sweep_count: Arc::default(),
            connection_closed: Notify::default(),
            present_count: AtomicUsize::default(),
        }
    }

    fn lock_connections(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a new connection. `None` if the registry is full and no connection may be cut.
    pub(crate) fn register_connection(&self) -> Option<Arc<Connection>> {
        let full = self.lock_connections().len() >= self.max;
        if full && !self.cut_longest_waiting(Evictable::AnyWaiting) {
            self.refused_count.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let number = self.logical_clock.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            number,
            cut_token: CancellationToken::new(),
            state: Mutex::new(ConnectionState {
                active_requests: 0,
                idle_since: number,
                receiving: None,
                stalled: None,
                reply_guards: Vec::new(),
            }),
            logical_clock: self.logical_clock.clone(),
            sweep_count: self.sweep_count.clone(),
        });
        self.lock_connections().insert(number, connection.clone());
        self.present_count.fetch_add(1, Ordering::Relaxed);
        Some(connection)
    }

    /// Removes a connection that has ended, and releases what its replies hold.
    pub(crate) fn unregister_connection(&self, connection: &Connection) {
        self.lock_connections().remove(&connection.number);
        self.present_count.fetch_sub(1, Ordering::Relaxed);
        connection.release_reply_guards();
        self.connection_closed.notify_waiters();
    }

    /// Cuts the connection that has kept the server waiting longest. Returns false if no connection does.
    pub(crate) fn cut_longest_waiting(&self, evictable: Evictable) -> bool {
        let mut connections = self.lock_connections();
        let waiting = connections.values().filter_map(|connection| {
            Some((connection.waiting_since(evictable)?, connection.number))
        });
        let Some(longest) = waiting.min() else {
            return false;
        };
        if let Some(connection) = connections.remove(&longest.1) {
            connection.cut_token.cancel();
        }
        true
    }

    /// Cuts the connections whose clients have read nothing for [`limits::HTTP_STALL_MAX`]. Must be called once a
    /// second, because it counts sweeps instead of measuring time.
    pub(crate) fn cut_stalled(&self) {
        // One line for all refused connections, so that a flood of them does not fill the log.
        let refused_count = self.refused_count.swap(0, Ordering::Relaxed);
        if refused_count > 0 {
            tracing::warn!(refused_count, "connections were refused: too many are in use");
        }
        let now = self.sweep_count.fetch_add(1, Ordering::Relaxed);
        self.lock_connections().retain(|_, connection| {
            let keep = connection
                .count_stalled_sweeps(now)
                .is_none_or(|sweeps| sweeps < limits::HTTP_STALL_MAX.as_secs());
            if !keep {
                connection.cut_token.cancel();
            }
            keep
        });
    }

    /// Cuts the connections whose request bodies are incomplete: when the server stops, they are not answered.
    pub(crate) fn cut_receiving(&self) {
        let connections = self.lock_connections();
        let receiving = connections.values().filter(|connection| connection.is_receiving());
        receiving.for_each(|connection| connection.cut_token.cancel());
    }

    /// Cuts all connections.
    pub(crate) fn cut_all(&self) {
        self.lock_connections().values().for_each(|connection| connection.cut_token.cancel());
    }

    /// Waits until no connection is registered.
    pub(crate) async fn wait_until_empty(&self) {
        self.wait_until(|| self.lock_connections().is_empty()).await;
    }

    /// Waits while too many connections are present: at least the maximum plus [`limits::HTTP_CUT_MAX`], counting
    /// those that were cut and still have their files open.
    pub(crate) async fn wait_for_capacity(&self) {
        let max_present = self.max + limits::HTTP_CUT_MAX;
        self.wait_until(|| self.present_count.load(Ordering::Relaxed) < max_present).await;
    }

    async fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let closed = self.connection_closed.notified();
            tokio::pin!(closed);
            closed.as_mut().enable();
            if condition() {
                return;
            }
            closed.await;
        }
    }
}

impl Connection {
    fn lock_state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when the server waits for the client, on the logical clock. `None` if the client waits for the server,
    /// or if `evictable` excludes the connection.
    fn waiting_since(&self, evictable: Evictable) -> Option<u64> {
        let state = self.lock_state();
        let stalled = state.stalled.map(|(since, _)| since);
        let receiving = state.receiving.filter(|coming| !coming.is_held_up);
        match evictable {
            Evictable::HoldingBytes(spared) => {
                let receiving_bytes = receiving.filter(|coming| coming.bytes > 0);
                let since = stalled.or(receiving_bytes.map(|coming| coming.since));
                since.filter(|_| self.number != spared)
            }
            Evictable::AnyWaiting => {
                let is_idle = state.active_requests == 0 && state.receiving.is_none();
                let since = stalled.or(receiving.map(|coming| coming.since));
                since.or_else(|| is_idle.then_some(state.idle_since))
            }
        }
    }

    /// Whether a request body is being received.
    fn is_receiving(&self) -> bool {
        self.lock_state().receiving.is_some()
    }

    /// Counts bytes of the body that were received.
    pub(crate) fn count_received_bytes(&self, bytes: usize) {
        if let Some(body) = &mut self.lock_state().receiving {
            body.bytes += bytes;
        }
    }

    /// Records whether the body waits for room in the byte budget.
    pub(crate) fn set_held_up(&self, is_held_up: bool) {
        let now = self.logical_clock.fetch_add(1, Ordering::Relaxed);
        if let Some(body) = &mut self.lock_state().receiving {
            (body.since, body.is_held_up) = (now, is_held_up);
        }
    }

    /// The number of the connection in the registry.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn count_stalled_sweeps(&self, now: u64) -> Option<u64> {
        let (_, since) = self.lock_state().stalled?;
        Some(now.saturating_sub(since))
    }

    /// The token whose cancellation closes the connection.
    pub(crate) fn cut_token(&self) -> &CancellationToken {
        &self.cut_token
    }

    /// Records that a request was read completely. Until the guard is dropped, the client waits for the server.
    pub fn begin_work(self: &Arc<Self>) -> RequestGuard {
        self.lock_state().active_requests += 1;
        RequestGuard(self.clone())
    }

    /// Records that a request body is being received. Until the guard is dropped, the server waits for the client.
    pub(crate) fn begin_receiving(self: &Arc<Self>) -> ReceivingGuard {
        let now = self.logical_clock.fetch_add(1, Ordering::Relaxed);
        self.lock_state().receiving =
            Some(IncomingBody { since: now, bytes: 0, is_held_up: false });
        ReceivingGuard(self.clone())
    }

    /// Keeps the guards of a reply until everything that was given to the connection so far is written.
    pub(crate) fn hold_reply_guards(&self, guards: ReplyGuards) {
        self.lock_state().reply_guards.push(guards);
    }

    /// Records that everything that was given to the connection is written, and releases the guards of its replies.
    fn release_reply_guards(&self) {
        // Dropped after the lock is released, because dropping a `RequestGuard` acquires the lock again.
        let released_guards = std::mem::take(&mut self.lock_state().reply_guards);
        drop(released_guards);
    }

    fn record_write(&self, is_stalled: bool) {
        let mut state = self.lock_state();
        if !is_stalled {
            state.stalled = None;
        } else if state.stalled.is_none() {
            let now = self.logical_clock.fetch_add(1, Ordering::Relaxed);
            state.stalled = Some((now, self.sweep_count.load(Ordering::Relaxed)));
        }
    }
}

/// A request in progress.
#[derive(Debug)]
pub struct RequestGuard(Arc<Connection>);

impl RequestGuard {
    /// The connection of the request.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock_state();
        state.active_requests -= 1;
        if state.active_requests == 0 {
            state.idle_since = self.0.logical_clock.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The guard of a request body that is being received.
#[derive(Debug)]
pub(crate) struct ReceivingGuard(Arc<Connection>);

impl Drop for ReceivingGuard {
    fn drop(&mut self) {
        self.0.lock_state().receiving = None;
    }
}

/// A stream that records whether the client reads what the server writes.
#[derive(Debug)]
pub(crate) struct WatchedStream<S> {
    pub(crate) stream: S,
    pub(crate) connection: Arc<Connection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.connection.record_write(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.connection.record_write(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes only after it has written all it has. So a completed flush means that all replies are written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.connection.release_reply_guards();
        }
        flushed
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
    fn longest_waiting_connection_is_cut() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let make_room = || connections.cut_longest_waiting(Evictable::AnyWaiting);
        let first = connections.register_connection().expect("room");
        let second = connections.register_connection().expect("room");
        let third = connections.register_connection().expect("room");
        // The first connection had a request in the meantime, so it has been idle for a shorter time than the second.
        drop(first.begin_work());
        let busy = third.begin_work();
        assert!(make_room());
        assert!(second.cut_token().is_cancelled() && !first.cut_token().is_cancelled());
        assert!(make_room());
        assert!(first.cut_token().is_cancelled());
        assert!(!make_room(), "a client that waits is not cut");
        drop(busy);
        assert!(make_room());
        assert!(third.cut_token().is_cancelled());
    }

    #[test]
    fn only_holders_of_bytes_are_cut_for_bytes() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let idle = connections.register_connection().expect("room");
        let sends = connections.register_connection().expect("room");
        let stalls = connections.register_connection().expect("room");
        let asks = connections.register_connection().expect("room");
        let _asking = asks.begin_receiving();
        stalls.record_write(true);
        let sending = sends.begin_receiving();
        asks.count_received_bytes(1);
        sends.count_received_bytes(1);
        let make_room = || connections.cut_longest_waiting(Evictable::HoldingBytes(asks.number()));
        assert!(make_room());
        assert!(stalls.cut_token().is_cancelled() && !sends.cut_token().is_cancelled());
        assert!(make_room());
        assert!(sends.cut_token().is_cancelled());
        drop(sending);
        assert!(!make_room());
        assert!(!idle.cut_token().is_cancelled() && !asks.cut_token().is_cancelled());
    }

    #[tokio::test]
    async fn reply_counts_until_it_is_written() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let budget = Arc::new(crate::budget::Budget::default());
        let connection = connections.register_connection().expect("room");
        let bytes = crate::budget::BudgetKind::Bytes;
        let idle =
            |connection: &Connection| connection.waiting_since(Evictable::AnyWaiting).is_some();
        let reply = || (Some(connection.begin_work()), budget.count_share(bytes, 10));
        connection.hold_reply_guards(reply());
        assert!(!idle(&connection), "its client takes it");
        let (near, _far) = tokio::io::duplex(8);
        let mut watched = WatchedStream { stream: near, connection: connection.clone() };
        watched.flush().await.expect("flushed");
        assert!(idle(&connection));
        assert_eq!(budget.used_amount(bytes), 0);
        connection.hold_reply_guards(reply());
        assert_eq!(budget.used_amount(bytes), 10);
        connections.unregister_connection(&connection);
        assert_eq!(budget.used_amount(bytes), 0, "nobody will take it any more");
    }

    #[test]
    fn idle_connections_are_cut_and_busy_ones_stay() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let busy: Vec<_> = (0..limits::HTTP_CONNECTIONS_MAX - 1)
            .map(|_| connections.register_connection().expect("room").begin_work())
            .collect();
        let idle = connections.register_connection().expect("the last place");
        let last = connections.register_connection().expect("the idle one's place");
        assert!(idle.cut_token().is_cancelled());
        let working = last.begin_work();
        assert!(connections.register_connection().is_none(), "all are busy");
        drop((busy, working));
        assert!(connections.register_connection().is_some());
    }

    #[tokio::test]
    async fn clients_that_read_nothing_are_cut() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let connection = connections.register_connection().expect("room");
        let working = connection.begin_work();
        let (near, mut far) = tokio::io::duplex(8);
        let mut watched = WatchedStream { stream: near, connection: connection.clone() };
        let writing = tokio::spawn(async move { watched.write_all(&[0; 20]).await });
        while connection.waiting_since(Evictable::AnyWaiting).is_none() {
            tokio::task::yield_now().await;
        }
        for _ in 0..limits::HTTP_STALL_MAX.as_secs() {
            connections.cut_stalled();
        }
        assert!(!connection.cut_token().is_cancelled());
        let mut taken = [0; 20];
        far.read_exact(&mut taken).await.expect("all of it");
        writing.await.expect("no panic").expect("written");
        assert_eq!(
            connection.waiting_since(Evictable::AnyWaiting),
            None,
            "it has taken everything"
        );
        connection.record_write(true);
        for _ in 0..=limits::HTTP_STALL_MAX.as_secs() {
            assert!(!connection.cut_token().is_cancelled());
            connections.cut_stalled();
        }
        assert!(connection.cut_token().is_cancelled());
        drop(working);
    }

    #[test]
    fn new_connections_wait_until_cut_ones_leave() {
        let connections = Connections::new(1);
        let mut inside: Vec<_> = (0..limits::HTTP_CUT_MAX)
            .map(|_| connections.register_connection().expect("room is made"))
            .collect();
        assert!(tokio_test::task::spawn(connections.wait_for_capacity()).poll().is_ready());
        inside.push(connections.register_connection().expect("room is made"));
        let mut settled = tokio_test::task::spawn(connections.wait_for_capacity());
        assert!(settled.poll().is_pending());
        connections.unregister_connection(&inside[0]);
        assert!(settled.is_woken() && settled.poll().is_ready());
    }
}
