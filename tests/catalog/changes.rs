//! Changes of catalogs: whatever is done to one, a call of another goes where it went, with what it had; and an import that
//! is broken off leaves the catalog whole.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use super::tools::{document, reply};
use midex_test::{Client, Server, long, project::Project, service::Service};

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Three catalogs of one document, each with a service and a header of its own.
struct Market {
    project: Project,
    server: Server,
    services: Vec<Service>,
    /// Which of them can be called.
    usable: [bool; 3],
}

impl Market {
    async fn open() -> Self {
        let mut services = Vec::new();
        for _ in NAMES {
            services.push(Service::new(reply).await);
        }
        let project = Project::new(&[]);
        for (name, service) in NAMES.iter().zip(&services) {
            project.write(&format!("{name}.json"), &document(&service.host));
        }
        let server = project.serve();
        let mut market = Self { project, server, services, usable: [true; 3] };
        for at in 0..NAMES.len() {
            market.import(at);
        }
        market
    }

    fn import(&mut self, at: usize) {
        let name = NAMES[at];
        let import = json!({ "source": format!("{name}.json"), "catalog_title": name });
        self.server.done("catalog.import_openapi", import);
        let headers = json!({ "catalog_id": name, "headers": { "X-Of": name } });
        self.server.done("catalog.set_headers", headers);
        let allow = format!("allow = [\"{}\"]\n", self.services[at].host);
        self.edit(at, |text| format!("{allow}{text}"));
        self.usable[at] = true;
    }

    fn edit(&self, at: usize, change: impl FnOnce(String) -> String) {
        let path = format!("home/.config/midex/catalogs/{}/catalog.toml", NAMES[at]);
        let path = self.project.path(&path);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }

    /// Does something to one of them.
    fn change(&mut self, dice: &mut long::Dice) -> String {
        let at = usize::try_from(dice.roll(3)).unwrap();
        let name = NAMES[at];
        let catalog = json!({ "catalog_id": name });
        let is_there = self.server.done("catalog.list", json!({}));
        let is_there = is_there.to_string().contains(&format!("\"catalog_id\":\"{name}\""));
        match dice.roll(5) {
            _ if !is_there => self.import(at),
            0 => {
                let remove = json!({ "catalog_id": name, "confirm": true, "remove_manifest": dice.roll(2) == 0 });
                self.server.done("catalog.remove", remove);
                self.usable[at] = false;
            }
            1 => {
                self.usable[at] = dice.roll(2) == 0;
                let enable = json!({ "catalog_id": name, "enabled": self.usable[at] });
                self.server.done("catalog.set_enabled", enable);
            }
            // Another title, by the user: the id stays.
            2 => self.edit(at, |text| {
                let lines = text.lines().map(|line| {
                    if line.starts_with("title") {
                        format!("title = \"{name} {}\"", dice.roll(9))
                    } else {
                        line.to_owned()
                    }
                });
                lines.collect::<Vec<_>>().join("\n") + "\n"
            }),
            3 => {
                self.server.done("catalog.refresh", json!({ "catalog_id": name, "apply": true }));
            }
            _ => {
                let class =
                    json!({ "catalog_id": name, "id": "orders:info", "class": "destructive" });
                self.server.done("catalog.set_class", class);
            }
        }
        format!("{catalog} {:?}", self.usable)
    }

    /// Calls each of them, and holds what its service saw to be its own.
    fn holds(&mut self, done: &str) {
        for (at, name) in NAMES.iter().enumerate() {
            let before = self.services[at].seen().len();
            let call = json!({ "id": format!("{name} orders:list") });
            let answer = self.server.call("command.run_safe", call);
            assert_eq!(answer["isError"] == false, self.usable[at], "{done}: {answer}");
            let seen = self.services[at].seen();
            assert_eq!(seen.len() - before, usize::from(self.usable[at]), "{done}");
            for seen in &seen[before..] {
                assert_eq!(seen.line, "GET /api/orders HTTP/1.1", "{done}");
                assert_eq!(seen.header("x-of"), Some(*name), "{done}");
            }
        }
    }
}

/// Fault 1 of the study: after a catalog was removed, calls of another one went to a third, with its credentials.
#[tokio::test(flavor = "multi_thread")]
async fn f1_what_is_done_to_one_catalog_changes_no_call_of_another() {
    let mut market = Market::open().await;
    let mut dice = long::Dice(long::seed(61));
    market.holds("at first");
    for _ in 0..long::rounds(25, 1_000) {
        let done = market.change(&mut dice);
        market.holds(&done);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_broken_off_leaves_the_catalog_as_it_was_or_as_it_is_to_be() {
    let small: Value = serde_json::from_str(&document("127.0.0.1:9")).unwrap();
    let mut large = small.clone();
    for number in 0..200 {
        large["paths"][format!("/things/{number}/parts")] = json!({ "get": { "responses": {} } });
    }
    let project = Project::new(&[]);
    let mut dice = long::Dice(long::seed(62));
    let (mut there, counts) = (0, [4, 204]);
    for round in 0..long::rounds(6, 100) {
        let next = usize::try_from(dice.roll(2)).unwrap();
        project.write("shop.json", &[&small, &large][next].to_string());
        let mut server = project.serve();
        let arguments =
            json!({ "source": "shop.json", "catalog_title": "Shop", "overwrite": true });
        let import = json!({ "name": "catalog.import_openapi", "arguments": arguments });
        server.post("tools/call", import);
        let within = Duration::from_millis(dice.roll(60));
        let _ = server.lines().recv_timeout(within);
        server.kill();
        let mut server = project.serve();
        let listed = server.done("catalog.list", json!({}));
        let found: Vec<_> = listed["catalogs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["operations"].as_u64().unwrap())
            .collect();
        let is_whole = match found[..] {
            [] => there == 0,
            [count] => count == there || count == counts[next],
            _ => false,
        };
        assert!(is_whole, "round {round}: {found:?} after {there}, to be {}", counts[next]);
        assert!(!listed.to_string().contains("cannot"), "{listed}");
        there = found.first().copied().unwrap_or(0);
        drop(server.close());
    }
}
