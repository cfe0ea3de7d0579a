//! What a call costs: an operation of a catalog beside the same request by bare `reqwest`, to one service on loopback.
//!
//! `cargo bench --bench calls` prints both rates at 1 and 64 in flight, measured in turns, and the ratio of their times.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use midex_catalog::call::{
    AddressPolicy, CallOptions, CallTarget, Caller, PreparedOperation, SecretSources,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};

/// As the binary allocates.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const CALLS: u32 = 4096;
const ROUNDS: usize = 9;

/// What both send, and what both read.
struct Rig {
    address: SocketAddr,
    bare: reqwest::Client,
    caller: Caller,
    prepared: PreparedOperation,
    target: CallTarget,
}

/// Answers each request with the same JSON.
async fn serve(mut stream: TcpStream) {
    let body = json!({ "id": "a-1", "name": "thing", "tags": ["a", "b"], "size": 3 }).to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut buffer = Vec::with_capacity(4096);
    while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        if buffer.ends_with(b"\r\n\r\n") {
            buffer.clear();
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

fn service(runtime: &Runtime) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a listener");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(serve(stream));
        }
    });
    address
}

fn rig(address: SocketAddr) -> Rig {
    let written =
        json!({ "styled": { "style": "simple", "explode": false, "allow_reserved": false } });
    let parameter = |name: &str, location: &str| {
        json!({
            "argument": name, "name": name, "location": location, "is_required": true, "description": "",
            "schema": { "type": "string", "maxLength": 100 }, "written": written
        })
    };
    let operation = json!({
        "name": "things:info", "aliases": [], "summary": "", "description": "", "method": "GET", "path": "/v1/things/{id}",
        "servers": [], "parameters": [parameter("id", "path"), parameter("q", "query")], "body": null, "output": null,
        "security": [["key"]], "pagination": null, "idempotency_header": null, "is_deprecated": false, "class": "safe", "extensions": {},
        "uncallable": null
    });
    let origin = format!("http://{address}");
    Rig {
        address,
        bare: reqwest::Client::builder().no_proxy().build().expect("a client"),
        caller: Caller::new(SecretSources {
            environment: [("KEY".to_owned(), "0123456789abcdef".to_owned())].into(),
            ..SecretSources::default()
        }),
        prepared: PreparedOperation::new(serde_json::from_value(operation).expect("an operation")),
        target: CallTarget {
            address_policy: AddressPolicy::new("bench", [address.to_string().as_str()])
                .expect("a reach"),
            base_url: origin.clone(),
            schemes: [(
                "key".to_owned(),
                serde_json::from_value(json!({ "type": "bearer" })).expect("a scheme"),
            )]
            .into(),
            credentials: [("key".to_owned(), "${env:KEY}".to_owned())].into(),
            origins: [origin].into(),
            ..CallTarget::default()
        },
    }
}

impl Rig {
    async fn bare(&self) {
        let url = format!("http://{}/v1/things/a-1?q=x", self.address);
        let sent = self.bare.get(url).header("authorization", "Bearer 0123456789abcdef");
        let bytes = sent.send().await.expect("an answer").bytes().await.expect("a body");
        let value: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(value["size"], 3);
    }

    async fn call(&self) {
        let with = json!({ "id": "a-1", "q": "x" });
        let options = CallOptions::default();
        let answer =
            self.caller.call_operation(&self.prepared, &self.target, &with, None, &options);
        assert_eq!(answer.await.expect("an answer").payload.into_value()["size"], 3);
    }
}

/// How long so many calls take, of which so many are in flight.
fn time(runtime: &Runtime, rig: &Arc<Rig>, in_flight: u32, is_bare: bool) -> Duration {
    let start = Instant::now();
    let each = |_| {
        let rig = rig.clone();
        runtime.spawn(async move {
            for _ in 0..CALLS / in_flight {
                if is_bare {
                    rig.bare().await;
                } else {
                    rig.call().await;
                }
            }
        })
    };
    let tasks: Vec<_> = (0..in_flight).map(each).collect();
    for task in tasks {
        runtime.block_on(task).expect("all its calls");
    }
    start.elapsed()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    // Bare `reqwest` takes the provider of the process; midex brings its own.
    let provider = rustls::crypto::ring::default_provider();
    provider.install_default().expect("the first provider");
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let rig = Arc::new(rig(service(&runtime)));
    for in_flight in [1, 64] {
        let (mut bare, mut called, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let of_bare = time(&runtime, &rig, in_flight, true).as_secs_f64();
            let of_calls = time(&runtime, &rig, in_flight, false).as_secs_f64();
            // The first one makes connections.
            if round > 0 {
                bare.push(of_bare);
                called.push(of_calls);
                ratios.push(of_calls / of_bare);
            }
        }
        let rate = |times: Vec<f64>| f64::from(CALLS) / median(times);
        println!(
            "{in_flight:>2} in flight: reqwest {:.0}/s, midex {:.0}/s, a call takes {:.2} times as long",
            rate(bare),
            rate(called),
            median(ratios)
        );
    }
}
