//! Logging to stderr, and to a file for a server with `--well-known`. `RUST_LOG` selects the lines, but cannot override the following rule.
//!
//! Only midex's own lines are shown with their message and fields: they are written so that none contains data that a
//! caller sent or received. Other crates log whole messages, headers and panics, some of them as errors, and may do so
//! in any later version. Therefore their events are shown only from `WARN` up and only with their place. Their spans,
//! whose fields would prefix midex's own lines, are not shown at all.
//!
//! Logging never blocks: lines are queued ([`queue`]), and each kind of line has a limit ([`kinds`]).

mod file;
mod queue;
mod rate_limit;

use std::{
    any::Any,
    fmt::{Debug, Write as _},
    io, panic,
    path::Path,
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{FilterExt, filter_fn},
    fmt::{self, format},
    layer::{Context, Filter, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use self::{file::JsonLogFile, queue::LineQueue};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// The text that replaces the message of another crate.
const WITHHELD_MESSAGE: &str = "its words are withheld: they may hold what was sent";

/// The log of this process. Dropping it, also in a panic, flushes the queued lines, for at most
/// [`limits::LOG_FLUSH_MAX`].
#[derive(Debug)]
pub(super) struct Log {
    stderr: LineQueue,
    file: Option<LineQueue>,
}

impl Log {
    /// Writes a line verbatim.
    pub(super) fn write_line(&self, line: &str) {
        self.stderr.push_line(format!("{line}\n").as_bytes());
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        for queue in [Some(&self.stderr), self.file.as_ref()].into_iter().flatten() {
            queue.flush(limits::LOG_FLUSH_MAX);
        }
    }
}

/// Starts logging; a second call has no effect. A server logs at `info`. Other commands print what the user has to
/// know, and log nothing unless `RUST_LOG` is set. The lines also go to `file` as JSON, if it is given: those of midex alone.
///
/// # Errors
/// `FILE_UNUSABLE` if the file cannot be opened.
pub(super) fn start_logging(is_server: bool, file: Option<&Path>) -> Result<Log> {
    let opened = file.map(|path| {
        JsonLogFile::open(path).map_err(|error| {
            let message = format!("{} cannot be opened for the log: {error}", path.display());
            Error::new(Code::FileUnusable, message).with_source(error)
        })
    });
    let file = opened.transpose()?.map(LineQueue::start_writer);
    let queue = LineQueue::start_writer(io::stderr());
    let default_filter = if is_server {
        // rmcp and deadpool log again what calls are refused with, and their messages would be withheld anyway.
        "warn,rmcp=off,deadpool=off,midex=info"
    } else {
        "off"
    };
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_filter));
    let file_layer = file.as_ref().map(|queue| {
        let writer = queue.clone();
        let layer = fmt::layer().json().with_writer(move || writer.clone());
        layer.with_filter(filter_fn(is_from_own_crate).and(RateLimit(queue.clone())))
    });
    let layers = log_layers(&queue).and_then(file_layer);
    let _ = tracing_subscriber::registry().with(filter).with(layers).try_init();
    if is_server {
        panic::set_hook(Box::new(log_panic));
    }
    Ok(Log { stderr: queue, file })
}

/// The layers that format the selected events: midex's own with their message, others with only their place.
fn log_layers<S>(queue: &LineQueue) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let plain_layer = || {
        let queue = queue.clone();
        let layer = fmt::layer().with_writer(move || queue.clone());
        layer.with_ansi(false).log_internal_errors(false)
    };
    let own_layer =
        plain_layer().with_filter(filter_fn(is_from_own_crate).and(RateLimit(queue.clone())));
    let foreign_layer = plain_layer()
        .with_line_number(true)
        .fmt_fields(format::debug_fn(|writer, field, _| match field.name() {
            "message" => write!(writer, "{WITHHELD_MESSAGE}"),
            _ => Ok(()),
        }))
        .with_filter(
            filter_fn(|metadata| {
                !is_from_own_crate(metadata)
                    && metadata.is_event()
                    && *metadata.level() <= Level::WARN
            })
            .and(RateLimit(queue.clone())),
        );
    own_layer.and_then(foreign_layer)
}

/// Limits the lines of one kind. Lines are of one kind if they have the same level, place and error code.
struct RateLimit(LineQueue);

impl<S> Filter<S> for RateLimit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let line = metadata.line().unwrap_or_default();
        let kind = format!("{} {}:{line}", metadata.level(), metadata.target());
        let mut kind = LineKind(kind);
        if is_from_own_crate(metadata) {
            event.record(&mut kind);
        }
        self.0.admits_kind(kind.0)
    }
}

/// The kind of a line: its level, place and error code.
struct LineKind(String);

impl Visit for LineKind {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "code" {
            let _ = write!(self.0, " {value}");
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// The crates whose log lines contain no data of callers.
const OWN_CRATES: [&str; 14] = [
    "midex",
    "midex_catalog",
    "midex_cli",
    "midex_cluster",
    "midex_dashboard",
    "midex_domain",
    "midex_engine",
    "midex_folder",
    "midex_http",
    "midex_mcp",
    "midex_picture",
    "midex_postgres",
    "midex_registry",
    "midex_server",
];

fn is_from_own_crate(metadata: &Metadata<'_>) -> bool {
    let module = metadata.target().split("::").next();
    module.is_some_and(|name| OWN_CRATES.contains(&name))
}

/// Logs the place of a panic. A formatted panic message is withheld, because it may contain a caller's text: slicing a
/// string inside a character, for example, prints the string.
fn log_panic(panic: &panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    tracing::error!(
        place = place.as_deref().unwrap_or("nowhere"),
        words = literal_panic_message(panic.payload()),
        "a panic"
    );
}

/// The message of a panic, if it is a string literal of the program.
fn literal_panic_message(panic: &dyn Any) -> &'static str {
    panic.downcast_ref::<&'static str>().copied().unwrap_or(WITHHELD_MESSAGE)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use super::*;

    const CANARY: &str = "canary-5e1f";

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log that `work` writes with the filter `filter`.
    fn capture_log(filter: &str, work: impl FnOnce()) -> String {
        let buffer = LogBuffer::default();
        let queue = LineQueue::start_writer(buffer.clone());
        let subscriber =
            tracing_subscriber::registry().with(EnvFilter::new(filter)).with(log_layers(&queue));
        tracing::subscriber::with_default(subscriber, work);
        queue.flush(Duration::from_secs(60));
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// The ways in which another crate may log a secret at one level.
    macro_rules! foreign {
        ($target:literal, $level:expr) => {
            let span = tracing::span!(target: $target, $level, "serve", secret = CANARY);
            span.in_scope(|| {
                tracing::event!(target: $target, $level, "Failed to serve session: {CANARY}");
                tracing::event!(target: $target, $level, error = CANARY, message = CANARY);
                tracing::event!(target: $target, $level, evt = ?Some(CANARY));
                tracing::info!(target: "midex::mcp", code = "OURS", "our own line");
            });
        };
    }

    #[test]
    fn foreign_messages_are_withheld() {
        for filter in [
            "trace",
            "rmcp=trace,hyper=trace,sse_stream=trace,tokio=trace,midex=trace",
            "rmcp::transport::streamable_http_server=trace,hyper::proto=trace,midex=trace",
            "trace,[serve]=trace,[{secret}]=trace",
        ] {
            let log_text = capture_log(filter, || {
                foreign!("rmcp::transport::streamable_http_server::tower", Level::ERROR);
                foreign!("rmcp::service", Level::WARN);
                foreign!("hyper::proto", Level::ERROR);
                foreign!("sse_stream", Level::INFO);
                foreign!("tokio", Level::DEBUG);
                // A crate whose name merely starts with a name of ours is another crate.
                foreign!("midex_other", Level::TRACE);
            });
            assert!(!log_text.contains(CANARY), "{filter}: {log_text}");
            assert!(!log_text.contains("Failed to"), "{filter}: {log_text}");
            let lines = |part: &str| log_text.lines().filter(|line| line.contains(part)).count();
            assert_eq!(lines("OURS"), 6, "{filter}: {log_text}");
            assert!(lines("ERROR rmcp::transport::streamable_http_server::tower: ") > 0);
            assert!(lines(WITHHELD_MESSAGE) > 0, "{filter}: {log_text}");
            assert_eq!(lines("sse_stream") + lines("tokio") + lines("midex_other"), 0);
        }
    }

    #[test]
    fn filter_hides_other_lines() {
        let log_text = capture_log("warn,rmcp=off", || {
            foreign!("rmcp::service", Level::ERROR);
            tracing::warn!(target: "midex::store", "ours");
        });
        assert_eq!(log_text.lines().count(), 1, "{log_text}");
        assert!(log_text.contains("WARN midex::store: ours"), "{log_text}");
    }

    #[test]
    fn repeated_lines_are_counted() {
        let limit = limits::LOG_LINES_OF_A_KIND_MAX;
        let log_text = capture_log("info", || {
            for _ in 0..limit + 3 {
                for code in ["ONE", "OTHER"] {
                    tracing::info!(target: "midex::mcp", code, other = CANARY, "ours");
                }
                tracing::info!(target: "rmcp::service", code = CANARY, "never told");
                tracing::warn!(target: "rmcp::service", code = CANARY, "theirs");
            }
        });
        let lines = |part: &str| log_text.lines().filter(|line| line.contains(part)).count();
        assert_eq!((lines("code=\"ONE\""), lines("code=\"OTHER\"")), (limit, limit));
        assert_eq!((lines(WITHHELD_MESSAGE), lines("more lines like")), (limit, 3));
        for kind in [" ONE`", " OTHER`", "WARN rmcp::service:"] {
            let left_out = log_text.lines().filter(|line| line.starts_with("3 more lines"));
            assert!(left_out.clone().any(|line| line.contains(kind)), "{kind}: {log_text}");
        }
    }

    #[test]
    fn formatted_panics_are_withheld() {
        let payload = panic::catch_unwind(|| panic!("fixed")).unwrap_err();
        assert_eq!(literal_panic_message(&*payload), "fixed");
        let result = panic::catch_unwind(|| panic!("put together: {CANARY}{}", CANARY.len()));
        assert_eq!(literal_panic_message(&*result.unwrap_err()), WITHHELD_MESSAGE);
    }
}
