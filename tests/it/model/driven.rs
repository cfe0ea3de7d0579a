//! What is driven: the pure domain, or the whole engine.

use std::{collections::BTreeMap, sync::Arc};

use midex::{
    clock::{Clock, SeededIds, TokioClock},
    domain::{
        Change, Command, Decision, DefaultSources, Definition, Execution, ExecutionId, Facts,
        JournalKey, Row, Token, Transition,
        execution::{Report, Start, Values},
        view::{self, Advanced, Outputs, StatusView},
    },
    engine::{Engine, StartRequest},
    error::Result,
    limits,
    store::Store,
};
use serde_json::json;

use crate::support;

/// Something that runs one execution: the pure domain, or the whole engine.
pub(super) trait Subject {
    async fn start(&mut self, id: &str, same: bool) -> Result<Advanced>;
    async fn advance(&mut self, token: &str, report: Report) -> Result<Advanced>;
    /// The tokens of all open steps by step, renewed where they have expired; and the revision.
    async fn read(&mut self) -> (BTreeMap<String, String>, u64);
    async fn state(&mut self) -> StatusView;
    async fn change(&mut self, change: Change) -> Result<()>;
    async fn restart(&mut self);
}

pub(super) const ID: &str = "modelled execution";

pub(super) fn inputs(same: bool) -> serde_json::Value {
    json!({ "same": same })
}

/// The domain alone: decide, apply, answer from the row.
pub(super) struct Pure {
    pub(super) definition: Arc<Definition>,
    pub(super) clock: TokioClock,
    pub(super) ids: SeededIds,
    pub(super) execution: Option<Execution>,
    pub(super) rows: Vec<Row>,
}

static NO_VALUES: Values = Values::new();

impl Pure {
    fn facts(&self) -> Facts<'_> {
        Facts::new(&self.definition, limits::TOKEN_TTL)
    }

    fn become_next(&mut self, transition: Transition) -> Result<Advanced> {
        let key = JournalKey(self.rows.len() as u64);
        let before = self.execution.take();
        let mut next = Execution::advance(before, &transition.row).expect("events apply");
        assert_eq!(
            next, transition.next,
            "the events say all that the transition does"
        );
        next.settle(key);
        self.rows.push(transition.row);
        self.execution = Some(next);
        match transition.refusal {
            Some(refusal) => Err(refusal),
            None => Ok(self.answer(key, false)),
        }
    }

    fn answer(&self, key: JournalKey, replayed: bool) -> Advanced {
        let row = &self.rows[usize::try_from(key.0).expect("a small key")];
        let outputs = self.outputs(row.revision);
        view::advanced(&self.subject(&outputs), row, replayed)
    }

    fn subject<'a>(&'a self, outputs: &'a Outputs) -> view::Subject<'a> {
        view::Subject {
            definition: &self.definition,
            execution: self.execution.as_ref().expect("an execution"),
            outputs,
            values: &NO_VALUES,
            ttl: limits::TOKEN_TTL,
        }
    }

    /// Every output as of `revision`, read off the rows.
    fn outputs(&self, revision: u64) -> Outputs {
        let rows = self.rows.iter().filter(|row| row.revision <= revision);
        let position = |step| self.definition.graph().position(step).expect("a step");
        rows.flat_map(|row| &row.events)
            .filter_map(|event| {
                let (site, payload) = event.output()?;
                let value = payload.inline.as_ref()?.value();
                Some((
                    position(&site.step),
                    view::Shortened::of(&value, usize::MAX),
                ))
            })
            .collect()
    }

    fn command(&mut self, command: &Command) -> Result<Option<Advanced>> {
        let execution = self.execution.as_ref().expect("an execution");
        match execution.decide(self.facts(), command, self.clock.now(), &self.ids)? {
            Decision::Move(transition) => self.become_next(*transition).map(Some),
            Decision::Replay(key) => Ok(Some(self.answer(key, true))),
            Decision::Stay => Ok(None),
            Decision::Need(needs) => panic!("{needs:?}"),
        }
    }
}

impl Subject for Pure {
    async fn start(&mut self, id: &str, same: bool) -> Result<Advanced> {
        let start = Start {
            id: ExecutionId::parse(id)?,
            project: None,
            inputs: Some(inputs(same)),
            defaults: DefaultSources::default(),
        };
        if let Some(execution) = &self.execution {
            execution
                .restart(&self.definition, &start)
                .map(|key| self.answer(key, true))
        } else {
            let transition = Execution::start(self.facts(), start, self.clock.now(), &self.ids)?;
            self.become_next(transition)
        }
    }

    async fn advance(&mut self, token: &str, report: Report) -> Result<Advanced> {
        let command = Command::Advance {
            token: Token::parse(token)?,
            report: Arc::new(report),
        };
        self.command(&command)
            .map(|answer| answer.expect("an advance moves or replays"))
    }

    async fn read(&mut self) -> (BTreeMap<String, String>, u64) {
        self.command(&Command::RenewTokens)
            .expect("renewal is never refused");
        let outputs = self.outputs(u64::MAX);
        let current = view::current_step(&self.subject(&outputs), None);
        (tokens(&current), current.revision)
    }

    async fn state(&mut self) -> StatusView {
        view::status(&self.subject(&self.outputs(u64::MAX)))
    }

    async fn change(&mut self, change: Change) -> Result<()> {
        self.command(&Command::Change(change)).map(|_| ())
    }

    async fn restart(&mut self) {
        let rows = self
            .rows
            .iter()
            .enumerate()
            .map(|(at, row)| (JournalKey(at as u64), row));
        let rebuilt = Execution::replay(rows);
        assert_eq!(rebuilt, self.execution, "the journal rebuilds the state");
        self.execution = rebuilt;
    }
}

/// The whole engine, on a store in memory.
pub(super) struct Whole {
    pub(super) definition: Arc<Definition>,
    pub(super) clock: TokioClock,
    pub(super) store: Arc<dyn Store>,
    pub(super) engine: Engine,
    pub(super) seed: u64,
}

impl Subject for Whole {
    async fn start(&mut self, id: &str, same: bool) -> Result<Advanced> {
        let execution_id = Some(ExecutionId::parse(id)?);
        let definition = self.definition.clone();
        let request = StartRequest {
            definition,
            execution_id,
            project: None,
            inputs: Some(inputs(same)),
        };
        self.engine.start(request).await
    }

    async fn advance(&mut self, token: &str, report: Report) -> Result<Advanced> {
        self.engine.advance(token, report).await
    }

    async fn read(&mut self) -> (BTreeMap<String, String>, u64) {
        let id = ExecutionId::parse(ID).expect("an id");
        let current = self
            .engine
            .current_step(&id)
            .await
            .expect("the execution exists");
        (tokens(&current), current.revision)
    }

    async fn state(&mut self) -> StatusView {
        let id = ExecutionId::parse(ID).expect("an id");
        self.engine.status(&id).await.expect("the execution exists")
    }

    async fn change(&mut self, change: Change) -> Result<()> {
        let id = ExecutionId::parse(ID).expect("an id");
        let answered = self.engine.change(&id, change).await?;
        let status = self.engine.status(&id).await.expect("the execution exists");
        assert_eq!(answered, status, "the answer is the status");
        Ok(())
    }

    async fn restart(&mut self) {
        // As a crash: nobody is told, the old actors are simply never asked again.
        self.seed += 1;
        self.engine = support::engine(self.store.clone(), self.clock, self.seed).await;
    }
}

pub(super) fn tokens(current: &view::CurrentStep) -> BTreeMap<String, String> {
    let pair = |step: &view::ReadyStep| (step.step_name.clone(), step.continuation_token.clone());
    current.ready_steps.iter().map(pair).collect()
}
