//! Searches for operations by words: "list open pull requests of a repo".
//!
//! The words of each book are indexed once, from its index entries. Title, vendor and description of a catalog are
//! read for each search, because they may change while the book does not.

use std::{cmp::Ordering, collections::HashSet};

use super::{
    book::DocumentReader,
    entry::OperationEntry,
    name::to_kebab_case,
    words::{SEGMENT_WEIGHT, SUMMARY_WEIGHT, stem_word, stemmed_words},
};
use crate::operation::Method;
use midex_domain::limits;

/// A book, and the texts that its catalog has about it.
#[derive(Clone, Copy, Debug)]
pub struct SearchableCatalog<'a> {
    /// The book.
    pub book: &'a DocumentReader,
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
    pub shelf: usize,
    /// Its position in the book.
    pub operation: usize,
    /// The relevance. Only the order of scores has a meaning.
    pub score: f32,
}

/// The operations that match a query, the best first. A query without words matches nothing.
pub fn search_operations(
    shelves: &[SearchableCatalog<'_>],
    query: &str,
    limit: usize,
) -> Vec<SearchHit> {
    let query = SearchQuery::parse(query);
    let all: usize = shelves.iter().map(|shelf| shelf.book.entries().len()).sum();
    let weights: Vec<_> = query.words.iter().map(|word| word_rarity(word, shelves, all)).collect();
    let mut hits = Vec::new();
    for (number, shelf) in shelves.iter().enumerate() {
        hits.extend(
            match_catalog(shelf, &query, &weights)
                .into_iter()
                .map(|(operation, score)| SearchHit { shelf: number, operation, score }),
        );
    }
    let order = |one: &SearchHit, other: &SearchHit| {
        let score = other.score.partial_cmp(&one.score).unwrap_or(Ordering::Equal);
        score.then((one.shelf, one.operation).cmp(&(other.shelf, other.operation)))
    };
    if hits.len() > limit && limit > 0 {
        hits.select_nth_unstable_by(limit - 1, order);
    }
    hits.truncate(limit);
    hits.sort_by(order);
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
    said: &'static [&'static str],
    methods: &'static [Method],
    /// The last part of the names of operations that do it.
    end: &'static str,
}

const ACTION_VERBS: &[ActionVerb] = &[
    ActionVerb { said: &["list"], methods: &[Method::Get], end: "list" },
    ActionVerb { said: &["describe"], methods: &[Method::Get], end: "info" },
    ActionVerb {
        said: &["get", "show", "fetch", "read", "retrieve", "view"],
        methods: &[Method::Get],
        end: "",
    },
    ActionVerb {
        said: &["create", "add", "new", "make"],
        methods: &[Method::Post, Method::Put],
        end: "create",
    },
    ActionVerb {
        said: &["update", "edit", "change", "modify", "set"],
        methods: &[Method::Patch, Method::Put, Method::Post],
        end: "update",
    },
    ActionVerb {
        said: &["delete", "remove", "destroy", "drop"],
        methods: &[Method::Delete],
        end: "delete",
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
        let said = text.split('-').filter(|word| !word.is_empty() && !STOP_WORDS.contains(word));
        let said: Vec<_> = said.take(limits::SEARCH_WORDS_MAX).collect();
        let first = said.first().copied().unwrap_or_default();
        let verb = ACTION_VERBS.iter().find(|verb| verb.said.contains(&first));
        // If the query is only a verb, the verb is searched for like any other word.
        let things = said.get(1..).filter(|rest| verb.is_some() && !rest.is_empty());
        let mut words: Vec<_> =
            things.unwrap_or(&said).iter().map(|word| stem_word(word)).collect();
        let mut seen = HashSet::new();
        words.retain(|word| seen.insert(word.clone()));
        Self { verb, first: stem_word(first), words }
    }
}

/// The weight of a word: the rarer, the higher.
#[expect(clippy::cast_precision_loss, reason = "a weight need not be exact")]
fn word_rarity(word: &str, shelves: &[SearchableCatalog<'_>], all: usize) -> f32 {
    let counts = shelves.iter().map(|shelf| shelf.book.search_index().find_postings(word).len());
    let count: usize = counts.sum();
    (1.0 + all as f32 / (count as f32 + 1.0)).ln()
}

/// The matches of a query in one operation.
#[derive(Clone, Copy, Default)]
struct WordMatches {
    score: f32,
    words: u8,
    /// The matched words that are in the path.
    named: u8,
}

/// The operations of a shelf that match at least one word, with their scores. Matches in the texts of the catalog
/// count for each of them.
#[expect(clippy::cast_precision_loss, reason = "a score need not be exact")]
fn match_catalog(
    shelf: &SearchableCatalog<'_>,
    query: &SearchQuery,
    weights: &[f32],
) -> Vec<(usize, f32)> {
    let (prepared, entries) = (shelf.book.search_index(), shelf.book.entries());
    let about = [shelf.title, shelf.vendor, shelf.description];
    let about: HashSet<_> = about.iter().flat_map(|text| stemmed_words(text)).collect();
    let mut common = WordMatches::default();
    let mut all = vec![WordMatches::default(); entries.len()];
    for (word, weight) in query.words.iter().zip(weights) {
        let is_about = about.contains(word);
        if is_about {
            common.score += weight * f32::from(SUMMARY_WEIGHT);
            common.words += 1;
        }
        for posting in prepared.find_postings(word) {
            let found = &mut all[posting.operation as usize];
            found.score += weight * f32::from(posting.weight);
            found.words = found.words.saturating_add(u8::from(!is_about));
            found.named = found.named.saturating_add(u8::from(posting.weight >= SEGMENT_WEIGHT));
        }
    }
    let only_about = usize::from(common.words) == query.words.len();
    let score = |(at, found): (usize, WordMatches)| {
        let is_found = found.score > 0.0 || (only_about && common.score > 0.0);
        let covered =
            f32::from(found.words.saturating_add(common.words)) / query.words.len() as f32;
        let beside = f32::from(prepared.sizes[at].saturating_sub(found.named));
        let score = (found.score + common.score) * (0.3 + 0.7 * covered.min(1.0).powi(2))
            / (1.0 + 0.12 * beside);
        is_found.then(|| (at, score * action_fit_factor(&entries[at], query)))
    };
    all.into_iter().enumerate().filter_map(score).collect()
}

/// A factor for how well the operation does what the query asks for.
fn action_fit_factor(entry: &OperationEntry, query: &SearchQuery) -> f32 {
    let advised = if entry.is_deprecated { 0.8 } else { 1.0 };
    let begin = entry.summary.get(..query.first.len()).unwrap_or_default();
    let says = if begin.eq_ignore_ascii_case(&query.first) { 1.3 } else { 1.0 };
    let end = entry.name.rsplit(':').next().unwrap_or_default();
    let fits = match query.verb {
        None => 1.0,
        Some(verb) if !verb.methods.contains(&entry.method) => 0.6,
        Some(verb) if !verb.end.is_empty() && end.starts_with(verb.end) => 1.6,
        Some(_) => 1.3,
    };
    advised * says * fits
}
