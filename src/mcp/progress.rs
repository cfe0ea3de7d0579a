//! Progress notifications during a call, for callers that ask for them.

use std::{pin::pin, time::Duration};

use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::time::{MissedTickBehavior, interval};

use midex_domain::limits;

/// Runs `work`. If the caller sent a progress token, notifies it every [`limits::PROGRESS_EVERY`] of the elapsed
/// seconds, and of `max_duration` as the total if that is known.
///
/// Notifications are sent from the task of the call: over HTTP, a notification from another task does not reach the
/// caller's stream.
pub(super) async fn run_with_progress<T>(
    context: &RequestContext<RoleServer>,
    tool: &str,
    max_duration: Option<Duration>,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else {
        return work.await;
    };
    let mut ticks = interval(limits::PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick completes immediately.
    let started_at = ticks.tick().await;
    let mut work = pin!(work);
    loop {
        let now = tokio::select! {
            biased;
            done = &mut work => return done,
            now = ticks.tick() => now,
        };
        let notice =
            build_progress_notification(token.clone(), tool, now - started_at, max_duration);
        let mut sending = pin!(context.peer.notify_progress(notice));
        tokio::select! {
            biased;
            done = &mut work => {
                // Finish the pending notification first, so that it does not arrive after the answer.
                let _ = sending.await;
                return done;
            }
            // If a notification cannot be sent, neither can the answer. The work is completed anyway.
            _ = &mut sending => {}
        }
    }
}

fn build_progress_notification(
    token: ProgressToken,
    tool: &str,
    elapsed: Duration,
    max_duration: Option<Duration>,
) -> ProgressNotificationParam {
    let seconds = elapsed.as_secs_f64();
    let message = format!("{tool}: at work for {seconds:.0} s");
    let notice = ProgressNotificationParam::new(token, seconds).with_message(message);
    match max_duration {
        Some(longest) => notice.with_total(longest.as_secs_f64().max(seconds)),
        None => notice,
    }
}
