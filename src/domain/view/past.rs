//! A point in the past of an execution.

use std::{fmt, str::FromStr};

use crate::{clock::Timestamp, event::Row};

/// A point in the past of an execution: written as the number of a revision, or as an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastPoint {
    /// After the transition with this number.
    Revision(u64),
    /// After the last transition until this instant.
    Time(Timestamp),
}

impl PastPoint {
    /// How a point is written, for errors.
    pub const EXPECTED: &str = "the number of a revision, or an instant like 2030-01-31T09:00:00Z";

    /// Whether the transition of this row lies before the point, or at it.
    pub fn includes(self, row: &Row) -> bool {
        match self {
            Self::Revision(revision) => row.revision <= revision,
            Self::Time(time) => row.at <= time,
        }
    }
}

impl FromStr for PastPoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let revision = text.parse().map(Self::Revision).ok();
        // `midex show` prints times as `2030-01-31 10:00:00 +01:00`.
        let time = || text.replace(" +", "+").replace(" -", "-").parse().map(Self::Time);
        revision.or_else(|| time().ok()).ok_or(Self::EXPECTED)
    }
}

impl fmt::Display for PastPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revision(revision) => write!(f, "{revision}"),
            Self::Time(time) => write!(f, "{time}"),
        }
    }
}
