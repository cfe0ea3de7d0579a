//! Twenty steps of many kinds, beside twenty plain steps of an agent.

use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    manifest::manifest,
    rig::{Load, Rig},
    support::{definition, median, rate},
};

/// Twenty steps: all but `short`, which the branch before it passes, come to an end by being done.
const MIXED: &str = r#"
inputs:
  request: { type: string }
  platform: { type: string, enum: [iOS, Android], optional: true }
  notes: { type: string, optional: true }
  parts: { type: array }
memory: { count: 0, said: "${{ inputs.request }}" }
steps:
  - { id: look, guidance: "Look at ${{ inputs.request }} for ${{ inputs.platform }}.", result: { type: object, required: [score] } }
  - { id: read, extract: { from: "${{ inputs.notes }}", properties: [request, platform] } }
  - { id: ask, input: { properties: [platform] } }
  - { id: count, set: { count: "${{ memory.count + steps.look.score }}" } }
  - id: route
    branch:
      - { if: "memory.count < 5", next: short }
      - { next: long }
  - { id: short, guidance: Never., result: {}, next: word }
  - { id: long, tool: search, with: { query: "${{ memory.said }}", score: "${{ steps.look.score }}" }, result: {} }
  - { id: word, wait: { signal: go } }
  - { id: build, activity: echo, with: { by: "${{ steps.word.by }}", count: "${{ memory.count }}" } }
  - id: each
    foreach: { in: "${{ inputs.parts }}", as: part, parallel: 5, do: { guidance: "Do ${{ part.name }} (${{ index }}).", result: {} } }
  - { id: sum, set: { parts: "${{ steps.each | length }}", first: "${{ steps.each }}" } }
  - { id: check, activity: echo, with: { parts: "${{ memory.parts }}" }, retry: { max_attempts: 3 } }
  - { id: more, if: "steps.check.parts > 3", tool: publish, with: { to: "${{ inputs.platform }}" }, result: {} }
  - { id: short_wait, wait: { until: "2020-01-01T00:00:00Z" } }
  - id: again
    branch:
      - { if: "run.visits.look > 1", next: $end }
      - { next: tell }
  - { id: tell, guidance: "Say that ${{ memory.parts }} parts are done.", result: {} }
  - { id: note, set: { said: "${{ inputs.request }} is done" } }
  - { id: store, activity: echo }
  - { id: last, guidance: "Read it once more.", result: {} }
  - { id: done, set: { count: "${{ memory.count + 1 }}" } }
final_output: { count: "${{ memory.count }}", said: "${{ memory.said }}", parts: "${{ memory.parts }}" }
"#;

pub(crate) const IN_FLIGHT: [u64; 2] = [1, 64];

pub(crate) fn loads() -> [(&'static str, Load); 2] {
    let parts: Vec<_> = (0..5).map(|at| json!({ "name": format!("part {at}") })).collect();
    let inputs = json!({ "request": "An app", "platform": "iOS", "parts": parts });
    let mixed = Load { signal: Some("go"), ..Load::new(manifest(MIXED), inputs) };
    [("mixed", mixed), ("plain", Load::new(definition("# Worker"), json!({})))]
}

/// Both in turns; the medians.
pub(crate) fn ratios(runtime: &Runtime) {
    const TURNS: usize = 9;
    println!("20 steps, medians of {TURNS} turns; x = what the mix costs, plain = 1\n");
    println!(
        "{:>9} {:>7} {:>14} {:>12} {:>15} {:>14} {:>12} {:>11}",
        "in flight",
        "",
        "transitions",
        "workflows/s",
        "transitions/s",
        "µs/transition",
        "x transition",
        "x workflow"
    );
    for in_flight in IN_FLIGHT {
        let rig = runtime.block_on(Rig::new());
        let count = 8 * in_flight;
        let loads = loads();
        let mut found = [const { (Vec::new(), Vec::new()) }; 2];
        let mut each = [0; 2];
        for _ in 0..TURNS {
            for (at, (_, load)) in loads.iter().enumerate() {
                let before = rig.transitions();
                let took = runtime.block_on(rig.play(load, count, in_flight));
                let transitions = rig.transitions() - before;
                each[at] = transitions / count;
                found[at].0.push(rate(count, took));
                found[at].1.push(rate(transitions, took));
            }
        }
        let [mixed, plain] =
            found.map(|(workflows, transitions)| (median(workflows), median(transitions)));
        for (at, (workflows, transitions)) in [mixed, plain].into_iter().enumerate() {
            println!(
                "{in_flight:>9} {:>7} {:>14} {workflows:>12.0} {transitions:>15.0} {:>14.0} {:>12.2} {:>11.2}",
                loads[at].0,
                each[at],
                1e6 / transitions,
                plain.1 / transitions,
                plain.0 / workflows
            );
        }
        runtime.block_on(rig.stop());
    }
}
