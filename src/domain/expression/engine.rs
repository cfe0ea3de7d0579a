//! Compiles a parsed expression with minijinja, and runs it over the values of its references. Only this module, the
//! operators and the filters name minijinja.
//!
//! One budget bounds time and memory: every byte of text and every value that goes in, is traversed or comes out is
//! charged to [`limits::EXPRESSION_WORK_BYTES_MAX`].

use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use minijinja::{
    Environment, Error, ErrorKind, Expression, State, Value as Inner,
    value::{Enumerator, Object, ValueKind},
};
use serde_json::{Map, Number, Value};

use super::{
    fault::{ExpressionFault, FaultKind},
    parse::ParsedExpression,
};
use crate::limits;

/// The cost of a value besides its text: about the bytes that it takes in memory.
const VALUE_COST: usize = 24;
/// The name under which filters and functions look up the [`EvaluationScope`].
const SCOPE_VARIABLE: &str = "_scope";

/// A compiled expression.
pub(super) struct Program {
    expression: Expression<'static, 'static>,
    constants: Vec<Inner>,
}

impl Program {
    /// Compiles a parsed expression; the error is the message of a fault. minijinja refuses nothing that the parser lets
    /// through, except for its depth.
    pub(super) fn compile(
        environment: &'static Environment<'static>,
        parsed: &ParsedExpression,
    ) -> Result<Self, String> {
        let budget = EvaluationBudget::default();
        let constants = parsed.constants.iter().map(|value| to_engine_value(value, &budget));
        let constants = constants.collect::<Result<_, _>>();
        let expression = environment.compile_expression_owned(parsed.text.clone());
        match (constants, expression) {
            (Ok(constants), Ok(expression)) => Ok(Self { expression, constants }),
            (Err(error), _) | (_, Err(error)) => Err(error_message(&error)),
        }
    }

    /// Evaluates the program; `lookups` has the value of each reference, or the fault if there is none.
    pub(super) fn run<'v>(
        &self,
        lookups: impl Iterator<Item = Result<std::borrow::Cow<'v, Value>, ExpressionFault>>,
        source: &str,
    ) -> Result<Value, ExpressionFault> {
        let budget = Arc::new(EvaluationBudget::default());
        let references = lookups.map(|found| ResolvedReference::from_lookup(found, &budget));
        let scope = Inner::from_object(EvaluationScope {
            budget: Arc::clone(&budget),
            references: references.collect(),
            constants: self.constants.clone(),
        });
        let value = self.expression.eval(scope);
        let value = value.and_then(|value| from_engine_value(&value, &budget, 0));
        value.map_err(|error| fault_from_error(&error, source))
    }
}

/// The cost that an evaluation may still spend.
#[derive(Debug)]
pub(super) struct EvaluationBudget(AtomicUsize);

impl Default for EvaluationBudget {
    fn default() -> Self {
        Self(AtomicUsize::new(limits::EXPRESSION_WORK_BYTES_MAX))
    }
}

impl EvaluationBudget {
    pub(super) fn remaining_cost(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Charges for one value with `bytes` of text.
    pub(super) fn spend_bytes(&self, bytes: usize) -> Result<(), Error> {
        let cost = bytes.saturating_add(VALUE_COST);
        let remaining = self.0.load(Ordering::Relaxed).checked_sub(cost);
        self.0.store(remaining.unwrap_or(0), Ordering::Relaxed);
        remaining.map(|_| ()).ok_or_else(budget_exceeded_error)
    }
}

/// A reference after its lookup.
#[derive(Debug)]
enum ResolvedReference {
    Value(Inner),
    Missing(ExpressionFault),
    TooLarge,
}

impl ResolvedReference {
    fn from_lookup(
        lookup: Result<std::borrow::Cow<'_, Value>, ExpressionFault>,
        budget: &EvaluationBudget,
    ) -> Self {
        match lookup.map(|value| to_engine_value(&value, budget)) {
            Ok(Ok(value)) => Self::Value(value),
            Ok(Err(_)) => Self::TooLarge,
            Err(fault) => Self::Missing(fault),
        }
    }
}

/// The variables of one evaluation: `_kN` a constant, `_rN` a reference, `_uN` a reference that may lead to nothing.
#[derive(Debug)]
pub(super) struct EvaluationScope {
    pub(super) budget: Arc<EvaluationBudget>,
    references: Vec<ResolvedReference>,
    constants: Vec<Inner>,
}

impl Object for EvaluationScope {
    fn get_value(self: &Arc<Self>, key: &Inner) -> Option<Inner> {
        let name = key.as_str()?;
        if name == SCOPE_VARIABLE {
            return Some(Inner::from_dyn_object(Arc::clone(self)));
        }
        let number: usize = name.get(2..)?.parse().ok()?;
        match name.get(..2)? {
            "_k" => self.constants.get(number).cloned(),
            "_r" => Some(self.reference_value(number, false)),
            "_u" => Some(self.reference_value(number, true)),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

impl EvaluationScope {
    /// The value of a reference. Its fault is raised only here, when it is used: `a and b` may not need `b`.
    fn reference_value(&self, number: usize, may_be_missing: bool) -> Inner {
        match self.references.get(number) {
            Some(ResolvedReference::Value(value)) => value.clone(),
            Some(ResolvedReference::TooLarge) => budget_exceeded_error().into(),
            Some(ResolvedReference::Missing(fault)) if !may_be_missing => {
                error_from_fault(fault.clone()).into()
            }
            _ => Inner::UNDEFINED,
        }
    }

    /// The scope of the running evaluation.
    pub(super) fn from_state(state: &State<'_, '_>) -> Result<Arc<Self>, Error> {
        let scope = state.lookup(SCOPE_VARIABLE);
        let scope = scope.and_then(|scope| scope.downcast_object::<Self>());
        scope.ok_or_else(|| invalid_value_error("the expression runs outside its evaluation"))
    }
}

/// Charges for `value` and everything in it.
pub(super) fn charge_value(value: &Inner, budget: &EvaluationBudget) -> Result<(), Error> {
    budget.spend_bytes(value.as_str().map_or(0, str::len))?;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.try_for_each(|item| charge_value(&item, budget))
        }
        ValueKind::Map => map_pairs(value).try_for_each(|(key, item)| {
            charge_value(&key, budget)?;
            charge_value(&item, budget)
        }),
        _ => Ok(()),
    }
}

pub(super) fn map_pairs(map: &Inner) -> impl Iterator<Item = (Inner, Inner)> {
    let pairs = map.as_object().and_then(minijinja::value::DynObject::try_iter_pairs);
    pairs.into_iter().flatten()
}

/// Converts a JSON value to minijinja's, and charges for it.
pub(super) fn to_engine_value(value: &Value, budget: &EvaluationBudget) -> Result<Inner, Error> {
    budget.spend_bytes(value.as_str().map_or(0, str::len))?;
    Ok(match value {
        Value::Null => Inner::from(()),
        Value::Bool(truth) => Inner::from(*truth),
        Value::Number(number) => number_to_engine(number),
        Value::String(text) => Inner::from(text.as_str()),
        Value::Array(items) => {
            let items = items.iter().map(|item| to_engine_value(item, budget));
            Inner::from(items.collect::<Result<Vec<_>, _>>()?)
        }
        Value::Object(map) => {
            let entry = |(key, item): (&String, &Value)| {
                budget.spend_bytes(key.len())?;
                Ok((key.clone(), to_engine_value(item, budget)?))
            };
            let entries = map.iter().map(entry).collect::<Result<Vec<_>, Error>>()?;
            Inner::from_iter(entries)
        }
    })
}

fn number_to_engine(number: &Number) -> Inner {
    match (number.as_i64(), number.as_u64()) {
        (Some(number), _) => Inner::from(number),
        (_, Some(number)) => Inner::from(number),
        _ => Inner::from(number.as_f64()),
    }
}

/// Converts minijinja's value to JSON, and charges for it.
pub(super) fn from_engine_value(
    value: &Inner,
    budget: &EvaluationBudget,
    depth: usize,
) -> Result<Value, Error> {
    if depth > limits::JSON_DEPTH_MAX {
        let max_depth = limits::JSON_DEPTH_MAX;
        let message = format!("the result is nested more than {max_depth} levels deep");
        return Err(limit_error(message));
    }
    budget.spend_bytes(value.as_str().map_or(0, str::len))?;
    Ok(match value.kind() {
        ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number => Value::Number(number_from_engine(value)?),
        ValueKind::String => Value::from(value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.map(|item| from_engine_value(&item, budget, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        ValueKind::Map => Value::Object(map_from_engine(value, budget, depth)?),
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        _ => {
            return Err(invalid_value_error("the result is nothing that JSON can hold"));
        }
    })
}

fn map_from_engine(
    value: &Inner,
    budget: &EvaluationBudget,
    depth: usize,
) -> Result<Map<String, Value>, Error> {
    let mut map = Map::new();
    for (key, item) in map_pairs(value) {
        let key = key.as_str().unwrap_or_default().to_owned();
        budget.spend_bytes(key.len())?;
        map.insert(key, from_engine_value(&item, budget, depth + 1)?);
    }
    Ok(map)
}

fn number_from_engine(value: &Inner) -> Result<Number, Error> {
    if value.is_integer() {
        let signed = i64::try_from(value.clone()).map(Number::from);
        let whole = signed.or_else(|_| u64::try_from(value.clone()).map(Number::from));
        return whole
            .map_err(|_| invalid_value_error("the number is larger than an integer may be"));
    }
    let number = f64::try_from(value.clone()).ok().and_then(Number::from_f64);
    number.ok_or_else(|| {
        invalid_value_error("the number is infinite or none at all: was it divided by zero?")
    })
}

pub(super) fn invalid_value_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// An error with its own place in the source.
pub(super) fn invalid_value_error_at(span: (usize, usize), message: String) -> Error {
    let kind = FaultKind::TypeMismatch;
    error_from_fault(ExpressionFault::new(kind, span, message))
}

fn error_from_fault(fault: ExpressionFault) -> Error {
    Error::new(ErrorKind::InvalidOperation, fault.message.clone()).with_source(fault)
}

pub(super) fn limit_error(message: String) -> Error {
    Error::new(ErrorKind::OutOfFuel, message)
}

fn budget_exceeded_error() -> Error {
    let max_mib = limits::EXPRESSION_WORK_BYTES_MAX >> 20;
    limit_error(format!("the expression handles more than {max_mib} MiB of values"))
}

/// Converts an error of minijinja to a fault.
fn fault_from_error(error: &Error, source: &str) -> ExpressionFault {
    if let Some(fault) = error.source().and_then(|source| source.downcast_ref()) {
        return ExpressionFault::clone(fault);
    }
    let to_fault = |kind, message: String| ExpressionFault::new(kind, (0, source.len()), message);
    match error.kind() {
        ErrorKind::OutOfFuel => to_fault(FaultKind::Limit, error_message(error)),
        ErrorKind::UndefinedError => {
            let message = format!(
                "a part of `{}` leads to nothing",
                super::token::shorten_for_message(source)
            );
            to_fault(FaultKind::Unresolved, message)
        }
        _ => to_fault(FaultKind::TypeMismatch, error_message(error)),
    }
}

/// The message of minijinja's error, cut. Its messages about arithmetic quote the values, so they are replaced.
fn error_message(error: &Error) -> String {
    const MESSAGE_CHARS_MAX: usize = 200;
    let text = match error.detail() {
        Some(text) if text.starts_with("unable to calculate") => {
            "the result is too large, or a division by zero".to_owned()
        }
        Some(text) => text.to_owned(),
        None => error.kind().to_string(),
    };
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}
