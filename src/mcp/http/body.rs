//! Bodies: what clients send, read whole and bounded, and what they are sent, with what is held until they have
//! taken it.

use std::{
    convert::Infallible,
    fmt::Display,
    pin::Pin,
    task::{Context, Poll},
};

use http_body_util::{BodyExt, combinators::BoxBody};
use hyper::body::{Body, Buf, Bytes, Frame, SizeHint};

use super::{
    budget::{Kind, Share},
    room::Room,
};
use crate::{
    error::{Code, Error},
    limits,
};

/// The body of a reply.
pub(super) type Reply = BoxBody<Bytes, Infallible>;

/// What a client sent.
#[derive(Debug)]
pub(super) enum Sent {
    /// All of it, and its share of what may be under way.
    Whole(Bytes, Share),
    /// More than a body may hold: its beginning.
    Oversized(Bytes),
}

/// Reads a body. What exceeds the limit is read on and dropped for a while, so that its sender hears the answer.
///
/// # Errors
/// `SERVER_BUSY` where there is no room for it; `REQUEST_INVALID` where it ends early or takes too long.
pub(super) async fn read(
    body: impl Body<Data: Buf, Error: Display>,
    room: &Room,
) -> Result<Sent, Error> {
    tokio::time::timeout(limits::HTTP_BODY_MAX, gather(body, room))
        .await
        .unwrap_or_else(|_| {
            let message = format!(
                "the body took longer than {:?} to arrive",
                limits::HTTP_BODY_MAX
            );
            Err(Error::new(Code::RequestInvalid, message))
        })
}

async fn gather(body: impl Body<Data: Buf, Error: Display>, room: &Room) -> Result<Sent, Error> {
    let mut body = std::pin::pin!(body);
    let mut share = room.budget.take(Kind::Bytes, 0)?;
    let mut gathered = Vec::new();
    let mut dropped = 0;
    while let Some(frame) = body.frame().await {
        // The words of the failure may quote the peer; the log has no use for them.
        let frame =
            frame.map_err(|_| Error::new(Code::RequestInvalid, "the body ended before its end"))?;
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        let size = data.remaining();
        if dropped > 0 || gathered.len() + size > limits::FRAME_BYTES_MAX {
            dropped += size;
            let beginning = limits::FRAME_ID_WITHIN_BYTES.saturating_sub(gathered.len());
            gathered.extend_from_slice(&data.copy_to_bytes(beginning.min(size)));
            gathered.truncate(limits::FRAME_ID_WITHIN_BYTES);
            gathered.shrink_to_fit();
            if dropped > limits::HTTP_DROPPED_BYTES_MAX {
                break;
            }
        } else {
            room.grow(&mut share, size).await?;
            gathered.extend_from_slice(&data.copy_to_bytes(size));
        }
    }
    Ok(if dropped > 0 {
        Sent::Oversized(gathered.into())
    } else {
        Sent::Whole(gathered.into(), share)
    })
}

/// A body that holds on to something until it has been taken or given up.
pub(super) fn holding<T: Send + Sync + Unpin + 'static>(body: Reply, held: T) -> Reply {
    Holding {
        body,
        held: Some(held),
    }
    .boxed()
}

struct Holding<T> {
    body: Reply,
    held: Option<T>,
}

impl<T: Unpin> Body for Holding<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None) = polled {
            self.held = None;
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
