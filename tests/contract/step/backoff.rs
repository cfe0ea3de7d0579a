//! How the pauses between attempts grow.

const FOUR: &[(&str, &[&str])] =
    &[("work", &["fails network", "fails network", "fails network", "brings 7"])];

scenarios! {
    a_pause_grows_by_its_factor {
        manifest: "
steps:
  - id: s
    activity: work
    retry: { max_attempts: 4, backoff: 1s, factor: 3, jitter: false }
",
        activities: FOUR,
        ends: "completed 7",
        history: &[
            "s 1 failed NETWORK at 0s",
            "s 2 failed NETWORK at 1s",
            "s 3 failed NETWORK at 4s",
            "s 4 completed at 13s",
        ],
    }
    a_factor_may_have_a_fraction {
        manifest: "
steps:
  - id: s
    activity: work
    retry: { max_attempts: 4, backoff: 4s, factor: 1.5, jitter: false }
",
        activities: FOUR,
        ends: "completed 7",
        history: &[
            "s 1 failed NETWORK at 0s",
            "s 2 failed NETWORK at 4s",
            "s 3 failed NETWORK at 10s",
            "s 4 completed at 19s",
        ],
    }
    with_a_factor_of_one_every_pause_is_the_same {
        manifest: "
steps:
  - id: s
    activity: work
    retry: { max_attempts: 4, backoff: 5s, factor: 1, jitter: false }
",
        activities: FOUR,
        ends: "completed 7",
        history: &[
            "s 1 failed NETWORK at 0s",
            "s 2 failed NETWORK at 5s",
            "s 3 failed NETWORK at 10s",
            "s 4 completed at 15s",
        ],
    }
    a_pause_that_grows_by_its_factor_has_an_end_too {
        manifest: "
steps:
  - id: s
    activity: work
    retry: { max_attempts: 4, backoff: 1s, factor: 10, max_backoff: 20s, jitter: false }
",
        activities: FOUR,
        ends: "completed 7",
        history: &[
            "s 1 failed NETWORK at 0s",
            "s 2 failed NETWORK at 1s",
            "s 3 failed NETWORK at 11s",
            "s 4 completed at 31s",
        ],
    }
    a_pause_of_a_model_grows_by_its_factor {
        manifest: "
steps:
  - id: s
    guidance: Do it.
    result: {}
    retry: { max_attempts: 3, backoff: 2s, factor: 5, jitter: false }
",
        script: &["s fails BUSY", "s fails BUSY", "s brings 7"],
        ends: "completed 7",
        history: &["s 1 failed BUSY at 0s", "s 2 failed BUSY at 2s", "s 3 completed at 12s"],
    }
}

#[test]
fn a_factor_lies_between_one_and_ten() {
    for factor in ["0.5", "11", "-1", "two"] {
        let lines =
            format!("steps:\n  - {{ id: s, activity: work, retry: {{ factor: {factor} }} }}\n");
        let found = crate::harness::findings_of(&lines);
        assert_eq!(found.len(), 1, "{factor}: {found:?}");
        assert_ne!(found, ["unknown_key"], "{factor}");
    }
}
