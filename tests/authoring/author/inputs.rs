//! What inputs come to, and the order of steps, as the tools of authors tell it.

use serde_json::{Value, json};

use super::{TRIAGE, done, reader, refused};
use midex_test::project::{Project, each, list, text};

/// The declaration of the only input `app`, what is given for it, and what it comes to: status, value, source, broken rules.
const INPUTS: &str = "\
{ type: string, default: { from: history } } | - | missing | null | history | required
{ type: string, default: { from: literal, value: lit } } | - | defaulted | \"lit\" | literal |
{ type: string, default: { from: literal, value: lit } } | \"x\" | given | \"x\" | caller |
{ type: string, default: { from: env, value: MIDEX_NONE } } | - | missing | null | env | required
{ type: string } | - | missing | null | caller | required
{ type: string } | null | missing | null | caller | required
{ type: string } | \"\" | given | \"\" | caller |
{ type: string, optional: true } | - | optional | null | none |
{ type: string, validate: { pattern: '^a' } } | \"ab\" | given | \"ab\" | caller |
{ type: string, validate: { pattern: '^a' } } | \"b\" | invalid | null | caller | pattern
{ type: string, validate: { pattern: '^a' } } | 1 | invalid | null | caller | type
{ type: string, validate: { min_length: 2, max_length: 3 } } | \"ü\" | invalid | null | caller | minLength
{ type: string, validate: { min_length: 2, max_length: 3 } } | \"üüü\" | given | \"üüü\" | caller |
{ type: string, validate: { min_length: 2, max_length: 3 } } | \"üüüü\" | invalid | null | caller | maxLength
{ type: integer, enum: [1, 42] } | 42 | given | 42 | caller |
{ type: integer, enum: [1, 42] } | 7 | invalid | null | caller | enum
{ type: integer, enum: [1, 42] } | \"42\" | invalid | null | caller | type enum
{ type: boolean } | false | given | false | caller |
{ type: boolean } | \"yes\" | invalid | null | caller | type
{ type: number, validate: { min: 0.5 } } | 0 | invalid | null | caller | minimum
";

/// A line of [`INPUTS`].
struct Row {
    declaration: &'static str,
    given: Option<Value>,
    status: &'static str,
    value: Value,
    source: &'static str,
    rules: Vec<&'static str>,
}

fn rows() -> Vec<Row> {
    let value = |text: &str| serde_json::from_str(text).unwrap();
    let row = |line: &'static str| {
        let columns: Vec<_> = line.split('|').map(str::trim).collect();
        let [declaration, given, status, told, source, rules] = columns[..] else {
            panic!("{line}")
        };
        Row {
            declaration,
            given: (given != "-").then(|| value(given)),
            status,
            value: value(told),
            source,
            rules: rules.split_whitespace().collect(),
        }
    };
    INPUTS.lines().map(row).collect()
}

#[test]
fn inputs_come_to_what_is_told_and_a_run_takes_exactly_those_that_are_ready() {
    let project = Project::new(&[]);
    let mut client = reader(&project);
    for row in rows() {
        let Row { declaration, given, status, value, source, rules } = row;
        let manifest = format!(
            "workflow: w\ndescription: d\ninputs: {{ app: {declaration} }}\nsteps: [{{ id: s, guidance: '${{{{ inputs.app }}}}' }}]\n"
        );
        let shown = format!("{declaration} {given:?}");
        let given = given.map_or(json!({}), |given| json!({ "app": given }));
        let arguments = json!({ "manifest": manifest, "inputs": given });
        let resolved = done(&mut client, "workflow.resolve_inputs", arguments.clone());
        let input = &resolved["inputs"][0];
        assert_eq!(input["status"], json!(status), "{shown}");
        assert_eq!(input["value"], value, "{shown}");
        assert_eq!(input["source"], json!(source), "{shown}");
        let violations = list(&resolved["violations"]);
        assert_eq!(each(&violations, "rule"), rules, "{shown}");
        assert_eq!(resolved["ready"], json!(rules.is_empty()), "{shown}");
        assert!(violations.iter().all(|one| one["path"] == "inputs.app"), "{shown}");
        assert_eq!(resolved["required_missing"] == json!(["app"]), status == "missing", "{shown}");

        let mut arguments = arguments;
        arguments["wait_s"] = json!(0);
        if rules.is_empty() {
            let ran = done(&mut client, "workflow.run", arguments);
            assert_eq!(ran["status"], "running", "{shown}: {ran}");
        } else {
            let refusal = refused(&mut client, "workflow.run", arguments);
            assert_eq!(refusal["error_code"], "INPUTS_INVALID", "{shown}");
            assert_eq!(refusal["violations"], json!(violations), "{shown}");
            assert!(
                text(&refusal["suggested_action"]).contains("workflow.resolve_inputs"),
                "{refusal}"
            );
        }
    }
    let unknown = json!({ "manifest": TRIAGE, "inputs": { "report": "r", "urgnet": true } });
    let refusal = refused(&mut client, "workflow.run", unknown);
    assert_eq!(refusal["violations"][0]["path"], "inputs.urgnet", "{refusal}");
    let listed = done(&mut client, "execution.list", json!({ "limit": 100 }));
    let ready = rows().iter().filter(|row| row.rules.is_empty()).count();
    assert_eq!(list(&listed["executions"]).len(), ready, "what was refused began nothing");
}

#[test]
fn the_order_is_the_author_s_but_for_what_a_step_waits_for() {
    let project = Project::new(&[]);
    let mut client = reader(&project);
    for (steps, ids, waves, depends_on) in [
        // Nothing is said: one after the other.
        (
            "{ id: a, guidance: G }, { id: b, guidance: G }",
            "a b",
            json!([1, 2]),
            json!([[], ["a"]]),
        ),
        // A step that comes later in the list is waited for all the same.
        (
            "{ id: a, guidance: G, depends_on: [b] }, { id: b, guidance: G, depends_on: [] }",
            "a b",
            json!([2, 1]),
            json!([["b"], []]),
        ),
        // What was said of one step leaves the order of the list to the others.
        (
            "{ id: one, guidance: G, depends_on: [] }, { id: two, guidance: G, depends_on: [one] }, { id: three, guidance: G, depends_on: [] }",
            "one two three",
            json!([1, 2, 1]),
            json!([[], ["one"], []]),
        ),
        // What a step refers to it waits for.
        (
            "{ id: a, guidance: G, depends_on: [] }, { id: b, guidance: '${{ steps.a.x }}', result: {}, depends_on: [] }",
            "a b",
            json!([1, 2]),
            json!([[], ["a"]]),
        ),
    ] {
        let manifest = format!("workflow: w\ndescription: d\nsteps: [{steps}]\n");
        let plan = done(&mut client, "workflow.step_plan", json!({ "manifest": manifest }));
        let steps = list(&plan["steps"]);
        let of = |field: &str| -> Value { steps.iter().map(|step| step[field].clone()).collect() };
        assert_eq!(each(&steps, "step_id").join(" "), ids);
        assert_eq!(of("wave"), waves, "{manifest}");
        assert_eq!(of("depends_on"), depends_on, "{manifest}");
        assert!(steps.iter().all(|step| step["will_run"] == true), "{plan}");
    }
}
