//! The state of the cluster, as the database has it.

use tokio_postgres::Client;

use crate::{
    error::database_error,
    lease::{Leases, now},
    shard::SHARD_COUNT,
    value::from_int8,
};
use midex_domain::{
    clock::{Clock, Timestamp},
    error::Result,
};
use midex_engine::store::{ClusterStatus, ServerStatus};

/// Reads the servers, their shards and the newest definitions, and compares the clocks. Of servers that ended, it leaves those out
/// that another one at the same address has followed. This server uses the version `used_definitions`.
///
/// # Errors
/// Those of the database.
pub(crate) async fn read_status(
    client: &Client,
    leases: &Leases,
    clock: &dyn Clock,
    used_definitions: u64,
) -> Result<ClusterStatus> {
    let statement = "SELECT name, address, (extract(epoch FROM expires_at - now()) * 1000)::int8, \
                     (SELECT count(*) FROM shards WHERE owner = name AND expires_at > now()) \
                     FROM servers WHERE expires_at > now() OR NOT EXISTS (SELECT FROM servers AS later \
                     WHERE later.address = servers.address AND later.expires_at > servers.expires_at) \
                     ORDER BY address, expires_at";
    let rows = client.query_typed(statement, &[]).await.map_err(database_error)?;
    let servers = rows.iter().map(|row| ServerStatus {
        is_this: row.get::<_, &str>(0) == leases.owner,
        address: row.get(1),
        lease_left_ms: row.get(2),
        shards: from_int8(row.get(3)),
    });
    let statement = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8, \
                     (SELECT count(*) FROM shards WHERE expires_at < now()), \
                     (SELECT coalesce(max(version), 0) FROM publications)";
    let begin = now();
    let row = client.query_typed_one(statement, &[]).await.map_err(database_error)?;
    let latency = begin.elapsed();
    // The database read its clock about halfway.
    let database_time = Timestamp::from_milliseconds(row.get(0)).plus(latency / 2);
    Ok(ClusterStatus {
        servers: servers.collect(),
        shards: u64::from(SHARD_COUNT),
        free_shards: from_int8(row.get(1)),
        definitions: from_int8(row.get(2)),
        used_definitions,
        latency_us: u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
        clock_ahead_ms: clock.now().milliseconds() - database_time.milliseconds(),
    })
}
