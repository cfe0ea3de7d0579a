//! The limits of catalogs: documents, and the calls of their operations.

use std::time::Duration;

// Not indented, for it is the whole of the rest.
limits! {
/// Largest OpenAPI document that is read, as it lies in a file or comes from a server, unpacked.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;
/// Documents read from files at once; further ones wait.
pub const DOCUMENTS_READ_MAX: usize = 4;
/// Catalogs of one server, and catalogs that one workflow may require.
pub const CATALOGS_MAX: usize = 200;
/// Longest id of a catalog, which is the name of a directory.
pub const CATALOG_ID_BYTES_MAX: usize = 100;
/// Largest settings file of a catalog.
pub const CATALOG_SETTINGS_BYTES_MAX: usize = 1 << 20;
/// Commands compared with an unknown name to suggest the intended one.
pub const NEAREST_COMMANDS_MAX: usize = 20;
/// Commands in one page of `command.list` by default.
pub const COMMANDS_LISTED: usize = 20;
/// Largest page of `command.list`.
pub const COMMANDS_LISTED_MAX: usize = 200;
/// Operations, or providers, listed by the resource of all of them.
pub const COMMAND_CATALOG_MAX: usize = 2_000;
/// Commands listed in the preview of an import.
pub const COMMAND_PREVIEW_MAX: usize = 50;
/// Bytes of the commands listed in the preview of an import.
pub const COMMAND_PREVIEW_BYTES_MAX: usize = 6_000;
/// Prefixes of command names listed in the preview of an import.
pub const CATALOG_PREFIXES_MAX: usize = 50;
/// Base URLs for which a reply about a catalog counts operations; further ones are omitted.
pub const CATALOG_ADDRESSES_SHOWN_MAX: usize = 20;
/// Characters of a call's arguments shown in a question to the user.
pub const QUESTION_SHOWN_CHARS: usize = 1_000;
/// Side effects of a project's workflow named in a question to the user; further ones are counted.
pub const EFFECTS_SHOWN_MAX: usize = 10;
/// Longest value of a catalog's header.
pub const CATALOG_HEADER_BYTES_MAX: usize = 8 << 10;
/// Operations of one catalog kept compiled in memory.
pub const CATALOG_PREPARED_MAX: usize = 256;
/// Consecutive references followed to find the fields of a request body.
pub const SCHEMA_REFERENCES_FOLLOWED_MAX: usize = 8;
/// Schemas examined to resolve one path in a response. Beyond it, the path counts as possible.
pub const ANSWER_SCHEMAS_WALKED_MAX: usize = 400;
/// Operations of one document.
pub const DOCUMENT_OPERATIONS_MAX: usize = 10_000;
/// Nesting depth of a document, which is also the limit of the JSON parser.
pub const DOCUMENT_DEPTH_MAX: usize = 127;
/// Values in one document.
pub const DOCUMENT_NODES_MAX: usize = 2_000_000;
/// Aliases in one YAML document, and anchors.
pub const DOCUMENT_ALIASES_MAX: usize = 10_000;
/// YAML events that the aliases of one document may repeat.
pub const DOCUMENT_ALIAS_EVENTS_MAX: usize = 500_000;
/// Warnings about one document. The last one says how many were omitted.
pub const DOCUMENT_WARNINGS_MAX: usize = 200;
/// Base URLs in one list of servers, counting each value of their variables.
pub const DOCUMENT_SERVERS_MAX: usize = 20;
/// Consecutive references (`$ref`) before a definition must follow.
pub const REFERENCE_HOPS_MAX: usize = 50;
/// Parameters of one operation, including those of its path.
pub const OPERATION_PARAMETERS_MAX: usize = 500;
/// Media types of one request or response body.
pub const OPERATION_CONTENTS_MAX: usize = 20;
/// Longest name of an operation. A longer one ends with a digest.
pub const OPERATION_NAME_BYTES_MAX: usize = 200;
/// Longest summary of an operation, and description of a parameter.
pub const OPERATION_SUMMARY_CHARS_MAX: usize = 300;
/// Longest description of an operation.
pub const OPERATION_DESCRIPTION_CHARS_MAX: usize = 8000;
/// Largest value of an extension (a key that begins with `x-`); larger ones are omitted.
pub const OPERATION_EXTENSION_BYTES_MAX: usize = 2 << 10;
/// Shared schemas included with one schema of an operation. Further ones accept anything.
pub const OPERATION_SCHEMAS_MAX: usize = 1000;
/// Size of the shared schemas included with one schema of an operation, as JSON text. Further ones accept anything.
pub const OPERATION_SCHEMAS_BYTES_MAX: usize = 256 << 10;
/// Chained references between shared schemas for the same value; a longer chain accepts anything.
pub const SCHEMA_REFERENCES_MAX: usize = 12;
/// Size of all operations of a document with their shared schemas expanded, as JSON text.
pub const DOCUMENT_EXPANDED_BYTES_MAX: usize = 96 << 20;
/// Longest base URL with its variables filled in; longer ones are omitted.
pub const SERVER_URL_BYTES_MAX: usize = 2000;
/// Regular expressions and formats of one document that are compiled; further ones are dropped from their schemas.
pub const DOCUMENT_PATTERNS_MAX: usize = 2000;
/// Fields of an item named by the contract of a provider.
pub const PROVIDER_FIELDS_MAX: usize = 100;
/// Objects of a provider that are offered as the choices of an input; further ones are left out.
pub const PROVIDER_CHOICES_MAX: usize = 100;
/// Size of these objects, as JSON text; the objects past it are left out.
pub const PROVIDER_CHOICES_BYTES_MAX: usize = 64 << 10;
/// Longest label of a choice; a longer one is shortened.
pub const CHOICE_LABEL_CHARS_MAX: usize = 200;
/// Lists of providers kept in memory. A full cache is cleared.
pub const PROVIDER_LISTS_KEPT_MAX: usize = 64;
/// Providers called at once; further ones wait.
pub const PROVIDERS_CALLED_MAX: usize = 8;
/// Longest time that a list of choices may be kept for (`cache_ttl_sec`).
pub const PROVIDER_CACHE_TTL_S_MAX: u32 = 86_400;
/// Words of a search query; further ones are ignored.
pub const SEARCH_WORDS_MAX: usize = 16;

/// Timeout for downloading a document.
pub const DOCUMENT_FETCH_MAX: Duration = Duration::from_secs(5);
/// Timeout for connecting to the server of an operation, including name resolution.
pub const CALL_CONNECT_MAX: Duration = Duration::from_secs(10);
/// Timeout for listing the choices of an input, with all pages and the wait for other calls.
pub const PROVIDER_CALL_MAX: Duration = Duration::from_secs(20);
/// Default timeout of one call of an operation, and of each page.
pub const CALL_MAX: Duration = Duration::from_secs(30);
/// Largest request body of an operation.
pub const CALL_REQUEST_BYTES_MAX: usize = 16 << 20;
/// Longest URL of an operation with its arguments.
pub const CALL_URL_BYTES_MAX: usize = 16 << 10;
/// Largest response body of an operation, decompressed.
pub const CALL_ANSWER_BYTES_MAX: usize = 16 << 20;
/// Largest binary response kept in an output, as base64; a larger one becomes an artifact.
pub const CALL_BYTES_SHOWN_MAX: usize = 4 << 10;
/// Largest response payload kept in a step's output, as JSON text; a larger one becomes an artifact.
pub const CALL_PAYLOAD_SHOWN_MAX: usize = 48 << 10;
/// Largest response payload in a reply to `command.run_*`, as JSON text; a larger one becomes an artifact. Headers
/// are added to it, within `FINAL_OUTPUT_BYTES_MAX`.
pub const CALL_REPLY_SHOWN_MAX: usize = 16 << 10;
/// Largest response body stored as an artifact.
pub const CALL_ARTIFACT_BYTES_MAX: usize = 8 << 20;
/// Bytes of an error response that are kept.
pub const CALL_ERROR_BYTES_MAX: usize = 8 << 10;
/// Bytes of an error response that are read, so that a secret at the cut is recognized whole.
pub const CALL_ERROR_READ_BYTES_MAX: usize = 64 << 10;
/// Total size of a response's header names and values.
pub const CALL_HEADERS_BYTES_MAX: usize = 64 << 10;
/// Redirects followed in one call.
pub const CALL_REDIRECTS_MAX: usize = 3;
/// Longest `Retry-After` that is honored; a longer one is shortened to it.
pub const CALL_RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);
/// Idle connections kept open to one host.
pub const CALL_IDLE_CONNECTIONS_MAX: usize = 64;
/// JSON values in one response, and in all pages of a list. A value takes about 100 bytes of memory.
pub const CALL_ANSWER_VALUES_MAX: usize = 500_000;
/// Default number of pages fetched by `paginate`.
pub const CALL_PAGES: u32 = 10;
/// Largest number of pages that `paginate` may fetch.
pub const CALL_PAGES_MAX: u32 = 1_000;
/// Items in all pages of a list.
pub const CALL_ITEMS_MAX: usize = 10_000;
/// Size of all pages of a list, as JSON text.
pub const CALL_ITEMS_BYTES_MAX: usize = 8 << 20;
/// Largest secrets file.
pub const SECRETS_FILE_BYTES_MAX: u64 = 64 << 10;
/// Nesting depth of a generated example; deeper values become a text.
pub const EXAMPLE_DEPTH_MAX: usize = 8;
/// Items of one list in a generated example.
pub const EXAMPLE_ITEMS_MAX: usize = 20;
/// Characters of one text in a generated example.
pub const EXAMPLE_CHARS_MAX: usize = 1_000;
}
