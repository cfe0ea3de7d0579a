//! The faults of execution that the study of an earlier engine found (its section 2: 5, 7 to 17), each shown absent. What
//! of them belongs to HTTP itself is tried with operations that note what they are given.

use midex_domain::{
    error::Code,
    operation::{BoxFuture, OperationCall, Operations, Outcome},
};
use midex_registry::{self as registry, Registry, Sources};
use midex_test::TokioClock;

use super::*;

/// Operations that answer with what they were given; `fails` fails as a service does that refuses.
#[derive(Clone, Debug, Default)]
struct Echo(Arc<Mutex<Vec<Given>>>);

/// An operation, its arguments and its body.
type Given = (String, Value, Option<Value>);

impl Operations for Echo {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        let (with, body) = (call.with.clone(), call.body.clone());
        let given = (call.operation.clone(), with.clone(), body.clone());
        self.0.lock().expect("a list").push(given);
        Box::pin(async move {
            if call.operation == "fails" {
                let message = r#"422: {"field":"name","reason":"taken"}"#;
                return Err(OperationFailure::new("http_4xx", message));
            }
            Ok(json!({ "with": with, "body": body, "ready": false }).into())
        })
    }

    fn has_catalog(&self, _: &str) -> bool {
        true
    }

    fn is_safe(&self, _: &str, _: &str) -> bool {
        true
    }
}

impl Echo {
    /// The operations that were called, in order.
    fn called(&self) -> Vec<String> {
        let calls = self.0.lock().expect("a list");
        calls.iter().map(|(operation, ..)| operation.clone()).collect()
    }
}

fn run(id: &str, after: Option<&str>, more: Value) -> Value {
    let mut kind = json!({ "run": { "catalog": "c", "operation": id } });
    if let Some(body) = more.get("body") {
        kind["run"]["body"] = body.clone();
    }
    let mut more = more;
    more.as_object_mut().expect("fields").remove("body");
    step(id, after, kind, more)
}

/// An engine whose operations are these.
async fn echoing() -> (Engine, Echo) {
    let (echo, clock) = (Echo::default(), TokioClock::starting_at(EPOCH));
    let store = Arc::<FailingStore>::default();
    (operating(store, clock, echo.clone()).await, echo)
}

/// Runs these steps to their end.
async fn led(steps: Value, more: Value, inputs: Value) -> (Engine, Echo, StatusView) {
    let (engine, echo) = echoing().await;
    begin(&engine, defined(steps, more), inputs).await;
    let status = until(&engine, |status| status.state != "running").await;
    (engine, echo, status)
}

fn findings(text: &str) -> Vec<String> {
    let none = Registry::load(&Sources::default());
    let (_, findings) = registry::check_text("w.yaml", text, &none);
    let told = findings.iter().map(|finding| format!("{} {}", finding.rule.as_str(), finding.path));
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn fault_5_a_secret_is_masked_by_what_it_is_and_not_by_a_guess() {
    let with = json!({ "with": { "x-plain-name": "${{ secrets.KEY }}" } });
    let (engine, echo, status) = led(json!([run("send", None, with)]), json!({}), json!({})).await;
    // Where it belongs it is; where it is looked at it is not, though the other side sends it back.
    let given = echo.0.lock().expect("a list")[0].1.clone();
    assert_eq!(given["x-plain-name"], "hunter2-hunter2");
    let shown = format!("{status:?}{:?}", engine.history_now("e").await);
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn fault_7_what_a_service_refuses_is_a_failure_and_is_sent_once() {
    let steps = json!([run("fails", None, json!({})), run("after", Some("fails"), json!({}))]);
    let (_, echo, status) = led(steps, json!({}), json!({})).await;
    assert_eq!(status.state.as_str(), "failed");
    assert_eq!(echo.called(), ["fails"]);
}

#[tokio::test(start_paused = true)]
async fn fault_8_no_start_goes_past_the_rules_of_the_inputs() {
    let (engine, echo) = echoing().await;
    let rules = json!({ "inputs": [{ "key": "region", "type": "string", "enum": ["eu"] }] });
    let definition = defined(json!([run("send", None, json!({}))]), rules);
    for inputs in [json!({}), json!({ "region": "moon" }), json!({ "region": "eu", "extra": 1 })] {
        let request =
            StartRequest { inputs: Some(inputs), ..play::request(definition.clone(), "e") };
        let refused = engine.start(request).await.expect_err("refused");
        assert_eq!(refused.code(), Code::InputsInvalid);
    }
    assert!(echo.called().is_empty());
}

#[tokio::test(start_paused = true)]
async fn fault_9_false_and_zero_do_not_hold() {
    for (value, runs) in [
        (json!(false), false),
        (json!(0), false),
        (json!(""), false),
        (json!(true), true),
        (json!("no"), true),
    ] {
        let steps = json!([run("send", None, json!({ "if": "inputs.flag" }))]);
        let (_, echo, _) = led(steps, json!({}), json!({ "flag": value })).await;
        assert_eq!(!echo.called().is_empty(), runs, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn faults_10_and_13_types_are_kept_and_arguments_and_body_are_both_sent() {
    let more = json!({ "with": { "n": "${{ inputs.n }}", "query": "q" }, "body": { "list": "${{ inputs.list }}" } });
    let inputs = json!({ "n": 3, "list": [1, { "a": null }] });
    let (engine, ..) = led(json!([run("send", None, more)]), json!({}), inputs).await;
    let sent = output_of(&engine, "send").await;
    assert_eq!(sent["with"], json!({ "n": 3, "query": "q" }));
    assert_eq!(sent["body"], json!({ "list": [1, { "a": null }] }));
}

#[tokio::test(start_paused = true)]
async fn fault_11_an_empty_text_is_one_and_what_leads_nowhere_is_never_sent() {
    let more =
        json!({ "with": { "whole": "${{ inputs.empty }}", "begins": "${{ inputs.empty }}-x" } });
    let steps = json!([run("send", None, more)]);
    let (engine, ..) = led(steps, json!({}), json!({ "empty": "" })).await;
    assert_eq!(output_of(&engine, "send").await["with"], json!({ "whole": "", "begins": "-x" }));
    let steps = json!([run("send", None, json!({ "with": { "x": "${{ inputs.missing }}" } }))]);
    let (_, echo, status) = led(steps, json!({}), json!({})).await;
    assert!(echo.called().is_empty());
    assert_eq!(failure(&status), "EXPRESSION_FAILED");
    let whole = json!({ "final_output": { "x": "${{ steps.send.nothing.at.all }}" } });
    let (_, _, status) = led(json!([run("send", None, json!({}))]), whole, json!({})).await;
    assert_eq!(status.state.as_str(), "completed");
    assert_eq!(status.final_output, Some(json!({ "x": null })));
}

#[tokio::test(start_paused = true)]
async fn fault_12_a_repetition_keeps_to_its_time_and_a_bad_pause_is_found() {
    let repeat = json!({ "repeat": { "until": "steps.send.ready", "every": "1s", "timeout": "2s", "max_attempts": 100 } });
    let clock = TokioClock::starting_at(EPOCH);
    let (_, echo, status) = led(json!([run("send", None, repeat)]), json!({}), json!({})).await;
    assert_eq!(failure(&status), "REPEAT_TIMED_OUT");
    assert_eq!(echo.called().len(), 3, "at 0, 1 and 2 seconds");
    let passed = Clock::now(&clock).since(EPOCH);
    assert!(passed < seconds(3), "{passed:?}");
    let text = "workflow: w\ndescription: d\nsteps:\n  - { id: a, run: c send, repeat: { until: steps.a.ready, every: soon } }\n";
    assert_eq!(findings(text), ["ill_formed_duration steps[0].repeat.every"]);
}

#[tokio::test(start_paused = true)]
async fn fault_14_what_a_service_says_of_its_refusal_is_kept() {
    let (engine, _, status) =
        led(json!([run("fails", None, json!({}))]), json!({}), json!({})).await;
    let error = status.error.expect("a failure");
    assert!(error.message.contains(r#""reason":"taken""#), "{}", error.message);
    let rows = engine.history_now("e").await;
    assert_eq!(rows[0].error.as_ref().expect("a failure").code, "HTTP_4XX");
}

#[tokio::test(start_paused = true)]
async fn fault_15_nothing_runs_after_a_failure_but_what_is_told_to() {
    let steps = json!([
        run("fails", None, json!({})),
        run("after", Some("fails"), json!({})),
        run("tidy", Some("after"), json!({ "run_when": "finished" }))
    ]);
    let (_, echo, status) = led(steps, json!({}), json!({})).await;
    assert_eq!(status.state.as_str(), "failed");
    assert_eq!(echo.called(), ["fails", "tidy"]);
    let steps = json!([
        run("fails", None, json!({ "on_error": "continue" })),
        run("after", Some("fails"), json!({}))
    ]);
    let (_, echo, status) = led(steps, json!({}), json!({})).await;
    assert_eq!(status.state.as_str(), "completed");
    assert_eq!(echo.called().len(), 2);
    let retry = json!({ "retry": { "max_attempts": 3, "backoff": "1s", "max_backoff": "1s", "jitter": false, "on": ["http_4xx"] } });
    let (_, echo, _) = led(json!([run("fails", None, retry)]), json!({}), json!({})).await;
    assert_eq!(echo.called().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn fault_16_the_order_is_the_authors_and_a_reference_is_a_dependency() {
    let steps = json!([
        run("zebra", None, json!({})),
        run("ant", None, json!({})),
        run("mole", None, json!({}))
    ]);
    let (engine, ..) = led(steps, json!({}), json!({})).await;
    let rows = engine.history_now("e").await;
    let order: Vec<_> = rows.iter().map(|row| row.step_name.as_str()).collect();
    assert_eq!(order, ["zebra", "ant", "mole"]);
    // One that names a step behind it is found, and not when it is too late.
    let head = "workflow: w\ndescription: d\nsteps:\n";
    let late = format!(
        "{head}  - {{ id: a, guidance: '${{{{ steps.b.x }}}}' }}\n  - {{ id: b, guidance: B. }}\n"
    );
    assert_eq!(findings(&late), ["reference_too_early steps[0].guidance"]);
    // One that names a step beside it waits for that.
    let beside = format!(
        "{head}  - {{ id: a, guidance: A., depends_on: [], result: {{}} }}\n  - {{ id: b, guidance: '${{{{ steps.a.x }}}}', depends_on: [] }}\n"
    );
    let none = Registry::load(&Sources::default());
    let (workflow, findings) = registry::check_text("w.yaml", &beside, &none);
    assert_eq!(findings, []);
    assert_eq!(workflow.expect("a workflow").steps[1].depends_on[0].as_str(), "a");
}

#[tokio::test(start_paused = true)]
async fn fault_17_what_follows_a_skipped_step_runs() {
    let steps = json!([
        run("maybe", None, json!({ "if": "inputs.wanted" })),
        run("after", Some("maybe"), json!({})),
        run("also", Some("maybe"), json!({ "run_when": "finished" }))
    ]);
    let (_, echo, status) = led(steps, json!({}), json!({ "wanted": false })).await;
    assert_eq!(status.state.as_str(), "completed");
    assert_eq!(echo.called(), ["after", "also"]);
}
