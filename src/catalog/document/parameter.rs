//! Reads parameters: those of the path item, overridden by those of the operation.

use serde_json::{Value, json};

use super::{
    operation::{self, OperationReader, OperationSite},
    reference::{follow_references, get_entries, get_flag, get_text},
};
use crate::operation::{Operation, Parameter, ParameterLocation, ParameterStyle, ValueStyle};
use midex_domain::{limits, truncate::truncate_to_chars};

/// Headers that OpenAPI does not allow as parameters (3.1, 4.8.12.1), and those that midex writes for each request.
/// No caller may set them.
const IGNORED_HEADERS: [&str; 5] =
    ["accept", "content-type", "authorization", "content-length", "host"];
/// Headers by which services recognize a repeated call.
const IDEMPOTENCY_HEADERS: [&str; 3] = ["idempotency-key", "x-idempotency-key", "idempotency_key"];

impl<'a> OperationReader<'a, '_> {
    /// Reads the parameters and the idempotency header.
    pub(super) fn read_parameters(&mut self, site: OperationSite<'a>, operation: &mut Operation) {
        let max_parameters = limits::OPERATION_PARAMETERS_MAX;
        let lists = [site.item, site.value]
            .into_iter()
            .filter_map(|holder| holder.get("parameters")?.as_array());
        let mut declared: Vec<(ParameterLocation, &str, &'a Value)> = Vec::new();
        for (count, value) in lists.flatten().enumerate() {
            if count >= max_parameters {
                self.mark_uncallable(
                    operation,
                    format!("it has more parameters than an operation may: the limit is {max_parameters}"),
                );
                break;
            }
            match follow_references(self.root, value) {
                Ok(value) => self.place_parameter(value, site, operation, &mut declared),
                Err(broken) => self.mark_uncallable(
                    operation,
                    format!("one of its parameters is not known: {broken}"),
                ),
            }
        }
        for (location, name, value) in declared {
            let parameter = self.read_parameter(location, name, value, operation);
            operation.parameters.push(parameter);
        }
        add_undeclared_parameters(site.path, &mut operation.parameters);
        assign_argument_names(&mut operation.parameters);
    }

    /// Adds a parameter, or replaces the one with its name and location.
    fn place_parameter(
        &mut self,
        value: &'a Value,
        site: OperationSite<'_>,
        operation: &mut Operation,
        declared: &mut Vec<(ParameterLocation, &'a str, &'a Value)>,
    ) {
        let name = get_text(value, "name");
        let lowercase_name = name.to_ascii_lowercase();
        let location = match get_text(value, "in") {
            "path" if site.path.contains(&format!("{{{name}}}")) => ParameterLocation::Path,
            "path" => return,
            "query" => ParameterLocation::Query,
            "cookie" => ParameterLocation::Cookie,
            "header" if IGNORED_HEADERS.contains(&lowercase_name.as_str()) => return,
            "header" if IDEMPOTENCY_HEADERS.contains(&lowercase_name.as_str()) => {
                operation.idempotency_header = Some(name.to_owned());
                return;
            }
            "header" => ParameterLocation::Header,
            other => {
                let reason = format!(
                    "its parameter `{name}` stands in `{other}`, and midex knows path, query, header and cookie"
                );
                if get_flag(value, "required") {
                    return self.mark_uncallable(operation, reason);
                }
                return self.warnings.add_warning(
                    operation::build_operation_pointer(site.path, Some(site.method)),
                    "parameter",
                    reason,
                );
            }
        };
        match declared.iter_mut().find(|(at, known, _)| (*at, *known) == (location, name)) {
            Some(known) => known.2 = value,
            None => declared.push((location, name, value)),
        }
    }

    fn read_parameter(
        &mut self,
        location: ParameterLocation,
        name: &str,
        value: &'a Value,
        operation: &mut Operation,
    ) -> Parameter {
        let content = get_entries(value, "content").next();
        let (schema, value_style) = match content {
            Some((media_type, content)) => {
                (content.get("schema"), ValueStyle::Content(media_type.clone()))
            }
            None => (value.get("schema"), read_parameter_style(location, value)),
        };
        let schema = schema
            .map_or_else(|| json!({}), |schema| self.convert_request_schema(schema, operation));
        Parameter {
            argument: name.to_owned(),
            name: name.to_owned(),
            location,
            is_required: location == ParameterLocation::Path || get_flag(value, "required"),
            description: truncate_to_chars(
                get_text(value, "description").trim(),
                limits::OPERATION_SUMMARY_CHARS_MAX,
            )
            .into_owned(),
            schema,
            written: value_style,
        }
    }
}

/// The style, `explode` and `allowReserved` of a parameter, with the defaults of OpenAPI 3.1, 4.8.12.2.
fn read_parameter_style(location: ParameterLocation, value: &Value) -> ValueStyle {
    let is_simple = matches!(location, ParameterLocation::Path | ParameterLocation::Header);
    let style = match (get_text(value, "style"), location) {
        ("label", ParameterLocation::Path) => ParameterStyle::Label,
        ("matrix", ParameterLocation::Path) => ParameterStyle::Matrix,
        ("spaceDelimited", ParameterLocation::Query) => ParameterStyle::SpaceDelimited,
        ("pipeDelimited", ParameterLocation::Query) => ParameterStyle::PipeDelimited,
        ("deepObject", ParameterLocation::Query) => ParameterStyle::DeepObject,
        _ if is_simple => ParameterStyle::Simple,
        _ => ParameterStyle::Form,
    };
    let explode = value.get("explode").and_then(Value::as_bool);
    ValueStyle::Styled {
        style,
        explode: explode.unwrap_or(style == ParameterStyle::Form),
        allow_reserved: get_flag(value, "allowReserved"),
    }
}

/// Adds the path parameters that the document does not declare. Without them no URL could be built.
fn add_undeclared_parameters(path: &str, parameters: &mut Vec<Parameter>) {
    let names = path.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    for name in names.filter(|name| !name.is_empty()) {
        let is_known =
            |one: &Parameter| one.location == ParameterLocation::Path && one.name == name;
        if !parameters.iter().any(is_known) {
            parameters.push(Parameter {
                argument: name.to_owned(),
                name: name.to_owned(),
                location: ParameterLocation::Path,
                is_required: true,
                description: String::new(),
                schema: json!({ "type": "string" }),
                written: read_parameter_style(ParameterLocation::Path, &Value::Null),
            });
        }
    }
}

/// Assigns the names of the arguments. Parameters are first ordered by location (path, query, header, cookie), so
/// that the names do not depend on the order of the document.
fn assign_argument_names(parameters: &mut [Parameter]) {
    let rank = |location| match location {
        ParameterLocation::Path => 0,
        ParameterLocation::Query => 1,
        ParameterLocation::Header => 2,
        ParameterLocation::Cookie => 3,
    };
    parameters.sort_by_key(|parameter| rank(parameter.location));
    for index in 1..parameters.len() {
        let (earlier, rest) = parameters.split_at_mut(index);
        if earlier.iter().any(|one| one.argument == rest[0].name) {
            let location = ["path", "query", "header", "cookie"][rank(rest[0].location)];
            rest[0].argument = format!("{location}.{}", rest[0].name);
        }
    }
}
