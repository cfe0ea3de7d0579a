//! The page of control-flow patterns, `docs/patterns.md`: every pattern has its section, and every manifest does what its
//! pattern says.

mod scripts;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use midex_domain::{
    Definition, ExecutionId, LifecycleAction, WorkflowLookup,
    clock::SeededIds,
    error::Result,
    execution::SignalRequest,
    operation::BoxFuture,
    view::{HistoryRow, StatusView},
};
use midex_engine::{Engine, Options, StartRequest, Workflows, store::MemoryStore};
use midex_registry::{Registry, Source};
use midex_test::{EPOCH, TokioClock, play, play::Calls};
use serde_json::{Map, Value, json};

use self::scripts::{SCRIPTS, Script};
use crate::{manual, pictures};

/// The patterns by the names that the literature, and users who search, have for them.
const NAMES: [&str; 43] = [
    "sequence",
    "parallel_split",
    "synchronization",
    "exclusive_choice",
    "simple_merge",
    "multi_choice",
    "structured_synchronizing_merge",
    "multi_merge",
    "structured_discriminator",
    "arbitrary_cycles",
    "implicit_termination",
    "multi_instance_without_synch",
    "multi_instance_with_a_priori_design_time_knowledge",
    "multi_instance_with_a_priori_run_time_knowledge",
    "multi_instance_without_a_priori",
    "deferred_choice",
    "interleaved_parallel_routing",
    "milestone",
    "cancel_task",
    "cancel_region",
    "cancel_case",
    "explicit_termination",
    "cancel_multi_instance_task",
    "complete_multiple_instance_activity",
    "cancelling_discriminator",
    "blocking_discriminator",
    "structured_partial_join",
    "blocking_partial_join",
    "cancelling_partial_join",
    "generalized_and_join",
    "static_partial_join_for_multi_instance",
    "cancelling_partial_join_for_multi_instance",
    "dynamic_partial_join_for_multi_instance",
    "acyclic_synchronizing_merge",
    "general_synchronizing_merge",
    "critical_section",
    "interleaved_routing",
    "thread_merge",
    "thread_split",
    "transient_trigger",
    "persistent_trigger",
    "recursion",
    "subworkflow_to_join",
];

/// The pattern that midex leaves out.
const LEFT_OUT: &str = "multi_instance_without_a_priori";

/// How many patterns may be built the long way round.
const LONG_WAYS_MAX: usize = 16;

fn page() -> String {
    fs::read_to_string(root().join("docs/patterns.md")).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One pattern: the text between its heading and the next one.
struct Section<'a> {
    name: String,
    text: &'a str,
}

impl<'a> Section<'a> {
    fn manifests(&self) -> Vec<&'a str> {
        let blocks = self.text.split("```yaml\n").skip(1);
        blocks.map(|block| block.split_once("```").expect("a closed fence").0).collect()
    }

    /// The names of the workflows in its manifests.
    fn workflows(&self) -> Vec<&'a str> {
        let name = |text: &'a str| text.strip_prefix("workflow: ")?.lines().next();
        self.manifests().into_iter().map(|text| name(text).expect("a name")).collect()
    }

    fn says(&self, words: &str) -> bool {
        self.text.lines().any(|line| line.starts_with(words))
    }
}

/// The sections of the page; a heading is the name of its pattern in words.
fn sections(page: &str) -> Vec<Section<'_>> {
    let sections = page.split("\n### ").skip(1).map(|section| {
        let (heading, text) = section.split_once('\n').expect("a heading");
        let text = text.split("\n## ").next().unwrap_or_default();
        Section { name: heading.to_lowercase().replace(' ', "_"), text }
    });
    sections.collect()
}

#[test]
fn every_pattern_has_a_section() {
    let page = page();
    let sections = sections(&page);
    let names: BTreeSet<_> = sections.iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, NAMES.into());
    assert_eq!(sections.len(), NAMES.len(), "a name has two sections");
    for section in &sections {
        let sentence = section.text.trim_start().lines().next().unwrap_or_default();
        assert!(sentence.ends_with('.'), "{}: {sentence}", section.name);
        assert!(!section.manifests().is_empty(), "{}", section.name);
        assert_eq!(section.says("Left out: "), section.name == LEFT_OUT, "{}", section.name);
        for workflow in section.workflows() {
            let picture = format!("](patterns/{workflow}.svg)");
            assert!(section.text.contains(&picture), "{}: {picture}", section.name);
        }
    }
    let long_ways = sections.iter().filter(|section| section.says("The long way round: "));
    assert!(long_ways.count() <= LONG_WAYS_MAX);
    assert!(page.lines().count() <= 900);
}

/// The manifests of the page, as the files of a project.
fn loaded(page: &str) -> (tempfile::TempDir, Registry) {
    let manifests: Vec<_> = sections(page).iter().flat_map(Section::manifests).collect();
    let (project, registry) = manual::loaded(&manifests);
    let own = registry.workflows().filter(|one| one.source == Source::Project);
    assert_eq!(own.count(), manifests.len(), "two manifests have one name");
    (project, registry)
}

#[test]
fn every_manifest_is_sound_and_has_its_picture() {
    let page = page();
    let (_project, registry) = loaded(&page);
    let own = registry.workflows().filter(|one| one.source == Source::Project);
    let mut pictures = BTreeSet::new();
    for entry in own {
        assert_eq!(entry.findings, [], "{}", entry.name);
        let definition = entry.value.as_ref().expect("a sound manifest");
        let path = root().join("docs/patterns").join(format!("{}.svg", entry.name));
        pictures::hold(&path, &definition.workflow);
        pictures.insert(path);
    }
    let kept = fs::read_dir(root().join("docs/patterns")).unwrap();
    let kept: BTreeSet<PathBuf> = kept.map(|file| file.unwrap().path()).collect();
    assert_eq!(kept, pictures);
}

#[tokio::test(start_paused = true)]
async fn every_manifest_does_what_its_pattern_says() {
    let page = page();
    let (_project, registry) = loaded(&page);
    let known = Arc::new(Known(registry));
    let sections = sections(&page);
    for name in NAMES {
        assert!(SCRIPTS.iter().any(|script| script.pattern == name), "{name} is not run");
    }
    let mut faults = Vec::new();
    for script in SCRIPTS {
        let section = sections.iter().find(|section| section.name == script.pattern);
        let workflow = section.expect("a section").workflows()[0];
        let run = Run::begin(&known, workflow, script.inputs).await;
        faults.extend(run.follow(script).await.err());
        run.engine.stop().await.expect("a stop");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The workflows that steps may start: those of the page.
#[derive(Debug)]
struct Known(Registry);

impl Workflows for Known {
    fn find<'a>(
        &'a self,
        _: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        Box::pin(async move { self.0.definition(name) })
    }
}

/// An execution under way, `e`.
struct Run {
    engine: Engine,
}

impl Run {
    async fn begin(known: &Arc<Known>, workflow: &str, inputs: &str) -> Self {
        let options = Options {
            workflows: known.clone(),
            ..Options::new(
                Arc::new(MemoryStore::new()),
                Arc::new(TokioClock::starting_at(EPOCH)),
                Arc::new(SeededIds::new(1)),
            )
        };
        let engine = Engine::new(options).await.expect("an engine");
        let definition = known.0.definition(workflow).expect("a definition");
        let mut given = manual::inputs(&definition);
        for (name, value) in pairs(inputs, ' ') {
            given[name] = value;
        }
        let request = play::request(definition, "e");
        let request = StartRequest { inputs: Some(given), ..request };
        engine.start(request).await.expect("a start");
        let run = Self { engine };
        run.settle().await;
        run
    }

    /// Waits until events in flight have arrived.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    /// Makes the moves of a script. The error is the state that differs.
    async fn follow(&self, script: &Script) -> std::result::Result<(), String> {
        for step in script.moves.split('[').skip(1) {
            let (awaited, moves) = step.split_once(']').expect("a closed bracket");
            let open = self.awaited().await;
            let open: Vec<_> = open.iter().map(|(_, signal)| signal.as_str()).collect();
            if open.join(" ") != awaited {
                let (pattern, open) = (script.pattern, open.join(" "));
                return Err(format!("{pattern}: not [{awaited}]{moves} but [{open}]"));
            }
            for one in moves.split_whitespace() {
                self.make(one).await;
            }
        }
        let path = self.path().await;
        let state = self.engine.status_now("e").await.state;
        if (&*path, &*state) == (script.path, script.state) {
            return Ok(());
        }
        let Script { pattern, path: wanted, .. } = script;
        Err(format!("{pattern}: not `{wanted}` but `{path}`, {state}"))
    }

    async fn make(&self, one: &str) {
        match one {
            "!abandon" => drop(self.engine.changed("e", LifecycleAction::Abandon).await),
            "!weeks" => tokio::time::sleep(Duration::from_hours(24 * 15)).await,
            signal => self.signal(signal).await,
        }
        self.settle().await;
    }

    /// Sends a signal to the execution that waits for it, or else to the first one.
    async fn signal(&self, text: &str) {
        let (name, payload) = text.split_once(':').unwrap_or((text, ""));
        let payload: Map<_, _> =
            pairs(payload, ',').map(|(name, value)| (name.to_owned(), value)).collect();
        let awaited = self.awaited().await;
        let to = awaited.into_iter().find(|(_, signal)| signal == name);
        let to = to.map_or_else(|| play::id("e"), |(id, _)| id);
        let request = SignalRequest::new(name, Value::Object(payload));
        self.engine.apply_command(&to, request).await.expect("a signal that is taken");
    }

    /// The execution, and the children below it, the first ones first; each with what its steps add to a path.
    async fn family(&self) -> Vec<(String, StatusView)> {
        let mut family = vec![(String::new(), self.engine.status_now("e").await)];
        let mut at = 0;
        while let Some((prefix, status)) = family.get(at).cloned() {
            for child in &status.children {
                let prefix = format!("{prefix}{}/", named(&child.step, child.item));
                family.push((prefix, self.engine.status_now(&child.execution_id).await));
            }
            at += 1;
        }
        family
    }

    /// The signals that are awaited, each with the execution that waits, in the order of their names.
    async fn awaited(&self) -> Vec<(ExecutionId, String)> {
        let mut awaited = Vec::new();
        for (_, status) in self.family().await {
            let own = status.waits.iter().filter(|wait| wait.execution_id.is_none());
            let signals = own.filter_map(|wait| wait.signal.clone());
            awaited.extend(signals.map(|signal| (play::id(&status.execution_id), signal)));
        }
        awaited.sort_by(|one, other| one.1.cmp(&other.1));
        awaited
    }

    async fn path(&self) -> String {
        let mut path = String::new();
        for (prefix, status) in self.family().await {
            for row in self.engine.history_now(&status.execution_id).await {
                let _ = write!(path, " {prefix}{}", told(&row));
            }
        }
        path.trim_start().to_owned()
    }
}

fn told(row: &HistoryRow) -> String {
    let name = named(&row.step_name, row.item);
    let late = if row.late { "~" } else { "" };
    match &*row.status {
        "completed" => format!("{name}{late}"),
        "skipped" => format!("-{name}{late}"),
        "failed" => format!("!{name}{late}"),
        other => format!("{other}:{name}{late}"),
    }
}

fn named(step: &str, item: Option<u32>) -> String {
    item.map_or_else(|| step.to_owned(), |item| format!("{step}[{item}]"))
}

/// Every `NAME=VALUE` in a text. A value that is not JSON is a text.
fn pairs(text: &str, separator: char) -> impl Iterator<Item = (&str, Value)> {
    let words = text.split(separator).filter(|word| !word.is_empty());
    words.map(|word| {
        let (name, value) = word.split_once('=').expect("a name and a value");
        (name, serde_json::from_str(value).unwrap_or_else(|_| json!(value)))
    })
}
