//! Writes a bundle. Two passes over the rows and contents: the first computes sizes and digests for the manifest, which comes
//! first in the file, and the second writes. No more than one journal and one content are in memory at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use tokio::runtime::Handle;

use super::{
    ExportReport, ExportRequest, ExportSelection,
    archive::{ArchiveWriter, HashingWriter},
    file_error,
    manifest::{
        FORMAT, MANIFEST_NAME, Manifest, ManifestContent, ManifestEntry, ManifestExecution,
    },
    redact::{Meaning, NamedValues, Redaction, Replacement, to_portable_json},
};
use crate::{Engine, server_stopping_error, store::ListQuery};
use midex_domain::{
    Digest, Execution, ExecutionId, Row,
    error::{Code, Error, Result},
    limits,
};

impl Engine {
    /// The executions to export: each root after its family.
    pub(super) async fn find_exported(
        &self,
        selection: &ExportSelection,
    ) -> Result<Vec<Arc<Execution>>> {
        let mut families = Vec::new();
        for id in self.find_exported_roots(selection).await? {
            families.extend(self.find_family(&id).await?);
        }
        if families.is_empty() {
            let error = Error::new(Code::ExecutionNotFound, "there is no execution to export");
            return Err(error.with_action("Run `midex list executions`: it lists the executions"));
        }
        Ok(families)
    }

    async fn find_exported_roots(&self, selection: &ExportSelection) -> Result<Vec<ExecutionId>> {
        let since = match selection {
            ExportSelection::Ids(ids) => {
                let ids: BTreeSet<_> = ids.iter().cloned().collect();
                return Ok(ids.into_iter().collect());
            }
            ExportSelection::All { since } => *since,
        };
        let (mut roots, mut query) =
            (Vec::new(), ListQuery { roots_only: true, ..ListQuery::default() });
        query.limit = limits::LIST_LIMIT_MAX;
        loop {
            let page = self.shared.store.list(query.clone()).await?;
            let executions = page.executions.iter().map(|(_, execution)| execution);
            let executions = executions.filter(|one| since.is_none_or(|at| one.updated_at() >= at));
            roots.extend(executions.map(|execution| execution.id().clone()));
            query.before = page.next_key;
            if query.before.is_none() {
                return Ok(roots);
            }
        }
    }

    /// A root with the executions below it, each after its children.
    async fn find_family(&self, root: &ExecutionId) -> Result<Vec<Arc<Execution>>> {
        let mut family = vec![self.read_execution(root).await?];
        if let Some(parent) = family[0].execution.parent() {
            let message = format!("execution '{root}' is a child of '{}'", parent.root);
            let error = family[0]
                .execution
                .with_execution_context(Error::new(Code::StateTransitionRefused, message));
            return Err(error
                .with_context("root", parent.root.as_str())
                .with_action("Run `midex export {root}`: it takes the whole family"));
        }
        let mut next = 0;
        while let Some(one) = family.get(next) {
            for child in one.execution.child_ids(&one.definition.clone()) {
                if let Some(child) = self.shared.find_durable_execution(&child).await? {
                    family.push(self.shared.add_definition(child).await?);
                }
            }
            next += 1;
        }
        Ok(family.into_iter().rev().map(|durable| durable.execution).collect())
    }
}

/// A content of the bundle, by the digest that it has there.
struct ExportedContent {
    /// Its digest in the store.
    source: Digest,
    bytes: u64,
    meaning: Meaning,
}

/// An export on a thread that may block.
pub(super) struct Exporter {
    pub(super) engine: Engine,
    pub(super) runtime: Handle,
    pub(super) redaction: Redaction,
    /// The executions at the revisions that are exported.
    pub(super) executions: Vec<Arc<Execution>>,
}

impl Exporter {
    /// Writes the bundle to a draft beside its path, and then moves it there.
    pub(super) fn run(&self, request: &ExportRequest) -> Result<ExportReport> {
        let path = &request.path;
        if !request.replaces_file && fs::symlink_metadata(path).is_ok() {
            return Err(file_exists_error(path));
        }
        let draft = draft_path(path);
        let written = self.write_draft(&draft).and_then(|report| {
            place_draft(&draft, request)?;
            Ok(report)
        });
        if written.is_err() {
            // Without a draft there is nothing to remove.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn write_draft(&self, draft: &Path) -> Result<ExportReport> {
        let (values, contents) = self.find_contents()?;
        let manifest = self.build_manifest(&values, &contents)?;
        let to_error = |error: io::Error| file_error(draft, "written", &error);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
        let file = BufWriter::new(file.map_err(to_error)?);
        let mut archive = ArchiveWriter::new(file).map_err(to_error)?;
        let json = serde_json::to_vec(&manifest)
            .map_err(|error| Error::internal("a manifest cannot be written").with_source(error))?;
        let bytes = json.len() as u64;
        check_limit("the manifest of a bundle", bytes, limits::BUNDLE_MANIFEST_BYTES_MAX)?;
        let entry = archive.begin_entry(MANIFEST_NAME, bytes).map_err(to_error)?;
        entry.write_all(&json).map_err(to_error)?;
        archive.end_entry(bytes).map_err(to_error)?;
        for (execution, listed) in self.executions.iter().zip(&manifest.executions) {
            let bytes = listed.journal.bytes;
            let entry = archive.begin_entry(&listed.journal.path, bytes).map_err(to_error)?;
            let mut entry = HashingWriter::new(entry);
            self.write_journal(execution, &values, &mut entry).map_err(|error| match error {
                JournalError::File(error) => to_error(error),
                JournalError::Store(error) => error,
            })?;
            check_unchanged(entry.finish() == (bytes, listed.journal.sha256))?;
            archive.end_entry(bytes).map_err(to_error)?;
        }
        for (listed, content) in manifest.contents.iter().zip(contents.values()) {
            let stored = self.load_content(content.source)?;
            let stored = stored.ok_or_else(missing_content_error)?;
            let redacted = self.redaction.redact_content(&stored, content.meaning);
            let content = redacted.as_deref().unwrap_or(&stored);
            check_unchanged(content.len() as u64 == listed.bytes)?;
            let entry = archive.begin_entry(&listed.path, listed.bytes).map_err(to_error)?;
            entry.write_all(content).map_err(to_error)?;
            archive.end_entry(listed.bytes).map_err(to_error)?;
        }
        let file = archive.finish().map_err(to_error)?;
        let file = file.into_inner().map_err(|error| to_error(error.into_error()))?;
        file.sync_all().map_err(to_error)?;
        let bytes = file.metadata().map_err(to_error)?.len();
        Ok(ExportReport { executions: self.executions.len(), contents: contents.len(), bytes })
    }

    /// The values that the rows name, and those of them that are contents.
    fn find_contents(&self) -> Result<(NamedValues, BTreeMap<Digest, ExportedContent>)> {
        let mut values = NamedValues::default();
        for _ in 0..if self.redaction.is_empty() { 1 } else { 2 } {
            for execution in &self.executions {
                for row in self.load_rows(execution)? {
                    let is_child = execution.parent().is_some();
                    values.collect(&mut to_portable_json(row)?, &self.redaction, is_child);
                }
            }
        }
        let mut contents = BTreeMap::new();
        for (digest, meaning) in values.meanings.clone() {
            let Some(stored) = self.load_content(digest)? else {
                continue;
            };
            values.stored.insert(digest);
            let redacted = self.redaction.redact_content(&stored, meaning);
            let (mut name, mut bytes) = (digest, stored.len() as u64);
            if let Some(redacted) = redacted {
                (name, bytes) = (Digest::compute(&redacted), redacted.len() as u64);
                values.replacements.insert(digest, Replacement { digest: name, bytes });
            }
            check_limit("a content of a bundle", bytes, limits::BUNDLE_CONTENT_BYTES_MAX)?;
            contents.insert(name, ExportedContent { source: digest, bytes, meaning });
        }
        Ok((values, contents))
    }

    fn build_manifest(
        &self,
        values: &NamedValues,
        contents: &BTreeMap<Digest, ExportedContent>,
    ) -> Result<Manifest> {
        let mut executions = Vec::new();
        for (position, execution) in self.executions.iter().enumerate() {
            let mut journal = HashingWriter::new(io::sink());
            self.write_journal(execution, values, &mut journal).map_err(|error| match error {
                JournalError::File(_) => Error::internal("a digest cannot be computed"),
                JournalError::Store(error) => error,
            })?;
            let (bytes, sha256) = journal.finish();
            let journal = ManifestEntry::journal(position, bytes, sha256);
            executions.push(ManifestExecution::new(execution, journal));
        }
        let contents = contents.iter().map(|(digest, content)| {
            ManifestContent::new(content.bytes, *digest, Some(content.meaning.role()))
        });
        Ok(Manifest {
            format: FORMAT,
            midex: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: self.engine.shared.clock.now(),
            executions,
            contents: contents.collect(),
            redacted: self.redaction.names(),
        })
    }

    /// Writes the rows of an execution, one line of JSON for each.
    fn write_journal(
        &self,
        execution: &Execution,
        values: &NamedValues,
        target: &mut impl Write,
    ) -> Result<(), JournalError> {
        for row in self.load_rows(execution).map_err(JournalError::Store)? {
            let mut row: Value = to_portable_json(row).map_err(JournalError::Store)?;
            values.redact(&mut row, &self.redaction);
            let mut line = row.to_string();
            line.push('\n');
            target.write_all(line.as_bytes()).map_err(JournalError::File)?;
        }
        Ok(())
    }

    fn load_rows(&self, execution: &Execution) -> Result<Vec<Row>> {
        if self.engine.shared.stopping.is_cancelled() {
            return Err(server_stopping_error());
        }
        let rows = self.runtime.block_on(self.engine.shared.store.load_history(execution.id()));
        let mut rows = rows?;
        // The execution may have moved since.
        rows.retain(|row| row.revision <= execution.revision());
        Ok(rows)
    }

    fn load_content(&self, digest: Digest) -> Result<Option<Arc<[u8]>>> {
        if self.engine.shared.stopping.is_cancelled() {
            return Err(server_stopping_error());
        }
        self.runtime.block_on(self.engine.shared.store.load_content(digest))
    }
}

/// Why a journal could not be written.
enum JournalError {
    File(io::Error),
    Store(Error),
}

fn check_limit(what: &str, bytes: u64, max_bytes: u64) -> Result<()> {
    if bytes <= max_bytes {
        return Ok(());
    }
    let limit = format!("{what} may have {max_bytes} bytes");
    let message = format!("{limit}, this one would have {bytes}");
    Err(Error::limit_exceeded(limit).with_message(message))
}

fn check_unchanged(is_unchanged: bool) -> Result<()> {
    if is_unchanged {
        return Ok(());
    }
    Err(Error::new(Code::RevisionConflict, "what is exported was changed meanwhile"))
}

fn missing_content_error() -> Error {
    Error::internal("a content that is exported is gone")
}

fn file_exists_error(path: &Path) -> Error {
    let path = path.display().to_string();
    Error::new(Code::FileExists, format!("`{path}` exists already")).with_context("path", path)
}

/// The name of the draft, beside the file that it becomes.
fn draft_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

/// Gives the draft its name. Unless a file is to be replaced, one that came meanwhile stays.
fn place_draft(draft: &Path, request: &ExportRequest) -> Result<()> {
    let path = &request.path;
    let placed = if request.replaces_file {
        fs::rename(draft, path)
    } else {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(rustix::fs::CWD, draft, rustix::fs::CWD, path, flags)
            .map_err(io::Error::from)
    };
    placed.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => file_exists_error(path),
        _ => file_error(path, "written", &error),
    })?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let synced = File::open(directory.unwrap_or(Path::new("."))).and_then(|file| file.sync_all());
    synced.map_err(|error| file_error(path, "made durable", &error))
}
