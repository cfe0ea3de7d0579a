//! Pages of executions. Open executions are found by their own index. All others are found by a walk back through the journal
//! as far as it is not indexed yet, and then by the index of executions. All ways yield places (keys of journal rows), and the
//! execution of each place is then read in its latest state.
//!
//! Between two reads an execution may move to a place before the start of the walk. It is still listed, in its latest
//! state and only once, because its older rows are skipped. If it moved past the `before` of the query, it is neither
//! on this page nor on a later one.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashSet},
    ops::Range,
    vec,
};

use redb::{ReadTransaction, ReadableTableMetadata};

use super::{
    DueExecution, ExecutionSummary, ListPage, ListQuery, SummaryPage,
    fault::redb_error,
    index::{self, TermScan},
    reader,
    record::{self, damaged_database_error},
    shared::SharedStore,
    tables::{JOURNAL_TABLE, OPEN_TABLE},
};
use midex_domain::{
    Execution, ExecutionId, Sequence,
    clock::Timestamp,
    error::{Error, Result},
    limits,
};

/// Places read in one read transaction.
const ROWS_PER_READ: usize = 256;

/// The page that `query` asks for. It is read in portions: between two portions the database may be shut and reopened.
pub(super) fn list_page(shared: &SharedStore, query: &ListQuery) -> Result<ListPage> {
    let (matches, next_key) = find_matches(shared, query, true)?;
    let executions = matches.into_iter();
    let executions =
        executions.filter_map(|found| Some((Sequence(found.last_key), found.execution?)));
    Ok(ListPage { executions: executions.collect(), next_key })
}

/// Like [`list_page`], with summaries. The execution itself is read only if it moved since it was indexed.
pub(super) fn list_summaries(shared: &SharedStore, query: &ListQuery) -> Result<SummaryPage> {
    let (matches, next_key) = find_matches(shared, query, false)?;
    let summaries = matches.into_iter().map(|found| found.summary).collect();
    Ok(SummaryPage { summaries, next_key })
}

/// The executions of a page, newest first, and where the next page begins.
fn find_matches(
    shared: &SharedStore,
    query: &ListQuery,
    wants_executions: bool,
) -> Result<(Vec<FoundExecution>, Option<Sequence>)> {
    if query.limit == 0 {
        return shared.read(|_| Ok((Vec::new(), None)));
    }
    let mut scan = PageScan {
        shared,
        query,
        visited_ids: HashSet::new(),
        matches: Vec::new(),
        wants_executions,
        texts_left: limits::LIST_TEXTS_SEARCHED_MAX,
    };
    let next_key = match OpenIndexSource::from_query(shared, query)? {
        Some(open) => scan.fill_page(open)?,
        None => scan.fill_page(JournalAndIndexSource::from_query(shared, query)?)?,
    };
    // An execution that moved meanwhile was found at an older place.
    scan.matches.sort_by_key(|found| Reverse(found.last_key));
    Ok((scan.matches, next_key))
}

/// The open executions with a deadline before an instant, earliest first.
pub(super) fn read_due_executions(
    shared: &SharedStore,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<DueExecution>> {
    let mut due_entries = Vec::new();
    shared.read(|transaction| {
        let open = transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
        for entry in open.range::<&str>(..).map_err(redb_error)? {
            let (id, due) = entry.map_err(redb_error)?;
            let due = due.value().map(Timestamp::from_milliseconds);
            if let Some(due) = due.filter(|due| *due < before) {
                due_entries.push((record::parse_indexed_id(id.value())?, due));
            }
        }
        Ok(())
    })?;
    due_entries.sort_by(|(one, at), (other, then)| (at, one).cmp(&(then, other)));
    due_entries.truncate(limit);
    Ok(due_entries)
}

/// A place of an execution: the key of one of its rows.
struct RowPosition {
    key: u64,
    id: ExecutionId,
    /// The summary of the execution as of that row, if the index led to it.
    summary: Option<ExecutionSummary>,
}

/// An execution that a query admits.
struct FoundExecution {
    last_key: u64,
    summary: ExecutionSummary,
    /// `None` if only summaries are asked for.
    execution: Option<Execution>,
}

/// A source of places, newest first.
trait PositionSource {
    /// The next places. Empty at the end, or once the limit for one page is reached.
    fn read_next_portion(&mut self) -> Result<Vec<RowPosition>>;

    /// The key before which all further places lie; `None` if it is known that no more follow.
    fn next_key(&self) -> Option<u64>;
}

struct PageScan<'a> {
    shared: &'a SharedStore,
    query: &'a ListQuery,
    /// The executions found so far. Their older rows are skipped.
    visited_ids: HashSet<ExecutionId>,
    matches: Vec<FoundExecution>,
    /// Whether the executions themselves are asked for, and not only their summaries.
    wants_executions: bool,
    /// How many first rows may still be searched for a text.
    texts_left: usize,
}

impl PageScan<'_> {
    /// Fills the page, and returns the key before which the next page begins. All newer places have been looked at.
    fn fill_page(&mut self, mut source: impl PositionSource) -> Result<Option<Sequence>> {
        loop {
            let positions = source.read_next_portion()?;
            let visited_count = self.visit_positions(&positions)?;
            if let Some(last) =
                visited_count.checked_sub(1).filter(|_| visited_count < positions.len())
            {
                return Ok(Some(Sequence(positions[last].key)));
            }
            if positions.is_empty() || self.is_full() {
                return Ok(source.next_key().map(Sequence));
            }
        }
    }

    /// Visits `positions` until the page is full, and returns how many were visited.
    fn visit_positions(&mut self, positions: &[RowPosition]) -> Result<usize> {
        let shared = self.shared;
        let heads = shared.uncovered_heads(positions.iter().map(|place| &place.id));
        shared.read(|transaction| {
            for (index, (position, head)) in positions.iter().zip(heads).enumerate() {
                self.visit_position(transaction, position, head)
                    .map_err(|error| error.with_context("execution_id", position.id.as_str()))?;
                if self.is_full() {
                    return Ok(index + 1);
                }
            }
            Ok(positions.len())
        })
    }

    fn visit_position(
        &mut self,
        transaction: &ReadTransaction,
        position: &RowPosition,
        head: Option<u64>,
    ) -> Result<()> {
        // If the execution moved since, a later row of it was visited before.
        if self.visited_ids.contains(&position.id) {
            return Ok(());
        }
        let last_key = read_last_row_key(transaction, &position.id, head)?;
        // This row is durable, but its commit has not been answered yet. The execution is found again at an older row.
        if last_key < position.key {
            return Ok(());
        }
        self.visited_ids.insert(position.id.clone());
        if !self.query.admits_last_key(Sequence(last_key)) {
            return Ok(());
        }
        let indexed = position.summary.as_ref().filter(|_| last_key == position.key);
        // The summary is that of the execution as it is, and its text is searched before the execution is read.
        let (summary, mut execution) = if let Some(summary) = indexed {
            (summary.clone(), None)
        } else {
            let execution = read_execution(transaction, &position.id, head)?;
            (ExecutionSummary::new(&execution), Some(execution))
        };
        if self.query.admits_summary(&summary) && self.holds_text(transaction, &summary, head)? {
            if self.wants_executions && execution.is_none() {
                execution = Some(read_execution(transaction, &position.id, head)?);
            }
            self.matches.push(FoundExecution { last_key, summary, execution });
        }
        Ok(())
    }

    /// Whether an execution holds the text of the query.
    fn holds_text(
        &mut self,
        transaction: &ReadTransaction,
        summary: &ExecutionSummary,
        head: Option<u64>,
    ) -> Result<bool> {
        let Some(text) = self.query.text.as_ref().filter(|text| !text.is_in_summary(summary))
        else {
            return Ok(true);
        };
        self.texts_left = self.texts_left.saturating_sub(1);
        let row = match summary.first_key {
            0 => reader::read_rows(transaction, &summary.id, &BTreeSet::from([1]), head)?.pop(),
            key => reader::read_row(transaction, key)?,
        };
        let row = row.ok_or_else(missing_execution_error)?;
        text.is_in_inputs(&row, |digest| reader::read_content(transaction, digest))
    }

    fn is_full(&self) -> bool {
        self.matches.len() >= self.query.limit || self.texts_left == 0
    }
}

/// The rows that are not indexed yet, up to the limit for one page, and then the summaries that have the terms of the query.
struct JournalAndIndexSource<'a> {
    shared: &'a SharedStore,
    query: &'a ListQuery,
    /// The keys of the rows that are still to be read.
    rows: Range<u64>,
    rows_left: usize,
    is_journal_exhausted: bool,
    scan: TermScan,
    /// A summary that last moved before this time ends the scan.
    since: Option<Timestamp>,
}

impl<'a> JournalAndIndexSource<'a> {
    fn from_query(shared: &'a SharedStore, query: &'a ListQuery) -> Result<Self> {
        let unindexed_from = shared.read(index::read_indexed_to)?.saturating_add(1);
        let before = query.before.map_or(u64::MAX, |before| before.0);
        let index_end = before.min(unindexed_from);
        let project = query.project.as_deref().filter(|_| query.roots_only);
        let terms =
            index::build_terms(query.state, query.workflow.as_ref(), project, &query.labels);
        let mut scan = TermScan::new(terms, index_end, limits::LIST_INDEX_READS_MAX);
        if index_end <= 1 {
            scan.finish();
        }
        Ok(Self {
            shared,
            query,
            rows: index_end..before,
            rows_left: shared.options.list_scanned_max,
            is_journal_exhausted: false,
            scan,
            since: query.since.map(|since| since.minus(limits::LIST_CLOCK_SLACK)),
        })
    }

    fn read_next_rows(&mut self) -> Result<Vec<RowPosition>> {
        let (keys, max_rows) = (self.rows.clone(), self.rows_left.min(ROWS_PER_READ));
        let positions = self.shared.read(|read| read_newest_rows(read, keys, max_rows))?;
        self.is_journal_exhausted = positions.len() < max_rows;
        self.rows_left -= positions.len();
        self.rows.end = positions.last().map_or(self.rows.end, |place| place.key);
        Ok(positions)
    }

    fn read_next_summaries(&mut self) -> Result<Vec<RowPosition>> {
        loop {
            let scan = &mut self.scan;
            let mut summaries = self.shared.read(|read| scan.read_next(read, ROWS_PER_READ))?;
            if summaries.is_empty() {
                return Ok(Vec::new());
            }
            let is_older = |(_, summary): &(u64, ExecutionSummary)| {
                self.since.is_some_and(|since| summary.updated_at < since)
            };
            if let Some(first) = summaries.iter().position(is_older) {
                summaries.truncate(first);
                self.scan.finish();
            }
            summaries.retain(|(_, summary)| self.query.admits_summary(summary));
            if !summaries.is_empty() || self.scan.next_key().is_none() {
                let positions = summaries.into_iter().map(|(key, summary)| RowPosition {
                    key,
                    id: summary.id.clone(),
                    summary: Some(summary),
                });
                return Ok(positions.collect());
            }
        }
    }
}

impl PositionSource for JournalAndIndexSource<'_> {
    fn read_next_portion(&mut self) -> Result<Vec<RowPosition>> {
        if !self.is_journal_exhausted {
            let positions = self.read_next_rows()?;
            // An empty portion before the end of the rows means that the limit for one page is reached.
            if !positions.is_empty() || !self.is_journal_exhausted {
                return Ok(positions);
            }
        }
        self.read_next_summaries()
    }

    fn next_key(&self) -> Option<u64> {
        if self.is_journal_exhausted { self.scan.next_key() } else { Some(self.rows.end) }
    }
}

/// The open executions, each at its last row.
struct OpenIndexSource(vec::IntoIter<RowPosition>);

impl OpenIndexSource {
    /// `None` if the query is not limited to open executions, or if the index has so many entries that a walk through
    /// the journal is faster: every entry must be read to find the newest ones.
    fn from_query(shared: &SharedStore, query: &ListQuery) -> Result<Option<Self>> {
        if !query.open_only {
            return Ok(None);
        }
        let max_entries = shared.options.list_scanned_max;
        let Some(ids) = shared.read(|read| read_open_ids(read, max_entries))? else {
            return Ok(None);
        };
        let mut positions = Vec::with_capacity(ids.len());
        for ids in ids.chunks(ROWS_PER_READ) {
            positions.extend(read_last_positions(shared, ids)?);
        }
        positions.retain(|place| query.admits_last_key(Sequence(place.key)));
        positions.sort_unstable_by_key(|place| Reverse(place.key));
        Ok(Some(Self(positions.into_iter())))
    }
}

impl PositionSource for OpenIndexSource {
    fn read_next_portion(&mut self) -> Result<Vec<RowPosition>> {
        Ok(self.0.by_ref().take(ROWS_PER_READ).collect())
    }

    fn next_key(&self) -> Option<u64> {
        self.0.as_slice().first().map(|place| place.key + 1)
    }
}

/// The newest rows with these keys, at most `max_rows`.
fn read_newest_rows(
    transaction: &ReadTransaction,
    keys: Range<u64>,
    max_rows: usize,
) -> Result<Vec<RowPosition>> {
    let journal = transaction.open_table(JOURNAL_TABLE).map_err(redb_error)?;
    let rows = journal.range(keys).map_err(redb_error)?.rev();
    rows.take(max_rows)
        .map(|entry| {
            let (key, bytes) = entry.map_err(redb_error)?;
            Ok(RowPosition {
                key: key.value(),
                id: record::decode_row_execution_id(bytes.value())?,
                summary: None,
            })
        })
        .collect()
}

/// Every open execution; `None` where there are more than `max_entries`.
fn read_open_ids(
    transaction: &ReadTransaction,
    max_entries: usize,
) -> Result<Option<Vec<ExecutionId>>> {
    let open = transaction.open_table(OPEN_TABLE).map_err(redb_error)?;
    if open.len().map_err(redb_error)? > max_entries as u64 {
        return Ok(None);
    }
    let ids = open.range::<&str>(..).map_err(redb_error)?.map(|entry| {
        let (id, _) = entry.map_err(redb_error)?;
        record::parse_indexed_id(id.value())
    });
    ids.collect::<Result<_>>().map(Some)
}

fn read_last_positions(shared: &SharedStore, ids: &[ExecutionId]) -> Result<Vec<RowPosition>> {
    let heads = shared.uncovered_heads(ids.iter());
    shared.read(|transaction| {
        let to_position = |(id, head): (&ExecutionId, _)| {
            let key = read_last_row_key(transaction, id, head)
                .map_err(|error| error.with_context("execution_id", id.as_str()))?;
            Ok(RowPosition { key, id: id.clone(), summary: None })
        };
        ids.iter().zip(heads).map(to_position).collect()
    })
}

fn read_last_row_key(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<u64> {
    reader::read_last_row_key(transaction, id, head)?.ok_or_else(missing_execution_error)
}

fn read_execution(
    transaction: &ReadTransaction,
    id: &ExecutionId,
    head: Option<u64>,
) -> Result<Execution> {
    let stored = reader::load(transaction, id, head)?;
    Ok(stored.ok_or_else(missing_execution_error)?.execution)
}

fn missing_execution_error() -> Error {
    damaged_database_error("a journal row or the index names an execution that is not there")
}

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use super::{
        super::{
            FileHook, FileOperation, Options, RedbStore, Store,
            batch::BatchEffects,
            contract::script::{Script, execution_id},
            file,
        },
        *,
    };

    /// Opens what is in `directory` for reading, with rows that no snapshot covers.
    fn open_with_uncovered_rows(directory: &Path) -> SharedStore {
        let full = |operation: FileOperation<'_>| match operation {
            FileOperation::Reserve(_) => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        };
        let options = Options { hook: Some(FileHook::new(full)), ..Options::default() };
        let lock = file::lock_directory(directory).expect("a lock");
        let path = file::prepare_data_file(directory, &lock, &options).expect("a file");
        let (opened, state) = file::open(&path, &lock, &options).expect("a store");
        assert_eq!(state.heads.replay_from(), Some(2));
        SharedStore::new(path, options, opened, &state)
    }

    /// Between a commit and its answer, the rows of the commit can be read but are not published yet. An execution that
    /// is listed by an older row must then not be listed a second time.
    #[tokio::test]
    async fn an_unpublished_transition_is_not_listed_twice() {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options { snapshot_every: 16, ..Options::default() };
        let store = RedbStore::open(directory.path(), options).expect("a store");
        let mut one = Script::new("one", 9);
        one.commit_steps(&store, 2).await;
        Script::new("two", 9).commit_step(&store).await.expect("stored");
        one.commit_step(&store).await.expect("stored");
        store.close().await.expect("closed");
        let shared = open_with_uncovered_rows(directory.path());
        let unanswered =
            BatchEffects { heads: vec![(execution_id("one"), Some(2))], ..BatchEffects::default() };
        shared.publish_heads(&unanswered);
        let mut query = ListQuery { limit: 1, ..ListQuery::default() };
        let mut listed = Vec::new();
        while listed.len() < 9 {
            let page = list_page(&shared, &query).expect("a page");
            let executions = page.executions.iter();
            listed.extend(executions.map(|(key, one)| (one.id().clone(), *key)));
            query.before = page.next_key;
            if page.next_key.is_none() {
                break;
            }
        }
        assert_eq!(
            listed,
            [(execution_id("two"), Sequence(3)), (execution_id("one"), Sequence(2))]
        );
    }
}
