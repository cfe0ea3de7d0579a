//! What an activity began elsewhere, and what fails there.

const SUBMIT: &str = "
steps:
  - { id: submit, activity: work }
  - { id: s, wait: { signal: done, alive: 10s }, timeout: 1m }
";

scenarios! {
    what_an_activity_began_may_end_with_an_error {
        manifest: SUBMIT,
        activities: &[("work", &["brings 1"])],
        script: &["passes 5s", "signal done fails OUT_OF_STOCK: none is left"],
        ends: "failed OUT_OF_STOCK",
        history: &["submit 1 completed", "s 1 failed OUT_OF_STOCK until 5s"],
        calls: &["work 1"],
    }
    an_error_may_overtake_the_activity {
        manifest: SUBMIT,
        activities: &[("work", &["takes 10s, brings 1"])],
        script: &["passes 5s", "signal done fails OUT_OF_STOCK: none is left"],
        ends: "failed OUT_OF_STOCK",
        history: &["submit 1 completed until 10s", "s 1 failed OUT_OF_STOCK at 10s"],
        calls: &["work 1"],
    }
    what_an_activity_began_gives_signs_of_life {
        manifest: SUBMIT,
        activities: &[("work", &["brings 1"])],
        script: &["passes 8s", "signal done alive", "passes 8s", "signal done 7"],
        ends: "completed 7",
        history: &["submit 1 completed", "s 1 completed until 16s = 7"],
    }
    what_an_activity_began_and_is_silent_is_given_up {
        manifest: SUBMIT,
        activities: &[("work", &["brings 1"])],
        ends: "failed HEARTBEAT_MISSED",
        history: &["submit 1 completed", "s 1 failed HEARTBEAT_MISSED until 10s"],
    }
    what_ended_with_an_error_is_begun_again_and_its_early_error_is_not_taken_twice {
        manifest: "
steps:
  - { id: submit, max_visits: 3, activity: work }
  - { id: s, wait: { signal: done }, on_error: again, next: $end }
  - { id: again, run_when: failed, wait: { for: 10s }, next: submit }
final_output: ${{ steps.s }}
",
        activities: &[("work", &["brings 1"])],
        script: &["signal done fails BUSY: later", "passes 12s", "signal done 7"],
        ends: "completed 7",
        history: &[
            "submit 1 completed at 0s",
            "s 1 failed BUSY",
            "again 1 completed until 10s",
            "submit#2 1 completed at 10s",
            "s#2 1 completed until 12s = 7",
            "again skipped",
        ],
        calls: &["work 1", "work#2 1"],
    }
}
