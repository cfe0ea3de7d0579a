//! Manifests of people with other habits, written as they would write them before anything was done for them: what they are
//! told helps, or at least does not mislead, and none of them is left without a word. Besides files that people publish for
//! other systems: each is told of as a whole.

use std::fmt::Write as _;

use super::{Case, assert_sound, case, checked};

const FILES: [&str; 2] = [
    include_str!("../../corpus/habits-of-ci.txt"),
    include_str!("../../corpus/habits-of-agents.txt"),
];

/// What an author gets out of what is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    /// Every mistake is told at its place with what to write, and nothing else is.
    Helped,
    /// Some of it is told.
    Partly,
    /// An edit leads to another workflow than the one that was meant.
    Misled,
    /// Nothing is told.
    Silent,
}

fn cases() -> Vec<Case> {
    let texts = FILES.iter().flat_map(|text| text.split("\n=== ").skip(1));
    texts.map(case).collect()
}

fn published() -> Vec<Case> {
    let text = include_str!("../../corpus/published.txt");
    text.split("\n=== ").skip(1).map(case).collect()
}

fn help(case: &Case) -> Help {
    let outcome = case.outcome();
    match checked(&case.file, &case.wrong).1.len() {
        0 => Help::Silent,
        _ if outcome.misled.is_some() => Help::Misled,
        _ if outcome.helpful && outcome.more == 0 => Help::Helped,
        _ => Help::Partly,
    }
}

#[test]
fn what_was_meant_is_sound() {
    assert_sound(cases().into_iter().chain(published()));
}

#[test]
#[expect(clippy::print_stdout, reason = "the score is what is measured")]
fn people_with_other_habits_are_helped() {
    let cases = cases();
    let mut lines = String::new();
    let mut count = [0; 4];
    for case in &cases {
        let help = help(case);
        count[help as usize] += 1;
        if help == Help::Helped {
            continue;
        }
        writeln!(lines, "{help:?}: {}", case.title).expect("a text");
        for finding in checked(&case.file, &case.wrong).1 {
            let hint = finding.suggestion.unwrap_or_default();
            let (line, rule, path, message) =
                (finding.line, finding.rule, finding.path, finding.message);
            writeln!(lines, "    {line} {rule} {path}: {message} ({hint})").expect("a text");
        }
        if let Some(text) = case.outcome().misled {
            writeln!(lines, "    misled to:\n{text}").expect("a text");
        }
    }
    let [helped, partly, misled, silent] = count;
    println!(
        "{lines}{} manifests of other habits: {helped} helped, {partly} partly, {misled} misled, {silent} silent",
        cases.len()
    );
    assert!(cases.len() >= 61 && helped >= 50, "{lines}");
    assert_eq!((misled, silent), (0, 0), "{lines}");
}

#[test]
fn a_published_file_of_another_system_is_told_of_as_a_whole() {
    for case in published() {
        let findings = checked(&case.file, &case.wrong).1;
        assert_eq!(findings.len(), 1, "{}: {findings:#?}", case.title);
        assert_eq!(help(&case), Help::Helped, "{}: {findings:#?}", case.title);
    }
}
