//! The flags of `midex serve` for several servers on one database, and the commands about it.

#[cfg(not(feature = "postgres"))]
mod absent;
#[cfg(feature = "postgres")]
mod member;
#[cfg(feature = "postgres")]
mod migrate;
pub(super) mod status;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

#[cfg(not(feature = "postgres"))]
pub(super) use self::absent::{migrate_store, publish_files};
#[cfg(feature = "postgres")]
pub(super) use self::migrate::migrate_store;
use super::listener::parse_listen_address;
use midex_domain::limits;
#[cfg(feature = "postgres")]
pub(super) use midex_postgres::publish_files;
use midex_server::config::parse_duration_within;

/// How the server shares its executions with other servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for several servers")]
pub(super) struct ClusterArgs {
    /// Keep executions in this PostgreSQL database, `postgres://USER@HOST/DATABASE`, which several servers share
    #[arg(long, value_name = "URL", requires_all = ["advertise", "cluster_token_file", "http"])]
    store: Option<String>,
    /// Where the other servers reach this one: https://HOST:PORT
    #[arg(long, value_name = "URL", requires = "store")]
    advertise: Option<String>,
    /// Listen here for the other servers [default: the IP address of --advertise, or all interfaces if it has a name]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "store", value_parser = parse_listen_address)]
    cluster_listen: Option<SocketAddr>,
    /// The token that all servers of the cluster share; others must not be able to read the file
    #[arg(long, value_name = "FILE", requires = "store")]
    cluster_token_file: Option<PathBuf>,
    /// How long after the failure of a server the others may take over its executions [default: 10s]
    #[arg(long, value_name = "DURATION", requires = "store", value_parser = parse_lease)]
    cluster_lease: Option<Duration>,
    /// The certificate of the authority that signed the certificates of all servers, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["cluster_cert", "cluster_key"])]
    cluster_ca: Option<PathBuf>,
    /// The certificate of this server, in PEM
    #[arg(long, value_name = "FILE", requires = "cluster_ca")]
    cluster_cert: Option<PathBuf>,
    /// The private key of this server, in PEM
    #[arg(long, value_name = "FILE", requires = "cluster_ca")]
    cluster_key: Option<PathBuf>,
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    let (min, max) = (limits::LEASE_MIN, limits::LEASE_MAX);
    parse_duration_within(text, min..=max, || {
        format!("a lease may last from {min:?} to {}m", max.as_secs() / 60)
    })
}

/// The data directory and the database of a migration.
#[derive(Debug, Args)]
pub(super) struct MigrateStoreArgs {
    /// The data directory with the executions, as redb:DIR
    #[arg(long, value_name = "DIR", value_parser = parse_source)]
    from: PathBuf,
    /// The database, `postgres://USER@HOST/DATABASE`, which has no executions
    #[arg(long, value_name = "URL")]
    to: String,
}

fn parse_source(text: &str) -> Result<PathBuf, &'static str> {
    let directory = text.strip_prefix("redb:").filter(|directory| !directory.is_empty());
    directory.map(PathBuf::from).ok_or("name a data directory in the form redb:DIR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_within_their_limits_are_read() {
        assert_eq!(parse_lease("400ms"), Ok(limits::LEASE_MIN));
        assert_eq!(parse_lease("5m"), Ok(limits::LEASE_MAX));
        for text in ["399ms", "301s", "-1s", "soon"] {
            parse_lease(text).expect_err(text);
        }
        let refused = parse_lease("1ms").expect_err("too short");
        assert_eq!(refused, "a lease may last from 400ms to 5m");
    }

    #[test]
    fn a_data_directory_is_named_with_its_kind() {
        assert_eq!(parse_source("redb:/var/lib/midex"), Ok(PathBuf::from("/var/lib/midex")));
        for text in ["/var/lib/midex", "redb:", "postgres://db/midex"] {
            parse_source(text).expect_err(text);
        }
    }
}
