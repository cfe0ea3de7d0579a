//! Workflows with everything that a lost agent can stumble over beside its own step.

use serde_json::{Value, json};

/// One after another: `===` and its name, and what it declares.
const MANIFESTS: &str = r#"=== gate-between
steps:
  - { id: build, guidance: Build., result: {} }
  - { id: ship, gate: { ask: Ship it? } }
  - { id: tell, guidance: Tell., result: {} }
=== gate-first
steps:
  - { id: may, gate: { ask: May I begin? } }
  - { id: begin, guidance: Begin., result: { type: object, required: [word], properties: { word: { type: string } } } }
=== gate-beside
steps:
  - { id: may, gate: { ask: Is it so? }, depends_on: [] }
  - { id: one, guidance: One., result: {}, depends_on: [] }
  - { id: two, guidance: Two., result: {}, depends_on: [] }
  - { id: end, guidance: End., result: {}, depends_on: [may, one, two] }
=== gate-sent-back
steps:
  - { id: draft, guidance: Draft., result: {}, max_visits: 4 }
  - { id: agree, gate: { ask: Agreed? }, on_error: draft, max_visits: 4 }
  - { id: print, guidance: Print., result: {} }
=== two-gates
steps:
  - { id: left, gate: { ask: Left? }, depends_on: [] }
  - { id: right, gate: { ask: Right? }, depends_on: [], optional: true }
  - { id: end, guidance: End., result: {}, depends_on: [left, right] }
=== timer-first
steps:
  - { id: rest, wait: { for: 20ms } }
  - { id: work, guidance: Work., result: {} }
=== timer-beside
steps:
  - { id: rest, wait: { for: 30ms }, depends_on: [] }
  - { id: work, guidance: Work., result: {}, depends_on: [] }
  - { id: end, guidance: End., result: {}, depends_on: [rest, work] }
=== signal-first
steps:
  - { id: word, wait: { signal: go } }
  - { id: run, guidance: Run., result: { type: array, items: { type: integer }, minItems: 2 } }
=== signal-beside
steps:
  - { id: word, wait: { signal: go }, depends_on: [] }
  - { id: work, guidance: Work., result: { enum: [done, skipped] }, depends_on: [] }
  - { id: end, guidance: End., result: {}, depends_on: [word, work] }
=== items-one-by-one
steps:
  - id: each
    foreach: { in: '${{ [1, 2, 3] }}', as: n, do: { guidance: 'Do ${{ n }}.', result: { type: integer } } }
  - { id: sum, guidance: Add., result: { type: integer } }
=== items-at-once
steps:
  - id: each
    foreach: { in: '${{ ["a", "b", "c", "d"] }}', as: name, parallel: 3, do: { guidance: 'Do ${{ name }}.', result: {} } }
final_output: '${{ steps.each }}'
=== items-beside-a-gate
steps:
  - { id: may, gate: { ask: Shall they be read? }, depends_on: [] }
  - id: each
    depends_on: []
    foreach: { in: '${{ [1, 2] }}', as: n, parallel: 2, do: { guidance: 'Read ${{ n }}.', result: {} } }
=== loop
memory: { rounds: 0 }
steps:
  - { id: try, guidance: Try., result: { type: object, required: [ok], properties: { ok: { type: boolean } } }, max_visits: 6 }
  - { id: count, set: { rounds: '${{ memory.rounds + 1 }}' }, max_visits: 6 }
  - { id: again, branch: [{ if: not steps.try.ok and memory.rounds < 4, next: try }], max_visits: 6 }
  - { id: end, guidance: End., result: {} }
=== needs-inputs
inputs:
  region: { type: string, enum: [north, south] }
  count: { type: integer, validate: { min: 1, max: 9 } }
steps:
  - { id: go, guidance: 'Go ${{ inputs.region }}.', result: {} }
=== asks
inputs:
  platform: { type: string, enum: [iOS, Android], optional: true }
  seats: { type: integer, validate: { min: 1 }, optional: true }
steps:
  - { id: ask, input: { properties: [platform, seats] } }
  - { id: make, guidance: 'Make it for ${{ inputs.platform }}.', result: {} }
=== asks-the-user-alone
inputs:
  colour: { type: string, enum: [red, blue], optional: true }
steps:
  - { id: ask, input: { properties: [colour], via: elicitation } }
  - { id: paint, guidance: 'Paint it ${{ inputs.colour }}.', result: {} }
=== reads-a-text
inputs:
  request: { type: string, default: { from: literal, value: A red app } }
  colour: { type: string, enum: [red, blue], optional: true }
steps:
  - { id: read, extract: { from: '${{ inputs.request }}', properties: [colour] } }
  - { id: ask, input: { properties: [colour], reextract: true } }
  - { id: paint, guidance: Paint., result: {} }
=== tries-again
steps:
  - { id: call, guidance: Call., result: {}, retry: { max_attempts: 3, backoff: 10ms } }
  - { id: maybe, guidance: Maybe., result: { type: string, pattern: '^[a-z]+$' }, optional: true }
  - { id: end, tool: announce, with: { done: true }, result: {} }
=== ends-nevertheless
steps:
  - { id: work, guidance: Work., result: { type: object, required: [n], properties: { n: { type: integer, minimum: 3 } } } }
  - { id: report, guidance: Report., result: {}, run_when: finished }
=== child-in-the-midst
steps:
  - { id: begin, guidance: Begin., result: {} }
  - { id: below, workflow: gate-between }
  - { id: end, guidance: End., result: {} }
=== child-that-takes-back
steps:
  - { id: open, guidance: Open., result: {}, compensate: { workflow: gate-first } }
  - { id: stop, fail: { code: STOPPED, message: It was to fail. } }
=== everything-at-once
steps:
  - { id: may, gate: { ask: May they? }, depends_on: [] }
  - { id: rest, wait: { for: 10ms }, depends_on: [] }
  - { id: word, wait: { signal: go }, depends_on: [] }
  - id: each
    depends_on: []
    foreach: { in: '${{ [1, 2, 3] }}', as: n, parallel: 2, do: { guidance: 'Do ${{ n }}.', result: { type: string } } }
  - { id: write, agent: implementer, description: Write, depends_on: [] }
  - { id: end, guidance: End., result: {}, depends_on: [may, rest, word, each, write] }
"#;

/// Every one: its name, and what it declares.
fn manifests() -> impl Iterator<Item = (&'static str, &'static str)> {
    let texts = MANIFESTS.split("=== ").skip(1);
    texts.map(|text| text.split_once('\n').expect("a name and a text"))
}

/// Every one as a file: its name and its text.
pub(super) fn files() -> impl Iterator<Item = (String, String)> {
    manifests().map(|(name, body)| {
        let text = format!("workflow: {name}\ndescription: A test\n{body}");
        (format!("{name}.yaml"), text)
    })
}

/// Their names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    manifests().map(|(name, _)| name)
}

/// What a workflow is to be started with.
pub(super) fn inputs(workflow: &str) -> Option<Value> {
    (workflow == "needs-inputs").then(|| json!({ "region": "north", "count": 3 }))
}
