//! A process and its data directory. The process either owns the directory, or connects to the process that does.

use std::{fmt, net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncBufRead, AsyncWrite, BufReader},
    sync::Mutex,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    LineTransport, Server, ToolProfile,
    control::{self, ClientRole, ControlSocket, Greeting, Preamble},
    serve,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_server::app::{self, App, Options, OwnedDirectory};

/// A process that uses a data directory on behalf of one client: an agent, or a user's command.
pub struct Process {
    options: Options,
    role: ClientRole,
    profile: ToolProfile,
    http: Option<SocketAddr>,
    /// True if the process may become the owner of the data directory when there is none.
    can_own: bool,
    /// True for a process that runs until it is stopped. As the owner, it watches definition files, and hands the data directory
    /// over on request.
    is_long_lived: bool,
    /// Created on first use, since a process that only relays needs no definitions.
    app: Mutex<Option<App>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("role", &self.role)
            .field("data_dir", &self.options.config.data_dir)
            .finish_non_exhaustive()
    }
}

impl Process {
    /// A process whose client is an agent, which is offered this profile.
    pub fn for_agent(options: Options, profile: ToolProfile) -> Self {
        Self::new(options, ClientRole::Relay, profile)
    }

    /// A process that runs a user's command.
    pub fn for_command(options: Options) -> Self {
        Self::new(options, ClientRole::Command, ToolProfile::ALL_TOOLS_DOTTED)
    }

    fn new(options: Options, role: ClientRole, profile: ToolProfile) -> Self {
        let is_long_lived = role == ClientRole::Relay;
        Self {
            options,
            role,
            profile,
            http: None,
            can_own: true,
            is_long_lived,
            app: Mutex::default(),
        }
    }

    /// The same process, for a command that stays until it is stopped.
    #[must_use]
    pub fn with_long_life(self) -> Self {
        Self { is_long_lived: true, ..self }
    }

    /// The same process, which never owns the directory: it only connects to the owner.
    #[must_use]
    pub fn without_ownership(self) -> Self {
        Self { can_own: false, ..self }
    }

    /// The same process, serving HTTP at this address. It must own its directory.
    #[must_use]
    pub fn with_http_address(self, address: SocketAddr) -> Self {
        Self { http: Some(address), ..self }
    }

    /// Connects to the owner of the directory, or becomes the owner.
    ///
    /// # Errors
    /// `STORE_BUSY` if the owner has not answered after [`limits::OWNER_LOOKS_MAX`] attempts; the error with which the
    /// owner refused; the errors of opening the store.
    pub async fn find_owner(&self) -> Result<OwnerLink> {
        let mut pause = limits::OWNER_LOOK_EVERY_MIN;
        for _ in 0..limits::OWNER_LOOKS_MAX {
            if let Some(link) = self.look_for_owner().await? {
                return Ok(link);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(limits::OWNER_LOOK_EVERY_MAX);
        }
        Err(app::store_busy_error(&self.options.config.data_dir))
    }

    /// What the owner of the directory says of itself and of its clients. `None` if none answers now.
    ///
    /// # Errors
    /// The error with which the owner refused.
    pub async fn greet_owner(&self) -> Result<Option<Greeting>> {
        let preamble = Preamble::from_options(&self.options, self.role, self.profile);
        let owner = control::connect_to_owner(&self.options.config.data_dir, &preamble).await?;
        Ok(owner.map(|owner| owner.greeting))
    }

    /// Tries once. `None` if the owner is just starting or shutting down.
    ///
    /// # Errors
    /// As [`Process::find_owner`].
    pub async fn look_for_owner(&self) -> Result<Option<OwnerLink>> {
        let data_dir = &self.options.config.data_dir;
        let mut preamble = Preamble::from_options(&self.options, self.role, self.profile);
        preamble.http = self.http.map(|address| address.to_string());
        match control::connect_to_owner(data_dir, &preamble).await {
            // The owner agreed to hand the directory over, so try to take it below.
            Ok(Some(_)) if self.http.is_some() => {}
            Ok(Some(owner)) => {
                return Ok(Some(OwnerLink {
                    ignored_settings: preamble.list_ignored_settings(&owner.greeting),
                    owner: Some(owner.greeting),
                    input: Box::new(owner.input),
                    output: Box::new(owner.output),
                    local_server: None,
                }));
            }
            Ok(None) => {}
            // A command owns the directory briefly, so try again.
            Err(error) if self.http.is_some() && error.code() == Code::StoreBusy => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        if !self.can_own {
            return Ok(None);
        }
        self.take_ownership().await
    }

    async fn take_ownership(&self) -> Result<Option<OwnerLink>> {
        let data_dir = self.options.config.data_dir.clone();
        let lock_result =
            tokio::task::spawn_blocking(move || OwnedDirectory::take_ownership(&data_dir)).await;
        let lock_result = lock_result.map_err(|error| {
            Error::internal("taking the data directory panicked").with_source(error)
        })?;
        let owned_directory = match lock_result {
            Ok(owned) => owned,
            Err(error) if error.code() == Code::StoreBusy => return Ok(None),
            Err(error) => return Err(error),
        };
        let app = self.current_app().await?;
        app.open_owned(owned_directory).await?;
        Ok(Some(self.open_local_link(app, true)))
    }

    /// A server in this process without a store, for requests that need none, while the directory has no owner.
    pub(super) async fn local_link(&self) -> Result<OwnerLink> {
        Ok(self.open_local_link(self.current_app().await?, false))
    }

    /// The error for calls whose owner is suspended.
    pub(crate) fn suspended_owner_error(&self) -> Error {
        app::store_busy_error(&self.options.config.data_dir)
    }

    /// The app of this process. A new one is created if the previous one was stopped.
    pub async fn current_app(&self) -> Result<App> {
        let mut app = self.app.lock().await;
        if let Some(app) = app.as_ref().filter(|app| !app.stop_token().is_cancelled()) {
            return Ok(app.clone());
        }
        let options = self.options.clone();
        let new_app =
            tokio::task::spawn_blocking(move || App::new_awaiting_ownership(options)).await;
        let new_app = new_app.map_err(|error| {
            Error::internal("loading the definitions panicked").with_source(error)
        })?;
        Ok(app.insert(new_app).clone())
    }

    /// A connection to a server in this process. If the process owns the directory, also opens the control socket.
    fn open_local_link(&self, app: App, is_owner: bool) -> OwnerLink {
        let (relay_end, server_end) = tokio::io::duplex(limits::CLIENT_PIPE_BYTES);
        let (input, output) = tokio::io::split(server_end);
        let transport = LineTransport::with_end_token(input, output, app.stop_token().clone());
        let client_app = match self.role {
            ClientRole::Command => app.clone().for_user(),
            ClientRole::Relay => app.clone(),
        };
        let server = Server::new(Arc::new(client_app)).with_profile(self.profile);
        let stop = CancellationToken::new();
        tokio::spawn(serve(server, transport, stop.child_token()));
        let socket_task = is_owner.then(|| self.open_control_socket(&app, stop.child_token()));
        let (input, output) = tokio::io::split(relay_end);
        OwnerLink {
            input: Box::new(BufReader::new(input)),
            output: Box::new(output),
            owner: None,
            ignored_settings: Vec::new(),
            local_server: Some(LocalServer { app, stop, socket_task }),
        }
    }

    fn open_control_socket(&self, app: &App, stop: CancellationToken) -> JoinHandle<()> {
        let mut control_socket = ControlSocket::new(app.clone());
        if let Some(address) = self.http {
            control_socket = control_socket.with_http_address(address);
        }
        if self.is_long_lived {
            app.definitions().start_watching();
            app.follow_catalogs();
            // A hand-over request stops the app: requests in progress are answered, then the link ends and its holder
            // closes it.
            control_socket = control_socket.with_hand_over_token(app.stop_token().clone());
        }
        tokio::spawn(control_socket.serve_until_stopped(stop))
    }
}

/// A connection to the owner of a data directory, which is another process or this one.
pub struct OwnerLink {
    /// The owner's output.
    pub input: Box<dyn AsyncBufRead + Send + Unpin>,
    /// The owner's input.
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
    owner: Option<Greeting>,
    ignored_settings: Vec<String>,
    local_server: Option<LocalServer>,
}

/// The part of a connection that is in this process.
struct LocalServer {
    app: App,
    stop: CancellationToken,
    /// The task of the control socket, if this process owns the directory.
    socket_task: Option<JoinHandle<()>>,
}

impl fmt::Debug for OwnerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl OwnerLink {
    /// The greeting of the owner, if it is another process.
    pub fn owner_greeting(&self) -> Option<&Greeting> {
        self.owner.as_ref()
    }

    /// The settings of this process that the owner has with other values.
    pub fn ignored_settings(&self) -> &[String] {
        &self.ignored_settings
    }

    /// Splits the link into its streams, and the resources to close once they have ended.
    pub fn into_streams(
        self,
    ) -> (Box<dyn AsyncBufRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>, LinkCloser)
    {
        (self.input, self.output, LinkCloser { local_server: self.local_server })
    }
}

/// The resources of a connection that are closed once its streams have ended.
pub struct LinkCloser {
    local_server: Option<LocalServer>,
}

impl fmt::Debug for LinkCloser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").field("owns", &self.is_directory_owner()).finish()
    }
}

impl LinkCloser {
    /// The app, if this process owns the directory.
    fn owned_app(&self) -> Option<&App> {
        let local_server = self.local_server.as_ref().filter(|here| here.socket_task.is_some());
        local_server.map(|here| &here.app)
    }

    /// Whether this process owns the directory.
    pub fn is_directory_owner(&self) -> bool {
        self.owned_app().is_some()
    }

    /// Cancelled when this process begins to give up the directory.
    pub(super) fn stopping_token(&self) -> Option<&CancellationToken> {
        self.owned_app().map(App::stop_token)
    }

    /// Starts the shutdown: pending requests are answered, new ones are refused.
    pub fn begin_shutdown(&self) {
        if let Some(app) = self.owned_app() {
            app.begin_stop();
        }
    }

    /// Closes the store if this process owns it, after all clients of the control socket have disconnected.
    ///
    /// # Errors
    /// The errors of closing the store.
    pub async fn close(self) -> Result<()> {
        let Some(LocalServer { app, stop, socket_task: door }) = self.local_server else {
            return Ok(());
        };
        let Some(door) = door else {
            // Keep the app: this process may own the directory by now.
            stop.cancel();
            return Ok(());
        };
        app.begin_stop();
        stop.cancel();
        // Wait for the control socket task, which removes the socket before the store is closed.
        let _ = door.await;
        app.stop().await
    }
}
