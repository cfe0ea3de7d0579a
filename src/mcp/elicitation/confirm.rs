//! Asks the user to confirm an action that cannot be undone, or that affects something the caller has not read.

use rmcp::model::CallToolResponse;
use serde_json::{Value, json};

use super::{ElicitationResult, InteractiveCall, can_ask, parse_elicitation_result};
use midex_catalog::Requester;
use midex_domain::{
    document::canonical_digest,
    error::{Code, Error, Result},
};

/// A question that the user must answer before a call does its work.
#[derive(Debug)]
pub(crate) struct Confirmation {
    /// Identifies the question. If the action would be a different one, the key differs.
    pub(crate) key: String,
    /// The action, as a question to the user.
    pub(crate) message: String,
    /// The objects of the action, as context of the error if it is refused.
    pub(crate) error_context: Vec<(&'static str, String)>,
    /// The fallback if the user cannot be asked.
    pub(crate) fallback: ConfirmationFallback,
    /// On whose behalf the action runs after the user has agreed.
    pub(crate) requester: Requester,
    /// The version of the file that the user is asked about, if it is about one. The action must not change another.
    pub(crate) version: Option<String>,
}

/// The fallback if the user cannot be asked.
#[derive(Debug)]
pub(crate) enum ConfirmationFallback {
    /// The action runs anyway.
    Proceed,
    /// The action is refused until the call itself states that the user wants it.
    Refuse,
    /// The action is refused with this error.
    Error(Box<Error>),
}

/// The outcome of the question.
pub(crate) enum ConfirmationOutcome {
    /// The action may run, on behalf of this party.
    Agreed(Requester),
    /// The question was returned to the client, which repeats the call with the answer.
    Pending(Box<CallToolResponse>),
}

/// The key prefix of questions about trust in a project. They are asked before the call has changed anything.
const TRUST_KEY_PREFIX: &str = "trust:";

/// Whether the key is that of a trust question.
pub(super) fn is_trust_question_key(key: &str) -> bool {
    key.starts_with(TRUST_KEY_PREFIX)
}

/// The question whether to trust a project, for a start that was refused because the project is not trusted.
pub(crate) fn build_trust_confirmation(refusal: &Error) -> Confirmation {
    let question = refusal.context("question").and_then(Value::as_str);
    let message = question.unwrap_or_default().to_owned();
    Confirmation {
        key: format!("{TRUST_KEY_PREFIX}{}", canonical_digest(&json!(message))),
        message,
        error_context: Vec::new(),
        fallback: ConfirmationFallback::Refuse,
        requester: Requester::User,
        version: None,
    }
}

impl InteractiveCall<'_> {
    /// Asks the user, if the client can.
    ///
    /// # Errors
    /// `CONFIRMATION_REQUIRED` if the user did not agree, or could not be asked and the fallback refuses.
    pub(crate) async fn ask_confirmation(
        mut self,
        Confirmation {
            key, message, error_context: about, fallback: unasked, requester: by, ..
        }: Confirmation,
    ) -> Result<ConfirmationOutcome> {
        let result = match self.responses.remove(&key) {
            Some(response) => parse_elicitation_result(serde_json::from_value(response).ok()),
            None if can_ask(self.context) => {
                let schema = json!({
                    "type": "object", "required": ["decision"],
                    "properties": { "decision": { "type": "string", "title": "Decision", "enum": ["yes", "no"] } }
                });
                super::send_form(self.app, self.context, (&key, &message, schema), None).await
            }
            None => ElicitationResult::Unavailable,
        };
        let refusal_error = |why: &str| {
            let message = format!("nothing was done, for {why}: {message}");
            let error = Error::new(Code::ConfirmationRequired, message);
            about.into_iter().fold(error, |error, (name, value)| error.with_context(name, value))
        };
        match result {
            ElicitationResult::Accepted(form) if form["decision"] == "yes" => {
                Ok(ConfirmationOutcome::Agreed(by))
            }
            ElicitationResult::Pending(needs) => Ok(ConfirmationOutcome::Pending(needs)),
            ElicitationResult::Unavailable => match unasked {
                ConfirmationFallback::Proceed => {
                    Ok(ConfirmationOutcome::Agreed(self.app.requester()))
                }
                ConfirmationFallback::Refuse => Err(refusal_error("nobody confirmed it")),
                ConfirmationFallback::Error(error) => Err(*error),
            },
            ElicitationResult::Accepted(_) | ElicitationResult::NotAccepted { .. } => {
                Err(refusal_error("the user did not agree")
                    .with_action("Leave it as it is, and go on with what your user wants instead"))
            }
        }
    }
}
