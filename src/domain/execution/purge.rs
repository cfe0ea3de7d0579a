//! Removing the values of inputs from an execution that has ended. Its rows name inputs by digest, so each row that names
//! them is changed to name the same inputs without the values; the state follows from the changed rows.
//!
//! The arguments of a called command are inputs too: a list, in the order in which the one step of the call names them
//! (`with`), and a `body`. The input of that step repeats them under their names, and the output of a step that asks for
//! inputs repeats the answers, so the values are removed from both as well. What other steps rendered of the inputs or
//! returned is left as it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::{
    Event, Execution, Outcome, Payload, Row, Transition, Values, VisitId,
    transition::{make_payload, move_to_contents},
};
use crate::{
    clock::Timestamp,
    definition::{Definition, StepKind},
    document::Digest,
    error::{Error, Result},
    limits,
};

/// The result of [`Execution::purge_inputs`].
#[derive(Debug)]
pub enum PurgeDecision {
    /// None of the inputs has a value.
    Nothing,
    /// Look up these values, add them, and decide again.
    MissingValues(BTreeSet<Digest>),
    /// The values can be removed.
    Purge(Box<InputPurge>),
}

/// The removal of the values of inputs from one execution.
#[derive(Clone, Debug)]
pub struct InputPurge {
    /// The transition that records it. Its state follows from the changed rows.
    pub transition: Transition,
    /// The rows before the transition, oldest first, as they are to be stored from now on.
    pub rows: Vec<Row>,
    /// The revisions of those rows that were changed.
    pub changed_revisions: BTreeSet<u64>,
    /// The contents with the values, which the inputs no longer name.
    pub released: BTreeSet<Digest>,
    /// The names of the inputs that had a value.
    pub keys: BTreeSet<String>,
}

impl Execution {
    /// Decides the removal of the values of the inputs named by `keys` (of all inputs if `None`). `rows` are all rows of
    /// this execution, oldest first, and `values` the values that earlier [`PurgeDecision::MissingValues`] named.
    ///
    /// # Errors
    /// `INTERNAL` if the rows are not those of this execution.
    pub fn purge_inputs(
        &self,
        definition: &Definition,
        mut rows: Vec<Row>,
        values: &Values,
        keys: Option<&BTreeSet<String>>,
        now: Timestamp,
    ) -> Result<PurgeDecision> {
        let arguments = CommandArguments::of_definition(definition);
        let mut purger = InputPurger {
            definition,
            arguments,
            keys,
            values,
            released: BTreeSet::new(),
            contents: Vec::new(),
            missing: BTreeSet::new(),
            purged_keys: BTreeSet::new(),
        };
        let mut changed_revisions = BTreeSet::new();
        for row in &mut rows {
            for event in &mut row.events {
                if purger.purge_event(event)? {
                    changed_revisions.insert(row.revision);
                }
            }
        }
        if !purger.missing.is_empty() {
            return Ok(PurgeDecision::MissingValues(purger.missing));
        }
        if purger.purged_keys.is_empty() {
            return Ok(PurgeDecision::Nothing);
        }
        let row = Row {
            execution_id: self.id.clone(),
            revision: self.revision + 1,
            at: self.compute_transition_time(now),
            events: vec![Event::InputsForgotten {
                keys: purger.purged_keys.iter().cloned().collect(),
            }],
        };
        let execution = Self::replay(&rows).filter(|before| before.revision == self.revision);
        let execution = execution.and_then(|before| Self::apply_row(Some(before), &row));
        let execution =
            execution.ok_or_else(|| Error::internal("the rows of an execution are not its own"))?;
        let transition = Transition {
            execution,
            row,
            contents: purger.contents,
            refusal: None,
            effects: Vec::new(),
            new_values: Values::new(),
        };
        Ok(PurgeDecision::Purge(Box::new(InputPurge {
            transition,
            rows,
            changed_revisions,
            released: purger.released,
            keys: purger.purged_keys,
        })))
    }
}

/// The names of the arguments of a called command, each with its position in the list of inputs.
pub(super) struct CommandArguments(BTreeMap<String, usize>);

impl CommandArguments {
    /// `None` if the definition is not that of a call: only a call asks for the whole response.
    pub(super) fn of_definition(definition: &Definition) -> Option<Self> {
        let [step] = definition.workflow.steps.as_slice() else {
            return None;
        };
        if !matches!(step.kind, StepKind::Run { whole: true, .. }) {
            return None;
        }
        let arguments = step.with.iter().flatten().filter_map(|(name, value)| {
            let position = value.as_str()?.strip_prefix("${{ inputs.with[")?;
            Some((name.clone(), position.strip_suffix("] }}")?.parse().ok()?))
        });
        Some(Self(arguments.collect()))
    }

    /// The input that holds the argument of this name.
    pub(super) fn input(&self, name: &str) -> &'static str {
        if self.0.contains_key(name) { "with" } else { BODY_KEY }
    }
}

/// The meaning of a value that a row names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ValueRole {
    /// The inputs of the execution.
    Inputs,
    /// The input of the step of a call.
    CallInput,
    /// The output of a step that asks for inputs: the answers, or an object with them if a model extracted them.
    Answers,
}

/// Removes values from what the rows of one execution name.
struct InputPurger<'a> {
    definition: &'a Definition,
    arguments: Option<CommandArguments>,
    keys: Option<&'a BTreeSet<String>>,
    values: &'a Values,
    contents: Vec<(Digest, Arc<[u8]>)>,
    released: BTreeSet<Digest>,
    missing: BTreeSet<Digest>,
    purged_keys: BTreeSet<String>,
}

impl InputPurger<'_> {
    /// Changes the event to name values without the purged inputs. Returns whether it was changed.
    fn purge_event(&mut self, event: &mut Event) -> Result<bool> {
        let (payload, role) = match event {
            Event::Created(created) => (created.inputs.as_mut(), ValueRole::Inputs),
            Event::InputsChanged { inputs } => (Some(inputs), ValueRole::Inputs),
            Event::Rewound(rewound) => {
                let Some(digest) = &mut rewound.inputs else {
                    return Ok(false);
                };
                let mut payload = Payload { digest: *digest, bytes: 0, inline: None };
                let is_changed = self.purge_payload(&mut payload, ValueRole::Inputs)?;
                *digest = payload.digest;
                return Ok(is_changed);
            }
            Event::VisitOpened(opened) => (opened.input.as_mut(), ValueRole::CallInput),
            Event::TaskChanged { input, .. } => (Some(input), ValueRole::CallInput),
            Event::VisitClosed(closed) => {
                (self.find_answers(&closed.visit_id, &mut closed.outcome), ValueRole::Answers)
            }
            Event::StepDone { visit_id, outcome } => {
                (self.find_answers(visit_id, outcome), ValueRole::Answers)
            }
            Event::StepInherited(step) => {
                (self.find_answers(&step.visit_id, &mut step.outcome), ValueRole::Answers)
            }
            _ => return Ok(false),
        };
        match payload {
            Some(_) if role == ValueRole::CallInput && self.arguments.is_none() => Ok(false),
            Some(payload) => self.purge_payload(payload, role),
            None => Ok(false),
        }
    }

    /// The output of a visit, if its step asks for inputs.
    fn find_answers<'b>(
        &self,
        visit_id: &VisitId,
        outcome: &'b mut Outcome,
    ) -> Option<&'b mut Payload> {
        let (step, body) = (visit_id.step.as_ref(), visit_id.body);
        let (step, _) = self.definition.find_body(step, body, visit_id.item.is_some())?;
        step.acting_step().kind.requested_inputs()?;
        match outcome {
            Outcome::Completed(payload) => Some(payload),
            Outcome::Failed(_) | Outcome::Voided => None,
        }
    }

    /// Has the payload name the value without the purged inputs. Returns whether it was changed.
    fn purge_payload(&mut self, payload: &mut Payload, role: ValueRole) -> Result<bool> {
        let mut value = match (&payload.inline, self.values.get(&payload.digest)) {
            (Some(document), _) => document.value(),
            (None, Some(value)) => Value::clone(value),
            (None, None) => {
                self.missing.insert(payload.digest);
                return Ok(false);
            }
        };
        if !self.remove_inputs(&mut value, role) {
            return Ok(false);
        }
        let (purged, content) = make_payload(&value, limits::OUTPUT_BYTES_MAX, "inputs")?;
        let purged = if payload.inline.is_none() {
            self.released.insert(payload.digest);
            move_to_contents((purged, content), &mut self.contents)
        } else {
            purged
        };
        *payload = purged;
        Ok(true)
    }

    /// Removes the values of the named inputs. Returns whether there were any.
    fn remove_inputs(&mut self, value: &mut Value, role: ValueRole) -> bool {
        let is_named = |key: &str| self.keys.is_none_or(|keys| keys.contains(key));
        let mut removed = BTreeSet::new();
        if let Some(CommandArguments(positions)) = &self.arguments {
            let call = match role {
                ValueRole::CallInput => &mut value["value"],
                ValueRole::Inputs | ValueRole::Answers => value,
            };
            let mut purge_argument = |name: &str, argument: Option<&mut Value>| {
                let argument = argument.filter(|value| is_named(name) && !value.is_null());
                if let Some(argument) = argument {
                    *argument = Value::Null;
                    removed.insert(name.to_owned());
                }
            };
            for (name, position) in positions {
                let arguments = call.get_mut("with");
                let argument = arguments.and_then(|arguments| match role {
                    ValueRole::CallInput => arguments.get_mut(name),
                    ValueRole::Inputs | ValueRole::Answers => arguments.get_mut(*position),
                });
                purge_argument(name, argument);
            }
            purge_argument(BODY_KEY, call.get_mut(BODY_KEY));
        } else {
            let has_extracted = role == ValueRole::Answers && value["extracted"].is_object();
            let inputs = if has_extracted { &mut value["extracted"] } else { value };
            if let Some(inputs) = inputs.as_object_mut() {
                let purged = inputs.iter().filter(|(key, value)| is_named(key) && !value.is_null());
                removed = purged.map(|(key, _)| key.clone()).collect();
                inputs.retain(|key, _| !removed.contains(key));
            }
        }
        let has_removed = !removed.is_empty();
        self.purged_keys.append(&mut removed);
        has_removed
    }
}

/// The input of a called command that holds the body of the request.
const BODY_KEY: &str = "body";
