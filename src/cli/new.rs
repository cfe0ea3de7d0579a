//! `midex new`: writes a starting file that has no findings.

use std::path::PathBuf;

use serde_json::json;

use super::{EXIT_OK, Output, command::quoted, screen::Screen, value::json_text, visible::visible};
use crate::{
    config::Config,
    domain::{AgentName, WorkflowName},
    error::{Code, Error, Result},
    registry::{self, Existing, Format, Template},
};

/// What to write.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum NewArgs {
    /// A workflow, into workflows/NAME.md
    Workflow {
        /// What to call the file, and where to put it
        #[command(flatten)]
        file: FileArgs,
        /// How it is written
        #[arg(long, value_enum, default_value_t)]
        format: FormatArg,
        /// A workflow to copy, as its file has it; it may be one that comes with midex
        #[arg(long, value_name = "WORKFLOW", conflicts_with_all = ["format", "description"])]
        from: Option<String>,
    },
    /// An agent, into agents/NAME.md
    Agent {
        /// What to call the file, and where to put it
        #[command(flatten)]
        file: FileArgs,
    },
}

/// What to call the file, and where to put it.
#[derive(Clone, Debug, clap::Args)]
pub struct FileArgs {
    /// The name of the definition and of its file
    pub name: String,
    /// The project to write into, instead of the one around the working directory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What it is for, in a sentence
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub description: Option<String>,
    /// Replace the file if there is one
    #[arg(long)]
    pub force: bool,
}

/// How a workflow is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatArg {
    /// Markdown with front matter
    #[default]
    Md,
    /// A YAML manifest
    Yaml,
    /// A JSON manifest
    Json,
}

/// Writes the file and prints its path.
pub fn new(args: &NewArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let (file, kind, template) = match args {
        NewArgs::Workflow {
            file,
            from: Some(from),
            ..
        } => {
            let name = WorkflowName::parse(&file.name).map_err(|error| unusable_name(&error))?;
            (file, "workflow", config.registry().copied(from, &name)?)
        }
        NewArgs::Workflow { file, format, .. } => {
            (file, "workflow", workflow(&file.name, *format)?)
        }
        NewArgs::Agent { file } => (file, "agent", agent(&file.name)?),
    };
    let template = match &file.description {
        Some(description) => template.describe(description)?,
        None => template,
    };
    let project = file.dir.as_ref().unwrap_or(&config.project_dir);
    let existing = if file.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let path = registry::create(&template, project, existing)?;
    let text = if out.json {
        let shown = path.display().to_string();
        let made = json!({ "path": shown, "kind": kind, "name": template.name() });
        json_text(&made, true).into_bytes()
    } else if Screen::stdout().is_terminal() {
        let path = visible(&path.display().to_string());
        format!("{path}\n{}", next(kind, template.name(), &path)).into_bytes()
    } else {
        path.into_os_string().into_encoded_bytes()
    };
    out.write([&text[..], b"\n"].concat()).map(|()| EXIT_OK)
}

/// What comes next, for a person.
fn next(kind: &str, name: &str, path: &str) -> String {
    let (name, path) = (quoted(&visible(name)), quoted(path));
    match kind {
        "workflow" => format!(
            "Next: edit it, check it with `midex validate {path}`, and run it with `midex run {name}`"
        ),
        _ => format!(
            "Next: edit it, check it with `midex validate {path}`, and name it in a step: `agent: {name}`"
        ),
    }
}

fn workflow(name: &str, format: FormatArg) -> Result<Template> {
    let name = WorkflowName::parse(name).map_err(|error| unusable_name(&error))?;
    let format = match format {
        FormatArg::Md => Format::Markdown,
        FormatArg::Yaml => Format::Yaml,
        FormatArg::Json => Format::Json,
    };
    Ok(Template::workflow(&name, format))
}

fn agent(name: &str) -> Result<Template> {
    let name = AgentName::parse(name).map_err(|error| unusable_name(&error))?;
    Ok(Template::agent(&name))
}

fn unusable_name(error: &Error) -> Error {
    Error::new(Code::UsageInvalid, error.message())
        .with_action("Choose a name like `release-notes`")
}
