//! The one error type and its table. Category, retryability and the next call are functions of the [`Code`]; the only wire
//! form is [`Error::payload`] (S2, section 10).

use std::{error::Error as StdError, fmt};

use serde::Serialize;
use serde_json::{Map, Value, json};

mod next;
mod violation;

pub(crate) use self::next::{address, again, call, in_quotes, read};
use self::next::{corrected, fill_words};
pub use self::{
    next::{Next, NextCall},
    violation::{Edit, Suggestion, Violation},
};

/// The result of every operation of midex that may fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error (S2, section 10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The request breaks a rule; sending it again will not help.
    Validation,
    /// The thing named does not exist.
    NotFound,
    /// The named thing has moved on, or another caller holds it.
    Conflict,
    /// The execution or the server cannot do it now.
    Execution,
    /// A fault of midex or of the machine.
    Internal,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal, $category:ident, $retryable:literal, $next:expr;)*) => {
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

            /// The code of this name, or of one that it had in an earlier version.
            pub fn parse(text: &str) -> Option<Self> {
                let text = renamed(text);
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// What to do next.
            pub const fn next(self) -> Next { match self { $(Self::$name => $next,)* } }
        }
    };
}

/// The name that a code has now.
fn renamed(text: &str) -> &str {
    match text {
        "WORKFLOW_INVALID" | "DEFINITION_INVALID" => Code::WorkflowValidationFailed.as_str(),
        text => text,
    }
}

/// The argument of a next call that names the execution.
const BY_ID: &[(&str, &str)] = &[("execution_id", "{execution_id}")];
/// The words of a next call whose reply shows a live token.
const PASS: &str = "pass its continuation_token unchanged to workflow.next_step";
/// The next call for an execution that has ended.
const ENDED: NextCall = read(
    address!("step_history/{execution_id}"),
    "it has what came of every step; workflow.start begins anew",
);
/// The names of the final states.
const FINAL: [&str; 4] = ["completed", "failed", "abandoned", "diverged"];
/// The next call if the context lacks a value that the call of the table needs.
const FALLBACK: NextCall = call("execution.resume", &[], "it shows what is open");

/// The next call that lifts a pause, by the reason of the pause. Of several reasons the first in this table counts.
const PAUSES: &[(&str, NextCall)] = &[
    (
        "person",
        call(
            "execution.resume",
            BY_ID,
            "once whoever paused it lets it go on; its tokens stay valid",
        ),
    ),
    (
        "engine_fault",
        call("execution.resume", BY_ID, "it is tried again"),
    ),
    (
        "output_invalid",
        call(
            "execution.resume",
            BY_ID,
            "it grants as many tries again, and shows what the output must be; the token stays valid",
        ),
    ),
    (
        "outcome_unknown",
        read(
            address!("workflow_status/{execution_id}"),
            "waits names the steps; then say with execution.resolve what came of them",
        )
        .after("help find out whether the work that was cut off took effect"),
    ),
    (
        "gate",
        call("execution.wait", BY_ID, "it answers when that is done")
            .after("run `midex approve {execution_id}[ --data-dir '{data_dir}']` in a terminal"),
    ),
];

codes! {
    /// The token is not one that midex could have issued.
    TokenMalformed = "TOKEN_MALFORMED", Validation, false,
        Next::Call(call("execution.resume", &[], "it shows what is open, each step with a live token to be passed unchanged"));
    /// The token claims to be issued later than now.
    TokenFromFuture = "TOKEN_FROM_FUTURE", Validation, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), PASS));
    /// The token is well-formed but was never issued by this execution.
    TokenMismatch = "TOKEN_MISMATCH", Conflict, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), PASS));
    /// The token was replaced by a newer one, or its step was closed without it.
    TokenSuperseded = "TOKEN_SUPERSEDED", Conflict, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), PASS));
    /// The token outlived its time.
    TokenExpired = "TOKEN_EXPIRED", Conflict, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), "that renews the token; pass its continuation_token unchanged to workflow.next_step"));
    /// The token was used before, with another output.
    TokenAlreadyUsed = "TOKEN_ALREADY_USED", Conflict, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), "go on from the step that it shows"));
    /// No execution has this id.
    ExecutionNotFound = "EXECUTION_NOT_FOUND", NotFound, false,
        Next::Call(call("execution.list", &[], "use an id that it shows; project '*' shows those of other projects"));
    /// Another execution has this id.
    ExecutionIdTaken = "EXECUTION_ID_TAKEN", Conflict, false,
        Next::ByState(
            read(address!("current_step/{execution_id}"), "it goes on with that execution; workflow.start without execution_id begins another"),
            again("the one of that id has ended").of("workflow.start").with(&[("execution_id", "{execution_id}-2")]));
    /// The execution is paused.
    ExecutionPaused = "EXECUTION_PAUSED", Conflict, false,
        Next::ByPause;
    /// The execution has ended.
    ExecutionFinished = "EXECUTION_FINISHED", Conflict, false,
        Next::Call(ENDED);
    /// The seven states do not allow this change.
    StateTransitionRefused = "STATE_TRANSITION_REFUSED", Conflict, false,
        Next::ByPause;
    /// Only the user may answer, and the client has not asked the user.
    UserAlone = "USER_ALONE", Conflict, false,
        Next::Call(call("execution.wait", BY_ID, "it answers when that is done; workflow.next_step with the same token and output {} asks the user here, where this client can show forms")
            .after("run `midex run {workflow} --id {execution_id}[ --data-dir '{data_dir}']` in a terminal"));
    /// A call brought answers without the state that shows which call they belong to.
    RequestStateMissing = "REQUEST_STATE_MISSING", Validation, false,
        Next::Call(again("inputResponses come with the requestState of the answer that asked for them; without either the call begins anew"));
    /// No such gate waits for an answer.
    GateNotOpen = "GATE_NOT_OPEN", Conflict, false,
        Next::Call(read(address!("workflow_status/{execution_id}"), "what waits for a person stands in waits"));
    /// The question of the gate is no longer the one that the person was shown.
    GateChanged = "GATE_CHANGED", Conflict, false,
        Next::Call(read(address!("workflow_status/{execution_id}"), "show the person what the gate asks now, and send the answer to that"));
    /// The outcome of the step is known, or the call does not say which of its items it means.
    OutcomeKnown = "OUTCOME_KNOWN", Conflict, false,
        Next::WhileOpen(read(address!("workflow_status/{execution_id}"), "the steps of which nobody knows what came stand in waits"));
    /// The step's output breaks the step's schema.
    StepOutputInvalid = "STEP_OUTPUT_INVALID", Validation, false,
        Next::Call(again("correct every violation of the output; the token stays valid"));
    /// The arguments break the tool's schema.
    ArgumentsInvalid = "ARGUMENTS_INVALID", Validation, false,
        Next::Call(corrected("correct every violation"));
    /// The inputs of a start break the rules of the workflow's inputs.
    InputsInvalid = "INPUTS_INVALID", Validation, false,
        Next::Call(again("correct every violation; workflow.read with uri 'midex://workflow/workflow_details/{workflow}' shows the inputs that it takes"));
    /// No workflow has this name.
    WorkflowNotFound = "WORKFLOW_NOT_FOUND", NotFound, false,
        Next::Call(read(address!("available_workflows"), "use one of its names"));
    /// The workflow's definition has findings.
    WorkflowValidationFailed = "WORKFLOW_VALIDATION_FAILED", Validation, false,
        Next::Call(again("correct every violation of the manifest; workflow.validate shows them all"));
    /// A workflow of this name is there already.
    WorkflowAlreadyExists = "WORKFLOW_ALREADY_EXISTS", Conflict, false,
        Next::Call(again("overwrite 'true' replaces it; workflow.get with workflow_id '{workflow_id}' shows what is there"));
    /// The file is no longer the one that the caller has read.
    VersionConflict = "VERSION_CONFLICT", Conflict, false,
        Next::Call(call("workflow.get", &[("workflow_id", "{workflow_id}")], "make the change in what it shows, and send its version as expected_version"));
    /// The name is none that a workflow's file can have.
    IdentifierInvalid = "IDENTIFIER_INVALID", Validation, false,
        Next::Call(again("choose a name of letters, digits, `_`, `.` and `-` that begins with a letter or a digit"));
    /// The workflow lies where the authoring tools do not write.
    WorkflowNotWritable = "WORKFLOW_NOT_WRITABLE", Conflict, false,
        Next::Call(call("workflow.get", &[("workflow_id", "{workflow_id}")], "save a copy of it under another name, or have the file edited"));
    /// What cannot be undone was not confirmed.
    ConfirmationRequired = "CONFIRMATION_REQUIRED", Conflict, false,
        Next::Call(again("with confirm 'true'").after("confirm it"));
    /// No tool has this name.
    ToolNotFound = "TOOL_NOT_FOUND", NotFound, false,
        Next::Call(call("execution.resume", &[], "it shows what is open; the tools are {tools}"));
    /// No resource has this address.
    ResourceNotFound = "RESOURCE_NOT_FOUND", NotFound, false,
        Next::Call(read(address!("{address}"), "if that is what was meant"));
    /// No prompt has this name.
    PromptNotFound = "PROMPT_NOT_FOUND", NotFound, false,
        Next::Words("Use one of the prompts that prompts/list shows");
    /// The request is no message that the server accepts.
    RequestInvalid = "REQUEST_INVALID", Validation, false,
        Next::Words("Send one JSON-RPC 2.0 message: over lines as one line, over HTTP as the body of a POST with `Content-Type: application/json` and `Accept: application/json, text/event-stream`");
    /// The parameters of a method are not those that the protocol has.
    ParamsInvalid = "PARAMS_INVALID", Validation, false,
        Next::Words("Correct the params of the request: the protocol says what its method takes");
    /// The protocol has no such method here.
    MethodNotFound = "METHOD_NOT_FOUND", NotFound, false,
        Next::Words("Send a method of what the answer to initialize or server/discover offers");
    /// The request carries no bearer token, or a wrong one.
    Unauthorized = "UNAUTHORIZED", Validation, false,
        Next::Words("Send the header `Authorization: Bearer` with the token of the file that the server was started with");
    /// The host name or the origin of the request is not allowed.
    Forbidden = "FORBIDDEN", Validation, false,
        Next::Words("Call the server by the address it listens on, or start it with `--http-host` for the name you call it by");
    /// The session has ended, or never was.
    SessionNotFound = "SESSION_NOT_FOUND", NotFound, false,
        Next::Words("Send initialize without a session id and go on in the new session: executions do not depend on sessions");
    /// The caller has cancelled the call, or has disconnected.
    Cancelled = "CANCELLED", Execution, true,
        Next::Call(again("if its answer is wanted after all"));
    /// The server works on as many calls as it may.
    ServerBusy = "SERVER_BUSY", Execution, true,
        Next::Call(again("in a second"));
    /// Something exceeds its limit.
    LimitExceeded = "LIMIT_EXCEEDED", Validation, false,
        Next::Call(again("send less; {limit}"));
    /// Another process owns the data directory.
    StoreBusy = "STORE_BUSY", Conflict, true,
        Next::Call(again("in a second; if it stays so, the process that uses {data_dir} does not answer, and the user must end it: `midex doctor` names it"));
    /// The store could not write or read just now.
    StoreUnavailable = "STORE_UNAVAILABLE", Execution, true,
        Next::Call(again("in a second; nothing that was acknowledged is lost"));
    /// The file system of the database has no room.
    StoreFull = "STORE_FULL", Execution, true,
        Next::Call(again("nothing that was acknowledged is lost").after("free at least {needed_mib} MiB on the file system of {path}"));
    /// Another writer moved the execution on.
    RevisionConflict = "REVISION_CONFLICT", Conflict, true,
        Next::Call(again(""));
    /// The database is damaged.
    StoreCorrupt = "STORE_CORRUPT", Internal, false,
        Next::Call(again("")
            .after("restore {path} from a backup, or start with another --data-dir; midex does not replace a damaged database"));
    /// The database was written by a later version.
    StoreTooNew = "STORE_TOO_NEW", Internal, false,
        Next::Call(again("").after("use the version of midex that wrote {path}, or another --data-dir"));
    /// The database was written by a build before the first release.
    StoreFormat = "STORE_FORMAT", Internal, false,
        Next::Call(again("").after("choose another --data-dir, or move {path} away: midex then begins a new database in its place"));
    /// The database was removed, replaced or cut while it was open.
    StoreLost = "STORE_LOST", Internal, false,
        Next::Call(again("").after("end that midex, put {path} back from where it was moved to or from a backup, and start midex again: it goes on with the file that it finds there, or begins an empty one"));
    /// The server is shutting down.
    ServerStopping = "SERVER_STOPPING", Execution, true,
        Next::Call(again("the next server on this data directory answers it"));
    /// The execution's state cannot be loaded or its actor keeps dying.
    EngineFault = "ENGINE_FAULT", Internal, false,
        Next::Call(call("execution.resume", BY_ID, "it is tried again; workflow.read with uri 'midex://workflow/step_history/{execution_id}' has what is known"));
    /// A file could not be read or written.
    FileUnusable = "FILE_UNUSABLE", Internal, false,
        Next::Call(again("").after("make {path} readable and writable for this user, or choose another directory"));
    /// An address cannot be listened on.
    AddressUnusable = "ADDRESS_UNUSABLE", Internal, false,
        Next::Words("End the process that listens on {address}, or choose another address with --http");
    /// A file that was to be written exists.
    FileExists = "FILE_EXISTS", Conflict, false,
        Next::Words("Add --force to replace {path}, or choose another name");
    /// A file of a host cannot be read as what it should be, or not be changed.
    HostFileInvalid = "HOST_FILE_INVALID", Validation, false,
        Next::Words("Correct {path} by hand: midex left it as it is");
    /// The command line is wrong.
    UsageInvalid = "USAGE_INVALID", Validation, false,
        Next::Words("Run `midex --help`");
    /// A fault of midex itself.
    Internal = "INTERNAL", Internal, true,
        Next::Call(again("if it fails again, report the correlation_id with the log"));
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of midex: a code with a message and context. It is one machine word wide.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    message: String,
    context: Map<String, Value>,
    violations: Vec<Violation>,
    next: Option<Next>,
    source: Option<std::sync::Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error with a message for the reader, which names the thing and the place and has no full stop.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            context: Map::new(),
            violations: Vec::new(),
            next: None,
            source: None,
        }))
    }

    /// A fault of midex itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Something exceeds `limit`, which the reader is told.
    pub fn limit(limit: impl Into<String>) -> Self {
        let limit = limit.into();
        Self::new(Code::LimitExceeded, &*limit).with("limit", limit.clone())
    }

    /// Adds an identifier to the context: `execution_id`, `workflow_state`, `step_id`, `path`, `line`…
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.context.insert(name.to_owned(), value.into());
        self
    }

    /// Names the tool whose call was refused, unless the context names one already.
    #[must_use]
    pub fn during(self, tool: &str) -> Self {
        if self.0.context.contains_key("tool") {
            return self;
        }
        self.with("tool", tool)
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
    pub fn with_next_of(mut self, code: Code) -> Self {
        self.0.next = Some(code.next());
        self
    }

    /// Replaces the next call with words, for the command line and for peers that break the protocol.
    #[must_use]
    pub fn with_action(mut self, action: &'static str) -> Self {
        self.0.next = Some(Next::Words(action));
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Adds the cause for the log; it never reaches the wire.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
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
            Next::Words(words) => return fill_words(words, context),
            Next::Verbatim(words) => return words,
            Next::WhileOpen(_) | Next::ByPause if self.has_ended() => ENDED,
            Next::ByState(_, call) if self.has_ended() => call,
            Next::Call(call) | Next::WhileOpen(call) | Next::ByState(call, _) => call,
            Next::ByPause => self.call_that_lifts(),
        };
        call.print(context)
            .or_else(|| FALLBACK.print(context))
            .unwrap_or_default()
    }

    /// Whether the context says that the execution has ended.
    fn has_ended(&self) -> bool {
        let state = self.context("workflow_state").and_then(Value::as_str);
        state.is_some_and(|state| FINAL.contains(&state))
    }

    /// The call that lifts the pause of the context.
    fn call_that_lifts(&self) -> NextCall {
        let reasons = self.context("pause_reasons").and_then(Value::as_array);
        let holds = |name: &str| reasons.is_some_and(|all| all.iter().any(|reason| reason == name));
        let first = PAUSES.iter().find(|(name, _)| holds(name));
        let standing = read(
            address!("current_step/{execution_id}"),
            "it says where the execution stands",
        );
        first.map_or(standing, |(_, call)| *call)
    }

    /// The wire form (S2, section 10), which is the same for every surface.
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

    /// Reads an error from its wire form, which a server of another version may have written. A code that this version does
    /// not know becomes `INTERNAL`, with its message kept.
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
        error.0.next = text("suggested_action").map(|action| Next::Verbatim(action.to_owned()));
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
        let violation = Violation {
            actual: Some("b".into()),
            ..Violation::new("/a", "type", "m")
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
            error
                .suggested_action()
                .contains("'midex://workflow/current_step/a%20b%2Fc':"),
            "{}",
            error.suggested_action()
        );
    }
}
