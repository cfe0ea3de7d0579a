//! The definitions in use. Each is decoded once, however many executions keep it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use crate::store::Store;
use midex_domain::{
    Definition, Digest, Execution,
    error::{Error, Result},
    execution::StepState,
};

/// The definitions of live executions, held as weak references.
pub(super) struct DefinitionInterner {
    store: Arc<dyn Store>,
    cache: Mutex<HashMap<Digest, CachedDefinition>>,
}

struct CachedDefinition {
    definition: Weak<Definition>,
    /// The initial states of its steps, shared by all its executions.
    pending_steps: Arc<[Arc<StepState>]>,
}

impl DefinitionInterner {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, cache: Mutex::default() }
    }

    /// The definition stored under `digest`.
    pub(super) async fn get(&self, digest: Digest) -> Result<Arc<Definition>> {
        if let Some(definition) = self.find_cached(digest) {
            return Ok(definition);
        }
        let bytes = self.store.load_content(digest).await?;
        let bytes = bytes
            .ok_or_else(|| Error::internal(format!("definition {digest} is not in the store")))?;
        Ok(self.intern(Arc::new(Definition::decode(&bytes)?)))
    }

    /// The one shared instance of `definition`.
    pub(super) fn intern(&self, definition: Arc<Definition>) -> Arc<Definition> {
        let digest = definition.digest();
        if let Some(known) = self.find_cached(digest) {
            return known;
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|_, known| known.definition.strong_count() > 0);
        let steps = definition.workflow.steps.iter();
        let known = CachedDefinition {
            definition: Arc::downgrade(&definition),
            pending_steps: steps
                .map(|step| Arc::new(StepState::pending(step.id.clone())))
                .collect(),
        };
        cache.insert(digest, known);
        definition
    }

    /// Makes the steps that were not entered yet share their memory with those of other executions.
    pub(super) fn share_pending_steps(&self, execution: &mut Execution) {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = cache.get(&execution.definition()).map(|known| known.pending_steps.clone());
        drop(cache);
        execution.share_pending_steps(&pending.unwrap_or_default());
    }

    fn find_cached(&self, digest: Digest) -> Option<Arc<Definition>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(&digest)?.definition.upgrade()
    }
}
