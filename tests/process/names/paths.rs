//! Names and ids that look like paths, or like nothing: none of them leads out of the data directory.

use std::{fs, path::Path};

use midex_domain::uri::encode_segment;
use serde_json::json;

use midex_test::{
    Client, Fields, OF_EXECUTION, address,
    witness::{Witness, tree},
};

const SECRET: &str = "the secret outside";

/// What climbs, what is an address of something else, and what a store of files would trip over.
const ODD: [&str; 10] =
    ["..", "../outside", "/etc/passwd", "a/../../b", "%2e%2e%2f", "%00", "C:\\x", "a\0b", "1", "2"];

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
    tree(home).into_iter().map(|path| (path.clone(), content(&path))).collect()
}

/// The data directory holds its own three files, and nothing else is new or different.
fn nothing_escaped(witness: &mut Witness, before: &[(std::path::PathBuf, Option<Vec<u8>>)]) {
    assert_eq!(outside(witness.home()), before);
    let kept: Vec<_> =
        tree(&witness.data()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(kept, ["control.sock", "executions.lock", "executions.redb"]);
    witness.unharmed();
}

/// The home once the server has made all that it makes there.
fn settled(witness: &Witness) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    drop(midex_test::door::Door::knock(&witness.data()));
    outside(witness.home())
}

#[test]
fn an_artifact_that_is_called_like_a_path_is_an_artifact_and_no_file() {
    let mut witness = witness();
    let before = settled(&witness);
    let token = witness.victim("victim");
    let names = ODD;
    let artifacts: Vec<_> = names
        .iter()
        .map(|name| json!({ "type": "file", "name": name, "content": format!("of {name}") }))
        .collect();
    let output = json!({ "summary": "s", "artifacts": artifacts });
    witness.hand_in(&token, &output);
    for (at, name) in names.iter().enumerate() {
        let by_id = witness.read(&format!("midex://workflow/artifact/victim/{}", at + 1));
        by_id.has_fields(json!({ "name": name, "content": format!("of {name}") }));
        let by_name =
            witness.read(&format!("midex://workflow/artifact/victim/{}", encode_segment(name)));
        // A name that is also an id means the artifact with this id.
        let meant = name.parse::<usize>().map_or(*name, |id| names[id - 1]);
        assert_eq!(by_name["content"], format!("of {meant}"));
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
        let refused = witness.refused("workflow.start", arguments);
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{id:?}: {refused}");
        assert_eq!(refused["violations"][0]["path"], "/execution_id", "{id:?}: {refused}");
        assert!(!refused["suggested_action"].to_string().contains('{'), "{refused}");
        for kind in OF_EXECUTION {
            let error = witness.read_error(&address(kind, id));
            assert_eq!(error["code"], -32002, "{kind} {id:?}: {error}");
            assert_eq!(error["data"]["error_code"], "RESOURCE_NOT_FOUND", "{kind} {id:?}");
        }
    }
    nothing_escaped(&mut witness, &before);
    witness.survives();
}
