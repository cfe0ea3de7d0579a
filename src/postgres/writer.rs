//! The writer: one task that commits what all callers of this server store, in batches. A batch is one transaction, which two
//! round trips make durable: the first begins it, locks the leases of its shards and reads the stored revisions; the second
//! writes, and commits.

mod batch;
mod maintenance;

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

pub(crate) use self::maintenance::MaintenanceRequest;
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

/// The refusals that were noted and are not stored yet.
#[derive(Debug, Default)]
pub(crate) struct NotedRefusals(Mutex<Vec<RefusedCall>>);

impl NotedRefusals {
    /// Notes a refusal, unless `max` are waiting already.
    pub(crate) fn push(&self, refusal: RefusedCall, max: usize) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < max {
            noted.push(refusal);
        }
    }

    /// Those that were noted until now. They stay until [`NotedRefusals::remove_stored`].
    fn list(&self) -> Vec<RefusedCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes so many of the oldest, which are stored now.
    fn remove_stored(&self, count: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..count);
    }
}

/// An open connection of the writer.
pub(crate) struct WriterConnection {
    client: Client,
    statements: Statements,
}

/// What a transaction of the writer needs to know of this server.
pub(crate) struct WriterContext {
    leases: Arc<Leases>,
    clock: Arc<dyn Clock>,
    sequence: SequenceClock,
}

impl WriterContext {
    /// The next key of a row of the shard, larger than all that earlier owners have given.
    pub(super) fn next_key(&mut self, shard: Shard) -> Sequence {
        self.sequence.raise_above(self.leases.last_key());
        self.sequence.next_key(self.clock.now(), shard)
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

/// The content of one transaction.
#[derive(Clone, Copy)]
enum Work<'a> {
    Commits(&'a [QueuedCommit]),
    Maintain(&'a MaintenanceRequest),
}

impl Work<'_> {
    async fn run(
        self,
        connection: &WriterConnection,
        context: &mut WriterContext,
        refusals: &[RefusedCall],
    ) -> Result<Vec<Result<Sequence>>, WriteError> {
        match self {
            Self::Commits(commits) => batch::write(connection, context, commits, refusals).await,
            Self::Maintain(request) => {
                maintain(connection, context, request, refusals).await.map(|()| Vec::new())
            }
        }
    }
}

/// The task that writes.
pub(crate) struct CommitWriter {
    connector: Connector,
    connection: Option<WriterConnection>,
    context: WriterContext,
    requests: mpsc::Receiver<WriterRequest>,
    refusals: Arc<NotedRefusals>,
}

impl CommitWriter {
    pub(crate) fn new(
        connector: Connector,
        (leases, clock): (Arc<Leases>, Arc<dyn Clock>),
        requests: mpsc::Receiver<WriterRequest>,
        refusals: Arc<NotedRefusals>,
    ) -> Self {
        let context = WriterContext { leases, clock, sequence: SequenceClock::default() };
        Self { connector, connection: None, context, requests, refusals }
    }

    /// Writes until `stop` is cancelled, then stores the requests that are queued, and ends.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut queue = Vec::new();
        loop {
            let count = tokio::select! {
                count = self.requests.recv_many(&mut queue, limits::DATABASE_BATCH_MAX) => count,
                () = stop.cancelled(), if !self.requests.is_closed() => {
                    self.requests.close();
                    continue;
                }
            };
            if count == 0 {
                return;
            }
            let mut commits = Vec::new();
            for request in queue.drain(..) {
                match request {
                    WriterRequest::Commit(commit) => commits.push(*commit),
                    WriterRequest::Maintain(request, reply) => {
                        self.write_commits(mem::take(&mut commits)).await;
                        // The caller may have stopped waiting.
                        let _ = reply.send(self.maintain(&request).await);
                    }
                }
            }
            self.write_commits(commits).await;
        }
    }

    /// Stores commits, and answers them.
    async fn write_commits(&mut self, commits: Vec<QueuedCommit>) {
        if commits.is_empty() {
            return;
        }
        let written = self.in_transaction(Work::Commits(&commits)).await;
        let outcomes = match written {
            Ok(outcomes) => outcomes,
            Err(error) => vec![Err(error); commits.len()],
        };
        for (commit, outcome) in commits.into_iter().zip(outcomes) {
            let _ = commit.reply.send(outcome);
        }
    }

    async fn maintain(&mut self, request: &MaintenanceRequest) -> Result<()> {
        self.in_transaction(Work::Maintain(request)).await.map(drop)
    }

    /// Does the work in a transaction, again if it was refused only because others ran beside it. After any other failure
    /// the next transaction has a new connection. Returns the outcome of each commit.
    async fn in_transaction(&mut self, work: Work<'_>) -> Result<Vec<Result<Sequence>>> {
        let refusals = self.refusals.list();
        let mut repeats = 0;
        loop {
            let connection = match self.connection.take() {
                Some(connection) if !connection.client.is_closed() => connection,
                _ => self.connect().await?,
            };
            let run = work.run(&connection, &mut self.context, &refusals);
            let error = match tokio::time::timeout(limits::DATABASE_TRANSACTION_MAX, run).await {
                Ok(Ok(written)) => {
                    self.refusals.remove_stored(refusals.len());
                    self.connection = Some(connection);
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
                self.connection = Some(connection);
            }
            match error {
                WriteError::Database(error)
                    if is_serialization_failure(&error)
                        && repeats < limits::DATABASE_REPEATS_MAX =>
                {
                    repeats += 1;
                }
                WriteError::Database(error) => return Err(database_error(error)),
                WriteError::Refused(error) => return Err(error),
            }
        }
    }

    async fn connect(&self) -> Result<WriterConnection> {
        let client = self.connector.connect().await?;
        let statements = Statements::prepare(&client).await.map_err(database_error)?;
        Ok(WriterConnection { client, statements })
    }
}

/// The refusal of a write to an execution of a shard that another server owns now.
pub(crate) fn shard_lost_error(id: &ExecutionId, shard: Shard) -> Error {
    let message = format!("another server owns execution '{id}' now (shard {shard})");
    Error::new(Code::ShardLost, message).with_context("execution_id", id.as_str())
}
