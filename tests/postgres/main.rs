//! The store in a database: the contract of every store, and what several servers on one database may do. `tests/postgres/run`
//! starts a PostgreSQL for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod fences;
mod handover;
mod home;
mod links;
mod migration;
mod network;
mod partitions;
mod place;
mod processes;
mod proxy;
mod publishing;
mod servers;

use std::{mem, path::Path, sync::Arc, time::Duration};

use midex_engine::store::{Store, contract};

use self::{
    place::Place,
    proxy::{Proxy, Slowness},
};

/// A store whose tables belong to this directory alone.
async fn open_store(directory: &Path) -> Arc<dyn Store> {
    Arc::new(Place::of_directory(directory).open().await)
}

mod keeps_the_contract {
    midex_engine::store::contract::suite!(super::open_store);
}

/// A store over slow connections that deliver small pieces.
async fn open_slow_store(directory: &Path) -> Arc<dyn Store> {
    let slowness = Slowness { delay_max: Duration::from_millis(2), piece_max: 700 };
    let proxy = Proxy::start(Place::database(), slowness, 1).await;
    let store = Place::of_directory(directory).behind(&proxy).open().await;
    // It goes with the runtime of its test.
    mem::forget(proxy);
    Arc::new(store)
}

mod keeps_the_contract_over_slow_connections {
    midex_engine::store::contract::suite!(super::open_slow_store);
}

#[test]
fn a_store_that_is_opened_again_gives_the_same_answers() {
    contract::check_reopening(open_store);
}
