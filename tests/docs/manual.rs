//! The manual of manifests, `docs/manifest.md`: its examples are sound and lead to an end, and it names all that a
//! manifest may say.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use midex_domain::{
    Definition, Digest, ExecutionId, StepId,
    check::ServerCapabilities,
    clock::SeededIds,
    definition::output_schema_json,
    error::Code,
    event::Channel,
    execution::{GateAnswer, Report, SignalRequest},
    finding::{Finding, Rule, Severity},
    grammar, limits,
    operation::{BoxFuture, OperationCall, Operations, Outcome},
    schema,
    view::{ReadyStep, StatusView},
};
use midex_engine::{
    Engine, Options, StartRequest,
    activity::{Activities, function},
    store::MemoryStore,
};
use midex_registry::{
    DefinitionDirectory, Registry, Source, Sources, check_text, is_definition_file,
};
use midex_test::{EPOCH, TokioClock};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const MANUAL: &str = include_str!("../../docs/manifest.md");

/// How many calls an example may take to its end.
const CALLS_MAX: usize = 100;

/// The examples: what stands between the fences.
fn examples() -> Vec<&'static str> {
    let blocks = MANUAL.split("```yaml\n").skip(1);
    blocks.map(|block| block.split_once("\n```").expect("a closed fence").0).collect()
}

/// These manifests as the files of a project, loaded for a server that has the activity which those of the manual name.
pub(crate) fn loaded(manifests: &[&str]) -> (TempDir, Registry) {
    let project = TempDir::new().expect("a directory");
    for (at, text) in manifests.iter().enumerate() {
        let path = project.path().join(format!("{at}.yaml"));
        assert!(is_definition_file(&path));
        std::fs::write(path, text).expect("a file");
    }
    let sources = Sources {
        workflows: vec![DefinitionDirectory {
            source: Source::Project,
            path: project.path().to_owned(),
        }],
        ..Sources::default()
    };
    let activities = ["build".to_owned()].into();
    let abilities = ServerCapabilities { activities, ..ServerCapabilities::default() };
    let registry = Registry::load_with_abilities(&sources, &abilities);
    (project, registry)
}

#[test]
fn the_examples_are_sound_and_the_last_word_of_each_section() {
    let (_project, registry) = loaded(&examples());
    let own = |source: Source| source == Source::Project;
    let entries: Vec<_> = registry.workflows().filter(|one| own(one.source)).collect();
    assert_eq!(entries.len(), examples().len(), "two examples have one name");
    for entry in entries {
        assert_eq!(entry.findings, [], "{}", entry.name);
    }
}

/// Wrong examples, each with what the manual says that midex says of it.
fn wrong() -> Vec<(&'static str, &'static str)> {
    let blocks = MANUAL.split("```yaml wrong\n").skip(1);
    let pairs = blocks.map(|block| {
        let (example, rest) = block.split_once("\n```\n").expect("a closed fence");
        let said = rest.strip_prefix("\n```text\n").expect("what midex says");
        let (said, _) = said.split_once("\n```").expect("a closed fence");
        (example, said)
    });
    pairs.collect()
}

fn told(finding: &Finding) -> String {
    let hint = finding.suggestion.as_deref().unwrap_or_default();
    format!("error[{}]: {}\nhelp: {hint}", finding.rule, finding.message)
}

#[test]
fn wrong_examples_have_the_findings_that_stand_below_them() {
    let registry = Registry::load(&Sources::default());
    assert!(!wrong().is_empty());
    for (example, said) in wrong() {
        let (_, findings) = check_text("w.yaml", example, &registry);
        let found: Vec<_> = findings.iter().map(told).collect();
        assert_eq!(found.join("\n"), said);
    }
}

/// The names in the first cells of the table below a heading.
fn table(heading: &str) -> BTreeSet<&'static str> {
    let (_, section) = MANUAL.split_once(heading).expect("a heading");
    let section = section.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0)).collect()
}

#[test]
fn every_rule_stands_in_the_table_of_its_severity_and_nothing_else_does() {
    for (heading, severity) in
        [("\n### Every warning\n", Severity::Warning), ("\n### Every finding\n", Severity::Error)]
    {
        let rules = Rule::ALL.iter().filter(|rule| rule.severity() == severity);
        let rules: BTreeSet<_> = rules.map(|rule| rule.as_str()).collect();
        assert_eq!(table(heading), rules, "{heading}");
    }
}

#[test]
fn its_formats_and_figures_are_those_of_the_code() {
    for format in schema::formats() {
        assert!(MANUAL.contains(&format!("`{format}`")), "`{format}`");
    }
    assert_eq!(limits::SCHEMA_STEPS_MAX, 2_000_000);
    assert_eq!(limits::SCHEMA_DEPTH_MAX, 600);
    assert!(MANUAL.contains("within 2,000,000 steps and 600 levels"));
    let bases = format!("at most {} stand above", limits::EXTENDS_DEPTH_MAX);
    assert!(MANUAL.contains(&bases));
    assert_eq!(limits::OUTPUT_ATTEMPTS_MAX, 5);
    assert!(MANUAL.contains("may bring five outputs that break the schema"));
    assert_eq!(limits::AFTERMATH_STEP_MAX, Duration::from_secs(5 * 60));
    assert!(MANUAL.contains("and five minutes at least"));
}

#[tokio::test(start_paused = true)]
async fn each_example_leads_to_its_end() {
    let (_project, registry) = loaded(&examples());
    let names = registry.workflows().filter(|one| one.source == Source::Project);
    for name in names.map(|entry| entry.name.clone()) {
        let definition = registry.definition(&name).expect("a definition");
        let state = lead(definition).await;
        assert_eq!(state, "completed", "{name}");
    }
}

/// Whatever is called, it is live.
#[derive(Debug)]
struct Live;

impl Operations for Live {
    fn call(&self, _: OperationCall) -> BoxFuture<'_, Outcome> {
        Box::pin(async { Ok(json!({ "id": "dep-1", "status": "live" }).into()) })
    }

    fn has_catalog(&self, _: &str) -> bool {
        true
    }

    fn is_safe(&self, _: &str, _: &str) -> bool {
        true
    }
}

/// Plays the model, the user and whoever signals, until the execution has ended.
async fn lead(definition: Arc<Definition>) -> String {
    let build = function("build", |_| async { Ok(json!({ "finished": true })) });
    let options = Options {
        activities: Activities::default().with_activity(build).expect("an activity"),
        operations: Arc::new(Live),
        ..Options::new(
            Arc::new(MemoryStore::new()),
            Arc::new(TokioClock::starting_at(EPOCH)),
            Arc::new(SeededIds::new(1)),
        )
    };
    let engine = Engine::new(options).await.expect("an engine");
    let id = ExecutionId::parse("e").expect("an id");
    let request = StartRequest {
        execution_id: Some(id.clone()),
        inputs: Some(inputs(&definition)),
        ..StartRequest::new(definition.clone())
    };
    let begun = engine.start(request).await.expect("a start");
    let mut open = begun.new_tokens;
    for _ in 0..CALLS_MAX {
        if let Some(offer) = open.pop() {
            let report = Report::Output(output(&definition, &offer));
            let token = offer.continuation_token.clone();
            match engine.advance(&token, report).await {
                Ok(answer) => open.extend(answer.new_tokens),
                // A join went on without it.
                Err(error) => assert_eq!(error.code(), Code::TokenSuperseded, "{error:?}"),
            }
            continue;
        }
        let status = engine.status(&id).await.expect("a status");
        if !["running", "paused"].contains(&status.state.as_str()) {
            return status.state;
        }
        open.extend(meet(&engine, &id, &status).await);
    }
    let status = engine.status(&id).await;
    panic!("{} does not end: {status:#?}", definition.workflow.name);
}

/// Does what the execution waits for.
async fn meet(engine: &Engine, id: &ExecutionId, status: &StatusView) -> Vec<ReadyStep> {
    for wait in &status.waits {
        if let Some(gate) = &wait.gate {
            let answer = GateAnswer {
                step: StepId::parse(&wait.step_name).expect("an id"),
                visit: wait.visit,
                question_digest: Digest::parse(&gate.shown).expect("a digest"),
                is_approved: true,
                person: "ada".into(),
                channel: Channel::Terminal,
                comment: None,
            };
            let answered = engine.apply_command(id, answer).await;
            answered.expect("an accepted answer");
            return engine.last_reply(id).await.expect("its place").new_tokens;
        }
        if let Some(signal) = &wait.signal {
            let sent = engine
                .apply_command(id, SignalRequest::new(signal.as_str(), json!({ "by": "ada" })))
                .await;
            sent.expect("a signal that is taken");
        }
    }
    // Time is paused: half a day, and with it no token's life, passes as soon as nothing else can happen.
    tokio::time::sleep(Duration::from_secs(43_200)).await;
    let now = engine.last_reply(id).await;
    now.map(|now| [now.new_tokens, now.open_steps].concat()).unwrap_or_default()
}

/// What a start gives: the examples of the inputs that have no default and are not asked for later.
pub(crate) fn inputs(definition: &Definition) -> Value {
    let declared = definition.workflow.inputs.iter().flat_map(midex_domain::Inputs::iter);
    let needed = declared.filter(|input| !input.optional && input.default.is_none());
    let given = needed.map(|input| {
        let example = input.example.clone();
        (input.key.to_string(), example.expect("an example of an input"))
    });
    Value::Object(given.collect::<Map<_, _>>())
}

/// An output that the step accepts: its example, the examples of what it asks for, or a summary.
fn output(definition: &Definition, offer: &ReadyStep) -> Value {
    if let Some(example) = &offer.step.example {
        return example.clone();
    }
    let asked = offer.step.input.as_ref().map(|input| &input["properties"]);
    if let Some(asked) = asked.and_then(Value::as_array).filter(|_| offer.step.kind != "tool") {
        let names = asked.iter().filter_map(|one| one["name"].as_str());
        let inputs = definition.workflow.inputs.as_ref().expect("inputs");
        let example =
            |name: &str| inputs.iter().find(|input| input.key.as_str() == name)?.example.clone();
        let pairs = names.filter_map(|name| Some((name.to_owned(), example(name)?)));
        return Value::Object(pairs.collect());
    }
    json!({ "summary": "done" })
}

#[test]
fn every_key_of_a_manifest_stands_in_a_table_and_every_kind_has_a_section() {
    let rows: Vec<_> = MANUAL.lines().filter(|line| line.starts_with("| ")).collect();
    let keys = grammar::MANIFEST_SHAPE
        .self_and_nested_records()
        .into_iter()
        .flat_map(|record| record.keys);
    for key in keys.filter(|key| !key.is_planned()) {
        // A kind has a section of its own; `dependsOn` is the spelling of front matter.
        let is_said = match key.name {
            "dependsOn" => true,
            name if key.is_step_kind() => MANUAL.contains(&format!("\n### {name}\n")),
            name => rows.iter().any(|row| row.contains(&format!("`{name}`"))),
        };
        assert!(is_said, "`{}`", key.name);
    }
    let planned = grammar::MANIFEST_SHAPE
        .self_and_nested_records()
        .into_iter()
        .flat_map(|record| record.keys);
    for key in planned.filter(|key| key.is_planned()) {
        assert!(MANUAL.contains(&format!("`{}`", key.name)), "`{}`", key.name);
    }
    let summary = output_schema_json()["required"].to_string();
    assert!(summary.contains("summary"));
}

#[test]
fn its_contents_lead_to_its_sections() {
    let headings: BTreeSet<String> = MANUAL
        .lines()
        .filter_map(|line| line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")))
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();
    for link in MANUAL.split("](#").skip(1) {
        let (target, _) = link.split_once(')').expect("a link");
        assert!(headings.contains(target), "#{target}");
    }
}
