//! Activities: what they are given, what becomes of their output, and what keeps them in bounds.

use midex_domain::limits;
use midex_engine::{Environments, Secrets};

use super::*;

/// What activities were begun with.
type Seen = Arc<Mutex<Vec<Context>>>;

fn seeing(seen: &Seen, name: &str, answer: Value) -> impl Activity + use<> {
    let seen = seen.clone();
    function(name, move |context| {
        seen.lock().expect("a list").push(context);
        let answer = answer.clone();
        async move { Ok(answer) }
    })
}

#[tokio::test(start_paused = true)]
async fn an_output_is_the_steps_and_the_next_step_is_given_it() {
    let (log, seen) = (Log::new(), Seen::default());
    let activities = Activities::default()
        .with_activity(seeing(&seen, "add", json!({ "sum": 3 })))
        .and_then(|activities| activities.with_activity(seeing(&seen, "double", json!(6))))
        .and_then(|activities| activities.with_activity(seeing(&seen, "tell", json!(null))))
        .expect("activities");
    let engine = engine(&log, activities).await;
    let with = json!({ "with": { "value": "${{ steps.add.sum }}", "of": "${{ inputs.who }}" } });
    let steps = json!([
        activity("add", None, json!({})),
        activity("double", Some("add"), with),
        activity("tell", Some("double"), json!({})),
    ]);
    begin(&engine, defined(steps, json!({})), json!({ "who": "me" })).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "add").await, json!({ "sum": 3 }));
    assert_eq!(output_of(&engine, "double").await, json!(6));
    let seen = seen.lock().expect("a list");
    let inputs: Vec<_> = seen.iter().map(|context| context.input.clone()).collect();
    // Without `with` an activity is given what the execution was started with, or what came before it.
    assert_eq!(inputs, [json!({ "who": "me" }), json!({ "value": 3, "of": "me" }), json!(6)]);
    let first = &seen[0];
    assert_eq!(first.execution_id.as_str(), "e");
    assert_eq!(first.step.as_str(), "add");
    assert_eq!((first.visit, first.item, first.attempt), (1, None, 1));
}

#[tokio::test(start_paused = true)]
async fn the_idempotency_key_is_one_for_the_attempts_of_a_visit_and_of_nothing_else() {
    let (log, seen) = (Log::new(), Seen::default());
    let list = seen.clone();
    let twice = function("twice", move |context: Context| {
        list.lock().expect("a list").push(context.clone());
        async move {
            match context.attempt {
                1 => fails("network"),
                _ => Ok(json!(1)),
            }
        }
    });
    let engine = engine(&log, Activities::default().with_activity(twice).expect("one")).await;
    let retry = json!({ "max_attempts": 2, "backoff": "1s", "max_backoff": "1s", "jitter": false });
    let steps = each("twice", &[1, 2], 2, json!({ "retry": retry }));
    begin(&engine, defined(steps, json!({})), json!({})).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "each").await, json!([1, 1]));
    let seen = seen.lock().expect("a list");
    let of = |item: u32| -> Vec<_> {
        let of = seen.iter().filter(|context| context.item == Some(item));
        of.map(|context| (context.attempt, context.idempotency_key.clone())).collect()
    };
    let (first, second) = (of(0), of(1));
    assert_eq!((first[0].0, first[1].0), (1, 2));
    assert_eq!(first[0].1, first[1].1, "attempts of one visit share it");
    assert_ne!(first[0].1, second[0].1, "items do not");
    assert_eq!(first[0].1.len(), 64);
}

#[tokio::test(start_paused = true)]
async fn no_more_are_in_work_at_once_than_the_limit_and_all_come_to_their_end() {
    let log = Log::new();
    let now = Arc::new(Mutex::new((0_usize, 0_usize)));
    let counts = now.clone();
    let slow = function("slow", move |_| {
        let counts = counts.clone();
        async move {
            {
                let mut counts = counts.lock().expect("counts");
                counts.0 += 1;
                counts.1 = counts.1.max(counts.0);
            }
            tokio::time::sleep(seconds(1)).await;
            counts.lock().expect("counts").0 -= 1;
            Ok(json!(1))
        }
    });
    let total = limits::ATTEMPTS_AT_ONCE_MAX + 1;
    let items: Vec<_> = (0..total).collect();
    let steps = each("slow", &items, total, json!({}));
    let engine = engine(&log, only([slow])).await;
    begin(&engine, defined(steps, json!({})), json!({})).await;
    let status = until_state(&engine, "completed").await;
    assert_eq!(now.lock().expect("counts").1, limits::ATTEMPTS_AT_ONCE_MAX);
    assert_eq!(status.duration_ms, Some(2000), "the one past the limit waited for its turn");
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_breaks_an_attempt_off() {
    let log = Log::new();
    let slow = log.activity("slow", seconds(60), |_| Ok(json!(1)));
    let steps = json!([activity("slow", None, json!({ "timeout": "5s" }))]);
    let engine = started(&log, [slow], steps).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "STEP_TIMED_OUT");
    assert_eq!(log.lines(), ["slow 1", "slow broken off"]);
    assert_eq!(log.at(), [0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_its_own_class() {
    let log = Log::new();
    let bad = log.activity("bad", seconds(0), |context| {
        assert!(context.attempt > 1, "a fault made by a test");
        Ok(json!("recovered"))
    });
    let retry = json!({ "retry": { "max_attempts": 2, "backoff": "1s", "max_backoff": "1s", "jitter": false, "on": ["panic"] } });
    let steps = json!([activity("bad", None, retry)]);
    let engine = started(&log, [bad], steps).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "bad").await, json!("recovered"));

    let steps = json!([activity("bad", None, json!({}))]);
    let definition = defined(steps, json!({}));
    begin_as(&engine, "f", definition, json!({})).await;
    let status = engine.wait(&named("f"), Some(1), seconds(20)).await.expect("a status");
    assert_eq!(status.state.as_str(), "failed");
    assert_eq!(failure(&status), "PANIC");
    let message = format!("{:?}", status.error);
    assert!(message.contains("a fault made by a test"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_there_is_not_fails_by_its_name() {
    let log = Log::new();
    let call = json!({ "run": { "catalog": "shop", "operation": "orders.list" } });
    let steps = json!([step("call", None, call, json!({}))]);
    let engine = started(&log, [], steps).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "OPERATION_NOT_FOUND");
    let rows = history(&engine).await;
    let told = format!("{:?}", rows[0].error);
    assert!(told.contains("'shop'"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn what_this_process_has_not_waits_for_one_that_has_it() {
    let log = Log::new();
    let store = Arc::new(FailingStore::default());
    let without = engine_on(store.clone(), log.clock, Activities::default()).await;
    let steps = json!([
        activity("send", None, json!({})),
        step("word", Some("send"), json!({ "wait": { "for": "1s" } }), json!({}))
    ]);
    begin(&without, defined(steps, json!({})), json!({})).await;
    let waits = until(&without, |status| status.waits.iter().any(|wait| wait.waits_for == "retry"));
    assert_eq!(waits.await.waits[0].attempt, 1);
    // Whoever asks for it, and however long that takes.
    change(&without, LifecycleAction::Pause).await;
    change(&without, LifecycleAction::Resume).await;
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(without.status_now("e").await.state, "running");
    without.stop().await.expect("a stop");
    let send = log.activity("send", seconds(0), |_| Ok(json!(1)));
    let activities = only([send]);
    let with = engine_on(store, log.clock, activities).await;
    until_state(&with, "completed").await;
    assert_eq!(log.lines(), ["send 1"]);
}

/// An engine that knows the secret `KEY`.
async fn engine_with_key(store: Arc<FailingStore>, activities: Activities, log: &Log) -> Engine {
    let key = ("KEY".to_owned(), "hunter2-hunter2".to_owned());
    let options = Options {
        activities,
        environments: Environments::default_for_all_projects(
            [("REGION".to_owned(), "north".to_owned())].into(),
        ),
        secrets: Secrets::from_iter([key]),
        ..options(store, log.clock)
    };
    Engine::new(options).await.expect("an engine")
}

/// The activity `send`, which keeps what it is given and answers with its input.
fn echoing(seen: &Seen) -> Activities {
    let seen = seen.clone();
    let send = function("send", move |context: Context| {
        seen.lock().expect("a list").push(context.clone());
        async move { Ok(json!({ "you sent": context.input })) }
    });
    only([send])
}

#[tokio::test(start_paused = true)]
async fn secrets_are_filled_in_where_they_are_asked_for_and_seen_nowhere() {
    let (log, seen) = (Log::new(), Seen::default());
    let activities = echoing(&seen);
    let engine = engine_with_key(Arc::default(), activities, &log).await;
    let with = json!({ "with": {
        "header": "Bearer ${{ secrets.KEY }}", "region": "${{ env.REGION }}", "said": "${{ inputs.said }}"
    } });
    let steps = json!([activity("send", None, with)]);
    // What asks for another secret than there is stays data.
    let inputs = json!({ "said": "${secret:OTHER}" });
    begin(&engine, defined(steps, json!({})), inputs).await;
    until_state(&engine, "completed").await;
    let given = seen.lock().expect("a list")[0].input.clone();
    assert_eq!(
        given,
        json!({ "header": "Bearer hunter2-hunter2", "region": "north", "said": "${secret:OTHER}" })
    );
    let output = output_of(&engine, "send").await;
    assert_eq!(output["you sent"]["header"], "Bearer ${secret:KEY}");
    let all = format!("{:?}", history(&engine).await);
    assert!(!all.contains("hunter2"), "{all}");
    assert!(
        !format!("{:?}", Secrets::from_iter([("A".into(), "b-value".into())])).contains("b-value")
    );
}

/// Nobody gets a secret by asking for it, and nobody is sent what covers it.
#[tokio::test(start_paused = true)]
async fn the_cover_of_a_secret_that_came_in_as_data_is_not_sent() {
    for (said, with) in [
        ("${secret:KEY}", json!({ "deep": ["${{ inputs.said }}"] })),
        ("x", json!({ "again": "${{ steps.first['you sent'].header }}" })),
    ] {
        let (log, seen) = (Log::new(), Seen::default());
        let activities = echoing(&seen);
        let engine = engine_with_key(Arc::default(), activities, &log).await;
        let first = json!({ "with": { "header": "Bearer ${{ secrets.KEY }}" } });
        let second = json!({ "with": with });
        let send = json!({ "activity": { "name": "send" } });
        let steps = json!([
            step("first", None, send.clone(), first),
            step("second", Some("first"), send, second)
        ]);
        begin(&engine, defined(steps, json!({})), json!({ "said": said })).await;
        until_state(&engine, "failed").await;
        let status = engine.status_now("e").await;
        let error = format!("{:?}", status.error);
        assert!(
            error.contains("SecretNotAllowed") || error.contains("SECRET_NOT_ALLOWED"),
            "{error}"
        );
        assert_eq!(seen.lock().expect("a list").len(), 1, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_gone_fails_before_anything_is_done() {
    let (log, seen) = (Log::new(), Seen::default());
    let steps = json!([
        step("pause", None, json!({ "wait": { "for": "1h" } }), json!({})),
        activity(
            "send",
            Some("pause"),
            json!({ "with": { "key": "${{ secrets.KEY }}" }, "retry": {
            "max_attempts": 2, "backoff": "1h", "max_backoff": "1h", "jitter": false, "on": ["network"] } })
        ),
    ]);
    let store = Arc::new(FailingStore::default());
    let list = seen.clone();
    let send = function("send", move |context: Context| {
        list.lock().expect("a list").push(context);
        async move { fails("network") }
    });
    let activities = only([send]);
    let engine = engine_with_key(store.clone(), activities.clone(), &log).await;
    begin(&engine, defined(steps, json!({})), json!({})).await;
    until(&engine, |status| status.revision == 3).await;
    engine.stop().await.expect("a stop");
    assert_eq!(seen.lock().expect("a list").len(), 1);
    // The next process has no such secret any more.
    let engine = engine_on(store, log.clock, activities).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "SECRET_MISSING");
    assert_eq!(seen.lock().expect("a list").len(), 1, "nothing was called");
    assert!(log.passed() >= seconds(7200), "at the second attempt");
}
