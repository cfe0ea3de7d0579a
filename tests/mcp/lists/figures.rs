//! The limits as a resource.

use std::{collections::BTreeMap, time::Duration};

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{Client, Fields, Server, project::Project};

const SOURCES: [&str; 9] = [
    include_str!("../../../src/domain/limits.rs"),
    include_str!("../../../src/domain/limits/catalog.rs"),
    include_str!("../../../src/domain/limits/cli.rs"),
    include_str!("../../../src/domain/limits/dashboard.rs"),
    include_str!("../../../src/domain/limits/database.rs"),
    include_str!("../../../src/domain/limits/definition.rs"),
    include_str!("../../../src/domain/limits/flow.rs"),
    include_str!("../../../src/domain/limits/offer.rs"),
    include_str!("../../../src/domain/limits/wire.rs"),
];

/// Each constant of the module: its name, its type and what it is set to.
fn constants() -> Vec<(&'static str, &'static str, &'static str)> {
    let lines = SOURCES
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.trim().strip_prefix("pub const "));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(": ").expect("a type");
            let (kind, value) = rest.split_once(" = ").expect("a value on the same line");
            (name, kind, value.strip_suffix(';').expect("an end"))
        })
        .collect()
}

type Operator = fn(f64, f64) -> f64;

/// What a constant's expression comes to, as a reader of the source would work it out; `None` where it is set to one
/// that is not `known` yet.
fn worth(text: &str, known: &BTreeMap<&str, f64>) -> Option<f64> {
    let operators: [(&str, Operator); 3] =
        [(" << ", |a, b| a * b.exp2()), (" + ", |a, b| a + b), (" * ", |a, b| a * b)];
    for (operator, apply) in operators {
        // Not one between the brackets of a duration.
        let sides = text.split_once(operator);
        if let Some((left, right)) = sides.filter(|(left, _)| !left.contains('(')) {
            return Some(apply(worth(left, known)?, worth(right, known)?));
        }
    }
    for (made, milliseconds) in [
        ("Duration::from_secs(", 1000.0),
        ("Duration::from_millis(", 1.0),
        ("Duration::from_micros(", 0.001),
    ] {
        if let Some(inside) = text.strip_prefix(made) {
            return Some(worth(inside.strip_suffix(')')?, known)? * milliseconds);
        }
    }
    let number = text.replace('_', "").parse().ok();
    number.or_else(|| known.get(text).copied())
}

/// What the resource shows, by name.
fn shown() -> Vec<Value> {
    let project = Project::new(&[]);
    let mut server: Server = project.serve();
    let shown = server.read("midex://workflow/limits");
    shown.as_array().expect("a list").clone()
}

#[test]
fn every_limit_of_the_module_is_shown_with_its_figure() {
    let shown = shown();
    let constants = constants();
    assert!(constants.len() > 100);
    let names: Vec<_> = shown.iter().map(|limit| limit["name"].as_str().unwrap()).collect();
    let written: Vec<_> = constants.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, written);
    let mut known = BTreeMap::new();
    // One may be set to another that stands further down.
    for _ in 0..2 {
        for (name, _, text) in &constants {
            if let Some(value) = worth(text, &known) {
                known.insert(*name, value);
            }
        }
    }
    for (limit, (name, kind, text)) in shown.iter().zip(&constants) {
        let value = limit["value"].as_f64().unwrap();
        assert!((value - known[name]).abs() < 1e-9, "{name} = {text}: {limit}");
        assert_eq!(limit["unit"] == "milliseconds", *kind == "Duration", "{limit}");
    }
}

#[test]
fn units_and_descriptions_are_for_readers() {
    let shown = shown();
    let find = |name: &str| shown.iter().find(|limit| limit["name"] == name).unwrap();
    for (name, value, unit) in [
        ("OUTPUT_BYTES_MAX", json!(limits::OUTPUT_BYTES_MAX), "bytes"),
        ("DEFINITION_BYTES_MAX", json!(limits::DEFINITION_BYTES_MAX), "bytes"),
        ("REASON_CHARS_MAX", json!(limits::REASON_CHARS_MAX), "characters"),
        ("JSON_DEPTH_MAX", json!(limits::JSON_DEPTH_MAX), "levels"),
        ("STEPS_MAX", json!(limits::STEPS_MAX), "count"),
        ("LIST_PAGE_MAX", json!(200), "count"),
        ("OUTPUT_ATTEMPTS_MAX", json!(limits::OUTPUT_ATTEMPTS_MAX), "count"),
        ("TAIL_WAIT_S", json!(limits::TAIL_WAIT_S), "seconds"),
        ("TOKEN_TTL", json!(86_400_000), "milliseconds"),
        ("ADAPTIVE_WAIT_COMMIT_MIN", json!(0.2), "milliseconds"),
    ] {
        let limit = find(name);
        limit.has_fields(json!({ "value": value, "unit": unit }));
    }
    for limit in &shown {
        let description = limit["description"].as_str().unwrap();
        assert!(
            description.len() > 5
                && description == description.trim()
                && !description.contains("  "),
            "{limit}"
        );
        assert!(description.ends_with(['.', ')']), "{limit}");
        for mark in ["`", "[", "]", "///", "\n"] {
            assert!(!description.contains(mark), "{limit}");
        }
        // Each is read alone.
        for lost in ["See ", "The same", " such ", "Those of them"] {
            assert!(
                !description.starts_with(lost.trim_start()) && !description.contains(lost),
                "{limit}"
            );
        }
    }
    assert!(
        find("CALL_ATTEMPTS_MAX")["description"].as_str().unwrap().contains("WAKE_FAILURES_MAX")
    );
    assert!(limits::ADAPTIVE_WAIT_COMMIT_MIN < Duration::from_millis(1));
}
