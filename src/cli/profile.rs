//! The flags of `midex serve` for the tools that it offers to clients.

use clap::{Args, ValueEnum};

use midex_mcp::{ToolNames, ToolProfile, Toolsets, format_toolsets_help};

/// The flags for the tools that a server offers.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ProfileArgs {
    /// Toolsets to offer, separated by commas
    #[arg(
        long, value_name = "SETS", default_value_t = Toolsets::ALL, value_parser = Toolsets::parse,
        long_help = format!("Toolsets to offer, separated by commas:\n{}", format_toolsets_help())
    )]
    toolsets: Toolsets,
    /// How tool names are spelled in lists; calls accept both spellings
    #[arg(long, value_name = "SPELLING", value_enum, default_value_t = NameSpelling::Auto)]
    tool_names: NameSpelling,
}

/// How names are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NameSpelling {
    #[value(help = "workflow.start, but workflow_start for clients known to reject dots")]
    Auto,
    #[value(help = "workflow.start")]
    Dotted,
    #[value(help = "workflow_start")]
    Underscored,
}

impl From<ProfileArgs> for ToolProfile {
    fn from(args: ProfileArgs) -> Self {
        Self {
            toolsets: args.toolsets,
            tool_names: match args.tool_names {
                NameSpelling::Auto => ToolNames::Auto,
                NameSpelling::Dotted => ToolNames::Dotted,
                NameSpelling::Underscored => ToolNames::Underscored,
            },
        }
    }
}
