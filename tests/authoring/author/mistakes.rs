//! What can be wrong with a manifest, told by the tools of authors.

use std::{collections::BTreeSet, fs::File};

use serde_json::json;

use super::{TRIAGE, done, get, reader, refused, validated};
use crate::corpus::edited;
use midex_test::{
    Client, Server, has_code, has_fields,
    project::{Project, each, list, text},
    rows,
};

/// Everything that an author can get wrong in one file, told at once.
#[test]
fn all_that_is_wrong_is_told_at_once_each_with_its_place() {
    let manifest = "\
workflow: wrong
description: d
inputs:
  app: { type: string, validate: { pattern: '[' }, default: x, hints: h }
steps:
  - id: one
    guidance: Use ${{ inputs.ap }}.
    guidence: x
  - id: one
    guidance: Again.
  - id: two
    guidance: G
    depends_on: [nobody, two]
  - id: three
    guidance: G
    if: steps.four.ok == 'größe' &&
  - id: four
    guidance: G
    depends_on: [five]
  - id: five
    guidance: G
    depends_on: [four]
    timeout: 1x
  - id: six
    agent: nobody-at-all
  - id: seven
    foreach: { in: '${{ item }}' }
final_output: { x: '${{ steps.eight.y }}' }
";
    let project = Project::new(&[]);
    let mut client = reader(&project);
    let checked = validated(&mut client, &manifest);
    let told: Vec<_> = list(&checked["violations"])
        .iter()
        .map(|one| {
            format!(
                "{}:{} {} {}",
                one["line"],
                one["column"],
                text(&one["rule"]),
                text(&one["path"])
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "4:45 invalid_pattern inputs.app.validate.pattern",
            "4:61 wrong_type inputs.app.default",
            "4:64 unknown_key inputs.app.hints",
            "7:23 unknown_reference steps[0].guidance",
            "8:5 unknown_key steps[0].guidence",
            "9:9 duplicate_step steps[1].id",
            "13:18 unknown_dependency steps[2].depends_on[0]",
            "13:26 self_dependency steps[2].depends_on[1]",
            "16:34 ill_formed_expression steps[3].if",
            "16:36 ill_formed_expression steps[3].if",
            "22:18 cyclic_dependency steps[5].depends_on[0]",
            "23:14 ill_formed_duration steps[5].timeout",
            "25:12 missing_persona steps[6].agent",
            "27:14 missing_key steps[7].foreach.do",
            "27:25 unknown_reference steps[7].foreach.in",
            "28:25 unknown_reference final_output.x",
        ],
        "{checked}"
    );
}

#[test]
fn what_no_manifest_has_is_refused_with_what_to_write() {
    let project = Project::new(&[]);
    let mut client = reader(&project);
    let step = "steps: [{ id: s, guidance: '${{ inputs.a }}' }]";
    let with = |lines: &str| format!("workflow: w\ndescription: d\n{lines}\n");
    let input = |declaration: &str| with(&format!("inputs: {{ a: {declaration} }}\n{step}"));
    let declared = rows(
        r#"
        "{ type: string, default: x }", "wrong_type inputs.a.default: write `{ from: literal, value: x }`"
        "{ type: string, hints: x }", "unknown_key inputs.a.hints: did you mean `hint`?"
        "{ type: string, examples: [x] }", "unknown_key inputs.a.examples: did you mean `example`?"
        "{ type: string, provider: apps list }", "unknown_catalog inputs.a.provider"
        "#,
    );
    let written = rows(
        r#"
        "steps: [{ id: s, guidance: G, flags: { a: 1 } }]", "unknown_key steps[0].flags"
        "steps: [{ id: s, guidance: G, positional_args: [x] }]", "unknown_key steps[0].positional_args"
        "steps: [{ id: s, guidance: '${{ inputs.a' }]", "ill_formed_expression steps[0].guidance: close it with `}}`"
        "steps: [{ id: s, guidance: G, depends_on: [t] }]", "unknown_dependency steps[0].depends_on[0]"
        "steps: [{ id: s, guidance: G, depends_on: [s] }]", "self_dependency steps[0].depends_on[0]"
        "steps: [{ id: s, activity: a, repeat: { every: 5s } }]", "missing_key steps[0].repeat.until"
        "steps: [{ id: s, activity: a, repeat: { until: output.ok, every: 5s } }]", "unknown_reference steps[0].repeat.until"
        "steps: [{ id: s, activity: a, repeat: { until: steps.s.ok, timeout: 1x } }]", "ill_formed_duration steps[0].repeat.timeout"
        "extends: other\nsteps: [{ id: s, guidance: G }]", "unknown_base extends"
        "steps: []", "no_steps steps"
        "", "missing_key steps"
        "#,
    );
    let declared = declared.iter().map(|[said, found]| (input(said), *found));
    let written = written.iter().map(|[lines, found]| (with(lines), *found));
    let nameless =
        ("description: d\nsteps: [{ id: s, guidance: G }]\n".to_owned(), "missing_key workflow");
    for (manifest, found) in declared.chain(written).chain([nameless]) {
        let checked = validated(&mut client, &manifest);
        let told = list(&checked["violations"]);
        let told: Vec<_> = told
            .iter()
            .map(|one| {
                let meant = one["suggestion"]["text"].as_str().unwrap_or_default();
                format!("{} {}: {meant}", text(&one["rule"]), text(&one["path"]))
            })
            .collect();
        assert!(
            told.iter().any(|told| told.starts_with(found)),
            "{manifest}: {told:?} without {found}"
        );
    }
    // An operator of another templating language is a warning: it may be text.
    let manifest =
        with("inputs: { a: { type: string } }\nsteps: [{ id: s, guidance: '{{ inputs.a }}' }]");
    let checked = validated(&mut client, &manifest);
    assert_eq!(each(&list(&checked["warnings"]), "rule"), ["looks_like_expression"]);
}

/// The first mistakes of an agent that writes expressions: each edit leads to what it meant.
#[test]
fn a_name_that_stands_alone_and_an_expression_in_a_description_are_told_with_their_edits() {
    let project = Project::new(&[]);
    let mut client = reader(&project);
    let manifest = "\
workflow: w
description: d
inputs: { audience: { type: string } }
memory: { rounds: 0, audience-seen: '' }
steps:
  - id: collect
    agent: reviewer
    description: Collect it for ${{ inputs.audience }}
    result: { type: object, properties: { ok: { type: boolean } }, required: [ok] }
  - id: write
    if: audience == 'users' and collect.ok
    guidance: Write round ${{ rounds + 1 }} for ${{ audience }}
";
    let meant = manifest
        .replace("    description: Collect", "    instructions: Collect")
        .replace("if: audience", "if: inputs.audience")
        .replace("and collect.ok", "and steps.collect.ok")
        .replace("{{ rounds", "{{ memory.rounds")
        .replace("{{ audience", "{{ inputs.audience");
    let checked = validated(&mut client, &manifest);
    let all = [&checked["warnings"], &checked["violations"]];
    let all: Vec<_> = all.into_iter().flat_map(list).collect();
    assert_eq!(each(&list(&checked["violations"]), "rule"), ["unknown_reference"; 4], "{checked}");
    let edits = all.iter().flat_map(|one| list(&one["suggestion"]["edits"]));
    let edits = edits.map(|edit| serde_json::from_value(edit).unwrap());
    assert_eq!(edited(manifest, edits.collect()), meant, "{checked}");
    let checked = validated(&mut client, &meant);
    has_fields(&checked, json!({ "violations": [], "warnings": [] }));
}

#[test]
fn a_broken_file_is_listed_as_that_and_the_others_are_of_use() {
    let project = Project::new(&[
        ("workflows/triage.yaml", TRIAGE),
        ("workflows/deep/er/cut.json", "{ \"workflow\": \"cut\", \"steps\": ["),
        ("workflows/nameless.yaml", "description: d\nsteps: [{ id: s, guidance: G }]\n"),
    ]);
    let mut client = reader(&project);
    let listed = done(&mut client, "workflow.list", json!({ "source": "project" }));
    let listed = list(&listed["workflows"]);
    let broken = listed.iter().filter(|one| one.get("findings").is_some());
    let broken: BTreeSet<_> = broken.map(|one| text(&one["workflow_id"])).collect();
    assert_eq!(listed.len(), 3);
    assert_eq!(broken, BTreeSet::from(["cut", "nameless"]));
    let inputs = json!({ "workflow_id": "triage", "inputs": { "report": "r" } });
    assert_eq!(done(&mut client, "workflow.run", inputs)["status"], "running");
    for id in ["cut", "nameless"] {
        let refusal = refused(&mut client, "workflow.run", json!({ "workflow_id": id }));
        has_code(&refusal, "WORKFLOW_VALIDATION_FAILED");
        // What is wrong can be mended over MCP: the text is there.
        let got = get(&mut client, id);
        assert!(!text(&got["content"]).is_empty());
    }
}

#[test]
fn a_refusal_is_in_the_log_under_its_own_number() {
    let project = Project::new(&[]);
    let log = project.path("log");
    let mut command = project.command(&["serve"]);
    command.env("RUST_LOG", "midex=info");
    let mut server = Server::logging(command, File::create(&log).unwrap());
    server.shake_hands();
    let numbers: BTreeSet<_> = (0..20)
        .map(|_| {
            let refusal = server.refused("workflow.get", json!({ "workflow_id": "none" }));
            text(&refusal["correlation_id"]).to_owned()
        })
        .collect();
    assert_eq!(numbers.len(), 20);
    server.close();
    let log = std::fs::read_to_string(log).unwrap();
    for number in numbers {
        assert!(log.contains(&number), "{number} is not in\n{log}");
    }
}
