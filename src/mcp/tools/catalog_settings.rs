//! The tools that change the settings of a catalog: `catalog.set_enabled`, `catalog.set_base_url`,
//! `catalog.set_headers`, `catalog.set_class`, `catalog.remove`, and for the user's own commands `catalog.allow`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, Work, acts,
    author::Class,
    catalog::{answer, answer_of_catalog, headers, named, schemes, with_catalog},
    flag, text, unfit,
};
use crate::asking::{Confirmation, Unasked};
use midex_catalog::{By, call};
use midex_domain::error::{Code, Error, Result};
use midex_server::app::App;

pub(super) fn specs() -> [ToolSpec; 7] {
    [
        set_enabled(),
        set_base_url(),
        set_headers(),
        set_class(),
        remove(),
        allow(),
        set_credential(),
    ]
}

pub(super) const ALLOW: &str = "catalog.allow";
const SET_ENABLED: &str = "catalog.set_enabled";
const SET_BASE_URL: &str = "catalog.set_base_url";
const SET_HEADERS: &str = "catalog.set_headers";
const SET_CLASS: &str = "catalog.set_class";
const REMOVE: &str = "catalog.remove";
pub(super) const SET_CREDENTIAL: &str = "catalog.set_credential";

fn set_enabled() -> ToolSpec {
    ToolSpec::new(
        (SET_ENABLED, "Enable or disable a catalog", "Steps of a disabled catalog wait for it."),
        || acts(false, false, true),
        (
            with_catalog(json!({ "enabled": { "type": "boolean" } })),
            &["enabled"],
            answer_of_catalog(&["enabled", "command_count_after_toggle"]),
        ),
        |app, arguments| {
            Box::pin(async move {
                let id = named(app, &arguments, SET_ENABLED).await?;
                let enabled = flag(&arguments, "enabled");
                app.change_catalog(&id, move |settings, _| {
                    settings.enabled = enabled;
                    Ok(())
                })
                .await?;
                let count = app.catalogs()?.loaded().all(|_| true).count();
                Ok(json!({
                    "success": true, "catalog_id": id, "enabled": enabled, "command_count_after_toggle": count
                }))
            })
        },
    )
    .of(Class::Standard)
}

fn set_base_url() -> ToolSpec {
    ToolSpec::new(
        (
            SET_BASE_URL,
            "Set a base URL",
            "Says where a catalog's commands are called. Secrets do not follow.",
        ),
        || acts(false, false, true),
        (
            with_catalog(json!({ "base_url": { "type": "string" } })),
            &["base_url"],
            answer_of_catalog(&["base_url", "addresses", "secrets_go_there"]),
        ),
        |app, arguments| {
            Box::pin(async move {
                let id = named(app, &arguments, SET_BASE_URL).await?;
                let url = text(&arguments, "base_url").unwrap_or_default().to_owned();
                let by = app.by();
                let changed =
                    app.change_catalog(&id, move |settings, _| settings.set_base_url(&url, by));
                let changed = changed.await?;
                let settings = &changed.settings;
                let origin = call::origin(&settings.base_url).unwrap_or_default();
                let operations = changed.book.as_ref().map_or(0, |book| book.entries().len());
                Ok(json!({
                    "success": true, "catalog_id": id, "base_url": settings.base_url,
                    "addresses": [{ "base_url": settings.base_url, "operations": operations }],
                    "secrets_go_there": settings.origins.contains(&origin)
                }))
            })
        },
    )
    .of(Class::Standard)
}

fn set_headers() -> ToolSpec {
    ToolSpec::doing(
        (
            SET_HEADERS,
            "Set headers",
            "Sets headers of its calls; null removes one. Secrets stand in them as ${env:NAME}, once the user agrees.",
        ),
        || acts(false, false, true),
        (
            with_catalog(json!({
                "headers": { "type": "object", "additionalProperties": { "type": ["string", "null"] } },
                "mode": { "enum": ["upsert", "replace"], "default": "upsert" }
            })),
            &["headers"],
            answer_of_catalog(&["headers", "origins"]),
        ),
        Work::Confirmed(
            |app, arguments| Box::pin(secrets_question(app, arguments)),
            |app, arguments| Box::pin(headers_set(app, arguments)),
        ),
    )
    .of(Class::Standard)
}

fn headers_of(arguments: &Map<String, Value>) -> BTreeMap<String, Option<String>> {
    let given = arguments.get("headers").and_then(Value::as_object);
    let given = given.into_iter().flatten();
    given
        .map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned)))
        .collect()
}

/// If a tool sets headers that contain secrets, asks the user, showing where the secrets would be sent.
async fn secrets_question(
    app: &App,
    arguments: &Map<String, Value>,
) -> Result<Option<Confirmation>> {
    let headers = headers_of(arguments);
    let secrets: Vec<_> = headers
        .values()
        .flatten()
        .flat_map(|value| call::references(value))
        .collect();
    if app.by() == By::User || secrets.is_empty() {
        return Ok(None);
    }
    let id = named(app, arguments, SET_HEADERS).await?;
    let catalog = app.catalogs()?.loaded().require(&id)?;
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
        key: format!(
            "{SET_HEADERS}:{id}:{}:{}",
            catalog.settings.base_url,
            json!(headers)
        ),
        message,
        about: vec![("catalog_id", id)],
        unasked: Unasked::Error(Box::new(refusal)),
        by: By::User,
        confirmed: arguments.clone(),
    }))
}

async fn headers_set(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = named(app, &arguments, SET_HEADERS).await?;
    let (given, replace, by) = (
        headers_of(&arguments),
        text(&arguments, "mode") == Some("replace"),
        app.by(),
    );
    let changed = app
        .change_catalog(&id, move |settings, _| {
            settings.set_headers(&given, replace, by)
        })
        .await?;
    let secrets = app.catalog_secrets().await;
    Ok(json!({
        "success": true, "catalog_id": id, "headers": headers(&changed.settings, &secrets), "origins": changed.settings.origins
    }))
}

fn set_class() -> ToolSpec {
    ToolSpec::new(
        (
            SET_CLASS,
            "Set a class",
            "Makes a command stricter: safe, standard, destructive.",
        ),
        || acts(false, false, true),
        (
            with_catalog(json!({
                "id": { "type": "string", "description": "The command, without its vendor" },
                "class": { "enum": ["safe", "standard", "destructive"] }
            })),
            &["id", "class"],
            answer_of_catalog(&["id", "class"]),
        ),
        |app, arguments| Box::pin(class_set(app, arguments)),
    )
    .of(Class::Standard)
}

async fn class_set(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = named(app, &arguments, SET_CLASS).await?;
    let operation = text(&arguments, "id").unwrap_or_default().to_owned();
    let class = match text(&arguments, "class") {
        Some("safe") => Class::Safe,
        Some("standard") => Class::Standard,
        _ => Class::Destructive,
    };
    let (by, name) = (app.by(), operation.clone());
    app.change_catalog(&id, move |settings, catalog| {
        let book = catalog.book.as_ref().ok();
        let entry = book.and_then(|book| Some(&book.entries()[book.find(&name)?]));
        let Some(entry) = entry else {
            let message = format!("the catalog has no operation `{name}`");
            return Err(unfit(SET_CLASS, "/id", "enum", &message));
        };
        settings.set_class(&entry.name, catalog.class(entry), class, by)
    })
    .await?;
    Ok(json!({ "success": true, "catalog_id": id, "id": operation, "class": class }))
}

fn remove() -> ToolSpec {
    ToolSpec::doing(
        (
            REMOVE,
            "Remove a catalog",
            "Removes a catalog. Only where the user asked for it.",
        ),
        || acts(false, true, false),
        (
            with_catalog(json!({
                "remove_manifest": { "type": "boolean", "default": false, "description": "Its document too" },
                "confirm": { "type": "boolean", "default": false }
            })),
            &[],
            answer(&["removed_catalog_id", "manifest_removed", "remaining_catalog_count"]),
        ),
        Work::Confirmed(
            |app, arguments| Box::pin(remove_question(app, arguments)),
            |app, arguments| Box::pin(removed(app, arguments)),
        ),
    )
    .of(Class::Destructive)
}

async fn remove_question(
    app: &App,
    arguments: &Map<String, Value>,
) -> Result<Option<Confirmation>> {
    if flag(arguments, "confirm") {
        return Ok(None);
    }
    let id = named(app, arguments, REMOVE).await?;
    let path = app.catalogs()?.places().settings(&id);
    let path = path.display().to_string();
    let with_document = flag(arguments, "remove_manifest");
    let what = if with_document {
        "with its document"
    } else {
        "and keep its document"
    };
    Ok(Some(Confirmation {
        key: format!("{REMOVE}:{id}:{with_document}"),
        message: format!(
            "Remove the catalog `{id}`, the file `{path}`, {what}? Steps that call it will wait."
        ),
        about: vec![("catalog_id", id), ("path", path)],
        unasked: Unasked::Refused,
        by: app.by(),
        confirmed: arguments.clone(),
    }))
}

async fn removed(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = named(app, &arguments, REMOVE).await?;
    let with_document = flag(&arguments, "remove_manifest");
    let name = id.clone();
    let left = app
        .change_catalogs(move |catalogs| catalogs.remove(&name, with_document))
        .await?;
    Ok(json!({
        "success": true, "removed_catalog_id": id, "manifest_removed": with_document,
        "remaining_catalog_count": left.catalogs().len()
    }))
}

fn allow() -> ToolSpec {
    ToolSpec::new(
        (
            ALLOW,
            "Allow an address",
            "Lets a catalog be called at an address that is not public or not https.",
        ),
        || acts(false, false, true),
        (
            with_catalog(json!({ "host_port": { "type": "string" } })),
            &["host_port"],
            answer_of_catalog(&["allow"]),
        ),
        |app, arguments| {
            Box::pin(async move {
                let id = named(app, &arguments, ALLOW).await?;
                let host = text(&arguments, "host_port").unwrap_or_default().to_owned();
                if let Err(wrong) = call::Reach::new(id.as_str(), [host.as_str()]) {
                    let message = format!("`{wrong}` is not of the form HOST:PORT");
                    return Err(unfit(ALLOW, "/host_port", "format", &message));
                }
                let changed = app.change_catalog(&id, move |settings, _| {
                    settings.allow.insert(host);
                    Ok(())
                });
                let changed = changed.await?;
                Ok(json!({ "success": true, "catalog_id": id, "allow": changed.settings.allow }))
            })
        },
    )
}

fn set_credential() -> ToolSpec {
    ToolSpec::new(
        (
            SET_CREDENTIAL,
            "Set a credential",
            "Gives a security scheme of a catalog's document its credential; null removes it.",
        ),
        || acts(false, false, true),
        (
            with_catalog(json!({
                "scheme": { "type": "string" }, "value": { "type": ["string", "null"] }
            })),
            &["scheme", "value"],
            answer_of_catalog(&["headers", "origins", "schemes"]),
        ),
        |app, arguments| {
            Box::pin(async move {
                let id = named(app, &arguments, SET_CREDENTIAL).await?;
                let owned = |name: &str| text(&arguments, name).map(str::to_owned);
                let (scheme, value) = (owned("scheme").unwrap_or_default(), owned("value"));
                let changed = app.change_catalog(&id, move |settings, catalog| {
                    let none = BTreeMap::new();
                    let book = catalog.book.as_ref().ok();
                    let schemes = book.map_or(&none, |book| &book.head().schemes);
                    settings.set_credential(&scheme, value.as_deref(), schemes)
                });
                let changed = changed.await?;
                let secrets = app.catalog_secrets().await;
                Ok(json!({
                    "success": true, "catalog_id": id, "headers": headers(&changed.settings, &secrets),
                    "origins": changed.settings.origins, "schemes": schemes(&changed, |_| true)
                }))
            })
        },
    )
}
