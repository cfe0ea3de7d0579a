//! The table of counts: written beside this file, read again, compared.

use std::{fmt, fs};

use super::Result;

/// Where it is committed.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../instructions/counts.txt");
const ABOUT: &str = "# Instructions of one call on each hot path. `cargo bench -p midex-bench --bench instructions` holds a build against them, within 5 %,
# where these are the same:
";
/// By how many hundredths a count may differ.
const DIFFERS_MAX: u64 = 5;
/// Counts by the names of their paths, in order.
#[derive(Debug)]
pub(crate) struct Table {
    toolchain: String,
    counts: Vec<(String, u64)>,
}

impl Table {
    /// One without counts, of this toolchain.
    pub(crate) const fn new(toolchain: String) -> Self {
        Self { toolchain, counts: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &str, count: u64) {
        self.counts.push((name.into(), count));
    }

    fn get(&self, name: &str) -> Option<u64> {
        let found = self.counts.iter().find(|(of, _)| of == name);
        found.map(|(_, count)| *count)
    }

    /// Commits it.
    pub(crate) fn write(&self) -> Result<()> {
        print!("{self}");
        fs::write(FILE, self.to_string())
            .map_err(|error| format!("`{FILE}` cannot be written: {error}"))
    }

    fn committed() -> Result<Self> {
        let text = fs::read_to_string(FILE);
        let text = text.map_err(|error| format!("`{FILE}` cannot be read: {error}"))?;
        Self::parse(&text)
            .ok_or_else(|| format!("`{FILE}` is no table of counts: renew it with `--write`"))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(ABOUT)?.lines();
        let mut table = Self::new(lines.next()?.strip_prefix("# ")?.into());
        for line in lines {
            let (count, name) = line.trim_start().split_once(' ')?;
            table.add(name.trim_start(), count.parse().ok()?);
        }
        Some(table)
    }

    /// Says how it differs from the committed table.
    ///
    /// # Errors
    /// Where one of the same toolchain has other paths, or a count that differs by more than it may.
    pub(crate) fn hold_against_the_committed(&self) -> Result<()> {
        let committed = Self::committed()?;
        for (name, count) in &self.counts {
            let before = committed.get(name);
            let change = before.map_or_else(|| "new".into(), |before| change(before, *count));
            println!("{count:>10} {change:>8}  {name}");
        }
        if committed.toolchain != self.toolchain {
            println!(
                "Nothing was compared: these counts are of {}, the committed ones of {}.",
                self.toolchain, committed.toolchain
            );
            return Ok(());
        }
        match self.differences(&committed)[..] {
            [] => Ok(()),
            ref names => Err(format!(
                "more than {DIFFERS_MAX} % away from the committed table, or only in one of both: {}; where that is meant, \
                 renew the table: `cargo bench -p midex-bench --bench instructions -- --write`",
                names.join(", ")
            )),
        }
    }

    fn differences<'a>(&'a self, committed: &'a Self) -> Vec<&'a str> {
        let names = |table: &'a Self| table.counts.iter().map(|(name, _)| name.as_str());
        let gone = names(committed).filter(|name| self.get(name).is_none());
        let differs = |name: &&str| match (committed.get(name), self.get(name)) {
            (Some(before), Some(now)) => before.abs_diff(now) * 100 > before * DIFFERS_MAX,
            _ => true,
        };
        names(self).filter(differs).chain(gone).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn change(before: u64, now: u64) -> String {
    format!("{:+.1} %", (now as f64 / before as f64 - 1.0) * 100.0)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{ABOUT}# {}", self.toolchain)?;
        for (name, count) in &self.counts {
            writeln!(f, "{count:>10}  {name}")?;
        }
        Ok(())
    }
}
