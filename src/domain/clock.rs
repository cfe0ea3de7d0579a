//! Clocks and sources of ids. They are injected: no other module may ask the machine for time or randomness.

use std::{
    fmt,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::limits;

/// An instant in milliseconds since 1970-01-01 UTC. Shown as ISO 8601 with milliseconds and `Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Later than any other instant.
    pub const MAX: Self = Self(i64::MAX);

    /// The instant `milliseconds` after 1970-01-01 UTC.
    pub const fn from_milliseconds(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn milliseconds(self) -> i64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The instant `duration` earlier, at most the first one that there is.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(milliseconds))
    }

    /// The instant `duration` later, at most the last one that there is.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(milliseconds))
    }

    /// The instant as a part of a file name. The order of such names is that of the instants.
    pub fn to_file_name(self) -> String {
        self.to_string().replace(':', "")
    }

    /// Reads what [`Timestamp::to_file_name`] wrote.
    pub fn parse_file_name(text: &str) -> Option<Self> {
        let (date, time) = text.split_at_checked("2026-01-01T".len())?;
        let (hours, rest) = time.split_at_checked(2)?;
        let (minutes, seconds) = rest.split_at_checked(2)?;
        let instant: Self = format!("{date}{hours}:{minutes}:{seconds}").parse().ok()?;
        (instant.to_file_name() == text).then_some(instant)
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
        text.parse::<jiff::Timestamp>().map(|time| Self(time.as_millisecond()))
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

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present instant, to the millisecond.
    fn now(&self) -> Timestamp;

    /// Tells the clock an instant that was seen before, by an earlier process for example. A clock that never steps back
    /// returns no earlier instant from now on.
    fn advance_to(&self, recorded: Timestamp) {
        let _ = recorded;
    }
}

/// The system's clock. It counts the time of suspend, and may step back when it is corrected, so servers use a
/// [`SteadyClock`].
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

/// A wall clock that never steps back, so that setting the machine's clock back does not prolong timers, deadlines,
/// retries or tokens. A step forward is followed, because the machine was suspended or its clock was corrected. After a
/// step back, the time continues from the latest instant with the monotonic clock.
///
/// There is one exception. A step forward of more than [`limits::CLOCK_JUMP_MAX`] may come from a clock that is wrong
/// for a moment. It is logged. Once the wall clock is back behind it, and not before the time at which the step began,
/// the time follows the wall clock again.
pub struct SteadyClock {
    wall: Box<dyn Clock>,
    /// The monotonic clock, which cannot be set.
    elapsed: Box<dyn Fn() -> Duration + Send + Sync>,
    anchors: Mutex<ClockAnchors>,
}

/// The state from which a [`SteadyClock`] computes the time.
#[derive(Debug, Default)]
struct ClockAnchors {
    /// The latest instant that was taken from the wall clock.
    latest: Option<ClockAnchor>,
    /// The reading before the first step that may come from a wrong clock.
    trusted: Option<ClockAnchor>,
}

/// An instant with the reading of the monotonic clock at that time.
#[derive(Clone, Copy, Debug)]
struct ClockAnchor(Timestamp, Duration);

impl ClockAnchor {
    fn timestamp_at(self, elapsed: Duration) -> Timestamp {
        self.0.plus(elapsed.saturating_sub(self.1))
    }
}

impl ClockAnchors {
    /// The time if the wall clock reads `wall`.
    fn follow_wall_clock(&mut self, wall: Timestamp, elapsed: Duration) -> Timestamp {
        let Some(latest) = self.latest else {
            self.latest = Some(ClockAnchor(wall, elapsed));
            return wall;
        };
        let steady = latest.timestamp_at(elapsed);
        let (ahead, behind) = (wall.since(steady), steady.since(wall));
        if ahead > limits::CLOCK_JUMP_MAX {
            tracing::warn!(?ahead, %wall, "the clock of the machine jumped forward: time follows it, and goes back with it if it is set right");
            self.trusted.get_or_insert(latest);
        } else if behind > limits::CLOCK_JUMP_MAX
            && let Some(trusted) = self.trusted
            && trusted.timestamp_at(elapsed).since(wall) <= limits::CLOCK_JUMP_MAX
        {
            tracing::warn!(?behind, %wall, "the clock of the machine was wrong and is right again: time goes back with it");
            let corrected = wall.max(trusted.timestamp_at(elapsed));
            *self = Self { latest: Some(ClockAnchor(corrected, elapsed)), trusted: None };
            return corrected;
        } else if ahead.is_zero() {
            return steady;
        }
        self.latest = Some(ClockAnchor(wall, elapsed));
        wall
    }

    /// Counts on from `seen`, the time of the last record of an earlier process, unless the clock of that process was wrong.
    fn resume_from(&mut self, seen: Timestamp, wall: Timestamp, elapsed: Duration) {
        let now = self.follow_wall_clock(wall, elapsed);
        if now.since(seen) > limits::CLOCK_JUMP_MAX {
            self.trusted.get_or_insert(ClockAnchor(seen, elapsed));
        } else if seen.since(now) <= limits::CLOCK_JUMP_MAX {
            self.follow_wall_clock(seen, elapsed);
        } else {
            tracing::warn!(%seen, %now, "the store has times that are far ahead of the machine's clock, which was wrong then or is now: time follows the clock");
        }
    }
}

impl SteadyClock {
    /// A clock that follows `wall` and, while that is behind, the monotonic time `elapsed`.
    pub fn from_clocks(
        wall: impl Clock + 'static,
        elapsed: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Box::new(wall), elapsed: Box::new(elapsed), anchors: Mutex::default() }
    }

    /// Both clocks are read under the lock, so that no caller gets an instant before one that another caller got.
    fn with_both_clocks<T>(
        &self,
        update: impl FnOnce(&mut ClockAnchors, Timestamp, Duration) -> T,
    ) -> T {
        let mut anchors = self.anchors.lock().unwrap_or_else(PoisonError::into_inner);
        update(&mut anchors, self.wall.now(), (self.elapsed)())
    }
}

impl Default for SteadyClock {
    /// The machine's clocks.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where midex asks the machine how much time has passed"
    )]
    fn default() -> Self {
        let start = Instant::now();
        Self::from_clocks(SystemClock, move || start.elapsed())
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.with_both_clocks(ClockAnchors::follow_wall_clock)
    }

    fn advance_to(&self, recorded: Timestamp) {
        self.with_both_clocks(|anchors, wall, passed| anchors.resume_from(recorded, wall, passed));
    }
}

impl fmt::Debug for SteadyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteadyClock")
            .field("wall", &self.wall)
            .field("anchors", &self.anchors)
            .finish_non_exhaustive()
    }
}

/// A source of randomness for nonces, execution ids and correlation ids.
pub trait IdSource: fmt::Debug + Send + Sync {
    /// 128 random bits, unpredictable in production.
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
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        let hash = Sha256::digest([state.0.to_le_bytes(), state.1.to_le_bytes()].concat());
        hash.iter().take(16).fold(0, |value, byte| value << 8 | u128::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn timestamps_have_one_format_with_milliseconds() {
        let time = Timestamp::from_milliseconds(1_736_935_200_000);
        assert_eq!(time.to_string(), "2025-01-15T10:00:00.000Z");
        assert_eq!(time.to_string().parse::<Timestamp>().expect("own format"), time);
    }

    /// A machine's wall clock and monotonic clock.
    #[derive(Clone, Debug, Default)]
    struct TestMachine(Arc<Mutex<(i64, u64)>>);

    impl TestMachine {
        fn steady_clock(&self) -> SteadyClock {
            let machine = self.clone();
            let passed = move || Duration::from_millis(machine.0.lock().unwrap().1);
            SteadyClock::from_clocks(self.clone(), passed)
        }

        /// Lets this much time pass on both clocks.
        fn advance_both_clocks(&self, milliseconds: u32) {
            let mut machine = self.0.lock().unwrap();
            machine.0 += i64::from(milliseconds);
            machine.1 += u64::from(milliseconds);
        }

        /// Sets the wall clock, as a user or a suspend of the machine does.
        fn adjust_wall_clock(&self, milliseconds: i64) {
            self.0.lock().unwrap().0 += milliseconds;
        }
    }

    impl Clock for TestMachine {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.lock().unwrap().0)
        }
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on_from_where_it_was() {
        let machine = TestMachine::default();
        let clock = machine.steady_clock();
        machine.adjust_wall_clock(1_000_000);
        assert_eq!(clock.now().milliseconds(), 1_000_000);
        machine.advance_both_clocks(10);
        machine.adjust_wall_clock(-500_000);
        machine.advance_both_clocks(20);
        assert_eq!(clock.now().milliseconds(), 1_000_030, "what was seen last, and what passed");
        machine.advance_both_clocks(70);
        machine.adjust_wall_clock(-400_000);
        machine.adjust_wall_clock(-50_000);
        assert_eq!(clock.now().milliseconds(), 1_000_100);
        machine.adjust_wall_clock(950_000 - 100);
        machine.advance_both_clocks(7);
        assert_eq!(clock.now().milliseconds(), 1_000_107, "not ahead yet");
        machine.adjust_wall_clock(3_600_000);
        assert_eq!(clock.now().milliseconds(), 4_600_007, "forward it is followed");
        assert_eq!(clock.now(), machine.now());
    }

    #[test]
    fn a_clock_that_was_wrong_for_a_moment_is_followed_again_once_it_is_right() {
        const FAR_FUTURE_MS: i64 = 250 * 365 * 86_400_000;
        let machine = TestMachine::default();
        machine.adjust_wall_clock(1_700_000_000_000);
        let right = machine.now();
        let was_wrong = |clock: &SteadyClock, passes| {
            machine.adjust_wall_clock(FAR_FUTURE_MS);
            assert_eq!(clock.now(), machine.now(), "forward it is followed");
            machine.advance_both_clocks(passes);
            machine.adjust_wall_clock(-FAR_FUTURE_MS);
            clock.now()
        };
        let clock = machine.steady_clock();
        clock.now();
        assert_eq!(was_wrong(&clock, 10), machine.now());
        // The same from the start on, if an earlier process used the store.
        let clock = machine.steady_clock();
        machine.adjust_wall_clock(FAR_FUTURE_MS);
        clock.advance_to(Timestamp(right.0 - 30 * 86_400_000));
        machine.adjust_wall_clock(-FAR_FUTURE_MS);
        assert_eq!(was_wrong(&clock, 10), machine.now());
        // An earlier process stored a time from a wrong clock.
        let clock = machine.steady_clock();
        clock.advance_to(Timestamp(right.0 + FAR_FUTURE_MS));
        assert_eq!(clock.now(), machine.now());
    }

    #[test]
    fn steady_clock_resumes_from_a_recorded_time() {
        let machine = TestMachine::default();
        let clock = machine.steady_clock();
        machine.adjust_wall_clock(1_000);
        clock.advance_to(Timestamp(5_000));
        assert_eq!(clock.now().milliseconds(), 5_000);
        machine.advance_both_clocks(10);
        clock.advance_to(Timestamp(2_000));
        assert_eq!(clock.now().milliseconds(), 5_010);
    }

    proptest::proptest! {
        #[test]
        fn no_time_is_lost_whatever_the_wall_clock_does(
            moves in proptest::collection::vec((0_u32..5_000, -3_000_000_i64..3_000_000), 1..50)
        ) {
            let machine = TestMachine::default();
            let clock = machine.steady_clock();
            let mut before = clock.now();
            for (passes, steps) in moves {
                machine.advance_both_clocks(passes);
                machine.adjust_wall_clock(steps);
                let now = clock.now();
                let lasted = now.since(before);
                proptest::prop_assert!(lasted >= Duration::from_millis(passes.into()));
                proptest::prop_assert!(now >= machine.now());
                before = now;
            }
        }
    }

    #[test]
    fn seeded_ids_repeat_and_differ() {
        let (one, two) = (SeededIds::new(7), SeededIds::new(7));
        let first: Vec<_> = (0..4).map(|_| one.random()).collect();
        let second: Vec<_> = (0..4).map(|_| two.random()).collect();
        assert_eq!(first, second);
        assert_ne!(first[0], first[1]);
    }
}
