//! Files in every state: what is not midex's stays byte for byte, and what cannot be read is left as it is.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use serde_json::json;

use super::{MIDEX, block, files, home, install, midex, refused, said, write};
use midex_test::{assert_has, project::Project};

/// How a text is indented, and the text before and after, with the block of Cursor where `BLOCK` stands. Without the block the
/// text is that before; an object in one line has got several.
const EXACT: [(&str, &str, &str); 7] = [
    ("  ", "{\n  \"mcpServers\": {}\n}\n", "{\n  \"mcpServers\": {BLOCK\n  }\n}\n"),
    (
        "\t",
        "// mine\n{\n\t\"mcpServers\": {\n\t\t\"o\": {\"command\": \"x\"}, // stays\n\t\t/* too */\n\t},\n\t\"z\":1\n}",
        "// mine\n{\n\t\"mcpServers\": {\n\t\t\"o\": {\"command\": \"x\"}, // staysBLOCK,\n\t\t/* too */\n\t},\n\t\"z\":1\n}",
    ),
    (
        "    ",
        "{\r\n    \"mcpServers\": {\r\n        \"o\": { } // last\r\n    }\r\n}\r\n",
        "{\r\n    \"mcpServers\": {\r\n        \"o\": { }, // lastBLOCK\r\n    }\r\n}\r\n",
    ),
    (
        "  ",
        "\u{feff}{\n  \"mcpServers\": {\n    \"o\": 1\n  }\n}\n",
        "\u{feff}{\n  \"mcpServers\": {\n    \"o\": 1,BLOCK\n  }\n}\n",
    ),
    (
        "  ",
        "{\"mcpServers\":{\"o\":{}},\"z\":[1,2]}",
        "{\"mcpServers\":{\n    \"o\":{},BLOCK\n  },\"z\":[1,2]}",
    ),
    ("  ", "{\"mcpServers\":{\"o\":{},},}\n", "{\"mcpServers\":{\n    \"o\":{},BLOCK,\n  },}\n"),
    (
        " ",
        "{\n \"z\": \"\\u0041\\/\", \"n\": 1.0e2,\n \"mcpServers\": {\n  \"o\": 1\n }\n}\n",
        "{\n \"z\": \"\\u0041\\/\", \"n\": 1.0e2,\n \"mcpServers\": {\n  \"o\": 1,BLOCK\n }\n}\n",
    ),
];

#[test]
fn nothing_else_in_a_json_file_changes() {
    for (indent, before, after) in EXACT {
        let project = Project::new(&[]);
        let path = home(&project, ".cursor/mcp.json");
        write(&path, before);
        let newline = if before.contains("\r\n") { "\r\n" } else { "\n" };
        let at = |depth: usize| format!("{newline}{}", indent.repeat(depth));
        let block = format!(
            "{0}\"midex\": {{{1}\"type\": \"stdio\",{1}\"command\": \"{MIDEX}\",{1}\"args\": [\"serve\"]{0}}}",
            at(2),
            at(3)
        );
        let expected = after.replace("BLOCK", &block);
        install(&project, "cursor", &[]);
        assert_eq!(said(&path), expected, "{before:?}");
        let again = install(&project, "cursor", &[]);
        assert_has(&again, &["midex was in it already: nothing changed"]);
        assert_eq!(said(&path), expected);
        assert_has(&install(&project, "cursor", &["--remove"]), &["midex is out of it"]);
        let without = said(&path);
        let expected = if before.trim_end().contains('\n') {
            before.to_owned()
        } else {
            after.replace(",BLOCK", "")
        };
        assert_eq!(without, expected);
        let again = install(&project, "cursor", &["--remove"]);
        assert_has(&again, &["midex was not in it: nothing changed"]);
        assert_eq!(said(&path), expected);
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
        assert_eq!(after.ends_with('\n'), before.is_empty() || before.ends_with('\n'), "{after:?}");
        assert_eq!(
            after.contains("\r\n[mcp_servers.midex]\r\n"),
            before.contains("\r\n"),
            "{after:?}"
        );
        assert_eq!(block(&path, "mcp_servers"), json!({ "command": MIDEX, "args": ["serve"] }));
        assert_has(&install(&project, "codex", &[]), &["nothing changed"]);
        assert_eq!(said(&path), after);
        install(&project, "codex", &["--remove"]);
        assert_eq!(said(&path), before);
        assert_has(&install(&project, "codex", &["--remove"]), &["nothing changed"]);
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
        "# above\n[mcp_servers.midex] # head\ncommand = \"{MIDEX}\" # why\nstartup_timeout_sec = 5\nargs = [\"serve\"]\n\n[mcp_servers.midex.env]\nA = \"b\"\n\n[tui]\n"
    );
    assert_eq!(said(&path), expected);
    install(&project, "codex", &["--remove"]);
    assert_eq!(said(&path), "# above\n\n[tui]\n");
    let path = home(&project, ".gemini/settings.json");
    write(&path, r#"{"mcpServers":{"midex":{"httpUrl":"http://x","env":{"A":"b"},"trust":true}}}"#);
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
        (b"{\n\"mcpServers\": []}", "2:15, `mcpServers` is not an object"),
        (b"{\"mcpServers\": {\"midex\": \"x\"}}", "1:26, `mcpServers.midex` is not an object"),
        (b"{\"mcpServers\": null}", "`mcpServers` is not an object"),
        (b"{\"a\": \"\xff\"}", "is not UTF-8 from byte 7 on"),
    ] {
        write(&cursor, bytes);
        refused(
            &project,
            1,
            &["--client", "cursor"],
            &["HOST_FILE_INVALID", &shown(&cursor), place, "by hand"],
        );
    }
    for (text, place) in [
        ("a = 1\nb = = 2\n", "2:5"),
        ("mcp_servers = 3\n", "`mcp_servers` is not a table under a header of its own"),
        ("mcp_servers = { o = { command = 'x' } }\n", "`mcp_servers` is not a table"),
        (
            "[mcp_servers]\nmidex = { command = 'x' }\n",
            "2:9, `mcp_servers.midex` is not a table under a header",
        ),
        ("[[mcp_servers]]\na = 1\n", "`mcp_servers` is not a table"),
    ] {
        write(&codex, text);
        refused(&project, 1, &["--client", "codex"], &[&shown(&codex), place]);
        refused(&project, 1, &["--client", "codex", "--remove"], &[&shown(&codex)]);
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
    refused(&project, 1, &["--client", "claude-code", "--with-hooks"], &["settings.json"]);
    assert!(!home(&project, ".claude.json").exists());
}

#[test]
fn what_is_no_file_of_its_size_is_refused() {
    let project = Project::new(&[]);
    let path = home(&project, ".cursor/mcp.json");
    fs::create_dir_all(&path).unwrap();
    refused(&project, 1, &["--client", "cursor"], &["is no regular file"]);
    fs::remove_dir(&path).unwrap();
    symlink("nowhere", &path).unwrap();
    refused(&project, 1, &["--client", "cursor"], &["is a link to what is not there"]);
    fs::remove_file(&path).unwrap();
    let most = usize::try_from(midex_domain::limits::HOST_FILE_BYTES_MAX).unwrap();
    write(&path, vec![b' '; most]);
    install(&project, "cursor", &[]);
    write(&path, vec![b' '; most + 1]);
    refused(&project, 1, &["--client", "cursor"], &["is larger than 16 MiB"]);
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
    refused(&project, 2, &["--client", "cursor"], &["FILE_UNUSABLE", "permission denied"]);
}

#[test]
fn a_link_stays_a_link_and_the_mode_stays_and_the_first_copy_stays() {
    let project = Project::new(&[]);
    let (link, real) = (home(&project, ".claude.json"), project.path("dotfiles/claude.json"));
    write(&real, "{\"first\": true}");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(project.path("home")).unwrap();
    symlink("../dotfiles/claude.json", &link).unwrap();
    let shown = install(&project, "claude-code", &[]);
    let copy = project.path("dotfiles/claude.json.midex-backup");
    assert_has(&shown, &["; backup: ", "claude.json.midex-backup"]);
    assert!(link.is_symlink());
    assert_has(&said(&real), &[MIDEX, "\"first\": true"]);
    for path in [&real, &copy] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o640);
    }
    assert_eq!(said(&copy), "{\"first\": true}");
    fs::write(&real, "{\"second\": true}").unwrap();
    let shown = install(&project, "claude-code", &[]);
    assert!(!shown.contains("backup"), "{shown}");
    assert_eq!(said(&copy), "{\"first\": true}");
    // Nothing is left behind beside them.
    assert_eq!(fs::read_dir(project.path("dotfiles")).unwrap().count(), 2);
}

#[test]
fn a_file_that_only_midex_wrote_leaves_no_copy() {
    let project = Project::new(&[]);
    for host in ["claude-code", "cursor", "codex", "gemini"] {
        install(&project, host, &["--with-hooks"]);
        install(&project, host, &["--data-dir", "/d", "--with-hooks"]);
        install(&project, host, &["--remove"]);
        install(&project, host, &["--scope", "project"]);
        install(&project, host, &["--remove", "--scope", "project"]);
    }
    let copies = files(project.root()).into_iter().map(|(path, _)| path);
    let copies: Vec<_> =
        copies.filter(|path| path.to_str().unwrap().ends_with("-backup")).collect();
    assert!(copies.is_empty(), "{copies:?}");
    // What others write there later is kept, in the block too.
    write(&home(&project, ".codex/config.toml"), "[mcp_servers.midex.env]\nA = 'b'\n");
    install(&project, "codex", &["--http", "http://x"]);
    let copy = said(&home(&project, ".codex/config.toml.midex-backup"));
    assert_eq!(copy, "[mcp_servers.midex.env]\nA = 'b'\n");
    let path = home(&project, ".cursor/mcp.json");
    let text = "{\"mcpServers\": {}} // mine\n";
    write(&path, text);
    install(&project, "cursor", &[]);
    assert_eq!(said(&home(&project, ".cursor/mcp.json.midex-backup")), text);
}

#[test]
fn what_a_block_says_of_the_other_way_to_reach_a_server_goes() {
    let project = Project::new(&[]);
    let url = "http://127.0.0.1:8123/mcp";
    let path = home(&project, ".codex/config.toml");
    let others = "\n[mcp_servers.o]\nurl = 'x'\n";
    write(
        &path,
        format!(
            "[mcp_servers.midex]\ncommand = 'midex'\nargs = ['serve']\nenv_vars = ['A']\nenabled = true\n{others}\n[mcp_servers.midex.env]\nA = 'b'\n"
        ),
    );
    install(&project, "codex", &["--http", url]);
    assert_eq!(
        said(&path),
        format!("[mcp_servers.midex]\nenabled = true\nurl = \"{url}\"\n{others}")
    );
    write(
        &path,
        format!(
            "[mcp_servers.midex]\nurl = \"{url}\"\nbearer_token_env_var = 'T'\nhttp_headers = {{ A = 'b' }}\nenv_http_headers.B = 'c'\nenabled = true\n{others}"
        ),
    );
    install(&project, "codex", &[]);
    assert_eq!(
        said(&path),
        format!(
            "[mcp_servers.midex]\nenabled = true\ncommand = \"{MIDEX}\"\nargs = [\"serve\"]\n{others}"
        )
    );
    write(&path, "[mcp_servers.midex.env]\nA = 'b'\n");
    install(&project, "codex", &["--http", url]);
    assert_eq!(said(&path), format!("[mcp_servers.midex]\nurl = \"{url}\"\n"));
    let path = home(&project, ".claude.json");
    let secret = json!({ "mcpServers": { "midex": { "type": "http", "url": url, "headers": { "Authorization": "Bearer x" } } } });
    write(&path, secret.to_string());
    install(&project, "claude-code", &["--http", url]);
    assert_has(&said(&path), &["Bearer x"]);
    install(&project, "claude-code", &[]);
    let expected = json!({ "type": "stdio", "command": MIDEX, "args": ["serve"] });
    assert_eq!(block(&path, "mcpServers"), expected);
}

#[test]
fn arguments_that_are_there_stay_or_are_named() {
    let project = Project::new(&[]);
    let path = home(&project, ".cursor/mcp.json");
    let args = || block(&path, "mcpServers")["args"].clone();
    let flags = ["--toolsets", "run", "--tool-names", "dotted", "--data-dir", "/a b"];
    install(&project, "cursor", &flags);
    let first =
        json!(["serve", "--data-dir", "/a b", "--toolsets", "run", "--tool-names", "dotted"]);
    assert_eq!(args(), first);
    assert_has(&install(&project, "cursor", &[]), &["nothing changed"]);
    assert_eq!(args(), first);
    assert_has(
        &install(&project, "cursor", &["--toolsets", "run"]),
        &["its arguments were: serve --data-dir '/a b' --toolsets run --tool-names dotted"],
    );
    assert_eq!(args(), json!(["serve", "--toolsets", "run"]));
    refused(&project, 2, &["--client", "cursor", "--toolsets", "rum"], &["run"]);
    let other = json!({ "mcpServers": { "midex": { "command": "npx", "args": ["serve", "x"] } } });
    write(&path, other.to_string());
    assert_has(&install(&project, "cursor", &[]), &["its arguments were: serve x"]);
    assert_eq!(args(), json!(["serve"]));
}
