//! `catalog.toml`: the settings of a catalog, which the user and tools write.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml_edit::DocumentMut;

use super::operation::OperationClass;

/// The content of `catalog.toml`. Tools change single values in the user's text: comments and formatting are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The title. The id is derived from the first title, and does not change with it.
    pub title: String,
    /// The vendor: the first word of its operations in a workflow.
    pub vendor: String,
    /// A description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether its operations may be called.
    pub enabled: bool,
    /// The source of its document: a path or a URL.
    pub source: String,
    /// The time of the import, in RFC 3339.
    pub imported_at: String,
    /// The base URL, to which the paths of its operations are appended.
    pub base_url: String,
    /// Whether the user or a tool chose `base_url`. It then replaces every server of the document, including those of
    /// single operations. A `base_url` other than the document's first server counts as chosen even without this key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base_url_chosen: bool,
    /// Whether the service recognizes repeated calls by `Idempotency-Key`, although the document does not say so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idempotency_key: bool,
    /// Hosts (`HOST:PORT`) that may be called although they are not public or not https. Only the user adds to it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allow: BTreeSet<String>,
    /// The origins (`https://HOST`) that receive the user's headers and credentials. Only the user adds one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub origins: BTreeSet<String>,
    /// The user's headers for every call. They refer to secrets by name: `Bearer ${env:NAME}`, `${file:NAME}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers that tools set, by the only origin that receives them. They have no references to secrets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_headers: BTreeMap<String, BTreeMap<String, String>>,
    /// Credentials by the names of the security schemes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, String>,
    /// Classes that override those derived from the document, by operation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, OperationClass>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            title: String::new(),
            vendor: String::new(),
            description: String::new(),
            enabled: true,
            source: String::new(),
            imported_at: String::new(),
            base_url: String::new(),
            base_url_chosen: false,
            idempotency_key: false,
            allow: BTreeSet::new(),
            origins: BTreeSet::new(),
            headers: BTreeMap::new(),
            tool_headers: BTreeMap::new(),
            credentials: BTreeMap::new(),
            classes: BTreeMap::new(),
        }
    }
}

/// The headers and credentials that are sent with calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogHeaders {
    /// Headers by name.
    pub headers: BTreeMap<String, String>,
    /// Credentials by the name of their scheme.
    pub credentials: BTreeMap<String, String>,
    /// The origins that receive them.
    pub origins: BTreeSet<String>,
}

impl Settings {
    /// Parses a `catalog.toml`.
    ///
    /// # Errors
    /// A syntax error or an invalid value, with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = toml_edit::de::from_str(text);
        parsed.map_err(|error| error.to_string().trim().to_owned())
    }

    /// Writes these settings into the text of a `catalog.toml`. Unchanged values keep their formatting.
    ///
    /// # Errors
    /// As [`Settings::parse`].
    pub fn write_into_text(&self, text: &str) -> Result<String, String> {
        let mut document: DocumentMut =
            text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
        let before = Self::parse(text)?;
        let to_table = |settings: &Self| {
            toml_edit::ser::to_document(settings).map_err(|error| error.to_string())
        };
        let (before, after) = (to_table(&before)?, to_table(self)?);
        let keys: BTreeSet<_> = before.iter().chain(after.iter()).map(|(key, _)| key).collect();
        for key in keys {
            let is_unchanged = |of: &DocumentMut| of.get(key).map(ToString::to_string);
            if is_unchanged(&before) != is_unchanged(&after) || !document.contains_key(key) {
                match after.get(key) {
                    Some(item) => drop(document.insert(key, expand_inline_table(item.clone()))),
                    None => drop(document.remove(key)),
                }
            }
        }
        Ok(document.to_string())
    }

    /// The headers and credentials for calls at the current base URL, and the origins that receive them. Those of the
    /// user are sent to the origins that the user approved, those of a tool to the one that they were set for.
    pub fn headers_to_send(&self) -> CatalogHeaders {
        let origin = super::call::parse_origin(&self.base_url).unwrap_or_default();
        let mut sent_headers = CatalogHeaders {
            headers: self.headers.clone(),
            credentials: self.credentials.clone(),
            origins: self.origins.clone(),
        };
        let has_user_headers =
            !sent_headers.headers.is_empty() || !sent_headers.credentials.is_empty();
        if has_user_headers && !sent_headers.origins.contains(&origin) {
            // The user has not approved the current origin. A call that requires credentials fails with that reason.
            return sent_headers;
        }
        let tool_headers = self.tool_headers.get(&origin).into_iter().flatten();
        for (name, value) in tool_headers {
            let is_user_header = |known: &String| known.eq_ignore_ascii_case(name);
            if !sent_headers.headers.keys().any(is_user_header) {
                sent_headers.headers.insert(name.clone(), value.clone());
            }
        }
        sent_headers.origins.insert(origin);
        sent_headers
    }

    /// Whether a header or a credential refers to a secret.
    pub fn has_secrets(&self) -> bool {
        let mut values = self.headers.values().chain(self.credentials.values());
        values.any(|value| super::call::has_reference(value))
    }
}

/// The base URL of a document: its first server. If that is a path, it is relative to the origin of the source.
pub(super) fn derive_base_url(servers: &[String], source: &str) -> String {
    let server = servers.first().map_or("", String::as_str);
    match super::call::parse_origin(source) {
        Some(origin) if server.starts_with('/') => format!("{origin}{server}"),
        _ => server.to_owned(),
    }
}

/// Suggests a URL for a base URL without a usable host. If no host can be derived, the suggestion has the placeholder
/// `HOST`, because only the user knows it.
pub fn suggest_url_with_host(base_url: &str) -> String {
    let path = base_url.trim_start_matches("//");
    let is_path = path.is_empty() || path.starts_with(['/', '.']);
    match base_url.split_once("://") {
        Some((_, rest)) => format!("https://{rest}"),
        None if is_path => format!("https://HOST/{}", path.trim_start_matches(['/', '.'])),
        None => format!("https://{path}"),
    }
}

/// Turns an inline table into a table with a heading.
fn expand_inline_table(item: toml_edit::Item) -> toml_edit::Item {
    match item.into_table() {
        Ok(table) => toml_edit::Item::Table(table),
        Err(item) => item,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requester;

    #[test]
    fn changes_keep_the_rest_of_the_text() {
        let text = "# mine\ntitle = \"Shop\" # here\nvendor = \"shop\"\nenabled = true\n\n[headers]\n# theirs\nX-Key = \"${env:KEY}\"\n";
        let mut settings = Settings::parse(text).unwrap();
        assert!(settings.has_secrets());
        let same = settings.write_into_text(text).unwrap();
        assert!(same.starts_with("# mine\ntitle = \"Shop\" # here\n"), "{same}");
        settings.enabled = false;
        settings.classes.insert("orders:delete".into(), OperationClass::Destructive);
        let changed = settings.write_into_text(text).unwrap();
        assert!(changed.contains("title = \"Shop\" # here\n"), "{changed}");
        assert!(changed.contains("enabled = false"), "{changed}");
        assert!(changed.contains("# theirs\nX-Key = \"${env:KEY}\""), "{changed}");
        assert!(changed.contains("[classes]\n\"orders:delete\" = \"destructive\""), "{changed}");
        assert_eq!(Settings::parse(&changed).unwrap(), settings);
    }

    #[test]
    fn parse_errors_name_the_line() {
        let error = Settings::parse("title = \"x\"\nenabeld = true\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("enabeld"), "{error}");
    }

    /// A tool's headers are sent only to the origin that they were set for. The user's are sent only to origins that
    /// the user approved, whatever a tool changes.
    #[test]
    fn new_origin_gets_no_headers_of_the_user() {
        let url = |host: &str| format!("https://{host}/v1");
        let header = |name: &str| {
            let header = (name.to_owned(), Some("x".to_owned()));
            BTreeMap::from([header])
        };
        let mut settings = Settings { base_url: url("evil.example"), ..Settings::default() };
        settings.set_headers(&header("X-Tool"), false, Requester::Tool).unwrap();
        assert!(settings.origins.is_empty());
        assert_eq!(settings.headers_to_send().origins, ["https://evil.example".to_owned()].into());
        settings.set_base_url(&url("own.example"), Requester::Tool).unwrap();
        assert!(settings.headers_to_send().headers.is_empty(), "not where it was given for");
        settings.set_headers(&header("X-Key"), false, Requester::User).unwrap();
        let sent = settings.headers_to_send();
        assert_eq!(sent.origins, ["https://own.example".to_owned()].into());
        assert!(sent.headers.keys().eq(["X-Key"]));
        settings.set_base_url(&url("evil.example"), Requester::Tool).unwrap();
        settings.set_headers(&header("X-Tool"), false, Requester::Tool).unwrap();
        assert!(!settings.headers_to_send().origins.contains("https://evil.example"));
    }
}
