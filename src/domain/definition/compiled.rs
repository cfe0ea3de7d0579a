//! What a step evaluates, compiled once for each definition.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Branch, Pattern, Step, StepKind, Wait, Workflow};
use crate::{
    body::Body,
    expression::{Expression, Template},
};

/// What one step evaluates.
#[derive(Debug)]
pub struct CompiledStep {
    /// Whether it is entered.
    pub(crate) condition: Option<Expression>,
    /// Whether it is done.
    pub(crate) until: Option<Expression>,
    /// Which arm is taken; `None` for one that always may be.
    pub(crate) arms: Vec<Option<Expression>>,
    /// What it offers, by its output.
    pub(crate) branches: Vec<CompiledBranch>,
    /// What it works on: an object of all texts and values of its kind that may hold expressions.
    pub input: Template,
    /// The list of a `foreach`.
    pub(crate) items: Option<Template>,
    /// What a `foreach` does with each item.
    pub body: Option<Box<CompiledStep>>,
    /// Its hooks, and what takes back its effect.
    pub bodies: BTreeMap<Body, CompiledStep>,
    /// What cannot be compiled: no checked definition has such a thing.
    pub(crate) broken: Option<String>,
}

/// What a branch that a step offers evaluates.
#[derive(Debug)]
pub(crate) struct CompiledBranch {
    pub(crate) pattern: Pattern,
    pub(crate) parameters: Template,
}

/// What a workflow evaluates as a whole.
#[derive(Debug)]
pub struct CompiledWorkflow {
    /// What memory holds at the start.
    pub(crate) memory: Template,
    /// What it comes to.
    pub final_output: Option<Parts>,
    /// Its hooks.
    pub bodies: BTreeMap<Body, CompiledStep>,
}

/// The final output: of a mapping each key by itself, so that a fault in one leaves the others.
#[derive(Debug)]
pub enum Parts {
    /// One template for all of it.
    Whole(Template),
    /// Each key with its template.
    Keys(Vec<(String, Template)>),
}

impl CompiledWorkflow {
    pub(crate) fn of(workflow: &Workflow) -> Self {
        let template = |value: &Value| Template::parse(value).unwrap_or_else(|_| nothing());
        Self {
            memory: template(&Value::Object(workflow.memory.clone())),
            final_output: workflow.final_output.as_ref().map(|value| match value {
                Value::Object(map) if !map.is_empty() => {
                    let parts = map.iter();
                    Parts::Keys(
                        parts
                            .map(|(key, value)| (key.clone(), template(value)))
                            .collect(),
                    )
                }
                value => Parts::Whole(template(value)),
            }),
            bodies: compiled(&workflow.bodies, &[]),
        }
    }
}

fn compiled(bodies: &BTreeMap<Body, Step>, names: &[&str]) -> BTreeMap<Body, CompiledStep> {
    let compiled = bodies.iter();
    compiled
        .map(|(body, step)| (*body, CompiledStep::of(step, names)))
        .collect()
}

/// The template of an empty object.
fn nothing() -> Template {
    Template::parse(&json!({})).expect("an empty object holds no expressions")
}

impl CompiledStep {
    /// The compiled form of a step, or of what a `foreach` does, where `names` are known besides.
    pub(crate) fn of(step: &Step, names: &[&str]) -> Self {
        let mut broken = None;
        let mut expression = |text: &String| {
            if let Ok(expression) = Expression::parse_condition(text, names) {
                Some(expression)
            } else {
                broken = Some(text.clone());
                None
            }
        };
        let condition = step.condition.as_ref().and_then(&mut expression);
        let until = step
            .repeat
            .as_ref()
            .and_then(|repeat| expression(&repeat.until));
        let arms = match &step.kind {
            StepKind::Branch { arms } => arms
                .iter()
                .map(|arm| arm.condition.as_ref().and_then(&mut expression))
                .collect(),
            _ => Vec::new(),
        };
        let mut template = |value: &Value| {
            Template::parse_with(value, names).unwrap_or_else(|_| {
                broken = Some(value.to_string());
                nothing()
            })
        };
        let input = template(&input_texts(step)).with_words(WORDS);
        let mut branch = |branch: &Branch| {
            let parameters = template(&Value::Object(branch.parameters.clone()));
            let pattern = Pattern::parse(&branch.pattern).ok()?;
            Some(CompiledBranch {
                pattern,
                parameters,
            })
        };
        let branches = step.branches.iter().filter_map(&mut branch).collect();
        let (items, body) = match &step.kind {
            StepKind::Foreach {
                items, alias, body, ..
            } => (
                Some(template(items)),
                Some(Box::new(Self::of(body, &[alias]))),
            ),
            _ => (None, None),
        };
        Self {
            condition,
            until,
            arms,
            branches,
            input,
            items,
            body,
            bodies: compiled(&step.bodies, names),
            broken,
        }
    }
}

/// The texts of a step that tell a model, or a person, what to do: what others said cannot pass for a part of them.
const WORDS: &[&str] = &["instructions", "guidance", "ask"];

/// All texts and values of a step that may hold expressions, by what they are.
pub fn input_texts(step: &Step) -> Value {
    let mut input = Map::new();
    let mut put =
        |key: &str, value: Option<Value>| input.extend(value.map(|value| (key.to_owned(), value)));
    put(
        "instructions",
        step.instructions.as_ref().map(|text| json!(text)),
    );
    put("with", step.with.clone().map(Value::Object));
    match &step.kind {
        StepKind::Guidance { text } => put("guidance", Some(json!(text))),
        StepKind::Extract { from, .. } => put("from", Some(json!(from))),
        StepKind::Run { body, .. } => put("body", body.clone()),
        StepKind::Gate { ask, .. } => put("ask", Some(json!(ask))),
        StepKind::Wait(Wait::For(text) | Wait::Until(text) | Wait::Signal(text)) => {
            put("wait", Some(json!(text)));
        }
        StepKind::Set { entries } => put("set", Some(Value::Object(entries.clone()))),
        StepKind::Fail { message, .. } => put("message", Some(json!(message))),
        StepKind::Agent { .. }
        | StepKind::Tool { .. }
        | StepKind::Input { .. }
        | StepKind::Activity { .. }
        | StepKind::Workflow { .. }
        | StepKind::Branch { .. }
        | StepKind::Foreach { .. } => {}
    }
    Value::Object(input)
}
