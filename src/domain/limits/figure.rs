//! A limit as it is shown: its name, its figure, the unit of that, and what it bounds.

use std::time::Duration;

/// The figure of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// So many of what the limit counts.
    Number(u64),
    /// So long.
    Time(Duration),
}

impl From<u32> for Figure {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Figure {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Figure {
    fn from(number: usize) -> Self {
        Self::Number(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for Figure {
    fn from(time: Duration) -> Self {
        Self::Time(time)
    }
}

/// A limit as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The name of its constant in this module.
    pub name: &'static str,
    /// Its figure.
    pub figure: Figure,
    pub(super) documentation: &'static str,
}

impl Limit {
    /// What its figure counts. The constant's name says it; for a time its type does.
    pub fn unit(&self) -> &'static str {
        if matches!(self.figure, Figure::Time(_)) {
            return "milliseconds";
        }
        let units =
            [("BYTES", "bytes"), ("CHARS", "characters"), ("DEPTH", "levels"), ("S", "seconds")];
        let has_word = |word: &str| self.name.split('_').any(|part| part == word);
        let unit = units.iter().find(|(word, _)| has_word(word));
        unit.map_or("count", |(_, unit)| unit)
    }

    /// What it bounds: the constant's documentation, without the marks of its links and code.
    pub fn description(&self) -> String {
        let plain = self.documentation.replace("[`", "").replace("`]", "");
        plain.replace('`', "").trim().to_owned()
    }
}
