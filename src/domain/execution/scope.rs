//! What expressions see of an execution.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    Failure, Need, Payload, Site, StepStatus,
    advance::cut_message,
    decide::{Flow, Halt},
    draft::Draft,
};
use crate::{
    domain::{
        FailureCode,
        expression::{
            EvaluationFault, Expression, Item, Reference, Rendered, Root, Roots, Template,
        },
        id::StepId,
    },
    limits,
};

/// Where something is evaluated.
pub(super) struct Here<'a> {
    pub(super) site: Option<&'a Site>,
    /// The output of the latest attempt, where the step's own is asked for.
    pub(super) own: Option<&'a Value>,
    /// The item of a `foreach`.
    pub(super) item: Option<Item>,
}

impl<'a> Here<'a> {
    /// In the workflow as a whole, outside of its steps.
    pub(super) const fn outside() -> Self {
        Self {
            site: None,
            own: None,
            item: None,
        }
    }

    pub(super) const fn of(site: &'a Site) -> Self {
        Self {
            site: Some(site),
            own: None,
            item: None,
        }
    }
}

/// S3's name of the inputs in memory.
const WORKFLOW_INPUT: &str = "__workflow_input__";

impl Draft<'_> {
    /// Whether a condition holds.
    pub(super) fn holds(&self, condition: &Expression, here: &Here<'_>) -> Flow<bool> {
        let roots = self.roots(condition.references(), here)?;
        condition
            .holds(&roots)
            .map_err(|fault| failed(&fault, condition.source(), here))
    }

    /// A value with its expressions filled in.
    pub(super) fn render(&self, template: &Template, here: &Here<'_>) -> Flow<Value> {
        self.render_marked(template, here)
            .map(|rendered| rendered.value)
    }

    /// The same, with the places where secrets belong.
    pub(super) fn render_marked(&self, template: &Template, here: &Here<'_>) -> Flow<Rendered> {
        let roots = self.roots(template.references(), here)?;
        let rendered = template.render_marked(&roots);
        rendered.map_err(|fault| failed(&fault, "", here))
    }

    /// What the workflow says that it came to. A fault in that is the failure of the execution.
    pub(super) fn final_output(&mut self) -> Flow<Result<Option<Payload>, Failure>> {
        let Some(template) = &self.facts.definition.whole().final_output else {
            return Ok(Ok(None));
        };
        let here = Here::outside();
        match self.render(template, &here) {
            Ok(value) => {
                let kept = self.keep_apart(value, limits::OUTPUT_BYTES_MAX, "final output");
                Ok(kept.map(Some).map_err(|error| Failure {
                    code: error.code().as_str().into(),
                    message: error.message().into(),
                    step: None,
                }))
            }
            Err(Halt::Fails(failure)) => Ok(Err(failure)),
            Err(halt) => Err(halt),
        }
    }

    /// S3's default input of an activity: what the steps before it brought, else what the execution was started with.
    pub(super) fn data_before(&self, site: &Site) -> Flow<Value> {
        let graph = self.facts.definition.graph();
        let before = graph
            .position(&site.step)
            .map(|at| graph.dependencies(at))
            .unwrap_or_default();
        let mut found = Map::new();
        let mut missing = Vec::new();
        for &at in before {
            let id = &self.next.steps[at].id;
            match self.output_of(id).map(|need| self.value(need)) {
                Some(Ok(value)) => drop(found.insert(id.to_string(), Value::clone(&value))),
                Some(Err(need)) => missing.push(need),
                None => {}
            }
        }
        if !missing.is_empty() {
            return Err(Halt::Needs(missing));
        }
        match (before.len(), found.len()) {
            (0, _) => self.inputs_now().map(Value::Object),
            (1, 1) => Ok(found
                .into_iter()
                .next()
                .map(|(_, value)| value)
                .unwrap_or_default()),
            _ => Ok(Value::Object(found)),
        }
    }

    /// The inputs as they stand.
    pub(super) fn inputs_now(&self) -> Flow<Map<String, Value>> {
        let Some(digest) = self.next.inputs else {
            return Ok(Map::new());
        };
        let inputs = self.wanted(Need { digest, row: None })?;
        Ok(inputs.as_object().cloned().unwrap_or_default())
    }

    /// The output that a step has now: none while it may be entered again.
    fn output_of(&self, id: &StepId) -> Option<Need> {
        let (_, step) = self.next.step(id)?;
        if step.status != StepStatus::Completed {
            return None;
        }
        let closed = step.visit()?.closed.as_ref()?;
        Some(Need {
            digest: closed.output?,
            row: closed.row,
        })
    }

    /// All that these references ask for.
    fn roots(&self, references: &[Reference], here: &Here<'_>) -> Flow<Roots> {
        let mut gathered = Gathered {
            draft: self,
            here,
            roots: Roots::default(),
            missing: Vec::new(),
        };
        for reference in references {
            gathered.take(reference);
        }
        let Gathered {
            mut roots, missing, ..
        } = gathered;
        if !missing.is_empty() {
            return Err(Halt::Needs(missing));
        }
        roots.item.clone_from(&here.item);
        Ok(roots)
    }
}

struct Gathered<'a, 'b> {
    draft: &'a Draft<'b>,
    here: &'a Here<'a>,
    roots: Roots,
    missing: Vec<Need>,
}

impl Gathered<'_, '_> {
    fn take(&mut self, reference: &Reference) {
        let first = reference
            .path
            .first()
            .map(|segment| segment.key().into_owned());
        match reference.root {
            Root::Inputs => self.input(first.as_deref()),
            Root::Steps => match first {
                Some(id) => self.step(&id),
                None => self.all_steps(),
            },
            Root::Memory => match first {
                Some(name) => self.memory(&name),
                None => self.all_memory(),
            },
            Root::Env => {
                let names = self
                    .draft
                    .facts
                    .env
                    .iter()
                    .map(|(name, value)| (name.clone(), json!(value)));
                self.roots.env = names.collect();
            }
            Root::Secrets => self.roots.secrets = self.draft.facts.secrets.to_vec(),
            Root::Run => self.roots.run = self.run(),
            Root::Item | Root::Index => {}
        }
    }

    fn value(&mut self, need: Need) -> Option<Arc<Value>> {
        let value = self.draft.value(need);
        value.map_err(|need| self.missing.push(need)).ok()
    }

    /// The input of this name. All of them where none is named, and where there is none of it: what a fault says of the
    /// name depends on those there are.
    fn input(&mut self, name: Option<&str>) {
        let Some(digest) = self.draft.next.inputs else {
            return;
        };
        let inputs = self.value(Need { digest, row: None });
        let Some(Value::Object(inputs)) = inputs.as_deref() else {
            return;
        };
        match name.and_then(|name| inputs.get_key_value(name)) {
            Some((name, value)) => {
                // One of them, which may be all by now.
                let known = self.roots.inputs.entry(name.clone());
                known.or_insert_with(|| value.clone());
            }
            None => self.roots.inputs.clone_from(inputs),
        }
    }

    fn step(&mut self, id: &str) {
        if let Some(value) = self.output(id) {
            self.roots.steps.insert(id.to_owned(), value);
        }
    }

    fn output(&mut self, id: &str) -> Option<Value> {
        let own = self
            .here
            .own
            .filter(|_| self.here.site.is_some_and(|site| site.step.as_str() == id));
        if let Some(own) = own {
            return Some(own.clone());
        }
        let id = StepId::parse(id).ok()?;
        let need = self.draft.output_of(&id)?;
        self.value(need).map(|value| Value::clone(&value))
    }

    fn all_steps(&mut self) {
        let ids: Vec<_> = self
            .draft
            .next
            .steps
            .iter()
            .map(|step| step.id.to_string())
            .collect();
        for id in ids {
            self.step(&id);
        }
    }

    /// What was written, else the output of the step of that name (S3).
    fn memory(&mut self, name: &str) {
        let found = match self.draft.next.memory.get(name) {
            Some(&digest) => self
                .value(Need { digest, row: None })
                .map(|value| Value::clone(&value)),
            None if name == WORKFLOW_INPUT => {
                self.input(None);
                Some(Value::Object(self.roots.inputs.clone()))
            }
            None => self.output(name),
        };
        if let Some(value) = found {
            self.roots.memory.insert(name.to_owned(), value);
        }
    }

    fn all_memory(&mut self) {
        let names: Vec<_> = self.draft.next.memory.keys().cloned().collect();
        for name in names {
            self.memory(&name);
        }
    }

    /// What the execution says of itself.
    fn run(&self) -> Value {
        let execution = &self.draft.next;
        let visits = execution.steps.iter().map(|step| {
            let count = step.visit().map_or(0, |visit| visit.number);
            (step.id.to_string(), json!(count))
        });
        let steps = execution.steps.iter().map(|step| {
            let failure = step
                .visit()
                .and_then(|visit| visit.closed.as_ref()?.failure.as_ref());
            let error =
                failure.map(|failure| json!({ "code": failure.code, "message": failure.message }));
            (
                step.id.to_string(),
                json!({ "status": step.status, "error": error }),
            )
        });
        let visit = self.here.site.map(|site| site.visit);
        json!({
            "execution_id": execution.id, "workflow": execution.workflow, "project": execution.project,
            "started_at": execution.started_at, "visit": visit,
            "step": self.here.site.map(|site| &site.step),
            "visits": visits.collect::<Map<_, _>>(), "steps": steps.collect::<Map<_, _>>(),
            "failure": execution.failing.as_ref().map(|failure| json!({ "code": failure.code, "message": failure.message, "step": failure.step })),
        })
    }
}

fn failed(fault: &EvaluationFault, source: &str, here: &Here<'_>) -> Halt {
    let wherein = if source.is_empty() {
        String::new()
    } else {
        format!(" in `{source}`")
    };
    let message = format!("{}{wherein}", fault.message);
    Halt::Fails(Failure {
        code: FailureCode::ExpressionFailed.into(),
        message: cut_message(&message),
        step: here.site.map(|site| site.step.clone()),
    })
}
