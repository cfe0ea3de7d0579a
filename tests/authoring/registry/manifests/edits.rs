//! What findings suggest as changes of the file does away with them.

use midex_domain::error::Edit;

use super::*;

/// A step `first`, and then the rest.
fn after_first(rest: &str) -> String {
    steps(&format!("  - id: first\n    agent: reviewer\n{rest}"))
}

/// The text with all edits made, from the last to the first.
pub(super) fn edited(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.start);
    let mut text = text.to_owned();
    for edit in edits.iter().rev() {
        let lines: Vec<&str> = text.split('\n').collect();
        let from =
            lines[edit.line - 1].chars().take(edit.column - 1).map(char::len_utf8).sum::<usize>();
        let above: usize = lines[..edit.line - 1].iter().map(|line| line.len() + 1).sum();
        assert_eq!(above + from, edit.start, "line and column are those of the bytes");
        text.replace_range(edit.start..edit.end, &edit.new_text);
    }
    text
}

#[test]
fn every_edit_that_is_suggested_removes_its_finding() {
    let j = |body: &str| {
        format!(
            "{{\"workflow\": \"w\", \"description\": \"d\", \"steps\": [{{\"id\": \"a\", {body}}}]}}"
        )
    };
    let files = [
        ("w.yaml", after_first("  - id: b\n    guidanec: x\n")),
        ("w.yaml", after_first("  - id: é\n    agent: 'reveiwer'\n").replace('é', "b")),
        ("w.yaml", steps("  - {id: a, agent: reviwer, dependson: []}\n")),
        ("w.yaml", after_first("  - id: b\n    guidance: x\n    depends_on: frist\n    retry: {max_atempts: 2}\n")),
        ("w.yaml", after_first("  - id: b\n    guidance: x\n    run_when: \"finishd\"\n    on_error: contineu\n")),
        ("w.yaml", after_first("  - id: b\n    guidance: é ${{ steps.frist.x }}\n    if: steps.frist.x && !inputs.y || inputs.z\n")),
        ("w.yaml", after_first("  - id: b\n    guidance: |\n      One\n      ${{ stesp.first.x }}\n    when: \"steps.first.x && inputs.y\"\n")),
        ("w.yaml", after_first("  - id: b\n    guidance: 5\n    timeout: 30\n    max_visits: \"3\"\n    optional: 'true'\n")),
        ("w.yaml", after_first("  - id: b\n    branch: [{if: true, next: frist}]\n    timeout: \"30\"\n")),
        ("w.yaml", after_first("  - id: b\n    foreach: {in: steps.first.x, do: {agent: reviwer}}\n")),
        ("w.yaml", "workflow: w\ndescription: d\ntags: review\ncomplexity: smiple\nstesp: []\n".to_owned()),
        ("w.json", j("\"agent\": \"reveiwer\", \"timeuot\": \"5m\", \"max_visits\": \"3\"")),
        ("w.json", j("\"guidance\": 5, \"if\": \"inputs.a && inputs.b\", \"timeout\": 30")),
        ("w.md", "---\nname: w\ndescription: d\nphases:\n  - phase: first\n    agent: reviwer\n    dependsOn: []\n  - phase: b\n    agnet: reviewer\n    dependsOn: [frist]\n---\n".to_owned()),
        ("w.md", "---\nworkflow: w\ndescription: d\nsteps:\n  - id: first\n    agent: reviewer\n---\n## step: frist\nx\n".to_owned()),
    ];
    let mut applied = 0;
    for (name, text) in files {
        let (_, findings) = checked(name, &text);
        for finding in &findings {
            if finding.edits.is_empty() {
                continue;
            }
            applied += 1;
            let remedied = edited(&text, finding.edits.clone());
            let (_, left) = checked(name, &remedied);
            let same = |other: &&Finding| {
                (other.rule, &other.path, &other.message)
                    == (finding.rule, &finding.path, &finding.message)
            };
            assert!(left.iter().find(same).is_none(), "{finding:#?}\n{remedied}\n{left:#?}");
            assert_ne!(remedied, text);
        }
    }
    assert!(applied >= 30, "{applied}");
}

#[test]
fn an_edit_never_guesses() {
    // Escapes, an alias and a folded block are not what they stand for.
    for text in [
        steps("  - id: a\n    agent: \"review\\u0065s\"\n"),
        after_first("  - id: b\n    guidance: >\n      a\n      ${{ stesp.first.x }}\n"),
        "workflow: w\ndescription: &x smiple\ncomplexity: *x\nsteps:\n  - {id: a, agent: reviewer}\n"
            .to_owned(),
    ] {
        let (_, findings) = checked("w.yaml", &text);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert!(
            findings[0].suggestion.is_some() && findings[0].edits.is_empty(),
            "{findings:#?}"
        );
    }
}
