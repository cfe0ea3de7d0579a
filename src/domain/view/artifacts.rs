//! Views of artifacts: `workflow_artifacts`, and ranges of their content.

use std::collections::HashMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    artifact::{Artifact, ArtifactKind, ArtifactReference, CONTENT_TYPE_DEFAULT, artifact_uri},
    document::JsonText,
    event::{Event, Row, VisitId},
    id::{AgentName, StepId},
};

/// One artifact without its content: either stored, or an [`ArtifactReference`], whose text names something kept
/// elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArtifactView {
    /// Counts the artifacts of the execution, from 1.
    pub id: u32,
    /// The step that produced it.
    pub step_name: String,
    /// The agent that produced it; null if no agent acted.
    pub agent_name: Option<String>,
    /// The kind of the artifact.
    pub artifact_type: String,
    /// Its name.
    pub name: String,
    /// The media type of its content.
    pub content_type: String,
    /// The size of its content in bytes.
    pub size_bytes: u64,
    /// Further metadata from the agent. For a reference `{is_reference: true, artifact_id}`, with the id of the
    /// artifact of this execution that its text names, or null.
    pub metadata: Option<Value>,
    /// When it was stored.
    pub created_at: String,
    /// The SHA-256 of its content; null for a reference.
    pub sha256: Option<String>,
    /// The address of its content; null for a reference.
    pub uri: Option<String>,
}

/// A part of an artifact's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArtifactContent {
    /// The artifact.
    #[serde(flatten)]
    pub artifact: ArtifactView,
    /// The first byte shown: the one asked for, or the one before it that begins a character.
    pub offset: u64,
    /// The offset to continue at; null at the end of the content.
    pub next_offset: Option<u64>,
    /// The content from `offset` on, if the whole content is UTF-8 text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The content from `offset` on in base64, if the whole content is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// The artifacts of an execution in the order of their creation, each with its stored record (`None` for a reference).
/// `step` restricts them to one step.
pub fn artifact_views<'a>(
    rows: impl Iterator<Item = &'a Row>,
    step: Option<&StepId>,
) -> Vec<(ArtifactView, Option<&'a Artifact>)> {
    let mut ids = HashMap::new();
    rows.flat_map(|row| row.events.iter().map(move |event| (row, event)))
        .filter_map(|(row, event)| artifact_view(row, event, &mut ids))
        .filter(|(view, _)| step.is_none_or(|step| step.as_str() == view.step_name))
        .collect()
}

/// `ids` maps names (for duplicates the latest) and addresses of the artifacts before this one to their ids.
fn artifact_view<'a>(
    row: &Row,
    event: &'a Event,
    ids: &mut HashMap<String, u32>,
) -> Option<(ArtifactView, Option<&'a Artifact>)> {
    match event {
        Event::ArtifactStored { visit_id, agent, artifact } => {
            let uri = artifact_uri(&row.execution_id, artifact.id);
            ids.insert(artifact.name.clone(), artifact.id);
            ids.insert(uri.clone(), artifact.id);
            let view = ArtifactView {
                artifact_type: artifact.kind.as_str().to_owned(),
                content_type: artifact.content_type.clone(),
                size_bytes: artifact.bytes,
                metadata: artifact.metadata.as_ref().map(JsonText::value),
                sha256: Some(artifact.digest.to_string()),
                uri: Some(uri),
                ..reference_view(row, visit_id, agent.as_ref(), artifact.id, &artifact.name)
            };
            Some((view, Some(artifact)))
        }
        Event::ArtifactNamed { visit_id, agent, reference: ArtifactReference { id, text } } => {
            let metadata = json!({ "is_reference": true, "artifact_id": ids.get(text) });
            let view = ArtifactView {
                metadata: Some(metadata),
                ..reference_view(row, visit_id, agent.as_ref(), *id, text)
            };
            Some((view, None))
        }
        _ => None,
    }
}

/// The view of a reference, which has only a name.
fn reference_view(
    row: &Row,
    visit_id: &VisitId,
    agent: Option<&AgentName>,
    id: u32,
    name: &str,
) -> ArtifactView {
    ArtifactView {
        id,
        step_name: visit_id.step().to_string(),
        agent_name: agent.map(ToString::to_string),
        artifact_type: ArtifactKind::Data.as_str().to_owned(),
        name: name.to_owned(),
        content_type: CONTENT_TYPE_DEFAULT.to_owned(),
        size_bytes: name.len() as u64,
        metadata: None,
        created_at: row.at.to_string(),
        sha256: None,
        uri: None,
    }
}

/// At most `limit` bytes of `bytes` from `offset` on: as text if `bytes` is UTF-8, else in base64.
pub fn slice_artifact_content(
    artifact: ArtifactView,
    bytes: &[u8],
    offset: u64,
    limit: usize,
) -> ArtifactContent {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let offset = offset.min(bytes.len());
    let text = std::str::from_utf8(bytes);
    let (start, end) = match text {
        Ok(text) => char_boundary_range(text, offset, limit),
        Err(_) => (offset, offset.saturating_add(limit.max(1)).min(bytes.len())),
    };
    ArtifactContent {
        artifact,
        offset: start as u64,
        next_offset: (end < bytes.len()).then_some(end as u64),
        content: text.ok().map(|text| text[start..end].to_owned()),
        base64: text.is_err().then(|| BASE64_STANDARD.encode(&bytes[start..end])),
    }
}

/// A range that begins and ends between characters and contains at least one, so that repeated reads reach the end.
fn char_boundary_range(text: &str, offset: usize, limit: usize) -> (usize, usize) {
    let start = text.floor_char_boundary(offset);
    let end = text.floor_char_boundary(start.saturating_add(limit).min(text.len()));
    let first = text[start..].chars().next().map_or(0, char::len_utf8);
    (start, end.max(start + first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content_of_bytes(whole: &[u8], offset: u64, limit: usize) -> ArtifactContent {
        let artifact = ArtifactView {
            id: 1,
            step_name: "s".into(),
            agent_name: None,
            artifact_type: ArtifactKind::File.as_str().to_owned(),
            name: "n".into(),
            content_type: "text/plain".into(),
            size_bytes: whole.len() as u64,
            metadata: None,
            created_at: String::new(),
            sha256: None,
            uri: None,
        };
        slice_artifact_content(artifact, whole, offset, limit)
    }

    fn content_of_text(text: &str, offset: u64, limit: usize) -> (u64, Option<u64>, String) {
        let part = content_of_bytes(text.as_bytes(), offset, limit);
        assert_eq!(part.base64, None);
        (part.offset, part.next_offset, part.content.expect("text"))
    }

    #[test]
    fn binary_content_is_shown_in_base64() {
        let whole: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for limit in [0, 1, 2, 7, 999, 1000, 5000] {
            let (mut read, mut at) = (Vec::new(), Some(0));
            while let Some(offset) = at {
                let part = content_of_bytes(&whole, offset, limit);
                assert_eq!((part.offset, part.content), (offset, None));
                let bytes = BASE64_STANDARD.decode(part.base64.expect("base64"));
                read.extend(bytes.expect("base64"));
                at = part.next_offset;
            }
            assert!(read == whole, "{limit}");
        }
        assert_eq!(content_of_bytes(&whole, 2000, 5).next_offset, None);
    }

    #[test]
    fn ranges_are_cut_between_characters() {
        assert_eq!(content_of_text("hello", 1, 3), (1, Some(4), "ell".into()));
        assert_eq!(content_of_text("hello", 1, 4), (1, None, "ello".into()));
        assert_eq!(content_of_text("hello", 9, 4), (5, None, String::new()));
        // `é` has two bytes. A range that begins inside it starts before it, and a range that is too short for it
        // contains it anyway.
        assert_eq!(content_of_text("aéb", 2, 1), (1, Some(3), "é".into()));
        assert_eq!(content_of_text("aéb", 0, 2), (0, Some(1), "a".into()));
        assert_eq!(content_of_text("", 0, 10), (0, None, String::new()));
    }

    #[test]
    fn reading_from_next_offset_yields_all_content() {
        let text = "zwölf Boxkämpfer jagen 鍵 über den Deich".repeat(20);
        for limit in [1, 2, 3, 7, 64, 10_000] {
            let (mut whole, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let (_, next, content) = content_of_text(&text, offset, limit);
                whole.push_str(&content);
                at = next;
            }
            assert_eq!(whole, text, "{limit}");
        }
    }
}
