//! A cache of values that the store keeps by digest. A value is read and parsed once, as long as it is used again
//! before it is evicted. The value of a digest never changes, so no entry is ever out of date; what a purge removes from the store is
//! removed here too.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use crate::store::Store;
use midex_domain::{Digest, error::Result, limits};

/// Values by digest, from the store or from memory.
pub(super) struct Contents {
    store: Arc<dyn Store>,
    cache: Mutex<LruCache>,
}

impl Contents {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, cache: Mutex::new(LruCache::new(limits::CONTENTS_HELD_BYTES_MAX)) }
    }

    /// The value with this digest; `None` where the store has none, or its content is no JSON.
    pub(super) async fn value(&self, digest: Digest) -> Result<Option<Arc<Value>>> {
        if let Some(value) = self.with_cache(|cache| cache.get(digest)) {
            return Ok(Some(value));
        }
        let Some(bytes) = self.store.load_content(digest).await? else {
            return Ok(None);
        };
        let Ok(value) = serde_json::from_slice(&bytes) else {
            return Ok(None);
        };
        let value = Arc::new(value);
        self.with_cache(|cache| cache.insert_value(digest, &value, bytes.len()));
        Ok(Some(value))
    }

    /// Forgets a value that was removed from the store.
    pub(super) fn forget(&self, digest: Digest) {
        self.with_cache(|cache| cache.remove(digest));
    }

    fn with_cache<T>(&self, access: impl FnOnce(&mut LruCache) -> T) -> T {
        access(&mut self.cache.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The least recently used values are evicted first.
struct LruCache {
    capacity_bytes: usize,
    bytes: usize,
    /// The number of requests so far, used as a clock.
    request_count: u64,
    values: HashMap<Digest, CachedValue>,
    /// The digests by their last request.
    by_last_use: BTreeMap<u64, Digest>,
}

struct CachedValue {
    value: Arc<Value>,
    bytes: usize,
    last_use: u64,
}

impl LruCache {
    /// The overhead that is counted for each value, so that the number of very small values is bounded too.
    const ENTRY_OVERHEAD_BYTES: usize = 128;

    fn new(capacity_bytes: usize) -> Self {
        Self {
            capacity_bytes,
            bytes: 0,
            request_count: 0,
            values: HashMap::new(),
            by_last_use: BTreeMap::new(),
        }
    }

    fn get(&mut self, digest: Digest) -> Option<Arc<Value>> {
        let entry = self.values.get_mut(&digest)?;
        self.request_count += 1;
        self.by_last_use.remove(&entry.last_use);
        self.by_last_use.insert(self.request_count, digest);
        entry.last_use = self.request_count;
        Some(entry.value.clone())
    }

    /// Adds a value whose text has this many bytes. Evicts the least recently used values to make room.
    fn insert_value(&mut self, digest: Digest, value: &Arc<Value>, bytes: usize) {
        let bytes = bytes + Self::ENTRY_OVERHEAD_BYTES;
        // Another task may have looked up the same value meanwhile.
        if bytes > self.capacity_bytes || self.values.contains_key(&digest) {
            return;
        }
        while self.bytes + bytes > self.capacity_bytes {
            self.evict_oldest();
        }
        self.request_count += 1;
        self.bytes += bytes;
        self.by_last_use.insert(self.request_count, digest);
        let entry = CachedValue { value: value.clone(), bytes, last_use: self.request_count };
        self.values.insert(digest, entry);
    }

    fn remove(&mut self, digest: Digest) {
        if let Some(entry) = self.values.remove(&digest) {
            self.by_last_use.remove(&entry.last_use);
            self.bytes -= entry.bytes;
        }
    }

    fn evict_oldest(&mut self) {
        let oldest = self.by_last_use.first_key_value();
        if let Some(digest) = oldest.map(|(_, digest)| *digest) {
            self.remove(digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn insert_named(cache: &mut LruCache, name: &str, bytes: usize) {
        cache.insert_value(
            digest_of_name(name),
            &Arc::new(json!(name)),
            bytes - LruCache::ENTRY_OVERHEAD_BYTES,
        );
    }

    fn digest_of_name(name: &str) -> Digest {
        Digest::compute(name.as_bytes())
    }

    fn which_are_cached(cache: &mut LruCache, names: &[&str]) -> Vec<bool> {
        let known = |name: &&str| cache.values.contains_key(&digest_of_name(name));
        names.iter().map(known).collect()
    }

    #[test]
    fn the_least_recently_used_value_is_evicted() {
        let mut cache = LruCache::new(1000);
        for name in ["a", "b", "c"] {
            insert_named(&mut cache, name, 300);
        }
        assert_eq!(cache.get(digest_of_name("a")).as_deref(), Some(&json!("a")));
        insert_named(&mut cache, "d", 400);
        assert_eq!(which_are_cached(&mut cache, &["a", "b", "c", "d"]), [true, false, true, true]);
        assert_eq!((cache.bytes, cache.by_last_use.len()), (1000, 3));
    }

    #[test]
    fn a_value_larger_than_the_cache_is_not_kept() {
        let mut cache = LruCache::new(1000);
        insert_named(&mut cache, "small", 200);
        insert_named(&mut cache, "large", 1001);
        assert_eq!(which_are_cached(&mut cache, &["small", "large"]), [true, false]);
        insert_named(&mut cache, "whole", 1000);
        assert_eq!(which_are_cached(&mut cache, &["small", "whole"]), [false, true]);
        assert_eq!(cache.bytes, 1000);
    }

    #[test]
    fn a_value_inserted_twice_is_counted_once() {
        let mut cache = LruCache::new(1000);
        insert_named(&mut cache, "a", 300);
        insert_named(&mut cache, "a", 300);
        assert_eq!((cache.bytes, cache.by_last_use.len()), (300, 1));
    }
}
