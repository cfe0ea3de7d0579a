//! Hooks, compensations, joins and the steps of `on_failure`, as files declare them.

use super::*;

#[test]
fn hooks_and_compensations_are_steps_that_the_server_does() {
    seconds(
        "
set: {x: 1} / hooks: {on_success: {set: {y: 1}}}                          => ok
set: {x: 1} / hooks: {on_complete: {set: {y: '${{ run.outcome }}'}, required: true, if: run.output.x == 1}} => ok
set: {x: 1} / compensate: {set: {y: '${{ steps.b.x }}'}}                  => ok
set: {x: 1} / hooks: {on_success: {guidance: Say it}}                     => missing_kind hooks.on_success, unknown_key hooks.on_success.guidance
set: {x: 1} / hooks: {on_success: {set: {y: 1}, activity: z}}             => several_kinds hooks.on_success.activity, unknown_activity hooks.on_success.activity
set: {x: 1} / hooks: {on_success: {description: Nothing}}                 => missing_kind hooks.on_success
set: {x: 1} / hooks: {onSuccess: {set: {y: 1}}}                           => unknown_key hooks.onSuccess
set: {x: 1} / hooks: {on_success: {set: {y: 1}, with: {z: 1}}}            => no_effect hooks.on_success.with
set: {x: 1} / hooks: {on_success: {set: {y: 1}, next: a}}                 => unknown_key hooks.on_success.next
set: {x: 1} / hooks: {on_success: {set: {y: '${{ run.outcom }}'}}}        => unknown_reference hooks.on_success.set.y
set: {x: 1} / hooks: {on_success: {set: {y: '${{ steps.nope }}'}}}        => unknown_reference hooks.on_success.set.y
set: {x: '${{ run.outcome }}'}                                            => unknown_reference set.x
set: {x: 1} / compensate: {set: {y: 1}, required: true}                   => unknown_key compensate.required
branch: [{next: $end}] / hooks: {on_success: {set: {y: 1}}}               => no_effect hooks
branch: [{next: $end}] / compensate: {set: {y: 1}}                        => no_effect compensate
foreach: {in: [1], do: {set: {x: 1}, hooks: {on_success: {set: {y: 1}}}}} => no_effect foreach.do.hooks
foreach: {in: [1], do: {set: {x: 1}, compensate: {set: {y: '${{ item }}'}}}} => ok
",
    );
}

#[test]
fn what_a_hook_or_a_compensation_writes_into_memory_is_known_there() {
    sound(&after_a(
        "  - {id: b, set: {x: '${{ memory.y }}'}, hooks: {on_success: {set: {y: 1}}}}\n",
    ));
}

#[test]
fn a_quorum_is_of_the_steps_before() {
    seconds(
        "
guidance: x / join: any                           => ok
guidance: x / join: all                           => ok
guidance: x / join: quorum(1) / losers: cancel    => ok
guidance: x / join: quorum(2)                     => out_of_range join
guidance: x / join: quorum(0)                     => unknown_value join
guidance: x / join: most                          => unknown_value join
guidance: x / join: all / losers: cancel          => no_effect losers
guidance: x / losers: finish                      => no_effect losers
guidance: x / join: any / losers: drop            => unknown_value losers
",
    );
}

#[test]
fn steps_of_on_failure_follow_all_others() {
    let text = after_a(
        "  - {id: b, guidance: x, depends_on: []}\non_failure:\n  - {id: look, guidance: 'See ${{ run.failure.code }}'}\n  - {id: tell, guidance: 'Say ${{ steps.look.summary }}'}\n",
    );
    let workflow = sound(&text);
    let expected = ["a after []", "b after []", "look after [a b]", "tell after [look]"];
    assert_eq!(order(&workflow), expected);
}

#[test]
fn nothing_leads_from_the_steps_to_those_of_on_failure_or_back() {
    let provided = |b: &str, look: &str| {
        after_a(&format!(
            "  - {{id: b, guidance: x{b}}}\non_failure:\n  - {{id: look, guidance: y{look}}}\n"
        ))
    };
    wrong(&provided(", next: look", ""), &["6:32 unknown_step steps[1].next"]);
    wrong(&provided(", on_error: look", ""), &["6:36 unknown_step steps[1].on_error"]);
    wrong(
        &provided(", depends_on: [look]", ""),
        &["6:39 unknown_dependency steps[1].depends_on[0]"],
    );
    wrong(&provided("", ", next: a"), &["8:35 unknown_step on_failure[0].next"]);
    wrong(&provided("", ", run_when: failed"), &["8:29 no_effect on_failure[0].run_when"]);
    wrong(&provided("", "}\n  - {id: b, guidance: z"), &["9:10 duplicate_step on_failure[1].id"]);
}

#[test]
fn the_workflow_has_hooks_and_says_when_effects_are_taken_back() {
    let text = after_a(
        "final_output: {x: 1}\nhooks:\n  on_success: {set: {y: '${{ run.output.x }}'}}\n  on_complete: {set: {z: '${{ run.outcome }}'}}\ncompensate_when: [failed, abandoned]\n",
    );
    let workflow = sound(&text);
    assert_eq!(workflow.bodies.len(), 2);
    assert_eq!(workflow.compensate_when.len(), 2);
    wrong(
        &after_a("hooks: {on_success: {agent: x}}\n"),
        &["6:21 missing_kind hooks.on_success", "6:22 unknown_key hooks.on_success.agent"],
    );
    wrong(&after_a("compensate_when: [completed]\n"), &["6:19 unknown_value compensate_when[0]"]);
    wrong(&after_a("on_failure: []\n"), &["6:13 no_steps on_failure"]);
}

/// What stands for the workflow where a step is named is no id of a step.
#[test]
fn no_step_is_called_as_the_workflow() {
    wrong(&steps("  - {id: $workflow, guidance: x}\n"), &["4:10 ill_formed_name steps[0].id"]);
}
