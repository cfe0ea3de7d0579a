//! Merges transitions and refusals into the sequence of telemetry.

use std::iter::Peekable;

use super::{PlacedEntry, TelemetryEntry, TelemetryQuery};
use midex_domain::{
    Sequence,
    error::Result,
    limits,
    telemetry::{self, EventType},
};

/// The latest entries that match `query`, oldest first, from two sequences that are newest first. There may be fewer
/// than asked for, because the number of entries that are looked at is limited.
///
/// # Errors
/// The first error of the sequences.
pub fn latest_entries(
    transitions: impl Iterator<Item = Result<PlacedEntry>>,
    refusals: impl Iterator<Item = Result<PlacedEntry>>,
    query: &TelemetryQuery,
) -> Result<Vec<PlacedEntry>> {
    let mut transitions = transitions.peekable();
    let mut refusals = refusals.peekable();
    let mut entries = Vec::new();
    for _ in 0..limits::TELEMETRY_SCANNED_MAX {
        if entries.len() >= query.limit {
            break;
        }
        let Some(entry) = next_later_entry(&mut transitions, &mut refusals) else {
            break;
        };
        let entry = entry?;
        if matches_query(&entry.1, query) {
            entries.push(entry);
        }
    }
    entries.reverse();
    Ok(entries)
}

/// Takes the later of the next two entries. A failure comes first, in either sequence.
fn next_later_entry(
    first: &mut Peekable<impl Iterator<Item = Result<PlacedEntry>>>,
    second: &mut Peekable<impl Iterator<Item = Result<PlacedEntry>>>,
) -> Option<Result<PlacedEntry>> {
    let position_of =
        |entry: &Result<PlacedEntry>| entry.as_ref().map_or(Sequence(u64::MAX), |(at, _)| *at);
    if first.peek().map(position_of) >= second.peek().map(position_of) {
        first.next()
    } else {
        second.next()
    }
}

/// Whether an entry is of the execution and of the type of event that the query names, if it names them.
pub fn matches_query(entry: &TelemetryEntry, query: &TelemetryQuery) -> bool {
    let id = match entry {
        TelemetryEntry::Transition(row) => Some(&row.execution_id),
        TelemetryEntry::Refusal(refusal) => refusal.execution_id.as_ref(),
    };
    (query.execution_id.is_none() || query.execution_id.as_ref() == id)
        && query.event_type.is_none_or(|wanted| has_event_type(entry, wanted))
}

fn has_event_type(entry: &TelemetryEntry, event_type: EventType) -> bool {
    match entry {
        TelemetryEntry::Transition(row) => telemetry::build_row_telemetry(row)
            .iter()
            .any(|telemetry| telemetry.event_type == event_type),
        TelemetryEntry::Refusal(refusal) => {
            telemetry::refusal_telemetry(&refusal.code, &refusal.message, None).event_type
                == event_type
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use midex_domain::{ExecutionId, Row, clock::Timestamp};

    #[test]
    fn the_search_for_a_rare_type_is_limited() {
        let row = Row {
            execution_id: ExecutionId::parse("one").expect("an id"),
            revision: 1,
            at: Timestamp::from_milliseconds(0),
            events: Vec::new(),
        };
        let read_count = Cell::new(0);
        let rows = (0..).map(|at: u64| {
            read_count.set(read_count.get() + 1);
            Ok((Sequence(u64::MAX - 1 - at), TelemetryEntry::Transition(row.clone())))
        });
        let query = TelemetryQuery {
            event_type: Some(EventType::WorkflowFailed),
            limit: 1,
            ..TelemetryQuery::default()
        };
        let entries = latest_entries(rows, std::iter::empty(), &query).expect("no failure");
        assert_eq!(entries, []);
        assert!(read_count.get() <= limits::TELEMETRY_SCANNED_MAX + 1);
    }
}
