//! Steps that ask for inputs: of a text, and of the user.

use midex_domain::{LifecycleAction, error::Code};
use serde_json::{Value, json};

use super::Play;
use crate::steps::Report;
use midex_test::{assert_has, has_fields, play::Calls};

/// An app whose platform and push may be left open at the start, with these steps.
fn app(steps: &str) -> String {
    format!(
        "inputs:
  request: {{ type: string, description: What the user asked for }}
  platform: {{ type: string, name: mobile platform, enum: [iOS, Android], hint: one of two, example: iOS, optional: true }}
  push: {{ type: boolean, description: Whether it sends notifications, optional: true }}
steps:
{steps}
"
    )
}

const READ: &str =
    "  - { id: read, extract: { from: '${{ inputs.request }}', properties: [platform, push] } }";
const ASK: &str =
    "  - { id: ask, input: { properties: [platform, push] }, instructions: Be kind. }";
const END: &str = "  - { id: tell, guidance: 'Build for ${{ inputs.platform }}, push ${{ inputs.push }}.', result: {} }";

fn request() -> Value {
    json!({ "request": "An app for Windows with no notifications" })
}

/// The refusal of an output for the step, whose token stays valid.
async fn refused(play: &Play, step: &str, output: Value) -> midex_domain::error::Error {
    let token = play.token(step);
    let refused = play.engine.advance(&token, Report::Output(output)).await;
    refused.expect_err("refused")
}

#[tokio::test(start_paused = true)]
async fn what_a_text_says_becomes_inputs_and_what_it_does_not_is_asked_for() {
    let mut play = Play::begin(&app(&[READ, ASK, END].join("\n")), request()).await;
    let offer = play.offers()[0].clone();
    assert_eq!(offer.step.kind, "extract");
    let input = offer.step.input.clone().unwrap();
    assert_eq!(input["from"], request()["request"]);
    assert_eq!(input["properties"][1]["name"], "push");
    for part in [
        "no notifications",
        "`platform` (mobile platform): type string; one of \"iOS\", \"Android\"; hint: one of two; for example \"iOS\"",
        "null",
    ] {
        assert!(play.words().contains(part), "{part}: {}", play.words());
    }
    let found = json!({ "platform": "Windows", "push": false, "colour": "red" });
    play.done("read", found).await;
    // Of the platform the user is asked, not of what is known: `false` is an answer.
    assert_eq!(play.open(), ["ask"]);
    let offer = play.offers()[0].clone();
    let names: Vec<_> = offer.step.input.as_ref().unwrap()["properties"]
        .as_array()
        .unwrap()
        .iter()
        .map(|property| property["name"].clone())
        .collect();
    assert_eq!(names, ["platform"]);
    let schema = offer.output_schema.clone().unwrap();
    assert_eq!(schema["required"], json!(["platform"]));
    assert!(play.words().contains("Be kind."), "{}", play.words());
    play.done("ask", json!({ "platform": "iOS" })).await;
    assert_has(play.words(), &["Build for iOS, push false."]);
    let history = play.history().await;
    assert_eq!(
        history[0].output,
        Some(json!({
            "extracted": { "push": false },
            "missing": ["platform"],
            "rejected": [
                { "property": "platform", "value": "Windows", "rule": "enum",
                  "message": "`platform` is not one of \"iOS\" or \"Android\"" },
                { "property": "colour", "value": "red", "rule": "additionalProperties",
                  "message": "the workflow has no input `colour`" }
            ]
        }))
    );
    assert_eq!(history[1].output, Some(json!({ "platform": "iOS", "push": false })));
    // What came in later is there after a restart, and in what is shown of the inputs.
    play.restart().await;
    let current = play.engine.current_now("e").await;
    let inputs = current.inputs.unwrap();
    has_fields(&inputs, json!({ "platform": "iOS", "push": false }));
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_missing_nobody_is_asked() {
    let mut inputs = request();
    (inputs["platform"], inputs["push"]) = (json!("Android"), json!(false));
    let play = Play::begin(&app(&[ASK, END].join("\n")), inputs).await;
    assert_eq!(play.open(), ["tell"]);
    assert_eq!(play.path().await, ["ask completed", "tell running"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_text_holds_nothing_and_is_not_looked_into() {
    let play =
        Play::begin(&app(&[READ, ASK].join("\n")), json!({ "request": " ", "push": true })).await;
    assert_eq!(play.open(), ["ask"]);
    let output = play.history().await[0].output.clone().unwrap();
    assert_eq!(output, json!({ "extracted": {}, "missing": ["platform"], "rejected": [] }));
}

#[tokio::test(start_paused = true)]
async fn a_refused_answer_is_asked_for_again_with_why_and_the_accepted_ones_are_kept() {
    let mut play = Play::begin(&app(&[ASK, END].join("\n")), request()).await;
    let answer = json!({ "platform": "WinPhone", "push": true });
    let first = refused(&play, "ask", answer.clone()).await;
    assert_eq!(first.code(), Code::StepOutputInvalid);
    assert!(first.suggested_action().starts_with("Ask your user to say again"));
    let violation = &first.violations()[0];
    assert_eq!(violation.path.as_str(), "/platform");
    assert_eq!(violation.rule.as_str(), "enum");
    assert_eq!(violation.expected.as_deref(), Some(r#"one of "iOS", "Android""#));
    assert_has(first.message(), &["malformed output 1 of 5"]);
    // The same answer again costs nothing.
    let again = refused(&play, "ask", answer).await;
    assert_has(again.message(), &["malformed output 1 of 5"]);
    play.restart().await;
    let current = play.engine.current_now("e").await;
    let words = current.instructions.unwrap();
    assert!(
        words.contains("The answer before was refused")
            && words.contains("is not one of")
            && !words.contains("`push`"),
        "{words}"
    );
    let input = current.step.unwrap().input.unwrap();
    assert_eq!(input["refused"][0]["rule"], "enum");
    assert_eq!(input["properties"].as_array().unwrap().len(), 1);
    // The token is the same one, and the start that is sent again shows what it showed.
    assert_eq!(current.continuation_token, Some(play.token("ask")));
    play.done("ask", json!({ "platform": "Android" })).await;
    assert_eq!(
        play.history().await[0].output,
        Some(json!({ "platform": "Android", "push": true }))
    );
}

#[tokio::test(start_paused = true)]
async fn the_fifth_refused_answer_holds_the_step_and_a_resume_asks_on() {
    let mut play = Play::begin(&app(&[ASK, END].join("\n")), request()).await;
    for attempt in 1..=5 {
        let error = refused(&play, "ask", json!({ "platform": attempt })).await;
        assert_eq!(error.code(), Code::StepOutputInvalid);
    }
    let status = play.engine.status_now("e").await;
    assert_eq!(status.state, "paused");
    let error = refused(&play, "ask", json!({ "platform": "iOS" })).await;
    assert_eq!(error.code(), Code::ExecutionPaused);
    play.restart().await;
    play.change(LifecycleAction::Resume).await;
    let words = play.engine.current_now("e").await.instructions;
    assert!(words.unwrap().contains("The answer before was refused"));
    play.done("ask", json!({ "platform": "iOS", "push": true })).await;
    assert_eq!(play.open(), ["tell"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_sets_only_what_was_asked_for() {
    let given = json!({ "request": "An app", "platform": "iOS" });
    let mut play = Play::begin(&app(&[ASK, END].join("\n")), given).await;
    let schema = play.offers()[0].output_schema.clone().unwrap();
    assert!(schema["properties"].get("platform").is_none(), "{schema}");
    let other = json!({ "platform": "Android", "push": true });
    let error = refused(&play, "ask", other).await;
    let violation = &error.violations()[0];
    assert_eq!(violation.path, "/platform", "{error:?}");
    // To repeat what is known sets nothing.
    play.done("ask", json!({ "platform": "iOS", "push": false })).await;
    let output = play.history().await[0].output.clone().unwrap();
    assert_eq!(output, json!({ "platform": "iOS", "push": false }));
}

#[tokio::test(start_paused = true)]
async fn a_list_is_no_answer_and_no_text_holds_one() {
    let play = Play::begin(&app(&[ASK, END].join("\n")), request()).await;
    let error = refused(&play, "ask", json!(["iOS"])).await;
    assert_eq!(error.violations()[0].rule, "type");
    let play = Play::begin(&app(&[READ, END].join("\n")), request()).await;
    let error = refused(&play, "read", json!("iOS")).await;
    assert_eq!(error.violations()[0].message, "the output must be an object");
}

#[tokio::test(start_paused = true)]
async fn words_of_the_user_go_through_extraction() {
    let ask = "  - { id: ask, input: { properties: [platform, push], reextract: true }, instructions: Be kind. }";
    let mut play = Play::begin(&app(&[ask, END].join("\n")), request()).await;
    assert!(play.words().contains("userUtterance"), "{}", play.words());
    let start = play.last.clone();
    let asked = play.token("ask");
    play.done("ask", json!({ "userUtterance": "iPhones, please" })).await;
    let offer = play.offers()[0].clone();
    assert_eq!((offer.step_name.as_str(), offer.step.attempt), ("ask", 2));
    assert!(play.words().contains("iPhones, please"), "{}", play.words());
    // What the author says of asking is said where the user is asked.
    let kind = "Be kind.";
    assert!(start.instructions.as_ref().unwrap().contains(kind));
    assert!(!play.words().contains(kind), "{}", play.words());
    let extracting = play.last.clone();
    // What the words did not say is asked for once more.
    play.done("ask", json!({ "platform": "iOS", "push": null })).await;
    let offer = play.offers()[0].clone();
    assert_eq!(offer.step.attempt, 3);
    let names = offer.step.input.unwrap()["properties"][0]["name"].clone();
    assert_eq!(names, "push");
    // Each call again gets the answer that it got.
    let words = Report::Output(json!({ "userUtterance": "iPhones, please" }));
    let again = play.engine.report(&asked, words).await;
    assert_eq!(again.instructions, extracting.instructions);
    assert!(again.replayed);
    assert_ne!(start.instructions, extracting.instructions);
    play.done("ask", json!({ "push": false })).await;
    assert_has(play.words(), &["Build for iOS, push false."]);
}

#[tokio::test(start_paused = true)]
async fn words_that_never_say_it_end_the_step() {
    let ask = "  - { id: ask, input: { properties: [platform], reextract: true }, retry: { max_attempts: 2 }, on_error: tell }";
    let mut play = Play::begin(
        &app(
            &[ask, "  - { id: tell, guidance: Go on., result: {}, run_when: finished }"].join("\n")
        ),
        request(),
    )
    .await;
    // The words alone will do.
    for words in [json!("Hm."), json!({ "userUtterance": "No idea." })] {
        play.done("ask", words).await;
        play.done("ask", json!({ "platform": null })).await;
    }
    assert_eq!(play.open(), ["tell"]);
    let history = play.history().await;
    let asked = history.iter().filter(|row| row.step_name == "ask");
    let ends: Vec<_> = asked.clone().map(|row| &*row.status).collect();
    assert_eq!(ends, ["completed", "failed", "completed", "failed"]);
    let last = asked.clone().next_back().unwrap();
    let failure = last.error.clone().unwrap();
    assert_eq!(failure.code, "INPUTS_MISSING");
    assert!(failure.message.contains("platform"), "{failure:?}");
}

#[test]
fn what_is_asked_for_must_be_declared_and_may_be_left_open() {
    let findings = |inputs: &str, kind: &str| {
        let text =
            format!("workflow: w\ndescription: d\n{inputs}steps:\n  - {{ id: ask, {kind} }}\n");
        let (_, findings) = midex_registry::check_text(
            "w.yaml",
            &text,
            &midex_registry::Registry::load(&midex_registry::Sources::default()),
        );
        let told = midex_domain::finding::filter_errors(&findings).map(|finding| {
            format!("{} {} {}", finding.path, finding.rule.as_str(), finding.message)
        });
        told.collect::<Vec<_>>()
    };
    let ask = "input: { properties: [platfrom] }";
    assert_eq!(
        findings("", ask),
        [
            "steps[0].input.properties[0] unknown_reference no input is called `platfrom`: the workflow declares none"
        ]
    );
    let declared = "inputs: { platform: { type: string } }\n";
    assert_eq!(
        findings(declared, ask),
        ["steps[0].input.properties[0] unknown_reference no input is called `platfrom`"]
    );
    let ask = "input: { properties: [platform] }";
    assert_eq!(
        findings(declared, ask),
        [
            "steps[0].input.properties[0] no_effect `platform` is never asked for: no execution starts without it"
        ]
    );
    assert!(findings("inputs: { platform: { optional: true } }\n", ask).is_empty());
    // A text may correct what was given.
    assert!(findings(declared, "extract: { from: x, properties: [platform] }").is_empty());
}
