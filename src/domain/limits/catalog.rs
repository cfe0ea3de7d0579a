//! The limits of catalogs: documents, and the calls of their operations.

use std::time::Duration;

// Not indented, for it is the whole of the rest.
limits! {
/// Largest OpenAPI document that is read, as it lies in a file or comes from a server, unpacked.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;
/// Documents in files that are read at once; those past it wait.
pub const DOCUMENTS_READ_MAX: usize = 4;
/// Catalogs of one server, and those that one workflow may require.
pub const CATALOGS_MAX: usize = 200;
/// Longest id of a catalog, which is the name of a directory.
pub const CATALOG_ID_BYTES_MAX: usize = 100;
/// Largest file of a catalog's settings.
pub const CATALOG_SETTINGS_BYTES_MAX: usize = 1 << 20;
/// Commands that are looked at for the one that may have been meant.
pub const NEAREST_COMMANDS_MAX: usize = 20;
/// Commands that `command.list` shows where nobody says how many.
pub const COMMANDS_LISTED: usize = 20;
/// Commands that one answer of `command.list` shows.
pub const COMMANDS_LISTED_MAX: usize = 200;
/// Operations that the resource of all commands shows.
pub const COMMAND_CATALOG_MAX: usize = 2_000;
/// Commands that the preview of an import shows (a capped list).
pub const COMMAND_PREVIEW_MAX: usize = 50;
/// Bytes of those commands.
pub const COMMAND_PREVIEW_BYTES_MAX: usize = 6_000;
/// First words of commands that the preview of an import shows.
pub const CATALOG_PREFIXES_MAX: usize = 50;
/// Addresses that a reply about a catalog counts operations by; the others are left out.
pub const CATALOG_ADDRESSES_SHOWN_MAX: usize = 20;
/// Characters of the arguments that a question to the user shows.
pub const QUESTION_SHOWN_CHARS: usize = 1_000;
/// Effects of a project's workflow that a question to the user names; the others are counted.
pub const EFFECTS_SHOWN_MAX: usize = 10;
/// Longest value of a header of a catalog.
pub const CATALOG_HEADER_BYTES_MAX: usize = 8 << 10;
/// Operations of one catalog that are kept ready to be called.
pub const CATALOG_PREPARED_MAX: usize = 256;
/// References of a schema to a shared one that are followed for the fields of a body.
pub const SCHEMA_REFERENCES_FOLLOWED_MAX: usize = 8;
/// Schemas that are looked at to follow one path into an answer. Past it the path counts as possible.
pub const ANSWER_SCHEMAS_WALKED_MAX: usize = 400;
/// Operations of one document.
pub const DOCUMENT_OPERATIONS_MAX: usize = 10_000;
/// Levels of mappings and lists in a document. It is also the limit of the JSON parser.
pub const DOCUMENT_DEPTH_MAX: usize = 127;
/// Values of a document.
pub const DOCUMENT_NODES_MAX: usize = 2_000_000;
/// Aliases, and anchors, of a document in YAML.
pub const DOCUMENT_ALIASES_MAX: usize = 10_000;
/// Parts of a document in YAML that its aliases repeat.
pub const DOCUMENT_ALIAS_EVENTS_MAX: usize = 500_000;
/// Warnings about one document. The last one says how many more there are.
pub const DOCUMENT_WARNINGS_MAX: usize = 200;
/// Base URLs of one list of servers, with the values that their variables may have.
pub const DOCUMENT_SERVERS_MAX: usize = 20;
/// References (`$ref`) that follow each other before something else stands there.
pub const REFERENCE_HOPS_MAX: usize = 50;
/// Parameters of one operation, those of its path included.
pub const OPERATION_PARAMETERS_MAX: usize = 500;
/// Media types that one body may have.
pub const OPERATION_CONTENTS_MAX: usize = 20;
/// Longest name of an operation. A longer one ends with a digest.
pub const OPERATION_NAME_BYTES_MAX: usize = 200;
/// Longest summary of an operation, and description of a parameter.
pub const OPERATION_SUMMARY_CHARS_MAX: usize = 300;
/// Longest description of an operation.
pub const OPERATION_DESCRIPTION_CHARS_MAX: usize = 8000;
/// Largest value under a key that begins with `x-`; a larger one is left out.
pub const OPERATION_EXTENSION_BYTES_MAX: usize = 2 << 10;
/// Shared schemas that are put beside one schema of an operation. Those past it accept anything.
pub const OPERATION_SCHEMAS_MAX: usize = 1000;
/// Bytes of JSON of the shared schemas beside one schema of an operation. Those past it accept anything.
pub const OPERATION_SCHEMAS_BYTES_MAX: usize = 256 << 10;
/// Shared schemas that refer to each other for the same value, one after another; a longer chain accepts anything.
pub const SCHEMA_REFERENCES_MAX: usize = 12;
/// Bytes of JSON that all operations of a document come to, with what several of them name counted for each.
pub const DOCUMENT_EXPANDED_BYTES_MAX: usize = 96 << 20;
/// Longest base URL, with its variables filled; a longer one is left out.
pub const SERVER_URL_BYTES_MAX: usize = 2000;
/// Regular expressions, and formats, of one document that are tried; a schema does not keep those past it.
pub const DOCUMENT_PATTERNS_MAX: usize = 2000;
/// Fields of an item that the contract of a provider names.
pub const PROVIDER_FIELDS_MAX: usize = 100;
/// Words of a query that are searched for; the rest is ignored.
pub const SEARCH_WORDS_MAX: usize = 16;

/// How long a document may take to come from a server.
pub const DOCUMENT_FETCH_MAX: Duration = Duration::from_secs(5);
/// How long an operation may take to be connected to, names resolved.
pub const CALL_CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a call of an operation, or of each of its pages, may take in all where its step does not say.
pub const CALL_MAX: Duration = Duration::from_secs(30);
/// Largest request of an operation.
pub const CALL_REQUEST_BYTES_MAX: usize = 16 << 20;
/// Longest URL of an operation with its arguments.
pub const CALL_URL_BYTES_MAX: usize = 16 << 10;
/// Largest answer of an operation, unpacked.
pub const CALL_ANSWER_BYTES_MAX: usize = 16 << 20;
/// Largest body of bytes that stands in an output, in base64; a larger one is kept as an artifact.
pub const CALL_BYTES_SHOWN_MAX: usize = 4 << 10;
/// Largest text that stands in the output of a step, as JSON text; a larger one is kept as an artifact.
pub const CALL_PAYLOAD_SHOWN_MAX: usize = 48 << 10;
/// Largest payload of a reply to `command.run_*`, as JSON text; a larger one is kept as an artifact. With it go headers,
/// within `FINAL_OUTPUT_BYTES_MAX`.
pub const CALL_REPLY_SHOWN_MAX: usize = 16 << 10;
/// Largest body of an answer that is kept as an artifact.
pub const CALL_ARTIFACT_BYTES_MAX: usize = 8 << 20;
/// What is kept of the answer where an operation fails.
pub const CALL_ERROR_BYTES_MAX: usize = 8 << 10;
/// What is read of it, so that no secret is kept of which only a part is seen.
pub const CALL_ERROR_READ_BYTES_MAX: usize = 64 << 10;
/// Headers of an answer, their names and values.
pub const CALL_HEADERS_BYTES_MAX: usize = 64 << 10;
/// Redirects that one call follows.
pub const CALL_REDIRECTS_MAX: usize = 3;
/// How long an operation may ask to be left alone; longer is this long.
pub const CALL_RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);
/// Connections to one host that are kept though nobody calls it.
pub const CALL_IDLE_CONNECTIONS_MAX: usize = 64;
/// Values of an answer that is JSON, and of all pages of a list. A value takes some 100 bytes of memory, however short it is.
pub const CALL_ANSWER_VALUES_MAX: usize = 500_000;
/// Pages of a list where `paginate` does not say how many.
pub const CALL_PAGES: u32 = 10;
/// The most pages of a list.
pub const CALL_PAGES_MAX: u32 = 1_000;
/// Items of all pages of a list.
pub const CALL_ITEMS_MAX: usize = 10_000;
/// JSON of all pages of a list.
pub const CALL_ITEMS_BYTES_MAX: usize = 8 << 20;
/// Largest file of secrets.
pub const SECRETS_FILE_BYTES_MAX: u64 = 64 << 10;
/// How deep the values of an example lie inside each other; what lies deeper is a text.
pub const EXAMPLE_DEPTH_MAX: usize = 8;
/// Items that a list in an example has at most.
pub const EXAMPLE_ITEMS_MAX: usize = 20;
/// Characters that a text in an example has at most.
pub const EXAMPLE_CHARS_MAX: usize = 1_000;
}
