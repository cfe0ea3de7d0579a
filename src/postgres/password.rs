//! The password of the database, from where the programs of PostgreSQL take it.

use std::{
    env, fmt, io,
    path::{Path, PathBuf},
};

use tokio_postgres::{Config, config::Host};

use midex_domain::{
    error::{Error, Result},
    limits,
};
use midex_folder::{is_accessible_to_others, open_regular, read_up_to};

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
    let unusable = |why: &dyn fmt::Display| Error::file_unusable(&path, why);
    let (file, metadata) = match open_regular(&path) {
        Ok(opened) => opened,
        Err(error) if !is_named && error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&error)),
    };
    if is_accessible_to_others(&metadata) {
        return Err(unusable(&"others may read it").with_action("Run `chmod 600 {path}`"));
    }
    let bytes_max = limits::DATABASE_PASSWORDS_BYTES_MAX;
    let bytes = read_up_to(file, bytes_max).map_err(|error| unusable(&error))?;
    if bytes.len() as u64 > bytes_max {
        return Err(unusable(&format!("it has more than {bytes_max} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| unusable(&error))?;
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

/// Whether every host of the database is this machine, so that its connections need no encryption.
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
