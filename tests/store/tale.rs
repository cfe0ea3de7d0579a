//! Executions to store: a workflow of steps one after another, moved step by step.

use std::{sync::Arc, time::Duration};

use midex_domain::{
    Decision, DecisionContext, DefaultSources, Definition, Event, Execution, ExecutionId, Row,
    Sequence, State, Token, Transition, WaitCondition,
    clock::{SeededIds, Timestamp},
    error::Result,
    execution::{Command, Report, StartArguments},
};
use midex_engine::store::{Commit, LoadedExecution, Position, RefusedCall, Store};
use serde_json::{Value, json};

/// An execution on its way, and the store's word on where it stands.
pub(crate) struct Tale {
    definition: Arc<Definition>,
    ids: SeededIds,
    seconds: i64,
    pub(crate) id: ExecutionId,
    project: Option<String>,
    pub(crate) execution: Option<Execution>,
    pub(crate) position: Position,
    /// Every row stored, as it should be found.
    pub(crate) rows: Vec<Row>,
    /// Where they lie among those of all executions.
    pub(crate) places: Vec<Sequence>,
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::parse(text).unwrap()
}

pub(crate) fn definition(steps: usize) -> Arc<Definition> {
    definition_of("tale", steps)
}

pub(crate) fn definition_of(workflow: &str, steps: usize) -> Arc<Definition> {
    let step = |at: usize| {
        let before: Vec<_> = at.checked_sub(1).map(|at| format!("s{at}")).into_iter().collect();
        json!({ "id": format!("s{at}"), "depends_on": before, "kind": { "agent": { "agent": "writer" } } })
    };
    let steps: Vec<Value> = (0..steps).map(step).collect();
    let text = json!({
        "workflow": { "name": workflow, "description": "One step after another", "steps": steps },
        "personas": { "writer": { "name": "writer", "content": "You write." } },
    });
    Arc::new(Definition::decode(text.to_string().as_bytes()).unwrap())
}

pub(crate) fn refusal(number: usize, id: Option<&ExecutionId>) -> RefusedCall {
    RefusedCall {
        at: Timestamp::from_milliseconds(7),
        execution_id: id.cloned(),
        step: None,
        code: "TOKEN_EXPIRED".into(),
        message: format!("refused {number}"),
    }
}

impl Tale {
    /// Goes on from what a store has, after a process that was cut off.
    pub(crate) fn take(&mut self, history: Vec<Row>, stored: Option<LoadedExecution>) {
        self.rows = history;
        let position = stored.as_ref().map(|stored| stored.position);
        self.position = position.unwrap_or_default();
        self.execution = stored.map(|stored| stored.execution);
    }

    pub(crate) fn new(name: &str, steps: usize) -> Self {
        Self::with(name, definition(steps))
    }

    pub(crate) fn with(name: &str, definition: Arc<Definition>) -> Self {
        Self {
            definition,
            ids: SeededIds::new(1),
            seconds: 1_700_000_000,
            id: id(name),
            project: None,
            execution: None,
            position: Position::default(),
            rows: Vec::new(),
            places: Vec::new(),
        }
    }

    /// One whose ids are others than those of an earlier process.
    pub(crate) fn seeded(name: &str, steps: usize, seed: u64) -> Self {
        Self { ids: SeededIds::new(seed), ..Self::new(name, steps) }
    }

    /// The same at the same place, to go on in another store.
    pub(crate) fn again(&self) -> Self {
        Self {
            definition: Arc::clone(&self.definition),
            ids: SeededIds::new(2),
            seconds: self.seconds,
            id: self.id.clone(),
            project: self.project.clone(),
            execution: self.execution.clone(),
            position: self.position,
            rows: self.rows.clone(),
            places: self.places.clone(),
        }
    }

    /// One that is started for `project`.
    pub(crate) fn of(mut self, project: Option<&str>) -> Self {
        self.project = project.map(str::to_owned);
        self
    }

    fn facts(&self) -> DecisionContext<'_> {
        DecisionContext::new(&self.definition, Duration::from_secs(86_400))
    }

    /// The next transition: the start, or the open step done with `summary`.
    pub(crate) fn transition(&mut self, summary: &str) -> Transition {
        self.seconds += 1;
        let now = Timestamp::from_milliseconds(self.seconds * 1000);
        let Some(execution) = &self.execution else {
            let start = StartArguments {
                id: self.id.clone(),
                project: self.project.clone(),
                inputs: None,
                defaults: DefaultSources::default(),
                parent: None,
                lookup: None,
            };
            return Execution::start(self.facts(), start, now, &self.ids).unwrap();
        };
        let (_, step, visit) = execution.open_visits().next().unwrap();
        let Some(WaitCondition::Model(grant)) = visit.awaiting else {
            panic!("the step waits for a model");
        };
        let command = Command::Advance {
            token: Token::new(self.id.clone(), step.id.clone(), grant),
            submission: Arc::new(Report::Output(json!({ "summary": summary })).into()),
        };
        match execution.decide(self.facts(), &command, now, &self.ids) {
            Ok(Decision::Transition(transition)) => *transition,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn commit_of(&self, transition: Transition) -> Commit {
        Commit {
            execution: Arc::new(transition.execution),
            row: Arc::new(transition.row),
            contents: transition.contents,
            due: None,
            position: self.position,
            past: None,
        }
    }

    /// Stores the next transition and becomes it.
    pub(crate) async fn step(&mut self, store: &dyn Store) -> Result<Sequence> {
        self.say(store, "done").await
    }

    pub(crate) async fn say(&mut self, store: &dyn Store, summary: &str) -> Result<Sequence> {
        let transition = self.transition(summary);
        let commit = self.commit_of(transition);
        self.keep(store, commit).await
    }

    /// Stores a change of state that no command of the domain brings about yet.
    pub(crate) async fn turn(&mut self, store: &dyn Store, to: State) -> Result<Sequence> {
        let commit = self.turning(to);
        self.keep(store, commit).await
    }

    pub(crate) fn turning(&mut self, to: State) -> Commit {
        self.seconds += 1;
        let before = self.execution.clone().unwrap();
        let row = Row {
            execution_id: self.id.clone(),
            revision: before.revision() + 1,
            at: Timestamp::from_milliseconds(self.seconds * 1000),
            events: vec![Event::StateChanged {
                from: before.state(),
                to,
                failure: None,
                steps_total: 1,
            }],
        };
        Commit {
            execution: Arc::new(Execution::apply_row(Some(before), &row).unwrap()),
            row: Arc::new(row),
            contents: Vec::new(),
            due: None,
            position: self.position,
            past: None,
        }
    }

    /// Stores `commit` and becomes what it says.
    pub(crate) async fn keep(&mut self, store: &dyn Store, commit: Commit) -> Result<Sequence> {
        let (next, row) = (commit.execution.clone(), commit.row.clone());
        let committed = store.commit(commit).await?;
        self.rows.push(Row::clone(&row));
        self.places.push(committed.row);
        self.execution = Some(Execution::clone(&next));
        self.position = committed.position;
        Ok(committed.row)
    }

    pub(crate) async fn steps(&mut self, store: &dyn Store, count: usize) {
        for _ in 0..count {
            self.step(store).await.unwrap();
        }
    }

    /// The store holds what this tale says, by every way to ask.
    pub(crate) async fn check(&self, store: &dyn Store) {
        let stored = store.load(&self.id).await.unwrap().unwrap();
        assert_eq!(Some(&stored.execution), self.execution.as_ref(), "{}", self.id);
        let history = store.load_history(&self.id).await.unwrap();
        assert_eq!(history, self.rows, "{}", self.id);
        let replayed = Execution::replay(&history);
        assert_eq!(replayed, self.execution, "{}", self.id);
    }
}
