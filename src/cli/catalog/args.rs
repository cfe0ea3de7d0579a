//! The command line of `midex catalog`.

use clap::ValueEnum;

use crate::list::parse_positive_number;
use midex_domain::limits;

/// What is done with catalogs.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum CatalogCommand {
    /// List the catalogs
    List,
    /// Import an OpenAPI document: its operations become commands
    Add(AddArgs),
    /// Show what `midex catalog add` would do, without changing anything
    Preview(DocumentArgs),
    /// Show a catalog and its commands, or all details of one command
    Show(CatalogShowArgs),
    /// Enable a catalog: its commands can be called
    Enable(CatalogSelectorArgs),
    /// Disable a catalog but keep it: none of its commands can be called
    Disable(CatalogSelectorArgs),
    /// Remove a catalog; steps that call it wait until it is added again
    Remove(RemoveArgs),
    /// Read the document of a catalog again, and show the differences
    Refresh(RefreshArgs),
    /// Set or show the headers that are sent with every call of a catalog
    ///
    /// A header refers to a secret by its name, `${env:NAME}` or `${file:NAME}`. The value stays in the environment of the
    /// server, where --secret-env must list the variable, or in the user's file of secrets. The headers are sent only to the
    /// origins that this command prints.
    Headers(HeadersArgs),
    /// Set a credential that the document requires besides headers: a key in the query or a cookie, a user with a password
    ///
    /// `midex catalog show` lists the required credentials under `needs`. The value refers to a secret by its name, as in
    /// headers, and is sent to the same origins.
    Credential(CredentialArgs),
    /// Set the class of a command: safe, standard or destructive
    Class(ClassArgs),
    /// Allow calls of a catalog to an address that is not public, or without https
    Allow(AllowArgs),
    /// Set the URL at which a catalog is called
    BaseUrl(BaseUrlArgs),
}

/// A document, and what its catalog is to be.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DocumentArgs {
    /// The OpenAPI document: a file, or a URL
    pub(super) source: String,
    /// The title of the catalog; its id is derived from it
    #[arg(
        long,
        help = "The title of the catalog; its id is derived from it [default: the title of the document]"
    )]
    pub(super) title: Option<String>,
    /// The first word of its commands
    #[arg(
        long,
        value_name = "WORD",
        help = "The first word of its commands [default: the catalog's id]"
    )]
    pub(super) vendor: Option<String>,
    /// The URL at which it is called
    #[arg(
        long,
        value_name = "URL",
        help = "The URL at which it is called [default: the first server of the document]"
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
    /// Add the catalog disabled: nothing of it can be called until `midex catalog enable`
    #[arg(long)]
    pub(super) disabled: bool,
    /// An address at which it may be called although it is not public or has no https; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) allow: Vec<String>,
}

/// A catalog.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CatalogSelectorArgs {
    /// The id or the title of the catalog
    pub(super) catalog: String,
}

/// A catalog, or one of its commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CatalogShowArgs {
    #[command(flatten)]
    pub(super) selector: CatalogSelectorArgs,
    /// One of its commands, without the vendor
    pub(super) operation: Option<String>,
    /// Maximum number of commands to show
    #[arg(long, value_name = "N", default_value_t = limits::COMMANDS_LISTED, value_parser = parse_positive_number)]
    pub(super) limit: usize,
}

/// A catalog that is removed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(super) selector: CatalogSelectorArgs,
    /// Also delete its document
    #[arg(long)]
    pub(super) with_document: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
}

/// A catalog whose document is read again.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RefreshArgs {
    #[command(flatten)]
    pub(super) selector: CatalogSelectorArgs,
    /// Apply the new document without asking
    #[arg(long)]
    pub(super) apply: bool,
}

/// The headers of a catalog.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HeadersArgs {
    #[command(flatten)]
    pub(super) selector: CatalogSelectorArgs,
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
    pub(super) selector: CatalogSelectorArgs,
    /// The name of the security scheme in the document
    pub(super) scheme: String,
    /// The credential, such as '${env:NAME}', or 'USER:${env:NAME}' for basic; an empty value removes it
    pub(super) value: String,
}

/// The class of a command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClassArgs {
    #[command(flatten)]
    pub(super) selector: CatalogSelectorArgs,
    /// The command, without the vendor
    pub(super) operation: String,
    /// What it may change
    pub(super) class: CommandClassArg,
}

/// What a command may change.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CommandClassArg {
    /// Only reads
    Safe,
    /// Makes changes that can be undone
    Standard,
    /// Removes something
    Destructive,
}

/// An address that is allowed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AllowArgs {
    #[command(flatten)]
    pub(super) selector: CatalogSelectorArgs,
    /// The host or address, and the port
    #[arg(value_name = "HOST:PORT")]
    pub(super) host_port: String,
}

/// Where a catalog is called.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BaseUrlArgs {
    #[command(flatten)]
    pub(super) selector: CatalogSelectorArgs,
    /// The URL to which the paths of its commands are appended
    pub(super) url: String,
}
