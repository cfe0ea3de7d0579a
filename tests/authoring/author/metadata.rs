//! What authors say of a workflow for people: kept as it stands, and shown.

use midex_domain::limits;
use serde_json::{Value, json};

use super::{TRIAGE, clients, done, get, refused, validated};
use midex_test::project::{Project, each, list};

const METADATA: &str = "metadata:\n  created_at: 2026-11-23\n  author: Ada # and others\n  reviews: 3\n  draft: false\n  ticket:\n";

/// The manifest with metadata that has this entry too.
fn with(entry: &str) -> String {
    TRIAGE.replace("inputs:", &format!("{METADATA}  {entry}\ninputs:"))
}

fn expected() -> Value {
    json!({ "created_at": "2026-11-23", "author": "Ada", "reviews": 3, "draft": false, "ticket": null })
}

#[test]
fn it_is_kept_as_it_stands_and_shown_and_counts_in_the_version() {
    let front = "---\nname: front\ndescription: d\nmetadata: { author: Ada }\nphases:\n  - phase: a\n    agent: reviewer\n---\n# Front\n";
    let project = Project::new(&[("workflows/front.md", front)]);
    for client in &mut clients(&project) {
        let text = with("").replace("  \ninputs", "inputs");
        let save = json!({ "manifest": text, "overwrite": true });
        let saved = done(client, "workflow.save", save);
        let got = get(client, "triage");
        assert_eq!(got["content"], json!(text));
        assert_eq!(got["parsed"]["metadata"], expected());
        let files = done(client, "workflow.list", json!({ "source": "user" }));
        assert_eq!(files["workflows"][0]["metadata"], expected(), "{files}");
        let details = super::resources::read(client, "midex://workflow/workflow_details/triage");
        let details: Value = serde_json::from_str(details["text"].as_str().unwrap()).unwrap();
        assert_eq!(details["metadata"], expected());

        let other = text.replace("Ada", "Eve");
        let save = json!({ "manifest": other, "overwrite": true });
        assert_ne!(done(client, "workflow.save", save)["version"], saved["version"]);
        let files = done(client, "workflow.list", json!({ "query": "front" }));
        assert_eq!(files["workflows"][0]["metadata"], json!({ "author": "Ada" }));
        let without = done(client, "workflow.list", json!({ "query": "bug-fix" }));
        assert!(without["workflows"][0].get("metadata").is_none());
    }
    let list_of = project.command(&["list", "--json"]).output().unwrap();
    let listed = String::from_utf8(list_of.stdout).unwrap();
    let mut listed = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let front = listed.find(|one| one["name"] == "front").unwrap();
    assert_eq!(front["metadata"], json!({ "author": "Ada" }));
}

#[test]
fn what_is_no_scalar_or_too_much_is_a_finding() {
    let project = Project::new(&[]);
    let text_max = limits::METADATA_TEXT_BYTES_MAX;
    let longest = "x".repeat(text_max);
    // Five stand there already.
    let entries = |count: usize| {
        let entries = (5..count).map(|at| format!("k{at}: {at}"));
        with(&entries.collect::<Vec<_>>().join("\n  "))
    };
    let max = limits::METADATA_ENTRIES_MAX;
    for client in &mut clients(&project) {
        for sound in
            [entries(max), with(&format!("long: {longest}")), with(&format!("{longest}: 1"))]
        {
            let checked = validated(client, &sound);
            assert_eq!(checked["valid"], true, "{checked}");
        }
        for (wrong, rule, path) in [
            (with("people: [Ada]"), "wrong_type", "metadata.people"),
            (with("people: { a: b }"), "wrong_type", "metadata.people"),
            (entries(max + 1), "limit_exceeded", "metadata"),
            (with(&format!("long: {longest}x")), "limit_exceeded", "metadata.long"),
            (with(&format!("{longest}x: 1")), "limit_exceeded", &*format!("metadata.{longest}x")),
            (TRIAGE.replace("inputs:", "metadata: Ada\ninputs:"), "wrong_type", "metadata"),
        ] {
            let checked = validated(client, &wrong);
            let found = list(&checked["violations"]);
            assert_eq!(each(&found, "rule"), [rule], "{checked}");
            assert_eq!(each(&found, "path"), [path], "{checked}");
            let error = refused(client, "workflow.save", json!({ "manifest": wrong }));
            assert_eq!(error["error_code"], "WORKFLOW_VALIDATION_FAILED");
        }
    }
}
