//! Sessions that many clients lead through the tools of a workflow, while the server is killed.

use serde_json::json;

use super::callers::{Caller, lead_while_killed};
use midex_test::long;

const NOTES: &str = "workflow: notes
description: Takes three notes
inputs: { topic: { type: string, example: rain } }
expose: { tools: true }
steps:
  - { id: one, guidance: 'Note on ${{ inputs.topic }}.', result: { type: string } }
  - { id: two, guidance: Another one., result: { type: string } }
  - { id: three, guidance: A last one., result: { type: string } }
final_output: '${{ inputs.topic }}: ${{ steps.one.output }} ${{ steps.two.output }} ${{ steps.three.output }}'
";

/// Leads a session to its end. A repeated call gets the answer of the first one, so each step is done once.
fn lead_session(caller: &Caller, number: usize) {
    let topic = format!("topic {number}");
    let mut last = caller.call("notes_start", &json!({ "topic": topic }));
    let session = last["sessionId"].clone();
    for (number, step) in ["one", "two", "three"].into_iter().enumerate() {
        assert_eq!(last["nextActivity"], step, "{last}");
        assert_eq!(last["progress"], json!({ "current": number, "total": 3 }), "{last}");
        let result = format!("{topic}/{step}");
        let arguments = json!({ "sessionId": session, "token": last["token"], "result": result });
        last = caller.call("notes_continue", &arguments);
        assert_eq!(last["sessionId"], session);
        assert_eq!(last["stepResult"], result, "{last}");
    }
    let results = format!("{topic}: {topic}/one {topic}/two {topic}/three");
    assert_eq!((&last["status"], &last["results"]), (&json!("completed"), &json!(results)));
    let read = caller.call("notes_status", &json!({ "sessionId": session }));
    assert_eq!(read["results"], results);
}

#[test]
fn no_session_is_lost_or_mixed_up_while_the_server_is_killed_twice() {
    let clients = usize::try_from(long::rounds(8, 50)).unwrap();
    let sessions = usize::try_from(long::rounds(96, 1_000)).unwrap();
    lead_while_killed(NOTES, (sessions, clients, 2), lead_session);
}
