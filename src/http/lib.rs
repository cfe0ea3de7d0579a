//! HTTP for midex (internal: no semver promise).
//!
//! Serves an axum [`Router`] on a listener, with limits on connections, heads, bodies and replies, and checks who may
//! call it. Only this crate uses `axum`, `hyper` and `tower`.

pub mod access;
pub mod body;
pub mod budget;
mod origin;
pub mod refusal;
mod token;
pub mod web;

use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower_http::limit::RequestBodyLimitLayer;

pub use self::{origin::Host, token::BearerToken};
pub use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    response::Response,
    routing::any,
};
use midex_domain::limits;

/// Serves `router` on at most `connections_max` connections until `stop` is cancelled; further clients wait until they
/// are accepted. Then requests in progress are answered, for at most twice [`limits::HTTP_GRACE`].
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stop: CancellationToken,
) {
    let handshake = |stream| std::future::ready(Some(stream));
    serve_with_handshake(listener, router, connections_max, stop, handshake).await;
}

/// Like [`serve`], over the streams that `handshake` makes of connections, such as encrypted ones. A connection of which it
/// makes none within [`limits::HTTP_HEAD_MAX`] is closed.
pub async fn serve_with_handshake<S, F>(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stop: CancellationToken,
    handshake: impl Fn(ClientStream) -> F,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Option<S>> + Send + 'static,
{
    let body_bytes_max = limits::FRAME_BYTES_MAX + limits::HTTP_DROPPED_BYTES_MAX;
    let service =
        TowerToHyperService::new(router.layer(RequestBodyLimitLayer::new(body_bytes_max)));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HTTP_HEAD_MAX)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_header_size(limits::HTTP_HEAD_BYTES_MAX);
    let slots = Arc::new(Semaphore::new(connections_max));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    while let Some((stream, slot)) = stop.run_until_cancelled(accept(&listener, &slots)).await {
        let (builder, service, watcher) = (builder.clone(), service.clone(), graceful.watcher());
        let stream = tokio::time::timeout(limits::HTTP_HEAD_MAX, handshake(stream));
        connections.spawn(async move {
            let _slot = slot;
            if let Ok(Some(stream)) = stream.await {
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                // Ignore the error: the client broke the protocol, or disconnected.
                let _ = watcher.watch(connection).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let _ = tokio::time::timeout(2 * limits::HTTP_GRACE, graceful.shutdown()).await;
    connections.shutdown().await;
}

/// A connection of a client.
pub type ClientStream = std::pin::Pin<Box<TimeoutStream<TcpStream>>>;

/// A connection that fails once its client has read nothing for [`limits::HTTP_STALL_MAX`], and its slot.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (ClientStream, Option<OwnedSemaphorePermit>) {
    // The slot comes first, so that no more files are open than there are slots. The semaphore is never closed.
    let slot = slots.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // With Nagle's algorithm, a reply of several writes would wait for the client's acknowledgement, for
                // about 40 ms.
                let _ = stream.set_nodelay(true);
                let mut stream = TimeoutStream::new(stream);
                stream.set_write_timeout(Some(limits::HTTP_STALL_MAX));
                return (Box::pin(stream), slot);
            }
            // For example, the process is out of file descriptors.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(limits::STORE_RETRY_EVERY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::Instant,
    };

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the paused clock of a test")]
    fn now() -> Instant {
        Instant::now()
    }

    /// Serves one connection at a time, and connects this many clients.
    async fn connect<const N: usize>(stop: &CancellationToken) -> ([TcpStream; N], JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let large_reply = || async { vec![0_u8; 64 << 20] };
        let router = Router::new().route("/", any(async || "x")).route("/large", any(large_reply));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, 1, stop.clone()));
        let mut clients = Vec::new();
        for _ in 0..N {
            clients.push(TcpStream::connect(address).await.expect("it listens"));
        }
        (clients.try_into().expect("all"), serving)
    }

    async fn assert_answered(client: &mut TcpStream) {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
        let mut status = [0; 12];
        client.read_exact(&mut status).await.expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 200");
    }

    #[tokio::test(start_paused = true)]
    async fn silent_client_gives_up_its_place_in_time() {
        let (stop, start) = (CancellationToken::new(), now());
        let ([mut half, mut other], mut serving) = connect(&stop).await;
        half.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("sent");
        assert_answered(&mut other).await;
        assert_eq!(start.elapsed().as_secs(), limits::HTTP_HEAD_MAX.as_secs());
        let _ = half.read_to_end(&mut Vec::new()).await;
        stop.cancel();
        serving.join_next().await;
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_nothing_gives_up_its_place_in_time() {
        let (stop, start) = (CancellationToken::new(), now());
        let ([mut deaf, mut other], _serving) = connect(&stop).await;
        deaf.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
        assert_answered(&mut other).await;
        assert!(start.elapsed() >= limits::HTTP_STALL_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_stops_lets_its_clients_go() {
        let stop = CancellationToken::new();
        let ([mut client, mut waiting], mut serving) = connect(&stop).await;
        assert_answered(&mut client).await;
        stop.cancel();
        serving.join_next().await.expect("it serves").expect("no panic");
        for client in [&mut client, &mut waiting] {
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
    }
}
