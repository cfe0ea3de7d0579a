//! Thousands of executions over hundreds of connections for minutes: memory and descriptors stay as they are.

use std::{
    fs,
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use midex_test::{
    door::until,
    http::{Client, HttpServer, Stateless},
    long,
};

const STEPS: usize = 40;
/// Executions that a connection leads side by side, a call of each in turn.
const EACH: usize = 16;

/// Counts of calls by how long they took: the k-th is of less than 2^k microseconds.
#[derive(Default)]
struct Histogram([AtomicU64; 32]);

impl Histogram {
    fn add(&self, took: Duration) {
        let bits = 128 - took.as_micros().leading_zeros();
        self.0[bits.min(31) as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.0.iter().enumerate();
        counts.map(|(bits, count)| (1 << bits, count.load(Ordering::Relaxed)))
    }

    fn total(&self) -> u64 {
        self.counts().map(|(_, count)| count).sum()
    }
}

/// Leads executions until it is told to end. Each of them ends in between, and another takes its place.
fn lead(address: SocketAddr, ends: &AtomicBool, took: &Histogram) {
    let mut client = Stateless::new(address);
    let mut tokens: Vec<Option<Value>> = vec![None; EACH];
    while !ends.load(Ordering::Relaxed) {
        for token in &mut tokens {
            let began = now();
            let answer = match token.take() {
                None => client.begin_with(json!({ "workflow_name": "soaked" })),
                Some(token) => client.hand_in(&token, json!({ "summary": "Done." })),
            };
            took.add(began.elapsed());
            *token = answer.get("new_token").filter(|new| new.is_string()).cloned();
            if token.is_none() {
                assert_eq!(answer["workflow_state"], "completed", "{answer}");
            }
        }
    }
}

/// Tells the clients to end, whatever became of the test.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[expect(clippy::disallowed_methods, reason = "it prints how long calls take")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "it watches for a time")]
fn pause() {
    thread::sleep(Duration::from_millis(long::rounds(300, 30_000)));
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures of the long run")]
fn thousands_of_executions_leave_memory_and_descriptors_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    let steps = (0..STEPS).map(|at| format!("  - {{ id: s{at}, guidance: Do it. }}\n"));
    let text = format!("workflow: soaked\ndescription: d\nsteps:\n{}", steps.collect::<String>());
    let folder = home.path().join("soaked");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("soaked.yaml"), text).unwrap();
    let server = HttpServer::with(home.path(), &["--workflows", folder.to_str().unwrap()]);
    let (connections, samples) = (long::rounds(8, 256), long::rounds(2, 10));
    let (ends, took) = (AtomicBool::new(false), Histogram::default());
    let address = server.address;
    let mut seen = Vec::new();
    thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| lead(address, &ends, &took));
        }
        let _ending = AtTheEnd(&ends);
        until("all of them", || (took.total() >= connections * EACH as u64).then_some(()));
        for _ in 0..samples {
            pause();
            seen.push((server.memory() >> 20, server.descriptors(), took.total()));
            println!("MiB, descriptors, calls: {:?}", seen.last());
        }
    });
    for (under, count) in took.counts().filter(|(_, count)| *count > 0) {
        println!("< {under} us: {count}");
    }
    let descriptors: Vec<_> = seen.iter().map(|(_, descriptors, _)| *descriptors).collect();
    let most = usize::try_from(connections).unwrap() + 40;
    assert!(descriptors.iter().all(|count| *count <= most), "{seen:?}");
    // The caches fill at first.
    let (filled, last) = (seen[seen.len() / 2].0, seen[seen.len() - 1].0);
    assert!(last <= filled + filled / 5, "it grows: {seen:?}");
    assert!(took.total() > connections * EACH as u64, "{seen:?}");
}
