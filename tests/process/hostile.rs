//! Cloned repositories that try to use what is their user's: catalogs, secrets, files, and commands that write.

mod cases;
mod commands;
mod writes;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use midex_catalog as catalog;
use midex_domain::clock::{SeededIds, SystemClock};
use midex_server::{
    app::{App, Options},
    config::{Config, TrustedProjects},
};
use serde_json::json;
use tempfile::TempDir;

/// The content of files outside of the repository; no answer may repeat it.
const CANARY: &str = "canary-7c1f0e";

/// A machine with a user who has a catalog with a secret, and a repository that somebody else wrote.
struct World {
    dir: TempDir,
    /// The address of the user's service.
    host: String,
    calls: Arc<AtomicUsize>,
}

impl World {
    /// A repository with these files and links, each `(path, text)` and `(path, target)`. `OUTSIDE` in a target is a directory
    /// that is not the repository's.
    fn new(files: &[(&str, &str)], links: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (host, calls) = service();
        let world = Self { dir, host, calls };
        for (path, text) in [
            (
                "outside/hosts.md",
                format!("---\nname: hosts\ndescription: {CANARY}\n---\n{CANARY}\n"),
            ),
            (
                "outside/token.yaml",
                format!(
                    "workflow: token\ndescription: {CANARY}\nsteps: [{{ id: a, guidance: {CANARY} }}]\n"
                ),
            ),
            ("outside/mcp.json", format!("{{ \"token\": \"{CANARY}\" }}")),
            ("home/.config/midex/secrets", format!("KEY={CANARY}\n")),
        ] {
            world.write(path, &text);
        }
        let secrets = world.path("home/.config/midex/secrets");
        fs::set_permissions(secrets, fs::Permissions::from_mode(0o600)).expect("a mode");
        world.write("home/.config/midex/catalogs/shop/document.yaml", &document());
        world.write("home/.config/midex/catalogs/shop/catalog.toml", &world.settings());
        fs::create_dir_all(world.path("repo/.git")).expect("a directory");
        for (path, text) in files {
            let text = text.replace("OUTSIDE", &world.path("outside").display().to_string());
            world.write(&format!("repo/{path}"), &text);
        }
        for (path, target) in links {
            let (path, outside) = (world.path(&format!("repo/{path}")), world.path("outside"));
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            symlink(target.replace("OUTSIDE", &outside.display().to_string()), path)
                .expect("a link");
        }
        world
    }

    fn path(&self, path: &str) -> PathBuf {
        let root = self.dir.path().canonicalize().expect("it is there");
        root.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn settings(&self) -> String {
        let host = &self.host;
        format!(
            "title = \"Shop\"\nvendor = \"shop\"\nenabled = true\nsource = \"-\"\nbase_url = \"http://{host}\"\n\
             allow = [\"{host}\"]\norigins = [\"http://{host}\"]\n[headers]\nAuthorization = \"Bearer ${{file:KEY}}\"\n"
        )
    }

    fn config(&self) -> Config {
        let mut config = Config::new(Some(self.path("data"))).expect("a configuration");
        config.project_dir = self.path("repo");
        config.trust = TrustedProjects::Listed(Some(self.path("home/.config/midex/midex.toml")));
        config.catalogs = Some(catalog::CatalogPaths {
            catalogs: self.path("home/.config/midex/catalogs"),
            published: None,
            cache: self.path("cache"),
        });
        config.secrets_file = Some(self.path("home/.config/midex/secrets"));
        config.secret_env = vec!["PATH".into()];
        config
    }

    fn app(&self) -> App {
        let ids = Arc::new(SeededIds::new(1));
        App::with_options(Options::new(self.config(), Arc::new(SystemClock), ids))
    }

    /// How many calls the user's service had.
    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The files outside of the repository with their texts.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for root in ["outside", "home/.config"] {
            collect(&self.path(root), &mut files);
        }
        files
    }
}

fn collect(directory: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), fs::read(path).expect("a file"));
        }
    }
}

/// A service that counts its calls and answers each with an empty list.
fn service() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counted.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n[]",
            );
        }
    });
    (host, calls)
}

/// The user's catalog: orders are listed, made and deleted, and listed again with a header.
fn document() -> String {
    let answer = json!({ "200": { "description": "" } });
    let mut document = json!({
        "openapi": "3.0.3",
        "info": { "title": "Shop", "version": "1" },
        "servers": [{ "url": "http://127.0.0.1:1" }],
        "paths": {
            "/orders": {
                "get": { "summary": "List the orders", "responses": answer,
                    "parameters": [{ "name": "X-Note", "in": "header", "schema": { "type": "string" } },
                        { "name": "q", "in": "query", "schema": { "type": "string" } }] },
                "post": { "summary": "Make an order", "responses": answer }
            },
            "/orders/{order}": {
                "parameters": [{ "name": "order", "in": "path", "required": true, "schema": { "type": "string" } }],
                "delete": { "summary": "Delete an order", "responses": answer }
            }
        }
    });
    for number in 0..12 {
        let make = json!({ "post": { "summary": "Make one", "responses": answer } });
        document["paths"][format!("/parts{number}")] = make;
    }
    document.to_string()
}
