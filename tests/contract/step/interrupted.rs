//! Attempts that a crash of the server cut off.

/// An activity that is under way when the server is killed, five seconds after it began.
const KILLED: &[&str] = &["passes 5s", "killed"];
const TWICE: &[(&str, &[&str])] = &[("work", &["takes 10s, brings 1", "takes 1s, brings 7"])];

scenarios! {
    interrupted_work_that_may_be_done_twice_is_done_again {
        manifest: "steps:\n  - { id: s, activity: work, idempotent: true }\n",
        activities: TWICE,
        script: KILLED,
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED at 0s until 5s", "s 2 completed at 5s until 6s"],
        calls: &["work 1", "work 2"],
    }
    an_interrupted_read_is_made_again {
        manifest: "
requires: { catalogs: [{ vendor: shop }] }
steps:
  - { id: s, run: 'shop orders:list' }
",
        activities: &[("orders:list", &["takes 10s, brings 1", "takes 1s, brings 7"])],
        script: KILLED,
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED until 5s", "s 2 completed"],
        calls: &["orders:list 1", "orders:list 2"],
    }
    of_other_interrupted_work_somebody_is_asked {
        manifest: "steps:\n  - { id: s, activity: work }\n",
        activities: TWICE,
        script: &["passes 5s", "killed", "resolve s 7"],
        ends: "completed 7",
        history: &["s 1 completed = 7"],
        calls: &["work 1"],
    }
    nothing_goes_on_before_the_answer {
        manifest: "
steps:
  - { id: s, activity: work }
  - { id: t, activity: work }
",
        activities: TWICE,
        script: KILLED,
        ends: "paused outcome_unknown",
        history: &["s 1 running"],
        calls: &["work 1"],
    }
    an_interrupted_change_is_not_made_again_unasked {
        manifest: "
requires: { catalogs: [{ vendor: shop }] }
steps:
  - { id: s, run: 'shop orders:create' }
",
        activities: &[("orders:create", &["takes 10s, brings 1"])],
        script: KILLED,
        ends: "paused outcome_unknown",
        history: &["s 1 running"],
        calls: &["orders:create 1"],
    }
    again_does_any_interrupted_work_again {
        manifest: "steps:\n  - { id: s, activity: work, interrupted: again }\n",
        activities: TWICE,
        script: KILLED,
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED until 5s", "s 2 completed until 6s"],
        calls: &["work 1", "work 2"],
    }
    again_may_be_needed_twice {
        manifest: "steps:\n  - { id: s, activity: work, interrupted: again }\n",
        activities: &[("work", &["takes 10s, brings 1", "takes 10s, brings 2", "brings 7"])],
        script: &["passes 5s", "killed", "passes 5s", "killed"],
        ends: "completed 7",
        history: &[
            "s 1 failed INTERRUPTED until 5s",
            "s 2 failed INTERRUPTED until 10s",
            "s 3 completed",
        ],
        calls: &["work 1", "work 2", "work 3"],
        retried: &["s", "s"],
    }
    an_interrupted_attempt_that_is_made_again_is_none_of_those_that_retry_grants {
        manifest: "
steps:
  - id: s
    activity: work
    interrupted: again
    retry: { max_attempts: 2, backoff: 1s, jitter: false }
",
        activities: &[("work", &["takes 10s, brings 1", "fails network", "brings 7"])],
        script: KILLED,
        ends: "completed 7",
        history: &[
            "s 1 failed INTERRUPTED until 5s",
            "s 2 failed NETWORK at 5s",
            "s 3 completed at 6s",
        ],
        calls: &["work 1", "work 2", "work 3"],
    }
    fail_makes_an_interruption_a_failure {
        manifest: "steps:\n  - { id: s, activity: work, interrupted: fail }\n",
        activities: TWICE,
        script: KILLED,
        ends: "failed INTERRUPTED",
        history: &["s 1 failed INTERRUPTED until 5s"],
        calls: &["work 1"],
    }
    fail_overrules_that_the_work_may_be_done_twice {
        manifest: "
steps:
  - { id: s, activity: work, idempotent: true, interrupted: fail }
",
        activities: TWICE,
        script: KILLED,
        ends: "failed INTERRUPTED",
        history: &["s 1 failed INTERRUPTED"],
        calls: &["work 1"],
    }
    an_interruption_that_fails_is_tried_again_as_retry_says {
        manifest: "
steps:
  - id: s
    activity: work
    interrupted: fail
    retry: { max_attempts: 2, backoff: 3s, jitter: false }
",
        activities: TWICE,
        script: KILLED,
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED until 5s", "s 2 completed at 8s until 9s"],
        calls: &["work 1", "work 2"],
        retried: &["s"],
    }
    an_interruption_that_fails_counts_as_an_attempt {
        manifest: "
steps:
  - id: s
    activity: work
    interrupted: fail
    retry: { max_attempts: 2, backoff: 1s, jitter: false }
",
        activities: &[("work", &["takes 10s, brings 1", "fails network"])],
        script: KILLED,
        ends: "failed NETWORK",
        history: &["s 1 failed INTERRUPTED", "s 2 failed NETWORK"],
        calls: &["work 1", "work 2"],
    }
    an_interruption_that_retry_names_is_tried_again {
        manifest: "
steps:
  - id: s
    activity: work
    interrupted: fail
    retry: { max_attempts: 2, backoff: 1s, jitter: false, on: [INTERRUPTED] }
",
        activities: TWICE,
        script: KILLED,
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED", "s 2 completed"],
        calls: &["work 1", "work 2"],
    }
    an_interruption_that_retry_does_not_name_is_final {
        manifest: "
steps:
  - { id: s, activity: work, interrupted: fail, retry: { max_attempts: 2, on: [network] } }
",
        activities: TWICE,
        script: KILLED,
        ends: "failed INTERRUPTED",
        history: &["s 1 failed INTERRUPTED"],
        calls: &["work 1"],
    }
    an_interruption_that_fails_is_handled {
        manifest: "
steps:
  - { id: s, activity: work, interrupted: fail, on_error: instead, next: $end }
  - { id: instead, run_when: failed, activity: tell, with: { code: '${{ steps.s.error.code }}' } }
",
        activities: &[("work", &["takes 10s, brings 1"]), ("tell", &["brings its input"])],
        script: KILLED,
        ends: r#"completed {"code":"INTERRUPTED"}"#,
        history: &["s 1 failed INTERRUPTED", "instead 1 completed"],
        calls: &["work 1", "tell 1"],
    }
    an_interruption_that_fails_may_be_passed_over {
        manifest: "
steps:
  - { id: s, activity: work, interrupted: fail, on_error: continue }
  - { id: t, activity: tell }
",
        activities: &[("work", &["takes 10s, brings 1"]), ("tell", &["brings 7"])],
        script: KILLED,
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED", "t 1 completed"],
    }
    ask_asks_although_the_work_may_be_done_twice {
        manifest: "
steps:
  - { id: s, activity: work, idempotent: true, interrupted: ask }
",
        activities: TWICE,
        script: KILLED,
        ends: "paused outcome_unknown",
        history: &["s 1 running"],
        calls: &["work 1"],
    }
    the_answer_may_be_to_do_it_again {
        manifest: "steps:\n  - { id: s, activity: work, interrupted: ask }\n",
        activities: TWICE,
        script: &["passes 5s", "killed", "passes 5s", "resolve s retry"],
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED", "s 2 completed at 10s until 11s"],
        calls: &["work 1", "work 2"],
        retried: &["s"],
    }
    the_answer_that_it_failed_is_a_failure_that_is_tried_again {
        manifest: "
steps:
  - id: s
    activity: work
    retry: { max_attempts: 2, backoff: 1s, jitter: false }
",
        activities: TWICE,
        script: &["passes 5s", "killed", "resolve s failed"],
        ends: "completed 7",
        history: &["s 1 failed STEP_FAILED", "s 2 completed = 7"],
        calls: &["work 1", "work 2"],
    }
    the_answer_that_it_failed_is_a_failure_that_is_handled {
        manifest: "
steps:
  - { id: s, activity: work, on_error: instead, next: $end }
  - { id: instead, run_when: failed, activity: tell }
",
        activities: &[("work", &["takes 10s, brings 1"]), ("tell", &["brings 7"])],
        script: &["passes 5s", "killed", "resolve s failed"],
        ends: "completed 7",
        history: &["s 1 failed STEP_FAILED", "instead 1 completed"],
        calls: &["work 1", "tell 1"],
    }
    an_interrupted_poll_is_made_again {
        manifest: "
steps:
  - id: s
    activity: work
    interrupted: again
    repeat: { until: steps.s.done, every: 10s }
",
        activities: &[("work", &[
            r#"brings {"done": false}"#,
            r#"takes 4s, brings {"done": false}"#,
            r#"brings {"done": true}"#,
        ])],
        script: &["passes 12s", "killed"],
        ends: r#"completed {"done":true}"#,
        history: &[
            "s 1 completed at 0s",
            "s 2 failed INTERRUPTED at 10s until 12s",
            "s 3 completed at 12s",
        ],
        calls: &["work 1", "work 2", "work 3"],
    }
    an_interrupted_item_is_done_again_alone {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], do: { activity: work, interrupted: again } }
",
        activities: &[
            ("work[1]", &["brings 1"]),
            ("work[2]", &["takes 10s, brings 1", "brings 2"]),
        ],
        script: KILLED,
        ends: "completed [1,2]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 failed INTERRUPTED until 5s",
            "each[2] 2 completed",
        ],
        calls: &["work[1] 1", "work[2] 1", "work[2] 2"],
    }
    an_interrupted_item_fails_with_its_foreach {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], do: { activity: work, interrupted: fail } }
",
        activities: &[("work[1]", &["brings 1"]), ("work[2]", &["takes 10s, brings 1"])],
        script: KILLED,
        ends: "failed INTERRUPTED",
        history: &[
            "each 1 failed INTERRUPTED",
            "each[1] 1 completed",
            "each[2] 1 failed INTERRUPTED until 5s",
        ],
    }
    an_interrupted_attempt_that_is_made_again_has_the_full_time {
        manifest: "steps:\n  - { id: s, activity: work, interrupted: again, timeout: 8s }\n",
        activities: &[("work", &["takes 20s, brings 1", "takes 7s, brings 7"])],
        script: KILLED,
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED until 5s", "s 2 completed at 5s until 12s"],
    }
    an_interruption_during_a_pause_is_dealt_with_after_the_resume {
        manifest: "
steps:
  - id: s
    activity: work
    interrupted: fail
    retry: { max_attempts: 2, backoff: 1s, jitter: false }
",
        activities: TWICE,
        script: &["passes 5s", "pause", "killed", "passes 10s", "resume"],
        ends: "completed 7",
        history: &["s 1 failed INTERRUPTED", "s 2 completed"],
        calls: &["work 1", "work 2"],
    }
    an_interrupted_hook_that_may_be_done_twice_is_done_again {
        manifest: "
steps:
  - id: s
    guidance: Do it.
    result: {}
    hooks: { on_success: { activity: work, idempotent: true } }
",
        activities: &[("work", &["takes 20s, brings 1", "brings 7"])],
        script: &["s brings 1", "passes 5s", "killed"],
        ends: "completed 1",
        history: &[
            "s 1 completed",
            "s/on_success 1 failed INTERRUPTED until 5s",
            "s/on_success 2 completed",
        ],
        calls: &["work 1", "work 2"],
    }
}
