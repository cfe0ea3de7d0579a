//! Change notifications. Clients with a handshake subscribe to single resources; clients without one send a listen
//! request with a filter.

mod feed;
mod session;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    Peer, RoleServer,
    model::{Extensions, SubscriptionFilter},
    service::{SubscriptionContext, SubscriptionSendError},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use self::{
    feed::{ChangeFeed, NoticeReceiver, PendingNotice, WatchedLists},
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
    room: Arc<Semaphore>,
    max: usize,
}

impl ListenLimit {
    fn new(max: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(max)), max }
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
    /// Listens that were accepted but not started yet, by task: one task accepts, acknowledges and runs a listen.
    /// Changes are recorded from the acceptance on, before the acknowledgement is sent.
    accepted: Mutex<HashMap<task::Id, ListenState>>,
}

/// A listen that records changes.
#[derive(Debug)]
struct ListenState {
    /// Declared first, so that it is released first: a slot is free as soon as the listen ends.
    _place: OwnedSemaphorePermit,
    taker: NoticeReceiver,
}

impl Subscriptions {
    pub(super) fn new(app: Arc<App>, listens: ListenLimit) -> Self {
        Self { app, listens, session: Mutex::default(), accepted: Mutex::default() }
    }

    /// Starts notifications for a client with a handshake. Does nothing if they have started already.
    pub(super) fn start_notifications(&self, peer: &Peer<RoleServer>, extensions: &Extensions) {
        self.feed_of_session(peer, extensions);
    }

    fn feed_of_session(&self, peer: &Peer<RoleServer>, extensions: &Extensions) -> Arc<ChangeFeed> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || SessionNotifier::start(self.app.clone(), peer.clone(), extensions);
        session.get_or_insert_with(begin).feed().clone()
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
        self.feed_of_session(peer, extensions).subscribe(uri)
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
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(task, listen);
        accepted
    }

    fn prepare_listen(
        &self,
        requested: &SubscriptionFilter,
    ) -> Result<(ListenState, SubscriptionFilter)> {
        let uris = requested.resource_subscriptions.as_deref().unwrap_or_default();
        if uris.len() > limits::SUBSCRIPTION_ADDRESSES_MAX {
            return Err(feed::too_many_addresses_error());
        }
        let place = self.listens.room.clone().try_acquire_owned();
        let place = place.map_err(|_| too_many_listens_error(self.listens.max))?;
        let feed = Arc::new(ChangeFeed::new(self.app.clone()));
        let tells = WatchedLists {
            resources: requested.resources_list_changed == Some(true),
            prompts: requested.prompts_list_changed == Some(true),
        };
        // Create the taker before adding addresses, so that changes in between are recorded.
        let taker = NoticeReceiver::new(feed.clone(), tells);
        let mut accepted = Vec::new();
        for uri in uris {
            match feed.subscribe(uri) {
                Ok(()) => accepted.push(uri.clone()),
                Err(error) if error.code() == Code::LimitExceeded => return Err(error),
                // The address is invalid.
                Err(_) => {}
            }
        }
        let mut accepted = SubscriptionFilter::builder().resource_subscriptions(accepted);
        if tells.is_any_watched() {
            self.app.definitions().start_watching();
        }
        if tells.resources {
            accepted = accepted.resources_list_changed();
        }
        if tells.prompts {
            accepted = accepted.prompts_list_changed();
        }
        let listen = ListenState { taker, _place: place };
        Ok((listen, accepted.build()))
    }

    /// Sends notifications until the client cancels the listen, or the process shuts down.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, in which case nothing was accepted.
    pub(super) async fn listen(&self, context: &SubscriptionContext) -> Result<()> {
        let accepted = task::try_id().and_then(|task| self.take_listen(task));
        let Some(mut listen) = accepted else {
            // Run the checks again to find the exceeded limit. If they pass now, it was the number of listens, which
            // other clients may have freed since.
            let refused = self.prepare_listen(context.requested()).err();
            return Err(refused.unwrap_or_else(|| too_many_listens_error(self.listens.max)));
        };
        while self.wait_for_notice(&mut listen, context).await {
            let Some(notice) = listen.taker.take_notice() else {
                continue;
            };
            // A shutdown waits for this send, since nothing may follow the result of the listen.
            let sent = tokio::select! {
                sent = send_notice(context, notice) => sent,
                () = context.cancelled() => break,
            };
            match sent {
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
        context: &SubscriptionContext,
    ) -> bool {
        tokio::select! {
            biased;
            () = context.cancelled() => false,
            () = self.app.stop_token().cancelled() => false,
            () = listen.taker.wait_for_notice() => true,
        }
    }

    fn take_listen(&self, task: task::Id) -> Option<ListenState> {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.remove(&task)
    }
}

async fn send_notice(
    context: &SubscriptionContext,
    notice: PendingNotice,
) -> Result<(), SubscriptionSendError> {
    match notice {
        PendingNotice::Updated(uri) => context.sink().notify_resource_updated(&*uri).await,
        PendingNotice::ResourcesChanged => context.sink().notify_resource_list_changed().await,
        PendingNotice::PromptsChanged => context.sink().notify_prompt_list_changed().await,
    }
}

fn too_many_listens_error(max: usize) -> Error {
    Error::limit_exceeded(format!("at most {max} listens are open at once"))
        .with_action("Cancel one of the listens, or add its addresses to one that is open anew")
}
