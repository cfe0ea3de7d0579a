//! Transitions and refusals in the one order of telemetry.

use std::iter::Peekable;

use super::{Refusal, TelemetryQuery, Told};
use crate::{
    domain::{Event, Outcome, Row, State, telemetry, telemetry::EventType},
    error::Result,
    limits,
};

/// The latest entries that `query` asks for, oldest first, out of two sequences that are newest first. Of a
/// rare type there may be fewer than asked for: only so many entries are looked at.
pub(super) fn latest(
    transitions: impl Iterator<Item = Result<Told>>,
    refusals: impl Iterator<Item = Result<Told>>,
    query: &TelemetryQuery,
) -> Result<Vec<Told>> {
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
    event_type.is_none_or(|wanted| row.events.iter().any(|event| tells(event, wanted)))
}

/// Whether [`telemetry::of`] tells of `event` by this type, without what it says besides.
fn tells(event: &Event, wanted: EventType) -> bool {
    let types = match event {
        Event::Created(_) => [Some(EventType::WorkflowCreated), None],
        Event::StateChanged { from, to, .. } => {
            let arrival = match (from, to) {
                (State::Idle, State::Running) => Some(EventType::WorkflowStarted),
                (_, State::Completed) => Some(EventType::WorkflowCompleted),
                (_, State::Failed) => Some(EventType::WorkflowFailed),
                _ => None,
            };
            [Some(EventType::WorkflowStateTransition), arrival]
        }
        Event::VisitOpened(_) => [Some(EventType::StepStarted), offered(event)],
        Event::WaitingChanged { .. } => [offered(event), None],
        Event::VisitClosed(closed) => {
            let spent = closed.spent.map(|_| EventType::TokenValidated);
            [spent, ended(&closed.outcome)]
        }
        Event::StepDone { outcome, .. } => [Some(EventType::StepStarted), ended(outcome)],
        Event::AttemptEnded(ended) => [ended.spent.map(|_| EventType::TokenValidated), None],
        Event::OutputRefused { .. } => [Some(EventType::Error), None],
        Event::TokenRenewed { .. } => [Some(EventType::TokenGenerated), None],
        Event::ArtifactStored { .. } => [Some(EventType::ArtifactStored), None],
        Event::PauseAdded { .. }
        | Event::PauseLifted { .. }
        | Event::ReasonGiven { .. }
        | Event::StepSkipped { .. }
        | Event::StepsReset { .. }
        | Event::MemoryWritten { .. }
        | Event::InputsChanged { .. }
        | Event::TaskChanged { .. }
        | Event::SignalKept { .. }
        | Event::SignalTaken { .. }
        | Event::FailureBegan { .. }
        | Event::FinalOutput { .. }
        | Event::GateAnswered(_)
        | Event::ArtifactNamed { .. } => [None, None],
    };
    types.contains(&Some(wanted))
}

fn offered(event: &Event) -> Option<EventType> {
    event.offered().map(|_| EventType::TokenGenerated)
}

const fn ended(outcome: &Outcome) -> Option<EventType> {
    match outcome {
        Outcome::Completed(_) => Some(EventType::StepCompleted),
        Outcome::Failed(_) => Some(EventType::StepFailed),
        Outcome::Voided => None,
    }
}

fn is(refusal: &Refusal, event_type: Option<EventType>) -> bool {
    let told = || telemetry::of_refusal(&refusal.code, &refusal.message, None).event_type;
    event_type.is_none_or(|wanted| told() == wanted)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{
        clock::{SeededIds, Timestamp},
        domain::{
            Artifact, ArtifactKind, ArtifactReference, Awaiting, Digest, ExecutionId, Grant,
            PauseReason, Payload, StepId, WorkflowName,
            event::{
                AttemptEnded, Channel, Created, Failure, GateAnswered, Site, Skipped, Spent,
                VisitClosed, VisitOpened,
            },
        },
    };

    fn row(events: Vec<Event>) -> Row {
        Row {
            execution_id: ExecutionId::parse("one").expect("an id"),
            revision: 1,
            at: Timestamp::from_milliseconds(0),
            previous: None,
            events,
        }
    }

    fn site(step: &StepId) -> Site {
        Site {
            step: step.clone(),
            visit: 1,
            item: None,
        }
    }

    fn opened(step: &StepId, awaiting: Awaiting) -> Event {
        Event::VisitOpened(Box::new(VisitOpened {
            site: site(step),
            agent: None,
            awaiting,
            input: None,
        }))
    }

    /// Those that tell of nothing, or of little.
    fn quiet_events(step: &StepId, digest: Digest, grant: Grant) -> Vec<Event> {
        let value = Payload {
            digest,
            bytes: 2,
            inline: None,
        };
        let name = String::from("name");
        let failure = Failure {
            code: "CODE".into(),
            message: "words".into(),
            step: None,
            item: None,
        };
        let waiting = |awaiting| Event::WaitingChanged {
            site: site(step),
            attempt: 2,
            awaiting,
        };
        vec![
            waiting(Awaiting::Model(grant)),
            waiting(Awaiting::Operation),
            Event::StepSkipped {
                step: step.clone(),
                why: Skipped::Condition,
            },
            Event::StepsReset {
                steps: vec![step.clone()],
            },
            Event::MemoryWritten {
                name: name.clone(),
                value: value.clone(),
            },
            Event::InputsChanged {
                inputs: value.clone(),
            },
            Event::TaskChanged {
                site: site(step),
                input: value.clone(),
            },
            Event::SignalKept {
                name: name.clone(),
                payload: value.clone(),
            },
            Event::SignalTaken { name: name.clone() },
            Event::FailureBegan { failure },
            Event::FinalOutput {
                value,
                faults: Vec::new(),
            },
            Event::GateAnswered(Box::new(GateAnswered {
                site: site(step),
                shown: digest,
                approved: true,
                by: name,
                via: Channel::Terminal,
                comment: None,
            })),
        ]
    }

    /// Those that came later.
    fn later_events(step: &StepId, digest: Digest) -> [Event; 5] {
        let reason = PauseReason::Person;
        [
            Event::PauseAdded { reason },
            Event::PauseLifted { reason },
            Event::ReasonGiven {
                text: "words".into(),
            },
            Event::ArtifactStored {
                site: site(step),
                agent: None,
                artifact: Box::new(Artifact {
                    id: 1,
                    kind: ArtifactKind::File,
                    name: "n".into(),
                    content_type: "text/plain".into(),
                    digest,
                    bytes: 0,
                    metadata: None,
                }),
            },
            Event::ArtifactNamed {
                site: site(step),
                agent: None,
                reference: ArtifactReference {
                    id: 2,
                    text: "n".into(),
                },
            },
        ]
    }

    /// Events of every kind and with every end.
    fn events() -> Vec<Event> {
        let step = StepId::parse("s").expect("an id");
        let digest = Digest::of(b"");
        let grant = Grant::issue(Timestamp::from_milliseconds(0), &SeededIds::new(1));
        let failure = Failure {
            code: "CODE".into(),
            message: "words".into(),
            step: None,
            item: None,
        };
        let mut events = vec![
            Event::Created(Box::new(Created {
                workflow: WorkflowName::parse("w").expect("a name"),
                definition: digest,
                complexity: None,
                project: None,
                inputs: None,
                call: digest,
                steps: Vec::new(),
            })),
            opened(&step, Awaiting::Model(grant)),
            opened(&step, Awaiting::Operation),
            Event::OutputRefused {
                site: site(&step),
                output: digest,
            },
            Event::TokenRenewed {
                site: site(&step),
                grant,
            },
        ];
        let outcomes = [
            Outcome::Completed(Payload {
                digest,
                bytes: 2,
                inline: None,
            }),
            Outcome::Failed(failure),
            Outcome::Voided,
        ];
        let spents = [
            None,
            Some(Spent {
                grant,
                call: digest,
            }),
        ];
        events.extend(later_events(&step, digest));
        events.extend(quiet_events(&step, digest, grant));
        for (outcome, spent) in outcomes.iter().flat_map(|one| spents.map(|two| (one, two))) {
            events.push(Event::VisitClosed(Box::new(VisitClosed {
                site: site(&step),
                agent: None,
                outcome: outcome.clone(),
                spent,
                duration_ms: 1,
            })));
            events.push(Event::AttemptEnded(Box::new(AttemptEnded {
                site: site(&step),
                attempt: 1,
                failure: None,
                spent,
                awaiting: Awaiting::Operation,
            })));
            events.push(Event::StepDone {
                site: site(&step),
                outcome: outcome.clone(),
            });
        }
        let states = [
            State::Idle,
            State::Running,
            State::Paused,
            State::Completed,
            State::Failed,
            State::Abandoned,
        ];
        for (from, to) in states.iter().flat_map(|from| states.map(|to| (*from, to))) {
            events.push(Event::StateChanged {
                from,
                to,
                failure: None,
                steps_total: 1,
            });
        }
        events
    }

    #[test]
    fn an_event_tells_the_types_of_its_telemetry() {
        for event in events() {
            let row = row(vec![event]);
            let told = telemetry::of(&row);
            for wanted in EventType::ALL {
                let expected = told.iter().any(|told| told.event_type == *wanted);
                assert_eq!(holds(&row, Some(*wanted)), expected, "{wanted:?} {row:?}");
            }
        }
    }

    #[test]
    fn a_rare_type_is_not_looked_for_for_ever() {
        let looked = Cell::new(0);
        let rows = (0..).map(|at: u64| {
            looked.set(looked.get() + 1);
            Ok(Told::Transition {
                first_id: u64::MAX - 1 - at,
                row: row(Vec::new()),
            })
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
