//! The reference model: what a reader of the documents would expect.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use midex_domain::{
    LifecycleAction,
    error::Code,
    limits,
    view::{self, AdvanceReply},
};

use super::Kind;
use midex_test::list_of;

#[derive(Clone, Debug)]
pub(super) struct ModelToken {
    pub(super) text: String,
    pub(super) step: usize,
    pub(super) issued: Duration,
    pub(super) is: Is,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Is {
    Live,
    /// Used with this report, and answered so.
    Spent(Kind, Box<AdvanceReply>),
    Superseded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Pending,
    Running,
    Completed,
    Failed,
    Skipped,
}

pub(super) struct Model {
    pub(super) graph: Vec<Vec<usize>>,
    pub(super) status: Vec<Status>,
    pub(super) state: &'static str,
    pub(super) revision: u64,
    pub(super) now: Duration,
    pub(super) tokens: Vec<ModelToken>,
    /// Distinct bad outputs of the open visit of each step.
    pub(super) bad: Vec<Vec<Kind>>,
    /// Steps that had as many bad outputs as there may be, until a resume.
    held: BTreeSet<usize>,
    /// Whether somebody asked for the pause.
    by_person: bool,
    pub(super) first: Option<AdvanceReply>,
    /// What each step handed over, as it is kept.
    pub(super) outputs: Vec<Option<serde_json::Value>>,
    pub(super) artifacts: u32,
}

impl Model {
    pub(super) fn new(graph: Vec<Vec<usize>>) -> Self {
        let count = graph.len();
        Self {
            graph,
            status: vec![Status::Pending; count],
            state: "running",
            revision: 1,
            now: Duration::ZERO,
            tokens: Vec::new(),
            bad: vec![Vec::new(); count],
            held: BTreeSet::new(),
            by_person: false,
            first: None,
            outputs: vec![None; count],
            artifacts: 0,
        }
    }

    pub(super) fn token(&self, index: usize) -> usize {
        self.tokens.len() - 1 - index % self.tokens.len()
    }

    /// Opens what is ready and takes in the tokens that the answer must hold for exactly those.
    pub(super) fn open_ready(&mut self, answer: &AdvanceReply) {
        let ready: Vec<_> = (0..self.graph.len())
            .filter(|at| self.status[*at] == Status::Pending)
            .filter(|at| {
                self.graph[*at].iter().all(|before| self.status[*before] == Status::Completed)
            })
            .collect();
        let names: Vec<_> = ready.iter().map(|at| format!("s{at}")).collect();
        let offered = list_of(&answer.new_tokens, |offer| offer.step_name.clone());
        assert_eq!(offered, names, "what became ready, in authoring order");
        assert_eq!(answer.step_name.as_ref(), names.first(), "the first of them");
        if let Some(step) = ready.first() {
            let decided = list_of(&answer.previous, |before| Some(before.output.clone()));
            let expected = list_of(&self.graph[*step], |at| self.outputs[*at].clone());
            assert_eq!(decided, expected, "what the steps before decided");
        }
        for (step, offer) in ready.into_iter().zip(&answer.new_tokens) {
            self.status[step] = Status::Running;
            let text = offer.continuation_token.clone();
            self.tokens.push(ModelToken { text, step, issued: self.now, is: Is::Live });
        }
        if self.status.iter().all(|status| *status == Status::Completed) {
            self.state = "completed";
        }
        self.pause_where_all_is_held();
    }

    /// Where every open step is held nothing goes on without a resume.
    fn pause_where_all_is_held(&mut self) {
        let mut steps = self.status.iter().enumerate();
        let may_go_on =
            steps.any(|(at, status)| *status == Status::Running && !self.held.contains(&at));
        if self.state == "running" && !may_go_on {
            self.state = "paused";
        }
    }

    /// What using the token must come to: a code, or an answer that `Outcome` describes.
    pub(super) fn expect(&self, token: &ModelToken, report: Kind) -> Result<Expected, Code> {
        match &token.is {
            Is::Superseded => Err(Code::TokenSuperseded),
            Is::Spent(used, answer) if *used == report => Ok(Expected::Replay(answer.clone())),
            Is::Spent(..) => Err(Code::TokenAlreadyUsed),
            Is::Live if self.now.checked_sub(token.issued).unwrap() >= limits::TOKEN_TTL => {
                Err(Code::TokenExpired)
            }
            Is::Live if self.state == "paused" || self.held.contains(&token.step) => {
                Err(Code::ExecutionPaused)
            }
            Is::Live => match report {
                Kind::Good(_) | Kind::Rich => Ok(Expected::Completed),
                Kind::Error => Ok(Expected::Failed),
                Kind::Bad(_) => Err(Code::StepOutputInvalid),
            },
        }
    }

    pub(super) fn complete(&mut self, index: usize, report: Kind, answer: &AdvanceReply) {
        let step = self.tokens[index].step;
        self.revision += 1;
        self.status[step] = Status::Completed;
        self.outputs[step] = Some(report.kept(self.artifacts + 1));
        // The artifact and the text.
        self.artifacts += if report == Kind::Rich { 2 } else { 0 };
        self.tokens[index].is = Is::Spent(report, Box::new(answer.clone()));
        self.open_ready(answer);
    }

    pub(super) fn fail(&mut self, index: usize, report: Kind, answer: &AdvanceReply) {
        let step = self.tokens[index].step;
        self.revision += 1;
        self.tokens[index].is = Is::Spent(report, Box::new(answer.clone()));
        self.status[step] = Status::Failed;
        self.end("failed");
    }

    /// Whatever is open is void.
    pub(super) fn end(&mut self, state: &'static str) {
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

    /// The changes of the state machine. A resume lets go on what is held, also while something else is open.
    pub(super) fn change(&mut self, change: LifecycleAction) -> bool {
        let to = match (self.state, change) {
            ("running", LifecycleAction::Pause) => "paused",
            ("paused", LifecycleAction::Pause) if !self.by_person => "paused",
            ("paused", LifecycleAction::Resume) => "running",
            ("running", LifecycleAction::Resume) if !self.held.is_empty() => "running",
            ("running" | "paused", LifecycleAction::Abandon) => "abandoned",
            ("running", LifecycleAction::Diverge) => "diverged",
            ("running", LifecycleAction::Fail) => "failed",
            _ => return false,
        };
        self.revision += 1;
        self.by_person = change == LifecycleAction::Pause;
        match to {
            "paused" => self.state = to,
            "running" => {
                self.state = to;
                for step in std::mem::take(&mut self.held) {
                    self.bad[step].clear();
                }
            }
            ended => self.end(ended),
        }
        true
    }

    pub(super) fn refuse_output(&mut self, step: usize, report: Kind) {
        if self.bad[step].contains(&report) {
            return;
        }
        self.bad[step].push(report);
        self.revision += 1;
        if self.bad[step].len() == limits::OUTPUT_ATTEMPTS_MAX as usize {
            self.held.insert(step);
            self.pause_where_all_is_held();
        }
    }

    /// What reading shows; expired tokens are replaced by the ones that were read.
    pub(super) fn renew(&mut self, shown: &BTreeMap<String, String>) {
        let expired = |token: &ModelToken| {
            token.is == Is::Live
                && !self.held.contains(&token.step)
                && self.now.checked_sub(token.issued).unwrap() >= limits::TOKEN_TTL
        };
        let old: Vec<usize> =
            (0..self.tokens.len()).filter(|at| expired(&self.tokens[*at])).collect();
        if !old.is_empty() {
            self.revision += 1;
        }
        for at in old {
            let step = self.tokens[at].step;
            let text = shown[&format!("s{step}")].clone();
            assert_ne!(text, self.tokens[at].text, "an expired token is replaced");
            self.tokens[at].is = Is::Superseded;
            self.tokens.push(ModelToken { text, step, issued: self.now, is: Is::Live });
        }
        let is_shown =
            |token: &&ModelToken| token.is == Is::Live && !self.held.contains(&token.step);
        let live = self.tokens.iter().filter(is_shown);
        let live: BTreeMap<_, _> =
            live.map(|token| (format!("s{}", token.step), token.text.clone())).collect();
        assert_eq!(*shown, live, "every open step with its live token");
    }

    pub(super) fn counts(&self) -> view::StepCounts {
        let count = |wanted: Status| self.status.iter().filter(|status| **status == wanted).count();
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

/// What using a token must come to.
pub(super) enum Expected {
    Completed,
    Failed,
    Replay(Box<AdvanceReply>),
}
