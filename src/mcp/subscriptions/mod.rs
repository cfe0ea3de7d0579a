//! Change notifications. Clients with a handshake subscribe to single resources; clients without one send a listen
//! request with a filter.

mod pending;
mod session;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    Peer, RoleServer,
    model::{Extensions, SubscriptionFilter},
    service::{SubscriptionSendError, SubscriptionSink},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task,
};
use tokio_util::sync::CancellationToken;

use self::{
    pending::{ChangeFeed, NoticeReceiver, PendingNotice, WatchedLists},
    session::SessionNotifier,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_server::app::App;

/// Limits the number of concurrent listens: of one client over a pair of streams, or of all clients without a handshake
/// over HTTP, whose servers share one limit. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ListenLimit {
    listen_slots: Arc<Semaphore>,
    max: usize,
}

impl ListenLimit {
    fn new(max: usize) -> Self {
        Self { listen_slots: Arc::new(Semaphore::new(max)), max }
    }

    /// The limit for one client over a pair of streams: [`limits::LISTENS_MAX`].
    pub fn for_one_client() -> Self {
        Self::new(limits::LISTENS_MAX)
    }

    /// The limit for all clients without a handshake over HTTP: [`limits::HTTP_LISTENS_MAX`].
    pub fn for_http() -> Self {
        Self::new(limits::HTTP_LISTENS_MAX)
    }
}

/// The subscriptions of one client.
#[derive(Debug)]
pub(super) struct Subscriptions {
    app: Arc<App>,
    listens: ListenLimit,
    /// The notifier of a client with a handshake. Created on first use.
    session: Mutex<Option<SessionNotifier>>,
    /// The version counter of the definitions at the start of the handshake.
    version_at_handshake: Mutex<Option<watch::Receiver<u64>>>,
    /// Listens that were accepted but not started yet, by task: one task accepts, acknowledges and runs a listen.
    /// Changes are recorded from the acceptance on, before the acknowledgement is sent.
    accepted_listens: Mutex<HashMap<task::Id, ListenState>>,
}

/// A listen that records changes.
#[derive(Debug)]
struct ListenState {
    /// Declared first, so that it is released first: a slot is free as soon as the listen ends.
    _permit: OwnedSemaphorePermit,
    notice_receiver: NoticeReceiver,
}

impl Subscriptions {
    pub(super) fn new(app: Arc<App>, listens: ListenLimit) -> Self {
        Self {
            app,
            listens,
            session: Mutex::default(),
            version_at_handshake: Mutex::default(),
            accepted_listens: Mutex::default(),
        }
    }

    /// Records that a handshake begins. The client is notified of what changes from now on, once it has ended: its first call
    /// may change definitions before the end of the handshake was noticed.
    pub(super) fn begin_handshake(&self) {
        let version = self.app.definitions().change_counter();
        *self.version_at_handshake.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
    }

    /// Starts notifications for a client with a handshake. Does nothing if they have started already.
    pub(super) fn start_notifications(&self, peer: &Peer<RoleServer>, extensions: &Extensions) {
        self.session_feed(peer, extensions);
    }

    fn session_feed(&self, peer: &Peer<RoleServer>, extensions: &Extensions) -> Arc<ChangeFeed> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let start_session = || {
            let mut version =
                self.version_at_handshake.lock().unwrap_or_else(PoisonError::into_inner);
            SessionNotifier::start(self.app.clone(), peer.clone(), extensions, version.take())
        };
        session.get_or_insert_with(start_session).feed().clone()
    }

    /// Subscribes the client to a resource.
    ///
    /// # Errors
    /// As [`ChangeFeed::subscribe`].
    pub(super) fn subscribe(
        &self,
        uri: &str,
        peer: &Peer<RoleServer>,
        extensions: &Extensions,
    ) -> Result<()> {
        self.session_feed(peer, extensions).subscribe(uri)
    }

    /// Unsubscribes the client from a resource. Succeeds even if it was not subscribed.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &*session {
            session.feed().unsubscribe(uri);
        }
    }

    /// The accepted part of a listen request, without invalid addresses. Changes are recorded from here on. Beyond a
    /// limit nothing is accepted, and [`Subscriptions::listen`] returns the error, since this method cannot.
    pub(super) fn accept_listen(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let (Some(task), Ok((listen, accepted))) = (task::try_id(), self.prepare_listen(requested))
        else {
            return SubscriptionFilter::new();
        };
        self.accepted_listens.lock().unwrap_or_else(PoisonError::into_inner).insert(task, listen);
        accepted
    }

    fn prepare_listen(
        &self,
        requested: &SubscriptionFilter,
    ) -> Result<(ListenState, SubscriptionFilter)> {
        let uris = requested.resource_subscriptions.as_deref().unwrap_or_default();
        if uris.len() > limits::SUBSCRIPTION_ADDRESSES_MAX {
            return Err(pending::too_many_addresses_error());
        }
        let permit = self.listens.listen_slots.clone().try_acquire_owned();
        let permit = permit.map_err(|_| too_many_listens_error(self.listens.max))?;
        let feed = Arc::new(ChangeFeed::new(self.app.clone()));
        let reported_lists = WatchedLists {
            has_resources: requested.resources_list_changed == Some(true),
            has_prompts: requested.prompts_list_changed == Some(true),
            has_tools: requested.tools_list_changed == Some(true),
        };
        // Create the taker before adding addresses, so that changes in between are recorded.
        let notice_receiver = NoticeReceiver::new(feed.clone(), reported_lists);
        let mut accepted_uris = Vec::new();
        for uri in uris {
            match feed.subscribe(uri) {
                Ok(()) => accepted_uris.push(uri.clone()),
                Err(error) if error.code() == Code::LimitExceeded => return Err(error),
                // The address is invalid.
                Err(_) => {}
            }
        }
        let mut accepted_filter =
            SubscriptionFilter::builder().resource_subscriptions(accepted_uris);
        if reported_lists.is_any_watched() {
            self.app.definitions().start_watching();
        }
        if reported_lists.has_resources {
            accepted_filter = accepted_filter.resources_list_changed();
        }
        if reported_lists.has_prompts {
            accepted_filter = accepted_filter.prompts_list_changed();
        }
        if reported_lists.has_tools {
            accepted_filter = accepted_filter.tools_list_changed();
        }
        let listen = ListenState { notice_receiver, _permit: permit };
        Ok((listen, accepted_filter.build()))
    }

    /// Sends notifications until the client cancels the listen, or the process shuts down.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, in which case nothing was accepted.
    pub(super) async fn listen(
        &self,
        sink: &SubscriptionSink,
        requested: &SubscriptionFilter,
        cancellation: &CancellationToken,
    ) -> Result<()> {
        let accepted_listen = task::try_id().and_then(|task| self.take_listen(task));
        let Some(mut listen) = accepted_listen else {
            // Run the checks again to find the exceeded limit. If they pass now, it was the number of listens, which
            // other clients may have freed since.
            let refusal = self.prepare_listen(requested).err();
            return Err(refusal.unwrap_or_else(|| too_many_listens_error(self.listens.max)));
        };
        while self.wait_for_notice(&mut listen, cancellation).await {
            let Some(notice) = listen.notice_receiver.take_notice() else {
                continue;
            };
            // A shutdown waits for this send, since nothing may follow the result of the listen.
            let send_result = tokio::select! {
                sent = send_notice(sink, notice) => sent,
                () = cancellation.cancelled() => break,
            };
            match send_result {
                Ok(()) => {}
                Err(SubscriptionSendError::SubscriptionClosed) => break,
                Err(error) => tracing::debug!(%error, "a listener could not be told of a change"),
            }
        }
        Ok(())
    }

    /// Waits until a notification is pending. False if the client cancels the listen, or the process shuts down.
    async fn wait_for_notice(
        &self,
        listen: &mut ListenState,
        cancellation: &CancellationToken,
    ) -> bool {
        tokio::select! {
            biased;
            () = cancellation.cancelled() => false,
            () = self.app.stop_token().cancelled() => false,
            () = listen.notice_receiver.wait_for_notice() => true,
        }
    }

    fn take_listen(&self, task: task::Id) -> Option<ListenState> {
        let mut accepted_listens =
            self.accepted_listens.lock().unwrap_or_else(PoisonError::into_inner);
        accepted_listens.remove(&task)
    }
}

async fn send_notice(
    sink: &SubscriptionSink,
    notice: PendingNotice,
) -> Result<(), SubscriptionSendError> {
    match notice {
        PendingNotice::Updated(uri) => sink.notify_resource_updated(&*uri).await,
        PendingNotice::ResourcesChanged => sink.notify_resource_list_changed().await,
        PendingNotice::PromptsChanged => sink.notify_prompt_list_changed().await,
        PendingNotice::ToolsChanged => sink.notify_tool_list_changed().await,
    }
}

fn too_many_listens_error(max: usize) -> Error {
    Error::limit_exceeded(format!("at most {max} listens are open at once"))
        .with_action("Cancel one of the listens, or add its addresses to one that is open anew")
}
