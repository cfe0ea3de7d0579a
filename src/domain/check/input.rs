//! The inputs of a manifest: what each says must hold together, and what they refer to must be there.

mod value;

use super::{
    super::{
        draft::{Field, WorkflowDraft},
        finding::{Finding, Rule},
        id::InputName,
        input::{
            DefaultFrom, Input, InputDefault, InputType, Inputs, Validate,
            draft::{InputDraft, ValidateDraft},
        },
        node::At,
        schema::Quota,
    },
    length, required,
    shape::meant,
    text, too_long, too_many,
};
use crate::limits;

/// The inputs of a draft; `None` where it declares none, or one of them cannot be one.
pub(super) fn inputs(
    found: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    quota: &mut Quota,
) -> Option<Inputs> {
    let list = draft.inputs.given()?;
    if let Some(finding) = too_many(list, "inputs", limits::INPUTS_DECLARED_MAX) {
        found.push(finding);
        return None;
    }
    let inputs = list.value.iter().map(|draft| input(found, draft, quota));
    let inputs: Vec<_> = inputs.collect();
    let inputs: Option<Vec<_>> = inputs.into_iter().collect();
    inputs.map(Inputs::from)
}

fn input(found: &mut Vec<Finding>, draft: &InputDraft, quota: &mut Quota) -> Option<Input> {
    let key = key(found, &draft.key);
    for (field, what) in [
        (&draft.label, "name"),
        (&draft.description, "description"),
        (&draft.placeholder, "placeholder"),
        (&draft.hint, "hint"),
    ] {
        length(found, field, what, limits::DESCRIPTION_BYTES_MAX);
    }
    let input = Input {
        key: key?,
        label: text(&draft.label),
        description: text(&draft.description),
        kind: kind(found, &draft.kind),
        optional: draft.optional.given().is_some_and(|at| at.value),
        one_of: value::one_of(found, draft),
        validate: rules(found, &draft.validate, quota),
        default: value::default(found, draft),
        placeholder: text(&draft.placeholder),
        hint: text(&draft.hint),
        example: draft.example.given().map(|at| at.value.to_json()),
    };
    contradictions(found, draft, &input);
    value::check(found, draft, &input);
    Some(input)
}

fn key(found: &mut Vec<Finding>, at: &At<String>) -> Option<InputName> {
    let name = InputName::parse(&at.value);
    if let Err(error) = &name {
        let finding = Finding::new(Rule::IllFormedName, &at.path, at.place, error.message());
        found.push(finding);
    }
    name.ok()
}

fn plain<T: Clone>(field: &Field<T>) -> Option<T> {
    field.given().map(|at| at.value.clone())
}

/// One of a few words.
fn word<T>(
    found: &mut Vec<Finding>,
    field: &Field<String>,
    what: &str,
    names: &[&str],
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let at = field.given()?;
    let parsed = parse(&at.value);
    if parsed.is_none() {
        let message = format!("`{}` is not a {what}", at.value);
        let finding = Finding::new(Rule::UnknownValue, &at.path, at.place, message)
            .expected(names.join(", "), &at.value);
        let known = names.iter().copied();
        found.push(meant(finding, &at.path, at.place, &at.value, known));
    }
    parsed
}

fn kind(found: &mut Vec<Finding>, field: &Field<String>) -> Option<InputType> {
    let names = InputType::ALL.map(InputType::as_str);
    word(found, field, "type", &names, InputType::parse)
}

fn rules(found: &mut Vec<Finding>, field: &Field<ValidateDraft>, quota: &mut Quota) -> Validate {
    let Some(at) = field.given() else {
        return Validate::default();
    };
    let draft = &at.value;
    value::pattern(found, &draft.pattern, quota);
    let lengths = (plain(&draft.min_length), plain(&draft.max_length));
    let bounds = (plain(&draft.min), plain(&draft.max));
    let order = |low: Option<f64>, high: Option<f64>| low > high && high.is_some();
    #[expect(
        clippy::cast_precision_loss,
        reason = "lengths that a file can hold lie far below"
    )]
    if order(lengths.0.map(|n| n as f64), lengths.1.map(|n| n as f64)) {
        turned(found, &draft.max_length, "min_length", "max_length");
    }
    let float = |number: &Option<serde_json::Number>| number.as_ref()?.as_f64();
    if order(float(&bounds.0), float(&bounds.1)) {
        turned(found, &draft.max, "min", "max");
    }
    Validate {
        pattern: text(&draft.pattern),
        min_length: lengths.0,
        max_length: lengths.1,
        min: bounds.0,
        max: bounds.1,
    }
}

fn turned<T>(found: &mut Vec<Finding>, high: &Field<T>, low_key: &str, high_key: &str) {
    if let Some(at) = high.given() {
        let message = format!("`{low_key}` is greater than `{high_key}`: no value fits");
        found.push(Finding::new(
            Rule::Contradiction,
            &at.path,
            at.place,
            message,
        ));
    }
}

/// What is said of an input that cannot hold together.
fn contradictions(found: &mut Vec<Finding>, draft: &InputDraft, input: &Input) {
    let Some(at) = draft.validate.given() else {
        return;
    };
    let rules = &at.value;
    required_and_optional(found, draft, rules, input);
    let kind = input.effective_type();
    let (is_text, is_number) = (
        kind == Some(InputType::String),
        matches!(kind, Some(InputType::Integer | InputType::Number)),
    );
    let text_rules = [
        rules.pattern.given().map(|at| (&at.path, at.place)),
        rules.min_length.given().map(|at| (&at.path, at.place)),
        rules.max_length.given().map(|at| (&at.path, at.place)),
    ];
    let number_rules = [
        rules.min.given().map(|at| (&at.path, at.place)),
        rules.max.given().map(|at| (&at.path, at.place)),
    ];
    let text_rules = text_rules.into_iter().flatten().filter(|_| !is_text);
    let text_rules = text_rules.map(|place| (place, "texts"));
    let number_rules = number_rules.into_iter().flatten().filter(|_| !is_number);
    let number_rules = number_rules.map(|place| (place, "numbers"));
    for ((path, place), about) in text_rules.chain(number_rules) {
        let rule = path.rsplit('.').next().unwrap_or_default();
        let kind = kind.map_or("anything", InputType::as_str);
        let message = format!("`{rule}` is about {about}, and the input is of type {kind}");
        found.push(Finding::new(Rule::Contradiction, path, place, message));
    }
}

fn required_and_optional(
    found: &mut Vec<Finding>,
    draft: &InputDraft,
    rules: &ValidateDraft,
    input: &Input,
) {
    let Some(required) = rules.required.given() else {
        return;
    };
    let (message, hint) = match (required.value, input.optional) {
        (true, true) => (
            "the input is `optional: true` and `required: true`",
            "remove one of them",
        ),
        (false, false) if draft.default == Field::Absent => (
            "`required: false` makes no input optional",
            "write `optional: true` beside `validate`",
        ),
        _ => return,
    };
    found.push(
        Finding::new(Rule::Contradiction, &required.path, required.place, message)
            .suggest(hint.to_owned()),
    );
}
