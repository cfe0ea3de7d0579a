//! The text of a prompt: instructions from midex, and data in code blocks that it cannot close.

use serde_json::Value;

use crate::tools::{self, Spelling, Toolsets};

/// A prompt text under construction.
pub(super) struct PromptText {
    text: String,
    spelling: Spelling,
    /// The tools that the instructions may name.
    tools: Vec<&'static str>,
}

impl PromptText {
    pub(super) fn new(spelling: Spelling) -> Self {
        Self { text: String::new(), spelling, tools: tools::tool_names(Toolsets::ALL) }
    }

    /// Adds instructions from midex, which may name tools.
    pub(super) fn add_instructions(&mut self, words: &str) {
        let words = self.spelling.spell_text(words, &self.tools);
        self.text.extend([words.trim_end(), "\n\n"]);
    }

    /// Adds data from another author as a code block, under a heading.
    pub(super) fn add_quoted_data(&mut self, heading: &str, language: &str, text: &str) {
        let longest_fence = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
        let fence = "`".repeat(longest_fence.max(2) + 1);
        let text = text.trim_end_matches('\n');
        self.add_instructions(heading);
        self.text.extend([&*fence, language, "\n", text, "\n", &*fence, "\n\n"]);
    }

    pub(super) fn finish(self) -> String {
        self.text.trim_end().to_owned() + "\n"
    }
}

/// An argument as text. The protocol requires texts, but some clients send other JSON values.
pub(super) fn format_argument(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}
