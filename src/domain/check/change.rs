//! Warnings of steps that change something in the world: nobody is asked before them, or nothing is looked at before them.
//! Of an operation its class in the catalog counts, so what the user changed there counts too.

use std::collections::BTreeSet;

use super::{
    super::{
        class::Class,
        draft::{RawField, StepDraft},
        finding::{Finding, Rule},
    },
    Abilities,
    commands::Calls,
    flow::Flow,
};

/// A step that changes something, or what a `foreach` does.
struct Change<'a> {
    position: usize,
    /// Its kind.
    field: &'a RawField,
    class: Class,
    /// The steps that may have been done before it.
    earlier: BTreeSet<usize>,
}

/// Warns of changes that no gate precedes, and of a first call that changes something unseen.
pub(super) fn check(
    found: &mut Vec<Finding>,
    steps: &[StepDraft],
    (calls, abilities): (&Calls, &Abilities),
    flow: &Flow<'_>,
) {
    let changing = steps.iter().enumerate().flat_map(|(position, step)| {
        let bodies = step.bodies();
        let class = |body| changing(body, calls, abilities);
        bodies.filter_map(move |body| class(body).map(|(field, class)| (position, field, class)))
    });
    let changes: Vec<_> = changing
        .map(|(position, field, class)| Change {
            position,
            field,
            class,
            earlier: flow.earlier(position),
        })
        .collect();
    without_gate(found, steps, &changes);
    before_look(found, steps, calls, &changes);
}

/// What a step changes with, and how much; nothing where it only reads, or nobody knows.
fn changing<'a>(
    step: &'a StepDraft,
    calls: &Calls,
    abilities: &Abilities,
) -> Option<(&'a RawField, Class)> {
    if let Some(field) = step.field("run") {
        let class = calls.of(step)?.class;
        return (class > Class::Safe).then_some((field, class));
    }
    let field = step.field("activity")?;
    let is_known = abilities.activities.contains(field.value.text()?);
    let may_repeat = step.read("idempotent") == Some(true);
    (is_known && !may_repeat).then_some((field, Class::Standard))
}

fn has(step: &StepDraft, kind: &str) -> bool {
    step.bodies().any(|body| body.field(kind).is_some())
}

/// One gate helps all that follow it, so a step is not told of after one that was told of and changes as much.
fn without_gate(found: &mut Vec<Finding>, steps: &[StepDraft], changes: &[Change<'_>]) {
    let mut told: Vec<&Change<'_>> = Vec::new();
    for change in changes {
        let is_asked = change.earlier.iter().any(|at| has(&steps[*at], "gate"));
        let is_told = told
            .iter()
            .any(|one| one.class >= change.class && change.earlier.contains(&one.position));
        if !is_asked && !is_told {
            told.push(change);
            found.push(change.unasked());
        }
    }
}

impl Change<'_> {
    fn unasked(&self) -> Finding {
        let name = self.field.value.text().unwrap_or_default();
        let (does, hint) = match (self.field.key.name, self.class) {
            ("run", Class::Destructive) => ("takes something away", ASK),
            ("run", _) => ("changes something", ASK),
            _ => ("may not be done twice", ASK_OR_REPEAT),
        };
        let message = format!("`{name}` {does}, and no `gate` comes before it");
        let finding = self.field.value_finding(Rule::MutationWithoutGate, message);
        finding.suggest(hint.to_owned())
    }
}

const ASK: &str = "put a step before it that a person answers: `gate: May this be done?`";
const ASK_OR_REPEAT: &str = "put a step before it that a person answers, `gate: May this be done?`, or write `idempotent: true` where doing it twice is doing it once";

/// Told once, of the first change. A workflow of one call is that call: whoever starts it has looked. Where a call before it
/// is of an operation that is not known, it may be the look.
fn before_look(
    found: &mut Vec<Finding>,
    steps: &[StepDraft],
    calls: &Calls,
    changes: &[Change<'_>],
) {
    let running = |step: &StepDraft| {
        step.bodies()
            .filter(|body| body.field("run").is_some())
            .count()
    };
    let changes = || {
        changes
            .iter()
            .filter(|change| change.field.key.name == "run")
    };
    let is_first =
        |change: &&Change<'_>| changes().all(|other| !change.earlier.contains(&other.position));
    let Some(first) = changes().find(is_first) else {
        return;
    };
    let mut before = first.earlier.iter().flat_map(|at| steps[*at].bodies());
    let may_look = |step: &StepDraft| {
        step.field("run").is_some()
            && calls
                .of(step)
                .is_none_or(|callable| callable.class == Class::Safe)
    };
    if steps.iter().map(running).sum::<usize>() < 2 || before.any(may_look) {
        return;
    }
    let name = first.field.value.text().unwrap_or_default();
    let message = format!(
        "`{name}` is the first call that changes something, and no call before it looks at what is there"
    );
    let hint = "begin with a `run` step whose operation only reads: where it fails, nothing has been changed yet";
    let rule = Rule::WorkflowMutationBeforePreflight;
    found.push(
        first
            .field
            .value_finding(rule, message)
            .suggest(hint.to_owned()),
    );
}
