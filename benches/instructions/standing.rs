//! An execution that stands somewhere, without an engine: what the state machine and the views are measured on.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use midex_domain::{
    Command, Decision, DecisionContext, Definition, Digest, Execution, ExecutionId, Row, Token,
    clock::{Clock, IdSource, Timestamp},
    execution::{Report, StartArguments, Transition, Values},
    input::DefaultSources,
    limits,
    view::{self, AdvanceReply},
};
use serde_json::{Value, json};

/// The instant that everything is measured at.
pub(crate) const NOW: Timestamp = Timestamp::from_milliseconds(1_736_935_200_123);

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// Ids that differ, are spread over all 128 bits, and are the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Counted(AtomicU64);

impl IdSource for Counted {
    fn random(&self) -> u128 {
        /// An odd number near 2^128 divided by the golden ratio.
        const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).wrapping_mul(SPREAD)
    }
}

/// What the model answers.
pub(crate) fn output() -> Value {
    json!({ "summary": "The total was off by one: the last item was counted twice.", "score": 7,
        "findings": ["src/total.rs:41 adds the rest again", "no test had an empty list"] })
}

/// An execution after a transition, and what the next decision may look at.
pub(crate) struct Standing {
    pub(crate) definition: Arc<Definition>,
    pub(crate) last: Transition,
    pub(crate) ids: Counted,
    values: Values,
    contents: BTreeMap<Digest, Arc<[u8]>>,
}

impl Standing {
    /// One that was just started.
    pub(crate) fn start(definition: Arc<Definition>, inputs: Option<Value>) -> Self {
        let ids = Counted::default();
        let start = StartArguments {
            id: ExecutionId::generate(NOW, &ids),
            project: None,
            inputs,
            defaults: DefaultSources::default(),
            parent: None,
            lookup: None,
            is_paced: false,
            labels: midex_domain::label::Labels::new(),
        };
        let facts = DecisionContext::new(&definition, limits::TOKEN_TTL);
        let last = Execution::start(facts, start, NOW, &ids).expect("a start");
        let mut standing = Self {
            last: last.clone(),
            definition,
            ids,
            values: Values::new(),
            contents: BTreeMap::new(),
        };
        standing.become_next(last);
        standing
    }

    /// One that has finished so many steps since its start.
    pub(crate) fn after(mut self, steps: usize) -> Self {
        for _ in 0..steps {
            let next = self.advanced(&self.advance());
            self.become_next(next);
        }
        // What is measured has all at hand that it asks for.
        self.advanced(&self.advance());
        self
    }

    /// Finishes the first step that is open.
    pub(crate) fn advance(&self) -> Command {
        let offer = self.answer().new_tokens.swap_remove(0);
        Command::Advance {
            token: Token::parse(&offer.continuation_token).expect("a token"),
            submission: Arc::new(Report::Output(output()).into()),
        }
    }

    /// What the last transition answers.
    pub(crate) fn answer(&self) -> AdvanceReply {
        let subject = view::ViewContext {
            definition: &self.definition,
            execution: &self.last.execution,
            row: Some(&self.last.row),
            loaded: &view::LoadedValues::default(),
            requested: &RefCell::default(),
            ttl: limits::TOKEN_TTL,
            command_flags: "",
        };
        view::build_advance_reply(&subject, &self.last.row, false)
    }

    /// What a command comes to.
    pub(crate) fn decide(&self, command: &Command) -> Decision {
        let facts = DecisionContext {
            values: &self.values,
            ..DecisionContext::new(&self.definition, limits::TOKEN_TTL)
        };
        let decided = self.last.execution.decide(facts, command, NOW, &self.ids);
        decided.expect("a decision")
    }

    fn advanced(&mut self, command: &Command) -> Transition {
        loop {
            match self.decide(command) {
                Decision::Transition(transition) => return *transition,
                Decision::MissingValues(needs) => {
                    for need in needs {
                        let content = &self.contents[&need.digest];
                        let value = serde_json::from_slice(content).expect("JSON");
                        self.values.insert(need.digest, Arc::new(value));
                    }
                }
                other => panic!("no transition, but {other:?}"),
            }
        }
    }

    fn become_next(&mut self, next: Transition) {
        self.contents.extend(next.contents.iter().cloned());
        self.values.extend(next.new_values.clone());
        self.last = next;
    }

    /// The row of the last transition.
    pub(crate) fn row(&self) -> &Row {
        &self.last.row
    }
}
