//! The model test: random commands, stale and repeated tokens, time jumps, sleeps and restarts, against
//! a small reference model. Whatever is driven must show the same state and refuse with the same codes.
//!
//! A failing case prints its seed and commands; proptest replays it from `proptest-regressions`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use midex::{
    clock::{Clock, SeededIds, TokioClock},
    domain::{
        Change, Command, Decision, Definition, Event, Execution, ExecutionId, Facts, JournalKey,
        Lifecycle, Outcome, Row, Token, Transition,
        execution::{Report, Start},
        view::{self, Advanced, Outputs, StatusView},
    },
    engine::{Engine, StartRequest},
    error::{Code, Result},
    limits,
    store::{MemoryStore, Store},
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{self, EPOCH, definition};

/// What is done to an execution. Indices are taken modulo what there is.
#[derive(Clone, Debug)]
enum Action {
    /// Use the token at this index of all that were ever seen.
    Advance { token: usize, report: Kind },
    /// Use a token whose field was changed.
    Forge { token: usize, how: Forgery },
    /// Read the current step, which renews expired tokens.
    Read,
    /// Let time pass: actors fall asleep, tokens expire.
    Wait { minutes: u64 },
    /// Lose everything in memory.
    Restart,
    /// Start it again with the same arguments, or others.
    StartAgain { same: bool },
    /// Ask for a change of state.
    Change(Lifecycle),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good(u8),
    /// With an artifact.
    Rich,
    Bad(u8),
    Error,
}

#[derive(Clone, Copy, Debug)]
enum Forgery {
    Nonce,
    Issued,
    Future,
    Step,
    Cut,
}

impl Kind {
    fn report(self) -> Report {
        match self {
            Self::Good(n) => Report::Output(json!({ "summary": format!("good {n}") })),
            Self::Rich => Report::Output(json!({ "summary": "rich", "artifacts": [
                { "type": "data", "name": "numbers", "content": "1,2,3" }
            ] })),
            Self::Bad(n) => Report::Output(json!({ "wrong": n })),
            Self::Error => Report::Error {
                message: "it cannot be done".into(),
                code: None,
                retryable: None,
            },
        }
    }
}

impl Kind {
    /// What is kept of it, where it is the first artifact number `artifact`.
    fn kept(self, artifact: u32) -> serde_json::Value {
        match self {
            Self::Rich => json!({ "summary": "rich", "artifacts": [{
                "id": artifact, "type": "data", "name": "numbers", "content_type": "text/plain", "size_bytes": 5
            }] }),
            _ => match self.report() {
                Report::Output(output) => output,
                Report::Error { .. } => serde_json::Value::Null,
            },
        }
    }
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let kind = prop_oneof![
        12 => (0..2u8).prop_map(Kind::Good),
        4 => Just(Kind::Rich),
        8 => (0..6u8).prop_map(Kind::Bad),
        1 => Just(Kind::Error),
    ];
    let how = prop_oneof![
        Just(Forgery::Nonce),
        Just(Forgery::Issued),
        Just(Forgery::Future),
        Just(Forgery::Step),
        Just(Forgery::Cut)
    ];
    // What ends everything is rare, or nothing else would be seen.
    let lifecycle = prop_oneof![
        8 => Just(Lifecycle::Pause),
        10 => Just(Lifecycle::Resume),
        1 => Just(Lifecycle::Abandon),
        1 => Just(Lifecycle::Diverge),
        1 => Just(Lifecycle::Fail),
    ];
    // The latest tokens are the likeliest to be used: an index counts from the newest.
    let token = prop_oneof![4 => 0..3usize, 1 => 0..40usize];
    let action = prop_oneof![
        12 => (token.clone(), kind).prop_map(|(token, report)| Action::Advance { token, report }),
        2 => (token, how).prop_map(|(token, how)| Action::Forge { token, how }),
        3 => Just(Action::Read),
        2 => prop_oneof![1..5u64, 700..1600u64].prop_map(|minutes| Action::Wait { minutes }),
        1 => Just(Action::Restart),
        1 => any::<bool>().prop_map(|same| Action::StartAgain { same }),
        4 => lifecycle.prop_map(Action::Change),
    ];
    prop::collection::vec(action, 1..60)
}

/// Workflows of one to six steps, each depending on some of those before it.
fn graphs() -> impl Strategy<Value = Vec<Vec<usize>>> {
    prop::collection::vec(any::<u8>(), 1..=6).prop_map(|masks| {
        let before =
            |(at, mask): (usize, &u8)| (0..at).filter(|bit| mask >> bit & 1 == 1).collect();
        masks.iter().enumerate().map(before).collect()
    })
}

fn workflow(graph: &[Vec<usize>]) -> Arc<Definition> {
    let names: Vec<_> = (0..graph.len()).map(|at| format!("s{at}")).collect();
    let before: Vec<Vec<&str>> = graph
        .iter()
        .map(|deps| deps.iter().map(|at| names[*at].as_str()).collect())
        .collect();
    let steps: Vec<_> = names
        .iter()
        .zip(&before)
        .map(|(name, deps)| (name.as_str(), deps.as_slice()))
        .collect();
    definition("modelled", &steps)
}

// ---------------------------------------------------------------------------------------------
// What is driven
// ---------------------------------------------------------------------------------------------

/// Something that runs one execution: the pure domain, or the whole engine.
trait Subject {
    async fn start(&mut self, id: &str, same: bool) -> Result<Advanced>;
    async fn advance(&mut self, token: &str, report: Report) -> Result<Advanced>;
    /// The tokens of all open steps by step, renewed where they have expired; and the revision.
    async fn read(&mut self) -> (BTreeMap<String, String>, u64);
    async fn state(&mut self) -> StatusView;
    async fn change(&mut self, change: Change) -> Result<()>;
    async fn restart(&mut self);
}

const ID: &str = "modelled execution";

fn inputs(same: bool) -> serde_json::Value {
    json!({ "same": same })
}

/// The domain alone: decide, apply, answer from the row.
struct Pure {
    definition: Arc<Definition>,
    clock: TokioClock,
    ids: SeededIds,
    execution: Option<Execution>,
    rows: Vec<Row>,
}

impl Pure {
    fn facts(&self) -> Facts<'_> {
        Facts {
            definition: &self.definition,
            token_ttl: limits::TOKEN_TTL,
        }
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
            ttl: limits::TOKEN_TTL,
        }
    }

    /// Every output as of `revision`, read off the rows.
    fn outputs(&self, revision: u64) -> Outputs {
        let rows = self.rows.iter().filter(|row| row.revision <= revision);
        let position = |step| self.definition.graph().position(step).expect("a step");
        rows.flat_map(|row| &row.events)
            .filter_map(|event| match event {
                Event::VisitClosed {
                    step,
                    outcome: Outcome::Completed(payload),
                    ..
                } => Some((position(step), payload.inline.as_ref()?.value())),
                _ => None,
            })
            .collect()
    }

    fn command(&mut self, command: &Command) -> Result<Option<Advanced>> {
        let execution = self.execution.as_ref().expect("an execution");
        match execution.decide(self.facts(), command, self.clock.now(), &self.ids)? {
            Decision::Move(transition) => self.become_next(*transition).map(Some),
            Decision::Replay(key) => Ok(Some(self.answer(key, true))),
            Decision::Stay => Ok(None),
        }
    }
}

impl Subject for Pure {
    async fn start(&mut self, id: &str, same: bool) -> Result<Advanced> {
        let start = Start {
            id: ExecutionId::parse(id)?,
            project: None,
            inputs: Some(inputs(same)),
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
struct Whole {
    definition: Arc<Definition>,
    clock: TokioClock,
    store: Arc<dyn Store>,
    engine: Engine,
    seed: u64,
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

fn tokens(current: &view::CurrentStep) -> BTreeMap<String, String> {
    let pair = |step: &view::ReadyStep| (step.step_name.clone(), step.continuation_token.clone());
    current.ready_steps.iter().map(pair).collect()
}

// ---------------------------------------------------------------------------------------------
// The reference model
// ---------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct ModelToken {
    text: String,
    step: usize,
    issued: Duration,
    is: Is,
}

#[derive(Clone, Debug, PartialEq)]
enum Is {
    Live,
    /// Used with this report, and answered so.
    Spent(Kind, Option<Box<Advanced>>),
    Superseded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Pending,
    Running,
    Completed,
    Failed,
    Skipped,
}

struct Model {
    graph: Vec<Vec<usize>>,
    status: Vec<Status>,
    state: &'static str,
    revision: u64,
    now: Duration,
    tokens: Vec<ModelToken>,
    /// Distinct bad outputs of the open visit of each step.
    bad: Vec<Vec<Kind>>,
    first: Option<Advanced>,
    /// What each step handed over, as it is kept.
    outputs: Vec<Option<serde_json::Value>>,
    artifacts: u32,
}

impl Model {
    fn new(graph: Vec<Vec<usize>>) -> Self {
        let count = graph.len();
        Self {
            graph,
            status: vec![Status::Pending; count],
            state: "running",
            revision: 1,
            now: Duration::ZERO,
            tokens: Vec::new(),
            bad: vec![Vec::new(); count],
            first: None,
            outputs: vec![None; count],
            artifacts: 0,
        }
    }

    fn token(&self, index: usize) -> usize {
        self.tokens.len() - 1 - index % self.tokens.len()
    }

    /// Opens what is ready and takes in the tokens that the answer must hold for exactly those.
    fn open_ready(&mut self, answer: &Advanced) {
        let ready: Vec<_> = (0..self.graph.len())
            .filter(|at| self.status[*at] == Status::Pending)
            .filter(|at| {
                self.graph[*at]
                    .iter()
                    .all(|before| self.status[*before] == Status::Completed)
            })
            .collect();
        let names: Vec<_> = ready.iter().map(|at| format!("s{at}")).collect();
        let offered: Vec<_> = answer
            .new_tokens
            .iter()
            .map(|offer| offer.step_name.clone())
            .collect();
        assert_eq!(offered, names, "what became ready, in authoring order");
        assert_eq!(
            answer.step_name.as_ref(),
            names.first(),
            "the first of them"
        );
        if let Some(step) = ready.first() {
            let decided: Vec<_> = answer
                .previous
                .iter()
                .map(|before| Some(before.output.clone()))
                .collect();
            let expected: Vec<_> = self.graph[*step]
                .iter()
                .map(|at| self.outputs[*at].clone())
                .collect();
            assert_eq!(decided, expected, "what the steps before decided");
        }
        for (step, offer) in ready.into_iter().zip(&answer.new_tokens) {
            self.status[step] = Status::Running;
            let text = offer.continuation_token.clone();
            self.tokens.push(ModelToken {
                text,
                step,
                issued: self.now,
                is: Is::Live,
            });
        }
        if self
            .status
            .iter()
            .all(|status| *status == Status::Completed)
        {
            self.state = "completed";
        }
    }

    /// What using the token must come to: a code, or an answer that `Outcome` describes.
    fn expect(&self, token: &ModelToken, report: Kind) -> std::result::Result<Expected, Code> {
        match &token.is {
            Is::Superseded => Err(Code::TokenSuperseded),
            Is::Spent(used, answer) if *used == report => match answer {
                Some(answer) => Ok(Expected::Replay(answer.clone())),
                None => Err(Code::StepOutputInvalid),
            },
            Is::Spent(..) => Err(Code::TokenAlreadyUsed),
            Is::Live if self.now.checked_sub(token.issued).unwrap() >= limits::TOKEN_TTL => {
                Err(Code::TokenExpired)
            }
            Is::Live if self.state == "paused" => Err(Code::ExecutionPaused),
            Is::Live => match report {
                Kind::Good(_) | Kind::Rich => Ok(Expected::Completed),
                Kind::Error => Ok(Expected::Failed),
                Kind::Bad(_) => Err(Code::StepOutputInvalid),
            },
        }
    }

    fn complete(&mut self, index: usize, report: Kind, answer: &Advanced) {
        let step = self.tokens[index].step;
        self.revision += 1;
        self.status[step] = Status::Completed;
        self.artifacts += u32::from(report == Kind::Rich);
        self.outputs[step] = Some(report.kept(self.artifacts));
        self.tokens[index].is = Is::Spent(report, Some(Box::new(answer.clone())));
        self.open_ready(answer);
    }

    fn fail(&mut self, index: usize, report: Kind, answer: Option<&Advanced>) {
        let step = self.tokens[index].step;
        self.revision += 1;
        self.tokens[index].is = Is::Spent(report, answer.cloned().map(Box::new));
        self.status[step] = Status::Failed;
        self.end("failed");
    }

    /// Whatever is open is void.
    fn end(&mut self, state: &'static str) {
        for status in &mut self.status {
            if *status == Status::Running {
                *status = Status::Skipped;
            }
        }
        for token in &mut self.tokens {
            if token.is == Is::Live {
                token.is = Is::Superseded;
            }
        }
        self.state = state;
    }

    /// The changes of S0's drawing.
    fn change(&mut self, change: Lifecycle) -> bool {
        let to = match (self.state, change) {
            ("running", Lifecycle::Pause) => "paused",
            ("paused", Lifecycle::Resume) => "running",
            ("running" | "paused", Lifecycle::Abandon) => "abandoned",
            ("running", Lifecycle::Diverge) => "diverged",
            ("running", Lifecycle::Fail) => "failed",
            _ => return false,
        };
        self.revision += 1;
        match to {
            "paused" | "running" => self.state = to,
            ended => self.end(ended),
        }
        true
    }

    fn refuse_output(&mut self, index: usize, report: Kind) {
        let step = self.tokens[index].step;
        if self.bad[step].contains(&report) {
            return;
        }
        self.bad[step].push(report);
        if self.bad[step].len() == limits::OUTPUT_ATTEMPTS_MAX as usize {
            self.fail(index, report, None);
        } else {
            self.revision += 1;
        }
    }

    /// What reading shows; expired tokens are replaced by the ones that were read.
    fn renew(&mut self, shown: &BTreeMap<String, String>) {
        let expired = |token: &ModelToken| {
            token.is == Is::Live && self.now.checked_sub(token.issued).unwrap() >= limits::TOKEN_TTL
        };
        let old: Vec<usize> = (0..self.tokens.len())
            .filter(|at| expired(&self.tokens[*at]))
            .collect();
        if !old.is_empty() {
            self.revision += 1;
        }
        for at in old {
            let step = self.tokens[at].step;
            let text = shown[&format!("s{step}")].clone();
            assert_ne!(text, self.tokens[at].text, "an expired token is replaced");
            self.tokens[at].is = Is::Superseded;
            self.tokens.push(ModelToken {
                text,
                step,
                issued: self.now,
                is: Is::Live,
            });
        }
        let live = self.tokens.iter().filter(|token| token.is == Is::Live);
        let live: BTreeMap<_, _> = live
            .map(|token| (format!("s{}", token.step), token.text.clone()))
            .collect();
        assert_eq!(*shown, live, "every open step with its live token");
    }

    fn counts(&self) -> view::StepCounts {
        let count = |wanted: Status| {
            self.status
                .iter()
                .filter(|status| **status == wanted)
                .count()
        };
        view::StepCounts {
            total: self.status.len(),
            completed: count(Status::Completed),
            failed: count(Status::Failed),
            running: count(Status::Running),
            pending: count(Status::Pending),
            skipped: count(Status::Skipped),
        }
    }
}

enum Expected {
    Completed,
    Failed,
    Replay(Box<Advanced>),
}

async fn advance(model: &mut Model, subject: &mut impl Subject, index: usize, report: Kind) {
    let token = model.tokens[index].clone();
    let expected = model.expect(&token, report);
    let answer = subject.advance(&token.text, report.report()).await;
    match (expected, answer) {
        (Ok(Expected::Completed), Ok(answer)) => model.complete(index, report, &answer),
        (Ok(Expected::Failed), Ok(answer)) => model.fail(index, report, Some(&answer)),
        (Ok(Expected::Replay(first)), Ok(answer)) => {
            assert!(answer.replayed);
            let again = Advanced {
                replayed: first.replayed,
                ..answer
            };
            assert_eq!(again, *first, "the recorded answer");
        }
        (Err(code), Err(error)) => {
            assert_eq!(error.code(), code, "{error:?}");
            if code == Code::StepOutputInvalid && token.is == Is::Live {
                model.refuse_output(index, report);
            }
        }
        (expected, answer) => panic!(
            "expected {:?}, got {answer:?}",
            expected.map(|_| "an answer")
        ),
    }
}

async fn forge(model: &Model, subject: &mut impl Subject, index: usize, how: Forgery) {
    let token = &model.tokens[index];
    let (text, allowed): (String, &[Code]) = match how {
        Forgery::Cut => (
            token.text[..token.text.len() / 2].into(),
            &[Code::TokenMalformed],
        ),
        _ => forged(token, how, model.graph.len()),
    };
    let error = subject
        .advance(&text, Kind::Good(0).report())
        .await
        .expect_err("a forgery");
    assert!(allowed.contains(&error.code()), "{how:?}: {error:?}");
}

fn forged(token: &ModelToken, how: Forgery, steps: usize) -> (String, &'static [Code]) {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as base64url};
    let bytes = base64url.decode(&token.text).expect("base64url");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let mut payload: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut allowed: &[Code] = &[Code::TokenMismatch];
    match how {
        Forgery::Nonce => payload["nonce"] = json!("0123456789abcdef0123456789abcdef"),
        Forgery::Issued => payload["issued_at"] = json!("2025-01-15T09:59:59.000Z"),
        Forgery::Future => {
            payload["issued_at"] = json!("2199-01-01T00:00:00.000Z");
            allowed = &[Code::TokenFromFuture];
        }
        Forgery::Step => {
            payload["step_name"] = json!(format!("s{}", (token.step + 1) % (steps + 1)));
        }
        Forgery::Cut => {}
    }
    (base64url.encode(payload.to_string()), allowed)
}

async fn run(graph: Vec<Vec<usize>>, actions: &[Action], subject: &mut impl Subject) {
    let mut model = Model::new(graph);
    let first = subject.start(ID, true).await.expect("a start");
    model.open_ready(&first);
    model.first = Some(first);
    for action in actions {
        match action {
            Action::Advance { token, report } => {
                let index = model.token(*token);
                advance(&mut model, subject, index, *report).await;
            }
            Action::Forge { token, how } => {
                let index = model.token(*token);
                forge(&model, subject, index, *how).await;
            }
            Action::Read => {
                let (shown, revision) = subject.read().await;
                model.renew(&shown);
                assert_eq!(revision, model.revision);
            }
            Action::Wait { minutes } => {
                let time = Duration::from_secs(minutes * 60);
                tokio::time::sleep(time).await;
                model.now += time;
            }
            Action::Restart => subject.restart().await,
            Action::Change(lifecycle) => {
                let before = model.state;
                let change = Change {
                    lifecycle: *lifecycle,
                    reason: None,
                };
                match (model.change(*lifecycle), subject.change(change).await) {
                    (true, answer) => answer.expect("S0 allows it"),
                    (false, answer) => {
                        let error = answer.expect_err("S0 does not allow it");
                        assert_eq!(error.code(), Code::StateTransitionRefused);
                        for state in [before, lifecycle.state().as_str()] {
                            assert!(error.message().contains(state), "{error}");
                        }
                    }
                }
            }
            Action::StartAgain { same } => {
                let answer = subject.start(ID, *same).await;
                if *same && model.revision == 1 {
                    let again = Advanced {
                        replayed: false,
                        ..answer.expect("the same start")
                    };
                    assert_eq!(Some(again), model.first);
                } else {
                    assert_eq!(
                        answer.expect_err("the id is taken").code(),
                        Code::ExecutionIdTaken
                    );
                }
            }
        }
        let status = subject.state().await;
        assert_eq!(
            (
                status.state.as_str(),
                status.steps,
                status.revision,
                status.artifacts
            ),
            (model.state, model.counts(), model.revision, model.artifacts),
            "{action:?}"
        );
        assert_eq!(status.pause_reasons.is_empty(), model.state != "paused");
        assert_eq!(status.final_output.is_some(), model.state == "completed");
    }
}

fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_domain_does_what_the_model_does(graph in graphs(), actions in actions()) {
        paused_runtime().block_on(async {
            let clock = TokioClock::starting_at(EPOCH);
            let definition = workflow(&graph);
            let ids = SeededIds::new(7);
            let mut subject = Pure { definition, clock, ids, execution: None, rows: Vec::new() };
            run(graph, &actions, &mut subject).await;
        });
    }

    #[test]
    fn the_engine_does_what_the_model_does(graph in graphs(), actions in actions()) {
        paused_runtime().block_on(async {
            let clock = TokioClock::starting_at(EPOCH);
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let engine = support::engine(store.clone(), clock, 1).await;
            let mut subject = Whole { definition: workflow(&graph), clock, store, engine, seed: 1 };
            run(graph, &actions, &mut subject).await;
        });
    }
}
