//! Agents as hosts write them: those of `tests/corpus/agents.txt` in the project's own directory, and hosts' own directories.

use std::os::unix::fs::symlink;

use midex_domain::{finding::Finding, limits};
use serde_json::Value;

use midex_test::{
    Client, assert_has, list_of,
    project::{Project, each, text},
};

/// An agent of the corpus.
struct Case<'a> {
    name: &'a str,
    finds: &'a str,
    describes: &'a str,
    file: &'a str,
}

fn cases() -> Vec<Case<'static>> {
    let texts = include_str!("../../corpus/agents.txt").split("\n=== ").skip(1);
    let case = |text: &'static str| {
        let (head, file) = text.split_once("\n--- file\n").unwrap();
        let mut head = head.lines();
        let name = head.next().unwrap();
        let mut said = head.map(|line| line.split_once(": ").unwrap().1);
        Case { name, finds: said.next().unwrap(), describes: said.next().unwrap(), file }
    };
    texts.map(case).collect()
}

/// What `midex` prints for people who ask for JSON: a value for each line.
fn rows(project: &Project, arguments: &[&str]) -> Vec<Value> {
    let output = project.command(arguments).arg("--json").output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{out}"))).collect()
}

fn agent(project: &Project, name: &str) -> Value {
    let found = rows(project, &["list", "agents"]).into_iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("no agent {name}"))
}

#[test]
fn agents_as_hosts_write_them_are_read_and_an_edit_that_is_offered_mends_the_file() {
    let cases = cases();
    assert!(cases.len() > 10);
    for case in cases {
        let path = format!("agents/{}.md", case.name);
        let project = Project::new(&[(&path, case.file)]);
        let registry = midex_registry::Registry::load(&midex_registry::Sources::default());
        let findings = |project: &Project| {
            let reports =
                midex_registry::validate_paths(&[project.path(&path)], &registry).unwrap();
            reports.into_iter().next().unwrap().findings
        };
        let found: Vec<Finding> = findings(&project);
        let shown = agent(&project, case.name);
        assert_eq!(shown["valid"], true, "{}: {found:?}", case.name);
        assert_has(text(&shown["description"]), &[case.describes]);
        if case.finds == "nothing" {
            assert!(found.is_empty(), "{}: {found:?}", case.name);
            continue;
        }
        let [one] = &found[..] else { panic!("{}: {found:?}", case.name) };
        assert!(one.is_warning() && one.message.contains(case.finds), "{}: {one:?}", case.name);
        let edits = one.edits.clone();
        assert!(!edits.is_empty(), "{}: {one:?}", case.name);
        project.write(&path, &crate::corpus::edited(case.file, edits));
        assert!(findings(&project).is_empty(), "{}: {:?}", case.name, findings(&project));
        assert_eq!(
            agent(&project, case.name)["description"],
            shown["description"],
            "{}",
            case.name
        );
    }
}

#[test]
fn a_name_follows_the_manual_also_where_a_file_gives_it() {
    let odd = ["a b", "a/b", "-a", ".a", "größe", "a\u{200b}b", "名"];
    for name in odd {
        let text = format!(
            "workflow: {}\ndescription: d\nsteps: [{{ id: a, guidance: g }}]\n",
            serde_json::json!(name)
        );
        let project = Project::new(&[("workflows/w.yaml", &text)]);
        let registry = midex_registry::Registry::load(&midex_registry::Sources::default());
        let reports =
            midex_registry::validate_paths(&[project.path("workflows/w.yaml")], &registry).unwrap();
        let rules = list_of(&reports[0].findings, |one| (one.rule.as_str(), &*one.path));
        assert_eq!(rules, [("ill_formed_name", "workflow")], "{name}");
    }
    for name in ["a", "A.b_c-9", "_a", "9"] {
        let text = format!(
            "workflow: {}\ndescription: d\nsteps: [{{ id: a, guidance: g }}]\n",
            serde_json::json!(name)
        );
        let registry = midex_registry::Registry::load(&midex_registry::Sources::default());
        let (_, findings) = midex_registry::check_text("w.yaml", &text, &registry);
        assert!(findings.is_empty(), "{name}: {findings:?}");
    }
}

/// An agent that a host would read.
fn of_host(name: &str, words: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: {words}\ntools: Bash\ntags: a, b\n---\nYou are {words}.\n"
    )
}

#[test]
fn agents_of_hosts_are_used_where_no_agent_of_ours_has_the_name() {
    let long = "x".repeat(limits::DESCRIPTION_BYTES_MAX + 1);
    let project = Project::new(&[
        ("agents/ours.md", &midex_test::project::agent("ours", "You are ours.")),
        (".claude/agents/ours.md", &of_host("ours", "a thief")),
        (".claude/agents/reviewer.md", &of_host("reviewer", "a thief")),
        (".claude/agents/deep/theirs.md", &of_host("theirs", "the project's")),
        (".claude/agents/notes.md", "No front matter."),
        (".claude/agents/long.md", &of_host("long", &long)),
        ("home/.claude/agents/theirs.md", &of_host("theirs", "a thief")),
        ("home/.claude/agents/mine.md", &of_host("mine", "the user's")),
        (
            "workflows/w.yaml",
            "{ workflow: w, description: d, steps: [{ id: a, agent: theirs }, { id: b, agent: mine }, { id: c, agent: reviewer }] }",
        ),
    ]);
    symlink(project.path("agents/ours.md"), project.path(".claude/agents/linked.md")).unwrap();
    let all = rows(&project, &["list", "agents"]);
    let of = |name: &str| all.iter().find(|row| row["name"] == name);
    for (name, source) in [
        ("ours", "project"),
        ("reviewer", "shipped"),
        ("theirs", "project_host"),
        ("mine", "user_host"),
    ] {
        assert_eq!(of(name).unwrap()["source"], source, "{name}");
    }
    assert!(of("notes").is_none() && of("linked").is_none());
    let cut = text(&of("long").unwrap()["description"]).len();
    assert_eq!(cut, limits::DESCRIPTION_BYTES_MAX);
    assert_has(text(&of("theirs").unwrap()["path"]), &[".claude/agents/deep/theirs.md"]);
    let output = project.command(&["list", "agents", "--wide"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_has(&shown, &[".claude/agents/deep/theirs.md", "~/.claude/agents/mine.md"]);
    // Nothing of what a host is told to do is done, and whoever works is told where the words come from.
    let mut server = project.serve();
    let first = server.begin("w", "x");
    assert_eq!(first["agent_content"], "You are the project's.");
    assert_has(text(&first["instructions"]), &[".claude/agents/deep/theirs.md"]);
    let kept = server.read("midex://workflow/agent/theirs?execution_id=x");
    assert_has(text(&kept["file"]), &[".claude/agents/deep/theirs.md"]);
    // What is written for another program is not for `midex validate` to judge, unless it is named.
    let checked = project.command(&["validate", "--json"]).output().unwrap();
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.contains("w.yaml") && !checked.contains(".claude"), "{checked}");
}

#[test]
fn a_directory_of_a_host_that_is_a_link_is_not_followed() {
    let project = Project::new(&[("elsewhere/agents/led.md", &of_host("led", "a thief"))]);
    symlink(project.path("elsewhere"), project.path(".claude")).unwrap();
    let names = each(&rows(&project, &["list", "agents"]), "name");
    assert!(names.iter().all(|name| name != "led"), "{names:?}");
}
