//! `midex install`: what it writes is read as each host documents it, and exactly the command that stands there is started.
//! Where the documentation is found stands in `docs/clients.md`.

mod files;
mod hooks;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use toml_edit::{Document, Item};

use midex_test::{
    Server, assert_has,
    project::{Project, list, text},
};

const MIDEX: &str = env!("CARGO_BIN_EXE_midex");

/// The hosts, with the files of the user, in the empty home, and of the project, and the key under which servers stand.
const HOSTS: [(&str, &str, Option<&str>, &str); 6] = [
    ("claude-code", ".claude.json", Some(".mcp.json"), "mcpServers"),
    ("cursor", ".cursor/mcp.json", Some(".cursor/mcp.json"), "mcpServers"),
    ("vscode", SETTINGS_OF_CODE, Some(".vscode/mcp.json"), "servers"),
    ("codex", ".codex/config.toml", Some(".codex/config.toml"), "mcp_servers"),
    ("gemini", ".gemini/settings.json", Some(".gemini/settings.json"), "mcpServers"),
    ("windsurf", ".codeium/windsurf/mcp_config.json", None, "mcpServers"),
];

const SETTINGS_OF_CODE: &str = if cfg!(target_os = "macos") {
    "Library/Application Support/Code/User/mcp.json"
} else {
    ".config/Code/User/mcp.json"
};

/// The address of a server of this machine.
const HERE: &str = "http://127.0.0.1:8123/mcp";

/// What became of a command.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs `midex` in a project with an empty home.
fn midex(project: &Project, args: &[&str]) -> Ran {
    let mut command = project.command(args);
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"] {
        command.env_remove(name);
    }
    ran(command)
}

fn ran(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs `midex install --client HOST …`, which must succeed.
#[track_caller]
fn install(project: &Project, host: &str, args: &[&str]) -> String {
    let ran = midex(project, &[&["install", "--client", host], args].concat());
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
    ran.out
}

/// The same, which must be refused and change nothing.
#[track_caller]
fn refused(project: &Project, code: i32, args: &[&str], says: &[&str]) {
    let before = files(project.root());
    let ran = midex(project, &[&["install"], args].concat());
    assert_eq!((ran.code, &*ran.out), (Some(code), ""), "{ran:?}");
    assert_has(&ran.err, says);
    assert_eq!(files(project.root()), before);
}

/// Every file below a directory, with its bytes.
fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.path().is_dir() && !entry.path().is_symlink() {
            all.extend(files(&entry.path()));
        } else {
            all.push((entry.path(), fs::read(entry.path()).unwrap_or_default()));
        }
    }
    all.sort();
    all
}

/// A file in the empty home.
fn home(project: &Project, path: &str) -> PathBuf {
    project.path("home").join(path)
}

#[track_caller]
fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[track_caller]
fn said(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn json_in(path: &Path) -> Value {
    serde_json::from_str(&said(path)).expect("JSON without comments")
}

/// A table of TOML whose values are strings and arrays of them.
fn fields(item: &Item) -> Value {
    let value = |item: &Item| match item.as_array() {
        Some(items) => json!(items.iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>()),
        None => json!(item.as_str().unwrap()),
    };
    let table = item.as_table().expect("a table");
    table.iter().map(|(name, item)| (name.to_owned(), value(item))).collect()
}

/// The block of midex, as a host finds it.
#[track_caller]
fn block(path: &Path, servers: &str) -> Value {
    if path.extension().is_some_and(|extension| extension == "toml") {
        let text = said(path);
        let document = Document::parse(&*text).expect("TOML");
        return fields(&document[servers]["midex"]);
    }
    json_in(path)[servers]["midex"].clone()
}

/// Starts what a block names, as a host does, and says hello.
#[track_caller]
fn answers(project: &Project, block: &Value) {
    let mut command = Command::new(text(&block["command"]));
    for arg in list(&block["args"]) {
        command.arg(text(&arg));
    }
    command.current_dir(project.root()).env_clear().env("HOME", project.path("home"));
    let mut server = Server::run(command);
    let answer = server.shake_hands();
    assert_eq!(answer["result"]["serverInfo"]["name"], "midex", "{answer}");
}

#[test]
fn every_host_finds_midex_among_the_servers_of_the_user() {
    let project = Project::new(&[]);
    for (host, file, _, servers) in HOSTS {
        let said = install(&project, host, &[]);
        let path = home(&project, file);
        assert_has(&said, &[path.to_str().unwrap(), "midex is in it"]);
        let block = block(&path, servers);
        let typed = ["claude-code", "cursor", "vscode"].contains(&host);
        assert_eq!(block["type"], if typed { json!("stdio") } else { Value::Null }, "{host}");
        assert_eq!((&block["command"], &block["args"]), (&json!(MIDEX), &json!(["serve"])));
        answers(&project, &block);
    }
}

#[test]
fn every_host_that_has_some_finds_midex_among_the_servers_of_the_project() {
    let project = Project::new(&[]);
    fs::create_dir_all(project.path(".git")).unwrap();
    fs::create_dir_all(project.path("below")).unwrap();
    for (host, _, file, servers) in HOSTS {
        let args = ["install", "--client", host, "--scope", "project", "--data-dir", "data"];
        let mut command = project.command(&args);
        let ran = ran({
            command.current_dir(project.path("below"));
            command
        });
        let Some(file) = file else {
            assert_eq!(ran.code, Some(2));
            assert_has(&ran.err, &["has no servers of a project", "Leave out `--scope project`"]);
            continue;
        };
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let block = block(&project.path(file), servers);
        let data = project.root().canonicalize().unwrap().join("below/data");
        assert_eq!(block["args"], json!(["serve", "--data-dir", data]), "{host}");
        answers(&project, &block);
    }
}

#[test]
fn the_flags_of_a_server_are_written_down_as_they_are_given() {
    let project = Project::new(&[]);
    let flags = [
        "--token-ttl",
        "90m",
        "--allow-env",
        "A,B",
        "--allow-env",
        "C",
        "--workflows",
        "w x",
        "--agents",
        "/a",
    ];
    install(&project, "windsurf", &flags);
    let args = &json_in(&home(&project, ".codeium/windsurf/mcp_config.json"))["mcpServers"]["midex"]
        ["args"];
    let workflows = project.root().canonicalize().unwrap().join("w x");
    let expected = json!([
        "serve",
        "--workflows",
        workflows,
        "--agents",
        "/a",
        "--token-ttl",
        "90m",
        "--allow-env",
        "A,B",
        "--allow-env",
        "C"
    ]);
    assert_eq!(args, &expected);
}

#[test]
fn a_server_over_http_is_named_as_each_host_wants_it() {
    let project = Project::new(&[]);
    let url = "http://127.0.0.1:8123/mcp";
    for (host, file, _, servers) in HOSTS {
        install(&project, host, &[]);
        install(&project, host, &["--http", url]);
        let expected = match host {
            "claude-code" | "vscode" => json!({ "type": "http", "url": url }),
            "gemini" => json!({ "httpUrl": url }),
            "windsurf" => json!({ "serverUrl": url }),
            _ => json!({ "url": url }),
        };
        assert_eq!(block(&home(&project, file), servers), expected, "{host}");
        install(&project, host, &[]);
        assert_eq!(block(&home(&project, file), servers)["command"], MIDEX);
    }
    for bad in ["127.0.0.1:8123", "ftp://x", "http://", "http:///mcp", "http://a b"] {
        refused(
            &project,
            2,
            &["--client", "cursor", "--http", bad],
            &["http://127.0.0.1:8123/mcp"],
        );
    }
}

#[test]
fn directories_that_the_environment_names_are_heeded() {
    let project = Project::new(&[]);
    for (host, variable, file) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
    ] {
        if cfg!(target_os = "macos") && host == "vscode" {
            continue;
        }
        let directory = project.path(host);
        let mut command = project.command(&["install", "--client", host]);
        command.env(variable, &directory);
        assert_eq!(ran(command).code, Some(0));
        assert_has(&said(&directory.join(file)), &[MIDEX]);
    }
}

#[test]
fn an_address_without_a_path_gets_that_of_midex() {
    let project = Project::new(&[]);
    for (given, written) in [
        ("http://127.0.0.1:8123", HERE),
        ("http://127.0.0.1:8123/", HERE),
        ("https://x/y/", "https://x/y/"),
        ("http://x?y", "http://x?y"),
    ] {
        let said = install(&project, "cursor", &["--http", given]);
        assert_has(&said, &[written]);
        let block = block(&home(&project, ".cursor/mcp.json"), "mcpServers");
        assert_eq!(block, json!({ "url": written }));
    }
    for here in [HERE, "http://localhost/mcp", "http://[::1]", "http://[::1]:1/"] {
        install(&project, "cursor", &["--http", here, "--with-hooks"]);
    }
}

#[cfg(not(target_os = "macos"))]
#[test]
fn where_no_documentation_names_a_file_it_prints_and_writes_nothing() {
    let project = Project::new(&[]);
    let said = install(&project, "claude-desktop", &[]);
    assert_has(&said, &["names no file on this system", "\"mcpServers\"", MIDEX]);
    assert!(!project.path("home").exists());
    refused(&project, 2, &["--client", "claude-desktop", "--remove"], &["by hand"]);
}

#[test]
fn what_a_host_cannot_do_is_refused_with_what_to_do() {
    let project = Project::new(&[]);
    for (args, says) in [
        (&["--client", "claude-desktop", "--scope", "project"][..], "Leave out `--scope project`"),
        (&["--client", "claude-desktop", "--http", "http://x/mcp"], "Leave out `--http`"),
        (&["--client", "windsurf", "--with-hooks"], "Leave out `--with-hooks`"),
        (&["--client", "emacs"], "possible values"),
        (&[], "--client"),
        (&["--client", "cursor", "--http", HERE, "--toolsets", "run"], "`--toolsets` cannot reach"),
        (
            &["--client", "cursor", "--http", HERE, "--data-dir", "/d", "--with-hooks"],
            "`--data-dir` cannot reach",
        ),
        (
            &["--client", "cursor", "--http", "https://example.org:80/mcp", "--with-hooks"],
            "a server of another",
        ),
    ] {
        refused(&project, 2, args, &[says]);
    }
}

#[test]
fn print_shows_the_file_and_what_would_stand_in_it() {
    let project = Project::new(&[]);
    for (host, file, _, _) in HOSTS {
        let shown = install(&project, host, &["--print"]);
        let path = home(&project, file);
        let (first, rest) = shown.split_once('\n').unwrap();
        assert_eq!(first, path.to_str().unwrap());
        assert!(!project.path("home").exists());
        install(&project, host, &[]);
        assert_eq!(said(&path), rest);
        fs::remove_dir_all(project.path("home")).unwrap();
    }
    // What is there already is shown too, with what would become of it.
    let path = home(&project, ".cursor/mcp.json");
    write(&path, "{\"a\": 1}\n");
    let print = |args: &[&str]| {
        let before = files(project.root());
        let shown = install(&project, "cursor", &[args, &["--print"]].concat());
        assert_eq!(files(project.root()), before);
        shown.split_once('\n').unwrap().1.to_owned()
    };
    let shown = print(&[]);
    install(&project, "cursor", &[]);
    assert_eq!((print(&[]), said(&path)), (shown.clone(), shown));
    assert_has(&print(&["--remove"]), &["{\n  \"a\": 1,\n  \"mcpServers\": {}\n}\n"]);
    write(&path, "{ broken");
    refused(&project, 1, &["--client", "cursor", "--print"], &["1:3"]);
    let shown = install(&project, "gemini", &["--print", "--with-hooks", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let text: Value = serde_json::from_str(text(&shown[0]["text"])).unwrap();
    assert_eq!((list(&shown).len(), &text["mcpServers"]["midex"]["command"]), (1, &json!(MIDEX)));
    assert!(text["hooks"]["AfterAgent"].is_array());
}

#[test]
fn json_says_what_was_done() {
    let project = Project::new(&[]);
    let path = home(&project, ".cursor/mcp.json");
    write(&path, "{\"a\": 1}");
    let backup = home(&project, ".cursor/mcp.json.midex-backup");
    let done = |args: &[&str]| -> Value {
        serde_json::from_str(&install(&project, "cursor", args)).unwrap()
    };
    assert_eq!(done(&["--json"]), json!([{ "path": path, "changed": true, "backup": backup }]));
    assert_eq!(done(&["--json"]), json!([{ "path": path, "changed": false, "backup": null }]));
}

#[test]
fn the_page_of_hosts_says_what_is_so_and_cites_where_it_is_said() {
    let page = said(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/clients.md")));
    let row = |host: &str| {
        let start = format!("| `{host}` |");
        let row = page.lines().find(|line| line.starts_with(&start));
        row.unwrap_or_else(|| panic!("no row of {host}")).to_owned()
    };
    for (host, user, shared, servers) in HOSTS {
        let row = row(host);
        let shared = shared.map_or("| no |".to_owned(), |path| format!("| `{path}` |"));
        assert_has(&row, &[&shared]);
        if host != "vscode" {
            assert_has(&row, &[&format!("| `~/{user}` |")]);
        }
        assert_has(&page, &[&format!("{servers}.midex")]);
    }
    for (host, user, shared, events) in hooks::HOOKS {
        let [start, end] = events;
        assert_has(&row(host), &[&format!("| `{start}`, `{end}` |")]);
        if host != "codex" {
            assert_has(&page, &[user, shared]);
        }
    }
    let sections = page.split("\n## ").skip(1);
    // How midex is served over HTTP is midex's own to say.
    let sections: Vec<_> = sections.filter(|section| !section.starts_with("Over HTTP")).collect();
    assert_eq!(sections.len(), HOSTS.len() + 1);
    for section in sections {
        assert_has(section, &["<https://"]);
    }
}
