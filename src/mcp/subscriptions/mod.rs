//! Who is told of changes, in both eras of the protocol: clients that shook hands subscribe to addresses, the others
//! listen to a filter.

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
    feed::{Feed, Lists, Notice, Taker},
    session::SessionNotifier,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_server::app::App;

/// How many listens there may be at once: of one client over a pair of streams, or of all stateless clients over HTTP,
/// whose servers share it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Listens {
    room: Arc<Semaphore>,
    max: usize,
}

impl Listens {
    fn new(max: usize) -> Self {
        Self {
            room: Arc::new(Semaphore::new(max)),
            max,
        }
    }

    /// Those of one client over a pair of streams: [`limits::LISTENS_MAX`].
    pub fn of_one_client() -> Self {
        Self::new(limits::LISTENS_MAX)
    }

    /// Those of all stateless clients over HTTP: [`limits::HTTP_LISTENS_MAX`].
    pub fn over_http() -> Self {
        Self::new(limits::HTTP_LISTENS_MAX)
    }
}

/// What one client is told of.
#[derive(Debug)]
pub(super) struct Subscriptions {
    app: Arc<App>,
    listens: Listens,
    /// Of a client that shook hands, from the first time it is needed.
    session: Mutex<Option<SessionNotifier>>,
    /// Listens that were accepted and have not begun. A listen is accepted, acknowledged and begun by one task, and
    /// it must hear of what changes before its acknowledgement has left.
    accepted: Mutex<HashMap<task::Id, Listen>>,
}

/// A listen that hears of changes already.
#[derive(Debug)]
struct Listen {
    /// Given back first: as soon as nobody listens there is room.
    _place: OwnedSemaphorePermit,
    taker: Taker,
}

impl Subscriptions {
    pub(super) fn new(app: Arc<App>, listens: Listens) -> Self {
        Self {
            app,
            listens,
            session: Mutex::default(),
            accepted: Mutex::default(),
        }
    }

    /// Tells the client that shook hands what changes; nothing more where that has begun.
    pub(super) fn begin(&self, peer: &Peer<RoleServer>, extensions: &Extensions) {
        self.feed(peer, extensions);
    }

    fn feed(&self, peer: &Peer<RoleServer>, extensions: &Extensions) -> Arc<Feed> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || SessionNotifier::begin(self.app.clone(), peer.clone(), extensions);
        session.get_or_insert_with(begin).feed().clone()
    }

    /// Tells the client of this address from now on.
    ///
    /// # Errors
    /// As [`Feed::add`].
    pub(super) fn subscribe(
        &self,
        uri: &str,
        peer: &Peer<RoleServer>,
        extensions: &Extensions,
    ) -> Result<()> {
        self.feed(peer, extensions).add(uri)
    }

    /// Tells the client of it no more. One it never subscribed to is as well.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = &*session {
            session.feed().remove(uri);
        }
    }

    /// What of a listen is accepted: addresses that are none are left out. Changes are heard of from here on.
    /// Nothing is accepted past a limit; [`Subscriptions::listen`] says so, for only it can.
    pub(super) fn accept(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let (Some(task), Ok((listen, accepted))) = (task::try_id(), self.prepare(requested)) else {
            return SubscriptionFilter::new();
        };
        self.accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(task, listen);
        accepted
    }

    fn prepare(&self, requested: &SubscriptionFilter) -> Result<(Listen, SubscriptionFilter)> {
        let uris = requested
            .resource_subscriptions
            .as_deref()
            .unwrap_or_default();
        if uris.len() > limits::SUBSCRIPTION_ADDRESSES_MAX {
            return Err(feed::too_many_addresses());
        }
        let place = self.listens.room.clone().try_acquire_owned();
        let place = place.map_err(|_| too_many_listens(self.listens.max))?;
        let feed = Arc::new(Feed::new(self.app.clone()));
        let tells = Lists {
            resources: requested.resources_list_changed == Some(true),
            prompts: requested.prompts_list_changed == Some(true),
        };
        // Before the first address: what changes while they are looked at is heard of.
        let taker = Taker::new(feed.clone(), tells);
        let mut accepted = Vec::new();
        for uri in uris {
            match feed.add(uri) {
                Ok(()) => accepted.push(uri.clone()),
                Err(error) if error.code() == Code::LimitExceeded => return Err(error),
                // It names nothing.
                Err(_) => {}
            }
        }
        let mut accepted = SubscriptionFilter::builder().resource_subscriptions(accepted);
        if tells.any() {
            self.app.definitions().watch();
        }
        if tells.resources {
            accepted = accepted.resources_list_changed();
        }
        if tells.prompts {
            accepted = accepted.prompts_list_changed();
        }
        let listen = Listen {
            taker,
            _place: place,
        };
        Ok((listen, accepted.build()))
    }

    /// Tells what changes until the client has enough, or the process ends.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`: then nothing was accepted.
    pub(super) async fn listen(&self, context: &SubscriptionContext) -> Result<()> {
        let accepted = task::try_id().and_then(|task| self.take(task));
        let Some(mut listen) = accepted else {
            // Of the two limits the one that does not depend on others is looked at again.
            let refused = self.prepare(context.requested()).err();
            return Err(refused.unwrap_or_else(|| too_many_listens(self.listens.max)));
        };
        while self.has_heard(&mut listen, context).await {
            let Some(notice) = listen.taker.take() else {
                continue;
            };
            // The end of the process waits for it: nothing may follow the listen's result.
            let sent = tokio::select! {
                sent = send(context, notice) => sent,
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

    /// Waits until there is something to tell; false where the client has enough, or the process ends.
    async fn has_heard(&self, listen: &mut Listen, context: &SubscriptionContext) -> bool {
        tokio::select! {
            biased;
            () = context.cancelled() => false,
            () = self.app.stopping().cancelled() => false,
            () = listen.taker.ready() => true,
        }
    }

    fn take(&self, task: task::Id) -> Option<Listen> {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.remove(&task)
    }
}

async fn send(context: &SubscriptionContext, notice: Notice) -> Result<(), SubscriptionSendError> {
    match notice {
        Notice::Updated(uri) => context.sink().notify_resource_updated(&*uri).await,
        Notice::ResourcesChanged => context.sink().notify_resource_list_changed().await,
        Notice::PromptsChanged => context.sink().notify_prompt_list_changed().await,
    }
}

fn too_many_listens(max: usize) -> Error {
    Error::limit(format!("at most {max} listens are open at once"))
        .with_action("Cancel one of the listens, or add its addresses to one that is open anew")
}
