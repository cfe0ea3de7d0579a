//! `workflow.validate`.

use serde_json::{Value, json};

use super::{TRIAGE, clients, done, refused, validated};
use midex_test::{
    has_fields,
    project::{Project, each, list},
    reader::{ERAS, Reader},
};

/// A manifest with three mistakes and a warning.
const WRONG: &str = "\
workflow: wrong
inputs:
  report: { type: strin }
steps:
  - id: read
    guidance: Read ${{ inputs.reprot }}.
    depend_on: []
";

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place_and_its_edit() {
    let project = Project::new(&[("workflows/wrong.yaml", WRONG)]);
    for client in &mut clients(&project) {
        for subject in [json!({ "manifest": WRONG }), json!({ "workflow_id": "wrong" })] {
            let checked = done(client, "workflow.validate", subject);
            has_fields(&checked, json!({ "valid": false, "workflow_id": "wrong" }));
            let violations = list(&checked["violations"]);
            let found: Vec<_> = violations
                .iter()
                .map(|one| {
                    format!("{}:{} {} {}", one["line"], one["column"], one["rule"], one["path"])
                })
                .collect();
            assert_eq!(
                found,
                [
                    "3:19 \"unknown_value\" \"inputs.report.type\"",
                    "6:24 \"unknown_reference\" \"steps[0].guidance\"",
                    "7:5 \"unknown_key\" \"steps[0].depend_on\"",
                ],
                "{checked}"
            );
            for violation in &violations {
                assert!(!list(&violation["suggestion"]["edits"]).is_empty(), "{violation}");
            }
            assert_eq!(checked["warnings"][0]["rule"], "missing_description");
        }
    }
}

#[test]
fn a_manifest_comes_as_yaml_json_markdown_or_an_object() {
    let document: Value = json!({
        "workflow": "triage", "description": "Sort a bug report", "steps": [{ "id": "read", "guidance": "Read it." }]
    });
    let markdown = midex_test::project::workflow("triage", &[("a", "reviewer", &[])]);
    let started = format!("---\n{TRIAGE}");
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    for manifest in [
        json!(TRIAGE),
        json!(started),
        json!(document.to_string()),
        document.clone(),
        json!(markdown),
        json!(format!("\u{feff}{TRIAGE}")),
        json!(TRIAGE.replace('\n', "\r\n")),
    ] {
        let checked = validated(&mut client, &manifest);
        let sound = (&checked["valid"], &checked["workflow_id"], &checked["violations"]);
        assert_eq!(sound, (&json!(true), &json!("triage"), &json!([])), "{checked}");
    }
    // A text that could be either is read as it is told.
    let told = json!({ "manifest": document.to_string(), "format": "yaml" });
    assert_eq!(done(&mut client, "workflow.validate", told)["valid"], true);

    let mut wrong = document;
    wrong["steps"][0]["prompt"] = wrong["steps"][0]["guidance"].take();
    wrong["steps"][0].as_object_mut().unwrap().remove("guidance");
    let checked = validated(&mut client, &wrong);
    let violation = &checked["violations"][0];
    assert_eq!(violation["path"], "steps[0].prompt", "{checked}");
    assert_eq!(violation.get("line"), None, "{checked}");
    assert_eq!(violation["suggestion"]["edits"], json!([]));
    // A refusal names no lines of it either.
    for tool in ["workflow.save", "workflow.run", "workflow.step_plan"] {
        let refusal = refused(&mut client, tool, json!({ "manifest": wrong }));
        let (told, context) = (&refusal["violations"][0], &refusal["context"]);
        assert_eq!(told["path"], "steps[0].prompt", "{refusal}");
        assert_eq!(told.get("line"), None, "{refusal}");
        assert_eq!(context.get("line"), None, "{refusal}");
        assert_eq!(told["suggestion"]["edits"], json!([]));
    }
}

#[test]
fn exactly_one_of_a_manifest_and_a_name_is_taken() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[1], "other", &[]);
    for (arguments, path) in
        [(json!({}), ""), (json!({ "manifest": TRIAGE, "workflow_id": "bug-fix" }), "/workflow_id")]
    {
        let refused = refused(&mut client, "workflow.validate", arguments);
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID");
        let violation = &refused["violations"][0];
        has_fields(violation, json!({ "path": path, "rule": "oneOf" }));
    }
}

#[test]
fn texts_that_are_no_manifest_at_all_are_told_so_in_few_words() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let large = format!("workflow: w\ndescription: {}\n", "x".repeat(2 << 20));
    let tabs = "workflow: w\nsteps:\n\t- id: a\n";
    for (manifest, rules) in [
        ("", "missing_key missing_key"),
        ("\0", "syntax"),
        ("[1, 2]", "wrong_type"),
        ("{\"workflow\":", "syntax"),
        (tabs, "syntax"),
        (&large, "file_too_large"),
    ] {
        let checked = validated(&mut client, &manifest);
        let found = each(&list(&checked["violations"]), "rule").join(" ");
        let shown: String = manifest.chars().take(20).collect();
        assert_eq!(found, rules, "{shown:?}: {checked}");
        assert_eq!(checked["valid"], false);
        assert_eq!(checked["workflow_id"], Value::Null);
    }
}
