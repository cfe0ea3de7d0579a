//! Workflows and agents as skills (SEP-2640), in both eras and through a relay.

use midex_domain::{Digest, limits};
use serde_json::{Value, json};

use super::{TRIAGE, clients, deleted, done, resources::read};
use midex_test::{
    has_fields,
    project::{Project, agent, each, list, text},
    reader::{ERAS, Reader},
};

fn skills(client: &mut Reader) -> Vec<Value> {
    let (mut skills, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.result("skills/list", params);
        skills.extend(list(&page["skills"]));
        match &page["nextCursor"] {
            Value::Null => return skills,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
}

/// Holds a skill to what a host verifies: names, the digest and the size of its only file, and its front matter.
fn verify(client: &mut Reader, skill: &Value) -> String {
    let uri = text(&skill["uri"]);
    let front = &skill["frontmatter"];
    assert!(uri.ends_with(&format!("/{}/SKILL.md", text(&front["name"]))));
    let file = read(client, uri);
    assert_eq!(file["mimeType"], "text/markdown");
    let content = text(&file["text"]);
    let resources = list(&skill["resources"]);
    let digest = format!("sha256:{}", Digest::compute(content.as_bytes()));
    assert_eq!(resources, [json!({ "uri": uri, "digest": digest, "size": content.len() })]);
    let (yaml, body) = content
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---\n"))
        .unwrap_or_else(|| panic!("no front matter: {content}"));
    let written: Value = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(written, *front, "{content}");
    let got = client.result("skills/get", json!({ "uri": uri }));
    assert_eq!(got["skill"], *skill);
    body.to_owned()
}

#[test]
fn every_skill_is_what_its_entry_says() {
    let project = Project::new(&[
        ("workflows/triage.yaml", TRIAGE),
        (
            "agents/odd.md",
            &agent("\"1e3\"", "Be \"odd\".").replace("A test", "\"Says: \\\"x\\\" # y\\n z\""),
        ),
    ]);
    for mut client in clients(&project) {
        let skills = skills(&mut client);
        for skill in &skills {
            verify(&mut client, skill);
        }
        let uris = each(&skills, "uri");
        for uri in [
            "skill://workflow/triage/SKILL.md",
            "skill://workflow/bug-fix/SKILL.md",
            "skill://agent/reviewer/SKILL.md",
            "skill://agent/1e3/SKILL.md",
        ] {
            assert!(uris.contains(&uri.to_owned()), "{uri}: {uris:?}");
        }
        let find = |uri: &str| skills.iter().find(|skill| skill["uri"] == uri).unwrap();
        let triage = verify(&mut client, find("skill://workflow/triage/SKILL.md"));
        for part in [
            "# Triage\n",
            "- `report` (string, required): What was reported\n",
            "- `urgent` (boolean, false without it)\n",
            "the workflow `triage`",
            "`workflow.start`",
        ] {
            assert!(triage.contains(part), "{part}: {triage}");
        }
        let persona = verify(&mut client, find("skill://agent/1e3/SKILL.md"));
        assert_eq!(persona.trim(), "Be \"odd\".");
        let told = &find("skill://agent/1e3/SKILL.md")["frontmatter"]["description"];
        assert_eq!(told, "Says: \"x\" # y z");
    }
}

#[test]
fn the_extension_is_declared_and_what_is_unknown_is_refused() {
    let project = Project::new(&[("workflows/triage.yaml", TRIAGE)]);
    for mut client in clients(&project) {
        let declared = &client.capabilities()["extensions"]["io.modelcontextprotocol/skills"];
        assert_eq!(*declared, json!({}));
        for uri in [
            "skill://workflow/nothing/SKILL.md",
            "skill://triage/SKILL.md",
            "midex://authoring/spec",
            "skill://workflow/triage/other.md",
        ] {
            let error = client.error("skills/get", json!({ "uri": uri }));
            assert_eq!(error["code"], -32602, "{uri}: {error}");
        }
        let error =
            client.error("resources/read", json!({ "uri": "skill://workflow/nothing/SKILL.md" }));
        assert_eq!(error["data"]["error_code"], "RESOURCE_NOT_FOUND");
        let error = client.error("skills/list", json!({ "cursor": "x" }));
        assert_eq!(error["data"]["error_code"], "ARGUMENTS_INVALID");
        client.error("skills/get", json!({}));
    }
    let mut client = Reader::new(&project, ERAS[1], "other", &[]);
    for (method, params) in [
        ("skills/list", json!({})),
        ("skills/get", json!({ "uri": "skill://workflow/triage/SKILL.md" })),
    ] {
        let result = client.result(method, params);
        has_fields(&result, json!({ "ttlMs": 0, "cacheScope": "private" }));
        assert_eq!(result["resultType"], "complete");
    }
}

#[test]
fn what_cannot_be_a_skill_is_none_and_pages_hold_all_the_others() {
    let named = |name: &str| TRIAGE.replace("workflow: triage", &format!("workflow: {name}"));
    let longest = "x".repeat(limits::SKILL_NAME_BYTES_MAX);
    let project = Project::new(&[("workflows/broken.yaml", "workflow: broken\n")]);
    for (at, name) in
        ["Upper", "under_score", "a.b", &longest, &format!("{longest}x")].into_iter().enumerate()
    {
        project.write(&format!("workflows/f{at}.yaml"), &named(name));
    }
    let words = "word ".repeat(300);
    let long = named("long").replace("Sort a bug report", words.trim());
    project.write("workflows/long.yaml", &long);
    for at in 0..=limits::LIST_PAGE_MAX {
        let name = format!("a{at:03}");
        project.write(&format!("agents/{name}.md"), &agent(&name, "You."));
    }
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let skills = skills(&mut client);
    let uris = each(&skills, "uri");
    let has = |name: &str| uris.contains(&format!("skill://workflow/{name}/SKILL.md"));
    assert!(has(&longest) && has("long"));
    for name in ["Upper", "under_score", "a.b", &format!("{longest}x"), "broken"] {
        assert!(!has(name), "{name}");
        let uri = format!("skill://workflow/{name}/SKILL.md");
        client.error("resources/read", json!({ "uri": uri }));
        client.error("skills/get", json!({ "uri": uri }));
    }
    let agents = uris.iter().filter(|uri| uri.starts_with("skill://agent/a"));
    assert!(agents.count() > limits::LIST_PAGE_MAX);
    let long = skills.iter().find(|skill| skill["frontmatter"]["name"] == "long").unwrap();
    let description = text(&long["frontmatter"]["description"]);
    let chars = description.chars().count();
    assert_eq!(chars, limits::SKILL_DESCRIPTION_CHARS_MAX);
    assert!(description.ends_with('…'));
    verify(&mut client, long);
}

#[test]
fn skills_follow_the_definitions() {
    let project = Project::new(&[]);
    let mut client = Reader::new(&project, ERAS[0], "other", &[]);
    let uri = "skill://workflow/triage/SKILL.md";
    client.error("skills/get", json!({ "uri": uri }));
    done(&mut client, "workflow.save", json!({ "manifest": TRIAGE }));
    let before = client.result("skills/get", json!({ "uri": uri }));
    let changed = TRIAGE.replace("What was reported", "What somebody said");
    done(&mut client, "workflow.save", json!({ "manifest": changed, "overwrite": true }));
    let after = client.result("skills/get", json!({ "uri": uri }));
    assert_ne!(before["skill"], after["skill"]);
    verify(&mut client, &after["skill"]);
    deleted(&mut client, "triage");
    assert!(!each(&skills(&mut client), "uri").contains(&uri.to_owned()));
}
