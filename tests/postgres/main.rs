//! The store in a database: the contract of every store, and what several servers on one database may do. `tests/postgres/run`
//! starts a PostgreSQL for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod fences;
mod place;
mod processes;
mod servers;

use std::{path::Path, sync::Arc};

use midex_engine::store::{Store, contract};

use self::place::Place;

/// A store whose tables belong to this directory alone.
async fn open_store(directory: &Path) -> Arc<dyn Store> {
    Arc::new(Place::of_directory(directory).open().await)
}

mod keeps_the_contract {
    midex_engine::store::contract::suite!(super::open_store);
}

#[test]
fn a_store_that_is_opened_again_gives_the_same_answers() {
    contract::check_reopening(open_store);
}
