//! `catalog.validate_openapi`, `catalog.preview_import`, `catalog.import_openapi` and `catalog.refresh`.

use std::{collections::BTreeSet, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    catalog::{CatalogSelection, violation_values},
    view_answer,
};
use midex_catalog::{ImportPlan, ImportRequest, call::Reach, document};
use midex_domain::{error::Result, limits};
use midex_server::app::{App, SourceType};

/// The arguments that locate a document.
#[derive(Deserialize, JsonSchema)]
pub(super) struct DocumentSource {
    /// Path or URL
    #[schemars(length(min = 1, max = limits::DESCRIPTION_BYTES_MAX))]
    source: String,
    #[schemars(extend("enum" = ["path", "url"]))]
    source_type: Option<String>,
}

impl DocumentSource {
    async fn load_document(&self, app: &App) -> Result<(String, Arc<[u8]>)> {
        let source_type = match self.source_type.as_deref() {
            Some("url") => Some(SourceType::Url),
            Some(_) => Some(SourceType::Path),
            None => None,
        };
        app.read_document(&self.source, source_type).await
    }
}

/// A document, and how its catalog is to be named.
#[derive(Deserialize, JsonSchema)]
struct ImportedDocument {
    #[serde(flatten)]
    source: DocumentSource,
    #[schemars(length(min = 1, max = limits::WORD_BYTES_MAX))]
    catalog_title: Option<String>,
    /// First word of its commands
    vendor: Option<String>,
    base_url: Option<String>,
}

impl ImportedDocument {
    async fn import_plan(self, app: &App) -> Result<ImportRequest> {
        let (source, document) = self.source.load_document(app).await?;
        Ok(ImportRequest {
            source,
            document,
            title: self.catalog_title.unwrap_or_default(),
            vendor: self.vendor,
            base_url: self.base_url,
            overwrite: false,
            enabled: None,
            at: app.now().to_string(),
        })
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PreviewArguments {
    #[serde(flatten)]
    document: ImportedDocument,
    #[serde(default)]
    include_command_preview: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[serde(flatten)]
    document: ImportedDocument,
    /// Keeps its settings
    #[serde(default)]
    overwrite: bool,
    #[schemars(extend("default" = true))]
    enabled: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RefreshArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    #[serde(default)]
    apply: bool,
}

pub(super) async fn validate_document(app: &App, arguments: DocumentSource) -> Result<Value> {
    let (_, bytes) = arguments.load_document(app).await?;
    let inspected = app.with_catalogs(move |_| Ok(document::inspect_document(&bytes))).await?;
    Ok(json!({
        "valid": inspected.violations.is_empty(),
        "document_kind": inspected.kind,
        "operation_count": inspected.operation_count,
        "warnings": violation_values(&inspected.warnings),
        "violations": violation_values(&inspected.violations),
    }))
}

pub(super) async fn preview_import(app: &App, arguments: PreviewArguments) -> Result<Value> {
    let wanted = arguments.document.import_plan(app).await?;
    let planned = app.with_catalogs(move |catalogs| catalogs.plan_import(&wanted)).await?;
    let ImportPlan { id, settings, compiled, changes, .. } = &planned;
    let operations = &compiled.operations;
    let first = |name: &str| name.split(':').next().unwrap_or(name).to_owned();
    let prefixes: BTreeSet<_> = operations.iter().map(|operation| first(&operation.name)).collect();
    let addresses = planned.count_base_urls();
    let mut answer = json!({
        "addresses": addresses,
        "catalog": {
            "catalog_id": id, "title": settings.title, "vendor": settings.vendor,
            "base_url": settings.base_url, "base_urls": compiled.servers
        },
        "projected_command_count": operations.len(),
        "projected_group_prefixes": prefixes.iter().take(limits::CATALOG_PREFIXES_MAX).collect::<Vec<_>>(),
        "provider_contract_count": compiled.providers.providers.len(),
        "changes": changes,
        "warnings": import_warnings(&planned),
    });
    if arguments.include_command_preview {
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
fn import_warnings(planned: &ImportPlan) -> Value {
    let mut warnings = violation_values(&planned.compiled.warnings);
    let allowed = planned.settings.allow.iter().map(String::as_str);
    let reach = Reach::new(planned.id.as_str(), allowed).ok();
    let refusal = reach.and_then(|reach| reach.refusal_of(&planned.settings.base_url));
    if let (Some(warnings), Some(refusal)) = (warnings.as_array_mut(), refusal) {
        let message = format!("calls are refused: {refusal}");
        warnings.push(json!({ "path": "", "rule": "address_refused", "message": message }));
    }
    warnings
}

pub(super) async fn import_catalog(app: &App, arguments: Arguments) -> Result<Value> {
    let wanted = ImportRequest {
        overwrite: arguments.overwrite,
        enabled: arguments.enabled,
        ..arguments.document.import_plan(app).await?
    };
    let before = app.catalogs()?.last_loaded_catalogs();
    let planned = app.change_catalogs(move |catalogs| catalogs.import_document(&wanted)).await?;
    let addresses = planned.count_base_urls();
    let ImportPlan { id, settings, compiled, changes, .. } = &planned;
    let places = app.catalogs()?.places().clone();
    let mut warnings = import_warnings(&planned);
    let breaks = app.find_broken_steps(&before, id, changes).await?;
    if let (Some(warnings), false) = (warnings.as_array_mut(), breaks.is_empty()) {
        warnings.extend(breaks.iter().map(|one| {
            let message =
                format!("step `{}` of workflow `{}`: {}", one.step_id, one.workflow_id, one.why);
            json!({ "path": "", "rule": "removed_operation", "message": message })
        }));
    }
    Ok(json!({
        "catalog_id": id,
        "catalog_path": places.settings_path(id).display().to_string(),
        "manifest_path": places.document_path(id).display().to_string(),
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

pub(super) async fn refresh_catalog(app: &App, arguments: RefreshArguments) -> Result<Value> {
    let id = arguments.catalog.selected_catalog_id(app).await?;
    let before = app.catalog_set().await?;
    let catalog = before.require_catalog(&id)?;
    let (source, document) = app.read_document(&catalog.settings.source, None).await?;
    let wanted = ImportRequest {
        source,
        document,
        title: catalog.settings.title.clone(),
        vendor: None,
        base_url: None,
        overwrite: true,
        enabled: None,
        at: app.now().to_string(),
    };
    let apply = arguments.apply;
    let planned = if apply {
        app.change_catalogs(move |catalogs| catalogs.import_document(&wanted)).await?
    } else {
        app.with_catalogs(move |catalogs| catalogs.plan_import(&wanted)).await?
    };
    let mut answer = view_answer(&planned.changes)?;
    answer["breaks"] = view_answer(&app.find_broken_steps(&before, &id, &planned.changes).await?)?;
    answer["catalog_id"] = json!(id);
    answer["applied"] = json!(apply);
    answer["warnings"] = violation_values(&planned.compiled.warnings);
    Ok(answer)
}
