//! One error type with one table. Category, whether a retry helps, and the next call to make are
//! functions of the [`Code`]; the wire form has one place, [`Error::payload`] (S2, section 10).

use std::{borrow::Cow, error::Error as StdError, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::uri;

/// The result of everything in midex that can be refused.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error (S2, section 10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// What was sent breaks a rule; sending it again will not help.
    Validation,
    /// The thing named does not exist.
    NotFound,
    /// The thing named has moved on, or is held by somebody else.
    Conflict,
    /// The execution or the server cannot do it now.
    Execution,
    /// A fault of midex or of the machine.
    Internal,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal, $category:ident, $retryable:literal, $action:literal;)*) => {
        /// What went wrong, as a stable name. The table behind it is the only one in midex.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])* $name,)* }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable name that callers match on.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// The kind of the error.
            pub const fn category(self) -> Category { match self { $(Self::$name => Category::$category,)* } }

            /// Whether the same call may succeed later.
            pub const fn retryable(self) -> bool { match self { $(Self::$name => $retryable,)* } }

            /// The code of this name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// The one right next call; `{name}` stands for the context value of that name.
            pub(crate) const fn action(self) -> &'static str { match self { $(Self::$name => $action,)* } }
        }
    };
}

codes! {
    /// The token is not one that midex could have issued.
    TokenMalformed = "TOKEN_MALFORMED", Validation, false,
        "Call execution.resume without arguments: it shows the open executions, each with a live token to be passed unchanged";
    /// The token claims to be issued later than now.
    TokenFromFuture = "TOKEN_FROM_FUTURE", Validation, false,
        "Read midex://workflow/current_step/{execution_id} and pass its continuation_token unchanged to workflow.next_step";
    /// The token is well-formed but was never issued by this execution.
    TokenMismatch = "TOKEN_MISMATCH", Conflict, false,
        "Read midex://workflow/current_step/{execution_id} and pass its continuation_token unchanged to workflow.next_step";
    /// The token was replaced by a newer one, or its step was closed without it.
    TokenSuperseded = "TOKEN_SUPERSEDED", Conflict, false,
        "Read midex://workflow/current_step/{execution_id} and go on with the token it shows";
    /// The token outlived its time.
    TokenExpired = "TOKEN_EXPIRED", Conflict, false,
        "Read midex://workflow/current_step/{execution_id}, which renews the token, and call workflow.next_step with the new one";
    /// The token was used before, with another output.
    TokenAlreadyUsed = "TOKEN_ALREADY_USED", Conflict, false,
        "Read midex://workflow/current_step/{execution_id} and go on from the step it shows";
    /// No execution has this id.
    ExecutionNotFound = "EXECUTION_NOT_FOUND", NotFound, false,
        "Call execution.list and use the id of one of the executions it shows; it has others with project *";
    /// Another execution has this id.
    ExecutionIdTaken = "EXECUTION_ID_TAKEN", Conflict, false,
        "Read midex://workflow/current_step/{execution_id} to go on with that execution, or call workflow.start without execution_id";
    /// The execution is paused.
    ExecutionPaused = "EXECUTION_PAUSED", Conflict, false,
        "Call execution.resume with execution_id {execution_id} once whoever paused it lets it go on, then send the same call again: its token stays valid";
    /// The execution has ended.
    ExecutionFinished = "EXECUTION_FINISHED", Conflict, false,
        "Read midex://workflow/step_history/{execution_id} for its results, or call workflow.start to start a new one";
    /// The seven states do not allow this change.
    StateTransitionRefused = "STATE_TRANSITION_REFUSED", Conflict, false,
        "Read midex://workflow/workflow_status/{execution_id} and choose a call that its state allows";
    /// Only the user may answer, and the client has not asked the user.
    UserAlone = "USER_ALONE", Conflict, false,
        "Call workflow.next_step again with the same token and output {} once the user is there to be asked; where this client can show no form, ask the user to run `midex run {workflow} --id {execution_id}` in a terminal";
    /// Answers came with a call of which nobody knows that it was sent before.
    RequestStateMissing = "REQUEST_STATE_MISSING", Validation, false,
        "Send the call with inputResponses and the requestState of the answer that asked for them, or without either to begin it anew";
    /// What was answered is no gate that waits for an answer.
    GateNotOpen = "GATE_NOT_OPEN", Conflict, false,
        "Read midex://workflow/workflow_status/{execution_id}: what waits for a person stands in waits";
    /// The gate asks something else than what the person was shown.
    GateChanged = "GATE_CHANGED", Conflict, false,
        "Read midex://workflow/workflow_status/{execution_id}, show the person what the gate asks now, and send the answer to that";
    /// What came of the step is known, or several items of it are meant.
    OutcomeKnown = "OUTCOME_KNOWN", Conflict, false,
        "Read midex://workflow/workflow_status/{execution_id}: the steps of which nobody knows what came stand in waits";
    /// The step's output breaks the step's schema.
    StepOutputInvalid = "STEP_OUTPUT_INVALID", Validation, false,
        "Correct every violation and call workflow.next_step again with the same token";
    /// The arguments break the tool's schema.
    ArgumentsInvalid = "ARGUMENTS_INVALID", Validation, false,
        "Correct every violation and call {tool} again";
    /// What a workflow was to be started with breaks the rules of its inputs.
    InputsInvalid = "INPUTS_INVALID", Validation, false,
        "Correct every violation and call workflow.start again; midex://workflow/workflow_details/{workflow} shows the inputs that the workflow takes";
    /// No workflow has this name.
    WorkflowNotFound = "WORKFLOW_NOT_FOUND", NotFound, false,
        "Read midex://workflow/available_workflows and use one of its names";
    /// The workflow's file has findings.
    WorkflowInvalid = "WORKFLOW_INVALID", Validation, false,
        "Run `midex validate {path}` and correct every finding, or start another workflow";
    /// A definition file has findings.
    DefinitionInvalid = "DEFINITION_INVALID", Validation, false,
        "Correct every finding and run `midex validate` again";
    /// No tool has this name.
    ToolNotFound = "TOOL_NOT_FOUND", NotFound, false,
        "Call tools/list and use one of its names";
    /// No resource has this address.
    ResourceNotFound = "RESOURCE_NOT_FOUND", NotFound, false,
        "Call resources/list and resources/templates/list and use one of their addresses";
    /// What came is no message that the server takes.
    RequestInvalid = "REQUEST_INVALID", Validation, false,
        "Send one JSON-RPC 2.0 message: over lines as one line, over HTTP as the body of a POST with `Content-Type: application/json` and `Accept: application/json, text/event-stream`";
    /// The parameters of a method are not those that the protocol has.
    ParamsInvalid = "PARAMS_INVALID", Validation, false,
        "Correct the params of the request: the protocol says what its method takes";
    /// The protocol has no such method here.
    MethodNotFound = "METHOD_NOT_FOUND", NotFound, false,
        "Send a method of what the answer to initialize or server/discover offers";
    /// The request carries no bearer token, or a wrong one.
    Unauthorized = "UNAUTHORIZED", Validation, false,
        "Send the header `Authorization: Bearer` with the token of the file that the server was started with";
    /// The request calls the server by a name, or comes from a page, that is not let in.
    Forbidden = "FORBIDDEN", Validation, false,
        "Call the server by the address it listens on, or start it with `--http-host` for the name you call it by";
    /// The session has ended, or never was.
    SessionNotFound = "SESSION_NOT_FOUND", NotFound, false,
        "Send initialize without a session id and go on in the new session: executions do not depend on sessions";
    /// The caller has withdrawn the call, or has gone.
    Cancelled = "CANCELLED", Execution, true,
        "Send the same call again if its answer is wanted after all";
    /// As much is in work as may be.
    ServerBusy = "SERVER_BUSY", Execution, true,
        "Send the same call again in a second";
    /// Something exceeds its limit.
    LimitExceeded = "LIMIT_EXCEEDED", Validation, false,
        "Send less: {limit}";
    /// Another process owns the data directory.
    StoreBusy = "STORE_BUSY", Conflict, true,
        "Send the same call again in a second; if it stays so, end the other midex process that uses {data_dir}, or start this one with another --data-dir";
    /// The store could not write or read just now.
    StoreUnavailable = "STORE_UNAVAILABLE", Execution, true,
        "Send the same call again in a second; nothing that was acknowledged is lost";
    /// The file system of the database has no room.
    StoreFull = "STORE_FULL", Execution, true,
        "Ask the user to free at least {needed_mib} MiB on the file system of {path}, then send the same call again; nothing that was acknowledged is lost";
    /// Another writer moved the execution on.
    RevisionConflict = "REVISION_CONFLICT", Conflict, true,
        "Send the same call again";
    /// The database is damaged.
    StoreCorrupt = "STORE_CORRUPT", Internal, false,
        "Restore {path} from a backup, or start with another --data-dir; midex does not replace a damaged database";
    /// The database was written by a later version.
    StoreTooNew = "STORE_TOO_NEW", Internal, false,
        "Use the version of midex that wrote {path}, or another --data-dir";
    /// The database was written by a build before the first release.
    StoreFormat = "STORE_FORMAT", Internal, false,
        "Choose another --data-dir, or move {path} away: midex then begins a new database in its place";
    /// The database was removed, replaced or cut while it was open.
    StoreLost = "STORE_LOST", Internal, false,
        "Ask the user to end this midex, put {path} back from where it was moved to or from a backup, and start midex again: it goes on with the file that it finds there, or begins an empty one";
    /// The server is shutting down.
    ServerStopping = "SERVER_STOPPING", Execution, true,
        "Send the same call again to the next server on this data directory";
    /// The execution's state cannot be loaded or its actor keeps dying.
    EngineFault = "ENGINE_FAULT", Internal, false,
        "Call execution.resume with execution_id {execution_id} to have it tried again; midex://workflow/step_history/{execution_id} has what is known";
    /// A file could not be read or written.
    FileUnusable = "FILE_UNUSABLE", Internal, false,
        "Make {path} readable and writable for this user, or choose another directory";
    /// An address cannot be listened on.
    AddressUnusable = "ADDRESS_UNUSABLE", Internal, false,
        "End the process that listens on {address}, or choose another address with --http";
    /// A file that was to be written exists.
    FileExists = "FILE_EXISTS", Conflict, false,
        "Add --force to replace {path}, or choose another name";
    /// The command line is wrong.
    UsageInvalid = "USAGE_INVALID", Validation, false,
        "Run `midex --help`";
    /// A fault of midex itself.
    Internal = "INTERNAL", Internal, true,
        "Send the same call again; if it fails again, report the correlation_id with the log";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One way in which a value breaks a rule (S2, section 10.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON pointer to the value, from the arguments or the output; empty for the whole. Of an input of a
    /// workflow `inputs.` and its name.
    pub path: String,
    /// The rule, as JSON Schema names it: `required`, `type`, `maxLength`…
    pub rule: String,
    /// What is wrong, for a reader.
    pub message: String,
    /// What the rule asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What was found, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What to write instead, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Suggestion>,
}

/// What to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// In words.
    pub text: String,
    /// As changes of the text that a program can make, all at once; none where it is left to a person.
    pub edits: Vec<Edit>,
}

/// The replacement of a part of a text. Lines and columns count from 1, columns in characters; `start` and `end` are
/// offsets in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The line where the part begins.
    pub line: usize,
    /// The column where it begins.
    pub column: usize,
    /// The line where it ends.
    pub end_line: usize,
    /// The column after its last character.
    pub end_column: usize,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
    /// What stands there instead.
    pub new_text: String,
}

/// An error of midex: a code with words. One word wide.
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    message: String,
    context: Map<String, Value>,
    violations: Vec<Violation>,
    action: Option<Cow<'static, str>>,
    source: Option<std::sync::Arc<dyn StdError + Send + Sync>>,
}

impl Clone for Error {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Error {
    /// An error with words for the reader: the thing and the place, no full stop.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            context: Map::new(),
            violations: Vec::new(),
            action: None,
            source: None,
        }))
    }

    /// A fault of midex itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Adds an identifier: `execution_id`, `workflow_state`, `step_id`, `path`, `line`…
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.context.insert(name.to_owned(), value.into());
        self
    }

    /// Adds every way in which what was sent breaks the rules.
    #[must_use]
    pub fn with_violations(mut self, violations: Vec<Violation>) -> Self {
        self.0.violations = violations;
        self
    }

    /// Names another next call than the code's own, where the place of the error asks for it.
    #[must_use]
    pub fn with_action(mut self, action: &'static str) -> Self {
        self.0.action = Some(action.into());
        self
    }

    /// Keeps the cause for the log; it never reaches the wire.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(std::sync::Arc::new(source));
        self
    }

    /// The stable name of what went wrong.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The words, without the next action.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// One identifier of the context.
    pub fn context(&self, name: &str) -> Option<&Value> {
        self.0.context.get(name)
    }

    /// Every violation, where what was sent breaks rules.
    pub fn violations(&self) -> &[Violation] {
        &self.0.violations
    }

    /// The one right next call, with the identifiers filled in.
    pub fn suggested_action(&self) -> String {
        let mut action = self
            .0
            .action
            .as_deref()
            .unwrap_or(self.0.code.action())
            .to_owned();
        for (name, value) in &self.0.context {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            // In a resource address an id or a name must be one path segment.
            if ["execution_id", "workflow"].contains(&name.as_str()) {
                action =
                    action.replace(&format!("/{{{name}}}"), &format!("/{}", uri::encode(&text)));
            }
            action = action.replace(&format!("{{{name}}}"), &text);
        }
        action
    }

    /// The wire form (S2, section 10): the same for every surface.
    pub fn payload(&self, correlation_id: &str) -> Map<String, Value> {
        let mut payload = Map::new();
        payload.insert("error_code".into(), json!(self.0.code.as_str()));
        payload.insert("category".into(), json!(self.0.code.category()));
        payload.insert("message".into(), json!(self.0.message));
        payload.insert("context".into(), Value::Object(self.0.context.clone()));
        payload.insert("retryable".into(), json!(self.0.code.retryable()));
        payload.insert("suggested_action".into(), json!(self.suggested_action()));
        payload.insert("correlation_id".into(), json!(correlation_id));
        if !self.0.violations.is_empty() {
            payload.insert("violations".into(), json!(self.0.violations));
        }
        if let Some(step) = self.0.context.get("step_id") {
            payload.insert("step_id".into(), step.clone());
        }
        payload
    }

    /// The error behind a wire form: what a client was answered by a server of whatever version. A code that
    /// this version does not know counts as internal, with its words kept.
    pub fn from_payload(payload: &Map<String, Value>) -> Self {
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let code = text("error_code")
            .and_then(Code::parse)
            .unwrap_or(Code::Internal);
        let mut error = Self::new(
            code,
            text("message").unwrap_or("the server refused without a word"),
        );
        if let Some(context) = payload.get("context").and_then(Value::as_object) {
            error.0.context.clone_from(context);
        }
        error.0.action = text("suggested_action").map(|action| action.to_owned().into());
        let violations = payload
            .get("violations")
            .cloned()
            .map(serde_json::from_value);
        error.0.violations = violations.and_then(Result::ok).unwrap_or_default();
        error
    }

    /// The exit code of a command that ends with this error: 75 retryable, 2 internal, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.0.code {
            Code::UsageInvalid => 2,
            code if code.category() == Category::Internal => 2,
            code if code.retryable() => 75,
            _ => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {:?}",
            self.0.code, self.0.message, self.0.context
        )?;
        if !self.0.violations.is_empty() {
            write!(f, " {:?}", self.0.violations)?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
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
            assert!(
                !code.action().is_empty() && !code.action().ends_with('.'),
                "{code}"
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
        let violation = Violation {
            path: "/a".into(),
            rule: "type".into(),
            message: "m".into(),
            expected: None,
            actual: Some("b".into()),
            suggestion: None,
        };
        let error = Error::new(Code::StepOutputInvalid, "words")
            .with("execution_id", "a b")
            .with_action("Read {execution_id}")
            .with_violations(vec![violation]);
        let again = Error::from_payload(&error.payload("c"));
        assert_eq!(again.payload("c"), error.payload("c"));
        let unknown = json!({ "error_code": "FROM_LATER", "message": "words" });
        let unknown = Error::from_payload(unknown.as_object().expect("an object"));
        assert_eq!(
            (unknown.code(), unknown.message()),
            (Code::Internal, "words")
        );
    }

    #[test]
    fn the_action_names_the_execution_as_a_uri_part() {
        let error = Error::new(Code::TokenExpired, "x").with("execution_id", "a b/c");
        assert!(
            error.suggested_action().contains("current_step/a%20b%2Fc,"),
            "{}",
            error.suggested_action()
        );
    }
}
