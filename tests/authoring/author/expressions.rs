//! Expressions and conditions as the tools of authors show them.

use serde_json::{Value, json};

use super::{done, reader, refused, validated};
use crate::corpus::edited;
use midex_test::project::{Project, each, list, text};
use midex_test::{has_fields, rows};

/// Inputs of every type, a step whose output nobody knows before it runs, and one that the server does itself.
const HEAD: &str = "\
workflow: w
description: d
inputs:
  name: { type: string }
  n: { type: integer }
  flag: { type: boolean }
  none: { type: string, optional: true }
  empty: { type: string }
  list: { type: array }
steps:
  - { id: before-it, guidance: '${{ inputs.none }}', result: { type: object, properties: { ok: {} } } }
  - id: keep
    set: { twice: '${{ inputs.n * 2 }}' }
";

/// The manifest whose third step has these lines.
fn third(lines: &str) -> String {
    format!("{HEAD}  - id: third\n    guidance: G\n{lines}")
}

fn given() -> Value {
    json!({ "name": "ann", "n": 4, "flag": false, "empty": "", "list": ["a", { "b": true }] })
}

fn quoted(value: &impl serde::Serialize) -> String {
    json!(value).to_string()
}

#[test]
fn a_template_is_rendered_with_its_type_and_what_is_not_known_is_left_and_named() {
    let project = Project::new(&[]);
    let mut client = reader(&project);
    let home = project.path("home").display().to_string();
    let known = [
        (json!("${{ inputs.name }}"), json!("ann")),
        (json!("${{ inputs.n }}"), json!(4)),
        (json!("${{ inputs.flag }}"), json!(false)),
        (json!("${{ inputs.empty }}"), json!("")),
        (json!("<${{ inputs.empty }}>"), json!("<>")),
        (json!("${{ inputs.list }}"), given()["list"].clone()),
        (json!("it is ${{ inputs.list }}"), json!("it is [\"a\",{\"b\":true}]")),
        (
            json!("${{ inputs.name }} has ${{ inputs.n }} in ${{ env.HOME }}"),
            json!(format!("ann has 4 in {home}")),
        ),
        (
            json!({ "deep": ["${{ inputs.list[0] }}", { "x": "${{ inputs.list.1.b }}" }] }),
            json!({ "deep": ["a", { "x": true }] }),
        ),
        (json!("${{ steps.keep.twice }}"), json!(8)),
        (json!("${{ steps.keep.output.twice }}"), json!(8)),
        (json!("${{ memory.twice }}"), json!(8)),
        (json!("{{ inputs.name }} $inputs.name"), json!("{{ inputs.name }} $inputs.name")),
    ];
    let unknown = [
        ("${{ steps.before-it.output.ok }}", "`steps.before-it.ok`: the step has not run yet"),
        (
            "${{ inputs.list[7] }}",
            "`inputs.list[7]` leads to nothing: `inputs.list` is a list of 2",
        ),
        ("${{ env.PATH }}", "the environment variable `PATH` is not set or not allowed"),
        ("${{ secrets.KEY }}", "there is no secret `KEY`"),
    ];
    let mut shown = |template: &Value| {
        let manifest = third(&format!("    with: {{ t: {} }}\n", quoted(template)));
        let arguments = json!({ "manifest": manifest, "inputs": given() });
        done(&mut client, "workflow.preview_rendered", arguments)["steps"][2].clone()
    };
    for (template, rendered) in known {
        let step = shown(&template);
        assert_eq!(step["rendered"]["with"]["t"], rendered, "{template}");
        assert_eq!(step["unresolved"], json!([]), "{template}");
    }
    for (template, why) in unknown {
        let step = shown(&json!(template));
        let unresolved = json!([{ "path": "with.t", "expression": template, "why": why }]);
        assert_eq!(step["rendered"]["with"]["t"], json!(template));
        assert_eq!(step["unresolved"], unresolved);
    }
}

#[test]
fn a_condition_says_whether_its_step_runs_as_far_as_that_is_known() {
    let project = Project::new(&[]);
    let mut client = reader(&project);
    let unknown = json!("unknown");
    for (condition, will_run) in [
        ("inputs.name == 'ann'", json!(true)),
        ("inputs.name == \"ann\"", json!(true)),
        ("inputs.name != 'bob'", json!(true)),
        ("${{ inputs.name == 'ann' }}", json!(true)),
        ("inputs.flag", json!(false)),
        ("not inputs.flag", json!(true)),
        ("inputs.n", json!(true)),
        ("inputs.empty", json!(false)),
        ("inputs.list", json!(true)),
        ("inputs.flag or inputs.n == 4", json!(true)),
        ("inputs.name == 'ann' and not (inputs.flag or inputs.n < 4)", json!(true)),
        ("inputs.name in ['ann', 'bob']", json!(true)),
        ("'b' in inputs.list", json!(false)),
        ("inputs.n == -4", json!(false)),
        ("inputs.n > -0.5 and inputs.n < 4.5", json!(true)),
        ("inputs.list[0] == 'a' and inputs.list.0 == 'a'", json!(true)),
        ("inputs.list[1].b", json!(true)),
        ("inputs.name == 'größe 🦀 === && steps.nobody.x'", json!(false)),
        ("inputs.none == null", json!(true)),
        ("inputs.none", json!(false)),
        ("steps.keep.output.twice == 8", json!(true)),
        ("steps.before-it.ok", unknown.clone()),
        ("steps.before-it.output.ok", unknown.clone()),
        ("inputs.list[7]", unknown),
    ] {
        for key in ["if", "when"] {
            let manifest = third(&format!("    {key}: {}\n", quoted(&condition)));
            let arguments = json!({ "manifest": manifest, "inputs": given() });
            let plan = done(&mut client, "workflow.step_plan", arguments);
            let step = &plan["steps"][2];
            assert_eq!(step["will_run"], will_run, "{condition}: {step}");
            assert!(!text(&step["why"]).is_empty(), "{step}");
        }
    }
    // One that cannot be asked fails its step, and the plan says which and why.
    let manifest = third("    if: inputs.list[7]\n");
    let plan =
        done(&mut client, "workflow.step_plan", json!({ "manifest": manifest, "inputs": given() }));
    let why = "it fails as it is entered: `inputs.list[7]` leads to nothing: `inputs.list` is a list of 2 in `inputs.list[7]`";
    assert_eq!(plan["steps"][2]["why"], why);
}

#[test]
fn a_condition_of_another_language_is_refused_at_its_place_with_what_to_write() {
    let project = Project::new(&[]);
    let mut client = reader(&project);
    for [condition, rule, meant] in rows(
        r#"
        "inputs.name === 'ann'", "ill_formed_expression", "inputs.name == 'ann'"
        "inputs.name = 'ann'", "ill_formed_expression", "inputs.name == 'ann'"
        "inputs.flag && inputs.n", "ill_formed_expression", "inputs.flag and inputs.n"
        "inputs.flag || inputs.n", "ill_formed_expression", "inputs.flag or inputs.n"
        "!inputs.flag", "ill_formed_expression", "(not inputs.flag)"
        "['a'].includes(inputs.name)", "ill_formed_expression", "(inputs.name in ['a'])"
        "inputs.list.includes('a')", "ill_formed_expression", "('a' in inputs.list)"
        "missing(inputs.none)", "ill_formed_expression", ""
        "inputs.name == 'größe", "ill_formed_expression", ""
        "inputs.n <> 4", "ill_formed_expression", ""
        "output.ok", "unknown_reference", ""
        "steps.nobody.ok", "unknown_reference", ""
        "inputs.nobody", "unknown_reference", ""
        "steps.third.ok", "reference_too_early", ""
        "", "empty_value", ""
        "#,
    ) {
        let manifest = third(&format!("    if: {}\n", quoted(&condition)));
        let checked = validated(&mut client, &manifest);
        let violations = list(&checked["violations"]);
        assert_eq!(each(&violations, "rule"), [rule], "{condition}: {violations:?}");
        let violation = &violations[0];
        has_fields(violation, json!({ "path": "steps[2].if", "line": 16 }));
        let edits = violation["suggestion"].get("edits").cloned().unwrap_or(json!([]));
        if !meant.is_empty() {
            let mended = edited(&manifest, serde_json::from_value(edits).unwrap());
            let meant = format!("    if: {}\n", quoted(&meant));
            assert!(mended.ends_with(&meant), "{condition}: {mended}");
        }
        // Whoever runs it is told the same, in the same words.
        let refusal = refused(
            &mut client,
            "workflow.run",
            json!({ "manifest": manifest, "inputs": given() }),
        );
        let told = &refusal["violations"][0];
        for field in ["path", "rule", "message", "line", "column", "suggestion"] {
            assert_eq!(told[field], violation[field], "{field} of {refusal}");
        }
    }
}
