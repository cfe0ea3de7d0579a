//! The stores of midex keep the contract of every store.

use std::{path::Path, sync::Arc};

use midex_engine::store::{
    MemoryStore, Options, RedbStore, Store,
    contract::{check_reopening, suite},
};

use super::listing::narrow;

fn open(directory: &Path, snapshot_every: u32) -> Arc<dyn Store> {
    let options = Options { snapshot_every, ..Options::default() };
    Arc::new(RedbStore::open(directory, options).unwrap())
}

mod memory {
    use super::*;
    suite!(async |_| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
}

mod disk {
    use super::*;
    suite!(async |directory| open(directory, Options::default().snapshot_every));
}

/// A store that writes few snapshots.
mod sparse_disk {
    use super::*;
    suite!(async |directory| open(directory, 16));
}

/// A store that looks at few rows for one page, so that most pages are short, and the index is soon too long.
mod narrow_disk {
    use super::*;
    suite!(async |directory| Arc::new(narrow(directory, 3)) as Arc<dyn Store>);
}

#[test]
fn a_store_on_disk_outlives_its_process() {
    for snapshot_every in [1, 16, Options::default().snapshot_every] {
        check_reopening(async |directory| open(directory, snapshot_every));
    }
}
