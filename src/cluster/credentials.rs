//! The credentials of a server: the token of the cluster, and its certificate.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, ServerConfig,
    client::{WantsClientCert, WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

use crate::address::AdvertisedAddress;
use midex_domain::error::{Code, Error, Result};
use midex_http::BearerToken;

const COPY_TOKEN_ACTION: &str = "Copy the token file of the other servers to {path}. For the first server, write a token into it: `(umask 077; openssl rand -hex 32 > {path})`";

/// The files of a server's certificate, all in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the authority that has signed the certificates of all servers.
    pub authority: PathBuf,
    /// The certificate of this server, with those between it and the authority.
    pub certificate: PathBuf,
    /// The private key of this server.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Checks that other servers accept the certificate for a server at this address, now.
    ///
    /// # Errors
    /// `FILE_UNUSABLE`.
    pub fn check_certificate(&self, address: &AdvertisedAddress) -> Result<()> {
        const ACTION: &str = "Let --cluster-cert name a certificate that is valid now, names the host of --advertise, and is signed by the authority of --cluster-ca";
        let unusable = |error: &dyn fmt::Display| {
            Error::file_unusable(&self.certificate, error).with_action(ACTION)
        };
        let (roots, chain) = (self.read_authorities()?, read_certificates(&self.certificate)?);
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| unusable(&error))?;
        let host = ServerName::try_from(address.host()).map_err(|error| unusable(&error))?;
        let verified =
            verifier.verify_server_cert(&chain[0], &chain[1..], &host, &[], UnixTime::now());
        verified.map(drop).map_err(|error| unusable(&error))
    }

    fn read_authorities(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(&self.authority)? {
            roots.add(certificate).map_err(|error| Error::file_unusable(&self.authority, error))?;
        }
        Ok(roots)
    }
}

/// The credentials that a server presents to the other servers of its cluster, and requires of them.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) token: BearerToken,
    /// The value of the header `Authorization` that presents the token.
    pub(crate) authorization: String,
    /// The TLS settings of calls to other servers. Without a certificate they trust no authority, and every call by TLS fails.
    pub(crate) tls_client: ClientConfig,
    /// How the server accepts calls by TLS; `None` without a certificate.
    pub(crate) tls_server: Option<Arc<ServerConfig>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("has_certificate", &self.has_certificate())
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the token of the cluster from a file that only its owner may access, and the certificate if there is one.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` for a file that cannot be read, or that others may read; `USAGE_INVALID` for a file without a token.
    pub fn load(token_file: &Path, tls: Option<&TlsFiles>) -> Result<Self> {
        let token = BearerToken::read_text(token_file).map_err(|error| {
            if token_file.exists() { error } else { error.with_action(COPY_TOKEN_ACTION) }
        })?;
        let (tls_client, tls_server) = match tls {
            Some(files) => load_tls(files).map(|(client, server)| (client, Some(server)))?,
            None => (trust(RootCertStore::empty())?.with_no_client_auth(), None),
        };
        Ok(Self {
            authorization: format!("Bearer {token}"),
            token: BearerToken::new(&token)?,
            tls_client,
            tls_server,
        })
    }

    /// Checks that a server with these credentials can be called at this address.
    ///
    /// # Errors
    /// `USAGE_INVALID` if the address is encrypted and there is no certificate, or the other way round.
    pub fn check_address(&self, address: &AdvertisedAddress) -> Result<()> {
        if address.is_encrypted() == self.has_certificate() {
            return Ok(());
        }
        let message = format!("the other servers cannot reach {}", address.as_str());
        let action = if address.is_encrypted() {
            "Add --cluster-ca, --cluster-cert and --cluster-key"
        } else {
            "Give --advertise an address that begins with `https://`"
        };
        Err(Error::new(Code::UsageInvalid, message).with_action(action))
    }

    /// Whether calls are encrypted.
    pub(crate) fn has_certificate(&self) -> bool {
        self.tls_server.is_some()
    }
}

/// The client and the server present a certificate, and accept only one that the authority has signed.
fn load_tls(files: &TlsFiles) -> Result<(ClientConfig, Arc<ServerConfig>)> {
    let roots = files.read_authorities()?;
    let chain = read_certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| Error::file_unusable(&files.key, error))?;
    let client = trust(roots.clone())?
        .with_client_auth_cert(chain.clone(), key.clone_key())
        .map_err(|error| {
            Error::file_unusable(&files.key, error).with_action(
                "Let --cluster-key name the private key of the certificate of --cluster-cert",
            )
        })?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| Error::file_unusable(&files.authority, error))?;
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS").with_source(error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| Error::file_unusable(&files.key, error))?;
    Ok((client, Arc::new(server)))
}

/// A client that trusts these authorities only.
fn trust(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS").with_source(error))?;
    Ok(builder.with_root_certificates(roots))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| Error::file_unusable(path, error))?;
    if certificates.is_empty() {
        return Err(Error::file_unusable(path, "it has no certificate"));
    }
    Ok(certificates)
}
