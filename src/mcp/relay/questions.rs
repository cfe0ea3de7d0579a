//! What an owner asked of the client, and the client has not answered.

use std::collections::VecDeque;

use rmcp::model::RequestId;
use serde_json::json;

use super::message;
use midex_domain::limits;

/// Questions of the owner of the moment. Owners number them alike, so the client sees other ids of each owner after the
/// first one that asked.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// The oldest first: the id that the client sees, and the owner's own.
    open: VecDeque<(RequestId, RequestId)>,
    /// How many owners went.
    gone: u64,
}

impl Questions {
    /// The line in which the client is asked. A call asks one question at a time, so the oldest of more than
    /// [`limits::CLIENT_CALLS_MAX`] is one that nobody waits for.
    pub(super) fn ask(&mut self, own: RequestId, line: &[u8]) -> Option<Vec<u8>> {
        let id = match self.gone {
            0 => own.clone(),
            gone => RequestId::String(format!("{gone}/{own}").into()),
        };
        let line = message::with_id(line, &id)?;
        if self.open.len() == limits::CLIENT_CALLS_MAX {
            self.open.pop_front();
        }
        self.open.push_back((id, own));
        Some(line)
    }

    /// The line in which the owner is answered; `None` where it did not ask, or needs no answer any more.
    pub(super) fn answer(&mut self, id: &RequestId, line: &[u8]) -> Option<Vec<u8>> {
        let at = self.open.iter().position(|(shown, _)| shown == id)?;
        let (_, own) = self.open.remove(at)?;
        message::with_id(line, &own)
    }

    /// Tells the client that the owner needs no answer any more to what it asked under this id of its own.
    pub(super) fn withdraw(&mut self, own: &RequestId) -> Option<Vec<u8>> {
        let at = self.open.iter().position(|(_, asked)| asked == own)?;
        let (id, _) = self.open.remove(at)?;
        Some(withdrawn(id, "the question was withdrawn"))
    }

    /// The same of all, for the owner has gone.
    pub(super) fn withdraw_all(&mut self) -> Vec<Vec<u8>> {
        self.gone += 1;
        let open = self.open.drain(..);
        open.map(|(id, _)| withdrawn(id, "the server was replaced"))
            .collect()
    }

    /// No call waits any more, so no question does.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }
}

fn withdrawn(id: RequestId, reason: &str) -> Vec<u8> {
    let params = json!({ "requestId": id.into_json_value(), "reason": reason });
    message::notification("notifications/cancelled", &params)
}
