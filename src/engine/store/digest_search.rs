//! Which rows name a content. A content has no count of its uses, so a purge, which is rare, searches the journal: a row
//! names a content if its record contains the 32 bytes of the digest.

use std::collections::BTreeSet;

use super::record;
use midex_domain::{Digest, Row, error::Result};

/// A search for digests in records.
#[derive(Debug)]
pub struct DigestSearch<'a> {
    digests: &'a BTreeSet<Digest>,
    /// Whether a digest begins with these two bytes: few places of a record have to be compared with the digests.
    prefixes: Vec<bool>,
}

impl<'a> DigestSearch<'a> {
    /// A search for these digests.
    pub fn new(digests: &'a BTreeSet<Digest>) -> Self {
        let mut prefixes = vec![false; 1 << 16];
        for digest in digests {
            prefixes[prefix_of(digest.as_bytes())] = true;
        }
        Self { digests, prefixes }
    }

    /// The digests that the bytes contain, possibly more than once.
    pub fn find_in<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Digest> + 'b {
        bytes
            .windows(32)
            .filter_map(|window| {
                let window: &[u8; 32] = window.try_into().ok()?;
                self.prefixes[prefix_of(window)].then(|| Digest::from_bytes(*window))
            })
            .filter(|digest| self.digests.contains(digest))
    }
}

fn prefix_of(bytes: &[u8; 32]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Those of the contents that these rows name: what [`Store::find_holders`](super::Store::find_holders) looks for.
///
/// # Errors
/// `INTERNAL` where a row cannot be encoded.
pub fn find_named_contents<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    contents: &BTreeSet<Digest>,
) -> Result<BTreeSet<Digest>> {
    let mut named = BTreeSet::new();
    if contents.is_empty() {
        return Ok(named);
    }
    let search = DigestSearch::new(contents);
    for row in rows {
        named.extend(search.find_in(&record::encode_row(row)?));
    }
    Ok(named)
}
