//! The statement of a list, and the executions that statements read.

use std::fmt::Write as _;

use tokio_postgres::{Row, types::ToSql};

use crate::value::{from_int8, from_stored_key};
use midex_domain::{
    Execution, Sequence,
    clock::Timestamp,
    error::{Code, Error, Result},
    label::Labels,
};
use midex_engine::store::{ListQuery, LoadedExecution, Position, encode};

/// The executions that have not ended.
const OPEN_EXECUTIONS: &str = "SELECT * FROM executions WHERE NOT has_ended";

/// All executions, in two parts: those that are open and those that have ended are in different indexes.
pub(crate) const ALL_EXECUTIONS: &str = "SELECT * FROM executions WHERE NOT has_ended \
    UNION ALL SELECT * FROM executions WHERE has_ended";

/// The conditions of a list that the database checks: all but the text.
pub(crate) struct ListStatement {
    /// The executions that are searched.
    executions: &'static str,
    conditions: String,
    parameters: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl ListStatement {
    /// The first two parameters are the key before which the executions lie, and their number.
    pub(crate) fn new(query: &ListQuery) -> Result<Self> {
        let executions = if query.open_only { OPEN_EXECUTIONS } else { ALL_EXECUTIONS };
        let mut statement = Self { executions, conditions: String::new(), parameters: Vec::new() };
        if query.roots_only {
            statement.conditions.push_str(" AND NOT is_child");
        }
        if let Some(state) = query.state {
            statement.add("state =", state.as_str());
        }
        if let Some(workflow) = &query.workflow {
            statement.add("workflow =", workflow.as_str());
        }
        if let Some(project) = &query.project {
            statement.add("project =", project.as_str());
        }
        if !query.labels.is_empty() {
            statement.add_cast("labels @>", encode_labels(&query.labels)?, "::text::jsonb");
        }
        if let Some(since) = query.since {
            statement.add_cast("updated_at >=", since.milliseconds(), "");
        }
        if let Some(until) = query.until {
            statement.add_cast("updated_at <", until.milliseconds(), "");
        }
        Ok(statement)
    }

    fn add(&mut self, condition: &str, text: &str) {
        self.add_cast(condition, text.to_owned(), "");
    }

    fn add_cast(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static, cast: &str) {
        let number = self.parameters.len() + 3;
        let _ = write!(self.conditions, " AND {condition} ${number}{cast}");
        self.parameters.push(Box::new(value));
    }

    /// The statement: the executions before a key, newest first, at most so many.
    pub(crate) fn text(&self) -> String {
        let Self { executions, conditions, .. } = self;
        format!(
            "SELECT {EXECUTION_COLUMNS} FROM ({executions}) e {JOIN_SNAPSHOTS} \
             WHERE seq < $1{conditions} ORDER BY seq DESC LIMIT $2"
        )
    }

    /// Its parameters.
    pub(crate) fn parameters<'a>(
        &'a self,
        before: &'a i64,
        limit: &'a i64,
    ) -> Vec<&'a (dyn ToSql + Sync)> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![before, limit];
        parameters.extend(self.parameters.iter().map(|one| &**one as &(dyn ToSql + Sync)));
        parameters
    }
}

/// What [`read_execution`] reads of an execution `e`, with [`JOIN_SNAPSHOTS`]. An execution without a snapshot has all its rows.
pub(crate) const EXECUTION_COLUMNS: &str = "e.seq, e.due, coalesce(s.revision, 0), coalesce(s.bytes, ''), \
    ARRAY(SELECT j.record FROM journal j WHERE j.execution_id = e.id AND j.revision > coalesce(s.revision, 0) \
    ORDER BY j.revision)";
pub(crate) const JOIN_SNAPSHOTS: &str = "LEFT JOIN snapshots s ON s.execution_id = e.id";

/// An execution with its key, from its snapshot and the rows after it.
pub(crate) fn read_execution(row: &Row) -> Result<(Sequence, LoadedExecution)> {
    let (due, snapshot_revision): (Option<i64>, i64) = (row.get(1), row.get(2));
    let (snapshot, records): (&[u8], Vec<&[u8]>) = (row.get(3), row.get(4));
    let mut execution = if snapshot.is_empty() { None } else { encode::decode_snapshot(snapshot)? };
    for record in &records {
        execution = Execution::apply_row(execution, &encode::decode_row(record)?);
    }
    let execution = execution.ok_or_else(|| {
        Error::new(Code::StoreCorrupt, "the rows of an execution do not lead to a state")
    })?;
    let snapshot = (from_int8(snapshot_revision), snapshot.len());
    let row_bytes = records.iter().map(|record| record.len()).sum();
    let due = due.map(Timestamp::from_milliseconds);
    let position = Position::from_records(snapshot, row_bytes, due);
    Ok((from_stored_key(row.get(0)), LoadedExecution { execution, position }))
}

/// Labels as the JSON that the database stores.
pub(crate) fn encode_labels(labels: &Labels) -> Result<String> {
    serde_json::to_string(labels)
        .map_err(|error| Error::internal("labels cannot be encoded").with_source(error))
}
