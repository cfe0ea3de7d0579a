//! What is written for users is so.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

use std::{fs, path::Path};

mod architecture;
mod beside;
mod code;
mod commands;
mod embedding;
mod errors;
mod grammar;
mod house;
mod library;
mod line_client;
mod manual;
mod mcp;
mod orchestrator;
mod orchestrator_rules;
mod packages;
mod pages;
mod patterns;
mod pictures;
mod readme;
pub(crate) mod release;
mod session_rules;
mod sessions;
mod shipped;

/// Holds a page against what it is written from; with `MIDEX_WRITE_DOCS` it is written anew.
#[track_caller]
fn hold(file: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("MIDEX_WRITE_DOCS").is_some() {
        fs::write(&path, page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{file} is not what it is written from: `MIDEX_WRITE_DOCS=1 cargo test --test docs` writes it anew"
    );
}
