//! The schemas for editors say what the reader of definitions says, as far as a schema can.

use std::{path::Path, sync::LazyLock};

use midex_domain::{finding::Rule, schema::Schema};
use midex_registry::{
    DefinitionKind, FileReport, SchemaDraft, SchemaKind, build_schema, check_text, validate_paths,
};
use serde_json::{Value, json};

use super::*;
use midex_test::rows;

/// Findings that a schema must make too. Those of limits only where bytes are characters.
const STRUCTURAL: &[Rule] = &[
    Rule::MissingKey,
    Rule::UnknownKey,
    Rule::NotSupportedYet,
    Rule::WrongType,
    Rule::EmptyValue,
    Rule::LimitExceeded,
    Rule::IllFormedName,
    Rule::UnknownValue,
    Rule::MissingKind,
    Rule::SeveralKinds,
    Rule::NoSteps,
    Rule::DuplicateDependency,
    Rule::DuplicateValue,
    Rule::ConflictingKeys,
    Rule::NoEffect,
    Rule::OutOfRange,
    Rule::IllFormedDuration,
];

/// Findings about a file that cannot be read as a document: there is nothing to hold a schema to.
const UNREAD: &[Rule] = &[
    Rule::Syntax,
    Rule::MissingFrontMatter,
    Rule::UnclosedFrontMatter,
    Rule::Unreadable,
    Rule::NotUtf8,
    Rule::FileTooLarge,
    Rule::OutsideDirectory,
    // Which of the two values counts is the reader's choice.
    Rule::DuplicateKey,
];

/// The three schemas of files, each in both drafts.
static SCHEMAS: LazyLock<[[Schema; 2]; 3]> = LazyLock::new(|| {
    [SchemaKind::Manifest, SchemaKind::FrontMatter, SchemaKind::Agent].map(|of| {
        [SchemaDraft::Draft202012, SchemaDraft::Draft7]
            .map(|draft| Schema::compile(&build_schema(of, draft)).unwrap())
    })
});

/// The file as the schema sees it, and which schema that is; `None` where JSON has no such document.
fn document(report: &FileReport) -> Option<(usize, Value)> {
    let markdown = report.path.to_ascii_lowercase().ends_with(".md");
    let text = if markdown {
        let body = |line: &str| line.trim_end() == "---";
        let lines = report.text.lines().skip(1).take_while(|line| !body(line));
        lines.collect::<Vec<_>>().join("\n")
    } else {
        report.text.clone()
    };
    let options = serde_saphyr::options! {
        strict_booleans: true,
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Merge,
    };
    let value: Value = if Path::new(&report.path).extension() == Some("json".as_ref()) {
        serde_json::from_str(&text).ok()?
    } else {
        serde_saphyr::from_str_with_options(&text, options).ok()?
    };
    let value = if value.is_null() { json!({}) } else { value };
    // A manifest may be the front matter of a Markdown file.
    let has = |key| value.get(key).is_some();
    let phases = markdown && (has("phases") || !(has("workflow") || has("steps")));
    Some(match (report.kind, phases) {
        (DefinitionKind::Agent, _) => (2, value),
        (DefinitionKind::Workflow, true) => (1, value),
        (DefinitionKind::Workflow, false) => (0, value),
    })
}

/// Whether a schema must refuse the file; `None` where it may.
fn must_refuse(report: &FileReport) -> Option<bool> {
    if report.findings.is_empty() {
        return Some(false);
    }
    let structural = report.findings.iter().any(|finding| {
        // Whether others may run beside a phase is not for a schema to say.
        let beside =
            finding.rule == Rule::NotSupportedYet && finding.path.ends_with("allowParallel");
        // Nor what a number or a duration is beside another one.
        let compared = finding.path.ends_with("max_backoff") && finding.rule == Rule::OutOfRange
            || finding.message.contains("longer than the limit");
        // Nor what a manifest comes to with the one that it extends.
        let inherited = finding.path == "extends" && finding.rule != Rule::WrongType;
        let beside = beside || inherited || compared && finding.message.contains(" than ");
        let counted = [Rule::LimitExceeded, Rule::IllFormedName].contains(&finding.rule);
        STRUCTURAL.contains(&finding.rule) && !beside && (!counted || report.text.is_ascii())
    });
    structural.then_some(true)
}

/// Holds a file's findings against its schema, in both drafts. Says whether there was anything to hold.
#[track_caller]
fn agree(report: &FileReport) -> bool {
    if report.findings.iter().any(|finding| UNREAD.contains(&finding.rule)) {
        return false;
    }
    let Some(refused) = must_refuse(report) else {
        return false;
    };
    let Some((of, value)) = document(report) else {
        assert!(refused, "{} is sound, but no JSON", report.path);
        return false;
    };
    for schema in &SCHEMAS[of] {
        let violations = schema.find_violations(&value);
        assert_eq!(
            !violations.is_empty(),
            refused,
            "{}\n{value:#}\nfindings: {:#?}\nviolations: {violations:#?}",
            report.path,
            report.findings
        );
    }
    true
}

/// Holds every file that a registry was loaded from against its schema.
pub(super) fn agree_all(registry: &Registry) {
    let workflows = registry
        .workflows()
        .map(|entry| (DefinitionKind::Workflow, &entry.name, &entry.path, &entry.findings));
    let agents = registry
        .agents()
        .map(|entry| (DefinitionKind::Agent, &entry.name, &entry.path, &entry.findings));
    for (kind, name, path, findings) in workflows.chain(agents) {
        let Some(path) = path else { continue };
        let text = fs::read_to_string(path).unwrap_or_default();
        agree(&FileReport {
            path: path.display().to_string(),
            kind,
            name: name.clone(),
            text: text.trim_start_matches('\u{feff}').to_owned(),
            findings: findings.clone(),
        });
    }
}

#[test]
fn what_is_shipped_satisfies_its_schema() {
    let reports = validate_paths(&[], &Registry::load(&Sources::default())).unwrap();
    assert_eq!(reports.iter().filter(|report| agree(report)).count(), 27);
}

/// A sound document of each kind that uses every key, and the directory of its files.
fn whole() -> [(&'static str, Value); 5] {
    let manifest = json!({
        "workflow": "w", "title": "T", "description": "d", "version": "1", "tags": ["t"], "complexity": "high",
        "inputs": { "x": {} },
        "steps": [
            { "id": "a", "agent": "reviewer", "description": "d", "instructions": "i", "depends_on": [] },
            { "id": "b", "agent": "reviewer", "dependsOn": "a", "result": { "type": "object" } },
            { "id": "c", "agent": "reviewer", "depends_on": ["a", "b"], "result": true },
        ],
    });
    let front = json!({
        "name": "w", "description": "d", "tags": ["t"], "complexity": "simple",
        "phases": [
            { "phase": "a", "agent": "reviewer", "description": "d", "dependsOn": [], "allowParallel": true },
            { "phase": "b", "agent": "reviewer", "dependsOn": ["a"], "allowParallel": false },
        ],
    });
    let agent = json!({ "name": "n", "description": "d", "tags": [], "version": 1.5, "model": "x", "tools": ["y"] });
    let inputs = json!({
        "workflow": "w", "description": "d", "steps": [{ "id": "a", "agent": "reviewer" }],
        "inputs": {
            "owner": { "name": "Owner", "type": "string" },
            "service": {
                "description": "d", "type": "string", "enum": ["a", "1"], "optional": true,
                "validate": { "required": false, "enum": ["a"], "pattern": "^.$", "min_length": 0, "max_length": 9 },
                "default": { "from": "literal", "value": "a" }, "placeholder": "p", "hint": "h", "example": "a",
            },
            "n": { "validate": { "min": 0, "max": 3 }, "default": { "from": "env", "value": "N" } },
            "before": { "default": { "from": "history" } },
        },
    });
    let heir = json!({
        "workflow": "w", "extends": "incident-runbook", "title": "T", "description": "d", "version": "1", "tags": ["t"], "metadata": { "a": "b" },
        "steps": [{ "id": "report", "agent": "reviewer" }],
        "insert": [
            { "after": "look", "steps": [{ "id": "a", "agent": "reviewer" }] },
            { "before": "look", "steps": [{ "id": "b", "agent": "reviewer" }] },
        ],
        "remove": ["watch"],
    });
    [("heir", heir), ("manifest", manifest), ("front", front), ("agent", agent), ("inputs", inputs)]
}

/// What stands in the place of a value.
fn replacements() -> Vec<Value> {
    let values = json!([
        null, true, 0, 1.5, [], {}, [null], [1], [[]], [""], ["a", "a"], ["-"], [" "], { "x": 1 }, { "type": "object" },
        { "$schema": "https://json-schema.org/draft/2020-12/schema" }, "", " ", "\t\n", "a", "-a", "a b", " a", "a ",
        "a\nb", "a\u{7f}", "a/b", "simple", "Simple", "yes", "1", "é", "é\u{85}", "\u{a0}", "\u{a0}é", "\u{feff}",
        "\u{feff}é", "\u{200b}é", "\u{2003}é", "x\u{3000}", "\u{1c}", "日本"
    ]);
    let mut values = values.as_array().unwrap().clone();
    for bytes in [50, 51, 100, 101, 200, 201, 2000, 2001] {
        values.push(json!("x".repeat(bytes)));
        values.push(json!([json!("x".repeat(bytes))]));
    }
    values.push(json!(vec!["t"; 20]));
    values.push(json!(vec!["t"; 21]));
    values
}

/// Fewer of them, for a document with many values.
fn replacements_few() -> Vec<Value> {
    let values = json!([
        null, true, 0, -1, 1.5, [], {}, [null], [1], { "x": 1 }, { "x": {} }, { "x": "a" }, { "-x": {} }, "", " ", "a",
        "string", "${{ a }}"
    ]);
    let mut values = values.as_array().unwrap().clone();
    for bytes in [1000, 1001, 2000, 2001] {
        values.push(json!("x".repeat(bytes)));
    }
    values
}

/// Where every value of a document stands.
fn pointers(value: &Value, at: &str) -> Vec<String> {
    let below: Vec<_> = match value {
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| pointers(value, &format!("{at}/{key}"))).collect()
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(key, value)| pointers(value, &format!("{at}/{key}")))
            .collect(),
        _ => Vec::new(),
    };
    [at.to_owned()].into_iter().chain(below).collect()
}

/// The document with each of its values replaced, each left out, and each mapping given other keys.
fn variants(kind: &str, document: &Value) -> Vec<Value> {
    let mut variants = vec![document.clone()];
    let (under, replacements) = match kind {
        "inputs" => ("/inputs", replacements_few()),
        "heir" => ("", replacements_few()),
        _ => ("", replacements()),
    };
    let pointers = pointers(document, "").into_iter();
    for pointer in pointers.filter(|pointer| pointer.starts_with(under)) {
        for value in replacements.clone() {
            let mut variant = document.clone();
            *variant.pointer_mut(&pointer).unwrap() = value;
            variants.push(variant);
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
        let mut variant = document.clone();
        match variant.pointer_mut(parent) {
            Some(Value::Object(map)) => drop(map.shift_remove(key)),
            Some(Value::Array(items)) => drop(items.remove(key.parse().unwrap())),
            _ => {}
        }
        variants.push(variant);
        let keys = "x name workflow phase phases steps inputs gate guidance \
                    retry if depends_on dependsOn allowParallel instructions title version description";
        for key in keys.split_whitespace() {
            let mut variant = document.clone();
            if let Some(Value::Object(map)) = variant.pointer_mut(&pointer) {
                map.entry(key).or_insert(json!("a"));
                variants.push(variant);
            }
        }
    }
    variants
}

/// The variants of one kind of document, checked as files of one directory each so many.
fn reports(kind: &str, document: &Value) -> Vec<FileReport> {
    let registry = Registry::load(&Sources::default());
    let mut found = Vec::new();
    for some in variants(kind, document).chunks(500) {
        let project = Project::new(&[]);
        for (at, variant) in some.iter().enumerate() {
            match kind {
                "manifest" | "heir" | "inputs" => {
                    project.write(&format!("workflows/{at}.json"), &variant.to_string());
                }
                "front" => project
                    .write(&format!("workflows/{at}.md"), &format!("---\n{variant}\n---\nBody\n")),
                _ => project
                    .write(&format!("agents/{at}.md"), &format!("---\n{variant}\n---\nYou.\n")),
            }
        }
        found.extend(validate_paths(&[project.path("")], &registry).unwrap());
    }
    found
}

#[test]
fn every_variant_of_a_file_is_judged_alike() {
    for (kind, document) in whole() {
        let mut reports = reports(kind, &document);
        let all = reports.len();
        // The variants have one name; that is not for a schema to see.
        for report in &mut reports {
            report.findings.retain(|finding| finding.rule != Rule::DuplicateName);
        }
        let judged = reports.iter().filter(|report| agree(report)).count();
        let sound = reports.iter().filter(|report| report.findings.is_empty()).count();
        assert!(all > 300 && judged * 10 > all * 7, "{kind}: {judged} of {all}");
        assert!(sound > 60 && sound * 10 < all * 7, "{kind}: {sound} of {all} are sound");
    }
}

/// A sound manifest for each kind, whose second step says all that goes with it.
fn grammar() -> Vec<Value> {
    let common = json!({ "id": "b", "description": "d", "depends_on": ["a"], "if": "inputs.x", "run_when": "finished", "max_visits": 3 });
    let on_error = json!({ "on_error": "continue", "next": "$end" });
    let output = json!({ "result": { "type": "object" }, "with": { "x": 1 }, "timeout": "1m30s", "retry": { "max_attempts": 2, "backoff": "1s", "max_backoff": "1m", "jitter": false, "on": ["timeout"] } });
    let model = json!({ "example": {}, "instructions": "x", "optional": true });
    let server = json!({ "idempotent": true, "repeat": { "until": "inputs.x", "every": "1s", "timeout": "1h", "max_attempts": 5 } });
    let contract = json!({ "output_contract": { "fields": [{ "name": "n", "tags": ["t"], "description": "d", "type": "string" }] } });
    let kinds = [
        (json!({ "agent": "reviewer" }), vec![&output, &model, &contract]),
        (json!({ "guidance": "x" }), vec![&model]),
        (json!({ "tool": "t" }), vec![&output]),
        (
            json!({ "input": { "properties": ["p"], "via": "auto", "reextract": true } }),
            vec![&on_error],
        ),
        (json!({ "extract": { "from": "x", "properties": ["p"] } }), vec![&on_error]),
        (json!({ "run": "cat list all", "body": { "x": 1 } }), vec![&output, &server, &on_error]),
        (json!({ "activity": "x" }), vec![&server]),
        (json!({ "branch": [{ "if": "inputs.x", "next": "a" }, { "next": "$end" }] }), vec![]),
        (
            json!({ "foreach": { "in": ["x"], "as": "part", "parallel": 2, "do": { "guidance": "x", "description": "d", "if": "part", "on_error": "continue", "timeout": "1s", "example": 1 } } }),
            vec![&on_error],
        ),
        (json!({ "gate": { "ask": "x", "approvers": ["ann"], "expires": "1d" } }), vec![&on_error]),
        (json!({ "wait": { "for": "10s" } }), vec![&on_error]),
        (json!({ "wait": { "until": "2030-01-31T09:00:00Z" } }), vec![]),
        (json!({ "wait": { "signal": "x" } }), vec![]),
        (json!({ "set": { "x": 1 } }), vec![&on_error]),
        (json!({ "fail": { "code": "X", "message": "y" } }), vec![]),
    ];
    let short = json!({ "id": "b", "max_visits": 3 });
    let whole = |(kind, parts): (Value, Vec<&Value>)| {
        // What every step may say is varied once.
        let first = kind.get("agent").map_or(&short, |_| &common);
        let mut step = first.as_object().unwrap().clone();
        for part in [&kind].into_iter().chain(parts) {
            step.extend(part.as_object().unwrap().clone());
        }
        let mut document = json!({
            "workflow": "w", "description": "d",
            "steps": [{ "id": "a", "agent": "reviewer" }, step],
        });
        if kind.get("input").or(kind.get("extract")).is_some() {
            document["inputs"] = json!({ "p": { "optional": true } });
        }
        document
    };
    let mut all: Vec<_> = kinds.into_iter().map(whole).collect();
    all.push(json!({
        "workflow": "w", "description": "d", "steps": [{ "id": "a", "agent": "reviewer" }],
        "memory": { "x": 1 }, "final_output": [1], "timeout": "1h", "limits": { "max_steps": 5, "max_visits": 6 },
    }));
    all
}

/// Every key that a step may have, with a value that suits it.
fn every_field() -> Vec<(String, Value)> {
    let mut fields: Vec<_> = grammar()
        .iter()
        .filter_map(|document| document.pointer("/steps/1")?.as_object().cloned())
        .flatten()
        .collect();
    fields.push(("when".to_owned(), json!("inputs.x")));
    fields.push(("workflow".to_owned(), json!("x")));
    fields
}

/// What stands in the place of a value of the grammar.
fn grammar_values() -> Vec<Value> {
    let values = json!([
        null, true, 0, 1, 1.5, 3.0, -1, 10000, 10001, [], {}, [1], ["a", "a"], { "x": 1 }, { "a b": 1 },
        "", " ", "a", "b", "a b", " a", "a\tb", "a-b", "é", "$end", "continue", "finished", "auto", "inputs.x",
        "${{ inputs.x }}", "10s", "1h30m", "30m1h", "0s", "00m0s", "10 s", " 5m ", "5", "367d", "ms", "1ms",
        "2030-01-31T09:00:00+01:00", "2030", { "guidance": "x" }, { "for": "1s", "signal": "x" },
        [{ "next": "a" }], { "fields": [] }, { "ask": "x" }, { "until": "inputs.x" }
    ]);
    let mut values = values.as_array().unwrap().clone();
    values.push(json!("x".repeat(200)));
    values.push(json!("x".repeat(201)));
    values
}

#[test]
fn every_variant_of_every_kind_is_judged_alike() {
    let (mut all, mut judged, mut sound) = (0, 0, 0);
    let mut hold = |variant: &Value| {
        let text = variant.to_string();
        let findings = strict(check_text("w.json", &text, &SHIPPED).1);
        let report = FileReport {
            path: "w.json".to_owned(),
            kind: DefinitionKind::Workflow,
            name: "w".to_owned(),
            text,
            findings,
        };
        all += 1;
        sound += usize::from(report.findings.is_empty());
        judged += usize::from(agree(&report));
        report.findings
    };
    for document in grammar() {
        assert_eq!(hold(&document), [], "{document:#}");
        for pointer in pointers(&document, "").iter().filter(|at| {
            !at.starts_with("/steps/0")
                && (at.starts_with("/steps/1/") || !document["limits"].is_null())
        }) {
            let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
            for value in grammar_values() {
                let mut variant = document.clone();
                *variant.pointer_mut(pointer).unwrap() = value;
                hold(&variant);
            }
            let mut variant = document.clone();
            if let Some(Value::Object(map)) = variant.pointer_mut(parent) {
                map.shift_remove(key);
                hold(&variant);
            }
        }
        for (key, value) in every_field() {
            let mut variant = document.clone();
            if let Some(Value::Object(step)) = variant.pointer_mut("/steps/1") {
                step.entry(key).or_insert(value);
                hold(&variant);
            }
        }
    }
    assert!(all > 5000 && judged * 10 > all * 7, "{judged} of {all}");
    assert!(sound > 500 && sound * 2 < all, "{sound} of {all} are sound");
}

#[test]
fn two_spellings_of_one_key_are_refused_by_both() {
    let text = steps("  - id: a\n    agent: reviewer\n    depends_on: []\n    dependsOn: []\n");
    check("w.yaml", &text, &["7:5 duplicate_key steps[0].dependsOn"]);
    let value: Value = serde_saphyr::from_str(&text).unwrap();
    for schema in &SCHEMAS[0] {
        assert_eq!(schema.find_violations(&value)[0].rule, "not");
    }
}

/// What the documentation of the schemas says that they cannot say.
#[test]
fn what_a_schema_cannot_say_it_does_not_refuse() {
    for [rest, rule] in rows(
        r#"
        "agent: reviewer\n    depends_on: [b]\n", "unknown_dependency"
        "agent: reviewer\n    depends_on: a\n", "self_dependency"
        "agent: reviewer\n    depends_on: b\n  - id: b\n    agent: reviewer\n", "cyclic_dependency"
        "agent: reviewer\n  - id: a\n    agent: reviewer\n", "duplicate_step"
        "agent: nobody\n", "missing_persona"
        "activity: nothing\n", "unknown_activity"
        "agent: reviewer\n    result: {type: strin}\n", "invalid_schema"
        "#,
    ) {
        let text = steps(&format!("  - id: a\n    {rest}"));
        assert_eq!(findings_of("w.yaml", &text)[0].rule.as_str(), rule);
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(SCHEMAS[0][0].find_violations(&value), [], "{rule}");
    }
}
