//! Whatever is thrown at any tool, address or completion is answered under its id, and never by a fault of our own.

use std::cell::RefCell;

use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestRunner},
};
use serde_json::{Map, Value, json};

use midex_test::{Client, witness::Witness};

const CASES: u32 = 100;
const SEED: u64 = 20_250_115;

const TOOLS: &str = "workflow.start workflow.next_step execution.list execution.resume execution.pause execution.abandon \
    execution.diverge execution.fail execution.wait execution.signal execution.resolve execution.approve \
    workflow_next_step";

const ARGUMENTS: &str = "workflow_name execution_id inputs project known_agents token output error state limit cursor reason \
    since_revision timeout_s signal payload unexpected";

const KINDS: &str = "available_workflows workflow_details agent current_step workflow_status step_history \
    workflow_artifacts artifact executions telemetry";

fn words(list: &'static str) -> Vec<&'static str> {
    list.split(' ').collect()
}

/// A request, as one client sends it.
#[derive(Clone, Debug)]
enum Thrown {
    Call(&'static str, Map<String, Value>),
    Read(String),
    Complete(String, String, String, Map<String, Value>),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => any::<String>(),
        1 => prop::sample::select(vec![
            "", "victim", "bug-fix", "feature-development", "nobody", "*", "open", "paused", "..", "../../etc/passwd",
            "%2e%2e%2f", "a\0b", "a\nb", "\u{202e}", "1", "-1", "99999999999999999999", "eyJ9", "NaN",
        ]).prop_map(str::to_owned),
        1 => "[a-z]{0,5}".prop_map(|text| text.repeat(100)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::ANY.prop_map(|number| json!(number)),
        (0..30i64).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Values that are often what is asked for, so that more than the schemas is tried.
fn likely(name: &str, value: Value, pick: u8) -> Value {
    let texts = |texts: &[&str]| json!(texts[usize::from(pick) % texts.len()]);
    match name {
        _ if pick.is_multiple_of(3) => value,
        "workflow_name" => texts(&["bug-fix", "feature-development", "nonsense"]),
        "execution_id" => texts(&["victim", "nobody", "a b/c", "ключ"]),
        "state" => texts(&["open", "running", "paused", "completed"]),
        "project" => texts(&["*", "/nowhere"]),
        "cursor" => json!(pick.to_string()),
        "limit" | "since_revision" => json!(pick),
        "inputs" => json!({ "task": value }),
        "output" => json!({ "summary": "s", "x": value }),
        "error" => json!({ "message": "m" }),
        "reason" => json!("because"),
        _ => value,
    }
}

fn call() -> impl Strategy<Value = Thrown> {
    let argument = (prop::sample::select(words(ARGUMENTS)), value(), any::<u8>());
    let arguments = prop::collection::vec(argument, 0..5);
    (prop::sample::select(words(TOOLS)), arguments).prop_map(|(tool, arguments)| {
        let named =
            |(name, value, pick): (&str, Value, u8)| (name.to_owned(), likely(name, value, pick));
        let mut arguments: Map<_, _> = arguments.into_iter().map(named).collect();
        // Nobody waits here: a time that is one is none at all.
        if tool == "execution.wait" && arguments.get("timeout_s").is_none_or(Value::is_number) {
            arguments.insert("timeout_s".into(), json!(0));
        }
        Thrown::Call(tool, arguments)
    })
}

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        text(),
        text().prop_map(|text| midex_domain::uri::encode_segment(&text)),
        Just("victim".to_owned())
    ]
}

fn read() -> impl Strategy<Value = Thrown> {
    let query = prop_oneof![
        Just(String::new()),
        text(),
        (
            prop::sample::select(vec![
                "limit",
                "offset",
                "cursor",
                "state",
                "event_type",
                "workflow",
                "project"
            ]),
            segment()
        )
            .prop_map(|(name, value)| format!("{name}={value}")),
    ];
    let below = (prop::sample::select(words(KINDS)), prop::collection::vec(segment(), 0..3), query);
    let below = below.prop_map(|(kind, segments, query)| {
        let path = std::iter::once(kind.to_owned()).chain(segments).collect::<Vec<_>>().join("/");
        format!("midex://workflow/{path}?{query}")
    });
    prop_oneof![5 => below, 1 => text(), 1 => text().prop_map(|text| format!("midex://workflow/{text}"))].prop_map(Thrown::Read)
}

fn complete() -> impl Strategy<Value = Thrown> {
    let template = prop_oneof![
        prop::sample::select(vec![
            "midex://workflow/current_step/{execution_id}",
            "midex://workflow/workflow_artifacts/{execution_id}/{step_name}",
            "midex://workflow/artifact/{execution_id}/{artifact}{?offset,limit}",
        ])
        .prop_map(str::to_owned),
        text(),
    ];
    let name = prop_oneof![
        prop::sample::select(vec!["execution_id", "step_name", "artifact", "state"])
            .prop_map(str::to_owned),
        text()
    ];
    let context = prop::collection::vec(
        (Just("execution_id".to_owned()), segment().prop_map(Value::from)),
        0..2,
    );
    (template, name, text(), context).prop_map(|(template, name, value, context)| {
        Thrown::Complete(template, name, value, context.into_iter().collect())
    })
}

fn throw(witness: &mut Witness, thrown: Thrown) -> Value {
    let (method, params) = match thrown {
        Thrown::Call(tool, arguments) => {
            ("tools/call", json!({ "name": tool, "arguments": arguments }))
        }
        Thrown::Read(uri) => ("resources/read", json!({ "uri": uri })),
        Thrown::Complete(uri, name, value, context) => (
            "completion/complete",
            json!({
                "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": name, "value": value },
                "context": { "arguments": context }
            }),
        ),
    };
    // It takes only an answer with this call's id.
    witness.request(method, params)
}

/// Either a result, or a refusal with a reason of its own.
fn check(answer: &Value) {
    assert!(answer["result"].is_object() != answer["error"].is_object(), "{answer}");
    assert_ne!(answer["error"]["code"], -32603, "{answer}");
    let (told, refused) = match &answer["error"] {
        Value::Null => {
            (&answer["result"]["structuredContent"], answer["result"]["isError"] == true)
        }
        error => (&error["data"], true),
    };
    let code = told["error_code"].as_str();
    assert!(code != Some("INTERNAL") && code != Some("ENGINE_FAULT"), "{answer}");
    assert_eq!(refused, code.is_some(), "{answer}");
}

#[test]
#[expect(clippy::print_stdout, reason = "a failure names its seed")]
fn whatever_is_thrown_at_the_server_is_answered() {
    println!("fuzz: seed {SEED}, {CASES} cases");
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let witness = RefCell::new(Witness::new());
    witness.borrow_mut().victim("victim");
    let thrown = prop_oneof![4 => call(), 3 => read(), 1 => complete()];
    let sequences = prop::collection::vec(thrown, 1..12);
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&sequences, |sequence| {
        let mut witness = witness.borrow_mut();
        for thrown in sequence {
            check(&throw(&mut witness, thrown));
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("seed {SEED}: {error}");
    }
    witness.into_inner().survives();
}
