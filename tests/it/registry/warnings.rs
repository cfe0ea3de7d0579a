//! Warnings: what an author should know of, and what keeps nobody from starting the workflow.

use midex::{
    cli::{
        Output,
        validate::{ValidateArgs, validate},
    },
    domain::finding::{Rule, Severity, arrange},
    limits,
};

use super::*;

/// A workflow without a description.
const SILENT: &str = "workflow: w\nsteps:\n  - {id: a, agent: reviewer}\n";

/// What `midex validate` writes, and its exit code.
fn validated(project: &Project, path: &str, json: bool, strict: bool) -> (String, u8) {
    let mut out = Vec::new();
    let args = ValidateArgs {
        paths: vec![project.path(path)],
        strict,
    };
    let code = validate(&args, &SHIPPED, false, Output::new(json, &mut out)).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

#[test]
fn a_workflow_with_warnings_alone_is_loaded_with_them() {
    let project = Project::new(&[("workflows/w.yaml", SILENT)]);
    let registry = project.load();
    let entry = registry.workflow("w").unwrap();
    assert_eq!(
        places(&entry.findings),
        ["1:1 missing_description description"]
    );
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
    assert!(
        text.starts_with("warning[missing_description]: `description` is missing"),
        "{text}"
    );
    assert!(text.ends_with("1 file, 1 finding (1 warning)\n"), "{text}");
    assert_eq!(code, 0);
    let strict = validated(&project, "workflows/w.yaml", false, true);
    assert_eq!(strict, (text, 1));

    let (json, code) = validated(&project, "workflows", true, false);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(code, 1, "of the other file");
    assert_eq!(
        (&json["findings"], &json["warnings"]),
        (&3.into(), &2.into())
    );
    let files: Vec<_> = json["files"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&files[0]["valid"], &files[1]["valid"]),
        (&true.into(), &false.into())
    );
    let severities: Vec<_> = files[1]["findings"].as_array().unwrap().iter().collect();
    let severities = severities.iter().map(|finding| &finding["severity"]);
    assert_eq!(severities.collect::<Vec<_>>(), ["warning", "error"]);
}

/// An error that is not listed must not make a broken file look sound.
#[test]
fn errors_are_listed_before_warnings_where_there_is_no_room_for_all() {
    let finding = |rule, line| {
        let mut finding = Finding::of_file(rule, "x");
        finding.line = line;
        finding
    };
    let mut findings: Vec<_> = (0..limits::FINDINGS_MAX)
        .map(|line| finding(Rule::MissingDescription, line))
        .collect();
    findings.push(finding(Rule::UnknownKey, limits::FINDINGS_MAX));
    let arranged = arrange(findings);
    let [.., error, more] = &arranged[..] else {
        panic!()
    };
    assert_eq!(error.rule, Rule::UnknownKey);
    assert_eq!(more.message, "1 more findings are not listed");
    assert_eq!(more.rule.severity(), Severity::Warning);
}
