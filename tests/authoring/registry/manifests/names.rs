//! Names that expressions use and that cannot be, and texts that look like expressions.

use super::{edits::edited, *};

use midex_test::assert_has;

/// Holds that the second step has one finding, that its edit says this instead, and that the file is sound then.
#[track_caller]
fn meant(body: &str, finding: &str, instead: &str) {
    second(body, &[finding]);
    let text = after_a(&format!("  - id: b\n    {}\n", body.replace('\n', "\n    ")));
    let text = text.replace(
        "steps:\n",
        "memory: {wishes: [], n: 0}\ninputs: {topic: {type: string}}\nsteps:\n",
    );
    let (_, findings) = checked("w.yaml", &text);
    assert_eq!(findings.len(), 1, "{text}\n{findings:#?}");
    let mended = edited(&text, findings[0].edits.clone());
    assert!(mended.contains(instead), "{mended}");
    sound(&mended);
}

#[test]
fn names_that_cannot_be_are_findings() {
    let text = "workflow: w\ndescription: d\nmemory: {wishes: []}\nsteps:\n  - id: a\n    guidance: '${{ memory.wihses }} ${{ memory.n }} ${{ memory.nobody | default(1) }} ${{ run.visits.zz }} ${{ run.steps.a.errro }} ${{ run.visitt }}'\n  - id: b\n    set: {n: 1}\n";
    let (_, findings) = checked("w.yaml", text);
    let told: Vec<_> = findings
        .iter()
        .map(|finding| {
            (
                finding.rule,
                finding.message.as_str(),
                finding.suggestion.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    let rule = Rule::UnknownReference;
    assert_eq!(
        told,
        [
            (rule, "nothing sets `memory.wihses`", "did you mean `wishes`?"),
            (
                rule,
                "nothing sets `memory.nobody`",
                "give it a first value, as `memory: { nobody: … }`, or write it in a `set`"
            ),
            (rule, "`run.visits.zz` is nothing that an execution says of itself", "there are a, b"),
            (
                rule,
                "`run.steps.a.errro` is nothing that an execution says of itself",
                "did you mean `error`?"
            ),
            (
                rule,
                "`run.visitt` is nothing that an execution says of itself",
                "did you mean `visit`?"
            ),
        ]
    );
    assert!(edited(text, findings[0].edits.clone()).contains("${{ memory.wishes }}"));
    // Memory has the outputs of steps under their ids, and the inputs.
    second("guidance: '${{ memory.a }} ${{ memory.__workflow_input__ }}'", &[]);
    for call in [
        "rejectattr('x', 'equalTo', 1)",
        "selectattr('x', 'match', 'y')",
        "selectattr('x', 'eq')",
        "map('upper')",
    ] {
        second(
            &format!("guidance: \"${{{{ steps.a | {call} }}}}\""),
            &["ill_formed_expression guidance"],
        );
    }
    second("guidance: \"${{ steps.a | selectattr('x', inputs.test, 1) }}\"", &[]);
}

#[test]
fn the_result_of_a_step_says_which_fields_there_are() {
    let with = |result: &str, reference: &str| {
        steps(&format!(
            "  - id: a\n    guidance: x\n    result: {result}\n  - id: b\n    guidance: '${{{{ {reference} }}}}'\n"
        ))
    };
    let closed = "{type: object, properties: {text: {type: string}, list: {type: array, items: {type: object, required: [x], properties: {x: {}}, additionalProperties: false}}}, required: [text, list], additionalProperties: false}";
    for (reference, finding) in [
        ("steps.a.txt", "unknown_reference"),
        ("steps.a.txt | default(1)", "unknown_reference"),
        ("steps.a.text.length", "unknown_reference"),
        ("steps.a.list.x", "unknown_reference"),
        ("steps.a.list[0].y", "unknown_reference"),
    ] {
        wrong(&with(closed, reference), &[&format!("8:20 {finding} steps[1].guidance")]);
    }
    for sure in ["steps.a.text", "steps.a.list[0].x", "steps.a[inputs.x]", "steps.a"] {
        sound(&with(closed, sure));
    }
    let open = "{type: object, properties: {text: {type: string}, sum: {}}, required: [text]}";
    for perhaps in ["steps.a.sum", "steps.a.other"] {
        let (workflow, findings) = checked("w.yaml", &with(open, perhaps));
        assert!(workflow.is_some(), "a warning refuses nothing");
        assert_eq!(places(&findings), ["8:20 uncertain_reference steps[1].guidance"]);
    }
    for guarded in
        ["steps.a.sum | default(1)", "steps.a.sum if steps.a.sum is defined else 1", "steps.a.text"]
    {
        sound(&with(open, guarded));
    }
    for unknown in [
        "{}",
        "{type: object}",
        "{anyOf: [{type: object}]}",
        "{$ref: '#/$defs/x', $defs: {x: {type: object}}}",
    ] {
        sound(&with(unknown, "steps.a.any"));
    }
    let each = "  - id: a\n    foreach: {in: [1], do: {guidance: x, result: {type: object, properties: {x: {}}, required: [x], additionalProperties: false}}}\n  - id: b\n    guidance: '${{ steps.a[0].x }} ${{ steps.a[0].y }}'\n";
    wrong(&steps(each), &["7:40 unknown_reference steps[1].guidance"]);
}

#[test]
fn what_looks_like_an_expression_is_a_warning_with_the_edit() {
    let rule = |path: &str| format!("looks_like_expression {path}");
    let topic = "${{ inputs.topic }}";
    meant("guidance: 'On {{ inputs.topic }}.'", &rule("guidance"), &format!("'On {topic}.'"));
    meant("guidance: On ${inputs.topic}", &rule("guidance"), &format!("On {topic}"));
    meant(
        "guidance: x\nwith: {topic: inputs.topic}",
        &rule("with.topic"),
        &format!("{{topic: \"{topic}\"}}"),
    );
    meant(
        "guidance: x\nwith:\n  q: [\"{{inputs.topic}}\"]",
        &rule("with.q[0]"),
        &format!("[\"{topic}\"]"),
    );
    let text = "workflow: w\ndescription: d\nmemory: {n: 0}\nfinal_output: {s: steps.a.n}\nsteps:\n  - id: a\n    set: {n: memory.n + 1}\n";
    let (workflow, findings) = checked("w.yaml", text);
    assert!(workflow.is_some());
    assert_eq!(
        places(&findings),
        ["4:19 looks_like_expression final_output.s", "7:14 looks_like_expression steps[0].set.n"]
    );
    let edits = findings.iter().flat_map(|finding| finding.edits.clone());
    let mended = edited(text, edits.collect());
    assert_has(&mended, &["{s: \"${{ steps.a.n }}\"}", "{n: \"${{ memory.n + 1 }}\"}"]);
    sound(&mended);
    // Prose, other languages, and what nothing here is called are left alone.
    for plain in [
        "guidance: Write inputs.topic into the file.",
        "guidance: Templates of {{# user }} and ${HOME} stay as they are.",
        "guidance: 'Say ${{ inputs.topic }} and { inputs.topic }'",
        "guidance: x\nwith: {file: memory.md, other: steps.zz.x, name: item.name, env: env.local, n: '1.5', v: v1.2}",
        "guidance: x\nexample: {a: inputs.topic}\nresult: {}",
    ] {
        second(plain, &[]);
    }
}

#[test]
fn numbers_are_those_of_the_core_schema_and_none_is_changed_in_silence() {
    let text = |value: &str| {
        format!(
            "workflow: w\ndescription: d\nmemory: {{n: {value}}}\nsteps:\n  - {{id: a, agent: reviewer}}\n"
        )
    };
    for (written, meant) in [
        ("010", json!(10)),
        ("1_000", json!("1_000")),
        ("off", json!("off")),
        ("no", json!("no")),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("-5", json!(-5)),
        ("+5", json!(5)),
        ("1.50", json!(1.5)),
        ("1e3", json!(1000.0)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("\"18446744073709551616\"", json!("18446744073709551616")),
    ] {
        assert_eq!(sound(&text(written)).memory["n"], meant, "{written}");
    }
    for large in ["18446744073709551616", "-9223372036854775809", "100000000000000000000000"] {
        let yaml = text(large);
        let (_, findings) = checked("w.yaml", &yaml);
        assert_eq!(places(&findings), ["3:13 out_of_range "], "{findings:#?}");
        let mended = edited(&yaml, findings[0].edits.clone());
        assert_eq!(sound(&mended).memory["n"], large);
        let step = "\"steps\": [{\"id\": \"a\", \"agent\": \"reviewer\"}]";
        for words in ["d", "\\ud83d\\ude00"] {
            let json = format!(
                "{{\"workflow\": \"w\", \"description\": \"{words}\", \"memory\": {{\"n\": {large}}}, {step}}}"
            );
            let (workflow, findings) = checked("w.json", &json);
            assert!(workflow.is_none());
            assert_eq!(findings[0].rule, Rule::OutOfRange, "{json} {findings:#?}");
            assert_eq!(json[findings[0].start..findings[0].end], *large);
        }
    }
}

#[test]
fn a_secret_that_the_configuration_does_not_name_is_a_warning() {
    let text = after_a(
        "  - id: b\n    activity: x\n    idempotent: true\n    with: {key: '${{ secrets.API_KEY }}'}\n",
    );
    let findings = |secrets: Option<&[&str]>| {
        let abilities = ServerCapabilities {
            secrets: secrets.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            ..activities(&["x"])
        };
        let registry = Registry::load_with_abilities(&Sources::default(), &abilities);
        check_text("w.yaml", &text, &registry)
    };
    assert_eq!(findings(None).1, [], "nobody knows");
    assert_eq!(findings(Some(&["API_KEY"])).1, []);
    let (workflow, warned) = findings(Some(&[]));
    assert!(workflow.is_some());
    assert_eq!(warned[0].rule, Rule::UnknownSecret);
    assert!(warned[0].suggestion.as_ref().unwrap().contains("--secret-env API_KEY"));
}
