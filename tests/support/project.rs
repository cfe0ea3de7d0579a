//! A project of its own for a test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PATIENCE, Server, Words};

/// A directory with definitions. Its servers know no others but the shipped ones, whoever's machine this is.
pub struct Project {
    directory: TempDir,
    /// Whether its user trusts it: as soon as a workflow of it needs that.
    is_trusted: AtomicBool,
}

/// The user's file of a project's own home.
const USERS_FILE: &str = "home/.config/midex/midex.toml";

/// Whether a workflow does what only those of a trusted project may do.
pub fn needs_trust(text: &str) -> bool {
    let keys = ["run:", "\"run\":", "activity:", "\"activity\":", "secrets."];
    keys.iter().any(|key| text.contains(key))
}

impl Project {
    /// A project with these files, each `(path, text)`.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let project =
            Self { directory: tempfile::tempdir().unwrap(), is_trusted: AtomicBool::new(false) };
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// A path in it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file as an editor does: it is there whole or not at all.
    pub fn write(&self, path: &str, text: &str) {
        self.put(path, text);
        if path.starts_with("workflows/") && needs_trust(text) {
            self.is_trusted.store(true, Ordering::SeqCst);
        } else if path != USERS_FILE {
            return;
        }
        if self.is_trusted.load(Ordering::SeqCst) {
            self.trust();
        }
    }

    /// Its user trusts it.
    fn trust(&self) {
        let text = fs::read_to_string(self.path(USERS_FILE)).unwrap_or_default();
        if !text.contains("trust = ") {
            let root = self.root().canonicalize().unwrap();
            self.put(USERS_FILE, &format!("trust = [{:?}]\n{text}", root.display().to_string()));
        }
    }

    fn put(&self, path: &str, text: &str) {
        let (path, draft) = (self.path(path), self.path("draft"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&draft, text).unwrap();
        fs::rename(draft, path).unwrap();
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).unwrap();
    }

    /// Runs `midex` here.
    pub fn command(&self, arguments: impl Words) -> Command {
        let mut command = midex_at(self.root(), &self.path("home"));
        command.args(arguments.words());
        command
    }

    /// A server that has shaken hands. All servers of a project have one data directory.
    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// The same with flags.
    pub fn serve_with(&self, flags: &[&str]) -> Server {
        let mut server = Server::run(self.command("serve".and(flags)));
        server.shake_hands();
        server
    }

    /// A server of a client that can ask its user.
    pub fn serve_asking(&self) -> Server {
        let mut server = Server::run(self.command("serve"));
        server.shake_hands_with(&json!({ "elicitation": {} }));
        server
    }

    /// Where its servers keep what they keep.
    pub fn data_dir(&self) -> PathBuf {
        self.path("home/.local/share/midex")
    }

    /// Where its servers keep executions.
    pub fn data_file(&self) -> PathBuf {
        self.data_dir().join("executions.redb")
    }
}

/// Runs `midex` in a directory, with an empty environment of a user but for this home.
pub fn midex_at(directory: &Path, home: &Path) -> Command {
    let mut command = Command::new(crate::binary());
    let paths = "MIDEX_DATA_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME REGISTRY_WORKFLOWS_PATH \
        REGISTRY_CONFIG_PATH REGISTRY_CATALOGS_PATH";
    for name in paths.split(' ') {
        command.env_remove(name);
    }
    command.current_dir(directory).env("HOME", home);
    command.env("NO_COLOR", "1");
    command
}

/// A workflow in front matter; each phase is `(name, agent, dependsOn)`, and does what its name says.
pub fn workflow(name: &str, phases: &[(&str, &str, &[&str])]) -> String {
    let mut lines = vec![
        "---".to_owned(),
        format!("name: {name}"),
        "description: A test".into(),
        "phases:".into(),
    ];
    for (phase, agent, depends_on) in phases {
        lines.push(format!("  - phase: {phase}"));
        lines.push(format!("    agent: {agent}"));
        lines.push(format!("    description: Do {phase}"));
        if !depends_on.is_empty() {
            lines.push(format!("    dependsOn: [{}]", depends_on.join(", ")));
        }
    }
    lines.push(format!("---\n# {name}\n"));
    lines.join("\n")
}

/// An agent with this persona.
pub fn agent(name: &str, persona: &str) -> String {
    format!("---\nname: {name}\ndescription: A test\n---\n{persona}\n")
}

/// A project with the workflow `line` of `a`, `b` and `c`, one after another, all done by `worker`.
pub fn line() -> Project {
    let phases: [(&str, &str, &[&str]); 3] =
        [("a", "worker", &[]), ("b", "worker", &["a"]), ("c", "worker", &["b"])];
    Project::new(&[
        ("workflows/line.md", &workflow("line", &phases)),
        ("agents/worker.md", &agent("worker", PERSONA)),
    ])
}

/// What `worker` is told of itself.
pub const PERSONA: &str = "# Worker\n\nYou do what your step is called.";

/// The items of a list.
#[track_caller]
pub fn list(value: &Value) -> Vec<Value> {
    let items = value.as_array();
    items.unwrap_or_else(|| panic!("no list: {value}")).clone()
}

/// The text of a string.
#[track_caller]
pub fn text(value: &Value) -> &str {
    let text = value.as_str();
    text.unwrap_or_else(|| panic!("no text: {value}"))
}

/// One field of each item of a list.
#[track_caller]
pub fn each(items: &[Value], field: &str) -> Vec<String> {
    let name = |item: &Value| text(&item[field]).to_owned();
    items.iter().map(name).collect()
}

/// Asks until there is an answer, for as long as a test is patient.
#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until this machine's clock has passed the time in `expires_at`.
pub fn outlive(expires_at: &Value) {
    use midex_domain::clock::{Clock, SystemClock};
    let end = text(expires_at);
    // Times of one format sort as texts.
    let now = || SystemClock.now().to_string();
    eventually("the end of a token's life", || (*now() > *end).then_some(()));
}

/// The JSON behind a token.
pub fn payload(token: &Value) -> Value {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as base64url};
    serde_json::from_slice(&base64url.decode(text(token)).expect("base64url")).expect("JSON")
}

/// A token with this JSON behind it, fields in the order in which midex writes them.
pub fn forge(payload: &Value) -> Value {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as base64url};
    let fields = ["execution_id", "step_name", "issued_at", "nonce"];
    let fields = fields.map(|name| format!("\"{name}\":{}", payload[name]));
    json!(base64url.encode(format!("{{{}}}", fields.join(","))))
}
