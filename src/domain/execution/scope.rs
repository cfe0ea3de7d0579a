//! The values that expressions can read from an execution.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    BodyKind, Execution, Failure, Payload, StepState, StepStatus, ValueReference, VisitId,
    decision::{DecideResult, Interrupt},
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    definition::CompiledOutput,
    document::JsonText,
    event::OutputFailure,
    expression::{
        ALL_INPUTS_MEMORY_KEY, ENDED_KEY, ERROR_KEY, EvaluationContext, Expression,
        ExpressionFault, ForeachItem, HOOK_RUN_FIELDS, LAST_OUTPUT_FIELD, RUN_FIELDS, Reference,
        ReferenceRoot, RenderedValue, Segment, Template, to_dotted_path,
    },
    id::StepId,
    limits,
    truncate::json_length,
};

/// The context of an evaluation; the default is the workflow as a whole, outside of its steps.
#[derive(Default)]
pub(super) struct VisitScope<'a> {
    pub(super) visit_id: Option<&'a VisitId>,
    /// The output of the latest attempt, for expressions that read the output of their own step (`until`, branches,
    /// compensations).
    pub(super) own_output: Option<&'a Value>,
    /// The item of a `foreach`, if it is evaluated for one.
    pub(super) item: Option<ForeachItem>,
}

impl<'a> VisitScope<'a> {
    pub(super) fn for_visit(visit_id: &'a VisitId) -> Self {
        Self { visit_id: Some(visit_id), ..Self::default() }
    }
}

impl Execution {
    /// A reference to the current output of a step: none unless the step is completed.
    fn find_output_reference(&self, id: &StepId) -> Option<ValueReference> {
        let (_, step) = self.find_step(id)?;
        if step.status != StepStatus::Completed {
            return None;
        }
        step.latest_visit()?.closed.as_ref()?.output_reference()
    }

    /// A reference to what `memory.NAME` reads: the value in memory, or else the output of the step with that id. All inputs
    /// for `__workflow_input__`.
    pub fn find_memory_reference(&self, name: &str) -> Option<ValueReference> {
        match self.memory.get(name) {
            Some(&digest) => Some(ValueReference::by_digest(digest)),
            None if name == ALL_INPUTS_MEMORY_KEY => self.inputs.map(ValueReference::by_digest),
            None => self.find_output_reference(&StepId::parse(name).ok()?),
        }
    }
}

impl TransitionBuilder<'_> {
    /// Whether a condition holds.
    pub(super) fn evaluate_condition(
        &self,
        condition: &Expression,
        scope: &VisitScope<'_>,
    ) -> DecideResult<bool> {
        let roots = self.gather_roots(condition.references(), scope)?;
        condition
            .evaluate_condition(&roots)
            .map_err(|fault| self.fault_to_failure(&fault, condition.source(), scope))
    }

    /// Evaluates a template.
    pub(super) fn render_template(
        &self,
        template: &Template,
        scope: &VisitScope<'_>,
    ) -> DecideResult<Value> {
        self.render_with_secret_places(template, scope).map(|rendered| rendered.value)
    }

    /// Like [`Self::render_template`], but also returns the places where secrets are to be filled in.
    pub(super) fn render_with_secret_places(
        &self,
        template: &Template,
        scope: &VisitScope<'_>,
    ) -> DecideResult<RenderedValue> {
        let roots = self.gather_roots(template.references(), scope)?;
        let rendered = template.render_with_secret_places(&roots);
        rendered.map_err(|fault| self.fault_to_failure(&fault, "", scope))
    }

    /// Computes `final_output`. A part that cannot be computed becomes null and is listed as a fault; it does not fail
    /// the execution, whose work is done.
    pub(super) fn evaluate_final_output(
        &mut self,
    ) -> DecideResult<Option<(Payload, Vec<OutputFailure>)>> {
        let Some(compiled) = &self.context.definition.compiled_workflow().final_output else {
            return Ok(None);
        };
        let mut output = FinalOutputBuilder::default();
        let scope = VisitScope::default();
        match compiled {
            CompiledOutput::Whole(template) => {
                output.add_part(None, self.render_template(template, &scope))?;
            }
            CompiledOutput::Keys(templates) => {
                for (key, template) in templates {
                    output.add_part(Some(key), self.render_template(template, &scope))?;
                }
            }
        }
        if !output.missing_values.is_empty() {
            return Err(Interrupt::MissingValues(output.missing_values));
        }
        let (max_bytes, what) = (limits::OUTPUT_BYTES_MAX, "final output");
        let value = std::mem::take(&mut output.value);
        let payload = match self.store_value_by_digest(value, max_bytes, what) {
            Ok(payload) => payload,
            Err(error) => {
                output.add_fault(None, error.code().as_str().into(), error.message().into());
                self.store_value_by_digest(Value::Null, max_bytes, what)?
            }
        };
        Ok(Some((payload, output.faults)))
    }

    /// The default input of an activity: the output of its dependency, an object of outputs if it has several, or the
    /// inputs of the execution if it has none.
    pub(super) fn build_default_activity_input(&self, visit_id: &VisitId) -> DecideResult<Value> {
        let graph = self.context.definition.graph();
        let dependencies = graph
            .step_position(visit_id.step())
            .map(|at| graph.dependencies(at))
            .unwrap_or_default();
        let mut outputs = Map::new();
        let mut missing = Vec::new();
        for &at in dependencies {
            let id = &self.execution.steps[at].id;
            match self.execution.find_output_reference(id).map(|need| self.find_value(need)) {
                Some(Ok(value)) => drop(outputs.insert(id.to_string(), Value::clone(&value))),
                Some(Err(need)) => missing.push(need),
                None => {}
            }
        }
        if !missing.is_empty() {
            return Err(Interrupt::MissingValues(missing));
        }
        match (dependencies.len(), outputs.len()) {
            (0, _) => self.load_current_inputs().map(Value::Object),
            (1, 1) => Ok(outputs.into_values().next().unwrap_or_default()),
            _ => Ok(Value::Object(outputs)),
        }
    }

    /// The current inputs.
    pub(super) fn load_current_inputs(&self) -> DecideResult<Map<String, Value>> {
        let Some(digest) = self.execution.inputs else {
            return Ok(Map::new());
        };
        let inputs = self.require_value(ValueReference::by_digest(digest))?;
        Ok(inputs.as_object().cloned().unwrap_or_default())
    }

    /// The values that these references name.
    pub(super) fn gather_roots(
        &self,
        references: &[Reference],
        scope: &VisitScope<'_>,
    ) -> DecideResult<EvaluationContext> {
        let mut roots_builder = RootsBuilder {
            builder: self,
            scope,
            roots: EvaluationContext::default(),
            missing: Vec::new(),
        };
        for reference in references {
            roots_builder.add_reference(reference);
        }
        let RootsBuilder { mut roots, missing, .. } = roots_builder;
        if !missing.is_empty() {
            return Err(Interrupt::MissingValues(missing));
        }
        roots.item.clone_from(&scope.item);
        Ok(roots)
    }
}

/// The final output while it is computed, part by part.
#[derive(Default)]
struct FinalOutputBuilder {
    value: Value,
    /// The bytes of its parts so far. Once they exceed the limit, this part and all later ones become null, each with a
    /// fault.
    bytes: usize,
    faults: Vec<OutputFailure>,
    missing_values: Vec<ValueReference>,
}

impl FinalOutputBuilder {
    fn add_part(
        &mut self,
        key: Option<&String>,
        rendered: DecideResult<Value>,
    ) -> DecideResult<()> {
        let value = match rendered {
            Ok(value) => value,
            Err(Interrupt::MissingValues(needs)) => {
                self.missing_values.extend(needs);
                return Ok(());
            }
            Err(Interrupt::Failed(failure)) => {
                self.add_fault(key, failure.code, failure.message);
                Value::Null
            }
            Err(interrupt) => return Err(interrupt),
        };
        let Some(key) = key else {
            self.value = value;
            return Ok(());
        };
        self.bytes += json_length(&value);
        let has_room = self.bytes <= limits::OUTPUT_BYTES_MAX;
        if !has_room {
            let max_bytes = limits::OUTPUT_BYTES_MAX;
            let message = format!("the final output may have {max_bytes} bytes");
            self.add_fault(Some(key), FailureCode::LimitExceeded.into(), message);
        }
        self.value[key] = if has_room { value } else { Value::Null };
        Ok(())
    }

    fn add_fault(&mut self, key: Option<&String>, code: String, message: String) {
        self.faults.push(OutputFailure { part: key.cloned(), code, message });
    }
}

struct RootsBuilder<'a, 'b> {
    builder: &'a TransitionBuilder<'b>,
    scope: &'a VisitScope<'a>,
    roots: EvaluationContext,
    missing: Vec<ValueReference>,
}

impl RootsBuilder<'_, '_> {
    fn add_reference(&mut self, reference: &Reference) {
        let first = reference.path.first().map(|segment| segment.as_key().into_owned());
        let builder = self.builder;
        match (reference.root, first) {
            (ReferenceRoot::Inputs, first) => self.add_input(first.as_deref()),
            (ReferenceRoot::Steps, Some(id)) => {
                self.add_step(&id);
                if reference.is_error() {
                    self.add_step_error(&id);
                }
                if reference.is_ended() {
                    self.add_item_counts(&id);
                }
            }
            (ReferenceRoot::Steps, None) => {
                for step in &builder.execution.steps {
                    self.add_step(step.id.as_str());
                }
            }
            (ReferenceRoot::Memory, Some(name)) => self.add_memory(&name),
            (ReferenceRoot::Memory, None) => {
                for name in builder.execution.memory.keys() {
                    self.add_memory(name);
                }
            }
            (ReferenceRoot::Env, _) => {
                let env = builder.context.env.iter();
                let env = env.map(|(name, value)| (name.clone(), json!(value)));
                self.roots.env = env.collect();
            }
            (ReferenceRoot::Secrets, _) => self.roots.secrets = builder.context.secrets.to_vec(),
            (ReferenceRoot::Run, _) => self.add_run(&reference.path),
            (ReferenceRoot::Item | ReferenceRoot::Index, _) => {}
        }
    }

    fn find_value(&mut self, need: ValueReference) -> Option<Arc<Value>> {
        let value = self.builder.find_value(need);
        value.map_err(|need| self.missing.push(need)).ok()
    }

    /// The input of this name. All inputs if no name is given, or if there is no such input: the error message then
    /// suggests names that exist.
    fn add_input(&mut self, name: Option<&str>) {
        let Some(digest) = self.builder.execution.inputs else {
            return;
        };
        let inputs = self.find_value(ValueReference::by_digest(digest));
        let Some(Value::Object(inputs)) = inputs.as_deref() else {
            return;
        };
        match name.and_then(|name| inputs.get_key_value(name)) {
            Some((name, value)) => {
                // All inputs may have been gathered before; keep them.
                let known = self.roots.inputs.entry(name.clone());
                known.or_insert_with(|| value.clone());
            }
            None => self.roots.inputs.clone_from(inputs),
        }
    }

    fn add_step(&mut self, id: &str) {
        if let Some(value) = self.find_step_output(id) {
            self.roots.steps.insert(id.to_owned(), value);
        }
    }

    /// The failure of the step, unless the step is pending again.
    fn add_step_error(&mut self, id: &str) {
        let mut steps = self.builder.execution.steps.iter();
        let state =
            steps.find(|state| state.id.as_str() == id && state.status != StepStatus::Pending);
        if let Some(failure) = state.and_then(|state| state.failure()) {
            let error = json!({ ERROR_KEY: failure_value(failure) });
            self.roots.errors.insert(id.to_owned(), error);
        }
    }

    /// How the items of a `foreach` that has ended did so, unless it is pending again.
    fn add_item_counts(&mut self, id: &str) {
        let execution = &self.builder.execution;
        let step = StepId::parse(id).ok().and_then(|id| execution.find_step(&id));
        let Some((_, state)) = step.filter(|(position, state)| {
            self.builder.step(*position).foreach_body().is_some()
                && matches!(state.status, StepStatus::Completed | StepStatus::Failed)
        }) else {
            return;
        };
        let visit_id = state.latest_visit().map(|visit| visit.visit_id(&state.id));
        let notes = visit_id.and_then(|visit_id| execution.notes.get(&visit_id));
        let ended = notes.and_then(|notes| notes.items).unwrap_or_default();
        self.roots.ended.insert(id.to_owned(), json!({ ENDED_KEY: ended }));
    }

    fn find_step_output(&mut self, id: &str) -> Option<Value> {
        if let (Some(own), Some(visit_id)) = (self.scope.own_output, self.scope.visit_id)
            && visit_id.step().as_str() == id
        {
            return Some(own.clone());
        }
        let id = StepId::parse(id).ok()?;
        let need = self.builder.execution.find_output_reference(&id)?;
        self.find_value(need).map(|value| Value::clone(&value))
    }

    /// The value in memory, or else the output of the step of that name.
    fn add_memory(&mut self, name: &str) {
        let value = match self.builder.execution.memory.get(name) {
            Some(&digest) => {
                self.find_value(ValueReference::by_digest(digest)).map(|value| Value::clone(&value))
            }
            None if name == ALL_INPUTS_MEMORY_KEY => {
                self.add_input(None);
                Some(Value::Object(self.roots.inputs.clone()))
            }
            None => self.find_step_output(name),
        };
        if let Some(value) = value {
            self.roots.memory.insert(name.to_owned(), value);
        }
    }

    /// The part of `run` that a path names. All parts if none is named, or if there is no such part: the error message
    /// then suggests names that exist.
    fn add_run(&mut self, path: &[Segment]) {
        let mut keys = path.iter().map(Segment::as_key);
        let (field, step) = (keys.next(), keys.next());
        let hook_fields = if self.hook_visit().is_some() { HOOK_RUN_FIELDS } else { &[] };
        let fields = RUN_FIELDS.iter().chain(hook_fields).map(|(part, _)| *part);
        let known_field = fields.clone().find(|known| field.as_deref() == Some(known));
        if let Some(part) = known_field {
            self.add_run_field(part, step.as_deref());
            return;
        }
        self.roots.run = Value::Null;
        for part in fields {
            self.add_run_field(part, None);
        }
    }

    fn add_run_field(&mut self, field: &str, step: Option<&str>) {
        let execution = &self.builder.execution;
        let visit_id = self.scope.visit_id;
        self.roots.run[field] = match field {
            "execution_id" => json!(execution.id),
            "workflow" => json!(execution.workflow),
            "project" => json!(execution.project),
            "started_at" => json!(execution.started_at),
            "visit" => json!(visit_id.map(|visit_id| visit_id.visit)),
            "step" => json!(visit_id.map(|visit_id| &visit_id.step)),
            "visits" => self.build_run_steps_value("visits", step, visit_count_value),
            "steps" => self.build_run_steps_value("steps", step, step_end_value),
            LAST_OUTPUT_FIELD => self.find_last_output().unwrap_or_default(),
            "failure" => json!(self.find_handled_failure()),
            "outcome" => json!(self.hook_visit().map(|visit_id| self.hook_outcome(visit_id))),
            _ => self.find_hook_output().unwrap_or_default(),
        };
    }

    /// Adds the entry of one step to a part of `run`, beside entries gathered before; the entries of all steps if no
    /// step is named.
    fn build_run_steps_value(
        &mut self,
        field: &str,
        step: Option<&str>,
        describe: fn(&StepState) -> Value,
    ) -> Value {
        let steps = &self.builder.execution.steps;
        let named_step = steps.iter().find(|known| step == Some(known.id.as_str()));
        let Some(step) = named_step else {
            let all = steps.iter().map(|step| (step.id.to_string(), describe(step)));
            return Value::Object(all.collect());
        };
        let mut values = self.roots.run[field].take();
        if values.get(step.id.as_str()).is_none() {
            values[step.id.as_str()] = describe(step);
        }
        values
    }

    /// The output of the last poll of the visit.
    fn find_last_output(&mut self) -> Option<Value> {
        let digest = self.builder.execution.notes.get(self.scope.visit_id?)?.last_output?;
        self.find_value(ValueReference::by_digest(digest)).map(|value| Value::clone(&value))
    }

    /// The failure of the visit that a hook or compensation belongs to, or else the failure that the execution will end
    /// with.
    fn find_handled_failure(&self) -> Option<Value> {
        let work_visit = self.hook_visit().map(VisitId::work_visit);
        let work_failure =
            work_visit.and_then(|visit_id| self.builder.find_visit_failure(&visit_id));
        let failing = || self.builder.execution.failing.as_ref().map(failure_value_with_step);
        work_failure.as_ref().map(failure_value_with_step).or_else(failing)
    }

    /// The visit that is evaluated for, if it is that of a hook or a compensation.
    fn hook_visit(&self) -> Option<&VisitId> {
        let visit_id = self.scope.visit_id?;
        (visit_id.body != BodyKind::Work).then_some(visit_id)
    }

    /// The status of the step that a hook belongs to; for compensations and hooks of the workflow the state that the
    /// execution will end in.
    fn hook_outcome(&self, visit_id: &VisitId) -> &'static str {
        let execution = &self.builder.execution;
        let execution_status = execution.ending_state().unwrap_or(execution.state).as_str();
        match (&visit_id.step, visit_id.body) {
            (None, _) | (_, BodyKind::Compensation) => execution_status,
            (Some(id), _) => {
                execution.find_step(id).map_or(execution_status, |(_, step)| step.status.as_str())
            }
        }
    }

    /// The output of the visit that a hook or a compensation belongs to; for a hook of the workflow the final output.
    fn find_hook_output(&mut self) -> Option<Value> {
        let visit_id = self.hook_visit()?;
        if let Some(own) = self.scope.own_output {
            return Some(own.clone());
        }
        let execution = &self.builder.execution;
        let need = match &visit_id.step {
            None => ValueReference::by_digest(execution.final_output?),
            Some(id) => self.builder.execution.find_output_reference(id)?,
        };
        self.find_value(need).map(|value| Value::clone(&value))
    }
}

/// How often a step was entered.
fn visit_count_value(step: &StepState) -> Value {
    json!(step.latest_visit().map_or(0, |visit| visit.number))
}

/// The status of a step, and its failure.
fn step_end_value(step: &StepState) -> Value {
    json!({ "status": step.status, ERROR_KEY: step.failure().map(failure_value) })
}

/// A failure as expressions see it.
fn failure_value(failure: &Failure) -> Value {
    let response = failure.response.as_deref();
    let payload = response.and_then(|response| response.payload.as_ref());
    json!({
        "code": failure.code,
        "message": failure.message,
        "status": response.map(|response| response.status),
        "response_payload": payload.map(JsonText::value),
    })
}

/// A failure as expressions see it, with the step it began in.
fn failure_value_with_step(failure: &Failure) -> Value {
    let mut value = failure_value(failure);
    value["step"] = json!(failure.step);
    value
}

impl TransitionBuilder<'_> {
    /// Turns an evaluation fault into a failure of the step, or of the workflow as a whole.
    fn fault_to_failure(
        &self,
        fault: &ExpressionFault,
        source: &str,
        scope: &VisitScope<'_>,
    ) -> Interrupt {
        let location = match fault.place.as_slice() {
            _ if !source.is_empty() => format!(" in `{source}`"),
            [] => String::new(),
            place => format!(" in `{}`", to_dotted_path(place)),
        };
        // The step's own output exists here, so a missing value below it is not explained by the status of the step.
        let own_step = scope.own_output.and(scope.visit_id).and_then(|own| own.step.as_ref());
        let why =
            fault.path.as_deref().and_then(|path| self.explain_missing_output(path, own_step));
        let message = format!("{}{}{location}", fault.message, why.unwrap_or_default());
        let step = scope.visit_id.and_then(|visit_id| visit_id.step.as_ref());
        Interrupt::Failed(Failure::new(FailureCode::ExpressionFailed, message, step))
    }

    /// Why the step that this path names has no output, as a suffix for the message.
    fn explain_missing_output(
        &self,
        path: &str,
        own_step: Option<&StepId>,
    ) -> Option<&'static str> {
        let rest = path.strip_prefix("steps.")?;
        let is_named = |id: &str| {
            let suffix = rest.strip_prefix(id);
            suffix.is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']))
        };
        let mut steps = self.execution.steps.iter();
        let step = steps.find(|step| is_named(step.id.as_str()))?;
        if own_step == Some(&step.id) {
            return None;
        }
        Some(match step.status {
            StepStatus::Skipped => " (it was skipped)",
            StepStatus::Failed => " (it failed)",
            StepStatus::Running => " (it is not done yet)",
            StepStatus::Pending if step.visits.is_empty() => " (it was not reached)",
            StepStatus::Pending => " (it is to be done again)",
            StepStatus::Completed => return None,
        })
    }
}
