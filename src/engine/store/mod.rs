//! The store of executions. `redb` is named only in this module.
//!
//! The store is the source of truth. It accepts a transition only if its revision directly follows the stored one, and
//! it answers only after the transition is durable. Code outside of this module must not assume that a single process
//! uses the store.

mod backend;
mod backup;
mod batch;
mod changes;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
mod copy;
mod database;
mod deletion;
mod digest_search;
mod dirty;
pub mod encode;
mod examine;
mod fault;
mod file;
mod holder;
mod identity;
mod import;
mod index;
mod list;
mod lock;
mod memory;
mod merge;
mod offline;
mod options;
pub(crate) mod paths;
mod reader;
mod record;
mod records;
mod recovery;
mod redb_store;
mod redo;
mod rewrite;
mod servers;
mod shared;
mod sizes;
mod sweep;
mod tables;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
};

pub use self::{
    backend::{FileHook, FileOperation},
    backup::BackupReport,
    deletion::{Deletion, find_row_contents},
    digest_search::{DigestSearch, find_named_contents},
    import::{Import, id_taken_error},
    index::ExecutionSummary,
    memory::MemoryStore,
    merge::{latest_entries, matches_query},
    offline::{Compaction, Restoration},
    options::Options,
    paths::{DAMAGED_SUFFIX, FILE_NAME},
    records::{StoreRecords, StoredRecord},
    redb_store::{OwnedDirectory, RedbStore, StoreCounts},
    servers::{AttemptStage, BusyExecutions, ClusterStatus, ServerStatus},
    sizes::{StoreSizes, TableSize},
    sweep::ContentSweep,
};
pub use self::{fault::store_busy_error, holder::lock_holder_pid};
pub use midex_domain::operation::BoxFuture;
use midex_domain::{
    Digest, Event, Execution, ExecutionId, Row, Sequence, State, StepId, WorkflowName,
    clock::Timestamp,
    error::{Code, Error, Result},
    event::OwnerEpoch,
    label::Labels,
};
use tokio::sync::watch;

/// A store of executions. Every implementation keeps this contract, and one test suite checks them all: the module
/// `contract`, with the feature `testing`.
pub trait Store: fmt::Debug + Send + Sync {
    /// Identifies the time for which this opening of the store owns an execution. An engine marks the attempts that it
    /// begins with it. A later opening of the store returns a larger value.
    ///
    /// # Errors
    /// `SHARD_LOST` where another server owns the execution, or none does.
    fn owner(&self, id: &ExecutionId) -> Result<OwnerEpoch>;

    /// Watches when this opening of the store begins or ceases to own executions; `None` where it always owns all of them.
    /// A store that shares its executions gives those that `list_busy` lists away last.
    fn watch_ownership(&self, _list_busy: BusyExecutions) -> Option<watch::Receiver<()>> {
        None
    }

    /// Whether the execution is given away as soon as none of its attempts is in flight here. None may begin until then.
    fn is_leaving(&self, _id: &ExecutionId) -> bool {
        false
    }

    /// The address of the server that owns an execution; `None` if this one does, or none.
    ///
    /// # Errors
    /// Those of the store.
    fn find_owner<'a>(&'a self, _id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async { Ok(None) })
    }

    /// Lists the executions of other servers that changed after the row with the key `since`, each with the key of its last row;
    /// without `since`, those that changed in the last seconds. Executions that changed a few seconds before `since` are listed
    /// again, because the clocks of servers differ.
    ///
    /// # Errors
    /// Those of the store.
    fn list_moved_elsewhere(
        &self,
        _since: Option<Sequence>,
    ) -> BoxFuture<'_, Result<Vec<(Sequence, ExecutionId)>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The servers that share this store; `None` if it belongs to one process.
    ///
    /// # Errors
    /// Those of the store.
    fn cluster_status(&self) -> BoxFuture<'_, Result<Option<ClusterStatus>>> {
        Box::pin(async { Ok(None) })
    }

    /// Makes one transition durable, together with the content it refers to, and then answers.
    ///
    /// # Errors
    /// `REVISION_CONFLICT` where the stored revision is not the one before `commit.row.revision`
    /// (nothing is stored); `STORE_FULL` where there is no room for it (nothing is stored);
    /// `INTERNAL` where [`Commit::check`] finds that row and execution are not of one transition (nothing is stored);
    /// `STORE_LOST` where the file is not the one that was opened; `STORE_UNAVAILABLE` where the disk refuses (it is
    /// then unknown whether the transition was stored, until the execution is loaded again). Dropping the future does
    /// not undo the commit.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<CommitReceipt>>;

    /// Writes a snapshot of an execution that is not moving, so that loading it needs no journal row.
    /// Does nothing where the stored snapshot is current.
    ///
    /// # Errors
    /// `REVISION_CONFLICT` where the execution is not the one that is stored.
    fn checkpoint(
        &self,
        execution: Arc<Execution>,
        position: Position,
    ) -> BoxFuture<'_, Result<Position>>;

    /// The execution as last made durable; `None` where there is none.
    fn load<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Option<LoadedExecution>>>;

    /// The journal rows of one execution with these revisions, newest first, as far as there are any.
    fn load_rows<'a>(
        &'a self,
        id: &'a ExecutionId,
        revisions: BTreeSet<u64>,
    ) -> BoxFuture<'a, Result<Vec<Row>>>;

    /// Every journal row of one execution, oldest first; empty where there is none.
    fn load_history<'a>(&'a self, id: &'a ExecutionId) -> BoxFuture<'a, Result<Vec<Row>>>;

    /// The forks of an execution, in the order of their ids, at most `limit`.
    fn load_forks<'a>(
        &'a self,
        source: &'a ExecutionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ExecutionId>>>;

    /// Content stored by digest; `None` where there is none.
    fn load_content(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Arc<[u8]>>>>;

    /// The executions whose rows name these contents. Rows that are stored during the search are not searched.
    fn find_holders(&self, contents: BTreeSet<Digest>) -> BoxFuture<'_, Result<ContentHolders>>;

    /// Queues a refused call for telemetry. It is written soon, the queue is bounded, and no reply waits for it. If too
    /// many refusals arrive, the latest are dropped. The last [`midex_domain::limits::REFUSALS_KEPT_MAX`] are kept.
    fn note_refusal(&self, refusal: RefusedCall);

    /// The latest telemetry entries, oldest first, at most `limit`, among the latest
    /// [`midex_domain::limits::TELEMETRY_SCANNED_MAX`]. A refusal that was noted before the call is among them.
    fn load_telemetry(&self, query: TelemetryQuery) -> BoxFuture<'_, Result<Vec<PlacedEntry>>>;

    /// One page of executions, newest first. An execution is placed by its last transition only, and is shown as it was
    /// last made durable.
    ///
    /// An execution that does not move while pages are read is on exactly one of them. An execution that moves goes in
    /// front of all others: it may be missing from the pages that follow, and is never on a second page. A page may be
    /// short or empty and still have a next one, because one call looks at no more than
    /// [`midex_domain::limits::LIST_SCANNED_MAX`] journal rows.
    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<ListPage>>;

    /// Like [`Store::list`], but with what the index knows of each execution, which is read faster.
    ///
    /// # Errors
    /// Those of the store.
    fn list_summaries(&self, query: ListQuery) -> BoxFuture<'_, Result<SummaryPage>> {
        Box::pin(async move {
            let page = self.list(query).await?;
            let summaries = page.executions.iter();
            let summaries = summaries.map(|(_, execution)| ExecutionSummary::new(execution));
            Ok(SummaryPage { summaries: summaries.collect(), next_key: page.next_key })
        })
    }

    /// Does a step of the index of executions, small enough not to delay other calls, if at least `rows_min` rows are not
    /// indexed. Returns false if there was nothing to do.
    ///
    /// # Errors
    /// Those of the store.
    fn update_index(&self, _rows_min: u64) -> BoxFuture<'_, Result<bool>> {
        // A store in memory has no index.
        Box::pin(async { Ok(false) })
    }

    /// The open executions that must be woken before this instant, according to the `due` of their commits, earliest
    /// first, at most `limit`; only those that this opening of the store owns.
    fn due_executions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueExecution>>>;

    /// Examines a portion of the stored data after `from`, small enough not to delay other calls. If the answer has no
    /// `next`, everything has been examined.
    ///
    /// # Errors
    /// `STORE_CORRUPT` where the data is inconsistent.
    fn examine(&self, _from: ExaminationProgress) -> BoxFuture<'_, Result<ExaminedPortion>> {
        // Data in memory does not decay.
        Box::pin(async { Ok(ExaminedPortion::default()) })
    }

    /// Removes an execution that has ended, with its rows, and leaves a tombstone. All of it or nothing is removed. The
    /// contents of `deletion` become candidates for the next sweep.
    ///
    /// # Errors
    /// `REVISION_CONFLICT` where the stored revision is not `deletion.revision` (nothing is removed); otherwise as
    /// [`Store::commit`].
    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<()>>;

    /// Stores executions that nothing moves any more, and contents that the rows of a later import name. All of it or nothing
    /// is stored. A content that was not stored before becomes a candidate for the next sweep.
    ///
    /// # Errors
    /// `EXECUTION_ID_TAKEN` where an execution or a tombstone has one of the ids, `INTERNAL` as [`Import::check`] (nothing is
    /// stored); otherwise as [`Store::commit`].
    fn import(&self, import: Import) -> BoxFuture<'_, Result<()>>;

    /// When the execution of this id was deleted; `None` where there is no tombstone.
    fn load_tombstone<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> BoxFuture<'a, Result<Option<Timestamp>>>;

    /// Does a slice of a sweep, small enough not to delay other calls. A candidate is freed if no row names it, including
    /// the rows that are stored during the sweep.
    fn sweep(&self, sweep: ContentSweep) -> BoxFuture<'_, Result<ContentSweep>>;

    /// The sizes of the file and its tables. Reads all pages of the tables.
    ///
    /// # Errors
    /// Those of the store.
    fn sizes(&self) -> BoxFuture<'_, Result<StoreSizes>> {
        // A store in memory is not measured.
        Box::pin(async { Ok(StoreSizes::default()) })
    }

    /// Makes a backup at `target`: a whole database with everything that was stored before the call. Calls go on meanwhile.
    ///
    /// # Errors
    /// `FILE_EXISTS` where there is a file at `target`, or the store's own; `STORE_FULL` where there is no room;
    /// `FILE_UNUSABLE` where the system refuses, and where the store has no file; `STORE_UNAVAILABLE` where the store is
    /// closed or fails meanwhile. Nothing is left at `target` then.
    fn back_up(&self, target: PathBuf) -> BoxFuture<'_, Result<BackupReport>> {
        let message =
            format!("`{}` is not made: a store in memory has no backup", target.display());
        let error = Error::new(Code::FileUnusable, message)
            .with_context("path", target.display().to_string());
        Box::pin(async { Err(error) })
    }

    /// Waits until every accepted request has been stored, then closes. Later calls answer `STORE_UNAVAILABLE`.
    fn close(&self) -> BoxFuture<'_, Result<()>>;
}

/// An open execution and when it must be woken next: see [`Commit::due`].
pub type DueExecution = (ExecutionId, Timestamp);

/// One transition to be made durable.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The execution after the transition; its revision is `row.revision`.
    pub execution: Arc<Execution>,
    /// The journal row of the transition.
    pub row: Arc<Row>,
    /// Content the row refers to, stored once by digest.
    pub contents: Vec<(Digest, Arc<[u8]>)>,
    /// When the execution must be woken next ([`Execution::wake_at`]): its deadline, or at once if a process that loads
    /// it has work to recover. `None` where only a call moves it.
    pub due: Option<Timestamp>,
    /// The position of the execution before the transition; the default for a new execution.
    pub position: Position,
    /// What the transition changes in the past of the execution; `None` for all transitions but a purge.
    pub past: Option<Box<PastChange>>,
}

/// A change of rows that an execution has already, in the transaction of a later row.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PastChange {
    /// The rows to store in place of those with the same revisions.
    pub rows: Vec<Row>,
    /// Content to remove, unless a row that was stored from `searched_before` on names it. No other row does.
    pub released: BTreeSet<Digest>,
    /// The key before which all rows were searched for the content.
    pub searched_before: Sequence,
}

/// The result of a search for the executions that need contents.
#[derive(Clone, Debug, Default)]
pub struct ContentHolders {
    /// The executions whose rows name a content, by content.
    pub by_content: BTreeMap<Digest, BTreeSet<ExecutionId>>,
    /// The key before which all rows were searched.
    pub searched_before: Sequence,
}

impl Commit {
    /// Checks that this commit follows the stored revision of its execution, which is 0 if the execution is new. A store
    /// calls this in the transaction that stores the commit.
    ///
    /// # Errors
    /// Those of [`Store::commit`].
    pub fn check(&self, stored_revision: u64) -> Result<()> {
        check_commit(self)?;
        check_next_revision(&self.row, stored_revision)
    }
}

/// The answer to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The place of the row in the store's sequence.
    pub row: Sequence,
    /// The position of the execution after the transition.
    pub position: Position,
}

/// The state of an execution's records in the store. Opaque to callers, who pass the latest one to the next commit.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Position {
    /// The revision of its last snapshot; 0 where there is none.
    pub(crate) snapshot_revision: u64,
    /// The bytes of that snapshot.
    pub(crate) snapshot_bytes: u64,
    /// Bytes of journal rows since that snapshot.
    pub(crate) bytes_since_snapshot: u64,
    /// The instant in the execution's entry of the index of open executions: see [`Commit::due`].
    pub due: Option<Timestamp>,
    /// The size in bytes of a snapshot that was encoded since and was too large to be worth writing; 0 where there is
    /// none. It only saves work: the store does not keep it, and equality ignores it.
    pub(crate) oversized_snapshot_bytes: u64,
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        let compared_fields = |position: &Self| {
            (
                position.snapshot_revision,
                position.snapshot_bytes,
                position.bytes_since_snapshot,
                position.due,
            )
        };
        compared_fields(self) == compared_fields(other)
    }
}

/// An execution as loaded.
#[derive(Clone, Debug)]
pub struct LoadedExecution {
    /// Its state after its last durable transition.
    pub execution: Execution,
    /// The position of the execution in the store.
    pub position: Position,
}

/// The progress of an examination. Each variant is a table, with the last entry of it that was examined. An examination
/// visits the tables in this order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExaminationProgress {
    /// The journal, up to this key.
    Row(u64),
    /// Content, up to this digest.
    Content(Option<Digest>),
    /// Executions, up to this one.
    Execution(Option<ExecutionId>),
    /// The index of open executions, up to this one.
    Open(Option<ExecutionId>),
}

impl Default for ExaminationProgress {
    fn default() -> Self {
        Self::Row(0)
    }
}

/// A portion of a store that was examined and is consistent.
#[derive(Debug, Default)]
pub struct ExaminedPortion {
    /// How many entries were examined.
    pub entries: u64,
    /// The open executions among them.
    pub open: Vec<Execution>,
    /// To how many of the executions the index does not lead. A compaction makes the index anew.
    pub misindexed: u64,
    /// Where to continue; `None` at the end.
    pub next_progress: Option<ExaminationProgress>,
}

/// A refused call, for telemetry. It has no revision and changes nothing.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RefusedCall {
    /// When the call was refused.
    pub at: Timestamp,
    /// The execution it was meant for, where that is known.
    pub execution_id: Option<ExecutionId>,
    /// The step it was meant for, where that is known.
    pub step: Option<StepId>,
    /// The error code.
    pub code: String,
    /// The error's message.
    pub message: String,
}

/// An entry of telemetry.
#[derive(Clone, Debug, PartialEq)]
pub enum TelemetryEntry {
    /// A transition, with its whole row.
    Transition(Row),
    /// A refused call.
    Refusal(RefusedCall),
}

/// An entry with its place in the sequence of rows and refusals.
pub type PlacedEntry = (Sequence, TelemetryEntry);

/// A query of telemetry.
#[derive(Clone, Debug, Default)]
pub struct TelemetryQuery {
    /// Only of this execution.
    pub execution_id: Option<ExecutionId>,
    /// Only entries that hold a telemetry event of this type.
    pub event_type: Option<midex_domain::telemetry::EventType>,
    /// How many entries at most, the latest ones. An entry may hold several telemetry events.
    pub limit: usize,
}

/// A query of executions. All conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only in this state. An imported execution is in no state that is open.
    pub state: Option<State>,
    /// Only those that have not ended (idle, running, paused).
    pub open_only: bool,
    /// Only executions without a parent.
    pub roots_only: bool,
    /// Only of this workflow.
    pub workflow: Option<WorkflowName>,
    /// Only those started for this project.
    pub project: Option<String>,
    /// Only those with all of these labels.
    pub labels: Labels,
    /// Only those that last moved at this time or later.
    pub since: Option<Timestamp>,
    /// Only those that last moved before this time.
    pub until: Option<Timestamp>,
    /// Only those whose id, inputs, reason or failure holds this text, whatever the case of its letters.
    pub text: Option<SearchText>,
    /// Only executions whose last transition lies before this key: the `next` of the previous page.
    pub before: Option<Sequence>,
    /// How many at most; 0 lists nothing, and has no next page.
    pub limit: usize,
}

impl ListQuery {
    /// Whether the query admits an execution whose last transition has this key.
    pub fn admits_last_key(&self, last: Sequence) -> bool {
        self.before.is_none_or(|before| last < before)
    }

    /// Whether the query admits this execution, wherever its last transition lies, and apart from its text.
    pub fn admits_summary(&self, summary: &ExecutionSummary) -> bool {
        let is_of_project = |project| summary.project.as_deref() == Some(project);
        let has_label = |(name, value): (&String, &String)| summary.labels.get(name) == Some(value);
        self.state.is_none_or(|state| summary.state == state)
            && !(self.open_only && summary.has_ended())
            && !(self.roots_only && summary.is_child)
            && (self.workflow.as_ref()).is_none_or(|name| summary.workflow == *name)
            && self.project.as_deref().is_none_or(is_of_project)
            && self.labels.iter().all(has_label)
            && self.since.is_none_or(|since| summary.updated_at >= since)
            && self.until.is_none_or(|until| summary.updated_at < until)
    }
}

/// A text that lists search for.
#[derive(Clone, Debug)]
pub struct SearchText(String);

impl SearchText {
    /// The text, in lower case.
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }

    /// Whether the summary of an execution holds the text.
    pub fn is_in_summary(&self, summary: &ExecutionSummary) -> bool {
        self.is_in(summary.id.as_str()) || self.is_in(&summary.reason)
    }

    /// Whether the inputs of an execution hold the text. `row` is its first row, and `load_content` reads inputs that do not
    /// lie in it.
    ///
    /// # Errors
    /// Those of `load_content`.
    pub fn is_in_inputs(
        &self,
        row: &Row,
        load_content: impl FnOnce(Digest) -> Result<Option<Arc<[u8]>>>,
    ) -> Result<bool> {
        let Some(Event::Created(created)) = row.events.first() else {
            return Ok(false);
        };
        let Some(inputs) = &created.inputs else {
            return Ok(false);
        };
        if let Some(inline) = &inputs.inline {
            return Ok(self.is_in(inline.as_str()));
        }
        let content = load_content(inputs.digest)?;
        Ok(content.is_some_and(|bytes| self.is_in(&String::from_utf8_lossy(&bytes))))
    }
}

/// A page of summaries, in the order of a [`ListPage`].
#[derive(Clone, Debug, Default)]
pub struct SummaryPage {
    /// The summaries.
    pub summaries: Vec<ExecutionSummary>,
    /// Where the next page begins, if more may follow; `None` at the end.
    pub next_key: Option<Sequence>,
}

/// A page of executions, ordered by their last transition, newest first.
#[derive(Clone, Debug, Default)]
pub struct ListPage {
    /// The executions as last made durable, each with the key of its last transition.
    pub executions: Vec<(Sequence, Execution)>,
    /// Where the next page begins, if more may follow; `None` at the end.
    pub next_key: Option<Sequence>,
}

/// Checks that the execution and the row of a commit belong to one transition.
fn check_commit(commit: &Commit) -> Result<()> {
    let (next, row) = (&commit.execution, &commit.row);
    if *next.id() == row.execution_id && next.revision() == row.revision {
        return Ok(());
    }
    Err(Error::internal("a commit's execution and row are not of one transition"))
}

/// The comparison of the compare-and-set: `row` must directly follow the stored revision.
fn check_next_revision(row: &Row, revision: u64) -> Result<()> {
    if row.revision == revision.saturating_add(1) {
        return Ok(());
    }
    Err(revision_conflict_error(&row.execution_id, row.revision, revision))
}

/// The refusal of a request about the revision `revision` of an execution that stands at another one.
pub fn revision_conflict_error(id: &ExecutionId, revision: u64, stored: u64) -> Error {
    let message = format!("execution '{id}' stands at revision {stored}, not before {revision}");
    Error::new(Code::RevisionConflict, message).with_context("execution_id", id.as_str())
}

/// The refusal of a store that was closed.
pub fn store_closed_error() -> Error {
    Error::new(Code::StoreUnavailable, "the store is closed")
}
