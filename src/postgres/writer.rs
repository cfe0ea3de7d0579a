//! The writer: one task that commits what all callers of this server store, in batches. A batch is one transaction, which one
//! round trip makes durable: it locks the leases of its shards, fails unless the database holds the expected epochs and
//! revisions, writes, and commits. If the check fails, a second transaction reads what is stored, and admits each commit on its
//! own. While many commits wait, a second batch runs beside the first one, so that neither the network nor the database is idle.

mod batch;
mod maintenance;
mod migration;

use std::{
    collections::{HashSet, VecDeque},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

pub(crate) use self::maintenance::MaintenanceRequest;
pub use self::migration::{MigrationReport, migrate_store};
use self::{batch::Statements, maintenance::maintain};
use crate::{
    connection::Connector,
    error::{database_error, is_serialization_failure},
    lease::Leases,
    shard::{SequenceClock, Shard},
};
use midex_domain::{
    ExecutionId, Sequence,
    clock::Clock,
    error::{Code, Error, Result},
    limits,
};
use midex_engine::store::{Commit, RefusedCall, encode::CommitRecords};

/// A request to the writer.
#[derive(Debug)]
pub(crate) enum WriterRequest {
    /// Store a transition.
    Commit(Box<QueuedCommit>),
    /// Run a maintenance request in a separate transaction.
    Maintain(MaintenanceRequest, oneshot::Sender<Result<()>>),
}

/// A commit with its encoded records, and the sender of the answer.
#[derive(Debug)]
pub(crate) struct QueuedCommit {
    pub(crate) commit: Commit,
    pub(crate) records: CommitRecords,
    pub(crate) shard: Shard,
    pub(crate) reply: oneshot::Sender<Result<Sequence>>,
}

impl QueuedCommit {
    /// The bytes that the commit sends to the database.
    fn count_bytes(&self) -> usize {
        let snapshot = self.records.snapshot.as_ref().map_or(0, Vec::len);
        let contents = self.commit.contents.iter().map(|(_, content)| content.len());
        self.records.row.len() + snapshot + contents.sum::<usize>()
    }
}

/// The refusals that were noted and are not stored yet.
#[derive(Debug, Default)]
pub(crate) struct NotedRefusals(Mutex<Vec<RefusedCall>>);

impl NotedRefusals {
    /// Notes a refusal, unless [`limits::REFUSALS_QUEUED_MAX`] are waiting already.
    pub(crate) fn push(&self, refusal: RefusedCall) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < limits::REFUSALS_QUEUED_MAX {
            noted.push(refusal);
        }
    }

    /// Takes all of them, to store them.
    fn take(&self) -> Vec<RefusedCall> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts those back that were not stored, before the others.
    fn put_back(&self, refusals: Vec<RefusedCall>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).splice(..0, refusals);
    }
}

/// An open connection of the writer.
pub(crate) struct WriterConnection {
    client: Client,
    statements: Statements,
}

/// What a transaction of the writer needs to know of this server.
pub(crate) struct WriterContext {
    connector: Connector,
    leases: Arc<Leases>,
    clock: Arc<dyn Clock>,
    sequence: Mutex<SequenceClock>,
    refusals: Arc<NotedRefusals>,
}

impl WriterContext {
    pub(crate) fn new(
        connector: Connector,
        leases: Arc<Leases>,
        clock: Arc<dyn Clock>,
        refusals: Arc<NotedRefusals>,
    ) -> Self {
        Self { connector, leases, clock, sequence: Mutex::default(), refusals }
    }

    /// The next key of a row of the shard, larger than all that earlier owners have given.
    pub(super) fn next_key(&self, shard: Shard) -> Sequence {
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        sequence.raise_above(self.leases.last_key());
        sequence.next_key(self.clock.now(), shard)
    }

    async fn connect(&self) -> Result<WriterConnection> {
        let client = self.connector.connect().await?;
        let statements = Statements::prepare(&client).await.map_err(database_error)?;
        Ok(WriterConnection { client, statements })
    }

    /// Writes a batch in a transaction, and repeats it after a serialization failure. `connection` is `None` afterwards if the
    /// connection cannot be used again. Returns the outcome of each commit.
    async fn run_transaction(
        &self,
        connection: &mut Option<WriterConnection>,
        batch: &WriterBatch,
    ) -> Result<Vec<Result<Sequence>>> {
        let refusals = self.refusals.take();
        let written = self.repeat_transaction(connection, batch, &refusals).await;
        if written.is_err() {
            self.refusals.put_back(refusals);
        }
        written
    }

    async fn repeat_transaction(
        &self,
        idle: &mut Option<WriterConnection>,
        batch: &WriterBatch,
        refusals: &[RefusedCall],
    ) -> Result<Vec<Result<Sequence>>> {
        let mut repeats = 0;
        loop {
            let connection = match idle.take() {
                Some(connection) if !connection.client.is_closed() => connection,
                _ => self.connect().await?,
            };
            let run = batch.write(&connection, self, refusals);
            let error = match tokio::time::timeout(limits::DATABASE_TRANSACTION_MAX, run).await {
                Ok(Ok(written)) => {
                    *idle = Some(connection);
                    return Ok(written);
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    let message = "the database did not answer in time";
                    return Err(Error::new(Code::StoreUnavailable, message));
                }
            };
            // A connection that cannot be brought back into order is not used again.
            if connection.client.batch_execute("ROLLBACK").await.is_ok() {
                *idle = Some(connection);
            }
            match error {
                WriteError::Database(error)
                    if is_serialization_failure(&error)
                        && repeats < limits::DATABASE_REPEATS_MAX =>
                {
                    repeats += 1;
                }
                error => return Err(error.into()),
            }
        }
    }
}

/// Why a transaction stored nothing.
pub(crate) enum WriteError {
    Database(tokio_postgres::Error),
    Refused(Error),
}

impl From<tokio_postgres::Error> for WriteError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Database(error) => database_error(error),
            WriteError::Refused(error) => error,
        }
    }
}

/// Requests that run in one transaction.
enum WriterBatch {
    Commits(Vec<QueuedCommit>),
    Maintain(MaintenanceRequest, oneshot::Sender<Result<()>>),
}

impl WriterBatch {
    /// Writes it in a transaction. Returns the outcome of each commit.
    async fn write(
        &self,
        connection: &WriterConnection,
        context: &WriterContext,
        refusals: &[RefusedCall],
    ) -> Result<Vec<Result<Sequence>>, WriteError> {
        match self {
            Self::Commits(commits) => batch::write(connection, context, commits, refusals).await,
            Self::Maintain(request, _) => {
                maintain(connection, context, request, refusals).await.map(|()| Vec::new())
            }
        }
    }
}

/// The connection and the executions of a batch whose callers were answered: the next batch may use both.
struct FinishedBatch {
    connection: Option<WriterConnection>,
    /// The executions of its commits.
    ids: Vec<ExecutionId>,
}

/// Stores a batch, and answers its callers.
async fn run_batch(
    context: Arc<WriterContext>,
    mut connection: Option<WriterConnection>,
    batch: WriterBatch,
) -> FinishedBatch {
    let written = context.run_transaction(&mut connection, &batch).await;
    let mut ids = Vec::new();
    match batch {
        WriterBatch::Commits(commits) => {
            let outcomes = written.unwrap_or_else(|error| vec![Err(error); commits.len()]);
            for (queued, outcome) in commits.into_iter().zip(outcomes) {
                ids.push(queued.commit.execution.id().clone());
                // The caller may have stopped waiting.
                let _ = queued.reply.send(outcome);
            }
        }
        WriterBatch::Maintain(_, reply) => {
            let _ = reply.send(written.map(drop));
        }
    }
    FinishedBatch { connection, ids }
}

/// The task that writes.
pub(crate) struct CommitWriter {
    context: Arc<WriterContext>,
    requests: mpsc::Receiver<WriterRequest>,
    /// The requests that no batch has taken yet, at most [`limits::DATABASE_BATCH_MAX`].
    queue: VecDeque<WriterRequest>,
    idle: Vec<WriterConnection>,
    /// The executions of the batches that run. A commit on one of them waits, because its batch must read the revision that the
    /// running one writes.
    busy: HashSet<ExecutionId>,
    /// Whether a maintenance request runs. Nothing else does then.
    is_maintaining: bool,
}

impl CommitWriter {
    pub(crate) fn new(context: WriterContext, requests: mpsc::Receiver<WriterRequest>) -> Self {
        let (context, queue) = (Arc::new(context), VecDeque::new());
        let (idle, busy) = (Vec::new(), HashSet::new());
        Self { context, requests, queue, idle, busy, is_maintaining: false }
    }

    /// Writes until `stop` is cancelled, then stores the requests that are queued, and ends.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (mut running, mut received) = (FuturesUnordered::new(), Vec::new());
        let mut is_drained = false;
        loop {
            while let Some(batch) = self.take_batch(running.len()) {
                running.push(run_batch(self.context.clone(), self.idle.pop(), batch));
            }
            if is_drained && running.is_empty() {
                return;
            }
            let room = limits::DATABASE_BATCH_MAX.saturating_sub(self.queue.len());
            tokio::select! {
                Some(FinishedBatch { connection, ids }) = running.next() => {
                    self.idle.extend(connection);
                    self.is_maintaining = false;
                    for id in &ids {
                        self.busy.remove(id);
                    }
                }
                count = self.requests.recv_many(&mut received, room), if room > 0 && !is_drained => {
                    self.queue.extend(received.drain(..));
                    is_drained = count == 0;
                }
                () = stop.cancelled(), if !self.requests.is_closed() => self.requests.close(),
            }
        }
    }

    /// The next batch, unless it should wait for those that run.
    fn take_batch(&mut self, running: usize) -> Option<WriterBatch> {
        if self.is_maintaining || running >= limits::DATABASE_BATCHES_MAX {
            return None;
        }
        let mut bytes = 0_usize;
        let commits = self.queue.iter().map_while(|request| match request {
            WriterRequest::Commit(queued) if bytes < limits::BATCH_BYTES_MAX => {
                bytes += queued.count_bytes();
                Some(queued.commit.execution.id())
            }
            _ => None,
        });
        let commits: Vec<_> = commits.collect();
        let count = commits.len();
        let may_overlap = count >= limits::DATABASE_OVERLAP_MIN
            && !commits.iter().any(|id| self.busy.contains(*id));
        if running > 0 && !may_overlap {
            return None;
        }
        self.busy.extend(commits.into_iter().cloned());
        let mut commits = Vec::with_capacity(count);
        for request in self.queue.drain(..count.max(1).min(self.queue.len())) {
            match request {
                WriterRequest::Commit(queued) => commits.push(*queued),
                WriterRequest::Maintain(request, reply) => {
                    self.is_maintaining = true;
                    return Some(WriterBatch::Maintain(request, reply));
                }
            }
        }
        (!commits.is_empty()).then_some(WriterBatch::Commits(commits))
    }
}

/// The refusal of a write to an execution of a shard that another server owns now.
pub(crate) fn shard_lost_error(id: &ExecutionId, shard: Shard) -> Error {
    let message = format!("another server owns execution '{id}' now (shard {})", shard.number());
    Error::new(Code::ShardLost, message).with_context("execution_id", id.as_str())
}
