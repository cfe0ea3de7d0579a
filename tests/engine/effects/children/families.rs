//! Families that grow: how many executions are open below a root, what an end of the root does to those that are to come, and
//! reads of children that were announced and have not begun.

use midex_domain::{LifecycleChange, PauseReason, State, limits};

use super::*;

/// Each execution of it begins five of the same.
const BOMB: &str = "steps:
  - { id: a, depends_on: [], workflow: again }
  - { id: b, depends_on: [], workflow: again }
  - { id: c, depends_on: [], workflow: again }
  - { id: d, depends_on: [], workflow: again }
  - { id: e, depends_on: [], workflow: again }
";

impl Family {
    async fn bomb() -> Self {
        Self::begin(BOMB, &[("again", BOMB)]).await
    }

    /// The open executions but for the root.
    async fn open_below(&self) -> Vec<ExecutionId> {
        let query = ListQuery { open_only: true, limit: 200, ..ListQuery::default() };
        let all = self.engine.list(query).await.unwrap().executions;
        let ids = all.into_iter().map(|row| row.execution_id);
        ids.filter(|id| id != "e").map(|id| named(&id)).collect()
    }

    /// Waits until the root is paused because of them.
    async fn until_over_budget(&self) {
        let status = until_state(&self.engine, "paused").await;
        assert_eq!(status.pause_reasons, [PauseReason::Budget]);
        self.settled().await;
        assert_eq!(self.open_below().await.len(), OPEN_MAX);
    }

    async fn abandon(&self) {
        self.change(LifecycleAction::Abandon).await;
    }

    async fn change(&self, lifecycle: LifecycleAction) {
        let reason = None;
        let change = LifecycleChange { action: lifecycle, reason };
        self.engine.apply_command(&id(), change).await.unwrap();
    }

    /// The child that the only step of the root announced.
    async fn announced(&self) -> ExecutionId {
        let status = self.engine.status_now("e").await;
        named(&status.children[0].execution_id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_root_pauses_before_more_executions_are_open_below_it_than_may_be() {
    let mut family = Family::bomb().await;
    family.until_over_budget().await;
    let token = family.engine.current_step(&id()).await;
    assert!(token.is_ok_and(|current| current.continuation_token.is_none()));
    // There is no room yet, so it pauses again.
    family.change(LifecycleAction::Resume).await;
    family.until_over_budget().await;
    family.restart().await;
    family.settled().await;
    family.until_over_budget().await;
    family.change(LifecycleAction::Resume).await;
    family.until_over_budget().await;
    family.abandon().await;
    until_state(&family.engine, "abandoned").await;
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(family.open_below().await, []);
    assert_eq!(family.children().await.len(), OPEN_MAX, "none was begun meanwhile");
}

#[tokio::test(start_paused = true)]
async fn what_was_held_back_is_begun_after_a_resume_as_soon_as_there_is_room() {
    let items: Vec<_> = (0..OPEN_MAX + 8).collect();
    let parent = format!(
        "steps:
  - {{ id: all, foreach: {{ in: {items:?}, parallel: 100, do: {{ workflow: announce, with: {{ text: x }} }} }} }}
"
    );
    let family = Family::begin(&parent, &[("announce", CHILD)]).await;
    family.until_over_budget().await;
    let first = family.open_below().await.remove(0);
    family.does(&first, json!("hi")).await;
    assert_eq!(family.open_below().await.len(), OPEN_MAX - 1, "nothing begins while it is paused");
    family.change(LifecycleAction::Resume).await;
    family.until_over_budget().await;
    assert_eq!(family.children().await.len(), OPEN_MAX + 1);
    for child in family.open_below().await {
        family.does(&child, json!("hi")).await;
    }
    family.change(LifecycleAction::Resume).await;
    family.settled().await;
    let rest = family.open_below().await;
    assert_eq!(rest.len(), 7);
    for child in rest {
        family.does(&child, json!("hi")).await;
    }
    let status = until_state(&family.engine, "completed").await;
    assert_eq!(status.pause_reasons, []);
}

#[tokio::test(start_paused = true)]
async fn what_a_compensation_begins_counts_too() {
    let parent = "steps:
  - { id: open, activity: work, compensate: { workflow: again } }
  - { id: stop, fail: { code: X, message: no } }
";
    let family = Family::begin(parent, &[("again", BOMB)]).await;
    family.until_over_budget().await;
    // Its end has begun: another word on it ends it at once.
    family.abandon().await;
    until(&family.engine, |status| State::Failed.as_str() == status.state).await;
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(family.open_below().await, []);
}

/// The order to end cannot be taken in by the child, so its own child does not know of it.
#[tokio::test(start_paused = true)]
async fn nothing_is_begun_below_an_execution_that_ends() {
    let parent = "steps:\n  - { id: below, workflow: between }\n";
    let between = "steps:\n  - { id: below, workflow: above }\n";
    let above = "steps:\n  - { id: nap, wait: { for: 5s } }\n  - { id: below, workflow: last }\n";
    let last = "steps:\n  - { id: say, guidance: Say it, result: {} }\n";
    let workflows = [("between", between), ("above", above), ("last", last)];
    let family = Family::begin(parent, &workflows).await;
    assert_eq!(family.children().await.len(), 2);
    let between = family.announced().await;
    *family.store.refused_execution.lock().unwrap() = Some(between);
    family.abandon().await;
    tokio::time::sleep(seconds(20)).await;
    assert_eq!(family.children().await.len(), 2);
    *family.store.refused_execution.lock().unwrap() = None;
    until_state(&family.engine, "abandoned").await;
    tokio::time::sleep(seconds(20)).await;
    assert_eq!(family.open_below().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_child_that_was_announced_waits_for_its_beginning() {
    let mut family = Family::begin_slowly(PARENT, &[("announce", CHILD)], seconds(1)).await;
    for restarts in [true, false] {
        let child = family.announced().await;
        if restarts {
            family.restart().await;
        }
        let engine = &family.engine;
        let (status, history, waited) = tokio::join!(
            engine.status(&child),
            engine.history(&child),
            engine.wait(&child, Some(0), seconds(9)),
        );
        assert_eq!(status.unwrap().state, "running", "{restarts}");
        assert_eq!(history.unwrap().len(), 1, "{restarts}");
        assert_eq!(waited.unwrap().state, "running", "{restarts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_child_that_cannot_begin_says_why() {
    let parent = "steps:\n  - { id: tell, workflow: nowhere }\n";
    let family = Family::begin_slowly(parent, &[], seconds(1)).await;
    let child = family.announced().await;
    for when in ["while it is looked for", "later"] {
        let error = family.engine.status(&child).await.unwrap_err();
        assert_eq!(error.code(), Code::ExecutionNotFound, "{when}");
        midex_test::says(&json!(error.message()), "no workflow 'nowhere'");
        assert_eq!(error.context("execution_id"), Some(&json!("e")), "{when}");
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "measures tokio's paused clock")]
async fn a_read_of_an_announced_child_waits_no_longer_than_its_limit() {
    let long = limits::CHILD_BEGIN_WAIT_MAX * 3;
    let family = Family::begin_slowly(PARENT, &[("announce", CHILD)], long).await;
    let child = family.announced().await;
    let before = tokio::time::Instant::now();
    let error = family.engine.status(&child).await.unwrap_err();
    assert_eq!(error.code(), Code::ServerBusy);
    assert!(before.elapsed() < limits::CHILD_BEGIN_WAIT_MAX * 2);
    // A child that no parent announced is answered at once.
    let other = named(&format!("child_{}", "0".repeat(32)));
    let before = tokio::time::Instant::now();
    let error = family.engine.status(&other).await.unwrap_err();
    assert_eq!(error.code(), Code::ExecutionNotFound);
    assert!(before.elapsed() < seconds(1));
}

#[test]
fn the_pause_names_what_a_person_does_next() {
    let error = Error::new(Code::ExecutionPaused, "x")
        .with_context("execution_id", "e")
        .with_context("workflow_state", "paused")
        .with_context("pause_reasons", json!(["budget"]));
    let payload = error.to_payload("");
    midex_test::says(&payload["suggested_action"], "execution.resume");
    midex_test::says(&payload["suggested_action"], "execution.abandon");
}

#[tokio::test(start_paused = true)]
async fn a_family_is_deleted_together_once_all_of_it_has_ended() {
    let family = Family::begin(PARENT, &[("announce", CHILD)]).await;
    let child = family.child().await;
    let refusal = async |id: &ExecutionId| {
        let refused = family.engine.delete(id).await.expect_err("a refusal");
        assert_eq!(refused.code(), Code::ExecutionStillOpen);
        refused.message().to_owned()
    };
    family.does(&child, json!("hi")).await;
    let refused = refusal(&child).await;
    assert_has(&refused, &["its parent 'e' has not ended"]);
    family.does(&id(), json!("done")).await;
    assert_eq!(family.engine.delete(&id()).await.unwrap(), [id(), child.clone()]);
    assert!(family.children().await.is_empty());
    let gone = family.engine.status(&child).await.expect_err("it is gone");
    assert_eq!(gone.code(), Code::ExecutionDeleted);
}
