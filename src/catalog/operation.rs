//! The compiled form of an OpenAPI operation: all that is needed to find it, to check its arguments and to call it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use midex_domain::OperationClass;

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
    /// The name of the method in a request.
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

    /// The lowest class that an operation with this method can have.
    pub fn class(self) -> OperationClass {
        match self {
            Self::Get | Self::Head | Self::Options | Self::Trace => OperationClass::Safe,
            Self::Post | Self::Put | Self::Patch => OperationClass::Standard,
            Self::Delete => OperationClass::Destructive,
        }
    }

    /// Whether the method is idempotent (RFC 9110, 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch)
    }
}

/// An operation. Its schemas are JSON Schema 2020-12. Schemas that several operations share are stored apart, and
/// referred to as `#/$defs/NAME`.
///
/// Operations are stored in compiled documents. A change of this type increases the number in `document::book::MAGIC`,
/// so that older files are compiled again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name in its catalog: `services:deploys:create`.
    pub name: String,
    /// Its aliases, such as the document's `operationId`.
    pub aliases: Vec<String>,
    /// A summary of one line.
    pub summary: String,
    /// The full description.
    pub description: String,
    /// The method.
    pub method: Method,
    /// How much a call may change, unless the settings of the catalog say otherwise. At least the class of the
    /// method, and destructive if the wording of the document indicates a removal.
    pub class: OperationClass,
    /// The path, relative to the base URL, with `{NAME}` for each path parameter.
    pub path: String,
    /// Base URLs of this operation. The first one replaces the catalog's, unless that was chosen explicitly.
    pub servers: Vec<String>,
    /// The parameters, including those of the path item.
    pub parameters: Vec<Parameter>,
    /// The request body, if the operation takes one.
    pub body: Option<Body>,
    /// The schema of a JSON answer, if the document has one.
    pub output: Option<Value>,
    /// The required security schemes: all of one alternative must be satisfied. Empty if none is required.
    pub security: Vec<Vec<String>>,
    /// How to request further pages.
    pub pagination: Option<Pagination>,
    /// The path of the list in an answer: names joined by dots, and empty if the answer itself is the list. `None` if
    /// the document does not show it.
    #[serde(default)]
    pub items_path: Option<String>,
    /// The idempotency header, by which the service recognizes a repeated call, if the document declares one.
    pub idempotency_header: Option<String>,
    /// Whether the document marks it as deprecated.
    pub is_deprecated: bool,
    /// The extensions of the document: its keys that begin with `x-`.
    pub extensions: Map<String, Value>,
    /// Why it cannot be called; `None` if it can.
    pub uncallable: Option<String>,
}

/// The part of a request that has a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "OpenAPI says what they are")]
pub enum ParameterLocation {
    Path,
    Query,
    Header,
    Cookie,
}

impl ParameterLocation {
    /// The value of `in` in OpenAPI documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// The style in which a value is serialized (OpenAPI 3.1, 4.8.12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "OpenAPI says what they are")]
pub enum ParameterStyle {
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
    /// The name of its argument: that of the document, prefixed with the location (`query.id`) if a parameter before
    /// it has the same name.
    pub argument: String,
    /// Its name in the request.
    pub name: String,
    /// Its location.
    pub location: ParameterLocation,
    /// Whether a call must have it.
    pub is_required: bool,
    /// Its description.
    pub description: String,
    /// The schema of its value.
    pub schema: Value,
    /// How its value is serialized.
    pub written: ValueStyle,
}

/// How the value of a parameter, or of a form field, is serialized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueStyle {
    /// In a style of OpenAPI.
    Styled {
        /// The style.
        style: ParameterStyle,
        /// The flag `explode` of OpenAPI: whether items and properties are written separately.
        explode: bool,
        /// Whether reserved characters are left unescaped.
        allow_reserved: bool,
    },
    /// As a document of this media type.
    Content(String),
}

/// The argument that selects the media type of the body, if an operation accepts several. No parameter can have this
/// name, because OpenAPI ignores declarations of this header (3.1, 4.8.12.1).
pub const CONTENT_TYPE_ARGUMENT: &str = "Content-Type";

/// The request body, which has one of several contents. [`CONTENT_TYPE_ARGUMENT`] selects the content; without it,
/// the first one is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Body {
    /// Whether a call must have it.
    pub is_required: bool,
    /// Its description.
    pub description: String,
    /// The accepted contents, the easiest to send first: JSON, forms, multipart, text, bytes.
    pub contents: Vec<BodyContent>,
}

/// A body of one media type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BodyContent {
    /// The media type, without parameters.
    pub media_type: String,
    /// The schema of the body.
    pub schema: Value,
    /// How form fields or multipart parts are encoded, if the document specifies it.
    pub encoding: Map<String, Value>,
}

impl BodyContent {
    /// The schema for callers: without the `readOnly` properties, which only answers have.
    pub fn schema_for_callers(&self) -> Value {
        let mut schema = self.schema.clone();
        remove_read_only(&mut schema);
        schema
    }
}

fn remove_read_only(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                properties
                    .retain(|_, property| property.get("readOnly") != Some(&Value::Bool(true)));
            }
            map.values_mut().for_each(remove_read_only);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_read_only),
        _ => {}
    }
}

/// The pagination scheme of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Pagination {
    /// The header `Link` has the URL of the next page (RFC 8288).
    Link,
    /// The answer has a cursor, which is an argument of the next call.
    Cursor {
        /// The argument.
        argument: String,
        /// The path of the cursor in the answer: `meta.next_cursor`.
        field: String,
    },
    /// A parameter is the number of the page, or the offset of its first item.
    Page {
        /// The argument.
        argument: String,
        /// The argument for the size of a page.
        size: Option<String>,
        /// Whether the argument is an offset instead of a page number.
        counts_items: bool,
    },
    /// A field of the last item of a page, usually its `id`, is an argument of the next call.
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
        /// The location of the key.
        location: ParameterLocation,
        /// The name of the header or parameter.
        name: String,
    },
    /// `Authorization: Basic …`: the credential is `user:password`.
    Basic,
    /// `Authorization: Bearer …`. Also used for OAuth 2 and OpenID Connect, whose token must be obtained elsewhere.
    Bearer,
    /// A scheme that midex does not support.
    Other {
        /// Its name in the document.
        scheme: String,
    },
}
