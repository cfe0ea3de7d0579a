//! The bytes on the disk. A change here is a change of the format: after the first release it needs a new table
//! version, and a way to read the old one; before it the new bytes are copied from what the failed test prints.

use std::{fmt, path::Path};

use midex_domain::{
    Digest, Event, ExecutionId, Outcome, PauseReason, State, WaitCondition,
    clock::Timestamp,
    event::{BodyKind, Channel, OwnerEpoch, ReportedOutcome, SkipReason},
    execution::StepStatus,
    token::TokenGrant,
};
use midex_engine::store::{Options, RedbStore, Store};
use redb::{Database, Key, ReadableDatabase, ReadableTable as _, TableDefinition};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
    forward_to_deserialize_any,
};

use super::script::{Script, build_refusal};

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from_digit(digit.into(), 16).unwrap()).collect()
}

fn stored<K: Key + 'static>(path: &Path, table: &str, key: K::SelfType<'_>) -> String {
    let database = Database::open(path).unwrap();
    let transaction = database.begin_read().unwrap();
    let table = TableDefinition::<K, &[u8]>::new(table);
    let table = transaction.open_table(table).unwrap();
    hex(table.get(key).unwrap().unwrap().value())
}

#[tokio::test]
async fn the_bytes_of_a_record_do_not_change() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let mut tale = Script::new("one", 2);
    tale.commit_steps(&store, 2).await;
    store.note_refusal(build_refusal(3, Some(&tale.id)));
    store.close().await.unwrap();
    let path = directory.path().join("executions.redb");
    let meta = |key: &str| stored::<&str>(&path, "meta.v1", key);
    assert_eq!(meta("file_format"), hex(b"midex-1"));
    assert_eq!(super::index::index(directory.path()), ["one".to_owned()].into());
    let records = [
        stored::<&str>(&path, "executions.v1", "one"),
        stored::<u64>(&path, "journal.v1", 2),
        stored::<u64>(&path, "refusals.v1", 3),
    ];
    // A snapshot, a journal row and a refusal. `cargo insta accept`, or the lines marked `+`, make it the present format.
    insta::assert_snapshot!(records.join("\n"), @r"
    080200000000000000020000000000000001036f6e650474616c65ddc90ade507854328620c1e1976a51589ce941365c94c4b00b0f9310b20832ac00000780e69ad6a1828ed88a8ba0cb7615d41dfe8fe50d16cfa221cc0a5ddb82bdd40102d0afabfef962a0bfabfef962000002027330020100010001d0afabfef962010001a0bfabfef9620201814dd7b9784d57c15b9c2972e9b4fd6cd0afabfef9625b186d2a8da3b9cb705fdb8ed977d76592461c5713b81d6a22de4e6eb7796689012a70c38c66df66dda77ac0e3bee08ed75285929899c04c70e706f31d78b7719f00000000000000000000000000027331010100010001a0bfabfef9620201000c730b69905c5ef7a4ca5269f7236540a0bfabfef96200000000000000000000000000000000000000000002000000000000000000000000000000000000000000
    0101000000000000000300000000000000036f6e6502a0bfabfef9620203010273300001000106777269746572002a70c38c66df66dda77ac0e3bee08ed75285929899c04c70e706f31d78b7719f1201127b2273756d6d617279223a22646f6e65227d01814dd7b9784d57c15b9c2972e9b4fd6cd0afabfef9625b186d2a8da3b9cb705fdb8ed977d76592461c5713b81d6a22de4e6eb7796689e80702010273310001000106777269746572000c730b69905c5ef7a4ca5269f7236540a0bfabfef96200
    010e01036f6e65000d544f4b454e5f4558504952454409726566757365642033
    ");
}

/// Reads nothing, and answers the variants of the enum that it was asked for.
struct Variants;

#[derive(Debug, Default)]
struct Named(&'static [&'static str]);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Named {}

impl de::Error for Named {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::default()
    }
}

impl<'de> Deserializer<'de> for Variants {
    type Error = Named;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Named> {
        Err(Named::default())
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Named> {
        Err(Named(variants))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

fn variants<T: for<'de> Deserialize<'de>>() -> String {
    T::deserialize(Variants).err().unwrap().0.join(" ")
}

/// A record names a variant by its place: new ones are added at the end, and none ever goes.
#[test]
fn variants_keep_their_places() {
    assert_eq!(
        variants::<Event>(),
        "Created StateChanged VisitOpened VisitClosed OutputRefused TokenRenewed PauseAdded PauseLifted ReasonGiven \
         ArtifactStored StepDone StepSkipped StepsReset AttemptEnded WaitingChanged MemoryWritten InputsChanged SignalKept \
         SignalTaken FailureBegan FinalOutput TaskChanged GateAnswered ArtifactNamed \
         StepFailed CompensationKept CameLate EndingBegan CompensationsGivenUp \
         OptionsOffered OptionsWithdrawn OptionChosen ChildOrdered ChildTold PageKept \
         Forked StepInherited Rewound RewindCompensated InputsForgotten MetadataReported PaceSet \
         VisitTitled ItemsCounted PollKept SignalErrorKept Labeled Imported"
    );
    assert_eq!(
        variants::<WaitCondition>(),
        "Model Operation Timer Retry Signal Gate Items Unknown Deferred OutputInvalid \
         Catalog Child LiveSignal"
    );
    let reasons =
        "person engine_fault gate outcome_unknown output_invalid catalog_missing budget pace";
    assert_eq!(variants::<PauseReason>(), reasons);
    let bodies = "work on_success on_failure on_complete compensate";
    assert_eq!(variants::<BodyKind>(), bodies);
    let states = "idle running paused completed failed abandoned diverged";
    assert_eq!(variants::<State>(), states);
    let statuses = "pending running completed failed skipped";
    assert_eq!(variants::<StepStatus>(), statuses);
    let skipped = "condition run_when bypassed failing cancelled";
    assert_eq!(variants::<SkipReason>(), skipped);
    assert_eq!(variants::<Outcome>(), "Completed Failed Voided");
    assert_eq!(variants::<ReportedOutcome>(), "Output Failure");
    assert_eq!(variants::<Channel>(), "terminal elicitation dashboard");
}

/// What [`WaitCondition`] is in a later version that waits for one thing more.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum LaterAwaiting {
    Model(TokenGrant),
    Operation { owner: OwnerEpoch },
    Timer { due: Timestamp },
    Retry { due: Timestamp },
    Signal { name: String },
    Gate { shown: Digest, due: Option<Timestamp> },
    Items { list: Digest, total: u32 },
    Unknown,
    Deferred(Box<ReportedOutcome>),
    OutputInvalid(TokenGrant),
    Catalog { catalog: String },
    Child { execution_id: ExecutionId },
    LiveSignal { name: String, due: Timestamp },
    Later { what: String },
}

#[test]
fn a_variant_that_is_added_leaves_the_bytes_of_the_others_as_they_are() {
    let (at, of) = (Timestamp::from_milliseconds(7), Digest::compute);
    let now = [
        WaitCondition::Operation { owner: OwnerEpoch(3) },
        WaitCondition::Timer { due: at },
        WaitCondition::Gate { shown: of(b"ask"), due: Some(at) },
        WaitCondition::Items { list: of(b"list"), total: 2 },
        WaitCondition::Unknown,
    ];
    for awaiting in now {
        let bytes = postcard::to_stdvec(&awaiting).unwrap();
        let later: LaterAwaiting = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(postcard::to_stdvec(&later).unwrap(), bytes);
        assert_eq!(postcard::from_bytes::<WaitCondition>(&bytes).unwrap(), awaiting);
    }
    let later = LaterAwaiting::Later { what: "e".into() };
    let bytes = postcard::to_stdvec(&later).unwrap();
    assert!(postcard::from_bytes::<WaitCondition>(&bytes).is_err(), "it is not taken for another");
}

#[tokio::test]
async fn each_opening_after_a_transition_is_a_later_owner() {
    let directory = tempfile::tempdir().unwrap();
    let mut tale = Script::new("one", 9);
    let mut before = OwnerEpoch::default();
    for _ in 0..3 {
        let store = RedbStore::open(directory.path(), Options::default()).unwrap();
        assert!(store.owner(&tale.id).unwrap() > before);
        before = store.owner(&tale.id).unwrap();
        tale.commit_step(&store).await.unwrap();
        assert_eq!(store.owner(&tale.id).unwrap(), before);
        store.close().await.unwrap();
    }
}

/// A snapshot of version 1 ends before the pages of lists, one of version 2 before the origin of a fork, one of version 3 or 4
/// before the purged inputs, one of version 5 before the pace, one of version 6 before the notes on visits, one of version 7 before the time of an import. Up to version 3 the state is never left out, and so has no byte in front that says whether it is
/// there.
#[tokio::test]
async fn snapshots_of_the_versions_before_are_read() {
    for version in 1..=7 {
        reads_snapshot_of_version(version).await;
    }
}

/// The snapshot of an execution that was only created has no state: the first row tells it.
#[tokio::test]
async fn a_first_snapshot_refers_to_the_first_row() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let mut tale = Script::new("one", 2);
    tale.commit_steps(&store, 1).await;
    let now = store.load(&tale.id).await.unwrap().unwrap();
    assert_eq!(now.execution.revision(), 1);
    store.close().await.unwrap();
    let snapshot =
        stored::<&str>(&directory.path().join("executions.redb"), "executions.v1", "one");
    // The version, two numbers, and no state, in hexadecimal digits.
    assert_eq!((snapshot.len(), &snapshot[..2], &snapshot[34..]), (2 * 18, "08", "00"));
    change_snapshot(directory.path(), |bytes| bytes[0] = 4);
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    assert_eq!(store.load(&tale.id).await.unwrap().unwrap().execution, now.execution);
    tale.commit_steps(&store, 1).await;
    assert_eq!(store.load(&tale.id).await.unwrap().unwrap().execution.revision(), 2);
    store.close().await.unwrap();
}

async fn reads_snapshot_of_version(version: u8) {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let mut tale = Script::new("one", 2);
    tale.commit_steps(&store, 2).await;
    let now = store.load(&tale.id).await.unwrap().unwrap();
    store.close().await.unwrap();
    change_snapshot(directory.path(), |bytes| {
        // The version, the revision and the key of the last row come first.
        assert_eq!((bytes[0], bytes[17]), (8, 1));
        if version < 4 {
            bytes.remove(17);
        }
        // The fields that later versions added are empty, a byte each.
        let added = [10, 9, 6, 6, 5, 4, 2][usize::from(version) - 1];
        let kept = bytes.len() - added;
        assert_eq!(&bytes[kept..], &[0; 10][..added]);
        bytes.truncate(kept);
        bytes[0] = version;
    });
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let before = store.load(&tale.id).await.unwrap().unwrap();
    assert_eq!(before.execution, now.execution);
    assert_eq!(before.execution.revision(), 2);
    store.close().await.unwrap();
}

/// Changes the snapshot of `one` in the file.
fn change_snapshot(directory: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let database = Database::open(directory.join("executions.redb")).unwrap();
    let write = database.begin_write().unwrap();
    let definition = TableDefinition::<&str, &[u8]>::new("executions.v1");
    let mut executions = write.open_table(definition).unwrap();
    let mut bytes = executions.get("one").unwrap().unwrap().value().to_vec();
    change(&mut bytes);
    executions.insert("one", bytes.as_slice()).unwrap();
    drop(executions);
    write.commit().unwrap();
}
