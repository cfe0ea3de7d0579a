//! The connections of all HTTP clients, and which of them keep the server waiting: one that sends nothing, sends
//! a body bit by bit, or takes no reply. Where there is no room for another, the one that has waited longest goes.

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

use super::budget::Share;
use midex_domain::limits;

/// Every connection, by number.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    /// How many there may be.
    max: usize,
    /// Connections that were refused since the last look.
    refused: AtomicU64,
    /// Orders what happens; also the next number.
    moments: Arc<AtomicU64>,
    /// How often [`Connections::sweep`] has looked.
    sweeps: Arc<AtomicU64>,
    left: Notify,
    /// How many have not let go of their files yet, those that were cut included.
    present: AtomicUsize,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
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
    /// Since when it has had none of those.
    idle_since: u64,
    /// The body of a request that is coming.
    receiving: Option<IncomingBody>,
    /// Since when it takes nothing of what is to be written, and the sweeps until then.
    stalled: Option<(u64, u64)>,
    /// Replies, and pieces of them, that are on their way to the client.
    leaving: Vec<Leaving>,
}

/// A body that is coming.
#[derive(Clone, Copy, Debug)]
struct IncomingBody {
    since: u64,
    /// What has come of it.
    bytes: usize,
    /// Whether it waits for room, and so for the server.
    is_held_up: bool,
}

/// What a reply or a piece of one holds until it is written: hyper has all of it long before.
pub(crate) type Leaving = (Option<Work>, Share);

/// Who may have to make room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Evictable {
    /// Every client that keeps the server waiting, be it that it says nothing.
    AllThatWait,
    /// Those that hold bytes meanwhile: of a body that comes slowly, or of a reply that they do not take. The one
    /// with this number is spared: it asks for the room.
    ThoseWithBytes(u64),
}

impl Connections {
    /// With room for so many.
    pub fn new(max: usize) -> Self {
        Self {
            open: Mutex::default(),
            max,
            refused: AtomicU64::default(),
            moments: Arc::default(),
            sweeps: Arc::default(),
            left: Notify::default(),
            present: AtomicUsize::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets another connection in; `None` where there is no room and none that could be made.
    pub(crate) fn enter(&self) -> Option<Arc<Connection>> {
        let full = self.open().len() >= self.max;
        if full && !self.make_room(Evictable::AllThatWait) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let number = self.moments.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            number,
            cut: CancellationToken::new(),
            state: Mutex::new(State {
                working: 0,
                idle_since: number,
                receiving: None,
                stalled: None,
                leaving: Vec::new(),
            }),
            moments: self.moments.clone(),
            sweeps: self.sweeps.clone(),
        });
        self.open().insert(number, connection.clone());
        self.present.fetch_add(1, Ordering::Relaxed);
        Some(connection)
    }

    /// The connection has ended.
    pub(crate) fn leave(&self, connection: &Connection) {
        self.open().remove(&connection.number);
        self.present.fetch_sub(1, Ordering::Relaxed);
        connection.written();
        self.left.notify_waiters();
    }

    /// Cuts the connection that has kept the server waiting longest; false where none does.
    pub(crate) fn make_room(&self, among: Evictable) -> bool {
        let mut open = self.open();
        let waiting = open
            .values()
            .filter_map(|connection| Some((connection.waits_since(among)?, connection.number)));
        let Some(longest) = waiting.min() else {
            return false;
        };
        if let Some(connection) = open.remove(&longest.1) {
            connection.cut.cancel();
        }
        true
    }

    /// Cuts whoever takes nothing for too long. To be called once a second.
    pub(crate) fn sweep(&self) {
        // One line for all of them: whoever knocks ten thousand times does not fill the log.
        let refused = self.refused.swap(0, Ordering::Relaxed);
        if refused > 0 {
            tracing::warn!(refused, "connections were refused: too many are in use");
        }
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

    /// Ends those whose requests have not come to their end: they will not be answered any more.
    pub(crate) fn cut_receiving(&self) {
        let open = self.open();
        let coming = open.values().filter(|connection| connection.is_receiving());
        coming.for_each(|connection| connection.cut.cancel());
    }

    /// Ends all of them at once.
    pub(crate) fn cut_all(&self) {
        self.open()
            .values()
            .for_each(|connection| connection.cut.cancel());
    }

    /// Waits until none is left.
    pub(crate) async fn empty(&self) {
        self.once(|| self.open().is_empty()).await;
    }

    /// Waits until no more than a few of those that were cut still have to let go of their files.
    pub(crate) async fn settled(&self) {
        let most = self.max + limits::HTTP_CUT_MAX;
        self.once(|| self.present.load(Ordering::Relaxed) < most)
            .await;
    }

    async fn once(&self, is_so: impl Fn() -> bool) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if is_so() {
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
    fn waits_since(&self, among: Evictable) -> Option<u64> {
        let state = self.state();
        let stalled = state.stalled.map(|(since, _)| since);
        let coming = state.receiving.filter(|coming| !coming.is_held_up);
        match among {
            Evictable::ThoseWithBytes(spared) => {
                let with_bytes = coming.filter(|coming| coming.bytes > 0);
                let since = stalled.or(with_bytes.map(|coming| coming.since));
                since.filter(|_| self.number != spared)
            }
            Evictable::AllThatWait => {
                let is_idle = state.working == 0 && state.receiving.is_none();
                let since = stalled.or(coming.map(|coming| coming.since));
                since.or_else(|| is_idle.then_some(state.idle_since))
            }
        }
    }

    /// Whether the body of a request is coming.
    fn is_receiving(&self) -> bool {
        self.state().receiving.is_some()
    }

    /// So many bytes of the body have come.
    pub(crate) fn received(&self, bytes: usize) {
        if let Some(coming) = &mut self.state().receiving {
            coming.bytes += bytes;
        }
    }

    /// Whether the body waits for room.
    pub(crate) fn hold_up(&self, is_held_up: bool) {
        let now = self.moments.fetch_add(1, Ordering::Relaxed);
        if let Some(coming) = &mut self.state().receiving {
            (coming.since, coming.is_held_up) = (now, is_held_up);
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn stalled_sweeps(&self, now: u64) -> Option<u64> {
        let (_, since) = self.state().stalled?;
        Some(now.saturating_sub(since))
    }

    /// Cancelled once it must end.
    pub(crate) fn cut(&self) -> &CancellationToken {
        &self.cut
    }

    /// A request has been read to its end. Until the guard is dropped, the client waits for the server.
    pub fn work(self: &Arc<Self>) -> Work {
        self.state().working += 1;
        Work(self.clone())
    }

    /// The body of a request comes. Until the guard is dropped, the server waits for it.
    pub(crate) fn receive(self: &Arc<Self>) -> Receiving {
        let now = self.moments.fetch_add(1, Ordering::Relaxed);
        self.state().receiving = Some(IncomingBody {
            since: now,
            bytes: 0,
            is_held_up: false,
        });
        Receiving(self.clone())
    }

    /// Keeps what a reply holds until everything that was given to the connection so far is written.
    pub(crate) fn hold(&self, leaving: Leaving) {
        self.state().leaving.push(leaving);
    }

    /// Everything that was given to the connection is written.
    fn written(&self) {
        // Dropped without the lock: the end of work takes it.
        let written = std::mem::take(&mut self.state().leaving);
        drop(written);
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

/// A request in work.
#[derive(Debug)]
pub struct Work(Arc<Connection>);

impl Work {
    /// The connection it came by.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.working -= 1;
        if state.working == 0 {
            state.idle_since = self.0.moments.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A body that comes.
#[derive(Debug)]
pub(crate) struct Receiving(Arc<Connection>);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.state().receiving = None;
    }
}

/// A stream that notes whether its client takes what is written.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    pub(crate) stream: S,
    pub(crate) connection: Arc<Connection>,
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

    /// hyper flushes once it has written all it had, and not before.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.connection.written();
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
    fn the_one_that_keeps_the_server_waiting_longest_makes_room() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let make_room = || connections.make_room(Evictable::AllThatWait);
        let first = connections.enter().expect("room");
        let second = connections.enter().expect("room");
        let third = connections.enter().expect("room");
        // The first has worked since, so it has been idle for a shorter time.
        drop(first.work());
        let busy = third.work();
        assert!(make_room());
        assert!(second.cut().is_cancelled() && !first.cut().is_cancelled());
        assert!(make_room());
        assert!(first.cut().is_cancelled());
        assert!(!make_room(), "a client that waits is not cut");
        drop(busy);
        assert!(make_room());
        assert!(third.cut().is_cancelled());
    }

    #[test]
    fn room_for_bytes_is_made_by_those_that_hold_some_and_not_by_who_asks() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let idle = connections.enter().expect("room");
        let sends = connections.enter().expect("room");
        let stalls = connections.enter().expect("room");
        let asks = connections.enter().expect("room");
        let _asking = asks.receive();
        stalls.wrote(true);
        let sending = sends.receive();
        asks.received(1);
        sends.received(1);
        let make_room = || connections.make_room(Evictable::ThoseWithBytes(asks.number()));
        assert!(make_room());
        assert!(stalls.cut().is_cancelled() && !sends.cut().is_cancelled());
        assert!(make_room());
        assert!(sends.cut().is_cancelled());
        drop(sending);
        assert!(!make_room());
        assert!(!idle.cut().is_cancelled() && !asks.cut().is_cancelled());
    }

    #[tokio::test]
    async fn a_reply_counts_until_it_is_written() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let budget = Arc::new(crate::budget::Budget::default());
        let connection = connections.enter().expect("room");
        let bytes = crate::budget::Kind::Bytes;
        let idle =
            |connection: &Connection| connection.waits_since(Evictable::AllThatWait).is_some();
        let reply = || (Some(connection.work()), budget.count(bytes, 10));
        connection.hold(reply());
        assert!(!idle(&connection), "its client takes it");
        let (near, _far) = tokio::io::duplex(8);
        let mut watched = Watched {
            stream: near,
            connection: connection.clone(),
        };
        watched.flush().await.expect("flushed");
        assert!(idle(&connection));
        assert_eq!(budget.taken(bytes), 0);
        connection.hold(reply());
        assert_eq!(budget.taken(bytes), 10);
        connections.leave(&connection);
        assert_eq!(budget.taken(bytes), 0, "nobody will take it any more");
    }

    #[test]
    fn past_the_limit_the_idle_go_and_the_busy_stay() {
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
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
        let connections = Connections::new(limits::HTTP_CONNECTIONS_MAX);
        let connection = connections.enter().expect("room");
        let working = connection.work();
        let (near, mut far) = tokio::io::duplex(8);
        let mut watched = Watched {
            stream: near,
            connection: connection.clone(),
        };
        let writing = tokio::spawn(async move { watched.write_all(&[0; 20]).await });
        while connection.waits_since(Evictable::AllThatWait).is_none() {
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
            connection.waits_since(Evictable::AllThatWait),
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

    #[test]
    fn whoever_knocks_faster_than_the_cut_ones_leave_waits() {
        let connections = Connections::new(1);
        let mut inside: Vec<_> = (0..limits::HTTP_CUT_MAX)
            .map(|_| connections.enter().expect("room is made"))
            .collect();
        assert!(
            tokio_test::task::spawn(connections.settled())
                .poll()
                .is_ready()
        );
        inside.push(connections.enter().expect("room is made"));
        let mut settled = tokio_test::task::spawn(connections.settled());
        assert!(settled.poll().is_pending());
        connections.leave(&inside[0]);
        assert!(settled.is_woken() && settled.poll().is_ready());
    }
}
