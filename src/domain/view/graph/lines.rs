//! Text of a picture: how wide it is at most, and how it is broken into lines.

use unicode_width::UnicodeWidthStr;

/// What a box may hold of one text: its lines, and the columns of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// How many columns a text takes at most: a sign is often taken from a font with wider letters.
pub(super) fn columns(text: &str) -> usize {
    let signs = text.chars().filter(|letter| *letter >= '\u{2000}').count();
    text.width() + signs
}

/// The width in units of the picture, with letters so wide.
pub(super) fn width<'a>(lines: impl IntoIterator<Item = &'a String>, letter: i64) -> i64 {
    let widest = lines.into_iter().map(|line| columns(line)).max();
    int(widest.unwrap_or(0)) * letter
}

/// A count as a length. No picture has so many of anything that it would not fit.
pub(super) fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The text in as many lines as there is room for; an ellipsis stands for the rest.
pub(super) fn wrapped(text: &str, room: Room) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in text.split_whitespace().flat_map(|word| pieces(word, room)) {
        match lines.last_mut() {
            Some(line) if columns(line) + piece.gap() + columns(&piece.text) <= room.columns => {
                line.extend(piece.begins.then_some(' '));
                *line += &piece.text;
            }
            _ => lines.push(piece.text),
        }
    }
    if lines.len() > room.lines {
        lines.truncate(room.lines);
        let last = lines.last_mut().map(std::mem::take).unwrap_or_default();
        let kept = lines.len().saturating_sub(1);
        lines[kept] = shortened(last, room.columns);
    }
    lines
}

/// A word, or a part of one that is wider than a line.
struct Piece {
    text: String,
    /// Whether a word begins here, so that a space stands before it.
    begins: bool,
}

impl Piece {
    fn gap(&self) -> usize {
        usize::from(self.begins)
    }
}

/// A word in pieces that fit: broken after a sign where it has one, else anywhere.
fn pieces(word: &str, room: Room) -> Vec<Piece> {
    let mut texts = vec![String::new()];
    let is_long = columns(word) > room.columns;
    let mut after_sign = false;
    for letter in word.chars() {
        let last = texts.len() - 1;
        let is_full =
            columns(&texts[last]) + columns(letter.encode_utf8(&mut [0; 4])) > room.columns;
        if is_long && (is_full || after_sign) && !texts[last].is_empty() {
            texts.push(String::new());
        }
        after_sign = matches!(letter, '.' | '_' | '-' | '/' | ',' | '(' | '|' | '=');
        let last = texts.len() - 1;
        texts[last].push(letter);
    }
    let pieces = texts.into_iter().enumerate();
    let piece = |(at, text)| Piece {
        text,
        begins: at == 0,
    };
    pieces.map(piece).collect()
}

/// A line that ends in an ellipsis and still fits.
fn shortened(mut line: String, room: usize) -> String {
    while columns(&line) + columns("…") > room && line.pop().is_some() {}
    line + "…"
}
