//! Callbacks: signals that steps wait for, and answers of people.

mod alive;
mod errors;

const GO: &str = "steps:\n  - { id: s, wait: { signal: go } }\n";

scenarios! {
    a_callback_brings_its_payload {
        manifest: GO,
        script: &["passes 5s", r#"signal go {"n": 7}"#],
        ends: r#"completed {"n":7}"#,
        history: &[r#"s 1 completed at 0s until 5s = {"n":7}"#],
    }
    a_callback_may_bring_nothing {
        manifest: GO,
        script: &["signal go null"],
        ends: "completed null",
        history: &["s 1 completed = null"],
    }
    a_callback_that_comes_early_is_kept {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: s, wait: { signal: go } }
",
        script: &["signal go 7", "first brings 1"],
        ends: "completed 7",
        history: &["first 1 completed", "s 1 completed = 7"],
    }
    two_payloads_are_taken_in_their_order {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: a, wait: { signal: go } }
  - { id: b, wait: { signal: go } }
final_output: ['${{ steps.a }}', '${{ steps.b }}']
",
        script: &["signal go 1", "signal go 2", "first brings 0"],
        ends: "completed [1,2]",
        history: &["first 1 completed", "a 1 completed = 1", "b 1 completed = 2"],
    }
    of_two_payloads_the_second_is_kept_for_the_next_wait {
        manifest: "
steps:
  - { id: a, wait: { signal: go } }
  - { id: between, guidance: Do it., result: {} }
  - { id: b, wait: { signal: go } }
final_output: ['${{ steps.a }}', '${{ steps.b }}']
",
        script: &["signal go 1", "signal go 2", "between brings 0"],
        ends: "completed [1,2]",
        history: &["a 1 completed = 1", "between 1 completed", "b 1 completed = 2"],
    }
    two_steps_that_wait_for_one_signal_have_a_payload_each {
        manifest: "
steps:
  - { id: a, wait: { signal: go } }
  - { id: b, depends_on: [], wait: { signal: go } }
final_output: ['${{ steps.a }}', '${{ steps.b }}']
",
        script: &["signal go 1", "passes 5s", "signal go 2"],
        ends: "completed [1,2]",
        history: &["a 1 completed until 0s = 1", "b 1 completed until 5s = 2"],
    }
    a_signal_of_another_name_is_not_taken {
        manifest: GO,
        script: &["signal stop 1", "passes 5s", "signal go 7"],
        ends: "completed 7",
        history: &["s 1 completed until 5s = 7"],
    }
    a_callback_that_does_not_come_times_out {
        manifest: "steps:\n  - { id: s, wait: { signal: go }, timeout: 10s }\n",
        ends: "failed STEP_TIMED_OUT",
        history: &["s 1 failed STEP_TIMED_OUT at 0s until 10s"],
    }
    a_callback_that_does_not_come_may_be_handled {
        manifest: "
steps:
  - { id: s, wait: { signal: go }, timeout: 10s, on_error: instead, next: $end }
  - { id: instead, run_when: failed, activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["s 1 failed STEP_TIMED_OUT until 10s", "instead 1 completed at 10s"],
        calls: &["work 1"],
    }
    a_callback_within_the_time_limit_is_taken_and_the_limit_is_over {
        manifest: "
steps:
  - { id: s, wait: { signal: go }, timeout: 10s }
  - { id: rest, wait: { for: 1m } }
",
        script: &["passes 9s", "signal go 7"],
        ends: "completed",
        history: &["s 1 completed until 9s = 7", "rest 1 completed until 69s"],
    }
    the_time_limit_goes_on_while_no_server_runs {
        manifest: "steps:\n  - { id: s, wait: { signal: go }, timeout: 10m }\n",
        script: &["down for 4m"],
        ends: "failed STEP_TIMED_OUT",
        history: &["s 1 failed STEP_TIMED_OUT at 0s until 10m"],
    }
    a_callback_during_a_pause_is_taken_with_the_resume {
        manifest: GO,
        script: &["pause", "signal go 7", "passes 5s", "resume"],
        ends: "completed 7",
        history: &["s 1 completed until 5s = 7"],
    }
    each_round_of_a_loop_waits_for_a_callback_of_its_own {
        manifest: "
memory: { got: [] }
steps:
  - { id: s, wait: { signal: go } }
  - { id: keep, set: { got: '${{ memory.got + [steps.s] }}' } }
  - id: again
    branch:
      - { if: run.visits.s < 3, next: s }
      - { next: $end }
final_output: ${{ memory.got }}
",
        script: &["signal go 1", "signal go 2", "passes 5s", "signal go 3"],
        ends: "completed [1,2,3]",
        history: &[
            "s 1 completed = 1",
            "keep 1 completed",
            "again 1 completed",
            "s#2 1 completed until 0s = 2",
            "keep#2 1 completed",
            "again#2 1 completed",
            "s#3 1 completed until 5s = 3",
            "keep#3 1 completed",
            "again#3 1 completed",
        ],
    }
    a_large_payload_is_kept_whole {
        manifest: "
steps:
  - { id: first, guidance: Do it., result: {} }
  - { id: s, wait: { signal: go } }
final_output: { letters: '${{ steps.s | length }}' }
",
        script: &["signal go 60000 letters", "first brings 1"],
        ends: r#"completed {"letters":60000}"#,
        history: &["first 1 completed", "s 1 completed"],
    }
    a_person_who_approves_lets_it_go_on {
        manifest: "
steps:
  - { id: agree, gate: 'Go on?' }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["passes 5s", "approve agree"],
        ends: "completed 7",
        history: &["agree 1 completed until 5s", "s 1 completed at 5s"],
        calls: &["work 1"],
    }
    a_person_who_rejects_fails_the_step {
        manifest: "
steps:
  - { id: agree, gate: 'Go on?' }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["reject agree"],
        ends: "failed GATE_REJECTED",
        history: &["agree 1 failed GATE_REJECTED"],
    }
}
