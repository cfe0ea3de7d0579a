//! `midex migrate-store`: moves the executions of a data directory into a database.

use serde_json::json;

use super::MigrateStoreArgs;
use crate::{
    EXIT_OK, Output,
    backup::shown,
    command::quoted,
    value::{format_bytes, format_duration, format_number},
};
use midex_domain::{
    clock::{Clock as _, SteadyClock},
    error::Result,
};
use midex_server::app::{mark_database_directory, open_store_records};

/// Moves the executions, and says how to serve them.
///
/// # Errors
/// `STORE_BUSY` while a midex uses the data directory or the database; those of both stores.
pub(crate) async fn migrate_store(args: MigrateStoreArgs, mut out: Output<'_>) -> Result<u8> {
    let clock = SteadyClock::default();
    let begun_at = clock.now();
    let source = open_store_records(&args.from)?;
    let report = midex_postgres::migrate_store(&args.to, &source).await?;
    let kept = source.retire(clock.now())?;
    mark_database_directory(&args.from)?;
    let took = clock.now().since(begun_at).as_millis();
    let took_ms = u64::try_from(took).unwrap_or(u64::MAX);
    let records = &report.records;
    let json =
        || json!({ "records": records, "bytes": report.bytes, "took_ms": took_ms, "kept": kept });
    let text = || {
        let executions = records.get("executions").copied().unwrap_or_default();
        format!(
            "{} are in the database now: {} ({}), each read back and compared, in {}\n\
             their file is kept as {}: do not serve it again\n\
             next: midex serve --http ADDRESS:PORT --store {} --advertise https://HOST:PORT --cluster-token-file FILE \
             --cluster-ca FILE --cluster-cert FILE --cluster-key FILE\n",
            format_number(executions, "execution", "executions"),
            format_number(records.values().sum(), "record", "records"),
            format_bytes(report.bytes),
            format_duration(took_ms),
            shown(&kept),
            quoted(&args.to),
        )
    };
    out.print(json, text).map(|()| EXIT_OK)
}
