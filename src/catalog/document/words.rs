//! The search index of a compiled document. It is built at the first search.

use std::collections::{BTreeMap, HashSet};

use super::{
    entry::OperationEntry,
    name::{list_name_segments, to_kebab_case},
    provider::to_singular,
};

/// The words of a text as they are compared: in lower case and stemmed.
pub(super) fn split_into_stems(text: &str) -> Vec<String> {
    let kebab_text = to_kebab_case(text);
    kebab_text.split('-').filter(|word| !word.is_empty()).map(stem_word).collect()
}

/// Stems a word: removes the ending of a plural, or of a form of a verb.
pub(super) fn stem_word(word: &str) -> String {
    let word = to_singular(word);
    for end in ["ing", "ed"] {
        if let Some(stem) = word.strip_suffix(end).filter(|stem| stem.len() > 3) {
            return stem.to_owned();
        }
    }
    word.strip_suffix('e').filter(|stem| stem.len() > 3).map_or(word.clone(), str::to_owned)
}

/// The search index of a compiled document.
#[derive(Debug, Default)]
pub(super) struct WordIndex {
    /// The known words in order, each with the end of its postings.
    words: Vec<(Box<str>, u32)>,
    postings: Vec<Posting>,
    /// For each operation, the number of different words in its path.
    pub(super) sizes: Vec<u8>,
}

/// A word of an operation, with its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    pub(super) operation: u32,
    pub(super) weight: u8,
}

/// The weights of a word, by where it occurs; only their ratios matter. The last segment of a path says best what the
/// operation is about.
const LAST_SEGMENT_WEIGHT: u8 = 10;
pub(super) const SEGMENT_WEIGHT: u8 = 6;
const ALIAS_WEIGHT: u8 = 5;
pub(super) const SUMMARY_WEIGHT: u8 = 5;
const PARAMETER_WEIGHT: u8 = 2;

impl WordIndex {
    pub(super) fn from_entries(entries: &[OperationEntry]) -> Self {
        let mut postings_by_word: BTreeMap<String, Vec<Posting>> = BTreeMap::new();
        let mut sizes = Vec::with_capacity(entries.len());
        for (operation, entry) in entries.iter().enumerate() {
            let operation = u32::try_from(operation).unwrap_or(u32::MAX);
            let (words, size) = weigh_words(entry);
            sizes.push(size);
            for (word, weight) in words {
                postings_by_word.entry(word).or_default().push(Posting { operation, weight });
            }
        }
        let mut index = Self { sizes, ..Self::default() };
        for (word, postings) in postings_by_word {
            index.postings.extend(postings);
            let end = u32::try_from(index.postings.len()).unwrap_or(u32::MAX);
            index.words.push((word.into(), end));
        }
        index.postings.shrink_to_fit();
        index
    }

    /// The operations with a word. If there are none and the word has at least 3 bytes, those with a word that begins
    /// with it.
    pub(super) fn find_postings(&self, word: &str) -> &[Posting] {
        let first = self.words.partition_point(|(known, _)| **known < *word);
        let is_known = self.words.get(first).is_some_and(|(known, _)| **known == *word);
        let count = if is_known {
            1
        } else if word.len() < 3 {
            0
        } else {
            self.words[first..].iter().take_while(|(known, _)| known.starts_with(word)).count()
        };
        let postings_end = |at: usize| at.checked_sub(1).map_or(0, |at| self.words[at].1 as usize);
        &self.postings[postings_end(first)..postings_end(first + count)]
    }
}

/// The words of an operation with their weights, and the number of different words in its path.
fn weigh_words(entry: &OperationEntry) -> (BTreeMap<String, u8>, u8) {
    let mut weights = BTreeMap::new();
    let mut add_words = |text: &str, weight: u8| {
        for word in split_into_stems(text) {
            let current_weight = weights.entry(word).or_insert(0);
            *current_weight = weight.max(*current_weight);
        }
    };
    let segments = list_name_segments(&entry.path);
    let (last, earlier_segments) =
        segments.split_last().map_or(("", &segments[..]), |(last, before)| (last.as_str(), before));
    add_words(last, LAST_SEGMENT_WEIGHT);
    for part in earlier_segments {
        add_words(part, SEGMENT_WEIGHT);
    }
    entry.aliases.iter().for_each(|alias| add_words(alias, ALIAS_WEIGHT));
    add_words(&entry.summary, SUMMARY_WEIGHT);
    let parameters = entry.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    parameters.for_each(|name| add_words(name, PARAMETER_WEIGHT));
    let path_words: HashSet<_> = segments.iter().flat_map(|part| split_into_stems(part)).collect();
    (weights, u8::try_from(path_words.len()).unwrap_or(u8::MAX))
}
