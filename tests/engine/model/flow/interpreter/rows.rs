//! The history, as it is to be told.

use super::Interpreter;
use crate::model::flow::manifest::id;

/// A row of the history.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::model::flow) struct Entry<'a> {
    pub(in crate::model::flow) step: &'static str,
    pub(in crate::model::flow) visit: u32,
    pub(in crate::model::flow) item: Option<usize>,
    pub(in crate::model::flow) status: &'a str,
    pub(in crate::model::flow) body: Option<&'a str>,
    pub(in crate::model::flow) late: bool,
}

impl Interpreter<'_> {
    pub(super) fn note(
        &mut self,
        step: usize,
        visit: u32,
        item: Option<usize>,
        status: &'static str,
        body: Option<&'static str>,
    ) {
        let is_own = step == self.flow.steps.len();
        let step = if is_own { "$workflow" } else { id(step) };
        self.history.push(Entry { step, visit, item, status, body, late: false });
    }

    /// The latest row of a visit.
    pub(super) fn row(
        &mut self,
        step: usize,
        visit: u32,
        item: Option<usize>,
        body: Option<&'static str>,
    ) -> &mut Entry<'static> {
        let is_own = step == self.flow.steps.len();
        let of = (if is_own { "$workflow" } else { id(step) }, visit, item, body);
        let mut rows = self.history.iter_mut().rev();
        rows.find(|entry| (entry.step, entry.visit, entry.item, entry.body) == of).expect("its row")
    }
}
