//! Logs, on stderr. `RUST_LOG` chooses what is seen; it cannot lift the rule below.
//!
//! Only midex's own lines have words: they are written so that none holds what a caller sent or was sent. Other
//! crates print whole messages, headers and panics, some of them as errors, and may do so in any later version. So
//! what they tell is shown from `WARN` up, by its place alone, and their spans, whose fields would stand in front of
//! midex's own lines, not at all.

use std::{any::Any, io, panic};

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::filter_fn,
    fmt::{self, MakeWriter, format},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

/// Stands in place of another crate's words.
const WITHHELD: &str = "its words are withheld: they may hold what was sent";

/// Starts logging. A second start is ignored. Commands that end tell their user themselves what was refused, and
/// that a server went away; a server tells its log.
pub(super) fn init(serves: bool) {
    let usual = if serves {
        // rmcp tells of every refused call once more, and may say nothing of it.
        "warn,rmcp=off,midex=info"
    } else {
        "warn,rmcp=off"
    };
    let chosen = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let _ = tracing_subscriber::registry()
        .with(chosen)
        .with(lines(io::stderr))
        .try_init();
    if serves {
        panic::set_hook(Box::new(tell_panic));
    }
}

/// What is written of what was chosen.
fn lines<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Clone + Send + Sync + 'static,
{
    let ours = fmt::layer()
        .with_writer(writer.clone())
        .with_ansi(false)
        .with_filter(filter_fn(is_ours));
    let theirs = fmt::layer()
        .with_writer(writer)
        .with_ansi(false)
        .with_line_number(true)
        .fmt_fields(format::debug_fn(|to, field, _| match field.name() {
            "message" => write!(to, "{WITHHELD}"),
            _ => Ok(()),
        }))
        .with_filter(filter_fn(|metadata| {
            !is_ours(metadata) && metadata.is_event() && *metadata.level() <= Level::WARN
        }));
    ours.and_then(theirs)
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().split("::").next() == Some("midex")
}

/// Says where a panic was. Words that were put together while it ran may hold a caller's: a text that is cut where no
/// character ends is printed whole.
fn tell_panic(panic: &panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    tracing::error!(
        place = place.as_deref().unwrap_or("nowhere"),
        words = fixed_words(panic.payload()),
        "a panic"
    );
}

/// The words of a panic that stand in the program as they are.
fn fixed_words(panic: &dyn Any) -> &'static str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or(WITHHELD)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use super::*;

    const CANARY: &str = "canary-5e1f";

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of what `work` tells, when everything is asked for.
    fn written(chosen: &str, work: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::registry()
            .with(EnvFilter::new(chosen))
            .with(lines(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, work);
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// What a foreign crate may do to a log, at one level.
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
    fn another_crate_is_told_of_by_its_place_alone_whatever_is_chosen() {
        for chosen in [
            "trace",
            "rmcp=trace,hyper=trace,sse_stream=trace,tokio=trace,midex=trace",
            "rmcp::transport::streamable_http_server=trace,hyper::proto=trace,midex=trace",
            "trace,[serve]=trace,[{secret}]=trace",
        ] {
            let told = written(chosen, || {
                foreign!(
                    "rmcp::transport::streamable_http_server::tower",
                    Level::ERROR
                );
                foreign!("rmcp::service", Level::WARN);
                foreign!("hyper::proto", Level::ERROR);
                foreign!("sse_stream", Level::INFO);
                foreign!("tokio", Level::DEBUG);
                // A name that only begins like ours is another crate's.
                foreign!("midex_other", Level::TRACE);
            });
            assert!(!told.contains(CANARY), "{chosen}: {told}");
            assert!(!told.contains("Failed to"), "{chosen}: {told}");
            let lines = |part: &str| told.lines().filter(|line| line.contains(part)).count();
            assert_eq!(lines("OURS"), 6, "{chosen}: {told}");
            assert!(lines("ERROR rmcp::transport::streamable_http_server::tower: ") > 0);
            assert!(lines(WITHHELD) > 0, "{chosen}: {told}");
            assert_eq!(
                lines("sse_stream") + lines("tokio") + lines("midex_other"),
                0
            );
        }
    }

    #[test]
    fn what_was_not_chosen_is_not_told() {
        let told = written("warn,rmcp=off", || {
            foreign!("rmcp::service", Level::ERROR);
            tracing::warn!(target: "midex::store", "ours");
        });
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains("WARN midex::store: ours"), "{told}");
    }

    #[test]
    fn of_a_panic_only_fixed_words_are_told() {
        let caught = panic::catch_unwind(|| panic!("fixed")).unwrap_err();
        assert_eq!(fixed_words(&*caught), "fixed");
        let caught = panic::catch_unwind(|| panic!("put together: {CANARY}{}", CANARY.len()));
        assert_eq!(fixed_words(&*caught.unwrap_err()), WITHHELD);
    }
}
