//! Authors of manifests that extend others, over MCP and in the terminal.

use serde_json::{Value, json};

use super::{done, get, refused, validated};
use midex_test::{
    project::{Project, each, list},
    reader::{ERAS, Reader},
};

const BASE: &str = "workflow: base
description: Plan and do
steps:
  - { id: plan, guidance: Plan it }
  - { id: act, guidance: Do it }
";
const HEIR: &str = "workflow: heir
extends: base
description: Plan, check and do
insert:
  - { after: plan, steps: [{ id: check, guidance: Check it }] }
";

fn steps(client: &mut Reader, id: &str) -> Vec<String> {
    let plan = done(client, "workflow.step_plan", json!({ "workflow_id": id }));
    each(&list(&plan["steps"]), "step_id")
}

#[test]
fn a_base_that_is_saved_changes_its_heirs_at_once() {
    let project = Project::new(&[]);
    for (at, era) in ERAS.into_iter().enumerate() {
        let mut client = Reader::new(&project, era, "other", &[]);
        let mut save = |text: &str| {
            let text = text.replace("base", &format!("base{at}"));
            let text = text.replace("workflow: heir", &format!("workflow: heir{at}"));
            done(&mut client, "workflow.save", json!({ "manifest": text, "overwrite": true }));
        };
        save(BASE);
        save(HEIR);
        let (base, heir) = (format!("base{at}"), format!("heir{at}"));
        assert_eq!(steps(&mut client, &heir), ["plan", "check", "act"]);
        let got = get(&mut client, &heir);
        assert_eq!(got["parsed"]["extends"], base, "{got}");

        let longer = format!("{}  - {{ id: tell, guidance: Tell }}\n", BASE.replace("base", &base));
        let again = json!({ "manifest": longer, "overwrite": true });
        done(&mut client, "workflow.save", again);
        assert_eq!(steps(&mut client, &heir), ["plan", "check", "act", "tell"]);
        // The heir keeps its last good version, and says why.
        let gone = json!({ "workflow_id": base, "confirm": true });
        done(&mut client, "workflow.delete", gone);
        let got = get(&mut client, &heir);
        assert_eq!(got["findings"][0]["rule"], "unknown_base", "{got}");
        assert_eq!(got["findings"][0]["line"], 2);
    }
}

#[test]
fn texts_and_objects_are_told_the_same_of_what_they_extend() {
    let project = Project::new(&[("workflows/base.yaml", BASE)]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let wrong = json!({
        "workflow": "heir", "extends": "base", "description": "d", "remove": ["pln"],
        "insert": [{ "after": "act", "steps": [{ "id": "more", "guidence": "G" }] }],
    });
    let found = |client: &mut Reader, manifest: Value| {
        let checked = validated(client, &manifest);
        let violations = list(&checked["violations"]);
        let one = |one: &Value| format!("{} {}", one["rule"], one["path"]);
        violations.iter().map(one).collect::<Vec<_>>()
    };
    let expected =
        ["\"not_in_base\" \"remove[0]\"", "\"unknown_key\" \"insert[0].steps[0].guidence\""];
    for manifest in [wrong.clone(), json!(wrong.to_string()), json!(format!("{wrong:#}"))] {
        let mut found = found(&mut client, manifest);
        found.sort();
        assert_eq!(found, expected);
    }
    let refusal = refused(&mut client, "workflow.save", json!({ "manifest": wrong }));
    assert_eq!(refusal["error_code"], "WORKFLOW_VALIDATION_FAILED");
    assert_eq!(refusal["violations"][0].get("line"), None, "{refusal}");
}

#[test]
fn the_result_is_printed_and_validates_by_itself() {
    let project = Project::new(&[("workflows/base.yaml", BASE), ("workflows/heir.yaml", HEIR)]);
    let run = |arguments: &[&str]| {
        let output = project.command(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text, String::from_utf8(output.stderr).unwrap())
    };
    let (code, text, stderr) = run(&["validate", "--print", "heir"]);
    assert_eq!((code, &*stderr), (Some(0), ""), "{text}");
    let expected = "workflow: heir\ndescription: Plan, check and do\nsteps:\n";
    assert!(text.starts_with(expected), "{text}");
    project.write("alone/printed.yaml", &text);
    let (code, shown, _) = run(&["validate", "alone/printed.yaml"]);
    assert_eq!((code, &*shown), (Some(0), "1 file, no findings\n"));
    let (code, json, _) = run(&["validate", "--print", "heir", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, each(&list(&json["steps"]), "id").join(" ")),
        (Some(0), "plan check act".to_owned())
    );

    project.write("workflows/base.yaml", "workflow: base\n");
    let (code, text, stderr) = run(&["validate", "--print", "heir"]);
    assert_eq!((code, &*text), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("Workflow 'heir' has 1 finding"), "{stderr}");
    let (code, _, stderr) = run(&["validate", "--print", "hier"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("Workflow 'hier' not found"), "{stderr}");
}
