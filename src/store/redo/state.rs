//! What the data file says of its log.

use redb::{ReadTransaction, ReadableTable, WriteTransaction};

use crate::{
    error::Result,
    store::{
        batch::{FORMAT, FORMAT_KEY, META},
        fault::fault,
        record::damaged,
    },
};

/// The entry of `meta.v1` with the id of the log that follows, of the one that was folded last, each of zeros where there is
/// none, and how many bytes the log has at least, `u64` little-endian.
const LOG_KEY: &str = "redo";

/// What a data file is that is not whole without its log: a midex that knows of no logs refuses it.
pub(in crate::store) const FORMAT_WITH_LOG: &str = "midex-1 with a log";

/// What a log is known by. It takes another at each fold, so a data file says of which moment the log is that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogId([u8; 16]);

impl LogId {
    /// One that no log ever had.
    pub(super) fn random() -> Self {
        Self(rand::random())
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    fn known(bytes: &[u8; 16]) -> Option<Self> {
        (*bytes != [0; 16]).then_some(Self(*bytes))
    }
}

/// A log that holds what the data file does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Follows {
    pub(super) id: LogId,
    /// Its length, at least.
    pub(super) bytes: u64,
}

/// What the data file says of its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogState {
    /// It is whole only with this log.
    pub(super) follows: Option<Follows>,
    /// It holds everything of this one.
    pub(super) folded: Option<LogId>,
}

impl LogState {
    /// What the data file says.
    pub(super) fn read(transaction: &ReadTransaction) -> Result<Self> {
        let meta = transaction.open_table(META).map_err(fault)?;
        let said = meta.get(LOG_KEY).map_err(fault)?;
        said.map_or(Ok(Self::default()), |said| Self::decode(said.value()))
    }

    fn decode(said: &[u8]) -> Result<Self> {
        let split = || {
            let (follows, rest) = said.split_first_chunk()?;
            let (folded, rest) = rest.split_first_chunk()?;
            let bytes = u64::from_le_bytes(rest.try_into().ok()?);
            let follows = LogId::known(follows).map(|id| Follows { id, bytes });
            let folded = LogId::known(folded);
            Some(Self { follows, folded })
        };
        split().ok_or_else(|| damaged("what it says of its log cannot be read"))
    }

    fn encode(self) -> Vec<u8> {
        let follows = self.follows.map(|follows| follows.id.0);
        let folded = self.folded.map(|folded| folded.0);
        let bytes = self.follows.map_or(0, |follows| follows.bytes);
        let ids = [follows, folded].map(Option::unwrap_or_default);
        [ids.as_flattened(), &bytes.to_le_bytes()].concat()
    }
}

/// Says in `transaction` that it holds everything of the log before, and which log follows it.
pub(in crate::store) fn say(
    transaction: &WriteTransaction,
    follows: Option<Follows>,
) -> Result<()> {
    let mut meta = transaction.open_table(META).map_err(fault)?;
    let before = meta.get(LOG_KEY).map_err(fault)?;
    let before = before.map(|said| LogState::decode(said.value()));
    let before = before.transpose()?.unwrap_or_default();
    let state = LogState {
        follows,
        folded: before.follows.map(|log| log.id).or(before.folded),
    };
    let format = follows.map_or(FORMAT, |_| FORMAT_WITH_LOG);
    meta.insert(LOG_KEY, state.encode().as_slice())
        .map_err(fault)?;
    meta.insert(FORMAT_KEY, format.as_bytes()).map_err(fault)?;
    Ok(())
}
