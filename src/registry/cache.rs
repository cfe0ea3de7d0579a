//! A cache of load results by file text: a reload parses and checks only the files that changed.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use super::{files::File, load::Loaded};
use crate::domain::{
    document::Digest,
    finding::{Finding, Place},
};

/// The results of one load, by path.
#[derive(Debug)]
pub(super) struct Cache<T>(HashMap<PathBuf, Cached<T>>);

/// The result for one text, before duplicate names in its directory are refused.
#[derive(Debug)]
struct Cached<T> {
    text: Digest,
    name: String,
    named_at: Option<Place>,
    value: Option<Arc<T>>,
    findings: Vec<Finding>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Cache<T> {
    /// Whether the file has the text that was read.
    pub(super) fn is_of(&self, file: &File) -> bool {
        self.of(file, digest(file)).is_some()
    }

    /// A file that could not be read whole is never cached.
    fn of(&self, file: &File, text: Digest) -> Option<&Cached<T>> {
        let reading = self.0.get(&file.path)?;
        (file.trouble.is_none() && reading.text == text).then_some(reading)
    }
}

fn digest(file: &File) -> Digest {
    Digest::of(file.text.as_bytes())
}

/// A load in progress.
#[derive(Debug)]
pub(super) struct CachedLoader<'a, T> {
    before: &'a Cache<T>,
    now: Cache<T>,
    /// How many files were parsed.
    parsed: usize,
}

impl<'a, T> CachedLoader<'a, T> {
    /// Begins a load that takes unchanged texts from `before`.
    pub(super) fn new(before: &'a Cache<T>) -> Self {
        Self {
            before,
            now: Cache::default(),
            parsed: 0,
        }
    }

    /// The result for a file: cached, or from `load` if the text is new or its definition no longer `valid` beside the
    /// others.
    pub(super) fn read(
        &mut self,
        file: File,
        valid: impl FnOnce(&T) -> bool,
        load: impl FnOnce(File) -> Loaded<Arc<T>>,
    ) -> Loaded<Arc<T>> {
        let text = digest(&file);
        let known = self
            .before
            .of(&file, text)
            .filter(|known| known.value.as_ref().is_none_or(|value| valid(value)));
        let loaded = if let Some(known) = known {
            Loaded {
                file,
                name: known.name.clone(),
                named_at: known.named_at,
                value: known.value.clone(),
                findings: known.findings.clone(),
            }
        } else {
            self.parsed += 1;
            load(file)
        };
        let reading = Cached {
            text,
            name: loaded.name.clone(),
            named_at: loaded.named_at,
            value: loaded.value.clone(),
            findings: loaded.findings.clone(),
        };
        self.now.0.insert(loaded.file.path.clone(), reading);
        loaded
    }

    /// All results, and how many files were parsed.
    pub(super) fn finish(self) -> (Cache<T>, usize) {
        (self.now, self.parsed)
    }
}
