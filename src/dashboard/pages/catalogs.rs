//! The catalogs: OpenAPI documents whose operations are commands.

use maud::html;
use serde_json::{Value, json};

use crate::{html::line, page::PageContent, viewer::Viewer};
use midex_domain::error::Result;

pub(super) async fn render(viewer: &Viewer) -> Result<PageContent> {
    let reply: Value = viewer.source.query("catalog.list", json!({})).await?;
    let catalogs = reply["catalogs"].as_array().cloned().unwrap_or_default();
    let text = |catalog: &Value, name: &str| catalog[name].as_str().unwrap_or_default().to_owned();
    let list = html! {
        h1 { "Catalogs" }
        @if catalogs.is_empty() { p.note { "No catalog was imported. " code { "midex catalog add" } " imports an OpenAPI document." } }
        @for catalog in &catalogs {
            article.card {
                h2 { (line(&text(catalog, "title"))) " " span.note { (if catalog["enabled"] == false { "disabled" } else { "enabled" }) } }
                p.note { code { (line(&text(catalog, "catalog_id"))) } " " (line(&text(catalog, "base_url"))) }
                @if let Some(count) = catalog["operations"].as_u64() { p { (count) " commands" } }
                @for finding in catalog["findings"].as_array().into_iter().flatten() {
                    p.problem { (line(finding["message"].as_str().unwrap_or(&finding.to_string()))) }
                }
            }
        }
    };
    Ok(PageContent::with_fragment("Catalogs", "catalogs", &list, Vec::new()))
}
