//! First mistakes in manifests, of the kinds that language models make: each is found at its place, the suggestion names
//! the one thing to write, and an edit that is offered leads to what was meant.
//!
//! A case in `tests/corpus/*.txt` is a title (`=== …`), one line `finds: RULE at PATH says WORDS` for each mistake
//! (`line:N` for a file that cannot be read), the file as it was written and the file as it was meant. `file: json` or
//! `file: md` says what kind of file it is; it is YAML otherwise. Where it does not matter which rule it is, it is `any`.

mod habits;
mod planned;

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use serde_json::json;

use midex_catalog::CatalogSet;
use midex_domain::{
    check::{OperationsSnapshot, ServerCapabilities},
    definition::Workflow,
    error::Edit,
    finding::Finding,
};
use midex_registry::{Registry, Sources, check_text};

use midex_test::{
    Client,
    project::{Project, list},
};

/// What the shipped agents make known to a server without catalogs; every check is against it.
static SHIPPED: LazyLock<Registry> = LazyLock::new(|| {
    let abilities = ServerCapabilities {
        operations: Some(OperationsSnapshot::capture(Arc::new(CatalogSet::default()))),
        ..ServerCapabilities::default()
    };
    Registry::load_with_abilities(&Sources::default(), &abilities)
});

const FILES: &[(&str, &str)] = &[
    ("from-the-design", include_str!("../corpus/from-the-design.txt")),
    ("from-other-systems", include_str!("../corpus/from-other-systems.txt")),
    ("slips", include_str!("../corpus/slips.txt")),
];

/// How often the edits of what is still found are made before a file counts as not mended.
const ROUNDS: usize = 4;

/// A mistake and what it was meant to be.
struct Case {
    title: String,
    file: String,
    mistakes: Vec<Mistake>,
    wrong: String,
    meant: String,
}

/// What must be found.
struct Mistake {
    rule: String,
    at: String,
    says: String,
}

/// What became of a case.
#[derive(Default)]
struct Outcome {
    /// Something is found at the place of every mistake.
    found: bool,
    /// All of it is of the expected rule and names what was meant.
    helpful: bool,
    /// What is found besides the mistakes.
    more: usize,
    /// The edits lead to a sound file.
    mended: bool,
    /// An edit leads elsewhere.
    misled: Option<String>,
}

fn cases() -> Vec<Case> {
    let texts = FILES.iter().flat_map(|(_, text)| text.split("\n=== ").skip(1));
    texts.map(case).collect()
}

fn case(text: &str) -> Case {
    let (head, rest) = text.split_once("\n--- wrong\n").expect("a wrong file");
    let (wrong, meant) = rest.split_once("\n--- meant\n").expect("a file as meant");
    let mut head = head.lines();
    let title = head.next().expect("a title").to_owned();
    let mut case = Case {
        title,
        file: "w.yaml".to_owned(),
        mistakes: Vec::new(),
        wrong: format!("{wrong}\n"),
        meant: format!("{}\n", meant.trim_end()),
    };
    for line in head {
        match line.split_once(": ").expect("a key and a value") {
            ("file", extension) => case.file = format!("w.{extension}"),
            ("finds", words) => case.mistakes.push(mistake(words)),
            _ => panic!("{}: {line}", case.title),
        }
    }
    case
}

fn mistake(words: &str) -> Mistake {
    let (rule, rest) = words.split_once(" at ").expect("a place");
    let (at, says) = rest.split_once(" says ").expect("words");
    Mistake { rule: rule.to_owned(), at: at.to_owned(), says: says.to_owned() }
}

fn checked(file: &str, text: &str) -> (Option<Workflow>, Vec<Finding>) {
    check_text(file, text, &SHIPPED)
}

/// What a file means: the workflow without its text.
fn plan(workflow: Workflow) -> Workflow {
    Workflow { content: String::new(), ..workflow }
}

impl Mistake {
    fn is_at(&self, finding: &Finding) -> bool {
        match self.at.strip_prefix("line:") {
            Some(line) => line == finding.line.to_string(),
            None => self.at == finding.path,
        }
    }

    fn is_told_by(&self, finding: &Finding) -> bool {
        let text = finding.suggestion.as_deref().unwrap_or_default();
        let says = match self.says.strip_prefix('`') {
            // A word in backticks stands as a whole word in what is to be written.
            Some(word) => names(text, word.trim_end_matches('`')),
            None => text.contains(&self.says),
        };
        let is_rule = self.rule == "any" || finding.rule.as_str() == self.rule;
        self.is_at(finding) && is_rule && says
    }
}

fn names(text: &str, word: &str) -> bool {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    { quoted }.any(|quoted| quoted.split(|c| !is_word(c)).any(|one| one == word))
}

impl Case {
    fn outcome(&self) -> Outcome {
        let (_, findings) = checked(&self.file, &self.wrong);
        let any = |test: &dyn Fn(&Mistake, &Finding) -> bool| {
            let told = |mistake| findings.iter().any(|finding| test(mistake, finding));
            self.mistakes.iter().all(told)
        };
        let is_more = |finding: &&Finding| !self.mistakes.iter().any(|one| one.is_at(finding));
        let mut outcome = Outcome {
            found: any(&|mistake, finding| mistake.is_at(finding)),
            helpful: any(&|mistake, finding| mistake.is_told_by(finding)),
            more: findings.iter().filter(is_more).count(),
            ..Outcome::default()
        };
        self.mend(findings, &mut outcome);
        outcome
    }

    /// Makes the edits that are offered until there are none, and looks at what the file means then.
    fn mend(&self, mut findings: Vec<Finding>, outcome: &mut Outcome) {
        let meant = checked(&self.file, &self.meant).0.map(plan);
        for finding in &findings {
            // Also one finding's edits alone lead nowhere else.
            let text = edited(&self.wrong, finding.edits.clone());
            let workflow = checked(&self.file, &text).0.map(plan);
            let is_other = text != self.wrong && workflow.is_some() && workflow != meant;
            outcome.misled = outcome.misled.take().or(is_other.then_some(text));
        }
        let mut text = self.wrong.clone();
        for _ in 0..ROUNDS {
            let edits: Vec<_> = findings.iter().flat_map(|one| one.edits.clone()).collect();
            if edits.is_empty() {
                return;
            }
            text = edited(&text, edits);
            let (workflow, left) = checked(&self.file, &text);
            if let Some(workflow) = workflow {
                outcome.mended = meant == Some(plan(workflow));
                if !outcome.mended {
                    outcome.misled = Some(text);
                }
                return;
            }
            findings = left;
        }
    }
}

/// The text with these edits made, from the last to the first; of two that overlap, the later one.
pub(crate) fn edited(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.start, edit.end));
    edits.dedup();
    let mut text = text.to_owned();
    let mut from = text.len();
    for edit in edits.iter().rev().filter(|edit| edit.start <= edit.end) {
        if edit.end <= from {
            text.replace_range(edit.start..edit.end, &edit.new_text);
            from = edit.start;
        }
    }
    text
}

/// The same over MCP: what is told, and what the edits that it offers come to.
#[test]
#[expect(clippy::print_stdout, reason = "the score is what is measured")]
fn an_author_over_mcp_is_told_the_same_and_mends_with_it() {
    let project = Project::new(&[]);
    let mut server = project.serve();
    let mut validated = |case: &Case, text: &str| {
        let format = match case.file.as_str() {
            "w.md" => "markdown",
            "w.json" => "json",
            _ => "yaml",
        };
        server.done("workflow.validate", json!({ "manifest": text, "format": format }))
    };
    let (mut mended, mut misled) = (0, 0);
    let cases = cases();
    for case in &cases {
        let (mut text, mut rounds) = (case.wrong.clone(), 0);
        let (_, findings) = checked(&case.file, &text);
        let mut told = validated(case, &text);
        let all: Vec<_> =
            [&told["warnings"], &told["violations"]].into_iter().flat_map(list).collect();
        assert_eq!(all.len(), findings.len(), "{}: {told}", case.title);
        for finding in &findings {
            assert!(all.contains(&json!(finding)), "{}: {finding:?}", case.title);
        }
        while (told["valid"] == false || rounds == 0) && rounds < ROUNDS {
            let all = [&told["warnings"], &told["violations"]].into_iter().flat_map(list);
            let all: Vec<_> = all.collect();
            let edits = all.iter().filter_map(|one| one.get("suggestion"));
            let edits = edits.flat_map(|one| list(&one["edits"]));
            let edits: Vec<Edit> =
                edits.map(|edit| serde_json::from_value(edit).unwrap()).collect();
            if edits.is_empty() {
                break;
            }
            text = edited(&text, edits);
            told = validated(case, &text);
            rounds += 1;
        }
        if told["valid"] == true {
            let as_meant = checked(&case.file, &text).0.map(plan)
                == checked(&case.file, &case.meant).0.map(plan);
            mended += usize::from(as_meant);
            misled += usize::from(!as_meant);
        }
    }
    let all = cases.len();
    println!(
        "{all} wrong manifests over MCP: {mended} mended by all edits as they were meant, {misled} otherwise"
    );
    assert!(all >= 100 && mended >= 60 && misled == 0, "{all} {mended} {misled}");
}

#[test]
fn what_was_meant_is_sound() {
    assert_sound(cases());
}

/// Asserts that what the authors of these cases meant has no findings.
#[track_caller]
fn assert_sound(cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        let (workflow, findings) = checked(&case.file, &case.meant);
        assert!(workflow.is_some() && findings.is_empty(), "{}: {findings:#?}", case.title);
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the score is what is measured")]
fn first_mistakes_are_found_told_and_mended() {
    let cases = cases();
    let mut lines = String::new();
    let (mut found, mut helpful, mut mended, mut more, mut misled) = (0, 0, 0, 0, 0);
    for case in &cases {
        let outcome = case.outcome();
        found += usize::from(outcome.found);
        helpful += usize::from(outcome.helpful);
        mended += usize::from(outcome.mended);
        misled += usize::from(outcome.misled.is_some());
        more += outcome.more;
        let mark = |yes, letter| if yes { letter } else { '-' };
        let marks =
            [mark(outcome.found, 'F'), mark(outcome.helpful, 'H'), mark(outcome.mended, 'M')];
        let marks = String::from_iter(marks);
        writeln!(lines, "{marks} +{} {}", outcome.more, case.title).expect("a text");
        if let Some(text) = outcome.misled.as_ref() {
            writeln!(lines, "    misled to:\n{text}").expect("a text");
        }
        if !outcome.helpful || outcome.more > 0 {
            for finding in checked(&case.file, &case.wrong).1 {
                writeln!(
                    lines,
                    "    {}:{} {} {}: {} ({})",
                    finding.line,
                    finding.column,
                    finding.rule,
                    finding.path,
                    finding.message,
                    finding.suggestion.unwrap_or_default()
                )
                .expect("a text");
            }
        }
    }
    let all = cases.len();
    println!("{lines}");
    println!(
        "{all} wrong manifests: {found} found at their places, {helpful} told the one helpful thing, {mended} mended by \
         edits, {misled} misled, {more} findings beyond the mistakes"
    );
    assert!(all >= 60, "{all}");
    assert_eq!((found, misled, more), (all, 0, 0), "{lines}");
    assert!(helpful >= 80 && mended >= 70, "{lines}");
}
