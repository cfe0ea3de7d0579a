//! Names and ids that look like paths, or like nothing: none of them leads out of the data directory.

use std::{fs, path::Path};

use midex::uri::encode;
use serde_json::{Value, json};

use crate::support::{
    Client, address,
    witness::{Witness, tree},
};

const SECRET: &str = "the secret outside";

/// What climbs, what means something elsewhere, and what is hard to see. All of them are legal ids.
const ODD: [&str; 30] = [
    "..",
    ".",
    "../outside",
    "../../etc/passwd",
    "../agents/outside",
    "/etc/passwd",
    "//",
    "/",
    "a/../../b",
    "./a",
    "%2e%2e%2f",
    "..%2foutside",
    "%00",
    "%",
    "%zz",
    "C:\\x",
    "..\\..\\x",
    "\\\\host\\share",
    "con",
    "~",
    "~root",
    "$HOME",
    "`id`",
    "-x",
    "--help",
    "\u{202e}txt.exe",
    "a\u{200f}b",
    "\u{200b}",
    "\u{feff}a",
    "a?b=c&d#e",
];

/// What no id may hold.
const IMPOSSIBLE: [&str; 8] = ["", " ", "../\0", "\0", "a\n../b", "\r", "\u{1b}[2J", "..\t"];

/// A home with something outside the data directory that nobody may find.
fn witness() -> Witness {
    let home = tempfile::tempdir().unwrap();
    let agents = home.path().join("agents");
    fs::create_dir(&agents).unwrap();
    fs::create_dir(home.path().join("workflows")).unwrap();
    let persona = format!("---\nname: outside\ndescription: x\n---\n{SECRET}\n");
    fs::write(home.path().join("outside.md"), &persona).unwrap();
    fs::write(home.path().join("outside"), SECRET).unwrap();
    fs::write(home.path().join("1"), SECRET).unwrap();
    Witness::in_home(home, &[])
}

/// What lies in the home. Of the data directory only which files there are: what is in them may change.
fn outside(home: &Path) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    let data = home.join("data");
    let content =
        |path: &Path| (path.is_file() && !path.starts_with(&data)).then(|| fs::read(path).unwrap());
    tree(home)
        .into_iter()
        .map(|path| (path.clone(), content(&path)))
        .collect()
}

/// The data directory holds its own three files, and nothing else is new or different.
fn nothing_escaped(witness: &mut Witness, before: &[(std::path::PathBuf, Option<Vec<u8>>)]) {
    assert_eq!(outside(witness.home()), before);
    let kept: Vec<_> = tree(&witness.data())
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(kept, ["control.sock", "executions.lock", "executions.redb"]);
    witness.unharmed();
}

/// The home once the server has made all that it makes there.
fn settled(witness: &Witness) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    drop(crate::support::door::Door::knock(&witness.data()));
    outside(witness.home())
}

#[test]
fn an_id_that_looks_like_a_path_names_an_execution_and_nothing_else() {
    let mut witness = witness();
    let before = settled(&witness);
    for id in ODD {
        let token = witness.victim(id);
        for kind in [
            "current_step",
            "workflow_status",
            "step_history",
            "workflow_artifacts",
            "telemetry",
        ] {
            let shown = witness.server.read(&address(kind, id));
            assert!(!shown.to_string().contains(SECRET), "{id:?} {kind}");
        }
        assert_eq!(witness.server.status(id)["execution_id"], id);
        let next = witness.server.finish(&token, "done");
        assert_eq!(
            (&next["execution_id"], &next["step_name"]),
            (&json!(id), &json!("fix"))
        );
    }
    nothing_escaped(&mut witness, &before);
    let (mut server, _home) = witness.survives();
    for id in ODD {
        assert_eq!(server.status(id)["revision"], 2, "{id:?}");
    }
}

#[test]
fn an_artifact_that_is_called_like_a_path_is_an_artifact_and_no_file() {
    let mut witness = witness();
    let before = settled(&witness);
    let token = witness.victim("victim");
    let names: Vec<_> = ODD.into_iter().chain(["a\0b", "a\nb", "1", "2"]).collect();
    let artifacts: Vec<_> = names
        .iter()
        .map(|name| json!({ "type": "file", "name": name, "content": format!("of {name}") }))
        .collect();
    let output = json!({ "summary": "s", "artifacts": artifacts });
    witness.server.hand_in(&token, &output);
    for (at, name) in names.iter().enumerate() {
        let by_id = witness
            .server
            .read(&format!("midex://workflow/artifact/victim/{}", at + 1));
        assert_eq!(
            (&by_id["name"], &by_id["content"]),
            (&json!(name), &json!(format!("of {name}")))
        );
        let by_name = witness.server.read(&format!(
            "midex://workflow/artifact/victim/{}",
            encode(name)
        ));
        // A name that is also an id means the artifact with this id.
        let meant = name.parse::<usize>().map_or(*name, |id| names[id - 1]);
        assert_eq!(by_name["content"], format!("of {meant}"));
    }
    nothing_escaped(&mut witness, &before);
    witness.survives();
}

#[test]
fn a_name_that_looks_like_a_path_finds_no_definition() {
    let mut witness = witness();
    let before = settled(&witness);
    let absolute = witness.home().join("outside.md").display().to_string();
    for name in ODD
        .into_iter()
        .chain(["../outside", "../outside.md", "outside", &absolute])
    {
        let refused = witness
            .server
            .refused("workflow.start", json!({ "workflow_name": name }));
        assert_eq!(
            refused["error_code"], "WORKFLOW_NOT_FOUND",
            "{name:?}: {refused}"
        );
        for (kind, code) in [
            ("workflow_details", "WORKFLOW_NOT_FOUND"),
            ("agent", "RESOURCE_NOT_FOUND"),
        ] {
            for segment in [encode(name), name.replace('?', "%3f")] {
                let error = witness
                    .server
                    .read_error(&format!("midex://workflow/{kind}/{segment}"));
                assert_eq!(
                    (&error["code"], &error["data"]["error_code"]),
                    (&json!(-32002), &json!(code)),
                    "{kind} {name:?}: {error}"
                );
                assert!(!error.to_string().contains(SECRET));
            }
        }
    }
    nothing_escaped(&mut witness, &before);
    witness.survives();
}

#[test]
fn an_impossible_id_starts_nothing_and_names_nothing() {
    let mut witness = witness();
    let before = settled(&witness);
    for id in IMPOSSIBLE {
        let arguments = json!({ "workflow_name": "bug-fix", "execution_id": id });
        let refused = witness.server.refused("workflow.start", arguments);
        assert_eq!(
            refused["error_code"], "ARGUMENTS_INVALID",
            "{id:?}: {refused}"
        );
        assert_eq!(
            refused["violations"][0]["path"], "/execution_id",
            "{id:?}: {refused}"
        );
        for kind in [
            "current_step",
            "workflow_status",
            "step_history",
            "workflow_artifacts",
            "telemetry",
        ] {
            let error = witness.server.read_error(&address(kind, id));
            assert_eq!(error["code"], -32002, "{kind} {id:?}: {error}");
            assert_eq!(
                error["data"]["error_code"], "RESOURCE_NOT_FOUND",
                "{kind} {id:?}"
            );
        }
    }
    nothing_escaped(&mut witness, &before);
    witness.survives();
}

/// Projects and agents that a caller names are words, not paths to be opened.
#[test]
fn a_project_and_known_agents_may_be_called_anything() {
    let mut witness = witness();
    let before = settled(&witness);
    for name in ODD.into_iter().chain(["\0", "a\nb", " "]) {
        let arguments =
            json!({ "workflow_name": "bug-fix", "project": name, "known_agents": [name] });
        let started = witness.server.done("workflow.start", arguments);
        assert!(started["agent_content"].is_string());
        let listed = witness
            .server
            .done("execution.list", json!({ "project": name }));
        let expected = json!([started["execution_id"]]);
        let ids: Value = listed["executions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["execution_id"].clone())
            .collect();
        assert_eq!(ids, expected, "{name:?}");
        let uri = format!("midex://workflow/executions?project={}", encode(name));
        assert_eq!(witness.server.read(&uri)["executions"][0]["project"], name);
    }
    nothing_escaped(&mut witness, &before);
    witness.survives();
}
