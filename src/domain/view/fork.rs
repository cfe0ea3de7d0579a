//! The replies of forks, retries and rewinds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ForkOriginView, StatusView, history::format_visit};
use crate::{
    error::format_count,
    event::{Event, Row, VisitId},
    execution::{Execution, ForkPlan, PlannedStep, StepFate},
};

/// The steps that a fork or a retry kept, and those that it runs again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForkView {
    /// The execution that it continues.
    pub forked_from: Option<ForkOriginView>,
    /// What becomes of each step; empty for a repeated call.
    pub steps: Vec<PlannedStep>,
    /// The visits of the source whose effects a compensation should have undone and did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_compensated: Vec<String>,
}

impl ForkView {
    /// The view of a fork that was made by this plan.
    pub fn new(fork: &Execution, plan: Option<ForkPlan>) -> Self {
        let plan = plan.unwrap_or_default();
        Self {
            forked_from: ForkOriginView::from_execution(fork),
            steps: plan.steps,
            not_compensated: plan.not_compensated,
        }
    }

    /// The number of kept steps and the names of the steps that run again, as text.
    pub fn summary(&self) -> String {
        let count = |fate| self.steps.iter().filter(|step| step.fate == fate).count();
        let again = self.steps.iter().filter(|step| step.fate == StepFate::OpenAgain);
        let again: Vec<_> = again.map(|step| format!("'{}'", step.step)).collect();
        let kept = format_count(count(StepFate::Kept), "step");
        let again = if again.is_empty() { "none".to_owned() } else { again.join(", ") };
        format!("kept: {kept}; done again: {again}")
    }
}

/// The reply to a rewind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RewindView {
    /// The steps that are pending or open again.
    pub done_again: Vec<String>,
    /// The visits whose effects stay in the world: undo them by hand if they must not stand.
    pub not_undone: Vec<String>,
    /// Whether compensations run first; the step is entered after them.
    pub compensating: bool,
    /// The status after the rewind.
    #[serde(flatten)]
    pub status: StatusView,
}

impl RewindView {
    /// The view of the rewind that made this row.
    pub fn new(status: StatusView, row: Option<&Row>) -> Self {
        let events = row.into_iter().flat_map(|row| &row.events);
        let rewound = events.into_iter().find_map(|event| match event {
            Event::Rewound(rewound) => Some(&**rewound),
            _ => None,
        });
        let steps = rewound.map(|rewound| &rewound.steps);
        let not_undone = rewound.map(|rewound| &rewound.not_undone);
        Self {
            done_again: steps.into_iter().flatten().map(ToString::to_string).collect(),
            not_undone: not_undone.into_iter().flatten().map(visit_name).collect(),
            compensating: rewound.is_some_and(|rewound| !rewound.compensates.is_empty()),
            status,
        }
    }
}

fn visit_name(visit_id: &VisitId) -> String {
    format_visit(visit_id.step().as_str(), visit_id.visit, visit_id.item)
}
