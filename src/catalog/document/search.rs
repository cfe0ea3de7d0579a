//! Finds operations by the words of a person: "list open pull requests of a repo".
//!
//! The words of each book are prepared once, from what its index has. Title, vendor and description of a catalog are read at
//! each search, for they may change while the book does not.

use std::{cmp::Ordering, collections::HashSet};

use super::{
    book::Book,
    entry::Entry,
    name::dashed,
    words::{PART, SUMMARY, stem, words},
};
use crate::operation::Method;
use midex_domain::limits;

/// A book with what its catalog says about it.
#[derive(Clone, Copy, Debug)]
pub struct Shelf<'a> {
    /// The book.
    pub book: &'a Book,
    /// The catalog's title.
    pub title: &'a str,
    /// Its vendor.
    pub vendor: &'a str,
    /// What it is about.
    pub description: &'a str,
}

/// An operation that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The place of its shelf.
    pub shelf: usize,
    /// Its place in the book.
    pub operation: usize,
    /// How well it fits; only the order counts.
    pub score: f32,
}

/// The operations that fit a query, the best first. A query without words finds nothing.
pub fn search(shelves: &[Shelf<'_>], query: &str, limit: usize) -> Vec<Hit> {
    let query = Query::of(query);
    let all: usize = shelves.iter().map(|shelf| shelf.book.entries().len()).sum();
    let weights: Vec<_> = query
        .words
        .iter()
        .map(|word| rarity(word, shelves, all))
        .collect();
    let mut hits = Vec::new();
    for (number, shelf) in shelves.iter().enumerate() {
        hits.extend(
            on_shelf(shelf, &query, &weights)
                .into_iter()
                .map(|(operation, score)| Hit {
                    shelf: number,
                    operation,
                    score,
                }),
        );
    }
    let order = |one: &Hit, other: &Hit| {
        let score = other
            .score
            .partial_cmp(&one.score)
            .unwrap_or(Ordering::Equal);
        score.then((one.shelf, one.operation).cmp(&(other.shelf, other.operation)))
    };
    if hits.len() > limit && limit > 0 {
        hits.select_nth_unstable_by(limit - 1, order);
    }
    hits.truncate(limit);
    hits.sort_by(order);
    hits
}

/// Words that say nothing about what is wanted.
const IDLE: &[&str] = &[
    "a", "an", "and", "as", "at", "all", "any", "by", "can", "do", "every", "for", "from", "have",
    "how", "i", "in", "into", "is", "it", "its", "me", "my", "of", "on", "one", "or", "our",
    "please", "some", "that", "the", "their", "there", "these", "this", "to", "us", "want", "what",
    "which", "with", "your", "are", "be", "does", "has", "was", "were",
];

/// What is done to things.
#[derive(Debug)]
struct Verb {
    /// What people say for it. Words that say more than the method does stay words: `upload`, `merge`.
    said: &'static [&'static str],
    methods: &'static [Method],
    /// How names end that do it.
    end: &'static str,
}

const VERBS: &[Verb] = &[
    Verb {
        said: &["list"],
        methods: &[Method::Get],
        end: "list",
    },
    Verb {
        said: &["describe"],
        methods: &[Method::Get],
        end: "info",
    },
    Verb {
        said: &["get", "show", "fetch", "read", "retrieve", "view"],
        methods: &[Method::Get],
        end: "",
    },
    Verb {
        said: &["create", "add", "new", "make"],
        methods: &[Method::Post, Method::Put],
        end: "create",
    },
    Verb {
        said: &["update", "edit", "change", "modify", "set"],
        methods: &[Method::Patch, Method::Put, Method::Post],
        end: "update",
    },
    Verb {
        said: &["delete", "remove", "destroy", "drop"],
        methods: &[Method::Delete],
        end: "delete",
    },
];

/// A query as it is searched for.
#[derive(Debug, Default)]
struct Query {
    /// What is to be done, where the query begins with it.
    verb: Option<&'static Verb>,
    /// The first word.
    first: String,
    /// The words that are searched for.
    words: Vec<String>,
}

impl Query {
    fn of(text: &str) -> Self {
        let text = dashed(text);
        let said = text
            .split('-')
            .filter(|word| !word.is_empty() && !IDLE.contains(word));
        let said: Vec<_> = said.take(limits::SEARCH_WORDS_MAX).collect();
        let first = said.first().copied().unwrap_or_default();
        let verb = VERBS.iter().find(|verb| verb.said.contains(&first));
        // A verb alone is a word like another.
        let things = said
            .get(1..)
            .filter(|rest| verb.is_some() && !rest.is_empty());
        let mut words: Vec<_> = things
            .unwrap_or(&said)
            .iter()
            .map(|word| stem(word))
            .collect();
        let mut seen = HashSet::new();
        words.retain(|word| seen.insert(word.clone()));
        Self {
            verb,
            first: stem(first),
            words,
        }
    }
}

/// How much a word says: the rarer the more.
#[expect(clippy::cast_precision_loss, reason = "a weight need not be exact")]
fn rarity(word: &str, shelves: &[Shelf<'_>], all: usize) -> f32 {
    let counts = shelves
        .iter()
        .map(|shelf| shelf.book.words().having(word).len());
    let count: usize = counts.sum();
    (1.0 + all as f32 / (count as f32 + 1.0)).ln()
}

/// What is found of the words of a query in one operation.
#[derive(Clone, Copy, Default)]
struct Found {
    score: f32,
    words: u8,
    /// Words of its name.
    named: u8,
}

/// The operations of a shelf that have at least one of the words. What its catalog is called counts for all of them.
#[expect(clippy::cast_precision_loss, reason = "a score need not be exact")]
fn on_shelf(shelf: &Shelf<'_>, query: &Query, weights: &[f32]) -> Vec<(usize, f32)> {
    let (prepared, entries) = (shelf.book.words(), shelf.book.entries());
    let about = [shelf.title, shelf.vendor, shelf.description];
    let about: HashSet<_> = about.iter().flat_map(|text| words(text)).collect();
    let mut common = Found::default();
    let mut all = vec![Found::default(); entries.len()];
    for (word, weight) in query.words.iter().zip(weights) {
        let is_about = about.contains(word);
        if is_about {
            common.score += weight * f32::from(SUMMARY);
            common.words += 1;
        }
        for posting in prepared.having(word) {
            let found = &mut all[posting.operation as usize];
            found.score += weight * f32::from(posting.weight);
            found.words = found.words.saturating_add(u8::from(!is_about));
            found.named = found.named.saturating_add(u8::from(posting.weight >= PART));
        }
    }
    let only_about = usize::from(common.words) == query.words.len();
    let score = |(at, found): (usize, Found)| {
        let is_found = found.score > 0.0 || (only_about && common.score > 0.0);
        let covered =
            f32::from(found.words.saturating_add(common.words)) / query.words.len() as f32;
        let beside = f32::from(prepared.sizes[at].saturating_sub(found.named));
        let score = (found.score + common.score) * (0.3 + 0.7 * covered.min(1.0).powi(2))
            / (1.0 + 0.12 * beside);
        is_found.then(|| (at, score * fitting(&entries[at], query)))
    };
    all.into_iter().enumerate().filter_map(score).collect()
}

/// How well what an operation does fits what is to be done.
fn fitting(entry: &Entry, query: &Query) -> f32 {
    let advised = if entry.is_deprecated { 0.8 } else { 1.0 };
    let begin = entry.summary.get(..query.first.len()).unwrap_or_default();
    let says = if begin.eq_ignore_ascii_case(&query.first) {
        1.3
    } else {
        1.0
    };
    let end = entry.name.rsplit(':').next().unwrap_or_default();
    let fits = match query.verb {
        None => 1.0,
        Some(verb) if !verb.methods.contains(&entry.method) => 0.6,
        Some(verb) if !verb.end.is_empty() && end.starts_with(verb.end) => 1.6,
        Some(_) => 1.3,
    };
    advised * says * fits
}
