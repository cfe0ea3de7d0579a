//! Adds the headers and credentials of a catalog to a request, if its origin may receive them.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{
    CallTarget,
    address_policy::redact_url,
    request::Request,
    secret::{SecretSources, SecretValues, has_reference},
};
use crate::operation::{Operation, ParameterLocation, SecurityScheme};
use midex_domain::{FailureCode, SecretMask, execution::OperationFailure};

/// The result of adding the headers and credentials to a request.
pub(super) struct SecuredRequest {
    /// Masks their secrets in answers and messages.
    pub(super) mask: SecretMask,
    /// A note for the caller.
    pub(super) note: Option<String>,
}

/// Adds the headers and the credentials of the catalog to the request, with their secrets.
///
/// # Errors
/// A secret is missing or may not be sent to the host. Or the origin may not receive the catalog's headers and
/// credentials, and the operation requires them.
pub(super) async fn secure_request(
    request: &mut Request,
    operation: &Operation,
    target: &CallTarget,
    sources: &SecretSources,
) -> Result<SecuredRequest, OperationFailure> {
    let origin = request.url.origin().ascii_serialization();
    let has_headers_or_credentials = !target.headers.is_empty() || !target.credentials.is_empty();
    if has_headers_or_credentials && !target.origins.contains(&origin) {
        return allow_without_credentials(request, operation, &origin);
    }
    let alternative = find_credentials(operation, target);
    let credentials = alternative.iter().map(|(_, _, credential)| *credential);
    let texts = target.headers.iter().map(|(_, value)| value).chain(credentials);
    let secrets = SecretValues::look_up_secrets(sources, texts, &request.url).await?;
    let mut masked_values = Vec::new();
    for (name, scheme, credential) in &alternative {
        let value = secrets.fill_references(credential);
        add_credential(request, scheme, &value)
            .map_err(|why| unusable_credential_failure(name, &why))?;
        let placeholder = format!("${{credential:{name}}}");
        if matches!(scheme, SecurityScheme::Basic) {
            masked_values.push((BASE64_STANDARD.encode(&value), placeholder.clone()));
        }
        masked_values.push((value, placeholder));
    }
    for (name, text) in &target.headers {
        let value = secrets.fill_references(text);
        request.set_header(name, &value).map_err(|why| unusable_credential_failure(name, &why))?;
        if is_secret_header(name) && !has_reference(text) {
            let value = value.rsplit(' ').next().unwrap_or_default().to_owned();
            masked_values.push((value, format!("${{header:{name}}}")));
        }
    }
    Ok(SecuredRequest {
        mask: secrets.values_with_placeholders().chain(masked_values).collect(),
        note: missing_credential_note(operation, target, alternative.is_empty()),
    })
}

/// Allows the call without headers and credentials, if its operation requires none.
fn allow_without_credentials(
    request: &Request,
    operation: &Operation,
    origin: &str,
) -> Result<SecuredRequest, OperationFailure> {
    if needs_no_credentials(operation) {
        let note = format!(
            "`{origin}` is no origin that the catalog's headers and credentials were given for: it got none"
        );
        return Ok(SecuredRequest { mask: SecretMask::default(), note: Some(note) });
    }
    let place = redact_url(&request.url);
    let message = format!(
        "`{place}` needs credentials, and those of the catalog may not go to `{origin}`: its user gave them for other origins"
    );
    Err(OperationFailure::new("secret_not_allowed", message)
        .with_code(FailureCode::SecretNotAllowed))
}

/// Whether the operation may be called without credentials.
fn needs_no_credentials(operation: &Operation) -> bool {
    let security = &operation.security;
    security.is_empty() || security.iter().any(Vec::is_empty)
}

/// The first alternative for which the catalog has every credential: names, schemes and credentials.
fn find_credentials<'a>(
    operation: &'a Operation,
    target: &'a CallTarget,
) -> Vec<(&'a String, &'a SecurityScheme, &'a String)> {
    let find_credential =
        |name: &'a String| Some((name, target.schemes.get(name)?, target.credentials.get(name)?));
    let mut alternatives = operation.security.iter().filter(|names| !names.is_empty());
    let complete = alternatives
        .find_map(|names| names.iter().map(find_credential).collect::<Option<Vec<_>>>());
    complete.unwrap_or_default()
}

fn add_credential(
    request: &mut Request,
    scheme: &SecurityScheme,
    credential: &str,
) -> Result<(), String> {
    match scheme {
        SecurityScheme::ApiKey { location: ParameterLocation::Query, name } => {
            if !request.url.query_pairs().any(|(known, _)| known == *name) {
                request.add_query(name, credential);
            }
            Ok(())
        }
        SecurityScheme::ApiKey { location: ParameterLocation::Cookie, name } => {
            request.add_cookie(name, credential)
        }
        SecurityScheme::ApiKey { name, .. } => request.set_header(name, credential),
        SecurityScheme::Basic => request
            .set_header("authorization", &format!("Basic {}", BASE64_STANDARD.encode(credential))),
        SecurityScheme::Bearer => {
            request.set_header("authorization", &format!("Bearer {credential}"))
        }
        SecurityScheme::Other { scheme } => Err(format!("midex has no way for `{scheme}`")),
    }
}

/// A note about security schemes that the operation requires and the catalog has no credential for.
fn missing_credential_note(
    operation: &Operation,
    target: &CallTarget,
    has_no_credentials: bool,
) -> Option<String> {
    if !has_no_credentials || needs_no_credentials(operation) || !target.headers.is_empty() {
        return None;
    }
    let names = operation.security.first()?.join("`, `");
    Some(format!("it asks for `{names}`, for which the catalog has no credential"))
}

fn unusable_credential_failure(name: &str, why: &str) -> OperationFailure {
    let message = format!("the header or credential `{name}` of the catalog cannot be sent: {why}");
    OperationFailure::new("secret_not_allowed", message).with_code(FailureCode::OperationUncallable)
}

/// Whether a header of this name usually contains a secret.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "key", "password", "secret", "session", "token"]
        .iter()
        .any(|word| name.contains(word))
}
