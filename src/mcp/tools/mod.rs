//! The tools: one table, and the code that parses, checks and describes their arguments.

mod arguments;
mod author;
mod catalog;
mod catalog_import;
mod catalog_settings;
mod command_run;
mod commands;
mod execution_approve;
mod execution_list;
mod execution_resolve;
mod execution_resume;
mod execution_signal;
mod execution_wait;
mod lifecycle;
mod missing;
pub(super) mod personas;
mod schemas;
mod spelling;
mod store_examine;
mod toolset;
mod workflow_delete;
mod workflow_get;
mod workflow_list;
mod workflow_next_step;
mod workflow_preview;
mod workflow_read;
mod workflow_rename;
mod workflow_run;
mod workflow_save;
mod workflow_start;
mod workflow_validate;

use std::{
    pin::Pin,
    sync::{Arc, LazyLock},
    time::Duration,
};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use self::author::Class;
use self::schemas::{listed_input, schema_of, shape_of, with_error_shape};
pub(super) use self::{
    commands::{CommandFilter, command, page as page_of_commands, providers},
    spelling::Spelling,
    workflow_list::listed_manifest,
};
pub use self::{
    spelling::ToolNames,
    toolset::{Toolset, Toolsets},
};
use crate::asking::Confirmation;
use midex_domain::{
    ExecutionId, Token,
    error::{Code, Error, Result, Violation, counted},
    limits,
    schema::Schema,
    view::Advanced,
};
use midex_server::app::App;

/// The maximum duration of a call with these arguments.
type Longest = fn(&Map<String, Value>) -> Duration;
type Running<'a, T = Value> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
/// The properties of a tool's arguments, the names of those that it requires, and the schema of its answer.
type Schemas<'a> = (Value, &'a [&'a str], Value);
type Run<T> = for<'a> fn(&'a App, Map<String, Value>) -> Running<'a, T>;

/// The question to ask the user before a call, if any.
type Confirm = for<'a> fn(&'a App, &'a Map<String, Value>) -> Running<'a, Option<Confirmation>>;

/// How a tool handles checked arguments.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// Returns an answer.
    Answer(Run<Value>),
    /// Advances a workflow. If the execution then waits for the user, the user may be asked.
    Advance(Run<Advanced>),
    /// Returns an answer, after the user has confirmed, if there is a question.
    Confirmed(Confirm, Run<Value>),
}

/// A tool: its description, and its implementation.
pub(super) struct ToolSpec {
    /// The dotted name.
    name: &'static str,
    title: &'static str,
    description: &'static str,
    annotations: fn() -> ToolAnnotations,
    input: Value,
    output: Value,
    work: Work,
    checked: Schema,
    /// The safety class. `None` for tools that only have annotations.
    class: Option<Class>,
    /// The maximum duration of a call, if it is known.
    longest: Option<Longest>,
}

/// Every tool with its toolsets, in listing order. The table has only names, since every start of the command line
/// reads it and building the schemas takes time.
const TABLE: &[(Toolsets, &str)] = &[
    (RUN, "workflow.start"),
    (RUN, "workflow.next_step"),
    (RUN.and(OPERATE), workflow_read::NAME),
    (RUN.and(OPERATE), "execution.list"),
    (RUN.and(OPERATE), "execution.resume"),
    (RUN.and(OPERATE), "execution.wait"),
    (RUN.and(OPERATE), "execution.signal"),
    (RUN.and(OPERATE), "execution.resolve"),
    (OPERATE, "execution.pause"),
    (OPERATE, "execution.abandon"),
    (OPERATE, "execution.diverge"),
    (OPERATE, "execution.fail"),
    (RUN.and(AUTHOR), "workflow.list"),
    (AUTHOR, "workflow.get"),
    (AUTHOR, "workflow.validate"),
    (AUTHOR, "workflow.preview_inputs"),
    (AUTHOR, "workflow.resolve_inputs"),
    (AUTHOR, "workflow.step_plan"),
    (AUTHOR, "workflow.preview_rendered"),
    (AUTHOR, "workflow.run"),
    (AUTHOR, "workflow.save"),
    (AUTHOR, "workflow.rename"),
    (AUTHOR, "workflow.delete"),
    (CATALOG, "command.list"),
    (CATALOG, "command.run_safe"),
    (CATALOG, "command.run"),
    (CATALOG, "command.run_destructive"),
    (CATALOG, "provider.list"),
    (CATALOG, "catalog.list"),
    (CATALOG, "catalog.validate_openapi"),
    (CATALOG, "catalog.preview_import"),
    (CATALOG, "catalog.import_openapi"),
    (CATALOG, "catalog.refresh"),
    (CATALOG, "catalog.set_enabled"),
    (CATALOG, "catalog.set_base_url"),
    (CATALOG, "catalog.set_headers"),
    (CATALOG, "catalog.set_class"),
    (CATALOG, "catalog.remove"),
    (Toolsets::PEOPLE, catalog_settings::ALLOW),
    (Toolsets::PEOPLE, catalog_settings::SET_CREDENTIAL),
    (Toolsets::PEOPLE, execution_approve::NAME),
    (Toolsets::PEOPLE, execution_approve::ANSWER),
    (Toolsets::PEOPLE, store_examine::NAME),
];
/// Tools whose answers must stay whole. Claude Code moves long answers of other tools into a file.
const WHOLE: [&str; 9] = [
    "workflow.start",
    "workflow.next_step",
    "workflow.get",
    "workflow.validate",
    "workflow.preview_rendered",
    "workflow.resolve_inputs",
    "workflow.run",
    "execution.resume",
    "execution.wait",
];
const RUN: Toolsets = Toolsets::of(Toolset::Run);
const AUTHOR: Toolsets = Toolsets::of(Toolset::Author);
const CATALOG: Toolsets = Toolsets::of(Toolset::Catalog);
const OPERATE: Toolsets = Toolsets::of(Toolset::Operate);

/// The tools in the order of the table.
static TOOLS: LazyLock<Vec<(Toolsets, ToolSpec)>> = LazyLock::new(|| {
    let mut specs = specs();
    let taken = TABLE.iter().filter_map(|(set, name)| {
        let at = specs.iter().position(|spec| spec.name == *name)?;
        Some((*set, specs.swap_remove(at)))
    });
    taken.collect()
});

/// The specifications of all tools, in no particular order.
fn specs() -> Vec<ToolSpec> {
    let mut specs = vec![
        workflow_start::spec(),
        workflow_next_step::spec(),
        workflow_read::spec(),
        execution_list::spec(),
        execution_resume::spec(),
        execution_wait::spec(),
        execution_signal::spec(),
        execution_resolve::spec(),
        execution_approve::spec(),
        execution_approve::answer_spec(),
        store_examine::spec(),
        workflow_list::spec(),
        workflow_get::spec(),
        workflow_validate::spec(),
        workflow_run::spec(),
        workflow_save::spec(),
        workflow_rename::spec(),
        workflow_delete::spec(),
    ];
    specs.extend(workflow_preview::specs());
    specs.extend(commands::specs());
    specs.extend(command_run::specs());
    specs.extend(catalog_import::specs());
    specs.extend(catalog_settings::specs());
    specs.extend(lifecycle::specs());
    specs
}

/// The tools with dotted names, as most clients and the documentation list them.
static DOTTED: LazyLock<Vec<(Toolsets, Tool)>> = LazyLock::new(|| listed(Spelling::Dotted));

/// The tools of these toolsets, as they are listed.
pub(super) fn list(sets: Toolsets, spelling: Spelling) -> Vec<Tool> {
    static UNDERSCORED: LazyLock<Vec<(Toolsets, Tool)>> =
        LazyLock::new(|| listed(Spelling::Underscored));
    let listed = match spelling {
        Spelling::Dotted => &*DOTTED,
        Spelling::Underscored => &*UNDERSCORED,
    };
    // The clones are cheap, since schemas are shared.
    let offered = listed.iter().filter(|(set, _)| sets.meet(*set));
    offered.map(|(_, tool)| tool.clone()).collect()
}

fn listed(spelling: Spelling) -> Vec<(Toolsets, Tool)> {
    let names = names(Toolsets::ALL);
    let tools = TOOLS.iter();
    tools
        .map(|(set, tool)| (*set, tool.tool(spelling, &names)))
        .collect()
}

/// The names of the tools of these toolsets.
pub(super) fn names(sets: Toolsets) -> Vec<&'static str> {
    let offered = TABLE.iter().filter(|(set, _)| sets.meet(*set));
    offered.map(|(_, name)| *name).collect()
}

/// The tool of these toolsets with this name, in either spelling: `workflow.start` or `workflow_start`.
pub(super) fn find(sets: Toolsets, name: &str) -> Result<&'static ToolSpec> {
    let named =
        |tool: &ToolSpec| tool.name == name || Spelling::Underscored.name(tool.name) == name;
    match TOOLS.iter().find(|(_, tool)| named(tool)) {
        Some((set, tool)) if sets.meet(*set) => Ok(tool),
        Some((Toolsets::PEOPLE, tool)) => Err(missing::of_people(tool.name)),
        Some((set, tool)) => Err(missing::left_out(tool.name, *set, sets)),
        None => Err(missing::unknown(name, sets)),
    }
}

/// The execution that the arguments of a call name, by its id or by a token.
pub(super) fn execution_named(arguments: &Map<String, Value>) -> Option<String> {
    let by_token = || {
        let token = Token::parse(arguments::token(text(arguments, "token")?)).ok()?;
        Some(token.execution_id.to_string())
    };
    let named = text(arguments, "execution_id").and_then(|id| ExecutionId::parse(id).ok());
    named.map(|id| id.to_string()).or_else(by_token)
}

/// The help for `--toolsets`: each toolset with its tools.
pub fn toolsets_help() -> String {
    let line = |set: Toolset| {
        let tools = TABLE.iter().filter(|(of, _)| of.contains(set));
        let tools: Vec<_> = tools.map(|(_, name)| *name).collect();
        let tools = if tools.is_empty() {
            "no tools yet".to_owned()
        } else {
            tools.join(", ")
        };
        format!("- {}: {tools}", set.as_str())
    };
    Toolset::ALL.map(line).join("\n")
}

impl ToolSpec {
    /// A tool that returns an answer. Its schemas are compiled here, once.
    fn new(
        names: (&'static str, &'static str, &'static str),
        annotations: fn() -> ToolAnnotations,
        schemas: Schemas<'_>,
        run: Run<Value>,
    ) -> Self {
        Self::doing(names, annotations, schemas, Work::Answer(run))
    }

    /// A tool with any kind of work.
    fn doing(
        names: (&'static str, &'static str, &'static str),
        annotations: fn() -> ToolAnnotations,
        (properties, required, output): Schemas<'_>,
        work: Work,
    ) -> Self {
        let (name, title, description) = names;
        let input = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false
        });
        let checked = Schema::compile(&input)
            .expect("a tool's own schema is valid: a test compiles all of them");
        Self {
            name,
            title,
            description,
            annotations,
            input,
            output: with_error_shape(output),
            work,
            checked,
            class: None,
            longest: None,
        }
    }

    /// Sets the class.
    fn of(self, class: Class) -> Self {
        Self {
            class: Some(class),
            ..self
        }
    }

    /// Sets the function for the maximum duration.
    fn lasting(self, longest: Longest) -> Self {
        Self {
            longest: Some(longest),
            ..self
        }
    }

    /// The maximum duration of a call with these arguments, if it is known.
    pub(super) fn longest(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        self.longest.map(|longest| longest(arguments))
    }

    /// The resource address that a call with these arguments reads, if this is the tool for reading resources.
    pub(super) fn address_read<'a>(&self, arguments: &'a Map<String, Value>) -> Option<&'a str> {
        let uri = text(arguments, "uri").filter(|_| self.name == workflow_read::NAME);
        uri.map(str::trim)
    }

    /// The work to do with arguments that are [`Self::checked`].
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// Whether the tool changes nothing.
    pub(super) fn is_read_only(&self) -> bool {
        (self.annotations)().read_only_hint == Some(true)
    }

    /// The dotted name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The tool, as it is listed. Its texts may name any of `tools`.
    fn tool(&self, spelling: Spelling, tools: &[&str]) -> Tool {
        let schema = |schema: &Value| {
            let mut schema = schema.clone();
            spelling.schema(&mut schema, tools);
            object(&schema)
        };
        let description = spelling.text(self.description, tools);
        let mut tool = Tool::new(
            spelling.name(self.name),
            description,
            schema(&listed_input(&self.input)),
        )
        .with_title(self.title)
        .with_raw_output_schema(schema(&self.output))
        .with_annotations((self.annotations)());
        let mut meta = self.class.map(author::metadata);
        if WHOLE.contains(&self.name) {
            let most = limits::ANSWER_WHOLE_CHARS_MAX.into();
            let meta = meta.get_or_insert_default();
            meta.0.insert("anthropic/maxResultSizeChars".into(), most);
        }
        tool.meta = meta;
        tool
    }

    /// The tool as it is documented. rmcp asks for it on every call without a handshake.
    pub(super) fn documented(&self) -> Option<Tool> {
        let mut tools = DOTTED.iter().map(|(_, tool)| tool);
        tools.find(|tool| tool.name == self.name).cloned()
    }

    /// Normalizes the arguments and checks them. The checked schema accepts more than the listed one.
    pub(super) fn checked(&self, mut arguments: Map<String, Value>) -> Result<Map<String, Value>> {
        arguments::take_as_meant(&self.input, &mut arguments);
        let arguments = Value::Object(arguments);
        let mut violations = self.checked.violations(&arguments);
        if !violations.is_empty() {
            arguments::suggest(&self.input, &arguments, &mut violations);
            let mended = arguments::mended(&self.input, &arguments);
            let message = format!(
                "the arguments of {} break its schema in {}",
                self.name,
                counted(violations.len(), "place")
            );
            let mut error = Error::new(Code::ArgumentsInvalid, message).with("tool", self.name);
            if arguments::can_be_said(&mended) && self.checked.violations(&mended).is_empty() {
                error = error.with("arguments", mended);
            }
            return Err(error.with_violations(violations));
        }
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Err(Error::internal("the arguments are no object")),
        }
    }
}

fn object(schema: &Value) -> Arc<Map<String, Value>> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// An answer that is a view.
pub(super) fn view(value: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::internal("a view cannot be shown").because(error))
}

/// The annotations of a tool. `open_world` is false; tools that act outside midex override it.
fn acts(read_only: bool, destructive: bool, idempotent: bool) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(false)
}

/// The schema of an argument that names an execution.
fn execution_id_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": limits::EXECUTION_ID_BYTES_MAX })
}

/// A count from the arguments. The schema keeps it within bounds.
fn count(arguments: &Map<String, Value>, name: &str) -> Option<u32> {
    u32::try_from(whole(arguments, name)?).ok()
}

/// The error for an argument that breaks a rule which is not in its schema.
fn unfit(tool: &'static str, path: &str, rule: &str, message: &str) -> Error {
    Error::new(Code::ArgumentsInvalid, message)
        .with("tool", tool)
        .with_violations(vec![Violation::new(path, rule, message)])
}

/// The schema of an argument that names a step.
fn step_name_schema() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": limits::STEP_ID_BYTES_MAX,
        "description": "As waits has it"
    })
}

/// The schema of an argument that names a project.
fn project_schema() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": limits::PROJECT_CHARS_MAX,
        "description": "Directory of another"
    })
}

/// The execution that the arguments of `tool` name. The schema does not check every rule of ids.
fn execution(arguments: &Map<String, Value>, tool: &'static str) -> Result<ExecutionId> {
    let text = text(arguments, "execution_id").unwrap_or_default();
    ExecutionId::parse(text).map_err(|error| {
        let violation = Violation::new("/execution_id", "format", error.message())
            .expecting("printable text that neither starts nor ends with white space");
        error.with("tool", tool).with_violations(vec![violation])
    })
}

/// A whole number that the schema has checked. JSON Schema also accepts `2.0`.
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

/// Whether an argument is given and true.
fn flag(arguments: &Map<String, Value>, name: &str) -> bool {
    arguments.get(name) == Some(&Value::Bool(true))
}

/// The properties that several tools share, merged with those of one tool.
fn shared_with(mut shared: Value, own: Value) -> Value {
    if let (Value::Object(shared), Value::Object(own)) = (&mut shared, own) {
        shared.extend(own);
    }
    shared
}

/// A text argument that the schema has checked.
fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_in_the_table_once() {
        assert_eq!(TABLE.len(), specs().len());
        let found: Vec<_> = TOOLS.iter().map(|(set, tool)| (*set, tool.name)).collect();
        assert_eq!(found, TABLE);
    }

    #[test]
    fn every_tool_is_complete_and_found_in_both_spellings() {
        let all = Toolsets::ALL.and(Toolsets::PEOPLE);
        for (_, tool) in TOOLS.iter() {
            assert!(
                !tool.title.is_empty() && !tool.description.is_empty(),
                "{}",
                tool.name
            );
            assert_eq!(tool.input["additionalProperties"], false, "{}", tool.name);
            Schema::compile(&tool.output).expect("the output schema compiles");
            let underscored = Spelling::Underscored.name(tool.name);
            assert_eq!(
                find(all, &underscored).expect("underscored").name,
                tool.name
            );
            let listed = tool.documented().expect("a listed tool");
            let listed = listed.annotations.expect("annotations");
            assert!(listed.read_only_hint.is_some() && listed.destructive_hint.is_some());
            assert!(listed.idempotent_hint.is_some() && listed.open_world_hint.is_some());
        }
        assert!(find(all, "workflow.begin").is_err());
        assert!(find(Toolsets::ALL, execution_approve::NAME).is_err());
    }

    /// Some hosts refuse a tool, or the whole list, for smaller deviations.
    #[test]
    fn what_is_listed_of_arguments_is_what_strict_hosts_take() {
        fn check(tool: &str, schema: &Value) {
            assert!(schema["type"].is_string(), "{tool}: {schema}");
            for keyword in ["$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf", "not"] {
                assert!(schema.get(keyword).is_none(), "{tool}: {keyword}");
            }
            let properties = schema.get("properties").and_then(Value::as_object);
            for (_, property) in properties.into_iter().flatten() {
                check(tool, property);
            }
            if let Some(items) = schema.get("items") {
                check(tool, items);
            }
        }
        for tool in list(Toolsets::ALL, Spelling::Dotted) {
            check(&tool.name, &Value::Object((*tool.input_schema).clone()));
        }
    }

    #[test]
    fn asking_for_a_tool_copies_no_schema() {
        for tool in list(Toolsets::ALL, Spelling::Dotted) {
            let asked = find(Toolsets::ALL, &tool.name).ok();
            let asked = asked.and_then(ToolSpec::documented).expect("a tool");
            assert_eq!(asked.name, tool.name);
            assert!(Arc::ptr_eq(&asked.input_schema, &tool.input_schema));
            let schemas = (asked.output_schema, tool.output_schema);
            assert!(matches!(schemas, (Some(one), Some(other)) if Arc::ptr_eq(&one, &other)));
        }
    }

    #[test]
    fn every_name_is_one_that_every_host_takes_and_no_two_are_the_same() {
        let names = names(Toolsets::ALL).into_iter();
        let mut names: Vec<_> = names.map(|name| Spelling::Underscored.name(name)).collect();
        for name in &names {
            // Hosts prefix the server's name, and allow 64 characters in total.
            assert!((1..=40).contains(&name.len()), "{name}");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            );
        }
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count <= limits::LIST_PAGE_MAX, "some clients read one page");
    }
}
