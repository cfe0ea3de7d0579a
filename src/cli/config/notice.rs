//! What is to be said of a `midex serve` with the settings that hold, though each of them is sound by itself.

use serde::Serialize;

use super::super::{ServeArgs, command::mend};
use midex_domain::finding::Severity;

/// Something that concerns no line of a file alone.
#[derive(Debug, Serialize)]
pub(in super::super) struct Notice {
    /// An error where `midex serve` would end.
    pub(in super::super) severity: Severity,
    pub(in super::super) message: String,
    /// What mends it.
    pub(in super::super) mend: String,
}

/// Everything there is to say of a server that is given these flags.
pub(super) fn notices(args: &ServeArgs) -> Vec<Notice> {
    let of = [refused(args), unanswered(args)];
    of.into_iter().flatten().collect()
}

fn refused(args: &ServeArgs) -> Option<Notice> {
    let error = args.transports.check().err()?;
    Some(Notice {
        severity: Severity::Error,
        message: format!(
            "`midex serve` would end at once: {}: {}",
            error.code(),
            error.message()
        ),
        mend: mend(&error),
    })
}

fn unanswered(args: &ServeArgs) -> Option<Notice> {
    args.transports.answers_no_host().then(|| Notice {
        severity: Severity::Warning,
        message: "a host that starts `midex serve` gets no answer: `stdio = false` stands beside `http`".into(),
        mend: "remove `stdio = false`, or have the hosts use the address: `midex install --client HOST --http URL`".into(),
    })
}
