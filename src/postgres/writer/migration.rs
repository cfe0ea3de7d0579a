//! Moves all records of a data directory into a database that no server uses, and compares them, in one transaction. So a migration
//! that is cut off leaves nothing. It locks all shards: meanwhile no server can take one, and no other migration can begin.

use std::{collections::BTreeMap, mem, pin::pin};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio_postgres::{Client, types::ToSql};

use super::{
    WriteError, WriterConnection,
    batch::{ExecutionColumns, NewRows, Statements},
};
use crate::{
    connection::Connector,
    error::database_error,
    lease::LeaseOptions,
    schema::prepare_tables,
    shard::{SHARD_COUNT, Shard},
    value::to_int8,
};
use midex_domain::{
    error::{Code, Error, Result},
    event::OwnerEpoch,
    limits,
};
use midex_engine::store::{LoadedExecution, StoreRecords, StoredRecord};

/// How the records of a table are stored as rows, and read back.
struct TableCopy {
    /// The name of the table, in the source too.
    name: &'static str,
    /// SQL that makes a row of `line[]`, the lines of a record's key, and `bytes`. Empty for executions, which are stored as a
    /// commit stores them.
    insert_columns: &'static str,
    /// SQL that makes the lines of a record's key from a row.
    select_key_lines: &'static str,
    /// SQL that makes the bytes of a record from a row.
    select_bytes: &'static str,
    /// SQL that puts the rows in the order of the records.
    order_by: &'static str,
}

/// The tables, in the order of [`StoreRecords::read`].
const TABLES: [TableCopy; 8] = [
    TableCopy {
        name: "contents",
        insert_columns: "decode(line[1], 'hex'), bytes",
        select_key_lines: "encode(digest, 'hex')",
        select_bytes: "bytes",
        order_by: "digest",
    },
    TableCopy {
        name: "journal",
        insert_columns: "line[2], line[3]::int8, line[1]::int8, bytes",
        select_key_lines: "seq::text, execution_id, revision::text",
        select_bytes: "record",
        order_by: "seq",
    },
    TableCopy {
        name: "executions",
        insert_columns: "",
        select_key_lines: "id, seq::text, revision::text, due::text",
        select_bytes: "''",
        order_by: "id COLLATE \"C\"",
    },
    TableCopy {
        name: "snapshots",
        insert_columns: "line[1], line[2]::int8, bytes",
        select_key_lines: "execution_id, revision::text",
        select_bytes: "bytes",
        order_by: "execution_id COLLATE \"C\"",
    },
    TableCopy {
        name: "forks",
        insert_columns: "line[1], line[2]",
        select_key_lines: "source, fork",
        select_bytes: "''",
        order_by: "source COLLATE \"C\", fork COLLATE \"C\"",
    },
    TableCopy {
        name: "refusals",
        insert_columns: "line[1]::int8, bytes",
        select_key_lines: "seq::text",
        select_bytes: "record",
        order_by: "seq",
    },
    TableCopy {
        name: "tombstones",
        insert_columns: "line[1], line[2]::int8",
        select_key_lines: "id, at::text",
        select_bytes: "''",
        order_by: "id COLLATE \"C\"",
    },
    TableCopy {
        name: "candidates",
        insert_columns: "decode(line[1], 'hex')",
        select_key_lines: "encode(digest, 'hex')",
        select_bytes: "''",
        order_by: "digest",
    },
];

/// What a migration has copied and compared.
#[derive(Clone, Debug, Default)]
pub struct MigrationReport {
    /// The number of records in each table that has any.
    pub records: BTreeMap<&'static str, u64>,
    /// The bytes of their values.
    pub bytes: u64,
}

/// Copies all records into the empty database at `url`, and compares every one. Makes the tables if there are none.
///
/// # Errors
/// `STORE_BUSY` if a server uses the database; `FILE_EXISTS` if it has records already; `STORE_UNAVAILABLE` if it does not give back
/// what was stored; those of the source; otherwise as [`PostgresStore::open`](crate::PostgresStore::open). Nothing is stored then.
pub async fn migrate_store(url: &str, source: &StoreRecords) -> Result<MigrationReport> {
    let mut client = Connector::new(url, None, LeaseOptions::default())?.connect().await?;
    prepare_tables(&mut client).await?;
    let statements = Statements::prepare(&client).await.map_err(database_error)?;
    let connection = WriterConnection { client, statements };
    begin_in_empty(&connection.client, source.last_owner()).await?;
    copy(&connection, source).await?;
    let report = compare(&connection.client, source).await?;
    let committed = connection.client.batch_execute("COMMIT").await;
    committed.map_err(|error| {
        database_error(error).with_action("Run the same command again: if the answer is FILE_EXISTS, everything was stored, and the file of the data directory must be moved away")
    })?;
    Ok(report)
}

/// Begins the transaction, and locks all shards. No epoch stays below that of the last owner of the source, so attempts that are
/// open there count as those of a former owner.
async fn begin_in_empty(client: &Client, last_owner: OwnerEpoch) -> Result<(), WriteError> {
    let pause_max = limits::MIGRATION_PAUSE_MAX.as_millis();
    let begin = format!("BEGIN; SET LOCAL idle_in_transaction_session_timeout = {pause_max}");
    client.batch_execute(&begin).await?;
    let lock = "UPDATE shards SET epoch = greatest(epoch, $1) WHERE expires_at < now()";
    if client.execute(lock, &[&to_int8(last_owner.0)]).await? < u64::from(SHARD_COUNT) {
        let error = Error::new(Code::StoreBusy, "a server uses the database");
        return Err(error.with_action("Stop all servers of the database, and run the same command again: the leases of a killed one end soon").into());
    }
    for TableCopy { name, .. } in TABLES {
        if client.execute(&format!("SELECT 1 FROM {name} LIMIT 1"), &[]).await? > 0 {
            let message = format!("the database has records already, in the table `{name}`");
            let error = Error::new(Code::FileExists, message);
            return Err(error
                .with_action("Name another database with --to: none is changed that has executions")
                .into());
        }
    }
    Ok(())
}

/// Copies all records in portions of bounded size.
async fn copy(connection: &WriterConnection, source: &StoreRecords) -> Result<(), WriteError> {
    let (mut records, mut bytes) = (Vec::<StoredRecord>::new(), 0);
    for record in source.read()? {
        let record = record?;
        let is_full = records.len() >= limits::DATABASE_ROWS_TOGETHER_MAX
            || bytes >= limits::COPY_PORTION_BYTES;
        if is_full || records.last().is_some_and(|last| last.table != record.table) {
            store_records(connection, source, &mem::take(&mut records)).await?;
            bytes = 0;
        }
        bytes += record.bytes.len();
        records.push(record);
    }
    store_records(connection, source, &records).await
}

/// Stores records of one table.
async fn store_records(
    connection: &WriterConnection,
    source: &StoreRecords,
    records: &[StoredRecord],
) -> Result<(), WriteError> {
    let table = records.first().map_or("", |record| record.table);
    if table == "executions" {
        return store_executions(connection, source, records).await;
    }
    let keys: Vec<_> = records.iter().map(|record| &*record.key).collect();
    let bytes: Vec<_> = records.iter().map(|record| &*record.bytes).collect();
    for TableCopy { insert_columns, .. } in TABLES.into_iter().filter(|copy| copy.name == table) {
        let insert = format!(
            "INSERT INTO {table} SELECT {insert_columns} FROM (SELECT string_to_array(key, E'\\n') AS line, bytes \
             FROM unnest($1::text[], $2::bytea[]) AS record (key, bytes)) AS records"
        );
        connection.client.execute(&insert, &[&keys, &bytes]).await?;
    }
    Ok(())
}

/// Stores executions as a commit does, without their snapshots.
async fn store_executions(
    connection: &WriterConnection,
    source: &StoreRecords,
    records: &[StoredRecord],
) -> Result<(), WriteError> {
    let mut records = records.iter().peekable();
    while records.peek().is_some() {
        let (mut loaded, mut bytes) = (Vec::new(), 0);
        while let Some(record) = records.next_if(|_| bytes < limits::COPY_PORTION_BYTES as u64) {
            let found = source.load(record.key.lines().next().unwrap_or_default())?;
            bytes += found.1.position.snapshot_bytes();
            loaded.push(found);
        }
        let mut new = NewRows::default();
        for (key, LoadedExecution { execution, position }) in &loaded {
            let shard = Shard::of_execution(execution.id());
            let (key, due, snapshot) = (*key, position.due, None);
            new.add_execution(ExecutionColumns { execution, shard, key, due, snapshot });
        }
        new.take_and_write(connection).await?;
    }
    Ok(())
}

/// Reads all tables back, and compares each record with that of the source.
async fn compare(client: &Client, source: &StoreRecords) -> Result<MigrationReport> {
    let mut report = MigrationReport::default();
    let rows = stream::iter(TABLES).then(async |table| {
        let TableCopy { name, select_key_lines, select_bytes, order_by, .. } = table;
        let select = format!(
            "SELECT '{name}', concat_ws(E'\\n', {select_key_lines}), {select_bytes}::bytea \
             FROM {name} ORDER BY {order_by}"
        );
        client.query_raw(&select, [] as [&(dyn ToSql + Sync); 0]).await
    });
    let mut rows = pin!(rows.try_flatten());
    for record in source.read()? {
        let StoredRecord { table, key, bytes } = record?;
        let row = rows.try_next().await.map_err(database_error)?;
        if row.is_none_or(|row| (row.get(0), row.get(1), row.get(2)) != (table, &*key, &*bytes)) {
            return Err(difference_error(table, &key));
        }
        *report.records.entry(table).or_default() += 1;
        report.bytes += bytes.len() as u64;
    }
    match rows.try_next().await.map_err(database_error)? {
        None => Ok(report),
        Some(row) => Err(difference_error(row.get(0), row.get(1))),
    }
}

fn difference_error(table: &str, key: &str) -> Error {
    let key = key.lines().next().unwrap_or_default();
    let message = format!(
        "the database does not give back what was stored: table `{table}` differs at key `{key}`"
    );
    Error::new(Code::StoreUnavailable, message).with_action("Remove what changes the tables, such as a trigger, and run the same command again: nothing was stored")
}
