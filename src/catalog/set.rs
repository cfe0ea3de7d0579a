//! The catalogs at one moment, and the resolution of names among them.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde_json::Value;

use super::{
    call::{AddressPolicy, CallTarget, PreparedOperation, has_reference, is_secret_header},
    document::{DocumentReader, OperationEntry, SearchHit, SearchableCatalog, search_operations},
    files::CatalogStamps,
    operation::{Operation, OperationClass, ParameterLocation, SecurityScheme},
    settings::{Settings, derive_base_url},
};
use midex_domain::{
    check::{Argument, OperationLookup, OperationLookupResult, OperationSignature},
    definition::CatalogRequirement,
    error::{Result, Violation},
    limits,
    nearest::{find_nearest, normalize_name},
};

/// A catalog.
pub struct Catalog {
    /// Its id, which is the name of its directory.
    pub id: String,
    /// The settings from its file.
    pub settings: Settings,
    /// Its compiled document, or why it cannot be used.
    pub document: Result<Arc<DocumentReader>, String>,
    prepared_operations: Mutex<HashMap<usize, Arc<PreparedOperation>>>,
    call_target: OnceLock<Result<Arc<CallTarget>, String>>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog({})", self.id)
    }
}

impl Catalog {
    pub(super) fn new(
        id: &str,
        settings: Settings,
        document: Result<Arc<DocumentReader>, String>,
    ) -> Self {
        Self {
            id: id.to_owned(),
            settings,
            document,
            prepared_operations: Mutex::default(),
            call_target: OnceLock::new(),
        }
    }

    /// Its name in a workflow: the vendor, or else the id.
    pub fn vendor(&self) -> &str {
        match self.settings.vendor.as_str() {
            "" => &self.id,
            vendor => vendor,
        }
    }

    /// Its compiled document, if it is valid and the catalog is enabled.
    fn usable_document(&self) -> Option<&DocumentReader> {
        let document = self.document.as_ref().ok();
        document.map(|book| &**book).filter(|_| self.settings.enabled)
    }

    /// The headers and credentials whose values are secrets that stand in the file of the settings itself.
    pub fn literal_secrets(&self) -> impl Iterator<Item = &str> {
        let Settings { headers, tool_headers, credentials, .. } = &self.settings;
        let headers = headers.iter().chain(tool_headers.values().flatten());
        let secrets = headers.filter(|(name, _)| is_secret_header(name)).chain(credentials);
        secrets.filter(|(_, value)| !has_reference(value)).map(|(name, _)| name.as_str())
    }

    fn has_name(&self, name: &str) -> bool {
        self.id == name || normalize_name(self.vendor()) == normalize_name(name)
    }

    fn satisfies_requirement(&self, requirement: &CatalogRequirement) -> bool {
        let has_title =
            |title: &String| normalize_name(title) == normalize_name(&self.settings.title);
        normalize_name(self.vendor()) == normalize_name(&requirement.vendor)
            && requirement.title.as_ref().is_none_or(has_title)
    }

    /// The class of an operation: from the settings, or else from the document.
    pub fn operation_class(&self, entry: &OperationEntry) -> OperationClass {
        // The settings may name the operation by an alias, which was its name in an earlier version.
        let names = std::iter::once(&entry.name).chain(&entry.aliases);
        let mut overrides = names.filter_map(|name| self.settings.classes.get(&**name));
        overrides.next().copied().unwrap_or(entry.class)
    }

    /// Whether its base URL was chosen explicitly, and so replaces every server of the document: see
    /// [`Settings::base_url_chosen`].
    pub fn is_base_url_chosen(&self) -> bool {
        let Settings { base_url, source, .. } = &self.settings;
        let is_document_url =
            |book: &Arc<DocumentReader>| derive_base_url(&book.head().servers, source) == *base_url;
        self.settings.base_url_chosen || !self.document.as_ref().is_ok_and(is_document_url)
    }

    /// The operation, prepared for calls. Up to [`limits::CATALOG_PREPARED_MAX`] of them are cached; a full cache is
    /// cleared.
    ///
    /// # Errors
    /// The compiled document is damaged, or the catalog has none.
    pub fn prepare_operation(&self, index: usize) -> Result<Arc<PreparedOperation>, String> {
        if let Some(prepared) = self.find_cached_operation(index) {
            return Ok(prepared);
        }
        let operation = self.read_operation(index)?;
        let prepared = Arc::new(PreparedOperation::new(operation));
        let mut cache = self.lock_cache();
        if cache.len() >= limits::CATALOG_PREPARED_MAX {
            cache.clear();
        }
        cache.insert(index, prepared.clone());
        Ok(prepared)
    }

    /// The operation from the cache of [`Catalog::prepare_operation`]. Reads nothing.
    pub(super) fn find_cached_operation(&self, index: usize) -> Option<Arc<PreparedOperation>> {
        self.lock_cache().get(&index).cloned()
    }

    fn lock_cache(&self) -> MutexGuard<'_, HashMap<usize, Arc<PreparedOperation>>> {
        self.prepared_operations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads an operation with its complete schemas.
    ///
    /// # Errors
    /// As [`Catalog::prepare_operation`].
    pub fn read_operation(&self, index: usize) -> Result<Operation, String> {
        let document = self.document.as_ref().map_err(Clone::clone)?;
        document.read_operation(index).map_err(|error| error.to_string())
    }

    /// The first security scheme that the operation requires and the catalog has no credential for. `None` if the
    /// catalog has all credentials of one alternative.
    pub fn find_missing_credential(&self, operation: &Operation) -> Option<String> {
        let document = self.document.as_ref().ok()?;
        let schemes = &document.head().schemes;
        let has_credential = |name: &String| {
            let scheme = schemes.get(name);
            scheme.is_some_and(|scheme| self.find_credential(name, scheme).is_some())
        };
        let mut alternatives = operation.security.iter();
        if alternatives.any(|names| names.iter().all(has_credential)) {
            return None;
        }
        let mut names = operation.security.iter().flatten();
        names.find(|name| !has_credential(name)).cloned()
    }

    /// The catalog's value for a security scheme: its credential, or the user's value of the header that the scheme
    /// sets.
    pub fn find_credential(&self, name: &str, scheme: &SecurityScheme) -> Option<&str> {
        let Settings { credentials, headers, .. } = &self.settings;
        let header = match scheme {
            SecurityScheme::ApiKey { location: ParameterLocation::Header, name } => {
                Some(name.as_str())
            }
            SecurityScheme::Basic | SecurityScheme::Bearer => Some("authorization"),
            _ => None,
        };
        let is_scheme_header =
            |own: &str| header.is_some_and(|header| own.eq_ignore_ascii_case(header));
        let header_value = headers.iter().find(|(own, _)| is_scheme_header(own));
        let value = credentials.get(name).or(header_value.map(|(_, value)| value));
        value.map(String::as_str)
    }

    /// Where its operations are called, and with which headers and credentials.
    ///
    /// # Errors
    /// The document is unusable, or the settings allow a host that is not of the form `HOST:PORT`.
    pub fn call_target(&self) -> Result<Arc<CallTarget>, String> {
        let target = self.call_target.get_or_init(|| self.build_target().map(Arc::new));
        target.clone()
    }

    fn build_target(&self) -> Result<CallTarget, String> {
        let settings = &self.settings;
        let allowed_hosts = settings.allow.iter().map(String::as_str);
        let document = self.document.as_ref().map_err(Clone::clone)?;
        let sent_headers = settings.headers_to_send();
        Ok(CallTarget {
            address_policy: AddressPolicy::new(self.id.as_str(), allowed_hosts)?,
            base_url: settings.base_url.clone(),
            should_replace_servers: self.is_base_url_chosen(),
            headers: sent_headers.headers.into_iter().collect(),
            schemes: document.head().schemes.clone(),
            credentials: sent_headers.credentials,
            origins: sent_headers.origins,
            approved_origins: settings.origins.clone(),
            has_idempotency_keys: settings.idempotency_key,
        })
    }
}

/// An operation of one of the catalogs.
#[derive(Clone, Debug)]
pub struct CatalogOperation {
    /// Its catalog.
    pub catalog: Arc<Catalog>,
    /// Its position in the catalog's book.
    pub index: usize,
}

impl CatalogOperation {
    /// Its index entry, which is in memory.
    pub fn entry(&self) -> Option<&OperationEntry> {
        self.catalog.document.as_ref().ok()?.entries().get(self.index)
    }

    /// Its class; the strictest one if its entry is not available.
    pub fn class(&self) -> OperationClass {
        let class = self.entry().map(|entry| self.catalog.operation_class(entry));
        class.unwrap_or(OperationClass::Destructive)
    }
}

/// The result of resolving the name of a catalog and the name of an operation.
#[derive(Debug)]
pub enum OperationMatch {
    /// One operation.
    Operation(CatalogOperation),
    /// No catalog has this name. The most similar name, if there is one.
    NoCatalog(Option<String>),
    /// The catalog is disabled, or cannot be used.
    Disabled,
    /// No operation has this name. The most similar name, if there is one.
    NoOperation(Option<String>),
    /// Several catalogs have an operation of this name. The ids of these catalogs.
    Several(Vec<String>),
}

/// All catalogs, ordered by id.
#[derive(Debug, Default)]
pub struct CatalogSet {
    pub(super) catalogs: Vec<Arc<Catalog>>,
    pub(super) stamps: CatalogStamps,
    pub(super) version: u64,
}

impl CatalogSet {
    /// Every catalog, including disabled and unusable ones.
    pub fn catalogs(&self) -> &[Arc<Catalog>] {
        &self.catalogs
    }

    /// The catalogs of these names alone.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND`.
    pub fn select(&self, names: &[String]) -> Result<Self> {
        let catalogs = names.iter().map(|name| self.require_catalog(name));
        Ok(Self { catalogs: catalogs.collect::<Result<_>>()?, ..Self::default() })
    }

    /// The catalog with this id, or else with this title, ignoring case.
    pub fn find_catalog(&self, name: &str) -> Option<&Arc<Catalog>> {
        let by_id = self.catalogs.iter().find(|catalog| catalog.id == name);
        let has_title = |catalog: &&Arc<Catalog>| {
            catalog.settings.title.to_lowercase() == name.trim().to_lowercase()
        };
        by_id.or_else(|| self.catalogs.iter().find(has_title))
    }

    /// Resolves the name of a catalog (its id or its vendor) and the name of an operation. An id takes precedence
    /// over a vendor.
    pub fn resolve_operation(&self, catalog: &str, operation: &str) -> OperationMatch {
        let named_catalogs: Vec<_> = match self.catalogs.iter().find(|one| one.id == catalog) {
            Some(by_id)
                if by_id.usable_document().is_some()
                    || normalize_name(by_id.vendor()) != normalize_name(catalog) =>
            {
                vec![by_id]
            }
            _ => self.find_catalogs_by_name(catalog).collect(),
        };
        if named_catalogs.is_empty() {
            let names = self.catalogs.iter().flat_map(|one| [one.vendor(), &*one.id]);
            return OperationMatch::NoCatalog(find_nearest(catalog, names).map(str::to_owned));
        }
        let usable_catalogs: Vec<_> =
            named_catalogs.into_iter().filter(|one| one.usable_document().is_some()).collect();
        let mut matches = usable_catalogs.iter().filter_map(|one| {
            let index = one.usable_document()?.find_operation_index(operation)?;
            let catalog = Arc::clone(one);
            Some(CatalogOperation { catalog, index })
        });
        match (matches.next(), matches.next()) {
            (Some(named), None) => OperationMatch::Operation(named),
            (Some(one), Some(other)) => {
                let ids = [one, other].into_iter().chain(matches);
                OperationMatch::Several(ids.map(|named| named.catalog.id.clone()).collect())
            }
            (None, _) if usable_catalogs.is_empty() => OperationMatch::Disabled,
            (None, _) => {
                let names = usable_catalogs.iter().filter_map(|one| one.usable_document());
                let entries: Vec<_> = names.flat_map(DocumentReader::entries).collect();
                let names = entries.iter().map(|entry| &*entry.name);
                let aliases = entries.iter().flat_map(|entry| &entry.aliases);
                let all_names = names.chain(aliases.map(|alias| &**alias));
                OperationMatch::NoOperation(
                    suggest_operation(operation, all_names.collect()).map(str::to_owned),
                )
            }
        }
    }

    /// Whether a catalog of this name is usable.
    pub fn has_usable_catalog(&self, name: &str) -> bool {
        self.find_catalogs_by_name(name).any(|one| one.usable_document().is_some())
    }

    /// The id of a disabled catalog of this name, if no catalog of this name is usable.
    pub fn find_disabled_catalog(&self, name: &str) -> Option<&str> {
        let mut named_catalogs =
            self.find_catalogs_by_name(name).filter(|one| !one.settings.enabled);
        let disabled_catalog = named_catalogs.next()?;
        (!self.has_usable_catalog(name)).then_some(&*disabled_catalog.id)
    }

    fn find_catalogs_by_name(&self, name: &str) -> impl Iterator<Item = &Arc<Catalog>> {
        self.catalogs.iter().filter(move |one| one.has_name(name))
    }

    /// The id of an operation: its name after the vendor, or after the id of the catalog if the vendor would be
    /// ambiguous.
    pub fn operation_id(&self, operation: &CatalogOperation) -> String {
        let Some(entry) = operation.entry() else {
            return operation.catalog.id.clone();
        };
        let vendor = operation.catalog.vendor();
        let prefix = match self.resolve_operation(vendor, &entry.name) {
            OperationMatch::Operation(meant) if Arc::ptr_eq(&meant.catalog, &operation.catalog) => {
                vendor
            }
            _ => &operation.catalog.id,
        };
        format!("{prefix} {}", entry.name)
    }

    /// The operations that match a query, the best first, in the catalogs that `is_included` accepts.
    pub fn search_operations(
        &self,
        query: &str,
        limit: usize,
        is_included: impl Fn(&Catalog) -> bool,
    ) -> Vec<CatalogOperation> {
        let catalogs = self.catalogs.iter().filter(|one| is_included(one));
        let usable_catalogs: Vec<_> =
            catalogs.filter_map(|one| Some((one, one.usable_document()?))).collect();
        let searchable_catalogs: Vec<_> = usable_catalogs
            .iter()
            .map(|(catalog, book)| SearchableCatalog {
                document: book,
                title: &catalog.settings.title,
                vendor: catalog.vendor(),
                description: &catalog.settings.description,
            })
            .collect();
        let make_operation = |hit: SearchHit| CatalogOperation {
            catalog: usable_catalogs[hit.catalog_index].0.clone(),
            index: hit.operation_index,
        };
        search_operations(&searchable_catalogs, query, limit)
            .into_iter()
            .map(make_operation)
            .collect()
    }

    /// All operations of the usable catalogs that `is_included` accepts, ordered by catalog and name.
    pub fn all_operations(
        &self,
        is_included: impl Fn(&Catalog) -> bool,
    ) -> impl Iterator<Item = CatalogOperation> {
        let catalogs = self.catalogs.iter().filter(move |one| is_included(one));
        catalogs.flat_map(|catalog| {
            let count = catalog.usable_document().map_or(0, |book| book.entries().len());
            (0..count).map(|place| CatalogOperation { catalog: catalog.clone(), index: place })
        })
    }
}

/// Suggests an operation for an unknown name: the shortest one that ends with `:` and that name, or else the most
/// similar one.
fn suggest_operation<'a>(operation: &str, names: Vec<&'a str>) -> Option<&'a str> {
    let suffix = format!(":{operation}");
    let matching_names = names.iter().filter(|name| name.ends_with(&suffix));
    let shortest = matching_names.min_by_key(|name| name.len()).copied();
    shortest.or_else(|| find_nearest(operation, names))
}

impl OperationLookup for CatalogSet {
    fn find_operation(&self, catalog: &str, operation: &str) -> OperationLookupResult {
        match self.resolve_operation(catalog, operation) {
            OperationMatch::NoCatalog(near) => OperationLookupResult::NoCatalog(near),
            OperationMatch::Disabled => OperationLookupResult::Disabled,
            OperationMatch::NoOperation(near) => OperationLookupResult::NoOperation(near),
            OperationMatch::Several(catalogs) => OperationLookupResult::Ambiguous(catalogs),
            OperationMatch::Operation(named) => match build_signature(&named) {
                Ok(callable) => OperationLookupResult::Operation(Arc::new(callable)),
                Err(_) => OperationLookupResult::Disabled,
            },
        }
    }

    fn find_similar_provider(&self, catalog: &str, operation: &str) -> Option<String> {
        let named_catalogs = self.find_catalogs_by_name(catalog);
        let notes = named_catalogs.filter_map(|one| one.usable_document()?.read_notes().ok());
        let providers: Vec<_> = notes.flat_map(|notes| notes.providers.providers).collect();
        let ids = providers.iter().map(|one| one.id.as_str()).collect();
        suggest_operation(operation, ids).map(str::to_owned)
    }

    fn validate_call(
        &self,
        operation_name: (&str, &str),
        with: &Value,
        body: Option<&Value>,
    ) -> Vec<Violation> {
        let OperationMatch::Operation(operation) =
            self.resolve_operation(operation_name.0, operation_name.1)
        else {
            return Vec::new();
        };
        let prepared = operation.catalog.prepare_operation(operation.index);
        prepared.map_or_else(|_| Vec::new(), |prepared| prepared.validate_step(with, body))
    }

    fn is_requirement_met(&self, requirement: &CatalogRequirement) -> bool {
        let mut matching_catalogs =
            self.catalogs.iter().filter(|catalog| catalog.satisfies_requirement(requirement));
        matching_catalogs.any(|catalog| catalog.usable_document().is_some())
    }

    fn find_disabled_catalog(&self, requirement: &CatalogRequirement) -> Option<String> {
        let mut matching_catalogs =
            self.catalogs.iter().filter(|catalog| catalog.satisfies_requirement(requirement));
        let disabled_catalog = matching_catalogs
            .find(|catalog| !catalog.settings.enabled && catalog.document.is_ok())?;
        Some(disabled_catalog.id.clone())
    }

    fn catalogs_version(&self) -> u64 {
        self.version
    }
}

fn build_signature(catalog_operation: &CatalogOperation) -> Result<OperationSignature, String> {
    let prepared = catalog_operation.catalog.prepare_operation(catalog_operation.index)?;
    let operation = prepared.operation();
    let arguments = operation.parameters.iter().map(|parameter| Argument {
        name: parameter.argument.clone(),
        is_required: parameter.is_required,
        is_header: matches!(
            parameter.location,
            ParameterLocation::Header | ParameterLocation::Cookie
        ),
    });
    Ok(OperationSignature {
        class: catalog_operation.class(),
        arguments: arguments.collect(),
        body: prepared.body_fields(),
        output: operation.output.clone(),
        items_path: operation.items_path.clone(),
        has_pages: operation.pagination.is_some(),
        uncallable_reason: operation.uncallable.clone(),
    })
}
