//! Sessions that many clients lead through the tools of a workflow, while the server is killed.

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
    long,
};

const NOTES: &str = "workflow: notes
description: Takes three notes
inputs: { topic: { type: string, example: rain } }
expose: { tools: true }
steps:
  - { id: one, guidance: 'Note on ${{ inputs.topic }}.', result: { type: string } }
  - { id: two, guidance: Another one., result: { type: string } }
  - { id: three, guidance: A last one., result: { type: string } }
final_output: '${{ inputs.topic }}: ${{ steps.one.output }} ${{ steps.two.output }} ${{ steps.three.output }}'
";

/// A client that calls again until the call is answered, wherever the server is by then.
struct Caller {
    address: Arc<Mutex<SocketAddr>>,
    /// How many calls were sent again.
    repeats: Arc<AtomicUsize>,
}

impl Caller {
    fn call(&self, tool: &str, arguments: &Value) -> Value {
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

    /// Leads a session to its end. A repeated call gets the answer of the first one, so each step is done once.
    fn lead(&self, topic: &str) {
        let mut last = self.call("notes_start", &json!({ "topic": topic }));
        let session = last["sessionId"].clone();
        for (number, step) in ["one", "two", "three"].into_iter().enumerate() {
            assert_eq!(last["nextActivity"], step, "{last}");
            assert_eq!(last["progress"], json!({ "current": number, "total": 3 }), "{last}");
            let result = format!("{topic}/{step}");
            let arguments =
                json!({ "sessionId": session, "token": last["token"], "result": result });
            last = self.call("notes_continue", &arguments);
            assert_eq!(last["sessionId"], session);
            assert_eq!(last["stepResult"], result, "{last}");
        }
        let results = format!("{topic}: {topic}/one {topic}/two {topic}/three");
        assert_eq!((&last["status"], &last["results"]), (&json!("completed"), &json!(results)));
        let read = self.call("notes_status", &json!({ "sessionId": session }));
        assert_eq!(read["results"], results);
    }
}

#[test]
fn no_session_is_lost_or_mixed_up_while_the_server_is_killed_twice() {
    let home = tempfile::tempdir().unwrap();
    let workflows = home.path().join("config/midex/workflows");
    std::fs::create_dir_all(&workflows).unwrap();
    std::fs::write(workflows.join("notes.yaml"), NOTES).unwrap();
    let clients = usize::try_from(long::rounds(8, 50)).unwrap();
    let sessions = usize::try_from(long::rounds(96, 1_000)).unwrap();
    let mut server = HttpServer::start(home.path());
    let address = Arc::new(Mutex::new(server.loopback()));
    let (next, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let repeats = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let caller = Caller { address: address.clone(), repeats: repeats.clone() };
            let (next, ended) = (next.clone(), ended.clone());
            thread::spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= sessions {
                        return;
                    }
                    caller.lead(&format!("topic {number}"));
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for kill in 1..=2 {
        until("a share of the sessions", || {
            (ended.load(Ordering::SeqCst) >= sessions * kill / 3).then_some(())
        });
        server.kill();
        server = HttpServer::start(home.path());
        *address.lock().unwrap() = server.loopback();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(ended.load(Ordering::SeqCst), sessions);
    assert!(repeats.load(Ordering::SeqCst) > 0, "no call met a killed server");
}
