//! The keys of a configuration file: the long names of the global flags, and of the flags of `midex serve`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, CommandFactory, ValueHint};
use toml_edit::{Item, Value};

use super::super::Cli;
use midex_catalog::call::normalize_allowed_host;

/// The flags that are not keys: one applies to a single command; the others to a server of a cluster, and not to those that
/// hosts start on the same machine.
const FLAGS_WITHOUT_KEY: [&str; 9] = [
    "json",
    "store",
    "advertise",
    "cluster-listen",
    "cluster-lease",
    "cluster-token-file",
    "cluster-ca",
    "cluster-cert",
    "cluster-key",
];

/// The keys that a project's file may set. The others concern the user's machine: the place of executions, the access
/// to the server, and the environment variables that it reads. A project by another author must not choose them.
const PROJECT_FILE_KEYS: [&str; 6] =
    ["workflows", "agents", "token-ttl", "snapshot-every", "toolsets", "tool-names"];

/// The note in a flag's help about the file that can set it.
pub(super) fn help_note_for_file(name: &str) -> Option<&'static str> {
    match name {
        name if FLAGS_WITHOUT_KEY.contains(&name) => None,
        name if PROJECT_FILE_KEYS.contains(&name) => Some("[or in midex.toml]"),
        _ => Some("[or in the user's midex.toml]"),
    }
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Switch,
    Number,
    Path,
    List,
    Text,
}

impl ValueKind {
    pub(super) fn describe_type(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Number => "a whole number",
            Self::Path | Self::Text => "a text",
            Self::List => "a list of texts",
        }
    }
}

/// A key, with the flag that it sets.
#[derive(Debug)]
pub(super) struct ConfigKey {
    pub(super) flag: Arg,
    pub(super) name: String,
    pub(super) kind: ValueKind,
}

/// All keys.
pub(super) fn all_keys() -> Vec<ConfigKey> {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").into_iter();
    let flags = command.get_arguments().chain(serve.flat_map(clap::Command::get_arguments));
    flags.filter_map(|flag| ConfigKey::from_flag(flag.clone())).collect()
}

impl ConfigKey {
    fn from_flag(flag: Arg) -> Option<Self> {
        let name = flag.get_long().filter(|name| !FLAGS_WITHOUT_KEY.contains(name))?.to_owned();
        let kind = value_kind(&flag);
        Some(Self { flag, name, kind })
    }

    /// Whether a project's file may set it.
    pub(super) fn is_allowed_in_projects(&self) -> bool {
        PROJECT_FILE_KEYS.contains(&self.name.as_str())
    }

    /// The value as arguments of the flag; `None` if the item has another type.
    pub(super) fn parse_values(&self, item: &Item) -> Option<Vec<String>> {
        match (self.kind, item.as_value()?) {
            (ValueKind::Switch, Value::Boolean(on)) => Some(vec![on.value().to_string()]),
            (ValueKind::Number, Value::Integer(number)) => Some(vec![number.value().to_string()]),
            (ValueKind::List, Value::Array(items)) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().map(|texts| self.join_values(texts))
            }
            (ValueKind::List | ValueKind::Path | ValueKind::Text, Value::String(text)) => {
                Some(vec![text.value().clone()])
            }
            _ => None,
        }
    }

    /// Joins the values with commas for a flag that can be given only once.
    fn join_values(&self, values: Vec<String>) -> Vec<String> {
        match self.flag.get_action() {
            ArgAction::Append => values,
            _ => vec![values.join(",")],
        }
    }

    /// Checks the values with the flag's own parser; the error is its message, and a tip.
    pub(super) fn check_values(&self, values: &[String]) -> Result<(), (String, Option<String>)> {
        if self.kind == ValueKind::Switch {
            return Ok(());
        }
        let flags = values.iter().map(|value| format!("--{}={value}", self.name));
        let line = ["midex", "serve"].map(str::to_owned).into_iter();
        let parsed = Cli::command().try_get_matches_from(line.chain(flags));
        parsed.map(drop).map_err(|error| split_message_and_tip(&error.to_string()))
    }

    /// A value as the default of its flag. Relative paths are relative to the directory of the file, and `~/` is
    /// expanded.
    pub(super) fn resolve_default(&self, value: String, dir: &Path) -> OsString {
        let may_be_path = self.flag.get_value_hint() == ValueHint::AnyPath;
        if !may_be_path || self.kind == ValueKind::List && normalize_allowed_host(&value).is_some()
        {
            return value.into();
        }
        let relative_path = value.strip_prefix("~/").or((value == "~").then_some(""));
        let home = relative_path.zip(etcetera::home_dir().ok());
        let path: PathBuf =
            home.map_or_else(|| dir.join(&value), |(relative_path, home)| home.join(relative_path));
        path.into()
    }
}

fn value_kind(flag: &Arg) -> ValueKind {
    let number = Arg::new("").value_parser(clap::value_parser!(u32));
    match flag.get_action() {
        ArgAction::SetTrue => ValueKind::Switch,
        ArgAction::Append => ValueKind::List,
        _ if flag.get_id() == "toolsets" => ValueKind::List,
        _ if flag.get_value_hint() == ValueHint::AnyPath => ValueKind::Path,
        _ if flag.get_value_parser().type_id() == number.get_value_parser().type_id() => {
            ValueKind::Number
        }
        _ => ValueKind::Text,
    }
}

/// The message of a refused command line, and its tip. The paragraphs about usage are left out.
pub(in super::super) fn split_message_and_tip(refusal: &str) -> (String, Option<String>) {
    let mut paragraphs = refusal
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = paragraphs.next().unwrap_or_default();
    let sentence = first.strip_prefix("error: ").unwrap_or(&first).to_owned();
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned));
    (sentence, tip)
}
