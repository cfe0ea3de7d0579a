//! A relay: copies lines between one client and the owner of a data directory, whoever that is, and takes them to the next
//! owner when that one goes. The client is never disconnected and shakes hands once.
//!
//! All clients on standard streams are served through one, also where their own process owns the directory: then it can
//! hand the directory over.

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
    pending::{Passed, Pending},
    questions::Questions,
    silence::Silence,
};
use super::{
    frame::{self, Frame, Frames},
    process::{Closing, Link, Process},
    transport::completed,
};
use midex_domain::{
    clock::{IdSource, SystemIds},
    error::{Code, Error, Result},
    limits,
};

type Linking<'a> = Pin<Box<dyn Future<Output = Result<Link>> + Send + 'a>>;

/// Serves the process's own standard streams: see [`relay`].
pub async fn relay_stdio(process: &Process, stop: CancellationToken) -> Option<Closing> {
    let (input, output) = rmcp::transport::stdio_pipes();
    relay_until_gone(process, input, output, has_stdin_hung_up, stop).await
}

/// Serves the client at the other end of the two streams until it goes or `stop` is cancelled, by whichever process owns
/// the directory of `process`. Pending replies leave first; where this process owns the store, it is the caller's to close.
pub async fn relay(
    process: &Process,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin,
    stop: CancellationToken,
) -> Option<Closing> {
    relay_until_gone(process, input, output, || false, stop).await
}

async fn relay_until_gone(
    process: &Process,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin,
    has_hung_up: fn() -> bool,
    stop: CancellationToken,
) -> Option<Closing> {
    let mut relay = Relay {
        process,
        frames: Frames::new(BufReader::new(input), limits::FRAME_BYTES_MAX),
        has_hung_up,
        client: Backlog::new(output),
        pending: Pending::default(),
        questions: Questions::default(),
        owner: None,
        ended: None,
        linking: Some(Box::pin(process.find())),
        refused: None,
        failed: None,
        local: None,
        silence: Silence::default(),
        lost_at: None,
        ends_at: None,
        // For correlation ids alone.
        ids: Arc::new(SystemIds),
        stop,
    };
    relay.local_later();
    while relay.goes_on() {
        let event = relay.event().await;
        relay.handle(event);
    }
    let owner = relay.owner.take().map(|owner| owner.closing);
    owner.or(relay.ended)
}

/// What happens to a relay.
enum Event {
    /// A frame of the client.
    Client(io::Result<Frame>),
    /// A frame of the owner.
    Owner(io::Result<Frame>),
    /// The client took something, or takes nothing any more.
    Told(io::Result<()>),
    /// The owner took something.
    Sent(io::Result<()>),
    /// An owner was found, or none.
    Linked(Result<Link>),
    /// Nobody has been found yet, and what needs no store waits: a server in this process answers it.
    Local(Result<Link>),
    /// The owner has been silent for long.
    Silent,
    /// It is time to look for an owner again.
    Again,
    /// This process ends to own the directory.
    Ending,
    /// It has had its time to end.
    Ended,
    /// The process is to end.
    Stop,
    /// What waits has had its time.
    Late,
}

/// The owner of the directory as the relay is connected to it; or a server in this process that has no store.
struct Owner {
    frames: Frames<Box<dyn AsyncBufRead + Send + Unpin>>,
    output: Backlog<Box<dyn AsyncWrite + Send + Unpin>>,
    closing: Closing,
    is_local: bool,
    /// Whether it ever said anything.
    has_spoken: bool,
    /// Whether it takes nothing any more; what it wrote before may still come.
    is_deaf: bool,
}

struct Relay<'a, R, W> {
    process: &'a Process,
    frames: Frames<BufReader<R>>,
    /// Whether the client will write no more, though what it wrote is not read yet.
    has_hung_up: fn() -> bool,
    client: Backlog<W>,
    pending: Pending,
    questions: Questions,
    owner: Option<Owner>,
    /// What is to be closed of an owner that went while the relay ended.
    ended: Option<Closing>,
    linking: Option<Linking<'a>>,
    /// Why no owner was found, and when one is looked for again.
    refused: Option<(Error, Instant)>,
    /// The last failure that was logged.
    failed: Option<Code>,
    /// A server in this process, for what needs no store, should nobody be found in time.
    local: Option<Linking<'a>>,
    silence: Silence,
    /// When an owner in this process that ends has had its time.
    lost_at: Option<Instant>,
    /// When the relay ends, though calls wait; nothing more is read of the client.
    ends_at: Option<Instant>,
    ids: Arc<dyn IdSource>,
    stop: CancellationToken,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Relay<'_, R, W> {
    fn goes_on(&self) -> bool {
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
                owner.closing.stopping(),
            ),
            None => (None, None, None),
        };
        let output = output.filter(|output| !output.is_empty());
        let stopping = stopping.filter(|_| self.lost_at.is_none());
        // A process that relays loads no definitions.
        let local = self.local.as_mut();
        let local = local.filter(|_| self.pending.waits_without_store());
        let may_be_gone = !reads_client && self.ends_at.is_none();
        tokio::select! {
            frame = self.frames.next(), if reads_client => Event::Client(frame),
            frame = there(input.map(Frames::next)), if reads_owner => Event::Owner(frame),
            told = timeout(limits::CLIENT_STALL_MAX, self.client.write()), if !self.client.is_empty() => {
                Event::Told(told.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
            }
            sent = there(output.map(Backlog::write)) => Event::Sent(sent),
            link = there(self.linking.as_mut()) => Event::Linked(link),
            link = there(local) => Event::Local(link),
            () = there(stopping.map(CancellationToken::cancelled)) => Event::Ending,
            () = until(self.lost_at) => Event::Ended,
            () = until(self.silence.due()) => Event::Silent,
            () = until(self.refused.as_ref().map(|(_, until)| *until)) => Event::Again,
            () = self.stop.cancelled(), if self.ends_at.is_none() => Event::Stop,
            () = gone(self.has_hung_up), if may_be_gone => Event::Late,
            () = until(self.ends_at) => Event::Late,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Client(Ok(Frame::Line(line))) => self.hear(&line),
            Event::Client(Ok(Frame::Oversized(beginning))) => {
                self.refuse(frame::refuse_oversized(&beginning));
            }
            Event::Client(Ok(Frame::End)) => self.end_within(limits::EOF_GRACE),
            Event::Client(Err(error)) => {
                tracing::warn!(%error, "the client's stream could not be read");
                self.end_within(limits::EOF_GRACE);
            }
            Event::Owner(Ok(Frame::Line(line))) => self.pass(&line),
            Event::Owner(_) | Event::Ended => self.lose_owner(),
            Event::Silent => self.judge_silence(),
            Event::Sent(Err(_)) => {
                if let Some(owner) = &mut self.owner {
                    owner.is_deaf = true;
                    owner.output.clear();
                }
            }
            // The client may take nothing meanwhile, so the end of what the owner writes is not seen.
            Event::Ending => self.lost_at = Some(later(limits::EOF_GRACE)),
            Event::Told(Ok(())) | Event::Sent(Ok(())) => {}
            Event::Told(Err(error)) => {
                tracing::warn!(%error, "the client takes no replies; it is given up");
                self.give_up();
            }
            Event::Linked(link) => self.linked(link),
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

    /// Copies a line of the client to the owner, or keeps it for the next one.
    fn hear(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = Message::of(line);
        if message.is_none() {
            if let Err(refusal) = frame::parse(line) {
                self.refuse(*refusal);
            }
            return;
        }
        if let (None, Some(id)) = (&message.method, message.id()) {
            let answer = self.questions.answer(&id, line);
            // An answer to an owner that has gone is for nobody.
            if let (Some(answer), Some(owner)) = (answer, &mut self.owner) {
                owner.output.push(&answer);
            }
            return;
        }
        let owner = self.owner.as_ref();
        let can_send = owner.is_some_and(|owner| owner.can_answer(&message));
        if let Err(id) = self.pending.hear(line, &message, can_send) {
            return self.refuse(frame::refuse_duplicate(&id));
        }
        if let Some(owner) = self.owner.as_mut().filter(|_| can_send) {
            owner.output.push(line);
        }
        if !can_send {
            self.refuse_calls();
        }
    }

    /// Refuses the calls that wait for an owner, where none was found just now.
    fn refuse_calls(&mut self) {
        if let Some((error, again_at)) = &mut self.refused {
            let answers = self.pending.refuse_unsent(error, &*self.ids);
            if !answers.is_empty() {
                *again_at = (*again_at).min(later(limits::STORE_RETRY_EVERY));
            }
            self.client.push_all(&answers);
        }
    }

    /// Answers a frame that is no message.
    fn refuse(&mut self, refusal: TxJsonRpcMessage<RoleServer>) {
        let refusal = completed(refusal, &*self.ids);
        self.client
            .push(&serde_json::to_vec(&refusal).unwrap_or_default());
    }

    /// Copies a line of the owner to the client.
    fn pass(&mut self, line: &[u8]) {
        self.silence.end();
        if let Some(owner) = &mut self.owner {
            owner.has_spoken = true;
        }
        if line == frame::PONG {
            return;
        }
        let message = Message::of(line);
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
            .answered(line, &message, self.ends_at.is_some())
        {
            Passed::On => self.client.push(line),
            Passed::Instead(lines) => self.client.push_all(&lines),
        }
        if self.pending.is_settled() {
            self.questions.forget();
        }
    }

    /// Only of an owner in another process, while calls wait and its answers are read.
    #[expect(clippy::disallowed_methods, reason = "no time of an execution")]
    fn watch_silence(&mut self, reads_owner: bool) {
        let is_other = |owner: &Owner| !owner.is_local && !owner.closing.owns() && !owner.is_deaf;
        let is_waited_for = reads_owner && self.owner.as_ref().is_some_and(is_other);
        if is_waited_for && !self.pending.is_settled() {
            self.silence.begin(Instant::now());
        } else {
            self.silence.end();
        }
    }

    /// Pings an owner that is silent, and drops the connection to one that does not answer the ping. So a late answer is never
    /// read, and the relay connects anew once the owner lives again.
    fn judge_silence(&mut self) {
        if self.silence.ask_or_end() {
            let busy = self.process.busy();
            tracing::warn!("{busy}, and is stopped or hangs");
            self.client.push_all(&self.pending.leave(&busy, &*self.ids));
            self.lose_owner();
        } else if let Some(owner) = self.owner.as_mut().filter(|_| self.pending.has_room()) {
            owner.output.push(frame::PING);
        } else {
            // An owner that is owed so many answers may read nothing more before.
            self.silence.end();
        }
    }

    /// The owner has gone: another one is looked for, or this process becomes it.
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
            // Nobody else is asked: what was told leaves.
            self.pending = Pending::default();
            self.ended = Some(owner.closing);
            return;
        }
        let (process, closing, has_spoken) = (self.process, owner.closing, owner.has_spoken);
        self.linking = Some(Box::pin(async move {
            if closing.owns() {
                // Whoever asked for the directory comes first.
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

    fn linked(&mut self, link: Result<Link>) {
        self.linking = None;
        match link {
            Ok(link) => self.take_over(link),
            Err(error) => {
                if self.failed != Some(error.code()) {
                    tracing::warn!(code = error.code().as_str(), "{error}");
                }
                self.failed = Some(error.code());
                self.refused = Some((error, later(limits::OWN_RETRY_MAX)));
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
        for flag in link.unheeded() {
            tracing::warn!("the process that owns the data directory has its own settings: {flag}");
        }
        // A server without a store is needed no more.
        self.lose_owner();
        (self.local, self.failed) = (None, None);
        let mut owner = Owner::of(link, false);
        let (lines, answers) = self.pending.replay(&*self.ids);
        owner.output.push_all(&lines);
        self.client.push_all(&answers);
        self.owner = Some(owner);
    }

    /// Lets a server in this process answer what needs no store, should nobody be found in time.
    fn local_later(&mut self) {
        let process = self.process;
        self.local = Some(Box::pin(async move {
            sleep(limits::LOCAL_ANSWER_AFTER).await;
            process.local().await
        }));
    }

    fn serve_locally(&mut self, link: Result<Link>) {
        self.local = None;
        match link {
            Ok(link) => {
                let mut owner = Owner::of(link, true);
                let lines = self.pending.without_store();
                owner.output.push_all(&lines);
                self.owner = Some(owner);
            }
            Err(error) => tracing::warn!(%error, "nothing is answered before an owner is found"),
        }
    }

    /// Ends without waiting for anything more.
    fn give_up(&mut self) {
        self.end_within(Duration::ZERO);
        self.pending = Pending::default();
        self.client.clear();
    }

    fn end_within(&mut self, grace: Duration) {
        self.ends_at = Some(later(grace));
        self.local = None;
    }
}

impl Owner {
    fn of(link: Link, is_local: bool) -> Self {
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

/// Waits until a client has gone of which nothing is read now. Begins anew with whatever happens meanwhile, so a client
/// that wrote much and closed its output is read to its end.
async fn gone(has_hung_up: fn() -> bool) {
    sleep(limits::EOF_GRACE).await;
    while !has_hung_up() {
        sleep(limits::EOF_GRACE).await;
    }
}

/// Whether nobody can write to standard input any more.
fn has_stdin_hung_up() -> bool {
    let stdin = io::stdin();
    // A hang-up is told without being asked for.
    let mut stdin = [PollFd::new(&stdin, PollFlags::empty())];
    let polled = poll(&mut stdin, Some(&Timespec::default()));
    polled.is_ok() && stdin[0].revents().contains(PollFlags::HUP)
}

/// The instant after this time.
#[expect(clippy::disallowed_methods, reason = "no time of an execution")]
fn later(time: Duration) -> Instant {
    Instant::now() + time
}

/// Waits for the instant; for ever where there is none.
async fn until(instant: Option<Instant>) {
    there(instant.map(sleep_until)).await;
}

/// What the future comes to; nothing ever where there is none.
async fn there<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
