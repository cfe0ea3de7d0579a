//! Shards, and the keys of rows.

use midex_domain::{Digest, ExecutionId, Sequence, clock::Timestamp, limits};

/// The number of shards. It never changes: the shard of an execution is computed from its id.
pub(crate) const SHARD_COUNT: u16 = 256;
/// The bits of a sequence that hold the shard.
const SHARD_BITS: u32 = 8;
/// Keys that one server can give in a millisecond without running ahead of its clock.
const TICKS_PER_MILLISECOND: u64 = 16;
/// The start of the count of ticks: 2020-01-01. Sequences stay below 2^53 until 2089, so that JSON numbers hold them.
const FIRST_MILLISECOND: i64 = 1_577_836_800_000;

/// How far keys may be committed out of order: a minute of them, longer than a transaction plus the difference of two clocks.
pub(crate) const UNSETTLED_KEYS: u64 = keys_of(60);

/// As many keys as the clocks of two servers may be apart.
pub(crate) const KEYS_BETWEEN_CLOCKS: u64 = keys_of(limits::CLOCK_DIFFERENCE_MAX.as_secs());

/// How far keys grow in so many seconds.
const fn keys_of(seconds: u64) -> u64 {
    (seconds * 1_000 * TICKS_PER_MILLISECOND) << SHARD_BITS
}

/// A part of all executions. One server owns it at a time. What belongs to no execution is in the default one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shard(u8);

impl Shard {
    /// The shard of the execution with this id.
    pub(crate) fn of_execution(id: &ExecutionId) -> Self {
        Self(Digest::compute(id.as_str().as_bytes()).as_bytes()[0])
    }

    pub(crate) fn from_number(number: i32) -> Option<Self> {
        u8::try_from(number).ok().map(Self)
    }

    pub(crate) fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// The number of the writer's lane that has the shard.
    pub(crate) fn lane(self) -> usize {
        usize::from(self.0) % limits::DATABASE_LANES
    }
}

/// Gives the keys of rows and refusals. A key is the time, then the shard: the keys of one server grow, and those of several
/// servers are in the order of their clocks.
#[derive(Debug, Default)]
pub(crate) struct SequenceClock {
    last_tick: u64,
}

impl SequenceClock {
    /// Lets all further keys be larger than this one.
    pub(crate) fn raise_above(&mut self, key: u64) {
        self.last_tick = self.last_tick.max(key >> SHARD_BITS);
    }

    /// The next key of a row of the shard.
    pub(crate) fn next_key(&mut self, now: Timestamp, shard: Shard) -> Sequence {
        let since = now.milliseconds().saturating_sub(FIRST_MILLISECOND);
        let tick = u64::try_from(since).unwrap_or_default() * TICKS_PER_MILLISECOND;
        self.last_tick = tick.max(self.last_tick + 1);
        Sequence(self.last_tick << SHARD_BITS | u64::from(shard.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_grow_and_hold_their_shard() {
        let now = Timestamp::from_milliseconds(FIRST_MILLISECOND + 5);
        let mut clock = SequenceClock::default();
        let keys: Vec<_> =
            (0..=u8::MAX).map(Shard).map(|shard| clock.next_key(now, shard).0).collect();
        assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
        assert!(keys.iter().zip(0..).all(|(key, shard)| key & 255 == shard), "{keys:?}");
        // A clock that was set back changes nothing.
        let mut later = SequenceClock::default();
        later.raise_above(keys[255]);
        assert!(later.next_key(Timestamp::from_milliseconds(0), Shard(0)).0 > keys[255]);
        let far: Timestamp = "2089-01-01T00:00:00Z".parse().expect("a time");
        assert!(SequenceClock::default().next_key(far, Shard(255)).0 < 1 << 53);
    }
}
