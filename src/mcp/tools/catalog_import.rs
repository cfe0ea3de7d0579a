//! `catalog.list`, `catalog.validate_openapi`, `catalog.preview_import`, `catalog.import_openapi` and `catalog.refresh`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts,
    author::Class,
    catalog::{answer, name_schema, named, shown, told, with_catalog},
    flag, shared_with, text, view,
};
use midex_catalog::{Import, ImportPlan, call::Reach, document};
use midex_domain::{error::Result, limits};
use midex_server::app::{App, SourceType};

pub(super) fn specs() -> [ToolSpec; 5] {
    [list(), validate(), preview(), import(), refresh()]
}

/// Adds the properties that locate a document.
fn with_source(own: Value) -> Value {
    let source = json!({
        "source": { "type": "string", "minLength": 1, "maxLength": limits::DESCRIPTION_BYTES_MAX, "description": "Path or URL" },
        "source_type": { "enum": ["path", "url"] },
    });
    shared_with(source, own)
}

fn of_import() -> Value {
    json!({
        "catalog_title": name_schema(),
        "vendor": { "type": "string", "description": "First word of its commands" },
        "base_url": { "type": "string" },
    })
}

fn list() -> ToolSpec {
    ToolSpec::new(
        ("catalog.list", "List catalogs", "Lists catalogs."),
        || acts(true, false, true),
        (json!({}), &[], answer(&["catalogs"])),
        |app, _| {
            Box::pin(async move {
                let set = app.catalog_set().await?;
                let secrets = app.catalog_secrets().await;
                let catalogs = set.catalogs().iter().map(|one| shown(one, &secrets));
                let catalogs: Vec<_> = catalogs.collect();
                Ok(json!({ "success": true, "catalogs": catalogs }))
            })
        },
    )
    .of(Class::Safe)
}

fn validate() -> ToolSpec {
    ToolSpec::new(
        (
            "catalog.validate_openapi",
            "Validate OpenAPI",
            "Says whether an OpenAPI 3 document can be imported. First of validate, preview, import.",
        ),
        || acts(true, false, true).open_world(true),
        (
            with_source(json!({})),
            &["source"],
            answer(&[
                "valid",
                "document_kind",
                "operation_count",
                "warnings",
                "violations",
            ]),
        ),
        |app, arguments| Box::pin(validated(app, arguments)),
    )
    .of(Class::Safe)
}

async fn validated(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let (_, bytes) = document_of(app, &arguments).await?;
    let inspected = app
        .with_catalogs(move |_| Ok(document::inspect(&bytes)))
        .await?;
    Ok(json!({
        "success": true,
        "valid": inspected.violations.is_empty(),
        "document_kind": inspected.kind,
        "operation_count": inspected.operation_count,
        "warnings": told(&inspected.warnings),
        "violations": told(&inspected.violations),
    }))
}

fn preview() -> ToolSpec {
    let mut properties = with_source(of_import());
    properties["include_command_preview"] = json!({ "type": "boolean", "default": false });
    ToolSpec::new(
        (
            "catalog.preview_import",
            "Preview an import",
            "Shows what an import would make. Writes nothing.",
        ),
        || acts(true, false, true).open_world(true),
        (
            properties,
            &["source"],
            answer(&[
                "catalog",
                "projected_command_count",
                "projected_group_prefixes",
                "provider_contract_count",
                "warnings",
            ]),
        ),
        |app, arguments| Box::pin(previewed(app, arguments)),
    )
    .of(Class::Safe)
}

async fn previewed(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let wanted = imported(app, &arguments).await?;
    let planned = app
        .with_catalogs(move |catalogs| catalogs.plan(&wanted))
        .await?;
    let ImportPlan {
        id,
        settings,
        compiled,
        changes,
        ..
    } = &planned;
    let operations = &compiled.operations;
    let first = |name: &str| name.split(':').next().unwrap_or(name).to_owned();
    let prefixes: BTreeSet<_> = operations
        .iter()
        .map(|operation| first(&operation.name))
        .collect();
    let addresses = planned.addresses();
    let mut answer = json!({
        "success": true,
        "addresses": addresses,
        "catalog": {
            "catalog_id": id, "title": settings.title, "vendor": settings.vendor,
            "base_url": settings.base_url, "base_urls": compiled.servers
        },
        "projected_command_count": operations.len(),
        "projected_group_prefixes": prefixes.iter().take(limits::CATALOG_PREFIXES_MAX).collect::<Vec<_>>(),
        "provider_contract_count": compiled.providers.providers.len(),
        "changes": changes,
        "warnings": warnings(&planned),
    });
    if flag(&arguments, "include_command_preview") {
        let mut bytes = 0;
        let commands = operations.iter().map(|operation| {
            json!({
                "id": format!("{} {}", settings.vendor, operation.name), "summary": operation.summary,
                "http_method": operation.method.as_str(), "class": operation.class
            })
        });
        let commands: Vec<_> = commands
            .take(limits::COMMAND_PREVIEW_MAX)
            .take_while(|command| {
                bytes += command.to_string().len();
                bytes <= limits::COMMAND_PREVIEW_BYTES_MAX
            })
            .collect();
        answer["command_preview_truncated"] = json!(commands.len() < operations.len());
        answer["command_preview"] = commands.into();
    }
    Ok(answer)
}

/// The warnings about the document, and a warning if its operations cannot be called at their address.
fn warnings(planned: &ImportPlan) -> Value {
    let mut warnings = told(&planned.compiled.warnings);
    let allowed = planned.settings.allow.iter().map(String::as_str);
    let reach = Reach::new(planned.id.as_str(), allowed).ok();
    let refusal = reach.and_then(|reach| reach.refusal_of(&planned.settings.base_url));
    if let (Some(warnings), Some(refusal)) = (warnings.as_array_mut(), refusal) {
        let message = format!("calls are refused: {refusal}");
        warnings.push(json!({ "path": "", "rule": "address_refused", "message": message }));
    }
    warnings
}

fn import() -> ToolSpec {
    let mut properties = with_source(of_import());
    properties["overwrite"] =
        json!({ "type": "boolean", "default": false, "description": "Keeps its settings" });
    properties["enabled"] = json!({ "type": "boolean", "default": true });
    ToolSpec::new(
        (
            "catalog.import_openapi",
            "Import a catalog",
            "Makes commands of an OpenAPI document.",
        ),
        || acts(false, false, true).open_world(true),
        (
            properties,
            &["source"],
            answer(&[
                "catalog_id",
                "catalog_path",
                "manifest_path",
                "command_count",
                "provider_contract_count",
                "warnings",
            ]),
        ),
        |app, arguments| {
            Box::pin(async move {
                let wanted = imported(app, &arguments).await?;
                import_of(app, wanted).await
            })
        },
    )
    .of(Class::Standard)
}

async fn import_of(app: &App, wanted: Import) -> Result<Value> {
    let before = app.catalogs()?.loaded();
    let planned = app
        .change_catalogs(move |catalogs| catalogs.import(&wanted))
        .await?;
    let addresses = planned.addresses();
    let ImportPlan {
        id,
        settings,
        compiled,
        changes,
        ..
    } = &planned;
    let places = app.catalogs()?.places().clone();
    let mut warnings = warnings(&planned);
    let breaks = app.broken_by(&before, id, changes).await?;
    if let (Some(warnings), false) = (warnings.as_array_mut(), breaks.is_empty()) {
        warnings.extend(breaks.iter().map(|one| {
            let message = format!(
                "step `{}` of workflow `{}`: {}",
                one.step_id, one.workflow_id, one.why
            );
            json!({ "path": "", "rule": "removed_operation", "message": message })
        }));
    }
    Ok(json!({
        "success": true,
        "catalog_id": id,
        "catalog_path": places.settings(id).display().to_string(),
        "manifest_path": places.document(id).display().to_string(),
        "command_count": compiled.operations.len(),
        "provider_contract_count": compiled.providers.providers.len(),
        "enabled": settings.enabled,
        "base_url": settings.base_url,
        "base_urls": compiled.servers,
        "addresses": addresses,
        "changes": changes,
        "breaks": breaks,
        "warnings": warnings,
    }))
}

fn refresh() -> ToolSpec {
    const NAME: &str = "catalog.refresh";
    ToolSpec::new(
        (
            NAME,
            "Refresh a catalog",
            "Reads its document again: shows the difference, and applies it with apply.",
        ),
        || acts(false, false, true).open_world(true),
        (
            with_catalog(json!({ "apply": { "type": "boolean", "default": false } })),
            &[],
            answer(&[
                "catalog_id",
                "applied",
                "added",
                "removed",
                "changed",
                "breaks",
            ]),
        ),
        |app, arguments| Box::pin(refreshed(app, arguments, NAME)),
    )
    .of(Class::Standard)
}

async fn refreshed(app: &App, arguments: Map<String, Value>, tool: &'static str) -> Result<Value> {
    let id = named(app, &arguments, tool).await?;
    let before = app.catalog_set().await?;
    let catalog = before.require(&id)?;
    let (source, document) = app.document_of(&catalog.settings.source, None).await?;
    let wanted = Import {
        source,
        document,
        title: catalog.settings.title.clone(),
        vendor: None,
        base_url: None,
        overwrite: true,
        enabled: None,
        at: app.now().to_string(),
    };
    let apply = flag(&arguments, "apply");
    let planned = if apply {
        app.change_catalogs(move |catalogs| catalogs.import(&wanted))
            .await?
    } else {
        app.with_catalogs(move |catalogs| catalogs.plan(&wanted))
            .await?
    };
    let mut answer = view(&planned.changes)?;
    answer["breaks"] = view(&app.broken_by(&before, &id, &planned.changes).await?)?;
    answer["success"] = json!(true);
    answer["catalog_id"] = json!(id);
    answer["applied"] = json!(apply);
    answer["warnings"] = told(&planned.compiled.warnings);
    Ok(answer)
}

async fn document_of(
    app: &App,
    arguments: &Map<String, Value>,
) -> Result<(String, std::sync::Arc<[u8]>)> {
    let source_type = match text(arguments, "source_type") {
        Some("url") => Some(SourceType::Url),
        Some(_) => Some(SourceType::Path),
        None => None,
    };
    app.document_of(text(arguments, "source").unwrap_or_default(), source_type)
        .await
}

async fn imported(app: &App, arguments: &Map<String, Value>) -> Result<Import> {
    let (source, document) = document_of(app, arguments).await?;
    let owned = |name: &str| text(arguments, name).map(str::to_owned);
    Ok(Import {
        source,
        document,
        title: owned("catalog_title").unwrap_or_default(),
        vendor: owned("vendor"),
        base_url: owned("base_url"),
        overwrite: flag(arguments, "overwrite"),
        enabled: arguments.get("enabled").and_then(Value::as_bool),
        at: app.now().to_string(),
    })
}
