//! Callbacks that bring an error.

const GO: &str = "steps:\n  - { id: s, wait: { signal: go } }\n";

scenarios! {
    a_callback_with_an_error_fails_the_step {
        manifest: GO,
        script: &["passes 5s", "signal go fails DECLINED: there is no money"],
        ends: "failed DECLINED",
        history: &["s 1 failed DECLINED at 0s until 5s"],
    }
    an_error_that_comes_early_is_kept {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: s, wait: { signal: go } }
",
        script: &["signal go fails DECLINED: there is no money", "first brings 1"],
        ends: "failed DECLINED",
        history: &["first 1 completed", "s 1 failed DECLINED"],
    }
    an_error_of_a_callback_is_handled_with_its_code_and_message {
        manifest: "
steps:
  - { id: s, wait: { signal: go }, on_error: instead, next: $end }
  - id: instead
    run_when: failed
    activity: work
    with: { code: '${{ steps.s.error.code }}', message: '${{ steps.s.error.message }}' }
",
        activities: &[("work", &["brings its input"])],
        script: &["signal go fails DECLINED: there is no money"],
        ends: r#"completed {"code":"DECLINED","message":"there is no money"}"#,
        history: &["s 1 failed DECLINED", "instead 1 completed"],
        calls: &["work 1"],
    }
    an_early_error_is_handled_too {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: s, wait: { signal: go }, on_error: continue }
  - { id: t, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["signal go fails DECLINED: there is no money", "first brings 1"],
        ends: "completed 7",
        history: &["first 1 completed", "s 1 failed DECLINED", "t 1 completed"],
    }
    a_payload_and_an_error_are_taken_in_their_order {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: a, wait: { signal: go } }
  - { id: b, wait: { signal: go } }
",
        script: &["signal go 1", "signal go fails DECLINED: there is no money", "first brings 1"],
        ends: "failed DECLINED",
        history: &["first 1 completed", "a 1 completed = 1", "b 1 failed DECLINED"],
    }
    an_error_during_a_pause_is_taken_with_the_resume {
        manifest: GO,
        script: &["pause", "signal go fails DECLINED: no", "passes 5s", "resume"],
        ends: "failed DECLINED",
        history: &["s 1 failed DECLINED until 5s"],
    }
    an_error_of_a_callback_fails_its_branch_and_voids_the_other {
        manifest: "
steps:
  - { id: a, wait: { signal: go } }
  - { id: b, depends_on: [], wait: { for: 1m } }
  - { id: join, depends_on: [a, b], activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["passes 5s", "signal go fails DECLINED: no"],
        ends: "failed DECLINED",
        history: &["a 1 failed DECLINED until 5s", "b 1 skipped until 5s"],
    }
    errors_and_payloads_of_several_signals_are_kept_apart {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: a, wait: { signal: go } }
  - { id: b, wait: { signal: stop }, on_error: continue }
  - { id: c, wait: { signal: go } }
",
        script: &[
            "signal stop fails DECLINED: no",
            "signal go 1",
            "signal go 2",
            "first brings 1",
        ],
        ends: "completed 2",
        history: &[
            "first 1 completed",
            "a 1 completed = 1",
            "b 1 failed DECLINED",
            "c 1 completed = 2",
        ],
    }
    the_error_of_a_callback_in_a_child_lets_another_child_begin {
        manifest: "
steps:
  - id: kid
    workflow: order
    retry: { max_attempts: 2, backoff: 1s, jitter: false, on: [DECLINED] }
",
        workflows: &[("order", "steps:\n  - { id: s, wait: { signal: go } }\n")],
        script: &["kid: signal go fails DECLINED: no", "passes 2s", "kid: signal go 7"],
        ends: "completed 7",
        history: &[
            "kid 1 failed DECLINED",
            "kid 2 completed = 7",
            "kid: s 1 failed DECLINED",
            "kid: s 1 completed = 7",
        ],
    }
}
