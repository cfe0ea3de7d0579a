//! Lists with filters: whatever is indexed so far, the store on the disk finds what the store in memory finds.

use std::sync::Arc;

use midex_domain::{State, WorkflowName, clock::Timestamp};
use midex_engine::store::{
    ExaminationProgress, ListQuery, MemoryStore, Options, RedbStore, SearchText, Store,
    contract::{deletion::build_deletion, script::build_named_definition},
};
use serde_json::json;

use super::script::Script;
use midex_test::long::{self, Dice};

const WORKFLOWS: [&str; 3] = ["deploy", "review", "triage"];
const STATES: [State; 4] = [State::Completed, State::Failed, State::Running, State::Abandoned];
const BEGIN: i64 = 1_700_000_000;

async fn read_ids(store: &dyn Store, mut query: ListQuery) -> (Vec<String>, Vec<String>) {
    let (mut executions, mut summaries) = (Vec::new(), Vec::new());
    let first = query.clone();
    loop {
        let page = store.list(query.clone()).await.unwrap();
        executions.extend(page.executions.iter().map(|(_, one)| one.id().to_string()));
        query.before = page.next_key;
        if page.next_key.is_none() {
            break;
        }
    }
    query = first;
    loop {
        let page = store.list_summaries(query.clone()).await.unwrap();
        summaries.extend(page.summaries.iter().map(|one| one.id.to_string()));
        query.before = page.next_key;
        if page.next_key.is_none() {
            return (executions, summaries);
        }
    }
}

fn pick(dice: &mut Dice, count: usize) -> usize {
    usize::try_from(dice.roll(count as u64)).unwrap()
}

fn random_query(random: &mut Dice, latest: i64) -> ListQuery {
    let mut query = ListQuery { limit: 1 + pick(random, 40), ..ListQuery::default() };
    if random.roll(2) == 0 {
        query.workflow = Some(WorkflowName::parse(WORKFLOWS[pick(random, 3)]).unwrap());
    }
    if random.roll(2) == 0 {
        query.state = Some(STATES[pick(random, 4)]);
    }
    if random.roll(2) == 0 {
        query.labels.insert("pr".into(), pick(random, 4).to_string());
    }
    if random.roll(4) == 0 {
        query.labels.insert("team".into(), "red".into());
    }
    if random.roll(3) == 0 {
        query.project = Some(format!("/p{}", pick(random, 2)));
        query.roots_only = random.roll(2) == 0;
    }
    let instant = |random: &mut Dice| {
        let span = usize::try_from(latest - BEGIN + 1).unwrap();
        Timestamp::from_milliseconds((BEGIN + i64::try_from(pick(random, span)).unwrap()) * 1000)
    };
    if random.roll(4) == 0 {
        query.since = Some(instant(random));
    }
    if random.roll(4) == 0 {
        query.until = Some(instant(random));
    }
    if random.roll(3) == 0 {
        query.text = Some(SearchText::new(["TOPIC 1", "e7", "long", "missing"][pick(random, 4)]));
    }
    query.open_only = random.roll(8) == 0;
    query
}

#[tokio::test]
async fn what_is_found_does_not_depend_on_what_is_indexed() {
    let mut random = Dice(long::seed(1));
    let directory = tempfile::tempdir().unwrap();
    let mut disk = RedbStore::open(directory.path(), Options::default()).unwrap();
    let memory = MemoryStore::new();
    let mut scripts: Vec<(Script, Script)> = Vec::new();
    let mut second = BEGIN;
    let rounds = long::rounds(300, 1_500);
    for round in 0..rounds {
        second += 1;
        match random.roll(10) {
            0..=4 => {
                let definition = build_named_definition(WORKFLOWS[pick(&mut random, 3)], 2);
                let mut script = Script::with_definition(
                    &format!("e{round}"),
                    Arc::clone(&definition),
                )
                .with_project(Some(&format!("/p{}", pick(&mut random, 2))))
                .with_inputs(json!({
                    "topic": format!("Topic {}", pick(&mut random, 5)),
                    "text": if random.roll(5) == 0 { "long ".repeat(2_000) } else { String::new() },
                }));
                if random.roll(2) == 0 {
                    script = script.with_label("pr", &pick(&mut random, 4).to_string());
                }
                if random.roll(3) == 0 {
                    script = script.with_label("team", ["red", "blue"][pick(&mut random, 2)]);
                }
                script.set_second(second);
                let mut twin = script.duplicate();
                script.commit_step(&disk).await.unwrap();
                twin.commit_step(&memory).await.unwrap();
                scripts.push((script, twin));
            }
            5..=7 if !scripts.is_empty() => {
                let index = pick(&mut random, scripts.len());
                let (script, twin) = &mut scripts[index];
                if script.execution.as_ref().unwrap().state().is_final() {
                    continue;
                }
                script.set_second(second);
                twin.set_second(second);
                let state = STATES[pick(&mut random, 4)];
                script.commit_state(&disk, state).await.unwrap();
                twin.commit_state(&memory, state).await.unwrap();
            }
            8 if !scripts.is_empty() => {
                let index = pick(&mut random, scripts.len());
                let (script, twin) = scripts.swap_remove(index);
                disk.delete(build_deletion(&script, second)).await.unwrap();
                memory.delete(build_deletion(&twin, second)).await.unwrap();
            }
            _ => {}
        }
        if random.roll(6) == 0 {
            disk.update_index(1 + random.roll(20)).await.unwrap();
        }
        if random.roll(60) == 0 {
            disk.close().await.unwrap();
            drop(disk);
            disk = RedbStore::open(directory.path(), Options::default()).unwrap();
        }
        for _ in 0..3 {
            let query = random_query(&mut random, second);
            let (on_disk, summaries) = read_ids(&disk, query.clone()).await;
            let (in_memory, _) = read_ids(&memory, query.clone()).await;
            assert_eq!(on_disk, in_memory, "round {round}: {query:?}");
            assert_eq!(summaries, in_memory, "round {round}: {query:?}");
        }
    }
    while disk.update_index(1).await.unwrap() {}
    let mut next = Some(ExaminationProgress::default());
    while let Some(from) = next {
        next = disk.examine(from).await.unwrap().next_progress;
    }
}
