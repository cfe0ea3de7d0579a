//! Values as the database stores them.

use midex_domain::{Digest, Sequence};

/// A number. One that is too large becomes the largest, which no row has.
pub(crate) fn to_int8(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// A stored number, which is never negative.
pub(crate) fn from_int8(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// The key of a row.
pub(crate) fn to_stored_key(key: Sequence) -> i64 {
    to_int8(key.0)
}

pub(crate) fn from_stored_key(key: i64) -> Sequence {
    Sequence(from_int8(key))
}

/// Digests as a column of `bytea`.
pub(crate) fn digest_column<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Vec<&'a [u8]> {
    digests.into_iter().map(|digest| digest.as_bytes().as_slice()).collect()
}
