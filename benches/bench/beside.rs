//! The baselines that midex is compared with, on the same disk and with the same records: one page write and sync, redb
//! with a commit per transition, and `SQLite`.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf, sync::Arc, time::Duration};

use super::{
    BenchDirectory, blocking,
    calls::{Midex, Setting},
    figures::Turn,
    load::{Contender, Disk, Lane, Limited, Stopwatch, drive, now},
};
use midex_domain::{
    Execution, ExecutionId, Row,
    clock::{Clock, SystemClock, SystemIds},
    error::{Error, Result},
};
use midex_engine::store::{self, BoxFuture, Commit, Position, RedbStore, Store};

/// How many clients fill a store concurrently.
const FILLERS: usize = 256;

/// The page that the probe overwrites.
const PAGE: [u8; 4096] = [1; 4096];

/// Overwrites one page and syncs it: the lower bound for a durable transition without group commit.
pub(super) struct Probe {
    file: Arc<File>,
    path: PathBuf,
    disk: Arc<Disk>,
}

impl Probe {
    /// Creates the file to overwrite.
    pub(super) fn new(place: &BenchDirectory) -> Result<Self> {
        let path = place.fresh()?.join("probe");
        let made = File::create(&path).and_then(|file| {
            file.write_all_at(&PAGE, 0)?;
            file.sync_all().map(|()| file)
        });
        Ok(Self {
            file: Arc::new(made.map_err(|error| super::unusable(&path, error))?),
            disk: Disk::new(place.delay),
            path,
        })
    }
}

impl Contender for Probe {
    fn turn(&mut self, length: Duration) -> BoxFuture<'_, Result<Turn>> {
        let (file, disk) = (Arc::clone(&self.file), Arc::clone(&self.disk));
        let overwrite = move || {
            file.write_all_at(&PAGE, 0)?;
            disk.sync();
            file.sync_data()
        };
        Box::pin(async move {
            let turn = one_after_another(length, overwrite).await?;
            turn.map_err(|error| super::unusable(&self.path, error))
        })
    }
}

/// Runs a blocking operation again and again for the length of a turn, on a blocking thread.
async fn one_after_another<E: Send + 'static>(
    length: Duration,
    mut act: impl FnMut() -> Result<(), E> + Send + 'static,
) -> Result<Result<Turn, E>> {
    let turn = move || {
        let watch = Stopwatch::start(length);
        let mut latencies = Vec::new();
        loop {
            let asked = now();
            act()?;
            latencies.push(asked.elapsed());
            if !watch.runs() {
                break;
            }
        }
        Ok(watch.stop(latencies))
    };
    blocking(turn).await
}

/// The rows of an execution that midex ran from start to end. The baselines store the same rows.
pub(super) async fn records(place: &BenchDirectory) -> Result<Arc<[Row]>> {
    let setting = Setting::steps(1);
    let (directory, id) = Midex::new(place, setting, 0).await?.played().await?;
    let open = move || RedbStore::open(&directory, store::Options::default());
    let store = blocking(open).await??;
    let rows = store.load_history(&id).await?;
    store.close().await?;
    Ok(rows.into())
}

/// Fills a new store with `count` open executions, and returns its directory.
pub(super) async fn filled(
    place: &BenchDirectory,
    rows: &Arc<[Row]>,
    count: usize,
) -> Result<PathBuf> {
    let directory = place.fresh()?;
    let path = directory.clone();
    let open = move || RedbStore::open(&path, store::Options::default());
    let store = Arc::new(blocking(open).await??);
    let share = |at: usize| count / FILLERS + usize::from(at < count % FILLERS);
    let filler = |at| Limited {
        lane: Filling { store: Arc::clone(&store), rows: Arc::clone(rows) },
        left: share(at),
    };
    let mut lanes: Vec<_> = (0..FILLERS).map(filler).collect();
    drive(&mut lanes, &Arc::new(Stopwatch::start(Duration::MAX))).await?;
    store.close().await?;
    Ok(directory)
}

/// Stores the first row of an execution per call.
struct Filling {
    store: Arc<RedbStore>,
    rows: Arc<[Row]>,
}

impl Lane for Filling {
    async fn call(&mut self) -> Result<bool> {
        let commit = Records::new(&self.rows).next()?;
        self.store.commit(commit).await.map(|_| true)
    }
}

/// Transitions of one execution after another, all made of the same rows.
struct Records {
    rows: Arc<[Row]>,
    at: usize,
    id: ExecutionId,
    execution: Option<Execution>,
    position: Position,
}

impl Records {
    fn new(rows: &Arc<[Row]>) -> Self {
        Self {
            rows: Arc::clone(rows),
            at: 0,
            id: ExecutionId::generate(SystemClock.now(), &SystemIds),
            execution: None,
            position: Position::default(),
        }
    }

    /// The next transition. After the last row a new execution begins.
    fn next(&mut self) -> Result<Commit> {
        if self.at == self.rows.len() {
            *self = Self::new(&self.rows);
        }
        let row = Row { execution_id: self.id.clone(), ..self.rows[self.at].clone() };
        self.at += 1;
        let next = Execution::apply_row(self.execution.take(), &row);
        let next = next.ok_or_else(|| Error::internal("the records make no execution"))?;
        self.execution = Some(next.clone());
        Ok(Commit {
            execution: Arc::new(next),
            row: Arc::new(row),
            contents: Vec::new(),
            due: None,
            position: self.position,
            past: None,
        })
    }
}

/// The store of midex with one commit per transition: redb without group commit.
pub(super) struct Single {
    disk: Arc<Disk>,
    store: Arc<RedbStore>,
    lanes: Vec<Writing>,
}

impl Single {
    /// A new store with this many clients.
    pub(super) async fn new(
        place: &BenchDirectory,
        rows: &Arc<[Row]>,
        in_flight: usize,
    ) -> Result<Self> {
        let (directory, disk) = (place.fresh()?, Disk::new(place.delay));
        let options = store::Options {
            batch_max: 1,
            hook: Some(disk.hook()),
            redo_bytes: 0,
            ..store::Options::default()
        };
        let store = Arc::new(blocking(move || RedbStore::open(&directory, options)).await??);
        let lane = || Writing { store: Arc::clone(&store), records: Records::new(rows) };
        let lanes = (0..in_flight).map(|_| lane()).collect();
        Ok(Self { disk, store, lanes })
    }
}

impl Contender for Single {
    fn turn(&mut self, length: Duration) -> BoxFuture<'_, Result<Turn>> {
        Box::pin(self.disk.turn(&mut self.lanes, length))
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.store.close().await })
    }
}

/// A client that stores one transition per call.
struct Writing {
    store: Arc<RedbStore>,
    records: Records,
}

impl Lane for Writing {
    async fn call(&mut self) -> Result<bool> {
        let commit = self.records.next()?;
        self.records.position = self.store.commit(commit).await?.position;
        Ok(true)
    }
}

/// An `SQLite` database in WAL mode, with one transaction per transition.
#[cfg(feature = "sqlite")]
pub(super) struct Sqlite(Arc<std::sync::Mutex<Database>>);

#[cfg(feature = "sqlite")]
struct Database {
    connection: rusqlite::Connection,
    records: Vec<(Vec<u8>, Vec<u8>)>,
    stored: usize,
}

#[cfg(feature = "sqlite")]
impl Sqlite {
    /// A database with this value of `synchronous`. One thread writes records that are encoded beforehand, which is the
    /// most favorable case for `SQLite`.
    pub(super) fn new(place: &Place, rows: &Arc<[Row]>, synchronous: &str) -> Result<Self> {
        const TABLES: &str =
            "CREATE TABLE executions (id TEXT PRIMARY KEY, snapshot BLOB NOT NULL) WITHOUT ROWID;
            CREATE TABLE journal (at INTEGER PRIMARY KEY, row BLOB NOT NULL);";
        let path = place.fresh()?.join("sqlite");
        let open = || {
            let connection = rusqlite::Connection::open(path)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.execute_batch(TABLES).map(|()| connection)
        };
        let mut records = Records::new(rows);
        let records = rows.iter().map(|_| records.next()?.encoded());
        let database = Database {
            records: records.collect::<Result<_>>()?,
            connection: open().map_err(|error| sqlite_failed(&error))?,
            stored: 0,
        };
        Ok(Self(Arc::new(std::sync::Mutex::new(database))))
    }
}

#[cfg(feature = "sqlite")]
impl Database {
    fn store(&mut self) -> rusqlite::Result<()> {
        let (execution, at) = (self.stored / self.records.len(), self.stored % self.records.len());
        let (row, snapshot) = &self.records[at];
        self.stored += 1;
        let transaction = self.connection.transaction()?;
        transaction.prepare_cached("INSERT INTO journal (row) VALUES (?1)")?.execute([row])?;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO executions (id, snapshot) VALUES (?1, ?2)")?
            .execute(rusqlite::params![format!("exec_{execution:026}"), snapshot])?;
        transaction.commit()
    }
}

#[cfg(feature = "sqlite")]
impl Contender for Sqlite {
    fn turn(&mut self, length: Duration) -> BoxFuture<'_, Result<Turn>> {
        let database = Arc::clone(&self.0);
        let store = move || {
            let mut database = database.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            database.store()
        };
        Box::pin(async move {
            let turn = one_after_another(length, store).await?;
            turn.map_err(|error| sqlite_failed(&error))
        })
    }
}

#[cfg(feature = "sqlite")]
fn sqlite_failed(error: &rusqlite::Error) -> Error {
    Error::new(midex_domain::error::Code::StoreUnavailable, format!("SQLite failed: {error}"))
}
