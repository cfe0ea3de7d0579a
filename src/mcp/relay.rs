//! A relay copies lines between one client and the owner of a data directory. If the owner exits, the relay connects to
//! the next owner. The client stays connected, and its handshake is replayed for it.
//!
//! All clients on standard streams are served through a relay, even if their own process owns the directory, so that
//! the process can hand the directory over.

mod backlog;
mod message;
mod pending;
mod questions;
mod silence;

use std::{future::pending, io, pin::Pin, sync::Arc, time::Duration};

use rmcp::{RoleServer, service::TxJsonRpcMessage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    backlog::Backlog,
    message::Message,
    pending::{OwnerLineAction, Pending},
    questions::OwnerRequests,
    silence::Silence,
};
use super::{
    frame::{self, Frame, Frames},
    process::{Link, LinkCloser, Process},
    transport::complete_error_payload,
};
use midex_domain::{
    clock::{IdSource, SystemIds},
    error::{Code, Error, Result},
    limits,
};

type LinkFuture<'a> = Pin<Box<dyn Future<Output = Result<Link>> + Send + 'a>>;

/// Relays the process's own standard streams: see [`relay`].
pub async fn relay_stdio(process: &Process, stop: CancellationToken) -> Option<LinkCloser> {
    let (input, output) = rmcp::transport::stdio_pipes();
    relay_until_gone(process, input, output, has_stdin_hung_up, stop).await
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
    relay_until_gone(process, input, output, || false, stop).await
}

async fn relay_until_gone(
    process: &Process,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin,
    has_hung_up: fn() -> bool,
    stop: CancellationToken,
) -> Option<LinkCloser> {
    let mut relay = Relay {
        process,
        frames: Frames::new(BufReader::new(input), limits::FRAME_BYTES_MAX),
        has_hung_up,
        client: Backlog::new(output),
        pending: Pending::default(),
        questions: OwnerRequests::default(),
        owner: None,
        ended: None,
        linking: Some(Box::pin(process.find())),
        refused: None,
        failed: None,
        local: None,
        silence: Silence::default(),
        lost_at: None,
        ends_at: None,
        // Used only for correlation ids.
        ids: Arc::new(SystemIds),
        stop,
    };
    relay.local_later();
    while relay.is_running() {
        let event = relay.event().await;
        relay.handle(event);
    }
    let owner = relay.owner.take().map(|owner| owner.closing);
    owner.or(relay.ended)
}

/// An event that the relay handles.
enum Event {
    /// A frame from the client.
    Client(io::Result<Frame>),
    /// A frame from the owner.
    Owner(io::Result<Frame>),
    /// A write to the client succeeded or failed.
    Told(io::Result<()>),
    /// A write to the owner succeeded or failed.
    Sent(io::Result<()>),
    /// The search for an owner ended.
    Linked(Result<Link>),
    /// No owner was found in time, so a server in this process is available for requests that need no store.
    Local(Result<Link>),
    /// The owner has been silent for too long.
    Silent,
    /// It is time to search for an owner again.
    Again,
    /// This process begins to give up the directory.
    Ending,
    /// The grace period for giving up the directory is over.
    Ended,
    /// The process must shut down.
    Stop,
    /// The grace period for pending work is over.
    Late,
}

/// The connection to the owner of the directory, or to a server in this process without a store.
struct Owner {
    frames: Frames<Box<dyn AsyncBufRead + Send + Unpin>>,
    output: Backlog<Box<dyn AsyncWrite + Send + Unpin>>,
    closing: LinkCloser,
    is_local: bool,
    /// Whether the owner has sent anything yet.
    has_spoken: bool,
    /// Whether writes to the owner fail. Its earlier output may still arrive.
    is_deaf: bool,
}

struct Relay<'a, R, W> {
    process: &'a Process,
    frames: Frames<BufReader<R>>,
    /// Whether the client has closed its end of the stream, even if its output is not completely read.
    has_hung_up: fn() -> bool,
    client: Backlog<W>,
    pending: Pending,
    questions: OwnerRequests,
    owner: Option<Owner>,
    /// The resources of an owner that disconnected while the relay was ending, for the caller to close.
    ended: Option<LinkCloser>,
    linking: Option<LinkFuture<'a>>,
    /// Why no owner was found, and when to search again.
    refused: Option<(Error, Instant)>,
    /// The last error that was logged.
    failed: Option<Code>,
    /// The future of a server in this process, for requests that need no store, if no owner is found in time.
    local: Option<LinkFuture<'a>>,
    silence: Silence,
    /// The deadline for an owner in this process that is giving up the directory.
    lost_at: Option<Instant>,
    /// The deadline of the relay, even if calls are pending. Once it is set, nothing more is read from the client.
    ends_at: Option<Instant>,
    ids: Arc<dyn IdSource>,
    stop: CancellationToken,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Relay<'_, R, W> {
    fn is_running(&self) -> bool {
        self.ends_at.is_none() || !self.pending.is_settled() || !self.client.is_empty()
    }

    async fn event(&mut self) -> Event {
        let reads_client = self.ends_at.is_none()
            && self.pending.has_room()
            && self.client.len() < limits::RELAY_BACKLOG_BYTES_MAX
            && self
                .owner
                .as_ref()
                .is_none_or(|owner| owner.output.len() < limits::RELAY_BACKLOG_BYTES_MAX);
        let reads_owner =
            self.owner.is_some() && self.client.len() < limits::RELAY_BACKLOG_BYTES_MAX;
        self.watch_silence(reads_owner);
        let (input, output, stopping) = match &mut self.owner {
            Some(owner) => (
                Some(&mut owner.frames),
                Some(&mut owner.output),
                owner.closing.stopping_token(),
            ),
            None => (None, None, None),
        };
        let output = output.filter(|output| !output.is_empty());
        let stopping = stopping.filter(|_| self.lost_at.is_none());
        // Poll this only if needed, since creating the server loads the definitions.
        let local = self.local.as_mut();
        let local = local.filter(|_| self.pending.waits_without_store());
        let may_be_gone = !reads_client && self.ends_at.is_none();
        tokio::select! {
            frame = self.frames.next(), if reads_client => Event::Client(frame),
            frame = await_if_some(input.map(Frames::next)), if reads_owner => Event::Owner(frame),
            told = timeout(limits::CLIENT_STALL_MAX, self.client.write()), if !self.client.is_empty() => {
                Event::Told(told.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
            }
            sent = await_if_some(output.map(Backlog::write)) => Event::Sent(sent),
            link = await_if_some(self.linking.as_mut()) => Event::Linked(link),
            link = await_if_some(local) => Event::Local(link),
            () = await_if_some(stopping.map(CancellationToken::cancelled)) => Event::Ending,
            () = sleep_until_instant(self.lost_at) => Event::Ended,
            () = sleep_until_instant(self.silence.deadline()) => Event::Silent,
            () = sleep_until_instant(self.refused.as_ref().map(|(_, until)| *until)) => Event::Again,
            () = self.stop.cancelled(), if self.ends_at.is_none() => Event::Stop,
            () = wait_for_hang_up(self.has_hung_up), if may_be_gone => Event::Late,
            () = sleep_until_instant(self.ends_at) => Event::Late,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Client(Ok(Frame::Line(line))) => self.receive_client_line(&line),
            Event::Client(Ok(Frame::Oversized(beginning))) => {
                self.refuse(frame::refuse_oversized(&beginning));
            }
            Event::Client(Ok(Frame::End)) => self.end_within(limits::EOF_GRACE),
            Event::Client(Err(error)) => {
                tracing::warn!(%error, "the client's stream could not be read");
                self.end_within(limits::EOF_GRACE);
            }
            Event::Owner(Ok(Frame::Line(line))) => self.pass_owner_line(&line),
            Event::Owner(_) | Event::Ended => self.lose_owner(),
            Event::Silent => self.check_silent_owner(),
            Event::Sent(Err(_)) => {
                if let Some(owner) = &mut self.owner {
                    owner.is_deaf = true;
                    owner.output.clear();
                }
            }
            // Set a deadline: if the client reads nothing, the relay does not read the owner's output and would not see
            // its end.
            Event::Ending => self.lost_at = Some(instant_after(limits::EOF_GRACE)),
            Event::Told(Ok(())) | Event::Sent(Ok(())) => {}
            Event::Told(Err(error)) => {
                tracing::warn!(%error, "the client takes no replies; it is given up");
                self.give_up();
            }
            Event::Linked(link) => self.handle_link_result(link),
            Event::Local(link) => self.serve_locally(link),
            Event::Again => {
                self.refused = None;
                self.linking = Some(Box::pin(self.process.find()));
            }
            Event::Stop => {
                if let Some(owner) = &self.owner {
                    owner.closing.begin();
                }
                self.end_within(limits::SIGNAL_GRACE);
            }
            Event::Late => self.give_up(),
        }
    }

    /// Sends a line of the client to the owner, or keeps it for the next owner.
    fn receive_client_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = Message::parse(line);
        if message.is_none() {
            if let Err(refusal) = frame::parse(line) {
                self.refuse(*refusal);
            }
            return;
        }
        if let (None, Some(id)) = (&message.method, message.id()) {
            let answer = self.questions.answer(&id, line);
            // An answer to a question of a previous owner is dropped.
            if let (Some(answer), Some(owner)) = (answer, &mut self.owner) {
                owner.output.push(&answer);
            }
            return;
        }
        let owner = self.owner.as_ref();
        let can_send = owner.is_some_and(|owner| owner.can_answer(&message));
        if let Err(id) = self.pending.record_client_line(line, &message, can_send) {
            return self.refuse(frame::refuse_duplicate(&id));
        }
        if let Some(owner) = self.owner.as_mut().filter(|_| can_send) {
            owner.output.push(line);
        }
        if !can_send {
            self.refuse_calls();
        }
    }

    /// After a failed search for an owner, refuses the calls that wait for one.
    fn refuse_calls(&mut self) {
        if let Some((error, again_at)) = &mut self.refused {
            let answers = self.pending.refuse_unsent(error, &*self.ids);
            if !answers.is_empty() {
                *again_at = (*again_at).min(instant_after(limits::STORE_RETRY_EVERY));
            }
            self.client.push_all(&answers);
        }
    }

    /// Answers a frame that is not a message.
    fn refuse(&mut self, refusal: TxJsonRpcMessage<RoleServer>) {
        let refusal = complete_error_payload(refusal, &*self.ids);
        self.client
            .push(&serde_json::to_vec(&refusal).unwrap_or_default());
    }

    /// Sends a line of the owner to the client.
    fn pass_owner_line(&mut self, line: &[u8]) {
        self.silence.stop_timer();
        if let Some(owner) = &mut self.owner {
            owner.has_spoken = true;
        }
        if line == frame::RELAY_PONG_LINE {
            return;
        }
        let message = Message::parse(line);
        if let (Some(_), Some(own)) = (&message.method, message.id()) {
            let question = self.questions.ask(own, line);
            return self.client.push_all(question.as_slice());
        }
        let withdrawn = message.cancels();
        if let Some(line) = withdrawn.and_then(|own| self.questions.withdraw(&own)) {
            return self.client.push(&line);
        }
        match self
            .pending
            .handle_owner_message(line, &message, self.ends_at.is_some())
        {
            OwnerLineAction::On => self.client.push(line),
            OwnerLineAction::Instead(lines) => self.client.push_all(&lines),
        }
        if self.pending.is_settled() {
            self.questions.forget();
        }
    }

    /// Starts the silence timer if calls are pending at an owner in another process and its output is being read.
    /// Otherwise stops it.
    #[expect(clippy::disallowed_methods, reason = "no time of an execution")]
    fn watch_silence(&mut self, reads_owner: bool) {
        let is_other = |owner: &Owner| !owner.is_local && !owner.closing.owns() && !owner.is_deaf;
        let is_waited_for = reads_owner && self.owner.as_ref().is_some_and(is_other);
        if is_waited_for && !self.pending.is_settled() {
            self.silence.begin(Instant::now());
        } else {
            self.silence.stop_timer();
        }
    }

    /// Pings a silent owner, or disconnects from one that did not answer the ping. After that, a late answer is never
    /// read, and the relay reconnects once the owner responds again.
    fn check_silent_owner(&mut self) {
        if self.silence.ask_or_end() {
            let busy = self.process.suspended_owner_error();
            tracing::warn!("{busy}, and is stopped or hangs");
            self.client
                .push_all(&self.pending.abandon_owner(&busy, &*self.ids));
            self.lose_owner();
        } else if let Some(owner) = self.owner.as_mut().filter(|_| self.pending.has_room()) {
            owner.output.push(frame::RELAY_PING_LINE);
        } else {
            // Too many calls are pending at this owner, so it may not read a ping. Do not judge it.
            self.silence.stop_timer();
        }
    }

    /// Handles the loss of the owner: connects to the next one, or becomes the owner.
    fn lose_owner(&mut self) {
        let Some(owner) = self.owner.take() else {
            return;
        };
        self.lost_at = None;
        self.client.push_all(&self.questions.withdraw_all());
        if owner.is_local {
            return;
        }
        if self.ends_at.is_some() && (self.stop.is_cancelled() || self.pending.is_settled()) {
            // The relay is ending: send what is queued, but do not search for another owner.
            self.pending = Pending::default();
            self.ended = Some(owner.closing);
            return;
        }
        let (process, closing, has_spoken) = (self.process, owner.closing, owner.has_spoken);
        self.linking = Some(Box::pin(async move {
            if closing.owns() {
                // Release the store before the search for a new owner: the process that asked for it takes it.
                if let Err(error) = closing.close().await {
                    tracing::warn!(%error, "the store was not closed in order");
                }
                sleep(limits::HAND_OVER_PAUSE).await;
            } else if !has_spoken {
                sleep(limits::OWNER_LOOK_EVERY_MAX).await;
            }
            process.find().await
        }));
        self.local_later();
    }

    fn handle_link_result(&mut self, link: Result<Link>) {
        self.linking = None;
        match link {
            Ok(link) => self.take_over(link),
            Err(error) => {
                if self.failed != Some(error.code()) {
                    tracing::warn!(code = error.code().as_str(), "{error}");
                }
                self.failed = Some(error.code());
                self.refused = Some((error, instant_after(limits::OWN_RETRY_MAX)));
                self.refuse_calls();
            }
        }
    }

    fn take_over(&mut self, link: Link) {
        if let Some(owner) = link.owner() {
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
        self.lose_owner();
        (self.local, self.failed) = (None, None);
        let mut owner = Owner::from_link(link, false);
        let (lines, answers) = self.pending.replay(&*self.ids);
        owner.output.push_all(&lines);
        self.client.push_all(&answers);
        self.owner = Some(owner);
    }

    /// Prepares a server in this process for requests that need no store, in case no owner is found in time.
    fn local_later(&mut self) {
        let process = self.process;
        self.local = Some(Box::pin(async move {
            sleep(limits::LOCAL_ANSWER_AFTER).await;
            process.local_link().await
        }));
    }

    fn serve_locally(&mut self, link: Result<Link>) {
        self.local = None;
        match link {
            Ok(link) => {
                let mut owner = Owner::from_link(link, true);
                let lines = self.pending.lines_needing_no_store();
                owner.output.push_all(&lines);
                self.owner = Some(owner);
            }
            Err(error) => tracing::warn!(%error, "nothing is answered before an owner is found"),
        }
    }

    /// Ends the relay without waiting for pending work.
    fn give_up(&mut self) {
        self.end_within(Duration::ZERO);
        self.pending = Pending::default();
        self.client.clear();
    }

    fn end_within(&mut self, grace: Duration) {
        self.ends_at = Some(instant_after(grace));
        self.local = None;
    }
}

impl Owner {
    fn from_link(link: Link, is_local: bool) -> Self {
        let (input, output, closing) = link.split();
        Self {
            frames: Frames::new(input, usize::MAX),
            output: Backlog::new(output),
            closing,
            is_local,
            has_spoken: false,
            is_deaf: false,
        }
    }

    fn can_answer(&self, message: &Message<'_>) -> bool {
        !self.is_deaf && (!self.is_local || message.needs_no_store())
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
    let polled = poll(&mut stdin, Some(&Timespec::default()));
    polled.is_ok() && stdin[0].revents().contains(PollFlags::HUP)
}

/// The instant after this duration.
#[expect(clippy::disallowed_methods, reason = "no time of an execution")]
fn instant_after(time: Duration) -> Instant {
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
