//! Operators that minijinja would evaluate without a bound, or otherwise than JSON suggests.

use minijinja::{
    Environment, Error, State, Value as Inner,
    value::{Rest, ValueKind},
};

use super::engine::{
    EvaluationScope, charge_value, from_engine_value, invalid_value_error, invalid_value_error_at,
};

pub(super) fn register_operators(environment: &mut Environment<'static>) {
    environment.add_function("_charge", charge_operand);
    environment.add_function("_order", evaluate_comparison);
    environment.add_function("_number", expect_number);
    environment.add_function("_sum", evaluate_sum);
    environment.add_function("_text", concatenate_text);
    environment.add_function("_slice", slice_value);
}

/// Charges for everything that a comparison may look at; returns the value.
fn charge_operand(state: &State<'_, '_>, value: Inner) -> Result<Inner, Error> {
    charge_value(&value, &EvaluationScope::from_state(state)?.budget)?;
    Ok(value)
}

/// Evaluates `a < b <= c`, with `==` and `!=` among the signs: each pair in turn, up to the first that does not hold.
fn evaluate_comparison(
    state: &State<'_, '_>,
    signs: &str,
    values: Rest<Inner>,
) -> Result<bool, Error> {
    let budget = &EvaluationScope::from_state(state)?.budget;
    let values = values.0;
    for (sign, pair) in signs.split(' ').zip(values.windows(2)) {
        let (left, right) = (&pair[0], &pair[1]);
        charge_value(right, budget)?;
        let is_true = match sign {
            "==" => left == right,
            "!=" => left != right,
            _ => is_comparison_true(sign, left, right)?,
        };
        if !is_true {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_comparison_true(sign: &str, left: &Inner, right: &Inner) -> Result<bool, Error> {
    if !are_orderable(left, right) {
        let (left, right) = (describe_type(left), describe_type(right));
        return Err(invalid_value_error(format!(
            "`{sign}` does not go between {left} and {right}: it compares two numbers, or two texts"
        )));
    }
    let ordering = left.cmp(right);
    Ok(match sign {
        "<" => ordering.is_lt(),
        "<=" => ordering.is_le(),
        ">" => ordering.is_gt(),
        _ => ordering.is_ge(),
    })
}

/// Whether two values have an order: both are numbers, or both are texts.
pub(super) fn are_orderable(left: &Inner, right: &Inner) -> bool {
    matches!(
        (left.kind(), right.kind()),
        (ValueKind::Number, ValueKind::Number) | (ValueKind::String, ValueKind::String)
    )
}

/// Returns the value if it is a number; `start` and `end` are its place, for the error.
fn expect_number(value: Inner, start: usize, end: usize) -> Result<Inner, Error> {
    if value.is_number() {
        return Ok(value);
    }
    let message = format!("a number is needed here, not {}", describe_type(&value));
    Err(invalid_value_error_at((start, end), message))
}

/// Evaluates `a + b - c` of numbers; `+` also joins texts, or lists.
fn evaluate_sum(state: &State<'_, '_>, signs: &str, values: Rest<Inner>) -> Result<Inner, Error> {
    let budget = &EvaluationScope::from_state(state)?.budget;
    let mut values = values.0.into_iter();
    let mut total = values.next().unwrap_or_default();
    for (sign, value) in signs.chars().zip(values) {
        total = match (total.kind(), value.kind()) {
            (ValueKind::Number, ValueKind::Number) => add_values(&total, &value, sign == '+')?,
            (ValueKind::String, ValueKind::String) if sign == '+' => {
                let (first, second) =
                    (total.as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
                budget.spend_bytes(first.len() + second.len())?;
                Inner::from([first, second].concat())
            }
            (ValueKind::Seq | ValueKind::Iterable, ValueKind::Seq | ValueKind::Iterable)
                if sign == '+' =>
            {
                let mut items = Vec::new();
                for item in total.try_iter()?.chain(value.try_iter()?) {
                    budget.spend_bytes(0)?;
                    items.push(item);
                }
                Inner::from(items)
            }
            _ => return Err(operand_type_error(sign, &total, &value)),
        };
    }
    Ok(total)
}

fn operand_type_error(sign: char, left: &Inner, right: &Inner) -> Error {
    let (left, right) = (describe_type(left), describe_type(right));
    invalid_value_error(format!(
        "`{sign}` does not go between {left} and {right}: `~` joins anything as text"
    ))
}

pub(super) fn add_values(left: &Inner, right: &Inner, is_addition: bool) -> Result<Inner, Error> {
    if left.is_integer() && right.is_integer() {
        let (left, right) = (i128::try_from(left.clone())?, i128::try_from(right.clone())?);
        let sum = if is_addition { left.checked_add(right) } else { left.checked_sub(right) };
        return sum.map(Inner::from).ok_or_else(|| invalid_value_error("the sum is too large"));
    }
    let (left, right) = (f64::try_from(left.clone())?, f64::try_from(right.clone())?);
    Ok(Inner::from(if is_addition { left + right } else { left - right }))
}

/// Evaluates `a ~ b`: joins any values as text.
fn concatenate_text(state: &State<'_, '_>, values: Rest<Inner>) -> Result<String, Error> {
    let budget = &EvaluationScope::from_state(state)?.budget;
    let mut text = String::new();
    for value in values.0 {
        let part = super::value_to_text(&from_engine_value(&value, budget, 0)?);
        budget.spend_bytes(part.len())?;
        text.push_str(&part);
    }
    Ok(text)
}

/// Evaluates `value[from:to]` of a text, by letters, or of a list. Negative positions count from the end.
fn slice_value(
    state: &State<'_, '_>,
    value: &Inner,
    from: Option<i64>,
    to: Option<i64>,
) -> Result<Inner, Error> {
    let budget = &EvaluationScope::from_state(state)?.budget;
    if let Some(text) = value.as_str() {
        budget.spend_bytes(text.len())?;
        let (from, count) = slice_bounds(text.chars().count(), from, to);
        return Ok(text.chars().skip(from).take(count).collect::<String>().into());
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(invalid_value_error(format!(
            "`[:]` takes a part of a text or a list, not of {}",
            describe_type(value)
        )));
    }
    let (from, count) = slice_bounds(value.len().unwrap_or(0), from, to);
    let items = value.try_iter()?.skip(from).take(count);
    let items = items.map(|item| budget.spend_bytes(0).map(|()| item));
    Ok(Inner::from(items.collect::<Result<Vec<_>, _>>()?))
}

/// The start of a slice and the number of its items.
fn slice_bounds(length: usize, from: Option<i64>, to: Option<i64>) -> (usize, usize) {
    let to_offset = |at: i64| {
        let distance = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        if at < 0 { length.saturating_sub(distance) } else { distance.min(length) }
    };
    let (from, to) = (from.map_or(0, to_offset), to.map_or(length, to_offset));
    (from, to.saturating_sub(from))
}

/// Names the type of a value for a message, which never shows the value.
pub(super) fn describe_type(value: &Inner) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "nothing",
        ValueKind::None => "null",
        ValueKind::Bool => "true or false",
        ValueKind::Number => "a number",
        ValueKind::String => "text",
        ValueKind::Seq | ValueKind::Iterable => "a list",
        ValueKind::Map => "a map",
        _ => "such a value",
    }
}
