//! `command.list` and `provider.list` (S2, 3.4): what can be called, with its arguments. A workflow is a command too.

use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, author::Class, count, text, unfit, workflow_list::fitting};
use crate::{
    app::{App, CommandMeant, WORKFLOW_COMMAND},
    catalog::{
        Catalog, Named, Set,
        document::Provider,
        operation::{Location, Operation},
    },
    domain::view,
    error::{Error, Result},
    limits,
    registry::WorkflowEntry,
};

pub(super) fn specs() -> [ToolSpec; 2] {
    let list = |name: &str| {
        json!({
            "type": "object",
            "properties": { name: { "type": "array", "items": { "type": "object" } } },
            "required": ["success"]
        })
    };
    let word = json!({ "type": "string", "maxLength": limits::WORD_BYTES_MAX });
    let commands = json!({
        "query": word,
        "vendor": word,
        "catalog": word,
        "limit": { "type": "integer", "minimum": 1, "maximum": limits::COMMANDS_LISTED_MAX },
        "cursor": { "type": "string", "maxLength": limits::WORD_BYTES_MAX },
        "id": { "type": "string", "description": "All about one" }
    });
    [
        ToolSpec::new(
            (
                "command.list",
                "Find commands",
                "Finds operations of catalogs, and workflows, by words.",
            ),
            || acts(true, false, true),
            (commands, &[], list("commands")),
            |app, arguments| Box::pin(commands_listed(app, arguments)),
        )
        .of(Class::Safe),
        ToolSpec::new(
            (
                "provider.list",
                "List providers",
                "Lists commands that answer with choices for arguments.",
            ),
            || acts(true, false, true),
            (json!({ "query": word }), &[], list("providers")),
            |app, arguments| {
                Box::pin(async move {
                    let query = text(&arguments, "query").unwrap_or_default().to_lowercase();
                    let mut providers = providers(app).await?;
                    let words: Vec<_> = query.split_whitespace().collect();
                    providers.retain(|one| {
                        words
                            .iter()
                            .all(|word| one["id"].to_string().to_lowercase().contains(word))
                    });
                    Ok(json!({ "success": true, "providers": providers }))
                })
            },
        )
        .of(Class::Safe),
    ]
}

async fn commands_listed(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    if let Some(id) = text(&arguments, "id") {
        return Ok(json!({ "success": true, "command": everything(app, id).await? }));
    }
    let limit = count(&arguments, "limit").map_or(limits::COMMANDS_LISTED, |limit| limit as usize);
    let from: usize = match text(&arguments, "cursor").map(str::parse) {
        None => 0,
        Some(Ok(from)) => from,
        Some(Err(_)) => {
            let message =
                "the cursor is none of this list; expected the next_cursor of the page before";
            return Err(unfit("command.list", "/cursor", "format", message));
        }
    };
    let [query, vendor, catalog] =
        ["query", "vendor", "catalog"].map(|name| text(&arguments, name).map(str::to_owned));
    let query = query.unwrap_or_default();
    let has_query = !query.trim().is_empty();
    // Workflows have no catalog.
    let workflows = match vendor.as_deref().or(catalog.as_deref()) {
        None | Some(WORKFLOW_COMMAND) => workflows(app, &query).await?,
        Some(_) => Vec::new(),
    };
    let wanted = (from + limit + 1).saturating_sub(workflows.len());
    let (operations, count) = read(app, move |set| {
        let is_meant = |of: &Option<String>, names: &[&str]| {
            of.as_ref()
                .is_none_or(|of| names.iter().any(|name| name.eq_ignore_ascii_case(of)))
        };
        let counts = |one: &Catalog| {
            is_meant(&vendor, &[one.vendor()])
                && is_meant(&catalog, &[&one.id, &one.settings.title])
        };
        let found: Vec<_> = if has_query {
            set.search(&query, usize::MAX, counts)
        } else {
            set.all(counts).collect()
        };
        let shown = found.iter().take(wanted);
        let shown = shown.filter_map(|named| entry(set, named));
        Ok((shown.collect::<Vec<_>>(), found.len()))
    })
    .await?;
    let total = workflows.len() + count;
    // Workflows are few. What a person looks for by words is an operation first.
    let commands = if has_query {
        [operations, workflows].concat()
    } else {
        [workflows, operations].concat()
    };
    let page: Vec<_> = commands.iter().skip(from).take(limit).collect();
    let page = fitting(&page, |command| Value::clone(command));
    let end = from + page.len();
    let mut answer = json!({ "success": true, "commands": page, "total": total });
    if commands.len() > end {
        answer["next_cursor"] = json!(end.to_string());
    }
    Ok(answer)
}

/// Reads the catalogs off the workers; there are none where the program brings operations of its own.
async fn read<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Set) -> Result<T> + Send + 'static,
) -> Result<T> {
    match app.catalogs() {
        Ok(_) => {
            app.with_catalogs(move |catalogs| work(&catalogs.current()))
                .await
        }
        Err(_) => work(&Set::default()),
    }
}

/// Some commands, in the order of workflows, catalogs and names, and the id of the last one where there are more: those
/// after the one of the id `after`, and where there is a query those that fit it best.
pub(in crate::mcp) async fn page(
    app: &App,
    query: Option<&str>,
    after: Option<String>,
    limit: usize,
) -> Result<(Vec<Value>, Option<String>)> {
    let query = query.unwrap_or_default().to_owned();
    let first = workflows(app, &query).await?;
    read(app, move |set| {
        let operations: Vec<_> = if query.is_empty() {
            set.all(|_| true).collect()
        } else {
            set.search(&query, limits::COMMAND_CATALOG_MAX, |_| true)
        };
        let first = first.into_iter().map(|one| {
            (
                one["id"].as_str().unwrap_or_default().to_owned(),
                Some(one),
                None,
            )
        });
        let ids = operations
            .into_iter()
            .map(|named| (set.id_of(&named), None, Some(named)));
        let all = first
            .chain(ids)
            .skip_while(|(id, ..)| after.as_ref().is_some_and(|after| after != id));
        let mut rest = all.skip(usize::from(after.is_some()));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let last = page
            .last()
            .map(|(id, ..)| id.clone())
            .filter(|_| rest.next().is_some());
        let shown = page
            .into_iter()
            .filter_map(|(_, shown, named)| shown.or_else(|| entry(set, &named?)));
        Ok((shown.collect(), last))
    })
    .await
}

async fn workflows(app: &App, query: &str) -> Result<Vec<Value>> {
    let query = query.to_lowercase();
    app.look_into_registry(move |registry| {
        let entries = registry.workflows();
        let entries = entries.filter(|entry| entry.speaks_of(query.split_whitespace()));
        entries.filter_map(command).collect()
    })
    .await
}

/// What can provide values.
pub(in crate::mcp) async fn providers(app: &App) -> Result<Vec<Value>> {
    read(app, |set| {
        let books = set.catalogs().iter().filter(|one| one.settings.enabled);
        let notes = books.filter_map(|one| Some((one, one.book.as_ref().ok()?.notes().ok()?)));
        let providers = notes.flat_map(|(one, notes)| {
            let vendor = one.vendor().to_owned();
            notes
                .providers
                .providers
                .into_iter()
                .map(move |provider| provider_of(&vendor, &provider))
        });
        Ok(providers.take(limits::COMMAND_CATALOG_MAX).collect())
    })
    .await
}

fn provider_of(vendor: &str, provider: &Provider) -> Value {
    let mut shown = json!(provider);
    shown["id"] = json!(format!("{vendor} {}", provider.id));
    shown
}

/// An operation as lists show it.
fn entry(set: &Set, named: &Named) -> Option<Value> {
    let book = named.catalog.book.as_ref().ok()?;
    Some(listed(set, named, &book.bare(named.place).ok()?))
}

fn listed(set: &Set, named: &Named, operation: &Operation) -> Value {
    let arguments = operation.parameters.iter().map(|parameter| {
        let kind = parameter.schema.get("type").cloned().unwrap_or(Value::Null);
        let location = match parameter.location {
            Location::Path => "path",
            Location::Query => "query",
            Location::Header => "header",
            Location::Cookie => "cookie",
        };
        json!({ "name": parameter.argument, "in": location, "type": kind, "required": parameter.is_required })
    });
    let mut shown = json!({
        "id": set.id_of(named),
        "aliases": operation.aliases,
        "catalog_id": named.catalog.id,
        "vendor": named.catalog.vendor(),
        "summary": operation.summary,
        "class": named.class(),
        "execution_type": "http",
        "http_method": operation.method.as_str(),
        "path": operation.path,
        "arguments": arguments.collect::<Vec<_>>(),
    });
    if let Some(body) = &operation.body {
        let media_type = body.contents.first().map(|content| &content.media_type);
        shown["body"] = json!({ "media_type": media_type, "required": body.is_required });
    }
    if operation.is_deprecated {
        shown["deprecated"] = json!(true);
    }
    if let Some(why) = &operation.uncallable {
        shown["uncallable"] = json!(why);
    }
    shown
}

/// All that is known of one command.
async fn everything(app: &App, id: &str) -> Result<Value> {
    let named = match app.command_meant(id).await?.0 {
        CommandMeant::Operation(named) => named,
        CommandMeant::Workflow(name) => {
            let shown =
                app.look_into_registry(move |registry| registry.workflow(&name).and_then(command));
            return Ok(shown.await?.unwrap_or_default());
        }
    };
    read(app, move |set| {
        whole(set, &named).map_err(|error| {
            Error::internal("a catalog cannot be read").because(std::io::Error::other(error))
        })
    })
    .await
}

fn whole(set: &Set, named: &Named) -> Result<Value, String> {
    let operation = named.catalog.operation(named.place)?;
    let mut shown = listed(set, named, &operation);
    let parameters = operation.parameters.iter();
    let properties: Map<_, _> = parameters
        .clone()
        .map(|parameter| {
            let mut schema = parameter.schema.clone();
            if let Some(schema) = schema
                .as_object_mut()
                .filter(|_| !parameter.description.is_empty())
            {
                schema
                    .entry("description")
                    .or_insert_with(|| json!(parameter.description));
            }
            (parameter.argument.clone(), schema)
        })
        .collect();
    let required = parameters.filter(|parameter| parameter.is_required);
    let required: Vec<_> = required.map(|parameter| &parameter.argument).collect();
    let content = operation
        .body
        .as_ref()
        .and_then(|body| body.contents.first());
    let notes = named.catalog.book.as_ref().map_err(Clone::clone)?.notes();
    let uses = notes.map(|notes| notes.providers.uses).unwrap_or_default();
    let uses = uses
        .into_iter()
        .filter(|one| one.operation == operation.name);
    shown["description"] = json!(operation.description);
    shown["input_schema"] = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false
    });
    shown["body_schema"] = content.map_or(Value::Null, |content| content.schema.clone());
    if let Some(body) = operation
        .body
        .as_ref()
        .filter(|body| body.contents.len() > 1)
    {
        let each = body.contents.iter();
        let each = each.map(|content| (content.media_type.clone(), content.schema.clone()));
        shown["body_schemas"] = Value::Object(each.collect());
    }
    shown["output_schema"] = operation.output.clone().unwrap_or_default();
    shown["security"] = json!(operation.security);
    shown["providers"] = uses.map(|one| json!({ "argument": one.argument, "provider": format!("{} {}", named.catalog.vendor(), one.provider) })).collect();
    shown["pagination"] = json!(operation.pagination);
    shown["example"] = example(&shown);
    Ok(shown)
}

/// One call, with the arguments that are required.
fn example(shown: &Value) -> Value {
    let tool = match shown["class"].as_str() {
        Some("safe") => "command.run_safe",
        Some("standard") => "command.run",
        _ => "command.run_destructive",
    };
    let arguments = shown["arguments"].as_array().into_iter().flatten();
    let required = arguments.filter(|argument| argument["required"] == true);
    let with: Map<_, _> = required
        .map(|argument| {
            let value = match argument["type"].as_str() {
                Some("integer" | "number") => json!(1),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => json!("…"),
            };
            (
                argument["name"].as_str().unwrap_or_default().to_owned(),
                value,
            )
        })
        .collect();
    json!({ "tool": tool, "arguments": { "id": shown["id"], "with": with } })
}

/// A workflow as a command, where it can be started.
pub(in crate::mcp) fn command(entry: &WorkflowEntry) -> Option<Value> {
    let workflow = &entry.value.as_ref()?.workflow;
    let arguments = workflow.inputs.iter().flat_map(view::inputs);
    let arguments = arguments.map(
        |input| json!({ "name": input.name, "required": input.required, "schema": input.schema }),
    );
    Some(json!({
        "id": format!("{WORKFLOW_COMMAND} {}", workflow.name),
        "summary": workflow.description,
        "execution_type": "workflow",
        "http_method": null,
        "class": "standard",
        "arguments": arguments.collect::<Vec<_>>(),
        "body": null,
    }))
}
