//! `midex validate` and `midex list`.

use midex::{
    cli::{
        list::{ListArgs, Listed, list},
        validate::ValidateArgs,
    },
    error::Code,
    registry::{FileReport, validate},
};

use super::*;

#[test]
fn named_files_know_the_agents_beside_them() {
    let text = front("phases:\n  - phase: a\n    agent: mine\n");
    let project = Project::new(&[
        ("workflows/w.md", &text),
        ("workflows/deep/x.md", &text.replace("name: w", "name: x")),
        (
            "agents/mine.md",
            "---\nname: mine\ndescription: d\n---\nYou.\n",
        ),
        ("agents/README.md", "# Read me\n"),
    ]);
    let registry = Registry::load(&Sources::default());
    let reports = |path: &str| {
        let reports = validate(&[project.path(path)], &registry).unwrap();
        let line = |report: &FileReport| {
            format!(
                "{:?} {} {}",
                report.kind,
                report.name,
                report.findings.len()
            )
        };
        reports.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(
        reports(""),
        ["Workflow x 0", "Workflow w 0", "Agent mine 0"]
    );
    assert_eq!(reports("workflows"), ["Workflow x 0", "Workflow w 0"]);
    assert_eq!(reports("workflows/deep/x.md"), ["Workflow x 0"]);
    assert_eq!(reports("agents"), ["Agent mine 0"]);
    assert_eq!(reports("agents/README.md"), ["Agent README 1"]);
    let error = validate(&[project.path("none")], &registry).unwrap_err();
    assert_eq!(error.code(), Code::UsageInvalid);
}

/// What `midex validate` writes, and its exit code.
fn validated(paths: &[PathBuf], registry: &Registry, json: bool, color: bool) -> (String, u8) {
    let mut out = Vec::new();
    let args = ValidateArgs {
        paths: paths.to_vec(),
    };
    let code = midex::cli::validate::validate(&args, registry, json, color, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

/// What `midex list` writes, and its exit code.
fn listed(registry: &Registry, agents: bool, json: bool) -> (String, u8) {
    let mut out = Vec::new();
    let what = if agents {
        Listed::Agents
    } else {
        Listed::Workflows
    };
    let code = list(
        &ListArgs {
            what,
            ..ListArgs::default()
        },
        registry,
        json,
        &mut out,
    )
    .unwrap();
    (String::from_utf8(out).unwrap(), code)
}

#[test]
fn validate_says_what_is_wrong_and_exits_accordingly() {
    let project = Project::new(&[
        (
            "workflows/bad.md",
            &front("phases:\n  - phase: a\n    agent: reveiwer\n"),
        ),
        ("workflows/good.md", &front(&format!("phases:\n{PHASE}"))),
    ]);
    let registry = project.load();
    let shipped = Registry::load(&Sources::default());
    assert_eq!(
        validated(&[], &shipped, false, false),
        ("6 files, no findings\n".into(), 0)
    );
    let good = [project.path("workflows/good.md")];
    assert_eq!(
        validated(&good, &registry, false, true),
        ("1 file, no findings\n".into(), 0)
    );

    let (text, code) = validated(&[project.path("workflows/bad.md")], &registry, false, false);
    assert_eq!(code, 1);
    assert!(
        text.starts_with("error[missing_persona]: no agent is called `reveiwer`\n"),
        "{text}"
    );
    assert!(text.contains("workflows/bad.md:6:12\n"), "{text}");
    assert!(text.ends_with("1 file, 1 finding\n"), "{text}");
    let (colored, _) = validated(&[project.path("workflows/bad.md")], &registry, false, true);
    assert!(colored.contains("\u{1b}[") && !text.contains('\u{1b}'));

    // Without paths also the second file of one name is looked at.
    let (json, code) = validated(&[], &registry, true, true);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["findings"]), (1, &2.into()));
    assert_eq!(json["files"].as_array().unwrap().len(), 8);
    let bad = &json["files"][0];
    assert_eq!(bad["kind"], "workflow");
    assert_eq!(bad["name"], "w");
    assert_eq!(bad["valid"], false);
    assert_eq!(
        bad["findings"][0],
        serde_json::json!({
            "path": "phases[0].agent",
            "rule": "missing_persona",
            "message": "no agent is called `reveiwer`",
            "line": 6,
            "column": 12,
            "suggestion": "did you mean `reviewer`?",
        })
    );
    assert_eq!(json["files"][1]["findings"][0]["rule"], "duplicate_name");
}

#[test]
fn list_shows_what_there_is() {
    let shipped = Registry::load(&Sources::default());
    let (text, code) = listed(&shipped, false, false);
    assert_eq!(code, 0);
    insta::assert_snapshot!(text, @r#"
    name                 steps                      source   description
    bug-fix              diagnose, fix, verify      shipped  Find the cause of a defect, remove it with a test that proves
                                                             it, and check the remedy
    feature-development  design, implement, review  shipped  Build a feature from request to reviewed change, with the
                                                             design settled before the code
    "#);
    insta::assert_snapshot!(listed(&shipped, true, false).0, @r#"
    name         source   description
    architect    shipped  Decides what to build and how it fits, weighs the alternatives, and hands over a design that can
                          be built from
    debugger     shipped  Reproduces a defect, follows it by experiment to its cause, and explains the chain with evidence
    implementer  shipped  Builds or repairs exactly what was decided, test first, in small steps that leave the project
                          working
    reviewer     shipped  Judges a change against what was asked, by reading and by running it, and gives a verdict with
                          reasons
    "#);

    let project = Project::new(&[("workflows/b\u{1b}ad.md", "# nothing\n")]);
    let registry = project.load();
    let (text, code) = listed(&registry, false, false);
    assert_eq!(code, 0, "a list is an answer, whatever it lists");
    assert!(
        text.contains("b\u{fffd}ad") && !text.contains('\u{1b}'),
        "{text}"
    );
    assert_eq!(listed(&registry, true, false).1, 0);

    let (json, _) = listed(&registry, false, true);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let [bad, bug_fix, _] = json.as_array().unwrap().as_slice() else {
        panic!("{json}")
    };
    assert_eq!(bad["valid"], false);
    assert_eq!(bad["phases"], serde_json::json!([]));
    assert_eq!(bad["description"], serde_json::Value::Null);
    assert_eq!(bug_fix["source"], "shipped");
    assert_eq!(bug_fix["path"], serde_json::Value::Null);
    assert_eq!(bug_fix["complexity"], "moderate");
    assert_eq!(
        bug_fix["tags"],
        serde_json::json!(["bugfix", "debugging", "maintenance"])
    );
    let phase = &bug_fix["phases"][1];
    assert_eq!(phase["phase"], "fix");
    assert_eq!(phase["agent"], "implementer");
    assert_eq!(phase["dependsOn"], serde_json::json!(["diagnose"]));
    let (json, _) = listed(&registry, true, true);
    assert!(json.contains("\"name\": \"architect\""));
}

/// A name on a disk may be any bytes.
#[cfg(target_os = "linux")]
#[test]
fn a_file_name_need_not_be_unicode() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let project = Project::new(&[]);
    let name = OsStr::from_bytes(b"workflows/w\xff.md");
    fs::write(project.0.path().join(name), "x").unwrap();
    let registry = project.load();
    assert!(listed(&registry, false, true).0.contains("w\u{fffd}.md"));
    assert!(listed(&registry, false, false).0.contains("w\u{fffd}.md"));
    assert_eq!(validated(&[], &registry, true, false).1, 1);
}
