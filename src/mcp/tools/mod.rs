//! The tools: one table, one file each.

mod execution_list;
mod execution_resume;
mod execution_wait;
mod lifecycle;
mod personas;
mod workflow_next_step;
mod workflow_start;

use std::{
    pin::Pin,
    sync::{Arc, LazyLock},
};

use rmcp::model::{Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{
    app::App,
    domain::{ExecutionId, schema::Schema},
    error::{Code, Error, Result, Violation},
    limits,
};

type Running<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// A tool: what it says of itself, and what it does.
pub(super) struct ToolSpec {
    /// Its name as the documents have it.
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: fn() -> ToolAnnotations,
    input: Value,
    output: Value,
    run: for<'a> fn(&'a App, Map<String, Value>) -> Running<'a>,
    checked: Schema,
}

/// Every tool, in the one order in which they are listed.
static TOOLS: LazyLock<Vec<ToolSpec>> = LazyLock::new(|| {
    let mut tools = vec![
        workflow_start::spec(),
        workflow_next_step::spec(),
        execution_list::spec(),
        execution_resume::spec(),
    ];
    tools.extend(lifecycle::specs());
    tools.push(execution_wait::spec());
    tools
});

/// The tools as they are listed, in the same order.
static LISTED: LazyLock<Vec<Tool>> = LazyLock::new(|| TOOLS.iter().map(ToolSpec::tool).collect());

/// The tools as they are listed. Their schemas are shared, not copied.
pub(super) fn list() -> Vec<Tool> {
    LISTED.clone()
}

/// The tool with this name, in either spelling, as it is listed. rmcp asks for it on every call of the stateless
/// era.
pub(super) fn listed(name: &str) -> Option<Tool> {
    let name = find(name).ok()?.name;
    LISTED.iter().find(|tool| tool.name == name).cloned()
}

/// The names of all tools.
pub(super) fn names() -> Vec<&'static str> {
    TOOLS.iter().map(|tool| tool.name).collect()
}

/// The tool with this name, in either spelling: `workflow.start` or `workflow_start`.
pub(super) fn find(name: &str) -> Result<&'static ToolSpec> {
    TOOLS
        .iter()
        .find(|tool| tool.name == name || tool.underscored() == name)
        .ok_or_else(|| {
            Error::new(
                Code::ToolNotFound,
                format!("Unknown tool: {}", shorten(name)),
            )
        })
}

impl ToolSpec {
    /// A tool; its schemas are compiled here, once.
    fn new(
        names: (&'static str, &'static str, &'static str),
        annotations: fn() -> ToolAnnotations,
        (input, output): (Value, Value),
        run: for<'a> fn(&'a App, Map<String, Value>) -> Running<'a>,
    ) -> Self {
        let (name, title, description) = names;
        let checked = Schema::compile(&input)
            .expect("a tool's own schema is valid: a test compiles all of them");
        Self {
            name,
            title,
            description,
            annotations,
            input,
            output: with_error_shape(output),
            run,
            checked,
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn underscored(&self) -> String {
        self.name.replace('.', "_")
    }

    /// The tool as it is listed.
    fn tool(&self) -> Tool {
        Tool::new(self.name, self.description, object(&self.input))
            .with_title(self.title)
            .with_raw_output_schema(object(&self.output))
            .with_annotations((self.annotations)())
    }

    /// Checks the arguments and does the work.
    pub(super) async fn call(&self, app: &App, arguments: Map<String, Value>) -> Result<Value> {
        let arguments = Value::Object(arguments);
        let violations = self.checked.violations(&arguments);
        if !violations.is_empty() {
            let message = format!(
                "the arguments of {} break its schema in {} place(s)",
                self.name,
                violations.len()
            );
            let error = Error::new(Code::ArgumentsInvalid, message).with("tool", self.name);
            return Err(error.with_violations(violations));
        }
        match arguments {
            Value::Object(arguments) => (self.run)(app, arguments).await,
            _ => Err(Error::internal("the arguments are no object")),
        }
    }
}

/// Output schemas must admit the error shape too: some clients validate it on `isError`.
fn with_error_shape(mut output: Value) -> Value {
    if let Some(schema) = output.as_object_mut() {
        schema.remove("$schema");
        schema.remove("title");
        // S0 has the words of a refusal in `error`, where a status has why the execution failed.
        let error = schema
            .get_mut("properties")
            .and_then(Value::as_object_mut)
            .and_then(|properties| properties.remove("error"));
        let error = error.unwrap_or(Value::Bool(true));
        let success = json!({
            "properties": { "success": { "const": true }, "error": error },
            "required": schema.remove("required").unwrap_or(json!(["success"]))
        });
        let failure = json!({
            "properties": { "success": { "const": false }, "error": { "type": "string" } },
            "required": ["success", "error", "error_code", "category", "retryable", "suggested_action"]
        });
        schema.insert("required".into(), json!(["success"]));
        schema.insert("anyOf".into(), json!([success, failure]));
    }
    output
}

fn object(schema: &Value) -> Arc<Map<String, Value>> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

fn shorten(name: &str) -> String {
    name.chars().take(80).collect()
}

/// The JSON Schema of a view.
fn schema_of<T: schemars::JsonSchema>() -> Value {
    // As answers are written: a field that may be left out is not required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    clean(&mut schema);
    schema
}

/// The same without words: for answers whose fields a resource explains already. What a client is sent with
/// its list of tools counts.
fn shape_of<T: schemars::JsonSchema>() -> Value {
    let mut schema = schema_of::<T>();
    leave_out_words(&mut schema);
    schema
}

fn leave_out_words(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // A property may be called `description`: that one is a schema.
            map.retain(|key, value| key != "description" || !value.is_string());
            map.values_mut().for_each(leave_out_words);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_words),
        _ => {}
    }
}

/// Takes out `format: uint64` and its like, which are Rust's words, not JSON Schema's.
fn clean(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| format.starts_with(['u', 'i']))
            {
                map.remove("format");
            }
            map.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

/// An answer that is a view.
fn view(value: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::internal("a view cannot be shown").because(error))
}

/// What a tool does to the world. None of midex's own reaches outside it.
fn acts(read_only: bool, destructive: bool, idempotent: bool) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(false)
}

/// The schema of an argument that names an execution.
fn execution_id_schema() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": limits::EXECUTION_ID_BYTES_MAX,
        "description": "The execution, as workflow.start returned it or execution.list shows it"
    })
}

/// The schema of an argument that names a project.
fn project_schema() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": limits::PROJECT_CHARS_MAX,
        "description": "Another project than the one this server was started in: the path of its directory, as executions show it"
    })
}

/// The execution that the arguments of `tool` name. An id that the schema lets pass may still hold what no id may.
fn execution(arguments: &Map<String, Value>, tool: &'static str) -> Result<ExecutionId> {
    let text = text(arguments, "execution_id").unwrap_or_default();
    ExecutionId::parse(text).map_err(|error| {
        let violation = Violation {
            path: "/execution_id".into(),
            rule: "format".into(),
            message: error.message().to_owned(),
            expected: Some("printable text that neither starts nor ends with white space".into()),
            actual: None,
        };
        error.with("tool", tool).with_violations(vec![violation])
    })
}

/// A whole number that the schema has checked: it takes `2.0` for one, as JSON Schema does.
fn whole(arguments: &Map<String, Value>, name: &str) -> Option<u64> {
    let number = arguments.get(name)?;
    let rounded = || {
        number
            .as_f64()
            .filter(|number| number.fract() == 0.0 && *number >= 0.0)
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and not negative; a cast of what is too large gives the largest"
    )]
    number
        .as_u64()
        .or_else(|| rounded().map(|number| number as u64))
}

/// A string argument that the schema has checked.
fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_complete_and_found_in_both_spellings() {
        for tool in TOOLS.iter() {
            assert!(
                !tool.title.is_empty() && !tool.description.is_empty(),
                "{}",
                tool.name
            );
            assert_eq!(tool.input["additionalProperties"], false, "{}", tool.name);
            Schema::compile(&tool.output).expect("the output schema compiles");
            assert_eq!(
                find(&tool.underscored()).expect("underscored").name,
                tool.name
            );
            let listed = tool.tool().annotations.expect("annotations");
            assert!(listed.read_only_hint.is_some() && listed.destructive_hint.is_some());
            assert!(listed.idempotent_hint.is_some() && listed.open_world_hint.is_some());
        }
        assert!(find("workflow.begin").is_err() && listed("workflow.begin").is_none());
    }

    #[test]
    fn asking_for_a_tool_copies_no_schema() {
        for tool in list() {
            let asked = listed(&tool.name.replace('.', "_")).expect("a tool");
            assert_eq!(asked.name, tool.name);
            assert!(Arc::ptr_eq(&asked.input_schema, &tool.input_schema));
            let schemas = (asked.output_schema, tool.output_schema);
            assert!(matches!(schemas, (Some(one), Some(other)) if Arc::ptr_eq(&one, &other)));
        }
    }
}
