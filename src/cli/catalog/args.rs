//! The command line of `midex catalog`.

use clap::ValueEnum;

use crate::list::at_least_one;
use midex_domain::limits;

/// What is done with catalogs.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum CatalogCommand {
    /// List the catalogs
    List,
    /// Import an OpenAPI document: its operations become commands
    Add(AddArgs),
    /// Show what `midex catalog add` would do, and do nothing
    Preview(DocumentArgs),
    /// Show a catalog and its commands, or everything about one of them
    Show(ShowArgs),
    /// Let the commands of a catalog be called
    Enable(NamedArgs),
    /// Let no command of a catalog be called, and keep it
    Disable(NamedArgs),
    /// Remove a catalog; steps that call it wait until it is back
    Remove(RemoveArgs),
    /// Read the document of a catalog again, and show what is different
    Refresh(RefreshArgs),
    /// Set the headers that go with every call of a catalog, or show them
    ///
    /// A secret stands in a header by its name, `${env:NAME}` or `${file:NAME}`: its value stays in the environment of the
    /// server, which lists it with --secret-env, or in the user's file of secrets. Only the origins that this command prints
    /// get the headers.
    Headers(HeadersArgs),
    /// Give a catalog what its document asks for beside headers: a key in the query or a cookie, a user with a password
    ///
    /// `midex catalog show` lists what is asked for under `needs`. A secret stands in the value by its name, as in headers,
    /// and goes to the same origins.
    Credential(CredentialArgs),
    /// Say of which class a command is: what it may change
    Class(ClassArgs),
    /// Let a catalog be called at an address that is not public, or without https
    Allow(AllowArgs),
    /// Say where a catalog is called
    BaseUrl(BaseUrlArgs),
}

/// A document, and what its catalog is to be.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DocumentArgs {
    /// The OpenAPI document: a file, or a URL
    pub(super) source: String,
    /// What the catalog is called; its id is made of it
    #[arg(
        long,
        help = "What the catalog is called; its id is made of it [default: the title of the document]"
    )]
    pub(super) title: Option<String>,
    /// The first word of its commands
    #[arg(
        long,
        value_name = "WORD",
        help = "The first word of its commands [default: the catalog's id]"
    )]
    pub(super) vendor: Option<String>,
    /// Where it is called
    #[arg(
        long,
        value_name = "URL",
        help = "Where it is called [default: the first server of the document]"
    )]
    pub(super) base_url: Option<String>,
}

/// An import.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(super) document: DocumentArgs,
    /// Replace the document of the catalog with this title, and keep its settings
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Let nothing of it be called until `midex catalog enable`
    #[arg(long)]
    pub(super) disabled: bool,
    /// An address that it may be called at though it is not public or has no https; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) allow: Vec<String>,
}

/// A catalog.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NamedArgs {
    /// The id of the catalog, or its title
    pub(super) catalog: String,
}

/// A catalog, or one of its commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// One of its commands, without the vendor
    pub(super) operation: Option<String>,
    /// How many commands at most
    #[arg(long, value_name = "N", default_value_t = limits::COMMANDS_LISTED, value_parser = at_least_one)]
    pub(super) limit: usize,
}

/// A catalog that is removed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// Delete its document too
    #[arg(long)]
    pub(super) with_document: bool,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
}

/// A catalog whose document is read again.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RefreshArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// Take the new document, and do not ask
    #[arg(long)]
    pub(super) apply: bool,
}

/// The headers of a catalog.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HeadersArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// A header, such as 'Authorization=Bearer ${env:NAME}'; an empty value removes it
    #[arg(value_name = "NAME=VALUE")]
    pub(super) headers: Vec<String>,
    /// Remove all headers that are not given
    #[arg(long)]
    pub(super) replace: bool,
}

/// A credential of a catalog.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CredentialArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// The security scheme of the document
    pub(super) scheme: String,
    /// Its credential, such as '${env:NAME}', or 'USER:${env:NAME}' for basic; an empty one removes it
    pub(super) value: String,
}

/// The class of a command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClassArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// The command, without the vendor
    pub(super) operation: String,
    /// What it may change
    pub(super) class: ClassArg,
}

/// What a command may change.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ClassArg {
    /// It reads
    Safe,
    /// It changes what can be changed back
    Standard,
    /// It takes something away
    Destructive,
}

/// An address that is allowed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AllowArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// The host or address, and the port
    #[arg(value_name = "HOST:PORT")]
    pub(super) host_port: String,
}

/// Where a catalog is called.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BaseUrlArgs {
    #[command(flatten)]
    pub(super) named: NamedArgs,
    /// The URL that the paths of its commands follow
    pub(super) url: String,
}
