//! Artifacts: stored once, readable to the byte, never changed, and of a bounded size.

use std::fmt::Write;

use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, address,
    project::{Project, each, line, list, text},
};

const MIB: usize = 1 << 20;

fn artifact(name: &str, content: &str) -> Value {
    json!({ "type": "file", "name": name, "content": content })
}

fn hand_over(server: &mut Server, id: &str, artifacts: &[Value]) -> Value {
    let token = server.begin("line", id)["new_token"].clone();
    server.hand_in(&token, json!({ "summary": "s", "artifacts": artifacts }))
}

/// Text that no compression makes small, and that is in no file by chance.
fn noise(bytes: usize) -> String {
    let mut state = 7_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + u8::try_from(state >> 59 & 15).unwrap())
    };
    (0..bytes).map(|_| letter()).collect()
}

/// Fault F14 of the study: the content of an artifact was stored twice, in the output and beside it.
#[test]
fn f14_the_content_of_an_artifact_is_stored_once_however_often_it_comes() {
    let project = line();
    let mut server = project.serve();
    let content = noise(MIB);
    let artifacts = ["x", "y", "z"].map(|name| artifact(name, &content));
    for n in 0..8 {
        hand_over(&mut server, &format!("e{n}"), &artifacts);
    }
    let shown = list(&server.read(&address("workflow_artifacts", "e7")));
    let output = server.history("e7")[0]["output"].clone();
    assert!(server.close().0.success());
    // 24 MiB were handed over.
    let bytes = std::fs::metadata(project.data_file()).unwrap().len();
    assert!((1 << 20..12 << 20).contains(&bytes), "{bytes} bytes on disk");
    assert_eq!(each(&shown, "name"), ["x", "y", "z"]);
    assert!(each(&shown, "sha256").iter().all(|digest| *digest == shown[0]["sha256"]));
    // The history refers to it.
    let reference = json!({
        "id": 2, "type": "file", "name": "y", "content_type": "text/plain", "size_bytes": MIB
    });
    assert_eq!(output["artifacts"][1], reference);
}

/// Fault F14 of the study: no resource gave the content of an artifact.
#[test]
fn f14_the_content_of_an_artifact_can_be_read_whole_and_in_ranges() {
    let project = line();
    let mut server = project.serve();
    let content = "zwölf Boxkämpfer jagen 鍵 über den Deich\n".repeat(5000);
    hand_over(&mut server, "e", &[artifact("dir/a b.md", &content), artifact("other", "")]);
    let listed = list(&server.read(&address("workflow_artifacts", "e")));
    assert_eq!(listed[0]["size_bytes"], content.len());
    assert!(listed[0].get("content").is_none());
    let by_name = address("artifact", "e") + "/dir%2Fa%20b.md";
    for uri in [text(&listed[0]["uri"]), &by_name] {
        for limit in [7_001, 65_536, MIB] {
            let (mut whole, mut at) = (String::new(), json!(0));
            while at.is_number() {
                let part = server.read(&format!("{uri}?offset={at}&limit={limit}"));
                assert!(text(&part["content"]).len() <= limit);
                assert_eq!(part["offset"], whole.len());
                whole.push_str(text(&part["content"]));
                at = part["next_offset"].clone();
            }
            assert!(whole == content, "{uri} in parts of {limit}");
        }
    }
    let empty = server.read(text(&listed[1]["uri"]));
    empty.has_fields(json!({ "content": "", "next_offset": null }));
    for query in ["limit=0", "limit=1048577", "offset=-1", "offset=x", "bytes=1"] {
        let error = server.read_error(&format!("{by_name}?{query}"));
        assert_eq!(error["data"]["error_code"], "ARGUMENTS_INVALID", "{query}");
    }
}

/// Fault F14 of the study: an artifact could be of any size.
#[test]
fn f14_an_artifact_over_the_limit_is_refused_and_the_step_stays_open() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let output =
        |bytes: usize| json!({ "summary": "s", "artifacts": [artifact("n", &"x".repeat(bytes))] });
    let before = server.status("e");
    for bytes in [2 * MIB + 1, 3 * MIB] {
        let refused = server.refuse(&token, output(bytes));
        assert_eq!(refused["error_code"], "LIMIT_EXCEEDED", "{refused}");
        assert_eq!(server.status("e"), before);
    }
    assert_eq!(server.hand_in(&token, output(2 * MIB))["step_name"], "b");
}

/// An agent hands over `["design_doc_001"]`.
#[test]
fn texts_are_listed_as_references_with_what_they_name() {
    let project = line();
    let mut server = project.serve();
    let first =
        hand_over(&mut server, "e", &[json!("design_doc_001"), artifact("notes.md", "# Notes")]);
    let again = json!({ "summary": "s", "artifacts": ["notes.md", "src/lib.rs"] });
    server.hand_in(&first["new_token"], again);
    for _ in 0..2 {
        let shown = list(&server.read(&address("workflow_artifacts", "e")));
        let names = ["notes.md", "design_doc_001", "notes.md", "src/lib.rs"];
        assert_eq!(each(&shown, "name"), names);
        let ids: Vec<_> = shown.iter().map(|artifact| artifact["id"].clone()).collect();
        assert_eq!(json!(ids), json!([1, 2, 3, 4]));
        check_reference(&shown[1], 14, &Value::Null);
        check_reference(&shown[2], 8, &json!(1));
        check_reference(&shown[3], 10, &Value::Null);
        let status = server.status("e");
        assert_eq!(status["artifacts"], 4, "{status}");
        let by_name = server.read(&format!("{}/notes.md", address("artifact", "e")));
        assert_eq!(by_name["content"], "# Notes");
        let refused = server.read_error(&format!("{}/2", address("artifact", "e")));
        let says = "execution 'e' keeps no content of the reference '2'";
        assert!(refused.to_string().contains(says), "{refused}");
        server.kill();
        server = project.serve();
    }
}

fn check_reference(shown: &Value, bytes: u64, names: &Value) {
    assert_eq!(shown["artifact_type"], "data");
    assert_eq!(shown["content_type"], "text/plain");
    assert_eq!(shown["size_bytes"], bytes);
    let metadata = json!({ "is_reference": true, "artifact_id": names });
    assert_eq!(shown["metadata"], metadata);
    assert_eq!([&shown["uri"], &shown["sha256"]], [&Value::Null; 2]);
}

fn artifacts(server: &mut Server) -> Vec<Value> {
    list(&server.read(&address("workflow_artifacts", "e")))
}

/// The whole content of an artifact, in as many parts as it takes.
fn content(server: &mut Server, artifact: &Value) -> String {
    let (mut whole, mut at) = (String::new(), json!(0));
    while at.is_number() {
        let part = server.read(&format!("{}?offset={at}", text(&artifact["uri"])));
        whole.push_str(text(&part["content"]));
        at = part["next_offset"].clone();
    }
    whole
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    let mut text = String::new();
    for byte in sha2::Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// Contents that a careless store would change: each with what it is said to be.
fn contents() -> Vec<(&'static str, String)> {
    use base64::{Engine as _, prelude::BASE64_STANDARD as base64};
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(200_000).collect();
    vec![
        ("application/octet-stream;base64", base64.encode(bytes)),
        ("text/plain", "line\r\nline\n\n  \t trailing  \n".into()),
        ("text/plain", "\u{0}\u{1}\u{1f}\u{7f}\u{feff}\u{2028}\u{fffd}".into()),
        ("text/markdown", "ключ 鍵 e\u{301} \u{1f468}\u{200d}\u{1f469} \"quoted\" \\n".into()),
        ("application/json", "{\"b\":1,\"a\":[1.0,1e3], \"a\":2}".into()),
        ("text/plain", String::new()),
    ]
}

#[test]
fn contents_come_back_to_the_byte_also_after_a_restart() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let items: Vec<_> = contents()
        .iter()
        .enumerate()
        .map(|(at, (kind, content))| {
            let name = format!("n{at}");
            json!({ "type": "data", "name": name, "content_type": kind, "content": content, "metadata": { "at": at } })
        })
        .collect();
    server.hand_in(&token, json!({ "summary": "s", "artifacts": items }));
    for _ in 0..2 {
        check(&mut server);
        server.kill();
        server = project.serve();
    }
}

fn check(server: &mut Server) {
    let stored = artifacts(server);
    let contents = contents();
    assert_eq!(stored.len(), contents.len());
    for (at, (kind, given)) in contents.iter().enumerate() {
        let shown = &stored[at];
        assert!(content(server, shown) == *given, "artifact {at}");
        shown.has_fields(json!({ "id": at + 1, "content_type": kind }));
        shown.has_fields(json!({ "size_bytes": given.len(), "metadata": { "at": at } }));
        assert_eq!(text(&shown["sha256"]), sha256(given.as_bytes()));
        shown.has_fields(json!({ "step_name": "a", "artifact_type": "data" }));
    }
}

#[test]
fn an_artifact_never_changes_whatever_comes_after_it() {
    let project: Project = line();
    let mut server = project.serve();
    let output = |content: &str| {
        let artifact = json!({ "type": "file", "name": "same name", "content": content });
        json!({ "summary": "s", "artifacts": [artifact, "a reference"] })
    };
    let token = server.begin("line", "e")["new_token"].clone();
    let second = server.hand_in(&token, output("first"))["new_token"].clone();
    let first = artifacts(&mut server);
    assert_eq!(each(&first, "name"), ["same name", "a reference"]);
    // A repeat stores nothing, another output for a used token changes nothing, a later one of that name stands beside.
    server.hand_in(&token, output("first"));
    server.refuse(&token, output("changed"));
    server.hand_in(&second, output("second"));
    server.change("abandon", "e");
    let all = artifacts(&mut server);
    assert_eq!(
        (&all[..2], each(&all, "step_name")),
        (&first[..], ["a", "a", "b", "b"].map(Into::into).to_vec())
    );
    assert_eq!(content(&mut server, &all[0]), "first");
    assert_eq!(content(&mut server, &all[2]), "second");
    let of_step = list(&server.read(&(address("workflow_artifacts", "e") + "/a")));
    assert_eq!(of_step, first);
    let latest = server.read(&(address("artifact", "e") + "/same%20name"));
    latest.has_fields(json!({ "id": 3, "content": "second" }));
    assert_eq!(list(&server.read(&(address("workflow_artifacts", "e") + "/c"))), [] as [Value; 0]);
}
