//! Watches of tasks of protocol version 2025-11-25: background work that tells the client what happens to a task.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    RoleServer,
    model::{
        CustomNotification, DetailedTask, ElicitRequest, InputRequest, MetaObject,
        RequestMetaObject, ServerNotification, TaskPayload, TaskStatus,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Server,
    session_tasks::{RELATED_TASK_KEY, build_session_task},
};
use crate::{elicitation::send_elicitation, tools::serialize_view};
use midex_domain::{
    ExecutionId,
    error::{Code, Error, Result},
    limits,
};

/// The background work for each watched task of one client: it notifies the client of changes of the status, and asks the
/// user what the task waits for. Questions need no pending `tasks/result`, since Visual Studio Code sends only `tasks/get`
/// while a task waits. The work ends with the client.
pub(super) type TaskWatches = Arc<Mutex<HashMap<ExecutionId, AbortOnDropHandle<()>>>>;

impl Server {
    /// Watches a task once `begin` completes, unless it is watched already, or the client has [`limits::LISTENS_MAX`]
    /// watches. `sent_status` is the status that the client knows.
    pub(super) fn ensure_watch(
        &self,
        id: &ExecutionId,
        sent_status: Option<TaskStatus>,
        begin: impl Future<Output = ()> + Send + 'static,
        context: &RequestContext<RoleServer>,
    ) {
        let mut watches = self.task_watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|_, work| !work.is_finished());
        if watches.len() == limits::LISTENS_MAX || watches.contains_key(id) {
            return;
        }
        // A server without watches: this one ends them when it is dropped.
        let (server, task_id) = (Self::new(self.app.clone()), id.clone());
        let context = RequestContext::new(context.id.clone(), context.peer.clone());
        let work = tokio::spawn(async move {
            begin.await;
            if let Err(error) = server.watch_task(&task_id, sent_status, &context).await {
                tracing::debug!(%error, "a task is not watched any more");
            }
        });
        watches.insert(id.clone(), AbortOnDropHandle::new(work));
    }

    async fn watch_task(
        &self,
        id: &ExecutionId,
        mut sent_status: Option<TaskStatus>,
        context: &RequestContext<RoleServer>,
    ) -> Result<()> {
        let listener = self.app.change_notifier().new_listener();
        // The questions that were answered or declined, or whose answers were refused too often.
        let (mut closed_keys, mut refusals) = (BTreeSet::new(), 0);
        loop {
            self.app.watch_turn(id, &listener).await?;
            let task = self.read_session_task(id, context).await?;
            let status = task.status();
            if sent_status.replace(status).is_some_and(|sent| sent != status) {
                let params = Some(build_session_task(&task.task));
                let notification = CustomNotification::new("notifications/tasks/status", params);
                let notification = ServerNotification::CustomNotification(notification);
                let sent = context.peer.send_notification(notification).await;
                sent.map_err(|error| Error::internal("no notification").with_source(error))?;
            }
            if status.is_terminal() {
                return Ok(());
            }
            if let Some((key, form)) = find_question(&task, &closed_keys) {
                match self.ask_task_question(id, &key, form, context).await {
                    Err(error)
                        if error.code() == Code::StepOutputInvalid
                            && refusals < limits::QUESTIONS_PER_CALL_MAX =>
                    {
                        refusals += 1;
                    }
                    asked => {
                        asked?;
                        closed_keys.insert(key);
                    }
                }
                continue;
            }
            listener.wait_for_change().await;
            while listener.take_marked_name().is_some() {}
        }
    }

    /// Asks the user a question of a task, and withdraws it when it is answered elsewhere.
    ///
    /// # Errors
    /// `STEP_OUTPUT_INVALID` if the answer is refused.
    async fn ask_task_question(
        &self,
        id: &ExecutionId,
        key: &str,
        form: ElicitRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<()> {
        let mut meta = MetaObject::default();
        meta.0.insert(RELATED_TASK_KEY.to_owned(), json!({ "taskId": id.as_str() }));
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject(meta));
        let withdrawal = CancellationToken::new();
        let answer = send_elicitation(&context.peer, form, options, &withdrawal);
        tokio::pin!(answer);
        let listener = self.app.change_notifier().new_listener();
        let answer = loop {
            self.app.watch_turn(id, &listener).await?;
            if !self.is_open(id, key).await? {
                withdrawal.cancel();
            }
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                () = listener.wait_for_change() => while listener.take_marked_name().is_some() {},
            }
        };
        let Some(answer) = answer else {
            return Ok(());
        };
        let responses = [(key.to_owned(), serialize_view(&answer)?)].into();
        self.answer_task(id.as_str(), responses, context).await
    }
}

/// The first question of a task that is not closed.
fn find_question(
    task: &DetailedTask,
    closed_keys: &BTreeSet<String>,
) -> Option<(String, ElicitRequest)> {
    let TaskPayload::InputRequired { input_requests } = &task.payload else {
        return None;
    };
    input_requests.iter().find_map(|(key, request)| match request {
        InputRequest::Elicitation(form) if !closed_keys.contains(key) => {
            Some((key.clone(), form.clone()))
        }
        _ => None,
    })
}
