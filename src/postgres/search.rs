//! Searches of the journal, which read its rows in portions.

use std::collections::BTreeSet;

use crate::{
    store::PostgresStore,
    value::{from_stored_key, to_int8},
};
use midex_domain::{Digest, Sequence, error::Result, limits};
use midex_engine::store::{
    DigestSearch, PlacedEntry, TelemetryEntry, TelemetryQuery, encode, matches_query,
};

impl PostgresStore {
    /// Calls `note` with each of the digests that a row contains, and the id of its execution. Returns the key after the last row
    /// that was searched. Without digests nothing is read, and the largest key is returned.
    pub(crate) async fn search_rows(
        &self,
        contents: &BTreeSet<Digest>,
        mut note: impl FnMut(Digest, &str),
    ) -> Result<Sequence> {
        if contents.is_empty() {
            return Ok(Sequence(u64::MAX));
        }
        let together = limits::DATABASE_ROWS_TOGETHER_MAX;
        let (search, mut last) = (DigestSearch::new(contents), 0_i64);
        loop {
            let rows = self
                .query(
                    "SELECT seq, execution_id, record FROM journal WHERE seq > $1 ORDER BY seq LIMIT $2",
                    &[&last, &to_int8(together)],
                )
                .await?;
            for row in &rows {
                last = row.get(0);
                let (id, record): (&str, &[u8]) = (row.get(1), row.get(2));
                search.find_in(record).for_each(|digest| note(digest, id));
            }
            if rows.len() < together {
                return Ok(from_stored_key(last.saturating_add(1)));
            }
        }
    }

    /// The latest transitions that match the query, newest first. At most [`limits::TELEMETRY_SCANNED_MAX`] rows are searched.
    pub(crate) async fn find_transitions(
        &self,
        query: &TelemetryQuery,
    ) -> Result<Vec<PlacedEntry>> {
        let (mut found, mut scanned, mut before) = (Vec::new(), 0, i64::MAX);
        while found.len() < query.limit && scanned < limits::TELEMETRY_SCANNED_MAX {
            let mut together = limits::DATABASE_ROWS_TOGETHER_MAX;
            if query.event_type.is_none() {
                // Every row matches.
                together = together.min(query.limit - found.len());
            }
            let limit = to_int8(together);
            let rows = if let Some(id) = &query.execution_id {
                let statement = "SELECT record, seq FROM journal WHERE execution_id = $1 AND seq < $2 \
                                 ORDER BY revision DESC LIMIT $3";
                self.query(statement, &[&id.as_str(), &before, &limit]).await?
            } else {
                let statement =
                    "SELECT record, seq FROM journal WHERE seq < $1 ORDER BY seq DESC LIMIT $2";
                self.query(statement, &[&before, &limit]).await?
            };
            scanned += rows.len();
            for row in &rows {
                before = row.get(1);
                let entry = TelemetryEntry::Transition(encode::decode_row(row.get(0))?);
                if matches_query(&entry, query) {
                    found.push((from_stored_key(before), entry));
                }
            }
            if rows.len() < together {
                break;
            }
        }
        Ok(found)
    }
}
