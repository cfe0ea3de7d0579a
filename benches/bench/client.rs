//! The client side of a server: raw lines and raw HTTP/1.1, so that a client costs little, and the same for every call.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{ChildStdin, ChildStdout},
};

use super::{
    calls::WORKFLOW,
    load::{self, Stopwatch, now},
};
use midex_domain::error::{Code, Error, Result, describe_io_error};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// The metadata that every request of the stateless era carries.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"#;
/// The beginning of a reply. Other messages of a server are ignored.
const REPLY: &str = r#"{"jsonrpc":"2.0","id":"#;
/// How many characters of an answer an error message shows.
const SHOWN_CHARS: usize = 300;

/// Builds one call after another: runs executions from start to end.
#[derive(Debug)]
pub(super) struct Calls {
    token: Option<String>,
    /// Whether executions are only started, and none of their steps finished.
    only_starts: bool,
    id: u64,
    asked: Instant,
}

impl Calls {
    /// The calls of client number `at`. Its request ids are `at` plus multiples of the number of clients.
    pub(super) fn new(at: usize) -> Self {
        Self { token: None, only_starts: false, id: at as u64, asked: now() }
    }

    /// As [`Self::new`], but the client only starts executions.
    pub(super) fn starts(at: usize) -> Self {
        Self { only_starts: true, ..Self::new(at) }
    }

    /// The tool to call next.
    fn tool(&self) -> &'static str {
        if self.token.is_some() { "workflow.next_step" } else { "workflow.start" }
    }

    /// Appends the next request to `out`. Each request has a new id, because the server may still be releasing the id
    /// of a request that it has just answered.
    fn ask(&mut self, clients: usize, meta: &str, out: &mut Vec<u8>) {
        self.id += clients as u64;
        let (id, tool) = (self.id, self.tool());
        let arguments = match &self.token {
            Some(token) => format!(r#""token":"{token}","output":{{"summary":"done"}}"#),
            None => format!(r#""workflow_name":"{WORKFLOW}""#),
        };
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{meta}"name":"{tool}","arguments":{{{arguments}}}}}}}"#
        );
        out.extend_from_slice(call.as_bytes());
        self.asked = now();
    }

    /// Takes the token of the next step from an answer, and returns the latency of the call.
    fn take(&mut self, answer: &str) -> Result<Duration> {
        const TOKEN: &str = r#""new_token":""#;
        let took = self.asked.elapsed();
        let found = answer.split_once(TOKEN).and_then(|(_, rest)| rest.split_once('"'));
        self.token = found.map(|(token, _)| token.to_owned());
        if self.token.is_none() && !answer.contains(r#""workflow_state":"completed""#) {
            let shown: String = answer.chars().take(SHOWN_CHARS).collect();
            return Err(Error::internal(format!("a server answered: {shown}")));
        }
        self.token.take_if(|_| self.only_starts);
        Ok(took)
    }
}

/// A client over standard streams, with all calls in flight on one connection.
#[derive(Debug)]
pub(super) struct Lines {
    write: ChildStdin,
    read: ChildStdout,
    unread: Vec<u8>,
}

impl Lines {
    /// Connects with the `initialize` handshake.
    pub(super) async fn open(write: ChildStdin, read: ChildStdout) -> Result<Self> {
        let unread = Vec::new();
        let mut lines = Self { write, read, unread };
        lines.ask(INITIALIZE).await?;
        lines.say(format!("{INITIALIZED}\n").as_bytes()).await?;
        Ok(lines)
    }

    async fn say(&mut self, bytes: &[u8]) -> Result<()> {
        let said = async {
            self.write.write_all(bytes).await?;
            self.write.flush().await
        };
        said.await.map_err(gone)
    }

    async fn more(&mut self) -> Result<()> {
        let read = self.read.read_buf(&mut self.unread).await;
        some(read).map_err(gone)
    }

    /// Sends one request, and waits for its answer.
    pub(super) async fn ask(&mut self, request: &str) -> Result<()> {
        self.say(format!("{request}\n").as_bytes()).await?;
        while !self.unread.ends_with(b"\n") {
            self.more().await?;
        }
        self.unread.clear();
        Ok(())
    }

    /// Lets all clients call until the turn ends, and returns the latency of each call.
    pub(super) async fn drive(
        &mut self,
        clients: &mut [Calls],
        watch: &Stopwatch,
    ) -> Result<Vec<Duration>> {
        let (count, mut out, mut latencies) = (clients.len(), Vec::new(), Vec::new());
        let mut in_flight = count;
        for client in &mut *clients {
            client.ask(count, "", &mut out);
            out.push(b'\n');
        }
        while in_flight > 0 {
            self.say(&out).await?;
            out.clear();
            self.more().await?;
            let whole =
                self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let unread = self.unread.split_off(whole);
            let taken = std::mem::replace(&mut self.unread, unread);
            for line in String::from_utf8_lossy(&taken).lines() {
                let Some(at) = client_of(line, count) else {
                    continue;
                };
                let client = &mut clients[at];
                latencies.push(client.take(line)?);
                in_flight -= 1;
                if watch.runs() {
                    client.ask(count, "", &mut out);
                    out.push(b'\n');
                    in_flight += 1;
                }
            }
        }
        Ok(latencies)
    }
}

/// The number of the client whose request a line answers.
fn client_of(line: &str, count: usize) -> Option<usize> {
    let (id, _) = line.strip_prefix(REPLY)?.split_once(',')?;
    id.parse::<usize>().ok().map(|id| id % count)
}

/// A client with a persistent HTTP/1.1 connection.
#[derive(Debug)]
pub(super) struct Http {
    stream: TcpStream,
    calls: Calls,
    /// The header fields that all requests share.
    head: String,
    /// Whether the requests are of the stateless era, and name their tool in a header field.
    is_stateless: bool,
    answer: Vec<u8>,
}

impl Http {
    /// Connects; without `is_stateless` it also begins a session.
    pub(super) async fn open(address: SocketAddr, is_stateless: bool, at: usize) -> Result<Self> {
        let stream = TcpStream::connect(address).await.map_err(gone)?;
        stream.set_nodelay(true).map_err(gone)?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        let mut http =
            Self { stream, calls: Calls::new(at), head, is_stateless, answer: Vec::new() };
        if is_stateless {
            http.head += "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n";
        } else {
            http.begin_session().await?;
        }
        Ok(http)
    }

    async fn begin_session(&mut self) -> Result<()> {
        let answer = self.exchange("", INITIALIZE.as_bytes()).await?;
        let session = header(answer, "mcp-session-id: ").map(str::to_owned);
        let session = session.ok_or_else(|| Error::internal("a server began no session"))?;
        let session = format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n");
        self.head.push_str(&session);
        self.exchange("", INITIALIZED.as_bytes()).await.map(drop)
    }

    /// Sends a request with a single write, and returns the whole answer, its headers included.
    async fn exchange(&mut self, further: &str, body: &[u8]) -> Result<&str> {
        let mut request = self.head.clone().into_bytes();
        // Writing to a `Vec` cannot fail.
        let _ = write!(request, "{further}Content-Length: {}\r\n\r\n", body.len());
        request.extend_from_slice(body);
        self.stream.write_all(&request).await.map_err(gone)?;
        self.answer.clear();
        while !is_whole(&self.answer) {
            some(self.stream.read_buf(&mut self.answer).await).map_err(gone)?;
        }
        let answer = str::from_utf8(&self.answer).unwrap_or_default();
        if answer.starts_with("HTTP/1.1 20") {
            return Ok(answer);
        }
        let shown: String = answer.chars().take(SHOWN_CHARS).collect();
        Err(Error::internal(format!("a server answered: {shown}")))
    }
}

impl load::Lane for Http {
    async fn call(&mut self) -> Result<bool> {
        let mut body = Vec::new();
        let further = if self.is_stateless {
            format!("Mcp-Name: {}\r\n", self.calls.tool())
        } else {
            String::new()
        };
        self.calls.ask(1, if self.is_stateless { META } else { "" }, &mut body);
        let answer = self.exchange(&further, &body).await?.to_owned();
        self.calls.take(&answer).map(|_| true)
    }
}

/// Whether an answer is complete. A chunked answer is taken to end at the last chunk: the bodies hold no CR LF
/// themselves.
fn is_whole(answer: &[u8]) -> bool {
    const END: &[u8] = b"\r\n\r\n";
    let Some(head) = answer.windows(END.len()).position(|bytes| bytes == END) else {
        return false;
    };
    let text = str::from_utf8(&answer[..head + 2]).unwrap_or_default();
    match header(text, "content-length: ") {
        Some(length) => Some(answer.len() - head - END.len()) == length.parse().ok(),
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    }
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.split("\r\n").find_map(|line| line.strip_prefix(name))
}

/// Turns a read of zero bytes into an end-of-file error.
fn some(read: io::Result<usize>) -> io::Result<()> {
    match read? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn gone(error: io::Error) -> Error {
    let message = format!("a server that was measured went away: {}", describe_io_error(&error));
    Error::new(Code::ServerStopping, message).with_source(error)
}
