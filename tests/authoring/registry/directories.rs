//! Directories of definitions: what is good in them is listed, what is not is reported, and stops nobody else.

use serde_json::json;

use midex_test::{
    Client, has_code, has_fields,
    project::{PERSONA, Project, agent, each, line, list, text, workflow},
    rows,
};

const PHASES: [(&str, &str, &[&str]); 2] = [("a", "worker", &[]), ("b", "worker", &["a"])];

/// Files with one thing wrong in each, and where: `field: rule`. The entry has the file's name.
fn broken() -> Vec<(&'static str, String, &'static str)> {
    let whole = rows(
        r##"
        "plain.md", "# No front matter\n", ": missing_front_matter"
        "open.md", "---\nname: open\n", ": unclosed_front_matter"
        "yaml.md", "---\nname: yaml\n  bad: [\n---\n", ": syntax"
        "manifest.yaml", "workflow: manifest\ndescription: d\nsteps:\n- {id: a, guidance: x, stall_after: 5m}\n", "steps[0].stall_after: not_supported_yet"
        "json.json", "{\"workflow\": \"json\", \"description\": 5}", "description: wrong_type"
        "##,
    );
    // The others have one text of a good file replaced by another.
    let good = rows(
        r#"
        "tags.md", "phases:", "tags: text\nphases:", "tags: wrong_type"
        "hard.md", "phases:", "complexity: hard\nphases:", "complexity: unknown_value"
        "key.md", "phases:", "phase: x\nphases:", "phase: unknown_key"
        "mute.md", "description: A test\n", "", "description: missing_key"
        "nameless.md", "name: nameless\n", "", "name: missing_key"
        "agentless.md", "    agent: worker\n", "", "phases[0].agent: missing_key"
        "#,
    );
    let whole = whole.into_iter().map(|[file, text, wrong]| (file, text.to_owned(), wrong));
    let good = good.into_iter().map(|[file, from, to, wrong]| {
        let text = workflow(file.trim_end_matches(".md"), &PHASES);
        (file, text.replace(from, to), wrong)
    });
    whole.chain(good).collect()
}

/// "extract all three types", "parse agent frontmatter", "reject invalid frontmatter", "sync errors gracefully"
/// The number of no process: it is past the largest.
const NOBODY: u32 = 4_194_305;

#[test]
fn what_a_killed_save_left_is_removed_at_the_next_start() {
    let project = Project::new(&[]);
    let left = |pid: u32| format!("home/.config/midex/workflows/.midex-{pid}-0.tmp");
    let (forsaken, alive) = (left(NOBODY), left(std::process::id()));
    project.write(&forsaken, "half a workf");
    project.write(&alive, "half a workf");
    let mut server = project.serve();
    server.begin("bug-fix", "x");
    assert!(!project.path(&forsaken).exists() && project.path(&alive).exists());
}

#[test]
fn good_files_are_listed_and_each_bad_one_is_reported_by_file_and_field() {
    let project = line();
    for (file, text, ..) in broken() {
        project.write(&format!("workflows/{file}"), &text);
    }
    project.write("workflows/deep/down/nested.md", &workflow("nested", &PHASES));
    project.write(
        "workflows/good.yaml",
        "workflow: good\ndescription: d\nsteps:\n- { id: a, agent: worker }\n",
    );
    project.write("workflows/good.json", "{\"workflow\": \"as-json\", \"description\": \"d\", \"steps\": [{\"id\": \"a\", \"agent\": \"worker\"}]}");
    let mut server = project.serve();
    for (file, _, wrong) in broken() {
        let (name, _) = file.split_once('.').unwrap();
        let (field, rule) = wrong.split_once(": ").unwrap();
        let shown = server.available(name);
        assert_eq!(shown["valid"], false, "{file}: {shown}");
        let findings = list(&shown["findings"]);
        let found =
            findings.iter().find(|finding| finding["rule"] == rule && finding["path"] == field);
        let found =
            found.unwrap_or_else(|| panic!("{file}: {rule} at {field} is missing in {findings:?}"));
        assert!(found["line"].as_u64() >= Some(1) && found["column"].as_u64() >= Some(1));
        let refused = server.refused("workflow.start", json!({ "workflow_name": name }));
        has_code(&refused, "WORKFLOW_VALIDATION_FAILED");
        assert_eq!(
            text(&refused["context"]["path"]),
            project.path(&format!("workflows/{file}")).to_str().unwrap()
        );
        let named = each(&list(&refused["violations"]), "path");
        assert!(named.contains(&field.to_owned()), "{named:?}");
    }
    for name in ["line", "nested", "good", "as-json", "bug-fix"] {
        assert!(server.available(name)["findings"].is_null(), "{name}");
        assert_eq!(server.begin(name, name)["workflow_state"], "running");
    }
}

#[test]
fn a_bad_agent_is_reported_by_field_and_so_is_who_names_it() {
    let project = line();
    let phases: [(&str, &str, &[&str]); 1] = [("a", "bad", &[])];
    project.write("agents/bad.md", &agent("bad", PERSONA).replace("A test", "[1]"));
    project.write("agents/empty.md", &agent("empty", ""));
    project.write("workflows/uses.md", &workflow("uses", &phases));
    let mut server = project.serve();
    for (name, field, rule) in
        [("bad", "description", "wrong_type"), ("empty", "", "empty_persona")]
    {
        let shown = server.read(&format!("midex://workflow/agent/{name}"));
        assert_eq!(shown["valid"], false, "{shown}");
        let finding = &shown["findings"][0];
        assert_eq!(finding["path"], json!(field), "{shown}");
        assert_eq!(finding["rule"], json!(rule), "{shown}");
    }
    let finding = &server.available("uses")["findings"][0];
    has_fields(finding, json!({ "path": "phases[0].agent", "rule": "invalid_persona" }));
    let worker = server.read("midex://workflow/agent/worker");
    has_fields(&worker, json!({ "content": PERSONA, "valid": null }));
    assert_eq!(server.begin("line", "e")["agent_content"], PERSONA);
}

/// "missing directories"
#[test]
fn a_directory_that_is_not_there_is_no_crash() {
    let project = Project::new(&[]);
    let mut server = project.serve_with(&["--workflows", "nowhere", "--agents", "nowhere"]);
    assert!(server.available("bug-fix")["findings"].is_null());
    let entries = list(&server.read("midex://workflow/available_workflows"));
    let told = entries.iter().find(|entry| entry["findings"][0]["rule"] == "unreadable");
    assert!(told.is_some(), "a directory that was named and is not there is told: {entries:?}");
    assert_eq!(server.begin("bug-fix", "e")["workflow_state"], "running");
}

/// "map complexityHint", "phases survive loading"
#[test]
fn what_a_file_says_is_what_is_shown() {
    let project = line();
    let phases =
        [("a", "worker", &[] as &[&str]), ("b", "reviewer", &["a"]), ("c", "worker", &["b", "a"])];
    let file = workflow("whole", &phases)
        .replace("phases:", "tags: [one, two]\ncomplexity: simple\nphases:");
    project.write("workflows/whole.md", &(file + "\nWhen to use it…\n"));
    let mut server = project.serve();
    let expected = json!([
        { "phase": "a", "agent": "worker", "description": "Do a", "dependsOn": [] },
        { "phase": "b", "agent": "reviewer", "description": "Do b", "dependsOn": ["a"] },
        { "phase": "c", "agent": "worker", "description": "Do c", "dependsOn": ["b", "a"] },
    ]);
    let details = server.read("midex://workflow/workflow_details/whole");
    for shown in [&server.available("whole"), &details] {
        has_fields(shown, json!({ "name": "whole", "description": "A test" }));
        has_fields(shown, json!({ "tags": ["one", "two"], "complexity": "simple" }));
        assert_eq!(shown["phases"], expected);
    }
    has_fields(&details, json!({ "content": "# whole\n\nWhen to use it…", "source": "project" }));
}
