//! Deletions and sweeps inside of a batch.

use std::collections::BTreeSet;

use redb::{ReadableTable as _, Table, WriteTransaction};

use super::{Batch, missing_row_error};
use crate::store::{
    Deletion,
    changes::{DeletedRows, LogChange},
    fault::redb_error,
    index, record, revision_conflict_error,
    tables::{
        CANDIDATES_TABLE, FORKS_TABLE, META_TABLE, NEXT_KEY_KEY, OPEN_TABLE, TOMBSTONES_TABLE,
    },
};
use midex_domain::{
    Digest, Sequence,
    error::{Error, Result},
};

impl Batch<'_> {
    /// Removes an execution. The rows of the chain that it finds are listed in the log.
    pub(super) fn delete_execution(&mut self, deletion: &Deletion) -> Result<Result<Sequence>> {
        let id = &deletion.id;
        let head = self.find_stored_head(id)?;
        if head.revision != deletion.revision || head.last_key.is_none() {
            return Ok(Err(revision_conflict_error(id, deletion.revision, head.revision)));
        }
        let (mut keys, mut next) = (Vec::new(), head.last_key);
        while let Some(key) = next {
            let stored = self.journal.get(key).map_err(redb_error)?;
            let stored = stored.ok_or_else(missing_row_error)?;
            next = record::decode_row_header(stored.value())?.previous;
            keys.push(key);
        }
        // Each opening has the next key as its epoch. Without this key for the deletion, the next opening could have the same
        // epoch as this one.
        self.state.next_key += 1;
        let at = deletion.at.milliseconds();
        let rows = DeletedRows::encode(at, self.state.next_key, &keys);
        self.apply_change(LogChange::Deleted(id.as_str(), DeletedRows::new(&rows)?))?;
        if let Some(source) = &deletion.fork_of {
            self.apply_change(LogChange::ForkDeleted(source.as_str(), id.as_str()))?;
        }
        for digest in &deletion.contents {
            if self.content.get(digest.as_bytes()).map_err(redb_error)?.is_some() {
                self.apply_change(LogChange::Candidate(digest.as_bytes()))?;
            }
        }
        if self.state.heads.record_snapshot(id) {
            self.effects.heads.push((id.clone(), None));
        }
        Ok(Ok(Sequence(self.state.next_key)))
    }

    pub(super) fn free_contents(
        &mut self,
        unnamed: &[Digest],
        named: &[Digest],
        searched_before: u64,
    ) -> Result<()> {
        let mut unnamed: BTreeSet<_> = unnamed.iter().copied().collect();
        let named_since = self.find_named_from(searched_before, &unnamed)?;
        unnamed.retain(|digest| !named_since.contains(digest));
        for digest in named.iter().chain(&named_since) {
            self.apply_change(LogChange::Swept(digest.as_bytes(), false))?;
        }
        for digest in &unnamed {
            self.apply_change(LogChange::Swept(digest.as_bytes(), true))?;
        }
        Ok(())
    }

    pub(super) fn remove_tombstones(&mut self, ids: &[String]) -> Result<()> {
        ids.iter().try_for_each(|id| self.apply_change(LogChange::TombstoneRemoved(id)))
    }

    /// Makes a removal in the tables, and records it for the log.
    pub(super) fn apply_change(&mut self, change: LogChange<'_>) -> Result<()> {
        self.changes.push(change);
        self.effects.has_changes = true;
        // The removal opens this table itself, and redb opens a table once at a time.
        self.open_table = None;
        apply_removal(
            self.transaction,
            (&mut self.executions, &mut self.journal, &mut self.content),
            change,
        )
    }
}

/// The tables that a removal changes besides the small ones, which it opens itself.
pub(in crate::store) type LargeTables<'t, 'a> = (
    &'t mut Table<'a, &'static str, &'static [u8]>,
    &'t mut Table<'a, u64, &'static [u8]>,
    &'t mut Table<'a, &'static [u8; 32], &'static [u8]>,
);

/// Applies a change of a deletion or of a sweep.
pub(in crate::store) fn apply_removal(
    transaction: &WriteTransaction,
    (executions, journal, content): LargeTables<'_, '_>,
    change: LogChange<'_>,
) -> Result<()> {
    match change {
        LogChange::Deleted(id, rows) => {
            for key in rows.keys() {
                journal.remove(key).map_err(redb_error)?;
            }
            executions.remove(id).map_err(redb_error)?;
            let mut open = transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
            open.remove(id).map_err(redb_error)?;
            let mut tombstones = transaction.open_table(TOMBSTONES_TABLE).map_err(redb_error)?;
            tombstones.insert(id, rows.at()).map_err(redb_error)?;
            index::remove_summary(transaction, rows.keys())?;
            let mut meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
            let next_key = rows.next_key().to_le_bytes();
            meta.insert(NEXT_KEY_KEY, next_key.as_slice()).map(drop)
        }
        LogChange::ForkDeleted(source, fork) => {
            let mut forks = transaction.open_table(FORKS_TABLE).map_err(redb_error)?;
            forks.remove((source, fork)).map(drop)
        }
        LogChange::Candidate(digest) => {
            let mut candidates = transaction.open_table(CANDIDATES_TABLE).map_err(redb_error)?;
            candidates.insert(digest, ()).map(drop)
        }
        LogChange::Swept(digest, is_freed) => {
            let mut candidates = transaction.open_table(CANDIDATES_TABLE).map_err(redb_error)?;
            candidates.remove(digest).map_err(redb_error)?;
            if is_freed { content.remove(digest).map(drop) } else { Ok(()) }
        }
        LogChange::TombstoneRemoved(id) => {
            let mut tombstones = transaction.open_table(TOMBSTONES_TABLE).map_err(redb_error)?;
            tombstones.remove(id).map(drop)
        }
        _ => return Err(Error::internal("a change that is no removal")),
    }
    .map_err(redb_error)
}
