//! The flags of `midex serve` for several servers on one database.

#[cfg(not(feature = "postgres"))]
mod absent;
#[cfg(feature = "postgres")]
mod member;

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::listener::parse_listen_address;

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
    /// Listen here for the other servers [default: the host and port of --advertise]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "store", value_parser = parse_listen_address)]
    cluster_listen: Option<SocketAddr>,
    /// The token that all servers of the cluster share; others must not be able to read the file
    #[arg(long, value_name = "FILE", requires = "store")]
    cluster_token_file: Option<PathBuf>,
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
