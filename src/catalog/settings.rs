//! `catalog.toml`: what the user and the tools say of a catalog, beside its document.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml_edit::DocumentMut;

use super::operation::Class;

/// What `catalog.toml` says. Tools change values in the user's own text: comments and what they do not know stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What the catalog is called. Its id is made of the first one and stays.
    pub title: String,
    /// The first word of its operations in a workflow.
    pub vendor: String,
    /// What it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether its operations may be called.
    pub enabled: bool,
    /// Where its document came from: a path or a URL.
    pub source: String,
    /// When it came, as RFC 3339 has it.
    pub imported_at: String,
    /// What the paths of its operations follow.
    pub base_url: String,
    /// Whether the user or a tool chose `base_url`: it then replaces every server of the document, also those of single
    /// operations. A `base_url` that is not the document's first server counts as chosen without this key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base_url_chosen: bool,
    /// Whether the service knows a repeated call by its `Idempotency-Key`, though the document does not say so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idempotency_key: bool,
    /// What may be called although it is not public or not https: `HOST:PORT`. No tool adds to it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allow: BTreeSet<String>,
    /// The origins that get the headers and credentials, where a secret is among them: `https://HOST`. No tool adds one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub origins: BTreeSet<String>,
    /// Headers of every call. Secrets stand in them by name: `Bearer ${env:NAME}`, `${file:NAME}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers that tools gave, by the origin that they were given for and go to. No secret stands in them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_headers: BTreeMap<String, BTreeMap<String, String>>,
    /// What its security schemes are given, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, String>,
    /// Operations whose class is not the one of their method.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, Class>,
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

/// What goes with the calls of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Headers by name.
    pub headers: BTreeMap<String, String>,
    /// Credentials by the name of their scheme.
    pub credentials: BTreeMap<String, String>,
    /// The origins that get them.
    pub origins: BTreeSet<String>,
}

impl Settings {
    /// Reads the text of a `catalog.toml`.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(text: &str) -> Result<Self, String> {
        let read = toml_edit::de::from_str(text);
        read.map_err(|error| error.to_string().trim().to_owned())
    }

    /// The text with these settings in the place of what it says; what it says the same stays as it is written.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn written_into(&self, text: &str) -> Result<String, String> {
        let mut document: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| error.to_string())?;
        let before = Self::read(text)?;
        let said = |settings: &Self| {
            toml_edit::ser::to_document(settings).map_err(|error| error.to_string())
        };
        let (before, after) = (said(&before)?, said(self)?);
        let keys: BTreeSet<_> = before
            .iter()
            .chain(after.iter())
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            let same = |of: &DocumentMut| of.get(key).map(ToString::to_string);
            if same(&before) != same(&after) || !document.contains_key(key) {
                match after.get(key) {
                    Some(item) => drop(document.insert(key, table(item.clone()))),
                    None => drop(document.remove(key)),
                }
            }
        }
        Ok(document.to_string())
    }

    /// The headers and credentials that go to where the catalog is called now, and the origins that get them: the user's go to
    /// those that the user named, a tool's to the one that they were given for.
    pub fn sent(&self) -> Sent {
        let origin = super::call::origin(&self.base_url).unwrap_or_default();
        let mut sent = Sent {
            headers: self.headers.clone(),
            credentials: self.credentials.clone(),
            origins: self.origins.clone(),
        };
        let has_users = !sent.headers.is_empty() || !sent.credentials.is_empty();
        if has_users && !sent.origins.contains(&origin) {
            // They do not go there, and a call that needs them says so.
            return sent;
        }
        let of_tools = self.tool_headers.get(&origin).into_iter().flatten();
        for (name, value) in of_tools {
            let is_users = |known: &String| known.eq_ignore_ascii_case(name);
            if !sent.headers.keys().any(is_users) {
                sent.headers.insert(name.clone(), value.clone());
            }
        }
        sent.origins.insert(origin);
        sent
    }

    /// Whether a header or a credential stands in it by the name of a secret.
    pub fn has_secrets(&self) -> bool {
        let mut values = self.headers.values().chain(self.credentials.values());
        values.any(|value| super::call::has_reference(value))
    }
}

/// The base URL of a document from this source: its first server, which may be relative to the source.
pub(super) fn own_base_url(servers: &[String], source: &str) -> String {
    let server = servers.first().map_or("", String::as_str);
    match super::call::origin(source) {
        Some(origin) if server.starts_with('/') => format!("{origin}{server}"),
        _ => server.to_owned(),
    }
}

/// What a base URL without a host may be meant to be: the user knows the host, where nothing here does.
pub fn with_host(base_url: &str) -> String {
    let path = base_url.trim_start_matches("//");
    let is_path = path.is_empty() || path.starts_with(['/', '.']);
    match base_url.split_once("://") {
        Some((_, rest)) => format!("https://{rest}"),
        None if is_path => format!("https://HOST/{}", path.trim_start_matches(['/', '.'])),
        None => format!("https://{path}"),
    }
}

/// A mapping as a table with a heading of its own.
fn table(item: toml_edit::Item) -> toml_edit::Item {
    match item.into_table() {
        Ok(table) => toml_edit::Item::Table(table),
        Err(item) => item,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::By;

    #[test]
    fn a_tool_changes_what_it_says_and_leaves_the_rest() {
        let text = "# mine\ntitle = \"Shop\" # here\nvendor = \"shop\"\nenabled = true\n\n[headers]\n# theirs\nX-Key = \"${env:KEY}\"\n";
        let mut settings = Settings::read(text).unwrap();
        assert!(settings.has_secrets());
        let same = settings.written_into(text).unwrap();
        assert!(
            same.starts_with("# mine\ntitle = \"Shop\" # here\n"),
            "{same}"
        );
        settings.enabled = false;
        settings
            .classes
            .insert("orders:delete".into(), Class::Destructive);
        let changed = settings.written_into(text).unwrap();
        assert!(changed.contains("title = \"Shop\" # here\n"), "{changed}");
        assert!(changed.contains("enabled = false"), "{changed}");
        assert!(
            changed.contains("# theirs\nX-Key = \"${env:KEY}\""),
            "{changed}"
        );
        assert!(
            changed.contains("[classes]\n\"orders:delete\" = \"destructive\""),
            "{changed}"
        );
        assert_eq!(Settings::read(&changed).unwrap(), settings);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let error = Settings::read("title = \"x\"\nenabeld = true\n").unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("enabeld"),
            "{error}"
        );
    }

    /// What a tool gives goes where it was given for; what the user gives goes where the user said, whatever a tool did.
    #[test]
    fn a_tool_brings_nothing_of_the_users_to_another_origin() {
        let url = |host: &str| format!("https://{host}/v1");
        let header = |name: &str| {
            let header = (name.to_owned(), Some("x".to_owned()));
            BTreeMap::from([header])
        };
        let mut settings = Settings {
            base_url: url("evil.example"),
            ..Settings::default()
        };
        settings
            .set_headers(&header("X-Tool"), false, By::Tool)
            .unwrap();
        assert!(settings.origins.is_empty());
        assert_eq!(
            settings.sent().origins,
            ["https://evil.example".to_owned()].into()
        );
        settings
            .set_base_url(&url("own.example"), By::Tool)
            .unwrap();
        assert!(
            settings.sent().headers.is_empty(),
            "not where it was given for"
        );
        settings
            .set_headers(&header("X-Key"), false, By::User)
            .unwrap();
        let sent = settings.sent();
        assert_eq!(sent.origins, ["https://own.example".to_owned()].into());
        assert!(sent.headers.keys().eq(["X-Key"]));
        settings
            .set_base_url(&url("evil.example"), By::Tool)
            .unwrap();
        settings
            .set_headers(&header("X-Tool"), false, By::Tool)
            .unwrap();
        assert!(!settings.sent().origins.contains("https://evil.example"));
    }
}
