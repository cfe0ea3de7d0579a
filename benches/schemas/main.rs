//! What the worst schemas cost a call: each is held against the value that it is worst for, and ends with the budget.
//!
//! `cargo bench --bench schemas` prints the median of 20 evaluations, and the memory that the process took at most
//! beyond what the value takes; then what the same costs as calls of the real binary ([`served`]).
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

mod served;
#[path = "../../tests/authoring/schemas/worst.rs"]
mod worst;

use std::{
    fs,
    time::{Duration, Instant},
};

use midex_domain::schema::Schema;
use serde_json::json;

/// A line of what the system knows of this process, in KiB.
fn memory(of: &str) -> u64 {
    memory_of("self", of)
}

/// The same of any process.
fn memory_of(process: &str, of: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(of));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() {
    evaluated();
    served::run(&worst::worst());
}

/// The evaluations alone.
fn evaluated() {
    let mut cases = worst::worst();
    let usual = json!({ "type": "object", "required": ["summary"], "properties": {
        "summary": { "type": "string", "maxLength": 4000 }, "findings": { "items": { "type": "string" } } } });
    let output = json!({ "summary": "x".repeat(300), "findings": vec!["a finding"; 20] });
    cases.push(("an output as there are many", usual, output));
    cases.push((
        "an expression, 40 levels",
        worst::expressions("anyOf"),
        worst::nested(40, json!("x")),
    ));
    for (what, schema, value) in cases {
        let schema = Schema::compile(&schema).expect("a schema");
        // Resets the peak, where the system lets it.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let before = memory("VmRSS");
        let mut times: Vec<Duration> = (0..20)
            .map(|_| {
                let begin = Instant::now();
                std::hint::black_box(schema.find_violations(&value));
                begin.elapsed()
            })
            .collect();
        times.sort_unstable();
        let more = memory("VmHWM").saturating_sub(before);
        println!("{what:32} {:>12.3?} {:>8} KiB", times[times.len() / 2], more);
    }
}
