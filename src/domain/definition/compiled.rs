//! The expressions and templates of a workflow, compiled once for each definition.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{BranchOffer, JoinRule, OutputPattern, Step, StepKind, WaitTrigger, Workflow};
use crate::{
    body::BodyKind,
    expression::{Expression, Template},
    orchestrator::without_state_property,
    schema::Schema,
};

/// The compiled expressions and templates of one step.
#[derive(Debug)]
pub struct CompiledStep {
    /// The condition for entering the step (`if`).
    pub(crate) condition: Option<Expression>,
    /// The title of a visit.
    pub(crate) title: Option<Template>,
    /// The number in `join: quorum(…)`, if an expression yields it.
    pub(crate) quorum: Option<Template>,
    /// `enough` and `tolerate` of a `foreach`, as an object of those that it has.
    pub(crate) thresholds: Option<Template>,
    /// The exit condition of its loop (`repeat.until`).
    pub(crate) until: Option<Expression>,
    /// The conditions of the arms of a `branch`; `None` for an arm that is always taken.
    pub(crate) arms: Vec<Option<Expression>>,
    /// The branches that the step offers, in authoring order.
    pub(crate) branches: Vec<CompiledBranch>,
    /// The template of the input: an object of all texts and values of the step that may hold expressions, see
    /// [`collect_expression_texts`].
    pub input: Template,
    /// The schema that the rendered `with` must satisfy, without the state that an orchestrator adds.
    pub(crate) input_schema: Option<Schema>,
    /// The list of a `foreach`.
    pub(crate) items: Option<Template>,
    /// The body of a `foreach`.
    pub body: Option<Box<CompiledStep>>,
    /// The hooks and the compensation.
    pub bodies: BTreeMap<BodyKind, CompiledStep>,
    /// The last text that did not compile; always `None` in a checked definition.
    pub(crate) invalid_expression: Option<String>,
}

/// The compiled form of a branch that a step offers.
#[derive(Debug)]
pub(crate) struct CompiledBranch {
    pub(crate) pattern: OutputPattern,
    pub(crate) parameters: Template,
}

/// The compiled expressions and templates of a workflow as a whole.
#[derive(Debug)]
pub struct CompiledWorkflow {
    /// The template of the initial memory.
    pub(crate) memory: Template,
    /// The final output.
    pub final_output: Option<CompiledOutput>,
    /// Its hooks.
    pub bodies: BTreeMap<BodyKind, CompiledStep>,
}

/// The compiled final output. Each key of a mapping is a separate template, so that a fault in one key leaves the
/// others intact.
#[derive(Debug)]
pub enum CompiledOutput {
    /// One template for all of it.
    Whole(Template),
    /// Each key with its template.
    Keys(Vec<(String, Template)>),
}

impl CompiledWorkflow {
    pub(crate) fn compile(workflow: &Workflow) -> Self {
        let template =
            |value: &Value| Template::parse(value).unwrap_or_else(|_| empty_object_template());
        Self {
            memory: template(&Value::Object(workflow.memory.clone())),
            final_output: workflow.final_output.as_ref().map(|value| match value {
                Value::Object(map) if !map.is_empty() => {
                    let parts = map.iter();
                    CompiledOutput::Keys(
                        parts.map(|(key, value)| (key.clone(), template(value))).collect(),
                    )
                }
                value => CompiledOutput::Whole(template(value)),
            }),
            bodies: compile_bodies(&workflow.bodies, &[]),
        }
    }
}

fn compile_bodies(
    bodies: &BTreeMap<BodyKind, Step>,
    names: &[&str],
) -> BTreeMap<BodyKind, CompiledStep> {
    let compiled = bodies.iter();
    compiled.map(|(body, step)| (*body, CompiledStep::compile(step, names))).collect()
}

/// The template of an empty object.
fn empty_object_template() -> Template {
    Template::parse(&json!({})).expect("an empty object holds no expressions")
}

impl CompiledStep {
    /// Compiles a step, or the body of a `foreach`. `names` are the additional variables in scope, such as the alias of
    /// the item.
    pub(crate) fn compile(step: &Step, names: &[&str]) -> Self {
        let mut invalid_expression = None;
        let mut expression = |text: &String| {
            if let Ok(expression) = Expression::parse_condition(text, names) {
                Some(expression)
            } else {
                invalid_expression = Some(text.clone());
                None
            }
        };
        let condition = step.condition.as_ref().and_then(&mut expression);
        let until = step.repeat.as_ref().and_then(|repeat| expression(&repeat.until));
        let arms = match &step.kind {
            StepKind::Branch { arms } => {
                arms.iter().map(|arm| arm.condition.as_ref().and_then(&mut expression)).collect()
            }
            _ => Vec::new(),
        };
        let mut template = |value: &Value| {
            Template::parse_with(value, names).unwrap_or_else(|_| {
                invalid_expression = Some(value.to_string());
                empty_object_template()
            })
        };
        let input = template(&collect_expression_texts(step)).mark_instruction_keys(PROSE_KEYS);
        let mut branch = |branch: &BranchOffer| {
            let parameters = template(&Value::Object(branch.parameters.clone()));
            let pattern = OutputPattern::parse(&branch.pattern).ok()?;
            Some(CompiledBranch { pattern, parameters })
        };
        let branches = step.branches.iter().filter_map(&mut branch).collect();
        let title = step.title.as_ref().map(|text| template(&json!(text)));
        let quorum = match &step.join {
            JoinRule::QuorumOf(text) => Some(template(&json!(text))),
            JoinRule::All | JoinRule::Quorum(_) => None,
        };
        let thresholds = step.declared_thresholds().map(|thresholds| template(&thresholds));
        let (items, body) = match &step.kind {
            StepKind::Foreach { items, alias, body, .. } => {
                (Some(template(items)), Some(Box::new(Self::compile(body, &[alias]))))
            }
            _ => (None, None),
        };
        Self {
            condition,
            title,
            quorum,
            thresholds,
            until,
            arms,
            branches,
            input,
            // The check of the file has compiled it.
            input_schema: step
                .input_schema
                .as_ref()
                .and_then(|schema| Schema::compile(&without_state_property(schema)).ok()),
            items,
            body,
            bodies: compile_bodies(&step.bodies, names),
            invalid_expression,
        }
    }
}

/// The input keys that hold prose for a model or a person. Values that are rendered into them are marked as quoted
/// data, so that text from others cannot pass for instructions.
const PROSE_KEYS: &[&str] = &["instructions", "guidance", "ask"];

/// The key under which `with` of a step holds an expression that yields all values. No value has an empty name.
pub const ALL_VALUES_KEY: &str = "";

fn unwrap_all_values(with: &Map<String, Value>) -> Value {
    match with.get(ALL_VALUES_KEY) {
        Some(text) if with.len() == 1 => text.clone(),
        _ => Value::Object(with.clone()),
    }
}

/// Collects all texts and values of a step that may hold expressions, keyed by their role (`instructions`, `with`,
/// `guidance`…).
pub fn collect_expression_texts(step: &Step) -> Value {
    let mut input = Map::new();
    let mut insert =
        |key: &str, value: Option<Value>| input.extend(value.map(|value| (key.to_owned(), value)));
    insert("instructions", step.instructions.as_ref().map(|text| json!(text)));
    insert("with", step.with.as_ref().map(unwrap_all_values));
    match &step.kind {
        StepKind::Guidance { text } => insert("guidance", Some(json!(text))),
        StepKind::Extract { from, .. } => insert("from", Some(json!(from))),
        StepKind::Run { body, .. } => insert("body", body.clone()),
        StepKind::Gate { ask, .. } => insert("ask", Some(json!(ask))),
        StepKind::Wait(
            WaitTrigger::For(text)
            | WaitTrigger::Until(text)
            | WaitTrigger::Signal(text)
            | WaitTrigger::LiveSignal { signal: text, .. },
        ) => {
            insert("wait", Some(json!(text)));
        }
        StepKind::Set { entries } => insert("set", Some(Value::Object(entries.clone()))),
        StepKind::Fail { message, .. } => insert("message", Some(json!(message))),
        StepKind::Workflow { name, .. } if step.kind.child_choices().is_some() => {
            insert("workflow", Some(json!(name)));
        }
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
