//! From a change of a value to an edit of the text that it stands in: the value may be plain, in quotes or in a block, and
//! the edit is made only where the text is found to say that very value.

use super::Place;
use crate::error::Edit;

/// The replacement of a part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    place: Place,
    value: String,
    part: (usize, usize),
    new: String,
    /// `new` is written as it is; else as the value it stands in is.
    as_is: bool,
}

/// How a value is written.
enum Writing {
    Plain,
    /// Within two of these.
    Quoted(char),
    /// Line by line, each so far from the margin.
    Block,
}

impl Change {
    /// The whole of the value.
    pub(super) fn value(place: Place, value: &str, new: &str) -> Self {
        Self::part(place, value, (0, value.len()), new)
    }

    /// The whole of what is no text, such as a number.
    pub(super) fn written(place: Place, value: &str, new: &str) -> Self {
        Self {
            as_is: true,
            ..Self::value(place, value, new)
        }
    }

    /// So many bytes from there on.
    pub(super) fn part(place: Place, value: &str, part: (usize, usize), new: &str) -> Self {
        Self {
            place,
            value: value.to_owned(),
            part,
            new: new.to_owned(),
            as_is: false,
        }
    }

    /// Where the part stands in `text`, if it does.
    pub(super) fn span(&self, text: &str) -> Option<(usize, usize)> {
        self.find(text).map(|(start, end, _)| (start, end))
    }

    /// The edit of `text`, if it is safe.
    pub(super) fn edit(&self, text: &str) -> Option<Edit> {
        let (start, end, writing) = self.find(text)?;
        let new_text = self.fitting(&writing)?;
        let (from, to) = (Place::of(text, start, start), Place::of(text, end, end));
        Some(Edit {
            line: from.line,
            column: from.column,
            end_line: to.line,
            end_column: to.column,
            start,
            end,
            new_text,
        })
    }

    fn find(&self, text: &str) -> Option<(usize, usize, Writing)> {
        let (offset, length) = self.part;
        let written = text.get(self.place.start..)?;
        self.value.get(offset..offset.checked_add(length)?)?;
        if self.value.is_empty() || self.place.end <= self.place.start {
            return None;
        }
        let at = self.place.start;
        for quote in ['"', '\''] {
            let inner = written.strip_prefix(quote);
            let rest = inner.and_then(|inner| inner.strip_prefix(self.value.as_str()));
            // A value with escapes in it is longer in the file than it is.
            if rest.is_some_and(|rest| rest.starts_with(quote)) && !self.value.contains('\\') {
                let start = at + 1 + offset;
                return Some((start, start + length, Writing::Quoted(quote)));
            }
        }
        if written.starts_with(&self.value) {
            return Some((at + offset, at + offset + length, Writing::Plain));
        }
        self.find_in_block(text)
    }

    /// A block keeps the lines of its value; each stands further in.
    fn find_in_block(&self, text: &str) -> Option<(usize, usize, Writing)> {
        let (offset, length) = self.part;
        let line_start = self.value[..offset].rfind('\n').map_or(0, |end| end + 1);
        let line = self.value[line_start..].split('\n').next()?;
        if offset + length > line_start + line.len() || line.trim().is_empty() {
            return None;
        }
        let number = self.value[..offset].matches('\n').count();
        let from = text[..self.place.start]
            .rfind('\n')
            .map_or(0, |end| end + 1);
        let header = text[self.place.start..].starts_with(['|', '>']);
        let mut at = from;
        for (count, source) in text[from..].split_inclusive('\n').enumerate() {
            if count == number + usize::from(header) {
                let indent = source.trim_end().strip_suffix(line.trim_end())?;
                if !indent.trim().is_empty() {
                    return None;
                }
                let start = at + indent.len() + (offset - line_start);
                return Some((start, start + length, Writing::Block));
            }
            at += source.len();
        }
        None
    }

    /// The new text as it must be written there; `None` where that is not simple.
    fn fitting(&self, writing: &Writing) -> Option<String> {
        let is_word = |c: char| c.is_alphanumeric() || "_-$./ ()".contains(c);
        let safe = match writing {
            _ if self.as_is => matches!(writing, Writing::Plain),
            Writing::Plain if self.part.1 == self.value.len() => {
                self.new.chars().all(is_word) && self.new.trim() == self.new
            }
            Writing::Plain => !self.new.contains([':', '#', ',', '[', ']', '{', '}', '\n']),
            Writing::Quoted(quote) => !self.new.contains([*quote, '\\', '\n']),
            Writing::Block => !self.new.contains('\n'),
        };
        safe.then(|| self.new.clone())
    }
}
