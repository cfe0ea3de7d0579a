//! What the official conformance suite of the Model Context Protocol asks a server for, served through the same
//! transport as midex itself: tools, prompts, resources and tasks with fixed names and fixed words.
//!
//! `cargo run --example conformance -- 127.0.0.1:0` prints the endpoint as one line and serves until it is ended.
//! `tests/conformance/run` starts it, and the suite against it.

mod asking;
mod changes;
mod content;
mod prompts;
mod resources;
mod rounds;
mod server;
mod skills;
mod tasks;
mod telling;
mod tools;

use std::{error::Error, io::Write, sync::Arc};

use midex_mcp::http;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use server::{Fixtures, Shared};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let endpoint = format!("http://{}{}", listener.local_addr()?, http::ENDPOINT_PATH);
    writeln!(std::io::stdout(), "{endpoint}")?;
    let shared = Arc::new(Shared::new()?);
    let handler = move || Fixtures::new(shared.clone());
    let stop = CancellationToken::new();
    http::serve_http(listener, handler, http::Options::default(), stop).await?;
    Ok(())
}
