//! Prunes and imports under kills: each execution is whole or gone afterwards, each content that a row names is there and no
//! other one, and the same command does the rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, SystemTime},
};

use midex_domain::{Digest, Event, Execution, ExecutionId, Row};
use midex_engine::store::{
    ExaminationProgress, Options, RedbStore, Store,
    contract::{deletion::sweep_store, pages},
    find_row_contents,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::copies::midex;
use midex_test::{
    Client, Server,
    long::{self, Dice},
    project::{each, eventually, list, text},
    serve_alone,
};

/// How many executions there are of each workflow: a few, or in the long run many. Those that wait never end.
const WORKFLOWS: [(&str, u64, u64); 3] = [("job", 9, 24), ("family", 5, 12), ("waiting", 2, 4)];
/// How many of each workflow the prune keeps.
const KEPT: u64 = 3;
const PRUNE: [&str; 5] = ["prune", "--all-projects", "--keep-last", "3", "--yes"];

/// The text that it is given is named by its inputs, its memory and its final output.
const JOB: &str = "\
workflow: job
description: d
inputs: { text: { type: string } }
memory: { kept: '' }
steps: [{ id: keep, set: { kept: '${{ inputs.text }}' } }]
final_output: ${{ memory.kept }}
";
const FAMILY: &str = "\
workflow: family
description: d
inputs: { text: { type: string } }
steps:
  - { id: first, workflow: job, with: { text: '${{ inputs.text }}' } }
  - { id: second, workflow: job, with: { text: 'another ${{ inputs.text }}' } }
";
const WAIT: &str = "\
workflow: waiting
description: d
inputs: { text: { type: string } }
steps: [{ id: wait, guidance: 'Read ${{ inputs.text }}' }]
";

/// The executions of a store, with the contents that their rows name.
#[derive(Default)]
pub(super) struct Records {
    rows: BTreeMap<ExecutionId, Vec<Row>>,
    contents: BTreeMap<ExecutionId, BTreeSet<Digest>>,
}

impl Records {
    pub(super) async fn read(store: &dyn Store) -> Self {
        let mut records = Self::default();
        for execution in pages::read_all(store, pages::query_all(200)).await {
            let id = execution.id().clone();
            let rows = store.load_history(&id).await.unwrap();
            assert_eq!(Execution::replay(&rows), Some(execution));
            let mut contents = BTreeSet::new();
            for digest in find_row_contents(&rows).unwrap() {
                if store.load_content(digest).await.unwrap().is_some() {
                    contents.insert(digest);
                }
            }
            records.contents.insert(id.clone(), contents);
            records.rows.insert(id, rows);
        }
        records
    }

    pub(super) fn ids(&self) -> BTreeSet<ExecutionId> {
        self.rows.keys().cloned().collect()
    }

    /// The root of an execution.
    fn root(&self, id: &ExecutionId) -> ExecutionId {
        let execution = Execution::replay(&self.rows[id]).unwrap();
        execution.parent().map_or(id, |parent| &parent.root).clone()
    }
}

/// The contents that the rows of these executions name.
fn find_needed<'a>(
    ids: impl Iterator<Item = &'a ExecutionId>,
    whole: &Records,
) -> BTreeSet<Digest> {
    ids.flat_map(|id| &whole.contents[id]).copied().collect()
}

/// Scans the store: it is sound, and once a sweep is over it has exactly the contents that these executions need.
pub(super) async fn scan(
    store: &dyn Store,
    ids: impl Iterator<Item = &ExecutionId>,
    whole: &Records,
) {
    let needed = find_needed(ids, whole);
    for is_swept in [false, true] {
        if is_swept {
            sweep_store(store, 0).await;
        }
        for digest in &needed {
            let content = store.load_content(*digest).await.unwrap();
            assert!(content.is_some(), "{digest} is lost, swept: {is_swept}");
        }
    }
    let sizes = store.sizes().await.unwrap();
    // A table is there from its first entry on.
    let find = |name| sizes.tables.iter().find(|table| table.name == name);
    let count = |name| find(name).map_or(0, |table| table.entries);
    assert_eq!(count("content"), needed.len() as u64, "contents that nothing names");
    assert_eq!(count("candidates"), 0);
    let mut progress = Some(ExaminationProgress::default());
    while let Some(from) = progress {
        progress = store.examine(from).await.unwrap().next_progress;
    }
}

fn open(home: &Path) -> RedbStore {
    RedbStore::open(&home.join("data"), Options::default()).unwrap()
}

/// A store with executions that share contents, and the answers of a server about them.
pub(super) struct Template {
    pub(super) home: TempDir,
    pub(super) whole: Records,
    /// The state and the history of each.
    told: BTreeMap<ExecutionId, (Value, Vec<Value>)>,
}

fn tell(server: &mut Server, id: &ExecutionId) -> (Value, Vec<Value>) {
    let (id, state) = (id.as_str(), server.status(id.as_str())["state"].take());
    (state, server.history(id))
}

impl Template {
    pub(super) async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("workflows")).unwrap();
        for (name, workflow) in [("job", JOB), ("family", FAMILY), ("waiting", WAIT)] {
            fs::write(home.path().join(format!("workflows/{name}.yaml")), workflow).unwrap();
        }
        let mut server = Server::greeted(serve_alone(home.path(), &[]));
        for (workflow, few, many) in WORKFLOWS {
            for at in 0..long::rounds(few, many) {
                // A small value, one that is too large for a row, or a large one. The executions of all workflows with this
                // number share it.
                let repeats = [3, 800, 4000][usize::try_from(at % 3).unwrap()];
                let text = format!("text {at} ").repeat(repeats);
                let inputs = json!({ "text": text });
                let id = format!("{workflow}-{at}");
                server.begin_with(
                    json!({ "workflow_name": workflow, "execution_id": id, "inputs": inputs }),
                );
                // The prune keeps those that end last, so each ends before the next one starts.
                if workflow != "waiting" {
                    eventually("it has ended", || {
                        (server.status(&id)["state"] == "completed").then_some(())
                    });
                }
            }
        }
        // No execution moves any more, so later answers must be the same.
        let (mut told, mut cursor) = (BTreeMap::new(), Value::Null);
        loop {
            let mut query = json!({ "children": true, "limit": 100 });
            if !cursor.is_null() {
                query["cursor"] = cursor;
            }
            let mut page = server.done("execution.list", query);
            for id in each(&list(&page["executions"]), "execution_id") {
                let id = ExecutionId::parse(&id).unwrap();
                told.insert(id.clone(), tell(&mut server, &id));
            }
            cursor = page["next_cursor"].take();
            if cursor.is_null() {
                break;
            }
        }
        server.terminate();
        server.wait();
        let store = open(home.path());
        let whole = Records::read(&store).await;
        scan(&store, whole.rows.keys(), &whole).await;
        store.close().await.unwrap();
        Self { home, whole, told }
    }

    /// Copies the store into a new home directory.
    pub(super) fn copy(&self) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("data")).unwrap();
        let file = "data/executions.redb";
        fs::copy(self.home.path().join(file), home.path().join(file)).unwrap();
        home
    }

    /// The executions that the prune keeps: the last ones of each workflow, and the open ones.
    pub(super) fn kept(&self) -> BTreeSet<ExecutionId> {
        let is_kept = |id: &&ExecutionId| {
            let root = self.whole.root(id);
            let (workflow, at) = root.as_str().split_once('-').unwrap();
            let of_workflow = WORKFLOWS.iter().find(|(name, ..)| *name == workflow);
            let (_, few, many) = *of_workflow.unwrap();
            workflow == "waiting" || at.parse::<u64>().unwrap() >= long::rounds(few, many) - KEPT
        };
        self.whole.rows.keys().filter(is_kept).cloned().collect()
    }
}

/// How the files of a directory look from outside.
fn look(directory: &Path) -> Vec<(std::ffi::OsString, u64, Option<SystemTime>)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let file = entry.metadata().ok()?;
            Some((entry.file_name(), file.len(), file.modified().ok()))
        })
        .collect();
    files.sort();
    files
}

/// Waits until the data directory has changed so often, or the command has ended. Changes tell how far a command is, on a
/// machine of any speed.
#[expect(clippy::disallowed_methods, reason = "watches a real process")]
fn wait_for_changes(command: &mut Child, home: &Path, changes: u64) -> u64 {
    let (mut last, mut seen) = (look(&home.join("data")), 0);
    while seen < changes && command.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(100));
        let next = look(&home.join("data"));
        if next != last {
            (last, seen) = (next, seen + 1);
        }
    }
    seen
}

/// Kills a command, or the server that does its work, after a random number of changes. The first command is not killed.
struct Killer {
    dice: Dice,
    /// How often the first command changed the directory.
    changes: Option<u64>,
}

impl Killer {
    fn new(seed: u64) -> Self {
        Self { dice: Dice(seed), changes: None }
    }

    /// Runs a command, also through a server. Returns whether anything was killed, and whether the command was done.
    #[expect(clippy::disallowed_methods, reason = "it kills at random")]
    fn run(&mut self, home: &Path, command: &[&str], has_server: bool) -> (bool, bool) {
        let mut server = has_server.then(|| Server::greeted(serve_alone(home, &[])));
        let mut command = midex(home, command).spawn().unwrap();
        if let Some(changes) = self.changes {
            wait_for_changes(&mut command, home, self.dice.roll(changes + 1));
            std::thread::sleep(Duration::from_micros(self.dice.roll(2000)));
            match &mut server {
                // The command then does the rest itself, or says that it could not.
                Some(server) => server.kill(),
                None => command.kill().unwrap(),
            }
        }
        let is_killed = self.changes.is_some();
        let changes = wait_for_changes(&mut command, home, u64::MAX);
        self.changes.get_or_insert(changes);
        (is_killed, command.wait().unwrap().success())
    }
}

/// Runs a command of midex to its end, which must be a good one.
#[track_caller]
pub(super) fn done(home: &Path, command: &[&str]) -> Vec<u8> {
    let ran = midex(home, command).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert!(ran.status.success(), "midex {command:?}: {ran:?}");
    ran.stdout
}

/// Every execution of the template is whole, or gone with a tombstone. Returns those that are there.
pub(super) async fn check_pruned(home: &Path, template: &Template) -> BTreeSet<ExecutionId> {
    let (store, whole, kept) = (open(home), &template.whole, template.kept());
    let found = Records::read(&store).await.rows;
    for (id, rows) in &whole.rows {
        if let Some(left) = found.get(id) {
            assert_eq!(left, rows);
            // Children go first, so that the same prune finds the rest.
            assert!(found.contains_key(&whole.root(id)), "{id} is left without its root");
        } else {
            assert!(!kept.contains(id), "{id}");
            assert!(store.load(id).await.unwrap().is_none());
            assert_eq!(store.load_history(id).await.unwrap(), []);
            assert!(store.load_tombstone(id).await.unwrap().is_some(), "{id}");
        }
    }
    assert!(found.keys().all(|id| whole.rows.contains_key(id)));
    scan(&store, found.keys(), whole).await;
    store.close().await.unwrap();
    found.into_keys().collect()
}

/// Checks that the answers about these executions are the same as before.
fn check_told(home: &Path, ids: &BTreeSet<ExecutionId>, template: &Template) {
    let mut server = Server::greeted(serve_alone(home, &[]));
    for id in ids {
        assert_eq!(tell(&mut server, id), template.told[id], "{id}");
    }
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
async fn survive_prunes(template: &Template, kills: u64, seed: u64) {
    println!("prunes under kills: seed {seed}, {kills} kills");
    let (mut killer, kept) = (Killer::new(seed), template.kept());
    let needed = |ids: &BTreeSet<ExecutionId>| find_needed(ids.iter(), &template.whole).len();
    assert!(needed(&kept) + 3 < needed(&template.whole.ids()), "the prune frees contents");
    let mut counted = BTreeMap::<_, u64>::new();
    for kill in 0..=kills {
        let copy = template.copy();
        let (home, has_server) = (copy.path(), kill % 3 == 2);
        let (is_killed, is_done) = killer.run(home, &PRUNE, has_server);
        let left = check_pruned(home, template).await;
        assert!(if is_done { left == kept } else { is_killed }, "{left:?}");
        let found = match left.len() {
            all if all == template.whole.rows.len() => "none",
            few if few == kept.len() => "all",
            _ => "some",
        };
        *counted.entry((found, has_server, is_done)).or_default() += 1;
        if is_killed {
            check_told(home, &left, template);
            done(home, &PRUNE);
            assert_eq!(check_pruned(home, template).await, kept);
        }
        // It is as thorough as the scan, and slower.
        if long::rounds(0, 1) == 1 {
            done(home, &["doctor"]);
        }
    }
    println!(
        "what was pruned, whether through a server, whether the command was done: {counted:?}"
    );
}

#[tokio::test]
async fn a_killed_prune_leaves_each_execution_whole_or_gone() {
    survive_prunes(&Template::new().await, long::rounds(2, 75), long::seed(44)).await;
}

/// The rows that came from the bundle: all but the last one, which records when and where they were imported.
fn rows_of_bundle(rows: &[Row]) -> &[Row] {
    let (last, before) = rows.split_last().unwrap();
    assert!(matches!(last.events[..], [Event::Imported { .. }]), "{last:?}");
    before
}

/// Each family of the import is whole or absent. Returns the executions that are there.
pub(super) async fn check_imported(
    home: &Path,
    imported: &Records,
    is_swept: bool,
) -> BTreeSet<ExecutionId> {
    let store = open(home);
    let found = Records::read(&store).await;
    for (id, rows) in &found.rows {
        assert_eq!(rows_of_bundle(rows), rows_of_bundle(&imported.rows[id]));
        assert_eq!(found.contents[id], imported.contents[id], "{id} lacks contents");
    }
    for id in imported.rows.keys() {
        let root = imported.root(id);
        let (has_it, has_root) = (found.rows.contains_key(id), found.rows.contains_key(&root));
        assert_eq!(has_it, has_root, "half of the family of {root}");
    }
    if is_swept {
        scan(&store, found.rows.keys(), imported).await;
    }
    store.close().await.unwrap();
    found.rows.into_keys().collect()
}

/// The executions of a report that an earlier import stored.
fn already_imported(report: &[u8]) -> BTreeSet<ExecutionId> {
    let report: Value = serde_json::from_slice(report).unwrap();
    let rows = list(&report["imported"]);
    let old = rows.iter().filter(|row| row["already_imported"] == true);
    old.map(|row| ExecutionId::parse(text(&row["execution_id"])).unwrap()).collect()
}

/// Imports the whole template without a kill. Returns the records that are then stored, and the bundle.
pub(super) async fn import_all(template: &Template) -> (Records, String) {
    let bundle = template.home.path().join("all.midex").into_os_string().into_string().unwrap();
    done(template.home.path(), &["export", "--all", "--force", "-o", &bundle]);
    let home = tempfile::tempdir().unwrap();
    done(home.path(), &["import", &bundle]);
    let store = open(home.path());
    let imported = Records::read(&store).await;
    store.close().await.unwrap();
    assert_eq!(imported.rows.len(), template.whole.rows.len());
    (imported, bundle)
}

#[expect(clippy::print_stdout, reason = "a failure names its seed")]
async fn survive_imports(template: &Template, kills: u64, seed: u64) {
    println!("imports under kills: seed {seed}, {kills} kills");
    let mut killer = Killer::new(seed);
    let (imported, bundle) = import_all(template).await;
    let import = ["import", &bundle];
    let mut counted = BTreeMap::<_, u64>::new();
    for kill in 0..=kills {
        let home = tempfile::tempdir().unwrap();
        let (home, has_server) = (home.path(), kill % 3 == 2);
        let (is_killed, is_done) = killer.run(home, &import, has_server);
        // Contents that no row names yet are there for the next import, or are swept before it.
        let is_swept = killer.dice.roll(2) == 0;
        let before = check_imported(home, &imported, is_swept).await;
        assert!(if is_done { before.len() == imported.rows.len() } else { is_killed });
        let found = match before.len() {
            0 => "none",
            all if all == imported.rows.len() => "all",
            _ => "some",
        };
        *counted.entry((found, has_server, is_done)).or_default() += 1;
        assert_eq!(already_imported(&done(home, &import)), before);
        assert_eq!(check_imported(home, &imported, true).await.len(), imported.rows.len());
        // It is as thorough as the scan, and slower.
        if long::rounds(0, 1) == 1 {
            done(home, &["doctor"]);
        }
    }
    println!(
        "what was imported, whether through a server, whether the command was done: {counted:?}"
    );
}

#[tokio::test]
async fn a_killed_import_leaves_whole_families_and_is_completed_by_the_same_command() {
    survive_imports(&Template::new().await, long::rounds(2, 75), long::seed(45)).await;
}
