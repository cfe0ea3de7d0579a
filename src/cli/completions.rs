//! `midex completions`: prints a shell's script for completing commands and options.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, EXIT_OK, Output};
use crate::error::Result;

/// Which shell to print completions for.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
pub fn completions(args: &CompletionsArgs, mut out: Output<'_>) -> Result<u8> {
    let mut command = Cli::command();
    // The generator panics if it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "midex", &mut script);
    out.write(script).map(|()| EXIT_OK)
}
