//! The writer: one task that commits what all callers of this server store, in batches. A batch is one transaction, which one
//! round trip makes durable: it locks the leases of its shards, fails unless the database holds the expected epochs and
//! revisions, writes, and commits. If the check fails, a second transaction reads what is stored, and admits each commit on its
//! own. The shards are divided into lanes, whose batches are written beside each other, so that neither the network nor the database
//! is idle.

mod batch;
mod maintenance;
mod migration;

use std::{
    collections::VecDeque,
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
    error::{database_error, is_of_connection, is_serialization_failure, no_answer_error},
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
                Err(_) => return Err(no_answer_error()),
            };
            let is_usable = match &error {
                WriteError::Database(error) => !is_of_connection(error),
                WriteError::Refused(_) => true,
            };
            // A connection that cannot be brought back into order is not used again.
            let rollback = connection.client.batch_execute("ROLLBACK");
            let rollback = tokio::time::timeout(limits::DATABASE_CONNECT_MAX, rollback);
            if is_usable && rollback.await.is_ok_and(|rolled_back| rolled_back.is_ok()) {
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

/// The connection and the lane of a batch whose callers were answered: the next batch may use both.
struct FinishedBatch {
    connection: Option<WriterConnection>,
    /// `None` for a maintenance request.
    lane: Option<usize>,
}

/// Stores a batch, and answers its callers.
async fn run_batch(
    context: Arc<WriterContext>,
    mut connection: Option<WriterConnection>,
    lane: Option<usize>,
    batch: WriterBatch,
) -> FinishedBatch {
    let written = context.run_transaction(&mut connection, &batch).await;
    match batch {
        WriterBatch::Commits(commits) => {
            let outcomes = written.unwrap_or_else(|error| vec![Err(error); commits.len()]);
            for (queued, outcome) in commits.into_iter().zip(outcomes) {
                // The caller may have stopped waiting.
                let _ = queued.reply.send(outcome);
            }
        }
        WriterBatch::Maintain(_, reply) => {
            let _ = reply.send(written.map(drop));
        }
    }
    FinishedBatch { connection, lane }
}

/// The commits of some of the shards. The batches of a lane are written one after the other, so no two transactions of this
/// server have a shard in common: the database would have to note both as holders of its lock.
#[derive(Debug, Default)]
struct CommitLane {
    commits: VecDeque<QueuedCommit>,
    is_writing: bool,
}

impl CommitLane {
    /// The next batch; `None` without commits, and while a batch is written.
    fn take_batch(&mut self) -> Option<Vec<QueuedCommit>> {
        if self.is_writing || self.commits.is_empty() {
            return None;
        }
        let mut bytes = 0;
        let has_room = |queued: &&QueuedCommit| {
            let has_room = bytes < limits::BATCH_BYTES_MAX;
            bytes += queued.count_bytes();
            has_room
        };
        let count = self.commits.iter().take_while(has_room).count();
        self.is_writing = true;
        Some(self.commits.drain(..count).collect())
    }
}

/// The task that writes.
pub(crate) struct CommitWriter {
    context: Arc<WriterContext>,
    requests: mpsc::Receiver<WriterRequest>,
    /// The requests from the first maintenance request on, which waits for all commits before it.
    queue: VecDeque<WriterRequest>,
    lanes: [CommitLane; limits::DATABASE_LANES],
    idle: Vec<WriterConnection>,
    /// Whether a maintenance request runs. Nothing else does then.
    is_maintaining: bool,
}

impl CommitWriter {
    pub(crate) fn new(context: WriterContext, requests: mpsc::Receiver<WriterRequest>) -> Self {
        let (context, queue, lanes) = (Arc::new(context), VecDeque::new(), Default::default());
        Self { context, requests, queue, lanes, idle: Vec::new(), is_maintaining: false }
    }

    /// Writes until `stop` is cancelled, then stores the requests that are queued, and ends.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (mut running, mut received) = (FuturesUnordered::new(), Vec::new());
        let mut is_drained = false;
        loop {
            while let Some((lane, batch)) = self.take_batch(running.is_empty()) {
                running.push(run_batch(self.context.clone(), self.idle.pop(), lane, batch));
            }
            if is_drained && running.is_empty() {
                return;
            }
            let waiting = self.lanes.iter().map(|lane| lane.commits.len()).sum::<usize>();
            let room = limits::DATABASE_BATCH_MAX.saturating_sub(self.queue.len() + waiting);
            tokio::select! {
                Some(FinishedBatch { connection, lane }) = running.next() => {
                    self.idle.extend(connection);
                    match lane {
                        Some(lane) => self.lanes[lane].is_writing = false,
                        None => self.is_maintaining = false,
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

    /// The next batch that need not wait for those that run, with its lane. A maintenance request waits for all of them.
    fn take_batch(&mut self, is_idle: bool) -> Option<(Option<usize>, WriterBatch)> {
        if self.is_maintaining {
            return None;
        }
        while let Some(request) = self.queue.pop_front() {
            match request {
                WriterRequest::Commit(queued) => {
                    self.lanes[queued.shard.lane()].commits.push_back(*queued);
                }
                WriterRequest::Maintain(request, reply) if is_idle && self.has_no_commits() => {
                    self.is_maintaining = true;
                    return Some((None, WriterBatch::Maintain(request, reply)));
                }
                request @ WriterRequest::Maintain(..) => {
                    self.queue.push_front(request);
                    break;
                }
            }
        }
        let mut lanes = self.lanes.iter_mut().enumerate();
        let (lane, commits) = lanes.find_map(|(at, lane)| Some((at, lane.take_batch()?)))?;
        Some((Some(lane), WriterBatch::Commits(commits)))
    }

    fn has_no_commits(&self) -> bool {
        self.lanes.iter().all(|lane| lane.commits.is_empty())
    }
}

/// The refusal of a write to an execution of a shard that another server owns now.
pub(crate) fn shard_lost_error(id: &ExecutionId, shard: Shard) -> Error {
    let message = format!("another server owns execution '{id}' now (shard {})", shard.number());
    Error::new(Code::ShardLost, message).with_context("execution_id", id.as_str())
}
