//! Children: workflows that steps wait for, with what goes down to them and what comes up.

mod families;

use std::collections::BTreeMap;

use midex_domain::{
    StepId, WorkflowLookup,
    error::{Code, Error, Result},
    execution::{GateAnswer, PastValues, Report, RewindRequest, StepFate},
    operation::BoxFuture,
};
use midex_engine::{ForkRequest, Workflows, store::ListQuery};

use super::*;
use midex_test::{assert_has, list_of};

/// Workflows by name.
#[derive(Debug, Default)]
struct Known {
    all: Mutex<BTreeMap<String, Arc<Definition>>>,
    /// How long it takes to find one.
    takes: Mutex<Duration>,
}

impl Known {
    fn of(workflows: &[(&str, &str)]) -> Arc<Self> {
        let known = Self::default();
        for (name, lines) in workflows {
            known.set(name, lines);
        }
        Arc::new(known)
    }

    fn set(&self, name: &str, lines: &str) {
        let definition = play::defined_with(lines, &["work", "undo"]);
        let mut known = self.all.lock().unwrap();
        known.insert(name.to_owned(), definition);
    }
}

impl Workflows for Known {
    fn find<'a>(
        &'a self,
        _: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let found = self.all.lock().unwrap().get(name).cloned();
        let takes = *self.takes.lock().unwrap();
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            let missing = || Error::new(Code::WorkflowNotFound, format!("no workflow '{name}'"));
            found.ok_or_else(missing)
        })
    }
}

/// A parent under way.
struct Family {
    log: Log,
    store: Arc<FailingStore>,
    known: Arc<Known>,
    engine: Engine,
}

impl Family {
    async fn begin(parent: &str, workflows: &[(&str, &str)]) -> Self {
        Self::begin_slowly(parent, workflows, Duration::ZERO).await
    }

    /// The same where it takes so long to find the definition of a child.
    async fn begin_slowly(parent: &str, workflows: &[(&str, &str)], takes: Duration) -> Self {
        let (log, store, known) =
            (Log::new(), Arc::new(FailingStore::default()), Known::of(workflows));
        *known.takes.lock().unwrap() = takes;
        let engine = engine_of(&log, store.clone(), known.clone()).await;
        let definition = play::defined_with(parent, &["work", "undo"]);
        begin(&engine, definition, json!({})).await;
        let family = Self { log, store, known, engine };
        family.settled().await;
        family
    }

    /// The process ends and another one begins.
    async fn restart(&mut self) {
        self.engine.stop().await.unwrap();
        *self.store.refused_execution.lock().unwrap() = None;
        self.engine = engine_of(&self.log, self.store.clone(), self.known.clone()).await;
    }

    /// What is on its way has come.
    async fn settled(&self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// The ids of the children that are open or ended, but for the parent, the one that moved last first.
    async fn children(&self) -> Vec<ExecutionId> {
        let query = ListQuery { limit: 50, ..ListQuery::default() };
        let all = self.engine.list(query).await.unwrap().executions;
        let ids = all.into_iter().map(|row| row.execution_id);
        ids.filter(|id| id != "e").map(|id| named(&id)).collect()
    }

    async fn child(&self) -> ExecutionId {
        let mut children = self.children().await;
        assert_eq!(children.len(), 1, "{children:?}");
        children.remove(0)
    }

    async fn state(&self, id: &ExecutionId) -> String {
        self.engine.status(id).await.unwrap().state
    }

    /// Does the step that is open in an execution.
    async fn does(&self, id: &ExecutionId, output: Value) {
        let current = self.engine.current_step(id).await.unwrap();
        let token = current.continuation_token.expect("an open step");
        self.engine.report(&token, Report::Output(output)).await;
        self.settled().await;
    }
}

/// How many executions may be open below one root here.
const OPEN_MAX: usize = 12;

async fn engine_of(log: &Log, store: Arc<FailingStore>, known: Arc<Known>) -> Engine {
    let work = log.activity("work", seconds(1), |context| Ok(json!({ "did": context.input })));
    let undo = log.activity("undo", seconds(1), |_| Ok(json!(1)));
    let options = Options {
        activities: only([work, undo]),
        workflows: known,
        descendants_open_max: OPEN_MAX,
        ..options(store, log.clock)
    };
    Engine::new(options).await.expect("an engine")
}

const PARENT: &str = "inputs: {}
steps:
  - { id: tell, workflow: announce, with: { text: hello } }
  - { id: after, guidance: 'It said ${{ steps.tell }}', result: {} }
";
const CHILD: &str = "inputs: { text: { type: string } }
steps:
  - { id: say, guidance: 'Say ${{ inputs.text }}', result: {} }
final_output: { said: '${{ steps.say }}' }
";

#[tokio::test(start_paused = true)]
async fn a_step_waits_for_its_child_and_has_its_final_output() {
    let family = Family::begin(PARENT, &[("announce", CHILD)]).await;
    let child = family.child().await;
    let status = family.engine.status_now("e").await;
    let wait = &status.waits[0];
    assert_eq!(wait.step_name.as_str(), "tell");
    assert_eq!(wait.waits_for.as_str(), "child");
    let next = wait.next_call.as_deref().unwrap();
    assert_eq!(next, format!("workflow.read with uri 'midex://workflow/current_step/{child}'"));
    let current = family.engine.current_step(&child).await.unwrap();
    assert!(current.instructions.unwrap().contains("Say hello"));
    family.does(&child, json!("hi")).await;
    assert_eq!(family.state(&child).await, "completed");
    let current = family.engine.current_now("e").await;
    let words = current.instructions.unwrap();
    assert!(words.contains(r#"It said {"said":"hi"}"#), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_child_without_a_final_output_brings_that_of_its_last_step() {
    let child = CHILD.split("final_output").next().unwrap();
    let family = Family::begin(PARENT, &[("announce", child)]).await;
    family.does(&family.child().await, json!({ "a": 1 })).await;
    assert_eq!(output_of(&family.engine, "tell").await, json!({ "a": 1 }));
}

#[tokio::test(start_paused = true)]
async fn a_child_names_its_parent_and_its_root_and_a_parent_its_children() {
    let middle = "steps:\n  - { id: below, workflow: announce, with: { text: deep } }\n";
    let family = Family::begin(
        "steps:\n  - { id: tell, workflow: middle }\n",
        &[("middle", middle), ("announce", CHILD)],
    )
    .await;
    let top = family.engine.status_now("e").await;
    assert_eq!((top.parent, top.root), (None, None));
    let middle = named(&top.children[0].execution_id);
    assert_eq!(top.children[0].step.as_str(), "tell");
    assert_eq!(top.children.len(), 1);
    let below = family.engine.status(&middle).await.unwrap();
    assert_eq!(below.parent.as_deref(), Some("e"));
    assert_eq!(below.root.as_deref(), Some("e"));
    let deepest = named(&below.children[0].execution_id);
    let deep = family.engine.status(&deepest).await.unwrap();
    assert_eq!(deep.parent.as_deref(), Some(middle.as_str()));
    assert_eq!(deep.root.as_deref(), Some("e"));
    family.does(&deepest, json!(1)).await;
    family.settled().await;
    assert_eq!(family.state(&id()).await, "completed");
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_child_is_that_of_its_step() {
    let broken = "steps:\n  - { id: stop, fail: { code: NO_WAY, message: it cannot be } }\n";
    let family = Family::begin(PARENT, &[("announce", broken)]).await;
    let status = until_state(&family.engine, "failed").await;
    assert_eq!(failure(&status), "NO_WAY");
    let message = status.error.unwrap().message;
    assert_has(&message, &["of workflow 'w' failed: it cannot be"]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_begins_another_child() {
    let parent = PARENT.replace(
        "workflow: announce,",
        "workflow: announce, retry: { max_attempts: 2, backoff: 1s, jitter: false },",
    );
    let family = Family::begin(&parent, &[("announce", CHILD)]).await;
    let first = family.child().await;
    family.engine.changed(first.as_str(), LifecycleAction::Abandon).await;
    tokio::time::sleep(seconds(2)).await;
    let children = family.children().await;
    assert_eq!(children.len(), 2);
    let second = children.into_iter().find(|child| *child != first).unwrap();
    family.does(&second, json!("hi")).await;
    brought(&family.engine, "tell", json!({ "said": "hi" })).await;
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_is_not_there_or_inputs_that_it_does_not_take_fail_the_step() {
    let family = Family::begin(PARENT, &[]).await;
    let status = until_state(&family.engine, "failed").await;
    assert_eq!(failure(&status), "WORKFLOW_NOT_FOUND");
    let parent = PARENT.replace("text: hello", "text: 3");
    let family = Family::begin(&parent, &[("announce", CHILD)]).await;
    let status = until_state(&family.engine, "failed").await;
    assert_eq!(failure(&status), "INPUTS_INVALID");
    assert_eq!(family.children().await, []);
}

/// Each execution for itself keeps the definition that was there when it began.
#[tokio::test(start_paused = true)]
async fn a_child_keeps_the_definition_that_is_there_when_it_begins() {
    let parent = "steps:
  - { id: first, guidance: Wait, result: {} }
  - { id: tell, workflow: announce, with: { text: hello } }
";
    let family = Family::begin(parent, &[("announce", CHILD)]).await;
    family.known.set("announce", &CHILD.replace("Say", "Shout"));
    family.does(&id(), json!(1)).await;
    let child = family.child().await;
    family.known.set("announce", CHILD);
    let current = family.engine.current_step(&child).await.unwrap();
    assert!(current.instructions.unwrap().contains("Shout hello"));
}

#[tokio::test(start_paused = true)]
async fn a_pause_and_a_resume_go_down() {
    let family = Family::begin(PARENT, &[("announce", CHILD)]).await;
    let child = family.child().await;
    family.engine.changed("e", LifecycleAction::Pause).await;
    family.settled().await;
    assert_eq!(family.state(&child).await, "paused");
    family.engine.changed("e", LifecycleAction::Resume).await;
    family.settled().await;
    assert_eq!(family.state(&child).await, "running");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_parent_becomes_of_its_children() {
    for (lifecycle, state) in [
        (LifecycleAction::Abandon, "abandoned"),
        (LifecycleAction::Fail, "failed"),
        (LifecycleAction::Diverge, "abandoned"),
    ] {
        let middle = "steps:\n  - { id: below, workflow: announce, with: { text: deep } }\n";
        let family = Family::begin(
            "steps:\n  - { id: tell, workflow: middle }\n",
            &[("middle", middle), ("announce", CHILD)],
        )
        .await;
        let children = family.children().await;
        assert_eq!(children.len(), 2);
        let status = family.engine.changed("e", lifecycle).await;
        assert!(status.ending.is_some(), "{status:?}");
        family.settled().await;
        let own = if state == "abandoned" && lifecycle == LifecycleAction::Diverge {
            "diverged"
        } else {
            state
        };
        assert_eq!(family.state(&id()).await, own);
        for child in children {
            assert_eq!(family.state(&child).await, state, "{lifecycle:?}");
        }
    }
}

/// A child that nobody waits for any more is given up: its step took too long, or another one was enough.
#[tokio::test(start_paused = true)]
async fn a_child_that_nobody_waits_for_is_given_up() {
    let parent = PARENT
        .replace("workflow: announce,", "workflow: announce, timeout: 1m, on_error: continue,")
        .replace("It said ${{ steps.tell }}", "Go on");
    let family = Family::begin(&parent, &[("announce", CHILD)]).await;
    let child = family.child().await;
    tokio::time::sleep(seconds(61)).await;
    family.settled().await;
    assert_eq!(family.state(&child).await, "abandoned");
    let status = family.engine.status_now("e").await;
    assert_eq!(status.current_step.as_deref(), Some("after"));
}

#[tokio::test(start_paused = true)]
async fn a_parent_is_told_of_the_end_of_its_child_after_a_restart() {
    for ends_before in [false, true] {
        let mut family = Family::begin(PARENT, &[("announce", CHILD)]).await;
        let child = family.child().await;
        if ends_before {
            // The child's end is durable, and the parent was never told.
            *family.store.refused_execution.lock().unwrap() = Some(id());
            family.does(&child, json!("hi")).await;
        }
        family.restart().await;
        family.settled().await;
        if !ends_before {
            family.does(&child, json!("hi")).await;
        }
        family.settled().await;
        let history = history(&family.engine).await;
        let attempts = history.iter().filter(|row| row.step_name == "tell");
        assert_eq!(attempts.count(), 1, "{ends_before}");
        assert_eq!(family.children().await, [child], "{ends_before}");
        brought(&family.engine, "tell", json!({ "said": "hi" })).await;
    }
}

#[tokio::test(start_paused = true)]
async fn executions_are_below_each_other_as_deep_as_may_be() {
    let again = "steps:\n  - { id: below, workflow: again }\n";
    let family = Family::begin(again, &[("again", again)]).await;
    let status = until_state(&family.engine, "failed").await;
    assert_eq!(failure(&status), "CHILD_TOO_DEEP");
    assert_eq!(family.children().await.len(), midex_domain::limits::CHILD_DEPTH_MAX as usize);
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_has_a_child_for_each_item() {
    let parent = "steps:
  - id: all
    foreach: { in: [a, b, c], parallel: 2, do: { workflow: announce, with: { text: '${{ item }}' } } }
";
    let child = CHILD.replace(
        "guidance: 'Say ${{ inputs.text }}', result: {}",
        "activity: work, with: { text: '${{ inputs.text }}' }",
    );
    let family = Family::begin(parent, &[("announce", &child)]).await;
    until_state(&family.engine, "completed").await;
    assert_eq!(family.children().await.len(), 3);
    let output = output_of(&family.engine, "all").await;
    assert_eq!(output[2]["said"], json!({ "did": { "text": "c" } }));
}

/// A hook and a compensation may have a child too.
#[tokio::test(start_paused = true)]
async fn a_compensation_may_be_a_child() {
    let parent = "steps:
  - { id: open, activity: work, compensate: { workflow: shut, with: { text: '${{ run.outcome }}' } } }
  - { id: stop, fail: { code: X, message: no } }
";
    let shut = CHILD.replace("guidance: 'Say ${{ inputs.text }}', result: {}", "activity: undo");
    let family = Family::begin(parent, &[("shut", &shut)]).await;
    let status = until_state(&family.engine, "failed").await;
    assert_eq!(status.not_compensated, []);
    assert_eq!(beside(&family.engine).await, ["compensate of open 1: completed"]);
    assert_eq!(status.children[0].body.as_deref(), Some("compensate"));
    assert_eq!(family.log.lines(), ["work 1", "undo 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_a_compensation_did_not_begin_is_not_shown() {
    let parent = "steps:
  - { id: open, activity: work, compensate: { if: run.outcome == 'abandoned', workflow: shut } }
  - { id: stop, fail: { code: X, message: no } }
";
    let family = Family::begin(parent, &[("shut", CHILD)]).await;
    let status = until_state(&family.engine, "failed").await;
    assert_eq!((status.children, status.not_compensated), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn lists_show_roots_where_asked_and_a_resume_tells_what_is_open_below() {
    let family = Family::begin(PARENT, &[("announce", CHILD)]).await;
    let child = family.child().await;
    let roots = ListQuery { limit: 50, roots_only: true, ..ListQuery::default() };
    let roots = family.engine.list(roots).await.unwrap().executions;
    let ids: Vec<_> =
        roots.iter().map(|row| (row.execution_id.as_str(), row.parent.as_deref())).collect();
    assert_eq!(ids, [("e", None)]);
    let only = family.engine.only_open_execution(None).await.unwrap();
    assert_eq!(only, Some(child.clone()));
    let resumed = family.engine.open_executions(None).await.unwrap();
    let open = list_of(&resumed.open_executions, |open| open.execution_id.as_str());
    assert_eq!(open, [child.as_str()]);
}

/// Whoever opens the store only to look leaves a parent as it is.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_child_again_is_no_transition() {
    let mut family = Family::begin(PARENT, &[("announce", CHILD)]).await;
    let before = family.engine.status_now("e").await.revision;
    for _ in 0..3 {
        family.restart().await;
        family.settled().await;
    }
    assert_eq!(family.engine.status_now("e").await.revision, before);
    let child = family.child().await;
    family.does(&child, json!("hi")).await;
    brought(&family.engine, "tell", json!({ "said": "hi" })).await;
}

/// What a parent did before its child was there holds for the child too.
#[tokio::test(start_paused = true)]
async fn a_pause_reaches_a_child_that_begins_after_it() {
    let parent = PARENT.replace("steps:", "steps:\n  - { id: first, guidance: Wait, result: {} }");
    let family = Family::begin(&parent, &[("announce", CHILD)]).await;
    *family.known.takes.lock().unwrap() = seconds(1);
    family.does(&id(), json!(1)).await;
    family.engine.changed("e", LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(2)).await;
    let child = family.child().await;
    assert_eq!(family.state(&child).await, "paused");
    family.engine.changed("e", LifecycleAction::Resume).await;
    family.settled().await;
    assert_eq!(family.state(&child).await, "running");
}

/// A child that cannot be told now hears of a resume after the pause that came before it.
#[tokio::test(start_paused = true)]
async fn a_child_is_told_in_order() {
    let family = Family::begin(PARENT, &[("announce", CHILD)]).await;
    let child = family.child().await;
    *family.store.refused_execution.lock().unwrap() = Some(child.clone());
    family.engine.changed("e", LifecycleAction::Pause).await;
    family.settled().await;
    family.engine.changed("e", LifecycleAction::Resume).await;
    family.settled().await;
    *family.store.refused_execution.lock().unwrap() = None;
    tokio::time::sleep(seconds(120)).await;
    assert_eq!(family.state(&child).await, "running");
    family.engine.changed("e", LifecycleAction::Pause).await;
    family.settled().await;
    assert_eq!(family.state(&child).await, "paused");
}

/// Whoever does not wait for the end of a parent leaves orders behind: they outlive the process all the same.
#[tokio::test(start_paused = true)]
async fn a_child_of_an_execution_that_has_ended_is_told_after_a_restart() {
    let parent = "compensate_when: [abandoned]
steps:
  - { id: open, activity: work, compensate: { workflow: shut } }
  - { id: after, guidance: Wait, result: {} }
";
    let shut = "steps:\n  - { id: close, guidance: Shut it, result: {} }\n";
    let mut family = Family::begin(parent, &[("shut", shut)]).await;
    tokio::time::sleep(seconds(2)).await;
    let ending = family.engine.changed("e", LifecycleAction::Abandon).await;
    assert_eq!(ending.ending.as_deref(), Some("abandoned"));
    family.settled().await;
    let child = family.child().await;
    *family.store.refused_execution.lock().unwrap() = Some(child.clone());
    let ended = family.engine.changed("e", LifecycleAction::Abandon).await;
    assert_eq!(ended.state, "abandoned");
    family.settled().await;
    assert_eq!(family.state(&child).await, "running");
    family.restart().await;
    tokio::time::sleep(seconds(120)).await;
    assert_eq!(family.state(&child).await, "abandoned");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_never_was_is_not_shown() {
    let parent = "steps:
  - { id: gone, workflow: nowhere, retry: { max_attempts: 2, backoff: 1s }, on_error: continue }
  - { id: tell, workflow: announce }
  - { id: broken, workflow: broken, on_error: continue }
  - { id: last, guidance: L., result: {} }
";
    let broken = "steps:\n  - { id: stop, fail: { code: NO_WAY, message: it cannot be } }\n";
    let said = "steps:\n  - { id: say, set: { said: hi } }\n";
    let family = Family::begin(parent, &[("announce", said), ("broken", broken)]).await;
    let is_at_last = |status: &StatusView| status.current_step.as_deref() == Some("last");
    let status = until(&family.engine, is_at_last).await;
    let steps = list_of(&status.children, |child| child.step.as_str());
    assert_eq!(steps, ["tell", "broken"], "the one that failed was there");
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_parent_lets_its_child_continue_where_it_failed() {
    let child = "inputs: { text: { type: string } }
steps:
  - { id: one, guidance: One., result: {} }
  - { id: two, guidance: 'Two after ${{ steps.one }}, for ${{ inputs.text }}.', result: {} }
";
    let family = Family::begin(PARENT, &[("announce", child)]).await;
    let first = family.child().await;
    family.does(&first, json!("done")).await;
    let token = family.engine.current_step(&first).await.unwrap().continuation_token.unwrap();
    family.engine.report(&token, play::failed("no ink", None)).await;
    family.settled().await;
    assert_eq!(family.engine.status_now("e").await.state, "failed");
    let request = ForkRequest { is_retry: true, ..ForkRequest::new(named("e")) };
    let refused = ForkRequest { execution_id: first.clone(), ..request.clone() };
    let refused = family.engine.fork(refused).await.map(drop).expect_err("a refusal");
    assert_has(refused.message(), &["is a child of 'e': retry that one"]);
    family.engine.fork(request).await.unwrap();
    family.settled().await;
    let second = named(&family.engine.status_now("e~2").await.children[0].execution_id);
    assert_ne!(second, first);
    let current = family.engine.current_step(&second).await.unwrap();
    assert!(current.instructions.unwrap().contains("Two after done, for hello."));
    let status = family.engine.status(&second).await.unwrap();
    assert_eq!(status.parent.as_deref(), Some("e~2"));
    assert_eq!(status.forked_from.unwrap().execution_id, first.as_str());
    let rewind = RewindRequest {
        to_step: StepId::parse("one").unwrap(),
        reason: None,
        compensates: false,
        past: PastValues::default(),
    };
    let refused = family.engine.rewind(&second, rewind).await.unwrap_err();
    assert_has(refused.message(), &["is a child of 'e~2': rewind that one"]);
    family.does(&second, json!("hi")).await;
    assert_eq!(family.engine.status_now("e~2").await.current_step.as_deref(), Some("after"));
}

/// A child that asks for an approval and then works.
const ASKING_CHILD: &str = "inputs: { text: { type: string } }
steps:
  - { id: allow, gate: 'Announce ${{ inputs.text }}?' }
  - { id: say, activity: work, with: { say: '${{ inputs.text }}' } }
final_output: { by: '${{ steps.allow.by }}' }
";

impl Family {
    /// A person answers the gate that is open in an execution.
    async fn approves(&self, id: &ExecutionId, person: &str) {
        let status = self.engine.status(id).await.unwrap();
        let answer = GateAnswer { person: person.into(), ..play::gate_answer(&status, true, None) };
        self.engine.apply_command(id, answer).await.unwrap();
        tokio::time::sleep(seconds(2)).await;
    }

    /// The step that is open in an execution fails, and with it the execution.
    async fn fails(&self, id: &str) {
        let token = self.engine.current_now(id).await.continuation_token.unwrap();
        self.engine.report(&token, play::failed("no ink", None)).await;
        self.settled().await;
        assert_eq!(self.engine.status_now(id).await.state, "failed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_in_a_child_is_never_inherited() {
    let family = Family::begin(PARENT, &[("announce", ASKING_CHILD)]).await;
    let first = family.child().await;
    family.approves(&first, "ann").await;
    family.fails("e").await;
    let from_after = ForkRequest {
        from_step: Some(StepId::parse("after").unwrap()),
        new_execution_id: Some(named("f")),
        ..ForkRequest::new(named("e"))
    };
    let retry = ForkRequest { is_retry: true, ..ForkRequest::new(named("e")) };
    for (request, id) in [(retry, "e~2"), (from_after, "f")] {
        let (view, _) = family.engine.fork(request).await.unwrap();
        let why = view.steps[0].why.as_deref();
        assert_eq!(why, Some("its child holds an approval, which is never inherited"));
        family.settled().await;
        let status = family.engine.status_now(id).await;
        assert_eq!(status.steps.completed, 0, "{id} waits for the approval");
        // The child is continued: it asks again, and does not work again.
        let child = named(&status.children[0].execution_id);
        let forked_from = family.engine.status(&child).await.unwrap().forked_from.unwrap();
        assert_eq!(forked_from.execution_id, first.as_str());
        family.approves(&child, "bea").await;
        assert_eq!(family.state(&child).await, "completed");
        let current = family.engine.current_now(id).await;
        assert_has(&current.instructions.unwrap(), &["It said", "bea"]);
    }
    assert_eq!(family.log.lines().len(), 1, "the work of the child was done once");
    // A fork of a fork asks as well.
    family.fails("e~2").await;
    let retry = ForkRequest { is_retry: true, ..ForkRequest::new(named("e~2")) };
    family.engine.fork(retry).await.unwrap();
    family.settled().await;
    assert_eq!(family.engine.status_now("e~3").await.steps.completed, 0);
}

#[tokio::test(start_paused = true)]
async fn an_approval_in_the_child_of_an_item_or_of_a_child_is_never_inherited() {
    let each = "inputs: {}
steps:
  - { id: tell, foreach: { in: [a, b], parallel: 2, do: { workflow: announce, with: { text: '${{ item }}' } } } }
  - { id: after, guidance: Done., result: {} }
";
    let middle = "inputs: { text: { type: string } }
steps:
  - { id: pass, workflow: ask, with: { text: '${{ inputs.text }}' } }
";
    let family = Family::begin(each, &[("announce", middle), ("ask", ASKING_CHILD)]).await;
    for id in family.children().await {
        if family.state(&id).await == "paused" {
            family.approves(&id, "ann").await;
        }
    }
    family.fails("e").await;
    let retry = ForkRequest { is_retry: true, ..ForkRequest::new(named("e")) };
    let (view, _) = family.engine.fork(retry).await.unwrap();
    assert_eq!(view.steps[0].fate, StepFate::OpenAgain, "{:?}", view.steps);
    family.settled().await;
    assert_eq!(family.engine.status_now("e~2").await.steps.completed, 0);
}
