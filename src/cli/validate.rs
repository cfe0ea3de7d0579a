//! `midex validate`: prints all findings of definition files, with their places.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{EXIT_FINDINGS, EXIT_OK, Output, diagnostic};
use midex_domain::error::Result;
pub(super) use midex_domain::error::format_count;
use midex_registry::{self as registry, FileReport, Registry};

/// Check workflow and agent files.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ValidateArgs {
    /// Files or directories; without any, all definitions that midex would load
    pub paths: Vec<PathBuf>,
    /// Also exit 1 on warnings
    #[arg(long)]
    pub strict: bool,
    /// Print a workflow after merging, with all that it inherits through `extends`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["paths", "strict"])]
    pub print: Option<String>,
}

/// Checks the files and prints their findings; the exit code is 1 if there are errors, with `strict` also for warnings. Prints
/// the result of one workflow instead, if it is asked for.
pub fn validate(
    args: &ValidateArgs,
    registry: &Registry,
    color: bool,
    mut out: Output<'_>,
) -> Result<u8> {
    if let Some(name) = &args.print {
        let manifest = registry.merge_manifest(name)?;
        let text = || format!("{}\n", manifest.text.trim_end());
        out.print(|| json!(manifest.parse_document()), text)?;
        return Ok(EXIT_OK);
    }
    let reports = registry::validate_paths(&args.paths, registry)?;
    out.print(|| reports_as_json(&reports), || reports_as_text(&reports, color))?;
    let is_refused =
        |report: &FileReport| report.is_broken() || args.strict && !report.findings.is_empty();
    Ok(if reports.iter().any(is_refused) { EXIT_FINDINGS } else { EXIT_OK })
}

fn count_findings(reports: &[FileReport]) -> usize {
    reports.iter().map(|report| report.findings.len()).sum()
}

fn count_warnings(reports: &[FileReport]) -> usize {
    let all = reports.iter().flat_map(|report| &report.findings);
    all.filter(|finding| finding.is_warning()).count()
}

fn reports_as_json(reports: &[FileReport]) -> Value {
    let file_json = |report: &FileReport| {
        json!({
            "path": report.path,
            "kind": report.kind,
            "name": report.name,
            "valid": !report.is_broken(),
            "findings": report.findings,
        })
    };
    let files: Vec<_> = reports.iter().map(file_json).collect();
    json!({ "files": files, "findings": count_findings(reports), "warnings": count_warnings(reports) })
}

fn reports_as_text(reports: &[FileReport], color: bool) -> String {
    let mut text = String::new();
    for report in reports {
        text.push_str(&diagnostic::render(&report.path, &report.text, &report.findings, color));
    }
    let files = format_count(reports.len(), "file");
    let findings_text = match count_findings(reports) {
        0 => "no findings".to_owned(),
        count => format_count(count, "finding"),
    };
    let warnings_note = match count_warnings(reports) {
        0 => String::new(),
        count => format!(" ({})", format_count(count, "warning")),
    };
    text + &format!("{files}, {findings_text}{warnings_note}\n")
}
