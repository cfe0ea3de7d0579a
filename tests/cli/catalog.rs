//! `midex catalog`, with a service on loopback behind it.

use std::fs;

use serde_json::{Value, json};

use super::{Place, Ran, Running, Words};
use midex_test::{
    Client as _, Fields, Server, Shows as _,
    service::{self, Reply, Seen, Service},
};

/// A service of jars on a shelf, as its document has it.
fn document(url: &str) -> String {
    format!(
        r##"openapi: 3.0.3
info: {{title: Pantry, version: "2"}}
servers: [{{url: "{url}"}}]
paths:
  /jars:
    get:
      operationId: listJars
      summary: List the jars
      parameters:
        - {{name: full, in: query, schema: {{type: boolean}}}}
        - {{name: room, in: query, description: Where to look, schema: {{type: string}}}}
      responses: {{"200": {{description: Jars}}}}
    post:
      summary: Put a jar on the shelf
      requestBody:
        required: true
        content:
          application/json:
            schema: {{$ref: "#/components/schemas/Jar"}}
      responses: {{"201": {{description: It stands there}}}}
  /jars/{{jar}}:
    parameters: [{{name: jar, in: path, required: true, schema: {{type: integer}}}}]
    get:
      summary: Look at a jar
      responses: {{"200": {{description: A jar}}}}
    delete:
      summary: Throw a jar away
      responses: {{"204": {{description: It is gone}}}}
components:
  securitySchemes:
    key: {{type: apiKey, in: query, name: shelf_key}}
  schemas:
    Jar:
      type: object
      required: [label]
      properties:
        label: {{type: string}}
        grams: {{type: integer}}
        tags: {{type: array, items: {{type: string}}}}
"##
    )
}

/// What the service answers.
fn shelf(seen: &Seen) -> Reply {
    let (method, target) = (seen.line.split(' ').next().unwrap(), seen.target());
    match (method, target.split('?').next().unwrap()) {
        ("GET", "/jars") => service::json(
            200,
            &json!([
                { "jar": 1, "label": "plums", "grams": 400, "tags": ["red"] },
                { "jar": 2, "label": "\u{1b}[31mfigs", "grams": null, "tags": [] }
            ]),
        ),
        ("POST", _) if seen.body.windows(6).any(|part| part == b"broken") => {
            service::json(500, &json!({ "message": "the shelf shakes" }))
        }
        ("GET", "/jars/11") => service::json(500, &json!({ "message": "the shelf shakes" })),
        // It never answers.
        ("POST", _) if seen.body.windows(4).any(|part| part == b"slow") => Reply::Bytes(Vec::new()),
        ("POST", _) => service::json(201, &serde_json::from_slice(&seen.body).unwrap()),
        ("DELETE", _) => service::answer(204, &[], b""),
        ("GET", "/jars/8") => service::answer(200, &[("content-type", "image/png")], &picture()),
        ("GET", "/jars/10") => {
            service::answer(200, &[("content-type", "image/png")], &picture()[..100])
        }
        // It never answers.
        ("GET", "/jars/7") => Reply::Bytes(Vec::new()),
        _ => service::json(404, &json!({ "message": "no jar of that number" })),
    }
}

/// Bytes that are no text, more than an output holds.
pub(super) fn picture() -> Vec<u8> {
    (0..=255).cycle().take(1_500_000).collect()
}

/// A project with the document of the service.
pub(super) struct Shop {
    pub(super) place: Place,
    pub(super) service: Service,
}

impl Shop {
    pub(super) async fn new() -> Self {
        let (place, service) = (Place::new(), Service::new(shelf).await);
        place.file("pantry.yaml", &document(&service.url()));
        Self { place, service }
    }

    /// The same, with the document imported.
    pub(super) async fn open() -> Self {
        let shop = Self::new().await;
        shop.place.done(&[
            "catalog",
            "add",
            "pantry.yaml",
            "--title",
            "Pantry",
            "--allow",
            &shop.service.host,
        ]);
        shop
    }

    #[track_caller]
    pub(super) fn ends(&self, code: i32, args: impl Words) -> Ran {
        self.place.ends(code, args)
    }

    pub(super) fn show(&self) -> Value {
        self.place.json("catalog show pantry")["catalog"].take()
    }

    fn settings(&self) -> String {
        let path = self.place.dir.path().join("midex/catalogs/pantry/catalog.toml");
        fs::read_to_string(path).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_allowed_with_the_document_is_not_warned_of() {
    let shop = Shop::new().await;
    let add = ["catalog", "add", "pantry.yaml", "--title", "Pantry", "--overwrite"];
    shop.ends(0, &add).says("calls are refused");
    let allowed = [&add[..], &["--allow", &shop.service.host]].concat();
    shop.ends(0, &allowed[..]).err.lacks("calls are refused");
    shop.ends(0, "call 'pantry jars:list'");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_looked_at_imported_and_listed() {
    let shop = Shop::new().await;
    let preview = shop.ends(0, "catalog preview pantry.yaml --title Pantry");
    preview.shows("pantry jars:list…List the jars…destructive…Nothing was written");
    shop.ends(0, "catalog list").shows("no catalogs…midex catalog add");
    let added = shop.ends(0, "catalog add pantry.yaml --title Pantry");
    added.shows(&["`pantry` has 4 commands", &shop.service.url(), "midex catalog show pantry"]);
    shop.ends(0, "catalog list").shows("pantry…refused…4…Pantry");
    let listed = shop.place.rows("catalog list");
    assert_eq!(listed[0]["operations"], 4, "{listed}");
    let shown = shop.ends(0, "catalog show Pantry --limit 1");
    shown.shows("refused…pantry.yaml…pantry jars:create…3 more: --limit 4 shows all");
    let one = shop.ends(0, "catalog show pantry jars:create");
    one.shows("POST /jars…label…required…integer…midex call 'pantry jars:create'");
    let again = shop.ends(1, "catalog add pantry.yaml --title pantry");
    again.says("CATALOG_CONFLICT…--overwrite");
    shop.ends(0, "catalog add pantry.yaml --title pantry --overwrite");
    shop.ends(1, "catalog show pantri").says("did you mean `pantry`?…midex catalog list");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_cannot_be_imported_is_drawn_where_it_breaks() {
    let shop = Shop::new().await;
    shop.place.file("old.yaml", "info: {title: Old}\nswagger: \"2.0\"\npaths: {}\n");
    shop.place.file("torn.yaml", "openapi: 3.0.3\npaths: [a, b\ninfo: {}\n");
    shop.place.file("bare.json", "{\n  \"openapi\": \"3.1.0\",\n  \"paths\": {}\n}\n");
    for (file, place) in [
        ("old.yaml", "old.yaml:2:1"),
        ("torn.yaml", "torn.yaml:3:"),
        ("bare.json", "bare.json:3:3"),
    ] {
        for command in ["preview", "add"] {
            let ran = shop.ends(1, &["catalog", command, file, "--title", "T"]);
            ran.says(&["error[", place, "error[OPENAPI_INVALID]"]);
            assert_eq!(ran.out, "");
        }
        let ran = shop.ends(1, &["catalog", "add", file, "--title", "T", "--json"]);
        let said: Value = serde_json::from_str(&ran.err).expect("JSON");
        assert_eq!(said["error_code"], "OPENAPI_INVALID");
    }
    assert_eq!(shop.place.rows("catalog list"), json!([]));
    shop.ends(2, "catalog add absent.yaml --title T")
        .says("there is no file…Name a file that is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_to_the_service_and_stands_in_no_file() {
    const SECRET: &str = "canary-9b1d";
    let shop = Shop::open().await;
    let set =
        shop.ends(0, "catalog headers pantry 'Authorization=Bearer ${env:SHELF_KEY}' X-Room=7");
    set.shows(&[
        "Authorization",
        "env:SHELF_KEY",
        &format!("They go to {}", shop.service.url()),
        "--secret-env SHELF_KEY",
    ]);
    let call = "call 'pantry jars:list'";
    shop.ends(1, call).says("SHELF_KEY…--secret-env…midex catalog headers pantry");
    let mut command = shop.place.command(call.and("--secret-env SHELF_KEY"));
    command.env("SHELF_KEY", SECRET);
    let ran = Running::start(command).end().ends(0);
    let seen = shop.service.only();
    assert_eq!(seen.header("authorization"), Some(&*format!("Bearer {SECRET}")));
    assert_eq!(seen.header("x-room"), Some("7"));
    let settings = shop.settings();
    assert!(settings.contains("${env:SHELF_KEY}") && !settings.contains(SECRET), "{settings}");
    assert!(!format!("{ran:?}").contains(SECRET));
    shop.ends(0, "doctor").shows("1 usable…env:SHELF_KEY…not there");
    let left = shop.place.json("catalog headers pantry Authorization=");
    assert_eq!(left["headers"].as_array().map(Vec::len), Some(1), "{left}");
    shop.ends(0, "catalog headers pantry X-Api-Key=plain").says("warning…${env:NAME}");
    shop.ends(0, "catalog headers pantry").shows("X-Api-Key…as it stands");
    shop.ends(0, "catalog headers pantry --replace").shows("no headers");
    shop.ends(2, "catalog headers pantry Authorization").says("NAME=VALUE");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_of_a_catalog_are_changed() {
    let shop = Shop::open().await;
    shop.ends(0, "catalog disable pantry").shows("disabled");
    shop.ends(0, "catalog list").shows("disabled");
    shop.ends(1, "call 'pantry jars:list'").says("disabled");
    shop.ends(0, "doctor").shows("catalogs…1 disabled");
    shop.ends(0, "catalog enable PANTRY").shows("4 commands");
    shop.ends(0, "catalog class pantry jars:delete safe").shows("`jars:delete`…safe");
    shop.ends(0, "call 'pantry jars:delete' --with jar=1");
    shop.ends(1, "catalog class pantry jars:nothing safe").says("jars:nothing");
    shop.ends(2, "catalog class pantry jars:delete harmless");
    shop.ends(0, "catalog allow pantry 10.0.0.1:80").shows("10.0.0.1:80");
    shop.ends(1, "catalog allow pantry 10.0.0.1");
    shop.ends(0, "catalog base-url pantry https://pantry.example/v2").shows("its headers go there");
    let shown = shop.show();
    assert_eq!(shown["base_url"], "https://pantry.example/v2");
    assert!(shown["allow"].to_string().contains("10.0.0.1:80"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_shows_the_difference_before_it_takes_the_document() {
    let shop = Shop::open().await;
    let other = document(&shop.service.url()).replace("delete:", "put:");
    shop.place.file("pantry.yaml", &other);
    let ran = shop.ends(0, "catalog refresh pantry");
    ran.shows("+ jars:update…- jars:delete…Nothing was changed…--apply");
    shop.ends(0, "catalog show pantry").shows("jars:delete");
    let mut terminal = shop.place.terminal("catalog refresh pantry");
    terminal.answer("does nothing: ", "n");
    terminal.ends(0);
    let answer = shop.place.json("catalog refresh pantry --apply");
    answer.has_fields(json!({ "applied": true, "removed": ["jars:delete"] }));
    shop.ends(0, "catalog show pantry").shows("jars:update");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_import_from_where_the_user_says() {
    let shop = Shop::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("pantry.yaml");
    fs::write(&path, document(&shop.service.url())).unwrap();
    let import = json!({ "source": path, "catalog_title": "Pantry" });
    let from = |flags: &str| {
        let mut command = shop.place.command("serve".and(flags));
        command.stdin(std::process::Stdio::piped());
        let mut server = Server::run(command);
        server.shake_hands();
        server.call("catalog.import_openapi", import.clone())
    };
    let refused = from("");
    refused.has_fields(json!({ "/structuredContent/error_code": "SOURCE_REFUSED" }));
    let done = from(&format!("--import-from {}", elsewhere.path().display()));
    assert_eq!(done["structuredContent"]["command_count"], 4, "{done}");
    // A person may name any file.
    shop.ends(0, &["catalog", "add", path.to_str().unwrap(), "--title", "Other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_catalog_is_told() {
    let shop = Shop::open().await;
    shop.place.manifest("workflow: look\ndescription: Looks\nsteps:\n  - id: wait\n    wait: {signal: go}\n  - id: read\n    run: pantry jars:list\n    depends_on: [wait]\n");
    let mut command = shop.place.command("serve");
    command.stdin(std::process::Stdio::piped());
    let mut server = Server::run(command);
    server.shake_hands();
    server.begin_with(json!({ "workflow_name": "look", "execution_id": "look-1" }));
    shop.ends(0, "catalog disable pantry");
    shop.ends(0, "signal look-1 go");
    super::until(
        || shop.place.done("show look-1").contains("waits for the catalog `pantry`"),
        "it waits",
    );
    shop.ends(0, "doctor").shows("1 execution wait…look-1…midex catalog enable pantry");
    shop.ends(0, "catalog enable pantry");
    super::until(|| shop.place.done("show look-1").contains("completed"), "it goes on");
}
