//! Callbacks whose other side must give signs of life.

const GO: &str = "steps:\n  - { id: s, wait: { signal: go, alive: 10s } }\n";

scenarios! {
    without_a_sign_of_life_the_step_fails {
        manifest: GO,
        ends: "failed HEARTBEAT_MISSED",
        history: &["s 1 failed HEARTBEAT_MISSED at 0s until 10s"],
    }
    signs_of_life_put_the_failure_off {
        manifest: GO,
        script: &[
            "passes 8s",
            "signal go alive",
            "passes 8s",
            "signal go alive",
            "passes 8s",
            "signal go 7",
        ],
        ends: "completed 7",
        history: &["s 1 completed at 0s until 24s = 7"],
    }
    a_sign_of_life_puts_the_failure_off_once {
        manifest: GO,
        script: &["passes 8s", "signal go alive"],
        ends: "failed HEARTBEAT_MISSED",
        history: &["s 1 failed HEARTBEAT_MISSED at 0s until 18s"],
    }
    a_payload_needs_no_sign_of_life {
        manifest: "
steps:
  - { id: s, wait: { signal: go, alive: 10s } }
  - { id: rest, wait: { for: 1m } }
",
        script: &["passes 9s", "signal go 7"],
        ends: "completed",
        history: &["s 1 completed until 9s = 7", "rest 1 completed until 69s"],
    }
    a_sign_of_life_does_not_put_the_time_limit_off {
        manifest: "steps:\n  - { id: s, wait: { signal: go, alive: 10s }, timeout: 15s }\n",
        script: &["passes 8s", "signal go alive"],
        ends: "failed STEP_TIMED_OUT",
        history: &["s 1 failed STEP_TIMED_OUT until 15s"],
    }
    a_missed_sign_of_life_is_handled {
        manifest: "
steps:
  - { id: s, wait: { signal: go, alive: 10s }, on_error: instead, next: $end }
  - { id: instead, run_when: failed, activity: work, with: { code: '${{ steps.s.error.code }}' } }
",
        activities: &[("work", &["brings its input"])],
        ends: r#"completed {"code":"HEARTBEAT_MISSED"}"#,
        history: &["s 1 failed HEARTBEAT_MISSED until 10s", "instead 1 completed"],
    }
    a_sign_of_life_is_missed_while_no_server_runs {
        manifest: GO,
        script: &["down for 1h"],
        ends: "failed HEARTBEAT_MISSED",
        history: &["s 1 failed HEARTBEAT_MISSED at 0s until 1h"],
    }
    a_sign_of_life_that_nobody_waits_for_changes_nothing {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: s, wait: { signal: go, alive: 10s } }
",
        script: &["signal go alive", "passes 5s", "first brings 1"],
        ends: "failed HEARTBEAT_MISSED",
        history: &["first 1 completed until 5s", "s 1 failed HEARTBEAT_MISSED at 5s until 15s"],
    }
    a_sign_of_life_is_no_payload {
        manifest: "steps:\n  - { id: s, wait: { signal: go } }\n",
        script: &["signal go alive", "passes 5s", "signal go 7"],
        ends: "completed 7",
        history: &["s 1 completed until 5s = 7"],
    }
    a_sign_of_life_is_missed_during_a_pause {
        manifest: GO,
        script: &["passes 5s", "pause", "passes 1m", "resume"],
        ends: "failed HEARTBEAT_MISSED",
        history: &["s 1 failed HEARTBEAT_MISSED until 65s"],
    }
    a_sign_of_life_during_a_pause_counts {
        manifest: GO,
        script: &[
            "passes 5s",
            "pause",
            "passes 1m",
            "signal go alive",
            "resume",
            "passes 9s",
            "signal go 7",
        ],
        ends: "completed 7",
        history: &["s 1 completed until 74s = 7"],
    }
}
