//! Branches that run at the same time, and how they are joined.

mod control;

/// Three branches, and a join of the server.
macro_rules! three {
    ($join:literal) => {
        concat!(
            "
steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: c, depends_on: [], guidance: C., result: {} }
  - { id: join, depends_on: [a, b, c], activity: work",
            $join,
            " }
"
        )
    };
}

scenarios! {
    a_join_waits_for_all_branches {
        manifest: three!(", with: { sum: '${{ steps.a + steps.b + steps.c }}' }"),
        activities: &[("work", &["brings its input"])],
        script: &["c brings 3", "a brings 1", "passes 5s", "b brings 2"],
        ends: r#"completed {"sum":6}"#,
        history: &[
            "a 1 completed",
            "b 1 completed until 5s",
            "c 1 completed",
            "join 1 completed at 5s",
        ],
        calls: &["work 1"],
    }
    a_join_goes_on_with_the_first_branch {
        manifest: three!(", join: any"),
        activities: &[("work", &["brings 7"])],
        script: &["b brings 2", "passes 5s", "a brings 1", "c brings 3"],
        ends: "completed 7",
        history: &[
            "a 1 completed late until 5s",
            "b 1 completed",
            "c 1 completed late until 5s",
            "join 1 completed at 0s",
        ],
        calls: &["work 1"],
    }
    a_join_cancels_the_branches_that_it_does_not_wait_for {
        manifest: three!(", join: any, losers: cancel"),
        activities: &[("work", &["brings 7"])],
        script: &["passes 5s", "b brings 2"],
        ends: "completed 7",
        history: &[
            "a 1 skipped until 5s",
            "b 1 completed until 5s",
            "c 1 skipped until 5s",
            "join 1 completed at 5s",
        ],
        calls: &["work 1"],
    }
    a_join_goes_on_with_a_quorum {
        manifest: three!(", join: quorum(2), losers: cancel"),
        activities: &[("work", &["brings 7"])],
        script: &["c brings 3", "passes 5s", "a brings 1"],
        ends: "completed 7",
        history: &[
            "a 1 completed until 5s",
            "b 1 skipped until 5s",
            "c 1 completed until 0s",
            "join 1 completed at 5s",
        ],
    }
    a_quorum_that_cannot_be_reached_fails_the_join {
        manifest: "
steps:
  - { id: a, guidance: A., on_error: continue }
  - { id: b, depends_on: [], guidance: B., on_error: continue }
  - { id: c, depends_on: [], guidance: C., result: {} }
  - { id: join, depends_on: [a, b, c], join: quorum(2), activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["a fails BUSY", "b fails BUSY", "c brings 3"],
        ends: "failed JOIN_MISSED",
        history: &["a 1 failed BUSY", "b 1 failed BUSY", "c 1 completed", "join 1 failed JOIN_MISSED"],
    }
    the_failure_of_a_branch_fails_the_execution_and_voids_the_others {
        manifest: three!(""),
        activities: &[("work", &["brings 7"])],
        script: &["a brings 1", "passes 5s", "b fails BROKEN"],
        ends: "failed BROKEN",
        history: &["a 1 completed", "b 1 failed BROKEN until 5s", "c 1 skipped until 5s"],
    }
    the_failure_of_a_branch_may_be_passed_over {
        manifest: "
steps:
  - { id: a, guidance: A., on_error: continue }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: join, depends_on: [a, b], activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["a fails BUSY", "b brings 2"],
        ends: "completed 7",
        history: &["a 1 failed BUSY", "b 1 completed", "join 1 completed"],
    }
    a_branch_that_fails_is_tried_again_while_the_other_goes_on {
        manifest: "
steps:
  - { id: a, activity: flaky, retry: { max_attempts: 2, backoff: 10s, jitter: false } }
  - { id: b, depends_on: [], wait: { for: 5s } }
  - { id: c, depends_on: [b], activity: work }
  - { id: join, depends_on: [a, c], activity: work }
",
        activities: &[("flaky", &["fails network", "brings 1"]), ("work", &["brings 7"])],
        ends: "completed 7",
        history: &[
            "a 1 failed NETWORK at 0s",
            "b 1 completed at 0s until 5s",
            "c 1 completed at 5s",
            "a 2 completed at 10s",
            "join 1 completed at 10s",
        ],
        calls: &["flaky 1", "work 1", "flaky 2", "work 1"],
    }
    a_skipped_branch_counts_as_done {
        manifest: "
steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, depends_on: [], if: 1 == 2, guidance: B. }
  - { id: join, depends_on: [a, b], activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["a brings 1"],
        ends: "completed 7",
        history: &["a 1 completed", "b skipped", "join 1 completed"],
    }
    one_arm_of_two_is_taken {
        manifest: "
inputs: { kind: { type: string, example: bug } }
steps:
  - id: choose
    branch:
      - { if: inputs.kind == 'bug', next: mend }
      - { next: answer }
  - { id: mend, activity: work, next: $end }
  - { id: answer, guidance: Answer. }
",
        inputs: r#"{"kind": "bug"}"#,
        activities: &[("work", &["brings 7"])],
        ends: "completed",
        history: &["choose 1 completed", "answer skipped", "mend 1 completed"],
        calls: &["work 1"],
    }
    branches_of_the_server_work_at_the_same_time {
        manifest: "
steps:
  - { id: a, activity: slow }
  - { id: b, depends_on: [], activity: slower }
  - { id: join, depends_on: [a, b], activity: work }
",
        activities: &[
            ("slow", &["takes 10s, brings 1"]),
            ("slower", &["takes 20s, brings 2"]),
            ("work", &["brings 7"]),
        ],
        ends: "completed 7",
        history: &[
            "a 1 completed at 0s until 10s",
            "b 1 completed at 0s until 20s",
            "join 1 completed at 20s",
        ],
        calls: &["slow 1", "slower 1", "work 1"],
    }
    a_race_of_a_signal_and_a_timer_is_won_by_the_first {
        manifest: "
steps:
  - { id: came, wait: { signal: go } }
  - { id: late, depends_on: [], wait: { for: 10s } }
  - { id: join, depends_on: [came, late], join: any, losers: cancel, activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &[
            "came 1 skipped until 10s",
            "late 1 completed until 10s",
            "join 1 completed at 10s",
        ],
        calls: &["work 1"],
    }
    a_join_may_be_a_branch_of_another_join {
        manifest: "
steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: inner, depends_on: [a, b], join: any, activity: work }
  - { id: c, depends_on: [], guidance: C., result: {} }
  - { id: outer, depends_on: [inner, c], activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["b brings 2", "passes 5s", "c brings 3", "a brings 1"],
        ends: "completed 7",
        history: &[
            "a 1 completed late until 5s",
            "b 1 completed",
            "c 1 completed until 5s",
            "inner 1 completed at 0s",
            "outer 1 completed at 5s",
        ],
        calls: &["work 1", "work 1"],
    }
    what_must_run_in_any_case_runs_after_a_failed_branch {
        manifest: "
steps:
  - { id: a, guidance: A. }
  - { id: b, depends_on: [], guidance: B. }
  - { id: clean, depends_on: [a, b], run_when: finished, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["a fails BROKEN"],
        ends: "failed BROKEN",
        history: &["a 1 failed BROKEN", "b 1 skipped", "clean 1 completed"],
        calls: &["work 1"],
    }
}
