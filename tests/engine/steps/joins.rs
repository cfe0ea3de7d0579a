//! Steps that wait for some of the steps before them.

use super::*;
use midex_test::assert_has;
use serde_json::json;

/// Three steps beside each other, and one that waits for some of them.
fn beside(join: &str) -> String {
    let step = |id: &str| format!("  - {{ id: {id}, guidance: Do {id}, {ANY}, depends_on: [] }}\n");
    let three: String = ["a", "b", "c"].map(step).concat();
    format!(
        "steps:\n{three}  - {{ id: join, guidance: Go on, {ANY}, depends_on: [a, b, c], {join} }}\n"
    )
}

/// The tokens of the three steps, as the start gave them.
fn tokens(play: &Play) -> [String; 3] {
    ["a", "b", "c"].map(|step| play.token(step))
}

async fn done(play: &mut Play, token: &str) {
    play.report(token, Report::Output(json!(1))).await;
}

#[tokio::test(start_paused = true)]
async fn a_join_goes_on_once_as_many_are_done_as_it_asks_for() {
    for (join, waits_for) in [("join: all", 3), ("join: quorum(2)", 2), ("join: any", 1)] {
        let mut play = Play::begin(&beside(join), json!({})).await;
        let tokens = tokens(&play);
        for (count, token) in tokens.iter().enumerate() {
            done(&mut play, token).await;
            let opened = if count + 1 == waits_for { vec!["join"] } else { vec![] };
            assert_eq!(play.open(), opened, "{join}, {count}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_later_is_kept_and_moves_nothing() {
    let mut play = Play::begin(&beside("join: any"), json!({})).await;
    let [a, b, c] = tokens(&play);
    done(&mut play, &a).await;
    done(&mut play, &b).await;
    // Also a failure, which would have ended the execution before.
    play.report(&c, play::failed("it broke", Some("BROKEN"))).await;
    assert_eq!(play.state(), "running");
    play.goes_on(json!(2)).await;
    assert_eq!(play.state(), "completed");
    let history = play.history().await;
    let told: Vec<_> =
        history.iter().map(|row| (row.step_name.as_str(), &*row.status, row.late)).collect();
    assert_eq!(
        told,
        [
            ("a", "completed", false),
            ("b", "completed", true),
            ("c", "failed", true),
            ("join", "completed", false)
        ]
    );
}

/// `finish` is what happens where nothing is said.
#[tokio::test(start_paused = true)]
async fn the_execution_ends_once_the_losers_have() {
    let mut play = Play::begin(&beside("join: any, losers: finish"), json!({})).await;
    let [a, b, c] = tokens(&play);
    done(&mut play, &a).await;
    play.done("join", json!(2)).await;
    assert_eq!(play.state(), "running");
    done(&mut play, &b).await;
    done(&mut play, &c).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn losers_may_be_void() {
    let mut play = Play::begin(&beside("join: any, losers: cancel"), json!({})).await;
    let [a, b, _] = tokens(&play);
    done(&mut play, &a).await;
    let refused = play.refused(&b, json!(1)).await;
    assert_eq!(refused.code(), midex_domain::error::Code::TokenSuperseded);
    play.done("join", json!(2)).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(play.path().await, ["a completed", "b skipped", "c skipped", "join completed"]);
}

/// What leads to the join alone is void with it; what leads elsewhere too goes on.
#[tokio::test(start_paused = true)]
async fn losers_are_what_leads_nowhere_but_to_the_join() {
    let lines = format!(
        "steps:
  - {{ id: fast, guidance: F, {ANY}, depends_on: [] }}
  - {{ id: slow, guidance: S, {ANY}, depends_on: [] }}
  - {{ id: slower, guidance: S, {ANY} }}
  - {{ id: both, guidance: B, {ANY}, depends_on: [] }}
  - {{ id: join, guidance: J, {ANY}, depends_on: [fast, slower, both], join: any, losers: cancel }}
  - {{ id: other, guidance: O, {ANY}, depends_on: [both] }}"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let both = play.token("both");
    play.done("fast", json!(1)).await;
    play.done("join", json!(1)).await;
    play.report(&both, Report::Output(json!(1))).await;
    play.done("other", json!(1)).await;
    assert_eq!(play.state(), "completed");
    let mut path = play.path().await;
    path.sort();
    assert_eq!(
        path,
        [
            "both completed",
            "fast completed",
            "join completed",
            "other completed",
            "slow skipped",
            "slower skipped"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_join_that_cannot_come_about_fails() {
    let lines = beside("join: quorum(2)").replace("guidance: Do", "optional: true, guidance: Do");
    let mut play = Play::begin(&lines, json!({})).await;
    let [a, b, c] = tokens(&play);
    done(&mut play, &a).await;
    for token in [b, c] {
        play.report(&token, play::failed("it broke", None)).await;
    }
    assert_eq!(play.state(), "failed");
    let failure = play.last.failure.clone().unwrap();
    assert_eq!(failure.code.as_str(), "JOIN_MISSED");
    assert_eq!(failure.step_name.as_deref(), Some("join"));
    assert_has(&failure.message, &["waits for 2 of 3"]);
}

#[tokio::test(start_paused = true)]
async fn what_counts_is_what_run_when_asks_for() {
    let optional =
        |join: &str| beside(join).replace("guidance: Do", "optional: true, guidance: Do");
    for (join, opens) in
        [("join: any, run_when: failed", 2), ("join: quorum(2), run_when: finished", 2)]
    {
        let mut play = Play::begin(&optional(join), json!({})).await;
        let [a, b, _] = tokens(&play);
        done(&mut play, &a).await;
        assert_eq!(play.open(), Vec::<&str>::new());
        play.report(&b, play::failed("it broke", None)).await;
        assert_eq!((play.open(), opens), (vec!["join"], 2), "{join}");
    }
}

/// A restart in the middle forgets nothing of it.
#[tokio::test(start_paused = true)]
async fn a_join_goes_on_after_a_restart() {
    let mut play = Play::begin(&beside("join: quorum(2), losers: cancel"), json!({})).await;
    let [a, b, c] = tokens(&play);
    done(&mut play, &a).await;
    play.restart().await;
    done(&mut play, &c).await;
    assert_eq!(play.open(), ["join"]);
    play.refused(&b, json!(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_join_that_is_for_failures_looks_at_all_that_came_before() {
    let lines = format!(
        "steps:
  - {{ id: a, guidance: A., {ANY}, on_error: continue }}
  - {{ id: b, guidance: B., {ANY}, depends_on: [a] }}
  - {{ id: c, guidance: C., {ANY}, depends_on: [] }}
  - {{ id: told, guidance: T., {ANY}, depends_on: [b, c], join: any, run_when: failed }}"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let c = play.token("c");
    play.fails("a", "BROKEN").await;
    play.done("b", json!(1)).await;
    assert_eq!(play.open(), ["told"], "a failed before b");
    play.done("told", json!(1)).await;
    play.report(&c, Report::Output(json!(1))).await;
    assert_eq!(play.state(), "completed");

    // Where nothing failed it is skipped, and its join is not missed.
    let mut play = Play::begin(&lines, json!({})).await;
    let c = play.token("c");
    play.done("a", json!(1)).await;
    play.done("b", json!(1)).await;
    play.report(&c, Report::Output(json!(1))).await;
    assert_eq!(play.state(), "completed");
    let mut path = play.path().await;
    path.sort();
    assert_eq!(path, ["a completed", "b completed", "c completed", "told skipped"]);
}
