//! The grammar of manifests: what each kind and field means, and every way in which it can be wrong. Checked with all of the
//! grammar, also with what nothing acts on yet.

use midex_domain::{
    Step, StepKind, Workflow,
    definition::{InputChannel, JumpTarget, OnError, RunWhen, WaitTrigger},
    finding::{Rule, has_errors},
    limits,
    span::HumanDuration,
};
use midex_registry::check_text;
use serde_json::json;

use super::*;
use midex_test::list_of;

mod beside;
mod edges;
mod edits;
mod expressions;
mod names;
mod silent;
mod ways;

fn checked(name: &str, text: &str) -> (Option<Workflow>, Vec<Finding>) {
    let (workflow, findings) = check_text(name, text, &SHIPPED);
    (workflow, strict(findings))
}

/// Holds the places of all findings of a manifest against those expected.
#[track_caller]
fn wrong(text: &str, expected: &[&str]) {
    let (workflow, findings) = checked("w.yaml", text);
    assert_eq!(places(&findings), expected, "{text}\n{findings:#?}");
    assert_eq!(workflow.is_none(), has_errors(&findings));
}

#[track_caller]
fn sound_at(name: &str, text: &str) -> Workflow {
    without_findings(text, checked(name, text))
}

/// The workflow of a manifest that was checked and has no findings.
#[track_caller]
fn without_findings(text: &str, checked: (Option<Workflow>, Vec<Finding>)) -> Workflow {
    let (workflow, findings) = checked;
    assert!(findings.is_empty(), "{text}\n{findings:#?}");
    workflow.unwrap()
}

#[track_caller]
fn sound(text: &str) -> Workflow {
    sound_at("w.yaml", text)
}

/// A step `a`, and then the rest.
fn after_a(rest: &str) -> String {
    steps(&format!("  - id: a\n    agent: reviewer\n{rest}"))
}

fn order(workflow: &Workflow) -> Vec<String> {
    let line = |step: &Step| {
        let after: Vec<&str> = step.depends_on.iter().map(AsRef::as_ref).collect();
        format!("{} after [{}]", step.id, after.join(" "))
    };
    workflow.steps.iter().map(line).collect()
}

fn step<'a>(workflow: &'a Workflow, id: &str) -> &'a Step {
    workflow.steps.iter().find(|step| step.id.as_str() == id).unwrap()
}

const WHOLE: &str = r#"workflow: w
description: d
memory: {tries: 0, goal: "${{ inputs.goal }}"}
timeout: 2h
inputs: {goal: {type: string, optional: true}}
limits: {max_steps: 50, max_visits: 7}
final_output: {done: "${{ steps.call.id }}"}
steps:
  - id: read
    extract: {from: "${{ inputs.goal }}", properties: [goal]}
  - id: ask
    input: {properties: [goal], via: guidance, reextract: true}
    if: inputs.goal is defined
  - id: think
    guidance: Think about ${{ inputs.goal }}
    result: {type: object, required: [ok]}
    example: {ok: true}
    output_contract: {fields: [{name: ok, tags: [t], description: d, type: boolean}]}
    retry: {max_attempts: 2}
    max_visits: 3
  - id: pick
    tool: chooser
    with: {from: "${{ steps.think.ok }}"}
    optional: true
  - id: route
    branch:
      - {if: steps.pick.ok, next: call}
      - {next: think}
  - id: call
    run: "render  services  list"
    with: {id: 1}
    body: {x: "${{ memory.tries }}"}
    idempotent: true
    repeat: {until: steps.call.ready, timeout: 5m}
    retry: {backoff: 90s, on: [timeout, http_5xx]}
    timeout: 30s
    on_error: stop
  - id: work
    activity: build
    idempotent: true
    run_when: finished
    on_error: continue
  - id: each
    foreach:
      in: ${{ steps.work.parts }}
      as: part
      do: {agent: reviewer, instructions: "Look at ${{ part.name }} (${{ index }})", on_error: continue}
  - id: go
    gate: {ask: "Ship ${{ inputs.goal }}?", approvers: [ann], expires: 24h}
  - id: rest
    wait: {for: 10m}
  - id: note
    set: {tries: "${{ memory.tries + 1 }}"}
    next: $end
  - id: stop
    fail: {code: STOPPED, message: "No ${{ inputs.goal }}"}
"#;

#[test]
fn every_kind_and_field_is_read() {
    let workflow = sound(WHOLE);
    assert_eq!(workflow.memory["tries"], 0);
    assert_eq!(workflow.max_steps, Some(50));
    assert_eq!(workflow.max_visits, Some(7));
    assert_eq!(workflow.timeout.unwrap().to_string(), "2h");
    assert_eq!(workflow.final_output.as_ref().unwrap()["done"], "${{ steps.call.id }}");
    let kinds = list_of(&workflow.steps, |step| step.kind.as_str());
    assert_eq!(
        kinds,
        [
            "extract", "input", "guidance", "tool", "branch", "run", "activity", "foreach", "gate",
            "wait", "set", "fail"
        ]
    );
    let StepKind::Input { via, reextract, .. } = &step(&workflow, "ask").kind else { panic!() };
    assert_eq!((*via, *reextract), (InputChannel::Guidance, true));
    let call = step(&workflow, "call");
    let StepKind::Run { catalog, operation, body, idempotent, .. } = &call.kind else { panic!() };
    assert_eq!(catalog.as_str(), "render");
    assert_eq!(operation.as_str(), "services list");
    assert_eq!(*idempotent, Some(true));
    assert_eq!(body.as_ref().unwrap(), &json!({ "x": "${{ memory.tries }}" }));
    assert_eq!(call.on_error, OnError::Step(step(&workflow, "stop").id.clone()));
    assert_eq!(step(&workflow, "work").run_when, RunWhen::Finished);
    assert_eq!(step(&workflow, "note").next, Some(JumpTarget::End));
    assert_eq!(step(&workflow, "think").max_visits, Some(3));
    let StepKind::Foreach { alias, body, .. } = &step(&workflow, "each").kind else { panic!() };
    assert_eq!(alias.as_str(), "part");
    assert_eq!(body.on_error, OnError::Continue);
    assert_eq!(body.agent_name().unwrap().as_str(), "reviewer");
    assert_eq!(step(&workflow, "rest").kind, StepKind::Wait(WaitTrigger::For("10m".into())));
    // Said nowhere, and named in the limits.
    let (retry, repeat) = (call.retry.as_ref().unwrap(), call.repeat.as_ref().unwrap());
    assert_eq!(retry.max_attempts, limits::RETRY_ATTEMPTS_DEFAULT);
    assert!(retry.jitter);
    assert_eq!(
        retry.max_backoff.to_string(),
        "1m30s",
        "the longest pause is not shorter than the first"
    );
    assert_eq!(repeat.every, HumanDuration::from_duration(limits::REPEAT_EVERY_DEFAULT));
    assert_eq!(repeat.max_attempts, limits::REPEAT_ATTEMPTS_DEFAULT);
    let plain = sound(&after_a(
        "  - id: g\n    gate: Go?\n  - id: f\n    foreach: {in: [1], do: {guidance: x}}\n",
    ));
    let StepKind::Gate { ask, .. } = &step(&plain, "g").kind else { panic!() };
    let StepKind::Foreach { alias, parallel, .. } = &step(&plain, "f").kind else { panic!() };
    assert_eq!(ask.as_str(), "Go?");
    assert_eq!(alias.as_str(), "item");
    assert_eq!(*parallel, limits::FOREACH_PARALLEL_DEFAULT);
}

#[test]
fn what_nothing_acts_on_yet_is_refused() {
    wrong(
        &after_a("  - id: b\n    guidance: x\n    escalate: {}\n    stall_after: 5m\n"),
        &["8:5 not_supported_yet steps[1].escalate", "9:5 not_supported_yet steps[1].stall_after"],
    );
}

/// Holds what a second step that says `body` breaks against what is expected, as `rule path` below the step.
#[track_caller]
fn second(body: &str, expected: &[&str]) {
    let text = after_a(&format!("  - id: b\n    {}\n", body.replace('\n', "\n    ")));
    let (_, findings) = checked("w.yaml", &text);
    let short = |finding: &Finding| {
        let path = finding.path.trim_start_matches("steps[1]").trim_start_matches('.');
        format!("{} {path}", finding.rule).trim_end().to_owned()
    };
    let found: Vec<_> = findings.iter().map(short).collect();
    assert_eq!(found, expected, "{text}\n{findings:#?}");
}

/// Holds a table of second steps, each `body => findings`: ` / ` in a body ends a line, and a line that begins with `=>`
/// has more findings of the body above it.
#[track_caller]
fn seconds(table: &str) {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for row in table.trim().lines() {
        let (body, found) = row.split_once("=>").expect("two columns");
        if !body.trim().is_empty() {
            rows.push((body.trim().replace(" / ", "\n"), Vec::new()));
        }
        let found = found.split(',').map(str::trim).filter(|one| *one != "ok");
        rows.last_mut().expect("a body").1.extend(found);
    }
    for (body, found) in rows {
        second(&body, &found);
    }
}

#[test]
fn bodies_of_kinds_are_checked() {
    seconds(
        "
        guidance: ' ' => empty_value guidance
        tool: 5 => wrong_type tool
        tool: ' x' => ill_formed_name tool
        input: {properties: [], via: mail, again: 1} => empty_value input.properties, unknown_value input.via
            => unknown_key input.again
        input: x => wrong_type input, unknown_reference input.properties[0]
        input: {via: auto} => missing_key input.properties
        extract: {from: '', properties: [x, x]} => empty_value extract.from, unknown_reference extract.properties[0]
            => duplicate_value extract.properties[1], unknown_reference extract.properties[1]
        run: render => ill_formed_name run
        run: [render, list] => wrong_type run
        activity: {} => wrong_type activity
        branch: [] => empty_value branch
        branch: {next: a} => wrong_type branch, endless_loop branch[0].next
        branch: [{if: 5, next: a}, {if: inputs.x}, {next: 'a b'}] => wrong_type branch[0].if
            => missing_key branch[1].next, ill_formed_name branch[2].next
        foreach: {in: 5, as: 'a-b', parallel: 0} => missing_key foreach.do, wrong_type foreach.in
            => ill_formed_name foreach.as, out_of_range foreach.parallel
        foreach: {in: steps.a.x, do: {guidance: x}} => wrong_type foreach.in
        gate: {approvers: ann, expires: soon} => missing_key gate.ask, wrong_type gate.approvers
            => ill_formed_duration gate.expires
        gate: 1 => wrong_type gate
        wait: {} => missing_key wait
        wait: {for: 1s, signal: x} => conflicting_keys wait
        wait: {for: 5} => wrong_type wait.for
        wait: {for: 0s} => out_of_range wait.for
        wait: {until: tomorrow} => ill_formed_instant wait.until
        wait: {until: '2030-01-31T09:00:00+01:00'} => ok
        wait: {until: '${{ inputs.at }}'} => ok
        set: {} => empty_value set
        set: {'a b': 1} => ill_formed_name set.a b
        fail: {code: X} => missing_key fail.message
        description: no kind => missing_kind
        guidance: x / tool: y => several_kinds guidance
    ",
    );
}

#[test]
fn fields_of_steps_are_checked() {
    seconds(
        "
        guidance: x / if: '' => empty_value if
        guidance: x / if: inputs.x / when: inputs.y => conflicting_keys when
        guidance: x / with: [x] => wrong_type with
        guidance: x / result: {type: strin} => invalid_schema result.type
        guidance: x / result: {type: object} / example: 5 => example_mismatch example
        guidance: x / result: {properties: {a: {type: string}}} / example: {a: 1} => example_mismatch example.a
        guidance: x / output_contract: {fields: [{select: x, name: n}]} => unknown_key output_contract.fields[0].select
        guidance: x / retry: {max_attempts: 0} => out_of_range retry.max_attempts
        guidance: x / retry: {max_attempts: 1.5} => wrong_type retry.max_attempts
        guidance: x / retry: {max_attempts: '3'} => wrong_type retry.max_attempts
        guidance: x / retry: {backoff: 5m, max_backoff: 1m} => out_of_range retry.max_backoff
        guidance: x / retry: {jitter: yes} => wrong_type retry.jitter
        guidance: x / retry: {on: []} => empty_value retry.on
        guidance: x / timeout: 5 minutes => ill_formed_duration timeout
        guidance: x / timeout: 367d => ill_formed_duration timeout
        guidance: x / optional: 1 => wrong_type optional
        guidance: x / optional: true / on_error: fail => conflicting_keys on_error
        guidance: x / on_error: contineu => unknown_step on_error
        guidance: x / run_when: always => unknown_value run_when
        guidance: x / next: $ned => ill_formed_name next
        guidance: x / next: c => unknown_step next
        guidance: x / next: $stop => ok
        guidance: '${{ run.last.x | default(1) }}' / repeat: {until: inputs.x} => ok
        guidance: '${{ run.last.x | default(1) }}' / timeout: 1s => unknown_reference guidance
        guidance: x / cancel: [a] => ok
        guidance: x / cancel: [b] => no_effect cancel[0]
        guidance: x / cancel: [c] => unknown_step cancel[0]
        guidance: x / cancel: [] => empty_value cancel
        guidance: x / title: '${{ inputs.x }}' => ok
        guidance: x / title: '${{ secrets.X }}' => misplaced_secret title
        guidance: x / title: 1 => wrong_type title
        guidance: x / retry: {factor: 1.5} => ok
        guidance: x / retry: {factor: 0.5} => out_of_range retry.factor
        guidance: x / retry: {factor: 11} => out_of_range retry.factor
        guidance: x / retry: {factor: twice} => wrong_type retry.factor
        guidance: x / join: 'quorum(${{ inputs.x }})' => ok
        guidance: x / join: 'quorum(0)' => unknown_value join
        run: a b / interrupted: fail => ok
        run: a b / interrupted: never => unknown_value interrupted
        wait: {signal: x, alive: 10s} => ok
        wait: {for: 1s, alive: 10s} => no_effect wait.alive
        wait: {signal: x, alive: 0s} => out_of_range wait.alive
        foreach: {in: [1], enough: 1, tolerate: 20%, do: {guidance: x}} => ok
        foreach: {in: [1], enough: '${{ inputs.x }}', tolerate: '${{ inputs.x }}', do: {guidance: x}} => ok
        foreach: {in: [1], enough: 0, do: {guidance: x}} => out_of_range foreach.enough
        foreach: {in: [1], enough: 10001, do: {guidance: x}} => out_of_range foreach.enough
        foreach: {in: [1], enough: some, do: {guidance: x}} => wrong_type foreach.enough
        foreach: {in: [1], tolerate: 101%, do: {guidance: x}} => wrong_type foreach.tolerate
        foreach: {in: [1], tolerate: -1, do: {guidance: x}} => out_of_range foreach.tolerate
        foreach: {in: [1], tolerate: 1, do: {guidance: x, optional: true}} => conflicting_keys foreach.do.optional
        guidance: x / max_visits: 0 => out_of_range max_visits
        guidance: x / max_visits: 10001 => out_of_range max_visits
        guidance: x / colour: red => unknown_key colour
        guidance: x / max_visits: 10000 => ok
        run: a b / repeat: {every: 1s} => missing_key repeat.until
        run: a b / repeat: {until: inputs.x, max_attempts: 10001} => out_of_range repeat.max_attempts
        run: a b / repeat: {until: inputs.x, max_attempts: 10000, every: 250ms} => ok
    ",
    );
}

#[test]
fn a_field_that_nothing_would_act_on_says_so() {
    seconds(
        "
        set: {x: 1} / retry: {} => no_effect retry
        set: {x: 1} / timeout: 1s => no_effect timeout
        set: {x: 1} / with: {} => no_effect with
        set: {x: 1} / instructions: x => no_effect instructions
        set: {x: 1} / result: {} => no_effect result
        guidance: x / body: 1 => no_effect body
        guidance: x / idempotent: true => no_effect idempotent
        set: {x: 1} / repeat: {until: inputs.x} => no_effect repeat
        guidance: x / repeat: {until: inputs.x} => ok
        guidance: x / interrupted: fail => no_effect interrupted
        branch: [{next: $end}] / cancel: [a] => no_effect cancel
        gate: Go? / with: {} => no_effect with
        gate: Go? / timeout: 1s => no_effect timeout
        gate: Go? / retry: {} => no_effect retry
        branch: [{next: $end}] / result: {} => no_effect result
        branch: [{next: $end}] / next: a => no_effect next
        branch: [{next: $end}] / example: 1 => no_effect example
        fail: {code: X, message: y} / optional: true => no_effect optional
        fail: {code: X, message: y} / on_error: fail => no_effect on_error
        fail: {code: X, message: y} / next: a => no_effect next
        activity: x / idempotent: true / body: 1 => no_effect body
        activity: x / idempotent: true / example: 1 => no_effect example
        activity: x / idempotent: true / instructions: x => no_effect instructions
        foreach: {in: [1], do: {guidance: x, next: a}} => no_effect foreach.do.next
        foreach: {in: [1], do: {guidance: x, depends_on: []}} => no_effect foreach.do.depends_on
        foreach: {in: [1], do: {guidance: x, run_when: finished}} => no_effect foreach.do.run_when
        foreach: {in: [1], do: {guidance: x, max_visits: 2}} => no_effect foreach.do.max_visits
        foreach: {in: [1], do: {guidance: x, id: x}} => no_effect foreach.do.id
        foreach: {in: [1], do: {guidance: x, on_error: a}} => no_effect foreach.do.on_error
        foreach: {in: [1], do: {guidance: x, on_error: continue, if: item, retry: {}}} => ok
        foreach: {in: [1], do: {branch: [{next: $end}]}} => no_effect foreach.do.branch
        foreach: {in: [1], do: {agent: nobody}} => missing_persona foreach.do.agent
        foreach: {in: [1], do: 5} => wrong_type foreach.do
    ",
    );
}

#[test]
fn control_leads_to_steps_and_arms_stay_apart() {
    let g = |id: &str| format!("  - id: {id}\n    guidance: x\n");
    let branch = "  - id: r\n    branch: [{if: steps.a.x, next: b}, {next: c}]\n";
    // `b` stands above `c` and runs on into it.
    wrong(
        &after_a(&format!("{branch}{}{}", g("b"), g("c"))),
        &["7:36 arms_run_together steps[1].branch[0].next"],
    );
    for end in ["next: $end", "next: d", "fail: {code: X, message: y}"] {
        let b = if end.starts_with("fail") {
            format!("  - id: b\n    {end}\n")
        } else {
            format!("{}    {end}\n", g("b"))
        };
        sound(&after_a(&format!("{branch}{b}{}{}", g("c"), g("d"))));
    }
    sound(&after_a(&format!("{branch}{}{}    depends_on: [r]\n", g("b"), g("c"))));
    // The arm goes on two steps further, and its end is only sometimes one.
    wrong(
        &after_a(&format!(
            "{branch}{}{}    next: $end\n    if: steps.a.x\n{}",
            g("b"),
            g("e"),
            g("c")
        )),
        &["7:36 arms_run_together steps[1].branch[0].next"],
    );
    wrong(
        &after_a("  - id: r\n    branch: [{next: $end}, {if: steps.a.x, next: a}]\n"),
        &["7:28 unreachable steps[1].branch[1]"],
    );
    wrong(
        &after_a(&format!("{}    next: $end\n{}{}", g("b"), g("c"), g("d"))),
        &["9:5 unreachable steps[2]"],
    );
    // What leads there, and what waits for something else, can be come to.
    sound(&after_a(&format!("{}    next: d\n{}    depends_on: [a]\n{}", g("b"), g("c"), g("d"))));
    sound(&after_a(&format!("{}    next: $end\n    on_error: c\n{}", g("b"), g("c"))));
    wrong(
        &after_a(
            "  - id: r\n    branch: [{if: steps.a.x, next: aa}, {next: $end}]\n    on_error: rr\n",
        ),
        &["7:36 unknown_step steps[1].branch[0].next", "8:15 unknown_step steps[1].on_error"],
    );
}

#[test]
fn a_manifest_in_markdown_has_instructions_in_sections() {
    let front = "---\nworkflow: w\ndescription: d\nsteps:\n  - id: look\n    agent: reviewer\n  - id: b\n    tool: t\n    instructions: given\n---\n# W\n\n";
    let workflow = sound_at(
        "w.md",
        &format!(
            "{front}## step: look\n\nDo this with ${{{{ inputs.x }}}}.\n\n### Part\n\n```\n## step: b\n```\n\n## Notes\nx\n"
        ),
    );
    assert_eq!(
        step(&workflow, "look").instructions().unwrap(),
        "Do this with ${{ inputs.x }}.\n\n### Part\n\n```\n## step: b\n```"
    );
    assert!(workflow.content.starts_with("# W\n") && workflow.content.ends_with("## Notes\nx"));
    let text = format!("{front}## step: b\nagain\n## step: loook\nx\n## step: look\n");
    let (_, findings) = checked("w.md", &text);
    assert_eq!(
        places(&findings),
        [
            "13:10 duplicate_key ## step: b",
            "15:10 unknown_section ## step: loook",
            "17:10 empty_value ## step: look",
        ],
        "{findings:#?}"
    );
    assert_eq!(findings[1].suggestion.as_deref(), Some("did you mean `look`?"));
    // An expression in a section stands where the section has it.
    let (_, findings) =
        checked("w.md", &format!("{front}## step: look\n\nSee ${{{{ steps.bb.x }}}}\n"));
    assert_eq!(places(&findings), ["15:9 unknown_reference ## step: look"]);
}

/// What other systems of the kind let pass, all in one file and all told at once.
#[test]
fn nothing_wrong_passes() {
    let text = "workflow: w\ndescription: d\nfinal_output: ${{ steps.gone.x }}\non_eror: x\nsteps:\n  - id: a\n    run: cat op\n    depends_on: [zz]\n    if: steps.nope.x\n  - id: a\n    run: cat op\n    with: {x: '${{ steps.later.x }}'}\n    repeat: {until: steps.none.x, every: 1hour, tries: 5}\n  - id: c\n    guidance: x\n    depends_on: [later]\n  - id: later\n    guidance: x\n    depends_on: [c]\n";
    let (_, findings) = checked("w.yaml", text);
    assert_eq!(
        places(&findings),
        [
            "3:19 unknown_reference final_output",
            "4:1 unknown_key on_eror",
            "8:18 unknown_dependency steps[0].depends_on[0]",
            "9:9 unknown_reference steps[0].if",
            "10:9 duplicate_step steps[1].id",
            "13:21 unknown_reference steps[1].repeat.until",
            "13:42 ill_formed_duration steps[1].repeat.every",
            "13:49 unknown_key steps[1].repeat.tries",
            "19:18 cyclic_dependency steps[3].depends_on[0]",
        ],
        "{findings:#?}"
    );
}
