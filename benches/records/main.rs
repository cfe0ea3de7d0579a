//! What removals, copies and lists of many executions cost, and how much they slow other calls: the real engine on a real
//! file. Each is judged beside a reference in the same run.
//!
//! * prune: calls beside a prune, in turns with the same calls alone.
//! * flat: the size of the file while executions are started and a retention removes them.
//! * export: an export of contents, beside zstd alone on the same bytes, and the memory that it needs.
//! * page: filtered pages among many executions, beside the same pages among few.
//! * backup: calls at a fixed rate beside a backup, and alone.
//!
//! `cargo bench --bench records` measures a share, and `MIDEX_LONG=1 cargo bench --bench records` the full counts, for half an
//! hour. Both print the figures and fail where one misses its bar; with a name after `--`, those alone.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says which bars were missed")]

mod calls;
mod copies;
#[path = "../support/executions.rs"]
mod executions;
#[path = "../support/figures.rs"]
mod figures;
#[path = "../support/manifest.rs"]
mod manifest;
mod pages;
mod removals;
#[path = "../steps/rig.rs"]
#[allow(dead_code, reason = "this bench needs a part of what the rig can do")]
mod rig;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "this bench needs the long workflow alone")]
mod support;

use std::process::ExitCode;

use self::{
    executions::{ends_at_once, fill, quantile, share, start},
    figures::{Figures, Table, run_tables},
};

/// As the binary allocates.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let tables: [(&str, Table); 5] = [
        ("prune", removals::prune_table),
        ("flat", removals::flat_table),
        ("export", copies::export_table),
        ("page", pages::table),
        ("backup", copies::backup_table),
    ];
    run_tables(&tables)
}

impl Figures {
    /// Prints the times of calls alone and beside some work, and their ratio with the most that it may be.
    fn compare(&mut self, work: &str, most: f64, alone: &[f64], beside: &[f64]) {
        for percent in [50, 99] {
            let [alone, beside] = [alone, beside].map(|times| quantile(times, percent));
            Self::print(&format!("p{percent} alone"), alone, "ms");
            Self::print(&format!("p{percent} beside {work}"), beside, "ms");
            self.hold(&format!("p{percent}, ratio"), beside / alone, "times", most);
        }
    }
}
