//! The house keeps its shape: layers look one way, and each outside crate has one place.

mod circles;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Rooms, and the rooms of their own crate that each may use. What a crate may use of others its `Cargo.toml` says.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain/uri", &[]),
    ("domain/limits", &[]),
    ("domain/error", &["address", "uri", "limits"]),
    ("domain/clock", &["error", "limits", "uri"]),
    ("engine/activity", &[]),
    ("engine/store", &[]),
    ("server/config", &[]),
];

/// Outside crates that one crate of ours uses, and in it these rooms alone.
const NAMED_ONLY_IN: &[(&str, &[&str])] = &[
    ("redb", &["engine/store"]),
    (
        "ractor",
        &[
            "engine/actor",
            "engine/directory",
            "engine/dispatch",
            "engine/lib",
            "engine/message",
            "engine/supervisor",
        ],
    ),
    ("axum", &["http"]),
    ("hyper", &["http"]),
    ("hyper_util", &["http"]),
    ("tower_http", &["http"]),
    ("postcard", &["engine/store", "catalog/document"]),
    ("serde_saphyr", &["registry", "catalog/document"]),
    ("maud", &["dashboard"]),
    ("minijinja", &["domain/expression"]),
    ("regex_automata", &["domain/schema"]),
    ("reqwest", &["catalog/call", "cluster"]),
    ("rustls", &["catalog/call", "cluster", "postgres/connection"]),
    ("tar", &["engine/bundle"]),
    ("zstd", &["engine/bundle"]),
    ("toml_edit", &["catalog", "cli", "server/config/trust"]),
];

/// Rooms of the domain, and those that each must not know.
const INNER_WALLS: &[(&str, &[&str])] = &[
    ("state", &["definition", "event", "execution", "view", "check"]),
    ("failure", &["definition", "event", "execution", "view", "check"]),
    ("document", &["definition", "event", "execution", "view", "check"]),
    ("schema", &["definition", "event", "execution", "view", "check"]),
    ("expression", &["definition", "event", "execution", "view", "check"]),
    ("input", &["definition", "event", "execution", "view", "check"]),
    ("grammar", &["definition", "event", "execution", "view"]),
    ("event", &["definition", "execution", "view", "check", "telemetry"]),
    ("definition", &["event", "execution", "view", "check", "draft", "telemetry"]),
    ("check", &["event", "execution", "view", "telemetry"]),
    ("telemetry", &["definition", "execution", "view", "check"]),
    ("execution", &["view", "check", "grammar", "telemetry"]),
    ("view", &["check", "draft"]),
];

/// Words that the pure domain may not hold.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::time::SystemTime",
    "tokio",
    "async fn",
    ".await;",
    ".await?",
    "rand::",
    "std::thread",
    "std::env",
];

/// The lines of code of a source file: no comments, and no test module at its end.
fn code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("\n#[cfg(test)]").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned).collect()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file of the crates under `src`.
fn house() -> Vec<PathBuf> {
    sources(&root().join("src"))
}

/// The modules of this crate that a file names, also inside grouped imports.
fn used(lines: &[String]) -> Vec<String> {
    let text = lines.join("\n");
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(heads(group)),
            None => found.push(word(rest)),
        }
    }
    found
}

/// The first word of every item of a group, skipping what is nested.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut found) = (0, true, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            letter if start && letter.is_alphabetic() => {
                found.push(word(&group[at..]));
                start = false;
            }
            _ => {}
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Whether a source file lies in this room.
fn is_in(path: &Path, room: &str) -> bool {
    let inside = path.strip_prefix(root().join("src")).unwrap();
    inside.with_extension("").starts_with(room)
}

#[test]
fn rooms_of_a_crate_look_down() {
    for (room, others) in MAY_USE {
        let own = room.rsplit('/').next().unwrap();
        let mut files = house().into_iter().filter(|path| is_in(path, room)).peekable();
        assert!(files.peek().is_some(), "there is no {room}");
        for path in files {
            for name in used(&code(&path)) {
                let may = name == own || others.contains(&name.as_str());
                assert!(may, "{} may not use `{name}`", path.display());
            }
        }
    }
}

/// The engine is no dependency of theirs, but [`App`](midex_server::app::App) lends it to programs that embed midex.
#[test]
fn faces_reach_the_engine_through_the_app_alone() {
    for path in house() {
        if is_in(&path, "mcp") || is_in(&path, "cli") {
            for line in code(&path) {
                assert!(!mentions(&line, "engine()"), "{}: {line}", path.display());
            }
        }
    }
}

/// What a crate logs is withheld unless the log knows the crate.
#[test]
fn the_log_knows_every_crate() {
    let log = fs::read_to_string(root().join("src/cli/log.rs")).unwrap();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        if path.join("Cargo.toml").exists() {
            let name = format!("\"midex_{}\",", path.file_name().unwrap().to_str().unwrap());
            assert!(log.contains(&name), "`OWN_CRATES` of src/cli/log.rs lacks {name}");
        }
    }
}

#[test]
fn grouped_imports_are_seen_through() {
    let lines = [
        "use crate::{".into(),
        "    app::{App, config}, engine::Engine, error,".into(),
        "};".into(),
    ];
    assert_eq!(used(&lines), ["app", "engine", "error"]);
}

#[test]
fn outside_crates_are_named_in_one_place() {
    for path in house() {
        for line in code(&path) {
            for (name, places) in NAMED_ONLY_IN {
                let named =
                    line.contains(&format!("{name}::")) || line.contains(&format!("use {name}"));
                assert!(
                    !named || places.iter().any(|place| is_in(&path, place)),
                    "{}: {line}",
                    path.display()
                );
            }
        }
    }
}

/// Whether the line has these words, and not only the end of a longer one.
fn mentions(line: &str, words: &str) -> bool {
    let mut places = line.match_indices(words);
    places.any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[test]
fn the_domain_is_pure() {
    for path in house() {
        // The clocks of the system are the one way in; everything else takes time and randomness as arguments.
        if is_in(&path, "domain") && !is_in(&path, "domain/clock") {
            for line in code(&path) {
                let impure = IMPURE.iter().find(|word| mentions(&line, word));
                assert!(impure.is_none(), "{}: {line}", path.display());
            }
        }
    }
}

#[test]
fn the_rooms_of_the_domain_keep_their_walls() {
    for (room, nevers) in INNER_WALLS {
        let room = format!("domain/{room}");
        let files: Vec<_> = house().into_iter().filter(|path| is_in(path, &room)).collect();
        assert!(!files.is_empty(), "there is no {room}");
        for path in files {
            for line in code(&path) {
                let named = |never: &&&str| mentions(&line, &format!("{never}::"));
                let broken = nevers.iter().find(named);
                assert!(broken.is_none(), "{}: {line}", path.display());
            }
        }
    }
}

#[test]
fn files_stay_under_the_wall() {
    for path in house().into_iter().chain(sources(&root().join("benches/bench"))) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 600, "{} has {lines} lines", path.display());
    }
}

/// The files of the modules that a file declares, and those of theirs.
fn declared(root: &Path, found: &mut BTreeSet<PathBuf>) {
    if !found.insert(root.to_owned()) {
        return;
    }
    // The modules of `main.rs`, `lib.rs` and `mod.rs` lie beside them, those of others in a directory of their name.
    let is_root = ["main.rs", "lib.rs", "mod.rs"].iter().any(|name| root.ends_with(name));
    let directory =
        if is_root { root.parent().unwrap().to_owned() } else { root.with_extension("") };
    let lines = code(root);
    for (at, line) in lines.iter().enumerate() {
        let declaration = line.trim().strip_suffix(';').unwrap_or_default();
        // The file of an example, which is not one of the tests.
        if at.checked_sub(1).is_some_and(|before| lines[before].starts_with("#[path")) {
            continue;
        }
        let Some((visibility, name)) = declaration.rsplit_once("mod ") else {
            continue;
        };
        if !visibility.is_empty() && !visibility.starts_with("pub") {
            continue;
        }
        let beside = directory.join(name).with_extension("rs");
        let inside = directory.join(name).join("mod.rs");
        declared(if beside.exists() { &beside } else { &inside }, found);
    }
}

#[test]
fn every_file_of_tests_belongs_to_a_binary() {
    let tests = root().join("tests").canonicalize().unwrap();
    let mut found = BTreeSet::new();
    for manifest in ["", "src/engine", "src/postgres", "tests/support"] {
        let directory = root().join(manifest);
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        for path in manifest.lines().filter_map(|line| line.strip_prefix("path = \"")) {
            let path = directory.join(path.trim_end_matches('"')).canonicalize().unwrap();
            if path.starts_with(&tests) {
                declared(&path, &mut found);
            }
        }
    }
    let files = sources(&tests);
    let lost: Vec<_> = files.iter().filter(|file| !found.contains(*file)).collect();
    assert!(lost.is_empty(), "no binary of tests has {lost:#?}");
}
