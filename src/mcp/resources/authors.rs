//! Resources for authors: the manual, the schema, the manifest files, the catalogs and the error reference.

use serde_json::Value;

use super::{AUTHORING, MARKDOWN, ResourceContent, SCHEMA, address::ForAuthors, listed_page};
use crate::{
    metadata::CacheHint,
    tools::{CommandFilter, listed_manifest, page_of_commands, providers},
};
use midex_domain::error::{NextCall, Result, read as read_next};
use midex_registry::{self as registry, Registry, SchemaDraft, SchemaOf};
use midex_server::app::App;

/// The manual of the manifest format.
pub(crate) const MANUAL: &str = include_str!("manifest.md");
const ERRORS: &str = include_str!("errors.md");

/// Suggests the manifest with the nearest id.
const NEAREST: NextCall = read_next(
    &[("uri", "midex://authoring/manifest/{nearest}")],
    "if that is the one meant",
);

pub(super) async fn read(app: &App, what: ForAuthors) -> Result<ResourceContent> {
    Ok(match what {
        ForAuthors::Spec => with_server(ResourceContent::of_text(MANUAL.to_owned(), MARKDOWN)),
        ForAuthors::Errors => with_server(ResourceContent::of_text(ERRORS.to_owned(), MARKDOWN)),
        ForAuthors::Schema => {
            let schema = registry::schema(SchemaOf::Manifest, SchemaDraft::default());
            with_server(ResourceContent {
                media_type: SCHEMA,
                ..schema.into()
            })
        }
        ForAuthors::ProviderCatalog => Value::from(providers(app).await?).into(),
        ForAuthors::Manifests(page) => {
            let list = format!("{AUTHORING}manifests");
            listed_page(app, &page, &list, |entry| Some(listed_manifest(entry))).await?
        }
        ForAuthors::CommandCatalog(page) => {
            let list = format!("{AUTHORING}command-catalog");
            let wanted = CommandFilter {
                query: page.query.clone().unwrap_or_default(),
                after: page.after.clone(),
                limit: page.limit,
                ..CommandFilter::default()
            };
            let (commands, end, _) = page_of_commands(app, wanted).await?;
            ResourceContent {
                next: end.map(|end| page.next(&list, &end)),
                ..Value::from(commands).into()
            }
        }
        ForAuthors::Manifest(id) => {
            app.look_into_registry(move |registry| manifest(registry, &id))
                .await??
        }
    })
}

fn with_server(content: ResourceContent) -> ResourceContent {
    ResourceContent {
        cache: CacheHint::WithServer,
        ..content
    }
}

/// The text of a workflow's file.
fn manifest(registry: &Registry, id: &str) -> Result<ResourceContent> {
    let unknown = || match registry.not_found(id) {
        error if error.context("nearest").is_some() => error.with_next(NEAREST),
        error => error,
    };
    let entry = registry.workflow(id).ok_or_else(unknown)?;
    match registry.manifest(entry) {
        Some(manifest) => {
            let media_type = manifest.format.media_type();
            Ok(ResourceContent::of_text(manifest.text, media_type))
        }
        // The file is too large, or not a text.
        None if entry.is_broken() => Err(registry::invalid(entry)),
        None => Err(unknown()),
    }
}
