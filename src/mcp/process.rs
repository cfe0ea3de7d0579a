//! A process and its data directory: it owns the directory, or another process does whose client it becomes.

use std::{fmt, net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncBufRead, AsyncWrite, BufReader},
    sync::Mutex,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    LineTransport, Server, ToolProfile,
    control::{self, Door, Greeting, Preamble, Role},
    serve,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_server::app::{self, App, Options, OwnedDirectory};

/// A process that uses a data directory for one client of its own: an agent, or a person's command.
pub struct Process {
    options: Options,
    role: Role,
    profile: ToolProfile,
    http: Option<SocketAddr>,
    /// Made as soon as it is needed: a process that relays loads no definitions.
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
    /// A process whose client is an agent, which is offered this.
    pub fn for_agent(options: Options, profile: ToolProfile) -> Self {
        Self::new(options, Role::Relay, profile)
    }

    /// A process that does what a person commands.
    pub fn for_command(options: Options) -> Self {
        Self::new(options, Role::Command, ToolProfile::COMMANDS)
    }

    fn new(options: Options, role: Role, profile: ToolProfile) -> Self {
        Self {
            options,
            role,
            profile,
            http: None,
            app: Mutex::default(),
        }
    }

    /// The same for one that serves HTTP at this address, and so must own its directory.
    #[must_use]
    pub fn serving_http(self, address: SocketAddr) -> Self {
        Self {
            http: Some(address),
            ..self
        }
    }

    /// Finds the owner of the directory, or becomes it.
    ///
    /// # Errors
    /// `STORE_BUSY` where the owner does not answer for so long ([`limits::OWNER_LOOKS_MAX`]); what the owner refused
    /// with; the errors of opening the store.
    pub async fn find(&self) -> Result<Link> {
        let mut pause = limits::OWNER_LOOK_EVERY_MIN;
        for _ in 0..limits::OWNER_LOOKS_MAX {
            if let Some(link) = self.look().await? {
                return Ok(link);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(limits::OWNER_LOOK_EVERY_MAX);
        }
        Err(app::busy(&self.options.config.data_dir))
    }

    /// Looks once; `None` where the owner is just beginning or just ending.
    ///
    /// # Errors
    /// As [`Process::find`].
    pub async fn look(&self) -> Result<Option<Link>> {
        let data_dir = &self.options.config.data_dir;
        let mut preamble = Preamble::of(&self.options, self.role, self.profile);
        preamble.http = self.http.map(|address| address.to_string());
        match control::connect(data_dir, &preamble).await {
            // It hands the directory over.
            Ok(Some(_)) if self.http.is_some() => {}
            Ok(Some(owner)) => {
                return Ok(Some(Link {
                    unheeded: preamble.unheeded(&owner.greeting),
                    owner: Some(owner.greeting),
                    input: Box::new(owner.input),
                    output: Box::new(owner.output),
                    here: None,
                }));
            }
            Ok(None) => {}
            // A command has it, for a moment.
            Err(error) if self.http.is_some() && error.code() == Code::StoreBusy => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        self.own().await
    }

    async fn own(&self) -> Result<Option<Link>> {
        let data_dir = self.options.config.data_dir.clone();
        let taken = tokio::task::spawn_blocking(move || OwnedDirectory::take(&data_dir)).await;
        let taken = taken.map_err(|error| {
            Error::internal("taking the data directory panicked").because(error)
        })?;
        let owned = match taken {
            Ok(owned) => owned,
            Err(error) if error.code() == Code::StoreBusy => return Ok(None),
            Err(error) => return Err(error),
        };
        let app = self.app().await?;
        app.open_owned(owned).await?;
        Ok(Some(self.link(app, true)))
    }

    /// A server in this process that answers what needs no store, while nobody owns the directory.
    pub(super) async fn local(&self) -> Result<Link> {
        Ok(self.link(self.app().await?, false))
    }

    /// Why nothing can be asked of an owner that is stopped.
    pub(super) fn busy(&self) -> Error {
        app::busy(&self.options.config.data_dir)
    }

    /// This process's own midex.
    pub async fn app(&self) -> Result<App> {
        let mut app = self.app.lock().await;
        if let Some(app) = app.as_ref().filter(|app| !app.stopping().is_cancelled()) {
            return Ok(app.clone());
        }
        let options = self.options.clone();
        let made = tokio::task::spawn_blocking(move || App::waiting(options)).await;
        let made = made
            .map_err(|error| Error::internal("loading the definitions panicked").because(error))?;
        Ok(app.insert(made).clone())
    }

    /// A connection to a server in this process; behind the door that others come to, where it owns the directory.
    fn link(&self, app: App, owns: bool) -> Link {
        let (ours, theirs) = tokio::io::duplex(limits::CLIENT_PIPE_BYTES);
        let (input, output) = tokio::io::split(theirs);
        let transport = LineTransport::until(input, output, app.stopping().clone());
        let for_them = match self.role {
            Role::Command => app.clone().of_user(),
            Role::Relay => app.clone(),
        };
        let server = Server::new(Arc::new(for_them)).with_profile(self.profile);
        let stop = CancellationToken::new();
        tokio::spawn(serve(server, transport, stop.child_token()));
        let door = owns.then(|| self.door(&app, stop.child_token()));
        let (input, output) = tokio::io::split(ours);
        Link {
            input: Box::new(BufReader::new(input)),
            output: Box::new(output),
            owner: None,
            unheeded: Vec::new(),
            here: Some(Here { app, stop, door }),
        }
    }

    fn door(&self, app: &App, stop: CancellationToken) -> JoinHandle<()> {
        let mut door = Door::new(app.clone());
        if let Some(address) = self.http {
            door = door.serving_http(address);
        }
        if self.role == Role::Relay {
            app.definitions().watch();
            app.follow_catalogs();
            // What is in work is answered; then the link ends, and its holder closes it.
            door = door.handing_over(app.stopping().clone());
        }
        tokio::spawn(door.listen(stop))
    }
}

/// A connection to the owner of a data directory: to another process, or to this one.
pub struct Link {
    /// What the owner writes.
    pub input: Box<dyn AsyncBufRead + Send + Unpin>,
    /// What the owner reads.
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
    owner: Option<Greeting>,
    unheeded: Vec<String>,
    here: Option<Here>,
}

/// What of a connection is in this process.
struct Here {
    app: App,
    stop: CancellationToken,
    /// Where this process owns the directory.
    door: Option<JoinHandle<()>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// What the owner says of itself, where it is another process.
    pub fn owner(&self) -> Option<&Greeting> {
        self.owner.as_ref()
    }

    /// The settings of this process that the owner has otherwise.
    pub fn unheeded(&self) -> &[String] {
        &self.unheeded
    }

    /// The streams, and what is to be closed when they have ended.
    pub fn split(
        self,
    ) -> (
        Box<dyn AsyncBufRead + Send + Unpin>,
        Box<dyn AsyncWrite + Send + Unpin>,
        Closing,
    ) {
        (self.input, self.output, Closing { here: self.here })
    }
}

/// The end of a connection that is still to come.
pub struct Closing {
    here: Option<Here>,
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing")
            .field("owns", &self.owns())
            .finish()
    }
}

impl Closing {
    /// This process's midex, where it owns the directory.
    fn owner(&self) -> Option<&App> {
        let here = self.here.as_ref().filter(|here| here.door.is_some());
        here.map(|here| &here.app)
    }

    /// Whether this process owns the directory.
    pub fn owns(&self) -> bool {
        self.owner().is_some()
    }

    /// Cancelled as soon as this process ends to own the directory.
    pub(super) fn stopping(&self) -> Option<&CancellationToken> {
        self.owner().map(App::stopping)
    }

    /// Answers what waits, and refuses what is new.
    pub fn begin(&self) {
        if let Some(app) = self.owner() {
            app.begin_stop();
        }
    }

    /// Closes the store where this process owns it, after all that came in at its door have gone.
    ///
    /// # Errors
    /// Those of closing the store.
    pub async fn close(self) -> Result<()> {
        let Some(Here { app, stop, door }) = self.here else {
            return Ok(());
        };
        let Some(door) = door else {
            // The app goes on: this process may own the directory by now.
            stop.cancel();
            return Ok(());
        };
        app.begin_stop();
        stop.cancel();
        // The socket is removed before the store is closed.
        let _ = door.await;
        app.stop().await
    }
}
