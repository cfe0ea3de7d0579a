//! An orchestrator tool, as a model that follows its prompts sees it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use midex::{
    App, Config, Environment, ExecutionId, ListRequest, Options, State,
    activity::{Activities, function},
    workflow::{Step, Workflow},
};
use midex_domain::clock::{SeededIds, SystemClock};
use serde_json::{Value, json};

use crate::{line_client::LineClient, sessions::Program};

#[expect(dead_code, reason = "`main` serves standard input and output")]
#[path = "../../examples/orchestrator/main.rs"]
mod example;

pub(crate) const TOOL: &str = "lead";

/// A program with a workflow of these steps, whose orchestrator is [`TOOL`].
pub(crate) fn program(steps: impl IntoIterator<Item = Step>) -> Program {
    Program::with_activities(vec![led(steps)], Activities::default())
}

pub(crate) fn led(steps: impl IntoIterator<Item = Step>) -> Workflow {
    let workflow = Workflow::new("led").description("Is led.");
    steps
        .into_iter()
        .fold(workflow, Workflow::step)
        .set("expose", json!({ "orchestrator": { "tool_id": TOOL }, "utilities": true }))
}

pub(crate) fn text_result() -> Value {
    json!({ "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } })
}

pub(crate) fn prompt(answer: &Value) -> &str {
    answer["orchestrationInstructionsPrompt"].as_str().unwrap()
}

pub(crate) async fn start(program: &Program, user_input: Value) -> Value {
    program.done(TOOL, json!({ "userInput": user_input })).await
}

/// Hands in a result with the state of the last answer.
pub(crate) async fn answer(program: &Program, last: &Value, result: impl Into<Value>) -> Value {
    let state = &last["workflowStateData"];
    program.done(TOOL, json!({ "userInput": result.into(), "workflowStateData": state })).await
}

pub(crate) async fn read(program: &Program, state: &Value) -> Value {
    program.done(TOOL, json!({ "workflowStateData": state })).await
}

fn write_and_polish() -> [Step; 2] {
    [
        Step::guidance("Draft something.").id("draft").result(text_result()),
        Step::guidance("Polish ${{ steps.draft.text }}.").id("polish").result(text_result()),
    ]
}

#[tokio::test]
async fn one_tool_leads_a_model_through_a_workflow() {
    let program = program(write_and_polish());
    let first = start(&program, json!({})).await;
    let thread = first["execution_id"].as_str().unwrap();
    assert_eq!(first["workflowStateData"]["thread_id"], thread);
    assert_eq!((&first["status"], &first["step"]), (&json!("running"), &json!("draft")));
    let text = prompt(&first);
    // The blocks stand in this order, the schema last.
    let blocks =
        ["# Role", "# Task", "Draft something.", "`lead`", "# Output format", "output_schema:"];
    let places: Vec<_> = blocks.map(|block| text.find(block).expect(block)).into();
    assert!(places.is_sorted(), "{text}");
    assert!(text.contains(&first["workflowStateData"].to_string()), "{text}");
    for once in ["Draft something.", &text_result().to_string(), "\"token\":"] {
        assert_eq!(text.matches(once).count(), 1, "{once} in {text}");
    }
    let second = answer(&program, &first, json!({ "text": "a draft" })).await;
    assert_eq!(second["step"], "polish");
    assert!(prompt(&second).contains("Polish a draft."), "{second}");
    // A lost reply: the same call again gets the same prompt, and another result is refused.
    assert_eq!(answer(&program, &first, json!({ "text": "a draft" })).await, second);
    let other = json!({ "userInput": { "text": "another" }, "workflowStateData": first["workflowStateData"] });
    let refused = program.refused(TOOL, other).await;
    assert_eq!(refused["error_code"], "TOKEN_ALREADY_USED");
    // The advice is to read, and it works.
    assert_eq!(
        refused["suggested_action"],
        format!(
            "Call lead with thread_id '{thread}' alone in workflowStateData, and without userInput: it answers with the open step"
        )
    );
    assert_eq!(read(&program, &json!({ "thread_id": thread })).await, second);
    let ended = answer(&program, &second, json!({ "text": "shiny" })).await;
    assert_eq!((&ended["status"], &ended["step"]), (&json!("completed"), &Value::Null));
    assert!(
        prompt(&ended).starts_with(
            "The workflow has concluded. No further workflow actions are forthcoming."
        )
    );
    assert!(prompt(&ended).contains(r#"{"text":"shiny"}"#), "{ended}");
    // A call with any earlier state of a finished thread answers with the conclusion.
    for last in [&first, &second, &ended] {
        assert_eq!(answer(&program, last, json!({ "text": "shiny" })).await, ended);
    }
    let history = program.app.history(&ExecutionId::parse(thread).unwrap()).await.unwrap();
    assert_eq!(history.len(), 2);
}

/// The text around an empty task.
#[tokio::test]
async fn the_fixed_text_of_a_prompt_is_short() {
    let program = program([Step::guidance("x").id("a").result(json!({}))]);
    let first = start(&program, json!({})).await;
    let state = first["workflowStateData"].to_string();
    let length = prompt(&first).len() - state.len();
    assert!(length <= 1_500, "{length}: {}", prompt(&first));
}

#[tokio::test]
async fn a_result_that_breaks_its_schema_is_asked_for_again_with_every_violation() {
    let result = json!({
        "type": "object", "required": ["name", "size"],
        "properties": { "name": { "type": "string" }, "size": { "type": "integer", "maximum": 9 } }
    });
    let program = program([Step::guidance("Measure it.").id("a").result(result)]);
    let first = start(&program, json!({})).await;
    let again = answer(&program, &first, json!({ "size": 12 })).await;
    assert_eq!(again["workflowStateData"], first["workflowStateData"], "the token stays valid");
    let text = prompt(&again);
    assert!(text.starts_with("# The last result was refused\n"), "{text}");
    assert!(text.contains("malformed output 1 of 5"), "{text}");
    assert!(text.contains("- the result: \"name\" is a required property"), "{text}");
    assert!(text.contains("- /size: `/size` is greater than the maximum of 9"), "{text}");
    assert!(text.contains("Measure it."), "the task follows: {text}");
    let mut last = again;
    for size in 13..=16 {
        last = answer(&program, &last, json!({ "size": size })).await;
    }
    // The last one is the end of it: a person has to look.
    assert!(prompt(&last).contains("malformed output 5 of 5"), "{last}");
    assert!(prompt(&last).contains("execution.resume"), "{last}");
    assert_eq!(last["status"], "paused");
    program.done("execution.resume", json!({ "execution_id": first["execution_id"] })).await;
    let resumed = read(&program, &last["workflowStateData"]).await;
    assert!(prompt(&resumed).starts_with("# Role"), "{resumed}");
    let ended = answer(&program, &resumed, json!({ "name": "x", "size": 1 })).await;
    assert_eq!(ended["status"], "completed");
}

#[tokio::test]
async fn words_around_one_json_object_are_left_out() {
    let program = program(write_and_polish());
    for text in [
        "Here it is:\n```json\n{\"text\": \"a {draft}\"}\n```\nI hope that helps {smile}.",
        "```\n{\"text\": \"a {draft}\"}\n```",
        "{\"text\": \"a {draft}\"} is what I came up with",
    ] {
        let first = start(&program, json!({})).await;
        let second = answer(&program, &first, text).await;
        assert!(
            prompt(&second).starts_with("The result was taken out of the text around it."),
            "{second}"
        );
        assert!(prompt(&second).contains("Polish a {draft}."), "{second}");
        let repeated = answer(&program, &first, text).await;
        assert_eq!(repeated, second, "the same words are the same result");
    }
    let first = start(&program, json!({})).await;
    let second = answer(&program, &first, "{\"text\": \"plain\"}").await;
    assert!(prompt(&second).starts_with("# Role"), "JSON in a text has no words around it");
    for text in [
        "{\"text\": \"one\"} or {\"text\": \"two\"}",
        "[{\"text\": \"in a list\"}] it is",
        "none {",
    ] {
        let first = start(&program, json!({})).await;
        let refused = answer(&program, &first, text).await;
        assert!(prompt(&refused).starts_with("# The last result was refused"), "{text}: {refused}");
    }
    // A step whose result is a text takes the text.
    let program =
        self::program([Step::guidance("Say it.").id("a").result(json!({ "type": "string" }))]);
    let first = start(&program, json!({})).await;
    let ended = answer(&program, &first, "so {\"a\": 1}").await;
    assert!(prompt(&ended).contains(r#""so {\"a\": 1}""#), "{ended}");
}

#[tokio::test]
async fn a_step_that_cannot_be_done_is_reported_as_its_prompt_says() {
    let steps = [
        Step::guidance("Try.").id("a").result(text_result()).set("on_error", "continue"),
        Step::guidance("Go on.").id("b").result(text_result()),
    ];
    let program = program(steps);
    let first = start(&program, json!({})).await;
    assert!(
        prompt(&first)
            .contains("{workflowStateData, error: {message}}; the workflow goes on without it")
    );
    let error =
        json!({ "workflowStateData": first["workflowStateData"], "error": { "message": "no" } });
    let second = program.done(TOOL, error).await;
    assert_eq!(second["step"], "b");
    assert!(prompt(&second).contains("that ends the execution as failed"), "{second}");
    let error = json!({ "workflowStateData": second["workflowStateData"], "error": { "message": "it broke" } });
    let ended = program.done(TOOL, error).await;
    assert_eq!(ended["status"], "failed");
    assert!(prompt(&ended).contains("It failed at step 'b': it broke"), "{ended}");
}

#[tokio::test]
async fn of_several_open_steps_the_first_is_shown_and_the_others_have_states_of_their_own() {
    let guided = |id: &str| Step::guidance(format!("Do {id}.")).id(id).result(text_result());
    let persona = Step::agent("reviewer").id("c").set("instructions", "Review it.");
    let after = ["plan"];
    let steps = [
        guided("plan"),
        guided("a").depends_on(&after),
        guided("b").depends_on(&after),
        persona.depends_on(&after),
    ];
    let program = program(steps);
    let first = start(&program, json!({})).await;
    let first = answer(&program, &first, json!({ "text": "a plan" })).await;
    assert_eq!(first["step"], "a");
    let text = prompt(&first);
    assert!(text.starts_with("Other steps are open too"), "{text}");
    let state_of = |step: &str| {
        let (_, rest) = text.split_once(&format!("'{step}' ")).unwrap();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        values.next().unwrap().unwrap()
    };
    let of_b = read(&program, &state_of("b")).await;
    assert!(prompt(&of_b).contains("Do b."), "{of_b}");
    let of_c = read(&program, &state_of("c")).await;
    assert!(prompt(&of_c).contains("agent_content:\n"), "{of_c}");
    assert!(prompt(&of_c).contains("previous:\n"), "each prompt has the outputs before it: {of_c}");
    assert_eq!(of_c["step"], "c");
    let last = answer(&program, &of_b, json!({ "text": "b" })).await;
    assert_eq!(last["step"], "a");
    let last = answer(&program, &of_c, json!({ "summary": "c" })).await;
    let ended = answer(&program, &last, json!({ "text": "a" })).await;
    assert_eq!(ended["status"], "completed");
}

/// Only the user can answer `ask`, and this client shows no forms. The model is given the other open step.
#[tokio::test]
async fn a_step_of_the_user_alone_does_not_stand_before_one_of_the_model() {
    let ask = Step::new("input", json!({ "properties": ["size"], "via": "elicitation" })).id("ask");
    let draft = Step::guidance("Draft it.").id("draft").result(text_result());
    let workflow = led([ask.depends_on(&[]), draft.depends_on(&[])])
        .input("size", json!({ "type": "integer", "optional": true }));
    let program = Program::with_activities(vec![workflow], Activities::default());
    let first = start(&program, json!({})).await;
    assert_eq!(first["step"], "draft");
    let waiting = answer(&program, &first, json!({ "text": "x" })).await;
    assert!(prompt(&waiting).contains("Only the user can answer"), "{waiting}");
    assert_eq!(waiting["step"], "ask");
}

/// Both children have a step of the model. The one whose state is sent is shown, also after a refusal.
#[tokio::test]
async fn the_step_of_a_state_is_found_among_children() {
    let child = Workflow::new("child")
        .description("Is a child.")
        .input("name", json!({ "type": "string" }))
        .step(Step::guidance("Do ${{ inputs.name }}.").id("part").result(text_result()));
    let steps = ["one", "two"]
        .map(|name| Step::workflow("child").id(name).with(json!({ "name": name })).depends_on(&[]));
    let program = Program::with_activities(vec![led(steps), child], Activities::default());
    let first = start(&program, json!({})).await;
    let thread = ExecutionId::parse(first["execution_id"].as_str().unwrap()).unwrap();
    let children = program.app.status(&thread).await.unwrap().children;
    // Either child may begin first: a read of one waits until it has.
    let engine = program.app.engine().await.unwrap();
    let [one, other] = [0, 1].map(|at| ExecutionId::parse(&children[at].execution_id).unwrap());
    engine.current_step(&one).await.unwrap();
    let token = engine.current_step(&other).await.unwrap();
    let thread_alone = json!({ "thread_id": thread.as_str() });
    assert!(prompt(&read(&program, &thread_alone).await).contains("Do one."), "{first}");
    let state = json!({ "thread_id": thread.as_str(), "token": token.continuation_token });
    assert!(prompt(&read(&program, &state).await).contains("Do two."));
    let refused = json!({ "userInput": { "txt": 1 }, "workflowStateData": state });
    let refused = program.done(TOOL, refused).await;
    assert!(prompt(&refused).contains("was refused") && prompt(&refused).contains("Do two."));
    let last = answer(&program, &refused, json!({ "text": "x" })).await;
    let ended = answer(&program, &last, json!({ "text": "x" })).await;
    assert_eq!(ended["status"], "completed");
}

#[tokio::test]
async fn the_turn_of_a_child_is_one_of_its_thread() {
    let child = Workflow::new("child")
        .description("Is a child.")
        .step(Step::guidance("Do the child's part.").id("part").result(text_result()));
    let parent = led([Step::workflow("child").id("all")]);
    let program = Program::with_activities(vec![parent, child], Activities::default());
    let first = start(&program, json!({})).await;
    assert_eq!(first["step"], "part");
    assert!(prompt(&first).contains("Do the child's part."), "{first}");
    assert_eq!(first["workflowStateData"]["thread_id"], first["execution_id"]);
    let ended = answer(&program, &first, json!({ "text": "x" })).await;
    assert_eq!(
        (&ended["status"], &ended["execution_id"]),
        (&json!("completed"), &first["execution_id"])
    );
}

#[tokio::test]
async fn while_the_server_works_the_prompt_asks_for_the_same_call_again() {
    let release = Arc::new(tokio::sync::Notify::new());
    let released = release.clone();
    let work = function("work", move |_| {
        let released = released.clone();
        async move {
            released.notified().await;
            Ok(json!("done"))
        }
    });
    let workflow = led([Step::activity("work").id("slow"), Step::guidance("Now you.").id("b")]);
    let activities = Activities::default().with_activity(work).unwrap();
    let program = Program::with_activities(vec![workflow], activities);
    tokio::time::pause();
    let waiting = start(&program, json!({})).await;
    tokio::time::resume();
    assert!(prompt(&waiting).contains("The server works on step 'slow'."), "{waiting}");
    assert!(prompt(&waiting).contains("Do not send userInput with it."), "{waiting}");
    assert!(waiting["workflowStateData"]["token"].is_null());
    release.notify_one();
    let next = read(&program, &waiting["workflowStateData"]).await;
    assert!(prompt(&next).contains("Now you."), "{next}");
}

#[tokio::test]
async fn at_a_gate_the_prompt_says_that_only_the_user_can_answer() {
    let program = program([Step::gate("Publish it?").id("agree"), Step::guidance("Go.").id("b")]);
    let first = start(&program, json!({})).await;
    let text = prompt(&first);
    assert!(text.contains("Only the user can answer"), "{text}");
    assert!(text.contains("Publish it?") && text.contains("midex approve"), "{text}");
    // A model cannot answer it.
    let refused = json!({ "userInput": { "approved": true }, "workflowStateData": first["workflowStateData"] });
    assert_eq!(program.refused(TOOL, refused).await["error_code"], "ARGUMENTS_INVALID");
    assert_eq!(read(&program, &first["workflowStateData"]).await, first);
    // With a client that can ask, the user is asked in the same call.
    let params = json!({
        "name": TOOL, "arguments": { "workflowStateData": first["workflowStateData"] },
        "_meta": midex_test::reader::stateless_with(json!({ "elicitation": { "form": {} } }))
    });
    let asked = program.client.request("tools/call", params.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let (key, request) =
        asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert!(request["params"]["message"].as_str().unwrap().contains("Publish it?"), "{request}");
    let form = request["params"]["requestedSchema"]["properties"].as_object().unwrap();
    let (field, choice) = form.iter().find(|(_, field)| !field["enum"].is_null()).unwrap();
    let mut again = params;
    again["requestState"] = asked["result"]["requestState"].clone();
    let yes = json!({ "action": "accept", "content": { (field): choice["enum"][0] } });
    again["inputResponses"] = json!({ (key): yes });
    let next = program.client.request("tools/call", again).await;
    let next = &next["result"]["structuredContent"];
    assert!(prompt(next).contains("Go."), "{next}");
}

#[tokio::test]
async fn what_the_user_wants_becomes_the_inputs() {
    let steps = || [Step::guidance("Do ${{ inputs.request }} ${{ inputs.size }}.").id("a")];
    let optional = |kind: &str| json!({ "type": kind, "optional": true });
    let workflow =
        led(steps()).input("request", optional("string")).input("size", optional("integer"));
    let program = Program::with_activities(vec![workflow], Activities::default());
    for (user_input, said) in [
        (json!({ "request": "it", "size": 3 }), "Do it 3."),
        (json!("it"), "Do it "),
        (json!({ "wish": "it" }), r#"Do {"wish":"it"} "#),
    ] {
        let first = start(&program, user_input).await;
        assert!(prompt(&first).contains(said), "{said}: {first}");
    }
    // Without declared inputs anything goes.
    let program = self::program(steps());
    let first = start(&program, json!({ "request": "all", "size": 1 })).await;
    assert!(prompt(&first).contains("Do all 1."), "{first}");
    // Inputs that are missing are told, and nothing is started.
    let workflow = led([Step::guidance("Do ${{ inputs.topic }}.").id("a")]);
    let workflow = workflow.input("topic", json!({ "type": "string" }));
    let program = Program::with_activities(vec![workflow], Activities::default());
    let refused = program.refused(TOOL, json!({})).await;
    assert_eq!(refused["violations"][0]["path"], "inputs.topic");
    assert_eq!(
        refused["suggested_action"],
        "Call lead again without workflowStateData, with userInput as the violations say"
    );
    assert_eq!(program.app.list(ListRequest::default()).await.unwrap().executions.len(), 0);
}

#[tokio::test]
async fn parallel_starts_are_threads_of_their_own() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let effect = function("effect", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(Value::Null) }
    });
    let workflow =
        led([Step::activity("effect"), Step::guidance("Go on.").id("b").result(text_result())]);
    let activities = Activities::default().with_activity(effect).unwrap();
    let program = Program::with_activities(vec![workflow], activities);
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = LineClient::new(&program.app);
        starts.spawn(async move { client.done(TOOL, json!({})).await });
    }
    let first = starts.join_all().await;
    let threads: BTreeSet<_> =
        first.iter().map(|answer| answer["execution_id"].to_string()).collect();
    assert_eq!(threads.len(), 8);
    for last in &first {
        for _ in 0..2 {
            let ended = answer(&program, last, json!({ "text": "x" })).await;
            assert_eq!(ended["status"], "completed");
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 8, "no effect is repeated");
}

#[tokio::test]
async fn the_example_and_its_manifest_say_the_same() {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::new(Some(home.path().join("data"))).unwrap();
    home.path().clone_into(&mut config.project_dir);
    let app = example::open_app(config.clone(), Environment::Test).unwrap();
    let from_code = say_hello(&app).await;
    assert!(!home.path().join("data").exists(), "a test touches no files");
    std::fs::create_dir(home.path().join("workflows")).unwrap();
    let manifest = include_str!("../../examples/orchestrator/simple.yaml");
    assert!(manifest.lines().count() <= 15);
    std::fs::write(home.path().join("workflows/simple.yaml"), manifest).unwrap();
    config.trust = midex_server::config::TrustedProjects::Everything;
    let options = Options::new(config, Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
    let app = App::with_options(Options { environment: Environment::Test, ..options });
    assert_eq!(say_hello(&app).await, from_code);
    assert!(include_str!("../../examples/orchestrator/main.rs").lines().count() <= 60);
}

/// The result of the example, and its tool.
async fn say_hello(app: &App) -> (String, Value) {
    let client = LineClient::new(app);
    let ended = client
        .done("simple-orchestrator", json!({ "userInput": { "userMessage": "hello" } }))
        .await;
    assert_eq!(ended["status"], State::Completed.as_str());
    assert!(prompt(&ended).contains(r#"{"response":"You said: hello"}"#), "{ended}");
    let tools = client.request("tools/list", json!({})).await;
    let mut tools = tools["result"]["tools"].as_array().unwrap().clone().into_iter();
    let tool = tools.find(|tool| tool["name"] == "simple-orchestrator").unwrap();
    let hints = json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true });
    assert_eq!(tool["annotations"], hints);
    assert_eq!(
        tool["inputSchema"]["properties"]["workflowStateData"]["default"],
        json!({ "thread_id": "" })
    );
    assert_eq!(tool["title"], "Simple Orchestrator");
    app.turn(&ExecutionId::parse(ended["execution_id"].as_str().unwrap()).unwrap(), Duration::ZERO)
        .await
        .unwrap();
    (prompt(&ended).to_owned(), tool)
}

/// The task of each kind of step as the fields of `current_step` and as the prompt of an orchestrator: one text.
#[tokio::test]
async fn a_task_has_two_forms_of_one_text() {
    let steps = [
        Step::agent("reviewer")
            .id("agent")
            .description("Finds faults.")
            .with(json!({ "text": "${{ inputs.text }}" }))
            .set("instructions", "Be thorough."),
        Step::guidance("Summarise it.").id("guidance").result(text_result()),
        Step::tool("translate").id("tool").with(json!({ "text": "hello" })).result(json!({})),
        Step::new("input", json!({ "properties": ["size"] })).id("input"),
        Step::new("extract", json!({ "from": "It is large.", "properties": ["colour"] }))
            .id("extract"),
    ];
    let size = json!({ "type": "string", "enum": ["small", "large"], "optional": true, "description": "How large it is" });
    let workflow = led(steps)
        .input("text", json!({ "type": "string" }))
        .input("size", size)
        .input("colour", json!({ "type": "string", "optional": true }));
    let program = Program::with_activities(vec![workflow], Activities::default());
    let mut last = start(&program, json!({ "text": "A text." })).await;
    let id = last["execution_id"].as_str().unwrap().to_owned();
    let results = [
        json!({ "summary": "good" }),
        json!({ "text": "short" }),
        json!("hallo"),
        json!({ "size": "large" }),
        json!({ "colour": null }),
    ];
    let persona = include_str!("../../agents/reviewer.md").split("---\n").nth(2).unwrap().trim();
    let mut shown = String::new();
    for result in results {
        let uri = format!("midex://workflow/current_step/{id}");
        let fields = program.done("workflow.read", json!({ "uri": uri })).await;
        let token = last["workflowStateData"]["token"].as_str().unwrap();
        let instructions = fields["content"]["instructions"].as_str().unwrap();
        let step = last["step"].as_str().unwrap();
        let forms = format!(
            "######## {step}: fields\n{instructions}\n\n######## {step}: prompt\n{}\n\n",
            prompt(&last)
        );
        let forms = forms.replace(token, "TOKEN").replace(&id, "THREAD");
        shown += &forms.replace(persona, "(the persona)");
        last = answer(&program, &last, result).await;
    }
    assert_eq!(last["status"], "completed");
    insta::assert_snapshot!(shown);
}
