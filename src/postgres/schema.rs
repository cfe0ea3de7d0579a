//! The tables, and their version.

use tokio_postgres::{Client, error::SqlState};

use crate::{error::database_error, shard::SHARD_COUNT};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The version of the tables. A server refuses a database of a later one.
const SCHEMA_VERSION: i64 = 2;

/// What makes tables of the next version of those of a version.
const UPGRADES: [(i64, &str); 1] =
    [(1, "ALTER TABLE candidates ADD COLUMN mark int8 NOT NULL DEFAULT 0")];

/// A key in `meta`.
const VERSION_KEY: &str = "schema_version";

/// `seq` is a [`Sequence`](midex_domain::Sequence), and times are milliseconds since 1970.
///
/// Each transition changes the `seq` of its execution, and so an entry in each index that has it. Open executions are therefore
/// in one such index; those that have ended change no more, and are in three. The `mark` of a candidate grows each time it is noted.
const TABLES: &str = "
CREATE TABLE meta (key text PRIMARY KEY, value int8 NOT NULL);
CREATE TABLE shards (
    shard int4 PRIMARY KEY,
    owner text NOT NULL DEFAULT '',
    epoch int8 NOT NULL DEFAULT 0,
    expires_at timestamptz NOT NULL DEFAULT '1970-01-01T00:00:00Z',
    address text NOT NULL DEFAULT ''
);
CREATE TABLE servers (name text PRIMARY KEY, address text NOT NULL, expires_at timestamptz NOT NULL);
CREATE TABLE publications (
    version int8 PRIMARY KEY,
    digest bytea NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    files bytea NOT NULL
);
CREATE TABLE executions (
    id text PRIMARY KEY,
    shard int4 NOT NULL,
    revision int8 NOT NULL,
    seq int8 NOT NULL,
    due int8,
    has_ended bool NOT NULL,
    state text NOT NULL,
    workflow text NOT NULL,
    project text,
    is_child bool NOT NULL,
    labels jsonb NOT NULL,
    updated_at int8 NOT NULL
);
CREATE INDEX executions_by_due ON executions (due) WHERE due IS NOT NULL;
CREATE INDEX executions_open ON executions (seq) WHERE NOT has_ended;
CREATE INDEX executions_ended ON executions (seq) WHERE has_ended;
CREATE INDEX executions_ended_by_workflow ON executions (workflow, seq) WHERE has_ended;
CREATE INDEX executions_ended_by_state ON executions (state, seq) WHERE has_ended;
CREATE TABLE snapshots (execution_id text PRIMARY KEY, revision int8 NOT NULL, bytes bytea NOT NULL);
CREATE TABLE journal (
    execution_id text NOT NULL,
    revision int8 NOT NULL,
    seq int8 NOT NULL,
    record bytea NOT NULL,
    PRIMARY KEY (execution_id, revision)
);
CREATE UNIQUE INDEX journal_by_seq ON journal (seq);
CREATE TABLE contents (digest bytea PRIMARY KEY, bytes bytea NOT NULL);
CREATE TABLE candidates (digest bytea PRIMARY KEY, mark int8 NOT NULL DEFAULT 0);
CREATE TABLE refusals (seq int8 PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE tombstones (id text PRIMARY KEY, at int8 NOT NULL);
CREATE TABLE forks (source text NOT NULL, fork text NOT NULL, PRIMARY KEY (source, fork));
";

/// Makes the tables, if there are none.
///
/// # Errors
/// `STORE_TOO_NEW` for tables of a later version; those of the database.
pub(crate) async fn prepare_tables(client: &mut Client) -> Result<()> {
    let mut looks = 0;
    let version = loop {
        match read_version(client).await.map_err(database_error)? {
            Some(version) => break version,
            None => match create_tables(client).await {
                Ok(()) => break SCHEMA_VERSION,
                // Another server makes them just now.
                Err(error) if is_made_already(&error) && looks < limits::DATABASE_LOOKS_MAX => {
                    looks += 1;
                }
                Err(error) => return Err(database_error(error)),
            },
        }
        tokio::time::sleep(limits::DATABASE_LOOK_EVERY).await;
    };
    if version > SCHEMA_VERSION {
        let message = format!(
            "the database has tables of version {version}, and this midex knows version {SCHEMA_VERSION}"
        );
        return Err(Error::new(Code::StoreTooNew, message)
            .with_action("Install the midex that the other servers of the database have"));
    }
    for upgrade in UPGRADES.into_iter().filter(|(from, _)| *from >= version) {
        upgrade_tables(client, upgrade).await.map_err(database_error)?;
    }
    Ok(())
}

/// Upgrades the tables by one version, unless another server does.
async fn upgrade_tables(
    client: &mut Client,
    (from, upgrade): (i64, &str),
) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    let raise = "UPDATE meta SET value = value + 1 WHERE key = $1 AND value = $2";
    if transaction.execute(raise, &[&VERSION_KEY, &from]).await? > 0 {
        transaction.batch_execute(upgrade).await?;
    }
    transaction.commit().await
}

/// The version of the tables; `None` if there are none.
async fn read_version(client: &Client) -> Result<Option<i64>, tokio_postgres::Error> {
    match client.query_opt("SELECT value FROM meta WHERE key = $1", &[&VERSION_KEY]).await {
        Ok(row) => Ok(row.map(|row| row.get(0))),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn create_tables(client: &mut Client) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(TABLES).await?;
    let add_shards = "INSERT INTO shards (shard) SELECT * FROM generate_series(0, $1::int4)";
    transaction.execute(add_shards, &[&(i32::from(SHARD_COUNT) - 1)]).await?;
    let set_version = "INSERT INTO meta (key, value) VALUES ($1, $2)";
    transaction.execute(set_version, &[&VERSION_KEY, &SCHEMA_VERSION]).await?;
    transaction.commit().await
}

/// Whether tables were not made because another server was faster.
fn is_made_already(error: &tokio_postgres::Error) -> bool {
    let states =
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    error.code().is_some_and(|state| states.contains(state))
}
