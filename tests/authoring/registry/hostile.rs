//! Directories of definitions as a cloned repository may have them: too many files, too large ones, and links that lead out.
#![expect(
    clippy::disallowed_methods,
    reason = "how long others wait is told by the machine's own clock"
)]

use std::{
    os::unix::fs::symlink,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use midex_domain::{finding::Rule, limits};
use midex_registry::{LiveDefinitions, validate_paths};

use super::*;
use midex_test::long::rounds;

/// What a file of the user's holds that no project may see.
const TOKEN: &str = "oauth_token: ghs_0123456789";

fn places(project: &Project) -> DefinitionPlaces {
    DefinitionPlaces { user: Some(project.path("user")), ..places_of(project.0.path()) }
}

/// A sound manifest of this name and of so many bytes.
fn manifest(name: &str, bytes: usize) -> String {
    let head = format!("workflow: {name}\ndescription: d\nsteps:\n  - {{id: a, guidance: g}}\n");
    let comment = format!("# {}\n", "x".repeat(76));
    format!("{head}{}", comment.repeat(bytes.saturating_sub(head.len()) / comment.len()))
}

fn all_findings(registry: &Registry) -> Vec<String> {
    let entries = registry.all_workflows().flat_map(|entry| &entry.findings);
    let agents = registry.agents().flat_map(|entry| &entry.findings);
    let shown = entries.chain(agents);
    shown.map(|one| format!("{} {}", one.rule, one.message)).collect()
}

#[test]
fn a_project_does_not_make_files_outside_of_it_definitions() {
    let project = Project::new(&[]);
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("hosts.yml"), TOKEN).unwrap();
    fs::write(
        home.path().join("note.md"),
        format!("---\nname: note\ndescription: d\n---\n{TOKEN}\n"),
    )
    .unwrap();
    let told = home.path().canonicalize().unwrap().display().to_string();
    let links = ["workflows", "agents", "workflows/hosts.yml", "workflows/deep", "agents/note.md"];
    for link in links {
        let project_path = |path: &str| project.path(path);
        let target = match link {
            "workflows/hosts.yml" => home.path().join("hosts.yml"),
            "agents/note.md" => home.path().join("note.md"),
            _ => home.path().to_owned(),
        };
        let is_root = !link.contains('/');
        if is_root {
            fs::remove_dir(project_path(link)).unwrap();
        }
        symlink(&target, project_path(link)).unwrap();
        let definitions = LiveDefinitions::new(places(&project));
        let registry = definitions.current_registry();
        let findings = all_findings(&registry);
        assert!(
            findings.iter().any(|one| one.starts_with("outside_directory") && one.contains(&told)),
            "{link}: {findings:?}"
        );
        assert!(!format!("{registry:?}").contains(TOKEN), "{link}");
        // Neither does a check of the project.
        let reports = validate_paths(&[project.path("")], &registry).unwrap();
        assert!(!format!("{reports:?}").contains(TOKEN), "{link}");
        fs::remove_file(project_path(link)).unwrap();
        if is_root {
            fs::create_dir(project_path(link)).unwrap();
        }
    }
}

#[test]
fn links_inside_a_project_and_of_the_user_are_followed() {
    let project = Project::new(&[("flows/inside.yaml", &manifest("inside", 0))]);
    let dotfiles = TempDir::new().unwrap();
    fs::write(dotfiles.path().join("mine.yaml"), manifest("mine", 0)).unwrap();
    fs::remove_dir(project.path("workflows")).unwrap();
    symlink(project.path("flows"), project.path("workflows")).unwrap();
    symlink("inside.yaml", project.path("flows/again.yaml")).unwrap();
    fs::create_dir(project.path("user")).unwrap();
    symlink(dotfiles.path(), project.path("user/workflows")).unwrap();
    let registry = LiveDefinitions::new(places(&project)).current_registry();
    assert_eq!(all_findings(&registry), [""; 0]);
    assert!(registry.definition("inside").is_ok());
    assert!(registry.definition("mine").is_ok());

    // A project that links to the user's directory does not take it from its user.
    fs::remove_file(project.path("workflows")).unwrap();
    symlink(dotfiles.path(), project.path("workflows")).unwrap();
    let registry = LiveDefinitions::new(places(&project)).current_registry();
    let mine = registry.workflow("mine").unwrap();
    assert_eq!(mine.source, Source::User);
    assert!(mine.value.is_some());
}

#[test]
fn a_directory_past_the_bytes_of_one_source_is_read_in_part_and_says_so() {
    let project = Project::new(&[]);
    let bytes = usize::try_from(limits::DEFINITION_BYTES_MAX).unwrap() - 1000;
    let count = usize::try_from(limits::DEFINITION_SOURCE_BYTES_MAX).unwrap() / bytes + 3;
    let name = |number: usize| format!("w{number:03}");
    for number in 0..count {
        project.write(&format!("workflows/{}.yaml", name(number)), &manifest(&name(number), bytes));
    }
    let read = LiveDefinitions::new(places(&project)).current_registry();
    let findings = all_findings(&read);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let limit = limits::DEFINITION_SOURCE_BYTES_MAX.to_string();
    assert!(findings[0].contains(&limit), "{findings:?}");
    let told = read.workflow("workflows").unwrap();
    assert_eq!(told.findings[0].rule, Rule::TooManyFiles);
    assert_eq!(told.path.as_deref(), Some(&*project.path("workflows")));
    assert!(read.definition(&name(0)).is_ok());
    assert!(read.definition(&name(count - 1)).is_err());
    assert!(read.definition("bug-fix").is_ok());
}

/// It parses as much as one source may hold, so it is part of the long run.
#[test]
fn heirs_of_a_large_base_are_loaded_as_far_as_the_values_of_one_source() {
    if rounds(0, 1) == 0 {
        return;
    }
    let steps: Vec<_> = (0..5).map(|step| format!("  - {{id: s{step}, guidance: g}}\n")).collect();
    let text = "x".repeat(60_000);
    let memory: Vec<_> = (0..12).map(|number| format!("  m{number}: {text}\n")).collect();
    let (memory, steps) = (memory.concat(), steps.concat());
    let base = format!("workflow: base\ndescription: d\nmemory:\n{memory}steps:\n{steps}");
    let project = Project::new(&[("workflows/a-base.yaml", &base)]);
    let heir = |number: usize| format!("workflow: h{number:03}\nextends: base\n");
    let values = base.len() / 64;
    let count = limits::DEFINITION_SOURCE_VALUES_MAX / values + 5;
    for number in 0..count {
        project.write(&format!("workflows/h{number:03}.yaml"), &heir(number));
    }
    let read = LiveDefinitions::new(places(&project)).current_registry();
    let findings = all_findings(&read);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let limit = limits::DEFINITION_SOURCE_VALUES_MAX.to_string();
    assert!(findings[0].contains(&limit), "{findings:?}");
    assert!(read.definition("h000").is_ok());
    assert!(read.definition(&format!("h{:03}", count - 1)).is_err());
}

/// How long a load of the project's files may hold up the start of a workflow that is none of theirs.
const SOON: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_start_of_a_shipped_workflow_does_not_wait_for_the_files_of_a_project() {
    let project = Project::new(&[]);
    let steps: Vec<_> = (0..200)
        .map(|step| {
            format!("  - {{id: s{step}, guidance: \"${{{{ steps.s{}.x }}}}\"}}\n", step % 7)
        })
        .collect();
    let steps = steps.concat();
    for number in 0..400 {
        let name = format!("w{number:04}");
        let text = format!("workflow: {name}\ndescription: d\nsteps:\n{steps}");
        project.write(&format!("workflows/{name}.yaml"), &text);
    }
    let definitions = Arc::new(LiveDefinitions::new(places(&project)));
    let loading = definitions.clone();
    let load = thread::spawn(move || {
        let began = Instant::now();
        loading.current_registry();
        began.elapsed()
    });
    thread::yield_now();
    let began = Instant::now();
    assert_eq!(
        definitions.find_definition("bug-fix").await.unwrap().workflow.name.as_str(),
        "bug-fix"
    );
    let started = began.elapsed();
    let loaded = load.join().unwrap();
    assert!(started < SOON.max(loaded / 2), "{started:?}, of {loaded:?} for all");

    // A project's own workflow of that name is what counts, however long its neighbours take.
    project.write("workflows/own.yaml", &manifest("bug-fix", 0));
    let fresh = Arc::new(LiveDefinitions::new(places(&project)));
    let own = fresh.find_definition("bug-fix").await.unwrap();
    assert_eq!(own.workflow.description, "d");
}
