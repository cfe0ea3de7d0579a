//! Three real servers and a database, each in its own network namespace, under faults that a seed chooses: links are cut, servers
//! are stopped and continued or killed, clocks jump, and the database crashes. The test compares the acknowledged outputs with the
//! stored histories. A trigger in the database records each row that a server wrote without owning its shard.

mod clients;
mod cluster;
mod faults;

use std::{ops::Range, time::Duration};

use midex_test::long::{self, Dice};

use self::{clients::Clients, cluster::Cluster, faults::Fault};
use crate::network::{MACHINES, Network};

/// The faults of one run.
const FAULTS: usize = 5;

/// Injects some of the faults while clients work. Returns the violations.
fn run(cluster: &Cluster, seed: u64, faults: &[Fault]) -> Vec<String> {
    let mut dice = Dice(seed);
    work_during(cluster, seed, |_| {
        for _ in 0..FAULTS {
            let at = usize::try_from(dice.roll(faults.len() as u64)).unwrap();
            faults[at].inject(cluster, &mut dice);
        }
    })
}

/// Lets clients start executions and finish their steps until `disturb` returns, and waits until all executions have ended. Returns
/// the violations.
fn work_during(cluster: &Cluster, seed: u64, disturb: impl FnOnce(&Clients<'_>)) -> Vec<String> {
    let clients = Clients::new(cluster, seed);
    std::thread::scope(|scope| {
        for machine in 0..MACHINES {
            let clients = &clients;
            scope.spawn(move || clients.work(machine));
        }
        disturb(&clients);
        clients.finish();
    });
    clients.print_counts();
    let mut wrong = clients.compare_with_histories();
    wrong.extend(cluster.list_unowned_writes());
    wrong.iter().map(|text| format!("seed {seed}: {text}")).collect()
}

/// So many seeds, from a first one that is printed.
fn list_seeds(count: u64) -> Range<u64> {
    let first = long::seed(1);
    first..first + count
}

/// The network of a test. `None` where this process may not make one, and then that is said; the long run needs one.
#[expect(clippy::print_stderr, reason = "nobody takes a test for passed that did not run")]
fn make_network() -> Option<Network> {
    let network = Network::new();
    if network.is_none() {
        eprintln!("NOT RUN: network namespaces need root, and `ip` of iproute2");
        assert!(std::env::var_os("MIDEX_LONG").is_none());
    }
    network
}

#[test]
fn nothing_is_lost_or_done_twice_when_machines_and_links_fail() {
    let Some(network) = make_network() else {
        return;
    };
    let cluster = Cluster::start(network, "400ms");
    for seed in list_seeds(long::rounds(20, 300)) {
        let wrong = run(&cluster, seed, &Fault::ALL);
        assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), cluster.describe());
    }
}

#[test]
fn a_server_that_is_stopped_for_longer_than_a_real_lease_writes_nothing() {
    if long::rounds(0, 1) == 0 {
        return;
    }
    let cluster = Cluster::start(make_network().unwrap(), "10s");
    let wrong = run(&cluster, long::seed(1), &[Fault::LongStop]);
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), cluster.describe());
}

#[test]
fn executions_go_on_while_all_servers_are_restarted_in_turn() {
    let Some(network) = make_network() else {
        return;
    };
    let cluster = Cluster::start(network, "10s");
    let count = long::rounds(150, 10_000);
    let wrong = work_during(&cluster, long::seed(1), |clients| {
        for machine in 0..MACHINES {
            clients.wait_until_started(count * (machine as u64 + 1) / (MACHINES as u64 + 1));
            cluster.restart_server(machine);
        }
        clients.wait_until_started(count);
    });
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), cluster.describe());
}

#[test]
#[expect(clippy::print_stdout, reason = "a figure of the long run")]
fn an_idle_server_asks_the_database_seldom() {
    let Some(network) = make_network() else {
        return;
    };
    let cluster = Cluster::start(network, "10s");
    let seconds = 12;
    let statements = cluster.count_statements_during(Duration::from_secs(seconds));
    println!("{statements} statements of {MACHINES} idle servers in {seconds} s");
    let server_seconds = seconds * MACHINES as u64;
    assert!((server_seconds..=5 * server_seconds).contains(&statements), "{statements}");
}

#[test]
fn writes_without_a_lock_of_the_shard_are_found() {
    let Some(network) = make_network() else {
        return;
    };
    let cluster = Cluster::start(network, "400ms");
    cluster.plant_fault();
    let found = list_seeds(100).any(|seed| !run(&cluster, seed, &[Fault::Stop]).is_empty());
    assert!(found, "the test finds nothing");
}
