//! The steps of a path into a value.

use std::{borrow::Cow, fmt};

use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// The key in a map.
    Key(String),
    /// The position in a list, from 0; in a map, the key of that spelling.
    Index(usize),
}

impl Segment {
    pub(super) fn from_word(word: &str) -> Self {
        let index = word.parse().ok();
        // `007` is a key: as an index it would be written back as `7`.
        let index = index.filter(|index: &usize| index.to_string() == word);
        index.map_or_else(|| Self::Key(word.to_owned()), Self::Index)
    }

    pub(crate) fn as_key(&self) -> Cow<'_, str> {
        match self {
            Self::Key(key) => Cow::Borrowed(key),
            Self::Index(index) => Cow::Owned(index.to_string()),
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(key) if is_plain_key(key) => write!(f, ".{key}"),
            Self::Key(key) => write!(f, "[{}]", Value::from(key.as_str())),
        }
    }
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty()
        && !key.starts_with('-')
        && !key.ends_with('-')
        && key.chars().all(|letter| is_word_char(letter) || letter == '-')
}

/// Whether a word may hold this letter.
pub(super) fn is_word_char(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// A place in a value: `with.files[0]`.
pub(crate) fn to_dotted_path(place: &[Segment]) -> String {
    let mut text = String::new();
    for segment in place {
        match segment {
            Segment::Index(at) => text.extend(["[", &at.to_string(), "]"]),
            Segment::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
        }
    }
    text
}
