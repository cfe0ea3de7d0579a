//! What an orchestrator refuses, its utility tools, and the tools and nodes of a program that work with it.

use std::time::Duration;

use midex::{
    ListRequest,
    activity::{Activities, Node, OperationFailure, Outcome, node},
    orchestrator::{WorkflowStateData, WorkflowTool},
    workflow::{Step, Workflow},
};
use midex_domain::limits;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    line_client::LineClient,
    orchestrator::{TOOL, answer, led, program, prompt, read, start, text_result},
    sessions::Program,
};

fn one_step() -> Program {
    program([Step::guidance("Do it.").id("a").result(text_result())])
}

#[tokio::test]
async fn a_state_may_be_a_text_or_have_further_keys() {
    let program = one_step();
    let first = start(&program, json!({})).await;
    let state = &first["workflowStateData"];
    let mut extended = state.clone();
    extended["note"] = json!("mine");
    let text = json!(format!(" {state} "));
    for sent in [&text, &extended] {
        assert_eq!(read(&program, sent).await, first);
    }
    for nothing in [json!(null), json!(""), json!({ "thread_id": "" })] {
        let started = read(&program, &nothing).await;
        assert_ne!(started["execution_id"], first["execution_id"], "{nothing}");
    }
    let ended = program
        .done(TOOL, json!({ "userInput": { "text": "x" }, "workflowStateData": text }))
        .await;
    assert_eq!(ended["status"], "completed");
}

#[tokio::test]
async fn a_damaged_or_unknown_state_is_refused_and_starts_nothing() {
    let other = Workflow::new("other")
        .description("Is another one.")
        .step(Step::guidance("Do the other thing.").id("a").result(text_result()))
        .set("expose", json!({ "orchestrator": { "tool_id": "lead-other" } }));
    let workflow = led([Step::guidance("Do it.").id("a").result(text_result())]);
    let program = Program::with_activities(vec![workflow, other], Activities::default());
    let one = start(&program, json!({})).await;
    let two = program.done("lead-other", json!({})).await;
    let [one_state, two_state] = [&one, &two].map(|first| &first["workflowStateData"]);
    let cut = json!(one_state.to_string()[..40]);
    let mixed = json!({ "thread_id": one_state["thread_id"], "token": two_state["token"] });
    let start_advice = "Call lead with workflowStateData exactly as the last prompt gave it; without it, a new thread starts";
    for (state, code, advice) in [
        (cut, "ARGUMENTS_INVALID", start_advice),
        (json!(7), "ARGUMENTS_INVALID", start_advice),
        (json!({ "token": one_state["token"] }), "ARGUMENTS_INVALID", start_advice),
        (
            json!({ "thread_id": "", "token": one_state["token"] }),
            "ARGUMENTS_INVALID",
            start_advice,
        ),
        (json!({ "thread_id": "two\nlines" }), "ARGUMENTS_INVALID", start_advice),
        (json!({ "thread_id": "nobody" }), "EXECUTION_NOT_FOUND", start_advice),
        (two_state.clone(), "ARGUMENTS_INVALID", "Call lead-other with this session"),
        (mixed, "ARGUMENTS_INVALID", "alone in workflowStateData"),
        (
            json!({ "thread_id": one_state["thread_id"], "token": "garbage" }),
            "TOKEN_MALFORMED",
            "alone in workflowStateData",
        ),
        (
            json!({ "thread_id": one_state["thread_id"] }),
            "ARGUMENTS_INVALID",
            "alone in workflowStateData",
        ),
    ] {
        let arguments = json!({ "userInput": { "text": "x" }, "workflowStateData": state });
        let refused = program.refused(TOOL, arguments).await;
        assert_eq!(refused["error_code"], code, "{state}: {refused}");
        assert!(
            refused["suggested_action"].as_str().unwrap().contains(advice),
            "{state}: {refused}"
        );
    }
    let executions = program.app.list(ListRequest::default()).await.unwrap().executions;
    assert_eq!(executions.len(), 2, "no call started a thread");
    // Both threads are where they were.
    assert_eq!(read(&program, one_state).await, one);
    // A reader does not need the token, and one of another step or thread changes nothing.
    assert_eq!(read(&program, &json!({ "thread_id": one_state["thread_id"] })).await, one);
    // The thread was deleted.
    answer(&program, &one, json!({ "text": "x" })).await;
    let id = midex::ExecutionId::parse(one["execution_id"].as_str().unwrap()).unwrap();
    program.app.delete(&id).await.unwrap();
    let refused = program.refused(TOOL, json!({ "workflowStateData": one_state })).await;
    assert_eq!(refused["error_code"], "EXECUTION_DELETED");
    assert_eq!(
        refused["suggested_action"],
        "Call lead without workflowStateData, which starts a new thread: this one is gone"
    );
    // Neither is an argument that there is not, nor both kinds of report at once.
    for arguments in [
        json!({ "input": {} }),
        json!({ "userInput": 1, "error": { "message": "x" } }),
        json!({ "error": { "message": "x" } }),
    ] {
        let refused = program.refused(TOOL, arguments).await;
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{refused}");
    }
}

/// Some clients send null for every argument that they leave out.
#[tokio::test]
async fn an_argument_that_is_null_is_left_out() {
    let program = one_step();
    let nothing = json!({ "userInput": null, "workflowStateData": null, "error": null });
    let first = program.done(TOOL, nothing).await;
    let state = &first["workflowStateData"];
    let read = json!({ "userInput": null, "workflowStateData": state, "error": null });
    assert_eq!(program.done(TOOL, read).await, first);
    let error =
        json!({ "userInput": null, "workflowStateData": state, "error": { "message": "no" } });
    assert_eq!(program.done(TOOL, error).await["status"], "failed");
}

#[tokio::test]
async fn a_result_during_a_pause_is_not_taken() {
    let program = one_step();
    let first = start(&program, json!({})).await;
    let id = json!({ "execution_id": first["execution_id"] });
    program.done("execution.pause", id.clone()).await;
    let paused = answer(&program, &first, json!({ "text": "x" })).await;
    assert!(prompt(&paused).starts_with("The result was not taken: "), "{paused}");
    assert!(prompt(&paused).contains("execution.resume"), "{paused}");
    program.done("execution.resume", id).await;
    assert_eq!(answer(&program, &first, json!({ "text": "x" })).await["status"], "completed");
}

#[tokio::test]
async fn properties_and_other_steps_have_limits() {
    let properties = |count| -> Vec<_> {
        (0..count).map(|at| json!({ "propertyName": format!("p{at}") })).collect()
    };
    let body = json!({ "guidance": "Do it.", "result": text_result() });
    let items: Vec<_> = (0..limits::OTHER_STEPS_SHOWN_MAX + 2).collect();
    let all = Step::new("foreach", json!({ "in": items, "parallel": items.len(), "do": body }));
    let program = program([all.id("all")]);
    let state = json!({ "thread_id": "t" });
    let limit = limits::INPUTS_DECLARED_MAX;
    let arguments = |count| json!({ "workflowStateData": state, "propertiesRequiringInput": properties(count) });
    program.done("magen-get-input", arguments(limit)).await;
    let refused = program.refused("magen-get-input", arguments(limit + 1)).await;
    assert_eq!(refused["violations"][0]["message"], "at most 100 properties are allowed");
    let first = start(&program, json!({})).await;
    let text = prompt(&first);
    assert!(text.contains("'all' (item 9) {") && !text.contains("'all' (item 10) {"), "{text}");
    assert!(text.contains("}, and 1 more."), "{text}");
}

#[tokio::test]
async fn a_result_of_ten_megabytes_is_refused_and_the_step_stays_open() {
    let program = one_step();
    let long = "x".repeat(10 << 20);
    let refused = program.refused(TOOL, json!({ "userInput": { "request": long } })).await;
    assert_eq!(refused["error_code"], "LIMIT_EXCEEDED", "{refused}");
    let first = start(&program, json!({})).await;
    let arguments =
        json!({ "userInput": { "text": long }, "workflowStateData": first["workflowStateData"] });
    let refused = program.refused(TOOL, arguments).await;
    assert_eq!(refused["error_code"], "LIMIT_EXCEEDED");
    assert_eq!(read(&program, &first["workflowStateData"]).await, first);
}

/// A damaged object is no reason to take one that is inside of it, and braces of sentences are passed by.
#[tokio::test]
async fn a_damaged_object_is_not_replaced_by_a_part_of_it() {
    let program = program([Step::guidance("Do it.").id("a").result(json!({ "type": "object" }))]);
    let first = start(&program, json!({})).await;
    for damaged in
        ["```json\n{\"path\": \"/a\", \"options\": {\"x\": 1},}\n```", "{\"path\": {\"x\": 1}"]
    {
        let refused = answer(&program, &first, damaged).await;
        assert!(prompt(&refused).starts_with("# The last result was refused"), "{refused}");
    }
    let braces = "{ ".repeat(100_000) + "{\"text\": \"x\"}";
    assert_eq!(answer(&program, &first, braces).await["status"], "completed");
}

fn properties() -> Value {
    json!([
        { "propertyName": "platform", "friendlyName": "mobile platform", "description": "Where it runs",
          "schema": { "type": "string", "enum": ["iOS", "Android"] }, "reason": "`Symbian` is none" },
        { "propertyName": "push", "schema": { "type": "boolean" } },
        { "propertyName": "seats", "schema": { "type": "integer", "multipleOf": 5 } }
    ])
}

#[tokio::test]
async fn the_utility_tools_ask_for_properties_and_extract_them() {
    let program = one_step();
    let state = json!({ "thread_id": "t", "token": "k" });
    let arguments = json!({ "workflowStateData": state, "propertiesRequiringInput": properties() });
    let asked = program.done("magen-get-input", arguments).await;
    assert_eq!(asked["workflowStateData"], state);
    let text = asked["promptForLLM"].as_str().unwrap();
    for part in [
        "`platform` (mobile platform): Where it runs; type string; one of \"iOS\", \"Android\"",
        "`push`: type boolean",
        "The answer before was refused:\n- `platform`: `Symbian` is none",
        "`lead` {userInput, workflowStateData}",
        &state.to_string(),
        asked["resultSchema"].as_str().unwrap(),
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let schema: Value = serde_json::from_str(asked["resultSchema"].as_str().unwrap()).unwrap();
    let answers = &schema["properties"]["userUtterance"]["anyOf"][0]["properties"];
    assert_eq!(answers["seats"], json!({ "type": "integer", "multipleOf": 5 }));
    let arguments = json!({
        "workflowStateData": state, "userUtterance": "iOS, without push", "propertiesToExtract": properties()
    });
    let extracted = program.done("magen-input-extraction", arguments.clone()).await;
    let text = extracted["promptForLLM"].as_str().unwrap();
    assert!(text.contains("iOS, without push") && text.contains("nothing is guessed"), "{text}");
    let mut own = arguments;
    own["resultSchema"] = json!({ "type": "object" });
    let extracted = program.done("magen-input-extraction", own).await;
    assert_eq!(extracted["resultSchema"], r#"{"type":"object"}"#);
    for (wrong, path) in [
        (json!([{ "propertyName": "a b" }]), "/propertiesRequiringInput/0/propertyName"),
        (
            json!([{ "propertyName": "a" }, { "propertyName": "a" }]),
            "/propertiesRequiringInput/1/propertyName",
        ),
        (
            json!([{ "propertyName": "a", "schema": { "type": 7 } }]),
            "/propertiesRequiringInput/0/schema",
        ),
        (json!([{}]), "/propertiesRequiringInput/0"),
    ] {
        let arguments = json!({ "workflowStateData": state, "propertiesRequiringInput": wrong });
        let refused = program.refused("magen-get-input", arguments).await;
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{refused}");
        assert!(refused["violations"][0]["path"].as_str().unwrap().starts_with(path), "{refused}");
    }
}

#[tokio::test]
async fn a_utility_tool_leads_to_no_new_thread() {
    let program = one_step();
    for state in [json!({ "thread_id": "" }), json!(""), json!({ "token": "k" }), json!(null)] {
        let arguments = json!({ "workflowStateData": state, "propertiesRequiringInput": [] });
        let refused = program.refused("magen-get-input", arguments).await;
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{state}: {refused}");
    }
    let state = json!("{\"thread_id\": \"t\", \"note\": 1}");
    let arguments = json!({ "workflowStateData": state, "propertiesRequiringInput": [] });
    let asked = program.done("magen-get-input", arguments).await;
    assert_eq!(asked["workflowStateData"], json!({ "thread_id": "t" }));
}

/// A workflow that calls both utility tools: it extracts properties, and then asks the user.
fn ask_with_utilities() -> Workflow {
    let extract = Step::tool("magen-input-extraction").id("extract").with(
        json!({ "userUtterance": "${{ inputs.request }}", "propertiesToExtract": properties() }),
    );
    let ask = Step::tool("magen-get-input")
        .id("ask")
        .with(json!({ "propertiesRequiringInput": properties() }));
    led([extract, ask])
        .final_output(json!({ "extracted": "${{ steps.extract }}", "asked": "${{ steps.ask }}" }))
}

#[tokio::test]
async fn the_results_of_the_utility_tools_are_checked_by_their_properties() {
    let program = Program::with_activities(vec![ask_with_utilities()], Activities::default());
    let first = start(&program, json!({ "request": "an app" })).await;
    let text = prompt(&first);
    assert!(
        text.contains("Call the tool `magen-input-extraction` with exactly what stands in input."),
        "{text}"
    );
    // The input of the call has the state, so that the tool can lead back to the orchestrator.
    let (_, input) = text.split_once("\ninput:\n```json\n").unwrap();
    let input: Value = serde_json::from_str(input.split("\n```").next().unwrap()).unwrap();
    assert_eq!(input["workflowStateData"], first["workflowStateData"]);
    let called = program.done("magen-input-extraction", input).await;
    assert!(called["promptForLLM"].as_str().unwrap().contains("an app"), "{called}");
    // `push` is an answer, `platform` is none, `colour` was not asked for, and `seats` breaks its schema.
    let found = json!({ "extractedProperties": { "platform": null, "push": false, "seats": 7, "colour": "red" } });
    let second = answer(&program, &first, found).await;
    assert_eq!(second["step"], "ask", "{second}");
    let refused =
        answer(&program, &second, json!({ "userUtterance": { "platform": "BeOS", "seats": 0 } }))
            .await;
    let text = prompt(&refused);
    assert!(text.contains("/userUtterance/platform: `platform` is not one of"), "{text}");
    assert!(text.contains("expected one of \"iOS\", \"Android\""), "{text}");
    let nothing = answer(&program, &refused, json!({ "userUtterance": "" })).await;
    assert!(prompt(&nothing).contains("must be an object with the properties"), "{nothing}");
    let ended =
        answer(&program, &nothing, json!({ "userUtterance": { "platform": "iOS", "seats": 0 } }))
            .await;
    assert_eq!(ended["status"], "completed");
    let id = midex::ExecutionId::parse(ended["execution_id"].as_str().unwrap()).unwrap();
    let output = program.app.status(&id).await.unwrap().final_output.unwrap();
    assert_eq!(output["asked"], json!({ "userUtterance": { "platform": "iOS", "seats": 0 } }));
    let extracted = &output["extracted"];
    assert_eq!(extracted["extractedProperties"], json!({ "push": false }));
    assert_eq!(extracted["missing"], json!(["platform", "seats"]));
    assert_eq!(extracted["dropped"], json!(["colour"]));
    assert_eq!(extracted["rejected"][0]["property"], "seats");
    // The user may answer in words.
    let first = start(&program, json!({ "request": "an app" })).await;
    let second = answer(&program, &first, json!({ "extractedProperties": {} })).await;
    let ended = answer(&program, &second, json!({ "userUtterance": "an iPhone, I think" })).await;
    assert_eq!(ended["status"], "completed");
}

#[tokio::test]
async fn input_schema_is_checked_and_shown() {
    let step = |with: Value| {
        let schema = json!({
            "type": "object", "required": ["size", "workflowStateData"],
            "properties": { "size": { "type": "integer" }, "workflowStateData": { "type": "object" } }
        });
        Step::tool("measure").id("a").with(with).set("input_schema", schema).result(json!({}))
    };
    let program =
        program([step(json!({ "size": "${{ inputs.size }}" })).description("Measures it.")]);
    let first = start(&program, json!({ "size": 3 })).await;
    let text = prompt(&first);
    for part in [
        "description:\n```\nMeasures it.",
        "input_schema:\n",
        "\"size\":3",
        "\"workflowStateData\":{\"thread_id\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let ended = start(&program, json!({ "size": "large" })).await;
    assert!(prompt(&ended).contains("`with` breaks `input_schema` at '/size'"), "{ended}");
    let constant = self::program([step(json!({ "size": "large" }))]);
    let broken = constant.app.check_definitions().await.unwrap_err();
    assert_eq!(broken.violations()[0].rule, "invalid_argument", "{broken:?}");
    let missing = self::program([step(json!({}))]);
    assert!(missing.app.check_definitions().await.is_err(), "`size` is missing");
}

#[test]
fn a_workflow_tool_leads_back_to_its_orchestrator() {
    let tool = WorkflowTool::new("lead", json!({ "type": "object" }));
    let state = WorkflowStateData { thread_id: "t".to_owned(), token: Some("k".to_owned()) };
    let default = tool.finalize_workflow_tool_output("Build it.", &state, None);
    let own =
        tool.finalize_workflow_tool_output("Build it.", &state, Some(&json!({ "type": "array" })));
    for (result, schema) in [(default, r#"{"type":"object"}"#), (own, r#"{"type":"array"}"#)] {
        let result = serde_json::to_value(result).unwrap();
        let content = &result["structuredContent"];
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, *content);
        let prompt = content["promptForLLM"].as_str().unwrap();
        for part in ["Build it.", "`lead`", "userInput", r#"{"thread_id":"t","token":"k"}"#, schema]
        {
            assert!(prompt.contains(part), "{part} in {prompt}");
        }
        assert_eq!(content["resultSchema"], schema);
        assert_eq!(content["workflowStateData"], json!({ "thread_id": "t", "token": "k" }));
    }
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    #[serde(default)]
    count: u32,
    limit: u32,
}

/// Counts in memory, up to an input.
struct Increment;

impl Node for Increment {
    type State = Count;

    fn name(&self) -> &'static str {
        "increment"
    }

    fn execute(&self, state: &Count) -> Outcome {
        if state.count >= state.limit {
            return Err(OperationFailure::new("limit", "the limit is reached"));
        }
        Ok(json!({ "count": state.count + 1, "limit": null }))
    }
}

#[tokio::test]
async fn a_node_computes_memory_from_memory_and_inputs() {
    let nodes = ["one", "two", "three"].map(|id| Step::activity("increment").id(id));
    let workflow =
        led(nodes).set("memory", json!({ "count": null })).final_output("${{ memory.count }}");
    let activities = Activities::default().with_activity(node(Increment)).unwrap();
    let program = Program::with_activities(vec![workflow], activities);
    let ended = start(&program, json!({ "limit": 3 })).await;
    assert!(prompt(&ended).contains("Its result:\n```json\n3\n```"), "{ended}");
    let failed = start(&program, json!({ "limit": 2 })).await;
    assert!(
        prompt(&failed).contains("It failed at step 'three': the limit is reached"),
        "{failed}"
    );
    let failed = start(&program, json!({})).await;
    assert!(
        prompt(&failed).contains(
            "memory and inputs do not match the state of the node: missing field `limit`"
        ),
        "{failed}"
    );
    let id = midex::ExecutionId::parse(ended["execution_id"].as_str().unwrap()).unwrap();
    assert!(program.app.turn(&id, Duration::ZERO).await.unwrap().status.completed_at.is_some());
}

#[tokio::test]
async fn names_of_orchestrators_and_utilities_are_checked() {
    let expose = |name: &str, expose: Value| {
        let workflow = Workflow::new(name).description("d").step(Step::guidance("g").id("a"));
        workflow.set("expose", expose)
    };
    let orchestrator = |id: &str| json!({ "orchestrator": { "tool_id": id } });
    let both =
        |prefix: Value| json!({ "orchestrator": { "tool_id": "main" }, "utilities": prefix });
    let program = Program::with_activities(
        vec![
            expose("a", both(json!({ "prefix": "mobile" }))),
            expose("reserved", orchestrator("workflow_run")),
            expose("spaced", orchestrator("to do")),
            expose("long", orchestrator(&"x".repeat(65))),
            expose("alone", json!({ "utilities": true })),
            expose("twice", json!({ "tools": true, "orchestrator": { "tool_id": "twice_start" } })),
            expose("z", both(json!({ "prefix": "other" }))),
        ],
        Activities::default(),
    );
    let registry = program.app.registry().await.unwrap();
    let rules = |name: &str| -> Vec<_> {
        let entry = registry.workflow(name).unwrap();
        entry.findings.iter().map(|finding| (finding.rule.as_str(), finding.path.clone())).collect()
    };
    let at = |rule, path: &str| vec![(rule, path.to_owned())];
    assert_eq!(rules("a"), []);
    assert_eq!(rules("reserved"), at("tool_name_refused", "expose.orchestrator.tool_id"));
    assert_eq!(rules("spaced"), at("tool_name_refused", "expose.orchestrator.tool_id"));
    assert_eq!(rules("long").len(), 1, "{:?}", rules("long"));
    assert_eq!(rules("alone"), at("no_effect", "expose.utilities"));
    assert_eq!(rules("twice"), at("tool_name_refused", "expose.orchestrator.tool_id"));
    assert_eq!(rules("z"), at("tool_name_taken", ""));
    let state = json!({ "thread_id": "t" });
    let arguments = json!({ "workflowStateData": state, "propertiesRequiringInput": [] });
    let empty = program.done("mobile-magen-get-input", arguments).await;
    assert!(empty["promptForLLM"].as_str().unwrap().contains("`main`"), "{empty}");
}

#[tokio::test]
async fn an_orchestrator_of_a_project_is_listed_once_it_is_trusted() {
    let program = Program::with_activities(vec![], Activities::default());
    let text = "workflow: filed\ndescription: d\nexpose: { orchestrator: { tool_id: filed } }\nsteps:\n  - { id: a, guidance: Do., result: {} }\n";
    program.write("filed.yaml", text);
    let listed = async || program.tool_names().await.contains("filed");
    assert!(!listed().await);
    let call = json!({ "name": "filed", "arguments": {} });
    let untrusted = program.client.request("tools/call", call).await;
    assert!(untrusted["error"]["message"].is_string(), "{untrusted}");
    program.app.trust_project().await.unwrap();
    assert!(listed().await);
    let first = program.done("filed", json!({})).await;
    // The thread outlives its file.
    program.remove("filed.yaml");
    assert!(!listed().await);
    let arguments =
        json!({ "userInput": 1, "workflowStateData": first["workflowStateData"].to_string() });
    assert_eq!(program.done("filed", arguments).await["status"], "completed");
}

/// Both projects have an orchestrator of one name. A thread belongs to its execution, which keeps its definition.
#[tokio::test]
async fn a_thread_of_another_project_goes_on_with_its_own_definition() {
    let program = Program::with_activities(vec![], Activities::default());
    let manifest = |task: &str| {
        format!(
            "workflow: filed\ndescription: d\nexpose: {{ orchestrator: {{ tool_id: filed }} }}\nsteps:\n  - {{ id: a, guidance: {task}, result: {{}} }}\n"
        )
    };
    program.write("filed.yaml", &manifest("Here."));
    program.app.trust_project().await.unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("workflows")).unwrap();
    std::fs::write(other.path().join("workflows/filed.yaml"), manifest("There.")).unwrap();
    let mut caller = program.app.config().clone();
    other.path().clone_into(&mut caller.project_dir);
    let there = program.app.for_caller(&caller, std::collections::BTreeMap::default());
    there.trust_project().await.unwrap();
    let client = LineClient::new(&there);
    let started = client.done("filed", json!({})).await;
    assert!(prompt(&started).contains("There."), "{started}");
    let first = program.done("filed", json!({})).await;
    let arguments = json!({ "workflowStateData": first["workflowStateData"] });
    let elsewhere = client.done("filed", arguments).await;
    assert_eq!(elsewhere, first);
    assert!(prompt(&elsewhere).contains("Here."), "{elsewhere}");
}
