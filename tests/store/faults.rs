//! A fault at each operation on the files: no acknowledged transition is lost, and the store recovers by itself.

use std::{
    fs, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use midex_engine::store::{FileHook, FileOperation, Options, RedbStore, Store};

use super::{disk::crash, script::Script};
use midex_test::long;

/// Steps of each of the two processes of the script.
const STEPS: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The process ends before the operation.
    Kill,
    /// The process ends after one half of the bytes was written.
    KilledHalfway,
    /// The operation fails.
    Fails(io::ErrorKind),
    /// The operation fails after one half of the bytes was written.
    FailsHalfway,
}

const FAULTS: [Fault; 5] = [
    Fault::Kill,
    Fault::KilledHalfway,
    Fault::Fails(io::ErrorKind::Other),
    Fault::Fails(io::ErrorKind::StorageFull),
    Fault::FailsHalfway,
];

/// Counts operations, and makes a fault of one.
#[derive(Default)]
struct Saboteur {
    met: AtomicU64,
    acknowledged: AtomicUsize,
    /// What a killed process left, and how many transitions were acknowledged then.
    left: Mutex<Option<(usize, tempfile::TempDir)>>,
}

impl Saboteur {
    fn options(self: &Arc<Self>, directory: &Path, at: u64, fault: Fault) -> Options {
        let (this, directory) = (Arc::clone(self), directory.to_owned());
        let hook = FileHook::new(move |operation| {
            if this.met.fetch_add(1, Ordering::SeqCst) == at {
                return this.strike(&directory, fault, operation);
            }
            Ok(())
        });
        Options { redo_bytes: 6 * 4096, redo_after: 0, hook: Some(hook), ..Options::default() }
    }

    fn strike(&self, here: &Path, fault: Fault, operation: FileOperation<'_>) -> io::Result<()> {
        let is_kill = matches!(fault, Fault::Kill | Fault::KilledHalfway);
        let half = matches!(fault, Fault::KilledHalfway | Fault::FailsHalfway);
        let copy = is_kill.then(|| crash(here));
        if half {
            let directory = copy.as_ref().map_or(here, tempfile::TempDir::path);
            match operation {
                FileOperation::Write { offset, data } => halve(&data_in(directory), offset, data),
                FileOperation::WriteLog { offset, data } => {
                    halve(&directory.join("executions.redo"), offset, data);
                }
                _ => {}
            }
        }
        let Some(copy) = copy else {
            return Err(match fault {
                Fault::Fails(kind) => kind.into(),
                _ => io::ErrorKind::Other.into(),
            });
        };
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        *self.left.lock().unwrap() = Some((acknowledged, copy));
        Ok(())
    }
}

/// The data file, or the draft that is to replace it.
fn data_in(directory: &Path) -> PathBuf {
    let drafts = fs::read_dir(directory).unwrap();
    let mut drafts = drafts.map(|entry| entry.unwrap().path());
    let draft = drafts.find(|path| path.to_str().unwrap().contains(".new-"));
    draft.unwrap_or_else(|| directory.join("executions.redb"))
}

fn halve(path: &Path, offset: u64, data: &[u8]) {
    // A copy has no draft: the file that is written there is none of its files.
    if let Ok(file) = fs::OpenOptions::new().write(true).open(path) {
        file.write_all_at(&data[..data.len() / 2], offset).unwrap();
    }
}

/// Opens the store, again where that failed once.
fn open(directory: &Path, options: &Options) -> RedbStore {
    let opened = RedbStore::open(directory, options.clone());
    opened.unwrap_or_else(|_| RedbStore::open(directory, options.clone()).unwrap())
}

/// The execution as the store has it, as soon as it answers.
async fn learn(tale: &mut Script, store: &RedbStore, acknowledged: usize) {
    let asked = async {
        loop {
            let stored = store.load(&tale.id).await;
            if let (Ok(stored), Ok(history)) = (stored, store.load_history(&tale.id).await) {
                return (stored, history);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(20), asked);
    let (stored, history) = asked.await.expect("the store recovers by itself");
    let possible = acknowledged..=acknowledged + 1;
    assert!(
        possible.contains(&history.len()),
        "{acknowledged} acknowledged, {} stored",
        history.len()
    );
    assert_eq!(history[..acknowledged], tale.rows[..acknowledged]);
    tale.adopt_stored(history, stored);
}

/// Plays the script with one fault; how many operations it has.
async fn play(at: u64, fault: Fault) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let saboteur = Arc::new(Saboteur::default());
    let options = saboteur.options(directory.path(), at, fault);
    let mut tale = Script::new("one", 90);
    for _ in 0..2 {
        let store = open(directory.path(), &options);
        let acknowledged = tale.rows.len();
        learn(&mut tale, &store, acknowledged).await;
        for step in 0..STEPS {
            if tale.commit_output(&store, &"x".repeat(step * 700)).await.is_err() {
                let acknowledged = tale.rows.len();
                learn(&mut tale, &store, acknowledged).await;
            }
            saboteur.acknowledged.store(tale.rows.len(), Ordering::SeqCst);
        }
        // Where the fault is met at the end, the next opening finds everything.
        let _ = store.close().await;
    }
    let met = saboteur.met.load(Ordering::SeqCst);
    is_whole(directory.path(), &mut tale.duplicate(), tale.rows.len()).await;
    let left = saboteur.left.lock().unwrap().take();
    if let Some((acknowledged, left)) = left {
        is_whole(left.path(), &mut tale, acknowledged).await;
    }
    met
}

/// The store opens, has every acknowledged transition, and takes another one.
async fn is_whole(directory: &Path, tale: &mut Script, acknowledged: usize) {
    let store = RedbStore::open(directory, Options::default()).unwrap();
    learn(tale, &store, acknowledged).await;
    tale.commit_step(&store).await.unwrap();
    tale.check_store(&store).await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_may_meet_any_fault() {
    let operations = play(u64::MAX, Fault::Kill).await;
    assert!(operations > 150, "{operations}");
    let all = (0..operations).flat_map(|at| FAULTS.map(|fault| (at, fault)));
    let faults = long::share(all.collect(), 53);
    for faults in faults.chunks(4) {
        // Side by side: a store that has just failed takes its time before it tries again.
        let playing: Vec<_> =
            faults.iter().map(|(at, fault)| (at, fault, tokio::spawn(play(*at, *fault)))).collect();
        for (at, fault, playing) in playing {
            let played = playing.await;
            assert!(played.is_ok(), "{fault:?} at operation {at}: {played:?}");
        }
    }
}
