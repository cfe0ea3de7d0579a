use super::*;

/// Applies the first suggested edit repeatedly until the text has no fault.
#[track_caller]
pub(super) fn apply_suggested_edits(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..50 {
        match Expression::parse_with(&text, &["pkg"]) {
            Ok(_) => return text,
            Err(faults) => {
                let edit = faults.iter().find_map(|fault| fault.edit.as_ref());
                let edit = edit.unwrap_or_else(|| panic!("{text}: {faults:?}"));
                text.replace_range(edit.start..edit.end, &edit.replacement);
            }
        }
    }
    panic!("{text} does not come to an end");
}

#[test]
fn foreign_operators_are_corrected() {
    for (foreign, there, said, ours) in [
        ("inputs.a && inputs.b", "&&", "write `and`", "inputs.a and inputs.b"),
        ("inputs.a&&inputs.b", "&&", "write `and`", "inputs.a and inputs.b"),
        ("inputs.a || inputs.b", "||", "write `or`", "inputs.a or inputs.b"),
        ("!inputs.a", "!", "write `not`", "(not inputs.a)"),
        ("!inputs.a == true", "!", "write `not`", "(not inputs.a) == true"),
        ("!(inputs.a or inputs.b)", "!", "write `not`", "(not (inputs.a or inputs.b))"),
        ("inputs.a === 'ä'", "===", "write `==`", "inputs.a == 'ä'"),
        ("inputs.a!=='ä'", "!==", "write `!=`", "inputs.a != 'ä'"),
        ("inputs.a = 1", "=", "write `==`", "inputs.a == 1"),
        ("inputs.a ?? 'x'", "??", "write `| default(…)`", "(inputs.a) | default('x')"),
        ("inputs.a ? 1 : 2", "?", "write `… if … else …`", "((1) if inputs.a else 2)"),
        (
            "inputs.a.includes('x')",
            "inputs.a.includes('x')",
            "write `('x' in inputs.a)`",
            "('x' in inputs.a)",
        ),
        (
            r#"["live","failed"].includes(steps.wait.status)"#,
            r#"["live","failed"].includes(steps.wait.status)"#,
            "write `(steps.wait.status in",
            r#"(steps.wait.status in ["live","failed"])"#,
        ),
        (
            "steps.a-b.x.toLowerCase() == 'y'",
            "steps.a-b.x.toLowerCase()",
            "write `(steps.a-b.x | lower)`",
            "(steps.a-b.x | lower) == 'y'",
        ),
        (
            "length(inputs.a) > 1",
            "length(inputs.a)",
            "write `(inputs.a | length)`",
            "(inputs.a | length) > 1",
        ),
        (
            "default(inputs.a, 1 + 1)",
            "default(inputs.a, 1 + 1)",
            "default((1 + 1))",
            "(inputs.a | default((1 + 1)))",
        ),
        (
            "contains(inputs.a, 'x')",
            "contains(inputs.a, 'x')",
            "write `('x' in inputs.a)`",
            "('x' in inputs.a)",
        ),
        (
            "toJson(inputs.a)",
            "toJson(inputs.a)",
            "write `(inputs.a | tojson)`",
            "(inputs.a | tojson)",
        ),
        (
            "inputs.a.startsWith('x')",
            "inputs.a.startsWith('x')",
            "startingwith",
            "(inputs.a is startingwith('x'))",
        ),
    ] {
        let (kind, place, message) = find_only_parse_fault(foreign);
        assert_eq!((kind, place.as_str()), (FaultKind::Foreign, there), "{foreign}");
        assert!(message.contains(said), "{message}");
        assert_eq!(apply_suggested_edits(foreign), ours);
    }
}

#[test]
fn several_edits_apply_in_turn() {
    let text = "!inputs.a && ![1].includes(inputs.b) || !!(inputs.c !== 'x && y') ? input.d : 2";
    assert_eq!(
        apply_suggested_edits(text),
        "((inputs.d) if (not inputs.a) and (not (inputs.b in [1])) or (not (not (inputs.c != 'x && y'))) else 2)"
    );
}

#[test]
fn unsupported_syntax_lists_alternatives() {
    for text in ["range(10)", "inputs.a.forEach(1)", "now()", "inputs.a.replace('x')", "missing()"]
    {
        let (kind, _, message) = find_only_parse_fault(text);
        assert_eq!(kind, FaultKind::Foreign);
        assert!(message.contains("write `value | filter`; the filters are abs, bool"), "{message}");
        assert!(parse_faults(text)[0].edit.is_none());
    }
}

#[test]
fn string_literals_are_not_corrected() {
    assert_evaluates_to(
        "'a && b || !c === d.includes(e) ${{ }}'",
        json!("a && b || !c === d.includes(e) ${{ }}"),
    );
}
