//! The table of failures that midex itself gives steps and executions. Agents, activities and operations report codes of
//! their own; the codes of refused calls are in [`crate::error`].

use crate::limits;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)*) => {
        /// A stable name of a failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailureCode { $($(#[doc = $doc])+ $name,)* }

        impl FailureCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable name, as `failure.code` and `run.failure.code` have it.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }
        }
    };
}

codes! {
    /// A model could not do its step, and gave no code of its own.
    StepFailed = "STEP_FAILED";
    /// The output of a step that the server does itself breaks the step's `result`.
    OutputInvalid = "STEP_OUTPUT_INVALID";
    /// An expression leads to nothing, or cannot be computed.
    ExpressionFailed = "EXPRESSION_FAILED";
    /// The step was to be entered once more than `max_visits` allows.
    MaxVisits = "MAX_VISITS";
    /// The steps were to be entered once more than the workflow's `max_steps` allows.
    MaxSteps = "MAX_STEPS";
    /// Too many steps of the server followed each other without a pause.
    StepsAtOnce = "STEPS_AT_ONCE";
    /// The user's answers lacked inputs that the step asks for, in all attempts.
    InputsMissing = "INPUTS_MISSING";
    /// The value of `wait` is no duration or no instant.
    WaitInvalid = "WAIT_INVALID";
    /// The value of `foreach.in` is no list.
    NotAList = "NOT_A_LIST";
    /// A value is larger, or a list longer, than the limit.
    LimitExceeded = "LIMIT_EXCEEDED";
    /// Too few of the steps before it were completed for what `join` asks.
    JoinMissed = "JOIN_MISSED";
    /// The condition `repeat.until` did not hold within `max_attempts`.
    RepeatExhausted = "REPEAT_EXHAUSTED";
    /// The condition `repeat.until` did not hold in time.
    RepeatTimedOut = "REPEAT_TIMED_OUT";
    /// The step, or an attempt of the server's, took longer than its `timeout`.
    StepTimedOut = "STEP_TIMED_OUT";
    /// A person rejected a gate.
    GateRejected = "GATE_REJECTED";
    /// The gate expired without an answer.
    GateExpired = "GATE_EXPIRED";
    /// The execution took longer than its workflow's `timeout`.
    WorkflowTimedOut = "WORKFLOW_TIMED_OUT";
    /// The execution that this one is a child of failed.
    ParentFailed = "PARENT_FAILED";
    /// The child was given up, or went another way.
    ChildEnded = "CHILD_ENDED";
    /// Children of children of children: more than there may be below each other.
    ChildTooDeep = "CHILD_TOO_DEEP";
    /// A call of `execution.fail` ended the execution.
    FailedOnRequest = "FAILED_ON_REQUEST";
    /// There is no operation of that name.
    OperationNotFound = "OPERATION_NOT_FOUND";
    /// The catalog is not there, or is disabled: nothing was sent, and the step waits for it.
    CatalogMissing = "CATALOG_MISSING";
    /// A secret that the step needs is not there.
    SecretMissing = "SECRET_MISSING";
    /// A secret or a header of a catalog was to go to an origin that may not have it.
    SecretNotAllowed = "SECRET_NOT_ALLOWED";
    /// The file of secrets is one that others can read, or a link.
    SecretsFileUnsafe = "SECRETS_FILE_UNSAFE";
    /// The arguments or the body of a call break the operation's parameters.
    ArgumentsInvalid = "ARGUMENTS_INVALID";
    /// The operation is one that cannot be called, or the URL of its catalog is none.
    OperationUncallable = "OPERATION_UNCALLABLE";
    /// The URL of a call, or of a redirect, leads where nobody allowed midex to call.
    AddressRefused = "ADDRESS_REFUSED";
    /// The other side redirects the call to where it cannot follow.
    RedirectRefused = "REDIRECT_REFUSED";
}

impl From<FailureCode> for String {
    fn from(code: FailureCode) -> Self {
        code.as_str().to_owned()
    }
}

/// A failure's message, cut to its limit.
pub(in crate::domain) fn cut_message(message: &str) -> String {
    cut(message, limits::FAILURE_MESSAGE_BYTES_MAX)
}

/// At most `bytes_max` bytes of `text`, cut between characters.
pub(in crate::domain) fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
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
    }
}
