//! Files that are not what midex wrote: refused by name, and left as they are.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use midex_domain::{
    error::{Code, Error},
    limits,
};
use midex_engine::store::{Options, RedbStore, Store};
use redb::{Database, TableDefinition};

use super::script::{Script, build_refusal};

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta.v1");

/// A directory with a store in it, closed; and the path of its file.
async fn stored(steps: usize) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { snapshot_every: 16, ..Options::default() };
    let store = RedbStore::open(directory.path(), options).unwrap();
    Script::new("one", steps).commit_steps(&store, steps).await;
    store.note_refusal(build_refusal(0, None));
    store.close().await.unwrap();
    let path = directory.path().join("executions.redb");
    (directory, path)
}

/// Opening is refused with `code`, twice; the file is as it was, to the byte and the second.
pub(super) fn refused(path: &Path, code: Code) -> Error {
    let directory = path.parent().unwrap();
    let before = (fs::read(path).unwrap(), fs::metadata(path).unwrap().modified().unwrap());
    let error = RedbStore::open(directory, Options::default()).unwrap_err();
    assert_eq!(error.code(), code, "{error:?}");
    assert_eq!(error.context("path").unwrap().as_str(), path.to_str());
    let again = RedbStore::open(directory, Options::default()).unwrap_err();
    assert_eq!(again.code(), code, "{again:?}");
    let after = (fs::read(path).unwrap(), fs::metadata(path).unwrap().modified().unwrap());
    assert!(before == after, "the file was changed");
    let mut beside: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|beside| beside != path && !beside.ends_with("executions.lock"))
        .collect();
    if code == Code::StoreCorrupt {
        let copy = beside.pop().unwrap();
        assert!(fs::read(&copy).unwrap() == before.0, "the copy differs");
        assert_eq!(error.context("copy").unwrap().as_str(), copy.to_str());
    }
    assert!(beside.is_empty(), "{beside:?}");
    error
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    for keep in [1, 8, 100, 4096, 5000] {
        let (_directory, path) = stored(30).await;
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(keep).unwrap();
        refused(&path, Code::StoreCorrupt);
    }
    let (_directory, path) = stored(30).await;
    let bytes = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes - 4096).unwrap();
    refused(&path, Code::StoreCorrupt);
}

#[tokio::test]
async fn an_empty_file_is_refused() {
    let (_directory, path) = stored(3).await;
    fs::write(&path, "").unwrap();
    refused(&path, Code::StoreCorrupt);
}

#[tokio::test]
async fn what_is_not_a_database_is_refused() {
    for text in ["x", "# notes\n", &"SQLite format 3\0".repeat(9000)] {
        let (_directory, path) = stored(3).await;
        fs::write(&path, text).unwrap();
        refused(&path, Code::StoreCorrupt);
    }
}

#[tokio::test]
async fn a_zeroed_page_is_refused_wherever_it_matters() {
    let (_directory, path) = stored(30).await;
    let whole = fs::read(&path).unwrap();
    let mut refusals = 0;
    for page in 0..whole.len() / 4096 {
        let at = page * 4096;
        if whole[at..at + 4096].iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut damaged = whole.clone();
        damaged[at..at + 4096].fill(0);
        refusals += u32::from(survives(&damaged).await.is_err());
    }
    assert!(refusals >= 3, "{refusals}");
}

#[tokio::test]
async fn a_flipped_byte_is_refused_or_harms_nothing() {
    let (_directory, path) = stored(30).await;
    let whole = fs::read(&path).unwrap();
    let mut refusals = 0;
    let used = (0..whole.len()).filter(|at| whole[*at] != 0);
    for at in used.step_by(331) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        refusals += u32::from(survives(&damaged).await.is_err());
    }
    assert!(refusals >= 10, "{refusals}");
}

/// A damaged file is refused, and left alone; or it holds everything that was stored.
async fn survives(bytes: &[u8]) -> Result<(), Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.redb");
    fs::write(&path, bytes).unwrap();
    let store = match RedbStore::open(directory.path(), Options::default()) {
        Ok(store) => store,
        Err(error) => {
            assert!(matches!(error.code(), Code::StoreCorrupt | Code::StoreTooNew), "{error:?}");
            assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
            return Err(error);
        }
    };
    let history = store.load_history(&super::script::execution_id("one")).await.unwrap();
    assert_eq!(history.len(), 30);
    let loaded = store.load(&super::script::execution_id("one")).await.unwrap().unwrap();
    assert_eq!(loaded.execution.revision(), 30);
    Ok(())
}

pub(super) fn edit(path: &Path, edit: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    edit(&transaction);
    transaction.commit().unwrap();
}

#[tokio::test]
async fn a_later_format_is_refused() {
    for table in ["executions.v2", "journal.v10", "meta.v2", "open.v2"] {
        let (_directory, path) = stored(5).await;
        edit(&path, |transaction| {
            let later = TableDefinition::<u64, u64>::new(table);
            transaction.open_table(later).unwrap();
        });
        let error = refused(&path, Code::StoreTooNew);
        assert!(error.message().contains(table), "{error:?}");
    }
    let (_directory, path) = stored(5).await;
    edit(&path, |transaction| {
        let mut meta = transaction.open_table(META).unwrap();
        let later = b"midex-2".as_slice();
        meta.insert("file_format", later).unwrap();
    });
    let error = refused(&path, Code::StoreTooNew);
    assert!(error.message().contains("`midex-2`"), "{error:?}");
}

#[tokio::test]
async fn a_file_of_a_build_before_the_first_release_is_refused() {
    for (key, format, has_index) in [
        ("format", b"\x01".as_slice(), false),
        ("format", b"\x03", true),
        ("release_format", b"midex-1", true),
        ("released_format", b"midex-1", true),
        ("store_format", b"midex-1", true),
        ("state_format", b"midex-1", true),
        ("record_format", b"midex-1", true),
        ("journal_format", b"midex-1", true),
    ] {
        let (_directory, path) = stored(5).await;
        edit(&path, |transaction| {
            let mut meta = transaction.open_table(META).unwrap();
            meta.remove("file_format").unwrap();
            meta.insert(key, format).unwrap();
            if !has_index {
                let open = TableDefinition::<&str, Option<i64>>::new("open.v1");
                transaction.delete_table(open).unwrap();
            }
        });
        let error = refused(&path, Code::StoreFormat);
        let named = error.message().contains(path.to_str().unwrap());
        assert!(named && error.message().contains("earlier build"), "{error:?}");
        let action = error.suggested_action();
        assert!(action.contains("another --data-dir"), "{action}");
        assert!(action.contains(path.to_str().unwrap()), "{action}");
    }
    // One that says no format at all is none of midex's.
    let (_directory, path) = stored(5).await;
    edit(&path, |transaction| {
        let mut meta = transaction.open_table(META).unwrap();
        meta.remove("file_format").unwrap();
    });
    refused(&path, Code::StoreCorrupt);
}

/// As a crash leaves it: opening has to repair it before its format can be read.
#[tokio::test]
async fn a_file_of_an_earlier_build_that_crashed_is_left_as_it_is_too() {
    let (directory, path) = stored(5).await;
    let database = Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(META).unwrap();
        meta.remove("file_format").unwrap();
        meta.insert("format", [3].as_slice()).unwrap();
    }
    transaction.commit().unwrap();
    let crashed = super::disk::crash(directory.path());
    drop(database);
    refused(&crashed.path().join("executions.redb"), Code::StoreFormat);
}

#[tokio::test]
async fn a_file_must_have_its_index() {
    let (_directory, path) = stored(5).await;
    edit(&path, |transaction| {
        let open = TableDefinition::<&str, Option<i64>>::new("open.v1");
        transaction.delete_table(open).unwrap();
    });
    let error = refused(&path, Code::StoreCorrupt);
    assert!(error.message().contains("open.v1"), "{error:?}");
}

#[tokio::test]
async fn a_record_of_a_later_version_is_refused() {
    let (_directory, path) = stored(5).await;
    edit(&path, |transaction| {
        let journal = TableDefinition::<u64, &[u8]>::new("journal.v1");
        let mut journal = transaction.open_table(journal).unwrap();
        let last = journal.pop_last().unwrap().unwrap();
        let (key, mut bytes) = (last.0.value(), last.1.value().to_vec());
        drop(last);
        bytes[0] = 2;
        journal.insert(key, bytes.as_slice()).unwrap();
    });
    refused(&path, Code::StoreTooNew);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let (_directory, path) = stored(5).await;
    fs::remove_file(&path).unwrap();
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let theirs = TableDefinition::<u64, u64>::new("theirs");
    transaction.open_table(theirs).unwrap();
    transaction.commit().unwrap();
    drop(database);
    refused(&path, Code::StoreCorrupt);
}

#[tokio::test]
async fn damaged_records_are_seen_when_they_are_read() {
    let (_directory, path) = stored(20).await;
    edit(&path, |transaction| {
        let executions = TableDefinition::<&str, &[u8]>::new("executions.v1");
        let mut executions = transaction.open_table(executions).unwrap();
        let mut bytes = executions.remove("one").unwrap().unwrap().value().to_vec();
        bytes.truncate(40);
        executions.insert("two", bytes.as_slice()).unwrap();
        bytes[0] = 0;
        executions.insert("three", bytes.as_slice()).unwrap();
        executions.insert("four", [].as_slice()).unwrap();
    });
    // The journal of `one` has lost its snapshot: known at once where rows are ahead of it.
    let directory = path.parent().unwrap();
    let opened = RedbStore::open(directory, Options::default());
    match opened {
        Err(error) => assert_eq!(error.code(), Code::StoreCorrupt, "{error:?}"),
        Ok(store) => {
            for id in ["two", "three", "four"] {
                let error = store.load(&super::script::execution_id(id)).await.unwrap_err();
                assert_eq!(error.code(), Code::StoreCorrupt, "{error:?}");
                assert!(error.context("path").is_some());
            }
        }
    }
}

#[tokio::test]
async fn a_leftover_of_a_crashed_creation_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let half = directory.path().join("executions.redb.new-1-0");
    fs::write(&half, "half").unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    Script::new("one", 2).commit_step(&store).await.unwrap();
    assert!(!half.exists(), "it is swept away");
}

#[tokio::test]
async fn a_damaged_header_is_put_back() {
    let (_directory, path) = stored(5).await;
    // The byte that says whether the file was closed: opening has to repair, and fails on the rest.
    write_at(&path, 9, &[0xff]);
    let bytes = fs::metadata(&path).unwrap().len();
    write_at(&path, bytes / 2, &vec![0xaa; usize::try_from(bytes / 2).unwrap()]);
    refused(&path, Code::StoreCorrupt);
}

#[tokio::test]
async fn damaged_content_is_seen_when_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let mut tale = Script::new("one", 2);
    tale.commit_step(&store).await.unwrap();
    let long = "x".repeat(limits::INLINE_BYTES_MAX);
    let digest = tale.build_transition(&long).contents[0].0;
    tale.commit_output(&store, &long).await.unwrap();
    store.close().await.unwrap();
    edit(&directory.path().join("executions.redb"), |transaction| {
        let content = TableDefinition::<&[u8; 32], &[u8]>::new("content.v1");
        let mut content = transaction.open_table(content).unwrap();
        content.insert(digest.as_bytes(), b"other".as_slice()).unwrap();
    });
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let error = store.load_content(digest).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreCorrupt);
}
