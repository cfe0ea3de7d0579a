//! Connections to the database.

use std::{
    env,
    fmt::{self, Write as _},
    sync::Arc,
};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::{Client, Config, NoTls, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    error::{database_error, pool_error},
    lease::LeaseOptions,
    password::{find_password, is_local},
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// Opens connections with the same settings.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Arc<Config>,
    /// `None` for a database on this machine: its connections are not encrypted.
    tls: Option<MakeRustlsConnect>,
}

impl Connector {
    /// The settings in a URL such as `postgres://user@host/database`.
    ///
    /// # Errors
    /// `USAGE_INVALID` for other texts, and for a URL with a password. The error does not repeat the URL. `FILE_UNUSABLE` for a file
    /// of passwords or certificates that cannot be used.
    pub(crate) fn new(url: &str, schema: Option<&str>, leases: LeaseOptions) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|_| {
            let message =
                "the address of the database is not of the form `postgres://USER@HOST/DATABASE`";
            Error::new(Code::UsageInvalid, message)
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
        let tls = if is_plain {
            None
        } else {
            // The server's certificate is always checked.
            config.ssl_mode(SslMode::Require);
            Some(MakeRustlsConnect::new(build_tls_config()?))
        };
        Ok(Self { config: Arc::new(config), tls })
    }

    /// Opens a connection, whose task ends with the client.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be reached.
    pub(crate) async fn connect(&self) -> Result<Client> {
        match &self.tls {
            None => {
                let (client, connection) =
                    self.config.connect(NoTls).await.map_err(database_error)?;
                tokio::spawn(drive(connection));
                Ok(client)
            }
            Some(tls) => {
                let (client, connection) =
                    self.config.connect(tls.clone()).await.map_err(database_error)?;
                tokio::spawn(drive(connection));
                Ok(client)
            }
        }
    }

    /// A pool of connections for reads.
    pub(crate) fn build_pool(&self) -> Result<Pool> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let config = (*self.config).clone();
        let manager = match &self.tls {
            None => Manager::from_config(config, NoTls, recycling),
            Some(tls) => Manager::from_config(config, tls.clone(), recycling),
        };
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

/// Trusts the authorities in the file that `PGSSLROOTCERT` names, else those of the system.
fn build_tls_config() -> Result<ClientConfig> {
    let unusable = |error: &dyn fmt::Display| {
        let message = format!("no database can be called by TLS: {error}");
        Error::new(Code::FileUnusable, message)
            .with_action("Let PGSSLROOTCERT name a file with the certificate of its authority")
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS").with_source(error))?;
    let Some(path) = env::var_os("PGSSLROOTCERT") else {
        let builder = builder.with_platform_verifier().map_err(|error| unusable(&error))?;
        return Ok(builder.with_no_client_auth());
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| unusable(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A connection of the pool.
pub(crate) async fn reader(pool: &Pool) -> Result<deadpool_postgres::Object> {
    pool.get().await.map_err(pool_error)
}
