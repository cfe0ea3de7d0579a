//! `command.list` and `provider.list`: callable operations with their arguments. Workflows are listed as commands too.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{catalog::list_security_schemes, workflow_list::fit_in_answer};
use midex_catalog::{
    Catalog, CatalogOperation, CatalogSet,
    document::Provider,
    media_type::BodyFormat,
    operation::{BodyContent, Operation},
};
use midex_domain::{
    error::{Code, Error, Result, Violation, repeat_call},
    limits,
    schema::sample_value,
    view,
};
use midex_registry::{Registry, WorkflowEntry};
use midex_server::app::{App, CommandMeant, WORKFLOW_COMMAND, compute_workflow_class};

#[derive(Deserialize, JsonSchema)]
pub(super) struct CommandQuery {
    #[schemars(length(max = limits::WORD_BYTES_MAX))]
    query: Option<String>,
    #[schemars(length(max = limits::WORD_BYTES_MAX))]
    vendor: Option<String>,
    #[schemars(length(max = limits::WORD_BYTES_MAX))]
    catalog: Option<String>,
    #[schemars(range(min = 1, max = limits::COMMANDS_LISTED_MAX))]
    limit: Option<usize>,
    #[schemars(length(max = limits::WORD_BYTES_MAX + limits::OPERATION_NAME_BYTES_MAX))]
    cursor: Option<String>,
    /// All about one
    id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ProviderQuery {
    #[schemars(length(max = limits::WORD_BYTES_MAX))]
    query: Option<String>,
}

pub(super) async fn list_providers(app: &App, arguments: ProviderQuery) -> Result<Value> {
    let query = arguments.query.unwrap_or_default().to_lowercase();
    let mut providers = list_value_providers(app).await?;
    providers.retain(|one| {
        let id = one["id"].to_string().to_lowercase();
        query.split_whitespace().all(|word| id.contains(word))
    });
    Ok(json!({ "providers": providers }))
}

pub(super) async fn list_commands(app: &App, arguments: CommandQuery) -> Result<Value> {
    if let Some(id) = arguments.id {
        return Ok(json!({ "command": describe_command(app, &id).await? }));
    }
    let filter = CommandFilter {
        query: arguments.query.unwrap_or_default(),
        vendor: arguments.vendor,
        catalog: arguments.catalog,
        after: arguments.cursor,
        limit: arguments.limit.unwrap_or(limits::COMMANDS_LISTED),
    };
    let (commands_found, last, total) = read_command_page(app, filter).await?;
    let commands = fit_in_answer(&commands_found, Value::clone);
    let id = |one: &Value| one["id"].as_str().map(str::to_owned);
    let last =
        if commands.len() < commands_found.len() { commands.last().and_then(id) } else { last };
    let mut answer = json!({ "commands": commands, "total": total });
    if let Some(last) = last {
        answer["next_cursor"] = json!(last);
    }
    Ok(answer)
}

/// Reads the catalogs, off the async worker threads. Uses an empty set if the app has no catalogs.
async fn read_catalogs<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&CatalogSet) -> Result<T> + Send + 'static,
) -> Result<T> {
    match app.catalogs() {
        Ok(_) => app.with_catalogs(move |catalogs| work(&catalogs.current_catalogs())).await,
        Err(_) => work(&CatalogSet::default()),
    }
}

/// The filters of a list of commands.
#[derive(Default)]
pub(crate) struct CommandFilter {
    /// Search words. Empty for all commands.
    pub(crate) query: String,
    pub(crate) vendor: Option<String>,
    pub(crate) catalog: Option<String>,
    /// The id of the last command on the previous page.
    pub(crate) after: Option<String>,
    pub(crate) limit: usize,
}

/// A page of commands, the id of the last one if there are more, and the total number. Without a query they are ordered
/// by workflows, catalogs and names; with a query, best match first.
///
/// # Errors
/// `ARGUMENTS_INVALID` if the last command of the previous page no longer exists, since the next page cannot be located
/// then.
pub(crate) async fn read_command_page(
    app: &App,
    filter: CommandFilter,
) -> Result<(Vec<Value>, Option<String>, usize)> {
    let has_query = !filter.query.trim().is_empty();
    // Workflows belong to no catalog.
    let workflows = match filter.vendor.as_deref().or(filter.catalog.as_deref()) {
        None | Some(WORKFLOW_COMMAND) => find_matching_workflows(app, &filter.query).await?,
        Some(_) => Vec::new(),
    };
    read_catalogs(app, move |set| {
        let is_selected = |of: &Option<String>, names: &[&str]| {
            of.as_ref().is_none_or(|of| names.iter().any(|name| name.eq_ignore_ascii_case(of)))
        };
        let is_included = |one: &Catalog| {
            is_selected(&filter.vendor, &[one.vendor()])
                && is_selected(&filter.catalog, &[&one.id, &one.settings.title])
        };
        let operations: Vec<_> = if has_query {
            set.search_operations(&filter.query, usize::MAX, is_included)
        } else {
            set.all_operations(is_included).collect()
        };
        let total = workflows.len() + operations.len();
        let id = |one: &Value| one["id"].as_str().unwrap_or_default().to_owned();
        let workflows = workflows.into_iter().map(|one| (id(&one), Some(one), None));
        let operations = operations.into_iter();
        let operations = operations.map(|named| (set.operation_id(&named), None, Some(named)));
        // With a query, list operations first: a search rarely looks for a workflow.
        let mut matches: Box<dyn Iterator<Item = _>> = if has_query {
            Box::new(operations.chain(workflows))
        } else {
            Box::new(workflows.chain(operations))
        };
        if let Some(after) = &filter.after
            && !matches.any(|(id, ..)| id == *after)
        {
            return Err(cursor_command_gone_error(after));
        }
        let page: Vec<_> = matches.by_ref().take(filter.limit).collect();
        let last = page.last().map(|(id, ..)| id.clone());
        let last = last.filter(|_| matches.next().is_some());
        let commands = page
            .into_iter()
            .filter_map(|(_, shown, named)| shown.or_else(|| describe_operation(set, &named?)));
        Ok((commands.collect(), last, total))
    })
    .await
}

fn cursor_command_gone_error(command_id: &str) -> Error {
    let short_id: String = command_id.chars().take(limits::QUESTION_SHOWN_CHARS).collect();
    let message = format!(
        "the command `{short_id}`, at which the page before ended, is not in this list any more"
    );
    let violation = Violation::new("/cursor", "gone", message.clone());
    Error::new(Code::ArgumentsInvalid, message)
        .with_violations(vec![violation])
        .with_next(repeat_call("without a cursor: the list has changed, and begins anew"))
}

async fn find_matching_workflows(app: &App, query: &str) -> Result<Vec<Value>> {
    let query = query.to_lowercase();
    app.with_registry(move |registry| {
        let entries = registry.workflows();
        let entries = entries.filter(|entry| entry.contains_words(query.split_whitespace()));
        entries.filter_map(|entry| describe_workflow_command(registry, entry)).collect()
    })
    .await
}

/// Everything that can provide input values.
pub(crate) async fn list_value_providers(app: &App) -> Result<Vec<Value>> {
    read_catalogs(app, |set| {
        let enabled_catalogs = set.catalogs().iter().filter(|one| one.settings.enabled);
        let notes = enabled_catalogs
            .filter_map(|one| Some((one, one.document.as_ref().ok()?.read_notes().ok()?)));
        let providers = notes.flat_map(|(one, notes)| {
            let vendor = one.vendor().to_owned();
            notes
                .providers
                .providers
                .into_iter()
                .map(move |provider| describe_provider(&vendor, &provider))
        });
        Ok(providers.take(limits::COMMAND_CATALOG_MAX).collect())
    })
    .await
}

fn describe_provider(vendor: &str, provider: &Provider) -> Value {
    let mut provider_json = json!(provider);
    provider_json["id"] = json!(format!("{vendor} {}", provider.id));
    provider_json
}

/// An operation, as it is listed.
fn describe_operation(set: &CatalogSet, operation: &CatalogOperation) -> Option<Value> {
    let book = operation.catalog.document.as_ref().ok()?;
    Some(summarize_operation(set, operation, &book.read_bare_operation(operation.index).ok()?))
}

fn summarize_operation(
    set: &CatalogSet,
    catalog_operation: &CatalogOperation,
    operation: &Operation,
) -> Value {
    let arguments = operation.parameters.iter().map(|parameter| {
        let kind = parameter.schema.get("type").cloned().unwrap_or(Value::Null);
        json!({ "name": parameter.argument, "in": parameter.location.as_str(), "type": kind, "required": parameter.is_required })
    });
    let mut summary = json!({
        "id": set.operation_id(catalog_operation),
        "aliases": operation.aliases,
        "catalog_id": catalog_operation.catalog.id,
        "vendor": catalog_operation.catalog.vendor(),
        "summary": operation.summary,
        "class": catalog_operation.class(),
        "execution_type": "http",
        "http_method": operation.method.as_str(),
        "path": operation.path,
        "arguments": arguments.collect::<Vec<_>>(),
    });
    if let Some(body) = &operation.body {
        let media_type = body.contents.first().map(|content| &content.media_type);
        summary["body"] = json!({ "media_type": media_type, "required": body.is_required });
    }
    if operation.is_deprecated {
        summary["deprecated"] = json!(true);
    }
    if let Some(why) = &operation.uncallable {
        summary["uncallable"] = json!(why);
    }
    summary
}

/// All details of one command.
async fn describe_command(app: &App, id: &str) -> Result<Value> {
    let operation = match app.resolve_command(id).await?.0 {
        CommandMeant::Operation(named) => named,
        CommandMeant::Workflow(name) => {
            let details = app.with_registry(move |registry| {
                registry
                    .workflow(&name)
                    .and_then(|entry| describe_workflow_command(registry, entry))
            });
            return Ok(details.await?.unwrap_or_default());
        }
    };
    read_catalogs(app, move |set| {
        describe_operation_fully(set, &operation).map_err(|error| {
            Error::internal("a catalog cannot be read").with_source(std::io::Error::other(error))
        })
    })
    .await
}

fn describe_operation_fully(
    set: &CatalogSet,
    catalog_operation: &CatalogOperation,
) -> Result<Value, String> {
    let operation = catalog_operation.catalog.read_operation(catalog_operation.index)?;
    let mut details = summarize_operation(set, catalog_operation, &operation);
    let content = operation.body.as_ref().and_then(|body| body.contents.first());
    let notes = catalog_operation.catalog.document.as_ref().map_err(Clone::clone)?.read_notes();
    let uses = notes.map(|notes| notes.providers.uses).unwrap_or_default();
    let uses = uses.into_iter().filter(|one| one.operation == operation.name);
    details["description"] = json!(operation.description);
    let prepared = catalog_operation.catalog.prepare_operation(catalog_operation.index)?;
    details["input_schema"] = prepared.input_schema();
    details["body_schema"] = content.map_or(Value::Null, BodyContent::schema_for_callers);
    if let Some(body) = operation.body.as_ref().filter(|body| body.contents.len() > 1) {
        let content_schemas = body.contents.iter();
        let content_schemas = content_schemas
            .map(|content| (content.media_type.clone(), content.schema_for_callers()));
        details["body_schemas"] = Value::Object(content_schemas.collect());
    }
    details["output_schema"] = operation.output.clone().unwrap_or_default();
    details["security"] = json!(operation.security);
    let is_required = |name: &String| operation.security.iter().flatten().any(|one| one == name);
    details["credentials"] = list_security_schemes(&catalog_operation.catalog, is_required);
    details["providers"] = uses.map(|one| json!({ "argument": one.argument, "provider": format!("{} {}", catalog_operation.catalog.vendor(), one.provider) })).collect();
    details["pagination"] = json!(operation.pagination);
    details["example"] = build_example_call(&details);
    Ok(details)
}

/// An example call with the required arguments.
fn build_example_call(details: &Value) -> Value {
    let tool = match details["class"].as_str() {
        Some("safe") => "command.run_safe",
        Some("standard") => "command.run",
        _ => "command.run_destructive",
    };
    let properties = &details["input_schema"]["properties"];
    let shared = &details["input_schema"]["$defs"];
    let required = get_items(&details["input_schema"]["required"]).iter().filter_map(Value::as_str);
    let with = required.map(|name| {
        let mut schema = properties[name].clone();
        if let (Value::Object(schema), Value::Object(_)) = (&mut schema, shared) {
            schema.insert("$defs".to_owned(), shared.clone());
        }
        (name.to_owned(), sample_value(&schema))
    });
    let with: Map<_, _> = with.collect();
    let mut arguments = json!({ "id": details["id"], "with": with });
    if details["body"]["required"] == true {
        arguments["body"] =
            build_example_body(&details["body"]["media_type"], &details["body_schema"]);
    }
    json!({ "tool": tool, "arguments": arguments })
}

/// An example body of this media type that matches the schema.
fn build_example_body(media_type: &Value, schema: &Value) -> Value {
    let kind = BodyFormat::from_media_type(media_type.as_str().unwrap_or_default());
    match sample_value(schema) {
        _ if kind == BodyFormat::Bytes => json!("ZXhhbXBsZQ=="),
        // A form must be an object, even if its schema does not say so.
        made if matches!(kind, BodyFormat::Form | BodyFormat::Multipart) && !made.is_object() => {
            json!({})
        }
        made => made,
    }
}

fn get_items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A workflow as a command, if it can be started.
pub(crate) fn describe_workflow_command(
    registry: &Registry,
    entry: &WorkflowEntry,
) -> Option<Value> {
    let workflow = &entry.value.as_ref()?.workflow;
    let arguments = workflow.inputs.iter().flat_map(view::input_views);
    let arguments = arguments.map(
        |input| json!({ "name": input.name, "required": input.required, "schema": input.schema }),
    );
    Some(json!({
        "id": format!("{WORKFLOW_COMMAND} {}", workflow.name),
        "summary": workflow.description,
        "execution_type": "workflow",
        "http_method": null,
        "class": compute_workflow_class(workflow, registry.abilities().operation_lookup()),
        "arguments": arguments.collect::<Vec<_>>(),
        "body": null,
    }))
}
