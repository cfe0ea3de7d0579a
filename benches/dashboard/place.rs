//! A project, its data directory, and a dashboard that owns it.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use midex_dashboard::{Address, DashboardOptions, Listening};
use midex_domain::clock::{SystemClock, SystemIds};
use midex_engine::{
    Engine, Options,
    store::{self, RedbStore},
};
use midex_mcp::Process;
use midex_server::{app, config::Config};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// A project, and a data directory.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory"));
        fs::create_dir(place.project()).expect("a directory");
        place
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    fn data_dir(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub(crate) async fn open_engine(&self) -> (Engine, Arc<RedbStore>) {
        let store = RedbStore::open(&self.data_dir(), store::Options::default());
        let store = Arc::new(store.expect("a store"));
        let options = Options::new(store.clone(), Arc::new(SystemClock), Arc::new(SystemIds));
        (Engine::new(options).await.expect("an engine"), store)
    }

    /// A process that connects to the owner of the data directory, or becomes it.
    pub(crate) fn process(&self) -> Process {
        let mut config = Config::new(Some(self.data_dir())).expect("a configuration");
        config.workflows_dir = Some(self.project().join("workflows"));
        config.project_dir = self.project();
        let options = app::Options::new(config, Arc::new(SystemClock), Arc::new(SystemIds));
        Process::for_command(options)
    }
}

/// A dashboard that owns the data directory.
pub(crate) struct Dashboard {
    address: Address,
    http: reqwest::Client,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    updates: Arc<AtomicU64>,
}

impl Dashboard {
    pub(crate) async fn open(place: &Place) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let options = DashboardOptions {
            data_dir: place.data_dir(),
            person: "bench".to_owned(),
            is_read_only: false,
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
        };
        let process = place.process().with_long_life();
        let listening = Listening::open(listener, process, options).await.expect("a dashboard");
        let address = Address::read(&place.data_dir()).expect("an address");
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serving =
            tokio::spawn(async move { listening.serve(stopped).await.expect("an orderly end") });
        Self { address, http: reqwest::Client::new(), stop, serving, updates: Arc::default() }
    }

    fn request(&self, path: &str) -> reqwest::RequestBuilder {
        let (listen, host) = (self.address.listen, &self.address.host);
        let request = self.http.get(format!("http://{listen}{path}"));
        request.header("host", format!("{host}:{}", listen.port())).bearer_auth(&self.address.token)
    }

    pub(crate) async fn page(&self, path: &str) -> String {
        let reply = self.request(path).send().await.expect("a reply");
        assert!(reply.status().is_success(), "{path}: {reply:?}");
        reply.text().await.expect("a page")
    }

    /// Follows a page as a browser does, and counts the updates.
    pub(crate) fn follow(&self, path: &str) -> impl Future<Output = ()> + Send + use<> {
        let page = utf8_percent_encode(path, NON_ALPHANUMERIC);
        let request = self.request(&format!("/live?page={page}"));
        let updates = self.updates.clone();
        async move {
            let mut stream = request.send().await.expect("a reply");
            assert!(stream.status().is_success(), "{stream:?}");
            while let Some(bytes) = stream.chunk().await.expect("an update") {
                if bytes.starts_with(b"id:") || bytes.starts_with(b"data:") {
                    updates.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Waits until there were so many updates, and forgets them.
    pub(crate) async fn wait_for_updates(&self, count: usize) {
        while self.updates.load(Ordering::Relaxed) < count as u64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.take_updates();
    }

    /// The number of updates since the last call.
    pub(crate) fn take_updates(&self) -> u64 {
        self.updates.swap(0, Ordering::Relaxed)
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.serving.await.expect("no panic");
    }
}
