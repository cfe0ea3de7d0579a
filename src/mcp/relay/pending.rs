//! The client state that a takeover needs: the handshake, the subscriptions, and the unanswered calls.

use std::collections::{BTreeSet, HashMap};

use rmcp::model::{RequestId, SubscriptionFilter};
use serde_json::{Value, json};

use super::message::{self, Message, RequestRepeatability};
use crate::{answer, metadata};
use midex_domain::{
    clock::IdSource,
    error::{Code, Error, address, call_tool, read_resource},
    limits,
};

/// The metadata key that names the listen of a notification.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The maximum size of a refusal from a server that is shutting down. Larger lines are not parsed.
const REFUSAL_BYTES_MAX: usize = 8 << 10;
/// The message for a call whose owner exited before it answered.
const UNKNOWN_OUTCOME_MESSAGE: &str = "it is not known whether the call was done";
/// The id prefix of requests that the relay itself sends.
const RELAY_ID_PREFIX: &str = "midex-relay-";

/// The state of one client that must be replayed to its next server.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    /// The line of the handshake, and whether it was answered.
    handshake: Option<(Vec<u8>, bool)>,
    /// The line of the client's `notifications/initialized`.
    initialized: Option<Vec<u8>>,
    subscriptions: BTreeSet<String>,
    calls: HashMap<RequestId, PendingCall>,
    /// The total size of the pending calls in bytes.
    bytes: usize,
    /// A counter that orders calls and numbers the relay's own requests.
    next_order: u64,
    /// The relay's own unanswered requests, each with the resource that it resubscribes to.
    relay_requests: HashMap<String, Option<String>>,
}

/// A call that is not answered yet.
#[derive(Debug)]
struct PendingCall {
    line: Vec<u8>,
    order: u64,
    repeatability: RequestRepeatability,
    /// Whether the call was sent, so that a server may have read it.
    is_sent: bool,
    /// For a call that was not sent: whether answering it needs a store.
    is_store_needed: bool,
    /// For a listen: whether the client got an acknowledgement.
    is_acknowledged: bool,
}

/// What to do with a line of the owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OwnerLineAction {
    /// Pass the line on to the client.
    Forward,
    /// Send these lines to the client instead; none to drop the line.
    Replace(Vec<Vec<u8>>),
}

impl PendingCalls {
    /// Whether another call of the client may be read.
    pub(super) fn has_room_for_call(&self) -> bool {
        self.calls.len() < limits::CLIENT_CALLS_MAX && self.bytes < limits::CLIENT_UNSENT_BYTES_MAX
    }

    /// Whether every call is answered, except for listens, which do not end.
    pub(super) fn is_settled(&self) -> bool {
        self.calls
            .values()
            .all(|call| matches!(call.repeatability, RequestRepeatability::Listen(_)))
    }

    /// Whether an unsent call is pending that needs no store.
    pub(super) fn waits_without_store(&self) -> bool {
        let mut calls = self.calls.values();
        calls.any(|call| !call.is_sent && !call.is_store_needed)
    }

    /// Records a line of the client. `is_sent` tells whether it is sent now, or to the next owner.
    ///
    /// # Errors
    /// The id of the call, if a call with this id is pending already.
    pub(super) fn record_client_line(
        &mut self,
        line: &[u8],
        message: &Message<'_>,
        is_sent: bool,
    ) -> Result<(), RequestId> {
        match (message.method.as_deref(), message.id()) {
            (Some(_), Some(id)) if self.calls.contains_key(&id) => return Err(id),
            (Some(_), Some(id)) => self.record_client_call(id, line, message, is_sent),
            (Some("notifications/initialized"), None) => self.initialized = Some(line.to_vec()),
            (Some("notifications/cancelled"), None) => {
                if let Some(id) = message.cancelled_request() {
                    self.forget_call(&id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn record_client_call(
        &mut self,
        id: RequestId,
        line: &[u8],
        message: &Message<'_>,
        is_sent: bool,
    ) {
        if message.method.as_deref() == Some("initialize") && !self.has_shaken_hands() {
            self.handshake = Some((line.to_vec(), false));
        }
        self.next_order += 1;
        self.bytes += line.len();
        let call = PendingCall {
            line: line.to_vec(),
            order: self.next_order,
            repeatability: message.repeatability(),
            is_sent,
            is_store_needed: !is_sent && !message.needs_no_store(),
            is_acknowledged: false,
        };
        self.calls.insert(id, call);
    }

    fn has_shaken_hands(&self) -> bool {
        self.handshake.as_ref().is_some_and(|(_, answered)| *answered)
    }

    fn forget_call(&mut self, id: &RequestId) -> Option<PendingCall> {
        let call = self.calls.remove(id)?;
        self.bytes -= call.line.len();
        Some(call)
    }

    /// Handles a response or a notification of the owner. `is_ending` tells that the relay is ending, so that there is no
    /// next owner.
    pub(super) fn handle_owner_message(
        &mut self,
        line: &[u8],
        message: &Message<'_>,
        is_ending: bool,
    ) -> OwnerLineAction {
        match (message.method.as_deref(), message.id()) {
            (Some("notifications/subscriptions/acknowledged"), None) => {
                self.handle_listen_ack(message)
            }
            (Some(_), _) | (None, None) => OwnerLineAction::Forward,
            (None, Some(id)) => self.settle_call(&id, line, is_ending),
        }
    }

    fn settle_call(&mut self, id: &RequestId, line: &[u8], is_ending: bool) -> OwnerLineAction {
        if let RequestId::String(relay_id) = id
            && let Some(uri) = self.relay_requests.remove(&**relay_id)
        {
            return OwnerLineAction::Replace(
                uri.map(|uri| build_updated_line(&uri, None)).into_iter().collect(),
            );
        }
        let Some(call) = self.calls.get(id) else {
            return OwnerLineAction::Forward;
        };
        let can_repeat = call.repeatability != RequestRepeatability::Once;
        let is_listen = matches!(call.repeatability, RequestRepeatability::Listen(_));
        // The owner is shutting down: the next owner repeats the call or the listen, so drop this response.
        let is_deferred =
            (is_listen && is_result_response(line)) || (can_repeat && is_stopping_refusal(line));
        if is_deferred && !is_ending {
            return OwnerLineAction::Replace(Vec::new());
        }
        let call = self.forget_call(id);
        match call.map(|call| call.repeatability) {
            Some(RequestRepeatability::Handshake) if is_result_response(line) => {
                if let Some((_, answered)) = &mut self.handshake {
                    *answered = true;
                }
            }
            Some(RequestRepeatability::Subscription { uri, begins })
                if is_result_response(line) =>
            {
                if begins {
                    self.subscriptions.insert(uri);
                } else {
                    self.subscriptions.remove(&uri);
                }
            }
            _ => {}
        }
        OwnerLineAction::Forward
    }

    /// Passes on the first acknowledgement of a listen. After a takeover, reports instead everything that may have
    /// changed in between.
    fn handle_listen_ack(&mut self, message: &Message<'_>) -> OwnerLineAction {
        let params: Option<serde_json::Map<String, Value>> = message.params();
        let id = params.as_ref().and_then(|params| params.get("_meta")?.get(SUBSCRIPTION_ID));
        let id: Option<RequestId> = id.and_then(|id| serde_json::from_value(id.clone()).ok());
        let Some((id, call)) = id.and_then(|id| {
            let call = self.calls.get_mut(&id)?;
            Some((id, call))
        }) else {
            return OwnerLineAction::Forward;
        };
        if !std::mem::replace(&mut call.is_acknowledged, true) {
            return OwnerLineAction::Forward;
        }
        let RequestRepeatability::Listen(filter) = &call.repeatability else {
            return OwnerLineAction::Forward;
        };
        OwnerLineAction::Replace(build_missed_notifications(&id, filter))
    }

    /// The handshake, and the calls that a server without a store can answer.
    pub(super) fn lines_needing_no_store(&mut self) -> Vec<Vec<u8>> {
        let mut lines = self.handshake_lines();
        lines.extend(self.take_matching_calls(|call| !call.is_sent && !call.is_store_needed));
        lines
    }

    /// The handshake lines, which precede everything else.
    fn handshake_lines(&mut self) -> Vec<Vec<u8>> {
        let mut lines =
            self.take_matching_calls(|call| call.repeatability == RequestRepeatability::Handshake);
        if let Some((line, true)) = self.handshake.clone() {
            let id = RequestId::String(self.allocate_relay_id(None).into());
            lines.extend(message::replace_message_id(&line, &id));
        }
        lines.extend(self.initialized.clone());
        lines
    }

    /// Requests to restore the subscriptions, except those that a pending call ends: the server may process two
    /// requests concurrently.
    fn subscription_requests(&mut self) -> Vec<Vec<u8>> {
        let ended_uris = self.calls.values().filter_map(|call| match &call.repeatability {
            RequestRepeatability::Subscription { uri, begins: false } => Some(uri.clone()),
            _ => None,
        });
        let ended_uris: BTreeSet<_> = ended_uris.collect();
        let uris: Vec<_> = self.subscriptions.difference(&ended_uris).cloned().collect();
        let lines = uris.into_iter().map(|uri| {
            let params = json!({ "uri": uri });
            message::build_request(
                &self.allocate_relay_id(Some(uri)),
                "resources/subscribe",
                &params,
            )
        });
        lines.collect()
    }

    /// The calls that match, in the order of the client. They count as sent from now on.
    fn take_matching_calls(&mut self, is_match: impl Fn(&PendingCall) -> bool) -> Vec<Vec<u8>> {
        let calls = self.calls.values_mut().filter(|call| is_match(call));
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable_by_key(|call| call.order);
        let lines = calls.into_iter().map(|call| {
            call.is_sent = true;
            call.line.clone()
        });
        lines.collect()
    }

    /// The lines to replay to the next owner: the handshake, the subscriptions, and every call that may be repeated.
    /// The second value holds error responses for the calls that may not.
    pub(super) fn replay_lines(&mut self, ids: &dyn IdSource) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        self.relay_requests.clear();
        let is_lost =
            |call: &PendingCall| call.is_sent && call.repeatability == RequestRepeatability::Once;
        let answers = self.refuse_matching_calls(is_lost, unknown_outcome_error, ids);
        let mut lines = self.handshake_lines();
        lines.extend(self.subscription_requests());
        lines.extend(
            self.take_matching_calls(|call| call.repeatability != RequestRepeatability::Handshake),
        );
        (lines, answers)
    }

    fn allocate_relay_id(&mut self, subscribed_uri: Option<String>) -> String {
        self.next_order += 1;
        let id = format!("{RELAY_ID_PREFIX}{}", self.next_order);
        self.relay_requests.insert(id.clone(), subscribed_uri);
        id
    }

    /// Error responses for unsent calls that need a store, if no owner can be reached.
    pub(super) fn refuse_unsent(&mut self, error: &Error, ids: &dyn IdSource) -> Vec<Vec<u8>> {
        self.refuse_matching_calls(
            |call| !call.is_sent && call.is_store_needed,
            |_| error.clone(),
            ids,
        )
    }

    /// Abandons an owner that is suspended or hangs. Calls that need no store will be sent to a server in this process.
    /// Returns error responses for the other calls that were sent, except listens, which the next owner gets.
    pub(super) fn abandon_owner(
        &mut self,
        suspended_error: &Error,
        ids: &dyn IdSource,
    ) -> Vec<Vec<u8>> {
        for call in self.calls.values_mut() {
            call.is_store_needed = !Message::parse(&call.line).needs_no_store();
            call.is_sent &= call.is_store_needed;
        }
        let should_refuse = |call: &PendingCall| {
            call.is_sent && !matches!(call.repeatability, RequestRepeatability::Listen(_))
        };
        let error = |message: &Message<'_>| {
            if message.repeatability() != RequestRepeatability::Once {
                return suspended_error.clone();
            }
            let reason = format!(
                "{} and does not answer: {UNKNOWN_OUTCOME_MESSAGE}",
                suspended_error.message()
            );
            add_outcome_hint(suspended_error.clone().with_message(reason), message)
        };
        self.refuse_matching_calls(should_refuse, error, ids)
    }

    fn refuse_matching_calls(
        &mut self,
        which: impl Fn(&PendingCall) -> bool,
        error: impl Fn(&Message<'_>) -> Error,
        ids: &dyn IdSource,
    ) -> Vec<Vec<u8>> {
        let refused_calls = self.calls.iter().filter(|(_, call)| which(call));
        let mut refused_calls: Vec<_> =
            refused_calls.map(|(id, call)| (call.order, id.clone())).collect();
        refused_calls.sort_unstable_by_key(|(order, _)| *order);
        let mut answers = Vec::new();
        for (_, id) in refused_calls {
            if let Some(call) = self.forget_call(&id) {
                let message = Message::parse(&call.line);
                answers.push(build_refusal_line(&id, &message, &error(&message), ids));
            }
        }
        answers
    }
}

/// The error response of a call, as a server with the client's protocol version writes it.
fn build_refusal_line(
    id: &RequestId,
    message: &Message<'_>,
    error: &Error,
    ids: &dyn IdSource,
) -> Vec<u8> {
    let id = id.clone().into_json_value();
    let Some(call) = message.tool_call().filter(|call| !call.is_task()) else {
        let method = message.method.as_deref().unwrap_or_default();
        let error_data = answer::build_error_data(error, method, ids);
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error_data });
        return answer.to_string().into_bytes();
    };
    let error = error.clone().with_tool(call.tool_name());
    let mut result = answer::build_error_result(&error, call.execution_id(), call.tool_name(), ids);
    if message.is_modern() {
        result = metadata::with_server_identity(result);
    } else {
        result.result_type = None;
    }
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    answer.to_string().into_bytes()
}

/// The error for a call whose owner exited: it is unknown whether the call was done.
fn unknown_outcome_error(message: &Message<'_>) -> Error {
    let reason = format!(
        "the midex that owned the data directory ended before it answered: {UNKNOWN_OUTCOME_MESSAGE}"
    );
    add_outcome_hint(Error::new(Code::ServerStopping, reason), message)
}

/// The error for a call that may have been done, with the call that shows whether it was.
fn add_outcome_hint(error: Error, message: &Message<'_>) -> Error {
    const OUTCOME_HINT: &str = "it tells whether the call was done; if not, send the call again";
    match message.tool_call().and_then(|call| call.execution_id()) {
        Some(id) => error
            .with_context("execution_id", id)
            .with_next(read_resource(address!("workflow_status/{execution_id}"), OUTCOME_HINT)),
        None if message.tool_call().is_some_and(|call| call.is_definition_write()) => {
            error.with_next(call_tool("workflow.list", &[], OUTCOME_HINT))
        }
        None if message.tool_call().is_some_and(|call| call.is_command_call()) => {
            error.with_next(call_tool("execution.list", &[("calls", "true")], OUTCOME_HINT))
        }
        None => error.with_next(call_tool("execution.list", &[], OUTCOME_HINT)),
    }
}

/// Notifications of everything that may have changed while a listen had no server.
fn build_missed_notifications(id: &RequestId, filter: &SubscriptionFilter) -> Vec<Vec<u8>> {
    let uris = filter.resource_subscriptions.iter().flatten();
    let mut lines: Vec<_> = uris.map(|uri| build_updated_line(uri, Some(id))).collect();
    for (is_watched, method) in [
        (filter.resources_list_changed, "notifications/resources/list_changed"),
        (filter.prompts_list_changed, "notifications/prompts/list_changed"),
    ] {
        if is_watched == Some(true) {
            let params = json!({ "_meta": { SUBSCRIPTION_ID: id.clone().into_json_value() } });
            lines.push(message::build_notification(method, &params));
        }
    }
    lines
}

fn build_updated_line(uri: &str, listen: Option<&RequestId>) -> Vec<u8> {
    let mut params = json!({ "uri": uri });
    if let Some(id) = listen {
        params["_meta"] = json!({ SUBSCRIPTION_ID: id.clone().into_json_value() });
    }
    message::build_notification("notifications/resources/updated", &params)
}

/// A response, of which only the kind matters.
#[derive(serde::Deserialize)]
struct ResponseKind {
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

fn is_result_response(line: &[u8]) -> bool {
    let answer: Option<ResponseKind> = serde_json::from_slice(line).ok();
    answer.is_some_and(|answer| answer.result.is_some())
}

/// Whether the response is a refusal from a server that is shutting down.
fn is_stopping_refusal(line: &[u8]) -> bool {
    let code = Code::ServerStopping.as_str();
    let contains_code = |line: &[u8]| line.windows(code.len()).any(|part| part == code.as_bytes());
    // Search for the code first, since few lines contain it.
    if line.len() > REFUSAL_BYTES_MAX || !contains_code(line) {
        return false;
    }
    let Ok(answer) = serde_json::from_slice::<ResponseKind>(line) else {
        return false;
    };
    let payload = match (&answer.result, &answer.error) {
        (Some(result), _) if result["isError"] == true => &result["structuredContent"],
        (_, Some(error)) => &error["data"],
        _ => return false,
    };
    payload["error_code"] == code
}
