//! JSON that is hard to hold: depth, numbers, keys that stand twice, halves of characters, U+0000.

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{
    Client, Fields, address,
    witness::{WITNESS, Witness},
};

/// A witness beside a workflow that takes any inputs.
fn witness() -> Witness {
    let home = tempfile::tempdir().unwrap();
    let text = "{ workflow: anything, description: A test, steps: [{ id: a, agent: reviewer }, { id: b, agent: reviewer }] }";
    std::fs::create_dir(home.path().join("workflows")).unwrap();
    std::fs::write(home.path().join("workflows/anything.yaml"), text).unwrap();
    Witness::in_home(home, &[])
}

/// The answer to a tool call whose arguments are this text.
fn call(witness: &mut Witness, tool: &str, arguments: &str) -> Value {
    witness.ask(&format!(
        r#""method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}"#
    ))
}

fn start(witness: &mut Witness, id: &str, inputs: &str) -> Value {
    let arguments = format!(
        r#"{{"workflow_name":"anything","execution_id":"{id}","inputs":{{"x":{inputs}}}}}"#
    );
    call(witness, "workflow.start", &arguments)
}

fn finish(witness: &mut Witness, token: &Value, output: &str) -> Value {
    call(witness, "workflow.next_step", &format!(r#"{{"token":{token},"output":{output}}}"#))
}

fn nested(depth: usize) -> String {
    format!("{}1{}", "[".repeat(depth - 1), "]".repeat(depth - 1))
}

fn code(answer: &Value) -> &Value {
    let error = &answer["error"]["code"];
    if error.is_null() { &answer["result"]["structuredContent"]["error_code"] } else { error }
}

#[test]
fn a_value_nested_too_deep_is_refused_and_one_just_deep_enough_is_kept() {
    let mut witness = witness();
    let token = witness.token.clone();
    let most = limits::JSON_DEPTH_MAX;
    for (depth, expected) in [
        (1000, json!(-32700)),
        (most + 10, json!("LIMIT_EXCEEDED")),
        (most + 1, json!("LIMIT_EXCEEDED")),
    ] {
        // The objects around them are levels too.
        let answer = start(&mut witness, "victim", &nested(depth - 1));
        assert_eq!(code(&answer), &expected, "inputs {depth} deep: {answer}");
        let answer = finish(
            &mut witness,
            &token,
            &format!(r#"{{"summary":"s","x":{}}}"#, nested(depth - 1)),
        );
        assert_eq!(code(&answer), &expected, "an output {depth} deep: {answer}");
        let answer = finish(&mut witness, &token, &nested(depth));
        assert_eq!(code(&answer), &expected, "an output {depth} deep: {answer}");
        let key =
            format!(r#"{{"token":{token},"output":{{"summary":"s"}},"error":{}}}"#, nested(depth));
        let answer = call(&mut witness, "workflow.next_step", &key);
        assert!(code(&answer) == -32700 || code(&answer) == "ARGUMENTS_INVALID", "{answer}");
    }
    witness.unharmed();
    let deepest = nested(most - 1);
    let started = start(&mut witness, "victim", &deepest)["result"]["structuredContent"].clone();
    assert_eq!(started["success"], true, "{started}");
    let answer =
        finish(&mut witness, &started["new_token"], &format!(r#"{{"summary":"s","x":{deepest}}}"#));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let deepest: Value = serde_json::from_str(&deepest).unwrap();
    let (mut server, _home) = witness.survives();
    assert_eq!(server.current("victim")["inputs"]["x"], deepest);
    assert_eq!(server.read(&address("step_history", "victim"))[0]["output"]["x"], deepest);
}

#[test]
fn what_looks_like_a_number_and_is_none_is_refused() {
    let mut witness = witness();
    let token = witness.token.clone();
    let numbers = "NaN nan Infinity -Infinity 1e999 -1e999 01 +1 1. .5 0x10 1_000 --1 1e";
    for number in numbers.split(' ') {
        let answer = start(&mut witness, "victim", number);
        assert_eq!(code(&answer), -32700, "{number}: {answer}");
        let answer = finish(&mut witness, &token, &format!(r#"{{"summary":"s","x":{number}}}"#));
        assert_eq!(code(&answer), -32700, "{number}: {answer}");
    }
    witness.survives();
}

#[test]
fn huge_and_tiny_numbers_are_kept_as_they_were_read() {
    let mut witness = witness();
    let numbers = "1e308 -1e308 5e-324 0.1e-400 -0 -0.0 18446744073709551615 -9223372036854775808 \
         9007199254740993 0.1 3.141592653589793";
    let numbers: Vec<_> = numbers.split(' ').collect();
    for (at, number) in numbers.iter().enumerate() {
        let answer = start(&mut witness, &format!("n{at}"), number);
        assert_eq!(answer["result"]["isError"], false, "{number}: {answer}");
        let token = &answer["result"]["structuredContent"]["new_token"];
        finish(&mut witness, &token.clone(), &format!(r#"{{"summary":"s","x":{number}}}"#));
    }
    let answer = start(&mut witness, "whole", "123456789012345678901234567890");
    assert_eq!(code(&answer), -32602, "never another number: {answer}");
    let (mut server, _home) = witness.survives();
    for (at, number) in numbers.iter().enumerate() {
        let sent: Value = serde_json::from_str(number).unwrap();
        let id = format!("n{at}");
        assert_eq!(server.current(&id)["inputs"]["x"], sent, "{number}");
        assert_eq!(server.read(&address("step_history", &id))[0]["output"]["x"], sent, "{number}");
    }
}

#[test]
fn of_a_key_that_stands_twice_the_last_counts() {
    let mut witness = witness();
    let twice = r#"{"workflow_name":"anything","execution_id":"witness","execution_id":"victim","inputs":{"x":1,"x":2}}"#;
    let started =
        call(&mut witness, "workflow.start", twice)["result"]["structuredContent"].clone();
    assert_eq!(started["execution_id"], "victim", "{started}");
    let answer =
        finish(&mut witness, &started["new_token"], r#"{"summary":"first","summary":"last"}"#);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let wrong =
        finish(&mut witness, &started["new_token"], r#"{"summary":"last","summary":"first"}"#);
    assert_eq!(code(&wrong), "TOKEN_ALREADY_USED", "another output: {wrong}");
    let (mut server, _home) = witness.survives();
    assert_eq!(server.current("victim")["inputs"], json!({ "x": 2 }));
    assert_eq!(
        server.read(&address("step_history", "victim"))[0]["output"],
        json!({ "summary": "last" })
    );
}

#[test]
fn half_a_character_is_read_as_the_sign_of_a_cut_and_a_whole_one_kept() {
    let mut witness = witness();
    let token = witness.token.clone();
    for broken in [r"\u12", r"\ud83d\u0"] {
        let answer = finish(&mut witness, &token, &format!(r#"{{"summary":"{broken}"}}"#));
        assert_eq!(code(&answer), -32700, "{broken}: {answer}");
        let answer = start(&mut witness, broken, "1");
        assert_eq!(code(&answer), -32700, "{broken}: {answer}");
    }
    for half in [r"\ud800", r"\udc00", r"\udc00\ud800", r"a\ud83dz", r"\ud83d\u0041"] {
        let answer = start(&mut witness, half, &format!(r#""{half}""#));
        assert_eq!(answer["result"]["isError"], false, "{half}: {answer}");
    }
    let started = start(&mut witness, r"\ud83d\ude00", r#""\ud83d\ude00""#);
    assert_eq!(started["result"]["isError"], false, "{started}");
    let (mut server, _home) = witness.survives();
    assert_eq!(server.current("😀")["inputs"]["x"], "😀");
}

#[test]
fn what_does_not_print_is_kept_in_values_and_refused_in_ids() {
    let mut witness = witness();
    let odd = "a\u{0}b\u{1}\u{7f}\u{85}\u{2028}\u{202e}\u{feff}\u{ffff}\r\n\t\u{10ffff}";
    let inputs = json!({ odd: odd, "": { "": "" } });
    let arguments =
        json!({ "workflow_name": "anything", "execution_id": "victim", "inputs": inputs });
    let started = witness.begin_with(arguments);
    let output = json!({
        "summary": odd, odd: [odd], "artifacts": [{ "type": "file", "name": odd, "content": odd, "metadata": { odd: odd } }]
    });
    witness.hand_in(&started["new_token"], &output);
    let reason = json!({ "execution_id": "victim", "reason": odd });
    assert_eq!(witness.done("execution.pause", reason)["reason"], odd);
    let refused = json!({ "workflow_name": "bug-fix", "execution_id": "a\u{0}b" });
    let refused = witness.refused("workflow.start", refused);
    refused.has_fields(json!({ "/violations/0/path": "/execution_id" }));
    let (mut server, _home) = witness.survives();
    assert_eq!(server.current("victim")["inputs"], inputs);
    let history = server.read(&address("step_history", "victim"));
    assert_eq!(
        (&history[0]["output"]["summary"], &history[0]["output"][odd]),
        (&json!(odd), &json!([odd]))
    );
    let by_name =
        format!("{}/{}", address("artifact", "victim"), midex_domain::uri::encode_segment(odd));
    let artifact = server.read(&by_name);
    assert_eq!(
        (&artifact["content"], &artifact["name"], &artifact["metadata"][odd]),
        (&json!(odd), &json!(odd), &json!(odd))
    );
    assert_eq!(server.status("victim")["reason"], odd);
}

#[test]
fn names_of_a_megabyte_are_refused_in_few_words() {
    let mut witness = witness();
    let long = "x".repeat(1 << 20);
    for arguments in [
        json!({ "workflow_name": "bug-fix", "execution_id": long }),
        json!({ "workflow_name": long }),
        json!({ "workflow_name": "bug-fix", "project": long }),
        json!({ "workflow_name": "bug-fix", "known_agents": [long] }),
    ] {
        let refused = witness.refused("workflow.start", arguments);
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID");
        refused.is_below(4000);
    }
    for kind in [
        "current_step",
        "workflow_details",
        "agent",
        "telemetry",
        "artifact/witness",
        "workflow_artifacts/witness",
    ] {
        let error = witness.read_error(&format!("midex://workflow/{kind}/{long}"));
        assert_eq!(error["code"], -32002, "{kind}");
        error.is_below(4000);
    }
    let current = witness.current(WITNESS);
    assert_eq!(current["workflow_state"], "running");
    witness.survives();
}
