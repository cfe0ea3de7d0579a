//! Names that climb, that mean a place elsewhere, or that look like another name: whatever is called so, nothing
//! outside the directories that midex was given is read, and nothing there is written.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use midex_cli::{
    Output,
    new::{FileArgs, FormatArg, NewArgs},
    validate::ValidateArgs,
};
use midex_domain::uri::{decode_segment, encode_segment};
use midex_registry as registry;
use midex_server::config::Config;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use midex_test::{
    Client, OF_EXECUTION, Server, address,
    long::share,
    project::{forge, payload},
    serve_alone,
};

/// What lies outside, and must be seen by nobody.
const CANARY: &str = "canary-outside-77d1";
/// What every machine has outside.
const PASSWORDS: &str = "root:x:0:0";

/// A place with files around it that are none of midex's business.
struct Place {
    dir: tempfile::TempDir,
}

/// A definition that would be found if anybody looked there.
fn definition(name: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: {CANARY}\nphases:\n  - {{ phase: a, agent: reviewer, description: {CANARY} }}\n---\n{CANARY}\n"
    )
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        for directory in ["", "home", "home/elsewhere", "elsewhere/workflows"] {
            let directory = place.top().join(directory);
            fs::create_dir_all(&directory).unwrap();
            for name in ["outside", "secret", "passwd", "1", "con", "nul", "~", "%2e%2e", "shadow"]
            {
                fs::write(directory.join(name), CANARY).unwrap();
                fs::write(directory.join(format!("{name}.md")), definition(name)).unwrap();
            }
        }
        for directory in ["workflows", "agents", "data"] {
            fs::create_dir(place.home().join(directory)).unwrap();
        }
        symlink(place.top().join("outside.md"), place.home().join("workflows/link.md")).unwrap();
        symlink(place.top().join("elsewhere"), place.home().join("workflows/linked")).unwrap();
        symlink(place.top(), place.home().join("agents/up")).unwrap();
        place
    }

    fn top(&self) -> &Path {
        self.dir.path()
    }

    fn home(&self) -> PathBuf {
        self.top().join("home")
    }

    fn config(&self) -> Config {
        Config {
            workflows_dir: None,
            agents_dir: None,
            project_dir: self.home(),
            ..Config::new(Some(self.home().join("data"))).unwrap()
        }
    }

    /// Everything but what is in the data directory, with the digest of what it holds or leads to.
    fn listing(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.top().to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap().file_type();
                let said = if kind.is_symlink() {
                    format!("leads to {}", fs::read_link(&path).unwrap().display())
                } else if kind.is_dir() {
                    if path != self.home().join("data") {
                        left.push(path.clone());
                    }
                    "directory".into()
                } else {
                    format!("{:x?}", Sha256::digest(fs::read(&path).unwrap()))
                };
                found.insert(path, said);
            }
        }
        found
    }

    /// What somebody may try to get at the files outside, and some of it more than once.
    fn corpus(&self) -> Vec<String> {
        let mut all = climbs();
        all.extend(elsewhere());
        all.extend(twins());
        for path in ["outside.md", "home/secret", "home/../outside", "./outside"] {
            let path = self.top().join(path).display().to_string();
            all.extend([format!("file://{path}"), format!("{path}\0.md"), path]);
        }
        all.sort();
        all.dedup();
        assert!(all.len() >= 300, "{} are too few", all.len());
        share(all, 2)
    }
}

/// Ways up, in every dress.
fn climbs() -> Vec<String> {
    let ups = r"
        ../ ..\ ..// .././ ./../ ....// ..;/ ..%2f ..%5c %2e%2e/ %2e%2e%2f %252e%252e%252f %c0%ae%c0%ae/
        %c0%ae%c0%ae%c0%af ..%c0%af %uff0e%uff0e%u2215 ..%00/ \..\ /../ a/../../";
    let odd_ups = [
        "\u{ff0e}\u{ff0e}\u{ff0f}",
        "\u{2024}\u{2024}/",
        "..\u{2215}",
        "..\u{2044}",
        "\u{2025}/",
        "..\u{200b}/",
        "..\0/",
        ".. /",
        "..\t/",
    ];
    let targets =
        ["outside", "outside.md", "home/secret", "agents/up/outside", "workflows/linked/shadow"];
    let mut all = Vec::new();
    for up in ups.split_whitespace().chain(odd_ups) {
        for (depth, target) in (1..).zip(targets) {
            all.push(up.repeat(depth.min(3)) + target);
        }
        all.extend([
            up.to_owned(),
            up.repeat(12) + "etc/passwd",
            format!("bug-fix/{up}{up}outside"),
        ]);
    }
    all
}

/// What means another place, on this system or on another.
fn elsewhere() -> Vec<String> {
    let plain = r"
        / // /etc/passwd //etc/passwd /proc/self/environ /proc/self/fd/0 /proc/self/cwd/outside /dev/stdin
        /dev/zero \\host\share\outside //host/share/outside \\?\C:\outside \\.\pipe\outside \\?\UNC\host\share
        C:\outside C:outside C:/outside c:\..\outside file:///etc/passwd file:outside http://127.0.0.1/outside
        midex://workflow/agent/outside ~ ~/outside ~root/outside ~+/outside $HOME $HOME/outside ${HOME} %HOME%
        %USERPROFILE% @outside <outside * ? [a-z]* {outside,secret} - -- -rf --help --data-dir=.. . .. ...
        .git/config .outside outside. outside.md. outside/ outside\ outside.MD outside::$DATA outside:stream
        link link.md linked linked/shadow up up/outside workflows/link workflows/../../outside elsewhere/outside
        executions.redb executions.lock control.sock ../data/executions.redb data/executions.redb 1 0 -1";
    let odd = [
        "`cat outside`",
        "$(cat outside)",
        "|cat outside",
        ";cat outside",
        "outside ",
        " outside",
        "outside.md ",
        "outside\0",
        "\0outside",
        "outside\0.md",
        "outside\n",
        "out\rside",
        "out\u{1b}[2Jside",
    ];
    let places = plain.split_whitespace().chain(odd);
    let mut all: Vec<_> = places.map(str::to_owned).collect();
    for device in ["con", "PRN", "aux", "NUL", "com1", "LPT9", "CONIN$", "clock$"] {
        all.extend([
            device.to_owned(),
            format!("{device}.md"),
            format!("{device}:"),
            format!("../{device}"),
        ]);
    }
    all.push("a/".repeat(90) + "outside");
    all
}

/// Names that look like one that exists, and are others.
fn twins() -> Vec<String> {
    let plain = "
        Bug-Fix BUG-FIX bug-fix. bug-fix.md ./bug-fix bug-fix/ bug-fix/. bug%2dfix bug%252dfix bug_fix Reviewer
        reviewer.md reviewer%00 K STRASSE";
    let odd = [
        "bug-fix ",
        " bug-fix",
        "bug-fix\0",
        "bug\u{2010}fix",
        "bug\u{2011}fix",
        "bug\u{ad}-fix",
        "\u{ff42}ug-fix",
        "bug-\u{fb01}x",
        "bug-fi\u{445}",
        "\u{feff}bug-fix",
        "bug-fix\u{200d}",
        "bug-\u{202e}xif",
        "bug\u{ff0d}fix",
        "\u{1d41b}ug-fix",
        "rev\u{ff49}ewer",
        "reviewer\u{301}",
        "re\u{301}viewer",
        "r\u{e9}viewer",
        "review\u{435}r",
        "\u{212a}",
        "\u{17f}hip",
        "stra\u{df}e",
        "\u{130}",
        "\u{131}",
    ];
    let names = plain.split_whitespace().chain(odd);
    names.map(str::to_owned).collect()
}

/// An answer that shows nothing from outside, and is no fault of midex's own.
fn harmless(answer: &Value, of: &str) {
    let text = answer.to_string();
    assert!(!text.contains(CANARY), "{of:?}: {text}");
    assert!(!text.contains(PASSWORDS), "{of:?}: {text}");
    assert_ne!(answer["error"]["data"]["error_code"], "INTERNAL", "{of:?}: {text}");
    let refused = &answer["result"]["structuredContent"]["error_code"];
    assert_ne!(refused, "INTERNAL", "{of:?}: {text}");
}

fn call(server: &mut Server, tool: &str, arguments: Value, of: &str) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = server.request("tools/call", params);
    harmless(&answer, of);
    answer["result"]["structuredContent"].clone()
}

/// Whether there is a resource at this address.
fn exists(server: &mut Server, address: &str, of: &str) -> bool {
    let answer = server.request("resources/read", json!({ "uri": address }));
    harmless(&answer, of);
    answer["error"].is_null()
}

/// Runs `abuse` with a server of such a place for every entry. Nothing outside has changed, and the server ends in
/// order.
fn with_each(mut abuse: impl FnMut(&mut Server, &str)) {
    let place = Place::new();
    let before = place.listing();
    let mut server = Server::greeted(serve_alone(&place.home(), &[]));
    for entry in place.corpus() {
        abuse(&mut server, &entry);
    }
    assert_eq!(place.listing(), before);
    let (exit, ..) = server.close();
    assert!(exit.success(), "{exit}");
    assert_eq!(place.listing(), before);
    let mut kept: Vec<_> = fs::read_dir(place.home().join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    kept.sort();
    assert_eq!(kept, ["executions.lock", "executions.redb"]);
}

#[test]
fn a_name_of_a_definition_finds_no_file() {
    with_each(|server, entry| {
        let answer = call(server, "workflow.start", json!({ "workflow_name": entry }), entry);
        let code = answer["error_code"].as_str();
        let codes = ["WORKFLOW_NOT_FOUND", "WORKFLOW_VALIDATION_FAILED", "ARGUMENTS_INVALID"];
        assert!(code.is_some_and(|code| codes.contains(&code)), "{entry:?}: {answer}");
        for kind in ["agent", "workflow_details"] {
            for segment in
                [encode_segment(entry), encode_segment(&encode_segment(entry)), entry.to_owned()]
            {
                let address = format!("midex://workflow/{kind}/{segment}");
                let found = exists(server, &address, entry);
                // A link that leaves is listed, as a finding; and an address may spell a name in more than one way.
                let named = decode_segment(&segment).unwrap_or_default();
                let known = ["link", "linked", "up", "bug-fix", "reviewer"].contains(&&*named);
                assert!(!found || known && named == named.trim(), "{kind} {entry:?}");
            }
        }
        call(server, "execution.list", json!({ "workflow": entry }), entry);
        call(server, "execution.list", json!({ "state": entry }), entry);
        call(server, "execution.list", json!({ "cursor": entry }), entry);
        for (template, name) in
            [("workflow_details/{workflow_name}", "workflow_name"), ("agent/{name}", "name")]
        {
            let reference =
                json!({ "type": "ref/resource", "uri": format!("midex://workflow/{template}") });
            let argument = json!({ "name": name, "value": entry });
            let params = json!({ "ref": reference, "argument": argument });
            harmless(&server.request("completion/complete", params), entry);
        }
    });
}

#[test]
fn an_id_and_a_project_and_agents_are_words() {
    with_each(|server, entry| {
        let arguments = json!({ "workflow_name": "bug-fix", "execution_id": entry, "project": entry, "known_agents": [entry] });
        let started = call(server, "workflow.start", arguments, entry);
        let is_id = started["success"] == true;
        if is_id {
            assert_eq!(started["execution_id"], entry);
        } else {
            let code = &started["error_code"];
            assert_eq!(code, "ARGUMENTS_INVALID", "{entry:?}: {started}");
        }
        for kind in OF_EXECUTION {
            assert_eq!(exists(server, &address(kind, entry), entry), is_id, "{kind} {entry:?}");
        }
        exists(server, &format!("midex://workflow/current_step/{entry}"), entry);
        let listed = call(server, "execution.list", json!({ "project": entry, "limit": 1 }), entry);
        if is_id && entry != "*" {
            assert_eq!(listed["executions"][0]["execution_id"], entry);
        }
        let ended = call(server, "execution.abandon", json!({ "execution_id": entry }), entry);
        assert_eq!(ended["success"], is_id, "{entry:?}: {ended}");
    });
}

#[test]
fn an_artifact_and_a_step_lie_in_no_directory() {
    let mut token = None;
    with_each(|server, entry| {
        let arguments = json!({ "workflow_name": "bug-fix" });
        let started = call(server, "workflow.start", arguments, entry);
        let id = started["execution_id"].as_str().unwrap().to_owned();
        let content = format!("the content of {entry}");
        let artifact = json!({ "type": "file", "name": entry, "content": content });
        let output = json!({ "summary": "done", "artifacts": [artifact] });
        let arguments = json!({ "token": started["new_token"], "output": output });
        let reply = call(server, "workflow.next_step", arguments, entry);
        let kept = reply["success"] == true;
        let uri =
            format!("midex://workflow/artifact/{}/{}", encode_segment(&id), encode_segment(entry));
        let shown = server.request("resources/read", json!({ "uri": uri }));
        harmless(&shown, entry);
        // What only numbers and digits name is an id as well.
        if kept {
            let text = shown["result"]["contents"][0]["text"].as_str().unwrap();
            let shown: Value = serde_json::from_str(text).unwrap();
            assert_eq!(shown["content"], content, "{entry:?}");
        }
        for address in [
            format!("midex://workflow/artifact/{}/{entry}", encode_segment(&id)),
            format!("midex://workflow/artifact/{entry}/1"),
            format!(
                "midex://workflow/workflow_artifacts/{}/{}",
                encode_segment(&id),
                encode_segment(entry)
            ),
            format!("midex://workflow/workflow_artifacts/{}/{entry}", encode_segment(&id)),
        ] {
            exists(server, &address, entry);
        }
        // A token with such a step, and one with such an execution.
        let real = token.get_or_insert_with(|| started["new_token"].clone());
        for field in ["step_name", "execution_id"] {
            let mut forged = payload(real);
            forged[field] = json!(entry);
            let arguments =
                json!({ "token": forge(&forged), "output": midex_test::output("forged") });
            let refused = call(server, "workflow.next_step", arguments, entry);
            assert_eq!(refused["success"], false, "{entry:?}: {refused}");
        }
    });
}

#[test]
fn a_definition_of_such_a_name_is_that_and_no_file() {
    let place = Place::new();
    let corpus = place.corpus();
    for (at, entry) in corpus.iter().enumerate() {
        let step = json!({ "id": "a", "agent": entry });
        let workflow = json!({ "workflow": entry, "description": "d", "steps": [step] });
        let path = place.home().join(format!("workflows/w{at}.json"));
        fs::write(path, workflow.to_string()).unwrap();
        let step = json!({ "id": entry, "agent": "reviewer" });
        let workflow =
            json!({ "workflow": format!("step-{at}"), "description": "d", "steps": [step] });
        let path = place.home().join(format!("workflows/s{at}.json"));
        fs::write(path, workflow.to_string()).unwrap();
        let persona = format!("---\nname: {}\ndescription: d\n---\nYou are.\n", json!(entry));
        fs::write(place.home().join(format!("agents/a{at}.md")), persona).unwrap();
    }
    let before = place.listing();
    let mut server = Server::greeted(serve_alone(&place.home(), &[]));
    let listed = server.read("midex://workflow/available_workflows");
    harmless(&listed, "all");
    let page = listed.as_array().unwrap().len();
    assert_eq!(page, midex_domain::limits::WORKFLOWS_LISTED_MAX, "a full page");
    let mut started = 0;
    for (at, entry) in corpus.iter().enumerate() {
        for name in [entry.clone(), format!("step-{at}")] {
            let answer =
                call(&mut server, "workflow.start", json!({ "workflow_name": name }), entry);
            started += usize::from(answer["success"] == true);
            exists(&mut server, &address("workflow_details", &name), entry);
        }
        exists(&mut server, &address("agent", entry), entry);
    }
    assert!(started > 20, "names that the manual allows are names: {started}");
    let (exit, ..) = server.close();
    assert!(exit.success(), "{exit}");
    assert_eq!(place.listing(), before);
}

#[test]
fn a_new_file_stays_in_its_directory_and_a_check_changes_none() {
    let place = Place::new();
    let made = place.home().join("made");
    fs::create_dir(&made).unwrap();
    let config = place.config();
    let before = place.listing();
    let mut expected = Vec::new();
    for (at, entry) in place.corpus().into_iter().enumerate() {
        // The names of both follow one rule.
        let kinds = if at % 5 == 0 { &["workflows", "agents"][..] } else { &["agents"] };
        for kind in kinds {
            let file = FileArgs {
                name: entry.clone(),
                dir: Some(made.clone()),
                description: None,
                force: true,
            };
            let format = Some(FormatArg::Md);
            let args = match *kind {
                "workflows" => NewArgs::Workflow { file, format, from: None },
                _ => NewArgs::Agent { file },
            };
            let mut out = Vec::new();
            if midex_cli::new::write_new_file(&args, &config, Output::new(true, &mut out)).is_ok() {
                let stem = entry.strip_suffix(".md").unwrap_or(&entry);
                let path = made.join(kind).join(format!("{stem}.md"));
                let said: Value = serde_json::from_slice(&out).unwrap();
                assert_eq!(said["path"], path.to_str().unwrap());
                assert_eq!(path.parent(), Some(&*made.join(kind)));
                expected.push(path);
            }
        }
    }
    assert!(expected.len() > 20, "{}", expected.len());
    let mut after = place.listing();
    after.retain(|path, _| !before.contains_key(path));
    for directory in ["workflows", "agents"] {
        assert!(after.remove(&made.join(directory)).is_some());
    }
    expected.sort();
    assert!(after.keys().eq(&expected), "{after:?}");
    // A check shows what it was told to look at, and that is all that it does.
    let before = place.listing();
    let registry = config.registry();
    for entry in place.corpus() {
        let path = place.home().join("workflows").join(&entry);
        // What a whole machine holds would take long.
        if path.is_dir() && !path.starts_with(place.home()) || entry.contains("..") && path.is_dir()
        {
            continue;
        }
        let args = ValidateArgs { paths: vec![path], ..Default::default() };
        let mut out = Vec::new();
        let _ =
            midex_cli::validate::validate(&args, &registry, false, Output::new(false, &mut out));
    }
    assert_eq!(place.listing(), before);
}

/// The same by the real binary, for some of them.
#[test]
fn a_command_line_with_such_a_name_writes_nothing_outside() {
    let place = Place::new();
    let before = place.listing();
    let sample = vec![
        "../outside",
        "..",
        "/etc/passwd",
        "..\\outside",
        "%2e%2e%2foutside",
        "~",
        "con",
        "outside.",
        "--",
        "-x",
        "link",
        "a/b",
        "\u{ff0e}\u{ff0e}\u{ff0f}x",
        "../../../../../../../../etc/passwd",
        "workflows/../../outside",
        "~root/outside",
    ];
    for name in share(sample, 3) {
        for args in [
            ["new", "workflow"],
            ["new", "agent"],
            ["graph", "--"],
            ["show", "--"],
            ["run", "--"],
            ["pause", "--"],
        ] {
            let mut command = std::process::Command::new(midex_test::binary());
            let ran = command
                .args(args)
                .args([name])
                .current_dir(place.home())
                .env("MIDEX_DATA_DIR", place.home().join("data"))
                .env("HOME", place.home())
                .env("XDG_CONFIG_HOME", place.home().join("config"))
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
            assert!(ran.status.code().is_some_and(|code| code < 100), "{args:?} {name}: {said}");
            // `graph` takes a path as well: what is named so is named by who may read it.
            let shows = said.contains(CANARY) || said.contains(PASSWORDS);
            assert!(args[0] == "graph" || !shows, "{args:?} {name}: {said}");
        }
    }
    let mut after = place.listing();
    let places = [place.home().join("workflows"), place.home().join("agents")];
    after.retain(|path, _| {
        !before.contains_key(path)
            && !path.parent().is_some_and(|parent| places.contains(&parent.to_owned()))
    });
    assert!(after.is_empty(), "{after:?}");
}

/// Whoever may write to the directory of definitions puts a link in the place of a file, and takes it away again,
/// while the definitions are read: what the link leads to is never read.
#[test]
fn a_link_that_comes_and_goes_leads_nowhere() {
    const ROUNDS: usize = 3000;
    let place = Place::new();
    let home = place.home();
    let (files, spare) = (home.join("agents"), home.join("spare"));
    fs::remove_file(files.join("up")).unwrap();
    fs::create_dir_all(spare.join("inner")).unwrap();
    fs::create_dir(files.join("below")).unwrap();
    let harmless = "---\nname: w\ndescription: d\n---\nYou are.\n";
    for name in ["w.md", "below/outside.md"] {
        fs::write(files.join(name), harmless).unwrap();
    }
    let stop = AtomicBool::new(false);
    let registry = place.config().registry();
    let paths = [files.clone()];
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each takes the place of the other in one step, so that one of both is always there.
            let swap = |name: &str, to: &str| {
                let (link, kept) = (spare.join("link"), spare.join("kept"));
                let _ = fs::remove_file(&link);
                symlink(place.top().join(to), &link).unwrap();
                exchange(&link, &files.join(name));
                exchange(&link, &files.join(name));
                fs::rename(&link, kept).unwrap();
            };
            while !stop.load(Ordering::Relaxed) {
                swap("w.md", "outside.md");
                swap("below", "home/elsewhere");
            }
        });
        let _stop = Stop(&stop);
        for _ in 0..ROUNDS {
            for report in registry::validate_paths(&paths, &registry).unwrap() {
                let shown = format!("{report:?}");
                assert!(!shown.contains(CANARY), "{shown}");
                // Not even what else lies in the directory that the link leads to.
                assert!(!shown.contains("shadow"), "{shown}");
                if report.findings.is_empty() {
                    read += 1;
                } else {
                    refused += 1;
                }
            }
        }
    });
    assert!(read > 0 && refused > 0, "both were met: {read}, {refused}");
}

/// Says stop at its end, also where that is a failed assertion.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Gives two names to each other.
fn exchange(one: &Path, two: &Path) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE).unwrap();
}
