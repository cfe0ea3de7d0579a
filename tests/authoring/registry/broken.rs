//! Definition files that are broken in every way: each is listed with what is wrong, the others load.

use std::{
    fmt::Write,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use midex_test::{Client, Server, address, door::until, serve_alone, witness::Witness};

const AVAILABLE: &str = "midex://workflow/available_workflows";

fn sound(name: &str) -> String {
    format!(
        "workflow: {name}\ndescription: x\nsteps:\n- {{ id: a, agent: reviewer }}\n- {{ id: b, agent: reviewer }}\n"
    )
}

/// An alias for many aliases for many aliases.
fn bomb() -> String {
    let mut text = "workflow: bomb\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        let all = [before.as_str(); 9].join(", ");
        writeln!(text, "a{level}: &a{level} [{all}]").unwrap();
    }
    text
}

/// Texts that are no definitions: a file's name, what is in it, and the rule that says what is wrong.
const BROKEN: &[(&str, &[u8], &str)] = &[
    ("unclosed.yaml", b"workflow: \"unclosed\ndescription: x\n", "syntax"),
    ("bracket.yaml", b"workflow: bracket\nsteps: [\n", "syntax"),
    ("tabs.yaml", b"workflow: tabs\n\tdescription: x\n", "syntax"),
    ("itself.yaml", b"workflow: &a [*a]\n", "syntax"),
    ("two.yaml", b"workflow: two\n---\nworkflow: three\n", "syntax"),
    ("cut.json", b"{\"workflow\":\"cut\"", "syntax"),
    ("nothing.json", b"", "syntax"),
    ("nul.yaml", b"workflow: nul\0\ndescription: x\n", "syntax"),
    ("latin.yaml", b"workflow: latin\ndescription: gr\xfc\xdfe\n", "not_utf8"),
    ("empty.md", b"", "missing_front_matter"),
    ("open.md", b"---\nname: open\n", "unclosed_front_matter"),
    ("empty.yaml", b"", "missing_key"),
    ("null.yaml", b"null\n", "missing_key"),
    ("list.yaml", b"- 1\n", "wrong_type"),
    ("text.yaml", b"hello\n", "wrong_type"),
    ("number.json", b"5", "wrong_type"),
    (
        "cycle.yaml",
        b"workflow: cycle\ndescription: x\nsteps:\n- { id: a, agent: reviewer, depends_on: [b] }\n- { id: b, agent: reviewer, depends_on: [a] }\n",
        "cyclic_dependency",
    ),
];

/// The same for files that are long, or made of a sound one.
fn made() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let lists = |depth: usize| {
        format!("workflow: deep\nsteps: {}{}\n", "[".repeat(depth), "]".repeat(depth))
    };
    let maps = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let ladder = |depth: usize| {
        (0..depth).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n")
    };
    let head = "workflow: many\ndescription: x\nsteps:\n".to_owned();
    let many =
        (0..501).fold(head, |text, at| format!("{text}- {{ id: s{at}, agent: reviewer }}\n"));
    let huge = format!("workflow: huge\ndescription: {}\n", "x".repeat(10 << 20));
    let texts = [
        ("bomb.yaml", bomb(), "syntax"),
        ("deep.yaml", lists(1000), "syntax"),
        ("deep.json", maps(1000), "syntax"),
        ("ladder.yaml", ladder(1000), "syntax"),
        ("huge.yaml", huge, "file_too_large"),
        ("many.yaml", many, "limit_exceeded"),
        ("line.yaml", sound("\"a\\nb\""), "ill_formed_name"),
        ("long.yaml", sound(&"x".repeat(201)), "ill_formed_name"),
        ("step.yaml", sound("step").replace("id: a", "id: ../a"), "ill_formed_name"),
        ("nobody.yaml", sound("nobody").replace("reviewer", "../../etc/passwd"), "missing_persona"),
    ];
    let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let binaries = [("binary.md", bytes.clone(), "not_utf8"), ("binary.yaml", bytes, "not_utf8")];
    texts
        .into_iter()
        .map(|(name, text, rule)| (name, text.into_bytes(), rule))
        .chain(binaries)
        .collect()
}

fn broken_files() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let written = BROKEN.iter().map(|(name, bytes, rule)| (*name, bytes.to_vec(), *rule));
    written.chain(made()).collect()
}

/// A directory of broken files, a sound one among them, and one outside that a link leads to.
fn furnish(home: &Path) {
    let files = home.join("files");
    fs::create_dir(&files).unwrap();
    for (name, bytes, _) in broken_files() {
        fs::write(files.join(name), bytes).unwrap();
    }
    fs::write(files.join("sound.yaml"), sound("sound")).unwrap();
    fs::write(files.join("crlf.yaml"), sound("crlf").replace('\n', "\r\n")).unwrap();
    fs::write(files.join("\u{202e}odd\n\u{7}.yaml"), sound("odd")).unwrap();
    fs::write(files.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.yaml")), sound("unnamed")).unwrap();
    fs::create_dir(files.join("directory.md")).unwrap();
    fs::write(files.join("directory.md/inner.yaml"), sound("inner")).unwrap();
    fs::write(home.join("outside.yaml"), sound("outside")).unwrap();
    symlink(home.join("outside.yaml"), files.join("outside.yaml")).unwrap();
    symlink("/etc", files.join("etc.md")).unwrap();
    symlink("../../../../../../etc/passwd", files.join("passwd.yaml")).unwrap();
    symlink(files.join("nowhere"), files.join("dangling.yaml")).unwrap();
    symlink(files.join("circle.yaml"), files.join("circle.yaml")).unwrap();
    symlink("/dev/zero", files.join("zero.yaml")).unwrap();
}

fn flags(home: &TempDir) -> [String; 2] {
    ["--workflows".to_owned(), home.path().join("files").display().to_string()]
}

fn entries<'a>(listed: &'a Value, name: &str) -> Vec<&'a Value> {
    let listed = listed.as_array().unwrap();
    listed.iter().filter(|entry| entry["name"] == name).collect()
}

#[test]
fn every_broken_file_is_listed_with_what_is_wrong_and_the_others_load() {
    let home = tempfile::tempdir().unwrap();
    furnish(home.path());
    let flags = flags(&home);
    let mut witness = Witness::in_home(home, &[&flags[0], &flags[1]]);
    let listed = witness.server.read(AVAILABLE);
    let links = [
        ("outside", "outside_directory"),
        ("etc", "outside_directory"),
        ("passwd", "outside_directory"),
        ("dangling", "unreadable"),
        ("circle", "unreadable"),
        ("zero", "unreadable"),
        ("directory", "unreadable"),
    ];
    let files = broken_files();
    let stems = files.iter().map(|(name, _, rule)| (name.split('.').next().unwrap(), *rule));
    for (name, rule) in stems.chain(links) {
        // Two of the files are called `deep`, two `binary`, two `empty`: each has an entry of its own.
        let findings = entries(&listed, name)
            .into_iter()
            .flat_map(|entry| entry["findings"].as_array().unwrap());
        let rules: Vec<_> = findings.map(|finding| finding["rule"].as_str().unwrap()).collect();
        assert!(rules.contains(&rule), "{name}: {rule} is not among {rules:?}");
        let refused = witness.server.refused("workflow.start", json!({ "workflow_name": name }));
        assert_eq!(refused["error_code"], "WORKFLOW_VALIDATION_FAILED", "{name}: {refused}");
        assert!(!refused["violations"].as_array().unwrap().is_empty(), "{name}: {refused}");
        let action = refused["suggested_action"].as_str().unwrap();
        assert!(action.contains("`midex validate /"), "{name}: {action}");
        assert!(refused.to_string().len() < 20_000, "{name}: few words");
    }
    for name in ["sound", "crlf", "odd", "unnamed", "inner", "bug-fix"] {
        let [entry] = entries(&listed, name)[..] else {
            panic!("{name} is not listed once: {listed}")
        };
        assert!(entry["findings"].is_null(), "{entry}");
        witness.server.done("workflow.start", json!({ "workflow_name": name }));
    }
    assert!(!listed.to_string().contains("root:"), "nothing outside was read");
    witness.survives();
}

/// Puts what is neither a file nor a directory among definitions, under names with and without an extension; the stem
/// of each, and what it is said to be.
fn odd(files: &Path) -> Vec<(String, &'static str)> {
    let pipe = |name: &str| {
        let made = Command::new("mkfifo").arg(files.join(name)).status();
        assert!(made.unwrap().success());
    };
    let mut odd = Vec::new();
    for extension in ["", ".yaml", ".md"] {
        let mut put = |stem: &str, what, put: &dyn Fn(&str)| {
            let stem = format!("{stem}{}", extension.replace('.', "-"));
            put(&format!("{stem}{extension}"));
            odd.push((stem, what));
        };
        put("pipe", "this is a pipe, not a file", &pipe);
        put("socket", "this is a socket, not a file", &|name| {
            drop(UnixListener::bind(files.join(name)).unwrap());
        });
        put("device", "this is a device, not a file", &|name| {
            symlink("/dev/zero", files.join(name)).unwrap();
        });
        put("terminal", "this is a device, not a file", &|name| {
            symlink("/dev/tty", files.join(name)).unwrap();
        });
        put("linked", "this is a pipe, not a file", &|name| {
            symlink(files.join("pipe"), files.join(name)).unwrap();
        });
        put("dangling", "this symbolic link leads nowhere", &|name| {
            symlink("nowhere", files.join(name)).unwrap();
        });
        if !extension.is_empty() {
            let what = "this is a directory with the name of a definition file";
            put("directory", what, &|name| {
                fs::create_dir(files.join(name)).unwrap();
            });
        }
    }
    odd
}

#[test]
fn odd_entries_of_a_directory_are_findings_and_nothing_waits_for_them() {
    let home = tempfile::tempdir().unwrap();
    let files = home.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("sound.yaml"), sound("sound")).unwrap();
    fs::write(files.join("notes.txt"), "no definition").unwrap();
    let odd = odd(&files);
    let flags = flags(&home);
    let midex = |args: &[&str]| {
        let mut command = Command::new(midex_test::binary());
        let output = command.args(args).args(&flags).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), said + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, said) = midex(&["validate"]);
    assert_eq!(code, Some(1), "{said}");
    for (stem, what) in &odd {
        assert!(said.contains(stem) && said.contains(what), "{stem}: {said}");
    }
    assert!(!said.contains("notes"), "{said}");
    let mut witness = Witness::in_home(home, &[&flags[0], &flags[1]]);
    let listed = witness.server.read(AVAILABLE);
    for (stem, what) in &odd {
        let [entry] = entries(&listed, stem)[..] else {
            panic!("{stem} is not listed once: {listed}")
        };
        let findings = entry["findings"].as_array().unwrap();
        assert_eq!((findings.len(), &findings[0]["message"]), (1, &json!(what)));
    }
    assert!(entries(&listed, "sound")[0]["findings"].is_null());
    // Named themselves, as a file and as the directory of definitions.
    for (name, what) in [("pipe", "pipe"), ("device", "device")] {
        let path = files.join(name).display().to_string();
        let (code, said) = midex(&["validate", &path]);
        assert!(code == Some(1) && said.contains(what), "{code:?}: {said}");
        let listed =
            Command::new(midex_test::binary()).args(["list", "--workflows", &path]).output();
        let said = String::from_utf8(listed.unwrap().stdout).unwrap();
        assert!(said.contains("bug-fix"), "{said}");
    }
    witness.survives();
}

#[test]
fn a_link_to_the_directory_itself_lists_nothing_twice() {
    let home = tempfile::tempdir().unwrap();
    furnish(home.path());
    let files = home.path().join("files");
    symlink(&files, files.join("again")).unwrap();
    let flags = flags(&home);
    let mut witness = Witness::in_home(home, &[&flags[0], &flags[1]]);
    let listed = witness.server.read(AVAILABLE);
    for name in ["sound", "bomb", "inner", "outside", "dangling"] {
        assert_eq!(entries(&listed, name).len(), 1, "{name}");
    }
    witness.survives();
}

#[test]
fn a_broken_agent_is_shown_with_what_is_wrong_and_stops_only_those_who_need_it() {
    let home = tempfile::tempdir().unwrap();
    let agents = home.path().join("agents");
    fs::create_dir(&agents).unwrap();
    let persona = |name: &str| format!("---\nname: {name}\ndescription: x\n---\nYou are {name}.\n");
    fs::write(agents.join("architect.md"), b"---\nname: architect\ndescription: \xff\n---\nx\n")
        .unwrap();
    fs::write(agents.join("maintainer.md"), "---\nname: maintainer\ndescription: x\n---\n")
        .unwrap();
    fs::write(agents.join("huge.md"), persona("huge") + &"x".repeat(10 << 20)).unwrap();
    fs::write(agents.join("sound.md"), persona("sound")).unwrap();
    fs::write(home.path().join("outside.md"), persona("outside")).unwrap();
    symlink(home.path().join("outside.md"), agents.join("outside.md")).unwrap();
    let flags = ["--agents".to_owned(), agents.display().to_string()];
    let mut witness = Witness::in_home(home, &[&flags[0], &flags[1]]);
    for (name, rule) in [
        ("architect", "not_utf8"),
        ("maintainer", "empty_persona"),
        ("huge", "file_too_large"),
        ("outside", "outside_directory"),
    ] {
        let shown = witness.server.read(&address("agent", name));
        assert_eq!(shown["valid"], false, "{shown}");
        assert_eq!(shown["findings"][0]["rule"], json!(rule), "{shown}");
    }
    assert_eq!(witness.server.read(&address("agent", "sound"))["content"], "You are sound.");
    let refused =
        witness.server.refused("workflow.start", json!({ "workflow_name": "feature-development" }));
    assert_eq!(refused["error_code"], "WORKFLOW_VALIDATION_FAILED");
    assert_eq!(refused["violations"][0]["rule"], "invalid_persona");
    witness.server.done("workflow.start", json!({ "workflow_name": "bug-fix" }));
    witness.survives();
}

#[test]
fn a_directory_of_definitions_that_is_none_is_a_finding() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "x").unwrap();
    symlink(home.path().join("loop"), home.path().join("loop")).unwrap();
    for place in ["file", "loop", "nowhere", "file/below"] {
        let place = home.path().join(place).display().to_string();
        let flags = ["--workflows", &place, "--agents", &place];
        let mut server = Server::greeted(serve_alone(home.path(), &flags));
        let listed = server.read(AVAILABLE);
        let broken = listed.as_array().unwrap().iter().filter(|entry| entry["valid"] == false);
        let broken: Vec<_> = broken.collect();
        assert_eq!(broken.len(), 1, "{place}: {broken:?}");
        assert_eq!(broken[0]["findings"][0]["rule"], "unreadable", "{place}");
        server.done("workflow.start", json!({ "workflow_name": "bug-fix" }));
    }
}

#[test]
fn an_execution_goes_on_when_its_file_breaks_between_two_servers() {
    let home = tempfile::tempdir().unwrap();
    let files = home.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("mine.yaml"), sound("mine")).unwrap();
    let flags = flags(&home);
    let mut server = Server::greeted(serve_alone(home.path(), &[&flags[0], &flags[1]]));
    let first = server.begin("mine", "e");
    server.kill();
    for garbage in [&b"workflow: \"mine"[..], b"\xff\xfe\x00", b""] {
        fs::write(files.join("mine.yaml"), garbage).unwrap();
        let mut server = Server::greeted(serve_alone(home.path(), &[&flags[0], &flags[1]]));
        let current = server.current("e");
        assert_eq!(current["continuation_token"], first["new_token"]);
        let refused = server.refused("workflow.start", json!({ "workflow_name": "mine" }));
        assert_eq!(refused["error_code"], "WORKFLOW_VALIDATION_FAILED");
    }
    fs::remove_dir_all(&files).unwrap();
    let mut server = Server::greeted(serve_alone(home.path(), &[&flags[0], &flags[1]]));
    assert_eq!(server.finish(&first["new_token"], "done")["step_name"], "b");
    let missing = server.refused("workflow.start", json!({ "workflow_name": "mine" }));
    assert_eq!(missing["error_code"], "WORKFLOW_NOT_FOUND");
}

#[test]
fn garbage_written_beside_a_running_server_is_listed_and_leaves_the_last_good_version() {
    let home = tempfile::tempdir().unwrap();
    let files = home.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("mine.yaml"), sound("mine")).unwrap();
    let flags = flags(&home);
    let mut witness = Witness::in_home(home, &[&flags[0], &flags[1]]);
    for (garbage, rule) in [
        (bomb().into_bytes(), "syntax"),
        (vec![0xff; 5000], "not_utf8"),
        (vec![b'x'; 10 << 20], "file_too_large"),
    ] {
        fs::write(files.join("mine.yaml"), garbage).unwrap();
        fs::write(files.join("fresh.yaml"), b"\xff").unwrap();
        let entry = until("a finding", || {
            let listed = witness.server.read(AVAILABLE);
            let entry = entries(&listed, "mine").first().copied().cloned()?;
            (entry["findings"][0]["rule"] == rule).then_some(entry)
        });
        assert_eq!(entry["phases"][1]["phase"], "b", "the last good version: {entry}");
        witness.server.done("workflow.start", json!({ "workflow_name": "mine" }));
    }
    fs::remove_file(files.join("mine.yaml")).unwrap();
    until("a deletion", || {
        entries(&witness.server.read(AVAILABLE), "mine").is_empty().then_some(())
    });
    witness.survives();
}
