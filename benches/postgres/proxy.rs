//! A proxy that delays what goes through it.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::Instant,
};
use tokio_postgres::{Config, config::Host};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Starts a proxy before the database, which delays each direction by `delay`. Returns the address of the database behind it.
pub(crate) async fn start(url: &str, delay: Duration) -> String {
    let config: Config = url.parse().expect("an address");
    let Some(Host::Tcp(host)) = config.get_hosts().first().cloned() else {
        panic!("the database is reached by TCP");
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own_port = listener.local_addr().expect("an address").port();
    let target = format!("{host}:{port}");
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(&target).await.expect("a database");
            for stream in [&near, &far] {
                stream.set_nodelay(true).expect("a socket");
            }
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(pass_on(near_in, far_out, delay));
            tokio::spawn(pass_on(far_in, near_out, delay));
        }
    });
    let user = config.get_user().unwrap_or("postgres");
    let database = config.get_dbname().unwrap_or("postgres");
    format!("postgres://{user}@127.0.0.1:{own_port}/{database}")
}

/// Passes everything on in its order, each piece so long after it came.
async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (pieces, mut delayed) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let write = async move {
        while let Some((due, piece)) = delayed.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    let read = async move {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match from.read(&mut piece).await {
                Ok(count) if count > 0 => {
                    if pieces.send((Instant::now() + delay, piece[..count].to_vec())).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    };
    tokio::join!(write, read);
}
