//! The pending notifications of one client or one listen. Each address is pending at most once, however often it
//! changes.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::super::resources::{DefinitionTopic, WatchedAddress};
use midex_domain::{
    error::{Error, Result},
    limits,
};
use midex_server::app::{App, Listener, TopicName};

/// The subscribed addresses, and the changes that are not reported yet.
#[derive(Debug)]
pub(super) struct ChangeFeed {
    app: Arc<App>,
    listener: Listener,
    addresses: Mutex<SubscribedAddresses>,
}

/// The state of the subscribed addresses.
#[derive(Debug, Default)]
struct SubscribedAddresses {
    /// Their total size in bytes.
    bytes: usize,
    /// The addresses of definitions, with the digest of the content that was last seen.
    definitions: HashMap<TopicName, (DefinitionTopic, u64)>,
}

/// A pending notification.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PendingNotice {
    /// A resource changed. Holds its URI as the client wrote it.
    Updated(TopicName),
    /// The list of resources changed.
    ResourcesChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// The list of tools changed.
    ToolsChanged,
}

impl ChangeFeed {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { listener: app.change_notifier().new_listener(), app, addresses: Mutex::default() }
    }

    fn lock_addresses(&self) -> MutexGuard<'_, SubscribedAddresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to a resource. Subscribing twice has no further effect.
    ///
    /// # Errors
    /// `RESOURCE_NOT_FOUND`, `ARGUMENTS_INVALID` if the address is invalid; `LIMIT_EXCEEDED`.
    pub(super) fn subscribe(&self, uri: &str) -> Result<()> {
        let address = WatchedAddress::parse(uri)?;
        let name: TopicName = uri.into();
        let mut addresses = self.lock_addresses();
        if self.listener.has_name(uri) {
            return Ok(());
        }
        if self.listener.len() >= limits::SUBSCRIPTION_ADDRESSES_MAX
            || addresses.bytes + uri.len() > limits::SUBSCRIPTION_BYTES_MAX
        {
            return Err(too_many_addresses_error());
        }
        addresses.bytes += uri.len();
        match address {
            WatchedAddress::Executions(topic) => self.listener.subscribe(&name, topic),
            WatchedAddress::Nothing => self.listener.subscribe(&name, None),
            WatchedAddress::Definitions(shown) => {
                // Definitions of a client of the control socket are watched only once it subscribes to one.
                self.app.definitions().start_watching();
                let digest =
                    shown.compute_content_digest(&self.app.definitions().last_loaded_registry());
                addresses.definitions.insert(name.clone(), (shown, digest));
                self.listener.subscribe(&name, None)
            }
        };
        Ok(())
    }

    /// Unsubscribes from a resource.
    pub(super) fn unsubscribe(&self, uri: &str) {
        let mut addresses = self.lock_addresses();
        if self.listener.remove(uri) {
            addresses.bytes -= uri.len();
            addresses.definitions.remove(uri);
        }
    }

    /// Marks every address of a definition whose content has changed.
    fn mark_changed_definitions(&self) {
        let registry = self.app.definitions().last_loaded_registry();
        let mut changed_names = Vec::new();
        for (name, (topic, last_digest)) in &mut self.lock_addresses().definitions {
            let digest = topic.compute_content_digest(&registry);
            if digest != *last_digest {
                *last_digest = digest;
                changed_names.push(name.clone());
            }
        }
        self.listener.mark(&changed_names);
    }
}

/// Takes the pending notifications from a feed.
#[derive(Debug)]
pub(super) struct NoticeReceiver {
    feed: Arc<ChangeFeed>,
    /// The version counter of the definitions.
    version: watch::Receiver<u64>,
    reported_lists: WatchedLists,
    changed_lists: WatchedLists,
    /// The digest of the workflows with exposed tools, as last seen.
    tools_digest: u64,
    /// True if notifications were taken since the last pause.
    has_taken: bool,
}

/// Lists whose changes are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchedLists {
    pub(super) has_resources: bool,
    pub(super) has_prompts: bool,
    pub(super) has_tools: bool,
}

impl WatchedLists {
    /// Whether at least one of the lists is selected.
    pub(super) fn is_any_watched(self) -> bool {
        self.has_resources || self.has_prompts || self.has_tools
    }
}

impl NoticeReceiver {
    /// A taker that also reports changes of the lists in `reported_lists`.
    pub(super) fn new(feed: Arc<ChangeFeed>, reported_lists: WatchedLists) -> Self {
        Self {
            tools_digest: compute_tools_digest(&feed.app),
            version: feed.app.definitions().change_counter(),
            feed,
            reported_lists,
            changed_lists: WatchedLists::default(),
            has_taken: false,
        }
    }

    /// Waits until a notification is pending. If all that were pending have been taken, this pauses first, so that a client
    /// of executions that move all the time is not notified of every transition. Cancel-safe.
    pub(super) async fn wait_for_notice(&mut self) {
        if self.has_taken && !self.has_notice() {
            tokio::time::sleep(limits::NOTICES_EVERY).await;
        }
        self.has_taken = false;
        loop {
            // Check definitions first, so that frequent changes of executions cannot starve them.
            if self.version.has_changed().unwrap_or(false) {
                self.version.mark_unchanged();
                self.check_definitions();
            }
            if self.has_notice() {
                return;
            }
            tokio::select! {
                () = self.feed.listener.wait_for_change() => {}
                Ok(()) = self.version.changed() => self.check_definitions(),
            }
        }
    }

    /// Lets all reported lists count as changed.
    pub(super) fn mark_lists_changed(&mut self) {
        self.changed_lists = self.reported_lists;
    }

    fn has_notice(&self) -> bool {
        self.changed_lists.is_any_watched() || self.feed.listener.has_marked_name()
    }

    /// Takes the next notification. A later change of the same resource is reported again. Lists come first, each once.
    pub(super) fn take_notice(&mut self) -> Option<PendingNotice> {
        self.has_taken = true;
        if std::mem::take(&mut self.changed_lists.has_resources) {
            return Some(PendingNotice::ResourcesChanged);
        }
        if std::mem::take(&mut self.changed_lists.has_prompts) {
            return Some(PendingNotice::PromptsChanged);
        }
        if std::mem::take(&mut self.changed_lists.has_tools) {
            return Some(PendingNotice::ToolsChanged);
        }
        self.feed.listener.take_marked_name().map(PendingNotice::Updated)
    }

    fn check_definitions(&mut self) {
        self.changed_lists = self.reported_lists;
        // Few workflows have tools, and a client reads the whole list of tools again.
        let digest = compute_tools_digest(&self.feed.app);
        self.changed_lists.has_tools &= digest != std::mem::replace(&mut self.tools_digest, digest);
        self.feed.mark_changed_definitions();
    }
}

/// A digest of the files of the workflows that expose tools.
fn compute_tools_digest(app: &App) -> u64 {
    let registry = app.definitions().last_loaded_registry();
    let mut hasher = DefaultHasher::new();
    for entry in registry.workflows().filter(|entry| entry.offers_tools()) {
        (&entry.name, entry.version.as_bytes()).hash(&mut hasher);
    }
    hasher.finish()
}

pub(super) fn too_many_addresses_error() -> Error {
    Error::limit_exceeded(format!(
        "at most {} addresses, {} bytes together, are listened to at once",
        limits::SUBSCRIPTION_ADDRESSES_MAX,
        limits::SUBSCRIPTION_BYTES_MAX
    ))
}
