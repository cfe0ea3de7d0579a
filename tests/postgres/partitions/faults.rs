//! What may happen to machines and links.

use std::time::Duration;

use midex_test::long::Dice;
use rustix::process::Signal;

use super::cluster::Cluster;
use crate::network::{Link, MACHINES};

/// Something that fails for a while, which is shorter or longer than a lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The packets on these links are lost.
    Cut(&'static [Link]),
    /// A server is stopped, and then continued.
    Stop,
    /// The same, for longer than the default lease.
    LongStop,
    /// A server is killed, and then started.
    Kill,
    /// The clock of a machine jumps. It stays as it is then.
    ClockJump,
    /// The database crashes, and recovers.
    DatabaseCrash,
}

impl Fault {
    pub(super) const ALL: [Self; 7] = [
        Self::Cut(&[Link::Database]),
        Self::Cut(&[Link::Peers]),
        Self::Cut(&Link::ALL),
        Self::Stop,
        Self::Kill,
        Self::ClockJump,
        Self::DatabaseCrash,
    ];

    /// Injects the fault at a machine, and lets a moment of peace pass after its end.
    pub(super) fn inject(self, cluster: &Cluster, dice: &mut Dice) {
        let machine = usize::try_from(dice.roll(MACHINES as u64)).unwrap();
        match self {
            Self::Cut(links) => {
                for link in links {
                    cluster.network.cut(machine, *link);
                }
                pause(dice, 50, 1_200);
                for link in links {
                    cluster.network.mend(machine, *link);
                }
            }
            Self::Stop => stop(cluster, machine, || pause(dice, 50, 1_200)),
            Self::LongStop => stop(cluster, machine, || pause(dice, 9_000, 14_000)),
            Self::Kill => {
                cluster.server(machine).as_mut().unwrap().kill();
                pause(dice, 10, 800);
                cluster.start_server(machine);
            }
            Self::ClockJump => {
                let ahead = ["+3600", "-3600", "+2", "-2", "+0"];
                let at = dice.roll(ahead.len() as u64);
                cluster.set_clock(machine, ahead[usize::try_from(at).unwrap()]);
            }
            Self::DatabaseCrash => cluster.restart_database(),
        }
        pause(dice, 20, 300);
    }
}

fn stop(cluster: &Cluster, machine: usize, pause: impl FnOnce()) {
    let server = cluster.server(machine);
    let server = server.as_ref().unwrap();
    server.signal(Signal::STOP);
    pause();
    server.signal(Signal::CONT);
}

#[expect(clippy::disallowed_methods, reason = "a fault lasts for a while")]
fn pause(dice: &mut Dice, from: u64, to: u64) {
    std::thread::sleep(Duration::from_millis(from + dice.roll(to - from)));
}
