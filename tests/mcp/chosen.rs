//! A child that an expression chooses when its step begins.

use serde_json::{Value, json};

use midex_test::{Client, Shows, project::Project, project::text};

const ONE: &str = "workflow: one\ndescription: d\ninputs: { n: { type: integer } }\nsteps:\n  - { id: keep, set: { n: '${{ inputs.n + 1 }}' } }\nfinal_output: { n: '${{ memory.n }}' }\n";

fn chooser(allow: &str) -> String {
    format!(
        "workflow: chooser\ndescription: d\ninputs: {{ which: {{ type: string }}, values: {{ type: object }} }}\nsteps:\n  - id: all\n    workflow: ${{{{ inputs.which }}}}\n    allow: {allow}\n    with: ${{{{ inputs.values }}}}\nfinal_output: ${{{{ steps.all }}}}\n"
    )
}

fn run(allow: &str, which: &str, values: Value) -> Value {
    let two = ONE.replace("workflow: one", "workflow: two").replace("+ 1", "+ 2");
    let files = [
        ("workflows/one.yaml", ONE),
        ("workflows/two.yaml", &two),
        ("workflows/chooser.yaml", &chooser(allow)),
    ];
    let project = Project::new(&files);
    let mut server = project.serve();
    let inputs = json!({ "which": which, "values": values });
    let run = json!({ "workflow_id": "chooser", "inputs": inputs });
    server.call("workflow.run", run)["structuredContent"].clone()
}

#[test]
fn an_expression_chooses_among_the_workflows_that_are_allowed() {
    for (allow, which, sum) in
        [("[one, two]", "one", 2), ("[one, two]", "two", 3), ("['*']", "two", 3)]
    {
        let ran = run(allow, which, json!({ "n": 1 }));
        assert_eq!(ran["final_output"], json!({ "n": sum }), "{ran}");
    }
    let refused = run("[one]", "two", json!({ "n": 1 }));
    assert_eq!(refused["context"]["failure_code"], "CHILD_NOT_ALLOWED", "{refused}");
    text(&refused["message"]).shows("\"two\"; it may choose [\"one\"]");
}

#[test]
fn the_inputs_of_a_chosen_child_are_checked_when_it_begins() {
    let refused = run("[one]", "one", json!({ "n": "x" }));
    assert_eq!(refused["context"]["failure_code"], "INPUTS_INVALID", "{refused}");
    let refused = run("['*']", "none", json!({ "n": 1 }));
    assert_eq!(refused["context"]["failure_code"], "WORKFLOW_NOT_FOUND", "{refused}");
}

#[test]
fn what_cannot_be_chosen_is_a_finding() {
    let project = Project::new(&[("workflows/one.yaml", ONE)]);
    let mut server = project.serve();
    for (old, new, rule, words) in [
        ("    allow: [one]\n", "", "not_a_template", "allow"),
        ("${{ inputs.which }}", "one", "not_a_template", "allow"),
        ("[one]", "[nowhere]", "unknown_workflow", "nowhere"),
        ("${{ inputs.values }}", "all", "wrong_type", "a mapping"),
        (
            "workflow: ${{ inputs.which }}\n    allow: [one]",
            "guidance: T",
            "not_a_template",
            "all its values from one",
        ),
    ] {
        let manifest = chooser("[one]");
        assert!(manifest.contains(old), "{old}");
        let manifest = manifest.replace(old, new);
        let report = server.done("workflow.validate", json!({ "manifest": manifest }));
        let findings = [&report["violations"][0], &report["warnings"][0]];
        let violation =
            findings.into_iter().find(|finding| finding.is_object()).expect("a finding");
        assert_eq!(violation["rule"], rule, "{report}");
        text(&violation["message"]).shows(words);
    }
}
