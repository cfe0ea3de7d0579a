//! A session that reconnects: a call is repeated if the server went away, and an embedded server releases the store
//! while the command waits for its user.

use std::{path::Path, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use midex_domain::{
    State,
    clock::{SteadyClock, SystemIds},
    error::{Code, Error, Result},
    limits, uri,
    view::{
        AdvanceReply, ArtifactContent, CurrentStep, ExecutionPage, ExecutionView, GraphView,
        HistoryRow, PastPoint, StatusView,
    },
};
pub(super) use midex_mcp::client::{parse_reply, remove_nulls};
use midex_mcp::{Process, client::Client, session::Session};
use midex_server::{
    app::{OpenWork, Options},
    config::Config,
};

/// A session that opens at the first call, and reopens if its server goes away.
pub(super) struct ServerLink<'a> {
    config: &'a Config,
    /// Whether an embedded server works on executions: a command that ends after one call would interrupt that work.
    is_worker: bool,
    session: Option<Session>,
    has_retried: bool,
}

impl<'a> ServerLink<'a> {
    /// A link for a command that makes a few calls and ends. Its embedded server does not work on executions.
    pub(super) fn new(config: &'a Config) -> Self {
        Self { config, is_worker: false, session: None, has_retried: false }
    }

    /// A link for a command that stays while executions run. Its embedded server works on them if no other process has
    /// one.
    pub(super) fn new_worker(config: &'a Config) -> Self {
        Self { is_worker: true, ..Self::new(config) }
    }

    /// The data directory.
    pub(super) fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// Opens the session in advance. A later call that fails may then have reached a server.
    ///
    /// # Errors
    /// Those of opening the store; `SERVER_STOPPING` if one server after another goes away.
    pub(super) async fn open(&mut self) -> Result<()> {
        self.open_session().await.map(|_| ())
    }

    /// Calls a tool; repeats the call if the server goes away, although the first call may have taken effect. A caller
    /// for which a repeated call gets another answer checks [`ServerLink::has_retried`].
    ///
    /// # Errors
    /// The refusal of the tool; `SERVER_STOPPING` if one server after another goes away.
    pub(super) async fn call(&mut self, tool: &'static str, arguments: Value) -> Result<Value> {
        self.call_with_retries(async |client: &Client| {
            client.call_tool(tool, arguments.clone()).await
        })
        .await
    }

    /// Calls a tool that must not be called twice.
    ///
    /// # Errors
    /// The refusal of the tool; `SERVER_STOPPING` if the server goes away, in which case the call may or may not have
    /// taken effect.
    pub(super) async fn call_once(
        &mut self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<Value> {
        self.open_session().await?.client.call_tool(tool, arguments).await
    }

    /// Whether any call was repeated.
    pub(super) fn has_retried(&self) -> bool {
        self.has_retried
    }

    /// The status of an execution.
    pub(super) async fn fetch_status(&mut self, id: &str) -> Result<StatusView> {
        Ok(self.fetch_status_reply(id).await?.1)
    }

    /// The status of an execution: the reply, which `--json` prints, and its content.
    pub(super) async fn fetch_status_reply(&mut self, id: &str) -> Result<(Value, StatusView)> {
        parse_with_reply(self.read_execution_resource("workflow_status", id).await?)
    }

    /// The current step of an execution: the reply and its content. `query` says for whom: `?reader=worker` for a
    /// person who does the step, empty for a model.
    pub(super) async fn fetch_current_step(
        &mut self,
        id: &str,
        query: &str,
    ) -> Result<(Value, CurrentStep)> {
        let id = uri::encode_segment(id);
        let address = format!("midex://workflow/current_step/{id}{query}");
        parse_with_reply(self.read_resource(&address).await?)
    }

    /// Calls a tool that moves an execution, `workflow.start` or one that hands in an output: the reply and its content.
    pub(super) async fn advance(
        &mut self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<(Value, AdvanceReply)> {
        parse_with_reply(self.call(tool, arguments).await?)
    }

    /// The open executions of the project: the reply and its content.
    pub(super) async fn fetch_open_work(&mut self) -> Result<(Value, OpenWork)> {
        parse_with_reply(self.call("execution.resume", json!({})).await?)
    }

    /// The content of an artifact from `offset` on, in part if it is long.
    pub(super) async fn read_artifact(
        &mut self,
        uri: &str,
        offset: u64,
    ) -> Result<ArtifactContent> {
        let limit = limits::ARTIFACT_SHOWN_BYTES_MAX;
        parse_reply(self.read_resource(&format!("{uri}?offset={offset}&limit={limit}")).await?)
    }

    /// The persona at an address.
    pub(super) async fn fetch_persona(&mut self, address: &str) -> Result<Option<String>> {
        let agent = self.read_resource(address).await?;
        Ok(agent["content"].as_str().map(str::to_owned))
    }

    /// The status of an execution, once it has passed the revision `since` (`None`: once it has moved) or nothing has
    /// happened for a while.
    pub(super) async fn wait_for_change(
        &mut self,
        id: &str,
        since: Option<u64>,
    ) -> Result<StatusView> {
        let arguments = remove_nulls(json!({
            "execution_id": id, "since_revision": since, "timeout_s": limits::TAIL_WAIT_S
        }));
        parse_reply(self.call("execution.wait", arguments).await?)
    }

    /// Every visit of every step of an execution.
    pub(super) async fn fetch_history(&mut self, id: &str) -> Result<Vec<HistoryRow>> {
        parse_reply(self.read_execution_resource("step_history", id).await?)
    }

    /// The graph of an execution's steps, with the state of each.
    pub(super) async fn fetch_graph(&mut self, id: &str) -> Result<GraphView> {
        let id = uri::encode_segment(id);
        let address = format!("midex://workflow/workflow_status/{id}?graph=true");
        parse_reply(self.read_resource(&address).await?)
    }

    /// A page of executions. `arguments` are those of `execution.list`.
    pub(super) async fn list_executions(&mut self, arguments: Value) -> Result<ExecutionPage> {
        parse_reply(self.call("execution.list", arguments).await?)
    }

    /// An execution as `midex show` prints it: the reply, which `--json` prints, and its content.
    pub(super) async fn fetch_execution(
        &mut self,
        id: &str,
        at: Option<PastPoint>,
    ) -> Result<(Value, ExecutionView)> {
        let arguments =
            remove_nulls(json!({ "execution_id": id, "at": at.map(|at| at.to_string()) }));
        parse_with_reply(self.call("execution.show", arguments).await?)
    }

    /// Reads a resource of an execution.
    async fn read_execution_resource(&mut self, resource: &str, id: &str) -> Result<Value> {
        self.read_resource(&uri::execution_uri(resource, id)).await
    }

    /// Reads a resource.
    pub(super) async fn read_resource(&mut self, address: &str) -> Result<Value> {
        self.call_with_retries(async |client: &Client| client.read_resource(address).await).await
    }

    async fn call_with_retries(
        &mut self,
        request: impl AsyncFn(&Client) -> Result<Value>,
    ) -> Result<Value> {
        let mut attempts = 1;
        loop {
            let answer = match self.open_session().await {
                Ok(session) => request(&session.client).await,
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

    async fn open_session(&mut self) -> Result<&Session> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::open(&command_process(self.config, self.is_worker)).await?,
        };
        Ok(self.session.insert(session))
    }

    /// Closes the session, and ignores errors of a server that went away.
    pub(super) async fn drop_session(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = session.close().await;
        }
    }

    /// Stops the embedded server, so that other processes can open the store; true if there was one.
    pub(super) async fn release_store(&mut self) -> Result<bool> {
        match self.session.take_if(|session| session.is_embedded()) {
            Some(session) => session.close().await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Whether a session with another process's server is open.
    pub(super) fn is_served(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.is_embedded())
    }

    /// Closes the session after the command's work is done. An error is only logged.
    pub(super) async fn close_and_log(self) {
        if let Err(error) = self.close().await {
            tracing::warn!(%error, "the session did not end in order");
        }
    }

    /// Closes the session. Only stopping an embedded server can fail.
    pub(super) async fn close(mut self) -> Result<()> {
        self.release_store().await?;
        self.drop_session().await;
        Ok(())
    }
}

/// The process of a command. If it embeds a server, that works on executions only with `is_worker`.
pub(super) fn command_process(config: &Config, is_worker: bool) -> Process {
    let (clock, ids) = (Arc::new(SteadyClock::default()), Arc::new(SystemIds));
    Process::for_command(Options { is_worker, ..Options::new(config.clone(), clock, ids) })
}

/// Whether a call that failed with this error may have taken effect nevertheless.
pub(super) fn may_have_taken_effect(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::ServerStopping | Code::Cancelled | Code::StoreUnavailable | Code::Internal
    )
}

/// The reply of a server, which `--json` prints, and its content.
fn parse_with_reply<T: DeserializeOwned>(reply: Value) -> Result<(Value, T)> {
    Ok((reply.clone(), parse_reply(reply)?))
}

/// True if `midex retry` is suggested for an execution in the state of this name. A child is not retried by itself: the
/// retry of its root continues the child too.
pub(super) fn offers_retry(state: &str, parent: Option<&str>) -> bool {
    parent.is_none() && State::parse(state).is_some_and(State::can_be_retried)
}

/// Whether the state, by its name, is a final one.
pub(super) fn is_final_state(state: &str) -> bool {
    State::parse(state).is_some_and(State::is_final)
}
