//! Lists of which some items may fail, and how many items ended how.

/// Items of a model, with what the `foreach` and the workflow say besides.
macro_rules! items {
    ($list:literal, $more:literal $(, $end:literal)?) => {
        concat!(
            "
steps:
  - id: each
    foreach:
      in: ",
            $list,
            "
      ",
            $more,
            "
      do: { guidance: 'Do ${{ item }}.', result: {} }
",
            $($end)?
        )
    };
}

scenarios! {
    as_many_items_may_fail_as_are_tolerated {
        manifest: items!("[1, 2, 3]", "tolerate: 1"),
        script: &["each[2] fails BUSY", "each[1] brings 10", "each[3] brings 30"],
        ends: "completed [10,null,30]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 failed BUSY",
            "each[3] 1 completed",
        ],
    }
    one_failure_more_fails_the_list_and_cancels_the_open_items {
        manifest: items!("[1, 2, 3, 4, 5]", "parallel: 4\n      tolerate: 1"),
        script: &["each[2] fails BUSY", "passes 5s", "each[1] fails BROKEN"],
        ends: "failed BROKEN",
        history: &[
            "each 1 failed BROKEN until 5s",
            "each[1] 1 failed BROKEN until 5s",
            "each[2] 1 failed BUSY until 0s",
            "each[3] 1 skipped until 5s",
            "each[4] 1 skipped until 5s",
            "each[5] 1 skipped until 5s",
        ],
    }
    none_may_fail_where_none_is_tolerated {
        manifest: items!("[1, 2]", "tolerate: 0"),
        script: &["each[1] fails BROKEN"],
        ends: "failed BROKEN",
        history: &["each 1 failed BROKEN", "each[1] 1 failed BROKEN", "each[2] 1 skipped"],
    }
    a_share_of_the_list_may_fail {
        manifest: items!("[1, 2, 3, 4]", "tolerate: 50%"),
        script: &["each[1] fails BUSY", "each[2] fails BUSY", "each[3] brings 30", "each[4] brings 40"],
        ends: "completed [null,null,30,40]",
        history: &[
            "each 1 completed",
            "each[1] 1 failed BUSY",
            "each[2] 1 failed BUSY",
            "each[3] 1 completed",
            "each[4] 1 completed",
        ],
    }
    a_share_is_rounded_down {
        manifest: items!("[1, 2, 3]", "tolerate: 60%"),
        script: &["each[1] fails BUSY", "each[2] fails BROKEN"],
        ends: "failed BROKEN",
        history: &[
            "each 1 failed BROKEN",
            "each[1] 1 failed BUSY",
            "each[2] 1 failed BROKEN",
            "each[3] 1 skipped",
        ],
    }
    what_is_tolerated_may_come_from_an_expression {
        manifest: "
inputs: { n: { type: integer, example: 1 } }
steps:
  - id: each
    foreach:
      in: [1, 2]
      tolerate: ${{ inputs.n }}
      do: { guidance: 'Do ${{ item }}.', result: {} }
",
        inputs: r#"{"n": 1}"#,
        script: &["each[1] fails BUSY", "each[2] brings 20"],
        ends: "completed [null,20]",
        history: &["each 1 completed", "each[1] 1 failed BUSY", "each[2] 1 completed"],
    }
    more_failures_than_are_tolerated_fail_a_list_that_wants_enough {
        manifest: items!("[1, 2, 3, 4]", "enough: 2\n      tolerate: 1"),
        script: &["each[1] fails BUSY", "each[2] fails BROKEN"],
        ends: "failed BROKEN",
        history: &[
            "each 1 failed BROKEN",
            "each[1] 1 failed BUSY",
            "each[2] 1 failed BROKEN",
            "each[3] 1 skipped",
            "each[4] 1 skipped",
        ],
    }
    attempts_of_an_item_are_one_failure {
        manifest: "
steps:
  - id: each
    foreach:
      in: [1, 2]
      tolerate: 1
      do: { activity: work, retry: { max_attempts: 2, backoff: 5s, jitter: false } }
",
        activities: &[("work[1]", &["fails network", "fails network"]), ("work[2]", &["brings 2"])],
        ends: "completed [null,2]",
        history: &[
            "each 1 completed until 5s",
            "each[1] 1 failed NETWORK at 0s",
            "each[2] 1 completed at 0s",
            "each[1] 2 failed NETWORK at 5s",
        ],
    }
    an_empty_list_needs_no_tolerance {
        manifest: items!("[]", "tolerate: 1"),
        ends: "completed []",
        history: &["each 1 completed"],
    }
    how_many_items_ended_how_is_counted {
        manifest: items!("[1, 2, 3]", "tolerate: 1", "final_output: ${{ steps.each.ended }}\n"),
        script: &["each[2] fails BUSY", "each[1] brings null", "each[3] brings 30"],
        ends: r#"completed {"succeeded":2,"failed":1,"skipped":0}"#,
        history: &[
            "each 1 completed = [null,null,30]",
            "each[1] 1 completed",
            "each[2] 1 failed BUSY",
            "each[3] 1 completed",
        ],
    }
    items_that_were_cancelled_or_never_begun_are_counted_as_skipped {
        manifest: items!(
            "[1, 2, 3, 4, 5]",
            "parallel: 2\n      enough: 1",
            "final_output: ${{ steps.each.ended }}\n"
        ),
        script: &["each[1] fails BUSY", "each[2] brings 20"],
        ends: r#"completed {"succeeded":1,"failed":1,"skipped":3}"#,
        history: &[
            "each 1 completed",
            "each[1] 1 failed BUSY",
            "each[2] 1 completed",
            "each[3] 1 skipped",
        ],
    }
    items_whose_condition_is_false_are_counted_as_skipped {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2, 3], do: { if: item > 1, activity: work, with: { n: '${{ item }}' } } }
final_output: ${{ steps.each.ended }}
",
        activities: &[("work", &["brings its input"])],
        ends: r#"completed {"succeeded":2,"failed":0,"skipped":1}"#,
        history: &[
            "each 1 completed",
            "each[1] 1 skipped",
            "each[2] 1 completed",
            "each[3] 1 completed",
        ],
    }
    the_items_of_a_failed_list_are_counted_too {
        manifest: "
steps:
  - id: each
    foreach:
      in: [1, 2, 3]
      tolerate: 1
      do: { guidance: 'Do ${{ item }}.', result: {} }
    on_error: continue
final_output: ${{ steps.each.ended }}
",
        script: &["each[1] fails BUSY", "each[3] fails BROKEN"],
        ends: r#"completed {"succeeded":0,"failed":2,"skipped":1}"#,
        history: &[
            "each 1 failed BROKEN",
            "each[1] 1 failed BUSY",
            "each[2] 1 skipped",
            "each[3] 1 failed BROKEN",
        ],
    }
    a_share_may_come_from_an_expression {
        manifest: "
inputs: { share: { type: string, example: 10% } }
steps:
  - id: each
    foreach:
      in: [1, 2]
      tolerate: ${{ inputs.share }}
      do: { guidance: 'Do ${{ item }}.', result: {} }
",
        inputs: r#"{"share": "50%"}"#,
        script: &["each[1] fails BUSY", "each[2] brings 20"],
        ends: "completed [null,20]",
        history: &["each 1 completed", "each[1] 1 failed BUSY", "each[2] 1 completed"],
    }
    an_item_that_a_crash_cut_off_may_be_tolerated {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], tolerate: 1, do: { activity: work, interrupted: fail } }
",
        activities: &[("work[1]", &["brings 1"]), ("work[2]", &["takes 10s, brings 1"])],
        script: &["passes 5s", "killed"],
        ends: "completed [1,null]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 failed INTERRUPTED until 5s",
        ],
        calls: &["work[1] 1", "work[2] 1"],
    }
    an_item_of_which_somebody_says_that_it_failed_may_be_tolerated {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], tolerate: 1, do: { activity: work } }
",
        activities: &[("work[1]", &["brings 1"]), ("work[2]", &["takes 10s, brings 1"])],
        script: &["passes 5s", "killed", "resolve each[2] failed"],
        ends: "completed [1,null]",
        history: &["each 1 completed", "each[1] 1 completed", "each[2] 1 failed STEP_FAILED"],
    }
    counts_are_handed_on_to_the_next_step {
        manifest: "
steps:
  - { id: each, foreach: { in: [1, 2], tolerate: 1, do: { guidance: Do it., result: {} } } }
  - { id: s, activity: work, with: { ended: '${{ steps.each.ended }}' } }
final_output: ${{ steps.s.ended.failed }}
",
        activities: &[("work", &["brings its input"])],
        script: &["each[1] fails BUSY", "each[2] brings 1"],
        ends: "completed 1",
        history: &[
            "each 1 completed",
            "each[1] 1 failed BUSY",
            "each[2] 1 completed",
            r#"s 1 completed = {"ended":{"succeeded":1,"failed":1,"skipped":0}}"#,
        ],
    }
}

#[test]
fn one_failure_is_not_allowed_in_two_ways() {
    for handled in ["on_error: continue", "optional: true"] {
        let lines = format!(
            "steps:\n  - {{ id: each, foreach: {{ in: [1], tolerate: 1, do: {{ activity: work, {handled} }} }} }}\n"
        );
        let found = crate::harness::findings_of(&lines);
        assert_eq!(found.len(), 1, "{handled}: {found:?}");
        assert_ne!(found, ["unknown_key"], "{handled}");
    }
}
