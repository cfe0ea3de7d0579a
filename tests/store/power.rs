//! Power cuts and kills, several in a row. Unsynced writes to the data file and to the log, and unsynced changes of their names,
//! reach the disk in any part, independently of each other. The next process opens the result, and is cut off too.

use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use midex_domain::Row;
use midex_engine::store::{FileHook, FileOperation, Options, RedbStore, Store};

use super::script::Script;
use midex_test::long::{self, Dice};

/// What a disk writes at once.
const SECTOR: usize = 512;

/// The names whose files are kept apart.
const NAMES: [&str; 2] = ["executions.redb", "executions.redo"];
const DATA: usize = 0;
const REDO: usize = 1;

/// A file: its durable bytes, and the changes since the last sync.
#[derive(Clone, Default)]
struct File {
    durable: Vec<u8>,
    later: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Arc<[u8]>),
    Resize(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => {
                bytes.resize(bytes.len().max(offset + data.len()), 0);
                bytes[*offset..offset + data.len()].copy_from_slice(data);
            }
            Self::Resize(length) => bytes.resize(*length, 0),
        }
    }
}

/// What a cut leaves of changes that were not synced.
#[derive(Clone, Copy)]
enum Cut {
    /// All of it: only the process ended.
    Kill,
    /// Each sector with a chance of so many in eight.
    Sectors(u64),
    /// The first so many changes, and the next one up to some byte.
    Tear,
}

impl Cut {
    fn any(dice: &mut Dice) -> Self {
        match dice.roll(4) {
            0 => Self::Tear,
            _ => Self::Sectors(dice.roll(9)),
        }
    }
}

impl File {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.later) {
            change.apply(&mut self.durable);
        }
    }

    fn left(&self, cut: Cut, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let torn = usize::try_from(dice.roll(self.later.len() as u64 + 1)).unwrap();
        for (at, change) in self.later.iter().enumerate() {
            match (cut, change) {
                (Cut::Kill, change) => change.apply(&mut bytes),
                (Cut::Sectors(eighths), Change::Resize(_)) => {
                    if dice.roll(8) < eighths {
                        change.apply(&mut bytes);
                    }
                }
                (Cut::Sectors(eighths), Change::Write(offset, data)) => {
                    let mut from = 0;
                    while from < data.len() {
                        let to = data.len().min(from + SECTOR - (offset + from) % SECTOR);
                        if dice.roll(8) < eighths {
                            Change::Write(offset + from, data[from..to].into()).apply(&mut bytes);
                        }
                        from = to;
                    }
                }
                (Cut::Tear, change) if at < torn => change.apply(&mut bytes),
                (Cut::Tear, Change::Write(offset, data)) if at == torn => {
                    let to = usize::try_from(dice.roll(data.len() as u64 + 1)).unwrap();
                    Change::Write(*offset, data[..to].into()).apply(&mut bytes);
                }
                (Cut::Tear, _) => {}
            }
        }
        bytes
    }
}

/// A directory on a disk.
#[derive(Clone, Default)]
struct Disk {
    files: Vec<File>,
    /// For each name the files that it stood for since the directory was synced, the durable one first.
    names: [Vec<Option<usize>>; 2],
    /// The file that is to take the place of the data file.
    draft: Option<usize>,
    /// As a disk does that lies about syncs.
    ignores_syncs: bool,
}

impl Disk {
    /// What lies in a directory, all of it durable.
    fn of(left: [Option<Vec<u8>>; 2], ignores_syncs: bool) -> Self {
        let mut disk = Self { ignores_syncs, ..Self::default() };
        for (name, bytes) in left.into_iter().enumerate() {
            let file = bytes.map(|durable| disk.add(durable));
            disk.names[name] = vec![file];
        }
        disk
    }

    fn add(&mut self, durable: Vec<u8>) -> usize {
        self.files.push(File { durable, ..File::default() });
        self.files.len() - 1
    }

    fn change(&mut self, name: usize, change: Change) {
        let draft = self.draft.filter(|_| name == DATA);
        let file = draft.or(*self.names[name].last().unwrap()).unwrap();
        self.files[file].later.push(change);
    }

    fn sync(&mut self, name: usize) {
        let draft = self.draft.filter(|_| name == DATA);
        let file = draft.or(*self.names[name].last().unwrap()).unwrap();
        self.files[file].sync();
    }

    fn act(&mut self, operation: &Done) {
        match operation {
            Done::Change(name, change) => self.change(*name, change.clone()),
            Done::Create => self.draft = Some(self.add(Vec::new())),
            Done::CreateLog => {
                let log = self.add(Vec::new());
                self.names[REDO].push(Some(log));
            }
            Done::Rename => {
                let draft = self.draft.take();
                self.names[DATA].push(draft);
            }
            Done::RemoveLog => self.names[REDO].push(None),
            _ if self.ignores_syncs => {}
            Done::Sync(name) => self.sync(*name),
            Done::SyncDirectory => {
                for name in &mut self.names {
                    name.drain(..name.len() - 1);
                }
            }
        }
    }

    /// The files after a power cut or a kill.
    fn left(&self, dice: &mut Dice) -> [Option<Vec<u8>>; 2] {
        let is_kill = dice.roll(3) == 0;
        [DATA, REDO].map(|name| {
            let names = &self.names[name];
            let at = if is_kill {
                names.len() - 1
            } else {
                usize::try_from(dice.roll(names.len() as u64)).unwrap()
            };
            let cut = if is_kill { Cut::Kill } else { Cut::any(dice) };
            names[at].map(|file| self.files[file].left(cut, dice))
        })
    }
}

/// An operation that was begun.
enum Done {
    Change(usize, Change),
    Sync(usize),
    Create,
    Rename,
    SyncDirectory,
    CreateLog,
    RemoveLog,
}

impl Done {
    fn of(operation: FileOperation<'_>) -> Option<Self> {
        let write = |name, offset, data: &[u8]| {
            Self::Change(name, Change::Write(usize::try_from(offset).unwrap(), data.into()))
        };
        Some(match operation {
            FileOperation::Write { offset, data } => write(DATA, offset, data),
            FileOperation::WriteLog { offset, data } => write(REDO, offset, data),
            FileOperation::Resize(bytes) => {
                Self::Change(DATA, Change::Resize(usize::try_from(bytes).unwrap()))
            }
            FileOperation::Sync => Self::Sync(DATA),
            FileOperation::SyncLog => Self::Sync(REDO),
            FileOperation::Create => Self::Create,
            FileOperation::Rename => Self::Rename,
            FileOperation::SyncDirectory => Self::SyncDirectory,
            FileOperation::CreateLog => Self::CreateLog,
            FileOperation::RemoveLog => Self::RemoveLog,
            FileOperation::Read | FileOperation::Reserve(_) => return None,
        })
    }

    /// Whether a cut beside it is worth more than one among many writes.
    fn is_rare(&self) -> bool {
        !matches!(self, Self::Change(..))
    }
}

/// What one process did, each operation with how many transitions were acknowledged before it.
#[derive(Clone, Default)]
struct Recorder {
    done: Arc<Mutex<Vec<(usize, Done)>>>,
    acknowledged: Arc<AtomicUsize>,
}

impl Recorder {
    fn options(&self, dice: &mut Dice) -> Options {
        let this = self.clone();
        let hook = FileHook::new(move |operation| {
            if let Some(done) = Done::of(operation) {
                let acknowledged = this.acknowledged.load(Ordering::SeqCst);
                this.done.lock().unwrap().push((acknowledged, done));
            }
            io::Result::Ok(())
        });
        Options {
            snapshot_every: if dice.roll(2) == 0 { 1 } else { 16 },
            redo_bytes: (4 + dice.roll(6)) * 4096,
            redo_after: dice.roll(3),
            redo_idle: Duration::from_millis(if dice.roll(4) == 0 { 0 } else { 5000 }),
            hook: Some(hook),
            ..Options::default()
        }
    }
}

fn write(left: &[Option<Vec<u8>>; 2], directory: &Path) {
    for (name, bytes) in NAMES.iter().zip(left) {
        if let Some(bytes) = bytes {
            fs::write(directory.join(name), bytes).unwrap();
        }
    }
}

/// Takes the execution from the store. It must have every acknowledged transition, and at most one more.
async fn learn(
    tale: &mut Script,
    store: &RedbStore,
    known: &[Row],
    most: usize,
) -> Result<(), String> {
    let history = store.load_history(&tale.id).await.map_err(|error| format!("{error:?}"))?;
    if history.len() < known.len() || history.len() > most || history[..known.len()] != *known {
        let (stored, acknowledged) = (history.len(), known.len());
        return Err(format!("{stored} transitions are stored, {acknowledged} were acknowledged"));
    }
    let stored = store.load(&tale.id).await.map_err(|error| format!("{error:?}"))?;
    tale.adopt_stored(history, stored);
    Ok(())
}

/// Runs processes one after another, each cut off somewhere. Fails where a store is refused or a transition is lost.
async fn chain(seed: u64, processes: u64, ignores_syncs: bool) -> Result<u64, String> {
    let mut dice = Dice(seed);
    let (mut left, mut images) = ([None, None], 0);
    let (mut known, mut most) = (Vec::new(), 0);
    for process in 0..=processes {
        let directory = tempfile::tempdir().unwrap();
        write(&left, directory.path());
        let recorder = Recorder::default();
        recorder.acknowledged.store(known.len(), Ordering::SeqCst);
        let options = recorder.options(&mut dice);
        let store = RedbStore::open(directory.path(), options)
            .map_err(|error| format!("refused: {error:?}"))?;
        let mut tale = Script::with_seed("one", 130, process + 1);
        learn(&mut tale, &store, &known, most).await?;
        let opened = tale.rows.len();
        // What an opening has shown stays.
        recorder.acknowledged.store(opened, Ordering::SeqCst);
        images += u64::from(process > 0);
        let steps = [24, 6, 0, 9][usize::try_from(process.min(1) * dice.roll(4)).unwrap()];
        for _ in 0..steps {
            let text = "x".repeat(usize::try_from(dice.roll(9_000)).unwrap());
            tale.commit_output(&store, &text).await.map_err(|error| format!("{error:?}"))?;
            recorder.acknowledged.store(tale.rows.len(), Ordering::SeqCst);
        }
        store.close().await.map_err(|error| format!("{error:?}"))?;
        let done = std::mem::take(&mut *recorder.done.lock().unwrap());
        let cut = cut(&done, &mut dice);
        let acknowledged = done.get(cut).map_or(tale.rows.len(), |(acknowledged, _)| *acknowledged);
        most = tale.rows.len().min(acknowledged.max(opened) + 1);
        known = tale.rows[..acknowledged].to_vec();
        let mut disk = Disk::of(left, ignores_syncs);
        for (_, operation) in &done[..cut] {
            disk.act(operation);
        }
        left = disk.left(&mut dice);
    }
    Ok(images)
}

/// Before which operation the process is cut off; half of the time beside one that is no write.
fn cut(done: &[(usize, Done)], dice: &mut Dice) -> usize {
    let mut places: Vec<_> = (0..=done.len()).collect();
    if dice.roll(2) == 0 {
        let is_rare = |at: usize| done.get(at).is_some_and(|(_, done)| done.is_rare());
        places.retain(|at| is_rare(*at) || (*at > 0 && is_rare(at - 1)));
    }
    let at = usize::try_from(dice.roll(places.len().max(1) as u64)).unwrap();
    places.get(at).copied().unwrap_or(done.len())
}

/// What went wrong, each by how often.
async fn explore(chains: u64, ignores_syncs: bool) -> (u64, BTreeMap<String, u64>) {
    let (seed, mut images, mut wrong) = (long::seed(1), 0, BTreeMap::new());
    for from in (0..chains).step_by(8) {
        let seeds = (from..chains.min(from + 8)).map(|at| seed.wrapping_mul(100_000) + at);
        let running: Vec<_> =
            seeds.map(|seed| (seed, tokio::spawn(chain(seed, 4, ignores_syncs)))).collect();
        for (seed, running) in running {
            match running.await.unwrap() {
                Ok(number) => images += number,
                Err(error) => *wrong.entry(format!("{seed}: {error}")).or_default() += 1,
            }
        }
    }
    (images, wrong)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cuts_and_kills_lose_nothing_and_no_store_is_refused() {
    let chains = long::rounds(15, 500);
    let (images, wrong) = explore(chains, false).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(images, chains * 4);
}

/// The control: on a disk that ignores syncs this finds losses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cuts_on_a_disk_that_ignores_syncs_are_found_to_lose() {
    let (_, wrong) = explore(8, true).await;
    assert!(!wrong.is_empty(), "the test finds nothing");
}
