//! Arguments that break a tool's schema, derived from the schemas that the server lists.

use midex_domain::limits;
use serde_json::{Map, Value, json};

use midex_test::{
    Client, Fields, fails_with, output, says,
    witness::{WITNESS, Witness},
};

/// A value that breaks a schema, where it does so, and which rule it breaks.
type Broken = (Value, String, &'static str);

/// One of each type of JSON.
fn samples() -> [Value; 8] {
    [
        json!(null),
        json!(true),
        json!(7),
        json!(1.5),
        json!("x"),
        json!(["x"]),
        json!([]),
        json!({ "x": 1 }),
    ]
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("a schema has the type {other}"),
    }
}

/// Every way to break `schema` at `path`. A schema that asks for nothing cannot be broken.
fn breaks(schema: &Value, path: &str) -> Vec<Broken> {
    let mut broken = wrong_types(schema, path);
    broken.extend(past_limits(schema, path));
    broken.extend(past_lengths(path));
    if let Some(items) = schema.get("items") {
        let item = |(value, path, rule)| (json!([value]), path, rule);
        broken.extend(breaks(items, &format!("{path}/0")).into_iter().map(item));
    }
    if schema["properties"].is_object() {
        let required = schema["required"].as_array().into_iter().flatten();
        let base = required.map(|name| (name.as_str().unwrap().to_owned(), json!("x")));
        broken.extend(breaks_of_object(schema, path, &base.collect()));
    }
    broken
}

fn wrong_types(schema: &Value, path: &str) -> Vec<Broken> {
    let wrong = |rule| move |value: Value| (value, path.to_owned(), rule);
    if let Some(known) = schema["enum"].as_array() {
        let none = samples().into_iter().filter(|value| !known.contains(value));
        return none.map(wrong("enum")).collect();
    }
    let Some(kind) = schema["type"].as_str() else {
        return Vec::new();
    };
    // Listed as objects, for hosts that want a type, these take any JSON.
    if ["/output", "/payload", "/body"].contains(&path) {
        return Vec::new();
    }
    // Listed without their choices.
    if ["/format", "/source_type"].contains(&path) {
        return samples().into_iter().map(wrong("enum")).collect();
    }
    // A definition may come as an object too.
    let is_taken = |value: &Value| path == "/manifest" && value.is_object();
    let others = samples().into_iter().filter(|value| !is_of(kind, value) && !is_taken(value));
    others.map(wrong("type")).collect()
}

fn past_limits(schema: &Value, path: &str) -> Vec<Broken> {
    let number = |rule: &str| schema[rule].as_i64();
    let length = |rule: &str| schema[rule].as_u64().map(|most| usize::try_from(most).unwrap());
    let broken = [
        (length("minLength").map(|_| json!("")), "minLength"),
        (length("maxLength").map(|most| json!("x".repeat(most + 1))), "maxLength"),
        (length("maxItems").map(|most| json!(vec!["x"; most + 1])), "maxItems"),
        (number("minimum").map(|least| json!(least - 1)), "minimum"),
        (number("maximum").map(|most| json!(most + 1)), "maximum"),
    ];
    let given =
        broken.into_iter().filter_map(|(value, rule)| Some((value?, path.to_owned(), rule)));
    given.collect()
}

/// How long a text may be is not listed, and counts all the same.
fn past_lengths(path: &str) -> Vec<Broken> {
    let names = "workflow_name execution_id project signal reason step_name message cursor";
    let name = path.trim_start_matches('/');
    let mut broken = Vec::new();
    if names.split(' ').any(|known| known == name) {
        let long = json!("x".repeat(20_000));
        broken.push((long, path.to_owned(), "maxLength"));
        if name != "cursor" {
            broken.push((json!(""), path.to_owned(), "minLength"));
        }
    }
    if name == "known_agents" {
        broken.push((json!(vec!["x"; 5_000]), path.to_owned(), "maxItems"));
    }
    broken
}

/// Every way to break an object, each in one place: `base` is one that satisfies the schema.
fn breaks_of_object(schema: &Value, path: &str, base: &Map<String, Value>) -> Vec<Broken> {
    let with = |name: &str, value: Value| {
        let mut object = base.clone();
        object.insert(name.into(), value);
        Value::Object(object)
    };
    let mut broken = vec![(with("unexpected", json!(1)), path.to_owned(), "additionalProperties")];
    for name in schema["required"].as_array().into_iter().flatten() {
        let mut object = base.clone();
        object.remove(name.as_str().unwrap());
        broken.push((Value::Object(object), path.to_owned(), "required"));
    }
    for (name, schema) in schema["properties"].as_object().unwrap() {
        // Listed narrow for strict hosts, and accepted wide.
        if path.is_empty() && name == "output" {
            continue;
        }
        let of_property = breaks(schema, &format!("{path}/{name}"));
        broken.extend(
            of_property.into_iter().map(|(value, path, rule)| (with(name, value), path, rule)),
        );
    }
    broken
}

/// Arguments that would do something to the witness, if anything did.
fn harmful(tool: &str, token: &Value) -> Map<String, Value> {
    let arguments = match tool {
        "workflow.start" => json!({ "workflow_name": "bug-fix", "execution_id": "started" }),
        "workflow.next_step" => json!({ "token": token, "output": output("done") }),
        "workflow.read" => json!({ "uri": "midex://workflow/limits" }),
        "execution.list" => json!({ "project": "*" }),
        "execution.wait" => json!({ "execution_id": WITNESS, "timeout_s": 0 }),
        "execution.signal" => json!({ "execution_id": WITNESS, "signal": "x" }),
        "execution.resolve" => {
            json!({ "execution_id": WITNESS, "step_name": "x", "verdict": "retry" })
        }
        "execution.retry" | "execution.fork" | "execution.delete" => {
            json!({ "execution_id": WITNESS })
        }
        "execution.diff" => json!({ "a": WITNESS, "b": WITNESS }),
        "execution.rewind" => json!({ "execution_id": WITNESS, "to_step": "x" }),
        "workflow.list" | "command.list" | "provider.list" | "catalog.list" => json!({}),
        "catalog.set_class" => json!({ "catalog_id": "x", "id": "x", "class": "safe" }),
        "catalog.set_base_url" => json!({ "catalog_id": "x", "base_url": "https://x" }),
        "catalog.set_headers" => json!({ "catalog_id": "x", "headers": {} }),
        "catalog.set_enabled" => json!({ "catalog_id": "x", "enabled": true }),
        "catalog.refresh" | "catalog.remove" => json!({ "catalog_id": "x" }),
        "catalog.validate_openapi" => json!({ "source": "x" }),
        _ if tool.starts_with("catalog.") => json!({ "source": "x", "catalog_title": "x" }),
        _ if tool.starts_with("command.") => json!({ "id": "x y" }),
        "workflow.save" => json!({ "manifest": "workflow: w" }),
        "workflow.rename" => json!({ "workflow_id": "bug-fix", "new_id": "w" }),
        "workflow.cancel" => json!({ "operation_id": WITNESS }),
        _ if tool.starts_with("workflow.") => json!({ "workflow_id": "bug-fix" }),
        _ => json!({ "execution_id": WITNESS, "reason": "x" }),
    };
    arguments.as_object().unwrap().clone()
}

fn tools(witness: &mut Witness) -> Vec<Value> {
    let listed = witness.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    assert!(tools.len() >= 9, "{listed}");
    tools
}

/// A text that may stand twice in a reply.
fn is_short(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() <= limits::REPEATED_BYTES_MAX)
}

/// The call with the arguments that were meant, where the refusal knows them.
fn next_call(name: &str, refused: &Value) -> String {
    let Some(meant) = refused["context"]["arguments"].as_object() else {
        return format!("Call {name} again: correct every violation");
    };
    assert!(meant.values().all(is_short), "{refused}");
    let meant = meant.iter().map(|(name, value)| format!("{name} '{}'", value.as_str().unwrap()));
    let meant: Vec<_> = meant.collect();
    let with = if meant.is_empty() { "" } else { " with " };
    let meant = meant.join(" and ");
    format!("Call {name}{with}{meant}: if that is the one meant")
}

#[test]
fn every_wrong_argument_of_every_tool_is_refused_with_its_place() {
    let mut witness = Witness::new();
    for tool in tools(&mut witness) {
        let name = tool["name"].as_str().unwrap();
        let base = harmful(name, &witness.token);
        let all = breaks_of_object(&tool["inputSchema"], "", &base);
        let takes_any = tool["inputSchema"]["properties"] != json!({});
        assert!(all.len() > 7 || !takes_any, "{name}");
        for (arguments, path, rule) in all {
            let refused = witness.refused(name, arguments.clone());
            let shown = arguments.to_string().chars().take(200).collect::<String>();
            assert_eq!(
                (&refused["error_code"], &refused["retryable"], &refused["success"]),
                (&json!("ARGUMENTS_INVALID"), &json!(false), &json!(false)),
                "{name} {shown}: {refused}"
            );
            let [violation] = refused["violations"].as_array().unwrap().as_slice() else {
                panic!("{name} {shown}: {refused}")
            };
            assert_eq!(
                (&violation["path"], &violation["rule"]),
                (&json!(path), &json!(rule)),
                "{name} {shown}: {violation}"
            );
            if rule == "additionalProperties" {
                says(&violation["message"], "unexpected");
            }
            assert_eq!(refused["suggested_action"], next_call(name, &refused));
            let mended = &refused["context"]["arguments"];
            let is_left_out = rule == "additionalProperties" && path.is_empty();
            if is_left_out && base.values().all(is_short) {
                assert_eq!(mended, &json!(base), "{name} {shown}");
            }
        }
    }
    let listed = witness.done("execution.list", json!({ "project": "*" }));
    assert_eq!(listed["executions"].as_array().unwrap().len(), 1, "nothing was started: {listed}");
    witness.survives();
}

#[test]
fn arguments_that_are_no_object_are_refused() {
    let mut witness = Witness::new();
    for arguments in ["1", "true", "\"x\"", "[]", r#"[{"workflow_name":"bug-fix"}]"#] {
        let params = format!(r#"{{"name":"workflow.start","arguments":{arguments}}}"#);
        let answer = witness.ask(&format!(r#""method":"tools/call","params":{params}"#));
        assert_eq!(answer["error"]["code"], -32602, "{arguments}: {answer}");
    }
    let none =
        witness.request("tools/call", json!({ "name": "workflow.start", "arguments": null }));
    let refused = &none["result"]["structuredContent"];
    assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{none}");
    assert_eq!(refused["violations"][0]["rule"], "required");
    witness.survives();
}

#[test]
fn a_tool_that_there_is_not_is_not_found_whatever_its_name() {
    let mut witness = Witness::new();
    let long = "x".repeat(1 << 20);
    let names = [
        "",
        " ",
        "workflow",
        "workflow.",
        "workflow.begin",
        "WORKFLOW.START",
        "workflow.start\0",
        "workflow..start",
        "workflow-start",
        "../workflow.start",
        "\u{202e}trats",
        "%77orkflow.start",
        &long,
    ];
    for name in names {
        let call = json!({ "name": name, "arguments": { "execution_id": WITNESS } });
        let answer = witness.request("tools/call", call);
        fails_with(&answer["error"], -32602, "TOOL_NOT_FOUND");
        answer.is_below(2350);
    }
    witness.survives();
}

/// What the schema lets pass as an id, and what is none.
const NO_IDS: [&str; 8] = [" a", "a ", "a\nb", "a\0b", "\u{7f}", "a\u{85}b", "\u{a0}a", "\u{2028}"];

#[test]
fn an_id_that_cannot_be_one_is_refused_by_every_tool_with_a_reason() {
    let mut witness = Witness::new();
    let too_long = "é".repeat(101);
    for tool in tools(&mut witness) {
        let name = tool["name"].as_str().unwrap();
        if tool["inputSchema"]["properties"]["execution_id"].is_null() {
            continue;
        }
        for id in NO_IDS.into_iter().chain([too_long.as_str()]) {
            let mut arguments = harmful(name, &witness.token);
            arguments.insert("execution_id".into(), json!(id));
            let refused = witness.refused(name, Value::Object(arguments));
            assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{name} {id:?}: {refused}");
            let violation = &refused["violations"][0];
            assert_eq!(violation["path"], "/execution_id", "{name} {id:?}: {refused}");
            assert!(!violation["message"].as_str().unwrap().is_empty());
            let action = format!("Call {name} again: correct every violation");
            assert_eq!(refused["suggested_action"], action);
        }
    }
    witness.survives();
}

#[test]
fn a_cursor_that_no_page_gave_is_refused_with_its_place() {
    let mut witness = Witness::new();
    for cursor in ["", "x", "-1", "1.5", "99999999999999999999", "../1", "\0"] {
        let refused = witness.refused("execution.list", json!({ "cursor": cursor }));
        assert_eq!(
            (&refused["error_code"], &refused["violations"][0]["path"]),
            (&json!("ARGUMENTS_INVALID"), &json!("/cursor")),
            "{cursor:?}: {refused}"
        );
    }
    witness.survives();
}

#[test]
fn a_workflow_name_that_cannot_be_one_is_refused_with_its_place() {
    let mut witness = Witness::new();
    for name in ["a\nb", " a", "\0", &"é".repeat(101)] {
        let refused = witness.refused("execution.list", json!({ "workflow_name": name }));
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{name:?}: {refused}");
        assert_eq!(refused["violations"][0]["path"], "/workflow_name", "{name:?}: {refused}");
        assert_eq!(
            refused["suggested_action"], "Call execution.list again: correct every violation",
            "{name:?}"
        );
    }
    witness.survives();
}

/// What cannot be a token. The witness's own, changed, is not among them: other tests do that.
#[test]
fn a_token_that_cannot_be_one_is_refused_and_nothing_moves() {
    let mut witness = Witness::new();
    let live = witness.token.as_str().unwrap().to_owned();
    let long = "A".repeat(1 << 20);
    let tokens = [
        "x".to_owned(),
        " ".to_owned(),
        "ключ".to_owned(),
        "=".to_owned(),
        "\0".to_owned(),
        "eyJ9".to_owned(),
        "bnVsbA".to_owned(),
        "W10".to_owned(),
        "../../etc/passwd".to_owned(),
        "{}".to_owned(),
        format!("{live}="),
        format!("{live}{live}"),
        live.to_uppercase(),
        long,
    ];
    for token in tokens {
        let refused = witness.refuse(&token, output("x"));
        let shown: String = token.chars().take(80).collect();
        assert_eq!(refused["error_code"], "TOKEN_MALFORMED", "{shown:?}: {refused}");
        assert_eq!(
            (&refused["execution_id"], &refused["workflow_state"]),
            (&json!(""), &json!("failed")),
            "which execution is meant is not known"
        );
        refused.is_below(4000);
    }
    witness.survives();
}
