//! The servers, and the database with a record of who wrote what.

use std::{
    env, fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use midex_test::{
    certificates::{Authority, ServerFiles},
    http::HttpServer,
};
use tempfile::TempDir;

use crate::{
    home::Home,
    network::{Link, MACHINES, Network},
};

const WORKFLOW: &str = "workflow: steps
description: Steps of a client, and one of the server
steps:
  - { id: first, guidance: Do it, result: {} }
  - { id: second, guidance: Do it, result: {} }
  - { id: between, set: { done: true } }
  - { id: third, guidance: Do it, result: {} }
  - { id: fourth, guidance: Do it, result: {} }
";

/// The steps that a client does.
pub(super) const STEPS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Where the servers listen for the others.
const PEER_PORT: u16 = 7400;

/// Notes each row of the journal that a machine wrote while another one owned its shard. The lock of the shard that a server holds
/// while it writes keeps the owner as it is until its transaction ends.
const RECORD_WRITES: &str = "
CREATE VIEW owners AS SELECT shard, address FROM shards;
CREATE TABLE unowned_writes (execution_id text, revision int8, machine text, owner text);
CREATE FUNCTION record_write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE owned_by text;
BEGIN
    SELECT address INTO owned_by FROM owners WHERE shard = (NEW.seq & 255)::int4;
    IF owned_by NOT LIKE '%.' || split_part(host(inet_client_addr()), '.', 4) || ':%' THEN
        INSERT INTO unowned_writes VALUES (NEW.execution_id, NEW.revision, host(inet_client_addr()), owned_by);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER record_write AFTER INSERT ON journal FOR EACH ROW EXECUTE FUNCTION record_write();
";

/// Lets the lock of a shard succeed for each server that has ever owned it, for as long as the server likes, and lock nothing: a
/// server that relied on its own clock alone would write as if this were so.
const PLANT_FAULT: &str = "
ALTER TABLE shards RENAME TO owned_shards;
CREATE TABLE grants AS SELECT * FROM owned_shards;
CREATE FUNCTION record_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO grants VALUES (NEW.*);
    RETURN NEW;
END $$;
CREATE TRIGGER record_grant AFTER UPDATE ON owned_shards FOR EACH ROW WHEN (OLD.epoch <> NEW.epoch)
    EXECUTE FUNCTION record_grant();
CREATE FUNCTION never_time_out() RETURNS text LANGUAGE sql VOLATILE AS
    $$ SELECT set_config('idle_in_transaction_session_timeout', '0', true) $$;
CREATE VIEW shards AS
    SELECT g.shard, g.owner, g.epoch,
        (SELECT o.expires_at FROM owned_shards o WHERE o.shard = g.shard AND o.epoch = g.epoch) AS expires_at, g.address
    FROM grants g WHERE never_time_out() IS NOT NULL;
CREATE FUNCTION change_shard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE owned_shards SET owner = NEW.owner, epoch = NEW.epoch, expires_at = NEW.expires_at, address = NEW.address
        WHERE shard = OLD.shard AND epoch = OLD.epoch;
    IF NOT FOUND THEN RETURN NULL; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER change_shard INSTEAD OF UPDATE ON shards FOR EACH ROW EXECUTE FUNCTION change_shard();
";

/// The database and the servers.
pub(super) struct Cluster {
    pub(super) network: Network,
    home: Home,
    authority: Authority,
    files: Vec<ServerFiles>,
    lease: &'static str,
    database: Database,
    servers: [Mutex<Option<HttpServer>>; MACHINES],
    /// Where each server listens for clients on its own machine.
    addresses: [Mutex<Option<SocketAddr>>; MACHINES],
}

impl Cluster {
    /// Starts the database and all servers with leases of this duration.
    pub(super) fn start(network: Network, lease: &'static str) -> Self {
        let authority = Authority::new();
        let sign = |machine| authority.sign(&Link::Peers.address(machine).to_string());
        let cluster = Self {
            files: (0..MACHINES).map(sign).collect(),
            authority,
            database: Database::start(&network),
            network,
            home: Home::new(WORKFLOW),
            lease,
            servers: Default::default(),
            addresses: Default::default(),
        };
        for machine in 0..MACHINES {
            cluster.set_clock(machine, "+0");
            cluster.start_server(machine);
        }
        cluster.database.execute(RECORD_WRITES);
        cluster
    }

    /// Replaces the check of owners in the database by one that always succeeds.
    pub(super) fn plant_fault(&self) {
        self.database.execute(PLANT_FAULT);
    }

    pub(super) fn server(&self, machine: usize) -> MutexGuard<'_, Option<HttpServer>> {
        self.servers[machine].lock().unwrap()
    }

    /// Where the server of a machine listens for clients on it.
    pub(super) fn address(&self, machine: usize) -> SocketAddr {
        self.addresses[machine].lock().unwrap().expect("all servers have started")
    }

    /// Starts a server on a machine that has none.
    pub(super) fn start_server(&self, machine: usize) {
        let (address, files) = (Link::Peers.address(machine), &self.files[machine]);
        let database = Link::Database.address(MACHINES);
        let mut command = self.network.command(machine, &Home::binary());
        self.home.add_serve_flags(&mut command, &format!("data{machine}"));
        command
            .args(["--cluster-lease", self.lease])
            .args(["--store", &format!("postgres://midex@{database}/postgres?sslmode=disable")])
            .args(["--advertise", &format!("https://{address}:{PEER_PORT}")])
            .arg("--cluster-ca")
            .arg(self.authority.file())
            .arg("--cluster-cert")
            .arg(&files.certificate)
            .arg("--cluster-key")
            .arg(&files.key)
            .env("RUST_LOG", "warn");
        let library = env::var_os("MIDEX_FAKETIME").expect("`tests/postgres/run` names it");
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", self.clock_file(machine))
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let server = HttpServer::run(command);
        *self.addresses[machine].lock().unwrap() = Some(server.address);
        *self.server(machine) = Some(server);
    }

    /// Stops a server in order, and starts it again.
    pub(super) fn restart_server(&self, machine: usize) {
        let mut server = self.server(machine).take().unwrap();
        server.terminate();
        assert!(server.wait().success());
        self.start_server(machine);
    }

    /// How many transactions the database runs in this time. It counts those of an idle connection up to ten seconds later.
    #[expect(clippy::disallowed_methods, reason = "a real database is measured")]
    pub(super) fn count_statements_during(&self, time: Duration) -> u64 {
        let count = || {
            let count = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database";
            self.database.execute(count).trim().parse::<u64>().unwrap()
        };
        // Those of the start are counted by then.
        std::thread::sleep(Duration::from_secs(11));
        let before = count();
        std::thread::sleep(time);
        count() - before
    }

    fn clock_file(&self, machine: usize) -> PathBuf {
        self.home.file(&format!("clock{machine}"))
    }

    /// Sets the clock of a machine ahead of the true time by so many seconds. Programs see it within a second.
    pub(super) fn set_clock(&self, machine: usize, ahead: &str) {
        fs::write(self.clock_file(machine), ahead).unwrap();
    }

    /// Ends the database as a crash does, and starts it again.
    pub(super) fn restart_database(&self) {
        self.database.control("restart", &self.network);
    }

    /// The rows that a server wrote without owning their shard.
    pub(super) fn list_unowned_writes(&self) -> Vec<String> {
        let rows = self.database.execute(
            "SELECT format('%s wrote revision %s of %s, whose shard %s owned', machine, revision, execution_id, owner) \
             FROM unowned_writes",
        );
        rows.lines().map(str::to_owned).collect()
    }

    /// What the servers said last, for a failure.
    pub(super) fn describe(&self) -> String {
        let last = |machine| {
            let text = self.server(machine).as_ref().map(HttpServer::stderr).unwrap_or_default();
            let lines: Vec<_> = text.lines().rev().take(30).collect();
            format!(
                "machine {machine}:\n{}",
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            )
        };
        (0..MACHINES).map(last).collect::<Vec<_>>().join("\n")
    }
}

/// A PostgreSQL beside the machines.
struct Database {
    scratch: TempDir,
    programs: PathBuf,
}

impl Database {
    fn start(network: &Network) -> Self {
        let programs =
            env::var_os("MIDEX_POSTGRES_PROGRAMS").expect("`tests/postgres/run` names it");
        let scratch = tempfile::tempdir().unwrap();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let database = Self { scratch, programs: programs.into() };
        let mut init = database.as_postgres("initdb", Command::new("env"));
        let init = init.args(["-U", "midex", "-A", "trust", "-E", "UTF8", "--no-locale", "-D"]);
        assert!(init.arg(database.data()).stdout(Stdio::null()).status().unwrap().success());
        let access = database.data().join("pg_hba.conf");
        let rule = fs::read_to_string(&access).unwrap() + "host all all 10.77.0.0/24 trust\n";
        fs::write(access, rule).unwrap();
        database.control("start", network);
        database
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Completes a command that runs one of the programs of PostgreSQL, which do not run as root.
    fn as_postgres(&self, program: &str, mut command: Command) -> Command {
        if rustix::process::geteuid().is_root() {
            command.args(["runuser", "-u", "postgres", "--"]);
        }
        command.arg(self.programs.join(program)).current_dir("/");
        command
    }

    fn control(&self, action: &str, network: &Network) {
        let mut command = self.as_postgres("pg_ctl", network.command(MACHINES, Path::new("env")));
        let address = Link::Database.address(MACHINES);
        let sockets = self.scratch.path().display();
        let options = format!("-h {address} -p 5432 -k {sockets} -c fsync=off");
        command
            .arg(action)
            .arg("-D")
            .arg(self.data())
            .arg("-l")
            .arg(self.scratch.path().join("log"));
        command.args(["-w", "-m", "immediate", "-o", &options]).stdout(Stdio::null());
        assert!(command.status().unwrap().success(), "{action}");
    }

    /// Executes statements, and returns the rows as lines.
    fn execute(&self, statements: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-U",
            "midex",
            "-d",
            "postgres",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
        ]);
        let output = psql.arg(self.scratch.path()).args(["-c", statements]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut stop = self.as_postgres("pg_ctl", Command::new("env"));
        let stop = stop.arg("stop").arg("-D").arg(self.data()).args(["-m", "immediate"]);
        let _ = stop.stdout(Stdio::null()).status();
    }
}
