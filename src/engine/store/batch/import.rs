//! Imports inside of a batch. The writer does not put such a batch into the log.

use redb::ReadableTable as _;

use super::Batch;
use crate::store::{
    changes::LogChange,
    fault::redb_error,
    import::{EncodedExecution, EncodedImport, id_taken_error},
    record::{self, RowHeader},
    tables::{FORKS_TABLE, TOMBSTONES_TABLE},
};
use midex_domain::{Sequence, error::Result};

impl Batch<'_> {
    /// Stores the contents and executions of an import, or nothing if an id is taken.
    pub(super) fn import(&mut self, import: &mut EncodedImport) -> Result<Result<Sequence>> {
        for execution in &import.executions {
            let id = &execution.id;
            let tombstones = self.transaction.open_table(TOMBSTONES_TABLE).map_err(redb_error)?;
            let is_deleted = tombstones.get(id.as_str()).map_err(redb_error)?.is_some();
            if is_deleted || self.find_stored_head(id)?.revision > 0 {
                return Ok(Err(id_taken_error(id)));
            }
        }
        for (digest, content) in &import.contents {
            if self.content.get(digest.as_bytes()).map_err(redb_error)?.is_none() {
                self.content.insert(digest.as_bytes(), &**content).map_err(redb_error)?;
                self.apply_change(LogChange::Candidate(digest.as_bytes()))?;
            }
        }
        for execution in &mut import.executions {
            self.insert_execution(execution)?;
        }
        self.effects.has_changes = true;
        Ok(Ok(Sequence(self.state.next_key)))
    }

    fn insert_execution(&mut self, execution: &mut EncodedExecution) -> Result<()> {
        let mut previous = None;
        for row in &mut execution.rows {
            let key = self.state.next_key;
            // The snapshot of the same transaction covers these rows.
            let replay_from = self.state.heads.replay_from().unwrap_or(key + 1);
            record::seal_row(row, RowHeader { previous, replay_from });
            self.journal.insert(key, row.as_slice()).map_err(redb_error)?;
            previous = Some(key);
            self.state.next_key += 1;
        }
        if let Some(last) = previous {
            self.insert_snapshot(&execution.id, last, &mut execution.snapshot)?;
        }
        if let Some(source) = &execution.fork_of {
            let mut forks = self.transaction.open_table(FORKS_TABLE).map_err(redb_error)?;
            forks.insert((source.as_str(), execution.id.as_str()), ()).map_err(redb_error)?;
        }
        Ok(())
    }
}
