//! Where the operations of a catalog are called: at the servers of the document, and at the base URL alone once the user
//! set one.

use std::fs;

use serde_json::{Value, json};

use super::tools::{document, reply};
use midex_test::{Client, Server, project::Project, service::Service};

/// The document of the shop with another server for each operation but the list of orders.
fn document_with_servers(main: &str, own: &str) -> String {
    let mut document: Value = serde_json::from_str(&document(main)).unwrap();
    let servers = json!([{ "url": format!("http://{own}/api") }]);
    document["paths"]["/orders"]["post"]["servers"] = servers.clone();
    document["paths"]["/orders/{order}"]["servers"] = servers;
    document.to_string()
}

/// A catalog of that document, its two services, and a third one for tests.
struct Shop {
    main: Service,
    own: Service,
    sandbox: Service,
    project: Project,
    server: Server,
}

impl Shop {
    async fn open() -> Self {
        let [main, own, sandbox] =
            [Service::new(reply).await, Service::new(reply).await, Service::new(reply).await];
        let project = Project::new(&[]);
        let text = document_with_servers(&main.host, &own.host);
        project.write("shop.json", &text);
        let server = project.serve();
        Self { main, own, sandbox, project, server }
    }

    fn import(&mut self, more: Value) -> Value {
        let mut import = json!({ "source": "shop.json", "catalog_title": "Shop" });
        let more = more.as_object().cloned().unwrap_or_default();
        import.as_object_mut().unwrap().extend(more);
        let imported = self.server.done("catalog.import_openapi", import);
        let hosts = [&self.main.host, &self.own.host, &self.sandbox.host];
        let allow = format!("allow = {hosts:?}\n");
        self.edit(|text| {
            let missing = if text.contains("allow =") { "" } else { &allow };
            format!("{missing}{text}")
        });
        imported
    }

    fn edit(&self, change: impl FnOnce(String) -> String) {
        let path = "home/.config/midex/catalogs/shop/catalog.toml";
        let path = self.project.path(path);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }

    fn sandbox_url(&self) -> String {
        format!("http://{}/api", self.sandbox.host)
    }

    /// Calls three operations; how many requests each service got for them: main, own, sandbox.
    fn call_all(&mut self) -> [usize; 3] {
        let counts = |shop: &Self| {
            [&shop.main, &shop.own, &shop.sandbox].map(|service| service.seen().len())
        };
        let before = counts(self);
        let body = json!({ "item": "tea" });
        for (tool, arguments) in [
            ("command.run_safe", json!({ "id": "shop orders:list" })),
            ("command.run", json!({ "id": "shop orders:create", "body": body })),
            ("command.run_safe", json!({ "id": "shop orders:info", "with": { "order": "o-1" } })),
        ] {
            self.server.done(tool, arguments);
        }
        let after = counts(self);
        [0, 1, 2].map(|at| after[at] - before[at])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_url_that_the_user_set_replaces_every_server_and_stays_through_a_refresh() {
    let mut shop = Shop::open().await;
    let imported = shop.import(json!({}));
    let [main, own] = [&shop.main, &shop.own].map(|service| format!("http://{}/api", service.host));
    assert_eq!(
        imported["addresses"],
        json!([{ "base_url": own, "operations": 3 }, { "base_url": main, "operations": 1 }])
    );
    assert_eq!(shop.call_all(), [1, 2, 0], "as the document says");

    let url = shop.sandbox_url();
    let set = json!({ "catalog_id": "shop", "base_url": url });
    let set = shop.server.done("catalog.set_base_url", set);
    let all = json!([{ "base_url": url, "operations": 4 }]);
    assert_eq!(set["addresses"], all);
    assert_eq!(shop.call_all(), [0, 0, 3]);

    let refresh = json!({ "catalog_id": "shop", "apply": true });
    shop.server.done("catalog.refresh", refresh);
    assert_eq!(shop.call_all(), [0, 0, 3], "after a refresh");
    let again = shop.import(json!({ "overwrite": true }));
    assert_eq!(again["addresses"], all);
    assert_eq!(shop.call_all(), [0, 0, 3], "after a further import");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_url_of_the_import_or_written_into_the_file_replaces_every_server() {
    let mut shop = Shop::open().await;
    let url = shop.sandbox_url();
    let imported = shop.import(json!({ "base_url": url }));
    assert_eq!(imported["addresses"], json!([{ "base_url": url, "operations": 4 }]));
    assert_eq!(shop.call_all(), [0, 0, 3]);

    let mut shop = Shop::open().await;
    shop.import(json!({}));
    let (main, sandbox) = (shop.main.host.clone(), shop.sandbox.host.clone());
    shop.edit(|text| {
        let base_url = format!("base_url = \"http://{main}/api\"");
        assert!(text.contains(&base_url), "{text}");
        text.replace(&base_url, &format!("base_url = \"http://{sandbox}/api\""))
    });
    assert_eq!(shop.call_all(), [0, 0, 3]);
}
