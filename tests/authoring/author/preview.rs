//! What an execution would be, before there is one.

use serde_json::{Value, json};

use super::{TRIAGE, clients, done, refused};
use midex_test::{
    Client, Server,
    project::{Project, each, list},
    reader::{ERAS, Reader},
};

/// A workflow whose ways depend on its inputs, on what steps bring, and on both.
const RELEASE: &str = "\
workflow: release
description: Release a version
inputs:
  version: { type: string, validate: { pattern: '^v[0-9]+' } }
  channel: { type: string, enum: [stable, beta], default: { from: literal, value: stable } }
  notes: { type: string, optional: true }
steps:
  - id: check
    guidance: Check ${{ inputs.version }} for ${{ inputs.channel }}.
    result: { type: object, required: [ok], properties: { ok: { type: boolean } } }
  - id: mark
    set: { tag: '${{ inputs.version }}-${{ inputs.channel }}' }
  - id: announce
    if: inputs.channel == 'stable'
    guidance: Announce ${{ memory.tag }}.
  - id: quiet
    if: inputs.channel == 'beta'
    guidance: Tell the testers.
  - id: mend
    if: not steps.check.ok
    guidance: Mend ${{ steps.check.ok }} of ${{ inputs.version }}.
final_output: { tag: '${{ memory.tag }}', ok: '${{ steps.check.ok }}' }
";

#[test]
fn inputs_are_shown_with_their_rules_and_where_their_values_come_from() {
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    for client in &mut clients(&project) {
        for subject in [json!({ "workflow_id": "release" }), json!({ "manifest": RELEASE })] {
            let shown = done(client, "workflow.preview_inputs", subject);
            assert_eq!(
                (&shown["workflow_id"], &shown["required"]),
                (&json!("release"), &json!(["version"]))
            );
            let inputs = list(&shown["inputs"]);
            assert_eq!(each(&inputs, "source"), ["caller", "literal", "none"]);
            assert_eq!(inputs[0]["rules"]["pattern"], "^v[0-9]+");
            assert_eq!(
                (&inputs[1]["type"], &inputs[1]["default"]["value"]),
                (&json!("string"), &json!("stable"))
            );
        }
    }
}

#[test]
fn inputs_are_ready_only_where_nothing_is_missing_or_wrong() {
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    for client in &mut clients(&project) {
        for (inputs, ready, statuses) in [
            (json!({ "version": "v2" }), true, ["given", "defaulted", "optional"]),
            (
                json!({ "version": "v2", "channel": "beta", "notes": "n" }),
                true,
                ["given", "given", "given"],
            ),
            (json!({}), false, ["missing", "defaulted", "optional"]),
            (json!({ "version": "2" }), false, ["invalid", "defaulted", "optional"]),
            (
                json!({ "version": "v2", "channel": "gamma" }),
                false,
                ["given", "invalid", "optional"],
            ),
            (
                json!({ "version": "v2", "chanel": "beta" }),
                false,
                ["given", "defaulted", "optional"],
            ),
        ] {
            let arguments = json!({ "workflow_id": "release", "inputs": inputs });
            let resolved = done(client, "workflow.resolve_inputs", arguments);
            assert_eq!(resolved["ready"], ready, "{resolved}");
            assert_eq!(each(&list(&resolved["inputs"]), "status"), statuses, "{resolved}");
            assert_eq!(list(&resolved["violations"]).is_empty(), ready, "{resolved}");
            assert_eq!(resolved["provider_resolutions"], json!([]));
        }
        let none = done(client, "workflow.resolve_inputs", json!({ "workflow_id": "release" }));
        assert_eq!(none["required_missing"], json!(["version"]));
        assert_eq!(none["defaults"], json!({ "channel": "stable" }));
        assert_eq!(none["resolved_inputs"], json!({ "channel": "stable", "notes": null }));
        assert_eq!(none["violations"][0]["path"], "inputs.version");
    }
}

#[test]
fn a_plan_says_what_would_run_and_why() {
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    for client in &mut clients(&project) {
        let arguments = json!({ "manifest": RELEASE, "inputs": { "version": "v2" } });
        let plan = done(client, "workflow.step_plan", arguments);
        let steps = list(&plan["steps"]);
        assert_eq!(each(&steps, "step_id"), ["check", "mark", "announce", "quiet", "mend"]);
        let will_run: Vec<_> = steps.iter().map(|step| &step["will_run"]).collect();
        assert_eq!(json!(will_run), json!([true, true, true, false, "unknown"]), "{plan}");
        let waves: Vec<_> = steps.iter().map(|step| &step["wave"]).collect();
        assert_eq!(json!(waves), json!([1, 2, 3, 4, 5]));
        assert_eq!(
            (&steps[1]["kind"], &steps[1]["depends_on"]),
            (&json!("set"), &json!(["check"]))
        );
        assert_eq!(steps[3]["why"], "its condition does not hold");
        assert_eq!(
            steps[4]["why"],
            "its condition is not known: `steps.check.ok`: the step has not run yet"
        );
        assert_eq!(steps[4]["condition"], "not steps.check.ok");

        let beta = json!({ "workflow_id": "release", "inputs": { "channel": "beta" } });
        let beta = list(&done(client, "workflow.step_plan", beta)["steps"]);
        assert_eq!((&beta[2]["will_run"], &beta[3]["will_run"]), (&json!(false), &json!(true)));
    }
}

#[test]
fn steps_are_rendered_as_they_would_be_entered_and_nothing_begins() {
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    for client in &mut clients(&project) {
        let arguments = json!({ "workflow_id": "release", "inputs": { "version": "v2" } });
        let shown = done(client, "workflow.preview_rendered", arguments);
        let steps = list(&shown["steps"]);
        assert_eq!(steps[0]["rendered"]["guidance"], "Check v2 for stable.");
        assert_eq!(steps[1]["rendered"]["set"], json!({ "tag": "v2-stable" }));
        assert_eq!(steps[2]["rendered"]["guidance"], "Announce v2-stable.");
        assert_eq!(steps[4]["rendered"]["guidance"], "Mend ${{ steps.check.ok }} of v2.");
        assert_eq!(
            steps[4]["unresolved"],
            json!([{ "path": "guidance", "expression": "${{ steps.check.ok }}", "why": "`steps.check.ok`: the step has not run yet" }])
        );
        assert_eq!(
            shown["final_output"],
            json!({ "tag": "v2-stable", "ok": "${{ steps.check.ok }}" })
        );
        assert_eq!(shown["final_output_unresolved"][0]["path"], "ok");
        let open = done(client, "execution.list", json!({}));
        assert_eq!(open["executions"], json!([]));

        let without =
            done(client, "workflow.preview_rendered", json!({ "workflow_id": "release" }));
        let mark = &without["steps"][1];
        assert_eq!(mark["unresolved"][0]["path"], "set.tag", "{without}");
        assert_eq!(mark["unresolved"].as_array().unwrap().len(), 1);
    }
}

/// A loop beside a step may have gone round any number of times before the step is entered.
#[test]
fn what_a_loop_beside_a_step_changes_is_not_known() {
    let text = "\
workflow: w
description: d
memory: { rounds: 0 }
steps:
  - id: talk
    depends_on: []
    guidance: Talk.
  - id: count
    depends_on: []
    set: { rounds: '${{ memory.rounds + 1 }}' }
  - id: tell
    depends_on: [talk, count]
    guidance: There were ${{ memory.rounds }} rounds.
  - id: again
    depends_on: [count]
    branch: [{ if: memory.rounds < 3, next: count }, { next: last }]
  - id: last
    depends_on: [again]
    guidance: There were ${{ memory.rounds }} rounds in all.
";
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let manifest = json!({ "manifest": text });
    let shown = done(&mut client, "workflow.preview_rendered", manifest);
    assert_eq!(
        shown["steps"][2]["unresolved"][0]["why"],
        "`memory.rounds`: step `count` may change it before or after",
        "{shown}"
    );
    assert_eq!(shown["steps"][4]["rendered"]["guidance"], "There were 3 rounds in all.");
}

#[test]
fn what_may_have_run_in_an_earlier_round_is_not_said_to_be_passed() {
    let text = "\
workflow: w
description: d
steps:
  - { id: mend, guidance: Mend., run_when: failed, next: $end }
  - { id: first, depends_on: [mend], if: run.visits.mend < 1, guidance: Begin. }
  - { id: work, depends_on: [], guidance: Work., next: mend }
";
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let plan = done(&mut client, "workflow.step_plan", json!({ "manifest": text }));
    assert_eq!(plan["steps"][1]["will_run"], "unknown", "{plan}");
}

#[test]
fn a_secret_is_a_placeholder_and_an_environment_is_the_callers() {
    let text = "\
workflow: w
description: d
steps:
  - id: a
    guidance: Use ${{ env.MIDEX_TEST_SHOWN }}.
    with: { key: '${{ secrets.MIDEX_TEST_KEY }}' }
";
    let project = Project::new(&[]);
    let mut command = project.command(&["serve", "--allow-env", "MIDEX_TEST_SHOWN"]);
    command
        .env("MIDEX_TEST_SHOWN", "shown")
        .env("MIDEX_TEST_KEY", "canary")
        .env("MIDEX_SECRET_ENV", "MIDEX_TEST_KEY");
    let mut server = Server::run(command);
    server.shake_hands();
    let shown = server.done("workflow.preview_rendered", json!({ "manifest": text }));
    let rendered = &shown["steps"][0]["rendered"];
    assert_eq!(rendered["guidance"], "Use shown.", "{shown}");
    assert_eq!(rendered["with"]["key"], "${secret:MIDEX_TEST_KEY}");
    assert!(!shown.to_string().contains("canary"));
}

/// The text of a step as it is entered is that of its preview.
#[test]
fn what_is_entered_is_what_was_shown() {
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let inputs = json!({ "version": "v2" });
    let shown = done(
        &mut client,
        "workflow.preview_rendered",
        json!({ "workflow_id": "release", "inputs": inputs }),
    );
    let start = json!({ "workflow_name": "release", "inputs": inputs });
    let mut reply = done(&mut client, "workflow.start", start);
    for (position, output) in [(0, json!({ "ok": true })), (2, json!({ "summary": "s" }))] {
        let words = shown["steps"][position]["rendered"]["guidance"].as_str().unwrap();
        assert!(reply["instructions"].as_str().unwrap().contains(words), "{reply}");
        let next = json!({ "token": reply["new_token"], "output": output });
        reply = done(&mut client, "workflow.next_step", next);
    }
    assert_eq!(reply["final_output"], json!({ "tag": "v2-stable", "ok": true }), "{reply}");
}

#[test]
fn a_definition_with_violations_has_no_preview() {
    let wrong = TRIAGE.replace("guidance:", "guidence:");
    let project = Project::new(&[("workflows/triage.yaml", &wrong)]);
    for client in &mut clients(&project) {
        for tool in ["preview_inputs", "resolve_inputs", "step_plan", "preview_rendered", "run"] {
            for subject in [json!({ "workflow_id": "triage" }), json!({ "manifest": wrong })] {
                let refused = refused(client, &format!("workflow.{tool}"), subject);
                assert_eq!(refused["error_code"], "WORKFLOW_VALIDATION_FAILED", "{refused}");
                assert_eq!(list(&refused["violations"]).len(), 2, "{refused}");
                let context = &refused["context"];
                assert_eq!(
                    (&context["workflow_id"], &context["line"]),
                    (&json!("triage"), &json!(9)),
                    "{refused}"
                );
            }
        }
    }
}

#[test]
fn a_manifest_that_cannot_be_read_has_no_name_and_was_not_judged() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[1], "other", &[]);
    let refused = refused(&mut client, "workflow.run", json!({ "manifest": "steps: [" }));
    assert_eq!(refused["message"], "The manifest has 1 finding", "{refused}");
    assert_eq!(refused["failure_stage"], "parse");
}

#[test]
fn a_workflow_is_run_as_far_as_the_server_can_and_a_lent_one_is_kept() {
    let server_alone = "\
workflow: quick
description: d
inputs: { n: { type: integer } }
steps:
  - id: pause
    wait: { for: 100ms }
  - id: keep
    set: { twice: '${{ inputs.n * 2 }}' }
final_output: { twice: '${{ memory.twice }}' }
";
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    for client in &mut clients(&project) {
        let ran =
            done(client, "workflow.run", json!({ "manifest": server_alone, "inputs": { "n": 4 } }));
        assert_eq!(
            (&ran["status"], &ran["state"]),
            (&json!("succeeded"), &json!("completed")),
            "{ran}"
        );
        assert_eq!((&ran["final_output"], &ran["waits"]), (&json!({ "twice": 8 }), &json!([])));
        assert_eq!(ran["run_id"], ran["execution_id"]);

        let ran = done(
            client,
            "workflow.run",
            json!({ "workflow_id": "release", "inputs": { "version": "v1" } }),
        );
        assert_eq!(ran["status"], "running", "{ran}");
        let token = &ran["awaiting"]["continuation_token"];
        let next = json!({ "token": token, "output": { "ok": true } });
        assert_eq!(done(client, "workflow.next_step", next)["success"], true);

        let long = server_alone.replace("100ms", "1h");
        let ran = done(
            client,
            "workflow.run",
            json!({ "manifest": long, "inputs": { "n": 1 }, "wait_s": 0 }),
        );
        assert_eq!(
            (&ran["status"], &ran["waits"][0]["waits_for"]),
            (&json!("running"), &json!("timer")),
            "{ran}"
        );

        let fails = server_alone.replace(
            "set: { twice: '${{ inputs.n * 2 }}' }",
            "fail: { code: ODD, message: 'not ${{ inputs.n }}' }",
        );
        let fails = fails.replace("final_output: { twice: '${{ memory.twice }}' }\n", "");
        let failed =
            refused(client, "workflow.run", json!({ "manifest": fails, "inputs": { "n": 3 } }));
        assert_eq!(
            (&failed["error_code"], &failed["step_id"], &failed["context"]["failure_code"]),
            (&json!("RUN_FAILED"), &json!("keep"), &json!("ODD")),
            "{failed}"
        );
        assert!(failed["message"].as_str().unwrap().contains("not 3"), "{failed}");

        let refused = refused(
            client,
            "workflow.run",
            json!({ "manifest": server_alone, "inputs": { "n": "x" } }),
        );
        assert_eq!(refused["error_code"], "INPUTS_INVALID", "{refused}");
    }
    let files: Vec<_> = std::fs::read_dir(project.path("workflows")).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing was written");
}

#[test]
fn commands_are_the_workflows_and_nothing_provides_values_yet() {
    let project = Project::new(&[("workflows/release.yaml", RELEASE)]);
    for client in &mut clients(&project) {
        let commands = done(client, "command.list", json!({ "query": "release a version" }));
        let commands = list(&commands["commands"]);
        let [command] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(command["id"], "workflow release");
        assert_eq!(
            (&command["execution_type"], &command["http_method"]),
            (&json!("workflow"), &Value::Null)
        );
        assert_eq!((&command["class"], &command["body"]), (&json!("standard"), &Value::Null));
        assert_eq!(each(&list(&command["arguments"]), "name"), ["version", "channel", "notes"]);
        assert_eq!(command["arguments"][0]["required"], true);
        let providers = done(client, "provider.list", json!({}));
        assert_eq!(providers["providers"], json!([]));
    }
}

#[test]
fn what_stands_behind_a_step_whose_failure_leads_elsewhere_is_not_sure_to_run() {
    let manifest = "workflow: w
description: d
steps:
  - { id: first, guidance: F. }
  - { id: look, guidance: L., on_error: mend }
  - { id: fine, guidance: G., next: $end }
  - { id: mend, guidance: M., run_when: failed }
";
    let project = Project::new(&[]);
    for client in &mut clients(&project) {
        let plan = done(client, "workflow.step_plan", json!({ "manifest": manifest }));
        let steps = list(&plan["steps"]);
        let will_run: Vec<_> = steps.iter().map(|step| &step["will_run"]).collect();
        assert_eq!(json!(will_run), json!([true, true, "unknown", "unknown"]), "{plan}");
        assert_eq!(steps[2]["why"], "it depends on whether step `look` fails");
    }
}

#[test]
fn a_run_tells_its_state_in_the_words_of_runs_and_what_of_its_output_is_missing() {
    let manifest = "workflow: w
description: d
inputs: { people: { type: integer, example: 0 } }
steps:
  - { id: read, set: { a: 1 } }
final_output: { each: '${{ 1 / inputs.people }}' }
";
    let gated = "workflow: g\ndescription: d\nsteps:\n  - { id: ask, gate: Fine? }\n";
    let waiting = "workflow: m\ndescription: d\nsteps:\n  - { id: ask, guidance: A. }\n";
    let project = Project::new(&[]);
    for client in &mut clients(&project) {
        let run = |client: &mut _, manifest: &str, inputs: Value| {
            done(
                client,
                "workflow.run",
                json!({ "manifest": manifest, "inputs": inputs, "wait_s": 5 }),
            )
        };
        let ran = run(client, manifest, json!({ "people": 0 }));
        assert_eq!(ran["status"], "succeeded", "{ran}");
        assert_eq!(ran["final_output_error"][0]["part"], "each", "{ran}");
        let ran = run(client, gated, json!({}));
        assert_eq!((&ran["status"], &ran["state"]), (&json!("running"), &json!("paused")), "{ran}");
        assert_eq!(ran["waits"][0]["waits_for"], "gate", "{ran}");
        let ran = run(client, waiting, json!({}));
        assert_eq!(ran["status"], "running", "{ran}");
        assert_eq!(ran["awaiting"]["current_step"], "ask", "{ran}");
    }
}
