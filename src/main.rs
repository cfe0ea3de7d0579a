//! The `midex` binary: parse, run, exit.

use std::process::ExitCode;

/// Allocations of one thread are freed by another all the time here: the store writes what callers made.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    midex_cli::main()
}
