//! Checks the arguments and the body of a call against its operation, before anything is sent.

use std::{
    borrow::Cow,
    sync::{LazyLock, OnceLock},
};

use serde_json::{Map, Value, json};

use super::{body, fields, serialize::escape_pointer_key};
use crate::operation::{
    BodyContent, CONTENT_TYPE_ARGUMENT, Operation, Parameter, ParameterLocation,
};
use midex_domain::{
    check::BodyFields,
    error::{Suggestion, Violation},
    limits,
    nearest::suggest_nearest,
    schema::Schema,
};

/// The arguments of a call that has none.
static NO_ARGUMENTS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// An operation with its schemas, which are compiled on first use.
#[derive(Debug)]
pub struct PreparedOperation {
    operation: Operation,
    /// The schema of the arguments, which are an object.
    schema: Value,
    compiled_schema: OnceLock<Option<Schema>>,
    /// The accepted contents of the body, in the operation's order.
    bodies: Vec<BodyValidator>,
}

/// A body of one media type, and how it is validated.
#[derive(Debug)]
struct BodyValidator {
    schema: Value,
    compiled_schema: OnceLock<Option<Schema>>,
    /// The fields of the body, if they may be given among the arguments.
    fields: Option<BodyFields>,
}

impl BodyValidator {
    fn new(content: &BodyContent) -> Self {
        Self {
            fields: fields::infer_body_fields(content),
            schema: content.schema.clone(),
            compiled_schema: OnceLock::new(),
        }
    }

    /// Validates a body. Also returns whether several schemas of a `oneOf` match it: no violation, because the
    /// service may accept that.
    fn validate_body(&self, value: &Value, place: &str) -> (Vec<Violation>, bool) {
        let compile = || Schema::compile(&self.schema).ok();
        let schema = self.compiled_schema.get_or_init(compile);
        validate_value(schema.as_ref(), value, place, "the body")
    }
}

impl PreparedOperation {
    /// Prepares an operation whose schemas are self-contained.
    pub fn new(operation: Operation) -> Self {
        let schema = merge_parameter_schemas(&operation.parameters);
        let contents = operation.body.iter().flat_map(|body| &body.contents);
        Self {
            bodies: contents.map(BodyValidator::new).collect(),
            schema,
            compiled_schema: OnceLock::new(),
            operation,
        }
    }

    /// The operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Whether keys of `with` that are no arguments are fields of the body, if no body is given. This is so if the
    /// first content may be an object.
    pub fn has_body_fields(&self) -> bool {
        let first = self.bodies.first();
        first.is_some_and(|first| first.fields.is_some())
    }

    /// The schema of `with`: its arguments, and a short schema of each field of the body. The schema of the body has
    /// these in full.
    pub fn input_schema(&self) -> Value {
        let mut schema = self.schema.clone();
        let mut required = Vec::new();
        for parameter in &self.operation.parameters {
            let property = schema["properties"][&parameter.argument].as_object_mut();
            if let Some(property) = property.filter(|_| !parameter.description.is_empty()) {
                let make_description = || json!(parameter.description);
                property.entry("description").or_insert_with(make_description);
            }
            required.extend(parameter.is_required.then(|| parameter.argument.clone()));
        }
        let fields = self.bodies.iter().find_map(|body| Some((body, body.fields.as_ref()?)));
        for (body, field) in
            fields.iter().flat_map(|(body, all)| all.fields.iter().map(move |field| (body, field)))
        {
            let known = fields::short_field_schema(&body.schema, &field.name);
            if schema["properties"][&field.name].is_null() {
                schema["properties"][&field.name] = known;
            }
        }
        schema["type"] = json!("object");
        schema["required"] = json!(required);
        schema["additionalProperties"] =
            json!(fields.is_some_and(|(_, fields)| fields.is_extensible));
        schema
    }

    /// The fields of the body that may be given among the arguments; `None` if the operation takes no body.
    pub fn body_fields(&self) -> Option<BodyFields> {
        let is_required = self.operation.body.as_ref()?.is_required;
        let mut candidates = self.bodies.iter().filter_map(|body| body.fields.as_ref());
        let fields = match (candidates.next(), candidates.next()) {
            (Some(only), None) => only.clone(),
            // Only the call determines which of several contents is sent, so every field is accepted here.
            (first, _) => BodyFields { is_extensible: first.is_some(), ..BodyFields::default() },
        };
        Some(BodyFields { is_required, ..fields })
    }

    /// Validates the arguments and the body of a step before its expressions are evaluated. If there are expressions
    /// and a schema has an `if`, returns nothing, because the result could depend on their values.
    pub fn validate_step(&self, with: &Value, body: Option<&Value>) -> Vec<Violation> {
        let has_expression = |value: &Value| value.to_string().contains("${{");
        let has_condition = |schema: &Value| schema.to_string().contains("\"if\":");
        let bodies = self.bodies.iter().map(|taken| &taken.schema);
        let schemas = [&self.schema].into_iter().chain(bodies);
        let has_expressions = has_expression(with) || body.is_some_and(has_expression);
        if has_expressions && schemas.into_iter().any(has_condition) {
            return Vec::new();
        }
        bind_arguments(self, with, body, true).err().unwrap_or_default()
    }

    fn validate_arguments(&self, value: &Value) -> (Vec<Violation>, bool) {
        let schema = self.compiled_schema.get_or_init(|| Schema::compile(&self.schema).ok());
        validate_value(schema.as_ref(), value, "/with", "the arguments")
    }

    /// The content of the body that [`CONTENT_TYPE_ARGUMENT`] selects, or else the first one.
    fn select_content(&self, with: &Map<String, Value>) -> Option<(&BodyContent, &BodyValidator)> {
        let contents = &self.operation.body.as_ref()?.contents;
        let wanted_type = with.get(CONTENT_TYPE_ARGUMENT).and_then(Value::as_str);
        let is_wanted = |content: &BodyContent| wanted_type == Some(&*content.media_type);
        let place = contents.iter().position(is_wanted).unwrap_or_default();
        Some((contents.get(place)?, self.bodies.get(place)?))
    }
}

/// Validates a value. A schema that cannot be compiled reports no violation, because the service checks the request
/// anyway.
fn validate_value(
    schema: Option<&Schema>,
    value: &Value,
    place: &str,
    name: &str,
) -> (Vec<Violation>, bool) {
    let result = schema.map(|schema| schema.find_lenient_violations(value, name));
    let (violations, has_several) = result.unwrap_or_default();
    let add_place = |violation: Violation| Violation {
        path: format!("{place}{}", violation.path),
        ..violation
    };
    (violations.into_iter().map(add_place).collect(), has_several)
}

/// Combines the schemas of the parameters into that of one object. Their `$defs` can be merged, because a shared
/// schema is the same in each.
fn merge_parameter_schemas(parameters: &[Parameter]) -> Value {
    let (mut properties, mut definitions) = (Map::new(), Map::new());
    for parameter in parameters {
        let mut schema = parameter.schema.clone();
        if let Some(Value::Object(own_definitions)) =
            schema.as_object_mut().and_then(|schema| schema.remove("$defs"))
        {
            definitions.extend(own_definitions);
        }
        properties.insert(parameter.argument.clone(), schema);
    }
    json!({ "properties": properties, "$defs": definitions })
}

/// The checked arguments of a call, each with its parameter, and the body with its content.
#[derive(Debug)]
pub(super) struct BoundArguments<'a> {
    pub(super) parameters: Vec<(&'a Parameter, &'a Value)>,
    pub(super) body: Option<(&'a BodyContent, Cow<'a, Value>)>,
    /// Whether several schemas of a `oneOf` match a part of it.
    pub(super) has_several_matches: bool,
}

/// Checks the arguments and the body of a call. An argument that is null counts as absent.
///
/// # Errors
/// All violations, each with its place in `with` or `body`.
pub(super) fn bind_arguments<'a>(
    prepared: &'a PreparedOperation,
    with: &'a Value,
    body: Option<&'a Value>,
    has_key: bool,
) -> Result<BoundArguments<'a>, Vec<Violation>> {
    let with = match with {
        Value::Object(map) => map,
        Value::Null => &NO_ARGUMENTS,
        _ => {
            let message = "`with` is an object: each key names an argument";
            return Err(vec![Violation::new("/with", "type", message)]);
        }
    };
    let mut reader =
        ArgumentReader { prepared, with, violations: Vec::new(), has_several_matches: false };
    let parameters = reader.bind_parameters(has_key);
    let body = reader.bind_body(body);
    reader.violations.truncate(limits::VIOLATIONS_MAX);
    if reader.violations.is_empty() {
        Ok(BoundArguments { parameters, body, has_several_matches: reader.has_several_matches })
    } else {
        Err(reader.violations)
    }
}

struct ArgumentReader<'a> {
    prepared: &'a PreparedOperation,
    with: &'a Map<String, Value>,
    violations: Vec<Violation>,
    has_several_matches: bool,
}

impl<'a> ArgumentReader<'a> {
    fn add_violations(&mut self, (violations, has_several): (Vec<Violation>, bool)) {
        self.violations.extend(violations);
        self.has_several_matches |= has_several;
    }

    fn bind_parameters(&mut self, has_key: bool) -> Vec<(&'a Parameter, &'a Value)> {
        let operation = self.prepared.operation();
        let (mut bound, mut values) = (Vec::new(), Map::new());
        for parameter in &operation.parameters {
            let name = &parameter.argument;
            match self.with.get(name).filter(|value| !value.is_null()) {
                Some(value) => {
                    // The encoder of the body sets this header itself, with parameters such as the boundary.
                    if name != CONTENT_TYPE_ARGUMENT {
                        bound.push((parameter, value));
                    }
                    values.insert(name.clone(), value.clone());
                }
                None if parameter.is_required
                    && !(has_key && is_idempotency_header(operation, parameter)) =>
                {
                    let message = format!("the argument `{name}` is missing");
                    let missing = Violation::new(
                        format!("/with/{}", escape_pointer_key(name)),
                        "required",
                        message,
                    );
                    self.violations.push(missing.with_expected(describe_expected_value(parameter)));
                }
                None => {}
            }
        }
        self.add_violations(self.prepared.validate_arguments(&Value::Object(values)));
        bound
    }

    /// The keys of `with` that are not arguments.
    fn collect_body_fields(&self) -> Map<String, Value> {
        let is_argument = |name: &str| {
            self.prepared.operation.parameters.iter().any(|known| known.argument == name)
        };
        let other_entries = self.with.iter().filter(|(name, _)| !is_argument(name));
        other_entries.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn bind_body(&mut self, body: Option<&'a Value>) -> Option<(&'a BodyContent, Cow<'a, Value>)> {
        let prepared = self.prepared;
        let declared = prepared.operation.body.as_ref();
        let body_fields = self.collect_body_fields();
        let selected = prepared.select_content(self.with);
        let fields = selected.and_then(|(_, taken)| taken.fields.as_ref());
        let (place, value) = match (body, fields) {
            (None, Some(fields))
                if !body_fields.is_empty() || declared.is_some_and(|body| body.is_required) =>
            {
                let is_known = |name: &str| fields.is_extensible || fields.has_field(name);
                let unknown = body_fields.keys().filter(|name| !is_known(name));
                unknown.for_each(|name| self.report_unknown_argument(name, false));
                ("/with", Cow::Owned(Value::Object(body_fields)))
            }
            (body, _) => {
                body_fields
                    .keys()
                    .for_each(|name| self.report_unknown_argument(name, body.is_some()));
                ("/body", Cow::Borrowed(body.or_else(|| self.report_missing_body())?))
            }
        };
        let Some((content, taken)) = selected else {
            let message = format!("`{}` takes no body", prepared.operation.name);
            self.violations.push(Violation::new("/body", "body", message));
            return None;
        };
        if let Some(validated_value) = body::prepare_for_validation(content, &value) {
            self.add_violations(taken.validate_body(&validated_value, place));
        }
        Some((content, value))
    }

    /// Returns `None`, and reports a violation if the operation requires a body.
    fn report_missing_body(&mut self) -> Option<&'a Value> {
        let body = self.prepared.operation.body.as_ref()?;
        if body.is_required {
            let selected = self.prepared.select_content(self.with);
            let media_type = selected.map(|(content, _)| content.media_type.as_str());
            let message =
                format!("the body is missing, which is `{}`", media_type.unwrap_or_default());
            self.violations.push(Violation::new("/body", "required", message));
        }
        None
    }

    fn report_unknown_argument(&mut self, name: &str, has_body: bool) {
        let operation = self.prepared.operation();
        let arguments = operation.parameters.iter().map(|parameter| parameter.argument.as_str());
        let selected = self.prepared.select_content(self.with);
        let body_fields = selected.and_then(|(_, taken)| taken.fields.as_ref());
        let is_field = has_body && body_fields.is_some_and(|fields| fields.has_field(name));
        let fields = body_fields.into_iter().flat_map(|fields| &fields.fields);
        let fields = fields.map(|field| field.name.as_str());
        let text = if is_field {
            Some("put it into `body`, or leave `body` out".to_owned())
        } else {
            suggest_nearest(name, arguments.chain(fields))
        };
        let message = format!("`{}` has no argument `{name}`", operation.name);
        let violation = Violation::new(
            format!("/with/{}", escape_pointer_key(name)),
            "unknown_argument",
            message,
        );
        self.violations.push(Violation {
            suggestion: text.map(|text| Suggestion { text, edits: Vec::new() }),
            ..violation
        });
    }
}

/// Whether the parameter is the idempotency header of the operation.
pub(super) fn is_idempotency_header(operation: &Operation, parameter: &Parameter) -> bool {
    let header = operation.idempotency_header.as_deref();
    parameter.location == ParameterLocation::Header
        && header.is_some_and(|name| name.eq_ignore_ascii_case(&parameter.name))
}

fn describe_expected_value(parameter: &Parameter) -> String {
    let kind = parameter.schema.get("type").and_then(Value::as_str);
    match (kind, parameter.description.lines().next()) {
        (Some(kind), Some(line)) => format!("{kind}: {line}"),
        (Some(kind), None) => kind.to_owned(),
        (None, line) => line.unwrap_or("a value").to_owned(),
    }
}
