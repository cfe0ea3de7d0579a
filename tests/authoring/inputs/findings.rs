//! What is found in the inputs of a manifest, and where exactly.

use midex_domain::finding::Finding;
use midex_registry::check_text;

use super::{DEPLOY, manifest};
use crate::registry::{SHIPPED, places};

/// Everything that is found in a manifest with these inputs, which begin on line 3.
fn findings(inputs: &str) -> Vec<Finding> {
    let text = manifest(inputs).replace("worker", "reviewer");
    let (workflow, findings) = check_text("w.yaml", &text, &SHIPPED);
    assert_eq!(workflow.is_none(), !findings.is_empty(), "{findings:#?}");
    findings
}

#[track_caller]
fn check(inputs: &str, expected: &[&str]) -> Vec<Finding> {
    let found = findings(inputs);
    assert_eq!(places(&found), expected, "{inputs}\n{found:#?}");
    found
}

/// The suggestion of the only finding of one input.
#[track_caller]
fn suggestion(input: &str, expected: &str) {
    let found = findings(&format!("inputs:\n  x: {input}\n"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].suggestion.as_deref(), Some(expected), "{found:#?}");
}

#[test]
fn sound_inputs_have_no_findings() {
    check(DEPLOY, &[]);
    check("inputs: {}\n", &[]);
    check("inputs:\n  x: {}\n", &[]);
    check(
        "inputs:
  owner_id: { name: Owner, type: string }
  region: { default: { from: literal, value: us }, validate: { enum: [us, eu] } }
  note: { optional: true, placeholder: why, hint: one line, example: hotfix }
  before: { default: { from: history } }
",
        &[],
    );
}

#[test]
fn keys_and_types_are_found_with_their_places() {
    check("inputs: [x]\n", &["3:9 wrong_type inputs"]);
    check(
        "inputs:\n  -x: {}\n  y: text\n  z: {}\n  z: {}\n",
        &["4:3 ill_formed_name inputs.-x", "5:6 wrong_type inputs.y", "7:3 duplicate_key inputs.z"],
    );
    check(
        "inputs:
  x:
    typ: string
    type: strin
    hints: a
    examples: [b]
    optional: 'yes'
    required: true
    validate: { patern: a, min_length: -1, max: ten }
    enum: us
    default: { from: evn, value: A }
",
        &[
            "5:5 unknown_key inputs.x.typ",
            "6:11 unknown_value inputs.x.type",
            "7:5 unknown_key inputs.x.hints",
            "8:5 unknown_key inputs.x.examples",
            "9:15 wrong_type inputs.x.optional",
            "10:5 unknown_key inputs.x.required",
            "11:17 unknown_key inputs.x.validate.patern",
            "11:40 wrong_type inputs.x.validate.min_length",
            "11:49 wrong_type inputs.x.validate.max",
            "12:11 wrong_type inputs.x.enum",
            "13:22 unknown_value inputs.x.default.from",
        ],
    );
}

#[test]
fn suggestions_say_what_to_write() {
    suggestion("{ hints: a }", "did you mean `hint`?");
    suggestion("{ examples: a }", "did you mean `example`?");
    suggestion("{ default: us }", "write `{ from: literal, value: us }`");
    suggestion("{ default: '5' }", "write `{ from: literal, value: \"5\" }`");
    suggestion("{ default: [1] }", "write `{ from: literal, value: [1] }`");
    suggestion("{ type: strin }", "did you mean `string`?");
    suggestion("{ type: bool }", "did you mean `boolean`?");
    suggestion("{ default: { from: literl } }", "did you mean `literal`?");
    suggestion(
        "{ required: true }",
        "remove it: inputs are required unless they say `optional: true`",
    );
    suggestion("{ pattern: a }", "write `validate: { pattern: a }`");
    suggestion("{ validate: { required: false } }", "write `optional: true` beside `validate`");
}

#[test]
fn values_of_the_manifest_keep_its_own_rules() {
    let found = check(
        "inputs:
  a: { type: integer, enum: [1, two, 2], validate: { enum: [3.5] } }
  b: { validate: { pattern: '(' } }
  c: { type: string, enum: [us, eu], default: { from: literal, value: moon } }
  d: { type: integer, default: { from: literal, value: '5' } }
  e: { validate: { min: 3 }, default: { from: literal, value: 2 } }
  f: { default: { from: literal } }
  g: { default: { from: env, value: 5 } }
  h: { default: { from: env, value: ' ' } }
  i: { default: { value: 5 } }
  j: { default: { from: workflow_output, value: 'other.id + 1' } }
  k: { default: { from: literal, value: 'a ${{ inputs.a }}' } }
  l: { default: { from: literal, value: { deep: ['${{ inputs.a }}'] } } }
  m: { default: { from: literal, value: } }
",
        &[
            "4:33 invalid_enum inputs.a.enum[1]",
            "4:60 contradiction inputs.a.validate.enum",
            "4:61 invalid_enum inputs.a.validate.enum[0]",
            "5:29 invalid_pattern inputs.b.validate.pattern",
            "6:71 invalid_default inputs.c.default.value",
            "7:56 invalid_default inputs.d.default.value",
            "8:63 invalid_default inputs.e.default.value",
            "9:17 missing_key inputs.f.default.value",
            "10:37 wrong_type inputs.g.default.value",
            "11:37 empty_value inputs.h.default.value",
            "12:17 missing_key inputs.i.default.from",
            "13:49 wrong_type inputs.j.default.value",
            "14:41 not_a_template inputs.k.default.value",
            "15:50 not_a_template inputs.l.default.value.deep[0]",
            "16:34 wrong_type inputs.m.default.value",
        ],
    );
    let expected = found[4].expected.as_deref();
    assert_eq!(expected, Some(r#"["us","eu"]"#), "{found:#?}");
}

#[test]
fn what_cannot_hold_together_is_found() {
    check(
        "inputs:
  a: { optional: true, validate: { required: true } }
  b: { validate: { min_length: 3, max_length: 2 } }
  c: { validate: { min: 2, max: 1.5 } }
  d: { type: integer, validate: { pattern: a, max_length: 2 } }
  e: { type: string, validate: { min: 1 } }
  f: { validate: { min_length: 3, max_length: 3 } }
  g: { validate: { required: true } }
  h: { validate: { required: false }, default: { from: literal, value: 1 } }
",
        &[
            "4:46 contradiction inputs.a.validate.required",
            "5:47 contradiction inputs.b.validate.max_length",
            "6:33 contradiction inputs.c.validate.max",
            "7:44 contradiction inputs.d.validate.pattern",
            "7:59 contradiction inputs.d.validate.max_length",
            "8:39 contradiction inputs.e.validate.min",
        ],
    );
}

#[test]
fn keys_that_nothing_acts_on_are_refused_until_something_does() {
    for (key, value) in [("mode", "multiple"), ("join", "{ separator: x }"), ("on_error", "manual")]
    {
        let inputs = format!("inputs:\n  x: {{ {key}: {value} }}\n");
        check(&inputs, &[&format!("4:8 not_supported_yet inputs.x.{key}")]);
    }
    suggestion(
        "{ mode: multiple }",
        "write `type: array`: then several of the choices may be taken",
    );
}

#[test]
fn declarations_have_limits() {
    use midex_domain::limits::{
        INPUT_ENUM_MAX, INPUT_NAME_BYTES_MAX, INPUT_PATTERN_BYTES_MAX, INPUTS_DECLARED_MAX,
    };
    let many = |count: usize| {
        let lines: Vec<_> = (0..count).map(|at| format!("  i{at}: {{}}\n")).collect();
        format!("inputs:\n{}", lines.concat())
    };
    check(&many(INPUTS_DECLARED_MAX), &[]);
    check(&many(INPUTS_DECLARED_MAX + 1), &["4:3 limit_exceeded inputs"]);
    let name = |bytes: usize| format!("inputs:\n  {}: {{}}\n", "n".repeat(bytes));
    check(&name(INPUT_NAME_BYTES_MAX), &[]);
    let long = findings(&name(INPUT_NAME_BYTES_MAX + 1));
    assert_eq!(long[0].rule.as_str(), "ill_formed_name");
    let pattern = |bytes: usize| {
        format!("inputs:\n  x: {{ validate: {{ pattern: {} }} }}\n", "a".repeat(bytes))
    };
    check(&pattern(INPUT_PATTERN_BYTES_MAX), &[]);
    check(
        &pattern(INPUT_PATTERN_BYTES_MAX + 1),
        &["4:29 limit_exceeded inputs.x.validate.pattern"],
    );
    let values =
        |count: usize| format!("inputs:\n  x: {{ enum: {:?} }}\n", (0..count).collect::<Vec<_>>());
    check(&values(INPUT_ENUM_MAX), &[]);
    check(&values(INPUT_ENUM_MAX + 1), &["4:14 limit_exceeded inputs.x.enum"]);
}
