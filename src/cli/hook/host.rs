//! The event that a host describes on standard input, and the form of the answer it expects. Claude Code, Codex and the
//! Gemini CLI share one form; VS Code and Cursor have their own, and are recognized by their field names.
//! `docs/clients.md` links to the documentation of each.

use std::{
    fs::File,
    io::{IsTerminal, Read, Seek, SeekFrom},
    path::PathBuf,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use midex_domain::limits;

/// The fields of a host's event that midex uses.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HostEvent {
    #[serde(alias = "sessionId", alias = "conversation_id")]
    session: Option<String>,
    session_id: Option<String>,
    cwd: Option<PathBuf>,
    /// Whether a hook has already made the agent continue.
    stop_hook_active: bool,
    /// Only VS Code uses this name.
    #[serde(rename = "hookEventName")]
    event: Option<String>,
    cursor_version: Option<String>,
    /// Cursor sends these in place of a working directory.
    workspace_roots: Vec<PathBuf>,
    /// How many times a hook has made the agent continue, in Cursor.
    loop_count: u64,
    /// How the turn ended, in Cursor.
    status: Option<String>,
    /// The host's transcript of the session.
    transcript_path: Option<PathBuf>,
}

impl HostEvent {
    /// Reads standard input, unless it is a terminal. The wait is limited, because a host may keep the stream open.
    pub(super) async fn read() -> Self {
        let mut text = Vec::new();
        if !std::io::stdin().is_terminal() {
            let mut input = tokio::io::stdin().take(limits::HOOK_INPUT_BYTES_MAX);
            let read_input = input.read_to_end(&mut text);
            let _ = tokio::time::timeout(limits::HOOK_INPUT_WITHIN, read_input).await;
        }
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The session id of the host; for Cursor, the conversation id.
    pub(super) fn session_id(&self) -> Option<&str> {
        self.session.as_deref().or(self.session_id.as_deref())
    }

    /// The directory of the session. The working directory comes last, because an agent's shell may be anywhere in the
    /// project.
    pub(super) fn session_directory(&self) -> Option<PathBuf> {
        let host_directory = std::env::var_os("CLAUDE_PROJECT_DIR").map(PathBuf::from);
        let candidates = [host_directory.as_ref(), self.workspace_roots.first(), self.cwd.as_ref()];
        let mut candidates = candidates.into_iter().flatten();
        candidates.find(|dir| dir.is_absolute() && dir.is_dir()).cloned()
    }

    /// The last part of the transcript, with white space and backslashes removed by [`strip_whitespace_and_backslashes`]. `None` if the host names
    /// no readable file.
    pub(super) fn transcript_tail(&self) -> Option<String> {
        let mut file = File::open(self.transcript_path.as_ref()?).ok()?;
        let bytes = file.metadata().ok()?.len();
        let start = bytes.saturating_sub(limits::HOOK_TRANSCRIPT_BYTES_MAX);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut text = Vec::new();
        let limit = limits::HOOK_TRANSCRIPT_BYTES_MAX;
        file.take(limit).read_to_end(&mut text).ok()?;
        Some(strip_whitespace_and_backslashes(&String::from_utf8_lossy(&text)))
    }

    /// Whether the agent may be asked to continue: no hook has done so already, and the turn was not aborted.
    pub(super) fn may_continue(&self) -> bool {
        let is_completed = self.status.as_ref().is_none_or(|status| status == "completed");
        !self.stop_hook_active && self.loop_count == 0 && is_completed
    }

    /// The answer that adds text to the context of a new session.
    pub(super) fn context_answer(&self, text: &str) -> Value {
        if self.cursor_version.is_some() {
            return json!({ "additional_context": text });
        }
        json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": text } })
    }

    /// The answer that makes the agent continue, for this reason.
    pub(super) fn continue_answer(&self, reason: &str) -> Value {
        if self.cursor_version.is_some() {
            return json!({ "followup_message": reason });
        }
        if self.event.is_some() {
            return json!({ "hookSpecificOutput": { "hookEventName": "Stop", "decision": "block", "reason": reason } });
        }
        json!({ "decision": "block", "reason": reason })
    }
}

/// The text without white space and backslashes: in a transcript, an answer may be escaped more than once.
pub(super) fn strip_whitespace_and_backslashes(text: &str) -> String {
    let is_kept = |c: &char| *c != '\\' && !c.is_whitespace();
    text.chars().filter(is_kept).collect()
}
