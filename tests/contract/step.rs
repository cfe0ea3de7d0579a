//! Steps: one piece of work of a model or of the server, with its attempts.

mod backoff;
mod interrupted;
mod large;

scenarios! {
    a_step_of_a_model_has_the_output_that_the_model_brings {
        manifest: "steps:\n  - { id: s, guidance: Do it., result: {} }\n",
        script: &[r#"s brings {"n": 7}"#],
        ends: r#"completed {"n":7}"#,
        history: &[r#"s 1 completed = {"n":7}"#],
    }
    a_step_of_the_server_has_the_output_of_its_activity {
        manifest: "steps:\n  - { id: s, activity: work }\n",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["s 1 completed = 7"],
        calls: &["work 1"],
    }
    an_output_is_handed_on_to_the_next_step {
        manifest: "
steps:
  - { id: a, guidance: Count., result: {} }
  - { id: b, activity: work, with: { n: '${{ steps.a.n + 1 }}' } }
  - { id: c, activity: work, with: { n: '${{ steps.b.n + 1 }}' } }
",
        activities: &[("work", &["brings its input"])],
        script: &[r#"a brings {"n": 1}"#],
        ends: r#"completed {"n":3}"#,
        history: &["a 1 completed", r#"b 1 completed = {"n":2}"#, r#"c 1 completed = {"n":3}"#],
        calls: &[r#"work 1 given {"n":2}"#, r#"work 1 given {"n":3}"#],
    }
    a_failure_that_nothing_handles_fails_the_execution_with_its_code {
        manifest: "
steps:
  - { id: s, guidance: Do it. }
  - { id: t, guidance: Go on. }
",
        script: &["s fails NO_DISK"],
        ends: "failed NO_DISK",
        history: &["s 1 failed NO_DISK"],
    }
    a_failure_of_the_server_has_its_class_as_its_code {
        manifest: "steps:\n  - { id: s, activity: work }\n",
        activities: &[("work", &["fails network"])],
        ends: "failed NETWORK",
        history: &["s 1 failed NETWORK"],
        calls: &["work 1"],
    }
    a_handler_reads_the_code_and_the_message_of_a_failure {
        manifest: "
steps:
  - { id: s, activity: work, on_error: tell, next: $end }
  - id: tell
    run_when: failed
    activity: report
    with: { code: '${{ steps.s.error.code }}', message: '${{ steps.s.error.message }}' }
",
        activities: &[("work", &["fails for good full"]), ("report", &["brings its input"])],
        ends: r#"completed {"code":"FULL","message":"it failed for good"}"#,
        history: &["s 1 failed FULL", "tell 1 completed"],
    }
    a_step_that_fails_once_is_tried_again {
        manifest: "
steps:
  - { id: s, guidance: Do it., result: {}, retry: { max_attempts: 2 } }
",
        script: &["s fails BUSY", "s brings 7"],
        ends: "completed 7",
        history: &["s 1 failed BUSY", "s 2 completed = 7"],
    }
    every_attempt_may_fail {
        manifest: "
steps:
  - { id: s, guidance: Do it., retry: { max_attempts: 3 } }
",
        script: &["s fails BUSY", "s fails BUSY", "s fails LATE"],
        ends: "failed LATE",
        history: &["s 1 failed BUSY", "s 2 failed BUSY", "s 3 failed LATE"],
        retried: &["s", "s"],
    }
    a_pause_between_attempts_is_twice_the_one_before {
        manifest: "
steps:
  - { id: s, activity: work, retry: { max_attempts: 4, backoff: 1s, jitter: false } }
",
        activities: &[("work", &["fails network", "fails network", "fails network", "brings 7"])],
        ends: "completed 7",
        history: &[
            "s 1 failed NETWORK at 0s",
            "s 2 failed NETWORK at 1s",
            "s 3 failed NETWORK at 3s",
            "s 4 completed at 7s",
        ],
        calls: &["work 1", "work 2", "work 3", "work 4"],
        retried: &["s", "s", "s"],
    }
    no_pause_between_attempts_is_longer_than_max_backoff {
        manifest: "
steps:
  - id: s
    activity: work
    retry: { max_attempts: 4, backoff: 2s, max_backoff: 5s, jitter: false }
",
        activities: &[("work", &["fails network", "fails network", "fails network", "brings 7"])],
        ends: "completed 7",
        history: &[
            "s 1 failed NETWORK at 0s",
            "s 2 failed NETWORK at 2s",
            "s 3 failed NETWORK at 6s",
            "s 4 completed at 11s",
        ],
    }
    a_model_has_the_pause_that_its_step_asks_for {
        manifest: "
steps:
  - { id: s, guidance: Do it., result: {}, retry: { max_attempts: 2, backoff: 30s, jitter: false } }
",
        script: &["s fails BUSY", "s brings 7"],
        ends: "completed 7",
        history: &["s 1 failed BUSY at 0s", "s 2 completed at 30s"],
    }
    a_failure_that_retry_names_is_tried_again {
        manifest: "
steps:
  - { id: s, guidance: Do it., result: {}, retry: { max_attempts: 3, on: [BUSY] } }
",
        script: &["s fails BUSY", "s fails BUSY", "s brings 7"],
        ends: "completed 7",
        history: &["s 1 failed BUSY", "s 2 failed BUSY", "s 3 completed"],
    }
    a_failure_that_retry_does_not_name_is_final {
        manifest: "
steps:
  - { id: s, guidance: Do it., retry: { max_attempts: 3, on: [BUSY] } }
",
        script: &["s fails BUSY", "s fails BROKEN"],
        ends: "failed BROKEN",
        history: &["s 1 failed BUSY", "s 2 failed BROKEN"],
    }
    a_failure_for_good_is_not_tried_again {
        manifest: "
steps:
  - { id: s, activity: work, retry: { max_attempts: 3 } }
",
        activities: &[("work", &["fails for good refused"])],
        ends: "failed REFUSED",
        history: &["s 1 failed REFUSED"],
        calls: &["work 1"],
    }
    a_failure_for_good_of_a_model_is_not_tried_again {
        manifest: "
steps:
  - { id: s, guidance: Do it., retry: { max_attempts: 3 } }
",
        script: &["s fails for good REFUSED"],
        ends: "failed REFUSED",
        history: &["s 1 failed REFUSED"],
    }
    a_model_that_is_too_slow_is_asked_again_and_has_the_full_time {
        manifest: "
steps:
  - id: s
    guidance: Do it.
    result: {}
    timeout: 10s
    retry: { max_attempts: 2, on: [STEP_TIMED_OUT] }
",
        script: &["passes 15s", "passes 4s", "s brings 7"],
        ends: "completed 7",
        history: &["s 1 failed STEP_TIMED_OUT at 0s until 10s", "s 2 completed at 10s until 19s"],
        retried: &["s"],
    }
    a_model_that_is_always_too_slow_times_out {
        manifest: "
steps:
  - { id: s, guidance: Do it., timeout: 10s, retry: { max_attempts: 2 } }
",
        ends: "failed STEP_TIMED_OUT",
        history: &["s 1 failed STEP_TIMED_OUT until 10s", "s 2 failed STEP_TIMED_OUT until 20s"],
    }
    an_activity_that_is_too_slow_is_tried_again {
        manifest: "
steps:
  - { id: s, activity: work, timeout: 5s, retry: { max_attempts: 2, backoff: 1s, jitter: false } }
",
        activities: &[("work", &["takes 60s, brings 1", "takes 2s, brings 7"])],
        ends: "completed 7",
        history: &["s 1 failed STEP_TIMED_OUT until 5s", "s 2 completed at 6s until 8s"],
        calls: &["work 1", "work 2"],
    }
    a_failure_that_is_passed_over_leaves_no_output {
        manifest: "
steps:
  - { id: s, guidance: Do it., on_error: continue }
  - { id: t, guidance: Go on., result: {} }
final_output: { s: \"${{ steps.s.summary | default('none') }}\", t: '${{ steps.t }}' }
",
        script: &["s fails BUSY", "t brings 7"],
        ends: r#"completed {"s":"none","t":7}"#,
        history: &["s 1 failed BUSY", "t 1 completed"],
    }
    an_output_of_the_server_that_breaks_its_schema_has_another_attempt {
        manifest: "
steps:
  - id: s
    activity: work
    result: { type: integer }
    retry: { max_attempts: 2, backoff: 1s, jitter: false }
",
        activities: &[("work", &[r#"brings "seven""#, "brings 7"])],
        ends: "completed 7",
        history: &["s 1 failed STEP_OUTPUT_INVALID", "s 2 completed = 7"],
    }
    a_pause_holds_back_the_next_attempt {
        manifest: "
steps:
  - { id: s, activity: work, retry: { max_attempts: 2, backoff: 10s, jitter: false } }
",
        activities: &[("work", &["fails network", "brings 7"])],
        script: &["pause", "passes 1m", "resume"],
        ends: "completed 7",
        history: &["s 1 failed NETWORK at 0s", "s 2 completed at 1m"],
        calls: &["work 1", "work 2"],
    }
    a_large_output_is_kept_whole {
        manifest: "
steps:
  - { id: s, activity: work }
  - { id: t, guidance: Go on., result: {} }
final_output: { letters: '${{ steps.s | length }}' }
",
        activities: &[("work", &["brings 1000000 letters"])],
        script: &["t brings 7"],
        ends: r#"completed {"letters":1000000}"#,
        history: &["s 1 completed", "t 1 completed"],
        calls: &["work 1"],
    }
    null_is_an_output {
        manifest: "
steps:
  - { id: s, activity: work }
  - { id: t, guidance: Go on., result: {} }
final_output: { s: '${{ steps.s }}' }
",
        activities: &[("work", &["brings null"])],
        script: &["t brings 7"],
        ends: r#"completed {"s":null}"#,
        history: &["s 1 completed = null", "t 1 completed = 7"],
        calls: &["work 1"],
    }
    false_is_an_output {
        manifest: "
steps:
  - { id: s, activity: work }
  - { id: t, if: not steps.s, guidance: Go on., result: {} }
final_output: { s: '${{ steps.s }}' }
",
        activities: &[("work", &["brings false"])],
        script: &["t brings 7"],
        ends: r#"completed {"s":false}"#,
        history: &["s 1 completed = false", "t 1 completed = 7"],
    }
    zero_is_an_output {
        manifest: "
steps:
  - { id: s, guidance: Count., result: {} }
  - { id: t, activity: work, with: { n: '${{ steps.s }}' } }
",
        activities: &[("work", &["brings its input"])],
        script: &["s brings 0"],
        ends: r#"completed {"n":0}"#,
        history: &["s 1 completed = 0", "t 1 completed"],
    }
    memory_outlives_the_server {
        manifest: "
memory: { notes: [] }
steps:
  - { id: a, guidance: Look., result: {} }
  - { id: keep, set: { notes: '${{ memory.notes + [steps.a] }}' } }
  - { id: more, if: run.visits.keep < 3, guidance: Again?, result: {}, next: a }
final_output: ${{ memory.notes }}
",
        script: &["a brings 1", "more brings 1", "a brings 2", "more brings 2", "a brings 3"],
        ends: "completed [1,2,3]",
        history: &[
            "a 1 completed",
            "keep 1 completed",
            "more 1 completed",
            "a#2 1 completed",
            "keep#2 1 completed",
            "more#2 1 completed",
            "a#3 1 completed",
            "keep#3 1 completed",
            "more skipped",
        ],
    }
}
