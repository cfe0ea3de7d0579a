//! Keys and values of other systems (GitHub Actions, Argo, Temporal, Step Functions, n8n) with their counterparts in
//! midex, by the mapping in which authors write them. The table is consulted for unknown words only, before similar
//! spellings.

mod documents;
mod words;

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

pub use self::documents::detect_foreign_document;
use self::words::{BARE_SCALARS, FOREIGN_FILTERS, FOREIGN_KEYS, FOREIGN_VALUES};
use crate::nearest::normalize_name;

/// Foreign keys with the same meaning in one mapping.
#[derive(Debug)]
pub struct ForeignKeys {
    /// The keys, separated by blanks. Case, `_` and `-` are ignored.
    pub words: &'static str,
    /// If not empty, the row applies only if the mapping also has one of these keys.
    pub required_siblings: &'static [&'static str],
    /// Their counterpart.
    pub counterpart: Counterpart,
}

/// The counterpart of a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counterpart {
    /// The value under the first of these keys that is not given yet.
    Key(&'static [&'static str]),
    /// The value under a key of the mapping under a key: `sleep: 5m` is `wait: { for: 5m }`.
    NestedKey(&'static str, &'static str),
    /// A number of units under a key: `timeout-minutes: 5` is `timeout: 5m`.
    Quantity(&'static str, &'static str),
    /// One more than the number, because attempts include the first one: under a key, or under a key of a nested
    /// mapping.
    PlusOne(Option<&'static str>, &'static str),
    /// This key with this value if the foreign value equals this flag; otherwise the entry has no effect and can be
    /// removed.
    FlagValue(bool, &'static str, &'static str),
    /// The key if the value is a mapping; otherwise this advice.
    KeyOrAdvice(&'static str, &'static str),
    /// The key if the value is a text; otherwise this advice, which counts as the kind of a step without one.
    TextOrAdvice(&'static str, &'static str),
    /// Advice only, without a counterpart. `{id}` is replaced by the id of the step.
    Advice(&'static str),
    /// Advice only, without a counterpart; it counts as the kind of the step.
    KindAdvice(&'static str),
}

/// Foreign values with the same meaning under some keys.
#[derive(Debug)]
pub struct ForeignValues {
    /// The keys.
    pub keys: &'static [&'static str],
    /// The values, separated by blanks. Case, `_` and `-` are ignored.
    pub words: &'static str,
    /// Their counterpart.
    pub counterpart: &'static str,
}

/// A scalar where midex expects a mapping.
#[derive(Debug)]
pub struct BareScalar {
    /// The mapping that contains the key.
    pub mapping: &'static str,
    /// The key: `retry: 3`.
    pub key: &'static str,
    /// The entries of the mapping.
    pub entries: ReplacementEntries,
}

/// The entries of the mapping that replaces a scalar. The entry without a text receives the scalar.
pub type ReplacementEntries = &'static [(&'static str, Option<&'static str>)];

/// The rows of `KEYS`, each with its mapping, by folded word.
type ForeignKeyIndex = HashMap<String, Vec<(&'static str, &'static ForeignKeys)>>;

/// The index of `KEYS`, since every key of every file is looked up.
static FOREIGN_KEYS_BY_WORD: LazyLock<ForeignKeyIndex> = LazyLock::new(|| {
    let mut rows: HashMap<_, Vec<_>> = HashMap::new();
    for (place, row) in all_foreign_keys() {
        for word in row.words.split(' ') {
            rows.entry(normalize_key(word).into_owned()).or_default().push((place, row));
        }
    }
    rows
});

/// The word as [`normalize_name`] normalizes it. Most keys are lower case already and are not copied.
fn normalize_key(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(word);
    }
    normalize_name(word).into_iter().collect()
}

/// Every row of `KEYS` with its mapping.
fn all_foreign_keys() -> impl Iterator<Item = (&'static str, &'static ForeignKeys)> {
    let rows = |(place, rows): &(&'static str, &'static [ForeignKeys])| {
        let place = *place;
        rows.iter().map(move |row| (place, row))
    };
    FOREIGN_KEYS.iter().flat_map(rows)
}

/// The counterpart of `key` in the mapping named `mapping`; `has_key` tells whether the mapping has another key.
pub fn find_key_counterpart(
    mapping: &str,
    key: &str,
    has_key: impl Fn(&str) -> bool,
) -> Option<&'static Counterpart> {
    let rows = FOREIGN_KEYS_BY_WORD.get(normalize_key(key).as_ref())?.iter();
    let mut rows = rows.filter(|(of, _)| *of == mapping).map(|(_, row)| row);
    let has_required_sibling = |row: &&&ForeignKeys| {
        row.required_siblings.is_empty() || row.required_siblings.iter().any(|key| has_key(key))
    };
    let row = rows.find(has_required_sibling)?;
    Some(&row.counterpart)
}

/// The counterpart of the value `text` under `key`.
pub fn find_value_counterpart(key: &str, text: &str) -> Option<&'static str> {
    let normalized = normalize_name(text.trim().trim_end_matches("()"));
    let mut rows = FOREIGN_VALUES.iter().filter(|row| row.keys.contains(&key));
    let row =
        rows.find(|row| row.words.split(' ').any(|word| normalize_name(word) == normalized))?;
    Some(row.counterpart)
}

/// Advice for a Jinja filter that has no counterpart.
pub fn find_filter_advice(name: &str) -> Option<&'static str> {
    let mut rows = FOREIGN_FILTERS.iter();
    let (_, advice) = rows.find(|(words, _)| words.split(' ').any(|word| word == name))?;
    Some(advice)
}

/// The replacement of a scalar under `key` in the mapping named `mapping`.
pub fn find_bare_scalar(mapping: &str, key: &str) -> Option<&'static BareScalar> {
    BARE_SCALARS.iter().find(|row| (row.mapping, row.key) == (mapping, key))
}

/// Every mapping and every key that the table refers to.
#[cfg(test)]
pub(super) fn all_referenced_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let keys = all_foreign_keys().flat_map(|(place, row)| {
        let targets: Vec<_> = match row.counterpart {
            Counterpart::Key(keys) => keys.to_vec(),
            Counterpart::NestedKey(key, _)
            | Counterpart::Quantity(key, _)
            | Counterpart::PlusOne(Some(key), _)
            | Counterpart::PlusOne(None, key)
            | Counterpart::FlagValue(_, key, _)
            | Counterpart::TextOrAdvice(key, _)
            | Counterpart::KeyOrAdvice(key, _) => vec![key],
            Counterpart::Advice(_) | Counterpart::KindAdvice(_) => Vec::new(),
        };
        targets.into_iter().map(move |key| (place, key))
    });
    keys.chain(BARE_SCALARS.iter().map(|row| (row.mapping, row.key)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_unique_in_each_mapping() {
        let mut known_words = BTreeSet::new();
        for (place, row) in all_foreign_keys() {
            for word in row.words.split(' ') {
                let folded: String = normalize_name(word).into_iter().collect();
                let is_new = known_words.insert((place, folded, row.required_siblings.is_empty()));
                assert!(is_new, "{place}: {word}");
            }
        }
        let mut known_words = BTreeSet::new();
        for row in FOREIGN_VALUES {
            for (key, word) in
                row.keys.iter().flat_map(|key| row.words.split(' ').map(move |word| (key, word)))
            {
                let folded: String = normalize_name(word).into_iter().collect();
                assert!(known_words.insert((*key, folded)), "{key}: {word}");
            }
        }
    }

    #[test]
    fn lookup_ignores_spelling_but_not_other_keys() {
        let none = |_: &str| false;
        assert_eq!(
            find_key_counterpart("a step", "Continue-On-Error", none),
            find_key_counterpart("a step", "continueOnError", none)
        );
        assert!(matches!(
            find_key_counterpart("a step", "until", none),
            Some(Counterpart::Advice(_))
        ));
        let activity = find_key_counterpart("a step", "until", |key| key == "activity");
        assert_eq!(activity, Some(&Counterpart::NestedKey("repeat", "until")));
        assert_eq!(find_value_counterpart("if", "failure()"), Some("failed"));
        assert_eq!(find_value_counterpart("next", "__END__"), Some("$end"));
        assert_eq!(find_value_counterpart("next", "review"), None);
    }
}
