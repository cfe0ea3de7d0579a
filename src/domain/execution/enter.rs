//! Entering a step, by its kind.

use serde_json::{Value, json};

use super::{
    Awaiting, Begin, Effect, Event, Failure, Fence, Need, Outcome, Payload, Site, Skipped,
    decision::{Flow, Halt},
    draft::Draft,
    scope::Here,
};
use crate::{
    clock::Timestamp,
    domain::{
        FailureCode,
        definition::{Arm, Next, Plan, Step, StepKind, Wait},
        document::plain,
        expression::Rendered,
        failure::cut_message,
        span::Span,
        token::Grant,
    },
    error::Error,
    limits,
};

impl Draft<'_> {
    /// Enters a step. What goes wrong in that is the step's own failure.
    pub(super) fn enter(&mut self, position: usize) -> Flow<()> {
        let state = &self.next.steps[position];
        let site = Site {
            step: state.id.clone(),
            visit: state.visits.last().map_or(1, |visit| visit.number + 1),
            item: None,
        };
        match self
            .try_enter(position, &site)
            .map_err(|halt| halt.within(&site))
        {
            Err(Halt::Fails(failure)) => self.done(position, site, &Outcome::Failed(failure)),
            entered => entered,
        }
    }

    fn try_enter(&mut self, position: usize, site: &Site) -> Flow<()> {
        let (step, plan) = (self.step(position), self.facts.definition.plan(position));
        let here = Here::of(site);
        can_be_computed(plan, step)?;
        if let Some(condition) = &plan.condition
            && !self.holds(condition, &here)?
        {
            self.skip(position, Skipped::Condition);
            return Ok(());
        }
        self.check_visits(step, site)?;
        self.act(position, step, plan, site, &here)
    }

    /// Begins what a step does, or what a `foreach` does with an item.
    pub(super) fn act(
        &mut self,
        position: usize,
        step: &Step,
        plan: &Plan,
        site: &Site,
        here: &Here<'_>,
    ) -> Flow<()> {
        let brief = self.render_marked(&plan.brief, here)?;
        match &step.kind {
            StepKind::Set { .. } => self.set(position, site, brief.value),
            StepKind::Branch { arms } => self.branch(position, site, arms, plan, here),
            StepKind::Fail { code, .. } => self.fail_as_told(position, site, code, &brief.value),
            StepKind::Wait(wait) => self.wait(position, site, wait, &brief.value),
            StepKind::Gate { expires, .. } => self.gate(site, *expires, brief.value),
            StepKind::Foreach { .. } => self.fan_out(position, site, plan, here),
            StepKind::Input { .. } | StepKind::Extract { .. } => {
                self.ask(position, step, site, brief.value)
            }
            _ => self.open_work(step, plan, site, brief),
        }
    }

    fn check_visits(&self, step: &Step, site: &Site) -> Flow<()> {
        let workflow = &self.facts.definition.workflow;
        let most = step
            .max_visits
            .or(workflow.max_visits)
            .unwrap_or(limits::VISITS_DEFAULT);
        if site.visit > most {
            let message = format!(
                "step '{}' may be entered {most} times and was to be entered once more",
                step.id
            );
            return Err(Halt::fails(step, FailureCode::MaxVisits, message));
        }
        let most = workflow
            .max_steps
            .unwrap_or(limits::EXECUTION_VISITS_DEFAULT);
        if self.next.visits >= most {
            let message = format!("the steps of an execution may be entered {most} times together");
            return Err(Halt::fails(step, FailureCode::MaxSteps, message));
        }
        Ok(())
    }

    /// A step that came to its end at once, and where control goes from it.
    fn done_to(
        &mut self,
        position: usize,
        site: Site,
        outcome: Outcome,
        next: Option<&Next>,
    ) -> Flow<()> {
        if self.is_done(position, site, outcome)? {
            self.go(position, next);
        }
        Ok(())
    }

    pub(super) fn done_with(&mut self, position: usize, site: &Site, output: Value) -> Flow<()> {
        let payload = self.keep(output, limits::OUTPUT_BYTES_MAX, "output")?;
        self.done(position, site.clone(), &Outcome::Completed(payload))
    }

    fn set(&mut self, position: usize, site: &Site, mut brief: Value) -> Flow<()> {
        let entries = brief["set"].take();
        for (name, value) in entries.as_object().into_iter().flatten() {
            self.remember(name, value.clone())?;
        }
        self.done_with(position, site, entries)
    }

    /// Memory is written.
    pub(super) fn remember(&mut self, name: &str, value: Value) -> Flow<()> {
        let value = self.keep_apart(value, limits::MEMORY_VALUE_BYTES_MAX, "value for memory")?;
        if self.next.memory.get(name) != Some(&value.digest) {
            let name = name.to_owned();
            self.push(Event::MemoryWritten { name, value });
        }
        Ok(())
    }

    /// What memory holds at the start.
    pub(super) fn fill_memory(&mut self) -> Flow<()> {
        let here = Here::outside();
        let memory = self.render(&self.facts.definition.whole().memory, &here);
        let memory = match memory {
            Err(Halt::Fails(failure)) => return self.fail(failure),
            memory => memory?,
        };
        for (name, value) in memory.as_object().into_iter().flatten() {
            self.remember(name, value.clone())?;
        }
        Ok(())
    }

    fn branch(
        &mut self,
        position: usize,
        site: &Site,
        arms: &[Arm],
        plan: &Plan,
        here: &Here<'_>,
    ) -> Flow<()> {
        let mut taken = None;
        for (at, (arm, condition)) in arms.iter().zip(&plan.arms).enumerate() {
            let holds = match condition {
                Some(condition) => self.holds(condition, here)?,
                None => true,
            };
            if holds {
                taken = Some((at, &arm.next));
                break;
            }
        }
        let next = taken
            .map(|(_, next)| next)
            .or(self.step(position).next.as_ref());
        let chosen = next.map(|next| match next {
            Next::Step(step) => step.as_str(),
            Next::End => "$end",
        });
        let output = json!({ "arm": taken.map(|(at, _)| at), "next": chosen });
        let output = self.keep(output, limits::OUTPUT_BYTES_MAX, "output")?;
        self.done_to(position, site.clone(), Outcome::Completed(output), next)
    }

    fn fail_as_told(
        &mut self,
        position: usize,
        site: &Site,
        code: &str,
        brief: &Value,
    ) -> Flow<()> {
        let message = plain(&brief["message"]);
        let failure = Failure {
            code: code.to_owned(),
            message: cut_message(&message),
            step: Some(site.step.clone()),
            item: None,
        };
        if site.item.is_some() {
            return self.done(position, site.clone(), &Outcome::Failed(failure));
        }
        let (site, outcome) = (site.clone(), Outcome::Failed(failure.clone()));
        self.push(Event::StepDone { site, outcome });
        self.queue_dependents(position);
        self.fail(failure)
    }

    fn wait(&mut self, position: usize, site: &Site, wait: &Wait, brief: &Value) -> Flow<()> {
        let step = self.step(position);
        let said = plain(&brief["wait"]);
        let due = match wait {
            Wait::Signal(_) => return self.wait_for_signal(position, site, said),
            Wait::For(_) => said
                .parse()
                .map(|span: Span| self.row.at.after(span.duration()))
                .map_err(|fault| fault.to_string()),
            Wait::Until(_) => said.parse::<Timestamp>().map_err(|_| {
                format!(
                    "`{}` is not an instant: write one like 2030-01-31T09:00:00Z",
                    shown(&said)
                )
            }),
        };
        let due = due.map_err(|fault| Halt::fails(step, FailureCode::WaitInvalid, fault))?;
        if due <= self.row.at {
            return self.done_with(position, site, waited(due));
        }
        self.open(site.clone(), Awaiting::Timer { due }, None);
        Ok(())
    }

    fn wait_for_signal(&mut self, position: usize, site: &Site, name: String) -> Flow<()> {
        let kept = self.next.signals.iter().find(|signal| signal.name == name);
        let Some(payload) = kept.map(|signal| signal.payload) else {
            self.open(site.clone(), Awaiting::Signal { name }, None);
            return Ok(());
        };
        let payload = self.wanted(Need {
            digest: payload,
            row: None,
        })?;
        self.push(Event::SignalTaken { name });
        self.done_with(position, site, Value::clone(&payload))
    }

    fn gate(&mut self, site: &Site, expires: Option<Span>, mut brief: Value) -> Flow<()> {
        // Two items may ask the same: an answer is to one of them.
        if let Some(item) = site.item {
            brief["item"] = json!(item);
        }
        let input = self.keep_apart(brief, limits::INPUTS_BYTES_MAX, "question")?;
        let due = expires.map(|span| self.row.at.after(span.duration()));
        let shown = input.digest;
        self.open(site.clone(), Awaiting::Gate { shown, due }, Some(input));
        Ok(())
    }

    /// A step, or an item, that a model or the server works on.
    pub(super) fn open_work(
        &mut self,
        step: &Step,
        plan: &Plan,
        site: &Site,
        mut brief: Rendered,
    ) -> Flow<()> {
        if step.kind.is_of_model() {
            // What is always the same is read off the definition.
            let input = if plan.brief.is_constant() {
                None
            } else {
                Some(self.keep_brief(brief.value)?)
            };
            let awaiting = Awaiting::Model(Grant::issue(self.row.at, self.ids));
            self.open(site.clone(), awaiting, input);
            return Ok(());
        }
        if matches!(step.kind, StepKind::Activity { .. }) && brief.value.get("with").is_none() {
            brief.value["with"] = self.data_before(site)?;
        }
        let rendered = serde_json::to_value(&brief)
            .map_err(|error| Error::internal("an input cannot be written").because(error))?;
        let input = self.keep_brief(rendered)?;
        self.open(site.clone(), Awaiting::Operation, Some(input));
        let fence = Fence {
            site: site.clone(),
            attempt: 1,
        };
        self.begin_work(step, fence, brief);
        Ok(())
    }

    pub(super) fn keep_brief(&mut self, brief: Value) -> Flow<Payload> {
        Ok(self.keep_apart(brief, limits::INPUTS_BYTES_MAX, "input of a step")?)
    }

    pub(super) fn begin_work(&mut self, step: &Step, fence: Fence, input: Rendered) {
        self.effects.push(Effect::Begin(Box::new(Begin {
            fence,
            kind: step.kind.clone(),
            input,
            timeout: step.timeout.map(Span::duration),
        })));
    }
}

/// The output of a timer.
pub(super) fn waited(due: Timestamp) -> Value {
    json!({ "due": due.to_string() })
}

fn shown(text: &str) -> String {
    text.chars().take(limits::SPAN_SHOWN_CHARS).collect()
}

/// Refuses to act on what cannot be compiled.
pub(super) fn can_be_computed(plan: &Plan, step: &Step) -> Flow<()> {
    match plan.broken() {
        None => Ok(()),
        Some(text) => Err(Halt::fails(
            step,
            FailureCode::ExpressionFailed,
            format!("`{text}` is not an expression"),
        )),
    }
}
