//! A manifest with declared control flow, from the file to its end through the real server, killed on the way.

use serde_json::{Value, json};

use midex_test::{
    Client, Fields,
    project::{Project, eventually},
    says,
};

const RELEASE: &str = "workflow: release
description: Build, wait for the word, wait a little, and say what came of it
inputs: { tag: { type: string } }
memory: { tries: 0 }
steps:
  - { id: build, guidance: 'Build ${{ inputs.tag }}.', result: { type: object, required: [ok] }, example: { ok: true } }
  - { id: count, set: { tries: '${{ memory.tries + 1 }}' } }
  - { id: again, branch: [{ if: not steps.build.ok, next: build }] }
  - { id: word, wait: { signal: go } }
  - { id: pause, wait: { for: 300ms } }
  - { id: tell, tool: announce, with: { tag: '${{ inputs.tag }}', by: '${{ steps.word.by }}' }, result: {} }
final_output: { tag: '${{ inputs.tag }}', tries: '${{ memory.tries }}', told: '${{ steps.tell }}' }
";

fn said(project: &Project, arguments: &[&str]) -> (Option<i32>, Value) {
    let said = project.command(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    let json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {said:?}"));
    (said.status.code(), json)
}

#[test]
fn a_declared_workflow_is_led_to_its_end_through_signals_timers_and_a_kill() {
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    let (code, validated) = said(&project, &["validate", "--json", "workflows/release.yaml"]);
    assert_eq!(code, Some(0), "{validated}");
    let mut server = project.serve();
    let arguments =
        json!({ "workflow_name": "release", "execution_id": "e", "inputs": { "tag": "v1" } });
    let first = server.begin_with(arguments);
    first.has_fields(json!({ "kind": "guidance", "agent_content": null }));
    says(&first["instructions"], "Build v1.");
    let second = server.hand_in(&first["new_token"], json!({ "ok": false }));
    second.has_fields(json!({ "step_name": "build", "visit": 2 }));
    let waits = server.hand_in(&second["new_token"], json!({ "ok": true }));
    waits.has_fields(json!({ "workflow_state": "running", "new_token": null }));
    says(&waits["message"], "execution.wait");
    let current = server.current("e");
    says(&current["message"], "waits for the signal 'go'");
    // The signal comes from outside, beside the running server.
    let (code, signalled) =
        said(&project, &["signal", "e", "go", "--payload", r#"{"by":"me"}"#, "--json"]);
    assert_eq!((code, &signalled["state"]), (Some(0), &json!("running")));
    server.kill();
    let mut server = project.serve();
    let step = eventually("the timer", || {
        let current = server.current("e");
        (current["current_step"] == "tell").then_some(current)
    });
    assert_eq!(step["input"], json!({ "tag": "v1", "by": "me" }));
    says(&step["instructions"], "`announce`");
    let last = server.hand_in(&step["continuation_token"], "told");
    last.has_fields(json!({ "final_output": { "tag": "v1", "tries": 2, "told": "told" } }));
    let status = server.status("e");
    status.has_fields(json!({ "state": "completed", "final_output": last["final_output"] }));
    let history = server.history("e");
    let path: Vec<_> = history
        .iter()
        .map(|row| format!("{} {}", row["step_name"].as_str().unwrap(), row["visit"]))
        .collect();
    assert_eq!(
        path,
        [
            "build 1", "count 1", "again 1", "build 2", "count 2", "again 2", "word 1", "pause 1",
            "tell 1"
        ]
    );
    let refused =
        server.refused("execution.signal", json!({ "execution_id": "e", "signal": "go" }));
    assert_eq!(refused["error_code"], "EXECUTION_FINISHED");
}
