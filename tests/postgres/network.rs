//! Machines in network namespaces, each with an interface to the database and one to the other machines.

use std::{
    fs::File,
    net::Ipv4Addr,
    os::fd::AsFd as _,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The number of machines with a server.
pub(crate) const MACHINES: usize = 3;
/// The directory where the kernel shows the namespaces that `ip` made.
const NAMESPACES: &str = "/run/netns";

/// What an interface of a machine leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Database,
    Peers,
}

impl Link {
    pub(crate) const ALL: [Self; 2] = [Self::Database, Self::Peers];

    fn name(self) -> &'static str {
        match self {
            Self::Database => "base",
            Self::Peers => "peers",
        }
    }

    /// The address of a machine behind this link.
    pub(crate) fn address(self, machine: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self as u8, u8::try_from(machine).unwrap() + 1)
    }
}

/// The namespaces. They are removed when this value is dropped.
pub(crate) struct Network {
    /// What the names of its namespaces begin with.
    prefix: String,
}

impl Network {
    /// Makes the namespaces; `None` if this process may not.
    pub(crate) fn new() -> Option<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let network = Self { prefix: format!("midex{}-{number}-", std::process::id()) };
        let hub = network.hub();
        let add_bridge =
            |link: &Link| run_ip(&["-n", &hub, "link", "add", link.name(), "type", "bridge"]);
        if !run_ip(&["netns", "add", &hub]) || !Link::ALL.iter().all(add_bridge) {
            return None;
        }
        for link in Link::ALL {
            let bridge = link.name();
            let address = format!("{}/24", link.address(MACHINES));
            must_run_ip(&["-n", &hub, "addr", "add", &address, "dev", bridge]);
            must_run_ip(&["-n", &hub, "link", "set", bridge, "up"]);
        }
        must_run_ip(&["-n", &hub, "link", "set", "lo", "up"]);
        for machine in 0..MACHINES {
            let name = network.name(machine);
            must_run_ip(&["netns", "add", &name]);
            must_run_ip(&["-n", &name, "link", "set", "lo", "up"]);
            for link in Link::ALL {
                let (port, device) = (port(link, machine), link.name());
                let end = ["type", "veth", "peer", "name", device, "netns", &name];
                must_run_ip(&[&["-n", &hub, "link", "add", &port][..], &end].concat());
                must_run_ip(&["-n", &hub, "link", "set", &port, "master", device, "up"]);
                let address = format!("{}/24", link.address(machine));
                must_run_ip(&["-n", &name, "addr", "add", &address, "dev", device]);
                must_run_ip(&["-n", &name, "link", "set", device, "up"]);
            }
        }
        Some(network)
    }

    fn hub(&self) -> String {
        self.name(MACHINES)
    }

    fn name(&self, machine: usize) -> String {
        format!("{}{machine}", self.prefix)
    }

    /// A command that runs a program on a machine, or beside the database.
    pub(crate) fn command(&self, machine: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(machine)]).arg(program);
        command
    }

    /// Moves this thread to a machine: the connections that it opens from here on begin there.
    pub(crate) fn enter(&self, machine: usize) {
        let file = File::open(Path::new(NAMESPACES).join(self.name(machine))).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// Drops all packets of a link, in both directions, without an error to their senders.
    pub(crate) fn cut(&self, machine: usize, link: Link) {
        must_run_ip(&["-n", &self.hub(), "link", "set", &port(link, machine), "nomaster"]);
    }

    /// Ends what [`Network::cut`] began.
    pub(crate) fn mend(&self, machine: usize, link: Link) {
        let port = port(link, machine);
        must_run_ip(&["-n", &self.hub(), "link", "set", &port, "master", link.name()]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in 0..=MACHINES {
            run_ip(&["netns", "delete", &self.name(machine)]);
        }
    }
}

/// The end of a link at the bridge.
fn port(link: Link, machine: usize) -> String {
    format!("{}{machine}", link.name())
}

fn run_ip(args: &[&str]) -> bool {
    let status = Command::new("ip").args(args).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[track_caller]
fn must_run_ip(args: &[&str]) {
    assert!(run_ip(args), "ip {args:?}");
}
