//! The tools that change the settings of a catalog: `catalog.set_enabled`, `catalog.set_base_url`,
//! `catalog.set_headers`, `catalog.set_class`, `catalog.remove`, and for the user's own commands `catalog.allow` and
//! `catalog.set_credential`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::catalog::{CatalogSelection, list_header_sources, list_security_schemes};
use crate::elicitation::{Confirmation, ConfirmationFallback};
use midex_catalog::{Requester, call};
use midex_domain::{
    OperationClass,
    error::{Code, Error, Result},
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct SetEnabledArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    enabled: bool,
}

pub(super) async fn set_enabled(app: &App, arguments: SetEnabledArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let enabled = arguments.enabled;
    app.change_catalog(&id, move |settings, _| {
        settings.enabled = enabled;
        Ok(())
    })
    .await?;
    let count = app.catalogs()?.last_loaded_catalogs().all_operations(|_| true).count();
    Ok(json!({ "catalog_id": id, "enabled": enabled, "command_count_after_toggle": count }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SetBaseUrlArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    base_url: String,
}

pub(super) async fn set_base_url(app: &App, arguments: SetBaseUrlArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let (url, requester) = (arguments.base_url, app.requester());
    let catalog =
        app.change_catalog(&id, move |settings, _| settings.set_base_url(&url, requester));
    let catalog = catalog.await?;
    let settings = &catalog.settings;
    let origin = call::parse_origin(&settings.base_url).unwrap_or_default();
    let operations = catalog.document.as_ref().map_or(0, |book| book.entries().len());
    Ok(json!({
        "catalog_id": id, "base_url": settings.base_url,
        "addresses": [{ "base_url": settings.base_url, "operations": operations }],
        "secrets_go_there": settings.origins.contains(&origin)
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SetHeadersArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    headers: BTreeMap<String, Option<String>>,
    #[serde(default)]
    mode: HeadersMode,
}

#[derive(Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum HeadersMode {
    #[default]
    Upsert,
    Replace,
}

/// If a tool sets headers that contain secrets, asks the user, showing where the secrets would be sent.
pub(super) async fn confirm_secrets(
    app: &App,
    arguments: SetHeadersArguments,
) -> Result<Option<Confirmation>> {
    let headers = &arguments.headers;
    let secrets: Vec<_> =
        headers.values().flatten().flat_map(|value| call::find_references(value)).collect();
    if app.requester() == Requester::User || secrets.is_empty() {
        return Ok(None);
    }
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let catalog = app.catalogs()?.last_loaded_catalogs().require_catalog(&id)?;
    let message = format!(
        "Send the secrets {} to `{}` with every call of the catalog `{id}`, in the headers {}?",
        secrets.join(", "),
        catalog.settings.base_url,
        headers.keys().cloned().collect::<Vec<_>>().join(", ")
    );
    let refusal = Error::new(
        Code::SecretNotAllowed,
        format!("nothing was done, for only the user gives a catalog secrets: {message}"),
    );
    Ok(Some(Confirmation {
        key: format!("catalog.set_headers:{id}:{}:{}", catalog.settings.base_url, json!(headers)),
        message,
        error_context: vec![("catalog_id", id)],
        fallback: ConfirmationFallback::Error(Box::new(refusal)),
        requester: Requester::User,
        version: None,
    }))
}

pub(super) async fn set_headers(app: &App, arguments: SetHeadersArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let (should_replace, requester) = (arguments.mode == HeadersMode::Replace, app.requester());
    let catalog = app.change_catalog(&id, move |settings, _| {
        settings.set_headers(&arguments.headers, should_replace, requester)
    });
    let catalog = catalog.await?;
    let secrets = app.catalog_secrets().await;
    Ok(json!({
        "catalog_id": id, "headers": list_header_sources(&catalog.settings, &secrets), "origins": catalog.settings.origins
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SetClassArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    /// The command, without its vendor
    id: String,
    #[schemars(transform = |class: &mut schemars::Schema| { class.remove("description"); })]
    class: OperationClass,
}

pub(super) async fn set_class(app: &App, arguments: SetClassArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let (operation, class, requester) = (arguments.id, arguments.class, app.requester());
    let name = operation.clone();
    app.change_catalog(&id, move |settings, catalog| {
        let document = catalog.document.as_ref().ok();
        let entry =
            document.and_then(|book| Some(&book.entries()[book.find_operation_index(&name)?]));
        let Some(entry) = entry else {
            let message = format!("the catalog has no operation `{name}`");
            return Err(Error::argument_rule("/id", "enum", &message));
        };
        settings.set_class(&entry.name, catalog.operation_class(entry), class, requester)
    })
    .await?;
    Ok(json!({ "catalog_id": id, "id": operation, "class": class }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RemoveArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    /// Its document too
    #[serde(default)]
    remove_manifest: bool,
    #[serde(default)]
    confirm: bool,
}

pub(super) async fn confirm_remove(
    app: &App,
    arguments: RemoveArguments,
) -> Result<Option<Confirmation>> {
    if arguments.confirm {
        return Ok(None);
    }
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let path = app.catalogs()?.paths().settings_path(&id);
    let path = path.display().to_string();
    let should_remove_document = arguments.remove_manifest;
    let document_note =
        if should_remove_document { "with its document" } else { "and keep its document" };
    Ok(Some(Confirmation {
        key: format!("catalog.remove:{id}:{should_remove_document}"),
        message: format!(
            "Remove the catalog `{id}`, the file `{path}`, {document_note}? Steps that call it will wait."
        ),
        error_context: vec![("catalog_id", id), ("path", path)],
        fallback: ConfirmationFallback::Refuse,
        requester: app.requester(),
        version: None,
    }))
}

pub(super) async fn remove_catalog(app: &App, arguments: RemoveArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let (name, should_remove_document) = (id.clone(), arguments.remove_manifest);
    let remaining_catalogs = app
        .change_catalogs(move |catalogs| catalogs.remove_catalog(&name, should_remove_document))
        .await?;
    Ok(json!({
        "removed_catalog_id": id, "manifest_removed": should_remove_document,
        "remaining_catalog_count": remaining_catalogs.catalogs().len()
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct AllowHostArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    host_port: String,
}

pub(super) async fn allow_host(app: &App, arguments: AllowHostArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let host = arguments.host_port;
    if let Err(invalid_host) = call::AddressPolicy::new(id.as_str(), [host.as_str()]) {
        let message = format!("`{invalid_host}` is not of the form HOST:PORT");
        return Err(Error::argument_rule("/host_port", "format", &message));
    }
    let catalog = app.change_catalog(&id, move |settings, _| {
        settings.allow.insert(host);
        Ok(())
    });
    let catalog = catalog.await?;
    Ok(json!({ "catalog_id": id, "allow": catalog.settings.allow }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SetCredentialArguments {
    #[serde(flatten)]
    catalog: CatalogSelection,
    scheme: String,
    #[schemars(extend("type" = ["string", "null"]))]
    value: Value,
}

pub(super) async fn set_credential(app: &App, arguments: SetCredentialArguments) -> Result<Value> {
    let id = arguments.catalog.resolve_catalog_id(app).await?;
    let SetCredentialArguments { scheme, value, .. } = arguments;
    let updated_catalog = app.change_catalog(&id, move |settings, catalog| {
        let no_schemes = BTreeMap::new();
        let document = catalog.document.as_ref().ok();
        let schemes = document.map_or(&no_schemes, |book| &book.head().schemes);
        settings.set_credential(&scheme, value.as_str(), schemes)
    });
    let updated_catalog = updated_catalog.await?;
    let secrets = app.catalog_secrets().await;
    Ok(json!({
        "catalog_id": id, "headers": list_header_sources(&updated_catalog.settings, &secrets),
        "origins": updated_catalog.settings.origins, "schemes": list_security_schemes(&updated_catalog, |_| true)
    }))
}
