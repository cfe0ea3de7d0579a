//! A transaction for each transition, as a program without group commit stores it: the same rows, with a compare-and-set.

use std::sync::atomic::{AtomicUsize, Ordering};

use midex_engine::store::{contract::script::Script, encode};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// Connections to the database, as many as a pool usually has.
const CONNECTIONS: usize = 32;

const TABLES: &str = "CREATE TABLE reference_executions (id text PRIMARY KEY, revision int8 NOT NULL, snapshot bytea NOT NULL);
CREATE TABLE reference_journal (execution_id text, revision int8, record bytea NOT NULL, PRIMARY KEY (execution_id, revision));";

/// The connections, each used by one transaction at a time.
pub(crate) struct Reference {
    connections: Vec<Mutex<Connection>>,
    next: AtomicUsize,
}

struct Connection {
    client: Client,
    read: Statement,
    insert: Statement,
    store: Statement,
}

impl Reference {
    pub(crate) async fn open(url: &str, schema: &str) -> Self {
        let mut config: Config = url.parse().expect("an address");
        config.options(format!("-c search_path={schema}"));
        let mut connections = Vec::new();
        for number in 0..CONNECTIONS {
            let (client, connection) = config.connect(NoTls).await.expect("a database");
            tokio::spawn(connection);
            if number == 0 {
                client.batch_execute(TABLES).await.expect("tables");
            }
            let read = "SELECT revision FROM reference_executions WHERE id = $1 FOR UPDATE";
            let insert = "INSERT INTO reference_journal (execution_id, revision, record) VALUES ($1, $2, $3)";
            let store = "INSERT INTO reference_executions (id, revision, snapshot) VALUES ($1, $2, $3) \
                         ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, snapshot = excluded.snapshot";
            let read = client.prepare(read).await.expect("a statement");
            let insert = client.prepare(insert).await.expect("a statement");
            let store = client.prepare(store).await.expect("a statement");
            connections.push(Mutex::new(Connection { client, read, insert, store }));
        }
        Self { connections, next: AtomicUsize::new(0) }
    }

    pub(crate) async fn commit_step(&self, script: &mut Script) {
        let transition = script.build_transition("done");
        let commit = script.build_commit(transition);
        let id = commit.execution.id().as_str();
        let revision = i64::try_from(commit.row.revision).expect("a revision");
        let record = encode::encode_row(&commit.row).expect("a row");
        let snapshot = encode::encode_snapshot(&commit.execution, 0).expect("a snapshot");
        let number = self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS;
        let connection = self.connections[number].lock().await;
        let Connection { client, read, insert, store } = &*connection;
        client.batch_execute("BEGIN").await.expect("a transaction");
        let stored = client.query_opt(read, &[&id]).await.expect("a revision");
        let stored = stored.map_or(0, |row| row.get::<_, i64>(0));
        assert_eq!(stored + 1, revision);
        client.execute(insert, &[&id, &revision, &record]).await.expect("a row");
        client.execute(store, &[&id, &revision, &snapshot]).await.expect("an execution");
        client.batch_execute("COMMIT").await.expect("a commit");
        drop(connection);
        script.execution = Some((*commit.execution).clone());
    }
}
