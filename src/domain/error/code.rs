//! The table of codes: category, stage, retryability, and the next call of each.

use serde::Serialize;

use super::next::{
    Next, NextCall, address, call_tool, read_resource, repeat_call, repeat_corrected_call,
};

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The request breaks a rule; sending it again will not help.
    Validation,
    /// The thing named does not exist.
    NotFound,
    /// What the request names has changed, or another caller holds it.
    Conflict,
    /// The execution or the server cannot do it now.
    Execution,
    /// A fault of midex or of the machine.
    Internal,
}

/// The stage of a call at which it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The request could not be parsed.
    Parse,
    /// The request was parsed, and breaks a rule.
    Validation,
    /// The request is valid; a file or the database prevented it.
    Storage,
    /// A provider of input values failed.
    Provider,
    /// The state of the execution prevented it.
    Engine,
}

/// Defines an enum of error or failure codes, each with its stable name and its text for the documentation.
macro_rules! names {
    ($(#[$about:meta])* $kind:ident; $($(#[doc = $doc:literal])+ $name:ident = $text:literal,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind { $($(#[doc = $doc])+ $name,)* }

        impl $kind {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable name that callers match on.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// What went wrong, in words.
            pub const fn description(self) -> &'static str { match self { $(Self::$name => concat!($($doc),+),)* } }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(super) use names;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $category:ident, $stage:ident, $retryable:literal, $next:expr;)*) => {
        names! {
            /// What went wrong, as a stable name. The table behind it is the only one in midex.
            Code; $($(#[doc = $doc])+ $name = $text,)*
        }

        impl Code {
            /// The kind of the error.
            pub const fn category(self) -> Category { match self { $(Self::$name => Category::$category,)* } }

            /// The stage at which the call failed.
            pub const fn stage(self) -> Stage { match self { $(Self::$name => Stage::$stage,)* } }

            /// Whether the same call may succeed later.
            pub const fn retryable(self) -> bool { match self { $(Self::$name => $retryable,)* } }

            /// The code of this name, or of one that it had in an earlier version.
            pub fn parse(text: &str) -> Option<Self> {
                let text = renamed(text);
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// Whether there is no such execution, or no longer.
            pub const fn is_missing_execution(self) -> bool {
                matches!(self, Self::ExecutionNotFound | Self::ExecutionDeleted)
            }

            /// What to do next.
            pub const fn next(self) -> Next { match self { $(Self::$name => $next,)* } }
        }
    };
}

/// The current name of a code that was renamed.
fn renamed(text: &str) -> &str {
    match text {
        "WORKFLOW_INVALID" | "DEFINITION_INVALID" => Code::WorkflowValidationFailed.as_str(),
        text => text,
    }
}

/// The argument that passes the execution id in a next call.
pub(crate) const EXECUTION_ID_ARGUMENT: &[(&str, &str)] = &[("execution_id", "{execution_id}")];
/// The instruction of a next call whose reply contains a live token.
const PASS_TOKEN_INSTRUCTION: &str = "pass its continuation_token unchanged to workflow.next_step";
/// The next call for an execution that has ended.
pub(super) const EXECUTION_ENDED_NEXT_CALL: NextCall = read_resource(
    address!("step_history/{execution_id}"),
    "it shows the result of every step; workflow.start starts a new execution",
);
/// The next call for an execution that failed.
pub(super) const RETRY_NEXT_CALL: NextCall = call_tool(
    "execution.retry",
    EXECUTION_ID_ARGUMENT,
    "it continues in a new execution: finished steps are kept, and the step that failed is open again",
);
codes! {
    /// The token does not have the form of a midex token.
    TokenMalformed = "TOKEN_MALFORMED", Validation, Parse, false,
        Next::Call(call_tool("execution.resume", &[], "it lists the open steps, each with a valid token to pass unchanged"));
    /// The token has an issue time in the future.
    TokenFromFuture = "TOKEN_FROM_FUTURE", Validation, Validation, false,
        Next::WhileOpen(read_resource(address!("current_step/{execution_id}"), PASS_TOKEN_INSTRUCTION));
    /// The token is well-formed but was never issued by this execution.
    TokenMismatch = "TOKEN_MISMATCH", Conflict, Engine, false,
        Next::WhileOpen(read_resource(address!("current_step/{execution_id}"), PASS_TOKEN_INSTRUCTION));
    /// The token was replaced by a newer one, or its step was closed without it.
    TokenSuperseded = "TOKEN_SUPERSEDED", Conflict, Engine, false,
        Next::WhileOpen(read_resource(address!("current_step/{execution_id}"), PASS_TOKEN_INSTRUCTION));
    /// The token has expired.
    TokenExpired = "TOKEN_EXPIRED", Conflict, Engine, false,
        Next::WhileOpen(read_resource(address!("current_step/{execution_id}"), "it renews the token; pass its continuation_token unchanged to workflow.next_step"));
    /// The token was already used with another output.
    TokenAlreadyUsed = "TOKEN_ALREADY_USED", Conflict, Engine, false,
        Next::WhileOpen(read_resource(address!("current_step/{execution_id}"), "continue with the step that it shows"));
    /// No execution has this id.
    ExecutionNotFound = "EXECUTION_NOT_FOUND", NotFound, Engine, false,
        Next::Call(call_tool("execution.list", &[("project", "*")], "use an id that it shows"));
    /// The execution was deleted. Its id cannot be used again for seven days.
    ExecutionDeleted = "EXECUTION_DELETED", NotFound, Engine, false,
        Next::Call(call_tool("execution.list", &[("project", "*")], "use an id that it shows, or start a new execution under another id"));
    /// The execution cannot be deleted: it, its parent, a child or a fork of it has not ended.
    ExecutionStillOpen = "EXECUTION_STILL_OPEN", Conflict, Engine, false,
        Next::Call(read_resource(address!("workflow_status/{execution_id}"), "it says what that execution waits for; delete once it has ended"));
    /// Another execution has this id already.
    ExecutionIdTaken = "EXECUTION_ID_TAKEN", Conflict, Engine, false,
        Next::ByState(
            read_resource(address!("current_step/{execution_id}"), "it continues that execution; workflow.start without execution_id starts a new one"),
            repeat_call("the execution with that id has ended").with_tool("workflow.start").with_arguments(&[("execution_id", "{execution_id}-2")]));
    /// The execution is paused.
    ExecutionPaused = "EXECUTION_PAUSED", Conflict, Engine, false,
        Next::ByPause;
    /// The execution has ended.
    ExecutionFinished = "EXECUTION_FINISHED", Conflict, Engine, false,
        Next::WhileOpen(EXECUTION_ENDED_NEXT_CALL);
    /// The state of the execution does not allow this change.
    StateTransitionRefused = "STATE_TRANSITION_REFUSED", Conflict, Engine, false,
        Next::ByPause;
    /// Only the user may answer, and the client has not asked the user.
    UserAlone = "USER_ALONE", Conflict, Engine, false,
        Next::Call(call_tool("execution.wait", EXECUTION_ID_ARGUMENT, "it returns when that is done; if this client can show forms, an empty output asks the user here")
            .after_person_does("run `midex run {workflow} --id {execution_id}[ --data-dir '{data_dir}']` in a terminal"));
    /// A call has inputResponses without the requestState that identifies the original call.
    RequestStateMissing = "REQUEST_STATE_MISSING", Validation, Validation, false,
        Next::Call(repeat_call("send inputResponses with the requestState of the answer that asked for them, or neither to start over"));
    /// No gate with this name is waiting for an answer.
    GateNotOpen = "GATE_NOT_OPEN", Conflict, Engine, false,
        Next::Call(read_resource(address!("workflow_status/{execution_id}"), "`waits` lists what waits for a person"));
    /// The gate has changed since its question was shown to the person.
    GateChanged = "GATE_CHANGED", Conflict, Engine, false,
        Next::Call(read_resource(address!("workflow_status/{execution_id}"), "show the person what the gate asks now, and send their answer to that"));
    /// The outcome of the step is known, or the call does not say which item it means.
    OutcomeKnown = "OUTCOME_KNOWN", Conflict, Engine, false,
        Next::WhileOpen(read_resource(address!("workflow_status/{execution_id}"), "`waits` lists the steps whose outcome is unknown"));
    /// The step's output does not match the step's schema.
    StepOutputInvalid = "STEP_OUTPUT_INVALID", Validation, Validation, false,
        Next::Call(repeat_call("correct every violation of the output; the token stays valid"));
    /// The choice is not one of the options that the step offered.
    ChoiceUnknown = "CHOICE_UNKNOWN", Validation, Validation, false,
        Next::Call(repeat_call("choose an id from `choices`, or omit `choice`; the token stays valid"));
    /// The arguments do not match the tool's schema.
    ArgumentsInvalid = "ARGUMENTS_INVALID", Validation, Parse, false,
        Next::Call(repeat_corrected_call("correct every violation"));
    /// The inputs do not match what the workflow declares.
    InputsInvalid = "INPUTS_INVALID", Validation, Validation, false,
        Next::Call(repeat_call("correct every violation; midex://workflow/workflow_details/{workflow} lists its inputs"));
    /// No workflow has this name.
    WorkflowNotFound = "WORKFLOW_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call_tool("workflow.list", &[("brief", "true")], "use one of its names"));
    /// The workflow's definition has errors.
    WorkflowValidationFailed = "WORKFLOW_VALIDATION_FAILED", Validation, Validation, false,
        Next::Call(repeat_call("correct every violation of the manifest; workflow.validate lists them all"));
    /// A workflow with this name exists already.
    WorkflowAlreadyExists = "WORKFLOW_ALREADY_EXISTS", Conflict, Storage, false,
        Next::Call(call_tool("workflow.get", &[("workflow_id", "{workflow_id}")], "change the text that it returns, and save it with its version as expected_version; or choose another id"));
    /// The file has changed since the caller read it.
    VersionConflict = "VERSION_CONFLICT", Conflict, Storage, false,
        Next::Call(call_tool("workflow.get", &[("workflow_id", "{workflow_id}")], "change the text that it returns, and send its version as expected_version"));
    /// The name is not valid for a workflow file.
    IdentifierInvalid = "IDENTIFIER_INVALID", Validation, Validation, false,
        Next::Call(repeat_call("choose a name of letters, digits, `_`, `.` and `-` that begins with a letter or a digit"));
    /// The workflow is in a directory that the authoring tools do not write to.
    WorkflowNotWritable = "WORKFLOW_NOT_WRITABLE", Conflict, Storage, false,
        Next::Call(call_tool("workflow.get", &[("workflow_id", "{workflow_id}")], "save a copy of it under another name, or edit the file itself"));
    /// The change cannot be undone, and nobody has confirmed it.
    ConfirmationRequired = "CONFIRMATION_REQUIRED", Conflict, Validation, false,
        Next::Call(repeat_call("after they have agreed; a client that can show forms asks them itself").after_person_does("decide whether to do this"));
    /// The workflow belongs to a project that the user has not trusted, and does more than instruct a model and read.
    ProjectNotTrusted = "PROJECT_NOT_TRUSTED", Conflict, Engine, false,
        Next::Call(repeat_call("it can start then").after_person_does("read what the workflow does, and run `midex trust {project_word}` in a terminal if they trust the project"));
    /// No catalog has this id or title.
    CatalogNotFound = "CATALOG_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call_tool("catalog.list", &[], "use a catalog_id that it shows"));
    /// A catalog with this title exists already.
    CatalogConflict = "CATALOG_CONFLICT", Conflict, Storage, false,
        Next::Call(repeat_call("it replaces the document and keeps the settings; or choose another catalog_title").with_tool("catalog.import_openapi").with_arguments(&[("overwrite", "true")]));
    /// The workflow requires a catalog that is missing or disabled.
    CatalogMissing = "CATALOG_MISSING", Conflict, Engine, false,
        Next::Call(repeat_call("it can start then").after_person_does("import the catalog with {import}"));
    /// The document is in a place that tools may not read.
    SourceRefused = "SOURCE_REFUSED", Validation, Validation, false,
        Next::Call(repeat_call("name a document in the project; or have the user start midex with `--import-from` and its directory, or run `midex catalog add {path}`"));
    /// The OpenAPI document cannot be imported.
    OpenapiInvalid = "OPENAPI_INVALID", Validation, Validation, false,
        Next::Call(repeat_call("choose another document, or correct this one: every violation has its place"));
    /// No operation or workflow has this name.
    CommandNotFound = "COMMAND_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call_tool("command.list", &[("query", "{words}")], "use an id that it shows"));
    /// The command belongs to a class that another tool calls, or only the user may change its class.
    CommandClassRefused = "COMMAND_CLASS_REFUSED", Conflict, Validation, false,
        Next::Call(call_tool("{tool}", &[("id", "{id}")], "if your user wants its effect; leave the other arguments as they were"));
    /// The command was called and failed.
    CommandFailed = "COMMAND_FAILED", Execution, Engine, false,
        Next::Call(repeat_call("correct what the service reports"));
    /// The execution that the call started or continues has failed.
    RunFailed = "RUN_FAILED", Execution, Engine, false,
        Next::Call(RETRY_NEXT_CALL);
    /// The tool works as a task, and the client does not support tasks.
    TaskCapabilityRequired = "TASK_CAPABILITY_REQUIRED", Execution, Engine, false,
        Next::Words("Connect with a tasks-capable MCP client; without one call workflow.save, then workflow.run");
    /// The call would send a secret to an address that only the user may allow.
    SecretNotAllowed = "SECRET_NOT_ALLOWED", Validation, Validation, false,
        Next::Call(repeat_call("without the secret, if your user declines").after_person_does("run `midex catalog headers` in a terminal: it adds a secret to the headers of a catalog, for the catalog's own address"));
    /// No tool has this name.
    ToolNotFound = "TOOL_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call_tool("execution.resume", &[], "it lists what is open; the tools are {tools}"));
    /// No resource has this address.
    ResourceNotFound = "RESOURCE_NOT_FOUND", NotFound, Validation, false,
        Next::Call(read_resource(address!("{address}"), "if that is the one meant"));
    /// No prompt has this name.
    PromptNotFound = "PROMPT_NOT_FOUND", NotFound, Validation, false,
        Next::Words("Use one of the prompts that prompts/list shows");
    /// The request is not a valid JSON-RPC message.
    RequestInvalid = "REQUEST_INVALID", Validation, Parse, false,
        Next::Words("Send one JSON-RPC 2.0 message: over lines as one line, over HTTP as the body of a POST with `Content-Type: application/json` and `Accept: application/json, text/event-stream`");
    /// The parameters do not match the protocol's method.
    ParamsInvalid = "PARAMS_INVALID", Validation, Parse, false,
        Next::Words("Correct the params of the request: the MCP specification lists the parameters of the method");
    /// The server does not support this method.
    MethodNotFound = "METHOD_NOT_FOUND", NotFound, Parse, false,
        Next::Words("Use a method that the reply to initialize or server/discover offers");
    /// The bearer token is missing or wrong.
    Unauthorized = "UNAUTHORIZED", Validation, Validation, false,
        Next::Words("Send the header `Authorization: Bearer` with the token from the file that the server was started with");
    /// The host name or the origin of the request is not allowed.
    Forbidden = "FORBIDDEN", Validation, Validation, false,
        Next::Words("Use the address that the server listens on, or start it with `--http-host` and the name that you use");
    /// The session has ended, or does not exist.
    SessionNotFound = "SESSION_NOT_FOUND", NotFound, Engine, false,
        Next::Words("Send initialize without a session id and continue in the new session: executions do not depend on sessions");
    /// The caller has cancelled the call, or has disconnected.
    Cancelled = "CANCELLED", Execution, Engine, true,
        Next::Call(repeat_call("if its answer is still needed"));
    /// The server has reached its limit of concurrent calls.
    ServerBusy = "SERVER_BUSY", Execution, Engine, true,
        Next::Call(repeat_call("in a second"));
    /// A value exceeds its limit.
    LimitExceeded = "LIMIT_EXCEEDED", Validation, Validation, false,
        Next::Call(repeat_call("send less; {limit}"));
    /// Another process owns the data directory.
    StoreBusy = "STORE_BUSY", Conflict, Storage, true,
        Next::Call(repeat_call("in a second; if this persists, the process that uses {data_dir} does not respond, and the user must end it: `midex doctor` names it"));
    /// The database could not be read or written at the moment.
    StoreUnavailable = "STORE_UNAVAILABLE", Execution, Storage, true,
        Next::Call(repeat_call("in a second; nothing that was acknowledged is lost"));
    /// The file system of the database is full.
    StoreFull = "STORE_FULL", Execution, Storage, true,
        Next::Call(repeat_call("nothing that was acknowledged is lost").after_person_does("free at least {needed_mib} MiB on the file system of {path}"));
    /// Another writer changed the execution at the same time.
    RevisionConflict = "REVISION_CONFLICT", Conflict, Storage, true,
        Next::Call(repeat_call(""));
    /// Another server owns the part of the database that the execution is in.
    ShardLost = "SHARD_LOST", Conflict, Storage, true,
        Next::Call(repeat_call("in a second; the server that owns it now answers"));
    /// The database is damaged.
    StoreCorrupt = "STORE_CORRUPT", Internal, Storage, false,
        Next::Call(repeat_call("")
            .after_person_does("restore {path} from a backup, or start midex with another --data-dir; midex does not replace a damaged database"));
    /// The database was written by a later version.
    StoreTooNew = "STORE_TOO_NEW", Internal, Storage, false,
        Next::Call(repeat_call("").after_person_does("use the version of midex that wrote {path}, or another --data-dir"));
    /// The database was written by a build before the first release.
    StoreFormat = "STORE_FORMAT", Internal, Storage, false,
        Next::Call(repeat_call("").after_person_does("choose another --data-dir, or move {path} away: midex then creates a new database in its place"));
    /// The database was removed, replaced or cut while it was open.
    StoreLost = "STORE_LOST", Internal, Storage, false,
        Next::Call(repeat_call("").after_person_does("stop that midex, put {path} back from where it was moved or from a backup, and start midex again: it continues with the file that it finds there, or creates an empty one"));
    /// The server is shutting down.
    ServerStopping = "SERVER_STOPPING", Execution, Engine, true,
        Next::Call(repeat_call("the next server on this data directory will answer"));
    /// The state of the execution cannot be loaded, or its actor failed repeatedly.
    EngineFault = "ENGINE_FAULT", Internal, Engine, false,
        Next::Call(call_tool("execution.resume", EXECUTION_ID_ARGUMENT, "it tries again; midex://workflow/step_history/{execution_id} shows what is known"));
    /// The URL is invalid, or leads to an address that midex is not allowed to call.
    AddressRefused = "ADDRESS_REFUSED", Validation, Parse, false,
        Next::Call(repeat_call("use another URL, or wait until the address is allowed").after_person_does("start midex with `--import-from {host}` if that address is right, or save the document into a file of the project"));
    /// A document could not be fetched.
    FetchFailed = "FETCH_FAILED", Execution, Storage, true,
        Next::Call(repeat_call("later; or save the document into a file of the project and name that"));
    /// A file could not be read or written.
    FileUnusable = "FILE_UNUSABLE", Internal, Storage, false,
        Next::Call(repeat_call("").after_person_does("make {path} readable and writable for this user, or choose another directory"));
    /// The server cannot listen on the address.
    AddressUnusable = "ADDRESS_UNUSABLE", Internal, Engine, false,
        Next::Words("End the process that listens on {address}, or choose another address");
    /// The file to be written exists already.
    FileExists = "FILE_EXISTS", Conflict, Storage, false,
        Next::Words("Add --force to replace {path}, or choose another name");
    /// The configuration file of an MCP host cannot be parsed or changed.
    HostFileInvalid = "HOST_FILE_INVALID", Validation, Storage, false,
        Next::Words("Correct {path} by hand: midex has not changed it");
    /// The command line is not valid.
    UsageInvalid = "USAGE_INVALID", Validation, Parse, false,
        Next::Words("Run `midex --help`");
    /// An error in midex itself.
    Internal = "INTERNAL", Internal, Engine, true,
        Next::Call(repeat_call("if it fails again, report the correlation_id and the log"));
}
