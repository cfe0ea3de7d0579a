//! `midex completions`: what a shell needs to complete commands and options.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, EXIT_OK, unwritable};
use crate::error::Result;

/// Which shell to print completions for.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script.
pub fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> Result<u8> {
    let mut command = Cli::command();
    // The generator panics where it cannot write, and memory can always be written.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "midex", &mut script);
    out.write_all(&script).map_err(unwritable)?;
    Ok(EXIT_OK)
}
