//! What it costs to read a definition grows with its size and with nothing else: a file is written by anybody.
#![expect(
    clippy::disallowed_methods,
    reason = "how long others wait is told by the machine's own clock"
)]

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use midex_domain::{finding::Rule, limits};
use midex_registry::check_text;

use super::*;
use midex_test::{long::rounds, rows};

/// A text of many parts: its extension, how many parts make it as large as a file may be, and what stands before, in each part
/// and after. In a part `@` is its number.
type Case = [&'static str; 5];

/// Stands for the first lines of a manifest.
const HEAD: &str = "workflow: w\ndescription: d\n";
/// Stands for 400 steps.
const STEPS: &str = "@STEPS\n";
/// Begins the list that a step works on.
const LIST: &str = "  - id: a\n    activity: x\n    with:\n      list:\n";

/// Parts of Markdown files.
const MARKDOWN: &str = r###"
"md", "90000", "---\n@HEADsteps: [{id: s, guidance: g}]\n---\n", "## step: s\n", ""
"md", "50000", "---\n@HEADsteps: [{id: s, guidance: g}]\n---\n", "## step: s@\r\nx\r\n", ""
"md", "30000", "---\n@HEAD@STEPS---\n", "## step: step-with-a-long-name-@\n", ""
"md", "80000", "---\n@HEADsteps: [{id: s, guidance: g}]\n---\n", "## x\n~~~\n~~~\n", ""
"md", "200000", "---\n@HEADsteps: [{id: s, guidance: g}]\n", "# x\n", "---\n"
"md", "200000", "---\n", "# x\n", ""
"md", "24000", "---\n@HEADsteps: [{id: s, guidance: g}]\n", "k@: 1\n", "---\n"
"md", "24000", "---\nname: w\nphases:\n  - phase: a\n", "    k@: 1\n", "---\n"
"###;

/// Keys, steps, inputs and what belongs to them.
const KEYS: &str = r#"
"yaml", "24000", "@HEAD", "k@: 1\n", ""
"yaml", "24000", "@HEAD", "descripti@: 1\n", ""
"yaml", "24000", "@HEAD", "title: 1\n", ""
"yaml", "24000", "@HEAD", "ключ@: ö\r\n", ""
"yaml", "20000", "@HEADmetadata: {a-long-key-of-a-hundred-letters-", "k", ": 1}\n"
"json", "24000", "{\"workflow\": \"w\"", ",\"k@\":\"\\ud83d\\ude00\"", "}"
"yaml", "24000", "@HEADsteps:\n  - id: a\n    guidance: g\n", "    k@: 1\n", ""
"yaml", "24000", "workflow:\n  name: w\n  steps: []\n", "  k@: 1\n", ""
"yaml", "24000", "@HEADsteps:\n  - id: a\n    agent:\n      name: n\n", "      k@: 1\n", ""
"yaml", "8000", "@HEADsteps:\n", "  s@: {guidance: g}\n", ""
"yaml", "7000", "@HEADsteps:\n", "  - {id: a, guidance: g}\n", ""
"yaml", "7000", "@HEADsteps:\n", "  - {id: a@, guidnce: g, on_error: fial}\n", ""
"yaml", "500", "@HEADsteps:\n", "  - {id: a@, workflow: bug-fxi}\n", ""
"yaml", "500", "@HEADsteps:\n", "  - {id: a@, agent: reviwer@}\n", ""
"yaml", "40000", "@HEAD@STEPS  - id: a\n    guidance: g\n    depends_on:\n", "      - step-with-a-long-nome-@\n", ""
"yaml", "8000", "@HEADinputs:\n", "  i@: {type: string}\n", ""
"yaml", "6000", "@HEADinputs:\n", "  - {name: i@, type: string}\n", ""
"yaml", "20000", "@HEADinputs:\n  i:\n    type: string\n", "    k@: 1\n", ""
"yaml", "40000", "@HEADinputs:\n  i:\n    type: string\n    enum:\n", "      - v@\n", ""
"yaml", "40000", "@HEADtags:\n", "  - t@\n", ""
"yaml", "12000", "@HEADmetadata:\n", "  m@: [1]\n", ""
"yaml", "6000", "@HEAD@STEPS  - id: a\n    branch:\n", "      - {if: 'true', next: step-with-a-long-nome-@}\n", ""
"yaml", "40000", "@HEADsteps:\n  - id: a\n    input:\n      properties:\n", "        - p@\n", ""
"#;

/// Texts and expressions.
const TEXTS: &str = r#"
"yaml", "200000", "@HEADsteps:\n  - id: a\n    guidance: \"", "word ", "\"\n"
"yaml", "200000", "@HEADsteps:\n  - id: a\n    guidance: \"", "{{ ", "}}\"\n"
"yaml", "200000", "@HEADsteps:\n  - id: a\n    guidance: \"", "${ ", "}\"\n"
"yaml", "200000", "@HEADsteps:\n  - id: a\n    guidance: \"", "${{ ", "}}\"\n"
"yaml", "40000", "@HEADsteps:\n  - id: a\n    guidance: |\n", "      öä ${{ steps.b.c }}\n", ""
"yaml", "20000", "@HEAD@STEPS@LIST", "        - ${{ steps.step-with-a-long-nome-@.y }}\n", ""
"yaml", "20000", "@HEAD@STEPS@LIST", "        - ${{ steps.step-with-a-long-name-100.y }}\n", ""
"yaml", "20000", "@HEADsteps:\n@LIST", "        - ${{ steps.b.y }}\n", "  - {id: b, guidance: g}\n"
"yaml", "20000", "@HEAD@STEPS@LIST", "        - ${{ run.steps.q@.status }}\n", ""
"yaml", "20000", "@HEADsteps:\n@LIST", "        - '{{ inputs.q@ }}'\n", ""
"yaml", "20000", "@HEADmemory:\n", "  m@: ${{ memory.x@ }}\n", ""
"#;

/// Schemas, and what is no manifest.
const OTHERS: &str = r##"
"yaml", "8000", "@HEADsteps:\n  - id: a\n    guidance: ${{ steps.a.q }}\n    result:\n      type: object\n      properties:\n", "        p@: {type: string}\n", ""
"yaml", "20000", "@HEADsteps:\n  - id: a\n    guidance: g\n    result:\n      type: object\n", "      descripton@: x\n", ""
"yaml", "20000", "@HEADsteps:\n  - id: a\n    guidance: g\n    result:\n", "      p@: string\n", ""
"yaml", "40000", "@HEADsteps:\n  - id: a\n    guidance: g\n    result:\n      enum:\n", "        - v@\n", "    example: x\n"
"yaml", "120000", "@HEAD", "\tx: 1\n", ""
"yaml", "200000", "@HEADx:\n", "\t\n", ""
"yaml", "900", "@HEADmetadata:\n", "  a@: &a@ v\n  b@: *a@\n", ""
"yaml", "400000", "@HEADx: ", "[", ""
"yaml", "400000", "@HEADx: ", "- ", ""
"yaml", "80000", "@HEAD", "x: {{ a }}\n", ""
"yaml", "200000", "```yaml\n@HEAD", "# x\n", "```\n"
"yaml", "400000", "@HEADx: \"", "\\\"", ""
"yaml", "200000", "", "---\n", ""
"json", "800000", "{", "\n", "]"
"json", "400000", "", "[", ""
"##;

/// How many parts make the text of a case as large as a file may be.
fn count_of(case: &Case) -> usize {
    case[1].parse().unwrap()
}

fn written([_, _, before, part, after]: &Case, count: usize) -> String {
    let mut steps = "steps:\n".to_owned();
    for number in 0..400 {
        writeln!(steps, "  - {{id: step-with-a-long-name-{number}, guidance: g}}").unwrap();
    }
    let before = before.replace("@HEAD", HEAD).replace("@LIST", LIST);
    let mut text = before.replace(STEPS.trim_end(), &steps);
    for number in 0..count {
        text.push_str(&part.replace('@', &number.to_string()));
    }
    text + after
}

fn time_of(case: &Case, count: usize) -> Duration {
    let text = written(case, count);
    let began = Instant::now();
    let (_, findings) = check_text(&format!("w.{}", case[0]), &text, &SHIPPED);
    let took = began.elapsed();
    assert!(findings.len() <= limits::FINDINGS_MAX + 1, "{case:?}");
    took
}

/// What a machine that does other things may take longer.
const SLACK: Duration = Duration::from_millis(250);

#[test]
fn a_definition_four_times_as_long_takes_about_four_times_as_long() {
    let share = usize::try_from(rounds(40, 4)).unwrap();
    for case in rows(&[MARKDOWN, KEYS, TEXTS, OTHERS].concat()) {
        let count = count_of(&case);
        let is_linear = || {
            let (one, four) = (count / share, count * 4 / share);
            let (short, long) = (time_of(&case, one), time_of(&case, four));
            (long <= 8 * short + SLACK, short, long)
        };
        let mut tries = (0..3).map(|_| is_linear());
        let (_, short, long) = tries.find(|(is_linear, ..)| *is_linear).unwrap_or_else(is_linear);
        assert!(long <= 8 * short + SLACK, "{short:?}, then {long:?}: {case:?}");
    }
}

#[test]
fn the_findings_of_one_file_are_bounded_and_the_rest_is_counted() {
    let case = &rows(MARKDOWN)[0];
    let count = count_of(case);
    let (workflow, findings) = check_text("w.md", &written(case, count), &SHIPPED);
    assert!(workflow.is_none());
    assert_eq!(findings.len(), limits::FINDINGS_MAX + 1);
    let last = findings.last().unwrap();
    let more = count - limits::FINDINGS_MAX;
    assert_eq!(last.message, format!("{more} more findings are not listed"));
    assert_eq!(findings[0].line, 6, "{:?}", findings[0]);
}

#[test]
fn how_many_findings_are_not_listed_is_still_said_once_a_later_rule_adds_one() {
    let manifest = |rest: &str| steps(&format!("  - {{id: a, guidance: g}}\n{rest}"));
    let more = 50;
    let keys: Vec<_> =
        (0..limits::FINDINGS_MAX + more).map(|number| format!("k{number}: 1\n")).collect();
    let project = Project::new(&[
        ("workflows/a.yaml", &manifest("")),
        ("workflows/b.yaml", &manifest(&keys.concat())),
    ]);
    let registry = project.load();
    let path = project.path("workflows/b.yaml");
    let mut all = registry.all_workflows();
    let entry = all.find(|entry| entry.path.as_deref() == Some(&*path));
    let findings = &entry.unwrap().findings;
    let is_duplicate = |one: &&Finding| one.rule == Rule::DuplicateName;
    assert_eq!(findings.iter().filter(is_duplicate).count(), 1);
    let last = &findings.last().unwrap().message;
    assert_eq!(*last, format!("{more} more findings are not listed"));
}
