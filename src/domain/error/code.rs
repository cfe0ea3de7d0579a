//! The table of codes: category, stage, retryability, and the next call of each.

use serde::Serialize;

use super::next::{Next, NextCall, address, again, call, corrected, read};

/// The kind of an error.
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

/// How far a call came before it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// What was sent could not be read.
    Parse,
    /// It was read, and breaks a rule.
    Validation,
    /// It was sound, and files or the database stood in the way.
    Storage,
    /// What provides the values of inputs failed.
    Provider,
    /// The execution, or what it follows, stood in the way.
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

            /// How far the call came.
            pub const fn stage(self) -> Stage { match self { $(Self::$name => Stage::$stage,)* } }

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

/// The current name of a code that was renamed.
fn renamed(text: &str) -> &str {
    match text {
        "WORKFLOW_INVALID" | "DEFINITION_INVALID" => Code::WorkflowValidationFailed.as_str(),
        text => text,
    }
}

/// The argument that passes the execution id in a next call.
pub(super) const BY_ID: &[(&str, &str)] = &[("execution_id", "{execution_id}")];
/// The instruction of a next call whose reply contains a live token.
const PASS: &str = "pass its continuation_token unchanged to workflow.next_step";
/// The next call for an execution that has ended.
pub(super) const ENDED: NextCall = read(
    address!("step_history/{execution_id}"),
    "it has what came of every step; workflow.start begins anew",
);
codes! {
    /// The token is not one that midex could have issued.
    TokenMalformed = "TOKEN_MALFORMED", Validation, Parse, false,
        Next::Call(call("execution.resume", &[], "it shows what is open, each step with a live token to be passed unchanged"));
    /// The token claims to be issued later than now.
    TokenFromFuture = "TOKEN_FROM_FUTURE", Validation, Validation, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), PASS));
    /// The token is well-formed but was never issued by this execution.
    TokenMismatch = "TOKEN_MISMATCH", Conflict, Engine, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), PASS));
    /// The token was replaced by a newer one, or its step was closed without it.
    TokenSuperseded = "TOKEN_SUPERSEDED", Conflict, Engine, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), PASS));
    /// The token outlived its time.
    TokenExpired = "TOKEN_EXPIRED", Conflict, Engine, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), "that renews the token; pass its continuation_token unchanged to workflow.next_step"));
    /// The token was used before, with another output.
    TokenAlreadyUsed = "TOKEN_ALREADY_USED", Conflict, Engine, false,
        Next::WhileOpen(read(address!("current_step/{execution_id}"), "go on from the step that it shows"));
    /// No execution has this id.
    ExecutionNotFound = "EXECUTION_NOT_FOUND", NotFound, Engine, false,
        Next::Call(call("execution.list", &[("project", "*")], "use an id that it shows"));
    /// Another execution has this id.
    ExecutionIdTaken = "EXECUTION_ID_TAKEN", Conflict, Engine, false,
        Next::ByState(
            read(address!("current_step/{execution_id}"), "it goes on with that execution; workflow.start without execution_id begins another"),
            again("the one of that id has ended").of("workflow.start").with(&[("execution_id", "{execution_id}-2")]));
    /// The execution is paused.
    ExecutionPaused = "EXECUTION_PAUSED", Conflict, Engine, false,
        Next::ByPause;
    /// The execution has ended.
    ExecutionFinished = "EXECUTION_FINISHED", Conflict, Engine, false,
        Next::Call(ENDED);
    /// The seven states do not allow this change.
    StateTransitionRefused = "STATE_TRANSITION_REFUSED", Conflict, Engine, false,
        Next::ByPause;
    /// Only the user may answer, and the client has not asked the user.
    UserAlone = "USER_ALONE", Conflict, Engine, false,
        Next::Call(call("execution.wait", BY_ID, "it answers when that is done; where this client can show forms, handing in an empty output asks the user here")
            .after("run `midex run {workflow} --id {execution_id}[ --data-dir '{data_dir}']` in a terminal"));
    /// A call brought answers without the state that shows which call they belong to.
    RequestStateMissing = "REQUEST_STATE_MISSING", Validation, Validation, false,
        Next::Call(again("inputResponses come with the requestState of the answer that asked for them; without either the call begins anew"));
    /// No such gate waits for an answer.
    GateNotOpen = "GATE_NOT_OPEN", Conflict, Engine, false,
        Next::Call(read(address!("workflow_status/{execution_id}"), "what waits for a person stands in waits"));
    /// The question of the gate is no longer the one that the person was shown.
    GateChanged = "GATE_CHANGED", Conflict, Engine, false,
        Next::Call(read(address!("workflow_status/{execution_id}"), "show the person what the gate asks now, and send the answer to that"));
    /// The outcome of the step is known, or the call does not say which of its items it means.
    OutcomeKnown = "OUTCOME_KNOWN", Conflict, Engine, false,
        Next::WhileOpen(read(address!("workflow_status/{execution_id}"), "the steps of which nobody knows what came stand in waits"));
    /// The step's output breaks the step's schema.
    StepOutputInvalid = "STEP_OUTPUT_INVALID", Validation, Validation, false,
        Next::Call(again("correct every violation of the output; the token stays valid"));
    /// The choice is none of the options that were offered.
    ChoiceUnknown = "CHOICE_UNKNOWN", Validation, Validation, false,
        Next::Call(again("choose an id that `choices` lists, or leave `choice` out; the token stays valid"));
    /// The arguments break the tool's schema.
    ArgumentsInvalid = "ARGUMENTS_INVALID", Validation, Parse, false,
        Next::Call(corrected("correct every violation"));
    /// The inputs of a start break the rules of the workflow's inputs.
    InputsInvalid = "INPUTS_INVALID", Validation, Validation, false,
        Next::Call(again("correct every violation; midex://workflow/workflow_details/{workflow} has the inputs that it takes"));
    /// No workflow has this name.
    WorkflowNotFound = "WORKFLOW_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call("workflow.list", &[("brief", "true")], "use one of its names"));
    /// The workflow's definition has findings.
    WorkflowValidationFailed = "WORKFLOW_VALIDATION_FAILED", Validation, Validation, false,
        Next::Call(again("correct every violation of the manifest; workflow.validate shows them all"));
    /// A workflow of this name is there already.
    WorkflowAlreadyExists = "WORKFLOW_ALREADY_EXISTS", Conflict, Storage, false,
        Next::Call(call("workflow.get", &[("workflow_id", "{workflow_id}")], "make the change in what it shows, and save that with its version as expected_version; or choose another id"));
    /// The file is no longer the one that the caller has read.
    VersionConflict = "VERSION_CONFLICT", Conflict, Storage, false,
        Next::Call(call("workflow.get", &[("workflow_id", "{workflow_id}")], "make the change in what it shows, and send its version as expected_version"));
    /// The name is none that a workflow's file can have.
    IdentifierInvalid = "IDENTIFIER_INVALID", Validation, Validation, false,
        Next::Call(again("choose a name of letters, digits, `_`, `.` and `-` that begins with a letter or a digit"));
    /// The workflow lies where the authoring tools do not write.
    WorkflowNotWritable = "WORKFLOW_NOT_WRITABLE", Conflict, Storage, false,
        Next::Call(call("workflow.get", &[("workflow_id", "{workflow_id}")], "save a copy of it under another name, or have the file edited"));
    /// What cannot be undone was not confirmed.
    ConfirmationRequired = "CONFIRMATION_REQUIRED", Conflict, Validation, false,
        Next::Call(again("once they have said yes; a client that can show forms asks them by itself").after("decide whether that is to be done"));
    /// The workflow comes with a project, does more than lead a model and read, and the user has not said that they trust the
    /// project.
    ProjectNotTrusted = "PROJECT_NOT_TRUSTED", Conflict, Engine, false,
        Next::Call(again("it can start then").after("read what the workflow does, and to run `midex trust {project_word}` in a terminal if they trust that project"));
    /// No catalog has this id or title.
    CatalogNotFound = "CATALOG_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call("catalog.list", &[], "use a catalog_id that it shows"));
    /// A catalog of this title is there already.
    CatalogConflict = "CATALOG_CONFLICT", Conflict, Storage, false,
        Next::Call(again("it replaces the document and keeps the settings; or choose another catalog_title").of("catalog.import_openapi").with(&[("overwrite", "true")]));
    /// The workflow requires a catalog that is not there.
    CatalogMissing = "CATALOG_MISSING", Conflict, Engine, false,
        Next::Call(again("it can start then").after("have the catalog imported with {import}"));
    /// A document lies where tools may not read.
    SourceRefused = "SOURCE_REFUSED", Validation, Validation, false,
        Next::Call(again("name a document in the project; or have the user start midex with `--import-from` and its directory, or run `midex catalog add {path}`"));
    /// The document of a catalog cannot be imported.
    OpenapiInvalid = "OPENAPI_INVALID", Validation, Validation, false,
        Next::Call(again("choose another document, or have this one corrected: every violation says where"));
    /// No operation or workflow has this name.
    CommandNotFound = "COMMAND_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call("command.list", &[("query", "{words}")], "use the id of one that it shows"));
    /// The tool is not the one for commands of this class, or only the user may say that the class is another.
    CommandClassRefused = "COMMAND_CLASS_REFUSED", Conflict, Validation, false,
        Next::Call(call("{tool}", &[("id", "{id}")], "if your user wants what it does; the other arguments stay as they were"));
    /// A command was called and did not do what was asked.
    CommandFailed = "COMMAND_FAILED", Execution, Engine, false,
        Next::Call(again("correct what the answer of the service says"));
    /// A secret would go where only the user may send it.
    SecretNotAllowed = "SECRET_NOT_ALLOWED", Validation, Validation, false,
        Next::Call(again("without the secret, if your user does not want that").after("run `midex catalog headers` in a terminal: it gives a catalog a secret by its name, for the address that it is called at"));
    /// No tool has this name.
    ToolNotFound = "TOOL_NOT_FOUND", NotFound, Validation, false,
        Next::Call(call("execution.resume", &[], "it shows what is open; the tools are {tools}"));
    /// No resource has this address.
    ResourceNotFound = "RESOURCE_NOT_FOUND", NotFound, Validation, false,
        Next::Call(read(address!("{address}"), "if that is what was meant"));
    /// No prompt has this name.
    PromptNotFound = "PROMPT_NOT_FOUND", NotFound, Validation, false,
        Next::Words("Use one of the prompts that prompts/list shows");
    /// The request is no message that the server accepts.
    RequestInvalid = "REQUEST_INVALID", Validation, Parse, false,
        Next::Words("Send one JSON-RPC 2.0 message: over lines as one line, over HTTP as the body of a POST with `Content-Type: application/json` and `Accept: application/json, text/event-stream`");
    /// The parameters of a method are not those that the protocol has.
    ParamsInvalid = "PARAMS_INVALID", Validation, Parse, false,
        Next::Words("Correct the params of the request: the protocol says what its method takes");
    /// The protocol has no such method here.
    MethodNotFound = "METHOD_NOT_FOUND", NotFound, Parse, false,
        Next::Words("Send a method of what the answer to initialize or server/discover offers");
    /// The request carries no bearer token, or a wrong one.
    Unauthorized = "UNAUTHORIZED", Validation, Validation, false,
        Next::Words("Send the header `Authorization: Bearer` with the token of the file that the server was started with");
    /// The host name or the origin of the request is not allowed.
    Forbidden = "FORBIDDEN", Validation, Validation, false,
        Next::Words("Call the server by the address it listens on, or start it with `--http-host` for the name you call it by");
    /// The session has ended, or never was.
    SessionNotFound = "SESSION_NOT_FOUND", NotFound, Engine, false,
        Next::Words("Send initialize without a session id and go on in the new session: executions do not depend on sessions");
    /// The caller has cancelled the call, or has disconnected.
    Cancelled = "CANCELLED", Execution, Engine, true,
        Next::Call(again("if its answer is wanted after all"));
    /// The server works on as many calls as it may.
    ServerBusy = "SERVER_BUSY", Execution, Engine, true,
        Next::Call(again("in a second"));
    /// Something exceeds its limit.
    LimitExceeded = "LIMIT_EXCEEDED", Validation, Validation, false,
        Next::Call(again("send less; {limit}"));
    /// Another process owns the data directory.
    StoreBusy = "STORE_BUSY", Conflict, Storage, true,
        Next::Call(again("in a second; if it stays so, the process that uses {data_dir} does not answer, and the user must end it: `midex doctor` names it"));
    /// The store could not write or read just now.
    StoreUnavailable = "STORE_UNAVAILABLE", Execution, Storage, true,
        Next::Call(again("in a second; nothing that was acknowledged is lost"));
    /// The file system of the database has no room.
    StoreFull = "STORE_FULL", Execution, Storage, true,
        Next::Call(again("nothing that was acknowledged is lost").after("free at least {needed_mib} MiB on the file system of {path}"));
    /// Another writer moved the execution on.
    RevisionConflict = "REVISION_CONFLICT", Conflict, Storage, true,
        Next::Call(again(""));
    /// The database is damaged.
    StoreCorrupt = "STORE_CORRUPT", Internal, Storage, false,
        Next::Call(again("")
            .after("restore {path} from a backup, or start with another --data-dir; midex does not replace a damaged database"));
    /// The database was written by a later version.
    StoreTooNew = "STORE_TOO_NEW", Internal, Storage, false,
        Next::Call(again("").after("use the version of midex that wrote {path}, or another --data-dir"));
    /// The database was written by a build before the first release.
    StoreFormat = "STORE_FORMAT", Internal, Storage, false,
        Next::Call(again("").after("choose another --data-dir, or move {path} away: midex then begins a new database in its place"));
    /// The database was removed, replaced or cut while it was open.
    StoreLost = "STORE_LOST", Internal, Storage, false,
        Next::Call(again("").after("end that midex, put {path} back from where it was moved to or from a backup, and start midex again: it goes on with the file that it finds there, or begins an empty one"));
    /// The server is shutting down.
    ServerStopping = "SERVER_STOPPING", Execution, Engine, true,
        Next::Call(again("the next server on this data directory answers it"));
    /// The execution's state cannot be loaded or its actor keeps dying.
    EngineFault = "ENGINE_FAULT", Internal, Engine, false,
        Next::Call(call("execution.resume", BY_ID, "it is tried again; midex://workflow/step_history/{execution_id} has what is known"));
    /// The URL of a document or of a call leads where nobody allowed midex to call, or is none.
    AddressRefused = "ADDRESS_REFUSED", Validation, Parse, false,
        Next::Call(again("name another URL, or wait until the address is allowed").after("start midex with `--import-from {host}`, or save the document into a file of the project, if that address is meant"));
    /// A document could not be fetched.
    FetchFailed = "FETCH_FAILED", Execution, Storage, true,
        Next::Call(again("in a while; or save the document into a file of the project and name that"));
    /// A file could not be read or written.
    FileUnusable = "FILE_UNUSABLE", Internal, Storage, false,
        Next::Call(again("").after("make {path} readable and writable for this user, or choose another directory"));
    /// An address cannot be listened on.
    AddressUnusable = "ADDRESS_UNUSABLE", Internal, Engine, false,
        Next::Words("End the process that listens on {address}, or choose another address with --http");
    /// A file that was to be written exists.
    FileExists = "FILE_EXISTS", Conflict, Storage, false,
        Next::Words("Add --force to replace {path}, or choose another name");
    /// A file of a host cannot be read as what it should be, or not be changed.
    HostFileInvalid = "HOST_FILE_INVALID", Validation, Storage, false,
        Next::Words("Correct {path} by hand: midex left it as it is");
    /// The command line is wrong.
    UsageInvalid = "USAGE_INVALID", Validation, Parse, false,
        Next::Words("Run `midex --help`");
    /// A fault of midex itself.
    Internal = "INTERNAL", Internal, Engine, true,
        Next::Call(again("if it fails again, report the correlation_id with the log"));
}
