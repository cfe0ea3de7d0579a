//! Asking the user whether something may be done that cannot be undone, or that the caller has not looked at.

use rmcp::model::CallToolResponse;
use serde_json::{Map, Value, json};

use super::{Call, ElicitationResult, can_ask, elicitation_result};
use midex_catalog::By;
use midex_domain::{
    document::meaning,
    error::{Code, Error, Result},
};

/// What the user is asked before a call does its work.
#[derive(Debug)]
pub(crate) struct Confirmation {
    /// Which question it is: once something else would be done, it has another key.
    pub(crate) key: String,
    /// What would be done.
    pub(crate) message: String,
    /// What it would be done to, by the names that the context of an error has.
    pub(crate) about: Vec<(&'static str, String)>,
    /// What follows where the user cannot be asked.
    pub(crate) unasked: Unasked,
    /// Who asks for it once the user has agreed.
    pub(crate) by: By,
    /// The arguments that do just this, and nothing else.
    pub(crate) confirmed: Map<String, Value>,
}

/// What follows where the user cannot be asked.
#[derive(Debug)]
pub(crate) enum Unasked {
    /// It is done all the same.
    Done,
    /// Nothing is done until the call says that the user wants it.
    Refused,
    /// Nothing is done, whatever the call says.
    Error(Box<Error>),
}

/// What came of the question.
pub(crate) enum Agreement {
    /// The work may be done, with these arguments, and counts as asked for by this one.
    Agreed(Map<String, Value>, By),
    /// The question is on its way.
    Pending(Box<CallToolResponse>),
}

/// The first part of the key of a question whether a project is trusted: nothing was begun before it.
const TRUST: &str = "trust:";

/// Whether the key is that of such a question.
pub(super) fn is_of_trust(key: &str) -> bool {
    key.starts_with(TRUST)
}

/// The question whether a project is trusted, for a start that was refused because it is not.
pub(crate) fn trust(refused: &Error) -> Confirmation {
    let question = refused.context("question").and_then(Value::as_str);
    let message = question.unwrap_or_default().to_owned();
    Confirmation {
        key: format!("{TRUST}{}", meaning(&json!(message))),
        message,
        about: Vec::new(),
        unasked: Unasked::Refused,
        by: By::User,
        confirmed: Map::new(),
    }
}

impl Call<'_> {
    /// Asks the user, where the client can.
    ///
    /// # Errors
    /// `CONFIRMATION_REQUIRED`.
    pub(crate) async fn agreement(
        mut self,
        Confirmation {
            key,
            message,
            about,
            unasked,
            by,
            confirmed,
        }: Confirmation,
    ) -> Result<Agreement> {
        let result = match self.responses.remove(&key) {
            Some(response) => elicitation_result(serde_json::from_value(response).ok()),
            None if can_ask(self.context) => {
                let schema = json!({
                    "type": "object", "required": ["decision"],
                    "properties": { "decision": { "type": "string", "title": "Decision", "enum": ["yes", "no"] } }
                });
                super::ask(self.app, self.context, (&key, &message, schema), None).await
            }
            None => ElicitationResult::Unavailable,
        };
        let refused = |why: &str| {
            let message = format!("nothing was done, for {why}: {message}");
            let error = Error::new(Code::ConfirmationRequired, message);
            about
                .into_iter()
                .fold(error, |error, (name, value)| error.with(name, value))
        };
        match result {
            ElicitationResult::Accepted(form) if form["decision"] == "yes" => {
                Ok(Agreement::Agreed(confirmed, by))
            }
            ElicitationResult::Pending(needs) => Ok(Agreement::Pending(needs)),
            ElicitationResult::Unavailable => match unasked {
                Unasked::Done => Ok(Agreement::Agreed(confirmed, self.app.by())),
                Unasked::Refused => Err(refused("nobody confirmed it")),
                Unasked::Error(error) => Err(*error),
            },
            ElicitationResult::Accepted(_) | ElicitationResult::NotAccepted { .. } => {
                Err(refused("the user did not agree")
                    .with_action("Leave it as it is, and go on with what your user wants instead"))
            }
        }
    }
}
