//! Which files are definitions, and whose count.

use std::path::Path;

use midex_domain::{error::Code, finding::Rule};
use midex_registry::{LiveDefinitions, delete_workflow, validate_paths};

use super::*;

#[test]
fn what_is_shipped_is_clean() {
    let registry = Registry::load(&Sources::default());
    for entry in registry.workflows() {
        assert_eq!(entry.findings, [], "{}", entry.name);
        assert_eq!(entry.source, Source::Shipped);
        let definition = registry.definition(&entry.name).unwrap();
        let agents = definition.workflow.steps.iter();
        let mut agents = agents.filter(|step| step.agent_name().is_some());
        assert!(agents.all(|step| definition.persona(step).len() > 2000));
    }
    assert!(registry.agents().all(|entry| entry.findings.is_empty()));
    let reports = validate_paths(&[], &registry).unwrap();
    assert_eq!(reports.len(), 27);
    assert!(reports.iter().all(|report| report.findings.is_empty()));
}

#[test]
fn published_definitions_are_between_those_of_the_project_and_the_user() {
    let flow = |description: &str| {
        format!("workflow: w\ndescription: {description}\nsteps: [{{ id: a, guidance: g }}]\n")
    };
    let files = ["workflows", "published/workflows", "user/workflows"];
    let files = files.map(|directory| (format!("{directory}/w.yaml"), flow(directory)));
    let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let project = Project::new(&files);
    let places = DefinitionPlaces {
        cluster: Some(project.path("published")),
        user: Some(project.path("user")),
        ..places_of(project.0.path())
    };
    let definitions = LiveDefinitions::new(places);
    let source = || {
        let registry = definitions.current_registry();
        let entry = registry.workflow("w").unwrap();
        // Only definitions that a project contributes to need trust.
        let is_of_project = entry.value.as_ref().unwrap().is_from_project();
        assert_eq!(is_of_project, entry.source == Source::Project);
        entry.source
    };
    assert_eq!(source(), Source::Project);
    fs::remove_file(project.path("workflows/w.yaml")).unwrap();
    assert_eq!(source(), Source::Cluster);

    let own = DefinitionDirectory { source: Source::User, path: project.path("own") };
    let refused = delete_workflow(&definitions, &own, "w", None).unwrap_err();
    assert_eq!(refused.code(), Code::WorkflowNotWritable);
    assert!(refused.suggested_action().contains("runs `midex publish` there"), "{refused:?}");
    assert!(project.path("published/workflows/w.yaml").exists());
    fs::remove_file(project.path("published/workflows/w.yaml")).unwrap();
    assert_eq!(source(), Source::User);
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
        ("agents/reviewer.md", "---\nname: reviewer\ndescription: mine\n---\nMine.\n"),
    ]);
    let mut sources = project.sources();
    sources
        .workflows
        .insert(0, DefinitionDirectory { source: Source::Flag, path: flag.path("workflows") });
    let registry = Registry::load(&sources);
    let entry = registry.workflow("bug-fix").unwrap();
    assert_eq!(entry.source, Source::Flag);
    assert_eq!(entry.path.as_deref(), Some(flag.path("workflows/fix.md").as_path()));
    let definition = registry.definition("bug-fix").unwrap();
    assert_eq!(definition.persona(&definition.workflow.steps[0]), "Mine.");

    let error = registry.definition("feature-development").unwrap_err();
    assert_eq!(error.code(), Code::WorkflowValidationFailed);
    assert_eq!(error.violations()[0].rule, "missing_front_matter");
    assert!(error.suggested_action().contains("workflows/feature-development.md"));
    assert_eq!(
        registry.workflows().count(),
        Registry::load(&Sources::default()).workflows().count()
    );

    let error = registry.definition("bugfix").unwrap_err();
    assert_eq!(error.code(), Code::WorkflowNotFound);
    assert_eq!(error.message(), "Workflow 'bugfix' not found; did you mean 'bug-fix'?");
    assert_eq!(registry.definition("xyz").unwrap_err().message(), "Workflow 'xyz' not found");
}

#[test]
fn of_two_files_with_one_name_the_first_has_it() {
    let text = front(&format!("phases:\n{PHASE}"));
    let project = Project::new(&[("workflows/a.md", &text), ("workflows/b/c.md", &text)]);
    let registry = project.load();
    assert!(registry.definition("w").is_ok());
    let entries: Vec<_> = registry.workflows().filter(|entry| entry.name == "w").collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(places(&entries[1].findings), ["2:7 duplicate_name name"]);
    assert!(entries[1].findings[0].message.contains("a.md"));
    assert!(entries[1].value.is_none());
}

#[test]
fn a_broken_persona_is_a_finding_of_the_step_that_names_it() {
    let project = Project::new(&[
        ("agents/reviewer.md", "---\nname: reviewer\ntags: [1]\n---\n\n"),
        ("workflows/w.md", &front(&format!("phases:\n{PHASE}"))),
    ]);
    let registry = project.load();
    holds(
        &registry.agent("reviewer").unwrap().findings,
        &["2:1 missing_key description", "3:8 wrong_type tags[0]", "5:1 empty_persona "],
    );
    finds(&registry, "w", &["6:12 invalid_persona phases[0].agent"]);
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
    let own: Vec<_> =
        registry.workflows().filter(|entry| entry.source == Source::Project).collect();
    assert_eq!(own.len(), 1);
    assert!(own[0].findings.is_empty());
    assert!(registry.agents().all(|entry| entry.source == Source::Shipped));
}

#[test]
fn a_file_that_cannot_be_read_is_an_entry() {
    let project = Project::new(&[]);
    fs::write(project.path("workflows/latin.md"), b"---\nname: caf\xe9\n---\n").unwrap();
    let mut sources = project.sources();
    sources
        .workflows
        .push(DefinitionDirectory { source: Source::User, path: project.path("nowhere") });
    let registry = Registry::load(&sources);
    finds(&registry, "latin", &["2:10 not_utf8 "]);
    finds(&registry, "nowhere", &["1:1 unreadable "]);
}

#[cfg(unix)]
#[test]
fn a_link_may_not_leave_the_directory() {
    use std::os::unix::fs::symlink;
    let text = front(&format!("phases:\n{PHASE}"));
    let outside = Project::new(&[("workflows/out.md", &text), ("workflows/b/in.md", &text)]);
    let project = Project::new(&[("workflows/_kept/w.md", &text)]);
    symlink(outside.path("workflows/out.md"), project.path("workflows/out.md")).unwrap();
    symlink(outside.path("workflows/b"), project.path("workflows/b")).unwrap();
    symlink(project.path("workflows/_kept/w.md"), project.path("workflows/w.md")).unwrap();
    symlink(project.path("workflows"), project.path("workflows/loop")).unwrap();
    symlink(project.path("gone.md"), project.path("workflows/gone.md")).unwrap();
    let registry = project.load();
    assert!(registry.definition("w").is_ok());
    // Not by way of `loop`, which comes before it.
    assert_eq!(registry.workflow("w").unwrap().path, Some(project.path("workflows/w.md")));
    for (name, rule) in
        [("out", Rule::OutsideDirectory), ("b", Rule::OutsideDirectory), ("gone", Rule::Unreadable)]
    {
        let entry = registry.workflow(name).unwrap();
        assert_eq!(entry.findings[0].rule, rule, "{name}");
    }
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
    assert!(sources.agents.iter().all(|directory| directory.source != Source::Project));
}
