//! Servers under load whose owner is killed again and again: nothing acknowledged is lost, nothing is done twice, no client
//! but that of the killed process is disconnected, and every subscription is still told.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    door::{Door, preamble},
    long::{Dice, rounds, seed},
    output,
    project::{Project, eventually, line},
};

/// The execution that nobody moves before the end, and that every client has subscribed to.
const LAST: &str = "last";
const LAST_STATUS: &str = "midex://workflow/workflow_status/last";

/// What the clients and whoever kills their servers share.
#[derive(Default)]
struct Load {
    killed: Mutex<BTreeSet<u32>>,
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    fn is_killed(&self, pid: u32) -> bool {
        self.killed.lock().expect("a list").contains(&pid)
    }

    /// Kills the process that owns the directory.
    fn kill_owner(&self, project: &Project) {
        let owner = eventually("somebody owns the directory", || {
            let owner = owner(project)?;
            (!self.is_killed(owner)).then_some(owner)
        });
        self.killed.lock().expect("a list").insert(owner);
        let pid = Pid::from_raw(i32::try_from(owner).expect("a process"));
        kill_process(pid.expect("a process"), Signal::KILL).expect("it lives");
    }

    /// Waits until so many more transitions are acknowledged.
    fn wait_for(&self, more: u64) {
        let now = || self.acknowledged.load(Ordering::Relaxed);
        let (mut seen, enough) = (now(), now() + more);
        while seen < enough {
            let is_news = |now: &u64| *now > seen;
            seen = eventually("the load goes on", || Some(now()).filter(is_news));
        }
    }
}

/// The process that owns the directory, as it says itself; none while nobody does.
fn owner(project: &Project) -> Option<u32> {
    let mut door = Door::knock(&project.data_dir());
    door.say(&preamble(project.root())).ok()?;
    u32::try_from(door.line()?["pid"].as_u64()?).ok()
}

/// A client, whose host starts another server for it where its own was killed.
struct Worker<'a> {
    project: &'a Project,
    load: &'a Load,
    server: Server,
    ended: Vec<String>,
}

impl<'a> Worker<'a> {
    fn new(project: &'a Project, load: &'a Load) -> Self {
        let server = Server::run(project.command("serve"));
        let mut worker = Self { project, load, server, ended: Vec::new() };
        while worker.try_to_begin().is_none() {
            worker.replace();
        }
        worker
    }

    fn try_to_begin(&mut self) -> Option<()> {
        let client = json!({ "name": "test", "version": "0" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        self.server.try_request("initialize", hello)?;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.server.try_send(&ready)?;
        let last = json!({ "uri": LAST_STATUS });
        let subscribed = self.server.try_request("resources/subscribe", last)?;
        assert!(subscribed["error"].is_null(), "{subscribed}");
        Some(())
    }

    /// Another server, as the host starts it. Nobody is disconnected whose server lives.
    fn replace(&mut self) {
        assert!(self.load.is_killed(self.server.pid()), "disconnected");
        let ended = std::mem::take(&mut self.ended);
        *self = Self { ended, ..Self::new(self.project, self.load) };
    }

    /// Makes a call that may be made twice until it is answered.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        loop {
            if let Some(answer) = self.server.try_request("tools/call", params.clone()) {
                let result = &answer["result"];
                assert_eq!(result["isError"], false, "{answer}");
                self.load.acknowledged.fetch_add(1, Ordering::Relaxed);
                return result["structuredContent"].clone();
            }
            self.replace();
        }
    }

    /// Begins executions and brings them to their ends until the load is over.
    fn work(mut self, at: u64) -> Self {
        while !self.load.is_over.load(Ordering::Relaxed) || self.ended.is_empty() {
            let id = format!("w{at}-{}", self.ended.len());
            let start = json!({ "workflow_name": "line", "execution_id": id });
            let mut reply = self.call("workflow.start", &start);
            for step in ["a", "b", "c"] {
                assert_eq!(reply["step_name"], step, "{reply}");
                let done = json!({ "token": reply["new_token"], "output": output(step) });
                reply = self.call("workflow.next_step", &done);
            }
            assert_eq!(reply["workflow_state"], "completed", "{reply}");
            self.ended.push(id);
        }
        self
    }

    /// Waits until the client is told of what it has subscribed to.
    fn is_told(&mut self) {
        while self.server.next_line()["params"]["uri"] != LAST_STATUS {}
    }
}

#[test]
fn owners_killed_under_load_cost_no_acknowledged_transition_and_no_subscription() {
    let (clients, kills, between) = (rounds(4, 8), rounds(2, 5), rounds(60, 6000));
    let project = line();
    let load = Load::default();
    let mut dice = Dice(seed(13));
    let (project, load) = (&project, &load);
    let mut workers: Vec<_> = std::thread::scope(|scope| {
        let work = |at| scope.spawn(move || Worker::new(project, load).work(at));
        let workers: Vec<_> = (0..clients).map(work).collect();
        for _ in 0..kills {
            load.wait_for(between / 2 + dice.roll(between));
            load.kill_owner(project);
        }
        load.wait_for(between);
        load.is_over.store(true, Ordering::Relaxed);
        let ended = workers.into_iter().map(|worker| worker.join().expect("it works"));
        ended.collect()
    });
    let mut reader = project.serve();
    for id in workers.iter().flat_map(|worker| &worker.ended) {
        let status = reader.status(id);
        assert_eq!(
            (&status["state"], &status["revision"]),
            (&json!("completed"), &json!(4)),
            "{id}"
        );
    }
    for worker in &mut workers {
        // What the takeovers told is behind it.
        worker.server.request("ping", json!({}));
    }
    reader.begin("line", LAST);
    workers.iter_mut().for_each(Worker::is_told);
    reader.change("pause", LAST);
    workers.iter_mut().for_each(Worker::is_told);
}
