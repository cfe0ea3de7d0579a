//! Invocations: a workflow that is chosen when its step begins, and activities that are given their input.

const DOUBLE: (&str, &str) = (
    "double",
    "
inputs: { n: { type: integer } }
steps:
  - { id: reckon, activity: work, with: { n: '${{ inputs.n * 2 }}' } }
final_output: ${{ steps.reckon.n }}
",
);
const ASK: (&str, &str) = (
    "ask",
    "
inputs: { n: { type: integer } }
steps:
  - { id: say, guidance: 'Say ${{ inputs.n }}.', result: {} }
",
);
const CHOSEN: &str = "
inputs:
  how: { type: string, example: ask }
  n: { type: integer, example: 1 }
steps:
  - id: kid
    workflow: ${{ inputs.how }}
    allow: [ask, double]
    with: { n: '${{ inputs.n }}' }
";

scenarios! {
    an_expression_chooses_a_workflow_of_the_model {
        manifest: CHOSEN,
        workflows: &[ASK, DOUBLE],
        activities: &[("work", &["brings its input"])],
        inputs: r#"{"how": "ask", "n": 3}"#,
        script: &["kid: say reads Say 3.", "kid: say brings 7"],
        ends: "completed 7",
        history: &["kid 1 completed = 7", "kid: say 1 completed"],
    }
    an_expression_chooses_a_workflow_of_the_server {
        manifest: CHOSEN,
        workflows: &[ASK, DOUBLE],
        activities: &[("work", &["brings its input"])],
        inputs: r#"{"how": "double", "n": 3}"#,
        ends: "completed 6",
        history: &["kid 1 completed = 6", "kid: reckon 1 completed"],
        calls: &[r#"work 1 given {"n":6}"#],
    }
    a_workflow_that_is_not_allowed_is_not_begun {
        manifest: CHOSEN,
        workflows: &[ASK, DOUBLE, ("third", "steps:\n  - { id: s, activity: work }\n")],
        activities: &[("work", &["brings 1"])],
        inputs: r#"{"how": "third", "n": 3}"#,
        ends: "failed CHILD_NOT_ALLOWED",
        history: &["kid 1 failed CHILD_NOT_ALLOWED"],
    }
    the_choice_may_be_the_output_of_a_step {
        manifest: "
steps:
  - { id: choose, guidance: Which one?, result: { type: string } }
  - { id: kid, workflow: '${{ steps.choose }}', allow: ['*'], with: { n: 5 } }
",
        workflows: &[ASK, DOUBLE],
        activities: &[("work", &["brings its input"])],
        script: &[r#"choose brings "double""#],
        ends: "completed 10",
        history: &["choose 1 completed", "kid 1 completed = 10", "kid: reckon 1 completed"],
    }
    all_inputs_may_come_from_one_expression {
        manifest: "
inputs: { values: { type: object, example: { n: 1 } } }
steps:
  - { id: kid, workflow: double, with: '${{ inputs.values }}' }
",
        workflows: &[DOUBLE],
        activities: &[("work", &["brings its input"])],
        inputs: r#"{"values": {"n": 4}}"#,
        ends: "completed 8",
        history: &["kid 1 completed = 8", "kid: reckon 1 completed"],
    }
    an_invocation_is_made_again_in_each_round {
        manifest: "
memory: { n: 1 }
steps:
  - { id: kid, workflow: double, with: { n: '${{ memory.n }}' } }
  - { id: keep, set: { n: '${{ steps.kid }}' } }
  - id: again
    branch:
      - { if: memory.n < 5, next: kid }
      - { next: $end }
final_output: ${{ memory.n }}
",
        workflows: &[DOUBLE],
        activities: &[("work", &["brings its input"])],
        ends: "completed 8",
        history: &[
            "kid 1 completed = 2",
            "keep 1 completed",
            "again 1 completed",
            "kid#2 1 completed = 4",
            "keep#2 1 completed",
            "again#2 1 completed",
            "kid#3 1 completed = 8",
            "keep#3 1 completed",
            "again#3 1 completed",
            "kid: reckon 1 completed",
            "kid#2: reckon 1 completed",
            "kid#3: reckon 1 completed",
        ],
    }
    a_failed_invocation_may_be_passed_over {
        manifest: "
steps:
  - { id: kid, workflow: double, with: { n: 1 }, on_error: continue }
  - { id: s, guidance: Go on., result: {} }
final_output: { kid: \"${{ steps.kid | default('none') }}\", s: '${{ steps.s }}' }
",
        workflows: &[DOUBLE],
        activities: &[("work", &["fails for good refused"])],
        script: &["s brings 7"],
        ends: r#"completed {"kid":"none","s":7}"#,
        history: &["kid 1 failed REFUSED", "s 1 completed", "kid: reckon 1 failed REFUSED"],
        calls: &["work 1"],
    }
    an_activity_without_arguments_is_given_what_came_before_it {
        manifest: "
steps:
  - { id: a, guidance: Count., result: {} }
  - { id: b, activity: work }
",
        activities: &[("work", &["brings its input"])],
        script: &[r#"a brings {"n": 1}"#],
        ends: r#"completed {"n":1}"#,
        history: &["a 1 completed", "b 1 completed"],
        calls: &[r#"work 1 given {"n":1}"#],
    }
    an_operation_is_called_once {
        manifest: "
requires: { catalogs: [{ vendor: shop }] }
steps:
  - { id: s, run: 'shop orders:list', with: { page: 2 } }
  - { id: t, guidance: Go on., result: {} }
final_output: ${{ steps.s }}
",
        activities: &[("orders:list", &["takes 2s, brings [7]"])],
        script: &["t brings 1"],
        ends: "completed [7]",
        history: &["s 1 completed at 0s until 2s", "t 1 completed at 2s"],
        calls: &[r#"orders:list 1 given {"page":2}"#],
    }
}
