//! Transitions and refusals in the one order of telemetry.

use std::iter::Peekable;

use super::{Refusal, TelemetryQuery, Told};
use crate::{
    domain::{Row, telemetry, telemetry::EventType},
    error::Result,
};

/// The latest entries that `query` asks for, oldest first, out of two sequences that are newest first.
pub(super) fn latest(
    transitions: impl Iterator<Item = Result<Told>>,
    refusals: impl Iterator<Item = Result<Told>>,
    query: &TelemetryQuery,
) -> Result<Vec<Told>> {
    let mut transitions = transitions.peekable();
    let mut refusals = refusals.peekable();
    let mut told = Vec::new();
    while told.len() < query.limit {
        let Some(next) = later(&mut transitions, &mut refusals) else {
            break;
        };
        let next = next?;
        if wanted(&next, query) {
            told.push(next);
        }
    }
    told.reverse();
    Ok(told)
}

/// Takes the entry with the larger id; a failure first, wherever it stands.
fn later(
    one: &mut Peekable<impl Iterator<Item = Result<Told>>>,
    two: &mut Peekable<impl Iterator<Item = Result<Told>>>,
) -> Option<Result<Told>> {
    let place = |told: &Result<Told>| match told {
        Ok(Told::Transition { first_id, .. }) => *first_id,
        Ok(Told::Refusal { id, .. }) => *id,
        Err(_) => u64::MAX,
    };
    if one.peek().map(place) >= two.peek().map(place) {
        one.next()
    } else {
        two.next()
    }
}

fn wanted(told: &Told, query: &TelemetryQuery) -> bool {
    let (id, has) = match told {
        Told::Transition { row, .. } => (Some(&row.execution_id), holds(row, query.event_type)),
        Told::Refusal { refusal, .. } => {
            (refusal.execution_id.as_ref(), is(refusal, query.event_type))
        }
    };
    has && (query.execution_id.is_none() || query.execution_id.as_ref() == id)
}

fn holds(row: &Row, event_type: Option<EventType>) -> bool {
    let is = |wanted| {
        telemetry::of(row)
            .iter()
            .any(|told| told.event_type == wanted)
    };
    event_type.is_none_or(is)
}

fn is(refusal: &Refusal, event_type: Option<EventType>) -> bool {
    let told = || telemetry::of_refusal(&refusal.code, &refusal.message, None).event_type;
    event_type.is_none_or(|wanted| told() == wanted)
}
