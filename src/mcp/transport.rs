//! A line transport over any pair of streams. Unlike rmcp's own, it answers invalid frames, limits the outstanding
//! calls and bytes of a client, and sends pending replies at the end of input.

use std::{borrow::Cow, io, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientNotification, ClientRequest, GetExtensions, JsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    answer,
    frame::{self, Frame, FrameReader},
    gate::CallLimiter,
    splice::{self, SplicedResult},
};
use midex_domain::{
    clock::{IdSource, SystemIds},
    limits,
};

type Incoming = RxJsonRpcMessage<RoleServer>;
type Outgoing = TxJsonRpcMessage<RoleServer>;

/// The line transport of one client.
#[derive(Debug)]
pub struct LineTransport {
    incoming: mpsc::Receiver<Incoming>,
    outgoing: Option<mpsc::UnboundedSender<OutgoingLine>>,
    gate: Arc<CallLimiter>,
    ids: Arc<dyn IdSource>,
    closed_token: CancellationToken,
    reader: JoinHandle<()>,
    writer: Option<JoinHandle<()>>,
}

/// A line to be written.
#[derive(Debug)]
struct OutgoingLine {
    bytes: Vec<u8>,
    /// Notified once the client has read the line.
    on_written: Option<oneshot::Sender<()>>,
}

impl LineTransport {
    /// Serves the client at the other end of the two streams. Must be called within a tokio runtime.
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::with_end_token(input, output, CancellationToken::new())
    }

    /// Like [`LineTransport::new`], but treats the input as ended once `end` is cancelled: no further calls are read,
    /// and pending ones are answered.
    pub fn with_end_token(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        end: CancellationToken,
    ) -> Self {
        let gate = Arc::new(CallLimiter::default());
        // Used only for correlation ids.
        let ids: Arc<dyn IdSource> = Arc::new(SystemIds);
        let (incoming_sender, incoming) = mpsc::channel(limits::READ_AHEAD_FRAMES_MAX);
        // The channel is bounded by the gate: there is at most one answer per call, and no call is read while too many
        // bytes are unread by the client.
        let (outgoing, lines) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write_lines(output, lines, gate.clone()));
        let closed_token = CancellationToken::new();
        let reader = LineReader {
            gate: gate.clone(),
            incoming_sender,
            refusal_sender: outgoing.clone(),
            ids: ids.clone(),
            closed_token: closed_token.clone(),
            end,
        };
        let reader = tokio::spawn(reader.run(BufReader::new(input)));
        Self {
            incoming,
            outgoing: Some(outgoing),
            gate,
            ids,
            closed_token,
            reader,
            writer: Some(writer),
        }
    }

    /// Cancelled once the input has ended and the pending replies were sent, or their grace period is over.
    pub fn closed_token(&self) -> CancellationToken {
        self.closed_token.clone()
    }
}

impl Transport<RoleServer> for LineTransport {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "lines".into()
    }

    fn send(&mut self, message: Outgoing) -> impl Future<Output = io::Result<()>> + Send + 'static {
        // Queue before this function returns, so that lines are written in the order of sending. The number of calls
        // bounds the number of answers. For a notification, the returned future waits until it is written, so that the
        // sender is slowed down.
        let (written_sender, written_receiver) = match &message {
            JsonRpcMessage::Notification(_) => {
                let (written_sender, written_receiver) = oneshot::channel();
                (Some(written_sender), Some(written_receiver))
            }
            _ => (None, None),
        };
        let queue_result = match &self.outgoing {
            Some(outgoing) => enqueue_message(
                outgoing,
                &self.gate,
                &complete_error_payload(message, &*self.ids),
                written_sender,
            ),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        async move {
            queue_result?;
            match written_receiver {
                Some(written) => written.await.map_err(|_| io::ErrorKind::BrokenPipe.into()),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.reader.abort();
        self.outgoing = None;
        if let Some(writer) = self.writer.take() {
            // Write what is queued, but do not wait longer for a client that does not read.
            let _ = tokio::time::timeout(limits::EOF_GRACE, writer).await;
        }
        Ok(())
    }
}

impl Drop for LineTransport {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Adds the midex payload to errors of rmcp and of frames, which lack it.
pub(super) fn complete_error_payload(message: Outgoing, ids: &dyn IdSource) -> Outgoing {
    match message {
        JsonRpcMessage::Error(refused) => {
            JsonRpcMessage::error(answer::add_error_payload(refused.error, ids), refused.id)
        }
        other => other,
    }
}

fn enqueue_message(
    outgoing: &mpsc::UnboundedSender<OutgoingLine>,
    gate: &CallLimiter,
    message: &Outgoing,
    on_written: Option<oneshot::Sender<()>>,
) -> io::Result<()> {
    let mut bytes = splice::encode_message(message).map_err(io::Error::other)?;
    bytes.push(b'\n');
    let answered_call = match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    };
    gate.record_queued_line(bytes.len(), answered_call);
    outgoing.send(OutgoingLine { bytes, on_written }).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

struct LineReader {
    gate: Arc<CallLimiter>,
    incoming_sender: mpsc::Sender<Incoming>,
    refusal_sender: mpsc::UnboundedSender<OutgoingLine>,
    ids: Arc<dyn IdSource>,
    closed_token: CancellationToken,
    end: CancellationToken,
}

impl LineReader {
    async fn run(self, input: BufReader<impl AsyncRead + Unpin>) {
        let mut frames = FrameReader::new(input, limits::FRAME_BYTES_MAX);
        let (mut has_greeted, mut has_session_tasks) = (false, false);
        loop {
            if !self.gate.wait_until_readable().await {
                tracing::warn!("the client takes no replies; it is given up");
                break;
            }
            let frame_result = self.end.run_until_cancelled(frames.next_frame()).await;
            match frame_result.unwrap_or(Ok(Frame::End)) {
                Ok(Frame::Line(line)) => {
                    if !self.deliver_line(&line, &mut has_greeted, &mut has_session_tasks).await {
                        return;
                    }
                }
                Ok(Frame::Oversized(beginning)) => {
                    self.send_refusal(frame::oversized_frame_error(&beginning));
                }
                Ok(Frame::End) => break,
                Err(error) => {
                    tracing::warn!(%error, "the client's stream could not be read");
                    break;
                }
            }
        }
        // Wait for pending replies, then signal that the client has disconnected.
        let _ = tokio::time::timeout(limits::EOF_GRACE, self.gate.wait_until_idle()).await;
        self.closed_token.cancel();
    }

    /// Delivers the message of a line. False if the receiver has closed.
    async fn deliver_line(
        &self,
        line: &[u8],
        has_greeted: &mut bool,
        has_session_tasks: &mut bool,
    ) -> bool {
        if line.trim_ascii().is_empty() {
            return true;
        }
        // Answer a relay's ping here, so that calls in progress do not delay it.
        if line == frame::RELAY_PING_LINE {
            let bytes = [frame::RELAY_PONG_LINE, b"\n"].concat();
            self.gate.record_queued_line(bytes.len(), None);
            return self.refusal_sender.send(OutgoingLine { bytes, on_written: None }).is_ok();
        }
        let mut message = match frame::parse_message(line) {
            Ok(message) => message,
            Err(answer) => {
                self.send_refusal(*answer);
                return true;
            }
        };
        match &mut message {
            JsonRpcMessage::Request(request) => {
                *has_greeted = true;
                frame::convert_task_request(&mut request.request, line, has_session_tasks);
                let is_endless =
                    matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                let handler_guard =
                    self.gate.register_call(request.id.clone(), line.len(), is_endless);
                let Some(handler_guard) = handler_guard else {
                    self.send_refusal(frame::duplicate_id_error(&request.id));
                    return true;
                };
                // Dropped with the context of the call, when its handler has finished.
                let extensions = request.request.extensions_mut();
                extensions.insert(handler_guard);
                extensions.insert(SplicedResult);
            }
            // Drop other messages before the first request, since rmcp would end the session.
            _ if !*has_greeted => return true,
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.gate.cancel_call(id);
                }
            }
            _ => {}
        }
        self.incoming_sender.send(message).await.is_ok()
    }

    fn send_refusal(&self, answer: Outgoing) {
        let answer = complete_error_payload(answer, &*self.ids);
        let _ = enqueue_message(&self.refusal_sender, &self.gate, &answer, None);
    }
}

/// Writes queued lines, batching those that are waiting. Ends when all senders are dropped. After a write error, lines
/// are discarded.
async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::UnboundedReceiver<OutgoingLine>,
    gate: Arc<CallLimiter>,
) {
    let mut is_broken = false;
    while let Some(first) = lines.recv().await {
        let (mut bytes, mut on_written) = (first.bytes, vec![first.on_written]);
        while bytes.len() < limits::WRITE_BYTES_MAX
            && let Ok(line) = lines.try_recv()
        {
            bytes.extend_from_slice(&line.bytes);
            on_written.push(line.on_written);
        }
        if !is_broken && let Err(error) = write_and_flush(&mut output, &bytes).await {
            // Settle the calls anyway, so that the input can still end in order.
            tracing::debug!(%error, "the client takes no more replies");
            is_broken = true;
        }
        gate.count_written_lines(bytes.len(), on_written.len());
        if !is_broken {
            for written_sender in on_written.into_iter().flatten() {
                // The sender may have stopped waiting.
                let _ = written_sender.send(());
            }
        }
    }
}

async fn write_and_flush(output: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    output.write_all(bytes).await?;
    output.flush().await
}
