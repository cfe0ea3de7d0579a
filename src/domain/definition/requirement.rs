//! Requirements of a workflow: the catalogs that it needs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::nearest::normalize_name;

/// A catalog that a workflow requires (`requires.catalogs`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogRequirement {
    /// The vendor of the API.
    pub vendor: String,
    /// The title of the catalog, for a vendor with several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The location of its OpenAPI document: a path or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The type of `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// The version that the author used. It is informational; nothing compares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl CatalogRequirement {
    /// Whether a step that names `catalog` may mean this requirement: the name equals the vendor or the title, after
    /// folding.
    pub(crate) fn matches_catalog(&self, catalog: &str) -> bool {
        let is_match = |name: &str| normalize_name(name) == normalize_name(catalog);
        is_match(&self.vendor) || self.title.as_deref().is_some_and(is_match)
    }

    /// The tool call that imports the required catalog.
    pub fn import_catalog_call(&self) -> String {
        let title = self.title.as_deref().unwrap_or(&self.vendor);
        let source = self.source.as_deref().unwrap_or("PATH OR URL OF ITS OPENAPI DOCUMENT");
        format!(
            "catalog.import_openapi with source '{source}', catalog_title '{title}' and vendor '{}'",
            self.vendor
        )
    }
}

impl fmt::Display for CatalogRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vendor `{}`", self.vendor)?;
        match &self.title {
            Some(title) => write!(f, " called `{title}`"),
            None => Ok(()),
        }
    }
}
