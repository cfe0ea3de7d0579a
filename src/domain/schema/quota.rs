//! What the regular expressions of one definition may come to together.

use super::{
    FaultKind,
    pattern::{Pattern, has_flags},
};
use crate::limits;

/// What regular expressions may still come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    patterns: usize,
    bytes: usize,
    /// Whether it was told that there are too many.
    is_spent: bool,
}

impl Default for Quota {
    /// What those of one definition may come to.
    fn default() -> Self {
        Self {
            patterns: limits::SCHEMA_PATTERNS_MAX,
            bytes: limits::SCHEMA_PATTERNS_MEMORY_MAX,
            is_spent: false,
        }
    }
}

impl Quota {
    /// Compiles an expression. What is past a limit is not compiled, and told of once: `None` after that.
    pub(super) fn compile(&mut self, text: &str) -> Option<Result<Pattern, (FaultKind, String)>> {
        if self.is_spent {
            return None;
        }
        if self.patterns == 0 {
            let most = limits::SCHEMA_PATTERNS_MAX;
            return Some(self.spent(format!(
                "the definition has more than {most} regular expressions, which is the limit"
            )));
        }
        self.patterns -= 1;
        let made = Pattern::compile(text);
        // To find out that one is too large costs as much as the largest that is not.
        let memory = made
            .as_ref()
            .map_or(limits::SCHEMA_PATTERN_MEMORY_MAX, Pattern::memory);
        let Some(left) = self.bytes.checked_sub(memory + folding(text)) else {
            let most = limits::SCHEMA_PATTERNS_MEMORY_MAX;
            return Some(self.spent(format!(
                "the regular expressions of the definition take more than {most} bytes, compiled: repeat less in them"
            )));
        };
        self.bytes = left;
        Some(made.map_err(|fault| {
            let message = format!("`{text}` is no regular expression that can be used: {fault}");
            (FaultKind::Pattern, message)
        }))
    }

    fn spent<T>(&mut self, message: String) -> Result<T, (FaultKind, String)> {
        self.is_spent = true;
        Err((FaultKind::Limit, message))
    }
}

/// What flags in an expression cost: where case does not count, a byte may bring a class that takes long to fold.
fn folding(text: &str) -> usize {
    if has_flags(text) { text.len() << 10 } else { 0 }
}
