//! Writes definitions: a new file appears whole or not at all, and replaces another only on request.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use super::{Directory, Registry, Source, Sources, template::Template, validate::Kind};
use crate::{
    clock::IdSource,
    error::{Code, Error, Result},
};

/// What to do with an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and nothing is written.
    Keep,
    /// It is replaced.
    Replace,
}

/// Writes a new definition into the `workflows/` or `agents/` of `project`, which is made if need be.
/// Gives the path of the file. Refused: a name that cannot be a file's, a file that exists (unless it is
/// to be replaced), and a name that another file of the directory gives.
pub fn create(
    template: &Template,
    project: &Path,
    existing: Existing,
    ids: &dyn IdSource,
) -> Result<PathBuf> {
    let directory = project.join(match template.kind() {
        Kind::Workflow => "workflows",
        Kind::Agent => "agents",
    });
    let path = directory.join(template.file_name()?);
    if let Some(other) = other_with_name(template, &directory).filter(|other| *other != path) {
        let message = format!(
            "the name `{}` is taken by {}",
            template.name(),
            other.display()
        );
        return Err(exists(&other, message).with_action("Edit {path}, or choose another name"));
    }
    fs::create_dir_all(&directory).map_err(|error| unusable(&directory, error))?;
    write(&path, &template.text(), existing, ids)?;
    Ok(path)
}

/// The file of `directory` that counts for the template's name.
fn other_with_name(template: &Template, directory: &Path) -> Option<PathBuf> {
    if !directory.is_dir() {
        return None;
    }
    let directories = vec![Directory {
        source: Source::Project,
        path: directory.to_owned(),
    }];
    let (mut workflows, mut agents) = (Vec::new(), Vec::new());
    match template.kind() {
        Kind::Workflow => workflows = directories,
        Kind::Agent => agents = directories,
    }
    let registry = Registry::load(&Sources { workflows, agents });
    match template.kind() {
        Kind::Workflow => registry.workflow(template.name())?.path.clone(),
        Kind::Agent => registry.agent(template.name())?.path.clone(),
    }
}

fn write(path: &Path, text: &str, existing: Existing, ids: &dyn IdSource) -> Result<()> {
    // Beside the file, so that taking its place is one step; readers of definitions pass over hidden files.
    let name = format!(".midex-{:032x}.tmp", ids.random());
    let temporary = path.with_file_name(name);
    let written = write_new(&temporary, text).and_then(|()| match existing {
        Existing::Replace => fs::rename(&temporary, path),
        Existing::Keep => place_new(&temporary, path, |from, to| fs::hard_link(from, to)),
    });
    // It is gone already where it was renamed; what is left behind where it was not must not stay.
    let _ = fs::remove_file(&temporary);
    written.map_err(|error| match (existing, error.kind()) {
        (Existing::Keep, io::ErrorKind::AlreadyExists) => {
            exists(path, format!("{} exists already", path.display()))
        }
        _ => unusable(path, error),
    })
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Gives the file at `from` the name `to`, which nobody may have.
fn place_new(
    from: &Path,
    to: &Path,
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    match link(from, to) {
        // Some file systems have no links: there an empty file keeps the name until the text takes its place.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            fs::File::create_new(to)?;
            fs::rename(from, to)
        }
        linked => linked,
    }
}

fn exists(path: &Path, message: String) -> Error {
    Error::new(Code::FileExists, message).with("path", path.display().to_string())
}

fn unusable(path: &Path, error: io::Error) -> Error {
    let shown = path.display().to_string();
    Error::new(
        Code::FileUnusable,
        format!("{shown} cannot be written: {}", error.kind()),
    )
    .with("path", shown)
    .because(error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::clock::{SeededIds, SystemIds};

    #[test]
    fn of_many_writers_one_wins_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w.md");
        let won = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (path, won) = (&path, &won);
                scope.spawn(move || {
                    let text = format!("{writer}").repeat(100_000);
                    match write(path, &text, Existing::Keep, &SystemIds) {
                        Ok(()) => assert_eq!(won.fetch_add(1, Ordering::SeqCst), 0),
                        Err(error) => assert_eq!(error.code(), Code::FileExists),
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, text[..1].repeat(100_000));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_system_without_links_is_written_too() {
        let directory = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
        let refuse = |_: &Path, _: &Path| Err(io::ErrorKind::Unsupported.into());
        fs::write(&from, "new").unwrap();
        place_new(&from, &to, refuse).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        fs::write(&from, "newer").unwrap();
        let error = place_new(&from, &to, refuse).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w.md");
        fs::create_dir(&path).unwrap();
        for (existing, code) in [
            (Existing::Replace, Code::FileUnusable),
            (Existing::Keep, Code::FileExists),
        ] {
            let error = write(&path, "x", existing, &SeededIds::new(1)).unwrap_err();
            assert_eq!(error.code(), code);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
