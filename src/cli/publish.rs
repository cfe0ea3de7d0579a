//! `midex publish`: shares the definitions of a project, and catalogs of the user, with all servers of a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;

use super::{
    EXIT_OK, Output,
    cluster::publish_files,
    config::read_project_directories,
    print_warning, takes_color,
    validate::{ValidateArgs, format_count, validate},
};
use midex_catalog::{CatalogSet, Catalogs, call::SecretSources};
use midex_domain::{
    check::{OperationsSnapshot, ServerCapabilities},
    error::{Code, Error, Result},
    finding::Rule,
};
use midex_registry::{
    DefinitionKind, DefinitionPlaces, FileReport, Registry, Source, validate_paths,
};
use midex_server::config::Config;

/// The project and the catalogs to publish, and the database.
#[derive(Debug, clap::Args)]
pub(super) struct PublishArgs {
    /// The database of the cluster, `postgres://USER@HOST/DATABASE`
    #[arg(long, value_name = "URL")]
    to: String,
    /// The directory of the project; without it, the project that contains the working directory
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Publish this catalog of yours too; may be given several times
    #[arg(long = "catalog", value_name = "CATALOG")]
    catalogs: Vec<String>,
}

/// The texts of files by the path that they are published as.
pub(super) type Files = BTreeMap<String, String>;

/// Checks the project as the servers will see it, and publishes it if it has no errors.
///
/// # Errors
/// `USAGE_INVALID` for what cannot be published; `CATALOG_NOT_FOUND`; those of the database.
pub(super) async fn publish(args: PublishArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let project = args.project.unwrap_or_else(|| config.project_dir.clone());
    let places = DefinitionPlaces::of_project(&project, read_project_directories(&project)?);
    let (mut files, catalogs) = read_catalogs(config, &args.catalogs)?;
    let abilities = ServerCapabilities {
        operations: Some(OperationsSnapshot::capture(Arc::new(catalogs))),
        ..ServerCapabilities::default()
    };
    let mut sources = places.sources();
    // Agents that are a host's own are not published.
    sources.agents.retain(|directory| directory.source == Source::Project);
    let registry = Registry::load_with_abilities(&sources, &abilities);
    let reports = validate_paths(&[], &registry)?;
    if reports.iter().any(FileReport::is_broken) {
        let mut findings = reports.iter().flat_map(|report| &report.findings);
        if findings.any(|finding| finding.rule == Rule::UnknownCatalog) {
            print_warning("a catalog is published only if it is named: --catalog NAME");
        }
        return validate(&ValidateArgs::default(), &registry, takes_color(), out);
    }
    add_definitions(&mut files, &registry, &reports)?;
    let (version, previous) = publish_files(&args.to, &files).await?;
    let changes = compare_files(&files, &previous);
    let is_new = !changes.is_empty();
    let count = files.len();
    let as_json =
        || json!({ "version": version, "published": is_new, "files": count, "changes": changes });
    out.print(as_json, || {
        let outcome = if is_new { "Published" } else { "Nothing has changed since" };
        let lines = changes.iter().map(|(path, change)| format!("  {change:<8} {path}\n"));
        let lines: String = lines.collect();
        format!("{outcome} version {version}: {}\n{lines}", format_count(count, "file"))
    })?;
    Ok(EXIT_OK)
}

/// Reads the files of the catalogs of these names, and the catalogs themselves.
fn read_catalogs(config: &Config, names: &[String]) -> Result<(Files, CatalogSet)> {
    let mut files = Files::new();
    let Some(paths) = config.catalogs.as_ref().filter(|_| !names.is_empty()) else {
        return Ok((files, CatalogSet::default().select(names)?));
    };
    let catalogs = Catalogs::open(paths.clone(), SecretSources::default());
    let set = catalogs.last_loaded_catalogs().select(names)?;
    for catalog in set.catalogs() {
        let id = &catalog.id;
        if let Some(name) = catalog.literal_secrets().next() {
            let message = format!("the file of the catalog `{id}` has the value of `{name}`");
            return Err(Error::new(Code::UsageInvalid, message).with_action("Let it refer to the value as `${env:NAME}`, with `midex catalog headers` or `midex catalog credential`"));
        }
        for path in [paths.settings_path(id), paths.document_path(id)] {
            let text = fs::read_to_string(&path).map_err(|error| {
                let message = format!("{} cannot be published: {error}", path.display());
                Error::new(Code::FileUnusable, message)
                    .with_context("path", path.display().to_string())
            })?;
            let name = path.file_name().unwrap_or_default().display();
            files.insert(format!("catalogs/{id}/{name}"), text);
        }
    }
    Ok((files, set))
}

/// Adds the definitions of the project among the files that were checked. Of several with a name, only the one in effect.
fn add_definitions(files: &mut Files, registry: &Registry, reports: &[FileReport]) -> Result<()> {
    let mut names = BTreeSet::new();
    for report in reports {
        let (kind, directories) = match report.kind {
            DefinitionKind::Workflow => ("workflows", &registry.sources().workflows),
            DefinitionKind::Agent => ("agents", &registry.sources().agents),
        };
        let path = Path::new(&report.path);
        let relative = directories.iter().find_map(|one| path.strip_prefix(&one.path).ok());
        let Some(relative) = relative.filter(|_| names.insert((kind, &report.name))) else {
            continue;
        };
        let path = format!("{kind}/{}", relative.display());
        if files.insert(path.clone(), report.text.clone()).is_some() {
            let message = format!("two files of the project would be published as `{path}`");
            return Err(Error::new(Code::UsageInvalid, message).with_action("Rename one of them"));
        }
    }
    if names.is_empty() {
        let message = "the project has no workflows and no agents";
        return Err(Error::new(Code::UsageInvalid, message)
            .with_action("Run the command in a project, or name one with --project"));
    }
    Ok(())
}

/// The paths of files that differ from those of the version before, and how.
fn compare_files<'a>(files: &'a Files, previous: &'a Files) -> BTreeMap<&'a str, &'static str> {
    let removed = previous.keys().filter(|path| !files.contains_key(*path));
    let removed = removed.map(|path| (path.as_str(), "removed"));
    let present = files.iter().filter_map(|(path, text)| match previous.get(path) {
        None => Some((path.as_str(), "added")),
        Some(before) => (before != text).then_some((path.as_str(), "changed")),
    });
    present.chain(removed).collect()
}
