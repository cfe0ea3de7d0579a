//! Paths into the answer of a `run` step, against the schema that the document of its catalog has for it. Documents say less
//! than services answer, so this only warns, and a path is missing only where every alternative is without it.

use serde_json::Value;

use super::super::{
    draft::StepDraft,
    expression::{Reference, Segment},
    finding::{Finding, Rule},
    schema::{composing, meant, members, referred, types},
};
use super::{
    commands::{Callable, first_of},
    site::Site,
};
use crate::limits;

/// What a document says of a path into an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answer<'a> {
    /// It may be there.
    Possible,
    /// The name at this place of the path is not there; those that are.
    Missing(usize, Vec<&'a str>),
    /// A list stands before this place of the path, where no index does.
    NoIndex(usize),
    /// It leads to one of these schemas.
    At(Vec<&'a Value>),
}

impl<'a> Answer<'a> {
    /// What is known of a path into the answer of an operation, where `is_gathered` says that its pages are gathered into one
    /// list. Nothing where its document has no schema of the answer.
    pub(super) fn new(callable: &'a Callable, is_gathered: bool, path: &[Segment]) -> Option<Self> {
        let output = callable.output.as_ref()?;
        let mut walk = Walk::of(output);
        Some(match (is_gathered, path) {
            (false, path) => walk.follow(vec![output], path, 0),
            (true, []) => Self::Possible,
            (true, [first, rest @ ..]) => match (walk.listed(callable), first) {
                (None, _) => Self::Possible,
                (Some(_), Segment::Key(_)) => Self::NoIndex(0),
                (Some(item), Segment::Index(_)) => walk.follow(vec![item], rest, 1),
            },
        })
    }
}

/// What one schema says of one segment.
enum Step<'a> {
    /// Nothing.
    Silent,
    /// Whatever is asked for may be there.
    Open,
    Next(Vec<&'a Value>),
    NoIndex,
    Missing(Vec<&'a str>),
}

/// A walk through a schema that stands alone: what it refers to stands in its own `$defs`.
pub(super) struct Walk<'a> {
    whole: &'a Value,
    /// How many schemas may still be looked at: alternatives within alternatives grow fast.
    left: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn of(whole: &'a Value) -> Self {
        Self {
            whole,
            left: limits::ANSWER_SCHEMAS_WALKED_MAX,
        }
    }

    /// Counts one more schema, where it may still be looked at.
    fn may_look(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    /// Follows a path from any of these schemas.
    pub(super) fn follow(
        &mut self,
        from: Vec<&'a Value>,
        path: &[Segment],
        done: usize,
    ) -> Answer<'a> {
        let mut at = from;
        for (place, segment) in path.iter().enumerate() {
            let steps = at.into_iter().map(|schema| self.step(schema, segment));
            match any(steps.collect()) {
                Step::Silent | Step::Open => return Answer::Possible,
                Step::Next(next) => at = next,
                Step::NoIndex => return Answer::NoIndex(done + place),
                Step::Missing(known) => return Answer::Missing(done + place, known),
            }
        }
        Answer::At(at)
    }

    /// What a schema says of a segment: of all its parts together, one of which may be a choice.
    fn step(&mut self, schema: &'a Value, segment: &Segment) -> Step<'a> {
        if !self.may_look() {
            return Step::Open;
        }
        let mut said = vec![own(schema, segment)];
        let parts = members(schema, "allOf");
        for part in referred(schema, self.whole).into_iter().chain(parts) {
            said.push(self.step(part, segment));
        }
        for choice in ["anyOf", "oneOf"] {
            let choices = members(schema, choice);
            if !choices.is_empty() {
                let steps = choices.iter().map(|one| self.step(one, segment));
                said.push(any(steps.collect()));
            }
        }
        all(said)
    }

    /// What the list in an answer has: the one that the document is known for, else the answer itself or its only list. So
    /// pages are gathered, too.
    pub(super) fn listed(&mut self, callable: &'a Callable) -> Option<&'a Value> {
        let answer = callable.output.as_ref()?;
        let path = callable.items_path.as_deref();
        let said = path.and_then(|path| self.at(answer, path)?.get("items"));
        said.or_else(|| self.only_list(answer))
    }

    fn only_list(&self, answer: &'a Value) -> Option<&'a Value> {
        let answer = meant(answer, self.whole);
        if let Some(items) = answer.get("items") {
            return Some(items);
        }
        let properties = answer.get("properties")?.as_object()?.values();
        let mut lists = properties.filter_map(|value| meant(value, self.whole).get("items"));
        lists.next().filter(|_| lists.next().is_none())
    }

    /// The schema at a path of names with dots between them; nothing for the whole.
    fn at(&mut self, schema: &'a Value, dotted: &str) -> Option<&'a Value> {
        let mut names = dotted.split('.').filter(|name| !name.is_empty());
        let at = names.try_fold(schema, |at, name| {
            let mut properties = self.properties(at).into_iter();
            let found = properties.find(|(known, _)| *known == name);
            found.map(|(_, value)| value)
        });
        at.map(|at| meant(at, self.whole))
    }

    /// The names of the properties of a schema, its parts and alternatives included, each with its schema.
    pub(super) fn properties(&mut self, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
        if !self.may_look() {
            return Vec::new();
        }
        let own = schema.get("properties").and_then(Value::as_object);
        let own = own.into_iter().flatten();
        let mut found: Vec<_> = own.map(|(name, value)| (name.as_str(), value)).collect();
        for part in composing(schema, self.whole) {
            found.extend(self.properties(part));
        }
        found
    }

    /// The types that a value may have beside null; nothing where it may be anything.
    pub(super) fn types(&mut self, schema: &'a Value) -> Vec<&'a str> {
        if !self.may_look() {
            return Vec::new();
        }
        let own = types(schema);
        if !own.is_empty() {
            return own;
        }
        let parts = composing(schema, self.whole);
        parts.flat_map(|part| self.types(part)).collect()
    }
}

/// What a schema itself says of a segment, without what it refers to.
fn own<'a>(schema: &'a Value, segment: &Segment) -> Step<'a> {
    let key = segment.key();
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_null = schema.get("type").is_some_and(|name| name == "null");
    match (types(schema).as_slice(), schema.get("items")) {
        ([], _) if is_null => Step::Missing(Vec::new()),
        ([], None) if properties.is_none() => Step::Silent,
        (["array"], items) | ([], items @ Some(_)) if properties.is_none() => match segment {
            Segment::Index(_) => items.map_or(Step::Open, |items| Step::Next(vec![items])),
            Segment::Key(_) => Step::NoIndex,
        },
        ([] | ["object"], _) => match properties.and_then(|all| all.get(&*key)) {
            Some(property) => Step::Next(vec![property]),
            None => undeclared(schema),
        },
        ([_], _) => Step::Missing(Vec::new()),
        _ => Step::Open,
    }
}

/// What an object says of a property that it does not declare. Where it declares some and is silent about others, there are
/// none: hardly a document says that it is closed.
fn undeclared(schema: &Value) -> Step<'_> {
    let properties = schema.get("properties").and_then(Value::as_object);
    match (schema.get("additionalProperties"), properties) {
        _ if schema.get("patternProperties").is_some() => Step::Open,
        (None | Some(Value::Bool(false)), Some(properties)) if !properties.is_empty() => {
            Step::Missing(properties.keys().map(String::as_str).collect())
        }
        (Some(others @ Value::Object(_)), _) => Step::Next(vec![others]),
        (None, _) => Step::Silent,
        _ => Step::Open,
    }
}

/// What alternatives say: the path is there where one has it, and may be where one says nothing.
fn any(said: Vec<Step<'_>>) -> Step<'_> {
    let (mut next, mut known, mut is_list) = (Vec::new(), Vec::new(), false);
    for step in said {
        match step {
            Step::Silent | Step::Open => return Step::Open,
            Step::Next(more) => next.extend(more),
            Step::Missing(more) => known.extend(more),
            Step::NoIndex => is_list = true,
        }
    }
    match (next.is_empty(), is_list) {
        (false, _) => Step::Next(next),
        (true, true) => Step::NoIndex,
        (true, false) => Step::Missing(known),
    }
}

/// What the parts of one schema say together: what one of them declares is there, whatever the others do not declare.
fn all(said: Vec<Step<'_>>) -> Step<'_> {
    let said: Vec<_> = said
        .into_iter()
        .filter(|step| !matches!(step, Step::Silent))
        .collect();
    let is_open = |step: &Step<'_>| matches!(step, Step::Open);
    let has_next = said.iter().any(|step| matches!(step, Step::Next(_)));
    if said.is_empty() {
        Step::Silent
    } else if !has_next && said.iter().any(is_open) {
        Step::Open
    } else {
        any(said.into_iter().filter(|step| !is_open(step)).collect())
    }
}

/// The warning for a path that the document does not have.
pub(super) fn finding(
    site: &Site<'_>,
    reference: &Reference,
    step: &StepDraft,
    answer: &Answer<'_>,
) -> Option<Finding> {
    let called = step.field("run")?.value.text()?;
    match answer {
        Answer::Possible | Answer::At(_) => None,
        // Who says what stands in for it knows that it may be missing.
        Answer::Missing(..) if reference.is_guarded => None,
        Answer::Missing(place, known) => {
            let name = inside(reference, step, *place)?.key().into_owned();
            let message = format!(
                "`{reference}` is hardly there: the document names no `{name}` in the answer of `{called}`"
            );
            let rule = Rule::StepTemplateOutputPathMissing;
            let hint = match known.as_slice() {
                [] => "nothing stands below it there".to_owned(),
                known => format!("there are {}", first_of(known)),
            };
            let finding = site.about(rule, reference, message).suggest(hint);
            Some(site.meant(&[], finding, reference, &name, known.iter().copied()))
        }
        Answer::NoIndex(place) => {
            let name = inside(reference, step, *place)?.key().into_owned();
            let message = format!(
                "`{reference}` leads through a list: `{called}` answers several, each of which may have `{name}`"
            );
            let rule = Rule::StepTemplateArrayOutputMissingIndex;
            let finding = site.about(rule, reference, message);
            let is_list = *place == 0 && step.field("paginate").is_some();
            let hint = match &step.id {
                Some(id) if is_list => format!(
                    "with `paginate` the output is the list of all items: write `steps.{}`",
                    id.value
                ),
                _ => format!(
                    "say which one is meant: `[0].{name}`, or go through all with `foreach`"
                ),
            };
            Some(finding.suggest(hint))
        }
    }
}

/// The segment at a place of the path inside the answer.
fn inside<'r>(reference: &'r Reference, step: &StepDraft, place: usize) -> Option<&'r Segment> {
    // The id of the step comes first, and of a `foreach` the index of an item.
    let before = if step.id.is_some() { 1 } else { 2 };
    reference.path.get(before + place)
}
