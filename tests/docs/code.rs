//! Workflows that a program defines in code: their checks, their place among the sources, and the equal workflow that
//! their JSON is.

use std::{
    fs,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use midex::{
    App, Code, Config, ExecutionId, Finding, Options, Registry, Sources,
    activity::{Activities, function},
    store::{MemoryStore, Store},
    workflow::{Step, Workflow},
};
use midex_domain::{
    check::ServerCapabilities,
    clock::{SeededIds, SystemClock},
    finding::Rule,
};
use midex_registry::{DefinitionDirectory, Manifest, SaveRequest, Source};
use midex_server::config::TrustedProjects;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::line_client::LineClient;

/// The activities of the program: `add` checks its input, a pair of integers, and `echo` returns any input.
fn add() -> Activities {
    let add = midex::activity::activity("add", async |_, sum: Sum| Ok(sum.one + sum.other));
    let echo = function("echo", |context| async move { Ok(context.input) });
    Activities::default().with_activity(add).unwrap().with_activity(echo).unwrap()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    one: i64,
    other: i64,
}

fn config(home: &Path) -> Config {
    let mut config = Config::new(Some(home.join("data"))).unwrap();
    home.clone_into(&mut config.project_dir);
    // Nothing is trusted: workflows in code must not need it.
    config.trust = TrustedProjects::Listed(None);
    config
}

/// An app whose program defines these workflows, with a store in memory.
fn app(home: &Path, definitions: Vec<Workflow>) -> App {
    let options = Options::new(config(home), Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let activities = add();
    App::with_options(Options { definitions, activities, store: Some(store), ..options })
}

fn sum() -> Workflow {
    Workflow::new("sum")
        .description("Add one and another")
        .input("one", json!({ "type": "integer" }))
        .step(Step::activity("add").with(json!({ "one": "${{ inputs.one }}", "other": 4 })))
        .final_output("${{ steps.add }}")
}

fn write(home: &Path, file: &str, text: &str) {
    let directory = home.join("workflows");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(file), text).unwrap();
}

/// The state and the output of an execution at its end.
async fn run(app: &App, workflow: &str, inputs: Value) -> (String, Value) {
    let started = app.start(workflow, None, Some(inputs), None).await.unwrap();
    let id = ExecutionId::parse(&started.execution_id).unwrap();
    let status = app.turn(&id, Duration::from_secs(20)).await.unwrap().status;
    assert!(status.error.is_none(), "{:?}", status.error);
    (status.state, status.final_output.unwrap())
}

#[tokio::test]
async fn a_workflow_in_code_runs_without_a_file_and_without_trust() {
    let home = TempDir::new().unwrap();
    let app = app(home.path(), vec![sum()]);
    let (state, output) = run(&app, "sum", json!({ "one": 3 })).await;
    assert_eq!((&*state, output), ("completed", json!(7)));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);

    let wrong = sum().step(Step::activity("add").id("again").with(json!({ "one": "three" })));
    let app = self::app(home.path(), vec![wrong]);
    let refused = app.start("sum", None, Some(json!({ "one": 3 })), None).await.unwrap_err();
    let payload = serde_json::to_value(refused.to_payload("correlation")).unwrap();
    let paths = payload["violations"].as_array().unwrap().iter().map(|one| &one["path"]);
    assert_eq!(paths.collect::<Vec<_>>(), ["steps[1].with", "steps[1].with.one"], "{payload}");
    assert!(payload.to_string().contains("correct the workflow in the program"), "{payload}");
}

fn abilities() -> ServerCapabilities {
    let all = add();
    ServerCapabilities {
        activities: all.names().map(str::to_owned).collect(),
        activity_inputs: all.input_schemas(),
        ..ServerCapabilities::default()
    }
}

fn registry_of(program: Vec<Workflow>) -> Registry {
    let sources = Sources { program: program.into(), ..Sources::default() };
    Registry::load_with_abilities(&sources, &abilities())
}

/// The findings about a workflow as a file of a project.
fn findings_of_file(workflow: &Workflow) -> Vec<Finding> {
    let project = TempDir::new().unwrap();
    let path = project.path().to_owned();
    fs::write(path.join("w.json"), format!("{:#}", workflow.to_json())).unwrap();
    let workflows = vec![DefinitionDirectory { source: Source::Project, path }];
    let sources = Sources { workflows, ..Sources::default() };
    let registry = Registry::load_with_abilities(&sources, &abilities());
    let mut entries = registry.workflows().filter(|entry| entry.source == Source::Project);
    entries.next().unwrap().findings.clone()
}

/// The findings about a workflow as one of the program.
fn findings_of_code(workflow: &Workflow) -> Vec<Finding> {
    let registry = registry_of(vec![workflow.clone()]);
    let mut entries = registry.workflows().filter(|entry| entry.source == Source::Program);
    entries.next().unwrap().findings.clone()
}

#[test]
fn a_wrong_workflow_has_the_findings_of_a_file() {
    let wrong = Workflow::new("wrong").description("d");
    for (workflow, rule) in [
        (wrong.clone(), Rule::MissingKey),
        (wrong.clone().step(Step::activity("sub")), Rule::UnknownActivity),
        (wrong.clone().step(Step::agent("nobody")), Rule::MissingPersona),
        (wrong.clone().step(Step::gate("Go?")), Rule::MissingKey),
        (
            wrong.clone().step(Step::activity("echo")).step(Step::activity("echo")),
            Rule::DuplicateStep,
        ),
        (wrong.clone().step(Step::activity("echo").depends_on(&["gone"])), Rule::UnknownDependency),
        (wrong.clone().step(Step::activity("echo").set("colour", "red")), Rule::UnknownKey),
        (wrong.clone().step(Step::workflow("gone")), Rule::UnknownWorkflow),
        (wrong.clone().set("steps", "none"), Rule::WrongType),
        (Workflow::new("no name!").step(Step::activity("echo")), Rule::IllFormedName),
    ] {
        let findings = findings_of_code(&workflow);
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
        assert!(rules.contains(&rule), "{rule:?} is not among {findings:#?}");
        assert_eq!(findings, findings_of_file(&workflow));
    }
}

#[test]
fn the_second_of_two_definitions_of_one_name_has_a_finding() {
    let registry = registry_of(vec![sum(), sum().description("Another")]);
    assert_eq!(registry.definition("sum").unwrap().workflow.description, "Add one and another");
    let findings = registry.all_workflows().flat_map(|entry| &entry.findings);
    let duplicates: Vec<_> = findings.filter(|one| one.rule == Rule::DuplicateName).collect();
    let [finding] = duplicates.as_slice() else { panic!("{duplicates:?}") };
    assert!(finding.message.ends_with("is taken by (program)/definitions[0].json"), "{finding:?}");
}

#[tokio::test]
async fn a_workflow_in_code_is_there_for_every_project_and_hides_their_files() {
    let [home, other] = [(); 2].map(|()| TempDir::new().unwrap());
    let text = "workflow: sum\ndescription: Hidden\nsteps:\n  - { id: a, guidance: Add. }\n";
    let parent = "workflow: parent\ndescription: d\nsteps:\n  - { id: child, workflow: sum, with: { one: 1 } }\nfinal_output: '${{ steps.child }}'\n";
    for project in [home.path(), other.path()] {
        write(project, "sum.yaml", text);
        write(project, "parent.yaml", parent);
    }
    let child = Step::workflow("sum").with(json!({ "one": "${{ inputs.n }}" }));
    let twice = Workflow::new("twice")
        .description("Add in a child")
        .input("n", json!({ "type": "integer" }))
        .step(child)
        .final_output("${{ steps.sum }}");
    let app = app(home.path(), vec![twice, sum()]);
    let elsewhere = app.for_caller(&config(other.path()), [].into());
    for app in [&app, &elsewhere] {
        let (state, output) = run(app, "twice", json!({ "n": 5 })).await;
        assert_eq!((&*state, output), ("completed", json!(9)));
        let registry = app.registry().await.unwrap();
        let entry = registry.workflow("sum").unwrap();
        assert_eq!((entry.source, entry.path.as_ref()), (Source::Program, None));
        let hidden: Vec<_> = registry.hidden_workflows().collect();
        assert_eq!(hidden.len(), 1, "{hidden:?}");
        let message = &hidden[0].findings[0].message;
        assert!(message.contains("(program)/definitions[1].json is nearer"), "{message}");
        // What a project hands to it is the project's, so a child of the project's workflow needs trust.
        let refused = app.start("parent", None, None, None).await.unwrap();
        let id = ExecutionId::parse(&refused.execution_id).unwrap();
        let status = app.turn(&id, Duration::from_secs(20)).await.unwrap().status;
        assert_eq!(status.error.unwrap().code, "PROJECT_NOT_TRUSTED");
    }
}

#[tokio::test]
async fn a_child_in_code_outlives_the_directory_of_the_project() {
    let home = TempDir::new().unwrap();
    let parent = Workflow::new("parent")
        .description("Wait, then add")
        .step(Step::wait(json!({ "signal": "go" })).id("pause"))
        .step(Step::workflow("sum").with(json!({ "one": 1 })))
        .final_output("${{ steps.sum }}");
    let app = app(home.path(), vec![parent, sum()]);
    let started = app.start("parent", None, None, None).await.unwrap();
    drop(home);
    let id = ExecutionId::parse(&started.execution_id).unwrap();
    app.command(&id, midex::SignalRequest::new("go", json!(1))).await.unwrap();
    let status = app.turn(&id, Duration::from_secs(20)).await.unwrap().status;
    assert_eq!((&*status.state, status.final_output), ("completed", Some(json!(5))));
}

#[tokio::test]
async fn an_heir_in_code_follows_the_file_that_it_extends() {
    let home = TempDir::new().unwrap();
    let base = |word: &str| {
        format!("workflow: base\ndescription: d\nsteps:\n  - {{ id: a, guidance: {word} }}\n")
    };
    write(home.path(), "base.yaml", &base("Look."));
    let heir = Workflow::new("heir").description("d").set("extends", "base");
    let app = app(home.path(), vec![heir]);
    for word in ["Look.", "Look again."] {
        write(home.path(), "base.yaml", &base(word));
        let started = app.start("heir", None, None, None).await.unwrap();
        let step = serde_json::to_string(&started).unwrap();
        assert!(step.contains(word), "{step}");
    }
}

#[tokio::test]
async fn tools_list_and_show_a_workflow_in_code() {
    let home = TempDir::new().unwrap();
    let app = app(home.path(), vec![sum(), Workflow::new("broken")]);
    let id = json!({ "workflow_id": "sum" });
    let broken = json!({ "workflow_id": "broken" });
    let client = LineClient::new(&app);
    let listed = client.done("workflow.list", json!({ "source": "program" })).await;
    let listed = listed["workflows"].as_array().unwrap();
    let names: Vec<_> = listed.iter().map(|one| &one["workflow_id"]).collect();
    assert_eq!(names, ["broken", "sum"], "{listed:?}");
    let shown = client.done("workflow.get", id.clone()).await;
    assert_eq!(shown["content"], format!("{:#}", sum().to_json()));
    assert_eq!((&shown["parsed"], &shown["path"]), (&sum().to_json(), &Value::Null));
    assert_eq!((&shown["source"], &shown["format"]), (&json!("program"), &json!("json")));
    for (id, is_valid) in [(id, true), (broken, false)] {
        let checked = client.done("workflow.validate", id).await;
        assert_eq!(checked["valid"], is_valid, "{checked}");
    }
}

#[tokio::test]
async fn authors_cannot_change_or_hide_a_workflow_in_code() {
    let home = TempDir::new().unwrap();
    let mut options =
        Options::new(config(home.path()), Arc::new(SystemClock), Arc::new(SeededIds::new(1)));
    options.config.author_to = midex_server::config::AuthorTarget::Project;
    let definitions = vec![sum()];
    let app = App::with_options(Options { definitions, activities: add(), ..options });
    let save = |name: &str, should_overwrite| SaveRequest {
        manifest: Manifest::from_object(&sum().set("workflow", name).to_json()),
        should_overwrite,
        expected_version: None,
    };
    app.save_workflow(save("copy", false)).await.unwrap();
    let file = home.path().join("workflows/sum.json");
    let errors = [
        app.save_workflow(save("sum", false)).await.unwrap_err(),
        app.rename_workflow("copy", "sum", None).await.unwrap_err(),
        app.rename_workflow("sum", "other", None).await.unwrap_err(),
        app.delete_workflow("sum", None).await.unwrap_err(),
    ];
    // A file that was there before is hidden: it cannot be replaced, but deleted.
    write(home.path(), "sum.json", &format!("{:#}", sum().to_json()));
    let replaced = app.save_workflow(save("sum", true)).await.unwrap_err();
    for error in errors.into_iter().chain([replaced]) {
        assert_eq!(error.code(), Code::WorkflowNotWritable);
        let message = error.message();
        assert!(message.contains("the program defines the workflow `sum`"), "{message}");
        let payload = serde_json::to_string(&error.to_payload("correlation")).unwrap();
        assert!(payload.contains("changes with the program alone"), "{payload}");
    }
    assert!(file.exists());
    let deleted = app.delete_workflow("sum", None).await.unwrap();
    let references = deleted.describe_references();
    assert!(references.contains("stays (program: part of the program)"), "{references}");
    assert!(!file.exists());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~äß\u{2028}\u{1f600}]{0,12}".prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            any_object(inner).prop_map(Value::from),
        ]
    })
}

/// An object with keys that memory may have.
fn any_object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("[a-z]{1,6}", value), 1..4)
        .prop_map(|entries| entries.into_iter().collect())
}

/// A valid step for a workflow with the inputs `n` and `list`.
fn any_step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        any_object(any_value()).prop_map(|with| Step::activity("echo").with(with)),
        any_object(any_value()).prop_map(|set| Step::new("set", set)),
        "[a-z]{1,9}( \\$\\{\\{ inputs\\.n \\}\\})?".prop_map(Step::guidance),
        "[a-z]{1,9}\\?".prop_map(|ask| Step::gate(json!({ "ask": ask, "expires": "2h" }))),
        Just(Step::wait(json!({ "for": "1s" }))),
        Just(Step::agent("reviewer").instructions("Look at it.").timeout("90m")),
        any_object(any_value()).prop_map(|with| {
            Step::foreach("${{ inputs.list }}", Step::activity("echo").with(with))
        }),
    ];
    let text = prop::option::of("[a-z][ -~]{0,20}");
    let condition = prop::option::of(prop::sample::select(vec!["true", "inputs.n > 3"]));
    (kind, text, condition).prop_map(|(mut step, text, condition)| {
        if let Some(text) = text {
            step = step.description(text);
        }
        match condition {
            Some(condition) => step.when(condition),
            None => step,
        }
    })
}

fn any_workflow() -> impl Strategy<Value = Workflow> {
    let steps = prop::collection::vec((any_step(), prop::option::of(any::<usize>())), 1..6);
    let output = prop::option::of(any_value());
    ("[a-z]{1,6}", "[a-z][ -~]{0,20}", steps, output).prop_map(
        |(name, description, steps, output)| {
            let mut workflow = Workflow::new(name)
                .description(description)
                .input("n", json!({ "type": "integer" }))
                .input("list", json!({ "type": "array" }));
            for (index, (step, before)) in steps.into_iter().enumerate() {
                let step = step.id(format!("s{index}"));
                workflow = workflow.step(match before.filter(|_| index > 0) {
                    Some(before) => step.depends_on(&[&format!("s{}", before % index)]),
                    None => step,
                });
            }
            match output {
                Some(output) => workflow.final_output(output),
                None => workflow,
            }
        },
    )
}

/// A key with any value, which makes most workflows wrong.
fn any_key() -> impl Strategy<Value = Option<(String, Value)>> {
    let key = "title|version|memory|tags|steps|timeout|[a-z_]{1,9}";
    prop::option::weighted(0.3, (key, any_value()))
}

/// The workflow of the program with this manifest: its definition, and its findings without places.
fn read_as_code(workflow: &Workflow) -> (Option<midex_domain::definition::Workflow>, Vec<Finding>) {
    let registry = registry_of(vec![workflow.clone()]);
    let mut entries = registry.workflows().filter(|entry| entry.source == Source::Program);
    let entry = entries.next().unwrap();
    let mut findings = entry.findings.clone();
    findings.iter_mut().for_each(Finding::clear_location);
    (entry.value.as_ref().map(|definition| definition.workflow.clone()), findings)
}

fn read_as_manifest(
    manifest: &Manifest,
) -> (Option<midex_domain::definition::Workflow>, Vec<Finding>) {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| registry_of(Vec::new()));
    let checked = REGISTRY.check_manifest(manifest);
    let mut findings = checked.findings;
    findings.iter_mut().for_each(Finding::clear_location);
    (checked.definition.map(|definition| definition.workflow.clone()), findings)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_json_of_a_workflow_is_the_same_workflow(valid in any_workflow(), key in any_key()) {
        let is_valid = key.is_none();
        let workflow = key.into_iter().fold(valid, |workflow, (key, value)| workflow.set(key, value));
        let json = workflow.to_json();
        let (in_code, findings) = read_as_code(&workflow);
        prop_assert!(!is_valid || in_code.is_some(), "{:?}", findings);
        let (read, read_findings) = read_as_manifest(&Manifest::from_object(&json));
        prop_assert_eq!(&in_code, &read);
        prop_assert_eq!(&findings, &read_findings);

        // The text of a manifest may be written in any way: but for itself it is the same workflow.
        let text = Manifest::from_text(json.to_string(), None);
        let (mut read, _) = read_as_manifest(&text);
        if let (Some(read), Some(in_code)) = (&mut read, &in_code) {
            read.content.clone_from(&in_code.content);
            for (index, step) in in_code.steps.iter().enumerate() {
                let given = json["steps"][index]["with"].as_object();
                prop_assert_eq!(step.with.as_ref(), given, "no value is changed on the way");
            }
        }
        prop_assert_eq!(in_code, read);
    }
}
