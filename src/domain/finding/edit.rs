//! Turns a change of a value into an edit of the text. The value may be written plainly, in quotes or in a block; there is an
//! edit only if exactly that value is found in the text.

use super::place::{LineTable, Place, line_start};
use crate::error::Edit;

/// A change, before its place in the text is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PendingChange {
    /// Replaces a part of a value.
    Value(ValueEdit),
    /// Puts a value of one line between two texts.
    Wrap {
        place: Place,
        /// The value of a text or a number; `None` for a list.
        value: Option<String>,
        before: String,
        after: String,
    },
    /// Removes an entry of a mapping: up to the next one, or the last one with its line.
    Remove { entry: Place, next: Option<usize>, end: usize },
    /// The change is not for a program: none of the finding's edits is offered.
    Manual,
    /// Replaces these bytes.
    ReplaceBytes { start: usize, old: String, new: String },
}

/// The replacement of a part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueEdit {
    place: Place,
    value: String,
    /// The first byte of the part in the value, and its length.
    bounds: (usize, usize),
    new: String,
    mode: EditMode,
}

/// How the new text is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EditMode {
    /// In place of the part, in the same notation as the value.
    SameNotation,
    /// In place of the part, as it is, if the value has no quotes.
    VerbatimPlain,
    /// In place of a text and its quotes, as it is.
    VerbatimWithQuotes,
    /// As the value of a new key of the mapping, after the entry of the value.
    InsertKey(String),
    /// As a new item of the list, before the one at the place.
    InsertItem,
}

/// The notation of a value in the text.
enum ValueNotation {
    Plain,
    /// Between two of these quotes.
    Quoted(char),
    /// In a block: line by line, each with an indent.
    Block,
}

impl PendingChange {
    /// Replaces a part of a value.
    pub(super) fn replace_part(
        place: Place,
        value: &str,
        bounds: (usize, usize),
        new: &str,
    ) -> Self {
        Self::Value(ValueEdit {
            place,
            value: value.to_owned(),
            bounds,
            new: new.to_owned(),
            mode: EditMode::SameNotation,
        })
    }

    /// Writes `new` in this manner in place of, or beside, the whole value at the place.
    pub(super) fn replace_value(place: Place, value: &str, new: &str, mode: EditMode) -> Self {
        Self::Value(ValueEdit {
            place,
            value: value.to_owned(),
            bounds: (0, value.len()),
            new: new.to_owned(),
            mode,
        })
    }

    /// Where it begins, as far as that is known as a place.
    pub(super) fn place(&self) -> Option<Place> {
        match self {
            Self::Value(part) => Some(part.place),
            Self::Wrap { place, .. } => Some(*place),
            Self::Remove { entry, .. } => Some(*entry),
            Self::Manual | Self::ReplaceBytes { .. } => None,
        }
    }

    /// The bytes of the part in `text`, if it is found.
    pub(super) fn span(&self, text: &str) -> Option<(usize, usize)> {
        match self {
            Self::Value(part) => part.find_value(text).map(|(start, end, _)| (start, end)),
            _ => None,
        }
    }

    /// The edits of `text`; `None` if they are not safe.
    pub(super) fn edits(&self, lines: &LineTable<'_>) -> Option<Vec<Edit>> {
        let text = lines.text();
        Some(match self {
            Self::Value(part) => vec![part.to_edit(lines)?],
            Self::Wrap { place, value, before, after } => {
                let (start, end) = bracketable_span(text, *place, value.as_deref())?;
                vec![
                    make_edit(lines, (start, start), before.clone()),
                    make_edit(lines, (end, end), after.clone()),
                ]
            }
            Self::Remove { entry, next, end } => {
                let bounds = match next {
                    Some(next) => (entry.start, *next),
                    None => whole_line_span(text, entry.start, *end)?,
                };
                vec![make_edit(lines, bounds, String::new())]
            }
            Self::Manual => return None,
            Self::ReplaceBytes { start, old, new } => {
                let end = start + old.len();
                let is_unchanged = text.get(*start..end)? == old;
                is_unchanged.then(|| vec![make_edit(lines, (*start, end), new.clone())])?
            }
        })
    }
}

fn make_edit(lines: &LineTable<'_>, (start, end): (usize, usize), new_text: String) -> Edit {
    let (from, to) = (lines.place_of_bytes(start, start), lines.place_of_bytes(end, end));
    Edit {
        line: from.line,
        column: from.column,
        end_line: to.line,
        end_column: to.column,
        start,
        end,
        new_text,
    }
}

/// The bytes of a value that may be put in brackets as it is written.
fn bracketable_span(text: &str, place: Place, value: Option<&str>) -> Option<(usize, usize)> {
    let source = text.get(place.start..place.end)?;
    let inner = |open: char, close: char| source.strip_prefix(open)?.strip_suffix(close);
    let is_bracketable = match value {
        None => inner('[', ']').is_some(),
        Some(value) if value == source => {
            !value.contains([',', '[', ']', '{', '}', '#'])
                && !value.contains(": ")
                && !value.ends_with(':')
        }
        Some(value) => [inner('"', '"'), inner('\'', '\'')].contains(&Some(value)),
    };
    is_bracketable.then_some((place.start, place.end))
}

/// The bytes of the line of an entry that is alone on it, with the line break before it.
fn whole_line_span(text: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    let line = text.get(..start)?.rfind('\n')?;
    let is_line_start = text[line..start].trim().is_empty();
    let rest = text.get(end..)?;
    let is_line_end = rest.split('\n').next()?.trim().is_empty();
    (is_line_start && is_line_end).then_some((line, end))
}

impl ValueEdit {
    fn to_edit(&self, lines: &LineTable<'_>) -> Option<Edit> {
        let text = lines.text();
        let (start, end, new_text) = match &self.mode {
            EditMode::InsertItem => self.insert_item_edit(text)?,
            EditMode::InsertKey(key) => self.insert_key_edit(text, key)?,
            EditMode::SameNotation | EditMode::VerbatimPlain | EditMode::VerbatimWithQuotes => {
                let (start, end, notation) = self.find_value(text)?;
                let is_whole = self.mode == EditMode::VerbatimWithQuotes;
                let quotes = usize::from(is_whole && matches!(notation, ValueNotation::Quoted(_)));
                (start - quotes, end + quotes, self.new_text_in_notation(&notation)?)
            }
        };
        Some(make_edit(lines, (start, end), new_text))
    }

    /// A new line above the item at the place, if the item begins its line.
    fn insert_item_edit(&self, text: &str) -> Option<(usize, usize, String)> {
        let start = line_start(text, self.place.start);
        let dash = text.get(start..self.place.start)?;
        (dash.trim() == "-").then(|| (start, start, format!("{dash}{}\n", self.new)))
    }

    /// A new line below the value, or beside it if the mapping is in one line.
    fn insert_key_edit(&self, text: &str, key: &str) -> Option<(usize, usize, String)> {
        let (start, end, notation) = self.find_value(text)?;
        let quote = usize::from(matches!(notation, ValueNotation::Quoted(_)));
        let line = line_start(text, start);
        let before_value = text.get(line..start - quote)?.trim_end();
        let before_value = before_value.strip_suffix(':')?;
        let (after_value, new) = (text.get(end + quote..)?, &self.new);
        let rest_of_line = after_value.split('\n').next().unwrap_or_default();
        if rest_of_line.trim_start().starts_with([',', '}']) {
            let is_json = before_value.ends_with('"');
            let new =
                if is_json { format!(", \"{key}\": \"{new}\"") } else { format!(", {key}: {new}") };
            return Some((end + quote, end + quote, new));
        }
        let is_comment =
            rest_of_line.trim().is_empty() || rest_of_line.trim_start().starts_with('#');
        let name = before_value.rfind(|c: char| !c.is_alphanumeric() && c != '_')?;
        let indent = before_value.get(..=name)?;
        if !is_comment || indent.contains(|c: char| c != ' ' && c != '-') {
            return None;
        }
        let at = end + quote + rest_of_line.trim_end_matches('\r').len();
        let indent = indent.replace('-', " ");
        Some((at, at, format!("\n{indent}{key}: {new}")))
    }

    fn find_value(&self, text: &str) -> Option<(usize, usize, ValueNotation)> {
        let (offset, length) = self.bounds;
        let source = text.get(self.place.start..)?;
        self.value.get(offset..offset.checked_add(length)?)?;
        if self.value.is_empty() || self.place.end <= self.place.start {
            return None;
        }
        let at = self.place.start;
        for quote in ['"', '\''] {
            let inner = source.strip_prefix(quote);
            let rest = inner.and_then(|inner| inner.strip_prefix(self.value.as_str()));
            // Escapes make the text longer than the value, so offsets would not match.
            if rest.is_some_and(|rest| rest.starts_with(quote)) && !self.value.contains('\\') {
                let start = at + 1 + offset;
                return Some((start, start + length, ValueNotation::Quoted(quote)));
            }
        }
        if source.starts_with(&self.value) {
            return Some((at + offset, at + offset + length, ValueNotation::Plain));
        }
        self.find_in_block(text)
    }

    /// Finds the part in a block, which has the lines of the value with an indent.
    fn find_in_block(&self, text: &str) -> Option<(usize, usize, ValueNotation)> {
        let (offset, length) = self.bounds;
        let start = line_start(&self.value, offset);
        let line = self.value[start..].split('\n').next()?;
        if offset + length > start + line.len() || line.trim().is_empty() {
            return None;
        }
        let number = self.value[..offset].matches('\n').count();
        let from = line_start(text, self.place.start);
        let header = text[self.place.start..].starts_with(['|', '>']);
        let mut at = from;
        for (count, source) in text[from..].split_inclusive('\n').enumerate() {
            if count == number + usize::from(header) {
                let indent = source.trim_end().strip_suffix(line.trim_end())?;
                if !indent.trim().is_empty() {
                    return None;
                }
                let start = at + indent.len() + (offset - start);
                return Some((start, start + length, ValueNotation::Block));
            }
            at += source.len();
        }
        None
    }

    /// The new text in this notation; `None` if it would need escapes.
    fn new_text_in_notation(&self, notation: &ValueNotation) -> Option<String> {
        let is_word = |c: char| c.is_alphanumeric() || "_-$./ ()".contains(c);
        let is_safe = match notation {
            _ if self.mode == EditMode::VerbatimPlain => matches!(notation, ValueNotation::Plain),
            _ if self.mode == EditMode::VerbatimWithQuotes => {
                !matches!(notation, ValueNotation::Block)
            }
            ValueNotation::Plain if self.bounds.1 == self.value.len() => {
                if self.new.chars().all(is_word) && self.new.trim() == self.new {
                    return Some(self.new.clone());
                }
                return quote_text(&self.new);
            }
            // Braces in the plain value show that it is not in a flow mapping.
            ValueNotation::Plain if self.value.contains('{') => {
                !self.new.contains([':', '#', '\n'])
            }
            ValueNotation::Plain => !self.new.contains([':', '#', ',', '[', ']', '{', '}', '\n']),
            ValueNotation::Quoted(quote) => !self.new.contains([*quote, '\\', '\n']),
            ValueNotation::Block => !self.new.contains('\n'),
        };
        is_safe.then(|| self.new.clone())
    }
}

/// A text in quotes, if one kind of quotes needs no escapes.
fn quote_text(text: &str) -> Option<String> {
    let quote = ['"', '\''].into_iter().find(|quote| !text.contains([*quote, '\\', '\n']))?;
    Some(format!("{quote}{text}{quote}"))
}
