//! HTTP bodies. Request bodies are read whole, up to a limit. Request bodies and large replies count against the byte
//! budget while they are in memory.

use axum::{
    BoxError,
    body::{Body, Bytes, HttpBody as _},
    response::Response,
};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderValue, StatusCode, header};
use tokio_util::sync::CancellationToken;

use super::{
    budget::{Budget, BudgetShare},
    refusal::HttpError,
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

/// Reads a request body. The rest of an oversized body is read and discarded, so that the client can read the reply;
/// [`super::serve`] limits how much that may be.
///
/// # Errors
/// `SERVER_BUSY` if the byte budget has no room; `REQUEST_INVALID` if the body ends early or takes longer than
/// [`limits::HTTP_BODY_MAX`].
pub async fn read_request_body(body: Body, budget: &Budget) -> Result<RequestBody, HttpError> {
    tokio::time::timeout(limits::HTTP_BODY_MAX, collect_body(body, budget))
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

async fn collect_body(body: Body, budget: &Budget) -> Result<RequestBody, Error> {
    let mut frames = body.into_data_stream();
    let mut share = budget.take_bytes(0).await?;
    let mut buffer = Vec::new();
    while let Some(frame) = frames.next().await {
        // The error text may quote the client, so it is not passed on.
        let frame =
            frame.map_err(|_| Error::new(Code::RequestInvalid, "the body ended before its end"))?;
        if buffer.len() + frame.len() > limits::FRAME_BYTES_MAX {
            drop(share);
            buffer.extend_from_slice(&frame);
            buffer.truncate(limits::FRAME_ID_WITHIN_BYTES);
            buffer.shrink_to_fit();
            while let Some(Ok(_)) = frames.next().await {}
            return Ok(RequestBody::Oversized(buffer.into()));
        }
        share.merge(budget.take_bytes(frame.len()).await?);
        buffer.extend_from_slice(&frame);
    }
    Ok(RequestBody::Whole(buffer.into(), share))
}

/// Prepares a reply for its client. A large reply counts against the byte budget until nearly all of it is sent; what
/// fits into the write buffer that each connection has anyway is not counted. A stream of events holds `guard`, ends
/// once `end` is cancelled, and breaks off if the budget has no room for a large event.
///
/// # Errors
/// `SERVER_BUSY` if the budget has no room for the reply.
pub async fn hold_reply<G: Send + 'static>(
    reply: Response,
    guard: G,
    end: CancellationToken,
    budget: &Budget,
) -> Result<Response, Error> {
    let Some(size) = reply.body().size_hint().exact() else {
        return Ok(reply.map(|body| hold_stream(body, guard, end, budget.clone())));
    };
    if !is_large(size) {
        return Ok(reply);
    }
    let share = take_room(size, budget).await?;
    let mut reply = reply.map(|body| {
        let frames = body.into_data_stream().map_err(BoxError::from);
        let frames = frames.map_ok(split_frame).try_flatten();
        hold_until_sent(frames, share)
    });
    // The size of a stream is not known, so the header says it.
    reply.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    Ok(reply)
}

fn hold_stream<G: Send + 'static>(
    body: Body,
    guard: G,
    end: CancellationToken,
    budget: Budget,
) -> Body {
    let frames = body.into_data_stream().take_until(end.cancelled_owned());
    let counted_frames = frames.map_err(BoxError::from).and_then(move |frame| {
        let budget = budget.clone();
        async move {
            let size = frame.len() as u64;
            let share = if is_large(size) { Some(take_room(size, &budget).await?) } else { None };
            Ok::<_, BoxError>(split_frame(frame).inspect_ok(move |_| drop_later(&share)))
        }
    });
    hold_until_sent(counted_frames.try_flatten(), guard)
}

/// Reads a reply that is whole in memory already.
///
/// # Errors
/// `INTERNAL` if what produces it fails.
pub async fn read_whole_reply(reply: Response) -> Result<Bytes, Error> {
    let whole_body = axum::body::to_bytes(reply.into_body(), usize::MAX).await;
    whole_body.map_err(|error| Error::internal("a reply broke off").with_source(error))
}

/// Whether this many bytes exceed the write buffer of a connection.
fn is_large(size: u64) -> bool {
    size > limits::HTTP_HEAD_BYTES_MAX as u64
}

async fn take_room(size: u64, budget: &Budget) -> Result<BudgetShare, Error> {
    budget.take_bytes(usize::try_from(size).unwrap_or(usize::MAX)).await
}

/// A body of these frames, which drops `held` once it has been sent, or its client has left.
fn hold_until_sent<G: Send + 'static>(
    frames: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    held: G,
) -> Body {
    Body::from_stream(frames.inspect(move |_| drop_later(&held)))
}

/// Does nothing. A closure that calls it keeps the argument alive.
fn drop_later<G>(_: &G) {}

/// Copies a frame in pieces of the size of the write buffer, because hyper takes a whole frame at once, however slowly
/// its client reads. The pieces are copies, so that the last one does not keep the whole frame in memory.
fn split_frame(mut frame: Bytes) -> impl Stream<Item = Result<Bytes, BoxError>> {
    stream::iter(std::iter::from_fn(move || {
        let piece = frame.split_to(frame.len().min(limits::HTTP_HEAD_BYTES_MAX));
        (!piece.is_empty()).then(|| Ok(Bytes::copy_from_slice(&piece)))
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    fn body_of(frames: Vec<Result<Bytes, &'static str>>) -> Body {
        Body::from_stream(stream::iter(frames))
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_times_out() {
        let budget = Budget::new(1000);
        for (seconds, in_time) in [
            (limits::HTTP_BODY_MAX.as_secs() - 1, true),
            (limits::HTTP_BODY_MAX.as_secs() + 1, false),
        ] {
            let dripping = stream::iter(0..seconds).then(|_| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, BoxError>("x")
            });
            match read_request_body(Body::from_stream(dripping), &budget).await {
                Ok(RequestBody::Whole(body, share)) => {
                    assert!(in_time && body.len() as u64 == seconds);
                    assert_eq!(share.num_permits(), body.len());
                }
                Ok(oversized) => panic!("{oversized:?}"),
                Err(refusal) => {
                    assert!(!in_time);
                    assert_eq!(refusal.status, StatusCode::REQUEST_TIMEOUT);
                }
            }
        }
        assert!(budget.take_bytes(1000).await.is_ok(), "all is given back");
    }

    #[tokio::test]
    async fn broken_off_body_is_refused() {
        let body = body_of(vec![Ok(Bytes::from_static(b"{")), Err("gone")]);
        let refusal = read_request_body(body, &Budget::new(1)).await.expect_err("it breaks off");
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn body_without_room_is_refused() {
        let body = body_of(vec![Ok(Bytes::from_static(b"{}"))]);
        let refusal = read_request_body(body, &Budget::new(1)).await.expect_err("no room");
        assert_eq!(refusal.error.code(), Code::ServerBusy);
    }

    #[tokio::test]
    async fn oversized_body_keeps_only_its_beginning() {
        let budget = Budget::new(limits::FRAME_BYTES_MAX);
        let piece = || Ok(Bytes::from(vec![b'x'; limits::FRAME_BYTES_MAX]));
        match read_request_body(body_of(vec![piece(), piece(), piece()]), &budget).await {
            Ok(RequestBody::Oversized(beginning)) => {
                assert_eq!(beginning.len(), limits::FRAME_ID_WITHIN_BYTES);
            }
            other => panic!("{other:?}"),
        }
        assert!(budget.take_bytes(limits::FRAME_BYTES_MAX).await.is_ok(), "all is given back");
    }

    /// Reads all but the last piece of a body, and then drops it.
    async fn check_counted_until_sent(reply: Response, size: usize, budget: &Budget) {
        let mut frames = reply.into_body().into_data_stream();
        let mut read = 0;
        while read + limits::HTTP_HEAD_BYTES_MAX < size {
            let piece = frames.next().await.expect("a piece").expect("no error");
            read += piece.len();
            assert!(piece.len() <= limits::HTTP_HEAD_BYTES_MAX);
            assert!(budget.take_bytes(1).await.is_err(), "it is not sent yet");
        }
        drop(frames);
        assert!(budget.take_bytes(size).await.is_ok(), "nobody will take it any more");
    }

    #[tokio::test(start_paused = true)]
    async fn large_reply_is_counted_until_it_is_sent() {
        let size = 2 * limits::HTTP_HEAD_BYTES_MAX + 1;
        let budget = Budget::new(size);
        let hold = async |reply: Body| {
            let reply = Response::new(reply);
            hold_reply(reply, (), CancellationToken::new(), &budget).await
        };
        let whole = hold(vec![0; size].into()).await.expect("room");
        assert_eq!(whole.headers()[header::CONTENT_LENGTH], size.to_string());
        let refused = hold(vec![0; size].into()).await.expect_err("no room");
        assert_eq!(refused.code(), Code::ServerBusy);
        assert!(
            hold(vec![0; limits::HTTP_HEAD_BYTES_MAX].into()).await.is_ok(),
            "it fits into the write buffer"
        );
        check_counted_until_sent(whole, size, &budget).await;
        let stream = hold(body_of(vec![Ok(vec![0; size].into())])).await.expect("a stream");
        check_counted_until_sent(stream, size, &budget).await;
        let held = budget.take_bytes(1).await;
        let stream = hold(body_of(vec![Ok(vec![0; size].into())])).await.expect("a stream");
        let broken = stream.into_body().into_data_stream().next().await.expect("a frame");
        assert!(broken.is_err(), "no room for the event");
        drop(held);
    }

    #[tokio::test]
    async fn stream_holds_its_guard_and_ends_when_it_is_told_to() {
        let (held, end) = (std::sync::Arc::new(()), CancellationToken::new());
        let silent = Body::from_stream(stream::pending::<Result<Bytes, BoxError>>());
        let (silent, budget) = (Response::new(silent), Budget::new(1));
        let reply = hold_reply(silent, held.clone(), end.clone(), &budget).await;
        let mut frames = reply.expect("a stream").into_body().into_data_stream();
        assert!(std::pin::pin!(frames.next()).now_or_never().is_none());
        assert_eq!(std::sync::Arc::strong_count(&held), 2);
        end.cancel();
        assert!(frames.next().await.is_none());
        drop(frames);
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }
}
