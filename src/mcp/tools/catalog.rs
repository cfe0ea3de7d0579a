//! `catalog.list`, and shared parts of the catalog tools: the arguments that select a catalog, and how a catalog is
//! shown.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::NoArguments;
use midex_catalog::{Catalog, Settings, call, operation::SecurityScheme};
use midex_domain::{
    error::{Error, Result, Violation},
    limits,
};
use midex_server::app::App;

/// The arguments that select a catalog.
#[derive(Deserialize, JsonSchema)]
pub(super) struct CatalogSelection {
    #[schemars(length(min = 1, max = limits::WORD_BYTES_MAX))]
    catalog_id: Option<String>,
    catalog_title: Option<String>,
}

impl CatalogSelection {
    /// The id of the selected catalog.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND`; `ARGUMENTS_INVALID` if the call selects none, or two.
    pub(super) async fn resolve_catalog_id(&self, app: &App) -> Result<String> {
        let set = app.catalog_set().await?;
        let title = self.catalog_title.as_ref();
        let Some(name) = self.catalog_id.as_ref().or(title) else {
            let message = "name the catalog by catalog_id";
            return Err(Error::argument_rule("/catalog_id", "required", message));
        };
        let catalog = set.require_catalog(name)?;
        match title {
            Some(title) if set.require_catalog(title)?.id != catalog.id => {
                let message =
                    format!("catalog_id is `{}` and catalog_title is another one's", catalog.id);
                Err(Error::argument_rule("/catalog_title", "contradiction", &message))
            }
            _ => Ok(catalog.id.clone()),
        }
    }
}

pub(super) async fn list_catalogs(app: &App, _: NoArguments) -> Result<Value> {
    let set = app.catalog_set().await?;
    let secrets = app.catalog_secrets().await;
    let catalogs = set.catalogs().iter().map(|one| summarize_catalog(one, &secrets));
    let catalogs: Vec<_> = catalogs.collect();
    Ok(json!({ "catalogs": catalogs }))
}

/// A catalog, as `catalog.list` shows it. `secrets` are the available secrets.
fn summarize_catalog(catalog: &Catalog, secrets: &BTreeSet<String>) -> Value {
    let Catalog { id, settings, document: book, .. } = catalog;
    let (head, findings) = match book {
        Ok(book) => {
            let target = catalog.call_target().ok();
            let refusal =
                target.and_then(|target| target.address_policy.explain_refusal(&settings.base_url));
            (Some(book.head()), Vec::from_iter(refusal))
        }
        Err(error) => (None, vec![error.clone()]),
    };
    json!({
        "catalog_id": id,
        "title": settings.title,
        "vendor": catalog.vendor(),
        "description": settings.description,
        "enabled": settings.enabled,
        "base_url": settings.base_url,
        "base_urls": head.map_or(&[][..], |head| &head.servers),
        "operations": book.as_ref().map_or(0, |book| book.entries().len()),
        "contracts": head.map_or(0, |head| head.provider_count),
        "headers": list_header_sources(settings, secrets),
        "schemes": list_security_schemes(catalog, |_| true),
        "origins": settings.origins,
        "allow": settings.allow,
        "source": settings.source,
        "imported_at": settings.imported_at,
        "document_version": head.map_or("", |head| &head.version),
        "findings": findings,
    })
}

/// The headers and credentials of a catalog: their names and the sources of their values, but no values. An entry is
/// `set` if each secret that it refers to is in `secrets`.
pub(super) fn list_header_sources(settings: &Settings, secrets: &BTreeSet<String>) -> Value {
    let list_sources = |values: &BTreeMap<String, String>, kind: &str| {
        let sources = values.iter().map(|(name, value)| {
            let references = call::find_references(value);
            let is_set = references.iter().all(|name| secrets.contains(name));
            json!({ "name": name, "set": is_set, "source": describe_secret_sources(value), "kind": kind })
        });
        sources.collect::<Vec<_>>()
    };
    let mut headers = list_sources(&settings.headers, "header");
    headers.extend(list_sources(&settings.credentials, "credential"));
    for tool_headers in settings.tool_headers.values() {
        headers.extend(list_sources(tool_headers, "header of a tool"));
    }
    headers.into()
}

/// The security schemes of a document that match, each with where it goes and where its credential comes from.
pub(super) fn list_security_schemes(
    catalog: &Catalog,
    is_included: impl Fn(&String) -> bool,
) -> Value {
    let describe_scheme = |(name, scheme): (&String, &SecurityScheme)| {
        let destination = match scheme {
            SecurityScheme::ApiKey { location, name } => format!("{} `{name}`", location.as_str()),
            SecurityScheme::Basic => "basic".to_owned(),
            SecurityScheme::Bearer => "bearer".to_owned(),
            SecurityScheme::Other { scheme } => format!("{scheme}, which midex has no way for"),
        };
        let value = catalog.find_credential(name, scheme);
        json!({ "name": name, "what": destination, "source": value.map(describe_secret_sources) })
    };
    let document = catalog.document.as_ref().ok();
    let all = document.into_iter().flat_map(|book| &book.head().schemes);
    all.filter(|(name, _)| is_included(name)).map(describe_scheme).collect()
}

/// The sources of the secrets in a value.
fn describe_secret_sources(value: &str) -> String {
    match &call::find_references(value)[..] {
        [] => "literal".to_owned(),
        references => references.join(", "),
    }
}

/// The violations or warnings of a document.
pub(super) fn list_violations(violations: &[Violation]) -> Value {
    let shown_violations = violations.iter().take(limits::VIOLATIONS_MAX);
    shown_violations.map(|one| json!(one)).collect()
}
