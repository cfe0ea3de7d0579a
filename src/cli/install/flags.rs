//! Which flags of `midex install` are passed on to the server of the block and to the hooks.

use std::{net::IpAddr, path::PathBuf};

use clap::{ArgMatches, parser::ValueSource};

use midex_catalog::call::normalize_allowed_host;
use midex_domain::error::{Code, Error, Result};

/// The flags that both the server and the hooks receive.
const SHARED_FLAGS: [&str; 6] =
    ["data_dir", "workflows", "agents", "token_ttl", "allow_env", "secret_env"];

/// The flags that only the server receives.
const SERVER_ONLY_FLAGS: [&str; 5] =
    ["secret_host", "import_from", "author_to", "toolsets", "tool_names"];

/// The flags of this command line that are passed on to the server, with absolute paths.
pub(super) fn collect_forwarded_flags(matches: &ArgMatches) -> Result<Vec<String>> {
    let arguments = matches.subcommand().map_or(matches, |(_, given)| given);
    let mut flags = Vec::new();
    for name in SHARED_FLAGS.into_iter().chain(SERVER_ONLY_FLAGS) {
        for value in flag_paths(arguments, name) {
            let value = value.to_str().map(str::to_owned).ok_or_else(|| {
                let message = format!("`{}` is not Unicode", value.display());
                Error::new(Code::UsageInvalid, message)
                    .with_action("Choose a directory whose path is Unicode")
            })?;
            flags.extend([format!("--{}", name.replace('_', "-")), value]);
        }
    }
    Ok(flags)
}

fn flag_paths(arguments: &ArgMatches, name: &str) -> Vec<PathBuf> {
    if arguments.value_source(name) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    let is_path = |value: &std::ffi::OsStr| match name {
        "data_dir" | "workflows" | "agents" => true,
        "import_from" => value.to_str().and_then(normalize_allowed_host).is_none(),
        _ => false,
    };
    let absolute = |value: &std::ffi::OsStr| match std::path::absolute(value) {
        Ok(path) if is_path(value) => path,
        _ => value.into(),
    };
    arguments.get_raw(name).into_iter().flatten().map(absolute).collect()
}

/// Parses the address of a server. Without a path it gets that of the MCP endpoint.
pub(super) fn parse_server_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_authority = |rest: &&str| {
        !rest.is_empty()
            && !rest.starts_with(['/', ':', '?', '#'])
            && rest.chars().all(|c| c.is_ascii_graphic())
    };
    let rest =
        rest.filter(is_authority).ok_or("expected an address such as http://127.0.0.1:8123/mcp")?;
    let has_path = rest.trim_end_matches('/').contains(['/', '?', '#']);
    Ok(if has_path { text.to_owned() } else { format!("{}/mcp", text.trim_end_matches('/')) })
}

/// The arguments among these that hooks receive too.
pub(super) fn shared_arguments(args: &[String]) -> Vec<String> {
    let (mut shared, mut args) = (Vec::new(), args.iter().peekable());
    while let Some(arg) = args.next() {
        let name = arg.split('=').next().unwrap_or_default();
        let is_shared =
            |id: &&str| name.strip_prefix("--").is_some_and(|name| name == id.replace('_', "-"));
        if SHARED_FLAGS.iter().any(is_shared) {
            shared.push(arg.clone());
            let has_value = name != arg;
            shared.extend(args.next_if(|_| !has_value).cloned());
        }
    }
    shared
}

/// Whether an address names this machine.
pub(super) fn is_local_url(url: &str) -> bool {
    let authority = url.split('/').nth(2).unwrap_or_default();
    let is_port = |(_, port): &(&str, &str)| port.bytes().all(|c| c.is_ascii_digit());
    let name = authority.rsplit_once(':').filter(is_port);
    let name = name.map_or(authority, |(name, _)| name);
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
}
