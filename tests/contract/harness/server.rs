//! The workflows, activities and operations of a server, whose outcomes a scenario names.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    Definition, WorkflowLookup,
    check::ServerCapabilities,
    error::{Code, Error, Result},
    execution::OperationFailure,
    finding::{Finding, filter_errors},
    operation::{self, BoxFuture, OperationCall, Operations},
};
use midex_engine::{
    Workflows,
    activity::{Activities, Context, Outcome, function},
};
use midex_registry::{self as registry, Registry, Sources};
use serde_json::{Value, json};

use super::{
    play::Scenario,
    script::{parse_duration, parse_value},
};

/// What the servers of one play share, and what outlives each of them.
#[derive(Debug)]
pub(super) struct Server {
    /// The outcomes of attempts: see [`Scenario::activities`].
    outcomes: BTreeMap<&'static str, &'static [&'static str]>,
    workflows: BTreeMap<&'static str, Arc<Definition>>,
    pub(super) definition: Arc<Definition>,
    /// Every attempt that was begun, with its input.
    pub(super) calls: Mutex<Vec<(String, Value)>>,
    attempts_in_work: AtomicUsize,
}

/// The name of an activity without the visit and the item that may follow it.
fn name_of(key: &'static str) -> &'static str {
    key.split(['#', '[']).next().unwrap_or(key)
}

/// Operations are told from activities by the colon in their names.
fn is_operation(name: &str) -> bool {
    name.contains(':')
}

/// The activities that manifests may name.
const ACTIVITIES: [&str; 9] =
    ["check", "flaky", "poll", "report", "slow", "slower", "tell", "undo", "work"];

/// The definitions that midex has itself, which take long to load.
fn shipped() -> &'static Registry {
    static SHIPPED: OnceLock<Registry> = OnceLock::new();
    SHIPPED.get_or_init(|| {
        let activities = ACTIVITIES.iter().map(ToString::to_string).collect();
        let abilities = ServerCapabilities { activities, ..ServerCapabilities::default() };
        Registry::load_with_abilities(&Sources::default(), &abilities)
    })
}

/// The errors of a manifest without its first two lines, and the workflow that it defines if it has none.
fn check(lines: &str) -> (Option<Value>, Vec<Finding>) {
    let text = format!("workflow: w\ndescription: d\n{lines}");
    let (workflow, findings) = registry::check_text("w.yaml", &text, shipped());
    let workflow = workflow.map(|workflow| serde_json::to_value(workflow).expect("JSON"));
    (workflow, filter_errors(&findings).cloned().collect())
}

/// The rules that a manifest without its first two lines breaks.
pub(crate) fn findings_of(lines: &str) -> Vec<&'static str> {
    let (_, errors) = check(lines);
    errors.iter().map(|error| error.rule.as_str()).collect()
}

/// The definition of a manifest without its first two lines, whose agents are `reviewer`.
fn define(lines: &str) -> Arc<Definition> {
    let (workflow, errors) = check(lines);
    assert!(errors.is_empty(), "{lines}: {errors:?}");
    let persona = json!({ "name": "reviewer", "content": "You review." });
    let whole = json!({ "workflow": workflow, "personas": { "reviewer": persona } });
    Arc::new(Definition::decode(whole.to_string().as_bytes()).expect("a definition"))
}

impl Server {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let workflows = scenario.workflows.iter();
        Self {
            outcomes: scenario.activities.iter().copied().collect(),
            workflows: workflows.map(|(name, lines)| (*name, define(lines))).collect(),
            definition: define(scenario.manifest),
            calls: Mutex::default(),
            attempts_in_work: AtomicUsize::new(0),
        }
    }

    pub(super) fn activities(self: &Arc<Self>) -> Activities {
        let names = self.outcomes.keys().map(|key| name_of(key));
        let mut names: Vec<_> = names.filter(|name| !is_operation(name)).collect();
        names.dedup();
        let with = |all: Activities, name: &'static str| {
            let server = self.clone();
            let work = function(name, move |context| server.run_activity(name, &context));
            all.with_activity(work).expect("a name of its own")
        };
        names.into_iter().fold(Activities::default(), with)
    }

    fn run_activity(
        self: &Arc<Self>,
        name: &str,
        context: &Context,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let item = context.item.map(|item| format!("[{}]", item + 1)).unwrap_or_default();
        let visit = if context.visit > 1 { format!("#{}", context.visit) } else { String::new() };
        let keys = [
            format!("{name}{visit}{item}"),
            format!("{name}{item}"),
            format!("{name}{visit}"),
            name.to_owned(),
        ];
        self.attempt(&keys, context.attempt, context.input.clone())
    }

    /// Begins an attempt, and returns its outcome under the first of these keys that the scenario has.
    fn attempt(
        self: &Arc<Self>,
        keys: &[String],
        attempt: u32,
        input: Value,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let outcomes = keys.iter().find_map(|key| self.outcomes.get(key.as_str()));
        let at = usize::try_from(attempt).expect("an attempt") - 1;
        let outcome = outcomes.and_then(|outcomes| outcomes.get(at)).copied();
        self.calls.lock().expect("a list").push((format!("{} {attempt}", keys[0]), input.clone()));
        let in_work = InWork::new(self.clone());
        async move {
            let outcome = outcome.expect("an outcome in the scenario");
            let (takes, outcome) = match outcome.strip_prefix("takes ") {
                Some(rest) => {
                    let (takes, outcome) = rest.split_once(", ").expect("`takes …, …`");
                    (parse_duration(takes), outcome)
                }
                None => (Duration::ZERO, outcome),
            };
            if takes > Duration::ZERO {
                tokio::time::sleep(takes).await;
            }
            drop(in_work);
            outcome_of(outcome, input)
        }
    }

    /// Whether attempts are under way, which a kill would cut off.
    pub(super) fn is_at_work(&self) -> bool {
        self.attempts_in_work.load(Ordering::SeqCst) > 0
    }
}

/// `brings JSON`, `brings its input`, `brings 100 letters`, `fails CLASS`, `fails for good CLASS`.
fn outcome_of(text: &str, input: Value) -> Outcome {
    if text == "brings its input" {
        return Ok(input);
    }
    if let Some(output) = text.strip_prefix("brings ") {
        return Ok(parse_value(output));
    }
    let class = text.strip_prefix("fails ").expect("`brings …` or `fails …`");
    match class.strip_prefix("for good ") {
        Some(class) => Err(OperationFailure::new(class, "it failed for good")),
        None => Err(OperationFailure::new(class, "it failed").as_retryable()),
    }
}

/// Counts an attempt as long as it is under way.
struct InWork(Arc<Server>);

impl InWork {
    fn new(server: Arc<Server>) -> Self {
        server.attempts_in_work.fetch_add(1, Ordering::SeqCst);
        Self(server)
    }
}

impl Drop for InWork {
    fn drop(&mut self) {
        self.0.attempts_in_work.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The workflows that steps may begin as children.
#[derive(Debug)]
pub(super) struct Children(pub(super) Arc<Server>);

impl Workflows for Children {
    fn find<'a>(
        &'a self,
        _: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let found = self.0.workflows.get(name).cloned();
        let missing = Error::new(Code::WorkflowNotFound, format!("no workflow '{name}'"));
        Box::pin(async move { found.ok_or(missing) })
    }
}

/// The operations of the catalog `shop`. Those whose name ends with `list` may be called twice.
#[derive(Debug)]
pub(super) struct Shop(pub(super) Arc<Server>);

impl Operations for Shop {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, operation::Outcome> {
        let calls = self.0.calls.lock().expect("a list");
        let began = format!("{} ", call.operation);
        let before = calls.iter().filter(|(name, _)| name.starts_with(&began)).count();
        drop(calls);
        // A call is not told which attempt it is.
        let attempt = u32::try_from(before).expect("a number") + 1;
        let outcome = self.0.attempt(&[call.operation], attempt, call.with);
        Box::pin(async move { outcome.await.map(Into::into) })
    }

    fn has_catalog(&self, _: &str) -> bool {
        true
    }

    fn is_safe(&self, _: &str, operation: &str) -> bool {
        operation.ends_with("list")
    }
}
