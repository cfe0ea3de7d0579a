//! Sweeps free the contents that no row names any more, in small slices between the commits.

use std::{collections::BTreeSet, sync::Arc};

use redb::{ReadTransaction, ReadableTable as _};

use super::{
    batch::WriteRequest,
    digest_search::DigestSearch,
    fault::redb_error,
    shared::SharedStore,
    tables::{CANDIDATES_TABLE, JOURNAL_TABLE, TOMBSTONES_TABLE, open_if_present},
};
use midex_domain::{Digest, clock::Timestamp, error::Result, limits};

/// The progress of a sweep, which frees contents and removes old tombstones. Start with the default, and pass on what each
/// call returns until [`ContentSweep::is_done`].
#[derive(Clone, Debug)]
pub struct ContentSweep {
    /// Tombstones of deletions before this instant are removed.
    pub(crate) tombstones_before: Timestamp,
    /// The candidates that no row names, as far as the rows were searched.
    pub(crate) unnamed: Option<Arc<BTreeSet<Digest>>>,
    /// The candidates that a row names.
    pub(crate) named: Arc<BTreeSet<Digest>>,
    /// The rows before this key were searched.
    pub(crate) searched_before: u64,
    pub(crate) is_search_complete: bool,
    /// The tombstones that are still to be removed: the old ones, and the oldest ones beyond the limit.
    pub(crate) expired_tombstones: Vec<String>,
    pub(crate) is_done: bool,
    /// Whether there were more candidates than one sweep considers.
    pub(crate) has_more: bool,
}

impl ContentSweep {
    /// A sweep that has not begun. It removes the tombstones of deletions before `tombstones_before`.
    pub fn new(tombstones_before: Timestamp) -> Self {
        Self {
            tombstones_before,
            unnamed: None,
            named: Arc::default(),
            searched_before: 0,
            is_search_complete: false,
            expired_tombstones: Vec::new(),
            is_done: false,
            has_more: false,
        }
    }

    /// Tombstones of deletions before this instant are removed.
    pub fn tombstones_before(&self) -> Timestamp {
        self.tombstones_before
    }

    /// The same sweep, done in one call. `has_more` tells whether there were more candidates than one considers.
    #[must_use]
    pub fn into_done(self, has_more: bool) -> Self {
        Self { is_done: true, has_more, ..self }
    }

    /// Whether nothing is left to free.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether another sweep is needed, because there were more candidates than one considers.
    pub fn has_more(&self) -> bool {
        self.has_more
    }
}

/// Searches the next slice of the journal for the candidates.
pub(super) fn search_slice(shared: &SharedStore, mut sweep: ContentSweep) -> Result<ContentSweep> {
    shared.read(|transaction| {
        if sweep.unnamed.is_none() {
            let candidates = read_candidates(transaction)?;
            sweep.has_more = candidates.len() == limits::SWEEP_CANDIDATES_MAX;
            sweep.unnamed = Some(Arc::new(candidates));
            sweep.expired_tombstones =
                read_expired_tombstones(transaction, sweep.tombstones_before)?;
        }
        let unnamed = sweep.unnamed.get_or_insert_default();
        if unnamed.is_empty() {
            sweep.is_search_complete = true;
            return Ok(());
        }
        let search = DigestSearch::new(unnamed);
        let mut named = BTreeSet::new();
        let (mut bytes_left, mut is_complete) = (limits::SWEEP_SLICE_BYTES, true);
        let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
        for entry in journal.range(sweep.searched_before..).map_err(redb_error)? {
            if bytes_left == 0 {
                is_complete = false;
                break;
            }
            let (key, bytes) = entry.map_err(redb_error)?;
            named.extend(search.find_in(bytes.value()));
            sweep.searched_before = key.value() + 1;
            bytes_left = bytes_left.saturating_sub(bytes.value().len());
        }
        drop(search);
        Arc::make_mut(unnamed).retain(|digest| !named.contains(digest));
        Arc::make_mut(&mut sweep.named).extend(named);
        sweep.is_search_complete = is_complete;
        Ok(())
    })?;
    Ok(sweep)
}

/// The next transaction of a sweep that has searched all rows.
pub(super) fn next_freeing(mut sweep: ContentSweep) -> (ContentSweep, WriteRequest) {
    let mut rest = sweep.unnamed.take().map(Arc::unwrap_or_clone).unwrap_or_default();
    let unnamed: Vec<_> =
        std::iter::from_fn(|| rest.pop_first()).take(limits::SWEEP_FREED_TOGETHER_MAX).collect();
    let named: Vec<_> = std::mem::take(&mut sweep.named).iter().copied().collect();
    let tombstones_left =
        sweep.expired_tombstones.len().saturating_sub(limits::TOMBSTONES_REMOVED_TOGETHER_MAX);
    let tombstones = sweep.expired_tombstones.split_off(tombstones_left);
    sweep.is_done = rest.is_empty() && tombstones_left == 0;
    sweep.unnamed = Some(Arc::new(rest));
    let searched_before = sweep.searched_before;
    let request = WriteRequest::Free { unnamed, named, searched_before, tombstones };
    (sweep, request)
}

/// The tombstones of deletions before an instant, and the oldest ones of the others beyond [`limits::TOMBSTONES_MAX`].
fn read_expired_tombstones(
    transaction: &ReadTransaction,
    before: Timestamp,
) -> Result<Vec<String>> {
    let Some(table) = open_if_present(transaction, TOMBSTONES_TABLE)? else {
        return Ok(Vec::new());
    };
    let (mut expired, mut kept) = (Vec::new(), Vec::new());
    for entry in table.iter().map_err(redb_error)? {
        let (id, at) = entry.map_err(redb_error)?;
        let list = if at.value() < before.milliseconds() { &mut expired } else { &mut kept };
        list.push((at.value(), id.value().to_owned()));
    }
    if let Some(excess) =
        kept.len().checked_sub(limits::TOMBSTONES_MAX).filter(|excess| *excess > 0)
    {
        kept.select_nth_unstable(excess - 1);
        expired.extend(kept.drain(..excess));
    }
    Ok(expired.into_iter().map(|(_, id)| id).collect())
}

fn read_candidates(transaction: &ReadTransaction) -> Result<BTreeSet<Digest>> {
    let Some(table) = open_if_present(transaction, CANDIDATES_TABLE)? else {
        return Ok(BTreeSet::new());
    };
    let candidates = table.iter().map_err(redb_error)?.take(limits::SWEEP_CANDIDATES_MAX);
    candidates.map(|entry| Ok(Digest::from_bytes(*entry.map_err(redb_error)?.0.value()))).collect()
}
