//! `midex run` with inputs.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{DEPLOY, project};
use midex_test::{Client, project::Project};

/// Runs `midex run w` with these flags and nothing to hand in: its exit code, stdout and stderr.
fn run(project: &Project, flags: &[&str]) -> (Option<i32>, String, String) {
    let mut command = project.command(&[&["run", "w"], flags].concat());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn inputs_are_given_one_by_one_and_read_as_their_types() {
    let inputs = format!(
        "{DEPLOY}  list: {{ type: array, optional: true }}\n  free: {{ enum: [1, 'a'], optional: true }}\n"
    );
    let project = project(&inputs);
    let flags = r#"--id e --inputs {"region":"us","replicas":1} --input region=eu --input tag=v7
        --input push=true --input note=a=b --input list=[1,"x"] --input free=1"#;
    let flags: Vec<_> = flags.split_whitespace().collect();
    let (_, out, err) = run(&project, &flags);
    assert!(out.contains("Started w as e"), "{out}{err}");
    let mut server = project.serve();
    assert_eq!(
        server.current("e")["inputs"],
        json!({
            "region": "eu", "replicas": 1, "tag": "v7", "push": true, "note": "a=b", "list": [1, "x"], "free": 1
        })
    );
    server.close();
    // Going on with the same inputs, or with none: what defaults made of them is no difference.
    let (_, out, err) = run(&project, &["--id", "e", "--input", "tag=v7"]);
    assert!(out.contains("Going on with e"), "{out}{err}");
    let (code, _, err) = run(&project, &["--id", "e", "--input", "tag=v8"]);
    assert!(code == Some(1) && err.contains("EXECUTION_ID_TAKEN"), "{err}");
}

#[test]
fn a_run_says_everything_that_is_wrong_with_its_inputs() {
    let project = project(DEPLOY);
    let flags = "--input region=moon --input replicas=many --input regoin=eu";
    let flags: Vec<_> = flags.split(' ').collect();
    let (code, out, err) = run(&project, &flags);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    for said in [
        "error[INPUTS_INVALID]",
        "inputs.region: ",
        "inputs.replicas: ",
        "inputs.tag: `tag` is missing",
        "did you mean `region`?",
        "help: Write --input NAME=VALUE, or all in --inputs JSON. region: Region (one of us, eu)",
        "replicas (whole number; 1 to 9)",
    ] {
        assert!(err.contains(said), "{said}: {err}");
    }
    let (_, _, err) = run(&project, &[&["--json"], &flags[..]].concat());
    let error: Value = serde_json::from_str(err.lines().last().unwrap()).unwrap();
    assert_eq!(error["violations"].as_array().unwrap().len(), 4, "{error}");
    let (code, _, err) = run(&project, &["--input", "region"]);
    assert!(code == Some(2) && err.contains("--input NAME=VALUE"), "{err}");
}

#[test]
fn where_nothing_is_declared_single_inputs_are_texts() {
    let project = project("");
    run(&project, &["--id", "e", "--input", "n=5"]);
    let mut server = project.serve();
    assert_eq!(server.current("e")["inputs"], json!({ "n": "5" }));
}
