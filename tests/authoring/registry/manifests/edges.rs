//! Every limit of a manifest, at its edge and past it.

use super::*;

/// So many of something, separated by commas.
fn many(count: usize, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(", ")
}

/// Holds that a step may have so many of something, and one more is the finding.
#[track_caller]
fn edge(max: usize, finding: &str, body: impl Fn(usize) -> String) {
    second(&body(max), &[]);
    let past = body(max + 1).replace('\n', "\n    ");
    let (_, findings) = checked("w.yaml", &after_a(&format!("  - id: b\n    {past}\n")));
    let (rule, path) = finding.split_once(' ').unwrap();
    let first = findings.first().unwrap_or_else(|| panic!("{finding}"));
    assert_eq!(first.rule.as_str(), rule, "{findings:#?}");
    assert!(first.path.starts_with(&format!("steps[1].{path}")), "{findings:#?}");
}

#[test]
fn texts_and_lists_have_limits() {
    let x = |count: usize| "x".repeat(count);
    let names = |count: usize| many(count, |at| format!("n{at}"));
    let entries = |count: usize| many(count, |at| format!("n{at}: 1"));
    edge(limits::STEP_TEXT_BYTES_MAX, "limit_exceeded guidance", |n| format!("guidance: {}", x(n)));
    edge(limits::WORD_BYTES_MAX, "limit_exceeded tool", |n| format!("tool: {}", x(n)));
    edge(limits::EXPRESSION_BYTES_MAX, "limit_exceeded if", |n| {
        format!("guidance: x\nif: inputs.{}", x(n - "inputs.".len()))
    });
    edge(limits::MEMORY_NAME_BYTES_MAX, "ill_formed_name set", |n| format!("set: {{{}: 1}}", x(n)));
    edge(limits::WORDS_MAX, "limit_exceeded retry.on", |n| {
        format!("tool: x\nretry: {{on: [{}]}}", names(n))
    });
    edge(limits::MEMORY_ENTRIES_MAX, "limit_exceeded set", |n| format!("set: {{{}}}", entries(n)));
    edge(limits::BRANCH_ARMS_MAX, "limit_exceeded branch", |n| {
        format!("branch: [{}]", many(n, |_| "{if: inputs.x, next: a}".to_owned()))
    });
    edge(limits::CONTRACT_FIELDS_MAX, "limit_exceeded output_contract.fields", |n| {
        let fields = many(n, |_| "{name: n}".to_owned());
        format!("guidance: x\noutput_contract: {{fields: [{fields}]}}")
    });
}

#[test]
fn numbers_have_limits() {
    let number = |max: u32| usize::try_from(max).unwrap();
    edge(number(limits::FOREACH_PARALLEL_MAX), "out_of_range foreach.parallel", |n| {
        format!("foreach: {{in: [1], parallel: {n}, do: {{guidance: x}}}}")
    });
    edge(number(limits::RETRY_ATTEMPTS_MAX), "out_of_range retry.max_attempts", |n| {
        format!("guidance: x\nretry: {{max_attempts: {n}}}")
    });
    edge(number(limits::REPEAT_ATTEMPTS_MAX), "out_of_range repeat.max_attempts", |n| {
        format!("run: a b\nrepeat: {{until: inputs.x, max_attempts: {n}}}")
    });
    edge(number(limits::VISITS_MAX), "out_of_range max_visits", |n| {
        format!("guidance: x\nmax_visits: {n}")
    });
    let limit = |key: &str, n: u32| {
        format!(
            "workflow: w\ndescription: d\nlimits: {{{key}: {n}}}\nsteps: [{{id: a, guidance: x}}]\n"
        )
    };
    for (key, max) in
        [("max_steps", limits::EXECUTION_VISITS_MAX), ("max_visits", limits::VISITS_MAX)]
    {
        sound(&limit(key, max));
        let place = format!("3:{} out_of_range limits.{key}", 12 + key.len());
        wrong(&limit(key, max + 1), &[&place]);
        wrong(&limit(key, 0), &[&place]);
    }
}
