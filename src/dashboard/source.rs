//! The connection to the server that owns the data directory: another process, or this one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::Duration,
};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, broadcast};

use midex_domain::error::{Code, Result};
use midex_mcp::{
    Process,
    client::{Client, parse_reply},
    control::Greeting,
    session::Session,
};

/// How often a page that waits for changes looks whether its server is still there.
const CONNECTION_CHECKED_EVERY: Duration = Duration::from_millis(500);

/// Calls tools and reads resources of the server; connects when it is first needed, and again after the server went away.
#[derive(Debug)]
pub(crate) struct ServerConnection {
    process: Process,
    connection: Mutex<Option<Arc<OpenSession>>>,
}

#[derive(Debug)]
struct OpenSession {
    session: Session,
    /// The resources whose changes the server reports, each with the number of pages that show it.
    subscriptions: StdMutex<HashMap<String, usize>>,
}

impl ServerConnection {
    pub(crate) fn new(process: Process) -> Self {
        Self { process, connection: Mutex::default() }
    }

    /// Connects, if there is no connection.
    ///
    /// # Errors
    /// `STORE_BUSY` if the owner of the data directory does not answer; those of opening the store.
    pub(crate) async fn check_connection(&self) -> Result<()> {
        self.connect().await?.release().await;
        Ok(())
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// The refusal of the tool; `SERVER_STOPPING` if the server went away, in which case it is unknown whether the call
    /// took effect.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<T> {
        self.request(async |client: &Client| client.call_tool(tool, arguments).await).await
    }

    /// Calls a tool that only reads; once more if the server went away.
    ///
    /// # Errors
    /// As [`ServerConnection::call`].
    pub(crate) async fn query<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<T> {
        match self.call(tool, arguments.clone()).await {
            Err(error) if error.code() == Code::ServerStopping => self.call(tool, arguments).await,
            reply => reply,
        }
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// As [`ServerConnection::call`].
    pub(crate) async fn read<T: DeserializeOwned>(&self, uri: &str) -> Result<T> {
        self.request(async |client: &Client| client.read_resource(uri).await).await
    }

    /// Follows changes of these resources from now on.
    ///
    /// # Errors
    /// Those of connecting, and the refusal of a subscription.
    pub(crate) async fn watch(&self, uris: &[String]) -> Result<Watch> {
        let connection = self.connect().await?;
        let updates = connection.session.client.updates();
        let mut watch = Watch { connection: Some(connection), uris: Vec::new(), updates };
        for uri in uris {
            watch.subscribe(uri).await?;
        }
        Ok(watch)
    }

    /// What the server says of itself and of its clients.
    ///
    /// # Errors
    /// Those of connecting.
    pub(crate) async fn greet(&self) -> Result<Option<Greeting>> {
        self.connect().await?.release().await;
        self.process.greet_owner().await
    }

    /// Closes the connection, and the store if this process owns it.
    pub(crate) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take() {
            connection.release().await;
        }
    }

    async fn connect(&self) -> Result<Arc<OpenSession>> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current
            && !connection.session.client.is_closed()
        {
            return Ok(connection.clone());
        }
        if let Some(ended) = current.take() {
            ended.release().await;
        }
        let session = Session::open(&self.process).await?;
        let connection = Arc::new(OpenSession { session, subscriptions: StdMutex::default() });
        Ok(current.insert(connection).clone())
    }

    /// Sends a request. If the server goes away, the next request connects anew.
    async fn request<T: DeserializeOwned>(
        &self,
        send: impl AsyncFnOnce(&Client) -> Result<Value>,
    ) -> Result<T> {
        let connection = self.connect().await?;
        let reply = send(&connection.session.client).await;
        if matches!(&reply, Err(error) if error.code() == Code::ServerStopping) {
            let mut current = self.connection.lock().await;
            drop(current.take_if(|current| Arc::ptr_eq(current, &connection)));
        }
        connection.release().await;
        parse_reply(reply?)
    }
}

impl OpenSession {
    /// Gives up this reference. The last one closes the session.
    async fn release(self: Arc<Self>) {
        if let Some(connection) = Arc::into_inner(self)
            && let Err(error) = connection.session.close().await
        {
            tracing::debug!(%error, "a session of the dashboard did not end in order");
        }
    }

    /// Adds to the number of pages that show a resource; the new number.
    fn count_pages(&self, uri: &str, add: bool) -> usize {
        let mut subscriptions = self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = subscriptions.entry(uri.to_owned()).or_default();
        *count = if add { *count + 1 } else { count.saturating_sub(1) };
        let count = *count;
        if count == 0 {
            subscriptions.remove(uri);
        }
        count
    }
}

/// Follows changes of resources until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Only `None` while it is dropped.
    connection: Option<Arc<OpenSession>>,
    uris: Vec<String>,
    updates: broadcast::Receiver<String>,
}

impl Watch {
    async fn subscribe(&mut self, uri: &str) -> Result<()> {
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        self.uris.push(uri.to_owned());
        if connection.count_pages(uri, true) == 1 {
            connection.session.client.subscribe(uri).await?;
        }
        Ok(())
    }

    /// Waits until one of the resources changes. False if the server went away.
    pub(crate) async fn wait_for_change(&mut self) -> bool {
        let is_closed = |connection: &Option<Arc<OpenSession>>| {
            connection.as_ref().is_none_or(|current| current.session.client.is_closed())
        };
        loop {
            tokio::select! {
                update = self.updates.recv() => match update {
                    Ok(uri) if self.uris.contains(&uri) => return true,
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => return true,
                    Err(broadcast::error::RecvError::Closed) => return false,
                },
                () = tokio::time::sleep(CONNECTION_CHECKED_EVERY) => {
                    if is_closed(&self.connection) {
                        return false;
                    }
                }
            }
        }
    }

    /// Forgets the changes until now, which the next rendering shows.
    pub(crate) fn forget_changes(&mut self) {
        self.updates = self.updates.resubscribe();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        let uris = std::mem::take(&mut self.uris);
        tokio::spawn(async move {
            for uri in uris {
                if connection.count_pages(&uri, false) == 0
                    && let Err(error) = connection.session.client.unsubscribe(&uri).await
                {
                    tracing::debug!(%error, "a subscription of the dashboard did not end in order");
                }
            }
            connection.release().await;
        });
    }
}

/// The address of the list of executions, which changes when any execution does.
pub(crate) const EXECUTIONS_URI: &str = "midex://workflow/executions";
