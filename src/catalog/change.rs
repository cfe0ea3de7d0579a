//! Imports and changes of catalogs. [`Requester`] distinguishes requests of a tool from those of the user: a tool never
//! lowers a class, and never sends a secret to an origin that the user did not give it for.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use super::{
    Catalog, CatalogSet, Catalogs, Settings,
    call::{has_reference, is_connection_header, parse_origin},
    document::{self, CompiledDocument, DocumentReader, Inspection},
    files::{SettingsFile, derive_catalog_id, first_violation_message},
    operation::{OperationClass, SecurityScheme},
    settings::{derive_base_url, suggest_url_with_host},
};
use midex_domain::{
    error::{Code, Error, Result, Violation},
    limits,
    nearest::format_nearest_hint,
};

/// Who requests a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A tool, and so a model.
    Tool,
    /// The user: on the command line, or by confirming the question that shows the change.
    User,
}

/// A document to import as a catalog.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The source of the document: a path or a URL.
    pub source: String,
    /// The text of the document.
    pub document: Arc<[u8]>,
    /// The title of the catalog. If empty, the title of the document.
    pub title: String,
    /// The vendor, which is the first word of the catalog's operations. If `None`, that of the existing catalog, or
    /// else the id.
    pub vendor: Option<String>,
    /// The base URL. If `None`, the one that was chosen for the existing catalog, or else that of the document.
    pub base_url: Option<String>,
    /// Whether it may replace an existing catalog of this title.
    pub should_overwrite: bool,
    /// Whether the catalog may be called. If `None`, as before, and true for a new catalog.
    pub is_enabled: Option<bool>,
    /// The time of the import, in RFC 3339.
    pub imported_at: String,
}

/// The result of an import, computed before it is written.
#[derive(Debug)]
pub struct ImportPlan {
    /// The id of the catalog.
    pub id: String,
    /// The settings to write.
    pub settings: Settings,
    /// The compiled document.
    pub compiled: CompiledDocument,
    /// How the operations differ from those of the existing catalog.
    pub changes: OperationChanges,
    /// The existing text of the settings, which is edited in place; empty for a new catalog.
    text: String,
}

impl ImportPlan {
    /// Counts the operations of each base URL, most operations first, for at most
    /// [`limits::CATALOG_ADDRESSES_SHOWN_MAX`] URLs.
    pub fn count_base_urls(&self) -> Vec<BaseUrlCount> {
        let base_url = &self.settings.base_url;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for operation in &self.compiled.operations {
            let own_server = operation.servers.first();
            let own_server = own_server.filter(|_| !self.settings.base_url_chosen);
            *counts.entry(own_server.unwrap_or(base_url)).or_default() += 1;
        }
        let addresses = counts.into_iter().map(|(base_url, operations)| BaseUrlCount {
            base_url: base_url.to_owned(),
            operations,
        });
        let mut addresses: Vec<_> = addresses.collect();
        addresses.sort_by_key(|address| std::cmp::Reverse(address.operations));
        addresses.truncate(limits::CATALOG_ADDRESSES_SHOWN_MAX);
        addresses
    }
}

/// A base URL, and how many operations of the catalog use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaseUrlCount {
    /// The base URL, to which the paths of the operations are appended.
    pub base_url: String,
    /// The number of operations.
    pub operations: usize,
}

/// How a new document changes the operations of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperationChanges {
    /// The names of new operations.
    pub added: Vec<String>,
    /// The names of operations that no longer exist.
    pub removed: Vec<String>,
    /// The operations whose request or answer differs.
    pub changed: Vec<ChangedOperation>,
}

/// An operation that differs in the new document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedOperation {
    /// Its name.
    pub id: String,
    /// The parts that differ: `method`, `path`, `parameters`, `body`, `output`, `security`.
    pub what: Vec<&'static str>,
}

impl Catalogs {
    /// Computes the result of an import without writing anything. Blocks.
    ///
    /// # Errors
    /// `OPENAPI_INVALID` with every violation; `ARGUMENTS_INVALID` if the title yields no id, or if the base URL or
    /// the vendor is invalid; `FILE_UNUSABLE` if the existing settings cannot be read.
    pub fn plan_import(&self, import: &ImportRequest) -> Result<ImportPlan> {
        let compiled = document::compile_document(&import.document)
            .map_err(|refused| invalid_document_error(&refused))?;
        let set = self.current_catalogs();
        let title = match import.title.trim() {
            "" => compiled.title.as_str(),
            title => title,
        };
        let existing = set.find_catalog(title);
        let id = existing.map_or_else(|| derive_catalog_id(title), |there| there.id.clone());
        if id.is_empty() {
            let message = match title {
                "" => "the document has no `info.title`, so the catalog needs a title".to_owned(),
                title => format!("the title `{title}` makes no id"),
            };
            return Err(invalid_argument_error(
                message,
                "Give the catalog a title with letters or digits",
            ));
        }
        let (text, old_settings) = self.read_existing_settings(&id)?;
        let catalog_with_url = existing.filter(|there| there.is_base_url_chosen());
        let chosen_url = import
            .base_url
            .as_ref()
            .or_else(|| catalog_with_url.map(|there| &there.settings.base_url));
        let base_url = chosen_url.map_or_else(
            || derive_base_url(&compiled.servers, &import.source),
            |url| url.trim_end_matches('/').to_owned(),
        );
        if import.base_url.is_some() {
            check_base_url(&base_url)?;
        }
        let old_settings = old_settings.unwrap_or_default();
        let settings = Settings {
            title: title.to_owned(),
            vendor: match &import.vendor {
                Some(vendor) => vendor.clone(),
                None if old_settings.vendor.is_empty() => id.clone(),
                None => old_settings.vendor.clone(),
            },
            enabled: import.is_enabled.unwrap_or(old_settings.enabled),
            source: import.source.clone(),
            imported_at: import.imported_at.clone(),
            base_url,
            base_url_chosen: chosen_url.is_some(),
            ..old_settings
        };
        check_vendor(&settings.vendor)?;
        let mut compiled = compiled;
        if parse_origin(&settings.base_url).is_none() {
            let url = suggest_url_with_host(&settings.base_url);
            let message = format!(
                "{}, so nothing can be called yet: catalog.set_base_url with catalog_id '{id}' and base_url '{url}' says where, or `midex catalog base-url {id} {url}`",
                match &*settings.base_url {
                    "" => "the document names no server".to_owned(),
                    url => format!("the server `{url}` of the document names no host"),
                }
            );
            let warning = Violation::new("/servers", "base_url", message);
            compiled.warnings.insert(0, warning);
        }
        let changes = match existing.and_then(|there| there.document.as_ref().ok()) {
            Some(book) => OperationChanges::compare_operations(book, &compiled),
            None => OperationChanges::default(),
        };
        Ok(ImportPlan { id, settings, compiled, changes, text })
    }

    /// Imports a document. Blocks.
    ///
    /// # Errors
    /// As [`Catalogs::plan_import`]; `CATALOG_CONFLICT` if the catalog exists and `overwrite` is false; `LIMIT_EXCEEDED`
    /// past [`limits::CATALOGS_MAX`] catalogs; `FILE_UNUSABLE`, `SERVER_BUSY`. On an error nothing is changed.
    pub fn import_document(&self, import: &ImportRequest) -> Result<ImportPlan> {
        let _lock = self.paths().acquire_write_lock()?;
        let plan = self.plan_import(import)?;
        let (set, max_catalogs) = (self.current_catalogs(), limits::CATALOGS_MAX);
        let exists = set.catalogs().iter().any(|one| one.id == plan.id);
        if exists && !import.should_overwrite {
            let message = format!("there is a catalog `{}` already", plan.id);
            return Err(
                Error::new(Code::CatalogConflict, message).with_context("catalog_id", plan.id)
            );
        }
        if !exists && set.catalogs().len() >= max_catalogs {
            return Err(Error::limit_exceeded(format!(
                "there are {max_catalogs} catalogs, which is the limit"
            )));
        }
        let text = render_settings(&plan.settings, &plan.text)?;
        self.paths().write_catalog(&plan.id, &text, &import.document)?;
        self.current_catalogs();
        Ok(plan)
    }

    /// Changes the settings of a catalog. Blocks.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND`, `FILE_UNUSABLE`, `SERVER_BUSY`, and the errors of `change`.
    pub fn change_settings(
        &self,
        name: &str,
        change: impl FnOnce(&mut Settings, &Catalog) -> Result<()>,
    ) -> Result<Arc<Catalog>> {
        let _lock = self.paths().acquire_write_lock()?;
        let catalog = self.current_catalogs().require_catalog(name)?;
        let files = self.read_settings_file(&catalog.id)?;
        let mut settings = files.settings;
        change(&mut settings, &catalog)?;
        let text = render_settings(&settings, &files.text)?;
        self.paths().write_settings(&catalog.id, &text)?;
        self.current_catalogs().require_catalog(&catalog.id)
    }

    /// Removes a catalog, and its document if `should_remove_document` is true. Blocks.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND`, `FILE_UNUSABLE`, `SERVER_BUSY`.
    pub fn remove_catalog(
        &self,
        name: &str,
        should_remove_document: bool,
    ) -> Result<Arc<CatalogSet>> {
        let _lock = self.paths().acquire_write_lock()?;
        let catalog = self.current_catalogs().require_catalog(name)?;
        self.paths().remove_catalog(&catalog.id, should_remove_document)?;
        Ok(self.current_catalogs())
    }

    /// The text and the values of the existing settings; `None` if there is no settings file. The document of a
    /// removed catalog may still exist then.
    fn read_existing_settings(&self, id: &str) -> Result<(String, Option<Settings>)> {
        if !self.paths().settings_path(id).exists() {
            return Ok((String::new(), None));
        }
        let files = self.read_settings_file(id)?;
        Ok((files.text, Some(files.settings)))
    }

    fn read_settings_file(&self, id: &str) -> Result<SettingsFile> {
        self.paths().read_settings(id).map_err(|error| {
            let message = format!("the settings of catalog `{id}` cannot be read: {error}");
            Error::new(Code::FileUnusable, message).with_context("path", id)
        })
    }
}

impl CatalogSet {
    /// The catalog with this id or title.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND`, which suggests the nearest name.
    pub fn require_catalog(&self, name: &str) -> Result<Arc<Catalog>> {
        if let Some(catalog) = self.find_catalog(name) {
            return Ok(catalog.clone());
        }
        let names = self.catalogs().iter().flat_map(|one| [&*one.id, &*one.settings.title]);
        let message = format!("there is no catalog `{name}`{}", format_nearest_hint(name, names));
        Err(Error::new(Code::CatalogNotFound, message).with_context("catalog_id", name))
    }
}

impl Settings {
    /// Sets another base URL, which replaces every server of the document. The user's headers and credentials are
    /// sent to its origin only if the user sets it here, or has approved that origin before.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID`.
    pub fn set_base_url(&mut self, url: &str, requester: Requester) -> Result<()> {
        check_base_url(url)?;
        url.trim_end_matches('/').clone_into(&mut self.base_url);
        self.base_url_chosen = true;
        self.trust_base_url(requester);
        Ok(())
    }

    /// Sets headers, and removes those whose value is `None`. With `should_replace` all others are removed. A tool's headers
    /// are stored apart from the user's, and are sent only to the origin of the current base URL.
    ///
    /// # Errors
    /// `SECRET_NOT_ALLOWED` if a tool refers to a secret; `ARGUMENTS_INVALID` for an invalid header.
    pub fn set_headers(
        &mut self,
        headers: &BTreeMap<String, Option<String>>,
        should_replace: bool,
        requester: Requester,
    ) -> Result<()> {
        for (name, value) in headers {
            check_header(name, value.as_deref())?;
            if requester == Requester::Tool && value.as_deref().is_some_and(has_reference) {
                return Err(tool_secret_error(name));
            }
        }
        let origin = parse_origin(&self.base_url).unwrap_or_default();
        let target_headers = match requester {
            Requester::User => &mut self.headers,
            Requester::Tool => self.tool_headers.entry(origin).or_default(),
        };
        if should_replace {
            target_headers.clear();
        }
        for (name, value) in headers {
            target_headers.retain(|known, _| !known.eq_ignore_ascii_case(name));
            if let Some(value) = value {
                target_headers.insert(name.clone(), value.clone());
            }
        }
        self.tool_headers.retain(|_, headers| !headers.is_empty());
        self.trust_base_url(requester);
        Ok(())
    }

    /// Sets or removes the credential of a security scheme. Only the user may do this, which also approves the origin
    /// of the base URL.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if the document has no such scheme, or if the value cannot be sent.
    pub fn set_credential(
        &mut self,
        scheme: &str,
        value: Option<&str>,
        schemes: &BTreeMap<String, SecurityScheme>,
    ) -> Result<()> {
        if !schemes.contains_key(scheme) && !self.credentials.contains_key(scheme) {
            let known_schemes: Vec<_> = schemes.keys().map(String::as_str).take(10).collect();
            let message = format!(
                "the document has no security scheme `{scheme}`{}; it has: {}",
                format_nearest_hint(scheme, known_schemes.iter().copied()),
                known_schemes.join(", ")
            );
            return Err(invalid_argument_error(message, "Name one that the document has"));
        }
        let max_bytes = limits::CATALOG_HEADER_BYTES_MAX;
        if value.is_some_and(|value| value.len() > max_bytes || value.contains(char::is_control)) {
            let message =
                format!("the credential must be of at most {max_bytes} bytes, on one line");
            return Err(invalid_argument_error(message, "Correct the value"));
        }
        match value {
            Some(value) => drop(self.credentials.insert(scheme.to_owned(), value.to_owned())),
            None => drop(self.credentials.remove(scheme)),
        }
        self.trust_base_url(Requester::User);
        Ok(())
    }

    /// Approves the origin of the base URL to receive the user's headers and credentials. Does nothing for a tool: an
    /// origin that a tool had added would receive the secrets that the user adds later.
    pub fn trust_base_url(&mut self, requester: Requester) {
        if let Some(origin) = parse_origin(&self.base_url).filter(|_| requester == Requester::User)
        {
            self.origins.insert(origin);
        }
    }

    /// Sets the class of an operation. A tool may only make it stricter than `old_class`.
    ///
    /// # Errors
    /// `COMMAND_CLASS_REFUSED` if a tool would make it less strict.
    pub fn set_class(
        &mut self,
        operation: &str,
        old_class: OperationClass,
        class: OperationClass,
        requester: Requester,
    ) -> Result<()> {
        if requester == Requester::Tool && class < old_class {
            let message = format!(
                "`{operation}` is {}: only the user makes it {}",
                old_class.as_str(),
                class.as_str()
            );
            return Err(Error::new(Code::CommandClassRefused, message).with_action(
                "Ask your user to run `midex catalog class` in a terminal, if they want that. Call command.list: it shows the class of each command",
            ));
        }
        self.classes.insert(operation.to_owned(), class);
        Ok(())
    }
}

fn render_settings(settings: &Settings, text: &str) -> Result<String> {
    let rendered = settings.write_into_text(text);
    rendered.map_err(|error| Error::internal(format!("the settings cannot be written: {error}")))
}

fn invalid_argument_error(message: String, action: &'static str) -> Error {
    Error::new(Code::ArgumentsInvalid, message).with_action(action)
}

fn tool_secret_error(header: &str) -> Error {
    let message =
        format!("the header `{header}` would be given a secret, which only the user may do");
    Error::new(Code::SecretNotAllowed, message)
}

/// The error for a document that cannot be imported. Its message is that of the first violation.
fn invalid_document_error(inspection: &Inspection) -> Error {
    let message =
        format!("the document cannot be imported: {}", first_violation_message(inspection));
    let violations: Vec<Violation> = inspection.violations.clone();
    Error::new(Code::OpenapiInvalid, message).with_violations(violations)
}

fn check_base_url(url: &str) -> Result<()> {
    let authority = url.split(['/', '\\']).nth(2).unwrap_or_default();
    if authority.contains('@') {
        let message = "the URL has a user or a password in it, which would stand in the catalog's file and in its logs";
        return Err(invalid_argument_error(
            message.to_owned(),
            "Leave the user out of base_url, and have your user run `midex catalog credential` in a terminal",
        ));
    }
    if parse_origin(url).is_some() {
        return Ok(());
    }
    let message = format!("`{url}` is no URL of http or https");
    Err(invalid_argument_error(message, "Give base_url as https://HOST/PATH"))
}

fn check_vendor(vendor: &str) -> Result<()> {
    let is_word = !vendor.is_empty() && !vendor.contains(char::is_whitespace);
    if is_word && vendor.len() <= limits::WORD_BYTES_MAX {
        return Ok(());
    }
    let message = format!("`{vendor}` is no vendor: it is the first word of `run`");
    Err(invalid_argument_error(message, "Give the vendor as one word"))
}

/// Headers that midex sets itself for each call.
const CALL_HEADERS: [&str; 2] = ["content-type", "idempotency-key"];

fn check_header(name: &str, value: Option<&str>) -> Result<()> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(invalid_argument_error(
            format!("`{name}` is no name of a header"),
            "Correct the name",
        ));
    }
    let mut reserved_headers = CALL_HEADERS.iter();
    if is_connection_header(name) || reserved_headers.any(|own| name.eq_ignore_ascii_case(own)) {
        let message = format!("the header `{name}` is set by midex itself");
        return Err(invalid_argument_error(message, "Leave the header out"));
    }
    let is_visible = |byte: u8| (0x20..0x7f).contains(&byte);
    match value {
        Some(value)
            if value.len() > limits::CATALOG_HEADER_BYTES_MAX || !value.bytes().all(is_visible) =>
        {
            let message = format!(
                "the value of `{name}` must be of at most {} visible ASCII characters",
                limits::CATALOG_HEADER_BYTES_MAX
            );
            Err(invalid_argument_error(message, "Correct the value"))
        }
        _ => Ok(()),
    }
}

impl OperationChanges {
    /// Compares the operations of the existing document with those of a new one.
    fn compare_operations(before: &DocumentReader, after: &CompiledDocument) -> Self {
        let mut old_operations: BTreeMap<_, _> = before
            .entries()
            .iter()
            .enumerate()
            .map(|(place, entry)| (&*entry.name, place))
            .collect();
        let mut changes = Self::default();
        for operation in &after.operations {
            match old_operations.remove(operation.name.as_str()) {
                None => changes.added.push(operation.name.clone()),
                Some(place) => {
                    let Ok(old_operation) = before.read_bare_operation(place) else {
                        continue;
                    };
                    let parts = [
                        ("method", old_operation.method != operation.method),
                        ("path", old_operation.path != operation.path),
                        ("parameters", old_operation.parameters != operation.parameters),
                        ("body", old_operation.body != operation.body),
                        ("output", old_operation.output != operation.output),
                        ("security", old_operation.security != operation.security),
                    ];
                    let what: Vec<_> = parts
                        .into_iter()
                        .filter_map(|(part, is_other)| is_other.then_some(part))
                        .collect();
                    if !what.is_empty() {
                        changes.changed.push(ChangedOperation { id: operation.name.clone(), what });
                    }
                }
            }
        }
        changes.removed = old_operations.into_keys().map(str::to_owned).collect();
        changes
    }
}
