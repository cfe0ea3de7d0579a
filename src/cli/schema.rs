//! `midex schema`: prints JSON Schemas for editors.

use super::{EXIT_OK, Output};
use midex_domain::error::Result;
use midex_registry::{self as registry, SchemaDraft, SchemaKind};

/// Which schema to print.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    after_help = "A schema cannot check everything: only `midex validate` finds unknown or cyclic dependencies, duplicate step ids and \
agents that do not exist."
)]
pub struct SchemaArgs {
    /// What the schema describes
    #[arg(value_enum, default_value_t)]
    pub of: SchemaKindArg,
    /// The version of JSON Schema
    #[arg(long, value_enum, default_value_t)]
    pub draft: SchemaDraftArg,
}

/// What a schema can be had of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaKindArg {
    /// A workflow in YAML or JSON; `manifest` is an alias
    #[default]
    #[value(alias = "manifest")]
    Workflow,
    /// The front matter of a workflow in Markdown
    FrontMatter,
    /// The front matter of an agent
    Agent,
    /// The output of a step that declares no schema of its own
    Output,
    /// An error of a tool, a resource or a command
    Error,
}

/// The version of JSON Schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaDraftArg {
    /// The newest version
    #[default]
    #[value(name = "2020-12")]
    Draft202012,
    /// The version that most editors support
    #[value(name = "7")]
    Draft7,
}

/// Prints the schema.
pub fn print_schema(args: &SchemaArgs, mut out: Output<'_>) -> Result<u8> {
    let kind = match args.of {
        SchemaKindArg::Workflow => SchemaKind::Manifest,
        SchemaKindArg::FrontMatter => SchemaKind::FrontMatter,
        SchemaKindArg::Agent => SchemaKind::Agent,
        SchemaKindArg::Output => SchemaKind::Output,
        SchemaKindArg::Error => SchemaKind::Error,
    };
    let draft = match args.draft {
        SchemaDraftArg::Draft202012 => SchemaDraft::Draft202012,
        SchemaDraftArg::Draft7 => SchemaDraft::Draft7,
    };
    out.write_unchanged(format!("{:#}\n", registry::build_schema(kind, draft)))?;
    Ok(EXIT_OK)
}
