//! Reads a bundle. Three passes over the file: the first checks all of it, the second stores the contents, and the third the
//! rows. Each pass checks the digest of what it reads, because the file may change between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use tokio::runtime::Handle;

use super::{
    ImportedExecution,
    archive::{ArchiveReader, invalid_data},
    file_error,
    manifest::{
        FORMAT, MANIFEST_NAME, Manifest, ManifestContent, ManifestEntry, ManifestExecution,
        ManifestFormat,
    },
    redact::NamedValues,
};
use crate::{Engine, server_stopping_error, store::Import};
use midex_domain::{
    Definition, Event, Execution, ExecutionId, Row, StepId, WorkflowName,
    error::{Code, Error, Result, describe_io_error},
    event::Parent,
    limits,
};

/// An import on a thread that may block.
pub(super) struct Importer {
    pub(super) engine: Engine,
    pub(super) runtime: Handle,
    pub(super) path: PathBuf,
}

/// The place of a fault in a bundle: an entry, or a line of it.
struct Fault {
    place: String,
    error: io::Error,
}

/// Why a pass ended early.
enum ImportError {
    /// The bundle is not as it must be.
    Fault(Fault),
    /// Any other error.
    Other(Error),
}

impl From<Error> for ImportError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

type ImportResult<T> = Result<T, ImportError>;
type Archive = ArchiveReader<BufReader<File>>;

/// The adapter for errors in the entry of this name.
fn at(place: &str) -> impl Fn(io::Error) -> ImportError {
    let place = format!("the entry `{place}`");
    move |error| ImportError::Fault(Fault { place: place.clone(), error })
}

impl Importer {
    pub(super) fn run(&self) -> Result<Vec<ImportedExecution>> {
        let result = self.open_file().map_err(ImportError::Other).and_then(|mut file| {
            let manifest = self.check_bundle(&mut file)?;
            self.check_ids(&manifest)?;
            self.store_contents(&mut file)?;
            self.store_executions(&mut file)
        });
        result.map_err(|error| match error {
            ImportError::Other(error) => error,
            ImportError::Fault(fault) => self.bundle_error(&fault),
        })
    }

    fn bundle_error(&self, fault: &Fault) -> Error {
        let (path, place) = (self.path.display().to_string(), &fault.place);
        let why = describe_io_error(&fault.error);
        Error::new(Code::FileUnusable, format!("`{path}` is no valid bundle: {place}: {why}"))
            .with_context("path", path)
            .with_context("place", place.as_str())
            .with_action("Copy {path} again from where it was exported, or export it again there")
    }

    fn open_file(&self) -> Result<File> {
        let to_error = |error: io::Error| file_error(&self.path, "read", &error);
        // Opening a pipe would block.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&self.path);
        let file = file.map_err(to_error)?;
        if !file.metadata().map_err(to_error)?.is_file() {
            return Err(to_error(io::Error::other("it is not a regular file")));
        }
        Ok(file)
    }

    /// Begins a pass: reads the manifest.
    fn open_archive(&self, file: &mut File) -> ImportResult<(Archive, Manifest)> {
        let in_manifest = at(MANIFEST_NAME);
        file.rewind().map_err(&in_manifest)?;
        let file = file.try_clone().map_err(&in_manifest)?;
        let mut archive = ArchiveReader::new(BufReader::new(file)).map_err(&in_manifest)?;
        let bytes = archive.read_first_header(MANIFEST_NAME).map_err(&in_manifest)?;
        if bytes > limits::BUNDLE_MANIFEST_BYTES_MAX {
            return Err(in_manifest(invalid_data("it is too large")));
        }
        let mut json = Vec::new();
        archive.content(bytes).read_to_end(&mut json).map_err(&in_manifest)?;
        archive.end_entry(bytes).map_err(&in_manifest)?;
        let to_fault = |error: serde_json::Error| in_manifest(invalid_data(error.to_string()));
        let ManifestFormat { format } = serde_json::from_slice(&json).map_err(to_fault)?;
        if format > FORMAT {
            return Err(self.later_format_error(format).into());
        }
        let manifest: Manifest = serde_json::from_slice(&json).map_err(to_fault)?;
        if serde_json::to_vec(&manifest).ok() != Some(json) {
            return Err(in_manifest(invalid_data("it is not written as midex writes it")));
        }
        check_manifest(&manifest).map_err(|why| in_manifest(invalid_data(why)))?;
        Ok((archive, manifest))
    }

    fn later_format_error(&self, format: u32) -> Error {
        let path = self.path.display().to_string();
        let message =
            format!("`{path}` is a bundle of format {format}, this midex reads format {FORMAT}");
        Error::new(Code::StoreTooNew, message)
            .with_context("path", path)
            .with_action("Use the version of midex that wrote {path}, or a later one")
    }

    /// The first pass: checks everything, and stores nothing.
    fn check_bundle(&self, file: &mut File) -> ImportResult<Manifest> {
        let (mut archive, manifest) = self.open_archive(file)?;
        let (mut values, mut family) = (NamedValues::default(), Family::default());
        let mut followed = BTreeMap::<_, BTreeSet<_>>::new();
        for listed in &manifest.executions {
            let mut collect = |row: Row| values.collect_row(&row);
            let execution = self.read_execution(&mut archive, listed, &mut collect)?;
            let in_journal = at(&listed.journal.path);
            family.add(&execution).map_err(|why| in_journal(invalid_data(why)))?;
            let steps: Vec<_> = execution.steps().iter().map(|step| step.id.clone()).collect();
            let name = execution.workflow().clone();
            followed.entry(listed.definition).or_default().insert((name, steps));
        }
        let in_manifest = |why: String| at(MANIFEST_NAME)(invalid_data(why));
        family.check_complete().map_err(in_manifest)?;
        for listed in &manifest.contents {
            let in_entry = |why: String| at(&listed.path)(invalid_data(why));
            if !values.meanings.contains_key(&listed.sha256) {
                return Err(in_entry("no row names it".to_owned()));
            }
            let content = self.read_content(&mut archive, listed)?;
            for (name, steps) in followed.remove(&listed.sha256).unwrap_or_default() {
                check_definition(&content, &name, &steps).map_err(in_entry)?;
            }
        }
        if let Some(missing) = followed.keys().next() {
            return Err(in_manifest(format!("the definition {missing} is missing")));
        }
        archive.finish().map_err(|error| {
            ImportError::Fault(Fault { place: "the end of the file".to_owned(), error })
        })?;
        Ok(manifest)
    }

    /// Refuses a bundle with an execution that is, or was, in the store.
    fn check_ids(&self, manifest: &Manifest) -> Result<()> {
        let store = &self.engine.shared.store;
        let mut taken = Vec::new();
        for id in manifest.executions.iter().map(|listed| &listed.execution_id) {
            let is_stored = self.runtime.block_on(store.load(id))?.is_some();
            if is_stored || self.runtime.block_on(store.load_tombstone(id))?.is_some() {
                taken.push(id.as_str());
            }
        }
        let Some(first) = taken.first() else {
            return Ok(());
        };
        let shown = taken.iter().take(limits::FORKS_SHOWN_MAX).copied().collect::<Vec<_>>();
        let message = format!(
            "{} of the {} executions of the bundle exist here, or were deleted less than seven days ago: {}; nothing was imported",
            taken.len(),
            manifest.executions.len(),
            shown.join(", ")
        );
        Err(Error::new(Code::ExecutionIdTaken, message)
            .with_context("execution_id", *first)
            .with_action("Run `midex show {execution_id}`, which is here already"))
    }

    /// The second pass: stores the contents.
    fn store_contents(&self, file: &mut File) -> ImportResult<()> {
        let (mut archive, manifest) = self.open_archive(file)?;
        for listed in &manifest.executions {
            skip_entry(&mut archive, &listed.journal)?;
        }
        let (mut import, mut bytes) = (Import::default(), 0);
        for listed in &manifest.contents {
            let content = self.read_content(&mut archive, listed)?;
            bytes += content.len();
            import.contents.push((listed.sha256, content.into()));
            if bytes >= limits::IMPORT_BATCH_BYTES {
                self.store(std::mem::take(&mut import))?;
                bytes = 0;
            }
        }
        Ok(self.store(import)?)
    }

    /// The third pass: stores the rows, those of each family in one transaction.
    fn store_executions(&self, file: &mut File) -> ImportResult<Vec<ImportedExecution>> {
        let (mut archive, manifest) = self.open_archive(file)?;
        let (mut imported, mut import) = (Vec::new(), Import::default());
        for listed in &manifest.executions {
            let mut rows = Vec::new();
            let execution = self.read_execution(&mut archive, listed, &mut |row| rows.push(row))?;
            let now = self.engine.shared.clock.now();
            let (execution, row) = execution.import(manifest.created_at, now)?;
            rows.push(row);
            import.executions.push(rows);
            if execution.parent().is_none() {
                self.store(std::mem::take(&mut import))?;
            }
            imported.push(ImportedExecution::new(&execution));
        }
        Ok(imported)
    }

    fn store(&self, import: Import) -> Result<()> {
        self.check_running()?;
        self.runtime.block_on(self.engine.shared.store.import(import))
    }

    fn check_running(&self) -> Result<()> {
        match self.engine.shared.stopping.is_cancelled() {
            true => Err(server_stopping_error()),
            false => Ok(()),
        }
    }

    fn read_content(
        &self,
        archive: &mut Archive,
        listed: &ManifestContent,
    ) -> ImportResult<Vec<u8>> {
        self.check_running()?;
        let in_entry = at(&listed.path);
        let mut entry = archive.begin_entry(&listed.path, listed.bytes).map_err(&in_entry)?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(&in_entry)?;
        entry.check_digest(listed.sha256).map_err(&in_entry)?;
        archive.end_entry(listed.bytes).map_err(&in_entry)?;
        Ok(content)
    }

    /// Reads the journal of an execution, and returns the state that its rows lead to.
    fn read_execution(
        &self,
        archive: &mut Archive,
        listed: &ManifestExecution,
        visit: &mut dyn FnMut(Row),
    ) -> ImportResult<Execution> {
        self.check_running()?;
        let journal = &listed.journal;
        let in_entry = at(&journal.path);
        let entry = archive.begin_entry(&journal.path, journal.bytes).map_err(&in_entry)?;
        let mut lines = BufReader::new(entry);
        let mut execution = None;
        for number in 1..=listed.revision {
            let place = format!("line {number} of the entry `{}`", journal.path);
            let in_line = |error| ImportError::Fault(Fault { place: place.clone(), error });
            let line = read_line(&mut lines).map_err(in_line)?;
            let row = parse_row(&line, listed, number);
            let row = row.map_err(|why| in_line(invalid_data(why)))?;
            let next = Execution::apply_row(execution, &row);
            let next = next.ok_or_else(|| in_line(invalid_data("it does not begin an execution")));
            execution = Some(next?);
            visit(row);
        }
        if !lines.fill_buf().map_err(&in_entry)?.is_empty() {
            return Err(in_entry(invalid_data("it has more lines than the manifest says")));
        }
        lines.into_inner().check_digest(journal.sha256).map_err(&in_entry)?;
        archive.end_entry(journal.bytes).map_err(&in_entry)?;
        let execution = execution.ok_or_else(|| in_entry(invalid_data("it has no line")))?;
        if ManifestExecution::new(&execution, journal.clone()) != *listed {
            let why = "its rows lead to another state than the manifest says";
            return Err(in_entry(invalid_data(why)));
        }
        Ok(execution)
    }
}

fn skip_entry(archive: &mut Archive, listed: &ManifestEntry) -> ImportResult<()> {
    let in_entry = at(&listed.path);
    let entry = archive.begin_entry(&listed.path, listed.bytes).map_err(&in_entry)?;
    entry.check_digest(listed.sha256).map_err(&in_entry)?;
    archive.end_entry(listed.bytes).map_err(&in_entry)
}

/// Checks what the manifest says of the entries, before they are read.
fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    let Manifest { format, executions, contents, .. } = manifest;
    if *format != FORMAT || executions.is_empty() {
        return Err(format!("it is of format {format}, with {} executions", executions.len()));
    }
    let mut ids = BTreeSet::new();
    for (position, listed) in executions.iter().enumerate() {
        let ManifestEntry { path, bytes, sha256 } = &listed.journal;
        let is_named = listed.journal == ManifestEntry::journal(position, *bytes, *sha256);
        if !is_named || !ids.insert(&listed.execution_id) {
            return Err(format!("the journal `{path}` is out of place"));
        }
    }
    for (position, listed) in contents.iter().enumerate() {
        let is_named = *listed == ManifestContent::new(listed.bytes, listed.sha256, listed.role);
        let is_sorted = position == 0 || contents[position - 1].sha256 < listed.sha256;
        if !is_named || !is_sorted || listed.bytes > limits::BUNDLE_CONTENT_BYTES_MAX {
            return Err(format!("the content `{}` is out of place or too large", listed.path));
        }
    }
    let journals = executions.iter().map(|listed| listed.journal.bytes);
    let mut sizes = journals.chain(contents.iter().map(|listed| listed.bytes));
    let total = sizes.try_fold(0_u64, u64::checked_add);
    match total.filter(|total| *total <= limits::BUNDLE_BYTES_MAX) {
        Some(_) => Ok(()),
        None => Err(format!("a bundle may have {} bytes", limits::BUNDLE_BYTES_MAX)),
    }
}

/// The next line, without its end.
fn read_line(lines: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    lines.take(limits::BUNDLE_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err(invalid_data("it is missing, cut off or too long")),
    }
}

fn parse_row(line: &[u8], listed: &ManifestExecution, number: u64) -> Result<Row, String> {
    let row: Row = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if row.execution_id != listed.execution_id || row.revision != number {
        return Err(format!("it is revision {} of '{}'", row.revision, row.execution_id));
    }
    if row.events.len() > limits::EVENTS_PER_ROW_MAX {
        return Err(format!("it has {} events", row.events.len()));
    }
    let has_directories = row.events.iter().any(
        |event| matches!(event, Event::Created(it) if it.project.is_some() || it.lookup.is_some()),
    );
    if has_directories { Err("it names directories".to_owned()) } else { Ok(row) }
}

/// Checks that a definition can be followed, and is that of an execution with these steps.
fn check_definition(bytes: &[u8], name: &WorkflowName, steps: &[StepId]) -> Result<(), String> {
    let definition = Definition::decode(bytes).ok();
    let definition = definition.filter(|definition| {
        let own = &definition.workflow.steps;
        let distinct: BTreeSet<_> = steps.iter().collect();
        definition.workflow.name == *name
            && own.iter().map(|step| &step.id).eq(steps)
            && distinct.len() == steps.len()
            && own.iter().flat_map(|step| &step.depends_on).all(|step| distinct.contains(step))
            && definition.graph().find_cycle().is_none()
    });
    definition.map(drop).ok_or_else(|| format!("it is no definition of the workflow `{name}`"))
}

/// The executions of a bundle since its last root. A root comes after all executions below it.
#[derive(Default)]
struct Family(BTreeMap<ExecutionId, Parent>);

impl Family {
    fn add(&mut self, execution: &Execution) -> Result<(), String> {
        let id = execution.id();
        if let Some(parent) = execution.parent() {
            self.0.insert(id.clone(), parent.clone());
            return Ok(());
        }
        let is_in_family = |above: &ExecutionId| above == id || self.0.contains_key(above);
        let stranger = self
            .0
            .iter()
            .find(|(_, parent)| parent.root != *id || !is_in_family(&parent.execution_id));
        if let Some((stranger, _)) = stranger {
            return Err(format!("the child '{stranger}' before it is not of its family"));
        }
        self.0.clear();
        Ok(())
    }

    fn check_complete(&self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(child) => Err(format!("the parent of '{child}' is missing")),
            None => Ok(()),
        }
    }
}
