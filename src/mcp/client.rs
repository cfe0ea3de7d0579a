//! An MCP client of a server that this process started: what `demo` acts with.

use std::process::Stdio;

use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, ReadResourceRequestParams, ResourceContents},
    service::RunningService,
};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::error::{Error, Result};

/// A client and the server it started.
#[derive(Debug)]
pub struct Client {
    session: RunningService<RoleClient, ()>,
    server: Child,
}

impl Client {
    /// Starts the server and shakes hands with it.
    pub async fn start(mut command: Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut server = command
            .spawn()
            .map_err(|error| failed("the server could not be started", error))?;
        let (Some(stdout), Some(stdin)) = (server.stdout.take(), server.stdin.take()) else {
            return Err(Error::internal("the server has no standard streams"));
        };
        let session =
            ().serve((stdout, stdin))
                .await
                .map_err(|error| failed("the handshake failed", error))?;
        Ok(Self { session, server })
    }

    /// Calls a tool and answers with its structured content.
    ///
    /// # Errors
    /// `INTERNAL` with the refusal's words where the tool refuses.
    pub async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value> {
        let Value::Object(arguments) = arguments else {
            return Err(Error::internal("arguments must be an object"));
        };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.session.call_tool(request).await;
        let result = result.map_err(|error| failed(&format!("{tool} failed"), error))?;
        let value = result.structured_content.unwrap_or_default();
        if result.is_error == Some(true) {
            return Err(Error::internal(format!(
                "{tool} was refused: {}",
                value["error"]
            )));
        }
        Ok(value)
    }

    /// Reads a resource that holds JSON.
    pub async fn read(&self, uri: &str) -> Result<Value> {
        let result = self
            .session
            .read_resource(ReadResourceRequestParams::new(uri))
            .await;
        let result = result.map_err(|error| failed(&format!("{uri} could not be read"), error))?;
        let text = result
            .contents
            .into_iter()
            .find_map(|contents| match contents {
                ResourceContents::TextResourceContents { text, .. } => Some(text),
                _ => None,
            });
        serde_json::from_str(&text.unwrap_or_default())
            .map_err(|error| failed(&format!("{uri} is not JSON"), error))
    }

    /// Ends the server as a crash would: at once, with nothing said to it.
    pub async fn kill_server(mut self) -> Result<()> {
        self.server
            .kill()
            .await
            .map_err(|error| failed("the server could not be killed", error))
    }

    /// Says good-bye and waits for the server to end.
    pub async fn stop(mut self) -> Result<()> {
        self.session
            .cancel()
            .await
            .map_err(|error| failed("the session did not end", error))?;
        let status = self
            .server
            .wait()
            .await
            .map_err(|error| failed("the server did not end", error))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::internal(format!("the server ended with {status}")))
    }
}

fn failed(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal(format!("{what}: {error}")).because(error)
}
