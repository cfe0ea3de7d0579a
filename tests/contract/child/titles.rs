//! Titles that are worked out when a step is entered.

scenarios! {
    a_step_has_the_title_that_its_expression_gives {
        manifest: "
inputs: { who: { type: string, example: ann } }
steps:
  - { id: s, title: 'Greet ${{ inputs.who }}', guidance: Do it., result: {} }
",
        inputs: r#"{"who": "ann"}"#,
        script: &["s is titled Greet ann", "s brings 7"],
        ends: "completed 7",
        history: &[r#"s 1 completed titled "Greet ann""#],
    }
    a_step_with_a_child_has_a_title {
        manifest: "
inputs: { who: { type: string, example: ann } }
steps:
  - { id: kid, title: 'Ask ${{ inputs.who }}', workflow: ask, with: { text: hello } }
",
        workflows: &[("ask", "
inputs: { text: { type: string } }
steps:
  - { id: say, title: 'Say ${{ inputs.text }}', guidance: Say it., result: {} }
")],
        inputs: r#"{"who": "ann"}"#,
        script: &["shows Ask ann", "kid: say is titled Say hello", "kid: say brings 7"],
        ends: "completed 7",
        history: &[
            r#"kid 1 completed titled "Ask ann""#,
            r#"kid: say 1 completed titled "Say hello""#,
        ],
    }
    each_item_has_a_title {
        manifest: "
steps:
  - id: each
    foreach:
      in: [ann, bob]
      do: { title: 'Ask ${{ item }}', guidance: Do it., result: {} }
",
        script: &["each[2] is titled Ask bob", "each[1] brings 1", "each[2] brings 2"],
        ends: "completed [1,2]",
        history: &[
            "each 1 completed",
            r#"each[1] 1 completed titled "Ask ann""#,
            r#"each[2] 1 completed titled "Ask bob""#,
        ],
    }
    the_status_shows_the_title_of_an_open_step_of_a_model {
        manifest: "
inputs: { who: { type: string, example: ann } }
steps:
  - { id: s, title: 'Greet ${{ inputs.who }}', guidance: Do it., result: {} }
",
        inputs: r#"{"who": "ann"}"#,
        script: &["shows Greet ann", "s brings 7"],
        ends: "completed 7",
        history: &["s 1 completed"],
    }
    a_title_is_worked_out_anew_in_each_round {
        manifest: "
steps:
  - { id: s, title: 'Round ${{ run.visits.s + 1 }}', activity: work }
  - id: again
    branch:
      - { if: run.visits.s < 2, next: s }
      - { next: $end }
",
        activities: &[("work", &["brings 7"])],
        ends: "completed",
        history: &[
            r#"s 1 completed titled "Round 1""#,
            "again 1 completed",
            r#"s#2 1 completed titled "Round 2""#,
            "again#2 1 completed",
        ],
    }
    a_title_is_that_of_the_entry_whatever_changes_then {
        manifest: "
memory: { n: 1 }
steps:
  - { id: s, title: 'Number ${{ memory.n }}', guidance: Do it., result: {} }
  - { id: other, depends_on: [], set: { n: 2 } }
",
        script: &["s is titled Number 1", "s brings 7"],
        ends: "completed",
        history: &[r#"s 1 completed titled "Number 1""#, "other 1 completed"],
    }
    a_wait_shows_its_title {
        manifest: "
inputs: { who: { type: string, example: ann } }
steps:
  - { id: s, title: 'Until ${{ inputs.who }} comes', wait: { signal: go } }
",
        inputs: r#"{"who": "ann"}"#,
        script: &["shows Until ann comes", "signal go 7"],
        ends: "completed 7",
        history: &[r#"s 1 completed titled "Until ann comes""#],
    }
    a_title_that_cannot_be_worked_out_is_none {
        manifest: "
inputs: { n: { type: integer, example: 1 } }
steps:
  - { id: s, title: 'A ${{ 1 / inputs.n }}', activity: work }
",
        inputs: r#"{"n": 0}"#,
        activities: &[("work", &["brings 7"])],
        ends: "completed 7",
        history: &["s 1 completed titled none"],
    }
    attempts_have_the_title_of_their_visit {
        manifest: "
inputs: { who: { type: string, example: ann } }
steps:
  - { id: s, title: 'Ask ${{ inputs.who }}', guidance: Do it., result: {}, retry: { max_attempts: 2 } }
",
        inputs: r#"{"who": "ann"}"#,
        script: &["s fails BUSY", "s brings 7"],
        ends: "completed 7",
        history: &[r#"s 1 failed BUSY titled "Ask ann""#, r#"s 2 completed titled "Ask ann""#],
    }
}
