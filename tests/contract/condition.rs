//! Waits for a condition: work that is repeated until its output satisfies it.

mod polls;

scenarios! {
    a_condition_that_holds_at_first_needs_one_poll {
        manifest: "
steps:
  - { id: s, activity: work, repeat: { until: steps.s.done, every: 10s } }
",
        activities: &[("work", &[r#"brings {"done": true}"#])],
        ends: r#"completed {"done":true}"#,
        history: &["s 1 completed at 0s"],
        calls: &["work 1"],
    }
    a_condition_that_holds_at_last_is_polled_at_its_pace {
        manifest: "
steps:
  - { id: s, activity: work, repeat: { until: steps.s.n >= 3, every: 10s } }
",
        activities: &[("work", &[r#"brings {"n": 1}"#, r#"brings {"n": 2}"#, r#"brings {"n": 3}"#])],
        ends: r#"completed {"n":3}"#,
        history: &["s 1 completed at 0s", "s 2 completed at 10s", r#"s 3 completed at 20s = {"n":3}"#],
        calls: &["work 1", "work 2", "work 3"],
        retried: &["s", "s"],
    }
    a_condition_that_never_holds_is_given_up_after_so_many_polls {
        manifest: "
steps:
  - id: s
    activity: work
    repeat: { until: steps.s.done, every: 10s, max_attempts: 3 }
",
        activities: &[("work", &[
            r#"brings {"done": false}"#,
            r#"brings {"done": false}"#,
            r#"brings {"done": false}"#,
        ])],
        ends: "failed REPEAT_EXHAUSTED",
        history: &[
            "s 1 completed at 0s",
            "s 2 completed at 10s",
            "s 3 failed REPEAT_EXHAUSTED at 20s",
        ],
        calls: &["work 1", "work 2", "work 3"],
    }
    a_condition_that_never_holds_is_given_up_after_its_time {
        manifest: "
steps:
  - id: s
    activity: work
    repeat: { until: steps.s.done, every: 10s, timeout: 25s }
",
        activities: &[("work", &[
            r#"brings {"done": false}"#,
            r#"brings {"done": false}"#,
            r#"brings {"done": false}"#,
        ])],
        ends: "failed REPEAT_TIMED_OUT",
        history: &[
            "s 1 completed at 0s",
            "s 2 completed at 10s",
            "s 3 failed REPEAT_TIMED_OUT at 20s until 20s",
        ],
        calls: &["work 1", "work 2", "work 3"],
    }
    a_poll_that_fails_fails_the_step {
        manifest: "
steps:
  - { id: s, activity: work, repeat: { until: steps.s.done, every: 10s } }
",
        activities: &[("work", &[r#"brings {"done": false}"#, "fails for good refused"])],
        ends: "failed REFUSED",
        history: &["s 1 completed at 0s", "s 2 failed REFUSED at 10s"],
        calls: &["work 1", "work 2"],
    }
    a_poll_that_fails_may_be_tried_again {
        manifest: "
steps:
  - id: s
    activity: work
    retry: { max_attempts: 2, backoff: 3s, jitter: false }
    repeat: { until: steps.s.done, every: 10s }
",
        activities: &[("work", &[
            r#"brings {"done": false}"#,
            "fails network",
            r#"brings {"done": false}"#,
            "fails network",
            r#"brings {"done": true}"#,
        ])],
        ends: r#"completed {"done":true}"#,
        history: &[
            "s 1 completed at 0s",
            "s 2 failed NETWORK at 10s",
            "s 3 completed at 13s",
            "s 4 failed NETWORK at 23s",
            "s 5 completed at 26s",
        ],
        calls: &["work 1", "work 2", "work 3", "work 4", "work 5"],
        retried: &["s", "s", "s", "s"],
    }
    what_is_given_up_may_be_handled {
        manifest: "
steps:
  - id: s
    activity: poll
    repeat: { until: steps.s.done, every: 10s, max_attempts: 2 }
    on_error: instead
    next: $end
  - { id: instead, run_when: failed, activity: work, with: { code: '${{ steps.s.error.code }}' } }
",
        activities: &[
            ("poll", &[r#"brings {"done": false}"#, r#"brings {"done": false}"#]),
            ("work", &["brings its input"]),
        ],
        ends: r#"completed {"code":"REPEAT_EXHAUSTED"}"#,
        history: &[
            "s 1 completed at 0s",
            "s 2 failed REPEAT_EXHAUSTED at 10s",
            "instead 1 completed at 10s",
        ],
    }
    polls_go_on_where_they_were_after_a_time_without_a_server {
        manifest: "
steps:
  - { id: s, activity: work, repeat: { until: steps.s.n >= 3, every: 10s } }
",
        activities: &[("work", &[r#"brings {"n": 1}"#, r#"brings {"n": 2}"#, r#"brings {"n": 3}"#])],
        script: &["down for 1h"],
        ends: r#"completed {"n":3}"#,
        history: &["s 1 completed at 0s", "s 2 completed at 1h", "s 3 completed at 3610s"],
        calls: &["work 1", "work 2", "work 3"],
    }
    no_poll_is_made_during_a_pause {
        manifest: "
steps:
  - { id: s, activity: work, repeat: { until: steps.s.n >= 2, every: 10s } }
",
        activities: &[("work", &[r#"brings {"n": 1}"#, r#"brings {"n": 2}"#])],
        script: &["passes 5s", "pause", "passes 1m", "resume"],
        ends: r#"completed {"n":2}"#,
        history: &["s 1 completed at 0s", "s 2 completed at 65s"],
        calls: &["work 1", "work 2"],
    }
    an_operation_is_polled {
        manifest: "
requires: { catalogs: [{ vendor: shop }] }
steps:
  - id: s
    run: 'shop orders:list'
    repeat: { until: steps.s.status == 'live', every: 10s }
",
        activities: &[("orders:list", &[r#"brings {"status": "new"}"#, r#"brings {"status": "live"}"#])],
        ends: r#"completed {"status":"live"}"#,
        history: &["s 1 completed at 0s", "s 2 completed at 10s"],
        calls: &["orders:list 1", "orders:list 2"],
    }
    a_model_polls_in_a_loop_that_hands_its_last_output_on {
        manifest: "
memory: { last: null }
steps:
  - { id: s, max_visits: 5, guidance: 'Look. Last: ${{ memory.last }}.', result: {} }
  - { id: keep, set: { last: '${{ steps.s.n }}' } }
  - id: again
    branch:
      - { if: steps.s.n >= 2, next: $end }
      - { next: rest }
  - { id: rest, wait: { for: 10s }, next: s }
final_output: ${{ memory.last }}
",
        script: &[r#"s brings {"n": 1}"#, "s reads Last: 1.", r#"s brings {"n": 2}"#],
        ends: "completed 2",
        history: &[
            "s 1 completed at 0s",
            "keep 1 completed",
            "again 1 completed",
            "rest 1 completed until 10s",
            "s#2 1 completed at 10s",
            "keep#2 1 completed",
            "again#2 1 completed",
            "rest skipped",
        ],
    }
}
