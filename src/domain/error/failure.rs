//! Failure codes: the reasons in `failure.code` of a failed step or execution. Codes of refused calls are a separate
//! table. Some names are in both, since what refuses a call can also fail a step. Agents, activities and workflows may
//! report codes of their own.

use std::fmt;

use super::typed::in_capitals;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $typed:literal;)*) => {
        /// A stable name of a failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailureCode { $($(#[doc = $doc])+ $name,)* }

        impl FailureCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable name, as `failure.code` and `run.failure.code` have it.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// What went wrong, in words.
            pub const fn description(self) -> &'static str { match self { $(Self::$name => concat!($($doc),+),)* } }

            /// What a person does next on the command line. Its names (`{name}`) are those of the failed call or step.
            pub const fn typed(self) -> &'static str { match self { $(Self::$name => $typed,)* } }
        }
    };
}

codes! {
    /// A model could not do its step, and gave no code of its own.
    StepFailed = "STEP_FAILED",
        "Run `midex show {execution_id}`: it says why; `midex run` begins the workflow anew";
    /// The output of a step that the server does itself breaks the step's `result`.
    OutputInvalid = "STEP_OUTPUT_INVALID",
        "Correct the `result` of the step, or what it does: `midex show {execution_id}` says what breaks it";
    /// An expression leads to nothing, or cannot be computed.
    ExpressionFailed = "EXPRESSION_FAILED",
        "Correct the expression that `midex show {execution_id}` names; where a value may be missing, write `default(…)`";
    /// The step was to be entered once more than `max_visits` allows.
    MaxVisits = "MAX_VISITS",
        "Raise `max_visits` of the step, or mend what its loop waits for, and run the workflow anew";
    /// The steps were to be entered once more than the workflow's `max_steps` allows.
    MaxSteps = "MAX_STEPS",
        "Raise `max_steps` under `limits`, or mend the loop, and run the workflow anew";
    /// Too many steps of the server followed each other without a pause.
    StepsAtOnce = "STEPS_AT_ONCE",
        "Put a step into the loop that somebody does, or a `wait`: it goes round without a pause";
    /// The user's answers lacked inputs that the step asks for, in all attempts.
    InputsMissing = "INPUTS_MISSING",
        "Run the workflow anew, and answer what the step asks for";
    /// The value of `wait` is no duration or no instant.
    WaitInvalid = "WAIT_INVALID",
        "Correct the value of `wait`: a duration such as 10s, or an instant such as 2030-01-31T09:00:00Z";
    /// The value of `foreach.in` is no list.
    NotAList = "NOT_A_LIST",
        "Correct `in` of the `foreach`: it must come to a list";
    /// A value is larger, or a list longer, than the limit.
    LimitExceeded = "LIMIT_EXCEEDED",
        "Make it less: `midex show {execution_id}` says what is too large, and names the limit";
    /// A list came in pages, and items of it may be missing.
    ListIncomplete = "LIST_INCOMPLETE",
        "Raise `max_pages` of the `paginate`, or ask for less: `midex show {execution_id}` says why items may be missing";
    /// Too few of the steps before it were completed for what `join` asks.
    JoinMissed = "JOIN_MISSED",
        "Run `midex show {execution_id}`: it says which of the steps before failed";
    /// The condition `repeat.until` did not hold within `max_attempts`.
    RepeatExhausted = "REPEAT_EXHAUSTED",
        "Raise `max_attempts` of the `repeat`, or look why its condition does not come true";
    /// The condition `repeat.until` did not hold in time.
    RepeatTimedOut = "REPEAT_TIMED_OUT",
        "Raise `timeout` of the `repeat`, or look why its condition does not come true";
    /// The step, or an attempt of the server's, took longer than its `timeout`.
    StepTimedOut = "STEP_TIMED_OUT",
        "Give it more time: with `timeout` in the step, or with --timeout where `midex call` called it";
    /// A person rejected a gate.
    GateRejected = "GATE_REJECTED",
        "Run `midex show {execution_id}`: it says who rejected it, and why; run the workflow anew once that is settled";
    /// The gate expired without an answer.
    GateExpired = "GATE_EXPIRED",
        "Run the workflow anew, and answer in time with `midex approve`; `expires` of the gate says how long it waits";
    /// The execution took longer than its workflow's `timeout`.
    WorkflowTimedOut = "WORKFLOW_TIMED_OUT",
        "Raise `timeout` of the workflow, and run it anew";
    /// The execution that this one is a child of failed.
    ParentFailed = "PARENT_FAILED",
        "Run `midex show {execution_id}`: it names the parent, whose own failure is the cause";
    /// The child was given up, or went another way.
    ChildEnded = "CHILD_ENDED",
        "Run `midex show {execution_id}`: it names the child, and `midex show` of that says how it ended";
    /// Children of children of children: more than there may be below each other.
    ChildTooDeep = "CHILD_TOO_DEEP",
        "Let fewer workflows run each other in a chain: one of them may run itself";
    /// A call of `execution.fail` ended the execution.
    FailedOnRequest = "FAILED_ON_REQUEST",
        "Run `midex show {execution_id}`: it has the reason that was given";
    /// There is no operation of that name.
    OperationNotFound = "OPERATION_NOT_FOUND",
        "Correct the name in the step's `run`: `midex call --search WORDS` finds what there is";
    /// The catalog is not there, or is disabled: nothing was sent, and the step waits for it.
    CatalogMissing = "CATALOG_MISSING",
        "Run `midex catalog list`: import or enable the catalog, and the execution goes on by itself";
    /// A secret that the step needs is not there.
    SecretMissing = "SECRET_MISSING",
        "Set the secret where the server is started and list it there with --secret-env, or write a line NAME=VALUE into the file `secrets` of your midex directory; `midex catalog headers {catalog}` names it";
    /// A secret or a header of a catalog was to go to an origin that may not have it.
    SecretNotAllowed = "SECRET_NOT_ALLOWED",
        "Run `midex catalog base-url {catalog} URL` with the address that may have its headers, or name the host under `[secrets.NAME]` in your midex.toml";
    /// The file of secrets is one that others can read, or a link.
    SecretsFileUnsafe = "SECRETS_FILE_UNSAFE",
        "Make the file of secrets one that only you can read: chmod 600";
    /// The arguments or the body of a call break the operation's parameters.
    ArgumentsInvalid = "ARGUMENTS_INVALID",
        "Give each argument with --with NAME=VALUE; `midex catalog show {catalog} {operation}` shows what there is";
    /// The operation is one that cannot be called, or the URL of its catalog is none.
    OperationUncallable = "OPERATION_UNCALLABLE",
        "Run `midex catalog show {catalog} {operation}`: it says why; `midex catalog base-url {catalog} URL` says where it is called";
    /// The URL of a call, or of a redirect, leads where nobody allowed midex to call.
    AddressRefused = "ADDRESS_REFUSED",
        "Run `midex catalog allow {catalog} HOST:PORT`, if that address is meant";
    /// The other side redirects the call to where it cannot follow.
    RedirectRefused = "REDIRECT_REFUSED",
        "Run `midex catalog allow {catalog} HOST:PORT`, if that address is meant";
    /// The service answered with a status that is no success: 404 is `HTTP_404`.
    Http = "HTTP_NNN",
        "Correct what the service says; `midex show {execution_id}` shows the call again";
    /// The service could not be reached, or broke the connection off.
    Network = "NETWORK",
        "Look whether the service is there, and whether it has done what was asked; then do it again";
    /// An activity panicked.
    Panic = "PANIC",
        "Run `midex show {execution_id}`: it has the message, which is for whoever wrote the activity";
    /// An activity or an operation is not there any more.
    NotFound = "NOT_FOUND",
        "Start the program that has it, and run the workflow anew";
    /// This midex cannot do a step of this kind.
    NotSupported = "NOT_SUPPORTED",
        "Run the workflow with the program that can do the step";
    /// The call was given up: nobody waited for its answer any more.
    Cancelled = "CANCELLED",
        "Run `midex show {execution_id}`: it says what gave the step up";
    /// A fault of midex itself.
    Internal = "INTERNAL",
        "Run `midex show {execution_id}`: it has what is known; report it with the log of the server";
}

impl FailureCode {
    /// The code with this name. Any HTTP status, such as `HTTP_404`, is [`FailureCode::Http`].
    pub fn parse(text: &str) -> Option<Self> {
        let is_status =
            |digits: &str| digits.len() == 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
        if text.strip_prefix("HTTP_").is_some_and(is_status) {
            return Some(Self::Http);
        }
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

/// Failure classes. Each covers several codes, or failures whose code has another name. The classes of HTTP statuses,
/// such as `http_4xx`, are not listed.
const CLASSES: [&str; 6] = [
    "timeout",
    "network",
    "too_large",
    "incomplete",
    "child",
    "uncallable",
];

/// The HTTP statuses that count as a failure of a call.
pub const FAILED_STATUSES: std::ops::RangeInclusive<u16> = 300..=599;

/// All classes and codes, without those of HTTP statuses.
pub fn failure_words() -> impl Iterator<Item = &'static str> {
    let codes = FailureCode::ALL
        .iter()
        .filter(|code| **code != FailureCode::Http);
    CLASSES.into_iter().chain(codes.map(|code| code.as_str()))
}

/// Normalises a word of `retry.on` to a code or class, ignoring case: `503` and `http_503` become `HTTP_503`, `5xx`
/// becomes `http_5xx`, `connection` becomes `network`. `None` for unknown words.
pub fn failure_named(word: &str) -> Option<String> {
    let word = word.trim().to_ascii_lowercase();
    let status = word.strip_prefix("http_").unwrap_or(&word);
    match (status, status.parse::<u16>()) {
        (_, Ok(number)) if FAILED_STATUSES.contains(&number) => Some(format!("HTTP_{number}")),
        ("3xx" | "4xx" | "5xx", _) => Some(format!("http_{status}")),
        ("connection", _) => Some("network".to_owned()),
        _ => failure_words()
            .find(|known| known.eq_ignore_ascii_case(&word))
            .map(str::to_owned),
    }
}

/// The class of a code, if it has one besides its own name.
pub fn class_of_failure(code: &str) -> Option<String> {
    match code.strip_prefix("HTTP_") {
        Some(status) if status.len() == 3 => Some(format!(
            "http_{}xx",
            &status[..status.floor_char_boundary(1)]
        )),
        _ => (code == FailureCode::StepTimedOut.as_str()).then(|| "timeout".to_owned()),
    }
}

impl FailureCode {
    /// The advice of [`FailureCode::typed`] for documentation, with placeholder names in capitals.
    pub fn what_to_do(self) -> String {
        in_capitals(self.typed())
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<FailureCode> for String {
    fn from(code: FailureCode) -> Self {
        code.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::limits;

    #[test]
    fn codes_are_distinct_and_fit() {
        let names: BTreeSet<_> = FailureCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), FailureCode::ALL.len());
        assert!(
            names
                .iter()
                .all(|name| name.len() <= limits::FAILURE_CODE_BYTES_MAX)
        );
        for code in FailureCode::ALL {
            let words = code.typed();
            assert!(
                !words.ends_with('.') && words.matches('`').count() % 2 == 0,
                "{code}: {words}"
            );
        }
    }

    #[test]
    fn a_status_is_a_code() {
        assert_eq!(FailureCode::parse("HTTP_404"), Some(FailureCode::Http));
        assert_eq!(FailureCode::parse("HTTP_4xx"), None);
        assert_eq!(FailureCode::parse("NETWORK"), Some(FailureCode::Network));
    }
}
