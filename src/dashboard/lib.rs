#![doc = include_str!("README.md")]

mod access;
mod act;
mod html;
mod live;
mod page;
mod pages;
mod replies;
mod routes;
mod source;
mod state;
mod viewer;

use std::{fmt, path::PathBuf, sync::Arc};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

pub use self::access::Address;
use self::{access::Access, source::ServerConnection, state::Dashboard, viewer::Viewer};
use midex_domain::{
    clock::{Clock, IdSource},
    error::{Error, Result},
    limits,
};
use midex_mcp::Process;

/// The settings of a dashboard.
pub struct DashboardOptions {
    /// The data directory, in which the dashboard says where it is.
    pub data_dir: PathBuf,
    /// The name that is recorded with what the person in front of the browser does.
    pub person: String,
    /// Whether nothing can be changed.
    pub is_read_only: bool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of secrets and of ids.
    pub ids: Arc<dyn IdSource>,
}

impl fmt::Debug for DashboardOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashboardOptions").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

/// A dashboard that listens.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: Address,
    access: Arc<Access>,
    source: Arc<ServerConnection>,
    options: DashboardOptions,
}

impl Listening {
    /// Connects to the server whose executions are shown, and writes down where the dashboard is, so that `midex dashboard`
    /// finds it.
    ///
    /// # Errors
    /// Those of connecting, and of opening the store; `FILE_UNUSABLE` if the file cannot be written.
    pub async fn open(
        listener: TcpListener,
        process: Process,
        options: DashboardOptions,
    ) -> Result<Self> {
        let listen = listener
            .local_addr()
            .map_err(|error| Error::internal("the listener has no address").with_source(error))?;
        // First, so that the data directory is there.
        let source = Arc::new(ServerConnection::new(process));
        source.check_connection().await?;
        let address = Address::write(&options.data_dir, listen, &*options.ids)?;
        let access = Access::new(address.clone(), options.clock.clone(), options.ids.clone())?;
        Ok(Self { listener, address, access: Arc::new(access), source, options })
    }

    /// A link that lets one browser in, once, within [`limits::DASHBOARD_LINK_KEPT`].
    pub fn make_link(&self) -> String {
        format!("{}/enter?key={}", self.address.origin(), self.access.add_link())
    }

    /// Serves the pages until `stop` is cancelled.
    ///
    /// # Errors
    /// `INTERNAL` if the host name in the data directory is none.
    pub async fn serve(self, stop: CancellationToken) -> Result<()> {
        let Self { listener, address, access, source, options } = self;
        let viewer = Viewer {
            source: source.clone(),
            person: options.person.into(),
            form_token: access.form_token().into(),
            is_read_only: options.is_read_only,
            clock: options.clock,
            ids: options.ids,
        };
        let streams = Arc::new(Semaphore::new(limits::DASHBOARD_STREAMS_MAX));
        let dashboard = Dashboard { access, viewer, streams, stop: stop.clone() };
        let router = routes::router(dashboard, &address)?;
        midex_http::serve(listener, router, limits::DASHBOARD_CONNECTIONS_MAX, stop).await;
        source.close().await;
        Ok(())
    }
}
