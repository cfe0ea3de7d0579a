//! `midex schema`: prints JSON Schemas for editors.

use super::{EXIT_OK, Output};
use midex_domain::error::Result;
use midex_registry::{self as registry, SchemaDraft, SchemaOf};

/// Which schema to print.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    after_help = "A schema cannot say everything: unknown or cyclic dependencies, step ids that stand twice and agents \
that do not exist are found by `midex validate` alone."
)]
pub struct SchemaArgs {
    /// What the schema is of
    #[arg(value_enum, default_value_t)]
    pub of: SchemaOfArg,
    /// The version of JSON Schema
    #[arg(long, value_enum, default_value_t)]
    pub draft: SchemaDraftArg,
}

/// What a schema can be had of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOfArg {
    /// A workflow in YAML or JSON; `manifest` means the same
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
    /// The newest
    #[default]
    #[value(name = "2020-12")]
    Draft202012,
    /// The one that most editors know
    #[value(name = "7")]
    Draft7,
}

/// Prints the schema.
pub fn schema(args: &SchemaArgs, mut out: Output<'_>) -> Result<u8> {
    let of = match args.of {
        SchemaOfArg::Workflow => SchemaOf::Manifest,
        SchemaOfArg::FrontMatter => SchemaOf::FrontMatter,
        SchemaOfArg::Agent => SchemaOf::Agent,
        SchemaOfArg::Output => SchemaOf::Output,
        SchemaOfArg::Error => SchemaOf::Error,
    };
    let draft = match args.draft {
        SchemaDraftArg::Draft202012 => SchemaDraft::Draft202012,
        SchemaDraftArg::Draft7 => SchemaDraft::Draft7,
    };
    out.write(format!("{:#}\n", registry::schema(of, draft)))?;
    Ok(EXIT_OK)
}
