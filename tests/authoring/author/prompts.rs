//! Prompts: four for authors, one for each workflow, in both eras and through a relay.

use serde_json::{Value, json};

use super::{TRIAGE, clients, done, pairs, validated};
use midex_test::{
    Server, assert_has,
    project::{Project, each, list},
    reader::{ERAS, Reader},
};

/// The text of a prompt.
fn get(client: &mut Reader, name: &str, arguments: Value) -> String {
    let params = json!({ "name": name, "arguments": arguments });
    let messages = list(&client.result("prompts/get", params)["messages"]);
    assert_eq!((messages.len(), &messages[0]["role"]), (1, &json!("user")));
    messages[0]["content"]["text"].as_str().unwrap().to_owned()
}

fn names(client: &mut Reader) -> Vec<String> {
    each(&list(&client.result("prompts/list", json!({}))["prompts"]), "name")
}

/// The blocks of this language in a text.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    text.split(&*begin).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// Every prompt with arguments that do.
fn all() -> Vec<(String, Value)> {
    let wrong = TRIAGE.replace("guidance: Page", "guidnce: Page");
    pairs(json!([
        ["workflow.author", { "goal": "Sort bug reports", "constraints": "Ask before paging" }],
        ["workflow.extend", { "manifest": "triage", "change_request": "Ask for the version too" }],
        ["workflow.fix_validation", { "manifest": wrong }],
        ["workflow.run_with_inputs", { "manifest": TRIAGE, "partial_inputs": "{\"urgent\": true}" }],
        ["run.triage", { "urgent": "true" }],
    ]))
}

#[test]
fn every_prompt_is_listed_and_got_and_names_nothing_that_takes_away() {
    let project = Project::new(&[("workflows/triage.yaml", TRIAGE)]);
    for mut client in clients(&project) {
        let listed = names(&mut client);
        for (name, arguments) in all() {
            assert!(listed.contains(&name), "{name}: {listed:?}");
            let text = get(&mut client, &name, arguments);
            assert!(text.len() <= 12_000, "{name}: {} bytes", text.len());
            for gone in ["delete", "purge", "cancel"] {
                assert!(!text.contains(gone), "{name}: {text}");
            }
        }
        let run = list(&client.result("prompts/list", json!({}))["prompts"]);
        let run = run.iter().find(|prompt| prompt["name"] == "run.triage").unwrap();
        let arguments: Vec<_> = list(&run["arguments"])
            .iter()
            .map(|one| (one["name"].clone(), one["required"].clone()))
            .collect();
        assert_eq!(arguments, [(json!("report"), json!(true)), (json!("urgent"), json!(false))]);
    }
}

#[test]
fn every_example_of_the_author_s_prompt_is_sound_and_every_kind_has_one() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let text =
        get(&mut client, "workflow.author", json!({ "goal": "x", "target_system": "```\nshell" }));
    let examples = blocks(&text, "yaml");
    for kind in [
        "agent", "guidance", "tool", "input", "extract", "branch", "foreach", "gate", "wait",
        "set", "fail",
    ] {
        assert!(text.contains(&format!("`{kind}`")), "{kind}");
    }
    assert!(examples.len() >= 11, "{}", examples.len());
    for example in examples {
        // Whose activities there are depends on the program.
        if !example.contains("activity:") {
            let checked = validated(&mut client, &example);
            assert_eq!(checked["valid"], true, "{example}\n{checked}");
        }
    }
    assert!(text.contains("````text\n```\nshell\n````"), "data cannot close its block: {text}");
    assert!(text.contains("reviewer"), "agents at hand");
}

#[test]
fn violations_come_with_their_lines_and_inputs_with_what_is_missing() {
    let project = Project::new(&[("workflows/triage.yaml", TRIAGE)]);
    let mut client = Reader::new(&project, ERAS[1], "other", &[]);
    let wrong = TRIAGE.replace("guidance: Page", "guidnce: Page");
    let text = get(&mut client, "workflow.fix_validation", json!({ "manifest": wrong }));
    let told = blocks(&text, "json").concat();
    for part in ["\"excerpt\":\"    guidnce: Page somebody.\"", "\"new_text\":\"guidance\""] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let text = get(&mut client, "run.triage", json!({ "urgent": "true" }));
    assert_has(&text, &["{\"urgent\":true}", "\"input\":\"report\""]);
    let text = get(&mut client, "run.triage", json!({ "report": "It broke" }));
    assert!(!text.contains("\"input\":\"report\"") && text.contains("workflow.start"), "{text}");
}

#[test]
fn names_are_spelled_as_the_client_can_take_them_and_toolsets_hold() {
    let project = Project::new(&[("workflows/triage.yaml", TRIAGE)]);
    for era in ERAS {
        let mut client = Reader::new(&project, era, "claude-ai", &[]);
        let listed = names(&mut client);
        assert!(listed.iter().all(|name| !name.contains('.')), "{listed:?}");
        assert!(listed.contains(&"run_triage".to_owned()), "{listed:?}");
        for name in ["workflow_author", "workflow.author"] {
            let text = get(&mut client, name, json!({ "goal": "x" }));
            assert!(
                text.contains("workflow_validate") && !text.contains("workflow.validate"),
                "{text}"
            );
        }
        get(&mut client, "run_triage", json!({}));
    }
    let mut client = Reader::new(&project, ERAS[0], "other", &["--toolsets", "run"]);
    assert!(names(&mut client).iter().all(|name| name.starts_with("run.")));
    let mut client = Reader::new(&project, ERAS[0], "other", &["--toolsets", "author"]);
    assert_eq!(names(&mut client).len(), 4);
}

#[test]
fn what_is_missing_or_unknown_is_told_and_arguments_are_completed() {
    let project = Project::new(&[(
        "workflows/triage.yaml",
        &TRIAGE.replace("type: string,", "type: string, enum: [crash, slow],"),
    )]);
    for mut client in clients(&project) {
        for (name, arguments, code, number) in [
            ("workflow.autor", json!({}), "PROMPT_NOT_FOUND", -32602),
            ("run.nothing", json!({}), "PROMPT_NOT_FOUND", -32602),
            ("workflow.author", json!({ "goal": "  " }), "ARGUMENTS_INVALID", -32602),
            ("workflow.author", json!({ "goal": "x", "gaol": "y" }), "ARGUMENTS_INVALID", -32602),
            (
                "workflow.run_with_inputs",
                json!({ "manifest": "triage", "partial_inputs": "[1]" }),
                "ARGUMENTS_INVALID",
                -32602,
            ),
        ] {
            let error =
                client.error("prompts/get", json!({ "name": name, "arguments": arguments }));
            assert_eq!(error["data"]["error_code"], json!(code), "{error}");
            assert_eq!(error["code"], json!(number), "{error}");
        }
        let mut complete = |name: &str, argument: &str, begun: &str| {
            let params = json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": argument, "value": begun } });
            list(&client.result("completion/complete", params)["completion"]["values"])
        };
        assert_eq!(complete("workflow.extend", "manifest", "tri"), [json!("triage")]);
        assert_eq!(complete("run.triage", "report", "s"), [json!("slow")]);
        assert_eq!(complete("workflow.author", "goal", ""), Vec::<Value>::new());
    }
}

#[test]
fn a_save_is_told_to_those_who_listen_and_shows_in_the_list_at_once() {
    let project = Project::new(&[]);
    for (at, client) in clients(&project).iter_mut().enumerate() {
        let id = format!("w{at}");
        done(
            client,
            "workflow.save",
            json!({ "manifest": TRIAGE.replace(": triage", &format!(": {id}")) }),
        );
        assert!(names(client).contains(&format!("run.{id}")));
    }
    // What is told may come before the answer of the call.
    let told = |server: &mut Server, methods: &[&str]| {
        let mut methods = methods.to_vec();
        while !methods.is_empty() {
            let line = server.next_line();
            methods.retain(|method| line["method"] != *method);
        }
    };
    let call = |server: &mut Server, tool: &str, arguments: Value| {
        server.post("tools/call", json!({ "name": tool, "arguments": arguments }));
    };
    let changed = ["notifications/resources/list_changed", "notifications/prompts/list_changed"];
    let mut session = project.serve();
    call(&mut session, "workflow.save", json!({ "manifest": TRIAGE }));
    told(&mut session, &changed);
    let mut stateless = Server::run(project.command(&["serve"]));
    stateless.post(
        "subscriptions/listen",
        json!({
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
            },
            "notifications": { "resourcesListChanged": true, "promptsListChanged": true }
        }),
    );
    told(&mut stateless, &["notifications/subscriptions/acknowledged"]);
    let gone = json!({ "workflow_id": "triage", "confirm": true });
    call(&mut session, "workflow.delete", gone);
    told(&mut stateless, &changed);
    told(&mut session, &changed);
}
