//! Problems of a `midex serve` with the effective settings, which arise from their combination although each is valid.

use serde::Serialize;

use super::super::{ServeArgs, command::suggested_action};
use midex_domain::finding::Severity;

/// A problem that is not located at a single line of a file.
#[derive(Debug, Serialize)]
pub(in super::super) struct ConfigNotice {
    /// An error if `midex serve` would end because of it.
    pub(in super::super) severity: Severity,
    pub(in super::super) message: String,
    /// How to fix it.
    pub(in super::super) mend: String,
}

/// The notices for a server with these flags.
pub(super) fn server_notices(args: &ServeArgs) -> Vec<ConfigNotice> {
    let notices = [invalid_flags_notice(args), unanswered_host_notice(args)];
    notices.into_iter().flatten().collect()
}

fn invalid_flags_notice(args: &ServeArgs) -> Option<ConfigNotice> {
    let error = args.transports.check().err()?;
    Some(ConfigNotice {
        severity: Severity::Error,
        message: format!("`midex serve` would end at once: {}: {}", error.code(), error.message()),
        mend: suggested_action(&error),
    })
}

fn unanswered_host_notice(args: &ServeArgs) -> Option<ConfigNotice> {
    args.transports.answers_no_host().then(|| ConfigNotice {
        severity: Severity::Warning,
        message: "a host that starts `midex serve` gets no answer: `stdio = false` stands beside `http`".into(),
        mend: "remove `stdio = false`, or have the hosts use the address: `midex install --client HOST --http URL`".into(),
    })
}
