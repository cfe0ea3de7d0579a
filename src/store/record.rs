//! The bytes of stored records, and back. Damaged bytes never panic: they are `STORE_CORRUPT`.
//!
//! A record is encoded by the caller, while the writer is busy with others; what only the writer knows
//! (journal key, low-water mark, telemetry id) lies in a prefix of fixed width, which it seals. All
//! numbers of a prefix are little-endian.

use serde::{Serialize, de::DeserializeOwned};

use super::Refusal;
use crate::{
    domain::{
        Execution, ExecutionId, JournalKey, Row,
        execution::{EarlierExecution, EarlierRow},
    },
    error::{Code, Error, Result},
};

/// The version of every record written; it stands in its first byte.
const VERSION: u8 = 3;
/// Records of the second version are read too: what they hold had another form.
const VERSION_SECOND: u8 = 2;
/// Those of the first as well: their snapshots lack the last fields of an execution of the second, and an empty
/// field is one zero byte in postcard.
const VERSION_FIRST: u8 = 1;
/// How many fields those are.
const FIELDS_ADDED: usize = 3;
/// `version u8, number u64, number u64`.
const PREFIX_BYTES: usize = 17;

/// What a snapshot says without being decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotHeader {
    /// The revision of the execution.
    pub(super) revision: u64,
    /// The journal key of that revision's row.
    pub(super) last: u64,
}

/// What a journal row says without being decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowHeader {
    /// When the row was written, no key below this one was without a snapshot.
    pub(super) low_water: u64,
    /// The id of its first telemetry event.
    pub(super) first_id: u64,
}

/// A snapshot whose journal key is not sealed yet.
pub(super) fn encode_snapshot(execution: &Execution) -> Result<Vec<u8>> {
    encode(prefix(execution.revision(), 0), execution)
}

/// Enters the journal key of the snapshot's revision.
pub(super) fn seal_snapshot(bytes: &mut [u8], last: u64) {
    seal(bytes, 9, last);
}

/// The header of a stored snapshot.
pub(super) fn snapshot_header(bytes: &[u8]) -> Result<SnapshotHeader> {
    let Record {
        numbers: (revision, last),
        ..
    } = split(bytes)?;
    Ok(SnapshotHeader { revision, last })
}

/// A stored snapshot: the execution, settled.
pub(super) fn decode_snapshot(bytes: &[u8]) -> Result<(SnapshotHeader, Execution)> {
    let Record {
        version,
        numbers: (revision, last),
        body,
    } = split(bytes)?;
    let mut execution: Execution = match version {
        VERSION_FIRST => decode::<EarlierExecution>(&[body, &[0; FIELDS_ADDED]].concat())?.into(),
        VERSION_SECOND => decode::<EarlierExecution>(body)?.into(),
        _ => decode(body)?,
    };
    if execution.revision() != revision {
        return Err(damaged(
            "a snapshot disagrees with its header about its revision",
        ));
    }
    execution.settle(JournalKey(last));
    Ok((SnapshotHeader { revision, last }, execution))
}

/// A journal row whose low-water mark and telemetry id are not sealed yet.
pub(super) fn encode_row(row: &Row) -> Result<Vec<u8>> {
    encode(prefix(0, 0), row)
}

/// Enters what the writer knows of a row.
pub(super) fn seal_row(bytes: &mut [u8], header: RowHeader) {
    seal(bytes, 1, header.low_water);
    seal(bytes, 9, header.first_id);
}

/// A stored journal row.
pub(super) fn decode_row(bytes: &[u8]) -> Result<(RowHeader, Row)> {
    let Record {
        version,
        numbers: (low_water, first_id),
        body,
    } = split(bytes)?;
    let header = RowHeader {
        low_water,
        first_id,
    };
    let row = match version {
        VERSION_FIRST | VERSION_SECOND => decode::<EarlierRow>(body)?.into(),
        _ => decode(body)?,
    };
    Ok((header, row))
}

/// The execution of a stored journal row, without a look at what happened to it: the row begins with its id.
pub(super) fn row_execution(bytes: &[u8]) -> Result<ExecutionId> {
    let Record { body, .. } = split(bytes)?;
    let id = postcard::take_from_bytes(body).map(|(id, _)| id);
    id.map_err(unreadable)
}

/// A refusal as stored.
pub(super) fn encode_refusal(refusal: &Refusal) -> Result<Vec<u8>> {
    encode(vec![VERSION], refusal)
}

/// A stored refusal.
pub(super) fn decode_refusal(bytes: &[u8]) -> Result<Refusal> {
    let (version, body) = bytes
        .split_first()
        .ok_or_else(|| damaged("a stored refusal is empty"))?;
    check_version(*version)?;
    decode(body)
}

/// The database holds what no midex wrote.
pub(super) fn damaged(what: &str) -> Error {
    Error::new(
        Code::StoreCorrupt,
        format!("the database is damaged: {what}"),
    )
}

fn prefix(first: u64, second: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    bytes.push(VERSION);
    bytes.extend(first.to_le_bytes());
    bytes.extend(second.to_le_bytes());
    bytes
}

fn seal(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

struct Record<'a> {
    version: u8,
    numbers: (u64, u64),
    body: &'a [u8],
}

fn split(bytes: &[u8]) -> Result<Record<'_>> {
    let short = || damaged("a stored record is too short");
    let (prefix, body) = bytes
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or_else(short)?;
    check_version(prefix[0])?;
    let number = |at: usize| {
        let chunk = prefix[at..].first_chunk::<8>().ok_or_else(short)?;
        Ok(u64::from_le_bytes(*chunk))
    };
    Ok(Record {
        version: prefix[0],
        numbers: (number(1)?, number(9)?),
        body,
    })
}

fn check_version(version: u8) -> Result<()> {
    match version {
        VERSION_FIRST | VERSION_SECOND | VERSION => Ok(()),
        0 => Err(damaged("a stored record has no version")),
        later => Err(Error::new(
            Code::StoreTooNew,
            format!("the database holds a record of version {later}, this midex reads {VERSION}"),
        )),
    }
}

fn encode(prefix: Vec<u8>, value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_extend(value, prefix)
        .map_err(|error| Error::internal("a record cannot be encoded").because(error))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged("a stored record is too long")),
        Err(error) => Err(unreadable(error)),
    }
}

fn unreadable(error: postcard::Error) -> Error {
    damaged("a stored record cannot be read").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Event;

    /// The first version's bytes of an execution of one step, as they were written to disk.
    const FIRST: &str = "0102000000000000000200000000000000036f6e650474616c65ddc90ade507854328620c1e1976a51589ce941365c94c4b00b0f9310b20832ac00000780e69ad6a1828ed88a8ba0cb7615d41dfe8fe50d16cfa221cc0a5ddb82bdd40102d0afabfef962a0bfabfef962000001010202733002010101d0afabfef962010001a0bfabfef962020001814dd7b9784d57c15b9c2972e9b4fd6cd0afabfef9625b186d2a8da3b9cb705fdb8ed977d76592461c5713b81d6a22de4e6eb7796689012a70c38c66df66dda77ac0e3bee08ed75285929899c04c70e706f31d78b7719f000002733101010101a0bfabfef9620201000c730b69905c5ef7a4ca5269f7236540a0bfabfef962000000";

    /// The second version's, one step on.
    const SECOND: &str = "0202000000000000000200000000000000036f6e650474616c65ddc90ade507854328620c1e1976a51589ce941365c94c4b00b0f9310b20832ac00000780e69ad6a1828ed88a8ba0cb7615d41dfe8fe50d16cfa221cc0a5ddb82bdd40102d0afabfef962a0bfabfef962000001010202733002010101d0afabfef962010001a0bfabfef962020001814dd7b9784d57c15b9c2972e9b4fd6cd0afabfef9625b186d2a8da3b9cb705fdb8ed977d76592461c5713b81d6a22de4e6eb7796689012a70c38c66df66dda77ac0e3bee08ed75285929899c04c70e706f31d78b7719f000002733101010101a0bfabfef9620201000c730b69905c5ef7a4ca5269f7236540a0bfabfef962000000000000";
    const SECOND_ROW: &str = "0203000000000000000600000000000000036f6e6502a0bfabfef96201010203027330010106777269746572002a70c38c66df66dda77ac0e3bee08ed75285929899c04c70e706f31d78b7719f1201127b2273756d6d617279223a22646f6e65227d01814dd7b9784d57c15b9c2972e9b4fd6cd0afabfef9625b186d2a8da3b9cb705fdb8ed977d76592461c5713b81d6a22de4e6eb7796689e8070202733101010106777269746572000c730b69905c5ef7a4ca5269f7236540a0bfabfef962";

    fn bytes(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal"))
            .collect()
    }

    #[test]
    fn a_snapshot_of_the_first_version_is_read() {
        let bytes = bytes(FIRST);
        let (header, execution) = decode_snapshot(&bytes).expect("it is read");
        assert_eq!(
            (
                header.revision,
                execution.id().as_str(),
                execution.steps().len()
            ),
            (2, "one", 2)
        );
        assert_eq!(
            (
                execution.pauses(),
                execution.reason(),
                execution.artifacts()
            ),
            (&[][..], None, 0)
        );
        let again = encode_snapshot(&execution).expect("it is written");
        assert_eq!(again[0], VERSION);
        let (_, same) = decode_snapshot(&again).expect("and read again");
        assert_eq!(same.id(), execution.id());
        for cut in 1..4 {
            assert!(decode_snapshot(&bytes[..bytes.len() - cut]).is_err());
        }
    }

    #[test]
    fn records_of_the_second_version_are_read() {
        let (header, execution) = decode_snapshot(&bytes(SECOND)).expect("it is read");
        assert_eq!((header.revision, execution.steps().len()), (2, 2));
        let (_, row) = decode_row(&bytes(SECOND_ROW)).expect("it is read");
        assert_eq!((row.revision, row.events.len()), (2, 2));
        let (site, payload) = row.events[0].output().expect("an output");
        assert_eq!((site.step.as_str(), site.visit, site.item), ("s0", 1, None));
        assert_eq!(payload.bytes, 18);
        let again = encode_row(&row).expect("it is written");
        assert_eq!(again[0], VERSION);
        assert_eq!(decode_row(&again).expect("and read again").1, row);
    }

    #[test]
    fn events_keep_their_numbers() {
        // The journal names a kind of event by its place: new ones may only be added at the end.
        let text = |event: &Event| postcard::to_stdvec(event).expect("bytes")[0];
        let reason = crate::domain::PauseReason::Person;
        assert_eq!(text(&Event::PauseAdded { reason }), 6);
        assert_eq!(text(&Event::PauseLifted { reason }), 7);
        assert_eq!(
            text(&Event::ReasonGiven {
                text: String::new()
            }),
            8
        );
    }
}
