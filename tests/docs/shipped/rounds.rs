//! `review-until-approved` on its several ways.

use serde_json::{Value, json};

use super::led::Led;
use midex_test::{Client, has_fields, terminal::Terminal};

const WORKFLOW: &str = "review-until-approved";

fn finding(severity: &str, place: &str) -> Value {
    json!({ "severity": severity, "place": place, "problem": "Two at once.", "remedy": "One at a time." })
}

fn review(approved: bool, findings: &[Value]) -> Value {
    json!({ "approved": approved, "summary": "So it is.", "findings": findings, "ran": ["make test: 12 passed"] })
}

fn approval() -> Value {
    review(true, &[finding("note", "README.md")])
}

fn objections(place: &str) -> Value {
    review(false, &[finding("blocker", place), finding("minor", "b.c:2")])
}

fn answers(place: &str, action: &str) -> Value {
    let answer = json!({ "place": place, "action": action, "how": "With a lock." });
    json!({ "summary": "Done.", "answers": [answer] })
}

#[test]
fn what_is_approved_at_once_is_not_touched() {
    let mut led = Led::start(WORKFLOW, &json!({ "request": "Exports in the background" }));
    assert_eq!(led.current["agent_name"], "reviewer");
    assert_eq!(
        led.input(),
        &json!({
            "change": "what is not committed yet in the working tree", "request": "Exports in the background",
            "checks": null, "round": 1, "of": 3, "before": []
        })
    );
    // The section of the file is the instruction.
    led.told("Approve exactly when no blocker and no major is left.");
    led.hand("review", approval());
    assert_eq!(
        led.completed(),
        json!({
            "approved": true, "change": "what is not committed yet in the working tree", "reviews": 1,
            "verdict": "So it is.", "open": [finding("note", "README.md")], "objection": null,
            "rounds_before": [], "advice": null
        })
    );
    assert_eq!(led.path(), "review");
}

#[test]
fn a_verdict_that_its_findings_contradict_is_refused() {
    let mut led = Led::start(WORKFLOW, &json!({}));
    let generous = review(true, &[finding("major", "a.c:1")]);
    assert_eq!(led.refuse("review", generous), ["severity enum"]);
    let vague = review(false, &[finding("minor", "a.c:1")]);
    assert_eq!(led.refuse("review", vague), ["findings contains"]);
    led.hand("review", approval());
    led.completed();
}

#[test]
fn what_is_found_is_mended_and_looked_at_again_across_a_crash() {
    let mut led = Led::start(WORKFLOW, &json!({ "change": "branch fix" }));
    led.hand("review", objections("a.c:1"));
    assert_eq!(led.current["agent_name"], "implementer");
    assert_eq!(
        led.input(),
        &json!({
            "change": "branch fix", "findings": objections("a.c:1")["findings"], "objection": null, "checks": null
        })
    );
    led.crash();
    led.hand("mend", answers("a.c:1", "mended"));
    // The next look knows what the one before found, and what became of it.
    let first = json!({
        "findings": objections("a.c:1")["findings"], "objection": null,
        "answers": answers("a.c:1", "mended")["answers"]
    });
    assert_eq!(led.input()["round"], 2);
    assert_eq!(led.input()["before"], json!([first]));
    led.hand("review", objections("a.c:9"));
    led.hand("mend", answers("a.c:9", "disputed"));
    led.crash();
    led.hand("review", approval());
    let end = led.completed();
    has_fields(&end, json!({ "approved": true, "reviews": 3 }));
    assert_eq!(end["rounds_before"].as_array().unwrap().len(), 2);
    assert_eq!(end["rounds_before"][1]["answers"][0]["action"], "disputed");
    assert_eq!(led.path(), "review mend review mend review");
}

#[test]
fn where_the_rounds_are_used_up_it_ends_unapproved_and_says_what_is_open() {
    for rounds in [1, 10] {
        let mut led = Led::start(WORKFLOW, &json!({ "rounds": rounds }));
        for round in 1..=rounds {
            assert_eq!(led.input()["round"], round);
            led.hand("review", objections("a.c:1"));
            if round < rounds {
                led.hand("mend", answers("a.c:1", "left"));
            }
        }
        assert_eq!(led.input()["open"], objections("a.c:1")["findings"]);
        led.told("do not call it approved");
        led.hand("unsettled", json!({ "advice": "A smaller change." }));
        let end = led.completed();
        assert_eq!(end["approved"], false);
        assert_eq!(end["reviews"], json!(rounds));
        assert_eq!(end["advice"], "A smaller change.");
        assert_eq!(end["open"], objections("a.c:1")["findings"]);
    }
}

/// What a person types at the gate of the execution.
fn answer(led: &Led, lines: &[&str]) {
    let mut terminal = Terminal::open(led.project.command(&["approve", "e", "--as", "ann"]));
    terminal.expect("Minor findings left open: 1");
    terminal.expect("Do you agree?");
    for (line, prompt) in lines.iter().zip(["leaves it open:", "left empty):"]) {
        terminal.answer(prompt, line);
    }
    terminal.ends(0);
}

#[test]
fn with_a_sign_off_a_person_has_the_last_word_and_their_objection_is_a_finding() {
    let inputs = json!({ "sign_off": true, "rounds": 2 });
    let mut led = Led::start(WORKFLOW, &inputs);
    led.hand("review", approval());
    assert_eq!(led.reply["workflow_state"], "paused", "{}", led.reply);
    answer(&led, &["r", "the log is too loud"]);
    led.current = led.server.current("e");
    led.at("mend");
    let objection = "ann rejected 'sign_off': the log is too loud";
    assert_eq!(led.input()["objection"], objection);
    led.hand("mend", answers("log.c:1", "mended"));
    assert_eq!(led.input()["before"][0]["objection"], objection);
    led.hand("review", approval());
    answer(&led, &["y"]);
    let status = led.server.status("e");
    assert_eq!(status["state"], "completed");
    let end = &status["final_output"];
    has_fields(end, json!({ "approved": true, "objection": null }));
}

#[test]
fn a_person_who_does_not_agree_in_the_last_round_leaves_it_unapproved() {
    let mut led = Led::start(WORKFLOW, &json!({ "sign_off": true, "rounds": 1 }));
    led.hand("review", approval());
    answer(&led, &["r", "not today"]);
    led.current = led.server.current("e");
    led.hand("unsettled", json!({ "advice": "Tomorrow." }));
    let end = led.completed();
    has_fields(
        &end,
        json!({ "approved": false, "objection": "ann rejected 'sign_off': not today" }),
    );
}
