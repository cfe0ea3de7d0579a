//! Forks, retries and rewinds at random moments, each execution beside its interpreter: which steps are kept, which are open
//! again, and what the rest then does.

use proptest::prelude::*;

use super::{
    Action, action, coarse, distinct,
    manifest::{Flow, Has, flows},
    pair::Pair,
};
use crate::model::{
    cases,
    driven::{Again, ID, Pure, Whole},
    paused_runtime,
};
use midex_test::{EPOCH, TokioClock};

/// How many executions a case may have.
const EXECUTIONS_MAX: usize = 8;

/// An operation on an execution. Indices are taken modulo the number of steps.
#[derive(Clone, Debug)]
enum Deed {
    Do(Action),
    Fork(Option<usize>),
    Retry,
    Rewind(usize),
}

fn deeds(time: impl Strategy<Value = u64> + 'static) -> impl Strategy<Value = Vec<(usize, Deed)>> {
    let deed = prop_oneof![
        12 => action(time).prop_map(Deed::Do),
        2 => prop::option::weighted(0.7, 0..8usize).prop_map(Deed::Fork),
        1 => Just(Deed::Retry),
        3 => (0..8usize).prop_map(Deed::Rewind),
    ];
    prop::collection::vec((0..EXECUTIONS_MAX, deed), 1..40)
}

/// An execution, and what continues it.
struct Line<'a, S> {
    pair: Pair<'a, S>,
    retries: Vec<usize>,
}

/// The executions of a workflow, each of which but the first continues another one.
struct Lines<'a, S>(Vec<Line<'a, S>>);

impl<'a, S: Again> Lines<'a, S> {
    async fn run(flow: &'a Flow, deeds: &[(usize, Deed)], mut root: S) {
        let answer = root.start(ID, true).await.expect("a start");
        let mut lines = Self(Vec::new());
        let mut pair = Pair::of(flow, root);
        pair.check_answer(&answer, &[]);
        lines.add(pair).await;
        for (who, deed) in deeds {
            let who = who % lines.0.len();
            lines.act(who, deed).await;
        }
        for line in &mut lines.0 {
            line.pair.check().await;
        }
    }

    async fn add(&mut self, mut pair: Pair<'a, S>) {
        pair.check().await;
        self.0.push(Line { pair, retries: Vec::new() });
    }

    async fn act(&mut self, who: usize, deed: &Deed) {
        let now = self.0[who].pair.subject.now();
        for line in &mut self.0 {
            line.pair.model.now = now;
        }
        let step = |step: &usize| step % self.0[who].pair.model.steps.len();
        match deed {
            // Time and lost messages concern every execution. Without an engine they are handled one after the other.
            Deed::Do(Action::Pass { time, late }) => {
                let action = &Action::Pass { time: *time, late: *late || self.0.len() > 1 };
                for line in &mut self.0 {
                    line.pair.act(action).await;
                    line.pair.check().await;
                }
            }
            Deed::Do(Action::Restart) => {
                let (first, others) = self.0.split_first_mut().expect("the first one");
                first.pair.subject.restart().await;
                for line in others {
                    line.pair.subject.restart_below(&first.pair.subject).await;
                }
            }
            Deed::Do(action) => self.0[who].pair.act(action).await,
            Deed::Rewind(to) => {
                let to = step(to);
                self.0[who].pair.rewind(to).await;
            }
            Deed::Fork(from) => {
                let from = from.as_ref().map(step);
                self.fork(who, from).await;
            }
            Deed::Retry => self.retry(who).await,
        }
        self.0[who].pair.check().await;
    }

    async fn fork(&mut self, who: usize, from: Option<usize>) {
        if self.0.len() < EXECUTIONS_MAX
            && let Some(fork) = self.0[who].pair.fork(from, false).await
        {
            self.add(fork).await;
        }
    }

    /// Retries an execution that ended without completing. Only the engine refuses a second open retry.
    async fn retry(&mut self, who: usize) {
        let Line { pair, retries } = &self.0[who];
        let may_be_retried = matches!(pair.model.state, "failed" | "abandoned" | "diverged");
        let counts =
            |at: &&usize| !matches!(self.0[**at].pair.model.state, "abandoned" | "diverged");
        let other = retries.iter().find(counts).copied();
        if pair.subject.keeps_time() && (!may_be_retried || other.is_some()) {
            let is_same = other.is_some_and(|other| self.0[other].pair.is_untouched());
            self.0[who].pair.check_not_retried(is_same).await;
        } else if self.0.len() < EXECUTIONS_MAX
            && let Some(retry) = self.0[who].pair.fork(None, true).await
        {
            let at = self.0.len();
            self.0[who].retries.push(at);
            self.add(retry).await;
        }
    }
}

const HAS: Has = Has { timers: true, activities: true, children: false };

proptest! {
    #![proptest_config(cases(60, 2000))]

    #[test]
    fn the_domain_forks_and_rewinds_as_the_interpreter_does(flow in flows(coarse, HAS), deeds in deeds((0..4u64).prop_map(|units| units * 1000))) {
        paused_runtime().block_on(async {
            let root = Pure::new(flow.definition.clone(), TokioClock::starting_at(EPOCH));
            Lines::run(&flow, &deeds, root).await;
        });
    }
}

proptest! {
    #![proptest_config(cases(30, 500))]

    #[test]
    fn the_engine_forks_retries_and_rewinds_as_the_interpreter_does(flow in flows(distinct, Has { activities: false, ..HAS }), deeds in deeds((0..8u32).prop_map(|power| 100 * 4_u64.pow(power) + 17))) {
        paused_runtime().block_on(async {
            let root = Whole::new(flow.definition.clone(), []).await;
            Lines::run(&flow, &deeds, root).await;
        });
    }
}
