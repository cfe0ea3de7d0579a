//! Frames: one JSON value per line. Reading is bounded: of an oversized frame only the beginning is kept, which usually
//! contains its id.

use rmcp::{
    RoleServer,
    model::{
        CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientRequest,
        CustomRequest, ErrorData, GetExtensions, GetMeta, InitializeRequestParams, JsonRpcMessage,
        JsonRpcRequest, JsonRpcVersion2_0, ProtocolVersion, RequestId, TASKS_EXTENSION_ID,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use midex_domain::{
    document::{count_json_values, oversized_integer_message},
    limits,
};

/// The ping that a relay sends to its owner to check that it responds, and the answer.
pub(super) const RELAY_PING_LINE: &[u8] =
    br#"{"jsonrpc":"2.0","id":"midex-alive","method":"ping"}"#;
pub(super) const RELAY_PONG_LINE: &[u8] = br#"{"jsonrpc":"2.0","id":"midex-alive","result":{}}"#;

/// The result of reading a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A whole line, without its end.
    Line(Vec<u8>),
    /// A line longer than the reader's limit, or with more than [`limits::FRAME_VALUES_MAX`] values: its beginning.
    Oversized(Vec<u8>),
    /// The end of input.
    End,
}

/// Reads frames from an input.
#[derive(Debug)]
pub(super) struct FrameReader<R> {
    input: R,
    bytes_max: usize,
    /// The part of the next frame that was read so far.
    line: Vec<u8>,
    is_oversized: bool,
}

impl<R: AsyncBufRead + Unpin> FrameReader<R> {
    /// Reads frames of at most `bytes_max` bytes.
    pub(super) fn new(input: R, bytes_max: usize) -> Self {
        Self { input, bytes_max, line: Vec::new(), is_oversized: false }
    }

    /// Reads the next frame. An unterminated last line is dropped, since its sender died while writing it. Cancel-safe.
    pub(super) async fn next_frame(&mut self) -> std::io::Result<Frame> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(Frame::End);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if !self.is_oversized && self.line.len() + part.len() > self.bytes_max {
                self.is_oversized = true;
                let beginning = &part[..part.len().min(limits::FRAME_ID_WITHIN_BYTES)];
                self.line.extend_from_slice(beginning);
                self.line.truncate(limits::FRAME_ID_WITHIN_BYTES);
                self.line.shrink_to_fit();
            } else if !self.is_oversized {
                self.line.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.input.consume(consumed);
            if end.is_some() {
                let mut line = std::mem::take(&mut self.line);
                let is_oversized = std::mem::take(&mut self.is_oversized);
                if is_oversized || has_too_many_values(&line) {
                    line.truncate(limits::FRAME_ID_WITHIN_BYTES);
                    return Ok(Frame::Oversized(line));
                }
                return Ok(Frame::Line(line));
            }
        }
    }
}

/// Whether a message has more than [`limits::FRAME_VALUES_MAX`] values, so that parsing it would use too much memory.
pub(super) fn has_too_many_values(message: &[u8]) -> bool {
    // A message needs at least one byte per value, so short messages need not be counted.
    message.len() > limits::FRAME_VALUES_MAX
        && count_json_values(message) > limits::FRAME_VALUES_MAX
}

/// A tool call, parsed directly, since most messages are one. rmcp tries one message type after another, each on a
/// copy.
#[derive(Deserialize)]
struct ToolCall {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

/// The message, if it is a tool call.
pub(super) fn parse_tool_call(message: &[u8]) -> Option<JsonRpcRequest<ClientRequest>> {
    let parsed = serde_json::from_slice(message).ok();
    let parsed =
        parsed.or_else(|| serde_json::from_slice(&repair_surrogate_escapes(message)?).ok());
    let ToolCall { id, mut params, .. } = parsed?;
    let meta = params.meta.take();
    let mut request = CallToolRequest::new(params);
    if let Some(meta) = meta {
        request.extensions.insert(meta);
    }
    let request = ClientRequest::CallToolRequest(request);
    Some(JsonRpcRequest::new(id, request))
}

/// The marker of a custom request that [`convert_task_request`] has made. Clients cannot send it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionTaskRequest;

/// Makes a request that concerns tasks of protocol version 2025-11-25 a marked custom request with the method and the
/// parameters of its `line`, since rmcp does not know these tasks. `has_tasks` is whether the session has them, which its
/// handshake decides. A client that declares them there is noted as one with the extension for tasks.
pub(super) fn convert_task_request(request: &mut ClientRequest, line: &[u8], has_tasks: &mut bool) {
    #[derive(Deserialize)]
    struct RequestLine {
        method: String,
        #[serde(default)]
        params: Value,
    }
    if let ClientRequest::InitializeRequest(handshake) = request {
        let InitializeRequestParams { protocol_version: version, capabilities, .. } =
            &mut handshake.params;
        // To a client of an unknown version, or of one without a handshake, rmcp offers this version.
        let is_older = *version != ProtocolVersion::V_2025_11_25 && version.has_initialize();
        *has_tasks = !(is_older && ProtocolVersion::KNOWN_VERSIONS.contains(version));
        let line = serde_json::from_slice::<RequestLine>(line);
        if *has_tasks && line.is_ok_and(|line| line.params["capabilities"]["tasks"].is_object()) {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), Map::default());
        }
        return;
    }
    let version = request.get_meta().protocol_version();
    let concerns_tasks = match request.method() {
        // Search for the key before parsing, since few calls contain it.
        "tools/call" => line.windows(6).any(|part| part == b"\"task\""),
        method => method == "tools/list" || method.starts_with("tasks/"),
    };
    if *has_tasks
        && concerns_tasks
        && version.is_none_or(|version| version.has_initialize())
        && let Ok(RequestLine { method, params }) = serde_json::from_slice(line)
        && (method != "tools/call" || !params["task"].is_null())
    {
        let mut custom_request = CustomRequest::new(method, Some(params));
        custom_request.extensions = std::mem::take(request.extensions_mut());
        custom_request.extensions.insert(SessionTaskRequest);
        *request = ClientRequest::CustomRequest(custom_request);
    }
}

/// The error text for an `initialize` request that cannot be decoded.
pub(super) const MALFORMED_INITIALIZE: &str = "malformed params for initialize: protocolVersion, capabilities and clientInfo {name, version} are required";

/// The message with unpaired surrogate escapes replaced by U+FFFD. Hosts send them when they cut a text within an
/// emoji. `None` if there are none.
pub(super) fn repair_surrogate_escapes(message: &[u8]) -> Option<Vec<u8>> {
    let code_unit = |at: usize| {
        let digits = message.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut repaired, mut index) = (message.to_vec(), 0);
    while let Some(byte) = message.get(index) {
        index += match (*byte == b'\\', code_unit(index), code_unit(index + 6)) {
            (false, ..) => 1,
            (_, Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (_, Some(0xd800..=0xdfff), _) => {
                repaired[index + 2..index + 6].copy_from_slice(b"fffd");
                6
            }
            _ => 2,
        };
    }
    (repaired != message).then_some(repaired)
}

/// The message in a line, or the error response for an invalid line.
pub(super) fn parse_message(
    line: &[u8],
) -> Result<RxJsonRpcMessage<RoleServer>, Box<TxJsonRpcMessage<RoleServer>>> {
    let message = match parse_tool_call(line) {
        Some(call) => Ok(JsonRpcMessage::Request(call)),
        None => serde_json::from_slice(line),
    };
    if message.is_ok()
        && let Some(fault) = oversized_integer_message(line)
    {
        let refusal = ErrorData::invalid_params(fault, None);
        return Err(Box::new(JsonRpcMessage::error(refusal, find_id_near_start(line))));
    }
    if let Ok(JsonRpcMessage::Request(request)) = &message
        && let ClientRequest::CustomRequest(custom_request) = &request.request
        && custom_request.method == "initialize"
    {
        // rmcp treats it as a request of a protocol version without handshakes.
        let refusal = ErrorData::invalid_params(MALFORMED_INITIALIZE, None);
        let id = Some(request.id.clone());
        return Err(Box::new(JsonRpcMessage::error(refusal, id)));
    }
    message.map_err(|error| {
        let value: Option<Value> = serde_json::from_slice(line).ok();
        let (refusal, id) = match value {
            None => (
                ErrorData::parse_error(describe_json_error(&error), None),
                find_id_near_start(line),
            ),
            Some(Value::Array(_)) => (
                ErrorData::invalid_request(
                    "batches are not supported: send one message at a time",
                    None,
                ),
                None,
            ),
            Some(value) => {
                let message = "the frame is not a JSON-RPC 2.0 message that MCP knows";
                (
                    ErrorData::invalid_request(message, None),
                    value.get("id").and_then(parse_request_id),
                )
            }
        };
        Box::new(JsonRpcMessage::error(refusal, id))
    })
}

fn describe_json_error(error: &serde_json::Error) -> String {
    // The parser has no distinct error kind for this.
    if error.to_string().starts_with("recursion limit") {
        return "the frame is nested more than 127 levels deep".into();
    }
    format!("the frame is not JSON: {error}")
}

/// The error response for an oversized frame.
pub(super) fn oversized_frame_error(beginning: &[u8]) -> TxJsonRpcMessage<RoleServer> {
    let message = format!(
        "the frame exceeds the limit of {} bytes, or of {} values",
        limits::FRAME_BYTES_MAX,
        limits::FRAME_VALUES_MAX
    );
    JsonRpcMessage::error(ErrorData::invalid_request(message, None), find_id_near_start(beginning))
}

/// The error for a call id that is in use. It carries no id, since it would then answer the call that uses the id.
pub(super) fn duplicate_id_error(id: &RequestId) -> TxJsonRpcMessage<RoleServer> {
    let message = format!("a call with id {id} is still being answered");
    JsonRpcMessage::error(ErrorData::invalid_request(message, None), None)
}

fn parse_request_id(value: &Value) -> Option<RequestId> {
    serde_json::from_value(value.clone()).ok()
}

/// The id of a frame that cannot be parsed, if it is at the top level near the beginning. Skips strings and nested
/// values, so that an `id` inside the arguments is not mistaken for it.
pub(super) fn find_id_near_start(beginning: &[u8]) -> Option<RequestId> {
    let beginning = &beginning[..beginning.len().min(limits::FRAME_ID_WITHIN_BYTES)];
    let (mut depth, mut index) = (0usize, 0);
    while index < beginning.len() {
        match beginning[index] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let string_end = find_string_end(beginning, index)?;
                if depth == 1 && &beginning[index..=string_end] == b"\"id\"" {
                    return parse_id_after_key(&beginning[string_end + 1..]);
                }
                index = string_end;
            }
            _ => {}
        }
        index += 1;
    }
    None
}

fn find_string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut index = start + 1;
    while index < text.len() {
        match text[index] {
            b'\\' => index += 1,
            b'"' => return Some(index),
            _ => {}
        }
        index += 1;
    }
    None
}

fn parse_id_after_key(text: &[u8]) -> Option<RequestId> {
    let text = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    parse_request_id(&values.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_read_in_pieces_and_bounded() {
        let mut input = tokio_test::io::Builder::new()
            .read(b"{\"a\"")
            .read(b":1}\n\n")
            .read(&[b'x'; 40])
            .read(b"\nlast\nunfinished")
            .build();
        let mut input = FrameReader::new(tokio::io::BufReader::new(&mut input), 32);
        let mut frames = Vec::new();
        loop {
            match input.next_frame().await.expect("a frame") {
                Frame::End => break,
                frame => frames.push(frame),
            }
        }
        let expected = [
            Frame::Line(b"{\"a\":1}".to_vec()),
            Frame::Line(Vec::new()),
            Frame::Oversized(vec![b'x'; 40]),
            Frame::Line(b"last".to_vec()),
        ];
        assert_eq!(frames, expected);
    }

    #[test]
    fn values_per_frame_are_limited() {
        let list = |values: usize| format!("[{}0]", "1,".repeat(values - 2));
        assert!(!has_too_many_values(list(limits::FRAME_VALUES_MAX).as_bytes()));
        assert!(has_too_many_values(list(limits::FRAME_VALUES_MAX + 1).as_bytes()));
        let text = format!("[{:?}]", "1,".repeat(limits::FRAME_VALUES_MAX));
        assert!(!has_too_many_values(text.as_bytes()), "one text");
    }

    #[test]
    fn tool_call_parses_as_in_rmcp() {
        for params in [
            r#"{"name":"x"}"#,
            r#"{"_meta":{"progressToken":"a","b":[1.5]},"name":"x","arguments":{"a":-1,"b":18446744073709551615,"c":null},"more":1}"#,
            r#"{"name":"é\n","_meta":null,"arguments":null,"requestState":"s","inputResponses":{"k":{}}}"#,
        ] {
            for id in ["7", "\"seven\""] {
                let line = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params},"x":1}}"#
                );
                let ours = parse_tool_call(line.as_bytes()).expect(&line);
                let theirs: JsonRpcRequest<ClientRequest> =
                    serde_json::from_str(&line).expect("a call");
                assert_eq!(ours.request.get_meta(), theirs.request.get_meta());
                assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            }
        }
        for line in [
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":1}}"#,
        ] {
            assert!(parse_tool_call(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn broken_frame_keeps_its_own_id() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"#, Some(RequestId::Number(7))),
            (r#"{"params":{"id":1},"id":"a\"b","x":"#, Some(RequestId::String("a\"b".into()))),
            (r#"{"params":{"id":1}, "x":"#, None),
            (r#"{"x":"\"id\":3""#, None),
            ("not json", None),
            (r#"{"id""#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(find_id_near_start(text.as_bytes()), expected, "{text}");
        }
    }
}
