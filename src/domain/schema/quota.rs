//! What the regular expressions of one definition may come to together.

use super::{FaultKind, pattern::Pattern};
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
        let pattern = match Pattern::compile(text) {
            Ok(pattern) => pattern,
            Err(fault) => {
                let message =
                    format!("`{text}` is no regular expression that can be used: {fault}");
                return Some(Err((FaultKind::Pattern, message)));
            }
        };
        let Some(left) = self.bytes.checked_sub(pattern.memory()) else {
            let most = limits::SCHEMA_PATTERNS_MEMORY_MAX;
            return Some(self.spent(format!(
                "the regular expressions of the definition take more than {most} bytes, compiled: repeat less in them"
            )));
        };
        self.bytes = left;
        Some(Ok(pattern))
    }

    fn spent<T>(&mut self, message: String) -> Result<T, (FaultKind, String)> {
        self.is_spent = true;
        Err((FaultKind::Limit, message))
    }
}
