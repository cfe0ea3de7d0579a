//! What a caller who asks for it is told while a call is being worked on.

use std::{pin::pin, time::Duration};

use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::time::{MissedTickBehavior, interval};

use midex_domain::limits;

/// Does the work. Where the caller gave a token it is told every [`limits::PROGRESS_EVERY`] how many seconds that has
/// taken, of `longest` where that is known.
///
/// All from the task of the call: what other tasks send does not find the caller's stream over HTTP.
pub(super) async fn with_progress<T>(
    context: &RequestContext<RoleServer>,
    tool: &str,
    longest: Option<Duration>,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else {
        return work.await;
    };
    let mut ticks = interval(limits::PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first is at once.
    let begun = ticks.tick().await;
    let mut work = pin!(work);
    loop {
        let now = tokio::select! {
            biased;
            done = &mut work => return done,
            now = ticks.tick() => now,
        };
        let notice = notice(token.clone(), tool, now - begun, longest);
        let mut sending = pin!(context.peer.notify_progress(notice));
        tokio::select! {
            biased;
            done = &mut work => {
                // What is on its way must not come after the answer.
                let _ = sending.await;
                return done;
            }
            // Where it cannot be sent the answer cannot either; the work is done all the same.
            _ = &mut sending => {}
        }
    }
}

fn notice(
    token: ProgressToken,
    tool: &str,
    elapsed: Duration,
    longest: Option<Duration>,
) -> ProgressNotificationParam {
    let seconds = elapsed.as_secs_f64();
    let message = format!("{tool}: at work for {seconds:.0} s");
    let notice = ProgressNotificationParam::new(token, seconds).with_message(message);
    match longest {
        Some(longest) => notice.with_total(longest.as_secs_f64().max(seconds)),
        None => notice,
    }
}
