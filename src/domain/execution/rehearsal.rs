//! A dry run: the steps that an execution of given inputs would enter, as far as that is known in advance. It uses the
//! code that enters steps in a real execution. Outputs of models, people, children and operations are unknown, and so
//! is everything that depends on them. It assumes that every such step completes.

mod doubt;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    Event, Failure, Outcome, Payload, SkipReason, Start, State, StepStatus, VisitId,
    decision::{DecideResult, Facts, Interrupt},
    scope::EvalContext,
    transition::TransitionBuilder,
};
use crate::{
    clock::{IdSource, Timestamp},
    definition::{CompiledOutput, Definition, RunWhen, StepKind},
    document::Digest,
    error::Result,
    expression::{EvaluationContext, Template, UnresolvedExpression},
    id::{ExecutionId, StepId},
    input::DefaultSources,
};

/// The result of a dry run.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    /// Each step, in authoring order.
    pub steps: Vec<RehearsedStep>,
    /// The final output, as far as it is known; null if the workflow declares none.
    pub final_output: Value,
    /// The parts of the final output that are not known.
    pub final_output_unresolved: Vec<UnresolvedExpression>,
}

/// The part of a dry run that is about one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RehearsedStep {
    /// Whether it is entered if the steps before it complete; `None` if that is not known.
    pub will_run: Option<bool>,
    /// Why.
    pub why: String,
    /// Its input when it is first entered.
    pub rendered: Value,
    /// The parts of its input that are not known.
    pub unresolved: Vec<UnresolvedExpression>,
}

/// The reason why a value is not known, by the name of the value.
type UnknownReasons = BTreeMap<String, String>;

impl Rehearsal {
    /// Rehearses an execution with `inputs`. The inputs named in `open` have no known value.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` where the inputs are too large.
    pub fn rehearse(
        facts: Facts<'_>,
        inputs: Map<String, Value>,
        open: impl IntoIterator<Item = String>,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Self> {
        let start = Start {
            id: ExecutionId::generate(now, ids),
            project: None,
            inputs: None,
            defaults: DefaultSources::default(),
            parent: None,
            lookup: None,
        };
        let inputs = Some(Value::Object(inputs));
        let mut builder = TransitionBuilder::for_new_execution(facts, start, inputs, (now, ids))?;
        builder.become_state(State::Running, None)?;
        builder.rehearses = true;
        let losers = builder.all_losers();
        let count = facts.definition.workflow.steps.len();
        let rehearsing = RehearsalRun {
            builder,
            steps: vec![None; count],
            blocked: BTreeSet::new(),
            opaque: BTreeSet::new(),
            open: BTreeMap::new(),
            inputs: open.into_iter().map(|name| (name, NO_INPUT_VALUE_REASON.to_owned())).collect(),
            memory: UnknownReasons::new(),
            set_beside: memory_names_set_by_hooks(facts.definition),
            losers,
        };
        Ok(rehearsing.run())
    }
}

const NO_INPUT_VALUE_REASON: &str = "the input has no value yet";

struct RehearsalRun<'a> {
    builder: TransitionBuilder<'a>,
    steps: Vec<Option<RehearsedStep>>,
    /// Steps whose condition or branch arm is not known: the dry run does not continue past them.
    blocked: BTreeSet<usize>,
    /// Steps whose output is not known.
    opaque: BTreeSet<usize>,
    /// Opaque steps that are entered and not yet ended, with their visits.
    open: BTreeMap<usize, VisitId>,
    inputs: UnknownReasons,
    memory: UnknownReasons,
    /// Names in memory that hooks write. Which hooks run is not known, so these values are not known either.
    set_beside: BTreeSet<&'a str>,
    /// Losers of joins, of which it is not known whether they are entered.
    losers: BTreeSet<usize>,
}

/// The names in memory that hooks write.
fn memory_names_set_by_hooks(definition: &Definition) -> BTreeSet<&str> {
    let sets = definition.beside().filter_map(|step| match &step.kind {
        StepKind::Set { entries } => Some(entries.keys()),
        _ => None,
    });
    sets.flatten().map(String::as_str).collect()
}

impl RehearsalRun<'_> {
    fn run(mut self) -> Rehearsal {
        self.fill_memory();
        let roots = self.builder.facts.definition.graph().roots();
        self.builder.queue.extend(roots);
        while !self.builder.next.state.is_final() && self.builder.next.failing.is_none() {
            let entered = if let Some(target) = self.builder.targets.pop_front() {
                self.enter_step(target)
            } else if let Some(position) = self.builder.queue.pop_first() {
                self.consider_step(position)
            } else if let Some((_, visit_id)) = self.open.pop_first() {
                // Opaque steps end only after all steps that end when they are entered.
                self.complete_with_unknown_output(&visit_id)
            } else {
                break;
            };
            // The engine would refuse this, so nothing after it is known.
            if entered.is_err() {
                break;
            }
            self.note_skipped();
        }
        self.finish_rehearsal()
    }

    fn consider_step(&mut self, position: usize) -> DecideResult<()> {
        if !self.blocked.contains(&position) && self.builder.is_ready(position)? {
            self.enter_step(position)?;
        }
        Ok(())
    }

    fn enter_step(&mut self, position: usize) -> DecideResult<()> {
        let state = &self.builder.next.steps[position];
        if state.status != StepStatus::Pending {
            return Ok(());
        }
        let visit_id = state.next_visit();
        let entered = self.try_enter_step(position, &visit_id);
        if let Err(Interrupt::Fails(failure)) = &entered {
            self.note_failed(position, failure);
        }
        self.builder.fail_if_entry_failed(position, &visit_id, entered)
    }

    fn note_failed(&mut self, position: usize, failure: &Failure) {
        if !failure.message.is_empty() {
            let step = self.steps[position].get_or_insert_default();
            step.why = format!("it fails as it is entered: {}", failure.message);
        }
    }

    fn try_enter_step(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<()> {
        let compiled = self.builder.facts.definition.compiled_step(position);
        if let Some(why) = self.why_unknown(compiled.condition.as_ref(), position) {
            self.block(position, None, format!("its condition is not known: {why}"));
            return Ok(());
        }
        if self.builder.is_admitted(position, visit_id)? {
            self.note_entered(position);
            self.simulate_step(position, visit_id)?;
        }
        Ok(())
    }

    /// Executes `set`, `branch` and `fail` steps as far as their values are known. All other kinds wait, with an output
    /// that is not known.
    fn simulate_step(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<()> {
        let step = self.builder.step(position);
        let compiled = self.builder.facts.definition.compiled_step(position);
        match &step.kind {
            StepKind::Set { entries } => self.simulate_set(position, entries, visit_id),
            StepKind::Branch { .. } => {
                for arm in compiled.arms.iter().flatten() {
                    if let Some(why) = self.why_unknown(Some(arm), position) {
                        let why = format!(
                            "{}; which arm is taken is not known: {why}",
                            self.step_reason(position)
                        );
                        self.block(position, Some(true), why);
                        return Ok(());
                    }
                    if self.builder.evaluate_condition(arm, &EvalContext::for_visit(visit_id))? {
                        break;
                    }
                }
                self.builder.execute_step(position, visit_id)
            }
            StepKind::Fail { code, .. } => {
                self.builder.fail_execution(Failure::new(code, "", Some(&step.id)))
            }
            kind => {
                for name in kind.requested_inputs().into_iter().flatten() {
                    let why = format!("step `{}` asks for it", step.id);
                    self.inputs.entry(name.clone()).or_insert(why);
                }
                self.open_with_unknown_output(position, visit_id);
                Ok(())
            }
        }
    }

    /// Opens the step as one whose output is not known.
    fn open_with_unknown_output(&mut self, position: usize, visit_id: &VisitId) {
        self.opaque.insert(position);
        let waiting = self.builder.new_token();
        self.builder.open_visit(visit_id.clone(), waiting, None);
        self.open.insert(position, visit_id.clone());
    }

    /// Completes the step with an unknown output.
    fn complete_with_unknown_output(&mut self, visit_id: &VisitId) -> DecideResult<()> {
        // A real execution starts a new transition when such a step ends, so the count starts anew.
        self.builder.done_at_once = 0;
        let outcome = unknown_output(visit_id);
        self.builder.finish_visit(visit_id, &outcome, None)
    }

    fn simulate_set(
        &mut self,
        position: usize,
        entries: &Map<String, Value>,
        visit_id: &VisitId,
    ) -> DecideResult<()> {
        let compiled = self.builder.facts.definition.compiled_step(position);
        let (_, unresolved) = self.preview(&compiled.input, position);
        if unresolved.is_empty() {
            self.memory.retain(|name, _| !entries.contains_key(name));
            return self.builder.execute_step(position, visit_id);
        }
        let why = format!("step `{}` sets it to what is not known yet", visit_id.step());
        self.memory.extend(entries.keys().map(|name| (name.clone(), why.clone())));
        self.opaque.insert(position);
        self.builder.record_instant_end(position, visit_id, &unknown_output(visit_id))
    }

    /// Fills memory with its initial values, one name at a time, so that an unknown value affects no other.
    fn fill_memory(&mut self) {
        for (name, value) in &self.builder.facts.definition.workflow.memory {
            let Ok(template) = Template::parse(value) else {
                continue;
            };
            // A position outside of all steps.
            let (value, unresolved) = self.preview(&template, usize::MAX);
            match unresolved.into_iter().next() {
                Some(unresolved) => drop(self.memory.insert(name.clone(), unresolved.why)),
                None if self.builder.write_memory(name, value).is_ok() => {}
                None => drop(self.memory.insert(name.clone(), "it is too large".to_owned())),
            }
        }
    }

    fn block(&mut self, position: usize, will_run: Option<bool>, why: String) {
        self.blocked.insert(position);
        let step = self.steps[position].get_or_insert_default();
        (step.will_run, step.why) = (step.will_run.or(will_run), why);
    }

    fn note_entered(&mut self, position: usize) {
        // In a loop only the first visit of a step is reported.
        if self.steps[position].as_ref().is_some_and(|known| known.will_run == Some(true)) {
            return;
        }
        let step = self.builder.step(position);
        let why = match step.condition {
            Some(_) => "its condition holds",
            None if step.depends_on.is_empty() => "it waits for nothing",
            None => "it follows the steps that it depends on",
        };
        let (rendered, unresolved) = self.preview_step_input(position);
        self.steps[position] =
            Some(RehearsedStep { will_run: Some(true), why: why.to_owned(), rendered, unresolved });
    }

    /// Records the steps that were skipped since the last call, and empties the row.
    fn note_skipped(&mut self) {
        for event in std::mem::take(&mut self.builder.row.events) {
            let Event::StepSkipped { step, why } = event else {
                continue;
            };
            let Some(position) = self.builder.facts.definition.graph().step_position(&step) else {
                continue;
            };
            let (will_run, why) = match why {
                SkipReason::Condition => (Some(false), "its condition does not hold"),
                SkipReason::Bypassed => (Some(false), "control goes past it"),
                SkipReason::RunWhen | SkipReason::Failing => {
                    (None, "it runs where a step before it fails")
                }
            };
            // A blocked step may have been entered in an earlier round of a loop.
            if self.blocked.contains(&position) {
                continue;
            }
            let known = self.steps[position].get_or_insert_default();
            if known.will_run != Some(true) {
                (known.will_run, known.why) = (will_run, why.to_owned());
            }
        }
    }

    fn step_reason(&self, position: usize) -> &str {
        self.steps[position].as_ref().map_or("", |step| step.why.as_str())
    }

    fn finish_rehearsal(mut self) -> Rehearsal {
        self.doubt_skipped_steps();
        self.doubt_crossing_jumps();
        self.doubt_steps_parallel_to_jumps();
        self.doubt_losers();
        self.doubt_failure_branches();
        let definition = self.builder.facts.definition;
        let mut steps = Vec::new();
        for position in 0..self.steps.len() {
            let known = self.steps[position].take();
            let mut step = known.unwrap_or_else(|| RehearsedStep {
                why: self.why_not_reached(position),
                ..RehearsedStep::default()
            });
            if step.rendered.is_null() {
                (step.rendered, step.unresolved) = self.preview_step_input(position);
            }
            steps.push(step);
        }
        let (final_output, final_output_unresolved) =
            match &definition.compiled_workflow().final_output {
                None => (Value::Null, Vec::new()),
                Some(CompiledOutput::Whole(template)) => self.preview(template, usize::MAX),
                Some(CompiledOutput::Keys(parts)) => self.preview_parts(parts),
            };
        Rehearsal { steps, final_output, final_output_unresolved }
    }

    fn preview_parts(&self, parts: &[(String, Template)]) -> (Value, Vec<UnresolvedExpression>) {
        let (mut value, mut all) = (Map::new(), Vec::new());
        for (key, template) in parts {
            let (part, unresolved) = self.preview(template, usize::MAX);
            value.insert(key.clone(), part);
            all.extend(unresolved.into_iter().map(|one| prefix_unresolved_path(key, one)));
        }
        (Value::Object(value), all)
    }

    fn why_not_reached(&self, position: usize) -> String {
        if self.builder.step(position).run_when == RunWhen::Failing {
            return "it runs where the execution fails".to_owned();
        }
        let graph = self.builder.facts.definition.graph();
        let before = graph.ancestors(position);
        let blocked = before.iter().find(|at| self.blocked.contains(at));
        match blocked {
            Some(at) => format!("what step `{}` comes to is not known", self.id(*at)),
            None if self.builder.next.failing.is_some() || self.builder.next.state.is_final() => {
                "the execution fails before".to_owned()
            }
            None => "control comes to it only by a jump".to_owned(),
        }
    }

    /// The rendered input of a step; for a `foreach` also its list and the input of its body.
    fn preview_step_input(&self, position: usize) -> (Value, Vec<UnresolvedExpression>) {
        let compiled = self.builder.facts.definition.compiled_step(position);
        let (mut rendered, mut unresolved) = self.preview(&compiled.input, position);
        let parts = [
            ("in", compiled.items.as_ref()),
            ("do", compiled.body.as_ref().map(|body| &body.input)),
        ];
        for (key, template) in parts {
            if let Some(template) = template {
                let (value, more) = self.preview(template, position);
                rendered[key] = value;
                unresolved.extend(more.into_iter().map(|one| prefix_unresolved_path(key, one)));
            }
        }
        (rendered, unresolved)
    }

    fn preview(&self, template: &Template, position: usize) -> (Value, Vec<UnresolvedExpression>) {
        let mut roots = EvaluationContext::default();
        for reference in template.references() {
            if self.why_reference(reference, position).is_none()
                && let Ok(more) = self
                    .builder
                    .gather_roots(std::slice::from_ref(reference), &EvalContext::default())
            {
                roots.add_values(more);
            }
        }
        template.preview(&roots, &|reference| self.why_reference(reference, position))
    }

    fn position(&self, id: &str) -> Option<usize> {
        let id = StepId::parse(id).ok()?;
        self.builder.facts.definition.graph().step_position(&id)
    }

    fn id(&self, position: usize) -> &StepId {
        &self.builder.step(position).id
    }
}

fn unknown_output(visit_id: &VisitId) -> Outcome {
    Outcome::Completed(Payload {
        digest: Digest::compute(format!("{visit_id:?}").as_bytes()),
        bytes: 0,
        inline: None,
    })
}

fn prefix_unresolved_path(key: &str, mut unresolved: UnresolvedExpression) -> UnresolvedExpression {
    let joint =
        if unresolved.path.is_empty() || unresolved.path.starts_with('[') { "" } else { "." };
    unresolved.path = format!("{key}{joint}{}", unresolved.path);
    unresolved
}
