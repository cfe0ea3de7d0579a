//! Addresses and completions that mean nothing.

use serde_json::{Value, json};

use midex_test::{
    Client, Fields, fails_with, says, table,
    witness::{WITNESS, Witness},
};

/// Codes, each with the addresses below `midex://workflow/` that are refused with it.
const NOT_FOUND: &[(&str, &str)] = &[
    ("RESOURCE_NOT_FOUND", NO_RESOURCES),
    ("EXECUTION_NOT_FOUND", NO_EXECUTIONS),
    ("WORKFLOW_NOT_FOUND", "workflow_details/ workflow_details/nonsense"),
];
/// The last of them have a query that is none, or a name in it that stands twice.
const NO_RESOURCES: &str = "
    / ? nonsense ../executions Executions executions/ executions/x executions#x executions%00 available_workflows/
    current_step current_step/ current_step/%ff current_step/%c0%af current_step/witness%20 telemetry/
    workflow_artifacts/witness/nonsense workflow_artifacts/witness/.. workflow_artifacts/witness/fix/more
    workflow_artifacts//fix artifact/witness artifact/witness/ artifact/witness/0 artifact/witness/1 artifact/witness/-1
    artifact/witness/99999999999999999999 agent agent/ agent/%ff current_step/witness?x telemetry?limit=1&limit=1
    telemetry?event_type=error&event_type=error executions?state=open&state=paused executions?state=%ff
    artifact/witness/1?offset=1&offset=2";
const NO_EXECUTIONS: &str = "
    current_step/nobody current_step/Witness current_step/witness/ current_step/{execution_id} workflow_status/nobody
    step_history/nobody telemetry/nobody workflow_artifacts/nobody workflow_artifacts/nobody/fix artifact/nobody/1";

/// Queries with values or names that there are not; each with what the refusal must name.
const BAD_QUERIES: &str = "
    telemetry | limit=0 limit=1001 limit=-1 limit=1.5 limit=x limit= limit=99999999999999999999 | limit
    telemetry/witness | limit=0 limit=%31%30%30%31 | limit
    telemetry | event_type=x event_type= event_type=ERROR event_type=error%00 | event_type
    executions | limit=0 limit=201 limit=-1 limit=1e1 limit=x limit= | limit
    executions | state=x state= state=OPEN state=open%20 | state
    executions | cursor=x cursor= cursor=-1 cursor=1.5 cursor=99999999999999999999 | cursor
    executions | workflow= workflow=%0a workflow=a%00b | workflow
    artifact/witness/1 | offset=-1 offset=x offset=1.5 offset= offset=99999999999999999999 | offset
    artifact/witness/1 | limit=0 limit=-1 limit=1048577 limit=x limit= | limit
    current_step/witness | limit=1 nonsense=1 nonsense= =1 | query
    available_workflows | nonsense=1 | query
    workflow_details/bug-fix | nonsense=1 | query
    agent/reviewer | nonsense=1 | query
    executions | State=open nonsense=1 execution_id=witness | query
    telemetry | offset=1 | query
    artifact/witness/1 | Limit=1 | query
";

#[test]
fn an_address_that_names_nothing_is_not_found_in_the_protocols_own_words() {
    let mut witness = Witness::new();
    let below = NOT_FOUND.iter().flat_map(|(code, paths)| {
        let uri = move |path| (format!("midex://workflow/{path}"), *code);
        paths.split_whitespace().map(uri)
    });
    let elsewhere = "| |x|\0|midex:|midex://|midex://workflow|midex://workflow/|MIDEX://workflow/executions|\
        file:///etc/passwd|midex://knowledge/global| midex://workflow/executions|http://localhost/|../../etc/passwd";
    let elsewhere = elsewhere.split('|').map(|uri| (uri.to_owned(), "RESOURCE_NOT_FOUND"));
    for (uri, code) in below.chain(elsewhere) {
        let error = witness.read_error(&uri);
        fails_with(&error, -32002, code);
        let action = error["data"]["suggested_action"].as_str().unwrap();
        assert!(!action.is_empty() && !action.contains('{'), "{uri:?}: {action}");
    }
    witness.survives();
}

#[test]
fn a_query_that_is_wrong_is_refused_as_a_violation_that_says_what_may_stand_there() {
    let mut witness = Witness::new();
    for [path, queries, named] in table(BAD_QUERIES) {
        for query in queries.split(' ') {
            let uri = format!("midex://workflow/{path}?{query}");
            let error = witness.read_error(&uri);
            fails_with(&error, -32602, "ARGUMENTS_INVALID");
            says(&error["message"], &named);
            // The one right next call is to correct every violation and to call the same again.
            let data = &error["data"];
            assert_ne!(data["violations"], json!([]), "{uri}: {error}");
            assert!(data["violations"].is_array(), "{uri}: {error}");
            let action = "Call resources/read again: correct every violation";
            assert_eq!(data["suggested_action"], action, "{uri}");
        }
    }
    witness.survives();
}

#[test]
fn odd_spellings_of_what_there_is_are_read() {
    let mut witness = Witness::new();
    let plain = witness.current(WITNESS);
    for uri in ["current_step/%77itness", "current_step/witness?", "current_step/witness?&&"] {
        assert_eq!(witness.read(&format!("midex://workflow/{uri}")), plain, "{uri}");
    }
    let telemetry = witness.read("midex://workflow/telemetry?%6cimit=%31");
    assert_eq!(telemetry.as_array().unwrap().len(), 1);
    witness.survives();
}

fn complete(witness: &mut Witness, reference: Value, argument: Value, context: Value) -> Value {
    let mut params = json!({ "ref": reference, "argument": argument });
    if !context.is_null() {
        params["context"] = context;
    }
    witness.request("completion/complete", params)
}

fn template(path: &str) -> Value {
    json!({ "type": "ref/resource", "uri": format!("midex://workflow/{path}") })
}

#[test]
fn a_completion_of_what_there_is_not_is_refused() {
    let mut witness = Witness::new();
    let argument = json!({ "name": "execution_id", "value": "" });
    let uris =
        "nonsense/{x} | |current_step/witness|current_step/{id}|{|../current_step/{execution_id}";
    for uri in uris.split('|').map(str::trim) {
        let answer = complete(&mut witness, template(uri), argument.clone(), Value::Null);
        fails_with(&answer["error"], -32002, "RESOURCE_NOT_FOUND");
    }
    let prompt = json!({ "type": "ref/prompt", "name": "../x" });
    let answer = complete(&mut witness, prompt, argument, Value::Null);
    assert!(answer["error"]["code"].is_number(), "{answer}");
    witness.survives();
}

#[test]
fn a_completion_that_is_asked_for_wrongly_is_refused() {
    let mut witness = Witness::new();
    let reference = template("current_step/{execution_id}");
    let argument = json!({ "name": "execution_id", "value": "" });
    let references = [
        json!(null),
        json!(5),
        json!("x"),
        json!([]),
        json!({}),
        json!({ "type": 5 }),
        json!({ "type": "ref/resource" }),
        json!({ "type": "ref/prompt" }),
        json!({ "type": "ref/tool", "name": "workflow.start" }),
        json!({ "type": "ref/resource", "uri": 5 }),
    ];
    let arguments = [
        json!(null),
        json!(5),
        json!([]),
        json!({}),
        json!({ "name": "execution_id" }),
        json!({ "value": "" }),
        json!({ "name": 5, "value": "" }),
        json!({ "name": "execution_id", "value": 5 }),
    ];
    let contexts = [
        json!(5),
        json!("x"),
        json!({ "arguments": 5 }),
        json!({ "arguments": [] }),
        json!({ "arguments": { "execution_id": 5 } }),
    ];
    let references = references.map(|reference| (reference, argument.clone(), Value::Null));
    let arguments = arguments.map(|argument| (reference.clone(), argument, Value::Null));
    let contexts = contexts.map(|context| (reference.clone(), argument.clone(), context));
    for (reference, argument, context) in references.into_iter().chain(arguments).chain(contexts) {
        let asked = format!("{reference} {argument} {context}");
        let answer = complete(&mut witness, reference, argument, context);
        assert_eq!(answer["error"]["code"], -32602, "{asked}: {answer}");
    }
    witness.survives();
}

#[test]
fn a_completion_that_nothing_fits_is_empty() {
    let mut witness = Witness::new();
    let none = |answer: &Value| {
        let values = &answer["result"]["completion"]["values"];
        assert_eq!(values, &json!([]), "{answer}");
    };
    let current = template("current_step/{execution_id}");
    let long = "x".repeat(1 << 20);
    for (name, value) in [
        ("nonsense", ""),
        ("", ""),
        ("execution_id", "\0"),
        ("execution_id", "../"),
        ("execution_id", &long),
        (&long, ""),
    ] {
        none(&complete(
            &mut witness,
            current.clone(),
            json!({ "name": name, "value": value }),
            Value::Null,
        ));
    }
    let steps = template("workflow_artifacts/{execution_id}/{step_name}");
    let argument = json!({ "name": "step_name", "value": "" });
    for context in [
        json!(null),
        json!({}),
        json!({ "arguments": {} }),
        json!({ "arguments": { "execution_id": "" } }),
        json!({ "arguments": { "execution_id": "a\nb" } }),
        json!({ "arguments": { "nonsense": "x" } }),
    ] {
        none(&complete(&mut witness, steps.clone(), argument.clone(), context));
    }
    let nobody = json!({ "arguments": { "execution_id": "nobody" } });
    let answer = complete(&mut witness, steps.clone(), argument.clone(), nobody);
    answer.has_fields(json!({ "/error/data/error_code": "EXECUTION_NOT_FOUND" }));
    let given = json!({ "arguments": { "execution_id": WITNESS } });
    let answer = complete(&mut witness, steps, argument, given);
    answer.has_fields(json!({ "/result/completion/values": ["diagnose", "fix", "verify"] }));
    witness.survives();
}
