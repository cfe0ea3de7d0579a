//! Children: workflows that run as executions of their own, while a step waits for them.

mod titles;

const ASK: (&str, &str) = (
    "ask",
    "
inputs: { text: { type: string, optional: true } }
steps:
  - { id: say, guidance: 'Say ${{ inputs.text }}.', result: {} }
final_output: { said: '${{ steps.say }}' }
",
);

scenarios! {
    a_step_has_the_final_output_of_its_child {
        manifest: "
steps:
  - { id: kid, workflow: ask, with: { text: hello } }
",
        workflows: &[ASK],
        script: &["kid: say reads Say hello.", "kid: say brings 7"],
        ends: r#"completed {"said":7}"#,
        history: &[r#"kid 1 completed = {"said":7}"#, "kid: say 1 completed = 7"],
    }
    a_child_without_a_final_output_brings_that_of_its_last_step {
        manifest: "steps:\n  - { id: kid, workflow: plain }\n",
        workflows: &[("plain", "
steps:
  - { id: a, guidance: Do it., result: {} }
  - { id: b, guidance: Do more., result: {} }
")],
        script: &["kid: a brings 1", "kid: b brings 2"],
        ends: "completed 2",
        history: &["kid 1 completed = 2", "kid: a 1 completed", "kid: b 1 completed"],
    }
    the_failure_of_a_child_is_that_of_its_step {
        manifest: "steps:\n  - { id: kid, workflow: ask }\n",
        workflows: &[ASK],
        script: &["kid: say fails MUTE"],
        ends: "failed MUTE",
        history: &["kid 1 failed MUTE", "kid: say 1 failed MUTE"],
    }
    the_failure_of_a_child_may_be_handled {
        manifest: "
steps:
  - { id: kid, workflow: ask, on_error: instead, next: $end }
  - id: instead
    run_when: failed
    activity: work
    with: { code: '${{ steps.kid.error.code }}' }
",
        workflows: &[ASK],
        activities: &[("work", &["brings its input"])],
        script: &["kid: say fails MUTE"],
        ends: r#"completed {"code":"MUTE"}"#,
        history: &["kid 1 failed MUTE", "instead 1 completed", "kid: say 1 failed MUTE"],
        calls: &["work 1"],
    }
    a_retry_begins_another_child {
        manifest: "
steps:
  - { id: kid, workflow: ask, retry: { max_attempts: 2, backoff: 1s, jitter: false, on: [MUTE] } }
",
        workflows: &[ASK],
        script: &["kid: say fails MUTE", "passes 2s", "kid: say brings 7"],
        ends: r#"completed {"said":7}"#,
        history: &[
            "kid 1 failed MUTE",
            "kid 2 completed",
            "kid: say 1 failed MUTE",
            "kid: say 1 completed",
        ],
    }
    a_grandchild_brings_its_output_all_the_way_up {
        manifest: "steps:\n  - { id: kid, workflow: middle }\nfinal_output: { top: '${{ steps.kid }}' }\n",
        workflows: &[
            ("middle", "steps:\n  - { id: below, workflow: ask, with: { text: deep } }\n"),
            ASK,
        ],
        script: &["kid: below: say reads Say deep.", "kid: below: say brings 7"],
        ends: r#"completed {"top":{"said":7}}"#,
        history: &[
            "kid 1 completed",
            "kid: below 1 completed",
            "kid: below: say 1 completed",
        ],
    }
    the_failure_of_a_grandchild_goes_all_the_way_up {
        manifest: "steps:\n  - { id: kid, workflow: middle }\n",
        workflows: &[("middle", "steps:\n  - { id: below, workflow: ask }\n"), ASK],
        script: &["kid: below: say fails MUTE"],
        ends: "failed MUTE",
        history: &[
            "kid 1 failed MUTE",
            "kid: below 1 failed MUTE",
            "kid: below: say 1 failed MUTE",
        ],
    }
    a_parent_has_a_large_result_of_its_child_whole {
        manifest: "
steps:
  - { id: kid, workflow: large }
  - { id: t, guidance: Go on., result: {} }
final_output: { letters: '${{ steps.kid.text | length }}' }
",
        workflows: &[("large", "
steps:
  - { id: s, activity: work }
final_output: { text: '${{ steps.s }}' }
")],
        activities: &[("work", &["brings 1000000 letters"])],
        script: &["t brings 1"],
        ends: r#"completed {"letters":1000000}"#,
        history: &["kid 1 completed", "t 1 completed", "kid: s 1 completed"],
        calls: &["work 1"],
    }
    a_child_waits_for_itself {
        manifest: "
steps:
  - { id: kid, workflow: slow }
  - { id: t, activity: work }
",
        workflows: &[("slow", "
steps:
  - { id: rest, wait: { for: 10s } }
  - { id: go, wait: { signal: go } }
")],
        activities: &[("work", &["brings 7"])],
        script: &["passes 12s", "kid: signal go 1"],
        ends: "completed 7",
        history: &[
            "kid 1 completed at 0s until 12s = 1",
            "t 1 completed at 12s",
            "kid: rest 1 completed until 10s",
            "kid: go 1 completed at 10s = 1",
        ],
        calls: &["work 1"],
    }
    two_children_run_at_the_same_time {
        manifest: "
steps:
  - { id: left, workflow: ask, with: { text: left } }
  - { id: right, depends_on: [], workflow: ask, with: { text: right } }
final_output: ['${{ steps.left.said }}', '${{ steps.right.said }}']
",
        workflows: &[ASK],
        script: &["right: say brings 2", "left: say brings 1"],
        ends: "completed [1,2]",
        history: &[
            "left 1 completed",
            "right 1 completed",
            "left: say 1 completed",
            "right: say 1 completed",
        ],
    }
    a_child_whose_step_has_no_time_left_is_abandoned {
        manifest: "
steps:
  - { id: kid, workflow: ask, timeout: 10s, on_error: continue }
  - { id: t, activity: work }
",
        workflows: &[ASK],
        activities: &[("work", &["brings 7"])],
        script: &["passes 11s"],
        ends: "completed 7",
        history: &[
            "kid 1 failed STEP_TIMED_OUT until 10s",
            "t 1 completed at 10s",
            "kid: say 1 skipped until 10s",
        ],
    }
    the_end_of_a_parent_is_that_of_its_child {
        manifest: "steps:\n  - { id: kid, workflow: ask }\n",
        workflows: &[ASK],
        script: &["passes 5s", "abandon"],
        ends: "abandoned",
        history: &["kid 1 skipped", "kid: say 1 skipped until 5s"],
    }
    a_workflow_that_is_not_there_fails_the_step {
        manifest: "steps:\n  - { id: kid, workflow: nobody }\n",
        ends: "failed WORKFLOW_NOT_FOUND",
        history: &["kid 1 failed WORKFLOW_NOT_FOUND"],
    }
    inputs_that_the_child_does_not_take_fail_the_step {
        manifest: "steps:\n  - { id: kid, workflow: ask, with: { text: 3 } }\n",
        workflows: &[ASK],
        ends: "failed INPUTS_INVALID",
        history: &["kid 1 failed INPUTS_INVALID"],
    }
}
