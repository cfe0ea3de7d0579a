//! Invariants of an execution between transitions. Debug builds assert them after every transition.

use crate::limits;

use super::{Execution, PauseReason, State, StepState, StepStatus, Visit, WaitCondition};

impl Execution {
    pub(super) fn assert_invariants(&self) {
        self.assert_state();
        self.assert_offers();
        let is_open = |visit_id| {
            (self.find_visit(visit_id)).is_some_and(|(.., visit)| visit.awaiting.is_some())
        };
        assert!(self.pages.keys().all(is_open), "pages are kept for open visits");
        let visits: usize = self.steps.iter().map(|step| step.visits.len()).sum();
        assert_eq!(self.visits as usize, visits, "every visit is counted");
        for step in &self.steps {
            step.assert_visits();
        }
        let is_unknown = |visit: &Visit| visit.awaiting == Some(WaitCondition::Unknown);
        assert_eq!(
            self.open_visits().any(|(_, _, visit)| is_unknown(visit)),
            self.pauses.contains(&PauseReason::OutcomeUnknown),
            "a person is asked for an outcome exactly where one is unknown"
        );
        let is_deferred =
            |visit: &Visit| matches!(visit.awaiting, Some(WaitCondition::Deferred(_)));
        assert!(
            self.state == State::Paused
                || !self.open_visits().any(|(_, _, visit)| is_deferred(visit)),
            "what came during a pause takes effect at its end"
        );
    }

    fn assert_offers(&self) {
        assert!(self.offers.len() <= limits::OFFERS_MAX);
        let can_have_offers = !self.state.is_final() || self.state == State::Completed;
        assert!(
            can_have_offers || self.offers.is_empty(),
            "an execution that ended otherwise than completed offers nothing"
        );
        for offer in &self.offers {
            assert!(offer.revision <= self.revision && self.find_visit(&offer.visit_id).is_some());
        }
    }

    fn assert_state(&self) {
        let is_final = self.state.is_final();
        assert!(
            !is_final || self.open_visits().next().is_none(),
            "nothing is open in an execution that has ended"
        );
        assert_eq!(is_final, self.completed_at.is_some());
        assert_eq!(self.state == State::Failed, self.failure.is_some());
        assert!(self.failing.is_none() || !is_final);
        let is_paused = self.state == State::Paused;
        assert_eq!(is_paused, !self.pauses.is_empty());
        assert_eq!(is_paused, self.paused_at.is_some());
        assert!(self.pauses.is_sorted_by(|one, other| one < other));
    }
}

impl StepState {
    fn assert_visits(&self) {
        let id = &self.id;
        let is_open = |visit: &Visit| visit.awaiting.is_some();
        let (last, previous) = match self.visits.split_last() {
            Some((last, before)) => (Some(last), before.last()),
            None => (None, None),
        };
        assert_eq!(
            self.status == StepStatus::Running,
            last.is_some_and(|visit| is_open(visit)),
            "step '{id}' is running exactly while its latest visit is open"
        );
        assert!(
            !previous.is_some_and(|visit| is_open(visit)),
            "step '{id}' has one open visit at most"
        );
        for visit in last.into_iter().map(|visit| &**visit).chain(self.items.open_items()) {
            assert_eq!(is_open(visit), visit.closed.is_none(), "a visit of step '{id}'");
        }
        let total = match last.and_then(|visit| visit.awaiting.as_ref()) {
            Some(WaitCondition::Items { total, .. }) => *total as usize,
            _ => 0,
        };
        assert!(
            self.items.open_count() == 0 || self.items.len() <= total,
            "items of step '{id}' are open only while it waits for them"
        );
    }
}
