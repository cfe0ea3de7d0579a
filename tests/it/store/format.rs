//! The bytes on the disk. A change here is a change of the format: after the first release it needs a new table
//! version, and a way to read the old one; before it the new bytes are copied from what the failed test prints.

use std::path::Path;

use midex::store::{Options, RedbStore, Store};
use redb::{Database, Key, ReadableDatabase, TableDefinition};

use super::tale::{Tale, refusal};

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from_digit(digit.into(), 16).unwrap())
        .collect()
}

fn stored<K: Key + 'static>(path: &Path, table: &str, key: K::SelfType<'_>) -> String {
    let database = Database::open(path).unwrap();
    let transaction = database.begin_read().unwrap();
    let table = TableDefinition::<K, &[u8]>::new(table);
    let table = transaction.open_table(table).unwrap();
    hex(table.get(key).unwrap().unwrap().value())
}

#[tokio::test]
async fn the_bytes_of_a_record_do_not_change() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let mut tale = Tale::new("one", 2);
    tale.steps(&store, 2).await;
    store.note(refusal(3, Some(&tale.id)));
    store.close().await.unwrap();
    let path = directory.path().join("executions.redb");
    let meta = |key: &str| stored::<&str>(&path, "meta.v1", key);
    assert_eq!(meta("released_format"), hex(b"midex-1"));
    assert_eq!(
        super::index::index(directory.path()),
        ["one".to_owned()].into()
    );
    let records = [
        stored::<&str>(&path, "executions.v1", "one"),
        stored::<u64>(&path, "journal.v1", 2),
        stored::<u64>(&path, "refusals.v1", 3),
    ];
    // A snapshot, a journal row and a refusal. `cargo insta accept`, or the lines marked `+`, make it the present format.
    insta::assert_snapshot!(records.join("\n"), @r"
    0102000000000000000200000000000000036f6e650474616c65ddc90ade507854328620c1e1976a51589ce941365c94c4b00b0f9310b20832ac00000780e69ad6a1828ed88a8ba0cb7615d41dfe8fe50d16cfa221cc0a5ddb82bdd40102d0afabfef962a0bfabfef96200000101020273300201010001d0afabfef962010001a0bfabfef962020001814dd7b9784d57c15b9c2972e9b4fd6cd0afabfef9625b186d2a8da3b9cb705fdb8ed977d76592461c5713b81d6a22de4e6eb7796689012a70c38c66df66dda77ac0e3bee08ed75285929899c04c70e706f31d78b7719f000000000000000000000000000273310101010001a0bfabfef9620201000c730b69905c5ef7a4ca5269f7236540a0bfabfef96200000000000000000000000000000000000000000002000000
    010300000000000000036f6e6502a0bfabfef9620101020302733001000106777269746572002a70c38c66df66dda77ac0e3bee08ed75285929899c04c70e706f31d78b7719f1201127b2273756d6d617279223a22646f6e65227d01814dd7b9784d57c15b9c2972e9b4fd6cd0afabfef9625b186d2a8da3b9cb705fdb8ed977d76592461c5713b81d6a22de4e6eb7796689e8070202733101000106777269746572000c730b69905c5ef7a4ca5269f7236540a0bfabfef96200
    010e01036f6e65000d544f4b454e5f4558504952454409726566757365642033
    ");
}
