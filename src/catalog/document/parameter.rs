//! Reads parameters: those of the path item, overridden by those of the operation.

use serde_json::{Value, json};

use super::{
    operation::{self, OperationReader, OperationSite},
    reference::{entries, flag_under_key, follow, text_under_key},
};
use crate::operation::{Location, Operation, Parameter, Style, ValueStyle};
use midex_domain::{limits, truncate::truncate_to_chars};

/// Headers that OpenAPI does not allow as parameters (3.1, 4.8.12.1), and those that midex writes for each request.
/// No caller may set them.
const IGNORED_HEADERS: [&str; 5] = [
    "accept",
    "content-type",
    "authorization",
    "content-length",
    "host",
];
/// Headers by which services recognize a repeated call.
const IDEMPOTENCY_HEADERS: [&str; 3] = ["idempotency-key", "x-idempotency-key", "idempotency_key"];

impl<'a> OperationReader<'a, '_> {
    /// Reads the parameters and the idempotency header.
    pub(super) fn parameters(&mut self, site: OperationSite<'a>, operation: &mut Operation) {
        let most = limits::OPERATION_PARAMETERS_MAX;
        let lists = [site.item, site.value]
            .into_iter()
            .filter_map(|holder| holder.get("parameters")?.as_array());
        let mut found: Vec<(Location, &str, &'a Value)> = Vec::new();
        for (count, value) in lists.flatten().enumerate() {
            if count >= most {
                self.mark_uncallable(
                    operation,
                    format!("it has more parameters than an operation may: the limit is {most}"),
                );
                break;
            }
            match follow(self.root, value) {
                Ok(value) => self.place(value, site, operation, &mut found),
                Err(broken) => self.mark_uncallable(
                    operation,
                    format!("one of its parameters is not known: {broken}"),
                ),
            }
        }
        for (location, name, value) in found {
            let parameter = self.parameter(location, name, value, operation);
            operation.parameters.push(parameter);
        }
        add_undeclared_parameters(site.path, &mut operation.parameters);
        assign_argument_names(&mut operation.parameters);
    }

    /// Adds a parameter, or replaces the one with its name and location.
    fn place(
        &mut self,
        value: &'a Value,
        site: OperationSite<'_>,
        operation: &mut Operation,
        found: &mut Vec<(Location, &'a str, &'a Value)>,
    ) {
        let name = text_under_key(value, "name");
        let lower = name.to_ascii_lowercase();
        let location = match text_under_key(value, "in") {
            "path" if site.path.contains(&format!("{{{name}}}")) => Location::Path,
            "path" => return,
            "query" => Location::Query,
            "cookie" => Location::Cookie,
            "header" if IGNORED_HEADERS.contains(&lower.as_str()) => return,
            "header" if IDEMPOTENCY_HEADERS.contains(&lower.as_str()) => {
                operation.idempotency_header = Some(name.to_owned());
                return;
            }
            "header" => Location::Header,
            other => {
                let why = format!(
                    "its parameter `{name}` stands in `{other}`, and midex knows path, query, header and cookie"
                );
                if flag_under_key(value, "required") {
                    return self.mark_uncallable(operation, why);
                }
                return self.warnings.add_warning(
                    operation::operation_pointer(site.path, Some(site.method)),
                    "parameter",
                    why,
                );
            }
        };
        match found
            .iter_mut()
            .find(|(at, known, _)| (*at, *known) == (location, name))
        {
            Some(known) => known.2 = value,
            None => found.push((location, name, value)),
        }
    }

    fn parameter(
        &mut self,
        location: Location,
        name: &str,
        value: &'a Value,
        operation: &mut Operation,
    ) -> Parameter {
        let content = entries(value, "content").next();
        let (schema, written) = match content {
            Some((media_type, content)) => (
                content.get("schema"),
                ValueStyle::Content(media_type.clone()),
            ),
            None => (value.get("schema"), parameter_style(location, value)),
        };
        let schema = schema.map_or_else(
            || json!({}),
            |schema| self.convert_request_schema(schema, operation),
        );
        Parameter {
            argument: name.to_owned(),
            name: name.to_owned(),
            location,
            is_required: location == Location::Path || flag_under_key(value, "required"),
            description: truncate_to_chars(
                text_under_key(value, "description").trim(),
                limits::OPERATION_SUMMARY_CHARS_MAX,
            )
            .into_owned(),
            schema,
            written,
        }
    }
}

/// The style, `explode` and `allowReserved` of a parameter, with the defaults of OpenAPI 3.1, 4.8.12.2.
fn parameter_style(location: Location, value: &Value) -> ValueStyle {
    let simple = matches!(location, Location::Path | Location::Header);
    let style = match (text_under_key(value, "style"), location) {
        ("label", Location::Path) => Style::Label,
        ("matrix", Location::Path) => Style::Matrix,
        ("spaceDelimited", Location::Query) => Style::SpaceDelimited,
        ("pipeDelimited", Location::Query) => Style::PipeDelimited,
        ("deepObject", Location::Query) => Style::DeepObject,
        _ if simple => Style::Simple,
        _ => Style::Form,
    };
    let explode = value.get("explode").and_then(Value::as_bool);
    ValueStyle::Styled {
        style,
        explode: explode.unwrap_or(style == Style::Form),
        allow_reserved: flag_under_key(value, "allowReserved"),
    }
}

/// Adds the path parameters that the document does not declare. Without them no URL could be built.
fn add_undeclared_parameters(path: &str, parameters: &mut Vec<Parameter>) {
    let names = path
        .split('{')
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('}')?.0));
    for name in names.filter(|name| !name.is_empty()) {
        let is_known = |one: &Parameter| one.location == Location::Path && one.name == name;
        if !parameters.iter().any(is_known) {
            parameters.push(Parameter {
                argument: name.to_owned(),
                name: name.to_owned(),
                location: Location::Path,
                is_required: true,
                description: String::new(),
                schema: json!({ "type": "string" }),
                written: parameter_style(Location::Path, &Value::Null),
            });
        }
    }
}

/// Assigns the names of the arguments. Parameters are first ordered by location (path, query, header, cookie), so
/// that the names do not depend on the order of the document.
fn assign_argument_names(parameters: &mut [Parameter]) {
    let rank = |location| match location {
        Location::Path => 0,
        Location::Query => 1,
        Location::Header => 2,
        Location::Cookie => 3,
    };
    parameters.sort_by_key(|parameter| rank(parameter.location));
    for at in 1..parameters.len() {
        let (before, rest) = parameters.split_at_mut(at);
        if before.iter().any(|one| one.argument == rest[0].name) {
            let location = ["path", "query", "header", "cookie"][rank(rest[0].location)];
            rest[0].argument = format!("{location}.{}", rest[0].name);
        }
    }
}
