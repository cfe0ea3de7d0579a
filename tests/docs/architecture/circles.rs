//! Files that use each other in a circle must be read together, so there are few such groups and they are small.
//!
//! A use is a path that begins with `crate`, `super` or `self`, followed through re-exports to the file that defines
//! the module. What a file uses of its own child modules is no use: they are its parts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{code, sources, word};

const GROUPS_MAX: usize = 3;
const FILES_PER_GROUP_MAX: usize = 3;

type Module = Vec<String>;

/// What a file says of others.
#[derive(Default)]
struct File {
    /// Paths that it uses, from the root of the crate.
    uses: Vec<Module>,
    /// Names that it gives on, with the paths that they stand for.
    exports: BTreeMap<String, Module>,
}

fn files() -> BTreeMap<Module, File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let of = |path: &Path| {
        let inside = path.strip_prefix(&root).unwrap().with_extension("");
        let parts = inside
            .iter()
            .map(|part| part.to_str().unwrap().to_owned())
            .filter(|part| !["mod", "lib"].contains(&part.as_str()));
        parts.collect::<Module>()
    };
    let paths = sources(&root).into_iter();
    let paths = paths.map(|path| (of(&path), path));
    paths
        .filter(|(module, _)| !module.iter().any(|part| part == "tests" || part == "main"))
        .map(|(module, path)| {
            let file = read(&module, &code(&path).join(" "));
            (module, file)
        })
        .collect()
}

fn read(module: &Module, text: &str) -> File {
    let mut file = File::default();
    for statement in text.split_inclusive(';') {
        if let Some(tree) = exported(statement) {
            for path in expand(tree) {
                let name = path.last().unwrap().clone();
                file.exports.insert(name, absolute(module, path));
            }
        } else {
            let used = starts(statement).flat_map(|at| expand(&statement[at..]));
            file.uses.extend(used.map(|path| absolute(module, path)));
        }
    }
    file
}

/// The paths of a re-export.
fn exported(statement: &str) -> Option<&str> {
    let (before, tree) = statement.split_once("use ")?;
    let visibility = before.trim_start().starts_with("pub") && !before.contains('{');
    visibility.then(|| tree.trim_end_matches(';'))
}

/// Where paths begin.
fn starts(text: &str) -> impl Iterator<Item = usize> {
    let heads = ["crate::", "super::", "self::"].into_iter();
    heads.flat_map(move |head| {
        let places = text.match_indices(head).map(|(at, _)| at);
        places.filter(|at| {
            !text[..*at].ends_with(|c: char| c == ':' || c == '_' || c.is_alphanumeric())
        })
    })
}

/// The paths of a tree of imports: `a::{b, c::d}` are `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Module> {
    let tree = tree.trim_start();
    let first = word(tree);
    let rest = &tree[first.len()..];
    if let Some(group) = tree.strip_prefix('{') {
        return split(group).into_iter().flat_map(expand).collect();
    }
    match rest.strip_prefix("::") {
        Some(rest) if rest.starts_with(|c: char| c.is_alphabetic() || c == '{' || c == '_') => {
            let ends = expand(rest).into_iter();
            ends.map(|end| [vec![first.clone()], end].concat()).collect()
        }
        _ if first.is_empty() => Vec::new(),
        _ => vec![vec![first]],
    }
}

/// The parts of a group, up to its end.
fn split(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        if letter == '}' && from == at + 1 {
            break;
        }
    }
    parts
}

/// A path below `src`: a crate's name, and what it has. One that begins with none of the three words begins in the file itself.
fn absolute(module: &Module, path: Module) -> Module {
    let mut base = module.clone();
    let mut rest = path.as_slice();
    while let [first, more @ ..] = rest {
        match first.as_str() {
            "crate" => base.truncate(1),
            "super" => drop(base.pop()),
            "self" => {}
            _ => break,
        }
        rest = more;
    }
    base.extend_from_slice(rest);
    base
}

/// The file that defines what a path leads to.
fn defining(files: &BTreeMap<Module, File>, path: &Module) -> Module {
    let mut path = path.clone();
    for _ in 0..20 {
        let known = (0..=path.len()).rev().find(|len| files.contains_key(&path[..*len]));
        let at = known.unwrap();
        let exported = path.get(at).and_then(|name| files[&path[..at]].exports.get(name));
        match exported {
            Some(target)
                if files.keys().any(|file| !file.is_empty() && target.starts_with(file)) =>
            {
                path = [target.clone(), path[at + 1..].to_vec()].concat();
            }
            _ => return path[..at].to_vec(),
        }
    }
    panic!("{path:?} leads in a circle")
}

fn reached<'a>(
    edges: &'a BTreeMap<Module, BTreeSet<Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(module) = left.pop() {
        left.extend(edges[module].iter().filter(|next| found.insert(*next)));
    }
    found
}

/// The files that reach each other.
fn groups(files: &BTreeMap<Module, File>) -> BTreeSet<BTreeSet<Module>> {
    let edges: BTreeMap<_, BTreeSet<_>> = files
        .iter()
        .map(|(module, file)| {
            let used = file.uses.iter().map(|path| defining(files, path));
            let others = used.filter(|other| !other.starts_with(module));
            (module.clone(), others.collect())
        })
        .collect();
    let reached: BTreeMap<_, _> = files.keys().map(|file| (file, reached(&edges, file))).collect();
    let group = |file: &Module| {
        let there = reached[file].iter();
        let back = there.filter(|other| reached[**other].contains(file));
        back.map(|other| (*other).clone()).collect()
    };
    let groups = files.keys().map(group);
    groups.filter(|group: &BTreeSet<_>| group.len() > 1).collect()
}

#[test]
fn few_files_use_each_other_in_a_circle() {
    let files = files();
    let groups = groups(&files);
    let listed: Vec<Vec<_>> =
        groups.iter().map(|group| group.iter().map(|file| file.join("/")).collect()).collect();
    assert!(groups.len() <= GROUPS_MAX, "{listed:#?}");
    let large = listed.iter().find(|group| group.len() > FILES_PER_GROUP_MAX);
    assert!(large.is_none(), "{large:#?}");
}

#[test]
fn uses_are_followed_to_the_file_that_defines() {
    let module = |text: &str| text.split("::").map(str::to_owned).collect::<Module>();
    let texts = [
        ("k::a", "mod b; pub use self::b::{B, more};"),
        ("k::a::b", "use crate::{c::{C, D as E}, limits};"),
        ("k::c", "fn f() { super::a::more::call() }"),
        ("k::d", "use super::a::{self, f};"),
        ("k", ""),
    ];
    let mut files: BTreeMap<_, _> =
        texts.into_iter().map(|(name, text)| (module(name), read(&module(name), text))).collect();
    files.insert(Vec::new(), File::default());
    let expected = [module("k::a::b"), module("k::c")];
    assert_eq!(groups(&files), [BTreeSet::from(expected)].into());
}
