//! Fetches documents for imports.

use reqwest::{Url, header::HeaderMap};

use super::{
    Caller,
    address_policy::{AddressPolicy, redact_url},
    answer::read_body,
    client::exchange_error,
    request::Request,
};
use crate::operation::Method;
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

impl Caller {
    /// Fetches the document at `url`, decompressed: at most [`limits::DOCUMENT_BYTES_MAX`] within
    /// [`limits::DOCUMENT_FETCH_MAX`].
    ///
    /// # Errors
    /// `ADDRESS_REFUSED` if `address_policy` does not allow the URL or a redirect, `LIMIT_EXCEEDED`, and `FETCH_FAILED` for
    /// errors of the network and the server.
    pub async fn fetch_document(
        &self,
        url: &str,
        address_policy: &AddressPolicy,
    ) -> Result<Vec<u8>> {
        let parsed = Url::parse(url)
            .map_err(|error| error_for_fault(address_policy.not_a_url_error(error), url))?;
        let place = redact_url(&parsed);
        let request = Request {
            method: Method::Get,
            url: parsed,
            headers: HeaderMap::default(),
            body: None,
            has_several_matches: false,
        };
        let time_limit = limits::DOCUMENT_FETCH_MAX;
        match tokio::time::timeout(time_limit, self.send_fetch_request(request, address_policy))
            .await
        {
            Ok(outcome) => outcome.map_err(|error| error_for_fault(error, &place)),
            Err(_) => Err(fetch_error(&place, &format!("it was not there within {time_limit:?}"))),
        }
    }

    async fn send_fetch_request(
        &self,
        request: Request,
        address_policy: &AddressPolicy,
    ) -> Result<Vec<u8>> {
        let route = address_policy.admit(&request.url)?;
        let mut response = self.pools.send(request, route, address_policy).await?.response;
        if !response.status().is_success() {
            return Err(exchange_error(format!("the server answered {}", response.status())));
        }
        read_body(&mut response, limits::DOCUMENT_BYTES_MAX, false).await
    }
}

fn fetch_error(place: &str, why: &str) -> Error {
    Error::new(Code::FetchFailed, format!("`{place}` was not fetched: {why}"))
        .with_context("source", place)
}

/// The error of a fetch, from that of its request.
fn error_for_fault(error: Error, place: &str) -> Error {
    match error.code() {
        Code::AddressRefused if error.context("host").is_some() => error,
        Code::AddressRefused => error
            .with_action("Call {tool} again: choose another URL, for this one can never be called"),
        Code::LimitExceeded => Error::limit_exceeded(format!(
            "a document may have {} bytes",
            limits::DOCUMENT_BYTES_MAX
        ))
        .with_context("source", place),
        _ => fetch_error(place, error.message()),
    }
}
