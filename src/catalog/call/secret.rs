//! Secrets by reference: texts of a catalog contain `${env:NAME}` or `${file:NAME}`, and only the request has the
//! value.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use reqwest::Url;
use rustix::fs::{Mode, OFlags, open};

use super::address_policy::get_host_and_port;
use midex_domain::{FailureCode, execution::OperationFailure, limits};

/// The sources of secrets: listed environment variables, and a file.
#[derive(Clone, Default)]
pub struct SecretSources {
    /// The environment variables that the user listed, with their values.
    pub environment: BTreeMap<String, String>,
    /// A file of lines `NAME=value`, which only its owner may access.
    pub file: Option<PathBuf>,
    /// The hosts that a secret may be sent to, by its name, as [`secret_host`](super::normalize_secret_host) writes them. A
    /// secret without an entry may be sent to the origins that the user gave.
    pub allowed_hosts: BTreeMap<String, BTreeSet<String>>,
}

impl SecretSources {
    /// The references that catalogs may contain: `env:NAME`, `file:NAME`. A file that is refused contributes none.
    /// Reads the file: not to be called on a worker thread of an async runtime.
    pub fn available_references(&self) -> BTreeSet<String> {
        let file_secrets = self.file.as_deref().map(parse_secrets_file);
        let file_secrets = file_secrets.and_then(Result::ok).unwrap_or_default();
        // The file also provides the variables that are not set.
        let names = self.environment.keys().chain(file_secrets.keys());
        let references = names.map(|name| format!("env:{name}"));
        let file_references = file_secrets.keys().map(|name| format!("file:{name}"));
        references.chain(file_references).collect()
    }

    /// Refuses to send a secret to a host that is not in its list. Secrets without a list are not refused.
    pub(super) fn check_secret_hosts<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        url: &Url,
    ) -> Result<(), OperationFailure> {
        let host_port = get_host_and_port(url).unwrap_or_default();
        let is_target_host = |host: &String| *host == host_port || url.host_str() == Some(host);
        for name in names {
            if let Some(hosts) = self.allowed_hosts.get(name)
                && !hosts.iter().any(is_target_host)
            {
                return Err(disallowed_host_failure(name, &host_port, hosts));
            }
        }
        Ok(())
    }

    /// [`Self::check_secret_hosts`] for the secrets of a step. A secret without a list of hosts is also refused if the user did
    /// not give the origin for the catalog.
    pub(super) fn check_step_secret_hosts(
        &self,
        names: &[String],
        url: &Url,
        approved_origins: &BTreeSet<String>,
    ) -> Result<(), OperationFailure> {
        self.check_secret_hosts(names.iter().map(String::as_str), url)?;
        let origin = url.origin().ascii_serialization();
        let mut unrestricted = names.iter().filter(|name| !self.allowed_hosts.contains_key(*name));
        match unrestricted.next().filter(|_| !approved_origins.contains(&origin)) {
            Some(name) => Err(unapproved_origin_failure(name, &origin)),
            None => Ok(()),
        }
    }
}

fn unapproved_origin_failure(name: &str, origin: &str) -> OperationFailure {
    let message = format!(
        "the secret `{name}` may not go to `{origin}`: the user's midex.toml names no host under `[secrets.{name}]`, and the user gave no such address for the catalog"
    );
    OperationFailure::new("secret_not_allowed", message).with_code(FailureCode::SecretNotAllowed)
}

fn disallowed_host_failure(
    name: &str,
    host_port: &str,
    hosts: &BTreeSet<String>,
) -> OperationFailure {
    let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
    let message = format!(
        "the secret `{name}` may not go to `{host_port}`: the user's midex.toml allows it under `[secrets.{name}]` for {} alone",
        hosts.join(", ")
    );
    OperationFailure::new("secret_not_allowed", message).with_code(FailureCode::SecretNotAllowed)
}

impl fmt::Debug for SecretSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.environment.keys().collect();
        write!(f, "Sources({names:?}, {:?})", self.file)
    }
}

/// A part of a text: plain, or a reference to a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretSegment<'a> {
    Plain(&'a str),
    Environment(&'a str),
    File(&'a str),
}

/// Whether the text refers to a secret.
pub fn has_reference(text: &str) -> bool {
    find_next_reference(text).is_some()
}

/// The references in the text: `env:NAME`, `file:NAME`.
pub fn find_references(text: &str) -> Vec<String> {
    let references = split_at_references(text).into_iter().filter_map(|part| match part {
        SecretSegment::Plain(_) => None,
        SecretSegment::Environment(name) => Some(format!("env:{name}")),
        SecretSegment::File(name) => Some(format!("file:{name}")),
    });
    references.collect()
}

fn split_at_references(text: &str) -> Vec<SecretSegment<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, part, after)) = find_next_reference(rest) {
        parts.extend([SecretSegment::Plain(before), part]);
        rest = after;
    }
    parts.push(SecretSegment::Plain(rest));
    parts.retain(|part| *part != SecretSegment::Plain(""));
    parts
}

fn find_next_reference(text: &str) -> Option<(&str, SecretSegment<'_>, &str)> {
    text.match_indices("${").find_map(|(start, _)| {
        let (reference, after) = text[start + 2..].split_once('}')?;
        let part = match reference.split_once(':')? {
            ("env", name) => SecretSegment::Environment(name),
            ("file", name) => SecretSegment::File(name),
            _ => return None,
        };
        Some((&text[..start], part, after))
    })
}

/// The values of secrets, which fill the references in texts and are masked in answers.
#[derive(Default)]
pub(super) struct SecretValues {
    values: BTreeMap<String, String>,
}

impl SecretValues {
    /// Looks up all secrets that `texts` refer to, for a request to `url`. The file is read only if a reference names
    /// it, or if a variable is not set.
    pub(super) async fn look_up_secrets<'a>(
        sources: &SecretSources,
        texts: impl Iterator<Item = &'a String>,
        url: &Url,
    ) -> Result<Self, OperationFailure> {
        let mut names: Vec<_> = texts.flat_map(|text| find_references(text)).collect();
        names.sort_unstable();
        names.dedup();
        let bare_names = names.iter().filter_map(|name| Some(name.split_once(':')?.1));
        sources.check_secret_hosts(bare_names, url)?;
        let find_in_environment = |name: &str| sources.environment.get(name.strip_prefix("env:")?);
        let is_in_file = |name: &&String| find_in_environment(name).is_none();
        let file_secrets = match names.iter().find(is_in_file) {
            Some(name) => read_secrets_file(name, sources.file.clone()).await?,
            None => BTreeMap::new(),
        };
        let find_value = |name: String| {
            let bare_name = name.split_once(':').map_or(&*name, |(_, bare)| bare);
            let value = find_in_environment(&name).or_else(|| file_secrets.get(bare_name));
            let value = value.cloned();
            let value =
                value.ok_or_else(|| missing_secret_failure(&name, sources.file.as_deref()))?;
            Ok((name, value))
        };
        let values = names.into_iter().map(find_value).collect::<Result<_, _>>()?;
        Ok(Self { values })
    }

    /// The text with its references replaced by their values.
    pub(super) fn fill_references(&self, text: &str) -> String {
        let find_value = |kind: &str, name: &str| {
            let value = self.values.get(&format!("{kind}:{name}"));
            value.cloned().unwrap_or_default()
        };
        let render_segment = |part| match part {
            SecretSegment::Plain(text) => text.to_owned(),
            SecretSegment::Environment(name) => find_value("env", name),
            SecretSegment::File(name) => find_value("file", name),
        };
        split_at_references(text).into_iter().map(render_segment).collect()
    }

    /// The values, each with the placeholder that masks it.
    pub(super) fn values_with_placeholders(&self) -> impl Iterator<Item = (String, String)> {
        let secrets = self.values.iter();
        secrets.map(|(name, value)| (value.clone(), format!("${{{name}}}")))
    }
}

fn missing_secret_failure(name: &str, file: Option<&Path>) -> OperationFailure {
    let file = file.map_or_else(|| "secrets".to_owned(), |file| file.display().to_string());
    let file_hint = format!("the file of secrets `{file}` has no such line");
    let hint = match name.split_once(':') {
        Some(("env", name)) => format!(
            "the variable is not set where the server was started, or not listed with `--secret-env {name}`, and {file_hint}"
        ),
        _ => file_hint,
    };
    let message = format!("the catalog refers to `${{{name}}}`: {hint}");
    OperationFailure::new("secret_missing", message).with_code(FailureCode::SecretMissing)
}

/// Reads the file of secrets to find the secret `name`, which is missing if there is no file.
async fn read_secrets_file(
    name: &str,
    path: Option<PathBuf>,
) -> Result<BTreeMap<String, String>, OperationFailure> {
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    let Some(path) = path.clone().filter(exists) else {
        return Err(missing_secret_failure(name, path.as_deref()));
    };
    let contents = tokio::task::spawn_blocking(move || parse_secrets_file(&path)).await;
    let contents = contents.unwrap_or_else(|_| Err("the file of secrets was not read".to_owned()));
    contents.map_err(|message| {
        OperationFailure::new("secrets_file", message).with_code(FailureCode::SecretsFileUnsafe)
    })
}

/// Reads a file of secrets: lines `NAME=value`. Empty lines and comments (`#`) are ignored.
///
/// # Errors
/// The file is a symlink, not a regular file, larger than [`limits::SECRETS_FILE_BYTES_MAX`], owned by another user,
/// or accessible to others; or a line has no `=`.
pub fn parse_secrets_file(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let path_text = path.display();
    let text = read_private_file(path)
        .map_err(|why| format!("the file of secrets `{path_text}` is not read: {why}"))?;
    let mut secrets = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!(
                "the file of secrets `{path_text}` has no `NAME=value` in line {}",
                number + 1
            ));
        };
        secrets.insert(name.trim().to_owned(), value.to_owned());
    }
    Ok(secrets)
}

fn read_private_file(path: &Path) -> Result<String, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Err("it is a symbolic link".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let stat = rustix::fs::fstat(&file).map_err(|error| error.to_string())?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err("it is no regular file".to_owned());
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if stat.st_mode & 0o077 != 0 {
        let mode = stat.st_mode & 0o777;
        return Err(format!("others may use it (mode {mode:04o}): run `chmod 600` on it"));
    }
    let mut text = String::new();
    let max_bytes = limits::SECRETS_FILE_BYTES_MAX;
    let read_result = file.take(max_bytes + 1).read_to_string(&mut text);
    match read_result.map_err(|error| error.to_string())? {
        read if read as u64 > max_bytes => Err(format!("it has more than {max_bytes} bytes")),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn references_are_found_anywhere_in_a_text() {
        let text = "Bearer ${env:A} ${x} ${file:B_C}${secret:D} ${env:";
        assert_eq!(find_references(text), ["env:A", "file:B_C"]);
        let whole: String = split_at_references(text)
            .iter()
            .map(|part| match part {
                SecretSegment::Plain(text) => (*text).to_owned(),
                SecretSegment::Environment(name) | SecretSegment::File(name) => format!("<{name}>"),
            })
            .collect();
        assert_eq!(whole, "Bearer <A> ${x} <B_C>${secret:D} ${env:");
        assert!(!has_reference("plain") && has_reference("${env:A}"));
    }

    #[test]
    fn a_file_of_secrets_is_read_only_where_nobody_else_can_read_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secrets");
        fs::write(&path, "# of mine\n\nA=1=2 \n  B =x\n").expect("a file");
        for (mode, is_read) in
            [(0o600, true), (0o400, true), (0o644, false), (0o640, false), (0o604, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(parse_secrets_file(&path).is_ok(), is_read, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        let secrets = parse_secrets_file(&path).expect("secrets");
        assert_eq!((secrets["A"].as_str(), secrets["B"].as_str()), ("1=2 ", "x"));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        let refused = parse_secrets_file(&link).expect_err("a link");
        assert!(refused.contains("symbolic link"), "{refused}");
        assert!(parse_secrets_file(directory.path()).is_err(), "a directory");
        fs::write(&path, "A=1\nhunter2hunter2\n").expect("a file");
        let refused = parse_secrets_file(&path).expect_err("no `=`");
        assert!(refused.contains("line 2") && !refused.contains("hunter2"), "{refused}");
        let most = usize::try_from(limits::SECRETS_FILE_BYTES_MAX).expect("a length");
        fs::write(&path, format!("A={}", "x".repeat(most - 2))).expect("a file");
        assert!(parse_secrets_file(&path).is_ok());
        fs::write(&path, format!("A={}", "x".repeat(most - 1))).expect("a file");
        assert!(parse_secrets_file(&path).is_err(), "a byte too many");
    }
}
