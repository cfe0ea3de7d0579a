//! Work of the server itself: what the runner is asked to do, and what it reports.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde_json::Value;

use super::VisitId;
use crate::event::ChildOrder;
use crate::{
    FailureCode,
    cursor::PageCursor,
    definition::{RetryPolicy, StepKind},
    document::JsonText,
    event::Response,
    expression::RenderedValue,
    mask::SecretMask,
};

/// One attempt of one visit. Its outcome is ignored unless the visit still waits for this attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The visit.
    pub visit_id: VisitId,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// Work to be done once a transition is durable.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Begin an attempt.
    BeginAttempt(Box<AttemptRequest>),
    /// Cancel an attempt that no visit waits for any more.
    CancelAttempt(AttemptId),
    /// Send an order to a child.
    SendOrder(ChildOrder),
}

/// An attempt that the server begins.
#[derive(Clone, Debug)]
pub struct AttemptRequest {
    /// Its id.
    pub attempt_id: AttemptId,
    /// The kind of the step, with its parameters.
    pub step_kind: StepKind,
    /// Its input: an object with `with` and, for operations, `body`. Secrets are filled in by the runner.
    pub input: RenderedValue,
    /// The next page, if part of a list was fetched already.
    pub cursor: Option<PageCursor>,
    /// The time limit of the attempt.
    pub timeout: Option<Duration>,
}

/// The result of a successful attempt of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectOutput {
    /// The output of its step.
    Output(Value),
    /// One page of a list; the output of the step will be the whole list.
    Page(OutputPage),
    /// A body that is stored as an artifact; the output refers to it.
    Attachment(Attachment),
}

/// A response body that is stored as an artifact instead of in the output, for instance because it is too large.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name as the service gave it. The artifact gets a plain file name made from it.
    pub name: String,
    /// Its media type.
    pub content_type: String,
    /// The bytes of the body.
    pub content: Vec<u8>,
    /// The rest of the response, if the step asks for it: an object in which the artifact replaces `payload`.
    pub envelope: Option<Value>,
}

/// Leaves out the content, which may be long.
impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.content.len();
        write!(f, "Attachment({:?}, {bytes} bytes)", self.name)
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputPage {
    /// Its items.
    pub items: Vec<Value>,
    /// The cursor of the next page; `None` if this is the last one.
    pub next_cursor: Option<PageCursor>,
    /// The rest of the response, if the step asks for it: an object whose `payload` is replaced by the whole list.
    pub envelope: Option<Value>,
}

impl From<Value> for EffectOutput {
    fn from(output: Value) -> Self {
        Self::Output(output)
    }
}

impl EffectOutput {
    /// Replaces secrets that the result repeats by their placeholders.
    #[must_use]
    pub fn with_secrets_masked(mut self, mask: &SecretMask) -> Self {
        match &mut self {
            Self::Output(output) => mask.mask_value(output),
            Self::Page(page) => {
                let values = page.items.iter_mut().chain(&mut page.envelope);
                values.for_each(|part| mask.mask_value(part));
                if let Some(cursor) = &mut page.next_cursor {
                    let mut position = cursor.next.value();
                    mask.mask_value(&mut position);
                    cursor.next = JsonText::from_value(&position);
                }
            }
            Self::Attachment(attachment) => attachment.mask_secrets(mask),
        }
        self
    }
}

impl Attachment {
    fn mask_secrets(&mut self, mask: &SecretMask) {
        self.name = mask.mask_text(&self.name).into_owned();
        self.content_type = mask.mask_text(&self.content_type).into_owned();
        if let Some(masked) = mask.mask_bytes(&self.content) {
            self.content = masked;
        }
        if let Some(around) = &mut self.envelope {
            mask.mask_value(around);
        }
    }
}

/// Why an attempt of the server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFailure {
    /// The class of the failure, as `retry.on` names it: `timeout`, `network`, `http_5xx`…
    pub class: String,
    /// A stable error code, if it has one.
    pub code: Option<String>,
    /// What happened.
    pub message: String,
    /// Whether another attempt may succeed.
    pub is_retryable: bool,
    /// How long the service asks to wait before the next attempt (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// The response of the service.
    pub response: Option<Box<Response>>,
}

impl OperationFailure {
    /// A failure that is not worth retrying.
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class: class.into(),
            code: None,
            message: message.into(),
            is_retryable: false,
            retry_after: None,
            response: None,
        }
    }

    /// Sets the stable error code.
    #[must_use]
    pub fn with_code(self, code: FailureCode) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Marks the failure as retryable.
    #[must_use]
    pub fn as_retryable(self) -> Self {
        Self { is_retryable: true, ..self }
    }

    /// Replaces secrets that the failure repeats by their placeholders.
    #[must_use]
    pub fn with_secrets_masked(mut self, mask: &SecretMask) -> Self {
        self.code = self.code.map(|code| mask.mask_text(&code).into_owned());
        self.message = mask.mask_text(&self.message).into_owned();
        if let Some(Response { payload: Some(payload), .. }) = self.response.as_deref_mut() {
            let mut value = payload.value();
            mask.mask_value(&mut value);
            *payload = JsonText::from_value(&value);
        }
        self
    }
}

/// What an activity reports besides the outcome of an attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptNotes {
    /// Values to write to memory if the attempt succeeds.
    pub memory: BTreeMap<String, Value>,
    /// An object to show in the history of the step.
    pub metadata: Option<JsonText>,
}

impl AttemptNotes {
    /// Replaces secrets that the notes repeat by their placeholders.
    #[must_use]
    pub fn with_secrets_masked(mut self, mask: &SecretMask) -> Self {
        self.memory.values_mut().for_each(|value| mask.mask_value(value));
        if let Some(metadata) = &mut self.metadata {
            let mut value = metadata.value();
            mask.mask_value(&mut value);
            *metadata = JsonText::from_value(&value);
        }
        self
    }
}

/// What the process knows of the work that steps ask the server for.
pub trait WorkPolicy: fmt::Debug + Sync {
    /// Whether the work is idempotent, and so may be repeated when the outcome of an attempt is unknown.
    fn is_safe_to_retry(&self, kind: &StepKind) -> bool;

    /// Whether the step needs a catalog that is missing or disabled.
    fn is_catalog_missing(&self, kind: &StepKind) -> bool;

    /// The retries of work whose step declares none.
    fn default_retry(&self, _kind: &StepKind) -> Option<RetryPolicy> {
        None
    }

    /// The time limit of an attempt whose step declares none.
    fn default_timeout(&self, _kind: &StepKind) -> Option<Duration> {
        None
    }
}

/// Treats no work as safe to repeat, and no catalog as missing.
#[derive(Debug)]
pub(super) struct NeverSafeToRetry;

impl WorkPolicy for NeverSafeToRetry {
    fn is_safe_to_retry(&self, _: &StepKind) -> bool {
        false
    }

    fn is_catalog_missing(&self, _: &StepKind) -> bool {
        false
    }
}
