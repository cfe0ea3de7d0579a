//! Waits for a callback: an activity starts something elsewhere, and a signal brings the result.

mod failed;

const SUBMIT: &str = "
steps:
  - { id: submit, activity: work, with: { order: 1 } }
  - { id: s, wait: { signal: done }, timeout: 1m }
";

scenarios! {
    what_an_activity_began_ends_with_a_callback {
        manifest: SUBMIT,
        activities: &[("work", &["brings its input"])],
        script: &["passes 30s", "signal done 7"],
        ends: "completed 7",
        history: &[r#"submit 1 completed = {"order":1}"#, "s 1 completed at 0s until 30s = 7"],
        calls: &["work 1"],
    }
    a_callback_may_overtake_the_activity {
        manifest: SUBMIT,
        activities: &[("work", &["takes 10s, brings its input"])],
        script: &["passes 5s", "signal done 7"],
        ends: "completed 7",
        history: &["submit 1 completed until 10s", "s 1 completed at 10s until 10s = 7"],
        calls: &["work 1"],
    }
    what_could_not_be_begun_is_not_waited_for {
        manifest: SUBMIT,
        activities: &[("work", &["fails for good refused"])],
        ends: "failed REFUSED",
        history: &["submit 1 failed REFUSED"],
        calls: &["work 1"],
    }
    what_could_not_be_begun_at_first_is_begun_again_and_waited_for {
        manifest: "
steps:
  - { id: submit, activity: work, retry: { max_attempts: 3, backoff: 5s, jitter: false } }
  - { id: s, wait: { signal: done }, timeout: 1m }
",
        activities: &[("work", &["fails network", "brings 1"])],
        script: &["passes 30s", "signal done 7"],
        ends: "completed 7",
        history: &[
            "submit 1 failed NETWORK at 0s",
            "submit 2 completed at 5s",
            "s 1 completed at 5s until 30s = 7",
        ],
        calls: &["work 1", "work 2"],
    }
    a_callback_that_does_not_come_lets_the_activity_be_done_again {
        manifest: "
steps:
  - { id: submit, max_visits: 3, activity: work }
  - { id: s, wait: { signal: done }, timeout: 1m, on_error: again, next: $end }
  - { id: again, run_when: failed, wait: { for: 10s }, next: submit }
final_output: ${{ steps.s }}
",
        activities: &[("work", &["brings 1"])],
        script: &["passes 80s", "signal done 7"],
        ends: "completed 7",
        history: &[
            "submit 1 completed at 0s",
            "s 1 failed STEP_TIMED_OUT until 1m",
            "again 1 completed until 70s",
            "submit#2 1 completed at 70s",
            "s#2 1 completed until 80s = 7",
            "again skipped",
        ],
        calls: &["work 1", "work#2 1"],
    }
    what_was_begun_is_undone_where_no_callback_comes {
        manifest: "
steps:
  - id: submit
    activity: work
    compensate: { activity: undo, with: { order: '${{ run.output }}' } }
  - { id: s, wait: { signal: done }, timeout: 1m }
",
        activities: &[("work", &["brings 12"]), ("undo", &["brings 1"])],
        ends: "failed STEP_TIMED_OUT",
        history: &[
            "submit 1 completed at 0s",
            "s 1 failed STEP_TIMED_OUT until 1m",
            "submit/compensate 1 completed at 1m",
        ],
        calls: &["work 1", r#"undo 1 given {"order":12}"#],
    }
    each_of_two_has_a_callback_of_its_own {
        manifest: "
steps:
  - { id: left, activity: work }
  - { id: right, depends_on: [], activity: work }
  - { id: a, depends_on: [left], wait: { signal: left-done } }
  - { id: b, depends_on: [right], wait: { signal: right-done } }
final_output: ['${{ steps.a }}', '${{ steps.b }}']
",
        activities: &[("work", &["brings 1"])],
        script: &["signal right-done 2", "passes 5s", "signal left-done 1"],
        ends: "completed [1,2]",
        history: &[
            "left 1 completed",
            "right 1 completed",
            "a 1 completed until 5s = 1",
            "b 1 completed until 0s = 2",
        ],
    }
    each_item_has_a_callback_of_its_own {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], do: { workflow: order, with: { n: '${{ item }}' } } }
",
        workflows: &[("order", "
inputs: { n: { type: integer } }
steps:
  - { id: submit, activity: work, with: { n: '${{ inputs.n }}' } }
  - { id: s, wait: { signal: done } }
")],
        activities: &[("work", &["brings its input"])],
        script: &[r#"each[2]: signal done "b""#, "passes 5s", r#"each[1]: signal done "a""#],
        ends: r#"completed ["a","b"]"#,
        history: &[
            "each 1 completed",
            "each[1] 1 completed until 5s",
            "each[2] 1 completed until 0s",
            "each[1]: submit 1 completed",
            "each[1]: s 1 completed until 5s",
            "each[2]: submit 1 completed",
            "each[2]: s 1 completed until 0s",
        ],
        calls: &[r#"work 1 given {"n":1}"#, r#"work 1 given {"n":2}"#],
    }
    what_is_called_back_is_checked_by_the_next_activity {
        manifest: "
steps:
  - { id: submit, activity: work }
  - { id: s, wait: { signal: done } }
  - { id: check, activity: check, with: { got: '${{ steps.s.n }}', of: '${{ steps.submit }}' } }
",
        activities: &[("work", &["brings 12"]), ("check", &["brings its input"])],
        script: &[r#"signal done {"n": 7}"#],
        ends: r#"completed {"got":7,"of":12}"#,
        history: &["submit 1 completed", "s 1 completed", "check 1 completed"],
        calls: &["work 1", r#"check 1 given {"got":7,"of":12}"#],
    }
}
