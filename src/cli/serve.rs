//! `midex serve`: serves agents over standard input and output, or over HTTP.

use std::{
    io::{self, IsTerminal},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    EXIT_OK, ServeArgs,
    command::suggested_action,
    dashboard::serve_beside,
    end_signals::{EndSignals, subscribe_to_signals, wait_for_signal},
    listener::{bind_listener, parse_listen_address},
    log::Log,
};
use midex_domain::{
    clock::{SteadyClock, SystemIds},
    error::{Code, Error, Result},
    limits,
};
use midex_mcp as mcp;
use midex_mcp::{
    ListenLimit,
    Process,
    Server,
    ToolProfile, // Not the crate of that name, which only `mcp` may name.
    http as streamable,
    process::LinkCloser,
};
use midex_server::{
    app::PruneRule,
    app::{self, App},
    config::{
        BackupSchedule, Config, parse_backup_interval, parse_retention_rule, sort_retention_rules,
    },
};

/// How agents reach the server.
#[derive(Debug, Args)]
pub(super) struct TransportArgs {
    /// Serve streamable HTTP at /mcp on this address, instead of standard input and output; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_listen_address)]
    http: Option<SocketAddr>,
    /// Whether no flag gave the address: every server of this user is given it then, and one can have it
    #[arg(skip)]
    pub(super) is_default_http: bool,
    /// Serve standard input and output in addition to --http; without an address, a server serves only these
    #[arg(long)]
    stdio: bool,
    /// Accept only requests with the bearer token in this file, which must not be readable by others. Required if the
    /// address is not a loopback address
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,
    /// An additional host name by which HTTP clients call this server; may be given several times
    #[arg(long, value_name = "NAME")]
    http_host: Vec<streamable::Host>,
}

impl TransportArgs {
    /// Whether it serves standard input and output.
    pub(super) fn serves_stdio(&self) -> bool {
        self.http.is_none() || self.stdio
    }

    /// Whether the server does not answer a host that starts it: the address comes from a file, and stdio is not
    /// served.
    pub(super) fn answers_no_host(&self) -> bool {
        self.is_default_http && !self.serves_stdio()
    }

    /// Whether the server ends when its host closes the streams. If the address comes from a file, every server that a
    /// host starts gets it, and must not keep running after its host.
    fn ends_with_host(&self) -> bool {
        self.is_default_http && self.serves_stdio()
    }

    /// Whether the server can continue without HTTP after this error: the address comes from a file, so that another
    /// server of the user may have taken it.
    fn can_continue_without_http(&self, error: &Error) -> bool {
        self.ends_with_host() && error.code() == Code::AddressUnusable
    }

    /// Checks the HTTP settings without listening.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` and `USAGE_INVALID`, which also end `midex serve`.
    pub(super) fn check(&self) -> Result<()> {
        self.http.map_or(Ok(()), |address| self.bearer_token(address).map(drop))
    }

    /// The bearer token for this address. It is required if the address is not a loopback one.
    fn bearer_token(&self, address: SocketAddr) -> Result<Option<streamable::BearerToken>> {
        let token = self.http_token_file.as_deref().map(streamable::BearerToken::read_token_file);
        let token = token.transpose()?;
        if token.is_none() && !address.ip().is_loopback() {
            let message = format!(
                "{address} can be reached from outside, and nothing would keep anybody out"
            );
            return Err(Error::new(Code::UsageInvalid, message).with_action(
                "Add --http-token-file FILE, or listen on a loopback address such as 127.0.0.1",
            ));
        }
        Ok(token)
    }

    /// Binds the HTTP address, if one was given. Must be called on a runtime.
    fn listen(&self) -> Result<Option<(TcpListener, streamable::Options)>> {
        let Some(address) = self.http else {
            return Ok(None);
        };
        let token = self.bearer_token(address)?;
        let listener = bind_listener(address)?;
        let options = streamable::Options {
            token,
            hosts: self.http_host.clone(),
            connections_max: connections_max(),
            direct_calls: true,
            ..streamable::Options::default()
        };
        Ok(Some((listener, options)))
    }
}

/// The retention of the server.
#[derive(Debug, Args)]
pub(super) struct RetentionArgs {
    /// Remove executions that have ended, such as `older-than=30d keep-last=100` (of each workflow), with `state=failed` or
    /// `workflow=NAME` before it for a part of them; may be given several times; without it, nothing is removed
    #[arg(long = "retention", value_name = "RULE", value_parser = parse_retention_rule)]
    rules: Vec<PruneRule>,
}

impl RetentionArgs {
    /// The rules, in the order in which they decide.
    pub(super) fn rules(&self) -> Vec<PruneRule> {
        let mut rules = self.rules.clone();
        sort_retention_rules(&mut rules);
        rules
    }
}

/// The schedule of backups.
#[derive(Debug, Args)]
pub(super) struct BackupScheduleArgs {
    /// Make a backup whenever the last one is this old, such as 12h or 1d; without it, none is made
    #[arg(long = "backup-every", value_name = "DURATION", value_parser = parse_backup_interval)]
    every: Option<Duration>,
    /// How many of these backups are kept
    #[arg(long = "backup-keep", value_name = "N", default_value_t = limits::BACKUPS_KEPT_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::BACKUPS_KEPT_MAX)))]
    keep: u32,
    /// Where these backups are put [default: `backups` in the data directory]
    #[arg(long = "backup-directory", value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl BackupScheduleArgs {
    /// The schedule, if there is one.
    pub(super) fn schedule(&self, config: &Config) -> Option<BackupSchedule> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let directory = self.directory.clone();
        Some(BackupSchedule {
            every: self.every?,
            keep: usize::try_from(self.keep).unwrap_or(usize::MAX),
            directory: absolute(directory.unwrap_or_else(|| config.data_dir.join("backups"))),
        })
    }
}

/// The maximum number of connections. Each takes a file descriptor, so the soft limit is raised to the hard limit
/// first.
fn connections_max() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut files = getrlimit(Resource::Nofile);
    let max_limit = rustix::process::Rlimit { current: files.maximum, maximum: files.maximum };
    if setrlimit(Resource::Nofile, max_limit).is_ok() {
        files = max_limit;
    }
    let files =
        files.current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    files
        .saturating_sub(limits::HTTP_FILES_BESIDES)
        .clamp(limits::HTTP_CONNECTIONS_MIN, limits::HTTP_CONNECTIONS_MAX)
}

/// The message if a person has started the server in a terminal.
const WAITING_FOR_CLIENT_MESSAGE: &str = "midex waits for an MCP client on standard input; a host starts it so: `midex serve`, written into its \
                     configuration by `midex install`; Ctrl-C ends it";

/// Serves until a signal arrives. If it serves stdio, and no flag gave an HTTP address, it also ends when the client
/// closes the streams.
pub(super) async fn serve(config: Config, args: ServeArgs, log: &Log) -> Result<u8> {
    let (transports, profile) = (args.transports, args.profile.into());
    let http_listener = match transports.listen() {
        // A server that its host talks to over stdio must not end because of this.
        Err(error) if transports.can_continue_without_http(&error) => {
            log_error_warning(&error);
            None
        }
        result => result?,
    };
    warn_about_directories(&config);
    let stop = CancellationToken::new();
    let dashboard = serve_beside(&args.dashboard, &config, &stop);
    let mut options =
        app::Options::new(config, Arc::new(SteadyClock::default()), Arc::new(SystemIds));
    let member = args.cluster.join(&mut options)?;
    let process = Process::for_agent(options, profile);
    let signals = tokio::spawn(cancel_on_signal(subscribe_to_signals()?, stop.clone()));
    let lines = mcp::format_startup_lines(
        &listening_addresses(&transports, http_listener.as_ref()),
        profile,
    );
    let announce = || log_start_up(&lines, &transports, log);
    if let Some(member) = member {
        let app = process.current_app().await?;
        tokio::spawn(member.serve(app, stop.clone()));
    }
    let link_result = match http_listener {
        None => {
            announce();
            Ok(mcp::relay_stdio(&process, stop.clone()).await)
        }
        Some((listener, options)) => {
            let address = listener.local_addr().map_err(|error| {
                Error::internal("the address that is listened on is not known").with_source(error)
            })?;
            let process = process.with_http_address(address);
            let http_listener = (listener, options);
            let serve_future =
                serve_http(&process, &transports, profile, http_listener, &stop, announce);
            Box::pin(serve_future).await
        }
    };
    signals.abort();
    if let Some(dashboard) = dashboard {
        dashboard.abort();
    }
    let close_max = if stop.is_cancelled() { limits::DRAIN_MAX } else { limits::EOF_CLOSE_MAX };
    let close_future = async {
        match link_result? {
            Some(closer) => closer.close().await,
            None => Ok(()),
        }
    };
    let result = tokio::time::timeout(close_max, close_future).await;
    result
        .unwrap_or_else(|_| {
            tracing::warn!("the store was not closed in time; nothing acknowledged is lost");
            Ok(())
        })
        .map(|()| EXIT_OK)
}

/// Logs the start-up lines and, if a person has started the server, what it waits for.
fn log_start_up(lines: &[String], transports: &TransportArgs, log: &Log) {
    // A person needs only the first line; the others list the offered tools for a host.
    let is_person = io::stderr().is_terminal();
    let line_count = if is_person { 1 } else { lines.len() };
    for line in &lines[..line_count] {
        log.write_line(line);
    }
    if transports.serves_stdio() && io::stdin().is_terminal() {
        log.write_line(WAITING_FOR_CLIENT_MESSAGE);
    }
}

/// Logs problems with the directories of a configuration.
fn warn_about_directories(config: &Config) {
    let directories = [&config.workflows_dir, &config.agents_dir];
    for missing in directories.into_iter().flatten().filter(|dir| !dir.is_dir()) {
        let path = missing.display();
        tracing::warn!("{path} is no directory: no definitions are read from it yet");
    }
    let mode = std::fs::metadata(&config.data_dir).map(|metadata| metadata.permissions().mode());
    if let Some(mode) = mode.ok().filter(|mode| is_open_to_others(*mode)) {
        tracing::warn!(
            "others than this user may write to the data directory `{0}` (mode {1:04o}) and replace what is stored: run `chmod go-w {0}`",
            config.data_dir.display(),
            mode & 0o7777
        );
    }
}

/// Whether users other than the owner may write to a directory with this mode.
pub(super) const fn is_open_to_others(mode: u32) -> bool {
    mode & 0o022 != 0
}

/// Serves HTTP and, if requested, stdio. The end of stdio ends the server only if the address comes from a file. A
/// process that serves HTTP owns its directory: it asks the present owner to hand the directory over.
async fn serve_http(
    process: &Process,
    transports: &TransportArgs,
    profile: ToolProfile,
    (listener, options): (TcpListener, streamable::Options),
    stop: &CancellationToken,
    announce: impl FnOnce(),
) -> Result<Option<LinkCloser>> {
    let app = Arc::new(process.current_app().await?);
    let (end_token, stopping_app) = (CancellationToken::new(), app.clone());
    let end_on_stop = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = end_token.cancelled() => return,
        }
        // Calls in progress are answered first.
        stopping_app.begin_stop();
        tokio::time::sleep(limits::SIGNAL_GRACE).await;
        end_token.cancel();
    };
    let (shared_app, listen_limit) = (app.clone(), ListenLimit::for_http());
    let handler = move || {
        Server::with_listen_limit(shared_app.clone(), listen_limit.clone()).with_profile(profile)
    };
    let http = streamable::serve_http(listener, handler, options, end_token.clone());
    let stdio = async {
        if transports.serves_stdio() {
            let server = Server::new(app.clone()).with_profile(profile);
            if let Err(error) = mcp::serve_stdio(server, end_token.child_token()).await {
                tracing::warn!(%error, "standard input and output are served no more");
            }
            if transports.ends_with_host() {
                stop.cancel();
            }
        }
    };
    let (http, (), closer, ()) = tokio::join!(
        http,
        stdio,
        take_directory_ownership(process, &app, &end_token, announce),
        end_on_stop
    );
    http.and(closer)
}

/// Takes ownership of the directory as soon as it is free; `None` if `end_token` is cancelled first. If another process
/// already serves HTTP for the directory, this one ends without calling `announce`.
async fn take_directory_ownership(
    process: &Process,
    app: &App,
    end_token: &CancellationToken,
    announce: impl FnOnce(),
) -> Result<Option<LinkCloser>> {
    let is_refused = |error: &Error| error.code() == Code::AddressUnusable;
    let mut owner_result = end_token.run_until_cancelled(process.look_for_owner()).await;
    if !matches!(&owner_result, Some(Err(error)) if is_refused(error)) {
        announce();
    }
    let mut last_warning = None;
    loop {
        match owner_result {
            None => return Ok(None),
            Some(Ok(Some(link))) => return Ok(Some(link.into_streams().2)),
            Some(Ok(None)) => {}
            Some(Err(error)) if is_refused(&error) => {
                end_token.cancel();
                return Err(error);
            }
            Some(Err(error)) => {
                let warning = error.to_string();
                if last_warning.as_ref() != Some(&warning) {
                    log_error_warning(&error);
                    last_warning = Some(warning);
                }
                app.record_ownership_error(error).await;
                let retry_delay = tokio::time::sleep(limits::STORE_RETRY_EVERY);
                end_token.run_until_cancelled(retry_delay).await;
            }
        }
        let result = end_token.run_until_cancelled(process.find_owner()).await;
        owner_result = result.map(|found| found.map(Some));
    }
}

/// The transports that the server listens on, for its start-up lines.
fn listening_addresses(
    transports: &TransportArgs,
    http_listener: Option<&(TcpListener, streamable::Options)>,
) -> Vec<String> {
    let address = http_listener.and_then(|(listener, _)| listener.local_addr().ok());
    let http = address.map(|address| format!("http://{address}{}", streamable::ENDPOINT_PATH));
    let stdio = transports.serves_stdio().then(|| "stdio".to_owned());
    stdio.into_iter().chain(http).collect()
}

/// Logs a warning with an error and its suggested action.
fn log_error_warning(error: &Error) {
    tracing::warn!(code = error.code().as_str(), "{error}; help: {}", suggested_action(error));
}

/// Cancels the token after a signal.
async fn cancel_on_signal(signals: EndSignals, stop: CancellationToken) {
    wait_for_signal(signals).await;
    stop.cancel();
}
