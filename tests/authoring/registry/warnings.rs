//! Warnings: what an author should know of, and what keeps nobody from starting the workflow.

use midex_cli::{
    Output,
    validate::{ValidateArgs, validate},
};
use midex_domain::{
    finding::{Rule, Severity, sort_and_limit},
    limits,
};
use midex_registry::check_text;

use super::*;
use midex_test::{assert_has, has_fields, rows};

/// A workflow without a description.
const SILENT: &str = "workflow: w\nsteps:\n  - {id: a, agent: reviewer}\n";

/// What `midex validate` writes, and its exit code.
fn validated(project: &Project, path: &str, json: bool, strict: bool) -> (String, u8) {
    let mut out = Vec::new();
    let args = ValidateArgs { paths: vec![project.path(path)], strict, print: None };
    let code = validate(&args, &SHIPPED, false, Output::new(json, &mut out)).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

#[test]
fn a_workflow_with_warnings_alone_is_loaded_with_them() {
    let project = Project::new(&[("workflows/w.yaml", SILENT)]);
    let registry = project.load();
    let entry = registry.workflow("w").unwrap();
    assert_eq!(places(&entry.findings), ["1:1 missing_description description"]);
    assert!(!entry.is_broken() && !entry.is_stale());
    let definition = registry.definition("w").unwrap();
    assert_eq!(definition.workflow.description, "");

    // The title stands in for it, and the last good version is not asked for.
    project.write("workflows/w.yaml", &format!("title: Look\n{SILENT}"));
    let registry = registry.reload(&project.sources());
    assert!(!registry.workflow("w").unwrap().is_stale());
    let definition = registry.definition("w").unwrap();
    assert_eq!(definition.workflow.description, "Look");
}

#[test]
fn validate_tells_warnings_and_is_content_unless_it_is_strict() {
    let bad = SILENT.replace("reviewer", "nobody").replace(": w", ": x");
    let project = Project::new(&[("workflows/w.yaml", SILENT), ("workflows/x.yaml", &bad)]);
    let (text, code) = validated(&project, "workflows/w.yaml", false, false);
    assert!(text.starts_with("warning[missing_description]: `description` is missing"), "{text}");
    assert!(text.ends_with("1 file, 1 finding (1 warning)\n"), "{text}");
    assert_eq!(code, 0);
    let strict = validated(&project, "workflows/w.yaml", false, true);
    assert_eq!(strict, (text, 1));

    let (json, code) = validated(&project, "workflows", true, false);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, 1, "of the other file");
    has_fields(&json, serde_json::json!({ "findings": 3, "warnings": 2 }));
    let files: Vec<_> = json["files"].as_array().unwrap().iter().collect();
    assert_eq!(files[0]["valid"], true);
    assert_eq!(files[1]["valid"], false);
    let severities: Vec<_> = files[1]["findings"].as_array().unwrap().iter().collect();
    let severities = severities.iter().map(|finding| &finding["severity"]);
    assert_eq!(severities.collect::<Vec<_>>(), ["warning", "error"]);
}

/// An error that is not listed must not make a broken file look sound.
#[test]
fn errors_are_listed_before_warnings_where_there_is_no_room_for_all() {
    let finding = |rule, line| {
        let mut finding = Finding::new_for_file(rule, "x");
        finding.line = line;
        finding
    };
    let mut findings: Vec<_> =
        (0..limits::FINDINGS_MAX).map(|line| finding(Rule::MissingDescription, line)).collect();
    findings.push(finding(Rule::UnknownKey, limits::FINDINGS_MAX));
    let arranged = sort_and_limit(findings);
    let [.., error, more] = &arranged[..] else { panic!() };
    assert_eq!(error.rule, Rule::UnknownKey);
    assert_eq!(more.message, "1 more findings are not listed");
    assert_eq!(more.rule.severity(), Severity::Warning);
}

/// The rules of what is found in a manifest with these lines after its head.
fn rules(lines: &str) -> Vec<String> {
    let text = format!("workflow: w\ndescription: d\n{lines}");
    let (workflow, findings) = check_text("w.yaml", &text, &SHIPPED);
    assert!(workflow.is_some(), "{text}: {findings:?}");
    findings.iter().map(|one| format!("{} {}", one.rule, one.path)).collect()
}

#[test]
fn an_input_that_nothing_reads_is_told() {
    const INPUTS: &str =
        "inputs: { a: { type: string }, b: { type: string, optional: true } }\nsteps:\n";
    // Whoever works on a step that only says what to do is shown all inputs.
    for [steps, found] in rows(
        r#"
        "  - { id: s, guidance: \"${{ inputs.a }}\" }\n", "unused_input inputs.b"
        "  - { id: s, guidance: Do it., if: inputs.b }\n", "unused_input inputs.a"
        "  - { id: s, set: { x: \"${{ inputs.a }}\" } }\n", "unused_input inputs.b"
        "  - { id: s, guidance: Do it. }\n", ""
        "  - { id: s, set: { x: \"${{ inputs }}\" } }\n", ""
        "  - { id: s, guidance: \"${{ inputs.a }}\" }\n  - { id: t, input: { properties: [b] } }\n", ""
        "  - { id: s, guidance: \"${{ inputs.a }} ${{ memory.__workflow_input__ }}\" }\n", ""
        "#,
    ) {
        let told = rules(&format!("{INPUTS}{steps}")).join("; ");
        assert_eq!(told, found, "{steps}");
    }
}

#[test]
fn the_output_of_a_step_that_may_be_skipped_is_told() {
    const MAYBE: &str = "\
inputs: { a: { type: boolean } }
steps:
  - { id: maybe, if: inputs.a, guidance: Do it. }
";
    for [step, found] in rows(
        r#"
        "guidance: \"${{ steps.maybe.summary }}\"", "told"
        "set: { x: \"${{ steps.maybe.summary }}\" }", "told"
        "branch: [{ if: steps.maybe.summary, next: $end }, { next: $end }]", "told"
        "guidance: \"${{ steps.maybe.summary | default('') }}\"", ""
        "guidance: \"${{ steps.maybe.summary }}\", if: inputs.a", ""
        "guidance: Do it., depends_on: [maybe]", ""
        "#,
    ) {
        let told = rules(&format!("{MAYBE}  - {{ id: then, {step} }}\n"));
        let is_told = |one: &String| one.starts_with("depends_on_conditional steps[1]");
        assert_eq!(told.iter().any(is_told), found == "told", "{step}: {told:?}");
        assert!(told.len() <= 1, "{told:?}");
    }
}

#[test]
fn a_loop_that_may_hardly_go_round_is_told() {
    for [limits, of_step, of_other, found] in rows(
        r#"
        "", ", max_visits: 2", "", "loop_near_bound steps[0].max_visits"
        "", ", max_visits: 1", "", "loop_near_bound steps[0].max_visits"
        "limits: { max_visits: 2 }\n", "", "", "loop_near_bound limits.max_visits"
        "", ", max_visits: 3", "", ""
        "limits: { max_visits: 2 }\n", ", max_visits: 9", "", ""
        "", "", ", max_visits: 1", ""
        "#,
    ) {
        let lines = format!(
            "{limits}steps:\n  - {{ id: write, guidance: Write.{of_step} }}\n  - {{ id: look, guidance: Look. }}\n  - {{ id: again, branch: [{{ if: steps.look.summary, next: write }}, {{ next: done }}] }}\n  - {{ id: done, guidance: Done.{of_other} }}\n"
        );
        assert_eq!(rules(&lines).join("; "), found, "{lines}");
    }
}

#[test]
fn a_workflow_that_a_nearer_one_hides_is_told_so() {
    let project = Project::new(&[(
        "workflows/bug-fix.yaml",
        &SILENT.replace("workflow: w", "workflow: bug-fix"),
    )]);
    let registry = project.load();
    let hidden: Vec<_> = registry.hidden_workflows().collect();
    let [hidden] = hidden.as_slice() else { panic!("{hidden:?}") };
    let finding = &hidden.findings[0];
    assert_eq!(hidden.name.as_str(), "bug-fix");
    assert_eq!(finding.rule, Rule::ShadowedName);
    assert!(finding.is_warning());
    assert_has(&finding.message, &["workflows/bug-fix.yaml"]);
    assert!(
        registry
            .workflow("bug-fix")
            .unwrap()
            .findings
            .iter()
            .all(|one| one.rule != Rule::ShadowedName)
    );
}
