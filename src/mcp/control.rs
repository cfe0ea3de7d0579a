//! The control socket of the process that owns a data directory. Commands of the same user and relays of other servers
//! connect to it. A client first sends a line (the preamble) that identifies it; after that, the connection speaks MCP.
//!
//! The process that owns the store also owns the socket next to it. A socket without a listener was left behind by a
//! process that was killed.

mod preamble;
mod slots;
mod socket;

use std::{collections::BTreeSet, net::SocketAddr, path::Path, sync::Arc};

use tokio::{
    io::BufReader,
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    preamble::{CONTROL_PROTOCOL_VERSION, ClientInfo, ClientRole, Greeting, Preamble},
    socket::SOCKET_FILE_NAME,
};
use self::{
    preamble::{read_line, to_milliseconds, write_line},
    slots::{ClientSlots, SlotHolder},
    socket::{SocketFileIdentity, SocketPath, check_peer_user, preamble_refused_error},
};
use super::{LineTransport, Server, serve};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_server::app::{self, App};

/// The control socket of the owner of a directory: how the owner greets its clients, and what it grants them.
#[derive(Clone, Debug)]
pub struct ControlSocket {
    app: App,
    http: Option<SocketAddr>,
    hand_over: Option<CancellationToken>,
}

impl ControlSocket {
    /// The control socket of this app.
    pub fn new(app: App) -> Self {
        Self { app, http: None, hand_over: None }
    }

    /// Marks a process that serves HTTP at this address. It keeps the directory for as long as it runs.
    #[must_use]
    pub fn with_http_address(self, address: SocketAddr) -> Self {
        Self { http: Some(address), ..self }
    }

    /// Cancels the token if a process that serves HTTP asks for the directory.
    #[must_use]
    pub fn with_hand_over_token(self, hand_over: CancellationToken) -> Self {
        Self { hand_over: Some(hand_over), ..self }
    }

    /// Binds the socket once the store is open, and serves all clients until `stop` is cancelled. If the socket cannot
    /// be bound, commands get `STORE_BUSY`, but the server itself keeps running.
    pub async fn serve_until_stopped(self, stop: CancellationToken) {
        tokio::select! {
            () = self.app.wait_until_open() => {}
            () = stop.cancelled() => return,
        }
        let bound_socket = Arc::new(BoundSocket::new(self));
        while let Some((socket_path, listener, socket_identity)) =
            stop.run_until_cancelled(bound_socket.control_socket.bind_with_retries()).await
        {
            tokio::select! {
                () = bound_socket.accept_clients(&listener) => {}
                () = stop.cancelled() => {}
                // The directory is being handed over, so accept no further connections.
                () = bound_socket.control_socket.app.stop_token().cancelled() => {}
                () = bound_socket.control_socket.wait_until_replaced(&socket_path, socket_identity) => {
                    tracing::warn!("the control socket was removed or replaced; it is made again");
                    continue;
                }
            }
            socket_path.remove(socket_identity);
            break;
        }
        bound_socket.disconnect_clients().await;
    }

    /// Waits until the bound socket was removed or replaced while this process still owns the directory. A directory
    /// that was moved away or replaced is not this process's any more.
    async fn wait_until_replaced(
        &self,
        socket_path: &SocketPath,
        socket_identity: SocketFileIdentity,
    ) {
        let data_dir = &self.app.config().data_dir;
        while socket_path.is_bound(socket_identity)
            || app::lock_holder_pid(data_dir) != Some(std::process::id())
        {
            tokio::time::sleep(limits::CONTROL_SOCKET_LOOK_EVERY).await;
        }
    }

    /// Binds the socket, and retries until that succeeds.
    async fn bind_with_retries(&self) -> (SocketPath, UnixListener, SocketFileIdentity) {
        let data_dir = &self.app.config().data_dir;
        let mut has_failed = false;
        loop {
            let socket_path = SocketPath::from_data_dir(data_dir);
            let bind_result =
                socket_path.and_then(|place| place.bind_socket().map(|bound| (place, bound)));
            match bind_result {
                Ok((place, (listener, identity))) => return (place, listener, identity),
                Err(error) if !has_failed => {
                    has_failed = true;
                    tracing::warn!(%error, "there is no control socket: commands and other servers find the store busy");
                }
                Err(_) => {}
            }
            tokio::time::sleep(limits::STORE_RETRY_EVERY).await;
        }
    }
}

/// A bound control socket, with its clients.
struct BoundSocket {
    control_socket: ControlSocket,
    since_ms: i64,
    activities: BTreeSet<String>,
    client_slots: Arc<ClientSlots>,
    clients: TaskTracker,
    disconnect_token: CancellationToken,
}

impl BoundSocket {
    fn new(control_socket: ControlSocket) -> Self {
        Self {
            since_ms: control_socket.app.now().milliseconds(),
            activities: control_socket.app.activities().names().map(str::to_owned).collect(),
            control_socket,
            client_slots: Arc::default(),
            clients: TaskTracker::new(),
            disconnect_token: CancellationToken::new(),
        }
    }

    async fn accept_clients(self: &Arc<Self>, listener: &UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let slot_holder = self.client_slots.take_slot().await;
                    let bound_socket = self.clone();
                    self.clients.spawn(async move {
                        let serve_client = Box::pin(bound_socket.serve_client(stream, slot_holder));
                        if let Some(Err(error)) = bound_socket.disconnect_token.run_until_cancelled(serve_client).await {
                            tracing::debug!(%error, "a client of the control socket was turned away");
                        }
                    });
                }
                // For example, if file descriptors ran out. Other clients may disconnect in the meantime.
                Err(error) => {
                    tracing::warn!(%error, "a client of the control socket could not be let in");
                    tokio::time::sleep(limits::STORE_RETRY_EVERY).await;
                }
            }
        }
    }

    /// Finishes the pending requests of the clients, then disconnects those that are still connected.
    async fn disconnect_clients(&self) {
        self.control_socket.app.begin_stop();
        self.clients.close();
        let drained = tokio::time::timeout(limits::CONTROL_GRACE, self.clients.wait());
        if drained.await.is_err() {
            self.disconnect_token.cancel();
            self.clients.wait().await;
        }
    }

    async fn serve_client(&self, stream: UnixStream, mut slot_holder: SlotHolder) -> Result<()> {
        check_peer_user(&stream)?;
        let (input, mut output) = stream.into_split();
        let mut input = BufReader::new(input);
        let preamble_line = slot_holder.wait_for_preamble(read_line(&mut input));
        let preamble_line = tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, preamble_line);
        // During a shutdown, do not wait for the preamble.
        let preamble_line =
            self.control_socket.app.stop_token().run_until_cancelled(preamble_line).await;
        let preamble_line = preamble_line.and_then(|said| said.ok().flatten());
        let preamble_line = preamble_line
            .ok_or_else(|| preamble_refused_error("the caller did not say who it is"))??;
        let other_clients = self.client_slots.known_clients();
        let preamble = Preamble::parse(&preamble_line).and_then(|preamble| {
            self.admit_client(&preamble, &mut slot_holder)?;
            Ok(preamble)
        });
        let greeting_line = self.build_greeting(other_clients, preamble.as_ref().err());
        let send_greeting = write_line(&mut output, &greeting_line);
        let send_result = tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, send_greeting).await;
        send_result.map_err(|_| preamble_refused_error("the caller takes no greeting"))??;
        let preamble = preamble?;
        if preamble.http.is_some() {
            // This client only asked for the directory.
            self.control_socket.hand_over.iter().for_each(CancellationToken::cancel);
            return Ok(());
        }
        let server = self.build_server(&preamble);
        // During a shutdown, read nothing more: the client sends unread requests to the next owner.
        let end = self.control_socket.app.stop_token().clone();
        let transport = LineTransport::with_end_token(input, output, end);
        serve(server, transport, self.disconnect_token.child_token()).await
    }

    fn admit_client(&self, preamble: &Preamble, slot_holder: &mut SlotHolder) -> Result<()> {
        let missing_activities = preamble.find_missing_activities(&self.activities);
        if !missing_activities.is_empty() {
            return Err(missing_activities_error(&missing_activities));
        }
        if preamble.http.is_some() {
            return match (&self.control_socket.http, &self.control_socket.hand_over) {
                (Some(address), _) => Err(already_serves_http_error(*address)),
                (None, None) => Err(store_busy_error(&self.control_socket.app.config().data_dir)),
                (None, Some(_)) => Ok(()),
            };
        }
        slot_holder.record_preamble(preamble.client_info())
    }

    fn build_greeting(&self, clients: Vec<ClientInfo>, error: Option<&Error>) -> Greeting {
        let config = self.control_socket.app.config();
        Greeting {
            protocol: CONTROL_PROTOCOL_VERSION,
            midex: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            since_ms: self.since_ms,
            http: self.control_socket.http.map(|address| address.to_string()),
            token_ttl_ms: to_milliseconds(config.token_ttl),
            snapshot_every: config.snapshot_every,
            clients,
            error: error.map(|error| error.to_payload("")),
        }
    }

    fn build_server(&self, preamble: &Preamble) -> Server {
        let app = &self.control_socket.app;
        let (config, environment) = preamble.build_client_config(app.config());
        let app = app.for_caller(&config, environment);
        let app = if preamble.role == ClientRole::Relay {
            // The definitions of a command are watched only once it subscribes to one.
            app.definitions().start_watching();
            app
        } else {
            // A command acts for the user.
            app.for_user()
        };
        Server::new(Arc::new(app)).with_profile(preamble.tool_profile())
    }
}

fn missing_activities_error(missing_activities: &[&str]) -> Error {
    let message = format!(
        "the midex that owns this data directory (process {}) has not the activities of this program: {}",
        std::process::id(),
        missing_activities.join(", ")
    );
    Error::new(Code::UsageInvalid, message).with_action(
        "Ask your user to give this program a data directory of its own with --data-dir",
    )
}

fn already_serves_http_error(address: SocketAddr) -> Error {
    let message = format!(
        "process {} serves HTTP for this data directory already, at {address}",
        std::process::id()
    );
    Error::new(Code::AddressUnusable, message)
        .with_context("address", address.to_string())
        .with_action(
            "Use that address, or give this server a data directory of its own with --data-dir",
        )
}

fn store_busy_error(data_dir: &Path) -> Error {
    let directory = data_dir.display().to_string();
    let message = format!("a command of midex is using {directory}");
    Error::new(Code::StoreBusy, message).with_context("data_dir", directory)
}

/// A connection to the owner of a data directory, after the handshake lines.
#[derive(Debug)]
pub struct Connection {
    /// The owner's output.
    pub input: BufReader<OwnedReadHalf>,
    /// The owner's input.
    pub output: OwnedWriteHalf,
    /// The owner's greeting.
    pub greeting: Greeting,
}

/// Connects to the process that owns `data_dir`. `None` if no process listens, or it is just shutting down.
///
/// # Errors
/// The error with which the owner refused; `STORE_BUSY` if it does not answer within [`limits::CONTROL_PREAMBLE_MAX`].
pub async fn connect_to_owner(data_dir: &Path, preamble: &Preamble) -> Result<Option<Connection>> {
    // A missing directory has no owner.
    let Ok(socket_path) = SocketPath::from_data_dir(data_dir) else {
        return Ok(None);
    };
    let Some(stream) = socket_path.connect().await else {
        return Ok(None);
    };
    check_peer_user(&stream)?;
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);
    // The timeout covers the write too: a long preamble may not fit into the socket buffer of a process that does not
    // read.
    let exchange_greetings = async {
        write_line(&mut output, preamble).await?;
        read_line(&mut input).await
    };
    match tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, exchange_greetings).await {
        Ok(Ok(answer)) => {
            Ok(Some(Connection { greeting: Greeting::parse(&answer)?, input, output }))
        }
        Ok(Err(error)) if error.code() == Code::LimitExceeded => Err(error),
        // The owner was shutting down, so its store will be free.
        Ok(Err(_)) => Ok(None),
        Err(_) => Err(app::store_busy_error(data_dir)),
    }
}
