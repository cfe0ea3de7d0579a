//! Time, randomness and ids are injected: nothing else in midex may ask the machine for them.

use std::{fmt, str::FromStr, sync::Mutex, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// An instant in milliseconds since 1970-01-01 UTC. Shown as ISO 8601 with milliseconds and `Z` (S0).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `milliseconds` after 1970-01-01 UTC.
    pub const fn from_milliseconds(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn milliseconds(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero where `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The instant `duration` later; the end of time where there is none.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(milliseconds))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse::<jiff::Timestamp>()
            .map(|time| Self(time.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return i64::deserialize(deserializer).map(Self);
        }
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where the time comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present instant, to the millisecond.
    fn now(&self) -> Timestamp;
}

/// The system's clock. It survives suspend, and may step back when the machine corrects it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where midex asks the machine for the time"
    )]
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_millisecond())
    }
}

/// A clock that follows tokio's, so that a test under paused time moves hours in an instant.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now. Must be made inside a tokio runtime.
    #[expect(
        clippy::disallowed_methods,
        reason = "tokio's clock is what this clock follows"
    )]
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self {
            epoch,
            start: tokio::time::Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.epoch.after(self.start.elapsed())
    }
}

/// Where randomness comes from: nonces, execution ids, correlation ids.
pub trait IdSource: fmt::Debug + Send + Sync {
    /// 128 bits that nobody can foretell (in production).
    fn random(&self) -> u128;
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl IdSource for SystemIds {
    fn random(&self) -> u128 {
        rand::random()
    }
}

/// Repeatable ids for tests: the same seed gives the same sequence.
#[derive(Debug)]
pub struct SeededIds(Mutex<(u64, u64)>);

impl SeededIds {
    /// A sequence that depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new((seed, 0)))
    }
}

impl IdSource for SeededIds {
    fn random(&self) -> u128 {
        let mut state = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.1 += 1;
        let hash = Sha256::digest([state.0.to_le_bytes(), state.1.to_le_bytes()].concat());
        hash.iter()
            .take(16)
            .fold(0, |value, byte| value << 8 | u128::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_one_format_with_milliseconds() {
        let time = Timestamp::from_milliseconds(1_736_935_200_000);
        assert_eq!(time.to_string(), "2025-01-15T10:00:00.000Z");
        assert_eq!(
            time.to_string().parse::<Timestamp>().expect("own format"),
            time
        );
    }

    #[test]
    fn seeded_ids_repeat_and_differ() {
        let (one, two) = (SeededIds::new(7), SeededIds::new(7));
        let first: Vec<_> = (0..4).map(|_| one.random()).collect();
        let second: Vec<_> = (0..4).map(|_| two.random()).collect();
        assert_eq!(first, second);
        assert_ne!(first[0], first[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = TokioClock::starting_at(Timestamp::from_milliseconds(1_000));
        tokio::time::advance(Duration::from_secs(25 * 3600)).await;
        assert_eq!(
            clock.now().since(Timestamp::from_milliseconds(1_000)),
            Duration::from_secs(25 * 3600)
        );
    }
}
