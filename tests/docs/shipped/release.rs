//! `release` on its several ways, with its children `announce` and `retract`.

use serde_json::{Value, json};

use super::led::Led;
use midex_test::{
    Client, assert_has, has_fields,
    project::{Project, eventually, list, text},
    terminal::Terminal,
};

const WORKFLOW: &str = "release";

/// A start with a package beside the tag, announced in one place.
fn whole() -> Value {
    json!({
        "version": "1.4.0", "publish": "npm publish", "take_back": "npm unpublish x@1.4.0",
        "verify": "npm view x@1.4.0 version", "announce_in": ["the chat"]
    })
}

fn prepared() -> Value {
    json!({ "summary": "Exports of any size work.", "commit": "3f9c2d1", "notes": "## 1.4.0", "previous": "v1.3.2" })
}

pub(crate) fn ran(command: &str, passed: bool) -> Value {
    json!({ "ran": [{ "command": command, "passed": passed, "output": "…" }] })
}

fn tagged() -> Value {
    json!({ "summary": "Pushed.", "tag": "v1.4.0" })
}

pub(crate) fn published(complete: bool) -> Value {
    json!({ "summary": "x 1.4.0 in the registry", "complete": complete })
}

/// What a person types at the gate of an execution.
fn answer(led: &Led, id: &str, line: &str) {
    let mut terminal = Terminal::open(led.project.command(&["approve", id, "--as", "ann"]));
    terminal.answer("leaves it open:", line);
    if line == "r" {
        terminal.answer("left empty):", "not today");
    }
    terminal.ends(0);
}

/// The release, up to the question whether it goes out.
fn asked(inputs: &Value) -> Led {
    asked_of(Led::start(WORKFLOW, inputs))
}

/// The same of one that has begun.
pub(crate) fn asked_of(mut led: Led) -> Led {
    led.hand("prepare", prepared());
    led.hand("check", ran("make test", true));
    assert_eq!(led.reply["workflow_state"], "paused", "{}", led.reply);
    led
}

/// The release with its tag pushed.
fn out(inputs: &Value) -> Led {
    let mut led = asked(inputs);
    agree(&mut led);
    led
}

/// A person agrees, and the tag is pushed.
pub(crate) fn agree(led: &mut Led) {
    answer(led, "e", "y");
    led.current = led.server.current("e");
    led.hand("tag", tagged());
}

/// The child that the release waits for: what `current_step` shows of it.
fn child(led: &mut Led, workflow: &str) -> Value {
    eventually(workflow, || {
        let current = led.server.current("e");
        let message = text(&current["message"]);
        // The one address in it is that of the child.
        let uri = message.split('\'').find(|part| part.starts_with("midex://"))?;
        let reply = led.server.call("workflow.read", json!({ "uri": uri }));
        let step = reply["structuredContent"]["content"].clone();
        (step["current_step"].is_string() && step["workflow_name"] == workflow).then_some(step)
    })
}

/// Takes back what the release began to take back, or says that it stayed.
pub(crate) fn retract(led: &mut Led, gone: bool) -> Value {
    let step = child(led, "retract");
    let output = json!({ "gone": gone, "summary": if gone { "Gone." } else { "Too old: write to support." } });
    let reply = led.server.hand_in(&step["continuation_token"], output);
    // Whoever worked on the child is led back.
    assert_has(
        text(&reply["message"]),
        &["Call workflow.read with uri 'midex://workflow/current_step/e'"],
    );
    step["input"].clone()
}

/// The status once the execution has ended like this.
pub(crate) fn ended(led: &mut Led, state: &str) -> Value {
    eventually(state, || {
        let status = led.server.status("e");
        (status["state"] == state).then_some(status)
    })
}

fn shown(project: &Project, id: &str) -> String {
    let output = project.command(&["show", id]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_version_goes_out_once_a_person_agrees_and_a_child_announces_it() {
    let mut led = asked(&whole());
    let question = text(&led.server.status("e")["waits"][0]["gate"]["ask"]).to_owned();
    assert_has(
        &question,
        &["Release 1.4.0 (stable) from commit 3f9c2d1?", "make test", "npm publish", "taken back"],
    );
    answer(&led, "e", "y");
    led.current = led.server.current("e");
    assert_eq!(led.current["agent_name"], "devops-engineer");
    led.told("a person approved it: ann");
    led.hand("tag", tagged());
    led.crash();
    has_fields(led.input(), json!({ "command": "npm publish", "tag": "v1.4.0" }));
    led.hand("publish", published(true));
    assert_eq!(led.input()["commands"], "npm view x@1.4.0 version");
    led.hand("verify", ran("npm view", true));

    let write = child(&mut led, "announce");
    let id = text(&write["execution_id"]).to_owned();
    assert_has(&shown(&led.project, "e"), &["announce waits for its child", &id]);
    has_fields(
        &write["input"],
        json!({ "what": "1.4.0 (stable), v1.4.0", "notes": "## 1.4.0", "places": ["the chat"] }),
    );
    let written = json!({ "title": "x 1.4.0", "text": "Exports of any size." });
    let reply = led.server.hand_in(&write["continuation_token"], written);
    assert_eq!(reply["workflow_state"], "paused", "a person reads it first");
    answer(&led, &id, "y");
    let step = child(&mut led, "announce");
    let sent = json!({ "sent": ["the chat"], "not_sent": [] });
    led.server.hand_in(&step["continuation_token"], sent);

    let status = ended(&mut led, "completed");
    assert_eq!(
        status["final_output"],
        json!({
            "version": "1.4.0", "channel": "stable", "commit": "3f9c2d1", "tag": "v1.4.0", "notes": "## 1.4.0",
            "approved_by": "ann", "published": "x 1.4.0 in the registry", "verified": ["npm view"],
            "announcement": { "title": "x 1.4.0", "text": "Exports of any size.", "sent": ["the chat"], "not_sent": [] }
        })
    );
    assert_eq!(list(&status["children"]).len(), 1, "nothing was taken back");
    assert_eq!(led.server.status(&id)["parent"], "e");
}

#[test]
fn a_release_without_a_package_or_a_place_is_a_tag_and_a_text() {
    let mut led = out(&json!({ "version": "1.4.0" }));
    led.hand("verify", ran("git ls-remote", true));
    let write = child(&mut led, "announce");
    let written = json!({ "title": "x 1.4.0", "text": "Exports." });
    led.server.hand_in(&write["continuation_token"], written);
    let output = ended(&mut led, "completed")["final_output"].clone();
    assert_eq!(output["published"], Value::Null);
    has_fields(&output["announcement"], json!({ "sent": [], "not_sent": [] }));
}

#[test]
fn what_users_do_not_get_is_taken_back_the_newest_first() {
    let mut led = out(&whole());
    led.hand("publish", published(true));
    led.hand("verify", ran("npm view", false));
    // The reply says where there is something to do.
    assert_has(
        text(&led.reply["message"]),
        &[
            "it waits for a child. Call workflow.read with uri 'midex://workflow/current_step/child_",
        ],
    );
    has_fields(
        &retract(&mut led, true),
        json!({ "what": "the published package of 1.4.0: x 1.4.0 in the registry", "how": "npm unpublish x@1.4.0" }),
    );
    led.server.kill();
    led.server = led.project.serve();
    has_fields(
        &retract(&mut led, true),
        json!({
            "what": "the tag v1.4.0 on the remote origin",
            "how": "git push origin --delete v1.4.0, and git tag --delete v1.4.0 here",
            "why": "the release of 1.4.0 was failed before it was verified"
        }),
    );
    let status = ended(&mut led, "failed");
    assert_eq!(status["error"]["code"], "NOT_VERIFIED");
    assert_eq!(status["not_compensated"], Value::Null);
    assert_has(
        &shown(&led.project, "e"),
        &["compensate of publish", "compensate of tag", "NOT_VERIFIED"],
    );
}

#[test]
fn what_stays_although_it_was_to_be_taken_back_is_named() {
    let mut led = out(&whole());
    led.hand("publish", published(true));
    led.hand("verify", ran("npm view", false));
    retract(&mut led, false);
    retract(&mut led, true);
    let status = ended(&mut led, "failed");
    assert_eq!(status["error"]["code"], "NOT_VERIFIED", "the first failure");
    let left = list(&status["not_compensated"]);
    let [left] = left.as_slice() else { panic!("{status}") };
    assert_eq!(left["step"], "publish");
    assert_has(text(&left["why"]), &["'retract' failed: Too old: write to support."]);
    assert_has(&shown(&led.project, "e"), &["not taken back\n  publish: "]);
}

#[test]
fn what_went_out_in_part_is_taken_back() {
    let mut led = out(&whole());
    led.hand("publish", published(false));
    retract(&mut led, true);
    retract(&mut led, true);
    let status = ended(&mut led, "failed");
    assert_eq!(status["error"]["code"], "PUBLISHED_IN_PART");
    assert_eq!(status["not_compensated"], Value::Null);
}

#[test]
fn where_a_person_or_a_check_says_no_nothing_has_gone_out() {
    let mut led = asked(&whole());
    answer(&led, "e", "r");
    let status = ended(&mut led, "failed");
    assert_eq!(status["error"]["code"], "GATE_REJECTED");
    assert_eq!(status["children"], Value::Null, "there is nothing to take back");

    let mut led = Led::start(WORKFLOW, &whole());
    led.hand("prepare", prepared());
    led.hand("check", ran("make test", false));
    let (code, message) = led.failed();
    assert_eq!(code, "CHECKS_FAILED");
    assert_has(&message, &["make test"]);
}

#[test]
fn a_release_that_is_given_up_is_taken_back_until_it_was_verified() {
    let mut led = out(&json!({ "version": "1.4.0" }));
    led.server.change("abandon", "e");
    let taken_back = retract(&mut led, true);
    assert_eq!(taken_back["why"], "the release of 1.4.0 was abandoned before it was verified");
    ended(&mut led, "abandoned");

    let mut led = out(&json!({ "version": "1.4.0" }));
    led.hand("verify", ran("git ls-remote", true));
    child(&mut led, "announce");
    led.server.change("abandon", "e");
    let status = ended(&mut led, "abandoned");
    assert_eq!(list(&status["children"]).len(), 1, "the announcement alone");
}

#[test]
fn an_announcement_that_a_person_rejects_is_not_sent() {
    let mut led = Led::start("announce", &json!({ "what": "x 1.4.0", "places": ["the chat"] }));
    led.hand("write", json!({ "title": "x 1.4.0", "text": "Exports." }));
    answer(&led, "e", "r");
    let output = ended(&mut led, "completed")["final_output"].clone();
    has_fields(&output, json!({ "text": "Exports.", "sent": [], "not_sent": ["the chat"] }));
}
