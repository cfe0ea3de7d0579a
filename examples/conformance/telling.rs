//! Tools that tell something before they answer.
#![expect(deprecated, reason = "newer revisions deprecate logging; older clients have it")]

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{
        CallToolResponse, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    },
};
use serde_json::json;

use crate::{content::said, server::Fixtures, tools::Call};

/// Between two things told, so that a client can see that they come one by one.
const BETWEEN: Duration = Duration::from_millis(50);

pub(crate) async fn progress(call: Call) -> Result<CallToolResponse, ErrorData> {
    let token = call.cx.meta.get_progress_token();
    for (at, done) in [0.0, 50.0, 100.0].into_iter().enumerate() {
        if at > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        if let Some(token) = token.clone() {
            let told = ProgressNotificationParam::new(token, done).with_total(100.0);
            // A client that has gone wants no progress.
            let _ = call.cx.peer.notify_progress(told).await;
        }
    }
    Ok(said("Went from 0 to 100").into())
}

pub(crate) async fn logging(
    fixtures: &Fixtures,
    call: Call,
) -> Result<CallToolResponse, ErrorData> {
    let wanted = if call.is_modern() { call.cx.meta.log_level() } else { Some(fixtures.level()) };
    let lines = ["Tool execution started", "Tool processing data", "Tool execution completed"];
    for (at, line) in lines.into_iter().enumerate() {
        if at > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        if wanted.is_some_and(|level| severity(level) <= severity(LoggingLevel::Info)) {
            let told = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            let _ = call.cx.peer.notify_logging_message(told).await;
        }
    }
    Ok(said("Logged what there was to log").into())
}

/// The protocol names the levels from the least severe to the most.
fn severity(level: LoggingLevel) -> u8 {
    level as u8
}
