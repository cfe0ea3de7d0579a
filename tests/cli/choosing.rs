//! `midex run` offers the values to choose from, as the providers of inputs list them.

use serde_json::json;

use super::{Place, Words};
use midex_test::{
    Fields, Shows,
    service::{self, Reply, Seen, Service},
};

/// Teams and the members of each; the shelf of tools is broken, and there are very many rooms.
fn staff(seen: &Seen) -> Reply {
    let listed = match seen.target() {
        "/teams" => {
            json!([{ "id": "t-1", "name": "Blue Team" }, { "id": "t-2", "name": "\u{1b}[31mRed" }])
        }
        "/teams/t-2/members" => json!([{ "id": 7, "name": "Ada" }, { "id": 8, "name": "Bob" }]),
        "/rooms" => (0..150).map(|room| json!({ "id": format!("r-{room}") })).collect(),
        _ => return service::json(500, &json!({ "message": "the shelf shakes" })),
    };
    service::json(200, &listed)
}

const PAY: &str = "workflow: pay
description: Pay somebody
inputs:
  team: { type: string, description: Who pays, provider: staff teams:list }
  members: { type: array, provider: staff teams:members:list, provider_args: { team: \"${{ inputs.team }}\" } }
  tool: { type: string, provider: staff tools:list }
  room: { type: string, provider: staff rooms:list }
  boss: { type: integer, optional: true, provider: staff teams:members:list, provider_args: { team: \"${{ inputs.team }}\" } }
steps:
  - { id: who, input: { properties: [boss] } }
  - { id: pay, guidance: \"Pay for ${{ inputs.team }}\" }
";

/// A place with the workflow and a catalog of the service.
async fn place() -> (Place, Service) {
    let service = Service::new(staff).await;
    let get = |parameters: serde_json::Value, id: &str| {
        let item = json!({ "type": "object", "properties": { "id": { "type": id }, "name": { "type": "string" } } });
        let schema = json!({ "type": "array", "items": item });
        let content = json!({ "application/json": { "schema": schema } });
        let responses = json!({ "200": { "description": "", "content": content } });
        json!({ "get": { "parameters": parameters, "responses": responses } })
    };
    let team =
        json!([{ "name": "team", "in": "path", "required": true, "schema": { "type": "string" } }]);
    let document = json!({
        "openapi": "3.0.3", "info": { "title": "Staff", "version": "1" }, "servers": [{ "url": service.url() }],
        "paths": {
            "/teams": get(json!([]), "string"), "/teams/{team}/members": get(team, "integer"),
            "/tools": get(json!([]), "string"), "/rooms": get(json!([]), "string")
        }
    });
    let place = Place::new();
    place.file("staff.json", &document.to_string());
    let allow = ["--allow", &service.host];
    place.done("catalog add staff.json --title Staff".and(allow.as_slice()));
    place.manifest(PAY);
    (place, service)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_lists_is_offered_where_its_input_is_asked_for() {
    let (place, service) = place().await;
    let mut terminal = place.terminal("run pay --id i");
    let shown = terminal.expect("team> ");
    shown.shows("Who pays (one of these)…t-1  Blue Team…t-2  …Red");
    assert!(!shown.contains("\u{1b}[31mRed"), "{shown:?}");
    // No other value is taken; what a person reads stands for its value.
    terminal.type_line("t-3");
    terminal.expect("type one of t-1, t-2");
    terminal.answer("team> ", "blue team");
    // The blue team has no members that can be listed: they are typed.
    let shown = terminal.expect("members> ");
    shown.shows("does not list the choices of…the shelf shakes; give");
    terminal.type_line("later");
    terminal.ends(1);
    assert!(service.seen().iter().any(|seen| seen.target() == "/teams/t-1/members"));

    let mut terminal = place.terminal("run pay --id i --input team=t-2");
    let shown = terminal.expect("members> ");
    shown.shows("7  Ada…8  Bob");
    terminal.type_line("9");
    terminal.expect("type one of 7, 8");
    terminal.answer("...> ", "Bob");
    terminal.answer("...> ", "");
    terminal.answer("tool> ", "hammer");
    let shown = terminal.expect("room> ");
    shown.shows("r-0…r-99");
    // There are more than are listed, so any value is taken.
    terminal.type_line("r-149");
    // A step asks for the boss, who is one of the team.
    let shown = terminal.expect("boss> ");
    shown.shows("[1/2] who…7  Ada…8  Bob");
    terminal.type_line("ada");
    terminal.expect("pay> ");
    terminal.type_line("later");
    terminal.ends(1);
    let inputs =
        json!({ "team": "t-2", "members": [8], "tool": "hammer", "room": "r-149", "boss": 7 });
    place.inputs("i").has_fields(inputs);
}
