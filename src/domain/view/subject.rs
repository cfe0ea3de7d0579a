//! The input of views, and lazy lookup of stored values. A view reads values from its [`Subject`], which records each
//! value that is missing. The engine looks those up and builds the view again, until nothing is missing.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use crate::{
    definition::Definition,
    document::Digest,
    event::{Body, Event, Payload, Row},
    execution::{Execution, VisitEnd},
    id::StepId,
    truncate::truncate,
};

/// The input of a view: an execution as of one of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The definition that the execution keeps.
    pub definition: &'a Definition,
    /// The execution, as `row` left it.
    pub execution: &'a Execution,
    /// The execution's last row, if the caller has it.
    pub row: Option<&'a Row>,
    /// Values that were looked up so far.
    pub found: &'a Found,
    /// Values that the view needed and that `found` lacks.
    pub wanted: &'a RefCell<Wanted>,
    /// The lifetime of a token.
    pub ttl: Duration,
    /// Flags that a person adds to a command so that it reaches this server, with a leading blank.
    pub command_flags: &'a str,
}

/// A request of a view for the output of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// The position of its step.
    pub position: usize,
    /// The limit to which the output is shortened, in bytes of JSON.
    pub bytes_max: usize,
}

/// An output, shortened to a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortened {
    /// The output.
    pub value: Value,
    /// Whether parts were left out.
    pub truncated: bool,
}

impl Shortened {
    /// `value` in at most `bytes_max` bytes of JSON.
    pub fn of(value: &Value, bytes_max: usize) -> Self {
        let (value, truncated) = truncate(value, bytes_max);
        Self { value, truncated }
    }
}

/// Values that were looked up for a view; `None` for those that do not exist.
#[derive(Debug, Default)]
pub struct Found {
    /// Outputs of steps.
    pub outputs: BTreeMap<Asked, Option<Shortened>>,
    /// Values by digest.
    pub values: BTreeMap<Digest, Option<Arc<Value>>>,
}

impl Found {
    /// Values that are available before the first build of the view.
    pub fn with(values: BTreeMap<Digest, Arc<Value>>) -> Self {
        let values = values.into_iter();
        Self {
            values: values
                .map(|(digest, value)| (digest, Some(value)))
                .collect(),
            ..Self::default()
        }
    }
}

/// Values that a view needed and did not have.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Outputs of steps.
    pub outputs: BTreeSet<Asked>,
    /// Values by digest.
    pub values: BTreeSet<Digest>,
}

impl Wanted {
    /// Whether the view had every value that it needed.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.values.is_empty()
    }
}

impl Subject<'_> {
    /// The value with this digest. If it is not in `found`, records it in `wanted` and returns `None`.
    pub(super) fn value(&self, digest: Digest) -> Option<Arc<Value>> {
        let found = self.found.values.get(&digest);
        found.cloned().unwrap_or_else(|| {
            self.wanted.borrow_mut().values.insert(digest);
            None
        })
    }

    /// The output of the step at `position`, shortened to `bytes_max` bytes of JSON. `None` if the step has no output,
    /// or if the output is now recorded in `wanted`.
    pub(super) fn output(&self, position: usize, bytes_max: usize) -> Option<Shortened> {
        let asked = Asked {
            position,
            bytes_max,
        };
        if let Some(found) = self.found.outputs.get(&asked) {
            return found.clone();
        }
        let closed = decided(self.execution, position)?;
        let found = self.in_last_row(closed, asked);
        if found.is_none() {
            self.wanted.borrow_mut().outputs.insert(asked);
        }
        found
    }

    fn in_last_row(&self, closed: &VisitEnd, asked: Asked) -> Option<Shortened> {
        let row = self.row.filter(|row| row.revision == closed.revision)?;
        let step = self.execution.steps().get(asked.position)?;
        let payload = output_in(row, &step.id)?;
        let document = payload.inline.as_ref()?;
        let at_hand = self.found.values.get(&payload.digest).cloned().flatten();
        let value = at_hand.unwrap_or_else(|| Arc::new(document.value()));
        Some(Shortened::of(&value, asked.bytes_max))
    }
}

/// The end of the latest visit of the current round that completed the step at `position`; `None` if the step has no
/// output. A visit with an output that failed nevertheless, through a required hook, does not count.
pub fn decided(execution: &Execution, position: usize) -> Option<&VisitEnd> {
    let visits = execution.steps().get(position)?.round().iter().rev();
    let mut closed = visits.filter_map(|visit| visit.closed.as_ref());
    closed.find(|closed| closed.output.is_some() && closed.failure.is_none())
}

/// The output with which the latest visit of `step` was completed in `row`. Hooks, compensations and single items are
/// ignored.
pub fn output_in<'a>(row: &'a Row, step: &StepId) -> Option<&'a Payload> {
    let mut outputs = row.events.iter().filter_map(Event::output);
    outputs
        .rfind(|(visit_id, _)| {
            let is_whole = visit_id.body == Body::Work && visit_id.item.is_none();
            is_whole && visit_id.step() == step
        })
        .map(|(_, payload)| payload)
}
