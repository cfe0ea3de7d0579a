//! What ARCHITECTURE.md and the READMEs of the crates name is there: files, types, constants and tests.

use std::{fs, path::Path};

const PAGES: [&str; 7] = [
    include_str!("../../ARCHITECTURE.md"),
    include_str!("../../src/catalog/README.md"),
    include_str!("../../src/cli/README.md"),
    include_str!("../../src/domain/README.md"),
    include_str!("../../src/engine/README.md"),
    include_str!("../../src/mcp/README.md"),
    include_str!("../../src/registry/README.md"),
];

/// How long ARCHITECTURE.md may be, in bytes: what is longer belongs to the README of a crate.
const ARCHITECTURE_MAX: usize = 20 << 10;

/// Where a path of them may begin.
const ROOTS: &[&str] = &["", "src", "src/domain", "src/engine", "src/server"];

/// The binaries of tests: a test is named by its path in one of them.
const SUBJECTS: &[&str] =
    &["authoring", "catalog", "cli", "contract", "docs", "engine", "mcp", "process", "store"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of every Rust file below `directory`.
fn text_below(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &text_below(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

/// Whether a file, a module or a directory has this path below one of the roots.
fn is_a_path(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    ROOTS.iter().any(|below| {
        let full = root().join(below).join(path);
        full.exists() || full.with_extension("rs").exists()
    })
}

/// Whether this is a test or a module of tests: `module::name`, `module`, `module::*`.
fn is_a_test(name: &str, tests: &str) -> bool {
    let (module, test) = name.rsplit_once("::").unwrap();
    let is_module = |name: &str| {
        let name = name.replace("::", "/");
        let mut subjects = SUBJECTS.iter();
        subjects.any(|subject| {
            name == **subject
                || is_a_path(&format!("tests/{subject}/{name}"))
                || is_a_path(&format!("tests/{name}"))
        })
    };
    let named = test == "*" || tests.contains(&format!("fn {test}("));
    is_module(name) || (is_module(module) && named)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn stands(code: &str, source: &str, tests: &str) -> bool {
    let last = code.rsplit("::").next().unwrap();
    if code.contains("::") && !last.starts_with(char::is_uppercase) {
        return is_a_test(code, tests) || source.contains(&format!("fn {last}"));
    }
    if code.contains('/') && code.split(['/', '.']).all(|part| part.is_empty() || is_word(part)) {
        return is_a_path(code);
    }
    // Types and constants; what is written small is a word of the manifest, of a reply or of the outside.
    !is_word(last) || !last.starts_with(char::is_uppercase) || source.contains(last)
}

#[test]
fn what_the_architecture_names_is_there() {
    let source = text_below(&root().join("src"));
    let tests = text_below(&root().join("tests"));
    assert!(PAGES[0].len() <= ARCHITECTURE_MAX, "{} bytes", PAGES[0].len());
    let pages = PAGES.iter().flat_map(|page| page.split("```").step_by(2));
    let prose: String = pages.collect();
    let codes = prose.split('`').skip(1).step_by(2);
    let gone: Vec<_> = codes.filter(|code| !stands(code, &source, &tests)).collect();
    assert!(gone.is_empty(), "named, and not there: {gone:?}");
}
