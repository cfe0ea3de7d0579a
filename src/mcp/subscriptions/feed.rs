//! What one client, or one listen of it, is to be told: each address once, however often it changed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::super::resources::{DefinitionTopic, Watched};
use midex_domain::{
    error::{Error, Result},
    limits,
};
use midex_server::app::{App, Listener, Name};

/// The addresses that are listened to, and what was heard of them.
#[derive(Debug)]
pub(super) struct Feed {
    app: Arc<App>,
    listener: Listener,
    addresses: Mutex<Addresses>,
}

/// What is known of the addresses.
#[derive(Debug, Default)]
struct Addresses {
    /// Their bytes together.
    bytes: usize,
    /// Those of definitions, with what they showed last.
    definitions: HashMap<Name, (DefinitionTopic, u64)>,
}

/// Something to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A resource shows something else: its address as the client wrote it.
    Updated(Name),
    /// There are other resources.
    ResourcesChanged,
    /// There are other prompts.
    PromptsChanged,
}

impl Feed {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self {
            listener: app.changes().listener(),
            app,
            addresses: Mutex::default(),
        }
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to what the address shows from now on. One that is listened to already is so once.
    ///
    /// # Errors
    /// `RESOURCE_NOT_FOUND`, `ARGUMENTS_INVALID` where it is no address; `LIMIT_EXCEEDED`.
    pub(super) fn add(&self, uri: &str) -> Result<()> {
        let watched = Watched::parse(uri)?;
        let name: Name = uri.into();
        let mut addresses = self.addresses();
        if self.listener.has(uri) {
            return Ok(());
        }
        if self.listener.len() >= limits::SUBSCRIPTION_ADDRESSES_MAX
            || addresses.bytes + uri.len() > limits::SUBSCRIPTION_BYTES_MAX
        {
            return Err(too_many_addresses());
        }
        addresses.bytes += uri.len();
        match watched {
            Watched::Executions(topic) => self.listener.add(&name, Some(topic)),
            Watched::Nothing => self.listener.add(&name, None),
            Watched::Definitions(shown) => {
                // Those of a caller of the control socket are not followed before somebody asks for it.
                self.app.definitions().watch();
                let digest = shown.digest(&self.app.definitions().loaded());
                addresses.definitions.insert(name.clone(), (shown, digest));
                self.listener.add(&name, None)
            }
        };
        Ok(())
    }

    /// Listens to it no more.
    pub(super) fn remove(&self, uri: &str) {
        let mut addresses = self.addresses();
        if self.listener.remove(uri) {
            addresses.bytes -= uri.len();
            addresses.definitions.remove(uri);
        }
    }

    /// Marks every address of a definition that shows something else now.
    fn look_at_definitions(&self) {
        let registry = self.app.definitions().loaded();
        let mut changed = Vec::new();
        for (name, (shown, last)) in &mut self.addresses().definitions {
            let digest = shown.digest(&registry);
            if digest != *last {
                *last = digest;
                changed.push(name.clone());
            }
        }
        self.listener.mark(&changed);
    }
}

/// The one who takes from a feed what is to be told.
#[derive(Debug)]
pub(super) struct Taker {
    feed: Arc<Feed>,
    /// Grows whenever the definitions change.
    version: watch::Receiver<u64>,
    tells: Lists,
    changed: Lists,
}

/// Lists that follow the definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    pub(super) resources: bool,
    pub(super) prompts: bool,
}

impl Lists {
    /// Whether it is one of them at least.
    pub(super) fn any(self) -> bool {
        self.resources || self.prompts
    }
}

impl Taker {
    /// It `tells` when these lists have changed.
    pub(super) fn new(feed: Arc<Feed>, tells: Lists) -> Self {
        Self {
            version: feed.app.definitions().changes(),
            feed,
            tells,
            changed: Lists::default(),
        }
    }

    /// Waits until there is something to take. What was waited for in vain is not lost.
    pub(super) async fn ready(&mut self) {
        loop {
            // Looked at first: executions that never rest must not keep the definitions waiting.
            if self.version.has_changed().unwrap_or(false) {
                self.version.mark_unchanged();
                self.look_at_definitions();
            }
            if self.changed.any() || self.feed.listener.has_heard() {
                return;
            }
            tokio::select! {
                () = self.feed.listener.heard() => {}
                Ok(()) = self.version.changed() => self.look_at_definitions(),
            }
        }
    }

    /// What is to be told next: from now on a change of it is told anew. The lists first, which are told once for all.
    pub(super) fn take(&mut self) -> Option<Notice> {
        if std::mem::take(&mut self.changed.resources) {
            return Some(Notice::ResourcesChanged);
        }
        if std::mem::take(&mut self.changed.prompts) {
            return Some(Notice::PromptsChanged);
        }
        self.feed.listener.take().map(Notice::Updated)
    }

    fn look_at_definitions(&mut self) {
        self.changed = self.tells;
        self.feed.look_at_definitions();
    }
}

pub(super) fn too_many_addresses() -> Error {
    Error::limit(format!(
        "at most {} addresses, {} bytes together, are listened to at once",
        limits::SUBSCRIPTION_ADDRESSES_MAX,
        limits::SUBSCRIPTION_BYTES_MAX
    ))
}
