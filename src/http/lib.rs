//! HTTP for midex (internal: no semver promise).
//!
//! HTTP/1 on a listener: connections, bodies, who is let in, and how much of everything there may be at once. What
//! the requests ask for is a [`Service`]'s business. `http` and `hyper` are named here and in `mcp`.

pub mod access;
pub mod body;
pub mod budget;
pub mod connections;
mod origin;
pub mod refusal;
pub mod room;
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
    connections::{Connection, Connections, Evictable, Watched},
    refusal::Reply,
    room::Room,
};
pub use self::{origin::Host, token::BearerToken};
use midex_domain::{
    clock::{IdSource, SystemIds},
    error::{Error, Result},
    limits,
};

/// Who is let in.
#[derive(Clone, Debug)]
pub struct Options {
    /// What every request must carry; `None` lets everybody in who can connect.
    pub token: Option<BearerToken>,
    /// Names by which requests may call this server, besides those of the loopback and the address it listens on.
    pub hosts: Vec<Host>,
    /// Connections at once; [`limits::HTTP_CONNECTIONS_MAX`], or fewer where the process may not open so many files.
    pub connections_max: usize,
    /// Bytes of calls in work and of replies not taken; [`limits::HTTP_BYTES_MAX`].
    pub bytes_max: usize,
    /// Whether handlers answer calls of tools without a session directly. For handlers that send their client nothing
    /// else during a call, unless it asks for progress, and whose tools take no parameters out of headers.
    pub direct_calls: bool,
    /// Randomness, for correlation ids.
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

/// What answers the requests of a server.
pub trait Service: Send + Sync + 'static {
    /// The room that its requests and replies take.
    fn room(&self) -> &Room;

    /// Answers one request.
    fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> impl Future<Output = Response<Reply>> + Send;

    /// Ends the replies that would go on for ever: the server stops.
    fn end_streams(&self);

    /// Gives up what nobody uses. Called once a second.
    fn sweep(&self) -> impl Future<Output = ()> + Send;
}

/// Serves whoever connects until `stop` is cancelled. Calls in work are answered first, then streams end, each within
/// its time.
///
/// # Errors
/// `INTERNAL` where what looks after the clients panicked.
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
    let mut caretaker = tokio::spawn(sweep(server.clone()));
    let outcome = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = accept(&server, &listener) => Ok(()),
        // It ends for nothing but a panic; without it nobody would be cut any more.
        _ = &mut caretaker => Err(Error::internal("HTTP is served no more: looking after its clients panicked")),
    };
    drop(listener);
    server.close().await;
    caretaker.abort();
    outcome
}

struct Server<S> {
    service: S,
    /// No connection takes another request.
    closing: CancellationToken,
    clients: TaskTracker,
}

impl<S: Service> Server<S> {
    fn connections(&self) -> &Connections {
        &self.service.room().connections
    }

    async fn close(&self) {
        self.closing.cancel();
        self.connections().cut_receiving();
        let _ = tokio::time::timeout(limits::HTTP_GRACE, self.service.room().budget.idle()).await;
        self.service.end_streams();
        let _ = tokio::time::timeout(limits::HTTP_GRACE, self.connections().empty()).await;
        self.connections().cut_all();
        self.clients.close();
        self.clients.wait().await;
    }
}

async fn accept<S: Service>(server: &Arc<Server<S>>, listener: &TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let_in(server, stream);
                // Whoever knocks faster than the cut ones leave waits outside: files may be few.
                server.connections().settled().await;
            }
            // Out of file descriptors, say.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                server.connections().make_room(Evictable::AllThatWait);
                tokio::time::sleep(limits::STORE_RETRY_EVERY).await;
            }
        }
    }
}

/// Leaves when it is dropped, so after a panic too.
struct ConnectionGuard<S: Service>(Arc<Server<S>>, Arc<Connection>);

impl<S: Service> Drop for ConnectionGuard<S> {
    fn drop(&mut self) {
        self.0.connections().leave(&self.1);
    }
}

fn let_in<S: Service>(server: &Arc<Server<S>>, stream: TcpStream) {
    let Some(connection) = server.connections().enter() else {
        return;
    };
    // Without it every answer in several pieces waits for the other side's acknowledgement, some 40 ms.
    let _ = stream.set_nodelay(true);
    let guard = ConnectionGuard(server.clone(), connection);
    server
        .clients
        .spawn(async move { attend(&guard.0, stream, &guard.1).await });
}

async fn attend<S: Service>(
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
    let stream = Watched {
        stream,
        connection: connection.clone(),
    };
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HTTP_HEAD_MAX)
        .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
        .max_header_size(limits::HTTP_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let cut = connection.cut();
    tokio::select! {
        _ = serving.as_mut() => return,
        () = cut.cancelled() => return,
        () = server.closing.cancelled() => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = cut.run_until_cancelled(serving).await;
}

async fn sweep<S: Service>(server: Arc<Server<S>>) {
    let mut every = tokio::time::interval(limits::HTTP_SWEEP_EVERY);
    // A process that was halted looks once when it goes on: its clients have not had the time that has passed.
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        server.connections().sweep();
        server.service.sweep().await;
    }
}
