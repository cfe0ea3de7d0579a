//! `midex export` and `midex import`: an execution leaves one data directory and goes on in another.

use super::*;

const SHIP: &str = "workflow: ship
description: Builds and ships
inputs: { key: { type: string } }
steps:
  - { id: build, guidance: 'Build with ${{ inputs.key }}', result: {} }
  - { id: publish, guidance: 'Publish', result: {}, depends_on: [build] }
";

/// A place with an execution, `first`, whose second step is open.
fn begun() -> Place {
    let place = Place::new();
    place.file("workflows/ship.yaml", SHIP);
    place.file("build.jsonl", "{\"step_name\":\"build\",\"output\":{\"file\":\"ship.tar\"}}\n");
    place.midex("run ship --id first --input key=hunter2 --outputs build.jsonl");
    assert_eq!(place.json("show first")["status"]["state"], "running");
    place
}

#[test]
fn an_execution_goes_on_elsewhere_as_a_fork() {
    let here = begun();
    here.done("export first -o first.midex").shows("Exported 1 execution to ");
    let bundle = here.project().join("first.midex");
    let path = bundle.to_str().unwrap();
    let there = Place::new();
    let imported = there.done(&["import", path][..]);
    imported.shows(
        &["Imported 1 execution, read-only:", "first (ship, running)", "midex fork first"][..],
    );
    let shown = there.done("show first");
    shown.shows(&["it is read-only", "midex fork first"][..]);
    assert!(!shown.contains("midex run"), "{shown}");
    there.done("list executions").shows("first");
    there.done("list executions --state running").shows("first…running (imported)");
    assert_eq!(there.done("list executions --state open --json"), "");
    for command in
        ["resume first", "pause first", "abandon first", "rewind first build", "run --id first"]
    {
        let refused = there.midex(command).ends(1);
        refused.says(&["'first' was imported and is read-only", "midex fork first"][..]);
    }
    // The same again stores nothing, and the source, which is no import, is not imported over.
    let again = there.done(&["import", path][..]);
    again.shows(
        &["Imported 0 executions, read-only:", "first (ship, running), already imported"][..],
    );
    here.midex(&["import", path][..])
        .ends(1)
        .says("1 of the 1 executions of the bundle exist here already");
    there.done("fork first --id second").shows("kept: build");
    there.file("publish.jsonl", "{\"step_name\":\"publish\",\"output\":{\"url\":\"x\"}}\n");
    there.done("run --id second --outputs publish.jsonl");
    let second = there.json("show second");
    assert_eq!(second["status"]["state"], "completed");
    assert_eq!(second["history"][0]["output"]["file"], "ship.tar");
    let first = there.json("show first");
    assert_eq!(
        (&first["status"]["imported"], &first["status"]["state"]),
        (&json!(true), &json!("running"))
    );
    there.midex("doctor").shows("executions");
}

#[test]
fn a_file_is_not_written_over() {
    let here = begun();
    here.done("export --all --since 1d -o all.midex --redact inputs");
    here.midex("export first -o all.midex").ends(1).says("exists already");
    here.done("export first -o all.midex --force");
    here.midex("export nobody -o new.midex").ends(1).says("nobody");
    here.midex("export first -o missing/new.midex").ends(2).says("cannot be written");
    here.midex("export -o new.midex").ends(2);
    here.midex("export first --since 1d -o new.midex").ends(2).says("--since");
    assert!(!here.project().join("new.midex").exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(here.project().join("all.midex")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

/// `docs/bundle.md` says that a bundle is read with `tar`, `zstd` and `jq`.
#[test]
fn a_bundle_is_a_tar_in_a_frame() {
    let here = begun();
    here.done("export first -o first.midex --redact key");
    let packed = std::fs::read(here.project().join("first.midex")).unwrap();
    assert_eq!(packed[..4], [0x28, 0xb5, 0x2f, 0xfd], "the magic number of zstd");
    // The checksum of the content.
    assert_eq!(packed[4] & 4, 4);
}

#[test]
fn a_damaged_file_is_refused_with_its_place() {
    let here = begun();
    here.done("export first -o first.midex");
    let bytes = std::fs::read(here.project().join("first.midex")).unwrap();
    let there = Place::new();
    std::fs::write(there.project().join("cut.midex"), &bytes[..bytes.len() / 2]).unwrap();
    let refused = there.midex("import cut.midex").ends(2);
    refused.says(&["is no valid bundle: in `", "Copy ", "again from where it was exported"][..]);
    there.midex("import nothing.midex").ends(2).says("cannot be read");
    assert_eq!(there.done("list executions --all-projects --json"), "");
}
