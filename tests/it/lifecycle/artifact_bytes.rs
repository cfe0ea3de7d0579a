//! "immutable artifacts", "binary artifacts (base64)"

use std::fmt::Write;

use serde_json::{Value, json};

use crate::support::{
    Client, Server, address,
    project::{Project, each, line, list, text},
};

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
        (
            "text/plain",
            "\u{0}\u{1}\u{1f}\u{7f}\u{feff}\u{2028}\u{fffd}".into(),
        ),
        (
            "text/markdown",
            "ключ 鍵 e\u{301} \u{1f468}\u{200d}\u{1f469} \"quoted\" \\n".into(),
        ),
        (
            "application/json",
            "{\"b\":1,\"a\":[1.0,1e3], \"a\":2}".into(),
        ),
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
        assert_eq!(
            (&shown["id"], &shown["content_type"]),
            (&json!(at + 1), &json!(kind))
        );
        assert_eq!(
            (&shown["size_bytes"], &shown["metadata"]),
            (&json!(given.len()), &json!({ "at": at }))
        );
        assert_eq!(text(&shown["sha256"]), sha256(given.as_bytes()));
        assert_eq!(
            (&shown["step_name"], &shown["artifact_type"]),
            (&json!("a"), &json!("data"))
        );
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
    assert_eq!(
        (&latest["id"], &latest["content"]),
        (&json!(3), &json!("second"))
    );
    assert_eq!(
        list(&server.read(&(address("workflow_artifacts", "e") + "/c"))),
        [] as [Value; 0]
    );
}
