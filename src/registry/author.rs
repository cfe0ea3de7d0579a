//! Writes new definition files. A file appears completely or not at all, and replaces an existing one only on request.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    DefinitionDirectory, Registry, Source, Sources, template::DefinitionTemplate,
    validate::DefinitionKind,
};
use midex_domain::error::{Code, Error, Result, describe_io_error, repeat_call};
use midex_folder::{ExistingFilePolicy, Folder};

/// Writes a new definition into `workflows/` or `agents/` of `project`, which is created if necessary. Returns the path
/// of the file. Refuses a name that is not a valid file name, a file that exists (unless `existing` allows replacing
/// it), and a name that another file of the directory already has.
pub fn create_definition(
    template: &DefinitionTemplate,
    project: &Path,
    existing: ExistingFilePolicy,
) -> Result<PathBuf> {
    let directory = project.join(match template.kind() {
        DefinitionKind::Workflow => "workflows",
        DefinitionKind::Agent => "agents",
    });
    let name = template.file_name()?;
    let path = directory.join(&name);
    if let Some(existing_file) =
        find_file_with_same_name(template, &directory).filter(|other| *other != path)
    {
        let message =
            format!("the name `{}` is taken by {}", template.name(), existing_file.display());
        return Err(already_exists_error(&existing_file, message)
            .with_action("Edit {path}, or choose another name"));
    }
    let creation = if project.exists() { Ok(()) } else { fs::create_dir_all(project) };
    let folder = creation.and_then(|()| Folder::open_in(project, &directory));
    let folder = folder.map_err(|error| unusable_path_error(&directory, error))?;
    write_definition(&folder, &path, &template.text(), existing)?;
    Ok(path)
}

/// The file in `directory` that already has the template's name.
fn find_file_with_same_name(template: &DefinitionTemplate, directory: &Path) -> Option<PathBuf> {
    if !directory.is_dir() {
        return None;
    }
    let directories =
        vec![DefinitionDirectory { source: Source::Project, path: directory.to_owned() }];
    let (mut workflows, mut agents) = (Vec::new(), Vec::new());
    match template.kind() {
        DefinitionKind::Workflow => workflows = directories,
        DefinitionKind::Agent => agents = directories,
    }
    let registry = Registry::load(&Sources { workflows, agents, ..Sources::default() });
    match template.kind() {
        DefinitionKind::Workflow => registry.workflow(template.name())?.path.clone(),
        DefinitionKind::Agent => registry.agent(template.name())?.path.clone(),
    }
}

fn write_definition(
    folder: &Folder,
    path: &Path,
    text: &str,
    existing: ExistingFilePolicy,
) -> Result<()> {
    let name = path.file_name().unwrap_or_default();
    let result = folder.write(name, text.as_bytes(), None, existing);
    result.map_err(|error| match (existing, error.kind()) {
        (ExistingFilePolicy::Keep, io::ErrorKind::AlreadyExists) => {
            already_exists_error(path, format!("{} exists already", path.display()))
        }
        _ => unusable_path_error(path, error),
    })
}

fn already_exists_error(path: &Path, message: String) -> Error {
    Error::new(Code::FileExists, message).with_context("path", path.display().to_string())
}

pub(super) fn unusable_path_error(path: &Path, fault: io::Error) -> Error {
    let (path_text, is_disk_full) =
        (path.display().to_string(), fault.kind() == io::ErrorKind::StorageFull);
    let error = Error::new(
        Code::FileUnusable,
        format!("{path_text} cannot be written: {}", describe_io_error(&fault)),
    )
    .with_context("path", path_text);
    let error = error.with_source(fault);
    if is_disk_full {
        return error.with_next(
            repeat_call("what was there stays as it was")
                .after_person_does("free room on the file system of {path}"),
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_of_many_writers_wins() {
        let directory = tempfile::tempdir().unwrap();
        let won = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (directory, won) = (directory.path(), &won);
                scope.spawn(move || {
                    let text = format!("{writer}").repeat(100_000);
                    let folder = Folder::open(directory).unwrap();
                    match write_definition(
                        &folder,
                        &directory.join("w.md"),
                        &text,
                        ExistingFilePolicy::Keep,
                    ) {
                        Ok(()) => assert_eq!(won.fetch_add(1, Ordering::SeqCst), 0),
                        Err(error) => assert_eq!(error.code(), Code::FileExists),
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1);
        let text = fs::read_to_string(directory.path().join("w.md")).unwrap();
        assert_eq!(text, text[..1].repeat(100_000));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn failed_write_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("w.md")).unwrap();
        for (existing, code) in [
            (ExistingFilePolicy::Replace, Code::FileUnusable),
            (ExistingFilePolicy::Keep, Code::FileExists),
        ] {
            let folder = Folder::open(directory.path()).unwrap();
            let path = directory.path().join("w.md");
            let error = write_definition(&folder, &path, "x", existing).unwrap_err();
            assert_eq!(error.code(), code);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
