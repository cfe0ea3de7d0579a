//! The registry from outside: files on a disk in, definitions and findings out.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use midex::{
    cli::{
        list::{ListArgs, list},
        validate::ValidateArgs,
    },
    clock::{Clock, SystemClock},
    domain::finding::{Finding, Rule},
    error::Code,
    registry::{Directory, Registry, Source, Sources, validate},
};
use tempfile::TempDir;

/// A project with `workflows/` and `agents/` of its own.
struct Project(TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self(TempDir::new().unwrap());
        for directory in ["workflows", "agents"] {
            fs::create_dir(project.path(directory)).unwrap();
        }
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sources(&self) -> Sources {
        let directory = |name: &str| Directory {
            source: Source::Project,
            path: self.path(name),
        };
        Sources {
            workflows: vec![directory("workflows")],
            agents: vec![directory("agents")],
        }
    }

    fn load(&self) -> Registry {
        Registry::load(&self.sources())
    }
}

/// Each finding as `line:column rule path`.
fn places(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| {
            format!(
                "{}:{} {} {}",
                finding.line, finding.column, finding.rule, finding.path
            )
        })
        .collect()
}

/// What the registry finds in a project with this one workflow file.
fn findings_of(name: &str, text: &str) -> Vec<Finding> {
    let project = Project::new(&[(&format!("workflows/{name}"), text)]);
    let registry = project.load();
    let entry = registry
        .workflows()
        .find(|entry| entry.source == Source::Project)
        .unwrap();
    assert_eq!(entry.definition.is_some(), entry.findings.is_empty());
    entry.findings.clone()
}

#[track_caller]
fn check(name: &str, text: &str, expected: &[&str]) {
    assert_eq!(places(&findings_of(name, text)), expected, "{name}\n{text}");
}

/// The dependencies of each step of the one workflow in `text`.
fn order_of(name: &str, text: &str) -> Vec<String> {
    let project = Project::new(&[(&format!("workflows/{name}"), text)]);
    let definition = project.load().definition("w").unwrap();
    let line = |step: &midex::domain::Step| {
        let after: Vec<_> = step.depends_on.iter().map(|id| id.as_str()).collect();
        format!("{} after [{}]", step.id, after.join(" "))
    };
    definition.workflow.steps.iter().map(line).collect()
}

const PHASE: &str = "  - phase: a\n    agent: reviewer\n";

fn front(rest: &str) -> String {
    format!("---\nname: w\ndescription: d\n{rest}---\n# Body\n")
}

fn steps(rest: &str) -> String {
    format!("workflow: w\ndescription: d\nsteps:\n{rest}")
}

#[test]
fn what_is_shipped_is_clean() {
    let registry = Registry::load(&Sources::default());
    let names: Vec<_> = registry
        .workflows()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(names, ["bug-fix", "feature-development"]);
    for entry in registry.workflows() {
        assert_eq!(entry.findings, [], "{}", entry.name);
        assert_eq!(entry.source, Source::Shipped);
        let definition = registry.definition(&entry.name).unwrap();
        assert_eq!(definition.workflow.steps.len(), 3);
        assert!(
            definition
                .workflow
                .steps
                .iter()
                .all(|step| definition.persona(step).len() > 2000)
        );
    }
    let names: Vec<_> = registry.agents().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["architect", "debugger", "implementer", "reviewer"]);
    assert!(registry.agents().all(|entry| entry.findings.is_empty()));
    let reports = validate(&[], &registry).unwrap();
    assert_eq!(reports.len(), 6);
    assert!(reports.iter().all(|report| report.findings.is_empty()));
}

/// A persona that shows an output which `next_step` would refuse is worse than none.
#[test]
fn the_worked_examples_of_the_personas_satisfy_the_contract() {
    let registry = Registry::load(&Sources::default());
    let schema =
        midex::domain::schema::Schema::compile(&midex::domain::definition::output_schema_json())
            .unwrap();
    for entry in registry.agents() {
        let text = &entry.persona.as_ref().unwrap().content;
        let example = text.split("```json\n").nth(1).unwrap();
        let example = example.split("```").next().unwrap();
        let example = serde_json::from_str(example).unwrap();
        assert_eq!(schema.violations(&example), [], "{}", entry.name);
    }
}

#[test]
fn every_finding_of_front_matter_has_its_place() {
    check(
        "w.md",
        "# No front matter\n",
        &["1:1 missing_front_matter "],
    );
    check(
        "w.md",
        "---\nname: w\n# no end\n",
        &["1:1 unclosed_front_matter "],
    );
    check(
        "w.md",
        "---\n---\n",
        &[
            "1:1 missing_key name",
            "1:1 missing_key description",
            "1:1 missing_key phases",
        ],
    );
    check("w.md", "---\nname: w\n  bad: [\n---\n", &["3:6 syntax "]);
    check("w.md", "---\n- a\n---\n", &["2:1 wrong_type "]);
    check("w.md", &front("phases: []\n"), &["4:9 no_steps phases"]);
    check("w.md", &front("phases: x\n"), &["4:9 wrong_type phases"]);
    check(
        "w.md",
        "---\nname: \"\"\ndescription: [x]\ntags: x\ncomplexity: hihg\nphases:\n  - phase: a b\n    agent: reveiwer\n    colour: red\n---\n",
        &[
            "2:7 empty_value name",
            "3:14 wrong_type description",
            "4:7 wrong_type tags",
            "5:13 unknown_value complexity",
            "7:12 ill_formed_name phases[0].phase",
            "8:12 missing_persona phases[0].agent",
            "9:5 unknown_key phases[0].colour",
        ],
    );
    check(
        "w.md",
        &front("phases:\n  - phase: a\n  - agent: reviewer\n  - x\n"),
        &[
            "5:5 missing_key phases[0].agent",
            "6:5 missing_key phases[1].phase",
            "7:5 wrong_type phases[2]",
        ],
    );
}

#[test]
fn every_finding_of_the_order_has_its_place() {
    check(
        "w.md",
        &front(
            "phases:\n  - phase: design\n    agent: architect\n  - phase: design\n    agent: reviewer\n    dependsOn: [desing, design, design]\n  - phase: c\n    agent: reviewer\n    dependsOn: c\n",
        ),
        &[
            "7:12 duplicate_step phases[1].phase",
            "9:17 unknown_dependency phases[1].dependsOn[0]",
            "9:33 duplicate_dependency phases[1].dependsOn[2]",
            "12:16 self_dependency phases[2].dependsOn",
        ],
    );
    let cycle = front(
        "phases:\n  - phase: a\n    agent: reviewer\n    dependsOn: [c]\n  - phase: b\n    agent: reviewer\n    dependsOn: [a]\n  - phase: c\n    agent: reviewer\n    dependsOn: [b]\n",
    );
    check(
        "w.md",
        &cycle,
        &["10:17 cyclic_dependency phases[1].dependsOn[0]"],
    );
    assert_eq!(
        findings_of("w.md", &cycle)[0].message,
        "these phases wait for each other: a → c → b → a"
    );
    let implied = steps(
        "  - id: a\n    agent: reviewer\n    depends_on: b\n  - id: b\n    agent: reviewer\n",
    );
    check(
        "w.yaml",
        &implied,
        &["6:17 cyclic_dependency steps[0].depends_on"],
    );
    assert!(
        findings_of("w.yaml", &implied)[0]
            .suggestion
            .as_ref()
            .unwrap()
            .starts_with("`b` follows `a`")
    );
}

#[test]
fn every_finding_of_a_manifest_has_its_place() {
    check(
        "w.yaml",
        "",
        &[
            "1:1 missing_key workflow",
            "1:1 missing_key description",
            "1:1 missing_key steps",
        ],
    );
    check(
        "w.yaml",
        "workflow: w\ndescription: d\ninputs: {}\nversoin: 1\nname: x\nsteps:\n  - id: a\n    description: none\n  - id: b\n    agent: reviewer\n    run: cat op\n    retry: {max_attempts: 2}\n  - id: c\n    gate: {ask: ok}\n  - id: d\n    agent: reviewer\n    depends_on: [a]\n    dependsOn: [a]\n    depend_on: []\n    id: e\n",
        &[
            "3:1 not_supported_yet inputs",
            "4:1 unknown_key versoin",
            "5:1 unknown_key name",
            "7:5 missing_kind steps[0]",
            "11:5 not_supported_yet steps[1].run",
            "11:5 several_kinds steps[1].run",
            "12:5 not_supported_yet steps[1].retry",
            "14:5 not_supported_yet steps[2].gate",
            "18:5 duplicate_key steps[3].dependsOn",
            "19:5 unknown_key steps[3].depend_on",
            "20:5 duplicate_key steps[3].id",
        ],
    );
    check(
        "w.yaml",
        &steps(
            "  - id: a\n    agent: reviewer\n    result:\n      type: object\n      properties:\n        x: {type: strin}\n",
        ),
        &["9:19 invalid_schema steps[0].result.properties.x.type"],
    );
}

#[test]
fn limits_are_findings() {
    let long = "x".repeat(2001);
    let tags = vec!["t"; 21].join(", ");
    check(
        "w.md",
        &format!("---\nname: w\ndescription: {long}\ntags: [{tags}]\nphases:\n{PHASE}---\n"),
        &["3:14 limit_exceeded description", "4:7 limit_exceeded tags"],
    );
    let many: String = (0..501)
        .map(|at| format!("  - phase: p{at}\n    agent: reviewer\n"))
        .collect();
    check(
        "w.md",
        &front(&format!("phases:\n{many}")),
        &["5:3 limit_exceeded phases"],
    );
    let huge = format!(
        "{}{}",
        front(&format!("phases:\n{PHASE}")),
        "x".repeat(1 << 20)
    );
    check("w.md", &huge, &["1:1 file_too_large "]);
}

#[test]
fn order_follows_from_what_is_said() {
    let list = front(&format!(
        "phases:\n{PHASE}  - phase: b\n    agent: reviewer\n"
    ));
    assert_eq!(order_of("w.md", &list), ["a after []", "b after [a]"]);
    let parallel = front(&format!(
        "phases:\n  - phase: sum\n    agent: reviewer\n    dependsOn: [b, a]\n    allowParallel: false\n{PHASE}    allowParallel: true\n  - phase: b\n    agent: reviewer\n"
    ));
    assert_eq!(
        order_of("w.md", &parallel),
        ["sum after [b a]", "a after []", "b after []"]
    );
    let manifest = steps(
        "  - id: a\n    agent: reviewer\n  - id: b\n    agent: reviewer\n  - id: c\n    agent: reviewer\n    depends_on: []\n  - id: d\n    agent: reviewer\n    dependsOn: a\n",
    );
    assert_eq!(
        order_of("w.yaml", &manifest),
        ["a after []", "b after [a]", "c after []", "d after [a]"]
    );
    check(
        "w.md",
        &front(&format!(
            "phases:\n{PHASE}    allowParallel: false\n    dependsOn: []\n  - phase: b\n    agent: reviewer\n"
        )),
        &["7:20 not_supported_yet phases[0].allowParallel"],
    );
}

#[test]
fn a_json_manifest_is_a_manifest() {
    let text = r#"{
	"workflow": "w", "title": "T", "description": "d \ud83d\ude00", "version": 1.10,
	"tags": ["x", "off"], "complexity": "simple",
	"steps": [{"id": "a", "agent": "reviewer", "result": {"type": "object"}}]
}"#;
    let project = Project::new(&[("workflows/w.json", text)]);
    let definition = project.load().definition("w").unwrap();
    let workflow = &definition.workflow;
    assert_eq!(workflow.description, "d 😀");
    assert_eq!(workflow.tags, ["x", "off"]);
    assert_eq!(workflow.content, text);
    assert_eq!(
        workflow.steps[0].result,
        Some(serde_json::json!({"type": "object"}))
    );
    let plain = text.replace(r" \ud83d\ude00", "");
    let project = Project::new(&[("workflows/w.json", &plain)]);
    assert_eq!(
        project
            .load()
            .definition("w")
            .unwrap()
            .workflow
            .version
            .as_deref(),
        Some("1.10")
    );
    check("w.json", "{\n  \"workflow\": \"w\",\n}\n", &["3:1 syntax "]);
    check(
        "w.json",
        "{\"steps\": [], \"workflow\": \"w\", \"agnt\": 1}",
        &[
            "1:1 missing_key description",
            "1:11 no_steps steps",
            "1:32 unknown_key agnt",
        ],
    );
}

#[test]
fn windows_files_are_read_like_others() {
    let unix = front(&format!("version: x\nphases:\n{PHASE}    agnt: x\n"));
    let windows = format!("\u{feff}{}", unix.replace('\n', "\r\n"));
    let expected = ["4:1 unknown_key version", "8:5 unknown_key phases[0].agnt"];
    check("w.md", &unix, &expected);
    check("w.md", &windows, &expected);
    let good = front(&format!("phases:\n{PHASE}")).replace('\n', "\r\n") + "\r\nmore\r\n";
    let project = Project::new(&[("workflows/w.md", &format!("\u{feff}{good}"))]);
    let definition = project.load().definition("w").unwrap();
    assert_eq!(definition.workflow.content, "# Body\n\nmore");
}

#[test]
fn booleans_are_strict_and_versions_are_text() {
    let project = Project::new(&[
        (
            "agents/off.md",
            "---\nname: off\ndescription: no\ntags: [on, yes]\nversion: 1.10\nmodel: opus\ntools: [a, b]\n---\nYou.\n",
        ),
        (
            "workflows/w.md",
            &front("phases:\n  - phase: no\n    agent: off\n"),
        ),
    ]);
    let registry = project.load();
    let persona = registry.agent("off").unwrap().persona.clone().unwrap();
    assert_eq!(persona.version.as_deref(), Some("1.10"));
    assert_eq!(persona.tags, ["on", "yes"]);
    assert_eq!(persona.extra["tools"], serde_json::json!(["a", "b"]));
    assert_eq!(persona.content, "You.");
    let definition = registry.definition("w").unwrap();
    assert_eq!(definition.workflow.steps[0].id.as_str(), "no");
    check(
        "w.md",
        &front("tags: [true, 1]\nphases: []\n"),
        &[
            "4:8 wrong_type tags[0]",
            "4:14 wrong_type tags[1]",
            "5:9 no_steps phases",
        ],
    );
}

#[test]
fn an_alias_bomb_is_refused_at_once() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for at in 1..30 {
        let before = vec![format!("*a{}", at - 1); 10].join(", ");
        bomb.push_str(&format!("a{at}: &a{at} [{before}]\n"));
    }
    let start = SystemClock.now().milliseconds();
    let findings = findings_of("w.yaml", &bomb);
    let took = SystemClock.now().milliseconds() - start;
    assert_eq!(findings[0].rule, Rule::Syntax, "{findings:?}");
    assert!(
        took < i64::try_from(Duration::from_secs(2).as_millis()).unwrap(),
        "{took} ms"
    );
}

/// Each level of nesting costs stack, and a test thread has as little of it as a worker.
#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    for (open, close) in [("[", "]"), ("{x: ", "}")] {
        for (depth, rule) in [
            (20, Rule::WrongType),
            (500, Rule::Syntax),
            (100_000, Rule::Syntax),
        ] {
            let text = format!("workflow: {}{}", open.repeat(depth), close.repeat(depth));
            let findings = findings_of("w.yaml", &text);
            assert!(
                findings.iter().any(|finding| finding.rule == rule),
                "{findings:?}"
            );
        }
        let block: String = (0..500)
            .map(|depth| format!("{}x:\n", " ".repeat(depth)))
            .collect();
        assert_eq!(findings_of("w.yaml", &block)[0].rule, Rule::Syntax);
    }
    let deep = |depth| {
        format!(
            "{{\"workflow\": {}{}}}",
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let findings = findings_of("w.json", &deep(100));
    assert!(
        findings
            .iter()
            .any(|finding| finding.rule == Rule::WrongType)
    );
    assert_eq!(findings_of("w.json", &deep(100_000))[0].rule, Rule::Syntax);
}

#[test]
fn the_nearest_wins_and_a_broken_one_hides_what_is_farther_off() {
    let flag = Project::new(&[(
        "workflows/fix.md",
        &front(&format!("phases:\n{PHASE}")).replace("name: w", "name: bug-fix"),
    )]);
    let project = Project::new(&[
        ("workflows/feature-development.md", "# broken\n"),
        (
            "workflows/bug-fix.md",
            &front(&format!("phases:\n{PHASE}")).replace("name: w", "name: bug-fix"),
        ),
        (
            "agents/reviewer.md",
            "---\nname: reviewer\ndescription: mine\n---\nMine.\n",
        ),
    ]);
    let mut sources = project.sources();
    sources.workflows.insert(
        0,
        Directory {
            source: Source::Flag,
            path: flag.path("workflows"),
        },
    );
    let registry = Registry::load(&sources);
    let entry = registry.workflow("bug-fix").unwrap();
    assert_eq!(entry.source, Source::Flag);
    assert_eq!(
        entry.path.as_deref(),
        Some(flag.path("workflows/fix.md").as_path())
    );
    let definition = registry.definition("bug-fix").unwrap();
    assert_eq!(definition.persona(&definition.workflow.steps[0]), "Mine.");

    let error = registry.definition("feature-development").unwrap_err();
    assert_eq!(error.code(), Code::WorkflowInvalid);
    assert_eq!(error.violations()[0].rule, "missing_front_matter");
    assert!(
        error
            .suggested_action()
            .contains("workflows/feature-development.md")
    );
    assert_eq!(registry.workflows().count(), 2);

    let error = registry.definition("bugfix").unwrap_err();
    assert_eq!(error.code(), Code::WorkflowNotFound);
    assert_eq!(
        error.message(),
        "Workflow 'bugfix' not found; did you mean 'bug-fix'?"
    );
    assert_eq!(
        registry.definition("xyz").unwrap_err().message(),
        "Workflow 'xyz' not found"
    );
}

#[test]
fn of_two_files_with_one_name_the_first_has_it() {
    let text = front(&format!("phases:\n{PHASE}"));
    let project = Project::new(&[("workflows/a.md", &text), ("workflows/b/c.md", &text)]);
    let registry = project.load();
    assert!(registry.definition("w").is_ok());
    let entries: Vec<_> = registry
        .workflows()
        .filter(|entry| entry.name == "w")
        .collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(places(&entries[1].findings), ["2:7 duplicate_name name"]);
    assert!(entries[1].findings[0].message.contains("a.md"));
}

#[test]
fn a_broken_persona_is_a_finding_of_the_step_that_names_it() {
    let project = Project::new(&[
        (
            "agents/reviewer.md",
            "---\nname: reviewer\ntags: [1]\n---\n\n",
        ),
        ("workflows/w.md", &front(&format!("phases:\n{PHASE}"))),
    ]);
    let registry = project.load();
    assert_eq!(
        places(&registry.agent("reviewer").unwrap().findings),
        [
            "2:1 missing_key description",
            "3:8 wrong_type tags[0]",
            "5:1 empty_persona ",
        ]
    );
    assert_eq!(
        places(&registry.workflow("w").unwrap().findings),
        ["6:12 invalid_persona phases[0].agent"]
    );
}

#[test]
fn what_is_no_definition_is_passed_over() {
    let text = front(&format!("phases:\n{PHASE}"));
    let project = Project::new(&[
        ("workflows/README.md", "# Read me\n"),
        ("workflows/_draft.md", "x"),
        ("workflows/.hidden.md", "x"),
        ("workflows/_old/w.md", "x"),
        ("workflows/notes.txt", "x"),
        ("workflows/deep/er/w.md", &text),
        ("agents/tool.json", "{}"),
    ]);
    let registry = project.load();
    let own: Vec<_> = registry
        .workflows()
        .filter(|entry| entry.source == Source::Project)
        .collect();
    assert_eq!(own.len(), 1);
    assert!(own[0].findings.is_empty());
    assert_eq!(registry.agents().count(), 4);
}

#[test]
fn a_file_that_cannot_be_read_is_an_entry() {
    let project = Project::new(&[]);
    fs::write(
        project.path("workflows/latin.md"),
        b"---\nname: caf\xe9\n---\n",
    )
    .unwrap();
    let mut sources = project.sources();
    sources.workflows.push(Directory {
        source: Source::User,
        path: project.path("nowhere"),
    });
    let registry = Registry::load(&sources);
    assert_eq!(
        places(&registry.workflow("latin").unwrap().findings),
        ["2:10 not_utf8 "]
    );
    assert_eq!(
        places(&registry.workflow("nowhere").unwrap().findings),
        ["1:1 unreadable "]
    );
}

#[cfg(unix)]
#[test]
fn a_link_may_not_leave_the_directory() {
    use std::os::unix::fs::symlink;
    let text = front(&format!("phases:\n{PHASE}"));
    let outside = Project::new(&[("workflows/out.md", &text), ("workflows/b/in.md", &text)]);
    let project = Project::new(&[("workflows/_kept/w.md", &text)]);
    symlink(
        outside.path("workflows/out.md"),
        project.path("workflows/out.md"),
    )
    .unwrap();
    symlink(outside.path("workflows/b"), project.path("workflows/b")).unwrap();
    symlink(
        project.path("workflows/_kept/w.md"),
        project.path("workflows/w.md"),
    )
    .unwrap();
    symlink(project.path("workflows"), project.path("workflows/loop")).unwrap();
    symlink(project.path("gone.md"), project.path("workflows/gone.md")).unwrap();
    let registry = project.load();
    assert!(registry.definition("w").is_ok());
    for (name, rule) in [
        ("out", Rule::OutsideDirectory),
        ("b", Rule::OutsideDirectory),
        ("gone", Rule::Unreadable),
    ] {
        let entry = registry.workflow(name).unwrap();
        assert_eq!(entry.findings[0].rule, rule, "{name}");
    }
}

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
        let line = |report: &midex::registry::FileReport| {
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

#[test]
fn directories_are_looked_for_in_order() {
    let project = Project::new(&[]);
    let flag = Path::new("/nowhere/at/all");
    let sources = Sources::discover(Some(flag), Some(&project.path("agents")), project.0.path());
    assert_eq!(sources.workflows[0].source, Source::Flag);
    assert_eq!(sources.workflows[1].path, project.path("workflows"));
    assert_eq!(sources.agents[0].source, Source::Flag);
    // Named and found: the same directory counts once.
    assert!(
        sources
            .agents
            .iter()
            .all(|directory| directory.source != Source::Project)
    );
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
    let code = list(&ListArgs { agents }, registry, json, &mut out).unwrap();
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
    assert_eq!(code, 1);
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
