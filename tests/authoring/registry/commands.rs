//! `midex validate` and `midex list`.

use midex_cli::{
    Output,
    list::{ListArgs, ListSubject, list_definitions},
    validate::ValidateArgs,
};
use midex_domain::error::Code;
use midex_registry::{FileReport, validate_paths};

use super::*;

#[test]
fn named_files_know_the_agents_beside_them() {
    let text = front("phases:\n  - phase: a\n    agent: mine\n");
    let project = Project::new(&[
        ("workflows/w.md", &text),
        ("workflows/deep/x.md", &text.replace("name: w", "name: x")),
        ("agents/mine.md", "---\nname: mine\ndescription: d\n---\nYou.\n"),
        ("agents/README.md", "# Read me\n"),
    ]);
    let registry = Registry::load(&Sources::default());
    let reports = |path: &str| {
        let reports = validate_paths(&[project.path(path)], &registry).unwrap();
        let line = |report: &FileReport| {
            format!("{:?} {} {}", report.kind, report.name, report.findings.len())
        };
        reports.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(reports(""), ["Workflow x 0", "Workflow w 0", "Agent mine 0"]);
    assert_eq!(reports("workflows"), ["Workflow x 0", "Workflow w 0"]);
    assert_eq!(reports("workflows/deep/x.md"), ["Workflow x 0"]);
    assert_eq!(reports("agents"), ["Agent mine 0"]);
    assert_eq!(reports("agents/README.md"), ["Agent README 1"]);
    let error = validate_paths(&[project.path("none")], &registry).unwrap_err();
    assert_eq!(error.code(), Code::UsageInvalid);
}

/// What `midex validate` writes, and its exit code.
fn validated(paths: &[PathBuf], registry: &Registry, json: bool, color: bool) -> (String, u8) {
    let mut out = Vec::new();
    let args = ValidateArgs { paths: paths.to_vec(), strict: false, print: None };
    let code =
        midex_cli::validate::validate(&args, registry, color, Output::new(json, &mut out)).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

/// What `midex list` writes, and its exit code.
fn listed(registry: &Registry, agents: bool, json: bool) -> (String, u8) {
    let mut out = Vec::new();
    let what = if agents { ListSubject::Agents } else { ListSubject::Workflows };
    let code = list_definitions(
        &ListArgs { what, ..ListArgs::default() },
        registry,
        None,
        Output::new(json, &mut out),
    )
    .unwrap();
    (String::from_utf8(out).unwrap(), code)
}

#[test]
fn validate_says_what_is_wrong_and_exits_accordingly() {
    let project = Project::new(&[
        ("workflows/bad.md", &front("phases:\n  - phase: a\n    agent: reveiwer\n")),
        ("workflows/good.md", &front(&format!("phases:\n{PHASE}"))),
    ]);
    let registry = project.load();
    let shipped = Registry::load(&Sources::default());
    assert_eq!(validated(&[], &shipped, false, false), ("27 files, no findings\n".into(), 0));
    let good = [project.path("workflows/good.md")];
    assert_eq!(validated(&good, &registry, false, true), ("1 file, no findings\n".into(), 0));

    let (text, code) = validated(&[project.path("workflows/bad.md")], &registry, false, false);
    assert_eq!(code, 1);
    assert!(text.starts_with("error[missing_persona]: no agent is called `reveiwer`\n"), "{text}");
    assert!(text.contains("workflows/bad.md:6:12\n"), "{text}");
    assert!(text.ends_with("1 file, 1 finding\n"), "{text}");
    let (colored, _) = validated(&[project.path("workflows/bad.md")], &registry, false, true);
    assert!(colored.contains("\u{1b}[") && !text.contains('\u{1b}'));

    // Without paths also the second file of one name is looked at.
    let (json, code) = validated(&[], &registry, true, true);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["findings"]), (1, &2.into()));
    assert_eq!(json["files"].as_array().unwrap().len(), 29);
    let bad = &json["files"][0];
    let written = fs::read_to_string(project.path("workflows/bad.md")).unwrap();
    let bad_at = written.find("reveiwer").unwrap();
    assert_eq!(bad["kind"], "workflow");
    assert_eq!(bad["name"], "w");
    assert_eq!(bad["valid"], false);
    assert_eq!(
        bad["findings"][0],
        serde_json::json!({
            "path": "phases[0].agent",
            "rule": "missing_persona",
            "severity": "error",
            "message": "no agent is called `reveiwer`",
            "line": 6,
            "column": 12,
            "suggestion": {
                "text": "did you mean `reviewer`?",
                "edits": [{
                    "line": 6, "column": 12, "end_line": 6, "end_column": 20,
                    "start": bad_at, "end": bad_at + "reveiwer".len(), "new_text": "reviewer",
                }],
            },
        })
    );
    assert_eq!(json["files"][1]["findings"][0]["rule"], "duplicate_name");
}

#[test]
fn list_shows_what_is_shipped() {
    let shipped = Registry::load(&Sources::default());
    let (text, code) = listed(&shipped, false, false);
    assert_eq!(code, 0);
    insta::assert_snapshot!(text, @r#"
    name                           steps                                    source   description
    announce                       ask, write, approve, send                shipped  Write an announcement from release
                                                                                     notes, and send it to the places that
                                                                                     the user names once a person has read
                                                                                     it
    app-scaffold                   hear, read, ask, design, agree,          shipped  Set up a new app from a request in
                                   sent_back, heed, no_agreement, create,            plain words, asking only for what is
                                   check, verdict, mend, remember,                   missing, until it builds and its tests
                                   give_up, document                                 pass
    bug-fix                        diagnose, fix, verify                    shipped  Find the cause of a defect, remove it
                                                                                     with a test that proves it, and check
                                                                                     the remedy
    code-review                    understand, review, verdict              shipped  Review one change in three moves, from
                                                                                     what it is for to one verdict that the
                                                                                     author can act on
    component-performance-review   database-performance, api-performance,   shipped  Measure a slow system part by part at
                                   frontend-performance,                             once, and find the limit that binds the
                                   infrastructure-performance,                       whole
                                   performance-synthesis
    feature-development            design, implement, review                shipped  Build a feature from request to
                                                                                     reviewed change, with the design
                                                                                     settled before the code
    incident-runbook               ask, look, instances, diagnose,          shipped  Look into an incident of a service,
                                   approve, remove, watch, report                    remove the instance at fault once a
                                                                                     person agrees, and watch until it is
                                                                                     over
    parallel-code-review           quality-review, security-review,         shipped  Review one change from five sides at
                                   performance-review,                               once, and bring the findings together
                                   maintainability-review,                           into one verdict
                                   architecture-review, review-synthesis
    parallel-documentation-review  api-documentation, user-documentation,   shipped  Check five kinds of documentation
                                   architecture-documentation,                       against the software at once, and plan
                                   deployment-documentation,                         what to correct first
                                   security-documentation,
                                   documentation-synthesis
    parallel-maintenance-audit     code-hygiene, dependency-audit,          shipped  Judge the health of a code base from
                                   test-maintenance,                                 six sides at once, and agree on what to
                                   documentation-maintenance,                        maintain first
                                   security-maintenance,
                                   performance-maintenance,
                                   maintenance-synthesis
    parallel-root-cause-analysis   code-analysis, performance-analysis,     shipped  Look for the cause of a stubborn defect
                                   security-analysis,                                or an incident from four sides at once,
                                   architecture-analysis,                            and find the one that explains it
                                   correlation-analysis
    parallel-testing-strategy      unit-testing, integration-testing,       shipped  Plan the tests of a project or a
                                   security-testing, performance-testing,            feature on five levels at once, and
                                   user-testing, testing-synthesis                   make one affordable strategy of them
    release                        ask, commands, prepare, check, unfit,    shipped  Release a version once a person
                                   approve, tag, publish, partly, verify,            approves, verify it as its users get
                                   unsound, stands, announce                         it, take it back where that fails, and
                                                                                     announce it
    retract                        ask, undo, stayed                        shipped  Take back one thing that was published,
                                                                                     and fail where it is still there
    review-until-approved          review, verdict, mend, remember,         shipped  Review a change, mend what was found
                                   sign_off, accept, objected, again,                and review again, until it is approved
                                   unsettled, refuse                                 or the rounds are used up
    security-audit                 reconnaissance, analysis, verification,  shipped  Audit a code base in depth, with every
                                   report                                            serious finding proved or refuted by
                                                                                     another persona
    security-threat-assessment     external-threats, internal-threats,      shipped  Assess who could harm a system and how,
                                   data-protection, code-vulnerabilities,            from outside, inside, data, code and
                                   infrastructure-security,                          infrastructure, and where to act first
                                   threat-synthesis
    "#);
    insta::assert_snapshot!(listed(&shipped, true, false).0, @r#"
    name                      source   description
    architect                 shipped  Decides what to build and how it fits, weighs the alternatives, and hands over a
                                       design that can be built from
    debugger                  shipped  Reproduces a defect, follows it by experiment to its cause, and explains the chain
                                       with evidence
    devops-engineer           shipped  Builds, ships and runs the software so that anyone can repeat it, see that it works,
                                       and undo it
    documentation-specialist  shipped  Writes and checks documentation against the running software, for a named reader with
                                       a task to do
    implementer               shipped  Builds or repairs exactly what was decided, test first, in small steps that leave the
                                       project working
    maintainer                shipped  Judges and keeps up the health of a code base over years, from hot spots to
                                       dependencies
    performance-engineer      shipped  Measures where time and memory go, finds the limit that binds, and proves what a
                                       change gains
    reviewer                  shipped  Judges a change against what was asked, by reading and by running it, and gives a
                                       verdict with reasons
    security-specialist       shipped  Finds what an attacker could do with what is really there, proves it without harm,
                                       and names the remedy
    supervisor                shipped  Brings the results of several steps together, verified, weighed and without doubles,
                                       into one decision
    "#);
}

#[test]
fn list_shows_what_is_broken_and_what_there_is_as_json() {
    let project = Project::new(&[("workflows/b\u{1b}ad.md", "# nothing\n")]);
    let registry = project.load();
    let (text, code) = listed(&registry, false, false);
    assert_eq!(code, 0, "a list is an answer, whatever it lists");
    assert!(text.contains("b\u{fffd}ad") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(listed(&registry, true, false).1, 0);

    let (json, _) = listed(&registry, false, true);
    let rows = json.lines().map(serde_json::from_str::<serde_json::Value>);
    let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
    let named = |name| {
        let mut listed = rows.iter();
        listed.find(|entry| entry["name"] == name).unwrap()
    };
    let (bad, bug_fix) = (named("b\u{1b}ad"), named("bug-fix"));
    assert_eq!(bad["valid"], false);
    assert_eq!(bad["phases"], serde_json::json!([]));
    assert_eq!(bad["description"], serde_json::Value::Null);
    assert_eq!(bug_fix["source"], "shipped");
    assert_eq!(bug_fix["path"], serde_json::Value::Null);
    assert_eq!(bug_fix["complexity"], "moderate");
    assert_eq!(
        bug_fix["tags"],
        serde_json::json!(["workflows", "bugfix", "debugging", "maintenance"])
    );
    let phase = &bug_fix["phases"][1];
    assert_eq!(phase["phase"], "fix");
    assert_eq!(phase["agent"], "implementer");
    assert_eq!(phase["dependsOn"], serde_json::json!(["diagnose"]));
    let (json, _) = listed(&registry, true, true);
    assert!(json.contains("\"name\":\"architect\""));
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
