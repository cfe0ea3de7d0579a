//! An operation of an OpenAPI document, compiled: all that it takes to find it, to check what it is given, and to call it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use midex_domain::Class;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "HTTP says what they are")]
pub enum Method {
    Get,
    Head,
    Options,
    Trace,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// As it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The least class of an operation with this method.
    pub fn class(self) -> Class {
        match self {
            Self::Get | Self::Head | Self::Options | Self::Trace => Class::Safe,
            Self::Post | Self::Put | Self::Patch => Class::Standard,
            Self::Delete => Class::Destructive,
        }
    }

    /// Whether doing it twice is doing it once (RFC 9110, 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch)
    }
}

/// An operation. Its schemas are of JSON Schema 2020-12; what they share stands apart, and is named `#/$defs/NAME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name in its catalog: `services:deploys:create`.
    pub name: String,
    /// Its other names: the document's `operationId`.
    pub aliases: Vec<String>,
    /// What it does, in a line.
    pub summary: String,
    /// What it does, in full.
    pub description: String,
    /// The method.
    pub method: Method,
    /// How much a call may change where the settings of its catalog do not say: at least the class of the method, and
    /// destructive where the document's words tell of a removal.
    pub class: Class,
    /// The path, from the base URL on, with `{NAME}` for each path parameter.
    pub path: String,
    /// The base URLs that hold for it instead of the catalog's.
    pub servers: Vec<String>,
    /// What it takes beside a body. The path's own parameters are among them.
    pub parameters: Vec<Parameter>,
    /// What it takes as a body.
    pub body: Option<Body>,
    /// The schema of its answer where that is JSON, as the document says.
    pub output: Option<Value>,
    /// What it asks for: of the alternatives one, of that one all. None: nothing is asked for.
    pub security: Vec<Vec<String>>,
    /// How further pages are asked for.
    pub pagination: Option<Pagination>,
    /// Where its list stands in an answer, with dots, empty where the answer is the list; `None` where the document shows
    /// none.
    #[serde(default)]
    pub items_path: Option<String>,
    /// The header by which the service knows a repeated call, where the document declares one.
    pub idempotency_header: Option<String>,
    /// Whether the document advises against it.
    pub is_deprecated: bool,
    /// The keys of the document that begin with `x-`.
    pub extensions: Map<String, Value>,
    /// Why it cannot be called.
    pub uncallable: Option<String>,
}

/// Where a parameter goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "OpenAPI says what they are")]
pub enum Location {
    Path,
    Query,
    Header,
    Cookie,
}

impl Location {
    /// As documents name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// How a value that is not a scalar is written (OpenAPI 3.1, 4.8.12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "OpenAPI says what they are")]
pub enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name for a caller: the document's, with its location before it (`query.id`) where another parameter of this
    /// operation has the name too and comes before.
    pub argument: String,
    /// Its name in the request.
    pub name: String,
    /// Where it goes.
    pub location: Location,
    /// Whether a call needs it.
    pub is_required: bool,
    /// What it is for.
    pub description: String,
    /// What it may be.
    pub schema: Value,
    /// How it is written.
    pub written: Written,
}

/// How the value of a parameter, or of a field of a form, is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// In a style.
    Styled {
        /// Which.
        style: Style,
        /// Whether each part has the name.
        explode: bool,
        /// Whether reserved characters stay as they are.
        allow_reserved: bool,
    },
    /// As a document of this media type.
    Content(String),
}

/// The argument that chooses the media type of a body, where an operation takes several. No parameter of a document has this
/// name: what a document says of the header counts for nothing (OpenAPI 3.1, 4.8.12.1).
pub const CONTENT_TYPE_ARGUMENT: &str = "Content-Type";

/// What may be sent as a body: of the contents one. [`CONTENT_TYPE_ARGUMENT`] chooses it where there are several, and the
/// first one is meant where a caller says nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Body {
    /// Whether a call needs it.
    pub is_required: bool,
    /// What it is for.
    pub description: String,
    /// The one that is easiest to send first: JSON, forms, multipart, text, bytes.
    pub contents: Vec<Content>,
}

/// A body of one media type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// The media type, without parameters.
    pub media_type: String,
    /// What it may be.
    pub schema: Value,
    /// How fields of a form or the parts of a multipart body are written, where the document says.
    pub encoding: Map<String, Value>,
}

impl Content {
    /// The schema of what a caller gives: without the properties that stand in answers alone.
    pub fn asked(&self) -> Value {
        let mut schema = self.schema.clone();
        leave_out_read_only(&mut schema);
        schema
    }
}

fn leave_out_read_only(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                properties
                    .retain(|_, property| property.get("readOnly") != Some(&Value::Bool(true)));
            }
            map.values_mut().for_each(leave_out_read_only);
        }
        Value::Array(list) => list.iter_mut().for_each(leave_out_read_only),
        _ => {}
    }
}

/// How the pages of a list follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Pagination {
    /// The header `Link` names the next page (RFC 8288).
    Link,
    /// The answer has a value for a parameter of the next call.
    Cursor {
        /// The argument.
        argument: String,
        /// Where it stands in the answer: `meta.next_cursor`.
        field: String,
    },
    /// A parameter counts the pages, or the items before the page.
    Page {
        /// The argument.
        argument: String,
        /// The argument that says how many items a page has.
        size: Option<String>,
        /// Whether it counts items, not pages.
        counts_items: bool,
    },
    /// A parameter takes a field of the last item of the page before: its `id`.
    LastItem {
        /// The argument.
        argument: String,
        /// The field.
        field: String,
    },
    /// The answer has the URL of the next page: `next`, `links.next`, `@odata.nextLink`.
    Url,
}

/// A security scheme of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum SecurityScheme {
    /// A key in a header, a query or a cookie.
    ApiKey {
        /// Where.
        location: Location,
        /// The name of the header or parameter.
        name: String,
    },
    /// `Authorization: Basic …`: the credential is `user:password`.
    Basic,
    /// `Authorization: Bearer …`: also what OAuth 2 and OpenID Connect come to, whose token is had elsewhere.
    Bearer,
    /// One that midex has no way for, by its name in the document.
    Other {
        /// The name.
        scheme: String,
    },
}
