//! The limits of all regular expressions of one definition together.

use super::pattern::{RegexPattern, has_flags};
use crate::{finding::Rule, limits};

/// The number and the bytes that further regular expressions may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternQuota {
    patterns: usize,
    bytes: usize,
    /// Whether a fault about a limit was returned already.
    is_spent: bool,
}

impl Default for PatternQuota {
    /// The whole quota of one definition.
    fn default() -> Self {
        Self {
            patterns: limits::SCHEMA_PATTERNS_MAX,
            bytes: limits::SCHEMA_PATTERNS_MEMORY_BYTES_MAX,
            is_spent: false,
        }
    }
}

impl PatternQuota {
    /// Compiles an expression. Past a limit it returns a fault once, and then `None`.
    pub(super) fn compile_pattern(
        &mut self,
        text: &str,
    ) -> Option<Result<RegexPattern, (Rule, String)>> {
        if self.is_spent {
            return None;
        }
        if self.patterns == 0 {
            let most = limits::SCHEMA_PATTERNS_MAX;
            return Some(self.fail_exhausted(format!(
                "the definition has more than {most} regular expressions, which is the limit"
            )));
        }
        self.patterns -= 1;
        let made = RegexPattern::compile(text);
        // A failed compilation costs as much as that of the largest expression that is allowed.
        let memory = made
            .as_ref()
            .map_or(limits::SCHEMA_PATTERN_MEMORY_BYTES_MAX, RegexPattern::memory_bytes);
        let Some(left) = self.bytes.checked_sub(memory + flags_cost(text)) else {
            let most = limits::SCHEMA_PATTERNS_MEMORY_BYTES_MAX;
            return Some(self.fail_exhausted(format!(
                "the regular expressions of the definition take more than {most} bytes, compiled: repeat less in them"
            )));
        };
        self.bytes = left;
        Some(made.map_err(|fault| {
            let message = format!("`{text}` is no regular expression that can be used: {fault}");
            (Rule::InvalidPattern, message)
        }))
    }

    fn fail_exhausted<T>(&mut self, message: String) -> Result<T, (Rule, String)> {
        self.is_spent = true;
        Err((Rule::LimitExceeded, message))
    }
}

/// The cost of flags in an expression, in bytes of the quota: folding the case of a class takes long.
fn flags_cost(text: &str) -> usize {
    if has_flags(text) { text.len() << 10 } else { 0 }
}
