//! Tracks whether unsolicited notifications can reach a client.

use http::request::Parts;
use rmcp::model::Extensions;
use tokio::sync::watch;

/// Whether a notification can reach the client now. Over a pair of streams it always can. An HTTP session must have a
/// stream open for it; notifications sent without one are eventually lost.
#[derive(Clone, Debug, Default)]
pub(super) struct NotificationChannel(Option<watch::Receiver<usize>>);

impl NotificationChannel {
    /// For a client whose number of open streams is `streams`.
    pub(super) fn from_stream_count(streams: watch::Receiver<usize>) -> Self {
        Self(Some(streams))
    }

    /// The channel of the client whose message has these extensions.
    pub(super) fn from_extensions(extensions: &Extensions) -> Self {
        let parts = extensions.get::<Parts>();
        parts.and_then(|parts| parts.extensions.get::<Self>()).cloned().unwrap_or_default()
    }

    /// Waits until a notification can reach the client. Returns false if the session has ended, so that none ever will.
    pub(super) async fn wait_until_open(&mut self) -> bool {
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
    async fn channel_follows_session_streams() {
        assert!(NotificationChannel::default().wait_until_open().await);
        let streams = watch::Sender::new(0);
        let mut channel = NotificationChannel::from_stream_count(streams.subscribe());
        let waiting = tokio::spawn({
            let mut channel = channel.clone();
            async move { channel.wait_until_open().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        streams.send_replace(1);
        assert!(waiting.await.expect("no panic"));
        streams.send_replace(0);
        drop(streams);
        assert!(!channel.wait_until_open().await);
    }
}
