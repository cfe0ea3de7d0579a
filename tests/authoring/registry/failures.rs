//! What a manifest says of failures: which are tried again, and what a step that handles one may read.

use midex_domain::{check::ServerCapabilities, finding::Finding};
use midex_registry::check_text;

use super::*;

/// The findings of a manifest with these steps, each as `rule path`.
fn found(steps: &str) -> Vec<String> {
    let named = |finding: &Finding| format!("{} {}", finding.rule, finding.path);
    let abilities: ServerCapabilities = activities(&["build"]);
    let shipped = Registry::load_with_abilities(&Sources::default(), &abilities);
    let text = format!("workflow: w\ndescription: d\nsteps:\n{steps}");
    let (_, findings) = check_text("w.yaml", &text, &shipped);
    findings.iter().map(named).collect()
}

/// The names in `retry.on` of the first step, as they are kept.
fn kept(on: &str) -> Vec<String> {
    let text = format!(
        "workflow: w\ndescription: d\nsteps:\n  - {{ id: a, activity: build, idempotent: true, retry: {{ on: {on} }} }}\n"
    );
    let (workflow, findings) = check_text("w.yaml", &text, &SHIPPED);
    let workflow = workflow.unwrap_or_else(|| panic!("{findings:?}"));
    workflow.steps[0].retry.as_ref().unwrap().on.clone()
}

#[test]
fn a_status_and_the_usual_words_for_failures_are_taken_as_they_are_meant() {
    assert_eq!(
        kept("[503, \"502\", http_504, HTTP_500, 5xx, http_4xx, 4XX]"),
        ["HTTP_503", "HTTP_502", "HTTP_504", "HTTP_500", "http_5xx", "http_4xx", "http_4xx"]
    );
    assert_eq!(
        kept("[timeout, connection, NETWORK, Timeout, step_timed_out, too_large, panic]"),
        ["timeout", "network", "network", "timeout", "STEP_TIMED_OUT", "too_large", "PANIC"]
    );
}

#[test]
fn a_word_that_names_no_failure_is_a_finding() {
    let on = |kind: &str, on: &str| {
        found(&format!("  - {{ id: a, {kind}, retry: {{ on: [{on}] }} }}\n"))
    };
    let unknown = ["unknown_failure steps[0].retry.on[0]"];
    let guidance = "guidance: Do it.";
    for word in ["timeot", "all", "any", "error", "STEP_TIMED_OTU"] {
        assert_eq!(on(guidance, word), unknown, "{word}");
        assert_eq!(on("activity: build, idempotent: true", word), unknown, "{word}");
    }
    // No success is a failure, and no status has four digits.
    for number in ["200", "5030", "\"204\"", "5.5", "99"] {
        let found = on(guidance, number);
        assert!(
            found.len() == 1 && found[0].ends_with(" steps[0].retry.on[0]"),
            "{number}: {found:?}"
        );
    }
    // Models and activities have codes of their own, operations have not.
    assert!(on(guidance, "RATE_LIMITED").is_empty());
    let of_call = on("run: shop orders:list", "RATE_LIMITED");
    assert!(of_call.contains(&unknown[0].to_owned()), "{of_call:?}");
    assert!(on("activity: build, idempotent: true", "no_stock").is_empty());
    for known in ["STEP_FAILED", "timeout", "503", "5xx", "http_429", "connection"] {
        assert!(on(guidance, known).is_empty(), "{known}");
    }
    assert_eq!(
        found(
            "  - id: a\n    foreach: { in: [1], do: { guidance: Do it., retry: { on: [timeot] } } }\n"
        ),
        ["unknown_failure steps[0].foreach.do.retry.on[0]"]
    );
}

const HANDLED: &str = "  - { id: look, guidance: Look., on_error: mend }
  - { id: fine, guidance: Go on., next: $end }
  - { id: mend, run_when: failed, guidance: \"It failed: READ\" }
";

#[test]
fn a_handler_may_read_what_failed_and_nothing_that_is_not_there_then() {
    let reads = |path: &str| found(&HANDLED.replace("READ", &format!("${{{{ {path} }}}}")));
    for there in [
        "steps.look.error.code",
        "steps.look.error.message",
        "steps.look.error.status",
        "steps.look.error.response_payload.detail",
        "steps.look.error",
        "run.steps.look.error.status",
        "steps.look.summary | default('-')",
        "run.failure.code | default('-')",
        "steps.fine.summary | default('-')",
    ] {
        assert!(reads(there).is_empty(), "{there}: {:?}", reads(there));
    }
    let at = "steps[2].guidance";
    for (path, rule) in [
        ("steps.look.summary", "failed_output"),
        ("steps.look.output.summary", "failed_output"),
        ("steps.look", "failed_output"),
        ("run.failure.message", "failed_output"),
        ("run.failure", "failed_output"),
        ("steps.look.error.mesage", "unknown_reference"),
        ("steps.look.error.code.x", "unknown_reference"),
    ] {
        assert_eq!(reads(path), [format!("{rule} {at}")], "{path}");
    }
}

#[test]
fn a_handler_may_read_the_error_of_a_step_whose_output_has_no_such_field() {
    for step in ["foreach: { in: [1], do: { guidance: Look. } }", "set: { count: '${{ 1 / 0 }}' }"]
    {
        let lines = HANDLED.replace("guidance: Look.", step);
        let lines = lines.replace("READ", "${{ steps.look.error.message }}");
        assert!(found(&lines).is_empty(), "{step}: {:?}", found(&lines));
    }
}

#[test]
fn an_error_and_a_failure_are_read_only_where_they_may_be_there() {
    // Nothing failed where a step goes on in order.
    let after = |read: &str| {
        found(&format!(
            "  - {{ id: a, guidance: A. }}\n  - {{ id: b, guidance: \"${{{{ {read} }}}}\" }}\n"
        ))
    };
    assert_eq!(after("run.failure.code"), ["failed_output steps[1].guidance"]);
    assert!(after("steps.a.error.code | default('none')").is_empty());
    // A field of that name is the output's.
    let own = "  - { id: a, guidance: A., result: { type: object, required: [error], properties: { error: { type: string } } } }\n  - { id: b, guidance: \"${{ steps.a.error }}\" }\n";
    assert!(found(own).is_empty(), "{:?}", found(own));
    // Where the whole fails, and in hooks and compensations, there is a failure.
    let there = "  - { id: a, activity: build, idempotent: true, hooks: { on_failure: { set: { m: '${{ run.failure.code }}' } } } }
  - { id: b, guidance: B., compensate: { set: { n: '${{ run.failure.code }}' } } }
on_failure:
  - { id: c, guidance: \"${{ run.failure.code }} ${{ run.failure.status | default('-') }}\" }
";
    assert!(found(there).is_empty(), "{:?}", found(there));
    // A hook after a failure has no output to read.
    let hook = "  - { id: a, activity: build, idempotent: true, hooks: { on_failure: { set: { m: '${{ steps.a.x }}' } } } }\n";
    assert_eq!(found(hook), ["failed_output steps[0].hooks.on_failure.set.m"]);
    // Another step leads to it too, so the output may be there.
    let both = "  - { id: look, guidance: Look., on_error: mend, next: mend }
  - { id: mend, guidance: \"${{ steps.look.summary }}\" }
";
    assert!(
        found(both).iter().all(|found| !found.starts_with("failed_output")),
        "{:?}",
        found(both)
    );
}
