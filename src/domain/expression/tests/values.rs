use super::*;

#[test]
fn literals_and_operators() {
    assert_evaluates_to("1", json!(1));
    assert_evaluates_to(r#""a\n\"\u00e4\ud83d\ude00""#, json!("a\n\"ä😀"));
    assert_evaluates_to(
        "[1, 'a', true, null, none, {'k': [1.5,]},]",
        json!([1, "a", true, null, null, {"k": [1.5]}]),
    );
    assert_evaluates_to("1 + 2 * 3 - 4", json!(3));
    assert_evaluates_to("(1 + 2) * 3", json!(9));
    assert_evaluates_to("2 ** 10 % 1000 // 5", json!(4));
    assert_evaluates_to("7 / 2", json!(3.5));
    assert_evaluates_to("-inputs.n + 1", json!(-2));
    assert_evaluates_to("inputs.n-1 is defined", json!(false));
    assert_evaluates_to("inputs.n - 1", json!(2));
    assert_evaluates_to("'a' + 'b' ~ 1 ~ null ~ [1]", json!("ab1[1]"));
    assert_evaluates_to("inputs.tags + ['c']", json!(["a", "b", "c"]));
    assert_evaluates_to("1 < 2 <= 2 and not 2 > 3 and 2 >= 2 and 1 != 2", json!(true));
    assert_evaluates_to("'x' if inputs.no else 'y' if inputs.zero else 'z'", json!("z"));
    assert_evaluates_to(
        "'b' in inputs.tags and 'c' not in inputs.tags and 'ide' in inputs.name",
        json!(true),
    );
    assert_evaluates_to("'y' in memory.a", json!(true));
    assert_evaluates_to("inputs.unset or inputs.empty or 'last'", json!("last"));
    assert_evaluates_to("inputs.name[1:3] ~ inputs.name[-2:] ~ inputs.name[:1]", json!("idexm"));
    assert_evaluates_to("inputs.users[1:][0].name", json!("Al"));
}

#[test]
fn false_zero_empty_and_null_are_falsy() {
    for text in [
        "false",
        "0",
        "0.0",
        "''",
        "null",
        "[]",
        "{}",
        "inputs.no",
        "inputs.zero",
        "inputs.unset",
        "inputs.empty",
        "inputs.none",
        "inputs.nothing",
        "${{ inputs.no }}",
        "not inputs.name",
    ] {
        assert_eq!(parse_valid(text).evaluate_condition(&sample_context()), Ok(false), "{text}");
        assert_eq!(
            parse_valid(&format!("not ({})", text.replace("${{", "").replace("}}", "")))
                .evaluate_condition(&sample_context()),
            Ok(true),
            "{text}"
        );
    }
    for text in [
        "true",
        "1",
        "-0.5",
        "'0'",
        "'false'",
        "[0]",
        "{'a': 0}",
        "inputs.n",
        "${{ inputs.name == 'midex' }}",
    ] {
        assert_eq!(parse_valid(text).evaluate_condition(&sample_context()), Ok(true), "{text}");
    }
}

#[test]
fn numbers_keep_every_digit() {
    assert_evaluates_to("inputs.big", json!(u64::MAX));
    assert_evaluates_to("[inputs.big, inputs.small]", json!([u64::MAX, i64::MIN]));
    assert_evaluates_to("18446744073709551615 - 1", json!(u64::MAX - 1));
    assert_evaluates_to("-9223372036854775808", json!(i64::MIN));
    assert_evaluates_to(
        "inputs.big == 18446744073709551615 and inputs.big != 18446744073709551614",
        json!(true),
    );
    assert_evaluates_to("[steps.deploy.ratio][0]", json!(0.1));
    assert_evaluates_to("inputs.big | tojson | fromjson", json!(u64::MAX));
    assert_evaluates_to("inputs.big + 1 - 1", json!(u64::MAX));
    for text in [
        "inputs.big + 1",
        "inputs.small - 1",
        "2 ** 64",
        "1 / 0",
        "0 / 0",
        "10 ** 400",
        "1 % 0",
        "1 // 0",
    ] {
        assert_eq!(find_evaluation_fault(text).0, FaultKind::TypeMismatch, "{text}");
    }
}

#[test]
fn maps_keep_their_order() {
    let value = evaluate_text("{'z': 1, 'a': memory, 'm': 2}").unwrap();
    assert_eq!(value.to_string(), r#"{"z":1,"a":{"z":1,"a":{"y":1,"b":2}},"m":2}"#);
    assert_evaluates_to("{'z': 1, 'a': 2} | keys", json!(["z", "a"]));
}

#[test]
fn filters_work_as_in_jinja() {
    assert_evaluates_to("inputs.name | length + inputs.tags | length + memory.a | count", json!(9));
    assert_evaluates_to("' A ' | trim | lower ~ 'b' | upper", json!("aB"));
    assert_evaluates_to("(inputs.users | first).name", json!("Bo"));
    assert_evaluates_to("('b-a' | split('-') | sort)[inputs.zero]", json!("a"));
    assert_evaluates_to("memory.a | tojson", json!(r#"{"y":1,"b":2}"#));
    assert_evaluates_to(r#"'{"z":[1,2.5]}' | fromjson"#, json!({"z": [1, 2.5]}));
    assert_evaluates_to("[1, null, 'x'] | join('-')", json!("1--x"));
    assert_evaluates_to("inputs.tags | first ~ inputs.tags | last ~ 'äb' | first", json!("abä"));
    assert_evaluates_to("memory.a | items", json!([["y", 1], ["b", 2]]));
    assert_evaluates_to("memory.a | values | sum", json!(3));
    assert_evaluates_to("[3, 1, 2] | sort", json!([1, 2, 3]));
    assert_evaluates_to(
        "inputs.users | sort(attribute='id', reverse=true) | map(attribute='name')",
        json!(["Bo", "Al"]),
    );
    assert_evaluates_to("[1, 2, 1] | unique | reverse", json!([2, 1]));
    assert_evaluates_to("'42' | int + '1.5' | float", json!(43.5));
    assert_evaluates_to("12 | string ~ true | string ~ {} | string", json!("12true{}"));
    assert_evaluates_to(
        "[2.567 | round(1), -3 | abs, [3, 9, 4] | max, [3, 9, 4] | min]",
        json!([2.6, 3, 9, 3]),
    );
    assert_evaluates_to("'a-b-c' | replace('-', '+') | split('+')", json!(["a", "b", "c"]));
    assert_evaluates_to("inputs.users | selectattr('on') | map(attribute='id')", json!([1]));
    assert_evaluates_to(
        "inputs.users | selectattr('id', 'equalto', 2) | map(attribute='name')",
        json!(["Bo"]),
    );
    assert_evaluates_to(
        "inputs.users | rejectattr('name', 'in', ['Al']) | map(attribute='name') | first",
        json!("Bo"),
    );
    assert_evaluates_to("inputs.users | map(attribute='on', default=false)", json!([false, true]));
    assert_evaluates_to(
        "['true' | bool, 'false' | bool, true | bool, inputs.no | bool]",
        json!([true, false, true, false]),
    );
}

#[test]
fn missing_values_can_be_tested_and_defaulted() {
    assert_evaluates_to(
        "inputs.nope is defined or steps.nope.x is defined or steps.deploy.nope is defined",
        json!(false),
    );
    assert_evaluates_to(
        "inputs.name is defined and inputs.unset is defined and inputs.unset is none",
        json!(true),
    );
    assert_evaluates_to("inputs.nope is undefined and inputs.name is not undefined", json!(true));
    assert_evaluates_to("steps.nope.x.y | default('none')", json!("none"));
    assert_evaluates_to("inputs.unset | default('none')", json!("none"));
    assert_evaluates_to(
        "inputs.empty | default('none') ~ inputs.empty | default('none', true)",
        json!("none"),
    );
    assert_evaluates_to("inputs.none | first | default('none')", json!("none"));
    assert_evaluates_to(
        "inputs.users[inputs.n].name is defined if false else inputs.users[9] | d(1)",
        json!(1),
    );
    assert_evaluates_to("inputs.no and inputs.nope", json!(false));
    assert_evaluates_to("inputs.name or inputs.nope", json!("midex"));
}

#[test]
fn tests_with_and_without_parentheses() {
    assert_evaluates_to(
        "4 is even and 3 is odd and 9 is divisibleby 3 and 9 is not divisibleby(0)",
        json!(true),
    );
    assert_evaluates_to(
        "inputs.name is startingwith 'mi' and inputs.name is endingwith('ex')",
        json!(true),
    );
    assert_evaluates_to(
        "[1 is number, 1 is integer, 1.0 is float, '' is string, [] is sequence, {} is mapping, true is boolean]",
        json!([true, true, true, true, true, true, true]),
    );
    assert_evaluates_to("null is null and true is true and false is false", json!(true));
}

/// Values of different types have no order.
#[test]
fn only_numbers_and_texts_have_an_order() {
    assert_evaluates_to("1 < 2.5 and 'a' < 'b' and inputs.n >= 3", json!(true));
    assert_evaluates_to("1 < 2 < 3 == 3 != 4", json!(true));
    assert_evaluates_to("3 > inputs.n > 'x'", json!(false));
    assert_evaluates_to("['b', 'a'] | sort", json!(["a", "b"]));
    for text in [
        "inputs.empty > inputs.n",
        "inputs.tags > 5",
        "inputs.n < inputs.unset",
        "inputs.no <= inputs.no",
        "5 < inputs.empty",
        "1 < 2 < inputs.tags",
        "[1, inputs.empty] | sort",
        "[inputs.no] | max",
        "inputs.users | sort(attribute='nothing')",
        "inputs.n | bool",
        "'no' | bool",
        "'True' | bool",
    ] {
        assert_eq!(find_evaluation_fault(text).0, FaultKind::TypeMismatch, "{text}");
    }
    for text in ["'3' > 5", "[1] > 5 or 'abc' > 5", "true < 1", "inputs.n > null"] {
        let (kind, _, message) = find_only_parse_fault(text);
        assert_eq!(kind, FaultKind::Syntax, "{text}");
        assert!(message.contains("compares two numbers, or two texts"), "{message}");
    }
}

#[test]
fn texts_compare_by_code_point() {
    let words = "['b', 'B', 'a', 'A', 'b']";
    assert_evaluates_to(&format!("{words} | sort"), json!(["A", "B", "a", "b", "b"]));
    assert_evaluates_to(&format!("{words} | unique"), json!(["b", "B", "a", "A"]));
    assert_evaluates_to(&format!("[{words} | min, {words} | max]"), json!(["A", "b"]));
    assert_evaluates_to("'B' < 'a' and 'a' != 'A'", json!(true));
    assert_evaluates_to(
        &format!("{words} | sort(case_sensitive=false) | first | lower"),
        json!("a"),
    );
    assert_evaluates_to(&format!("{words} | unique(case_sensitive=false)"), json!(["b", "a"]));
    assert_evaluates_to(
        "[{'k': 'b'}, {'k': 'B'}] | sort(attribute='k') | map(attribute='k')",
        json!(["B", "b"]),
    );
    assert_evaluates_to("[3, 1, 2] | sort(reverse=true)", json!([3, 2, 1]));
}

#[test]
fn text_index_yields_a_character() {
    for text in [
        "inputs.name[1]",
        "inputs.name.1",
        "(inputs.name)[1]",
        "'midex'[1]",
        "(inputs.name ~ '')[1]",
        "inputs.name[inputs.n - 2]",
        "[inputs.name][0][1]",
        "inputs.name[-4]",
        "inputs.name[1][0]",
        "(inputs.users | map(attribute='name.0') | first) and 'i'",
    ] {
        assert_evaluates_to(text, json!("i"));
    }
    assert_evaluates_to("inputs.name[9] is defined", json!(false));
    let (kind, _, _) = find_evaluation_fault("inputs.name[9]");
    assert_eq!(kind, FaultKind::Unresolved);
    find_evaluation_fault("'midex'[9]");
}

#[test]
fn map_skips_null_items_without_a_default() {
    assert_evaluates_to("[{'x': 1}, null, {'x': 2}] | map(attribute='x')", json!([1, 2]));
    assert_evaluates_to("[null] | map(attribute='x', default='-')", json!(["-"]));
    let (kind, _, _) = find_evaluation_fault("[{'x': 1}, {'y': 1}] | map(attribute='x')");
    assert_eq!(kind, FaultKind::TypeMismatch);
}

#[test]
fn curly_quotes_get_straight_suggestions() {
    for text in ["inputs.name == ‘bug’", "inputs.name == “bug”"] {
        assert!(parse_faults(text)[0].to_string().contains("write straight quotes"));
    }
}
