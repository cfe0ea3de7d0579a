//! What providers of inputs are given, as authors are told of it over MCP: worked out from other inputs, asked for, left out.

use serde_json::{Value, json};

use midex_test::{
    Client, Server,
    project::{Project, list},
    service::{self, Seen, Service},
    shop::document,
};

/// An address of a customer is chosen; the customer comes from another input.
fn manifest(given: &str, more: &str) -> String {
    format!(
        "workflow: send\ndescription: d\ninputs:\n  owner: {{ type: object, optional: true }}\n  who: {{ provider: shop customers:list, type: string }}\n  address: {{ provider: shop customers:addresses:list, select: {{ value_field: address.id }}, {given}, {more} }}\nsteps: [{{ id: a, guidance: '${{{{ inputs.address }}}} ${{{{ inputs.who }}}} ${{{{ inputs.owner }}}}' }}]\n"
    )
}

/// What the shop lists.
fn lists(seen: &Seen) -> service::Reply {
    let listed = match seen.target() {
        "/api/customers" => json!([{ "id": "c-1", "name": "Ann" }]),
        _ => json!({ "addresses": [{ "address": { "id": "a-1" }, "label": "home" }] }),
    };
    service::json(200, &listed)
}

/// A server whose user has the shop.
async fn shop() -> (Service, Project, Server) {
    let service = Service::new(lists).await;
    let project = Project::new(&[]);
    let catalog = "home/.config/midex/catalogs/shop";
    project.write(&format!("{catalog}/document.yaml"), &document().to_string());
    let (host, url) = (&service.host, service.url());
    let settings = format!(
        "title = \"Shop\"\nvendor = \"shop\"\nbase_url = \"{url}/api\"\nallow = [\"{host}\"]\n"
    );
    project.write(&format!("{catalog}/catalog.toml"), &settings);
    let server = project.serve();
    (service, project, server)
}

fn resolved(server: &mut Server, manifest: &str, inputs: Value) -> Value {
    let arguments = json!({ "manifest": manifest, "inputs": inputs });
    server.done("workflow.resolve_inputs", arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_providers_are_resolved_asked_for_left_out_or_errors() {
    let (_service, _project, mut server) = shop().await;
    let template = "provider_args: { customer: '${{ inputs.who }}' }";
    let bound = |more: &str| {
        format!("provider_args: {{ customer: {{ from_input: owner, path: id{more} }} }}")
    };
    let prompt = |required: bool, path: &str| {
        let reason = format!("`{path}` has no value");
        json!({ "status": "prompt", "required": required, "reason": reason, "path": path })
    };
    let value = |value: Value| json!({ "status": "resolved", "value": value });
    let given = json!({ "who": "c-1" });
    let owned = json!({ "who": "c-1", "owner": { "id": "c-2" } });
    for (written, inputs, outcome, is_ready) in [
        (template.to_owned(), given.clone(), value(json!("c-1")), true),
        (template.to_owned(), json!({}), prompt(true, "inputs.who"), false),
        (
            "depends_on: { customer: 'of ${{ inputs.who }}' }".to_owned(),
            given.clone(),
            value(json!("of c-1")),
            true,
        ),
        (
            "provider_args: { customer: c-5 }, depends_on: { customer: c-6 }".to_owned(),
            given.clone(),
            value(json!("c-5")),
            true,
        ),
        (bound(""), owned.clone(), value(json!("c-2")), true),
        // The contract says that the provider cannot do without it, and what stands there may say otherwise.
        (bound(""), given.clone(), prompt(true, "inputs.owner.id"), false),
        (bound(", required: false"), given.clone(), prompt(false, "inputs.owner.id"), false),
        (
            bound(", required: true"),
            given.clone(),
            json!({ "status": "error", "message": "`inputs.owner.id` has no value" }),
            false,
        ),
        (
            bound(", on_missing: skip"),
            given.clone(),
            json!({ "status": "skip", "reason": "`inputs.owner.id` has no value" }),
            true,
        ),
        // Nobody is asked for what a choice depends on that is made already.
        (
            bound(""),
            json!({ "who": "c-1", "address": "a-1" }),
            json!({ "status": "skip", "reason": "`address` has a value, so its provider is not asked" }),
            true,
        ),
        (
            "provider_args: { customer: '${{ inputs.who + 1 }}' }".to_owned(),
            given.clone(),
            Value::Null,
            false,
        ),
    ] {
        let manifest = manifest(&written, "optional: true");
        let resolved = resolved(&mut server, &manifest, inputs);
        let mut resolutions = list(&resolved["provider_resolutions"]);
        // What the provider lists stands beside them, without an argument.
        resolutions.retain(|one| one.get("argument").is_some());
        let [one] = resolutions.as_slice() else { panic!("{written}: {resolved}") };
        let found = &one["outcome"];
        match &outcome {
            Value::Null => assert_eq!(found["status"], "error", "{written}: {found}"),
            outcome => assert_eq!(found, outcome, "{written}"),
        }
        let source = if found["status"] == "prompt" { "manual" } else { "automatic" };
        assert_eq!(one["input"], "address", "{written}");
        assert_eq!(one["argument"], "customer", "{written}");
        assert_eq!(one["source"], json!(source), "{written}");
        assert_eq!(resolved["ready"], is_ready, "{written}: {resolved}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_says_what_choices_depend_on() {
    let (_service, _project, mut server) = shop().await;
    let given = "provider_args: { customer: '${{ inputs.who }}' }, depends_on: { country: { from_input: owner, path: country } }";
    let manifest = manifest(given, "type: string");
    let previewed = server.done("workflow.preview_inputs", json!({ "manifest": manifest }));
    let inputs = list(&previewed["inputs"]);
    let shown: Vec<_> =
        { inputs.iter() }.map(|input| (&input["provider"], &input["depends_on"])).collect();
    assert_eq!(
        shown,
        [
            (&Value::Null, &json!([])),
            (&json!("shop customers:list"), &json!([])),
            (&json!("shop customers:addresses:list"), &json!(["owner", "who"])),
        ]
    );
    // An execution keeps the definition with all of that, and asks no provider.
    let start =
        json!({ "manifest": manifest, "inputs": { "who": "c-1", "address": "a-1" }, "wait_s": 0 });
    let ran = server.done("workflow.run", start);
    assert_eq!(ran["status"], "running");
    assert!(ran["awaiting"].is_object(), "{ran}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_is_told_of_an_unknown_provider_with_the_nearest() {
    let (_service, _project, mut server) = shop().await;
    let manifest =
        manifest("provider_args: {}", "type: string").replace("customers:list", "custmers:list");
    let checked = server.done("workflow.validate", json!({ "manifest": manifest }));
    let violations = list(&checked["violations"]);
    let told: Vec<_> =
        { violations.iter() }.map(|one| (&one["rule"], &one["suggestion"]["text"])).collect();
    assert_eq!(
        told,
        [
            (&json!("unknown_provider"), &json!("did you mean `customers:list`?")),
            (&json!("missing_argument"), &json!("give `customer` under `provider_args`")),
        ]
    );
}
