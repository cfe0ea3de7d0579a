//! Paginated lists: each page is an attempt of its own, so that a new process continues at the page where an earlier
//! one stopped.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Attachment, AttemptId, Event, Execution, OutputPage, State, ValueReference, Visit, VisitId,
    WaitCondition,
    decision::{DecideResult, Interrupt},
    effect::OutputExtras,
    transition::TransitionBuilder,
};
use crate::{
    cursor::PageCursor,
    definition::Step,
    document::{Digest, JsonText},
    error::Error,
    expression::RenderedValue,
    limits,
    truncate::json_length,
};

/// The pages of a list that a visit fetched so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchedPages {
    /// The digests of the fetched pages, each a list of items.
    pub kept: Vec<Digest>,
    /// The next page.
    pub cursor: PageCursor,
}

/// The key in the input of a visit under which earlier versions kept its pages.
const INPUT_PAGES_KEY: &str = "pages";

/// The pages of a list as earlier versions kept them. The cursor held its marks itself.
#[derive(Deserialize)]
struct PagesInInput {
    kept: Vec<Digest>,
    next: Value,
}

impl Execution {
    pub(super) fn record_page(&mut self, visit_id: &VisitId, items: Digest, cursor: &PageCursor) {
        if let Some(pages) = self.pages.get_mut(visit_id).map(Arc::make_mut) {
            pages.kept.push(items);
            pages.cursor.advance(cursor.clone());
        } else {
            let (kept, cursor) = (vec![items], cursor.clone());
            let pages = Arc::new(FetchedPages { kept, cursor });
            self.pages.insert(visit_id.clone(), pages);
        }
    }
}

impl TransitionBuilder<'_> {
    /// Takes a page of a list, and then requests the next one, or completes the attempt with the whole list.
    pub(super) fn handle_page(
        &mut self,
        position: usize,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        page: &OutputPage,
    ) -> DecideResult<()> {
        if let Some(next_cursor) = &page.next_cursor {
            return self.fetch_next_page(step, attempt_id, &page.items, next_cursor);
        }
        let fetched_pages = self.execution.pages.get(&attempt_id.visit_id).cloned();
        let items = self.join_pages(fetched_pages.as_deref(), page)?;
        if fetched_pages.is_some() {
            // If the step is executed again, it starts at the first page.
            let input = self.read_work_input(visit)?;
            self.replace_work_input(&attempt_id.visit_id, &input)?;
        }
        let output = match page.envelope.clone() {
            Some(around) if json_length(&items) > limits::CALL_REPLY_SHOWN_MAX => {
                let attachment = build_list_attachment(&items, around);
                return self.store_attachment(position, step, attempt_id, visit, &attachment);
            }
            Some(mut around) => {
                around["payload"] = items;
                around
            }
            None => items,
        };
        self.handle_successful_attempt(
            position,
            step,
            attempt_id,
            visit,
            &output,
            OutputExtras::default(),
        )
    }

    fn fetch_next_page(
        &mut self,
        step: &Step,
        attempt_id: &AttemptId,
        items: &[Value],
        next_cursor: &PageCursor,
    ) -> DecideResult<()> {
        let items =
            self.store_value_by_digest(Value::from(items), limits::OUTPUT_BYTES_MAX, "page")?;
        let AttemptId { visit_id, attempt } = attempt_id;
        self.push_event(Event::PageKept {
            visit_id: visit_id.clone(),
            items: items.digest,
            cursor: next_cursor.clone(),
        });
        let owner = self.context.owner;
        self.end_attempt(visit_id, *attempt, None, None, WaitCondition::Operation { owner });
        if self.execution.state != State::Running {
            self.postpone_attempt(visit_id, *attempt);
            return Ok(());
        }
        let visit = self.execution.find_visit(visit_id).map(|(_, _, visit)| visit.clone());
        visit.map_or(Ok(()), |visit| self.retry_work(step, visit_id, &visit))
    }

    /// Takes the pages out of an input in which an earlier version kept them, and keeps them by events.
    pub(super) fn migrate_pages_from_input(
        &mut self,
        visit_id: &VisitId,
        input: &mut RenderedValue,
    ) -> DecideResult<()> {
        let fields = input.value.as_object_mut();
        let Some(pages) = fields.and_then(|fields| fields.remove(INPUT_PAGES_KEY)) else {
            return Ok(());
        };
        let PagesInInput { kept, next } = serde_json::from_value(pages)
            .map_err(|error| Error::internal("pages cannot be read").with_source(error))?;
        self.replace_work_input(visit_id, input)?;
        for (at, items) in kept.iter().enumerate() {
            let is_last = at + 1 == kept.len();
            let next = if is_last { &next } else { &Value::Null };
            let cursor = PageCursor { next: JsonText::from_value(next), seen: Vec::new() };
            self.push_event(Event::PageKept { visit_id: visit_id.clone(), items: *items, cursor });
        }
        Ok(())
    }

    fn replace_work_input(
        &mut self,
        visit_id: &VisitId,
        input: &RenderedValue,
    ) -> DecideResult<()> {
        let input = self.store_work_input(input)?;
        let visit_id = visit_id.clone();
        self.push_event(Event::TaskChanged { visit_id, input });
        Ok(())
    }

    /// The items of all pages, with those of the last one.
    fn join_pages(
        &self,
        fetched_pages: Option<&FetchedPages>,
        last: &OutputPage,
    ) -> DecideResult<Value> {
        let digests = fetched_pages.map_or(&[][..], |pages| &pages.kept).iter();
        let (loaded, missing): (Vec<_>, Vec<_>) = digests
            .map(|digest| self.find_value(ValueReference::by_digest(*digest)))
            .partition(Result::is_ok);
        let missing: Vec<_> = missing.into_iter().filter_map(Result::err).collect();
        if !missing.is_empty() {
            return Err(Interrupt::MissingValues(missing));
        }
        let pages: Vec<Arc<Value>> = loaded.into_iter().flatten().collect();
        let earlier_items = pages.iter().filter_map(|page| page.as_array()).flatten();
        Ok(earlier_items.chain(&last.items).cloned().collect())
    }
}

/// A list that is too long for an output, as an attachment. Its pages came in several responses, so none of their names
/// fits.
fn build_list_attachment(items: &Value, envelope: Value) -> Attachment {
    Attachment {
        name: "items.json".to_owned(),
        content_type: "application/json".to_owned(),
        content: items.to_string().into_bytes(),
        envelope: Some(envelope),
    }
}
