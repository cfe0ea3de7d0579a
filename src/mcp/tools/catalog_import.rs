//! `catalog.validate_openapi`, `catalog.preview_import`, `catalog.import_openapi` and `catalog.refresh`.

use std::{collections::BTreeSet, sync::Arc};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    catalog::{CatalogSelection, list_violations},
    serialize_view,
};
use midex_catalog::{ImportPlan, ImportRequest, call::AddressPolicy, document};
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
            should_overwrite: false,
            is_enabled: None,
            imported_at: app.now().to_string(),
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
    let inspection = app.with_catalogs(move |_| Ok(document::inspect_document(&bytes))).await?;
    Ok(json!({
        "valid": inspection.violations.is_empty(),
        "document_kind": inspection.kind,
        "operation_count": inspection.operation_count,
        "warnings": list_violations(&inspection.warnings),
        "violations": list_violations(&inspection.violations),
    }))
}

pub(super) async fn preview_import(app: &App, arguments: PreviewArguments) -> Result<Value> {
    let import_request = arguments.document.import_plan(app).await?;
    let plan = app.with_catalogs(move |catalogs| catalogs.plan_import(&import_request)).await?;
    let ImportPlan { id, settings, compiled, changes, .. } = &plan;
    let operations = &compiled.operations;
    let first_segment = |name: &str| name.split(':').next().unwrap_or(name).to_owned();
    let prefixes: BTreeSet<_> =
        operations.iter().map(|operation| first_segment(&operation.name)).collect();
    let addresses = plan.count_base_urls();
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
        "warnings": import_warnings(&plan),
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
fn import_warnings(plan: &ImportPlan) -> Value {
    let mut warnings = list_violations(&plan.compiled.warnings);
    let allowed_hosts = plan.settings.allow.iter().map(String::as_str);
    let address_policy = AddressPolicy::new(plan.id.as_str(), allowed_hosts).ok();
    let refusal = address_policy.and_then(|reach| reach.explain_refusal(&plan.settings.base_url));
    if let (Some(warnings), Some(refusal)) = (warnings.as_array_mut(), refusal) {
        let message = format!("calls are refused: {refusal}");
        warnings.push(json!({ "path": "", "rule": "address_refused", "message": message }));
    }
    warnings
}

pub(super) async fn import_catalog(app: &App, arguments: Arguments) -> Result<Value> {
    let import_request = ImportRequest {
        should_overwrite: arguments.overwrite,
        is_enabled: arguments.enabled,
        ..arguments.document.import_plan(app).await?
    };
    let set_before = app.catalogs()?.last_loaded_catalogs();
    let plan =
        app.change_catalogs(move |catalogs| catalogs.import_document(&import_request)).await?;
    let addresses = plan.count_base_urls();
    let ImportPlan { id, settings, compiled, changes, .. } = &plan;
    let catalog_paths = app.catalogs()?.paths().clone();
    let mut warnings = import_warnings(&plan);
    let broken_steps = app.find_broken_steps(&set_before, id, changes).await?;
    if let (Some(warnings), false) = (warnings.as_array_mut(), broken_steps.is_empty()) {
        warnings.extend(broken_steps.iter().map(|one| {
            let message =
                format!("step `{}` of workflow `{}`: {}", one.step_id, one.workflow_id, one.why);
            json!({ "path": "", "rule": "removed_operation", "message": message })
        }));
    }
    Ok(json!({
        "catalog_id": id,
        "catalog_path": catalog_paths.settings_path(id).display().to_string(),
        "manifest_path": catalog_paths.document_path(id).display().to_string(),
        "command_count": compiled.operations.len(),
        "provider_contract_count": compiled.providers.providers.len(),
        "enabled": settings.enabled,
        "base_url": settings.base_url,
        "base_urls": compiled.servers,
        "addresses": addresses,
        "changes": changes,
        "breaks": broken_steps,
        "warnings": warnings,
    }))
}

pub(super) async fn refresh_catalog(app: &App, arguments: RefreshArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let set_before = app.catalog_set().await?;
    let catalog = set_before.require_catalog(&id)?;
    let (source, document) = app.read_document(&catalog.settings.source, None).await?;
    let import_request = ImportRequest {
        source,
        document,
        title: catalog.settings.title.clone(),
        vendor: None,
        base_url: None,
        should_overwrite: true,
        is_enabled: None,
        imported_at: app.now().to_string(),
    };
    let should_apply = arguments.apply;
    let plan = if should_apply {
        app.change_catalogs(move |catalogs| catalogs.import_document(&import_request)).await?
    } else {
        app.with_catalogs(move |catalogs| catalogs.plan_import(&import_request)).await?
    };
    let mut answer = serialize_view(&plan.changes)?;
    answer["breaks"] =
        serialize_view(&app.find_broken_steps(&set_before, &id, &plan.changes).await?)?;
    answer["catalog_id"] = json!(id);
    answer["applied"] = json!(should_apply);
    answer["warnings"] = list_violations(&plan.compiled.warnings);
    Ok(answer)
}
