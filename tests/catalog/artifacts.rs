//! Answers that are too large for an output are kept as artifacts, and are read back to the byte.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use midex_domain::limits;
use serde_json::{Value, json};

use super::tools::no_file_holds;
use midex_test::{
    Client, Server, has_fields,
    project::{Project, each, list},
    says,
    service::{Reply, Seen, Service},
};

const CANARY: &str = "canary-51b7e02ac4";

/// A gallery: pictures, texts and rows of any size.
fn document(host: &str) -> String {
    let size =
        json!({ "name": "size", "in": "path", "required": true, "schema": { "type": "integer" } });
    let read = |summary: &str, content: Value, headers: Value| {
        json!({ "parameters": [size], "get": { "summary": summary, "responses": { "200": {
            "description": "", "content": content, "headers": headers } } } })
    };
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Gallery", "version": "1" },
        "servers": [{ "url": format!("http://{host}") }],
        "paths": {
            "/pictures/{size}": read("A picture", json!({ "image/png": {} }), json!({})),
            "/texts/{size}": read("A text", json!({ "text/csv": {} }), json!({})),
            "/rows/{size}": read("Rows", json!({ "application/json": {} }), json!({ "Link": { "schema": {} } }))
        }
    })
    .to_string()
}

/// Bytes that are no text, with the secret that the request brought in their midst.
fn picture(size: usize, secret: &str) -> Vec<u8> {
    let noise = (0..size).map(|at| u8::try_from(at * at % 251 + 5).unwrap());
    let mut bytes: Vec<u8> = noise.collect();
    let middle = size / 2;
    bytes.splice(middle..middle, [&[0xff, 0x80], secret.as_bytes()].concat());
    bytes
}

fn text(size: usize) -> String {
    "zwölf;Boxkämpfer\n".repeat(size / 19 + 1)[..].chars().take(size).collect()
}

fn rows(size: usize) -> Value {
    let row = |id| json!({ "id": id, "more": "x".repeat(80) });
    (0..size / 100).map(row).collect()
}

fn reply(seen: &Seen) -> Reply {
    let (path, page) = seen.target().split_once('?').unwrap_or((seen.target(), ""));
    let (kind, size) = path.trim_start_matches('/').split_once('/').unwrap();
    let size = size.parse().unwrap();
    let secret = seen.header("x-key").unwrap_or_default();
    match kind {
        "pictures" => {
            let named = [
                ("content-type", "image/png"),
                ("content-disposition", "attachment; filename=\"../a shot.png\""),
            ];
            midex_test::service::answer(200, &named, &picture(size, secret))
        }
        "texts" => {
            let media_type = [("content-type", "text/csv; charset=utf-8")];
            midex_test::service::answer(200, &media_type, text(size).as_bytes())
        }
        _ => {
            let next = format!("<{path}?page=2>; rel=\"next\"");
            let link = ("link", if page.is_empty() { &next } else { "<x>; rel=last" });
            // Another list than the page before it had.
            let body = if page.is_empty() { rows(size) } else { rows(size + 100) };
            let headers = [("content-type", "application/json"), link];
            midex_test::service::answer(200, &headers, body.to_string().as_bytes())
        }
    }
}

struct Gallery {
    project: Project,
    server: Server,
    _service: Service,
}

impl Gallery {
    async fn open(files: &[(&str, &str)]) -> Self {
        let service = Service::new(reply).await;
        let project = Project::new(files);
        project.write("gallery.json", &document(&service.host));
        let mut server = serve(&project);
        let import = json!({ "source": "gallery.json", "catalog_title": "Gallery" });
        server.done("catalog.import_openapi", import);
        let settings = project.path("home/.config/midex/catalogs/gallery/catalog.toml");
        let said = fs::read_to_string(&settings).unwrap();
        let (host, headers) = (&service.host, "[headers]\nX-Key = \"${env:GALLERY_KEY}\"\n");
        let said =
            format!("allow = [\"{host}\"]\norigins = [\"http://{host}\"]\n{said}\n{headers}");
        fs::write(settings, said).unwrap();
        Self { project, server, _service: service }
    }

    fn run(&mut self, operation: &str, size: usize) -> Value {
        self.server.done("command.run_safe", call(operation, size))
    }

    /// The bytes of an artifact, in parts of an odd length.
    fn content(&mut self, artifact: &Value) -> Vec<u8> {
        let (mut bytes, mut next) = (Vec::new(), Some(0));
        let uri = artifact["uri"].as_str().unwrap();
        while let Some(offset) = next {
            let part = format!("{uri}?offset={offset}&limit=65537");
            let part = self.server.read(&part);
            match part["content"].as_str() {
                Some(text) => bytes.extend_from_slice(text.as_bytes()),
                None => {
                    bytes.extend(BASE64_STANDARD.decode(part["base64"].as_str().unwrap()).unwrap());
                }
            }
            next = part["next_offset"].as_u64();
        }
        bytes
    }

    fn artifacts(&mut self, execution: &str) -> Vec<Value> {
        let all = format!("midex://workflow/workflow_artifacts/{execution}");
        list(&self.server.read(&all))
    }
}

fn serve(project: &Project) -> Server {
    let mut command = project.command(&["serve", "--secret-env", "GALLERY_KEY"]);
    command.env("GALLERY_KEY", CANARY);
    let mut server = Server::run(command);
    server.shake_hands();
    server
}

fn call(operation: &str, size: usize) -> Value {
    json!({ "id": format!("gallery {operation}"), "with": { "size": size } })
}

/// The picture as it is kept: its secret is covered.
fn covered(size: usize) -> Vec<u8> {
    picture(size, "${env:GALLERY_KEY}")
}

const WORKFLOW: &str = "workflow: look
description: Look at pictures and texts
requires: { catalogs: [{ vendor: gallery }] }
steps:
  - id: shot
    run: gallery pictures:info
    with: { size: 102400 }
  - id: words
    run: gallery texts:info
    with: { size: 200000 }
  - id: rows
    run: gallery rows:info
    with: { size: 200000 }
final_output:
  shot: '${{ steps.shot }}'
  words: '${{ steps.words.artifact.uri }}'
  last: '${{ steps.rows[1999].id }}'
";

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_a_command_are_an_artifact_that_is_read_back_to_the_byte_after_a_kill_too() {
    let mut gallery = Gallery::open(&[]).await;
    let ran = gallery.run("pictures:info", 100 << 10);
    has_fields(
        &ran["artifact"],
        json!({ "id": 1, "type": "file", "name": "a shot.png", "content_type": "image/png" }),
    );
    assert_eq!(ran["payload"], Value::Null, "{ran}");
    has_fields(&ran, json!({ "status_code": 200, "success": true }));
    assert_eq!(ran["headers"]["content-type"], "image/png");
    let expected = covered(100 << 10);
    assert_eq!(ran["artifact"]["size_bytes"], expected.len());
    assert!(gallery.content(&ran["artifact"]) == expected);
    let execution = ran["execution_id"].as_str().unwrap().to_owned();
    let listed = gallery.artifacts(&execution);
    assert_eq!(each(&listed, "uri"), [ran["artifact"]["uri"].as_str().unwrap()]);
    assert_eq!(each(&listed, "step_name"), ["call"]);

    gallery.server.kill();
    gallery.server = serve(&gallery.project);
    assert!(gallery.content(&ran["artifact"]) == expected);
    drop(gallery.server.close());
    no_file_holds(&gallery.project, CANARY);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_hand_over_bytes_and_texts_as_artifacts_and_json_whole() {
    let mut gallery = Gallery::open(&[("workflows/look.yaml", WORKFLOW)]).await;
    let run = json!({ "workflow_id": "look" });
    let mut ran = gallery.server.done("workflow.run", run);
    let execution = ran["execution_id"].as_str().unwrap().to_owned();
    while ran["state"] != "completed" {
        let wait = json!({ "execution_id": execution });
        ran = gallery.server.done("execution.wait", wait);
    }
    let output = &ran["final_output"];
    assert_eq!(output["last"], 1999, "{ran}");
    let listed = gallery.artifacts(&execution);
    let mut names = each(&listed, "name");
    names.sort_unstable();
    assert_eq!(names, ["200000", "a shot.png"], "{listed:?}");
    assert!(gallery.content(&output["shot"]["artifact"]) == covered(100 << 10));
    let words = json!({ "uri": output["words"] });
    assert!(gallery.content(&words) == text(200_000).as_bytes());
    let of_words = listed.iter().find(|one| one["step_name"] == "words").unwrap();
    assert_eq!(of_words["content_type"], "text/csv");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_for_a_reply_is_an_artifact_and_what_is_not_stands_in_it() {
    let mut gallery = Gallery::open(&[]).await;
    let ran = gallery.run("texts:info", 200_000);
    has_fields(&ran["artifact"], json!({ "name": "200000", "content_type": "text/csv" }));
    assert!(gallery.content(&ran["artifact"]) == text(200_000).as_bytes());

    let ran = gallery.run("rows:info", 200_000);
    assert_eq!(ran["artifact"]["content_type"], "application/json");
    let kept: Value = serde_json::from_slice(&gallery.content(&ran["artifact"])).unwrap();
    assert_eq!(kept, rows(200_000));

    let mut pages = call("rows:info", 40_000);
    pages["paginate"] = json!({ "max_pages": 3 });
    let ran = gallery.server.done("command.run_safe", pages);
    has_fields(
        &ran["artifact"],
        json!({ "name": "items.json", "content_type": "application/json" }),
    );
    has_fields(&ran, json!({ "pages": 2, "attempts": 2 }));
    let kept: Value = serde_json::from_slice(&gallery.content(&ran["artifact"])).unwrap();
    assert_eq!(list(&kept), [list(&rows(40_000)), list(&rows(40_100))].concat());

    let ran = gallery.run("pictures:info", 1000);
    assert_eq!(ran["artifact"], Value::Null, "{ran}");
    let shown = BASE64_STANDARD.encode(covered(1000));
    assert_eq!(ran["payload"], json!({ "content_type": "image/png", "base64": shown }));
    let ran = gallery.run("texts:info", 1000);
    assert_eq!(ran["payload"], text(1000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_past_what_an_artifact_may_have_fails_the_call() {
    let mut gallery = Gallery::open(&[]).await;
    let most = limits::CALL_ARTIFACT_BYTES_MAX;
    let around = covered(0).len();
    let ran = gallery.run("pictures:info", most - around);
    assert_eq!(ran["artifact"]["size_bytes"], most, "{ran}");
    let over = call("pictures:info", most - around + 1);
    let refused = gallery.server.refused("command.run_safe", over);
    assert_eq!(refused["context"]["failure_code"], "LIMIT_EXCEEDED", "{refused}");
    says(&refused["message"], most.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_is_set_where_its_secret_is_there() {
    let gallery = Gallery::open(&[]).await;
    let settings = gallery.project.path("home/.config/midex/catalogs/gallery/catalog.toml");
    let said = fs::read_to_string(&settings).unwrap();
    let more = "X-Line = \"${file:LINE}\"\nX-Other = \"${file:OTHER}\"\nX-Plain = \"1\"\nX-Two = \"${env:GALLERY_KEY} ${env:UNLISTED}\"\n";
    fs::write(&settings, said + more).unwrap();
    let secrets = gallery.project.path("home/.config/midex/secrets");
    fs::write(&secrets, "LINE=1\n").unwrap();
    let of = |mode: u32, gallery: &Gallery| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&secrets, fs::Permissions::from_mode(mode)).unwrap();
        let mut server = serve(&gallery.project);
        let listed = server.done("catalog.list", json!({}));
        let headers = list(&listed["catalogs"][0]["headers"]);
        let set = |header: &Value| (header["name"].to_string(), header["set"] == json!(true));
        headers
            .iter()
            .map(set)
            .filter(|(_, is_set)| *is_set)
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(0o600, &gallery), ["\"X-Key\"", "\"X-Line\"", "\"X-Plain\""]);
    // Others could read it, so it is not read.
    assert_eq!(of(0o644, &gallery), ["\"X-Key\"", "\"X-Plain\""]);
}
