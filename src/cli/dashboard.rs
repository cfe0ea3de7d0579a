//! `midex dashboard`, and the dashboard of `midex serve`: pages about executions, for a browser.

use std::{
    io::{self, IsTerminal},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    EXIT_OK, Output,
    approve::user_name,
    end_signals::{subscribe_to_signals, wait_for_signal},
    link::command_process,
    listener::{bind_listener, parse_listen_address},
    question::write_prompt,
};
use midex_dashboard::{Address, DashboardOptions, Listening};
use midex_domain::{
    clock::{SystemClock, SystemIds},
    error::{Code, Error, Result},
    limits,
};
use midex_server::config::Config;

/// The address of the dashboard if none is given.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7333";
/// How long a dashboard may take to answer a request for a link.
const LINK_WAIT_MAX: Duration = Duration::from_secs(2);
/// Much longer than any answer with a link.
const LINK_REPLY_BYTES_MAX: u64 = 16_384;

/// How the dashboard is served.
#[derive(Debug, Args)]
pub(super) struct DashboardArgs {
    /// The loopback address to listen on; port 0 picks a free port [default: 127.0.0.1:7333, or a free port]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_loopback_address)]
    listen: Option<SocketAddr>,
    /// Only print the link, and open no browser
    #[arg(long)]
    no_open: bool,
    /// Show pages without forms: nothing can be changed
    #[arg(long = "read-only")]
    is_read_only: bool,
}

/// The dashboard that a server serves besides.
#[derive(Debug, Args)]
pub(super) struct ServedDashboardArgs {
    /// Serve the dashboard on this loopback address too; `midex dashboard` opens it
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_loopback_address,
          num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS)]
    dashboard: Option<SocketAddr>,
    /// Show its pages without forms: nothing can be changed
    #[arg(long)]
    dashboard_read_only: bool,
}

/// Opens the dashboard of the server of this data directory, or serves one until it is stopped.
pub(super) async fn dashboard(
    args: DashboardArgs,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    if let Some(running) = request_link(&config.data_dir).await {
        if args.is_read_only && !running.is_read_only {
            let message = "the dashboard that runs on this data directory is not read-only";
            return Err(Error::new(Code::UsageInvalid, message)
                .with_action("End it, or run `midex dashboard` without --read-only"));
        }
        print_link(&running.link, &args, &mut out)?;
        return Ok(EXIT_OK);
    }
    let listener = bind_first_free(args.listen)?;
    let process = command_process(config, true).with_long_life();
    let listening =
        Listening::open(listener, process, make_options(config, args.is_read_only)).await?;
    let signals = subscribe_to_signals()?;
    print_link(&listening.make_link(), &args, &mut out)?;
    write_prompt("`midex dashboard` makes another link meanwhile; Ctrl-C ends the dashboard.\n")?;
    let stop = CancellationToken::new();
    let stop_on_signal = async {
        wait_for_signal(signals).await;
        stop.cancel();
    };
    let (served, ()) = tokio::join!(listening.serve(stop.clone()), stop_on_signal);
    served.map(|()| EXIT_OK)
}

/// Serves the dashboard beside a server until `stop` is cancelled. If the address is taken, logs a warning and returns `None`.
pub(super) fn serve_beside(
    args: &ServedDashboardArgs,
    config: &Config,
    stop: &CancellationToken,
) -> Option<JoinHandle<()>> {
    let address = args.dashboard?;
    let listener = match bind_listener(address) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!("no dashboard is served: {error}");
            return None;
        }
    };
    tracing::info!("the dashboard is on {address}; `midex dashboard` opens it");
    let process = command_process(config, false).without_ownership();
    let options = make_options(config, args.dashboard_read_only);
    let stop = stop.clone();
    Some(tokio::spawn(async move {
        // The server has not opened the data directory yet, or another one is just giving it up.
        while process.find_owner().await.is_err() {
            if stop
                .run_until_cancelled(tokio::time::sleep(limits::STORE_RETRY_EVERY))
                .await
                .is_none()
            {
                return;
            }
        }
        let served = match Listening::open(listener, process, options).await {
            Ok(listening) => listening.serve(stop).await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::warn!("the dashboard is not served: {error}");
        }
    }))
}

fn make_options(config: &Config, is_read_only: bool) -> DashboardOptions {
    DashboardOptions {
        data_dir: config.data_dir.clone(),
        person: user_name(),
        is_read_only,
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
    }
}

/// Listens on the address, or on the default one, or on a free port if that is taken.
fn bind_first_free(address: Option<SocketAddr>) -> Result<TcpListener> {
    if let Some(address) = address {
        return bind_listener(address);
    }
    let default = DEFAULT_ADDRESS
        .parse::<SocketAddr>()
        .map_err(|error| Error::internal("the default address is none").with_source(error))?;
    bind_listener(default).or_else(|_| bind_listener((Ipv4Addr::LOCALHOST, 0).into()))
}

/// Parses an address that only programs on this machine can reach.
fn parse_loopback_address(text: &str) -> Result<SocketAddr, String> {
    let address = parse_listen_address(text)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err("the dashboard is served on a loopback address only, such as 127.0.0.1:7333".to_owned())
}

/// Prints the link and, at a terminal, opens it in a browser.
fn print_link(link: &str, args: &DashboardArgs, out: &mut Output<'_>) -> Result<()> {
    out.print(|| json!({ "link": link }), || format!("{link}\n"))?;
    if io::stdout().is_terminal() && !args.no_open && !out.is_json {
        write_prompt("The link is valid once, for a minute.\n")?;
        open_browser(link);
    }
    Ok(())
}

/// Opens the link in the browser of the user, if there is one. The link was printed, so a failure is no error.
fn open_browser(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!(%error, "no browser could be opened");
    }
}

/// A dashboard that runs already, and a link into it.
struct RunningDashboard {
    link: String,
    is_read_only: bool,
}

/// Asks the dashboard that runs on this data directory for a link. `None` if none answers.
async fn request_link(data_dir: &Path) -> Option<RunningDashboard> {
    let address = Address::read(data_dir)?;
    let reply =
        tokio::time::timeout(LINK_WAIT_MAX, post_link_request(&address)).await.ok()?.ok()?;
    let link = address.origin() + reply.get("path")?.as_str()?;
    Some(RunningDashboard { link, is_read_only: reply["is_read_only"] == true })
}

async fn post_link_request(address: &Address) -> io::Result<Value> {
    let mut stream = TcpStream::connect(address.listen).await?;
    let request = format!(
        "POST /link HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        address.listen, address.token
    );
    stream.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    stream.take(LINK_REPLY_BYTES_MAX).read_to_string(&mut reply).await?;
    let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(serde_json::from_str(body)?)
}
