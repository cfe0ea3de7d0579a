use super::*;

#[test]
fn literals_and_operators() {
    is("1", json!(1));
    is(r#""a\n\"\u00e4\ud83d\ude00""#, json!("a\n\"ä😀"));
    is(
        "[1, 'a', true, null, none, {'k': [1.5,]},]",
        json!([1, "a", true, null, null, {"k": [1.5]}]),
    );
    is("1 + 2 * 3 - 4", json!(3));
    is("(1 + 2) * 3", json!(9));
    is("2 ** 10 % 1000 // 5", json!(4));
    is("7 / 2", json!(3.5));
    is("-inputs.n + 1", json!(-2));
    is("inputs.n-1 is defined", json!(false));
    is("inputs.n - 1", json!(2));
    is("'a' + 'b' ~ 1 ~ null ~ [1]", json!("ab1[1]"));
    is("inputs.tags + ['c']", json!(["a", "b", "c"]));
    is(
        "1 < 2 <= 2 and not 2 > 3 and 2 >= 2 and 1 != 2",
        json!(true),
    );
    is(
        "'x' if inputs.no else 'y' if inputs.zero else 'z'",
        json!("z"),
    );
    is(
        "'b' in inputs.tags and 'c' not in inputs.tags and 'ide' in inputs.name",
        json!(true),
    );
    is("'y' in memory.a", json!(true));
    is("inputs.unset or inputs.empty or 'last'", json!("last"));
    is(
        "inputs.name[1:3] ~ inputs.name[-2:] ~ inputs.name[:1]",
        json!("idexm"),
    );
    is("inputs.users[1:][0].name", json!("Al"));
}

#[test]
fn false_is_what_is_false_zero_empty_or_null() {
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
        assert_eq!(read(text).holds(&roots()), Ok(false), "{text}");
        assert_eq!(
            read(&format!(
                "not ({})",
                text.replace("${{", "").replace("}}", "")
            ))
            .holds(&roots()),
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
        assert_eq!(read(text).holds(&roots()), Ok(true), "{text}");
    }
}

#[test]
fn numbers_keep_every_digit() {
    is("inputs.big", json!(u64::MAX));
    is("[inputs.big, inputs.small]", json!([u64::MAX, i64::MIN]));
    is("18446744073709551615 - 1", json!(u64::MAX - 1));
    is("-9223372036854775808", json!(i64::MIN));
    is(
        "inputs.big == 18446744073709551615 and inputs.big != 18446744073709551614",
        json!(true),
    );
    is("[steps.deploy.ratio][0]", json!(0.1));
    is("inputs.big | tojson | fromjson", json!(u64::MAX));
    is("inputs.big + 1 - 1", json!(u64::MAX));
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
        assert_eq!(fails(text).0, FaultKind::Unsuitable, "{text}");
    }
}

#[test]
fn maps_keep_their_order() {
    let found = evaluated("{'z': 1, 'a': memory, 'm': 2}").unwrap();
    assert_eq!(
        found.to_string(),
        r#"{"z":1,"a":{"z":1,"a":{"y":1,"b":2}},"m":2}"#
    );
    is("{'z': 1, 'a': 2} | keys", json!(["z", "a"]));
}

#[test]
fn filters_do_what_they_are_known_for() {
    is(
        "inputs.name | length + inputs.tags | length + memory.a | count",
        json!(9),
    );
    is("' A ' | trim | lower ~ 'b' | upper", json!("aB"));
    is("(inputs.users | first).name", json!("Bo"));
    is("('b-a' | split('-') | sort)[inputs.zero]", json!("a"));
    is("memory.a | tojson", json!(r#"{"y":1,"b":2}"#));
    is(r#"'{"z":[1,2.5]}' | fromjson"#, json!({"z": [1, 2.5]}));
    is("[1, null, 'x'] | join('-')", json!("1--x"));
    is(
        "inputs.tags | first ~ inputs.tags | last ~ 'äb' | first",
        json!("abä"),
    );
    is("memory.a | items", json!([["y", 1], ["b", 2]]));
    is("memory.a | values | sum", json!(3));
    is("[3, 1, 2] | sort", json!([1, 2, 3]));
    is(
        "inputs.users | sort(attribute='id', reverse=true) | map(attribute='name')",
        json!(["Bo", "Al"]),
    );
    is("[1, 2, 1] | unique | reverse", json!([2, 1]));
    is("'42' | int + '1.5' | float", json!(43.5));
    is(
        "12 | string ~ true | string ~ {} | string",
        json!("12true{}"),
    );
    is(
        "[2.567 | round(1), -3 | abs, [3, 9, 4] | max, [3, 9, 4] | min]",
        json!([2.6, 3, 9, 3]),
    );
    is(
        "'a-b-c' | replace('-', '+') | split('+')",
        json!(["a", "b", "c"]),
    );
    is(
        "inputs.users | selectattr('on') | map(attribute='id')",
        json!([1]),
    );
    is(
        "inputs.users | selectattr('id', 'equalto', 2) | map(attribute='name')",
        json!(["Bo"]),
    );
    is(
        "inputs.users | rejectattr('name', 'in', ['Al']) | map(attribute='name') | first",
        json!("Bo"),
    );
    is(
        "inputs.users | map(attribute='on', default=false)",
        json!([false, true]),
    );
    is(
        "['true' | bool, 'false' | bool, true | bool, inputs.no | bool]",
        json!([true, false, true, false]),
    );
}

#[test]
fn what_is_not_there_can_be_asked_for_and_replaced() {
    is(
        "inputs.nope is defined or steps.nope.x is defined or steps.deploy.nope is defined",
        json!(false),
    );
    is(
        "inputs.name is defined and inputs.unset is defined and inputs.unset is none",
        json!(true),
    );
    is(
        "inputs.nope is undefined and inputs.name is not undefined",
        json!(true),
    );
    is("steps.nope.x.y | default('none')", json!("none"));
    is("inputs.unset | default('none')", json!("none"));
    is(
        "inputs.empty | default('none') ~ inputs.empty | default('none', true)",
        json!("none"),
    );
    is("inputs.none | first | default('none')", json!("none"));
    is(
        "inputs.users[inputs.n].name is defined if false else inputs.users[9] | d(1)",
        json!(1),
    );
    is("inputs.no and inputs.nope", json!(false));
    is("inputs.name or inputs.nope", json!("midex"));
}

#[test]
fn tests_with_and_without_parentheses() {
    is(
        "4 is even and 3 is odd and 9 is divisibleby 3 and 9 is not divisibleby(0)",
        json!(true),
    );
    is(
        "inputs.name is startingwith 'mi' and inputs.name is endingwith('ex')",
        json!(true),
    );
    is(
        "[1 is number, 1 is integer, 1.0 is float, '' is string, [] is sequence, {} is mapping, true is boolean]",
        json!([true, true, true, true, true, true, true]),
    );
    is(
        "null is null and true is true and false is false",
        json!(true),
    );
}

/// Values of different types have no order.
#[test]
fn only_numbers_and_texts_have_an_order() {
    is("1 < 2.5 and 'a' < 'b' and inputs.n >= 3", json!(true));
    is("1 < 2 < 3 == 3 != 4", json!(true));
    is("3 > inputs.n > 'x'", json!(false));
    is("['b', 'a'] | sort", json!(["a", "b"]));
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
        assert_eq!(fails(text).0, FaultKind::Unsuitable, "{text}");
    }
    for text in [
        "'3' > 5",
        "[1] > 5 or 'abc' > 5",
        "true < 1",
        "inputs.n > null",
    ] {
        let (kind, _, message) = fault(text);
        assert_eq!(kind, FaultKind::Syntax, "{text}");
        assert!(
            message.contains("compares two numbers, or two texts"),
            "{message}"
        );
    }
}

#[test]
fn what_compares_texts_compares_them_letter_by_letter() {
    let words = "['b', 'B', 'a', 'A', 'b']";
    is(&format!("{words} | sort"), json!(["A", "B", "a", "b", "b"]));
    is(&format!("{words} | unique"), json!(["b", "B", "a", "A"]));
    is(
        &format!("[{words} | min, {words} | max]"),
        json!(["A", "b"]),
    );
    is("'B' < 'a' and 'a' != 'A'", json!(true));
    is(
        &format!("{words} | sort(case_sensitive=false) | first | lower"),
        json!("a"),
    );
    is(
        &format!("{words} | unique(case_sensitive=false)"),
        json!(["b", "a"]),
    );
    is(
        "[{'k': 'b'}, {'k': 'B'}] | sort(attribute='k') | map(attribute='k')",
        json!(["B", "b"]),
    );
    is("[3, 1, 2] | sort(reverse=true)", json!([3, 2, 1]));
}

#[test]
fn an_index_into_a_text_is_a_letter_wherever_the_text_comes_from() {
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
        is(text, json!("i"));
    }
    is("inputs.name[9] is defined", json!(false));
    let (kind, _, _) = fails("inputs.name[9]");
    assert_eq!(kind, FaultKind::Unresolved);
    fails("'midex'[9]");
}

#[test]
fn map_passes_over_items_that_are_null_unless_it_is_told_what_they_count_as() {
    is(
        "[{'x': 1}, null, {'x': 2}] | map(attribute='x')",
        json!([1, 2]),
    );
    is("[null] | map(attribute='x', default='-')", json!(["-"]));
    let (kind, _, _) = fails("[{'x': 1}, {'y': 1}] | map(attribute='x')");
    assert_eq!(kind, FaultKind::Unsuitable);
}

#[test]
fn quotes_of_a_typesetter_are_told_with_the_straight_ones() {
    for text in ["inputs.name == ‘bug’", "inputs.name == “bug”"] {
        assert!(
            faults(text)[0]
                .to_string()
                .contains("write straight quotes")
        );
    }
}
