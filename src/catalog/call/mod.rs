//! Calls of operations: an operation and its arguments become a request, and the response becomes an answer.
//!
//! Arguments are checked against the document before anything is sent (`arguments`, `write`, `body`, [`Request`]).
//! Then the catalog's headers and credentials are added, if the origin may receive them (`security`, `secret`). The
//! request is sent if the address is allowed ([`AddressPolicy`], `client`). Only this module uses the HTTP client library.

mod address;
mod address_policy;
mod answer;
mod arguments;
mod body;
mod client;
mod fetch;
mod fields;
mod pages;
mod pagination;
mod payload;
mod request;
mod secret;
mod security;
mod serialize;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use reqwest::Url;
use serde_json::Value;

use self::{
    address_policy::ConnectionRoute,
    client::{ConnectionPools, FinalResponse, SystemResolver},
    pages::ListProgress,
    security::{SecuredRequest, secure_request},
};
pub use self::{
    address_policy::{AddressPolicy, normalize_allowed_host, normalize_secret_host, parse_origin},
    answer::Answer,
    arguments::PreparedOperation,
    client::Resolver,
    pages::ItemsPage,
    payload::ResponseBody,
    request::{CallArguments, Request, is_connection_header},
    secret::{SecretSources, find_references, has_reference, parse_secrets_file},
    security::is_secret_header,
};
use super::{
    operation::{Operation, OperationClass, SecurityScheme},
    suggest_url_with_host,
};
use midex_domain::{
    FailureCode, SecretMask,
    definition::PaginateOptions,
    error::{Code, Error, NextCall, Violation, call_tool, repeat_call},
    execution::OperationFailure,
    limits,
    operation::PageCursor,
};

/// How the operations of one catalog are called: base URL, headers, credentials, and the addresses and origins that
/// are allowed.
#[derive(Clone, Default)]
pub struct CallTarget {
    /// The addresses that may be called.
    pub address_policy: AddressPolicy,
    /// The base URL of the operations that have no servers declared for them.
    pub base_url: String,
    /// Whether `base_url` also replaces the servers of single operations, because the user or a tool chose it.
    pub should_replace_servers: bool,
    /// Headers of every call. Values may refer to secrets: `Bearer ${env:NAME}`, `${file:NAME}`.
    pub headers: Vec<(String, String)>,
    /// The security schemes of its document by name.
    pub schemes: BTreeMap<String, SecurityScheme>,
    /// Credentials by the name of their scheme. They may refer to secrets too. For basic authentication:
    /// `user:password`.
    pub credentials: BTreeMap<String, String>,
    /// The origins that may receive headers and credentials, as [`parse_origin`] writes them.
    pub origins: BTreeSet<String>,
    /// The origins that the user approved. Secrets of steps are sent only there, unless the user listed hosts for a
    /// secret.
    pub approved_origins: BTreeSet<String>,
    /// Whether the user says that the service recognizes repeated calls by `Idempotency-Key`.
    pub has_idempotency_keys: bool,
}

/// Omits the values of headers and credentials.
impl fmt::Debug for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let credentials: Vec<_> = self.credentials.keys().collect();
        write!(f, "Target({} {headers:?} {credentials:?})", self.base_url)
    }
}

impl CallTarget {
    /// Whether repeating a call has the effect of a single one: the method is idempotent, or the service recognizes a
    /// repeated call by its idempotency key, according to the document or the user.
    pub fn is_repeatable(&self, operation: &Operation) -> bool {
        operation.method.is_idempotent()
            || operation.idempotency_header.is_some()
            || self.has_idempotency_keys
    }

    /// The base URL of the operation.
    pub fn find_base_url<'a>(&'a self, operation: &'a Operation) -> &'a str {
        let own_server = operation.servers.first();
        own_server.filter(|_| !self.should_replace_servers).unwrap_or(&self.base_url)
    }
}

/// The options of a call.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The time limit; by default [`limits::CALL_MAX`].
    pub timeout: Option<Duration>,
    /// The idempotency key, by which the service may recognize a repeated call. It is sent with POST, PUT and PATCH,
    /// and with every operation that declares an idempotency header.
    pub idempotency_key: Option<String>,
    /// Whether the step declares the call to be idempotent; overrides [`CallTarget::is_repeatable`].
    pub is_idempotent: Option<bool>,
    /// The names of the secrets that the arguments and the body contain.
    pub secrets: Vec<String>,
}

/// Calls operations and fetches documents. Clones share one set of connections, and are cheap.
#[derive(Clone, Debug)]
pub struct Caller {
    pools: Arc<ConnectionPools>,
    secret_sources: Arc<SecretSources>,
}

impl Caller {
    /// A caller whose catalogs may refer to the secrets of `sources`.
    pub fn new(sources: SecretSources) -> Self {
        Self::with_resolver(sources, Arc::new(SystemResolver))
    }

    /// [`Caller::new`] with another resolver of host names.
    pub fn with_resolver(sources: SecretSources, resolver: Arc<dyn Resolver>) -> Self {
        Self { pools: Arc::new(ConnectionPools::new(resolver)), secret_sources: Arc::new(sources) }
    }

    /// The sources of the catalogs' secrets.
    pub fn sources(&self) -> &SecretSources {
        &self.secret_sources
    }

    /// Calls an operation.
    ///
    /// # Errors
    /// The class of the failure says what happened: `network`, `timeout`, `http_4xx`, `http_5xx`, `http_429`,
    /// `too_large`; and before anything is sent `arguments_invalid`, `address_refused`, `secret_missing`,
    /// `secret_not_allowed`. The failure contains the response of the service. Secrets of the catalog are masked in
    /// everything that is returned.
    pub async fn call_operation(
        &self,
        prepared: &PreparedOperation,
        target: &CallTarget,
        with: &Value,
        body: Option<&Value>,
        options: &CallOptions,
    ) -> Result<Answer, OperationFailure> {
        let call = self.prepare_call(prepared, target, options);
        // Pinned in place, because the future is large and passing it on would copy it.
        let work = pin!(call.request_one_page(with, body, PageRequest::default()));
        let (answer, _) = work.await?;
        Ok(answer)
    }

    /// Requests one page of a list: the first, or the one at `cursor`.
    ///
    /// # Errors
    /// As [`Caller::call_operation`]; and `redirect_refused` if the next page is at another origin.
    pub async fn request_page(
        &self,
        prepared: &PreparedOperation,
        target: &CallTarget,
        (with, body): (&Value, Option<&Value>),
        options: &CallOptions,
        (paginate, cursor): (PaginateOptions, Option<&PageCursor>),
    ) -> Result<ItemsPage, OperationFailure> {
        let call = self.prepare_call(prepared, target, options);
        let progress = ListProgress::from_cursor(cursor)?;
        pages::request_list_page(&call, with, body, paginate, progress).await
    }

    fn prepare_call<'a>(
        &'a self,
        prepared: &'a PreparedOperation,
        target: &'a CallTarget,
        options: &'a CallOptions,
    ) -> Call<'a> {
        Call { caller: self, prepared, target, options }
    }
}

/// A call of an operation.
struct Call<'a> {
    caller: &'a Caller,
    prepared: &'a PreparedOperation,
    target: &'a CallTarget,
    options: &'a CallOptions,
}

/// The page to request. The default is the first page, which is determined by the arguments alone.
#[derive(Default)]
struct PageRequest {
    number: u32,
    /// The URL of the page, if the previous answer gave one.
    url: Option<Url>,
}

impl PageRequest {
    fn new(number: u32, url: Option<Url>) -> Self {
        Self { number, url }
    }
}

impl Call<'_> {
    fn operation(&self) -> &Operation {
        self.prepared.operation()
    }

    fn is_repeatable(&self) -> bool {
        let declared = self.options.is_idempotent;
        declared.unwrap_or_else(|| self.target.is_repeatable(self.operation()))
    }

    async fn run_with_timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, OperationFailure>>,
    ) -> Result<T, OperationFailure> {
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.timeout_failure(limit)),
        }
    }

    fn timeout_failure(&self, limit: Duration) -> OperationFailure {
        let message = format!("`{}` had no whole answer within {limit:?}", self.operation().name);
        OperationFailure {
            is_retryable: self.is_repeatable(),
            ..OperationFailure::new("timeout", message).with_code(FailureCode::StepTimedOut)
        }
    }

    /// Requests one page. Also returns the URL of the request.
    async fn request_one_page(
        &self,
        with: &Value,
        body: Option<&Value>,
        page: PageRequest,
    ) -> Result<(Answer, Url), OperationFailure> {
        let mut request = self.build_request(with, body, page.number)?;
        request.url = page.url.unwrap_or(request.url);
        let url = request.url.clone();
        let limit = self.options.timeout.unwrap_or(limits::CALL_MAX);
        let answer = {
            let exchange = pin!(self.secure_and_send(request, &url));
            self.run_with_timeout(limit, exchange).await?
        };
        Ok((answer, url))
    }

    fn build_request(
        &self,
        with: &Value,
        body: Option<&Value>,
        page: u32,
    ) -> Result<Request, OperationFailure> {
        let operation = self.operation();
        if let Some(reason) = &operation.uncallable {
            let message = format!("`{}` cannot be called: {reason}", operation.name);
            return Err(OperationFailure::new("uncallable", message)
                .with_code(FailureCode::OperationUncallable));
        }
        let has_key_parameter = operation.idempotency_header.is_some()
            || operation.method.class() == OperationClass::Standard;
        let key = self.options.idempotency_key.as_ref().filter(|_| has_key_parameter);
        // Each page is a separate call, so it needs its own key.
        let key = key.map(|key| if page == 0 { key.clone() } else { format!("{key}-{page}") });
        let arguments = CallArguments { with, body, idempotency_key: key.as_deref() };
        let base_url = self.target.find_base_url(operation);
        Request::build(self.prepared, base_url, arguments)
            .map_err(|violations| invalid_arguments_failure(operation, &violations))
    }

    /// Adds headers and credentials, sends the request, and reads the answer.
    async fn secure_and_send(
        &self,
        mut request: Request,
        url: &Url,
    ) -> Result<Answer, OperationFailure> {
        // The address is checked before secrets are read, because a refused request needs none.
        let admission = self.target.address_policy.admit(url);
        let route = admission.map_err(|refusal| answer::failure_from_error(&refusal, false))?;
        let sources = &self.caller.secret_sources;
        sources.check_step_secret_hosts(
            &self.options.secrets,
            url,
            &self.target.approved_origins,
        )?;
        let secured = secure_request(&mut request, self.operation(), self.target, sources).await?;
        let SecuredRequest { mask, note } = secured;
        match self.send_and_read((request, route), url, &mask, note).await {
            Ok(mut answer) => {
                let mask_note = |note: &mut String| *note = mask.mask_text(note).into_owned();
                answer.notes.iter_mut().for_each(mask_note);
                Ok(answer)
            }
            Err(failure) => Err(failure.with_secrets_masked(&mask)),
        }
    }

    async fn send_and_read(
        &self,
        (request, way): (Request, ConnectionRoute),
        url: &Url,
        mask: &SecretMask,
        note: Option<String>,
    ) -> Result<Answer, OperationFailure> {
        let method = request.method;
        let schemas_note = request.has_several_matches.then(|| SEVERAL_SCHEMAS_NOTE.to_owned());
        let to_failure = |error: Error| answer::failure_from_error(&error, self.is_repeatable());
        let clients = &self.caller.pools;
        let result = clients.send(request, way, &self.target.address_policy).await;
        let FinalResponse { mut response, other_origin } = result.map_err(to_failure)?;
        let mut notes: Vec<_> = note.into_iter().chain(schemas_note).collect();
        notes.extend(other_origin.map(|origin| {
            format!("it was redirected to `{origin}`, which got no headers and credentials of the catalog")
        }));
        if !response.status().is_success() {
            let call_name = format!("`{} {}`", method.as_str(), address_policy::redact_url(url));
            let mut failure = answer::read_failure(&mut response, &call_name, mask).await;
            let status = response.status().as_u16();
            failure.is_retryable &=
                self.is_repeatable() || answer::is_not_executed(status, &failure);
            failure.message = [vec![failure.message], notes].concat().join("; ");
            return Err(failure);
        }
        let answer = answer::read_success(&mut response, mask).await;
        let answer = answer.map_err(to_failure)?;
        Ok(Answer { notes, ..answer })
    }
}

/// The note for a request that the service may interpret in another way than the caller meant.
const SEVERAL_SCHEMAS_NOTE: &str = "several schemas of a `oneOf` hold for what was sent: which of them is meant the service decides";

impl Caller {
    /// Checks that a call of the command `id` can be sent, without sending it, so that an invalid call is refused before
    /// anything is recorded.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` with every violation; `ADDRESS_REFUSED` if the base URL is invalid, or the address is not
    /// allowed.
    pub fn check_call(
        &self,
        id: &str,
        (prepared, target): (&PreparedOperation, &CallTarget),
        with: &Value,
        body: Option<&Value>,
    ) -> Result<(), Error> {
        let options = CallOptions::default();
        let call = self.prepare_call(prepared, target, &options);
        let operation = call.operation();
        if let Some(why) = &operation.uncallable {
            let violation = Violation::new("/id", "uncallable", why.as_str());
            return Err(unsendable_call_error(id, vec![violation]));
        }
        let base_url = target.find_base_url(operation);
        let base_url_error =
            |why: &str| Error::new(Code::AddressRefused, format!("`{id}` was not called: {why}"));
        let missing_base_error = |why: &str, base_url: &str| {
            let error =
                base_url_error(why).with_context("base_url", suggest_url_with_host(base_url));
            error.with_next(SET_BASE_URL_CALL)
        };
        request::check_request_base_url(base_url)
            .map_err(|violation| missing_base_error(&violation.message, base_url))?;
        // Every call that takes an idempotency key is given one later, so its absence is no violation here.
        let arguments = CallArguments { with, body, idempotency_key: Some("") };
        let request = Request::build(prepared, base_url, arguments);
        let request = request.map_err(|violations| unsendable_call_error(id, violations))?;
        let admission = target.address_policy.admit(&request.url).map(drop);
        admission.map_err(|refusal| {
            let host = refusal.context("host").cloned();
            let Some(host) = host else {
                return missing_base_error(refusal.message(), "");
            };
            base_url_error(refusal.message()).with_context("host", host).with_next(ALLOW_HOST_CALL)
        })
    }
}

/// The error for arguments that violate the operation, or for an operation that cannot be called.
fn unsendable_call_error(id: &str, violations: Vec<Violation>) -> Error {
    let format_violation = |one: &Violation| format!("{}: {}", one.path, one.message);
    let lines: Vec<_> = violations.iter().map(format_violation).collect();
    let lines = lines.join("; ");
    let message = format!("the arguments of `{id}` cannot be sent: {lines}");
    let error = Error::new(Code::ArgumentsInvalid, message);
    error.with_violations(violations).with_next(LIST_ARGUMENTS_CALL)
}

/// Suggests listing the arguments that the command takes.
const LIST_ARGUMENTS_CALL: NextCall = call_tool(
    "command.list",
    &[("id", "{command}")],
    "it shows what the command takes; correct `with` or `body` as the violations say",
);

/// Suggests setting the base URL of the catalog.
const SET_BASE_URL_CALL: NextCall = call_tool(
    "catalog.set_base_url",
    &[("catalog_id", "{catalog_id}"), ("base_url", "{base_url}")],
    "with the host of the service, which your user knows",
);

/// Suggests that the user allows the address in a terminal.
const ALLOW_HOST_CALL: NextCall = repeat_call("once it is allowed").after_person_does(
    "run `midex catalog allow {catalog_id} {host}` in a terminal, if that address is meant",
);

/// The failure for invalid arguments. Its message lists every violation.
fn invalid_arguments_failure(operation: &Operation, violations: &[Violation]) -> OperationFailure {
    let format_violation = |violation: &Violation| {
        let suggestion =
            violation.suggestion.as_ref().map(|suggestion| format!(" ({})", suggestion.text));
        let place = Some(&*violation.path).filter(|path| !path.is_empty());
        let place = place.map(|path| format!("{path}: ")).unwrap_or_default();
        format!("{place}{}{}", violation.message, suggestion.unwrap_or_default())
    };
    let lines: Vec<_> = violations.iter().map(format_violation).collect();
    let message = format!("`{}` was not called: {}", operation.name, lines.join("; "));
    if violations.iter().any(|one| one.rule == request::BASE_URL_RULE) {
        return OperationFailure::new("uncallable", message)
            .with_code(FailureCode::OperationUncallable);
    }
    OperationFailure::new("arguments_invalid", message).with_code(FailureCode::ArgumentsInvalid)
}
