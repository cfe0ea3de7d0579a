//! Reads `servers`: a base URL for each combination of the values of its variables, at most
//! [`limits::DOCUMENT_SERVERS_MAX`], those with the default values first.

use serde_json::Value;

use super::reference::{entries_under_key, text_under_key};
use midex_domain::limits;

/// The base URLs in `servers` of a document, path item or operation, without a trailing slash. Variables have their
/// default value first, and then their other values.
pub(super) fn read_base_urls(holder: &Value) -> Vec<String> {
    let list = holder.get("servers").and_then(Value::as_array);
    let all =
        list.into_iter().flatten().take(limits::DOCUMENT_SERVERS_MAX).flat_map(expand_variables);
    let mut found: Vec<String> = Vec::new();
    for url in all {
        let url = url.trim().trim_end_matches('/');
        if !url.is_empty() && !found.iter().any(|one| one == url) {
            found.push(url.to_owned());
        }
    }
    found.truncate(limits::DOCUMENT_SERVERS_MAX);
    found
}

fn expand_variables(server: &Value) -> Vec<String> {
    let most = limits::DOCUMENT_SERVERS_MAX;
    let fits = |text: &str| text.len() <= limits::SERVER_URL_BYTES_MAX;
    let mut made = vec![text_under_key(server, "url").to_owned()];
    made.retain(|url| fits(url));
    for (name, variable) in entries_under_key(server, "variables").take(most) {
        let placeholder = format!("{{{name}}}");
        let default = text_under_key(variable, "default");
        let others = variable.get("enum").and_then(Value::as_array).into_iter().flatten();
        let others = others.filter_map(Value::as_str).filter(|value| *value != default);
        let values = std::iter::once(default).chain(others).filter(|value| fits(value));
        let values: Vec<_> = values.take(most).collect();
        let filled =
            values.iter().flat_map(|value| made.iter().map(|url| url.replace(&placeholder, value)));
        made = filled.filter(|url| fits(url)).take(most).collect();
    }
    made
}
