//! What one server must not miss or break while another one works on the same database.

use std::{sync::Arc, time::Duration};

use midex_engine::store::{
    Store as _, TelemetryQuery,
    contract::{
        deletion::sweep_store,
        script::{Script, build_refusal},
    },
};

use midex_domain::error::Code;

use crate::place::{COUNT_BLOCKED, Place};

#[tokio::test]
async fn a_change_just_before_a_takeover_is_listed() {
    let place = Place::new("missed");
    let (first, second) = (place.open().await, place.open_beside().await);
    while second.count_shards() < 128 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut scripts = (0..).map(|at| Script::new(&format!("e{at}"), 9));
    let mut script = scripts.find(|script| second.owner(&script.id).is_ok()).unwrap();
    script.commit_step(&second).await.unwrap();
    let listed = first.list_moved_elsewhere(None).await.unwrap();
    let since = listed.iter().map(|(key, _)| *key).max();
    let moved = script.commit_step(&second).await.unwrap();
    second.close().await.unwrap();
    while first.count_shards() < 256 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let listed = first.list_moved_elsewhere(since).await.unwrap();
    assert!(listed.contains(&(moved, script.id.clone())), "{listed:?}");
    // From here on only this server moves it.
    script.commit_step(&first).await.unwrap();
    assert_eq!(first.list_moved_elsewhere(since).await.unwrap(), []);
}

#[tokio::test]
async fn a_refusal_with_the_key_of_another_servers_refusal_fails_no_commit() {
    let place = Place::new("refusals");
    let (store, client) = (place.open().await, place.connect().await);
    store.note_refusal(build_refusal(1, None));
    store.load_telemetry(TelemetryQuery::default()).await.unwrap();
    // Every key that a server may give to such a refusal in the next minute.
    client
        .batch_execute(
            "INSERT INTO refusals (seq, record) SELECT last + 256 * tick, '' FROM \
             (SELECT max(seq) AS last FROM refusals) AS one, generate_series(1, 960000) AS tick",
        )
        .await
        .unwrap();
    store.note_refusal(build_refusal(2, None));
    Script::new("one", 9).commit_step(&store).await.unwrap();
}

#[tokio::test]
async fn a_candidate_that_is_noted_during_a_sweep_is_kept() {
    let place = Place::new("noted_again");
    let (store, mut other) = (Arc::new(place.open().await), place.connect().await);
    let mut named = Script::new("named", 9);
    named.commit_steps(&*store, 2).await;
    // The rows of `named` name the definition; nothing names the other content.
    let definition = named.execution.as_ref().unwrap().definition();
    let note = "INSERT INTO candidates (digest) VALUES ($1) ON CONFLICT (digest) DO UPDATE SET mark = candidates.mark + 1";
    let (digest, unnamed) = (definition.as_bytes().as_slice(), [0_u8; 32].as_slice());
    other
        .execute("INSERT INTO contents (digest, bytes) VALUES ($1, 'x')", &[&unnamed])
        .await
        .unwrap();
    for candidate in [digest, unnamed] {
        other.execute(note, &[&candidate]).await.unwrap();
    }

    let lock = other.transaction().await.unwrap();
    let hold = "SELECT 1 FROM contents WHERE digest = $1 FOR UPDATE";
    lock.execute(hold, &[&unnamed]).await.unwrap();
    let sweep = tokio::spawn({
        let store = store.clone();
        async move { sweep_store(&*store, 0).await }
    });
    while lock.query_one(COUNT_BLOCKED, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    // Another server deletes an execution that named it.
    lock.execute(note, &[&digest]).await.unwrap();
    lock.commit().await.unwrap();
    sweep.await.unwrap();
    let left = other.query("SELECT digest FROM candidates", &[]).await.unwrap();
    let left: Vec<&[u8]> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, [digest]);
}

#[tokio::test]
async fn tables_of_an_earlier_version_are_upgraded() {
    let place = Place::new("upgraded");
    let mut script = Script::new("one", 9);
    let store = place.open().await;
    script.commit_steps(&store, 2).await;
    store.close().await.unwrap();
    let client = place.connect().await;
    let earlier = "UPDATE meta SET value = 1; ALTER TABLE candidates DROP COLUMN mark";
    client.batch_execute(earlier).await.unwrap();
    // Two servers of the new version start at once.
    let (first, second) = tokio::join!(place.open_beside(), place.open_beside());
    script.check_store(&first).await;
    sweep_store(&second, 0).await;
    let version = client.query_one("SELECT value FROM meta", &[]).await.unwrap();
    assert_eq!(version.get::<_, i64>(0), 2);
}

/// Refuses rows of the connections that are open now, as if the database had been read-only when they were opened.
const REFUSE_OPEN_CONNECTIONS: &str = "CREATE TABLE refused AS SELECT pid FROM pg_stat_activity;
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF EXISTS (SELECT FROM refused WHERE pid = pg_backend_pid()) THEN
        RAISE EXCEPTION 'a read-only transaction' USING ERRCODE = '25006';
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON journal EXECUTE FUNCTION refuse()";

#[tokio::test]
async fn a_connection_that_can_only_read_is_replaced() {
    let place = Place::new("read_only");
    let (store, client) = (place.open().await, place.connect().await);
    let mut script = Script::new("one", 9);
    script.commit_step(&store).await.unwrap();
    client.batch_execute(REFUSE_OPEN_CONNECTIONS).await.unwrap();
    let refused = script.commit_step(&store).await.unwrap_err();
    assert_eq!(refused.code(), Code::StoreUnavailable);
    script.commit_step(&store).await.unwrap();
}
