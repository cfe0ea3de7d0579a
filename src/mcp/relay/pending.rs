//! What of a client's lines a takeover needs: its handshake, its subscriptions, and the calls that are not answered.

use std::collections::{BTreeSet, HashMap};

use rmcp::model::{RequestId, SubscriptionFilter};
use serde_json::{Value, json};

use super::message::{self, Asks, Message};
use crate::{answer, metadata};
use midex_domain::{
    clock::IdSource,
    error::{Code, Error, address, call, read},
    limits,
};

/// Where a listen's notifications say which listen they belong to.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// No refusal of a server that ends is longer.
const REFUSAL_BYTES_MAX: usize = 8 << 10;
/// The words for a call whose owner went away before the answer.
const NOT_KNOWN: &str = "it is not known whether the call was done";
/// How the ids of requests begin that a relay makes itself.
const OWN_ID: &str = "midex-relay-";

/// The state of one client that its next server must be told.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The handshake, once it was asked for: the line, and whether it was answered.
    handshake: Option<(Vec<u8>, bool)>,
    /// The line in which the client said that it is ready.
    initialized: Option<Vec<u8>>,
    subscriptions: BTreeSet<String>,
    calls: HashMap<RequestId, Call>,
    /// Bytes of the calls.
    bytes: usize,
    /// Numbers the calls, and the relay's own requests.
    next: u64,
    /// The relay's own requests that are not answered, and the address that each subscribes to anew.
    own: HashMap<String, Option<String>>,
}

/// A call without an answer.
#[derive(Debug)]
struct Call {
    line: Vec<u8>,
    order: u64,
    asks: Asks,
    /// Whether a server may have read it.
    sent: bool,
    /// Of a call that was not sent: whether its answer needs a store.
    needs_store: bool,
    /// Of a listen: whether the client was told that it has begun.
    acknowledged: bool,
}

/// What becomes of a line of the owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// The client gets it as it is.
    On,
    /// The client gets these lines instead, or nothing.
    Instead(Vec<Vec<u8>>),
}

impl Pending {
    /// Whether another call of the client may be read.
    pub(super) fn has_room(&self) -> bool {
        self.calls.len() < limits::CLIENT_CALLS_MAX && self.bytes < limits::CLIENT_UNSENT_BYTES_MAX
    }

    /// Whether every call that has an end is answered.
    pub(super) fn is_settled(&self) -> bool {
        self.calls
            .values()
            .all(|call| matches!(call.asks, Asks::Listen(_)))
    }

    /// Whether a call waits that needs no store, and that nobody was sent.
    pub(super) fn waits_without_store(&self) -> bool {
        let mut calls = self.calls.values();
        calls.any(|call| !call.sent && !call.needs_store)
    }

    /// Takes note of a line of the client that is sent now, or with the next link.
    ///
    /// # Errors
    /// The id of the call, where one with this id waits for its answer already.
    pub(super) fn hear(
        &mut self,
        line: &[u8],
        message: &Message<'_>,
        sent: bool,
    ) -> Result<(), RequestId> {
        match (message.method.as_deref(), message.id()) {
            (Some(_), Some(id)) if self.calls.contains_key(&id) => return Err(id),
            (Some(_), Some(id)) => self.hear_call(id, line, message, sent),
            (Some("notifications/initialized"), None) => self.initialized = Some(line.to_vec()),
            (Some("notifications/cancelled"), None) => {
                if let Some(id) = message.cancels() {
                    self.forget(&id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn hear_call(&mut self, id: RequestId, line: &[u8], message: &Message<'_>, sent: bool) {
        if message.method.as_deref() == Some("initialize") && !self.has_shaken_hands() {
            self.handshake = Some((line.to_vec(), false));
        }
        self.next += 1;
        self.bytes += line.len();
        let call = Call {
            line: line.to_vec(),
            order: self.next,
            asks: message.asks(),
            sent,
            needs_store: !sent && !message.needs_no_store(),
            acknowledged: false,
        };
        self.calls.insert(id, call);
    }

    fn has_shaken_hands(&self) -> bool {
        self.handshake
            .as_ref()
            .is_some_and(|(_, answered)| *answered)
    }

    fn forget(&mut self, id: &RequestId) -> Option<Call> {
        let call = self.calls.remove(id)?;
        self.bytes -= call.line.len();
        Some(call)
    }

    /// What becomes of an answer or a notification of the owner; `ends` where no other owner is asked any more.
    pub(super) fn answered(&mut self, line: &[u8], message: &Message<'_>, ends: bool) -> Passed {
        match (message.method.as_deref(), message.id()) {
            (Some("notifications/subscriptions/acknowledged"), None) => self.acknowledged(message),
            (Some(_), _) | (None, None) => Passed::On,
            (None, Some(id)) => self.settle(&id, line, ends),
        }
    }

    fn settle(&mut self, id: &RequestId, line: &[u8], ends: bool) -> Passed {
        if let RequestId::String(own) = id
            && let Some(uri) = self.own.remove(&**own)
        {
            return Passed::Instead(uri.map(|uri| updated(&uri, None)).into_iter().collect());
        }
        let Some(call) = self.calls.get(id) else {
            return Passed::On;
        };
        let may_ask_again = call.asks != Asks::Once;
        let is_listen = matches!(call.asks, Asks::Listen(_));
        // The owner ends: what it did not do, and what it told of, its successor does.
        let is_put_off = (is_listen && is_result(line)) || (may_ask_again && is_stopping(line));
        if is_put_off && !ends {
            return Passed::Instead(Vec::new());
        }
        let call = self.forget(id);
        match call.map(|call| call.asks) {
            Some(Asks::Handshake) if is_result(line) => {
                if let Some((_, answered)) = &mut self.handshake {
                    *answered = true;
                }
            }
            Some(Asks::Subscription { uri, begins }) if is_result(line) => {
                if begins {
                    self.subscriptions.insert(uri);
                } else {
                    self.subscriptions.remove(&uri);
                }
            }
            _ => {}
        }
        Passed::On
    }

    /// The first acknowledgement of a listen is the client's; after a takeover it is told what may have changed instead.
    fn acknowledged(&mut self, message: &Message<'_>) -> Passed {
        let params: Option<serde_json::Map<String, Value>> = message.params();
        let id = params
            .as_ref()
            .and_then(|params| params.get("_meta")?.get(SUBSCRIPTION_ID));
        let id: Option<RequestId> = id.and_then(|id| serde_json::from_value(id.clone()).ok());
        let Some((id, call)) = id.and_then(|id| {
            let call = self.calls.get_mut(&id)?;
            Some((id, call))
        }) else {
            return Passed::On;
        };
        if !std::mem::replace(&mut call.acknowledged, true) {
            return Passed::On;
        }
        let Asks::Listen(filter) = &call.asks else {
            return Passed::On;
        };
        Passed::Instead(news(&id, filter))
    }

    /// The calls that a server in this process can answer without a store.
    pub(super) fn without_store(&mut self) -> Vec<Vec<u8>> {
        let mut lines = self.greeting();
        lines.extend(self.send(|call| !call.sent && !call.needs_store));
        lines
    }

    /// The handshake, which comes before all else.
    fn greeting(&mut self) -> Vec<Vec<u8>> {
        let mut lines = self.send(|call| call.asks == Asks::Handshake);
        if let Some((line, true)) = self.handshake.clone() {
            let id = RequestId::String(self.own_id(None).into());
            lines.extend(message::with_id(&line, &id));
        }
        lines.extend(self.initialized.clone());
        lines
    }

    /// The subscriptions but for those that a call ends, as requests of the relay's own: a server may work on two requests
    /// at once.
    fn resubscribe(&mut self) -> Vec<Vec<u8>> {
        let ends = self.calls.values().filter_map(|call| match &call.asks {
            Asks::Subscription { uri, begins: false } => Some(uri.clone()),
            _ => None,
        });
        let ends: BTreeSet<_> = ends.collect();
        let uris: Vec<_> = self.subscriptions.difference(&ends).cloned().collect();
        let lines = uris.into_iter().map(|uri| {
            let params = json!({ "uri": uri });
            message::request(&self.own_id(Some(uri)), "resources/subscribe", &params)
        });
        lines.collect()
    }

    /// The calls of which this is true in the order in which the client made them; from now on they count as sent.
    fn send(&mut self, which: impl Fn(&Call) -> bool) -> Vec<Vec<u8>> {
        let calls = self.calls.values_mut().filter(|call| which(call));
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable_by_key(|call| call.order);
        let lines = calls.into_iter().map(|call| {
            call.sent = true;
            call.line.clone()
        });
        lines.collect()
    }

    /// What is said to the next owner: the handshake, the subscriptions, and every call that may be asked of it. The
    /// others are answered: the second part.
    pub(super) fn replay(&mut self, ids: &dyn IdSource) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        self.own.clear();
        let is_lost = |call: &Call| call.sent && call.asks == Asks::Once;
        let answers = self.refuse(is_lost, unknown_outcome, ids);
        let mut lines = self.greeting();
        lines.extend(self.resubscribe());
        lines.extend(self.send(|call| call.asks != Asks::Handshake));
        (lines, answers)
    }

    fn own_id(&mut self, subscribes: Option<String>) -> String {
        self.next += 1;
        let id = format!("{OWN_ID}{}", self.next);
        self.own.insert(id.clone(), subscribes);
        id
    }

    /// The answers to the calls that need a store and that nobody was sent, where nobody can be.
    pub(super) fn refuse_unsent(&mut self, error: &Error, ids: &dyn IdSource) -> Vec<Vec<u8>> {
        self.refuse(
            |call| !call.sent && call.needs_store,
            |_| error.clone(),
            ids,
        )
    }

    /// Leaves an owner that is stopped: what needs no store is asked of a server in this process, the rest is answered.
    pub(super) fn leave(&mut self, busy: &Error, ids: &dyn IdSource) -> Vec<Vec<u8>> {
        for call in self.calls.values_mut() {
            call.needs_store = !Message::of(&call.line).needs_no_store();
            call.sent &= call.needs_store;
        }
        let is_left = |call: &Call| call.sent && !matches!(call.asks, Asks::Listen(_));
        let error = |message: &Message<'_>| {
            if message.asks() != Asks::Once {
                return busy.clone();
            }
            let what = format!("{} and does not answer: {NOT_KNOWN}", busy.message());
            may_be_done(busy.clone().with_message(what), message)
        };
        self.refuse(is_left, error, ids)
    }

    fn refuse(
        &mut self,
        which: impl Fn(&Call) -> bool,
        error: impl Fn(&Message<'_>) -> Error,
        ids: &dyn IdSource,
    ) -> Vec<Vec<u8>> {
        let refused = self.calls.iter().filter(|(_, call)| which(call));
        let mut refused: Vec<_> = refused.map(|(id, call)| (call.order, id.clone())).collect();
        refused.sort_unstable_by_key(|(order, _)| *order);
        let mut answers = Vec::new();
        for (_, id) in refused {
            if let Some(call) = self.forget(&id) {
                let message = Message::of(&call.line);
                answers.push(refusal(&id, &message, &error(&message), ids));
            }
        }
        answers
    }
}

/// The answer to a call that is refused here: as a server writes it to a client of the same era.
fn refusal(id: &RequestId, message: &Message<'_>, error: &Error, ids: &dyn IdSource) -> Vec<u8> {
    let id = id.clone().into_json_value();
    let Some(call) = message.tool_call() else {
        let method = message.method.as_deref().unwrap_or_default();
        let fault = answer::fault(error, method, ids);
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": fault });
        return answer.to_string().into_bytes();
    };
    let error = error.clone().during(call.tool());
    let mut result = answer::refusal(&error, call.execution(), call.tool(), ids);
    if message.is_modern() {
        result = metadata::signed(result);
    } else {
        result.result_type = None;
    }
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    answer.to_string().into_bytes()
}

/// Nobody knows whether the owner that went away did this.
fn unknown_outcome(message: &Message<'_>) -> Error {
    let what =
        format!("the midex that owned the data directory ended before it answered: {NOT_KNOWN}");
    may_be_done(Error::new(Code::ServerStopping, what), message)
}

/// The error of a call that may have been done, with the read that tells.
fn may_be_done(error: Error, message: &Message<'_>) -> Error {
    const TELLS: &str = "it tells whether the call was done; if not, send the call again";
    match message.tool_call().and_then(|call| call.execution()) {
        Some(id) => error
            .with("execution_id", id)
            .with_next(read(address!("workflow_status/{execution_id}"), TELLS)),
        None if message
            .tool_call()
            .is_some_and(|call| call.writes_definitions()) =>
        {
            error.with_next(call("workflow.list", &[], TELLS))
        }
        None => error.with_next(call("execution.list", &[], TELLS)),
    }
}

/// What may have changed while nobody told a listen of it.
fn news(id: &RequestId, filter: &SubscriptionFilter) -> Vec<Vec<u8>> {
    let uris = filter.resource_subscriptions.iter().flatten();
    let mut lines: Vec<_> = uris.map(|uri| updated(uri, Some(id))).collect();
    for (wanted, method) in [
        (
            filter.resources_list_changed,
            "notifications/resources/list_changed",
        ),
        (
            filter.prompts_list_changed,
            "notifications/prompts/list_changed",
        ),
    ] {
        if wanted == Some(true) {
            let params = json!({ "_meta": { SUBSCRIPTION_ID: id.clone().into_json_value() } });
            lines.push(message::notification(method, &params));
        }
    }
    lines
}

fn updated(uri: &str, listen: Option<&RequestId>) -> Vec<u8> {
    let mut params = json!({ "uri": uri });
    if let Some(id) = listen {
        params["_meta"] = json!({ SUBSCRIPTION_ID: id.clone().into_json_value() });
    }
    message::notification("notifications/resources/updated", &params)
}

/// An answer, of which only its kind matters.
#[derive(serde::Deserialize)]
struct Answer {
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

fn is_result(line: &[u8]) -> bool {
    let answer: Option<Answer> = serde_json::from_slice(line).ok();
    answer.is_some_and(|answer| answer.result.is_some())
}

/// Whether it is the refusal of a server that ends.
fn is_stopping(line: &[u8]) -> bool {
    let code = Code::ServerStopping.as_str();
    let has_word = |line: &[u8]| line.windows(code.len()).any(|part| part == code.as_bytes());
    // Few lines hold the word at all.
    if line.len() > REFUSAL_BYTES_MAX || !has_word(line) {
        return false;
    }
    let Ok(answer) = serde_json::from_slice::<Answer>(line) else {
        return false;
    };
    let payload = match (&answer.result, &answer.error) {
        (Some(result), _) if result["isError"] == true => &result["structuredContent"],
        (_, Some(error)) => &error["data"],
        _ => return false,
    };
    payload["error_code"] == code
}
