//! What is found in a file, and where exactly.

use std::fmt::Write;

use midex_domain::{finding::Rule, limits};

use super::*;

#[test]
fn every_finding_of_front_matter_has_its_place() {
    check("w.md", "# No front matter\n", &["1:1 missing_front_matter "]);
    check("w.md", "---\nname: w\n# no end\n", &["1:1 unclosed_front_matter "]);
    check(
        "w.md",
        "---\n---\n",
        &["1:1 missing_key name", "1:1 missing_key description", "1:1 missing_key phases"],
    );
    check("w.md", "---\nname: w\n  bad: [\n---\n", &["3:6 syntax "]);
    check("w.md", "---\n- a\n---\n", &["2:1 wrong_type "]);
    check_front("phases: []\n", &["4:9 no_steps phases"]);
    check_front("phases: x\n", &["4:9 wrong_type phases"]);
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
    check_front(
        "phases:\n  - phase: a\n  - agent: reviewer\n  - x\n",
        &[
            "5:5 missing_key phases[0].agent",
            "6:5 missing_key phases[1].phase",
            "7:5 wrong_type phases[2]",
        ],
    );
}

#[test]
fn every_finding_of_the_order_has_its_place() {
    check_front(
        "phases:\n  - phase: design\n    agent: architect\n  - phase: design\n    agent: reviewer\n    dependsOn: [desing, design, design]\n  - phase: c\n    agent: reviewer\n    dependsOn: c\n",
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
    check("w.md", &cycle, &["10:17 cyclic_dependency phases[1].dependsOn[0]"]);
    assert_eq!(
        findings_of("w.md", &cycle)[0].message,
        "these phases wait for each other: a → c → b → a"
    );
    let implied = steps(
        "  - id: a\n    agent: reviewer\n    depends_on: b\n  - id: b\n    agent: reviewer\n",
    );
    check("w.yaml", &implied, &["6:17 cyclic_dependency steps[0].depends_on"]);
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
            "1:1 missing_key steps",
            "1:1 missing_description description",
        ],
    );
    check(
        "w.yaml",
        "workflow: w\ndescription: d\nmemory: {}\nversoin: 1\nname: x\nsteps:\n  - id: a\n    description: none\n  - id: b\n    agent: reviewer\n    run: cat op\n    retry: {max_attempts: 2}\n  - id: c\n    gate: {ask: ok}\n  - id: d\n    agent: reviewer\n    depends_on: [a]\n    dependsOn: [a]\n    depend_on: []\n    id: e\n",
        &[
            "4:1 unknown_key versoin",
            "5:1 unknown_key name",
            "7:5 missing_kind steps[0]",
            "11:5 several_kinds steps[1].run",
            "18:5 duplicate_key steps[3].dependsOn",
            "19:5 unknown_key steps[3].depend_on",
            "20:5 duplicate_key steps[3].id",
        ],
    );
    check_steps(
        "  - id: a\n    agent: reviewer\n    result:\n      type: object\n      properties:\n        x: {type: strin}\n",
        &["9:19 invalid_schema steps[0].result.properties.x.type"],
    );
    check_steps(
        "  - id: a\n    agent: reviewer\n    result:\n      type: object\n      anyOf: [{type: string, type: number}]\n",
        &["8:30 duplicate_key steps[0].result.anyOf[0].type"],
    );
    check_steps(
        "  - id: a\n    agent: reviewer\n    result: {$ref: \"https://example.com/schema.json\"}\n",
        &["6:20 invalid_schema steps[0].result.$ref"],
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
    let mut many = String::new();
    for at in 0..501 {
        writeln!(many, "  - phase: p{at}\n    agent: reviewer").unwrap();
    }
    check_front(&format!("phases:\n{many}"), &["5:3 limit_exceeded phases"]);
    let huge = format!("{}{}", front(&format!("phases:\n{PHASE}")), "x".repeat(1 << 20));
    check("w.md", &huge, &["1:1 file_too_large "]);
}

#[test]
fn order_follows_from_what_is_said() {
    let list = front(&format!("phases:\n{PHASE}  - phase: b\n    agent: reviewer\n"));
    assert_eq!(order_of("w.md", &list), ["a after []", "b after [a]"]);
    let parallel = front(&format!(
        "phases:\n  - phase: sum\n    agent: reviewer\n    dependsOn: [b, a]\n    allowParallel: false\n{PHASE}    allowParallel: true\n  - phase: b\n    agent: reviewer\n"
    ));
    assert_eq!(order_of("w.md", &parallel), ["sum after [b a]", "a after []", "b after []"]);
    let manifest = steps(
        "  - id: a\n    agent: reviewer\n  - id: b\n    agent: reviewer\n  - id: c\n    agent: reviewer\n    depends_on: []\n  - id: d\n    agent: reviewer\n    dependsOn: a\n",
    );
    assert_eq!(
        order_of("w.yaml", &manifest),
        ["a after []", "b after [a]", "c after []", "d after [a]"]
    );
    check_front(
        &format!(
            "phases:\n{PHASE}    allowParallel: false\n    dependsOn: []\n  - phase: b\n    agent: reviewer\n"
        ),
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
    assert_eq!(workflow.steps[0].result, Some(serde_json::json!({"type": "object"})));
    let plain = text.replace(r" \ud83d\ude00", "");
    let project = Project::new(&[("workflows/w.json", &plain)]);
    assert_eq!(project.load().definition("w").unwrap().workflow.version.as_deref(), Some("1.10"));
    check("w.json", "{\n  \"workflow\": \"w\",\n}\n", &["2:18 syntax "]);
    check(
        "w.json",
        "{\"steps\": [], \"workflow\": \"w\", \"agnt\": 1}",
        &["1:1 missing_description description", "1:11 no_steps steps", "1:32 unknown_key agnt"],
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
        ("workflows/w.md", &front("phases:\n  - phase: no\n    agent: off\n")),
    ]);
    let registry = project.load();
    let persona = registry.agent("off").unwrap().value.clone().unwrap();
    assert_eq!(persona.version.as_deref(), Some("1.10"));
    assert_eq!(persona.tags, ["on", "yes"]);
    assert_eq!(persona.extra["tools"], serde_json::json!(["a", "b"]));
    assert_eq!(persona.content, "You.");
    let definition = registry.definition("w").unwrap();
    assert_eq!(definition.workflow.steps[0].id.as_str(), "no");
    check_front(
        "tags: [true, 1]\nphases: []\n",
        &["4:8 wrong_type tags[0]", "4:14 wrong_type tags[1]", "5:9 no_steps phases"],
    );
}

#[test]
fn an_alias_bomb_is_refused_at_once() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for at in 1..30 {
        let before = vec![format!("*a{}", at - 1); 10].join(", ");
        writeln!(bomb, "a{at}: &a{at} [{before}]").unwrap();
    }
    let findings = findings_of("w.yaml", &bomb);
    assert_eq!(findings[0].rule, Rule::Syntax, "{findings:?}");
}

/// Each level of nesting costs stack, and a test thread has as little of it as a worker.
#[test]
fn deep_nesting_is_refused_before_the_stack_ends() {
    for (open, close) in [("[", "]"), ("{x: ", "}")] {
        for (depth, rule) in [(20, Rule::WrongType), (500, Rule::Syntax), (100_000, Rule::Syntax)] {
            let text = format!("workflow: {}{}", open.repeat(depth), close.repeat(depth));
            let findings = findings_of("w.yaml", &text);
            assert!(findings.iter().any(|finding| finding.rule == rule), "{findings:?}");
        }
        let mut block = String::new();
        for depth in 0..500 {
            writeln!(block, "{}x:", " ".repeat(depth)).unwrap();
        }
        assert_eq!(findings_of("w.yaml", &block)[0].rule, Rule::Syntax);
    }
    let deep = |depth| format!("{{\"workflow\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    for depth in [100, 100_000] {
        let findings = findings_of("w.json", &deep(depth));
        assert_eq!(findings[0].rule, Rule::Syntax, "{depth}");
        assert!(findings[0].column > 1, "{findings:?}");
    }
    // What YAML cannot read keeps the same budgets.
    let emoji = |rest: &str| format!("{{\"workflow\": \"\\ud83d\\ude00\", \"x\": {rest}}}");
    let wide = format!("[{}1]", "1,".repeat(limits::YAML_EVENTS_MAX));
    for rest in [&deep(100), &wide] {
        assert_eq!(findings_of("w.json", &emoji(rest))[0].rule, Rule::Syntax);
        let plain = emoji(rest).replace("\\ud83d\\ude00", "w");
        assert_eq!(findings_of("w.json", &plain)[0].rule, Rule::Syntax);
    }
    assert_ne!(findings_of("w.json", &emoji("[1]"))[0].rule, Rule::Syntax);
}

/// Wherever a file breaks off, there is an answer, and it lies within the text.
#[test]
fn a_file_may_break_off_anywhere() {
    let manifest = "workflow: w\ndescription: é\u{1f600}\nsteps:\n\t- id: \"a\\x41\"\n  - {id: b, agent: [x, *y], result: {type: &y object}}\r\n  - |\n    text\n  - ? [k]\n    : v\n";
    let markdown = front(
        "tags: [a, 'b']\nphases:\n  - phase: é\n    agent: reviewer\n    dependsOn: [\"x\"]\n",
    );
    let json = r#"{"workflow": "w", "steps": [{"id": "a", "é": [1.5e3, null, true]}]}"#;
    let project = Project::new(&[]);
    for (extension, text) in [("yaml", manifest), ("md", &markdown), ("json", json)] {
        for (at, _) in text.char_indices() {
            project.write(&format!("workflows/{extension}-{at}.{extension}"), &text[..at]);
            project.write(&format!("workflows/{extension}-{at}b.{extension}"), &text[at..]);
        }
    }
    let reports =
        midex_registry::validate_paths(&[project.path("workflows")], &project.load()).unwrap();
    assert!(reports.len() > 400);
    for report in reports {
        let text = &report.text;
        for finding in &report.findings {
            assert!((1..=text.split('\n').count()).contains(&finding.line), "{finding:?} {text:?}");
            assert!(text.get(finding.start..finding.end).is_some(), "{finding:?} {text:?}");
        }
        let drawn = midex_cli::diagnostic::render(&report.path, text, &report.findings, false);
        assert_eq!(
            drawn.matches("error[").count() + drawn.matches("warning[").count(),
            report.findings.len(),
            "{drawn}"
        );
    }
}
