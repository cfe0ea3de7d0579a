//! Tools that say that they only read change nothing.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use midex_domain::Digest;
use serde_json::{Value, json};

use super::{TRIAGE, answer};
use midex_test::{
    project::{Project, text},
    reader::{ERAS, Reader},
};

/// The toolsets that authors use.
const OF_AUTHORS: [&str; 2] = ["--toolsets", "author,catalog"];

/// Where definitions lie, below the root of a project: the project's, and the user's.
const PLACES: [&str; 2] = ["workflows", "home/.config"];

/// A digest of everything in a tree: names, kinds, modes, times of change, targets of links and bytes.
fn digest(directory: &Path) -> Digest {
    let mut told = Vec::new();
    describe(directory, &mut told);
    Digest::compute(&told)
}

fn describe(path: &Path, told: &mut Vec<u8>) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let facts = format!(
        "{} {:o} {} {} {}\n",
        path.display(),
        metadata.mode(),
        metadata.ino(),
        metadata.mtime(),
        metadata.mtime_nsec()
    );
    told.extend(facts.as_bytes());
    if metadata.is_dir() {
        let mut paths: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in &paths {
            describe(path, told);
        }
    } else if metadata.is_symlink() {
        told.extend(fs::read_link(path).unwrap().as_os_str().as_encoded_bytes());
    } else {
        told.extend(fs::read(path).unwrap());
    }
}

/// Makes everything in a tree such that nobody but the superuser can change it.
fn close(path: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            close(&entry.unwrap().path());
        }
    }
    let mode = if path.is_dir() { 0o555 } else { 0o444 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Lets the tree be removed again.
fn open(path: &Path) {
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        for entry in fs::read_dir(path).unwrap() {
            open(&entry.unwrap().path());
        }
    }
}

/// The arguments of a call about what this is: with its inputs, where the tool takes some.
fn arguments(tool: &Value, subject: &str, what: &str) -> Value {
    let takes = |name: &str| tool["inputSchema"]["properties"].get(name).is_some();
    let mut arguments = json!({});
    if takes(subject) {
        arguments[subject] = json!(what);
    }
    if takes("inputs") {
        arguments["inputs"] = json!({ "report": "It broke." });
    }
    arguments
}

/// The superuser, as whom tests often run, is not held back by a mode: so the digest of the tree is what counts, and the
/// modes only make a write by anybody else fail aloud.
#[test]
fn tools_that_only_read_leave_every_byte_mode_and_time_as_it_is() {
    let mine = TRIAGE.replace("workflow: triage", "workflow: mine");
    let project = Project::new(&[
        ("workflows/triage.yaml", TRIAGE),
        ("workflows/deep/broken.json", "{"),
        ("home/.config/midex/workflows/mine.yaml", &mine),
        ("home/.config/midex/workflows/.midex-left", "what a killed writer left"),
    ]);
    std::os::unix::fs::symlink("triage.yaml", project.path("workflows/link.yaml")).unwrap();
    let digests = || PLACES.map(|place| digest(&project.path(place)));
    for place in PLACES {
        close(&project.path(place));
    }
    let before = digests();
    for era in ERAS {
        let mut client = Reader::new(&project, era, "other", &OF_AUTHORS);
        let tools = client.tools();
        let (reading, writing): (Vec<_>, Vec<_>) =
            { tools.iter() }.partition(|tool| tool["annotations"]["readOnlyHint"] == true);
        let writing: Vec<_> = writing.iter().map(|tool| text(&tool["name"])).collect();
        let named = [
            "workflow.run",
            "workflow.cancel",
            "workflow.save",
            "workflow.rename",
            "workflow.delete",
            "workflow.purge_history",
            "command.run",
            "command.run_destructive",
            "catalog.import_openapi",
            "catalog.refresh",
            "catalog.set_enabled",
            "catalog.set_base_url",
            "catalog.set_headers",
            "catalog.set_class",
            "catalog.remove",
        ];
        assert_eq!(writing, named);
        for tool in reading {
            let name = text(&tool["name"]);
            for (subject, what, is_refused) in [
                ("workflow_id", "triage", false),
                ("workflow_id", "mine", false),
                ("manifest", &mine, false),
                ("workflow_id", "broken", true),
                ("workflow_id", "none", true),
            ] {
                let arguments = arguments(tool, subject, what);
                if arguments.get(subject).is_some() {
                    // The check of a broken file, and its text, are an answer.
                    let is_answered =
                        what == "broken" && ["workflow.validate", "workflow.get"].contains(&name);
                    answer(&mut client, name, arguments, is_refused && !is_answered);
                } else {
                    // Without a file or an id there is nothing to look at.
                    let lacks = ["workflow.get", "command.run_safe"].contains(&name)
                        || name.starts_with("catalog.") && name != "catalog.list";
                    answer(&mut client, name, arguments, lacks);
                }
                assert_eq!(digests(), before, "{name} {what}");
            }
        }
    }
    for place in PLACES {
        open(&project.path(place));
    }
}
