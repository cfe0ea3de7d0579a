//! What a workflow needs of its server: catalogs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::nearest::fold;

/// A catalog that a workflow requires (`requires.catalogs`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Whose operations they are.
    pub vendor: String,
    /// What the catalog is called, where the vendor has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where its document is: a path or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Which of both that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// The version that the author had. Nothing compares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Requirement {
    /// Whether a step that names this catalog may mean it.
    pub(crate) fn is_called(&self, catalog: &str) -> bool {
        let is = |name: &str| fold(name) == fold(catalog);
        is(&self.vendor) || self.title.as_deref().is_some_and(is)
    }

    /// What is to be called so that it is met.
    pub fn import_call(&self) -> String {
        let title = self.title.as_deref().unwrap_or(&self.vendor);
        let source = self
            .source
            .as_deref()
            .unwrap_or("PATH OR URL OF ITS OPENAPI DOCUMENT");
        format!(
            "catalog.import_openapi with source '{source}', catalog_title '{title}' and vendor '{}'",
            self.vendor
        )
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vendor `{}`", self.vendor)?;
        match &self.title {
            Some(title) => write!(f, " called `{title}`"),
            None => Ok(()),
        }
    }
}
