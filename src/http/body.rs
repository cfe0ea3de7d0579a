//! HTTP bodies. Request bodies are read whole, up to a limit. Reply bodies count against the byte budget until the
//! client has received them.

use std::{
    convert::Infallible,
    fmt::Display,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Buf, Bytes, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{
    budget::{BudgetKind, BudgetShare},
    connections::{Connection, ReplyGuards, RequestGuard},
    memory::MemoryBudget,
    refusal::{HttpError, Reply},
};
use midex_domain::{
    error::{Code, Error},
    limits,
};

/// A request body that was read.
#[derive(Debug)]
pub enum RequestBody {
    /// The whole body, and its share of the byte budget.
    Whole(Bytes, BudgetShare),
    /// The body exceeds the limit. This is its beginning, [`limits::FRAME_ID_WITHIN_BYTES`] at most.
    Oversized(Bytes),
}

/// Reads a request body. The rest of an oversized body is read and discarded, up to
/// [`limits::HTTP_DROPPED_BYTES_MAX`], so that the client can read the reply.
///
/// # Errors
/// `SERVER_BUSY` if the byte budget has no room; `REQUEST_INVALID` if the body ends early or takes longer than
/// [`limits::HTTP_BODY_MAX`].
pub async fn read_request_body(
    body: impl Body<Data: Buf, Error: Display>,
    memory_budget: &MemoryBudget,
    connection: &Arc<Connection>,
) -> Result<RequestBody, HttpError> {
    let _receiving = connection.begin_receiving();
    tokio::time::timeout(limits::HTTP_BODY_MAX, collect_body(body, memory_budget, connection))
        .await
        .map_err(|_| late_body_refusal())?
        .map_err(HttpError::from)
}

fn late_body_refusal() -> HttpError {
    let max_duration = limits::HTTP_BODY_MAX;
    let message = format!("the body took longer than {max_duration:?} to arrive");
    let error = Error::new(Code::RequestInvalid, message)
        .with_action("Send the same call again, all of it at once");
    HttpError::new(StatusCode::REQUEST_TIMEOUT, error)
}

async fn collect_body(
    body: impl Body<Data: Buf, Error: Display>,
    memory_budget: &MemoryBudget,
    connection: &Connection,
) -> Result<RequestBody, Error> {
    let mut body = std::pin::pin!(body);
    let mut share = memory_budget.budget.count_share(BudgetKind::Bytes, 0);
    let mut buffer = Vec::new();
    let mut discarded_bytes = 0;
    while let Some(frame) = body.frame().await {
        // The error text may quote the client, so it is not passed on.
        let frame =
            frame.map_err(|_| Error::new(Code::RequestInvalid, "the body ended before its end"))?;
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        let size = data.remaining();
        if discarded_bytes > 0 || buffer.len() + size > limits::FRAME_BYTES_MAX {
            discarded_bytes += size;
            let beginning = limits::FRAME_ID_WITHIN_BYTES.saturating_sub(buffer.len());
            buffer.extend_from_slice(&data.copy_to_bytes(beginning.min(size)));
            buffer.truncate(limits::FRAME_ID_WITHIN_BYTES);
            buffer.shrink_to_fit();
            share.release_share();
            if discarded_bytes > limits::HTTP_DROPPED_BYTES_MAX {
                break;
            }
        } else {
            memory_budget.grow_share(&mut share, size, connection).await?;
            buffer.extend_from_slice(&data.copy_to_bytes(size));
        }
    }
    Ok(if discarded_bytes > 0 {
        RequestBody::Oversized(buffer.into())
    } else {
        RequestBody::Whole(buffer.into(), share)
    })
}

/// A body that ends early once `end` is cancelled.
pub fn end_body_on_cancel(body: Reply, end: CancellationToken) -> Reply {
    CancellableBody { body: Some(body), end: Box::pin(end.cancelled_owned()) }.boxed()
}

struct CancellableBody {
    body: Option<Reply>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Body for CancellableBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.end.as_mut().poll(context).is_ready() {
            self.body = None;
        }
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }
}

/// Wraps the body of a reply to the request `request_guard`. The body counts against the byte budget until the client has
/// received it. `kept_alive` is dropped earlier: once the body has been produced completely.
pub fn count_reply_body<T: Send + Sync + Unpin + 'static>(
    body: Reply,
    kept_alive: T,
    request_guard: RequestGuard,
    memory_budget: &MemoryBudget,
) -> Reply {
    let exact = body.size_hint().exact();
    let body_bytes = usize::try_from(exact.unwrap_or_default()).unwrap_or(usize::MAX);
    let connection = request_guard.connection().clone();
    CountedBody {
        body,
        kept_alive: Some(kept_alive),
        reply_guards: Some((
            Some(request_guard),
            memory_budget.count_reply(body_bytes, &connection),
        )),
        connection,
        // The size of a stream is not known in advance, so each of its frames is counted as it is produced.
        frame_budget: exact.is_none().then(|| memory_budget.clone()),
    }
    .boxed()
}

struct CountedBody<T> {
    body: Reply,
    kept_alive: Option<T>,
    reply_guards: Option<ReplyGuards>,
    connection: Arc<Connection>,
    frame_budget: Option<MemoryBudget>,
}

impl<T> CountedBody<T> {
    fn finish_body(&mut self) {
        self.kept_alive = None;
        if let Some(reply_guards) = self.reply_guards.take() {
            self.connection.hold_reply_guards(reply_guards);
        }
    }
}

impl<T> Drop for CountedBody<T> {
    fn drop(&mut self) {
        self.finish_body();
    }
}

impl<T: Unpin> Body for CountedBody<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(None) => self.finish_body(),
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(frame_budget), Some(data)) = (&self.frame_budget, frame.data_ref()) {
                    let frame_share = frame_budget.count_reply(data.len(), &self.connection);
                    self.connection.hold_reply_guards((None, frame_share));
                }
            }
            Poll::Ready(Some(Err(never))) => match *never {},
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::Full;
    use tokio::sync::mpsc;

    use super::*;
    use crate::connections::Connections;

    fn memory_budget() -> MemoryBudget {
        MemoryBudget {
            budget: Arc::default(),
            connections: Arc::new(Connections::new(limits::HTTP_CONNECTIONS_MAX)),
        }
    }

    /// A body whose frames come through a channel.
    struct ChannelBody(mpsc::Receiver<Result<Bytes, &'static str>>);

    impl Body for ChannelBody {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            let polled = self.0.poll_recv(context);
            polled.map(|piece| piece.map(|piece| piece.map(Frame::data)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_times_out() {
        let room = memory_budget();
        let connection = room.connections.register_connection().expect("room");
        for (seconds, in_time) in [
            (limits::HTTP_BODY_MAX.as_secs() - 1, true),
            (limits::HTTP_BODY_MAX.as_secs() + 1, false),
        ] {
            let (send, pieces) = mpsc::channel(1);
            let dripping = tokio::spawn(async move {
                for _ in 0..seconds {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let _ = send.send(Ok(Bytes::from_static(b"x"))).await;
                }
            });
            match read_request_body(ChannelBody(pieces), &room, &connection).await {
                Ok(RequestBody::Whole(body, _)) => assert!(in_time && body.len() as u64 == seconds),
                Ok(oversized) => panic!("{oversized:?}"),
                Err(refusal) => {
                    assert!(!in_time);
                    assert_eq!(refusal.status, StatusCode::REQUEST_TIMEOUT);
                }
            }
            dripping.await.expect("no panic");
        }
        assert_eq!(room.budget.used_amount(BudgetKind::Bytes), 0, "all is given back");
    }

    #[tokio::test]
    async fn broken_off_body_is_refused() {
        let room = memory_budget();
        let connection = room.connections.register_connection().expect("room");
        let (send, pieces) = mpsc::channel(2);
        send.send(Ok(Bytes::from_static(b"{"))).await.expect("room");
        send.send(Err("gone")).await.expect("room");
        let refusal = read_request_body(ChannelBody(pieces), &room, &connection)
            .await
            .expect_err("it breaks off");
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
    }

    #[tokio::test]
    async fn oversized_body_keeps_only_its_beginning() {
        let room = memory_budget();
        let connection = room.connections.register_connection().expect("room");
        let (send, pieces) = mpsc::channel(1);
        let reading = tokio::spawn({
            let room = room.clone();
            async move { read_request_body(ChannelBody(pieces), &room, &connection).await }
        });
        let piece = || Ok(Bytes::from(vec![b'x'; limits::FRAME_BYTES_MAX]));
        send.send(piece()).await.expect("it reads");
        send.send(piece()).await.expect("it reads");
        send.send(piece()).await.expect("it reads");
        // The channel holds one piece, so the third `send` returns only after the second piece was received.
        assert_eq!(room.budget.used_amount(BudgetKind::Bytes), 0);
        drop(send);
        match reading.await.expect("no panic") {
            Ok(RequestBody::Oversized(beginning)) => {
                assert_eq!(beginning.len(), limits::FRAME_ID_WITHIN_BYTES);
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn reply_body_is_counted_only_once() {
        let room = memory_budget();
        let connection = room.connections.register_connection().expect("room");
        let reply = Full::new(Bytes::from_static(b"reply")).boxed();
        let mut reply = count_reply_body(reply, (), connection.begin_work(), &room);
        assert_eq!(room.budget.used_amount(BudgetKind::Bytes), 5);
        drop(reply.frame().await);
        drop(reply);
        assert_eq!(room.budget.used_amount(BudgetKind::Bytes), 5, "it is not written yet");
        room.connections.unregister_connection(&connection);
        assert_eq!(room.budget.used_amount(BudgetKind::Bytes), 0);
    }
}
