//! The workflows of midex itself that write, repair and run others, led by a scripted model.

use std::fs;

use serde_json::{Value, json};

use midex_test::{
    Client, Server, Shows,
    project::{Project, eventually, text},
    reader::stateless_with,
    terminal::Terminal,
};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A workflow that the server does alone.
const GREET: &str = "workflow: greet
description: Greet somebody
inputs: { who: { type: string } }
steps:
  - { id: say, set: { words: 'Hello ${{ inputs.who }}' } }
final_output: { words: '${{ memory.words }}' }
";

/// A model that finishes the steps of a flow, and looks at its task as a host does.
struct Model {
    server: Server,
    id: Value,
}

impl Model {
    fn begin(project: &Project, tool: &str, arguments: Value) -> Self {
        let mut model = Self { server: project.serve(), id: Value::Null };
        let begun = model.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(begun["result"]["resultType"], "task", "{begun}");
        model.id = begun["result"]["taskId"].clone();
        model
    }

    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = stateless_with(json!({ "extensions": { TASKS: {} } }));
        self.server.request(method, params)
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": name, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// The step that is open for the model, once it is this one.
    fn step(&mut self, name: &str) -> Value {
        let arguments = json!({ "execution_id": self.id });
        eventually(name, || {
            let step = self.tool("execution.resume", arguments.clone());
            (step["current_step"] == name).then_some(step)
        })
    }

    /// Finishes this step; what it was asked to do.
    fn finish(&mut self, name: &str, output: Value) -> String {
        let step = self.step(name);
        let next = json!({ "token": step["continuation_token"], "output": output });
        self.tool("workflow.next_step", next);
        text(&step["instructions"]).to_owned()
    }

    fn draft(&mut self, manifest: &str) -> String {
        self.finish("draft", json!({ "manifest": manifest }))
    }

    fn status(&mut self) -> Value {
        let uri = format!("midex://workflow/workflow_status/{}", text(&self.id));
        self.tool("workflow.read", json!({ "uri": uri }))["content"].clone()
    }

    fn ended(&mut self, state: &str) -> Value {
        eventually(state, || Some(self.status()).filter(|status| status["state"] == state))
    }
}

fn project() -> Project {
    Project::new(&[])
}

/// The workflows of the user, by their files.
fn saved(project: &Project) -> Vec<String> {
    let Ok(files) = fs::read_dir(project.path("home/.config/midex/workflows")) else {
        return Vec::new();
    };
    let mut names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

fn author(project: &Project, inputs: Value) -> Model {
    let arguments = json!({ "goal": "Greet a person by name", "inputs": inputs });
    Model::begin(project, "workflow.author_and_run", arguments)
}

#[test]
fn a_workflow_is_written_in_three_passes_saved_once_and_run_once() {
    let project = project();
    let mut model = author(&project, json!({ "who": "Ada" }));
    let task = model.step("draft");
    text(&task["instructions"]).shows("Greet a person by name");

    let misspelt = GREET.replace("description: Greet", "descripton: Greet");
    model.draft(&misspelt);
    let unknown = GREET.replace("memory.words", "memory.word");
    let asked = model.finish("correct", json!({ "manifest": unknown }));
    asked.shows("descripton");
    let asked = model.finish("correct", json!({ "manifest": GREET }));
    asked.shows("memory.word");

    let told = model.finish("summarize", json!({ "summary": "It greets." }));
    told.shows("Hello Ada");
    let ended = model.ended("completed");
    assert_eq!(ended["final_output"]["workflow_id"], "greet", "{ended}");
    assert_eq!(ended["final_output"]["run"], json!({ "words": "Hello Ada" }), "{ended}");
    assert_eq!(ended["final_output"]["summary"], "It greets.", "{ended}");
    assert_eq!(saved(&project), ["greet.yaml"]);
    let children = ended["children"].as_array().unwrap();
    assert_eq!(children.len(), 1, "{ended}");

    let params = json!({ "taskId": model.id });
    let task = model.ask("tasks/get", params)["result"].clone();
    assert_eq!(task["status"], "completed", "{task}");
}

#[test]
fn a_client_that_samples_drafts_a_workflow_in_three_parts() {
    let project = project();
    let mut server = project.serve();
    let mut ask = |method: &str, mut params: Value| {
        params["_meta"] = stateless_with(json!({ "extensions": { TASKS: {} }, "sampling": {} }));
        server.request(method, params)["result"].clone()
    };
    let arguments = json!({ "goal": "Greet a person by name", "inputs": { "who": "Ada" } });
    let call = json!({ "name": "workflow.author_and_run", "arguments": arguments });
    let id = ask("tools/call", call)["taskId"].clone();
    let first = json!({ "workflow": "greet", "description": "Greet somebody", "inputs": { "who": { "type": "string" } } });
    let say = |reference: &str| json!({ "steps": [{ "id": "say", "set": { "words": format!("Hello ${{{{ {reference} }}}}") } }] });
    let last = json!({ "inputs": first["inputs"] });
    let corrected = json!({ "manifest": GREET });
    let turns = [
        ("draft_inputs", "the inputs", first.to_string()),
        ("draft_steps", "in three parts", say("inputs.whom").to_string()),
        ("draft_providers", "provider_args", last.to_string()),
        ("correct", "inputs.whom", corrected.to_string()),
        ("summarize", "Hello Ada", "It greets.".to_owned()),
    ];
    for (step, shown, output) in turns {
        let task = eventually(step, || {
            let task = ask("tasks/get", json!({ "taskId": id }));
            (task["status"] == "input_required").then_some(task)
        });
        let requests = task["inputRequests"].as_object().unwrap();
        let (key, request) = requests.iter().next().unwrap();
        key.as_str().shows(step);
        text(&request["params"]["messages"][0]["content"]["text"]).shows(shown);
        let content = json!({ "type": "text", "text": output });
        let sampled = json!({ "role": "assistant", "content": content, "model": "m" });
        let update = json!({ "taskId": id, "inputResponses": { key: sampled } });
        assert_eq!(ask("tasks/update", update)["resultType"], "complete", "{step}");
    }
    let ended = eventually("the end", || {
        let task = ask("tasks/get", json!({ "taskId": id }));
        (task["status"] == "completed").then_some(task)
    });
    let output = &ended["result"]["structuredContent"]["final_output"];
    assert_eq!(output["run"], json!({ "words": "Hello Ada" }), "{ended}");
    assert_eq!(saved(&project), ["greet.yaml"]);
}

#[test]
fn a_manifest_of_a_megabyte_is_refused_before_anything_begins() {
    let project = Project::new(&[("home/.config/midex/workflows/greet.yaml", GREET)]);
    let mut server = project.serve();
    let manifest = format!("{GREET}# {}\n", "x".repeat(1 << 20));
    for (tool, arguments) in [
        ("workflow.run", json!({ "manifest": manifest })),
        ("workflow.repair_and_rerun", json!({ "workflow_id": "greet", "manifest": manifest })),
    ] {
        let mut params = json!({ "name": tool, "arguments": arguments });
        params["_meta"] = stateless_with(json!({ "extensions": { TASKS: {} } }));
        let refused = server.request("tools/call", params)["result"].clone();
        let error = &refused["structuredContent"];
        assert_eq!(refused["isError"], true, "{tool}: {refused}");
        let shown = format!("{} {}", error["message"], error["violations"][0]["message"]);
        shown.shows("bytes");
    }
    let listed = server.done("execution.list", json!({}));
    assert_eq!(listed["executions"], json!([]), "{listed}");
}

#[test]
fn missing_inputs_are_asked_for_after_the_save() {
    let project = project();
    let mut model = author(&project, json!({}));
    model.draft(GREET);
    let asked = model.finish("complete", json!({ "inputs": { "who": "Ben" } }));
    asked.shows("who");
    model.finish("summarize", json!({ "summary": "Done." }));
    let ended = model.ended("completed");
    assert_eq!(ended["final_output"]["run"], json!({ "words": "Hello Ben" }), "{ended}");
}

#[test]
fn past_the_corrections_a_person_decides() {
    let project = project();
    let arguments = json!({ "goal": "g", "max_repairs": 1 });
    let mut model = Model::begin(&project, "workflow.author_and_run", arguments);
    model.draft("workflow: a");
    model.finish("correct", json!({ "manifest": "workflow: b" }));
    let status = model.ended("paused");
    text(&status["waits"][0]["gate"]["ask"]).shows("Approve to go on");
    let approve = format!("approve {} --comment hello", text(&model.id));
    let mut terminal = Terminal::open(project.command(&*approve));
    terminal.answer("Approve?", "y");
    terminal.ends(0);
    let asked = model.finish("correct", json!({ "manifest": "workflow: c" }));
    asked.shows("hello");
    model.ended("paused");
    let reject = format!("approve {} --comment no", text(&model.id));
    let mut terminal = Terminal::open(project.command(&*reject));
    terminal.answer("Approve?", "r");
    terminal.ends(0);
    model.ended("failed");
    assert!(saved(&project).is_empty());
}

/// The phases in which a flow may be abandoned, and what is left behind.
#[test]
fn what_is_abandoned_before_the_run_begins_leaves_no_file() {
    for (phase, steps, left) in
        [("draft", 0, false), ("correct", 1, false), ("complete", 2, false), ("summarize", 3, true)]
    {
        let project = project();
        let mut model = author(&project, json!({}));
        if steps > 0 {
            model.draft(if steps == 1 { "workflow: greet" } else { GREET });
        }
        if steps > 2 {
            model.finish("complete", json!({ "inputs": { "who": "Cy" } }));
        }
        model.step(phase);
        assert_eq!(saved(&project).len(), usize::from(steps > 1), "{phase}");
        let cancel = json!({ "operation_id": model.id });
        model.tool("workflow.cancel", cancel);
        model.ended("abandoned");
        assert_eq!(!saved(&project).is_empty(), left, "{phase}: {:?}", saved(&project));
    }
}

#[test]
fn an_id_that_is_taken_is_a_violation() {
    let project = project();
    let mut model = author(&project, json!({ "who": "Dee" }));
    model.tool("workflow.save", json!({ "manifest": GREET }));
    model.draft(GREET);
    let asked = model.finish("correct", json!({ "manifest": GREET.replace(": greet", ": hail") }));
    asked.shows("there is a workflow `greet` already");
    model.finish("summarize", json!({ "summary": "Done." }));
    model.ended("completed");
    assert_eq!(saved(&project), ["greet.yaml", "hail.yaml"]);
}

/// A workflow whose run fails.
fn broken() -> String {
    GREET
        .replace(
            "set: { words: 'Hello ${{ inputs.who }}' }",
            "fail: { code: MUTE, message: no voice }",
        )
        .replace("final_output: { words: '${{ memory.words }}' }\n", "")
}

#[test]
fn a_failed_run_is_repaired_and_run_again_with_its_inputs() {
    for by_id in [true, false] {
        let project = project();
        let mut server = project.serve();
        server.done("workflow.save", json!({ "manifest": broken() }));
        let run = json!({ "workflow_id": "greet", "inputs": { "who": "Eve" } });
        let failed = server.refused("workflow.run", run);
        let subject = if by_id {
            json!({ "execution_id": failed["execution_id"] })
        } else {
            json!({ "workflow_id": "greet" })
        };
        let mut model = Model::begin(&project, "workflow.repair_and_rerun", subject);
        let asked = model.finish("repair", json!({ "manifest": GREET.replace(": greet", ": g") }));
        asked.shows("no voice");
        let asked = model.finish("correct", json!({ "manifest": GREET }));
        asked.shows("keep it");
        model.finish("summarize", json!({ "summary": "Mended." }));
        let ended = model.ended("completed");
        assert_eq!(ended["final_output"]["run"], json!({ "words": "Hello Eve" }), "{ended}");
        assert_eq!(saved(&project), ["greet.yaml"]);
    }
}

#[test]
fn a_repair_that_is_abandoned_after_the_save_restores_the_file() {
    let project = project();
    let mut server = project.serve();
    let version = server.done("workflow.save", json!({ "manifest": broken() }))["version"].clone();
    let subject = json!({ "workflow_id": "greet", "manifest": GREET });
    let mut model = Model::begin(&project, "workflow.repair_and_rerun", subject);
    model.step("complete");
    let file = model.tool("workflow.get", json!({ "workflow_id": "greet" }));
    assert_ne!(file["version"], version);
    let cancel = json!({ "operation_id": model.id });
    model.tool("workflow.cancel", cancel);
    model.ended("abandoned");
    let file = model.tool("workflow.get", json!({ "workflow_id": "greet" }));
    assert_eq!(file["version"], version);
}

#[test]
fn a_run_that_fails_is_reported_and_the_file_stays() {
    let project = project();
    let mut model = author(&project, json!({ "who": "Flo" }));
    model.draft(&broken());
    let told = model.finish("report", json!({ "summary": "No voice." }));
    told.shows("no voice");
    let ended = model.ended("completed");
    assert_eq!(ended["final_output"]["summary"], "No voice.", "{ended}");
    assert_eq!(saved(&project), ["greet.yaml"]);
}

#[test]
fn a_workflow_is_executed_as_a_task() {
    let project = project();
    project.write("workflows/greet.yaml", GREET);
    let arguments = json!({ "workflow_id": "greet", "inputs": { "who": "Gus" } });
    let mut model = Model::begin(&project, "workflow.execute", arguments);
    let params = json!({ "taskId": model.id });
    let task = eventually("the end", || {
        let task = model.ask("tasks/get", params.clone())["result"].clone();
        (task["status"] == "completed").then_some(task)
    });
    let output = &task["result"]["structuredContent"]["final_output"];
    assert_eq!(output, &json!({ "words": "Hello Gus" }), "{task}");
}

#[test]
fn without_tasks_these_tools_say_what_to_do_instead() {
    let project = project();
    let mut server = project.serve();
    let calls = [
        ("workflow.execute", json!({ "workflow_id": "release" })),
        ("workflow.author_and_run", json!({ "goal": "g" })),
        ("workflow.repair_and_rerun", json!({ "workflow_id": "release" })),
    ];
    for (tool, arguments) in calls {
        let refused = server.refused(tool, arguments.clone());
        assert_eq!(
            (&refused["error_code"], &refused["category"], &refused["retryable"]),
            (&json!("TASK_CAPABILITY_REQUIRED"), &json!("execution"), &json!(false)),
            "{refused}"
        );
        text(&refused["suggested_action"])
            .shows("without one call workflow.save, then workflow.run");
        let mut params = json!({ "name": tool, "arguments": arguments });
        params["_meta"] = stateless_with(json!({}));
        let mut modern = project.serve();
        let error = modern.request("tools/call", params)["error"].clone();
        assert_eq!(error["code"], -32021, "{error}");
        assert_eq!(error["data"]["error_code"], "TASK_CAPABILITY_REQUIRED", "{error}");
        let required = &error["data"]["requiredCapabilities"]["extensions"];
        assert_eq!(required, &json!({ TASKS: {} }), "{error}");
    }
    assert!(server.done("execution.list", json!({}))["executions"].as_array().unwrap().is_empty());
}

#[test]
fn the_activities_of_the_flows_are_for_them_alone() {
    let project = project();
    let mut server = project.serve();
    for activity in ["midex.validate", "midex.save", "midex.resolve_inputs"] {
        let manifest =
            format!("workflow: w\ndescription: d\nsteps:\n  - {{ id: a, activity: {activity} }}\n");
        let report = server.done("workflow.validate", json!({ "manifest": manifest }));
        assert_eq!(report["violations"][0]["rule"], "unknown_activity", "{report}");
    }
}
