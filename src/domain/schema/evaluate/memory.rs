//! Tests the memory use of an evaluation in the worst cases.

use serde_json::{Map, Value, json};

use super::{
    super::{PatternQuota, read},
    *,
};

/// The bytes of all texts of the violations.
fn violation_bytes(found: &[Violation]) -> usize {
    let texts = |violation: &Violation| {
        let more = [&violation.expected, &violation.actual]
            .map(|text| text.as_ref().map_or(0, String::len));
        violation.path.len() + violation.message.len() + more.iter().sum::<usize>()
    };
    found.iter().map(texts).sum()
}

/// The bytes that are held at the end: by remembered results, by regular expressions, and by violations.
fn measure_held_bytes(evaluation: &Evaluation<'_>) -> [usize; 3] {
    // A hash table has one control byte per slot.
    let place = size_of::<((NodeId, usize), CachedResult)>() + 1;
    let caches = evaluation.caches.values().map(Cache::memory_usage);
    [
        evaluation.cached_results.capacity() * 8 / 7 * place,
        caches.sum(),
        violation_bytes(&evaluation.violations),
    ]
}

fn evaluate_and_measure(schema: &Value, value: &Value) -> (usize, [usize; 3]) {
    let (program, faults) = read::read_schema(schema, &mut PatternQuota::default());
    assert_eq!(faults, []);
    let mut evaluation = Evaluation::new(&program, "the value", limits::SCHEMA_STEPS_MAX);
    let _ = evaluation.run(value);
    let kept = measure_held_bytes(&evaluation);
    assert!(
        kept.iter().sum::<usize>() <= limits::SCHEMA_MEMORY_BYTES_MAX / 2,
        "the other half is for lists whose items are to be different: {kept:?}"
    );
    (evaluation.cached_results.len(), kept)
}

#[test]
fn remembered_results_are_bounded() {
    let names = 0..8;
    let refer = |at: usize| json!({ "$ref": format!("#/$defs/{at}") });
    let schema = json!({
        "items": { "allOf": names.clone().map(refer).collect::<Vec<_>>() },
        "$defs": names.map(|at| (at.to_string(), json!({ "type": "number" }))).collect::<Map<_, _>>()
    });
    let (known, _) = evaluate_and_measure(&schema, &(0..40_000).collect());
    assert_eq!(known, limits::SCHEMA_KNOWN_MAX, "it was full");
}

#[test]
fn regex_caches_are_bounded() {
    let pattern = |at: usize| json!({ "pattern": format!("(a|b)*a(a|b){{14}}{at}") });
    let all: Vec<_> = (0..limits::SCHEMA_PATTERNS_MAX).map(pattern).collect();
    let mut seed = 7_u32;
    let letter = |_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if seed & (1 << 20) == 0 { 'a' } else { 'b' }
    };
    let text: String = (0..500).map(letter).collect();
    let (_, [_, built, _]) = evaluate_and_measure(&json!({ "anyOf": all }), &json!(text));
    assert!(built > 1 << 20, "{built}");
}

/// Names of a megabyte, in values and in schemas, and options and constants of one.
#[test]
fn violations_shorten_long_texts() {
    let long = "x~".repeat(500_000);
    let wrong = json!({ long.as_str(): vec![1; limits::VIOLATIONS_MAX] });
    let items = |schema: Value| json!({ "additionalProperties": { "items": schema } });
    let parts = 5 * 4 * limits::VIOLATION_PART_CHARS_MAX * limits::VIOLATIONS_MAX;
    for schema in [
        items(json!({ "type": "string" })),
        items(json!({ "enum": vec![long.as_str(); 2] })),
        items(json!({ "const": { long.as_str(): long } })),
        items(json!({ "not": { "type": "number", "title": long } })),
        items(json!(false)),
        json!({ "required": [format!("{long}y")] }),
        json!({ "additionalProperties": false }),
        json!({ "unevaluatedProperties": false }),
        json!({ "propertyNames": { "maxLength": 9 } }),
    ] {
        let (_, [_, _, told]) = evaluate_and_measure(&schema, &wrong);
        assert!(0 < told && told <= parts, "{told}");
    }
}
