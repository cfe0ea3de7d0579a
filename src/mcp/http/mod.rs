//! Streamable HTTP at `/mcp`, for both eras of the protocol. rmcp speaks it; here stands what rmcp leaves open:
//! who is let in, how much of everything there may be at once, and answers that are errors of ours throughout.
//! `http` and `hyper` are named in `mcp` alone.

mod body;
mod budget;
mod connections;
mod endpoint;
mod origin;
mod refusal;
mod room;
mod sessions;
mod token;

use std::sync::Arc;

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use tokio::{
    net::{TcpListener, TcpStream},
    time::MissedTickBehavior,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    connections::{Among, Connection, Connections, Watched},
    endpoint::Endpoint,
};
pub use self::{origin::Host, token::BearerToken};
use crate::{
    clock::{IdSource, SystemIds},
    error::{Error, Result},
    limits,
};

/// The one path that is served.
pub const PATH: &str = "/mcp";

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
            ids: Arc::new(SystemIds),
        }
    }
}

/// Serves whoever connects until `stop` is cancelled. Each session, and each request of the stateless era, has a
/// handler of its own. Calls in work are answered first, then streams end, each within its time.
///
/// # Errors
/// `INTERNAL` where the listener has no address.
pub async fn serve<H: ServerHandler>(
    listener: TcpListener,
    handler: impl Fn() -> H + Send + Sync + 'static,
    options: Options,
    stop: CancellationToken,
) -> Result<()> {
    let address = listener
        .local_addr()
        .map_err(|error| Error::internal("the listener has no address").because(error))?;
    let server = Arc::new(Server {
        endpoint: Endpoint::new(address, handler, options),
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

struct Server<H> {
    endpoint: Endpoint<H>,
    /// No connection takes another request.
    closing: CancellationToken,
    clients: TaskTracker,
}

impl<H: ServerHandler> Server<H> {
    fn connections(&self) -> &Connections {
        &self.endpoint.room().connections
    }

    async fn close(&self) {
        self.closing.cancel();
        self.connections().cut_receiving();
        let _ = tokio::time::timeout(limits::HTTP_GRACE, self.endpoint.room().budget.idle()).await;
        self.endpoint.end_streams();
        let _ = tokio::time::timeout(limits::HTTP_GRACE, self.connections().empty()).await;
        self.connections().cut_all();
        self.clients.close();
        self.clients.wait().await;
    }
}

async fn accept<H: ServerHandler>(server: &Arc<Server<H>>, listener: &TcpListener) {
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
                server.connections().make_room(Among::AllThatWait);
                tokio::time::sleep(limits::STORE_RETRY_EVERY).await;
            }
        }
    }
}

/// Leaves when it is dropped, so after a panic too.
struct Guest<H: ServerHandler>(Arc<Server<H>>, Arc<Connection>);

impl<H: ServerHandler> Drop for Guest<H> {
    fn drop(&mut self) {
        self.0.connections().leave(&self.1);
    }
}

fn let_in<H: ServerHandler>(server: &Arc<Server<H>>, stream: TcpStream) {
    let Some(connection) = server.connections().enter() else {
        return;
    };
    // Without it every answer in several pieces waits for the other side's acknowledgement, some 40 ms.
    let _ = stream.set_nodelay(true);
    let guest = Guest(server.clone(), connection);
    server
        .clients
        .spawn(async move { attend(&guest.0, stream, &guest.1).await });
}

async fn attend<H: ServerHandler>(
    server: &Arc<Server<H>>,
    stream: TcpStream,
    connection: &Arc<Connection>,
) {
    let service = service_fn(|request| {
        let (server, connection) = (server.clone(), connection.clone());
        async move {
            Ok::<_, std::convert::Infallible>(server.endpoint.respond(request, &connection).await)
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

async fn sweep<H: ServerHandler>(server: Arc<Server<H>>) {
    let mut every = tokio::time::interval(limits::HTTP_SWEEP_EVERY);
    // A process that was halted looks once when it goes on: its clients have not had the time that has passed.
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        server.connections().sweep();
        server.endpoint.sessions().sweep().await;
    }
}
