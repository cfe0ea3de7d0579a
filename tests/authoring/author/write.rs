//! `workflow.save`, `workflow.rename`, `workflow.delete`: what lies on disk afterwards, and what each client sees at once.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::{TRIAGE, clients, deleted, done, get, pairs, refused};
use midex_test::{
    assert_has,
    project::{Project, each, list, text},
    reader::{ERAS, Era, Reader},
    says,
};

/// Where the tools write when nothing says otherwise, below the root of a project.
const USERS: &str = "home/.config/midex/workflows";

/// A manifest with comments, a blank line and keys in an order of its own.
const COMMENTED: &str = "# mine\nworkflow: triage   # the id\n\nsteps:\n  - guidance: Look.   # first\n    id: look\ndescription: d\n";

/// Every file below a directory with its bytes, those apart that a writer leaves for the next one.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                waiting.push(path);
            } else if !path.ends_with(".midex.lock") {
                let bytes = fs::read(&path).unwrap_or_default();
                found.insert(path.display().to_string(), bytes);
            }
        }
    }
    found
}

fn save(client: &mut Reader, text: &str) -> Value {
    done(client, "workflow.save", json!({ "manifest": text }))
}

/// The names that `available_workflows` lists of the user's.
fn own(client: &mut Reader) -> Vec<String> {
    let listed = done(client, "workflow.list", json!({ "source": "user" }));
    each(&list(&listed["workflows"]), "workflow_id")
}

/// What a client reads of a resource.
fn shown(client: &mut Reader, uri: &str) -> Value {
    let read = client.result("resources/read", json!({ "uri": uri }));
    serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn what_is_saved_lies_there_as_it_was_sent_and_is_in_force_at_once() {
    let odd = format!("\u{feff}{}", COMMENTED.replace('\n', "\r\n"));
    for text in [COMMENTED, &odd] {
        let project = Project::new(&[]);
        for (at, client) in clients(&project).iter_mut().enumerate() {
            let id = format!("triage{at}");
            let text = text.replace("workflow: triage", &format!("workflow: {id}"));
            let saved = save(client, &text);
            let path = project.path(&format!("{USERS}/{id}.yaml"));
            assert_eq!(saved["path"], path.display().to_string());
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(saved["workflow_id"], json!(id));
            assert_eq!(saved["format"], "yaml");
            assert_eq!(saved["created"], true);
            assert_eq!(saved["success"], true);
            assert_eq!(own(client).len(), at + 1);
            let workflow = shown(client, &format!("midex://workflow/workflow_details/{id}"));
            assert_eq!(workflow["name"], id, "{workflow}");
            let listed = client.result("resources/list", json!({}));
            assert_has(&listed.to_string(), &[&format!("workflow_details/{id}")]);
            let got = get(client, &id);
            assert_eq!(got["content"], json!(text));
            assert_eq!(got["version"], saved["version"]);
            let count = saved["sync"]["workflow_count"].as_u64().unwrap();
            let listed = done(client, "workflow.list", json!({}));
            assert_eq!(listed["total"], count);

            let renamed = json!({ "workflow_id": id, "new_id": format!("{id}b") });
            let renamed = done(client, "workflow.rename", renamed);
            let now = text.replace(&id, &format!("{id}b"));
            let path = project.path(&format!("{USERS}/{id}b.yaml"));
            assert_eq!(fs::read_to_string(&path).unwrap(), now);
            assert_eq!(renamed["renamed_from"], id);
            let prompt = json!({ "kind": "prompt", "name": format!("run.{id}") });
            assert_eq!(renamed["referred_by"], json!([prompt]));
            let deleted = json!({ "workflow_id": format!("{id}b"), "confirm": true });
            let deleted = done(client, "workflow.delete", deleted);
            assert_eq!(deleted["deleted"], true);
            assert_eq!(deleted["version"], renamed["version"]);
            assert_eq!(own(client).len(), at);
            save(client, &text);
        }
    }
}

#[test]
fn a_file_that_is_there_gives_way_to_its_version_or_to_overwrite_alone() {
    let project = Project::new(&[]);
    for (at, client) in clients(&project).iter_mut().enumerate() {
        let id = format!("w{at}");
        let text = |words: &str| {
            TRIAGE.replace("triage\n", &format!("{id}\n")).replace("Page somebody", words)
        };
        let first = save(client, &text("one"));
        let again = refused(client, "workflow.save", json!({ "manifest": text("two") }));
        assert_eq!(again["error_code"], "WORKFLOW_ALREADY_EXISTS", "{again}");
        assert_eq!(again["context"]["version"], first["version"]);
        let stale = json!({ "manifest": text("two"), "expected_version": "0".repeat(64), "overwrite": true });
        let stale = refused(client, "workflow.save", stale);
        assert_eq!(stale["error_code"], "VERSION_CONFLICT", "{stale}");
        assert_eq!(stale["context"]["actual_version"], first["version"]);
        let second = json!({ "manifest": text("two"), "expected_version": first["version"] });
        let second = done(client, "workflow.save", second);
        assert_eq!(second["created"], false);
        assert_eq!(second["replaced_version"], first["version"]);
        let third =
            done(client, "workflow.save", json!({ "manifest": text("three"), "overwrite": true }));
        assert_eq!(third["replaced_version"], second["version"]);

        for (tool, more) in [
            ("workflow.rename", json!({ "new_id": "other" })),
            ("workflow.delete", json!({ "confirm": true })),
        ] {
            for (id, actual) in [(&*id, third["version"].clone()), ("none", Value::Null)] {
                let mut arguments = more.clone();
                arguments["workflow_id"] = json!(id);
                arguments["expected_version"] = first["version"].clone();
                let conflict = refused(client, tool, arguments);
                assert_eq!(conflict["error_code"], "VERSION_CONFLICT", "{conflict}");
                assert_eq!(conflict["context"]["actual_version"], actual);
            }
        }
        let missing = json!({ "manifest": text("x").replace(&id, "new"), "expected_version": first["version"] });
        let missing = refused(client, "workflow.save", missing);
        assert_eq!(missing["error_code"], "VERSION_CONFLICT", "{missing}");
        let unknown = refused(
            client,
            "workflow.delete",
            json!({ "workflow_id": "nowhere", "confirm": true }),
        );
        assert_eq!(unknown["error_code"], "WORKFLOW_NOT_FOUND", "{unknown}");
        let taken = json!({ "workflow_id": id, "new_id": id });
        let taken = refused(client, "workflow.rename", taken);
        assert_eq!(taken["error_code"], "WORKFLOW_ALREADY_EXISTS", "{taken}");
    }
}

/// Oatty's fault 19: another format made a second file of one id.
#[test]
fn an_id_has_one_file_whatever_its_format_and_wherever_it_lies() {
    let front = "---\nworkflow: triage\ndescription: d\nsteps:\n  - id: look\n    guidance: G\n---\n# Triage\n";
    let project = Project::new(&[(&format!("{USERS}/deep/mine.yml"), COMMENTED)]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let document = json!({ "workflow": "triage", "steps": [{ "id": "look", "guidance": "G" }], "description": "yes", "version": "1.0" });
    for (arguments, name) in [
        (json!({ "manifest": COMMENTED }), "deep/mine.yml"),
        (json!({ "manifest": front }), "deep/triage.md"),
        (json!({ "manifest": document.to_string(), "format": "json" }), "deep/triage.json"),
        (json!({ "manifest": document }), "deep/triage.yaml"),
        (json!({ "manifest": document, "format": "json" }), "deep/triage.json"),
    ] {
        let mut arguments = arguments;
        arguments["overwrite"] = json!(true);
        let saved = done(&mut client, "workflow.save", arguments);
        let files = tree(&project.path(USERS));
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(saved["path"], project.path(&format!("{USERS}/{name}")).display().to_string());
        assert_eq!(own(&mut client), ["triage"]);
        let parsed =
            done(&mut client, "workflow.get", json!({ "workflow_id": "triage" }))["parsed"].clone();
        if name.ends_with("yaml") || name.ends_with("json") {
            assert_eq!(parsed, document, "the order of keys is kept too");
            assert_eq!(parsed.to_string(), document.to_string());
        }
    }
}

#[test]
fn a_new_id_is_put_in_the_place_of_the_old_one_and_nothing_else_changes() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    for (text, new_id, renamed) in [
        (
            "# old\nworkflow: old # old\ndescription: old\nsteps: [{ id: old, guidance: old }]\n",
            "new",
            "# old\nworkflow: new # old\ndescription: old\nsteps: [{ id: old, guidance: old }]\n",
        ),
        (
            "description: d\nworkflow: 'old'\nsteps: [{ id: a, guidance: G }]\n",
            "a.b",
            "description: d\nworkflow: 'a.b'\nsteps: [{ id: a, guidance: G }]\n",
        ),
        (
            "workflow:   old\ndescription: d\nsteps: [{ id: a, guidance: G }]\n",
            "17",
            "workflow:   \"17\"\ndescription: d\nsteps: [{ id: a, guidance: G }]\n",
        ),
        (
            "workflow: old\ndescription: d\nsteps: [{ id: a, guidance: G }]\n",
            "true",
            "workflow: \"true\"\ndescription: d\nsteps: [{ id: a, guidance: G }]\n",
        ),
        (
            "{ \"description\": \"d\",\n  \"workflow\": \"old\", \"steps\": [{ \"id\": \"a\", \"guidance\": \"G\" }] }",
            "new",
            "{ \"description\": \"d\",\n  \"workflow\": \"new\", \"steps\": [{ \"id\": \"a\", \"guidance\": \"G\" }] }",
        ),
        (
            "---\r\nname: old\r\ndescription: d\r\nphases:\r\n  - phase: a\r\n    agent: reviewer\r\n---\r\n# old\r\n",
            "new",
            "---\r\nname: new\r\ndescription: d\r\nphases:\r\n  - phase: a\r\n    agent: reviewer\r\n---\r\n# old\r\n",
        ),
        (
            "{ workflow: &id old, description: d, steps: [{ id: a, guidance: *id }] }\n",
            "new",
            "{ workflow: &id new, description: d, steps: [{ id: a, guidance: *id }] }\n",
        ),
        (
            "workflow: >-\n  old\ndescription: d\nsteps: [{ id: a, guidance: G }]\n",
            "new",
            "workflow: >-\n  new\ndescription: d\nsteps: [{ id: a, guidance: G }]\n",
        ),
        ("workflow: \"o\\x6cd\"\ndescription: d\nsteps: [{ id: a, guidance: G }]\n", "new", ""),
    ] {
        let mut arguments = json!({ "manifest": text });
        if text.contains("&id") {
            arguments["format"] = json!("yaml");
        }
        done(&mut client, "workflow.save", arguments);
        let arguments = json!({ "workflow_id": "old", "new_id": new_id });
        if renamed.is_empty() {
            let stays = refused(&mut client, "workflow.rename", arguments);
            assert_eq!(stays["error_code"], "WORKFLOW_NOT_WRITABLE", "{stays}");
        } else {
            let answer = done(&mut client, "workflow.rename", arguments);
            assert_eq!(fs::read_to_string(answer["path"].as_str().unwrap()).unwrap(), renamed);
            assert_eq!(own(&mut client), [new_id]);
        }
        for name in own(&mut client) {
            deleted(&mut client, &name);
        }
        assert_eq!(tree(&project.path(USERS)), BTreeMap::new());
    }
}

#[test]
fn an_id_that_can_be_no_file_and_a_text_that_is_no_definition_write_nothing() {
    let project =
        Project::new(&[(&format!("{USERS}/Deploy.yaml"), &TRIAGE.replace(": triage", ": Deploy"))]);
    fs::write(project.path("evil.yaml"), "mine").unwrap();
    let before = tree(project.root());
    let manifest = |text: &str| json!({ "manifest": text });
    let id = |id: &str| manifest(&TRIAGE.replace(": triage", &format!(": {id}")));
    let cases = [
        (id("../evil"), "IDENTIFIER_INVALID"),
        (id("a/b"), "IDENTIFIER_INVALID"),
        (id("'/etc/passwd'"), "IDENTIFIER_INVALID"),
        (id(".hidden"), "IDENTIFIER_INVALID"),
        (id("'-flag'"), "IDENTIFIER_INVALID"),
        (id("_passed"), "IDENTIFIER_INVALID"),
        (id("größe"), "IDENTIFIER_INVALID"),
        (id("\"a\\0b\""), "WORKFLOW_VALIDATION_FAILED"),
        (id(&"x".repeat(201)), "WORKFLOW_VALIDATION_FAILED"),
        (id("deploy"), "WORKFLOW_ALREADY_EXISTS"),
        (manifest("workflow: a\n\tdescription: tab\n"), "WORKFLOW_VALIDATION_FAILED"),
        (manifest("a\0b"), "WORKFLOW_VALIDATION_FAILED"),
        (manifest(""), "WORKFLOW_VALIDATION_FAILED"),
        (json!({ "manifest": { "steps": [] } }), "WORKFLOW_VALIDATION_FAILED"),
        (manifest(&format!("{TRIAGE}# {}", "x".repeat(10 << 20))), "WORKFLOW_VALIDATION_FAILED"),
        (json!({ "manifest": TRIAGE, "format": "toml" }), "ARGUMENTS_INVALID"),
        (json!({}), "ARGUMENTS_INVALID"),
    ];
    for client in &mut clients(&project) {
        for (arguments, code) in &cases {
            let error = refused(client, "workflow.save", arguments.clone());
            let shown: String = arguments.to_string().chars().take(80).collect();
            assert_eq!(error["error_code"], *code, "{shown}: {error}");
            assert!(error.to_string().len() < 20_000, "{shown}");
        }
        let renamed = |new_id: &str| json!({ "workflow_id": "Deploy", "new_id": new_id });
        for (new_id, code) in [
            ("../x", "IDENTIFIER_INVALID"),
            ("a/b", "IDENTIFIER_INVALID"),
            ("a\0", "IDENTIFIER_INVALID"),
        ] {
            let error = refused(client, "workflow.rename", renamed(new_id));
            assert_eq!(error["error_code"], code, "{error}");
        }
        let missing = refused(
            client,
            "workflow.save",
            json!({ "manifest": TRIAGE.replace("id: read", "id: 'not ok'") }),
        );
        assert!(!list(&missing["violations"]).is_empty(), "{missing}");
        assert_eq!(own(client), ["Deploy"]);
    }
    let mut after = tree(project.root());
    after.retain(|path, _| !path.contains("/.local/"));
    assert_eq!(after, before);
}

#[test]
fn what_lies_elsewhere_is_left_alone_and_a_copy_says_what_hides_it() {
    let project = Project::new(&[("workflows/triage.yaml", TRIAGE)]);
    let before = tree(&project.path("workflows"));
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let got = get(&mut client, "triage");
    let calls = json!([
        ["workflow.save", { "manifest": TRIAGE, "overwrite": true }],
        ["workflow.save", { "manifest": TRIAGE, "expected_version": got["version"] }],
        ["workflow.rename", { "workflow_id": "triage", "new_id": "other" }],
        ["workflow.delete", { "workflow_id": "triage", "confirm": true }],
        ["workflow.delete", { "workflow_id": "bug-fix", "confirm": true }],
    ]);
    for (tool, arguments) in pairs(calls) {
        let error = refused(&mut client, &tool, arguments);
        assert_eq!(&error["error_code"], "WORKFLOW_NOT_WRITABLE", "{error}");
        assert_eq!(&error["category"], "conflict", "{error}");
    }
    assert!(!project.path(USERS).exists(), "nothing is made for what is refused");
    let copy = save(&mut client, TRIAGE);
    let warning = &copy["warnings"][0];
    assert_eq!(warning["rule"], "shadowed_name", "{copy}");
    says(&warning["message"], "workflows/triage.yaml");
    let deleted = deleted(&mut client, "triage");
    assert_eq!(deleted["referred_by"][1]["kind"], "workflow", "{deleted}");
    assert_eq!(deleted["referred_by"][1]["source"], "project");
    assert_eq!(tree(&project.path("workflows")), before);
    // One of the shipped ones is hidden by the copy: that is what it is for.
    let shipped = get(&mut client, "app-scaffold");
    let copy = save(&mut client, shipped["content"].as_str().unwrap());
    assert!(!copy["warnings"].to_string().contains("shadowed_name"), "{copy}");
}

#[test]
fn a_link_in_the_place_of_a_file_is_not_written_through() {
    let project = Project::new(&[("elsewhere.yaml", TRIAGE)]);
    let users = project.path(USERS);
    fs::create_dir_all(&users).unwrap();
    fs::write(users.join("real.yaml"), TRIAGE).unwrap();
    std::os::unix::fs::symlink(users.join("real.yaml"), users.join("a.yaml")).unwrap();
    std::os::unix::fs::symlink(project.path("elsewhere.yaml"), users.join("gone.yaml")).unwrap();
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    // The link comes first, so that the workflow is known by its name.
    let refusal =
        refused(&mut client, "workflow.save", json!({ "manifest": TRIAGE, "overwrite": true }));
    assert_eq!(refusal["error_code"], "WORKFLOW_NOT_WRITABLE", "{refusal}");
    let taken = TRIAGE.replace(": triage", ": gone");
    let refusal = refused(&mut client, "workflow.save", json!({ "manifest": taken }));
    assert_eq!(refusal["error_code"], "WORKFLOW_NOT_WRITABLE", "{refusal}");
    for path in [users.join("real.yaml"), project.path("elsewhere.yaml")] {
        assert_eq!(fs::read_to_string(path).unwrap(), TRIAGE);
    }
}

#[test]
fn the_answer_names_the_executions_that_go_on_with_what_they_keep() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, Era::Initialize, "other", &[]);
    save(&mut client, COMMENTED);
    for id in ["one", "two"] {
        done(
            &mut client,
            "workflow.start",
            json!({ "workflow_name": "triage", "execution_id": id }),
        );
    }
    let refusal = refused(&mut client, "workflow.delete", json!({ "workflow_id": "triage" }));
    assert_eq!(&refusal["error_code"], "CONFIRMATION_REQUIRED");
    assert_eq!(&refusal["category"], "conflict");
    let message = refusal["message"].as_str().unwrap();
    assert_has(message, &["triage.yaml", "open: 2"]);
    assert_eq!(own(&mut client), ["triage"]);
    let deleted = deleted(&mut client, "triage");
    assert_eq!(
        deleted["referred_by"],
        json!([{ "kind": "open_executions", "count": 2 }, { "kind": "prompt", "name": "run.triage" }])
    );
    let status = shown(&mut client, "midex://workflow/workflow_status/one");
    assert_eq!(status["state"], "running");
}

#[test]
fn a_rename_and_a_delete_name_who_begins_or_extends_the_workflow() {
    let project = Project::new(&[]);
    let mut clients = clients(&project);
    let client = &mut clients[0];
    let one = "workflow: one\ndescription: d\nsteps:\n  - { id: a, guidance: A. }\n";
    for manifest in [
        one,
        "workflow: parent\ndescription: d\nsteps:\n  - { id: a, workflow: one }\n",
        "workflow: hooked\ndescription: d\nhooks: { on_complete: { workflow: one } }\nsteps:\n  - { id: a, guidance: A. }\n",
        "workflow: heir\nextends: one\ndescription: d\n",
        "workflow: other\ndescription: d\nsteps:\n  - { id: a, guidance: one. }\n",
    ] {
        save(client, manifest);
    }
    let users = |answer: &Value| -> Vec<(String, String)> {
        let named = list(&answer["referred_by"]).into_iter();
        let named = named.filter(|one| one["kind"] == "definition");
        named.map(|one| (text(&one["by"]).to_owned(), text(&one["workflow"]).to_owned())).collect()
    };
    let expected: Vec<_> = [("extends", "heir"), ("workflow", "hooked"), ("workflow", "parent")]
        .map(|(kind, name)| (kind.to_owned(), name.to_owned()))
        .into();
    let renamed = json!({ "workflow_id": "one", "new_id": "two" });
    assert_eq!(users(&done(client, "workflow.rename", renamed)), expected);
    let back = json!({ "workflow_id": "two", "new_id": "one" });
    assert_eq!(users(&done(client, "workflow.rename", back)), []);
    // Before it is deleted the user is told.
    let asked = refused(client, "workflow.delete", json!({ "workflow_id": "one" }));
    for said in [
        "`parent` names it (`workflow`)",
        "`hooked` names it (`workflow`)",
        "`heir` names it (`extends`)",
    ] {
        assert!(text(&asked["message"]).contains(said), "{asked}");
    }
    let deleted = json!({ "workflow_id": "one", "confirm": true });
    assert_eq!(users(&done(client, "workflow.delete", deleted)), expected);
}
