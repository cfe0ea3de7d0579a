//! Encodes and decodes the records of the store. Damaged bytes never cause a panic, but the error `STORE_CORRUPT`.
//!
//! A record is encoded by the caller, while the writer is busy with others. Values that only the writer knows (the keys
//! of rows, and the start of replay) are in a prefix of fixed width, which the writer fills in ("seals"). All numbers
//! of a prefix are little-endian.

use postcard::{ser_flavors::Flavor, serialize_with_flavor};
use serde::{Serialize, de::DeserializeOwned};

use super::RefusedCall;
use midex_domain::{
    Execution, ExecutionId, Row,
    error::{Code, Error, Result},
};

/// The version of rows and refusals, in their first byte.
const RECORD_VERSION: u8 = 1;
/// The version of snapshots, in their first byte. Version 1 ends before the pages of lists, version 2 before the origin of
/// a fork and the two fields of a rewind, versions 3 and 4 before the purged inputs, version 5 before the pace,
/// version 6 before the notes on visits and the errors among signals, version 7 before the labels and the time of an
/// import. Since version 4 the state may be left out.
const SNAPSHOT_VERSION: u8 = 8;

/// The revision of the row that creates an execution.
const FIRST_REVISION: u64 = 1;

/// The bytes of these ten fields where all are empty.
const EMPTY_FIELDS: [u8; 10] = [0; 10];

/// The space reserved for what a transition adds to a snapshot.
const SNAPSHOT_GROWTH_BYTES: usize = 256;
/// The space reserved for a row. Most rows fit.
const ROW_CAPACITY_BYTES: usize = 512;

/// The fields of a snapshot that can be read without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotHeader {
    /// The revision of the execution.
    pub(super) revision: u64,
    /// The journal key of that revision's row.
    pub(super) last_key: u64,
}

/// The fields of a journal row that can be read without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowHeader {
    /// The key of the execution's previous row; `None` for its first row.
    pub(super) previous: Option<u64>,
    /// When the row was written, snapshots covered every row below this key.
    pub(super) replay_from: u64,
}

/// Encodes a snapshot without its journal key, which is sealed later. The previous snapshot had `bytes_before` bytes.
///
/// # Errors
/// `INTERNAL` where it cannot be encoded.
pub fn encode_snapshot(execution: &Execution, bytes_before: u64) -> Result<Vec<u8>> {
    let capacity = usize::try_from(bytes_before).unwrap_or_default() + SNAPSHOT_GROWTH_BYTES;
    encode(encode_prefix(SNAPSHOT_VERSION, [execution.revision(), 0], capacity), &Some(execution))
}

/// Encodes the snapshot of an execution at its first revision, without the state: its first row tells all of it.
pub(super) fn encode_first_snapshot() -> Result<Vec<u8>> {
    let prefix = encode_prefix(SNAPSHOT_VERSION, [FIRST_REVISION, 0], SNAPSHOT_GROWTH_BYTES);
    encode(prefix, &None::<Execution>)
}

/// Writes the journal key of the snapshot's revision into its prefix.
pub(super) fn seal_snapshot(bytes: &mut [u8], key: u64) {
    write_prefix_number(bytes, 9, key);
}

/// The header of a stored snapshot.
pub(super) fn decode_snapshot_header(bytes: &[u8]) -> Result<SnapshotHeader> {
    let ([revision, last], _) = split_prefix(bytes, SNAPSHOT_VERSION)?;
    Ok(SnapshotHeader { revision, last_key: last })
}

/// Decodes a stored snapshot. The execution is `None` if its first row tells the state.
pub(super) fn decode_snapshot(bytes: &[u8]) -> Result<(SnapshotHeader, Option<Execution>)> {
    let ([revision, last], body) = split_prefix(bytes, SNAPSHOT_VERSION)?;
    let execution: Option<Execution> = match bytes[0] {
        1 => Some(decode(&[body, &EMPTY_FIELDS].concat())?),
        2 => Some(decode(&[body, &EMPTY_FIELDS[1..]].concat())?),
        3 => Some(decode(&[body, &EMPTY_FIELDS[4..]].concat())?),
        4 if body != [0] => decode(&[body, &EMPTY_FIELDS[4..]].concat())?,
        5 if body != [0] => decode(&[body, &EMPTY_FIELDS[5..]].concat())?,
        6 if body != [0] => decode(&[body, &EMPTY_FIELDS[6..]].concat())?,
        7 if body != [0] => decode(&[body, &EMPTY_FIELDS[8..]].concat())?,
        _ => decode(body)?,
    };
    if execution.as_ref().map_or(FIRST_REVISION, Execution::revision) != revision {
        return Err(damaged_database_error(
            "a snapshot disagrees with its header about its revision",
        ));
    }
    Ok((SnapshotHeader { revision, last_key: last }, execution))
}

/// Encodes a journal row whose prefix is sealed later.
///
/// # Errors
/// `INTERNAL` where it cannot be encoded.
pub fn encode_row(row: &Row) -> Result<Vec<u8>> {
    encode(encode_prefix(RECORD_VERSION, [0, 0], ROW_CAPACITY_BYTES), row)
}

/// Writes the header into the prefix of a row.
pub(super) fn seal_row(bytes: &mut [u8], header: RowHeader) {
    write_prefix_number(bytes, 1, header.previous.unwrap_or_default());
    write_prefix_number(bytes, 9, header.replay_from);
}

/// The header of a stored journal row.
pub(super) fn decode_row_header(bytes: &[u8]) -> Result<RowHeader> {
    split_row(bytes).map(|(header, _)| header)
}

/// Decodes a stored journal row.
pub(super) fn decode_row(bytes: &[u8]) -> Result<(RowHeader, Row)> {
    let (header, body) = split_row(bytes)?;
    Ok((header, decode(body)?))
}

fn split_row(bytes: &[u8]) -> Result<(RowHeader, &[u8])> {
    let ([previous, replay_from], body) = split_prefix(bytes, RECORD_VERSION)?;
    let header = RowHeader { previous: (previous > 0).then_some(previous), replay_from };
    Ok((header, body))
}

/// The execution of a stored journal row, without decoding its events: the row begins with the id.
pub(super) fn decode_row_execution_id(bytes: &[u8]) -> Result<ExecutionId> {
    let (_, body) = split_row(bytes)?;
    let id = postcard::take_from_bytes(body).map(|(id, _)| id);
    id.map_err(unreadable_record_error)
}

/// Encodes a refusal.
///
/// # Errors
/// `INTERNAL` where it cannot be encoded.
pub fn encode_refusal(refusal: &RefusedCall) -> Result<Vec<u8>> {
    encode(vec![RECORD_VERSION], refusal)
}

/// Decodes a stored refusal.
///
/// # Errors
/// `STORE_CORRUPT` for other bytes, `STORE_TOO_NEW` for those of a later version.
pub fn decode_refusal(bytes: &[u8]) -> Result<RefusedCall> {
    let (version, body) =
        bytes.split_first().ok_or_else(|| damaged_database_error("a stored refusal is empty"))?;
    check_version(*version, RECORD_VERSION)?;
    decode(body)
}

/// Parses an execution id of the index.
pub(super) fn parse_indexed_id(id: &str) -> Result<ExecutionId> {
    ExecutionId::parse(id).map_err(|error| {
        damaged_database_error("an id of the index cannot be read").with_source(error)
    })
}

/// The error of a database with content that no version of midex wrote.
pub(super) fn damaged_database_error(detail: &str) -> Error {
    Error::new(Code::StoreCorrupt, format!("the database is damaged: {detail}"))
}

/// The version as `u8`, then each number as `u64`, in a buffer with a capacity of `capacity` bytes.
fn encode_prefix<const N: usize>(version: u8, numbers: [u64; N], capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(capacity);
    bytes.push(version);
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

fn write_prefix_number(bytes: &mut [u8], offset: usize, number: u64) {
    bytes[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
}

/// The numbers of a record's prefix, and the bytes after it. `latest` is the latest version of such a record.
fn split_prefix<const N: usize>(bytes: &[u8], latest: u8) -> Result<([u64; N], &[u8])> {
    let too_short_error = || damaged_database_error("a stored record is too short");
    let (version, mut rest) = bytes.split_first().ok_or_else(too_short_error)?;
    check_version(*version, latest)?;
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (chunk, after) = rest.split_first_chunk::<8>().ok_or_else(too_short_error)?;
        (*number, rest) = (u64::from_le_bytes(*chunk), after);
    }
    Ok((numbers, rest))
}

fn check_version(version: u8, latest: u8) -> Result<()> {
    match version {
        0 => Err(damaged_database_error("a stored record has no version")),
        version if version <= latest => Ok(()),
        later => Err(Error::new(
            Code::StoreTooNew,
            format!("the database holds a record of version {later}, this midex reads {latest}"),
        )),
    }
}

pub(super) fn encode(prefix: Vec<u8>, value: &impl Serialize) -> Result<Vec<u8>> {
    serialize_with_flavor(value, Buffer(prefix))
        .map_err(|error| Error::internal("a record cannot be encoded").with_source(error))
}

/// A growing buffer. postcard's flavor that appends to a `Vec` pushes long runs of bytes one by one.
struct Buffer(Vec<u8>);

impl Flavor for Buffer {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged_database_error("a stored record is too long")),
        Err(error) => Err(unreadable_record_error(error)),
    }
}

fn unreadable_record_error(error: postcard::Error) -> Error {
    damaged_database_error("a stored record cannot be read").with_source(error)
}
