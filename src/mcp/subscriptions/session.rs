//! Notifications for clients with a handshake. They subscribe to single resources, and are always notified when the
//! lists of resources and prompts change.

use std::sync::Arc;

use rmcp::{
    Peer, RoleServer,
    model::{Extensions, ResourceUpdatedNotificationParam},
    service::ServiceError,
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    super::channel::NotificationChannel,
    pending::{ChangeFeed, NoticeReceiver, PendingNotice, WatchedLists},
};
use midex_server::app::App;

/// The lists whose changes these clients are always notified of.
const ALL_LISTS: WatchedLists =
    WatchedLists { has_resources: true, has_prompts: true, has_tools: true };

/// Sends notifications to a client with a handshake until it is dropped.
#[derive(Debug)]
pub(super) struct SessionNotifier {
    feed: Arc<ChangeFeed>,
    _end: DropGuard,
}

impl SessionNotifier {
    /// Starts sending notifications of changes from now on; first of the lists, if the version counter of the definitions has
    /// changed already.
    pub(super) fn start(
        app: Arc<App>,
        peer: Peer<RoleServer>,
        extensions: &Extensions,
        version: Option<watch::Receiver<u64>>,
    ) -> Self {
        let feed = Arc::new(ChangeFeed::new(app));
        let mut notice_receiver = NoticeReceiver::new(feed.clone(), ALL_LISTS);
        if version.is_some_and(|version| version.has_changed().unwrap_or(false)) {
            notice_receiver.mark_lists_changed();
        }
        let channel = NotificationChannel::from_extensions(extensions);
        let end = CancellationToken::new();
        let end_token = end.clone();
        // The task holds only the feed, so dropping the session ends it.
        tokio::spawn(async move {
            end_token.run_until_cancelled(send_notices(notice_receiver, peer, channel)).await
        });
        Self { feed, _end: end.drop_guard() }
    }

    pub(super) fn feed(&self) -> &Arc<ChangeFeed> {
        &self.feed
    }
}

/// Sends one notification after another. Repeated changes of a resource while the client is slow or unreachable are
/// sent once.
async fn send_notices(
    mut taker: NoticeReceiver,
    peer: Peer<RoleServer>,
    mut channel: NotificationChannel,
) {
    loop {
        taker.wait_for_notice().await;
        if !channel.wait_until_open().await {
            return;
        }
        let send_result = match taker.take_notice() {
            Some(PendingNotice::Updated(uri)) => {
                let update = ResourceUpdatedNotificationParam::new(&*uri);
                peer.notify_resource_updated(update).await
            }
            Some(PendingNotice::ResourcesChanged) => peer.notify_resource_list_changed().await,
            Some(PendingNotice::PromptsChanged) => peer.notify_prompt_list_changed().await,
            Some(PendingNotice::ToolsChanged) => peer.notify_tool_list_changed().await,
            None => Ok(()),
        };
        match send_result {
            Ok(()) => {}
            Err(ServiceError::TransportClosed) => return,
            Err(error) => tracing::debug!(%error, "a client could not be told of a change"),
        }
    }
}
