//! A disk whose syncs fail and which forgets the pages then: they stay in memory, clean, and a later sync does not
//! write them. Then the power is cut.

use std::{
    collections::BTreeSet,
    fs, io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use midex_domain::limits;
use midex_engine::store::{FileHook, FileOperation, Options, RedbStore, Store};

use super::script::Script;
use midex_test::long::{self, Dice};

/// What a disk writes at once.
const SECTOR: usize = 512;

/// One file: what reading shows, and what the disk has. A page that is not dirty is clean, whether it ever reached the
/// disk or was forgotten.
#[derive(Default)]
struct Image {
    memory: Vec<u8>,
    disk: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl Image {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let start = usize::try_from(offset).unwrap();
        let end = start + data.len();
        self.memory.resize(self.memory.len().max(end), 0);
        self.memory[start..end].copy_from_slice(data);
        self.dirty.extend(start / SECTOR..end.div_ceil(SECTOR));
    }

    fn resize(&mut self, bytes: usize) {
        self.memory.resize(bytes, 0);
        self.dirty.retain(|page| page * SECTOR < bytes);
    }

    /// Of the dirty pages those that `reaches` picks reach the disk; all are clean then.
    fn flush(&mut self, mut reaches: impl FnMut() -> bool) {
        if reaches() {
            self.disk.resize(self.memory.len(), 0);
        }
        for page in std::mem::take(&mut self.dirty) {
            let end = self.memory.len().min((page + 1) * SECTOR);
            if reaches() {
                self.disk.resize(self.disk.len().max(end), 0);
                self.disk[page * SECTOR..end].copy_from_slice(&self.memory[page * SECTOR..end]);
            }
        }
    }
}

/// The files of a store and their names, as the disk has them.
struct Disk {
    current: Image,
    /// One that is written to take the place of `current`.
    new: Option<Image>,
    /// The one before, while the name of `current` may not be durable.
    before: Option<Image>,
    redo: Redo,
    dice: Dice,
    /// Out of how many syncs one fails; none while it is 0.
    fails_one_in: u64,
    failed: u64,
    /// Operations until the power is cut.
    left: u64,
    /// What a power cut left.
    survivor: Option<Survivor>,
}

/// The data file and the redo log that a power cut left.
struct Survivor {
    data: Vec<u8>,
    redo: Option<Vec<u8>>,
}

/// What the name of the redo log stands for: as the disk has it, and as it was changed since the directory was synced.
#[derive(Default)]
struct Redo {
    durable: Option<Image>,
    later: Vec<Option<Image>>,
}

impl Redo {
    fn image(&mut self) -> &mut Image {
        let image = self.later.last_mut().unwrap_or(&mut self.durable);
        image.as_mut().unwrap()
    }

    fn sync_name(&mut self) {
        if let Some(last) = self.later.pop() {
            self.durable = last;
        }
        self.later.clear();
    }

    /// Any of the names may have reached the disk, but none before the one that is durable.
    fn cut(&mut self, dice: &mut Dice) -> Option<Vec<u8>> {
        let mut names = std::mem::take(&mut self.later);
        names.insert(0, self.durable.take());
        let name = usize::try_from(dice.roll(names.len() as u64)).unwrap();
        let mut image = names.swap_remove(name)?;
        image.flush(|| dice.roll(2) == 0);
        Some(image.disk)
    }
}

impl Disk {
    fn act(&mut self, operation: FileOperation<'_>) -> io::Result<()> {
        if self.survivor.is_some() {
            return Err(io::ErrorKind::Other.into());
        }
        self.left -= 1;
        if self.left == 0 {
            self.cut();
            return Err(io::ErrorKind::Other.into());
        }
        let written = self.new.as_mut().unwrap_or(&mut self.current);
        match operation {
            FileOperation::Create => self.new = Some(Image::default()),
            FileOperation::Write { offset, data } => written.write(offset, data),
            FileOperation::Resize(bytes) => written.resize(usize::try_from(bytes).unwrap()),
            FileOperation::Sync if fails(&mut self.dice, self.fails_one_in) => {
                self.failed += 1;
                written.flush(|| self.dice.roll(2) == 0);
                return Err(io::ErrorKind::Other.into());
            }
            FileOperation::Sync => written.flush(|| true),
            FileOperation::Rename => {
                let new = self.new.take().unwrap();
                self.before = Some(std::mem::replace(&mut self.current, new));
            }
            FileOperation::SyncDirectory if fails(&mut self.dice, self.fails_one_in) => {
                self.failed += 1;
                return Err(io::ErrorKind::Other.into());
            }
            FileOperation::SyncDirectory => {
                self.before = None;
                self.redo.sync_name();
            }
            FileOperation::CreateLog => self.redo.later.push(Some(Image::default())),
            FileOperation::WriteLog { offset, data } => self.redo.image().write(offset, data),
            FileOperation::SyncLog if fails(&mut self.dice, self.fails_one_in) => {
                self.failed += 1;
                self.redo.image().flush(|| self.dice.roll(2) == 0);
                return Err(io::ErrorKind::Other.into());
            }
            FileOperation::SyncLog => self.redo.image().flush(|| true),
            FileOperation::RemoveLog => self.redo.later.push(None),
            FileOperation::Read | FileOperation::Reserve(_) => {}
        }
        Ok(())
    }

    /// Some of what is dirty reaches the disk in the last moment, and one of the two names.
    fn cut(&mut self) {
        let old = self.before.take().filter(|_| self.dice.roll(2) == 0);
        let mut left = old.unwrap_or_else(|| std::mem::take(&mut self.current));
        left.flush(|| self.dice.roll(2) == 0);
        self.survivor = Some(Survivor { data: left.disk, redo: self.redo.cut(&mut self.dice) });
    }
}

fn fails(dice: &mut Dice, one_in: u64) -> bool {
    one_in > 0 && dice.roll(one_in) == 0
}

#[derive(Clone)]
struct Forgetful(Arc<Mutex<Disk>>);

impl Forgetful {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk {
            current: Image::default(),
            new: None,
            before: None,
            redo: Redo::default(),
            dice: Dice(seed),
            fails_one_in: 0,
            failed: 0,
            left: u64::MAX,
            survivor: None,
        })))
    }

    fn options(&self, seed: u64) -> Options {
        let disk = self.clone();
        Options {
            snapshot_every: if self.disk().dice.roll(2) == 0 { 1 } else { 16 },
            // None, one that is full now and then, and one that never is.
            redo_bytes: [0, 64 << 10, limits::REDO_BYTES_MAX][usize::try_from(seed % 3).unwrap()],
            redo_after: seed % 2 * 7,
            // Now and then it is put into the data file at every pause of the writer.
            redo_idle: if seed % 4 == 3 { Duration::ZERO } else { limits::REDO_IDLE },
            hook: Some(FileHook::new(move |operation| disk.disk().act(operation))),
            ..Options::default()
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }

    fn is_cut(&self) -> bool {
        self.disk().survivor.is_some()
    }
}

/// The execution as the store has it; of the transition that was refused nothing is known but what it says.
/// Not while the power is cut.
async fn learn(tale: &mut Script, store: &RedbStore, disk: &Forgetful) {
    while !disk.is_cut() {
        if let Ok(stored) = store.load(&tale.id).await
            && let Ok(history) = store.load_history(&tale.id).await
        {
            become_as_stored(tale, stored, history);
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Everything that was acknowledged is there, and at most the one transition that was refused.
fn become_as_stored(
    tale: &mut Script,
    stored: Option<midex_engine::store::LoadedExecution>,
    history: Vec<midex_domain::Row>,
) {
    let known = tale.rows.len();
    assert!(history.len() == known || history.len() == known + 1);
    assert_eq!(history[..known], tale.rows, "acknowledged rows are lost");
    tale.adopt_stored(history, stored);
}

/// Works until the power is cut; how many syncs failed.
async fn round(seed: u64) -> u64 {
    let disk = Forgetful::new(seed);
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), disk.options(seed)).unwrap();
    let mut tales: Vec<_> = (0..4).map(|at| Script::new(&format!("tale {at}"), 400)).collect();
    let mut dice = Dice(seed ^ 0x5eed);
    {
        let mut disk = disk.disk();
        disk.fails_one_in = 4 + dice.roll(12);
        disk.left = 100 + dice.roll(600);
    }
    while !disk.is_cut() {
        let tale = &mut tales[usize::try_from(dice.roll(4)).unwrap()];
        let text = "x".repeat(usize::try_from(dice.roll(9_000)).unwrap());
        if tale.commit_output(&store, &text).await.is_err() {
            learn(tale, &store, &disk).await;
        }
    }
    drop(store);
    let survivor = disk.disk().survivor.take().unwrap();
    is_sound(&survivor, &mut tales).await;
    disk.disk().failed
}

/// What the power cut left is whole, has all that was acknowledged, and goes on.
async fn is_sound(survivor: &Survivor, tales: &mut [Script]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.redb");
    fs::write(&path, &survivor.data).unwrap();
    if let Some(redo) = &survivor.redo {
        fs::write(directory.path().join("executions.redo"), redo).unwrap();
    }
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    for tale in tales {
        let stored = store.load(&tale.id).await.unwrap();
        let history = store.load_history(&tale.id).await.unwrap();
        become_as_stored(tale, stored, history);
        tale.commit_step(&store).await.unwrap();
        tale.check_store(&store).await;
    }
    store.close().await.unwrap();
    let mut database = redb::Database::open(&path).unwrap();
    assert!(database.check_integrity().unwrap());
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_on_a_disk_that_forgets() {
    let (seed, rounds) = (long::seed(1), long::rounds(21, 2_000));
    let mut failed = 0;
    let at_once = long::rounds(10, 100);
    for from in (0..rounds).step_by(usize::try_from(at_once).unwrap()) {
        // Side by side: a store that has just failed takes its time before it tries again.
        let round = |at| tokio::spawn(round(seed.wrapping_mul(1000).wrapping_add(at)));
        let running: Vec<_> = (from..rounds.min(from + at_once)).map(round).collect();
        for round in running {
            failed += round.await.unwrap();
        }
    }
    assert!(failed > rounds, "{failed} syncs failed in {rounds} rounds");
}
