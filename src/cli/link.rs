//! A session that reconnects: a question is asked again if the server went away, and an embedded server lets the store go
//! while the command waits for its user.

use std::path::Path;

use serde_json::Value;

use super::session::Session;
use midex_domain::{
    State,
    error::{Code, Error, Result},
    limits, uri,
};
use midex_mcp::client::Client;
use midex_server::config::Config;

/// A session that is opened by the first question, and reopened when its server goes away.
pub(super) struct Link<'a> {
    config: &'a Config,
    is_worker: bool,
    session: Option<Session>,
    has_retried: bool,
}

impl<'a> Link<'a> {
    /// A link of a command that asks or changes something and ends: without another process's server, no work is done.
    pub(super) fn new(config: &'a Config) -> Self {
        Self {
            config,
            is_worker: false,
            session: None,
            has_retried: false,
        }
    }

    /// A link of a command that stays while the server works: without another process's server, its own one does.
    pub(super) fn working(config: &'a Config) -> Self {
        Self {
            is_worker: true,
            ..Self::new(config)
        }
    }

    /// Where the executions are kept.
    pub(super) fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// Opens the session, so that what fails from then on may have been asked.
    ///
    /// # Errors
    /// Those of opening the store; `SERVER_STOPPING` if server after server goes away.
    pub(super) async fn open(&mut self) -> Result<()> {
        self.session().await.map(|_| ())
    }

    /// Calls a tool; again if the server goes away, although the first call may have done its work. Where a repeated call is
    /// answered otherwise than the first one, the caller asks [`Link::has_retried`].
    ///
    /// # Errors
    /// The refusal of the tool; `SERVER_STOPPING` if server after server goes away.
    pub(super) async fn call(&mut self, tool: &'static str, arguments: Value) -> Result<Value> {
        self.retrying(async |client: &Client| client.call(tool, arguments.clone()).await)
            .await
    }

    /// Calls a tool that may not be called twice.
    ///
    /// # Errors
    /// The refusal of the tool; `SERVER_STOPPING` if its server goes away: nobody knows whether it was called then.
    pub(super) async fn call_once(
        &mut self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<Value> {
        self.session().await?.client.call(tool, arguments).await
    }

    /// Whether any question was asked more than once.
    pub(super) fn has_retried(&self) -> bool {
        self.has_retried
    }

    /// Reads a resource of an execution.
    pub(super) async fn read_of(&mut self, resource: &str, id: &str) -> Result<Value> {
        let address = format!("midex://workflow/{resource}/{}", uri::encode(id));
        self.read(&address).await
    }

    /// Reads a resource.
    pub(super) async fn read(&mut self, address: &str) -> Result<Value> {
        self.retrying(async |client: &Client| client.read(address).await)
            .await
    }

    async fn retrying(
        &mut self,
        question: impl AsyncFn(&Client) -> Result<Value>,
    ) -> Result<Value> {
        let mut attempts = 1;
        loop {
            let answer = match self.session().await {
                Ok(session) => question(&session.client).await,
                Err(error) => Err(error),
            };
            match answer {
                Err(error)
                    if error.code() == Code::ServerStopping
                        && attempts < limits::LINK_ATTEMPTS_MAX =>
                {
                    attempts += 1;
                    self.has_retried = true;
                    self.leave().await;
                    tokio::time::sleep(limits::STORE_RETRY_EVERY / 4).await;
                }
                answer => return answer,
            }
        }
    }

    async fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::open(self.config, self.is_worker).await?,
        };
        Ok(self.session.insert(session))
    }

    /// Closes the session; errors of a server that went away do not matter.
    pub(super) async fn leave(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = session.close().await;
        }
    }

    /// Stops an embedded server, so that another process finds the store free; true if there was one.
    pub(super) async fn release(&mut self) -> Result<bool> {
        match self.session.take_if(|session| session.is_embedded()) {
            Some(session) => session.close().await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Whether a session with another process's server is open.
    pub(super) fn is_served(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| !session.is_embedded())
    }

    /// Closes the session after the command's work is done; an error is only logged.
    pub(super) async fn end(self) {
        if let Err(error) = self.close().await {
            tracing::warn!(%error, "the session did not end in order");
        }
    }

    /// Closes the session. Only the end of an embedded server can fail.
    pub(super) async fn close(mut self) -> Result<()> {
        self.release().await?;
        self.leave().await;
        Ok(())
    }
}

/// Whether a call that failed so may have done its work all the same.
pub(super) fn may_be_done(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::ServerStopping | Code::Cancelled | Code::StoreUnavailable | Code::Internal
    )
}

/// Arguments of a call without those that are null.
pub(super) fn given(mut arguments: Value) -> Value {
    if let Value::Object(arguments) = &mut arguments {
        arguments.retain(|_, value| !value.is_null());
    }
    arguments
}

/// Whether the state, by its name, is a final one.
pub(super) fn is_final(state: &Value) -> bool {
    let state = state.as_str().and_then(State::parse);
    state.is_some_and(State::is_final)
}
