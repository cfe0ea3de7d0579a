//! Clients that lead many executions at once through a server that is killed.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use midex_test::{
    door::until,
    http::{Http, HttpServer, Stateless},
};

/// A client that calls again until the call is answered, wherever the server is by then.
#[derive(Clone)]
pub(crate) struct Caller {
    address: Arc<Mutex<SocketAddr>>,
    /// How many calls were sent again.
    repeats: Arc<AtomicUsize>,
}

impl Caller {
    /// Calls a tool that succeeds, and returns its answer.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        until("an answer", || {
            let answer = self.try_call(tool, arguments);
            if answer.is_none() {
                self.repeats.fetch_add(1, Ordering::SeqCst);
            }
            answer
        })
    }

    fn try_call(&self, tool: &str, arguments: &Value) -> Option<Value> {
        let address = *self.address.lock().unwrap();
        let mut http = Http::try_connect(address).ok()?;
        let params = json!({ "name": tool, "arguments": arguments });
        let (headers, message) = Stateless::message(1, "tools/call", params);
        http.send("POST", "/mcp", &headers.all(), message.to_string().as_bytes()).ok()?;
        let answer: Value = serde_json::from_slice(&http.answer().ok()?.body).ok()?;
        let content = &answer["result"]["structuredContent"];
        if content["retryable"] == true {
            return None;
        }
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        Some(content.clone())
    }
}

/// Leads so many executions of a workflow of the user, from so many threads at once, and kills the server meanwhile.
pub(crate) fn lead_while_killed(
    manifest: &str,
    (executions, clients, kills): (usize, usize, usize),
    lead: fn(&Caller, usize),
) {
    let home = tempfile::tempdir().unwrap();
    let workflows = home.path().join("config/midex/workflows");
    std::fs::create_dir_all(&workflows).unwrap();
    std::fs::write(workflows.join("led.yaml"), manifest).unwrap();
    let mut server = HttpServer::start(home.path());
    let caller = Caller {
        address: Arc::new(Mutex::new(server.loopback())),
        repeats: Arc::new(AtomicUsize::new(0)),
    };
    let (next, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let (caller, next, ended) = (caller.clone(), next.clone(), ended.clone());
            thread::spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= executions {
                        return;
                    }
                    lead(&caller, number);
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for kill in 1..=kills {
        until("a share of the executions", || {
            (ended.load(Ordering::SeqCst) >= executions * kill / (kills + 1)).then_some(())
        });
        server.kill();
        server = HttpServer::start(home.path());
        *caller.address.lock().unwrap() = server.loopback();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(ended.load(Ordering::SeqCst), executions);
    assert!(caller.repeats.load(Ordering::SeqCst) > 0, "no call met a killed server");
}
