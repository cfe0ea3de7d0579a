//! `midex new`: writes a template file that passes validation.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    EXIT_OK, Output, command::quoted, screen::Screen, value::json_text,
    visible::replace_hidden_chars,
};
use midex_domain::{
    AgentName, WorkflowName,
    error::{Code, Error, Result},
};
use midex_registry::{self as registry, DefinitionTemplate, ExistingFilePolicy, Format};
use midex_server::config::Config;

/// What to write.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum NewArgs {
    /// Create a workflow in workflows/NAME.yaml
    Workflow {
        /// What to call the file, and where to put it
        #[command(flatten)]
        file: FileArgs,
        /// The format of the file [default: from the extension of the name, else yaml]
        #[arg(long, value_enum)]
        format: Option<FormatArg>,
        /// A workflow whose file is copied, with only the name changed; it may be one that comes with midex
        #[arg(long, value_name = "WORKFLOW", conflicts_with_all = ["format", "description"])]
        from: Option<String>,
    },
    /// Create an agent in agents/NAME.md
    Agent {
        /// What to call the file, and where to put it
        #[command(flatten)]
        file: FileArgs,
    },
}

/// What to call the file, and where to put it.
#[derive(Clone, Debug, clap::Args)]
pub struct FileArgs {
    /// The name of the definition and of its file; it may include the file extension
    pub name: String,
    /// The project to write into, instead of the one that contains the working directory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The description: its purpose in a sentence
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub description: Option<String>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// How a workflow is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatArg {
    /// A YAML manifest
    Yaml,
    /// Markdown with front matter
    Md,
    /// A JSON manifest
    Json,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Yaml => Self::Yaml,
            FormatArg::Md => Self::Markdown,
            FormatArg::Json => Self::Json,
        }
    }
}

/// Writes the file and prints its path.
pub fn write_new_file(args: &NewArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let (file, kind, template) = match args {
        NewArgs::Workflow { file, from: Some(from), .. } => {
            let (name, format) = split_format_extension(&file.name);
            let template = config.registry().copy_workflow(from, &parse_workflow_name(name)?)?;
            check_extension(format, template.format(), name)?;
            (file, "workflow", template)
        }
        NewArgs::Workflow { file, format, .. } => {
            let (name, name_format) = split_format_extension(&file.name);
            let format = format.map(Format::from).or(name_format).unwrap_or(Format::Yaml);
            check_extension(name_format, format, name)?;
            let template = DefinitionTemplate::new_workflow(&parse_workflow_name(name)?, format);
            (file, "workflow", template)
        }
        NewArgs::Agent { file } => {
            let (name, format) = split_format_extension(&file.name);
            check_extension(format, Format::Markdown, name)?;
            let name = AgentName::parse(name).map_err(|error| unusable_name_error(&error))?;
            (file, "agent", DefinitionTemplate::new_agent(&name))
        }
    };
    let template = match &file.description {
        Some(description) => template.with_description(description)?,
        None => template,
    };
    let project = file.dir.as_ref().unwrap_or(&config.project_dir);
    let existing = if file.force { ExistingFilePolicy::Replace } else { ExistingFilePolicy::Keep };
    let path = registry::create_definition(&template, project, existing)?;
    let text = if out.is_json {
        let path_text = path.display().to_string();
        let reply = json!({ "path": path_text, "kind": kind, "name": template.name() });
        json_text(&reply, true).into_bytes()
    } else if Screen::stdout().is_terminal() {
        let path = replace_hidden_chars(&path.display().to_string());
        format!("{path}\n{}", suggest_next_commands(kind, template.name(), &path)).into_bytes()
    } else {
        path.into_os_string().into_encoded_bytes()
    };
    out.write_unchanged([&text[..], b"\n"].concat()).map(|()| EXIT_OK)
}

/// The suggested next commands, for a person.
fn suggest_next_commands(kind: &str, name: &str, path: &str) -> String {
    let (name, path) = (quoted(&replace_hidden_chars(name)), quoted(path));
    match kind {
        "workflow" => format!(
            "Next: edit it, check it with `midex validate {path}`, and run it with `midex run {name}`"
        ),
        _ => format!(
            "Next: edit it, check it with `midex validate {path}`, and name it in a step: `agent: {name}`"
        ),
    }
}

/// Splits the extension of a definition file from a name, and returns the format that it denotes.
fn split_format_extension(file_name: &str) -> (&str, Option<Format>) {
    let path = Path::new(file_name);
    if !registry::is_definition_file(path) {
        return (file_name, None);
    }
    let name = file_name.rsplit_once('.').map_or(file_name, |(name, _)| name);
    (name, Some(Format::from_path(path)))
}

/// Refuses a name whose extension denotes another format than that of the file.
fn check_extension(name_format: Option<Format>, format: Format, name: &str) -> Result<()> {
    if name_format.is_none_or(|said| said == format) {
        return Ok(());
    }
    let extension = format.extension();
    let message = format!("this file is written as `{extension}`, and its name says otherwise");
    Err(Error::new(Code::UsageInvalid, message)
        .with_context("name", format!("{name}.{extension}"))
        .with_action("Call it `{name}`"))
}

fn parse_workflow_name(name: &str) -> Result<WorkflowName> {
    WorkflowName::parse_declared(name).map_err(|error| unusable_name_error(&error))
}

fn unusable_name_error(error: &Error) -> Error {
    Error::new(Code::UsageInvalid, error.message())
        .with_action("Choose a name like `release-notes`")
}
