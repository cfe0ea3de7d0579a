//! The input of views, and lazy lookup of stored values. A view reads values from its [`ViewContext`], which records each
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
    event::Row,
    execution::{Execution, ValueReference, Values, VisitEnd},
    truncate::truncate_value,
};

/// The input of a view: an execution as of one of its rows.
#[derive(Clone, Copy, Debug)]
pub struct ViewContext<'a> {
    /// The definition that the execution keeps.
    pub definition: &'a Definition,
    /// The execution, as `row` left it.
    pub execution: &'a Execution,
    /// The execution's last row, if the caller has it.
    pub row: Option<&'a Row>,
    /// Values that were looked up so far.
    pub loaded: &'a LoadedValues,
    /// Values that the view needed and that `found` lacks.
    pub requested: &'a RefCell<BTreeSet<ValueRequest>>,
    /// The lifetime of a token.
    pub ttl: Duration,
    /// Flags that a person adds to a command so that it reaches this server, with a leading blank.
    pub command_flags: &'a str,
}

/// A request of a decision or a view for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueRequest {
    /// Where the value is.
    pub need: ValueReference,
    /// The limit to which the value is shortened, in bytes of JSON; `None` if it is needed whole.
    pub bytes_max: Option<usize>,
}

impl From<ValueReference> for ValueRequest {
    fn from(need: ValueReference) -> Self {
        Self { need, bytes_max: None }
    }
}

/// An output, shortened to a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct TruncatedValue {
    /// The output.
    pub value: Value,
    /// Whether parts were left out.
    pub truncated: bool,
}

impl TruncatedValue {
    /// `value` in at most `bytes_max` bytes of JSON.
    pub fn truncate(value: &Value, bytes_max: usize) -> Self {
        let (value, truncated) = truncate_value(value, bytes_max);
        Self { value, truncated }
    }
}

/// Values that were looked up for a decision or a view.
#[derive(Debug, Default)]
pub struct LoadedValues {
    /// Whole values.
    pub values: Values,
    /// Values that were shortened to a limit.
    pub shortened: BTreeMap<(Digest, usize), TruncatedValue>,
    /// Values that the store does not hold.
    pub missing: BTreeSet<Digest>,
}

impl From<Values> for LoadedValues {
    fn from(values: Values) -> Self {
        Self { values, ..Self::default() }
    }
}

impl ViewContext<'_> {
    /// The value with this digest. If it is not in `found`, asks for it and returns `None`.
    pub(super) fn value(&self, digest: Digest) -> Option<Arc<Value>> {
        let value = self.loaded.values.get(&digest).cloned();
        if value.is_none() {
            self.request_value(ValueReference::by_digest(digest).into());
        }
        value
    }

    /// The output of the step at `position`, shortened to `bytes_max` bytes of JSON. `None` if the step has no output,
    /// or if the output is now asked for.
    pub(super) fn output(&self, position: usize, bytes_max: usize) -> Option<TruncatedValue> {
        let closed = deciding_visit_end(self.execution, position)?;
        let need = closed.output_reference()?;
        if let Some(shortened) = self.loaded.shortened.get(&(need.digest, bytes_max)) {
            return Some(shortened.clone());
        }
        if let Some(value) = self.loaded.values.get(&need.digest) {
            return Some(TruncatedValue::truncate(value, bytes_max));
        }
        let row = self.row.filter(|row| row.revision == closed.revision);
        let mut documents = row.into_iter().flat_map(Row::outputs);
        if let Some((_, document)) = documents.find(|(digest, _)| *digest == need.digest) {
            return Some(TruncatedValue::truncate(&document.value(), bytes_max));
        }
        self.request_value(ValueRequest { need, bytes_max: Some(bytes_max) });
        None
    }

    fn request_value(&self, request: ValueRequest) {
        if !self.loaded.missing.contains(&request.need.digest) {
            self.requested.borrow_mut().insert(request);
        }
    }
}

/// The end of the latest visit of the current round that completed the step at `position`; `None` if the step has no
/// output. A visit with an output that failed nevertheless, through a required hook, does not count.
pub(super) fn deciding_visit_end(execution: &Execution, position: usize) -> Option<&VisitEnd> {
    let visits = execution.steps().get(position)?.visits_since_reset().iter().rev();
    let mut closed = visits.filter_map(|visit| visit.closed.as_ref());
    closed.find(|closed| closed.output.is_some() && closed.failure.is_none())
}
