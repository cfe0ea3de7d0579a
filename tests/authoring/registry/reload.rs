//! Loading anew: what a broken file keeps, what goes with a deleted one, and what counts as a change.

use midex_registry::{AgentEntry, WorkflowEntry};

use super::*;

/// A workflow of this name that says this of itself.
fn workflow(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\nphases:\n{PHASE}---\n# Body\n")
}

fn persona(description: &str, body: &str) -> String {
    format!("---\nname: reviewer\ndescription: {description}\n---\n{body}\n")
}

fn description(entry: &WorkflowEntry) -> &str {
    let definition = entry.value.as_ref();
    definition.map_or("", |definition| &definition.workflow.description)
}

/// The names of the project's own workflows, each with its state and its description.
fn own(registry: &Registry) -> Vec<String> {
    let state = |entry: &WorkflowEntry| match (entry.is_stale(), entry.value.is_some()) {
        (true, _) => "stale",
        (false, true) => "good",
        (false, false) => "broken",
    };
    let own = registry.workflows().filter(|entry| entry.path.is_some());
    own.map(|entry| format!("{} {} {}", entry.name, state(entry), description(entry))).collect()
}

/// What is written to `workflows/w.md` one after another, and what the registry shows after each.
#[track_caller]
fn check_history(history: &[(&str, &str)]) {
    let project = Project::new(&[]);
    let mut registry = project.load();
    for (text, expected) in history {
        project.write("workflows/w.md", text);
        registry = registry.reload(&project.sources());
        assert_eq!(own(&registry), [*expected], "{text}");
    }
}

#[test]
fn a_broken_file_keeps_its_last_good_version_until_it_is_mended() {
    let good = workflow("w", "one");
    let broken = good.replace("reviewer", "reveiwer");
    let project = Project::new(&[("workflows/w.md", &good)]);
    let first = project.load();
    assert_eq!(own(&first), ["w good one"]);

    project.write("workflows/w.md", &broken);
    let second = first.reload(&project.sources());
    assert_eq!(own(&second), ["w stale one"]);
    let entry = second.workflow("w").unwrap();
    assert_eq!(places(&entry.findings), ["6:12 missing_persona phases[0].agent"]);
    assert_eq!(second.definition("w").unwrap().digest(), first.definition("w").unwrap().digest());

    project.write("workflows/w.md", "# nothing\n");
    let third = second.reload(&project.sources());
    assert_eq!(own(&third), ["w stale one"]);
    finds(&third, "w", &["1:1 missing_front_matter "]);

    project.write("workflows/w.md", &workflow("w", "two"));
    let fourth = third.reload(&project.sources());
    assert_eq!(own(&fourth), ["w good two"]);
    assert_eq!(fourth.workflow("w").unwrap().findings, []);
}

#[test]
fn what_was_never_good_is_listed_without_a_definition() {
    check_history(&[
        ("# nothing\n", "w broken "),
        ("---\nname: w\n---\n", "w broken "),
        (&workflow("w", "one"), "w good one"),
    ]);
}

#[test]
fn a_stale_workflow_keeps_its_name_whatever_the_broken_text_says() {
    let renamed = workflow("x", "two");
    check_history(&[
        (&workflow("good-name", "one"), "good-name good one"),
        ("no front matter", "good-name stale one"),
        (&renamed.replace("phase:", "fase:"), "good-name stale one"),
        (&renamed, "x good two"),
    ]);
}

#[test]
fn a_file_that_can_no_longer_be_read_keeps_its_last_good_version() {
    let project = Project::new(&[("workflows/w.md", &workflow("w", "one"))]);
    let good = project.load();
    fs::write(project.path("workflows/w.md"), b"---\nname: caf\xe9\n---\n").unwrap();
    let latin = good.reload(&project.sources());
    assert_eq!(own(&latin), ["w stale one"]);
    holds(&latin.workflow("w").unwrap().findings, &["2:10 not_utf8 "]);
    let length = usize::try_from(midex_domain::limits::DEFINITION_BYTES_MAX).unwrap();
    project.write("workflows/w.md", &"x".repeat(length + 1));
    let large = latin.reload(&project.sources());
    assert_eq!(own(&large), ["w stale one"]);
}

#[test]
fn a_broken_manifest_keeps_its_last_good_version_too() {
    let step = "  - id: a\n    agent: reviewer\n";
    let project = Project::new(&[("workflows/w.yaml", &steps(step))]);
    let good = project.load();
    project.write("workflows/w.yaml", "workflow: w\nsteps: [\n");
    assert_eq!(own(&good.reload(&project.sources())), ["w stale d"]);
}

#[test]
fn a_deleted_file_uncovers_what_lies_farther_off_also_where_it_was_broken() {
    let user = Project::new(&[("workflows/w.md", &workflow("w", "the user's"))]);
    let project = Project::new(&[("workflows/w.md", &workflow("w", "the project's"))]);
    let mut sources = project.sources();
    sources
        .workflows
        .push(DefinitionDirectory { source: Source::User, path: user.path("workflows") });
    let good = Registry::load(&sources);
    assert_eq!(own(&good), ["w good the project's"]);

    project.write("workflows/w.md", "# nothing\n");
    let stale = good.reload(&sources);
    assert_eq!(own(&stale), ["w stale the project's"]);

    fs::remove_file(project.path("workflows/w.md")).unwrap();
    let uncovered = stale.reload(&sources);
    assert_eq!(own(&uncovered), ["w good the user's"]);
    assert_eq!(uncovered.workflow("w").unwrap().source, Source::User);

    fs::remove_file(user.path("workflows/w.md")).unwrap();
    assert_eq!(own(&uncovered.reload(&sources)), [""; 0]);
}

/// Some editors remove the file and write it anew.
#[test]
fn a_file_that_was_gone_for_one_load_still_has_its_last_good_version() {
    let project = Project::new(&[("workflows/w.md", &workflow("w", "one"))]);
    let good = project.load();
    fs::remove_file(project.path("workflows/w.md")).unwrap();
    let gone = good.reload(&project.sources());
    assert_eq!(own(&gone), [""; 0]);
    project.write("workflows/w.md", "---\nname: w\n");
    assert_eq!(own(&gone.reload(&project.sources())), ["w stale one"]);
    let long_gone = {
        fs::remove_file(project.path("workflows/w.md")).unwrap();
        gone.reload(&project.sources())
    };
    project.write("workflows/w.md", "---\nname: w\n");
    assert_eq!(own(&long_gone.reload(&project.sources())), ["w broken "]);
}

#[test]
fn of_one_name_the_file_that_can_be_used_comes_first() {
    let project = Project::new(&[("workflows/w.md", &workflow("w", "one"))]);
    let good = project.load();
    // Another file, sorted before it, takes the name and is broken itself.
    project.write("workflows/a.md", "---\nname: w\n---\n");
    let taken = good.reload(&project.sources());
    assert_eq!(own(&taken), ["w stale one", "w broken "]);
    finds(&taken, "w", &["2:7 duplicate_name name"]);
    // Once it is good, it is what its place says: the one that has the name.
    project.write("workflows/a.md", &workflow("w", "other"));
    let mended = taken.reload(&project.sources());
    assert_eq!(own(&mended), ["w good other", "w stale one"]);
}

#[test]
fn a_broken_agent_keeps_its_persona_and_the_workflows_that_name_it() {
    let project = Project::new(&[
        ("agents/reviewer.md", &persona("mine", "Mine.")),
        ("workflows/w.md", &workflow("w", "one")),
    ]);
    let good = project.load();
    let reviewer = |registry: &Registry| {
        let entry: &AgentEntry = registry.agent("reviewer").unwrap();
        let content = entry.value.as_ref().map(|persona| &persona.content);
        (entry.is_stale(), content.cloned(), places(&entry.findings))
    };
    assert_eq!(reviewer(&good), (false, Some("Mine.".into()), vec![]));

    project.write("agents/reviewer.md", &persona("mine", ""));
    let stale = good.reload(&project.sources());
    let (is_stale, content, findings) = reviewer(&stale);
    assert_eq!((is_stale, content.as_deref()), (true, Some("Mine.")));
    assert_eq!(findings, ["5:1 empty_persona "]);
    assert_eq!(own(&stale), ["w good one"]);
    // Also a workflow that names it only now.
    project.write("workflows/w.md", &workflow("w", "two"));
    let stale = stale.reload(&project.sources());
    assert_eq!(own(&stale), ["w good two"]);
    let definition = stale.definition("w").unwrap();
    assert_eq!(definition.persona(&definition.workflow.steps[0]), "Mine.");

    // Without its file the shipped one shows.
    fs::remove_file(project.path("agents/reviewer.md")).unwrap();
    let uncovered = stale.reload(&project.sources());
    assert_eq!(uncovered.agent("reviewer").unwrap().source, Source::Shipped);
    assert!(!uncovered.agent("reviewer").unwrap().is_stale());
}

#[test]
fn only_what_shows_counts_as_a_change() {
    let project = Project::new(&[
        ("agents/reviewer.md", &persona("mine", "Mine.")),
        ("workflows/w.md", &workflow("w", "one")),
    ]);
    let mut registry = project.load();
    let mut changed = |path: &str, text: Option<&str>| {
        match text {
            Some(text) => project.write(path, text),
            None => fs::remove_file(project.path(path)).unwrap(),
        }
        let next = registry.reload(&project.sources());
        let changed = !next.has_same_entries(&registry);
        assert_eq!(changed, !registry.has_same_entries(&next));
        registry = next;
        changed
    };
    let w = "workflows/w.md";
    assert!(!changed(w, Some(&workflow("w", "one"))), "the same text");
    assert!(!changed("workflows/notes.txt", Some("x")), "no definition");
    assert!(!changed("workflows/README.md", Some("# Read\n")), "a README");
    assert!(changed(w, Some(&workflow("w", "two"))), "another definition");
    assert!(changed(w, Some("# a\n")), "now with findings");
    assert!(changed(w, Some("# b\n")), "the same finding of another text");
    assert!(changed(w, Some("---\n# c\n")), "another finding");
    assert!(changed(w, Some(&workflow("w", "two"))), "mended");
    assert!(changed(w, Some(&workflow("x", "two"))), "another name");
    assert!(changed("workflows/a.md", Some("")), "one more");
    assert!(changed("workflows/a.md", None), "one less");
    let agent = "agents/reviewer.md";
    assert!(changed(agent, Some(&persona("my", "Mine."))), "a persona");
    assert!(changed(agent, Some(&persona("my", ""))), "a broken one");
    assert!(changed(agent, None), "one less, which the shipped one replaces");
}
