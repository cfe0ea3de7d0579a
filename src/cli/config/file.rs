//! Reads one configuration file: its settings, and a finding for each part that is ignored or wrong.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;
use toml_edit::{Document, Item, TableLike, Value};

use super::key::{ConfigKey, ValueKind, all_keys};
use midex_domain::{
    error::describe_io_error,
    finding::{Finding, Place, Rule, filter_errors, sort_and_limit},
    limits,
};
use midex_folder::resolve_path;
use midex_registry::read_file;
use midex_server::config::TRUST_KEY;

/// The owner of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileOwner {
    Project,
    User,
}

impl FileOwner {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// The value of a flag in a file, in the form that the flag's parser accepts.
#[derive(Debug)]
pub(super) struct FlagSetting {
    pub(super) key: String,
    pub(super) values: Vec<OsString>,
    /// Its line number, from 1.
    pub(super) line: usize,
}

/// A configuration file.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) owner: FileOwner,
    pub(super) path: PathBuf,
    /// Its text; `None` if the file does not exist.
    pub(super) text: Option<String>,
    pub(super) settings: Vec<FlagSetting>,
    /// Its findings. A setting with a warning is ignored, and the other settings remain effective.
    pub(super) findings: Vec<Finding>,
}

impl ConfigFile {
    /// Reads the file at `path`. `user_path` is the path of the user's file: a warning about a setting that a project must
    /// not make refers to it.
    pub(super) fn read(owner: FileOwner, path: PathBuf, user_path: Option<&Path>) -> Self {
        let mut file = Self { owner, path, text: None, settings: Vec::new(), findings: Vec::new() };
        if is_missing(&file.path) {
            return file;
        }
        let content = read_file(&file.path, limits::CONFIG_BYTES_MAX);
        match content.read_finding {
            Some(trouble) => file.findings.push(trouble),
            None => file.parse_settings(&content.text, user_path),
        }
        file.text = Some(content.text);
        file
    }

    /// Whether an error in this file may hide a setting of this key.
    pub(super) fn may_hide_setting(&self, key: &ConfigKey) -> bool {
        let may_set = self.owner == FileOwner::User || key.is_allowed_in_projects();
        let may_hide = |finding: &Finding| finding.path.is_empty() || finding.path == key.name;
        may_set && filter_errors(&self.findings).any(may_hide)
    }

    fn parse_settings(&mut self, text: &str, user_path: Option<&Path>) {
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(error) => return self.findings.push(malformed_toml_finding(text, &error)),
        };
        let keys = all_keys();
        let context =
            EntryContext { text, keys: &keys, owner: self.owner, path: &self.path, user_path };
        for (name, item) in document.iter() {
            let key = document.key(name).and_then(toml_edit::Key::span);
            let place = locate_span(text, key);
            let settings = match name {
                TRUST_KEY => {
                    context.check_trusted_projects(place, item).err().map(Err).into_iter().collect()
                }
                SECRETS_TABLE => vec![context.parse_secrets(place, item)],
                RETENTION_FLAG if item.is_table_like() => {
                    vec![context.parse_retention(place, item)]
                }
                name => (context.parse_table(name, item))
                    .unwrap_or_else(|| vec![context.parse_setting(name, place, item)]),
            };
            for setting in settings {
                match setting {
                    Ok(setting) => self.settings.push(setting),
                    Err(finding) => self.findings.push(*finding),
                }
            }
        }
        self.findings = sort_and_limit(std::mem::take(&mut self.findings));
    }
}

fn is_missing(path: &Path) -> bool {
    let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    fs::symlink_metadata(path).is_err_and(|error| missing.contains(&error.kind()))
}

fn locate_span(text: &str, span: Option<std::ops::Range<usize>>) -> Place {
    span.map_or(Place::START, |span| Place::from_bytes(text, span.start, span.end))
}

fn malformed_toml_finding(text: &str, error: &toml_edit::TomlError) -> Finding {
    let words: Vec<_> = error.message().split_whitespace().collect();
    let message = format!("this is not TOML: {}", words.join(" "));
    Finding::new(Rule::Syntax, "", locate_span(text, error.span()), message)
}

/// The context for checking an entry of the file.
struct EntryContext<'a> {
    text: &'a str,
    keys: &'a [ConfigKey],
    owner: FileOwner,
    path: &'a Path,
    user_path: Option<&'a Path>,
}

/// The table of the tables `[secrets.NAME]`, each with `hosts`.
const SECRETS_TABLE: &str = "secrets";
/// The flag that corresponds to these tables.
const SECRET_HOST_FLAG: &str = "secret-host";
/// The flag that corresponds to the table of the same name.
const RETENTION_FLAG: &str = "retention";

impl EntryContext<'_> {
    /// Checks the list of trusted projects. It is read elsewhere, before a workflow starts.
    fn check_trusted_projects(&self, key_place: Place, item: &Item) -> Result<(), Box<Finding>> {
        if self.owner == FileOwner::Project {
            return Err(self.user_only_finding(TRUST_KEY, key_place).into());
        }
        let mut items = item.as_array().into_iter().flatten();
        if item.is_array() && items.all(Value::is_str) {
            return Ok(());
        }
        let message = format!("`{TRUST_KEY}` is a list of texts, this is {}", item.type_name());
        let place = locate_span(self.text, item.span());
        Err(Finding::new(Rule::UnknownValue, TRUST_KEY, place, message).into())
    }

    /// Refuses a path in a project's file that leads out of the project: a project must not choose files outside of it.
    fn check_path_in_project(
        &self,
        name: &str,
        place: Place,
        path: &Path,
    ) -> Result<(), Box<Finding>> {
        let project = resolve_path(self.path.parent().unwrap_or(Path::new("")));
        let reason = match (resolve_path(path), project) {
            (Ok(real), Ok(project)) if real.starts_with(&project) => return Ok(()),
            (Ok(real), _) => format!("to {}", real.display()),
            (Err(error), _) => describe_io_error(&error),
        };
        let message = format!("`{name}` leads out of the project ({reason}); it is ignored");
        let finding = Finding::new(Rule::OutsideDirectory, name, place, message).as_warning();
        let suggestion = format!("name a directory in the project, or start midex with --{name}");
        Err(finding.suggest(suggestion).into())
    }

    /// The tables `[secrets.NAME]` as values of the flag.
    fn parse_secrets(&self, place: Place, item: &Item) -> Result<FlagSetting, Box<Finding>> {
        self.find_allowed_key(SECRET_HOST_FLAG, place, item)?;
        let mut pairs = toml_edit::Array::new();
        for (name, secret) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
            for host in secret_hosts(secret)
                .ok_or_else(|| missing_hosts_finding(name, locate_span(self.text, secret.span())))?
            {
                pairs.push(format!("{name}={host}"));
            }
        }
        self.parse_setting(SECRET_HOST_FLAG, place, &Item::Value(pairs.into()))
    }

    /// The table `[retention]`, and in it `[retention.state.NAME]` and `[retention.workflow.NAME]`, as values of the flag.
    fn parse_retention(&self, place: Place, item: &Item) -> Result<FlagSetting, Box<Finding>> {
        self.find_allowed_key(RETENTION_FLAG, place, item)?;
        let mut rules = toml_edit::Array::new();
        let mut general = Vec::new();
        for (name, value) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
            if !matches!(name, "state" | "workflow") {
                general.push(retention_condition(name, value));
                continue;
            }
            for (part, rule) in value.as_table_like().into_iter().flat_map(TableLike::iter) {
                let conditions = rule.as_table_like().into_iter().flat_map(TableLike::iter);
                let conditions = conditions.map(|(name, value)| retention_condition(name, value));
                let parts: Vec<_> =
                    std::iter::once(format!("{name}={part}")).chain(conditions).collect();
                rules.push(parts.join(" "));
            }
        }
        if !general.is_empty() {
            rules.push(general.join(" "));
        }
        self.parse_setting(RETENTION_FLAG, place, &Item::Value(rules.into()))
    }

    /// The settings of a table `[NAME]`, each of whose keys is that of a flag after `NAME-`; `None` if there are no such
    /// flags.
    fn parse_table(
        &self,
        name: &str,
        item: &Item,
    ) -> Option<Vec<Result<FlagSetting, Box<Finding>>>> {
        let prefix = format!("{name}-");
        let table = item.as_table_like()?;
        self.keys.iter().find(|key| key.name.starts_with(&prefix))?;
        let settings = table.iter().map(|(key, value)| {
            let place = table.key(key).and_then(toml_edit::Key::span);
            self.parse_setting(&(prefix.clone() + key), locate_span(self.text, place), value)
        });
        Some(settings.collect())
    }

    fn parse_setting(
        &self,
        name: &str,
        place: Place,
        item: &Item,
    ) -> Result<FlagSetting, Box<Finding>> {
        let key = self.find_allowed_key(name, place, item)?;
        let value_place = locate_span(self.text, item.span());
        let values =
            key.parse_values(item).ok_or_else(|| wrong_type_finding(key, value_place, item))?;
        key.check_values(&values).map_err(|(words, tip)| {
            Finding::new(Rule::UnknownValue, name, value_place, words).suggest(tip)
        })?;
        let dir = self.path.parent().unwrap_or(Path::new(""));
        let values = values.into_iter().map(|value| key.resolve_default(value, dir));
        let values: Vec<_> = values.collect();
        if key.kind == ValueKind::Path && self.owner == FileOwner::Project {
            for path in &values {
                self.check_path_in_project(name, value_place, Path::new(path))?;
            }
        }
        Ok(FlagSetting { key: name.to_owned(), values, line: place.line })
    }

    /// The key with this name, if this file may set it.
    fn find_allowed_key(
        &self,
        name: &str,
        place: Place,
        item: &Item,
    ) -> Result<&ConfigKey, Box<Finding>> {
        let Some(key) = self.keys.iter().find(|key| key.name == name) else {
            return Err(self.unknown_key_finding(name, place, item).into());
        };
        if self.owner == FileOwner::User || key.is_allowed_in_projects() {
            return Ok(key);
        }
        Err(self.user_only_finding(name, place).into())
    }

    fn user_only_finding(&self, name: &str, place: Place) -> Finding {
        let message = format!("only the user's file may set `{name}`; here it is ignored");
        let suggestion = self.user_path.map(|users| format!("move it to {}", users.display()));
        let finding = Finding::new(Rule::NoEffect, name, place, message).as_warning();
        finding.suggest(suggestion)
    }

    fn unknown_key_finding(&self, name: &str, place: Place, item: &Item) -> Finding {
        let message = format!("a configuration file has no key `{name}`; it is ignored");
        let finding = Finding::new(Rule::UnknownKey, name, place, message).as_warning();
        if item.is_value() {
            let key_names = self.keys.iter().map(|key| key.name.as_str());
            finding.did_you_mean(place, name, key_names)
        } else {
            finding.suggest("write keys without a table around them".to_owned())
        }
    }
}

/// A condition of a retention, as the flag takes it: `keep_last = 5` is `keep-last=5`.
fn retention_condition(name: &str, value: &Item) -> String {
    let text = value.as_str().map(str::to_owned);
    let number = || value.as_integer().map(|number| number.to_string());
    let value = text.or_else(number).unwrap_or_else(|| value.to_string().trim().to_owned());
    format!("{}={value}", name.replace('_', "-"))
}

/// The hosts of a secret; `None` if its table has any other key.
fn secret_hosts(secret: &Item) -> Option<Vec<&str>> {
    let table = secret.as_table_like().filter(|table| table.len() == 1)?;
    let hosts = table.get("hosts")?.as_array()?;
    hosts.iter().map(Value::as_str).collect()
}

fn missing_hosts_finding(name: &str, place: Place) -> Finding {
    let message = format!("`[secrets.{name}]` has `hosts` alone, a list of texts");
    let finding = Finding::new(Rule::WrongType, SECRETS_TABLE, place, message);
    finding.suggest(format!("write `hosts = [\"api.example.com\"]` below `[secrets.{name}]`"))
}

fn wrong_type_finding(key: &ConfigKey, place: Place, item: &Item) -> Finding {
    let (expected, actual) = (key.kind.describe_type(), describe_item_type(item));
    let message = format!("`{}` must be {expected}, this is {actual}", key.name);
    Finding::new(Rule::WrongType, key.name.as_str(), place, message).with_expected(expected, actual)
}

fn describe_item_type(item: &Item) -> &'static str {
    match item.as_value() {
        Some(Value::String(_)) => "a text",
        Some(Value::Integer(_)) => "a whole number",
        Some(Value::Float(_)) => "a number with a point",
        Some(Value::Boolean(_)) => "true or false",
        Some(Value::Datetime(_)) => "a time",
        Some(Value::Array(items)) if items.iter().all(Value::is_str) => "a list of texts",
        Some(Value::Array(_)) => "a list of other things",
        Some(Value::InlineTable(_)) | None => "a table",
    }
}
