//! The directory entries to watch in order to notice that a path resolves differently than before.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf, absolute},
};

use crate::limits;

/// A directory, free of links, and the name in it to watch.
pub(super) type WatchPoint = (PathBuf, OsString);

/// Every entry whose change may make `path` resolve differently: each link on its way, and the first name that is missing,
/// else the last. Other directories on the way are assumed to stay, for every point costs a watch.
pub(super) fn of(path: &Path) -> BTreeSet<WatchPoint> {
    let mut way = Resolving {
        at: PathBuf::new(),
        rest: absolute(path).unwrap_or_else(|_| path.to_owned()),
        links: 0,
        points: BTreeSet::new(),
    };
    while way.step() {}
    way.points
}

/// A path that is being resolved.
struct Resolving {
    /// The directory resolved so far, free of links.
    at: PathBuf,
    /// The rest of the path.
    rest: PathBuf,
    links: usize,
    points: BTreeSet<WatchPoint>,
}

impl Resolving {
    /// Resolves one name; `false` at the end.
    fn step(&mut self) -> bool {
        let mut parts = self.rest.components();
        let part = parts.next();
        let rest = parts.as_path().to_owned();
        match part {
            None => return false,
            Some(Component::Normal(name)) => {
                let name = name.to_owned();
                return self.enter(name, rest);
            }
            Some(Component::ParentDir) => {
                self.at.pop();
            }
            // A root replaces what stands before it.
            Some(other) => self.at.push(other),
        }
        self.rest = rest;
        true
    }

    fn enter(&mut self, name: OsString, rest: PathBuf) -> bool {
        let next = self.at.join(&name);
        let target = match fs::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => fs::read_link(&next).ok(),
            Ok(_) if !rest.as_os_str().is_empty() => {
                (self.at, self.rest) = (next, rest);
                return true;
            }
            Ok(_) | Err(_) => None,
        };
        self.points.insert((self.at.clone(), name));
        self.links += 1;
        let Some(target) = target.filter(|_| self.links <= limits::WATCHED_LINKS_MAX) else {
            return false;
        };
        self.rest = target.join(rest);
        true
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The points of `path` below `root`, as `directory name`.
    fn points(root: &Path, path: &str) -> Vec<String> {
        let shown = |(directory, name): &WatchPoint| {
            let directory = directory.strip_prefix(root).ok()?.display();
            Some(format!("{directory}/{}", name.display()))
        };
        of(&root.join(path)).iter().filter_map(shown).collect()
    }

    #[test]
    fn a_point_is_the_last_name_or_the_first_that_is_missing_or_a_link() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/workflows")).unwrap();
        fs::create_dir(root.join("b")).unwrap();
        assert_eq!(points(&root, "a/workflows"), ["a/workflows"]);
        assert_eq!(points(&root, "a/../a/./workflows/"), ["a/workflows"]);
        assert_eq!(points(&root, "a/none"), ["a/none"]);
        assert_eq!(points(&root, "none/at/all"), ["/none"]);
        symlink("../a", root.join("b/link")).unwrap();
        assert_eq!(points(&root, "b/link/workflows"), ["a/workflows", "b/link"]);
        symlink(root.join("a/gone"), root.join("b/dangling")).unwrap();
        assert_eq!(points(&root, "b/dangling/w"), ["a/gone", "b/dangling"]);
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(points(&root, "loop/w"), ["/loop"]);
    }

    #[test]
    fn so_many_links_are_followed_and_no_more() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let max = limits::WATCHED_LINKS_MAX;
        for link in 0..=max {
            symlink(format!("l{}", link + 1), root.join(format!("l{link}"))).unwrap();
        }
        // The last name is no link.
        assert_eq!(points(&root, "l1").len(), max + 1);
        assert!(points(&root, "l1").contains(&format!("/l{}", max + 1)));
        assert!(!points(&root, "l0").contains(&format!("/l{}", max + 1)));
    }
}
