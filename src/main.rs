//! The `midex` binary: parse, run, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    midex::cli::main()
}
