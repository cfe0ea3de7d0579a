//! One step for each item of a list.

mod enough;
mod tolerate;

scenarios! {
    outputs_stand_in_the_order_of_the_items {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2, 3], do: { guidance: 'Do ${{ item }}.', result: {} } }
",
        script: &[r#"each[3] brings "c""#, r#"each[1] brings "a""#, r#"each[2] brings "b""#],
        ends: r#"completed ["a","b","c"]"#,
        history: &[
            r#"each 1 completed = ["a","b","c"]"#,
            "each[1] 1 completed",
            "each[2] 1 completed",
            "each[3] 1 completed",
        ],
    }
    no_more_items_are_open_at_once_than_parallel_says {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2, 3], parallel: 2, do: { activity: work, with: { n: '${{ item }}' } } }
",
        activities: &[
            ("work[1]", &["takes 10s, brings 1"]),
            ("work[2]", &["takes 4s, brings 2"]),
            ("work[3]", &["takes 10s, brings 3"]),
        ],
        ends: "completed [1,2,3]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed at 0s until 10s",
            "each[2] 1 completed at 0s until 4s",
            "each[3] 1 completed at 4s until 14s",
        ],
        calls: &["work[1] 1", "work[2] 1", "work[3] 1"],
    }
    items_one_after_another_write_one_memory {
        manifest: "
memory: { seen: [] }
steps:
  - id: each
    foreach: { in: [3, 1, 2], parallel: 1, do: { set: { seen: '${{ memory.seen + [item] }}' } } }
final_output: ${{ memory.seen }}
",
        ends: "completed [3,1,2]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 completed",
            "each[3] 1 completed",
        ],
    }
    a_list_without_items_is_done_at_once {
        manifest: "
steps:
  - { id: each, foreach: { in: [], do: { guidance: Do it. } } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings its input"])],
        ends: "completed []",
        history: &["each 1 completed = []", "s 1 completed"],
        calls: &["work 1 given []"],
    }
    a_list_may_be_the_output_of_a_step {
        manifest: "
steps:
  - { id: list, guidance: List., result: { type: array } }
  - id: each
    foreach:
      in: ${{ steps.list }}
      as: row
      do: { activity: work, with: { n: '${{ row.n * 2 + index }}' } }
final_output: \"${{ steps.each | map(attribute='n') }}\"
",
        activities: &[("work", &["brings its input"])],
        script: &[r#"list brings [{"n": 5}, {"n": 6}]"#],
        ends: "completed [10,13]",
        history: &["list 1 completed", "each 1 completed", "each[1] 1 completed", "each[2] 1 completed"],
    }
    the_failure_of_an_item_fails_the_whole_and_cancels_the_open_ones {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2, 3], parallel: 2, do: { guidance: 'Do ${{ item }}.', result: {} } }
",
        script: &["passes 5s", "each[2] fails BROKEN"],
        ends: "failed BROKEN",
        history: &[
            "each 1 failed BROKEN",
            "each[1] 1 skipped until 5s",
            "each[2] 1 failed BROKEN until 5s",
        ],
    }
    an_item_whose_failure_is_passed_over_leaves_null {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], do: { guidance: 'Do ${{ item }}.', result: {}, on_error: continue } }
",
        script: &["each[1] fails BROKEN", "each[2] brings 2"],
        ends: "completed [null,2]",
        history: &["each 1 completed = [null,2]", "each[1] 1 failed BROKEN", "each[2] 1 completed"],
    }
    an_item_that_fails_is_tried_again_alone {
        manifest: "
steps:
  - id: each
    foreach:
      in: [1, 2]
      do: { activity: work, retry: { max_attempts: 2, backoff: 5s, jitter: false } }
",
        activities: &[("work[1]", &["brings 1"]), ("work[2]", &["fails network", "brings 2"])],
        ends: "completed [1,2]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed at 0s",
            "each[2] 1 failed NETWORK at 0s",
            "each[2] 2 completed at 5s",
        ],
        calls: &["work[1] 1", "work[2] 1", "work[2] 2"],
    }
    an_item_whose_condition_is_false_leaves_null {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], do: { if: item > 1, activity: work } }
",
        activities: &[("work[2]", &["brings 2"])],
        ends: "completed [null,2]",
        history: &["each 1 completed", "each[1] 1 skipped", "each[2] 1 completed"],
        calls: &["work[2] 1"],
    }
    items_wait_at_the_same_time {
        manifest: "
steps:
  - id: each
    foreach: { in: [30, 10, 20], do: { wait: { for: '${{ item }}s' } } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &[
            "each 1 completed at 0s until 30s",
            "each[1] 1 completed until 30s",
            "each[2] 1 completed until 10s",
            "each[3] 1 completed until 20s",
            "s 1 completed at 30s",
        ],
    }
    an_item_may_be_a_child {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], do: { workflow: ask, with: { n: '${{ item }}' } } }
",
        workflows: &[("ask", "
inputs: { n: { type: integer } }
steps:
  - { id: say, guidance: 'Say ${{ inputs.n }}.', result: {} }
")],
        script: &[
            "each[2]: say reads Say 2.",
            "each[2]: say brings 20",
            "each[1]: say brings 10",
        ],
        ends: "completed [10,20]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 completed",
            "each[1]: say 1 completed",
            "each[2]: say 1 completed",
        ],
    }
    an_item_may_be_an_approval {
        manifest: "
steps:
  - id: each
    foreach: { in: [a, b], do: { gate: 'Sign ${{ item }}?' } }
  - { id: s, activity: work }
",
        activities: &[("work", &["brings 7"])],
        script: &["approve each[2]", "approve each[1]"],
        ends: "completed 7",
        history: &["each 1 completed", "each[1] 1 completed", "each[2] 1 completed", "s 1 completed"],
        calls: &["work 1"],
    }
    nested_data_is_kept_as_it_is {
        manifest: "
inputs: { rows: { type: array, example: [] } }
steps:
  - id: each
    foreach: { in: '${{ inputs.rows }}', do: { activity: work, with: { row: '${{ item }}' } } }
",
        inputs: r#"{"rows": [{"a": [1, {"b": null}]}, [[]], false]}"#,
        activities: &[("work", &["brings its input"])],
        ends: r#"completed [{"row":{"a":[1,{"b":null}]}},{"row":[[]]},{"row":false}]"#,
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 completed",
            r#"each[3] 1 completed = {"row":false}"#,
        ],
    }
}
