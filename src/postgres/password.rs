//! The password of the database, from where the programs of PostgreSQL take it.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tokio_postgres::{Config, config::Host};

use midex_domain::error::{Code, Error, Result};

/// The port of a database if the address names none.
const DEFAULT_PORT: u16 = 5432;

/// The password for this database: that of `PGPASSWORD`, else of the file that `PGPASSFILE` names, else of `~/.pgpass`. `None` if
/// there is none.
///
/// # Errors
/// `FILE_UNUSABLE` if the file that `PGPASSFILE` names cannot be read, or if others may read the file.
pub(crate) fn find_password(config: &Config) -> Result<Option<String>> {
    if let Some(password) = env::var("PGPASSWORD").ok().filter(|password| !password.is_empty()) {
        return Ok(Some(password));
    }
    let named = env::var_os("PGPASSFILE").map(PathBuf::from);
    let is_named = named.is_some();
    let Some(path) = named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pgpass")))
    else {
        return Ok(None);
    };
    if !is_named && !path.exists() {
        return Ok(None);
    }
    let unusable = |why: String| {
        let message = format!("`{}` cannot be used: {why}", path.display());
        Error::new(Code::FileUnusable, message).with_context("path", path.display().to_string())
    };
    let mode =
        fs::metadata(&path).map_err(|error| unusable(error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        return Err(unusable("others may read it".to_owned())
            .with_action("Run `chmod 600 {path}`")
            .with_context("path", path.to_string()));
    }
    let text = fs::read_to_string(&path).map_err(|error| unusable(error.to_string()))?;
    Ok(text.lines().find_map(|line| match_line(line, config)))
}

/// The password of a line `host:port:database:user:password`, if the line is for this database.
fn match_line(line: &str, config: &Config) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let fields = split_fields(line);
    let [host, port, database, user, password] = fields.try_into().ok()?;
    let user_name = config.get_user().unwrap_or_default();
    let wanted = [
        (host, describe_host(config)),
        (port, config.get_ports().first().unwrap_or(&DEFAULT_PORT).to_string()),
        (database, config.get_dbname().unwrap_or(user_name).to_owned()),
        (user, user_name.to_owned()),
    ];
    let fits = wanted.iter().all(|(field, value)| field == "*" || field == value);
    fits.then_some(password)
}

/// The host as such a file names it: `localhost` for a socket.
fn describe_host(config: &Config) -> String {
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        _ => "localhost".to_owned(),
    }
}

/// The fields of a line. A colon or a backslash in a field follows a backslash; the password is the rest of the line.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(next) = chars.next() {
        let is_password = fields.len() == 5;
        let current = fields.last_mut().expect("there is always one");
        match next {
            '\\' => current.extend(chars.next()),
            ':' if !is_password => fields.push(String::new()),
            other => current.push(other),
        }
    }
    fields
}

/// Whether the database is on this machine, so that nobody else can read what is sent to it.
pub(crate) fn is_local(config: &Config) -> bool {
    let is_loopback = |host: &str| {
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(host) => is_loopback(host),
        Host::Unix(directory) => Path::new(directory).is_absolute(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_for_the_database_that_it_names() {
        let config: Config = "postgres://midex@db:5433/work".parse().expect("an address");
        for (line, password) in [
            ("db:5433:work:midex:secret", Some("secret")),
            ("*:*:*:*:with:colon", Some("with:colon")),
            (r"*:*:*:midex:back\\slash\:colon", Some(r"back\slash:colon")),
            ("db:5432:work:midex:secret", None),
            ("db:5433:work:other:secret", None),
            ("#db:5433:work:midex:secret", None),
            ("db:5433:work:midex", None),
            ("", None),
        ] {
            assert_eq!(match_line(line, &config).as_deref(), password, "{line}");
        }
        let socket: Config = "host=/run/postgresql user=midex".parse().expect("an address");
        assert_eq!(match_line("localhost:5432:midex:midex:x", &socket).as_deref(), Some("x"));
    }

    #[test]
    fn only_this_machine_is_called_without_encryption() {
        for (address, local) in [
            ("postgres://u@localhost/d", true),
            ("postgres://u@[::1]/d", true),
            ("host=/run/postgresql user=u", true),
            ("postgres://u@10.0.0.1/d", false),
            ("postgres://u@localhost,db/d", false),
        ] {
            let config: Config = address.parse().expect(address);
            assert_eq!(is_local(&config), local, "{address}");
        }
    }
}
