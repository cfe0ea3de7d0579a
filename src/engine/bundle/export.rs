//! Writes a bundle. Two passes over the rows and contents: the first computes sizes and digests for the manifest, which comes
//! first in the file, and the second writes. No more than one journal or two contents are in memory at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufWriter},
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use tokio::runtime::Handle;

use super::{
    ExportReport, ExportRequest,
    archive::ArchiveWriter,
    file_error,
    manifest::{
        BundleManifest, ContentRole, FORMAT, MANIFEST_NAME, ManifestEntry, ManifestExecution,
    },
    redact::{NamedValues, to_portable_json},
};
use crate::{
    Engine,
    store::{ListQuery, paths},
};
use midex_domain::{
    Digest, Execution, ExecutionId,
    error::{Code, Error, Result},
    limits,
};

impl Engine {
    /// The executions to export, each after its children.
    pub(super) async fn find_exported(
        &self,
        request: &ExportRequest,
    ) -> Result<Vec<Arc<Execution>>> {
        let mut roots = BTreeSet::new();
        if let Some(ids) = &request.ids {
            roots.extend(ids.iter().cloned());
        } else {
            let query =
                ListQuery { roots_only: true, since: request.since, ..ListQuery::default() };
            self.visit_summaries(query, |summary| roots.extend([summary.id])).await?;
        }
        let mut exported = Vec::new();
        for id in roots {
            exported.extend(self.find_family(&id).await?);
        }
        if exported.is_empty() {
            let error = Error::new(Code::ExecutionNotFound, "there is no execution to export");
            return Err(error.with_action("Run `midex list executions`: it lists the executions"));
        }
        Ok(exported)
    }

    async fn find_family(&self, root: &ExecutionId) -> Result<Vec<Arc<Execution>>> {
        let family = self.read_family(root).await?;
        if let Some(parent) = family[0].execution.parent() {
            let message = format!("execution '{root}' is a child of '{}'", parent.root);
            let error = Error::new(Code::StateTransitionRefused, message);
            return Err(error
                .with_context("root", parent.root.as_str())
                .with_action("Run `midex export {root}`: it takes the whole family"));
        }
        Ok(family.into_iter().rev().map(|durable| durable.execution).collect())
    }
}

/// An export on a thread that may block.
pub(super) struct Exporter {
    pub(super) engine: Engine,
    pub(super) runtime: Handle,
    pub(super) request: ExportRequest,
    /// The executions at the revisions that are exported.
    pub(super) executions: Vec<Arc<Execution>>,
}

/// The digest of a content in the store, and its role, by its entry in the bundle.
type ExportedContents = BTreeMap<Digest, (ManifestEntry, Digest, ContentRole)>;

impl Exporter {
    /// Writes the bundle to a draft beside its path, and then moves it there.
    pub(super) fn run(&self) -> Result<ExportReport> {
        let path = &self.request.path;
        if !self.request.replaces_file && fs::symlink_metadata(path).is_ok() {
            return Err(file_exists_error(path));
        }
        let draft = paths::draft_path(path);
        let written = self.write_draft(&draft).and_then(|report| {
            self.place_draft(&draft).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => file_exists_error(path),
                _ => file_error(path, "written", &error),
            })?;
            Ok(report)
        });
        if written.is_err() {
            // There may be no draft.
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn write_draft(&self, draft: &Path) -> Result<ExportReport> {
        let (values, contents) = self.find_contents()?;
        let mut executions = Vec::new();
        for (position, execution) in self.executions.iter().enumerate() {
            let journal = self.build_journal(execution, &values)?;
            let digest = Digest::compute(&journal);
            let entry = ManifestEntry::journal(position, journal.len() as u64, digest);
            executions.push(ManifestExecution::new(execution, entry));
        }
        let manifest = BundleManifest {
            format: FORMAT,
            midex: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: self.engine.shared.clock.now(),
            executions,
            contents: contents.values().map(|(entry, ..)| entry.clone()).collect(),
            redacted: self.request.redaction.names().cloned().collect(),
        };
        let json = serde_json::to_vec(&manifest)
            .map_err(|error| Error::internal("a manifest cannot be written").with_source(error))?;
        let to_error = |error| file_error(&self.request.path, "written", &error);
        let file = BufWriter::new(paths::create_new_file(draft).map_err(to_error)?);
        let mut archive = ArchiveWriter::new(file).map_err(to_error)?;
        let mut write = |name: &str, content: &[u8]| {
            check_size(name, content)?;
            archive.write_entry(name, content).map_err(to_error)
        };
        write(MANIFEST_NAME, &json)?;
        for (execution, listed) in self.executions.iter().zip(&manifest.executions) {
            write(&listed.journal.path, &self.build_journal(execution, &values)?)?;
        }
        // The next content is read while one is compressed.
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(0);
            let contents = &contents;
            scope.spawn(move || {
                for (entry, source, role) in contents.values() {
                    // The receiver is gone once a content could not be written.
                    if sender.send((entry, self.load_redacted(*source, *role))).is_err() {
                        return;
                    }
                }
            });
            receiver.into_iter().try_for_each(|(entry, content)| write(&entry.path, &content?))
        })?;
        let file = archive.finish().map_err(to_error)?;
        let file = file.into_inner().map_err(|error| to_error(error.into_error()))?;
        file.sync_all().map_err(to_error)?;
        let bytes = file.metadata().map_err(to_error)?.len();
        Ok(ExportReport { executions: self.executions.len(), contents: contents.len(), bytes })
    }

    /// The values that the rows name, and those of them that are contents.
    fn find_contents(&self) -> Result<(NamedValues, ExportedContents)> {
        let (mut values, redaction) = (NamedValues::default(), &self.request.redaction);
        for _ in 0..if redaction.is_empty() { 1 } else { 2 } {
            for execution in &self.executions {
                self.visit_rows(execution, |mut row| {
                    values.collect(&mut row, execution.parent().is_some(), redaction);
                })?;
            }
        }
        let mut contents = BTreeMap::new();
        for (source, role) in values.roles.clone() {
            let Some(stored) = self.load_content(source)? else {
                continue;
            };
            let (mut digest, mut bytes) = (source, stored.len() as u64);
            if let Some(redacted) = redaction.redact_content(&stored, role) {
                (digest, bytes) = (Digest::compute(&redacted), redacted.len() as u64);
            }
            values.values.insert(source, (digest, bytes));
            let entry = ManifestEntry::content(bytes, digest, Some(role));
            contents.insert(digest, (entry, source, role));
        }
        Ok((values, contents))
    }

    /// The rows of an execution, one line of JSON for each.
    fn build_journal(&self, execution: &Execution, values: &NamedValues) -> Result<Vec<u8>> {
        let (mut journal, redaction) = (String::new(), &self.request.redaction);
        self.visit_rows(execution, |mut row| {
            if !redaction.is_empty() {
                values.redact(&mut row, redaction);
            }
            journal += &row.to_string();
            journal.push('\n');
        })?;
        Ok(journal.into_bytes())
    }

    fn visit_rows(
        &self,
        execution: &Execution,
        mut visit: impl FnMut(serde_json::Value),
    ) -> Result<()> {
        self.engine.shared.check_running()?;
        let rows = self.runtime.block_on(self.engine.shared.store.load_history(execution.id()))?;
        // The execution may have moved since.
        for row in rows.into_iter().filter(|row| row.revision <= execution.revision()) {
            visit(to_portable_json(row)?);
        }
        Ok(())
    }

    fn load_content(&self, digest: Digest) -> Result<Option<Arc<[u8]>>> {
        self.engine.shared.check_running()?;
        self.runtime.block_on(self.engine.shared.store.load_content(digest))
    }

    fn load_redacted(&self, source: Digest, role: ContentRole) -> Result<Arc<[u8]>> {
        let stored = self.load_content(source)?;
        let stored = stored.ok_or_else(|| Error::internal("a content is gone"))?;
        let redacted = self.request.redaction.redact_content(&stored, role);
        Ok(redacted.map_or(stored, Arc::from))
    }

    /// Gives the draft its name. Unless a file is to be replaced, one that came meanwhile stays.
    fn place_draft(&self, draft: &Path) -> io::Result<()> {
        let path = &self.request.path;
        if self.request.replaces_file {
            fs::rename(draft, path)?;
        } else {
            paths::move_to_new_name(draft, path)?;
        }
        paths::sync_directory(path.parent().unwrap_or(path))
    }
}

/// Refuses an entry that an import would refuse.
fn check_size(name: &str, content: &[u8]) -> Result<()> {
    if content.len() as u64 <= limits::BUNDLE_ENTRY_BYTES_MAX {
        return Ok(());
    }
    let limit = format!("an entry of a bundle may have {} bytes", limits::BUNDLE_ENTRY_BYTES_MAX);
    let message = format!("{limit}, `{name}` would have {}", content.len());
    Err(Error::limit_exceeded(limit).with_message(message))
}

fn file_exists_error(path: &Path) -> Error {
    let path = path.display().to_string();
    Error::new(Code::FileExists, format!("`{path}` exists already")).with_context("path", path)
}
