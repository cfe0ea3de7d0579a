//! The tools: one table, and the code that parses, checks and describes their arguments.

mod arguments;
mod author;
mod bundle;
mod catalog;
mod catalog_import;
mod catalog_settings;
mod command_run;
mod commands;
mod execution_approve;
mod execution_fork;
mod execution_list;
mod execution_resolve;
mod execution_resume;
mod execution_show;
mod execution_signal;
mod execution_wait;
mod exposed;
mod exposed_tool;
mod lifecycle;
mod missing;
mod orchestrator;
pub(super) mod personas;
mod records;
mod schemas;
mod spelling;
mod store_back_up;
mod store_examine;
mod table;
mod toolset;
mod workflow_delete;
mod workflow_flows;
mod workflow_get;
mod workflow_list;
mod workflow_next_step;
mod workflow_preview;
mod workflow_purge_history;
mod workflow_read;
mod workflow_rename;
mod workflow_run;
mod workflow_save;
mod workflow_start;
mod workflow_validate;

use std::{
    pin::Pin,
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use rmcp::model::{Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use self::schemas::{
    input_schema, listed_input_schema, reply_schema, shallow_view_schema, with_error_shape,
};
use self::table::TOOL_TABLE;
pub(super) use self::{
    commands::{
        CommandFilter, describe_workflow_command, list_value_providers,
        read_command_page as page_of_commands,
    },
    exposed::{
        add_exposed_tool_hint, build_activity_answer, find_exposed_tool, list_exposed_tools,
    },
    exposed_tool::ExposedTool,
    missing::unknown_tool_error,
    orchestrator::ThreadCall,
    spelling::Spelling,
    workflow_list::describe_manifest,
    workflow_run::{WorkflowRun, wait_argument},
};
pub use self::{
    spelling::ToolNames,
    toolset::{Toolset, Toolsets},
};
use crate::elicitation::Confirmation;
use midex_domain::{
    ExecutionId, OperationClass, Token,
    error::{Error, Result, Violation},
    limits,
    schema::Schema,
    view::AdvanceReply,
};
use midex_server::app::App;

/// The maximum duration of a call with these arguments, which need not be checked yet.
type MaxDurationFn = fn(&Map<String, Value>) -> Duration;
pub(super) type ToolFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
pub(super) type ToolFn<T> = for<'a> fn(&'a App, Map<String, Value>) -> ToolFuture<'a, T>;

type SchemaFn = fn() -> Value;

/// How a tool handles checked arguments.
#[derive(Clone, Copy)]
pub(super) enum ToolWork {
    /// Returns an answer.
    Answer(ToolFn<Value>),
    /// Advances a workflow. If the execution then waits for the user, the user may be asked.
    Advance(ToolFn<AdvanceReply>),
    /// Starts an execution, and returns where it stands once the server cannot move it. The user may be asked.
    Run(ToolFn<StartedRun>),
    /// Returns an answer, after the user has confirmed, if there is a question.
    Confirmed(ToolFn<Option<Confirmation>>, ToolFn<Value>),
}

/// An execution that a call has started.
pub(super) struct StartedRun {
    pub(super) execution_id: ExecutionId,
    pub(super) warnings: Vec<String>,
    /// How long the call waits while the server works.
    pub(super) timeout: Duration,
}

/// How a tool changes stored data. The annotations of the tool in `tools/list` follow from it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    /// Changes nothing.
    Read,
    /// Adds something at each call.
    Create,
    /// Sets a value; a repeated call changes nothing more.
    Set,
    /// Removes something.
    Remove,
}

/// A tool: its description, and its implementation.
pub(super) struct ToolSpec {
    /// The dotted name.
    name: &'static str,
    title: &'static str,
    description: &'static str,
    toolsets: Toolsets,
    effect: ToolEffect,
    /// Whether it acts on something outside of midex.
    has_outside_effect: bool,
    /// The safety class. `None` for tools that only have annotations.
    class: Option<OperationClass>,
    /// Whether its answers must stay whole. Claude Code moves long answers of other tools into a file.
    has_whole_answers: bool,
    /// Whether it works for clients that support tasks alone.
    requires_tasks: bool,
    /// The maximum duration of a call, if it is known.
    max_duration: Option<MaxDurationFn>,
    input: SchemaFn,
    output: SchemaFn,
    work: ToolWork,
    schemas: OnceLock<ToolSchemas>,
}

/// The schemas of a tool.
struct ToolSchemas {
    input: Value,
    output: Value,
    /// The input schema, compiled.
    compiled_input: Schema,
}

/// The tools with dotted names, as most clients and the documentation list them.
static DOTTED_TOOLS: LazyLock<Vec<(Toolsets, Tool)>> =
    LazyLock::new(|| build_tool_list(Spelling::Dotted));

/// The tools of these toolsets, as they are listed. A client without tasks is not shown tools that it cannot use.
pub(super) fn list_tools(sets: Toolsets, spelling: Spelling, supports_tasks: bool) -> Vec<Tool> {
    static UNDERSCORED_TOOLS: LazyLock<Vec<(Toolsets, Tool)>> =
        LazyLock::new(|| build_tool_list(Spelling::Underscored));
    let all_tools = match spelling {
        Spelling::Dotted => &*DOTTED_TOOLS,
        Spelling::Underscored => &*UNDERSCORED_TOOLS,
    };
    // The clones are cheap, since schemas are shared.
    let offered_tools = all_tools.iter().zip(&TOOL_TABLE).filter(|((set, _), tool)| {
        sets.intersects(*set) && (supports_tasks || !tool.requires_tasks)
    });
    offered_tools.map(|((_, tool), _)| tool.clone()).collect()
}

fn build_tool_list(spelling: Spelling) -> Vec<(Toolsets, Tool)> {
    let names = tool_names(Toolsets::ALL);
    let tools = TOOL_TABLE.iter();
    tools.map(|tool| (tool.toolsets, tool.build_listed_tool(spelling, &names))).collect()
}

/// The names of the tools of these toolsets.
pub(super) fn tool_names(sets: Toolsets) -> Vec<&'static str> {
    let offered_tools = TOOL_TABLE.iter().filter(|tool| sets.intersects(tool.toolsets));
    offered_tools.map(|tool| tool.name).collect()
}

/// The tool of these toolsets with this name, in either spelling: `workflow.start` or `workflow_start`.
pub(super) fn find_tool(sets: Toolsets, name: &str) -> Result<&'static ToolSpec> {
    match find_in_table(name) {
        Some(tool) if sets.intersects(tool.toolsets) => Ok(tool),
        Some(tool) if tool.toolsets == Toolsets::PEOPLE => {
            Err(missing::people_only_tool_error(tool.name))
        }
        Some(tool) => Err(missing::toolset_not_offered_error(tool.name, tool.toolsets, sets)),
        None => Err(unknown_tool_error(name, sets)),
    }
}

/// Whether a tool of midex has this name. Its toolset may not be offered.
pub(super) fn is_own_tool(name: &str) -> bool {
    find_in_table(name).is_some()
}

/// The tool of this name, with dots or with underscores in their place.
fn find_in_table(name: &str) -> Option<&'static ToolSpec> {
    let is_same = |(own, given): (u8, u8)| own == given || (own, given) == (b'.', b'_');
    TOOL_TABLE.iter().find(|tool| {
        tool.name.len() == name.len() && tool.name.bytes().zip(name.bytes()).all(is_same)
    })
}

/// The execution that the arguments of a call name, by its id or by a token.
pub(super) fn find_execution_id(arguments: &Map<String, Value>) -> Option<String> {
    let id_from_token = || {
        let token =
            Token::parse(arguments::trim_token(get_text_argument(arguments, "token")?)).ok()?;
        Some(token.execution_id.to_string())
    };
    let execution_id =
        get_text_argument(arguments, "execution_id").and_then(|id| ExecutionId::parse(id).ok());
    execution_id.map(|id| id.to_string()).or_else(id_from_token)
}

/// The help for `--toolsets`: each toolset with its tools.
pub fn format_toolsets_help() -> String {
    let line = |set: Toolset| {
        format!("- {}: {}", set.as_str(), tool_names(Toolsets::from_toolset(set)).join(", "))
    };
    Toolset::ALL.map(line).join("\n")
}

impl ToolSpec {
    const fn new(
        [name, title, description]: [&'static str; 3],
        toolsets: Toolsets,
        effect: ToolEffect,
        (input, output): (SchemaFn, SchemaFn),
        work: ToolWork,
    ) -> Self {
        Self {
            name,
            title,
            description,
            toolsets,
            effect,
            has_outside_effect: false,
            class: None,
            has_whole_answers: false,
            requires_tasks: false,
            max_duration: None,
            input,
            output,
            work,
            schemas: OnceLock::new(),
        }
    }

    /// The schema of the arguments that this function takes.
    const fn input_schema_of<'a, A: JsonSchema, R>(_: fn(&'a App, A) -> R) -> SchemaFn {
        input_schema::<A>
    }

    /// The schema of a view that this function returns.
    const fn view_schema_of<'a, A, T: JsonSchema, F: Future<Output = Result<T>>>(
        _: fn(&'a App, A) -> F,
    ) -> SchemaFn {
        shallow_view_schema::<T>
    }

    /// The schema of a reply that this function returns.
    const fn reply_schema_of<'a, A, T: JsonSchema, F: Future<Output = Result<T>>>(
        _: fn(&'a App, A) -> F,
    ) -> SchemaFn {
        reply_schema::<T>
    }

    /// Sets the class.
    const fn with_class(mut self, class: OperationClass) -> Self {
        self.class = Some(class);
        self
    }

    /// Marks the tool as one that acts on something outside of midex.
    const fn with_outside_effect(mut self) -> Self {
        self.has_outside_effect = true;
        self
    }

    /// Marks the tool as one whose answers must stay whole.
    const fn with_whole_answers(mut self) -> Self {
        self.has_whole_answers = true;
        self
    }

    /// Marks the tool as one that works for clients that support tasks alone.
    const fn requiring_tasks(mut self) -> Self {
        self.requires_tasks = true;
        self
    }

    /// Sets the function for the maximum duration.
    const fn with_max_duration(mut self, max_duration: MaxDurationFn) -> Self {
        self.max_duration = Some(max_duration);
        self
    }

    fn schemas(&self) -> &ToolSchemas {
        self.schemas.get_or_init(|| {
            let input = (self.input)();
            ToolSchemas {
                compiled_input: Schema::compile(&input)
                    .expect("a tool's own schema is valid: a test compiles all of them"),
                input,
                output: with_error_shape((self.output)()),
            }
        })
    }

    fn annotations(&self) -> ToolAnnotations {
        ToolAnnotations::new()
            .read_only(self.is_read_only())
            .destructive(self.effect == ToolEffect::Remove)
            .idempotent(matches!(self.effect, ToolEffect::Read | ToolEffect::Set))
            .open_world(self.has_outside_effect)
    }

    /// The maximum duration of a call with these arguments, if it is known.
    pub(super) fn max_duration(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        self.max_duration.map(|longest| longest(arguments))
    }

    /// The resource address that a call with these arguments reads, if this is the tool for reading resources.
    pub(super) fn resource_address<'a>(
        &self,
        arguments: &'a Map<String, Value>,
    ) -> Option<&'a str> {
        let uri = get_text_argument(arguments, "uri").filter(|_| self.name == "workflow.read");
        uri.map(str::trim)
    }

    /// The work to do with arguments that are [`Self::check_arguments`].
    pub(super) fn work(&self) -> ToolWork {
        self.work
    }

    /// Whether it works for clients that support tasks alone.
    pub(super) fn requires_tasks(&self) -> bool {
        self.requires_tasks
    }

    /// Whether a client of protocol version 2025-11-25 calls it as a task. `None` if it must not.
    pub(super) fn task_support(&self) -> Option<&'static str> {
        let is_run = matches!(self.work, ToolWork::Run(_));
        is_run.then_some(if self.requires_tasks { "required" } else { "optional" })
    }

    /// Whether the tool changes nothing.
    pub(super) fn is_read_only(&self) -> bool {
        self.effect == ToolEffect::Read
    }

    /// The dotted name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The tool, as it is listed. Its texts may name any of `tools`.
    fn build_listed_tool(&self, spelling: Spelling, tools: &[&str]) -> Tool {
        let schema = |schema: &Value| {
            let mut schema = schema.clone();
            spelling.spell_schema(&mut schema, tools);
            to_schema_object(&schema)
        };
        let description = spelling.spell_text(self.description, tools);
        let mut tool = Tool::new(
            spelling.spell_name(self.name),
            description,
            schema(&listed_input_schema(&self.schemas().input)),
        )
        .with_title(self.title)
        .with_raw_output_schema(schema(&self.schemas().output))
        .with_annotations(self.annotations());
        let mut meta = self.class.map(author::build_tool_metadata);
        if self.has_whole_answers {
            let max_chars = limits::ANSWER_WHOLE_CHARS_MAX.into();
            let meta = meta.get_or_insert_default();
            meta.0.insert("anthropic/maxResultSizeChars".into(), max_chars);
        }
        tool.meta = meta;
        tool
    }

    /// The tool as it is documented. rmcp asks for it on every call without a handshake.
    pub(super) fn documented_tool(&self) -> Option<Tool> {
        let mut tools = DOTTED_TOOLS.iter().map(|(_, tool)| tool);
        tools.find(|tool| tool.name == self.name).cloned()
    }

    /// Normalizes the arguments and checks them. The checked schema accepts more than the listed one.
    pub(super) fn check_arguments(
        &self,
        mut arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        let ToolSchemas { input, compiled_input: checked, .. } = self.schemas();
        arguments::normalize_arguments(input, &mut arguments);
        let arguments = Value::Object(arguments);
        let mut violations = checked.find_violations(&arguments);
        if !violations.is_empty() {
            arguments::suggest_argument_names(input, &arguments, &mut violations);
            let corrected = arguments::correct_arguments(input, &arguments);
            let mut error = Error::invalid_arguments(self.name, violations);
            if arguments::is_short_enough_to_repeat(&corrected)
                && checked.find_violations(&corrected).is_empty()
            {
                error = error.with_context("arguments", corrected);
            }
            return Err(error);
        }
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Err(Error::internal("the arguments are no object")),
        }
    }
}

/// The arguments of a tool. The schema has checked them.
fn parse_arguments<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Error::internal("checked arguments cannot be read").with_source(error))
}

/// Reads an argument that may be any value, so that `null` differs from an argument that is left out.
fn deserialize_present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// The arguments of a tool that takes none.
#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

fn to_schema_object(schema: &Value) -> Arc<Map<String, Value>> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// An answer that is a view.
pub(super) fn serialize_view(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::internal("a view cannot be shown").with_source(error))
}

/// The reply of a call that succeeded: `success: true`, and the fields of the view.
pub(super) fn build_reply(view: impl Serialize) -> Result<Value> {
    #[derive(Serialize)]
    struct Reply<T> {
        success: bool,
        #[serde(flatten)]
        view: T,
    }
    serialize_view(&Reply { success: true, view })
}

/// The execution of this id. The schema does not check every rule of ids.
fn parse_execution_id(id: &str) -> Result<ExecutionId> {
    parse_id_argument("/execution_id", id)
}

/// The execution of the id in the argument at this path.
fn parse_id_argument(path: &str, id: &str) -> Result<ExecutionId> {
    ExecutionId::parse(id).map_err(|error| {
        let violation = Violation::new(path, "format", error.message())
            .with_expected("printable text that neither starts nor ends with white space");
        error.with_violations(vec![violation])
    })
}

/// The time to wait, of at most [`limits::WAIT_MAX`], which is also the default.
fn wait_duration(seconds: Option<f64>) -> Duration {
    let requested = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    requested.map_or(limits::WAIT_MAX, |asked| asked.min(limits::WAIT_MAX))
}

/// A text argument, which need not be checked yet.
fn get_text_argument<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_complete_and_found_in_both_spellings() {
        let all = Toolsets::ALL.union(Toolsets::PEOPLE);
        for tool in &TOOL_TABLE {
            assert!(!tool.title.is_empty() && !tool.description.is_empty(), "{}", tool.name);
            assert_eq!(tool.schemas().input["additionalProperties"], false, "{}", tool.name);
            Schema::compile(&tool.schemas().output).expect("the output schema compiles");
            let underscored = Spelling::Underscored.spell_name(tool.name);
            assert_eq!(find_tool(all, &underscored).expect("underscored").name, tool.name);
            let listed = tool.documented_tool().expect("a listed tool");
            let listed = listed.annotations.expect("annotations");
            assert!(listed.read_only_hint.is_some() && listed.destructive_hint.is_some());
            assert!(listed.idempotent_hint.is_some() && listed.open_world_hint.is_some());
        }
        assert!(find_tool(all, "workflow.begin").is_err());
        assert!(find_tool(Toolsets::ALL, "execution.approve").is_err());
    }

    /// Some hosts refuse a tool, or the whole list, for smaller deviations.
    #[test]
    fn listed_schemas_suit_strict_hosts() {
        fn check_schema(tool: &str, schema: &Value) {
            assert!(schema["type"].is_string(), "{tool}: {schema}");
            for keyword in ["$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf", "not"] {
                assert!(schema.get(keyword).is_none(), "{tool}: {keyword}");
            }
            let properties = schema.get("properties").and_then(Value::as_object);
            for (_, property) in properties.into_iter().flatten() {
                check_schema(tool, property);
            }
            if let Some(items) = schema.get("items") {
                check_schema(tool, items);
            }
        }
        for tool in list_tools(Toolsets::ALL, Spelling::Dotted, true) {
            check_schema(&tool.name, &Value::Object((*tool.input_schema).clone()));
        }
    }

    #[test]
    fn finding_a_tool_copies_no_schema() {
        for tool in list_tools(Toolsets::ALL, Spelling::Dotted, true) {
            let asked = find_tool(Toolsets::ALL, &tool.name).ok();
            let asked = asked.and_then(ToolSpec::documented_tool).expect("a tool");
            assert_eq!(asked.name, tool.name);
            assert!(Arc::ptr_eq(&asked.input_schema, &tool.input_schema));
            let schemas = (asked.output_schema, tool.output_schema);
            assert!(matches!(schemas, (Some(one), Some(other)) if Arc::ptr_eq(&one, &other)));
        }
    }

    #[test]
    fn tool_names_are_valid_and_unique() {
        let names = tool_names(Toolsets::ALL).into_iter();
        let mut names: Vec<_> = names.map(|name| Spelling::Underscored.spell_name(name)).collect();
        for name in &names {
            // Hosts prefix the server's name, and allow 64 characters in total.
            assert!((1..=40).contains(&name.len()), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        }
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count <= limits::LIST_PAGE_MAX, "some clients read one page");
    }
}
