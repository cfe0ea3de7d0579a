//! What came of each file's text, from one load to the next: a load parses and checks only the files that changed.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use super::{files::File, load::Loaded};
use crate::domain::{
    document::Digest,
    finding::{Finding, Place},
};

/// What came of the files of one load, by their paths.
#[derive(Debug)]
pub(super) struct Readings<T>(HashMap<PathBuf, Reading<T>>);

/// What came of one text, before the other files of its directory were looked at.
#[derive(Debug)]
struct Reading<T> {
    text: Digest,
    name: String,
    named_at: Option<Place>,
    value: Option<Arc<T>>,
    findings: Vec<Finding>,
}

impl<T> Default for Readings<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Readings<T> {
    /// Whether this is the text that was read.
    pub(super) fn is_of(&self, file: &File) -> bool {
        self.of(file, digest(file)).is_some()
    }

    /// Of what could not be read whole nothing is known: it is looked at anew each time.
    fn of(&self, file: &File, text: Digest) -> Option<&Reading<T>> {
        let reading = self.0.get(&file.path)?;
        (file.trouble.is_none() && reading.text == text).then_some(reading)
    }
}

fn digest(file: &File) -> Digest {
    Digest::of(file.text.as_bytes())
}

/// A load on its way.
#[derive(Debug)]
pub(super) struct Reader<'a, T> {
    before: &'a Readings<T>,
    now: Readings<T>,
    /// How many files were parsed.
    parsed: usize,
}

impl<'a, T> Reader<'a, T> {
    /// What came of a text `before` comes of it now too.
    pub(super) fn new(before: &'a Readings<T>) -> Self {
        Self {
            before,
            now: Readings::default(),
            parsed: 0,
        }
    }

    /// What comes of the file: `load` parses it where its text is new, or what it gave is no longer `valid` beside the
    /// other definitions.
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
        let reading = Reading {
            text,
            name: loaded.name.clone(),
            named_at: loaded.named_at,
            value: loaded.value.clone(),
            findings: loaded.findings.clone(),
        };
        self.now.0.insert(loaded.file.path.clone(), reading);
        loaded
    }

    /// What came of all files, and how many of them were parsed.
    pub(super) fn finish(self) -> (Readings<T>, usize) {
        (self.now, self.parsed)
    }
}
