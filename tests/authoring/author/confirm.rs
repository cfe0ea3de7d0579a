//! What cannot be undone, and a file that the caller has not read, are asked for: in both eras, through a relay too.

use serde_json::{Value, json};

use super::TRIAGE;
use midex_test::{Client, Server, project::Project};

/// The user's answer to a question of a form.
fn says(decision: &str) -> Value {
    match decision {
        "decline" | "cancel" => json!({ "action": decision }),
        decision => json!({ "action": "accept", "content": { "decision": decision } }),
    }
}

/// The parameters of a call of a stateless client that can ask its user.
fn stateless(tool: &str, arguments: &Value, more: &Value) -> Value {
    let mut call = json!({ "name": tool, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } }
    } });
    for (name, value) in more.as_object().unwrap() {
        call[name] = value.clone();
    }
    call
}

/// A call of a client of the initialize era whose user answers so: the question, and what the call came to.
fn asked(server: &mut Server, tool: &str, arguments: &Value, decision: &str) -> (String, Value) {
    let call = server.post("tools/call", json!({ "name": tool, "arguments": arguments }));
    let question = loop {
        let line = server.next_line();
        assert_ne!(line["id"], call, "nobody is asked: {line}");
        if line["method"] == "elicitation/create" {
            break line;
        }
    };
    server.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": says(decision) }));
    loop {
        let line = server.next_line();
        if line["id"] == call {
            let message = question["params"]["message"].as_str().unwrap().to_owned();
            return (message, line["result"]["structuredContent"].clone());
        }
    }
}

/// The same of a stateless client.
fn asked_stateless(
    server: &mut Server,
    tool: &str,
    arguments: &Value,
    decision: &str,
) -> (String, Value) {
    let needs =
        server.request("tools/call", stateless(tool, arguments, &json!({})))["result"].take();
    assert_eq!(needs["resultType"], "input_required", "{needs}");
    let (key, question) = needs["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let answers = json!({ "inputResponses": { (key): says(decision) } });
    let answer = server.request("tools/call", stateless(tool, arguments, &answers));
    let message = question["params"]["message"].as_str().unwrap().to_owned();
    (message, answer["result"]["structuredContent"].clone())
}

type Ask = fn(&mut Server, &str, &Value, &str) -> (String, Value);

/// Servers of one project with how their clients are asked: the first owns the directory, the others relay.
fn servers(project: &Project) -> Vec<(Server, Ask)> {
    let mut owner = project.serve_asking();
    owner.done("execution.list", json!({}));
    let bare = || Server::run(project.command(&["serve"]));
    vec![(owner, asked as Ask), (project.serve_asking(), asked), (bare(), asked_stateless)]
}

#[test]
fn a_deletion_needs_the_user_s_yes() {
    let project = Project::new(&[]);
    let mut writer = project.serve_asking();
    let file = project.path("home/.config/midex/workflows/triage.yaml");
    for (mut server, ask) in servers(&project) {
        writer.done("workflow.save", json!({ "manifest": TRIAGE }));
        let arguments = json!({ "workflow_id": "triage" });
        for decision in ["no", "decline", "cancel"] {
            let (message, refused) = ask(&mut server, "workflow.delete", &arguments, decision);
            assert!(message.contains(&file.display().to_string()), "{message}");
            assert_eq!(refused["error_code"], "CONFIRMATION_REQUIRED", "{refused}");
            let action = refused["suggested_action"].as_str().unwrap();
            assert!(!action.contains("confirm"), "nobody is told to go past the user: {action}");
            assert!(file.exists());
        }
        let (_, deleted) = ask(&mut server, "workflow.delete", &arguments, "yes");
        assert_eq!(deleted["deleted"], true, "{deleted}");
        assert!(!file.exists());
    }
}

#[test]
fn a_purge_needs_the_user_s_yes() {
    let project = Project::new(&[]);
    let mut writer = project.serve_asking();
    for (mut server, ask) in servers(&project) {
        let manifest =
            "workflow: w\ndescription: d\ninputs: { key: {} }\nsteps: [{ id: a, set: { b: 1 } }]\n";
        let run = json!({ "manifest": manifest, "inputs": { "key": "hunter2" } });
        let id = writer.done("workflow.run", run)["execution_id"].take();
        let mut inputs = || writer.current(id.as_str().unwrap())["inputs"].take();
        let arguments = json!({ "workflow_id": "w", "input_keys": ["key"] });
        for decision in ["no", "decline", "cancel"] {
            let (message, refused) =
                ask(&mut server, "workflow.purge_history", &arguments, decision);
            let question = "Remove the values of `key` from 1 ended execution of `w` for good?";
            assert_eq!(message, question);
            assert_eq!(refused["error_code"], "CONFIRMATION_REQUIRED", "{refused}");
            let action = refused["suggested_action"].as_str().unwrap();
            assert!(!action.contains("confirm"), "nobody is told to go past the user: {action}");
            assert_eq!(inputs(), json!({ "key": "hunter2" }));
        }
        let (_, purged) = ask(&mut server, "workflow.purge_history", &arguments, "yes");
        assert_eq!((&purged["executions"], &purged["removed_entries"]), (&json!(1), &json!(1)));
        assert_eq!(inputs(), json!({}));
    }
}

#[test]
fn a_deletion_of_an_execution_needs_the_user_s_yes() {
    let project = Project::new(&[]);
    let mut writer = project.serve();
    for (at, (mut server, ask)) in servers(&project).into_iter().enumerate() {
        let id = format!("one-{at}");
        writer.begin("bug-fix", &id);
        let arguments = json!({ "execution_id": id });
        // Nobody is asked about an execution that cannot be deleted.
        let refused = writer.refused("execution.delete", arguments.clone());
        assert_eq!(refused["error_code"], "EXECUTION_STILL_OPEN", "{refused}");
        writer.change("abandon", &id);
        for decision in ["no", "decline", "cancel"] {
            let (message, refused) = ask(&mut server, "execution.delete", &arguments, decision);
            let question = format!(
                "Delete the execution `{id}` of `bug-fix`, which is abandoned, with its history and artifacts for good?"
            );
            assert_eq!(message, question);
            assert_eq!(refused["error_code"], "CONFIRMATION_REQUIRED", "{refused}");
            let action = refused["suggested_action"].as_str().unwrap();
            assert!(!action.contains("confirm"), "nobody is told to go past the user: {action}");
            assert_eq!(writer.status(&id)["state"], "abandoned");
        }
        let (_, deleted) = ask(&mut server, "execution.delete", &arguments, "yes");
        assert_eq!(deleted["deleted"], json!([id]), "{deleted}");
        let gone = writer.refused("execution.delete", arguments);
        assert_eq!(gone["error_code"], "EXECUTION_DELETED", "{gone}");
    }
}

#[test]
fn a_client_that_cannot_ask_is_refused_a_deletion_until_its_user_wants_it() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    server.begin("bug-fix", "one");
    server.change("abandon", "one");
    server.done("workflow.save", json!({ "manifest": TRIAGE }));
    let action = |refused: &Value| refused["suggested_action"].as_str().unwrap().to_owned();
    let refused = server.refused("execution.delete", json!({ "execution_id": "one" }));
    assert_eq!(refused["error_code"], "CONFIRMATION_REQUIRED", "{refused}");
    assert_eq!(refused["context"]["execution_id"], "one", "{refused}");
    assert!(
        !refused.to_string().contains("\"confirm"),
        "nobody is told to go past the user: {refused}"
    );
    let of_workflow = server.refused("workflow.delete", json!({ "workflow_id": "triage" }));
    let said = action(&of_workflow).replace("workflow.delete", "execution.delete");
    assert_eq!(action(&refused), said);
    assert_eq!(server.status("one")["state"], "abandoned");
    let tools = server.request("tools/list", json!({}))["result"]["tools"].take();
    let tools = tools.as_array().unwrap().clone();
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    let confirm = |name: &str| tool(name)["inputSchema"]["properties"]["confirm"].clone();
    assert_eq!(confirm("execution.delete"), confirm("workflow.delete"));
    assert_eq!(tool("execution.delete")["annotations"]["destructiveHint"], true);
    let description = tool("execution.delete")["description"].as_str().unwrap();
    assert!(!description.contains("confirm"), "{description}");
    let done = server.done("execution.delete", json!({ "execution_id": "one", "confirm": true }));
    assert_eq!(done["deleted"], json!(["one"]), "{done}");
}

#[test]
fn a_yes_is_of_the_file_that_was_shown() {
    let project = Project::new(&[]);
    let mut server = Server::run(project.command(&["serve"]));
    let mut call = |tool: &str, arguments: Value, more: Value| {
        let answer = server.request("tools/call", stateless(tool, &arguments, &more));
        answer["result"].clone()
    };
    call("workflow.save", json!({ "manifest": TRIAGE }), json!({}));
    let arguments = json!({ "workflow_id": "triage" });
    let needs = call("workflow.delete", arguments.clone(), json!({}));
    let key = needs["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let version =
        call("workflow.get", arguments.clone(), json!({}))["structuredContent"]["version"].clone();
    let changed = json!({ "manifest": format!("{TRIAGE}# more\n"), "expected_version": version });
    call("workflow.save", changed, json!({}));
    let again =
        call("workflow.delete", arguments, json!({ "inputResponses": { (key): says("yes") } }));
    assert_eq!(again["resultType"], "input_required", "{again}");
    assert!(project.path("home/.config/midex/workflows/triage.yaml").exists());
}

#[test]
fn a_file_that_the_caller_has_not_read_is_asked_for_where_that_can_be() {
    let project = Project::new(&[]);
    let mut writer = project.serve();
    writer.done("workflow.save", json!({ "manifest": TRIAGE }));
    let file = project.path("home/.config/midex/workflows/triage.yaml");
    for (at, (mut server, ask)) in servers(&project).into_iter().enumerate() {
        let text = format!("{TRIAGE}# {at}\n");
        let arguments = json!({ "manifest": text, "overwrite": true });
        let before = std::fs::read_to_string(&file).unwrap();
        let (_, refused) = ask(&mut server, "workflow.save", &arguments, "no");
        assert_eq!(refused["error_code"], "CONFIRMATION_REQUIRED", "{refused}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
        let (message, saved) = ask(&mut server, "workflow.save", &arguments, "yes");
        assert!(message.starts_with("Replace the workflow `triage`"), "{message}");
        assert_eq!(saved["created"], false, "{saved}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    // A client that cannot ask is taken at its word.
    writer.done("workflow.save", json!({ "manifest": TRIAGE, "overwrite": true }));
}
