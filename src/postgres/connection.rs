//! Connections to the database.

use std::{
    env,
    fmt::{self, Write as _},
    path::Path,
    sync::Arc,
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    error::{database_error, no_answer_error, pool_error},
    lease::LeaseOptions,
    password::{find_password, is_local},
};
use midex_domain::{
    error::{Code, Error, Result, describe_causes},
    limits,
};

/// Opens connections with the same settings.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Arc<Config>,
    tls: MakeRustlsConnect,
}

impl Connector {
    /// The settings in a URL such as `postgres://user@host/database`.
    ///
    /// # Errors
    /// `USAGE_INVALID` for other texts, and for a URL with a password. The error does not repeat the URL. `FILE_UNUSABLE` for a file
    /// of passwords or certificates that cannot be used.
    pub(crate) fn new(url: &str, schema: Option<&str>, leases: LeaseOptions) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            // The causes name an option, and never its value.
            let message =
                format!("the address of the database cannot be used: {}", describe_causes(&error));
            Error::new(Code::UsageInvalid, message).with_action(
                "Use the form `postgres://USER@HOST:PORT/DATABASE`. Encryption is on and certificates are checked, except with `?sslmode=disable`; PGSSLROOTCERT names the authority",
            )
        })?;
        if config.get_password().is_some() {
            let message = "the address of the database has a password, which every list of processes would show";
            return Err(Error::new(Code::UsageInvalid, message).with_action(
                "Put the password into a file of PGPASSFILE, or into PGPASSWORD, and leave it out of the address",
            ));
        }
        if let Some(password) = find_password(&config)? {
            config.password(password);
        }
        config.application_name("midex");
        // A database that has gone is noticed within the time of a lease.
        config.connect_timeout(limits::DATABASE_CONNECT_MAX);
        config
            .keepalives_idle(limits::DATABASE_SILENCE_MAX)
            .tcp_user_timeout(limits::DATABASE_SILENCE_MAX);
        let pause_max = leases.transaction_pause_max().as_millis();
        let mut options = config.get_options().unwrap_or_default().to_owned();
        for timeout in ["idle_in_transaction_session_timeout", "lock_timeout"] {
            let _ = write!(options, " -c {timeout}={pause_max}");
        }
        if let Some(schema) = schema {
            let _ = write!(options, " -c search_path={schema}");
        }
        config.options(options);
        let is_plain = match config.get_ssl_mode() {
            SslMode::Disable => true,
            SslMode::Prefer => is_local(&config),
            _ => false,
        };
        // Either no connection is encrypted, or all are, and the certificate of the database is checked.
        config.ssl_mode(if is_plain { SslMode::Disable } else { SslMode::Require });
        let tls = MakeRustlsConnect::new(build_tls_config(is_plain)?);
        Ok(Self { config: Arc::new(config), tls })
    }

    /// Opens a connection, whose task ends with the client.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be reached.
    pub(crate) async fn connect(&self) -> Result<Client> {
        // The time limit of the configuration ends when the database's machine accepts the connection.
        let connected =
            timeout(limits::DATABASE_CONNECT_MAX, self.config.connect(self.tls.clone()));
        let connected = connected.await.map_err(|_| no_answer_error())?;
        let (client, connection) = connected.map_err(database_error)?;
        tokio::spawn(drive(connection));
        Ok(client)
    }

    /// A pool of connections for reads.
    pub(crate) fn build_pool(&self) -> Result<Pool> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config((*self.config).clone(), self.tls.clone(), recycling);
        let pool = Pool::builder(manager).max_size(limits::DATABASE_READERS_MAX).build();
        pool.map_err(|error| Error::internal("no pool of connections").with_source(error))
    }
}

/// Moves what a connection sends and receives, until it ends.
async fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the database ended");
    }
}

/// Trusts the authorities in the file that `PGSSLROOTCERT` names, else those of the system. Where connections are not encrypted, the
/// settings are never used.
fn build_tls_config(is_plain: bool) -> Result<ClientConfig> {
    const ACTION: &str = "Let PGSSLROOTCERT name a PEM file with the certificate of the authority that signed the database's";
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS").with_source(error))?;
    let mut roots = RootCertStore::empty();
    if is_plain {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let Some(path) = env::var_os("PGSSLROOTCERT") else {
        let builder = builder.with_platform_verifier().map_err(|error| {
            let message = format!("the certificates of this system cannot be used: {error}");
            Error::new(Code::FileUnusable, message).with_action(ACTION)
        })?;
        return Ok(builder.with_no_client_auth());
    };
    let unusable = |error: &dyn fmt::Display| {
        let path = Path::new(&path).display().to_string();
        let message = format!("`{path}` of PGSSLROOTCERT cannot be used: {error}");
        Error::new(Code::FileUnusable, message).with_context("path", path).with_action(ACTION)
    };
    let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| unusable(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    if roots.is_empty() {
        return Err(unusable(&"it has no certificate"));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A connection of the pool.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the database cannot be reached, or does not answer in time.
pub(crate) async fn reader(pool: &Pool) -> Result<Object> {
    let got = timeout(limits::DATABASE_TRANSACTION_MAX, pool.get()).await;
    got.map_err(|_| no_answer_error())?.map_err(pool_error)
}

/// Closes a connection of the pool that did not answer in time, so that it is not used again.
pub(crate) fn discard(client: Object) -> Error {
    drop(Object::take(client));
    no_answer_error()
}
