//! Prepares text for stdout: removes control characters, truncates or wraps to the width, and styles only on a
//! terminal.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
};

use comfy_table::{ContentArrangement, Row, Table, presets};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::visible::replace_hidden_chars;

/// The width if stdout is not a terminal.
const COLUMNS_WITHOUT_TERMINAL: usize = 120;
/// The width of a terminal that does not report one.
const TERMINAL_COLUMNS_DEFAULT: usize = 80;
/// The number of rows of a terminal that does not report it.
const TERMINAL_ROWS_DEFAULT: usize = 24;
/// The minimum width for wrapping text.
const WRAP_COLUMNS_MIN: usize = 12;

/// The properties of stdout: its width, and whether it takes color.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    /// The columns of the terminal; `None` if stdout is no terminal.
    columns: Option<usize>,
    has_color: bool,
}

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextStyle {
    /// For titles.
    Bold,
    /// For less important text.
    Dim,
    /// For a success.
    Good,
    /// For a failure.
    Bad,
}

impl TextStyle {
    const fn escape_code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
        }
    }
}

impl Screen {
    /// This process's stdout.
    pub(super) fn stdout() -> Self {
        Self { columns: terminal_columns(), has_color: super::takes_color() }
    }

    /// Whether stdout is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.columns.is_some()
    }

    /// Whether stdout accepts no escape sequences.
    pub(super) fn is_plain(&self) -> bool {
        !self.has_color
    }

    /// The width of lines.
    pub(super) fn columns(&self) -> usize {
        self.columns.unwrap_or(COLUMNS_WITHOUT_TERMINAL)
    }

    /// Styles `text`, which must not contain control characters.
    pub(super) fn paint(&self, style: TextStyle, text: &str) -> String {
        if self.has_color && !text.is_empty() {
            format!("\u{1b}[{}m{text}\u{1b}[0m", style.escape_code())
        } else {
            text.to_owned()
        }
    }

    /// Styles the state of an execution.
    pub(super) fn paint_state(&self, state: &str) -> String {
        let state_text = replace_hidden_chars(state);
        match state {
            "completed" => self.paint(TextStyle::Good, &state_text),
            "failed" | "abandoned" | "diverged" => self.paint(TextStyle::Bad, &state_text),
            _ => self.paint(TextStyle::Bold, &state_text),
        }
    }

    /// A text of several lines without control characters, each line after `margin` and in this style. On a terminal,
    /// long lines are wrapped between words.
    pub(super) fn indent_block(
        &self,
        style: Option<TextStyle>,
        margin: &str,
        text: &str,
    ) -> String {
        let mut block = String::new();
        for line in text.trim_end().lines().map(expand_tabs) {
            let lines = match self.columns {
                Some(columns) => wrap_line(&line, columns.saturating_sub(margin.width())),
                None => vec![line],
            };
            for line in lines {
                let line = format!("{margin}{line}");
                let line = style.map_or(line.clone(), |style| self.paint(style, line.trim_end()));
                let _ = writeln!(block, "{}", line.trim_end());
            }
        }
        block
    }

    /// As [`Self::indent_block`], but the first line begins with `lead`, which is `columns` wide, and the others are indented
    /// to match.
    pub(super) fn hanging_block(
        &self,
        (prefix, columns): (&str, usize),
        style: Option<TextStyle>,
        text: &str,
    ) -> String {
        let margin = " ".repeat(columns);
        self.indent_block(style, &margin, text).replacen(&margin, prefix, 1)
    }

    /// A name, padded to this width, and its value.
    pub(super) fn named_value(&self, name: &str, columns: usize, value: &str) -> String {
        let name = self.paint(TextStyle::Dim, &format!("{name:<columns$}"));
        let prefix = (&*format!("  {name} "), columns + 3);
        self.hanging_block(prefix, None, value)
    }

    /// A table without borders. Each row takes one line: on a terminal, cells that are too long are truncated.
    pub(super) fn make_table(&self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header.to_vec());
        if let Some(columns) = self.columns {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_truncation_indicator("…")
                .set_width(u16::try_from(columns).unwrap_or(u16::MAX));
        }
        for column in table.column_iter_mut() {
            column.set_padding((2, 0));
        }
        table
    }
}

/// A row of a [`Screen::make_table`].
pub(super) fn table_row(cells: impl IntoIterator<Item = String>) -> Row {
    let mut row = Row::from(cells.into_iter().map(|cell| one_line(&cell)).collect::<Vec<_>>());
    row.max_height(1);
    row
}

/// The number of rows of the terminal.
pub(super) fn terminal_rows() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let rows = size.map_or(0, |size| usize::from(size.ws_row));
    if rows == 0 { TERMINAL_ROWS_DEFAULT } else { rows }
}

fn terminal_columns() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok();
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    Some(if columns == 0 { TERMINAL_COLUMNS_DEFAULT } else { columns })
}

/// `text` as one line without control characters.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    replace_hidden_chars(&words.join(" "))
}

/// Truncates `text` to this width, with `…` at the end.
pub(super) fn truncate_text(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut remaining = columns.saturating_sub(1);
    let fits = |c: &char| {
        let char_width = c.width().unwrap_or(0);
        let fits = char_width <= remaining;
        remaining = if fits { remaining - char_width } else { 0 };
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Expands tabs, which [`replace_hidden_chars`] would replace, and replaces other control characters.
fn expand_tabs(line: &str) -> String {
    replace_hidden_chars(&line.replace('\t', "    "))
}

/// The indentation of continuation lines: below the text of the line, after a list marker.
fn continuation_indent(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let after_digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let marker = match text.len() - after_digits.len() {
        digits @ 1.. if after_digits.starts_with(". ") => digits + 2,
        0 if after_digits.starts_with("- ") || after_digits.starts_with("* ") => 2,
        _ => 0,
    };
    line.len() - text.len() + marker
}

/// Pads a text with blanks to this width.
pub(super) fn pad_text(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

/// Wraps a line between words.
pub(super) fn wrap_line(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(WRAP_COLUMNS_MIN);
    if line.width() <= columns {
        return vec![line.to_owned()];
    }
    let indent = " ".repeat(continuation_indent(line).min(columns / 2));
    let (mut lines, mut current, mut is_empty) = (Vec::new(), String::new(), true);
    for word in line.split(' ') {
        for (index, piece) in breakable_parts(word).into_iter().enumerate() {
            let gap = usize::from(index == 0);
            if !is_empty && current.width() + gap + piece.width() > columns {
                lines.push(std::mem::replace(&mut current, indent.clone()));
            } else if index == 0 && (!is_empty || word.is_empty()) {
                current.push(' ');
            }
            current.push_str(piece);
            is_empty = current.trim_start().is_empty();
        }
    }
    lines.push(current);
    lines
}

/// Punctuation that must not begin a line, and punctuation that must not end one.
const NO_BREAK_BEFORE: &str =
    "、。，．：；！？）］｝」』】〉》〕ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ…";
const NO_BREAK_AFTER: &str = "（［｛「『【〈《〔";

/// The parts of a word between which a line may be broken: next to wide characters, because Chinese and Japanese are
/// written without blanks.
fn breakable_parts(word: &str) -> Vec<&str> {
    let is_wide = |c: char| c.width() == Some(2);
    let (mut pieces, mut start, mut previous) = (Vec::new(), 0, None::<char>);
    for (offset, c) in word.char_indices() {
        let can_break = previous.is_some_and(|before| {
            (is_wide(before) || is_wide(c))
                && !NO_BREAK_AFTER.contains(before)
                && before != '\u{200d}'
        });
        if can_break && c.width() != Some(0) && !NO_BREAK_BEFORE.contains(c) {
            pieces.push(&word[start..offset]);
            start = offset;
        }
        previous = Some(c);
    }
    pieces.push(&word[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visible::is_hidden;

    const PLAIN_SCREEN: Screen = Screen { columns: Some(30), has_color: false };

    #[test]
    fn text_cannot_control_terminal() {
        let evil = "a\u{1b}[2J\r\n\u{9b}31m\tb\u{200b}\u{202e}\u{e0041}";
        assert!(!one_line(evil).contains(is_hidden));
        let block = PLAIN_SCREEN.indent_block(None, "", evil);
        assert!(!block.replace('\n', "").contains(is_hidden), "{block:?}");
    }

    #[test]
    fn long_lines_are_broken_between_words_and_keep_their_margin() {
        let text = "# Title\n\n- one two three four five six seven\n 10. one two three four five six\n   deep one  two three four five six\n";
        let expected = "  # Title\n\n  - one two three four five\n    six seven\n   10. one two three four five\n       six\n     deep one  two three four\n     five six\n";
        assert_eq!(PLAIN_SCREEN.indent_block(None, "  ", text), expected);
        let long_word = "x".repeat(100);
        assert_eq!(wrap_line(&long_word, 30), std::slice::from_ref(&long_word));
        assert_eq!(wrap_line(&format!("a {long_word}"), 1).len(), 2);
    }

    #[test]
    fn text_without_blanks_is_broken_between_wide_characters() {
        let text = "変更を確認する前に、この説明を読んでください。（重要）";
        let lines = wrap_line(text, 20);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.width() <= 20));
        assert_eq!(lines.concat(), text);
        let breaks_rule =
            |line: &String| line.starts_with(['、', '。', '）']) || line.ends_with('（');
        assert!(!lines.iter().any(breaks_rule), "{lines:?}");
        let family = "👩\u{200d}💻".repeat(20);
        let lines = wrap_line(&family, 20);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.starts_with('👩')));
    }

    #[test]
    fn truncated_text_fits_the_width() {
        assert_eq!(truncate_text("hello", 5), "hello");
        assert_eq!(truncate_text("hello!", 5), "hell…");
        // Each of these takes two columns.
        assert_eq!(truncate_text("日本語", 5), "日本…");
        assert_eq!(truncate_text("日本語", 4), "日…");
        assert_eq!(truncate_text("ab", 0), "…");
    }

    #[test]
    fn styles_are_for_terminals() {
        let color_screen = Screen { has_color: true, ..PLAIN_SCREEN };
        assert_eq!(color_screen.paint(TextStyle::Dim, "x"), "\u{1b}[2mx\u{1b}[0m");
        assert_eq!(PLAIN_SCREEN.paint(TextStyle::Dim, "x"), "x");
    }
}
