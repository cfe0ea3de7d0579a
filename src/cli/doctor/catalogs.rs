//! The findings of `midex doctor` on catalogs: whether each can be called, whether its secrets are set, and which
//! executions wait for one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{CheckResult, NAMED_EXECUTIONS_MAX};
use crate::{
    catalog::page::catalog_state,
    link::ServerLink,
    validate::format_count,
    value::{list_items, text_field},
};
use midex_catalog::call::parse_secrets_file;
use midex_domain::error::{Code, Result};
use midex_server::config::Config;

const CHECK_NAME: &str = "catalogs";

/// One summary for all catalogs, and a finding for each that cannot be called or that executions wait for.
pub(super) async fn catalog_findings(
    config: &Config,
    link: &mut ServerLink<'_>,
    stuck: &[Value],
) -> Result<Vec<CheckResult>> {
    let reply = match link.call("catalog.list", json!({})).await {
        // The program that owns the store provides its own operations instead of catalogs.
        Err(error) if error.code() == Code::CatalogNotFound => return Ok(Vec::new()),
        reply => reply?,
    };
    let catalogs = list_items(&reply["catalogs"]);
    let secrets = AvailableSecrets::from_config(config);
    let message = catalogs_summary(catalogs) + &secrets.describe_sources(catalogs);
    let mut findings = vec![CheckResult::ok(CHECK_NAME, message)];
    findings.extend(catalogs.iter().filter_map(|catalog| {
        broken_catalog_finding(catalog).or_else(|| secrets.missing_secrets_finding(catalog))
    }));
    findings.extend(awaited_catalogs_finding(stuck));
    Ok(findings)
}

fn catalogs_summary(catalogs: &[Value]) -> String {
    let count = |state| catalogs.iter().filter(|catalog| catalog_state(catalog) == state).count();
    let states = ["usable", "disabled", "refused", "broken"].map(|state| (count(state), state));
    let states = states.iter().filter(|(count, _)| *count > 0);
    let states: Vec<_> = states.map(|(count, state)| format!("{count} {state}")).collect();
    if states.is_empty() { "none".to_owned() } else { states.join(", ") }
}

fn broken_catalog_finding(catalog: &Value) -> Option<CheckResult> {
    let reason = list_items(&catalog["findings"]).first()?.as_str().unwrap_or_default();
    let id = text_field(catalog, "catalog_id");
    let mend = if catalog_state(catalog) == "refused" {
        "allow the address with that command, if it is meant".to_owned()
    } else {
        format!(
            "mend its files, or run `midex catalog refresh {id} --apply` or `midex catalog remove {id}`"
        )
    };
    Some(CheckResult::warn(CHECK_NAME, format!("`{id}` cannot be called: {reason}"), mend))
}

/// The available secrets.
struct AvailableSecrets {
    environment: BTreeMap<String, String>,
    file: BTreeMap<String, String>,
    /// The path of the file of secrets.
    path: String,
    /// Why the file cannot be read, if it exists.
    refusal: Option<String>,
}

/// The secrets that the headers and credentials of a catalog refer to.
fn list_catalog_secrets(catalog: &Value) -> impl Iterator<Item = &str> {
    let headers = list_items(&catalog["headers"]).iter();
    let sources = headers.filter_map(|header| header["source"].as_str());
    sources.flat_map(|source| source.split(", "))
}

impl AvailableSecrets {
    fn from_config(config: &Config) -> Self {
        let path = config.secrets_file.as_deref();
        let file = path.filter(|path| path.exists()).map(parse_secrets_file);
        Self {
            environment: config.secret_values(),
            refusal: file.as_ref().and_then(|file| file.as_ref().err().cloned()),
            file: file.and_then(Result::ok).unwrap_or_default(),
            path: path.map_or_else(|| "secrets".to_owned(), |path| path.display().to_string()),
        }
    }

    /// The source of a secret: an environment variable, or the file if the variable is not set.
    fn find_secret_source(&self, name: &str) -> Option<String> {
        let (source, secret_name) = name.split_once(':')?;
        if source == "env" && self.environment.contains_key(secret_name) {
            return Some(format!("{secret_name} from the environment"));
        }
        let is_in_file = self.file.contains_key(secret_name);
        is_in_file.then(|| format!("{secret_name} from the file {}", self.path))
    }

    /// The source of each secret that these catalogs refer to.
    fn describe_sources(&self, catalogs: &[Value]) -> String {
        let names: BTreeSet<_> = catalogs.iter().flat_map(list_catalog_secrets).collect();
        let sources: Vec<_> =
            names.iter().filter_map(|name| self.find_secret_source(name)).collect();
        if sources.is_empty() {
            return String::new();
        }
        format!("; secrets: {}", sources.join(", "))
    }

    fn missing_secrets_finding(&self, catalog: &Value) -> Option<CheckResult> {
        let mut names = list_catalog_secrets(catalog);
        let missing_secret =
            names.find(|name| name.contains(':') && self.find_secret_source(name).is_none())?;
        let id = text_field(catalog, "catalog_id");
        let (source, name) = missing_secret.split_once(':')?;
        let mend = if let Some(refusal) = &self.refusal {
            refusal.clone()
        } else if source == "env" {
            format!(
                "set {name} where the server is started and list it with `--secret-env {name}`, or write a line {name}=VALUE into {}, with mode 0600",
                self.path
            )
        } else {
            format!("write a line {name}=VALUE into {}, with mode 0600", self.path)
        };
        let message = format!(
            "the headers or credentials of `{id}` need the secret `{missing_secret}`, which is not there for this command"
        );
        Some(CheckResult::warn(CHECK_NAME, message, mend))
    }
}

/// The finding on executions that wait for a catalog.
fn awaited_catalogs_finding(stuck: &[Value]) -> Option<CheckResult> {
    let waiting: Vec<_> =
        stuck.iter().filter(|execution| execution["catalog"].is_string()).collect();
    let first = waiting.first()?;
    let catalog = text_field(first, "catalog");
    let ids = waiting
        .iter()
        .take(NAMED_EXECUTIONS_MAX)
        .map(|execution| text_field(execution, "execution_id"));
    let ids = ids.collect::<Vec<_>>().join(", ");
    let message = format!(
        "{} wait for a catalog, the first for `{catalog}`: {ids}",
        format_count(waiting.len(), "execution")
    );
    let mend = format!(
        "run `midex catalog list`, and `midex catalog enable {catalog}` or `midex catalog add`: they go on by themselves"
    );
    Some(CheckResult::warn(CHECK_NAME, message, mend))
}
