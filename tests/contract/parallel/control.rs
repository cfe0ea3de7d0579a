//! Branches that are kept out, cancelled or ended by others.

scenarios! {
    a_quorum_may_come_from_an_input {
        manifest: "
inputs: { n: { type: integer, example: 1 } }
steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: c, depends_on: [], guidance: C., result: {} }
  - id: join
    depends_on: [a, b, c]
    join: quorum(${{ inputs.n }})
    losers: cancel
    activity: work
",
        inputs: r#"{"n": 2}"#,
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
    a_quorum_may_come_from_a_step_before_the_branches {
        manifest: "
steps:
  - { id: how, guidance: How many?, result: { type: integer } }
  - { id: a, guidance: A., result: {} }
  - { id: b, depends_on: [how], guidance: B., result: {} }
  - id: join
    depends_on: [a, b]
    join: quorum(${{ steps.how }})
    losers: cancel
    activity: work
",
        activities: &[("work", &["brings 7"])],
        script: &["how brings 1", "b brings 2"],
        ends: "completed 7",
        history: &["how 1 completed", "a 1 skipped", "b 1 completed", "join 1 completed"],
    }
    an_arm_that_is_not_taken_keeps_its_step_out {
        manifest: "
steps:
  - { id: b, guidance: B., result: {} }
  - id: choose
    depends_on: []
    branch:
      - { if: 1 == 2, next: x }
      - { next: y }
  - { id: x, depends_on: [choose, b], activity: work, next: $end }
  - { id: y, depends_on: [choose], guidance: Y., result: {} }
",
        activities: &[("work", &["brings 7"])],
        script: &["y brings 1", "b brings 2"],
        ends: "completed",
        history: &["b 1 completed", "choose 1 completed", "x skipped", "y 1 completed"],
    }
    an_arm_that_is_not_taken_leaves_its_step_to_another_arm {
        manifest: "
steps:
  - id: first
    branch:
      - { if: 1 == 2, next: x }
      - { next: y }
  - { id: y, guidance: Y., result: {} }
  - id: second
    depends_on: [y]
    branch:
      - { if: 1 == 1, next: x }
      - { next: $end }
  - { id: x, depends_on: [first, second], activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["y brings 1"],
        ends: "completed 7",
        history: &["first 1 completed", "y 1 completed", "second 1 completed", "x 1 completed"],
        calls: &["work 1"],
    }
    max_visits_bounds_a_loop_through_a_handler {
        manifest: "
steps:
  - { id: s, max_visits: 2, activity: work, on_error: again, next: $end }
  - { id: again, run_when: failed, wait: { for: 10s }, next: s }
",
        activities: &[("work", &["fails for good refused"])],
        ends: "failed MAX_VISITS",
        history: &[
            "s 1 failed REFUSED at 0s",
            "again 1 completed until 10s",
            "s#2 1 failed REFUSED at 10s",
            "again#2 1 completed until 20s",
            "s#3 1 failed MAX_VISITS",
            "again skipped",
        ],
        calls: &["work 1", "work#2 1"],
    }
    max_visits_bounds_a_loop_through_a_handler_that_nothing_else_leads_to {
        manifest: "
steps:
  - { id: s, max_visits: 2, activity: work, on_error: again, next: $end }
  - { id: again, wait: { for: 10s }, next: s }
",
        activities: &[("work", &["fails for good refused"])],
        ends: "failed MAX_VISITS",
        history: &[
            "s 1 failed REFUSED at 0s",
            "again 1 completed until 10s",
            "s#2 1 failed REFUSED at 10s",
            "again#2 1 completed until 20s",
            "s#3 1 failed MAX_VISITS",
            "again skipped",
        ],
        calls: &["work 1", "work#2 1"],
    }
    a_step_cancels_an_open_step {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [b] }
  - { id: b, depends_on: [], guidance: B. }
  - { id: after, depends_on: [b], activity: work }
  - { id: c, depends_on: [a], activity: work }
final_output: ${{ steps.c }}
",
        activities: &[("work", &["brings 7"])],
        script: &["passes 5s", "a brings 1"],
        ends: "completed 7",
        history: &["a 1 completed until 5s", "b 1 skipped until 5s", "after skipped", "c 1 completed"],
        calls: &["work 1"],
    }
    a_step_cancels_a_step_that_has_not_begun {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [late] }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: late, depends_on: [b], activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["a brings 1", "b brings 2"],
        ends: "completed",
        history: &["a 1 completed", "b 1 completed", "late skipped"],
    }
    a_step_that_has_ended_is_not_cancelled {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [b] }
  - { id: b, depends_on: [], guidance: B., result: {} }
final_output: ${{ steps.b }}
",
        script: &["b brings 2", "a brings 1"],
        ends: "completed 2",
        history: &["a 1 completed", "b 1 completed"],
    }
    a_step_that_fails_cancels_nothing {
        manifest: "
steps:
  - { id: a, guidance: A., cancel: [b], on_error: continue }
  - { id: b, depends_on: [], guidance: B., result: {} }
final_output: ${{ steps.b }}
",
        script: &["a fails BUSY", "b brings 2"],
        ends: "completed 2",
        history: &["a 1 failed BUSY", "b 1 completed"],
    }
    a_cancelled_step_of_the_server_is_broken_off {
        manifest: "
steps:
  - { id: a, wait: { for: 5s }, cancel: [b] }
  - { id: b, depends_on: [], activity: work }
  - { id: c, depends_on: [a, b], activity: tell }
",
        activities: &[("work", &["takes 1h, brings 1"]), ("tell", &["brings 7"])],
        ends: "completed 7",
        history: &["a 1 completed until 5s", "b 1 skipped until 5s", "c 1 completed at 5s"],
        calls: &["work 1", "tell 1"],
    }
    a_cancelled_child_is_abandoned {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [kid] }
  - { id: kid, depends_on: [], workflow: ask }
",
        workflows: &[("ask", "steps:\n  - { id: say, guidance: Say it. }\n")],
        script: &["passes 5s", "a brings 1"],
        ends: "completed",
        history: &["a 1 completed", "kid 1 skipped until 5s", "kid: say 1 skipped until 5s"],
    }
    a_cancelled_list_cancels_its_items {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [each] }
  - { id: each, depends_on: [], foreach: { in: [1, 2, 3], parallel: 2, do: { guidance: Do it. } } }
final_output: ${{ steps.a }}
",
        script: &["each[1] brings {\"summary\": \"done\"}", "passes 5s", "a brings 7"],
        ends: "completed 7",
        history: &[
            "a 1 completed until 5s",
            "each 1 skipped until 5s",
            "each[1] 1 completed until 0s",
            "each[2] 1 skipped until 5s",
            "each[3] 1 skipped until 5s",
        ],
    }
    stop_completes_a_child_and_not_its_parent {
        manifest: "
steps:
  - { id: kid, workflow: ask }
  - { id: s, guidance: Go on., result: {} }
",
        workflows: &[("ask", "
steps:
  - { id: a, guidance: A., result: {}, next: $stop }
  - { id: b, depends_on: [], guidance: B. }
final_output: ${{ steps.a }}
")],
        script: &["kid: a brings 1", "s brings 7"],
        ends: "completed 7",
        history: &[
            "kid 1 completed = 1",
            "s 1 completed",
            "kid: a 1 completed",
            "kid: b 1 skipped",
        ],
    }
    stop_completes_the_execution_at_once {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, next: $stop }
  - { id: b, depends_on: [], guidance: B. }
  - { id: c, depends_on: [b], activity: work }
final_output: ${{ steps.a }}
",
        activities: &[("work", &["brings 7"])],
        script: &["passes 5s", "a brings 1"],
        ends: "completed 1",
        history: &["a 1 completed until 5s", "b 1 skipped until 5s", "c skipped"],
    }
    an_arm_may_stop_the_execution {
        manifest: "
steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, depends_on: [], guidance: B. }
  - id: choose
    depends_on: [a]
    branch:
      - { if: steps.a > 3, next: $stop }
      - { next: c }
  - { id: c, activity: work }
final_output: ${{ steps.a }}
",
        activities: &[("work", &["brings 7"])],
        script: &["passes 5s", "a brings 4"],
        ends: "completed 4",
        history: &["a 1 completed", "b 1 skipped until 5s", "choose 1 completed", "c skipped"],
    }
    end_ends_its_own_path_only {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, next: $end }
  - { id: b, depends_on: [], guidance: B., result: {} }
final_output: ['${{ steps.a }}', '${{ steps.b }}']
",
        script: &["a brings 1", "passes 5s", "b brings 2"],
        ends: "completed [1,2]",
        history: &["a 1 completed", "b 1 completed until 5s"],
    }
    what_another_next_still_leads_to_is_not_skipped {
        manifest: "
steps:
  - id: choose
    branch:
      - { if: 1 == 2, next: x }
      - { next: y }
  - { id: q, depends_on: [], guidance: Q., result: {} }
  - { id: y, depends_on: [choose], guidance: Y., result: {}, next: x }
  - { id: x, depends_on: [choose], guidance: X., result: {} }
  - { id: w, depends_on: [x, q], activity: work }
final_output: ${{ steps.w }}
",
        activities: &[("work", &["brings 7"])],
        script: &["q brings 0", "y brings 1", "x brings 2"],
        ends: "completed 7",
        history: &[
            "choose 1 completed",
            "q 1 completed",
            "y 1 completed",
            "x 1 completed",
            "w 1 completed",
        ],
        calls: &["work 1"],
    }
    what_another_arm_still_leads_to_is_not_skipped {
        manifest: "
steps:
  - id: choose
    branch:
      - { if: 1 == 2, next: x }
      - { next: y }
  - { id: q, depends_on: [], guidance: Q., result: {} }
  - { id: y, depends_on: [choose], guidance: Y., result: {} }
  - id: second
    depends_on: [y]
    branch:
      - { if: 1 == 1, next: x }
      - { next: $end }
  - { id: x, depends_on: [choose], guidance: X., result: {} }
  - { id: w, depends_on: [x, q], activity: work }
final_output: ${{ steps.w }}
",
        activities: &[("work", &["brings 7"])],
        script: &["q brings 0", "y brings 1", "x brings 2"],
        ends: "completed 7",
        history: &[
            "choose 1 completed",
            "q 1 completed",
            "y 1 completed",
            "second 1 completed",
            "x 1 completed",
            "w 1 completed",
        ],
        calls: &["work 1"],
    }
    a_step_is_cancelled_once_in_each_round_of_a_loop {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [b] }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - id: again
    depends_on: [a]
    branch:
      - { if: run.visits.a < 2, next: a }
      - { next: $end }
",
        script: &["a brings 1", "a brings 2"],
        ends: "completed",
        history: &[
            "a 1 completed",
            "b 1 skipped",
            "again 1 completed",
            "a#2 1 completed",
            "again#2 1 completed",
        ],
    }
    a_cancelled_step_is_not_tried_again {
        manifest: "
steps:
  - { id: a, wait: { for: 5s }, cancel: [b] }
  - { id: b, depends_on: [], activity: work, retry: { max_attempts: 2, backoff: 10s, jitter: false } }
",
        activities: &[("work", &["fails network"])],
        ends: "completed",
        history: &["a 1 completed until 5s", "b 1 failed NETWORK until 0s"],
        calls: &["work 1"],
    }
    a_join_does_without_a_cancelled_branch {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [b] }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: c, depends_on: [], guidance: C., result: {} }
  - { id: join, depends_on: [b, c], join: any, activity: work }
final_output: ${{ steps.join }}
",
        activities: &[("work", &["brings 7"])],
        script: &["a brings 1", "passes 5s", "c brings 3"],
        ends: "completed 7",
        history: &[
            "a 1 completed",
            "b 1 skipped until 0s",
            "c 1 completed until 5s",
            "join 1 completed at 5s",
        ],
    }
    a_join_of_cancelled_branches_alone_is_skipped {
        manifest: "
steps:
  - { id: a, guidance: A., result: {}, cancel: [b, c] }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: c, depends_on: [], guidance: C., result: {} }
  - { id: join, depends_on: [b, c], join: any, activity: work }
final_output: ${{ steps.a }}
",
        activities: &[("work", &["brings 7"])],
        script: &["a brings 1"],
        ends: "completed 1",
        history: &["a 1 completed", "b 1 skipped", "c 1 skipped", "join skipped"],
    }
    stop_breaks_work_of_the_server_off {
        manifest: "
steps:
  - { id: a, wait: { for: 5s }, next: $stop }
  - { id: b, depends_on: [], activity: work }
final_output: stopped
",
        activities: &[("work", &["takes 1h, brings 1"])],
        ends: r#"completed "stopped""#,
        history: &["a 1 completed until 5s", "b 1 skipped until 5s"],
        calls: &["work 1"],
    }
    stop_leaves_the_hooks_of_the_workflow_to_run {
        manifest: "
memory: { ended: no }
hooks: { on_complete: { set: { ended: '${{ run.outcome }}' } } }
steps:
  - { id: a, wait: { for: 5s }, next: $stop }
  - { id: b, depends_on: [], guidance: B. }
  - { id: clean, depends_on: [b], run_when: finished, activity: work }
",
        activities: &[("work", &["brings 1"])],
        ends: "completed",
        history: &[
            "a 1 completed until 5s",
            "b 1 skipped until 5s",
            "clean skipped",
            r#"$workflow/on_complete 1 completed = {"ended":"completed"}"#,
        ],
    }
    a_quorum_of_more_than_all_branches_fails_the_join {
        manifest: "
inputs: { n: { type: integer, example: 1 } }
steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, depends_on: [], guidance: B., result: {} }
  - { id: join, depends_on: [a, b], join: 'quorum(${{ inputs.n }})', activity: work }
",
        inputs: r#"{"n": 3}"#,
        activities: &[("work", &["brings 7"])],
        script: &["a brings 1"],
        ends: "failed THRESHOLD_INVALID",
        history: &["a 1 completed", "b 1 skipped", "join 1 failed THRESHOLD_INVALID"],
    }
}
