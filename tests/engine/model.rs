//! The model test: random commands, stale and repeated tokens, time jumps, sleeps and restarts, against
//! a small reference model. Whatever is driven must show the same state and refuse with the same codes.
//!
//! A failing case prints its commands, and `MIDEX_SEED` replays what the run had; proptest keeps it in `proptest-regressions`.

mod approvals;
mod driven;
mod flow;
mod reference;
mod rehearsal;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use midex_domain::{
    Definition, LifecycleAction, error::Code, execution::Report, view::AdvanceReply,
};
use midex_test::{
    EPOCH, TokioClock, definition,
    long::{rounds, seed},
    play::change_to,
};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::json;

use self::{
    driven::{ID, Pure, Subject, Whole},
    reference::{Expected, Is, Model, ModelToken},
};

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
    Change(LifecycleAction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good(u8),
    /// With an artifact and a text that names it.
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
                "numbers", { "type": "data", "name": "numbers", "content": "1,2,3" }
            ] })),
            Self::Bad(n) => Report::Output(json!({ "wrong": n })),
            Self::Error => {
                Report::Error { message: "it cannot be done".into(), code: None, retryable: None }
            }
        }
    }
}

impl Kind {
    /// What is kept of it, where it is the first artifact number `artifact`.
    fn kept(self, artifact: u32) -> serde_json::Value {
        match self {
            Self::Rich => json!({ "summary": "rich", "artifacts": ["numbers", {
                "id": artifact, "type": "data", "name": "numbers", "content_type": "text/plain", "size_bytes": 5
            }] }),
            _ => match self.report() {
                Report::Output(output) | Report::Answer(output) => output,
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
        8 => Just(LifecycleAction::Pause),
        10 => Just(LifecycleAction::Resume),
        1 => Just(LifecycleAction::Abandon),
        1 => Just(LifecycleAction::Diverge),
        1 => Just(LifecycleAction::Fail),
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
    let before: Vec<Vec<&str>> =
        graph.iter().map(|deps| deps.iter().map(|at| names[*at].as_str()).collect()).collect();
    let steps: Vec<_> =
        names.iter().zip(&before).map(|(name, deps)| (name.as_str(), deps.as_slice())).collect();
    definition("modelled", &steps)
}

async fn advance(model: &mut Model, subject: &mut impl Subject, index: usize, report: Kind) {
    let token = model.tokens[index].clone();
    let expected = model.expect(&token, report);
    let answer = subject.advance(&token.text, report.report()).await;
    match (expected, answer) {
        (Ok(Expected::Completed), Ok(answer)) => model.complete(index, report, &answer),
        (Ok(Expected::Failed), Ok(answer)) => model.fail(index, report, &answer),
        (Ok(Expected::Replay(first)), Ok(answer)) => {
            assert!(answer.replayed);
            let again = AdvanceReply { replayed: first.replayed, ..answer };
            assert_eq!(again, *first, "the recorded answer");
        }
        (Err(code), Err(error)) => {
            assert_eq!(error.code(), code, "{error:?}");
            if code == Code::StepOutputInvalid && token.is == Is::Live {
                model.refuse_output(token.step, report);
            }
        }
        (expected, answer) => {
            panic!("expected {:?}, got {answer:?}", expected.map(|_| "an answer"))
        }
    }
}

async fn forge(model: &Model, subject: &mut impl Subject, index: usize, how: Forgery) {
    let token = &model.tokens[index];
    let (text, allowed): (String, &[Code]) = match how {
        Forgery::Cut => (token.text[..token.text.len() / 2].into(), &[Code::TokenMalformed]),
        _ => forged(token, how, model.graph.len()),
    };
    let error = subject.advance(&text, Kind::Good(0).report()).await.expect_err("a forgery");
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
                let change = change_to(*lifecycle);
                match (model.change(*lifecycle), subject.change(change).await) {
                    (true, answer) => answer.expect("the state machine allows it"),
                    (false, answer) => {
                        let error = answer.expect_err("the state machine does not allow it");
                        assert_eq!(error.code(), Code::StateTransitionRefused);
                        for state in [before, lifecycle.target_state().as_str()] {
                            assert!(error.message().contains(state), "{error}");
                        }
                    }
                }
            }
            Action::StartAgain { same } => {
                let answer = subject.start(ID, *same).await;
                if *same && model.revision == 1 {
                    let again = AdvanceReply { replayed: false, ..answer.expect("the same start") };
                    assert_eq!(Some(again), model.first);
                } else {
                    assert_eq!(answer.expect_err("the id is taken").code(), Code::ExecutionIdTaken);
                }
            }
        }
        let status = subject.state().await;
        assert_eq!(status.state.as_str(), model.state, "{action:?}");
        assert_eq!(status.steps, model.counts(), "{action:?}");
        assert_eq!(status.revision, model.revision, "{action:?}");
        assert_eq!(status.artifacts, model.artifacts, "{action:?}");
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

/// So many cases, more in the long run, or as many as `PROPTEST_CASES` says; from the seed that is printed.
fn cases(short: u64, long: u64) -> ProptestConfig {
    let config = ProptestConfig {
        rng_seed: RngSeed::Fixed(seed(RandomState::new().build_hasher().finish())),
        ..ProptestConfig::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => {
            ProptestConfig { cases: u32::try_from(rounds(short, long)).expect("a count"), ..config }
        }
    }
}

proptest! {
    #![proptest_config(cases(150, 2000))]

    #[test]
    fn the_domain_does_what_the_model_does(graph in graphs(), actions in actions()) {
        paused_runtime().block_on(async {
            let clock = TokioClock::starting_at(EPOCH);
            let definition = workflow(&graph);
            let mut subject = Pure::new(definition, clock);
            run(graph, &actions, &mut subject).await;
        });
    }

    #[test]
    fn the_engine_does_what_the_model_does(graph in graphs(), actions in actions()) {
        paused_runtime().block_on(async {
            let mut subject = Whole::new(workflow(&graph), []).await;
            run(graph, &actions, &mut subject).await;
        });
    }
}
