//! Hooks, and what `midex doctor` says of hosts.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::{MIDEX, home, install, json_in, midex, ran, refused, said, write};
use midex_test::{
    assert_has,
    project::{Project, list, text},
};

/// The commands of the entries of an event, in a group or alone.
fn commands(hooks: &Value, event: &str) -> Vec<String> {
    let entries = list(&hooks["hooks"][event]);
    let alone =
        |entry: &Value| entry["hooks"].as_array().cloned().unwrap_or_else(|| vec![entry.clone()]);
    entries.iter().flat_map(alone).map(|entry| text(&entry["command"]).to_owned()).collect()
}

/// The hosts with hooks: the files of the user and of the project, and the two events.
pub(super) const HOOKS: [(&str, &str, &str, [&str; 2]); 5] = [
    ("claude-code", ".claude/settings.json", ".claude/settings.json", ["SessionStart", "Stop"]),
    ("cursor", ".cursor/hooks.json", ".cursor/hooks.json", ["sessionStart", "stop"]),
    ("vscode", ".copilot/hooks/midex.json", ".github/hooks/midex.json", ["SessionStart", "Stop"]),
    ("codex", ".codex/hooks.json", ".codex/hooks.json", ["SessionStart", "Stop"]),
    ("gemini", ".gemini/settings.json", ".gemini/settings.json", ["SessionStart", "AfterAgent"]),
];

#[test]
fn hooks_are_written_as_each_host_reads_them() {
    let project = Project::new(&[]);
    for (host, user, shared, events) in HOOKS {
        for (flags, path) in
            [(&[][..], home(&project, user)), (&["--scope", "project"], project.path(shared))]
        {
            let flags = [flags, &["--with-hooks", "--data-dir", "/d x"]].concat();
            install(&project, host, &flags);
            let hooks = json_in(&path);
            for (event, name) in events.into_iter().zip(["session-start", "stop"]) {
                let expected = format!("{MIDEX} hook {name} --data-dir '/d x'");
                assert_eq!(commands(&hooks, event), [&*expected], "{host}");
                let mut shell = Command::new("sh");
                shell.args(["-c", &expected]).stdin(Stdio::null());
                let ran = ran(shell);
                assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "", ""), "{ran:?}");
                let entry = &hooks["hooks"][event][0];
                let handler = if entry["hooks"].is_array() { &entry["hooks"][0] } else { entry };
                let typed = if host == "cursor" { Value::Null } else { json!("command") };
                assert_eq!(handler["type"], typed, "{host}");
                assert_eq!(
                    entry["hooks"].is_array(),
                    ["claude-code", "codex", "gemini"].contains(&host)
                );
            }
            assert_eq!(hooks["version"], if host == "cursor" { json!(1) } else { Value::Null });
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
    assert_has(&once, &["say done", "// mine", "\"PreToolUse\": [1]", "hook session-start"]);
    assert_has(&install(&project, "claude-code", &["--with-hooks"]), &["nothing changed"]);
    assert_eq!(said(&path), once);
    // Another build, and other flags, take the same place.
    fs::write(&path, once.replace(MIDEX, "'/old dir/midex'")).unwrap();
    install(&project, "claude-code", &["--with-hooks"]);
    assert_eq!(said(&path), once);
    install(&project, "claude-code", &["--with-hooks", "--data-dir", "/d"]);
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
fn commands_that_only_mention_midex_belong_to_others() {
    let project = Project::new(&[]);
    let path = home(&project, ".claude/settings.json");
    let others = [
        "cd /srv && midex hook stop --data-dir /srv/d; notify-send done",
        "/opt/wrap.sh midex hook stop",
        "echo midex hook stop is off",
        "midex hook stop; true",
        "midex hook stop --data-dir $HOME/d",
        "midex hook stop --json",
        "midex hook stopped",
        "/opt/midex-wrap hook stop",
        "cat /midex hook stop",
    ];
    let handler = |command: &&str| json!({ "type": "command", "command": command });
    let handlers: Vec<_> = others.iter().map(handler).collect();
    let before = json!({ "hooks": { "Stop": [{ "hooks": handlers }] } });
    write(&path, before.to_string());
    install(&project, "claude-code", &["--with-hooks"]);
    let stop = commands(&json_in(&path), "Stop");
    assert_eq!(stop[..others.len()], others);
    assert_eq!(stop[others.len()..], [format!("{MIDEX} hook stop")]);
    install(&project, "claude-code", &["--remove"]);
    assert_eq!(commands(&json_in(&path), "Stop"), others);
}

#[test]
fn hooks_keep_to_the_directory_of_the_block() {
    let project = Project::new(&[]);
    let path = home(&project, ".cursor/hooks.json");
    install(&project, "cursor", &["--with-hooks"]);
    install(&project, "cursor", &["--data-dir", "/d x", "--toolsets", "run"]);
    let stop = || commands(&json_in(&path), "stop");
    assert_eq!(stop(), [format!("{MIDEX} hook stop --data-dir '/d x'")]);
    // Where the user took one of them away, it does not come back.
    let one = json!({ "hooks": { "stop": [{ "command": stop()[0] }] } });
    write(&path, one.to_string());
    install(&project, "cursor", &["--data-dir", "/e"]);
    assert_eq!(stop(), [format!("{MIDEX} hook stop --data-dir /e")]);
    assert_eq!(json_in(&path)["hooks"]["sessionStart"], Value::Null);
    // Arguments that stay in the block come back to the hooks.
    write(&path, said(&path).replace(" --data-dir /e", ""));
    let drift = doctor(&project);
    let (verdict, says, mend) = drift.last().unwrap();
    assert_eq!((&**verdict, &**mend), ("warn", "run `midex install --client cursor --with-hooks`"));
    assert_has(says, &["hooks.json", "another data directory", "/e"]);
    install(&project, "cursor", &["--with-hooks"]);
    assert_eq!(stop(), [format!("{MIDEX} hook stop --data-dir /e")]);
    assert_eq!(doctor(&project).len(), 1);
    fs::remove_file(home(&project, ".cursor/mcp.json")).unwrap();
    let left = doctor(&project);
    assert_eq!((left.len(), &*left[0].0), (1, "warn"));
    assert_has(&left[0].1, &["hooks.json", "no file of cursor names it as a server"]);
}

/// What the doctor says of hosts: verdict, words and mending.
fn doctor(project: &Project) -> Vec<(String, String, String)> {
    let ran = midex(project, &["doctor", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = crate::lines(&ran.out);
    let of_clients = said.iter().filter(|finding| finding["check"] == "clients");
    let word =
        |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    of_clients.map(|it| (word(it, "verdict"), word(it, "says"), word(it, "mend"))).collect()
}

#[test]
fn the_doctor_knows_the_hosts_and_those_that_name_another_binary() {
    let project = Project::new(&[]);
    let none = doctor(&project);
    assert_eq!((&*none[0].0, &*none[0].1), ("ok", "no host names midex here"));
    assert_has(&none[0].2, &["midex install --client"]);
    install(&project, "codex", &[]);
    install(&project, "cursor", &["--scope", "project"]);
    install(&project, "windsurf", &["--http", "http://127.0.0.1:1/mcp"]);
    write(&home(&project, ".gemini/settings.json"), "{\"mcpServers\": {\"o\": {}}}");
    let sound = doctor(&project);
    assert_eq!(
        sound,
        [("ok".into(), "cursor (project), codex (user), windsurf (user)".into(), String::new())]
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
        said.iter().find(|(_, says, _)| says.contains(part)).unwrap_or_else(|| panic!("{said:?}"))
    };
    let (verdict, says, mend) = find("names another binary");
    assert_eq!(
        (&**verdict, &**mend),
        ("warn", "run `midex install --client cursor --scope project`")
    );
    assert_has(says, &["/bin/sh", ".cursor/mcp.json"]);
    assert_eq!(find("/gone/midex, which is not there").2, "run `midex install --client gemini`");
    assert_eq!(find(".claude.json").0, "warn");
    let hook = json!({ "hooks": { "stop": [{ "command": "'/gone too/midex' hook stop" }] } });
    write(&project.path(".cursor/hooks.json"), hook.to_string());
    let said = doctor(&project);
    let (_, says, mend) = said
        .iter()
        .find(|(_, says, _)| says.contains("hooks.json"))
        .unwrap_or_else(|| panic!("{said:?}"));
    assert_has(says, &["names /gone too/midex, which is not there"]);
    assert_eq!(mend, "run `midex install --client cursor --scope project --with-hooks`");
    install(&project, "gemini", &["--with-hooks"]);
    assert!(
        doctor(&project)
            .iter()
            .any(|(verdict, says, _)| verdict == "ok" && says.contains("gemini (user)"))
    );
}
