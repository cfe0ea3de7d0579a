//! Requests from the owner to the client (such as elicitations) that the client has not answered.

use std::collections::VecDeque;

use rmcp::model::RequestId;
use serde_json::json;

use super::message;
use midex_domain::limits;

/// The open requests of the current owner. Different owners use the same ids, so the relay gives requests of later
/// owners distinct ids towards the client.
#[derive(Debug, Default)]
pub(super) struct OwnerRequests {
    /// Oldest first: the id towards the client, and the owner's id.
    open_requests: VecDeque<(RequestId, RequestId)>,
    /// How many owners were lost.
    lost_owners: u64,
}

impl OwnerRequests {
    /// The line to send to the client. A call or a task has one open request at a time, so if there are more than
    /// [`limits::CLIENT_CALLS_MAX`], the oldest one is obsolete.
    pub(super) fn forward_request(&mut self, owner_id: RequestId, line: &[u8]) -> Option<Vec<u8>> {
        let id = match self.lost_owners {
            0 => owner_id.clone(),
            gone => RequestId::String(format!("{gone}/{owner_id}").into()),
        };
        let line = message::replace_message_id(line, &id)?;
        if self.open_requests.len() == limits::CLIENT_CALLS_MAX {
            self.open_requests.pop_front();
        }
        self.open_requests.push_back((id, owner_id));
        Some(line)
    }

    /// The line to send to the owner for the client's answer. `None` if there is no such open request.
    pub(super) fn forward_answer(&mut self, id: &RequestId, line: &[u8]) -> Option<Vec<u8>> {
        let index = self.open_requests.iter().position(|(shown, _)| shown == id)?;
        let (_, owner_id) = self.open_requests.remove(index)?;
        message::replace_message_id(line, &owner_id)
    }

    /// The notification that tells the client that the owner cancelled the request with this id.
    pub(super) fn withdraw_request(&mut self, owner_id: &RequestId) -> Option<Vec<u8>> {
        let index = self.open_requests.iter().position(|(_, asked)| asked == owner_id)?;
        let (id, _) = self.open_requests.remove(index)?;
        Some(build_cancel_notification(id, "the question was withdrawn"))
    }

    /// Like [`Self::withdraw_request`], for all requests of an owner that was lost.
    pub(super) fn withdraw_all_requests(&mut self) -> Vec<Vec<u8>> {
        self.lost_owners += 1;
        let cancelled = self.open_requests.drain(..);
        cancelled.map(|(id, _)| build_cancel_notification(id, "the server was replaced")).collect()
    }
}

fn build_cancel_notification(id: RequestId, reason: &str) -> Vec<u8> {
    let params = json!({ "requestId": id.into_json_value(), "reason": reason });
    message::build_notification("notifications/cancelled", &params)
}
