//! What is found in `run` steps whose catalog is there: changes that nobody is asked about, paths that no answer has, and
//! values that the operation does not take.

use std::sync::LazyLock;

use midex_catalog::{CatalogPaths, Catalogs, call::SecretSources as Secrets};
use midex_domain::{
    check::{OperationsSnapshot, ServerCapabilities},
    finding::{Rule, Severity},
};
use midex_registry::check_text;

use super::*;
use midex_test::{rows, shop::document};

/// What the user says of it: a search changes nothing, whatever its method, and addresses are private.
const SETTINGS: &str = "\
title = \"Shop\"
vendor = \"shop\"
base_url = \"https://shop.example/api\"
[classes]
\"search:create\" = \"safe\"
\"customers:addresses:list\" = \"standard\"
";

/// A registry of a server that has the shop, and the activity `build`.
pub(super) static WITH_SHOP: LazyLock<Registry> = LazyLock::new(|| {
    let places = TempDir::new().unwrap();
    let catalogs = places.path().join("catalogs");
    fs::create_dir_all(catalogs.join("shop")).unwrap();
    fs::write(catalogs.join("shop/catalog.toml"), SETTINGS).unwrap();
    fs::write(catalogs.join("shop/document.yaml"), document().to_string()).unwrap();
    let cache = places.path().join("cache");
    let paths = CatalogPaths { catalogs, published: None, cache };
    let catalogs = Catalogs::open(paths, Secrets::default());
    let abilities = ServerCapabilities {
        operations: Some(OperationsSnapshot::capture(catalogs.last_loaded_catalogs())),
        ..activities(&["build"])
    };
    Registry::load_with_abilities(&Sources::default(), &abilities)
});

/// What is found in a manifest with these lines, each with its rule, path and severity, and the first suggestion.
pub(super) fn found(lines: &str) -> (Vec<String>, String) {
    let text = format!("workflow: w\ndescription: d\n{lines}");
    let (_, findings) = check_text("w.yaml", &text, &WITH_SHOP);
    let told = |finding: &Finding| format!("{} {}", finding.rule, finding.path);
    let first = findings.first().and_then(|first| first.suggestion.clone());
    (findings.iter().map(told).collect(), first.unwrap_or_default())
}

/// Holds the findings of one rule in a manifest with these steps.
#[track_caller]
fn of_rule(rule: &str, steps: &str, expected: &[&str]) {
    let lines = format!(
        "inputs: {{ n: {{ type: integer, optional: true }}, s: {{ type: string, optional: true }}, b: {{ type: boolean, optional: true }}, all: {{ type: array, optional: true }} }}\nsteps: [{steps}]\n"
    );
    let (found, hint) = found(&lines);
    let own: Vec<_> =
        { found.iter() }.filter_map(|one| one.strip_prefix(rule)?.strip_prefix(' ')).collect();
    assert_eq!(own, expected, "{steps}: {found:?} {hint}");
    let errors = { Rule::ALL.iter() }.filter(|rule| rule.severity() == Severity::Error);
    for error in errors.filter(|error| error.as_str() != rule) {
        let is_error = |one: &&String| one.starts_with(&format!("{error} "));
        assert_eq!(found.iter().find(is_error), None, "{steps}");
    }
}

const LOOK: &str = "{ id: look, run: shop orders:info, with: { order: o-1 } }";
const DELETE: &str = "{ id: drop, run: shop orders:delete, with: { order: o-1 } }";
const CREATE: &str = "{ id: make, run: shop orders:create, with: { item: tea } }";
const GATE: &str = "{ id: ask, gate: May it go? }";

#[test]
fn a_change_that_nobody_is_asked_about_is_told() {
    let rule = "mutation_without_gate";
    for good in [
        format!("{LOOK}, {GATE}, {DELETE}"),
        // A gate that a branch leads from comes before it too.
        format!(
            "{GATE}, {{ id: either, branch: [{{ if: inputs.b, next: drop }}, {{ next: $end }}] }}, {DELETE}"
        ),
        "{ id: find, run: shop search:create, with: { item: tea } }".to_owned(),
        "{ id: build, activity: build, idempotent: true }".to_owned(),
        format!("{GATE}, {{ id: build, activity: build }}"),
        format!(
            "{GATE}, {{ id: all, foreach: {{ in: '${{{{ inputs.all }}}}', do: {{ run: shop orders:delete, with: {{ order: '${{{{ item }}}}' }} }} }} }}"
        ),
    ] {
        of_rule(rule, &good, &[]);
    }
    for (bad, paths) in [
        (DELETE.to_owned(), vec!["steps[0].run"]),
        (format!("{DELETE}, {GATE}"), vec!["steps[0].run"]),
        ("{ id: build, activity: build }".to_owned(), vec!["steps[0].activity"]),
        // The user says that it changes something.
        (
            "{ id: look, run: shop customers:addresses:list, with: { customer: c } }".to_owned(),
            vec!["steps[0].run"],
        ),
        // One gate before the first helps both; what takes away is told of beside what does not.
        (format!("{CREATE}, {{ id: again, run: shop orders:create, with: {{ item: tea }} }}"), vec!["steps[0].run"]),
        (format!("{CREATE}, {DELETE}"), vec!["steps[0].run", "steps[1].run"]),
        // The loop leads to the gate only after it was done once.
        (
            format!("{DELETE}, {GATE}, {{ id: again, branch: [{{ if: inputs.b, next: drop }}, {{ next: $end }}] }}"),
            vec!["steps[0].run"],
        ),
        (
            "{ id: all, foreach: { in: '${{ inputs.all }}', do: { run: shop orders:delete, with: { order: '${{ item }}' } } } }".to_owned(),
            vec!["steps[0].foreach.do.run"],
        ),
    ] {
        of_rule(rule, &bad, &paths);
    }
}

#[test]
fn a_first_change_before_any_look_is_told() {
    let rule = "workflow_mutation_before_preflight";
    for good in [
        format!("{LOOK}, {GATE}, {DELETE}"),
        // A single call is looked at by whoever starts it.
        format!("{GATE}, {DELETE}"),
        format!("{{ id: find, run: shop search:create, with: {{ item: tea }} }}, {CREATE}"),
        // What it refers to comes before it.
        "{ id: other, run: shop orders:info, with: { order: o }, depends_on: [] }, { id: drop, run: shop orders:delete, with: { order: '${{ steps.other.id }}' }, depends_on: [] }".to_owned(),
    ] {
        of_rule(rule, &good, &[]);
    }
    for (bad, path) in [
        (format!("{GATE}, {DELETE}, {LOOK}"), "steps[1].run"),
        (format!("{CREATE}, {DELETE}"), "steps[0].run"),
        (
            format!(
                "{LOOK}, {{ id: drop, run: shop orders:delete, with: {{ order: o-1 }}, depends_on: [] }}"
            ),
            "steps[1].run",
        ),
    ] {
        of_rule(rule, &bad, &[path]);
    }
}

#[test]
fn quotes_that_make_a_text_of_a_value_are_told() {
    let rule = "quoted_template";
    let with = |value: &str| format!("{{ id: a, guidance: G, with: {{ x: {value} }} }}");
    for good in [
        with("\"${{ inputs.n }}\""),
        with("\"'${{ inputs.s }}'\""),
        with("\"it is '${{ inputs.n }}'\""),
        "{ id: a, guidance: \"'${{ inputs.n }}'\" }".to_owned(),
    ] {
        of_rule(rule, &good, &[]);
    }
    for (bad, path) in [
        (with("\"'${{ inputs.n }}'\""), "steps[0].with.x"),
        (with("'\"${{ inputs.all }}\"'"), "steps[0].with.x"),
        ("{ id: a, set: { x: \"'${{ inputs.b }}'\" } }".to_owned(), "steps[0].set.x"),
    ] {
        of_rule(rule, &bad, &[path]);
    }
    let lines =
        "inputs: { n: { type: integer } }\nsteps: [{ id: a, set: { x: \"'${{ inputs.n }}'\" } }]\n";
    let text = format!("workflow: w\ndescription: d\n{lines}");
    let (_, findings) = check_text("w.yaml", &text, &WITH_SHOP);
    let [edit] = findings[0].edits.as_slice() else { panic!("{findings:?}") };
    let mended = format!("{}{}{}", &text[..edit.start], edit.new_text, &text[edit.end..]);
    assert!(mended.contains("{ x: \"${{ inputs.n }}\" }"), "{mended}");
}

/// A step whose answer the next one reads at this path.
fn reading(call: &str, path: &str) -> String {
    format!("{{ id: a, {call} }}, {{ id: b, guidance: \"${{{{ steps.a{path} }}}}\" }}")
}

const INFO: &str = "run: shop orders:info, with: { order: o-1 }";
const LIST: &str = "run: shop orders:list";

#[test]
fn a_path_that_no_answer_has_is_told() {
    let rule = "step_template_output_path_missing";
    for (call, path) in [
        (INFO, ".id"),
        (INFO, ".output.customer.name"),
        (INFO, ".notes.whatever.it.is"),
        (INFO, ".payment.card"),
        (INFO, ".payment.iban"),
        (INFO, ".next.next.next.state"),
        (INFO, ".lines[0].sku"),
        (INFO, ".stat | default('')"),
        (LIST, ".data[0].id"),
        (&format!("{LIST}, paginate: {{}}"), "[0].id"),
        (&format!("{INFO}, result: {{ properties: {{ own: {{}} }}, required: [own] }}"), ".own"),
        ("run: shop orders:delete, with: { order: o }", ".whatever"),
        ("foreach: { in: [1], do: { run: shop orders:info, with: { order: o } } }", "[0].id"),
    ] {
        of_rule(rule, &reading(call, path), &[]);
    }
    for (call, path) in [
        (INFO, ".stat"),
        (INFO, ".customer.nam"),
        (INFO, ".payment.paypal"),
        (INFO, ".next.next.stat"),
        (INFO, ".id.of"),
        (INFO, ".lines[0].price"),
        (LIST, ".items"),
        (&format!("{LIST}, paginate: {{}}"), "[0].stat"),
        ("foreach: { in: [1], do: { run: shop orders:info, with: { order: o } } }", "[0].stat"),
    ] {
        of_rule(rule, &reading(call, path), &["steps[1].guidance"]);
    }
    let (_, hint) = found(&format!("steps: [{}]\n", reading(INFO, ".customer.nam")));
    assert_eq!(hint, "there are id, name");
}

#[test]
fn a_path_through_a_list_without_an_index_is_told() {
    let rule = "step_template_array_output_missing_index";
    for (call, path) in [
        (INFO, ".lines[0].sku"),
        (INFO, ".lines"),
        (LIST, ".data | length"),
        ("run: shop customers:list", "[0].name"),
    ] {
        of_rule(rule, &reading(call, path), &[]);
    }
    for (call, path) in [
        (INFO, ".lines.sku"),
        (LIST, ".data.id"),
        ("run: shop customers:list", ".name"),
        (&format!("{LIST}, paginate: {{ max_pages: 2 }}"), ".data"),
    ] {
        of_rule(rule, &reading(call, path), &["steps[1].guidance"]);
    }
}

#[test]
fn a_value_that_the_operation_does_not_take_is_found_before_it_is_sent() {
    let rule = "invalid_argument";
    let call = |operation: &str, more: &str| format!("{{ id: a, run: shop {operation}, {more} }}");
    for [operation, more] in rows(
        r#"
        "orders:list", "with: { limit: 100, filter: { state: open } }"
        "orders:list", "with: { limit: '${{ inputs.n }}', filter: { state: '${{ inputs.s }}' } }"
        "orders:list", "with: { filter: '${{ inputs.all }}' }"
        "orders:create", "body: { item: tea, count: 1, to: { zip: '${{ inputs.s }}' } }"
        "orders:create", "with: { item: tea, count: '${{ inputs.n }}' }"
        "orders:create", "body: '${{ inputs.all }}'"
        "#,
    ) {
        of_rule(rule, &call(operation, more), &[]);
    }
    for [operation, more, path] in rows(
        r#"
        "orders:list", "with: { limit: 101 }", "steps[0].with.limit"
        "orders:list", "with: { limit: many, cursor: '${{ inputs.s }}' }", "steps[0].with.limit"
        "orders:list", "with: { filter: { state: lost } }", "steps[0].with.filter.state"
        "orders:list", "with: { filter: {} }", "steps[0].with.filter"
        "orders:create", "body: { item: 5, count: '${{ inputs.n }}' }", "steps[0].body.item"
        "orders:create", "body: { count: 1 }", "steps[0].body"
        "orders:create", "with: { item: tea, count: 0 }", "steps[0].with.count"
        "#,
    ) {
        of_rule(rule, &call(operation, more), &[path]);
    }
    let each = call("orders:info", "with: { order: 5 }").replace("id: a, ", "");
    let each = format!("{{ id: a, foreach: {{ in: [1], do: {each} }} }}");
    of_rule(rule, &each, &["steps[0].foreach.do.with.order"]);
}
