//! An MCP client, used by `demo` and by every command that reads executions.

use std::process::Stdio;

use rmcp::{
    ClientHandler, RoleClient, ServiceExt,
    model::{
        CallToolRequestParams, ClientRequest, PingRequest, ReadResourceRequestParams,
        ResourceContents, ResourceUpdatedNotificationParam, SubscribeRequestParams,
        UnsubscribeRequestParams,
    },
    service::{ClientInitializeError, NotificationContext, RunningService, ServiceError},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    process::{Child, Command},
    sync::broadcast,
};

use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// A client of a server that it started itself, or that it connected to.
#[derive(Debug)]
pub struct Client {
    session: RunningService<RoleClient, UpdateListener>,
    server: Option<Child>,
}

/// Passes on the addresses of resources that have changed.
#[derive(Debug)]
struct UpdateListener(broadcast::Sender<String>);

impl ClientHandler for UpdateListener {
    async fn on_resource_updated(
        &self,
        update: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Sending fails if there is no receiver, and then the update is not needed.
        let _ = self.0.send(update.uri);
    }
}

impl Client {
    /// Starts a server process and performs the MCP handshake.
    pub async fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut server = command
            .spawn()
            .map_err(|error| internal_client_error("the server could not be started", error))?;
        let (Some(stdout), Some(stdin)) = (server.stdout.take(), server.stdin.take()) else {
            return Err(Error::internal("the server has no standard streams"));
        };
        Ok(Self { server: Some(server), ..Self::connect(stdout, stdin).await? })
    }

    /// Performs the handshake with the server at the other end of the two streams.
    ///
    /// # Errors
    /// `SERVER_STOPPING` if the connection closes during the handshake.
    pub async fn connect(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Self> {
        let listener = UpdateListener(broadcast::Sender::new(limits::CLIENT_UPDATES_KEPT));
        let session = listener.serve((input, output)).await;
        let session = session.map_err(|error| match error {
            ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::TransportError { .. } => {
                connection_closed_error("the handshake", error)
            }
            error => internal_client_error("the handshake failed", error),
        })?;
        Ok(Self { session, server: None })
    }

    /// Calls a tool and returns its structured content.
    ///
    /// # Errors
    /// The error that the tool returned; `SERVER_STOPPING` if the connection closed, and `STORE_BUSY` if the server
    /// process is suspended. In both cases it is unknown whether the call was done.
    pub async fn call_tool(&self, tool: &'static str, arguments: Value) -> Result<Value> {
        let Value::Object(arguments) = arguments else {
            return Err(Error::internal("arguments must be an object"));
        };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.await_answer(tool, self.session.call_tool(request)).await?;
        match result.structured_content {
            Some(Value::Object(payload)) if result.is_error == Some(true) => {
                Err(Error::from_payload(&payload))
            }
            value => Ok(value.unwrap_or_default()),
        }
    }

    /// Reads a resource with JSON content.
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    pub async fn read_resource(&self, uri: &str) -> Result<Value> {
        let request = ReadResourceRequestParams::new(uri);
        let result = self.await_answer(uri, self.session.read_resource(request)).await?;
        let text = result.contents.into_iter().find_map(|contents| match contents {
            ResourceContents::TextResourceContents { text, .. } => Some(text),
            _ => None,
        });
        serde_json::from_str(&text.unwrap_or_default())
            .map_err(|error| internal_client_error(&format!("{uri} is not JSON"), error))
    }

    /// Asks the server to report changes of a resource.
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    #[expect(deprecated, reason = "it ends with the handshake, which this client makes")]
    pub async fn subscribe(&self, uri: &str) -> Result<()> {
        let request = SubscribeRequestParams::new(uri);
        self.await_answer(uri, self.session.subscribe(request)).await
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    #[expect(deprecated, reason = "it ends with the handshake, which this client makes")]
    pub async fn unsubscribe(&self, uri: &str) -> Result<()> {
        let request = UnsubscribeRequestParams::new(uri);
        self.await_answer(uri, self.session.unsubscribe(request)).await
    }

    /// The addresses of subscribed resources that change from now on. A receiver that falls behind by more than
    /// [`limits::CLIENT_UPDATES_KEPT`] loses the oldest ones.
    pub fn updates(&self) -> broadcast::Receiver<String> {
        self.session.service().0.subscribe()
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.session.is_transport_closed()
    }

    /// Waits for an answer while the server responds to pings. There is no timeout otherwise, since a call may take
    /// minutes.
    async fn await_answer<T>(
        &self,
        request_name: &str,
        request: impl Future<Output = std::result::Result<T, ServiceError>>,
    ) -> Result<T> {
        tokio::select! {
            answer = Box::pin(request) => answer.map_err(|error| failed_request_error(request_name, error)),
            () = Box::pin(self.wait_for_suspension()) => {
                let message = format!(
                    "the process that uses the data directory does not answer any more: it is not known whether {request_name} was done"
                );
                Err(Error::new(Code::StoreBusy, message))
            }
        }
    }

    /// Waits until the server fails to answer a ping, which means that its process is suspended.
    async fn wait_for_suspension(&self) {
        let mut is_responsive = true;
        while is_responsive {
            tokio::time::sleep(limits::OWNER_SILENT_MAX).await;
            let ping = ClientRequest::PingRequest(PingRequest::default());
            let ping = self.session.send_request(ping);
            let answer = tokio::time::timeout(limits::OWNER_ALIVE_MAX, ping);
            is_responsive = answer.await.is_ok();
        }
    }

    /// Kills the server process, as in a crash.
    pub async fn kill_server(mut self) -> Result<()> {
        match &mut self.server {
            Some(server) => server
                .kill()
                .await
                .map_err(|error| internal_client_error("the server could not be killed", error)),
            None => Err(Error::internal("the server is not this client's to kill")),
        }
    }

    /// Closes the session, and waits for a server that it started to exit.
    pub async fn stop(self) -> Result<()> {
        let end_result = self.session.cancel().await;
        end_result.map_err(|error| internal_client_error("the session did not end", error))?;
        let Some(mut server) = self.server else {
            return Ok(());
        };
        let status = server
            .wait()
            .await
            .map_err(|error| internal_client_error("the server did not end", error))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::internal(format!("the server ended with {status}")))
    }
}

/// The arguments of a call without null values.
pub fn remove_nulls(mut arguments: Value) -> Value {
    if let Value::Object(arguments) = &mut arguments {
        arguments.retain(|_, value| !value.is_null());
    }
    arguments
}

/// Reads the reply of a server, which may be newer: fields that this version does not know are ignored.
pub fn parse_reply<T: DeserializeOwned>(reply: Value) -> Result<T> {
    T::deserialize(reply).map_err(|error| {
        Error::internal("the reply of the server cannot be read").with_source(error)
    })
}

/// The error for a failed request. Uses the server's error payload if there is one.
fn failed_request_error(request_name: &str, error: ServiceError) -> Error {
    if let ServiceError::McpError(fault) = &error
        && let Some(Value::Object(payload)) = &fault.data
    {
        return Error::from_payload(payload);
    }
    match error {
        ServiceError::TransportSend(_)
        | ServiceError::TransportClosed
        | ServiceError::Cancelled { .. } => connection_closed_error(request_name, error),
        error => internal_client_error(request_name, error),
    }
}

fn connection_closed_error(
    request_name: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let message = format!("the server went away during {request_name}");
    Error::new(Code::ServerStopping, message).with_source(error)
}

fn internal_client_error(
    request_name: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    Error::internal(format!("{request_name}: {error}")).with_source(error)
}
