//! Checks the inputs that a manifest declares: each field, and the rules between them.

pub(super) mod provider;
mod value;

use serde_json::{Map, Value, json};

use super::{
    super::{
        draft::WorkflowDraft,
        finding::{Finding, Rule},
        grammar::{self, IdKind, MappingKey, MappingShape, ValueShape},
        input::{Input, InputRules, InputType, Inputs},
        node::{DocumentNode, MappingEntry, join_path},
        schema::PatternQuota,
    },
    shape::check_record,
};
use crate::limits;

/// The rules of `validate` that apply only to some types.
const TYPE_SPECIFIC_RULES: [(&str, &str); 5] = [
    ("pattern", "texts"),
    ("min_length", "texts"),
    ("max_length", "texts"),
    ("min", "numbers"),
    ("max", "numbers"),
];

/// The inputs of a draft; `None` if it declares none, or one of them is broken.
pub(super) fn check_inputs(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    quota: &mut PatternQuota,
) -> Option<Inputs> {
    let field = draft.field("inputs")?;
    let entries = field.value.entries()?;
    if entries.len() > limits::INPUTS_DECLARED_MAX {
        return None;
    }
    let inputs = entries.iter().map(|entry| {
        DeclaredInput::check_input(findings, entry, &join_path(&field.path, &entry.key), quota)
    });
    let inputs: Vec<_> = inputs.collect();
    let inputs: Option<Vec<_>> = inputs.into_iter().collect();
    inputs.map(Inputs::from)
}

/// A declared input with its position in the file.
struct DeclaredInput<'a> {
    node: &'a DocumentNode,
    path: &'a str,
    /// The fields without findings, as JSON.
    valid_fields: Map<String, Value>,
    input: Input,
}

impl<'a> DeclaredInput<'a> {
    fn check_input(
        findings: &mut Vec<Finding>,
        entry: &'a MappingEntry,
        path: &'a str,
        quota: &mut PatternQuota,
    ) -> Option<Input> {
        let first_finding = findings.len();
        if let Err(error) = IdKind::Input.parse(&entry.key) {
            let (rule, message) = (Rule::IllFormedName, error.message());
            findings.push(Finding::new(rule, path, entry.place, message));
        }
        let node = &entry.value;
        check_record(findings, node, path, &grammar::DECLARED_INPUT_SHAPE);
        let valid_fields = fields_without_findings(
            &findings[first_finding..],
            node,
            path,
            &grammar::DECLARED_INPUT_SHAPE,
        );
        let declared = Self {
            input: build_input(&entry.key, valid_fields.clone())?,
            node,
            path,
            valid_fields,
        };
        declared.check_bound_order(findings);
        declared.check_contradictions(findings);
        declared.check_values(findings, quota);
        Some(declared.input)
    }

    /// The value under a key of a mapping in the input, with its path.
    fn nested_value(&self, key: &str, inner: &str) -> Option<(&'a DocumentNode, String)> {
        let node = self.node.get(key)?.get(inner)?;
        Some((node, format!("{}.{key}.{inner}", self.path)))
    }

    /// The finding for a rule of `validate`.
    fn validate_rule_finding(&self, rule: Rule, key: &str, message: String) -> Option<Finding> {
        let (node, path) = self.nested_value("validate", key)?;
        Some(Finding::new(rule, path, node.place, message))
    }

    /// Adds a finding for each pair of bounds that no value can satisfy.
    fn check_bound_order(&self, findings: &mut Vec<Finding>) {
        let InputRules { min_length, max_length, min, max, .. } = &self.input.validate;
        let number = |number: &Option<serde_json::Number>| number.as_ref()?.as_f64();
        let is_length_reversed = max_length.is_some() && min_length > max_length;
        let is_number_reversed = number(max).is_some() && number(min) > number(max);
        let pairs =
            [(is_length_reversed, "min_length", "max_length"), (is_number_reversed, "min", "max")];
        for (_, low, high) in pairs.into_iter().filter(|(is_reversed, ..)| *is_reversed) {
            let message = format!("`{low}` is greater than `{high}`: no value fits");
            findings.extend(self.validate_rule_finding(Rule::Contradiction, high, message));
        }
    }

    /// Adds a finding for each rule of `validate` that contradicts the rest of the input.
    fn check_contradictions(&self, findings: &mut Vec<Finding>) {
        let rules = self.valid_fields.get("validate").and_then(Value::as_object);
        let Some(rules) = rules else { return };
        let is_nonempty_list = |list: Option<&Value>| {
            list.and_then(Value::as_array).is_some_and(|all| !all.is_empty())
        };
        let has_two_enums =
            is_nonempty_list(self.valid_fields.get("enum")) && is_nonempty_list(rules.get("enum"));
        if has_two_enums && self.input.one_of.is_empty() {
            let message = "no value stands both here and in the `enum` of the input: no value fits";
            findings.extend(self.validate_rule_finding(
                Rule::Contradiction,
                "enum",
                message.to_owned(),
            ));
        }
        findings.extend(self.required_and_optional_finding(rules.get("required")));
        let kind = self.input.effective_type();
        for (key, value_kind) in TYPE_SPECIFIC_RULES {
            let applies = match value_kind {
                "texts" => kind == Some(InputType::String),
                _ => matches!(kind, Some(InputType::Integer | InputType::Number)),
            };
            if !applies && rules.contains_key(key) {
                let kind = kind.map_or("anything", InputType::as_str);
                let message =
                    format!("`{key}` is about {value_kind}, and the input is of type {kind}");
                findings.extend(self.validate_rule_finding(Rule::Contradiction, key, message));
            }
        }
    }

    fn required_and_optional_finding(&self, required: Option<&Value>) -> Option<Finding> {
        let (message, hint) = match (required?.as_bool()?, self.input.optional) {
            (true, true) => {
                ("the input is `optional: true` and `required: true`", "remove one of them")
            }
            (false, false) if self.node.get("default").is_none() => (
                "`required: false` makes no input optional",
                "write `optional: true` beside `validate`",
            ),
            _ => return None,
        };
        let finding =
            self.validate_rule_finding(Rule::Contradiction, "required", message.to_owned())?;
        Some(finding.suggest(hint.to_owned()))
    }
}

/// The fields of a mapping that have no findings. Rules between them are checked even if other fields are broken.
fn fields_without_findings(
    findings: &[Finding],
    node: &DocumentNode,
    path: &str,
    record: &MappingShape,
) -> Map<String, Value> {
    let is_below = |finding: &Finding, path: &str| {
        let rest = finding.path.strip_prefix(path);
        !finding.is_warning()
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let value = |key: &MappingKey| {
        let (value, path) = (node.get(key.name)?, join_path(path, key.name));
        if !findings.iter().any(|finding| is_below(finding, &path)) {
            return Some(value.to_json());
        }
        match key.shape {
            ValueShape::Record(inner) if inner.label == grammar::VALIDATE_SHAPE.label => {
                Some(Value::Object(fields_without_findings(findings, value, &path, inner)))
            }
            _ => None,
        }
    };
    let valid_fields = record.keys.iter();
    let valid_fields = valid_fields.filter_map(|key| Some((key.name.to_owned(), value(key)?)));
    valid_fields.collect()
}

/// Builds the input from its fields. If both `enum` and `validate.enum` are given, the allowed values are their
/// intersection.
fn build_input(key: &str, mut fields: Map<String, Value>) -> Option<Input> {
    let nested_enum = fields.get("validate").and_then(|rules| rules.get("enum"));
    let lists = [fields.get("enum"), nested_enum]
        .map(|list| list?.as_array().filter(|one| !one.is_empty()));
    let mut common_values: Vec<Value> = Vec::new();
    for value in lists.into_iter().flatten().flatten() {
        let is_in_all = lists.into_iter().flatten().all(|list| list.contains(value));
        if is_in_all && !common_values.contains(value) {
            common_values.push(value.clone());
        }
    }
    fields.insert("enum".into(), common_values.into());
    fields.insert("key".into(), json!(key));
    serde_json::from_value(fields.into()).ok()
}
