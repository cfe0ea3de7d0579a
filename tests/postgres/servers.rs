//! Several servers on one database: who owns what, and that the engine follows it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use midex_domain::{
    Definition, ExecutionId, LifecycleAction, LifecycleChange,
    clock::{SystemClock, SystemIds},
    error::{Code, Error, Result},
    execution::{Report, SignalRequest},
    limits,
    operation::BoxFuture,
    view::CurrentStep,
};
use midex_engine::{
    Engine, ExportRequest, ForkRequest, Options, PeerAnswer, PeerCall, Peers, Redaction,
    StartRequest, Workflows,
    activity::{Activities, Context, function},
    store::Store,
};
use midex_postgres::{LeaseOptions, PostgresStore};
use midex_test::play::{self, id, token};
use serde_json::json;
use tokio::{sync::watch, time::timeout};

use crate::place::{Place, TAKE_ALL};

const ALL_SHARDS: usize = 256;
/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the condition holds.
async fn wait_until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it holds in the end");
}

async fn start_engine(store: &Arc<PostgresStore>) -> Engine {
    start_engine_among(store, None).await
}

async fn start_engine_among(store: &Arc<PostgresStore>, peers: Option<Arc<dyn Peers>>) -> Engine {
    let store: Arc<dyn Store> = store.clone();
    let workflows = Arc::new(Child(play::defined(ONE_STEP)));
    let options = Options::new(store, Arc::new(SystemClock), Arc::new(SystemIds));
    Engine::new(Options { peers, workflows, ..options }).await.unwrap()
}

/// Engines in this process, by address. Calls and answers between them are encoded as JSON, as over HTTP.
#[derive(Debug, Default)]
struct LocalPeers {
    engines: Mutex<HashMap<String, Engine>>,
    /// This many of the next answers are lost.
    answers_to_lose: AtomicUsize,
    /// Whether the servers are suspended: no call is answered, nor done.
    are_suspended: AtomicBool,
}

impl Peers for LocalPeers {
    fn send<'a>(
        &'a self,
        address: &'a str,
        call: &'a PeerCall,
    ) -> BoxFuture<'a, Result<PeerAnswer>> {
        Box::pin(async move {
            if self.are_suspended.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            let engine = self.engines.lock().unwrap().get(address).cloned();
            let gone = || Error::new(Code::StoreUnavailable, "nobody is there");
            let engine = engine.ok_or_else(gone)?;
            let call = serde_json::from_str(&serde_json::to_string(call).unwrap()).unwrap();
            let answer = engine.answer_peer(call).await?;
            let lose = |count: usize| count.checked_sub(1);
            if self.answers_to_lose.fetch_update(SeqCst, SeqCst, lose).is_ok() {
                return Err(Error::new(Code::StoreUnavailable, "the answer is lost"));
            }
            Ok(serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap())
        })
    }
}

/// The only workflow that parents find.
#[derive(Debug)]
struct Child(Arc<Definition>);

impl Workflows for Child {
    fn find<'a>(
        &'a self,
        _: Option<&'a midex_domain::WorkflowLookup>,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Two servers that pass calls to each other, each of which owns half of the shards.
struct Pair {
    place: Place,
    engines: [Engine; 2],
    stores: [Arc<PostgresStore>; 2],
    peers: Arc<LocalPeers>,
}

impl Pair {
    async fn start(name: &str) -> Self {
        let place = Place::new(name);
        let peers = Arc::new(LocalPeers::default());
        let (mut engines, mut stores) = (Vec::new(), Vec::new());
        for address in ["http://one", "http://two"] {
            let store = Arc::new(place.open_at(address).await);
            let engine = start_engine_among(&store, Some(peers.clone())).await;
            peers.engines.lock().unwrap().insert(address.to_owned(), engine.clone());
            engines.push(engine);
            stores.push(store);
        }
        wait_until(|| stores.iter().all(|store| store.count_shards() == ALL_SHARDS / 2)).await;
        let (Ok(engines), Ok(stores)) = (engines.try_into(), stores.try_into()) else {
            panic!("there are two");
        };
        Self { place, engines, stores, peers }
    }

    /// The position of the server that owns the execution.
    fn owner(&self, id: &ExecutionId) -> usize {
        self.stores.iter().position(|store| store.owner(id).is_ok()).expect("one owns it")
    }

    /// Ids of executions that the servers own, four of each.
    fn ids(&self) -> Vec<ExecutionId> {
        let all: Vec<_> = (0..200).map(|number| id(&format!("e{number}"))).collect();
        let of = |owner| all.iter().filter(move |id| self.owner(id) == owner).take(4).cloned();
        of(0).chain(of(1)).collect()
    }

    /// Waits at a server until the execution, or one below it, has a step for a model.
    async fn wait_for_step(&self, server: usize, id: &ExecutionId) -> CurrentStep {
        let turn = async {
            loop {
                let turn = self.engines[server].turn(id, Duration::from_secs(1)).await.unwrap();
                if let Some(step) = turn.steps.into_iter().next() {
                    break step;
                }
            }
        };
        timeout(PATIENCE, turn).await.expect("a step is offered")
    }

    /// Waits at a server until the execution is completed.
    async fn wait_for_end(&self, server: usize, id: &ExecutionId) {
        let engine = &self.engines[server];
        let end = async {
            while engine.status(id).await.unwrap().state != "completed" {
                engine.wait(id, None, Duration::from_secs(1)).await.unwrap();
            }
        };
        timeout(PATIENCE, end).await.expect("it ends");
    }

    async fn stop(self) {
        for engine in self.engines {
            engine.stop().await.unwrap();
        }
    }
}

const ONE_STEP: &str = "steps:
  - { id: only, guidance: Say it, result: {} }
";

fn report() -> Report {
    Report::Output(json!({ "said": "yes" }))
}

#[tokio::test]
async fn any_server_takes_any_call() {
    let pair = Pair::start("any").await;
    let [one, two] = &pair.engines;
    for id in pair.ids() {
        let begun = one.start(play::request(play::defined(TWO_STEPS), id.as_str())).await.unwrap();
        // A repeated start, elsewhere, gets the same answer.
        let again = two.start(play::request(play::defined(TWO_STEPS), id.as_str())).await.unwrap();
        assert_eq!(again.new_token, begun.new_token, "{id}");
        let pause = LifecycleChange { action: LifecycleAction::Pause, reason: None };
        assert_eq!(two.apply_command(&id, pause).await.unwrap().state, "paused");
        let refused = one.advance(&token(&begun), report()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ExecutionPaused);
        let resume = LifecycleChange { action: LifecycleAction::Resume, reason: None };
        assert_eq!(one.apply_command(&id, resume).await.unwrap().state, "running");
        one.apply_command(&id, SignalRequest::new("news", json!(1))).await.unwrap();
        let second = two.advance(&token(&begun), report()).await.unwrap();
        assert_eq!(second.step_name.as_deref(), Some("second"));
        let repeated = one.advance(&token(&begun), report()).await.unwrap();
        assert_eq!(repeated.new_token, second.new_token);
        let failed = Report::Error { message: "no".to_owned(), code: None, retryable: None };
        assert_eq!(one.advance(&token(&second), failed).await.unwrap().workflow_state, "failed");
        let events = two.telemetry(Some(&id), None, 100).await.unwrap();
        let ids: Vec<_> = events.iter().map(|event| event.id).collect();
        assert!(ids.len() > 5 && ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        let retry = ForkRequest { is_retry: true, ..ForkRequest::new(id.clone()) };
        let (_, retried) = two.fork(retry).await.unwrap();
        assert_eq!(retried.execution_id, format!("{id}~2"));
        let done = one.advance(&token(&retried), report()).await.unwrap();
        assert_eq!(done.workflow_state, "completed");
        assert_eq!(one.delete(&id).await.unwrap(), std::slice::from_ref(&id));
        assert_eq!(two.status(&id).await.unwrap_err().code(), Code::ExecutionDeleted);
    }
    // A start without an id creates an execution that the called server owns.
    for (engine, store) in pair.engines.iter().zip(&pair.stores) {
        let begun = engine.start(StartRequest::new(play::defined(ONE_STEP))).await.unwrap();
        assert!(store.owner(&id(&begun.execution_id)).is_ok());
    }
    pair.stop().await;
}

const SIGNAL: &str = "steps:
  - { id: first, wait: { signal: news } }
  - { id: second, wait: { signal: news } }
  - { id: third, guidance: Say it, result: {} }
";

#[tokio::test]
async fn a_call_whose_answer_is_lost_is_sent_again_only_if_a_repeat_has_no_effect() {
    let pair = Pair::start("lost").await;
    let id = pair.ids().remove(0);
    let there = &pair.engines[1 - pair.owner(&id)];
    there.start(play::request(play::defined(SIGNAL), id.as_str())).await.unwrap();
    pair.peers.answers_to_lose.store(1, SeqCst);
    let news = || SignalRequest::new("news", json!(1));
    let error = there.apply_command(&id, news()).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    // It took effect once.
    assert_eq!(there.status(&id).await.unwrap().current_step.as_deref(), Some("second"));
    there.apply_command(&id, news()).await.unwrap();
    let third = there.turn(&id, Duration::from_secs(5)).await.unwrap().steps.remove(0);
    pair.peers.answers_to_lose.store(1, SeqCst);
    let token = third.continuation_token.expect("a token");
    let done = there.advance(&token, report()).await.unwrap();
    assert_eq!(done.workflow_state, "completed");
    assert_eq!(pair.peers.answers_to_lose.load(SeqCst), 0);
    pair.stop().await;
}

#[tokio::test]
async fn a_call_of_a_suspended_server_is_done_by_the_next_owner() {
    let pair = Pair::start("suspended").await;
    let id = pair.ids().remove(0);
    let owner = pair.owner(&id);
    let there = &pair.engines[1 - owner];
    let begun = there.start(play::request(play::defined(ONE_STEP), id.as_str())).await.unwrap();
    pair.peers.are_suspended.store(true, SeqCst);
    let token = token(&begun);
    let call = there.advance(&token, report());
    let take_over = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        pair.stores[owner].close().await.unwrap();
    };
    let (done, ()) =
        timeout(Duration::from_secs(10), async { tokio::join!(call, take_over) }).await.unwrap();
    assert_eq!(done.unwrap().workflow_state, "completed");
    pair.stop().await;
}

const PARENT: &str = "steps:
  - { id: child, workflow: w }
";

#[tokio::test]
async fn parents_and_children_live_on_different_servers() {
    let pair = Pair::start("families").await;
    let [one, _] = &pair.engines;
    for id in pair.ids() {
        one.start(play::request(play::defined(PARENT), id.as_str())).await.unwrap();
        let step = pair.wait_for_step(1, &id).await;
        let token = step.continuation_token.expect("the child's token");
        one.advance(&token, report()).await.unwrap();
        pair.wait_for_end(1, &id).await;
    }
    pair.stop().await;
}

/// Does what a sweep of another server might do just before executions are imported.
const SWEEP_BEFORE_EXECUTIONS: &str = "CREATE FUNCTION sweep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      DELETE FROM contents WHERE digest IN (SELECT digest FROM candidates); DELETE FROM candidates; RETURN NULL;
    END $$;
    CREATE TRIGGER sweep BEFORE INSERT ON executions EXECUTE FUNCTION sweep()";

#[tokio::test]
async fn an_imported_family_lives_on_different_servers_and_has_all_its_contents() {
    let pair = Pair::start("exported").await;
    let [one, _] = &pair.engines;
    for id in pair.ids() {
        one.start(play::request(play::defined(PARENT), id.as_str())).await.unwrap();
        let step = pair.wait_for_step(1, &id).await;
        let output = json!({ "said": "x".repeat(10_000), "by": id.as_str() });
        let token = step.continuation_token.expect("the child's token");
        one.advance(&token, Report::Output(output)).await.unwrap();
        pair.wait_for_end(1, &id).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("all.midex");
    let exported = one.export(ExportRequest {
        ids: Some(pair.ids()),
        since: None,
        redaction: Redaction::default(),
        path: bundle.clone(),
        replaces_file: false,
    });
    let exported = exported.await.unwrap();
    let other = Pair::start("imported").await;
    other.place.connect().await.batch_execute(SWEEP_BEFORE_EXECUTIONS).await.unwrap();
    let imported = other.engines[0].import(bundle, "/".to_owned()).await.unwrap();
    assert_eq!(imported.len(), exported.executions);
    let list = "SELECT encode(digest, 'hex') FROM contents ORDER BY digest";
    let [expected, found] = [&pair.place, &other.place].map(|place| async {
        let rows = place.connect().await.query(list, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    });
    assert_eq!(found.await, expected.await);
    pair.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_wait_sees_what_another_server_does() {
    let pair = Pair::start("waits").await;
    for id in pair.ids() {
        let owner = pair.owner(&id);
        let (here, there) = (&pair.engines[owner], &pair.engines[1 - owner]);
        let begun = here.start(play::request(play::defined(ONE_STEP), id.as_str())).await.unwrap();
        let waiting = there.wait(&id, None, Duration::from_secs(10));
        let act = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            here.advance(&token(&begun), report()).await.unwrap();
        };
        let (seen, ()) = timeout(Duration::from_secs(5), async { tokio::join!(waiting, act) })
            .await
            .expect("the wait ends");
        assert_eq!(seen.unwrap().state, "completed");
    }
    pair.stop().await;
}

const GATE: &str = "steps:
  - { id: ask, gate: Go on? }
";

#[tokio::test]
async fn an_approval_is_taken_only_where_the_execution_is_owned() {
    let pair = Pair::start("gates").await;
    let id = pair.ids().remove(0);
    let owner = pair.owner(&id);
    let (here, there) = (&pair.engines[owner], &pair.engines[1 - owner]);
    there.start(play::request(play::defined(GATE), id.as_str())).await.unwrap();
    let status = here.status(&id).await.unwrap();
    let answer = || play::gate_answer(&status, true, None);
    let refused = there.apply_command(&id, answer()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ShardLost);
    let address = ["http://one", "http://two"][owner];
    assert!(refused.message().contains(&format!("the server at {address} owns")), "{refused}");
    assert_eq!(here.apply_command(&id, answer()).await.unwrap().state, "completed");
    pair.stop().await;
}

#[tokio::test]
async fn servers_share_the_shards_evenly_and_take_over_those_of_one_that_stops() {
    let place = Place::new("shared");
    let first = place.open().await;
    let second = place.open_beside().await;
    wait_until(|| first.count_shards() == 128 && second.count_shards() == 128).await;
    let third = place.open_beside().await;
    let counts = || [&first, &second, &third].map(PostgresStore::count_shards);
    wait_until(|| {
        counts().iter().sum::<usize>() == ALL_SHARDS && counts().iter().all(|n| *n >= 84)
    })
    .await;
    second.close().await.unwrap();
    assert_eq!(second.count_shards(), 0);
    wait_until(|| first.count_shards() == 128 && third.count_shards() == 128).await;
    let client = place.connect().await;
    let owners =
        client.query_one("SELECT count(DISTINCT owner), max(epoch) FROM shards", &[]).await;
    let owners = owners.unwrap();
    assert_eq!(owners.get::<_, i64>(0), 2);
    assert!(owners.get::<_, i64>(1) >= 3, "every hand-over begins an epoch");
}

#[tokio::test]
async fn an_address_belongs_to_one_server() {
    let place = Place::new("addresses");
    let leases = LeaseOptions::new(Duration::from_secs(1));
    let first = place.open_with("http://one", leases).await;
    let refused = place.try_open("http://one", leases).await.unwrap_err();
    assert_eq!(refused.code(), Code::AddressUnusable);
    // One that was killed is followed by another one at the same address.
    let insert = "INSERT INTO servers (name, address, expires_at) VALUES \
                  ('killed', 'http://two', now() + interval '400 milliseconds'), \
                  ('killed earlier', 'http://one', now() - interval '1 hour'), \
                  ('down', 'http://three', now() - interval '1 hour')";
    place.connect().await.batch_execute(insert).await.unwrap();
    let second = place.open_with("http://two", leases).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let status = second.cluster_status().await.unwrap().unwrap();
    let addresses: Vec<_> = status.servers.iter().map(|server| server.address.as_str()).collect();
    assert_eq!(addresses, ["http://one", "http://three", "http://two"]);
    first.close().await.unwrap();
    second.close().await.unwrap();
}

const TWO_STEPS: &str = "steps:
  - { id: first, guidance: Say it, result: {} }
  - { id: second, guidance: Say it again, result: {} }
";

#[tokio::test]
async fn an_engine_forgets_executions_that_it_lost_and_goes_on_with_those_that_it_gets_back() {
    let place = Place::new("forgets");
    let store = Arc::new(place.open().await);
    let engine = start_engine(&store).await;
    let begun = engine.start(play::request(play::defined(TWO_STEPS), "one")).await.unwrap();
    assert_eq!(engine.awake_count(), 1);
    let client = place.connect().await;
    client.batch_execute(TAKE_ALL).await.unwrap();
    wait_until(|| engine.awake_count() == 0).await;
    let refused = engine.advance(&token(&begun), report()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ShardLost);
    // Reads come from the database, so every server answers them.
    assert_eq!(engine.status(&id("one")).await.unwrap().state, "running");
    client.batch_execute("UPDATE shards SET expires_at = now() - interval '1 s'").await.unwrap();
    wait_until(|| store.count_shards() == ALL_SHARDS).await;
    let reply = engine.advance(&token(&begun), report()).await.unwrap();
    assert_eq!(reply.step_name.as_deref(), Some("second"));
    engine.stop().await.unwrap();
}

const TIMER: &str = "steps:
  - { id: pause, wait: { for: 1s } }
  - { id: after, guidance: Say it, result: {} }
";

#[tokio::test]
async fn timers_run_where_their_execution_is_owned_now() {
    let place = Place::new("timers");
    let first = start_engine(&Arc::new(place.open().await)).await;
    let second_store = Arc::new(place.open_beside().await);
    let second = start_engine(&second_store).await;
    let mut started = 0;
    for number in 0..8 {
        let name = format!("e{number}");
        match first.start(play::request(play::defined(TIMER), &name)).await {
            Ok(_) => started += 1,
            Err(error) => assert_eq!(error.code(), Code::ShardLost),
        }
    }
    assert!(started > 0, "the first server owns one of them");
    first.stop().await.unwrap();
    wait_until(|| second_store.count_shards() == ALL_SHARDS).await;
    let mut done = 0;
    for number in 0..8 {
        let id = id(&format!("e{number}"));
        let look = async {
            loop {
                match second.status(&id).await {
                    Ok(status) if status.current_step.as_deref() == Some("after") => break true,
                    Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(error) => {
                        assert_eq!(error.code(), Code::ExecutionNotFound);
                        break false;
                    }
                }
            }
        };
        done += u32::from(timeout(PATIENCE, look).await.expect("the timer runs"));
    }
    assert_eq!(done, started);
    second.stop().await.unwrap();
}

/// Counts how often the only step of each execution begins.
type Begins = Arc<Mutex<HashMap<ExecutionId, usize>>>;

/// An engine with an activity that notes that it begins, and ends once `released` is true.
async fn start_counting_engine(
    store: &Arc<PostgresStore>,
    begins: &Begins,
    released: watch::Receiver<bool>,
) -> Engine {
    let begins = begins.clone();
    let run = move |context: Context| {
        *begins.lock().unwrap().entry(context.execution_id).or_default() += 1;
        let mut released = released.clone();
        async move {
            released.wait_for(|released| *released).await.unwrap();
            Ok(json!({}))
        }
    };
    let activities = Activities::default().with_activity(function("work", run)).unwrap();
    let options = Options::new(store.clone(), Arc::new(SystemClock), Arc::new(SystemIds));
    Engine::new(Options { activities, ..options }).await.unwrap()
}

#[tokio::test]
async fn a_busy_server_gives_shards_away_whose_attempts_have_not_begun() {
    let place = Place::new("busy");
    let begins = Begins::default();
    let (release, released) = watch::channel(false);
    let first_store = Arc::new(place.open().await);
    let first = start_counting_engine(&first_store, &begins, released).await;
    let definition = play::defined_with("steps:\n  - { id: only, activity: work }\n", &["work"]);
    let ids: Vec<_> = (0..3 * limits::ATTEMPTS_AT_ONCE_MAX).map(|at| format!("e{at}")).collect();
    for id in &ids {
        first.start(play::request(definition.clone(), id)).await.unwrap();
    }
    let count_begun = || begins.lock().unwrap().len();
    wait_until(|| count_begun() == limits::ATTEMPTS_AT_ONCE_MAX).await;

    // Every shard has work by now, and none of it ends.
    let second_store = Arc::new(place.open_beside().await);
    let second = start_counting_engine(&second_store, &begins, watch::channel(true).1).await;
    wait_until(|| second_store.count_shards() > 0).await;
    wait_until(|| count_begun() > limits::ATTEMPTS_AT_ONCE_MAX).await;
    release.send(true).unwrap();
    let end = async {
        for id in &ids {
            while second.status(&play::id(id)).await.unwrap().state != "completed" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    timeout(PATIENCE, end).await.expect("all executions complete");
    assert_eq!(count_begun(), ids.len());
    assert!(begins.lock().unwrap().values().all(|count| *count == 1), "nothing is done twice");
    wait_until(|| [&first_store, &second_store].iter().all(|it| it.count_shards() == 128)).await;
    for engine in [first, second] {
        engine.stop().await.unwrap();
    }
}
