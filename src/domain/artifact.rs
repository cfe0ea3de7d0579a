//! Artifacts: pieces of content that a step leaves behind besides its summary. The content is stored once, by digest;
//! the stored output refers to the artifact instead of containing it (`workflow_artifacts`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    document::{Digest, JsonText},
    id::ExecutionId,
    truncate::json_length,
};
use crate::{
    error::{Error, Result},
    limits, uri,
};

/// The kind of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// A file of the work: source, a patch, a configuration.
    File,
    /// Data: a log excerpt, measurements, a table.
    Data,
    /// A document for readers.
    Report,
    /// A single finding.
    Finding,
}

impl ArtifactKind {
    /// Every kind, in the order in which they are documented.
    pub const ALL: [Self; 4] = [Self::File, Self::Data, Self::Report, Self::Finding];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Data => "data",
            Self::Report => "report",
            Self::Finding => "finding",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One artifact of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its number among the artifacts and references of the execution, from 1.
    pub id: u32,
    /// Its kind.
    pub kind: ArtifactKind,
    /// Its name, as the agent or the service gave it.
    pub name: String,
    /// The media type of its content.
    pub content_type: String,
    /// The digest of its content.
    pub digest: Digest,
    /// The length of its content in bytes.
    pub bytes: u64,
    /// Additional data from the agent: an object.
    pub metadata: Option<JsonText>,
}

/// A text in an output's `artifacts` that refers to content kept elsewhere: a path, an id, the name of an [`Artifact`].
/// The text stays in the output and is listed among the artifacts, without content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactReference {
    /// Its number, from the same sequence as the ids of artifacts.
    pub id: u32,
    /// The text.
    pub text: String,
}

/// The media type of artifacts for which the agent names none, and of every [`ArtifactReference`].
pub(super) const CONTENT_TYPE_DEFAULT: &str = "text/plain";

/// An output in the form in which it is stored, and the artifacts that it contained.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExtractedArtifacts {
    /// The output, with a reference in place of each artifact's content.
    pub(super) output: Value,
    /// The artifacts, each with its content.
    pub(super) artifacts: Vec<(Artifact, Arc<[u8]>)>,
    /// The texts in `artifacts`, numbered after the artifacts.
    pub(super) references: Vec<ArtifactReference>,
}

/// Extracts the artifacts from an output's `artifacts`, and numbers the texts there, which stay in place. Elements that
/// are neither, because the step's schema uses the name for something else, also stay in place. `None` if `artifacts`
/// has no artifact and no text. `artifact_count` is the number of artifacts and texts that the execution has already.
///
/// # Errors
/// `LIMIT_EXCEEDED` for an artifact over [`limits::ARTIFACT_BYTES_MAX`] or an execution with more than
/// [`limits::ARTIFACTS_MAX`].
pub(super) fn extract_artifacts(
    output: &Value,
    artifact_count: u32,
) -> Result<Option<ExtractedArtifacts>> {
    let Some(items) = output.get("artifacts").and_then(Value::as_array) else {
        return Ok(None);
    };
    let (mut output_items, mut artifacts) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        match item.as_object().and_then(ArtifactInput::from_json) {
            Some(input) => {
                let (artifact, content) = input
                    .check_limits(limits::ARTIFACT_BYTES_MAX)?
                    .into_artifact(next_artifact_id(artifact_count, artifacts.len())?);
                output_items.push(build_reference(&artifact));
                artifacts.push((artifact, content));
            }
            None => output_items.push(item.clone()),
        }
    }
    let references = find_artifact_references(items, artifact_count, artifacts.len());
    if artifacts.is_empty() && references.is_empty() {
        return Ok(None);
    }
    let without_contents = |(name, value): (&String, &Value)| {
        let kept =
            if name == "artifacts" { Value::Array(output_items.clone()) } else { value.clone() };
        (name.clone(), kept)
    };
    let output = output.as_object().into_iter().flatten().map(without_contents).collect();
    Ok(Some(ExtractedArtifacts { output, artifacts, references }))
}

/// The texts among `items` that could be the name of an artifact, up to the limits on their number. Texts past a limit
/// stay in the output and are not listed.
fn find_artifact_references(
    items: &[Value],
    artifact_count: u32,
    offset: usize,
) -> Vec<ArtifactReference> {
    let texts = items.iter().filter_map(Value::as_str);
    texts
        .filter(|text| is_valid_name(text))
        .zip(offset..)
        .map_while(|(text, more)| {
            let id = next_artifact_id(artifact_count, more).ok()?;
            let text = text.to_owned();
            Some(ArtifactReference { id, text })
        })
        .collect()
}

/// Whether the length of `text` is within the limits for the name of an artifact.
fn is_valid_name(text: &str) -> bool {
    (1..=limits::ARTIFACT_NAME_CHARS_MAX).contains(&text.chars().count())
}

fn next_artifact_id(artifact_count: u32, offset: usize) -> Result<u32> {
    if offset >= limits::OUTPUT_ARTIFACTS_MAX {
        let max_artifacts = limits::OUTPUT_ARTIFACTS_MAX;
        return Err(Error::limit_exceeded(format!("an output may have {max_artifacts} artifacts")));
    }
    let id = u32::try_from(offset)
        .ok()
        .and_then(|more| artifact_count.checked_add(more)?.checked_add(1));
    id.filter(|id| *id <= limits::ARTIFACTS_MAX).ok_or_else(|| {
        Error::limit_exceeded(format!("an execution may have {} artifacts", limits::ARTIFACTS_MAX))
    })
}

struct ArtifactInput<'a> {
    kind: ArtifactKind,
    name: &'a str,
    content: &'a [u8],
    content_type: &'a str,
    metadata: Option<&'a Value>,
}

impl<'a> ArtifactInput<'a> {
    fn from_json(item: &'a Map<String, Value>) -> Option<Self> {
        let text = |name: &str| item.get(name).and_then(Value::as_str);
        let known = |key: &String| ARTIFACT_KEYS.contains(&key.as_str());
        item.keys().all(known).then_some(())?;
        Some(Self {
            kind: ArtifactKind::parse(text("type")?)?,
            name: text("name")?,
            content: text("content")?.as_bytes(),
            content_type: match item.get("content_type") {
                Some(given) => given.as_str()?,
                None => CONTENT_TYPE_DEFAULT,
            },
            metadata: item.get("metadata"),
        })
    }

    /// Checks the limits of an artifact, which hold whatever schema the step declares. `max_bytes` is the limit on its
    /// content in bytes.
    fn check_limits(self, max_bytes: usize) -> Result<Self> {
        let chars = limits::ARTIFACT_NAME_CHARS_MAX;
        if !is_valid_name(self.name) || !is_valid_name(self.content_type) {
            return Err(Error::limit_exceeded(format!(
                "an artifact's name and content_type have 1 to {chars} characters"
            )));
        }
        let bytes = self.content.len();
        if bytes > max_bytes {
            return Err(Error::limit_exceeded(format!(
                "an artifact may have {max_bytes} bytes, `{}` has {bytes}",
                self.name
            )));
        }
        let (bytes, max_metadata_bytes) =
            (self.metadata.map_or(0, json_length), limits::ARTIFACT_METADATA_BYTES_MAX);
        if bytes > max_metadata_bytes {
            return Err(Error::limit_exceeded(format!(
                "an artifact's metadata may have {max_metadata_bytes} bytes, that of `{}` has {bytes}",
                self.name
            )));
        }
        Ok(self)
    }

    fn into_artifact(self, id: u32) -> (Artifact, Arc<[u8]>) {
        let content: Arc<[u8]> = self.content.into();
        let artifact = Artifact {
            id,
            kind: self.kind,
            name: self.name.to_owned(),
            content_type: self.content_type.to_owned(),
            digest: Digest::compute(&content),
            bytes: content.len() as u64,
            metadata: self.metadata.map(JsonText::from_value),
        };
        (artifact, content)
    }
}

/// Makes an artifact from the body of a response, and returns it with its content. `artifact_count` is the number of artifacts
/// and texts that the execution has already.
///
/// # Errors
/// `LIMIT_EXCEEDED` for one over [`limits::CALL_ARTIFACT_BYTES_MAX`] or an execution with more than
/// [`limits::ARTIFACTS_MAX`].
pub(super) fn artifact_from_response(
    (name, content_type): (&str, &str),
    content: &[u8],
    artifact_count: u32,
) -> Result<(Artifact, Arc<[u8]>)> {
    let input = ArtifactInput {
        kind: ArtifactKind::File,
        name: &safe_file_name(name),
        content,
        content_type,
        metadata: None,
    };
    let input = input.check_limits(limits::CALL_ARTIFACT_BYTES_MAX)?;
    Ok(input.into_artifact(next_artifact_id(artifact_count, 0)?))
}

/// Makes a safe file name from the name that a service gave: no directories, no leading dots, no control characters, at
/// most [`limits::ARTIFACT_NAME_CHARS_MAX`] characters.
fn safe_file_name(name: &str) -> String {
    let last = name.split(['/', '\\']).rfind(|part| !part.is_empty());
    let plain = last.unwrap_or_default().chars();
    let plain: String = plain.filter(|letter| !letter.is_control()).collect();
    let plain = plain.trim().trim_start_matches('.').trim_start();
    if plain.is_empty() {
        return FILE_NAME_DEFAULT.to_owned();
    }
    let kept = plain.chars().take(limits::ARTIFACT_NAME_CHARS_MAX);
    kept.collect()
}

/// The file name if nothing is left of the given one.
const FILE_NAME_DEFAULT: &str = "answer";

const ARTIFACT_KEYS: &[&str] = &["type", "name", "content", "content_type", "metadata"];

/// The reference that replaces the body in the output of an operation, including the URI where the body can be read.
pub(super) fn build_reference_with_uri(artifact: &Artifact, execution: &ExecutionId) -> Value {
    let mut reference = build_reference(artifact);
    reference["uri"] = json!(artifact_uri(execution, artifact.id));
    reference
}

/// The URI of an artifact's content.
pub(super) fn artifact_uri(execution: &ExecutionId, artifact: u32) -> String {
    format!("midex://workflow/artifact/{}/{artifact}", uri::encode_segment(execution.as_str()))
}

/// The reference that replaces an artifact in a stored output.
fn build_reference(artifact: &Artifact) -> Value {
    let mut reference = json!({
        "id": artifact.id,
        "type": artifact.kind,
        "name": artifact.name,
        "content_type": artifact.content_type,
        "size_bytes": artifact.bytes,
    });
    if let Some(metadata) = &artifact.metadata {
        reference["metadata"] = metadata.value();
    }
    reference
}

/// The schema of one item of `artifacts` where a step declares no schema of its own.
pub(super) fn build_artifact_schema() -> Value {
    let kinds = ArtifactKind::ALL.map(ArtifactKind::as_str);
    json!({
        "type": ["string", "object"],
        "maxLength": limits::ARTIFACT_NAME_CHARS_MAX,
        "properties": {
            "type": { "enum": kinds },
            "name": { "type": "string", "minLength": 1, "maxLength": limits::ARTIFACT_NAME_CHARS_MAX },
            "content": { "type": "string" },
            "content_type": { "type": "string", "minLength": 1, "maxLength": limits::ARTIFACT_NAME_CHARS_MAX },
            "metadata": { "type": "object" }
        },
        "required": ["type", "name", "content"],
        "additionalProperties": false
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn make_reference(id: u32, text: &str) -> ArtifactReference {
        let text = text.to_owned();
        ArtifactReference { id, text }
    }

    #[test]
    fn extract_moves_contents_and_keeps_references() {
        let output = json!({ "summary": "s", "artifacts": [
            "doc_1",
            { "type": "report", "name": "a.md", "content": "# A", "content_type": "text/markdown", "metadata": { "v": 1 } },
            { "type": "data", "name": "b", "content": "" },
        ], "findings": [] });
        let extracted = extract_artifacts(&output, 4).expect("within limits").expect("artifacts");
        let expected = json!({ "summary": "s", "artifacts": [
            "doc_1",
            { "id": 5, "type": "report", "name": "a.md", "content_type": "text/markdown", "size_bytes": 3, "metadata": { "v": 1 } },
            { "id": 6, "type": "data", "name": "b", "content_type": "text/plain", "size_bytes": 0 },
        ], "findings": [] });
        assert_eq!(extracted.output, expected);
        let contents: Vec<&[u8]> =
            extracted.artifacts.iter().map(|(_, content)| &**content).collect();
        assert_eq!(contents, [&b"# A"[..], b""]);
        assert_eq!(extracted.references, [make_reference(7, "doc_1")]);
    }

    #[test]
    fn malformed_artifacts_are_left_unchanged() {
        for artifacts in [
            json!([1, true, null, ["a"]]),
            json!([{ "type": "diagram", "name": "a", "content": "c" }]),
            json!([{ "type": "file", "name": "a" }]),
            json!([{ "type": "file", "name": "a", "content": 1 }]),
            json!([{ "type": "file", "name": "a", "content": "c", "lines": 3 }]),
            json!("none"),
        ] {
            assert_eq!(
                extract_artifacts(&json!({ "artifacts": artifacts }), 0).expect("no limit"),
                None
            );
        }
        assert_eq!(extract_artifacts(&json!([1]), 0).expect("no limit"), None);
    }

    #[test]
    fn limits_hold_with_a_custom_schema() {
        let of = |name: &str, bytes: usize| {
            let metadata = json!({ "m": "x".repeat(bytes) });
            json!({ "artifacts": [{ "type": "file", "name": name, "content": "c", "metadata": metadata }] })
        };
        let most = limits::ARTIFACT_METADATA_BYTES_MAX - json_length(&json!({ "m": "" }));
        assert!(extract_artifacts(&of("a", most), 0).is_ok());
        assert!(extract_artifacts(&of("a", most + 1), 0).is_err());
        assert!(extract_artifacts(&of("", 0), 0).is_err());
        assert!(extract_artifacts(&of(&"é".repeat(limits::ARTIFACT_NAME_CHARS_MAX), 0), 0).is_ok());
        assert!(
            extract_artifacts(&of(&"é".repeat(limits::ARTIFACT_NAME_CHARS_MAX + 1), 0), 0).is_err()
        );
        let many = |count: usize| json!({ "artifacts": vec![json!({ "type": "file", "name": "a", "content": "" }); count] });
        assert!(extract_artifacts(&many(limits::OUTPUT_ARTIFACTS_MAX), 0).is_ok());
        assert!(extract_artifacts(&many(limits::OUTPUT_ARTIFACTS_MAX + 1), 0).is_err());
    }

    #[test]
    fn text_references_are_numbered_up_to_the_limit() {
        let references = |artifacts: Value, taken: u32| {
            let output = json!({ "artifacts": artifacts });
            let extracted = extract_artifacts(&output, taken).expect("no limit refuses a text");
            extracted.map_or_else(Vec::new, |extracted| {
                assert_eq!(extracted.output, output);
                extracted.references
            })
        };
        let two = [make_reference(4, "a"), make_reference(5, "b")];
        assert_eq!(references(json!(["a", 1, "b"]), 3), two);
        let (most, long) = (limits::ARTIFACTS_MAX, limits::ARTIFACT_NAME_CHARS_MAX);
        assert_eq!(references(json!(["a", "b"]), most - 1), [make_reference(most, "a")]);
        assert_eq!(references(json!(["a"]), most), []);
        assert_eq!(references(json!(["", "é".repeat(long + 1)]), 0), []);
        assert_eq!(references(json!(["é".repeat(long)]), 0).len(), 1);
        let many = limits::OUTPUT_ARTIFACTS_MAX;
        assert_eq!(references(json!(vec!["a"; many + 1]), 0).len(), many);
    }

    #[test]
    fn response_file_names_are_sanitized() {
        let long = "é".repeat(limits::ARTIFACT_NAME_CHARS_MAX + 1);
        for (said, expected) in [
            ("a b.png", "a b.png"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\x.bin", "x.bin"),
            ("/reports/", "reports"),
            ("..", "answer"),
            (" ..bashrc", "bashrc"),
            ("a\u{1b}[2J\n.png", "a[2J.png"),
            ("\u{0}", "answer"),
            ("", "answer"),
            (&long, &long[..long.len() - 2]),
        ] {
            assert_eq!(safe_file_name(said), expected, "{said:?}");
        }
    }

    #[test]
    fn oversized_response_file_is_refused() {
        let of = |bytes: usize, taken: u32| {
            let content = vec![0xff; bytes];
            artifact_from_response(("a", "image/png"), &content, taken)
        };
        let most = limits::CALL_ARTIFACT_BYTES_MAX;
        let (artifact, content) = of(most, 4).expect("within the limit");
        assert_eq!((artifact.id, artifact.bytes, content.len()), (5, most as u64, most));
        let error = of(most + 1, 4).expect_err("too large");
        assert_eq!(error.code(), Code::LimitExceeded);
        assert!(of(1, limits::ARTIFACTS_MAX - 1).is_ok());
        assert!(of(1, limits::ARTIFACTS_MAX).is_err());
    }

    #[test]
    fn artifacts_past_their_limits_are_refused() {
        let of = |bytes: usize| json!({ "artifacts": [{ "type": "file", "name": "a", "content": "x".repeat(bytes) }] });
        assert!(extract_artifacts(&of(limits::ARTIFACT_BYTES_MAX), 0).is_ok());
        let error =
            extract_artifacts(&of(limits::ARTIFACT_BYTES_MAX + 1), 0).expect_err("too large");
        assert_eq!(error.code(), Code::LimitExceeded);
        assert!(extract_artifacts(&of(1), limits::ARTIFACTS_MAX - 1).is_ok());
        assert!(extract_artifacts(&of(1), limits::ARTIFACTS_MAX).is_err());
    }
}
