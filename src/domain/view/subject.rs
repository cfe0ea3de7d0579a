//! What views are made of, and how they ask for the rest: a view takes what it needs from its [`Subject`], which notes
//! what it has not. Whoever shows the view looks that up and makes it again, until nothing is wanted.

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
    execution::{Closed, Execution},
    id::StepId,
    truncate::truncate,
};

/// What a view is made of: an execution as of one of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The definition that the execution keeps.
    pub definition: &'a Definition,
    /// The execution, as `row` left it.
    pub execution: &'a Execution,
    /// The execution's last row, where it is at hand.
    pub row: Option<&'a Row>,
    /// What was looked up.
    pub found: &'a Found,
    /// What the view asked for and did not find.
    pub wanted: &'a RefCell<Wanted>,
    /// How long a token lives.
    pub ttl: Duration,
    /// What a person adds to a command that is to reach this execution, with a blank before it.
    pub command_flags: &'a str,
}

/// An output as a view asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// The position of its step.
    pub position: usize,
    /// What of it is shown: at most so many bytes of JSON.
    pub bytes_max: usize,
}

/// An output as far as a view can show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortened {
    /// The output.
    pub value: Value,
    /// Whether something was cut.
    pub truncated: bool,
}

impl Shortened {
    /// `value` in at most `bytes_max` bytes of JSON.
    pub fn of(value: &Value, bytes_max: usize) -> Self {
        let (value, truncated) = truncate(value, bytes_max);
        Self { value, truncated }
    }
}

/// What was looked up for a view; `None` where there is no such thing.
#[derive(Debug, Default)]
pub struct Found {
    /// Outputs of steps.
    pub outputs: BTreeMap<Asked, Option<Shortened>>,
    /// Values by digest.
    pub values: BTreeMap<Digest, Option<Arc<Value>>>,
}

impl Found {
    /// What is at hand before anything was asked for.
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

/// What a view asks for.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Outputs of steps.
    pub outputs: BTreeSet<Asked>,
    /// Values by digest.
    pub values: BTreeSet<Digest>,
}

impl Wanted {
    /// Whether a view had all that it asked for.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.values.is_empty()
    }
}

impl Subject<'_> {
    /// The value with this digest.
    pub(super) fn value(&self, digest: Digest) -> Option<Arc<Value>> {
        let found = self.found.values.get(&digest);
        found.cloned().unwrap_or_else(|| {
            self.wanted.borrow_mut().values.insert(digest);
            None
        })
    }

    /// What the step at `position` came to, in at most `bytes_max` bytes of JSON; `None` where it has no output yet.
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

    fn in_last_row(&self, closed: &Closed, asked: Asked) -> Option<Shortened> {
        let row = self.row.filter(|row| row.revision == closed.revision)?;
        let step = self.execution.steps().get(asked.position)?;
        let payload = output_in(row, &step.id)?;
        let document = payload.inline.as_ref()?;
        let at_hand = self.found.values.get(&payload.digest).cloned().flatten();
        let value = at_hand.unwrap_or_else(|| Arc::new(document.value()));
        Some(Shortened::of(&value, asked.bytes_max))
    }
}

/// The end of the visit that the step at `position` has its output of; `None` where it has none yet. What a visit brought that
/// failed for all that, by a hook that is required, is no output of the step.
pub fn decided(execution: &Execution, position: usize) -> Option<&Closed> {
    let visits = execution.steps().get(position)?.round().iter().rev();
    let mut closed = visits.filter_map(|visit| visit.closed.as_ref());
    closed.find(|closed| closed.output.is_some() && closed.failure.is_none())
}

/// The output with which the latest visit of `step` was completed in `row`: what else was done for the step there, as by its
/// hooks, is another matter.
pub fn output_in<'a>(row: &'a Row, step: &StepId) -> Option<&'a Payload> {
    let mut outputs = row.events.iter().filter_map(Event::output);
    outputs
        .rfind(|(visit_id, _)| {
            let is_whole = visit_id.body == Body::Work && visit_id.item.is_none();
            is_whole && visit_id.step() == step
        })
        .map(|(_, payload)| payload)
}
