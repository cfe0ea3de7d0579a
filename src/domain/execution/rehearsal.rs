//! A dry run: the steps that an execution of given inputs would enter, as far as that is known in advance. It uses the
//! code that enters steps in a real execution. Outputs of models, people, children and operations are unknown, and so
//! is everything that depends on them. It assumes that every such step completes.

mod corrections;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    Event, Failure, Outcome, Payload, SkipReason, StartArguments, State, StepStatus, VisitId,
    decision::{DecideResult, DecisionContext, Interrupt},
    scope::VisitScope,
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
pub struct DryRun {
    /// Each step, in authoring order.
    pub steps: Vec<DryRunStep>,
    /// The final output, as far as it is known; null if the workflow declares none.
    pub final_output: Value,
    /// The parts of the final output that are not known.
    pub final_output_unresolved: Vec<UnresolvedExpression>,
}

/// The part of a dry run that is about one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DryRunStep {
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

impl DryRun {
    /// Rehearses an execution with `inputs`. The inputs named in `inputs_without_value` have no known value.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` where the inputs are too large.
    pub fn simulate(
        context: DecisionContext<'_>,
        inputs: Map<String, Value>,
        inputs_without_value: impl IntoIterator<Item = String>,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Self> {
        let start = StartArguments {
            id: ExecutionId::generate(now, ids),
            project: None,
            inputs: None,
            defaults: DefaultSources::default(),
            parent: None,
            lookup: None,
            is_paced: false,
            labels: BTreeMap::new(),
        };
        let inputs = Some(Value::Object(inputs));
        let call = start.call_digest(context.definition);
        let mut builder =
            TransitionBuilder::for_new_execution(context, start, call, inputs, (now, ids))?;
        builder.become_state(State::Running, None)?;
        builder.is_dry_run = true;
        let losers = builder.find_all_losers();
        let count = context.definition.workflow.steps.len();
        let dry_runner = DryRunner {
            builder,
            steps: vec![None; count],
            blocked: BTreeSet::new(),
            unknown_outputs: BTreeSet::new(),
            open_visits: BTreeMap::new(),
            unknown_inputs: inputs_without_value
                .into_iter()
                .map(|name| (name, NO_INPUT_VALUE_REASON.to_owned()))
                .collect(),
            unknown_memory: UnknownReasons::new(),
            memory_set_by_hooks: collect_memory_names_set_by_hooks(context.definition),
            losers,
        };
        Ok(dry_runner.simulate_workflow())
    }
}

const NO_INPUT_VALUE_REASON: &str = "the input has no value yet";

struct DryRunner<'a> {
    builder: TransitionBuilder<'a>,
    steps: Vec<Option<DryRunStep>>,
    /// Steps whose condition or branch arm is not known: the dry run does not continue past them.
    blocked: BTreeSet<usize>,
    /// Steps whose output is not known.
    unknown_outputs: BTreeSet<usize>,
    /// Opaque steps that are entered and not yet ended, with their visits.
    open_visits: BTreeMap<usize, VisitId>,
    unknown_inputs: UnknownReasons,
    unknown_memory: UnknownReasons,
    /// Names in memory that hooks write. Which hooks run is not known, so these values are not known either.
    memory_set_by_hooks: BTreeSet<&'a str>,
    /// Losers of joins, of which it is not known whether they are entered.
    losers: BTreeSet<usize>,
}

/// The names in memory that hooks write.
fn collect_memory_names_set_by_hooks(definition: &Definition) -> BTreeSet<&str> {
    let sets =
        definition.workflow.hook_and_compensation_steps().filter_map(|step| match &step.kind {
            StepKind::Set { entries } => Some(entries.keys()),
            _ => None,
        });
    sets.flatten().map(String::as_str).collect()
}

impl DryRunner<'_> {
    fn simulate_workflow(mut self) -> DryRun {
        self.initialize_memory();
        let roots = self.builder.context.definition.graph().roots();
        self.builder.queue.extend(roots);
        while !self.builder.execution.state.is_final() && self.builder.execution.failing.is_none() {
            let result = if let Some(target) = self.builder.targets.pop_front() {
                self.enter_step(target)
            } else if let Some(position) = self.builder.queue.pop_first() {
                self.consider_step(position)
            } else if let Some((_, visit_id)) = self.open_visits.pop_first() {
                // Opaque steps end only after all steps that end when they are entered.
                self.complete_with_unknown_output(&visit_id)
            } else {
                break;
            };
            // The engine would refuse this, so nothing after it is known.
            if result.is_err() {
                break;
            }
            self.note_skipped_steps();
        }
        self.finish_dry_run()
    }

    fn consider_step(&mut self, position: usize) -> DecideResult<()> {
        if !self.blocked.contains(&position) && self.builder.is_ready(position)? {
            self.enter_step(position)?;
        }
        Ok(())
    }

    fn enter_step(&mut self, position: usize) -> DecideResult<()> {
        let state = &self.builder.execution.steps[position];
        if state.status != StepStatus::Pending {
            return Ok(());
        }
        let visit_id = state.next_visit_id();
        let result = self.try_enter_step(position, &visit_id);
        if let Err(Interrupt::Failed(failure)) = &result {
            self.note_failed_step(position, failure);
        }
        self.builder.fail_if_entry_failed(position, &visit_id, result)
    }

    fn note_failed_step(&mut self, position: usize, failure: &Failure) {
        if !failure.message.is_empty() {
            let step = self.steps[position].get_or_insert_default();
            step.why = format!("it fails as it is entered: {}", failure.message);
        }
    }

    fn try_enter_step(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<()> {
        let compiled = self.builder.context.definition.compiled_step(position);
        if let Some(why) = self.explain_unknown_expression(compiled.condition.as_ref(), position) {
            self.block_step(position, None, format!("its condition is not known: {why}"));
            return Ok(());
        }
        if self.builder.admit_step(position, visit_id)? {
            self.note_entered_step(position);
            self.simulate_step(position, visit_id)?;
        }
        Ok(())
    }

    /// Executes `set`, `branch` and `fail` steps as far as their values are known. All other kinds wait, with an output
    /// that is not known.
    fn simulate_step(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<()> {
        let step = self.builder.step(position);
        let compiled = self.builder.context.definition.compiled_step(position);
        match &step.kind {
            StepKind::Set { entries } => self.simulate_set(position, entries, visit_id),
            StepKind::Branch { .. } => {
                for arm in compiled.arms.iter().flatten() {
                    if let Some(why) = self.explain_unknown_expression(Some(arm), position) {
                        let why = format!(
                            "{}; which arm is taken is not known: {why}",
                            self.step_reason(position)
                        );
                        self.block_step(position, Some(true), why);
                        return Ok(());
                    }
                    if self.builder.evaluate_condition(arm, &VisitScope::for_visit(visit_id))? {
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
                    self.unknown_inputs.entry(name.clone()).or_insert(why);
                }
                self.open_with_unknown_output(position, visit_id);
                Ok(())
            }
        }
    }

    /// Opens the step as one whose output is not known.
    fn open_with_unknown_output(&mut self, position: usize, visit_id: &VisitId) {
        self.unknown_outputs.insert(position);
        let waiting = self.builder.wait_for_new_token();
        self.builder.open_visit(visit_id.clone(), waiting, None);
        self.open_visits.insert(position, visit_id.clone());
    }

    /// Completes the step with an unknown output.
    fn complete_with_unknown_output(&mut self, visit_id: &VisitId) -> DecideResult<()> {
        // A real execution starts a new transition when such a step ends, so the count starts anew.
        self.builder.instant_step_count = 0;
        let outcome = build_unknown_output(visit_id);
        self.builder.finish_visit(visit_id, &outcome, None)
    }

    fn simulate_set(
        &mut self,
        position: usize,
        entries: &Map<String, Value>,
        visit_id: &VisitId,
    ) -> DecideResult<()> {
        let compiled = self.builder.context.definition.compiled_step(position);
        let (_, unresolved) = self.preview_template(&compiled.input, position);
        if unresolved.is_empty() {
            self.unknown_memory.retain(|name, _| !entries.contains_key(name));
            return self.builder.execute_step(position, visit_id);
        }
        let why = format!("step `{}` sets it to what is not known yet", visit_id.step());
        self.unknown_memory.extend(entries.keys().map(|name| (name.clone(), why.clone())));
        self.unknown_outputs.insert(position);
        self.builder.record_instant_end(position, visit_id, &build_unknown_output(visit_id))
    }

    /// Fills memory with its initial values, one name at a time, so that an unknown value affects no other.
    fn initialize_memory(&mut self) {
        for (name, value) in &self.builder.context.definition.workflow.memory {
            let Ok(template) = Template::parse(value) else {
                continue;
            };
            // A position outside of all steps.
            let (value, unresolved) = self.preview_template(&template, usize::MAX);
            match unresolved.into_iter().next() {
                Some(unresolved) => drop(self.unknown_memory.insert(name.clone(), unresolved.why)),
                None if self.builder.write_memory(name, value).is_ok() => {}
                None => {
                    drop(self.unknown_memory.insert(name.clone(), "it is too large".to_owned()));
                }
            }
        }
    }

    fn block_step(&mut self, position: usize, will_run: Option<bool>, why: String) {
        self.blocked.insert(position);
        let step = self.steps[position].get_or_insert_default();
        (step.will_run, step.why) = (step.will_run.or(will_run), why);
    }

    fn note_entered_step(&mut self, position: usize) {
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
            Some(DryRunStep { will_run: Some(true), why: why.to_owned(), rendered, unresolved });
    }

    /// Records the steps that were skipped since the last call, and empties the row.
    fn note_skipped_steps(&mut self) {
        for event in std::mem::take(&mut self.builder.row.events) {
            let Event::StepSkipped { step, why } = event else {
                continue;
            };
            let Some(position) = self.builder.context.definition.graph().step_position(&step)
            else {
                continue;
            };
            let (will_run, why) = match why {
                SkipReason::Condition => (Some(false), "its condition does not hold"),
                SkipReason::Bypassed => (Some(false), "control goes past it"),
                SkipReason::Cancelled => (Some(false), "a step before it cancels it"),
                SkipReason::RunWhen | SkipReason::Failing => {
                    (None, "it runs where a step before it fails")
                }
            };
            // A blocked step may have been entered in an earlier round of a loop.
            if self.blocked.contains(&position) {
                continue;
            }
            let rehearsed = self.steps[position].get_or_insert_default();
            if rehearsed.will_run != Some(true) {
                (rehearsed.will_run, rehearsed.why) = (will_run, why.to_owned());
            }
        }
    }

    fn step_reason(&self, position: usize) -> &str {
        self.steps[position].as_ref().map_or("", |step| step.why.as_str())
    }

    fn finish_dry_run(mut self) -> DryRun {
        self.mark_skipped_steps_uncertain();
        self.mark_crossing_jumps_uncertain();
        self.mark_parallel_steps_uncertain();
        self.mark_losers_uncertain();
        self.mark_cancelled_steps_uncertain();
        self.mark_failure_branches_uncertain();
        let definition = self.builder.context.definition;
        let mut steps = Vec::new();
        for position in 0..self.steps.len() {
            let rehearsed = self.steps[position].take();
            let mut step = rehearsed.unwrap_or_else(|| DryRunStep {
                why: self.explain_unreached_step(position),
                ..DryRunStep::default()
            });
            if step.rendered.is_null() {
                (step.rendered, step.unresolved) = self.preview_step_input(position);
            }
            steps.push(step);
        }
        let (final_output, final_output_unresolved) = match &definition
            .compiled_workflow()
            .final_output
        {
            None => (Value::Null, Vec::new()),
            Some(CompiledOutput::Whole(template)) => self.preview_template(template, usize::MAX),
            Some(CompiledOutput::Keys(parts)) => self.preview_final_output(parts),
        };
        DryRun { steps, final_output, final_output_unresolved }
    }

    fn preview_final_output(
        &self,
        parts: &[(String, Template)],
    ) -> (Value, Vec<UnresolvedExpression>) {
        let (mut value, mut all) = (Map::new(), Vec::new());
        for (key, template) in parts {
            let (preview, unresolved) = self.preview_template(template, usize::MAX);
            value.insert(key.clone(), preview);
            all.extend(unresolved.into_iter().map(|one| prefix_unresolved_path(key, one)));
        }
        (Value::Object(value), all)
    }

    fn explain_unreached_step(&self, position: usize) -> String {
        if self.builder.step(position).run_when == RunWhen::Failing {
            return "it runs where the execution fails".to_owned();
        }
        let graph = self.builder.context.definition.graph();
        let ancestors = graph.ancestors(position);
        let blocked = ancestors.iter().find(|at| self.blocked.contains(at));
        match blocked {
            Some(at) => format!("what step `{}` comes to is not known", self.step_id(*at)),
            None if self.builder.execution.failing.is_some()
                || self.builder.execution.state.is_final() =>
            {
                "the execution fails before".to_owned()
            }
            None => "control comes to it only by a jump".to_owned(),
        }
    }

    /// The rendered input of a step; for a `foreach` also its list and the input of its body.
    fn preview_step_input(&self, position: usize) -> (Value, Vec<UnresolvedExpression>) {
        let compiled = self.builder.context.definition.compiled_step(position);
        let (mut rendered, mut unresolved) = self.preview_template(&compiled.input, position);
        let templates = [
            ("in", compiled.items.as_ref()),
            ("do", compiled.body.as_ref().map(|body| &body.input)),
        ];
        for (key, template) in templates {
            if let Some(template) = template {
                let (value, more_unresolved) = self.preview_template(template, position);
                rendered[key] = value;
                unresolved.extend(
                    more_unresolved.into_iter().map(|one| prefix_unresolved_path(key, one)),
                );
            }
        }
        (rendered, unresolved)
    }

    fn preview_template(
        &self,
        template: &Template,
        position: usize,
    ) -> (Value, Vec<UnresolvedExpression>) {
        let mut roots = EvaluationContext::default();
        for reference in template.references() {
            if self.explain_unknown_reference(reference, position).is_none()
                && let Ok(values) = self
                    .builder
                    .gather_roots(std::slice::from_ref(reference), &VisitScope::default())
            {
                roots.add_values(values);
            }
        }
        template.preview(&roots, &|reference| self.explain_unknown_reference(reference, position))
    }

    fn find_position(&self, id: &str) -> Option<usize> {
        let id = StepId::parse(id).ok()?;
        self.builder.context.definition.graph().step_position(&id)
    }

    fn step_id(&self, position: usize) -> &StepId {
        &self.builder.step(position).id
    }
}

fn build_unknown_output(visit_id: &VisitId) -> Outcome {
    Outcome::Completed(Payload {
        digest: Digest::compute(format!("{visit_id:?}").as_bytes()),
        bytes: 0,
        inline: None,
    })
}

fn prefix_unresolved_path(key: &str, mut unresolved: UnresolvedExpression) -> UnresolvedExpression {
    let separator =
        if unresolved.path.is_empty() || unresolved.path.starts_with('[') { "" } else { "." };
    unresolved.path = format!("{key}{separator}{}", unresolved.path);
    unresolved
}
