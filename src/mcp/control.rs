//! The control socket: a running server's door for the commands of the same user. Behind a line that says who
//! calls, it speaks MCP as everywhere else.
//!
//! Whoever owns the store owns the socket beside it. A socket that nobody listens on is one of a process that was
//! killed.

mod places;

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::places::{Caller, Places};
use super::{LineTransport, Server, client::Client, serve};
use crate::{
    app::App,
    config::Config,
    error::{Code, Error, Result},
    limits,
};

/// The name of the socket in the data directory.
pub const SOCKET: &str = "control.sock";
/// The longest path that a socket's address holds on every system.
const PATH_BYTES_MAX: usize = 100;

/// The first line of a client: who calls, from where.
#[derive(Debug, Serialize, Deserialize)]
struct Preamble {
    /// The caller's version of midex.
    midex: String,
    project_dir: String,
    workflows_dir: Option<String>,
    agents_dir: Option<String>,
}

/// Where the socket of a data directory is. A path that no address can hold goes through the open directory,
/// which must be kept open meanwhile.
struct SocketPath {
    path: PathBuf,
    _directory: Option<fs::File>,
}

impl SocketPath {
    fn of(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(SOCKET);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        let directory = fs::File::open(data_dir)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let path = PathBuf::from(format!("/proc/self/fd/{number}/{SOCKET}"));
        Ok(Self {
            path,
            _directory: Some(directory),
        })
    }
}

/// Opens the door once the store is open, and serves whoever comes until `stop` is cancelled. Without it commands
/// find the store busy; the server itself goes on.
pub async fn listen(app: App, stop: CancellationToken) {
    tokio::select! {
        () = app.opened() => {}
        () = stop.cancelled() => return,
    }
    let place = match SocketPath::of(&app.config().data_dir) {
        Ok(place) => place,
        Err(error) => return closed(&error),
    };
    match bind(&place.path) {
        Ok(listener) => {
            let inside = Inside::default();
            accept(&app, &listener, &stop, &inside).await;
            // While the store is still this process's: nobody else's socket can lie there.
            let _ = fs::remove_file(&place.path);
            app.begin_stop();
            inside.leave().await;
        }
        Err(error) => closed(&error),
    }
}

/// The clients that were let in.
#[derive(Default)]
struct Inside {
    clients: TaskTracker,
    hang_up: CancellationToken,
}

impl Inside {
    /// What they are waiting for is answered; who has not gone by then is hung up on.
    async fn leave(self) {
        self.clients.close();
        if tokio::time::timeout(limits::CONTROL_GRACE, self.clients.wait())
            .await
            .is_err()
        {
            self.hang_up.cancel();
            self.clients.wait().await;
        }
    }
}

fn closed(error: &io::Error) {
    tracing::warn!(%error, "there is no control socket: commands will find the store busy");
}

/// The address is taken by nobody: the store's lock says so. Nobody but this user can come in even before the
/// permissions are set, for every caller's identity is looked at.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn accept(app: &App, listener: &UnixListener, stop: &CancellationToken, inside: &Inside) {
    let places = Arc::new(Places::default());
    loop {
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else {
            return;
        };
        match accepted {
            Ok((stream, _)) => {
                let Some(caller) = stop.run_until_cancelled(places.enter()).await else {
                    return;
                };
                let (app, hang_up) = (app.clone(), inside.hang_up.child_token());
                inside.clients.spawn(async move {
                    if let Err(error) = attend(app, stream, &caller, hang_up).await {
                        tracing::debug!(%error, "a client of the control socket was turned away");
                    }
                });
            }
            // Out of file descriptors, say: others may go in the meantime.
            Err(error) => {
                tracing::warn!(%error, "a client of the control socket could not be let in");
                tokio::time::sleep(limits::STORE_RETRY_EVERY).await;
            }
        }
    }
}

async fn attend(
    app: App,
    stream: UnixStream,
    caller: &Caller,
    stop: CancellationToken,
) -> Result<()> {
    check_user(&stream)?;
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);
    let said = caller.hear(read_line(&mut input));
    let said = tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, said).await;
    let said = said.ok().flatten();
    let said = said.ok_or_else(|| broken("the caller did not say who it is"))??;
    let greeting = serde_json::from_str::<Preamble>(&said)
        .map_err(|_| broken("the caller's first line says nothing"));
    let answer = match &greeting {
        Ok(_) => json!({ "midex": env!("CARGO_PKG_VERSION") }),
        Err(error) => json!({ "midex": env!("CARGO_PKG_VERSION"), "error": error.payload("") }),
    };
    write_line(&mut output, &answer).await?;
    let caller = greeting?.config(app.config());
    // It reads the caller's definitions.
    let app = tokio::task::spawn_blocking(move || app.for_caller(&caller)).await;
    let app =
        app.map_err(|error| Error::internal("loading the definitions panicked").because(error))?;
    let app = Arc::new(app);
    let server = Server::for_commands(app);
    serve(server, LineTransport::new(input, output), stop).await
}

impl Preamble {
    fn of(config: &Config) -> Self {
        // JSON holds Unicode alone, as the name of a project does wherever it is shown.
        let absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        };
        Self {
            midex: env!("CARGO_PKG_VERSION").into(),
            project_dir: absolute(&config.project_dir),
            workflows_dir: config.workflows_dir.as_ref().map(absolute),
            agents_dir: config.agents_dir.as_ref().map(absolute),
        }
    }

    fn config(self, host: &Config) -> Config {
        Config {
            project_dir: self.project_dir.into(),
            workflows_dir: self.workflows_dir.map(Into::into),
            agents_dir: self.agents_dir.map(Into::into),
            ..host.clone()
        }
    }
}

/// Executions are their owner's business alone.
fn check_user(stream: &UnixStream) -> Result<()> {
    let caller = stream
        .peer_cred()
        .map_err(|error| broken("the caller is nobody").because(error))?;
    if caller.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(broken("the caller is another user"))
}

fn broken(what: &str) -> Error {
    Error::new(Code::UsageInvalid, what)
}

async fn read_line(input: &mut (impl AsyncBufReadExt + Unpin)) -> Result<String> {
    let mut line = String::new();
    let read = input
        .take(limits::CONTROL_PREAMBLE_BYTES_MAX)
        .read_line(&mut line)
        .await;
    match read {
        Ok(_) if line.ends_with('\n') => Ok(line),
        Ok(_) => Err(broken("the first line has no end")),
        Err(error) => Err(broken("the first line cannot be read").because(error)),
    }
}

async fn write_line(output: &mut (impl AsyncWriteExt + Unpin), value: &Value) -> Result<()> {
    let line = format!("{value}\n");
    let written = output.write_all(line.as_bytes()).await;
    written.map_err(|error| broken("the other side has gone").because(error))
}

/// A client of the server that owns the data directory of `config`; `None` where nobody listens.
///
/// # Errors
/// What the server refused with.
pub async fn connect(config: &Config) -> Result<Option<Client>> {
    // Where there is no directory yet, nobody owns it.
    let Ok(place) = SocketPath::of(&config.data_dir) else {
        return Ok(None);
    };
    let Ok(stream) = UnixStream::connect(&place.path).await else {
        return Ok(None);
    };
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);
    let preamble = serde_json::to_value(Preamble::of(config));
    let preamble = preamble
        .map_err(|error| Error::internal("the preamble cannot be written").because(error))?;
    if write_line(&mut output, &preamble).await.is_err() {
        return Ok(None);
    }
    let answered = tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, read_line(&mut input)).await;
    let answer = match answered {
        Ok(Ok(answer)) => answer,
        // It was just ending: its store will be free.
        Ok(Err(_)) => return Ok(None),
        Err(_) => return Err(silent(config)),
    };
    let answer: Map<String, Value> = serde_json::from_str(&answer).unwrap_or_default();
    if let Some(Value::Object(error)) = answer.get("error") {
        return Err(Error::from_payload(error));
    }
    let greeted =
        tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, Client::connect(input, output));
    greeted.await.map_err(|_| silent(config))?.map(Some)
}

/// Somebody owns the store and does not answer.
fn silent(config: &Config) -> Error {
    let directory = config.data_dir.display().to_string();
    let message = format!("the midex that owns {directory} does not answer on its socket");
    Error::new(Code::StoreBusy, message).with("data_dir", directory)
}
