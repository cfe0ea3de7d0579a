//! `midex doctor`: checks for problems that keep midex from working in this directory, and suggests fixes.

mod catalogs;
mod clients;
mod copies;
mod creatable;
mod executions;
mod space;

use std::{
    fmt::Write as _,
    fs::{self, Metadata},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rustix::fs::Access;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    EXIT_FINDINGS, EXIT_OK, Output, cluster,
    command::suggested_action,
    config::{ConfigFiles, ConfigNotice},
    link::{ServerLink, remove_nulls},
    list,
    screen::{Screen, TextStyle},
    serve::is_open_to_others,
    validate::format_count,
    value::{format_number, text_field},
    visible::replace_hidden_chars,
};
use midex_domain::{
    clock::{Clock, SteadyClock, SystemClock, SystemIds, Timestamp},
    error::{Code, Error, Result, describe_io_error},
    finding::{self, Severity, has_errors},
    limits,
};
use midex_mcp::{
    ToolProfile,
    control::{self, ClientRole, Greeting, Preamble},
};
use midex_registry as registry;
use midex_server::{
    app::{self, Options, StoreVerification},
    config::{AuthoringDirectory, Config},
};

/// How far in the future the modification time of a file may be: clocks of file systems differ slightly.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(60);

/// The name of the check of a cluster. It takes the place of the check of the store.
const CLUSTER_CHECK: &str = "cluster";

/// How many executions one line names at most.
const NAMED_EXECUTIONS_MAX: usize = 5;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckVerdict {
    Ok,
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct CheckResult {
    check: &'static str,
    verdict: CheckVerdict,
    says: String,
    /// How to fix it.
    mend: Option<String>,
}

impl CheckResult {
    fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, verdict: CheckVerdict::Ok, says: says.into(), mend: None }
    }

    fn warn(check: &'static str, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { verdict: CheckVerdict::Warn, mend: Some(mend.into()), ..Self::ok(check, says) }
    }

    /// The finding of a failed check, with the message of the error and its suggested action.
    fn fail(check: &'static str, error: &Error) -> Self {
        let message = format!("{}: {}", error.code(), error.message());
        Self::warn(check, message, suggested_action(error)).into_failure()
    }

    fn into_failure(self) -> Self {
        Self { verdict: CheckVerdict::Fail, ..self }
    }
}

/// Runs all checks, and prints a line for each finding. The exit code is 1 if a check fails.
pub(super) async fn run_doctor(
    config: &Config,
    files: &ConfigFiles,
    mut out: Output<'_>,
) -> Result<u8> {
    let mut findings = configuration_finding(files);
    findings.extend(data_directory_findings(config).await);
    findings.push(clock_finding(config));
    findings.push(definitions_finding(config)?);
    findings.push(authoring_finding(config));
    findings.extend(clients::client_findings(config));
    let has_store = config.data_dir.join(app::STORE_FILE).exists()
        || findings.iter().any(|finding| finding.check == CLUSTER_CHECK);
    let has_passed = |finding: &CheckResult| finding.verdict != CheckVerdict::Fail;
    if has_store && findings.iter().all(has_passed) {
        findings.extend(open_store_findings(config).await);
    }
    let has_failed = findings.iter().any(|finding| finding.verdict == CheckVerdict::Fail);
    out.print_rows(
        || findings.iter().map(|finding| json!(finding)).collect(),
        || findings_as_text(&findings),
    )?;
    Ok(if has_failed { EXIT_FINDINGS } else { EXIT_OK })
}

/// The findings on the data directory and its content.
async fn data_directory_findings(config: &Config) -> Vec<CheckResult> {
    let directory = directory_finding(config);
    if directory.verdict == CheckVerdict::Fail {
        return vec![directory];
    }
    let owner = find_owner(config).await;
    let mut findings = vec![directory];
    findings.extend(space::free_space_finding(&config.data_dir));
    findings.extend(space::large_store_finding(config));
    findings.push(socket_finding(config, &owner));
    findings.extend(owner_findings(config, &owner));
    // The store of a server of a cluster is its database.
    findings.push(match cluster_finding(config, &owner).await {
        Some(finding) => finding,
        None => store_finding(config, &owner),
    });
    findings.extend(copies::store_copies_finding(config));
    findings
}

fn findings_as_text(findings: &[CheckResult]) -> String {
    let screen = Screen::stdout();
    let line = |finding: &CheckResult| {
        let (word, style) = match finding.verdict {
            CheckVerdict::Ok => ("ok  ", TextStyle::Good),
            CheckVerdict::Warn => ("warn", TextStyle::Bold),
            CheckVerdict::Fail => ("fail", TextStyle::Bad),
        };
        let word = screen.paint(style, word);
        let mut line =
            format!("{word}  {:<13}  {}\n", finding.check, replace_hidden_chars(&finding.says));
        if let Some(mend) = &finding.mend {
            let _ = writeln!(line, "{:21}help: {}", "", replace_hidden_chars(mend));
        }
        line
    };
    findings.iter().map(line).collect()
}

fn configuration_finding(files: &ConfigFiles) -> Vec<CheckResult> {
    const CHECK_NAME: &str = "configuration";
    let mut findings: Vec<_> = files
        .existing_files()
        .map(|(path, file_findings)| config_file_finding(path, file_findings))
        .collect();
    if findings.is_empty() {
        let message = "no file: flags, environment and defaults";
        findings.push(CheckResult::ok(CHECK_NAME, message));
    }
    findings.extend(files.notices().into_iter().map(server_notice_finding));
    findings
}

fn config_file_finding(path: &Path, findings: &[finding::Finding]) -> CheckResult {
    const CHECK_NAME: &str = "configuration";
    const MEND_ADVICE: &str = "run `midex config`";
    let path = path.display();
    let message = format!("{} in {path}", format_count(findings.len(), "finding"));
    match findings {
        [] => CheckResult::ok(CHECK_NAME, path.to_string()),
        _ if has_errors(findings) => {
            let message = format!(
                "{message}, which ends every command: in place of what it does not tell, defaults are judged here"
            );
            CheckResult::warn(CHECK_NAME, message, MEND_ADVICE).into_failure()
        }
        _ => CheckResult::warn(CHECK_NAME, message, MEND_ADVICE),
    }
}

fn server_notice_finding(notice: ConfigNotice) -> CheckResult {
    let finding = CheckResult::warn("configuration", notice.message, notice.mend);
    match notice.severity {
        Severity::Error => finding.into_failure(),
        Severity::Warning => finding,
    }
}

fn directory_finding(config: &Config) -> CheckResult {
    const CHECK_NAME: &str = "directory";
    let path = config.data_dir.display();
    let unusable_finding = |problem: String| {
        let mend = "choose another one with --data-dir";
        CheckResult::warn(CHECK_NAME, format!("{path} {problem}"), mend).into_failure()
    };
    let metadata = match fs::metadata(&config.data_dir) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => return unusable_finding("is not a directory".into()),
        Err(_) if config.data_dir.is_symlink() => {
            return unusable_finding("is a link to nothing".into());
        }
        Err(error) => {
            if let Some(reason) = creatable::explain_not_creatable(&config.data_dir, &error) {
                return unusable_finding(reason);
            }
            let message = format!(
                "{path} is not there: it was never used, or was removed or moved; the next server makes it"
            );
            return CheckResult::ok(CHECK_NAME, message);
        }
    };
    if let Some(finding) =
        other_user_finding(CHECK_NAME, &config.data_dir.display().to_string(), &metadata)
    {
        return finding;
    }
    let mode = metadata.mode() & 0o7777;
    if is_open_to_others(mode) {
        return CheckResult::warn(
            CHECK_NAME,
            format!("others than this user may write to {path} (mode {mode:04o})"),
            format!("run `chmod go-w '{path}'`"),
        );
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    if let Err(error) = rustix::fs::access(&config.data_dir, access) {
        return CheckResult::warn(
            CHECK_NAME,
            format!(
                "{path} (mode {mode:04o}) cannot be written to: {}",
                describe_io_error(&error.into())
            ),
            format!("run `chmod u+rwx '{path}'`, or choose another one with --data-dir"),
        )
        .into_failure();
    }
    CheckResult::ok(CHECK_NAME, format!("{path} (mode {mode:04o})"))
}

fn other_user_finding(check: &'static str, path: &str, metadata: &Metadata) -> Option<CheckResult> {
    let is_own_user = metadata.uid() == rustix::process::geteuid().as_raw();
    (!is_own_user).then(|| {
        CheckResult::warn(
            check,
            format!("{path} belongs to another user"),
            "choose a directory of your own with --data-dir",
        )
        .into_failure()
    })
}

fn socket_finding(config: &Config, owner: &Result<Option<(Greeting, Preamble)>>) -> CheckResult {
    const CHECK_NAME: &str = "socket";
    let path = config.data_dir.join(control::SOCKET_FILE_NAME);
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        return CheckResult::ok(CHECK_NAME, "none: nobody listens");
    };
    let path = path.display().to_string();
    if let Some(finding) = other_user_finding(CHECK_NAME, &path, &metadata) {
        return finding;
    }
    if !metadata.file_type().is_socket() {
        return CheckResult::warn(
            CHECK_NAME,
            format!("{path} is no socket"),
            format!("remove {path}"),
        );
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return CheckResult::warn(
            CHECK_NAME,
            format!("{path} is open to others (mode {mode:04o}), who are turned away all the same"),
            format!("run `chmod 600 '{path}'`"),
        );
    }
    if matches!(owner, Ok(None)) {
        let message = format!(
            "{path}: nobody listens there, its process was killed; the next owner takes its place"
        );
        return CheckResult::ok(CHECK_NAME, message);
    }
    CheckResult::ok(CHECK_NAME, path)
}

fn store_options(config: &Config) -> Options {
    let clock = Arc::new(SteadyClock::default());
    Options::new(config.clone(), clock, Arc::new(SystemIds))
}

/// The greeting of the process that owns the directory, if one listens.
async fn find_owner(config: &Config) -> Result<Option<(Greeting, Preamble)>> {
    let data_dir = &config.data_dir;
    let preamble =
        Preamble::from_options(&store_options(config), ClientRole::Command, ToolProfile::default());
    let mut pause = limits::OWNER_LOOK_EVERY_MIN;
    for _ in 0..limits::OWNER_LOOKS_MAX {
        if let Some(owner) = control::connect_to_owner(data_dir, &preamble).await? {
            return Ok(Some((owner.greeting, preamble)));
        }
        // An owner that has just started answers calls before it has bound its socket, so look again.
        if app::lock_holder_pid(data_dir).is_none() {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(limits::OWNER_LOOK_EVERY_MAX);
    }
    Ok(None)
}

fn owner_findings(
    config: &Config,
    owner: &Result<Option<(Greeting, Preamble)>>,
) -> Vec<CheckResult> {
    const CHECK_NAME: &str = "owner";
    match owner {
        Err(error) => vec![busy_owner_finding(error)],
        Ok(Some((greeting, preamble))) => {
            vec![describe_owner(greeting), ignored_settings_finding(greeting, preamble)]
        }
        Ok(None) if config.data_dir.is_dir() => {
            match app::OwnedDirectory::take_ownership(&config.data_dir) {
                Ok(_) => vec![CheckResult::ok(CHECK_NAME, "nobody owns the directory now")],
                Err(error) => vec![busy_owner_finding(&error)],
            }
        }
        Ok(None) => Vec::new(),
    }
}

/// The finding on a process that holds the directory but does not answer: it is stopped, hung, or lacks its socket.
fn busy_owner_finding(error: &Error) -> CheckResult {
    let mut finding = CheckResult::fail("owner", error);
    if error.code() == Code::StoreBusy {
        let mend = "end that process, which does not answer; nothing acknowledged is lost";
        finding.mend = Some(mend.into());
    }
    finding
}

fn describe_owner(greeting: &Greeting) -> CheckResult {
    const CHECK_NAME: &str = "owner";
    let count_clients = |role| greeting.clients.iter().filter(|client| client.role == role).count();
    let since = Timestamp::from_milliseconds(greeting.since_ms);
    let http = greeting.http.as_ref();
    let http = http.map_or_else(String::new, |address| format!(", HTTP at {address}"));
    let message = format!(
        "process {}, midex {}, since {since}{http}; it serves {}",
        greeting.pid,
        greeting.midex,
        format_count(count_clients(ClientRole::Relay), "other")
    );
    if greeting.midex == env!("CARGO_PKG_VERSION") {
        return CheckResult::ok(CHECK_NAME, message);
    }
    let mend = "restart the hosts that run the other build, when that suits you";
    CheckResult::warn(CHECK_NAME, format!("{message}; this is {}", env!("CARGO_PKG_VERSION")), mend)
}

fn ignored_settings_finding(greeting: &Greeting, preamble: &Preamble) -> CheckResult {
    const CHECK_NAME: &str = "settings";
    let ignored = preamble.list_ignored_settings(greeting);
    if ignored.is_empty() {
        return CheckResult::ok(CHECK_NAME, "those of the owner are the ones asked for here");
    }
    let mend = "give all servers of the directory the same flags";
    CheckResult::warn(CHECK_NAME, ignored.join("; "), mend)
}

/// Verifies the whole store file, unless an owner has it open.
fn store_finding(config: &Config, owner: &Result<Option<(Greeting, Preamble)>>) -> CheckResult {
    const CHECK_NAME: &str = "store";
    if let Ok(Some((owner, _))) = owner {
        let path = config.data_dir.join(app::STORE_FILE);
        return match fs::symlink_metadata(&path) {
            Ok(_) => {
                CheckResult::ok(CHECK_NAME, "its owner has it open; pages were not read through")
            }
            Err(_) => CheckResult::fail(CHECK_NAME, &store_lost_error(owner.pid, &path)),
        };
    }
    match app::verify_store(config) {
        Ok(StoreVerification::Intact(bytes)) => {
            CheckResult::ok(CHECK_NAME, format!("{bytes} bytes, read through"))
        }
        Ok(StoreVerification::NoStore) => CheckResult::ok(CHECK_NAME, "none yet"),
        Ok(StoreVerification::Missing) => CheckResult::warn(
            CHECK_NAME,
            "the database that was in the directory is gone; the next server begins an empty one",
            format!("put `{}` back from a backup, if it is missed", app::STORE_FILE),
        ),
        // The finding `owner` reports this problem.
        Err(error) if error.code() == Code::StoreBusy => {
            CheckResult::ok(CHECK_NAME, "not looked at, for somebody has it open")
        }
        Err(error) => {
            let mut finding = CheckResult::fail(CHECK_NAME, &error);
            if let Some(copy) = error.context("copy").and_then(Value::as_str) {
                let _ = write!(finding.says, "; a copy of it lies at {copy}");
            }
            finding
        }
    }
}

/// The error that the owner itself returns as soon as it has to write.
fn store_lost_error(owner: u32, path: &Path) -> Error {
    let path = path.display().to_string();
    let message = format!("`{path}` was removed or moved while process {owner} has it open");
    Error::new(Code::StoreLost, message).with_context("path", path)
}

/// Warns if files have modification times in the future: tokens and deadlines depend on the clock, and live longer if
/// it is set back.
fn clock_finding(config: &Config) -> CheckResult {
    const CHECK_NAME: &str = "clock";
    let now = SystemClock.now();
    let write_times = fs::read_dir(&config.data_dir).into_iter().flatten().flatten();
    let write_times = write_times.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let offsets = write_times.filter_map(|time| {
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        let milliseconds = i64::try_from(since.as_millis()).ok()?;
        Some(Timestamp::from_milliseconds(milliseconds).since(now))
    });
    match offsets.max() {
        Some(ahead) if ahead > CLOCK_AHEAD_MAX => CheckResult::warn(
            CHECK_NAME,
            format!("files of the directory were written {} s from now", ahead.as_secs()),
            "set the clock of this machine",
        ),
        _ => CheckResult::ok(CHECK_NAME, now.to_string()),
    }
}

fn definitions_finding(config: &Config) -> Result<CheckResult> {
    const CHECK_NAME: &str = "definitions";
    let reports = registry::validate_paths(&[], &config.registry())?;
    let invalid: Vec<_> = reports.iter().filter(|report| report.is_broken()).collect();
    if invalid.is_empty() {
        return Ok(CheckResult::ok(CHECK_NAME, format!("{} files, all sound", reports.len())));
    }
    let paths: Vec<_> = invalid.iter().map(|report| report.path.as_str()).collect();
    Ok(CheckResult::warn(
        CHECK_NAME,
        format!("not usable as they are: {}", paths.join(", ")),
        "run `midex validate`",
    ))
}

/// The directory into which agents write workflows, and why it is that one.
fn authoring_finding(config: &Config) -> CheckResult {
    const CHECK_NAME: &str = "authoring";
    const MEND_ADVICE: &str = "make it a directory that this user may write to, or choose another one with REGISTRY_WORKFLOWS_PATH or --author-to";
    let Some(AuthoringDirectory { directory, reason }) = config.authoring_directory() else {
        return CheckResult::warn(
            CHECK_NAME,
            "there is no home directory to write workflows into",
            MEND_ADVICE,
        );
    };
    let path = directory.path.display();
    let message = format!("agents write workflows into {path} ({reason})");
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match fs::metadata(&directory.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            CheckResult::ok(CHECK_NAME, format!("{message}; the first save makes it"))
        }
        Err(error) => CheckResult::warn(
            CHECK_NAME,
            format!("{message}: {}", describe_io_error(&error)),
            MEND_ADVICE,
        ),
        Ok(metadata) if !metadata.is_dir() => CheckResult::warn(
            CHECK_NAME,
            format!("{message}, which is not a directory"),
            MEND_ADVICE,
        ),
        Ok(_) => match rustix::fs::access(&directory.path, access) {
            Err(error) => {
                let reason = describe_io_error(&error.into());
                CheckResult::warn(CHECK_NAME, format!("{message}: {reason}"), MEND_ADVICE)
            }
            Ok(()) => CheckResult::ok(CHECK_NAME, message),
        },
    }
}

/// The findings that need the open store: they come from its owner or, without one, from this process.
async fn open_store_findings(config: &Config) -> Vec<CheckResult> {
    let mut link = ServerLink::new(config);
    let examination = async {
        let (entries, misindexed, stuck) = examine_store(&mut link).await?;
        let message = format!("{entries} entries hold together");
        let records = match misindexed {
            0 => CheckResult::ok("records", message),
            count => CheckResult::warn(
                "records",
                format!(
                    "{message}, but lists leave out {}",
                    format_number(count, "execution", "executions")
                ),
                "stop the midex that uses the data directory, and run `midex compact`: it makes the index anew",
            ),
        };
        // A database examines itself: nothing of it was read here.
        let mut findings: Vec<_> = (entries > 0).then_some(records).into_iter().collect();
        let open = list_open_executions(&mut link).await?;
        findings.push(executions::check_executions(&open, &stuck));
        findings.extend(catalogs::catalog_findings(config, &mut link, &stuck).await?);
        Ok(findings)
    };
    let result = examination.await;
    link.close_and_log().await;
    result.unwrap_or_else(|error: Error| {
        // Another process has opened the store since the first checks.
        let is_busy = error.code() == Code::StoreBusy;
        let retry_finding =
            || CheckResult::warn("records", error.message(), "run `midex doctor` again");
        vec![if is_busy { retry_finding() } else { CheckResult::fail("records", &error) }]
    })
}

/// The state of the cluster that the owner of the data directory belongs to; `None` if it belongs to none.
async fn cluster_finding(
    config: &Config,
    owner: &Result<Option<(Greeting, Preamble)>>,
) -> Option<CheckResult> {
    owner.as_ref().ok()?.as_ref()?;
    let mut link = ServerLink::new(config);
    let status = cluster::status::read_status(&mut link).await;
    link.close_and_log().await;
    let status = match status {
        Ok(status) => status?,
        Err(error) => return Some(CheckResult::fail(CLUSTER_CHECK, &error)),
    };
    let says = cluster::status::describe_cluster(&status);
    Some(match cluster::status::describe_problem(&status) {
        Some((problem, mend)) => {
            CheckResult::warn(CLUSTER_CHECK, format!("{says}; {problem}"), mend)
        }
        None => CheckResult::ok(CLUSTER_CHECK, says),
    })
}

/// Reads the whole store, in portions so that other calls do not wait long. Returns the number of entries, the number of
/// executions to which the index does not lead, and the executions that are stuck.
async fn examine_store(link: &mut ServerLink<'_>) -> Result<(u64, u64, Vec<Value>)> {
    let (mut entries, mut misindexed, mut stuck) = (0, 0, Vec::new());
    let mut cursor = Value::Null;
    loop {
        let arguments = remove_nulls(json!({ "from": cursor }));
        let mut portion = link.call("store.examine", arguments).await?;
        entries += portion["entries"].as_u64().unwrap_or_default();
        misindexed += portion["misindexed"].as_u64().unwrap_or_default();
        if let Value::Array(executions) = portion["stuck"].take() {
            stuck.extend(executions);
        }
        cursor = portion["next"].take();
        if cursor.is_null() {
            return Ok((entries, misindexed, stuck));
        }
    }
}

/// The open executions of all projects.
async fn list_open_executions(link: &mut ServerLink<'_>) -> Result<Vec<Value>> {
    let arguments = json!({ "state": "open", "project": "*", "limit": limits::LIST_LIMIT_MAX });
    list::read_pages(link, arguments, usize::MAX).await
}
