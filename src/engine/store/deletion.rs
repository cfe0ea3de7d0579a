//! Deletion of an execution from the store.
//!
//! A deletion removes rows, snapshot and index entries in one transaction, so that no half of an execution is ever seen. The
//! contents that the rows named may be shared with other executions. They are noted as candidates in the same transaction, and
//! a sweep frees those that no row names.

use std::collections::BTreeSet;

use serde_json::Value;

use midex_domain::{
    Digest, ExecutionId, Row,
    clock::Timestamp,
    error::{Error, Result},
};

/// The removal of one execution from the store.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Deletion {
    /// The execution.
    pub id: ExecutionId,
    /// Its revision. Nothing is removed if it has another one.
    pub revision: u64,
    /// The time of the deletion, which the tombstone keeps.
    pub at: Timestamp,
    /// The execution that it is a fork of.
    pub fork_of: Option<ExecutionId>,
    /// The contents that its rows name: [`find_row_contents`].
    pub contents: BTreeSet<Digest>,
}

/// The contents that these rows name.
///
/// # Errors
/// `INTERNAL` where a row cannot be encoded.
pub fn find_row_contents(rows: &[Row]) -> Result<BTreeSet<Digest>> {
    let mut found = BTreeSet::new();
    for row in rows {
        let json = serde_json::to_value(row).map_err(|error| {
            Error::internal("a row cannot be searched for contents").with_source(error)
        })?;
        collect_digests(&json, &mut found);
    }
    Ok(found)
}

/// Adds all digests in a serialised row: a digest is a string of 64 hexadecimal digits. Other strings of this form do no harm,
/// because only contents that exist are freed.
pub(crate) fn collect_digests(json: &Value, found: &mut BTreeSet<Digest>) {
    match json {
        Value::String(text) => found.extend(Digest::parse(text)),
        Value::Array(items) => items.iter().for_each(|item| collect_digests(item, found)),
        Value::Object(entries) => entries.values().for_each(|value| collect_digests(value, found)),
        _ => {}
    }
}
