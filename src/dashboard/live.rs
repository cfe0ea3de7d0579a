//! The stream of an open page: after a change the page is rendered again, and the fragments that differ are sent.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    page::PageContent, pages, replies::error_response, source::Watch, state::Dashboard,
    viewer::Viewer,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_http::web::{HeaderMap, IntoResponse, Query, Response, Sse, State, sse};

#[derive(Deserialize)]
pub(crate) struct StreamQuery {
    /// The path of the page, with its query.
    page: String,
    /// What the browser has of the page.
    #[serde(default)]
    version: String,
}

/// Follows a page.
pub(crate) async fn stream(
    State(dashboard): State<Dashboard>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Response {
    let streams = dashboard.streams;
    let Ok(slot) = streams.clone().try_acquire_owned() else {
        let message = format!("{} pages are open already", limits::DASHBOARD_STREAMS_MAX);
        return error_response(&dashboard.viewer, &Error::new(Code::ServerBusy, message), "/");
    };
    let last = midex_http::access::get_header_text(&headers, "last-event-id");
    let version = last.map_or(query.version, str::to_owned);
    let live = LivePage {
        viewer: dashboard.viewer,
        address: query.page,
        version,
        watch: None,
        wait: Duration::ZERO,
        is_offline: false,
        stop: dashboard.stop,
        streams,
        _slot: slot,
    };
    let keep_alive = sse::KeepAlive::new().interval(limits::DASHBOARD_REFRESH_EVERY);
    Sse::new(live.into_events()).keep_alive(keep_alive).into_response()
}

/// A page in a browser, and what the browser has of it.
struct LivePage {
    viewer: Viewer,
    address: String,
    version: String,
    watch: Option<Watch>,
    /// The least time until the next rendering.
    wait: Duration,
    /// True if the last event reported that the page cannot be rendered.
    is_offline: bool,
    stop: CancellationToken,
    streams: Arc<Semaphore>,
    _slot: OwnedSemaphorePermit,
}

impl LivePage {
    fn into_events(self) -> impl Stream<Item = Result<sse::Event, Infallible>> + Send {
        stream::unfold(self, async |mut live| {
            let stop = live.stop.clone();
            let event = Box::pin(stop.run_until_cancelled(live.next_event())).await?;
            Some((Ok(event), live))
        })
    }

    async fn next_event(&mut self) -> sse::Event {
        loop {
            self.wait_for_change().await;
            let rendered = self.render().await;
            let event = match rendered {
                Ok(page) => self.compare(&page),
                Err(error) => self.report(&error),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// Waits until the page may have changed, and until it may be rendered again. The first rendering comes at once: the page
    /// may have changed since the browser got it.
    async fn wait_for_change(&mut self) {
        tokio::time::sleep(self.wait).await;
        if let Some(watch) = &mut self.watch {
            let change = watch.wait_for_change();
            let is_served = tokio::time::timeout(limits::DASHBOARD_REFRESH_EVERY, change).await;
            if is_served == Ok(false) {
                self.watch = None;
            }
        }
    }

    /// Renders the page. What changes meanwhile is rendered next time.
    async fn render(&mut self) -> Result<PageContent> {
        if let Some(watch) = &mut self.watch {
            watch.forget_changes();
        } else {
            // The topics are known only after rendering. The second rendering below shows changes from before the subscription.
            let page = pages::render(&self.viewer, &self.address).await?;
            self.watch = Some(self.viewer.source.watch(&page.topics).await?);
        }
        let begin = now();
        let page = pages::render(&self.viewer, &self.address).await;
        let open_pages = limits::DASHBOARD_STREAMS_MAX - self.streams.available_permits();
        let open_pages = u32::try_from(open_pages).unwrap_or(u32::MAX);
        let share = begin.elapsed() * limits::DASHBOARD_UPDATE_SHARE * open_pages;
        self.wait = share.clamp(limits::DASHBOARD_UPDATE_EVERY, limits::DASHBOARD_UPDATE_WAIT_MAX);
        page
    }

    /// The fragments that differ from what the browser has.
    fn compare(&mut self, page: &PageContent) -> Option<sse::Event> {
        let version = page.version();
        let was_offline = std::mem::take(&mut self.is_offline);
        if version == self.version && !was_offline {
            return None;
        }
        let data = match page.changed_since(&self.version) {
            Some(changed) => {
                let parts = changed.iter().map(|part| json!({ "id": part.id, "html": part.html }));
                json!({ "fragments": parts.collect::<Vec<_>>() })
            }
            None => json!({ "reload": true }),
        };
        self.version.clone_from(&version);
        Some(sse::Event::default().id(version).data(data.to_string()))
    }

    /// Tells the browser once that the page cannot be read now.
    fn report(&mut self, error: &Error) -> Option<sse::Event> {
        self.watch = None;
        self.wait = self.wait.max(limits::STORE_RETRY_EVERY);
        if std::mem::replace(&mut self.is_offline, true) {
            return None;
        }
        let data = json!({ "problem": error.message() });
        Some(sse::Event::default().data(data.to_string()))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a rendering took, which no state depends on"
)]
fn now() -> Instant {
    Instant::now()
}
