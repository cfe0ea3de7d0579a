//! A connection to the database that is slow, comes in pieces, or ends: a proxy on loopback.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use midex_test::long::Dice;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

/// How slow a connection is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowness {
    /// The longest time that a piece waits.
    pub(crate) delay_max: Duration,
    /// The longest piece that is passed on at once.
    pub(crate) piece_max: usize,
}

/// The proxy. It ends when it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    is_frozen: watch::Sender<bool>,
    cuts: Arc<Cuts>,
    accepting: JoinHandle<()>,
}

/// The connections that the proxy ends.
#[derive(Debug, Default)]
struct Cuts {
    /// One of so many pieces ends its connection; none if this is 0.
    one_of: AtomicU64,
    count: AtomicU64,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// A proxy in front of the database at this address.
    pub(crate) async fn start(database: SocketAddr, slowness: Slowness, seed: u64) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), database, slowness, seed).await
    }

    /// The same, where clients expect it.
    pub(crate) async fn start_at(
        listen: SocketAddr,
        database: SocketAddr,
        slowness: Slowness,
        seed: u64,
    ) -> Self {
        let listener = TcpListener::bind(listen).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_frozen, frozen) = watch::channel(false);
        let cuts = Arc::<Cuts>::default();
        let counted = cuts.clone();
        let accepting = tokio::spawn(async move {
            let mut dice = Dice(seed);
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(database).await.unwrap();
                for stream in [&near, &far] {
                    stream.set_nodelay(true).unwrap();
                }
                let ((near_read, near_write), (far_read, far_write)) =
                    (near.into_split(), far.into_split());
                let is_cut = Arc::<AtomicBool>::default();
                let mut pipe = |read, write| {
                    let seed = dice.roll(u64::from(u32::MAX));
                    let (dice, is_cut) = (Dice(seed), is_cut.clone());
                    Pipe { read, write, slowness, dice, is_cut, cuts: counted.clone() }
                };
                let pipes = [pipe(near_read, far_write), pipe(far_read, near_write)];
                for pipe in pipes {
                    tokio::spawn(pipe.run(frozen.clone()));
                }
            }
        });
        Self { address, is_frozen, cuts, accepting }
    }

    /// Lets one of so many pieces end its connection, or none if this is 0.
    pub(crate) fn cut_one_of(&self, pieces: u64) {
        self.cuts.one_of.store(pieces, Ordering::Relaxed);
    }

    /// The number of connections that were ended.
    pub(crate) fn count_cuts(&self) -> u64 {
        self.cuts.count.load(Ordering::Relaxed)
    }

    /// Stops forwarding on all connections without closing them, or resumes.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.is_frozen.send_replace(is_frozen);
    }
}

/// One direction of a connection.
struct Pipe {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    slowness: Slowness,
    dice: Dice,
    /// Whether both directions have ended.
    is_cut: Arc<AtomicBool>,
    cuts: Arc<Cuts>,
}

impl Pipe {
    async fn run(mut self, mut frozen: watch::Receiver<bool>) {
        let mut piece = vec![0; self.slowness.piece_max];
        while let Ok(length @ 1..) = self.read.read(&mut piece).await {
            if let delay_max @ 1.. = u64::try_from(self.slowness.delay_max.as_micros()).unwrap() {
                tokio::time::sleep(Duration::from_micros(self.dice.roll(delay_max))).await;
            }
            if frozen.wait_for(|is_frozen| !is_frozen).await.is_err() {
                return;
            }
            let one_of = self.cuts.one_of.load(Ordering::Relaxed);
            let is_cut = one_of > 0 && self.dice.roll(one_of) == 0;
            if is_cut && !self.is_cut.swap(true, Ordering::Relaxed) {
                self.cuts.count.fetch_add(1, Ordering::Relaxed);
            }
            let is_cut = self.is_cut.load(Ordering::Relaxed);
            if is_cut || self.write.write_all(&piece[..length]).await.is_err() {
                return;
            }
        }
    }
}
