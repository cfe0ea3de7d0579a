//! HTTP for midex (internal: no semver promise).
//!
//! An HTTP/1 server on a listener: connections, bodies, access control, and limits on what all clients together may
//! use. A [`Service`] handles the requests. Only this crate and `mcp` use `http` and `hyper`.

pub mod access;
pub mod body;
pub mod budget;
pub mod connections;
pub mod memory;
mod origin;
pub mod refusal;
mod token;

use std::sync::Arc;

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    time::MissedTickBehavior,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    connections::{Connection, Connections, Evictable, WatchedStream},
    memory::MemoryBudget,
    refusal::Reply,
};
pub use self::{origin::Host, token::BearerToken};
use midex_domain::{
    clock::{IdSource, SystemIds},
    error::{Error, Result},
    limits,
};

/// Access control and limits of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bearer token that every request must carry; `None` admits every client that can connect.
    pub token: Option<BearerToken>,
    /// Additional host names of this server, besides the loopback names and the address it listens on.
    pub hosts: Vec<Host>,
    /// The maximum number of open connections: [`limits::HTTP_CONNECTIONS_MAX`], or less if the process may not open
    /// so many files.
    pub connections_max: usize,
    /// The maximum number of bytes of calls in progress and of replies that clients have not received yet; by default
    /// [`limits::HTTP_BYTES_MAX`].
    pub bytes_max: usize,
    /// Whether the handler answers tool calls outside of a session directly, without a service for each request.
    /// Requires a handler that sends its client nothing else during a call, except progress that the client asked
    /// for, and whose tools take no parameters from headers.
    pub direct_calls: bool,
    /// The source of randomness for correlation ids.
    pub ids: Arc<dyn IdSource>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            hosts: Vec::new(),
            connections_max: limits::HTTP_CONNECTIONS_MAX,
            bytes_max: limits::HTTP_BYTES_MAX,
            direct_calls: false,
            ids: Arc::new(SystemIds),
        }
    }
}

/// Handles the requests of a server.
pub trait Service: Send + Sync + 'static {
    /// The byte budget and the connections, which all requests and replies share.
    fn memory_budget(&self) -> &MemoryBudget;

    /// Answers one request.
    fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> impl Future<Output = Response<Reply>> + Send;

    /// Ends the replies that have no end otherwise, such as event streams. Called when the server stops.
    fn end_streams(&self);

    /// Frees what is no longer used, such as idle sessions. Called every [`limits::HTTP_SWEEP_EVERY`].
    fn free_unused(&self) -> impl Future<Output = ()> + Send;
}

/// Serves connections until `stop` is cancelled. Then calls in progress are answered, and after that open streams
/// end. Each of these two phases takes at most [`limits::HTTP_GRACE`].
///
/// # Errors
/// `INTERNAL` if the sweep task panicked.
pub async fn serve(
    listener: TcpListener,
    service: impl Service,
    stop: CancellationToken,
) -> Result<()> {
    let server = Arc::new(Server {
        service,
        closing: CancellationToken::new(),
        clients: TaskTracker::new(),
    });
    let mut sweep_task = tokio::spawn(sweep_periodically(server.clone()));
    let outcome = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = accept_connections(&server, &listener) => Ok(()),
        // The sweep task ends only by a panic. Without it, stalled connections would never be cut, so the server
        // stops.
        _ = &mut sweep_task => Err(Error::internal("HTTP is served no more: looking after its clients panicked")),
    };
    drop(listener);
    server.close_server().await;
    sweep_task.abort();
    outcome
}

struct Server<S> {
    service: S,
    /// Cancelled when the server stops: connections then accept no further requests.
    closing: CancellationToken,
    clients: TaskTracker,
}

impl<S: Service> Server<S> {
    fn connections(&self) -> &Connections {
        &self.service.memory_budget().connections
    }

    async fn close_server(&self) {
        self.closing.cancel();
        self.connections().cut_receiving();
        let _ = tokio::time::timeout(
            limits::HTTP_GRACE,
            self.service.memory_budget().budget.wait_until_idle(),
        )
        .await;
        self.service.end_streams();
        let _ =
            tokio::time::timeout(limits::HTTP_GRACE, self.connections().wait_until_empty()).await;
        self.connections().cut_all();
        self.clients.close();
        self.clients.wait().await;
    }
}

async fn accept_connections<S: Service>(server: &Arc<Server<S>>, listener: &TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                spawn_connection(server, stream);
                // Connections that were cut to make room may still hold their files. Accepts no further connection
                // until most of them are closed, because the process may run out of file descriptors.
                server.connections().wait_for_capacity().await;
            }
            // For example, the process is out of file descriptors.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                server.connections().cut_longest_waiting(Evictable::AnyWaiting);
                tokio::time::sleep(limits::STORE_RETRY_EVERY).await;
            }
        }
    }
}

/// Removes the connection from the registry on drop, and so after a panic too.
struct ConnectionGuard<S: Service>(Arc<Server<S>>, Arc<Connection>);

impl<S: Service> Drop for ConnectionGuard<S> {
    fn drop(&mut self) {
        self.0.connections().unregister_connection(&self.1);
    }
}

fn spawn_connection<S: Service>(server: &Arc<Server<S>>, stream: TcpStream) {
    let Some(connection) = server.connections().register_connection() else {
        return;
    };
    // With Nagle's algorithm, a reply of several writes would wait for the client's acknowledgement, for about 40 ms.
    let _ = stream.set_nodelay(true);
    let guard = ConnectionGuard(server.clone(), connection);
    server.clients.spawn(async move { serve_connection(&guard.0, stream, &guard.1).await });
}

async fn serve_connection<S: Service>(
    server: &Arc<Server<S>>,
    stream: TcpStream,
    connection: &Arc<Connection>,
) {
    let service = service_fn(|request| {
        let (server, connection) = (server.clone(), connection.clone());
        async move {
            Ok::<_, std::convert::Infallible>(server.service.respond(request, &connection).await)
        }
    });
    let stream = WatchedStream { stream, connection: connection.clone() };
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HTTP_HEAD_MAX)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_header_size(limits::HTTP_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let cut = connection.cut_token();
    tokio::select! {
        _ = serving.as_mut() => return,
        () = cut.cancelled() => return,
        () = server.closing.cancelled() => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = cut.run_until_cancelled(serving).await;
}

async fn sweep_periodically<S: Service>(server: Arc<Server<S>>) {
    let mut interval = tokio::time::interval(limits::HTTP_SWEEP_EVERY);
    // After the process was suspended, sweep once instead of catching up: the clients did not have the time that has
    // passed.
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        server.connections().cut_stalled();
        server.service.free_unused().await;
    }
}
