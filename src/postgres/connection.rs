//! Connections to the database.

use std::sync::Arc;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tokio_postgres::{Client, Config, NoTls};

use crate::error::{database_error, pool_error};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// Opens connections with the same settings.
#[derive(Clone, Debug)]
pub(crate) struct Connector(Arc<Config>);

impl Connector {
    /// The settings in a URL such as `postgres://user@host/database`.
    ///
    /// # Errors
    /// `USAGE_INVALID` for other texts. The error does not repeat the URL, which may hold a password.
    pub(crate) fn new(url: &str, schema: Option<&str>) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|_| {
            let message =
                "the address of the database is not of the form `postgres://USER@HOST/DATABASE`";
            Error::new(Code::UsageInvalid, message)
        })?;
        config.application_name("midex");
        // A database that has gone is noticed within the time of a lease.
        config.connect_timeout(limits::DATABASE_CONNECT_MAX);
        config
            .keepalives_idle(limits::DATABASE_SILENCE_MAX)
            .tcp_user_timeout(limits::DATABASE_SILENCE_MAX);
        if let Some(schema) = schema {
            config.options(format!("-c search_path={schema}"));
        }
        Ok(Self(Arc::new(config)))
    }

    /// Opens a connection, whose task ends with the client.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be reached.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let (client, connection) = self.0.connect(NoTls).await.map_err(database_error)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        Ok(client)
    }

    /// A pool of connections for reads.
    pub(crate) fn build_pool(&self) -> Result<Pool> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config((*self.0).clone(), NoTls, recycling);
        let pool = Pool::builder(manager).max_size(limits::DATABASE_READERS_MAX).build();
        pool.map_err(|error| Error::internal("no pool of connections").with_source(error))
    }
}

/// A connection of the pool.
pub(crate) async fn reader(pool: &Pool) -> Result<deadpool_postgres::Object> {
    pool.get().await.map_err(pool_error)
}
