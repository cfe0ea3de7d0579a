use super::*;
use crate::expression::{Reference, Root, Segment};

fn shown(text: &str) -> Vec<String> {
    read(text)
        .references()
        .iter()
        .map(Reference::to_string)
        .collect()
}

#[test]
fn paths_hold_hyphens_indices_and_quoted_keys() {
    is("steps.code-review.x", json!("yes"));
    is("steps['code-review'].x", json!("yes"));
    is(
        "steps.code-review.list[0].y + steps.code-review.list.0.y",
        json!(14),
    );
    is("run.visits.code-review >= 2", json!(true));
    is("inputs.users[1]['name']", json!("Al"));
    is("inputs.users[-1].name", json!("Al"));
    is("inputs.tags[index - 3]", json!("b"));
    is("memory.a[inputs.key]", json!(2));
    is("item.file ~ pkg.file ~ index", json!("a.rsa.rs4"));
    is("env.HOME", json!("/home"));
    is("memory", json!({"z": 1, "a": {"y": 1, "b": 2}}));
    is("(memory.a).y", json!(1));
}

#[test]
fn output_after_the_step_is_sugar_and_always_so() {
    is("steps.deploy.output.id", json!("d1"));
    is(
        "steps.deploy.output",
        json!({"id": "d1", "status": "live", "ratio": 0.1}),
    );
    // This output has a field `output` of its own.
    is("steps.code-review.output.x", json!("yes"));
    is("steps.code-review.output.output.x", json!("inner"));
    is("steps.code-review['output'].x", json!("inner"));
}

#[test]
fn references_are_told_once_with_their_place() {
    let text = "steps.a-b.output.c[0] == inputs.x and steps.a-b.c.0 != secrets_of(item)";
    assert!(Expression::parse(text).is_err());
    let text =
        " ${{ steps.a-b.output.c[0] == inputs.x[inputs.y].z and steps.a-b.c.0 != pkg['q r'].w }} ";
    assert_eq!(
        shown(text),
        ["steps.a-b.c[0]", "inputs.x", "inputs.y", r#"item["q r"].w"#]
    );
    let expression = read(text);
    let first = &expression.references()[0];
    assert_eq!(
        (first.root, first.step().unwrap().as_ref()),
        (Root::Steps, "a-b")
    );
    let path = [
        Segment::Key("a-b".into()),
        Segment::Key("c".into()),
        Segment::Index(0),
    ];
    assert_eq!(first.path, path);
    assert_eq!(
        &text[first.offset..first.offset + first.length],
        "steps.a-b.output.c[0]"
    );
    // A text that looks like a path is none.
    assert!(shown("'steps.x.y' == 'inputs.z'").is_empty());
}

#[test]
fn a_path_to_nothing_is_named() {
    let cases = [
        (
            "inputs.nothign",
            "`inputs.nothign` leads to nothing: did you mean `nothing`?",
        ),
        (
            "steps.depoy.id",
            "the step `depoy` has no output: did you mean `deploy`?",
        ),
        (
            "steps.deploy.id.x",
            "`steps.deploy.id.x` leads to nothing: `steps.deploy.id` is text",
        ),
        (
            "inputs.unset.x",
            "`inputs.unset.x` leads to nothing: `inputs.unset` is null",
        ),
        (
            "inputs.tags[2]",
            "`inputs.tags[2]` leads to nothing: `inputs.tags` is a list of 2",
        ),
        (
            "inputs.tags.length",
            "`inputs.tags.length` leads to nothing: `inputs.tags` is a list of 2: write `| length` for how long something is",
        ),
        (
            "inputs.n-1",
            "`inputs.n-1` leads to nothing: a hyphen between letters belongs to the name: write ` - ` to subtract",
        ),
        (
            "env.SHELL",
            "the environment variable `SHELL` is not set or not allowed",
        ),
    ];
    for (path, message) in cases {
        for text in [path.to_owned(), format!("  ${{{{ 'ä' ~ {path} }}}}")] {
            let (kind, there, said) = fails(&text);
            assert_eq!(
                (kind, there.as_str()),
                (FaultKind::Unresolved, path),
                "{text}"
            );
            assert_eq!(said, message);
        }
        assert!(evaluated(path).unwrap_err().path.is_some());
    }
    let outside = read("pkg.x").evaluate(&Roots::default()).unwrap_err();
    assert_eq!(outside.message, "`item` is only known inside a `foreach`");
    let (kind, there, said) = fails("inputs.tags[inputs.n]");
    assert_eq!(
        (kind, there.as_str()),
        (FaultKind::Unresolved, "inputs.tags[inputs.n]")
    );
    assert_eq!(said, "a part of `inputs.tags[inputs.n]` leads to nothing");
}
