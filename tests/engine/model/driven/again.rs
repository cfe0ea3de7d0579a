//! Forks and rewinds of driven executions.

use midex_domain::{
    DecisionContext, DefaultSources, Execution, ExecutionId, StepId,
    clock::Clock,
    document::canonical_digest,
    error::Result,
    execution::{
        ForkArguments, ForkDecision, ForkPurpose, ForkSource, PastSearch, PastValues,
        RewindRequest, StartArguments, Values,
    },
    view::AdvanceReply,
};
use midex_engine::ForkRequest;
use serde_json::{Map, json};

use super::{Arc, BTreeSet, Pure, Subject, Value, ValueReference, Whole, find_value};

pub(in crate::model) trait Again: Subject + Sized {
    /// A fork of it, which begins at a step, or where it stopped.
    async fn fork(&self, from: Option<&str>, is_retry: bool) -> Result<(Self, AdvanceReply)>;
    async fn rewind(&mut self, to: &str) -> Result<()>;
}

impl Pure {
    /// What the engine would look up for a fork.
    fn look_up_to_fork(&self, need: &ValueReference) -> Arc<Value> {
        let found = self.contents.get(&need.digest).cloned();
        found.or_else(|| find_value(&self.rows, need)).expect("a row has it")
    }
}

impl Again for Pure {
    async fn fork(&self, from: Option<&str>, is_retry: bool) -> Result<(Self, AdvanceReply)> {
        let arguments = ForkArguments {
            start: StartArguments {
                id: ExecutionId::generate(self.clock.now(), &*self.ids),
                project: None,
                inputs: None,
                defaults: DefaultSources::default(),
                parent: None,
                lookup: None,
                is_paced: false,
                labels: midex_domain::label::Labels::new(),
            },
            from_step: from.map(StepId::parse).transpose()?,
            inputs: Map::new(),
            memory: Map::new(),
            purged_inputs: BTreeSet::new(),
            repeats_unknown: false,
            purpose: if is_retry { ForkPurpose::Retry } else { ForkPurpose::Fork },
            approved_children: BTreeSet::new(),
            continues_children: false,
            call: canonical_digest(&json!(from)),
        };
        let source = ForkSource {
            definition: &self.definition,
            rows: &self.rows,
            latest: Some(self.execution()),
            current: self.execution(),
        };
        let mut known = Values::new();
        let transition = loop {
            let facts = DecisionContext { values: &known, ..self.facts() };
            match Execution::fork(source, facts, &arguments, self.clock.now(), &*self.ids)? {
                ForkDecision::Planned(_, transition) => {
                    break transition.expect("outputs that fit");
                }
                ForkDecision::MissingValues(needs) => {
                    known
                        .extend(needs.iter().map(|need| (need.digest, self.look_up_to_fork(need))));
                }
            }
        };
        let mut fork = Self {
            ids: self.ids.clone(),
            contents: self.contents.clone(),
            ..Self::new(self.definition.clone(), self.clock)
        };
        let answer = fork.become_next(*transition)?;
        Ok((fork, answer))
    }

    async fn rewind(&mut self, to: &str) -> Result<()> {
        let to_step = StepId::parse(to)?;
        let execution = self.execution();
        let mut past = PastValues::default();
        if let Some(visit_id) = execution.latest_visit_id(&to_step) {
            let rows: Vec<_> = self.rows.iter().collect();
            let reset = self.definition.steps_after(&to_step);
            past = match execution.find_past_values(&self.definition, &rows, &visit_id, &reset) {
                PastSearch::Found(past) => past,
                PastSearch::Inherited => return Err(execution.inherited_step_error(&to_step)),
                PastSearch::NeedsOlderRows => panic!("all rows are there"),
            };
        }
        let request = RewindRequest { to_step, reason: None, compensates: false, past };
        self.command(&request.into()).map(drop)
    }
}

impl Again for Whole {
    async fn fork(&self, from: Option<&str>, is_retry: bool) -> Result<(Self, AdvanceReply)> {
        let request = ForkRequest {
            from_step: from.map(StepId::parse).transpose()?,
            is_retry,
            ..ForkRequest::new(self.id.clone())
        };
        let (_, answer) = self.engine.fork(request).await?;
        let id = ExecutionId::parse(&answer.execution_id)?;
        Ok((self.beside(id, self.definition.clone()), answer))
    }

    async fn rewind(&mut self, to: &str) -> Result<()> {
        let to_step = StepId::parse(to)?;
        let request = RewindRequest {
            to_step,
            reason: None,
            compensates: false,
            past: PastValues::default(),
        };
        let view = self.engine.rewind(&self.id, request).await?;
        assert_eq!(view.status, self.state().await, "the answer is the status");
        Ok(())
    }
}
