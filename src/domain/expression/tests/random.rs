use proptest::prelude::*;

use super::*;
use crate::expression::Template;

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z_][a-zA-Z0-9_]{0,8}(-[a-z0-9]{1,3})?", any::<String>()]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(
                |number| serde_json::Number::from_f64(number).map_or(json!(0), Value::Number)
            ),
            any::<String>().prop_map(Value::from),
            Just(json!("${{ inputs.x }}")),
        ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Fragments that combine to texts which are almost valid expressions.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "inputs.name",
        "steps.code-review",
        ".x",
        "[0]",
        "['a']",
        "'text'",
        "1",
        "2.5",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        " and ",
        " or ",
        " not ",
        "!",
        "&&",
        "||",
        "==",
        "===",
        " in ",
        " is ",
        "defined",
        "|",
        "length",
        "default(",
        ".includes(",
        "+",
        "-",
        "*",
        "~",
        "**",
        " if ",
        " else ",
        "?",
        "??",
        "${{",
        "}}",
        "secrets.A",
        "pkg",
        "\\",
        "\"",
        "ä",
        "\u{0}",
        "=",
        "null",
        "map(attribute=",
        "99999999999999999999",
    ];
    prop_oneof![9 => prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

/// Expressions as written by users of other languages.
fn foreign_expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "inputs.a",
        "steps.a-b.c",
        "input.x",
        "'x && y'",
        "1",
        "true",
        "[1, 2]",
        "pkg.z",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let joint = prop::sample::select(vec![
            "&&", " && ", "||", " || ", "===", " !== ", " == ", " and ", " + ",
        ]);
        prop_oneof![
            (inner.clone(), joint, inner.clone())
                .prop_map(|(a, joint, b)| format!("({a}{joint}{b})")),
            inner.clone().prop_map(|a| format!("!{a}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}.includes({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("contains({a}, {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} ?? {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            inner.clone().prop_map(|a| format!("toJson({a})")),
            inner.prop_map(|a| format!("{a}.trim()")),
        ]
    })
}

proptest! {
    #[test]
    fn a_whole_path_gives_back_what_was_put_in(key in key(), value in json_value(), index in 0_usize..4) {
        let mut roots = EvaluationContext::default();
        let mut list = vec![Value::Null; index];
        list.push(value.clone());
        roots.inputs.insert(key.clone(), Value::from(list));
        let quoted = Value::from(key.as_str());
        let text = format!("${{{{ inputs[{quoted}][{index}] }}}}");
        let template = Template::parse(&json!({"a": text})).unwrap();
        let found = template.render(&roots).unwrap();
        prop_assert_eq!(found["a"].to_string(), value.to_string());
        // The same through the engine below, which must change nothing either.
        let text = format!("[inputs[{quoted}][{index}]]");
        let found = parse_valid(&text).evaluate(&roots).unwrap();
        prop_assert_eq!(found[0].to_string(), value.to_string());
        // And a reference shown is a path again.
        let shown = parse_valid(&text).references()[0].to_string();
        prop_assert_eq!(parse_valid(&shown).evaluate(&roots).unwrap(), value);
    }

    #[test]
    fn any_text_is_read_or_refused(pieces in prop::collection::vec(piece(), 0..20), braced in any::<bool>()) {
        let text = pieces.concat();
        let text = if braced { format!("a ${{{{ {text} }}}} b") } else { text };
        let inside = |offset: usize, length: usize| text.get(offset..offset + length).is_some();
        match Expression::parse_with(&text, &["pkg"]) {
            Ok(expression) => {
                for reference in expression.references() {
                    prop_assert!(inside(reference.offset, reference.length));
                }
                if let Err(fault) = expression.evaluate(&sample_context()) {
                    prop_assert!(inside(fault.offset, fault.length), "{:?}", fault);
                }
            }
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    prop_assert!(inside(fault.offset, fault.length), "{:?}", fault);
                    let edited = fault.edit.map(|edit| inside(edit.start, edit.end - edit.start));
                    prop_assert!(edited != Some(false));
                }
            }
        }
        match Template::parse(&Value::from(text.as_str())) {
            Ok(template) if !text.contains("${{") => prop_assert_eq!(template.render(&sample_context()).unwrap(), Value::from(text)),
            Ok(template) => drop(template.render(&sample_context())),
            Err(faults) => prop_assert!(!faults.is_empty()),
        }
    }

    #[test]
    fn suggested_edits_lead_to_an_expression(text in foreign_expression()) {
        foreign::apply_suggested_edits(&text);
    }
}
