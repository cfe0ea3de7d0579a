//! Merges transitions and refusals into the sequence of telemetry.

use std::iter::Peekable;

use super::{Entry, Placed, TelemetryQuery};
use midex_domain::{
    Sequence,
    error::Result,
    limits,
    telemetry::{self, EventType},
};

/// The latest entries that match `query`, oldest first, from two sequences that are newest first. There may be fewer
/// than asked for, because the number of entries that are looked at is limited.
pub(super) fn latest(
    transitions: impl Iterator<Item = Result<Placed>>,
    refusals: impl Iterator<Item = Result<Placed>>,
    query: &TelemetryQuery,
) -> Result<Vec<Placed>> {
    let mut transitions = transitions.peekable();
    let mut refusals = refusals.peekable();
    let mut told = Vec::new();
    for _ in 0..limits::TELEMETRY_SCANNED_MAX {
        if told.len() >= query.limit {
            break;
        }
        let Some(next) = later(&mut transitions, &mut refusals) else {
            break;
        };
        let next = next?;
        if wanted(&next.1, query) {
            told.push(next);
        }
    }
    told.reverse();
    Ok(told)
}

/// Takes the later of the next two entries. A failure comes first, in either sequence.
fn later(
    one: &mut Peekable<impl Iterator<Item = Result<Placed>>>,
    two: &mut Peekable<impl Iterator<Item = Result<Placed>>>,
) -> Option<Result<Placed>> {
    let place = |told: &Result<Placed>| told.as_ref().map_or(Sequence(u64::MAX), |(at, _)| *at);
    if one.peek().map(place) >= two.peek().map(place) {
        one.next()
    } else {
        two.next()
    }
}

fn wanted(entry: &Entry, query: &TelemetryQuery) -> bool {
    let id = match entry {
        Entry::Transition(row) => Some(&row.execution_id),
        Entry::Refusal(refusal) => refusal.execution_id.as_ref(),
    };
    (query.execution_id.is_none() || query.execution_id.as_ref() == id)
        && query.event_type.is_none_or(|wanted| holds(entry, wanted))
}

fn holds(entry: &Entry, wanted: EventType) -> bool {
    match entry {
        Entry::Transition(row) => telemetry::of(row)
            .iter()
            .any(|told| told.event_type == wanted),
        Entry::Refusal(refusal) => {
            telemetry::of_refusal(&refusal.code, &refusal.message, None).event_type == wanted
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use midex_domain::{ExecutionId, Row, clock::Timestamp};

    #[test]
    fn a_rare_type_is_not_looked_for_for_ever() {
        let row = Row {
            execution_id: ExecutionId::parse("one").expect("an id"),
            revision: 1,
            at: Timestamp::from_milliseconds(0),
            events: Vec::new(),
        };
        let looked = Cell::new(0);
        let rows = (0..).map(|at: u64| {
            looked.set(looked.get() + 1);
            Ok((Sequence(u64::MAX - 1 - at), Entry::Transition(row.clone())))
        });
        let query = TelemetryQuery {
            event_type: Some(EventType::WorkflowFailed),
            limit: 1,
            ..TelemetryQuery::default()
        };
        let told = latest(rows, std::iter::empty(), &query).expect("no failure");
        assert_eq!(told, []);
        assert!(looked.get() <= limits::TELEMETRY_SCANNED_MAX + 1);
    }
}
