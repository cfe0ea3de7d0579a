//! What hosts say of their events on standard input, and how each takes an answer. Claude Code, Codex and the Gemini CLI
//! share one form; VS Code and Cursor have their own, and are known by the names of their fields. `docs/clients.md` names
//! the page of each.

use std::{
    fs::File,
    io::{IsTerminal, Read, Seek, SeekFrom},
    path::PathBuf,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use midex_domain::limits;

/// What a host says of its event, as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    #[serde(alias = "sessionId", alias = "conversation_id")]
    session: Option<String>,
    session_id: Option<String>,
    cwd: Option<PathBuf>,
    /// Whether the agent goes on because a hook asked it to.
    stop_hook_active: bool,
    /// VS Code alone writes it so.
    #[serde(rename = "hookEventName")]
    event: Option<String>,
    cursor_version: Option<String>,
    /// Cursor says this in place of a working directory.
    workspace_roots: Vec<PathBuf>,
    /// How often a hook of Cursor has made the agent go on.
    loop_count: u64,
    /// How a turn in Cursor ended.
    status: Option<String>,
    /// The host's transcript of the session.
    transcript_path: Option<PathBuf>,
}

impl Told {
    /// Reads standard input. A person at a terminal says nothing; a host that keeps it open is not waited for.
    pub(super) async fn read() -> Self {
        let mut text = Vec::new();
        if !std::io::stdin().is_terminal() {
            let mut input = tokio::io::stdin().take(limits::HOOK_INPUT_BYTES_MAX);
            let read = input.read_to_end(&mut text);
            let _ = tokio::time::timeout(limits::HOOK_INPUT_WITHIN, read).await;
        }
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The session of the host; Cursor's is a conversation.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref().or(self.session_id.as_deref())
    }

    /// Where the session is. The shell of an agent may stand in any directory of its project.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        let host = std::env::var_os("CLAUDE_PROJECT_DIR").map(PathBuf::from);
        let named = [
            host.as_ref(),
            self.workspace_roots.first(),
            self.cwd.as_ref(),
        ];
        let mut named = named.into_iter().flatten();
        named.find(|dir| dir.is_absolute() && dir.is_dir()).cloned()
    }

    /// The end of the transcript without white space and backslashes, as [`bare`] makes it; `None` if the host gives no readable
    /// file.
    pub(super) fn transcript(&self) -> Option<String> {
        let mut file = File::open(self.transcript_path.as_ref()?).ok()?;
        let bytes = file.metadata().ok()?.len();
        let begin = bytes.saturating_sub(limits::HOOK_TRANSCRIPT_BYTES_MAX);
        file.seek(SeekFrom::Start(begin)).ok()?;
        let mut text = Vec::new();
        let most = limits::HOOK_TRANSCRIPT_BYTES_MAX;
        file.take(most).read_to_end(&mut text).ok()?;
        Some(bare(&String::from_utf8_lossy(&text)))
    }

    /// Whether the agent may be asked to go on: no hook did it before, and nobody stopped it.
    pub(super) fn may_go_on(&self) -> bool {
        let completed = self
            .status
            .as_ref()
            .is_none_or(|status| status == "completed");
        !self.stop_hook_active && self.loop_count == 0 && completed
    }

    /// The answer that adds text to the context of a session that begins.
    pub(super) fn context(&self, text: &str) -> Value {
        if self.cursor_version.is_some() {
            return json!({ "additional_context": text });
        }
        json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": text } })
    }

    /// The answer that makes the agent go on, for this reason.
    pub(super) fn go_on(&self, reason: &str) -> Value {
        if self.cursor_version.is_some() {
            return json!({ "followup_message": reason });
        }
        if self.event.is_some() {
            return json!({ "hookSpecificOutput": { "hookEventName": "Stop", "decision": "block", "reason": reason } });
        }
        json!({ "decision": "block", "reason": reason })
    }
}

/// The text without white space and backslashes: in a transcript, an answer may be quoted more than once.
pub(super) fn bare(text: &str) -> String {
    let is_kept = |c: &char| *c != '\\' && !c.is_whitespace();
    text.chars().filter(is_kept).collect()
}
