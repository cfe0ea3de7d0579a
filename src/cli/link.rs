//! A session that may come and go: what was asked is asked again where the server went away, and a store of this
//! process's own is let go while its user waits for something else.

use serde_json::Value;

use super::session::Session;
use crate::{
    config::Config,
    domain::State,
    error::{Code, Result},
    limits,
    mcp::client::Client,
    uri,
};

/// A session, opened by the first question.
pub(super) struct Link<'a> {
    config: &'a Config,
    session: Option<Session>,
    has_retried: bool,
}

impl<'a> Link<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        Self {
            config,
            session: None,
            has_retried: false,
        }
    }

    /// Calls a tool. Where a server goes away it is called again, although the call may have been done: one that does
    /// not answer its repeat as the first time is for who looks at [`Link::has_retried`].
    ///
    /// # Errors
    /// What the tool refuses with; `SERVER_STOPPING` where server after server goes away.
    pub(super) async fn call(&mut self, tool: &'static str, arguments: Value) -> Result<Value> {
        self.retrying(async |client: &Client| client.call(tool, arguments.clone()).await)
            .await
    }

    /// Whether something was asked more than once.
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
                    self.drop_session().await;
                    tokio::time::sleep(limits::STORE_RETRY_EVERY / 4).await;
                }
                answer => return answer,
            }
        }
    }

    async fn session(&mut self) -> Result<&Session> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::open(self.config).await?,
        };
        Ok(self.session.insert(session))
    }

    /// Whatever the server that went away still has to say is of no use.
    async fn drop_session(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = session.close().await;
        }
    }

    /// Lets the store go where it is this process's own, so that a server finds it free. Whether it was.
    pub(super) async fn release(&mut self) -> Result<bool> {
        match self.session.take_if(|session| session.is_embedded()) {
            Some(session) => session.close().await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Whether the session that is open is one with a server.
    pub(super) fn is_served(&self) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| !session.is_embedded())
    }

    /// Says good-bye after what was asked: that is done, however the session ends.
    pub(super) async fn end(self) {
        if let Err(error) = self.close().await {
            tracing::warn!(%error, "the session did not end in order");
        }
    }

    /// Says good-bye. A server that has gone already has heard all there was to hear.
    pub(super) async fn close(mut self) -> Result<()> {
        self.release().await?;
        self.drop_session().await;
        Ok(())
    }
}

/// Whether an execution in this state has ended.
pub(super) fn is_final(state: &Value) -> bool {
    let state = State::ALL.iter().find(|known| *state == known.as_str());
    state.is_some_and(|state| state.is_final())
}
