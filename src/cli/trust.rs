//! `midex trust`: the user trusts a project, so that its workflows may take all of their actions, or withdraws the
//! trust.

use std::path::PathBuf;

use serde_json::json;

use super::{EXIT_OK, Output, visible::replace_hidden_chars};
use midex_domain::error::Result;
use midex_server::config::Config;

/// Which project, and what becomes of it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TrustArgs {
    /// The directory of the project; without it, the project that contains the working directory
    #[arg(value_name = "DIR", conflicts_with = "list")]
    dir: Option<PathBuf>,
    /// Stop trusting the project
    #[arg(long, conflicts_with = "list")]
    remove: bool,
    /// List the trusted projects
    #[arg(long)]
    list: bool,
}

pub(super) fn trust(args: TrustArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    if args.list {
        let projects = config.trust.list_projects()?;
        let projects: Vec<_> = projects.iter().map(|path| path.display().to_string()).collect();
        let lines =
            || projects.iter().map(|project| replace_hidden_chars(project) + "\n").collect();
        out.print(|| json!({ "projects": projects }), lines)?;
        return Ok(EXIT_OK);
    }
    let project = args.dir.unwrap_or_else(|| config.project_dir.clone());
    let is_changed = config.trust.set_trusted(&project, !args.remove)?;
    let project = project.canonicalize().unwrap_or(project);
    let project = project.display().to_string();
    let words = match (args.remove, is_changed) {
        (false, _) => "is trusted: its workflows may call, send and run what they say",
        (true, true) => "is not trusted any more",
        (true, false) => "was not trusted: nothing changed",
    };
    out.print(
        || json!({ "project": project, "trusted": !args.remove, "changed": is_changed }),
        || format!("{} {words}\n", replace_hidden_chars(&project)),
    )?;
    Ok(EXIT_OK)
}
