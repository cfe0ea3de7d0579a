//! `midex.toml` and `midex config`, through the real binary with an empty home.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, process::Output};

use midex_domain::limits;
use serde_json::{Value, json};

use super::Words;
use midex_test::{
    Client, Fields, Server, Shows,
    project::{Project, each, eventually, list},
    table,
};

/// Where the user's file lies in a test.
const USERS: &str = "home/.config/midex/midex.toml";
/// Where the project's file lies.
const PROJECTS: &str = "midex.toml";

fn midex(project: &Project, env: &[(&str, &str)], arguments: impl Words) -> Output {
    let mut command = project.command(arguments);
    for name in ["MIDEX_ALLOW_ENV", "MIDEX_SECRET_ENV", "RUST_LOG"] {
        command.env_remove(name);
    }
    let command = command.envs(env.iter().copied());
    command.output().expect("the binary runs")
}

/// The exit code of a command, and what it wrote to both streams.
fn said(project: &Project, arguments: impl Words) -> (i32, String, String) {
    let output = midex(project, &[], arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (output.status.code().expect("it ended by itself"), text(&output.stdout), text(&output.stderr))
}

/// What `midex config` says of everything.
pub(crate) fn config(project: &Project, env: &[(&str, &str)], flags: impl Words) -> Value {
    let output = midex(project, env, "config --json".and(flags));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// What it says of one setting: the value, and where that comes from in few words.
fn setting(config: &Value, name: &str) -> (Value, String) {
    let settings = list(&config["settings"]);
    let mut settings = settings.iter();
    let found = settings.find(|setting| setting["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no `{name}` in {config}"));
    let from = &found["from"];
    let path = || from["path"].as_str().and_then(|path| path.rsplit('/').nth(1));
    let words = match from["source"].as_str().expect("a source") {
        "environment" => format!("environment {}", from["variable"].as_str().unwrap()),
        "file" if path() == Some("midex") => format!("user {}", from["line"]),
        "file" => format!("project {}", from["line"]),
        other => other.to_owned(),
    };
    (found["value"].clone(), words)
}

/// What it says is wrong with the files.
pub(crate) fn findings(config: &Value) -> Vec<Value> {
    let files = list(&config["files"]);
    files.iter().flat_map(|file| list(&file["findings"])).collect()
}

#[test]
fn flags_come_before_the_environment_the_project_the_user_and_the_default() {
    let project = Project::new(&[]);
    let held =
        |env: &[(&str, &str)], flags: &str, name| setting(&config(&project, env, flags), name);
    let is = |value: Value, from: &str| (value, from.to_owned());
    let usual = project.path("home/.local/share/midex");
    assert_eq!(held(&[], "", "data-dir"), is(json!(usual), "default"));
    assert_eq!(held(&[], "", "token-ttl"), is(json!("24h"), "default"));
    project.write(
        USERS,
        "# mine\ntoken-ttl = \"2h\"\ndata-dir = \"/d\"\nallow-env = [\"A\", \"B\"]\n",
    );
    assert_eq!(held(&[], "", "token-ttl"), is(json!("2h"), "user 2"));
    assert_eq!(held(&[], "", "data-dir"), is(json!("/d"), "user 3"));
    assert_eq!(held(&[], "", "allow-env"), is(json!(["A", "B"]), "user 4"));
    project.write(PROJECTS, "token-ttl = \"3h\"\n");
    assert_eq!(held(&[], "", "token-ttl"), is(json!("3h"), "project 1"));
    let env = [("MIDEX_DATA_DIR", "/e"), ("MIDEX_ALLOW_ENV", "C, D"), ("MIDEX_SECRET_ENV", "")];
    assert_eq!(held(&env, "", "data-dir"), is(json!("/e"), "environment MIDEX_DATA_DIR"));
    assert_eq!(held(&env, "", "allow-env"), is(json!(["C", "D"]), "environment MIDEX_ALLOW_ENV"));
    assert_eq!(held(&env, "", "secret-env"), is(json!([]), "default"));
    let flags = "--data-dir /f --token-ttl 4h --allow-env E";
    for (name, value) in
        [("data-dir", json!("/f")), ("token-ttl", json!("4h")), ("allow-env", json!(["E"]))]
    {
        assert_eq!(held(&env, flags, name), is(value, "flag"));
    }
}

#[test]
fn the_hosts_of_a_secret_are_a_table_of_the_users_file() {
    let project = Project::new(&[]);
    let text =
        "[secrets.KEY]\nhosts = [\"a.example\", \"b.example:8443\"]\n[secrets.PIN]\nhosts = []\n";
    project.write(USERS, text);
    let (value, from) = setting(&config(&project, &[], ""), "secret-host");
    assert_eq!(value, json!(["KEY=a.example", "KEY=b.example:8443"]));
    assert_eq!(from, "user 1");
    project.remove(USERS);
    project.write(PROJECTS, text);
    let said = config(&project, &[], "");
    assert_eq!(setting(&said, "secret-host").1, "default");
    findings(&said)[0]["message"]
        .as_str()
        .unwrap()
        .shows("only the user's file may set `secret-host`");
}

#[test]
fn the_retention_is_a_table_with_a_rule_for_each_part() {
    let project = Project::new(&[]);
    let table = "[retention]\nolder_than = \"30d\"\nkeep_last = 100\n\n[retention.state.failed]\nolder_than = \"90d\"\n\n\
                 [retention.workflow.deploy]\nkeep_last = 20\n";
    project.write(USERS, table);
    let said = config(&project, &[], "");
    let rules = json!([
        "state=failed older-than=90d",
        "workflow=deploy keep-last=20",
        "older-than=30d keep-last=100"
    ]);
    assert_eq!(setting(&said, "retention").0, rules);
    project.remove(USERS);
    project.write(PROJECTS, table);
    let said = config(&project, &[], "");
    assert_eq!(each(&findings(&said), "rule"), ["no_effect"]);
    assert_eq!(setting(&said, "retention").0, json!([]));
}

#[test]
fn a_table_sets_the_flags_that_begin_with_its_name() {
    let project = Project::new(&[]);
    project.write(USERS, "[backup]\nevery = \"2d\"\nkeep = 3\nkep = 4\ndirectory = \"there\"\n");
    let said = config(&project, &[], "");
    let is = |value: Value, from: &str| (value, from.to_owned());
    assert_eq!(setting(&said, "backup-every"), is(json!("2d"), "user 2"));
    assert_eq!(setting(&said, "backup-keep"), is(json!(3), "user 3"));
    let there = project.path("home/.config/midex/there");
    assert_eq!(setting(&said, "backup-directory"), is(json!(there), "user 5"));
    let all = findings(&said);
    let [finding] = &all[..] else { panic!("{all:?}") };
    finding.has_fields(json!({ "line": 4, "severity": "warning", "rule": "unknown_key" }));
    finding["suggestion"]["text"].as_str().unwrap().shows("`backup-keep`");
    // A flag comes before the file, and a project's file may set none of them.
    assert_eq!(setting(&config(&project, &[], "--backup-keep 9"), "backup-keep").0, 9);
    project.remove(USERS);
    project.write(PROJECTS, "backup = { every = \"1d\", keep = 3 }\n");
    let said = config(&project, &[], "");
    assert_eq!(each(&findings(&said), "rule"), ["no_effect", "no_effect"]);
    assert_eq!(setting(&said, "backup-every"), is(Value::Null, "default"));
}

/// The flags of `midex serve`, which this command takes too.
#[test]
fn a_setting_of_the_server_is_shown_with_its_type() {
    let project = Project::new(&[(
        USERS,
        "snapshot-every = 5\nstdio = true\nhttp = \"localhost:0\"\nhttp-host = [\"h\"]\ntoolsets = [\"run\", \"operate\"]\nsecret-env = \"K,L\"\n",
    )]);
    let said = config(&project, &[], "--tool-names dotted");
    for (name, value, from) in [
        ("snapshot-every", json!(5), "user 1"),
        ("stdio", json!(true), "user 2"),
        ("http", json!("localhost:0"), "user 3"),
        ("http-host", json!(["h"]), "user 4"),
        ("toolsets", json!(["run", "operate"]), "user 5"),
        ("secret-env", json!(["K", "L"]), "user 6"),
        ("tool-names", json!("dotted"), "flag"),
        ("http-token-file", Value::Null, "default"),
    ] {
        assert_eq!(setting(&said, name), (value, from.to_owned()));
    }
    assert_eq!(findings(&said), Vec::<Value>::new());
}

#[test]
fn the_text_names_values_origins_files_and_draws_findings() {
    let project = Project::new(&[(PROJECTS, "\ntokn-ttl = \"2h\"\ntool-names = \"dotted\"\n")]);
    let output = midex(&project, &[("MIDEX_DATA_DIR", "/data")], "config");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let out = String::from_utf8(output.stdout).expect("UTF-8");
    let out = out.replace(&project.root().canonicalize().unwrap().display().to_string(), "ROOT");
    let out = out.replace(&project.root().display().to_string(), "ROOT");
    insta::assert_snapshot!(out, @r#"
    data-dir             /data                          environment MIDEX_DATA_DIR
    workflows            none                           default
    agents               none                           default
    well-known           false                          default
    token-ttl            24h                            default
    allow-env            none                           default
    secret-env           none                           default
    secret-host          none                           default
    import-from          none                           default
    author-to            user                           default
    snapshot-every       1                              default
    http                 none                           default
    stdio                true                           default
    http-token-file      none                           default
    http-host            none                           default
    toolsets             run, author, operate, catalog  default
    tool-names           dotted                         ROOT/midex.toml:3
    retention            none                           default
    backup-every         none                           default
    backup-keep          7                              default
    backup-directory     none                           default
    dashboard            none                           default
    dashboard-read-only  false                          default

    project's file       ROOT/midex.toml
    user's file          ROOT/home/.config/midex/midex.toml (not there)

    warning[unknown_key]: a configuration file has no key `tokn-ttl`; it is ignored
     --> ROOT/midex.toml:2:1
      |
    2 | tokn-ttl = "2h"
      | ^^^^^^^^
      |
      = help: did you mean `token-ttl`?
    "#);
}

#[test]
fn a_database_needs_a_midex_that_was_built_for_it() {
    let project = Project::new(&[]);
    let refuse = |flags: &str| {
        let output = midex(&project, &[], &format!("serve --store postgres://u@h/d{flags}"));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let error = refuse("");
    for flag in ["--advertise", "--cluster-token-file", "--http"] {
        assert!(error.contains(flag), "{error}");
    }
    let others = " --http 127.0.0.1:0 --advertise http://127.0.0.1:1 --cluster-token-file t";
    let error = refuse(others);
    assert!(error.contains("built without PostgreSQL"), "{error}");
    assert!(error.contains("`cargo install --path . --locked --features postgres`"), "{error}");
}

/// A file, what stands in it, what is said of that, and what is suggested.
const IGNORED: &str = r#"
    USERS | token-tll = "2h" | no key `token-tll` | did you mean `token-ttl`?
    USERS | data_dir = "x" | no key `data_dir` | did you mean `data-dir`?
    USERS | json = true | no key `json` |
    USERS | [serve]\nhttp = "x" | no key `serve` | without a table
    PROJECTS | data-dir = "x" | only the user's file may set `data-dir` | home/.config/midex/midex.toml
    PROJECTS | http = 7 | only the user's file may set `http` | move it to 
    PROJECTS | import-from = ["x"] | only the user's file may set `import-from` | move it to 
"#;

#[test]
fn what_a_file_may_not_say_is_left_out_and_warned_of() {
    let project = Project::new(&[]);
    for [file, text, message, suggestion] in table(IGNORED) {
        let file = if file == "USERS" { USERS } else { PROJECTS };
        project.write(file, &format!("# first\nsnapshot-every = 2\n{text}\n"));
        let said = config(&project, &[], "");
        let all = findings(&said);
        let [finding] = &all[..] else { panic!("{text}: {all:?}") };
        finding.has_fields(json!({ "line": 3, "severity": "warning" }));
        finding["message"].as_str().unwrap().shows(&message);
        finding["suggestion"]["text"].to_string().shows(&suggestion);
        assert_eq!(setting(&said, "snapshot-every").0, 2, "the rest holds: {text}");
        let (code, out, err) = self::said(&project, "list --json");
        assert_eq!(code, 0, "{out}{err}");
        err.shows(&["warning: ", &format!("{file}:3:"), &message, &suggestion]);
        project.remove(file);
    }
}

/// What stands in the file, where its fault is, and what is said of it.
const BAD_VALUES: &str = r#"
    \n token-ttl = "2x" | 2:14 | `2x` is not a duration
    token-ttl = 24 | 1:13 | `token-ttl` must be a text, this is a whole number
    snapshot-every = "3" | 1:18 | must be a whole number, this is a text
    snapshot-every = 0 | 1:18 | 0 is not in 1..
    [backup]\nkeep = 0 | 2:8 | 0 is not in 1..
    [backup]\nkeep = 10001 | 2:8 | 10001 is not in 1..
    [backup]\nevery = "59s" | 2:9 | at least 60s
    [backup]\nevery = 1 | 2:9 | must be a text
    [retention]\nkeep_last = 0 | 1:1 | `0` is no whole number from 1 on
    [retention]\nolder_than = "5s" | 1:1 | older-than is at least 60s
    [retention.state.running]\nkeep_last = 1 | 1:1 | no state in which an execution has ended
    [secrets.KEY]\nhost = ["a"] | 1:1 | `[secrets.KEY]` has `hosts` alone
    [secrets.KEY]\nhosts = ["a/b"] | 1:1 | it is NAME=HOST
    tool-names = "doted" | 1:14 | a similar value exists: 'dotted'
    toolsets = ["run", "walk"] | 1:12 | there is no toolset `walk`
    http = "here" | 1:8 | expected an address and a port
    stdio = "yes" | 1:9 | must be true or false, this is a text
    allow-env = [1] | 1:13 | must be a list of texts, this is a list of other things
    data-dir = "" | 1:12 | a value is required for '--data-dir <DIR>'
    http-host = ["a b"] | 1:13 | '--http-host <NAME>'
    allow-env = ["A B"] | 1:13 | `A B` is no name of an environment variable
    tool-names = ["auto"] | 1:14 | must be a text, this is a list of texts
    token-ttl = "8785h" | 1:13 | from 1s to 8784h
    token-ttl = \n | 1:13 | this is not TOML
    token-ttl = "1h"\ntoken-ttl = "2h" | 2:1 | duplicate key
    LARGE | 1:1 | larger than 65536 bytes
"#;

/// A value that is not what its flag takes, and a file that is none, end a command before it works on the wrong things.
#[test]
fn a_file_that_cannot_be_used_ends_every_command_and_names_its_place() {
    let project = Project::new(&[]);
    let large = format!(
        "token-ttl = \"2h\" #{}",
        "x".repeat(usize::try_from(limits::CONFIG_BYTES_MAX).unwrap())
    );
    for [text, place, words] in table(BAD_VALUES) {
        let text = text.replace("LARGE", &large);
        let (line, column) = place.split_once(':').unwrap();
        project.write(USERS, &text);
        let (code, out, err) = said(&project, "list");
        assert_eq!((code, &*out), (2, ""), "{text}: {err}");
        let place = format!("line {line}, column {column}: ");
        err.shows(&[
            "error[USAGE_INVALID]",
            &format!("{USERS}` cannot be used"),
            &place,
            &words,
            "`midex config` shows",
        ]);
    }
}

#[test]
fn the_limit_of_a_file_is_its_last_byte() {
    let project = Project::new(&[]);
    let max = usize::try_from(limits::CONFIG_BYTES_MAX).unwrap();
    let head = "token-ttl = \"2h\" #";
    for (bytes, code) in [(max, 0), (max + 1, 1)] {
        project.write(PROJECTS, &(head.to_owned() + &"x".repeat(bytes - head.len())));
        assert_eq!(said(&project, "config").0, code, "{bytes}");
    }
}

#[test]
fn what_is_no_file_of_text_is_named() {
    let project = Project::new(&[]);
    let path = project.path(PROJECTS);
    let refused = |what: &str, column: usize, words: &str| {
        let (code, _, err) = said(&project, "list");
        assert_eq!(code, 2, "{what}: {err}");
        err.shows(&["midex.toml` cannot be used", &format!("line 1, column {column}: "), words]);
    };
    fs::create_dir(&path).unwrap();
    refused("a directory", 1, "this is not a file");
    fs::remove_dir(&path).unwrap();
    fs::write(&path, b"# \xff").unwrap();
    refused("other bytes", 3, "the file is not UTF-8 from here");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    refused("a link to nothing", 1, "it cannot be read");
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    refused("a pipe that nobody writes to", 1, "a pipe, not a file");
}

#[test]
fn with_a_broken_file_some_commands_work_all_the_same() {
    let project = Project::new(&[]);
    let completions = said(&project, "completions bash");
    project.write(USERS, "token-ttl = \"2h\"\nsnapshot-every = 7\ntool-names = 7\n");
    assert_eq!(said(&project, "completions bash"), completions);
    for arguments in ["--version", "--help", "serve --help"] {
        assert_eq!(said(&project, arguments).0, 0, "{arguments:?}");
    }
    // A host takes nothing but what its agent is to hear.
    let (code, out, _) = said(&project, "hook session-start");
    assert_eq!((code, &*out), (0, ""));
    let (code, out, err) = said(&project, "doctor");
    assert_eq!((code, &*err), (1, ""), "{out}");
    out.shows(&[
        "fail  configuration",
        "1 finding in ",
        USERS,
        "defaults are judged here",
        "help: run `midex config`",
    ]);
    project.write(USERS, "token-tl = \"2h\"\n");
    assert_eq!(said(&project, "hook stop"), (0, String::new(), String::new()));
    let (code, out, _) = said(&project, "doctor");
    assert_eq!(code, 0, "{out}");
    out.shows("warn  configuration…1 finding in ");
    project.write(USERS, "");
    said(&project, "doctor").1.shows(&["ok    configuration", USERS]);
}

#[test]
fn a_path_begins_at_the_directory_of_its_file_or_at_home() {
    let project = Project::new(&[
        (USERS, "data-dir = \"kept\"\nworkflows = \"~\"\nhttp-token-file = \"/t\"\n"),
        (PROJECTS, "agents = \"below/../personas\"\n"),
        (".git/HEAD", ""),
        ("below/x", ""),
    ]);
    let mut command = project.command("config --json");
    let output = command.current_dir(project.path("below")).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let root = project.root().canonicalize().unwrap();
    for (name, path) in [
        ("data-dir", project.path("home/.config/midex/kept")),
        ("workflows", project.path("home/")),
        ("http-token-file", "/t".into()),
        ("agents", root.join("below/../personas")),
    ] {
        assert_eq!(setting(&said, name).0, json!(path));
    }
}

/// In the directory of the user's file that is no project's file, whose keys are fewer.
#[test]
fn the_users_file_is_not_read_again_as_the_projects() {
    let project = Project::new(&[(USERS, "data-dir = \"kept\"\n")]);
    let mut command = project.command("config --json");
    let output = command.current_dir(project.path("home/.config/midex")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(each(&list(&said["files"]), "owner"), ["user"]);
}

const SECRETIVE: &str = "workflow: w
description: d
inputs:
  port: { type: integer, default: { from: env, value: MIDEX_TEST_PORT } }
steps:
  - id: a
    agent: reviewer
";

fn serve(project: &Project, env: &[(&str, &str)], flags: impl Words) -> Server {
    let mut command = project.command("serve".and(flags));
    command.env_remove("MIDEX_ALLOW_ENV").envs(env.iter().copied());
    let log = fs::File::create(project.path("log")).unwrap();
    let mut server = Server::logging(command, log);
    server.shake_hands();
    server
}

fn log(project: &Project) -> String {
    fs::read_to_string(project.path("log")).unwrap()
}

#[test]
fn a_project_neither_reaches_the_server_nor_reads_the_environment() {
    let text = "data-dir = \"here\"\nhttp = \"127.0.0.1:0\"\nhttp-host = [\"h\"]\nhttp-token-file = \"t\"\nstdio = false\n\
        allow-env = [\"MIDEX_TEST_PORT\"]\nsecret-env = [\"MIDEX_TEST_PORT\"]\nimport-from = [\"/\"]\n";
    let project = Project::new(&[("workflows/w.yaml", SECRETIVE)]);
    let env = [("MIDEX_TEST_PORT", "8080")];
    let start = |id: &str| json!({ "workflow_name": "w", "execution_id": id });
    project.write(PROJECTS, text);
    let mut server = serve(&project, &env, "");
    let refused = server.refused("workflow.start", start("x"));
    assert_eq!(refused["violations"][0]["rule"], "required", "{refused}");
    server.done("execution.list", json!({}));
    assert!(project.data_file().exists() && !project.path("here").exists());
    let said = log(&project);
    assert!(!said.contains("http://"), "{said}");
    for key in [
        "data-dir",
        "http",
        "http-host",
        "http-token-file",
        "stdio",
        "allow-env",
        "secret-env",
        "import-from",
    ] {
        said.shows(&[&format!("only the user's file may set `{key}`")]);
        assert_eq!(setting(&config(&project, &[], ""), key).1, "default");
    }
    // The same from the user's file is heeded.
    server.close();
    project.remove(PROJECTS);
    project.write(USERS, "data-dir = \"kept\"\nallow-env = [\"MIDEX_TEST_PORT\"]\n");
    let mut server = serve(&project, &env, "");
    server.begin_with(start("x"));
    assert_eq!(server.current("x")["inputs"]["port"], 8080);
    assert!(project.path("home/.config/midex/kept/executions.redb").exists());
}

#[test]
fn a_project_chooses_the_toolsets_of_its_servers() {
    let project = Project::new(&[(PROJECTS, "toolsets = [\"operate\"]\n")]);
    let tools = |flags: &str| {
        let mut server = serve(&project, &[], flags);
        each(&list(&server.request("tools/list", json!({}))["result"]["tools"]), "name")
    };
    let offered = tools("");
    assert!(
        offered.contains(&"execution.pause".into()) && !offered.contains(&"workflow.start".into())
    );
    assert!(tools("--toolsets run").contains(&"workflow.start".into()));
}

#[test]
fn a_server_serves_its_streams_too_where_the_users_file_has_an_address() {
    let project = Project::new(&[(USERS, "http = \"127.0.0.1:0\"\n")]);
    let mut server = serve(&project, &[], "");
    server.done("execution.list", json!({}));
    eventually("an address", || log(&project).contains("http://127.0.0.1:").then_some(()));
    server.terminate();
    server.wait();
    // Another process has the address: of all windows of a host one can have it.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    project.write(USERS, &format!("http = \"{address}\"\n"));
    let mut server = serve(&project, &[], "");
    server.done("execution.list", json!({}));
    log(&project).shows("cannot be listened on");
    // Whoever asks for the address, or for it alone, is refused.
    project.write(USERS, &format!("http = \"{address}\"\nstdio = false\n"));
    for flags in [String::new(), format!("--stdio --http {address}")] {
        let (code, _, err) = said(&project, "serve".and(&flags));
        assert_ne!(code, 0, "{err}");
        err.shows("ADDRESS_UNUSABLE");
    }
}

#[test]
fn flags_that_need_an_address_are_satisfied_by_that_of_the_file() {
    let project = Project::new(&[]);
    let (code, _, err) = said(&project, "config --stdio");
    assert_eq!(code, 2, "{err}");
    err.shows("--http <ADDRESS:PORT>");
    // What a file has for HTTP may wait for it.
    project.write(USERS, "http-host = [\"h\"]\n");
    assert_eq!(said(&project, "config").0, 0);
    project.write(USERS, "http = \"127.0.0.1:0\"\n");
    assert_eq!(said(&project, "config --http-host h").0, 0);
}

/// The data directory of a file reaches further commands by itself, that of a flag does not.
#[test]
fn hints_name_the_directory_only_where_a_flag_gave_it() {
    let project = Project::new(&[(USERS, "data-dir = \"kept\"\n")]);
    let (_, _, err) = said(&project, "show nothing");
    assert!(!err.contains("--data-dir"), "{err}");
    let (_, _, err) = said(&project, "show nothing --data-dir other");
    err.shows("--data-dir other");
}

/// What `midex config` and `midex doctor` say where a server with these files would do something else than one expects.
fn told(project: &Project) -> [(i32, String); 2] {
    ["config", "doctor"].map(|command| {
        let (code, out, _) = said(project, &[command]);
        (code, out)
    })
}

#[test]
fn settings_that_end_every_server_are_an_error() {
    let project = Project::new(&[("short", "x")]);
    let token = project.path("short");
    let mode = |mode| fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
    let file = |name| format!("http = \"127.0.0.1:0\"\nhttp-token-file = \"{name}\"\n");
    let path = token.display().to_string();
    mode(0o644);
    for (text, words) in [
        ("http = \"0.0.0.0:0\"\n".to_owned(), "reached from outside"),
        (file("/nowhere/token"), "/nowhere/token cannot be read"),
        (file(&path), "can be read by others"),
    ] {
        project.write(USERS, &text);
        said(&project, "serve").2.shows(&[words]);
        for (code, out) in told(&project) {
            assert_eq!(code, 1, "{out}");
            out.shows(&["`midex serve` would end at once: ", words, "help: "]);
        }
    }
    mode(0o600);
    let [config, doctor] = told(&project);
    config.1.shows("holds no token");
    doctor.1.shows("fail  configuration…holds no token");
    let json = self::config(&project, &[], "");
    assert_eq!(json["notices"][0]["severity"], "error");
    // The flags of the command count as those of a server.
    let (code, out, _) = said(&project, "config --http 0.0.0.0:0");
    assert_eq!(code, 1, "{out}");
    fs::write(&token, "0123456789abcdef".repeat(4)).unwrap();
    let [config, doctor] = told(&project);
    assert_eq!((config.0, doctor.0), (0, 0), "{config:?} {doctor:?}");
}

#[test]
fn servers_that_answer_no_host_are_warned_of() {
    let project = Project::new(&[]);
    project.write(USERS, "http = \"127.0.0.1:0\"\nstdio = false\n");
    let [config, doctor] = told(&project);
    assert_eq!((config.0, doctor.0), (1, 0), "{config:?} {doctor:?}");
    config.1.shows("warning: …gets no answer…help: ");
    doctor.1.shows("warn  configuration…gets no answer");
}

#[test]
fn a_server_whose_address_a_file_gave_ends_with_its_host() {
    let project = Project::new(&[(USERS, "http = \"127.0.0.1:0\"\n")]);
    let mut server = serve(&project, &[], "");
    server.done("execution.list", json!({}));
    let (status, _, _) = server.close();
    assert!(status.success(), "{status:?}");
}

#[test]
fn a_value_that_an_unusable_file_may_have_set_is_marked() {
    let project = Project::new(&[(USERS, "data-dir = \"/d\"\nhttp = = 1\n")]);
    let (_, out, _) = said(&project, "config --token-ttl 2h");
    let line = |name| out.lines().find(|line| line.starts_with(name)).unwrap();
    line("data-dir").shows(&["default, unless ", USERS, " says otherwise"]);
    assert!(!line("token-ttl").contains("unless"), "{out}");
    // One value that cannot be used leaves the others as they are.
    project.write(USERS, "data-dir = \"/d\"\ntoken-ttl = 24\n");
    let (_, out, _) = said(&project, "config");
    let line = |name| out.lines().find(|line| line.starts_with(name)).unwrap();
    line("token-ttl").shows("unless ");
    assert!(!line("data-dir").contains("unless") && !line("http ").contains("unless"), "{out}");
}

#[test]
fn findings_are_counted_for_the_file_that_has_them() {
    let project = Project::new(&[(PROJECTS, "a = 1\nb = 2\n"), (USERS, "token-ttl = \"2h\"\n")]);
    let (_, out, _) = said(&project, "doctor");
    let users = out.lines().find(|line| line.contains(USERS)).unwrap();
    users.shows("ok    configuration");
    out.shows("2 findings in ");
    assert!(!users.contains("findings"), "{out}");
}

#[test]
fn a_directory_of_the_environment_is_shown_whole() {
    let project = Project::new(&[]);
    let said = config(&project, &[("MIDEX_DATA_DIR", "rel/d")], "");
    let root = project.root().canonicalize().unwrap();
    assert_eq!(setting(&said, "data-dir").0, json!(root.join("rel/d")));
}

#[test]
fn help_names_the_file_of_a_flag() {
    let project = Project::new(&[]);
    let (_, help, _) = said(&project, "serve --help");
    let (_, options, _) = said(&project, "help options");
    let words: Vec<_> = help.split_whitespace().chain(options.split_whitespace()).collect();
    let of = |flag| {
        let at = words.iter().position(|word| *word == flag).unwrap();
        words[at..].iter().take(80).copied().collect::<Vec<_>>().join(" ")
    };
    for flag in
        ["--token-ttl", "--toolsets", "--tool-names", "--snapshot-every", "--workflows", "--agents"]
    {
        of(flag).shows("[or in midex.toml]");
    }
    for flag in ["--http", "--stdio", "--http-token-file", "--http-host"] {
        of(flag).shows("[or in the user's midex.toml]");
    }
}

#[test]
fn a_refused_command_line_is_json_where_json_was_asked_for() {
    let project = Project::new(&[]);
    let (code, out, err) = said(&project, "config --json --token-ttl zz");
    assert_eq!((code, &*out), (2, ""), "{err}");
    let error: Value = serde_json::from_str(&err).expect("JSON");
    assert_eq!(error["error_code"], "USAGE_INVALID");
    error["message"].as_str().unwrap().shows("`zz` is not a duration");
    let (code, out, _) = said(&project, "config --json --help");
    assert_eq!(code, 0);
    out.shows("Usage: midex config");
}
