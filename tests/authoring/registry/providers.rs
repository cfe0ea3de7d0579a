//! Inputs whose choices a provider lists: what it is, what it is given, and which of its fields count.

use super::{calls::found, *};
use midex_test::{list_of, rows};

/// What is found in a workflow with these inputs, all of which its only step reads.
fn told(inputs: &[(&str, &str)]) -> (Vec<String>, String) {
    let declared = inputs.iter().map(|(name, said)| format!("  {name}: {{ {said} }}\n"));
    let read = inputs.iter().map(|(name, _)| format!("${{{{ inputs.{name} }}}}"));
    found(&format!(
        "inputs:\n{}steps: [{{ id: a, guidance: \"{}\" }}]\n",
        declared.collect::<String>(),
        read.collect::<String>()
    ))
}

/// Holds what is found in an input `a`, beside a plain one `owner` and one with a provider, `other`.
#[track_caller]
fn a(said: &str, expected: &[&str], hint: &str) {
    let other = "provider: shop customers:list, provider_args: {}";
    let (found, suggestion) = told(&[("owner", "type: string"), ("other", other), ("a", said)]);
    assert_eq!(found, expected, "{said}");
    assert_eq!(suggestion.as_str(), hint, "{said}");
}

const ADDRESSES: &str = "provider: shop customers:addresses:list";

#[test]
fn a_provider_is_an_operation_that_lists_objects() {
    a("provider: shop customers:list", &[], "");
    a("provider: shop orders:list, type: string, optional: true", &[], "");
    a("provider: '  shop   customers:list '", &[], "");
    a(
        "provider: shop customer:list",
        &["unknown_provider inputs.a.provider"],
        "did you mean `customers:list`?",
    );
    a(
        "provider: shop orders:info",
        &["unknown_provider inputs.a.provider"],
        "did you mean `orders:list`?",
    );
    a(
        "provider: shopp customers:list",
        &["unknown_catalog inputs.a.provider"],
        "did you mean `shop`?",
    );
    a(
        "provider: customers",
        &["ill_formed_name inputs.a.provider"],
        "write the catalog, a space and the operation, such as `render services:list`",
    );
    // Of a catalog that is required and not there nothing can be said.
    let requires = "requires: { catalogs: [{ vendor: render }] }\ninputs: { a: { provider: render owners, select: { value_field: x } } }\nsteps: [{ id: a, guidance: \"${{ inputs.a }}\" }]\n";
    assert_eq!(found(requires).0, ["catalog_requirement requires.catalogs[0]"]);
    let text = format!("workflow: w\ndescription: d\n{}", requires.split_once('\n').unwrap().1);
    let blind = Registry::load(&Sources::default());
    assert_eq!(midex_registry::check_text("w.yaml", &text, &blind).1, []);
}

#[test]
fn a_provider_is_given_what_it_takes() {
    for given in [
        "provider_args: { customer: c-1 }",
        "provider_args: { customer: '${{ inputs.owner }}', country: '${{ inputs.other | default(1) }}' }",
        "depends_on: { customer: { from_input: owner, path: 'id[0].x', required: true, on_missing: fail } }",
    ] {
        a(&format!("{ADDRESSES}, {given}"), &[], "");
    }
    a(ADDRESSES, &["missing_argument inputs.a.provider"], "give `customer` under `provider_args`");
    a(
        &format!("{ADDRESSES}, provider_args: {{ custmer: x }}"),
        &["missing_argument inputs.a.provider", "unknown_argument inputs.a.provider_args.custmer"],
        "give `customer` under `provider_args`",
    );
    a(
        &format!(
            "{ADDRESSES}, provider_args: {{ customer: x }}, depends_on: {{ contry: {{ from_input: owner }} }}"
        ),
        &["unknown_argument inputs.a.depends_on.contry"],
        "did you mean `country`?",
    );
}

#[test]
fn what_a_provider_is_given_comes_from_inputs() {
    let given = |written: &str| format!("{ADDRESSES}, provider_args: {{ customer: {written} }}");
    for [written, rule, below, hint] in rows(
        r#"
        "'${{ inputs.ownre }}'", "unknown_reference", "", "did you mean `owner`?"
        "{ from_input: ownre }", "unknown_reference", ".from_input", "did you mean `owner`?"
        "'${{ steps.a.summary }}'", "reference_too_early", "", ""
        "'${{ memory.x }}'", "reference_too_early", "", ""
        "{ from_step: a, from_input: owner }", "not_supported_yet", ".from_step", "write `from_input`: inputs are chosen before any step is done"
        "{ from_input: owner, path: 'a b' }", "ill_formed_expression", ".path", ""
        "{ from_input: owner, on_missing: ask }", "unknown_value", ".on_missing", ""
        "{ from_input: owner, paths: id }", "unknown_key", ".paths", "did you mean `path`?"
        "#,
    ) {
        let place = format!("{rule} inputs.a.provider_args.customer{below}");
        a(&given(written), &[&place], hint);
    }
    a(
        "select: { value_field: id }, depends_on: {}, provider_args: {}",
        &[
            "no_effect inputs.a.select",
            "no_effect inputs.a.depends_on",
            "no_effect inputs.a.provider_args",
        ],
        "name the operation that lists the choices under `provider`, or leave it out",
    );
}

#[test]
fn what_choices_depend_on_is_known_without_being_said() {
    let twins = |said: &str| {
        format!(
            "{ADDRESSES}, provider_args: {{ customer: '${{{{ inputs.owner }}}}' }}, depends_on: {{ customer: {said} }}"
        )
    };
    a(&twins("'${{ inputs.owner }}'"), &[], "");
    a(&twins("{ from_input: owner }"), &[], "");
    a(
        &twins("'${{ inputs.owner.id }}'"),
        &["unknown_reference inputs.a.depends_on.customer"],
        "write `inputs.owner`",
    );
    for said in ["'${{ inputs.other }}'", "{ from_input: other }", "c-1"] {
        a(
            &twins(said),
            &["contradiction inputs.a.depends_on.customer"],
            "leave it out: what `provider_args` reads is what it depends on",
        );
    }
}

#[test]
fn inputs_do_not_wait_for_each_other_s_choices() {
    let by = |name: &str| {
        format!("{ADDRESSES}, provider_args: {{ customer: '${{{{ inputs.{name} }}}}' }}")
    };
    let rings = |names: &[(&str, &str)]| {
        let inputs: Vec<_> = names.iter().map(|(name, on)| (*name, by(on))).collect();
        let inputs = list_of(&inputs, |(name, said)| (*name, said.as_str()));
        told(&inputs).0
    };
    assert_eq!(rings(&[("a", "a")]), ["cyclic_dependency inputs.a"]);
    assert_eq!(rings(&[("a", "b"), ("b", "a"), ("c", "a")]), ["cyclic_dependency inputs.a"]);
    assert_eq!(
        rings(&[("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]),
        ["cyclic_dependency inputs.a", "cyclic_dependency inputs.c"]
    );
    let chain = format!("{ADDRESSES}, provider_args: {{ customer: '${{{{ inputs.other }}}}' }}");
    a(&chain, &[], "");
}

#[test]
fn an_input_that_only_a_provider_reads_is_read() {
    let found = |given: &str| {
        found(&format!(
            "inputs:\n  owner: {{ type: string }}\n  a: {{ {ADDRESSES}, provider_args: {{ customer: {given} }} }}\nsteps: [{{ id: a, guidance: \"${{{{ inputs.a }}}}\" }}]\n"
        ))
        .0
    };
    assert_eq!(found("'${{ inputs.owner }}'"), [""; 0]);
    assert_eq!(found("{ from_input: owner }"), [""; 0]);
    assert_eq!(found("c-1"), ["unused_input inputs.owner"]);
}

#[test]
fn the_fields_that_are_selected_are_those_of_what_is_listed() {
    let select = |operation: &str, select: &str| {
        format!(
            "provider: shop {operation}, provider_args: {{ customer: c }}, select: {{ {select} }}"
        )
        .replace("customers:list, provider_args: { customer: c }", "customers:list")
        .replace("orders:list, provider_args: { customer: c }", "orders:list")
    };
    for [operation, fields] in rows(
        r#"
        "customers:list", "value_field: id, display_field: name, id_field: id"
        "customers:addresses:list", "value_field: address.id, display_field: label"
        "orders:list", "value_field: customer.id, display_field: notes.anything"
        "orders:list", "display_field: lines, id_field: id"
        "#,
    ) {
        a(&select(operation, fields), &[], "");
    }
    let missing = "provider_select_value_field_missing";
    for (operation, field, hint) in [
        ("customers:list", "nam", "there are id, name"),
        ("customers:addresses:list", "id", "did you mean `address.id`?"),
        ("customers:list", "id.of", "there are id, name"),
        ("customers:list", "a b", "there are id, name"),
    ] {
        let place = format!("{missing} inputs.a.select.value_field");
        a(&select(operation, &format!("value_field: {field}")), &[&place], hint);
    }
    a(
        &select("customers:list", "value_field: id, display_field: label"),
        &[&format!("{missing} inputs.a.select.display_field")],
        "there are id, name",
    );
    let composed = "provider_select_value_field_non_scalar inputs.a.select.value_field";
    for (operation, field, hint) in [
        ("customers:addresses:list", "address", "name a field in it: address.id, address.street"),
        ("orders:list", "lines", ""),
        ("orders:list", "lines.sku", ""),
        ("orders:list", "notes", ""),
    ] {
        a(&select(operation, &format!("value_field: {field}")), &[composed], hint);
    }
}
