//! Places in texts.

/// A place in a text. Lines and columns count from 1, columns in characters; `start` and `end` are byte offsets for drawing
/// and never leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
    /// The file: 0 is the one that is checked, 1 the one that it extends, 2 the one that that one extends.
    pub origin: u8,
}

impl Place {
    /// The beginning of the text, where findings about the whole file are shown.
    pub const START: Self = Self { line: 1, column: 1, start: 0, end: 0, origin: 0 };

    /// The place of the bytes `start..end` of `text`, cut at the end of their first line. It reads the text from its beginning:
    /// a [`LineTable`] finds many places of one text.
    pub fn from_bytes(text: &str, start: usize, end: usize) -> Self {
        LineTable::with_lines_up_to(start, text).place_of_bytes(start, end)
    }
}

/// A text with the beginnings of its lines, so that a place is found without reading the text from its beginning.
#[derive(Debug)]
pub struct LineTable<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> LineTable<'a> {
    /// Reads the text once.
    pub fn new(text: &'a str) -> Self {
        Self::with_lines_up_to(text.len(), text)
    }

    /// The same for places that begin at this byte or before it.
    fn with_lines_up_to(end: usize, text: &'a str) -> Self {
        let bytes = text.bytes().take(end).zip(1..);
        let after_breaks = bytes.filter_map(|(byte, next)| (byte == b'\n').then_some(next));
        Self { text, line_starts: [0].into_iter().chain(after_breaks).collect() }
    }

    /// The text that the table is of.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The place of the bytes `start..end`, cut at the end of their first line.
    pub fn place_of_bytes(&self, start: usize, end: usize) -> Place {
        let start = self.text.floor_char_boundary(start.min(self.text.len()));
        let line = self.line_starts.partition_point(|first| *first <= start);
        Place {
            line,
            column: self.text[self.line_starts[line - 1]..start].chars().count() + 1,
            start,
            end: first_line_end(self.text, start, end),
            origin: 0,
        }
    }
}

/// The first byte of the line that the byte `at` of `text` is on.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The end of `start..end`, cut at the end of its first line.
pub fn first_line_end(text: &str, start: usize, end: usize) -> usize {
    let start = text.floor_char_boundary(start.min(text.len()));
    let end = text.floor_char_boundary(end.clamp(start, text.len()));
    let line_end = text[start..end].find('\n').map_or(end, |at| start + at);
    start + text[start..line_end].trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_characters_and_ends_with_its_line() {
        let text = "één\r\ntwo twó\nthree";
        let at = text.find("twó").unwrap();
        let place = Place::from_bytes(text, at, text.len());
        assert_eq!((place.line, place.column), (2, 5));
        assert_eq!(&text[place.start..place.end], "twó");
        assert_eq!(Place::from_bytes(text, 999, 1000).line, 3);
    }
}
