#![doc = include_str!("README.md")]

mod connection;
mod error;
mod keeper;
mod lease;
mod password;
mod publication;
mod query;
mod schema;
mod search;
mod shard;
mod status;
mod store;
mod value;
mod writer;

pub use self::{
    lease::LeaseOptions,
    publication::{PublishedFiles, publish_files},
    store::{PostgresOptions, PostgresStore},
    writer::{MigrationReport, migrate_store},
};
