//! The records of executions: when a commit carries a snapshot, and the stored forms for stores outside of this crate.

pub use super::record::{decode_refusal, encode_refusal, encode_row, encode_snapshot};
use super::{Commit, Position, check_commit, record};
use midex_domain::{Execution, Row, clock::Timestamp, error::Result, limits};

/// The records of a commit.
#[derive(Debug)]
pub struct CommitRecords {
    /// The row.
    pub row: Vec<u8>,
    /// The execution after it, where a snapshot is due.
    pub snapshot: Option<Vec<u8>>,
    /// The position of the execution after it.
    pub position: Position,
}

/// Whether a transition carries a snapshot.
enum SnapshotDecision {
    NotDue,
    /// Encoded, but so large that it is not worth writing yet. Holds its size in bytes.
    TooLarge(u64),
    Encoded(Vec<u8>),
}

impl Commit {
    /// Encodes the row, and the execution if a snapshot is due: at most every `snapshot_every` transitions.
    ///
    /// # Errors
    /// `INTERNAL` where row and execution are not of one transition, or cannot be encoded.
    pub fn encode_records(&self, snapshot_every: u32) -> Result<CommitRecords> {
        check_commit(self)?;
        let row = encode_row(&self.row)?;
        let bytes = row.len() as u64;
        let advanced = Position {
            bytes_since_snapshot: self.position.bytes_since_snapshot + bytes,
            due: self.due,
            ..self.position
        };
        let (snapshot, position) = match self.decide_snapshot(bytes, snapshot_every)? {
            SnapshotDecision::Encoded(snapshot) => {
                let position = advanced.after_snapshot(self.row.revision, &snapshot);
                (Some(snapshot), position)
            }
            SnapshotDecision::TooLarge(bytes) => {
                (None, Position { oversized_snapshot_bytes: bytes, ..advanced })
            }
            SnapshotDecision::NotDue => (None, advanced),
        };
        Ok(CommitRecords { row, snapshot, position })
    }

    /// Decides whether this commit carries a snapshot: always at the creation of an execution, without the state, and at its
    /// end, otherwise if one is due and it is small or outweighed by the rows since the last one. If a snapshot was
    /// encoded but is too large, its size is returned: none is encoded again before the rows outweigh that size.
    /// Otherwise a long execution would encode one in vain at every third transition.
    fn decide_snapshot(&self, row_bytes: u64, snapshot_every: u32) -> Result<SnapshotDecision> {
        let Position {
            snapshot_revision,
            snapshot_bytes,
            bytes_since_snapshot,
            oversized_snapshot_bytes,
            ..
        } = self.position;
        if self.row.revision == 1 {
            return Ok(SnapshotDecision::Encoded(record::encode_first_snapshot()?));
        }
        let row_bytes_total = bytes_since_snapshot + row_bytes;
        let is_worth_writing =
            |bytes: u64| bytes <= limits::SNAPSHOT_BYTES_FREE as u64 || bytes < row_bytes_total;
        let is_due =
            self.row.revision.saturating_sub(snapshot_revision) >= u64::from(snapshot_every);
        let is_required = self.execution.state().is_final();
        // A snapshot hardly shrinks. If the rows do not outweigh the last one, this one need not be encoded.
        if is_required || (is_due && is_worth_writing(snapshot_bytes.max(oversized_snapshot_bytes)))
        {
            let bytes = encode_snapshot(&self.execution, snapshot_bytes)?;
            let length = bytes.len() as u64;
            return Ok(if is_required || is_worth_writing(length) {
                SnapshotDecision::Encoded(bytes)
            } else {
                SnapshotDecision::TooLarge(length)
            });
        }
        Ok(SnapshotDecision::NotDue)
    }
}

impl Position {
    /// The position right after a snapshot.
    #[must_use]
    pub fn after_snapshot(self, revision: u64, snapshot: &[u8]) -> Self {
        Self::from_records((revision, snapshot.len()), 0, self.due)
    }

    /// The position of an execution whose last snapshot has this revision and so many bytes, with rows of so many bytes
    /// after it.
    pub fn from_records(snapshot: (u64, usize), row_bytes: usize, due: Option<Timestamp>) -> Self {
        let (snapshot_revision, snapshot_bytes) = snapshot;
        Self {
            snapshot_revision,
            snapshot_bytes: snapshot_bytes as u64,
            bytes_since_snapshot: row_bytes as u64,
            due,
            oversized_snapshot_bytes: 0,
        }
    }

    /// The revision of the last snapshot; 0 where there is none.
    pub fn snapshot_revision(&self) -> u64 {
        self.snapshot_revision
    }

    /// The bytes of the last snapshot.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes
    }
}

/// Reads a row that [`encode_row`] wrote.
///
/// # Errors
/// `STORE_CORRUPT` for other bytes, `STORE_TOO_NEW` for those of a later version.
pub fn decode_row(bytes: &[u8]) -> Result<Row> {
    record::decode_row(bytes).map(|(_, row)| row)
}

/// Reads a snapshot. `None` for one without the state, which the first row tells.
///
/// # Errors
/// As [`decode_row`].
pub fn decode_snapshot(bytes: &[u8]) -> Result<Option<Execution>> {
    record::decode_snapshot(bytes).map(|(_, execution)| execution)
}
