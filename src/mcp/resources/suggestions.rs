//! Suggestions for resource URIs that do not exist.

use super::{AUTHORING_URI_PREFIX, SKILL_URI_PREFIX, WORKFLOW_URI_PREFIX, lists};
use midex_domain::{
    error::{Code, Error, NextCall, read_resource},
    nearest::find_nearest,
    uri,
};
use midex_server::app::App;

/// Alternative names for resources that clients may try.
const RESOURCE_KIND_ALIASES: &[(&str, &[&str])] = &[
    ("available_workflows", &["workflows", "list_workflows", "workflow_list"]),
    ("workflow_details", &["workflow", "details", "definition"]),
    ("agent", &["agents", "persona"]),
    ("current_step", &["step", "current", "next_step"]),
    ("workflow_status", &["status", "execution", "state"]),
    ("step_history", &["history", "steps", "results"]),
    ("workflow_artifacts", &["artifacts"]),
    ("executions", &["runs", "list"]),
];

/// Suggests a resource for authors.
const AUTHOR_RESOURCE_CALL: NextCall =
    read_resource(&[("uri", "midex://authoring/{address}")], "if that is the one meant");

/// Adds the nearest existing resource to the error for an address.
pub(super) async fn add_nearest_resource(app: &App, address: &str, error: Error) -> Error {
    if error.code() != Code::ResourceNotFound {
        return error;
    }
    if let Some(path) = address.strip_prefix(AUTHORING_URI_PREFIX) {
        let kind = path.split(['?', '/']).next().unwrap_or(path);
        let kinds = lists::list_resource_kinds(AUTHORING_URI_PREFIX).into_iter();
        let near =
            find_nearest(kind, kinds.filter(|kind| lists::is_fixed(AUTHORING_URI_PREFIX, kind)));
        return error
            .with_context("address", near.unwrap_or("manifests"))
            .with_next(AUTHOR_RESOURCE_CALL);
    }
    if address.starts_with(SKILL_URI_PREFIX) {
        return error.with_context("address", "available_workflows");
    }
    let path = match guess_resource_kind(address) {
        (Some("agent"), Some(name)) => find_nearest_agent(app, name).await,
        (Some("artifact" | "workflow_artifacts"), Some(rest)) => {
            let id = rest.split('/').next().unwrap_or_default();
            Some(format!("workflow_artifacts/{id}"))
        }
        (Some(kind), _) if lists::is_fixed(WORKFLOW_URI_PREFIX, kind) => Some(kind.to_owned()),
        (Some(kind), Some(rest)) => Some(format!("{kind}/{rest}")),
        // The name or id is missing.
        (Some("agent" | "workflow_details"), None) => Some("available_workflows".to_owned()),
        (Some(_), None) => Some("executions".to_owned()),
        (None, _) => None,
    };
    // Never suggest the refused address itself.
    let path = path.filter(|path| address.strip_prefix(WORKFLOW_URI_PREFIX) != Some(path));
    error.with_context("address", path.unwrap_or_else(|| "executions".to_owned()))
}

/// The kind of resource that was probably meant, and the rest of the path.
fn guess_resource_kind(address: &str) -> (Option<&'static str>, Option<&str>) {
    let path = address.rsplit_once("://").map_or(address, |(_, path)| path);
    let path = path.strip_prefix("workflow/").unwrap_or(path);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let kinds = || lists::list_resource_kinds(WORKFLOW_URI_PREFIX).into_iter();
    let exact_kind = kinds().find(|kind| *kind == name);
    let alias_kind = || {
        let mut table = RESOURCE_KIND_ALIASES.iter();
        let alias = table.find(|(_, theirs)| theirs.contains(&name));
        alias.map(|(ours, _)| *ours)
    };
    let nearest_kind = || find_nearest(name, kinds());
    (exact_kind.or_else(alias_kind).or_else(nearest_kind), rest.filter(|rest| !rest.is_empty()))
}

async fn find_nearest_agent(app: &App, name: &str) -> Option<String> {
    let name = uri::decode_segment(name)?;
    let registry = app.registry().await.ok()?;
    let nearest = find_nearest(&name, registry.agents().map(|agent| agent.name.as_str()));
    Some(match nearest {
        Some(near) => format!("agent/{}", uri::encode_segment(near)),
        None => "available_workflows".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_kind_is_guessed() {
        for (address, meant) in [
            ("midex://workflow/curent_step/e", (Some("current_step"), Some("e"))),
            ("midex://current_step/e", (Some("current_step"), Some("e"))),
            ("workflow_status/a%20b", (Some("workflow_status"), Some("a%20b"))),
            ("midex://workflow/status/e", (Some("workflow_status"), Some("e"))),
            ("midex://workflow/available_workflows/", (Some("available_workflows"), None)),
            ("file:///workflows", (None, Some("workflows"))),
            ("midex://workflow/zebra", (None, None)),
            ("", (None, None)),
        ] {
            assert_eq!(guess_resource_kind(address), meant, "{address}");
        }
    }
}
