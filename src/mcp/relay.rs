//! A relay copies lines between one client and the owner of a data directory. If the owner exits, the relay connects to
//! the next owner. The client stays connected, and its handshake is replayed for it.
//!
//! All clients on standard streams are served through a relay, even if their own process owns the directory, so that
//! the process can hand the directory over.

mod liveness;
mod message;
mod output_queue;
mod pending;
mod questions;

use std::{future::pending, io, pin::Pin, sync::Arc, time::Duration};

use rmcp::{RoleServer, service::TxJsonRpcMessage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    liveness::SilenceTimer,
    message::Message,
    output_queue::OutputBacklog,
    pending::{OwnerLineAction, PendingCalls},
    questions::OwnerRequests,
};
use super::{
    frame::{self, Frame, FrameReader},
    process::{LinkCloser, OwnerLink, Process},
    transport::complete_error_payload,
};
use midex_domain::{
    clock::{IdSource, SystemIds},
    error::{Code, Error, Result},
    limits,
};

type LinkFuture<'a> = Pin<Box<dyn Future<Output = Result<OwnerLink>> + Send + 'a>>;

/// Relays the process's own standard streams: see [`relay`].
pub async fn relay_stdio(process: &Process, stop: CancellationToken) -> Option<LinkCloser> {
    let (input, output) = rmcp::transport::stdio_pipes();
    relay_until_closed(process, input, output, has_stdin_hung_up, stop).await
}

/// Serves the client at the other end of the two streams until it disconnects or `stop` is cancelled, using the process
/// that owns the directory. Pending replies are sent first. If this process owns the store, the caller must close it
/// with the returned value.
pub async fn relay(
    process: &Process,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin,
    stop: CancellationToken,
) -> Option<LinkCloser> {
    relay_until_closed(process, input, output, || false, stop).await
}

async fn relay_until_closed(
    process: &Process,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin,
    has_hung_up: fn() -> bool,
    stop: CancellationToken,
) -> Option<LinkCloser> {
    let mut relay = Relay {
        process,
        frames: FrameReader::new(BufReader::new(input), limits::FRAME_BYTES_MAX),
        has_hung_up,
        client: OutputBacklog::new(output),
        pending: PendingCalls::default(),
        owner_requests: OwnerRequests::default(),
        owner: None,
        ended_owner: None,
        linking: Some(Box::pin(process.find_owner())),
        link_failure: None,
        last_logged_error: None,
        local_link: None,
        silence: SilenceTimer::default(),
        close_deadline: None,
        drain_deadline: None,
        // Used only for correlation ids.
        ids: Arc::new(SystemIds),
        stop,
    };
    relay.schedule_local_server();
    while relay.is_running() {
        let event = relay.next_event().await;
        relay.handle_event(event);
    }
    let owner = relay.owner.take().map(|owner| owner.closer);
    owner.or(relay.ended_owner)
}

/// An event that the relay handles.
enum RelayEvent {
    /// A frame from the client.
    Client(io::Result<Frame>),
    /// A frame from the owner.
    Owner(io::Result<Frame>),
    /// A write to the client succeeded or failed.
    ClientWrite(io::Result<()>),
    /// A write to the owner succeeded or failed.
    OwnerWrite(io::Result<()>),
    /// The search for an owner ended.
    OwnerLinked(Result<OwnerLink>),
    /// No owner was found in time, so a server in this process is available for requests that need no store.
    LocalServerReady(Result<OwnerLink>),
    /// The owner has been silent for too long.
    OwnerSilent,
    /// It is time to search for an owner again.
    RetryOwner,
    /// This process begins to give up the directory.
    BeginClose,
    /// The grace period for giving up the directory is over.
    CloseDeadline,
    /// The process must shut down.
    Shutdown,
    /// The grace period for pending work is over.
    DrainDeadline,
}

/// The connection to the owner of the directory, or to a server in this process without a store.
struct OwnerConnection {
    frames: FrameReader<Box<dyn AsyncBufRead + Send + Unpin>>,
    output: OutputBacklog<Box<dyn AsyncWrite + Send + Unpin>>,
    closer: LinkCloser,
    is_local: bool,
    /// Whether the owner has sent anything yet.
    has_sent: bool,
    /// Whether writes to the owner fail. Its earlier output may still arrive.
    is_unwritable: bool,
}

struct Relay<'a, R, W> {
    process: &'a Process,
    frames: FrameReader<BufReader<R>>,
    /// Whether the client has closed its end of the stream, even if its output is not completely read.
    has_hung_up: fn() -> bool,
    client: OutputBacklog<W>,
    pending: PendingCalls,
    owner_requests: OwnerRequests,
    owner: Option<OwnerConnection>,
    /// The resources of an owner that disconnected while the relay was ending, for the caller to close.
    ended_owner: Option<LinkCloser>,
    linking: Option<LinkFuture<'a>>,
    /// Why no owner was found, and when to search again.
    link_failure: Option<(Error, Instant)>,
    /// The last error that was logged.
    last_logged_error: Option<Code>,
    /// The future of a server in this process, for requests that need no store, if no owner is found in time.
    local_link: Option<LinkFuture<'a>>,
    silence: SilenceTimer,
    /// The deadline for an owner in this process that is giving up the directory.
    close_deadline: Option<Instant>,
    /// The deadline of the relay, even if calls are pending. Once it is set, nothing more is read from the client.
    drain_deadline: Option<Instant>,
    ids: Arc<dyn IdSource>,
    stop: CancellationToken,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Relay<'_, R, W> {
    fn is_running(&self) -> bool {
        self.drain_deadline.is_none() || !self.pending.is_settled() || !self.client.is_empty()
    }

    async fn next_event(&mut self) -> RelayEvent {
        // Replies that the client has not read stop the reading of its calls only at the limit of the client, as at a server:
        // a client may write many calls before it reads.
        let should_read_client = self.drain_deadline.is_none()
            && self.pending.has_room_for_call()
            && self.client.len() < limits::CLIENT_UNSENT_BYTES_MAX
            && self
                .owner
                .as_ref()
                .is_none_or(|owner| owner.output.len() < limits::RELAY_BACKLOG_BYTES_MAX);
        let should_read_owner =
            self.owner.is_some() && self.client.len() < limits::RELAY_BACKLOG_BYTES_MAX;
        self.update_silence_timer(should_read_owner);
        let (input, output, stop_token) = match &mut self.owner {
            Some(owner) => {
                (Some(&mut owner.frames), Some(&mut owner.output), owner.closer.stopping_token())
            }
            None => (None, None, None),
        };
        let output = output.filter(|output| !output.is_empty());
        let stop_token = stop_token.filter(|_| self.close_deadline.is_none());
        // Poll this only if needed, since creating the server loads the definitions.
        let local_link = self.local_link.as_mut();
        let local_link = local_link.filter(|_| self.pending.waits_without_store());
        let should_watch_hang_up = !should_read_client && self.drain_deadline.is_none();
        tokio::select! {
            frame = self.frames.next_frame(), if should_read_client => RelayEvent::Client(frame),
            frame = await_if_some(input.map(FrameReader::next_frame)), if should_read_owner => RelayEvent::Owner(frame),
            told = timeout(limits::CLIENT_STALL_MAX, self.client.write_available()), if !self.client.is_empty() => {
                RelayEvent::ClientWrite(told.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
            }
            sent = await_if_some(output.map(OutputBacklog::write_available)) => RelayEvent::OwnerWrite(sent),
            link = await_if_some(self.linking.as_mut()) => RelayEvent::OwnerLinked(link),
            link = await_if_some(local_link) => RelayEvent::LocalServerReady(link),
            () = await_if_some(stop_token.map(CancellationToken::cancelled)) => RelayEvent::BeginClose,
            () = sleep_until_instant(self.close_deadline) => RelayEvent::CloseDeadline,
            () = sleep_until_instant(self.silence.deadline()) => RelayEvent::OwnerSilent,
            () = sleep_until_instant(self.link_failure.as_ref().map(|(_, until)| *until)) => RelayEvent::RetryOwner,
            () = self.stop.cancelled(), if self.drain_deadline.is_none() => RelayEvent::Shutdown,
            () = wait_for_hang_up(self.has_hung_up), if should_watch_hang_up => RelayEvent::DrainDeadline,
            () = sleep_until_instant(self.drain_deadline) => RelayEvent::DrainDeadline,
        }
    }

    fn handle_event(&mut self, event: RelayEvent) {
        match event {
            RelayEvent::Client(Ok(Frame::Line(line))) => self.receive_client_line(&line),
            RelayEvent::Client(Ok(Frame::Oversized(beginning))) => {
                self.answer_invalid_frame(frame::oversized_frame_error(&beginning));
            }
            RelayEvent::Client(Ok(Frame::End)) => self.set_end_deadline(limits::EOF_GRACE),
            RelayEvent::Client(Err(error)) => {
                tracing::warn!(%error, "the client's stream could not be read");
                self.set_end_deadline(limits::EOF_GRACE);
            }
            RelayEvent::Owner(Ok(Frame::Line(line))) => self.forward_owner_line(&line),
            RelayEvent::Owner(_) | RelayEvent::CloseDeadline => self.reconnect_after_loss(),
            RelayEvent::OwnerSilent => self.check_silent_owner(),
            RelayEvent::OwnerWrite(Err(_)) => {
                if let Some(owner) = &mut self.owner {
                    owner.is_unwritable = true;
                    owner.output.clear();
                }
            }
            // Set a deadline: if the client reads nothing, the relay does not read the owner's output and would not see
            // its end.
            RelayEvent::BeginClose => {
                self.close_deadline = Some(compute_deadline(limits::EOF_GRACE));
            }
            RelayEvent::ClientWrite(Ok(())) | RelayEvent::OwnerWrite(Ok(())) => {}
            RelayEvent::ClientWrite(Err(error)) => {
                tracing::warn!(%error, "the client takes no replies; it is given up");
                self.end_immediately();
            }
            RelayEvent::OwnerLinked(link) => self.handle_link_result(link),
            RelayEvent::LocalServerReady(link) => self.serve_locally(link),
            RelayEvent::RetryOwner => {
                self.link_failure = None;
                self.linking = Some(Box::pin(self.process.find_owner()));
            }
            RelayEvent::Shutdown => {
                if let Some(owner) = &self.owner {
                    owner.closer.begin_shutdown();
                }
                self.set_end_deadline(limits::SIGNAL_GRACE);
            }
            RelayEvent::DrainDeadline => self.end_immediately(),
        }
    }

    /// Sends a line of the client to the owner, or keeps it for the next owner.
    fn receive_client_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = Message::parse(line);
        if message.is_invalid() {
            if let Err(refusal) = frame::parse_message(line) {
                self.answer_invalid_frame(*refusal);
            }
            return;
        }
        if let (None, Some(id)) = (&message.method, message.id()) {
            let answer = self.owner_requests.forward_answer(&id, line);
            // An answer to a question of a previous owner is dropped.
            if let (Some(answer), Some(owner)) = (answer, &mut self.owner) {
                owner.output.push_line(&answer);
            }
            return;
        }
        let owner = self.owner.as_ref();
        let can_send = owner.is_some_and(|owner| owner.can_answer(&message));
        if let Err(id) = self.pending.record_client_line(line, &message, can_send) {
            return self.answer_invalid_frame(frame::duplicate_id_error(&id));
        }
        if let Some(owner) = self.owner.as_mut().filter(|_| can_send) {
            owner.output.push_line(line);
        }
        if !can_send {
            self.refuse_calls();
        }
    }

    /// After a failed search for an owner, refuses the calls that wait for one.
    fn refuse_calls(&mut self) {
        if let Some((error, retry_at)) = &mut self.link_failure {
            let answers = self.pending.refuse_unsent(error, &*self.ids);
            if !answers.is_empty() {
                *retry_at = (*retry_at).min(compute_deadline(limits::STORE_RETRY_EVERY));
            }
            self.client.push_lines(&answers);
        }
    }

    /// Answers a frame that is not a message.
    fn answer_invalid_frame(&mut self, refusal: TxJsonRpcMessage<RoleServer>) {
        let refusal = complete_error_payload(refusal, &*self.ids);
        self.client.push_line(&serde_json::to_vec(&refusal).unwrap_or_default());
    }

    /// Sends a line of the owner to the client.
    fn forward_owner_line(&mut self, line: &[u8]) {
        self.silence.stop_timer();
        if let Some(owner) = &mut self.owner {
            owner.has_sent = true;
        }
        if line == frame::RELAY_PONG_LINE {
            return;
        }
        let message = Message::parse(line);
        if let (Some(_), Some(owner_id)) = (&message.method, message.id()) {
            let question = self.owner_requests.forward_request(owner_id, line);
            return self.client.push_lines(question.as_slice());
        }
        let cancelled_id = message.cancelled_request();
        if let Some(line) = cancelled_id.and_then(|own| self.owner_requests.withdraw_request(&own))
        {
            return self.client.push_line(&line);
        }
        match self.pending.handle_owner_message(line, &message, self.drain_deadline.is_some()) {
            OwnerLineAction::Forward => self.client.push_line(line),
            OwnerLineAction::Replace(lines) => self.client.push_lines(&lines),
        }
    }

    /// Starts the silence timer if calls are pending at an owner in another process and its output is being read.
    /// Otherwise stops it.
    #[expect(clippy::disallowed_methods, reason = "no time of an execution")]
    fn update_silence_timer(&mut self, is_reading_owner: bool) {
        let is_remote = |owner: &OwnerConnection| {
            !owner.is_local && !owner.closer.is_directory_owner() && !owner.is_unwritable
        };
        let is_awaited = is_reading_owner && self.owner.as_ref().is_some_and(is_remote);
        if is_awaited && !self.pending.is_settled() {
            self.silence.start_timer(Instant::now());
        } else {
            self.silence.stop_timer();
        }
    }

    /// Pings a silent owner, or disconnects from one that did not answer the ping. After that, a late answer is never
    /// read, and the relay reconnects once the owner responds again.
    fn check_silent_owner(&mut self) {
        if self.silence.advance_stage() {
            let suspended_error = self.process.suspended_owner_error();
            tracing::warn!("{suspended_error}, and is stopped or hangs");
            self.client.push_lines(&self.pending.abandon_owner(&suspended_error, &*self.ids));
            self.reconnect_after_loss();
        } else if let Some(owner) = self.owner.as_mut().filter(|_| self.pending.has_room_for_call())
        {
            owner.output.push_line(frame::RELAY_PING_LINE);
        } else {
            // Too many calls are pending at this owner, so it may not read a ping. Do not judge it.
            self.silence.stop_timer();
        }
    }

    /// Handles the loss of the owner: connects to the next one, or becomes the owner.
    fn reconnect_after_loss(&mut self) {
        let Some(owner) = self.owner.take() else {
            return;
        };
        self.close_deadline = None;
        self.client.push_lines(&self.owner_requests.withdraw_all_requests());
        if owner.is_local {
            return;
        }
        if self.drain_deadline.is_some() && (self.stop.is_cancelled() || self.pending.is_settled())
        {
            // The relay is ending: send what is queued, but do not search for another owner.
            self.pending = PendingCalls::default();
            self.ended_owner = Some(owner.closer);
            return;
        }
        let (process, closer, has_sent) = (self.process, owner.closer, owner.has_sent);
        self.linking = Some(Box::pin(async move {
            if closer.is_directory_owner() {
                // Release the store before the search for a new owner: the process that asked for it takes it.
                if let Err(error) = closer.close().await {
                    tracing::warn!(%error, "the store was not closed in order");
                }
                sleep(limits::HAND_OVER_PAUSE).await;
            } else if !has_sent {
                sleep(limits::OWNER_LOOK_EVERY_MAX).await;
            }
            process.find_owner().await
        }));
        self.schedule_local_server();
    }

    fn handle_link_result(&mut self, link: Result<OwnerLink>) {
        self.linking = None;
        match link {
            Ok(link) => self.use_new_owner(link),
            Err(error) => {
                if self.last_logged_error != Some(error.code()) {
                    tracing::warn!(code = error.code().as_str(), "{error}");
                }
                self.last_logged_error = Some(error.code());
                self.link_failure = Some((error, compute_deadline(limits::OWN_RETRY_MAX)));
                self.refuse_calls();
            }
        }
    }

    fn use_new_owner(&mut self, link: OwnerLink) {
        if let Some(owner) = link.owner_greeting() {
            tracing::info!(
                "process {} (midex {}) owns the data directory; this one relays to it",
                owner.pid,
                owner.midex
            );
        }
        for flag in link.ignored_settings() {
            tracing::warn!("the process that owns the data directory has its own settings: {flag}");
        }
        // A server without a store is no longer needed.
        self.reconnect_after_loss();
        (self.local_link, self.last_logged_error) = (None, None);
        let mut owner = OwnerConnection::from_link(link, false);
        let (lines, refusals) = self.pending.replay_lines(&*self.ids);
        owner.output.push_lines(&lines);
        self.client.push_lines(&refusals);
        self.owner = Some(owner);
    }

    /// Prepares a server in this process for requests that need no store, in case no owner is found in time.
    fn schedule_local_server(&mut self) {
        let process = self.process;
        self.local_link = Some(Box::pin(async move {
            sleep(limits::LOCAL_ANSWER_AFTER).await;
            process.local_link().await
        }));
    }

    fn serve_locally(&mut self, link: Result<OwnerLink>) {
        self.local_link = None;
        match link {
            Ok(link) => {
                let mut owner = OwnerConnection::from_link(link, true);
                let lines = self.pending.lines_needing_no_store();
                owner.output.push_lines(&lines);
                self.owner = Some(owner);
            }
            Err(error) => tracing::warn!(%error, "nothing is answered before an owner is found"),
        }
    }

    /// Ends the relay without waiting for pending work.
    fn end_immediately(&mut self) {
        self.set_end_deadline(Duration::ZERO);
        self.pending = PendingCalls::default();
        self.client.clear();
    }

    fn set_end_deadline(&mut self, grace: Duration) {
        self.drain_deadline = Some(compute_deadline(grace));
        self.local_link = None;
    }
}

impl OwnerConnection {
    fn from_link(link: OwnerLink, is_local: bool) -> Self {
        let (input, output, closer) = link.into_streams();
        Self {
            frames: FrameReader::new(input, usize::MAX),
            output: OutputBacklog::new(output),
            closer,
            is_local,
            has_sent: false,
            is_unwritable: false,
        }
    }

    fn can_answer(&self, message: &Message<'_>) -> bool {
        !self.is_unwritable && (!self.is_local || message.needs_no_store())
    }
}

/// Waits until a client that is not being read has closed its end. The wait restarts after every other event, so a
/// client that wrote much and closed its output is still read to the end.
async fn wait_for_hang_up(has_hung_up: fn() -> bool) {
    sleep(limits::EOF_GRACE).await;
    while !has_hung_up() {
        sleep(limits::EOF_GRACE).await;
    }
}

/// Whether the other end of standard input is closed.
fn has_stdin_hung_up() -> bool {
    let stdin = io::stdin();
    // `poll` always reports a hang-up, so no flags are requested.
    let mut stdin = [PollFd::new(&stdin, PollFlags::empty())];
    let poll_result = poll(&mut stdin, Some(&Timespec::default()));
    poll_result.is_ok() && stdin[0].revents().contains(PollFlags::HUP)
}

/// The instant after this duration.
#[expect(clippy::disallowed_methods, reason = "no time of an execution")]
fn compute_deadline(time: Duration) -> Instant {
    Instant::now() + time
}

/// Waits until the instant; forever if there is none.
async fn sleep_until_instant(instant: Option<Instant>) {
    await_if_some(instant.map(sleep_until)).await;
}

/// Awaits the future; pending forever if there is none.
async fn await_if_some<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
