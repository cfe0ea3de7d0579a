//! Definitions in use, each decoded once however many executions keep it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::{
    domain::{Definition, Digest},
    error::{Error, Result},
    store::Store,
};

/// Definitions that some live execution keeps. Holds none of them alive itself.
pub(super) struct Definitions {
    store: Arc<dyn Store>,
    known: Mutex<HashMap<Digest, Weak<Definition>>>,
}

impl Definitions {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            known: Mutex::default(),
        }
    }

    /// The definition stored under `digest`.
    pub(super) async fn get(&self, digest: Digest) -> Result<Arc<Definition>> {
        if let Some(definition) = self.known(digest) {
            return Ok(definition);
        }
        let bytes = self.store.content(digest).await?;
        let bytes = bytes
            .ok_or_else(|| Error::internal(format!("definition {digest} is not in the store")))?;
        Ok(self.share(Arc::new(Definition::decode(&bytes)?)))
    }

    /// The one shared instance of `definition`.
    pub(super) fn share(&self, definition: Arc<Definition>) -> Arc<Definition> {
        let digest = definition.digest();
        if let Some(known) = self.known(digest) {
            return known;
        }
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| known.strong_count() > 0);
        all.insert(digest, Arc::downgrade(&definition));
        definition
    }

    fn known(&self, digest: Digest) -> Option<Arc<Definition>> {
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&digest).and_then(Weak::upgrade)
    }
}
