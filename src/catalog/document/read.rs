//! Parses the bytes of a document into a JSON value, within limits. In this crate only this module uses the YAML
//! library.

use serde_json::Value;
use serde_saphyr::{
    Options,
    options::{DuplicateKeyPolicy, MergeKeyPolicy},
};

use midex_domain::{document::count_json_values, error::Violation, limits};

/// Parses JSON if the text begins with `{` or `[`, and YAML otherwise.
pub(super) fn parse_document(text: &[u8]) -> Result<Value, Box<Violation>> {
    let text = decode_text(text)?;
    match text.trim_start().chars().next() {
        None => Err(violation_at("document_empty", "the document is empty".into(), None)),
        Some('<') => {
            let message = "this is HTML or XML, not an OpenAPI document: it is probably a page about the API; give the address of its `openapi.json` or `openapi.yaml`";
            Err(violation_at("document_kind", message.into(), Some((1, 1))))
        }
        Some('{' | '[') => parse_json(text),
        Some(_) => parse_yaml(text),
    }
}

fn decode_text(bytes: &[u8]) -> Result<&str, Box<Violation>> {
    let max_bytes = limits::DOCUMENT_BYTES_MAX;
    if bytes.len() > max_bytes {
        let message = format!(
            "the document has {} bytes, the limit is {max_bytes}: import a smaller one, without examples or parts that nobody calls",
            bytes.len()
        );
        return Err(violation_at("document_size", message, None));
    }
    let text = str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        violation_at(
            "encoding",
            format!("the document is no UTF-8 text, from byte {offset} on"),
            None,
        )
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn parse_json(text: &str) -> Result<Value, Box<Violation>> {
    let values = count_json_values(text.as_bytes());
    let max_values = limits::DOCUMENT_NODES_MAX;
    if values > max_values {
        let message = format!(
            "the document has some {values} values, the limit is {max_values}: split it by paths"
        );
        return Err(violation_at("document_size", message, None));
    }
    serde_json::from_str(text).map_err(|error| {
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        syntax_violation("JSON", words, Some((error.line(), error.column())))
    })
}

fn parse_yaml(text: &str) -> Result<Value, Box<Violation>> {
    serde_saphyr::from_str_with_options(text, yaml_options()).map_err(|error| {
        let place = error.location().map(|location| {
            let to_number = |number| usize::try_from(number).unwrap_or(1);
            (to_number(location.line()), to_number(location.column()))
        });
        syntax_violation("YAML", &error.without_snippet().to_string(), place)
    })
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            // A value is at most three events of the parser.
            max_events: 3 * limits::DOCUMENT_NODES_MAX,
            max_nodes: limits::DOCUMENT_NODES_MAX,
            max_aliases: limits::DOCUMENT_ALIASES_MAX,
            max_anchors: limits::DOCUMENT_ALIASES_MAX,
            max_recorded_anchor_events: limits::DOCUMENT_NODES_MAX,
            max_depth: limits::DOCUMENT_DEPTH_MAX,
            flow_nesting_limit: limits::DOCUMENT_DEPTH_MAX,
            max_documents: 2,
            // Documents often have many aliases of one anchor. The size of what they repeat is limited instead.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: limits::DOCUMENT_ALIAS_EVENTS_MAX,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: MergeKeyPolicy::Merge,
        strict_booleans: true,
        with_snippet: false,
    }
}

fn syntax_violation(language: &str, words: &str, place: Option<(usize, usize)>) -> Box<Violation> {
    violation_at("syntax", format!("the document cannot be read as {language}: {words}"), place)
}

fn violation_at(rule: &str, message: String, place: Option<(usize, usize)>) -> Box<Violation> {
    Box::new(Violation {
        line: place.map(|(line, _)| line.max(1)),
        column: place.map(|(_, column)| column.max(1)),
        ..Violation::new("", rule, message)
    })
}
