//! The text of a prompt: our words, and data in blocks that it cannot close.

use serde_json::Value;

use crate::tools::{self, Spelling, Toolsets};

/// A prompt that is being written.
pub(super) struct Page {
    text: String,
    spelling: Spelling,
    /// The tools that our words may name.
    tools: Vec<&'static str>,
}

impl Page {
    pub(super) fn new(spelling: Spelling) -> Self {
        Self {
            text: String::new(),
            spelling,
            tools: tools::names(Toolsets::ALL),
        }
    }

    /// Our own words, which may name tools.
    pub(super) fn say(&mut self, words: &str) {
        let words = self.spelling.text(words, &self.tools);
        self.text.extend([words.trim_end(), "\n\n"]);
    }

    /// What somebody else wrote, under a heading of ours.
    pub(super) fn quote(&mut self, heading: &str, language: &str, text: &str) {
        let longest = text
            .split(|c| c != '`')
            .map(str::len)
            .max()
            .unwrap_or_default();
        let fence = "`".repeat(longest.max(2) + 1);
        let text = text.trim_end_matches('\n');
        self.say(heading);
        self.text
            .extend([&*fence, language, "\n", text, "\n", &*fence, "\n\n"]);
    }

    pub(super) fn done(self) -> String {
        self.text.trim_end().to_owned() + "\n"
    }
}

/// An argument, which the protocol has as a text, though some clients send it as what it is.
pub(super) fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}
