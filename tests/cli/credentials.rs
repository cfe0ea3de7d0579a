//! What a service asks for beside headers: keys in a query or a cookie, a user with a password; and where their secrets come
//! from.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use super::{Place, Ran, Running, Words};
use midex_test::{
    Fields,
    service::{self, Reply, Seen, Service},
};

fn document(url: &str) -> Value {
    let one = |scheme: &str| json!({ "get": { "security": [{ scheme: [] }], "responses": {} } });
    json!({
        "openapi": "3.0.3", "info": { "title": "Weather of Town", "version": "1" }, "servers": [{ "url": url }],
        "components": { "securitySchemes": {
            "key": { "type": "apiKey", "in": "query", "name": "api_key" },
            "crumb": { "type": "apiKey", "in": "cookie", "name": "sid" },
            "login": { "type": "http", "scheme": "basic" }
        } },
        "paths": {
            "/query": one("key"), "/cookie": one("crumb"), "/basic": one("login"),
            "/odd": { "get": { "responses": {} } }
        }
    })
}

/// It takes a call that has the right secret at its place.
fn weather(seen: &Seen) -> Reply {
    let is_in = match seen.target().split('?').next().unwrap() {
        "/query" => seen.target() == "/query?api_key=k7-secret",
        "/cookie" => seen.header("cookie") == Some("sid=c-secret"),
        "/basic" => seen.header("authorization") == Some("Basic bWU6aHVudGVyMg=="),
        _ => {
            let body = json!({ "detail": [{ "loc": ["body", "qty"], "msg": "not an integer" }] });
            return service::json(422, &body);
        }
    };
    if is_in {
        service::json(200, &json!({ "sun": true }))
    } else {
        service::json(401, &json!({ "fault": "who are you?" }))
    }
}

struct Town {
    place: Place,
    service: Service,
}

impl Town {
    async fn open() -> Self {
        let (place, service) = (Place::new(), Service::new(weather).await);
        place.file("weather.json", &document(&service.url()).to_string());
        place.done(&["catalog", "add", "weather.json", "--allow", &service.host]);
        Self { place, service }
    }

    /// Writes the user's file of secrets.
    fn keep(&self, text: &str) {
        let path = self.place.dir.path().join("midex/secrets");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn with_key(&self, code: i32, args: impl Words) -> Ran {
        let mut command = self.place.command(args);
        command.env("MIDEX_SECRET_ENV", "TOWN_KEY").env("TOWN_KEY", "k7-secret");
        Running::start(command).end().ends(code)
    }
}

const ID: &str = "weather-of-town";

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_set_by_the_name_of_its_scheme_and_goes_where_the_document_says() {
    let town = Town::open().await;
    let place = &town.place;
    let listed = place.json(&["catalog", "show", ID]);
    assert_eq!(listed["catalog"]["title"], "Weather of Town");
    place
        .ends(0, &["catalog", "show", ID])
        .shows("key (query `api_key`): not set…login (basic): not set");
    place.ends(0, &["catalog", "show", ID, "query:list"]).shows("key (query `api_key`): not set");
    // Following the help leads on.
    let command = "midex catalog credential weather-of-town key '${env:NAME}'";
    place.ends(1, "call 'weather-of-town query:list'").says(&["401", "who are you?", command]);
    let set = town.with_key(0, &["catalog", "credential", ID, "key", "${env:TOWN_KEY}"]);
    set.shows(&["key (query `api_key`)", "env:TOWN_KEY", &town.service.url()]);
    let ran = town.with_key(0, "call 'weather-of-town query:list'");
    ran.shows("sun");
    town.with_key(0, &["catalog", "show", ID]).shows("key (query `api_key`): env:TOWN_KEY");
    // Without the variable the secret is missing, and the words say where it may stand.
    let missing = place.ends(1, "call 'weather-of-town query:list'");
    missing.says("${env:TOWN_KEY}…--secret-env TOWN_KEY…midex/secrets");
    for (scheme, value, operation) in
        [("crumb", "c-secret", "cookie:list"), ("login", "me:hunter2", "basic:list")]
    {
        let set = place.ends(0, &["catalog", "credential", ID, scheme, value]);
        set.says("stands in the catalog's file");
        let ran = place.ends(0, &["call", &format!("{ID} {operation}")]);
        ran.shows("sun");
        assert!(!ran.out.contains(value) && !ran.err.contains(value), "{ran:?}");
    }
    place.ends(0, &["catalog", "credential", ID, "crumb", ""]);
    place.ends(1, "call 'weather-of-town cookie:list'").says("401…weather-of-town crumb");
    let unknown = place.ends(1, &["catalog", "credential", ID, "kay", "x"]);
    unknown.says("it has: crumb, key, login");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_a_catalog_is_looked_for_in_the_users_file_where_its_variable_is_not_set() {
    let town = Town::open().await;
    town.place.done(&["catalog", "credential", ID, "key", "${env:TOWN_KEY}"]);
    let doctor = |code| town.place.ends(code, "doctor");
    doctor(0).shows("`env:TOWN_KEY`…midex/secrets");
    town.keep("TOWN_KEY=k7-secret\n");
    town.place.ends(0, "call 'weather-of-town query:list'").shows("sun");
    doctor(0).shows("TOWN_KEY from the file");
    // The variable comes first.
    town.keep("TOWN_KEY=another\n");
    town.with_key(0, "call 'weather-of-town query:list'").shows("sun");
    town.with_key(0, "doctor").shows("TOWN_KEY from the environment");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_said_is_shown_wherever_its_call_is_shown() {
    let town = Town::open().await;
    let said = "body.qty: not an integer";
    let ran = town.place.ends(1, "call 'weather-of-town odd:list'");
    ran.says(&["422", said]);
    let listed = town.place.rows("list calls");
    let row = &listed[0];
    assert_eq!(row["workflow_name"], "weather-of-town.odd.list", "{listed}");
    let id = row["execution_id"].as_str().unwrap();
    town.place.ends(0, &["show", id]).shows(&[said]);
    town.place.ends(0, "list calls").shows(&[id, "odd", "failed"]);
    let none = town.place.rows("list executions");
    assert_eq!(none, json!([]), "a call is no workflow's execution");
    let ran = town.place.midex("call 'weather-of-town odd:list' --json").ends(1);
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    error.has_fields(json!({ "/response_payload/detail/0/msg": "not an integer" }));
}
