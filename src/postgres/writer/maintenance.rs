//! The writer's requests other than commits. Each runs in a separate transaction.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    WriteError, WriterConnection, WriterContext,
    batch::{ExecutionColumns, NewRows, begin, free_contents},
};
use crate::{
    shard::Shard,
    value::{digest_column, to_int8},
};
use midex_domain::{
    Digest, Execution, ExecutionId, Sequence,
    error::{Code, Error, Result},
};
use midex_engine::store::{
    Deletion, Import, RefusedCall, encode, id_taken_error, revision_conflict_error,
};

/// A request other than a commit.
#[derive(Debug)]
pub(crate) enum MaintenanceRequest {
    /// Store a snapshot of an execution that is stored already.
    Checkpoint { execution: Arc<Execution>, snapshot: Vec<u8> },
    /// Store the refusals that were noted until now.
    StoreRefusals,
    /// Remove an execution.
    Delete(Deletion),
    /// Store executions of another store.
    Import(Import),
    /// Free candidates that no row from a key on names, and forget the candidates that rows before it name. Remove
    /// tombstones of deletions before a time.
    Free {
        /// The marks with which the candidates were read. One that was noted again since stays a candidate.
        marks: BTreeMap<Digest, i64>,
        /// Candidates that no row before `searched_before` names.
        unnamed: BTreeSet<Digest>,
        searched_before: Sequence,
        tombstones_before: i64,
    },
}

pub(super) async fn maintain(
    connection: &WriterConnection,
    context: &WriterContext,
    request: &MaintenanceRequest,
    refusals: &[RefusedCall],
) -> Result<(), WriteError> {
    let mut rows = NewRows::default();
    match request {
        MaintenanceRequest::Checkpoint { execution, snapshot } => {
            begin_one(connection, context, execution.id(), execution.revision()).await?;
            let revision = to_int8(execution.revision());
            let ids = vec![execution.id().as_str()];
            let (revisions, snapshots) = (vec![revision], vec![snapshot]);
            let store = &connection.statements.store_snapshots;
            connection.client.execute(store, &[&ids, &revisions, &snapshots]).await?;
        }
        MaintenanceRequest::StoreRefusals => {
            begin(connection, context, &BTreeSet::new(), &[]).await?;
        }
        MaintenanceRequest::Delete(deletion) => delete(connection, context, deletion).await?,
        MaintenanceRequest::Import(import) => {
            return write_import(connection, context, import, refusals).await;
        }
        MaintenanceRequest::Free { marks, unnamed, searched_before, tombstones_before } => {
            begin(connection, context, &BTreeSet::new(), &[]).await?;
            free_contents(&connection.client, unnamed, *searched_before).await?;
            let client = &connection.client;
            let forget = "DELETE FROM candidates USING unnest($1::bytea[], $2::int8[]) AS done (digest, mark) \
                          WHERE candidates.digest = done.digest AND candidates.mark = done.mark";
            let (digests, marks) =
                (digest_column(marks.keys()), marks.values().copied().collect::<Vec<_>>());
            client.execute(forget, &[&digests, &marks]).await?;
            client.execute("DELETE FROM tombstones WHERE at < $1", &[tombstones_before]).await?;
        }
    }
    rows.add_refusals(context, refusals)?;
    rows.write_and_commit(connection).await
}

/// Begins a transaction on one execution, which must have this revision.
async fn begin_one(
    connection: &WriterConnection,
    context: &WriterContext,
    id: &ExecutionId,
    revision: u64,
) -> Result<(), WriteError> {
    let shard = Shard::of_execution(id);
    let found = begin(connection, context, &[shard].into(), &[id.as_str()]).await?;
    found.check_shard(context, id, shard)?;
    let stored = found.revision(id);
    if stored == revision && stored > 0 {
        return Ok(());
    }
    Err(revision_conflict_error(id, revision, stored).into())
}

async fn delete(
    connection: &WriterConnection,
    context: &WriterContext,
    deletion: &Deletion,
) -> Result<(), WriteError> {
    let Deletion { id, revision, at, fork_of, contents } = deletion;
    begin_one(connection, context, id, *revision).await?;
    let (client, id) = (&connection.client, id.as_str());
    client.execute("DELETE FROM journal WHERE execution_id = $1", &[&id]).await?;
    client.execute("DELETE FROM snapshots WHERE execution_id = $1", &[&id]).await?;
    client.execute("DELETE FROM executions WHERE id = $1", &[&id]).await?;
    if let Some(source) = fork_of {
        let remove = "DELETE FROM forks WHERE source = $1 AND fork = $2";
        client.execute(remove, &[&source.as_str(), &id]).await?;
    }
    let keep = "INSERT INTO tombstones (id, at) VALUES ($1, $2) \
                ON CONFLICT (id) DO UPDATE SET at = excluded.at";
    client.execute(keep, &[&id, &at.milliseconds()]).await?;
    let contents = digest_column(contents);
    let note = "INSERT INTO candidates (digest) SELECT unnest($1::bytea[]) \
                ON CONFLICT (digest) DO UPDATE SET mark = candidates.mark + 1";
    client.execute(note, &[&contents]).await?;
    Ok(())
}

async fn write_import(
    connection: &WriterConnection,
    context: &WriterContext,
    import: &Import,
    refusals: &[RefusedCall],
) -> Result<(), WriteError> {
    let states = import.check()?;
    let ids: Vec<_> = states.iter().map(|execution| execution.id().as_str()).collect();
    // Imported executions are read-only, so another server may own them. The keys of their rows are of a shard of this server.
    let shard = context.leases.list().first().copied();
    let shard =
        shard.ok_or_else(|| Error::new(Code::StoreUnavailable, "this server owns no shard"))?;
    let found = begin(connection, context, &[shard].into(), &ids).await?;
    let client = &connection.client;
    let deleted = client.query("SELECT id FROM tombstones WHERE id = ANY($1)", &[&ids]).await?;
    let is_deleted =
        |id: &ExecutionId| deleted.iter().any(|row| row.get::<_, &str>(0) == id.as_str());
    for id in states.iter().map(Execution::id) {
        found.check_shard(context, id, shard)?;
        if found.revision(id) > 0 || is_deleted(id) {
            return Err(id_taken_error(id).into());
        }
    }
    let digests = digest_column(import.contents.iter().map(|(digest, _)| digest));
    let contents: Vec<_> = import.contents.iter().map(|(_, content)| &**content).collect();
    let store = "WITH new AS (INSERT INTO contents (digest, bytes) \
                 SELECT DISTINCT ON (digest) digest, bytes \
                 FROM unnest($1::bytea[], $2::bytea[]) AS given (digest, bytes) \
                 ON CONFLICT DO NOTHING RETURNING digest) \
                 INSERT INTO candidates (digest) SELECT digest FROM new ON CONFLICT DO NOTHING";
    client.execute(store, &[&digests, &contents]).await?;
    let mut records = Vec::new();
    for (execution, rows) in states.iter().zip(&import.executions) {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| Ok((row.revision, encode::encode_row(row)?)))
            .collect::<Result<_>>()?;
        records.push((execution, rows, encode::encode_snapshot(execution, 0)?));
    }
    let mut new = NewRows::default();
    for (execution, rows, snapshot) in &records {
        let id = execution.id();
        let mut key = Sequence(0);
        for (revision, record) in rows {
            key = context.next_key(shard);
            new.add_row(id, *revision, key, record);
        }
        if let Some(origin) = execution.origin() {
            new.add_fork(&origin.execution_id, id);
        }
        new.add_execution(ExecutionColumns {
            execution,
            shard: Shard::of_execution(id),
            key,
            due: None,
            snapshot: Some(snapshot),
        });
    }
    new.add_refusals(context, refusals)?;
    new.write_and_commit(connection).await
}
