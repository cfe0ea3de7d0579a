//! `midex config`: prints each setting with its value and source, and the findings of the files.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, parser::ValueSource};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    super::{
        EXIT_FINDINGS, EXIT_OK, Output, ServeArgs, diagnostic, takes_color,
        visible::replace_hidden_chars,
    },
    ConfigFile, ConfigFiles, ConfigNotice, all_keys, find_environment_variable,
    key::{ConfigKey, ValueKind},
    server_notices,
};
use midex_domain::{error::Result, finding::Severity};
use midex_server::config::{Config, split_names};

/// The source of a value.
#[derive(Debug, Serialize)]
#[serde(tag = "source", rename_all = "lowercase")]
enum SettingSource {
    Flag,
    Environment { variable: &'static str },
    File { path: String, line: usize },
    Default,
}

/// An effective setting.
#[derive(Debug, Serialize)]
struct EffectiveSetting {
    name: String,
    value: Value,
    from: SettingSource,
    /// An unusable file with higher precedence that may contain another value.
    #[serde(skip_serializing_if = "Option::is_none")]
    unless: Option<String>,
}

/// Prints the settings that result from the flags of this command, the environment and the files. The exit code is 1 if
/// there are findings.
pub(in super::super) fn print_settings(
    files: &ConfigFiles,
    matches: &ArgMatches,
    args: &ServeArgs,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    let to_setting = |key| find_effective_setting(files, matches, args, config, key);
    let settings: Vec<_> = all_keys().into_iter().map(to_setting).collect();
    let notices = server_notices(args);
    out.print(
        || settings_as_json(files, &settings, &notices),
        || settings_as_text(files, &settings) + &notices_as_text(&notices),
    )?;
    let is_clean = files.findings().next().is_none() && notices.is_empty();
    Ok(if is_clean { EXIT_OK } else { EXIT_FINDINGS })
}

fn find_effective_setting(
    files: &ConfigFiles,
    matches: &ArgMatches,
    args: &ServeArgs,
    config: &Config,
    key: ConfigKey,
) -> EffectiveSetting {
    let source = find_value_source(files, matches, &key);
    let raw = matches.get_raw(key.flag.get_id().as_str());
    let raw: Vec<_> = raw.into_iter().flatten().map(OsStr::to_string_lossy).collect();
    let value = match (key.kind, &raw[..]) {
        (ValueKind::List, raw) => {
            json!(raw.iter().flat_map(|names| split_names(names)).collect::<Vec<_>>())
        }
        (ValueKind::Path, _) if key.name == "data-dir" => json!(absolute_path(&config.data_dir)),
        // Without an HTTP address stdio is served, whatever the default of the flag is.
        (ValueKind::Switch, _)
            if key.name == "stdio" && matches!(source, SettingSource::Default) =>
        {
            json!(args.transports.serves_stdio())
        }
        (ValueKind::Path, [path, ..]) => json!(absolute_path(Path::new(&**path))),
        (_, []) => Value::Null,
        (ValueKind::Number | ValueKind::Switch, [value, ..]) => {
            value.parse().unwrap_or_else(|_| json!(value))
        }
        (_, [value, ..]) => json!(value),
    };
    let unless = find_hiding_file(files, &source, &key);
    EffectiveSetting { name: key.name, value, from: source, unless }
}

fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// The first file that has precedence over the source of the value, and has an error that may hide another value.
fn find_hiding_file(
    files: &ConfigFiles,
    source: &SettingSource,
    key: &ConfigKey,
) -> Option<String> {
    let file_path = match source {
        SettingSource::Flag | SettingSource::Environment { .. } => return None,
        SettingSource::File { path, .. } => Some(path),
        SettingSource::Default => None,
    };
    let mut paths = files.0.iter().map(|file| (file, file.path.display().to_string()));
    let hiding_file =
        paths.by_ref().find(|(file, path)| file.may_hide_setting(key) || Some(path) == file_path);
    hiding_file.filter(|(file, _)| file.may_hide_setting(key)).map(|(_, path)| path)
}

fn find_value_source(files: &ConfigFiles, matches: &ArgMatches, key: &ConfigKey) -> SettingSource {
    match (matches.value_source(key.flag.get_id().as_str()), find_environment_variable(&key.flag)) {
        (Some(ValueSource::CommandLine), _) => SettingSource::Flag,
        (Some(ValueSource::EnvVariable), Some(variable)) => SettingSource::Environment { variable },
        _ => match files.find_setting(&key.name) {
            Some((file, setting)) => {
                SettingSource::File { path: file.path.display().to_string(), line: setting.line }
            }
            None => SettingSource::Default,
        },
    }
}

fn settings_as_json(
    files: &ConfigFiles,
    settings: &[EffectiveSetting],
    notices: &[ConfigNotice],
) -> Value {
    let file_json = |file: &ConfigFile| {
        json!({
            "owner": file.owner,
            "path": file.path,
            "is_there": file.text.is_some(),
            "findings": file.findings,
        })
    };
    let files: Vec<_> = files.0.iter().map(file_json).collect();
    json!({ "settings": settings, "files": files, "notices": notices })
}

fn settings_as_text(files: &ConfigFiles, settings: &[EffectiveSetting]) -> String {
    let rows: Vec<_> = settings
        .iter()
        .map(|setting| (&setting.name, format_value(&setting.value), describe_source(setting)))
        .collect();
    let name_width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let width = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value, origin) in rows {
        let _ = writeln!(text, "{name:<name_width$}  {value:<width$}  {origin}");
    }
    text.push('\n');
    for file in &files.0 {
        let path = replace_hidden_chars(&file.path.display().to_string());
        let state = if file.text.is_some() { "" } else { " (not there)" };
        let _ = writeln!(
            text,
            "{:<name_width$}  {path}{state}",
            format!("{}'s file", file.owner.as_str())
        );
    }
    text + &draw_findings(files)
}

fn format_value(value: &Value) -> String {
    replace_hidden_chars(&match value {
        Value::Null => "none".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn describe_source(setting: &EffectiveSetting) -> String {
    let origin = match &setting.from {
        SettingSource::Flag => "flag".to_owned(),
        SettingSource::Environment { variable } => format!("environment {variable}"),
        SettingSource::File { path, line } => replace_hidden_chars(&format!("{path}:{line}")),
        SettingSource::Default => "default".to_owned(),
    };
    match &setting.unless {
        Some(path) => format!("{origin}, unless {} says otherwise", replace_hidden_chars(path)),
        None => origin,
    }
}

/// The notices as text.
fn notices_as_text(notices: &[ConfigNotice]) -> String {
    let line = |notice: &ConfigNotice| {
        let severity = match notice.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let (message, mend) =
            (replace_hidden_chars(&notice.message), replace_hidden_chars(&notice.mend));
        format!("\n{severity}: {message}\n  = help: {mend}\n")
    };
    notices.iter().map(line).collect()
}

/// The findings of each file, drawn in its text.
fn draw_findings(files: &ConfigFiles) -> String {
    let with_findings = files.0.iter().filter(|file| !file.findings.is_empty());
    let draw = |file: &ConfigFile| {
        let (path, text) =
            (file.path.display().to_string(), file.text.as_deref().unwrap_or_default());
        format!("\n{}", diagnostic::render(&path, text, &file.findings, takes_color()).trim_end())
            + "\n"
    };
    with_findings.map(draw).collect()
}
