//! Where executions live. `redb` is named only here.
//!
//! The store gives truth: it accepts a transition only if its revision follows the stored one, and it
//! answers only when what it was given is durable. Nothing outside may assume that one process alone
//! uses it.

mod backend;
mod batch;
mod changes;
mod database;
mod dirty;
mod examine;
mod fault;
mod file;
mod holder;
mod identity;
mod list;
mod lock;

mod memory;
mod merge;
mod options;
mod paths;
mod reader;
mod record;
mod recovery;
mod redb_store;
mod redo;
mod rewrite;
mod shared;
mod writer;

use std::{collections::BTreeSet, fmt, sync::Arc};

pub use self::{
    backend::{Hook, Operation},
    memory::MemoryStore,
    options::Options,
    paths::{DAMAGED, FILE_NAME},
    redb_store::{Counts, OwnedDirectory, RedbStore},
};
pub use self::{fault::busy, holder::holder};
pub use midex_domain::operation::BoxFuture;
use midex_domain::{
    Digest, Execution, ExecutionId, Row, Sequence, State, StepId, WorkflowName,
    clock::Timestamp,
    error::{Code, Error, Result},
    event::Owner,
};

/// Where executions live. Every store keeps this one contract, and one suite of tests checks it.
pub trait Store: fmt::Debug + Send + Sync {
    /// Whose work it is that an engine on this store begins: a later opening of the store answers a larger one.
    fn owner(&self) -> Owner;

    /// Makes one transition durable, together with the content it refers to, and then answers.
    ///
    /// # Errors
    /// `REVISION_CONFLICT` where the stored revision is not the one before `commit.row.revision`
    /// (nothing is stored); `STORE_FULL` where there is no room for it (nothing is stored);
    /// `STORE_LOST` where the file is not the one that was opened; `STORE_UNAVAILABLE` where the disk refuses (what the
    /// disk holds is then unknown until the execution is loaded again). Dropping the future does not take a commit back.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Committed>>;

    /// Writes a snapshot of an execution that is not moving, so that loading it needs no journal row.
    /// Does nothing where the stored snapshot is current.
    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>>;

    /// The execution as last made durable; `None` where there is none.
    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<Stored>>>;

    /// The journal rows of one execution with these revisions, newest first, as far as there are any.
    fn rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>>;

    /// Every journal row of one execution, oldest first; empty where there is none.
    fn history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>>;

    /// Content stored by digest; `None` where there is none.
    fn content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>>;

    /// Keeps a refused call for telemetry: soon, bounded, and without holding up any reply. Under a flood
    /// the latest are dropped.
    fn note(&self, refusal: Refusal);

    /// The latest things worth telling, oldest first, at most `limit` entries, among the latest
    /// [`midex_domain::limits::TELEMETRY_SCANNED_MAX`]. A refusal that was noted before is among them.
    fn telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<Placed>>>;

    /// One page of executions, newest first. An execution stands at the place of its last transition alone,
    /// and is shown as it was made durable last.
    ///
    /// One that does not move while pages are read is on exactly one of them. One that moves takes its place
    /// in front of all others: it may be missing from the pages that follow, and it is on none of them a
    /// second time. A page may be short, or empty, and have a next one: an answer takes a look at no more than
    /// [`midex_domain::limits::LIST_SCANNED_MAX`] journal rows.
    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Page>>;

    /// The open executions that time moves before this instant, as their commits said, earliest first, at most `limit`.
    fn due(&self, before: Timestamp, limit: usize) -> BoxFuture<'_, Result<Vec<Due>>>;

    /// Examines a portion of what is stored behind `from`, small enough that nobody waits for it. Once an answer has no
    /// `next`, everything was examined.
    ///
    /// # Errors
    /// `STORE_CORRUPT` where something does not hold together.
    fn examine(&self, _from: Reached) -> BoxFuture<'_, Result<Examined>> {
        // In memory nothing decays.
        Box::pin(async { Ok(Examined::default()) })
    }

    /// Waits for what was accepted, then closes. Calls after it answer `STORE_UNAVAILABLE`.
    fn close(&self) -> BoxFuture<'_, Result<()>>;
}

/// An open execution, and when time moves it.
pub type Due = (ExecutionId, Timestamp);

/// One transition to be made durable.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The execution after the transition; its revision is `row.revision`.
    pub next: Arc<Execution>,
    /// What happened.
    pub row: Arc<Row>,
    /// Content the row refers to, stored once by digest.
    pub contents: Vec<(Digest, Arc<[u8]>)>,
    /// When time moves the execution next; `None` where it does not.
    pub due: Option<Timestamp>,
    /// Where the execution stood in the store before; the default for a new one.
    pub position: Position,
}

impl Commit {
    /// The bytes of its row and of a whole snapshot, as they are stored: for measuring another database on the same
    /// records.
    ///
    /// # Errors
    /// `INTERNAL` where something cannot be encoded.
    pub fn encoded(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        Ok((
            record::encode_row(&self.row)?,
            record::encode_snapshot(&self.next, self.position.snapshot_bytes)?,
        ))
    }
}

/// What a commit answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The place of the row in the store's sequence.
    pub row: Sequence,
    /// Where the execution stands now.
    pub position: Position,
}

/// Where an execution stands in the store. Opaque to callers, who hand back the latest one they got.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Position {
    /// The revision of its last snapshot; 0 where there is none.
    pub(crate) snapshot_revision: u64,
    /// The bytes of that snapshot.
    pub(crate) snapshot_bytes: u64,
    /// Bytes of journal rows since that snapshot.
    pub(crate) bytes_since_snapshot: u64,
    /// When the index of open executions says that time moves it next.
    pub due: Option<Timestamp>,
    /// The bytes of a snapshot that was made since and was too large to be worth writing; 0 where there is none. It
    /// spares work and is no part of where the execution stands: the store does not know it.
    pub(crate) oversized_snapshot_bytes: u64,
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        let stands = |position: &Self| {
            (
                position.snapshot_revision,
                position.snapshot_bytes,
                position.bytes_since_snapshot,
                position.due,
            )
        };
        stands(self) == stands(other)
    }
}

/// An execution as loaded.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its state after its last durable transition.
    pub execution: Execution,
    /// Where it stands in the store.
    pub position: Position,
}

/// How far a store was examined: each table behind the entry that is named, the first table at first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// The journal, up to this key.
    Row(u64),
    /// Content, up to this digest.
    Content(Option<Digest>),
    /// Executions, up to this one.
    Execution(Option<ExecutionId>),
    /// The index of open executions, up to this one.
    Open(Option<ExecutionId>),
}

impl Default for Reached {
    fn default() -> Self {
        Self::Row(0)
    }
}

/// A portion of a store that was examined and holds together.
#[derive(Debug, Default)]
pub struct Examined {
    /// How many entries.
    pub entries: u64,
    /// The open executions among them.
    pub open: Vec<Execution>,
    /// What to examine next.
    pub next: Option<Reached>,
}

/// A refused call, for telemetry. It has no revision and changes nothing.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Refusal {
    /// When.
    pub at: Timestamp,
    /// The execution it was meant for, where that is known.
    pub execution_id: Option<ExecutionId>,
    /// The step it was meant for, where that is known.
    pub step: Option<StepId>,
    /// The error code.
    pub code: String,
    /// The error's words.
    pub message: String,
}

/// An entry of telemetry.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A transition: all that it has to tell.
    Transition(Row),
    /// A refused call.
    Refusal(Refusal),
}

/// An entry with its place in the one order of telemetry.
pub type Placed = (Sequence, Entry);

/// Which telemetry is asked for.
#[derive(Clone, Debug, Default)]
pub struct TelemetryQuery {
    /// Only of this execution.
    pub execution_id: Option<ExecutionId>,
    /// Only entries that hold a telemetry event of this type.
    pub event_type: Option<midex_domain::telemetry::EventType>,
    /// How many entries at most, the latest ones. An entry may hold several telemetry events.
    pub limit: usize,
}

/// Which executions are asked for. All conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only in this state.
    pub state: Option<State>,
    /// Only those that have not ended (idle, running, paused).
    pub open_only: bool,
    /// Only those that are children of none.
    pub roots_only: bool,
    /// Only of this workflow.
    pub workflow: Option<WorkflowName>,
    /// Only those started for this project.
    pub project: Option<String>,
    /// Only those whose last transition lies before this key: where the page before ended.
    pub before: Option<Sequence>,
    /// How many at most; 0 lists nothing, and has no next page.
    pub limit: usize,
}

impl ListQuery {
    /// Whether none but open executions are meant.
    fn is_of_open(&self) -> bool {
        self.open_only || self.state.is_some_and(|state| !state.is_final())
    }

    /// Whether a last transition with this key is meant.
    fn reaches(&self, last: Sequence) -> bool {
        self.before.is_none_or(|before| last < before)
    }

    /// Whether an execution that is like this one is meant, wherever its last transition lies.
    fn wants(&self, execution: &Execution) -> bool {
        let has = |project| execution.project() == Some(project);
        self.state.is_none_or(|state| execution.state() == state)
            && !(self.open_only && execution.state().is_final())
            && !(self.roots_only && execution.parent().is_some())
            && (self.workflow.as_ref()).is_none_or(|name| execution.workflow() == name)
            && self.project.as_deref().is_none_or(has)
    }
}

/// Executions by their last transition, newest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// As they stand, each with the place of its last transition.
    pub executions: Vec<(Sequence, Execution)>,
    /// Where the next page begins, if more may follow; `None` at the end.
    pub next: Option<Sequence>,
}

/// A commit must be of one piece, whoever made it.
fn check(commit: &Commit) -> Result<()> {
    let (next, row) = (&commit.next, &commit.row);
    if *next.id() == row.execution_id && next.revision() == row.revision {
        return Ok(());
    }
    Err(Error::internal(
        "a commit's execution and row are not of one transition",
    ))
}

/// The compare of compare-and-set: `row` must follow what is stored.
fn check_follows(row: &Row, revision: u64) -> Result<()> {
    if row.revision == revision.saturating_add(1) {
        return Ok(());
    }
    Err(conflict(&row.execution_id, row.revision, revision))
}

fn conflict(id: &ExecutionId, revision: u64, stored: u64) -> Error {
    let message = format!("execution '{id}' stands at revision {stored}, not before {revision}");
    Error::new(Code::RevisionConflict, message).with("execution_id", id.as_str())
}

fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the store is closed")
}
