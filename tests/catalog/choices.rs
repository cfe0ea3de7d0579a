//! The values from which a person chooses, as the providers of inputs list them: told to agents, offered in forms.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use midex_catalog::CatalogPaths;
use midex_domain::{
    clock::{Clock, SeededIds, Timestamp},
    input::ProviderOutcome,
    limits,
};
use midex_registry::Manifest;
use midex_server::{
    app::{App, DefinitionSubject, Options},
    config::Config,
};
use serde_json::{Map, Value, json};

use super::api::Api;
use midex_test::{
    Client as _, Server, has_fields,
    project::{Project, list},
    says,
    service::{Reply, Seen, json as answer_json},
};

/// Teams in pages of two, the members of a team, and lists that are long, none, or no lists.
fn staff(seen: &Seen) -> Reply {
    let team = |id: u32, name: &str| json!({ "team": { "id": id, "name": name }, "key": format!("k{id}") });
    let (path, query) = seen.target().split_once('?').unwrap_or((seen.target(), ""));
    answer_json(
        200,
        &match (path, query) {
            ("/teams", "") => {
                json!({ "items": [team(1, "Blue"), team(2, "Red")], "next": "/teams?page=2" })
            }
            ("/teams", "page=2") => {
                json!({ "items": [team(3, "Red"), team(2, "Red")], "next": "/teams?page=3" })
            }
            ("/teams", _) => json!({ "items": [team(4, "Gold"), {}], "next": null }),
            ("/many", _) => (0..150).map(|id| json!({ "id": format!("m-{id}") })).collect(),
            ("/none", _) => json!([]),
            ("/one", _) => json!({ "id": "x" }),
            ("/broken", _) => {
                return answer_json(503, &json!({ "message": "the shelf shakes" }));
            }
            (path, query) => json!([{ "id": format!("{path}?{query}") }]),
        },
    )
}

/// The document of that service, and what every test of it begins with.
async fn open() -> Api {
    let get = |parameters: Value, schema: &Value| {
        json!({ "get": { "parameters": parameters, "responses": {
            "200": { "description": "", "content": { "application/json": { "schema": schema } } } } } })
    };
    let object = json!({ "type": "object", "properties": { "id": { "type": "string" } } });
    let listed = json!({ "type": "array", "items": object });
    let teams = json!({ "type": "object", "properties": {
        "next": { "type": "string" },
        "items": { "type": "array", "items": { "type": "object", "properties": {
            "key": { "type": "string" },
            "team": { "type": "object", "properties": { "id": { "type": "integer" }, "name": { "type": "string" } } } } } } } });
    let parameter = |name: &str, place: &str| json!({ "name": name, "in": place, "required": place == "path", "schema": { "type": "string" } });
    let paths = json!({
        "/teams": get(json!([]), &teams),
        "/teams/{team}/members": get(json!([parameter("team", "path"), parameter("role", "query"), parameter("trace", "header")]), &listed),
        "/many": get(json!([]), &listed), "/none": get(json!([]), &listed),
        "/one": get(json!([]), &listed), "/broken": get(json!([]), &listed)
    });
    Api::open(paths, staff).await
}

/// A workflow with these inputs.
fn manifest(inputs: &str) -> String {
    format!("workflow: pay\ndescription: d\ninputs:\n{inputs}steps: [{{ id: a, guidance: G }}]\n")
}

const TEAM: &str = "  team: { type: string, provider: api teams:list, select: { value_field: team.id, display_field: team.name, id_field: key } }\n";
const MEMBER: &str = "  member: { provider: api teams:members:list, provider_args: { team: '${{ inputs.team }}' } }\n";

/// What `workflow.resolve_inputs` says, and what it says of the choices of the first input.
fn resolve(api: &mut Api, inputs: &str, given: Value) -> (Value, Value) {
    let arguments = json!({ "manifest": manifest(inputs), "inputs": given });
    let resolved = api.done("workflow.resolve_inputs", arguments);
    let mut listings = list(&resolved["provider_resolutions"]);
    listings.retain(|one| one.get("argument").is_none());
    let first = listings.first().cloned().unwrap_or_default();
    (resolved, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_chosen_is_listed_from_all_pages_and_a_choice_makes_it_ready() {
    let mut api = open().await;
    let (resolved, listing) = resolve(&mut api, &format!("{TEAM}{MEMBER}"), json!({}));
    assert_eq!(
        listing,
        json!({
            "input": "team", "source": "manual",
            "outcome": { "status": "prompt", "required": true, "reason": "`team` has no value: give one of the choices", "path": "inputs.team" },
            "choices": [
                { "value": "1", "label": "Blue" }, { "value": "2", "label": "Red (k2)" },
                { "value": "3", "label": "Red (k3)" }, { "value": "4", "label": "Gold" }
            ]
        })
    );
    assert_eq!(api.targets(), ["/teams", "/teams?page=2", "/teams?page=3"]);
    assert_eq!(resolved["ready"], false);
    // What the choices of a member depend on is not known, so nothing is listed.
    let waiting = &resolved["provider_resolutions"][2];
    assert_eq!((&waiting["input"], &waiting["choices"]), (&json!("member"), &Value::Null));
    has_fields(&waiting["outcome"], json!({ "status": "prompt", "path": "inputs.team" }));

    let (resolved, listing) = resolve(&mut api, &format!("{TEAM}{MEMBER}"), json!({ "team": "2" }));
    has_fields(
        &listing,
        json!({ "source": "automatic", "outcome": { "status": "skip", "reason": "`team` has a value, so its provider is not asked" } }),
    );
    let member = &resolved["provider_resolutions"][2];
    assert_eq!(
        member["choices"],
        json!([{ "value": "/teams/2/members?", "label": "/teams/2/members?" }])
    );
    assert_eq!(
        (&resolved["ready"], &member["outcome"]["status"]),
        (&json!(false), &json!("prompt"))
    );

    let all = json!({ "team": "2", "member": "m" });
    let (resolved, _) = resolve(&mut api, &format!("{TEAM}{MEMBER}"), all);
    assert_eq!(resolved["ready"], true, "{resolved}");
    assert_eq!(api.service.seen().len(), 4, "nothing is asked about what has a value");
    assert_eq!(api.executions(), 0, "nothing of it is an execution");
    // Plans show no choices, so they call nobody.
    let arguments = json!({ "manifest": manifest(TEAM), "inputs": {} });
    api.done("workflow.step_plan", arguments);
    assert_eq!(api.service.seen().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_listed_is_an_error_with_why_and_leaves_nothing_ready() {
    let mut api = open().await;
    let one = |said: &str| format!("  x: {{ {said}, optional: true }}\n");
    for (said, status, ready, why) in [
        ("provider: api broken:list", "error", false, "the shelf shakes"),
        ("provider: api one:list", "error", false, "its answer is no list"),
        ("provider: api none:list", "resolved", true, ""),
        ("provider: api many:list, select: { value_field: id }", "resolved", true, ""),
        // An argument that it can do without is left out, but one is told that it has no value.
        (
            "provider: api teams:members:list, provider_args: { team: t, role: { from_input: y, on_missing: skip } }",
            "resolved",
            true,
            "",
        ),
        (
            "provider: api teams:members:list, provider_args: { team: t, role: { from_input: y } }",
            "resolved",
            false,
            "",
        ),
        (
            "provider: api teams:members:list, provider_args: { team: { from_input: y, on_missing: skip } }",
            "skip",
            true,
            "needs `team`, which is left out",
        ),
        (
            "provider: api teams:members:list, provider_args: { team: { from_input: y, required: true } }",
            "error",
            false,
            "`inputs.y` has no value",
        ),
        (
            "provider: api teams:members:list, provider_args: { team: t, trace: t }",
            "error",
            false,
            "`trace` is a header, which a provider is not given",
        ),
    ] {
        let inputs = format!("{}  y: {{ optional: true }}\n", one(said));
        let (resolved, listing) = resolve(&mut api, &inputs, json!({}));
        let outcome = &listing["outcome"];
        assert_eq!(
            (&outcome["status"], &resolved["ready"]),
            (&json!(status), &json!(ready)),
            "{said}: {resolved}"
        );
        let told = outcome["message"].as_str().or(outcome["reason"].as_str()).unwrap_or_default();
        assert!(told.contains(why), "{said}: {told}");
    }
    let (_, listing) = resolve(&mut api, &one("provider: api many:list"), json!({}));
    assert_eq!(list(&listing["choices"]).len(), limits::PROVIDER_CHOICES_MAX);
    assert_eq!(listing["has_more"], true);

    let class = json!({ "catalog_id": "api", "id": "teams:list", "class": "standard" });
    api.done("catalog.set_class", class);
    let before = api.service.seen().len();
    let (resolved, listing) = resolve(&mut api, TEAM, json!({}));
    says(
        &listing["outcome"]["message"],
        "`api teams:list` does not list the choices of `team`: it is standard, and only a safe operation lists choices; give `team` a value",
    );
    assert_eq!((&resolved["ready"], &listing["choices"]), (&json!(false), &Value::Null));
    assert_eq!(api.service.seen().len(), before, "it is not called");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_down_leaves_a_value_to_be_given() {
    let Api { service, project: _project, mut server } = open().await;
    drop(service);
    let arguments = |given: Value| json!({ "manifest": manifest(TEAM), "inputs": given });
    let resolved = server.done("workflow.resolve_inputs", arguments(json!({})));
    let listing = &resolved["provider_resolutions"][0];
    has_fields(listing, json!({ "input": "team", "/outcome/status": "error" }));
    says(&listing["outcome"]["message"], "give `team` a value, or call again");
    assert_eq!(resolved["ready"], false);
    let resolved = server.done("workflow.resolve_inputs", arguments(json!({ "team": "9" })));
    assert_eq!(resolved["ready"], true, "{resolved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_a_step_offers_what_a_provider_lists() {
    let mut api = open().await;
    let workflow = format!(
        "workflow: pay\ndescription: d\ninputs:\n{}  seats: {{ type: integer, optional: true, provider: api teams:list, select: {{ value_field: team.id }} }}\nsteps:\n  - {{ id: ask, input: {{ properties: [team, seats] }} }}\n  - {{ id: b, guidance: G }}\n",
        TEAM.replace("type: string", "type: string, optional: true")
    );
    api.project.write("workflows/pay.yaml", &workflow);
    let mut server = api.project.serve_asking();
    let id =
        server.post_call("workflow.start", json!({ "workflow_name": "pay", "execution_id": "e" }));
    let asked = next(&mut server, |line| line["method"] == "elicitation/create");
    let form = &asked["params"]["requestedSchema"]["properties"];
    has_fields(
        &form["team"],
        json!({ "enum": ["1", "2", "3", "4"], "enumNames": ["Blue", "Red (k2)", "Red (k3)", "Gold"] }),
    );
    // A form has no numbers to choose from.
    assert_eq!(form["seats"]["type"], "integer", "{form}");
    let content = json!({ "team": "3", "seats": 4 });
    server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": content } }));
    let answered = next(&mut server, |line| line["id"] == id && line["method"].is_null());
    assert_eq!(answered["result"]["structuredContent"]["step_name"], "b");
    // A model that does such a step is told who lists them.
    let started = api.done("workflow.start", json!({ "workflow_name": "pay" }));
    says(&started["instructions"], "workflow.resolve_inputs lists the choices of `api teams:list`");
    assert_eq!(started["input"]["properties"][0]["provider"], "api teams:list");
}

/// The next line of a server that is wanted; what else it writes is passed by.
fn next(server: &mut Server, is_wanted: impl Fn(&Value) -> bool) -> Value {
    std::iter::repeat_with(|| server.next_line()).find(is_wanted).unwrap()
}

/// A clock that a test sets.
#[derive(Debug, Default)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_milliseconds(self.0.load(Ordering::SeqCst))
    }
}

/// The user's catalogs of a project, in this process.
fn app(project: &Project, clock: &Arc<SetClock>) -> App {
    let mut config = Config::new(Some(project.path("data"))).unwrap();
    config.project_dir = project.root().to_path_buf();
    config.catalogs = Some(CatalogPaths {
        catalogs: project.path("home/.config/midex/catalogs"),
        published: None,
        cache: project.path("cache"),
    });
    App::with_options(Options::new(config, clock.clone(), Arc::new(SeededIds::new(1))))
}

/// Resolves the inputs of this manifest without any value; how many choices are listed.
async fn count_choices(app: &App, inputs: &str) -> usize {
    let subject = DefinitionSubject::Inline(Manifest::from_text(manifest(inputs), None));
    let definition = app.find_valid_definition(subject).await.unwrap();
    let resolved = app.resolve_inputs(&definition, Map::new()).await.unwrap();
    let counts = resolved.providers.iter().map(|one| match &one.outcome {
        ProviderOutcome::Error { message } => panic!("{message}"),
        _ => one.choices.as_ref().map_or(0, |listed| listed.choices.len()),
    });
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_questions_share_one_list_as_long_as_it_is_kept() {
    let api = open().await;
    let clock = Arc::new(SetClock::default());
    let app = app(&api.project, &clock);
    let kept = |name: &str, more: &str| {
        format!(
            "  {name}: {{ provider: api teams:members:list, provider_args: {{ team: t }}, cache_ttl_sec: 60{more} }}\n"
        )
    };
    // Two inputs choose from one list, and four callers ask for it at once.
    let inputs = kept("a", "") + &kept("b", ", type: string");
    let asked = tokio::join!(
        count_choices(&app, &inputs),
        count_choices(&app, &inputs),
        count_choices(&app, &inputs),
        count_choices(&app, &inputs)
    );
    assert_eq!(asked, (2, 2, 2, 2));
    assert_eq!(api.targets(), ["/teams/t/members"]);
    clock.0.store(59_999, Ordering::SeqCst);
    count_choices(&app, &kept("a", "")).await;
    assert_eq!(api.service.seen().len(), 1);
    clock.0.store(60_000, Ordering::SeqCst);
    count_choices(&app, &kept("a", "")).await;
    assert_eq!(api.service.seen().len(), 2, "it was kept for a minute");
    // Other arguments are another question, and without the key a list is used once.
    count_choices(&app, &kept("a", "").replace("team: t", "team: u")).await;
    count_choices(&app, &kept("a", "").replace(", cache_ttl_sec: 60", "")).await;
    assert_eq!(api.service.seen().len(), 4);
    app.stop().await.unwrap();
}
