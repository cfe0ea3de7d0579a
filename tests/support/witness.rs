//! Bad input never kills and never corrupts: what is sent to the real binary is refused, and an execution that was open
//! before must not have noticed, neither then nor after a restart.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Client, Server, has_fields, serve_alone};

/// The execution that must not notice.
pub const WITNESS: &str = "witness";

/// A server, and an execution that was open before anything bad came.
pub struct Witness {
    pub home: TempDir,
    pub flags: Vec<String>,
    pub server: Server,
    /// Its status and its token, as they were at first and must stay.
    pub status: Value,
    pub token: Value,
    /// Requests written as text: each has an id of its own, as the protocol asks.
    pub asked: u64,
}

impl Default for Witness {
    fn default() -> Self {
        Self::new()
    }
}

impl Witness {
    pub fn new() -> Self {
        Self::in_home(tempfile::tempdir().unwrap(), &[])
    }

    /// In a directory that has been furnished, with further flags.
    pub fn in_home(home: TempDir, flags: &[&str]) -> Self {
        let mut server = Server::greeted(serve_alone(home.path(), flags));
        let token = server.begin("bug-fix", WITNESS)["new_token"].clone();
        let status = server.status(WITNESS);
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { home, flags, server, status, token, asked: 0 }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Starts another execution, to be harmed; its first token.
    pub fn victim(&mut self, id: &str) -> Value {
        self.server.begin("bug-fix", id)["new_token"].clone()
    }

    /// The server lives, and the execution has not noticed anything.
    pub fn unharmed(&mut self) {
        assert_eq!(self.server.request("ping", json!({}))["result"], json!({}), "it lives");
        assert_eq!(self.server.status(WITNESS), self.status);
        let current = self.server.current(WITNESS);
        assert_eq!(current["continuation_token"], self.token);
    }

    /// Not even after a restart, when its token still works.
    pub fn survives(mut self) -> (Server, TempDir) {
        self.unharmed();
        let Self { home, flags, server, status, token, .. } = self;
        let (exit, ..) = server.close();
        assert!(exit.success(), "{exit}");
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let mut server = Server::greeted(serve_alone(home.path(), &flags));
        assert_eq!(server.status(WITNESS), status);
        let next = server.finish(&token, "found it");
        has_fields(&next, json!({ "step_name": "fix", "revision": 2, "replayed": null }));
        (server, home)
    }

    /// What the server says to this line before it answers a ping that follows it. Only for lines that are answered
    /// at once or never: the answers of calls may come later.
    pub fn says_to(&mut self, line: &[u8]) -> Vec<Value> {
        self.server.send_bytes(line);
        self.server.send_bytes(b"\n");
        let ping = self.server.post("ping", json!({}));
        let mut said = Vec::new();
        loop {
            let answer = self.server.next_line();
            if answer["id"] == ping {
                return said;
            }
            said.push(answer);
        }
    }

    /// The answer to a request whose fields, all but its id, are this text.
    pub fn ask(&mut self, fields: &str) -> Value {
        self.asked += 1;
        let id = json!(format!("text {}", self.asked));
        self.answer_to(&format!(r#"{{"jsonrpc":"2.0","id":{id},{fields}}}"#), &id)
    }

    /// The answer to a line that is a request with this id.
    pub fn answer_to(&mut self, line: &str, id: &Value) -> Value {
        self.server.send_raw(line);
        loop {
            let answer = self.server.next_line();
            if answer["id"] == *id {
                return answer;
            }
        }
    }
}

impl Client for Witness {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.server.request(method, params)
    }
}

/// Everything below a directory, without what links lead to, sorted.
pub fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}
