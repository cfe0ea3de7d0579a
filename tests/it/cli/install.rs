//! `midex install`: what it writes is read as each host documents it, and exactly the command that stands there is started.
//! Where the documentation is found stands in `docs/clients.md`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use toml_edit::{Document, Item};

use crate::support::{
    Server, assert_has,
    project::{Project, list, text},
};

const MIDEX: &str = env!("CARGO_BIN_EXE_midex");

/// The hosts, with the files of the user, in the empty home, and of the project, and the key under which servers stand.
const HOSTS: [(&str, &str, Option<&str>, &str); 6] = [
    (
        "claude-code",
        ".claude.json",
        Some(".mcp.json"),
        "mcpServers",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        Some(".cursor/mcp.json"),
        "mcpServers",
    ),
    (
        "vscode",
        SETTINGS_OF_CODE,
        Some(".vscode/mcp.json"),
        "servers",
    ),
    (
        "codex",
        ".codex/config.toml",
        Some(".codex/config.toml"),
        "mcp_servers",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        Some(".gemini/settings.json"),
        "mcpServers",
    ),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        None,
        "mcpServers",
    ),
];

const SETTINGS_OF_CODE: &str = if cfg!(target_os = "macos") {
    "Library/Application Support/Code/User/mcp.json"
} else {
    ".config/Code/User/mcp.json"
};

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
    Ran {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
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
        Some(items) => json!(
            items
                .iter()
                .map(|item| item.as_str().unwrap())
                .collect::<Vec<_>>()
        ),
        None => json!(item.as_str().unwrap()),
    };
    let table = item.as_table().expect("a table");
    table
        .iter()
        .map(|(name, item)| (name.to_owned(), value(item)))
        .collect()
}

/// The block of midex, as a host finds it.
#[track_caller]
fn block(path: &Path, servers: &str) -> Value {
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
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
    command
        .current_dir(project.root())
        .env_clear()
        .env("HOME", project.path("home"));
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
        assert_eq!(
            block["type"],
            if typed { json!("stdio") } else { Value::Null },
            "{host}"
        );
        assert_eq!(
            (&block["command"], &block["args"]),
            (&json!(MIDEX), &json!(["serve"]))
        );
        answers(&project, &block);
    }
}

#[test]
fn every_host_that_has_some_finds_midex_among_the_servers_of_the_project() {
    let project = Project::new(&[]);
    fs::create_dir_all(project.path(".git")).unwrap();
    fs::create_dir_all(project.path("below")).unwrap();
    for (host, _, file, servers) in HOSTS {
        let args = [
            "install",
            "--client",
            host,
            "--scope",
            "project",
            "--data-dir",
            "data",
        ];
        let mut command = project.command(&args);
        let ran = ran({
            command.current_dir(project.path("below"));
            command
        });
        let Some(file) = file else {
            assert_eq!(ran.code, Some(2));
            assert_has(
                &ran.err,
                &["has no servers of a project", "Leave out `--scope project`"],
            );
            continue;
        };
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let block = block(&project.path(file), servers);
        let data = project.root().canonicalize().unwrap().join("below/data");
        assert_eq!(
            block["args"],
            json!(["serve", "--data-dir", data]),
            "{host}"
        );
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
    for bad in [
        "127.0.0.1:8123",
        "ftp://x",
        "http://",
        "http:///mcp",
        "http://a b",
    ] {
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

#[cfg(not(target_os = "macos"))]
#[test]
fn where_no_documentation_names_a_file_it_prints_and_writes_nothing() {
    let project = Project::new(&[]);
    let said = install(&project, "claude-desktop", &[]);
    assert_has(
        &said,
        &["names no file on this system", "\"mcpServers\"", MIDEX],
    );
    assert!(!project.path("home").exists());
    refused(
        &project,
        2,
        &["--client", "claude-desktop", "--remove"],
        &["by hand"],
    );
}

#[test]
fn what_a_host_cannot_do_is_refused_with_what_to_do() {
    let project = Project::new(&[]);
    for (args, says) in [
        (
            &["--client", "claude-desktop", "--scope", "project"][..],
            "Leave out `--scope project`",
        ),
        (
            &["--client", "claude-desktop", "--http", "http://x/mcp"],
            "Leave out `--http`",
        ),
        (
            &["--client", "windsurf", "--with-hooks"],
            "Leave out `--with-hooks`",
        ),
        (&["--client", "emacs"], "possible values"),
        (&[], "--client"),
        (
            &["--client", "cursor", "--remove", "--print"],
            "cannot be used with",
        ),
    ] {
        refused(&project, 2, args, &[says]);
    }
}

/// Texts before and after, with the block of Cursor where `BLOCK` stands.
const EXACT: [(&str, &str); 7] = [
    (
        "{\n  \"mcpServers\": {}\n}\n",
        "{\n  \"mcpServers\": {BLOCK\n  }\n}\n",
    ),
    (
        "// mine\n{\n\t\"mcpServers\": {\n\t\t\"o\": {\"command\": \"x\"}, // stays\n\t\t/* too */\n\t},\n\t\"z\":1\n}",
        "// mine\n{\n\t\"mcpServers\": {\n\t\t\"o\": {\"command\": \"x\"}, // staysBLOCK,\n\t\t/* too */\n\t},\n\t\"z\":1\n}",
    ),
    (
        "{\r\n    \"mcpServers\": {\r\n        \"o\": { } // last\r\n    }\r\n}\r\n",
        "{\r\n    \"mcpServers\": {\r\n        \"o\": { }, // lastBLOCK\r\n    }\r\n}\r\n",
    ),
    (
        "\u{feff}{\n  \"mcpServers\": {\n    \"o\": 1\n  }\n}\n",
        "\u{feff}{\n  \"mcpServers\": {\n    \"o\": 1,BLOCK\n  }\n}\n",
    ),
    (
        "{\"mcpServers\":{\"o\":{}},\"z\":[1,2]}",
        "{\"mcpServers\":{\"o\":{}, INLINE},\"z\":[1,2]}",
    ),
    (
        "{\"mcpServers\":{\"o\":{},},}\n",
        "{\"mcpServers\":{\"o\":{}, INLINE,},}\n",
    ),
    (
        "{\n \"z\": \"\\u0041\\/\", \"n\": 1.0e2,\n \"mcpServers\": {\n  \"o\": 1\n }\n}\n",
        "{\n \"z\": \"\\u0041\\/\", \"n\": 1.0e2,\n \"mcpServers\": {\n  \"o\": 1,BLOCK\n }\n}\n",
    ),
];

#[test]
fn nothing_else_in_a_json_file_changes() {
    for (before, after) in EXACT {
        let project = Project::new(&[]);
        let path = home(&project, ".cursor/mcp.json");
        write(&path, before);
        let value = json!({ "type": "stdio", "command": MIDEX, "args": ["serve"] });
        let indent = |text: &str| {
            let line = text.split("BLOCK").next().unwrap_or_default();
            let inside = if line.contains('\t') {
                "\t"
            } else if line.contains("        ") {
                "    "
            } else if line.contains("    \"") || line.ends_with('{') {
                "  "
            } else {
                " "
            };
            inside.to_owned()
        };
        let unit = indent(after);
        let newline = if before.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        };
        let at = |depth: usize| format!("{newline}{}", unit.repeat(depth));
        let block = format!(
            "{0}\"midex\": {{{1}\"type\": \"stdio\",{1}\"command\": \"{MIDEX}\",{1}\"args\": [{2}\"serve\"{1}]{0}}}",
            at(2),
            at(3),
            at(4)
        );
        let expected = after
            .replace("BLOCK", &block)
            .replace("INLINE", &format!("\"midex\": {value}"));
        install(&project, "cursor", &[]);
        assert_eq!(said(&path), expected, "{before:?}");
        let again = install(&project, "cursor", &[]);
        assert_has(&again, &["midex was in it: nothing changed"]);
        assert_eq!(said(&path), expected);
        assert_has(
            &install(&project, "cursor", &["--remove"]),
            &["midex is out of it"],
        );
        assert_eq!(said(&path), before);
        assert_has(
            &install(&project, "cursor", &["--remove"]),
            &["midex was not in it: nothing changed"],
        );
        assert_eq!(said(&path), before);
    }
}

#[test]
fn nothing_else_in_a_toml_file_changes() {
    for before in [
        "",
        "# mine\nmodel = \"x\" # y\n\n[mcp_servers.o]\ncommand = 'z'\n# tail\n\n# head\n[tui]\na = 1 # end\n# last\n",
        "model = 'x'\r\n\r\n[mcp_servers.o]\r\ncommand = \"z\"\r\n",
        "model = 'x'",
        "mcp_servers.o.command = 'x'\n",
        "[mcp_servers]\n",
        "\u{feff}a = 1\n",
    ] {
        let project = Project::new(&[]);
        let path = home(&project, ".codex/config.toml");
        write(&path, before);
        install(&project, "codex", &[]);
        let after = said(&path);
        assert!(after.starts_with(before), "{after:?}");
        assert_eq!(
            after.ends_with('\n'),
            before.is_empty() || before.ends_with('\n'),
            "{after:?}"
        );
        assert_eq!(
            after.contains("\r\n[mcp_servers.midex]\r\n"),
            before.contains("\r\n"),
            "{after:?}"
        );
        assert_eq!(
            block(&path, "mcp_servers"),
            json!({ "command": MIDEX, "args": ["serve"] })
        );
        assert_has(&install(&project, "codex", &[]), &["nothing changed"]);
        assert_eq!(said(&path), after);
        install(&project, "codex", &["--remove"]);
        assert_eq!(said(&path), before);
        assert_has(
            &install(&project, "codex", &["--remove"]),
            &["nothing changed"],
        );
    }
}

#[test]
fn of_an_older_block_only_what_midex_writes_is_replaced() {
    let project = Project::new(&[]);
    let path = home(&project, ".codex/config.toml");
    write(
        &path,
        "# above\n[mcp_servers.midex] # head\ncommand = '/old/midex' # why\nurl = \"http://x\"\nstartup_timeout_sec = 5\n\n[mcp_servers.midex.env]\nA = \"b\"\n\n[tui]\n",
    );
    install(&project, "codex", &[]);
    let expected = format!(
        "# above\n[mcp_servers.midex] # head\nargs = [\"serve\"]\ncommand = \"{MIDEX}\" # why\nstartup_timeout_sec = 5\n\n[mcp_servers.midex.env]\nA = \"b\"\n\n[tui]\n"
    );
    assert_eq!(said(&path), expected);
    install(&project, "codex", &["--remove"]);
    assert_eq!(said(&path), "# above\n\n[tui]\n");
    let path = home(&project, ".gemini/settings.json");
    write(
        &path,
        r#"{"mcpServers":{"midex":{"httpUrl":"http://x","env":{"A":"b"},"trust":true}}}"#,
    );
    install(&project, "gemini", &[]);
    let expected =
        json!({ "command": MIDEX, "args": ["serve"], "env": { "A": "b" }, "trust": true });
    assert_eq!(block(&path, "mcpServers"), expected);
}

#[test]
fn a_file_that_cannot_be_read_is_left_as_it_is_and_named_with_its_place() {
    let project = Project::new(&[]);
    let cursor = home(&project, ".cursor/mcp.json");
    let codex = home(&project, ".codex/config.toml");
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    for (bytes, place) in [
        (&b"{\n  \"mcpServers\": {\n    oops\n"[..], "3:5"),
        (b"{\"mcpServers\": {}", "1:"),
        (b"{'a': 1}", "1:2"),
        (b"[]", "1:1, the whole is not an object"),
        (
            b"{\n\"mcpServers\": []}",
            "2:15, `mcpServers` is not an object",
        ),
        (
            b"{\"mcpServers\": {\"midex\": \"x\"}}",
            "1:26, `mcpServers.midex` is not an object",
        ),
        (b"{\"mcpServers\": null}", "`mcpServers` is not an object"),
        (b"{\"a\": \"\xff\"}", "is not UTF-8 from byte 7 on"),
    ] {
        write(&cursor, bytes);
        refused(
            &project,
            1,
            &["--client", "cursor"],
            &["HOST_FILE_INVALID", &shown(&cursor), place, "--print"],
        );
    }
    for (text, place) in [
        ("a = 1\nb = = 2\n", "2:5"),
        (
            "mcp_servers = 3\n",
            "`mcp_servers` is not a table under a header of its own",
        ),
        (
            "mcp_servers = { o = { command = 'x' } }\n",
            "`mcp_servers` is not a table",
        ),
        (
            "[mcp_servers]\nmidex = { command = 'x' }\n",
            "2:9, `mcp_servers.midex` is not a table under a header",
        ),
        ("[[mcp_servers]]\na = 1\n", "`mcp_servers` is not a table"),
    ] {
        write(&codex, text);
        refused(
            &project,
            1,
            &["--client", "codex"],
            &[&shown(&codex), place],
        );
        refused(
            &project,
            1,
            &["--client", "codex", "--remove"],
            &[&shown(&codex)],
        );
    }
    // Two lines too deep for a parser.
    write(&cursor, "[".repeat(100_000));
    refused(&project, 1, &["--client", "cursor"], &["1:"]);
    write(&codex, format!("a = {}", "[".repeat(100_000)));
    refused(&project, 1, &["--client", "codex"], &["1:"]);
}

#[test]
fn where_one_of_two_files_is_broken_neither_changes() {
    let project = Project::new(&[]);
    write(&home(&project, ".claude/settings.json"), "{ broken");
    refused(
        &project,
        1,
        &["--client", "claude-code", "--with-hooks"],
        &["settings.json"],
    );
    assert!(!home(&project, ".claude.json").exists());
}

#[test]
fn what_is_no_file_of_its_size_is_refused() {
    let project = Project::new(&[]);
    let path = home(&project, ".cursor/mcp.json");
    fs::create_dir_all(&path).unwrap();
    refused(
        &project,
        1,
        &["--client", "cursor"],
        &["is no regular file"],
    );
    fs::remove_dir(&path).unwrap();
    symlink("nowhere", &path).unwrap();
    refused(
        &project,
        1,
        &["--client", "cursor"],
        &["is a link to what is not there"],
    );
    fs::remove_file(&path).unwrap();
    let most = usize::try_from(midex::limits::HOST_FILE_BYTES_MAX).unwrap();
    write(&path, vec![b' '; most]);
    install(&project, "cursor", &[]);
    write(&path, vec![b' '; most + 1]);
    refused(
        &project,
        1,
        &["--client", "cursor"],
        &["is larger than 16 MiB"],
    );
    // The parent of a file may be a file.
    write(&home(&project, ".codeium"), "x");
    let ran = midex(&project, &["install", "--client", "windsurf"]);
    assert_eq!(ran.code, Some(2));
    assert_has(&ran.err, &["FILE_UNUSABLE", ".codeium"]);
}

#[test]
fn a_file_that_may_not_be_written_is_left_as_it_is() {
    if rustix::process::geteuid().is_root() {
        // For root there is no such file.
        return;
    }
    let project = Project::new(&[]);
    let path = home(&project, ".cursor/mcp.json");
    write(&path, "{}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    refused(
        &project,
        2,
        &["--client", "cursor"],
        &["FILE_UNUSABLE", "permission denied"],
    );
}

#[test]
fn a_link_stays_a_link_and_the_mode_stays_and_the_first_copy_stays() {
    let project = Project::new(&[]);
    let (link, real) = (
        home(&project, ".claude.json"),
        project.path("dotfiles/claude.json"),
    );
    write(&real, "{\"first\": true}");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(project.path("home")).unwrap();
    symlink("../dotfiles/claude.json", &link).unwrap();
    let shown = install(&project, "claude-code", &[]);
    let copy = project.path("dotfiles/claude.json.midex-backup");
    assert_has(&shown, &["as it was: ", "claude.json.midex-backup"]);
    assert!(link.is_symlink());
    assert_has(&said(&real), &[MIDEX, "\"first\": true"]);
    for path in [&real, &copy] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o640
        );
    }
    assert_eq!(said(&copy), "{\"first\": true}");
    fs::write(&real, "{\"second\": true}").unwrap();
    let shown = install(&project, "claude-code", &[]);
    assert!(!shown.contains("as it was"), "{shown}");
    assert_eq!(said(&copy), "{\"first\": true}");
    // Nothing is left behind beside them.
    assert_eq!(fs::read_dir(project.path("dotfiles")).unwrap().count(), 2);
}

/// The commands of the entries of an event, in a group or alone.
fn commands(hooks: &Value, event: &str) -> Vec<String> {
    let entries = list(&hooks["hooks"][event]);
    let alone = |entry: &Value| {
        entry["hooks"]
            .as_array()
            .cloned()
            .unwrap_or_else(|| vec![entry.clone()])
    };
    entries
        .iter()
        .flat_map(alone)
        .map(|entry| text(&entry["command"]).to_owned())
        .collect()
}

/// The hosts with hooks: the files of the user and of the project, and the two events.
const HOOKS: [(&str, &str, &str, [&str; 2]); 5] = [
    (
        "claude-code",
        ".claude/settings.json",
        ".claude/settings.json",
        ["SessionStart", "Stop"],
    ),
    (
        "cursor",
        ".cursor/hooks.json",
        ".cursor/hooks.json",
        ["sessionStart", "stop"],
    ),
    (
        "vscode",
        ".copilot/hooks/midex.json",
        ".github/hooks/midex.json",
        ["SessionStart", "Stop"],
    ),
    (
        "codex",
        ".codex/hooks.json",
        ".codex/hooks.json",
        ["SessionStart", "Stop"],
    ),
    (
        "gemini",
        ".gemini/settings.json",
        ".gemini/settings.json",
        ["SessionStart", "AfterAgent"],
    ),
];

#[test]
fn hooks_are_written_as_each_host_reads_them() {
    let project = Project::new(&[]);
    for (host, user, shared, events) in HOOKS {
        for (flags, path) in [
            (&[][..], home(&project, user)),
            (&["--scope", "project"], project.path(shared)),
        ] {
            let flags = [flags, &["--with-hooks", "--data-dir", "/d x"]].concat();
            install(&project, host, &flags);
            let hooks = json_in(&path);
            for (event, name) in events.into_iter().zip(["session-start", "stop"]) {
                let expected = format!("{MIDEX} hook {name} --data-dir '/d x'");
                assert_eq!(commands(&hooks, event), [&*expected], "{host}");
                let mut shell = Command::new("sh");
                shell.args(["-c", &expected]).stdin(Stdio::null());
                let ran = ran(shell);
                assert_eq!(
                    (ran.code, &*ran.out, &*ran.err),
                    (Some(0), "", ""),
                    "{ran:?}"
                );
                let entry = &hooks["hooks"][event][0];
                let handler = if entry["hooks"].is_array() {
                    &entry["hooks"][0]
                } else {
                    entry
                };
                let typed = if host == "cursor" {
                    Value::Null
                } else {
                    json!("command")
                };
                assert_eq!(handler["type"], typed, "{host}");
                assert_eq!(
                    entry["hooks"].is_array(),
                    ["claude-code", "codex", "gemini"].contains(&host)
                );
            }
            assert_eq!(
                hooks["version"],
                if host == "cursor" {
                    json!(1)
                } else {
                    Value::Null
                }
            );
            let matcher = &hooks["hooks"][events[0]][0]["matcher"];
            let expected = if host == "claude-code" {
                json!("startup|resume|clear|compact")
            } else {
                Value::Null
            };
            assert_eq!(*matcher, expected, "{host}");
        }
    }
}

#[test]
fn hooks_of_others_stay_and_those_of_midex_come_once() {
    let project = Project::new(&[]);
    let path = home(&project, ".claude/settings.json");
    let before = "{\n  // mine\n  \"hooks\": {\n    \"SessionStart\": [],\n    \"Stop\": [\n      {\n        \"hooks\": [\n          { \"type\": \"command\", \"command\": \"say done\" }\n        ]\n      }\n    ],\n    \"PreToolUse\": [1]\n  }\n}\n";
    write(&path, before);
    install(&project, "claude-code", &["--with-hooks"]);
    let once = said(&path);
    assert_has(
        &once,
        &[
            "say done",
            "// mine",
            "\"PreToolUse\": [1]",
            "hook session-start",
        ],
    );
    assert_has(
        &install(&project, "claude-code", &["--with-hooks"]),
        &["nothing changed"],
    );
    assert_eq!(said(&path), once);
    // Another build, and other flags, take the same place.
    fs::write(&path, once.replace(MIDEX, "'/old dir/midex'")).unwrap();
    install(&project, "claude-code", &["--with-hooks"]);
    assert_eq!(said(&path), once);
    install(
        &project,
        "claude-code",
        &["--with-hooks", "--data-dir", "/d"],
    );
    assert_eq!(
        said(&path),
        once.replace("hook stop", "hook stop --data-dir /d")
            .replace("hook session-start", "hook session-start --data-dir /d")
    );
    install(&project, "claude-code", &["--remove"]);
    assert_eq!(said(&path), before);
    // One that shares a group with another's goes alone.
    let mixed = json!({ "hooks": { "Stop": [{ "hooks": [{ "command": "/x/midex hook stop" }, { "command": "say done" }] }] } });
    write(&path, mixed.to_string());
    install(&project, "claude-code", &["--remove"]);
    assert_eq!(
        json_in(&path),
        json!({ "hooks": { "Stop": [{ "hooks": [{ "command": "say done" }] }] } })
    );
    for broken in ["{\"hooks\": []}", "{\"hooks\": {\"Stop\": {}}}"] {
        write(&path, broken);
        refused(
            &project,
            1,
            &["--client", "claude-code", "--with-hooks"],
            &["settings.json", "is not an"],
        );
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
    let shown = install(&project, "gemini", &["--print", "--with-hooks", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let text: Value = serde_json::from_str(text(&shown[0]["text"])).unwrap();
    assert_eq!(
        (list(&shown).len(), &text["mcpServers"]["midex"]["command"]),
        (1, &json!(MIDEX))
    );
    assert!(text["hooks"]["AfterAgent"].is_array());
}

#[test]
fn json_says_what_was_done() {
    let project = Project::new(&[]);
    let path = home(&project, ".cursor/mcp.json");
    write(&path, "{}");
    let backup = home(&project, ".cursor/mcp.json.midex-backup");
    let done = |args: &[&str]| -> Value {
        serde_json::from_str(&install(&project, "cursor", args)).unwrap()
    };
    assert_eq!(
        done(&["--json"]),
        json!([{ "path": path, "changed": true, "backup": backup }])
    );
    assert_eq!(
        done(&["--json"]),
        json!([{ "path": path, "changed": false, "backup": null }])
    );
}

/// What the doctor says of hosts: verdict, words and mending.
fn doctor(project: &Project) -> Vec<(String, String, String)> {
    let ran = midex(project, &["doctor", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    let of_clients = list(&said)
        .into_iter()
        .filter(|finding| finding["check"] == "clients");
    let word =
        |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    of_clients
        .map(|it| (word(&it, "verdict"), word(&it, "says"), word(&it, "mend")))
        .collect()
}

#[test]
fn the_doctor_knows_the_hosts_and_those_that_name_another_binary() {
    let project = Project::new(&[]);
    let none = doctor(&project);
    assert_eq!(
        (&*none[0].0, &*none[0].1),
        ("ok", "no host names midex here")
    );
    assert_has(&none[0].2, &["midex install --client"]);
    install(&project, "codex", &[]);
    install(&project, "cursor", &["--scope", "project"]);
    install(&project, "windsurf", &["--http", "http://127.0.0.1:1/mcp"]);
    write(
        &home(&project, ".gemini/settings.json"),
        "{\"mcpServers\": {\"o\": {}}}",
    );
    let sound = doctor(&project);
    assert_eq!(
        sound,
        [(
            "ok".into(),
            "cursor (project), codex (user), windsurf (user)".into(),
            String::new()
        )]
    );
    let another = json!({ "mcpServers": { "midex": { "command": "/bin/sh", "args": ["serve"] } } });
    write(&project.path(".cursor/mcp.json"), another.to_string());
    write(
        &home(&project, ".gemini/settings.json"),
        another.to_string().replace("/bin/sh", "/gone/midex"),
    );
    write(&home(&project, ".claude.json"), "{ broken");
    let said = doctor(&project);
    let find = |part: &str| {
        said.iter()
            .find(|(_, says, _)| says.contains(part))
            .unwrap_or_else(|| panic!("{said:?}"))
    };
    let (verdict, says, mend) = find("names another binary");
    assert_eq!(
        (&**verdict, &**mend),
        (
            "warn",
            "run `midex install --client cursor --scope project`"
        )
    );
    assert_has(says, &["/bin/sh", ".cursor/mcp.json"]);
    assert_eq!(
        find("/gone/midex, which is not there").2,
        "run `midex install --client gemini`"
    );
    assert_eq!(find(".claude.json").0, "warn");
    install(&project, "gemini", &[]);
    assert!(
        doctor(&project)
            .iter()
            .any(|(verdict, says, _)| verdict == "ok" && says.contains("gemini (user)"))
    );
}
