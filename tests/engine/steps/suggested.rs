//! Calls that outputs suggest (`toolCallSuggestions`), and what a manifest may not say of what it offers.

use midex_domain::{error::Code, finding::filter_errors, limits, offer::OptionSource};
use midex_registry::{self as registry, Registry, Sources};
use serde_json::json;

use super::{
    Play,
    offered::{chosen, ids, refuse},
};
use midex_test::{assert_has, list_of, rows};

/// Two steps of a model, the first of which gives its output this schema.
fn plain(result: &str) -> String {
    format!(
        "steps:\n  - {{ id: a, guidance: A., result: {result} }}\n  - {{ id: b, guidance: B., result: {{}} }}\n"
    )
}

const CLOSED: &str = "{ type: object, properties: { ok: { type: boolean } }, required: [ok], additionalProperties: false }";

#[tokio::test(start_paused = true)]
async fn an_output_may_suggest_calls_though_its_schema_is_closed() {
    let mut play = Play::begin(&plain(CLOSED), json!({})).await;
    let output = json!({ "ok": true, "toolCallSuggestions": [
        { "toolName": "manual_review_start", "parameters": { "data": 1 }, "condition": "Send to manual review" },
        { "toolName": "error_correction_start", "parameters": { "errors": [] }, "condition": "Auto-correct errors",
          "priority": 100, "metadata": { "passed": "over" } }
    ] });
    let offered = play.done("a", output.clone()).await.next_step_options.clone();
    assert_eq!(ids(&offered), ["a.2", "continue", "a.1"]);
    assert_eq!(offered.iter().map(|option| option.priority).collect::<Vec<_>>(), [100, 50, 0]);
    assert_eq!(offered[0].condition.as_deref(), Some("Auto-correct errors"));
    assert_eq!(offered[0].from, OptionSource::Suggestion);
    assert_eq!(play.history().await[0].output, Some(json!({ "ok": true })));
    let shown = serde_json::to_string(&offered).unwrap();
    assert!(!shown.contains("metadata"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_speaks_of_suggestions_is_held_against_them() {
    let schema = "{ type: object, required: [toolCallSuggestions], properties: { toolCallSuggestions: { type: array, minItems: 1 } } }";
    let mut play = Play::begin(&plain(schema), json!({})).await;
    let token = play.token("a");
    let refused = play.refused(&token, json!({ "toolCallSuggestions": [] })).await;
    assert_eq!(refused.code(), Code::StepOutputInvalid);
    let output = json!({ "toolCallSuggestions": [{ "toolName": "x" }] });
    play.done("a", output).await;
    assert_eq!(ids(&play.last.next_step_options), ["continue", "a.1"]);
}

#[tokio::test(start_paused = true)]
async fn malformed_suggestions_are_violations_and_lose_nothing() {
    let wrong = [
        (json!("x"), "/toolCallSuggestions"),
        (json!([1]), "/toolCallSuggestions/0"),
        (json!([{}]), "/toolCallSuggestions/0/toolName"),
        (json!([{ "toolName": "" }]), "/toolCallSuggestions/0/toolName"),
        (json!([{ "toolName": " x" }]), "/toolCallSuggestions/0/toolName"),
        (json!([{ "toolName": "x\n" }]), "/toolCallSuggestions/0/toolName"),
        (json!([{ "toolName": "x", "parameters": [] }]), "/toolCallSuggestions/0/parameters"),
        (json!([{ "toolName": "x", "condition": 1 }]), "/toolCallSuggestions/0/condition"),
        (json!([{ "toolName": "x", "priority": 1.5 }]), "/toolCallSuggestions/0/priority"),
        (json!([{ "toolName": "x", "priority": 1001 }]), "/toolCallSuggestions/0/priority"),
        (
            json!(vec![json!({ "toolName": "x" }); limits::SUGGESTIONS_MAX + 1]),
            "/toolCallSuggestions",
        ),
        (
            json!([{ "toolName": "x", "condition": "y".repeat(limits::SUGGESTIONS_BYTES_MAX) }]),
            "/toolCallSuggestions",
        ),
        (
            json!([{ "toolName": "x".repeat(limits::WORD_BYTES_MAX + 1) }]),
            "/toolCallSuggestions/0/toolName",
        ),
    ];
    for (suggestions, path) in wrong {
        let mut play = Play::begin(&plain(CLOSED), json!({})).await;
        let token = play.token("a");
        let output = json!({ "ok": true, "toolCallSuggestions": suggestions });
        let refused = play.refused(&token, output).await;
        assert_eq!(refused.code(), Code::StepOutputInvalid, "{suggestions}");
        let paths = list_of(refused.violations(), |one| one.path.as_str());
        assert_eq!(paths, [path], "{suggestions}");
        play.done("a", json!({ "ok": true })).await;
        assert_eq!(play.open(), ["b"]);
    }
    // At the limits.
    let mut play = Play::begin(&plain(CLOSED), json!({})).await;
    let most = json!(vec![json!({ "toolName": "x", "priority": -1000 }); limits::SUGGESTIONS_MAX]);
    play.done("a", json!({ "ok": true, "toolCallSuggestions": most })).await;
    assert_eq!(play.last.next_step_options.len(), limits::SUGGESTIONS_MAX + 1);
    let refused = refuse(&play, "b", chosen(Some(json!(1)), "x")).await;
    assert_has(refused.message(), &["several options have the tool `x`", "`a.1`"]);
}

/// The rules that a manifest with these `branches` breaks, with what stands beside them in the step.
fn found(branches: &str, kind: &str) -> Vec<(String, String)> {
    let text = format!(
        "workflow: w\ndescription: d\ninputs: {{ list: {{ type: array, optional: true }} }}\nsteps:\n  - id: a\n    {kind}\n    branches: {branches}\n"
    );
    let shipped = Registry::load(&Sources::default());
    let (_, findings) = registry::check_text("w.yaml", &text, &shipped);
    let errors = filter_errors(&findings);
    let told = errors.map(|finding| (finding.rule.to_string(), finding.path.clone()));
    told.collect()
}

#[test]
fn branches_that_could_do_nothing_are_findings_with_places() {
    let one = |branches: &str, rule: &str, path: &str| {
        assert_eq!(found(branches, "guidance: G."), [(rule.to_owned(), path.to_owned())]);
    };
    for pattern in ["valid", ":x", "a..b:x", ".a:x", "a.:x", "a:", "a : x", "\\ta:x", "a:x "] {
        let path = pattern.replace("\\t", "\t");
        let branches = format!("{{ \"{pattern}\": {{ toolName: t }} }}");
        one(&branches, "ill_formed_pattern", &format!("steps[0].branches.{path}"));
    }
    for [branches, rule, path] in rows(
        r#"
        "{ 'a:x': {} }", "missing_key", "steps[0].branches.a:x.toolName"
        "{ 'a:x': { toolName: '' } }", "empty_value", "steps[0].branches.a:x.toolName"
        "{ 'a:x': { toolName: [t] } }", "wrong_type", "steps[0].branches.a:x.toolName"
        "{ 'a:x': { toolName: t, parameters: 1 } }", "wrong_type", "steps[0].branches.a:x.parameters"
        "{ 'a:x': { toolName: t, continueWorkflow: 1 } }", "wrong_type", "steps[0].branches.a:x.continueWorkflow"
        "{ 'a:x': { toolName: t, priority: 1 } }", "unknown_key", "steps[0].branches.a:x.priority"
        "{ 'a:x': t }", "wrong_type", "steps[0].branches.a:x"
        "{}", "empty_value", "steps[0].branches"
        "[t]", "wrong_type", "steps[0].branches"
        "{ 'a:x': { toolName: t, parameters: { of: '${{ steps.absent.output }}' } } }", "unknown_reference", "steps[0].branches.a:x.parameters.of"
        "#,
    ) {
        one(branches, rule, path);
    }
    let long = "x".repeat(limits::BRANCH_PATTERN_BYTES_MAX);
    one(
        &format!("{{ 'a:{long}': {{ toolName: t }} }}"),
        "limit_exceeded",
        &format!("steps[0].branches.a:{long}"),
    );
    let many = |count: usize| {
        let each = (0..count).map(|at| format!("'a:{at}': {{ toolName: t }}"));
        format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
    };
    one(&many(limits::STEP_BRANCHES_MAX + 1), "limit_exceeded", "steps[0].branches");
    assert_eq!(found(&many(limits::STEP_BRANCHES_MAX), "guidance: G."), []);
    // Where nothing would act on them.
    let good = "{ 'a:x': { toolName: t } }";
    let no_effect = [("no_effect".to_owned(), "steps[0].branches".to_owned())];
    assert_eq!(found(good, "set: { n: 1 }"), no_effect);
    let each =
        "{ in: '${{ inputs.list }}', do: { guidance: G., branches: { 'a:x': { toolName: t } } } }";
    let text = format!("foreach: {each}");
    let within = ("no_effect".to_owned(), "steps[0].foreach.do.branches".to_owned());
    assert!(found(good, &text).contains(&within));
}

#[tokio::test(start_paused = true)]
async fn an_item_of_a_fan_out_offers_nothing_and_keeps_its_output_whole() {
    let lines = "inputs: { list: { type: array } }
steps:
  - id: each
    foreach: { in: \"${{ inputs.list }}\", do: { guidance: G., result: {} } }
";
    let mut play = Play::begin(lines, json!({ "list": [1] })).await;
    let output = json!({ "toolCallSuggestions": "words" });
    play.done("each", output.clone()).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(play.last.next_step_options, []);
    assert_eq!(play.last.final_output, Some(json!([output])));
}
