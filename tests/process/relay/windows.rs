//! Eight windows of one host: servers of one directory that are killed, stopped and continued at random. What was
//! acknowledged is found again, and no client waits long for an answer: an error that may be tried again is one.

use std::{
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    long::{self, Dice, rounds},
    output,
    project::{Project, eventually, line},
};

const WINDOWS: usize = 8;
/// The longest time that a client waits for an answer while its own server runs.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// A server, its client, and what the client knows.
struct Window {
    server: Server,
    /// The execution that it works on.
    id: String,
    /// How many it has begun.
    begun: usize,
    /// The token of the step that comes next; none where an execution is begun next.
    token: Option<Value>,
    /// The call that waits for its answer.
    asked: Option<(u64, Instant)>,
}

/// How many steps of each execution were acknowledged as done.
type Acknowledged = std::collections::BTreeMap<String, usize>;

impl Window {
    fn open(project: &Project, at: usize) -> Self {
        Self { server: served(project), id: format!("w{at}-0"), begun: 0, token: None, asked: None }
    }

    /// Sends the next call: a start under an id of its own, or the end of a step.
    fn ask(&mut self) {
        let (tool, arguments) = match &self.token {
            None => ("workflow.start", json!({ "workflow_name": "line", "execution_id": self.id })),
            Some(token) => {
                ("workflow.next_step", json!({ "token": token, "output": output("done") }))
            }
        };
        self.asked = Some((self.server.post_call(tool, arguments), now()));
    }

    /// Takes the answer to the call, which waits since `since` at the latest.
    fn hear(&mut self, at: usize, since: Instant, acknowledged: &mut Acknowledged) {
        let Some((id, posted)) = self.asked.take() else {
            return;
        };
        let until = posted.max(since) + ANSWERED_WITHIN;
        let answer = loop {
            let left = until.saturating_duration_since(now());
            let line = match self.server.lines().recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => panic!("window {at} waits for an answer"),
                Err(RecvTimeoutError::Disconnected) => panic!("the server of window {at} ended"),
            };
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["id"] == id {
                break line["result"].clone();
            }
        };
        let content = &answer["structuredContent"];
        if answer["isError"] == true {
            // A retryable error is an answer; the same call is sent in the next round.
            assert_eq!(content["retryable"], true, "window {at}: {content}");
            return;
        }
        let done = match content["step_name"].as_str() {
            Some("a") => 0,
            Some("b") => 1,
            Some("c") => 2,
            _ => 3,
        };
        acknowledged.insert(self.id.clone(), done);
        self.token = content.get("new_token").filter(|_| done < 3).cloned();
        if self.token.is_none() {
            self.begun += 1;
            self.id = format!("w{at}-{}", self.begun);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "measures real processes")]
fn now() -> Instant {
    Instant::now()
}

/// A server that has shaken hands in time.
fn served(project: &Project) -> Server {
    let start = now();
    let server = project.serve();
    assert!(start.elapsed() < ANSWERED_WITHIN, "a handshake took {:?}", start.elapsed());
    server
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it lets real processes work")]
fn eight_windows_that_are_killed_and_stopped_lose_nothing_and_keep_nobody_waiting() {
    let mut dice = Dice(long::seed(32));
    let project = line();
    let mut windows: Vec<_> = (0..WINDOWS).map(|at| Window::open(&project, at)).collect();
    let mut acknowledged = Acknowledged::new();
    for round in 0..rounds(10, 300) {
        windows.iter_mut().for_each(Window::ask);
        std::thread::sleep(Duration::from_millis(dice.roll(20)));
        let [killed, mut stopped] =
            [0; 2].map(|_: u8| usize::try_from(dice.roll(WINDOWS as u64)).expect("a window"));
        let kills = dice.roll(3) > 0;
        if kills {
            windows[killed].server.kill();
        }
        if (kills && stopped == killed) || dice.roll(3) == 0 {
            stopped = WINDOWS;
        }
        let is_stopped = |at: usize| at == stopped;
        if let Some(window) = windows.get(stopped) {
            window.server.signal(Signal::STOP);
            // The short run continues it soon; the long run also waits until its relays count it as stopped.
            if rounds(0, dice.roll(2)) == 0 {
                std::thread::sleep(Duration::from_millis(dice.roll(300)));
                window.server.signal(Signal::CONT);
            }
        }
        let since = now();
        for (at, window) in windows.iter_mut().enumerate() {
            if kills && at == killed {
                window.asked = None;
            } else if !is_stopped(at) {
                window.hear(at, since, &mut acknowledged);
            }
        }
        if kills {
            windows[killed].server = served(&project);
        }
        if let Some(window) = windows.get_mut(stopped) {
            window.server.signal(Signal::CONT);
            window.hear(stopped, now(), &mut acknowledged);
        }
        assert!(!acknowledged.is_empty() || round < 5, "nothing is ever done");
    }
    let server = &mut windows[0].server;
    for (id, done) in acknowledged {
        let status = eventually("the status is read", || {
            let uri = format!("midex://workflow/workflow_status/{id}");
            let answer = server.request("resources/read", json!({ "uri": uri }));
            let text = answer["result"]["contents"][0]["text"].as_str()?.to_owned();
            serde_json::from_str::<Value>(&text).ok()
        });
        let found = status["steps"]["completed"].as_u64().expect("a number");
        assert!(found >= done as u64, "{id}: {done} were acknowledged: {status}");
    }
}
