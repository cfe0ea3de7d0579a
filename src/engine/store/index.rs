//! The index of executions: finds those with a label, in a state, of a workflow or of a project without reading the others.
//!
//! Every execution has one summary, at the key of its last row. A posting for each of its terms leads to it. The index covers
//! the journal up to a key that `meta.v1` holds, and follows it in the background: no transition waits for it, and it is not in
//! the redo log. After a crash it is behind, and catches up. Lists read the rows after that key themselves. A file without an
//! index gets one in the same way, so it can be rebuilt by removing its tables.

mod plan;

use redb::{ReadTransaction, WriteTransaction};
use serde::{Deserialize, Serialize};

pub(super) use self::plan::plan_change;
use super::{
    fault::redb_error,
    record,
    tables::{
        INDEXED_TO_KEY, META_TABLE, SUMMARIES_TABLE, TERMS_TABLE, open_if_present, read_meta_key,
    },
};
use midex_domain::{
    Digest, Execution, ExecutionId, State, WorkflowName, clock::Timestamp, error::Result,
    label::Labels, limits,
};

/// What lists and retentions need to know of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionSummary {
    /// The execution.
    pub id: ExecutionId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its state.
    pub state: State,
    /// Whether it has ended.
    pub is_over: bool,
    /// Whether it was imported, and so is read-only.
    pub is_imported: bool,
    /// Whether it is a child.
    pub is_child: bool,
    /// The project it was started for.
    pub project: Option<String>,
    /// Its labels.
    pub labels: Labels,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it last moved.
    pub updated_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// The reason that was given for its state, and the message of its failure, shortened.
    pub reason: String,
    /// The number of its rows.
    pub revision: u64,
    /// The key of its first row; 0 where it is not known.
    pub(crate) first_key: u64,
}

impl ExecutionSummary {
    /// The summary of an execution.
    pub fn new(execution: &Execution) -> Self {
        let failure = execution.failure().map(|failure| failure.message.as_str());
        let texts: Vec<_> = execution.reason().into_iter().chain(failure).collect();
        Self {
            id: execution.id().clone(),
            workflow: execution.workflow().clone(),
            state: execution.state(),
            is_over: execution.is_over(),
            is_imported: execution.is_imported(),
            is_child: execution.parent().is_some(),
            project: execution.project().map(str::to_owned),
            labels: execution.labels().clone(),
            started_at: execution.started_at(),
            updated_at: execution.updated_at(),
            completed_at: execution.completed_at(),
            reason: texts.join("\n").chars().take(limits::SEARCHED_REASON_CHARS).collect(),
            revision: execution.revision(),
            first_key: 0,
        }
    }

    /// Whether nothing moves it any more, apart from orders to its children.
    pub fn has_ended(&self) -> bool {
        self.state.is_final() || self.is_imported
    }

    /// When it ended, if it has.
    pub fn ended_at(&self) -> Timestamp {
        self.completed_at.unwrap_or(self.updated_at)
    }

    /// The terms under which it is found. Only roots have the term of their project, since lists of a project show roots.
    fn terms(&self) -> Vec<u64> {
        let project = self.project.as_deref().filter(|_| !self.is_child);
        build_terms(Some(self.state), Some(&self.workflow), project, &self.labels)
    }
}

/// The terms of all that is given.
pub(super) fn build_terms(
    state: Option<State>,
    workflow: Option<&WorkflowName>,
    project: Option<&str>,
    labels: &Labels,
) -> Vec<u64> {
    let labels = labels.iter().map(|(name, value)| hash_term("label", &format!("{name}={value}")));
    let state = state.map(|state| hash_term("state", state.as_str()));
    let workflow = workflow.map(|workflow| hash_term("workflow", workflow.as_str()));
    let project = project.map(|project| hash_term("project", project));
    labels.chain(state).chain(workflow).chain(project).collect()
}

/// The first eight bytes of the term's SHA-256. Two terms may share a hash, so every summary that is found is compared with
/// the query.
fn hash_term(kind: &str, value: &str) -> u64 {
    let digest = Digest::compute(format!("{kind}\n{value}").as_bytes());
    digest.as_bytes().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// The key up to which the journal is indexed; 0 without an index.
pub(super) fn read_indexed_to(transaction: &ReadTransaction) -> Result<u64> {
    let meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    read_meta_key(&meta, INDEXED_TO_KEY)
}

/// A step of the index: the summaries that follow from the next rows of the journal.
#[derive(Debug)]
pub(super) struct IndexChange {
    /// The journal was indexed up to this key before.
    indexed_from: u64,
    /// The journal is indexed up to this key then.
    indexed_to: u64,
    entries: Vec<IndexEntry>,
}

/// The change for one execution.
#[derive(Debug)]
struct IndexEntry {
    id: ExecutionId,
    /// The key of the row before those that are indexed now: its summary lies there, if it has one.
    previous: Option<u64>,
    /// The key of its last row, and its summary; `None` if it has later rows, which are indexed later.
    summary: Option<(u64, Vec<u8>)>,
}

impl IndexChange {
    /// The encoded size, for the batch that it is in.
    pub(super) fn encoded_bytes(&self) -> usize {
        let summaries = self.entries.iter().filter_map(|entry| entry.summary.as_ref());
        summaries.map(|(_, bytes)| bytes.len()).sum()
    }
}

/// Makes a step of the index. `is_stored` tells whether there is an execution with this id. Does nothing if another step was
/// made since this one was planned.
pub(super) fn apply_change(
    transaction: &WriteTransaction,
    change: &IndexChange,
    is_stored: impl Fn(&ExecutionId) -> Result<bool>,
) -> Result<()> {
    let mut meta = transaction.open_table(META_TABLE).map_err(redb_error)?;
    if read_meta_key(&meta, INDEXED_TO_KEY)? != change.indexed_from {
        return Ok(());
    }
    let mut summaries = transaction.open_table(SUMMARIES_TABLE).map_err(redb_error)?;
    let mut terms = transaction.open_table(TERMS_TABLE).map_err(redb_error)?;
    for IndexEntry { id, previous, summary } in &change.entries {
        if let Some(previous) = previous {
            remove_entry(&mut summaries, &mut terms, *previous)?;
        }
        let Some((key, bytes)) = summary else {
            continue;
        };
        // It may have been deleted since the step was planned.
        if !is_stored(id)? {
            continue;
        }
        for term in record::decode::<ExecutionSummary>(bytes)?.terms() {
            terms.insert((term, *key), ()).map_err(redb_error)?;
        }
        summaries.insert(key, bytes.as_slice()).map_err(redb_error)?;
    }
    meta.insert(INDEXED_TO_KEY, change.indexed_to.to_le_bytes().as_slice()).map_err(redb_error)?;
    Ok(())
}

/// Removes the summary of a deleted execution, which lies at one of the keys of its rows.
pub(super) fn remove_summary(
    transaction: &WriteTransaction,
    keys: impl Iterator<Item = u64>,
) -> Result<()> {
    let mut summaries = transaction.open_table(SUMMARIES_TABLE).map_err(redb_error)?;
    let mut terms = transaction.open_table(TERMS_TABLE).map_err(redb_error)?;
    for key in keys {
        if remove_entry(&mut summaries, &mut terms, key)? {
            break;
        }
    }
    Ok(())
}

fn remove_entry(
    summaries: &mut redb::Table<'_, u64, &'static [u8]>,
    terms: &mut redb::Table<'_, (u64, u64), ()>,
    key: u64,
) -> Result<bool> {
    let Some(bytes) = summaries.remove(key).map_err(redb_error)? else {
        return Ok(false);
    };
    for term in record::decode::<ExecutionSummary>(bytes.value())?.terms() {
        terms.remove((term, key)).map_err(redb_error)?;
    }
    Ok(true)
}

/// Reads the keys of summaries that have all of some terms, newest first.
pub(super) struct TermScan {
    terms: Vec<u64>,
    /// The keys before this one were not read yet.
    before: u64,
    /// How many entries may still be read.
    reads_left: usize,
    is_exhausted: bool,
}

impl TermScan {
    /// A scan of the summaries before a key.
    pub(super) fn new(terms: Vec<u64>, before: u64, reads_max: usize) -> Self {
        Self { terms, before, reads_left: reads_max, is_exhausted: false }
    }

    /// The key before which the scan continues; `None` if all summaries were read.
    pub(super) fn next_key(&self) -> Option<u64> {
        (!self.is_exhausted).then_some(self.before)
    }

    /// Ends the scan: nothing before its present place matters.
    pub(super) fn finish(&mut self) {
        self.is_exhausted = true;
    }

    /// The next summaries, at most `count`, each with its key. Empty at the end, or once the limit of entries is reached.
    pub(super) fn read_next(
        &mut self,
        transaction: &ReadTransaction,
        count: usize,
    ) -> Result<Vec<(u64, ExecutionSummary)>> {
        let mut found = Vec::new();
        let Some(summaries) = open_if_present(transaction, SUMMARIES_TABLE)? else {
            self.is_exhausted = true;
            return Ok(found);
        };
        if self.terms.is_empty() {
            let count = count.min(self.reads_left);
            for entry in summaries.range(..self.before).map_err(redb_error)?.rev().take(count) {
                let (key, bytes) = entry.map_err(redb_error)?;
                found.push((key.value(), record::decode(bytes.value())?));
            }
            self.is_exhausted |= found.len() < count;
            self.reads_left -= found.len();
            self.before = found.last().map_or(self.before, |(key, _)| *key);
            return Ok(found);
        }
        let postings = transaction.open_table(TERMS_TABLE).map_err(redb_error)?;
        while found.len() < count && self.reads_left > 0 && !self.is_exhausted {
            let Some(key) = self.find_common_key(&postings)? else {
                break;
            };
            if let Some(bytes) = summaries.get(key).map_err(redb_error)? {
                found.push((key, record::decode(bytes.value())?));
            }
            self.reads_left = self.reads_left.saturating_sub(1);
        }
        Ok(found)
    }

    /// The latest key before the present place that all terms have.
    fn find_common_key(
        &mut self,
        postings: &redb::ReadOnlyTable<(u64, u64), ()>,
    ) -> Result<Option<u64>> {
        let mut agreeing = 0;
        let mut candidate = None;
        for term in self.terms.iter().cycle() {
            let end = candidate.map_or(self.before, |key: u64| key + 1);
            let mut range = postings.range((*term, 0)..(*term, end)).map_err(redb_error)?;
            let Some(entry) = range.next_back() else {
                self.is_exhausted = true;
                return Ok(None);
            };
            let key = entry.map_err(redb_error)?.0.value().1;
            agreeing = if candidate == Some(key) { agreeing + 1 } else { 1 };
            candidate = Some(key);
            if agreeing == self.terms.len() {
                self.before = key;
                return Ok(candidate);
            }
            self.reads_left = self.reads_left.saturating_sub(1);
            if self.reads_left == 0 {
                self.before = key + 1;
                return Ok(None);
            }
        }
        Ok(None)
    }
}
