//! Toolsets: the parts of the tool table that a server can be told to offer.

use std::fmt;

/// A set of tools that are used together. Which tool is in which is said by the table of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolset {
    /// What leads through workflows.
    Run,
    /// What writes workflows.
    Author,
    /// What changes the state of executions from outside.
    Operate,
    /// What finds and calls the operations of catalogs.
    Catalog,
}

impl Toolset {
    /// All of them, in the order in which they are named.
    pub const ALL: [Self; 4] = [Self::Run, Self::Author, Self::Operate, Self::Catalog];

    /// Its name.
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

/// Some of the toolsets.
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

    /// What only people may do: in no set that a server can be told to offer, but offered to midex's own commands.
    pub(crate) const PEOPLE: Self = Self(1 << 7);

    /// That one alone.
    pub const fn of(set: Toolset) -> Self {
        Self(set.bit())
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether one of them is one of those.
    pub fn meet(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Reads names with commas between them.
    ///
    /// # Errors
    /// Words that name what is no toolset, and those that there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut named = text.split(',').map(|name| one(name.trim()));
        named.try_fold(Self(0), |sets, set| Ok(Self(sets.0 | set?.bit())))
    }

    /// Those of these names that there are.
    pub(crate) fn known<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let sets = names.filter_map(|name| one(name).ok());
        sets.fold(Self(0), |sets, set| Self(sets.0 | set.bit()))
    }

    /// The names of the sets, in the order of [`Toolset::ALL`].
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let sets = Toolset::ALL
            .into_iter()
            .filter(move |set| self.contains(*set));
        sets.map(Toolset::as_str)
    }

    /// Whether `set` is one of them.
    pub fn contains(self, set: Toolset) -> bool {
        self.0 & set.bit() != 0
    }
}

fn one(name: &str) -> Result<Toolset, String> {
    let found = Toolset::ALL.into_iter().find(|set| set.as_str() == name);
    found.ok_or_else(|| {
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
    fn sets_are_read_as_they_are_written() {
        for (text, read) in [
            ("run", "run"),
            ("operate,run", "run,operate"),
            ("run, catalog,run", "run,catalog"),
            ("run,author,operate,catalog", "run,author,operate,catalog"),
        ] {
            assert_eq!(
                Toolsets::parse(text)
                    .map(|sets| sets.to_string())
                    .as_deref(),
                Ok(read)
            );
        }
        assert_eq!(
            Toolsets::default().to_string(),
            "run,author,operate,catalog"
        );
        for bad in ["", "all", "run,", "Run", "run;operate"] {
            let error = Toolsets::parse(bad).expect_err(bad);
            assert!(
                error.ends_with("there are run, author, operate, catalog"),
                "{error}"
            );
        }
    }
}
