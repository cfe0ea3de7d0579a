//! Reads `servers`: a base URL for each combination of the values of its variables, at most
//! [`limits::DOCUMENT_SERVERS_MAX`], those with the default values first.

use serde_json::Value;

use super::reference::{get_entries, get_text};
use midex_domain::limits;

/// The base URLs in `servers` of a document, path item or operation, without a trailing slash. Variables have their
/// default value first, and then their other values.
pub(super) fn read_base_urls(holder: &Value) -> Vec<String> {
    let list = holder.get("servers").and_then(Value::as_array);
    let urls =
        list.into_iter().flatten().take(limits::DOCUMENT_SERVERS_MAX).flat_map(expand_variables);
    let mut base_urls: Vec<String> = Vec::new();
    for url in urls {
        let url = url.trim().trim_end_matches('/');
        if !url.is_empty() && !base_urls.iter().any(|one| one == url) {
            base_urls.push(url.to_owned());
        }
    }
    base_urls.truncate(limits::DOCUMENT_SERVERS_MAX);
    base_urls
}

fn expand_variables(server: &Value) -> Vec<String> {
    let max_urls = limits::DOCUMENT_SERVERS_MAX;
    let is_within_limit = |text: &str| text.len() <= limits::SERVER_URL_BYTES_MAX;
    let mut expanded = vec![get_text(server, "url").to_owned()];
    expanded.retain(|url| is_within_limit(url));
    for (name, variable) in get_entries(server, "variables").take(max_urls) {
        let placeholder = format!("{{{name}}}");
        let default = get_text(variable, "default");
        let other_values = variable.get("enum").and_then(Value::as_array).into_iter().flatten();
        let other_values = other_values.filter_map(Value::as_str).filter(|value| *value != default);
        let values =
            std::iter::once(default).chain(other_values).filter(|value| is_within_limit(value));
        let values: Vec<_> = values.take(max_urls).collect();
        let filled_urls = values
            .iter()
            .flat_map(|value| expanded.iter().map(|url| url.replace(&placeholder, value)));
        expanded = filled_urls.filter(|url| is_within_limit(url)).take(max_urls).collect();
    }
    expanded
}
