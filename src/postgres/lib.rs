#![doc = include_str!("README.md")]

mod connection;
mod error;
mod keeper;
mod lease;
mod password;
mod query;
mod schema;
mod shard;
mod status;
mod store;
mod value;
mod writer;

pub use self::{
    lease::LeaseOptions,
    shard::Shard,
    store::{PostgresOptions, PostgresStore},
    writer::{MigrationReport, migrate_store},
};
