//! Bundles that are not as midex writes them: each is refused with its place, and nothing is stored.

use midex_test::long::{Dice, rounds, seed};

use super::*;

const BLOCK_BYTES: usize = 512;

/// Checks that a bundle is refused with its place, and that nothing of it is stored.
async fn check_refused(there: &Machine, bytes: &[u8], contents: &[Digest]) -> Error {
    let path = there.path("damaged.midex");
    fs::write(&path, bytes).expect("a file");
    let error = there.not_imported(&path).await;
    assert!(there.executions().await.is_empty(), "{error}");
    for digest in contents {
        assert!(there.store.load_content(*digest).await.expect("a read").is_none(), "{error}");
    }
    error
}

fn assert_placed(error: &Error) {
    assert_eq!(error.code(), Code::FileUnusable, "{error}");
    let place = error.context("place").and_then(Value::as_str).unwrap_or_default();
    assert!(!place.is_empty(), "{error}");
    assert_has(error.message(), &["is no valid bundle", &format!("in `{place}`")]);
}

fn content_digests(entries: &BTreeMap<String, Vec<u8>>) -> Vec<Digest> {
    let names = entries.keys().filter_map(|name| name.strip_prefix("contents/"));
    names.map(|name| Digest::parse(name).expect("a digest")).collect()
}

/// A valid bundle, and the digests of its contents.
async fn valid_bundle() -> (Vec<u8>, Vec<Digest>) {
    let here = Machine::with_family().await;
    let path = here.export(&[]).await;
    Machine::new().await.import(&path).await;
    (fs::read(&path).expect("a file"), content_digests(&unpack(&path)))
}

/// What is found, and a change of the manifest that lets it be found.
type ManifestChange = (&'static str, fn(&mut Value));
/// What is found, and a change of a journal that lets it be found.
type JournalChange = (&'static str, fn(&str) -> String);

#[tokio::test(start_paused = true)]
async fn a_bundle_that_is_cut_off_is_refused() {
    let (bytes, contents) = valid_bundle().await;
    let there = Machine::new().await;
    let step = usize::try_from(rounds(97, 1)).expect("a small number");
    for length in (0..bytes.len()).step_by(step).chain([bytes.len() - 1, bytes.len() - 4]) {
        assert_placed(&check_refused(&there, &bytes[..length], &contents).await);
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_placed(&check_refused(&there, &longer, &contents).await);
    let twice = [&bytes[..], &bytes[..]].concat();
    assert_placed(&check_refused(&there, &twice, &contents).await);
}

/// One changed byte is found wherever it is. The exception are bits of the frame that change nothing of what it holds.
#[tokio::test(start_paused = true)]
async fn a_single_change_is_found() {
    let (bytes, contents) = valid_bundle().await;
    let tar = zstd::decode_all(&bytes[..]).expect("a frame");
    let there = Machine::new().await;
    let mut dice = Dice(seed(1));
    let mut same = 0;
    for _ in 0..rounds(100, 1000) {
        let at = usize::try_from(dice.roll(bytes.len() as u64)).expect("a place");
        let mut changed = bytes.clone();
        changed[at] ^= 1 << dice.roll(8);
        if zstd::decode_all(&changed[..]).is_ok_and(|changed| changed == tar) {
            same += 1;
            continue;
        }
        assert_placed(&check_refused(&there, &changed, &contents).await);
    }
    assert!(same < 20, "{same} changes changed nothing");
}

/// The same for the tar inside of the frame, where no checksum of the frame helps. In the manifest only the fields that
/// describe the bundle as a whole can differ: nothing else tells them.
#[tokio::test(start_paused = true)]
async fn a_single_change_of_the_tar_is_found() {
    let (bytes, contents) = valid_bundle().await;
    let tar = zstd::decode_all(&bytes[..]).expect("a frame");
    let mut there = Machine::new().await;
    let mut dice = Dice(seed(2));
    for _ in 0..rounds(100, 1000) {
        let at = usize::try_from(dice.roll(tar.len() as u64)).expect("a place");
        let mut changed = tar.clone();
        changed[at] ^= 1 << dice.roll(8);
        let path = there.path("damaged.midex");
        fs::write(&path, zstd::encode_all(&changed[..], 1).expect("a frame")).expect("a file");
        match there.engine.import(path, "/home/b".to_owned()).await {
            Err(error) if error.code() == Code::StoreTooNew => {}
            Err(error) => assert_placed(&error),
            Ok(_) => {
                let manifest = |tar: &[u8]| {
                    let end = tar[BLOCK_BYTES..].iter().position(|byte| *byte == 0);
                    let end = BLOCK_BYTES + end.expect("the end of the manifest");
                    let json = serde_json::from_slice(&tar[BLOCK_BYTES..end]);
                    let mut manifest: Value = json.expect("JSON");
                    for name in ["midex", "created_at"] {
                        manifest[name] = Value::Null;
                    }
                    for content in manifest["contents"].as_array_mut().expect("a list") {
                        content["role"] = Value::Null;
                    }
                    manifest
                };
                assert_eq!(manifest(&changed), manifest(&tar));
                there = Machine::new().await;
            }
        }
        for digest in &contents {
            assert!(there.store.load_content(*digest).await.expect("a read").is_none());
        }
    }
}

/// The header of an entry that another program could write.
fn header(name: &str, kind: u8, link: &str, bytes: usize) -> Vec<u8> {
    let mut header = [0; BLOCK_BYTES];
    let mut set =
        |start: usize, text: &[u8]| header[start..start + text.len()].copy_from_slice(text);
    set(0, name.as_bytes());
    for (start, text) in
        [(100, "0000600"), (108, "0000000"), (116, "0000000"), (136, "00000000000")]
    {
        set(start, text.as_bytes());
    }
    set(124, format!("{bytes:011o}").as_bytes());
    set(148, b"        ");
    set(156, &[kind]);
    set(157, link.as_bytes());
    set(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:07o}\0").as_bytes());
    header.to_vec()
}

fn entry(name: &str, kind: u8, link: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = [&header(name, kind, link, content.len())[..], content].concat();
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

fn pack(entries: &[Vec<u8>]) -> Vec<u8> {
    let tar = [&entries.concat()[..], &[0; 2 * BLOCK_BYTES]].concat();
    zstd::encode_all(&tar[..], 1).expect("a frame")
}

/// The entries of a valid bundle, in their order.
async fn valid_entries() -> (Vec<(String, Vec<u8>)>, Vec<Digest>) {
    let here = Machine::with_family().await;
    let entries = unpack(&here.export(&[]).await);
    let digests = content_digests(&entries);
    let place = |name: &String| match name.split_once('/') {
        None => (0, 0),
        Some(("journal", number)) => {
            (1, number.trim_end_matches(".jsonl").parse().expect("a number"))
        }
        Some(_) => (2, 0),
    };
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by_key(|(name, _)| place(name));
    (entries, digests)
}

fn files(entries: &[(String, Vec<u8>)]) -> Vec<Vec<u8>> {
    entries.iter().map(|(name, content)| entry(name, b'0', "", content)).collect()
}

/// The same entries with a changed manifest.
fn with_manifest(
    entries: &[(String, Vec<u8>)],
    change: impl FnOnce(&mut Value),
) -> Vec<(String, Vec<u8>)> {
    let mut entries = entries.to_vec();
    let mut manifest = serde_json::from_slice(&entries[0].1).expect("JSON");
    change(&mut manifest);
    entries[0].1 = manifest.to_string().into_bytes();
    entries
}

#[tokio::test(start_paused = true)]
async fn only_the_files_of_the_manifest_are_read() {
    let (entries, contents) = valid_entries().await;
    let whole = files(&entries);
    let there = Machine::new().await;
    let name = entries[1].0.clone();
    for (what, change) in [
        ("../../x", entry("../../x", b'0', "", &entries[1].1)),
        ("/etc/passwd", entry("/etc/passwd", b'0', "", &entries[1].1)),
        ("Symlink", entry(&name, b'2', "/etc/passwd", b"")),
        ("Link", entry(&name, b'1', "manifest.json", b"")),
        ("Directory", entry(&name, b'5', "", b"")),
        ("Char", entry(&name, b'3', "", b"")),
        ("Fifo", entry(&name, b'6', "", b"")),
        ("XHeader", entry(&name, b'x', "", &entries[1].1)),
        ("manifest.json", entry("manifest.json", b'0', "", &entries[0].1)),
        ("another header", entry(&name, b'0', "", &entries[1].1[1..])),
    ] {
        let mut changed = whole.clone();
        changed[1] = change;
        let error = check_refused(&there, &pack(&changed), &contents).await;
        assert_placed(&error);
        assert_has(error.message(), &[what, &name]);
    }
    for at in 0..whole.len() {
        let mut missing = whole.clone();
        missing.remove(at);
        assert_placed(&check_refused(&there, &pack(&missing), &contents).await);
        let mut twice = whole.clone();
        twice.insert(at, whole[at].clone());
        assert_placed(&check_refused(&there, &pack(&twice), &contents).await);
        let mut moved = whole.clone();
        moved.swap(at, (at + 1) % whole.len());
        assert_placed(&check_refused(&there, &pack(&moved), &contents).await);
    }
    let mut extra = whole.clone();
    extra.push(entry("contents/extra", b'0', "", b"x"));
    let error = check_refused(&there, &pack(&extra), &contents).await;
    assert_has(error.message(), &["in `the end`"]);
    // What was changed is put together rightly: without a change it is imported.
    let path = there.path("whole.midex");
    fs::write(&path, pack(&whole)).expect("a file");
    there.import(&path).await;
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_says_something_else_is_refused() {
    let (entries, contents) = valid_entries().await;
    let there = Machine::new().await;
    let changes: [ManifestChange; 13] = [
        ("not written as midex writes it", |manifest| manifest["format"] = json!(0)),
        ("another state", |manifest| manifest["executions"][0]["state"] = json!("completed")),
        ("another state", |manifest| manifest["executions"][1]["workflow"] = json!("other")),
        ("another state", |manifest| {
            manifest["executions"][0]["definition"] = json!("0".repeat(64));
        }),
        ("another state", |manifest| manifest["executions"][1]["revision"] = json!(1)),
        ("another state", |manifest| manifest["executions"][1]["revision"] = json!(99)),
        ("revision 1 of", |manifest| manifest["executions"][1]["execution_id"] = json!("other")),
        ("out of place", |manifest| manifest["executions"][0]["journal"]["path"] = json!("../x")),
        ("out of place", |manifest| manifest["contents"][0]["path"] = json!("contents/x")),
        ("another SHA-256", |manifest| {
            manifest["executions"][0]["journal"]["sha256"] = json!("0".repeat(64));
        }),
        ("unknown field", |manifest| manifest["more"] = json!(1)),
        ("has no executions", |manifest| manifest["executions"] = json!([])),
        ("another header", |manifest| manifest["contents"][0]["bytes"] = json!(1_u64 << 40)),
    ];
    for (what, change) in changes {
        let changed = with_manifest(&entries, change);
        let error = check_refused(&there, &pack(&files(&changed)), &contents).await;
        assert_placed(&error);
        assert_has(error.message(), &[what]);
    }
    let later = with_manifest(&entries, |manifest| manifest["format"] = json!(2));
    let error = check_refused(&there, &pack(&files(&later)), &contents).await;
    assert_eq!(error.code(), Code::StoreTooNew);
    assert_has(error.message(), &["format 2", "reads format 1"]);
}

/// A frame of a few bytes that would be read as gigabytes.
#[tokio::test(start_paused = true)]
async fn a_bomb_is_refused_before_it_is_read() {
    let (entries, contents) = valid_entries().await;
    let there = Machine::new().await;
    let zeros = vec![0; 64 << 20];
    // Behind the end.
    let mut bomb = files(&entries);
    bomb.push(zeros.clone());
    let packed = pack(&bomb);
    assert!(packed.len() < 1 << 20, "{}", packed.len());
    assert_placed(&check_refused(&there, &packed, &contents).await);
    // In an entry that is to be small.
    let mut bomb = files(&entries);
    bomb[1] = entry(&entries[1].0, b'0', "", &zeros);
    assert_placed(&check_refused(&there, &pack(&bomb), &contents).await);
    // As the manifest.
    let bomb = [header("manifest.json", b'0', "", 257 << 20)];
    let error = check_refused(&there, &pack(&bomb), &contents).await;
    assert_has(error.message(), &["it is too large"]);
}

/// A journal whose line is changed, with the manifest that fits it.
fn with_journal(
    entries: &[(String, Vec<u8>)],
    position: usize,
    change: impl FnOnce(&str) -> String,
) -> Vec<u8> {
    let text = change(str::from_utf8(&entries[position + 1].1).expect("a text")).into_bytes();
    let mut changed = with_manifest(entries, |manifest| {
        let journal = &mut manifest["executions"][position]["journal"];
        journal["bytes"] = json!(text.len());
        journal["sha256"] = json!(Digest::compute(&text));
    });
    changed[position + 1].1 = text;
    pack(&files(&changed))
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_no_engine_wrote_is_refused() {
    let (entries, contents) = valid_entries().await;
    let there = Machine::new().await;
    let changes: [JournalChange; 6] = [
        ("line 1`: missing field", |text| text.replacen("{\"execution_id\"", "{\"id\"", 1)),
        ("revision 7", |text| text.replacen("\"revision\":1,", "\"revision\":7,", 1)),
        ("of 'x'", |text| text.replacen("\"execution_id\":\"e\"", "\"execution_id\":\"x\"", 1)),
        ("has directories", |text| text.replacen("\"project\":null", "\"project\":\"/x\"", 1)),
        ("begins no execution", |text| {
            let (head, _) = text.split_once("\"events\":").expect("events");
            format!("{head}\"events\":[]}}\n")
        }),
        ("line 2`: EOF", |text| text.replacen('\n', "\n\n", 1)),
    ];
    for (what, change) in changes {
        let error = check_refused(&there, &with_journal(&entries, 1, change), &contents).await;
        assert_placed(&error);
        assert_has(error.message(), &["in `journal/2.jsonl, line", what]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_family_without_its_root_is_refused() {
    let (entries, contents) = valid_entries().await;
    let there = Machine::new().await;
    let journal = String::from_utf8(entries[1].1.clone()).expect("a text");
    let is_named =
        |name: &str| name.strip_prefix("contents/").is_some_and(|digest| journal.contains(digest));
    let mut child = with_manifest(&entries, |manifest| {
        manifest["executions"].as_array_mut().expect("a list").pop();
        let contents = manifest["contents"].as_array_mut().expect("a list");
        contents.retain(|content| is_named(content["path"].as_str().expect("a path")));
    });
    child.retain(|(name, _)| {
        ["manifest.json", "journal/1.jsonl"].contains(&name.as_str()) || is_named(name)
    });
    let error = check_refused(&there, &pack(&files(&child)), &contents).await;
    assert_placed(&error);
    assert_has(error.message(), &["the parent of", "is missing"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_no_bundle_is_refused() {
    let there = Machine::new().await;
    for bytes in [&b""[..], b"not a bundle", &[0x28, 0xb5, 0x2f, 0xfd]] {
        assert_placed(&check_refused(&there, bytes, &[]).await);
    }
    for path in [there.directory.path().to_owned(), there.path("nothing"), "/dev/null".into()] {
        assert_eq!(there.not_imported(&path).await.code(), Code::FileUnusable);
    }
}
