//! What `midex doctor` says of catalogs: whether each can be called, whether its secrets are there, and who waits for one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Finding, NAMED_MAX};
use crate::{
    catalog::call::secrets_in,
    cli::{
        catalog::page::state,
        link::Link,
        validate::counted,
        value::{field, list},
    },
    config::Config,
    error::{Code, Result},
};

const CHECK: &str = "catalogs";

/// Each catalog that cannot be called as it is, and each that executions wait for; a line for the others.
pub(super) async fn catalogs(
    config: &Config,
    link: &mut Link<'_>,
    stuck: &[Value],
) -> Result<Vec<Finding>> {
    let listed = match link.call("catalog.list", json!({})).await {
        // The program that owns the store brings operations of its own.
        Err(error) if error.code() == Code::CatalogNotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let catalogs = list(&listed["catalogs"]);
    let mut findings = vec![Finding::ok(CHECK, told(catalogs))];
    let secrets = Secrets::of(config);
    findings.extend(
        catalogs
            .iter()
            .filter_map(|catalog| broken(catalog).or_else(|| secrets.lacked_by(catalog))),
    );
    findings.extend(awaited(stuck));
    Ok(findings)
}

fn told(catalogs: &[Value]) -> String {
    let count = |wanted| catalogs.iter().filter(|one| state(one) == wanted).count();
    let states = ["usable", "disabled", "broken"].map(|state| (count(state), state));
    let states = states.iter().filter(|(count, _)| *count > 0);
    let states: Vec<_> = states
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    if states.is_empty() {
        "none".to_owned()
    } else {
        states.join(", ")
    }
}

fn broken(catalog: &Value) -> Option<Finding> {
    let why = list(&catalog["findings"])
        .first()?
        .as_str()
        .unwrap_or_default();
    let id = field(catalog, "catalog_id");
    let mend = format!(
        "mend its files, or run `midex catalog refresh {id} --apply` or `midex catalog remove {id}`"
    );
    Some(Finding::warn(
        CHECK,
        format!("`{id}` cannot be called: {why}"),
        mend,
    ))
}

/// The secrets that are there, by what catalogs call them.
struct Secrets {
    environment: BTreeMap<String, String>,
    file: BTreeMap<String, String>,
}

impl Secrets {
    fn of(config: &Config) -> Self {
        let file = config.secrets_file.as_deref().map(secrets_in);
        Self {
            environment: config.secret_values(),
            file: file.and_then(Result::ok).unwrap_or_default(),
        }
    }

    fn lacked_by(&self, catalog: &Value) -> Option<Finding> {
        let sources = list(&catalog["headers"])
            .iter()
            .filter_map(|header| header["source"].as_str());
        let mut names = sources.flat_map(|source| source.split(", "));
        let lacked = names.find(|name| match name.split_once(':') {
            Some(("env", name)) => !self.environment.contains_key(name),
            Some(("file", name)) => !self.file.contains_key(name),
            _ => false,
        })?;
        let id = field(catalog, "catalog_id");
        let (kind, name) = lacked.split_once(':')?;
        let mend = if kind == "env" {
            format!(
                "set {name} where the server is started, and list it with `--secret-env {name}`"
            )
        } else {
            format!(
                "write a line {name}=VALUE into the file `secrets` of the user's directory, with mode 0600"
            )
        };
        let says = format!(
            "the headers of `{id}` need the secret `{lacked}`, which is not there for this command"
        );
        Some(Finding::warn(CHECK, says, mend))
    }
}

/// The executions that wait for a catalog.
fn awaited(stuck: &[Value]) -> Option<Finding> {
    let waiting: Vec<_> = stuck
        .iter()
        .filter(|one| one["catalog"].is_string())
        .collect();
    let first = waiting.first()?;
    let catalog = field(first, "catalog");
    let ids = waiting
        .iter()
        .take(NAMED_MAX)
        .map(|one| field(one, "execution_id"));
    let ids = ids.collect::<Vec<_>>().join(", ");
    let says = format!(
        "{} wait for a catalog, the first for `{catalog}`: {ids}",
        counted(waiting.len(), "execution")
    );
    let mend = format!(
        "run `midex catalog list`, and `midex catalog enable {catalog}` or `midex catalog add`: they go on by themselves"
    );
    Some(Finding::warn(CHECK, says, mend))
}
