//! Imports: executions of another store, with the rows and contents that they have there.
//!
//! An import sends its contents first, in bounded parts, and then the rows of each family in one transaction. A content that
//! was not stored before becomes a candidate in the same transaction, so that a sweep frees it if the rows never follow.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record;
use midex_domain::{
    Digest, Execution, ExecutionId, Row,
    error::{Code, Error, Result},
};

/// A part of an import, which is stored in one transaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Import {
    /// Contents, each stored unless it is stored already.
    pub contents: Vec<(Digest, Arc<[u8]>)>,
    /// All rows of each execution, oldest first. Nothing may move the execution any more ([`Execution::is_over`]).
    pub executions: Vec<Vec<Row>>,
}

impl Import {
    /// Checks the rows of each execution, and returns the states that they lead to.
    ///
    /// # Errors
    /// `INTERNAL` for rows that are not all rows of one execution that is over.
    pub fn check(&self) -> Result<Vec<Execution>> {
        self.executions.iter().map(|rows| check_rows(rows)).collect()
    }
}

fn check_rows(rows: &[Row]) -> Result<Execution> {
    let execution = Execution::replay(rows).filter(Execution::is_over);
    let execution = execution.filter(|execution| {
        let mut rows = rows.iter().zip(1..);
        rows.all(|(row, revision)| row.execution_id == *execution.id() && row.revision == revision)
    });
    execution.ok_or_else(|| Error::internal("imported rows are not those of an execution"))
}

/// The refusal of an execution whose id is taken: by another one, or by a deletion.
pub fn id_taken_error(id: &ExecutionId) -> Error {
    Error::new(Code::ExecutionIdTaken, format!("Execution ID '{id}' already exists"))
        .with_context("execution_id", id.as_str())
}

/// An [`Import`] whose records are encoded.
#[derive(Debug)]
pub(super) struct EncodedImport {
    pub(super) contents: Vec<(Digest, Arc<[u8]>)>,
    pub(super) executions: Vec<EncodedExecution>,
}

/// An execution whose records are encoded.
#[derive(Debug)]
pub(super) struct EncodedExecution {
    pub(super) id: ExecutionId,
    /// The execution that it is a fork of.
    pub(super) fork_of: Option<ExecutionId>,
    pub(super) rows: Vec<Vec<u8>>,
    pub(super) snapshot: Vec<u8>,
}

impl EncodedImport {
    pub(super) fn encode(import: Import) -> Result<Self> {
        let states = import.check()?;
        let executions = states.iter().zip(&import.executions).map(|(execution, rows)| {
            Ok(EncodedExecution {
                id: execution.id().clone(),
                fork_of: execution.origin().map(|origin| origin.execution_id.clone()),
                rows: rows.iter().map(record::encode_row).collect::<Result<_>>()?,
                snapshot: record::encode_snapshot(execution, 0)?,
            })
        });
        Ok(Self { executions: executions.collect::<Result<_>>()?, contents: import.contents })
    }

    /// The bytes of the records, without the contents.
    pub(super) fn record_bytes(&self) -> usize {
        let executions = self.executions.iter();
        let records = executions.flat_map(|one| one.rows.iter().chain([&one.snapshot]));
        records.map(Vec::len).sum()
    }
}
