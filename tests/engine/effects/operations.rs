//! Operations of catalogs: what is called, with what, and what is called again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{crash::process, *};
use midex_domain::{
    PauseReason,
    clock::Timestamp,
    error::Code,
    operation::{BoxFuture, OperationCall, Operations, Outcome},
};
use midex_test::TokioClock;
use midex_test::play::change_to;

/// A catalog whose reads are safe and whose other operations are not. Each call takes 10 s.
#[derive(Clone, Debug, Default)]
struct Shop(Arc<Mutex<Vec<OperationCall>>>);

impl Operations for Shop {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            self.0.lock().expect("a list").push(call);
            tokio::time::sleep(seconds(10)).await;
            Ok(json!({ "status": 200 }).into())
        })
    }

    fn has_catalog(&self, _: &str) -> bool {
        true
    }

    fn is_safe(&self, catalog: &str, operation: &str) -> bool {
        catalog == "shop" && operation == "orders.list"
    }
}

async fn engine(store: Arc<FailingStore>, clock: TokioClock, shop: &Shop) -> Engine {
    operating(store, clock, shop.clone()).await
}

fn call(operation: &str) -> Value {
    let kind = json!({ "run": {
        "catalog": "shop", "operation": operation, "body": { "note": "for ${{ inputs.who }}" }
    } });
    let more = json!({ "with": { "key": "${{ secrets.KEY }}" }, "timeout": "1m" });
    json!([step("call", None, kind, more)])
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_given_its_arguments_its_body_and_its_time() {
    let shop = Shop::default();
    let engine = engine(Arc::default(), TokioClock::starting_at(EPOCH), &shop).await;
    let inputs = json!({ "who": "me" });
    begin(&engine, defined(call("orders.create"), json!({})), inputs).await;
    until(&engine, |status| status.state == "completed").await;
    assert_eq!(output_of(&engine, "call").await, json!({ "status": 200 }));
    let calls = shop.0.lock().expect("a list");
    let [call] = &calls[..] else {
        panic!("one call: {calls:?}");
    };
    assert_eq!(call.catalog.as_str(), "shop");
    assert_eq!(call.operation.as_str(), "orders.create");
    assert_eq!(call.with, json!({ "key": "hunter2-hunter2" }));
    assert_eq!(call.body, Some(json!({ "note": "for me" })));
    assert_eq!(call.timeout, Some(seconds(60)));
    assert_eq!(call.idempotency_key.len(), 64);
    assert!(!format!("{call:?}").contains("hunter2"));
}

/// How often an operation is called where the process ends in the midst of it, and what becomes of the execution.
fn crashed_in(operation: &str) -> (Vec<String>, String, Vec<PauseReason>) {
    let (store, shop) = (Arc::new(FailingStore::default()), Shop::default());
    process().block_on(async {
        let clock = TokioClock::starting_at(EPOCH);
        let engine = engine(store.clone(), clock, &shop).await;
        let definition = defined(call(operation), json!({}));
        begin(&engine, definition, json!({ "who": "me" })).await;
        tokio::time::sleep(seconds(1)).await;
    });
    let status = process().block_on(async {
        let clock = TokioClock::starting_at(EPOCH.plus(seconds(60)));
        let engine = engine(store, clock, &shop).await;
        until(&engine, |status| status.state != "running").await
    });
    let calls = shop.0.lock().expect("a list");
    let keys = calls.iter().map(|call| call.idempotency_key.clone());
    (keys.collect(), status.state, status.pause_reasons)
}

#[test]
fn after_a_crash_an_operation_is_called_again_only_where_its_catalog_says_that_it_may_be() {
    let (keys, state, _) = crashed_in("orders.list");
    assert_eq!((keys.len(), state.as_str()), (2, "completed"));
    assert_eq!(keys[0], keys[1], "the other side may know it again");
    let (keys, state, reasons) = crashed_in("orders.create");
    assert_eq!((keys.len(), state.as_str()), (1, "paused"));
    assert_eq!(reasons, [PauseReason::OutcomeUnknown]);
}

/// A shop whose catalog comes and goes.
#[derive(Debug, Default)]
struct Closing {
    shop: Shop,
    is_open: AtomicBool,
}

impl Operations for Closing {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        self.shop.call(call)
    }

    fn has_catalog(&self, _: &str) -> bool {
        self.is_open.load(Ordering::SeqCst)
    }

    fn is_safe(&self, catalog: &str, operation: &str) -> bool {
        self.shop.is_safe(catalog, operation)
    }
}

async fn closing(store: Arc<FailingStore>, operations: &Arc<Closing>, at: Timestamp) -> Engine {
    let options =
        Options { operations: operations.clone(), ..options(store, TokioClock::starting_at(at)) };
    Engine::new(options).await.expect("an engine")
}

fn order() -> Arc<Definition> {
    let kind = json!({ "run": { "catalog": "shop", "operation": "orders.create" } });
    defined(json!([step("call", None, kind, json!({}))]), json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_for_its_catalog_and_goes_on_by_itself() {
    let (store, closed) = (Arc::<FailingStore>::default(), Arc::<Closing>::default());
    let engine = closing(store.clone(), &closed, EPOCH).await;
    begin(&engine, order(), json!({})).await;
    let status = until(&engine, |status| status.state == "paused").await;
    assert_eq!(status.pause_reasons, [PauseReason::CatalogMissing]);
    let [wait] = &status.waits[..] else {
        panic!("one wait: {status:?}");
    };
    assert_eq!((wait.waits_for.as_str(), wait.attempt), ("catalog", 1));
    let next = wait.next_call.as_deref().expect("a call");
    assert!(next.contains("catalog_title 'shop'"), "{next}");

    // Nothing is begun by time, nor by a resume.
    let resume = change_to(LifecycleAction::Resume);
    let resumed = engine.apply_command(&id(), resume).await;
    let refusal = resumed.expect_err("nothing to resume");
    assert_eq!(refusal.code(), Code::ExecutionPaused);
    assert!(refusal.suggested_action().contains("catalog.list"));
    engine.look_for_catalogs().await.expect("a look");
    tokio::time::sleep(seconds(3600)).await;
    assert!(closed.shop.0.lock().expect("a list").is_empty());

    closed.is_open.store(true, Ordering::SeqCst);
    engine.look_for_catalogs().await.expect("a look");
    let status = until(&engine, |status| status.state == "completed").await;
    assert!(status.pause_reasons.is_empty());
    assert_eq!(closed.shop.0.lock().expect("a list").len(), 1);
}

#[test]
fn a_catalog_that_came_while_no_server_ran_is_found_by_the_next_start() {
    let (store, closed) = (Arc::<FailingStore>::default(), Arc::<Closing>::default());
    process().block_on(async {
        let engine = closing(store.clone(), &closed, EPOCH).await;
        begin(&engine, order(), json!({})).await;
        until(&engine, |status| status.state == "paused").await;
    });
    closed.is_open.store(true, Ordering::SeqCst);
    process().block_on(async {
        let engine = closing(store, &closed, EPOCH.plus(seconds(60))).await;
        until(&engine, |status| status.state == "completed").await;
    });
    assert_eq!(closed.shop.0.lock().expect("a list").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_waits_for_its_catalog_fails_by_its_own_time_limit() {
    let (store, closed) = (Arc::<FailingStore>::default(), Arc::<Closing>::default());
    let engine = closing(store, &closed, EPOCH).await;
    let kind = json!({ "run": { "catalog": "shop", "operation": "orders.create" } });
    let steps = json!([step("call", None, kind, json!({ "timeout": "1m" }))]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    let status = until(&engine, |status| status.state == "failed").await;
    let failure = status.error.expect("a failure");
    assert_eq!(failure.code, "STEP_TIMED_OUT");
}

/// Also at the end of an execution: what is to be taken back is not forgotten because a catalog was removed.
#[tokio::test(start_paused = true)]
async fn a_compensation_waits_for_its_catalog() {
    let (store, closed) = (Arc::<FailingStore>::default(), Arc::<Closing>::default());
    let engine = closing(store, &closed, EPOCH).await;
    let undo = step(
        "set",
        None,
        json!({ "run": { "catalog": "shop", "operation": "orders.cancel" } }),
        json!({}),
    );
    let entries = json!({ "set": { "entries": { "n": 1 } } });
    let steps = json!([
        step("set", None, entries, json!({ "bodies": { "compensate": undo } })),
        step(
            "stop",
            Some("set"),
            json!({ "fail": { "code": "STOP", "message": "stop" } }),
            json!({})
        ),
    ]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    let status = until(&engine, |status| status.state == "paused").await;
    assert_eq!(status.pause_reasons, [PauseReason::CatalogMissing]);
    assert_eq!(status.ending.as_deref(), Some("failed"));
    tokio::time::sleep(seconds(3600)).await;
    closed.is_open.store(true, Ordering::SeqCst);
    engine.look_for_catalogs().await.expect("a look");
    let status = until(&engine, |status| status.state == "failed").await;
    assert_eq!(failure(&status).as_str(), "STOP");
    assert_eq!(status.not_compensated.len(), 0);
    assert_eq!(closed.shop.0.lock().expect("a list").len(), 1);
}

/// How often an operation is called whose answers break the `result` of its step, with these words for its retry.
async fn calls_of_broken(operation: &str, on: &[&str], idempotent: Option<bool>) -> usize {
    let shop = Shop::default();
    let engine = engine(Arc::default(), TokioClock::starting_at(EPOCH), &shop).await;
    let mut steps = call(operation);
    steps[0]["kind"]["run"]["idempotent"] = json!(idempotent);
    steps[0]["result"] = json!({ "type": "array" });
    steps[0]["retry"] = json!({ "max_attempts": 3, "backoff": "1s", "max_backoff": "1s", "jitter": false, "on": on });
    begin(&engine, defined(steps, json!({})), json!({ "who": "me" })).await;
    let status = until(&engine, |status| status.state != "running").await;
    assert_eq!(failure(&status), "STEP_OUTPUT_INVALID");
    let calls = shop.0.lock().expect("a list");
    calls.len()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_carried_out_is_repeated_only_where_that_does_no_harm_or_was_asked_for() {
    assert_eq!(calls_of_broken("orders.list", &[], None).await, 3);
    assert_eq!(calls_of_broken("orders.create", &[], None).await, 1);
    assert_eq!(calls_of_broken("orders.create", &[], Some(true)).await, 3);
    assert_eq!(calls_of_broken("orders.list", &[], Some(false)).await, 1);
    let on = ["STEP_OUTPUT_INVALID"];
    assert_eq!(calls_of_broken("orders.create", &on, None).await, 3);
}
