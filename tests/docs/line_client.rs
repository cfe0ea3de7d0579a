//! A client of a server in this process, without a handshake.

use std::sync::Arc;

use midex::{
    App,
    mcp::{LineTransport, Server, serve},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::Mutex,
};
use tokio_util::sync::CancellationToken;

pub(crate) struct LineClient(Mutex<(BufReader<ReadHalf<DuplexStream>>, WriteHalf<DuplexStream>)>);

impl LineClient {
    /// A client of a new server for this app.
    pub(crate) fn new(app: &App) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        let server = Server::new(Arc::new(app.clone()));
        tokio::spawn(serve(server, LineTransport::new(read, write), CancellationToken::new()));
        let (read, write) = tokio::io::split(ours);
        Self(Mutex::new((BufReader::new(read), write)))
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn request(&self, method: &str, mut params: Value) -> Value {
        if params["_meta"].is_null() {
            params["_meta"] = midex_test::reader::stateless(None);
        }
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (read, write) = &mut *self.0.lock().await;
        write.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        read.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Calls a tool, and returns its result.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", params).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that succeeds, and returns its structured content.
    pub(crate) async fn done(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }
}
