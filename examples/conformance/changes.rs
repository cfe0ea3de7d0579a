//! Who is told when something changes: sessions that subscribed, and clients that listen.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    ErrorData, Peer, RoleServer,
    model::ResourceUpdatedNotificationParam,
    service::{SubscriptionContext, SubscriptionSink},
};
use tokio::sync::broadcast;

/// Changes that a slow client may lag behind before it misses some.
const BEHIND_MAX: usize = 256;

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resource(String),
}

pub(crate) struct Changes(broadcast::Sender<Change>);

impl Changes {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }

    pub(crate) fn announce(&self, change: Change) {
        // Nobody listens, perhaps.
        let _ = self.0.send(change);
    }

    pub(crate) fn follow(&self) -> broadcast::Receiver<Change> {
        self.0.subscribe()
    }
}

/// The addresses that one session subscribed to.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<HashSet<String>>>);

impl Watched {
    pub(crate) fn add(&self, uri: String) {
        self.lock().insert(uri);
    }

    pub(crate) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn has(&self, uri: &str) -> bool {
        self.lock().contains(uri)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a session of changes until it has gone.
pub(crate) async fn tell(
    peer: Peer<RoleServer>,
    watched: Watched,
    mut changes: broadcast::Receiver<Change>,
) {
    while let Some(change) = next(&mut changes).await {
        let told = match change {
            Change::Tools => peer.notify_tool_list_changed().await,
            Change::Prompts => peer.notify_prompt_list_changed().await,
            Change::Resource(uri) if watched.has(&uri) => {
                let updated = ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(updated).await
            }
            Change::Resource(_) => Ok(()),
        };
        if told.is_err() || peer.is_transport_closed() {
            return;
        }
    }
}

/// Tells whoever listens what it asked for, until it has gone.
pub(crate) async fn listen(
    cx: SubscriptionContext,
    mut changes: broadcast::Receiver<Change>,
) -> Result<(), ErrorData> {
    loop {
        tokio::select! {
            () = cx.cancelled() => return Ok(()),
            change = next(&mut changes) => match change {
                Some(change) => pass_on(cx.sink(), change).await,
                None => return Ok(()),
            }
        }
    }
}

/// The sink lets through what was asked for, and refuses the rest.
async fn pass_on(sink: &SubscriptionSink, change: Change) {
    let _ = match change {
        Change::Tools => sink.notify_tool_list_changed().await,
        Change::Prompts => sink.notify_prompt_list_changed().await,
        Change::Resource(uri) => sink.notify_resource_updated(uri).await,
    };
}

/// The next change; `None` where there will be no more.
async fn next(changes: &mut broadcast::Receiver<Change>) -> Option<Change> {
    loop {
        match changes.recv().await {
            Ok(change) => return Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
