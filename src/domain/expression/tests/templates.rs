use super::*;
use crate::expression::{Reference, Segment, Template};

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn render(value: Value) -> Value {
    let template = Template::parse(&value).unwrap_or_else(|faults| panic!("{value}: {faults:?}"));
    template.render(&sample_context()).unwrap_or_else(|fault| panic!("{value}: {fault:?}"))
}

#[test]
fn only_whole_expressions_keep_their_type() {
    for (text, expected) in [
        ("${{ inputs.n }}", json!(3)),
        ("${{inputs.tags}}", json!(["a", "b"])),
        ("${{ inputs.unset }}", json!(null)),
        ("${{ inputs.empty }}", json!("")),
        ("${{ inputs.no }}", json!(false)),
        ("${{ inputs.n + 1 }}", json!(4)),
        (" ${{ inputs.n }}", json!(3)),
        ("${{ inputs.tags }}\n", json!(["a", "b"])),
        (" x ${{ inputs.n }}", json!(" x 3")),
        (" \n", json!(" \n")),
        ("${{ inputs.n }}${{ inputs.n }}", json!("33")),
        ("${{ inputs.empty }}x", json!("x")),
        (
            "[${{ inputs.unset }}|${{ inputs.no }}|${{ inputs.tags }}|${{ memory.a }}|${{ steps.deploy.ratio }}]",
            json!("[|false|[\"a\",\"b\"]|{\"y\":1,\"b\":2}|0.1]"),
        ),
        (
            "Deploy ${{ steps.deploy.output.id }}: ${{ 'ä' }} ${{ {'a': {'b': 1}} | tojson }}",
            json!("Deploy d1: ä {\"a\":{\"b\":1}}"),
        ),
        ("no expression }} {{ x }} $ { {", json!("no expression }} {{ x }} $ { {")),
    ] {
        assert_eq!(render(json!(text)), expected, "{text}");
    }
}

#[test]
fn dollar_braces_can_be_written_literally() {
    assert_eq!(render(json!("${{ '${{' }} x }}")), json!("${{ x }}"));
    assert_eq!(render(json!("$${{ inputs.n }}")), json!("$3"));
    assert_eq!(render(json!("${{ '}}' ~ \"${{ x }}\" }}")), json!("}}${{ x }}"));
}

#[test]
fn rendered_data_is_not_evaluated_again() {
    let mut roots = sample_context();
    roots.inputs.insert("text".into(), json!("${{ inputs.n }}"));
    let template = Template::parse(&json!(["${{ inputs.text }}", "x${{ inputs.text }}"])).unwrap();
    assert_eq!(template.render(&roots).unwrap(), json!(["${{ inputs.n }}", "x${{ inputs.n }}"]));
}

#[test]
fn nested_values_keep_their_shape_order_and_keys() {
    let rendered = render(
        json!({"z": [1, {"${{ inputs.n }}": "${{ memory }}"}], "a": "${{ inputs.name }}", "m": null}),
    );
    assert_eq!(
        rendered.to_string(),
        r#"{"z":[1,{"${{ inputs.n }}":{"z":1,"a":{"y":1,"b":2}}}],"a":"midex","m":null}"#
    );
}

#[test]
fn a_template_knows_its_references_and_whether_it_has_any() {
    let template = Template::parse(
        &json!({"a": ["${{ steps.b-c.x }} ${{ inputs.a }}"], "b": "${{ inputs.a or steps.d }}"}),
    )
    .unwrap();
    let shown: Vec<_> = template.references().iter().map(Reference::to_string).collect();
    assert_eq!(shown, ["steps.b-c.x", "inputs.a", "steps.d"]);
    assert!(!template.is_constant());
    for value in [json!({"a": [1, "x"]}), json!("x"), json!(null), json!({}), json!([])] {
        let template = Template::parse(&value).unwrap();
        assert!(template.is_constant());
        assert_eq!(template.render(&EvaluationContext::default()).unwrap(), value);
    }
    // An expression without references is not constant.
    assert!(!Template::parse(&json!("${{ 1 }}")).unwrap().is_constant());
}

#[test]
fn faults_carry_their_path_and_offset() {
    let value = json!({"a": ["ok ${{ 1 }}", "ä ${{ inptus.x }} ${{ # }} ${{ 1 && 2 }} ${{ open"], "b c": "${{ }}"});
    let faults = Template::parse(&value).unwrap_err();
    let shown: Vec<_> = faults
        .iter()
        .map(|found| {
            let path: String = found.place.iter().map(Segment::to_string).collect();
            let pointer = if path == ".a[1]" { &value["a"][1] } else { &value["b c"] };
            let (start, length) = (found.offset, found.length);
            (path, pointer.as_str().unwrap()[start..start + length].to_owned())
        })
        .collect();
    let expected =
        [(".a[1]", "inptus"), (".a[1]", "#"), (".a[1]", "&&"), (".a[1]", "${{"), ("[\"b c\"]", "")];
    let expected: Vec<_> =
        expected.iter().map(|(path, there)| ((*path).to_owned(), (*there).to_owned())).collect();
    assert_eq!(shown, expected);
}

#[test]
fn missing_path_fails_the_whole_template() {
    let template = Template::parse(&json!({"a": [0, "ä ${{ steps.deploy.idd }}"]})).unwrap();
    let fault = template.render(&sample_context()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unresolved);
    assert_eq!(fault.path.as_deref(), Some("steps.deploy.idd"));
    assert_eq!(fault.place, [Segment::Key("a".into()), Segment::Index(1)]);
    assert_eq!((fault.offset, fault.length), (7, 16));
    let template = Template::parse(&json!("ä ${{ inputs.name + 1 }}")).unwrap();
    let fault = template.render(&sample_context()).unwrap_err();
    assert_eq!((fault.offset, fault.length), (3, 22));
}
