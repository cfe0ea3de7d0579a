//! The values of memory and inputs before a visit. A rewind restores the values that the steps to do again wrote; so does a
//! fork.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Digest, Event, Execution, Row, VisitId, WaitCondition};
use crate::{
    definition::{Definition, Step, StepKind},
    event::BodyKind,
    id::StepId,
};

/// Values in memory and inputs to restore, by digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastValues {
    /// The value of each name to restore; `None` for a name that had no value.
    memory: BTreeMap<String, Option<Digest>>,
    /// Whether the inputs are to be restored, to `inputs`.
    restores_inputs: bool,
    inputs: Option<Digest>,
}

/// The result of [`Execution::find_past_values`].
#[derive(Debug)]
pub enum PastSearch {
    /// The values to restore.
    Found(PastValues),
    /// The rows do not tell. Search again with older rows as well.
    NeedsOlderRows,
    /// The journal does not tell, because the execution is a fork that inherited the steps which wrote the values.
    Inherited,
}

impl PastValues {
    /// Changes memory and inputs to these values.
    pub(super) fn restore(
        &self,
        memory: &mut BTreeMap<String, Digest>,
        inputs: &mut Option<Digest>,
    ) {
        for (name, digest) in &self.memory {
            match digest {
                Some(digest) => drop(memory.insert(name.clone(), *digest)),
                None => drop(memory.remove(name)),
            }
        }
        if self.restores_inputs {
            *inputs = self.inputs;
        }
    }
}

impl Execution {
    /// The values to restore where the steps of `reset` are done again, of which `first` is the earliest visit: what these
    /// steps wrote last is as it was before that visit. `rows` are the latest rows of the execution, oldest first.
    pub fn find_past_values(
        &self,
        definition: &Definition,
        rows: &[&Row],
        first: &VisitId,
        reset: &BTreeSet<StepId>,
    ) -> PastSearch {
        let is_complete = rows.first().is_none_or(|row| row.revision == 1);
        let opening = find_opening(definition, rows, first);
        // Only the first row of a fork tells which steps were inherited.
        if !is_complete && (opening.is_none() || self.origin.is_some()) {
            return PastSearch::NeedsOlderRows;
        }
        let writers = ValueWriters::of_rows(rows);
        if reset.iter().any(|step| writers.is_inherited_writer(definition, step)) {
            return PastSearch::Inherited;
        }
        let written = writers.memory.iter().filter(|(_, step)| reset.contains(**step));
        let names = written.map(|(name, _)| *name).collect();
        let restores_inputs = writers.inputs.is_some_and(|step| reset.contains(step));
        let past = PastValues { restores_inputs, ..PastValues::default() };
        let mut search = ValueSearch { names, misses_inputs: restores_inputs, past };
        if search.is_done() {
            return PastSearch::Found(search.past);
        }
        let Some((row, event)) = opening else {
            return PastSearch::Inherited;
        };
        let older = rows[..row].iter().flat_map(|row| &row.events);
        for event in older.chain(&rows[row].events[..event]).rev() {
            search.visit_event(event);
            if search.is_done() {
                return PastSearch::Found(search.past);
            }
        }
        if !is_complete {
            return PastSearch::NeedsOlderRows;
        }
        // The other names had no value yet.
        search.find_all(&BTreeMap::new());
        PastSearch::Found(search.past)
    }
}

/// Where a visit was opened: the positions of the row and of the event before which its past ends.
fn find_opening(
    definition: &Definition,
    rows: &[&Row],
    visit_id: &VisitId,
) -> Option<(usize, usize)> {
    let opens = |event: &Event| match event {
        Event::VisitOpened(opened) => opened.visit_id == *visit_id,
        Event::StepDone { visit_id: done, .. } => done == visit_id,
        _ => false,
    };
    let is_set = |step: &Step| matches!(step.kind, StepKind::Set { .. });
    let is_set = definition.step(visit_id.step()).is_some_and(is_set);
    rows.iter().enumerate().find_map(|(at, row)| {
        let opened = row.events.iter().position(opens)?;
        // A `set` step writes to memory before its end is recorded.
        let writes = row.events[..opened].iter().rev();
        let writes =
            writes.take_while(|event| is_set && matches!(event, Event::MemoryWritten { .. }));
        Some((at, opened - writes.count()))
    })
}

/// A search for values through the events before a visit, latest event first.
struct ValueSearch<'a> {
    /// The names whose values have not been found yet.
    names: BTreeSet<&'a str>,
    /// True until the inputs have been found, if they are to be restored.
    misses_inputs: bool,
    past: PastValues,
}

impl ValueSearch<'_> {
    fn is_done(&self) -> bool {
        self.names.is_empty() && !self.misses_inputs
    }

    fn visit_event(&mut self, event: &Event) {
        match event {
            Event::MemoryWritten { name, value } if self.names.remove(name.as_str()) => {
                self.past.memory.insert(name.clone(), Some(value.digest));
            }
            Event::InputsChanged { inputs } => self.find_inputs(Some(inputs.digest)),
            Event::Created(created) => {
                self.find_inputs(created.inputs.as_ref().map(|inputs| inputs.digest));
            }
            Event::Rewound(rewound) => {
                self.find_inputs(rewound.inputs);
                self.find_all(&rewound.memory.iter().cloned().collect());
            }
            _ => {}
        }
    }

    /// All names that were not found later have the values of `memory`, or none.
    fn find_all(&mut self, memory: &BTreeMap<String, Digest>) {
        let names = std::mem::take(&mut self.names).into_iter();
        self.past.memory.extend(names.map(|name| (name.to_owned(), memory.get(name).copied())));
    }

    fn find_inputs(&mut self, inputs: Option<Digest>) {
        if std::mem::take(&mut self.misses_inputs) {
            self.past.inputs = inputs;
        }
    }
}

/// The steps that wrote the values of an execution last.
#[derive(Default)]
struct ValueWriters<'a> {
    memory: BTreeMap<&'a str, &'a StepId>,
    inputs: Option<&'a StepId>,
    /// The steps that a fork inherited.
    inherited: BTreeSet<&'a StepId>,
}

impl<'a> ValueWriters<'a> {
    fn of_rows(rows: &[&'a Row]) -> Self {
        let mut writers = Self::default();
        let mut names = Vec::new();
        let mut has_new_inputs = false;
        for event in rows.iter().flat_map(|row| &row.events) {
            match event {
                // A `set` step and an activity write their values before their end is recorded, and a question before its
                // answer is.
                Event::MemoryWritten { name, .. } => names.push(name.as_str()),
                Event::InputsChanged { .. } => has_new_inputs = true,
                Event::StepDone { visit_id, .. } => {
                    writers.add_names(&mut names, visit_id);
                    writers.inherited.remove(visit_id.step());
                }
                Event::StepInherited(step) => drop(writers.inherited.insert(step.visit_id.step())),
                Event::VisitOpened(opened) => {
                    names.clear();
                    writers.inherited.remove(opened.visit_id.step());
                }
                Event::VisitClosed(closed) => {
                    writers.add_names(&mut names, &closed.visit_id);
                    writers.end_visit(&closed.visit_id, &mut has_new_inputs);
                }
                Event::AttemptEnded(ended) => {
                    writers.add_names(&mut names, &ended.visit_id);
                    writers.end_visit(&ended.visit_id, &mut has_new_inputs);
                }
                // The outcome of a visit is kept until the resume.
                Event::WaitingChanged {
                    visit_id, awaiting: WaitCondition::Deferred(_), ..
                } => writers.add_names(&mut names, visit_id),
                // The options of a step are offered between its values and its end.
                Event::OptionsOffered { .. } => {}
                _ => names.clear(),
            }
        }
        writers
    }

    fn add_names(&mut self, names: &mut Vec<&'a str>, visit_id: &'a VisitId) {
        self.memory.extend(names.drain(..).map(|name| (name, visit_id.step())));
    }

    fn end_visit(&mut self, visit_id: &'a VisitId, has_new_inputs: &mut bool) {
        if std::mem::take(has_new_inputs) {
            self.inputs = Some(visit_id.step());
        }
        self.inherited.remove(visit_id.step());
    }

    /// Whether the step was inherited and it or a hook of it may have written a value, which the journal does not tell.
    fn is_inherited_writer(&self, definition: &Definition, step: &StepId) -> bool {
        let writes = |step: &Step| {
            matches!(
                step.kind,
                StepKind::Set { .. } | StepKind::Input { .. } | StepKind::Extract { .. }
            )
        };
        let is_writer = definition.step(step).is_some_and(|step| {
            let hooks = step.bodies.iter().filter(|(body, _)| **body != BodyKind::Compensation);
            writes(step.acting_step()) || hooks.map(|(_, hook)| hook).any(writes)
        });
        is_writer && self.inherited.contains(step)
    }
}
