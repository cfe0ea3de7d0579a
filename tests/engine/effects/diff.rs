//! The comparison of two executions: definitions, inputs, paths, outputs and times.

use super::*;
use midex_domain::{
    error::Code,
    execution::Report,
    limits,
    view::{DiffView, StepDiff, ValueChange},
};
use midex_engine::ForkRequest;
use midex_test::play::Play;

const LETTER: &str = "steps:
  - { id: plan, guidance: Plan it., result: {} }
  - { id: write, guidance: Write it., result: {} }
  - { id: send, guidance: Send it., result: {} }
";

async fn compared(engine: &Engine, before: &str, after: &str) -> DiffView {
    let diff = engine.diff(&named(before), &named(after), 0).await.unwrap();
    assert_eq!(diff.next_offset, None);
    diff
}

/// Starts an execution and reports these outputs, one after the other.
async fn run(engine: &Engine, definition: Arc<Definition>, name: &str, outputs: &[Value]) {
    let started =
        StartRequest { inputs: Some(json!({ "to": name })), ..play::request(definition, name) };
    let mut reply = engine.start(started).await.unwrap();
    for output in outputs {
        tokio::time::sleep(seconds(1)).await;
        let report = Report::Output(output.clone());
        reply = engine.report(&play::token(&reply), report).await;
    }
}

fn named_steps(diff: &DiffView) -> Vec<(&str, Option<&str>, Option<&str>)> {
    fn status(step: &StepDiff, is_before: bool) -> Option<&str> {
        let side = if is_before { &step.before } else { &step.after };
        side.as_ref().map(|visit| visit.status.as_str())
    }
    let steps = diff.steps.iter();
    steps.map(|step| (step.step.as_str(), status(step, true), status(step, false))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_retry_differs_from_its_source_in_the_step_that_failed() {
    let mut play = Play::begin(LETTER, json!({})).await;
    play.done("plan", json!({ "points": 3 })).await;
    play.fails("write", "DISK_FULL").await;
    let retry = ForkRequest { is_retry: true, ..ForkRequest::new(id()) };
    let (_, mut reply) = play.engine.fork(retry).await.unwrap();
    for output in [json!({ "text": "Dear" }), json!({ "sent": true })] {
        reply = play.engine.report(&play::token(&reply), Report::Output(output)).await;
    }
    let diff = compared(&play.engine, "e", "e~2").await;
    assert_eq!((diff.before.state.as_str(), diff.after.state.as_str()), ("failed", "completed"));
    let expected =
        [("write", Some("failed"), Some("completed")), ("send", None, Some("completed"))];
    assert_eq!(named_steps(&diff), expected);
    let error = diff.steps[0].before.as_ref().unwrap().error.as_ref().unwrap();
    assert_eq!(error.code, "DISK_FULL");
    assert_eq!(diff.same_steps, 1);
    assert!(diff.definition.changes.is_empty() && diff.inputs.changes.is_empty());
    assert!(compared(&play.engine, "e", "e").await.is_same());
}

#[tokio::test(start_paused = true)]
async fn inputs_outputs_and_definitions_are_compared_as_json_and_texts_by_lines() {
    let engine = play::memory_engine().await;
    let other = LETTER.replace("Send it.", "Send it twice.").replace(
        "  - { id: plan, guidance: Plan it., result: {} }\n",
        "  - { id: plan, guidance: Plan it., result: {}, optional: true }\n",
    ) + "  - { id: file, guidance: File it. }\n";
    let text = |middle: &str| format!("one\ntwo\n{middle}\nfour\nfive\nsix\nseven\n");
    let first = [json!({ "points": [1, 2] }), json!({ "text": text("three"), "kept": 1 })];
    let second = [json!({ "points": [1, 3, 4] }), json!({ "text": text("3"), "new": null })];
    run(&engine, play::defined(LETTER), "a", &first).await;
    run(&engine, play::defined(&other), "b", &second).await;
    let diff = compared(&engine, "a", "b").await;

    let change = |path: &str, before: Option<Value>, after: Option<Value>| ValueChange {
        path: path.to_owned(),
        before,
        after,
        lines: None,
    };
    assert_eq!(diff.inputs.changes, [change("/to", Some(json!("a")), Some(json!("b")))]);
    let paths: Vec<_> = diff.definition.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["/steps/plan/optional", "/steps/send/guidance/text", "/steps/file"]);
    let changes = |at: usize| diff.steps[at].output.as_ref().unwrap().changes.clone();
    let points = [
        change("/points/1", Some(json!(2)), Some(json!(3))),
        change("/points/2", None, Some(json!(4))),
    ];
    assert_eq!(changes(0), points);
    let lines = "@@ -1,5 +1,5 @@\n one\n two\n-three\n+3\n four\n five\n";
    let text = ValueChange { lines: Some(lines.to_owned()), ..change("/text", None, None) };
    let added = change("/new", None, Some(Value::Null));
    assert_eq!(changes(1), [text, change("/kept", Some(json!(1)), None), added]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_text_alone_is_shown_as_lines() {
    let engine = play::memory_engine().await;
    run(&engine, play::defined(LETTER), "a", &[]).await;
    run(&engine, play::defined(&format!("# Checked.\n{LETTER}")), "b", &[]).await;
    let diff = compared(&engine, "a", "b").await;
    assert_eq!(diff.definition.changes.len(), 1, "{diff:?}");
    assert_eq!(diff.definition.changes[0].path, "/content");
    assert!(diff.definition.changes[0].lines.as_ref().unwrap().contains("\n+# Checked.\n"));
}

#[tokio::test(start_paused = true)]
async fn long_values_lists_and_pages_are_cut_and_say_so() {
    let lines =
        (0..60).map(|step| format!("  - {{ id: s{step}, guidance: Do it., result: {{}} }}\n"));
    let lines: Vec<_> = lines.collect();
    let definition = play::defined(&format!("steps:\n{}", lines.concat()));
    let engine = play::memory_engine().await;
    for name in ["a", "b"] {
        let many: Vec<_> = (0..2_000).map(|item| format!("{name}{item}")).collect();
        let mut outputs = vec![json!({ "many": many }), json!({ "long": name.repeat(9_000) })];
        outputs.resize(60, json!({ "name": name.repeat(200) }));
        run(&engine, definition.clone(), name, &outputs).await;
    }
    let (mut offset, mut steps, mut pages) = (Some(0), Vec::new(), 0);
    while let Some(at) = offset {
        let page = engine.diff(&named("a"), &named("b"), at).await.unwrap();
        let bytes = serde_json::to_string(&page).unwrap().len();
        assert!(bytes < 3 * limits::DIFF_PAGE_BYTES_MAX, "{bytes}");
        assert!(page.steps.len() < 60 && !page.steps.is_empty());
        assert_eq!(page.inputs.changes.len(), usize::from(at == 0));
        offset = page.next_offset;
        steps.extend(page.steps);
        pages += 1;
    }
    assert!(pages > 2, "{pages}");
    let names: Vec<_> = steps.iter().map(|step| step.step.clone()).collect();
    assert_eq!(names, (0..60).map(|step| format!("s{step}")).collect::<Vec<_>>());
    let many = steps[0].output.as_ref().unwrap();
    assert_eq!(many.changes.len() + many.more, 2_000);
    let long = &steps[1].output.as_ref().unwrap().changes[0];
    let shown = long.before.as_ref().unwrap().as_str().unwrap();
    assert!(shown.len() <= limits::DIFF_VALUE_BYTES_MAX && shown.ends_with('…'), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn the_longest_differences_of_times_come_first() {
    let engine = play::memory_engine().await;
    for (name, slow) in [("a", 1), ("b", 60)] {
        let mut reply = engine.start(play::request(play::defined(LETTER), name)).await.unwrap();
        for takes in [2, slow, 3 + slow / 30] {
            tokio::time::sleep(seconds(takes)).await;
            reply = engine.report(&play::token(&reply), Report::Output(json!({}))).await;
        }
    }
    let diff = compared(&engine, "a", "b").await;
    assert!(diff.is_same());
    let times: Vec<_> =
        diff.times.iter().map(|it| (it.step.as_str(), it.before_ms, it.after_ms)).collect();
    assert_eq!(times, [("write", 1_000, 60_000), ("send", 3_000, 5_000)]);
    assert_eq!((diff.before.duration_ms, diff.after.duration_ms), (Some(6_000), Some(67_000)));
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_does_not_exist_cannot_be_compared() {
    let play = Play::begin(LETTER, json!({})).await;
    for (before, after) in [("e", "absent"), ("absent", "e")] {
        let refused = play.engine.diff(&named(before), &named(after), 0).await.unwrap_err();
        assert_eq!(refused.code(), Code::ExecutionNotFound);
        assert!(refused.message().contains("absent"));
    }
    let past_the_end = play.engine.diff(&id(), &id(), 1_000).await.unwrap();
    assert!(past_the_end.steps.is_empty() && past_the_end.next_offset.is_none());
}
