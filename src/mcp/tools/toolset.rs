//! Toolsets: groups of tools that a server can be configured to offer.

use std::fmt;

/// A group of tools that are used together. The tool table assigns tools to toolsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolset {
    /// Tools to run workflows.
    Run,
    /// Tools to write workflows.
    Author,
    /// Tools to change the state of executions from outside.
    Operate,
    /// Tools to find and call the operations of catalogs.
    Catalog,
}

impl Toolset {
    /// All toolsets, in listing order.
    pub const ALL: [Self; 4] = [Self::Run, Self::Author, Self::Operate, Self::Catalog];

    /// The name of the toolset.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Author => "author",
            Self::Operate => "operate",
            Self::Catalog => "catalog",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of toolsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toolsets(u8);

impl Default for Toolsets {
    fn default() -> Self {
        Self::ALL
    }
}

impl Toolsets {
    /// Every toolset.
    pub const ALL: Self = Self(
        Toolset::Run.bit()
            | Toolset::Author.bit()
            | Toolset::Operate.bit()
            | Toolset::Catalog.bit(),
    );

    /// Tools for people only. Not part of any configurable toolset, but offered to midex's own commands.
    pub(crate) const PEOPLE: Self = Self(1 << 7);

    /// Only this toolset.
    pub const fn from_toolset(set: Toolset) -> Self {
        Self(set.bit())
    }

    /// The union of both sets.
    #[must_use]
    pub const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether the sets have a toolset in common.
    pub fn intersects(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Parses names that are separated by commas.
    ///
    /// # Errors
    /// A message that names the unknown toolset and lists the known ones.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parsed_sets = text.split(',').map(|name| parse_toolset(name.trim()));
        parsed_sets.try_fold(Self(0), |sets, set| Ok(Self(sets.0 | set?.bit())))
    }

    /// The toolsets of these names. Unknown names are ignored.
    pub(crate) fn from_known_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let sets = names.filter_map(|name| parse_toolset(name).ok());
        sets.fold(Self(0), |sets, set| Self(sets.0 | set.bit()))
    }

    /// The names of the sets, in the order of [`Toolset::ALL`].
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let sets = Toolset::ALL.into_iter().filter(move |set| self.contains(*set));
        sets.map(Toolset::as_str)
    }

    /// Whether `set` is in the set.
    pub fn contains(self, set: Toolset) -> bool {
        self.0 & set.bit() != 0
    }
}

fn parse_toolset(name: &str) -> Result<Toolset, String> {
    let toolset = Toolset::ALL.into_iter().find(|set| set.as_str() == name);
    toolset.ok_or_else(|| {
        let names = Toolset::ALL.map(Toolset::as_str).join(", ");
        format!("there is no toolset `{name}`; there are {names}")
    })
}

impl fmt::Display for Toolsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolsets_round_trip() {
        for (text, read) in [
            ("run", "run"),
            ("operate,run", "run,operate"),
            ("run, catalog,run", "run,catalog"),
            ("run,author,operate,catalog", "run,author,operate,catalog"),
        ] {
            assert_eq!(Toolsets::parse(text).map(|sets| sets.to_string()).as_deref(), Ok(read));
        }
        assert_eq!(Toolsets::default().to_string(), "run,author,operate,catalog");
        for bad in ["", "all", "run,", "Run", "run;operate"] {
            let error = Toolsets::parse(bad).expect_err(bad);
            assert!(error.ends_with("there are run, author, operate, catalog"), "{error}");
        }
    }
}
