//! Reads a bundle. Three passes over the file: the first checks all of it, the second stores the contents, and the third the
//! rows. Each pass checks what it reads, because the file may change between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufReader, Seek},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use rustix::fs::OFlags;
use tokio::runtime::Handle;

use super::{
    ImportedExecution,
    archive::{ArchiveReader, invalid_data},
    file_error,
    manifest::{
        BundleManifest, FORMAT, MANIFEST_NAME, ManifestEntry, ManifestExecution, ManifestFormat,
    },
};
use crate::{
    Engine,
    store::{Import, find_row_contents},
};
use midex_domain::{
    Definition, Digest, Event, Execution, ExecutionId, Row, StepId, WorkflowName,
    error::{Code, Error, Result, describe_io_error},
    event::Parent,
    limits,
};

/// An import on a thread that may block.
pub(super) struct Importer {
    pub(super) engine: Engine,
    pub(super) runtime: Handle,
    pub(super) path: PathBuf,
    /// The project that the executions will belong to.
    pub(super) project: String,
}

/// A checked entry of a bundle.
enum BundleEntry {
    /// An execution with all its rows.
    Execution(Box<Execution>, Vec<Row>),
    /// A content.
    Content(Digest, Vec<u8>),
}

/// How the store uses the id of an execution in a bundle.
enum IdUse {
    /// No execution has, or had, this id.
    Free,
    /// The same execution, which an earlier import stored.
    Imported,
    /// Another execution, or one that was deleted.
    Taken,
}

impl Importer {
    pub(super) fn run(&self) -> Result<Vec<ImportedExecution>> {
        let to_error = |error: io::Error| file_error(&self.path, "read", &error);
        // Opening a pipe would block.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&self.path);
        let file = file.map_err(to_error)?;
        if !file.metadata().map_err(to_error)?.is_file() {
            return Err(to_error(io::Error::other("it is not a regular file")));
        }
        let (mut check, mut taken) = (BundleCheck::default(), Vec::new());
        let manifest = self.read_bundle(&file, &mut |place, part| {
            if let BundleEntry::Execution(execution, rows) = &part
                && matches!(self.find_id_use(execution.id(), rows)?, IdUse::Taken)
            {
                taken.push(execution.id().clone());
            }
            check.add(part).map_err(|why| self.fault(place, &invalid_data(why)))
        })?;
        check.check_complete().map_err(|why| self.fault(MANIFEST_NAME, &invalid_data(why)))?;
        check_ids(&taken, manifest.executions.len())?;
        self.store_contents(&file)?;
        let imported = self.store_executions(&file)?;
        if self.engine.shared.peers.is_some() {
            // A sweep of another server may have freed contents before the rows that name them were stored.
            self.store_contents(&file)?;
        }
        Ok(imported)
    }

    /// The error of a bundle that is not as it must be in this entry.
    fn fault(&self, place: &str, error: &io::Error) -> Error {
        let (path, why) = (self.path.display().to_string(), describe_io_error(error));
        Error::new(Code::FileUnusable, format!("`{path}` is no valid bundle: in `{place}`: {why}"))
            .with_context("path", path)
            .with_context("place", place)
            .with_action("Copy {path} again from where it was exported, or export it again there")
    }

    /// Reads the whole bundle, checks each entry by itself, and passes it on with its place.
    fn read_bundle(
        &self,
        mut file: &File,
        visit: &mut dyn FnMut(&str, BundleEntry) -> Result<()>,
    ) -> Result<BundleManifest> {
        let in_manifest = |error: io::Error| self.fault(MANIFEST_NAME, &error);
        file.rewind().map_err(in_manifest)?;
        let mut archive = ArchiveReader::new(BufReader::new(file)).map_err(in_manifest)?;
        let json = archive.read_entry(MANIFEST_NAME, None).map_err(in_manifest)?;
        let manifest = self.parse_manifest(&json)?;
        let mut read = |entry: &ManifestEntry| {
            self.engine.shared.check_running()?;
            let content = archive.read_entry(&entry.path, Some((entry.bytes, entry.sha256)));
            content.map_err(|error| self.fault(&entry.path, &error))
        };
        for listed in &manifest.executions {
            let journal = read(&listed.journal)?;
            let part = parse_journal(&journal, listed);
            let part = part.map_err(|(line, why)| {
                let place = format!("{}, line {line}", listed.journal.path);
                self.fault(&place, &invalid_data(why))
            });
            visit(&listed.journal.path, part?)?;
        }
        for entry in &manifest.contents {
            let content = read(entry)?;
            visit(&entry.path, BundleEntry::Content(entry.sha256, content))?;
        }
        archive.finish().map_err(|error| self.fault("the end", &error))?;
        Ok(manifest)
    }

    fn parse_manifest(&self, json: &[u8]) -> Result<BundleManifest> {
        let invalid = |why: String| self.fault(MANIFEST_NAME, &invalid_data(why));
        let format = serde_json::from_slice(json).map(|ManifestFormat { format }| format);
        let format = format.map_err(|error| invalid(error.to_string()))?;
        if format > FORMAT {
            let path = self.path.display().to_string();
            let message = format!(
                "`{path}` is a bundle of format {format}, this midex reads format {FORMAT}"
            );
            return Err(Error::new(Code::StoreTooNew, message)
                .with_context("path", path)
                .with_action("Use the version of midex that wrote {path}, or a later one"));
        }
        let manifest = serde_json::from_slice::<BundleManifest>(json);
        let manifest = manifest.map_err(|error| invalid(error.to_string()))?;
        if format != FORMAT || serde_json::to_vec(&manifest).ok().as_deref() != Some(json) {
            return Err(invalid("it is not written as midex writes it".to_owned()));
        }
        check_paths(&manifest).map_err(invalid)?;
        Ok(manifest)
    }

    /// Finds how the store uses this id. An import that was cut off has stored some families, and the next import of the same
    /// bundle finds them there, with the rows of the bundle.
    fn find_id_use(&self, id: &ExecutionId, rows: &[Row]) -> Result<IdUse> {
        let store = &self.engine.shared.store;
        let stored = self.runtime.block_on(store.load_history(id))?;
        Ok(match stored.split_last() {
            Some((last, before))
                if before == rows && matches!(last.events[..], [Event::Imported { .. }]) =>
            {
                IdUse::Imported
            }
            None if self.runtime.block_on(store.load_tombstone(id))?.is_none() => IdUse::Free,
            _ => IdUse::Taken,
        })
    }

    fn store_contents(&self, file: &File) -> Result<()> {
        let (mut import, mut bytes) = (Import::default(), 0);
        self.read_bundle(file, &mut |_, part| {
            if let BundleEntry::Content(digest, content) = part {
                bytes += content.len();
                import.contents.push((digest, content.into()));
            }
            if bytes < limits::IMPORT_BATCH_BYTES {
                return Ok(());
            }
            bytes = 0;
            self.store(std::mem::take(&mut import))
        })?;
        self.store(import)
    }

    /// Stores the rows of each family in one transaction.
    fn store_executions(&self, file: &File) -> Result<Vec<ImportedExecution>> {
        let (mut imported, mut import) = (Vec::new(), Import::default());
        let now = self.engine.shared.clock.now();
        self.read_bundle(file, &mut |_, part| {
            let BundleEntry::Execution(execution, mut rows) = part else {
                return Ok(());
            };
            let already_imported =
                matches!(self.find_id_use(execution.id(), &rows)?, IdUse::Imported);
            imported.push(ImportedExecution {
                execution_id: execution.id().to_string(),
                workflow: execution.workflow().to_string(),
                state: execution.state().to_string(),
                parent: execution.parent().map(|parent| parent.execution_id.to_string()),
                already_imported,
                effects: Vec::new(),
            });
            if !already_imported {
                rows.push(execution.import_row(now, &self.project));
                import.executions.push(rows);
            }
            let is_root = execution.parent().is_none();
            if is_root { self.store(std::mem::take(&mut import)) } else { Ok(()) }
        })?;
        Ok(imported)
    }

    fn store(&self, import: Import) -> Result<()> {
        if import.contents.is_empty() && import.executions.is_empty() {
            return Ok(());
        }
        self.runtime.block_on(self.engine.shared.store.import(import))
    }
}

/// Refuses a bundle of so many executions if other executions have, or had, these ids.
fn check_ids(taken: &[ExecutionId], executions: usize) -> Result<()> {
    let Some(first) = taken.first() else {
        return Ok(());
    };
    let shown: Vec<_> =
        taken.iter().take(limits::FORKS_SHOWN_MAX).map(ExecutionId::as_str).collect();
    let message = format!(
        "{} of the {executions} executions of the bundle exist here already, or were deleted less than seven days ago: {}; nothing was imported",
        taken.len(),
        shown.join(", ")
    );
    Err(Error::new(Code::ExecutionIdTaken, message)
        .with_context("execution_id", first.as_str())
        .with_action("Run `midex show {execution_id}`, which is here already"))
}

/// Checks the places of the entries that the manifest lists.
fn check_paths(manifest: &BundleManifest) -> Result<(), String> {
    if manifest.executions.is_empty() {
        return Err("it has no executions".to_owned());
    }
    let mut ids = BTreeSet::new();
    let journals = manifest.executions.iter().enumerate().map(|(position, listed)| {
        let ManifestEntry { bytes, sha256, .. } = listed.journal;
        let is_new = ids.insert(&listed.execution_id);
        (&listed.journal, is_new, ManifestEntry::journal(position, bytes, sha256))
    });
    let mut last = None;
    let contents = manifest.contents.iter().map(|entry| {
        let is_later = last.replace(entry.sha256) < Some(entry.sha256);
        (entry, is_later, ManifestEntry::content(entry.bytes, entry.sha256, entry.role))
    });
    match journals.chain(contents).find(|(entry, is_new, right)| !is_new || *entry != right) {
        Some((entry, ..)) => Err(format!("the entry `{}` is out of place", entry.path)),
        None => Ok(()),
    }
}

/// The execution of a journal, whose lines are its rows. An error comes with the number of the line.
fn parse_journal(journal: &[u8], listed: &ManifestExecution) -> Result<BundleEntry, (u64, String)> {
    let (mut rows, mut execution, mut number) = (Vec::new(), None, 0);
    for line in journal.split_inclusive(|byte| *byte == b'\n') {
        number += 1;
        let in_line = |why: String| (number, why);
        let row: Row = serde_json::from_slice(line).map_err(|error| in_line(error.to_string()))?;
        if row.execution_id != listed.execution_id || row.revision != number {
            let why = format!("it is revision {} of '{}'", row.revision, row.execution_id);
            return Err(in_line(why));
        }
        let has_directories = row.events.iter().any(|event| match event {
            Event::Created(created) => created.project.is_some() || created.lookup.is_some(),
            Event::Imported { project } => !project.is_empty(),
            _ => false,
        });
        if has_directories || row.events.len() > limits::EVENTS_PER_ROW_MAX {
            return Err(in_line("it has directories or too many events".to_owned()));
        }
        let next = Execution::apply_row(execution, &row);
        execution = Some(next.ok_or_else(|| in_line("it begins no execution".to_owned()))?);
        rows.push(row);
    }
    let entry = listed.journal.clone();
    let execution = execution.filter(|one| ManifestExecution::new(one, entry) == *listed);
    let why = || (number, "it leads to another state than the manifest says".to_owned());
    Ok(BundleEntry::Execution(Box::new(execution.ok_or_else(why)?), rows))
}

/// Checks that the parts of a bundle fit together.
#[derive(Default)]
struct BundleCheck {
    /// The contents that rows name.
    named: BTreeSet<Digest>,
    /// The executions since the last root, which comes after all executions below it.
    family: BTreeMap<ExecutionId, Parent>,
    /// The workflows and steps of the executions that follow a definition, until it is read.
    definitions: BTreeMap<Digest, BTreeSet<(WorkflowName, Vec<StepId>)>>,
}

impl BundleCheck {
    fn add(&mut self, part: BundleEntry) -> Result<(), String> {
        match part {
            BundleEntry::Execution(execution, rows) => {
                let named = find_row_contents(&rows).map_err(|error| error.to_string())?;
                self.named.extend(named);
                let steps = execution.steps().iter().map(|step| step.id.clone()).collect();
                let followed = self.definitions.entry(execution.definition()).or_default();
                followed.insert((execution.workflow().clone(), steps));
                self.add_to_family(&execution)
            }
            BundleEntry::Content(digest, _) if !self.named.contains(&digest) => {
                Err("no row names it".to_owned())
            }
            BundleEntry::Content(digest, content) => {
                let followed = self.definitions.remove(&digest).unwrap_or_default();
                let mut followed = followed.iter();
                let is_right = followed.all(|(name, steps)| is_definition(&content, name, steps));
                let why = || "it is not the definition of its executions".to_owned();
                is_right.then_some(()).ok_or_else(why)
            }
        }
    }

    fn add_to_family(&mut self, execution: &Execution) -> Result<(), String> {
        let id = execution.id();
        if let Some(parent) = execution.parent() {
            self.family.insert(id.clone(), parent.clone());
            return Ok(());
        }
        let family = std::mem::take(&mut self.family);
        let is_known = |above: &ExecutionId| above == id || family.contains_key(above);
        let belongs = |parent: &Parent| parent.root == *id && is_known(&parent.execution_id);
        match family.iter().find(|(_, parent)| !belongs(parent)) {
            Some((stranger, _)) => Err(format!("'{stranger}' is not of the family of '{id}'")),
            None => Ok(()),
        }
    }

    fn check_complete(&self) -> Result<(), String> {
        match (self.family.keys().next(), self.definitions.keys().next()) {
            (Some(child), _) => Err(format!("the parent of '{child}' is missing")),
            (_, Some(definition)) => Err(format!("the definition {definition} is missing")),
            _ => Ok(()),
        }
    }
}

/// Whether this is a definition that can be followed, of a workflow with this name and these steps.
fn is_definition(bytes: &[u8], name: &WorkflowName, steps: &[StepId]) -> bool {
    Definition::decode(bytes).is_ok_and(|definition| {
        let own = &definition.workflow.steps;
        let distinct: BTreeSet<_> = steps.iter().collect();
        definition.workflow.name == *name
            && own.iter().map(|step| &step.id).eq(steps)
            && distinct.len() == steps.len()
            && own.iter().flat_map(|step| &step.depends_on).all(|step| distinct.contains(step))
            && definition.graph().find_cycle().is_none()
    })
}
