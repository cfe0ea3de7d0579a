//! Files of an earlier format, brought up to this one. Whole or not at all: a crash leaves the old format, and
//! the next opening begins anew.

use redb::{ReadableDatabase, WriteTransaction};

use super::{
    batch::{EXECUTIONS, META, OPEN},
    fault::{fault, unavailable},
    file::{FORMAT, FORMAT_KEY, Opened},
    record,
};
use crate::{domain::ExecutionId, error::Result};

/// What an entry of the index may add to the file: a guess on the safe side.
const ENTRY_BYTES: u64 = 1 << 10;

/// From format 1 to 2: builds the index of open executions, for which every execution is looked at once.
///
/// # Errors
/// `STORE_CORRUPT` where one of them cannot be read: whether it is open is not known then. `STORE_UNAVAILABLE`
/// where there is no room.
pub(super) fn migrate(opened: &Opened) -> Result<()> {
    let open = open_executions(opened)?;
    let room = opened.disk.reserve(open.len() as u64 * ENTRY_BYTES);
    room.map_err(|error| unavailable(&error))?;
    let transaction = opened.database.begin_write().map_err(fault)?;
    index(&transaction, &open)?;
    let mut meta = transaction.open_table(META).map_err(fault)?;
    meta.insert(FORMAT_KEY, [FORMAT].as_slice())
        .map_err(fault)?;
    drop(meta);
    transaction.commit().map_err(fault)?;
    tracing::info!(
        open = open.len(),
        "the database has the format {FORMAT} now"
    );
    Ok(())
}

/// Snapshots may lie behind, but each says rightly whether its execution is open: the transition that ends one
/// brings a snapshot with it.
fn open_executions(opened: &Opened) -> Result<Vec<ExecutionId>> {
    let transaction = opened.database.begin_read().map_err(fault)?;
    let executions = transaction.open_table(EXECUTIONS).map_err(fault)?;
    let mut open = Vec::new();
    for entry in executions.range::<&str>(..).map_err(fault)? {
        let (id, bytes) = entry.map_err(fault)?;
        let (_, execution) = record::decode_snapshot(bytes.value())
            .map_err(|error| error.with("execution_id", id.value()))?;
        if !execution.state().is_final() {
            open.push(execution.id().clone());
        }
    }
    Ok(open)
}

fn index(transaction: &WriteTransaction, open: &[ExecutionId]) -> Result<()> {
    transaction.delete_table(OPEN).map_err(fault)?;
    let mut table = transaction.open_table(OPEN).map_err(fault)?;
    for id in open {
        table.insert(id.as_str(), ()).map_err(fault)?;
    }
    Ok(())
}
