//! Paginated lists: each page is an attempt of its own, so that a new process continues at the page where an earlier
//! one stopped.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Attachment, AttemptId, Awaiting, Event, Need, OutputPage, State, Visit, VisitId,
    decision::{DecideResult, Interrupt},
    transition::TransitionBuilder,
};
use crate::{
    definition::Step, document::Digest, error::Error, expression::Rendered, limits,
    truncate::length,
};

/// The key in the input of a visit that holds its pages.
const PAGES: &str = "pages";

/// The pages of a list that were fetched so far.
#[derive(Default, Serialize, Deserialize)]
struct Pages {
    /// The digests of the fetched pages, each a list of items.
    kept: Vec<Digest>,
    /// The cursor of the next page.
    next: Value,
}

impl TransitionBuilder<'_> {
    /// Takes a page of a list, and then requests the next one, or completes the attempt with the whole list.
    pub(super) fn page_came(
        &mut self,
        position: usize,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        page: &OutputPage,
    ) -> DecideResult<()> {
        let mut input = self.work_of(visit)?;
        let pages = pages_of(&mut input)?;
        if let Some(next) = &page.next {
            return self.turn_page(step, attempt_id, input, pages, (&page.items, next));
        }
        let items = self.whole_list(&pages, page)?;
        if !pages.kept.is_empty() {
            // If the step is executed again, it starts at the first page.
            self.change_work(&attempt_id.visit_id, &input)?;
        }
        let output = match page.around.clone() {
            Some(around) if length(&items) > limits::CALL_REPLY_SHOWN_MAX => {
                let list = file_of(&items, around);
                return self.attachment_came(position, step, attempt_id, visit, &list);
            }
            Some(mut around) => {
                around["payload"] = items;
                around
            }
            None => items,
        };
        self.attempt_succeeded(position, step, attempt_id, visit, &output, None)
    }

    fn turn_page(
        &mut self,
        step: &Step,
        attempt_id: &AttemptId,
        mut input: Rendered,
        mut pages: Pages,
        (items, next): (&[Value], &Value),
    ) -> DecideResult<()> {
        let items = self.keep_apart(Value::from(items), limits::OUTPUT_BYTES_MAX, "page")?;
        pages.kept.push(items.digest);
        pages.next = next.clone();
        input.value[PAGES] = serde_json::to_value(&pages)
            .map_err(|error| Error::internal("pages cannot be written").because(error))?;
        let AttemptId { visit_id, attempt } = attempt_id;
        self.change_work(visit_id, &input)?;
        let owner = self.facts.owner;
        self.end_attempt(
            visit_id,
            *attempt,
            None,
            None,
            Awaiting::Operation { owner },
        );
        if self.next.state != State::Running {
            self.put_off(visit_id, *attempt);
            return Ok(());
        }
        let visit = self.next.visit(visit_id).map(|(_, _, visit)| visit.clone());
        visit.map_or(Ok(()), |visit| self.retry_work(step, visit_id, &visit))
    }

    fn change_work(&mut self, visit_id: &VisitId, input: &Rendered) -> DecideResult<()> {
        let input = self.keep_work(input)?;
        let visit_id = visit_id.clone();
        self.push(Event::TaskChanged { visit_id, input });
        Ok(())
    }

    /// The items of all pages, with those of the last one.
    fn whole_list(&self, pages: &Pages, last: &OutputPage) -> DecideResult<Value> {
        let before = pages
            .kept
            .iter()
            .map(|digest| self.value(Need::stored(*digest)));
        let (found, needed): (Vec<_>, Vec<_>) = before.partition(Result::is_ok);
        let needed: Vec<_> = needed.into_iter().filter_map(Result::err).collect();
        if !needed.is_empty() {
            return Err(Interrupt::Needs(needed));
        }
        let found: Vec<Arc<Value>> = found.into_iter().flatten().collect();
        let before = found.iter().filter_map(|page| page.as_array()).flatten();
        Ok(before.chain(&last.items).cloned().collect())
    }
}

/// A list that is too long for an output, as an attachment. Its pages came in several responses, so none of their names
/// fits.
fn file_of(items: &Value, around: Value) -> Attachment {
    Attachment {
        name: "items.json".to_owned(),
        content_type: "application/json".to_owned(),
        content: items.to_string().into_bytes(),
        around: Some(around),
    }
}

/// Removes the pages from an input.
fn pages_of(input: &mut Rendered) -> DecideResult<Pages> {
    let pages = input
        .value
        .as_object_mut()
        .and_then(|input| input.remove(PAGES));
    let pages = pages.map(serde_json::from_value).transpose();
    let pages = pages.map_err(|error| Error::internal("pages cannot be read").because(error))?;
    Ok(pages.unwrap_or_default())
}
