//! Executions to store: each follows a workflow of steps one after another.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::store::{Commit, LoadedExecution, Position, RefusedCall, Store};
use midex_domain::{
    Decision, DecisionContext, DefaultSources, Definition, Event, Execution, ExecutionId, Row,
    Sequence, State, Token, Transition, WaitCondition,
    clock::{SeededIds, Timestamp},
    error::Result,
    execution::{Command, Report, StartArguments},
    label::Labels,
};

/// A script that moves one execution, with everything that the store must hold of it.
#[derive(Debug)]
pub struct Script {
    definition: Arc<Definition>,
    ids: SeededIds,
    seconds: i64,
    /// The id of the execution.
    pub id: ExecutionId,
    project: Option<String>,
    labels: Labels,
    inputs: Option<Value>,
    /// The execution as last stored; `None` before its first commit.
    pub execution: Option<Execution>,
    /// The position that the store returned last.
    pub position: Position,
    /// Every row that was stored, oldest first.
    pub rows: Vec<Row>,
    /// The keys of these rows in the sequence of the store.
    pub row_keys: Vec<Sequence>,
}

/// Parses the id of an execution.
pub fn execution_id(text: &str) -> ExecutionId {
    ExecutionId::parse(text).unwrap()
}

/// A definition with this number of steps, one after another.
pub fn build_definition(steps: usize) -> Arc<Definition> {
    build_named_definition("tale", steps)
}

/// Such a definition with the name `workflow`.
pub fn build_named_definition(workflow: &str, steps: usize) -> Arc<Definition> {
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

/// A refused call whose message has this number.
pub fn build_refusal(number: usize, id: Option<&ExecutionId>) -> RefusedCall {
    RefusedCall {
        at: Timestamp::from_milliseconds(7),
        execution_id: id.cloned(),
        step: None,
        code: "TOKEN_EXPIRED".into(),
        message: format!("refused {number}"),
    }
}

impl Script {
    /// Continues with the state of a store, also if that was refused or unknown to this script.
    pub fn adopt_stored(&mut self, history: Vec<Row>, stored: Option<LoadedExecution>) {
        self.rows = history;
        let position = stored.as_ref().map(|stored| stored.position);
        self.position = position.unwrap_or_default();
        self.execution = stored.map(|stored| stored.execution);
    }

    /// A script of an execution with this number of steps.
    pub fn new(name: &str, steps: usize) -> Self {
        Self::with_definition(name, build_definition(steps))
    }

    /// A script of an execution that follows `definition`.
    pub fn with_definition(name: &str, definition: Arc<Definition>) -> Self {
        Self {
            definition,
            ids: SeededIds::new(1),
            seconds: 1_700_000_000,
            id: execution_id(name),
            project: None,
            labels: Labels::new(),
            inputs: None,
            execution: None,
            position: Position::default(),
            rows: Vec::new(),
            row_keys: Vec::new(),
        }
    }

    /// A script whose tokens and ids depend on `seed`.
    pub fn with_seed(name: &str, steps: usize, seed: u64) -> Self {
        Self { ids: SeededIds::new(seed), ..Self::new(name, steps) }
    }

    /// A script with the same progress, for a copy of the store.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self {
            definition: Arc::clone(&self.definition),
            ids: SeededIds::new(2),
            seconds: self.seconds,
            id: self.id.clone(),
            project: self.project.clone(),
            labels: self.labels.clone(),
            inputs: self.inputs.clone(),
            execution: self.execution.clone(),
            position: self.position,
            rows: self.rows.clone(),
            row_keys: self.row_keys.clone(),
        }
    }

    /// The same script, whose execution is started for `project`.
    #[must_use]
    pub fn with_project(mut self, project: Option<&str>) -> Self {
        self.project = project.map(str::to_owned);
        self
    }

    /// The same script, whose execution has this label.
    #[must_use]
    pub fn with_label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same script, whose execution is started with these inputs.
    #[must_use]
    pub fn with_inputs(mut self, inputs: Value) -> Self {
        self.inputs = Some(inputs);
        self
    }

    /// Makes the next transition happen after this second.
    pub fn set_second(&mut self, second: i64) {
        self.seconds = second;
    }

    fn build_context(&self) -> DecisionContext<'_> {
        DecisionContext::new(&self.definition, Duration::from_secs(86_400))
    }

    /// Decides the next transition: the start, or the completion of the open step with `summary`.
    pub fn build_transition(&mut self, summary: &str) -> Transition {
        self.seconds += 1;
        let now = Timestamp::from_milliseconds(self.seconds * 1000);
        let Some(execution) = &self.execution else {
            let start = StartArguments {
                id: self.id.clone(),
                project: self.project.clone(),
                inputs: self.inputs.clone(),
                defaults: DefaultSources::default(),
                parent: None,
                lookup: None,
                is_paced: false,
                labels: self.labels.clone(),
            };
            return Execution::start(self.build_context(), start, now, &self.ids).unwrap();
        };
        let (_, step, visit) = execution.open_visits().next().unwrap();
        let Some(WaitCondition::Model(grant)) = visit.awaiting else {
            panic!("the step waits for a model");
        };
        let command = Command::Advance {
            token: Token::new(self.id.clone(), step.id.clone(), grant),
            submission: Arc::new(Report::Output(json!({ "summary": summary })).into()),
        };
        match execution.decide(self.build_context(), &command, now, &self.ids) {
            Ok(Decision::Transition(transition)) => *transition,
            other => panic!("{other:?}"),
        }
    }

    /// The commit of a transition of this execution.
    pub fn build_commit(&self, transition: Transition) -> Commit {
        Commit {
            execution: Arc::new(transition.execution),
            row: Arc::new(transition.row),
            contents: transition.contents,
            due: None,
            position: self.position,
            past: None,
        }
    }

    /// Stores the next transition.
    pub async fn commit_step(&mut self, store: &dyn Store) -> Result<Sequence> {
        self.commit_output(store, "done").await
    }

    /// Stores the next transition, with `summary` as the output of a step.
    pub async fn commit_output(&mut self, store: &dyn Store, summary: &str) -> Result<Sequence> {
        let transition = self.build_transition(summary);
        let commit = self.build_commit(transition);
        self.store_commit(store, commit).await
    }

    /// Stores a change of the state of the execution, from any state to any other.
    pub async fn commit_state(&mut self, store: &dyn Store, to: State) -> Result<Sequence> {
        let commit = self.build_state_commit(to);
        self.store_commit(store, commit).await
    }

    /// The commit of a change of the state of the execution.
    pub fn build_state_commit(&mut self, to: State) -> Commit {
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

    /// Stores `commit`, and continues from it if the store accepts it.
    pub async fn store_commit(&mut self, store: &dyn Store, commit: Commit) -> Result<Sequence> {
        let (next, row) = (commit.execution.clone(), commit.row.clone());
        let committed = store.commit(commit).await?;
        self.rows.push(Row::clone(&row));
        self.row_keys.push(committed.row);
        self.execution = Some(Execution::clone(&next));
        self.position = committed.position;
        Ok(committed.row)
    }

    /// Stores this number of transitions.
    pub async fn commit_steps(&mut self, store: &dyn Store, count: usize) {
        for _ in 0..count {
            self.commit_step(store).await.unwrap();
        }
    }

    /// Checks that the store holds the execution and the rows of this script.
    pub async fn check_store(&self, store: &dyn Store) {
        let stored = store.load(&self.id).await.unwrap().unwrap();
        assert_eq!(Some(&stored.execution), self.execution.as_ref(), "{}", self.id);
        let history = store.load_history(&self.id).await.unwrap();
        assert_eq!(history, self.rows, "{}", self.id);
        let replayed = Execution::replay(&history);
        assert_eq!(replayed, self.execution, "{}", self.id);
    }
}
