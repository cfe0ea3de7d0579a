//! Polls of every kind of work, with what the last one brought.

scenarios! {
    a_model_whose_first_answer_satisfies_the_condition_is_asked_once {
        manifest: "
steps:
  - { id: s, guidance: Look., result: {}, repeat: { until: steps.s.done } }
",
        script: &[r#"s brings {"done": true}"#],
        ends: r#"completed {"done":true}"#,
        history: &["s 1 completed"],
    }
    a_model_is_asked_until_the_condition_holds_and_told_its_last_answer {
        manifest: "
steps:
  - id: s
    guidance: 'Look. Last: ${{ run.last }}.'
    result: {}
    repeat: { until: steps.s.n >= 3 }
",
        script: &[
            r#"s brings {"n": 1}"#,
            r#"s reads Last: {"n":1}."#,
            r#"s brings {"n": 2}"#,
            r#"s reads Last: {"n":2}."#,
            r#"s brings {"n": 3}"#,
        ],
        ends: r#"completed {"n":3}"#,
        history: &[
            r#"s 1 completed at 0s = {"n":1}"#,
            r#"s 2 completed at 0s = {"n":2}"#,
            r#"s 3 completed at 0s = {"n":3}"#,
        ],
    }
    a_model_is_asked_at_the_pace_that_its_step_names {
        manifest: "
steps:
  - { id: s, guidance: Look., result: {}, repeat: { until: steps.s.n >= 2, every: 30s } }
",
        script: &[r#"s brings {"n": 1}"#, r#"s brings {"n": 2}"#],
        ends: r#"completed {"n":2}"#,
        history: &["s 1 completed at 0s until 0s", "s 2 completed at 30s"],
    }
    a_model_that_never_satisfies_the_condition_is_given_up {
        manifest: "
steps:
  - { id: s, guidance: Look., result: {}, repeat: { until: steps.s.done, max_attempts: 2 } }
",
        script: &[r#"s brings {"done": false}"#, r#"s brings {"done": false}"#],
        ends: "failed REPEAT_EXHAUSTED",
        history: &["s 1 completed", "s 2 failed REPEAT_EXHAUSTED"],
    }
    a_model_is_given_up_after_the_time_of_all_polls {
        manifest: "
steps:
  - { id: s, guidance: Look., result: {}, repeat: { until: steps.s.done, timeout: 20s } }
",
        script: &["passes 5s", r#"s brings {"done": false}"#],
        ends: "failed REPEAT_TIMED_OUT",
        history: &["s 1 completed until 5s", "s 2 failed REPEAT_TIMED_OUT at 5s until 20s"],
    }
    a_poll_of_a_model_that_fails_is_tried_again {
        manifest: "
steps:
  - id: s
    guidance: Look.
    result: {}
    retry: { max_attempts: 2 }
    repeat: { until: steps.s.done }
",
        script: &[
            r#"s brings {"done": false}"#,
            "s fails BUSY",
            r#"s brings {"done": false}"#,
            "s fails BUSY",
            r#"s brings {"done": true}"#,
        ],
        ends: r#"completed {"done":true}"#,
        history: &[
            "s 1 completed",
            "s 2 failed BUSY",
            "s 3 completed",
            "s 4 failed BUSY",
            "s 5 completed",
        ],
        retried: &["s", "s", "s", "s"],
    }
    a_poll_of_a_model_that_fails_fails_the_step {
        manifest: "
steps:
  - { id: s, guidance: Look., result: {}, repeat: { until: steps.s.done } }
",
        script: &[r#"s brings {"done": false}"#, "s fails BROKEN"],
        ends: "failed BROKEN",
        history: &["s 1 completed", "s 2 failed BROKEN"],
    }
    a_tool_is_called_until_the_condition_holds {
        manifest: "
steps:
  - id: s
    tool: orders.status
    with: { after: '${{ run.last }}' }
    result: {}
    repeat: { until: steps.s.n >= 2 }
",
        script: &[r#"s brings {"n": 1}"#, r#"s is given {"after": {"n": 1}}"#, r#"s brings {"n": 2}"#],
        ends: r#"completed {"n":2}"#,
        history: &["s 1 completed", "s 2 completed"],
        retried: &["s"],
    }
    a_persona_is_asked_until_the_condition_holds {
        manifest: "
steps:
  - { id: s, agent: reviewer, result: {}, repeat: { until: steps.s.n >= 2 } }
",
        script: &[r#"s brings {"n": 1}"#, r#"s brings {"n": 2}"#],
        ends: r#"completed {"n":2}"#,
        history: &["s 1 completed", "s 2 completed"],
    }
    each_poll_of_a_workflow_is_a_child {
        manifest: "
steps:
  - id: s
    workflow: look
    with: { last: '${{ run.last.n | default(0) }}' }
    repeat: { until: steps.s.n >= 2, every: 10s }
",
        workflows: &[("look", "
inputs: { last: { type: integer } }
steps:
  - { id: say, activity: work, with: { n: '${{ inputs.last + 1 }}' } }
final_output: { n: '${{ steps.say.n }}' }
")],
        activities: &[("work", &["brings its input"])],
        ends: r#"completed {"n":2}"#,
        history: &[
            r#"s 1 completed at 0s = {"n":1}"#,
            r#"s 2 completed at 10s = {"n":2}"#,
            "s: say 1 completed",
            "s: say 1 completed",
        ],
    }
    an_activity_is_given_what_the_last_poll_brought {
        manifest: "
steps:
  - id: s
    activity: work
    with: { last: '${{ run.last }}' }
    repeat: { until: steps.s.n >= 3, every: 10s }
",
        activities: &[("work", &[r#"brings {"n": 1}"#, r#"brings {"n": 2}"#, r#"brings {"n": 3}"#])],
        ends: r#"completed {"n":3}"#,
        history: &[
            r#"s 1 completed at 0s = {"n":1}"#,
            r#"s 2 completed at 10s = {"n":2}"#,
            r#"s 3 completed at 20s = {"n":3}"#,
        ],
        calls: &[
            r#"work 1 given {"last":null}"#,
            r#"work 2 given {"last":{"n":1}}"#,
            r#"work 3 given {"last":{"n":2}}"#,
        ],
    }
    a_condition_may_compare_a_poll_with_the_one_before {
        manifest: "
steps:
  - id: s
    activity: work
    repeat: { until: run.last and steps.s.n == run.last.n, every: 10s }
",
        activities: &[("work", &[r#"brings {"n": 1}"#, r#"brings {"n": 2}"#, r#"brings {"n": 2}"#])],
        ends: r#"completed {"n":2}"#,
        history: &["s 1 completed", "s 2 completed", "s 3 completed at 20s"],
    }
    what_the_last_poll_brought_outlives_a_time_without_a_server {
        manifest: "
steps:
  - id: s
    guidance: 'Look. Last: ${{ run.last }}.'
    result: {}
    repeat: { until: steps.s.n >= 2, every: 30s }
",
        script: &[
            r#"s brings {"n": 1}"#,
            "down for 1h",
            r#"s reads Last: {"n":1}."#,
            r#"s brings {"n": 2}"#,
        ],
        ends: r#"completed {"n":2}"#,
        history: &["s 1 completed at 0s", "s 2 completed at 1h"],
    }
    without_a_pace_the_server_polls_each_second {
        manifest: "
steps:
  - { id: s, activity: work, repeat: { until: steps.s.n >= 2 } }
",
        activities: &[("work", &[r#"brings {"n": 1}"#, r#"brings {"n": 2}"#])],
        ends: r#"completed {"n":2}"#,
        history: &["s 1 completed at 0s", "s 2 completed at 1s"],
    }
    each_item_is_polled_for_itself {
        manifest: "
steps:
  - id: each
    foreach:
      in: [1, 2]
      do:
        guidance: 'Do ${{ item }}. Last: ${{ run.last }}.'
        result: {}
        repeat: { until: run.last and run.last.done }
",
        script: &[
            r#"each[1] brings {"done": true}"#,
            r#"each[1] reads Last: {"done":true}."#,
            r#"each[1] brings {"n": 1}"#,
            r#"each[2] brings {"done": true}"#,
            r#"each[2] brings {"n": 2}"#,
        ],
        ends: r#"completed [{"n":1},{"n":2}]"#,
        history: &[
            "each 1 completed",
            "each[1] 1 completed",
            "each[2] 1 completed",
            "each[1] 2 completed",
            "each[2] 2 completed",
        ],
    }
}
