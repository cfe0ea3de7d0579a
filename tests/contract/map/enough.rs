//! Lists of which not every item must succeed.

/// Items of a model, with what the `foreach` says besides.
macro_rules! items {
    ($list:literal, $more:literal) => {
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
"
        )
    };
}

scenarios! {
    a_list_is_done_once_enough_items_have_succeeded {
        manifest: items!("[1, 2, 3, 4, 5]", "parallel: 3\n      enough: 2"),
        script: &["each[2] brings 20", "passes 5s", "each[1] brings 10"],
        ends: "completed [10,20,null,null,null]",
        history: &[
            "each 1 completed until 5s",
            "each[1] 1 completed until 5s",
            "each[2] 1 completed until 0s",
            "each[3] 1 skipped until 5s",
            "each[4] 1 skipped until 5s",
        ],
    }
    with_enough_any_number_of_items_may_fail {
        manifest: items!("[1, 2, 3]", "enough: 1"),
        script: &["each[1] fails BUSY", "each[2] fails BUSY", "each[3] brings 30"],
        ends: "completed [null,null,30]",
        history: &[
            "each 1 completed",
            "each[1] 1 failed BUSY",
            "each[2] 1 failed BUSY",
            "each[3] 1 completed",
        ],
    }
    a_list_of_which_too_few_items_succeed_fails {
        manifest: items!("[1, 2, 3]", "enough: 2"),
        script: &["each[1] fails BUSY", "each[3] fails BUSY", "passes 5s", "each[2] brings 20"],
        ends: "failed JOIN_MISSED",
        history: &[
            "each 1 failed JOIN_MISSED until 5s",
            "each[1] 1 failed BUSY",
            "each[2] 1 completed until 5s",
            "each[3] 1 failed BUSY",
        ],
    }
    a_list_with_fewer_items_than_enough_fails_at_once {
        manifest: items!("[1, 2]", "enough: 3"),
        ends: "failed JOIN_MISSED",
        history: &["each 1 failed JOIN_MISSED until 0s"],
    }
    an_empty_list_is_never_enough {
        manifest: items!("[]", "enough: 1"),
        ends: "failed JOIN_MISSED",
        history: &["each 1 failed JOIN_MISSED until 0s"],
    }
    as_many_items_as_there_are_may_be_enough {
        manifest: items!("[1, 2]", "enough: 2"),
        script: &["each[1] brings 10", "each[2] brings 20"],
        ends: "completed [10,20]",
        history: &["each 1 completed", "each[1] 1 completed", "each[2] 1 completed"],
    }
    how_many_are_enough_may_come_from_an_expression {
        manifest: "
inputs: { n: { type: integer, example: 1 } }
steps:
  - id: each
    foreach:
      in: [1, 2, 3]
      enough: ${{ inputs.n + 1 }}
      do: { guidance: 'Do ${{ item }}.', result: {} }
",
        inputs: r#"{"n": 1}"#,
        script: &["each[3] brings 30", "each[1] brings 10"],
        ends: "completed [10,null,30]",
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 skipped",
            "each[3] 1 completed",
        ],
    }
    work_of_the_server_is_broken_off_once_enough_items_have_succeeded {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2, 3, 4], parallel: 2, enough: 1, do: { activity: work } }
",
        activities: &[("work[1]", &["takes 1h, brings 1"]), ("work[2]", &["takes 10s, brings 2"])],
        ends: "completed [null,2,null,null]",
        history: &[
            "each 1 completed until 10s",
            "each[1] 1 skipped until 10s",
            "each[2] 1 completed until 10s",
        ],
        calls: &["work[1] 1", "work[2] 1"],
    }
    children_are_abandoned_once_enough_items_have_succeeded {
        manifest: "
steps:
  - id: each
    foreach: { in: [1, 2], enough: 1, do: { workflow: ask } }
",
        workflows: &[("ask", "steps:\n  - { id: say, guidance: Say it., result: {} }\n")],
        script: &["passes 5s", "each[2]: say brings 20"],
        ends: "completed [null,20]",
        history: &[
            "each 1 completed until 5s",
            "each[1] 1 skipped until 5s",
            "each[2] 1 completed until 5s",
            "each[1]: say 1 skipped until 5s",
            "each[2]: say 1 completed until 5s",
        ],
    }
    an_item_that_brings_null_has_succeeded {
        manifest: items!("[1, 2]", "enough: 1"),
        script: &["each[2] brings null"],
        ends: "completed [null,null]",
        history: &["each 1 completed", "each[1] 1 skipped", "each[2] 1 completed = null"],
    }
    no_item_is_begun_where_enough_is_no_number {
        manifest: "
inputs: { n: { type: string, example: many } }
steps:
  - id: each
    foreach: { in: [1, 2], enough: '${{ inputs.n }}', do: { guidance: Do it. } }
",
        inputs: r#"{"n": "many"}"#,
        ends: "failed THRESHOLD_INVALID",
        history: &["each 1 failed THRESHOLD_INVALID"],
    }
    items_that_end_during_a_pause_count_with_the_resume {
        manifest: "
steps:
  - { id: each, foreach: { in: [1, 2], enough: 1, do: { activity: work } } }
",
        activities: &[("work[1]", &["takes 10s, brings 1"]), ("work[2]", &["takes 1h, brings 1"])],
        script: &["pause", "passes 20s", "resume"],
        ends: "completed [1,null]",
        history: &[
            "each 1 completed until 20s",
            "each[1] 1 completed until 20s",
            "each[2] 1 skipped until 20s",
        ],
    }
}
