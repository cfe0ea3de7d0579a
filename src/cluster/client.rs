//! Passes calls on to other servers.

use std::error::Error as _;

use reqwest::{
    Client, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
    redirect::Policy,
};

use crate::{CALLS_PATH, Credentials, PeerReply, address::AdvertisedAddress};
use midex_domain::{
    error::{Code, Error, Result, describe_causes},
    limits,
    operation::BoxFuture,
};
use midex_engine::{PeerAnswer, PeerCall, Peers};

const CHECK_CONNECTION_ACTION: &str = "Try again in a few seconds. If it stays so, check on this machine that {address} can be reached, and that its certificate has that host and is signed by the authority of --cluster-ca";

/// The other servers of the cluster, over HTTP.
#[derive(Debug)]
pub struct HttpPeers {
    client: Client,
    credentials: Credentials,
}

impl HttpPeers {
    /// A client of the other servers.
    ///
    /// # Errors
    /// `INTERNAL` if there can be no client.
    pub fn new(credentials: Credentials) -> Result<Self> {
        let client = Client::builder()
            .tls_backend_preconfigured(credentials.tls_client.clone())
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(limits::PEER_CONNECT_MAX)
            .timeout(limits::PEER_ANSWER_MAX)
            .https_only(credentials.has_certificate())
            .build()
            .map_err(|error| Error::internal("no client of other servers").with_source(error))?;
        Ok(Self { client, credentials })
    }

    async fn post(&self, address: &str, call: &PeerCall) -> Result<PeerAnswer> {
        let unreachable =
            |what: String| Error::new(Code::ShardLost, format!("the server at {address} {what}"));
        // The address comes from the database. Without a certificate, calls stay on this machine.
        let target = AdvertisedAddress::parse(address)
            .map_err(|error| unreachable(format!("cannot be called: {}", error.message())))?;
        if target.is_encrypted() != self.credentials.has_certificate() {
            return Err(unreachable("cannot be called: only one of both encrypts".to_owned()));
        }
        let body = serde_json::to_vec(call)
            .map_err(|error| Error::internal("a call cannot be encoded").with_source(error))?;
        let request = self
            .client
            .post(format!("{}{CALLS_PATH}", target.as_str()))
            .header(AUTHORIZATION, &self.credentials.authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = request.send().await.map_err(|error| describe_failure(address, error))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::PAYLOAD_TOO_LARGE => {
                return Err(Error::limit_exceeded(format!(
                    "a call to the server at {address} is larger than it accepts"
                )));
            }
            StatusCode::UNAUTHORIZED => {
                let error = unreachable("has another token".to_owned());
                return Err(error.with_retryable(false).with_action(
                    "Give all servers the same --cluster-token-file, and start them again",
                ));
            }
            status => return Err(unreachable(format!("refused the call ({status})"))),
        }
        let body = response.bytes().await;
        let body = body.map_err(|error| describe_failure(address, error))?;
        match serde_json::from_slice(&body) {
            Ok(PeerReply::Answer(answer)) => Ok(answer),
            Ok(PeerReply::Error(payload)) => Err(Error::from_payload(&payload)),
            Err(_) => {
                let message = format!("the server at {address} answered something else");
                Err(Error::new(Code::StoreUnavailable, message))
            }
        }
    }
}

/// Without a connection nothing was done; after that, only the database knows.
fn describe_failure(address: &str, error: reqwest::Error) -> Error {
    let error = error.without_url();
    let causes = error.source().map(describe_causes).unwrap_or_default();
    if error.is_connect() {
        let message = format!("the server at {address} cannot be reached: {causes}");
        Error::new(Code::ShardLost, message)
            .with_context("address", address)
            .with_action(CHECK_CONNECTION_ACTION)
            .with_source(error)
    } else {
        let message = format!("the server at {address} did not answer: {causes}");
        Error::new(Code::StoreUnavailable, message).with_source(error)
    }
}

impl Peers for HttpPeers {
    fn send<'a>(
        &'a self,
        address: &'a str,
        call: &'a PeerCall,
    ) -> BoxFuture<'a, Result<PeerAnswer>> {
        Box::pin(self.post(address, call))
    }
}
