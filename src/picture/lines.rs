//! Text metrics of the picture: the width of a text, and line breaking.

use midex_domain::truncate::truncate_to_chars;
use unicode_width::UnicodeWidthStr;

/// The room for a text: lines, and columns per line.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextBox {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// The most columns that a text takes. Symbols often come from a fallback font with wider glyphs, so each counts one
/// column more.
pub(super) fn count_columns(text: &str) -> usize {
    let symbols = text.chars().filter(|letter| *letter >= '\u{2000}').count();
    text.width() + symbols
}

/// The width of the widest line in units of the picture, with this letter width.
pub(super) fn measure_width<'a>(lines: impl IntoIterator<Item = &'a String>, letter: i64) -> i64 {
    let widest = lines.into_iter().map(|line| count_columns(line)).max();
    to_i64(widest.unwrap_or(0)) * letter
}

/// Converts a count to a length. No picture has so many of anything that the conversion saturates.
pub(super) fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Breaks the text into lines; what does not fit is replaced by an ellipsis.
pub(super) fn wrap_text(text: &str, room: TextBox) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in text.split_whitespace().flat_map(|word| split_word(word, room)) {
        match lines.last_mut() {
            Some(line)
                if count_columns(line) + piece.gap() + count_columns(&piece.text)
                    <= room.columns =>
            {
                line.extend(piece.is_word_start.then_some(' '));
                *line += &piece.text;
            }
            _ => lines.push(piece.text),
        }
    }
    if lines.len() > room.lines {
        lines.truncate(room.lines);
        let last = lines.last_mut().map(std::mem::take).unwrap_or_default();
        let last_index = lines.len().saturating_sub(1);
        lines[last_index] = shorten_line(last, room.columns);
    }
    lines
}

/// A word, or a part of one that is wider than a line.
struct WordPiece {
    text: String,
    /// Whether a word begins here, so that a space stands before it.
    is_word_start: bool,
}

impl WordPiece {
    fn gap(&self) -> usize {
        usize::from(self.is_word_start)
    }
}

/// Splits a word into pieces that fit into a line, after punctuation if possible, else anywhere.
fn split_word(word: &str, room: TextBox) -> Vec<WordPiece> {
    let mut texts = vec![String::new()];
    let is_long = count_columns(word) > room.columns;
    let mut is_after_break = false;
    for letter in word.chars() {
        let last = texts.len() - 1;
        let is_full = count_columns(&texts[last]) + count_columns(letter.encode_utf8(&mut [0; 4]))
            > room.columns;
        if is_long && (is_full || is_after_break) && !texts[last].is_empty() {
            texts.push(String::new());
        }
        is_after_break = matches!(letter, '.' | '_' | '-' | '/' | ',' | '(' | '|' | '=');
        let last = texts.len() - 1;
        texts[last].push(letter);
    }
    let pieces = texts.into_iter().enumerate();
    let piece = |(at, text)| WordPiece { text, is_word_start: at == 0 };
    pieces.map(piece).collect()
}

/// The text on one line of so many columns; what does not fit is replaced by an ellipsis.
pub(super) fn clip_text(text: &str, columns: usize) -> String {
    // A column has at most a few characters, so that a long text need not be measured as a whole.
    let start = truncate_to_chars(text, columns * 4);
    if count_columns(&start) > columns {
        shorten_line(start.into_owned(), columns)
    } else {
        start.into_owned()
    }
}

/// Cuts a line so that it fits with an ellipsis at its end.
fn shorten_line(mut line: String, room: usize) -> String {
    while count_columns(&line) + count_columns("…") > room && line.pop().is_some() {}
    line + "…"
}
