//! A call is answered alike alone and among many: every answer of a random crowd of calls on one execution is one that the
//! same call gets alone in a state that the other calls can lead to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use midex_domain::{
    Definition, LifecycleAction,
    clock::Timestamp,
    error::{Code, Error},
    execution::{Report, SignalRequest},
    limits,
};
use midex_engine::{Engine, StartRequest, store::MemoryStore};
use midex_test::{
    EPOCH, TokioClock, engine,
    long::{self, Dice},
    play::{Calls, change_to, good, id, request, token},
    sequence,
};
use serde_json::{Value, json};

/// A call on the execution `e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Start,
    StartWithOtherInputs,
    StartWithBadInputs,
    Output(&'static str),
    BadOutput,
    ForgedToken,
    Signal,
    Change(LifecycleAction),
}

const CALLS: [Call; 13] = [
    Call::Start,
    Call::StartWithOtherInputs,
    Call::StartWithBadInputs,
    Call::Output("one"),
    Call::Output("other"),
    Call::BadOutput,
    Call::ForgedToken,
    Call::Signal,
    Call::Change(LifecycleAction::Pause),
    Call::Change(LifecycleAction::Resume),
    Call::Change(LifecycleAction::Abandon),
    Call::Change(LifecycleAction::Diverge),
    Call::Change(LifecycleAction::Fail),
];

/// The sequence, with an input that must be a text.
fn declared() -> Arc<Definition> {
    let mut text: Value = serde_json::from_slice(&sequence().encode()).unwrap();
    text["workflow"]["inputs"] = json!([{ "key": "topic", "type": "string", "optional": true }]);
    Arc::new(Definition::decode(text.to_string().as_bytes()).unwrap())
}

/// An engine in which `e` is known or not, the token of its first step, and one that was never issued here.
struct Scene {
    engine: Engine,
    token: String,
    forged: String,
}

impl Scene {
    /// The same each time. The token of an execution that is not known is one of another engine.
    async fn new(is_known: bool) -> Self {
        let store = Arc::new(MemoryStore::new());
        let elsewhere = engine(store, TokioClock::starting_at(EPOCH), 2).await;
        let forged = token(&elsewhere.begin(declared(), "e").await);
        elsewhere.stop().await.unwrap();
        // Later, so that the foreign token is not one from the future.
        let later = Timestamp::from_milliseconds(EPOCH.milliseconds() + 3_600_000);
        let store = Arc::new(MemoryStore::new());
        let engine = engine(store, TokioClock::starting_at(later), 1).await;
        let token =
            if is_known { token(&engine.begin(declared(), "e").await) } else { forged.clone() };
        Self { engine, token, forged }
    }

    async fn begin(&self, inputs: Value) -> String {
        let request = StartRequest { inputs: Some(inputs), ..request(declared(), "e") };
        match self.engine.start(request).await {
            Ok(reply) => format!("{} {:?}", reply.workflow_state, reply.step_name),
            Err(error) => refusal(&error),
        }
    }

    async fn finish(&self, token: &str, report: Report) -> String {
        match self.engine.advance(token, report).await {
            Ok(reply) => format!("{} {:?}", reply.workflow_state, reply.step_name),
            Err(error) => refusal(&error),
        }
    }

    /// What the caller is told, in short.
    async fn answer(&self, call: Call) -> String {
        let status = match call {
            Call::Start => return self.begin(json!({})).await,
            Call::StartWithOtherInputs => return self.begin(json!({ "topic": "another" })).await,
            Call::StartWithBadInputs => return self.begin(json!({ "topic": 1 })).await,
            Call::Output(summary) => return self.finish(&self.token, good(summary)).await,
            Call::BadOutput => return self.finish(&self.token, Report::Output(json!({}))).await,
            Call::ForgedToken => return self.finish(&self.forged, good("one")).await,
            Call::Signal => {
                self.engine.apply_command(&id("e"), SignalRequest::new("go", json!(1))).await
            }
            Call::Change(lifecycle) => {
                let change = change_to(lifecycle);
                self.engine.apply_command(&id("e"), change).await
            }
        };
        match status {
            Ok(status) => status.state,
            Err(error) => refusal(&error),
        }
    }
}

fn refusal(error: &Error) -> String {
    let state = error.context("workflow_state").cloned().unwrap_or_default();
    format!("{} {state}", error.code())
}

/// What each of `calls` may be answered: alone, after any of the sequences that lead to another state than those before. Two
/// states are one where every call is answered alike in both.
async fn allowed(is_known: bool, calls: &[Call]) -> BTreeMap<Call, BTreeSet<String>> {
    let mut allowed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let (mut states, mut ways) = (BTreeSet::new(), vec![Vec::new()]);
    while let Some(way) = ways.pop() {
        let mut answers = Vec::new();
        for call in calls {
            let scene = Scene::new(is_known).await;
            for earlier in &way {
                scene.answer(*earlier).await;
            }
            answers.push(scene.answer(*call).await);
            scene.engine.stop().await.unwrap();
        }
        if !states.insert(answers.clone()) {
            continue;
        }
        for (call, answer) in calls.iter().zip(answers) {
            allowed.entry(*call).or_default().insert(answer);
            ways.push([way.as_slice(), &[*call]].concat());
        }
    }
    allowed
}

/// A crowd of calls of at most `kinds` sorts at once; each answer is one that the call could get alone.
async fn mix(dice: &mut Dice, kinds: u64, callers: u64) {
    let is_known = dice.roll(2) == 0;
    let mut calls = CALLS.to_vec();
    while calls.len() as u64 > kinds {
        let place = dice.roll(calls.len() as u64);
        calls.remove(usize::try_from(place).unwrap());
    }
    let allowed = allowed(is_known, &calls).await;
    let scene = Arc::new(Scene::new(is_known).await);
    let mut crowd: Vec<_> =
        (0..callers).map(|_| calls[usize::try_from(dice.roll(kinds)).unwrap()]).collect();
    for (counted, most) in [(Call::BadOutput, 4), (Call::Signal, limits::SIGNALS_KEPT_MAX)] {
        // More of these lead to another state than the first ones, which is another story.
        let mut count = 0;
        crowd.retain(|call| {
            *call != counted || {
                count += 1;
                count <= most
            }
        });
    }
    let answers: Vec<_> = crowd
        .into_iter()
        .map(|call| {
            let scene = scene.clone();
            tokio::spawn(async move { (call, scene.answer(call).await) })
        })
        .collect();
    for answer in answers {
        let (call, answer) = answer.await.unwrap();
        assert!(
            allowed[&call].contains(&answer),
            "{call:?} among {calls:?} (known: {is_known}): `{answer}`, alone {:?}",
            allowed[&call]
        );
    }
    scene.engine.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_in_a_crowd_gets_an_answer_that_it_could_get_alone() {
    let mut dice = Dice(long::seed(11));
    for _ in 0..long::rounds(12, 1000) {
        let (kinds, callers) = (1 + dice.roll(4), 20 + dice.roll(180));
        mix(&mut dice, kinds, callers).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_calls_on_an_unknown_id_are_all_refused_as_one_is() {
    let scene = Arc::new(Scene::new(false).await);
    for _ in 0..long::rounds(5, 100) {
        let calls = [
            Call::StartWithBadInputs,
            Call::ForgedToken,
            Call::Signal,
            Call::Change(LifecycleAction::Pause),
        ];
        let crowd: Vec<_> = (0..200)
            .map(|place| {
                let (scene, call) = (scene.clone(), calls[place % calls.len()]);
                tokio::spawn(async move { (call, scene.answer(call).await) })
            })
            .collect();
        for answer in crowd {
            let (call, answer) = answer.await.unwrap();
            let code = match call {
                Call::StartWithBadInputs => Code::InputsInvalid,
                _ => Code::ExecutionNotFound,
            };
            assert!(answer.starts_with(code.as_str()), "{call:?}: {answer}");
        }
    }
    scene.engine.stop().await.unwrap();
}
