//! Filtered pages.

use std::time::{Duration, Instant};

use midex_domain::{
    State, WorkflowName,
    clock::{Clock as _, SystemClock},
};
use midex_engine::store::{ListQuery, SearchText, Store as _};
use tokio::runtime::Runtime;

use super::{Figures, ends_at_once, fill, quantile, rig::Rig, share, start};

/// Pages of each kind.
const PAGES: u64 = 200;
/// Milliseconds that a page may take.
const PAGE_MOST: f64 = 20.0;
/// Rows that are not indexed yet: as many as the index lets come together without haste.
const NOT_INDEXED: u64 = midex_domain::limits::INDEX_LAG_MAX - 50;
/// So many executions have the same `pr`.
const SAME_PR: u64 = 10;

/// The name of a kind of page, and the query for each of its pages.
type Kind = (&'static str, fn(u64) -> ListQuery);

const KINDS: [Kind; 5] = [
    ("label", |number| labelled("pr", number)),
    ("label, state, workflow", |number| {
        let workflow = WorkflowName::parse("bench").ok();
        ListQuery { state: Some(State::Completed), workflow, ..labelled("team", number % 7) }
    }),
    ("label, state, none", |number| ListQuery {
        state: Some(State::Failed),
        ..labelled("team", number % 7)
    }),
    ("text", |number| {
        let text = Some(SearchText::new(&format!("number {number:08}")));
        ListQuery { text, ..ListQuery::default() }
    }),
    ("since", |number| {
        let since = Some(SystemClock.now().minus(Duration::from_secs(number)));
        ListQuery { since, ..ListQuery::default() }
    }),
];

fn labelled(name: &str, value: u64) -> ListQuery {
    let labels = [(name.to_owned(), value.to_string())].into();
    ListQuery { labels, ..ListQuery::default() }
}

/// Pages among few executions, and among many.
pub(crate) fn table(runtime: &Runtime, figures: &mut Figures) {
    let (few, many) = (share(2_000, 10_000), share(20_000, 1_000_000));
    println!("\np99 of {PAGES} pages among {many} executions; times the p99 among {few}\n");
    let [few, many] = [few, many].map(|count| runtime.block_on(time_pages(count)));
    for ((name, few), (_, many)) in few.iter().zip(&many) {
        figures.hold(&format!("{name} ({:.1} times)", many / few), *many, "ms", PAGE_MOST);
    }
}

async fn time_pages(count: u64) -> Vec<(String, f64)> {
    let rig = Rig::new().await;
    let request = start(ends_at_once(), 100);
    let request = move |number| {
        let mut request = request(number);
        let labels = [("pr", number / SAME_PR), ("team", number % 7)];
        request.labels = labels.map(|(name, value)| (name.to_owned(), value.to_string())).into();
        request
    };
    let mut figures = Vec::new();
    fill(&rig.engine, 0..count, 64, request.clone()).await;
    while rig.store.update_index(1).await.expect("an index") {}
    for after in ["", ", with rows that are not indexed"] {
        for (name, query) in KINDS {
            let mut times = Vec::new();
            for number in 0..PAGES {
                let query = ListQuery { limit: 50, ..query(number * (count / PAGES) / SAME_PR) };
                let begin = Instant::now();
                rig.engine.list(query).await.expect("a page");
                times.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            figures.push((format!("{name}{after}"), quantile(&times, 99)));
        }
        let (before, mut next) = (rig.transitions(), count);
        while after.is_empty() && rig.transitions() - before < NOT_INDEXED {
            fill(&rig.engine, next..next + 50, 50, request.clone()).await;
            next += 50;
        }
    }
    rig.stop().await;
    figures
}
