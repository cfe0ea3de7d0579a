//! Failure codes: the reasons in `failure.code` of a failed step or execution. Codes of refused calls are a separate
//! table. Some names are in both, since what refuses a call can also fail a step. Agents, activities and workflows may
//! report codes of their own.

use super::code::names;

names! {
    /// A stable name of a failure.
    FailureCode;
    /// A model reported that it cannot do its step, and gave no failure code.
    StepFailed = "STEP_FAILED",
    /// The output of a step that the server executes does not match the step's `result`.
    OutputInvalid = "STEP_OUTPUT_INVALID",
    /// An expression refers to a missing value, or cannot be evaluated.
    ExpressionFailed = "EXPRESSION_FAILED",
    /// The step would have been entered more often than `max_visits` allows.
    MaxVisits = "MAX_VISITS",
    /// The steps would have been entered more often than the workflow's `max_steps` allows.
    MaxSteps = "MAX_STEPS",
    /// Too many steps that the server executes followed each other without a pause.
    StepsAtOnce = "STEPS_AT_ONCE",
    /// The user's answers lacked required inputs in all attempts.
    InputsMissing = "INPUTS_MISSING",
    /// The value of `wait` is neither a duration nor a time.
    WaitInvalid = "WAIT_INVALID",
    /// The value of `foreach.in` is not a list.
    NotAList = "NOT_A_LIST",
    /// A value is larger, or a list is longer, than its limit.
    LimitExceeded = "LIMIT_EXCEEDED",
    /// A paginated list may be incomplete.
    ListIncomplete = "LIST_INCOMPLETE",
    /// Fewer of the earlier steps completed than `join` requires, or fewer items than `enough` requires.
    JoinMissed = "JOIN_MISSED",
    /// The condition `repeat.until` was not true within `max_attempts`.
    RepeatExhausted = "REPEAT_EXHAUSTED",
    /// The condition `repeat.until` was not true in time.
    RepeatTimedOut = "REPEAT_TIMED_OUT",
    /// The step or one of its attempts took longer than its `timeout`.
    StepTimedOut = "STEP_TIMED_OUT",
    /// A crash of the server cut the attempt off, so its outcome is unknown.
    Interrupted = "INTERRUPTED",
    /// The sender of an awaited signal gave no sign of life within `alive`.
    HeartbeatMissed = "HEARTBEAT_MISSED",
    /// A signal reported a failure, and gave no failure code.
    SignalFailed = "SIGNAL_FAILED",
    /// The value of `enough`, `tolerate` or `quorum(…)` is not a number that it may be.
    ThresholdInvalid = "THRESHOLD_INVALID",
    /// A person rejected a gate.
    GateRejected = "GATE_REJECTED",
    /// The gate expired without an answer.
    GateExpired = "GATE_EXPIRED",
    /// The execution took longer than its workflow's `timeout`.
    WorkflowTimedOut = "WORKFLOW_TIMED_OUT",
    /// The parent execution failed.
    ParentFailed = "PARENT_FAILED",
    /// The child was cancelled, or ended in another way.
    ChildEnded = "CHILD_ENDED",
    /// The expression of a `workflow` step chose a workflow that its `allow` does not name.
    ChildNotAllowed = "CHILD_NOT_ALLOWED",
    /// Child workflows are nested deeper than the limit.
    ChildTooDeep = "CHILD_TOO_DEEP",
    /// A call of `execution.fail` ended the execution.
    FailedOnRequest = "FAILED_ON_REQUEST",
    /// No operation has this name.
    OperationNotFound = "OPERATION_NOT_FOUND",
    /// The catalog is missing or disabled. Nothing was sent, and the step waits for the catalog.
    CatalogMissing = "CATALOG_MISSING",
    /// A secret that the step needs is not set.
    SecretMissing = "SECRET_MISSING",
    /// A secret or header of a catalog would have been sent to an origin that may not receive it.
    SecretNotAllowed = "SECRET_NOT_ALLOWED",
    /// The secrets file is readable by others, or is a link.
    SecretsFileUnsafe = "SECRETS_FILE_UNSAFE",
    /// The arguments or the body of a call do not match the operation's parameters, or `with` does not match
    /// `input_schema`.
    ArgumentsInvalid = "ARGUMENTS_INVALID",
    /// The operation cannot be called, or the URL of its catalog is invalid.
    OperationUncallable = "OPERATION_UNCALLABLE",
    /// The URL of a call or redirect leads to an address that midex is not allowed to call.
    AddressRefused = "ADDRESS_REFUSED",
    /// The service redirects the call to an address that cannot be followed.
    RedirectRefused = "REDIRECT_REFUSED",
    /// The service answered with an error status: 404 is `HTTP_404`.
    Http = "HTTP_NNN",
    /// The service could not be reached, or closed the connection.
    Network = "NETWORK",
    /// An activity panicked.
    Panic = "PANIC",
    /// The activity or operation no longer exists.
    NotFound = "NOT_FOUND",
    /// This process cannot execute a step of this kind.
    NotSupported = "NOT_SUPPORTED",
    /// The call was cancelled because its caller stopped waiting for it.
    Cancelled = "CANCELLED",
    /// An error in midex itself.
    Internal = "INTERNAL",
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
const FAILURE_CLASSES: [&str; 6] =
    ["timeout", "network", "too_large", "incomplete", "child", "uncallable"];

/// The HTTP statuses that count as a failure of a call.
pub const FAILED_HTTP_STATUSES: std::ops::RangeInclusive<u16> = 300..=599;

/// All classes and codes, without those of HTTP statuses.
pub fn failure_class_and_code_names() -> impl Iterator<Item = &'static str> {
    let codes = FailureCode::ALL.iter().filter(|code| **code != FailureCode::Http);
    FAILURE_CLASSES.into_iter().chain(codes.map(|code| code.as_str()))
}

/// Normalises a word of `retry.on` to a code or class, ignoring case: `503` and `http_503` become `HTTP_503`, `5xx`
/// becomes `http_5xx`, `connection` becomes `network`. `None` for unknown words.
pub fn normalize_failure_name(word: &str) -> Option<String> {
    let word = word.trim().to_ascii_lowercase();
    let status = word.strip_prefix("http_").unwrap_or(&word);
    match (status, status.parse::<u16>()) {
        (_, Ok(number)) if FAILED_HTTP_STATUSES.contains(&number) => Some(format!("HTTP_{number}")),
        ("3xx" | "4xx" | "5xx", _) => Some(format!("http_{status}")),
        ("connection", _) => Some("network".to_owned()),
        _ => failure_class_and_code_names()
            .find(|known| known.eq_ignore_ascii_case(&word))
            .map(str::to_owned),
    }
}

/// The class of a code, if it has one besides its own name.
pub fn class_of_failure(code: &str) -> Option<String> {
    match code.strip_prefix("HTTP_") {
        Some(status) if status.len() == 3 => {
            Some(format!("http_{}xx", &status[..status.floor_char_boundary(1)]))
        }
        _ => (code == FailureCode::StepTimedOut.as_str()).then(|| "timeout".to_owned()),
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
        assert!(names.iter().all(|name| name.len() <= limits::FAILURE_CODE_BYTES_MAX));
    }

    #[test]
    fn an_http_status_is_a_failure_code() {
        assert_eq!(FailureCode::parse("HTTP_404"), Some(FailureCode::Http));
        assert_eq!(FailureCode::parse("HTTP_4xx"), None);
        assert_eq!(FailureCode::parse("NETWORK"), Some(FailureCode::Network));
    }
}
