//! What the server does itself, as it is told to whoever does it.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::VisitId;
use crate::event::Order;
use crate::{
    FailureCode, definition::StepKind, document::Document, event::Response, expression::Rendered,
    mask::Mask,
};

/// One attempt of one visit: what comes of it counts only while it is the one that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The visit.
    pub visit_id: VisitId,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// What the server is to do once a transition is durable.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Begin to work on a visit.
    Begin(Box<Begin>),
    /// Break it off: nobody waits for it any more.
    Cancel(AttemptId),
    /// Tell a child.
    Order(Order),
}

/// An attempt that the server begins.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Which.
    pub attempt_id: AttemptId,
    /// What is to be done.
    pub kind: StepKind,
    /// With what: an object with `with` and, for operations, `body`; with `pages` where a list is not whole yet. Secrets are
    /// filled in by whoever begins it.
    pub input: Rendered,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// What an attempt of the server came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Brought {
    /// The output of its step.
    Output(Value),
    /// A part of a list: the output is the whole list.
    Page(Page),
    /// A body that is kept as an artifact: the output names it.
    Attachment(Attachment),
}

/// A body that is too large to stand in an output.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// What it is called, as it was said: the artifact has a name that leads nowhere else.
    pub name: String,
    /// Its media type.
    pub content_type: String,
    /// It.
    pub content: Vec<u8>,
    /// An object in which the artifact takes the place of `payload`, where more than the body is wanted.
    pub around: Option<Value>,
}

/// Without the content, which may be long.
impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.content.len();
        write!(f, "Attachment({:?}, {bytes} bytes)", self.name)
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Its items.
    pub items: Vec<Value>,
    /// Where the next one is, for the attempt that asks for it; `None` where this is the last.
    pub next: Option<Value>,
    /// An object whose `payload` is to be the list, where more than the list is wanted.
    pub around: Option<Value>,
}

impl From<Value> for Brought {
    fn from(output: Value) -> Self {
        Self::Output(output)
    }
}

impl Brought {
    /// The same with placeholders where it repeats a secret.
    #[must_use]
    pub fn covered(mut self, mask: &Mask) -> Self {
        match &mut self {
            Self::Output(output) => mask.value(output),
            Self::Page(page) => {
                let parts = page.items.iter_mut().chain(&mut page.next);
                parts
                    .chain(&mut page.around)
                    .for_each(|part| mask.value(part));
            }
            Self::Attachment(attachment) => attachment.cover(mask),
        }
        self
    }
}

impl Attachment {
    fn cover(&mut self, mask: &Mask) {
        self.name = mask.text(&self.name).into_owned();
        self.content_type = mask.text(&self.content_type).into_owned();
        if let Some(covered) = mask.bytes(&self.content) {
            self.content = covered;
        }
        if let Some(around) = &mut self.around {
            mask.value(around);
        }
    }
}

/// Why an attempt of the server came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationFailure {
    /// What sort of failure it is, as `retry.on` names it: `timeout`, `network`, `http_5xx`…
    pub class: String,
    /// A stable name of its own, where it has one.
    pub code: Option<String>,
    /// What happened.
    pub message: String,
    /// Whether another attempt may succeed.
    pub retryable: bool,
    /// How long the other side asks to be left alone.
    pub retry_after: Option<Duration>,
    /// What it answered.
    pub response: Option<Box<Response>>,
}

impl OperationFailure {
    /// A failure after which another attempt comes to the same.
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class: class.into(),
            code: None,
            message: message.into(),
            retryable: false,
            retry_after: None,
            response: None,
        }
    }

    /// The same under a stable name.
    #[must_use]
    pub fn coded(self, code: FailureCode) -> Self {
        Self {
            code: Some(code.into()),
            ..self
        }
    }

    /// The same, where another attempt may succeed.
    #[must_use]
    pub fn retryable(self) -> Self {
        Self {
            retryable: true,
            ..self
        }
    }

    /// The same with placeholders where it repeats a secret.
    #[must_use]
    pub fn covered(mut self, mask: &Mask) -> Self {
        self.code = self.code.map(|code| mask.text(&code).into_owned());
        self.message = mask.text(&self.message).into_owned();
        if let Some(Response {
            payload: Some(payload),
            ..
        }) = self.response.as_deref_mut()
        {
            let mut value = payload.value();
            mask.value(&mut value);
            *payload = Document::of(&value);
        }
        self
    }
}

/// What the server can do: at all, and again where nobody knows whether it was done.
pub trait Safety: fmt::Debug + Sync {
    /// Whether doing this twice is doing it once.
    fn is_safe(&self, kind: &StepKind) -> bool;

    /// Whether it waits for a catalog that is not there.
    fn lacks_catalog(&self, kind: &StepKind) -> bool;
}

/// Nothing is, unless its author says so.
#[derive(Debug)]
pub(super) struct Unsafe;

impl Safety for Unsafe {
    fn is_safe(&self, _: &StepKind) -> bool {
        false
    }

    fn lacks_catalog(&self, _: &StepKind) -> bool {
        false
    }
}
