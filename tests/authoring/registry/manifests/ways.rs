//! Loops, and the ways that lead to a step: what an author of one mostly overlooks.

use super::{edits::edited, *};

use midex_test::assert_has;

/// The one finding of a manifest, which must have an edit; with that the file is sound.
#[track_caller]
fn mended(text: &str, place: &str, message: &str) -> String {
    let (_, findings) = checked("w.yaml", text);
    assert_eq!(places(&findings), [place], "{text}\n{findings:#?}");
    assert!(findings[0].message.contains(message), "{findings:#?}");
    assert!(!findings[0].edits.is_empty(), "{findings:#?}");
    let mended = edited(text, findings[0].edits.clone());
    let (workflow, left) = checked("w.yaml", &mended);
    assert!(left.is_empty() && workflow.is_some(), "{mended}\n{left:#?}");
    mended
}

fn review(reference: &str) -> String {
    steps(&format!(
        "  - id: draft\n    guidance: \"Heed ${{{{ {reference} }}}}\"\n  - id: review\n    guidance: Judge it\n    result: {{}}\n  - id: route\n    branch: [{{if: steps.review.approved, next: $end}}, {{next: draft}}]\n"
    ))
}

#[test]
fn what_a_loop_forgets_is_told_with_the_lines_that_keep_it() {
    let place = "5:25 forgotten_output steps[0].guidance";
    let text = review("steps.review.feedback | default('none')");
    let whole = mended(&text, place, "resets `review` and its output");
    assert_has(&whole, &["Heed ${{ memory.feedback | default('none') }}\""]);
    assert_has(
        &whole,
        &[
            "  - { id: keep_feedback, set: { feedback: \"${{ steps.review.feedback }}\" } }\n  - id: route",
        ],
    );
    let (_, findings) = checked("w.yaml", &text);
    let hint = findings[0].suggestion.clone().unwrap();
    assert!(
        hint.contains(
            "`set: { feedback: \"${{ steps.review.feedback }}\" }` in a step after `review`"
        ) && hint.contains("`memory.feedback` here"),
        "{hint}"
    );
    // Without a `default` the first round would have none: the edit gives it one.
    let whole = mended(&review("steps.review.feedback"), place, "`draft` is entered");
    assert_has(&whole, &["${{ memory.feedback | default('') }}"]);
    // Its own output is gone too, and so is what an error brought back.
    second(
        "guidance: '${{ steps.b.x | default(1) }}'\nresult: {}\nnext: a\nif: inputs.x",
        &["forgotten_output guidance"],
    );
    // What is written into memory stays.
    sound(&review("memory.words").replace("steps:", "memory: {words: none}\nsteps:"));
}

#[test]
fn a_reference_is_a_dependency_with_a_loop_as_without() {
    let side = "  - id: b\n    guidance: x\n    result: {}\n    depends_on: []\n  - id: c\n    guidance: '${{ steps.b.x | default(0) }}'\n    depends_on: [a]\n";
    for back in ["", "    next: a\n    if: inputs.again\n"] {
        let workflow = sound(&after_a(&format!("{side}{back}")));
        assert_eq!(order(&workflow), ["a after []", "b after []", "c after [a b]"]);
        // The step that is referred to leads back itself.
        let workflow =
            sound(&after_a(&side.replace("x\n    result", &format!("x\n{back}    result"))));
        assert_eq!(order(&workflow)[2], "c after [a b]");
    }
}

#[test]
fn a_loop_that_nothing_leads_out_of_is_a_finding() {
    let g = |id: &str, rest: &str| format!("  - id: {id}\n    guidance: x\n{rest}");
    wrong(&after_a(&g("b", "    next: a\n")), &["8:11 endless_loop steps[1].next"]);
    wrong(
        &after_a("  - id: r\n    branch: [{next: a}]\n"),
        &["7:21 endless_loop steps[1].branch[0].next"],
    );
    wrong(
        &after_a("  - id: r\n    branch: [{if: inputs.x, next: a}, {next: a}]\n"),
        &["7:35 endless_loop steps[1].branch[0].next"],
    );
    for way_out in [
        g("b", "    next: a\n    if: inputs.x\n"),
        g("b", "    next: a\n    optional: true\n"),
        g("b", "    next: a\n    on_error: continue\n"),
        g("b", "    next: a\n    on_error: c\n") + &g("c", ""),
        "  - id: r\n    branch: [{if: inputs.x, next: a}, {next: $end}]\n".to_owned(),
        "  - id: r\n    branch: [{if: inputs.x, next: a}]\n".to_owned(),
        "  - id: r\n    branch: [{if: inputs.x, next: f}, {next: a}]\n  - id: f\n    fail: {code: X, message: y}\n".to_owned(),
    ] {
        sound(&after_a(&way_out));
    }
}

#[test]
fn a_handler_that_is_reached_in_order_is_a_finding() {
    let a = "  - id: a\n    agent: reviewer\n    on_error: h\n";
    let h = "  - id: h\n    fail: {code: X, message: y}\n";
    let whole = mended(
        &steps(&format!("{a}{h}")),
        "7:9 handler_in_order steps[1].id",
        "`h` handles the failure of `a`, and is reached in order too",
    );
    assert!(whole.contains("- id: a\n    next: $end\n"), "{whole}");
    // What follows the handler would be cut off by that.
    let tell = "  - {id: h, guidance: x}\n  - id: c\n    guidance: y\n";
    let whole =
        mended(&steps(&format!("{a}{tell}")), "7:10 handler_in_order steps[1].id", "in order");
    assert_has(&whole, &["- {id: h, run_when: failed, guidance: x}\n"]);
    wrong(
        &steps(&format!(
            "{a}  - id: b\n    guidance: x\n    depends_on: []\n  - id: h\n    guidance: y\n    depends_on: []\n"
        )),
        &["10:9 handler_in_order steps[2].id"],
    );
    for apart in [
        format!("{a}    next: $end\n{h}"),
        format!("{a}{h}    run_when: failed\n")
            .replace("fail: {code: X, message: y}", "guidance: x"),
        format!("{a}{h}    if: run.steps.a.error\n"),
        // Back to a step that comes before is another attempt, not a handler.
        format!("  - id: h\n    guidance: x\n{a}"),
    ] {
        sound(&steps(&apart));
    }
}
