//! The pictures of the workflows that are part of midex: `docs/pictures/NAME.svg`, looked at once and held since.

mod drawn;
mod geometry;

use std::{fs, path::Path};

use midex_domain::{definition::Workflow, view::GraphView};
use midex_registry::Registry;

use midex_test::project::Project;

/// Holds the picture of a workflow against the file; with `MIDEX_WRITE_DOCS` it is drawn anew. Look at it then.
#[track_caller]
pub(crate) fn hold(path: &Path, workflow: &Workflow) {
    let svg = midex_picture::svg(&GraphView::from_workflow(workflow));
    geometry::is_clean(workflow.name.as_str(), &svg);
    if std::env::var_os("MIDEX_WRITE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &svg).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == svg,
        "{} is not the picture of its workflow: `MIDEX_WRITE_DOCS=1 cargo test --test docs picture` draws it anew",
        path.display()
    );
}

#[test]
fn each_shipped_workflow_has_its_picture() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    let registry = Registry::load(&midex_registry::Sources::default());
    let mut names = Vec::new();
    for entry in registry.workflows() {
        let definition = entry.value.as_ref().expect("a shipped workflow is sound");
        hold(&directory.join(format!("{}.svg", entry.name)), &definition.workflow);
        names.push(format!("{}.svg", entry.name));
    }
    let kept = fs::read_dir(&directory).unwrap();
    let kept = kept.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<_> = kept.collect();
    kept.sort_unstable();
    names.sort_unstable();
    assert_eq!(kept, names);
}

#[test]
fn a_picture_is_whole_whatever_stands_in_it() {
    let file = "workflow: w\ndescription: d\nsteps:\n  - { id: a, guidance: 'x' }\n  - id: b\n    branch: [{ if: \"memory.x < '<&>' and 'a long condition' != memory.y\", next: a }]\n    max_visits: 3\nmemory: { x: 1, y: 2 }\n";
    let (workflow, findings) = midex_registry::check_text(
        "w.yaml",
        file,
        &Registry::load(&midex_registry::Sources::default()),
    );
    let workflow = workflow.unwrap_or_else(|| panic!("{findings:#?}"));
    let svg = midex_picture::svg(&GraphView::from_workflow(&workflow));
    assert!(svg.contains("&lt;&amp;&gt;") && !svg.contains("<&"), "{svg}");
    for tag in ["text", "title", "svg", "style", "defs", "marker"] {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        assert_eq!(svg.matches(&open).count(), svg.matches(&close).count(), "{tag}: {svg}");
    }
}

/// The picture of text says what the others draw: when a step runs, where control goes, and what follows a failure.
#[test]
fn a_workflow_is_drawn_as_text() {
    let project = Project::new(&[]);
    let arguments = ["graph", "review-until-approved", "--format", "text"];
    let output = project.command(&arguments).output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
      • review     reviewer
      • verdict    branch
         → sign_off if steps.review.approved
         → unsettled if run.visits.review >= inputs.rounds
         → mend else
       │
    ┌ • mend       implementer
    └ • sign_off   gate
         if inputs.sign_off
         ✗ on error → objected
       │
    ┌ • remember   set
         → review
    ├ • accept     set
         → the end
    └ • objected   set
       │
      • again      branch
         → mend if run.visits.review < inputs.rounds
         → unsettled else
      • unsettled  guidance
      • refuse     set
    ");
}
