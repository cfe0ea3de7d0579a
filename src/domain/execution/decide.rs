//! What an execution would do at a command. Deciding changes nothing: the actor makes the transition
//! durable first, and then takes `next`.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    Awaiting, Change, Event, Execution, Row, State,
    draft::{Draft, payload, stored},
};
use crate::{
    clock::{IdSource, Timestamp},
    domain::{
        definition::Definition,
        document::{Digest, meaning},
        event::{Created, JournalKey},
        id::ExecutionId,
        token::{Grant, Token},
    },
    error::{Code, Error, Result},
    limits,
};

/// What a decision may look at besides the execution.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The definition that the execution keeps.
    pub definition: &'a Definition,
    /// How long a token lives.
    pub token_ttl: Duration,
}

/// What a new execution is started with.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its id.
    pub id: ExecutionId,
    /// The project it is started for.
    pub project: Option<String>,
    /// Its inputs: an object.
    pub inputs: Option<Value>,
}

/// A request to move an execution.
#[derive(Clone, Debug)]
pub enum Command {
    /// Finish the step visit that the token names.
    Advance {
        /// The right to do so.
        token: Token,
        /// What came of the step.
        report: Arc<Report>,
    },
    /// Replace the tokens that have expired.
    RenewTokens,
    /// Change the state.
    Change(Change),
}

/// What a model reports of its step.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The step's output.
    Output(Value),
    /// The step could not be done.
    Error {
        /// What happened.
        message: String,
        /// A stable name for it.
        code: Option<String>,
        /// Whether another attempt may succeed.
        retryable: Option<bool>,
    },
}

/// What [`Execution::decide`] answers.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Something happens: store it, become it, then answer.
    Move(Box<Transition>),
    /// This very call was answered before: answer from that row again.
    Replay(JournalKey),
    /// Nothing is to be done.
    Stay,
}

/// One step forward of one execution.
#[derive(Clone, Debug)]
pub struct Transition {
    /// The execution after it. Shares with its predecessor what did not change.
    pub next: Execution,
    /// What happened.
    pub row: Row,
    /// Content that the row refers to by digest.
    pub contents: Vec<(Digest, Arc<[u8]>)>,
    /// Where the call is refused although something happens: the answer, once the row is durable.
    pub refusal: Option<Error>,
}

impl Start {
    /// The meaning of a start's arguments, without the id.
    fn call(&self, definition: &Definition) -> Digest {
        meaning(&json!([definition.workflow.name, self.inputs]))
    }
}

impl Report {
    /// The meaning of the report.
    pub(super) fn call(&self) -> Digest {
        match self {
            Self::Output(value) => meaning(&json!(["output", value])),
            Self::Error {
                message,
                code,
                retryable,
            } => meaning(&json!(["error", message, code, retryable])),
        }
    }
}

impl Execution {
    /// The first transition of a new execution: created, started, and everything that is ready opened.
    pub fn start(
        facts: Facts<'_>,
        start: Start,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Transition> {
        let call = start.call(facts.definition);
        let mut contents = Vec::new();
        let inputs = match &start.inputs {
            Some(inputs) => Some(stored(
                payload(inputs, limits::INPUTS_BYTES_MAX, "inputs")?,
                &mut contents,
            )),
            None => None,
        };
        let workflow = &facts.definition.workflow;
        let created = Event::Created(Box::new(Created {
            workflow: workflow.name.clone(),
            definition: facts.definition.digest(),
            complexity: workflow.complexity,
            project: start.project,
            inputs,
            call,
            steps: workflow.steps.iter().map(|step| step.id.clone()).collect(),
        }));
        let row = Row {
            execution_id: start.id,
            revision: 1,
            at: now,
            previous: None,
            events: vec![created],
        };
        let Some(next) = Self::advance(None, &row) else {
            return Err(Error::internal(
                "an execution cannot be made of its first event",
            ));
        };
        let mut draft = Draft {
            next,
            row,
            contents,
        };
        draft.become_state(State::Running, None)?;
        draft.open_ready(facts.definition, facts.definition.graph().roots(), ids);
        draft.finish_if_done()?;
        Ok(draft.transition(None))
    }

    /// The revision and row that answer a start that is the same call as the one that made this execution.
    ///
    /// # Errors
    /// `EXECUTION_ID_TAKEN` where the arguments differ or something has happened since.
    pub fn restart(&self, definition: &Definition, start: &Start) -> Result<JournalKey> {
        let same = self.call == start.call(definition);
        match self.row {
            Some(row) if same && self.revision == 1 => Ok(row),
            _ => {
                let why = if same {
                    "and has moved on since its start"
                } else {
                    "with other arguments"
                };
                let message = format!("Execution ID '{}' already exists {why}", self.id);
                Err(self.placed(Error::new(Code::ExecutionIdTaken, message)))
            }
        }
    }

    /// What `command` would do at `now`. Changes nothing.
    ///
    /// # Errors
    /// Every refusal has its own code; a refused call changes nothing.
    pub fn decide(
        &self,
        facts: Facts<'_>,
        command: &Command,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Decision> {
        // The machine's clock may step back; the time of an execution does not.
        let now = now.max(self.updated_at);
        match command {
            Command::Advance { token, report } => {
                self.decide_advance(facts, token, report, now, ids)
            }
            Command::RenewTokens => Ok(self.decide_renewal(facts, now, ids)),
            Command::Change(change) => self.decide_change(facts, change, now),
        }
    }

    fn decide_renewal(&self, facts: Facts<'_>, now: Timestamp, ids: &dyn IdSource) -> Decision {
        let mut draft = Draft::after(self, now);
        for (_, step, visit) in self.open() {
            let Some(Awaiting::Model(grant)) = &visit.awaiting else {
                continue;
            };
            if now.since(grant.issued_at) >= facts.token_ttl {
                let (step, visit, grant) = (step.id.clone(), visit.number, Grant::issue(now, ids));
                draft.push(Event::TokenRenewed { step, visit, grant });
            }
        }
        if draft.row.events.is_empty() {
            Decision::Stay
        } else {
            Decision::Move(Box::new(draft.transition(None)))
        }
    }

    /// Whether an open token has outlived `token_ttl` at `now`.
    pub fn has_expired_token(&self, token_ttl: Duration, now: Timestamp) -> bool {
        let now = now.max(self.updated_at);
        !self.state.is_final()
            && self.open().any(|(_, _, visit)| {
                let Some(Awaiting::Model(grant)) = &visit.awaiting else {
                    return false;
                };
                now.since(grant.issued_at) >= token_ttl
            })
    }

    /// Says in which execution and in which state the error arose.
    pub fn placed(&self, error: Error) -> Error {
        error
            .with("execution_id", self.id.as_str())
            .with("workflow_state", self.state.as_str())
    }
}
