//! Instructions for a model that contain values of others: outputs of earlier steps, inputs, a user's words. A value must not
//! pass for instructions of the author, nor for the headings that midex writes around them.
//!
//! The rule: a value of one line in the middle of a sentence is inserted as it is. One that would begin a line like a heading,
//! a fence or a list item does is put in backticks. A value of several lines gets a fenced block of its own, whose fence is
//! longer than any run of backticks in it. Within a fence of the author's the value is inserted as it is, except that a line
//! that would close the fence is prefixed.

use std::borrow::Cow;

/// A fence: its sign, and how often that is repeated.
type CodeFence = (char, usize);

/// Builds instructions from the author's text and values.
#[derive(Debug, Default)]
pub(crate) struct InstructionBuilder {
    text: String,
    /// The bytes of whole lines that were searched for fences.
    scanned_bytes: usize,
    open_fence: Option<CodeFence>,
}

impl InstructionBuilder {
    /// Adds text of the author.
    pub(crate) fn push_author_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds a value, and returns the byte at which it begins.
    pub(crate) fn push_value(&mut self, value: &str) -> usize {
        self.track_fences();
        let is_line_start = self.text[self.scanned_bytes..].trim().is_empty();
        match self.open_fence {
            Some(fence) => {
                let start = self.text.len();
                self.text.push_str(&escape_closing_fences(value, fence, is_line_start));
                start
            }
            None if value.trim_end().contains(is_line_end) => self.push_block(value, is_line_start),
            None if is_line_start && is_markdown_structure(value) => self.push_inline_code(value),
            None => {
                self.text.push_str(value);
                self.text.len() - value.len()
            }
        }
    }

    /// Returns all of the text. A fence that the author left open is closed, because it would contain what follows the text.
    pub(crate) fn finish(mut self) -> String {
        self.text.push('\n');
        self.track_fences();
        self.text.pop();
        if let Some((sign, length)) = self.open_fence {
            let fence = String::from(sign).repeat(length);
            let line = if self.text.ends_with('\n') { "" } else { "\n" };
            self.text.extend([line, &fence]);
        }
        self.text
    }

    fn push_block(&mut self, value: &str, is_line_start: bool) -> usize {
        let fence = make_fence(value);
        let line = if is_line_start { "" } else { "\n" };
        self.text.extend([line, &fence, "\n"]);
        let start = self.text.len();
        self.text.push_str(value.trim_end_matches(is_line_end));
        self.text.extend(["\n", &fence, "\n"]);
        start
    }

    fn push_inline_code(&mut self, value: &str) -> usize {
        let ticks = "`".repeat(longest_repeat_length(value, '`') + 1);
        let (before, after) = match (value.starts_with('`'), value.ends_with('`')) {
            (false, false) => ("", ""),
            _ => (" ", " "),
        };
        self.text.extend([&ticks, before]);
        let start = self.text.len();
        self.text.extend([value, after, &ticks]);
        start
    }

    /// Tracks the fences in the lines that are complete by now.
    fn track_fences(&mut self) {
        let Some(end) = self.text.rfind('\n').map(|at| at + 1) else {
            return;
        };
        for line in self.text[self.scanned_bytes.min(end)..end].lines() {
            match self.open_fence {
                Some(fence) if is_closing_fence(line, fence) => self.open_fence = None,
                Some(_) => {}
                None => self.open_fence = parse_opening_fence(line),
            }
        }
        self.scanned_bytes = self.scanned_bytes.max(end);
    }
}

/// A fence of backticks that is longer than any run of backticks in the text.
pub(crate) fn make_fence(text: &str) -> String {
    "`".repeat(longest_repeat_length(text, '`').max(2) + 1)
}

fn longest_repeat_length(text: &str, sign: char) -> usize {
    text.split(|c| c != sign).map(str::len).max().unwrap_or(0)
}

/// Whether a model may read the character as the end of a line.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a line that begins with the value would be Markdown structure rather than a paragraph.
fn is_markdown_structure(value: &str) -> bool {
    let value = value.trim_start();
    let rest = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = rest.len() < value.len() && rest.starts_with(['.', ')']);
    is_number
        || value.starts_with(['#', '=', '-', '>', '|', '<', '*', '+'])
        || parse_opening_fence(value).is_some()
}

/// The fence that a line opens, if it opens one.
fn parse_opening_fence(line: &str) -> Option<CodeFence> {
    let line = line.trim_start();
    let sign = line.chars().next().filter(|sign| ['`', '~'].contains(sign))?;
    let length = line.len() - line.trim_start_matches(sign).len();
    let is_fence = length >= 3 && !(sign == '`' && line[length..].contains('`'));
    is_fence.then_some((sign, length))
}

/// Whether a line closes the fence, or nearly does.
fn is_closing_fence(line: &str, (sign, length): CodeFence) -> bool {
    let line = line.trim();
    line.len() >= length && line.chars().all(|c| c == sign)
}

/// A value for inside a fence, with a prefix on each line that would close the fence.
fn escape_closing_fences(value: &str, fence: CodeFence, is_line_start: bool) -> Cow<'_, str> {
    if !value.split(is_line_end).any(|line| is_closing_fence(line, fence)) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 8);
    for (number, line) in value.split_inclusive(is_line_end).enumerate() {
        if is_closing_fence(line.trim_end_matches(is_line_end), fence)
            && (number > 0 || is_line_start)
        {
            escaped.push_str("    \u{b7} ");
        }
        escaped.push_str(line);
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of an author with a value where `@` stands.
    fn build_instructions(words: &str, value: &str) -> String {
        let mut all = InstructionBuilder::default();
        for (number, part) in words.split('@').enumerate() {
            if number > 0 {
                let at = all.push_value(value);
                let first = value.lines().next().unwrap_or_default();
                assert!(all.text[at..].starts_with(first) || all.open_fence.is_some());
            }
            all.push_author_text(part);
        }
        all.finish()
    }

    #[test]
    fn values_cannot_imitate_markdown() {
        for (words, value, expected) in [
            ("Heed @, then go.", "use tabs", "Heed use tabs, then go."),
            ("@ items", "3", "3 items"),
            ("@", "# Required next call", "`# Required next call`"),
            ("Heed @", "# no heading", "Heed # no heading"),
            ("x\n  @", "1. Stop", "x\n  `1. Stop`"),
            ("@", "## `a`", "`` ## `a` ``"),
            ("Read: @ Then go.", "a\nb", "Read: \n```\na\nb\n```\n Then go."),
            ("@", "a\n```\n# Task\n", "````\na\n```\n# Task\n````\n"),
            ("Text:\n```\n@\n```\nGo.", "a\n# b", "Text:\n```\na\n# b\n```\nGo."),
            ("```\n@\n```\nGo.", "a\n```\n# b", "```\na\n    \u{b7} ```\n# b\n```\nGo."),
            ("~~~\n@\n~~~", "~~~~\n# b", "~~~\n    \u{b7} ~~~~\n# b\n~~~"),
            ("```\n@", "x", "```\nx\n```"),
            ("@", "a\u{2028}# b", "```\na\u{2028}# b\n```\n"),
            ("@@", "#", "`#`#"),
        ] {
            assert_eq!(build_instructions(words, value), expected, "{words:?} {value:?}");
        }
    }
}
