//! The layout of records in the log. Each record begins at a page boundary, so that no page with acknowledged data is
//! written again.
//!
//! A record is `midexlog`, the version `u8`, three unused bytes, the length of its body `u32`, the id of the log, its
//! number in the log and its offset, each `u64`, the SHA-256 of all these and of the body, the body, and zeros up to
//! the next page. Numbers are little-endian. The checksum covers number and offset, so a record that the disk wrote at
//! a wrong place is detected.

use sha2::{Digest as _, Sha256};

use super::state::LogId;

/// The unit of writing: records are padded to a multiple of it.
pub(super) const PAGE_BYTES: usize = 4096;

/// Bytes before the body.
pub(super) const HEADER_BYTES: usize = 80;

const MAGIC: &[u8; 8] = b"midexlog";
const LOG_VERSION: u8 = 1;
/// Bytes of the header before the checksum.
const CHECKSUMMED_HEADER_BYTES: usize = 48;

/// Where a record belongs in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordPlace {
    /// How many records are before it.
    pub(super) number: u64,
    /// How many bytes are before it.
    pub(super) offset: u64,
}

impl RecordPlace {
    /// The place behind a record of so many bytes.
    pub(super) fn place_after(self, bytes: usize) -> Self {
        Self { number: self.number + 1, offset: self.offset + bytes as u64 }
    }
}

/// The length of a record whose header and body have this many bytes.
pub(super) fn padded_length(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// A buffer with room for the header, to which the body is appended.
pub(super) fn new_record_buffer() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * PAGE_BYTES);
    bytes.resize(HEADER_BYTES, 0);
    bytes
}

/// Fills in the header of the record at `place` of the log `id`, and pads the record to full pages. `bytes` is the
/// buffer of [`new_record_buffer`] with the body.
pub(super) fn seal_record(mut bytes: Vec<u8>, id: LogId, place: RecordPlace) -> Vec<u8> {
    let body_bytes = u32::try_from(bytes.len() - HEADER_BYTES).unwrap_or(u32::MAX);
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8] = LOG_VERSION;
    bytes[12..16].copy_from_slice(&body_bytes.to_le_bytes());
    bytes[16..32].copy_from_slice(id.as_bytes());
    bytes[32..40].copy_from_slice(&place.number.to_le_bytes());
    bytes[40..CHECKSUMMED_HEADER_BYTES].copy_from_slice(&place.offset.to_le_bytes());
    let sum = record_checksum(&bytes);
    bytes[CHECKSUMMED_HEADER_BYTES..HEADER_BYTES].copy_from_slice(&sum);
    bytes.resize(padded_length(bytes.len()), 0);
    bytes
}

fn record_checksum(record: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(&record[..CHECKSUMMED_HEADER_BYTES]);
    hasher.update(&record[HEADER_BYTES..]);
    hasher.finalize().into()
}

/// The content at a place where a record may begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedRecord<'a> {
    /// Zeros, or the torn first record of a new file: nothing was written here.
    Nothing,
    /// Bytes that are no record.
    Garbage,
    /// A record of a later version of midex.
    TooNew(u8),
    /// A record of this log, with its place and body if it is intact.
    Record(LogId, Option<(RecordPlace, &'a [u8])>),
}

/// Recognises the record at the start of `bytes`.
pub(super) fn read_record(bytes: &[u8]) -> ParsedRecord<'_> {
    // The header may be torn, because a disk writes a page in smaller pieces.
    let header = &bytes[..bytes.len().min(HEADER_BYTES)];
    if header.iter().all(|byte| *byte == 0) || is_torn_beginning(header) {
        return ParsedRecord::Nothing;
    }
    if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
        return ParsedRecord::Garbage;
    }
    if header[8] != LOG_VERSION {
        return ParsedRecord::TooNew(header[8]);
    }
    let number = |offset: usize| u64::from_le_bytes(header_field(header, offset));
    let body_bytes = usize::try_from(u32::from_le_bytes(header_field(header, 12))).ok();
    let end = body_bytes.and_then(|bytes| bytes.checked_add(HEADER_BYTES));
    let record = end.and_then(|end| bytes.get(..end));
    let intact_record = record
        .filter(|record| record_checksum(record) == record[CHECKSUMMED_HEADER_BYTES..HEADER_BYTES]);
    let place = RecordPlace { number: number(32), offset: number(40) };
    ParsedRecord::Record(
        LogId::from_bytes(header_field(header, 16)),
        intact_record.map(|record| (place, &record[HEADER_BYTES..])),
    )
}

/// Whether this is the first record of a new file, torn while it was written over zeros.
fn is_torn_beginning(header: &[u8]) -> bool {
    if header.first() != MAGIC.first() || header.last() != Some(&0) {
        return false;
    }
    let full_record = seal_record(new_record_buffer(), LogId::NONE, RecordPlace::default());
    let written = header.iter().zip(&full_record).take_while(|(is, was)| is == was);
    header.iter().skip(written.count()).all(|byte| *byte == 0)
}

fn header_field<const BYTES: usize>(header: &[u8], offset: usize) -> [u8; BYTES] {
    header[offset..].first_chunk().copied().unwrap_or([0; BYTES])
}
