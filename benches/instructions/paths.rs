//! The hot paths: each is prepared once, then taken again and again, every time from the same place.

use std::{hint::black_box, sync::Arc};

use midex_domain::{
    Definition, Digest, Execution, Row, Template, Token, document, expression::EvaluationContext,
    schema::Schema, token::TokenGrant,
};
use midex_engine::store::{
    Commit, Position,
    encode::{encode_row, encode_snapshot},
};
use midex_registry::{self as registry, Registry, Sources};
use serde_json::{Value, json};

use super::{
    manifest::manifest,
    serving,
    standing::{Counted, NOW, Standing, output},
};

/// A way through the code that is taken often.
pub(crate) struct HotPath {
    pub(crate) name: &'static str,
    /// How often a run takes it: enough that what is measured is much more than what differs from run to run.
    pub(crate) rounds: u32,
    /// How many calls a round makes: counts are of one.
    pub(crate) calls: u32,
    pub(crate) prepare: fn() -> Round,
}

/// Takes the path once.
pub(crate) type Round = Box<dyn FnMut()>;

/// Steps of the chain that executions are led along.
pub(crate) const STEPS: u32 = 20;

const fn path(name: &'static str, rounds: u32, prepare: fn() -> Round) -> HotPath {
    HotPath { name, rounds, calls: 1, prepare }
}

/// A start and all steps, to the end of an execution.
const fn execution(name: &'static str, rounds: u32, prepare: fn() -> Round) -> HotPath {
    HotPath { calls: STEPS + 1, ..path(name, rounds, prepare) }
}

/// All of them, in the order of the table.
pub(crate) const PATHS: [HotPath; 13] = [
    path("shipped workflow read and checked", 10, workflow_checked),
    path("token made, read and compared", 2_000, token),
    path("output digested", 2_000, digest),
    path("output held against its schema", 2_000, schema),
    path("template rendered", 2_000, template),
    path("step of a chain decided", 1_000, step_decided),
    path("item of a foreach of 100 decided", 1_000, item_decided),
    path("reply made and written as JSON", 1_000, reply),
    path("row and snapshot encoded", 1_000, encoded),
    path("row decoded", 2_000, row_decoded),
    path("snapshot decoded", 1_000, snapshot_decoded),
    execution("call of the engine, store in memory", 20, serving::engine),
    execution("call over lines, store on disk", 10, serving::lines),
];

/// A chain of steps, each with a schema for its output.
pub(crate) fn chain() -> Arc<Definition> {
    manifest(&chain_lines())
}

/// The lines of its manifest after the head.
pub(crate) fn chain_lines() -> String {
    const RESULT: &str = "{ type: object, properties: { summary: { type: string } } }";
    let step = |at| {
        let guidance = format!("'Look at {at} of ${{{{ run.execution_id }}}} once more.'");
        format!("  - {{ id: step-{at}, guidance: {guidance}, result: {RESULT} }}\n")
    };
    let steps: String = (0..STEPS).map(step).collect();
    format!("steps:\n{steps}")
}

/// An execution in the middle of the chain.
fn in_the_middle() -> Standing {
    Standing::start(chain(), None).after(10)
}

fn workflow_checked() -> Round {
    const NAME: &str = "feature-development.md";
    const TEXT: &str = include_str!("../../workflows/feature-development.md");
    let registry = Registry::load(&Sources::default());
    Box::new(move || {
        black_box(registry::check_text(NAME, TEXT, &registry));
    })
}

fn token() -> Round {
    let (standing, ids) = (in_the_middle(), Counted::default());
    let (id, step) =
        (standing.row().execution_id.clone(), standing.definition.workflow.steps[0].id.clone());
    Box::new(move || {
        let grant = TokenGrant::issue(NOW, &ids);
        let text = Token::new(id.clone(), step.clone(), grant).encode();
        let read = Token::parse(black_box(&text)).expect("a token");
        assert!(grant.matches(&read));
    })
}

fn digest() -> Round {
    let (value, text) = (output(), output().to_string());
    Box::new(move || {
        black_box(document::canonical_digest(black_box(&value)));
        black_box(Digest::compute(black_box(text.as_bytes())));
    })
}

fn schema() -> Round {
    let schema = json!({ "type": "object", "required": ["summary"], "properties": {
        "summary": { "type": "string", "maxLength": 4000 }, "score": { "type": "integer", "minimum": 0, "maximum": 10 },
        "findings": { "type": "array", "items": { "type": "string" } } } });
    let schema = Schema::compile(&schema).expect("a schema");
    let value = output();
    Box::new(move || assert!(schema.find_violations(black_box(&value)).is_empty()))
}

fn template() -> Round {
    let text = "Write the report on ${{ inputs.goal }}: ${{ steps.look.summary | upper }} (${{ steps.look.score + 1 }} of 10)";
    let template = Template::parse(&json!({ "guidance": text })).expect("a template");
    let map = |value: Value| value.as_object().cloned().expect("a map");
    let roots = EvaluationContext {
        inputs: map(json!({ "goal": "the total" })),
        steps: map(json!({ "look": output() })),
        ..EvaluationContext::default()
    };
    Box::new(move || {
        black_box(template.render(black_box(&roots)).expect("a value"));
    })
}

fn step_decided() -> Round {
    decided(in_the_middle())
}

fn item_decided() -> Round {
    let lines = "inputs: { files: { type: array } }
steps:
  - id: each
    foreach: { in: '${{ inputs.files }}', as: file, parallel: 4, do: { guidance: 'Read ${{ file.name }}.', result: {} } }
";
    let file = |at| json!({ "name": format!("src/file-{at}.rs"), "lines": at });
    let files: Vec<_> = (0..100).map(file).collect();
    let inputs = json!({ "files": files });
    decided(Standing::start(manifest(lines), Some(inputs)).after(50))
}

fn decided(standing: Standing) -> Round {
    let command = standing.advance();
    Box::new(move || {
        black_box(standing.decide(black_box(&command)));
    })
}

fn reply() -> Round {
    let standing = in_the_middle();
    Box::new(move || {
        let answer = black_box(&standing).answer();
        black_box(serde_json::to_string(&answer).expect("JSON"));
    })
}

fn encoded() -> Round {
    let commit = commit();
    Box::new(move || {
        let commit = black_box(&commit);
        black_box(encode_row(&commit.row).expect("bytes"));
        black_box(encode_snapshot(&commit.execution, 0).expect("bytes"));
    })
}

fn commit() -> Commit {
    let last = in_the_middle().last;
    Commit {
        execution: Arc::new(last.execution),
        row: Arc::new(last.row),
        contents: Vec::new(),
        due: None,
        position: Position::default(),
        past: None,
    }
}

/// Where the body of a record begins: behind a version and two numbers.
const BODY: usize = 17;

fn row_decoded() -> Round {
    let row = encode_row(&commit().row).expect("bytes");
    Box::new(move || {
        let row: Row = postcard::from_bytes(black_box(&row[BODY..])).expect("a row");
        black_box(row);
    })
}

fn snapshot_decoded() -> Round {
    let snapshot = encode_snapshot(&commit().execution, 0).expect("bytes");
    Box::new(move || {
        let execution: Option<Execution> =
            postcard::from_bytes(black_box(&snapshot[BODY..])).expect("a snapshot");
        black_box(execution);
    })
}
