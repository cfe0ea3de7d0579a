//! The expressions of a manifest: whether they can be read, and whether what they refer to can be there. A reference to a
//! step that might run beside this one makes this one wait for it.

use std::borrow::Cow;

use serde_json::Value;

use super::super::{
    draft::{Said, StepDraft, WorkflowDraft},
    expression::{Expression, ExpressionFault, FaultKind, Reference, Root, Template},
    finding::{Finding, Place, Rule},
    grammar::{self, Record, Shape, is_template},
    node::{Content, Node},
};
use super::flow::Flow;

/// A text that holds expressions, or is one.
struct Site<'a> {
    text: &'a str,
    path: String,
    place: Place,
    is_condition: bool,
}

/// Whose expression it is, and with it what it can see.
#[derive(Clone, Copy)]
struct Scope<'a> {
    owner: Owner,
    /// What an item is called, inside a `foreach`.
    alias: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq)]
enum Owner {
    /// What memory begins with, before any step.
    Memory,
    /// What the workflow comes to, after all steps.
    End,
    /// The step at this position, which sees itself as it says.
    Step(usize, Own),
}

/// How a step's expression sees the step's own output.
#[derive(Clone, Copy, PartialEq)]
enum Own {
    /// Not at all: it decides whether there will be one.
    Never,
    /// From an earlier visit.
    Before,
    /// From the latest attempt.
    Latest,
}

/// Checks all expressions of the draft, whose steps are these. References become dependencies where they must.
pub(super) fn check(
    found: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    steps: &[StepDraft],
    flow: &mut Flow<'_>,
) {
    let inputs = declared_inputs(draft);
    let mut checker = Checker {
        found,
        flow,
        inputs,
    };
    for said in &draft.said {
        let owner = match said.key {
            "memory" => Owner::Memory,
            _ => Owner::End,
        };
        if let Some(key) = grammar::WORKFLOW.iter().find(|key| key.name == said.key) {
            checker.said(said, &key.shape, Scope { owner, alias: None });
        }
    }
    for (position, step) in steps.iter().enumerate() {
        checker.step(position, step, None);
        if let Some(each) = &step.each {
            let foreach = step.said("foreach").map(|said| &said.value);
            let alias = foreach.and_then(|node| node.get("as")?.text());
            checker.step(position, each, Some(alias.unwrap_or(grammar::ALIAS)));
        }
    }
}

/// The names of the inputs, where the draft declares any.
fn declared_inputs(draft: &WorkflowDraft) -> Option<Vec<&str>> {
    let inputs = draft.inputs.given()?;
    let names = inputs.value.iter().map(|input| input.key.value.as_str());
    Some(names.collect())
}

struct Checker<'f, 'a, 'd> {
    found: &'f mut Vec<Finding>,
    flow: &'f mut Flow<'a>,
    inputs: Option<Vec<&'d str>>,
}

impl Checker<'_, '_, '_> {
    fn step(&mut self, position: usize, step: &StepDraft, alias: Option<&str>) {
        for said in &step.said {
            let own = match said.key {
                "if" | "when" => Own::Never,
                "repeat" => Own::Latest,
                _ => Own::Before,
            };
            let owner = Owner::Step(position, own);
            let kind = grammar::kind_of(said.key).map(|kind| &kind.key.shape);
            let field = grammar::field_of(said.key).map(|field| &field.key.shape);
            if let Some(shape) = kind.or(field) {
                self.said(said, shape, Scope { owner, alias });
            }
        }
    }

    fn said(&mut self, said: &Said, shape: &Shape, scope: Scope<'_>) {
        let mut sites = Vec::new();
        collect(&mut sites, &said.value, &said.path, shape);
        for site in sites {
            self.site(&site, scope);
        }
    }

    fn site(&mut self, site: &Site<'_>, scope: Scope<'_>) {
        let names: Vec<&str> = scope.alias.into_iter().collect();
        match references(site, &names) {
            Ok(references) => {
                for reference in &references {
                    self.reference(site, scope, reference);
                }
            }
            Err(faults) => self
                .found
                .extend(faults.iter().map(|fault| told(site, fault))),
        }
    }

    fn reference(&mut self, site: &Site<'_>, scope: Scope<'_>, reference: &Reference) {
        match reference.root {
            Root::Item | Root::Index if scope.alias.is_none() => {
                let message = format!("`{reference}` is only there in what a `foreach` does");
                self.found
                    .push(site.about(Rule::UnknownReference, reference, message));
            }
            Root::Inputs => self.input(site, reference),
            Root::Steps => {
                if let Some(id) = reference.step() {
                    self.output(site, scope, reference, &id);
                }
            }
            _ => {}
        }
    }

    fn input(&mut self, site: &Site<'_>, reference: &Reference) {
        let Some(name) = first(reference) else { return };
        let Some(known) = self
            .inputs
            .as_ref()
            .filter(|known| !known.contains(&&*name))
        else {
            return;
        };
        let message = format!("no input is called `{name}`");
        let finding = site.about(Rule::UnknownReference, reference, message);
        self.found
            .push(site.meant(finding, reference, &name, known.iter().copied()));
    }

    fn output(&mut self, site: &Site<'_>, scope: Scope<'_>, reference: &Reference, id: &str) {
        let Some(first) = self.flow.position(id) else {
            let message = format!("no step has the id `{id}`");
            let finding = site.about(Rule::UnknownReference, reference, message);
            self.found
                .push(site.meant(finding, reference, id, self.flow.ids()));
            return;
        };
        match scope.owner {
            Owner::End => {}
            Owner::Memory => {
                let message = format!("`{id}` cannot have been done when memory begins");
                self.found
                    .push(site.about(Rule::ReferenceTooEarly, reference, message));
            }
            Owner::Step(position, own) => self.precede(site, reference, (first, position), own),
        }
    }

    /// Sees to it that the step at `first` can have been done when the one at `position` needs its output.
    fn precede(
        &mut self,
        site: &Site<'_>,
        reference: &Reference,
        (first, position): (usize, usize),
        own: Own,
    ) {
        let leads = match own {
            Own::Latest if first == position => true,
            Own::Never if first == position => false,
            _ => self.flow.leads(first, position),
        };
        if leads {
            return;
        }
        if first != position && !self.flow.leads(position, first) {
            self.flow.add(first, position);
            return;
        }
        let (first, then) = (self.flow.id(first), self.flow.id(position));
        let message = if first == then {
            format!("`{first}` has no output yet where this is asked")
        } else {
            format!("`{first}` cannot have been done when `{then}` is entered: it comes after it")
        };
        self.found
            .push(site.about(Rule::ReferenceTooEarly, reference, message));
    }
}

impl Site<'_> {
    fn about(&self, rule: Rule, reference: &Reference, message: String) -> Finding {
        Finding::new(rule, &self.path, self.place, message).within(
            self.place,
            self.text,
            reference.offset,
            reference.length,
        )
    }

    /// Suggests the nearest of `known` for `name`, which stands in the reference.
    fn meant<'k>(
        &self,
        finding: Finding,
        reference: &Reference,
        name: &str,
        known: impl Iterator<Item = &'k str>,
    ) -> Finding {
        let Some(near) = super::super::nearest::nearest(name, known) else {
            return finding;
        };
        let finding = finding.suggest(format!("did you mean `{near}`?"));
        let root = reference.root.word().len();
        let from = reference.offset + root;
        let rest = self.text.get(from..reference.offset + reference.length);
        match rest.and_then(|rest| rest.find(name)) {
            Some(at) => {
                finding.replace_within(self.place, self.text, (from + at, name.len()), near)
            }
            None => finding,
        }
    }
}

/// The first name of a path.
fn first(reference: &Reference) -> Option<Cow<'_, str>> {
    let text = reference.path.first()?.to_string();
    Some(Cow::Owned(text.trim_start_matches('.').to_owned()))
}

fn references(site: &Site<'_>, names: &[&str]) -> Result<Vec<Reference>, Vec<ExpressionFault>> {
    if site.is_condition {
        let expression = Expression::parse_condition(site.text, names)?;
        return Ok(expression.references().to_vec());
    }
    let template = Template::parse_with(&Value::String(site.text.to_owned()), names);
    template
        .map(|template| template.references().to_vec())
        .map_err(|faults| faults.into_iter().map(|fault| fault.fault).collect())
}

/// What is wrong with the text of an expression, as a finding.
fn told(site: &Site<'_>, fault: &ExpressionFault) -> Finding {
    let rule = match fault.kind {
        FaultKind::UnknownName => Rule::UnknownReference,
        FaultKind::Limit => Rule::LimitExceeded,
        _ => Rule::IllFormedExpression,
    };
    let finding = Finding::new(rule, &site.path, site.place, fault.message.as_str())
        .suggest(fault.suggestion.clone())
        .within(site.place, site.text, fault.offset, fault.length);
    match &fault.edit {
        Some(edit) => {
            let part = (edit.start, edit.end.saturating_sub(edit.start));
            finding.replace_within(site.place, site.text, part, &edit.replacement)
        }
        None => finding,
    }
}

/// Adds every text of `node` that holds expressions.
fn collect<'a>(sites: &mut Vec<Site<'a>>, node: &'a Node, path: &str, shape: &Shape) {
    match shape {
        Shape::Condition => site(sites, node, path, true),
        Shape::Template(_) | Shape::SpanOrTemplate | Shape::InstantOrTemplate => {
            site(sites, node, path, false);
        }
        Shape::Value | Shape::Values | Shape::Memory(_) | Shape::Items => deep(sites, node, path),
        Shape::List(of, ..) => {
            for (at, item) in node.items().unwrap_or_default().iter().enumerate() {
                collect(sites, item, &format!("{path}[{at}]"), of);
            }
        }
        Shape::Record(record) => fields(sites, node, path, record),
        Shape::TextOr(record) => match (&node.content, record.keys.first()) {
            (Content::Text(_), Some(first)) => collect(sites, node, path, &first.shape),
            _ => fields(sites, node, path, record),
        },
        _ => {}
    }
}

fn fields<'a>(sites: &mut Vec<Site<'a>>, node: &'a Node, path: &str, record: &Record) {
    for key in record.keys {
        if let Some(value) = node.get(key.name) {
            collect(sites, value, &format!("{path}.{}", key.name), &key.shape);
        }
    }
}

fn site<'a>(sites: &mut Vec<Site<'a>>, node: &'a Node, path: &str, is_condition: bool) {
    let text = node.text().filter(|text| !text.trim().is_empty());
    let text = text.filter(|text| is_condition || is_template(text));
    sites.extend(text.map(|text| Site {
        text,
        path: path.to_owned(),
        place: node.place,
        is_condition,
    }));
}

fn deep<'a>(sites: &mut Vec<Site<'a>>, node: &'a Node, path: &str) {
    match &node.content {
        Content::Text(_) => site(sites, node, path, false),
        Content::List(items) => {
            for (at, item) in items.iter().enumerate() {
                deep(sites, item, &format!("{path}[{at}]"));
            }
        }
        Content::Map(entries) => {
            for entry in entries {
                deep(sites, &entry.value, &format!("{path}.{}", entry.key));
            }
        }
        _ => {}
    }
}
