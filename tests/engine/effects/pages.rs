//! Lists that come in pages: each page is an attempt, and whatever happens the next one goes on where it was.

use super::{crash::process, *};
use midex_domain::{
    clock::Timestamp,
    document::{Digest, JsonText},
    event::{Event, Payload, Row, VisitId},
    execution::Execution,
    execution::{EffectOutput, OutputPage},
    operation::{BoxFuture, OperationCall, Operations, Outcome, PageCursor},
};
use midex_engine::{Secrets, store::Commit};
use midex_test::{TokioClock, long::rounds};
use std::sync::atomic::Ordering;

/// A list of pages of two items; each page takes 10 s.
#[derive(Clone, Debug)]
struct Book {
    /// How many pages it has.
    length: u64,
    /// The first page whose mark every later call is given.
    marked_from: u64,
    /// The pages that were asked for, and with which key.
    asked: Arc<Mutex<Vec<(u64, String)>>>,
    /// Pages that fail, once each.
    failing: Arc<Mutex<Vec<u64>>>,
}

impl Book {
    fn of(length: u64) -> Self {
        Self { length, marked_from: 1, asked: Arc::default(), failing: Arc::default() }
    }

    fn asked(&self) -> Vec<u64> {
        let asked = self.asked.lock().expect("a list");
        asked.iter().map(|(page, _)| *page).collect()
    }
}

impl Operations for Book {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let max_pages = call.paginate.expect("a page is asked for").max_pages;
            let page = match call.cursor {
                None => 1,
                Some(PageCursor { next, seen }) => {
                    let page = next.value()["page"].as_u64().unwrap();
                    assert!(
                        seen.into_iter().eq(self.marked_from..page),
                        "the marks of all pages before"
                    );
                    page
                }
            };
            self.asked.lock().expect("a list").push((page, call.idempotency_key));
            tokio::time::sleep(seconds(10)).await;
            let mut failing = self.failing.lock().expect("a list");
            if let Some(at) = failing.iter().position(|failing| *failing == page) {
                failing.remove(at);
                return Err(OperationFailure::new("network", "gone").as_retryable());
            }
            let more = page < self.length.min(u64::from(max_pages.unwrap_or(10)));
            Ok(EffectOutput::Page(OutputPage {
                items: vec![json!(page * 10), json!(format!("{page} hunter2-hunter2"))],
                next_cursor: more.then(|| PageCursor {
                    next: JsonText::from_value(&json!({ "page": page + 1 })),
                    seen: vec![page],
                }),
                envelope: call.whole.then(|| json!({ "status_code": 200, "payload": null })),
            }))
        })
    }

    fn has_catalog(&self, _: &str) -> bool {
        true
    }

    fn is_safe(&self, _: &str, _: &str) -> bool {
        true
    }
}

async fn engine(store: Arc<FailingStore>, at: Timestamp, book: &Book) -> Engine {
    let options = Options {
        operations: Arc::new(book.clone()),
        secrets: Secrets::from_iter([("KEY".to_owned(), "hunter2-hunter2".to_owned())]),
        ..Options::new(store, Arc::new(TokioClock::starting_at(at)), Arc::new(SeededIds::new(1)))
    };
    Engine::new(options).await.expect("an engine")
}

fn listing(max_pages: u32, run: Value, more: Value) -> Arc<Definition> {
    let mut kind = json!({
        "catalog": "shop", "operation": "orders.list", "paginate": { "max_pages": max_pages }
    });
    kind.as_object_mut().unwrap().extend(run.as_object().unwrap().clone());
    let mut with = json!({ "with": { "key": "${{ secrets.KEY }}" } });
    with.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let kind = json!({ "run": kind });
    defined(json!([step("call", None, kind, with)]), json!({}))
}

fn items(pages: u64) -> Value {
    let page = |page| [json!(page * 10), json!(format!("{page} ${{secret:KEY}}"))];
    (1..=pages).flat_map(page).collect()
}

#[tokio::test(start_paused = true)]
async fn each_page_is_an_attempt_and_the_output_is_the_whole_list() {
    let book = Book::of(3);
    let engine = engine(Arc::default(), EPOCH, &book).await;
    begin(&engine, listing(9, json!({}), json!({})), json!({})).await;
    until(&engine, |status| status.state == "completed").await;
    assert_eq!(output_of(&engine, "call").await, items(3));
    assert_eq!(book.asked(), [1, 2, 3]);
    let rows = history(&engine).await;
    let rows: Vec<_> = rows.iter().map(|row| (row.attempt, &*row.status)).collect();
    assert_eq!(rows, [(1, "completed"), (2, "completed"), (3, "completed")]);
    let asked = book.asked.lock().expect("a list");
    assert!(asked.iter().all(|(_, key)| *key == asked[0].1), "one visit");
}

#[tokio::test(start_paused = true)]
async fn one_page_is_a_list_too_and_more_than_the_list_may_be_wanted() {
    let book = Book::of(3);
    let engine = engine(Arc::default(), EPOCH, &book).await;
    let definition = listing(1, json!({ "whole": true }), json!({}));
    begin(&engine, definition, json!({})).await;
    until(&engine, |status| status.state == "completed").await;
    let whole = json!({ "status_code": 200, "payload": items(1) });
    assert_eq!(output_of(&engine, "call").await, whole);
}

#[test]
fn after_a_crash_a_list_goes_on_at_its_next_page() {
    for (ends_after, asked) in
        [(5, vec![1, 1, 2, 3]), (15, vec![1, 2, 2, 3]), (25, vec![1, 2, 3, 3])]
    {
        let (store, book) = (Arc::new(FailingStore::default()), Book::of(3));
        process().block_on(async {
            let engine = engine(store.clone(), EPOCH, &book).await;
            begin(&engine, listing(9, json!({}), json!({})), json!({})).await;
            tokio::time::sleep(seconds(ends_after)).await;
        });
        process().block_on(async {
            let engine = engine(store, EPOCH.plus(seconds(60)), &book).await;
            until(&engine, |status| status.state == "completed").await;
            assert_eq!(output_of(&engine, "call").await, items(3));
        });
        assert_eq!(book.asked(), asked, "{ends_after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_failed_is_asked_for_again_and_each_page_may_fail_as_often() {
    let book = Book::of(3);
    *book.failing.lock().expect("a list") = vec![1, 2, 3];
    let engine = engine(Arc::default(), EPOCH, &book).await;
    let retry = json!({ "retry": { "max_attempts": 2, "backoff": "1s", "max_backoff": "1s", "jitter": false, "on": ["network"] } });
    begin(&engine, listing(9, json!({}), retry), json!({})).await;
    until(&engine, |status| status.state == "completed").await;
    assert_eq!(output_of(&engine, "call").await, items(3));
    assert_eq!(book.asked(), [1, 1, 2, 2, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_repeated_begins_with_its_first_page_and_its_rounds_are_counted() {
    let book = Book::of(3);
    let engine = engine(Arc::default(), EPOCH, &book).await;
    let repeat =
        json!({ "repeat": { "until": "steps.call == []", "every": "1s", "max_attempts": 2 } });
    begin(&engine, listing(9, json!({}), repeat), json!({})).await;
    let status = until(&engine, |status| status.state == "failed").await;
    assert_eq!(failure(&status), "REPEAT_EXHAUSTED");
    assert_eq!(book.asked(), [1, 2, 3, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn while_a_person_pauses_no_further_page_is_asked_for() {
    let book = Book::of(3);
    let engine = engine(Arc::default(), EPOCH, &book).await;
    begin(&engine, listing(9, json!({}), json!({})), json!({})).await;
    tokio::time::sleep(seconds(5)).await;
    change(&engine, LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(book.asked(), [1]);
    change(&engine, LifecycleAction::Resume).await;
    until(&engine, |status| status.state == "completed").await;
    assert_eq!(book.asked(), [1, 2, 3]);
    assert_eq!(output_of(&engine, "call").await, items(3));
}

/// The bytes of all rows and of all content that a list of so many pages stores.
fn stored_for(pages: u64) -> usize {
    let (store, book) = (Arc::new(FailingStore::default()), Book::of(pages));
    process().block_on(async {
        let engine = engine(store.clone(), EPOCH, &book).await;
        let max_pages = u32::try_from(pages).unwrap();
        begin(&engine, listing(max_pages, json!({}), json!({})), json!({})).await;
        while engine.status_now("e").await.state != "completed" {
            tokio::time::sleep(seconds(1000)).await;
        }
        let rows = store.load_history(&id()).await.expect("the rows");
        let sizes = rows.iter().map(|row| postcard::to_stdvec(row).unwrap().len());
        sizes.sum::<usize>() + store.committed_content_bytes.load(Ordering::SeqCst)
    })
}

#[test]
fn twice_as_many_pages_store_twice_as_many_bytes() {
    let pages = rounds(60, 500);
    let (once, twice) = (stored_for(pages), stored_for(2 * pages));
    assert!(twice * 2 < once * 5, "{once} bytes and then {twice}");
}

/// Earlier versions kept the pages in the input of the visit, with the marks of all of them in the cursor.
#[test]
fn a_list_that_an_earlier_version_began_goes_on_at_its_next_page() {
    let (store, book) = (Arc::new(FailingStore::default()), Book::of(4));
    let definition = listing(9, json!({}), json!({}));
    process().block_on(async {
        let engine = engine(store.clone(), EPOCH, &book).await;
        begin(&engine, definition.clone(), json!({})).await;
        tokio::time::sleep(seconds(25)).await;
    });
    let digests = process().block_on(async {
        let rows = store.load_history(&id()).await.expect("the rows");
        let events = rows.iter().flat_map(|row| &row.events);
        let kept = events.filter_map(|event| match event {
            Event::PageKept { items, .. } => Some(*items),
            _ => None,
        });
        let kept: Vec<Digest> = kept.collect();
        let input = rows[0].events.iter().find_map(|event| match event {
            Event::VisitOpened(opened) => opened.input.as_ref(),
            _ => None,
        });
        let input = store.load_content(input.expect("an input").digest).await;
        let mut input: Value = serde_json::from_slice(&input.unwrap().unwrap()).unwrap();
        input["value"]["pages"] = json!({ "kept": kept, "next": { "page": 3 } });
        let text = JsonText::from_value(&input);
        let stored = store.load(&id()).await.unwrap().expect("an execution");
        let row = Row {
            execution_id: id(),
            revision: stored.execution.revision() + 1,
            at: EPOCH.plus(seconds(26)),
            events: vec![Event::TaskChanged {
                visit_id: VisitId::for_step_work(
                    midex_domain::StepId::parse("call").unwrap(),
                    1,
                    None,
                ),
                input: Payload {
                    digest: text.digest(),
                    bytes: text.as_str().len() as u64,
                    inline: None,
                },
            }],
        };
        let next = Execution::apply_row(Some(stored.execution), &row).unwrap();
        let commit = Commit {
            due: next.wake_at(&definition),
            execution: Arc::new(next),
            row: Arc::new(row),
            contents: vec![(text.digest(), text.as_str().as_bytes().into())],
            position: stored.position,
            past: None,
        };
        store.commit(commit).await.expect("a commit");
        kept
    });
    assert_eq!(digests.len(), 2);
    // Marks of an earlier version are in its cursor, where the catalogs read them.
    let later = Book { marked_from: 3, ..book.clone() };
    process().block_on(async {
        let engine = engine(store, EPOCH.plus(seconds(60)), &later).await;
        until(&engine, |status| status.state == "completed").await;
        assert_eq!(output_of(&engine, "call").await, items(4));
    });
    assert_eq!(book.asked(), [1, 2, 3, 3, 4]);
}
