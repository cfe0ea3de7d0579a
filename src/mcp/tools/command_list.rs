//! `command.list` and `provider.list` (S2). Until there are catalogs the commands are the workflows alone.

use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, author::Class, text};
use crate::{app::App, domain::view, error::Result, registry::WorkflowEntry};

pub(super) fn specs() -> [ToolSpec; 2] {
    let list = |name: &str| {
        json!({
            "type": "object",
            "properties": { name: { "type": "array", "items": { "type": "object" } } },
            "required": ["success", name]
        })
    };
    let query = json!({ "query": { "type": "string", "maxLength": 200 } });
    [
        ToolSpec::new(
            (
                "command.list",
                "List commands",
                "Lists what can be called as a command, with its arguments: each workflow is one.",
            ),
            || acts(true, false, true),
            (query.clone(), &[], list("commands")),
            |app, arguments| Box::pin(commands(app, arguments)),
        )
        .of(Class::Safe),
        ToolSpec::new(
            (
                "provider.list",
                "List providers",
                "Lists what can provide the values of inputs: nothing yet.",
            ),
            || acts(true, false, true),
            (query, &[], list("providers")),
            |_, _| Box::pin(async { Ok(json!({ "success": true, "providers": providers() })) }),
        )
        .of(Class::Safe),
    ]
}

async fn commands(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let query = text(&arguments, "query").unwrap_or_default().to_lowercase();
    app.look_into_registry(move |registry| {
        let entries = registry.workflows();
        let entries = entries.filter(|entry| entry.speaks_of(query.split_whitespace()));
        let commands = entries.filter_map(command);
        json!({ "success": true, "commands": commands.collect::<Vec<_>>() })
    })
    .await
}

/// What can provide values.
pub(in crate::mcp) fn providers() -> Value {
    json!([])
}

/// A workflow as a command, where it can be started.
pub(in crate::mcp) fn command(entry: &WorkflowEntry) -> Option<Value> {
    let workflow = &entry.value.as_ref()?.workflow;
    let arguments = workflow.inputs.iter().flat_map(view::inputs);
    let arguments = arguments.map(
        |input| json!({ "name": input.name, "required": input.required, "schema": input.schema }),
    );
    Some(json!({
        "id": format!("workflow {}", workflow.name),
        "summary": workflow.description,
        "execution_type": "workflow",
        "http_method": null,
        // No step can take anything away yet.
        "class": "standard",
        "arguments": arguments.collect::<Vec<_>>(),
        "body": null,
    }))
}
