//! The store: reads from a pool of connections, and the queue of the writer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use deadpool_postgres::Pool;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_postgres::{Row as DatabaseRow, types::ToSql};
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{Connector, discard, reader},
    error::database_error,
    keeper::LeaseKeeper,
    lease::{LeaseOptions, Leases},
    publication::{DefinitionFollower, read_used_version},
    query::{ALL_EXECUTIONS, EXECUTION_COLUMNS, JOIN_SNAPSHOTS, ListStatement, read_execution},
    schema::prepare_tables,
    shard::{KEYS_BETWEEN_CLOCKS, Shard},
    status::read_status,
    value::{from_int8, from_stored_key, to_int8, to_stored_key},
    writer::{
        CommitWriter, MaintenanceRequest, NotedRefusals, QueuedCommit, WriterContext,
        WriterRequest, shard_lost_error,
    },
};
use midex_domain::{
    Digest, Event, Execution, ExecutionId, Row, Sequence,
    clock::{Clock, IdSource, Timestamp},
    error::{Code, Error, Result},
    event::OwnerEpoch,
    limits,
};
use midex_engine::store::{
    BackupReport, BoxFuture, BusyExecutions, ClusterStatus, Commit, CommitReceipt, ContentHolders,
    ContentSweep, Deletion, DueExecution, ExecutionSummary, Import, ListPage, ListQuery,
    LoadedExecution, PlacedEntry, Position, RefusedCall, Store, TelemetryEntry, TelemetryQuery,
    encode, latest_entries, store_closed_error,
};

/// The settings of a store.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The address of the database: `postgres://USER@HOST/DATABASE`.
    pub url: String,
    /// The schema that has the tables; `None` for that of the connection.
    pub schema: Option<String>,
    /// Where other servers reach this one.
    pub address: String,
    /// How long shards are owned.
    pub leases: LeaseOptions,
    /// Where the published definitions are copied to; `None` if this server does not use them.
    pub definitions: Option<PathBuf>,
    /// A snapshot is written at most every so many transitions.
    pub snapshot_every: u32,
    /// The clock, for the keys of rows.
    pub clock: Arc<dyn Clock>,
    /// The source of the name of this server.
    pub ids: Arc<dyn IdSource>,
}

impl PostgresOptions {
    /// Checks what can be checked without the database.
    ///
    /// # Errors
    /// `USAGE_INVALID` for an address that is none, or that has a password; `FILE_UNUSABLE` for a file of passwords that cannot be
    /// used.
    pub fn check(&self) -> Result<()> {
        Connector::new(&self.url, self.schema.as_deref(), self.leases).map(drop)
    }
}

impl fmt::Debug for PostgresOptions {
    /// The address of the database may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Executions in a database that several servers share.
pub struct PostgresStore {
    pool: Pool,
    requests: mpsc::Sender<WriterRequest>,
    refusals: Arc<NotedRefusals>,
    leases: Arc<Leases>,
    clock: Arc<dyn Clock>,
    snapshot_every: u32,
    /// Where the published definitions are copied to.
    definitions: Option<PathBuf>,
    /// The leases at the last search for what moved on other servers.
    searched_with: Mutex<BTreeMap<Shard, i64>>,
    is_closed: AtomicBool,
    /// Ends the writer, after all accepted requests, and then the keeper of the leases, which gives the shards back.
    stop: CancellationToken,
    /// Cancelled once both have ended.
    stopped: CancellationToken,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("leases", &self.leases).finish_non_exhaustive()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl PostgresStore {
    /// Opens the store, creates missing tables, and takes the shards without an owner.
    ///
    /// # Errors
    /// `STORE_TOO_NEW` for tables of a later version; `STORE_UNAVAILABLE` if the database cannot be reached; `USAGE_INVALID` for an address that is none.
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        let connector = Connector::new(&options.url, options.schema.as_deref(), options.leases)?;
        let mut client = connector.connect().await?;
        prepare_tables(&mut client).await?;
        let name = format!("{:032x}", options.ids.random());
        let leases = Arc::new(Leases::new(name, options.address, options.leases));
        let keeper = LeaseKeeper::start(client, connector.clone(), leases.clone()).await?;
        let (stop, stopped) = (CancellationToken::new(), CancellationToken::new());
        let (requests, queue) = mpsc::channel(limits::DATABASE_QUEUE_MAX);
        let refusals = Arc::new(NotedRefusals::default());
        let context = WriterContext::new(
            connector.clone(),
            leases.clone(),
            options.clock.clone(),
            refusals.clone(),
        );
        let writer = CommitWriter::new(context, queue);
        let pool = connector.build_pool()?;
        if let Some(directory) = &options.definitions {
            let mut follower = DefinitionFollower::new(pool.clone(), directory.clone());
            follower.look().await;
            tokio::spawn(follower.run(stop.clone()));
        }
        let writer = tokio::spawn(writer.run(stop.clone()));
        tokio::spawn(keeper.run(writer, stop.clone(), stopped.clone()));
        Ok(Self {
            pool,
            requests,
            refusals,
            leases,
            clock: options.clock,
            snapshot_every: options.snapshot_every,
            definitions: options.definitions,
            searched_with: Mutex::default(),
            is_closed: AtomicBool::new(false),
            stop,
            stopped,
        })
    }

    /// The number of shards that this server owns.
    pub fn count_shards(&self) -> usize {
        self.leases.list().len()
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) { Err(store_closed_error()) } else { Ok(()) }
    }

    /// Notes the leases of a search for what moved on other servers. Returns those of the search before.
    fn swap_searched(&self, held: BTreeMap<Shard, i64>) -> BTreeMap<Shard, i64> {
        let mut searched = self.searched_with.lock().unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut *searched, held)
    }

    pub(crate) async fn query(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<DatabaseRow>> {
        self.check_open()?;
        let client = reader(&self.pool).await?;
        let rows = async {
            let prepared = client.prepare_cached(statement).await.map_err(database_error)?;
            client.query(&prepared, parameters).await.map_err(database_error)
        };
        let rows = timeout(limits::DATABASE_TRANSACTION_MAX, rows).await;
        rows.unwrap_or_else(|_| Err(discard(client)))
    }

    async fn send(&self, request: WriterRequest) -> Result<()> {
        self.check_open()?;
        self.requests.send(request).await.map_err(|_| store_closed_error())
    }

    async fn maintain(&self, request: MaintenanceRequest) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.send(WriterRequest::Maintain(request, reply)).await?;
        answer.await.map_err(|_| store_closed_error())?
    }

    /// The page of a list, with its executions.
    async fn find_page(&self, query: &ListQuery) -> Result<ListPage> {
        let mut page = ListPage::default();
        if query.limit == 0 {
            self.check_open()?;
            return Ok(page);
        }
        let statement = ListStatement::new(query)?;
        let text = statement.text();
        let mut before = query.before.unwrap_or(Sequence(u64::MAX));
        let mut texts_left = limits::LIST_TEXTS_SEARCHED_MAX;
        loop {
            let wanted = query.limit - page.executions.len();
            let wanted = wanted.saturating_add(1).min(limits::DATABASE_ROWS_TOGETHER_MAX);
            let limit = to_int8(wanted);
            let rows =
                self.query(&text, &statement.parameters(&to_stored_key(before), &limit)).await?;
            let is_last = rows.len() < wanted;
            for row in &rows {
                let (key, loaded) = read_execution(row)?;
                if page.executions.len() == query.limit {
                    page.next_key = Some(before);
                    return Ok(page);
                }
                if query.text.is_some() {
                    if texts_left == 0 {
                        // The next page begins with this execution.
                        page.next_key = Some(before);
                        return Ok(page);
                    }
                    texts_left -= 1;
                }
                before = key;
                if self.admits(query, &loaded.execution).await? {
                    page.executions.push((key, loaded.execution));
                }
            }
            if is_last {
                return Ok(page);
            }
        }
    }

    /// Whether the query admits an execution that its statement found.
    async fn admits(&self, query: &ListQuery, execution: &Execution) -> Result<bool> {
        let summary = ExecutionSummary::new(execution);
        if !query.admits_summary(&summary) {
            return Ok(false);
        }
        let Some(text) = query.text.as_ref().filter(|text| !text.is_in_summary(&summary)) else {
            return Ok(true);
        };
        let rows = self.load_rows(execution.id(), [1].into()).await?;
        let Some(first) = rows.first() else {
            return Ok(false);
        };
        let inputs = first.events.first().and_then(|event| match event {
            Event::Created(created) => created.inputs.as_ref(),
            _ => None,
        });
        let content = match inputs.filter(|inputs| inputs.inline.is_none()) {
            Some(inputs) => self.load_content(inputs.digest).await?,
            None => None,
        };
        text.is_in_inputs(first, |_| Ok(content))
    }
}

fn read_rows(rows: &[DatabaseRow]) -> Result<Vec<Row>> {
    rows.iter().map(|row| encode::decode_row(row.get(0))).collect()
}

impl Store for PostgresStore {
    fn owner(&self, id: &ExecutionId) -> Result<OwnerEpoch> {
        let shard = Shard::of_execution(id);
        let epoch = self.leases.epoch(shard).ok_or_else(|| shard_lost_error(id, shard))?;
        Ok(OwnerEpoch(from_int8(epoch)))
    }

    fn watch_ownership(&self, list_busy: BusyExecutions) -> Option<watch::Receiver<()>> {
        Some(self.leases.watch(list_busy))
    }

    fn is_leaving(&self, id: &ExecutionId) -> bool {
        self.leases.is_leaving(Shard::of_execution(id))
    }

    fn find_owner<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let shard = Shard::of_execution(id).number();
            let statement = "SELECT address FROM shards WHERE shard = $1 AND owner <> $2 AND expires_at > now()";
            let rows = self.query(statement, &[&shard, &self.leases.owner]).await?;
            Ok(rows.first().map(|row| row.get(0)))
        })
    }

    fn list_moved_elsewhere(
        &self,
        since: Option<Sequence>,
    ) -> BoxFuture<'_, Result<Vec<(Sequence, ExecutionId)>>> {
        Box::pin(async move {
            let statement = format!(
                "SELECT seq, id FROM ({ALL_EXECUTIONS}) e \
                 WHERE seq > coalesce($1, (SELECT max(seq) FROM journal), 0) - $2 \
                 AND shard <> ALL($3) ORDER BY seq DESC LIMIT $4"
            );
            let since = since.map(to_stored_key);
            // A shard that this server has not owned all the time since the last search may have moved elsewhere.
            let held = self.leases.held_epochs();
            let before = self.swap_searched(held.clone());
            let own = held.iter().filter(|(shard, epoch)| before.get(shard) == Some(epoch));
            let own: Vec<_> = own.map(|(shard, _)| shard.number()).collect();
            let most = to_int8(limits::MOVED_ELSEWHERE_MAX);
            let overlap = to_int8(KEYS_BETWEEN_CLOCKS);
            let rows = self.query(&statement, &[&since, &overlap, &own, &most]).await?;
            let read =
                |row: &DatabaseRow| Ok((from_stored_key(row.get(0)), parse_stored_id(row.get(1))?));
            rows.iter().map(read).collect()
        })
    }

    fn cluster_status(&self) -> BoxFuture<'_, Result<Option<ClusterStatus>>> {
        Box::pin(async {
            let client = reader(&self.pool).await?;
            let used_definitions = self.definitions.as_deref().map_or(0, read_used_version);
            let status = read_status(&client, &self.leases, &*self.clock, used_definitions);
            let status = timeout(limits::DATABASE_TRANSACTION_MAX, status).await;
            status.unwrap_or_else(|_| Err(discard(client))).map(Some)
        })
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>> {
        Box::pin(async move {
            let records = commit.encode_records(self.snapshot_every)?;
            let position = records.position;
            self.check_open()?;
            let id = commit.execution.id();
            self.owner(id)?;
            let shard = Shard::of_execution(id);
            let (reply, answer) = oneshot::channel();
            let queued = QueuedCommit { commit, records, shard, reply };
            self.send(WriterRequest::Commit(Box::new(queued))).await?;
            let row = answer.await.map_err(|_| store_closed_error())??;
            Ok(CommitReceipt { row, position })
        })
    }

    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>> {
        Box::pin(async move {
            if position.snapshot_revision() == execution.revision() {
                return Ok(position);
            }
            let snapshot = encode::encode_snapshot(&execution, position.snapshot_bytes())?;
            let position = position.after_snapshot(execution.revision(), &snapshot);
            // Each request is a transaction that nothing runs beside, so those in vain are refused here.
            self.owner(execution.id())?;
            self.maintain(MaintenanceRequest::Checkpoint { execution, snapshot }).await?;
            Ok(position)
        })
    }

    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>> {
        Box::pin(async move {
            let statement = format!(
                "SELECT {EXECUTION_COLUMNS} FROM executions e {JOIN_SNAPSHOTS} WHERE e.id = $1"
            );
            let rows = self.query(&statement, &[&id.as_str()]).await?;
            let loaded = rows.first().map(read_execution).transpose();
            let loaded = loaded.map_err(|error| error.with_context("execution_id", id.as_str()))?;
            Ok(loaded.map(|(_, loaded)| loaded))
        })
    }

    fn load_rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let revisions: Vec<_> =
                revisions.into_iter().filter_map(|one| i64::try_from(one).ok()).collect();
            let statement = "SELECT record FROM journal WHERE execution_id = $1 AND revision = ANY($2) \
                             ORDER BY revision DESC";
            read_rows(&self.query(statement, &[&id.as_str(), &revisions]).await?)
        })
    }

    fn load_history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>> {
        Box::pin(async move {
            let statement = "SELECT record FROM journal WHERE execution_id = $1 ORDER BY revision";
            read_rows(&self.query(statement, &[&id.as_str()]).await?)
        })
    }

    fn load_forks<'a>(
        &'a self,
        source: &'a ExecutionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ExecutionId>>> {
        Box::pin(async move {
            let limit = to_int8(limit);
            let statement =
                "SELECT fork FROM forks WHERE source = $1 ORDER BY fork COLLATE \"C\" LIMIT $2";
            let rows = self.query(statement, &[&source.as_str(), &limit]).await?;
            rows.iter().map(|row| parse_stored_id(row.get(0))).collect()
        })
    }

    fn load_content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>> {
        Box::pin(async move {
            let statement = "SELECT bytes FROM contents WHERE digest = $1";
            let rows = self.query(statement, &[&digest.as_bytes().as_slice()]).await?;
            Ok(rows.first().map(|row| row.get::<_, &[u8]>(0).into()))
        })
    }

    fn find_holders(&self, contents: BTreeSet<Digest>) -> BoxFuture<'_, Result<ContentHolders>> {
        Box::pin(async move {
            let mut holders = ContentHolders::default();
            let mut found = Vec::new();
            holders.searched_before = self
                .search_rows(&contents, |digest, id| found.push((digest, id.to_owned())))
                .await?;
            for (digest, id) in found {
                holders.by_content.entry(digest).or_default().insert(parse_stored_id(&id)?);
            }
            Ok(holders)
        })
    }

    fn note_refusal(&self, refusal: RefusedCall) {
        self.refusals.push(refusal);
    }

    fn load_telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>> {
        Box::pin(async move {
            self.maintain(MaintenanceRequest::StoreRefusals).await?;
            let transitions = self.find_transitions(&query).await?;
            let statement = "SELECT record, seq FROM refusals ORDER BY seq DESC LIMIT $1";
            let refusals = self.query(statement, &[&to_int8(limits::REFUSALS_KEPT_MAX)]).await?;
            let refusals = refusals.iter().map(|row| {
                let entry = TelemetryEntry::Refusal(encode::decode_refusal(row.get(0))?);
                Ok((from_stored_key(row.get(1)), entry))
            });
            latest_entries(transitions.into_iter().map(Ok), refusals, &query)
        })
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<ListPage>> {
        Box::pin(async move { self.find_page(&query).await })
    }

    fn due_executions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueExecution>>> {
        Box::pin(async move {
            let limit = to_int8(limit);
            let shards: Vec<_> = self.leases.list().iter().map(|one| one.number()).collect();
            let statement = "SELECT id, due FROM executions WHERE due < $1 AND shard = ANY($3) \
                             ORDER BY due, id COLLATE \"C\" LIMIT $2";
            let rows = self.query(statement, &[&before.milliseconds(), &limit, &shards]).await?;
            let due = |row: &DatabaseRow| {
                Ok((parse_stored_id(row.get(0))?, Timestamp::from_milliseconds(row.get(1))))
            };
            rows.iter().map(due).collect()
        })
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.maintain(MaintenanceRequest::Delete(deletion)).await })
    }

    fn import(&self, import: Import) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.maintain(MaintenanceRequest::Import(import)).await })
    }

    fn load_tombstone<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> BoxFuture<'a, Result<Option<Timestamp>>> {
        Box::pin(async move {
            let statement = "SELECT at FROM tombstones WHERE id = $1";
            let rows = self.query(statement, &[&id.as_str()]).await?;
            Ok(rows.first().map(|row| Timestamp::from_milliseconds(row.get(0))))
        })
    }

    fn sweep(&self, sweep: ContentSweep) -> BoxFuture<'_, Result<ContentSweep>> {
        Box::pin(async move {
            let most = to_int8(limits::SWEEP_CANDIDATES_MAX);
            let rows = self.query("SELECT digest, mark FROM candidates LIMIT $1", &[&most]).await?;
            let mark = |row: &DatabaseRow| {
                let digest = row.get::<_, &[u8]>(0).try_into().ok().map(Digest::from_bytes)?;
                Some((digest, row.get(1)))
            };
            let marks: BTreeMap<_, i64> = rows.iter().filter_map(mark).collect();
            let candidates: BTreeSet<_> = marks.keys().copied().collect();
            let mut found = Vec::new();
            let searched_before =
                self.search_rows(&candidates, |digest, _| found.push(digest)).await?;
            let named: BTreeSet<_> = found.into_iter().collect();
            let unnamed = candidates.difference(&named).copied().collect();
            let tombstones_before = sweep.tombstones_before().milliseconds();
            self.maintain(MaintenanceRequest::Free {
                marks,
                unnamed,
                searched_before,
                tombstones_before,
            })
            .await?;
            Ok(sweep.into_done(candidates.len() == limits::SWEEP_CANDIDATES_MAX))
        })
    }

    fn back_up(&self, target: PathBuf) -> BoxFuture<'_, Result<BackupReport>> {
        let message = format!(
            "`{}` is not made: a database is backed up by its own means, such as `pg_dump`",
            target.display()
        );
        let error = Error::new(Code::FileUnusable, message)
            .with_context("path", target.display().to_string())
            .with_action("Back up the database: `pg_dump --format=custom --file=FILE DATABASE`");
        Box::pin(async { Err(error) })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.check_open().is_err() {
                return Ok(());
            }
            // A request behind all others is answered after them.
            let last = self.maintain(MaintenanceRequest::StoreRefusals).await;
            self.is_closed.store(true, Ordering::Relaxed);
            self.stop.cancel();
            self.stopped.cancelled().await;
            last
        })
    }
}

fn parse_stored_id(id: &str) -> Result<ExecutionId> {
    ExecutionId::parse(id).map_err(|error| {
        Error::new(Code::StoreCorrupt, "an id of the database cannot be read").with_source(error)
    })
}
