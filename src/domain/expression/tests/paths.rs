use super::*;
use crate::expression::{Reference, ReferenceRoot, Segment};

fn collect_reference_paths(text: &str) -> Vec<String> {
    parse_valid(text).references().iter().map(Reference::to_string).collect()
}

#[test]
fn paths_hold_hyphens_indices_and_quoted_keys() {
    assert_evaluates_to("steps.code-review.x", json!("yes"));
    assert_evaluates_to("steps['code-review'].x", json!("yes"));
    assert_evaluates_to("steps.code-review.list[0].y + steps.code-review.list.0.y", json!(14));
    assert_evaluates_to("run.visits.code-review >= 2", json!(true));
    assert_evaluates_to("inputs.users[1]['name']", json!("Al"));
    assert_evaluates_to("inputs.users[-1].name", json!("Al"));
    assert_evaluates_to("inputs.tags[index - 3]", json!("b"));
    assert_evaluates_to("memory.a[inputs.key]", json!(2));
    assert_evaluates_to("item.file ~ pkg.file ~ index", json!("a.rsa.rs4"));
    assert_evaluates_to("env.HOME", json!("/home"));
    assert_evaluates_to("memory", json!({"z": 1, "a": {"y": 1, "b": 2}}));
    assert_evaluates_to("(memory.a).y", json!(1));
}

#[test]
fn output_segment_may_be_left_out() {
    assert_evaluates_to("steps.deploy.output.id", json!("d1"));
    assert_evaluates_to("steps.deploy.output", json!({"id": "d1", "status": "live", "ratio": 0.1}));
    // This output has a field `output` of its own.
    assert_evaluates_to("steps.code-review.output.x", json!("yes"));
    assert_evaluates_to("steps.code-review.output.output.x", json!("inner"));
    assert_evaluates_to("steps.code-review['output'].x", json!("inner"));
}

#[test]
fn references_are_listed_once_with_offset() {
    let text = "steps.a-b.output.c[0] == inputs.x and steps.a-b.c.0 != secrets_of(item)";
    assert!(Expression::parse(text).is_err());
    let text =
        " ${{ steps.a-b.output.c[0] == inputs.x[inputs.y].z and steps.a-b.c.0 != pkg['q r'].w }} ";
    assert_eq!(
        collect_reference_paths(text),
        ["steps.a-b.c[0]", "inputs.x", "inputs.y", r#"item["q r"].w"#]
    );
    let expression = parse_valid(text);
    let first = &expression.references()[0];
    assert_eq!((first.root, first.step_id().unwrap().as_ref()), (ReferenceRoot::Steps, "a-b"));
    let path = [Segment::Key("a-b".into()), Segment::Key("c".into()), Segment::Index(0)];
    assert_eq!(first.path, path);
    assert_eq!(&text[first.offset..first.offset + first.length], "steps.a-b.output.c[0]");
    // A text that looks like a path is none.
    assert!(collect_reference_paths("'steps.x.y' == 'inputs.z'").is_empty());
}

#[test]
fn missing_path_fault_names_the_path() {
    let cases = [
        ("inputs.nothign", "`inputs.nothign` leads to nothing: did you mean `nothing`?"),
        ("steps.depoy.id", "the step `depoy` has no output: did you mean `deploy`?"),
        ("steps.deploy.id.x", "`steps.deploy.id.x` leads to nothing: `steps.deploy.id` is text"),
        ("inputs.unset.x", "`inputs.unset.x` leads to nothing: `inputs.unset` is null"),
        ("inputs.tags[2]", "`inputs.tags[2]` leads to nothing: `inputs.tags` is a list of 2"),
        (
            "inputs.tags.length",
            "`inputs.tags.length` leads to nothing: `inputs.tags` is a list of 2: write `| length` for how long something is",
        ),
        (
            "inputs.n-1",
            "`inputs.n-1` leads to nothing: a hyphen between letters belongs to the name: write ` - ` to subtract",
        ),
        ("env.SHELL", "the environment variable `SHELL` is not set or not allowed"),
    ];
    for (path, message) in cases {
        for text in [path.to_owned(), format!("  ${{{{ 'ä' ~ {path} }}}}")] {
            let (kind, faulty_text, actual_message) = find_evaluation_fault(&text);
            assert_eq!((kind, faulty_text.as_str()), (FaultKind::Unresolved, path), "{text}");
            assert_eq!(actual_message, message);
        }
        assert!(evaluate_text(path).unwrap_err().path.is_some());
    }
    let outside = parse_valid("pkg.x").evaluate(&EvaluationContext::default()).unwrap_err();
    assert_eq!(outside.message, "`item` is only known inside a `foreach`");
    let (kind, faulty_text, actual_message) = find_evaluation_fault("inputs.tags[inputs.n]");
    assert_eq!((kind, faulty_text.as_str()), (FaultKind::Unresolved, "inputs.tags[inputs.n]"));
    assert_eq!(actual_message, "a part of `inputs.tags[inputs.n]` leads to nothing");
}
