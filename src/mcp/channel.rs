//! Whether what a client did not ask for reaches it.

use http::request::Parts;
use rmcp::model::Extensions;
use tokio::sync::watch;

/// Whether a notification reaches the client now. Over a pair of streams it always does; a session over HTTP must
/// have a stream open for it, and what is sent meanwhile is lost sooner or later.
#[derive(Clone, Debug, Default)]
pub(super) struct NotificationChannel(Option<watch::Receiver<usize>>);

impl NotificationChannel {
    /// For a client that has as many streams open as `streams` says.
    pub(super) fn through(streams: watch::Receiver<usize>) -> Self {
        Self(Some(streams))
    }

    /// That of the client whose message carries these extensions.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let parts = extensions.get::<Parts>();
        parts
            .and_then(|parts| parts.extensions.get::<Self>())
            .cloned()
            .unwrap_or_default()
    }

    /// Waits until a notification reaches the client; false where it never will again.
    pub(super) async fn open(&mut self) -> bool {
        match &mut self.0 {
            Some(streams) => streams.wait_for(|open| *open > 0).await.is_ok(),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_opens_with_a_stream_and_ends_with_the_session() {
        assert!(NotificationChannel::default().open().await);
        let streams = watch::Sender::new(0);
        let mut channel = NotificationChannel::through(streams.subscribe());
        let waiting = tokio::spawn({
            let mut channel = channel.clone();
            async move { channel.open().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        streams.send_replace(1);
        assert!(waiting.await.expect("no panic"));
        streams.send_replace(0);
        drop(streams);
        assert!(!channel.open().await);
    }
}
