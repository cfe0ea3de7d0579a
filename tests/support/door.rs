//! Raw clients of the control socket, and waiting for what a real process does.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use midex_mcp::control::CONTROL_PROTOCOL_VERSION;
use serde_json::{Value, json};

use super::{Client, PATIENCE};

/// Looks again and again until there is something to see, for as long as a test is patient.
#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < PATIENCE, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A connection to the control socket of a data directory.
pub struct Door {
    write: UnixStream,
    read: BufReader<UnixStream>,
    next_id: u64,
}

impl Door {
    /// Connects as soon as there is a door, and says nothing.
    pub fn knock(data_dir: &Path) -> Self {
        let path = data_dir.join("control.sock");
        let write = until("a door", || UnixStream::connect(&path).ok());
        write.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let read = BufReader::new(write.try_clone().expect("the same stream"));
        Self { write, read, next_id: 0 }
    }

    /// Says who calls, and shakes hands.
    pub fn enter(data_dir: &Path, project: &Path) -> Self {
        Self::enter_as(data_dir, &preamble(project))
    }

    /// The same with this first line.
    pub fn enter_as(data_dir: &Path, preamble: &Value) -> Self {
        let mut door = Self::knock(data_dir);
        door.say(preamble).expect("the server reads");
        let greeting = door.line().expect("a greeting");
        assert!(greeting["error"].is_null(), "{greeting}");
        let client = json!({ "name": "test", "version": "0" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        door.request("initialize", hello);
        door.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .expect("the server reads");
        door
    }

    /// Writes one line.
    pub fn say(&mut self, message: &Value) -> io::Result<()> {
        self.say_bytes(format!("{message}\n").as_bytes())
    }

    /// Writes bytes as they are.
    pub fn say_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes)
    }

    /// The next line; none where the server has closed the door.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.read.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect("every line is JSON")),
            // It was closed before all that was written was read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("the door neither opens nor closes: {error}"),
        }
    }

    /// Sends the same request many times before it reads any answer; all the answers.
    pub fn flood(&mut self, method: &str, params: &Value, count: usize) -> Vec<Value> {
        for _ in 0..count {
            self.next_id += 1;
            let id = self.next_id;
            self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
                .expect("the server reads");
        }
        (0..count).map(|_| self.line().expect("an answer")).collect()
    }
}

impl Client for Door {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .expect("the server reads");
        loop {
            let line = self.line().expect("an answer");
            if line["id"] == id {
                return line;
            }
        }
    }
}

/// What a caller says of itself.
pub fn preamble(project: &Path) -> Value {
    json!({ "midex": "0", "protocol": CONTROL_PROTOCOL_VERSION, "role": "command", "project_dir": project })
}
