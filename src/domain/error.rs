//! The one error type and its table. Category, retryability and the next call are functions of the [`Code`]; the only wire
//! form is [`Error::to_payload`].

use std::{
    error::Error as StdError,
    fmt::{self, Display},
    path::Path,
};

use serde_json::{Map, Value, json};

mod code;
mod failure;
mod next;
mod os_error;
mod violation;

pub(crate) use self::code::EXECUTION_ID_ARGUMENT;
pub use self::next::{
    address, call_tool, double_quotes, quote_for_shell, read_resource, repeat_call,
};
pub use self::os_error::{describe_causes, describe_io_error};
pub use self::violation::format_count;
pub use self::{
    code::{Category, Code, Stage},
    failure::{
        FAILED_HTTP_STATUSES, FailureCode, class_of_failure, failure_class_and_code_names,
        normalize_failure_name,
    },
    next::{Next, NextCall},
    violation::{Edit, Suggestion, Violation},
};
use self::{
    code::{EXECUTION_ENDED_NEXT_CALL, RETRY_NEXT_CALL},
    next::fill_template_or_name,
};

/// The result of every operation of midex that may fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The names of the final states.
const FINAL_STATE_NAMES: [&str; 4] = ["completed", "failed", "abandoned", "diverged"];
/// The next call if the context lacks a value that the call of the table needs.
const FALLBACK_NEXT_CALL: NextCall = call_tool("execution.resume", &[], "it lists what is open");

/// The next call that lifts a pause, by the reason of the pause. If an execution is
/// paused for several reasons, the first in this table applies.
const NEXT_CALLS_BY_PAUSE_REASON: &[(&str, NextCall)] = &[
    (
        "person",
        call_tool(
            "execution.resume",
            EXECUTION_ID_ARGUMENT,
            "once whoever paused it lets it go on; its tokens stay valid",
        ),
    ),
    (
        "budget",
        call_tool(
            "execution.resume",
            EXECUTION_ID_ARGUMENT,
            "once your user has looked at what begins so many executions and wants it to go on; execution.abandon ends it with all below it",
        ),
    ),
    (
        "pace",
        call_tool("execution.resume", EXECUTION_ID_ARGUMENT, "the next step of the server begins"),
    ),
    ("engine_fault", call_tool("execution.resume", EXECUTION_ID_ARGUMENT, "it is tried again")),
    (
        "output_invalid",
        call_tool(
            "execution.resume",
            EXECUTION_ID_ARGUMENT,
            "it grants as many tries again, and shows what the output must be; the token stays valid",
        ),
    ),
    (
        "outcome_unknown",
        read_resource(
            address!("workflow_status/{execution_id}"),
            "waits names the steps; then say with execution.resolve what came of them",
        )
        .after_person_does("help find out whether the work that was cut off took effect"),
    ),
    (
        "catalog_missing",
        call_tool(
            "catalog.list",
            &[],
            "it shows which catalogs there are; import or enable the one that the execution waits for, and it goes on by itself",
        ),
    ),
    (
        "gate",
        call_tool("execution.wait", EXECUTION_ID_ARGUMENT, "it answers when that is done")
            .after_person_does(
                "run `midex approve {execution_id}[ --data-dir '{data_dir}']` in a terminal",
            ),
    ),
];

/// The context key for the response of a service to a failed command; it is also in the wire form.
const RESPONSE_CONTEXT_KEY: &str = "response_payload";

/// An error of midex: a code with a message and context. It is one machine word wide.
#[derive(Clone)]
pub struct Error(Box<ErrorDetails>);

#[derive(Clone)]
struct ErrorDetails {
    code: Code,
    message: String,
    context: Map<String, Value>,
    violations: Vec<Violation>,
    next: Option<Next>,
    /// Whether the same call may succeed later, if that differs from the table of codes.
    is_retryable: Option<bool>,
    source: Option<std::sync::Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error with a message for the reader, which names the thing and the place and has no full stop.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorDetails {
            code,
            message: message.into(),
            context: Map::new(),
            violations: Vec::new(),
            next: None,
            is_retryable: None,
            source: None,
        }))
    }

    /// An error in midex itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// The arguments of a tool break its schema.
    pub fn invalid_arguments(tool: &str, violations: Vec<Violation>) -> Self {
        let count = format_count(violations.len(), "place");
        let message = format!("the arguments of {tool} break its schema in {count}");
        Self::new(Code::ArgumentsInvalid, message).with_tool(tool).with_violations(violations)
    }

    /// An argument breaks a rule that is not in its schema; `path` is the path of the argument.
    pub fn argument_rule(path: &str, rule: &str, message: &str) -> Self {
        let violation = Violation::new(path, rule, message);
        Self::new(Code::ArgumentsInvalid, message).with_violations(vec![violation])
    }

    /// A file or directory cannot be used, because of what `why` says.
    pub fn file_unusable(path: &Path, why: impl Display) -> Self {
        let path = path.display().to_string();
        let message = format!("`{path}` cannot be used: {why}");
        Self::new(Code::FileUnusable, message).with_context("path", path)
    }

    /// A value exceeds a limit; `limit` describes which one.
    pub fn limit_exceeded(limit: impl Into<String>) -> Self {
        let limit = limit.into();
        Self::new(Code::LimitExceeded, &*limit).with_context("limit", limit.clone())
    }

    /// Adds an identifier to the context: `execution_id`, `workflow_state`, `step_id`, `path`, `line`…
    #[must_use]
    pub fn with_context(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.context.insert(name.to_owned(), value.into());
        self
    }

    /// Names the tool whose call was refused, unless the context names one already.
    #[must_use]
    pub fn with_tool(self, tool: &str) -> Self {
        if self.0.context.contains_key("tool") {
            return self;
        }
        self.with_context("tool", tool)
    }

    /// Adds the violations of the refused request.
    #[must_use]
    pub fn with_violations(mut self, violations: Vec<Violation>) -> Self {
        self.0.violations = violations;
        self
    }

    /// Replaces the next call of the code.
    #[must_use]
    pub fn with_next(mut self, next: NextCall) -> Self {
        self.0.next = Some(Next::Call(next));
        self
    }

    /// Replaces the next call with that of another code.
    #[must_use]
    pub fn with_next_from_code(mut self, code: Code) -> Self {
        self.0.next = Some(code.next());
        self
    }

    /// Replaces the next call with words, for the command line and for peers that break the protocol.
    #[must_use]
    pub fn with_action(mut self, action: &'static str) -> Self {
        self.0.next = Some(Next::Words(action));
        self
    }

    /// Overrides whether the same call may succeed later, if that depends on more than the code.
    #[must_use]
    pub fn with_retryable(mut self, is_retryable: bool) -> Self {
        self.0.is_retryable = Some(is_retryable);
        self
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        let code_default = self.0.code.retryable();
        self.0.is_retryable.unwrap_or(code_default)
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Adds the cause for the log; it never reaches the wire.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(std::sync::Arc::new(source));
        self
    }

    /// The code of the error.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message, without the next call.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// One identifier of the context.
    pub fn context(&self, name: &str) -> Option<&Value> {
        self.0.context.get(name)
    }

    /// The violations of the refused request.
    pub fn violations(&self) -> &[Violation] {
        &self.0.violations
    }

    /// The one right next call, in the grammar of `error::next`.
    pub fn suggested_action(&self) -> String {
        let context = &self.0.context;
        let call = match self.0.next.clone().unwrap_or(self.0.code.next()) {
            Next::Words(words) => return fill_template_or_name(words, context),
            Next::Verbatim(words) => return words,
            Next::WhileOpen(_) | Next::ByPause if self.is_for_ended_execution() => {
                self.ended_execution_call()
            }
            Next::ByState(_, call) if self.is_for_ended_execution() => call,
            Next::Call(call) | Next::WhileOpen(call) | Next::ByState(call, _) => call,
            Next::ByPause => self.pause_lifting_call(),
        };
        call.print(context).or_else(|| FALLBACK_NEXT_CALL.print(context)).unwrap_or_default()
    }

    /// The next call for an execution that has ended.
    fn ended_execution_call(&self) -> NextCall {
        if self.is_for_failed_execution() { RETRY_NEXT_CALL } else { EXECUTION_ENDED_NEXT_CALL }
    }

    /// Whether the error is about an execution that has failed.
    pub fn is_for_failed_execution(&self) -> bool {
        self.context("workflow_state").and_then(Value::as_str) == Some("failed")
    }

    /// The stage of the error. A definition that does not parse fails at [`Stage::Parse`], although its code belongs to
    /// validation.
    fn stage(&self) -> Stage {
        match self.0.violations.first() {
            Some(first)
                if self.0.code == Code::WorkflowValidationFailed && first.rule == "syntax" =>
            {
                Stage::Parse
            }
            _ => self.0.code.stage(),
        }
    }

    /// The next call that replaces the one of the code, if there is one.
    pub fn next_call_override(&self) -> Option<&Next> {
        self.0.next.as_ref()
    }

    /// Whether the context says that the execution has ended.
    pub fn is_for_ended_execution(&self) -> bool {
        let state = self.context("workflow_state").and_then(Value::as_str);
        state.is_some_and(|state| FINAL_STATE_NAMES.contains(&state))
    }

    /// The call that lifts the pause of the context.
    fn pause_lifting_call(&self) -> NextCall {
        let first = self.first_pause_next_call();
        let fallback = read_resource(
            address!("current_step/{execution_id}"),
            "it says where the execution stands",
        );
        first.map_or(fallback, |(_, call)| *call)
    }

    /// The first reason that the execution is paused for, with the call that lifts it.
    pub fn first_pause_next_call(&self) -> Option<&'static (&'static str, NextCall)> {
        let reasons = self.context("pause_reasons").and_then(Value::as_array)?;
        let is_paused_for = |name: &str| reasons.iter().any(|reason| reason == name);
        NEXT_CALLS_BY_PAUSE_REASON.iter().find(|(name, _)| is_paused_for(name))
    }

    /// The context with the aliases `run_id` and `workflow_id` for the ids of execution and workflow.
    fn wire_context(&self) -> Map<String, Value> {
        let mut context = self.0.context.clone();
        // The response may be large, and is a separate field of the payload.
        context.remove(RESPONSE_CONTEXT_KEY);
        for (name, alias) in [("execution_id", "run_id"), ("workflow", "workflow_id")] {
            if let Some(value) = self.context(name) {
                context.insert(alias.to_owned(), value.clone());
            }
        }
        context
    }

    /// The wire form, which is the same for every surface.
    pub fn to_payload(&self, correlation_id: &str) -> Map<String, Value> {
        let mut payload = Map::new();
        payload.insert("error_code".into(), json!(self.0.code.as_str()));
        payload.insert("category".into(), json!(self.0.code.category()));
        payload.insert("message".into(), json!(self.0.message));
        payload.insert("context".into(), Value::Object(self.wire_context()));
        payload.insert("failure_stage".into(), json!(self.stage()));
        payload.insert("retryable".into(), json!(self.is_retryable()));
        payload.insert("suggested_action".into(), json!(self.suggested_action()));
        payload.insert("correlation_id".into(), json!(correlation_id));
        if !self.0.violations.is_empty() {
            payload.insert("violations".into(), json!(self.0.violations));
        }
        // Clients also expect these fields at the top level of the payload.
        for name in ["step_id", "command", RESPONSE_CONTEXT_KEY] {
            if let Some(value) = self.0.context.get(name) {
                payload.insert(name.to_owned(), value.clone());
            }
        }
        payload
    }

    /// Reads an error from its wire form, which a server of another version may have written. A code that this version does
    /// not know becomes `INTERNAL`, with its message kept.
    pub fn from_payload(payload: &Map<String, Value>) -> Self {
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let code = text("error_code").and_then(Code::parse).unwrap_or(Code::Internal);
        let mut error =
            Self::new(code, text("message").unwrap_or("the server refused without a word"));
        if let Some(context) = payload.get("context").and_then(Value::as_object) {
            error.0.context.clone_from(context);
        }
        error.0.next = text("suggested_action").map(|action| Next::Verbatim(action.to_owned()));
        error.0.is_retryable = payload.get("retryable").and_then(Value::as_bool);
        if let Some(response) = payload.get(RESPONSE_CONTEXT_KEY) {
            error.0.context.insert(RESPONSE_CONTEXT_KEY.to_owned(), response.clone());
        }
        let violations = payload.get("violations").cloned().map(serde_json::from_value);
        error.0.violations = violations.and_then(Result::ok).unwrap_or_default();
        error
    }

    /// The exit code of a command that ends with this error: 75 retryable, 2 internal, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.0.code {
            Code::UsageInvalid => 2,
            code if code.category() == Category::Internal => 2,
            _ if self.is_retryable() => 75,
            _ => 1,
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {:?}", self.0.code, self.0.message, self.0.context)?;
        if !self.0.violations.is_empty() {
            write!(f, " {:?}", self.0.violations)?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn every_code_has_a_distinct_name_and_an_action() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            let action = Error::new(*code, "x").suggested_action();
            assert!(
                !action.is_empty() && !action.ends_with('.') && !action.contains('{'),
                "{code}: {action}"
            );
        }
    }

    #[test]
    fn exit_codes_follow_the_contract() {
        let code = |code| Error::new(code, "x").exit_code();
        assert_eq!(code(Code::UsageInvalid), 2);
        assert_eq!(code(Code::Internal), 2);
        assert_eq!(code(Code::StoreCorrupt), 2);
        assert_eq!(code(Code::StoreBusy), 75);
        assert_eq!(code(Code::WorkflowNotFound), 1);
    }

    #[test]
    fn an_error_survives_the_wire() {
        let violation = Violation { actual: Some("b".into()), ..Violation::new("/a", "type", "m") };
        let error = Error::new(Code::StepOutputInvalid, "words")
            .with_context("execution_id", "a b")
            .with_action("Read {execution_id}")
            .with_violations(vec![violation]);
        let again = Error::from_payload(&error.to_payload("c"));
        assert_eq!(again.to_payload("c"), error.to_payload("c"));
        let unknown = json!({ "error_code": "FROM_LATER", "message": "words" });
        let unknown = Error::from_payload(unknown.as_object().expect("an object"));
        assert_eq!((unknown.code(), unknown.message()), (Code::Internal, "words"));
    }

    #[test]
    fn the_action_names_the_execution_as_a_uri_part() {
        let error = Error::new(Code::TokenExpired, "x").with_context("execution_id", "a b/c");
        assert!(
            error.suggested_action().contains("'midex://workflow/current_step/a%20b%2Fc':"),
            "{}",
            error.suggested_action()
        );
    }
}
