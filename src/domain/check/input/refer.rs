//! What inputs refer to: other inputs and steps, in templates and in bindings.

use std::collections::BTreeMap;

use super::{
    ArgumentDraft, ArgumentValueDraft, At, Field, Finding, InputDraft, Rule, WorkflowDraft,
};
use crate::{
    domain::{finding::Place, nearest::did_you_mean},
    limits,
};

/// What is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'a> {
    Input(&'a str),
    Step(&'a str),
}

/// A reference, and where it stands.
#[derive(Clone, Copy)]
struct Reference<'a> {
    to: Target<'a>,
    path: &'a str,
    place: Place,
}

/// A finding for each reference that leads nowhere or round in a circle, and for each argument whose reference
/// `depends_on` does not repeat.
pub(super) fn check(found: &mut Vec<Finding>, draft: &WorkflowDraft, inputs: &[InputDraft]) {
    let names: BTreeMap<_, _> = inputs
        .iter()
        .enumerate()
        .map(|(at, input)| (input.key.value.as_str(), at))
        .collect();
    let steps: Vec<_> = draft
        .steps
        .given()
        .into_iter()
        .flat_map(|steps| &steps.value)
        .filter_map(|step| step.id.given().map(|id| id.value.as_str()))
        .collect();
    let mut edges: Vec<Vec<(usize, Reference<'_>)>> = Vec::new();
    for (position, input) in inputs.iter().enumerate() {
        let mut own: Vec<(usize, Reference<'_>)> = Vec::new();
        for reference in all(input) {
            match reference.to {
                Target::Step(id) if steps.contains(&id) => {}
                Target::Step(id) => found.push(unknown_step(&reference, id, &steps)),
                Target::Input(name) => match names.get(name) {
                    None => found.push(unknown_input(&reference, name, input, &names)),
                    Some(&to) if to == position => found.push(itself(&reference, name)),
                    Some(&to) if own.iter().any(|(known, _)| *known == to) => {}
                    Some(&to) => own.push((to, reference)),
                },
            }
        }
        edges.push(own);
        twins(found, input);
    }
    Circles {
        inputs,
        edges: &edges,
        state: vec![Seen::Not; inputs.len()],
        path: Vec::new(),
    }
    .find(found);
}

/// Every reference of an input; those of `depends_on` come first.
fn all(input: &InputDraft) -> impl Iterator<Item = Reference<'_>> {
    let arguments = [&input.depends_on, &input.provider_args];
    let arguments = arguments.into_iter().filter_map(Field::given);
    arguments.flat_map(|list| &list.value).flat_map(references)
}

fn references(argument: &ArgumentDraft) -> Vec<Reference<'_>> {
    match &argument.value {
        ArgumentValueDraft::Broken => Vec::new(),
        ArgumentValueDraft::Text(at) => {
            let at_text = |to| reference(to, at);
            mentioned(&at.value).into_iter().map(at_text).collect()
        }
        ArgumentValueDraft::Binding(binding) => {
            let input = binding.from_input.given();
            let input = input.map(|at| reference(Target::Input(&at.value), at));
            let step = binding.from_step.given();
            let step = step.map(|at| reference(Target::Step(&at.value), at));
            input.into_iter().chain(step).collect()
        }
    }
}

fn reference<'a>(to: Target<'a>, at: &'a At<String>) -> Reference<'a> {
    Reference {
        to,
        path: &at.path,
        place: at.place,
    }
}

/// What the templates of a text name. One that has no end is no template.
fn mentioned(text: &str) -> Vec<Target<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("${{") {
        let Some((template, after)) = after.split_once("}}") else {
            break;
        };
        found.extend(roots(template));
        rest = after;
    }
    found
}

fn roots(template: &str) -> Vec<Target<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let named = |root: &'static str| {
        template.match_indices(root).filter_map(move |(at, _)| {
            let before = template[..at].chars().next_back();
            if before.is_some_and(|c| is_name(c) || c == '.') {
                return None;
            }
            let rest = &template[at + root.len()..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            (end > 0).then(|| &rest[..end])
        })
    };
    let inputs = named("inputs.").map(Target::Input);
    inputs.chain(named("steps.").map(Target::Step)).collect()
}

fn unknown_input(
    reference: &Reference<'_>,
    name: &str,
    own: &InputDraft,
    names: &BTreeMap<&str, usize>,
) -> Finding {
    let others = names.keys().copied();
    let others = others.filter(|name| *name != own.key.value);
    let message = format!("no input is called `{name}`");
    Finding::new(Rule::UnknownInput, reference.path, reference.place, message)
        .suggest(did_you_mean(name, others))
}

fn unknown_step(reference: &Reference<'_>, id: &str, steps: &[&str]) -> Finding {
    let message = format!("no step has the id `{id}`");
    Finding::new(
        Rule::UnknownDependency,
        reference.path,
        reference.place,
        message,
    )
    .suggest(did_you_mean(id, steps.iter().copied()))
}

fn itself(reference: &Reference<'_>, name: &str) -> Finding {
    let message = format!("`{name}` depends on itself");
    Finding::new(
        Rule::SelfDependency,
        reference.path,
        reference.place,
        message,
    )
}

/// What a provider is asked with must be known before: `depends_on` says so, argument by argument.
fn twins(found: &mut Vec<Finding>, input: &InputDraft) {
    let (Field::Given(_), Field::Given(arguments)) = (&input.provider, &input.provider_args) else {
        return;
    };
    let twins = input.depends_on.given().map_or(&[][..], |at| &at.value);
    for argument in &arguments.value {
        let is_twin = |twin: &&ArgumentDraft| {
            twin.key.value == argument.key.value && !references(twin).is_empty()
        };
        if references(argument).is_empty() || twins.iter().any(|twin| is_twin(&twin)) {
            continue;
        }
        let name = &argument.key.value;
        let message =
            format!("`{name}` refers to another input or a step, and `depends_on` does not");
        let hint = match &argument.value {
            ArgumentValueDraft::Text(at) => format!("add `depends_on: {{{name}: {:?}}}`", at.value),
            _ => format!("add `{name}` to `depends_on` as it stands here"),
        };
        found.push(
            Finding::new(
                Rule::MissingDependency,
                &argument.key.path,
                argument.key.place,
                message,
            )
            .suggest(hint),
        );
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Not,
    OnPath,
    Done,
}

/// A search for inputs that wait for each other. It goes as deep as there are inputs, which is not deep
/// ([`limits::INPUTS_DECLARED_MAX`]).
struct Circles<'a> {
    inputs: &'a [InputDraft],
    edges: &'a [Vec<(usize, Reference<'a>)>],
    state: Vec<Seen>,
    path: Vec<usize>,
}

impl Circles<'_> {
    fn find(mut self, found: &mut Vec<Finding>) {
        let findings_max = found.len() + limits::FINDINGS_MAX;
        for position in 0..self.inputs.len() {
            self.visit(found, position, findings_max);
        }
    }

    fn visit(&mut self, found: &mut Vec<Finding>, position: usize, findings_max: usize) {
        if self.state[position] != Seen::Not {
            return;
        }
        self.state[position] = Seen::OnPath;
        self.path.push(position);
        for (to, reference) in &self.edges[position] {
            match self.state[*to] {
                Seen::Not => self.visit(found, *to, findings_max),
                Seen::OnPath if found.len() < findings_max => {
                    found.push(self.circle(*to, reference));
                }
                Seen::OnPath | Seen::Done => {}
            }
        }
        self.path.pop();
        self.state[position] = Seen::Done;
    }

    fn circle(&self, to: usize, reference: &Reference<'_>) -> Finding {
        let from = self.path.iter().position(|at| *at == to).unwrap_or(0);
        let names = self.path[from..].iter().chain([&to]);
        let names: Vec<_> = names
            .map(|at| self.inputs[*at].key.value.as_str())
            .collect();
        let message = format!("these inputs wait for each other: {}", names.join(" → "));
        Finding::new(
            Rule::CyclicDependency,
            reference.path,
            reference.place,
            message,
        )
    }
}
