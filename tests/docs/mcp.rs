//! `docs/mcp.md` is what a server lists, written out.

use std::fmt::Write as _;

use serde_json::{Value, json};

use midex_test::{
    Client, list_of,
    project::{Project, each, list, text},
    reader::Reader,
};

const HEAD: &str = "\
# MCP

<!-- Written from what the server lists: `MIDEX_WRITE_DOCS=1 cargo test --test docs mcp` writes it anew. -->

What `midex serve` offers to an agent: [tools](#tools) that change something, [resources](#resources) that show something, and [prompts](#prompts) that a
person picks. [Hosts](clients.md) says how to connect one; a refusal carries a code of [errors](errors.md) and names the one right next call.

Any resource can be subscribed to: a client is told when it shows something else, and when definitions came or went. Each workflow and each agent is
listed as a resource of its own too, and `skills/list` names them all as skills (SEP-2640).

A client that declares the extension `io.modelcontextprotocol/tasks` (protocol 2026-07-28) gets a task from `workflow.run`, `workflow.execute`,
`workflow.author_and_run` and `workflow.repair_and_rerun`. `taskId` is the id of the execution, so a task survives restarts, and `tasks/get`,
`tasks/update` and `tasks/cancel` work for every execution. The client polls at `pollIntervalMs`; no notification is sent. `statusMessage` and
`_meta {run_id, step, progress, summary}` say where the run stands. While a person has to answer, the task is `input_required`, with every open question.
A task is `completed` as soon as a step is open for a model: its result is the answer of `workflow.run`, with the token in `awaiting`, and the model goes on
with `workflow.next_step`. If the client offers sampling, the turn is a `sampling/createMessage` request of the task instead, and its answer is the output
of the step. Clients without tasks get that answer from `workflow.run` after 25 seconds at the latest, with the id to wait for.

No answer holds more than 25,000 bytes, except those of tools that say so in `_meta[\"anthropic/maxResultSizeChars\"]`. What is longer comes in parts:
`workflow.read` has the address of the next one in `next`, `resources/read` of a text in `_meta.next` of the contents. There JSON stays whole, so that a
program can parse it, and `_meta.parts` is the address of its first part.

Over standard streams, clients of protocol version 2025-11-25 can call a tool whose `taskSupport` says so as a task (`tools/call` with `task`). The task is
the execution: `taskId` is its id, and `ttl` is `null`, since it lives as long. While it waits for the user, the form comes as `elicitation/create`; a form
that the user declines comes again only over a new connection. `tasks/result` waits for the end. A task that reaches a step of the model is `completed`,
with the step in `awaiting` of its result. `tasks/list` lists the executions of the project, and every client of this user can ask for any of them. Over
HTTP such a call is answered like any other.

";

const SETS: [&str; 4] = ["run", "author", "operate", "catalog"];

fn tools(project: &Project, flags: &[&str]) -> Vec<Value> {
    Reader::tools_with_tasks(project, flags)
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// What a value of a schema may be.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values = list_of(values, |value| format!("`{}`", text(value)));
        return values.join(", ");
    }
    match &schema["type"] {
        Value::String(one) if one == "array" && schema["items"]["type"].is_string() => {
            format!("list of {}", text(&schema["items"]["type"]))
        }
        Value::String(one) => one.clone(),
        Value::Array(many) => many.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

fn arguments(schema: &Value, page: &mut String) {
    let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        page.push_str("It takes no arguments.\n\n");
        return;
    };
    page.push_str("| argument | type | what it is |\n|---|---|---|\n");
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in properties {
        let must = if required.contains(&json!(name)) { ", required" } else { "" };
        let mut what = property["description"].as_str().unwrap_or_default().to_owned();
        if let Some(default) = property.get("default") {
            let gap = if what.is_empty() { "" } else { "; " };
            let _ = write!(what, "{gap}`{default}` where it is left out");
        }
        let kind = kind(property) + must;
        let _ = writeln!(page, "| `{name}` | {} | {} |", cell(&kind), cell(&what));
    }
    page.push('\n');
}

fn page() -> String {
    let project = Project::new(&[]);
    let mut server = project.serve();
    let mut page = HEAD.to_owned();
    let all = tools(&project, &[]);
    let sets = SETS.map(|set| (set, each(&tools(&project, &["--toolsets", set]), "name")));

    page.push_str("## Toolsets\n\n`midex serve --toolsets run,operate` offers a part of the tools, and of prompts and resources with them: ");
    page.push_str("`midex://authoring/…` is of `author`, skills are of `run`. Without the flag all are offered.\n`author` and `operate` hand out tokens, which `workflow.next_step` of the toolset `run` takes.\n\n| toolset | its tools |\n|---|---|\n");
    for (set, names) in &sets {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(page, "| `{set}` | {} |", names.join(", "));
    }

    page.push_str("\n## Tools\n\n");
    for tool in &all {
        let name = text(&tool["name"]);
        let of: Vec<_> =
            sets.iter().filter(|(_, names)| names.iter().any(|one| one == name)).collect();
        let of: Vec<_> = of.iter().map(|(set, _)| format!("`{set}`")).collect();
        let notes = &tool["annotations"];
        let class = match (&notes["readOnlyHint"], &notes["destructiveHint"]) {
            (Value::Bool(true), _) => "reads only",
            (_, Value::Bool(true)) => "takes something away, or ends it",
            _ => "changes something",
        };
        let what = text(&tool["description"]);
        let _ = write!(page, "### {name}\n\n{what}\n\n*Toolset {}; {class}.*\n\n", of.join(", "));
        arguments(&tool["inputSchema"], &mut page);
    }

    page.push_str("## Resources\n\n| address | what it shows |\n|---|---|\n");
    let resources = server.request("resources/list", json!({}));
    let templates = server.request("resources/templates/list", json!({}));
    // Each definition that is found is listed too; the templates stand for them.
    let found = |uri: &str| {
        uri.contains("/workflow_details/") || uri.contains("/agent/") || uri.starts_with("skill:")
    };
    for resource in list(&resources["result"]["resources"]) {
        let uri = text(&resource["uri"]);
        if !found(uri) {
            let _ = writeln!(page, "| `{uri}` | {} |", cell(text(&resource["description"])));
        }
    }
    for template in list(&templates["result"]["resourceTemplates"]) {
        let uri = text(&template["uriTemplate"]);
        let _ = writeln!(page, "| `{uri}` | {} |", cell(text(&template["description"])));
    }

    page.push_str("\n## Prompts\n\nEach workflow is a prompt too, `run.WORKFLOW`, whose arguments are its inputs.\n\n| prompt | what it does | arguments |\n|---|---|---|\n");
    for prompt in list(&server.request("prompts/list", json!({}))["result"]["prompts"]) {
        let name = text(&prompt["name"]);
        if name.starts_with("run.") {
            continue;
        }
        let arguments = prompt["arguments"].as_array().cloned().unwrap_or_default();
        let arguments: Vec<_> = arguments
            .iter()
            .map(|one| {
                let must = if one["required"] == true { "" } else { " (optional)" };
                let what = one["description"].as_str().unwrap_or_default();
                format!("`{}`{must}: {what}", text(&one["name"]))
            })
            .collect();
        let what = prompt["description"].as_str().unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {} | {} |", cell(what), cell(&arguments.join("; ")));
    }
    page
}

#[test]
fn the_page_of_mcp_is_what_the_server_lists() {
    super::hold("docs/mcp.md", &page());
}
