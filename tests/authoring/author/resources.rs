//! The resources of authors, in both eras and through a relay.

use midex_domain::limits;
use serde_json::{Value, json};

use super::{TRIAGE, clients, done};
use midex_test::{
    Server, has_fields,
    project::{Project, each, list, text},
    reader::{ERAS, Reader},
};

const ROOT: &str = "midex://authoring/";

/// What is read at an address.
pub(super) fn read(client: &mut Reader, uri: &str) -> Value {
    let result = client.result("resources/read", json!({ "uri": uri }));
    let contents = list(&result["contents"]);
    assert_eq!((contents.len(), &contents[0]["uri"]), (1, &json!(uri)));
    contents[0].clone()
}

/// The text of all its parts.
fn whole(client: &mut Reader, uri: &str) -> String {
    let (mut whole, mut next) = (String::new(), Some(uri.to_owned()));
    while let Some(uri) = next {
        let part = read(client, &uri);
        whole += text(&part["text"]);
        next = part["_meta"]["next"].as_str().map(str::to_owned);
    }
    whole
}

/// The same of what is shown as JSON.
fn value(client: &mut Reader, path: &str) -> Value {
    let shown = read(client, &format!("{ROOT}{path}"));
    serde_json::from_str(text(&shown["text"])).unwrap()
}

fn uris(client: &mut Reader, method: &str, list_of: &str, field: &str) -> Vec<String> {
    each(&list(&client.result(method, json!({}))[list_of]), field)
}

fn listed(client: &mut Reader) -> Vec<String> {
    uris(client, "resources/list", "resources", "uri")
}

fn templates(client: &mut Reader) -> Vec<String> {
    uris(client, "resources/templates/list", "resourceTemplates", "uriTemplate")
}

#[test]
fn what_is_fixed_is_read_as_it_is_documented_with_its_media_type() {
    let project = Project::new(&[]);
    for mut client in clients(&project) {
        for (path, name, media_type) in [
            ("spec", "workflow.spec", "text/markdown"),
            ("schema", "workflow.schema", "application/schema+json"),
            ("manifests", "workflow.manifests", "application/json"),
            ("command-catalog", "command.catalog", "application/json"),
            ("provider-catalog", "provider.catalog", "application/json"),
            ("errors", "workflow.errors", "text/markdown"),
        ] {
            let uri = format!("{ROOT}{path}");
            let resources = list(&client.result("resources/list", json!({}))["resources"]);
            let found = resources.iter().find(|one| one["uri"] == *uri).unwrap();
            has_fields(found, json!({ "name": name, "mimeType": media_type }));
            assert_eq!(read(&mut client, &uri)["mimeType"], media_type);
        }
        let spec = whole(&mut client, "midex://authoring/spec");
        assert_eq!(spec, include_str!("../../../docs/manifest.md"));
        let errors = whole(&mut client, "midex://authoring/errors");
        assert_eq!(errors, include_str!("../../../docs/errors.md"));
        let printed = project.command(&["schema"]).output().unwrap().stdout;
        let printed: Value = serde_json::from_slice(&printed).unwrap();
        assert_eq!(value(&mut client, "schema"), printed);
    }
}

#[test]
fn manifests_and_catalogs_say_what_the_tools_say() {
    let project = Project::new(&[
        ("workflows/triage.yaml", TRIAGE),
        ("workflows/broken.json", "{\"workflow\": \"broken\"}"),
    ]);
    for mut client in clients(&project) {
        let tool = done(&mut client, "workflow.list", json!({}));
        let of_tool = |name: &Value| {
            let files = list(&tool["workflows"]);
            let is_it = |file: &&Value| file["workflow_id"] == *name;
            files.iter().find(is_it).unwrap().clone()
        };
        let manifests = list(&value(&mut client, "manifests"));
        assert_eq!(json!(manifests.len()), tool["total"]);
        for manifest in &manifests {
            let of_tool = of_tool(&manifest["workflow_id"]);
            let fields = manifest.as_object().unwrap();
            let names: Vec<_> = fields.keys().map(String::as_str).collect();
            assert_eq!(names, ["workflow_id", "title", "description", "path", "format", "version"]);
            assert!(fields.iter().all(|(name, value)| of_tool[name] == *value));
        }
        // The nearest first.
        let first = each(&manifests[..2], "workflow_id");
        assert_eq!(first, ["broken", "triage"]);

        let commands = done(&mut client, "command.list", json!({}))["commands"].take();
        let mut shown = list(&value(&mut client, "command-catalog"));
        shown.sort_by_key(|command| text(&command["id"]).to_owned());
        assert_eq!(json!(shown), commands);
        let providers = done(&mut client, "provider.list", json!({}))["providers"].take();
        assert_eq!(value(&mut client, "provider-catalog"), providers);

        let uri = "midex://authoring/manifests?limit=1&query=triage";
        let page = client.result("resources/read", json!({ "uri": uri }));
        assert!(page["contents"][0].get("_meta").is_none(), "{page}");
        let uri = "midex://authoring/manifests?limit=1";
        let page = client.result("resources/read", json!({ "uri": uri }));
        let next = text(&page["contents"][0]["_meta"]["next"]);
        assert_eq!(next, "midex://authoring/manifests?limit=1&after=broken");
        let page: Value = serde_json::from_str(text(&read(&mut client, next)["text"])).unwrap();
        assert_eq!(each(&list(&page), "workflow_id"), ["triage"]);
        let many = format!("{ROOT}manifests?limit={}", limits::WORKFLOWS_LISTED_MAX + 1);
        let error = client.error("resources/read", json!({ "uri": many }));
        assert_eq!(error["data"]["error_code"], "ARGUMENTS_INVALID", "{error}");
    }
}

#[test]
fn a_manifest_is_its_text_byte_for_byte() {
    let odd = format!("\u{feff}# mine\r\n{}", TRIAGE.replace('\n', "\r\n"));
    let json = "{ \"workflow\": \"j\", \"description\": \"d\",\n \"steps\": [{ \"id\": \"a\", \"guidance\": \"x\" }] }";
    let markdown = midex_test::project::workflow("m", &[("a", "reviewer", &[])]);
    let project = Project::new(&[
        ("workflows/triage.yaml", &odd),
        ("workflows/j.json", json),
        ("workflows/m.md", &markdown),
        ("workflows/large.yaml", &"#".repeat(2 << 20)),
    ]);
    for mut client in clients(&project) {
        for (id, media_type, content) in [
            ("triage", "application/yaml", &*odd),
            ("j", "application/json", json),
            ("m", "text/markdown", &markdown),
            (
                "app-scaffold",
                "application/yaml",
                include_str!("../../../workflows/app-scaffold.yaml"),
            ),
        ] {
            let uri = format!("{ROOT}manifest/{id}");
            let shown = read(&mut client, &uri);
            has_fields(&shown, json!({ "mimeType": media_type, "text": content }));
            let tool = done(&mut client, "workflow.read", json!({ "uri": uri }));
            assert_eq!(tool["content"], content);
        }
        let mut refused = |path: &str| {
            let uri = format!("{ROOT}{path}");
            let error = client.error("resources/read", json!({ "uri": uri }));
            let action = text(&error["data"]["suggested_action"]).to_owned();
            (text(&error["data"]["error_code"]).to_owned(), action)
        };
        let (code, action) = refused("manifest/triag");
        assert_eq!(code, "WORKFLOW_NOT_FOUND");
        assert_eq!(
            action,
            "Call workflow.read with uri 'midex://authoring/manifest/triage': if that is the one meant"
        );
        let (code, action) = refused("manifest/nothing-like-it");
        assert_eq!(code, "WORKFLOW_NOT_FOUND");
        assert!(action.contains("workflow.list"), "{action}");
        // Its file is there, and no text that could be shown.
        assert_eq!(refused("manifest/large").0, "WORKFLOW_VALIDATION_FAILED");
        let (code, action) = refused("scheme");
        assert_eq!(code, "RESOURCE_NOT_FOUND");
        assert_eq!(
            action,
            "Call workflow.read with uri 'midex://authoring/schema': if that is the one meant"
        );
        assert_eq!(refused("tui-spec").0, "RESOURCE_NOT_FOUND");
    }
}

#[test]
fn results_say_how_long_they_may_be_kept_and_names_are_completed() {
    let project = Project::new(&[("workflows/triage.yaml", TRIAGE)]);
    let mut client = Reader::new(&project, ERAS[1], "other", &[]);
    let lasting = u64::try_from(limits::KEPT_WITH_SERVER.as_millis()).unwrap();
    for (path, ttl) in [
        ("spec", lasting),
        ("schema", lasting),
        ("errors", lasting),
        ("provider-catalog", 0),
        ("manifests", 0),
        ("manifest/triage", 0),
        ("command-catalog", 0),
    ] {
        let uri = format!("{ROOT}{path}");
        let result = client.result("resources/read", json!({ "uri": uri }));
        assert_eq!(result["ttlMs"], ttl, "{path}");
        assert_eq!(result["cacheScope"], "private", "{path}");
    }
    for mut client in clients(&project) {
        let mut complete = |uri: &str, name: &str, begun: &str| {
            let params = json!({ "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": name, "value": begun } });
            list(&client.result("completion/complete", params)["completion"]["values"])
        };
        let manifest = "midex://authoring/manifest/{workflow_id}";
        assert_eq!(complete(manifest, "workflow_id", "Tri"), [json!("triage")]);
        let skill = "skill://agent/{name}/SKILL.md";
        assert_eq!(complete(skill, "name", "review"), [json!("reviewer")]);
    }
}

#[test]
fn they_are_of_the_toolset_author_and_skills_of_run() {
    let project = Project::new(&[("workflows/triage.yaml", TRIAGE)]);
    let count = |uris: &[String], root: &str| {
        let of_root = uris.iter().filter(|uri| uri.starts_with(root));
        of_root.count()
    };
    for era in ERAS {
        for (sets, authors, skills) in [("run", false, true), ("author", true, false)] {
            let mut client = Reader::new(&project, era, "other", &["--toolsets", sets]);
            let (resources, templates) = (listed(&mut client), templates(&mut client));
            assert_eq!(count(&resources, ROOT), if authors { 6 } else { 0 });
            assert_eq!(count(&templates, ROOT), if authors { 3 } else { 0 });
            assert_eq!(count(&templates, "skill://"), if skills { 2 } else { 0 });
            let listed = client.result("skills/list", json!({}));
            assert_eq!(list(&listed["skills"]).is_empty(), !skills);
            for (uri, template, is_here) in [
                (
                    "midex://authoring/manifest/triage",
                    "midex://authoring/manifest/{workflow_id}",
                    authors,
                ),
                (
                    "skill://workflow/triage/SKILL.md",
                    "skill://workflow/{workflow_name}/SKILL.md",
                    skills,
                ),
            ] {
                if is_here {
                    read(&mut client, uri);
                    continue;
                }
                let complete = json!({ "ref": { "type": "ref/resource", "uri": template }, "argument": { "name": "x", "value": "" } });
                client.error("completion/complete", complete);
                let error = client.error("resources/read", json!({ "uri": uri }));
                assert_eq!(error["data"]["error_code"], "RESOURCE_NOT_FOUND");
                assert!(text(&error["message"]).ends_with(&format!("offers --toolsets {sets}")));
            }
        }
        let mut client = Reader::new(&project, era, "other", &["--toolsets", "run"]);
        let spec = json!({ "uri": " midex://authoring/spec" });
        let refused = super::refused(&mut client, "workflow.read", spec);
        assert_eq!(refused["error_code"], "RESOURCE_NOT_FOUND", "{refused}");
    }
}

/// Reads lines until each of these addresses was told of.
fn told(server: &mut Server, uris: &[&str]) {
    let mut uris = uris.to_vec();
    while !uris.is_empty() {
        let line = server.next_line();
        if line["method"] == "notifications/resources/updated" {
            uris.retain(|uri| line["params"]["uri"] != *uri);
        }
    }
}

#[test]
fn a_save_is_told_to_those_who_subscribed_in_both_eras() {
    let followed = [
        "midex://authoring/manifests",
        "midex://authoring/manifest/triage",
        "midex://authoring/command-catalog",
        "skill://workflow/triage/SKILL.md",
    ];
    let project = Project::new(&[]);
    let mut session = project.serve();
    for uri in followed {
        session.post("resources/subscribe", json!({ "uri": uri }));
    }
    let save = |session: &mut Server, manifest: &str| {
        let arguments = json!({ "manifest": manifest, "overwrite": true });
        let call = json!({ "name": "workflow.save", "arguments": arguments });
        session.post("tools/call", call);
    };
    save(&mut session, TRIAGE);
    told(&mut session, &followed);

    let mut stateless = Server::run(project.command(&["serve"]));
    stateless.post(
        "subscriptions/listen",
        json!({
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
            },
            "notifications": { "resourceSubscriptions": followed }
        }),
    );
    while stateless.next_line()["method"] != "notifications/subscriptions/acknowledged" {}
    save(&mut session, &TRIAGE.replace("Sort a bug", "Look at a bug"));
    told(&mut stateless, &followed);
    told(&mut session, &followed);
    // A comment changes nothing but the text.
    save(&mut session, &format!("# mine\n{}", TRIAGE.replace("Sort a bug", "Look at a bug")));
    told(&mut stateless, &followed[..2]);
    told(&mut session, &followed[..2]);
}
