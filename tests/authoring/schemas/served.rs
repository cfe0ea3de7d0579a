//! Schemas of files, and what outputs are held to, from outside.

use std::{path::Path, process::Command};

use midex_domain::{finding::Finding, limits};
use midex_registry::{Registry, Sources, check_text};

use super::{worst::*, *};
use midex_test::{Client, Server};

/// A server with two threads for all clients, and a directory of workflows.
fn server(home: &Path, workflows: &[(&str, Value)]) -> Server {
    let place = home.join("workflows");
    std::fs::create_dir_all(&place).unwrap();
    for (name, result) in workflows {
        let step = json!({ "id": "a", "guidance": "do it", "result": result });
        let manifest = json!({ "workflow": name, "description": "d", "steps": [step] });
        std::fs::write(place.join(format!("{name}.json")), manifest.to_string()).unwrap();
    }
    let mut command = Command::new(midex_test::binary());
    command
        .arg("serve")
        .arg("--data-dir")
        .arg(home.join("data"))
        .arg("--workflows")
        .arg(place)
        .env("TOKIO_WORKER_THREADS", "2");
    let mut server = Server::run(command);
    server.shake_hands();
    server
}

fn begun(server: &mut Server, workflow: &str) -> String {
    let begun = server.done("workflow.start", json!({ "workflow_name": workflow }));
    begun["new_token"].as_str().unwrap().to_owned()
}

/// Each of so many numbers is held to 400 schemas: more than the budget of a call.
fn heavy() -> (Value, Value) {
    let all = vec![json!({ "type": "number" }); 400];
    (json!({ "items": { "allOf": all } }), (0..30_000).collect())
}

fn finish(server: &mut Server, token: &str, output: &Value) -> u64 {
    let arguments = json!({ "token": token, "output": output });
    let params = json!({ "name": "workflow.next_step", "arguments": arguments });
    server.post("tools/call", params)
}

#[test]
fn two_outputs_that_take_long_hold_up_nobody_and_end_with_their_budget() {
    let home = tempfile::tempdir().unwrap();
    let (schema, output) = heavy();
    let contact = json!({ "properties": { "to": { "format": "email" } } });
    let server = &mut server(home.path(), &[("heavy", schema), ("contact", contact)]);
    let tokens = [begun(server, "heavy"), begun(server, "heavy")];
    let long = tokens.map(|token| finish(server, &token, &output));
    let token = begun(server, "contact");
    // Its answer was the next line, so it came before those of the two.
    let mut replies = [server.next_line(), server.next_line()];
    replies.sort_by_key(|reply| reply["id"].as_u64());
    for (reply, id) in replies.iter().zip(long) {
        assert_eq!(reply["id"], id, "{reply}");
        let refused = &reply["result"]["structuredContent"];
        assert_eq!(refused["error_code"], "LIMIT_EXCEEDED", "{refused}");
        assert_eq!(refused["step_id"], "a");
        assert_eq!(refused["violations"][0]["rule"], BUDGET_RULE);
        let words = refused.to_string();
        assert!(words.contains(&limits::SCHEMA_STEPS_MAX.to_string()), "{words}");
        // It counts as any other output that is refused.
        assert!(words.contains("malformed output 1 of"), "{words}");
    }
    let refused = server.refuse(&token, json!({ "to": "nobody" }));
    assert_eq!(refused["violations"][0]["rule"], "format", "{refused}");
    server.hand_in(&token, json!({ "to": "a@example.com" }));
}

#[test]
fn a_server_ends_while_outputs_are_looked_at() {
    let home = tempfile::tempdir().unwrap();
    let (schema, output) = heavy();
    let mut server = server(home.path(), &[("heavy", schema)]);
    let tokens = [begun(&mut server, "heavy"), begun(&mut server, "heavy")];
    for token in tokens {
        finish(&mut server, &token, &output);
    }
    server.terminate();
    assert!(server.wait().success());
}

fn findings(result: &Value, example: Option<&Value>) -> Vec<Finding> {
    let mut step = json!({ "id": "a", "guidance": "do it", "result": result });
    if let Some(example) = example {
        step["example"] = example.clone();
    }
    let manifest = json!({ "workflow": "w", "description": "d", "steps": [step] });
    check(&manifest.to_string())
}

fn check(text: &str) -> Vec<Finding> {
    let registry = Registry::load(&Sources::default());
    check_text("w.yaml", text, &registry).1
}

fn rules(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rule.as_str()).collect()
}

#[test]
fn an_option_that_was_meant_is_named_to_the_model_and_to_the_author() {
    let home = tempfile::tempdir().unwrap();
    let rating = json!({ "properties": { "tone": { "enum": ["friendly", "formal"] } } });
    let mut server = server(home.path(), &[("rate", rating.clone())]);
    let token = begun(&mut server, "rate");
    let wrong = json!({ "tone": "freindly" });
    let refused = server.refuse(&token, &wrong);
    let violation = &refused["violations"][0];
    assert_eq!(violation["suggestion"]["text"], "did you mean `friendly`?");
    assert_eq!(violation["expected"], r#"["friendly","formal"]"#);
    let found = findings(&rating, Some(&wrong));
    assert_eq!(rules(&found), ["example_mismatch"]);
    let meant = found[0].suggestion.as_deref();
    assert_eq!(meant, Some("did you mean `friendly`?"));
}

#[test]
fn examples_are_looked_at_within_a_budget_that_grows_with_the_file() {
    let wrong = nested(9, json!("wrong"));
    let found = findings(&expressions("anyOf"), Some(&wrong));
    assert_eq!(rules(&found), ["example_mismatch"], "{found:?}");
    let (schema, _) = heavy();
    let numbers: Value = (0..3000).collect();
    let found = findings(&schema, Some(&numbers));
    assert_eq!(rules(&found), ["limit_exceeded"], "{found:?}");
    assert_eq!(found[0].path, "steps[0].example");
    // A doubling chain costs no more than it has levels.
    let level = |at: usize| {
        let next = json!({ "$ref": format!("#/$defs/{}", at + 1) });
        (at.to_string(), json!({ "allOf": [next, next] }))
    };
    let last = ("20".to_owned(), json!({ "type": "string" }));
    let levels: Map<_, _> = (0..20).map(level).chain([last]).collect();
    let chain = json!({ "propertyNames": { "$ref": "#/$defs/0" }, "$defs": levels });
    assert_eq!(findings(&chain, Some(&json!({ "a": 1 }))), []);
}

/// 3,000 properties with a pattern: what is past the limit is not even compiled.
#[test]
fn the_patterns_of_a_definition_are_bounded_in_number_and_in_memory() {
    let property = |at: usize| {
        let pattern = format!("^(\\w{{20}}|x{at})$");
        (format!("p{at}"), json!({ "type": "string", "pattern": pattern }))
    };
    let properties: Map<_, _> = (0..3000).map(property).collect();
    let found = findings(&json!({ "properties": properties }), None);
    assert_eq!(rules(&found), ["limit_exceeded"]);
    assert_eq!(found[0].path, "steps[0].result.properties.p200.pattern");
    let wide = |at: usize| {
        let pattern = format!("^(\\p{{L}}{{2,4}}|x{at})$");
        (format!("p{at}"), json!({ "pattern": pattern }))
    };
    let properties: Map<_, _> = (0..150).map(wide).collect();
    let found = findings(&json!({ "properties": properties }), None);
    assert_eq!(rules(&found), ["limit_exceeded"]);
    assert!(found[0].message.contains("compiled"), "{found:?}");
    let found = findings(&json!({ "pattern": "((a{100}){100}){100}" }), None);
    assert_eq!(rules(&found), ["invalid_pattern"]);
    // What is too large, and what is folded, counts as what it costs to find that out.
    for costly in ["\\p{L}{2000}".to_owned(), format!("(?i)[{}]", "\\p{L}".repeat(190))] {
        let property =
            |at: usize| (format!("p{at}"), json!({ "pattern": format!("{costly}{at}") }));
        let properties: Map<_, _> = (0..100).map(property).collect();
        let found = findings(&json!({ "properties": properties }), None);
        let last = found.last().unwrap();
        assert!(found.len() <= 5 && last.rule.as_str() == "limit_exceeded", "{found:?}");
    }
}

fn edited(text: &str, findings: &[Finding]) -> String {
    let mut edits: Vec<_> = findings.iter().flat_map(|finding| &finding.edits).collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.start));
    let mut text = text.to_owned();
    for edit in edits {
        text.replace_range(edit.start..edit.end, &edit.new_text);
    }
    text
}

/// Each file with the rules that it breaks; its edits, where there are any, lead to the one beside it.
#[test]
fn slips_in_schemas_are_findings_whose_edits_lead_to_what_was_meant() {
    let head = "workflow: w\ndescription: d\nsteps:\n  - id: a\n    guidance: g\n";
    for (wrong, rule, meant) in [
        (
            "    result: {approved: boolean, why: string}\n",
            "bare_properties",
            "    result: {type: object, properties: {approved: {type: boolean}, why: {type: string}}}\n",
        ),
        (
            "    result:\n      approved: boolean\n      why: string\n",
            "bare_properties",
            "    result:\n      type: object\n      properties:\n        approved: {type: boolean}\n        why: {type: string}\n",
        ),
        (
            "    result: {type: object, require: [a]}\n",
            "unknown_keyword",
            "    result: {type: object, required: [a]}\n",
        ),
        (
            "    result:\n      properties:\n        n: {type: integer, minimun: 1}\n",
            "unknown_keyword",
            "    result:\n      properties:\n        n: {type: integer, minimum: 1}\n",
        ),
        (
            "    result: {properties: {n: {type: int}}}\n",
            "invalid_schema",
            "    result: {properties: {n: {type: integer}}}\n",
        ),
        (
            "    result: {items: string}\n",
            "invalid_schema",
            "    result: {items: {type: string}}\n",
        ),
        ("    result: {format: datetime}\n", "invalid_schema", "    result: {format: date-time}\n"),
    ] {
        let text = format!("{head}{wrong}");
        let found = check(&text);
        assert_eq!(rules(&found), [rule], "{wrong}");
        assert_eq!(edited(&text, &found), format!("{head}{meant}"), "{found:?}");
        assert_eq!(check(&format!("{head}{meant}")), [], "{meant}");
    }
    let sound = "    result: {x-of: us, properties: {a: {x-b: 1, default: {minimun: 1}, enum: [{typo: 1}]}}}\n";
    assert_eq!(check(&format!("{head}{sound}")), []);
}
