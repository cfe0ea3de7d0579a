//! A service of HTTP on loopback, which keeps the bytes of each request and answers with any bytes, or with a fault.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Method, target and version.
    pub line: String,
    /// Headers, their names in lower case, in order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The path and the query.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// What a request is answered with.
#[derive(Clone, Debug)]
pub enum Reply {
    /// These bytes. Where they are no whole answer, the rest never comes.
    Bytes(Vec<u8>),
    /// These bytes, then a byte now and then.
    Slow(Vec<u8>),
    /// These bytes, and then the end of the connection.
    Broken(Vec<u8>),
    /// These bytes, and then others again and again.
    Endless(Vec<u8>, Vec<u8>),
}

/// An answer of JSON.
pub fn json(status: u16, body: &serde_json::Value) -> Reply {
    answer(status, &[("content-type", "application/json")], body.to_string().as_bytes())
}

/// An answer with its length.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut bytes = head(status, headers, Some(body.len())).into_bytes();
    bytes.extend_from_slice(body);
    Reply::Bytes(bytes)
}

/// The head of an answer.
pub fn head(status: u16, headers: &[(&str, &str)], length: Option<usize>) -> String {
    let mut lines = vec![format!("HTTP/1.1 {status} Reason")];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    lines.extend(length.map(|length| format!("content-length: {length}")));
    lines.join("\r\n") + "\r\n\r\n"
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The service. It ends where it is dropped.
pub struct Service {
    pub host: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Told of each connection that its client has closed.
    pub closed: Arc<Notify>,
    /// Told of each request.
    pub came: Arc<Notify>,
    accepting: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Service {
    pub async fn new(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (seen, closed, came) = (
            Arc::<Mutex<Vec<Seen>>>::default(),
            Arc::<Notify>::default(),
            Arc::<Notify>::default(),
        );
        let connection = Connection {
            handler: Arc::new(handler),
            seen: seen.clone(),
            closed: closed.clone(),
            came: came.clone(),
        };
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection.clone().serve(stream));
            }
        });
        Self { host, seen, closed, came, accepting }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.host)
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The only request.
    pub fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

#[derive(Clone)]
struct Connection {
    handler: Arc<Handler>,
    seen: Arc<Mutex<Vec<Seen>>>,
    closed: Arc<Notify>,
    came: Arc<Notify>,
}

impl Connection {
    async fn serve(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(seen) = read(&mut stream, &mut buffer).await {
            let reply = (self.handler)(&seen);
            self.seen.lock().unwrap().push(seen);
            self.came.notify_one();
            let goes_on = match reply {
                Reply::Bytes(bytes) => stream.write_all(&bytes).await.is_ok(),
                Reply::Broken(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    return;
                }
                Reply::Slow(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    while stream.write_all(b"x").await.is_ok() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    false
                }
                Reply::Endless(first, again) => {
                    let _ = stream.write_all(&first).await;
                    while stream.write_all(&again).await.is_ok() {}
                    false
                }
            };
            if !goes_on {
                break;
            }
        }
        self.closed.notify_one();
    }
}

/// The next request, or nothing where the client has closed.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end + 4);
    let (line, rest) = head.split_once("\r\n").unwrap_or((&head, ""));
    let headers = rest.lines().filter_map(|line| line.split_once(':'));
    let mut seen = Seen {
        line: line.to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect(),
        body: Vec::new(),
    };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    seen.body = buffer.drain(..length).collect();
    Some(seen)
}
