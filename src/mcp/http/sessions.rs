//! Sessions of protocol versions with a handshake. rmcp manages them. This module adds a limit on their number, the
//! request ids in progress per session, whether a notification stream is open, and when each was last used.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    model::RequestId,
    transport::streamable_http_server::session::{
        SessionManager as _,
        local::{LocalSessionManager, SessionConfig},
    },
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::channel::NotificationChannel;
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// Every session, by id.
#[derive(Debug)]
pub(super) struct HttpSessions {
    manager: Arc<LocalSessionManager>,
    state: Mutex<HttpSessionsState>,
}

#[derive(Debug, Default)]
struct HttpSessionsState {
    sessions: HashMap<String, Arc<HttpSession>>,
    /// The number of sessions that are being created.
    reserved_slots: usize,
    /// A counter of uses, for ordering sessions by last use.
    use_count: u64,
    sweep_count: u64,
}

/// One session.
#[derive(Debug)]
pub(super) struct HttpSession {
    active_calls: Mutex<HashSet<RequestId>>,
    /// The number of streams that deliver notifications: 0 or 1.
    stream_count: watch::Sender<usize>,
    /// The number of open streams, and a token that is cancelled to end those that deliver nothing.
    open_streams: Mutex<(usize, CancellationToken)>,
    /// The last use, as a use count and as a sweep count.
    last_use: Mutex<(u64, u64)>,
}

impl HttpSessions {
    pub(super) fn new() -> Self {
        let mut manager = LocalSessionManager::default();
        let mut config = SessionConfig::default();
        // Disable rmcp's timer, which ends sessions even if their calls are still running. [`HttpSessions::end_unused_sessions`] checks
        // for that.
        config.keep_alive = None;
        // Keep replies only briefly: a client that lost one repeats its call.
        config.completed_cache_ttl = limits::HTTP_EVENTS_KEPT_MAX;
        manager.session_config = config;
        Self { manager: Arc::new(manager), state: Mutex::default() }
    }

    /// rmcp's session manager.
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, HttpSessionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session with this id. Counts as a use.
    pub(super) fn find_session(&self, id: &str) -> Option<Arc<HttpSession>> {
        let mut state = self.lock_state();
        state.use_count += 1;
        let now = (state.use_count, state.sweep_count);
        let session = state.sessions.get(id)?.clone();
        session.record_use(now);
        Some(session)
    }

    /// Reserves a slot for a new session. At the limit, ends the least recently used session that is not busy. Its
    /// client can start another one, since executions do not depend on sessions.
    ///
    /// # Errors
    /// `SERVER_BUSY` if all sessions are busy.
    pub(super) async fn reserve_slot(self: &Arc<Self>) -> Result<SessionSlot> {
        let mut evicted_id = None;
        {
            let mut state = self.lock_state();
            if state.sessions.len() + state.reserved_slots >= limits::HTTP_SESSIONS_MAX {
                let id = state.least_used_session().ok_or_else(all_sessions_busy_error)?;
                state.sessions.remove(&id);
                evicted_id = Some(id);
            }
            state.reserved_slots += 1;
        }
        // The slot is released on drop, even if this future is cancelled.
        let slot = SessionSlot { sessions: self.clone(), session: Arc::new(HttpSession::new()) };
        if let Some(id) = evicted_id {
            // Close it in a separate task: it is already removed from the list, so it must be closed even if this
            // future is cancelled.
            let sessions = self.clone();
            let _ = tokio::spawn(async move { sessions.close_session(&id).await }).await;
        }
        Ok(slot)
    }

    /// Removes a session that has ended.
    pub(super) fn forget_session(&self, id: &str) {
        self.lock_state().sessions.remove(id);
    }

    async fn close_session(&self, id: &str) {
        let id = id.into();
        let close = self.manager.close_session(&id);
        // A client that reads nothing must not block others.
        let _ = tokio::time::timeout(limits::HTTP_ROOM_MAX, close).await;
    }

    /// Ends unused sessions, and removes those that rmcp has ended. To be called once a second.
    pub(super) async fn end_unused_sessions(self: &Arc<Self>) {
        // Read our list first, then rmcp's: a session that is created in between is then not taken for ended.
        let open_ids: Vec<_> = self.lock_state().sessions.keys().cloned().collect();
        let ended_ids: Vec<_> = {
            let sessions = self.manager.sessions.read().await;
            let has_ended = |id: &String| !sessions.contains_key(id.as_str());
            open_ids.into_iter().filter(has_ended).collect()
        };
        let unused_ids = {
            let mut state = self.lock_state();
            state.sweep_count += 1;
            for id in &ended_ids {
                state.sessions.remove(id);
            }
            state.unused_sessions()
        };
        let close_tasks = unused_ids.into_iter().map(|id| {
            self.forget_session(&id);
            let sessions = self.clone();
            tokio::spawn(async move { sessions.close_session(&id).await })
        });
        for task in close_tasks.collect::<Vec<_>>() {
            let _ = task.await;
        }
    }
}

fn all_sessions_busy_error() -> Error {
    let message =
        format!("{} sessions are in use already, which is the limit", limits::HTTP_SESSIONS_MAX);
    Error::new(Code::ServerBusy, message)
}

impl HttpSessionsState {
    fn least_used_session(&self) -> Option<String> {
        let idle_sessions = self.sessions.iter().filter(|(_, session)| !session.is_busy());
        let least_used = idle_sessions.min_by_key(|(_, session)| session.last_use().0)?;
        Some(least_used.0.clone())
    }

    fn unused_sessions(&self) -> Vec<String> {
        let is_unused = |session: &HttpSession| {
            self.sweep_count - session.last_use().1 > limits::HTTP_SESSION_IDLE_MAX.as_secs()
        };
        self.sessions
            .iter()
            .filter(|(_, session)| !session.is_busy() && is_unused(session))
            .map(|(id, _)| id.clone())
            .collect()
    }
}

/// A reserved slot for a session that is being created.
#[derive(Debug)]
pub(super) struct SessionSlot {
    sessions: Arc<HttpSessions>,
    session: Arc<HttpSession>,
}

impl SessionSlot {
    pub(super) fn session(&self) -> &Arc<HttpSession> {
        &self.session
    }

    /// Registers the created session under this id.
    pub(super) fn register_session(self, id: &str) {
        let mut state = self.sessions.lock_state();
        state.use_count += 1;
        self.session.record_use((state.use_count, state.sweep_count));
        state.sessions.insert(id.to_owned(), self.session.clone());
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.sessions.lock_state().reserved_slots -= 1;
    }
}

impl HttpSession {
    fn new() -> Self {
        Self {
            active_calls: Mutex::default(),
            stream_count: watch::Sender::new(0),
            open_streams: Mutex::default(),
            last_use: Mutex::default(),
        }
    }

    fn lock_call_ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.active_calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_use(&self) -> (u64, u64) {
        *self.last_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_use(&self, now: (u64, u64)) {
        *self.last_use.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    fn is_busy(&self) -> bool {
        !self.lock_call_ids().is_empty() || self.lock_open_streams().0 > 0
    }

    fn lock_open_streams(&self) -> MutexGuard<'_, (usize, CancellationToken)> {
        self.open_streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The notification channel of its client.
    pub(super) fn notification_channel(&self) -> NotificationChannel {
        NotificationChannel::from_stream_count(self.stream_count.subscribe())
    }

    /// Registers a call with this id.
    ///
    /// # Errors
    /// `REQUEST_INVALID` if a call with this id is still in progress; `SERVER_BUSY` if the session has the maximum
    /// number of calls in progress.
    pub(super) fn register_call(self: &Arc<Self>, id: RequestId) -> Result<ActiveCallId> {
        let mut calls = self.lock_call_ids();
        if calls.contains(&id) {
            let message = format!("a call with id {id} is still being answered");
            return Err(Error::new(Code::RequestInvalid, message)
                .with_action("Send the call again with another id, or wait for the first answer"));
        }
        if calls.len() >= limits::HTTP_SESSION_CALLS_MAX {
            let max = limits::HTTP_SESSION_CALLS_MAX;
            let message =
                format!("{max} calls of this session are in work already, which is the limit");
            return Err(Error::new(Code::ServerBusy, message));
        }
        calls.insert(id.clone());
        Ok(ActiveCallId { session: self.clone(), id })
    }

    /// Registers a stream. Only the first open stream delivers notifications: rmcp accepts further ones, but never
    /// sends on them.
    pub(super) fn register_stream(self: &Arc<Self>) -> OpenStream {
        let mut open_streams = self.lock_open_streams();
        open_streams.0 += 1;
        let is_first = *self.stream_count.borrow() == 0;
        if is_first {
            self.stream_count.send_replace(1);
        }
        OpenStream {
            session: self.clone(),
            end_token: if is_first { CancellationToken::new() } else { open_streams.1.clone() },
            is_first,
        }
    }
}

/// The id of a call in progress, released on drop.
#[derive(Debug)]
pub(super) struct ActiveCallId {
    session: Arc<HttpSession>,
    id: RequestId,
}

impl Drop for ActiveCallId {
    fn drop(&mut self) {
        self.session.lock_call_ids().remove(&self.id);
    }
}

/// An open stream of a session, released on drop.
#[derive(Debug)]
pub(super) struct OpenStream {
    session: Arc<HttpSession>,
    end_token: CancellationToken,
    is_first: bool,
}

impl OpenStream {
    /// Cancelled when the stream should end, because the stream that delivered notifications has ended. The client then
    /// opens a new one.
    pub(super) fn end_token(&self) -> CancellationToken {
        self.end_token.clone()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open_streams = self.session.lock_open_streams();
        open_streams.0 -= 1;
        if self.is_first {
            self.session.stream_count.send_replace(0);
            std::mem::take(&mut open_streams.1).cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fill_all_sessions() -> Arc<HttpSessions> {
        let sessions = Arc::new(HttpSessions::new());
        for number in 0..limits::HTTP_SESSIONS_MAX {
            let slot = sessions.reserve_slot().await.expect("room");
            slot.register_session(&number.to_string());
        }
        sessions
    }

    #[tokio::test]
    async fn idle_session_is_evicted_first() {
        let sessions = fill_all_sessions().await;
        let call =
            sessions.find_session("0").expect("it is open").register_call(RequestId::Number(1));
        let stream = sessions.find_session("1").expect("it is open").register_stream();
        sessions.find_session("2").expect("it is open");
        sessions.reserve_slot().await.expect("room").register_session("new");
        assert!(
            sessions.find_session("3").is_none(),
            "the first that is neither busy nor used since"
        );
        for id in ["0", "1", "2", "new"] {
            assert!(sessions.find_session(id).is_some(), "{id}");
        }
        drop((call, stream));
    }

    #[tokio::test]
    async fn busy_sessions_are_not_evicted() {
        let sessions = fill_all_sessions().await;
        let calls: Vec<_> = (0..limits::HTTP_SESSIONS_MAX)
            .map(|number| {
                sessions
                    .find_session(&number.to_string())
                    .expect("open")
                    .register_call(RequestId::Number(1))
            })
            .collect();
        let refused = sessions.reserve_slot().await.expect_err("no room");
        assert_eq!(refused.code(), Code::ServerBusy);
        drop(calls);
        drop(sessions.reserve_slot().await.expect("room again"));
        let coming = sessions.lock_state().reserved_slots;
        assert_eq!(coming, 0, "a slot that was not filled is free again");
    }

    #[tokio::test]
    async fn eviction_outlives_its_requester() {
        let sessions = fill_all_sessions().await;
        let (id, _transport) = sessions.manager.create_session().await.expect("one");
        sessions.reserve_slot().await.expect("room").register_session(&id);
        for number in 1..limits::HTTP_SESSIONS_MAX {
            sessions.find_session(&number.to_string()).expect("it is open");
        }
        let held_up = sessions.manager.sessions.read().await;
        let mut asking = Box::pin(sessions.reserve_slot());
        tokio::select! {
            biased;
            _ = &mut asking => panic!("it is held up"),
            () = tokio::task::yield_now() => {}
        }
        drop((asking, held_up));
        assert!(sessions.find_session(&id).is_none());
        let ended = async {
            while !sessions.manager.sessions.read().await.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        let patience = std::time::Duration::from_secs(60);
        let ended = tokio::time::timeout(patience, ended).await;
        ended.expect("rmcp has ended it too");
    }

    #[test]
    fn call_id_cannot_be_used_twice() {
        let session = Arc::new(HttpSession::new());
        let call = session.register_call(RequestId::Number(1)).expect("new");
        let again = session.register_call(RequestId::Number(1)).expect_err("in work");
        assert_eq!(again.code(), Code::RequestInvalid);
        assert!(session.register_call(RequestId::String("1".into())).is_ok());
        drop(call);
        assert!(session.register_call(RequestId::Number(1)).is_ok());
    }

    #[test]
    fn calls_per_session_are_limited() {
        let session = Arc::new(HttpSession::new());
        let mut calls: Vec<_> = (0..)
            .take(limits::HTTP_SESSION_CALLS_MAX)
            .map(|id| session.register_call(RequestId::Number(id)).expect("room"))
            .collect();
        let refused = session.register_call(RequestId::Number(-1)).expect_err("full");
        assert_eq!(refused.code(), Code::ServerBusy);
        calls.pop();
        assert!(session.register_call(RequestId::Number(-1)).is_ok());
    }

    #[test]
    fn idle_streams_end_with_the_active() {
        let session = Arc::new(HttpSession::new());
        let [first, second, third] = [(); 3].map(|()| session.register_stream());
        assert_eq!(*session.stream_count.borrow(), 1);
        drop(second);
        assert!(!third.end_token().is_cancelled() && session.is_busy());
        drop(first);
        assert!(third.end_token().is_cancelled(), "its client shall open another");
        assert_eq!(*session.stream_count.borrow(), 0);
        let fourth = session.register_stream();
        assert_eq!(*session.stream_count.borrow(), 1);
        drop(third);
        assert!(!fourth.end_token().is_cancelled());
        drop(fourth);
        assert!(!session.is_busy());
    }

    #[tokio::test]
    async fn ended_and_unused_sessions_go() {
        let sessions = Arc::new(HttpSessions::new());
        let (id, _transport) = sessions.manager.create_session().await.expect("a session");
        sessions.reserve_slot().await.expect("room").register_session(&id);
        sessions.reserve_slot().await.expect("room").register_session("ended");
        sessions.end_unused_sessions().await;
        assert!(sessions.find_session("ended").is_none());
        let stream = sessions.find_session(&id).expect("it is open").register_stream();
        for _ in 0..=limits::HTTP_SESSION_IDLE_MAX.as_secs() + 1 {
            sessions.end_unused_sessions().await;
        }
        assert_eq!(sessions.lock_state().sessions.len(), 1, "a stream is open");
        drop(stream);
        sessions.end_unused_sessions().await;
        assert_eq!(sessions.lock_state().sessions.len(), 0);
        assert!(sessions.manager.sessions.read().await.is_empty());
    }
}
