//! Operations of catalogs: what is called, with what, and what is called again.

use super::{crash::process, *};
use midex::{
    catalog::{BoxFuture, OperationCall, Operations, Outcome},
    domain::PauseReason,
    engine::Secrets,
};

/// A catalog whose reads are safe and whose other operations are not. Each call takes 10 s.
#[derive(Clone, Debug, Default)]
struct Shop(Arc<Mutex<Vec<OperationCall>>>);

impl Operations for Shop {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            self.0.lock().expect("a list").push(call);
            tokio::time::sleep(seconds(10)).await;
            Ok(json!({ "status": 200 }))
        })
    }

    fn is_safe(&self, catalog: &str, operation: &str) -> bool {
        catalog == "shop" && operation == "orders.list"
    }
}

async fn engine(store: Arc<Faulty>, clock: TokioClock, shop: &Shop) -> Engine {
    let options = Options {
        operations: Arc::new(shop.clone()),
        secrets: Secrets::from_iter([("KEY".to_owned(), "hunter2-hunter2".to_owned())]),
        ..Options::new(store, Arc::new(clock), Arc::new(SeededIds::new(1)))
    };
    Engine::new(options).await.expect("an engine")
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
    assert_eq!(
        (call.catalog.as_str(), call.operation.as_str()),
        ("shop", "orders.create")
    );
    assert_eq!(call.with, json!({ "key": "hunter2-hunter2" }));
    assert_eq!(call.body, Some(json!({ "note": "for me" })));
    assert_eq!(call.timeout, Some(seconds(60)));
    assert_eq!(call.idempotency_key.len(), 64);
    assert!(call.cancelled.is_cancelled(), "nobody waits any more");
    assert!(!format!("{call:?}").contains("hunter2"));
}

/// How often an operation is called where the process ends in the midst of it, and what becomes of the execution.
fn crashed_in(operation: &str) -> (Vec<String>, String, Vec<PauseReason>) {
    let (store, shop) = (Arc::new(Faulty::default()), Shop::default());
    process().block_on(async {
        let clock = TokioClock::starting_at(EPOCH);
        let engine = engine(store.clone(), clock, &shop).await;
        let definition = defined(call(operation), json!({}));
        begin(&engine, definition, json!({ "who": "me" })).await;
        tokio::time::sleep(seconds(1)).await;
    });
    let status = process().block_on(async {
        let clock = TokioClock::starting_at(EPOCH.after(seconds(60)));
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
