//! The client's end: raw lines and raw HTTP/1.1, as cheap as can be and the same work for every call.

use std::{io::Write as _, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, unix::pipe},
    task::JoinSet,
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// What every request of the stateless era carries.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"#;
/// How a reply begins.
const REPLY: &str = r#"{"jsonrpc":"2.0","id":"#;

/// How a call reaches its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    Owner,
    Relay,
    Stateless,
    Session,
}

impl Way {
    pub(crate) const ALL: [Self; 5] = [
        Self::Stdio,
        Self::Owner,
        Self::Relay,
        Self::Stateless,
        Self::Session,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Owner => "stdio, owner",
            Self::Relay => "stdio, relay",
            Self::Stateless => "http stateless",
            Self::Session => "http session",
        }
    }
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Echo,
    NextStep,
}

impl Tool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::NextStep => "workflow.next_step",
        }
    }
}

/// One call after the other: the tokens of the executions that are led to their end, the last one first.
#[derive(Debug)]
pub(crate) struct Lane {
    tokens: Vec<String>,
    left: u64,
    id: u64,
    lanes: u64,
}

impl Lane {
    /// So many calls of lane `at` of `lanes`.
    pub(crate) fn new(tokens: Vec<String>, left: u64, at: u64, lanes: u64) -> Self {
        Self {
            tokens,
            left,
            id: at,
            lanes,
        }
    }

    /// Writes the next call, where there is one. No id is used twice: one whose answer was just taken may still be
    /// in use at the other end.
    fn ask(&mut self, tool: Tool, meta: &str, out: &mut Vec<u8>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.id += self.lanes;
        let token = self.tokens.last().expect("an execution that has not ended");
        write!(
            out,
            r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{{meta}"name":"{}","arguments":{{"token":"{token}","output":{{"summary":"done"}}}}}}}}"#,
            self.id,
            tool.name(),
        )
        .expect("memory");
        true
    }

    /// Takes the token of the next step out of a reply. In the text that repeats it quotes are escaped.
    fn take(&mut self, reply: &str) {
        const TOKEN: &str = r#""new_token":""#;
        if let Some(at) = reply.find(TOKEN) {
            let rest = &reply[at + TOKEN.len()..];
            let end = rest.find('"').expect("a whole reply");
            let token = self.tokens.last_mut().expect("what was asked for");
            token.clear();
            token.push_str(&rest[..end]);
        } else {
            assert!(reply.contains(r#""workflow_state":"completed""#), "{reply}");
            self.tokens.pop();
        }
    }
}

/// One end of a pair of pipes.
#[derive(Debug)]
pub(crate) struct Lines {
    read: pipe::Receiver,
    write: pipe::Sender,
    unread: Vec<u8>,
}

impl Lines {
    /// Shakes hands.
    pub(crate) async fn open(read: pipe::Receiver, write: pipe::Sender) -> Self {
        let mut lines = Self {
            read,
            write,
            unread: Vec::new(),
        };
        let greeting = format!("{INITIALIZE}\n{INITIALIZED}\n");
        let sent = lines.write.write_all(greeting.as_bytes()).await;
        sent.expect("the server reads");
        while !lines.unread.contains(&b'\n') {
            lines.more().await;
        }
        lines.unread.clear();
        lines
    }

    async fn more(&mut self) {
        let read = self.read.read_buf(&mut self.unread).await;
        assert_ne!(read.expect("a readable pipe"), 0, "the server has gone");
    }

    /// Makes the calls of all lanes, one of each in flight.
    pub(crate) async fn drive(mut self, mut lanes: Vec<Lane>, tool: Tool) -> Self {
        let mut out = Vec::new();
        let mut in_flight = 0;
        for lane in &mut lanes {
            in_flight += ask_line(lane, tool, &mut out);
        }
        while in_flight > 0 {
            self.write.write_all(&out).await.expect("the server reads");
            out.clear();
            self.more().await;
            let mut taken = 0;
            while let Some(end) = self.unread[taken..].iter().position(|byte| *byte == b'\n') {
                let reply = str::from_utf8(&self.unread[taken..taken + end]).expect("UTF-8");
                let at = lane_of(reply, lanes.len());
                let lane = &mut lanes[at];
                lane.take(reply);
                in_flight = in_flight - 1 + ask_line(lane, tool, &mut out);
                taken += end + 1;
            }
            self.unread.drain(..taken);
        }
        self
    }
}

fn ask_line(lane: &mut Lane, tool: Tool, out: &mut Vec<u8>) -> usize {
    let asked = lane.ask(tool, "", out);
    if asked {
        out.push(b'\n');
    }
    usize::from(asked)
}

fn lane_of(line: &str, lanes: usize) -> usize {
    let rest = line.strip_prefix(REPLY).expect("a reply");
    let end = rest.find(',').expect("a whole reply");
    rest[..end].parse::<usize>().expect("an id of ours") % lanes
}

/// One kept connection of HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// The head of a request up to its length.
    head: String,
    meta: &'static str,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Connection {
    /// Connects; in the initialize era begins a session too.
    pub(crate) async fn open(address: SocketAddr, way: Way, tool: Tool) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        let mut connection = Self {
            stream,
            head,
            meta: "",
            request: Vec::new(),
            reply: Vec::new(),
        };
        match way {
            Way::Session => connection.begin_session().await,
            _ => connection.go_stateless(tool),
        }
        connection
    }

    fn go_stateless(&mut self, tool: Tool) {
        self.meta = META;
        self.head += "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: ";
        self.head += tool.name();
        self.head += "\r\n";
    }

    async fn begin_session(&mut self) {
        let reply = self.exchange(INITIALIZE.as_bytes()).await;
        let session = header(reply, "mcp-session-id: ")
            .expect("a session")
            .to_owned();
        self.head += "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: ";
        self.head += &session;
        self.head += "\r\n";
        self.exchange(INITIALIZED.as_bytes()).await;
    }

    /// Sends a body with one write; the whole reply, its head included.
    async fn exchange(&mut self, body: &[u8]) -> &str {
        self.request.clear();
        write!(
            self.request,
            "{}Content-Length: {}\r\n\r\n",
            self.head,
            body.len()
        )
        .expect("memory");
        self.request.extend_from_slice(body);
        let sent = self.stream.write_all(&self.request).await;
        sent.expect("the server reads");
        self.reply.clear();
        while !is_whole(&self.reply) {
            let read = self.stream.read_buf(&mut self.reply).await;
            assert_ne!(read.expect("a readable socket"), 0, "the server has gone");
        }
        let reply = str::from_utf8(&self.reply).expect("UTF-8");
        assert!(reply.starts_with("HTTP/1.1 20"), "{reply}");
        reply
    }

    async fn drive(mut self, mut lane: Lane, tool: Tool) -> Self {
        let mut body = Vec::new();
        while lane.ask(tool, self.meta, &mut body) {
            lane.take(self.exchange(&body).await);
            body.clear();
        }
        self
    }
}

/// Whether all of a reply is there. One in chunks holds no bare line end but those between chunks.
fn is_whole(reply: &[u8]) -> bool {
    const END: &[u8] = b"\r\n\r\n";
    let Some(head) = reply.windows(END.len()).position(|bytes| bytes == END) else {
        return false;
    };
    let text = str::from_utf8(&reply[..head + 2]).expect("an ASCII head");
    match header(text, "content-length: ") {
        Some(length) => {
            reply.len() - head - END.len() == length.parse::<usize>().expect("a length")
        }
        None => reply.ends_with(b"\r\n0\r\n\r\n"),
    }
}

fn header<'a>(reply: &'a str, name: &str) -> Option<&'a str> {
    reply.split("\r\n").find_map(|line| line.strip_prefix(name))
}

/// A client of one server, ready to call.
#[derive(Debug)]
pub(crate) enum Client {
    Lines(Box<Lines>),
    Http(Vec<Connection>),
}

impl Client {
    /// Makes the calls of all lanes, one of each in flight.
    pub(crate) async fn drive(self, lanes: Vec<Lane>, tool: Tool) -> Self {
        match self {
            Self::Lines(client) => {
                let driving = tokio::spawn((*client).drive(lanes, tool));
                Self::Lines(Box::new(driving.await.expect("no panic")))
            }
            Self::Http(connections) => {
                let driving = connections.into_iter().zip(lanes);
                let driving: JoinSet<_> = driving.map(|(it, lane)| it.drive(lane, tool)).collect();
                Self::Http(driving.join_all().await)
            }
        }
    }
}
