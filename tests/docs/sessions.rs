//! Tools of a workflow's own, as a client calls them: sessions.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use midex::{
    App, Config, Options,
    activity::{Activities, OperationFailure, activity, function},
    store::MemoryStore,
    workflow::{Step, Workflow},
};
use midex_domain::clock::{SeededIds, SystemClock};
use midex_server::config::TrustedProjects;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::line_client::LineClient;

/// A server of a program, and its client.
pub(crate) struct Program {
    home: TempDir,
    pub(crate) app: App,
    pub(crate) client: LineClient,
}

impl Program {
    fn new(definitions: Vec<Workflow>) -> Self {
        Self::with_activities(definitions, arithmetic())
    }

    pub(crate) fn with_activities(definitions: Vec<Workflow>, activities: Activities) -> Self {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.path().join("workflows")).unwrap();
        let mut config = Config::new(Some(home.path().join("data"))).unwrap();
        home.path().clone_into(&mut config.project_dir);
        config.trust = TrustedProjects::Listed(Some(home.path().join("midex.toml")));
        let options = Options::new(config, Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
        let store = Some(Arc::new(MemoryStore::new()) as Arc<_>);
        let app = App::with_options(Options { definitions, activities, store, ..options });
        let client = LineClient::new(&app);
        Self { home, app, client }
    }

    pub(crate) async fn done(&self, tool: &str, arguments: Value) -> Value {
        self.client.done(tool, arguments).await
    }

    pub(crate) async fn refused(&self, tool: &str, arguments: Value) -> Value {
        let result = self.client.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    async fn tools(&self) -> Vec<Value> {
        let answer = self.client.request("tools/list", json!({})).await;
        answer["result"]["tools"].as_array().unwrap().clone()
    }

    pub(crate) async fn tool_names(&self) -> BTreeSet<String> {
        let tools = self.tools().await;
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.home.path().join("workflows").join(file), text).unwrap();
    }

    pub(crate) fn remove(&self, file: &str) {
        fs::remove_file(self.home.path().join("workflows").join(file)).unwrap();
    }
}

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

fn arithmetic() -> Activities {
    let divide = async |_, Numbers { a, b }: Numbers| {
        a.checked_div(b).ok_or_else(|| OperationFailure::new("math", "division by zero"))
    };
    Activities::default()
        .with_activity(activity("add", async |_, Numbers { a, b }: Numbers| Ok(a + b)))
        .and_then(|all| {
            all.with_activity(activity("multiply", async |_, Numbers { a, b }: Numbers| Ok(a * b)))
        })
        .and_then(|all| {
            all.with_activity(activity("divide", divide).as_tool("Divides two numbers."))
        })
        .unwrap()
}

/// The sum of two inputs, then times two, then divided by a third one.
fn calculator(expose: impl Into<Value>) -> Workflow {
    let input = |name: &str| format!("${{{{ inputs.{name} }}}}");
    ["a", "b", "by"]
        .into_iter()
        .fold(Workflow::new("calc").description("Calculates."), |workflow, name| {
            workflow.input(name, json!({ "type": "integer" }))
        })
        .step(Step::activity("add").with(json!({ "a": input("a"), "b": input("b") })))
        .step(Step::activity("multiply").with(json!({ "a": "${{ steps.add.output }}", "b": 2 })))
        .step(
            Step::activity("divide")
                .with(json!({ "a": "${{ steps.multiply.output }}", "b": input("by") })),
        )
        .final_output("${{ steps.divide.output }}")
        .set("expose", json!({ "tools": expose.into() }))
}

/// Two steps of a model.
pub(crate) fn essay() -> Workflow {
    let result = json!({ "type": "string" });
    Workflow::new("essay")
        .description("Writes an essay.")
        .input("topic", json!({ "type": "string" }))
        .step(Step::guidance("Draft ${{ inputs.topic }}.").id("draft").result(result.clone()))
        .step(Step::guidance("Polish ${{ steps.draft.output }}.").id("polish").result(result))
        .final_output("${{ steps.polish.output }}")
        .set("expose", json!({ "tools": true }))
}

#[tokio::test]
async fn a_workflow_of_the_server_runs_to_its_end_in_one_call() {
    let program = Program::new(vec![calculator(true)]);
    let ended = program.done("calc_start", json!({ "a": 1, "b": 2, "by": 3 })).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["stepResult"], 2);
    assert_eq!(ended["results"], 2, "the final output, and not the memory");
    assert_eq!(ended["progress"], json!({ "current": 3, "total": 3 }));
    assert_eq!(
        (&ended["nextActivity"], &ended["message"]),
        (&Value::Null, &json!("Workflow completed"))
    );
    let status = program.done("calc_status", json!({ "sessionId": ended["sessionId"] })).await;
    assert_eq!(status, ended);
    // The session is an execution.
    let id = ended["sessionId"].as_str().unwrap();
    let shown = program
        .done("workflow.read", json!({ "uri": format!("midex://workflow/workflow_status/{id}") }))
        .await;
    assert_eq!(shown["success"], true);
}

#[tokio::test]
async fn a_paced_workflow_answers_after_each_step_of_the_server() {
    let program = Program::new(vec![calculator(json!({ "pace": "step" }))]);
    let mut last = program.done("calc_start", json!({ "a": 1, "b": 2, "by": 3 })).await;
    let mut results = vec![last["stepResult"].clone()];
    let mut next = vec![last["nextActivity"].clone()];
    while last["status"] == "paused" {
        let arguments = json!({ "sessionId": last["sessionId"], "token": last["token"] });
        last = program.done("calc_continue", arguments).await;
        results.push(last["stepResult"].clone());
        next.push(last["nextActivity"].clone());
    }
    assert_eq!(results, [3, 6, 2]);
    assert_eq!(next, [json!("multiply"), json!("divide"), Value::Null]);
    assert_eq!((&last["status"], &last["results"]), (&json!("completed"), &json!(2)));
    // Called otherwise, the same workflow is not paced.
    let run = json!({ "workflow_id": "calc", "inputs": { "a": 1, "b": 2, "by": 3 } });
    assert_eq!(program.done("workflow.run", run).await["status"], "succeeded");
}

#[tokio::test]
async fn of_two_calls_at_once_one_begins_a_step() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let work = function("work", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(Value::Null) }
    });
    let steps = (0..9).map(|at| Step::activity("work").id(format!("s{at}")));
    let workflow = Workflow::new("many").description("Works.");
    let workflow = steps.fold(workflow, Workflow::step);
    let workflow = workflow.set("expose", json!({ "tools": { "pace": "step" } }));
    let activities = Activities::default().with_activity(work).unwrap();
    let program = Program::with_activities(vec![workflow], activities);
    let mut last = program.done("many_start", json!({})).await;
    for done in 1..9 {
        assert_eq!(count.load(Ordering::SeqCst), done);
        let arguments = json!({ "sessionId": last["sessionId"], "token": last["token"] });
        let call = || program.done("many_continue", arguments.clone());
        let (first, ..) = tokio::join!(call(), call(), call(), call());
        last = first;
        // A repeat after the step reads where the session stands.
        assert_eq!(program.done("many_continue", arguments).await, last);
    }
    assert_eq!((count.load(Ordering::SeqCst), &last["status"]), (9, &json!("completed")));
}

#[tokio::test]
async fn a_model_is_led_with_the_tools_of_its_session() {
    let program = Program::new(vec![essay()]);
    let first = program.done("essay_start", json!({ "topic": "rain" })).await;
    assert_eq!((&first["status"], &first["nextActivity"]), (&json!("running"), &json!("draft")));
    let instructions = first["instructions"].as_str().unwrap();
    assert!(instructions.contains("Draft rain."), "{instructions}");
    assert!(instructions.contains("essay_continue {sessionId, token, result}"), "{instructions}");
    assert!(!instructions.contains("workflow.next_step"), "{instructions}");
    assert_eq!(first["output_schema"], json!({ "type": "string" }));
    let session = |last: &Value, result: &str| json!({ "sessionId": last["sessionId"], "token": last["token"], "result": result });
    // A call without a token reads.
    let read = program.done("essay_continue", json!({ "sessionId": first["sessionId"] })).await;
    assert_eq!(read, first);
    let second = program.done("essay_continue", session(&first, "Rain falls.")).await;
    assert_eq!(
        (&second["stepResult"], &second["nextActivity"]),
        (&json!("Rain falls."), &json!("polish"))
    );
    let again = program.done("essay_continue", session(&first, "Rain falls.")).await;
    assert_eq!(again, second, "a repeated call gets the same answer");
    let other = program.refused("essay_continue", session(&first, "Snow.")).await;
    assert_eq!(other["error_code"], "TOKEN_ALREADY_USED");
    let wrong = json!({ "sessionId": second["sessionId"], "token": second["token"], "result": 7 });
    assert_eq!(program.refused("essay_continue", wrong).await["error_code"], "STEP_OUTPUT_INVALID");
    let ended = program.done("essay_continue", session(&second, "It rains.")).await;
    assert_eq!((&ended["status"], &ended["results"]), (&json!("completed"), &json!("It rains.")));
}

#[tokio::test]
async fn sessions_are_not_mixed_up() {
    let program = Program::new(vec![essay(), calculator(true)]);
    let one = program.done("essay_start", json!({ "topic": "one" })).await;
    let two = program.done("essay_start", json!({ "topic": "two" })).await;
    let mixed = json!({ "sessionId": one["sessionId"], "token": two["token"], "result": "x" });
    let refused = program.refused("essay_continue", mixed).await;
    assert_eq!(refused["error"], "the token is of another session");
    let bare = json!({ "sessionId": one["sessionId"], "result": "x" });
    let refused = program.refused("essay_continue", bare).await;
    assert!(refused["error"].as_str().unwrap().contains("need the `token`"), "{refused}");
    // A session can be continued after another one was started.
    let next = json!({ "sessionId": one["sessionId"], "token": one["token"], "result": "x" });
    assert_eq!(program.done("essay_continue", next).await["nextActivity"], "polish");
    let read = program.done("essay_status", json!({ "sessionId": two["sessionId"] })).await;
    assert_eq!(read["nextActivity"], "draft");
    let foreign = program.refused("calc_status", json!({ "sessionId": two["sessionId"] })).await;
    assert_eq!(foreign["suggested_action"], "Call essay_continue with this session");
    let unknown = program.refused("essay_status", json!({ "sessionId": "nobody" })).await;
    assert_eq!(unknown["error_code"], "EXECUTION_NOT_FOUND");
    let extra = program.refused("essay_continue", json!({ "session": "x" })).await;
    assert_eq!(extra["error_code"], "ARGUMENTS_INVALID");
}

#[tokio::test]
async fn a_session_that_failed_says_where_and_how_it_goes_on() {
    let program = Program::new(vec![calculator(true)]);
    let failed = program.refused("calc_start", json!({ "a": 1, "b": 2, "by": 0 })).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["message"], "Workflow failed at step 'divide': division by zero");
    assert_eq!(failed["progress"], json!({ "current": 3, "total": 3 }));
    let status = program.done("calc_status", json!({ "sessionId": failed["sessionId"] })).await;
    assert_eq!(status["status"], "failed", "a read of a failed session is no failure");
    let cancelled = {
        let program = Program::new(vec![essay()]);
        let first = program.done("essay_start", json!({ "topic": "rain" })).await;
        program.done("workflow.cancel", json!({ "operation_id": first["sessionId"] })).await;
        program.done("essay_status", json!({ "sessionId": first["sessionId"] })).await
    };
    assert_eq!(cancelled["status"], "cancelled");
    let missing = program.refused("calc_start", json!({ "a": 1 })).await;
    assert_eq!(missing["error_code"], "INPUTS_INVALID");
}

#[tokio::test]
async fn exposed_tools_are_listed_with_the_inputs_of_their_workflow() {
    let program = Program::new(vec![calculator(json!({ "prefix": "sum" })), essay()]);
    let tools = program.tools().await;
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    let properties: Vec<_> = find("sum_start")["inputSchema"]["properties"]
        .as_object()
        .map(Map::keys)
        .unwrap()
        .collect();
    assert_eq!(properties, ["a", "b", "by"]);
    assert_eq!(find("essay_status")["annotations"]["readOnlyHint"], true);
    assert!(tools.iter().all(|tool| tool["name"] != "calc_start"));
}

const FILE: &str = "workflow: filed\ndescription: d\nexpose: { tools: true }\nsteps:\n  - { id: a, guidance: Do., result: {} }\n";

#[tokio::test]
async fn tools_of_a_project_are_listed_once_it_is_trusted_and_outlive_their_file() {
    let program = Program::new(vec![]);
    program.write("filed.yaml", FILE);
    assert!(!program.tool_names().await.contains("filed_start"));
    let untrusted = program
        .client
        .request("tools/call", json!({ "name": "filed_start", "arguments": {} }))
        .await;
    let message = untrusted["error"]["message"].as_str().unwrap();
    assert!(message.contains("its project is not trusted"), "{message}");
    program.app.trust_project().await.unwrap();
    assert!(program.tool_names().await.contains("filed_start"));
    let first = program.done("filed_start", json!({})).await;
    program.remove("filed.yaml");
    assert!(!program.tool_names().await.contains("filed_start"));
    let next = json!({ "sessionId": first["sessionId"], "token": first["token"], "result": 1 });
    assert_eq!(program.done("filed_continue", next).await["status"], "completed");
}

#[tokio::test]
async fn names_that_hosts_or_other_workflows_have_are_findings() {
    let program = Program::new(vec![
        Workflow::new("workflow")
            .description("d")
            .step(Step::guidance("g").id("a"))
            .set("expose", json!({ "tools": true })),
        essay(),
    ]);
    program
        .write("other.yaml", &FILE.replace("true", "{ prefix: essay }").replace("filed", "other"));
    program.write("long.yaml", &FILE.replace("filed", &"x".repeat(60)));
    program.write("odd.yaml", &FILE.replace("true", "{ prefix: 'a b' }").replace("filed", "odd"));
    program.app.trust_project().await.unwrap();
    let registry = program.app.registry().await.unwrap();
    let findings = |name: &str| {
        let entry = registry.workflow(name).unwrap();
        entry
            .findings
            .iter()
            .map(|one| format!("{}: {}", one.rule.as_str(), one.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        findings("workflow"),
        ["tool_name_refused: tools that begin with `workflow_` are midex's own"]
    );
    assert_eq!(
        findings("other"),
        ["tool_name_taken: the tool `essay_start` is one of workflow `essay`"]
    );
    assert!(findings(&"x".repeat(60))[0].contains("longer than 64 characters"));
    assert_eq!(findings("odd").len(), 1, "{:?}", findings("odd"));
    let names = program.tool_names().await;
    assert!(names.contains("essay_start"));
    let description =
        program.tools().await.into_iter().find(|tool| tool["name"] == "essay_start").unwrap();
    assert!(description["description"].as_str().unwrap().starts_with("Writes an essay."));
}

#[tokio::test]
async fn an_activity_is_a_tool_of_its_own() {
    let program = Program::new(vec![]);
    let tools = program.tools().await;
    let divide = tools.iter().find(|tool| tool["name"] == "divide").unwrap();
    assert_eq!(divide["description"], "Divides two numbers.");
    assert_eq!(divide["inputSchema"]["required"], json!(["a", "b"]));
    assert!(tools.iter().all(|tool| tool["name"] != "add"), "only what is offered is a tool");
    assert_eq!(program.done("divide", json!({ "a": 6, "b": 3 })).await, json!({ "result": 2 }));
    let failed = program.refused("divide", json!({ "a": 6, "b": 0 })).await;
    assert_eq!(
        (&failed["error_code"], &failed["error"]),
        (&json!("RUN_FAILED"), &json!("division by zero"))
    );
    let wrong = program.refused("divide", json!({ "a": "six" })).await;
    assert_eq!(wrong["error_code"], "ARGUMENTS_INVALID");
    let listed = program.done("execution.list", json!({})).await;
    assert_eq!(listed["executions"].as_array().unwrap().len(), 2, "a call is an execution");
}
