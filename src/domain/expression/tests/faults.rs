use super::*;

#[test]
fn faults_point_at_what_is_wrong() {
    for (text, there, said) in [
        ("", "", "there is no expression here"),
        ("${{ }}", "", "there is no expression here"),
        ("1 +", "", "a value should stand here, not the end"),
        ("ä == 1", "ä", "`ä` stands for nothing here"),
        ("1 2", "2", "`2` should not stand here"),
        ("(1", "", "`)` should stand here, not the end"),
        ("[1 2]", "2", "`,` should stand here, not `2`"),
        ("{a: 1}", "a", "a key in quotes should stand here, not `a`"),
        ("1 if true", "", "`else` and what the value is otherwise should stand here"),
        ("'abc", "'", "the text that begins here has no closing `'`"),
        (r"'\x'", r"\x", "this is not an escape of a text"),
        ("1 # 2", "#", "`#` has no place in an expression"),
        ("18446744073709551616", "18446744073709551616", "is not a number that JSON can hold"),
        ("inputs.", "", "a name or an index should stand here, not the end"),
        ("steps", "steps", "`steps` needs the id of a step"),
        ("steps[inputs.x]", "steps", "`steps` needs the id of a step"),
        ("and", "and", "a value should stand here, not `and`"),
        ("${{ 1 } }", "${{", "the `${{` that begins here has no `}}`"),
        ("${{ 1", "${{", "the `${{` that begins here has no `}}`"),
        ("${{ 1 }} and true", " and true", "there should be one expression"),
        ("1 | lenght", "lenght", "there is no filter `lenght`: did you mean `length`?"),
        ("1 is emptyish", "emptyish", "there is no test `emptyish`: the tests are defined"),
        ("1 | range", "range", "there is no filter `range`"),
        ("'a' | replace('b')", "replace('b')", "the filter `replace` takes 2 values"),
        (
            "[1] | map('upper')",
            "map('upper')",
            "the filter `map` takes no values, and by name `attribute=`",
        ),
        ("[1] | sort(by='x')", "sort(by='x')", "the filter `sort` takes no values, and by name"),
        ("3 is divisibleby", "divisibleby", "the test `divisibleby` takes 1 values"),
    ] {
        for text in [text.to_owned(), format!("  {text}")] {
            let (_, place, message) = find_only_parse_fault(&text);
            assert_eq!(place, there, "{text}: {message}");
            assert!(message.contains(said), "{text}: {message}");
        }
    }
}

#[test]
fn misspelt_roots_get_a_suggestion() {
    for (text, there, meant) in [
        ("input.x == 1", "input", "inputs"),
        ("step.a.b", "step", "steps"),
        ("'ä' == setps.a-b.c", "setps", "steps"),
        ("memmory", "memmory", "memory"),
    ] {
        let (kind, place, message) = find_only_parse_fault(text);
        assert_eq!((kind, place.as_str()), (FaultKind::UnknownName, there));
        assert!(message.contains(&format!("did you mean `{meant}")), "{message}");
        let faults = parse_faults(text);
        let edit = faults[0].edit.as_ref().unwrap();
        let mut corrected = text.to_owned();
        corrected.replace_range(edit.start..edit.end, &edit.replacement);
        assert_eq!(corrected, text.replacen(there, meant, 1));
        parse_valid(&corrected);
    }
    let (_, _, message) = find_only_parse_fault("inputs.env == production");
    assert!(message.contains("quote it if it is text"), "{message}");
    assert_eq!(parse_faults("a.b and c-d and pkg.x").len(), 4);
    assert!(Expression::parse("pkg.x").is_err());
}

#[test]
fn all_faults_are_reported_together() {
    let faults = parse_faults("inptus.a && (stesp.b || !inputs.c) | lenght");
    let messages: Vec<_> = faults.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(messages.len(), 6, "{messages:?}");
}

#[test]
fn type_faults_name_types_but_not_values() {
    for (text, there, said) in [
        ("inputs.name * 3", "inputs.name", "a number is needed here, not text"),
        ("2 * inputs.tags", "inputs.tags", "a number is needed here, not a list"),
        ("-(inputs.name)", "(inputs.name)", "a number is needed here, not text"),
        (
            "inputs.name + 1",
            "inputs.name + 1",
            "`+` does not go between text and a number: `~` joins anything as text",
        ),
        ("inputs.tags | upper", "inputs.tags | upper", "`upper` takes text, not a list"),
        ("inputs.name | int", "inputs.name | int", "`int`: the text is not a number"),
        (
            "inputs.n | length",
            "inputs.n | length",
            "`length` takes text, a list or a map, not a number",
        ),
        (
            "inputs.name | fromjson",
            "inputs.name | fromjson",
            "`fromjson`: expected value at line 1 column 1",
        ),
        (
            "[1, 'x'] | sum",
            "[1, 'x'] | sum",
            "`sum` takes a list of numbers, and here is, not text",
        ),
        (
            "inputs.users | map(attribute='on')",
            "inputs.users | map(attribute='on')",
            "an item has no `on`",
        ),
        ("1 in inputs.n", "1 in inputs.n", "containment"),
        (
            "inputs.n // inputs.zero",
            "inputs.n // inputs.zero",
            "the result is too large, or a division by zero",
        ),
        ("inputs.none | first", "inputs.none | first", "leads to nothing"),
    ] {
        let (_, place, message) = find_evaluation_fault(text);
        assert_eq!(place, there, "{message}");
        assert!(message.contains(said), "{text}: {message}");
        assert!(!message.contains("midex"), "{message}");
    }
}

#[test]
fn expressions_are_equal_if_they_are_written_alike() {
    assert_eq!(parse_valid("inputs.a == 1"), parse_valid(" inputs.a == 1 "));
    assert_ne!(parse_valid("inputs.a == 1"), parse_valid("inputs.a == 2"));
    assert_eq!(parse_valid(" ${{ inputs.a }} ").source(), "${{ inputs.a }}");
    assert_eq!(format!("{:?}", parse_valid("1")), "Expression(\"1\")");
}
