//! One batch of commits: a compare-and-set for each, in one transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::future::{join_all, try_join_all};
use tokio_postgres::{Client, Statement, error::SqlState, types::ToSql};

use super::{QueuedCommit, WriteError, WriterConnection, WriterContext, shard_lost_error};
use crate::{
    query::encode_labels,
    shard::{Shard, UNSETTLED_KEYS},
    value::{digest_column, from_int8, to_int8, to_stored_key},
};
use midex_domain::{
    Digest, Execution, ExecutionId, Sequence, clock::Timestamp, error::Result, limits,
};
use midex_engine::store::{Commit, PastChange, RefusedCall, encode, find_named_contents};

/// The prepared statements of a batch.
pub(super) struct Statements {
    pub(super) lock_shards: Statement,
    pub(super) read_revisions: Statement,
    check_expectation: Statement,
    insert_rows: Statement,
    store_executions: Statement,
    pub(super) store_snapshots: Statement,
    store_contents: Statement,
    insert_forks: Statement,
    insert_refusals: Statement,
    trim_refusals: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let texts = [
            "SELECT shard, epoch FROM shards WHERE shard = ANY($1) AND owner = $2 ORDER BY shard FOR SHARE",
            // Looks each id up in the primary key. With `id = ANY($1)`, a plan that was made while the table was small reads all of it.
            "SELECT wanted.id, stored.revision FROM unnest($1::text[]) AS wanted (id), \
             LATERAL (SELECT revision FROM executions WHERE id = wanted.id LIMIT 1) AS stored",
            // Fails unless all epochs and revisions are as expected: the statements that were sent with it then change nothing.
            "SELECT 1 / CASE WHEN (SELECT count(*) FROM unnest($1::int4[], $2::int8[]) AS expected (shard, epoch) \
             JOIN shards USING (shard, epoch) WHERE owner = $3) < cardinality($1) \
             OR EXISTS (SELECT FROM unnest($4::text[], $5::int8[]) AS expected (id, revision) LEFT JOIN \
             LATERAL (SELECT revision FROM executions WHERE id = expected.id LIMIT 1) AS stored ON TRUE \
             WHERE expected.revision <> coalesce(stored.revision, 0)) THEN 0 ELSE 1 END",
            "INSERT INTO journal (execution_id, revision, seq, record) \
             SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::bytea[])",
            "INSERT INTO executions (id, shard, revision, seq, due, has_ended, state, workflow, project, is_child, labels, \
             updated_at) \
             SELECT id, shard, revision, seq, due, has_ended, state, workflow, project, is_child, labels::jsonb, updated_at \
             FROM unnest($1::text[], $2::int4[], $3::int8[], $4::int8[], $5::int8[], $6::bool[], $7::text[], $8::text[], \
             $9::text[], $10::bool[], $11::text[], $12::int8[]) \
             AS new (id, shard, revision, seq, due, has_ended, state, workflow, project, is_child, labels, updated_at) \
             ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, seq = excluded.seq, due = excluded.due, \
             has_ended = excluded.has_ended, state = excluded.state, updated_at = excluded.updated_at, \
             labels = excluded.labels",
            "INSERT INTO snapshots (execution_id, revision, bytes) SELECT * FROM unnest($1::text[], $2::int8[], $3::bytea[]) \
             ON CONFLICT (execution_id) DO UPDATE SET revision = excluded.revision, bytes = excluded.bytes",
            // The update waits for a transaction that is about to free the content.
            "INSERT INTO contents (digest, bytes) SELECT * FROM unnest($1::bytea[], $2::bytea[]) \
             ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest",
            "INSERT INTO forks (source, fork) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING",
            // Servers give keys to refusals that belong to no execution, and may give the same one.
            "INSERT INTO refusals (seq, record) SELECT * FROM unnest($1::int8[], $2::bytea[]) ON CONFLICT DO NOTHING",
            "DELETE FROM refusals WHERE seq <= (SELECT seq FROM refusals ORDER BY seq DESC OFFSET $1 LIMIT 1)",
        ];
        let prepared = try_join_all(texts.into_iter().map(|text| client.prepare(text))).await?;
        let mut prepared = prepared.into_iter();
        let mut next = || prepared.next().expect("as many statements as texts");
        Ok(Self {
            lock_shards: next(),
            read_revisions: next(),
            check_expectation: next(),
            insert_rows: next(),
            store_executions: next(),
            store_snapshots: next(),
            store_contents: next(),
            insert_forks: next(),
            insert_refusals: next(),
            trim_refusals: next(),
        })
    }
}

/// Begins a transaction, locks the leases of the shards, and reads the revisions of the executions, in one round trip.
pub(super) async fn begin(
    connection: &WriterConnection,
    context: &WriterContext,
    shards: &BTreeSet<Shard>,
    ids: &[&str],
) -> Result<BeganTransaction, tokio_postgres::Error> {
    let numbers: Vec<_> = shards.iter().map(|shard| shard.number()).collect();
    let (client, statements) = (&connection.client, &connection.statements);
    let lock: [&(dyn ToSql + Sync); 2] = [&numbers, &context.leases.owner];
    let read: [&(dyn ToSql + Sync); 1] = [&ids];
    let (begun, locked, stored) = tokio::join!(
        client.batch_execute("BEGIN"),
        client.query(&statements.lock_shards, &lock),
        client.query(&statements.read_revisions, &read),
    );
    begun?;
    let epochs = locked?.iter().map(|row| (row.get(0), row.get(1))).collect();
    let stored = stored?;
    let revisions = stored.iter().map(|row| (row.get(0), from_int8(row.get(1)))).collect();
    Ok(BeganTransaction { epochs, revisions })
}

/// The epochs and revisions that a transaction read after it locked its shards.
pub(super) struct BeganTransaction {
    epochs: HashMap<i32, i64>,
    revisions: HashMap<String, u64>,
}

impl BeganTransaction {
    /// Checks that this server still owns the shard of an execution.
    ///
    /// # Errors
    /// `SHARD_LOST`.
    pub(super) fn check_shard(
        &self,
        context: &WriterContext,
        id: &ExecutionId,
        shard: Shard,
    ) -> Result<()> {
        let held = context.leases.epoch(shard);
        match held {
            Some(epoch) if self.epochs.get(&shard.number()) == Some(&epoch) => Ok(()),
            _ => Err(shard_lost_error(id, shard)),
        }
    }

    /// The stored revision of an execution; 0 where there is none.
    pub(super) fn revision(&self, id: &ExecutionId) -> u64 {
        self.revisions.get(id.as_str()).copied().unwrap_or_default()
    }
}

/// Stores each commit whose revision follows the stored one. Returns the outcome of each commit.
pub(super) async fn write(
    connection: &WriterConnection,
    context: &WriterContext,
    commits: &[QueuedCommit],
    refusals: &[RefusedCall],
) -> Result<Vec<Result<Sequence>>, WriteError> {
    match write_expected(connection, context, commits, refusals).await? {
        Some(keys) => Ok(keys.into_iter().map(Ok).collect()),
        None => write_admitted(connection, context, commits, refusals).await,
    }
}

/// What the database must hold for all commits of a batch to be stored.
struct Expectation<'a> {
    shards: BTreeMap<Shard, i64>,
    revisions: BTreeMap<&'a str, i64>,
}

impl<'a> Expectation<'a> {
    /// `None` for a batch in which an execution has several commits, or one that changes its past, or one of a shard that this
    /// server does not own.
    fn of_batch(context: &WriterContext, commits: &'a [QueuedCommit]) -> Option<Self> {
        let mut expected = Self { shards: BTreeMap::new(), revisions: BTreeMap::new() };
        for QueuedCommit { commit, shard, .. } in commits {
            let (id, revision) = (commit.execution.id().as_str(), commit.row.revision);
            let before = revision.checked_sub(1).filter(|_| commit.past.is_none())?;
            commit.check(before).ok()?;
            expected.shards.insert(*shard, context.leases.epoch(*shard)?);
            if expected.revisions.insert(id, to_int8(before)).is_some() {
                return None;
            }
        }
        Some(expected)
    }
}

/// Stores all commits in one round trip, if the database holds what they expect. Otherwise nothing is stored, and the result is
/// `None`. Returns the keys of the rows.
async fn write_expected(
    connection: &WriterConnection,
    context: &WriterContext,
    commits: &[QueuedCommit],
    refusals: &[RefusedCall],
) -> Result<Option<Vec<Sequence>>, WriteError> {
    let Some(expected) = Expectation::of_batch(context, commits) else {
        return Ok(None);
    };
    let mut rows = NewRows::default();
    rows.add_refusals(context, refusals)?;
    let keys: Vec<_> = commits.iter().map(|queued| context.next_key(queued.shard)).collect();
    for (queued, key) in commits.iter().zip(&keys) {
        rows.add_commit(queued, *key);
    }
    let (client, statements) = (&connection.client, &connection.statements);
    let owner = &context.leases.owner;
    let shards: Vec<_> = expected.shards.keys().map(|shard| shard.number()).collect();
    let epochs: Vec<_> = expected.shards.into_values().collect();
    let (ids, revisions): (Vec<_>, Vec<_>) = expected.revisions.into_iter().unzip();
    let lock: [&(dyn ToSql + Sync); 2] = [&shards, owner];
    let check: [&(dyn ToSql + Sync); 5] = [&shards, &epochs, owner, &ids, &revisions];
    // The check is a separate statement, so that it sees all that was committed before the locks were granted.
    let (begun, locked, checked, written) = tokio::join!(
        client.batch_execute("BEGIN"),
        client.execute(&statements.lock_shards, &lock),
        client.execute(&statements.check_expectation, &check),
        rows.write_and_commit(connection),
    );
    begun?;
    locked?;
    match checked {
        Err(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => return Ok(None),
        checked => checked?,
    };
    match written {
        // A transaction whose outcome was unknown has been committed since the check.
        Err(WriteError::Database(error)) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            Ok(None)
        }
        written => written.map(|()| Some(keys)),
    }
}

/// Stores those commits that the database admits, in two round trips.
async fn write_admitted(
    connection: &WriterConnection,
    context: &WriterContext,
    commits: &[QueuedCommit],
    refusals: &[RefusedCall],
) -> Result<Vec<Result<Sequence>>, WriteError> {
    let shards = commits.iter().map(|queued| queued.shard).collect();
    let ids: BTreeSet<_> =
        commits.iter().map(|queued| queued.commit.execution.id().as_str()).collect();
    let ids: Vec<_> = ids.into_iter().collect();
    let mut found = begin(connection, context, &shards, &ids).await?;
    let mut rows = NewRows::default();
    rows.add_refusals(context, refusals)?;
    let mut outcomes = Vec::new();
    for queued in commits {
        let (commit, id) = (&queued.commit, queued.commit.execution.id());
        let admitted = found
            .check_shard(context, id, queued.shard)
            .and_then(|()| commit.check(found.revision(id)));
        outcomes.push(admitted.map(|()| {
            let key = context.next_key(queued.shard);
            found.revisions.insert(id.to_string(), commit.row.revision);
            rows.add_commit(queued, key);
            key
        }));
    }
    let past = commits.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
    for commit in past.map(|(queued, _)| &queued.commit) {
        if let Some(past) = &commit.past {
            // The search must see the rows of this batch.
            rows.take_and_write(connection).await?;
            change_past(&connection.client, commit, past).await?;
        }
    }
    rows.write_and_commit(connection).await?;
    Ok(outcomes)
}

/// Replaces earlier rows of an execution, and frees contents that no later row names.
async fn change_past(
    client: &Client,
    commit: &Commit,
    past: &PastChange,
) -> Result<(), WriteError> {
    for row in &past.rows {
        let record = encode::encode_row(row)?;
        let revision = to_int8(row.revision);
        let change = "UPDATE journal SET record = $1 WHERE execution_id = $2 AND revision = $3";
        client.execute(change, &[&record, &commit.execution.id().as_str(), &revision]).await?;
    }
    free_contents(client, &past.released, past.searched_before).await
}

/// Frees those of the contents that no row from this key on names. The rows of the minute before are searched again: another
/// server may have committed one of them after a row with a larger key.
pub(super) async fn free_contents(
    client: &Client,
    contents: &BTreeSet<Digest>,
    searched_before: Sequence,
) -> Result<(), WriteError> {
    if contents.is_empty() {
        return Ok(());
    }
    let digests = digest_column(contents);
    // A transaction that stores one of them again ends first, and its rows are searched below.
    client
        .query(
            "SELECT digest FROM contents WHERE digest = ANY($1) ORDER BY digest FOR UPDATE",
            &[&digests],
        )
        .await?;
    let settled = Sequence(searched_before.0.saturating_sub(UNSETTLED_KEYS));
    let later = client
        .query("SELECT record FROM journal WHERE seq >= $1", &[&to_stored_key(settled)])
        .await?;
    let later = later.iter().map(|row| encode::decode_row(row.get(0)));
    let named = find_named_contents(&later.collect::<Result<Vec<_>>>()?, contents)?;
    let unnamed = digest_column(contents.difference(&named));
    client.execute("DELETE FROM contents WHERE digest = ANY($1)", &[&unnamed]).await?;
    Ok(())
}

/// What a transaction stores, by table and column.
#[derive(Default)]
pub(super) struct NewRows<'a> {
    row_ids: Vec<&'a str>,
    row_revisions: Vec<i64>,
    row_keys: Vec<i64>,
    row_records: Vec<&'a [u8]>,
    executions: BTreeMap<&'a str, ExecutionColumns<'a>>,
    /// By execution: the revision of its snapshot, and the bytes.
    snapshots: BTreeMap<&'a str, (i64, &'a [u8])>,
    contents: BTreeMap<Digest, &'a [u8]>,
    forks: Vec<(&'a str, &'a str)>,
    refusal_keys: Vec<i64>,
    refusals: Vec<Vec<u8>>,
}

/// A row of the table of executions.
pub(super) struct ExecutionColumns<'a> {
    pub(super) execution: &'a Execution,
    pub(super) shard: Shard,
    pub(super) key: Sequence,
    pub(super) due: Option<Timestamp>,
    pub(super) snapshot: Option<&'a [u8]>,
}

impl<'a> NewRows<'a> {
    fn add_commit(&mut self, queued: &'a QueuedCommit, key: Sequence) {
        let QueuedCommit { commit, records, shard, .. } = queued;
        let execution = &*commit.execution;
        self.add_row(execution.id(), commit.row.revision, key, &records.row);
        // The first row tells the whole state.
        let is_first = commit.row.revision == 1;
        let columns = ExecutionColumns {
            execution,
            shard: *shard,
            key,
            due: commit.due.filter(|_| !execution.is_over()),
            snapshot: records.snapshot.as_deref().filter(|_| !is_first),
        };
        self.add_execution(columns);
        for (digest, content) in &commit.contents {
            self.add_content(*digest, content);
        }
        if let Some(origin) = commit.row.fork_origin() {
            self.add_fork(&origin.execution_id, execution.id());
        }
    }

    pub(super) fn add_row(
        &mut self,
        id: &'a ExecutionId,
        revision: u64,
        key: Sequence,
        record: &'a [u8],
    ) {
        self.row_ids.push(id.as_str());
        self.row_revisions.push(to_int8(revision));
        self.row_keys.push(to_stored_key(key));
        self.row_records.push(record);
    }

    pub(super) fn add_execution(&mut self, columns: ExecutionColumns<'a>) {
        let execution = columns.execution;
        if let Some(snapshot) = columns.snapshot {
            let revision = to_int8(execution.revision());
            self.snapshots.insert(execution.id().as_str(), (revision, snapshot));
        }
        self.executions.insert(execution.id().as_str(), columns);
    }

    pub(super) fn add_content(&mut self, digest: Digest, content: &'a [u8]) {
        self.contents.insert(digest, content);
    }

    pub(super) fn add_fork(&mut self, source: &'a ExecutionId, fork: &'a ExecutionId) {
        self.forks.push((source.as_str(), fork.as_str()));
    }

    /// Adds refusals. Their keys are of the shard of their execution, if it is known.
    pub(super) fn add_refusals(
        &mut self,
        context: &WriterContext,
        refusals: &[RefusedCall],
    ) -> Result<()> {
        for refusal in refusals {
            let shard = refusal.execution_id.as_ref().map(Shard::of_execution);
            let shard = shard.unwrap_or_default();
            let key = context.next_key(shard);
            self.refusal_keys.push(to_stored_key(key));
            self.refusals.push(encode::encode_refusal(refusal)?);
        }
        Ok(())
    }

    /// Writes the added records, and keeps the transaction open.
    pub(super) async fn take_and_write(
        &mut self,
        connection: &WriterConnection,
    ) -> Result<(), WriteError> {
        std::mem::take(self).write(connection, "").await
    }

    /// Writes everything and commits, in one round trip.
    pub(super) async fn write_and_commit(
        self,
        connection: &WriterConnection,
    ) -> Result<(), WriteError> {
        self.write(connection, "COMMIT").await
    }

    async fn write(self, connection: &WriterConnection, last: &str) -> Result<(), WriteError> {
        let (client, statements) = (&connection.client, &connection.statements);
        let changed: Vec<_> = self.executions.into_values().collect();
        let executions = collect_columns(&changed)?;
        let (snapshot_ids, snapshots): (Vec<_>, Vec<_>) = self.snapshots.into_iter().unzip();
        let (snapshot_revisions, snapshots): (Vec<_>, Vec<_>) = snapshots.into_iter().unzip();
        let digests = digest_column(self.contents.keys());
        let contents: Vec<_> = self.contents.values().copied().collect();
        let (sources, forks): (Vec<_>, Vec<_>) = self.forks.into_iter().unzip();
        let kept = to_int8(limits::REFUSALS_KEPT_MAX);
        let inserts: [(&Statement, bool, Vec<&(dyn ToSql + Sync)>); 7] = [
            (&statements.store_contents, digests.is_empty(), vec![&digests, &contents]),
            (
                &statements.insert_rows,
                self.row_ids.is_empty(),
                vec![&self.row_ids, &self.row_revisions, &self.row_keys, &self.row_records],
            ),
            (
                &statements.store_executions,
                changed.is_empty(),
                executions.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect(),
            ),
            (
                &statements.store_snapshots,
                snapshot_ids.is_empty(),
                vec![&snapshot_ids, &snapshot_revisions, &snapshots],
            ),
            (&statements.insert_forks, forks.is_empty(), vec![&sources, &forks]),
            (
                &statements.insert_refusals,
                self.refusals.is_empty(),
                vec![&self.refusal_keys, &self.refusals],
            ),
            (&statements.trim_refusals, self.refusals.is_empty(), vec![&kept]),
        ];
        let inserts = inserts.iter().filter(|(_, is_empty, _)| !is_empty);
        let inserts = inserts.map(|(statement, _, columns)| client.execute(*statement, columns));
        // The requests are sent in this order, without waiting for the answers between them.
        let (written, committed) = tokio::join!(join_all(inserts), client.batch_execute(last));
        for written in written {
            written?;
        }
        committed?;
        Ok(())
    }
}

/// A parameter of a statement, with a value for each row.
type Column<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The parameters of [`Statements::store_executions`], in the order of its text.
fn collect_columns<'a>(rows: &[ExecutionColumns<'a>]) -> Result<[Column<'a>; 12]> {
    let executions = || rows.iter().map(|columns| columns.execution);
    let labels: Vec<_> =
        executions().map(|execution| encode_labels(execution.labels())).collect::<Result<_>>()?;
    Ok([
        column(executions().map(|execution| execution.id().as_str())),
        column(rows.iter().map(|columns| columns.shard.number())),
        column(executions().map(|execution| to_int8(execution.revision()))),
        column(rows.iter().map(|columns| to_stored_key(columns.key))),
        column(rows.iter().map(|columns| columns.due.map(Timestamp::milliseconds))),
        column(executions().map(Execution::has_ended)),
        column(executions().map(|execution| execution.state().as_str())),
        column(executions().map(|execution| execution.workflow().as_str())),
        column(executions().map(Execution::project)),
        column(executions().map(|execution| execution.parent().is_some())),
        column(labels.into_iter()),
        column(executions().map(|execution| execution.updated_at().milliseconds())),
    ])
}

fn column<'a, T: ToSql + Sync + Send + 'a>(values: impl Iterator<Item = T>) -> Column<'a> {
    Box::new(values.collect::<Vec<_>>())
}
