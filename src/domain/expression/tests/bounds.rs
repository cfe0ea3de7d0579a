use super::*;
use crate::{expression::Template, limits};

fn context_with_megabytes(megabytes: usize) -> EvaluationContext {
    let mut roots = sample_context();
    roots.inputs.insert("text".into(), Value::from("x".repeat(megabytes << 20)));
    roots.inputs.insert("list".into(), Value::from(vec![1; 200_000]));
    roots.inputs.insert("letters".into(), Value::from("a,".repeat(200_000)));
    roots
}

#[test]
fn results_stay_within_the_size_limit() {
    let roots = context_with_megabytes(4);
    for text in [
        "'x' * 1000000000",
        "[1] * 1000000000",
        "inputs.text ~ inputs.text ~ inputs.text ~ inputs.text ~ inputs.text ~ inputs.text",
        "(((inputs.text ~ inputs.text) ~ (inputs.text ~ inputs.text)) ~ inputs.text) | length",
        "inputs.text + inputs.text + inputs.text + inputs.text + inputs.text",
        "inputs.list | join(inputs.text)",
        "inputs.text | replace('x', inputs.text)",
        "inputs.text | replace('', inputs.text)",
        "inputs.list | string | replace('1', inputs.text)",
        "inputs.text | tojson | tojson | tojson | tojson | tojson | tojson | tojson | tojson",
        "[inputs.list | sort, inputs.list | sort, inputs.list | unique] | length",
        "inputs.users | selectattr('id', 'in', inputs.list) ~ (inputs.list | map(attribute='x', default=inputs.list)) | tojson",
        "(inputs.letters | split(',') | join(inputs.letters)) | length",
        "[[inputs.list, inputs.list, inputs.list], inputs.list + inputs.list + inputs.list] | tojson | fromjson",
        "inputs.list + inputs.list + inputs.list + inputs.list + inputs.list + inputs.list + inputs.list",
        "10 ** 10 ** 10 ** 10",
    ] {
        let Err(fault) = parse_valid(text).evaluate(&roots) else {
            panic!("{text} has a value");
        };
        let kinds = [FaultKind::Limit, FaultKind::TypeMismatch];
        assert!(kinds.contains(&fault.kind), "{text}: {fault:?}");
    }
}

#[test]
fn repeated_large_comparisons_hit_the_limit() {
    let mut roots = context_with_megabytes(0);
    roots.inputs.insert("same".into(), roots.inputs["list"].clone());
    let text = vec!["inputs.list == inputs.same"; 100].join(" and ");
    assert_eq!(parse_valid(&text).evaluate(&roots).unwrap_err().kind, FaultKind::Limit);
    let text = vec!["7 in inputs.list"; 100].join(" or ");
    assert_eq!(parse_valid(&text).evaluate(&roots).unwrap_err().kind, FaultKind::Limit);
    assert_eq!(parse_valid("inputs.list == inputs.same").evaluate(&roots), Ok(json!(true)));
}

#[test]
fn evaluation_works_up_to_the_limit() {
    // Inputs, the result and the list around it are all charged.
    let (text, values) = ("[inputs.x]", 3 * 24);
    for (more, fits) in [(0, true), (1, false)] {
        let mut roots = EvaluationContext::default();
        let length = (limits::EXPRESSION_WORK_BYTES_MAX - values) / 2 + more;
        roots.inputs.insert("x".into(), Value::from("x".repeat(length)));
        assert_eq!(parse_valid(text).evaluate(&roots).is_ok(), fits, "{more}");
    }
}

#[test]
fn expression_length_is_limited() {
    let padded = |length: usize| format!("{}1", " ".repeat(length - 1));
    let braced = |length: usize| format!("${{{{{}}}}}", padded(length));
    let max_bytes = limits::EXPRESSION_BYTES_MAX;
    assert!(Expression::parse(&braced(max_bytes)).is_ok());
    assert_eq!(find_only_parse_fault(&braced(max_bytes + 1)).0, FaultKind::Limit);
    assert!(Expression::parse(&format!("'{}'", "x".repeat(max_bytes - 2))).is_ok());
    assert_eq!(
        find_only_parse_fault(&format!("'{}'", "x".repeat(max_bytes - 1))).0,
        FaultKind::Limit
    );
    assert!(Expression::parse(&format!("'{}", "x".repeat(10 * max_bytes))).is_err());
}

#[test]
fn number_of_parts_is_limited() {
    let list = |parts: usize| format!("{}{}", "-".repeat(0), vec!["1"; parts / 2 + 1].join("+"));
    let max_parts = limits::EXPRESSION_PARTS_MAX;
    assert!(Expression::parse(&list(max_parts - 2)).is_ok());
    assert_eq!(find_only_parse_fault(&list(max_parts + 2)).0, FaultKind::Limit);
    // A chain of the greatest length can be read, run and dropped on a small stack.
    for joint in ["+", "~", " and ", "==", "*", " or ", "**", "<"] {
        let text = vec!["1"; max_parts / 2].join(joint);
        let _ = parse_valid(&text).evaluate(&sample_context());
    }
    for end in ["|length", ".x", "[0]", "['x':]", "|default(1)", " is defined"] {
        let text = format!("inputs.tags{}", end.repeat(300));
        let _ = Expression::parse(&text).map(|read| read.evaluate(&sample_context()));
    }
}

#[test]
fn nesting_depth_is_limited() {
    let max_depth = limits::EXPRESSION_DEPTH_MAX;
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse_valid(&nested(max_depth - 1)).evaluate(&sample_context()).is_ok());
    assert_eq!(find_only_parse_fault(&nested(max_depth)).0, FaultKind::Limit);
    let open = [
        "(",
        "[",
        "{'a':",
        "-",
        "!",
        "not ",
        "1 if ",
        "inputs[",
        "1|default(",
        "1 is odd(",
        "length(",
        "inputs.a(",
    ];
    for open in open {
        assert!(
            Expression::parse(&open.repeat(limits::EXPRESSION_PARTS_MAX / 4)).is_err(),
            "{open}"
        );
    }
    // The most that one level of brackets can hold.
    let level = "true or 1 == 1 and not 1 + 1 ~ 2 * 2 ** -(";
    for depth in 1..max_depth {
        let text = format!("{}1{}", level.repeat(depth), ")".repeat(depth));
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.evaluate(&sample_context());
        }
    }
}

#[test]
fn template_result_size_is_limited() {
    let roots = context_with_megabytes(2);
    let max_values = limits::TEMPLATE_RESULT_BYTES_MAX / (2 << 20);
    let fits = Template::parse(&Value::from(vec!["${{ inputs.text }}"; max_values - 1])).unwrap();
    assert!(fits.render(&roots).is_ok());
    for value in [
        Value::from(vec!["${{ inputs.text }}"; max_values]),
        Value::from("${{ inputs.text }}".repeat(max_values)),
    ] {
        let fault = Template::parse(&value).unwrap().render(&roots).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Limit);
        assert_eq!(fault.message, "the result is larger than 8 MiB");
    }
}

#[test]
fn template_size_is_limited() {
    let max_expressions = limits::TEMPLATE_EXPRESSIONS_MAX;
    assert!(Template::parse(&"${{ 1 }}".repeat(max_expressions).into()).is_ok());
    let faults = Template::parse(&"${{ 1 }}".repeat(2 * max_expressions).into()).unwrap_err();
    assert_eq!((faults.len(), faults[0].kind), (1, FaultKind::Limit));
    let nested = |depth: usize| (0..depth).fold(json!("${{ 1 }}"), |value, _| json!([value]));
    assert!(Template::parse(&nested(limits::JSON_DEPTH_MAX)).is_ok());
    assert!(Template::parse(&nested(limits::JSON_DEPTH_MAX + 1)).is_err());
    let faults = Template::parse(&"${{ x }}".repeat(max_expressions).into()).unwrap_err();
    assert_eq!(faults.len(), limits::FINDINGS_MAX);
}
