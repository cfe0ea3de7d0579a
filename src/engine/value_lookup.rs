//! Lookup of the values that a decision or a view asks for. Both are pure functions: they use the values that they are
//! given, ask for those that they miss, and are repeated with them.

use std::{
    collections::{BTreeSet, HashMap},
    slice,
    sync::Arc,
};

use serde_json::Value;

use super::Shared;
use midex_domain::{
    Digest, ExecutionId, Row,
    error::{Error, Result},
    execution::Values,
    limits,
    view::{LoadedValues, TruncatedValue, ValueRequest},
};

/// The values that one decision or view has asked for so far.
pub(super) struct ValueLookup<'a> {
    shared: &'a Shared,
    id: &'a ExecutionId,
    /// The last row of the execution, if the caller has it. It is not read from the store again.
    last_row: Option<&'a Row>,
    rounds: usize,
    pub(super) found_values: LoadedValues,
    /// The whole values that are stored outside of the rows.
    stored_digests: Vec<Digest>,
}

impl<'a> ValueLookup<'a> {
    pub(super) const fn new(
        shared: &'a Shared,
        id: &'a ExecutionId,
        last_row: Option<&'a Row>,
        found_values: LoadedValues,
    ) -> Self {
        Self { shared, id, last_row, rounds: 0, found_values, stored_digests: Vec::new() }
    }

    /// Looks up the values in `requests` and adds them.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` after [`limits::LOOKUPS_MAX`] calls, so that no decision and no view is repeated without end.
    pub(super) async fn look_up(&mut self, requests: BTreeSet<ValueRequest>) -> Result<()> {
        self.rounds += 1;
        if self.rounds > limits::LOOKUPS_MAX {
            let error = Error::internal("a decision or a view asks for values without end");
            return Err(error.with_context("execution_id", self.id.as_str()));
        }
        let revisions = requests.iter().filter_map(|asked| asked.need.revision);
        let revisions: BTreeSet<_> = revisions.collect();
        let loaded_rows;
        // One read finds all outputs: the steps may have ended in one row, or long ago.
        let rows: &[Row] = match self.last_row {
            _ if revisions.is_empty() => &[],
            Some(last) if revisions.iter().eq([&last.revision]) => slice::from_ref(last),
            _ => {
                loaded_rows = self.shared.store.load_rows(self.id, revisions).await?;
                loaded_rows.as_slice()
            }
        };
        let documents: HashMap<_, _> = rows.iter().flat_map(Row::outputs).collect();
        for ValueRequest { need, bytes_max } in requests {
            let digest = need.digest;
            let document = documents.get(&digest);
            let is_found = if let Some(bytes_max) = bytes_max {
                let value = match document {
                    Some(document) => Some(TruncatedValue::truncate(&document.value(), bytes_max)),
                    None => self.load_shortened_value(digest, bytes_max).await?,
                };
                let is_found = value.is_some();
                let value = value.map(|value| ((digest, bytes_max), value));
                self.found_values.shortened.extend(value);
                is_found
            } else {
                let value = if let Some(document) = document {
                    Some(Arc::new(document.value()))
                } else {
                    self.stored_digests.push(digest);
                    self.shared.contents.value(digest).await?
                };
                let is_found = value.is_some();
                self.found_values.values.extend(value.map(|value| (digest, value)));
                is_found
            };
            if !is_found {
                self.found_values.missing.insert(digest);
            }
        }
        Ok(())
    }

    /// A value that is stored outside of the rows, shortened. Only the shortened form is kept: there may be many such
    /// values, and each may be large.
    async fn load_shortened_value(
        &self,
        digest: Digest,
        bytes_max: usize,
    ) -> Result<Option<TruncatedValue>> {
        let Some(bytes) = self.shared.store.load_content(digest).await? else {
            return Ok(None);
        };
        let is_small = bytes.len() <= limits::OUTPUT_INLINE_READ_BYTES_MAX;
        let shorten = move || {
            let value: Option<Value> = serde_json::from_slice(&bytes).ok();
            value.map(|value| TruncatedValue::truncate(&value, bytes_max))
        };
        if is_small {
            return Ok(shorten());
        }
        let shortened = tokio::task::spawn_blocking(shorten).await;
        shortened
            .map_err(|error| Error::internal("shortening an output panicked").with_source(error))
    }

    /// The values that a cache in memory may keep: those that were not read from outside of the rows, where they may be
    /// large.
    pub(super) fn into_small_values(mut self) -> Values {
        for digest in self.stored_digests {
            self.found_values.values.remove(&digest);
        }
        self.found_values.values
    }
}

#[cfg(test)]
mod tests {
    use midex_domain::{
        clock::{SeededIds, SystemClock},
        error::Code,
        execution::ValueReference,
    };

    use super::*;
    use crate::{Engine, Options, store::MemoryStore};

    #[tokio::test]
    async fn endless_lookups_are_refused() {
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
        let options = Options::new(Arc::new(MemoryStore::new()), clock, ids);
        let engine = Engine::new(options).await.expect("an engine");
        let id = ExecutionId::parse("e").expect("an id");
        let mut lookup = ValueLookup::new(&engine.shared, &id, None, LoadedValues::default());
        let need = ValueReference::by_digest(Digest::compute(b"absent"));
        let asked = || BTreeSet::from([ValueRequest::from(need)]);
        for _ in 0..limits::LOOKUPS_MAX {
            let looked_up = lookup.look_up(asked()).await;
            looked_up.expect("a value may be absent");
        }
        assert!(lookup.found_values.missing.contains(&need.digest));
        let refused = lookup.look_up(asked()).await;
        let refused = refused.expect_err("a bound");
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::Internal, "a decision or a view asks for values without end")
        );
        engine.stop().await.expect("a stop");
    }
}
