//! Manifests that extend others: what they come to, and what is found where.

use std::{fmt::Write as _, fs};

use midex_domain::{Step, Workflow, finding::Finding, limits};
use midex_registry::{
    DefinitionDirectory, FileReport, LiveDefinitions, Registry, Source, check_text, validate_paths,
};

use super::{Project, finds, holds, places, places_of};
use midex_test::rows;

/// A base with an implied order, a stated dependency, an expression, inputs and a final output.
const BASE: &str = "workflow: base
title: The base
description: d
inputs:
  topic: { type: string, example: tea }
steps:
  - id: plan
    guidance: Plan ${{ inputs.topic }}
  - id: check
    guidance: Check ${{ steps.plan.summary }}
  - id: ship
    depends_on: [plan, check]
    guidance: Ship it
  - id: tell
    guidance: Tell ${{ steps.ship.summary }}
final_output: { said: \"${{ steps.tell.summary }}\" }
timeout: 10m
";

/// A project with the base, and an heir of these lines: they begin in line 4.
fn project(lines: &str) -> Project {
    let heir = heir(lines);
    Project::new(&[("workflows/base.yaml", BASE), ("workflows/w.yaml", &heir)])
}

fn heir(lines: &str) -> String {
    format!("workflow: w\nextends: base\ndescription: h\n{lines}\n")
}

fn workflow(registry: &Registry, name: &str) -> Workflow {
    let definition = registry.definition(name).unwrap();
    definition.workflow.clone()
}

/// Each step with what it waits for.
fn order(registry: &Registry, name: &str) -> Vec<String> {
    let line = |step: &Step| {
        let after: Vec<&str> = step.depends_on.iter().map(AsRef::as_ref).collect();
        format!("{} after [{}]", step.id, after.join(" "))
    };
    let workflow = workflow(registry, name);
    workflow.steps.iter().map(line).collect()
}

fn findings(project: &Project, name: &str) -> Vec<Finding> {
    project.load().workflow(name).unwrap().findings.clone()
}

#[track_caller]
fn check(lines: &str, expected: &[&str]) {
    let found = findings(&project(lines), "w");
    assert_eq!(
        places(&found),
        expected,
        "{lines}
{found:#?}"
    );
}

fn told(findings: &[Finding]) -> String {
    let words = |one: &Finding| {
        let hint = one.suggestion.as_deref().unwrap_or_default();
        format!("{} | {hint}", one.message)
    };
    findings.iter().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn keys_of_the_heir_win_and_its_steps_replace_those_of_the_same_ids() {
    let project = project(
        "timeout: 5m\nsteps:\n  - id: ship\n    guidance: Ship it well\n  - { id: plan, agent: reviewer }",
    );
    let registry = project.load();
    let (base, heir) = (workflow(&registry, "base"), workflow(&registry, "w"));
    assert_eq!((heir.name.as_ref(), &*heir.description), ("w", "h"));
    assert_eq!((&heir.title, &heir.inputs), (&base.title, &base.inputs));
    assert_eq!(heir.final_output, base.final_output);
    assert_eq!(heir.timeout.unwrap().to_string(), "5m");
    assert_eq!(base.timeout.unwrap().to_string(), "10m");
    // The one in the place of `ship` follows the step above it, as it says nothing else.
    assert_eq!(
        order(&registry, "w"),
        ["plan after []", "check after [plan]", "ship after [check]", "tell after [ship]"]
    );
    assert_eq!(heir.steps[0].agent_name().unwrap().as_ref(), "reviewer");
    assert_eq!(heir.steps[1], base.steps[1]);
    assert_eq!(heir.steps[3], base.steps[3]);
    holds(&registry.workflow("w").unwrap().findings, &[]);
}

#[test]
fn steps_are_inserted_in_the_order_of_the_file_and_removed() {
    let project = project(
        "insert:
  - after: plan
    steps: [{ id: a, guidance: A }, { id: b, guidance: B }]
  - { before: check, steps: [{ id: d, guidance: D }] }
  - { after: plan, steps: [{ id: c, guidance: C }] }
  - { after: tell, steps: [{ id: e, guidance: E, depends_on: plan }] }
remove: [ship, tell]
final_output: null",
    );
    let order = order(&project.load(), "w");
    let expected = [
        "plan after []",
        "a after [plan]",
        "b after [a]",
        "c after [b]",
        "d after [c]",
        "check after [d]",
        "e after [plan]",
    ];
    assert_eq!(order, expected);
}

#[test]
fn what_an_heir_says_of_steps_that_are_not_there_is_found_where_it_says_it() {
    for [lines, expected] in rows(
        r#"
        "steps: [{ id: chekc, guidance: G }]", "4:15 not_in_base steps[0].id"
        "remove: [none]", "4:10 not_in_base remove[0]"
        "insert: [{ after: none, steps: [{ id: a, guidance: G }] }]", "4:19 not_in_base insert[0].after"
        "insert: [{ after: plan, steps: [{ id: ship, guidance: G }] }]", "4:39 duplicate_step insert[0].steps[0].id"
        "insert: [{ after: plan, steps: [{ id: a, guidance: G }, { id: a, guidance: G }] }]", "4:63 duplicate_step insert[0].steps[1].id"
        "steps: [{ id: plan, guidance: G }, { id: plan, guidance: G }]", "4:42 duplicate_step steps[1].id"
        "insert: [{ after: plan, before: ship, steps: [{ id: a, guidance: G }] }]", "4:33 conflicting_keys insert[0]"
        "insert: [{ steps: [{ id: a, guidance: G }] }]", "4:10 missing_key insert[0]"
        "insert: [{ after: plan }]", "4:10 missing_key insert[0].steps"
        "insert: []", "4:9 empty_value insert"
        "remove: []", "4:9 empty_value remove"
        "remove: check", "4:9 wrong_type remove"
        "steps: []", "4:8 no_steps steps"
        "steps: 5", "4:8 wrong_type steps"
        "remove: [tell, tell]\nfinal_output: 1", "4:16 duplicate_value remove[1]"
        "remove: [tell]\nsteps: [{ id: tell, guidance: G }]", "4:10 contradiction remove[0]"
        "remove: [plan, check, ship, tell]\nfinal_output: 1\ninputs: {}", "2:10 no_steps extends"
        "#,
    ) {
        check(lines, &[expected]);
    }
}

#[test]
fn what_is_wrong_in_steps_of_the_heir_has_the_path_and_the_place_of_its_own_file() {
    for (lines, expected) in [
        ("steps:\n  - id: ship\n    guidence: G", "6:5 unknown_key steps[0].guidence"),
        (
            "insert:\n  - before: check\n    steps:\n      - id: a\n        guidance: ${{ steps.ship.summary }}",
            "8:23 reference_too_early insert[0].steps[0].guidance",
        ),
        (
            "insert:\n  - after: check\n    steps:\n      - { id: a, guidance: G, depends_on: none }",
            "7:43 unknown_dependency insert[0].steps[0].depends_on",
        ),
        (
            "insert:\n  - after: check\n    steps:\n      - { id: a, agent: nobody-here }",
            "7:25 missing_persona insert[0].steps[0].agent",
        ),
        ("timeout: soon", "4:10 ill_formed_duration timeout"),
        ("colour: red", "4:1 unknown_key colour"),
    ] {
        check(lines, &[expected]);
    }
}

#[test]
fn what_an_heir_breaks_in_its_base_is_found_at_what_it_says() {
    // A dependency that stays, in the `remove` of the heir: once for each step that has it.
    let found = findings(&project("remove: [check]"), "w");
    holds(&found, &["4:10 removed_dependency remove[0]"]);
    assert_eq!(
        told(&found),
        "step `ship` of `base` depends on `check`, which is removed here | replace `ship` under `steps` by one that does \
         not depend on `check`"
    );
    // An expression of the base, with its line there.
    check(
        "remove: [plan]\nsteps: [{ id: ship, guidance: G }]",
        &["4:10 unknown_reference remove[0]"],
    );
    let found = findings(&project("inputs: { other: { type: string } }"), "w");
    holds(&found, &["2:10 unknown_reference extends"]);
    assert!(found[0].message.ends_with("(line 8 of `base`)"), "{found:#?}");
    assert!(found[0].edits.is_empty());
}

#[test]
fn warnings_of_a_base_stand_there_alone() {
    let base =
        BASE.replace("description: d\n", "description: d\nmemory: { m: \"{{ inputs.topic }}\" }\n");
    let project = Project::new(&[
        ("workflows/base.yaml", &base),
        ("workflows/w.yaml", &heir("timeout: 1m")),
        ("workflows/x.yaml", "workflow: x\nextends: w\n"),
    ]);
    let rules = |name: &str| {
        findings(&project, name).iter().map(|one| one.rule.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(rules("base"), ["looks_like_expression"]);
    assert_eq!((rules("w"), rules("x")), (vec![], vec![]));
}

#[test]
fn a_base_that_is_not_there_or_has_findings_is_one_finding() {
    for [files, expected, words] in rows(
        r#"
        "extends: bsae\nsteps: [{ id: none, guidance: \"${{ steps.x.y }}\" }]\n", "2:10 unknown_base extends", "no workflow has the name `bsae` | "
        "extends: base\nremove: [plan]\nworkflow: base\ndescription: d\nsteps: [{ id: a }]\ncolour: red\n", "2:10 invalid_base extends", "`base` has 2 findings: only a sound workflow can be extended | run `midex validate "
        "extends: base\nworkflow: base\ndescription: [\n", "2:10 invalid_base extends", "`base` has 1 finding: only a sound workflow"
        "extends: bug-fix\n", "2:10 invalid_base extends", "`bug-fix` has phases: only a manifest with steps can be extended | copy what you need of `bug-fix`"
        "extends: w\n", "2:10 cyclic_base extends", "it extends itself: w → w | leave `extends` out of one of them"
        "extends: a\nworkflow: a\nextends: b\nworkflow: b\nextends: w\n", "2:10 cyclic_base extends", "it extends itself: w → a → b → w | leave"
        "extends: a\nworkflow: a\nextends: b\nworkflow: b\nextends: a\n", "2:10 invalid_base extends", "`a` extends itself, so nothing can extend it | leave `extends` out of `a`"
        "extends: a\nworkflow: a\nextends: none\n", "2:10 invalid_base extends", "`a` has 1 finding: only"
        "extends: 5\n", "2:10 wrong_type extends", "`extends` must be a text"
        "description: d\nsteps: [{ id: a, guidance: G }]\ninsert: [{ after: a, steps: [{ id: b, guidance: G }] }]\nremove: [a]\n", "4:1 no_effect insert\n5:1 no_effect remove", "`insert` has no effect without `extends` | "
        "#,
    ) {
        let project = Project::new(&[("workflows/base.yaml", BASE)]);
        // The first file is that of `w`, and each line `workflow: NAME` begins another.
        for file in format!("w\n{files}").split("workflow: ") {
            let (name, _) = file.split_once('\n').unwrap();
            let text = format!("workflow: {file}");
            project.write(&format!("workflows/{name}.yaml"), &text);
        }
        let found = findings(&project, "w");
        assert_eq!(places(&found).join("\n"), expected, "{found:#?}");
        assert!(told(&found).starts_with(words), "{}", told(&found));
    }
}

/// A project in which `w1` extends `base`, `w2` that one, and so on.
fn tower(levels: usize) -> Project {
    let project = Project::new(&[("workflows/base.yaml", BASE)]);
    for level in 1..=levels {
        let base = if level == 1 { "base".to_owned() } else { format!("w{}", level - 1) };
        let text = format!(
            "workflow: w{level}\nextends: {base}\ninsert: [{{ after: plan, steps: [{{ id: s{level}, guidance: G }}] }}]\n"
        );
        project.write(&format!("workflows/w{level}.yaml"), &text);
    }
    project
}

#[test]
fn so_many_stand_one_above_the_other_and_no_more() {
    let most = limits::EXTENDS_DEPTH_MAX;
    let project = tower(most + 1);
    let registry = project.load();
    let order = order(&registry, &format!("w{most}"));
    assert_eq!(order.len(), 4 + most);
    assert_eq!(order[1], format!("s{most} after [plan]"));
    let found = &registry.workflow(&format!("w{}", most + 1)).unwrap().findings;
    holds(found, &["2:10 limit_exceeded extends"]);
    assert_eq!(found[0].expected.as_deref(), Some("at most 8"));
}

#[test]
fn a_finding_names_the_file_of_the_line_also_through_several_bases() {
    let project = tower(2);
    project.write("workflows/w3.yaml", "workflow: w3\nextends: w2\ninputs: {}\nmemory: { m: 1 }\n");
    let found = findings(&project, "w3");
    holds(&found, &["2:10 unknown_reference extends"]);
    assert!(found[0].message.ends_with("(line 8 of `base`)"), "{found:#?}");
}

#[test]
fn the_result_is_held_to_the_limit_of_steps() {
    let mut steps = String::new();
    for number in 0..limits::STEPS_MAX - 3 {
        writeln!(steps, "      - {{ id: s{number}, guidance: G }}").unwrap();
    }
    let lines = format!("insert:\n  - after: tell\n    steps:\n{steps}");
    check(&lines, &["2:10 limit_exceeded extends"]);
}

#[test]
fn a_base_is_the_one_that_a_start_would_take() {
    // One of the project stands before a shipped one of the name; an heir of a shipped one stands by itself.
    let project =
        Project::new(&[("workflows/heir.yaml", "workflow: heir\nextends: app-scaffold\n")]);
    let shipped = workflow(&project.load(), "app-scaffold");
    assert_eq!(workflow(&project.load(), "heir").steps, shipped.steps);
    project.write(
        "workflows/deep/own.yaml",
        &BASE.replace("workflow: base", "workflow: app-scaffold"),
    );
    assert_eq!(workflow(&project.load(), "heir").steps.len(), 4);
    // A file that states the name comes before one that is only called so.
    project.write("workflows/base.yaml", "description: d\nsteps: []\n");
    project.write("workflows/stated.yaml", BASE);
    project.write("workflows/w.yaml", &heir(""));
    assert_eq!(workflow(&project.load(), "w").steps.len(), 4);
}

#[test]
fn a_change_of_a_base_reaches_its_heirs_and_a_broken_one_leaves_the_last_good() {
    let project = tower(2);
    let first = project.load();
    assert!(first.reload(&project.sources()).has_same_entries(&first));
    let guidance = |registry: &Registry| format!("{:?}", workflow(registry, "w2").steps[0]);
    project.write("workflows/base.yaml", &BASE.replace("Plan ", "Sketch "));
    let second = first.reload(&project.sources());
    assert!(!second.has_same_entries(&first) && guidance(&second).contains("Sketch"));

    project.write("workflows/base.yaml", "workflow: base\n");
    let third = second.reload(&project.sources());
    for name in ["base", "w1", "w2"] {
        assert!(third.workflow(name).unwrap().is_stale(), "{name}");
    }
    assert!(guidance(&third).contains("Sketch"));
    finds(&third, "w2", &["2:10 invalid_base extends"]);

    fs::remove_file(project.path("workflows/base.yaml")).unwrap();
    let fourth = third.reload(&project.sources());
    finds(&fourth, "w1", &["2:10 unknown_base extends"]);
    // It comes back under another path: the heirs are sound again.
    project.write("workflows/moved.yaml", BASE);
    let fifth = fourth.reload(&project.sources());
    assert!(!fifth.workflow("w2").unwrap().is_broken());
    assert!(guidance(&fifth).contains("Plan"));
}

#[test]
fn sections_of_markdown_give_and_replace_instructions() {
    let base = "---\nworkflow: base\ndescription: d\nsteps:\n  - { id: a, agent: reviewer }\n  - { id: b, agent: reviewer, instructions: Own }\n---\n\n## step: a\n\nOf the base\n";
    let heir = "---\nworkflow: w\nextends: base\ninsert:\n  - { after: b, steps: [{ id: c, agent: reviewer }] }\n---\n\n## step: b\n\nOf the heir\n\n## step: c\n\nMore\n";
    let project = Project::new(&[("workflows/base.md", base), ("workflows/w.md", heir)]);
    let registry = project.load();
    let said = |name: &str| {
        let workflow = workflow(&registry, name);
        let texts = workflow.steps.iter().map(|step| format!("{:?}", step.instructions));
        texts.collect::<Vec<_>>().join("; ")
    };
    for (name, words) in
        [("base", vec!["Of the base", "Own"]), ("w", vec!["Of the base", "Of the heir", "More"])]
    {
        let said = said(name);
        assert_eq!(said.split("; ").count(), words.len(), "{said}");
        assert!(said.split("; ").zip(&words).all(|(text, word)| text.contains(word)), "{said}");
    }
    let merged = registry.merge_manifest("w").unwrap();
    let (again, found) = check_text("w.yaml", &merged.text, &registry);
    assert_eq!(again.unwrap().steps, workflow(&registry, "w").steps, "{found:?}\n{}", merged.text);
}

#[test]
fn what_is_printed_is_sound_by_itself_and_means_the_same() {
    let lines = "version: 1.10
metadata: { a: \"no\", b: \"010\", c: off, d: 1_000, e: \"2030-01-31\" }
steps:
  - id: ship
    tool: t
    with: { yes: \"yes\", null_text: \"null\", number: 1.50, \"a: b\": \"- x\\n  # y\\n\", list: [\" a \", \"~\", ''], t: \"${{ inputs.topic }}\" }
    instructions: |
      First

      then: a colon
        and \"quotes\"
insert: [{ before: plan, steps: [{ id: zero, guidance: G }] }]
remove: [tell]
final_output: { n: 12345678901234567890, x: 1e3 }";
    let project = project(lines);
    let registry = project.load();
    let merged = registry.merge_manifest("w").unwrap();
    let (again, found) = check_text("printed.yaml", &merged.text, &registry);
    assert_eq!(places(&found), [""; 0], "{found:#?}\n{}", merged.text);
    let whole = Workflow { content: String::new(), ..workflow(&registry, "w") };
    let again = Workflow { content: String::new(), ..again.unwrap() };
    assert_eq!(again, whole, "{}", merged.text);
    for key in ["extends", "insert", "remove"] {
        assert!(!merged.text.contains(&format!("\n{key}:")), "{}", merged.text);
    }
    assert!(registry.merge_manifest("nobody").is_err());
    // What extends nothing stands as its file has it.
    assert_eq!(registry.merge_manifest("base").unwrap().text, BASE);
}

#[test]
fn a_file_that_is_named_finds_its_base_beside_it() {
    let project = project("steps: [{ id: ship, guidance: G }]");
    let elsewhere = Registry::load(&midex_registry::Sources::default());
    let reports = |path: &str| validate_paths(&[project.path(path)], &elsewhere).unwrap();
    for path in ["workflows/w.yaml", "workflows", "."] {
        let broken: Vec<_> = reports(path).into_iter().filter(FileReport::is_broken).collect();
        assert!(broken.is_empty(), "{path}: {broken:#?}");
    }
    assert!(check_text("w.yaml", &heir(""), &elsewhere).0.is_none());
}

/// What a start would take changes with the base, also before anything else has noticed.
#[test]
fn a_start_takes_the_bases_as_they_are_now() {
    let project = tower(1);
    let definitions = LiveDefinitions::new(places_of(&project.path("")));
    let first = || {
        let definition = definitions.definition("w1").unwrap();
        format!("{:?}", definition.workflow.steps[0])
    };
    let version = || *definitions.change_counter().borrow();
    assert!(first().contains("Plan"));
    assert_eq!(version(), 0);
    project.write("workflows/base.yaml", &BASE.replace("Plan ", "Sketch "));
    assert!(first().contains("Sketch"));
    assert_eq!(version(), 1, "whoever lists workflows is told");
    project.write("workflows/base.yaml", "workflow: base\n");
    assert!(first().contains("Sketch"), "the last good version");
    let own = "workflow: w1\nextends: base\ndescription: changed\n";
    project.write("workflows/base.yaml", BASE);
    project.write("workflows/w1.yaml", own);
    let definition = definitions.definition("w1").unwrap();
    assert_eq!(definition.workflow.steps.len(), 4);
    fs::remove_file(project.path("workflows/base.yaml")).unwrap();
    assert!(first().contains("Plan"));
}

#[test]
fn a_reload_looks_again_at_heirs_of_what_changed_and_at_no_others() {
    let project = tower(2);
    project.write("workflows/other.yaml", &BASE.replace("workflow: base", "workflow: other"));
    project.write("workflows/x.yaml", "workflow: x\nextends: other\n");
    let first = project.load();
    project.write("workflows/base.yaml", &BASE.replace("Plan ", "Sketch "));
    let second = first.reload(&project.sources());
    let changed = |name: &str| {
        let value = |registry: &Registry| registry.workflow(name).unwrap().value.clone().unwrap();
        !std::sync::Arc::ptr_eq(&value(&first), &value(&second))
    };
    let all = ["base", "w1", "w2", "other", "x"].map(changed);
    assert_eq!(all, [true, true, true, false, false]);
    assert!(second.reload(&project.sources()).has_same_entries(&second));
    // A nearer file of the name takes the place of the base.
    project.write("near/base.yaml", &BASE.replace("Plan ", "Draw "));
    let mut sources = project.sources();
    let near = DefinitionDirectory { source: Source::Flag, path: project.path("near") };
    sources.workflows.insert(0, near);
    let third = second.reload(&sources);
    for name in ["base", "w1", "w2"] {
        let first = format!("{:?}", workflow(&third, name).steps[0]);
        assert!(first.contains("Draw"), "{name}: {first}");
    }
}

#[test]
fn the_edit_of_a_finding_mends_the_heir() {
    let wrong = heir("steps: [{ id: chekc, guidance: G }]\nremove: [tel]\nfinal_output: 1");
    let project = Project::new(&[("workflows/base.yaml", BASE), ("workflows/w.yaml", &wrong)]);
    let registry = project.load();
    let found = &registry.workflow("w").unwrap().findings;
    holds(found, &["4:15 not_in_base steps[0].id", "5:10 not_in_base remove[0]"]);
    assert_eq!(
        told(found),
        "`base` has no step `chekc` | did you mean `check`? Else put a new step under `insert`, with `after: ID` or \
         `before: ID`\n`base` has no step `tel` | "
    );
    let edits = found.iter().flat_map(|one| one.edits.clone()).collect();
    let mended = crate::corpus::edited(&wrong, edits);
    assert_eq!(mended, wrong.replace("chekc", "check"), "`tel` is too short to be likened");
}

#[test]
fn a_step_that_begins_a_workflow_which_no_file_has_is_warned_of() {
    let child = "steps: [{ id: a, workflow: bsae }]\nhooks: { on_failure: { workflow: nope } }\n";
    let file = format!("workflow: parent\ndescription: p\n{child}");
    let project = Project::new(&[
        ("workflows/base.yaml", BASE),
        ("workflows/parent.yaml", &file),
        ("workflows/w.yaml", "workflow: w\nextends: parent\ndescription: h\n"),
    ]);
    let found = |registry: &Registry, name: &str, expected: &[&str]| {
        let entry = registry.workflow(name).unwrap();
        assert!(!entry.is_broken(), "{entry:?}");
        holds(&entry.findings, expected);
    };
    let first = project.load();
    let nobody = "4:34 unknown_workflow hooks.on_failure.workflow";
    let both = ["3:28 unknown_workflow steps[0].workflow", nobody];
    found(&first, "parent", &both);
    // What is wrong with a base stands there alone.
    found(&first, "w", &[]);
    let meant = &first.workflow("parent").unwrap().findings[0];
    assert!(meant.suggestion.as_deref().unwrap().contains("midex list"), "{meant:?}");
    assert!(first.reload(&project.sources()).has_same_entries(&first));

    let bsae = BASE.replace("workflow: base", "workflow: bsae");
    project.write("workflows/bsae.yaml", &bsae);
    let second = first.reload(&project.sources());
    found(&second, "parent", &[nobody]);
    fs::remove_file(project.path("workflows/bsae.yaml")).unwrap();
    found(&second.reload(&project.sources()), "parent", &both);
}
