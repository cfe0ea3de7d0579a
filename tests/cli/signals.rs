//! Signals that say more than that something happened: a failure, or that the sender is still at work.

use serde_json::{Value, json};

use midex_test::{Client, Shows, project::Project};

const CHARGE: &str = "workflow: charge
description: Wait for a worker, and tell what came of it
steps:
  - { id: charged, title: 'card of ${{ inputs.who }}', wait: { signal: charged, alive: 1h }, on_error: told, next: $stop }
  - { id: told, run_when: failed, set: { why: '${{ steps.charged.error.code }}' } }
final_output: { why: '${{ memory.why }}', long: '${{ inputs.long }}' }
";

#[test]
fn a_failed_signal_leads_to_the_handler_and_a_sign_of_life_puts_that_off() {
    let project = Project::new(&[("workflows/charge.yaml", CHARGE)]);
    let mut server = project.serve();
    let inputs = json!({ "who": "Ann", "long": vec!["x".repeat(1000); 100] });
    server.begin_with(json!({ "workflow_name": "charge", "execution_id": "c", "inputs": inputs }));
    let run = |args: &str| {
        let ran = project.command(args).output().unwrap();
        (String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr)).into_owned()
    };
    run("show c --visits")
        .shows("charged (card of Ann) waits for the signal 'charged', and for a sign of life");
    let mut due = || server.status("c")["waits"][0]["due"].clone();
    let before = due();
    run("signal c charged --alive").shows("waits for the signal 'charged' until");
    assert!(due().as_str() > before.as_str());
    run("signal c other --alive").shows("No step of execution 'c' waits for signs of life");
    run("signal c charged --alive --payload 1").shows("cannot be used with");

    run("signal c charged --error CARD_DECLINED:no-funds").shows("The execution is completed");
    let status = server.status("c");
    assert_eq!(status["final_output"]["why"], "CARD_DECLINED");
    assert_eq!(status["final_output_truncated"], true);
    let uri = status["final_output_uri"].as_str().unwrap().to_owned();
    let whole = server.read(&uri);
    assert_eq!(whole["long"].as_array().map(Vec::len), Some(100));
    let shown: Value = serde_json::from_str(&run("show c --json")).unwrap();
    assert_eq!(shown["final_output"], whole);
    assert_eq!(shown["history"][0]["title"], "card of Ann");
}
