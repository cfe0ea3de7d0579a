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
    manner: Manner,
}

/// How a change is written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Manner {
    /// In place of the part, as the value that it stands in is.
    Alike,
    /// In place of the part, as it is.
    AsIs,
    /// As another key of the mapping, beside that of the value.
    Key(String),
    /// As another item of the list, before the one that stands at the place.
    Item,
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
            manner: Manner::AsIs,
            ..Self::value(place, value, new)
        }
    }

    /// Another key beside that of the value.
    pub(super) fn key(place: Place, value: &str, key: &str, new: &str) -> Self {
        Self {
            manner: Manner::Key(key.to_owned()),
            ..Self::value(place, value, new)
        }
    }

    /// Another item of the list, before the one at the place.
    pub(super) fn item(place: Place, new: &str) -> Self {
        Self {
            manner: Manner::Item,
            ..Self::value(place, "", new)
        }
    }

    /// So many bytes from there on.
    pub(super) fn part(place: Place, value: &str, part: (usize, usize), new: &str) -> Self {
        Self {
            place,
            value: value.to_owned(),
            part,
            new: new.to_owned(),
            manner: Manner::Alike,
        }
    }

    /// Where the part stands in `text`, if it does.
    pub(super) fn span(&self, text: &str) -> Option<(usize, usize)> {
        self.find(text).map(|(start, end, _)| (start, end))
    }

    /// The edit of `text`, if it is safe.
    pub(super) fn edit(&self, text: &str) -> Option<Edit> {
        let (start, end, new_text) = match &self.manner {
            Manner::Item => self.as_item(text)?,
            Manner::Key(key) => self.as_key(text, key)?,
            Manner::Alike | Manner::AsIs => {
                let (start, end, writing) = self.find(text)?;
                (start, end, self.fitting(&writing)?)
            }
        };
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

    /// A line of its own above the item at the place, where that begins its line.
    fn as_item(&self, text: &str) -> Option<(usize, usize, String)> {
        let start = text[..self.place.start]
            .rfind('\n')
            .map_or(0, |end| end + 1);
        let dash = text.get(start..self.place.start)?;
        (dash.trim() == "-").then(|| (start, start, format!("{dash}{}\n", self.new)))
    }

    /// A line of its own below that of the value, or beside it where the mapping stands in one line.
    fn as_key(&self, text: &str, key: &str) -> Option<(usize, usize, String)> {
        let (start, end, writing) = self.find(text)?;
        let quote = usize::from(matches!(writing, Writing::Quoted(_)));
        let line = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let before = text.get(line..start - quote)?.trim_end();
        let before = before.strip_suffix(':')?;
        let (after, new) = (text.get(end + quote..)?, &self.new);
        let rest = after.split('\n').next().unwrap_or_default();
        if rest.trim_start().starts_with([',', '}']) {
            let json = before.ends_with('"');
            let new = if json {
                format!(", \"{key}\": \"{new}\"")
            } else {
                format!(", {key}: {new}")
            };
            return Some((end + quote, end + quote, new));
        }
        let is_comment = rest.trim().is_empty() || rest.trim_start().starts_with('#');
        let name = before.rfind(|c: char| !c.is_alphanumeric() && c != '_')?;
        let indent = before.get(..=name)?;
        if !is_comment || indent.contains(|c: char| c != ' ' && c != '-') {
            return None;
        }
        let at = end + quote + rest.trim_end_matches('\r').len();
        let indent = indent.replace('-', " ");
        Some((at, at, format!("\n{indent}{key}: {new}")))
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
            _ if self.manner == Manner::AsIs => matches!(writing, Writing::Plain),
            Writing::Plain if self.part.1 == self.value.len() => {
                if self.new.chars().all(is_word) && self.new.trim() == self.new {
                    return Some(self.new.clone());
                }
                return quoted(&self.new);
            }
            // Braces in what is there say that no mapping in braces is around it.
            Writing::Plain if self.value.contains('{') => !self.new.contains([':', '#', '\n']),
            Writing::Plain => !self.new.contains([':', '#', ',', '[', ']', '{', '}', '\n']),
            Writing::Quoted(quote) => !self.new.contains([*quote, '\\', '\n']),
            Writing::Block => !self.new.contains('\n'),
        };
        safe.then(|| self.new.clone())
    }
}

/// A text in quotes, where neither kind of them needs an escape.
fn quoted(text: &str) -> Option<String> {
    let quote = ['"', '\'']
        .into_iter()
        .find(|quote| !text.contains([*quote, '\\', '\n']))?;
    Some(format!("{quote}{text}{quote}"))
}
