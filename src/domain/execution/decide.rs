//! What an execution would do at a command. Deciding changes nothing: the actor makes the transition
//! durable first, and then takes `next`.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    Awaiting, Closed, Event, Execution, Failure, Outcome, Payload, Row, Spent, State, StepState,
    Visit,
};
use crate::{
    clock::{IdSource, Timestamp},
    domain::{
        definition::Definition,
        document::{Digest, Document, depth, meaning},
        event::{Created, JournalKey},
        id::ExecutionId,
        token::{Grant, Token},
    },
    error::{Code, Error, Result, Violation},
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
    fn call(&self) -> Digest {
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
        let same = self.call == start.call(definition)
            && self.project.as_deref() == start.project.as_deref();
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
        }
    }

    fn decide_advance(
        &self,
        facts: Facts<'_>,
        token: &Token,
        report: &Report,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Decision> {
        token
            .check_not_from_future(now)
            .map_err(|error| self.placed(error))?;
        match self.recognise(token) {
            Recognised::Open(step, visit) => {
                self.check_life(facts, token, now)?;
                self.check_running()?;
                self.close(facts, step, visit, token, report, now, ids)
                    .map(|moved| Decision::Move(Box::new(moved)))
            }
            Recognised::Spent(step, closed, spent) => {
                self.repeat(facts, step, closed, spent, report)
            }
            Recognised::Superseded => Err(self.refuse(
                token,
                Code::TokenSuperseded,
                "Token superseded: a newer one was issued, or its step was closed without it",
            )),
            Recognised::Foreign => Err(self.refuse(
                token,
                Code::TokenMismatch,
                "Token mismatch: this execution never issued it",
            )),
        }
    }

    fn recognise(&self, token: &Token) -> Recognised<'_> {
        let Some((_, step)) = self
            .step(&token.step_name)
            .filter(|_| token.execution_id == self.id)
        else {
            return Recognised::Foreign;
        };
        for visit in step.visits.iter().rev() {
            if let Some(Awaiting::Model(grant)) = &visit.awaiting
                && grant.matches(token)
            {
                return Recognised::Open(step, visit);
            }
            if let Some(closed) = &visit.closed
                && let Some(spent) = &closed.spent
                && spent.grant.matches(token)
            {
                return Recognised::Spent(step, closed, spent);
            }
            if visit.superseded.iter().any(|nonce| token.has_nonce(*nonce)) {
                return Recognised::Superseded;
            }
        }
        Recognised::Foreign
    }

    fn check_life(&self, facts: Facts<'_>, token: &Token, now: Timestamp) -> Result<()> {
        let age = now.since(token.issued_at);
        if age < facts.token_ttl {
            return Ok(());
        }
        Err(self.refuse(
            token,
            Code::TokenExpired,
            &format!("Token expired (issued {} ago)", spell(age)),
        ))
    }

    fn check_running(&self) -> Result<()> {
        match self.state {
            State::Running => Ok(()),
            State::Paused => {
                Err(self.placed(Error::new(Code::ExecutionPaused, "the execution is paused")))
            }
            state => {
                let message = format!("the execution is {state}");
                Err(self.placed(Error::new(Code::ExecutionFinished, message)))
            }
        }
    }

    fn repeat(
        &self,
        facts: Facts<'_>,
        step: &StepState,
        closed: &Closed,
        spent: &Spent,
        report: &Report,
    ) -> Result<Decision> {
        if spent.call != report.call() {
            let stands = self.stands();
            let message = format!(
                "Token already used: step '{}' was closed with another output; {stands}",
                step.id
            );
            let error =
                Error::new(Code::TokenAlreadyUsed, message).with("step_id", step.id.as_str());
            return Err(self.placed(error));
        }
        if let Report::Output(value) = report
            && closed.output.is_none()
            && let violations = self.violations(facts, step, value)
            && !violations.is_empty()
        {
            // The call that was refused for the last time: it gets the same refusal.
            return Err(self.invalid(step, limits::OUTPUT_ATTEMPTS_MAX, violations));
        }
        closed
            .row
            .map(Decision::Replay)
            .ok_or_else(|| Error::internal("a spent token has no journal row"))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the facts of one decision, each used here"
    )]
    fn close(
        &self,
        facts: Facts<'_>,
        step: &StepState,
        visit: &Visit,
        token: &Token,
        report: &Report,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Transition> {
        let mut draft = Draft::after(self, now);
        let (outcome, refusal) = match report {
            Report::Output(value) => match self.judge(facts, step, visit, value)? {
                Judged::Accepted(payload, content) => {
                    draft.contents.extend(content);
                    (Outcome::Completed(payload), None)
                }
                Judged::Refused(refusal, output) => {
                    let (step, visit) = (step.id.clone(), visit.number);
                    draft.push(Event::OutputRefused {
                        step,
                        visit,
                        output,
                    });
                    return Ok(draft.transition(Some(refusal)));
                }
                Judged::RefusedForGood(refusal) => {
                    (Outcome::Failed(failure(step, &refusal)), Some(refusal))
                }
            },
            Report::Error { message, code, .. } => (
                Outcome::Failed(reported(step, message, code.as_deref())),
                None,
            ),
        };
        let spent = Spent {
            grant: token.grant(),
            call: report.call(),
        };
        draft.close(facts.definition, step, visit, outcome.clone(), Some(spent));
        match outcome {
            Outcome::Failed(failure) => draft.fail(facts.definition, failure)?,
            _ => draft.follow(facts.definition, step, ids)?,
        }
        Ok(draft.transition(refusal))
    }

    /// Whether an output is accepted, and what its refusal costs.
    fn judge(
        &self,
        facts: Facts<'_>,
        step: &StepState,
        visit: &Visit,
        value: &Value,
    ) -> Result<Judged> {
        let (payload, content) = payload(value, limits::OUTPUT_BYTES_MAX, "output")
            .map_err(|error| self.placed(error.with("step_id", step.id.as_str())))?;
        let violations = self.violations(facts, step, value);
        if violations.is_empty() {
            return Ok(Judged::Accepted(payload, content));
        }
        let output = meaning(value);
        let seen = u32::try_from(visit.refused.len()).unwrap_or(u32::MAX);
        if visit.refused.contains(&output) {
            return Err(self.invalid(step, seen, violations));
        }
        let refusal = self.invalid(step, seen + 1, violations);
        if seen + 1 < limits::OUTPUT_ATTEMPTS_MAX {
            Ok(Judged::Refused(refusal, output))
        } else {
            Ok(Judged::RefusedForGood(refusal))
        }
    }

    fn violations(&self, facts: Facts<'_>, step: &StepState, value: &Value) -> Vec<Violation> {
        let position = facts
            .definition
            .graph()
            .position(&step.id)
            .unwrap_or(usize::MAX);
        facts.definition.output_schema(position).violations(value)
    }

    fn invalid(&self, step: &StepState, attempt: u32, violations: Vec<Violation>) -> Error {
        let most = limits::OUTPUT_ATTEMPTS_MAX;
        let what = if attempt < most {
            "the token stays valid"
        } else {
            "that was the last attempt: the step failed"
        };
        let count = violations.len();
        let message = format!(
            "the output of step '{}' breaks its schema in {count} place(s) (attempt {attempt} of {most}; {what})",
            step.id
        );
        let error = Error::new(Code::StepOutputInvalid, message).with("step_id", step.id.as_str());
        self.placed(error.with_violations(violations))
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

    fn refuse(&self, token: &Token, code: Code, message: &str) -> Error {
        self.placed(Error::new(code, message).with("step_id", token.step_name.as_str()))
    }

    /// Says in which execution and in which state the error arose.
    pub fn placed(&self, error: Error) -> Error {
        error
            .with("execution_id", self.id.as_str())
            .with("workflow_state", self.state.as_str())
    }

    fn stands(&self) -> String {
        let open: Vec<_> = self
            .open()
            .map(|(_, step, _)| format!("'{}'", step.id))
            .collect();
        if open.is_empty() {
            format!("the execution is {}", self.state)
        } else {
            format!("the execution is {}, at {}", self.state, open.join(", "))
        }
    }
}

enum Recognised<'a> {
    Open(&'a StepState, &'a Visit),
    Spent(&'a StepState, &'a Closed, &'a Spent),
    Superseded,
    Foreign,
}

type Content = Option<(Digest, Arc<[u8]>)>;

enum Judged {
    Accepted(Payload, Content),
    Refused(Error, Digest),
    RefusedForGood(Error),
}

/// A transition being made: every event is applied as it is added, so the next state and the row
/// cannot disagree.
struct Draft {
    next: Execution,
    row: Row,
    contents: Vec<(Digest, Arc<[u8]>)>,
}

impl Draft {
    fn after(execution: &Execution, now: Timestamp) -> Self {
        let revision = execution.revision + 1;
        let row = Row {
            execution_id: execution.id.clone(),
            revision,
            at: now,
            previous: execution.row,
            events: Vec::new(),
        };
        let mut next = execution.clone();
        (next.revision, next.updated_at) = (revision, now);
        Self {
            next,
            row,
            contents: Vec::new(),
        }
    }

    fn push(&mut self, event: Event) {
        self.next.apply(&self.row, &event);
        self.row.events.push(event);
    }

    fn transition(self, refusal: Option<Error>) -> Transition {
        Transition {
            next: self.next,
            row: self.row,
            contents: self.contents,
            refusal,
        }
    }

    fn become_state(&mut self, to: State, failure: Option<Failure>) -> Result<()> {
        let from = self.next.state;
        from.check(to).map_err(|error| self.next.placed(error))?;
        let steps_total = u32::try_from(self.next.steps.len()).unwrap_or(u32::MAX);
        self.push(Event::StateChanged {
            from,
            to,
            failure,
            steps_total,
        });
        Ok(())
    }

    fn close(
        &mut self,
        definition: &Definition,
        step: &StepState,
        visit: &Visit,
        outcome: Outcome,
        spent: Option<Spent>,
    ) {
        let duration = self.row.at.since(visit.opened_at);
        self.push(Event::VisitClosed {
            step: step.id.clone(),
            visit: visit.number,
            agent: definition
                .step(&step.id)
                .and_then(|step| step.agent().cloned()),
            outcome,
            spent,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// A step is done: opens what waited for it alone, or ends the execution where nothing is left.
    fn follow(
        &mut self,
        definition: &Definition,
        step: &StepState,
        ids: &dyn IdSource,
    ) -> Result<()> {
        if let Some(position) = definition.graph().position(&step.id) {
            self.open_ready(
                definition,
                definition.graph().dependents(position).iter().copied(),
                ids,
            );
        }
        self.finish_if_done()
    }

    /// A required step failed: whatever else is open is void, and the execution fails.
    fn fail(&mut self, definition: &Definition, failure: Failure) -> Result<()> {
        let before = self.next.clone();
        for (_, step, visit) in before.open() {
            self.close(definition, step, visit, Outcome::Voided, None);
        }
        self.become_state(State::Failed, Some(failure))
    }

    fn open_ready(
        &mut self,
        definition: &Definition,
        candidates: impl Iterator<Item = usize>,
        ids: &dyn IdSource,
    ) {
        use super::StepStatus::{Completed, Pending, Skipped};
        for position in candidates {
            let done = |at: &usize| matches!(self.next.steps[*at].status, Completed | Skipped);
            let state = &self.next.steps[position];
            if state.status == Pending && definition.graph().dependencies(position).iter().all(done)
            {
                let step = &definition.workflow.steps[position];
                let visit = state.visits.last().map_or(1, |visit| visit.number + 1);
                self.push(Event::VisitOpened {
                    step: step.id.clone(),
                    visit,
                    attempt: 1,
                    agent: step.agent().cloned(),
                    awaiting: Awaiting::Model(Grant::issue(self.row.at, ids)),
                });
            }
        }
    }

    fn finish_if_done(&mut self) -> Result<()> {
        if self.next.open().next().is_some() {
            return Ok(());
        }
        self.become_state(State::Completed, None)
    }
}

/// A value as an event holds it, and its content where that lies elsewhere.
fn payload(value: &Value, bytes_max: usize, what: &str) -> Result<(Payload, Content)> {
    if depth(value) > limits::JSON_DEPTH_MAX {
        let limit = format!(
            "the {what} may be nested {} levels deep",
            limits::JSON_DEPTH_MAX
        );
        return Err(Error::new(Code::LimitExceeded, limit.clone()).with("limit", limit));
    }
    let document = Document::of(value);
    let bytes = document.as_str().len();
    if bytes > bytes_max {
        let limit = format!("the {what} may have {bytes_max} bytes");
        let message = format!("the {what} has {bytes} bytes of JSON, the limit is {bytes_max}");
        return Err(Error::new(Code::LimitExceeded, message).with("limit", limit));
    }
    let digest = document.digest();
    let inline = bytes <= limits::INLINE_BYTES_MAX;
    let content = (!inline).then(|| (digest, document.as_str().as_bytes().into()));
    Ok((
        Payload {
            digest,
            bytes: bytes as u64,
            inline: inline.then_some(document),
        },
        content,
    ))
}

/// The payload with its value stored by digest whatever its size, so that it is read without the journal.
fn stored(
    (payload, content): (Payload, Content),
    contents: &mut Vec<(Digest, Arc<[u8]>)>,
) -> Payload {
    let inline = payload
        .inline
        .as_ref()
        .map(|document| (payload.digest, document.as_str().as_bytes().into()));
    contents.extend(content.or(inline));
    Payload {
        inline: None,
        ..payload
    }
}

fn failure(step: &StepState, refusal: &Error) -> Failure {
    Failure {
        code: refusal.code().as_str().into(),
        message: refusal.message().into(),
        step: Some(step.id.clone()),
    }
}

fn reported(step: &StepState, message: &str, code: Option<&str>) -> Failure {
    Failure {
        code: cut(
            code.unwrap_or("STEP_FAILED"),
            limits::FAILURE_CODE_BYTES_MAX,
        ),
        message: cut(message, limits::FAILURE_MESSAGE_BYTES_MAX),
        step: Some(step.id.clone()),
    }
}

/// At most `bytes_max` bytes of `text`, cut between characters.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

/// A duration as S0 spells it: `25 hours`, `10 minutes`.
fn spell(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        _ => (seconds / 3600, "hour"),
    };
    if count == 1 {
        format!("1 {unit}")
    } else {
        format!("{count} {unit}s")
    }
}
