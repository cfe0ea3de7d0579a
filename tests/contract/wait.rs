//! Waits for time. Each scenario begins at 2025-01-15T10:00:00Z.

scenarios! {
    a_wait_ends_when_its_time_has_passed {
        manifest: "
steps:
  - { id: rest, wait: { for: 10s } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["rest 1 completed at 0s until 10s", "s 1 completed at 10s"],
        calls: &["work 1"],
    }
    a_wait_ends_at_its_instant {
        manifest: "
steps:
  - { id: rest, wait: { until: '2025-01-15T10:01:00Z' } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["rest 1 completed at 0s until 1m", "s 1 completed at 1m"],
    }
    a_wait_of_no_length_is_over_at_once {
        manifest: "
inputs: { pause: { type: string, example: 1s } }
steps:
  - { id: rest, wait: { for: '${{ inputs.pause }}' } }
  - { id: s, activity: work }
",
        inputs: r#"{"pause": "0s"}"#,
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["rest 1 completed at 0s until 0s", "s 1 completed at 0s"],
    }
    an_instant_in_the_past_is_not_waited_for {
        manifest: "
steps:
  - { id: rest, wait: { until: '2020-01-01T00:00:00Z' } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["rest 1 completed at 0s until 0s", "s 1 completed at 0s"],
    }
    two_waits_pass_at_the_same_time {
        manifest: "
steps:
  - { id: short, wait: { for: 10s } }
  - { id: long, depends_on: [], wait: { for: 30s } }
  - { id: s, depends_on: [short, long], activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &[
            "short 1 completed at 0s until 10s",
            "long 1 completed at 0s until 30s",
            "s 1 completed at 30s",
        ],
    }
    waits_in_a_row_add_up {
        manifest: "
steps:
  - { id: first, wait: { for: 10s } }
  - { id: second, wait: { for: 20s } }
  - { id: third, wait: { for: 30s } }
",
        ends: "completed",
        history: &[
            "first 1 completed at 0s until 10s",
            "second 1 completed at 10s until 30s",
            "third 1 completed at 30s until 1m",
        ],
    }
    a_wait_that_was_due_while_no_server_ran_is_over_when_one_runs {
        manifest: "
steps:
  - { id: rest, wait: { for: 10s } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["down for 1h"],
        ends: "completed 7",
        history: &["rest 1 completed at 0s until 1h", "s 1 completed at 1h"],
        calls: &["work 1"],
    }
    a_wait_goes_on_while_no_server_runs {
        manifest: "
steps:
  - { id: rest, wait: { for: 10m } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["down for 4m"],
        ends: "completed 7",
        history: &["rest 1 completed at 0s until 10m", "s 1 completed at 10m"],
    }
    a_length_may_come_from_an_input {
        manifest: "
inputs: { pause: { type: string, example: 1s } }
steps:
  - { id: rest, wait: { for: '${{ inputs.pause }}' } }
",
        inputs: r#"{"pause": "90s"}"#,
        ends: "completed",
        history: &["rest 1 completed at 0s until 90s"],
    }
    a_wait_whose_condition_is_false_is_skipped {
        manifest: "
steps:
  - { id: rest, if: 1 == 2, wait: { for: 10s } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["rest skipped", "s 1 completed at 0s"],
    }
    time_passes_during_a_pause_and_the_wait_ends_with_the_resume {
        manifest: "
steps:
  - { id: rest, wait: { for: 10s } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["pause", "passes 1m", "resume"],
        ends: "completed 7",
        history: &["rest 1 completed at 0s until 1m", "s 1 completed at 1m"],
        calls: &["work 1"],
    }
    an_abandoned_wait_is_not_waited_for {
        manifest: "
steps:
  - { id: rest, wait: { for: 10s } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["passes 5s", "abandon"],
        ends: "abandoned",
        history: &["rest 1 skipped at 0s until 5s"],
    }
    each_round_of_a_loop_waits_anew {
        manifest: "
steps:
  - { id: rest, wait: { for: 10s } }
  - id: again
    branch:
      - { if: run.visits.rest < 3, next: rest }
      - { next: $end }
",
        ends: "completed",
        history: &[
            "rest 1 completed at 0s until 10s",
            "again 1 completed",
            "rest#2 1 completed at 10s until 20s",
            "again#2 1 completed",
            "rest#3 1 completed at 20s until 30s",
            "again#3 1 completed",
        ],
    }
}
