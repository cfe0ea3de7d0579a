//! Searches for operations by words: "list open pull requests of a repo".
//!
//! The words of each book are indexed once, from its index entries. Title, vendor and description of a catalog are
//! read for each search, because they may change while the book does not.

use std::{cmp::Ordering, collections::HashSet};

use super::{
    compiled::DocumentReader,
    entry::OperationEntry,
    name::to_kebab_case,
    words::{SEGMENT_WEIGHT, SUMMARY_WEIGHT, split_into_stems, stem_word},
};
use crate::operation::Method;
use midex_domain::limits;

/// A book, and the texts that its catalog has about it.
#[derive(Clone, Copy, Debug)]
pub struct SearchableCatalog<'a> {
    /// The book.
    pub document: &'a DocumentReader,
    /// The catalog's title.
    pub title: &'a str,
    /// Its vendor.
    pub vendor: &'a str,
    /// Its description.
    pub description: &'a str,
}

/// A search result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchHit {
    /// The position of its shelf.
    pub catalog_index: usize,
    /// Its position in the book.
    pub operation_index: usize,
    /// The relevance. Only the order of scores has a meaning.
    pub score: f32,
}

/// The operations that match a query, the best first. A query without words matches nothing.
pub fn search_operations(
    catalogs: &[SearchableCatalog<'_>],
    query: &str,
    limit: usize,
) -> Vec<SearchHit> {
    let query = SearchQuery::parse(query);
    let operation_count: usize = catalogs.iter().map(|shelf| shelf.document.entries().len()).sum();
    let weights: Vec<_> = query
        .words
        .iter()
        .map(|word| compute_word_weight(word, catalogs, operation_count))
        .collect();
    let mut hits = Vec::new();
    for (catalog_index, catalog) in catalogs.iter().enumerate() {
        hits.extend(match_catalog(catalog, &query, &weights).into_iter().map(
            |(operation, score)| SearchHit { catalog_index, operation_index: operation, score },
        ));
    }
    let compare_hits = |one: &SearchHit, other: &SearchHit| {
        let score = other.score.partial_cmp(&one.score).unwrap_or(Ordering::Equal);
        score.then(
            (one.catalog_index, one.operation_index)
                .cmp(&(other.catalog_index, other.operation_index)),
        )
    };
    if hits.len() > limit && limit > 0 {
        hits.select_nth_unstable_by(limit - 1, compare_hits);
    }
    hits.truncate(limit);
    hits.sort_by(compare_hits);
    hits
}

/// Stop words, which a search ignores.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "as", "at", "all", "any", "by", "can", "do", "every", "for", "from", "have",
    "how", "i", "in", "into", "is", "it", "its", "me", "my", "of", "on", "one", "or", "our",
    "please", "some", "that", "the", "their", "there", "these", "this", "to", "us", "want", "what",
    "which", "with", "your", "are", "be", "does", "has", "was", "were",
];

/// An action that a query may ask for.
#[derive(Debug)]
struct ActionVerb {
    /// The words for it in a query. More specific words, such as `upload` and `merge`, are not listed, and so are
    /// searched for.
    query_words: &'static [&'static str],
    methods: &'static [Method],
    /// The last part of the names of operations that do it.
    name_ending: &'static str,
}

const ACTION_VERBS: &[ActionVerb] = &[
    ActionVerb { query_words: &["list"], methods: &[Method::Get], name_ending: "list" },
    ActionVerb { query_words: &["describe"], methods: &[Method::Get], name_ending: "info" },
    ActionVerb {
        query_words: &["get", "show", "fetch", "read", "retrieve", "view"],
        methods: &[Method::Get],
        name_ending: "",
    },
    ActionVerb {
        query_words: &["create", "add", "new", "make"],
        methods: &[Method::Post, Method::Put],
        name_ending: "create",
    },
    ActionVerb {
        query_words: &["update", "edit", "change", "modify", "set"],
        methods: &[Method::Patch, Method::Put, Method::Post],
        name_ending: "update",
    },
    ActionVerb {
        query_words: &["delete", "remove", "destroy", "drop"],
        methods: &[Method::Delete],
        name_ending: "delete",
    },
];

/// A parsed query.
#[derive(Debug, Default)]
struct SearchQuery {
    /// The action, if the query begins with one.
    verb: Option<&'static ActionVerb>,
    /// The first word, stemmed.
    first: String,
    /// The words to search for.
    words: Vec<String>,
}

impl SearchQuery {
    fn parse(text: &str) -> Self {
        let text = to_kebab_case(text);
        let query_words =
            text.split('-').filter(|word| !word.is_empty() && !STOP_WORDS.contains(word));
        let query_words: Vec<_> = query_words.take(limits::SEARCH_WORDS_MAX).collect();
        let first = query_words.first().copied().unwrap_or_default();
        let verb = ACTION_VERBS.iter().find(|verb| verb.query_words.contains(&first));
        // If the query is only a verb, the verb is searched for like any other word.
        let object_words = query_words.get(1..).filter(|rest| verb.is_some() && !rest.is_empty());
        let mut words: Vec<_> =
            object_words.unwrap_or(&query_words).iter().map(|word| stem_word(word)).collect();
        let mut seen_words = HashSet::new();
        words.retain(|word| seen_words.insert(word.clone()));
        Self { verb, first: stem_word(first), words }
    }
}

/// The weight of a word: the rarer, the higher.
#[expect(clippy::cast_precision_loss, reason = "a weight need not be exact")]
fn compute_word_weight(
    word: &str,
    catalogs: &[SearchableCatalog<'_>],
    operation_count: usize,
) -> f32 {
    let counts =
        catalogs.iter().map(|shelf| shelf.document.search_index().find_postings(word).len());
    let count: usize = counts.sum();
    (1.0 + operation_count as f32 / (count as f32 + 1.0)).ln()
}

/// The matches of a query in one operation.
#[derive(Clone, Copy, Default)]
struct WordMatches {
    score: f32,
    words: u8,
    /// The matched words that are in the path.
    path_words: u8,
}

/// The operations of a shelf that match at least one word, with their scores. Matches in the texts of the catalog
/// count for each of them.
#[expect(clippy::cast_precision_loss, reason = "a score need not be exact")]
fn match_catalog(
    catalog: &SearchableCatalog<'_>,
    query: &SearchQuery,
    weights: &[f32],
) -> Vec<(usize, f32)> {
    let (prepared, entries) = (catalog.document.search_index(), catalog.document.entries());
    let catalog_texts = [catalog.title, catalog.vendor, catalog.description];
    let catalog_words: HashSet<_> =
        catalog_texts.iter().flat_map(|text| split_into_stems(text)).collect();
    let mut catalog_matches = WordMatches::default();
    let mut operation_matches = vec![WordMatches::default(); entries.len()];
    for (word, weight) in query.words.iter().zip(weights) {
        let is_catalog_word = catalog_words.contains(word);
        if is_catalog_word {
            catalog_matches.score += weight * f32::from(SUMMARY_WEIGHT);
            catalog_matches.words += 1;
        }
        for posting in prepared.find_postings(word) {
            let matches = &mut operation_matches[posting.operation as usize];
            matches.score += weight * f32::from(posting.weight);
            matches.words = matches.words.saturating_add(u8::from(!is_catalog_word));
            matches.path_words =
                matches.path_words.saturating_add(u8::from(posting.weight >= SEGMENT_WEIGHT));
        }
    }
    let has_only_catalog_words = usize::from(catalog_matches.words) == query.words.len();
    let compute_score = |(at, found): (usize, WordMatches)| {
        let is_found = found.score > 0.0 || (has_only_catalog_words && catalog_matches.score > 0.0);
        let coverage =
            f32::from(found.words.saturating_add(catalog_matches.words)) / query.words.len() as f32;
        let unmatched_words = f32::from(prepared.sizes[at].saturating_sub(found.path_words));
        let score = (found.score + catalog_matches.score) * (0.3 + 0.7 * coverage.min(1.0).powi(2))
            / (1.0 + 0.12 * unmatched_words);
        is_found.then(|| (at, score * compute_action_factor(&entries[at], query)))
    };
    operation_matches.into_iter().enumerate().filter_map(compute_score).collect()
}

/// A factor for how well the operation does what the query asks for.
fn compute_action_factor(entry: &OperationEntry, query: &SearchQuery) -> f32 {
    let deprecation_factor = if entry.is_deprecated { 0.8 } else { 1.0 };
    let begin = entry.summary.get(..query.first.len()).unwrap_or_default();
    let summary_factor = if begin.eq_ignore_ascii_case(&query.first) { 1.3 } else { 1.0 };
    let end = entry.name.rsplit(':').next().unwrap_or_default();
    let verb_factor = match query.verb {
        None => 1.0,
        Some(verb) if !verb.methods.contains(&entry.method) => 0.6,
        Some(verb) if !verb.name_ending.is_empty() && end.starts_with(verb.name_ending) => 1.6,
        Some(_) => 1.3,
    };
    deprecation_factor * summary_factor * verb_factor
}
