//! A schema of the database for each test.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    clock::{SystemClock, SystemIds},
    error::Result,
};
use midex_postgres::{LeaseOptions, PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

use crate::proxy::Proxy;

/// Gives all shards to a server that does not exist, as if the leases of the store had ended while it was stopped.
pub(crate) const TAKE_ALL: &str = "UPDATE shards SET owner = 'another', epoch = epoch + 1, \
                                   expires_at = now() + interval '1 hour'";

/// Counts the connections that wait for a lock of the connection that asks.
pub(crate) const COUNT_BLOCKED: &str = "SELECT count(*) FROM pg_locks \
                                        WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";

/// Where a test has its tables.
pub(crate) struct Place {
    schema: String,
    /// The address that stores connect to in place of the database's.
    proxy: Option<SocketAddr>,
}

impl Place {
    /// The schema with this name.
    pub(crate) fn new(name: &str) -> Self {
        Self { schema: format!("{name}_{}", std::process::id()), proxy: None }
    }

    /// The schema of a directory.
    pub(crate) fn of_directory(directory: &Path) -> Self {
        let name = directory.file_name().unwrap().to_string_lossy().to_lowercase();
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Self::new(&format!("d{name}"))
    }

    /// The same tables, behind a proxy.
    pub(crate) fn behind(mut self, proxy: &Proxy) -> Self {
        self.proxy = Some(proxy.address);
        self
    }

    /// Where the database listens.
    pub(crate) fn database() -> SocketAddr {
        let url = Self::url();
        let host = url.split(['@', '/']).nth(3).unwrap();
        host.parse().expect("tests/postgres/run names it by its address")
    }

    fn url() -> String {
        std::env::var("MIDEX_POSTGRES").expect("`tests/postgres/run` names the database")
    }

    /// The address of the database with these tables.
    pub(crate) fn url_with_schema(&self) -> String {
        format!("{}?options=-c%20search_path%3D{}", Self::url(), self.schema)
    }

    /// A connection to these tables.
    pub(crate) async fn connect(&self) -> Client {
        let mut config: tokio_postgres::Config = Self::url().parse().unwrap();
        config.options(format!("-c search_path={}", self.schema));
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        let create = format!("CREATE SCHEMA IF NOT EXISTS \"{}\"", self.schema);
        client.batch_execute(&create).await.unwrap();
        client
    }

    /// A server that owns all shards.
    pub(crate) async fn open(&self) -> PostgresStore {
        let store = self.open_beside().await;
        while store.count_shards() < 256 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        store
    }

    /// A server that shares the shards with those that are open.
    pub(crate) async fn open_beside(&self) -> PostgresStore {
        static LAST_PORT: AtomicU16 = AtomicU16::new(0);
        let port = LAST_PORT.fetch_add(1, Ordering::Relaxed) + 1;
        self.open_at(&format!("http://127.0.0.1:{port}")).await
    }

    /// A server with this address, which shares the shards with those that are open.
    pub(crate) async fn open_at(&self, address: &str) -> PostgresStore {
        let leases = LeaseOptions {
            duration: Duration::from_secs(10),
            renew_every: Duration::from_millis(400),
        };
        self.open_with(address, leases).await
    }

    /// The same with these leases.
    pub(crate) async fn open_with(&self, address: &str, leases: LeaseOptions) -> PostgresStore {
        self.try_open(address, leases).await.unwrap()
    }

    /// The same, unless it is refused.
    pub(crate) async fn try_open(
        &self,
        address: &str,
        leases: LeaseOptions,
    ) -> Result<PostgresStore> {
        self.connect().await;
        let mut url = Self::url();
        if let Some(proxy) = self.proxy {
            url = url.replace(&Self::database().to_string(), &proxy.to_string());
        }
        let options = PostgresOptions {
            url,
            schema: Some(self.schema.clone()),
            address: address.to_owned(),
            leases,
            definitions: None,
            snapshot_every: 1,
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
        };
        PostgresStore::open(options).await
    }
}
