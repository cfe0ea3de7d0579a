//! A server that shares its executions with others.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{super::listener::bind_listener, ClusterArgs};
use midex_cluster::{AdvertisedAddress, Credentials, HttpPeers, TlsFiles, serve_peers};
use midex_domain::{error::Result, limits, operation::BoxFuture};
use midex_engine::store::Store;
use midex_postgres::{LeaseOptions, PostgresOptions, PostgresStore};
use midex_server::app::{self, App, StoreOpener};

/// A server among others, which listens for them.
pub(crate) struct ClusterMember {
    listener: TcpListener,
    credentials: Credentials,
}

impl ClusterArgs {
    /// Listens for the other servers, and lets the app open the database when it needs its store. `None` without `--store`. Must
    /// be called on a runtime.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` for a token or certificate that cannot be used; `USAGE_INVALID` for an address of a database that is none;
    /// `ADDRESS_UNUSABLE`.
    pub(crate) fn join(&self, options: &mut app::Options) -> Result<Option<ClusterMember>> {
        let (Some(url), Some(advertised), Some(token_file)) =
            (&self.store, &self.advertise, &self.cluster_token_file)
        else {
            return Ok(None);
        };
        let tls = match (&self.cluster_ca, &self.cluster_cert, &self.cluster_key) {
            (Some(authority), Some(certificate), Some(key)) => Some(TlsFiles {
                authority: authority.clone(),
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => None,
        };
        let advertised = AdvertisedAddress::parse(advertised)?;
        let credentials = Credentials::load(token_file, tls.as_ref())?;
        credentials.check_address(&advertised)?;
        if let Some(files) = &tls {
            files.check_certificate(&advertised)?;
        }
        let listen = self.cluster_listen.unwrap_or_else(|| advertised.listen_address());
        let directory = options.config.data_dir.join("published");
        if let Some(catalogs) = &mut options.config.catalogs {
            catalogs.published = Some(directory.join("catalogs"));
        }
        options.config.published = Some(directory.clone());
        let opener = DatabaseOpener {
            options: PostgresOptions {
                url: url.clone(),
                schema: None,
                address: advertised.as_str().to_owned(),
                leases: self.cluster_lease.map_or_else(LeaseOptions::default, LeaseOptions::new),
                definitions: Some(directory),
                snapshot_every: options.config.snapshot_every.max(limits::DATABASE_SNAPSHOT_EVERY),
                clock: options.clock.clone(),
                ids: options.ids.clone(),
            },
        };
        opener.options.check()?;
        options.store_opener = Some(Arc::new(opener));
        options.peers = Some(Arc::new(HttpPeers::new(credentials.clone())?));
        let listener = bind_listener(listen).map_err(|error| {
            error.with_action(
                "Let --cluster-listen name a free address of this machine: it is {address} now",
            )
        })?;
        Ok(Some(ClusterMember { listener, credentials }))
    }
}

impl ClusterMember {
    /// Answers the calls of other servers until `stop` is cancelled.
    pub(crate) async fn serve(self, app: App, stop: CancellationToken) {
        let answer = move |call| -> BoxFuture<'static, _> {
            let app = app.clone();
            Box::pin(async move { app.answer_peer(call).await })
        };
        serve_peers(self.listener, self.credentials, Box::new(answer), stop).await;
    }
}

/// Opens the database.
#[derive(Debug)]
struct DatabaseOpener {
    options: PostgresOptions,
}

impl StoreOpener for DatabaseOpener {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(async {
            let store: Arc<dyn Store> = Arc::new(PostgresStore::open(self.options.clone()).await?);
            Ok(store)
        })
    }
}
